/* SPDX-License-Identifier: MIT
 *
 * pass_prepare: a private copy of the kernel in the form that the other passes expect.
 *
 * Needs:  stage kernel, verified; may belong to another graph.
 * Leaves: stage kernel in p->g. Where work-items do not meet (items.h) there is no SPECIAL: grid
 *         indices are global ranges and indices of work-items local ranges, closed around the
 *         effects that use them. Where they do, p->items is set and specials stay. No gated index:
 *         where(valid, i, invalid) became the access's gate. Ranges whose iterations meet in memory
 *         are loops, whatever kind they were given as. Index arithmetic is simplified. p->given is
 *         the kernel before that.
 * Errors: TOLK_E_UNSUPPORTED for wmma, naming what was met.
 */
#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/scalar.h"
#include "ir/sym.h"
#include "jit/items.h"
#include "jit/opt.h"
#include "jit/pass.h"

#include <string.h>

tolk_status tk_pass_failed(const tk_pass *p, tolk_error *err) {
    if (!tk_graph_failed(p->g))
        return tk_status_fail(err, TOLK_E_INTERNAL, TK_NO_NODE, "a pass failed without an error");
    if (err)
        *err = p->g->error;
    return p->g->error.code;
}

static tolk_status unsupported(tolk_error *err, const tolk_uop *u, const char *what) {
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, u->id, "%s: the compiler does not have %s",
                          tk_op_get(tk_uop_op(u))->name, what);
}

static tolk_status check_supported(const tolk_uop *u, tolk_error *err) {
    switch (tk_uop_op(u)) {
    case TK_OP_BUFFER:
        if (tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL)
            return unsupported(err, u, "global buffers inside a kernel (use a param)");
        return TOLK_OK;
    case TK_OP_WMMA:
    case TK_OP_STAGE:
    case TK_OP_SHRINK:
        return unsupported(err, u, "this op");
    default:
        return TOLK_OK;
    }
}

static const tolk_uop *gate_and(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return a ? tk_uop2(g, TK_OP_AND, a, b) : b;
}

/* Move the gates of gated indices to the access. src: the access's new sources. */
static const tolk_uop *lift_gates(tolk_graph *g, const tolk_uop *u, const tolk_uop **src,
                                  uint32_t n) {
    const tolk_uop *place = src[0], *gate = NULL;
    TK_VEC(const tolk_uop *) idx;
    tk_vec_init(&idx, g->al);
    bool ok = true;
    for (uint32_t i = 0; i < place->n_src && ok; i++) {
        const tolk_uop *x = place->src[i];
        while (i > 0 && tk_uop_is(x, TK_OP_WHERE) && tk_uop_is_invalid(x->src[2])) {
            gate = gate_and(g, gate, x->src[0]);
            x = x->src[1];
        }
        ok = tk_vec_push(&idx, x);
    }
    const tolk_uop *r = NULL;
    bool load = tk_uop_is(u, TK_OP_LOAD);
    if (!ok) {
        tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    } else if (!gate) {
        r = tk_uop_with_src(g, place, idx.at, idx.n);
        if (r) {
            src[0] = r;
            r = tk_uop(g, tk_uop_op(u), u->dtype, src, n, u->attr);
        }
    } else {
        const tolk_uop *at = tk_uop_with_src(g, place, idx.at, idx.n);
        if (n == 3)
            gate = gate_and(g, src[2], gate);
        const tolk_uop *second = !load || n == 3 ? src[1] : tk_uop_const(g, u->dtype, 0);
        r = tk_uop(g, tk_uop_op(u), u->dtype, (const tolk_uop *[]){at, second, gate}, 3, u->attr);
    }
    tk_vec_fini(&idx);
    return r;
}

/* Axis numbers of ranges that specials become: z is the outermost, work-items stand inside of
 * groups; far from the axis numbers of the kernel's own ranges. */
enum { FIRST_AXIS = 1000000, ITEM_AXIS = FIRST_AXIS + 3, END_AXIS = FIRST_AXIS + 6 };

static const tolk_uop *special_range(tolk_graph *g, const tolk_uop *u, const tolk_uop *size) {
    int dim = 0;
    bool item = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &dim) == TK_SPECIAL_LIDX;
    return tk_uop_range(g, size, (item ? ITEM_AXIS : FIRST_AXIS) + 2 - dim,
                        item ? TK_AXIS_LOCAL : TK_AXIS_GLOBAL);
}

static const tolk_uop *copy_node(tk_pass *p, const tolk_uop *u, const tolk_uop **src) {
    tolk_graph *g = p->g;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (!src[i])
            return NULL;
    const tolk_uop *r = tk_uop_is(u, TK_OP_SPECIAL) && !p->items ? special_range(g, u, src[0])
                                                                 : tk_uop_import(g, u, src);
    bool access = r && (tk_uop_is(r, TK_OP_LOAD) || tk_uop_is(r, TK_OP_STORE) ||
                        tk_uop_is(r, TK_OP_ATOMIC_ADD));
    if (access && tk_uop_is(r->src[0], TK_OP_INDEX)) {
        const tolk_uop *in[3] = {r->src[0], r->n_src > 1 ? r->src[1] : NULL,
                                 r->n_src > 2 ? r->src[2] : NULL};
        r = lift_gates(g, r, in, r->n_src);
    }
    return r;
}

