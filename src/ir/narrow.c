/* SPDX-License-Identifier: MIT
 *
 * Narrow float conversions. Every format is a row of one table; one function rounds an exact
 * integer times a power of two into any of them, and one widens any of them.
 */
#include "ir/narrow.h"

#include <stdbool.h>
#include <string.h>

typedef struct float_format {
    uint8_t man_bits, exp_bits;
    bool has_inf; /* else the top exponent holds numbers, and only its all-ones code is NaN */
} float_format;

static const float_format format_f64 = {52, 11, true};

/* NULL if dtype is no float. */
static const float_format *format_of(tolk_dtype dtype) {
    static const float_format fp8e4m3 = {3, 4, false}, fp8e5m2 = {2, 5, true}, bf16 = {7, 8, true},
                              f16 = {10, 5, true}, f32 = {23, 8, true};
    switch (dtype & 0xff) {
    case TOLK_FP8E4M3:
        return &fp8e4m3;
    case TOLK_FP8E5M2:
        return &fp8e5m2;
    case TOLK_BF16:
        return &bf16;
    case TOLK_F16:
        return &f16;
    case TOLK_F32:
        return &f32;
    case TOLK_F64:
        return &format_f64;
    default:
        return NULL;
    }
}

static int bias_of(const float_format *f) {
    return (1 << (f->exp_bits - 1)) - 1;
}

static uint64_t sign_bit(const float_format *f) {
    return 1ULL << (f->man_bits + f->exp_bits);
}

/* The magnitude m * 2^e rounded once into f; no sign. */
static uint64_t round_magnitude(const float_format *f, uint64_t m, int e) {
    if (m == 0)
        return 0;
    const uint64_t all_ones = sign_bit(f) - 1;
    const uint64_t inf = all_ones & ~((1ULL << f->man_bits) - 1);
    const uint64_t overflow = f->has_inf ? inf : all_ones;
    const int bias = bias_of(f), emin = 1 - bias;
    int msb = 63 - __builtin_clzll(m);
    int exponent = e + msb;
    if (exponent > bias + 1) /* beyond even the top exponent of a format without infinity */
        return overflow;
    if (exponent < emin)
        exponent = emin;
    /* The result is a multiple of 2^(exponent - man_bits). */
    int shift = exponent - f->man_bits - e;
    uint64_t q;
    if (shift <= 0) {
        q = m << -shift;
    } else if (shift > 64) {
        q = 0;
    } else {
        uint64_t rest = shift == 64 ? m : m & ((1ULL << shift) - 1);
        uint64_t half = 1ULL << (shift - 1);
        q = shift == 64 ? 0 : m >> shift;
        q += rest > half || (rest == half && (q & 1));
    }
    /* q holds the implicit bit of a normal number, so that its carry, and that of rounding up to
     * the next power of two, land in the exponent by themselves. */
    uint64_t bits = q + ((uint64_t)(exponent + bias - 1) << f->man_bits);
    return bits >= overflow ? overflow : bits;
}

/* Any float's bits, in `from`, rounded into `to`. */
static uint64_t convert(const float_format *from, const float_format *to, uint64_t bits) {
    const uint64_t man_mask = (1ULL << from->man_bits) - 1;
    const int top = (1 << from->exp_bits) - 1;
    const uint64_t sign = bits & sign_bit(from) ? sign_bit(to) : 0;
    uint64_t man = bits & man_mask;
    int exponent = (int)(bits >> from->man_bits) & top;
    bool special = exponent == top && (from->has_inf || man == man_mask);
    if (special && from->has_inf && man == 0)
        return sign | round_magnitude(to, 1, bias_of(to) + 2);
    if (special) {
        if (!to->has_inf)
            return sign | (sign_bit(to) - 1);
        int shift = from->man_bits - to->man_bits;
        uint64_t payload = shift >= 0 ? man >> shift : man << -shift;
        uint64_t quiet = 1ULL << (to->man_bits - 1);
        return sign | ((uint64_t)((1 << to->exp_bits) - 1) << to->man_bits) | quiet | payload;
    }
    if (exponent == 0)
        exponent = 1;
    else
        man |= man_mask + 1;
    return sign | round_magnitude(to, man, exponent - bias_of(from) - from->man_bits);
}

static uint64_t bits_of_f64(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double f64_of_bits(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t bits_of_f32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float f32_of_bits(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

#define NARROW_FUNCTIONS(name, dtype, type)                                                        \
    type tk_narrow_##name##_from_f32(float v) {                                                    \
        return (type)convert(format_of(TOLK_F32), format_of(dtype), bits_of_f32(v));               \
    }                                                                                              \
    type tk_narrow_##name##_from_f64(double v) {                                                   \
        return (type)convert(&format_f64, format_of(dtype), bits_of_f64(v));                       \
    }                                                                                              \
    float tk_narrow_##name##_to_f32(type bits) {                                                   \
        return f32_of_bits(convert(format_of(dtype), format_of(TOLK_F32), bits));                  \
    }                                                                                              \
    double tk_narrow_##name##_to_f64(type bits) {                                                  \
        return f64_of_bits(convert(format_of(dtype), &format_f64, bits));                          \
    }

NARROW_FUNCTIONS(f16, TOLK_F16, uint16_t)
NARROW_FUNCTIONS(bf16, TOLK_BF16, uint16_t)
NARROW_FUNCTIONS(fp8e4m3, TOLK_FP8E4M3, uint8_t)
NARROW_FUNCTIONS(fp8e5m2, TOLK_FP8E5M2, uint8_t)

uint64_t tk_narrow_round(tolk_dtype dtype, double v) {
    const float_format *f = format_of(dtype);
    return f ? convert(&format_f64, f, bits_of_f64(v)) : 0;
}

double tk_narrow_widen(tolk_dtype dtype, uint64_t bits) {
    const float_format *f = format_of(dtype);
    return f ? f64_of_bits(convert(f, &format_f64, bits)) : 0.0;
}

uint64_t tk_narrow_from_u64(tolk_dtype dtype, uint64_t v) {
    const float_format *f = format_of(dtype);
    return f ? round_magnitude(f, v, 0) : 0;
}

uint64_t tk_narrow_from_i64(tolk_dtype dtype, int64_t v) {
    const float_format *f = format_of(dtype);
    if (!f)
        return 0;
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    return (v < 0 ? sign_bit(f) : 0) | round_magnitude(f, magnitude, 0);
}

/* The sum p + c rounded to odd: rounding the result once more, to a narrower format, is then the
 * same as rounding the exact sum (Boldo and Melquiond, 2008). */
static double add_to_odd(double p, double c) {
    double s = p + c;
    double t = s - p;
    double err = (p - (s - t)) + (c - t);
    uint64_t u = bits_of_f64(s);
    if (!(err != 0.0) || s - s != 0.0 || (u & 1))
        return s;
    return f64_of_bits((err > 0) == (s > 0) ? u + 1 : u - 1);
}

uint64_t tk_narrow_fma(tolk_dtype dtype, uint64_t a, uint64_t b, uint64_t c) {
    const float_format *f = format_of(dtype);
    if (!f || f->man_bits > 10)
        return 0;
    double p = tk_narrow_widen(dtype, a) * tk_narrow_widen(dtype, b);
    return convert(&format_f64, f, bits_of_f64(add_to_odd(p, tk_narrow_widen(dtype, c))));
}
