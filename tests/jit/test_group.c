/* SPDX-License-Identifier: MIT
 *
 * pass_group: pieces of reductions that stand outside of all loops become an effect of their own
 * behind a barrier; others stay.
 */
#include "support/tk_stage.h"

/* y[0] = fold over 120 elements of x */
#define FOLD(dtype, op)                                                                            \
    "tolk.uop 1\n%0 = const index 120\n%1 = const index 1\n%2 = const index 0\n"                   \
    "%3 = param " dtype " (%1) {slot=0}\n%4 = param " dtype " (%0) {slot=1}\n"                     \
    "%5 = range index (%0) {axis=0, kind=reduce}\n%6 = index " dtype " (%4, %5)\n"                 \
    "%7 = load " dtype " (%6)\n%8 = reduce " dtype " (%7, %5) {op=" op "}\n"                       \
    "%9 = index " dtype " (%3, %2)\n%10 = store void (%9, %8)\n"                                   \
    "%11 = sink void (%10) {name=\"fold\"}\n"

static tk_stage grouped(const char *text, const char *opts) {
    tk_stage s;
    tk_stage_open(&s, text, NULL);
    s.pass.opts = opts;
    tk_stage_run(&s, "POG");
    tk_stage_same(&s, NULL, 0);
    return s;
}

static void test_pieces_are_an_effect_in_front_of_a_barrier(void **state) {
    (void)state;
    tk_stage s = grouped(FOLD("i32", "add"), "GROUPTOP:0:8");
    assert_int_equal(s.pass.pieces, 8);
    tk_stage_is(&s,
                "tolk.uop 1\n%0 = const index 8\n%1 = buffer i32 (%0) {slot=0, space=local}\n"
                "%2 = range index (%0) {axis=0, sub=[0], kind=global}\n%3 = index i32 (%1, %2)\n"
                "%4 = const index 120\n%5 = param i32 (%4) {slot=1}\n%6 = const index 15\n"
                "%7 = range index (%6) {axis=0, sub=[1], kind=reduce}\n%8 = mul index (%2, %6)\n"
                "%9 = add index (%8, %7)\n%10 = index i32 (%5, %9)\n%11 = load i32 (%10)\n"
                "%12 = reduce i32 (%11, %7) {op=add}\n%13 = store void (%3, %12)\n"
                "%14 = end void (%13, %2)\n%15 = const index 1\n%16 = param i32 (%15) {slot=0}\n"
                "%17 = const index 0\n%18 = index i32 (%16, %17)\n%19 = barrier void (%14)\n"
                "%20 = after i32 (%1, %19)\n%21 = range index (%0) {axis=0, sub=[0], kind=reduce}\n"
                "%22 = index i32 (%20, %21)\n%23 = load i32 (%22)\n"
                "%24 = reduce i32 (%23, %21) {op=add}\n%25 = store void (%18, %24)\n"
                "%26 = sink void (%14, %25) {name=\"fold\"}\n");
    tk_stage_close(&s);
}

static void test_values_and_their_order_stay(void **state) {
    (void)state;
    static const char *const texts[] = {FOLD("f32", "add"), FOLD("f64", "mul"), FOLD("i8", "max"),
                                        FOLD("u64", "add"), FOLD("bool", "max")};
    static const char *const lists[] = {"GROUPTOP:0:8", "GROUPTOP:0:7", "GROUPTOP:0:8 LANE:1:4",
                                        "GROUPTOP:0:2 LANE:1:8 UNROLL:2:3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
            tk_stage s = grouped(texts[i], lists[k]);
            assert_true(s.pass.pieces > 0);
            assert_int_equal(tk_stage_count(&s, TK_OP_BARRIER), 1);
            tk_stage_run(&s, "EVDFL");
            tk_stage_run(&s, "I");
            assert_true(s.pass.scratch->attr[0].i > 0);
            tk_stage_same(&s, NULL, 0);
            tk_stage_close(&s);
        }
}

