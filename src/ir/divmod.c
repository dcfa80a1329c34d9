/* SPDX-License-Identifier: MIT */
#include "ir/divmod.h"

#include "ir/dtype.h"
#include "ir/linear.h"

/* A division with a constant divisor, c > 1. */
typedef struct division {
    tolk_graph *g;
    const tolk_uop *a;
    tolk_dtype dtype;
    tk_linear l;     /* a, exact */
    tk_wide_bound b; /* of a */
    tk_wide c;
    bool is_div;
} division;

static bool fits(tolk_dtype dtype, tk_wide_bound b) {
    tk_wide_bound full = tk_bounds_dtype(dtype);
    return b.lo >= full.lo && b.hi <= full.hi;
}

static bool fits_one(tolk_dtype dtype, tk_wide v) {
    return fits(dtype, (tk_wide_bound){v, v});
}

/* Is the sum, as it stands, an integer that its dtype holds? */
static bool is_integer_value(const tk_linear *l) {
    tk_wide_bound b;
    return tk_linear_bound(l, &b) && fits(l->dtype, b);
}

static tk_linear empty(tolk_dtype dtype) {
    tk_linear l;
    l.dtype = dtype;
    l.n = l.leaves = 0;
    l.k = 0;
    return l;
}

static void push(tk_linear *l, const tolk_uop *u, tk_wide c) {
    if (c) {
        l->at[l->n].u = u;
        l->at[l->n++].c = (int64_t)c;
    }
}

static const tolk_uop *constant(const division *d, tk_wide v) {
    return tk_linear_make_const(d->g, d->dtype, v);
}

/* l (div or mod) c, as a new node. */
static const tolk_uop *divide(const division *d, tk_op op, tk_linear *l, tk_wide c) {
    const tolk_uop *a = tk_linear_build(d->g, l);
    return a ? tk_uop2(d->g, op, a, constant(d, c)) : NULL;
}

/* f * x + l */
static const tolk_uop *plus(const division *d, const tolk_uop *x, tk_wide f, tk_linear *l) {
    if (!x || !tk_linear_add_term(l, x, f))
        return NULL;
    return tk_linear_build(d->g, l);
}

/* ---- flooring ---- */

/* Rule 1, with remainders of the coefficients in [0, c) or around 0. */
static const tolk_uop *one_period(const division *d, bool around) {
    tk_linear q = empty(d->dtype), r = q;
    for (uint32_t i = 0; i < d->l.n; i++) {
        tk_wide n = tk_linear_floordiv(d->l.at[i].c, d->c);
        tk_wide rest = d->l.at[i].c - n * d->c;
        if (around && rest > d->c / 2) {
            n++;
            rest -= d->c;
        }
        push(&q, d->l.at[i].u, n);
        push(&r, d->l.at[i].u, rest);
    }
    r.k = d->l.k;
    tk_wide_bound b;
    if (!tk_linear_bound(&r, &b))
        return NULL;
    tk_wide m = tk_linear_floordiv(b.lo, d->c);
    if (m != tk_linear_floordiv(b.hi, d->c))
        return NULL;
    q.k = m;
    r.k -= m * d->c;
    return tk_linear_build(d->g, d->is_div ? &q : &r);
}

/* Rule 2 for one factor f of c. */
static const tolk_uop *factor(const division *d, tk_wide f) {
    tk_linear m = empty(d->dtype), r = m;
    for (uint32_t i = 0; i < d->l.n; i++)
        if (d->l.at[i].c % f == 0)
            push(&m, d->l.at[i].u, d->l.at[i].c / f);
        else
            push(&r, d->l.at[i].u, d->l.at[i].c);
    r.k = d->l.k;
    tk_wide_bound b;
    if (!m.n || !tk_linear_bound(&r, &b))
        return NULL;
    m.k = tk_linear_floordiv(b.lo, f);
    if (m.k != tk_linear_floordiv(b.hi, f) || !is_integer_value(&m))
        return NULL;
    r.k -= m.k * f;
    if (d->is_div)
        return f == d->c ? tk_linear_build(d->g, &m) : divide(d, TK_OP_FLOORDIV, &m, d->c / f);
    if (f == d->c)
        return tk_linear_build(d->g, &r);
    return plus(d, divide(d, TK_OP_FLOORMOD, &m, d->c / f), f, &r);
}

