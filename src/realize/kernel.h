/* SPDX-License-Identifier: MIT
 *
 * Kernels as the kernel cache holds them, and functions that stand for kernels.
 */
#ifndef TK_REALIZE_KERNEL_H
#define TK_REALIZE_KERNEL_H

#include "realize/guarded_cache.h"

#include <tolk/realize.h>

/* Values of tk_realize.kernels are tolk_kernel. */
extern const tk_cache_ops tk_kernel_cache_ops;

/* Functions that tolk_kernel_register() named. */
tolk_status tk_natives_create(tolk_ctx *ctx, struct tk_natives **out, tolk_error *err);
void tk_natives_destroy(tolk_ctx *ctx, struct tk_natives *natives); /* NULL does nothing */

#endif
