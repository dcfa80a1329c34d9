/* SPDX-License-Identifier: MIT */
#include "ir/symcmp.h"

#include "ir/dtype.h"
#include "ir/linear.h"

enum { PARTS = 16 }; /* of one side of an and or or that are looked at */

bool tk_symcmp_is(const tolk_uop *u, bool v) {
    if (tk_uop_is(u, TK_OP_STACK) && u->n_src > 0) {
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] != u->src[0])
                return false;
        u = u->src[0];
    }
    return tk_uop_is_const(u) && u->dtype == TOLK_BOOL && u->attr[0].i == v;
}

const tolk_uop *tk_symcmp_truth(tolk_graph *g, tolk_dtype like, bool v) {
    return tk_uop_splat(g, tk_uop_const(g, TOLK_BOOL, v), tolk_dtype_lanes(like));
}

const tolk_uop *tk_symcmp_not(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *t = tk_symcmp_truth(g, u->dtype, true);
    return t ? tk_uop2(g, TK_OP_CMPNE, u, t) : NULL;
}

/* x of !x, else NULL */
static const tolk_uop *negated(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CMPNE) && tk_symcmp_is(u->src[1], true) ? u->src[0] : NULL;
}

static bool fits(tolk_dtype dtype, tk_wide_bound b) {
    tk_wide_bound full = tk_bounds_dtype(dtype);
    return b.lo >= full.lo && b.hi <= full.hi;
}

static void exact_sum(const tolk_uop *u, tk_linear *l) {
    tk_linear_of(u, l);
    if (!tk_linear_exact(l, NULL)) {
        tk_linear_opaque(u, l);
        (void)tk_linear_exact(l, NULL);
    }
}

/* ---- less ---- */

/* One side of a comparison: the terms of d with that sign, divided by f, plus k. NULL if the sum is
 * no integer of the dtype. */
static const tolk_uop *side(tolk_graph *g, tolk_dtype dtype, const tk_linear *d, int sign,
                            tk_wide f, tk_wide k) {
    tk_linear l;
    l.dtype = dtype;
    l.n = l.leaves = 0;
    l.k = k;
    for (uint32_t i = 0; i < d->n; i++) {
        tk_wide c = (tk_wide)d->at[i].c * sign / f;
        if (c <= 0)
            continue;
        if (c > INT64_MAX)
            return NULL;
        l.at[l.n].u = d->at[i].u;
        l.at[l.n++].c = (int64_t)c;
    }
    tk_wide_bound b;
    if (!tk_linear_bound(&l, &b) || !fits(dtype, b))
        return NULL;
    return tk_linear_build(g, &l);
}

/* a//c with c > 0 */
static bool is_quotient(const tolk_uop *u, tk_wide *c) {
    return tk_uop_is(u, TK_OP_FLOORDIV) && tk_linear_const(u->src[1], c) && *c > 0;
}

static const tolk_uop *less(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return a && b ? tk_uop2(g, TK_OP_CMPLT, a, b) : NULL;
}

/* x//scale < k, or k < x//scale, without the division. */
static const tolk_uop *less_const(tolk_graph *g, tk_wide k, tk_wide scale, const tolk_uop *x,
                                  bool x_left) {
    tk_wide v;
    if (__builtin_mul_overflow(k + !x_left, scale, &v))
        return NULL;
    v -= !x_left;
    if (!fits(x->dtype, (tk_wide_bound){v, v}))
        return NULL;
    const tolk_uop *c = tk_linear_make_const(g, x->dtype, v);
    return x_left ? less(g, x, c) : less(g, c, x);
}

/* a < b of integers: d = a - b < 0. */
static const tolk_uop *less_rule(tolk_graph *g, const tolk_uop *u) {
    tolk_dtype dtype = u->src[0]->dtype;
    tk_linear a, b, d;
    exact_sum(u->src[0], &a);
    exact_sum(u->src[1], &b);
    if (!tk_linear_difference(&a, &b, &d))
        return NULL;
    tk_wide_bound db;
    if (tk_linear_bound(&d, &db) && (db.hi < 0 || db.lo >= 0))
        return tk_symcmp_truth(g, dtype, db.hi < 0);
    tk_wide f = 0;
    bool plus = false, minus = false;
    for (uint32_t i = 0; i < d.n; i++) {
        f = tk_linear_gcd(f, d.at[i].c);
        plus |= d.at[i].c > 0;
        minus |= d.at[i].c < 0;
    }
    tk_wide k = tk_linear_floordiv(d.k, f), c;
    const tolk_uop *v = NULL;
    if (plus && minus) {
        v = less(g, side(g, dtype, &d, 1, f, 0), side(g, dtype, &d, -1, f, -k));
    } else {
        /* sum < -k, or k < sum; if the sum is x//c, x is compared with a multiple of c */
        const tolk_uop *x = side(g, dtype, &d, plus ? 1 : -1, f, 0);
        if (!x)
            return NULL;
        bool quotient = is_quotient(x, &c);
        if (quotient)
            v = less_const(g, plus ? -k : k, c, x->src[0], plus);
        if (!v && !tk_graph_failed(g))
            v = less_const(g, plus ? -k : k, 1, x, plus);
    }
    return v == u ? NULL : v;
}

