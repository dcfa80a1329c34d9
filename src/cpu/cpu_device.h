/* SPDX-License-Identifier: MIT
 *
 * The device "CPU".
 */
#ifndef TK_CPU_CPU_DEVICE_H
#define TK_CPU_CPU_DEVICE_H

#include "jit/backend.h"

/* Look at the CPU and add its device to the context. */
tolk_status tk_cpu_device_register(tolk_ctx *ctx, tolk_error *err);

#endif
