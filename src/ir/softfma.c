/* SPDX-License-Identifier: MIT */
#include "ir/softfma.h"

#include "ir/dtype.h"

#include <string.h>

typedef const tolk_uop *node;

/* Where nodes are made. A failed builder gives NULL, takes NULL, and leaves its error in g. */
typedef struct soft {
    tolk_graph *g;
    uint32_t lanes;
} soft;

static node ints(const soft *s, int64_t v) {
    return tk_uop_splat(s->g, tk_uop_const(s->g, TOLK_I64, (uint64_t)v), s->lanes);
}

static node real(const soft *s, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return tk_uop_splat(s->g, tk_uop_const(s->g, TOLK_F64, bits), s->lanes);
}

static node op(const soft *s, tk_op o, node a, node b) {
    return a && b ? tk_uop2(s->g, o, a, b) : NULL;
}

static node add(const soft *s, node a, node b) {
    return op(s, TK_OP_ADD, a, b);
}

static node sub(const soft *s, node a, node b) {
    return op(s, TK_OP_SUB, a, b);
}

static node mul(const soft *s, node a, node b) {
    return op(s, TK_OP_MUL, a, b);
}

static node less(const soft *s, node a, node b) {
    return op(s, TK_OP_CMPLT, a, b);
}

static node equal(const soft *s, node a, node b) {
    return op(s, TK_OP_CMPEQ, a, b);
}

static node both(const soft *s, node a, node b) {
    return op(s, TK_OP_AND, a, b);
}

static node either(const soft *s, node a, node b) {
    return op(s, TK_OP_OR, a, b);
}

static node choose(const soft *s, node c, node a, node b) {
    return c && a && b ? tk_uop3(s->g, TK_OP_WHERE, c, a, b) : NULL;
}

static node to_bits(const soft *s, node x) {
    return x ? tk_uop_bitcast(s->g, x, TOLK_I64) : NULL;
}

static node to_real(const soft *s, node x) {
    return x ? tk_uop_bitcast(s->g, x, TOLK_F64) : NULL;
}

static node cast(const soft *s, node x, tolk_dtype dt) {
    return x ? tk_uop_cast(s->g, x, dt) : NULL;
}

/* Knuth's TwoSum: a + b rounded, and what that lost. */
static node two_sum(const soft *s, node a, node b, node *lost) {
    node sum = add(s, a, b);
    node bb = sub(s, sum, a);
    *lost = add(s, sub(s, a, sub(s, sum, bb)), sub(s, b, bb));
    return sum;
}

/* a + b rounded to odd: where it is not exact, to the neighbour whose last bit is set, so that
 * rounding it again, to fewer bits or after adding what is larger, sees that something follows. */
static node add_to_odd(const soft *s, node a, node b) {
    node lost, sum = two_sum(s, a, b, &lost);
    node i = to_bits(s, sum), none = real(s, 0), one = ints(s, 1);
    /* The sum itself if it is odd, else its neighbour on the side of what was lost. Bits grow with
     * magnitude, so away from zero is +1. */
    node even = equal(s, both(s, i, one), ints(s, 0));
    node away = equal(s, less(s, lost, none), less(s, sum, none));
    node odd = to_real(s, add(s, i, choose(s, away, one, ints(s, -1))));
    /* lost is NaN for infinities and NaN: those stay as they are. */
    node inexact = either(s, less(s, lost, none), less(s, none, lost));
    return choose(s, both(s, inexact, even), odd, sum);
}

/* The product of two f32 is exact in f64, whose 53 bits are enough to round a sum to odd in. */
static node fma_f32(const soft *s, node a, node b, node c) {
    node p = mul(s, cast(s, a, TOLK_F64), cast(s, b, TOLK_F64));
    return cast(s, add_to_odd(s, p, cast(s, c, TOLK_F64)), TOLK_F32);
}

/* ---- f64 ---- */

#define EXP_MASK 0x7ff0000000000000
#define SIGN_MASK INT64_MIN

/* x = m * 2^e with 1 <= |m| < 2, for x that is finite and not 0. */
static node split(const soft *s, node x, node size, node *e) {
    node tiny = less(s, size, real(s, 0x1p-1022));
    node i = to_bits(s, choose(s, tiny, mul(s, x, real(s, 0x1p54)), x));
    node biased = op(s, TK_OP_SHR, both(s, i, ints(s, EXP_MASK)), ints(s, 52));
    *e = sub(s, biased, choose(s, tiny, ints(s, 1023 + 54), ints(s, 1023)));
    node m = either(s, both(s, i, ints(s, ~EXP_MASK)), ints(s, 0x3ff0000000000000));
    return to_real(s, m);
}

/* 2^e, -1022 <= e <= 1023. */
static node power(const soft *s, node e) {
    return to_real(s, op(s, TK_OP_SHL, add(s, e, ints(s, 1023)), ints(s, 52)));
}

static node clamp(const soft *s, node x, int64_t lo, int64_t hi) {
    node l = ints(s, lo), h = ints(s, hi);
    x = choose(s, less(s, x, l), l, x);
    return choose(s, less(s, h, x), h, x);
}

