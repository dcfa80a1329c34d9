/* SPDX-License-Identifier: MIT
 *
 * Orders of calls that were found: the lists of graphs of calls by their keys. Bounded, least
 * recently used first out.
 */
#ifndef TK_REALIZE_SCHEDULE_CACHE_H
#define TK_REALIZE_SCHEDULE_CACHE_H

#include "ir/uop.h"

enum {
    TK_SCHEDULE_CACHE_ENTRIES = 256,   /* most of them */
    TK_SCHEDULE_CACHE_NODES = 1 << 20, /* and of the nodes of all */
};

typedef struct tk_schedule_cache tk_schedule_cache;

/* Errors: TOLK_E_NOMEM. */
tolk_status tk_schedule_cache_create(tolk_ctx *ctx, tk_schedule_cache **out, tolk_error *err);
void tk_schedule_cache_destroy(tk_schedule_cache *c);
/* In the child of a fork. */
void tk_schedule_cache_forked(tk_schedule_cache *c);

/* The list of a sink of g, as nodes of g; *list NULL: it is not there. A key says where to look:
 * what is there must be equal to sink, node by node. Errors: TOLK_E_NOMEM, TOLK_E_LIMIT. Threads:
 * any, each with a graph of its own. */
tolk_status tk_schedule_cache_find(tk_schedule_cache *c, tk_hash128 key, tolk_graph *g,
                                   const tolk_uop *sink, const tolk_uop **list, tolk_error *err);
/* Keep a copy of sink and list, nodes of one graph, unless that key has one, they are too large or
 * there is no memory. Threads: as above. */
void tk_schedule_cache_put(tk_schedule_cache *c, tk_hash128 key, const tolk_uop *sink,
                           const tolk_uop *list);
/* Threads: any. */
void tk_schedule_cache_clear(tk_schedule_cache *c);
size_t tk_schedule_cache_length(tk_schedule_cache *c);

#endif
