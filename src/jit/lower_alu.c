/* SPDX-License-Identifier: MIT
 *
 * pass_lower, elementwise instructions: scalars, indices that move by a constant a lane, vectors;
 * and functions of math.def, whose slow body is a branch.
 */
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/sym.h"

/* Far outside of every buffer whatever lane is added: pass_prove's sentinel. */
static bool is_outside(tk_lval x) {
    return tk_uop_is_int(x.u, INT64_MIN / 2);
}

/* Index arithmetic that stays affine in the lane; u = NULL if it does not. */
static tk_lval affine_op(tk_lower *l, tk_op op, const tk_lval *s) {
    tolk_graph *g = l->g;
    tk_lval none = {NULL, 0};
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_SUB: {
        int64_t stride;
        if (!tk_lval_is_affine(s[0]) || !tk_lval_is_affine(s[1]) ||
            (op == TK_OP_ADD ? __builtin_add_overflow(s[0].stride, s[1].stride, &stride)
                             : __builtin_sub_overflow(s[0].stride, s[1].stride, &stride)))
            return none;
        return (tk_lval){op == TK_OP_ADD ? tk_sym_add(g, s[0].u, s[1].u)
                                         : tk_uop2(g, TK_OP_SUB, s[0].u, s[1].u),
                         stride};
    }
    case TK_OP_MUL: {
        tk_lval a = s[0], b = s[1];
        if (!tk_lval_is_affine(a) || !tk_lval_is_affine(b))
            return none;
        if (!tk_uop_is_const(b.u) || b.stride) {
            a = s[1];
            b = s[0];
        }
        int64_t stride;
        if (!tk_uop_is_const(b.u) || b.stride ||
            __builtin_mul_overflow(a.stride, b.u->attr[0].i, &stride))
            return none;
        return (tk_lval){tk_sym_mul(g, a.u, b.u), stride};
    }
    case TK_OP_WHERE: {
        if (!tk_lval_is_scalar(s[0]) || !tk_lval_is_affine(s[1]) || !tk_lval_is_affine(s[2]))
            return none;
        bool out1 = is_outside(s[1]), out2 = is_outside(s[2]);
        if (s[1].stride != s[2].stride && !out1 && !out2)
            return none;
        return (tk_lval){tk_uop3(g, TK_OP_WHERE, s[0].u, s[1].u, s[2].u),
                         out1 ? s[2].stride : s[1].stride};
    }
    default:
        return none;
    }
}

/* lane index + base < bound as one compare of small integers: lane < clamp(bound - base). */
static const tolk_uop *lane_below(tk_lower *l, tk_lval a, tk_lval b, uint32_t lanes) {
    tolk_graph *g = l->g;
    tk_bound ba = tk_bounds(a.u), bb = tk_bounds(b.u);
    if (a.stride != 1 || b.stride || tk_uop_lanes(b.u) > 1 || ba.state != 1 || bb.state != 1 ||
        ba.lo < INT64_MIN / 4 || ba.hi > INT64_MAX / 4 || bb.lo < INT64_MIN / 4 ||
        bb.hi > INT64_MAX / 4)
        return NULL;
    const tolk_uop *n = tk_uop2(g, TK_OP_SUB, b.u, a.u);
    const tolk_uop *most = tk_uop_index_const(g, lanes);
    n = tk_uop3(g, TK_OP_WHERE, tk_uop2(g, TK_OP_CMPLT, n, most), n, most);
    n = tk_uop2(g, TK_OP_MAX, n, tk_uop_index_const(g, 0));
    n = tk_uop_cast(g, n, TOLK_I32);
    return tk_uop2(g, TK_OP_CMPLT, tk_lower_iota(l, TOLK_I32, lanes, 1), tk_uop_splat(g, n, lanes));
}

/* An affine index cast to another integer dtype: wrapping commutes with adding. */
static const tolk_uop *cast_affine(tk_lower *l, tk_lval x, tolk_dtype to, uint32_t lanes) {
    const tolk_uop *base = tk_uop_splat(l->g, tk_uop_cast(l->g, x.u, to), lanes);
    return tk_uop2(l->g, TK_OP_ADD, base, tk_lower_iota(l, to, lanes, x.stride));
}

/* bool has add = max = or and mul = and. */
static tk_op bool_op(tk_op op) {
    return op == TK_OP_ADD || op == TK_OP_MAX ? TK_OP_OR : op == TK_OP_MUL ? TK_OP_AND : op;
}

