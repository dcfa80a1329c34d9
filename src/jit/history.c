/* SPDX-License-Identifier: MIT */
#include "jit/history.h"

#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

typedef struct entry {
    char kernel[64], target[64], opts[200], error[240];
    tolk_status status;
    tolk_cached cached;
    uint32_t lanes;
    size_t code_bytes;
    uint64_t number, total_ns;
    tk_phases phases;
} entry;

/* A ring: compilation number k is at[k % KEPT]. */
typedef struct history {
    pthread_mutex_t lock;
    uint64_t n; /* compilations so far */
    entry *at[TK_HISTORY_KEPT];
} history;

static void destroy(tolk_ctx *ctx, void *part) {
    history *h = part;
    for (int i = 0; i < TK_HISTORY_KEPT; i++)
        tk_alloc_free(&ctx->al, h->at[i], sizeof *h->at[i]);
    pthread_mutex_destroy(&h->lock);
    tk_alloc_free(&ctx->al, h, sizeof *h);
}

static void after_fork(tolk_ctx *ctx, void *part) {
    (void)ctx;
    pthread_mutex_init(&((history *)part)->lock, NULL);
}

/* The state is made on first use; the context's log lock guards that moment. */
static history *state(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    history *h = ctx->part[TK_CTX_HISTORY];
    if (!h && (h = tk_alloc_zero(&ctx->al, sizeof *h))) {
        pthread_mutex_init(&h->lock, NULL);
        ctx->part_destroy[TK_CTX_HISTORY] = destroy;
        ctx->part_fork[TK_CTX_HISTORY] = after_fork;
        ctx->part[TK_CTX_HISTORY] = h;
    }
    pthread_mutex_unlock(&ctx->log_lock);
    return h;
}

/* Cut between characters of UTF-8. */
static void copy_text(char *to, size_t bytes, const char *from) {
    size_t n = from ? strnlen(from, bytes) : 0;
    if (n == bytes)
        for (n = bytes - 1; n && ((unsigned char)from[n] & 0xc0) == 0x80;)
            n--;
    if (n)
        memcpy(to, from, n);
    to[n] = 0;
}

void tk_history_add(tolk_ctx *ctx, const tk_history_record *r) {
    history *h = state(ctx);
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    entry **at = &h->at[h->n % TK_HISTORY_KEPT];
    if (!*at)
        *at = tk_alloc_zero(&ctx->al, sizeof **at);
    if (*at) {
        entry *e = *at;
        copy_text(e->kernel, sizeof e->kernel, r->kernel);
        copy_text(e->target, sizeof e->target, r->target);
        copy_text(e->opts, sizeof e->opts, r->opts);
        copy_text(e->error, sizeof e->error, r->error);
        e->status = r->status;
        e->cached = r->cached;
        e->lanes = r->lanes;
        e->code_bytes = r->code_bytes;
        e->number = h->n;
        e->total_ns = r->total_ns;
        e->phases = *r->phases;
        h->n++;
    }
    pthread_mutex_unlock(&h->lock);
}

static void put_entry(tk_strbuf *sb, const entry *e) {
    static const char *const from[] = {[TOLK_CACHED_NONE] = "none",
                                       [TOLK_CACHED_MEMORY] = "memory",
                                       [TOLK_CACHED_DISK] = "disk",
                                       [TOLK_CACHED_SAVED] = "saved"};
    tk_strbuf_fmt(sb, "{\"number\": %llu, \"kernel\": ", (unsigned long long)e->number);
    tk_strbuf_json(sb, e->kernel);
    tk_strbuf_str(sb, ", \"target\": ");
    tk_strbuf_json(sb, e->target);
    tk_strbuf_str(sb, ", \"opts\": ");
    tk_strbuf_json(sb, e->opts);
    tk_strbuf_fmt(sb, ", \"status\": \"%s\", \"error\": ", tolk_status_name(e->status));
    if (e->error[0])
        tk_strbuf_json(sb, e->error);
    else
        tk_strbuf_str(sb, "null");
    tk_strbuf_fmt(sb,
                  ", \"cached\": \"%s\", \"lanes\": %u, \"code_bytes\": %zu, \"total_ns\": %llu, "
                  "\"phases_ns\": {",
                  from[e->cached], e->lanes, e->code_bytes, (unsigned long long)e->total_ns);
    for (uint32_t i = 0; i < e->phases.n; i++)
        tk_strbuf_fmt(sb, "%s\"%s\": %llu", i ? ", " : "", e->phases.at[i].name,
                      (unsigned long long)e->phases.at[i].ns);
    tk_strbuf_str(sb, "}}");
}

tolk_status tolk_history(tolk_ctx *ctx, char **text, size_t *len) {
    if (!ctx || !text || !len)
        return TOLK_E_ARG;
    tk_ctx_after_fork(ctx);
    history *h = state(ctx);
    if (!h)
        return TOLK_E_NOMEM;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_char(&sb, '[');
    pthread_mutex_lock(&h->lock);
    uint64_t first = h->n > TK_HISTORY_KEPT ? h->n - TK_HISTORY_KEPT : 0;
    for (uint64_t k = first; k < h->n; k++) {
        if (k > first)
            tk_strbuf_str(&sb, ", ");
        put_entry(&sb, h->at[k % TK_HISTORY_KEPT]);
    }
    pthread_mutex_unlock(&h->lock);
    tk_strbuf_char(&sb, ']');
    *text = tk_strbuf_take(&sb, len);
    return *text ? TOLK_OK : TOLK_E_NOMEM;
}
