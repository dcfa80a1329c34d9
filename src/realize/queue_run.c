/* SPDX-License-Identifier: MIT
 *
 * Running what is queued: the worker, threads that run a queue's commands themselves, and what
 * happens to the rest when one fails.
 */
#include "base/phases.h"
#include "base/relax.h"
#include "base/status.h"
#include "realize/queue_parts.h"

#include <string.h>

/* ---- the tasks that a thread is inside of ---- */

static _Thread_local tk_queue *innermost;
static _Thread_local tk_queue *to_settle; /* deferred, the latest first */
static _Thread_local uint32_t delays;     /* tk_queue_delay */

bool tk_queue_is_inside(const tk_queue *q) {
    for (const tk_queue *i = innermost; i; i = i->outer)
        if (i == q)
            return true;
    return false;
}

uint64_t tk_queue_task(const tk_queue *q) {
    return tk_queue_is_inside(q) ? atomic_load_explicit(&q->completed, memory_order_relaxed) + 1
                                 : 0;
}

bool tk_queue_is_in_task(void) {
    return innermost != NULL;
}

tk_queue *tk_queue_innermost(void) {
    return innermost;
}

void tk_queue_push_task(tk_queue *q) {
    q->outer = innermost;
    innermost = q;
}

/* They end in any order: a thread may enter two queues and leave the first one first. */
void tk_queue_pop_task(tk_queue *q) {
    tk_queue **link = &innermost;
    while (*link && *link != q)
        link = &(*link)->outer;
    if (*link)
        *link = q->outer;
    q->outer = NULL;
}

/* ---- spinning ---- */

bool tk_queue_spin(const tk_queue *q, bool (*is)(const tk_queue *q, const void *arg),
                   const void *arg) {
    if (is(q, arg))
        return true;
    if (!q->spin_us)
        return false;
    uint64_t end = tk_phases_now_ns() + (uint64_t)q->spin_us * 1000;
    do {
        for (int i = 0; i < 16; i++) {
            if (is(q, arg))
                return true;
            tk_relax();
        }
    } while (tk_phases_now_ns() < end);
    return false;
}

/* ---- the end of a command ---- */

void tk_queue_wake(tk_queue *q, bool all) {
    if (!q->sleepers ||
        (!all && atomic_load_explicit(&q->completed, memory_order_relaxed) < q->wake_at))
        return;
    q->wake_at = UINT64_MAX;
    pthread_cond_broadcast(&q->progress);
}

void tk_queue_wake_worker(tk_queue *q) {
    if (q->worker_sleeps) {
        q->worker_sleeps = false;
        pthread_cond_signal(&q->work);
    }
}

void tk_queue_explain(const tk_queue *q, const char *label, tolk_status st, const tolk_error *from,
                      tolk_error *to) {
    const char *why = from && *from->msg ? from->msg : tolk_status_text(st);
    tk_status_fail(to, st, from ? from->node : TK_NO_NODE, "task \"%.*s\" of %s: %s",
                   TK_LABEL_BYTES - 1, label ? label : "task", q->name, why);
    if (from) {
        to->line = from->line;
        to->column = from->column;
    }
}

static void release(const tk_node *n) {
    if (n->release)
        n->release(n->arg);
}

/* Under the lock: stop it and release what is behind. */
static void stop(tk_queue *q, uint64_t ticket, const tolk_error *e) {
    q->failure->err = *e;
    q->stopped = true;
    atomic_store_explicit(&q->discarding, true, memory_order_relaxed);
    tk_queue_mark_discarded(q, ticket);
    tk_node *n = q->first;
    uint64_t ended = 1;
    q->first = NULL;
    q->last = &q->first;
    atomic_store_explicit(&q->queued, 0, memory_order_relaxed);
    tk_queue_unlock(q);
    for (tk_node *next; n; n = next, ended++) {
        next = n->next;
        release(n);
        tk_queue_drop_node(q, n);
    }
    tk_queue_here(q); /* if that forked */
    tk_queue_lock(q);
    atomic_fetch_sub_explicit(&q->pending, ended, memory_order_release);
    atomic_store_explicit(&q->discarding, false, memory_order_release);
    tk_queue_wake(q, true);
}

void tk_queue_finish(tk_queue *q, uint64_t ticket, tolk_status st, const tolk_error *e) {
    if (st != TOLK_OK) {
        stop(q, ticket, e);
        return;
    }
    uint64_t left = atomic_fetch_sub_explicit(&q->pending, 1, memory_order_release) - 1;
    /* Nothing but the lock may follow: who sees it finds the queue as it will be. */
    atomic_store_explicit(&q->completed, ticket, memory_order_release);
    tk_queue_wake(q, left == 0);
}

/* ---- running ---- */

/* Wait for what it waits for, run it, release. *e: complete if it failed. *own_task: nothing was
 * done, as it waits for a task that this thread is inside of. */
