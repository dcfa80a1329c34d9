/* SPDX-License-Identifier: MIT
 *
 * Numerics: range reduction, special values, casts that must stay, no contraction.
 */
#include "cases/case.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include "ir/narrow.h"

/* Distance of two floats of a dtype, in steps. */
static double steps(tolk_dtype dtype, uint64_t a, double stated) {
    int digits = dtype == TOLK_F64 ? 53 : dtype == TOLK_F32 ? 24 : dtype == TOLK_F16 ? 11 : 8, e;
    frexp(stated, &e);
    return fabs(tk_narrow_widen(dtype, a) - stated) / ldexp(1, e - digits);
}

/* A math function on x: the interpreter's value is within `ulps` of the stated one, and all engines
 * give that. */
static void math_case(tk_op op, tolk_dtype dtype, const double *x, const double *stated, size_t n,
                      double ulps) {
    uint64_t a[CASE_ROWS], want[CASE_ROWS], no_fma[CASE_ROWS];
    for (size_t i = 0; i < n; i++) {
        a[i] = tk_kernel_float(dtype, x[i]);
        want[i] = tk_scalar_alu(op, dtype, a[i], 0, 0, true);
        no_fma[i] = tk_scalar_alu(op, dtype, a[i], 0, 0, false);
        assert_true(steps(dtype, want[i], stated[i]) <= ulps);
        assert_true(steps(dtype, no_fma[i], stated[i]) <= ulps);
    }
    char body[64];
    const char *name = tolk_dtype_name(dtype);
    snprintf(body, sizeof body, "%%200 = %s %s (%%100)", tk_op_get(op)->name, name);
    const tk_kernel_rows rows = {dtype, TOLK_VOID, dtype, a, NULL, want, n, no_fma};
    tk_kernel_elementwise(body, &rows);
}

static void test_NUM_01_sin_reduces_big_arguments(void **state) {
    (void)state;
    static const double x[] = {39800, 1e22, 1e14, 1e14 + 1, 1e14 - 1};
    const double sin_f64[] = {0.74285722351259653, -0.85220084976718879, (double)sinl(1e14L),
                              (double)sinl(1e14L + 1), (double)sinl(1e14L - 1)};
    math_case(TK_OP_SIN, TOLK_F64, x, sin_f64, COUNT(x), 2);
    static const double y[] = {39800, 1e10};
    static const double sin_f32[] = {0.742857218, -0.487506032};
    math_case(TK_OP_SIN, TOLK_F32, y, sin_f32, COUNT(y), 1.5);
    static const double z[] = {39800}, sin_f16[] = {-0.770507812};
    math_case(TK_OP_SIN, TOLK_F16, z, sin_f16, 1, 1);
}

static void test_NUM_03_exp_of_every_f16_is_within_one_step(void **state) {
    (void)state;
    enum { N = 65536 };
    static uint64_t a[N], want[N];
    for (uint64_t i = 0; i < N; i++) {
        a[i] = i;
        want[i] = tk_scalar_alu(TK_OP_EXP, TOLK_F16, i, 0, 0, true);
        double x = tk_narrow_widen(TOLK_F16, i);
        uint64_t reference = tk_narrow_round(TOLK_F16, exp(x));
        if (isnan(x))
            assert_true(isnan(tk_narrow_widen(TOLK_F16, want[i])));
        else
            assert_true(want[i] - reference + 1 <= 2); /* no sign: results are positive */
    }
    assert_int_equal(want[tk_kernel_float(TOLK_F16, 9.96875)], tk_kernel_float(TOLK_F16, 21344));
    assert_int_equal(want[0x7c00], 0x7c00);
    assert_int_equal(want[0xfc00], 0);
    const tk_kernel_rows rows = {TOLK_F16, TOLK_VOID, TOLK_F16, a, NULL, want, N, NULL};
    tk_kernel_elementwise("%200 = exp f16 (%100)", &rows);
}

/* softmax(x c) with the product computed in both loops: no contraction, so that the largest term is
 * exp(0). */
