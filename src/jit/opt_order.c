/* SPDX-License-Identifier: MIT
 *
 * Whether the iterations of a loop may run in another order than the kernel says, or at once: what
 * splits, lanes and threads make of them.
 */
#include "ir/bounds.h"
#include "ir/dtype.h"
#include "jit/affine.h"
#include "jit/opt.h"

/* Is q surely a loop around that of range, whose iterations come one after the other as long as q
 * stays? */
static bool is_around(const tk_kview *v, const tolk_uop *q, const tolk_uop *range) {
    bool closed = false;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_END))
            continue;
        bool before = tk_kview_depends(v, u, q);
        for (uint32_t i = 1; i < u->n_src && u->src[i] != range; i++)
            before |= u->src[i] == q;
        bool closes = false;
        for (uint32_t i = 1; i < u->n_src; i++)
            closes |= u->src[i] == range;
        if (closes && !before)
            return false;
        closed |= closes;
    }
    return closed;
}

/* False when out of memory, which is then the graph's error. */
static bool push(tk_uops *list, const tolk_uop *u) {
    if (!tk_vec_push(list, u))
        tk_graph_fail(u->graph, TOLK_E_NOMEM, "out of memory");
    return !tk_graph_failed(u->graph);
}

/* May some value that index is made of, and that moves with range, wrap around? */
static bool may_wrap(const tk_kview *v, const tolk_uop *index, const tolk_uop *range) {
    tk_uops todo;
    tk_vec_init(&todo, v->al);
    bool ok = push(&todo, index);
    while (ok && todo.n) {
        const tolk_uop *u = tk_vec_pop(&todo);
        if (u == range || !tk_kview_depends(v, u, range))
            continue;
        tk_wide_bound all = tk_bounds_dtype(u->dtype), b = tk_bounds_wide(u);
        ok = tk_dtype_scalar(u->dtype) == TOLK_INDEX || b.lo > all.lo || b.hi < all.hi;
        uint32_t from = tk_uop_is(u, TK_OP_WHERE) ? 1 : 0; /* the gate is no part of the value */
        for (uint32_t i = from; i < u->n_src && ok; i++)
            ok = tk_uop_is_invalid(u->src[i]) || push(&todo, u->src[i]);
    }
    tk_vec_fini(&todo);
    return !ok;
}

/* How far a step of range r goes over all its iterations; -1: nobody knows. */
static tk_wide reach(tk_step s, const tolk_uop *r) {
    if (s.kind == TK_STEP_NONE)
        return 0;
    tk_bound size = tk_bounds(r->src[0]);
    if (s.kind != TK_STEP_CONST || size.state != 1)
        return -1;
    tk_wide step = s.elems < 0 ? -(tk_wide)s.elems : s.elems;
    return size.hi < 1 ? 0 : step * (size.hi - 1);
}

/* Is index another one in each iteration of range, whatever loops further in do to it? */
static bool index_is_own(const tk_kview *v, const tolk_uop *index, const tolk_uop *range,
                         tk_step *steps) {
    tk_affine_steps(v, range, steps);
    tk_step own = steps[index->id];
    if (own.kind != TK_STEP_CONST || own.elems == 0 || may_wrap(v, index, range))
        return false;
    tk_wide all = reach(own, range), others = 0;
    for (size_t r = 0; r < v->ranges.n; r++) {
        const tolk_uop *q = v->ranges.at[r];
        if (q == range || !tk_kview_depends(v, index, q) || is_around(v, q, range))
            continue;
        tk_affine_steps(v, q, steps);
        tk_wide far = may_wrap(v, index, q) ? -1 : reach(steps[index->id], q);
        if (far < 0)
            return false;
        others += far;
    }
    tk_wide step = own.elems < 0 ? -(tk_wide)own.elems : own.elems;
    return all >= 0 && all + others <= INT64_MAX && others < step;
}

/* Does every iteration of the range store to places of its own? */
static bool moves(const tk_kview *v, const tolk_uop *place, const tolk_uop *range) {
    tk_step *steps = tk_alloc(v->al, v->n_ids * sizeof *steps);
    bool own = false;
    if (!steps)
        tk_graph_fail(range->graph, TOLK_E_NOMEM, "out of memory");
    for (uint32_t i = 1; steps && i < place->n_src && !own; i++)
        own = index_is_own(v, place->src[i], range, steps);
    tk_alloc_free(v->al, steps, v->n_ids * sizeof *steps);
    return own;
}

/* registers: is a store to a register an answer, too? */
static bool is_parallel(const tk_kview *v, const tolk_uop *range, bool registers) {
    uint32_t no = tk_kview_no(v, range);
    if (tk_kview_has_meetings(v, range))
        return false;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *s = v->order.at[k];
        bool store = tk_uop_is(s, TK_OP_STORE) || tk_uop_is(s, TK_OP_ATOMIC_ADD);
        if (!store || !tk_set_has(tk_kview_set(v, s), no))
            continue;
        const tolk_uop *buffer = tk_access_buffer(s->src[0]);
        if (!tk_kview_is_memory(buffer) && !registers)
            continue;
        if (!tk_kview_is_memory(buffer) || !tk_uop_is(s, TK_OP_STORE))
            return false;
        /* Two iterations may store to one place unless the range moves it; and a load of the same
         * buffer is safe only at the very place that this iteration stores to. */
        if (!moves(v, s->src[0], range))
            return false;
        for (size_t j = 0; j < v->order.n; j++) {
            const tolk_uop *l = v->order.at[j];
            if (tk_uop_is(l, TK_OP_STORE) && l != s && tk_access_buffer(l->src[0]) == buffer)
                return false;
            if (!tk_uop_is(l, TK_OP_LOAD) || tk_access_buffer(l->src[0]) != buffer)
                continue;
            const tolk_uop *a = s->src[0], *b = l->src[0];
            if (a->n_src != b->n_src)
                return false;
            for (uint32_t i = 1; i < a->n_src; i++)
                if (a->src[i] != b->src[i])
                    return false;
        }
    }
    return true;
}

bool tk_opt_parallel(const tk_kview *v, const tolk_uop *range) {
    return (tk_kview_is_unordered(range) && !tk_kview_has_meetings(v, range)) ||
           is_parallel(v, range, true);
}

/* Is the order in which a range of that kind takes stores not that of a loop? */
static bool meets(const tk_kview *v, const tolk_uop *range) {
    tk_axis kind = tk_kview_axis(range);
    bool at_once = kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL || kind == TK_AXIS_LANE;
    bool closed = false, folded = false;
    for (size_t k = 0; k < v->order.n && at_once; k++) {
        const tolk_uop *u = v->order.at[k];
        for (uint32_t i = tk_kview_closes(u); i < u->n_src; i++) {
            closed |= u->src[i] == range && tk_uop_is(u, TK_OP_END);
            folded |= u->src[i] == range && tk_uop_is(u, TK_OP_REDUCE);
        }
    }
    return closed && !folded && !is_parallel(v, range, false);
}

const tolk_uop *tk_opt_order_given(tolk_graph *g, const tolk_uop *root) {
    for (int64_t axis = 4000000;; axis++) {
        tk_kview v;
        if (!tk_kview_init(&v, root))
            return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
        const tolk_uop *range = NULL;
        for (size_t r = 0; r < v.ranges.n && !range; r++)
            if (meets(&v, v.ranges.at[r]))
                range = v.ranges.at[r];
        tk_kview_fini(&v);
        if (tk_graph_failed(g))
            return NULL;
        if (!range)
            return root;
        if (!(root = tk_kview_make_loop(g, root, range, axis)))
            return NULL;
    }
}
