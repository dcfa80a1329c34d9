/* SPDX-License-Identifier: MIT
 *
 * Proofs of a < b. What is known is a list of facts f < 0, each f an exact sum; the claim is
 * d = a - b < 0. If d and f have an unknown t with the same sign, then
 *     |f_t| * d = e + |d_t| * f <= e - |d_t|       with t gone from e,
 * so e - |d_t| < 0 is enough. A few such steps, tried in order, end where bounds alone decide
 * (Fourier-Motzkin, cut short: not finding a proof is no error).
 */
#include "ir/bounds.h"

#include "ir/dtype.h"
#include "ir/linear.h"

enum { TERMS = 32, FACTS = 24, STEPS = 600, DEPTH = 4, CONJUNCTS = 32 };

/* A sum over the integers. */
typedef struct sum {
    uint32_t n;
    bool bad; /* too many terms or too large: says nothing */
    tk_wide k;
    struct {
        const tolk_uop *u;
        tk_wide c;
    } at[TERMS];
} sum;

/* Kept small enough to be negated and divided. */
static bool is_too_large(tk_wide c) {
    return c > (tk_wide)1 << 100 || c < -((tk_wide)1 << 100);
}

static void add_const(sum *s, tk_wide c) {
    s->bad |= __builtin_add_overflow(s->k, c, &s->k) || is_too_large(s->k);
}

static void add_term(sum *s, const tolk_uop *u, tk_wide c) {
    if (!c || s->bad)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->at[i].u == u) {
            s->bad |=
                __builtin_add_overflow(s->at[i].c, c, &s->at[i].c) || is_too_large(s->at[i].c);
            if (!s->at[i].c)
                s->at[i] = s->at[--s->n];
            return;
        }
    if (s->n == TERMS || is_too_large(c)) {
        s->bad = true;
        return;
    }
    s->at[s->n].u = u;
    s->at[s->n++].c = c;
}

/* s += c * a, for a as the integer it is. */
static void add_scaled(sum *s, const sum *a, tk_wide c) {
    s->bad |= a->bad;
    for (uint32_t i = 0; i < a->n; i++) {
        tk_wide p;
        s->bad |= __builtin_mul_overflow(a->at[i].c, c, &p);
        add_term(s, a->at[i].u, p);
    }
    tk_wide p;
    s->bad |= __builtin_mul_overflow(a->k, c, &p);
    add_const(s, p);
}

static bool is_cast_of_same(const tolk_uop *u) {
    if (!tk_uop_is(u, TK_OP_CAST) || !tolk_dtype_is_int(u->dtype) ||
        !tolk_dtype_is_int(u->src[0]->dtype))
        return false;
    tk_wide_bound b = tk_bounds_wide(u->src[0]), full = tk_bounds_dtype(u->dtype);
    return b.lo >= full.lo && b.hi <= full.hi;
}

/* s += c * u: u taken apart as far as its parts are exact, through casts that keep the value. */
static void add_value(sum *s, const tolk_uop *u, tk_wide c) {
    struct {
        const tolk_uop *u;
        tk_wide c;
    } todo[TERMS];
    uint32_t n = 1;
    todo[0].u = u;
    todo[0].c = c;
    for (uint32_t visits = 0; n && !s->bad; visits++) {
        n--;
        const tolk_uop *x = todo[n].u;
        tk_wide f = todo[n].c;
        if (is_cast_of_same(x)) {
            todo[n++].u = x->src[0];
            continue;
        }
        tk_linear l;
        if (visits < TERMS && tolk_dtype_is_int(x->dtype))
            tk_linear_of(x, &l);
        else
            tk_linear_opaque(x, &l);
        if (!tk_linear_exact(&l, NULL)) {
            add_term(s, x, f);
            continue;
        }
        tk_wide p;
        s->bad |= __builtin_mul_overflow(l.k, f, &p);
        add_const(s, p);
        for (uint32_t i = 0; i < l.n; i++) {
            s->bad |= __builtin_mul_overflow((tk_wide)l.at[i].c, f, &p);
            if (l.at[i].u != x && is_cast_of_same(l.at[i].u) && n < TERMS) {
                todo[n].u = l.at[i].u;
                todo[n++].c = p;
            } else {
                add_term(s, l.at[i].u, p);
            }
        }
    }
}

