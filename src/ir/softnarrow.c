/* SPDX-License-Identifier: MIT */
#include "ir/softnarrow.h"

#include "ir/dtype.h"

#include <string.h>

typedef const tolk_uop *node;

typedef struct format {
    uint32_t man_bits, exp_bits;
    bool has_inf;
} format;

static format format_of(tolk_dtype dtype) {
    switch (tk_dtype_scalar(dtype)) {
    case TOLK_F16:
        return (format){10, 5, true};
    case TOLK_BF16:
        return (format){7, 8, true};
    case TOLK_FP8E5M2:
        return (format){2, 5, true};
    default:
        return (format){3, 4, false};
    }
}

/* Where nodes are made. A failed builder gives NULL, takes NULL, and leaves its error in g. */
typedef struct soft {
    tolk_graph *g;
    uint32_t lanes;
} soft;

static node constant(const soft *s, tolk_dtype dt, uint64_t bits) {
    return tk_uop_splat(s->g, tk_uop_const(s->g, dt, bits), s->lanes);
}
static node u32(const soft *s, uint32_t v) {
    return constant(s, TOLK_U32, v);
}
static node op(const soft *s, tk_op o, node a, node b) {
    return a && b ? tk_uop2(s->g, o, a, b) : NULL;
}
static node choose(const soft *s, node c, node a, node b) {
    return c && a && b ? tk_uop3(s->g, TK_OP_WHERE, c, a, b) : NULL;
}
static node cast(const soft *s, node x, tolk_dtype dt) {
    return x ? tk_uop_cast(s->g, x, dt) : NULL;
}
static node bits(const soft *s, node x, tolk_dtype dt) {
    return x ? tk_uop_bitcast(s->g, x, dt) : NULL;
}
/* 2^e as f32 bits. */
static uint32_t power(int e) {
    return (uint32_t)(127 + e) << 23;
}

tolk_dtype tk_softnarrow_code(tolk_dtype dtype) {
    return tk_dtype_like(tolk_dtype_bytes(tk_dtype_scalar(dtype)) == 2 ? TOLK_U16 : TOLK_U8, dtype);
}

/* Exponent and mantissa in the place of f32's, times 2^(difference of the biases): a product that
 * is exact, and makes normal numbers of denormal ones. */
const tolk_uop *tk_softnarrow_widen(tolk_graph *g, tolk_dtype dtype, const tolk_uop *code) {
    if (!code)
        return NULL;
    soft s = {g, tk_uop_lanes(code)};
    format f = format_of(dtype);
    uint32_t up = 23 - f.man_bits, width = f.man_bits + f.exp_bits;
    if (f.exp_bits == 8)
        return bits(&s, op(&s, TK_OP_SHL, code, u32(&s, up)), TOLK_F32);
    int bias = (1 << (f.exp_bits - 1)) - 1;
    node size = op(&s, TK_OP_AND, code, u32(&s, (1U << width) - 1));
    node sign = op(&s, TK_OP_SHL, op(&s, TK_OP_SHR, code, u32(&s, width)), u32(&s, 31));
    node moved = op(&s, TK_OP_SHL, size, u32(&s, up));
    node scale = constant(&s, TOLK_F32, power(127 - bias));
    node r = bits(&s, op(&s, TK_OP_MUL, bits(&s, moved, TOLK_F32), scale), TOLK_U32);
    /* Infinity and NaN have f32's top exponent; fp8e4m3 has one NaN and no infinity. */
    uint32_t first = f.has_inf ? ((1U << f.exp_bits) - 1) << f.man_bits : (1U << width) - 1;
    node special = op(&s, TK_OP_CMPLT, u32(&s, first - 1), size);
    node top = f.has_inf ? op(&s, TK_OP_OR, moved, u32(&s, 0x7f800000)) : u32(&s, 0x7fc00000);
    r = choose(&s, special, top, r);
    return bits(&s, op(&s, TK_OP_OR, r, sign), TOLK_F32);
}

