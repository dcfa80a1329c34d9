/* SPDX-License-Identifier: MIT */
#include "realize/uses.h"

#include "base/status.h"

#include <string.h>

void tk_uses_init(tk_uses *u) {
    u->at = u->own;
    u->n = 0;
    u->cap = TK_USES_OWN;
}

void tk_uses_fini(tk_uses *u, const tolk_allocator *al) {
    if (u->at != u->own)
        tk_alloc_free(al, u->at, u->cap * sizeof *u->at);
    tk_uses_init(u);
}

void *tk_uses_move(tk_uses *u, tk_uses_record *room, uint32_t cap, size_t *old_bytes) {
    TK_ASSERT(cap >= u->n);
    memcpy(room, u->at, u->n * sizeof *room);
    void *old = u->at == u->own ? NULL : u->at;
    *old_bytes = u->cap * sizeof *u->at;
    u->at = room;
    u->cap = cap;
    return old;
}

/* What a stopped queue dropped is never done, but it does not run either once the queue is closed.
 */
static bool is_over(const tk_uses_record *r) {
    return tk_queue_done(r->until.queue, r->until.ticket) || tk_queue_is_closed(r->until.queue);
}

/* Add the point to out, or put off the one of its queue. */
static size_t add_point(tk_point p, tk_point *out, size_t n, size_t cap) {
    for (size_t i = 0; i < n; i++)
        if (out[i].queue == p.queue) {
            out[i].ticket = p.ticket > out[i].ticket ? p.ticket : out[i].ticket;
            return n;
        }
    if (n < cap)
        out[n++] = p;
    return n;
}

size_t tk_uses_find(const tk_uses *u, size_t from, size_t to, bool writes, const tk_queue *except,
                    tk_point *out, size_t n, size_t cap) {
    for (uint32_t i = 0; i < u->n; i++) {
        const tk_uses_record *r = &u->at[i];
        if (r->until.queue != except && (writes || r->writes) && r->from < to && from < r->to &&
            !is_over(r))
            n = add_point(r->until, out, n, cap);
    }
    return n;
}

static void drop(tk_uses *u, uint32_t i) {
    u->at[i] = u->at[--u->n];
}

static bool same_kind(const tk_uses_record *a, const tk_uses_record *b) {
    return a->until.queue == b->until.queue && a->writes == b->writes;
}

static void join(tk_uses_record *a, const tk_uses_record *b) {
    a->from = a->from < b->from ? a->from : b->from;
    a->to = a->to > b->to ? a->to : b->to;
    a->until.ticket = a->until.ticket > b->until.ticket ? a->until.ticket : b->until.ticket;
}

/* Make room by joining the two records of one queue and kind that lie closest to each other. False:
 * each is the only one of its kind. */
static bool make_room(tk_uses *u) {
    uint32_t best_i = 0, best_k = 0; /* best_k 0: none yet */
    size_t best = 0;
    for (uint32_t i = 0; i < u->n; i++)
        for (uint32_t k = i + 1; k < u->n; k++) {
            const tk_uses_record *a = &u->at[i], *b = &u->at[k];
            if (!same_kind(a, b))
                continue;
            size_t gap = a->to < b->from ? b->from - a->to : b->to < a->from ? a->from - b->to : 0;
            if (gap < best || !best_k) {
                best = gap;
                best_i = i;
                best_k = k;
            }
        }
    if (!best_k)
        return false;
    join(&u->at[best_i], &u->at[best_k]);
    drop(u, best_k);
    return true;
}

void tk_uses_add(tk_uses *u, size_t from, size_t to, bool writes, tk_point until) {
    if (from >= to)
        return;
    for (uint32_t i = 0; i < u->n;) {
        const tk_uses_record *r = &u->at[i];
        bool stands_for = r->until.queue == until.queue && r->until.ticket <= until.ticket &&
                          from <= r->from && r->to <= to && (writes || !r->writes);
        if (stands_for || is_over(r))
            drop(u, i);
        else
            i++;
    }
    tk_uses_record added = {from, to, until, writes};
    if (u->n < u->cap || make_room(u)) {
        u->at[u->n++] = added;
        return;
    }
    /* There are as many kinds of records as there is room, so this kind is among them. */
    uint32_t i = 0;
    while (i < u->n - 1 && !same_kind(&u->at[i], &added))
        i++;
    TK_ASSERT(same_kind(&u->at[i], &added));
    join(&u->at[i], &added);
}
