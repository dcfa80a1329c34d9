/* SPDX-License-Identifier: MIT
 *
 * Steps: how far a place moves when one range advances by one.
 */
#include "support/tk_stage.h"

#include "jit/affine.h"

#include <stdio.h>

/* y[k] = x[%20] over i < 6 and k < 40, x being %3 of 7 x 11 x 13 elements and ids %5 */
#define KERNEL(index)                                                                              \
    "tolk.uop 1\n%0 = const index 6\n%1 = const index 40\n%2 = param i32 (%1) {slot=0}\n"          \
    "%5 = param i32 (%1) {slot=2}\n%6 = param i32 {slot=3, name=\"n\", space=alu, min=0, max=9}\n" \
    "%7 = cast index (%6)\n%10 = range index (%0) {axis=0, kind=global}\n"                         \
    "%11 = range index (%1) {axis=1, kind=global}\n%12 = const index 7\n%13 = const index 11\n"    \
    "%14 = const index 13\n%15 = stack index (%12, %13, %14)\n%3 = param i32 (%15) {slot=1}\n"     \
    "%16 = index i32 (%5, %11)\n%17 = load i32 (%16)\n%18 = cast index (%17)\n" index              \
    "%21 = load i32 (%20)\n%22 = index i32 (%2, %11)\n"                                            \
    "%90 = add index (%10, %7)\n%91 = add index (%90, %18)\n%92 = cast i32 (%91)\n"                \
    "%93 = add i32 (%21, %92)\n%94 = add index (%12, %13)\n%95 = add index (%94, %14)\n"           \
    "%96 = cast i32 (%95)\n%97 = add i32 (%93, %96)\n%23 = store void (%22, %97)\n"                \
    "%24 = end void (%23, %10, %11)\n%25 = sink void (%24) {name=\"steps\"}\n"