/* The upper 26 bits of x, and in *lo the rest (Veltkamp). */
static node halves(const soft *s, node x, node *lo) {
    node t = mul(s, x, real(s, 0x1p27 + 1));
    node hi = sub(s, t, sub(s, t, x));
    *lo = sub(s, x, hi);
    return hi;
}

/* a * b rounded, and what that lost (Dekker). */
static node two_product(const soft *s, node a, node b, node *lost) {
    node al, bl, ah = halves(s, a, &al), bh = halves(s, b, &bl);
    node p = mul(s, a, b);
    node t = add(s, sub(s, mul(s, ah, bh), p), mul(s, ah, bl));
    *lost = add(s, add(s, t, mul(s, al, bh)), mul(s, al, bl));
    return p;
}

/* (v + z) 2^e rounded once to f64; v + z is as good as exact: z was rounded to odd.
 *
 * Where the result is denormal its last bit is worth u = 2^(-1074 - e) before scaling. 2^52 u has
 * that last place, so adding it (of the same sign) makes the sum round there; taking it away again
 * and scaling are exact. If v + z rounds to exactly 2^52 u, the least normal number, both ways
 * agree. |e| is held at 1250: v + z is within 2^-172 .. 2^122 or 0, so beyond that the result is
 * 0 or infinite anyway. */
static node round_scaled(const soft *s, node v, node z, node e) {
    e = clamp(s, e, -1250, 1250);
    node low, r = two_sum(s, v, z, &low);
    node sign = both(s, to_bits(s, r), ints(s, SIGN_MASK));
    node least = power(s, clamp(s, sub(s, ints(s, -1022), e), -1022, 1023));
    node size = to_real(s, op(s, TK_OP_XOR, to_bits(s, r), sign));
    node denormal = op(s, TK_OP_XOR, less(s, least, size),
                       tk_uop_splat(s->g, tk_uop_const(s->g, TOLK_BOOL, 1), s->lanes));
    node k = to_real(s, either(s, to_bits(s, least), sign));
    node rest, head = two_sum(s, k, r, &rest);
    node d = sub(s, add(s, head, add_to_odd(s, rest, low)), k);
    /* A result of 0 keeps the sign of what it was rounded from. */
    r = choose(s, denormal, to_real(s, either(s, to_bits(s, d), sign)), r);
    node half = op(s, TK_OP_SHR, e, ints(s, 1));
    return mul(s, mul(s, r, power(s, half)), power(s, sub(s, e, half)));
}

/* a and b become 1 <= |a|, |b| < 2 and c is scaled with them, its distance to the product held at
 * 2^120, beyond which the smaller one only says on which side of the larger one the result is.
 * There, with nothing to over- or underflow, Boldo and Melquiond's sum of three is exact but for
 * one rounding to odd. */
static node fma_f64(const soft *s, node a, node b, node c) {
    node unsign = ints(s, ~SIGN_MASK), inf = real(s, __builtin_inf()), zero = real(s, 0);
    node a_size = to_real(s, both(s, to_bits(s, a), unsign));
    node b_size = to_real(s, both(s, to_bits(s, b), unsign));
    node c_size = to_real(s, both(s, to_bits(s, c), unsign));

    node ea, eb, ec;
    node ma = split(s, a, a_size, &ea), mb = split(s, b, b_size, &eb);
    node mc = split(s, c, c_size, &ec);
    node e = add(s, ea, eb), apart = sub(s, ec, e);
    e = choose(s, less(s, ints(s, 120), apart), sub(s, ec, ints(s, 120)), e);
    mc = mul(s, mc, power(s, clamp(s, apart, -120, 120)));

    node u_low, t_low, v_low;
    node u = two_product(s, ma, mb, &u_low);
    node t = two_sum(s, mc, u_low, &t_low);
    node v = two_sum(s, u, t, &v_low);
    node r = round_scaled(s, v, add_to_odd(s, t_low, v_low), e);

    /* Zeros, infinities and NaN are right in the operations themselves: a * b is exact, or c is 0,
     * or c is infinite or NaN while a * b, perhaps rounded to infinity, is neither. */
    node product = mul(s, a, b), plain = add(s, product, c);
    node factors = both(s, less(s, a_size, inf), less(s, b_size, inf));
    node nonzero = both(s, less(s, zero, a_size), less(s, zero, b_size));
    node c_finite = less(s, c_size, inf), c_nonzero = less(s, zero, c_size);
    r = choose(s, c_nonzero, r, product);
    r = choose(s, c_finite, r, c);
    return choose(s, both(s, factors, nonzero), r, plain);
}

const tolk_uop *tk_softfma_add_to_odd(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b)
        return NULL;
    soft s = {g, tk_uop_lanes(a)};
    return add_to_odd(&s, a, b);
}

const tolk_uop *tk_softfma_expand(tolk_graph *g, const tolk_uop *a, const tolk_uop *b,
                                  const tolk_uop *c) {
    if (!a || !b || !c)
        return NULL;
    soft s = {g, tk_uop_lanes(a)};
    switch (tk_dtype_scalar(a->dtype)) {
    case TOLK_F32:
        return fma_f32(&s, a, b, c);
    case TOLK_F64:
        return fma_f64(&s, a, b, c);
    default:
        return tk_graph_fail(g, TOLK_E_UNSUPPORTED, "mulacc: %s on a target without FMA",
                             tolk_dtype_name(a->dtype));
    }
}
