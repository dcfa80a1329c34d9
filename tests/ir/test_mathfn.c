/* SPDX-License-Identifier: MIT
 *
 * The functions of math.def: error against a wider reference over every exponent, special values,
 * narrow dtypes exhaustively, and the expansion into nodes equal to the evaluation bit for bit.
 */
#include "ir/mathfn.h"

#include "base/ctx.h"
#include "ir/narrow.h"
#include "ir/scalar.h"
#include "ir/uop.h"

#include "support/tk_test.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Bounds in ULP, as docs/numerics.md states them: with FMA, without. lo, hi: where results differ
 * most from constants; sampled densely. */
static const struct function {
    tk_op op;
    const char *name;
    double (*ref)(double);
    long double (*ref_long)(long double);
    double lo, hi;
    double f32_ulp[2], f64_ulp[2];
} functions[] = {
    {TK_OP_EXP, "exp", exp, expl, -110, 95, {0.96, 0.96}, {1.02, 1.0}},
    {TK_OP_EXP2, "exp2", exp2, exp2l, -155, 135, {0.9, 0.9}, {0.95, 1.0}},
    {TK_OP_LOG, "log", log, logl, 0.01, 4, {0.92, 0.93}, {0.95, 0.95}},
    {TK_OP_LOG2, "log2", log2, log2l, 0.01, 4, {0.94, 1.05}, {1.2, 1.2}},
    {TK_OP_SIN, "sin", sin, sinl, -1700, 1700, {0.9, 0.95}, {0.95, 0.95}},
    {TK_OP_COS, "cos", cos, cosl, -1700, 1700, {0.9, 0.95}, {0.95, 0.95}},
    {TK_OP_TANH, "tanh", tanh, tanhl, -10, 10, {1.0, 1.06}, {1.0, 1.1}},
    {TK_OP_ERF, "erf", erf, erfl, -4, 4, {0.9, 1.0}, {1.0, 1.1}},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };
static const double pow_f32_ulp = 0.51;
static const double pow_f64_ulp[2] = {1.4, 1.4};

enum { WRONG = 1000000 /* an error that is no matter of rounding */ };

