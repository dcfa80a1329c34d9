/* SPDX-License-Identifier: MIT
 *
 * A kernel as passes look at it: its nodes in topological order, its ranges, and for each node the
 * set of ranges it depends on (docs/ir.md, "Ranges").
 */
#ifndef TK_JIT_KVIEW_H
#define TK_JIT_KVIEW_H

#include "ir/access.h"

typedef TK_VEC(const tolk_uop *) tk_uops;

typedef struct tk_kview {
    const tolk_uop *root;
    tk_uops order;        /* every node reached, sources first */
    tk_uops ranges;       /* the RANGE nodes among them */
    uint32_t words;       /* 64-bit words of one set */
    size_t n_ids;         /* nodes with a lower id have a set */
    uint64_t *sets;       /* n_ids * words */
    uint32_t *range_no;   /* by id: number in ranges, UINT32_MAX for others */
    bool *reached;        /* by id */
    const tolk_uop **map; /* while rebuilding: the new nodes so far, by old id */
    const tolk_allocator *al;
} tk_kview;

/* Look at root. False when out of memory (nothing to free then). Cost: O(nodes * ranges / 64). */
bool tk_kview_init(tk_kview *v, const tolk_uop *root);
void tk_kview_fini(tk_kview *v);

/* Bits of the ranges u depends on, as numbered in v->ranges. */
static inline const uint64_t *tk_kview_set(const tk_kview *v, const tolk_uop *u) {
    TK_ASSERT(u->id < v->n_ids && v->reached[u->id]);
    return v->sets + (size_t)u->id * v->words;
}
static inline uint32_t tk_kview_no(const tk_kview *v, const tolk_uop *range) {
    return v->range_no[range->id];
}
static inline bool tk_set_has(const uint64_t *set, uint32_t bit) {
    return set[bit / 64] >> (bit % 64) & 1;
}
static inline void tk_set_add(uint64_t *set, uint32_t bit) {
    set[bit / 64] |= (uint64_t)1 << (bit % 64);
}
static inline bool tk_kview_depends(const tk_kview *v, const tolk_uop *u, const tolk_uop *range) {
    return tk_set_has(tk_kview_set(v, u), tk_kview_no(v, range));
}
/* First source that closes ranges: those at and behind it are closed ranges. n_src if none. */
static inline uint32_t tk_kview_closes(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE) ? 1 : u->n_src;
}
/* Does u depend on the range, or is it a REDUCE over it? A fold over lanes of what is the same in
 * each of them depends on the lanes nowhere. */
static inline bool tk_kview_involves(const tk_kview *v, const tolk_uop *u, const tolk_uop *range) {
    for (uint32_t i = 1; tk_uop_is(u, TK_OP_REDUCE) && i < u->n_src; i++)
        if (u->src[i] == range)
            return true;
    return tk_kview_depends(v, u, range);
}
/* Is it memory that other iterations and the caller see (param, global buffer)? */
static inline bool tk_kview_is_global(const tolk_uop *buffer) {
    return tk_uop_is(buffer, TK_OP_PARAM) ||
           (tk_uop_is(buffer, TK_OP_BUFFER) &&
            tk_uop_int(buffer, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL);
}
/* Is it memory at all, or registers of one iteration? */
static inline bool tk_kview_is_memory(const tolk_uop *buffer) {
    return !tk_access_is_reg(buffer);
}
static inline tk_axis tk_kview_axis(const tolk_uop *range) {
    return (tk_axis)tk_uop_int(range, TK_A_RANGE_KIND);
}

/* Do the iterations of a range run in any order, also at once? */
static inline bool tk_kview_is_unordered(const tolk_uop *range) {
    tk_axis kind = tk_kview_axis(range);
    return kind == TK_AXIS_GLOBAL || kind == TK_AXIS_THREAD || kind == TK_AXIS_LOCAL ||
           kind == TK_AXIS_WARP;
}
/* Is there a node that involves both the range and another one of kind lane? */
bool tk_kview_meets_lanes(const tk_kview *v, const tolk_uop *range);
/* Does the size of another loop depend on this one? */
bool tk_kview_sizes_depend(const tk_kview *v, const tolk_uop *range);
/* Do work-items meet, at a barrier or in a shuffle, in the iterations of the range? */
bool tk_kview_has_meetings(const tk_kview *v, const tolk_uop *range);
/* The range of that name (axis and sub) and size with another kind; NULL on failure. */
const tolk_uop *tk_kview_of_kind(tolk_graph *g, const tolk_uop *range, tk_axis kind);
/* The graph below root where the range is a loop of that new axis number. NULL on failure. */
const tolk_uop *tk_kview_make_loop(tolk_graph *g, const tolk_uop *root, const tolk_uop *range,
                                   int64_t axis);

/* The graph below u (a node of v) with each from[i] replaced by to[i], where from[i] is not closed:
 * in a node that closes a RANGE among from[], that range is another one and all below is left as it
 * is. NULL on failure. */
const tolk_uop *tk_kview_substitute(const tk_kview *v, const tolk_uop *u,
                                    const tolk_uop *const *from, const tolk_uop *const *to,
                                    size_t n);

/* Rebuild every node of v in order. fn gets the old node and its new sources (in a scratch array it
 * may change) and returns the new node. Returns the new root, or NULL with the error in the graph.
 */
typedef const tolk_uop *(*tk_kview_fn)(void *user, const tk_kview *v, const tolk_uop *u,
                                       const tolk_uop **src, uint32_t n);
const tolk_uop *tk_kview_rebuild(tk_kview *v, tk_kview_fn fn, void *user);

#endif