/* ---- equal ---- */

/* What the integers say, if both sides are such sums: d = a - b is 0? */
static const tolk_uop *equal_exact(tolk_graph *g, const tolk_uop *u) {
    tolk_dtype dtype = u->src[0]->dtype;
    bool equal = tk_uop_is(u, TK_OP_CMPEQ);
    tk_linear a, b, d;
    exact_sum(u->src[0], &a);
    exact_sum(u->src[1], &b);
    if (!tk_linear_difference(&a, &b, &d) || !d.n)
        return NULL;
    tk_wide_bound db;
    if (tk_linear_bound(&d, &db) && (db.hi < 0 || db.lo > 0))
        return tk_symcmp_truth(g, dtype, !equal);
    tk_wide f = 0;
    bool plus = false, minus = false;
    for (uint32_t i = 0; i < d.n; i++) {
        f = tk_linear_gcd(f, d.at[i].c);
        plus |= d.at[i].c > 0;
        minus |= d.at[i].c < 0;
    }
    if (d.k % f != 0)
        return tk_symcmp_truth(g, dtype, !equal);
    if (f == 1 || b.n != 0 || (plus && minus))
        return NULL;
    const tolk_uop *s = side(g, dtype, &d, plus ? 1 : -1, f, 0);
    return s ? tk_uop2(g, tk_uop_op(u), s,
                       tk_linear_make_const(g, dtype, plus ? -d.k / f : d.k / f))
             : NULL;
}

/* Modulo 2^bits: the constant to the right, common terms gone. */
static const tolk_uop *equal_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *v = equal_exact(g, u);
    if (v || tk_graph_failed(g))
        return v;
    tolk_dtype dtype = u->src[0]->dtype;
    tk_linear a, b, d;
    tk_linear_of(u->src[0], &a);
    tk_linear_of(u->src[1], &b);
    d = a;
    if (!tk_linear_add(&d, &b, -1))
        return NULL;
    if (!d.n)
        return tk_symcmp_truth(g, dtype,
                               (tk_linear_wrap(dtype, d.k) == 0) == tk_uop_is(u, TK_OP_CMPEQ));
    if (b.n != 0 && d.n == a.n + b.n)
        return NULL;
    tk_linear left = d, right = d;
    left.n = right.n = 0;
    left.k = 0;
    right.k = -d.k;
    bool plus = false;
    for (uint32_t i = 0; i < d.n; i++)
        plus |= d.at[i].c > 0;
    for (uint32_t i = 0; i < d.n; i++) {
        bool to_right = d.at[i].c < 0 && b.n != 0 && plus;
        tk_linear *l = to_right ? &right : &left;
        l->at[l->n].u = d.at[i].u;
        l->at[l->n++].c = to_right ? (int64_t)(0 - (uint64_t)d.at[i].c) : d.at[i].c;
    }
    const tolk_uop *l = tk_linear_build(g, &left);
    const tolk_uop *r = l ? tk_linear_build(g, &right) : NULL;
    v = r ? tk_uop2(g, tk_uop_op(u), l, r) : NULL;
    return v == u ? NULL : v;
}

/* The comparison that is true where u is not, if there is one. */
static const tolk_uop *opposite(tolk_graph *g, const tolk_uop *u) {
    tk_wide k;
    switch (tk_uop_op(u)) {
    case TK_OP_CMPEQ:
        return tk_uop2(g, TK_OP_CMPNE, u->src[0], u->src[1]);
    case TK_OP_CMPNE:
        return tk_uop2(g, TK_OP_CMPEQ, u->src[0], u->src[1]);
    case TK_OP_CMPLT:
        if (tk_linear_const(u->src[1], &k)) /* !(x < k): k-1 < x */
            return less_const(g, k - 1, 1, u->src[0], false);
        if (tk_linear_const(u->src[0], &k)) /* !(k < x): x < k+1 */
            return less_const(g, k + 1, 1, u->src[1], true);
        return NULL;
    default:
        return NULL;
    }
}

