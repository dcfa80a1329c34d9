/* SPDX-License-Identifier: MIT
 *
 * math.def on scalars. Must be built without contraction of a * b + c (-ffp-contract=off).
 */
#include "ir/mathfn.h"

#include "ir/narrow.h"

#include <math.h>
#include <string.h>

typedef float F32;
typedef double F64;
typedef int32_t I32;
typedef int64_t I64;
typedef bool B;

#define M_CTX bool
#define M_ARG m
#define M_FMA m

#define CF32(x) ((float)(x))
#define CF64(x) ((double)(x))
#define CI32(x) ((int32_t)(x))
#define CI64(x) ((int64_t)(x))

static inline float muladd_f32(bool fma, float a, float b, float c) {
    return fma ? fmaf(a, b, c) : a * b + c;
}
static inline double muladd_f64(bool has_fma, double a, double b, double c) {
    return has_fma ? fma(a, b, c) : a * b + c;
}
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define NEG(a) (-(a))
#define MULADD(a, b, c) _Generic((a), float: muladd_f32, double: muladd_f64)(m, a, b, c)
#define LT(a, b) ((a) < (b))
#define EQ(a, b) ((a) == (b))
#define NE(a, b) ((a) != (b))
#define BAND(a, b) ((bool)((a) & (b)))
#define BOR(a, b) ((bool)((a) | (b)))
#define BNOT(a) (!(a))
#define SEL(c, a, b) ((c) ? (a) : (b))
#define TRUNC(a) _Generic((a), float: truncf, double: trunc)(a)

/* Integer arithmetic wraps: done unsigned. */
#define INT_OPS(I, U, width)                                                                       \
    static inline I iadd_##width(I a, I b) {                                                       \
        return (I)((U)a + (U)b);                                                                   \
    }                                                                                              \
    static inline I isub_##width(I a, I b) {                                                       \
        return (I)((U)a - (U)b);                                                                   \
    }                                                                                              \
    static inline I shl_##width(I a, I count) {                                                    \
        return (U)count >= width ? 0 : (I)((U)a << count);                                         \
    }                                                                                              \
    static inline I shr_##width(I a, I count) {                                                    \
        return (U)count >= width ? 0 : (I)((U)a >> count);                                         \
    }                                                                                              \
    static inline I sar_##width(I a, int count) {                                                  \
        return a >> count; /* counts are constants below the width; arithmetic in gcc and clang */ \
    }
INT_OPS(int32_t, uint32_t, 32)
INT_OPS(int64_t, uint64_t, 64)
#define BY_WIDTH(a, name) _Generic((a), int32_t: name##_32, int64_t: name##_64)
#define IADD(a, b) BY_WIDTH(a, iadd)(a, b)
#define ISUB(a, b) BY_WIDTH(a, isub)(a, b)
#define IMUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define SHL(a, count) BY_WIDTH(a, shl)(a, count)
#define SHR(a, count) BY_WIDTH(a, shr)(a, count)
#define SAR(a, count) BY_WIDTH(a, sar)(a, count)
#define SHLV(a, count) SHL(a, count)
#define SHRV(a, count) SHR(a, count)
#define ILT(a, b) ((a) < (b))
#define IEQ(a, b) ((a) == (b))

static inline int32_t bits_f32(float v) {
    int32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static inline int64_t bits_f64(double v) {
    int64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static inline float float_i32(int32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}
static inline double float_i64(int64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}
static inline float cast_i32(int32_t v) {
    return (float)v;
}
static inline double cast_i64(int64_t v) {
    return (double)v;
}
#define BITS(a) _Generic((a), float: bits_f32, double: bits_f64)(a)
#define FLOAT(a) _Generic((a), int32_t: float_i32, int64_t: float_i64)(a)
#define F_OF_I(a) _Generic((a), int32_t: cast_i32, int64_t: cast_i64)(a)
#define F64_OF_F32(a) ((double)(a))
#define F32_OF_F64(a) ((float)(a))
#define F64_OF_I32(a) ((double)(a))
#define I64_OF_I32(a) ((int64_t)(a))
#define I64_OF_U32(a) ((int64_t)(uint32_t)(a))
#define I32_OF_I64(a) ((int32_t)(a))

/* The context is not used where a body needs no FMA. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "ir/math.def"
#pragma GCC diagnostic pop

#define EVAL_SLOW(OP, name, T)                                                                     \
    static float_##T eval_##name##_##T(bool fma, float_##T x) {                                    \
        bool slow;                                                                                 \
        float_##T r = name##_##T##_fast(fma, x, &slow);                                            \
        return slow ? name##_##T##_slow(fma, x) : r;                                               \
    }
#define EVAL_FAST_ONLY(OP, name, T)                                                                \
    static float_##T eval_##name##_##T(bool fma, float_##T x) {                                    \
        bool slow;                                                                                 \
        return name##_##T##_fast(fma, x, &slow);                                                   \
    }
#define EVAL_POW(OP, name, T)                                                                      \
    static float_##T eval_##name##_##T(bool fma, float_##T x, float_##T y) {                       \
        bool slow;                                                                                 \
        float_##T r = name##_##T##_fast(fma, x, y, &slow);                                         \
        return slow ? name##_##T##_slow(fma, x, y) : r;                                            \
    }
typedef float float_f32;
typedef double float_f64;
TK_MATHFN_SLOW(EVAL_SLOW)
TK_MATHFN_FAST_ONLY(EVAL_FAST_ONLY)
TK_MATHFN_POW(EVAL_POW)

/* Row of a function in a dispatch: op and dtype in one number. */
#define CASE_f32(OP) case TK_OP_##OP * 2
#define CASE_f64(OP) case TK_OP_##OP * 2 + 1
#define OF_f32(bits) float_i32((int32_t)(uint32_t)(bits))
#define OF_f64(bits) float_i64((int64_t)(bits))
#define TO_f32(v) ((uint32_t)bits_f32(v))
#define TO_f64(v) ((uint64_t)bits_f64(v))
/* clang-format off */
#define DISPATCH1(OP, name, T)                                                                     \
    CASE_##T(OP) : return TO_##T(eval_##name##_##T(fma, OF_##T(a)));
#define DISPATCH2(OP, name, T)                                                                     \
    CASE_##T(OP) : return TO_##T(eval_##name##_##T(fma, OF_##T(a), OF_##T(b)));
/* clang-format on */

uint64_t tk_mathfn_eval(tk_op op, tolk_dtype dtype, uint64_t a, uint64_t b, bool fma) {
    dtype &= 0xff;
    if (!tolk_dtype_is_float(dtype))
        return 0;
    if (dtype < TOLK_F32) {
        uint64_t fa = tk_narrow_round(TOLK_F32, tk_narrow_widen(dtype, a));
        uint64_t fb = tk_narrow_round(TOLK_F32, tk_narrow_widen(dtype, b));
        uint64_t r = tk_mathfn_eval(op, TOLK_F32, fa, fb, fma);
        return tk_mathfn_is(op) ? tk_narrow_round(dtype, tk_narrow_widen(TOLK_F32, r)) : 0;
    }
    switch ((int)op * 2 + (dtype == TOLK_F64)) {
        TK_MATHFN_SLOW(DISPATCH1)
        TK_MATHFN_FAST_ONLY(DISPATCH1)
        TK_MATHFN_POW(DISPATCH2)
    default:
        return 0;
    }
}
