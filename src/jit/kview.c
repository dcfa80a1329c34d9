/* SPDX-License-Identifier: MIT */
#include "jit/kview.h"

#include "ir/rewrite.h"

#include <string.h>

bool tk_kview_init(tk_kview *v, const tolk_uop *root) {
    tolk_graph *g = root->graph;
    *v = (tk_kview){.root = root, .al = g->al, .n_ids = (size_t)root->id + 1};
    tk_vec_init(&v->order, v->al);
    tk_vec_init(&v->ranges, v->al);
    v->reached = tk_alloc_zero(v->al, v->n_ids * sizeof *v->reached);
    v->range_no = tk_alloc(v->al, v->n_ids * sizeof *v->range_no);
    if (!v->reached || !v->range_no)
        goto fail;
    memset(v->range_no, 0xff, v->n_ids * sizeof *v->range_no);
    /* Sources have lower ids than their users, so one sweep down finds what is reached, and
     * ascending ids are a topological order. */
    size_t n = 0;
    v->reached[root->id] = true;
    for (size_t id = v->n_ids; id-- > 0;) {
        if (!v->reached[id])
            continue;
        n++;
        const tolk_uop *u = g->nodes.at[id];
        for (uint32_t i = 0; i < u->n_src; i++)
            v->reached[u->src[i]->id] = true;
    }
    if (!tk_vec_reserve(&v->order, n))
        goto fail;
    for (size_t id = 0; id < v->n_ids; id++) {
        const tolk_uop *u = g->nodes.at[id];
        if (!v->reached[id])
            continue;
        tk_vec_push(&v->order, u);
        if (tk_uop_is(u, TK_OP_RANGE)) {
            v->range_no[id] = (uint32_t)v->ranges.n;
            if (!tk_vec_push(&v->ranges, u))
                goto fail;
        }
    }
    v->words = (uint32_t)(v->ranges.n + 63) / 64;
    if (!v->words)
        v->words = 1;
    v->sets = tk_alloc_zero(v->al, v->n_ids * v->words * sizeof *v->sets);
    if (!v->sets)
        goto fail;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        uint64_t *set = v->sets + (size_t)u->id * v->words;
        uint32_t open = tk_uop_is(u, TK_OP_RANGE) ? 1 : tk_kview_closes(u);
        for (uint32_t i = 0; i < open; i++)
            for (uint32_t w = 0; w < v->words; w++)
                set[w] |= tk_kview_set(v, u->src[i])[w];
        if (tk_uop_is(u, TK_OP_RANGE)) {
            tk_set_add(set, v->range_no[u->id]);
            continue;
        }
        /* How often a loop runs depends on what its size depends on. */
        for (uint32_t i = open; i < u->n_src; i++)
            if (tk_uop_is(u->src[i], TK_OP_RANGE))
                for (uint32_t w = 0; w < v->words; w++)
                    set[w] |= tk_kview_set(v, u->src[i]->src[0])[w];
        for (uint32_t i = open; i < u->n_src; i++) {
            const uint64_t *closed = tk_kview_set(v, u->src[i]);
            for (uint32_t w = 0; w < v->words; w++)
                if (!tk_uop_is(u->src[i], TK_OP_RANGE))
                    set[w] &= ~closed[w];
            if (tk_uop_is(u->src[i], TK_OP_RANGE)) {
                uint32_t no = v->range_no[u->src[i]->id];
                set[no / 64] &= ~((uint64_t)1 << (no % 64));
            }
        }
    }
    return true;
fail:
    tk_kview_fini(v);
    return false;
}

void tk_kview_fini(tk_kview *v) {
    tk_vec_fini(&v->order);
    tk_vec_fini(&v->ranges);
    tk_alloc_free(v->al, v->reached, v->n_ids * sizeof *v->reached);
    tk_alloc_free(v->al, v->range_no, v->n_ids * sizeof *v->range_no);
    tk_alloc_free(v->al, v->sets, v->n_ids * v->words * sizeof *v->sets);
    v->reached = NULL;
    v->range_no = NULL;
    v->sets = NULL;
}

