/* SPDX-License-Identifier: MIT
 *
 * Inside of a queue: what queue.c, queue_nodes.c, queue_run.c and queue_wait.c share.
 *
 * One mutex a queue guards all but what is atomic; it is held neither while a task or a release
 * callback runs nor while another queue's is taken. At any time one thread at most is the queue's
 * runner (busy): the worker, a thread between tk_queue_enter and tk_queue_leave, or, on queues that
 * are inline_only, whoever submits or waits. The list is in the order of tickets.
 */
#ifndef TK_REALIZE_QUEUE_PARTS_H
#define TK_REALIZE_QUEUE_PARTS_H

#include "base/ctx.h"
#include "realize/fork.h"
#include "realize/queue.h"

#include <pthread.h>

enum {
    TK_LABEL_BYTES = 48,
    TK_FEW_WATCHES = 4,
    TK_FREE_NODES = 1024,
    TK_MOST_FREE_NODES = 65536,
    TK_MOST_ROOM = 16 << 10
};

/* Why a queue stopped. The queue has one reference; watches of discarded tickets have the others.
 */
typedef struct tk_failure {
    _Atomic uint32_t refs;
    tolk_error err;
} tk_failure;

/* One queued command. Behind it in its memory: room_bytes for what its task gets. It is kept for
 * the next command, watches and room with it. */
typedef struct tk_node {
    struct tk_node *next;
    uint64_t ticket;
    tolk_task_fn run;
    tolk_release_fn release;
    void *arg;
    tk_watch *after; /* few, or max_after allocated ones; the first n_after are used */
    size_t n_after, max_after, room_bytes;
    tk_watch few[TK_FEW_WATCHES];
    char label[TK_LABEL_BYTES];
} tk_node;

/* A wait that a thread is in; on its stack. Guarded by the lock of queue_wait.c. */
typedef struct tk_wait {
    const tk_watch *watch;
    bool by_command;      /* else by a task, or by nobody's */
    const tk_queue *who;  /* refused: the queue whose task waits for itself */
    _Atomic bool refused; /* also read by the thread itself */
} tk_wait;

struct tk_queue {
    tolk_ctx *ctx;
    const char *name;
    bool inline_only;
    uint32_t spin_us;
    /* Starts the worker: tk_deep_start; tests let it fail. */
    bool (*start)(size_t stack_bytes, void *(*fn)(void *), void *arg, pthread_t *thread);
    _Atomic uint32_t refs; /* one of the owner, one of each watch, one of each to_settle */
    _Atomic int64_t forks; /* tk_fork_count() that the locks are of; negative: being made anew */

    pthread_mutex_t lock;
    pthread_cond_t work;                   /* the worker sleeps on it */
    pthread_cond_t progress;               /* everybody else */
    _Atomic uint64_t submitted, completed; /* tickets; completed is written last of all */
    _Atomic uint64_t pending;              /* commands queued, running or being discarded */
    _Atomic uint32_t queued;               /* in the list */
    _Atomic bool busy;                     /* there is a runner */
    _Atomic bool discarding;               /* it releases what was behind a failed command */
    _Atomic bool ending;                   /* the worker is to end */
    bool by_worker;                        /* the runner is the worker */
    bool stopped, closing;
    _Atomic bool closed;
    bool forked, lost; /* in a child of a fork; with work under way */
    bool has_worker, worker_sleeps;
    pthread_t worker;
    uint64_t running; /* ticket of the command between enter and leave */
    tk_node *first, **last;
    /* Nodes that are kept, all of which have at least this much room and so many watches: the most
     * that was asked for since the last trim, up to TK_MOST_ROOM. Smaller ones are freed. */
    tk_node *free;
    uint32_t n_free, max_free;
    size_t room_bytes, max_after;
    _Atomic bool had_node;
    tk_failure *failure; /* of a stopped queue the reason, else an empty one for the next time */
    tk_watch *watches;
    uint64_t watches_age; /* counts lists that were left behind by a fork */
    uint32_t sleepers;
    uint64_t wake_at; /* the least ticket that a sleeper waits for */

    /* Of the thread that runs a command: the queue whose task it is inside of, further out. */
    tk_queue *outer;
    /* What the runner waits for. Guarded by the lock of queue_wait.c. */
    tk_wait *waits_for;
    /* Of inline_only queues: to be run when the outermost task of some thread ends. */
    tk_queue *next_to_settle;
    bool to_settle;
};

/* ---- queue.c ---- */

static inline void tk_queue_here(tk_queue *q) {
    if (atomic_load_explicit(&q->forks, memory_order_acquire) != tk_fork_count())
        tk_queue_forked(q);
}
void tk_queue_lock(tk_queue *q);
void tk_queue_unlock(tk_queue *q);
void tk_queue_ref(tk_queue *q);
void tk_queue_unref(tk_queue *q);
/* Under the lock: TOLK_OK, or why nothing may be submitted. */
tolk_status tk_queue_refusal(tk_queue *q, tolk_error *err);

