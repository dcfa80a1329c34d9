/* SPDX-License-Identifier: MIT
 *
 * The queue of a device: commands in order, on the caller's thread where that is quicker, else on a
 * worker.
 *
 * Every command has a ticket, from 1; the queue counts what was submitted and what is done, so a
 * point on its timeline is a number and asking for it takes no lock. A command waits for points of
 * other queues only, and only for those that exist when it is submitted: in the order of submission
 * everything can run, so commands never wait for each other in a circle. What tasks themselves wait
 * for is checked (TOLK_E_DEADLOCK).
 */
#ifndef TK_REALIZE_QUEUE_H
#define TK_REALIZE_QUEUE_H

#include <tolk/device.h>

#include <stdbool.h>

typedef struct tk_queue tk_queue;

/* Where a queue was when it had done `ticket` commands. ticket 0: its beginning. */
typedef struct tk_point {
    tk_queue *queue;
    uint64_t ticket;
} tk_point;

typedef struct tk_command {
    tolk_task_fn run;
    tolk_release_fn release; /* or NULL */
    void *arg;
    const char *label;     /* copied */
    const tk_point *after; /* copied; points of this queue, and of the past, cost nothing */
    size_t n_after;
} tk_command;

/* name: of the device, for errors; stays. inline_only: no worker ever (every command runs on the
 * thread that submits it, waits included): the oracle of tests. spin_us: how long a worker looks
 * for work before it sleeps. Errors: TOLK_E_NOMEM. */
tolk_status tk_queue_create(tolk_ctx *ctx, const char *name, bool inline_only, uint32_t spin_us,
                            tk_queue **out, tolk_error *err);
/* Take no more commands, run what is there, end the worker. Later calls but tk_queue_free are
 * TOLK_E_DEVICE_DESTROYED; waits for what is done still succeed. The error that stopped it, if any.
 */
tolk_status tk_queue_close(tk_queue *q, tolk_error *err);
/* Closed, and no event or point of it is in use any more. */
void tk_queue_free(tk_queue *q);
/* For the child of a fork: see <tolk/device.h>. */
void tk_queue_forked(tk_queue *q);

/* Submit; *ticket (or NULL) is its point. release is not called on failure. */
tolk_status tk_queue_submit(tk_queue *q, const tk_command *c, uint64_t *ticket, tolk_error *err);
/* Take the idle queue for a command of the calling thread: true if nothing is queued or runs, the
 * queue is healthy and all points are reached. Then do the work and call tk_queue_leave, with its
 * status: a failure stops the queue. Allocates nothing. Works in the child of a fork. */
bool tk_queue_enter(tk_queue *q, const tk_point *after, size_t n_after, uint64_t *ticket);
void tk_queue_leave(tk_queue *q, tolk_status st, const tolk_error *err, const char *label);

/* The point of everything submitted so far. */
uint64_t tk_queue_now(const tk_queue *q);
/* Is the ticket done? No lock. False for one that was discarded until the queue recovers. */
bool tk_queue_done(const tk_queue *q, uint64_t ticket);
/* Wait for it. Errors: as tolk_event_sync. */
tolk_status tk_queue_wait(tk_queue *q, uint64_t ticket, tolk_error *err);
/* TOLK_OK, or why it takes nothing: stopped, closed, forked. */
tolk_status tk_queue_check(tk_queue *q, tolk_error *err);
tolk_status tk_queue_recover(tk_queue *q, tolk_error *err);
bool tk_queue_idle(const tk_queue *q);
/* {"submitted": 3, "done": 3, "busy": false, "worker": false, "error": null}; waits for nothing. */
void tk_queue_describe(const tk_queue *q, struct tk_strbuf *sb);

#endif