const tolk_uop *tk_kview_substitute(const tk_kview *v, const tolk_uop *u,
                                    const tolk_uop *const *from, const tolk_uop *const *to,
                                    size_t n) {
    tk_uops all_from, all_to;
    tk_vec_init(&all_from, v->al);
    tk_vec_init(&all_to, v->al);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        ok = tk_vec_push(&all_from, from[i]) && tk_vec_push(&all_to, to[i]);
    for (size_t k = 0; k < v->order.n && v->order.at[k]->id <= u->id && ok; k++) {
        const tolk_uop *c = v->order.at[k];
        bool closes = false;
        for (uint32_t i = tk_kview_closes(c); i < c->n_src && !closes; i++)
            for (size_t j = 0; j < n && !closes; j++)
                closes = c->src[i] == from[j] && tk_uop_is(from[j], TK_OP_RANGE);
        if (closes)
            ok = tk_vec_push(&all_from, c) && tk_vec_push(&all_to, c);
    }
    const tolk_uop *r =
        ok ? tk_rewrite_substitute(v->root->graph, u, all_from.at, all_to.at, all_from.n)
           : tk_graph_fail(v->root->graph, TOLK_E_NOMEM, "out of memory");
    tk_vec_fini(&all_from);
    tk_vec_fini(&all_to);
    return r;
}

bool tk_kview_meets_lanes(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_kview_involves(v, u, range))
            continue;
        for (size_t r = 0; r < v->ranges.n; r++)
            if (v->ranges.at[r] != range && tk_kview_axis(v->ranges.at[r]) == TK_AXIS_LANE &&
                tk_kview_involves(v, u, v->ranges.at[r]))
                return true;
    }
    return false;
}

bool tk_kview_sizes_depend(const tk_kview *v, const tolk_uop *range) {
    for (size_t r = 0; r < v->ranges.n; r++)
        if (tk_kview_depends(v, v->ranges.at[r]->src[0], range))
            return true;
    return false;
}

bool tk_kview_has_meetings(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if ((tk_uop_is(u, TK_OP_BARRIER) || tk_uop_is(u, TK_OP_SHUFFLE)) &&
            tk_kview_depends(v, u, range))
            return true;
    }
    return false;
}

const tolk_uop *tk_kview_of_kind(tolk_graph *g, const tolk_uop *range, tk_axis kind) {
    tk_attr attrs[4] = {range->attr[0], range->attr[1], {.i = kind}, {.i = 0}};
    return tk_uop(g, TK_OP_RANGE, TOLK_INDEX, range->src, range->n_src, attrs);
}

const tolk_uop *tk_kview_make_loop(tolk_graph *g, const tolk_uop *root, const tolk_uop *range,
                                   int64_t axis) {
    tk_attr attrs[4] = {{.i = axis}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
    const tolk_uop *loop = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, range->src, range->n_src, attrs);
    return loop ? tk_rewrite_substitute(g, root, &range, &loop, 1) : NULL;
}

const tolk_uop *tk_kview_rebuild(tk_kview *v, tk_kview_fn fn, void *user) {
    tolk_graph *g = v->root->graph;
    const tolk_uop **map = v->map = tk_alloc_zero(v->al, v->n_ids * sizeof *map);
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, v->al);
    const tolk_uop *root = NULL;
    if (!map)
        tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    for (size_t k = 0; map && k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_vec_resize(&src, u->n_src)) {
            tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
            break;
        }
        for (uint32_t i = 0; i < u->n_src; i++)
            src.at[i] = map[u->src[i]->id];
        map[u->id] = fn(user, v, u, src.at, u->n_src);
        if (!map[u->id])
            break;
        if (u == v->root)
            root = map[u->id];
    }
    tk_alloc_free(v->al, map, v->n_ids * sizeof *map);
    v->map = NULL;
    tk_vec_fini(&src);
    return root;
}
