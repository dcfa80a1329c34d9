/* SPDX-License-Identifier: MIT
 *
 * Loops that are split in two, and pieces of reductions that stand before their loop: kernels whose
 * other loops the split must leave as they are. Interpreted beside the kernel as given, at sizes
 * around every split.
 */
#include "support/tk_stage.h"

/* The kernel after all passes gives what it gave before them, for each value of its scalar. */
static void check(const char *text, const char *opts, bool strict, const int64_t *n, size_t n_n) {
    static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512"};
    for (int t = 0; t < 3; t++) {
        tk_stage s;
        tk_stage_open(&s, text, targets[t]);
        s.pass.opts = opts;
        s.pass.strict = strict;
        tk_stage_run(&s, "POGEVNDFL");
        for (size_t i = 0; i < n_n; i++)
            tk_stage_same(&s, &n[i], 1);
        if (!n_n)
            tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

/* The outer END closes a range that an END before it, which its value waits for, closes, too: each
 * element is doubled once. */
static const char both_close[] = "tolk.uop 1\n"
                                 "%0 = const index 0\n"
                                 "%1 = param i64 (%0) {slot=6, name=\"b6\"}\n"
                                 "%2 = param i32 {slot=0, name=\"n0\", space=alu, min=2, max=66}\n"
                                 "%3 = cast index (%2)\n"
                                 "%4 = range index (%3) {axis=0, kind=global}\n"
                                 "%5 = const index 1\n"
                                 "%6 = mul index (%4, %5)\n"
                                 "%7 = index i64 (%1, %6)\n"
                                 "%8 = stack index (%3, %5)\n"
                                 "%9 = param i64 (%8) {slot=1, name=\"b1\"}\n"
                                 "%10 = add index (%4, %5)\n"
                                 "%11 = range index (%5) {axis=1}\n"
                                 "%12 = index i64 (%9, %10, %11)\n"
                                 "%13 = load i64 (%12)\n"
                                 "%14 = const i64 1\n"
                                 "%15 = shl i64 (%13, %14)\n"
                                 "%16 = store void (%12, %15)\n"
                                 "%17 = end void (%16, %11)\n"
                                 "%18 = end void (%17, %4)\n"
                                 "%19 = after i64 (%9, %18)\n"
                                 "%20 = index i64 (%19, %0, %0)\n"
                                 "%21 = load i64 (%20)\n"
                                 "%22 = store void (%7, %21)\n"
                                 "%23 = end void (%22, %4, %11)\n"
                                 "%24 = sink void (%23) {name=\"random\"}\n";

static void test_what_is_rolled_up_in_the_rest_stays_in_other_loops(void **state) {
    (void)state;
    static const int64_t n[] = {2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 66};
    check(both_close, NULL, true, n, sizeof n / sizeof *n);
    check(both_close, NULL, false, n, sizeof n / sizeof *n);
}

/* A guard of a load in a reduction compares with what the reduction's range says. */
static const char inner_bound[] = "tolk.uop 1\n"
                                  "%0 = const index 0\n"
                                  "%1 = param f32 (%0) {slot=0, name=\"b0\"}\n"
                                  "%2 = const index 30\n"
                                  "%3 = range index (%2) {axis=0, kind=global}\n"
                                  "%4 = const index 1\n"
                                  "%5 = mul index (%3, %4)\n"
                                  "%6 = index f32 (%1, %5)\n"
                                  "%7 = const f32 0x1p-149\n"
                                  "%8 = store void (%6, %7)\n"
                                  "%9 = param bool (%2) {slot=6, name=\"b6\"}\n"
                                  "%10 = index bool (%9, %3)\n"
                                  "%11 = cmplt bool (%4, %3)\n"
                                  "%12 = add index (%3, %3)\n"
                                  "%13 = const index 35\n"
                                  "%14 = cmplt bool (%12, %13)\n"
                                  "%15 = param bool (%2) {slot=10, name=\"b10\"}\n"
                                  "%16 = const index 2\n"
                                  "%17 = mul index (%3, %16)\n"
                                  "%18 = range index (%16) {axis=1, kind=reduce}\n"
                                  "%19 = mul index (%18, %16)\n"
                                  "%20 = sub index (%17, %19)\n"
                                  "%21 = const index -3\n"
                                  "%22 = add index (%20, %21)\n"
                                  "%23 = cmplt bool (%22, %2)\n"
                                  "%24 = const index invalid\n"
                                  "%25 = where index (%23, %22, %24)\n"
                                  "%26 = index bool (%15, %25)\n"
                                  "%27 = load bool (%26)\n"
                                  "%28 = where bool (%11, %14, %27)\n"
                                  "%29 = reduce bool (%28, %18) {op=mul}\n"
                                  "%30 = store void (%10, %29)\n"
                                  "%31 = group void (%8, %30)\n"
                                  "%32 = end void (%31, %3)\n"
                                  "%33 = sink void (%32) {name=\"random\"}\n";

static void test_a_loop_is_not_cut_where_an_inner_one_says(void **state) {
    (void)state;
    check(inner_bound, "UPCAST:0:3", false, NULL, 0);
    check(inner_bound, NULL, false, NULL, 0);
}

/* With n = 0 nobody needs the maximum of an array that has no element. */
static const char maximum[] = "tolk.uop 1\n"
                              "%0 = param i64 {slot=0, name=\"n0\", space=alu, min=0, max=3}\n"
                              "%1 = cast index (%0)\n"
                              "%2 = param i64 (%1) {slot=1, name=\"b1\"}\n"
                              "%3 = range index (%1) {axis=0, kind=global}\n"
                              "%4 = index i64 (%2, %3)\n"
                              "%5 = param f16 (%1) {slot=2, name=\"b2\"}\n"
                              "%6 = const index 0\n"
                              "%7 = index f16 (%5, %6)\n"
                              "%8 = load f16 (%7)\n"
                              "%9 = const index 2\n"
                              "%10 = range index (%9) {axis=1, kind=reduce}\n"
                              "%11 = const index 1\n"
                              "%12 = range index (%11) {axis=2, kind=reduce}\n"
                              "%13 = reduce f16 (%8, %10, %12) {op=max}\n"
                              "%14 = cast i64 (%13)\n"
                              "%15 = store void (%4, %14)\n"
                              "%16 = end void (%15, %3)\n"
                              "%17 = sink void (%16) {name=\"random\"}\n";

static void test_pieces_that_nothing_needs_load_nothing(void **state) {
    (void)state;
    static const int64_t n[] = {0, 1, 2, 3};
    check(maximum, "GROUPTOP:1:2", false, n, 4);
    check(maximum, "GROUP:1:4", false, n, 4);
    check(maximum, "", false, n, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_rolled_up_in_the_rest_stays_in_other_loops),
        cmocka_unit_test(test_a_loop_is_not_cut_where_an_inner_one_says),
        cmocka_unit_test(test_pieces_that_nothing_needs_load_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
