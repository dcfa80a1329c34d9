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

/* All memory of a device. lock is taken last, never while memory is given back or a hook runs. */
typedef struct tk_book {
    tolk_device *device;
    pthread_mutex_t lock;
    tk_memory *live; /* all that is not freed, for the list of leaks */
    tk_memory *kept; /* freed and kept for reuse, the latest first */
    struct tk_pools *pools;
    tolk_memory_stats stats;
    uint64_t kept_limit; /* bytes */
} tk_book;

tolk_status tk_book_init(tk_book *book, tolk_device *device, tolk_error *err);
/* The device was destroyed: frees pools and kept memory, keeps nothing from now on. */
void tk_book_close(tk_book *book);
/* Frees pools and kept memory. What is still alive is told to the log in debug builds; it is freed
 * when its last reference goes, or with the context. */
void tk_book_fini(tk_book *book);
void tk_book_forked(tk_book *book);

typedef enum tk_memory_flag { TK_MEMORY_NO_REUSE = 1 } tk_memory_flag;

/* Errors: TOLK_E_NOMEM, after the queue was drained, kept memory given back and the hooks of
 * TOLK_HOOK_RECLAIM called, once. bytes 0 is memory, too. alignment: a power of two, raised to 64.
 */
tolk_status tk_memory_alloc(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                            const char *label, tk_memory **out, tolk_error *err);
/* Memory of the caller; release(user) is called when it goes. It is not counted. */
tolk_status tk_memory_wrap(tk_book *book, void *at, size_t bytes, void (*release)(void *user),
                           void *user, tk_memory **out, tolk_error *err);
tk_memory *tk_memory_ref(tk_memory *m);
void tk_memory_unref(tk_memory *m);
void *tk_memory_at(const tk_memory *m);
size_t tk_memory_bytes(const tk_memory *m);

/* One use of bytes [from, to) of a memory. */
typedef struct tk_use {
    tk_memory *memory;
    size_t from, to;
    bool writes;
} tk_use;
/* What a command of queue q that uses these must wait for: writes before, and for its writes reads
 * before, of other queues, that are not done. Writes at most cap points, the latest of each queue;
 * the number of them is returned, and cap is enough if it is the number of queues of the context.
 */
size_t tk_memory_hazards(const tk_use *uses, size_t n, const tk_queue *q, tk_point *out,
                         size_t cap);
/* The command got this ticket. Both are called under one tk_memory_order_lock() of the context, so
 * that two commands see each other. Never fails. */
void tk_memory_used(const tk_use *uses, size_t n, tk_queue *q, uint64_t ticket);
/* The points of all that uses bytes of a memory, as the host will: waits for them. */
tolk_status tk_memory_wait(const tk_use *use, tolk_error *err);

#endif
