/* SPDX-License-Identifier: MIT
 *
 * Sizes that the scalars of a launch make: products that do not fit, and dimensions that are
 * negative. The interpreter and compiled code refuse the same, before anything runs.
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

/* y[i, j] = 1, y of n x m */
static const char plane[] =
    "tolk.uop 1\n%0 = param i64 {slot=1, name=\"n\", space=alu}\n"
    "%1 = param i64 {slot=2, name=\"m\", space=alu}\n%2 = cast index (%0)\n%3 = cast index (%1)\n"
    "%4 = stack index (%2, %3)\n%5 = param i32 (%4) {slot=0}\n"
    "%6 = range index (%2) {axis=0, kind=global}\n%7 = range index (%3) {axis=1}\n"
    "%8 = index i32 (%5, %6, %7)\n%9 = const i32 1\n%10 = store void (%8, %9)\n"
    "%11 = end void (%10, %6, %7)\n%12 = sink void (%11) {name=\"plane\"}\n";

static void run(const char *text, int64_t n, int64_t m, tolk_status status) {
    static const int32_t before[8], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t vals[] = {n, m};
    const tk_kernel_arg y[] = {{TOLK_I32, 8, before, status == TOLK_OK ? ones : before, NULL}};
    tk_kernel_run(text, y, 1, vals, 2, status);
}

static void test_a_product_that_does_not_fit_is_refused(void **state) {
    (void)state;
    run(plane, 2, 4, TOLK_OK);
    run(plane, 8, 1, TOLK_OK);
    /* 2^64 + 8 elements are not 8 */
    run(plane, 3, 0x5555555555555558, TOLK_E_LIMIT);
    run(plane, 0x5555555555555558, 3, TOLK_E_LIMIT);
    run(plane, INT64_C(1) << 32, INT64_C(1) << 32, TOLK_E_LIMIT);
    run(plane, INT64_MAX, 2, TOLK_E_LIMIT);
}

static void test_a_negative_dimension_is_refused(void **state) {
    (void)state;
    run(plane, -2, 4, TOLK_E_LAUNCH);
    run(plane, 2, -4, TOLK_E_LAUNCH);
    run(plane, -2, -4, TOLK_E_LAUNCH); /* the product is 8 */
    run(plane, INT64_MIN, -1, TOLK_E_LAUNCH);
}

/* An array of no elements is one, whatever its other dimensions are: y of n x m x n x m. */
static void test_no_elements_are_fine(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i64 {slot=1, name=\"n\", space=alu}\n"
        "%1 = param i64 {slot=2, name=\"m\", space=alu}\n%2 = cast index (%0)\n"
        "%3 = cast index (%1)\n%4 = stack index (%2, %3, %2, %3)\n%5 = param i32 (%4) {slot=0}\n"
        "%6 = range index (%2) {axis=0, kind=global}\n%7 = const index 0\n"
        "%8 = range index (%3) {axis=1}\n%9 = index i32 (%5, %6, %8, %7, %7)\n"
        "%10 = const i32 1\n%11 = store void (%9, %10)\n%12 = end void (%11, %6, %8)\n"
        "%13 = sink void (%12) {name=\"cube\"}\n";
    static const int64_t vals[][2] = {{0, INT64_C(1) << 40}, {0, 0}};
    static const int32_t before[8];
    const tk_kernel_arg y[] = {{TOLK_I32, 8, before, before, NULL}};
    for (size_t i = 0; i < 2; i++)
        tk_kernel_run(text, y, 1, vals[i], 2, TOLK_OK);
}

/* y[i] = 1 over n, y of n + m elements */
static const char sum[] =
    "tolk.uop 1\n%0 = param i64 {slot=1, name=\"n\", space=alu}\n"
    "%1 = param i64 {slot=2, name=\"m\", space=alu}\n%2 = cast index (%0)\n%3 = cast index (%1)\n"
    "%4 = add index (%2, %3)\n%5 = param i32 (%4) {slot=0}\n"
    "%6 = range index (%2) {axis=0, kind=global}\n%8 = index i32 (%5, %6)\n%9 = const i32 1\n"
    "%10 = store void (%8, %9)\n%11 = end void (%10, %6)\n%12 = sink void (%11) {name=\"sum\"}\n";

static void test_a_sum_that_does_not_fit_is_refused(void **state) {
    (void)state;
    run(sum, 8, 0, TOLK_OK);
    run(sum, INT64_MAX, 1, TOLK_E_LIMIT);
    run(sum, INT64_MIN, INT64_MIN, TOLK_E_LIMIT); /* 0, if it wrapped */
    run(sum, 4, -8, TOLK_E_LAUNCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_product_that_does_not_fit_is_refused),
        cmocka_unit_test(test_a_negative_dimension_is_refused),
        cmocka_unit_test(test_no_elements_are_fine),
        cmocka_unit_test(test_a_sum_that_does_not_fit_is_refused),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
