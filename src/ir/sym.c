/* SPDX-License-Identifier: MIT
 *
 * The rules by op, one step each; rewrite.c takes them to the fixpoint. Every rule makes its node
 * smaller in the order: operations that remain, then size of constants, then how far it is from the
 * canonical form of sym.h. That is why no two rules undo each other.
 */
#include "ir/sym.h"

#include "ir/divmod.h"
#include "ir/dtype.h"
#include "ir/linear.h"
#include "ir/rewrite.h"
#include "ir/scalar.h"
#include "ir/symcmp.h"

#include <string.h>

/* ---- constants ---- */

/* Bits of a constant, also of one that all lanes of a vector hold. */
static bool const_bits(const tolk_uop *u, uint64_t *bits) {
    if (tk_uop_is(u, TK_OP_STACK) && u->n_src > 0 && tk_uop_lanes(u) == u->n_src) {
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] != u->src[0])
                return false;
        u = u->src[0];
    }
    if (!tk_uop_is_const(u))
        return false;
    *bits = tk_uop_bits(u);
    return true;
}

static bool is_const(const tolk_uop *u) {
    uint64_t bits;
    return const_bits(u, &bits);
}

static const tolk_uop *make_const(tolk_graph *g, tolk_dtype dtype, uint64_t bits) {
    return tk_uop_splat(g, tk_uop_const(g, tk_dtype_scalar(dtype), bits), tolk_dtype_lanes(dtype));
}

static const tolk_uop *fold(tolk_graph *g, const tolk_uop *u) {
    uint64_t v[3] = {0, 0, 0}, r;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (!const_bits(u->src[i], &v[i]))
            return NULL;
    tk_op op = tk_uop_op(u);
    tolk_dtype from = tk_dtype_scalar(u->src[0]->dtype), to = tk_dtype_scalar(u->dtype);
    if (op == TK_OP_CAST)
        r = tk_scalar_cast(from, to, v[0]);
    else if (op == TK_OP_BITCAST)
        r = tk_scalar_bitcast(from, to, v[0]);
    else {
        r = tk_scalar_alu(op, op == TK_OP_WHERE ? to : from, v[0], v[1], v[2], true);
        /* Functions that a target without FMA computes otherwise are left to it. */
        if (tolk_dtype_is_float(from) && tk_op_get(op)->dom == TK_DOM_F &&
            r != tk_scalar_alu(op, from, v[0], v[1], v[2], false))
            return NULL;
    }
    return make_const(g, u->dtype, r);
}

/* ---- sources ---- */

/* An index that is no place makes no sum: it is drawn out, so that gates stay outermost. */
static const tolk_uop *draw_gate_out(tolk_graph *g, const tolk_uop *u) {
    if (u->dtype != TOLK_INDEX || tk_uop_is(u, TK_OP_WHERE) || tk_uop_is(u, TK_OP_CAST))
        return NULL;
    for (uint32_t i = 0; i < u->n_src; i++) {
        const tolk_uop *w = u->src[i];
        if (w->dtype != TOLK_INDEX)
            continue;
        if (tk_uop_is_invalid(w))
            return w;
        if (!tk_uop_is(w, TK_OP_WHERE) || !tk_uop_is_invalid(w->src[2]))
            continue;
        const tolk_uop *src[3];
        for (uint32_t j = 0; j < u->n_src; j++)
            src[j] = j == i ? w->src[1] : u->src[j];
        const tolk_uop *in = tk_uop_with_src(g, u, src, u->n_src);
        return in ? tk_uop3(g, TK_OP_WHERE, w->src[0], in, w->src[2]) : NULL;
    }
    return NULL;
}

/* Loop variables and arguments that have one value only. They stay where they are loops. */
static const tolk_uop *fixed_sources(tolk_graph *g, const tolk_uop *u, uint32_t first) {
    const tolk_uop *src[8];
    bool changed = false;
    if (u->n_src > 8)
        return NULL;
    for (uint32_t i = 0; i < u->n_src; i++) {
        const tolk_uop *s = src[i] = u->src[i];
        tk_op op = tk_uop_op(s);
        if (i < first || !tolk_dtype_is_int(s->dtype) ||
            (op != TK_OP_RANGE && op != TK_OP_SPECIAL && op != TK_OP_PARAM))
            continue;
        tk_wide_bound b = tk_bounds_wide(s);
        if (b.lo != b.hi)
            continue;
        src[i] = tk_linear_make_const(g, s->dtype, b.lo);
        changed = true;
    }
    return changed && !tk_graph_failed(g) ? tk_uop_with_src(g, u, src, u->n_src) : NULL;
}

