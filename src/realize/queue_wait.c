/* SPDX-License-Identifier: MIT
 *
 * Waiting for tickets, and refusing to where it would never end.
 *
 * A queue runs one command at a time, so it waits for one ticket at most: of the queues whose tasks
 * a thread is inside of, this thread's wait is what they wait for (waits_for). From a queue there
 * is one way on; a wait that leads back to a queue of the thread that is about to wait is refused.
 * Looking and entering the wait are one step under one lock of the process, so of the waits that
 * close a circle the last one sees all others.
 */
#include "base/status.h"
#include "realize/queue_parts.h"

/* ---- watching ---- */

void tk_failure_unref(tk_queue *q, tk_failure *f) {
    if (f && atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1)
        tk_alloc_free(&q->ctx->al, f, sizeof *f);
}

static void fail_watch(tk_watch *w, tk_failure *f) {
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&w->failure, f, memory_order_release);
}

/* Under the lock. */
static void watch(tk_watch *w, tk_queue *q, uint64_t ticket) {
    *w = (tk_watch){.queue = q, .ticket = ticket, .age = q->watches_age};
    tk_queue_ref(q);
    if (tk_queue_done(q, ticket))
        return;
    if (q->stopped) {
        fail_watch(w, q->failure); /* what came before the failure is done */
        return;
    }
    w->link = &q->watches;
    w->next = q->watches;
    if (w->next)
        w->next->link = &w->next;
    q->watches = w;
}

void tk_queue_watch(tk_watch *w, tk_queue *q, uint64_t ticket) {
    tk_queue_here(q);
    tk_queue_lock(q);
    watch(w, q, ticket);
    tk_queue_unlock(q);
}

void tk_queue_watch_copy(tk_watch *w, const tk_watch *of) {
    tk_queue *q = of->queue;
    tk_queue_here(q);
    tk_queue_lock(q);
    tk_failure *f = atomic_load_explicit(&of->failure, memory_order_acquire);
    if (f) {
        *w = (tk_watch){.queue = q, .ticket = of->ticket};
        tk_queue_ref(q);
        fail_watch(w, f);
    } else {
        watch(w, q, of->ticket);
    }
    tk_queue_unlock(q);
}

tolk_status tk_queue_mark(tk_queue *q, tk_watch *w, tolk_error *err) {
    tk_queue_here(q);
    tk_queue_lock(q);
    tolk_status st = tk_queue_refusal(q, err);
    if (st == TOLK_OK)
        watch(w, q, tk_queue_now(q));
    tk_queue_unlock(q);
    return st;
}

void tk_queue_mark_discarded(tk_queue *q, uint64_t from) {
    /* Those below are done: nothing will happen to them any more. */
    for (tk_watch *w = q->watches, *next; w; w = next) {
        next = w->next;
        w->link = NULL;
        w->next = NULL;
        if (w->ticket >= from)
            fail_watch(w, q->failure);
    }
    q->watches = NULL;
}

void tk_queue_unwatch(tk_watch *w) {
    tk_queue *q = w->queue;
    if (!q)
        return;
    tk_queue_here(q);
    tk_queue_lock(q);
    if (w->link && w->age == q->watches_age) {
        *w->link = w->next;
        if (w->next)
            w->next->link = w->link;
    }
    tk_queue_unlock(q);
    tk_failure_unref(q, atomic_load_explicit(&w->failure, memory_order_relaxed));
    w->queue = NULL;
    tk_queue_unref(q);
}

/* `completed` first: where a recovery raised it, the failure was there before. */
bool tk_queue_done_watched(const tk_watch *w) {
    return tk_queue_done(w->queue, w->ticket) &&
           !atomic_load_explicit(&w->failure, memory_order_acquire);
}

/* Is there nothing more to wait for? */
static bool is_over(const tk_watch *w) {
    if (atomic_load_explicit(&w->failure, memory_order_acquire))
        return !atomic_load_explicit(&w->queue->discarding, memory_order_acquire);
    return tk_queue_done(w->queue, w->ticket);
}

/* ---- circles ---- */

static pthread_mutex_t circle_lock = PTHREAD_MUTEX_INITIALIZER;

static void forked(void) {
    pthread_mutex_init(&circle_lock, NULL);
}

__attribute__((constructor)) static void at_load(void) {
    (void)pthread_atfork(NULL, NULL, forked);
}

static void set_waits(const tk_watch *w) {
    for (tk_queue *q = tk_queue_innermost(); q; q = q->outer)
        q->waits_for = w;
}

