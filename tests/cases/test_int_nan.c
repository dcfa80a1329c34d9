/* SPDX-License-Identifier: MIT
 *
 * Integer division, remainder and shifts; NaN, infinity and the sign of zero.
 */
#include "cases/case.h"
#include "support/tk_edge.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

static void test_INT_01_min_by_minus_one_does_not_trap(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_I8, TOLK_I16, TOLK_I32, TOLK_I64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        const double least = (double)tk_dtype_min(dt);
        const double a[] = {least, 7}, b[] = {-1, -1}, q[] = {least, -7}, r[] = {0, 0};
        case_run_as("%200 = cdiv %s (%100, %101)", dt, dt, a, b, q, 2);
        case_run_as("%200 = cmod %s (%100, %101)", dt, dt, a, b, r, 2);
        case_run_as("%200 = floordiv %s (%100, %101)", dt, dt, a, b, q, 2);
        case_run_as("%200 = floormod %s (%100, %101)", dt, dt, a, b, r, 2);
    }
}

static void test_INT_03_guarded_division_by_zero(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_I8, TOLK_I32, TOLK_I64, TOLK_U16, TOLK_U32};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        const double other = tk_dtype_is_signed(dt) ? -1 : 255;
        const double a[] = {12, 5, 0, 100}, b[] = {3, 0, 0, 7};
        const double guarded[] = {4, other, other, 14}, q[] = {4, 0, 0, 14}, r[] = {0, 5, 0, 2};
        char body[256];
        snprintf(body, sizeof body,
                 "%%300 = const %%s 0\n%%301 = cmpne bool (%%101, %%300)\n"
                 "%%302 = cdiv %%s (%%100, %%101)\n%%303 = const %%s %g\n"
                 "%%200 = where %%s (%%301, %%302, %%303)",
                 other);
        case_run_as(body, dt, dt, a, b, guarded, 4);
        case_run_as("%200 = cdiv %s (%100, %101)", dt, dt, a, b, q, 4);
        case_run_as("%200 = cmod %s (%100, %101)", dt, dt, a, b, r, 4);
        case_run_as("%200 = floordiv %s (%100, %101)", dt, dt, a, b, q, 4);
        case_run_as("%200 = floormod %s (%100, %101)", dt, dt, a, b, r, 4);
        /* a / (max(b, 1) 2), and the forms that a simplifier would take for 1 */
        const double halves[] = {2, 2, 0, 7}, n[] = {0, 5, 0, 0}, zero[] = {0, 0, 0, 0};
        case_run_as("%300 = const %s 1\n%301 = max %s (%101, %300)\n%302 = const %s 2\n"
                    "%303 = mul %s (%301, %302)\n%200 = cdiv %s (%100, %303)",
                    dt, dt, a, b, halves, 4);
        case_run_as("%300 = const %s 0\n%301 = cdiv %s (%100, %300)\n"
                    "%200 = cdiv %s (%301, %301)",
                    dt, dt, n, NULL, zero, 4);
        case_run_as("%300 = const %s 0\n%301 = cmod %s (%300, %300)\n%200 = add %s (%301, %100)",
                    dt, dt, n, NULL, n, 4);
    }
}

static void test_INT_05_shift_counts_past_the_width(void **state) {
    (void)state;
    static const double a64[] = {1000, -1000, 1}, c64[] = {64, 64, 63};
    static const double right64[] = {0, -1, 0}, left64[] = {0, 0, -9223372036854775808.0};
    case_run("%200 = shr i64 (%100, %101)", TOLK_I64, TOLK_I64, a64, c64, right64, 3);
    case_run("%200 = shl i64 (%100, %101)", TOLK_I64, TOLK_I64, a64, c64, left64, 3);
    static const double a32[] = {1, 1, -8, -8, 5}, c32[] = {32, -1, 33, 1, 0};
    static const double right32[] = {0, 0, -1, -4, 5}, left32[] = {0, 0, 0, -16, 5};
    case_run("%200 = shr i32 (%100, %101)", TOLK_I32, TOLK_I32, a32, c32, right32, 5);
    case_run("%200 = shl i32 (%100, %101)", TOLK_I32, TOLK_I32, a32, c32, left32, 5);
    static const double au[] = {0x80000000, 0x80000000, 1}, cu[] = {32, 31, 4294967295.0};
    static const double rightu[] = {0, 1, 0}, leftu[] = {0, 0, 0};
    case_run("%200 = shr u32 (%100, %101)", TOLK_U32, TOLK_U32, au, cu, rightu, 3);
    case_run("%200 = shl u32 (%100, %101)", TOLK_U32, TOLK_U32, au, cu, leftu, 3);
    static const double a8[] = {1, 1, -128, -1}, c8[] = {8, 7, 9, 3};
    static const double right8[] = {0, 0, -1, -1}, left8[] = {0, -128, 0, -8};
    case_run("%200 = shr i8 (%100, %101)", TOLK_I8, TOLK_I8, a8, c8, right8, 4);
    case_run("%200 = shl i8 (%100, %101)", TOLK_I8, TOLK_I8, a8, c8, left8, 4);
}