static uint64_t bits_f32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float f32_of(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t bits_f64(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float eval_f32(tk_op op, float a, float b, bool fma) {
    return f32_of(tk_mathfn_eval(op, TOLK_F32, bits_f32(a), bits_f32(b), fma));
}

static double eval_f64(tk_op op, double a, double b, bool fma) {
    return f64_of(tk_mathfn_eval(op, TOLK_F64, bits_f64(a), bits_f64(b), fma));
}

/* Distance in spacings of a format with `digits` bits at the exact result. */
static double error_ulp(long double got, long double exact, int digits, int min_exp,
                        long double max) {
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : WRONG;
    if (isinf(got)) /* right from half an ulp above the largest number */
        return (got > 0) == (exact > 0) && fabsl(exact) >= max ? 0 : WRONG;
    if ((exact == 0 || got == 0) && !signbit(got) != !signbit(exact))
        return WRONG;
    if (isinf(exact))
        return WRONG;
    int e = min_exp;
    if (exact != 0)
        frexpl(exact, &e);
    if (e < min_exp)
        e = min_exp;
    return (double)(fabsl(got - exact) * ldexpl(1, digits - e));
}

static double error_f32(float got, double exact) {
    return error_ulp(got, exact, FLT_MANT_DIG, FLT_MIN_EXP, 0x1.ffffffp127L);
}

static double error_f64(double got, long double exact) {
    return error_ulp(got, exact, DBL_MANT_DIG, DBL_MIN_EXP, (long double)DBL_MAX);
}

static double between(uint64_t *random, double lo, double hi) {
    return lo + (hi - lo) * (double)(tk_test_rand(random) >> 11) * 0x1p-53;
}

static void check_f32(const struct function *f, float x, bool fma) {
    float got = eval_f32(f->op, x, 0, fma);
    double e = error_f32(got, f->ref(x));
    if (e > f->f32_ulp[!fma])
        fail_msg("%s(%a) f32 %s = %a: %g ULP", f->name, (double)x, fma ? "fma" : "no fma",
                 (double)got, e);
}

static void check_f64(const struct function *f, double x, bool fma) {
    double got = eval_f64(f->op, x, 0, fma);
    double e = error_f64(got, f->ref_long(x));
    if (e > f->f64_ulp[!fma])
        fail_msg("%s(%a) f64 %s = %a: %g ULP", f->name, x, fma ? "fma" : "no fma", got, e);
}

static void test_f32_over_all_exponents_is_within_its_bound(void **state) {
    (void)state;
    for (int i = 0; i < FUNCTIONS; i++)
        for (int fma = 0; fma < 2; fma++) {
            /* A prime stride: every exponent, and all sorts of low bits. */
            for (uint64_t u = 0; u < 1ULL << 32; u += 65537)
                check_f32(&functions[i], f32_of(u), fma);
            for (uint64_t e = 0; e < 512; e++)
                for (int d = -4; d <= 4; d++)
                    check_f32(&functions[i], f32_of((e << 23) + (uint64_t)d), fma);
        }
}

static void test_f32_dense_sample_is_within_its_bound(void **state) {
    (void)state;
    uint64_t random = tk_test_seed(), n = tk_test_count(2000000);
    for (int i = 0; i < FUNCTIONS; i++)
        for (uint64_t k = 0; k < n; k++) {
            check_f32(&functions[i], (float)between(&random, functions[i].lo, functions[i].hi),
                      k & 1);
            check_f32(&functions[i], (float)between(&random, -2, 2), k & 1);
        }
}

static void test_f64_over_all_exponents_is_within_its_bound(void **state) {
    (void)state;
    if (LDBL_MANT_DIG < 64)
        skip();
    uint64_t random = tk_test_seed();
    for (int i = 0; i < FUNCTIONS; i++)
        for (int fma = 0; fma < 2; fma++)
            for (uint64_t e = 0; e < 4096; e++) {
                for (int d = -2; d <= 2; d++)
                    check_f64(&functions[i], f64_of((e << 52) + (uint64_t)d), fma);
                for (int k = 0; k < 8; k++)
                    check_f64(&functions[i], f64_of((e << 52) | tk_test_rand(&random) >> 12), fma);
            }
}

static void test_f64_dense_sample_is_within_its_bound(void **state) {
    (void)state;
    if (LDBL_MANT_DIG < 64)
        skip();
    uint64_t random = tk_test_seed() + 1, n = tk_test_count(1000000);
    for (int i = 0; i < FUNCTIONS; i++) {
        bool is_exp = functions[i].op == TK_OP_EXP || functions[i].op == TK_OP_EXP2;
        double scale = is_exp ? 7.2 : 1; /* to the overflow and the denormals of f64 */
        for (uint64_t k = 0; k < n; k++) {
            check_f64(&functions[i],
                      between(&random, scale * functions[i].lo, scale * functions[i].hi), k & 1);
            check_f64(&functions[i], between(&random, -2, 2), k & 1);
        }
    }
}

static void test_pow_is_within_its_bound(void **state) {
    (void)state;
    uint64_t random = tk_test_seed() + 2, n = tk_test_count(2000000);
    for (uint64_t k = 0; k < n; k++) {
        bool fma = k & 1;
        float x = f32_of(tk_test_rand(&random) >> 33);
        float y = (float)(between(&random, -152, 130) / log2(x));
        float got = eval_f32(TK_OP_POW, x, y, fma);
        double e = error_f32(got, pow(x, y));
        if (e > pow_f32_ulp)
            fail_msg("pow(%a, %a) f32 = %a: %g ULP", (double)x, (double)y, (double)got, e);
        if (LDBL_MANT_DIG < 64)
            continue;
        double dx = k & 2 ? between(&random, 0.25, 4) : f64_of(tk_test_rand(&random) >> 1);
        double dy = between(&random, -1080, 1026) / log2(dx);
        double dgot = eval_f64(TK_OP_POW, dx, dy, fma);
        e = error_f64(dgot, powl(dx, dy));
        if (e > pow_f64_ulp[!fma])
            fail_msg("pow(%a, %a) f64 = %a: %g ULP", dx, dy, dgot, e);
    }
}

/* x, then exp exp2 log log2 sin cos tanh erf of it, where the value is exact. */
static void test_special_values_are_exact(void **state) {
    (void)state;
    const double inf = INFINITY, nan = NAN, none = -12345;
    const double rows[][9] = {
        {0.0, 1, 1, -inf, -inf, 0.0, 1, 0.0, 0.0},
        {-0.0, 1, 1, -inf, -inf, -0.0, 1, -0.0, -0.0},
        {inf, inf, inf, inf, inf, nan, nan, 1, 1},
        {-inf, 0, 0, nan, nan, nan, nan, -1, -1},
        {nan, nan, nan, nan, nan, nan, nan, nan, nan},
        {-1, none, 0.5, nan, nan, none, none, none, none},
        {1, none, 2, 0, 0, none, none, none, none},
        {1024, inf, inf, none, 10, none, none, 1, 1},
        {-2000, 0, 0, nan, nan, none, none, -1, -1},
        {0x1p-149, 1, 1, none, -149, 0x1p-149, 1, 0x1p-149, none},
        {-0x1p-149, 1, 1, nan, nan, -0x1p-149, 1, -0x1p-149, none},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < FUNCTIONS; i++)
            for (int fma = 0; fma < 2; fma++) {
                double x = rows[r][0], expect = rows[r][i + 1];
                float f = eval_f32(functions[i].op, (float)x, 0, fma);
                double d = eval_f64(functions[i].op, x, 0, fma);
                if (expect == none)
                    continue;
                if (isnan(expect)) {
                    assert_true(isnan(f) && isnan(d));
                    continue;
                }
                if (f != (float)expect || d != expect || !signbit(f) != !signbit(expect) ||
                    !signbit(d) != !signbit(expect))
                    fail_msg("%s(%a) = %a, %a", functions[i].name, x, (double)f, d);
            }
}

static void test_exp2_at_integers_is_exact(void **state) {
    (void)state;
    for (int fma = 0; fma < 2; fma++) {
        for (int k = -1090; k < 1030; k++)
            assert_true(eval_f64(TK_OP_EXP2, k, 0, fma) == ldexp(1, k));
        for (int k = -160; k < 140; k++) {
            assert_true(eval_f32(TK_OP_EXP2, (float)k, 0, fma) == ldexpf(1, k));
            if (k >= -149 && k < 128)
                assert_true(eval_f32(TK_OP_LOG2, ldexpf(1, k), 0, fma) == (float)k);
        }
        for (int k = -1074; k < 1024; k++)
            assert_true(eval_f64(TK_OP_LOG2, ldexp(1, k), 0, fma) == k);
    }
}

static void test_odd_functions_are_odd_and_cos_is_even(void **state) {
    (void)state;
    uint64_t random = tk_test_seed() + 3;
    for (int k = 0; k < 20000; k++) {
        uint64_t u = tk_test_rand(&random) >> 33, du = tk_test_rand(&random) >> 1;
        if (isnan(f32_of(u)) || isinf(f32_of(u)) || isnan(f64_of(du)) || isinf(f64_of(du)))
            continue;
        static const tk_op odd[] = {TK_OP_SIN, TK_OP_TANH, TK_OP_ERF};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(tk_mathfn_eval(odd[i], TOLK_F32, u | 0x80000000U, 0, true),
                             tk_mathfn_eval(odd[i], TOLK_F32, u, 0, true) ^ 0x80000000U);
            assert_int_equal(tk_mathfn_eval(odd[i], TOLK_F64, du | 1ULL << 63, 0, true),
                             tk_mathfn_eval(odd[i], TOLK_F64, du, 0, true) ^ 1ULL << 63);
        }
        assert_int_equal(tk_mathfn_eval(TK_OP_COS, TOLK_F32, u | 0x80000000U, 0, true),
                         tk_mathfn_eval(TK_OP_COS, TOLK_F32, u, 0, true));
    }
}

/* Codes of a narrow float in their order as numbers. */
static int64_t order_of(tolk_dtype dtype, uint64_t code) {
    int64_t sign = tolk_dtype_bytes(dtype) == 2 ? 0x8000 : 0x80;
    return (int64_t)code & sign ? -((int64_t)code & (sign - 1)) : (int64_t)code;
}

static void check_narrow(const struct function *f, tolk_dtype dtype) {
    uint64_t codes = 1ULL << (8 * tolk_dtype_bytes(dtype));
    for (uint64_t code = 0; code < codes; code++) {
        double exact = f->ref(tk_narrow_widen(dtype, code));
        uint64_t want = tk_narrow_round(dtype, exact);
        uint64_t got = tk_mathfn_eval(f->op, dtype, code, 0, true);
        double want_value = tk_narrow_widen(dtype, want), got_value = tk_narrow_widen(dtype, got);
        if (isnan(want_value) && isnan(got_value))
            continue;
        int64_t apart = order_of(dtype, got) - order_of(dtype, want);
        bool exact_case = isinf(exact) || exact == 0;
        if (isnan(want_value) != isnan(got_value) || apart > !exact_case || apart < -!exact_case)
            fail_msg("%s of %s 0x%x = 0x%x, not 0x%x", f->name, tolk_dtype_name(dtype),
                     (unsigned)code, (unsigned)got, (unsigned)want);
    }
}

static void test_NUM_03_f16_inputs_all_within_one_step(void **state) {
    (void)state;
    assert_true(tk_narrow_f16_to_f32((uint16_t)tk_mathfn_eval(
                    TK_OP_EXP, TOLK_F16, tk_narrow_f16_from_f32(9.96875F), 0, true)) == 21344);
    for (int i = 0; i < FUNCTIONS; i++)
        check_narrow(&functions[i], TOLK_F16);
    assert_int_equal(tk_mathfn_eval(TK_OP_EXP, TOLK_F16, 0x7c00, 0, true), 0x7c00);
    assert_int_equal(tk_mathfn_eval(TK_OP_EXP, TOLK_F16, 0xfc00, 0, true), 0);
}

static void test_bf16_and_fp8_inputs_all_within_one_step(void **state) {
    (void)state;
    for (int i = 0; i < FUNCTIONS; i++) {
        check_narrow(&functions[i], TOLK_BF16);
        check_narrow(&functions[i], TOLK_FP8E4M3);
        check_narrow(&functions[i], TOLK_FP8E5M2);
    }
}

static void test_NUM_01_sin_of_big_arguments(void **state) {
    (void)state;
    for (int fma = 0; fma < 2; fma++) {
        assert_true(error_f64(eval_f64(TK_OP_SIN, 39800, 0, fma), 0.74285722351259653L) <= 1);
        assert_true(error_f32(eval_f32(TK_OP_SIN, 39800, 0, fma), 0.74285722351259653) <= 1);
        assert_true(error_f64(eval_f64(TK_OP_SIN, 1e22, 0, fma), -0.85220084976718879L) <= 1);
        assert_true(error_f32(eval_f32(TK_OP_SIN, 1e10F, 0, fma), -0.48750602508986816) <= 1);
        /* Around the places where the reduction changes its method, and far beyond. */
        static const double at[] = {1600, 65536, 0x1p20, 1e14, 0x1p63, 1e300};
        for (int i = 0; i < 6; i++)
            for (int d = -3; d <= 3; d++) {
                double x = f64_of(bits_f64(at[i]) + (uint64_t)(int64_t)d);
                assert_true(error_f64(eval_f64(TK_OP_SIN, x, 0, fma), sinl(x)) <= 1);
                assert_true(error_f64(eval_f64(TK_OP_COS, x, 0, fma), cosl(x)) <= 1);
                float y = f32_of(bits_f32((float)at[i]) + (uint64_t)(int64_t)d);
                if (isinf((float)at[i]))
                    continue;
                assert_true(error_f32(eval_f32(TK_OP_SIN, y, 0, fma), sin(y)) <= 1);
                assert_true(error_f32(eval_f32(TK_OP_COS, y, 0, fma), cos(y)) <= 1);
            }
    }
    uint64_t h = tk_narrow_f16_from_f32(39800);
    assert_true(tk_narrow_f16_to_f32((uint16_t)h) == 39808);
    double s = tk_narrow_f16_to_f64((uint16_t)tk_mathfn_eval(TK_OP_SIN, TOLK_F16, h, 0, true));
    assert_true(fabs(s - -0.770507812) < 1e-9);
    /* The f64 nearest to a multiple of pi/2 (Kahan and McDonald). */
    assert_true(error_f64(eval_f64(TK_OP_COS, 0x1.6ac5b262ca1ffp+849, 0, true),
                          cosl(0x1.6ac5b262ca1ffp+849)) <= 1);
}

static void test_NUM_09_pow_special_values(void **state) {
    (void)state;
    const double inf = INFINITY, nan = NAN;
    const double rows[][3] = {
        {0, .5, 0},       {0, 0, 1},
        {0, -0.0, 1},     {nan, 0, 1},
        {1, nan, 1},      {-2, 3, -8},
        {-2, .5, nan},    {0, -1, inf},
        {-0.0, -1, -inf}, {-0.0, 3, -0.0},
        {-1, inf, 1},     {0, nan, nan},
        {-1, -inf, 1},    {-0.0, 2, 0},
        {-0.0, .5, 0},    {-0.0, -2, inf},
        {inf, 2, inf},    {inf, -2, 0},
        {-inf, 3, -inf},  {-inf, 2, inf},
        {-inf, -3, -0.0}, {-inf, -2, 0},
        {-inf, .5, inf},  {2, inf, inf},
        {2, -inf, 0},     {.5, inf, 0},
        {.5, -inf, inf},  {-2, inf, inf},
        {-2, -inf, 0},    {0, inf, 0},
        {0, -inf, inf},   {nan, 1, nan},
        {2, nan, nan},    {1, inf, 1},
        {-inf, -inf, 0},  {-2, 2, 4},
        {2, 10, 1024},    {2, -1074, 0x1p-1074},
        {2, 1024, inf},   {-3, 1, -3},
        {-2, 1e30, inf},  {0x1p-1074, 1, 0x1p-1074},
        {1, 1e300, 1},    {-0.0, -inf, inf},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int fma = 0; fma < 2; fma++) {
            double x = rows[r][0], y = rows[r][1], want = rows[r][2];
            double d = eval_f64(TK_OP_POW, x, y, fma);
            float f = eval_f32(TK_OP_POW, (float)x, (float)y, fma);
            if (isnan(want)) {
                assert_true(isnan(d) && isnan(f));
                continue;
            }
            if (d != want || !signbit(d) != !signbit(want))
                fail_msg("pow(%a, %a) f64 = %a", x, y, d);
            bool as_f32 = (float)x == x && (isinf(y) || (float)y == y || fabs(y) > 1e29);
            if ((as_f32 || isnan(x) || isnan(y)) &&
                (f != (float)want || !signbit(f) != !signbit(want)))
                fail_msg("pow(%a, %a) f32 = %a", x, y, (double)f);
        }
}

static void test_NUM_11_out_of_domain_gives_nan_and_inf(void **state) {
    (void)state;
    for (int fma = 0; fma < 2; fma++) {
        assert_true(isnan(eval_f32(TK_OP_SIN, INFINITY, 0, fma)));
        assert_true(isnan(eval_f64(TK_OP_SIN, INFINITY, 0, fma)));
        assert_true(isnan(eval_f32(TK_OP_LOG2, -1, 0, fma)));
        assert_true(isnan(eval_f64(TK_OP_LOG2, -1, 0, fma)));
        assert_true(eval_f32(TK_OP_EXP2, 1e6F, 0, fma) == INFINITY);
        assert_true(eval_f64(TK_OP_EXP2, 1e6, 0, fma) == (double)INFINITY);
    }
}

static void test_NAN_01_exp_of_100_overflows(void **state) {
    (void)state;
    assert_true(isinf(eval_f32(TK_OP_EXP, 100, 0, true)));
    assert_true(isinf(eval_f32(TK_OP_EXP, 100, 0, false)));
}

static void test_eval_of_another_op_or_dtype_gives_zero(void **state) {
    (void)state;
    assert_int_equal(tk_mathfn_eval(TK_OP_ADD, TOLK_F32, 1, 1, true), 0);
    assert_int_equal(tk_mathfn_eval(TK_OP_ADD, TOLK_F16, 0x3c00, 1, true), 0);
    assert_int_equal(tk_mathfn_eval(TK_OP_EXP, TOLK_I32, 1, 1, true), 0);
    assert_false(tk_mathfn_is(TK_OP_SQRT));
    assert_true(tk_mathfn_is(TK_OP_POW) && tk_mathfn_is(TK_OP_ERF) && tk_mathfn_is(TK_OP_EXP));
}

/* ---- the expansion ---- */

enum { MAX_NODES = 4096 };

/* One lane of every node of g, the two params given; nodes stand in order. */
static void run_graph(const tolk_graph *g, const uint64_t params[2], uint64_t *value) {
    for (size_t i = 0; i < g->nodes.n; i++) {
        const tolk_uop *u = g->nodes.at[i];
        uint64_t s[3] = {0, 0, 0};
        for (uint32_t k = 0; k < u->n_src && k < 3; k++)
            s[k] = value[u->src[k]->id];
        tolk_dtype dt = tolk_dtype_scalar(u->dtype);
        tolk_dtype from = u->n_src ? tolk_dtype_scalar(u->src[0]->dtype) : dt;
        switch (tk_uop_op(u)) {
        case TK_OP_PARAM:
            value[i] = params[tk_uop_int(u, TK_A_PARAM_SLOT)];
            break;
        case TK_OP_CONST:
            value[i] = tk_uop_bits(u);
            break;
        case TK_OP_STACK: /* a splat */
            value[i] = s[0];
            break;
        case TK_OP_CAST:
            value[i] = tk_scalar_cast(from, dt, s[0]);
            break;
        case TK_OP_BITCAST:
            value[i] = tk_scalar_bitcast(from, dt, s[0]);
            break;
        case TK_OP_WHERE:
            value[i] = s[0] ? s[1] : s[2];
            break;
        default:
            assert_true(tk_op_is_alu(tk_uop_op(u)) && !tk_mathfn_is(tk_uop_op(u)));
            value[i] = tk_scalar_alu(tk_uop_op(u), from, s[0], s[1], s[2], true);
            break;
        }
    }
}

static const tolk_uop *make_param(tolk_graph *g, tolk_dtype dtype, int64_t slot) {
    const tk_attr attrs[] = {{.i = slot},      {.blob = NULL},   {.i = TK_SPACE_ALU},
                             {.i = INT64_MIN}, {.i = INT64_MAX}, {.blob = NULL},
                             {.i = -1}};
    return tk_uop(g, TK_OP_PARAM, dtype, NULL, 0, attrs);
}

static uint64_t random_input(uint64_t *random, tolk_dtype dtype, int k) {
    uint64_t u = tk_test_rand(random);
    if (k % 3 == 0) /* any bits */
        return dtype == TOLK_F64 ? u : u >> (64 - 8 * tolk_dtype_bytes(dtype));
    double wide[] = {2, 20, 100, 2000, 1e7};
    double v = between(random, -1, 1) * wide[u % 5];
    return tk_narrow_round(dtype, k % 3 == 1 ? v : fabs(v));
}

static void test_expansion_equals_evaluation_bit_for_bit(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_F16, TOLK_BF16, TOLK_FP8E5M2};
    static uint64_t value[MAX_NODES];
    tolk_ctx *ctx;
    assert_int_equal(tk_ctx_init(NULL, &ctx, NULL), TOLK_OK);
    uint64_t random = tk_test_seed() + 4;
    for (int i = 0; i <= FUNCTIONS; i++)
        for (int d = 0; d < 5; d++)
            for (int fma = 0; fma < 2; fma++) {
                tk_op op = i < FUNCTIONS ? functions[i].op : TK_OP_POW;
                uint32_t lanes = d ? 4 : 1;
                tolk_graph *g;
                assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
                const tolk_uop *a = make_param(g, tolk_dtype_vec(dtypes[d], lanes), 0);
                const tolk_uop *b = make_param(g, tolk_dtype_vec(dtypes[d], lanes), 1);
                tk_mathfn_expansion r = tk_mathfn_expand(g, op, a, op == TK_OP_POW ? b : NULL, fma);
                assert_non_null(r.fast);
                assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK);
                assert_true(r.fast->dtype == a->dtype);
                assert_int_equal(r.slow == NULL, op == TK_OP_TANH || op == TK_OP_ERF);
                assert_int_equal(r.slow == NULL, r.cond == NULL);
                if (r.slow) {
                    assert_true(r.slow->dtype == a->dtype);
                    assert_true(r.cond->dtype == tolk_dtype_vec(TOLK_BOOL, lanes));
                }
                assert_true(g->nodes.n < MAX_NODES);
                for (size_t k = 0; k < g->nodes.n; k++) {
                    const tolk_uop *u = g->nodes.at[k];
                    assert_true(tk_uop_lanes(u) == lanes || tk_uop_is(u, TK_OP_CONST));
                    assert_true(fma || !tk_uop_is(u, TK_OP_MULACC));
                }
                for (int k = 0; k < 600; k++) {
                    uint64_t in[2] = {random_input(&random, dtypes[d], k),
                                      random_input(&random, dtypes[d], k / 3)};
                    run_graph(g, in, value);
                    bool slow = r.cond && value[r.cond->id];
                    uint64_t got = value[slow ? r.slow->id : r.fast->id];
                    uint64_t want = tk_mathfn_eval(op, dtypes[d], in[0], in[1], fma);
                    if (!tk_scalar_same(dtypes[d], got, want))
                        fail_msg("%s %s of 0x%llx, 0x%llx: nodes 0x%llx, scalar 0x%llx",
                                 tk_op_get(op)->name, tolk_dtype_name(dtypes[d]),
                                 (unsigned long long)in[0], (unsigned long long)in[1],
                                 (unsigned long long)got, (unsigned long long)want);
                }
                tk_graph_destroy(g);
            }
    tk_ctx_fini(ctx);
}