/* This thread's tasks wait for w from now on. False: w waits for one of them, *who. */
static bool begin_wait(const tk_watch *w, const tk_queue **who) {
    if (!tk_queue_is_in_task())
        return true;
    pthread_mutex_lock(&circle_lock);
    const tk_queue *at = w->queue;
    bool is_circle = false;
    /* Each wait is looked at under the lock, this one too: what a queue waits for now says nothing
     * about a ticket that it is done with. */
    for (const tk_watch *on = w; !is_circle && on && !is_over(on); on = at->waits_for) {
        at = on->queue;
        is_circle = tk_queue_is_inside(at);
    }
    if (!is_circle)
        set_waits(w);
    pthread_mutex_unlock(&circle_lock);
    *who = at;
    return !is_circle;
}

static void end_wait(void) {
    if (!tk_queue_is_in_task())
        return;
    pthread_mutex_lock(&circle_lock);
    set_waits(NULL);
    pthread_mutex_unlock(&circle_lock);
}

static tolk_status fail_circle(const tk_watch *w, const tk_queue *who, tolk_error *err) {
    if (w->queue == who)
        return tk_status_fail(err, TOLK_E_DEADLOCK, TK_NO_NODE,
                              "a task of device %s waits for its own queue", who->name);
    return tk_status_fail(err, TOLK_E_DEADLOCK, TK_NO_NODE,
                          "a task of device %s waits for device %s, which waits for that task",
                          who->name, w->queue->name);
}

/* ---- waiting ---- */

void tk_queue_sleep(tk_queue *q, uint64_t ticket) {
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (ticket < q->wake_at)
        q->wake_at = ticket;
    q->sleepers++;
    pthread_cond_wait(&q->progress, &q->lock);
    q->sleepers--;
    pthread_setcancelstate(cancel, NULL);
}

static bool is_over_or_mine(const tk_queue *q, const void *w) {
    return is_over(w) || (q->inline_only && tk_queue_has_work(q));
}

/* Sleep until it is over, or until this thread has run something of an inline_only queue. */
static void block(tk_queue *q, const tk_watch *w) {
    tk_queue_lock(q);
    while (!is_over(w)) {
        if (q->inline_only && tk_queue_has_work(q)) {
            tk_queue_run_for(q, w->ticket);
            break;
        }
        tk_queue_sleep(q, w->ticket);
    }
    tk_queue_unlock(q);
}

static tolk_status outcome(const tk_watch *w, tolk_error *err) {
    const tk_failure *f = atomic_load_explicit(&w->failure, memory_order_acquire);
    if (!f)
        return TOLK_OK;
    if (err)
        *err = f->err;
    return f->err.code;
}

tolk_status tk_queue_wait_watched(const tk_watch *w, tolk_error *err) {
    tk_queue *q = w->queue;
    tk_queue_here(q);
    /* A task of this queue need not wait for the rest to be released: it may be doing that. */
    bool inside = tk_queue_is_inside(q);
    if (inside && atomic_load_explicit(&w->failure, memory_order_acquire))
        return outcome(w, err);
    while (!is_over(w)) {
        const tk_queue *who;
        tk_queue_lock(q);
        tolk_status st = q->lost ? tk_queue_refusal(q, err) : TOLK_OK;
        tk_queue_unlock(q);
        if (st != TOLK_OK)
            return st;
        if (!inside && tk_queue_spin(q, is_over_or_mine, w) && is_over(w))
            break;
        if (!begin_wait(w, &who)) {
            st = outcome(w, err);
            return st != TOLK_OK ? st : fail_circle(w, who, err);
        }
        block(q, w);
        end_wait();
    }
    tk_queue_settle();
    return outcome(w, err);
}

tolk_status tk_queue_wait(tk_queue *q, uint64_t ticket, tolk_error *err) {
    if (tk_queue_done(q, ticket))
        return TOLK_OK;
    tk_watch w;
    tk_queue_watch(&w, q, ticket);
    tolk_status st = tk_queue_wait_watched(&w, err);
    tk_queue_unwatch(&w);
    return st;
}

tolk_status tk_queue_await(tk_queue *q, tolk_error *err) {
    tk_queue_here(q);
    tk_queue_lock(q);
    tolk_status st = q->closed ? tk_queue_refusal(q, err) : TOLK_OK;
    tk_queue_unlock(q);
    return st != TOLK_OK ? st : tk_queue_wait(q, tk_queue_now(q), err);
}

void tk_queue_wait_until_idle(tk_queue *q) {
    while (!tk_queue_idle(q)) {
        if (q->inline_only && tk_queue_has_work(q))
            (void)tk_queue_run_list(q, false, UINT64_MAX);
        else
            tk_queue_sleep(q, UINT64_MAX);
    }
}