/* ---- integer sums ---- */

/* x div c and x mod c of the same kind, also x div b mod c with x div (b*c)? */
static bool is_pair(const tolk_uop *q, const tolk_uop *r) {
    bool is_floor = tk_uop_is(q, TK_OP_FLOORDIV) && tk_uop_is(r, TK_OP_FLOORMOD);
    if (!is_floor && (!tk_uop_is(q, TK_OP_CDIV) || !tk_uop_is(r, TK_OP_CMOD)))
        return false;
    if (q->src[0] == r->src[0] && q->src[1] == r->src[1])
        return true;
    const tolk_uop *x = r->src[0];
    tk_wide b, c, bc;
    return is_floor && tk_uop_is(x, TK_OP_FLOORDIV) && x->src[0] == q->src[0] &&
           tk_linear_const(x->src[1], &b) && tk_linear_const(r->src[1], &c) &&
           tk_linear_const(q->src[1], &bc) && b > 0 && c > 0 && b * c == bc;
}

/* x div c * (c*f) + x mod c * f = x * f, which holds modulo 2^bits and for c = 0. */
static void join_pairs(tk_linear *l) {
    for (uint32_t i = 0; i < l->n; i++)
        for (uint32_t j = 0; j < l->n; j++) {
            const tolk_uop *q = l->at[i].u, *r = l->at[j].u;
            tk_wide c;
            if (i == j || !is_pair(q, r) || !tk_linear_const(r->src[1], &c))
                continue;
            int64_t f = l->at[j].c;
            if ((uint64_t)l->at[i].c !=
                (uint64_t)tk_linear_wrap(l->dtype, (tk_wide)((uint64_t)f * (uint64_t)c)))
                continue;
            const tolk_uop *x = r->src[0];
            tk_linear_remove(l, i > j ? i : j);
            tk_linear_remove(l, i > j ? j : i);
            (void)tk_linear_add_term(l, x, f); /* two left, one comes */
            i = j = 0;
            if (!l->n)
                return;
        }
}

/* Index sums get their one form. Others keep the order that they were written in, unless terms
 * merge: their sums are work of the kernel, and another order may share less. */
static const tolk_uop *sum_rule(tolk_graph *g, const tolk_uop *u) {
    tk_linear l;
    tk_linear_of(u, &l);
    if (l.n == 1 && l.at[0].u == u)
        return NULL;
    uint32_t leaves = l.leaves;
    join_pairs(&l);
    bool merged = l.n + (l.k != 0) < leaves;
    if (tk_dtype_scalar(u->dtype) != TOLK_INDEX && l.n > 1 && !merged)
        return NULL;
    const tolk_uop *v = tk_linear_build(g, &l);
    return v == u ? NULL : v;
}

static bool is_mask(tk_wide c) {
    return c > 0 && ((c + 1) & c) == 0;
}

/* (x op c) op d = x op (c op d) */
static const tolk_uop *regroup(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0];
    if (!tk_uop_is(x, tk_uop_op(u)) || !is_const(u->src[1]) || !is_const(x->src[1]))
        return NULL;
    const tolk_uop *c = tk_uop2(g, tk_uop_op(u), x->src[1], u->src[1]);
    return c ? tk_uop2(g, tk_uop_op(u), x->src[0], c) : NULL;
}

/* Constant factors of a product go outermost, where sums see them. */
static const tolk_uop *product_rule(tolk_graph *g, const tolk_uop *u) {
    tk_wide c;
    if (tk_linear_const(u->src[1], &c) && c == 1)
        return u->src[0];
    const tolk_uop *v = sum_rule(g, u);
    if (!v && !tk_graph_failed(g))
        v = regroup(g, u);
    if (v || u->dtype != TOLK_INDEX || is_const(u->src[1]) || tk_graph_failed(g))
        return v;
    tk_linear a, b;
    tk_linear_of(u->src[0], &a);
    tk_linear_of(u->src[1], &b);
    const tolk_uop *x = u->src[0], *y = u->src[1];
    uint64_t f = 1;
    if (a.n == 1 && a.k == 0) {
        x = a.at[0].u;
        f *= (uint64_t)a.at[0].c;
    }
    if (b.n == 1 && b.k == 0) {
        y = b.at[0].u;
        f *= (uint64_t)b.at[0].c;
    }
    bool swap = tk_uop_compare(y, x) < 0;
    const tolk_uop *p = tk_uop2(g, TK_OP_MUL, swap ? y : x, swap ? x : y);
    if (p == u || !p)
        return NULL;
    return f == 1 ? p : tk_uop2(g, TK_OP_MUL, p, tk_uop_index_const(g, (int64_t)f));
}

