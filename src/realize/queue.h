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
 *
 * A command that fails stops its queue: what is behind it is discarded, and its tickets are not
 * done until the queue recovers, which takes a ticket of its own. Who must know for good whether a
 * ticket was discarded watches it.
 */
#ifndef TK_REALIZE_QUEUE_H
#define TK_REALIZE_QUEUE_H

#include "base/strbuf.h"

#include <tolk/device.h>

#include <stdbool.h>

typedef struct tk_queue tk_queue;

/* Where a queue was when it had done `ticket` commands. ticket 0: its beginning. */
typedef struct tk_point {
    tk_queue *queue;
    uint64_t ticket;
} tk_point;

/* A ticket that is watched: it knows for good if its queue stopped before it was done, also when
 * the queue recovers. Keeps the queue. Its place stays the same while it watches. */
typedef struct tk_watch {
    tk_queue *queue; /* NULL: watches nothing */
    uint64_t ticket;
    _Atomic(struct tk_failure *) failure; /* why it was discarded; or NULL */
    struct tk_watch *next, **link;        /* in the queue's list; link NULL: not there */
    uint64_t age;                         /* of that list */
} tk_watch;

typedef struct tk_command {
    tolk_task_fn run;        /* or NULL: it only waits */
    tolk_release_fn release; /* or NULL */
    void *arg;
    void *room;            /* of tk_queue_room: what they get instead of arg; or NULL */
    const char *label;     /* copied */
    const tk_point *after; /* copied; points of this queue, and of the past, cost nothing */
    size_t n_after;
} tk_command;

/* name: of the device, for errors; stays. inline_only: no worker ever: a command runs in the call
 * that submits it, waits included, or, if that is made by a task, when this task ends or something
 * waits for the command: the oracle of tests. spin_us: how long a worker looks for work before it
 * sleeps. Errors: TOLK_E_NOMEM. */
tolk_status tk_queue_create(tolk_ctx *ctx, const char *name, bool inline_only, uint32_t spin_us,
                            tk_queue **out, tolk_error *err);
/* TOLK_OK, or TOLK_E_DEADLOCK: the calling thread is inside of a task. */
tolk_status tk_queue_may_close(const tk_queue *q, tolk_error *err);
/* Take no more commands, run what is there, end the worker. Later calls but tk_queue_free are
 * TOLK_E_DEVICE_DESTROYED; waits for what is done still succeed. Errors: the one that stopped it;
 * as tk_queue_may_close (it stays open); TOLK_E_FORKED (what was under way never ends). */
tolk_status tk_queue_close(tk_queue *q, tolk_error *err);
/* After it was closed. Watches keep what they need of it; points of it may not be in use. */
void tk_queue_free(tk_queue *q);
/* For the child of a fork, see <tolk/device.h>: makes the locks anew. Every call does this itself
 * where it is needed. */
void tk_queue_forked(tk_queue *q);

/* Memory for what a command gets, aligned to 8, that the queue keeps from one command to the next:
 * once there is enough of it no command allocates. It goes back after the command was released; or
 * by tk_queue_drop_room, if none was submitted. NULL: there is no memory. */
void *tk_queue_room(tk_queue *q, size_t bytes);
void tk_queue_drop_room(tk_queue *q, void *room);
/* Have memory for n more commands, each with so much room and waiting for n_after points: as many
 * as a run that is made again and again submits. Where there is none commands ask for it one by
 * one. */
void tk_queue_reserve(tk_queue *q, size_t n, size_t room_bytes, size_t n_after);
/* Give back what is kept of commands that are over; what others have stays theirs, and is kept when
 * they are over. As large as the next ones need is what is made from now on. */
void tk_queue_trim(tk_queue *q);
/* Was there ever a command that took memory? No lock. */
bool tk_queue_had_room(const tk_queue *q);

/* Submit; *ticket (or NULL) is its point. On failure release is not called, and room still the
 * caller's. */
tolk_status tk_queue_submit(tk_queue *q, const tk_command *c, uint64_t *ticket, tolk_error *err);
/* For a queue that runs what is submitted before the call returns, behind a submit: the error that
 * stopped it meanwhile. TOLK_OK for others, which go on. */
tolk_status tk_queue_ran(tk_queue *q, tolk_error *err);
/* A command that waits for what is watched: q stops with the same error if that is discarded.
 * Submits nothing if it is done. */
tolk_status tk_queue_wait_for(tk_queue *q, const tk_watch *w, tolk_error *err);
/* Between these two, commands that this thread submits to inline_only queues do not run yet; call
 * them around a lock that is held while something is submitted. They nest. */
void tk_queue_delay(void);
void tk_queue_resume(void);
/* Take the idle queue for a command of the calling thread: true if nothing is queued or runs, the
 * queue is healthy and all points are reached. Then do the work and call tk_queue_leave, with its
 * status: a failure stops the queue. Allocates nothing. Works in the child of a fork. */
bool tk_queue_enter(tk_queue *q, const tk_point *after, size_t n_after, uint64_t *ticket);
void tk_queue_leave(tk_queue *q, tolk_status st, const tolk_error *err, const char *label);

/* Is this thread inside of a command of q: between enter and leave, in its task or its release? */
bool tk_queue_is_inside(const tk_queue *q);
/* The ticket of that command; 0: inside of none. All before it are done. */
uint64_t tk_queue_task(const tk_queue *q);
/* The point of everything submitted so far. */
uint64_t tk_queue_now(const tk_queue *q);
/* Is the ticket done? No lock. False for one that was discarded until the queue recovers. */
bool tk_queue_done(const tk_queue *q, uint64_t ticket);
/* Was it closed? Then nothing of it runs any more. No lock. */
bool tk_queue_is_closed(const tk_queue *q);
/* Wait for it. Errors: as tolk_event_sync. What is discarded was released when this returns. */
tolk_status tk_queue_wait(tk_queue *q, uint64_t ticket, tolk_error *err);
/* Wait for all that was submitted so far, also where the queue is stopped: then with its error. */
tolk_status tk_queue_await(tk_queue *q, tolk_error *err);
/* Watch everything submitted so far. Ends with tk_queue_unwatch. Errors: as tk_queue_check. */
tolk_status tk_queue_mark(tk_queue *q, tk_watch *w, tolk_error *err);
/* Wait for what is watched. */
tolk_status tk_queue_wait_watched(const tk_watch *w, tolk_error *err);
/* Is it done, and was not discarded? No lock. */
bool tk_queue_done_watched(const tk_watch *w);
void tk_queue_unwatch(tk_watch *w);
/* TOLK_OK, or why it takes nothing: stopped, closed, forked. */
tolk_status tk_queue_check(tk_queue *q, tolk_error *err);
/* Errors: TOLK_E_NOMEM (it stays stopped), TOLK_E_DEVICE_DESTROYED, TOLK_E_FORKED. */
tolk_status tk_queue_recover(tk_queue *q, tolk_error *err);
/* Nothing is queued, runs or is being discarded. No lock. */
bool tk_queue_idle(const tk_queue *q);
/* {"submitted": 3, "done": 3, "busy": false, "worker": false, "error": null}; waits for nothing.
 * Both numbers count recoveries, too. */
void tk_queue_describe(const tk_queue *q, tk_strbuf *sb);

#endif