/* ---- queue_nodes.c ---- */

/* Under the lock; NULL: none is kept. */
tk_node *tk_queue_free_node(tk_queue *q);
/* A node with at least so much. Not under the lock. NULL: there is no memory. */
tk_node *tk_queue_take_node(tk_queue *q, size_t room_bytes, size_t n_after);
/* Let it watch so many; it watches none yet. False: there is no memory. */
bool tk_queue_widen_node(const tk_queue *q, tk_node *n, size_t n_after);
void tk_queue_unwatch_node(tk_node *n);
/* Keep it for the next command. Not under the lock. */
void tk_queue_drop_node(tk_queue *q, tk_node *n);
void tk_queue_free_nodes(const tk_queue *q, tk_node *list);
/* The node whose room that is. */
static inline tk_node *tk_queue_node_of(void *room) {
    return (tk_node *)room - 1;
}

/* ---- queue_run.c ---- */

/* Is this thread inside of a task of any queue? */
bool tk_queue_is_in_task(void);
/* The queue of the innermost task, or NULL; further ones are its ->outer. */
tk_queue *tk_queue_innermost(void);
/* This thread begins, ends a task of q. */
void tk_queue_push_task(tk_queue *q);
void tk_queue_pop_task(tk_queue *q);
/* Under the lock: tell sleepers; all of them if `all`. */
void tk_queue_wake(tk_queue *q, bool all);
/* Under the lock: the worker has something to do. */
void tk_queue_wake_worker(tk_queue *q);
/* Under the lock, by the runner: the command is done, or failed with *e, which is complete; then
 * everything behind it is discarded. Unlocks for a while. */
void tk_queue_finish(tk_queue *q, uint64_t ticket, tolk_status st, const tolk_error *e);
/* "task "x" of CPU:1: ..." */
void tk_queue_explain(const tk_queue *q, const char *label, tolk_status st, const tolk_error *from,
                      tolk_error *to);
/* Under the lock: is there something to run and nobody at it? */
static inline bool tk_queue_has_work(const tk_queue *q) {
    return atomic_load_explicit(&q->queued, memory_order_relaxed) > 0 &&
           !atomic_load_explicit(&q->busy, memory_order_relaxed);
}
/* How far a list was run. */
typedef enum tk_ran {
    TK_RAN,        /* up to that ticket */
    TK_RAN_TO_OWN, /* to a command that waits for a task that this thread is inside of */
    TK_RAN_IN_COPY /* the process forked, and this is a copy of the worker */
} tk_ran;
/* Under the lock, if tk_queue_has_work: run the list up to this ticket. Unlocks meanwhile. */
tk_ran tk_queue_run_list(tk_queue *q, bool by_worker, uint64_t upto);
void *tk_queue_worker(void *q);
/* Under the lock, of an inline_only queue with work: run it, if this thread is in no task, else
 * see to it that it is run when this thread's task ends. */
void tk_queue_run_or_defer(tk_queue *q);
/* The same for a thread that waits for a ticket: run what is needed for that and no more, as what
 * is behind may wait for a task that this thread is inside of. False: what is needed does. */
bool tk_queue_run_for(tk_queue *q, uint64_t ticket);
/* Run what was deferred, if this thread is in no task. Under no lock. */
void tk_queue_settle(void);
/* Spin for at most q->spin_us until is(q, arg). */
bool tk_queue_spin(const tk_queue *q, bool (*is)(const tk_queue *q, const void *arg),
                   const void *arg);

/* ---- queue_wait.c ---- */

/* Watch a ticket. Not under a lock. */
void tk_queue_watch(tk_watch *w, tk_queue *q, uint64_t ticket);
/* The same, of what is watched already. */
void tk_queue_watch_copy(tk_watch *w, const tk_watch *of);
/* For a command: wait for what it waits for. *own: that is a task that this thread is inside of, so
 * the command cannot run yet; then nothing else is said. */
tolk_status tk_queue_wait_as_command(const tk_watch *w, bool *own, tolk_error *err);
void tk_failure_unref(tk_queue *q, tk_failure *f);
/* Under the lock: q stopped at this ticket. */
void tk_queue_mark_discarded(tk_queue *q, uint64_t from);
/* Under the lock, which it gives up: sleep until this ticket is done or something else happens. */
void tk_queue_sleep(tk_queue *q, uint64_t ticket);
/* Under the lock, of a queue that is being closed: wait until nothing is pending. */
void tk_queue_wait_until_idle(tk_queue *q);

#endif
