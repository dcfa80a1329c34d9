/* SPDX-License-Identifier: MIT
 *
 * Waiting for tickets, and refusing to where it would never end.
 *
 * A queue runs one command at a time, so it waits for one ticket at most: of the queues whose tasks
 * a thread is inside of, this thread's wait is what they wait for (waits_for). From a queue there
 * is one way on; a wait that leads back to a queue of the thread that is about to wait is refused.
 * Looking and entering the wait are one step under one lock of the process, so of the waits that
 * close a circle the last one sees all others.
 *
 * A command does nothing wrong by waiting, and alone commands wait in no circle: there is a task's
 * wait in each, and that is the one to be refused, also where the command's is the last.
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

static void set_waits(tk_wait *wait) {
    for (tk_queue *q = tk_queue_innermost(); q; q = q->outer)
        q->waits_for = wait;
}

/* What the runner of the queue that `wait` waits for waits for itself; NULL: it goes on. Each wait
 * is looked at: what a queue waits for now says nothing about a ticket that it is done with. */
static tk_wait *next_wait(const tk_wait *wait) {
    tk_wait *next = wait->watch->queue->waits_for;
    bool goes_on =
        !next || is_over(next->watch) || atomic_load_explicit(&next->refused, memory_order_relaxed);
    return goes_on ? NULL : next;
}

/* Does it wait for a queue that this thread is inside of, which is wait->who then? */
static bool find_circle(tk_wait *wait) {
    for (const tk_wait *on = is_over(wait->watch) ? NULL : wait; on; on = next_wait(on)) {
        wait->who = on->watch->queue;
        if (tk_queue_is_inside(wait->who))
            return true;
    }
    return false;
}

/* Refuse the wait of a task of another thread in the circle that a command closes. False: there is
 * none. */
static bool refuse_a_task(const tk_wait *command) {
    for (const tk_wait *on = command; !tk_queue_is_inside(on->watch->queue);) {
        const tk_queue *at = on->watch->queue;
        tk_wait *next = at->waits_for;
        if (!next->by_command) {
            tk_queue *slept_on = next->watch->queue;
            next->who = at;
            atomic_store_explicit(&next->refused, true, memory_order_relaxed);
            tk_queue_lock(slept_on); /* it looks at that under this lock */
            tk_queue_wake(slept_on, true);
            tk_queue_unlock(slept_on);
            return true;
        }
        on = next;
    }
    return false;
}

/* This thread's tasks wait from now on. False: that would wait for one of them, wait->who. */
static bool begin_wait(tk_wait *wait) {
    if (!tk_queue_is_in_task())
        return true;
    pthread_mutex_lock(&circle_lock);
    bool goes = !find_circle(wait) || (wait->by_command && refuse_a_task(wait));
    if (goes)
        set_waits(wait);
    pthread_mutex_unlock(&circle_lock);
    return goes;
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

static bool is_refused(const tk_wait *wait) {
    return atomic_load_explicit(&wait->refused, memory_order_relaxed);
}

/* Sleep until it is over, or refused, or until this thread has run something of an inline_only
 * queue. */
static void block(tk_queue *q, tk_wait *wait) {
    const tk_watch *w = wait->watch;
    tk_queue_lock(q);
    while (!is_over(w) && !is_refused(wait)) {
        if (q->inline_only && tk_queue_has_work(q)) {
            if (!tk_queue_run_for(q, w->ticket)) {
                wait->who = tk_queue_innermost();
                atomic_store_explicit(&wait->refused, true, memory_order_relaxed);
            }
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

/* own: of a command, see tk_queue_wait_as_command; NULL: it is none's. */
static tolk_status wait_watched(const tk_watch *w, bool *own, tolk_error *err) {
    tk_queue *q = w->queue;
    tk_queue_here(q);
    /* A task of this queue need not wait for the rest to be released: it may be doing that. */
    bool inside = tk_queue_is_inside(q);
    if (inside && atomic_load_explicit(&w->failure, memory_order_acquire))
        return outcome(w, err);
    while (!is_over(w)) {
        tk_queue_lock(q);
        tolk_status st = q->lost ? tk_queue_refusal(q, err) : TOLK_OK;
        tk_queue_unlock(q);
        if (st != TOLK_OK)
            return st;
        if (!inside && tk_queue_spin(q, is_over_or_mine, w) && is_over(w))
            break;
        tk_wait wait = {.watch = w, .by_command = own != NULL};
        bool goes = begin_wait(&wait);
        if (goes) {
            block(q, &wait);
            end_wait();
        }
        if (goes && !is_refused(&wait))
            continue;
        st = outcome(w, err);
        if (st != TOLK_OK || is_over(w))
            return st;
        if (!own || (!goes && wait.who == tk_queue_innermost()))
            return fail_circle(w, wait.who, err);
        *own = true;
        return TOLK_OK;
    }
    tk_queue_settle();
    return outcome(w, err);
}

tolk_status tk_queue_wait_watched(const tk_watch *w, tolk_error *err) {
    return wait_watched(w, NULL, err);
}

tolk_status tk_queue_wait_as_command(const tk_watch *w, bool *own, tolk_error *err) {
    return wait_watched(w, own, err);
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
