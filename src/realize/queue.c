/* SPDX-License-Identifier: MIT */
#include "realize/queue.h"

#include "base/deep.h"
#include "base/relax.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "realize/queue_parts.h"

#include <string.h>

/* As much as the main thread of a program has, as a rule: tasks are the host's code. Only the pages
 * that are used exist. */
enum { WORKER_STACK = 8 << 20 };

/* ---- the lock ---- */

/* It is held for a few dozen instructions: going to sleep for it would cost more than waiting. */
void tk_queue_lock(tk_queue *q) {
    for (int i = 0; i < 64; i++) {
        if (pthread_mutex_trylock(&q->lock) == 0)
            return;
        tk_relax();
    }
    pthread_mutex_lock(&q->lock);
}

void tk_queue_unlock(tk_queue *q) {
    pthread_mutex_unlock(&q->lock);
}

/* ---- making and ending ---- */

static tk_failure *new_failure(const tk_queue *q) {
    tk_failure *f = tk_alloc_zero(&q->ctx->al, sizeof *f);
    if (f)
        atomic_init(&f->refs, 1);
    return f;
}

tolk_status tk_queue_create(tolk_ctx *ctx, const char *name, bool inline_only, uint32_t spin_us,
                            tk_queue **out, tolk_error *err) {
    tk_queue *q = tk_alloc_zero(&ctx->al, sizeof *q);
    if (!q)
        return tk_status_nomem(err);
    q->ctx = ctx;
    q->name = name;
    q->inline_only = inline_only;
    q->spin_us = spin_us;
    q->start = tk_deep_start;
    q->last = &q->first;
    q->wake_at = UINT64_MAX;
    q->max_free = TK_FREE_NODES;
    q->max_after = TK_FEW_WATCHES;
    q->failure = new_failure(q);
    if (!q->failure) {
        tk_alloc_free(&ctx->al, q, sizeof *q);
        return tk_status_nomem(err);
    }
    atomic_init(&q->refs, 1);
    atomic_init(&q->forks, tk_fork_count());
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->progress, NULL);
    *out = q;
    return TOLK_OK;
}

void tk_queue_ref(tk_queue *q) {
    atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
}

void tk_queue_unref(tk_queue *q) {
    if (atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) != 1)
        return;
    tk_queue_free_nodes(q, q->free);
    tk_failure_unref(q, q->failure);
    pthread_cond_destroy(&q->progress);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
    tk_alloc_free(&q->ctx->al, q, sizeof *q);
}

void tk_queue_free(tk_queue *q) {
    if (q)
        tk_queue_unref(q);
}

static void end_worker(tk_queue *q) {
    tk_queue_lock(q);
    bool has = q->has_worker;
    q->has_worker = false;
    atomic_store(&q->ending, true);
    tk_queue_wake_worker(q);
    tk_queue_unlock(q);
    if (has) {
        int cancel;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        pthread_join(q->worker, NULL);
        pthread_setcancelstate(cancel, NULL);
    }
}

static tolk_status fail_lost(const tk_queue *q, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_FORKED, TK_NO_NODE,
                          "device %s: work was under way when the process forked, and never ends "
                          "in the child: make a new context",
                          q->name);
}

static tolk_status stopped_by(const tk_queue *q, tolk_error *err) {
    if (err)
        *err = q->failure->err;
    return q->failure->err.code;
}

tolk_status tk_queue_may_close(const tk_queue *q, tolk_error *err) {
    if (!tk_queue_is_in_task())
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_DEADLOCK, TK_NO_NODE,
                          "device %s cannot be ended by a task: it waits for all tasks", q->name);
}

tolk_status tk_queue_close(tk_queue *q, tolk_error *err) {
    tk_queue_here(q);
    TK_TRY(tk_queue_may_close(q, err));
    tk_queue_lock(q);
    bool mine = !q->closing;
    q->closing = true;
    if (!q->lost)
        tk_queue_wait_until_idle(q);
    tk_queue_unlock(q);
    if (mine)
        end_worker(q);
    tk_queue_lock(q);
    if (mine)
        q->closed = true;
    tk_queue_wake(q, true);
    while (!q->closed) /* another thread closes it */
        tk_queue_sleep(q, UINT64_MAX);
    tolk_status st = q->lost ? fail_lost(q, err) : q->stopped ? stopped_by(q, err) : TOLK_OK;
    tk_queue_unlock(q);
    return st;
}

/* ---- submitting ---- */

tolk_status tk_queue_refusal(tk_queue *q, tolk_error *err) {
    if (q->closing)
        return tk_status_fail(err, TOLK_E_DEVICE_DESTROYED, TK_NO_NODE, "device %s was destroyed",
                              q->name);
    if (q->lost)
        return fail_lost(q, err);
    if (!q->stopped)
        return TOLK_OK;
    const tolk_error *why = &q->failure->err;
    tk_status_fail(err, why->code, why->node, "%s is stopped (tolk_device_recover): %s", q->name,
                   why->msg);
    if (err) {
        err->line = why->line;
        err->column = why->column;
    }
    return why->code;
}