static const tolk_uop *bits_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->src[1];
    tk_op op = tk_uop_op(u);
    tk_wide c;
    if (x == y)
        return op == TK_OP_XOR ? tk_linear_make_const(g, u->dtype, 0) : x;
    if (!tk_linear_const(y, &c))
        return NULL;
    bool ones = tk_linear_wrap(u->dtype, c) == -1;
    if (c == 0)
        return op == TK_OP_AND ? y : x;
    if (ones && op != TK_OP_XOR)
        return op == TK_OP_AND ? x : y;
    if (op == TK_OP_AND && is_mask(c)) {
        tk_wide_bound b = tk_bounds_wide(x);
        if (b.lo >= 0 && b.hi <= c)
            return x;
        if (u->dtype == TOLK_INDEX && c < INT64_MAX)
            return tk_uop2(g, TK_OP_FLOORMOD, x, tk_uop_index_const(g, (int64_t)(c + 1)));
    }
    return regroup(g, u);
}

static const tolk_uop *max_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->src[1];
    if (x == y)
        return x; /* NaN and -0, too */
    if (!tolk_dtype_is_int(u->dtype))
        return NULL;
    tk_wide_bound a = tk_bounds_wide(x), b = tk_bounds_wide(y);
    if (a.lo >= b.hi || b.lo >= a.hi)
        return a.lo >= b.hi ? x : y;
    if (u->dtype == TOLK_INDEX) {
        tk_linear l, m, d;
        tk_linear_of(x, &l);
        tk_linear_of(y, &m);
        if (tk_linear_exact(&l, NULL) && tk_linear_exact(&m, NULL) &&
            tk_linear_difference(&l, &m, &d) && tk_linear_bound(&d, &a) && (a.lo >= 0 || a.hi <= 0))
            return a.lo >= 0 ? x : y;
    }
    return regroup(g, u);
}

static const tolk_uop *shift_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0];
    tk_wide k;
    if (!tk_linear_const(u->src[1], &k))
        return NULL;
    if (k == 0)
        return x;
    if (tk_uop_is(u, TK_OP_SHL))
        return k < 0 || k >= (tk_wide)tk_dtype_bits(u->dtype) ? tk_linear_make_const(g, u->dtype, 0)
                                                              : sum_rule(g, u);
    if (u->dtype == TOLK_INDEX && k > 0 && k < 63)
        return tk_uop2(g, TK_OP_FLOORDIV, x, tk_uop_index_const(g, (int64_t)1 << (unsigned)k));
    return NULL;
}

/* ---- casts ---- */

/* Bits of precision of a float, 0 for none. */
static uint32_t precision(tolk_dtype dt) {
    switch (tk_dtype_scalar(dt)) {
    case TOLK_FP8E4M3:
        return 4;
    case TOLK_FP8E5M2:
        return 3;
    case TOLK_BF16:
        return 8;
    case TOLK_F16:
        return 11;
    case TOLK_F32:
        return 24;
    case TOLK_F64:
        return 53;
    default:
        return 0;
    }
}

/* Is every value of x itself as `to`? */
static bool keeps_value(const tolk_uop *x, tolk_dtype to) {
    tolk_dtype from = tk_dtype_scalar(x->dtype);
    to = tk_dtype_scalar(to);
    if (tolk_dtype_is_float(from)) {
        switch (from) {
        case TOLK_F32:
            return to == TOLK_F64;
        case TOLK_F16:
        case TOLK_BF16:
            return to == TOLK_F32 || to == TOLK_F64;
        case TOLK_FP8E4M3:
        case TOLK_FP8E5M2:
            return to == TOLK_F16 || to == TOLK_BF16 || to == TOLK_F32 || to == TOLK_F64;
        default:
            return false;
        }
    }
    tk_wide_bound b = tk_bounds_wide(x);
    if (tolk_dtype_is_float(to)) {
        /* Integers up to 2^precision; fp8 and f16 have a smaller range than that only for e5m2's
         * and e4m3's few bits, which 2^precision stays below. */
        tk_wide most = (tk_wide)1 << precision(to);
        return b.lo >= -most && b.hi <= most;
    }
    tk_wide_bound full = tk_bounds_dtype(to);
    return to != TOLK_BOOL && b.lo >= full.lo && b.hi <= full.hi;
}

