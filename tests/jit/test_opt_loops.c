/* SPDX-License-Identifier: MIT
 *
 * Loop options on kernels whose loops are nested, shared, sized or named in unusual ways: the same
 * values after the options and after all the passes behind them.
 */
#include "support/tk_stage.h"

static void same(const char *kernel, const char *const *lists, size_t n, const int64_t *vals,
                 size_t n_vals) {
    static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512"};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < n; i++) {
            tk_stage s;
            tolk_error err = TOLK_ERROR_INIT;
            tk_stage_open(&s, kernel, targets[t]);
            s.pass.opts = lists[i];
            tk_stage_run(&s, "P");
            if (tk_stage_try(&s, 'O', &err) != TOLK_OK)
                fail_msg("%s", err.msg);
            tk_stage_same(&s, vals, n_vals);
            tk_stage_run(&s, "GEVDFL");
            tk_stage_same(&s, vals, n_vals);
            tk_stage_close(&s);
        }
}
#define SAME(kernel, ...)                                                                          \
    do {                                                                                           \
        static const char *const lists[] = {__VA_ARGS__};                                          \
        same(kernel, lists, sizeof lists / sizeof *lists, NULL, 0);                                \
    } while (0)

/* y[0] = fold over i < 5 and k < 7 of x[i, k], in one reduce */
#define FOLD_OF_TWO(dtype, op)                                                                     \
    "tolk.uop 1\n%0 = const index 5\n%1 = const index 7\n%2 = stack index (%0, %1)\n"              \
    "%3 = const index 1\n%4 = const index 0\n%5 = param " dtype                                    \
    " (%3) {slot=0}\n%6 = param " dtype                                                            \
    " (%2) {slot=1}\n%7 = range index (%0) {axis=0, kind=reduce}\n"                                \
    "%8 = range index (%1) {axis=1, kind=reduce}\n%9 = index " dtype " (%6, %7, %8)\n"             \
    "%10 = load " dtype " (%9)\n%11 = reduce " dtype " (%10, %7, %8) {op=" op                      \
    "}\n%12 = index " dtype                                                                        \
    " (%5, %4)\n%13 = store void (%12, %11)\n%14 = sink void (%13) {name=\"fold\"}\n"
#define FOLD_LISTS                                                                                 \
    "UNROLL:0:2", "UNROLL:1:3", "LANE:0:4", "LANE:1:8", "LANE:1:2 UNROLL:1:2", "GROUPTOP:0:2",     \
        "GROUPTOP:1:4", "GROUP:0:3", "GROUP:1:4", "PADTO:0:4 PADTO:1:4", "UNROLL:0:0",             \
        "UNROLL:0:2 UNROLL:1:2", "GROUPTOP:0:3 LANE:2:4", "GROUPTOP:0:2 GROUPTOP:2:2"

