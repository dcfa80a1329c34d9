/* SPDX-License-Identifier: MIT
 *
 * pass_lower, REDUCE and END: loops, accumulators, folds of unrolled ranges and of lanes.
 */
#include "jit/lower.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

/* Fold the lanes of one vector: halves until one is left (docs/ir.md, "Reduce"). */
static const tolk_uop *fold_lanes(tk_lower *l, tk_op op, const tolk_uop *x) {
    tolk_graph *g = l->g;
    tolk_dtype dt = tk_dtype_scalar(x->dtype);
    for (uint32_t w = tk_uop_lanes(x); w > 1; w /= 2) {
        const tolk_uop *half[2][TOLK_MAX_LANES];
        for (uint32_t i = 0; i < w; i++)
            half[i / (w / 2)][i % (w / 2)] = tk_uop(
                g, TK_OP_INDEX, dt, (const tolk_uop *[]){x, tk_uop_index_const(g, i)}, 2, NULL);
        const tolk_uop *lo = half[0][0], *hi = half[1][0];
        if (w > 2) {
            lo = tk_uop(g, TK_OP_STACK, tolk_dtype_vec(dt, w / 2), half[0], w / 2, NULL);
            hi = tk_uop(g, TK_OP_STACK, tolk_dtype_vec(dt, w / 2), half[1], w / 2, NULL);
        }
        x = tk_lower_combine(l, op, lo, hi);
        if (!x)
            return NULL;
    }
    return x;
}

/* Where folds that start at the identity differ from folds that start at the first value. */
static bool identity_matters(tk_op op, tolk_dtype dt) {
    return op == TK_OP_ADD && tolk_dtype_is_float(dt);
}

/* Number of combinations of the unrolled ranges that a REDUCE closes. */
static uint32_t folded_instances(const tolk_uop *u) {
    uint32_t n = 1;
    for (uint32_t i = 1; i < u->n_src; i++)
        if (tk_lower_is_unrolled(tk_kview_axis(u->src[i])))
            n *= (uint32_t)u->src[i]->src[0]->attr[0].i;
    return n;
}

/* Value of a REDUCE's source for instance k of the REDUCE and combination j of the unrolled ranges
 * it closes, in the order of its sources. */
static tk_lval folded_value(const tk_lower *l, const tolk_uop *u, uint32_t k, uint32_t j) {
    const uint64_t *from = tk_kview_set(&l->v, u), *to = tk_kview_set(&l->v, u->src[0]);
    uint32_t *digits = l->digits.at;
    for (size_t i = 0; i < l->unrolled.n; i++)
        digits[i] = 0;
    /* Digits of k over the ranges u depends on ... */
    for (size_t i = l->unrolled.n; i-- > 0;)
        if (tk_set_has(from, l->unrolled.at[i].no)) {
            digits[i] = k % l->unrolled.at[i].size;
            k /= l->unrolled.at[i].size;
        }
    /* ... and of j over those it closes. */
    for (uint32_t s = u->n_src; s-- > 1;) {
        if (!tk_lower_is_unrolled(tk_kview_axis(u->src[s])))
            continue;
        uint32_t no = tk_kview_no(&l->v, u->src[s]);
        for (size_t i = 0; i < l->unrolled.n; i++)
            if (l->unrolled.at[i].no == no) {
                digits[i] = j % l->unrolled.at[i].size;
                j /= l->unrolled.at[i].size;
            }
    }
    uint32_t at = 0;
    for (size_t i = 0; i < l->unrolled.n; i++)
        if (tk_set_has(to, l->unrolled.at[i].no))
            at = at * l->unrolled.at[i].size + digits[i];
    return tk_lower_values(l, u->src[0])[at];
}

static bool closes_loops(const tolk_uop *u) {
    for (uint32_t i = 1; i < u->n_src; i++) {
        tk_axis kind = tk_kview_axis(u->src[i]);
        if (!tk_lower_is_unrolled(kind) && kind != TK_AXIS_LANE)
            return true;
    }
    return false;
}

/* Open the loops of a REDUCE or END in the order of its sources. */
bool tk_lower_open_loops(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    int scope = f->scope;
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *range = u->src[i];
        tk_axis kind = tk_kview_axis(range);
        if (tk_lower_is_unrolled(kind) || kind == TK_AXIS_LANE || i < f->first_loop)
            continue;
        tk_attr attrs[4] = {{.i = l->next_axis++}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
        attrs[3].i = l->poll_depth && l->scopes.at[scope].depth + 1 == l->poll_depth;
        /* The size may itself be a value of outer loops, of those just opened, too. */
        if (!tk_lower_values(l, range->src[0]) && !tk_lower_visit(l, range->src[0]))
            return false;
        const tolk_uop *size = tk_lower_values(l, range->src[0])[0].u;
        const tolk_uop *loop = tk_uop(l->g, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs);
        if (!loop || tk_lower_place(l, size) < 0)
            return false;
        int body = tk_lower_scope(l, scope, loop);
        uint32_t no = tk_kview_no(&l->v, range);
        tk_lower_saved saved = {no, l->range_scope[no], l->range_value[no]};
        if (body < 0 || !tk_vec_push(&l->saved, saved))
            return false;
        f->n_saved++;
        l->range_scope[no] = body;
        l->range_value[no] = loop;
        scope = body;
    }
    f->inner = scope;
    return true;
}