/* Under the lock: a thread that will run what is submitted. */
static tolk_status have_worker(tk_queue *q, tolk_error *err) {
    if (q->inline_only || q->has_worker)
        return TOLK_OK;
    if (q->forked)
        return tk_status_fail(err, TOLK_E_FORKED, TK_NO_NODE,
                              "device %s: this needs the thread of its queue, which the child of a "
                              "fork does not have: make a new context",
                              q->name);
    q->has_worker = q->start(WORKER_STACK, tk_queue_worker, q, &q->worker);
    if (!q->has_worker)
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE,
                              "device %s: the system gives no thread for its queue", q->name);
    return TOLK_OK;
}

/* Is it a point that q has to wait for? */
static bool is_ahead(const tk_queue *q, const tk_point *p) {
    return p->queue && p->queue != q && !tk_queue_done(p->queue, p->ticket);
}

/* Watch the points of c that are not reached, and what `also` watches. Not under the lock. */
static bool watch_all(tk_queue *q, tk_node *n, const tk_command *c, const tk_watch *also) {
    size_t most = also != NULL;
    for (size_t i = 0; i < c->n_after; i++)
        most += is_ahead(q, &c->after[i]);
    if (!tk_queue_widen_node(q, n, most))
        return false;
    /* Of those that were ahead some are reached by now. */
    if (also)
        tk_queue_watch_copy(&n->after[n->n_after++], also);
    for (size_t i = 0; i < c->n_after && n->n_after < most; i++)
        if (is_ahead(q, &c->after[i]))
            tk_queue_watch(&n->after[n->n_after++], c->after[i].queue, c->after[i].ticket);
    return true;
}

static void fill(tk_node *n, const tk_command *c) {
    const char *label = c->label ? c->label : "task";
    size_t len = strnlen(label, sizeof n->label - 1);
    memcpy(n->label, label, len);
    n->label[len] = 0;
    n->run = c->run;
    n->release = c->release;
    n->arg = c->room ? c->room : c->arg;
}

/* Under the lock. */
static void push(tk_queue *q, tk_node *n) {
    n->next = NULL;
    *q->last = n;
    q->last = &n->next;
    atomic_fetch_add_explicit(&q->pending, 1, memory_order_relaxed);
    n->ticket = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
    atomic_store_explicit(&q->submitted, n->ticket, memory_order_release);
    atomic_fetch_add_explicit(&q->queued, 1, memory_order_release);
    if (tk_queue_has_work(q))
        tk_queue_wake_worker(q);
}

static tolk_status submit(tk_queue *q, const tk_command *c, const tk_watch *also, uint64_t *ticket,
                          tolk_error *err) {
    tk_queue_here(q);
    tk_queue_lock(q);
    tk_node *n = c->room ? tk_queue_node_of(c->room) : tk_queue_free_node(q);
    tolk_status st = TOLK_OK;
    if (!n || c->n_after || also) { /* memory and other queues' locks: not under this one */
        tk_queue_unlock(q);
        if (!n && !(n = tk_queue_take_node(q, 0, 0)))
            return tk_status_nomem(err);
        if (!watch_all(q, n, c, also))
            st = tk_status_nomem(err);
        tk_queue_lock(q);
    }
    if (st == TOLK_OK)
        st = tk_queue_refusal(q, err);
    if (st == TOLK_OK)
        st = have_worker(q, err);
    if (st == TOLK_OK) {
        fill(n, c);
        push(q, n);
        if (ticket)
            *ticket = n->ticket;
        if (q->inline_only && tk_queue_has_work(q))
            tk_queue_run_or_defer(q);
    }
    tk_queue_unlock(q);
    if (st != TOLK_OK && c->room)
        tk_queue_unwatch_node(n);
    else if (st != TOLK_OK)
        tk_queue_drop_node(q, n);
    tk_queue_settle();
    return st;
}

tolk_status tk_queue_submit(tk_queue *q, const tk_command *c, uint64_t *ticket, tolk_error *err) {
    return submit(q, c, NULL, ticket, err);
}

tolk_status tk_queue_wait_for(tk_queue *q, const tk_watch *w, tolk_error *err) {
    bool failed = atomic_load_explicit(&w->failure, memory_order_acquire) != NULL;
    if (tk_queue_done_watched(w) || (w->queue == q && !failed))
        return tk_queue_check(q, err);
    tk_command c = {.label = "wait"};
    return submit(q, &c, w, NULL, err);
}

/* ---- on the caller's thread ---- */