static void test_NUM_05_product_minus_its_maximum_is_zero(void **state) {
    (void)state;
    static const float x[2][3] = {{2.5e11F, 1e9F, -2.5e11F}, {3e10F, 0, -3e10F}};
    static const float want[3] = {1, 0, 0};
    for (int i = 0; i < 2; i++) {
        const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x[i])};
        tk_kernel_run(
            "tolk.uop 1\n%0 = const index 3\n%1 = param f32 (%0) {slot=0}\n"
            "%2 = param f32 (%0) {slot=1}\n%3 = const f32 0x1.555556p-2\n"
            "%4 = range index (%0) {axis=0, kind=reduce}\n%5 = index f32 (%2, %4)\n"
            "%6 = load f32 (%5)\n%7 = mul f32 (%6, %3)\n%8 = reduce f32 (%7, %4) {op=max}\n"
            "%9 = range index (%0) {axis=1, kind=reduce}\n%10 = index f32 (%2, %9)\n"
            "%11 = load f32 (%10)\n%12 = mul f32 (%11, %3)\n%13 = sub f32 (%12, %8)\n"
            "%14 = exp f32 (%13)\n%15 = reduce f32 (%14, %9) {op=add}\n"
            "%16 = range index (%0) {axis=2, kind=loop}\n%17 = index f32 (%2, %16)\n"
            "%18 = load f32 (%17)\n%19 = mul f32 (%18, %3)\n%20 = sub f32 (%19, %8)\n"
            "%21 = exp f32 (%20)\n%22 = fdiv f32 (%21, %15)\n%23 = index f32 (%1, %16)\n"
            "%24 = store void (%23, %22)\n%25 = end void (%24, %16)\n"
            "%26 = sink void (%25) {name=\"softmax\"}\n",
            args, 2, NULL, 0, TOLK_OK);
    }
    /* and elementwise: x c - round(x c) is 0, not the rounding error of the product */
    double a[20], zero[20] = {0};
    for (int i = 0; i < 20; i++)
        a[i] = (i + 1) / 7.0;
    case_run("%300 = const f32 0x1.555556p-2\n%301 = mul f32 (%100, %300)\n"
             "%302 = mul f32 (%100, %300)\n%200 = sub f32 (%301, %302)",
             TOLK_F32, TOLK_F32, a, NULL, zero, 20);
}

static void test_NUM_07_cast_down_and_up_stays(void **state) {
    (void)state;
    double x[20], f16[20], bf16[20], f32[20];
    for (int k = 0; k < 20; k++) {
        x[k] = k / 7.0;
        float v = (float)x[k];
        f16[k] = (double)tk_narrow_f16_to_f32(tk_narrow_f16_from_f32(v));
        bf16[k] = (double)tk_narrow_bf16_to_f32(tk_narrow_bf16_from_f32(v));
        f32[k] = (double)v;
    }
    assert_true((float)f16[1] == 0.142822266F);
    case_run("%300 = cast f16 (%100)\n%200 = cast f32 (%300)", TOLK_F32, TOLK_F32, x, NULL, f16,
             20);
    case_run("%300 = cast bf16 (%100)\n%200 = cast f32 (%300)", TOLK_F32, TOLK_F32, x, NULL, bf16,
             20);
    case_run("%300 = cast f32 (%100)\n%200 = cast f64 (%300)", TOLK_F64, TOLK_F64, x, NULL, f32,
             20);
    static const double i[] = {300, -129, 127}, i8[] = {44, 127, 127};
    case_run("%300 = cast i8 (%100)\n%200 = cast i32 (%300)", TOLK_I32, TOLK_I32, i, NULL, i8, 3);
}

static void test_NUM_09_pow_of_special_pairs(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    const double x[] = {0, 0, 0, nan, 1, -2, -2, 0, -0.0, -0.0, -1, 0};
    const double y[] = {.5, 0, -0.0, 0, nan, 3, .5, -1, -1, 3, inf, nan};
    const double want[] = {0, 1, 1, 1, 1, -8, nan, inf, -inf, -0.0, 1, nan};
    case_run("%200 = pow f32 (%100, %101)", TOLK_F32, TOLK_F32, x, y, want, COUNT(x));
    case_run("%200 = pow f64 (%100, %101)", TOLK_F64, TOLK_F64, x, y, want, COUNT(x));
}

static void test_NUM_11_special_operands_give_values(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    static const struct {
        const char *body;
        tolk_dtype out;
    } t[] = {{"%200 = sin %s (%100)", TOLK_VOID},  {"%200 = log2 %s (%100)", TOLK_VOID},
             {"%200 = sqrt %s (%100)", TOLK_VOID}, {"%200 = reciprocal %s (%100)", TOLK_VOID},
             {"%200 = exp2 %s (%100)", TOLK_VOID}, {"%200 = cast i32 (%100)", TOLK_I32},
             {"%200 = cast u8 (%100)", TOLK_U8}};
    const double a[] = {inf, -1, -1, 0, 1e6, nan, nan}, want[] = {nan, nan, nan, inf, inf, 0, 0};
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_F16};
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t i = 0; i < COUNT(t); i++)
            case_run_as(t[i].body, dtypes[d], t[i].out ? t[i].out : dtypes[d], &a[i], NULL,
                        &want[i], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_NUM_01_sin_reduces_big_arguments),
        cmocka_unit_test(test_NUM_03_exp_of_every_f16_is_within_one_step),
        cmocka_unit_test(test_NUM_05_product_minus_its_maximum_is_zero),
        cmocka_unit_test(test_NUM_07_cast_down_and_up_stays),
        cmocka_unit_test(test_NUM_09_pow_of_special_pairs),
        cmocka_unit_test(test_NUM_11_special_operands_give_values),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