static void test_INT_07_division_by_powers_of_two_truncates(void **state) {
    (void)state;
    static const double a[] = {-7, -1, -8, 7};
    static const double by2[] = {-3, 0, -4, 3}, by4[] = {-1, 0, -2, 1}, by8[] = {0, 0, -1, 0};
    static const double mod2[] = {-1, -1, 0, 1}, mod8[] = {-7, -1, 0, 7};
    static const double floor2[] = {-4, -1, -4, 3}, floormod2[] = {1, 1, 0, 1};
    static const tolk_dtype dtypes[] = {TOLK_I8, TOLK_I16, TOLK_I32, TOLK_I64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        case_run_as("%300 = const %s 2\n%200 = cdiv %s (%100, %300)", dt, dt, a, NULL, by2, 4);
        case_run_as("%300 = const %s 4\n%200 = cdiv %s (%100, %300)", dt, dt, a, NULL, by4, 4);
        case_run_as("%300 = const %s 8\n%200 = cdiv %s (%100, %300)", dt, dt, a, NULL, by8, 4);
        case_run_as("%300 = const %s 2\n%200 = cmod %s (%100, %300)", dt, dt, a, NULL, mod2, 4);
        case_run_as("%300 = const %s 8\n%200 = cmod %s (%100, %300)", dt, dt, a, NULL, mod8, 4);
        case_run_as("%300 = const %s 2\n%200 = floordiv %s (%100, %300)", dt, dt, a, NULL, floor2,
                    4);
        case_run_as("%300 = const %s 2\n%200 = floormod %s (%100, %300)", dt, dt, a, NULL,
                    floormod2, 4);
    }
    static const double u[] = {4294967289.0, 7, 0x80000000}, u2[] = {2147483644, 3, 0x40000000};
    static const double u8[] = {1, 7, 0};
    case_run("%300 = const u32 2\n%200 = cdiv u32 (%100, %300)", TOLK_U32, TOLK_U32, u, NULL, u2,
             3);
    case_run("%300 = const u32 8\n%200 = cmod u32 (%100, %300)", TOLK_U32, TOLK_U32, u, NULL, u8,
             3);
}

static void test_INT_09_division_is_not_by_a_reciprocal(void **state) {
    (void)state;
    enum { N = 200 * 100 };
    static uint64_t a[N], b[N], q[N], zero[N];
    for (uint64_t i = 0; i < N; i++) {
        b[i] = i / 100 + 1;
        q[i] = i % 100 + 1;
        a[i] = b[i] * q[i];
    }
    static const struct {
        const char *body;
        const uint64_t *want;
    } t[] = {{"%200 = cdiv i32 (%100, %101)", q},
             {"%200 = floordiv i32 (%100, %101)", q},
             {"%200 = cmod i32 (%100, %101)", zero},
             {"%200 = floormod i32 (%100, %101)", zero}};
    for (size_t i = 0; i < COUNT(t); i++) {
        const tk_kernel_rows rows = {TOLK_I32, TOLK_I32, TOLK_I32, a, b, t[i].want, N, NULL};
        tk_kernel_elementwise(t[i].body, &rows);
    }
    static const double x[] = {41, 110, 7}, y[] = {41, 55, 2}, want[] = {1, 2, 3};
    case_run("%300 = fdiv f32 (%100, %101)\n%200 = trunc f32 (%300)", TOLK_F32, TOLK_F32, x, y,
             want, 3);
}

/* ---- INT-11 ---- */

static int64_t down(int64_t n, int64_t d) {
    return d == 0 ? 0 : n / d - (n % d != 0 && (n < 0) != (d < 0));
}

static int64_t divided(int op, int64_t n, int64_t d) {
    const int64_t q = d ? n / d : 0;
    return op == 0 ? q : op == 1 ? n - q * d : op == 2 ? down(n, d) : n - down(n, d) * d;
}

