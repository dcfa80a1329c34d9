/* SPDX-License-Identifier: MIT
 *
 * Who uses which bytes of one memory until when. Not locked: see tk_memory_order_lock().
 *
 * A record is a range of bytes, the kind of use and a point: the use is over when the point is
 * reached. Records of one queue stand for each other, because it does its work in order: one that
 * lies in a later one of the same or a stronger kind is dropped, and where there is no room two of
 * one queue and kind become one of the range from the first byte to the last. Those of different
 * queues never do: a queue that a failed task stopped may drop the later work and keep the earlier.
 */
#ifndef TK_REALIZE_USES_H
#define TK_REALIZE_USES_H

#include "base/alloc.h"
#include "realize/queue.h"

typedef struct tk_uses_record {
    size_t from, to; /* bytes [from, to) */
    tk_point until;
    bool writes;
} tk_uses_record;

enum { TK_USES_OWN = 8 };

/* May not be moved. */
typedef struct tk_uses {
    tk_uses_record *at; /* own, or more */
    uint32_t n, cap;
    tk_uses_record own[TK_USES_OWN];
} tk_uses;

void tk_uses_init(tk_uses *u);
void tk_uses_fini(tk_uses *u, const tolk_allocator *al);
/* Is there room for records of that many queues, whatever they do? */
static inline bool tk_uses_fits(const tk_uses *u, size_t queues) {
    return queues <= u->cap / 2;
}
/* Use room for `cap` records, which is more than there was, from the allocator. What was there is
 * returned with its size, to be freed, or NULL. */
void *tk_uses_move(tk_uses *u, tk_uses_record *room, uint32_t cap, size_t *old_bytes);
/* The points, behind the n that are there, that a use of [from, to) must wait for: of other queues
 * than `except`, not reached, writes before it and, where it writes, reads. The latest of each
 * queue; at most cap. Returns the new n. */
size_t tk_uses_find(const tk_uses *u, size_t from, size_t to, bool writes, const tk_queue *except,
                    tk_point *out, size_t n, size_t cap);
/* Remember one. Never fails: there is room for two records of each queue (tk_uses_fits). */
void tk_uses_add(tk_uses *u, size_t from, size_t to, bool writes, tk_point until);

#endif