static void test_expansion_of_wrong_input_records_an_error(void **state) {
    (void)state;
    tolk_ctx *ctx;
    tolk_graph *g;
    assert_int_equal(tk_ctx_init(NULL, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
    const tolk_uop *i = make_param(g, TOLK_I32, 0);
    assert_null(tk_mathfn_expand(g, TK_OP_EXP, NULL, NULL, true).fast);
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK);
    assert_null(tk_mathfn_expand(g, TK_OP_EXP, i, NULL, true).fast);
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_E_DTYPE);
    tk_graph_destroy(g);
    tk_ctx_fini(ctx);
}

static tolk_status expand_sin(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.no_environment = 1;
    tolk_ctx *ctx;
    TK_TRY(tk_ctx_init(&opts, &ctx, NULL));
    tolk_graph *g;
    tolk_status status = tk_graph_create(ctx, &g);
    if (status == TOLK_OK) {
        const tolk_uop *x = make_param(g, tolk_dtype_vec(TOLK_F64, 8), 0);
        tk_mathfn_expansion r = tk_mathfn_expand(g, TK_OP_SIN, x, NULL, true);
        status = tolk_graph_error(g, NULL);
        if ((status == TOLK_OK) != (r.fast && r.slow && r.cond))
            status = TOLK_E_INTERNAL;
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return status;
}

static void test_expansion_without_memory_is_an_error(void **state) {
    (void)state;
    assert_true(tk_test_oom(expand_sin, NULL) > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_over_all_exponents_is_within_its_bound),
        cmocka_unit_test(test_f32_dense_sample_is_within_its_bound),
        cmocka_unit_test(test_f64_over_all_exponents_is_within_its_bound),
        cmocka_unit_test(test_f64_dense_sample_is_within_its_bound),
        cmocka_unit_test(test_pow_is_within_its_bound),
        cmocka_unit_test(test_special_values_are_exact),
        cmocka_unit_test(test_exp2_at_integers_is_exact),
        cmocka_unit_test(test_odd_functions_are_odd_and_cos_is_even),
        cmocka_unit_test(test_NUM_03_f16_inputs_all_within_one_step),
        cmocka_unit_test(test_bf16_and_fp8_inputs_all_within_one_step),
        cmocka_unit_test(test_NUM_01_sin_of_big_arguments),
        cmocka_unit_test(test_NUM_09_pow_special_values),
        cmocka_unit_test(test_NUM_11_out_of_domain_gives_nan_and_inf),
        cmocka_unit_test(test_NAN_01_exp_of_100_overflows),
        cmocka_unit_test(test_eval_of_another_op_or_dtype_gives_zero),
        cmocka_unit_test(test_expansion_equals_evaluation_bit_for_bit),
        cmocka_unit_test(test_expansion_of_wrong_input_records_an_error),
        cmocka_unit_test(test_expansion_without_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