/* Is an atomic_add what happens in this effect? Each work-item adds, whatever the place and the
 * value depend on. */
static bool adds(const tk_kview *v, const tolk_uop *effect, bool *failed) {
    tk_uops todo;
    tk_vec_init(&todo, v->al);
    bool ok = tk_vec_push(&todo, effect), found = false;
    while (ok && todo.n && !found) {
        const tolk_uop *u = tk_vec_pop(&todo);
        uint32_t n = tk_uop_is(u, TK_OP_END) ? 1 : tk_uop_is(u, TK_OP_GROUP) ? u->n_src : 0;
        found = tk_uop_is(u, TK_OP_ATOMIC_ADD);
        for (uint32_t i = 0; i < n && ok; i++)
            ok = tk_vec_push(&todo, u->src[i]);
    }
    tk_vec_fini(&todo);
    *failed |= !ok;
    return found;
}

/* Close the ranges that came from specials around each effect of the sink that depends on them. */
static const tolk_uop *close_specials(tk_pass *p, const tolk_uop *sink) {
    tk_kview v;
    if (!tk_kview_init(&v, sink))
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    bool failed = false;
    tk_uops out, src;
    tk_vec_init(&out, p->g->al);
    tk_vec_init(&src, p->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < sink->n_src && ok; i++) {
        const tolk_uop *e = sink->src[i];
        src.n = 0;
        ok = tk_vec_push(&src, e);
        bool all = adds(&v, e, &failed);
        for (int64_t axis = FIRST_AXIS; axis < END_AXIS; axis++)
            for (size_t r = 0; r < v.ranges.n && ok; r++)
                if (tk_uop_int(v.ranges.at[r], TK_A_RANGE_AXIS) == axis &&
                    (all || tk_kview_depends(&v, e, v.ranges.at[r])))
                    ok = tk_vec_push(&src, v.ranges.at[r]);
        ok = ok && !failed;
        if (ok && src.n > 1)
            e = tk_uop(p->g, TK_OP_END, TOLK_VOID, src.at, src.n, NULL);
        ok = ok && e && tk_vec_push(&out, e);
    }
    const tolk_uop *r = ok ? tk_uop_with_src(p->g, sink, out.at, out.n)
                           : tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    tk_vec_fini(&out);
    tk_vec_fini(&src);
    tk_kview_fini(&v);
    return r;
}

/* Loops that surely have no iteration: effects that never run, folds that give their
 * identity. */
static const tolk_uop *drop_empty(void *user, const tk_kview *v, const tolk_uop *u,
                                  const tolk_uop **src, uint32_t n) {
    (void)v;
    tk_pass *p = user;
    bool empty = false;
    for (uint32_t i = tk_kview_closes(u); i < n; i++)
        if (tk_uop_is(src[i], TK_OP_RANGE)) {
            tk_bound b = tk_bounds(src[i]->src[0]);
            empty |= b.state == 1 && b.hi <= 0;
        }
    if (!empty)
        return tk_uop_with_src(p->g, u, src, n);
    if (tk_uop_is(u, TK_OP_END))
        return tk_uop(p->g, TK_OP_GROUP, TOLK_VOID, NULL, 0, NULL);
    return tk_uop_const(p->g, u->dtype,
                        tk_scalar_identity((tk_rop)tk_uop_int(u, TK_A_REDUCE_OP), u->dtype));
}

static const tolk_uop *without_empty_loops(tk_pass *p, const tolk_uop *root) {
    tk_kview v;
    if (!tk_kview_init(&v, root))
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    const tolk_uop *r = tk_kview_rebuild(&v, drop_empty, p);
    tk_kview_fini(&v);
    return r;
}

tolk_status tk_pass_prepare(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    const tolk_uop **map = tk_alloc_zero(v.al, v.n_ids * sizeof *map);
    p->items = tk_items_meet(&v);
    tk_uops src;
    tk_vec_init(&src, v.al);
    tolk_status st = map ? TOLK_OK : tk_status_nomem(err);
    bool specials = false;
    for (size_t k = 0; k < v.order.n && st == TOLK_OK; k++) {
        const tolk_uop *u = v.order.at[k];
        st = check_supported(u, err);
        if (st == TOLK_OK && !tk_vec_resize(&src, u->n_src))
            st = tk_status_nomem(err);
        if (st != TOLK_OK)
            break;
        for (uint32_t i = 0; i < u->n_src; i++)
            src.at[i] = map[u->src[i]->id];
        specials |= tk_uop_is(u, TK_OP_SPECIAL);
        map[u->id] = copy_node(p, u, src.at);
        if (!map[u->id])
            st = tk_pass_failed(p, err);
    }
    const tolk_uop *r = st == TOLK_OK ? map[(*root)->id] : NULL;
    if (r && specials && !p->items)
        r = close_specials(p, r);
    p->given = r;
    if (r)
        r = without_empty_loops(p, r);
    if (r)
        r = tk_sym(p->g, r);
    if (r)
        r = tk_opt_order_given(p->g, r);
    if (st == TOLK_OK && !r)
        st = tk_pass_failed(p, err);
    tk_alloc_free(v.al, map, v.n_ids * sizeof *map);
    tk_vec_fini(&src);
    tk_kview_fini(&v);
    if (st == TOLK_OK)
        *root = r;
    return st;
}
