/* SPDX-License-Identifier: MIT */
#include "base/ctx.h"

#include "base/env.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

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
    ctx->cache_bytes = opts->cache_bytes ? opts->cache_bytes : (uint64_t)1 << 30;
    ctx->memory_entries = opts->memory_entries ? opts->memory_entries : 4096;
    atomic_init(&ctx->next_slot, 0);
    pthread_mutex_init(&ctx->log_lock, NULL);
    if (opts->cache_dir) {
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
    *out = ctx;
    return TOLK_OK;
}

void tk_ctx_fini(tolk_ctx *ctx) {
    if (!ctx)
        return;
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
