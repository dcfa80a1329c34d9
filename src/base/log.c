/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/status.h"
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>

void tk_log_stderr(void *user, tolk_log_level level, const char *text) {
    (void)user;
    static const char *const names[] = {"error", "warning", "info", "debug"};
    fprintf(stderr, "tolk: %s: %s\n", names[level], text);
}

void tk_log(tolk_ctx *ctx, tolk_log_level level, const char *fmt, ...) {
    if (level >= TOLK_LOG_INFO && ctx->debug < (int)level - 1)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    tk_status_clean(text);
    tk_ctx_after_fork(ctx);
    pthread_mutex_lock(&ctx->log_lock);
    ctx->log(ctx->log_user, level, text);
    pthread_mutex_unlock(&ctx->log_lock);
}

void tk_log_keep(tolk_ctx *ctx, const char *text, size_t len) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, text, len);
    char *copy = tk_strbuf_take(&sb, NULL);
    tk_ctx_after_fork(ctx);
    pthread_mutex_lock(&ctx->log_lock);
    tk_strbuf_text_free(&ctx->al, ctx->last_log);
    ctx->last_log = copy;
    pthread_mutex_unlock(&ctx->log_lock);
}

const char *tolk_last_log(tolk_ctx *ctx) {
    if (!ctx)
        return "";
    tk_ctx_after_fork(ctx);
    pthread_mutex_lock(&ctx->log_lock);
    if (ctx->last_log) {
        tk_strbuf_text_free(&ctx->al, ctx->shown_log);
        ctx->shown_log = ctx->last_log;
        ctx->last_log = NULL;
    }
    const char *text = ctx->shown_log ? ctx->shown_log : "";
    pthread_mutex_unlock(&ctx->log_lock);
    return text;
}
