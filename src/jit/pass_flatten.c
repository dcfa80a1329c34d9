/* SPDX-License-Identifier: MIT
 *
 * pass_flatten: one index per access.
 *
 * Needs:  stage kernel, proved.
 * Leaves: every PARAM and BUFFER has rank 1, every place one index: the row-major offset in
 *         elements, as a sum whose terms stand in the order of the loops they depend on, outermost
 *         first, so that each partial sum can be computed in the outermost loop possible. Index
 *         arithmetic wraps at 64 bits, so regrouping is exact.
 */
#include "ir/sym.h"
#include "jit/pass.h"

#include <stdlib.h>

typedef struct flattener {
    tk_pass *p;
    uint32_t *level; /* of each range, by number in the view */
} flattener;

enum { LEVEL_UNROLLED = 1 << 20, LEVEL_LANE = 1 << 21 };

/* How deep the loop of each range stands: behind every range that the node which closes it still
 * depends on, and behind those closed before it by the same node. */
static void find_levels(const tk_kview *v, uint32_t *level) {
    for (size_t r = 0; r < v->ranges.n; r++)
        level[r] = 0;
    /* Closers with lower ids are inner ones: go from the outermost in. */
    for (size_t k = v->order.n; k-- > 0;) {
        const tolk_uop *u = v->order.at[k];
        uint32_t from = tk_kview_closes(u);
        if (from == u->n_src)
            continue;
        uint32_t base = 0;
        const uint64_t *set = tk_kview_set(v, u);
        for (size_t r = 0; r < v->ranges.n; r++)
            if (tk_set_has(set, (uint32_t)r) && level[r] + 1 > base && level[r] < LEVEL_UNROLLED)
                base = level[r] + 1;
        for (uint32_t i = from; i < u->n_src; i++) {
            if (!tk_uop_is(u->src[i], TK_OP_RANGE))
                continue;
            tk_axis kind = tk_kview_axis(u->src[i]);
            uint32_t l = kind == TK_AXIS_LANE                               ? LEVEL_LANE
                         : kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL ? LEVEL_UNROLLED
                                                                            : base++;
            uint32_t *at = &level[tk_kview_no(v, u->src[i])];
            if (l > *at)
                *at = l;
        }
    }
}

/* The terms of a sum of index values. False when out of memory. */
static bool terms_of(const tolk_uop *sum, tk_uops *out) {
    tk_uops todo;
    tk_vec_init(&todo, out->al);
    bool ok = tk_vec_push(&todo, sum);
    while (ok && todo.n) {
        const tolk_uop *u = tk_vec_pop(&todo);
        if (tk_uop_is(u, TK_OP_ADD))
            ok = tk_vec_push(&todo, u->src[1]) && tk_vec_push(&todo, u->src[0]);
        else
            ok = tk_vec_push(out, u);
    }
    tk_vec_fini(&todo);
    return ok;
}

typedef struct term {
    const tolk_uop *u;
    uint32_t level;
    size_t at;
} term;

