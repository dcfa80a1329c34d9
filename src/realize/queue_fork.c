/* SPDX-License-Identifier: MIT
 *
 * A queue in the child of a fork.
 */
#include "realize/queue_parts.h"

#include <sched.h>

/* The child has one thread, which may be inside of a task that it runs itself: that goes on. All
 * other work never ends. Whoever held the lock may have left lists half changed: those are left
 * behind. */
static void make_anew(tk_queue *q) {
    bool held = pthread_mutex_trylock(&q->lock) != 0;
    if (held)
        pthread_mutex_init(&q->lock, NULL);
    else
        pthread_mutex_unlock(&q->lock);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->progress, NULL);
    bool mine = atomic_load(&q->busy) && !q->by_worker && tk_queue_is_inside(q);
    uint64_t open = atomic_load(&q->submitted) - atomic_load(&q->completed);
    q->forked = true;
    q->closing = q->closed; /* whoever was closing it is not here */
    /* A command is there from the moment that it has its ticket. Of a stopped queue the tickets
     * stay open: what counts is whether all was released. */
    q->lost = q->lost || (q->stopped ? atomic_load(&q->pending) != 0 : open != mine);
    if (!q->lost)
        atomic_store(&q->pending, mine);
    else if (atomic_load(&q->pending) == 0)
        atomic_store(&q->pending, 1); /* it is not idle, and never will be */
    q->has_worker = q->worker_sleeps = false;
    q->sleepers = 0;
    q->wake_at = UINT64_MAX;
    q->waits_for = NULL;
    q->first = NULL;
    q->last = &q->first;
    atomic_store(&q->queued, 0);
    atomic_store(&q->discarding, false);
    if (!mine)
        atomic_store(&q->busy, q->lost);
    if (held) {
        q->free = NULL;
        q->n_free = 0;
        q->watches = NULL;
        q->watches_age++;
    }
}

void tk_queue_forked(tk_queue *q) {
    int64_t now = tk_fork_count();
    for (;;) {
        int64_t was = atomic_load_explicit(&q->forks, memory_order_acquire);
        if (was == now)
            return;
        if (was == -now) /* another thread is at it */
            sched_yield();
        else if (atomic_compare_exchange_strong(&q->forks, &was, -now))
            break;
    }
    make_anew(q);
    atomic_store_explicit(&q->forks, now, memory_order_release);
}