/* cast(cast(x, mid), to) = cast(x, to)? Steps between f16 and f32 stay: CPUs have those two
 * conversions of f16 and no other (jit/pass_narrow.c). */
static bool skips(const tolk_uop *x, tolk_dtype mid, tolk_dtype to) {
    bool from_half = tk_dtype_scalar(x->dtype) == TOLK_F16,
         to_half = tk_dtype_scalar(to) == TOLK_F16;
    if (tk_dtype_scalar(mid) == TOLK_F32 && from_half != to_half)
        return false;
    bool ints = !tolk_dtype_is_float(x->dtype) && tolk_dtype_is_int(mid) && tolk_dtype_is_int(to);
    if (ints && tk_dtype_bits(to) <= tk_dtype_bits(mid))
        return true; /* the low bits are the same */
    if (!keeps_value(x, mid))
        return false;
    /* Integers wrap into an integer dtype, floats saturate. */
    if (!tolk_dtype_is_float(x->dtype) && tolk_dtype_is_float(mid) && tolk_dtype_is_int(to))
        return keeps_value(x, to);
    return true;
}

static const tolk_uop *cast_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0];
    if (x->dtype == u->dtype)
        return x;
    if (tk_uop_is(x, TK_OP_CAST) && skips(x->src[0], x->dtype, u->dtype))
        return tk_uop_cast(g, x->src[0], u->dtype);
    return NULL;
}

static const tolk_uop *bitcast_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0];
    if (x->dtype == u->dtype)
        return x;
    /* Through bool bits are lost. */
    if (tk_uop_is(x, TK_OP_BITCAST) && tk_dtype_scalar(x->dtype) != TOLK_BOOL)
        return tk_uop_bitcast(g, x->src[0], u->dtype);
    return NULL;
}

/* ---- floats ---- */

static bool is_float(tolk_dtype dtype, const tolk_uop *u, double v) {
    uint64_t bits, want;
    memcpy(&want, &v, sizeof want);
    return const_bits(u, &bits) && bits == tk_scalar_cast(TOLK_F64, tk_dtype_scalar(dtype), want);
}

/* 1/c, if c is a power of two and 1/c a normal number: then x/c and x * (1/c) round alike. */
static const tolk_uop *exact_reciprocal(tolk_graph *g, const tolk_uop *c) {
    tolk_dtype dt = tk_dtype_scalar(c->dtype);
    uint64_t bits;
    if ((dt != TOLK_F32 && dt != TOLK_F64) || !const_bits(c, &bits))
        return NULL;
    unsigned digits = precision(dt) - 1, exponents = dt == TOLK_F32 ? 255 : 2047;
    uint64_t sign = bits >> (dt == TOLK_F32 ? 31 : 63) << (dt == TOLK_F32 ? 31 : 63);
    uint64_t e = (bits ^ sign) >> digits;
    if ((bits & (((uint64_t)1 << digits) - 1)) || e == 0 || e >= exponents - 1)
        return NULL;
    return make_const(g, c->dtype, sign | (exponents - 1 - e) << digits);
}

static const tolk_uop *float_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->n_src > 1 ? u->src[1] : NULL;
    tolk_dtype dt = u->dtype;
    switch (tk_uop_op(u)) {
    case TK_OP_NEG:
        return tk_uop_is(x, TK_OP_NEG) ? x->src[0] : NULL;
    case TK_OP_ADD: /* x + 0 would turn -0 into 0 */
        return is_float(dt, y, -0.0) ? x : NULL;
    case TK_OP_SUB:
        return is_float(dt, y, 0.0) ? x : NULL;
    case TK_OP_MUL:
        if (is_float(dt, y, 1.0))
            return x;
        return is_float(dt, y, -1.0) ? tk_uop1(g, TK_OP_NEG, x) : NULL;
    case TK_OP_FDIV: {
        if (is_float(dt, y, 1.0))
            return x;
        const tolk_uop *r = exact_reciprocal(g, y);
        return r ? tk_uop2(g, TK_OP_MUL, x, r) : NULL;
    }
    case TK_OP_MAX:
        return max_rule(g, u);
    case TK_OP_TRUNC:
        return tk_uop_is(x, TK_OP_TRUNC) ? x : NULL;
    default:
        return NULL;
    }
}