static void test_INT_11_nested_divisions_of_negatives_keep_their_rounding(void **state) {
    (void)state;
    double x[CASE_ROWS], toward_zero[CASE_ROWS], floored[CASE_ROWS];
    for (int i = 0; i < CASE_ROWS; i++) {
        x[i] = i - 11;
        toward_zero[i] = ((i - 11 - 10) / 2 + 10) / 2;
        floored[i] = (double)down(down(i - 11 - 10, 2) + 10, 2);
    }
    assert_true(toward_zero[11] == 2 && toward_zero[12] == 3); /* x = 0 and 1 */
    assert_true(floored[11] == 2 && floored[12] == 2);
    static const tolk_dtype dtypes[] = {TOLK_I8, TOLK_I32, TOLK_I64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        case_run_as("%300 = const %s -10\n%301 = add %s (%100, %300)\n%302 = const %s 2\n"
                    "%303 = cdiv %s (%301, %302)\n%304 = sub %s (%303, %300)\n"
                    "%200 = cdiv %s (%304, %302)",
                    dtypes[d], dtypes[d], x, NULL, toward_zero, CASE_ROWS);
        case_run_as("%300 = const %s -10\n%301 = add %s (%100, %300)\n%302 = const %s 2\n"
                    "%303 = floordiv %s (%301, %302)\n%304 = sub %s (%303, %300)\n"
                    "%200 = floordiv %s (%304, %302)",
                    dtypes[d], dtypes[d], x, NULL, floored, CASE_ROWS);
    }
}

/* (a x + b y) op c, x and y from the loop and around 0: what index arithmetic is made of. One
 * kernel for each op and c, a result for each a and b. */
static void test_INT_11_linear_index_expressions_keep_their_rounding(void **state) {
    (void)state;
    static const char *const ops[] = {"cdiv", "cmod", "floordiv", "floormod"};
    static const int64_t factors[] = {-8, -7, -3, -1, 1, 2, 4, 6};
    enum { FACTORS = COUNT(factors), ROWS = 7 * 9 };
    static uint64_t want[FACTORS * FACTORS * ROWS];
    for (int op = 0; op < 4; op++)
        for (int64_t c = -8; c <= 8; c++) {
            if (tk_test_share() < 100 && (c + op) % 3)
                continue; /* the whole of it with the whole of the random suites */
            char body[32768];
            size_t n =
                (size_t)snprintf(body, sizeof body,
                                 "%%300 = const index 7\n%%301 = floormod index (%%2, %%300)\n"
                                 "%%302 = floordiv index (%%2, %%300)\n%%303 = const index -3\n"
                                 "%%304 = add index (%%301, %%303)\n%%305 = const index -4\n"
                                 "%%306 = add index (%%302, %%305)\n%%307 = const index %lld\n",
                                 (long long)c);
            for (size_t a = 0; a < FACTORS; a++)
                for (size_t b = 0; b < FACTORS; b++) {
                    const size_t r = a * FACTORS + b, at = 1000 + 10 * r;
                    n += (size_t)snprintf(
                        body + n, sizeof body - n,
                        "%%%zu = const index %lld\n%%%zu = mul index (%%304, %%%zu)\n"
                        "%%%zu = const index %lld\n%%%zu = mul index (%%306, %%%zu)\n"
                        "%%%zu = add index (%%%zu, %%%zu)\n%%%zu = %s index (%%%zu, %%307)\n"
                        "%%%zu = cast i64 (%%%zu)\n",
                        at, (long long)factors[a], at + 1, at, at + 2, (long long)factors[b],
                        at + 3, at + 2, at + 4, at + 1, at + 3, at + 5, ops[op], at + 4, 200 + r,
                        at + 5);
                    for (int64_t i = 0; i < ROWS; i++)
                        want[r * ROWS + (size_t)i] = (uint64_t)divided(
                            op, factors[a] * (i % 7 - 3) + factors[b] * (i / 7 - 4), c);
                }
            assert_true(n < sizeof body);
            const tk_edge e = {.name = ops[op],
                               .body = body,
                               .out = TOLK_I64,
                               .rows = ROWS,
                               .results = (size_t)FACTORS * FACTORS,
                               .want = want};
            tk_edge_run_ways(&e, TK_EDGE_ONE_TARGET | (c % 2 ? TK_EDGE_NONE : TK_EDGE_LANES));
        }
}