/* ---- facts ---- */

typedef struct proof {
    sum fact[FACTS];
    uint32_t n_facts;
    uint32_t steps;
} proof;

/* a * ca + b * cb + k < 0 */
static void add_fact(proof *p, const tolk_uop *a, tk_wide ca, const tolk_uop *b, tk_wide cb,
                     tk_wide k) {
    if (p->n_facts == FACTS)
        return;
    sum *f = &p->fact[p->n_facts];
    f->n = 0;
    f->bad = false;
    f->k = k;
    add_value(f, a, ca);
    add_value(f, b, cb);
    if (!f->bad && f->n)
        p->n_facts++;
}

static bool is_truth(const tolk_uop *u, int64_t v) {
    return tk_uop_is_const(u) && u->dtype == TOLK_BOOL && u->attr[0].i == v;
}

/* !x, in the ways it is written. */
static const tolk_uop *negated(const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    if ((op != TK_OP_CMPNE && op != TK_OP_XOR && op != TK_OP_CMPEQ) ||
        u->src[0]->dtype != TOLK_BOOL)
        return NULL;
    int64_t v = op != TK_OP_CMPEQ;
    return is_truth(u->src[1], v) ? u->src[0] : is_truth(u->src[0], v) ? u->src[1] : NULL;
}

static void facts_of_gate(proof *p, const tolk_uop *gate) {
    struct {
        const tolk_uop *u;
        bool is_not;
    } todo[CONJUNCTS];
    uint32_t n = 1;
    todo[0].u = gate;
    todo[0].is_not = false;
    while (n) {
        const tolk_uop *u = todo[--n].u;
        bool is_not = todo[n].is_not;
        for (const tolk_uop *x; (x = negated(u)) != NULL; is_not = !is_not)
            u = x;
        tk_op op = tk_uop_op(u);
        bool both = is_not ? op == TK_OP_OR || op == TK_OP_ADD || op == TK_OP_MAX
                           : op == TK_OP_AND || op == TK_OP_MUL;
        if (both && tk_dtype_scalar(u->dtype) == TOLK_BOOL) {
            for (uint32_t i = 0; i < 2 && n < CONJUNCTS; i++) {
                todo[n].u = u->src[i];
                todo[n++].is_not = is_not;
            }
            continue;
        }
        if (u->n_src != 2 || !tolk_dtype_is_int(u->src[0]->dtype))
            continue;
        const tolk_uop *a = u->src[0], *b = u->src[1];
        if (op == TK_OP_CMPLT && !is_not)
            add_fact(p, a, 1, b, -1, 0);
        else if (op == TK_OP_CMPLT)
            add_fact(p, b, 1, a, -1, -1);
        else if (op == (is_not ? TK_OP_CMPNE : TK_OP_CMPEQ)) {
            add_fact(p, a, 1, b, -1, -1);
            add_fact(p, b, 1, a, -1, -1);
        }
    }
}

/* What an unknown says of itself beyond its bounds. */
static void facts_of_term(proof *p, const tolk_uop *t) {
    tk_wide c;
    switch (tk_uop_op(t)) {
    case TK_OP_RANGE:
    case TK_OP_SPECIAL:
        if (!tk_uop_is_const(t->src[0]))
            add_fact(p, t, 1, t->src[0], -1, 0);
        break;
    case TK_OP_FLOORMOD:
    case TK_OP_CMOD:
        if (tk_bounds_wide(t->src[1]).lo > 0 && !tk_linear_const(t->src[1], &c))
            add_fact(p, t, 1, t->src[1], -1, 0);
        break;
    case TK_OP_CDIV:
        if (tk_bounds_wide(t->src[0]).lo < 0)
            break;
        /* fall through */
    case TK_OP_FLOORDIV:
        if (tk_linear_const(t->src[1], &c) && c > 0) {
            add_fact(p, t, c, t->src[0], -1, -1);
            add_fact(p, t->src[0], 1, t, -c, -c);
        }
        break;
    case TK_OP_MAX:
        add_fact(p, t->src[0], 1, t, -1, -1);
        add_fact(p, t->src[1], 1, t, -1, -1);
        break;
    case TK_OP_WHERE: { /* min */
        const tolk_uop *l = t->src[0];
        if (tk_uop_is(l, TK_OP_CMPLT) && l->src[0] == t->src[1] && l->src[1] == t->src[2]) {
            add_fact(p, t, 1, t->src[1], -1, -1);
            add_fact(p, t, 1, t->src[2], -1, -1);
        }
        break;
    }
    default:
        break;
    }
}

