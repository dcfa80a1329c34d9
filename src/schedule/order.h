/* SPDX-License-Identifier: MIT
 *
 * What waits for what: calls, and joins between many calls that others wait for and these, so that
 * all of M before all of N takes M + N edges. The order is the one that the M * N edges would give.
 */
#ifndef TK_SCHEDULE_ORDER_H
#define TK_SCHEDULE_ORDER_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#define TK_ORDER_NONE UINT32_MAX

typedef struct tk_order_vertex {
    uint32_t first, last; /* index + 1 of the edges from it, in the order in which they were made */
    uint32_t before;      /* of the edges to it, latest first */
    uint32_t n_waits;     /* edges to it */
    uint32_t number;      /* of a call: counts them; TK_ORDER_NONE: a join */
    bool keeps_key;       /* a join: the edge that opens it says when what waits for it is free */
    uint32_t place;       /* in the order; of a join that of the call that opened it */
    /* Numbers that fall along each path, rise, and those of a tree of paths. */
    uint32_t late, pre, post;
    uint32_t stamp; /* of the latest search that met it */
} tk_order_vertex;

/* `to` waits for `from`. key: of what waits for a call, the one of a lower key is free first. */
typedef struct tk_order_edge {
    uint32_t from, to;
    uint32_t next, before; /* index + 1: the next one from, the previous one to */
    uint64_t key;
} tk_order_edge;

/* Now free of an edge. */
typedef struct tk_order_item {
    uint64_t key;
    uint32_t vertex;
} tk_order_item;

typedef struct tk_order {
    TK_VEC(tk_order_vertex) v;
    TK_VEC(tk_order_edge) edges;
    TK_VEC(uint32_t) calls; /* vertices, in the order in which they were made */
    TK_VEC(uint32_t) list;  /* the order of the calls: vertices; those of a cycle are not in it */
    size_t n_known;         /* edges that searches follow */
    bool is_labeled;
    uint32_t stamp;
    TK_VEC(uint32_t) waits, todo, next;
    TK_VEC(tk_order_item) items;
} tk_order;

void tk_order_init(tk_order *o, const tolk_allocator *al);
void tk_order_fini(tk_order *o);
/* Those that return bool are false when out of memory. A join is between calls, never between
 * joins; keeps_key: edges from it have keys that are added to that of the edge that opens it, else
 * keys of their own. */
bool tk_order_call(tk_order *o, uint32_t *out);
bool tk_order_join(tk_order *o, bool keeps_key, uint32_t *out);
bool tk_order_edge_add(tk_order *o, uint32_t from, uint32_t to, uint64_t key);
/* First what waits for nothing, as it was made; then what is free by the first one of the list, and
 * so on. Sets list. */
bool tk_order_sort(tk_order *o);
/* A call that waits for itself, where the list lacks some. */
uint32_t tk_order_on_cycle(tk_order *o);
/* Searches follow the edges there are now, which have no cycle and were sorted. */
void tk_order_freeze(tk_order *o);
/* Is call k one of of[0 .. n-1], or do any of these wait for it? */
bool tk_order_is_before(tk_order *o, uint32_t k, const uint32_t *of, size_t n, bool *out);
/* The same for each of k[0 .. m-1]. */
bool tk_order_are_before(tk_order *o, const uint32_t *k, size_t m, const uint32_t *of, size_t n,
                         uint8_t *out);

#endif