const tolk_uop *tk_softnarrow_round(tolk_graph *g, tolk_dtype dtype, const tolk_uop *x) {
    if (!x)
        return NULL;
    soft s = {g, tk_uop_lanes(x)};
    format f = format_of(dtype);
    uint32_t down = 23 - f.man_bits, width = f.man_bits + f.exp_bits;
    int bias = (1 << (f.exp_bits - 1)) - 1;
    node i = bits(&s, x, TOLK_U32);
    node size = op(&s, TK_OP_AND, i, u32(&s, 0x7fffffff));
    node sign = op(&s, TK_OP_SHL, op(&s, TK_OP_SHR, i, u32(&s, 31)), u32(&s, width));
    /* Half of the last place, less one, and one more if that place is odd: ties go to even. The
     * carry of rounding up lands in the exponent by itself. */
    node odd = op(&s, TK_OP_AND, op(&s, TK_OP_SHR, size, u32(&s, down)), u32(&s, 1));
    node up =
        op(&s, TK_OP_ADD, odd, u32(&s, (1U << (down - 1)) - 1 - ((uint32_t)(127 - bias) << 23)));
    node r = op(&s, TK_OP_SHR, op(&s, TK_OP_ADD, size, up), u32(&s, down));
    if (f.exp_bits < 8) {
        /* Below the least normal number: adding the number whose last place in f32 is the narrow
         * dtype's rounds there. */
        uint32_t least = power(1 - bias), magic = power(1 - bias - (int)f.man_bits + 23);
        node moved = op(&s, TK_OP_ADD, bits(&s, size, TOLK_F32), constant(&s, TOLK_F32, magic));
        node small = op(&s, TK_OP_SUB, bits(&s, moved, TOLK_U32), u32(&s, magic));
        r = choose(&s, op(&s, TK_OP_CMPLT, size, u32(&s, least)), small, r);
        /* From here on everything is infinity, or fp8e4m3's NaN. */
        uint32_t most = f.has_inf ? ((1U << f.exp_bits) - 1) << f.man_bits : (1U << width) - 1;
        r = choose(&s, op(&s, TK_OP_CMPLT, size, u32(&s, power(bias + 1 + !f.has_inf))), r,
                   u32(&s, most));
        if (!f.has_inf)
            r = choose(&s, op(&s, TK_OP_CMPLT, r, u32(&s, most)), r, u32(&s, most));
    }
    uint32_t nan = ((1U << f.exp_bits) - 1) << f.man_bits | 1U << (f.man_bits - 1);
    if (!f.has_inf)
        nan = (1U << width) - 1;
    r = choose(&s, op(&s, TK_OP_CMPLT, u32(&s, 0x7f800000), size), u32(&s, nan), r);
    return op(&s, TK_OP_OR, r, sign);
}

/* f64 to f32: the nearest, or if that is inexact and even, its neighbour on the side of what was
 * lost. Codes grow with magnitude, so away from zero is +1, also from zero and to infinity. */
static node odd_of_f64(const soft *s, node x) {
    node near = cast(s, x, TOLK_F32), i = bits(s, near, TOLK_U32);
    node back = cast(s, near, TOLK_F64), none = constant(s, TOLK_F64, 0);
    node less = op(s, TK_OP_CMPLT, back, x), more = op(s, TK_OP_CMPLT, x, back);
    node even = op(s, TK_OP_CMPEQ, op(s, TK_OP_AND, i, u32(s, 1)), u32(s, 0));
    node inexact = op(s, TK_OP_AND, op(s, TK_OP_OR, less, more), even);
    node away = op(s, TK_OP_CMPEQ, op(s, TK_OP_CMPLT, none, x), less);
    node to = op(s, TK_OP_ADD, i, choose(s, away, u32(s, 1), u32(s, UINT32_MAX)));
    return bits(s, choose(s, inexact, to, i), TOLK_F32);
}

/* 64-bit integers to f64: those of more than 53 bits by their upper 53, the last of which stands
 * for all that follows. */
static node odd_of_i64(const soft *s, node x) {
    tolk_dtype dt = tk_dtype_scalar(x->dtype);
    node low = constant(s, dt, 0x7ff), none = constant(s, dt, 0), one = constant(s, dt, 1);
    node rest = op(s, TK_OP_CMPNE, op(s, TK_OP_AND, x, low), none);
    node high =
        op(s, TK_OP_OR, op(s, TK_OP_SHR, x, constant(s, dt, 11)), choose(s, rest, one, none));
    node scaled =
        op(s, TK_OP_MUL, cast(s, high, TOLK_F64), constant(s, TOLK_F64, 0x40a0000000000000));
    node fits = op(s, TK_OP_CMPLT, x, constant(s, dt, (uint64_t)1 << 53));
    if (!tolk_dtype_is_unsigned(dt))
        fits = op(s, TK_OP_AND, fits,
                  op(s, TK_OP_CMPLT, constant(s, dt, (uint64_t)(-((int64_t)1 << 53))), x));
    return choose(s, fits, cast(s, x, TOLK_F64), scaled);
}

const tolk_uop *tk_softnarrow_to_odd(tolk_graph *g, const tolk_uop *x) {
    if (!x)
        return NULL;
    soft s = {g, tk_uop_lanes(x)};
    tolk_dtype dt = tk_dtype_scalar(x->dtype);
    if (dt == TOLK_F64)
        return odd_of_f64(&s, x);
    if (tolk_dtype_is_float(dt) || dt == TOLK_BOOL || tolk_dtype_bytes(dt) < 4)
        return cast(&s, x, TOLK_F32); /* exact */
    return odd_of_f64(&s, tolk_dtype_bytes(dt) == 4 ? cast(&s, x, TOLK_F64) : odd_of_i64(&s, x));
}