static const tolk_uop *common_factor(const division *d) {
    for (uint32_t i = 0; i < d->l.n; i++) {
        tk_wide f = tk_linear_gcd(d->l.at[i].c, d->c);
        const tolk_uop *v = f > 1 ? factor(d, f) : NULL;
        if (v || tk_graph_failed(d->g))
            return v;
    }
    return NULL;
}

/* The positive constant that t divides by. */
static bool divisor_of(const tolk_uop *t, tk_op op, tk_wide *c) {
    return tk_uop_is(t, op) && tk_linear_const(t->src[1], c) && *c > 0;
}

/* Rule 3. */
static const tolk_uop *nested(const division *d) {
    const tolk_uop *t = d->l.n ? d->l.at[0].u : NULL;
    tk_wide a, ac;
    bool alone = d->l.n == 1 && d->l.at[0].c == 1;
    if (d->is_div && alone && divisor_of(t, TK_OP_FLOORDIV, &a)) {
        tk_linear x;
        tk_linear_of(t->src[0], &x);
        if (!tk_linear_exact(&x, NULL)) {
            tk_linear_opaque(t->src[0], &x);
        }
        tk_wide ka;
        if (__builtin_mul_overflow(a, d->c, &ac) || ac > INT64_MAX || !fits_one(d->dtype, ac) ||
            __builtin_mul_overflow(d->l.k, a, &ka) || __builtin_add_overflow(x.k, ka, &x.k))
            return NULL;
        return is_integer_value(&x) ? divide(d, TK_OP_FLOORDIV, &x, ac) : NULL;
    }
    if (d->is_div && alone && d->l.k == 0 && divisor_of(t, TK_OP_FLOORMOD, &ac) && ac % d->c == 0) {
        const tolk_uop *x = tk_uop2(d->g, TK_OP_FLOORDIV, t->src[0], constant(d, d->c));
        return x ? tk_uop2(d->g, TK_OP_FLOORMOD, x, constant(d, ac / d->c)) : NULL;
    }
    if (d->is_div)
        return NULL;
    for (uint32_t i = 0; i < d->l.n; i++) {
        t = d->l.at[i].u;
        if ((!divisor_of(t, TK_OP_FLOORMOD, &ac) && !divisor_of(t, TK_OP_CMOD, &ac)) ||
            ac % d->c != 0)
            continue;
        tk_linear l = d->l;
        l.dtype = TOLK_INDEX; /* over the integers: no wrapping below its width */
        tk_wide c = l.at[i].c;
        tk_linear_remove(&l, i);
        tk_linear x;
        tk_linear_of(t->src[0], &x);
        if (!tk_linear_exact(&x, NULL))
            tk_linear_opaque(t->src[0], &x);
        bool ok = true;
        for (uint32_t j = 0; j < x.n && ok; j++) {
            tk_wide p = c * x.at[j].c;
            ok = p >= -INT32_MAX && p <= INT32_MAX && tk_linear_add_term(&l, x.at[j].u, p);
        }
        if (__builtin_mul_overflow(x.k, c, &x.k) || __builtin_add_overflow(l.k, x.k, &l.k))
            continue;
        l.dtype = d->dtype;
        if (ok && is_integer_value(&l))
            return divide(d, TK_OP_FLOORMOD, &l, d->c);
    }
    return NULL;
}

/* Rule 4. */
static const tolk_uop *multiples(const division *d) {
    tk_linear q = empty(d->dtype), r = q;
    bool changed = false;
    for (uint32_t i = 0; i < d->l.n; i++) {
        int64_t c = d->l.at[i].c;
        tk_wide rest = d->is_div && c % d->c != 0 ? c : c % d->c;
        changed |= rest != c;
        push(&q, d->l.at[i].u, (c - rest) / d->c);
        push(&r, d->l.at[i].u, rest);
    }
    q.k = tk_linear_floordiv(d->l.k, d->c);
    r.k = d->l.k - q.k * d->c;
    changed |= q.k != 0;
    if (!changed || !is_integer_value(&r))
        return NULL;
    if (!d->is_div)
        return divide(d, TK_OP_FLOORMOD, &r, d->c);
    return plus(d, divide(d, TK_OP_FLOORDIV, &r, d->c), 1, &q);
}