/* y[0] = sum of x, y[1] = largest of x */
static const char two[] =
    "tolk.uop 1\n%0 = const index 96\n%1 = const index 2\n%2 = const index 0\n%3 = const index 1\n"
    "%4 = param i32 (%1) {slot=0}\n%5 = param i32 (%0) {slot=1}\n"
    "%6 = range index (%0) {axis=0, kind=reduce}\n%7 = index i32 (%5, %6)\n%8 = load i32 (%7)\n"
    "%9 = reduce i32 (%8, %6) {op=add}\n%10 = range index (%0) {axis=1, kind=reduce}\n"
    "%11 = index i32 (%5, %10)\n%12 = load i32 (%11)\n%13 = reduce i32 (%12, %10) {op=max}\n"
    "%14 = index i32 (%4, %2)\n%15 = store void (%14, %9)\n%16 = index i32 (%4, %3)\n"
    "%17 = store void (%16, %13)\n%18 = sink void (%15, %17) {name=\"two\"}\n";

static void test_independent_reductions_share_the_barrier(void **state) {
    (void)state;
    tk_stage s = grouped(two, "GROUPTOP:0:4 GROUPTOP:2:6");
    assert_int_equal(s.pass.pieces, 10);
    assert_int_equal(s.root->n_src, 4);
    assert_int_equal(tk_stage_count(&s, TK_OP_BUFFER), 2);
    const tolk_uop *a = tk_stage_find(&s, TK_OP_BUFFER, 0), *b = tk_stage_find(&s, TK_OP_BUFFER, 1);
    assert_int_not_equal(tk_uop_int(a, TK_A_BUFFER_SLOT), tk_uop_int(b, TK_A_BUFFER_SLOT));
    tk_stage_run(&s, "EVDFL");
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

/* Nothing is taken apart: the same graph, and no pieces. */
static void stays(const char *text, const char *opts) {
    tk_stage s;
    tk_stage_open(&s, text, NULL);
    s.pass.opts = opts;
    tk_stage_run(&s, "PO");
    const tolk_uop *before = s.root;
    tk_stage_run(&s, "G");
    assert_ptr_equal(s.root, before);
    assert_int_equal(s.pass.pieces, 0);
    tk_stage_run(&s, "EVDFL");
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

static void test_reductions_without_pieces_stay(void **state) {
    (void)state;
    stays(FOLD("i32", "add"), "");
    stays(FOLD("i32", "add"), "LANE:0:8 UNROLL:1:2");
}

static void test_reductions_in_loops_stay(void **state) {
    (void)state;
    stays("tolk.uop 1\n%0 = const index 4\n%1 = const index 60\n%2 = stack index (%0, %1)\n"
          "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n"
          "%5 = range index (%0) {axis=0, kind=global}\n"
          "%6 = range index (%1) {axis=1, kind=reduce}\n%7 = index i32 (%4, %5, %6)\n"
          "%8 = load i32 (%7)\n%9 = reduce i32 (%8, %6) {op=add}\n%10 = index i32 (%3, %5)\n"
          "%11 = store void (%10, %9)\n%12 = end void (%11, %5)\n"
          "%13 = sink void (%12) {name=\"rows\"}\n",
          "GROUPTOP:1:4");
}

/* y[0] = sum of (x - largest of x): the second needs all of the first. */
static void test_reductions_of_reductions_stay(void **state) {
    (void)state;
    stays("tolk.uop 1\n%0 = const index 96\n%2 = const index 0\n%3 = const index 1\n"
          "%4 = param i32 (%3) {slot=0}\n%5 = param i32 (%0) {slot=1}\n"
          "%6 = range index (%0) {axis=0, kind=reduce}\n%7 = index i32 (%5, %6)\n"
          "%8 = load i32 (%7)\n%9 = reduce i32 (%8, %6) {op=max}\n"
          "%10 = range index (%0) {axis=1, kind=reduce}\n%11 = index i32 (%5, %10)\n"
          "%12 = load i32 (%11)\n%13 = sub i32 (%12, %9)\n%14 = reduce i32 (%13, %10) {op=add}\n"
          "%15 = index i32 (%4, %2)\n%16 = store void (%15, %14)\n"
          "%17 = sink void (%16) {name=\"deviation\"}\n",
          "GROUPTOP:0:4 GROUPTOP:2:6");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_an_effect_in_front_of_a_barrier),
        cmocka_unit_test(test_values_and_their_order_stay),
        cmocka_unit_test(test_independent_reductions_share_the_barrier),
        cmocka_unit_test(test_reductions_without_pieces_stay),
        cmocka_unit_test(test_reductions_in_loops_stay),
        cmocka_unit_test(test_reductions_of_reductions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