static int by_level(const void *pa, const void *pb) {
    const term *a = pa, *b = pb;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static uint32_t level_of(const flattener *f, const tk_kview *v, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(v, u);
    uint32_t most = 0;
    for (size_t r = 0; r < v->ranges.n; r++)
        if (tk_set_has(set, (uint32_t)r) && f->level[r] + 1 > most)
            most = f->level[r] + 1;
    return most;
}

/* The same sum with its terms in the order of their loops. */
static const tolk_uop *in_loop_order(flattener *f, const tk_kview *v, const tolk_uop *sum) {
    tolk_graph *g = f->p->g;
    if (!tk_uop_is(sum, TK_OP_ADD))
        return v->map[sum->id];
    tk_uops terms;
    tk_vec_init(&terms, g->al);
    const tolk_uop *r = NULL;
    term *sorted = NULL;
    size_t n = 0;
    if (terms_of(sum, &terms) && (sorted = tk_alloc(g->al, terms.n * sizeof *sorted))) {
        n = terms.n;
        for (size_t i = 0; i < n; i++)
            sorted[i] = (term){v->map[terms.at[i]->id], level_of(f, v, terms.at[i]), i};
        qsort(sorted, n, sizeof *sorted, by_level);
        r = sorted[0].u;
        for (size_t i = 1; i < n && r; i++)
            r = tk_uop2(g, TK_OP_ADD, r, sorted[i].u);
    } else {
        tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    }
    tk_alloc_free(g->al, sorted, n * sizeof *sorted);
    tk_vec_fini(&terms);
    return r;
}

static const tolk_uop *dims_product(tolk_graph *g, const tolk_uop *shape) {
    if (!tk_uop_is(shape, TK_OP_STACK))
        return shape;
    const tolk_uop *n = tk_uop_index_const(g, 1);
    for (uint32_t i = 0; i < shape->n_src && n; i++)
        n = tk_sym_mul(g, n, shape->src[i]);
    return n;
}

/* First step: offsets and flat buffers. */
static const tolk_uop *flatten(void *user, const tk_kview *v, const tolk_uop *u,
                               const tolk_uop **src, uint32_t n) {
    (void)v;
    tk_pass *p = user;
    tolk_graph *g = p->g;
    bool buffer = tk_uop_is(u, TK_OP_BUFFER) ||
                  (tk_uop_is(u, TK_OP_PARAM) && tk_uop_int(u, TK_A_PARAM_SPACE) != TK_SPACE_ALU);
    if (buffer) {
        if (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            return tk_uop_with_src(g, u, src, n);
        const tolk_uop *size = u->n_src ? dims_product(g, src[0]) : tk_uop_index_const(g, 1);
        return size ? tk_uop_with_src(g, u, &size, 1) : NULL;
    }
    if (!tk_uop_is(u, TK_OP_INDEX) || n == 2)
        return tk_uop_with_src(g, u, src, n);
    const tolk_uop *shape = tk_access_buffer(u)->n_src ? tk_access_buffer(u)->src[0] : NULL;
    const tolk_uop *at = tk_uop_index_const(g, 0), *stride = tk_uop_index_const(g, 1);
    for (uint32_t d = n; d-- > 1 && at && stride;) {
        at = tk_sym_add(g, tk_sym_mul(g, src[d], stride), at);
        if (d > 1)
            stride =
                tk_sym_mul(g, stride, tk_uop_is(shape, TK_OP_STACK) ? shape->src[d - 1] : shape);
    }
    return at ? tk_uop_with_src(g, u, (const tolk_uop *[]){src[0], at}, 2) : NULL;
}

/* Second step: sums in loop order. */
static const tolk_uop *order_sums(void *user, const tk_kview *v, const tolk_uop *u,
                                  const tolk_uop **src, uint32_t n) {
    flattener *f = user;
    if (tk_uop_is(u, TK_OP_INDEX) && n == 2) {
        src[1] = in_loop_order(f, v, u->src[1]);
        if (!src[1])
            return NULL;
    }
    return tk_uop_with_src(f->p->g, u, src, n);
}

tolk_status tk_pass_flatten(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    const tolk_uop *r = tk_kview_rebuild(&v, flatten, p);
    tk_kview_fini(&v);
    if (r)
        r = tk_sym(p->g, r);
    if (!r)
        return tk_pass_failed(p, err);
    if (!tk_kview_init(&v, r))
        return tk_status_nomem(err);
    flattener f = {p, tk_alloc(v.al, (v.ranges.n + 1) * sizeof *f.level)};
    if (f.level) {
        find_levels(&v, f.level);
        r = tk_kview_rebuild(&v, order_sums, &f);
    } else {
        r = tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    }
    tk_alloc_free(v.al, f.level, (v.ranges.n + 1) * sizeof *f.level);
    tk_kview_fini(&v);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
