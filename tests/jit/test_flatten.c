/* SPDX-License-Identifier: MIT
 *
 * pass_flatten: buffers of one dimension, and one index per access whose terms stand in the order
 * of the loops.
 */
#include "support/tk_stage.h"

#include <stdio.h>
#include <string.h>

static tk_stage flat(const char *text, const char *opts, const int64_t *vals, size_t n_vals) {
    tk_stage s;
    const tolk_uop *u;
    tk_stage_open(&s, text, NULL);
    s.pass.opts = opts;
    tk_stage_run(&s, "POVDF");
    tk_stage_same(&s, vals, n_vals);
    for (size_t i = 0; (u = tk_stage_find(&s, TK_OP_PARAM, i)); i++)
        if (tk_uop_int(u, TK_A_PARAM_SPACE) != TK_SPACE_ALU) {
            assert_int_equal(u->n_src, 1);
            assert_true(u->src[0]->dtype == TOLK_INDEX && !tk_uop_is(u->src[0], TK_OP_STACK));
        }
    for (size_t i = 0; (u = tk_stage_find(&s, TK_OP_BUFFER, i)); i++)
        assert_true(u->n_src == 1 && !tk_uop_is(u->src[0], TK_OP_STACK));
    for (size_t i = 0; (u = tk_stage_find(&s, TK_OP_INDEX, i)); i++)
        assert_int_equal(u->n_src, 2);
    return s;
}

/* The index of the only load (or store) as text: axis numbers of ranges, constants, + and *, as the
 * sum groups them. */
static void print_index(const tolk_uop *u, char *out) {
    if (tk_uop_is(u, TK_OP_RANGE)) {
        sprintf(out + strlen(out), "r%d", (int)tk_uop_int(u, TK_A_RANGE_AXIS));
        const tk_blob *sub = tk_uop_attr(u, TK_A_RANGE_SUB).blob;
        for (size_t i = 0; sub && i < sub->n; i++)
            sprintf(out + strlen(out), ".%d", (int)sub->ints[i]);
    } else if (tk_uop_is_const(u)) {
        sprintf(out + strlen(out), "%d", (int)u->attr[0].i);
    } else if (tk_uop_is(u, TK_OP_ADD) || tk_uop_is(u, TK_OP_MUL)) {
        strcat(out, "(");
        print_index(u->src[0], out);
        strcat(out, tk_uop_is(u, TK_OP_ADD) ? " + " : " * ");
        print_index(u->src[1], out);
        strcat(out, ")");
    } else {
        strcat(out, tk_op_get(tk_uop_op(u))->name);
    }
}

static void index_is(const tk_stage *s, tk_op op, const char *want) {
    char have[512] = "";
    const tolk_uop *u = tk_stage_find(s, op, 0);
    assert_non_null(u);
    print_index(u->src[0]->src[1], have);
    assert_string_equal(have, want);
}

/* y[i, j, k] = x[k, j, i], 4 x 6 x 10 */
static const char reverse[] =
    "tolk.uop 1\n%0 = const index 4\n%1 = const index 6\n%2 = const index 10\n"
    "%3 = stack index (%0, %1, %2)\n%4 = stack index (%2, %1, %0)\n%5 = param i32 (%3) {slot=0}\n"
    "%6 = param i32 (%4) {slot=1}\n%7 = range index (%0) {axis=0, kind=global}\n"
    "%8 = range index (%1) {axis=1, kind=global}\n%9 = range index (%2) {axis=2, kind=global}\n"
    "%10 = index i32 (%6, %9, %8, %7)\n%11 = load i32 (%10)\n%12 = index i32 (%5, %7, %8, %9)\n"
    "%13 = store void (%12, %11)\n%14 = end void (%13, %7, %8, %9)\n"
    "%15 = sink void (%14) {name=\"reverse\"}\n";

static void test_offsets_are_row_major_in_loop_order(void **state) {
    (void)state;
    tk_stage s = flat(reverse, "", NULL, 0);
    index_is(&s, TK_OP_STORE, "(((r0 * 60) + (r1 * 10)) + r2)");
    index_is(&s, TK_OP_LOAD, "((r0 + (r1 * 4)) + (r2 * 24))");
    tk_stage_close(&s);
}

/* The innermost part, a lane or an unrolled one, is added last. */
static void test_lanes_and_unrolled_parts_come_last(void **state) {
    (void)state;
    tk_stage s = flat(reverse, "LANE:0:4", NULL, 0);
    index_is(&s, TK_OP_LOAD, "(((r1 * 4) + (r2 * 24)) + r0.1)");
    index_is(&s, TK_OP_STORE, "(((r1 * 10) + r2) + (r0.1 * 60))");
    tk_stage_close(&s);
    s = flat(reverse, "LANE:2:2 UPCAST:1:2", NULL, 0);
    index_is(&s, TK_OP_STORE, "(((((r0 * 60) + (r1.0 * 20)) + (r2.0 * 2)) + (r1.1 * 10)) + r2.1)");
    tk_stage_close(&s);
}

