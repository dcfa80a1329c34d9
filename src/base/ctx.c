/* SPDX-License-Identifier: MIT */
#include "base/ctx.h"

#include "base/env.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <sched.h>
#include <unistd.h>

tolk_status tk_ctx_init(const tolk_ctx_opts *opts, tolk_ctx **out, tolk_error *err) {
    static const tolk_ctx_opts defaults = TOLK_CTX_OPTS_INIT;
    if (!opts)
        opts = &defaults;
    if (opts->size != sizeof *opts)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_ctx_opts.size is %u, this library knows %zu (use "
                              "TOLK_CTX_OPTS_INIT)",
                              opts->size, sizeof *opts);
    const tolk_allocator *al = opts->allocator ? opts->allocator : &tk_alloc_malloc;
    if (!al->alloc || !al->resize || !al->release)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_allocator needs alloc, resize and release");
    tolk_ctx *ctx = tk_alloc_zero(al, sizeof *ctx);
    if (!ctx)
        return tk_status_nomem(err);
    ctx->al = *al;
    ctx->log = opts->log ? opts->log : tk_log_stderr;
    ctx->log_user = opts->log_user;
    ctx->no_environment = opts->no_environment != 0;
    ctx->no_disk_cache = opts->no_disk_cache != 0;
    ctx->threads = opts->threads;
    ctx->cpu_devices = opts->cpu_devices;
    ctx->synchronous = opts->synchronous != 0;
    ctx->cache_bytes = opts->cache_bytes ? opts->cache_bytes : (uint64_t)1 << 30;
    ctx->memory_entries = opts->memory_entries ? opts->memory_entries : 4096;
    atomic_init(&ctx->next_slot, 0);
    atomic_init(&ctx->pid, getpid());
    pthread_mutex_init(&ctx->log_lock, NULL);
    if (opts->cache_dir && *opts->cache_dir) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &ctx->al);
        tk_strbuf_str(&sb, opts->cache_dir);
        ctx->cache_dir = tk_strbuf_take(&sb, NULL);
        if (!ctx->cache_dir) {
            tk_ctx_fini(ctx);
            return tk_status_nomem(err);
        }
    }
    ctx->debug = (int)tk_env_int(ctx, "TOLK_DEBUG", 0, 0, 9);
    ctx->perf = tk_env_int(ctx, "TOLK_PERF", 0, 0, 1) != 0;
    ctx->gdb = tk_env_int(ctx, "TOLK_GDB", 0, 0, 1) != 0;
    *out = ctx;
    return TOLK_OK;
}

void tk_ctx_after_fork(tolk_ctx *ctx) {
    int64_t me = getpid();
    for (;;) {
        int64_t was = atomic_load_explicit(&ctx->pid, memory_order_acquire);
        if (was == me)
            return;
        if (was == -me) /* another thread is at it */
            sched_yield();
        else if (atomic_compare_exchange_strong(&ctx->pid, &was, -me))
            break;
    }
    if (pthread_mutex_trylock(&ctx->log_lock) == 0) {
        pthread_mutex_unlock(&ctx->log_lock);
    } else {
        pthread_mutex_init(&ctx->log_lock, NULL);
        ctx->last_log = NULL; /* was being replaced, perhaps */
    }
    for (int i = 0; i < TK_CTX_PARTS; i++)
        if (ctx->part[i] && ctx->part_fork[i])
            ctx->part_fork[i](ctx, ctx->part[i]);
    atomic_store_explicit(&ctx->pid, me, memory_order_release);
}

void tk_ctx_fini(tolk_ctx *ctx) {
    if (!ctx)
        return;
    tk_ctx_after_fork(ctx);
    for (int i = TK_CTX_PARTS - 1; i >= 0; i--)
        if (ctx->part[i])
            ctx->part_destroy[i](ctx, ctx->part[i]);
    tk_strbuf_text_free(&ctx->al, ctx->cache_dir);
    tk_strbuf_text_free(&ctx->al, ctx->last_log);
    tk_strbuf_text_free(&ctx->al, ctx->shown_log);
    pthread_mutex_destroy(&ctx->log_lock);
    tolk_allocator al = ctx->al;
    tk_alloc_free(&al, ctx, sizeof *ctx);
}