static const tolk_uop *floor_rule(const division *d) {
    const tolk_uop *v = one_period(d, false);
    if (!v && !tk_graph_failed(d->g))
        v = one_period(d, true);
    if (!v && !tk_graph_failed(d->g))
        v = common_factor(d);
    if (!v && !tk_graph_failed(d->g))
        v = nested(d);
    if (!v && !tk_graph_failed(d->g))
        v = multiples(d);
    return v;
}

/* ---- signs ---- */

/* -L, if that is an integer of the dtype. */
static bool negate(const division *d, tk_linear *out) {
    *out = empty(d->dtype);
    for (uint32_t i = 0; i < d->l.n; i++) {
        if (d->l.at[i].c == INT64_MIN)
            return false;
        push(out, d->l.at[i].u, -(tk_wide)d->l.at[i].c);
    }
    out->k = -d->l.k;
    return is_integer_value(out);
}

/* The negative of op(-L, c). */
static const tolk_uop *minus_of_minus(const division *d, tk_op op, tk_wide c) {
    tk_linear n;
    if (!negate(d, &n))
        return NULL;
    const tolk_uop *v = divide(d, op, &n, c);
    return v ? tk_uop1(d->g, TK_OP_NEG, v) : NULL;
}

/* Truncation where the dividend may have both signs. */
static const tolk_uop *trunc_rule(const division *d) {
    tk_op op = d->is_div ? TK_OP_CDIV : TK_OP_CMOD;
    if (d->b.lo > -d->c && d->b.hi < d->c)
        return d->is_div ? constant(d, 0) : d->a;
    tk_wide f = tk_linear_gcd(d->c, d->l.k);
    for (uint32_t i = 0; i < d->l.n; i++)
        f = tk_linear_gcd(f, d->l.at[i].c);
    if (f > 1) {
        tk_linear m = empty(d->dtype);
        for (uint32_t i = 0; i < d->l.n; i++)
            push(&m, d->l.at[i].u, d->l.at[i].c / f);
        m.k = d->l.k / f;
        if (f == d->c)
            return d->is_div ? tk_linear_build(d->g, &m) : constant(d, 0);
        if (d->is_div)
            return divide(d, op, &m, d->c / f);
        tk_linear none = empty(d->dtype);
        return plus(d, divide(d, op, &m, d->c / f), f, &none);
    }
    tk_wide a, ac;
    if (d->is_div && divisor_of(d->a, TK_OP_CDIV, &a) && !__builtin_mul_overflow(a, d->c, &ac) &&
        ac <= INT64_MAX && fits_one(d->dtype, ac))
        return tk_uop2(d->g, op, d->a->src[0], constant(d, ac));
    if (!d->is_div && divisor_of(d->a, TK_OP_CMOD, &ac) && ac % d->c == 0)
        return tk_uop2(d->g, op, d->a->src[0], constant(d, d->c));
    return NULL;
}

