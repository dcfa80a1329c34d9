/* SPDX-License-Identifier: MIT
 *
 * The devices of a context.
 */
#ifndef TK_JIT_DEVICE_H
#define TK_JIT_DEVICE_H

#include "jit/backend.h"

/* Add a device. name: canonical, copied. state: the backend's, given to backend->destroy. Called
 * while a context is made. */
tolk_status tk_device_register(tolk_ctx *ctx, const tk_backend *backend, const char *name,
                               void *state, tolk_error *err);

/* Begin a launch on a device: *flag becomes 1 when it is to stop. Ends with tk_device_leave. A
 * device keeps track of TK_DEVICE_LAUNCHES launches at once; more of them run, but cannot be
 * cancelled. */
int tk_device_enter(tolk_device *device, const _Atomic uint32_t **flag);
void tk_device_leave(tolk_device *device, int slot);

#endif
