/* SPDX-License-Identifier: MIT
 *
 * Reductions and casts.
 */
#include "cases/case.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include "ir/narrow.h"

#include <stdlib.h>

static uint64_t bits(tolk_dtype dtype, double v) {
    return case_bits(dtype, v);
}

static void test_RED_01_sums_of_ones_do_not_saturate(void **state) {
    (void)state;
    const uint64_t half = bits(TOLK_F16, 1), brain = bits(TOLK_BF16, 1);
    tk_kernel_reduce("add", TOLK_F16, &half, 1, 20000, bits(TOLK_F16, 20000));
    tk_kernel_reduce("add", TOLK_BF16, &brain, 1, 70000, bits(TOLK_BF16, 70144));
    /* the mean of 70000 ones; softmax of 512 zeros */
    enum { N = 70000 };
    static uint16_t ones[N], zeros[512], mean[1], uniform[512];
    for (int i = 0; i < N; i++)
        ones[i] = (uint16_t)brain;
    mean[0] = (uint16_t)brain;
    for (int i = 0; i < 512; i++)
        uniform[i] = tk_narrow_bf16_from_f64(1.0 / 512);
    const tk_kernel_arg a[] = {TK_KERNEL_OUT(TOLK_BF16, mean), TK_KERNEL_IN(TOLK_BF16, ones)};
    tk_kernel_run("tolk.uop 1\n%0 = const index 1\n%1 = const index 70000\n"
                  "%2 = param bf16 (%0) {slot=0}\n%3 = param bf16 (%1) {slot=1}\n"
                  "%4 = range index (%1) {axis=0, kind=reduce}\n%5 = index bf16 (%3, %4)\n"
                  "%6 = load bf16 (%5)\n%7 = reduce bf16 (%6, %4) {op=add}\n"
                  "%8 = const bf16 70000\n%9 = fdiv bf16 (%7, %8)\n%10 = const index 0\n"
                  "%11 = index bf16 (%2, %10)\n%12 = store void (%11, %9)\n"
                  "%13 = sink void (%12) {name=\"mean\"}\n",
                  a, 2, NULL, 0, TOLK_OK);
    const tk_kernel_arg b[] = {TK_KERNEL_OUT(TOLK_BF16, uniform), TK_KERNEL_IN(TOLK_BF16, zeros)};
    tk_kernel_run(
        "tolk.uop 1\n%0 = const index 512\n%1 = param bf16 (%0) {slot=0}\n"
        "%2 = param bf16 (%0) {slot=1}\n%3 = range index (%0) {axis=0, kind=reduce}\n"
        "%4 = index bf16 (%2, %3)\n%5 = load bf16 (%4)\n%6 = exp bf16 (%5)\n"
        "%7 = reduce bf16 (%6, %3) {op=add}\n%8 = range index (%0) {axis=1, kind=global}\n"
        "%9 = index bf16 (%2, %8)\n%10 = load bf16 (%9)\n%11 = exp bf16 (%10)\n"
        "%12 = fdiv bf16 (%11, %7)\n%13 = index bf16 (%1, %8)\n"
        "%14 = store void (%13, %12)\n%15 = end void (%14, %8)\n"
        "%16 = sink void (%15) {name=\"softmax\"}\n",
        b, 2, NULL, 0, TOLK_OK);
}

static void test_RED_03_identity_does_not_take_part(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_I8,  TOLK_I32, TOLK_I64,
                                        TOLK_U8,  TOLK_U32, TOLK_U64, TOLK_F16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        bool is_signed = !tolk_dtype_is_unsigned(dt);
        const uint64_t minus = bits(dt, is_signed ? -1 : 1), two = bits(dt, 2), one = bits(dt, 1);
        tk_kernel_reduce("max", dt, &minus, 1, 10, minus);
        tk_kernel_reduce("mul", dt, &one, 1, 10, one);
        if (tolk_dtype_bytes(dt) > 1)
            tk_kernel_reduce("mul", dt, &two, 1, 10, bits(dt, 1024));
        for (size_t i = 1; i < TK_KERNEL_N_SIZES; i += 3)
            tk_kernel_reduce("max", dt, &minus, 1, tk_kernel_sizes[i], minus);
    }
    /* pool of 3 with a padding of 1 over -7: what is outside is gated off and is the minimum */
    static const int32_t x[9] = {-7, -7, -7, -7, -7, -7, -7, -7, -7};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, x), TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(
        "tolk.uop 1\n%0 = const index 9\n%1 = const index 3\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = param i32 (%0) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"
        "%5 = range index (%1) {axis=1, kind=reduce}\n%6 = add index (%4, %5)\n"
        "%7 = const index -1\n%8 = add index (%6, %7)\n%9 = cmplt bool (%7, %8)\n"
        "%10 = cmplt bool (%8, %0)\n%11 = and bool (%9, %10)\n%12 = index i32 (%3, %8)\n"
        "%13 = const i32 -2147483648\n%14 = load i32 (%12, %13, %11)\n"
        "%15 = reduce i32 (%14, %5) {op=max}\n%16 = index i32 (%2, %4)\n"
        "%17 = store void (%16, %15)\n%18 = end void (%17, %4)\n"
        "%19 = sink void (%18) {name=\"pool\"}\n",
        args, 2, NULL, 0, TOLK_OK);
}