bool tk_queue_enter(tk_queue *q, const tk_point *after, size_t n_after, uint64_t *ticket) {
    tk_queue_here(q);
    if (atomic_load_explicit(&q->pending, memory_order_relaxed))
        return false;
    for (size_t i = 0; i < n_after; i++)
        if (is_ahead(q, &after[i]))
            return false;
    tk_queue_lock(q);
    bool free = !atomic_load_explicit(&q->pending, memory_order_relaxed) && !q->stopped &&
                !q->closing && !q->lost;
    if (free) {
        atomic_store_explicit(&q->pending, 1, memory_order_relaxed);
        atomic_store_explicit(&q->busy, true, memory_order_relaxed);
        q->by_worker = false;
        q->running = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
        atomic_store_explicit(&q->submitted, q->running, memory_order_release);
        if (ticket)
            *ticket = q->running;
    }
    tk_queue_unlock(q);
    if (free)
        tk_queue_push_task(q);
    return free;
}

void tk_queue_leave(tk_queue *q, tolk_status st, const tolk_error *err, const char *label) {
    tk_queue_here(q);
    tolk_error e;
    if (st != TOLK_OK)
        tk_queue_explain(q, label, st, err, &e);
    tk_queue_lock(q);
    tk_queue_finish(q, q->running, st, &e);
    atomic_store_explicit(&q->busy, false, memory_order_release);
    tk_queue_pop_task(q);
    if (tk_queue_has_work(q)) {
        if (q->inline_only)
            tk_queue_run_or_defer(q);
        else
            tk_queue_wake_worker(q);
    }
    tk_queue_unlock(q);
    tk_queue_settle();
}

/* ---- asking ---- */

uint64_t tk_queue_now(const tk_queue *q) {
    return atomic_load_explicit(&q->submitted, memory_order_acquire);
}

bool tk_queue_done(const tk_queue *q, uint64_t ticket) {
    return atomic_load_explicit(&q->completed, memory_order_acquire) >= ticket;
}

bool tk_queue_is_closed(const tk_queue *q) {
    return atomic_load_explicit(&q->closed, memory_order_acquire);
}

bool tk_queue_idle(const tk_queue *q) {
    return atomic_load_explicit(&q->pending, memory_order_acquire) == 0;
}

tolk_status tk_queue_check(tk_queue *q, tolk_error *err) {
    tk_queue_here(q);
    tk_queue_lock(q);
    tolk_status st = tk_queue_refusal(q, err);
    tk_queue_unlock(q);
    return st;
}

tolk_status tk_queue_ran(tk_queue *q, tolk_error *err) {
    if (!q->inline_only)
        return TOLK_OK;
    tk_queue_lock(q);
    tolk_status st = q->stopped ? stopped_by(q, err) : TOLK_OK;
    tk_queue_unlock(q);
    return st;
}

/* The recovery takes a ticket: what is marked from now on is not what was discarded. */
tolk_status tk_queue_recover(tk_queue *q, tolk_error *err) {
    tk_queue_here(q);
    tk_failure *fresh = new_failure(q), *old = fresh;
    tk_queue_lock(q);
    tolk_status st = q->stopped && !q->closing && !q->lost ? TOLK_OK : tk_queue_refusal(q, err);
    if (st == TOLK_OK && q->stopped) {
        if (fresh) {
            old = q->failure;
            q->failure = fresh;
            uint64_t now = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
            atomic_store_explicit(&q->submitted, now, memory_order_release);
            atomic_store_explicit(&q->completed, now, memory_order_release);
            q->stopped = false;
            tk_queue_wake(q, true);
        } else {
            st = tk_status_nomem(err);
        }
    }
    tk_queue_unlock(q);
    if (old)
        tk_failure_unref(q, old);
    return st;
}

void tk_queue_describe(const tk_queue *q, tk_strbuf *sb) {
    tk_queue *asked = (tk_queue *)q; /* the lock is not part of what it says */
    tk_queue_here(asked);
    char msg[sizeof q->failure->err.msg] = "";
    tk_queue_lock(asked);
    uint64_t submitted = tk_queue_now(q), done = atomic_load(&q->completed);
    bool busy = !tk_queue_idle(q), worker = q->has_worker, stopped = q->stopped;
    if (stopped)
        memcpy(msg, q->failure->err.msg, sizeof msg);
    tk_queue_unlock(asked);
    tk_strbuf_fmt(sb,
                  "{\"submitted\": %llu, \"done\": %llu, \"busy\": %s, \"worker\": %s, \"error\": ",
                  (unsigned long long)submitted, (unsigned long long)done, busy ? "true" : "false",
                  worker ? "true" : "false");
    if (stopped)
        tk_strbuf_json(sb, msg);
    else
        tk_strbuf_str(sb, "null");
    tk_strbuf_char(sb, '}');
}