/* ---- dispatch ---- */

static const tolk_uop *integer_rule(tolk_graph *g, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_NEG:
        return tk_uop_is(u->src[0], TK_OP_NEG) ? u->src[0]->src[0] : sum_rule(g, u);
    case TK_OP_ADD:
    case TK_OP_SUB:
        return sum_rule(g, u);
    case TK_OP_MUL:
        return product_rule(g, u);
    case TK_OP_MULACC: {
        const tolk_uop *p = tk_uop2(g, TK_OP_MUL, u->src[0], u->src[1]);
        return p ? tk_uop2(g, TK_OP_ADD, p, u->src[2]) : NULL;
    }
    case TK_OP_SHL:
    case TK_OP_SHR:
        return shift_rule(g, u);
    case TK_OP_MAX:
        return max_rule(g, u);
    case TK_OP_AND:
    case TK_OP_OR:
    case TK_OP_XOR:
        return bits_rule(g, u);
    case TK_OP_CDIV:
    case TK_OP_CMOD:
    case TK_OP_FLOORDIV:
    case TK_OP_FLOORMOD:
        return tk_divmod_rule(g, u);
    default:
        return NULL;
    }
}

static bool has_invalid(const tolk_uop *u) {
    for (uint32_t i = 0; i < u->n_src; i++)
        if (tk_uop_is_invalid(u->src[i]))
            return true;
    return false;
}

static const tolk_uop *alu_rule(tolk_graph *g, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    const tolk_uop *v = draw_gate_out(g, u);
    if (!v && !tk_graph_failed(g))
        v = fixed_sources(g, u, 0);
    if (v || tk_graph_failed(g))
        return v;
    bool is_bool = tk_dtype_scalar(u->dtype) == TOLK_BOOL;
    if (!has_invalid(u)) {
        v = fold(g, u);
        if (v || tk_graph_failed(g))
            return v;
        if (tolk_dtype_is_int(u->dtype) || is_bool) {
            tk_wide_bound b = tk_bounds_wide(u);
            if (b.lo == b.hi)
                return is_bool ? tk_symcmp_truth(g, u->dtype, b.lo != 0)
                               : tk_linear_make_const(g, u->dtype, b.lo);
        }
        if ((tk_op_get(op)->flags & TK_FLAG_COMM) && is_const(u->src[0]) && !is_const(u->src[1]))
            return tk_uop2(g, op, u->src[1], u->src[0]);
    }
    switch (op) {
    case TK_OP_WHERE:
        return tk_symcmp_where(g, u);
    case TK_OP_CAST:
        return cast_rule(g, u);
    case TK_OP_BITCAST:
        return bitcast_rule(g, u);
    case TK_OP_CMPLT:
    case TK_OP_CMPNE:
    case TK_OP_CMPEQ:
        return tk_symcmp_rule(g, u);
    default:
        break;
    }
    if (is_bool)
        return u->n_src == 2 ? tk_symcmp_bool(g, u) : NULL;
    return tolk_dtype_is_int(u->dtype) ? integer_rule(g, u) : float_rule(g, u);
}

/* A gate that is always true needs no gate. */
static const tolk_uop *access_rule(tolk_graph *g, const tolk_uop *u) {
    uint32_t n = u->n_src;
    if (tk_uop_is(u, TK_OP_LOAD)) {
        if (n == 3 && tk_symcmp_is(u->src[2], true))
            return tk_uop_with_src(g, u, u->src, 1);
        return n == 3 && tk_symcmp_is(u->src[2], false) && u->src[1]->dtype == u->dtype ? u->src[1]
                                                                                        : NULL;
    }
    return n == 3 && tk_symcmp_is(u->src[2], true) ? tk_uop_with_src(g, u, u->src, 2) : NULL;
}

