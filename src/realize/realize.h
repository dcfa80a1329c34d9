/* SPDX-License-Identifier: MIT
 *
 * What the realize layer keeps for a context.
 */
#ifndef TK_REALIZE_REALIZE_H
#define TK_REALIZE_REALIZE_H

#include "base/vec.h"
#include "jit/device.h"
#include "realize/counters.h"
#include "realize/fork.h"
#include "realize/guarded_cache.h"
#include "realize/hooks.h"
#include "realize/state.h"

#include <pthread.h>

/* A place in the table of devices. */
typedef struct tk_device_slot_at {
    const tk_family *family;
    uint32_t ordinal;
    tolk_device *device; /* NULL: not opened since it was destroyed */
} tk_device_slot_at;

typedef struct tk_limits_of {
    char family[64];
    tolk_limits limits;
} tk_limits_of;

typedef struct tk_realize {
    tolk_ctx *ctx;
    _Atomic int64_t forks; /* tk_fork_count() that all locks are of */
    tk_hooks *hooks;
    tk_guarded_cache *kernels;
    struct tk_schedule_cache *schedules;
    struct tk_natives *natives; /* functions registered as kernels: kernel.c */
    pthread_mutex_t order;      /* around hazards, submission and use: memory.h */
    /* Under it, and changed under `lock` too: room for a point of each queue. */
    tk_point *points; /* few_points, or n_points allocated ones */
    size_t n_points;
    tk_point few_points[16];

    /* Of functions registered as kernels, nodes bound in scopes, what merge buffers hold. Taken
     * before all others of the context. */
    pthread_mutex_t names;

    /* Numbers of tolk_stats(): counters.h. */
    _Atomic uint64_t counts[TK_COUNTS];

    pthread_mutex_t lock; /* of what follows */
    bool enumerated;
    TK_VEC(tk_device_slot_at) table; /* by index */
    TK_VEC(tolk_device *) all;       /* every device ever made */
    TK_VEC(tk_limits_of) limits;     /* families that were asked for */
    uint64_t last_uid;
    uint32_t spin_us;
    /* Queues that may run at once, not those of devices that were destroyed: 1 where there is only
     * one device, which then needs no hazards. */
    _Atomic uint32_t queues;
} tk_realize;

/* Made with the context, before families are. Errors: TOLK_E_NOMEM. */
tolk_status tk_realize_create(tolk_ctx *ctx, tolk_error *err);
static inline tk_realize *tk_realize_of(const tolk_ctx *ctx) {
    return ctx->part[TK_CTX_REALIZE];
}
void tk_realize_after_fork(tolk_ctx *ctx);
/* Called before a lock is taken where the process may have been forked: tk_ctx_after_fork, without
 * asking the system each time. */
static inline void tk_realize_here(tolk_ctx *ctx) {
    if (atomic_load_explicit(&tk_realize_of(ctx)->forks, memory_order_acquire) != tk_fork_count())
        tk_realize_after_fork(ctx);
}

#endif