/* ---- the search ---- */

static bool negative_by_bounds(const sum *d) {
    tk_wide hi = d->k;
    for (uint32_t i = 0; i < d->n; i++) {
        tk_wide_bound b = tk_bounds_wide(d->at[i].u);
        tk_wide c = d->at[i].c, top;
        if (__builtin_mul_overflow(c, c > 0 ? b.hi : b.lo, &top) ||
            __builtin_add_overflow(hi, top, &hi))
            return false;
    }
    return hi < 0;
}

/* Next claim after taking unknown t of fact f out of d; false if they do not fit together. */
static bool eliminate(const sum *d, const sum *f, uint32_t t, sum *out) {
    tk_wide cf = f->at[t].c, cd = 0;
    for (uint32_t i = 0; i < d->n; i++)
        if (d->at[i].u == f->at[t].u)
            cd = d->at[i].c;
    if (!cd || (cd > 0) != (cf > 0))
        return false;
    tk_wide g = tk_linear_gcd(cd, cf);
    tk_wide times_d = (cf < 0 ? -cf : cf) / g, times_f = (cd < 0 ? -cd : cd) / g;
    out->n = 0;
    out->bad = false;
    out->k = -times_f;
    add_scaled(out, d, times_d);
    add_scaled(out, f, -times_f);
    return !out->bad;
}

/* Depth first, at most DEPTH facts used one after another. */
static bool search(proof *p, const sum *claim) {
    struct {
        sum d;
        uint32_t fact, term;
    } level[DEPTH + 1];
    uint32_t depth = 0;
    level[0].d = *claim;
    level[0].fact = level[0].term = 0;
    if (claim->bad)
        return false;
    if (negative_by_bounds(claim))
        return true;
    while (p->steps < STEPS) {
        if (level[depth].fact == p->n_facts || depth == DEPTH) {
            if (depth-- == 0)
                return false;
            level[depth].term++;
            continue;
        }
        const sum *f = &p->fact[level[depth].fact];
        if (level[depth].term >= f->n) {
            level[depth].fact++;
            level[depth].term = 0;
            continue;
        }
        p->steps++;
        if (!eliminate(&level[depth].d, f, level[depth].term, &level[depth + 1].d)) {
            level[depth].term++;
            continue;
        }
        depth++;
        level[depth].fact = level[depth].term = 0;
        if (negative_by_bounds(&level[depth].d))
            return true;
    }
    return false;
}

/* a * ca + b * cb + k < 0 wherever gate holds? */
static bool prove(const tolk_uop *a, tk_wide ca, const tolk_uop *b, tk_wide cb, tk_wide k,
                  const tolk_uop *gate) {
    sum d = {.k = k};
    add_value(&d, a, ca);
    if (b)
        add_value(&d, b, cb);
    if (d.bad)
        return false;
    if (negative_by_bounds(&d))
        return true;
    proof *p = tk_alloc(a->graph->al, sizeof *p);
    if (!p)
        return false;
    p->n_facts = p->steps = 0;
    if (gate)
        facts_of_gate(p, gate);
    for (uint32_t i = 0; i < d.n; i++)
        facts_of_term(p, d.at[i].u);
    /* What the facts so far speak of, one step further. */
    for (uint32_t f = 0, n = p->n_facts; f < n; f++)
        for (uint32_t i = 0; i < p->fact[f].n; i++)
            facts_of_term(p, p->fact[f].at[i].u);
    bool ok = search(p, &d);
    tk_alloc_free(a->graph->al, p, sizeof *p);
    return ok;
}

bool tk_bounds_prove_less(const tolk_uop *a, const tolk_uop *b, const tolk_uop *gate) {
    return tolk_dtype_is_int(a->dtype) && tolk_dtype_is_int(b->dtype) &&
           prove(a, 1, b, -1, 0, gate);
}

bool tk_bounds_prove_lt(const tolk_uop *a, const tolk_uop *b, const tolk_uop *gate) {
    return tk_bounds_prove_less(a, b, gate) && prove(a, -1, NULL, 0, -1, gate);
}