static const tolk_uop *by_constant(division *d, tk_op op) {
    bool is_floor = op == TK_OP_FLOORDIV || op == TK_OP_FLOORMOD;
    if (d->c == 0)
        return d->is_div ? constant(d, 0) : d->a;
    if (d->c == 1)
        return d->is_div ? d->a : constant(d, 0);
    if (d->c == -1) /* the least number is its own quotient, as it is its own negative */
        return d->is_div ? tk_uop1(d->g, TK_OP_NEG, d->a) : constant(d, 0);
    if (d->c > INT64_MAX || d->c == tk_bounds_dtype(d->dtype).lo)
        return NULL;
    tk_linear_of(d->a, &d->l);
    if (!tk_linear_exact(&d->l, &d->b)) {
        tk_linear_opaque(d->a, &d->l);
        (void)tk_linear_exact(&d->l, &d->b);
    }
    if (d->c < 0) {
        if (is_floor && d->is_div) {
            tk_linear n;
            return negate(d, &n) ? divide(d, op, &n, -d->c) : NULL;
        }
        if (is_floor)
            return minus_of_minus(d, op, -d->c);
        const tolk_uop *v = tk_uop2(d->g, op, d->a, constant(d, -d->c));
        return v && d->is_div ? tk_uop1(d->g, TK_OP_NEG, v) : v;
    }
    if (is_floor)
        return floor_rule(d);
    if (d->b.hi <= 0) {
        const tolk_uop *v = minus_of_minus(d, d->is_div ? TK_OP_FLOORDIV : TK_OP_FLOORMOD, d->c);
        if (v || tk_graph_failed(d->g))
            return v;
    }
    return trunc_rule(d);
}

/* L = b*M + R with 0 <= R < b, b a positive unknown: M and R. */
static const tolk_uop *by_unknown(tolk_graph *g, const tolk_uop *u, bool is_div) {
    const tolk_uop *a = u->src[0], *b = u->src[1];
    tk_wide_bound bb = tk_bounds_wide(b);
    if (bb.lo <= 0)
        return NULL;
    tk_linear l, m = empty(u->dtype), r = m;
    tk_linear_of(a, &l);
    if (!tk_linear_exact(&l, NULL))
        tk_linear_opaque(a, &l);
    for (uint32_t i = 0; i < l.n; i++) {
        const tolk_uop *t = l.at[i].u;
        const tolk_uop *p = NULL;
        if (t == b) {
            m.k += l.at[i].c;
            continue;
        }
        if (tk_uop_is(t, TK_OP_MUL) && (t->src[0] == b || t->src[1] == b))
            p = t->src[t->src[0] == b];
        tk_wide lo, hi;
        if (p) { /* the product must be one of integers */
            tk_wide_bound pb = tk_bounds_wide(p);
            if (__builtin_mul_overflow(pb.lo < 0 ? pb.lo : 0, bb.hi, &lo) ||
                __builtin_mul_overflow(pb.hi > 0 ? pb.hi : 0, bb.hi, &hi) ||
                !fits(u->dtype, (tk_wide_bound){lo, hi}))
                p = NULL;
        }
        push(p ? &m : &r, p ? p : t, l.at[i].c);
    }
    r.k = l.k;
    if ((!m.n && m.k == 0) || !is_integer_value(&r))
        return NULL;
    const tolk_uop *rest = tk_linear_build(g, &r);
    if (!rest || !tk_bounds_prove_lt(rest, b, NULL))
        return NULL;
    return is_div ? tk_linear_build(g, &m) : rest;
}

const tolk_uop *tk_divmod_rule(tolk_graph *g, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    const tolk_uop *a = u->src[0], *b = u->src[1];
    division d;
    d.g = g;
    d.a = a;
    d.dtype = u->dtype;
    d.is_div = op == TK_OP_CDIV || op == TK_OP_FLOORDIV;
    tk_op flooring = d.is_div ? TK_OP_FLOORDIV : TK_OP_FLOORMOD;
    /* Without signs both are the same, and so they are by 0. */
    if (op != flooring && tk_bounds_wide(a).lo >= 0 && tk_bounds_wide(b).lo >= 0)
        return tk_uop2(g, flooring, a, b);
    if (tk_linear_const(b, &d.c))
        return by_constant(&d, op);
    if (a == b && !d.is_div)
        return tk_linear_make_const(g, u->dtype, 0); /* 0 mod 0 is 0 as well */
    if (a == b && (tk_bounds_wide(b).lo > 0 || tk_bounds_wide(b).hi < 0))
        return tk_linear_make_const(g, u->dtype, 1);
    if (op != flooring)
        return NULL;
    if (tk_bounds_wide(a).lo >= 0 && tk_bounds_prove_lt(a, b, NULL))
        return d.is_div ? tk_linear_make_const(g, u->dtype, 0) : a;
    return by_unknown(g, u, d.is_div);
}
