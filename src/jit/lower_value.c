/* SPDX-License-Identifier: MIT
 *
 * pass_lower, values of nodes: an array with one entry for each combination of the unrolled ranges
 * that a node depends on; how entries of one node belong to those of another; entries as vectors.
 */
#include "jit/lower.h"

/* Number of the lane range that u depends on, or -1. */
static int lane_of(const tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    for (size_t i = 0; i < l->lane_ranges.n; i++)
        if (tk_set_has(set, l->lane_ranges.at[i]))
            return (int)l->lane_ranges.at[i];
    return -1;
}

uint32_t tk_lower_lanes(const tk_lower *l, const tolk_uop *u) {
    int no = lane_of(l, u);
    return no < 0 ? 1 : (uint32_t)l->v.ranges.at[no]->src[0]->attr[0].i;
}

/* Combinations of the unrolled ranges in a set. */
uint32_t tk_lower_instances(const tk_lower *l, const uint64_t *set) {
    uint64_t n = 1;
    for (size_t i = 0; i < l->unrolled.n && n <= TK_LOWER_MAX_INSTANCES; i++)
        if (tk_set_has(set, l->unrolled.at[i].no))
            n *= l->unrolled.at[i].size;
    return n > TK_LOWER_MAX_INSTANCES ? TK_LOWER_MAX_INSTANCES + 1 : (uint32_t)n;
}

/* Instance of `to` that instance k of `from` uses; digits of ranges that only `to` has are 0. */
uint32_t tk_lower_project(const tk_lower *l, const uint64_t *from, uint32_t k, const uint64_t *to) {
    uint32_t at = 0, scale = 1;
    for (size_t i = l->unrolled.n; i-- > 0;) {
        uint32_t size = l->unrolled.at[i].size, digit = 0;
        if (tk_set_has(from, l->unrolled.at[i].no)) {
            digit = k % size;
            k /= size;
        }
        if (tk_set_has(to, l->unrolled.at[i].no)) {
            at += digit * scale;
            scale *= size;
        }
    }
    return at;
}

/* Innermost scope among the loops u depends on. */
int tk_lower_scope_of(const tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    int s = l->base_scope;
    for (size_t r = 0; r < l->v.ranges.n; r++)
        if (tk_set_has(set, (uint32_t)r) && l->range_scope[r] > 0 &&
            l->scopes.at[l->range_scope[r]].depth > l->scopes.at[s].depth)
            s = l->range_scope[r];
    return s;
}

static uint64_t value_key(const tolk_uop *u, int scope) {
    return (uint64_t)u->id << 32 | (uint32_t)scope;
}

tk_lval *tk_lower_values(const tk_lower *l, const tolk_uop *u) {
    uint64_t *at = tk_map_find(&l->values, value_key(u, tk_lower_scope_of(l, u)));
    /* An effect of the sink that is done belongs to no loop, whatever loop is open now. */
    if (!at && tk_uop_is(u, TK_OP_END))
        at = tk_map_find(&l->values, value_key(u, 0));
    return at ? &l->lvals.at[*at] : NULL;
}

/* Room for the values of u in its scope. The pointer is good until the next call. */
tk_lval *tk_lower_new_values(tk_lower *l, const tolk_uop *u, uint32_t n) {
    size_t at = l->lvals.n;
    if (!tk_vec_resize(&l->lvals, at + n) ||
        !tk_map_put(&l->values, value_key(u, tk_lower_scope_of(l, u)), at)) {
        tk_graph_fail(l->g, TOLK_E_NOMEM, "out of memory");
        return NULL;
    }
    return &l->lvals.at[at];
}

/* Value of source i of u for instance k of u. */
tk_lval tk_lower_source(const tk_lower *l, const tolk_uop *u, uint32_t k, uint32_t i) {
    const tolk_uop *s = u->src[i];
    tk_lval *at = tk_lower_values(l, s);
    TK_ASSERT(at);
    return at[tk_lower_project(l, tk_kview_set(&l->v, u), k, tk_kview_set(&l->v, s))];
}

const tolk_uop *tk_lower_iota(tk_lower *l, tolk_dtype scalar, uint32_t lanes, int64_t step) {
    const tolk_uop *src[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < lanes; i++)
        src[i] = tk_uop_const(l->g, scalar, (uint64_t)((int64_t)i * step));
    return tk_uop(l->g, TK_OP_STACK, tolk_dtype_vec(scalar, lanes), src, lanes, NULL);
}

/* The value as a vector of `lanes`. */
const tolk_uop *tk_lower_vector(tk_lower *l, tk_lval x, uint32_t lanes) {
    if (lanes == 1 || !x.u || tk_uop_lanes(x.u) > 1)
        return x.u;
    const tolk_uop *splat = tk_uop_splat(l->g, x.u, lanes);
    if (!x.stride)
        return splat;
    return tk_uop2(l->g, TK_OP_ADD, splat, tk_lower_iota(l, TOLK_INDEX, lanes, x.stride));
}
