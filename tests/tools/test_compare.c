/* SPDX-License-Identifier: MIT
 *
 * The comparison that `verify` trusts, above all with NaN (NAN-09).
 */
#include "support/tk_test.h"

#include "../../tools/tool.h"

#include <math.h>
#include <string.h>

static void test_NAN_09_nan_against_number_is_a_difference(void **state) {
    (void)state;
    float finite[4] = {1, 2, 3, 4}, nans[4] = {NAN, NAN, NAN, NAN};
    assert_int_equal(tk_compare_first(TOLK_F32, finite, nans, 4), 0);
    assert_int_equal(tk_compare_first(TOLK_F32, nans, finite, 4), 0);
    finite[0] = NAN;
    assert_int_equal(tk_compare_first(TOLK_F32, finite, nans, 4), 1);
    double d[2] = {INFINITY, 0}, e[2] = {NAN, 0};
    assert_int_equal(tk_compare_first(TOLK_F64, d, e, 2), 0);
}

static void test_compare_any_nan_equals_any_nan(void **state) {
    (void)state;
    static const struct {
        tolk_dtype dtype;
        uint64_t a, b, inf; /* two NaNs of different sign and payload, and an infinity (0: none) */
    } rows[] = {
        {TOLK_F16, 0x7e00, 0xfc01, 0x7c00},
        {TOLK_BF16, 0x7fc0, 0xff81, 0x7f80},
        {TOLK_FP8E4M3, 0x7f, 0xff, 0},
        {TOLK_FP8E5M2, 0x7d, 0xff, 0x7c},
        {TOLK_F32, 0x7fc00000, 0xff800001, 0x7f800000},
        {TOLK_F64, 0x7ff8000000000000, 0xfff0000000000001, 0x7ff0000000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(tk_compare_first(rows[i].dtype, &rows[i].a, &rows[i].b, 1), 1);
        if (rows[i].inf)
            assert_int_equal(tk_compare_first(rows[i].dtype, &rows[i].a, &rows[i].inf, 1), 0);
    }
    /* 448, the largest e4m3, is no NaN */
    uint8_t largest = 0x7e, nan = 0x7f;
    assert_int_equal(tk_compare_first(TOLK_FP8E4M3, &largest, &nan, 1), 0);
    /* integers with the bits of a NaN are integers */
    uint32_t x = 0x7fc00000, y = 0x7fc00001;
    assert_int_equal(tk_compare_first(TOLK_U32, &x, &y, 1), 0);
    assert_int_equal(tk_compare_first(TOLK_I32, &x, &y, 1), 0);
}

static void test_compare_zeros_of_two_signs_differ(void **state) {
    (void)state;
    float a[3] = {1, 0.0f, 2}, b[3] = {1, -0.0f, 2};
    assert_int_equal(tk_compare_first(TOLK_F32, a, b, 3), 1);
    assert_int_equal(tk_compare_first(TOLK_F32, a, a, 3), 3);
}

static void test_compare_bool_by_truth(void **state) {
    (void)state;
    uint8_t a[3] = {1, 0, 255}, b[3] = {2, 0, 1}, c[3] = {1, 0, 0};
    assert_int_equal(tk_compare_first(TOLK_BOOL, a, b, 3), 3);
    assert_int_equal(tk_compare_first(TOLK_BOOL, a, c, 3), 2);
    assert_int_equal(tk_compare_first(TOLK_BOOL, a, c, 0), 0);
}

static void test_compare_last_element_of_each_width_is_seen(void **state) {
    (void)state;
    static const tolk_dtype dtypes[] = {TOLK_I8, TOLK_U16, TOLK_I32, TOLK_U64};
    for (size_t i = 0; i < 4; i++) {
        unsigned char a[80] = {0}, b[80] = {0};
        size_t n = 10;
        b[n * tolk_dtype_bytes(dtypes[i]) - 1] = 1;
        assert_int_equal(tk_compare_first(dtypes[i], a, b, n), n - 1);
    }
}

static void test_random_sequence_is_fixed_by_its_seed(void **state) {
    (void)state;
    uint64_t s = 1, t = 1, u = 2;
    uint64_t first = tk_binding_random(&s);
    assert_true(first == tk_binding_random(&t));
    assert_true(first != tk_binding_random(&u));
    assert_true(first != tk_binding_random(&s));
}

static void test_number_is_tells_numbers_from_files(void **state) {
    (void)state;
    static const char *const yes[] = {"1",    "-2.5", "+3",   "1e9",   "0x1.8p+1", "inf",
                                      "-inf", "nan",  "true", "false", "0xff",     ".5"};
    static const char *const no[] = {"a.npy", "1.npy", "",  " 1",      "1 ",
                                     "./1",   "1e9x",  "-", "true.npy"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(tk_number_is(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(tk_number_is(no[i]));
}

static void test_json_find_reads_nested_objects(void **state) {
    (void)state;
    static const char text[] = "{\"a\": {\"llvm\": \"no\"}, \"list\": [1, 2, {\"x\": 3}], "
                               "\"llvm\": \"19.1\\\"7\", \"n\": 4, \"problems\": []}";
    char out[32];
    assert_true(tk_json_find(text, sizeof text - 1, "llvm", out, sizeof out));
    assert_string_equal(out, "19.1\"7");
    assert_true(tk_json_find(text, sizeof text - 1, "n", out, sizeof out));
    assert_string_equal(out, "4");
    assert_false(tk_json_find(text, sizeof text - 1, "x", out, sizeof out));
    /* any cut of it is no harm */
    for (size_t n = 0; n < sizeof text; n++)
        tk_json_find(text, n, "nothing", out, sizeof out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_NAN_09_nan_against_number_is_a_difference),
        cmocka_unit_test(test_compare_any_nan_equals_any_nan),
        cmocka_unit_test(test_compare_zeros_of_two_signs_differ),
        cmocka_unit_test(test_compare_bool_by_truth),
        cmocka_unit_test(test_compare_last_element_of_each_width_is_seen),
        cmocka_unit_test(test_random_sequence_is_fixed_by_its_seed),
        cmocka_unit_test(test_number_is_tells_numbers_from_files),
        cmocka_unit_test(test_json_find_reads_nested_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
