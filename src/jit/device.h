/* SPDX-License-Identifier: MIT
 *
 * Families of devices, device objects, and the launches that run on one.
 */
#ifndef TK_JIT_DEVICE_H
#define TK_JIT_DEVICE_H

#include "jit/backend.h"

/* Backends of a context, and what each keeps for all its devices. */
typedef struct tk_family {
    const tk_backend *backend;
    void *state; /* the backend's, freed by backend->family_destroy */
} tk_family;

/* Add a family. host: of the CPU that this process runs on, or NULL for the families of others; it
 * stays. Called while a context is made. Errors: TOLK_E_NOMEM; state then stays the caller's. */
tolk_status tk_family_add(tolk_ctx *ctx, const tk_backend *backend, void *state,
                          const tk_host *host, tolk_error *err);
size_t tk_family_count(const tolk_ctx *ctx);
const tk_family *tk_family_at(const tolk_ctx *ctx, size_t i);
/* The CPU that this process runs on; NULL: no family said it. */
const tk_host *tk_family_host(const tolk_ctx *ctx);

/* Make a device of a family; name: canonical, copied. Errors: TOLK_E_NOMEM, those of
 * backend->open. */
tolk_status tk_device_new(tolk_ctx *ctx, const tk_family *family, uint32_t ordinal,
                          const char *name, tolk_device **out, tolk_error *err);
void tk_device_free(tolk_device *device);

/* Begin a launch on a device: *flag becomes 1 when it is to stop. Ends with tk_device_leave. A
 * device keeps track of TK_DEVICE_LAUNCHES launches at once; more of them run, but cannot be
 * cancelled. */
int tk_device_enter(tolk_device *device, const _Atomic uint32_t **flag);
void tk_device_leave(tolk_device *device, int slot);

#endif