static const tolk_uop *equal_bool(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->src[1];
    bool equal = tk_uop_is(u, TK_OP_CMPEQ);
    if (x == y)
        return tk_symcmp_truth(g, x->dtype, equal);
    if (tk_symcmp_is(y, equal))
        return x;
    if (!tk_symcmp_is(y, !equal))
        return NULL;
    if (equal)
        return tk_symcmp_not(g, x);
    return negated(x) ? negated(x) : opposite(g, x);
}

const tolk_uop *tk_symcmp_rule(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->src[1];
    if (tk_uop_is(u, TK_OP_CMPLT)) {
        if (x == y)
            return tk_symcmp_truth(g, x->dtype, false); /* NaN, too, is not less than itself */
        return tolk_dtype_is_int(x->dtype) ? less_rule(g, u) : NULL;
    }
    if (tk_dtype_scalar(x->dtype) == TOLK_BOOL)
        return equal_bool(g, u);
    if (!tolk_dtype_is_int(x->dtype))
        return NULL;
    tk_wide k;
    if (tk_uop_is(x, TK_OP_CAST) && tk_dtype_scalar(x->src[0]->dtype) == TOLK_BOOL &&
        tk_linear_const(y, &k)) {
        bool equal = tk_uop_is(u, TK_OP_CMPEQ);
        if (k != 0 && k != 1)
            return tk_symcmp_truth(g, x->dtype, !equal);
        return equal == (k == 1) ? x->src[0] : tk_symcmp_not(g, x->src[0]);
    }
    return equal_rule(g, u);
}

/* ---- and, or ---- */

typedef struct part {
    const tolk_uop *u; /* NULL: dropped */
    bool has_d;        /* u is the integer comparison d < 0 */
    tk_linear d;
} part;

static uint32_t parts_of(const tolk_uop *u, tk_op op, part *out) {
    const tolk_uop *todo[PARTS];
    uint32_t n_todo = 0, n = 0;
    todo[n_todo++] = u;
    while (n_todo) {
        const tolk_uop *x = todo[--n_todo];
        if (tk_uop_is(x, op) && n + n_todo + 2 <= PARTS) {
            todo[n_todo++] = x->src[1];
            todo[n_todo++] = x->src[0];
            continue;
        }
        part *p = &out[n++];
        p->u = x;
        p->has_d = false;
        if (tk_uop_is(x, TK_OP_CMPLT) && tolk_dtype_is_int(x->src[0]->dtype)) {
            tk_linear a, b;
            exact_sum(x->src[0], &a);
            exact_sum(x->src[1], &b);
            p->has_d = tk_linear_difference(&a, &b, &p->d);
        }
    }
    return n;
}

/* y.d = s * x.d + k for s = 1 or -1? */
static bool related(const part *x, const part *y, int s, tk_wide *k) {
    if (!x->has_d || !y->has_d || x->d.n != y->d.n)
        return false;
    for (uint32_t i = 0; i < x->d.n; i++) {
        uint32_t j = 0;
        while (j < y->d.n && y->d.at[j].u != x->d.at[i].u)
            j++;
        if (j == y->d.n || (tk_wide)y->d.at[j].c != (tk_wide)x->d.at[i].c * s)
            return false;
    }
    *k = y->d.k - x->d.k * s;
    return true;
}

static bool implies(const part *x, const part *y) {
    tk_wide k;
    return x->u == y->u || (related(x, y, 1, &k) && k <= 0);
}

static bool opposites(const part *x, const part *y) {
    return negated(x->u) == y->u || negated(y->u) == x->u;
}

/* x & y is false: where x.d < 0, y.d = -x.d + k is at least 1 + k. */
static bool exclude(const part *x, const part *y) {
    tk_wide k;
    return opposites(x, y) || (related(x, y, -1, &k) && k >= -1);
}

/* x | y is true: where x.d >= 0, y.d = -x.d + k is at most k. */
static bool cover(const part *x, const part *y) {
    tk_wide k;
    return opposites(x, y) || (related(x, y, -1, &k) && k < 0);
}

static const tolk_uop *rebuild(tolk_graph *g, tk_op op, const part *p, uint32_t n,
                               const tolk_uop *v) {
    for (uint32_t i = 0; i < n; i++)
        if (p[i].u)
            v = v ? tk_uop2(g, op, v, p[i].u) : p[i].u;
    return v;
}

