/* SPDX-License-Identifier: MIT */
#include "ir/linear.h"

#include "ir/dtype.h"

enum { VISITS = 64 }; /* nodes looked at for one sum */

/* Bounds beyond are no bounds, so that what is computed from them stays within 128 bits. */
#define LARGEST ((tk_wide)1 << 100)

bool tk_linear_const(const tolk_uop *u, tk_wide *out) {
    if (tk_uop_is(u, TK_OP_STACK) && u->n_src > 0 && tk_uop_lanes(u) == u->n_src) {
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] != u->src[0])
                return false;
        u = u->src[0];
    }
    if (!tk_uop_is_const(u) || !tolk_dtype_is_int(u->dtype))
        return false;
    *out = tk_dtype_scalar(u->dtype) == TOLK_U64 ? (tk_wide)tk_uop_bits(u) : (tk_wide)u->attr[0].i;
    return true;
}

const tolk_uop *tk_linear_make_const(tolk_graph *g, tolk_dtype dtype, tk_wide v) {
    const tolk_uop *c = tk_uop_const(g, tk_dtype_scalar(dtype), (uint64_t)v);
    return tk_uop_splat(g, c, tolk_dtype_lanes(dtype));
}

int64_t tk_linear_wrap(tolk_dtype dtype, tk_wide c) {
    uint32_t unused = 64 - tk_dtype_bits(dtype);
    return (int64_t)((uint64_t)c << unused) >> unused;
}

