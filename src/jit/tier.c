/* SPDX-License-Identifier: MIT
 *
 * One thread a context compiles, one kernel after the other, and ends when nothing is left: no
 * thread outlives its work, and the child of a fork starts its own. A kernel for which there is no
 * thread, no memory or no better code stays as it is.
 */
#include "jit/tier.h"

#include "base/deep.h"
#include "base/log.h"

#include <string.h>

struct tk_tier {
    _Atomic uint32_t heat; /* work of the launches so far; HOT: better code was asked for */
    _Atomic bool done;
    char *text, *opts, *name; /* copies; opts, name of the target NULL: none were given */
    size_t n_text, n_opts, n_name;
    tk_target target;
    tolk_compile_opts how;
    tk_binary *binary; /* of the better code */
};

typedef struct job {
    struct job *next;
    tolk_program *program; /* a reference */
} job;

enum { WORK_STACK = 1 << 20 }; /* compilations make threads of their own */
enum { HOT = TK_TIER_WORK, ONE_LAUNCH = HOT / TK_TIER_LAUNCHES };

typedef struct tiers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    job *first, **last;
    bool runs, closing; /* the thread */
    bool started;       /* thread is one to be joined */
    pthread_t thread;
} tiers;

/* ---- the programs ---- */

static char *copy(tolk_ctx *ctx, const char *from, size_t n) {
    char *to = tk_alloc(&ctx->al, n ? n : 1);
    if (to)
        memcpy(to, from, n);
    return to;
}

void tk_tier_end(tolk_ctx *ctx, struct tk_tier *t) {
    if (!t)
        return;
    tk_binary_unref(ctx, t->binary);
    tk_alloc_free(&ctx->al, t->text, t->n_text ? t->n_text : 1);
    tk_alloc_free(&ctx->al, t->opts, t->n_opts);
    tk_alloc_free(&ctx->al, t->name, t->n_name);
    tk_alloc_free(&ctx->al, t, sizeof *t);
}

tolk_status tk_tier_begin(tolk_program *p, const char *text, size_t len, const tk_target *target,
                          const tolk_compile_opts *opts, tolk_error *err) {
    tolk_ctx *ctx = p->ctx;
    struct tk_tier *t = tk_alloc_zero(&ctx->al, sizeof *t);
    if (!t)
        return tk_status_nomem(err);
    t->n_text = len;
    t->text = copy(ctx, text, len);
    t->n_opts = opts->opts ? strlen(opts->opts) + 1 : 0;
    t->opts = opts->opts ? copy(ctx, opts->opts, t->n_opts) : NULL;
    t->n_name = opts->target ? strlen(opts->target) + 1 : 0;
    t->name = opts->target ? copy(ctx, opts->target, t->n_name) : NULL;
    if (!t->text || (opts->opts && !t->opts) || (opts->target && !t->name)) {
        tk_tier_end(ctx, t);
        return tk_status_nomem(err);
    }
    t->target = *target;
    t->target.quick = false;
    t->how = *opts;
    t->how.opts = t->opts;
    t->how.target = t->name; /* of t->target */
    t->how.tier = TOLK_TIER_FULL;
    p->tier = t;
    return TOLK_OK;
}

bool tk_tier_is_done(const tolk_program *p) {
    return !p->tier || atomic_load_explicit(&p->tier->done, memory_order_acquire);
}

/* ---- the thread ---- */

static void make(tolk_program *p) {
    struct tk_tier *t = p->tier;
    void *entry;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tk_program_build(p->device, t->text, t->n_text, &t->target, &t->how,
                                      p->meta.head->frame_bytes, &t->binary, &entry, &err);
    if (st != TOLK_OK) {
        tk_log(p->ctx, TOLK_LOG_INFO, "kernel %.60s keeps its quick code: %s",
               p->meta.strings + p->meta.head->name, err.msg);
        return;
    }
    tk_kernel_fn fn;
    memcpy(&fn, &entry, sizeof fn);
    atomic_store_explicit(&p->fn, fn, memory_order_release);
    atomic_store_explicit(&t->done, true, memory_order_release);
}

static void *work(void *arg) {
    tolk_ctx *ctx = arg;
    tiers *s = ctx->part[TK_CTX_TIERS];
    pthread_mutex_lock(&s->lock);
    for (job *j; (j = s->first);) {
        s->first = j->next;
        if (!s->first)
            s->last = &s->first;
        bool closing = s->closing;
        pthread_mutex_unlock(&s->lock);
        if (!closing)
            make(j->program);
        tolk_program_unref(j->program);
        tk_alloc_free(&ctx->al, j, sizeof *j);
        pthread_mutex_lock(&s->lock);
    }
    s->runs = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Called when the context goes: waits for the compilation that runs, if one does. */
static void destroy(tolk_ctx *ctx, void *part) {
    tiers *s = part;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    while (s->runs)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (s->started)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    tk_alloc_free(&ctx->al, s, sizeof *s);
}

/* The thread is not in the child, and what it was doing is left: those kernels stay quick there. */
static void after_fork(tolk_ctx *ctx, void *part) {
    (void)ctx;
    tiers *s = part;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->first = NULL;
    s->last = &s->first;
    s->runs = s->started = false;
}

static tiers *state(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    tiers *s = ctx->part[TK_CTX_TIERS];
    if (!s && (s = tk_alloc_zero(&ctx->al, sizeof *s))) {
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->changed, NULL);
        s->last = &s->first;
        ctx->part_destroy[TK_CTX_TIERS] = destroy;
        ctx->part_fork[TK_CTX_TIERS] = after_fork;
        ctx->part[TK_CTX_TIERS] = s;
    }
    pthread_mutex_unlock(&ctx->log_lock);
    return s;
}

static void ask(tolk_program *p) {
    tolk_ctx *ctx = p->ctx;
    tk_ctx_after_fork(ctx);
    tiers *s = state(ctx);
    job *j = s ? tk_alloc_zero(&ctx->al, sizeof *j) : NULL;
    if (!j)
        return;
    j->program = tolk_program_ref(p);
    pthread_mutex_lock(&s->lock);
    bool start = !s->runs;
    *s->last = j;
    s->last = &j->next;
    s->runs = true;
    job *left = NULL;
    if (start) {
        if (s->started) /* it is leaving, or has left */
            pthread_join(s->thread, NULL);
        s->started = tk_deep_start(WORK_STACK, work, ctx, &s->thread);
        if (!s->started) { /* nothing becomes of it */
            left = s->first;
            s->first = NULL;
            s->last = &s->first;
            s->runs = false;
        }
    }
    pthread_mutex_unlock(&s->lock);
    for (job *next; left; left = next) {
        next = left->next;
        tolk_program_unref(left->program);
        tk_alloc_free(&ctx->al, left, sizeof *left);
    }
}

void tk_tier_launch(const tolk_program *p, double work) {
    struct tk_tier *t = p->tier;
    uint32_t old = atomic_load_explicit(&t->heat, memory_order_relaxed), now;
    uint32_t more = work < HOT - ONE_LAUNCH ? ONE_LAUNCH + (uint32_t)work : HOT;
    do {
        if (old >= HOT)
            return;
        now = old + more; /* at most twice HOT */
    } while (!atomic_compare_exchange_weak_explicit(&t->heat, &old, now, memory_order_relaxed,
                                                    memory_order_relaxed));
    if (now >= HOT)
        ask((tolk_program *)p); /* a reference is its own business */
}
