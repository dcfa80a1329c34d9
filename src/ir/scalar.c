/* SPDX-License-Identifier: MIT
 *
 * The value table. f32 and f64 are computed in their own precision (the build has no contraction);
 * narrow floats in f64 and rounded once: f64's 53 bits are more than twice those of any narrow
 * format and two more, so that for + - * / and sqrt the second rounding never shows.
 */
#include "ir/scalar.h"

#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/narrow.h"

#include <fenv.h>
#include <math.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

static float f32_of(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t bits_of_f32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t bits_of_f64(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Any float as f64, which holds every one of them. */
static double widen(tolk_dtype dt, uint64_t bits) {
    switch (dt) {
    case TOLK_F64:
        return f64_of(bits);
    case TOLK_F32:
        return (double)f32_of(bits);
    default:
        return tk_narrow_widen(dt, bits);
    }
}

/* The one NaN that is made here: positive, quiet, no payload. */
static uint64_t quiet_nan(tolk_dtype dt) {
    switch (dt) {
    case TOLK_F64:
        return 0x7ff8000000000000;
    case TOLK_F32:
        return 0x7fc00000;
    case TOLK_F16:
        return 0x7e00;
    case TOLK_BF16:
        return 0x7fc0;
    case TOLK_FP8E5M2:
        return 0x7e;
    default:
        return 0x7f;
    }
}

static uint64_t sign_mask(tolk_dtype dt) {
    return (uint64_t)1 << (tk_dtype_bits(dt) - 1);
}

static uint64_t round_to(tolk_dtype dt, double v) {
    if (isnan(v))
        return quiet_nan(dt);
    return dt == TOLK_F64 ? bits_of_f64(v) : tk_narrow_round(dt, v);
}

/* ---- floats ---- */

static double exact_op(tk_op op, double a, double b) {
    switch (op) {
    case TK_OP_ADD:
        return a + b;
    case TK_OP_SUB:
        return a - b;
    case TK_OP_MUL:
        return a * b;
    case TK_OP_FDIV:
        return a / b;
    case TK_OP_RECIPROCAL:
        return 1.0 / a;
    default:
        return sqrt(a);
    }
}

static float exact_op_f32(tk_op op, float a, float b) {
    switch (op) {
    case TK_OP_ADD:
        return a + b;
    case TK_OP_SUB:
        return a - b;
    case TK_OP_MUL:
        return a * b;
    case TK_OP_FDIV:
        return a / b;
    case TK_OP_RECIPROCAL:
        return 1.0F / a;
    default:
        return sqrtf(a);
    }
}

static uint64_t float_max(tolk_dtype dt, uint64_t a, uint64_t b) {
    double x = widen(dt, a), y = widen(dt, b);
    if (isnan(x) || isnan(y))
        return quiet_nan(dt);
    if (x == y)
        return a & b; /* two zeros: + unless both are -; else the same bits */
    return x > y ? a : b;
}

static uint64_t float_mulacc(tolk_dtype dt, uint64_t a, uint64_t b, uint64_t c) {
    if (dt == TOLK_F32)
        return bits_of_f32(fmaf(f32_of(a), f32_of(b), f32_of(c)));
    if (dt == TOLK_F64)
        return bits_of_f64(fma(f64_of(a), f64_of(b), f64_of(c)));
    return tk_narrow_fma(dt, a, b, c);
}

static bool is_nan(tolk_dtype dt, uint64_t bits) {
    return isnan(widen(dt, bits));
}

__attribute__((noinline)) static uint64_t float_alu(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b,
                                                    uint64_t c, bool fma_column) {
    uint64_t r;
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_SUB:
    case TK_OP_MUL:
    case TK_OP_FDIV:
    case TK_OP_RECIPROCAL:
    case TK_OP_SQRT:
        if (dt != TOLK_F32)
            return round_to(dt, exact_op(op, widen(dt, a), widen(dt, b)));
        r = bits_of_f32(exact_op_f32(op, f32_of(a), f32_of(b)));
        break;
    case TK_OP_NEG:
        return a ^ sign_mask(dt);
    case TK_OP_TRUNC:
        return round_to(dt, trunc(widen(dt, a)));
    case TK_OP_MAX:
        return float_max(dt, a, b);
    case TK_OP_CMPLT:
        return widen(dt, a) < widen(dt, b);
    case TK_OP_CMPNE:
        return widen(dt, a) != widen(dt, b);
    case TK_OP_CMPEQ:
        return widen(dt, a) == widen(dt, b);
    case TK_OP_MULACC:
        r = float_mulacc(dt, a, b, c);
        break;
    default:
        r = tk_mathfn_eval(op, dt, a, b, fma_column);
        break;
    }
    return is_nan(dt, r) ? quiet_nan(dt) : r;
}

/* The caller may have another rounding mode, flush denormals or trap: compute in the default
 * environment and put its own back. Costs one register read where it is the default already. */
static uint64_t float_alu_default_env(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b, uint64_t c,
                                      bool fma_column) {
#if defined(__SSE2__)
    unsigned saved = _mm_getcsr();
    if ((saved & ~0x3fU) == 0x1f80) /* all but the sticky flags */
        return float_alu(op, dt, a, b, c, fma_column);
    _mm_setcsr(0x1f80);
    uint64_t r = float_alu(op, dt, a, b, c, fma_column);
    _mm_setcsr(saved);
    return r;
#else
    fenv_t saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    uint64_t r = float_alu(op, dt, a, b, c, fma_column);
    fesetenv(&saved);
    return r;
#endif
}

/* ---- integers ---- */

/* Quotient toward zero, and by *rem the remainder with the sign of the dividend. */
static uint64_t divide(tolk_dtype dt, uint64_t a, uint64_t b, uint64_t *rem) {
    if (b == 0) {
        *rem = a;
        return 0;
    }
    if (!tk_dtype_is_signed(dt)) {
        *rem = a % b;
        return a / b;
    }
    if (b == UINT64_MAX) { /* -1: MIN / -1 wraps to MIN */
        *rem = 0;
        return 0 - a;
    }
    *rem = (uint64_t)((int64_t)a % (int64_t)b);
    return (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t floor_divide(tolk_dtype dt, uint64_t a, uint64_t b, uint64_t *rem) {
    uint64_t q = divide(dt, a, b, rem);
    if (b != 0 && *rem != 0 && tk_dtype_is_signed(dt) && (int64_t)(*rem ^ b) < 0) {
        q--;
        *rem += b;
    }
    return q;
}

static uint64_t shift_right(tolk_dtype dt, uint64_t a, uint64_t count) {
    uint32_t width = tk_dtype_bits(dt);
    if (!tk_dtype_is_signed(dt))
        return count >= width ? 0 : a >> count;
    uint64_t sign = (int64_t)a < 0 ? UINT64_MAX : 0;
    return count >= width ? sign : ((a ^ sign) >> count) ^ sign;
}

static bool less(tolk_dtype dt, uint64_t a, uint64_t b) {
    return tk_dtype_is_signed(dt) ? (int64_t)a < (int64_t)b : a < b;
}

static uint32_t rotate_left(uint32_t x, int n) {
    return x << n | x >> (32 - n);
}

/* Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1,
 * 2, 3", 2011). Counter and key are two 32-bit words each, the first one low; so is the result. */
static uint64_t threefry2x32(uint64_t counter, uint64_t key) {
    static const uint8_t rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t k[3] = {(uint32_t)key, (uint32_t)(key >> 32)};
    k[2] = 0x1bd11bda ^ k[0] ^ k[1];
    uint32_t x0 = (uint32_t)counter + k[0], x1 = (uint32_t)(counter >> 32) + k[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x0 += x1;
            x1 = rotate_left(x1, rotation[group % 2][i]) ^ x0;
        }
        x0 += k[(group + 1) % 3];
        x1 += k[(group + 2) % 3] + group + 1;
    }
    return (uint64_t)x1 << 32 | x0;
}

/* Operands of fewer than 64 bits are extended, so that 64-bit arithmetic and one cut at the end are
 * arithmetic of their width. */
static uint64_t int_alu(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t rem;
    switch (op) {
    case TK_OP_NEG:
        return 0 - a;
    case TK_OP_ADD:
        return a + b;
    case TK_OP_SUB:
        return a - b;
    case TK_OP_MUL:
        return a * b;
    case TK_OP_MULACC:
        return a * b + c;
    case TK_OP_MAX:
        return less(dt, a, b) ? b : a;
    case TK_OP_CDIV:
        return divide(dt, a, b, &rem);
    case TK_OP_CMOD:
        (void)divide(dt, a, b, &rem);
        return rem;
    case TK_OP_FLOORDIV:
        return floor_divide(dt, a, b, &rem);
    case TK_OP_FLOORMOD:
        (void)floor_divide(dt, a, b, &rem);
        return rem;
    case TK_OP_SHL:
        return b >= tk_dtype_bits(dt) ? 0 : a << b;
    case TK_OP_SHR:
        return shift_right(dt, a, b);
    case TK_OP_AND:
        return a & b;
    case TK_OP_OR:
        return a | b;
    case TK_OP_XOR:
        return a ^ b;
    case TK_OP_THREEFRY:
        return threefry2x32(a, b);
    default:
        return 0;
    }
}

static uint64_t bool_alu(tk_op op, uint64_t a, uint64_t b) {
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_MAX:
    case TK_OP_OR:
        return a | b;
    case TK_OP_MUL:
    case TK_OP_AND:
        return a & b;
    case TK_OP_XOR:
        return a ^ b;
    default:
        return 0;
    }
}

/* ---- the table ---- */

uint64_t tk_scalar_alu(tk_op op, tolk_dtype dtype, uint64_t a, uint64_t b, uint64_t c, bool fma) {
    tolk_dtype dt = tk_dtype_scalar(dtype);
    if (op == TK_OP_WHERE)
        return a ? b : c;
    if (tolk_dtype_is_float(dt))
        return float_alu_default_env(op, dt, a, b, c, fma);
    switch (op) {
    case TK_OP_CMPLT:
        return less(dt, a, b);
    case TK_OP_CMPNE:
        return a != b;
    case TK_OP_CMPEQ:
        return a == b;
    default:
        return tk_dtype_canon(dt, dt == TOLK_BOOL ? bool_alu(op, a, b) : int_alu(op, dt, a, b, c));
    }
}

/* Toward zero, held at the ends of the dtype, NaN 0. The bounds are powers of two: exact. */
static uint64_t float_to_int(tolk_dtype to, double v) {
    uint32_t width = tk_dtype_bits(to);
    if (isnan(v))
        return 0;
    if (tk_dtype_is_signed(to)) {
        double limit = ldexp(1.0, (int)width - 1);
        if (v < -limit)
            return (uint64_t)tk_dtype_min(to);
        return v >= limit ? (uint64_t)tk_dtype_max(to) : (uint64_t)(int64_t)v;
    }
    if (v <= 0)
        return 0;
    return v >= ldexp(1.0, (int)width) ? UINT64_MAX >> (64 - width) : (uint64_t)v;
}

uint64_t tk_scalar_cast(tolk_dtype from, tolk_dtype to, uint64_t bits) {
    from = tk_dtype_scalar(from);
    to = tk_dtype_scalar(to);
    if (from == to)
        return bits;
    if (!tolk_dtype_is_float(from)) {
        if (!tolk_dtype_is_float(to))
            return tk_dtype_canon(to, bits);
        return tk_dtype_is_signed(from) ? tk_narrow_from_i64(to, (int64_t)bits)
                                        : tk_narrow_from_u64(to, bits);
    }
    if (tolk_dtype_is_float(to)) /* in integer code: no rounding mode matters, NaN keeps its sign */
        return tk_narrow_round(to, tk_narrow_widen(from, bits));
    double v = tk_narrow_widen(from, bits);
    if (to == TOLK_BOOL) /* by bits: a mode that flushes denormals must not make them 0 */
        return (bits & ~sign_mask(from)) != 0;
    return float_to_int(to, v);
}

uint64_t tk_scalar_bitcast(tolk_dtype from, tolk_dtype to, uint64_t bits) {
    (void)from;
    return tk_dtype_canon(tk_dtype_scalar(to), bits);
}

uint64_t tk_scalar_identity(tk_rop rop, tolk_dtype dtype) {
    tolk_dtype dt = tk_dtype_scalar(dtype);
    if (rop == TK_ROP_ADD)
        return 0;
    if (rop == TK_ROP_MUL)
        return tolk_dtype_is_float(dt) ? tk_narrow_round(dt, 1.0) : 1;
    if (dt == TOLK_FP8E4M3)
        return tk_narrow_round(dt, -448.0); /* it has no infinity: its least number */
    return tolk_dtype_is_float(dt) ? tk_narrow_round(dt, -(double)INFINITY)
                                   : (uint64_t)tk_dtype_min(dt);
}

bool tk_scalar_same(tolk_dtype dtype, uint64_t a, uint64_t b) {
    tolk_dtype dt = tk_dtype_scalar(dtype);
    if (a == b || !tolk_dtype_is_float(dt))
        return a == b;
    return is_nan(dt, a) && is_nan(dt, b);
}
