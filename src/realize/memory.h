/* SPDX-License-Identifier: MIT
 *
 * Base allocations of a device: refcounted, counted, kept for reuse, and who uses which of their
 * bytes until when.
 */
#ifndef TK_REALIZE_MEMORY_H
#define TK_REALIZE_MEMORY_H

#include "realize/queue.h"

#include <pthread.h>

typedef struct tk_memory tk_memory;

/* Freed memory is kept for the next allocation of the same size, alignment and flags: the latest
 * one is taken, the oldest given back. */
enum { TK_KEPT_BUCKETS = 256, TK_KEPT_MOST = 4096 };

/* All memory of a device. */
typedef struct tk_book {
    tolk_device *device;
    /* Of buffers: what they are, and their first use. Taken before `lock`. */
    pthread_mutex_t handles;
    /* Of the rest. Taken last, never while memory is given back or a hook runs. */
    pthread_mutex_t lock;
    tk_memory *live;                    /* all that is not freed, for the list of leaks */
    tk_memory *newest, *oldest;         /* of those kept */
    tk_memory *bucket[TK_KEPT_BUCKETS]; /* of those kept: the latest of each key, in chains */
    uint32_t n_kept;
    struct tk_pools *pools;
    tolk_memory_stats stats;
    uint64_t kept_limit; /* bytes */
    bool closed;         /* nothing is kept any more */
    bool torn;           /* by a fork: the list of what lives is not used */
} tk_book;

tolk_status tk_book_init(tk_book *book, tolk_device *device, tolk_error *err);
/* The device was destroyed: frees pools and kept memory, keeps nothing from now on. */
void tk_book_close(tk_book *book);
/* With the context, of all devices before the first tk_book_fini: releases what external memory is
 * still alive, which may hold memory of other devices. */
void tk_book_release_external(tk_book *book);
/* With the context: closes it; what is still alive is told to the log in debug builds, and freed.
 */
void tk_book_fini(tk_book *book);
void tk_book_forked(tk_book *book);

typedef enum tk_memory_flag { TK_MEMORY_NO_REUSE = 1 } tk_memory_flag;

/* Errors: TOLK_E_NOMEM, after the queue was drained, kept memory given back and the hooks of
 * TOLK_HOOK_RECLAIM called, once. bytes 0 is memory, too. alignment: a power of two, raised to 64.
 * label: for the list of leaks, cut at 31 bytes, or NULL.
 */
tolk_status tk_memory_alloc(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                            const char *label, tk_memory **out, tolk_error *err);
/* The two halves of it, for who holds a lock: what fails there calls nobody back, and may be tried
 * again after a tk_memory_reclaim(). NULL: there is none. */
tk_memory *tk_memory_try(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                         const char *label);
void tk_memory_reclaim(tk_book *book, size_t bytes);
tolk_status tk_memory_none(const tk_book *book, size_t bytes, const char *label, tolk_error *err);
/* Memory of the caller; release(user) is called when it goes. It is not counted. */
tolk_status tk_memory_wrap(tk_book *book, void *at, size_t bytes, void (*release)(void *user),
                           void *user, tk_memory **out, tolk_error *err);
tk_memory *tk_memory_ref(tk_memory *m);
void tk_memory_unref(tk_memory *m);
void *tk_memory_at(const tk_memory *m);
size_t tk_memory_bytes(const tk_memory *m);
/* A number that no other allocation of its book ever has, from 1; 0: it is external. */
uint64_t tk_memory_number(const tk_memory *m);
/* May there be something in it: was a command submitted that writes to it, or can others write to
 * it at any time (external memory, a pool, what the host has the address of)? */
bool tk_memory_is_stored(const tk_memory *m);
void tk_memory_set_stored(tk_memory *m);
/* Give what is kept back. */
void tk_memory_trim(tk_book *book);

/* ---- the order of commands that use the same bytes ---- */

/* One use of bytes [from, to) of a memory. */
typedef struct tk_use {
    tk_memory *memory;
    size_t from, to;
    bool writes;
} tk_use;

/* A command is submitted under this lock of its context: tk_memory_hazards, then submitting it,
 * then tk_memory_used; so two commands see each other. Before, each memory was
 * tk_memory_prepare()d, which tk_buffer_piece() does. */
void tk_memory_order_lock(tolk_ctx *ctx);
void tk_memory_order_unlock(tolk_ctx *ctx);
/* Make room for what a command waits for where there are so many queues. Under the lock of
 * realize.h. Errors: TOLK_E_NOMEM. */
tolk_status tk_memory_order_reserve(tolk_ctx *ctx, size_t queues, tolk_error *err);
/* How many points a command can wait for. */
size_t tk_memory_order_points(const tolk_ctx *ctx);
/* Make room to remember uses by all queues there are. Errors: TOLK_E_NOMEM. */
tolk_status tk_memory_prepare(tk_memory *m, tolk_error *err);
/* What a command of queue q that uses these must wait for: writes before, and for its writes reads
 * before, of other queues, that are not done. Writes at most cap points, the latest of each queue;
 * the number of them is returned, and cap is enough if it is the number of queues of the context.
 */
size_t tk_memory_hazards(const tk_use *uses, size_t n, const tk_queue *q, tk_point *out,
                         size_t cap);
/* The command got this ticket. Never fails. */
void tk_memory_used(const tk_use *uses, size_t n, tk_queue *q, uint64_t ticket);

/* All of that: submit a command that uses these, to run after what it must wait for (c->after is
 * set, and invalid afterwards). uses: not in memory that the command gives back. Errors: those of
 * tk_queue_submit. */
tolk_status tk_memory_submit(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q,
                             tk_command *c, uint64_t *ticket, tolk_error *err);
/* The same for a command that the calling thread runs at once: true if q is idle and there is
 * nothing to wait for. It ends with tk_queue_leave. Allocates nothing. */
bool tk_memory_enter(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q);
/* The same for what the calling thread does inside of a task of q: it is a part of that task.
 * False: there is something to wait for. */
bool tk_memory_join(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q);
/* Wait for all that uses these bytes, as the host is going to, but for the task that this is called
 * from. Errors: as tk_queue_wait. */
tolk_status tk_memory_wait(const tk_use *use, tolk_error *err);

#endif