static void test_loops_of_a_fold_are_inner_ones(void **state) {
    (void)state;
    tk_stage s =
        flat("tolk.uop 1\n%0 = const index 4\n%1 = const index 6\n%2 = stack index (%1, %0)\n"
             "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n"
             "%5 = range index (%0) {axis=7, kind=global}\n"
             "%6 = range index (%1) {axis=1, kind=reduce}\n%7 = index i32 (%4, %6, %5)\n"
             "%8 = load i32 (%7)\n%9 = reduce i32 (%8, %6) {op=add}\n"
             "%10 = index i32 (%3, %5)\n%11 = store void (%10, %9)\n"
             "%12 = end void (%11, %5)\n%13 = sink void (%12) {name=\"columns\"}\n",
             "", NULL, 0);
    index_is(&s, TK_OP_LOAD, "(r7 + (r1 * 4))");
    index_is(&s, TK_OP_STORE, "r7");
    tk_stage_close(&s);
}

/* Rank 0 is one element; registers of two dimensions are flat, too. */
static void test_single_elements_and_registers(void **state) {
    (void)state;
    tk_stage s = flat("tolk.uop 1\n%0 = param f32 {slot=0}\n%1 = index f32 (%0)\n%2 = const f32 4\n"
                      "%3 = store void (%1, %2)\n%4 = sink void (%3) {name=\"single\"}\n",
                      "", NULL, 0);
    assert_true(tk_uop_is_int(tk_stage_find(&s, TK_OP_PARAM, 0)->src[0], 1));
    index_is(&s, TK_OP_STORE, "0");
    tk_stage_close(&s);
    s = flat("tolk.uop 1\n%0 = const index 2\n%1 = const index 3\n%2 = stack index (%0, %1)\n"
             "%3 = buffer i32 (%2) {slot=0, space=reg}\n%4 = const index 1\n"
             "%5 = index i32 (%3, %4, %0)\n%6 = const i32 8\n%7 = store void (%5, %6)\n"
             "%8 = after i32 (%3, %7)\n%9 = index i32 (%8, %4, %0)\n%10 = load i32 (%9)\n"
             "%11 = param i32 (%4) {slot=0}\n%12 = const index 0\n%13 = index i32 (%11, %12)\n"
             "%14 = store void (%13, %10)\n%15 = sink void (%14) {name=\"register\"}\n",
             "", NULL, 0);
    assert_true(tk_uop_is_int(tk_stage_find(&s, TK_OP_BUFFER, 0)->src[0], 6));
    index_is(&s, TK_OP_LOAD, "5");
    tk_stage_close(&s);
}

/* y[i, j] = x[i, j] over n x m */
static void test_strides_that_are_arguments(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=40}\n"
        "%1 = param i32 {slot=3, name=\"m\", space=alu, min=0, max=40}\n%2 = cast index (%0)\n"
        "%3 = cast index (%1)\n%4 = stack index (%2, %3)\n%5 = param i32 (%4) {slot=0}\n"
        "%6 = param i32 (%4) {slot=1}\n%7 = range index (%2) {axis=0, kind=global}\n"
        "%8 = range index (%3) {axis=1, kind=global}\n%9 = index i32 (%5, %7, %8)\n"
        "%10 = index i32 (%6, %7, %8)\n%11 = load i32 (%10)\n%12 = store void (%9, %11)\n"
        "%13 = end void (%12, %7, %8)\n%14 = sink void (%13) {name=\"copy\"}\n";
    static const int64_t vals[][2] = {{0, 0}, {1, 1}, {3, 0}, {0, 5}, {7, 9}, {40, 33}};
    static const char *const lists[] = {"", "LANE:1:8", "LANE:0:4 UPCAST:1:2"};
    for (size_t i = 0; i < sizeof vals / sizeof *vals; i++)
        for (int k = 0; k < 3; k++) {
            tk_stage s = flat(text, lists[k], vals[i], 2);
            tk_stage_run(&s, "L");
            tk_stage_same(&s, vals[i], 2);
            tk_stage_close(&s);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets_are_row_major_in_loop_order),
        cmocka_unit_test(test_lanes_and_unrolled_parts_come_last),
        cmocka_unit_test(test_loops_of_a_fold_are_inner_ones),
        cmocka_unit_test(test_single_elements_and_registers),
        cmocka_unit_test(test_strides_that_are_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