tk_wide tk_linear_floordiv(tk_wide a, tk_wide b) {
    tk_wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

tk_wide tk_linear_gcd(tk_wide a, tk_wide b) {
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        tk_wide r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void tk_linear_remove(tk_linear *a, uint32_t i) {
    a->n--;
    for (; i < a->n; i++)
        a->at[i] = a->at[i + 1];
}

/* Constants are kept as signed numbers of the dtype's width; tk_linear_exact moves them. */
static void add_const(tk_linear *a, tk_wide c) {
    a->k = tk_linear_wrap(a->dtype, (tk_wide)((uint64_t)a->k + (uint64_t)c));
}

bool tk_linear_add_term(tk_linear *a, const tolk_uop *u, tk_wide c) {
    for (uint32_t i = 0; i < a->n; i++)
        if (a->at[i].u == u) {
            int64_t sum = tk_linear_wrap(a->dtype, (tk_wide)((uint64_t)a->at[i].c + (uint64_t)c));
            if (sum)
                a->at[i].c = sum;
            else
                tk_linear_remove(a, i);
            return true;
        }
    int64_t w = tk_linear_wrap(a->dtype, c);
    if (!w)
        return true;
    if (a->n == TK_LINEAR_MAX)
        return false;
    a->at[a->n].u = u;
    a->at[a->n++].c = w;
    return true;
}

bool tk_linear_add(tk_linear *a, const tk_linear *b, tk_wide c) {
    for (uint32_t i = 0; i < b->n; i++)
        if (!tk_linear_add_term(a, b->at[i].u, (tk_wide)((uint64_t)b->at[i].c * (uint64_t)c)))
            return false;
    add_const(a, (tk_wide)((uint64_t)b->k * (uint64_t)c));
    return true;
}

bool tk_linear_difference(const tk_linear *a, const tk_linear *b, tk_linear *out) {
    *out = *a;
    out->dtype = TOLK_INDEX; /* sums of its width do not wrap below */
    for (uint32_t i = 0; i < b->n; i++) {
        int64_t c;
        uint32_t j = 0;
        while (j < out->n && out->at[j].u != b->at[i].u)
            j++;
        if (__builtin_sub_overflow(j < out->n ? out->at[j].c : 0, b->at[i].c, &c) ||
            !tk_linear_add_term(out, b->at[i].u, -(tk_wide)b->at[i].c))
            return false;
    }
    out->k = a->k - b->k;
    return true;
}

void tk_linear_opaque(const tolk_uop *u, tk_linear *out) {
    out->dtype = u->dtype;
    out->leaves = 1;
    out->n = 1;
    out->k = 0;
    out->at[0].u = u;
    out->at[0].c = 1;
}

void tk_linear_of(const tolk_uop *u, tk_linear *out) {
    struct {
        const tolk_uop *u;
        uint64_t c;
    } todo[VISITS];
    uint32_t n = 1, visits = 0;
    out->dtype = u->dtype;
    out->leaves = 0;
    out->n = 0;
    out->k = 0;
    todo[0].u = u;
    todo[0].c = 1;
    while (n) {
        const tolk_uop *x = todo[--n].u;
        uint64_t c = todo[n].c;
        tk_wide v;
        if (++visits > VISITS || n + 2 > VISITS) {
            tk_linear_opaque(u, out);
            return;
        }
        if (tk_linear_const(x, &v)) {
            add_const(out, (tk_wide)((uint64_t)v * c));
            out->leaves++;
            continue;
        }
        switch (tk_uop_op(x)) {
        case TK_OP_ADD:
        case TK_OP_SUB: /* the left side is taken first */
            todo[n].u = x->src[1];
            todo[n++].c = tk_uop_is(x, TK_OP_ADD) ? c : (uint64_t)0 - c;
            todo[n].u = x->src[0];
            todo[n++].c = c;
            continue;
        case TK_OP_NEG:
            todo[n].u = x->src[0];
            todo[n++].c = (uint64_t)0 - c;
            continue;
        case TK_OP_MUL: {
            bool right = tk_linear_const(x->src[1], &v);
            if (!right && !tk_linear_const(x->src[0], &v))
                break;
            todo[n].u = x->src[right ? 0 : 1];
            todo[n++].c = c * (uint64_t)v;
            continue;
        }
        case TK_OP_SHL:
            if (!tk_linear_const(x->src[1], &v))
                break;
            if (v < 0 || v >= (tk_wide)tk_dtype_bits(x->dtype)) {
                out->leaves++;
                continue; /* all is shifted out */
            }
            todo[n].u = x->src[0];
            todo[n++].c = c << (unsigned)v;
            continue;
        default:
            break;
        }
        out->leaves++;
        if (!tk_linear_add_term(out, x, (tk_wide)c)) {
            tk_linear_opaque(u, out);
            return;
        }
    }
}

bool tk_linear_bound(const tk_linear *a, tk_wide_bound *out) {
    *out = (tk_wide_bound){a->k, a->k};
    for (uint32_t i = 0; i < a->n; i++) {
        tk_wide_bound b = tk_bounds_wide(a->at[i].u);
        tk_wide c = a->at[i].c, lo, hi;
        if (__builtin_mul_overflow(c, c > 0 ? b.lo : b.hi, &lo) ||
            __builtin_mul_overflow(c, c > 0 ? b.hi : b.lo, &hi) ||
            __builtin_add_overflow(out->lo, lo, &out->lo) ||
            __builtin_add_overflow(out->hi, hi, &out->hi))
            return false;
    }
    return out->lo >= -LARGEST && out->hi <= LARGEST;
}

bool tk_linear_exact(tk_linear *a, tk_wide_bound *out) {
    tk_wide_bound b, full = tk_bounds_dtype(a->dtype);
    if (!tk_linear_bound(a, &b))
        return false;
    tk_wide turn = (tk_wide)1 << tk_dtype_bits(a->dtype);
    tk_wide turns = tk_linear_floordiv(b.lo - full.lo, turn);
    tk_wide move;
    if (__builtin_mul_overflow(turns, turn, &move) || b.hi - move > full.hi)
        return false;
    a->k -= move;
    if (out)
        *out = (tk_wide_bound){b.lo - move, b.hi - move};
    return true;
}

/* ---- building ---- */

/* Is a multiple of c subtracted? The least number is its own negative, so it counts as positive. */
static bool is_minus(tolk_dtype dtype, int64_t c) {
    return c < 0 && c != (int64_t)((uint64_t)1 << 63) >> (64 - tk_dtype_bits(dtype));
}

/* Insertion sort: positive multiples first, then by structure. */
static void sort(tk_linear *a) {
    for (uint32_t i = 1; i < a->n; i++) {
        const tolk_uop *u = a->at[i].u;
        int64_t c = a->at[i].c;
        uint32_t j = i;
        for (; j > 0; j--) {
            bool before = is_minus(a->dtype, c) != is_minus(a->dtype, a->at[j - 1].c)
                              ? is_minus(a->dtype, a->at[j - 1].c)
                              : tk_uop_compare(u, a->at[j - 1].u) < 0;
            if (!before)
                break;
            a->at[j] = a->at[j - 1];
        }
        a->at[j].u = u;
        a->at[j].c = c;
    }
}

static const tolk_uop *multiple(tolk_graph *g, tolk_dtype dtype, const tolk_uop *u, tk_wide c) {
    if (c == 1)
        return u;
    if (c == -1)
        return tk_uop1(g, TK_OP_NEG, u);
    return tk_uop2(g, TK_OP_MUL, u, tk_linear_make_const(g, dtype, c));
}

const tolk_uop *tk_linear_build(tolk_graph *g, tk_linear *a) {
    int64_t k = tk_linear_wrap(a->dtype, a->k);
    if (!a->n)
        return tk_linear_make_const(g, a->dtype, k);
    sort(a);
    const tolk_uop *sum = NULL;
    if (is_minus(a->dtype, a->at[0].c) && k) {
        sum = tk_linear_make_const(g, a->dtype, k);
        k = 0;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        tk_wide c = a->at[i].c;
        bool minus = sum && is_minus(a->dtype, a->at[i].c);
        const tolk_uop *t = multiple(g, a->dtype, a->at[i].u, minus ? -c : c);
        if (!t)
            return NULL;
        sum = sum ? tk_uop2(g, minus ? TK_OP_SUB : TK_OP_ADD, sum, t) : t;
    }
    return k ? tk_uop2(g, TK_OP_ADD, sum, tk_linear_make_const(g, a->dtype, k)) : sum;
}