static void test_a_fold_over_two_ranges(void **state) {
    (void)state;
    SAME(FOLD_OF_TWO("i32", "add"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("i32", "mul"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("f32", "add"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("f64", "max"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("i8", "max"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("bool", "add"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("bool", "mul"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("bool", "max"), FOLD_LISTS);
    SAME(FOLD_OF_TWO("u64", "mul"), FOLD_LISTS);
}

/* y[0] = sum of x, y[1] = sum of squares, y[2] = the largest: one range in three folds */
static void test_folds_that_share_a_range(void **state) {
    (void)state;
    SAME("tolk.uop 1\n%0 = const index 19\n%1 = const index 3\n%2 = const index 0\n"
         "%3 = const index 1\n%4 = const index 2\n%5 = param i64 (%1) {slot=0}\n"
         "%6 = param i64 (%0) {slot=1}\n%7 = range index (%0) {axis=0, kind=reduce}\n"
         "%8 = index i64 (%6, %7)\n%9 = load i64 (%8)\n%10 = mul i64 (%9, %9)\n"
         "%11 = reduce i64 (%9, %7) {op=add}\n%12 = reduce i64 (%10, %7) {op=add}\n"
         "%13 = reduce i64 (%9, %7) {op=max}\n%14 = index i64 (%5, %2)\n%15 = index i64 (%5, %3)\n"
         "%16 = index i64 (%5, %4)\n%17 = store void (%14, %11)\n%18 = store void (%15, %12)\n"
         "%19 = store void (%16, %13)\n%20 = sink void (%17, %18, %19) {name=\"three\"}\n",
         "", "UNROLL:0:4", "LANE:0:4", "LANE:0:4 UNROLL:1:2", "GROUPTOP:0:4", "PADTO:0:8",
         "GROUPTOP:0:2 LANE:1:4", "GROUP:0:4", "GROUP:0:2 UNROLL:0:2");
}

/* y[i] = sum over j of (x[i, j] - max over k of x[i, k]): a fold in a fold */
static void test_a_fold_in_a_fold(void **state) {
    (void)state;
    SAME("tolk.uop 1\n%0 = const index 6\n%1 = const index 10\n%2 = stack index (%0, %1)\n"
         "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n"
         "%5 = range index (%0) {axis=0, kind=global}\n"
         "%6 = range index (%1) {axis=1, kind=reduce}\n"
         "%7 = range index (%1) {axis=2, kind=reduce}\n%8 = index i32 (%4, %5, %7)\n"
         "%9 = load i32 (%8)\n%10 = reduce i32 (%9, %7) {op=max}\n%11 = index i32 (%4, %5, %6)\n"
         "%12 = load i32 (%11)\n%13 = sub i32 (%12, %10)\n%14 = reduce i32 (%13, %6) {op=add}\n"
         "%15 = index i32 (%3, %5)\n%16 = store void (%15, %14)\n%17 = end void (%16, %5)\n"
         "%18 = sink void (%17) {name=\"deviation\"}\n",
         "", "LANE:0:4", "LANE:1:4", "LANE:2:4", "UNROLL:1:3 UNROLL:2:3", "UPCAST:0:4",
         "LANE:0:4 UNROLL:2:2", "THREAD:0:2 LANE:2:8", "PADTO:0:4 PADTO:1:4 PADTO:2:4",
         "LOOP:0 UPCAST:0:3");
}

/* y[i, j] = i - j, the inner loop naming the outer one as its parent */
static void test_loops_with_parents(void **state) {
    (void)state;
    SAME("tolk.uop 1\n%0 = const index 7\n%1 = const index 9\n%2 = stack index (%0, %1)\n"
         "%3 = param i32 (%2) {slot=0}\n%4 = range index (%0) {axis=0, kind=global}\n"
         "%5 = range index (%1, %4) {axis=1, kind=global}\n%6 = sub index (%4, %5)\n"
         "%7 = cast i32 (%6)\n%8 = index i32 (%3, %4, %5)\n%9 = store void (%8, %7)\n"
         "%10 = end void (%9, %4, %5)\n%11 = sink void (%10) {name=\"parents\"}\n",
         "", "UPCAST:0:2", "UPCAST:1:3", "LANE:0:4", "LANE:1:4", "LANE:1:4 UPCAST:0:2", "LOCAL:0:2",
         "LOCAL:1:4 LOCAL:0:3", "LOCAL:1:4 LANE:2:4", "THREAD:0:2", "THREAD:1:2", "PADTO:0:4",
         "PADTO:1:4", "LOOP:0", "LOOP:1", "SWAP:0:1", "SWAP:0:1 LANE:0:4");
}

/* An outer loop of one iteration, which is none, and its name in the inner one. */
static void test_a_parent_of_one_iteration(void **state) {
    (void)state;
    SAME("tolk.uop 1\n%0 = const index 1\n%1 = const index 9\n%2 = stack index (%0, %1)\n"
         "%3 = param i32 (%2) {slot=0}\n%4 = range index (%0) {axis=0, kind=global}\n"
         "%5 = range index (%1, %4) {axis=1, kind=global}\n%6 = cast i32 (%5)\n"
         "%7 = index i32 (%3, %4, %5)\n%8 = store void (%7, %6)\n%9 = end void (%8, %4, %5)\n"
         "%10 = sink void (%9) {name=\"single\"}\n",
         "", "UPCAST:0:4", "LANE:0:4", "THREAD:0:2");
}

/* The same loops around each other by two ENDs, and one range closed at two places. */
static void test_nested_and_repeated_ends(void **state) {
    (void)state;
    SAME("tolk.uop 1\n%0 = const index 6\n%1 = const index 8\n%2 = stack index (%0, %1)\n"
         "%3 = param i32 (%2) {slot=0}\n%4 = param i32 (%1) {slot=1}\n"
         "%5 = range index (%0) {axis=0, kind=global}\n"
         "%6 = range index (%1) {axis=1, kind=global}\n%7 = index i32 (%3, %5, %6)\n"
         "%8 = add index (%5, %6)\n%9 = cast i32 (%8)\n%10 = store void (%7, %9)\n"
         "%11 = end void (%10, %6)\n%12 = end void (%11, %5)\n%13 = index i32 (%4, %6)\n"
         "%14 = cast i32 (%6)\n%15 = store void (%13, %14)\n%16 = end void (%15, %6)\n"
         "%17 = sink void (%12, %16) {name=\"ends\"}\n",
         "", "SWAP:0:1", "UPCAST:0:4", "UPCAST:1:4", "LANE:1:4", "LANE:0:2 UPCAST:1:2", "PADTO:1:3",
         "THREAD:1:2", "LOOP:1", "SWAP:0:1 LANE:0:4", "LOCAL:1:4", "LOCAL:0:2 LOCAL:1:8");
}

/* y[i] = sum over k < i + 1 of x[k], and z[i] = sum over k < c[i] of x[k] */
static void test_folds_whose_size_moves(void **state) {
    (void)state;
    static const char *const lists[] = {
        "",          "UNROLL:1:4",        "UNROLL:2:3",   "LANE:1:4",
        "LANE:2:8",  "LANE:1:4 LANE:3:4", "GROUPTOP:1:2", "GROUPTOP:2:3",
        "GROUP:1:2", "GROUP:2:3",         "THREAD:0:1"};
    same(
        "tolk.uop 1\n%0 = const index 15\n%1 = const index 1\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = param i32 (%0) {slot=1}\n%4 = param i32 (%0) {slot=2}\n%5 = param i32 (%0) {slot=3}\n"
        "%6 = range index (%0) {axis=0, kind=global}\n%7 = add index (%6, %1)\n"
        "%8 = range index (%7, %6) {axis=1, kind=reduce}\n%9 = index i32 (%3, %8)\n"
        "%10 = load i32 (%9)\n%11 = reduce i32 (%10, %8) {op=add}\n%12 = index i32 (%2, %6)\n"
        "%13 = store void (%12, %11)\n%14 = index i32 (%5, %6)\n%15 = load i32 (%14)\n"
        "%16 = cast index (%15)\n%17 = range index (%16, %6) {axis=2, kind=reduce}\n"
        "%18 = index i32 (%3, %17)\n%19 = load i32 (%18)\n%20 = reduce i32 (%19, %17) {op=add}\n"
        "%21 = index i32 (%4, %6)\n%22 = store void (%21, %20)\n%23 = group void (%13, %22)\n"
        "%24 = end void (%23, %6)\n%25 = sink void (%24) {name=\"triangle\"}\n",
        lists, sizeof lists / sizeof *lists - 1, NULL, 0);
}

/* Two sizes that are arguments, one of them none. */
static void test_symbolic_sizes_around_nothing(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=40}\n"
        "%1 = param i32 {slot=3, name=\"m\", space=alu, min=0, max=40}\n%2 = cast index (%0)\n"
        "%3 = cast index (%1)\n%4 = stack index (%2, %3)\n%5 = param i32 (%2) {slot=0}\n"
        "%6 = param i32 (%4) {slot=1}\n%7 = range index (%2) {axis=0, kind=global}\n"
        "%8 = range index (%3) {axis=1, kind=reduce}\n%9 = index i32 (%6, %7, %8)\n"
        "%10 = load i32 (%9)\n%11 = reduce i32 (%10, %8) {op=max}\n%12 = index i32 (%5, %7)\n"
        "%13 = store void (%12, %11)\n%14 = end void (%13, %7)\n"
        "%15 = sink void (%14) {name=\"rows\"}\n";
    static const char *const lists[] = {
        "",           "LANE:0:4",     "LANE:1:4",
        "UNROLL:1:3", "UPCAST:0:4",   "LANE:0:4 UPCAST:0:2",
        "THREAD:0:3", "GROUPTOP:1:3", "LANE:1:8 UNROLL:2:2",
        "LOCAL:0:4",  "GROUP:1:3",    "LOCAL:0:3 GROUP:2:2 LANE:1:2"};
    static const int64_t sizes[] = {0, 1, 3, 4, 9, 40};
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < 6; k++)
            same(text, lists, sizeof lists / sizeof *lists, (const int64_t[]){sizes[i], sizes[k]},
                 2);
}

/* Options again and again on one axis: the last ones split a range of at most one iteration, which
 * nothing names any more. y[i] = y[i] * 2, in place: each once. */
static void test_splits_of_a_range_that_nothing_names(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=0, name=\"n\", space=alu, min=0, max=51}\n"
        "%1 = cast index (%0)\n%2 = param f32 (%1) {slot=1}\n"
        "%3 = range index (%1) {axis=0, kind=global}\n%4 = index f32 (%2, %3)\n"
        "%5 = load f32 (%4)\n%6 = const f32 0x1p+1\n%7 = mul f32 (%5, %6)\n"
        "%8 = store void (%4, %7)\n%9 = end void (%8, %3)\n%10 = sink void (%9) {name=\"twice\"}\n";
    static const char *const lists[] = {"THREAD:0:8 THREAD:1:7 THREAD:2:7",
                                        "UPCAST:0:8 UPCAST:0:7 UPCAST:0:7",
                                        "UPCAST:0:16 LANE:0:4 UPCAST:0:2", "LANE:0:64 UPCAST:0:7"};
    for (int64_t n = 0; n < 52; n += n < 3 ? 1 : 12)
        same(text, lists, sizeof lists / sizeof *lists, &n, 1);
}

/* A symbolic axis is split by lanes inside of an axis that is unrolled around it: what is left over
 * of it belongs to the unrolled one still. */
static void test_rest_inside_of_an_unrolled_axis(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 2\n%1 = param i32 {slot=0, name=\"n\", space=alu, min=3, "
        "max=60}\n"
        "%2 = cast index (%1)\n%3 = stack index (%0, %2)\n%4 = param f32 (%3) {slot=1}\n"
        "%5 = range index (%0) {axis=0, kind=global}\n%6 = range index (%2) {axis=1, kind=global}\n"
        "%7 = index f32 (%4, %5, %6)\n%8 = cast f32 (%6)\n%9 = store void (%7, %8)\n"
        "%10 = end void (%9, %5, %6)\n%11 = sink void (%10) {name=\"rest\"}\n";
    static const char *const lists[] = {"LANE:1:2 UPCAST:0:8", "LANE:1:4 UPCAST:0:2",
                                        "UPCAST:0:2 LANE:0:4", "LANE:1:8 UPCAST:1:2 UPCAST:0:2"};
    for (int64_t n = 3; n < 61; n += 19)
        same(text, lists, sizeof lists / sizeof *lists, &n, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fold_over_two_ranges),
        cmocka_unit_test(test_folds_that_share_a_range),
        cmocka_unit_test(test_a_fold_in_a_fold),
        cmocka_unit_test(test_loops_with_parents),
        cmocka_unit_test(test_a_parent_of_one_iteration),
        cmocka_unit_test(test_nested_and_repeated_ends),
        cmocka_unit_test(test_folds_whose_size_moves),
        cmocka_unit_test(test_symbolic_sizes_around_nothing),
        cmocka_unit_test(test_splits_of_a_range_that_nothing_names),
        cmocka_unit_test(test_rest_inside_of_an_unrolled_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