static void test_INT_13_shifts_are_not_multiplied_out(void **state) {
    (void)state;
    static const double a[] = {-5, 5, -2147483648.0}, sign[] = {-1, 0, -1};
    case_run("%300 = const i32 31\n%200 = shr i32 (%100, %300)", TOLK_I32, TOLK_I32, a, NULL, sign,
             3);
    static const double one[] = {1}, i32[] = {-2147483648.0}, u32[] = {2147483648.0};
    static const double i64[] = {-9223372036854775808.0};
    case_run("%300 = const i32 31\n%200 = shl i32 (%100, %300)", TOLK_I32, TOLK_I32, one, NULL, i32,
             1);
    case_run("%300 = const u32 31\n%200 = shl u32 (%100, %300)", TOLK_U32, TOLK_U32, one, NULL, u32,
             1);
    case_run("%300 = const i64 63\n%200 = shl i64 (%100, %300)", TOLK_I64, TOLK_I64, one, NULL, i64,
             1);
}

static void test_NAN_01_nan_is_no_number_and_exp_overflows(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    const double a[] = {nan, 1, inf, -inf}, b[] = {inf, 1, inf, nan};
    const double ne[] = {1, 0, 0, 0}, eq[] = {0, 1, 1, 0}, is_inf[] = {0, 0, 1, 1};
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_BF16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        case_run_as("%200 = cmpne bool (%100, %100)", dt, TOLK_BOOL, a, NULL, ne, 4);
        case_run_as("%200 = cmpeq bool (%100, %101)", dt, TOLK_BOOL, a, b, eq, 4);
        case_run_as("%300 = const %s inf\n%301 = cmpeq bool (%100, %300)\n%302 = neg %s (%300)\n"
                    "%303 = cmpeq bool (%100, %302)\n%200 = or bool (%301, %303)",
                    dt, TOLK_BOOL, a, NULL, is_inf, 4);
    }
    const double big[] = {100, -200}, result[] = {inf, 0};
    case_run("%200 = exp f32 (%100)", TOLK_F32, TOLK_F32, big, NULL, result, 2);
}

static void test_NAN_03_masks_are_zero_and_one(void **state) {
    (void)state;
    const double nan = (double)NAN, x[] = {-1, 0, 2, nan}, want[] = {-0.0, 0, 2, nan};
    case_run_as("%300 = const %s 0\n%301 = cmplt bool (%100, %300)\n%302 = const bool true\n"
                "%303 = xor bool (%301, %302)\n%304 = cast %s (%303)\n%200 = mul %s (%100, %304)",
                TOLK_F32, TOLK_F32, x, NULL, want, 4);
    case_run_as("%300 = const %s 0\n%301 = cmplt bool (%100, %300)\n%302 = const bool true\n"
                "%303 = xor bool (%301, %302)\n%304 = cast %s (%303)\n%200 = mul %s (%100, %304)",
                TOLK_F64, TOLK_F64, x, NULL, want, 4);
    static const double a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1}, sum[] = {0, 1, 1, 1};
    static const double product[] = {0, 0, 0, 1}, times[] = {0, 0, 0, 7};
    case_run("%200 = add bool (%100, %101)", TOLK_BOOL, TOLK_BOOL, a, b, sum, 4);
    case_run("%200 = mul bool (%100, %101)", TOLK_BOOL, TOLK_BOOL, a, b, product, 4);
    case_run("%300 = mul bool (%100, %101)\n%301 = cast i32 (%300)\n%302 = const i32 7\n"
             "%200 = mul i32 (%301, %302)",
             TOLK_BOOL, TOLK_I32, a, b, times, 4);
}