static void test_RED_05_integers_do_not_pass_through_floats(void **state) {
    (void)state;
    static const uint64_t u64[3] = {0, 9223372036854775807U, 18446744073709551615U};
    tk_kernel_reduce("max", TOLK_U64, u64, 3, 3, 18446744073709551615U);
    tk_kernel_reduce("max", TOLK_U64, u64, 2, 17, 9223372036854775807U);
    static const uint64_t i64[2] = {9007199254740993, 9007199254740992};
    tk_kernel_reduce("max", TOLK_I64, i64, 2, 2, 9007199254740993);
    tk_kernel_reduce("max", TOLK_I64, i64, 2, 449, 9007199254740993);
    /* the minimum is the negated maximum of the negated; INT64_MAX as padding */
    static const int64_t x[3] = {5, INT64_MAX, -3};
    const int64_t least[1] = {-3};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I64, least), TK_KERNEL_IN(TOLK_I64, x)};
    tk_kernel_run("tolk.uop 1\n%0 = const index 1\n%1 = const index 3\n%2 = const index 8\n"
                  "%3 = param i64 (%0) {slot=0}\n%4 = param i64 (%1) {slot=1}\n"
                  "%5 = range index (%2) {axis=0, kind=reduce}\n%6 = cmplt bool (%5, %1)\n"
                  "%7 = index i64 (%4, %5)\n%8 = const i64 9223372036854775807\n"
                  "%9 = load i64 (%7, %8, %6)\n%10 = neg i64 (%9)\n"
                  "%11 = reduce i64 (%10, %5) {op=max}\n%12 = neg i64 (%11)\n%13 = const index 0\n"
                  "%14 = index i64 (%3, %13)\n%15 = store void (%14, %12)\n"
                  "%16 = sink void (%15) {name=\"min\"}\n",
                  args, 2, NULL, 0, TOLK_OK);
    const uint64_t one = 1;
    static const uint64_t ends[2] = {UINT64_MAX, (uint64_t)INT64_MIN};
    const tk_kernel_rows u = {TOLK_U64, TOLK_VOID, TOLK_U64, ends, NULL, ends, 2, NULL};
    tk_kernel_elementwise("%300 = const u64 1\n%200 = mul u64 (%100, %300)", &u);
    const tk_kernel_rows i = {TOLK_I64, TOLK_VOID, TOLK_I64, &ends[1], NULL, &ends[1], one, NULL};
    tk_kernel_elementwise("%300 = const i64 1\n%200 = mul i64 (%100, %300)", &i);
}

