/* SPDX-License-Identifier: MIT */
#include "schedule/capture.h"

typedef struct entry {
    struct entry *outer; /* of any thread */
    uint64_t thread;
    tk_capture capture;
} entry;

/* The list is whole at every moment, so that a child of a fork finds its own captures in it; what
 * other threads of its parent pushed nobody looks at there. */
typedef struct captures {
    pthread_mutex_t lock;
    _Atomic size_t n;
    entry *innermost;
} captures;

/* This thread's number; that of a thread that has ended is never another one's. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return number;
}

static void destroy(tolk_ctx *ctx, void *part) {
    captures *c = part;
    for (entry *x; (x = c->innermost);) {
        c->innermost = x->outer;
        tk_alloc_free(&ctx->al, x, sizeof *x);
    }
    pthread_mutex_destroy(&c->lock);
    tk_alloc_free(&ctx->al, c, sizeof *c);
}

static void forked(tolk_ctx *ctx, void *part) {
    (void)ctx;
    pthread_mutex_init(&((captures *)part)->lock, NULL);
}

tolk_status tk_capture_create(tolk_ctx *ctx, tolk_error *err) {
    captures *c = tk_alloc_zero(&ctx->al, sizeof *c);
    if (!c)
        return tk_status_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    ctx->part[TK_CTX_CAPTURE] = c;
    ctx->part_destroy[TK_CTX_CAPTURE] = destroy;
    ctx->part_fork[TK_CTX_CAPTURE] = forked;
    return TOLK_OK;
}

/* Where the innermost one of this thread hangs; *NULL: there is none. */
static entry **own(captures *c) {
    entry **at = &c->innermost;
    while (*at && (*at)->thread != this_thread())
        at = &(*at)->outer;
    return at;
}

tolk_status tk_capture_push(tolk_ctx *ctx, const tk_capture *capture, tolk_error *err) {
    captures *c = ctx->part[TK_CTX_CAPTURE];
    tk_ctx_after_fork(ctx);
    entry *x = tk_alloc(&ctx->al, sizeof *x);
    if (!x)
        return tk_status_nomem(err);
    *x = (entry){.thread = this_thread(), .capture = *capture};
    pthread_mutex_lock(&c->lock);
    x->outer = c->innermost;
    c->innermost = x;
    atomic_fetch_add_explicit(&c->n, 1, memory_order_relaxed);
    pthread_mutex_unlock(&c->lock);
    return TOLK_OK;
}

tolk_status tk_capture_pop(tolk_ctx *ctx, tolk_error *err) {
    captures *c = ctx->part[TK_CTX_CAPTURE];
    tk_ctx_after_fork(ctx);
    pthread_mutex_lock(&c->lock);
    entry **at = own(c), *x = *at;
    if (x) {
        *at = x->outer;
        atomic_fetch_sub_explicit(&c->n, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&c->lock);
    if (!x)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "no capture of this thread is there to be ended");
    tk_alloc_free(&ctx->al, x, sizeof *x);
    return TOLK_OK;
}

bool tk_capture_find(tolk_ctx *ctx, tk_capture *out) {
    captures *c = ctx->part[TK_CTX_CAPTURE];
    if (!atomic_load_explicit(&c->n, memory_order_relaxed))
        return false; /* this thread's own pushes it would see */
    tk_ctx_after_fork(ctx);
    pthread_mutex_lock(&c->lock);
    const entry *x = *own(c);
    if (x)
        *out = x->capture;
    pthread_mutex_unlock(&c->lock);
    return x != NULL;
}