/* The step of the place in x along i (axis 0) and k (axis 1). */
static void expect(const char *text, tk_step i, tk_step k) {
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    assert_true(tk_kview_init(&v, s.given));
    tk_step *steps = tk_alloc(v.al, v.n_ids * sizeof *steps);
    assert_non_null(steps);
    for (size_t r = 0; r < v.ranges.n; r++) {
        const tolk_uop *range = v.ranges.at[r];
        tk_step want = tk_uop_int(range, TK_A_RANGE_AXIS) ? k : i;
        tk_affine_steps(&v, range, steps);
        for (size_t n = 0; n < v.order.n; n++) {
            const tolk_uop *u = v.order.at[n];
            if (!tk_uop_is(u, TK_OP_INDEX) || tk_uop_int(tk_access_buffer(u), TK_A_PARAM_SLOT) != 1)
                continue;
            tk_step have = tk_affine_place(steps, u);
            if (have.kind != want.kind || have.elems != want.elems)
                fail_msg("axis %d: kind %d, %lld elements, expected kind %d, %lld\n%s",
                         (int)tk_uop_int(range, TK_A_RANGE_AXIS), have.kind, (long long)have.elems,
                         want.kind, (long long)want.elems, text);
        }
    }
    tk_alloc_free(v.al, steps, v.n_ids * sizeof *steps);
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

#define NONE ((tk_step){TK_STEP_NONE, 0})
#define BY(n) ((tk_step){TK_STEP_CONST, (n)})
#define UNKNOWN ((tk_step){TK_STEP_UNKNOWN, 0})
#define ZERO "%30 = const index 0\n"

static void test_each_dimension_counts_its_stride(void **state) {
    (void)state;
    expect(KERNEL(ZERO "%20 = index i32 (%3, %30, %30, %10)\n"), BY(1), NONE);
    expect(KERNEL(ZERO "%20 = index i32 (%3, %30, %10, %30)\n"), BY(13), NONE);
    expect(KERNEL(ZERO "%20 = index i32 (%3, %10, %30, %30)\n"), BY(143), NONE);
    expect(KERNEL(ZERO "%20 = index i32 (%3, %10, %11, %30)\n"), BY(143), BY(13));
    expect(KERNEL("%20 = index i32 (%3, %10, %10, %10)\n"), BY(157), NONE);
    expect(KERNEL(ZERO "%20 = index i32 (%3, %30, %30, %30)\n"), NONE, NONE);
    /* forward in one dimension and back in another: it stays */
    expect(KERNEL("%30 = const index -13\n%31 = mul index (%10, %30)\n%32 = const index 0\n"
                  "%20 = index i32 (%3, %32, %10, %31)\n"),
           BY(0), NONE);
}

#define X(index) KERNEL(ZERO index "%20 = index i32 (%3, %30, %30, %31)\n")

static void test_sums_and_products_with_constants_are_followed(void **state) {
    (void)state;
    expect(X("%31 = add index (%10, %11)\n"), BY(1), BY(1));
    expect(X("%31 = sub index (%10, %11)\n"), BY(1), BY(-1));
    expect(X("%31 = neg index (%11)\n"), NONE, BY(-1));
    expect(X("%32 = const index 5\n%31 = mul index (%11, %32)\n"), NONE, BY(5));
    expect(X("%32 = const index 5\n%31 = mul index (%32, %11)\n"), NONE, BY(5));
    expect(X("%32 = const index -5\n%33 = mul index (%32, %11)\n%31 = add index (%33, %10)\n"),
           BY(1), BY(-5));
    expect(X("%31 = sub index (%11, %11)\n"), NONE, BY(0));
    expect(X("%32 = add index (%11, %11)\n%31 = add index (%32, %7)\n"), NONE, BY(2));
    expect(X("%32 = cast i32 (%11)\n%33 = add i32 (%32, %6)\n%31 = cast index (%33)\n"), NONE,
           BY(1));
    /* a gated index moves as its valid arm */
    expect(X("%32 = cmplt bool (%11, %10)\n%33 = const index invalid\n"
             "%34 = add index (%11, %11)\n%31 = where index (%32, %34, %33)\n"),
           NONE, BY(2));
}

static void test_other_expressions_are_unknown_along_their_ranges(void **state) {
    (void)state;
    expect(X("%31 = mul index (%10, %11)\n"), UNKNOWN, UNKNOWN);
    expect(X("%31 = mul index (%11, %7)\n"), NONE, UNKNOWN);
    expect(X("%31 = floordiv index (%11, %12)\n"), NONE, UNKNOWN);
    expect(X("%31 = floormod index (%10, %12)\n"), UNKNOWN, NONE);
    expect(X("%31 = max index (%10, %30)\n"), UNKNOWN, NONE);
    expect(X("%31 = and index (%11, %12)\n"), NONE, UNKNOWN);
    /* loaded data move with their own place */
    expect(X("%31 = add index (%18, %30)\n"), NONE, UNKNOWN);
    expect(X("%31 = add index (%18, %10)\n"), BY(1), UNKNOWN);
    /* an unknown one stays so in any sum, also with itself taken off */
    expect(X("%32 = mul index (%10, %11)\n%31 = sub index (%32, %32)\n"), UNKNOWN, UNKNOWN);
}

/* Strides that are no small constant are known only as long as nothing outside of them moves. */
static void test_strides_that_are_arguments(void **state) {
    (void)state;
#define SYMBOLIC(a, b)                                                                             \
    "tolk.uop 1\n%0 = const index 6\n%1 = const index 5\n"                                         \
    "%2 = param i32 {slot=2, name=\"n\", space=alu, min=5, max=9}\n%3 = cast index (%2)\n"         \
    "%4 = stack index (%0, %3)\n%5 = param i32 (%4) {slot=1}\n%6 = stack index (%0, %1)\n"         \
    "%7 = param i32 (%6) {slot=0}\n%8 = range index (%0) {axis=0, kind=global}\n"                  \
    "%9 = range index (%1) {axis=1, kind=global}\n%10 = index i32 (%5, " a ", " b ")\n"            \
    "%11 = load i32 (%10)\n%12 = index i32 (%7, %8, %9)\n%13 = store void (%12, %11)\n"            \
    "%14 = end void (%13, %8, %9)\n%15 = sink void (%14) {name=\"symbolic\"}\n"
    expect(SYMBOLIC("%8", "%9"), UNKNOWN, BY(1));
    expect(SYMBOLIC("%9", "%8"), BY(1), UNKNOWN);
    expect(SYMBOLIC("%8", "%8"), UNKNOWN, NONE);
}

static void test_steps_that_do_not_fit_are_unknown(void **state) {
    (void)state;
#define HUGE "%32 = const index 4611686018427387904\n%33 = mul index (%11, %32)\n"
    expect(X(HUGE "%31 = add index (%33, %30)\n"), NONE, BY(INT64_C(1) << 62));
    expect(X(HUGE "%31 = add index (%33, %33)\n"), NONE, UNKNOWN);
    expect(X(HUGE "%31 = mul index (%33, %32)\n"), NONE, UNKNOWN);
    expect(KERNEL(ZERO HUGE "%20 = index i32 (%3, %30, %33, %30)\n"), NONE, UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_dimension_counts_its_stride),
        cmocka_unit_test(test_sums_and_products_with_constants_are_followed),
        cmocka_unit_test(test_other_expressions_are_unknown_along_their_ranges),
        cmocka_unit_test(test_strides_that_are_arguments),
        cmocka_unit_test(test_steps_that_do_not_fit_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