static void test_NAN_05_no_identity_that_fails_for_nan(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    const double x[] = {inf, nan, -5, -0.0};
    const double by_zero[] = {nan, nan, -0.0, -0.0}, minus[] = {nan, nan, 0, 0};
    const double by_self[] = {nan, nan, 1, nan}, eq[] = {1, 0, 1, 1}, lt[] = {0, 0, 0, 0};
    const double zero_by[] = {0, nan, -0.0, nan}, plus_zero[] = {inf, nan, -5, 0};
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_F16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        case_run_as("%300 = const %s 0\n%200 = mul %s (%100, %300)", dt, dt, x, NULL, by_zero, 4);
        case_run_as("%200 = sub %s (%100, %100)", dt, dt, x, NULL, minus, 4);
        case_run_as("%200 = fdiv %s (%100, %100)", dt, dt, x, NULL, by_self, 4);
        case_run_as("%200 = cmpeq bool (%100, %100)", dt, TOLK_BOOL, x, NULL, eq, 4);
        case_run_as("%200 = cmplt bool (%100, %100)", dt, TOLK_BOOL, x, NULL, lt, 4);
        case_run_as("%300 = const %s 0\n%200 = fdiv %s (%300, %100)", dt, dt, x, NULL, zero_by, 4);
        case_run_as("%300 = const %s 0\n%200 = add %s (%100, %300)", dt, dt, x, NULL, plus_zero, 4);
    }
    static const double i[] = {5, -3, 0}, none[] = {0, 0, 0};
    case_run("%300 = const i32 0\n%200 = mul i32 (%100, %300)", TOLK_I32, TOLK_I32, i, NULL, none,
             3);
    case_run("%200 = sub i32 (%100, %100)", TOLK_I32, TOLK_I32, i, NULL, none, 3);
}

static void test_NAN_07_signs_of_zero(void **state) {
    (void)state;
    const double nan = (double)NAN;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_F16};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        const double one[] = {-1}, root[] = {nan}, zero[] = {0}, minus[] = {-0.0}, half[] = {-0.5};
        case_run_as("%200 = sqrt %s (%100)", dt, dt, one, NULL, root, 1);
        case_run_as("%200 = neg %s (%100)", dt, dt, zero, NULL, minus, 1);
        case_run_as("%300 = const %s -1\n%200 = mul %s (%100, %300)", dt, dt, zero, NULL, minus, 1);
        case_run_as("%200 = trunc %s (%100)", dt, dt, half, NULL, minus, 1);
        case_run_as("%200 = cast f16 (%100)", dt, TOLK_F16, minus, NULL, minus, 1);
        case_run_as("%200 = cast f64 (%100)", dt, TOLK_F64, minus, NULL, minus, 1);
        /* fmod(-6, 3) = -6 - 3 trunc(-6 / 3), with the sign of -6 by copying it */
        const double a[] = {-6, 6, -7}, b[] = {3, 3, 2}, rest[] = {0, 0, -1};
        case_run_as("%300 = fdiv %s (%100, %101)\n%301 = trunc %s (%300)\n"
                    "%302 = mul %s (%301, %101)\n%200 = sub %s (%100, %302)",
                    dt, dt, a, b, rest, 3);
    }
}

/* NAN-09: what every comparison of results here rests on. A NaN is no match for a number, whichever
 * of the two is expected; abs(a - b) > tolerance would be false for it. */
static void test_NAN_09_nan_is_no_match_for_a_number(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64, TOLK_F16, TOLK_BF16, TOLK_FP8E5M2};
    static const double numbers[] = {0, -0.0, 1, -2.5, (double)INFINITY, -(double)INFINITY};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const uint64_t nan = tk_kernel_float(dtypes[d], (double)NAN);
        assert_true(tk_scalar_same(dtypes[d], nan, nan));
        for (size_t i = 0; i < COUNT(numbers); i++) {
            const uint64_t x = tk_kernel_float(dtypes[d], numbers[i]);
            assert_false(tk_scalar_same(dtypes[d], nan, x));
            assert_false(tk_scalar_same(dtypes[d], x, nan));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_INT_01_min_by_minus_one_does_not_trap),
        cmocka_unit_test(test_INT_03_guarded_division_by_zero),
        cmocka_unit_test(test_INT_05_shift_counts_past_the_width),
        cmocka_unit_test(test_INT_07_division_by_powers_of_two_truncates),
        cmocka_unit_test(test_INT_09_division_is_not_by_a_reciprocal),
        cmocka_unit_test(test_INT_11_nested_divisions_of_negatives_keep_their_rounding),
        cmocka_unit_test(test_INT_11_linear_index_expressions_keep_their_rounding),
        cmocka_unit_test(test_INT_13_shifts_are_not_multiplied_out),
        cmocka_unit_test(test_NAN_01_nan_is_no_number_and_exp_overflows),
        cmocka_unit_test(test_NAN_03_masks_are_zero_and_one),
        cmocka_unit_test(test_NAN_05_no_identity_that_fails_for_nan),
        cmocka_unit_test(test_NAN_07_signs_of_zero),
        cmocka_unit_test(test_NAN_09_nan_is_no_match_for_a_number),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, tk_edge_setup, tk_edge_teardown);
    tk_kernel_close_compilers();
    return failed;
}