/* The first NaN, else the first of the largest. */
static void argmax(const float *x, size_t n, int64_t want) {
    char text[1536];
    snprintf(
        text, sizeof text,
        "tolk.uop 1\n%%0 = const index 1\n%%1 = const index %zu\n"
        "%%2 = param i64 (%%0) {slot=0}\n%%3 = param f32 (%%1) {slot=1}\n"
        "%%4 = range index (%%1) {axis=0, kind=reduce}\n%%5 = index f32 (%%3, %%4)\n"
        "%%6 = load f32 (%%5)\n%%7 = reduce f32 (%%6, %%4) {op=max}\n"
        "%%8 = range index (%%1) {axis=1, kind=reduce}\n%%9 = index f32 (%%3, %%8)\n"
        "%%10 = load f32 (%%9)\n%%11 = cmpeq bool (%%10, %%7)\n%%12 = cmpne bool (%%10, %%10)\n"
        "%%13 = or bool (%%11, %%12)\n%%14 = sub index (%%1, %%8)\n%%15 = cast i64 (%%14)\n"
        "%%16 = const i64 0\n%%17 = where i64 (%%13, %%15, %%16)\n"
        "%%18 = reduce i64 (%%17, %%8) {op=max}\n%%19 = cast i64 (%%1)\n"
        "%%20 = sub i64 (%%19, %%18)\n%%21 = const index 0\n%%22 = index i64 (%%2, %%21)\n"
        "%%23 = store void (%%22, %%20)\n%%24 = sink void (%%23) {name=\"argmax\"}\n",
        n);
    const tk_kernel_arg args[] = {{TOLK_I64, 1, NULL, &want, NULL}, {TOLK_F32, n, x, NULL, NULL}};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

static void test_RED_07_argmax_takes_the_first(void **state) {
    (void)state;
    static const float nan[4] = {1, NAN, 3, NAN};
    argmax(nan, 4, 1);
    static float same[4097];
    for (size_t i = 0; i < COUNT(same); i++)
        same[i] = 7;
    for (size_t i = 1; i < TK_KERNEL_N_SIZES; i++)
        argmax(same, tk_kernel_sizes[i], 0);
    same[400] = same[401] = 8;
    argmax(same, 449, 400);
}

/* Squares of 2880 numbers summed by a work-group: everyone sums every local-th, the first all of
 * the partial sums. */
static void test_RED_09_partial_groups_are_summed(void **state) {
    (void)state;
    enum { N = 2880 };
    static int32_t x[N];
    int64_t sum = 0;
    for (int i = 0; i < N; i++) {
        x[i] = i % 97 - 40;
        sum += (int64_t)x[i] * x[i];
    }
    static const int locals[] = {3, 5, 180};
    for (size_t k = 0; k < COUNT(locals); k++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 2880\n%%2 = const index %d\n"
                 "%%3 = const index %d\n%%4 = param i64 (%%0) {slot=0}\n"
                 "%%5 = param i32 (%%1) {slot=1}\n%%6 = special index (%%2) {name=\"lidx0\"}\n"
                 "%%7 = range index (%%3) {axis=0, kind=reduce}\n%%8 = mul index (%%7, %%2)\n"
                 "%%9 = add index (%%8, %%6)\n%%10 = index i32 (%%5, %%9)\n%%11 = load i32 (%%10)\n"
                 "%%12 = cast i64 (%%11)\n%%13 = mul i64 (%%12, %%12)\n"
                 "%%14 = reduce i64 (%%13, %%7) {op=add}\n"
                 "%%15 = buffer i64 (%%2) {slot=0, space=local}\n%%16 = index i64 (%%15, %%6)\n"
                 "%%17 = store void (%%16, %%14)\n%%18 = barrier void (%%17)\n"
                 "%%19 = after i64 (%%15, %%18)\n%%20 = range index (%%2) {axis=1, kind=reduce}\n"
                 "%%21 = index i64 (%%19, %%20)\n%%22 = load i64 (%%21)\n"
                 "%%23 = reduce i64 (%%22, %%20) {op=add}\n%%24 = const index 0\n"
                 "%%25 = cmpeq bool (%%6, %%24)\n%%26 = index i64 (%%4, %%24)\n"
                 "%%27 = store void (%%26, %%23, %%25)\n%%28 = sink void (%%27) {name=\"group\"}\n",
                 locals[k], N / locals[k]);
        const tk_kernel_arg args[] = {{TOLK_I64, 1, NULL, &sum, NULL}, TK_KERNEL_IN(TOLK_I32, x)};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
}

static void test_RED_11_log_of_a_sum_of_exponentials_in_half(void **state) {
    (void)state;
    enum { N = 65536 };
    uint16_t *zeros = calloc(N, sizeof *zeros);
    assert_non_null(zeros);
    const uint16_t want[1] = {tk_narrow_f16_from_f64(11.09375)};
    /* in f32 up to the logarithm: 65536 is infinite in f16 */
    const tk_kernel_arg args[] = {{TOLK_F16, 1, NULL, want, NULL},
                                  {TOLK_F16, N, zeros, NULL, NULL}};
    tk_kernel_run("tolk.uop 1\n%0 = const index 1\n%1 = const index 65536\n"
                  "%2 = param f16 (%0) {slot=0}\n%3 = param f16 (%1) {slot=1}\n"
                  "%4 = range index (%1) {axis=0, kind=reduce}\n%5 = index f16 (%3, %4)\n"
                  "%6 = load f16 (%5)\n%7 = cast f32 (%6)\n%8 = exp f32 (%7)\n"
                  "%9 = reduce f32 (%8, %4) {op=add}\n%10 = log f32 (%9)\n%11 = cast f16 (%10)\n"
                  "%12 = const index 0\n%13 = index f16 (%2, %12)\n%14 = store void (%13, %11)\n"
                  "%15 = sink void (%14) {name=\"logsumexp\"}\n",
                  args, 2, NULL, 0, TOLK_OK);
    free(zeros);
}

static void test_CAST_01_negative_float_to_u8_is_zero(void **state) {
    (void)state;
    const double x[] = {1.5410, -0.2934, -2.1788, 0.5684, -1.0845, 255.9, 256, 1e10, (double)NAN};
    static const double u8[] = {1, 0, 0, 0, 0, 255, 255, 255, 0};
    static const double i8[] = {1, 0, -2, 0, -1, 127, 127, 127, 0};
    static const double u16[] = {1, 0, 0, 0, 0, 255, 256, 65535, 0};
    static const double u32[] = {1, 0, 0, 0, 0, 255, 256, 4294967295.0, 0};
    static const double i64[] = {1, 0, -2, 0, -1, 255, 256, 1e10, 0};
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        case_run("%200 = cast u8 (%100)", dtypes[d], TOLK_U8, x, NULL, u8, 9);
        case_run("%200 = cast i8 (%100)", dtypes[d], TOLK_I8, x, NULL, i8, 9);
        case_run("%200 = cast u16 (%100)", dtypes[d], TOLK_U16, x, NULL, u16, 9);
        case_run("%200 = cast u32 (%100)", dtypes[d], TOLK_U32, x, NULL, u32, 9);
        case_run("%200 = cast i64 (%100)", dtypes[d], TOLK_I64, x, NULL, i64, 9);
    }
}

