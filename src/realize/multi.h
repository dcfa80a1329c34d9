/* SPDX-License-Identifier: MIT
 *
 * Buffers on several devices.
 */
#ifndef TK_REALIZE_MULTI_H
#define TK_REALIZE_MULTI_H

#include "base/ctx.h"

#include <tolk/realize.h>

struct tolk_multi {
    _Atomic uint32_t refs;
    tolk_ctx *ctx;
    size_t n;
    tolk_buffer *at[]; /* referenced */
};

/* A multi of buffers that become its own, also on failure. Errors: TOLK_E_NOMEM, TOLK_E_SHAPE,
 * TOLK_E_DTYPE, TOLK_E_DEVICE. */
tolk_status tk_multi_adopt(tolk_buffer *const *buffers, size_t n, tolk_multi **out,
                           tolk_error *err);

#endif