static tolk_status run(tk_queue *q, tk_node *n, bool *own_task, tolk_error *e) {
    tolk_status st = TOLK_OK;
    tolk_error own = TOLK_ERROR_INIT;
    bool is_told = false; /* what it waited for failed: the same error */
    for (size_t i = 0; i < n->n_after && st == TOLK_OK; i++) {
        st = tk_queue_wait_as_command(&n->after[i], own_task, &own);
        if (*own_task)
            return TOLK_OK;
        is_told = atomic_load_explicit(&n->after[i].failure, memory_order_acquire);
    }
    if (st == TOLK_OK && n->run)
        st = n->run(n->arg, &own);
    if (is_told)
        *e = own;
    else if (st != TOLK_OK)
        tk_queue_explain(q, n->label, st, &own, e);
    release(n);
    return st;
}

/* Under the lock: as it was before it was taken from the list. */
static void put_back(tk_queue *q, tk_node *n) {
    n->next = q->first;
    if (!q->first)
        q->last = &n->next;
    q->first = n;
    atomic_fetch_add_explicit(&q->queued, 1, memory_order_relaxed);
}

tk_ran tk_queue_run_list(tk_queue *q, bool by_worker, uint64_t upto) {
    bool own_task = false;
    int64_t forks = tk_fork_count();
    atomic_store_explicit(&q->busy, true, memory_order_relaxed);
    q->by_worker = by_worker;
    tk_queue_push_task(q);
    for (tk_node *n; !own_task && (n = q->first) && n->ticket <= upto;) {
        q->first = n->next;
        if (!q->first)
            q->last = &q->first;
        atomic_fetch_sub_explicit(&q->queued, 1, memory_order_relaxed);
        tk_queue_unlock(q);
        tolk_error e;
        uint64_t ticket = n->ticket;
        tolk_status st = run(q, n, &own_task, &e);
        tk_queue_here(q);
        if (!own_task)
            tk_queue_drop_node(q, n);
        tk_queue_lock(q);
        if (by_worker && tk_fork_count() != forks)
            return TK_RAN_IN_COPY;
        if (own_task) {
            put_back(q, n);
            continue;
        }
        if (!q->first && st == TOLK_OK) /* so that who waits for it finds the queue free */
            atomic_store_explicit(&q->busy, false, memory_order_relaxed);
        tk_queue_finish(q, ticket, st, &e);
    }
    tk_queue_pop_task(q);
    atomic_store_explicit(&q->busy, false, memory_order_release);
    return own_task ? TK_RAN_TO_OWN : TK_RAN;
}

/* For the worker, without the lock. */
static bool has_work(const tk_queue *q, const void *arg) {
    (void)arg;
    return tk_queue_has_work(q) || atomic_load_explicit(&q->ending, memory_order_relaxed);
}

void *tk_queue_worker(void *arg) {
    tk_queue *q = arg;
    tk_queue_lock(q);
    for (;;) {
        if (tk_queue_has_work(q)) {
            if (tk_queue_run_list(q, true, UINT64_MAX) == TK_RAN_IN_COPY)
                break;
        } else if (atomic_load_explicit(&q->ending, memory_order_relaxed)) {
            break;
        } else {
            tk_queue_unlock(q);
            tk_queue_spin(q, has_work, NULL);
            tk_queue_lock(q);
            if (has_work(q, NULL))
                continue;
            q->worker_sleeps = true;
            pthread_cond_wait(&q->work, &q->lock);
            q->worker_sleeps = false;
        }
    }
    tk_queue_unlock(q);
    return NULL;
}

/* ---- without a worker ---- */

/* Under the lock: run it when this thread's outermost task ends. */
static void defer(tk_queue *q) {
    tk_queue_wake(q, true); /* a sleeper may run it at once */
    if (q->to_settle)
        return;
    q->to_settle = true;
    tk_queue_ref(q);
    q->next_to_settle = to_settle;
    to_settle = q;
}

void tk_queue_run_or_defer(tk_queue *q) {
    if (innermost || delays)
        defer(q);
    else
        (void)tk_queue_run_list(q, false, UINT64_MAX);
}

bool tk_queue_run_for(tk_queue *q, uint64_t ticket) {
    tk_ran ran = tk_queue_run_list(q, false, ticket);
    if (tk_queue_has_work(q))
        defer(q);
    return ran != TK_RAN_TO_OWN;
}

void tk_queue_settle(void) {
    while (to_settle && !innermost && !delays) {
        tk_queue *q = to_settle;
        to_settle = q->next_to_settle;
        tk_queue_here(q);
        tk_queue_lock(q);
        q->to_settle = false;
        if (tk_queue_has_work(q))
            (void)tk_queue_run_list(q, false, UINT64_MAX);
        tk_queue_unlock(q);
        tk_queue_unref(q);
    }
}

void tk_queue_delay(void) {
    delays++;
}

void tk_queue_resume(void) {
    delays--;
    tk_queue_settle();
}