static void test_CAST_03_u32_to_f16(void **state) {
    (void)state;
    const double inf = (double)INFINITY;
    const double x[] = {0, 1, 2, 65504, 65519, 65520, 100000, 4294967295.0};
    const double want[] = {0, 1, 2, 65504, 65504, inf, inf, inf};
    case_run("%200 = cast f16 (%100)", TOLK_U32, TOLK_F16, x, NULL, want, 8);
    const double f32[] = {0, 1, 2, 65504, 65519, 65520, 100000, 4294967296.0};
    case_run("%200 = cast f32 (%100)", TOLK_U32, TOLK_F32, x, NULL, f32, 8);
}

static void test_CAST_05_bf16_rounds_and_keeps_nan(void **state) {
    (void)state;
    static const uint64_t a[] = {0x3e89ccd5, 0x4048f5c3, 0x322bcc77, 0x7f7fffff, 0x7f800001,
                                 0x7fffffff, 0xffffffff, 0x3f808000, 0x3f818000};
    static const uint64_t want[] = {0x3e8a, 0x4049, 0x322c, 0x7f80, 0x7fc0,
                                    0x7fc0, 0x7fc0, 0x3f80, 0x3f82};
    assert_int_equal(a[0], tk_kernel_f32(0.2691408770292272F));
    const tk_kernel_rows rows = {TOLK_F32, TOLK_VOID, TOLK_BF16, a, NULL, want, COUNT(a), NULL};
    tk_kernel_elementwise("%200 = cast bf16 (%100)", &rows);
}

static void test_CAST_07_narrow_integers_stay_narrow(void **state) {
    (void)state;
    static const double a[] = {128}, zero[] = {0}, six[] = {6}, is_less[] = {0}, top[] = {127};
    static const double low[] = {-128}, wide[] = {65535}, one[] = {1}, neg[] = {250};
    case_run("%300 = add u8 (%100, %100)\n%200 = cast i16 (%300)", TOLK_U8, TOLK_I16, a, NULL, zero,
             1);
    case_run("%200 = neg u8 (%100)", TOLK_U8, TOLK_U8, six, NULL, neg, 1);
    case_run("%300 = neg u8 (%100)\n%301 = const u8 4\n%200 = cmplt bool (%300, %301)", TOLK_U8,
             TOLK_BOOL, six, NULL, is_less, 1);
    case_run("%300 = const i8 1\n%301 = add i8 (%100, %300)\n%200 = cast i32 (%301)", TOLK_I8,
             TOLK_I32, top, NULL, low, 1);
    case_run("%300 = mul u16 (%100, %100)\n%200 = cast u32 (%300)", TOLK_U16, TOLK_U32, wide, NULL,
             one, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_RED_01_sums_of_ones_do_not_saturate),
        cmocka_unit_test(test_RED_03_identity_does_not_take_part),
        cmocka_unit_test(test_RED_05_integers_do_not_pass_through_floats),
        cmocka_unit_test(test_RED_07_argmax_takes_the_first),
        cmocka_unit_test(test_RED_09_partial_groups_are_summed),
        cmocka_unit_test(test_RED_11_log_of_a_sum_of_exponentials_in_half),
        cmocka_unit_test(test_CAST_01_negative_float_to_u8_is_zero),
        cmocka_unit_test(test_CAST_03_u32_to_f16),
        cmocka_unit_test(test_CAST_05_bf16_rounds_and_keeps_nan),
        cmocka_unit_test(test_CAST_07_narrow_integers_stay_narrow),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