const tolk_uop *tk_lower_combine(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b)
        return NULL;
    return tk_uop2(l->g, tk_dtype_scalar(a->dtype) == TOLK_BOOL ? bool_op(op) : op, a, b);
}

/* A function of math.def: the fast body, and a branch to the slow one when a lane needs it. */
static const tolk_uop *math(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    tolk_graph *g = l->g;
    tk_mathfn_expansion e = tk_mathfn_expand(g, op, a, b, l->p->target->fma);
    if (!e.fast || !e.slow || tk_uop_is_int(e.cond, 0))
        return e.fast;
    const tolk_uop *reg = tk_lower_reg_buffer(l, e.fast->dtype, 1);
    const tolk_uop *init = tk_lower_reg_store(l, reg, 0, e.fast);
    int at = tk_lower_place(l, e.cond);
    int fast_at = init ? tk_lower_place(l, e.fast) : -1;
    if (at < 0 || fast_at < 0)
        return NULL;
    if (l->scopes.at[fast_at].depth > l->scopes.at[at].depth)
        at = fast_at;
    /* The store is among the sources so that two functions with one condition get two nodes. */
    if (!tk_lower_effect(l, init, at))
        return NULL;
    const tolk_uop *open =
        tk_uop(g, TK_OP_IF, TOLK_VOID, (const tolk_uop *[]){e.cond, init}, 2, NULL);
    int body = open ? tk_lower_scope(l, at, open) : -1;
    if (body < 0)
        return NULL;
    int outer_pin = l->pin;
    l->pin = body;
    const tolk_uop *value = tk_uop3(g, TK_OP_WHERE, e.cond, e.slow, e.fast);
    bool ok = tk_lower_effect(l, tk_lower_reg_store(l, reg, 0, value), body);
    l->pin = outer_pin;
    const tolk_uop *end = ok ? tk_uop(g, TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL) : NULL;
    if (!end || !tk_lower_close(l, body, end))
        return NULL;
    const tolk_uop *r = tk_lower_reg_load(l, reg, 0, end);
    return r && tk_lower_place(l, r) >= 0 ? r : NULL;
}

tk_lval tk_lower_alu(tk_lower *l, const tolk_uop *u, const tk_lval *s, uint32_t lanes) {
    tolk_graph *g = l->g;
    tk_op op = tk_uop_op(u);
    uint32_t n = u->n_src;
    bool all_scalar = true;
    for (uint32_t i = 0; i < n; i++)
        all_scalar &= tk_lval_is_scalar(s[i]);
    if (!all_scalar && tk_dtype_scalar(u->dtype) == TOLK_INDEX) {
        tk_lval r = affine_op(l, op, s);
        if (r.u || tk_graph_failed(g))
            return r;
    }
    if (!all_scalar && op == TK_OP_CMPLT && tk_lval_is_affine(s[0]) && tk_lval_is_affine(s[1]) &&
        s[0].stride) {
        const tolk_uop *r = lane_below(l, s[0], s[1], lanes);
        if (r || tk_graph_failed(g))
            return tk_lval_uniform(r);
    }
    if (!all_scalar && op == TK_OP_CAST && tk_lval_is_affine(s[0]) && tolk_dtype_is_int(u->dtype))
        return tk_lval_uniform(cast_affine(l, s[0], u->dtype, lanes));
    const tolk_uop *v[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < n; i++)
        if (!(v[i] = all_scalar ? s[i].u : tk_lower_vector(l, s[i], lanes)))
            return (tk_lval){NULL, 0};
    if (tk_mathfn_is(op))
        return tk_lval_uniform(math(l, op, v[0], v[1]));
    if (op == TK_OP_CAST)
        return tk_lval_uniform(tk_uop_cast(g, v[0], tk_dtype_scalar(u->dtype)));
    if (op == TK_OP_BITCAST)
        return tk_lval_uniform(tk_uop_bitcast(g, v[0], tk_dtype_scalar(u->dtype)));
    if (n == 2)
        return tk_lval_uniform(tk_lower_combine(l, op, v[0], v[1]));
    return tk_lval_uniform(n == 1 ? tk_uop1(g, op, v[0]) : tk_uop3(g, op, v[0], v[1], v[2]));
}
