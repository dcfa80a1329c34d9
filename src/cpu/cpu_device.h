/* SPDX-License-Identifier: MIT
 *
 * The devices "CPU", "CPU:1", ...: parts of one machine's cores, each a device of its own.
 */
#ifndef TK_CPU_CPU_DEVICE_H
#define TK_CPU_CPU_DEVICE_H

#include "jit/backend.h"

enum { TK_CPU_DEVICES = 256 }; /* at most */

/* Look at the CPU and add its family to the context. */
tolk_status tk_cpu_family_add(tolk_ctx *ctx, tolk_error *err);

#endif