static const tolk_uop *rule(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)user;
    tk_op op = tk_uop_op(u);
    if (tk_op_is_alu(op))
        return alu_rule(g, u);
    switch (op) {
    case TK_OP_LOAD:
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return access_rule(g, u);
    case TK_OP_INDEX:
        if (tk_uop_is(u->src[0], TK_OP_STACK) && u->n_src == 2 && tk_uop_is_const(u->src[1]) &&
            tk_uop_bits(u->src[1]) < u->src[0]->n_src &&
            u->src[0]->src[tk_uop_bits(u->src[1])]->dtype == u->dtype)
            return u->src[0]->src[tk_uop_bits(u->src[1])]; /* a lane */
        return fixed_sources(g, u, 1);
    default:
        return NULL;
    }
}

const tolk_uop *tk_sym(tolk_graph *g, const tolk_uop *u) {
    return tk_rewrite(g, u, rule, NULL, 0);
}

/* ---- builders ---- */

static const tolk_uop *simple(tolk_graph *g, const tolk_uop *u) {
    return g->symbolic_off ? u : tk_rewrite(g, u, rule, NULL, TK_REWRITE_NEW);
}

const tolk_uop *tk_sym1(tolk_graph *g, tk_op op, const tolk_uop *a) {
    return a ? simple(g, tk_uop1(g, op, a)) : NULL;
}

const tolk_uop *tk_sym2(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    return a && b ? simple(g, tk_uop2(g, op, a, b)) : NULL;
}

const tolk_uop *tk_sym3(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b,
                        const tolk_uop *c) {
    return a && b && c ? simple(g, tk_uop3(g, op, a, b, c)) : NULL;
}

const tolk_uop *tk_sym_add(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_ADD, a, b);
}

const tolk_uop *tk_sym_sub(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_SUB, a, b);
}

const tolk_uop *tk_sym_mul(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_MUL, a, b);
}

const tolk_uop *tk_sym_floordiv(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_FLOORDIV, a, b);
}

const tolk_uop *tk_sym_floormod(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_FLOORMOD, a, b);
}

const tolk_uop *tk_sym_cdiv(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_CDIV, a, b);
}

const tolk_uop *tk_sym_cmod(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_CMOD, a, b);
}

const tolk_uop *tk_sym_max(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_MAX, a, b);
}

/* -max(-a, -b), which sums and bounds see through, unless one side may have no negative. */
const tolk_uop *tk_sym_min(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b)
        return NULL;
    tk_wide_bound full = tk_bounds_dtype(a->dtype);
    if (full.lo < 0 && tk_bounds_wide(a).lo > full.lo && tk_bounds_wide(b).lo > full.lo)
        return tk_sym1(g, TK_OP_NEG,
                       tk_sym_max(g, tk_sym1(g, TK_OP_NEG, a), tk_sym1(g, TK_OP_NEG, b)));
    return tk_sym_where(g, tk_sym_lt(g, a, b), a, b);
}

const tolk_uop *tk_sym_lt(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_CMPLT, a, b);
}

const tolk_uop *tk_sym_and(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_AND, a, b);
}

const tolk_uop *tk_sym_or(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return tk_sym2(g, TK_OP_OR, a, b);
}

const tolk_uop *tk_sym_not(tolk_graph *g, const tolk_uop *a) {
    return a ? simple(g, tk_symcmp_not(g, a)) : NULL;
}

const tolk_uop *tk_sym_where(tolk_graph *g, const tolk_uop *c, const tolk_uop *a,
                             const tolk_uop *b) {
    return tk_sym3(g, TK_OP_WHERE, c, a, b);
}

static const tolk_uop *with_const(tolk_graph *g, tk_op op, const tolk_uop *a, int64_t k) {
    return a ? tk_sym2(g, op, a, tk_linear_make_const(g, a->dtype, k)) : NULL;
}

const tolk_uop *tk_sym_add_const(tolk_graph *g, const tolk_uop *a, int64_t k) {
    return with_const(g, TK_OP_ADD, a, k);
}

const tolk_uop *tk_sym_mul_const(tolk_graph *g, const tolk_uop *a, int64_t k) {
    return with_const(g, TK_OP_MUL, a, k);
}

const tolk_uop *tk_sym_div_const(tolk_graph *g, const tolk_uop *a, int64_t k) {
    return with_const(g, TK_OP_FLOORDIV, a, k);
}

const tolk_uop *tk_sym_mod_const(tolk_graph *g, const tolk_uop *a, int64_t k) {
    return with_const(g, TK_OP_FLOORMOD, a, k);
}

const tolk_uop *tk_sym_lt_const(tolk_graph *g, const tolk_uop *a, int64_t k) {
    return with_const(g, TK_OP_CMPLT, a, k);
}