/* Drop the parts of one side that those of the other make needless. */
static const tolk_uop *junction(tolk_graph *g, const tolk_uop *u, tk_op op) {
    bool is_and = op == TK_OP_AND;
    part *p = tk_alloc(g->al, 2 * PARTS * sizeof *p);
    if (!p)
        return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    part *q = p + PARTS;
    uint32_t n = parts_of(u->src[0], op, p), m = parts_of(u->src[1], op, q);
    bool changed = false, decided = false;
    for (uint32_t i = 0; i < n && !decided; i++)
        for (uint32_t j = 0; j < m && !decided && p[i].u; j++) {
            if (!q[j].u)
                continue;
            decided = is_and ? exclude(&p[i], &q[j]) : cover(&p[i], &q[j]);
            if (is_and ? implies(&p[i], &q[j]) : implies(&q[j], &p[i])) {
                q[j].u = NULL;
                changed = true;
            } else if (is_and ? implies(&q[j], &p[i]) : implies(&p[i], &q[j])) {
                p[i].u = NULL;
                changed = true;
            }
        }
    const tolk_uop *v = NULL;
    if (decided)
        v = tk_symcmp_truth(g, u->dtype, !is_and);
    else if (changed)
        v = rebuild(g, op, q, m, rebuild(g, op, p, n, NULL));
    tk_alloc_free(g->al, p, 2 * PARTS * sizeof *p);
    return v;
}

const tolk_uop *tk_symcmp_bool(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *x = u->src[0], *y = u->src[1];
    tk_op op = tk_uop_op(u);
    tk_op dual = op == TK_OP_AND ? TK_OP_OR : TK_OP_AND;
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_MAX:
        return tk_uop2(g, TK_OP_OR, x, y);
    case TK_OP_MUL:
        return tk_uop2(g, TK_OP_AND, x, y);
    case TK_OP_XOR:
        return tk_uop2(g, TK_OP_CMPNE, x, y);
    case TK_OP_AND:
    case TK_OP_OR:
        if (x == y || tk_symcmp_is(y, op == TK_OP_AND))
            return x;
        if (tk_symcmp_is(y, op == TK_OP_OR))
            return y;
        if (tk_uop_is(y, dual) && (y->src[0] == x || y->src[1] == x))
            return x;
        if (tk_uop_is(x, dual) && (x->src[0] == y || x->src[1] == y))
            return y;
        return junction(g, u, op);
    default:
        return NULL;
    }
}

/* ---- where ---- */

const tolk_uop *tk_symcmp_where(tolk_graph *g, const tolk_uop *u) {
    const tolk_uop *c = u->src[0], *x = u->src[1], *y = u->src[2];
    if (tk_symcmp_is(c, true) || x == y)
        return x;
    if (tk_symcmp_is(c, false))
        return y;
    if (tk_uop_is_invalid(x) && !negated(c)) { /* a gated index has its gate as condition */
        const tolk_uop *n = tk_symcmp_not(g, c);
        return n ? tk_uop3(g, TK_OP_WHERE, n, y, x) : NULL;
    }
    if (negated(c) && !tk_uop_is_invalid(y))
        return tk_uop3(g, TK_OP_WHERE, negated(c), y, x);
    if (tk_uop_is(x, TK_OP_WHERE) && x->src[0] == c)
        return tk_uop3(g, TK_OP_WHERE, c, x->src[1], y);
    if (tk_uop_is(y, TK_OP_WHERE) && y->src[0] == c)
        return tk_uop3(g, TK_OP_WHERE, c, x, y->src[2]);
    if (tk_uop_is(x, TK_OP_WHERE) && tk_uop_is_invalid(x->src[2]) && tk_uop_is_invalid(y) &&
        c->dtype == x->src[0]->dtype) {
        const tolk_uop *both = tk_uop2(g, TK_OP_AND, c, x->src[0]);
        return both ? tk_uop3(g, TK_OP_WHERE, both, x->src[1], y) : NULL;
    }
    if (tk_dtype_scalar(u->dtype) != TOLK_BOOL || c->dtype != u->dtype)
        return NULL;
    if (tk_symcmp_is(x, true))
        return tk_uop2(g, TK_OP_OR, c, y);
    if (tk_symcmp_is(y, false))
        return tk_uop2(g, TK_OP_AND, c, x);
    return NULL;
}