/* Close them again; the outermost END is the token of all that happened inside. */
static const tolk_uop *close_loops(tk_lower *l, tk_lower_frame *f) {
    const tolk_uop *end = NULL;
    int scope = f->inner;
    while (scope != f->scope) {
        const tolk_uop *loop = l->scopes.at[scope].list.at[0];
        int parent = l->scopes.at[scope].parent;
        end = tk_uop(l->g, TK_OP_END, TOLK_VOID, &loop, 1, NULL);
        if (!end || !tk_lower_close(l, scope, end))
            return NULL;
        scope = parent;
    }
    for (; f->n_saved; f->n_saved--) {
        tk_lower_saved s = tk_vec_pop(&l->saved);
        l->range_scope[s.no] = s.scope;
        l->range_value[s.no] = s.value;
    }
    return end;
}

bool tk_lower_enter_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    if (!closes_loops(u)) {
        f->inner = f->scope;
        return true;
    }
    uint32_t n = tk_lower_instances(l, tk_kview_set(&l->v, u));
    tolk_dtype dt = tk_dtype_scalar(u->dtype);
    uint32_t lanes = tk_lower_lanes(l, u);
    f->acc = tk_lower_reg_buffer(l, tolk_dtype_vec(dt, lanes), n);
    tk_rop rop = (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP);
    const tolk_uop *id = tk_uop_const(l->g, dt, tk_scalar_identity(rop, dt));
    for (uint32_t k = 0; k < n; k++)
        if (!tk_lower_effect(l, tk_lower_reg_store(l, f->acc, k, tk_uop_splat(l->g, id, lanes)),
                             f->scope))
            return false;
    return tk_lower_open_loops(l, u, f);
}

bool tk_lower_leave_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    tolk_graph *g = l->g;
    uint32_t n = tk_lower_instances(l, tk_kview_set(&l->v, u)), m = folded_instances(u);
    tolk_dtype dt = tk_dtype_scalar(u->dtype);
    tk_rop rop = (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP);
    tk_op op = tk_op_of_rop(rop);
    uint32_t lanes = tk_lower_lanes(l, u);
    if (!f->acc) {
        /* Unrolled ranges or lanes alone: the fold is straight code. */
        bool over_lane = u->n_src == 2 && tk_kview_axis(u->src[1]) == TK_AXIS_LANE;
        const tolk_uop *id = tk_uop_const(g, dt, tk_scalar_identity(rop, dt));
        if (!tk_lower_new_values(l, u, n))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            const tolk_uop *r = NULL;
            if (over_lane) {
                uint32_t w = (uint32_t)u->src[1]->src[0]->attr[0].i;
                tk_lval x = folded_value(l, u, k, 0);
                r = x.u ? tk_lower_vector(l, x, w) : NULL;
                r = r ? fold_lanes(l, op, r) : NULL;
            } else {
                if (identity_matters(op, dt))
                    r = tk_uop_splat(g, id, lanes);
                for (uint32_t j = 0; j < m; j++) {
                    const tolk_uop *x = tk_lower_vector(l, folded_value(l, u, k, j), lanes);
                    r = r ? tk_lower_combine(l, op, r, x) : x;
                    if (!r)
                        return false;
                }
            }
            if (!r)
                return false;
            tk_lower_values(l, u)[k] = tk_lval_uniform(r);
        }
        return true;
    }
    const tolk_uop *innermost = l->scopes.at[f->inner].list.at[0];
    for (uint32_t k = 0; k < n; k++) {
        const tolk_uop *acc = tk_lower_reg_load(l, f->acc, k, innermost);
        if (tk_lower_place(l, acc) < 0)
            return false;
        for (uint32_t j = 0; j < m; j++)
            acc = tk_lower_combine(l, op, acc, tk_lower_vector(l, folded_value(l, u, k, j), lanes));
        if (!tk_lower_effect(l, tk_lower_reg_store(l, f->acc, k, acc), f->inner))
            return false;
    }
    const tolk_uop *end = close_loops(l, f);
    if (!end || !tk_lower_new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const tolk_uop *r = tk_lower_reg_load(l, f->acc, k, end);
        if (tk_lower_place(l, r) < 0)
            return false;
        tk_lower_values(l, u)[k] = tk_lval_uniform(r);
    }
    return true;
}

bool tk_lower_leave_end(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    tk_lval *e = tk_lower_values(l, u->src[0]);
    const tolk_uop *end = e ? e[0].u : NULL;
    if (f->inner != f->scope && !(end = close_loops(l, f)))
        return false;
    tk_lval *v = tk_lower_new_values(l, u, 1);
    if (v)
        v[0] = tk_lval_uniform(end);
    return v != NULL;
}
