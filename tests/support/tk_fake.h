/* SPDX-License-Identifier: MIT
 *
 * Families of devices that tests make up: how many devices, what their limits are, and which calls
 * of their backend fail. Their memory is the host's; their kernels do not run.
 */
#ifndef TK_FAKE_H
#define TK_FAKE_H

#include "jit/device.h"

enum { TK_FAKE_DEVICES = 8 };

typedef struct tk_fake {
    tk_backend backend; /* set framework and priority; the rest is tk_fake_add's */
    uint32_t devices;
    tolk_limits limits[TK_FAKE_DEVICES];
    tolk_status count_fails, open_fails; /* TOLK_OK: they do not */
    bool host_hidden;                    /* memory is not host_visible, no transfer */
    /* Memory calls so far, and the one that fails, from 1; 0: none. */
    _Atomic int64_t calls, fail_at;
    bool fail_onward;              /* and all after it */
    _Atomic int64_t live;          /* allocations not released */
    _Atomic int64_t transfers;     /* calls of transfer */
    _Atomic int64_t counts, opens; /* calls of count and open */
    tk_memory_ops memory;
} tk_fake;

/* Add it to a context. f stays the caller's and outlives the context. */
void tk_fake_add(tolk_ctx *ctx, tk_fake *f);

#endif
