/* SPDX-License-Identifier: MIT */
#include "realize/realize.h"

#include "base/env.h"
#include "base/status.h"
#include "realize/kernel.h"
#include "realize/schedule_cache.h"
#include "schedule/capture.h"

/* What runs is ended first, while everything that it uses is still there. */
static void end_work(tolk_ctx *ctx, void *part) {
    (void)ctx;
    tk_realize *r = part;
    for (size_t i = 0; i < r->all.n; i++)
        (void)tk_queue_close(r->all.at[i]->realize->queue, NULL);
    tk_guarded_cache_destroy(r->kernels);
    tk_natives_destroy(ctx, r->natives);
    r->kernels = NULL;
    r->natives = NULL;
}

static void destroy(tolk_ctx *ctx, void *part) {
    tk_realize *r = part;
    for (size_t i = r->all.n; i-- > 0;)
        tk_book_release_external(&r->all.at[i]->realize->book);
    for (size_t i = r->all.n; i-- > 0;)
        tk_device_end(r->all.at[i]);
    tk_hooks_destroy(r->hooks);
    tk_schedule_cache_destroy(r->schedules);
    tk_vec_fini(&r->table);
    tk_vec_fini(&r->all);
    tk_vec_fini(&r->limits);
    pthread_mutex_destroy(&r->lock);
    pthread_mutex_destroy(&r->order);
    pthread_mutex_destroy(&r->names);
    if (r->points != r->few_points)
        tk_alloc_free(&ctx->al, r->points, r->n_points * sizeof *r->points);
    tk_alloc_free(&ctx->al, r, sizeof *r);
}

static void forked(tolk_ctx *ctx, void *part) {
    (void)ctx;
    tk_realize *r = part;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->order, NULL);
    pthread_mutex_init(&r->names, NULL);
    tk_hooks_forked(r->hooks);
    tk_guarded_cache_forked(r->kernels);
    tk_schedule_cache_forked(r->schedules);
    for (size_t i = 0; i < r->all.n; i++) {
        tk_queue_forked(r->all.at[i]->realize->queue);
        tk_book_forked(&r->all.at[i]->realize->book);
    }
}

void tk_realize_after_fork(tolk_ctx *ctx) {
    int64_t now = tk_fork_count();
    tk_ctx_after_fork(ctx);
    atomic_store_explicit(&tk_realize_of(ctx)->forks, now, memory_order_release);
}

tolk_status tk_realize_create(tolk_ctx *ctx, tolk_error *err) {
    tk_realize *r = tk_alloc_zero(&ctx->al, sizeof *r);
    if (!r)
        return tk_status_nomem(err);
    r->ctx = ctx;
    atomic_init(&r->forks, tk_fork_count());
    r->spin_us = (uint32_t)tk_env_int(ctx, "TOLK_SPIN_US", 20, 0, 1000000);
    atomic_init(&r->queues, 1);
    r->points = r->few_points;
    r->n_points = sizeof r->few_points / sizeof *r->few_points;
    tk_vec_init(&r->table, &ctx->al);
    tk_vec_init(&r->all, &ctx->al);
    tk_vec_init(&r->limits, &ctx->al);
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->order, NULL);
    pthread_mutex_init(&r->names, NULL);
    tolk_status st = tk_hooks_create(&ctx->al, &r->hooks, err);
    if (st == TOLK_OK)
        st = tk_guarded_cache_create(&ctx->al, &tk_kernel_cache_ops, true, &r->kernels, err);
    if (st == TOLK_OK)
        st = tk_schedule_cache_create(ctx, &r->schedules, err);
    if (st == TOLK_OK)
        st = tk_natives_create(ctx, &r->natives, err);
    if (st == TOLK_OK)
        st = tk_capture_create(ctx, err);
    if (st != TOLK_OK) {
        end_work(ctx, r);
        destroy(ctx, r);
        return st;
    }
    ctx->part[TK_CTX_REALIZE] = ctx->part[TK_CTX_RUNNING] = r;
    ctx->part_destroy[TK_CTX_REALIZE] = destroy;
    ctx->part_destroy[TK_CTX_RUNNING] = end_work;
    ctx->part_fork[TK_CTX_REALIZE] = forked;
    return TOLK_OK;
}
