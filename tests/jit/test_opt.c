/* SPDX-License-Identifier: MIT
 *
 * What each loop option makes of a kernel: the graph, node for node, and its values, which stay.
 */
#include "support/tk_stage.h"

#include "jit/opt.h"

/* Apply options to the prepared kernel. */
static void apply(tk_stage *s, const char *text) {
    tk_opts opts;
    tk_vec_init(&opts, s->pass.g->al);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_opt_parse(text, &opts, &err), TOLK_OK);
    for (size_t i = 0; i < opts.n; i++)
        if (tk_opt_apply(&s->root, &opts.at[i], s->pass.strict, &err) != TOLK_OK)
            fail_msg("%s: %s", text, err.msg);
    tk_vec_fini(&opts);
    if (tolk_verify(s->root, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
        fail_msg("%s: %s", text, err.msg);
}

static void expect(const char *kernel, const char *opts, const char *after) {
    tk_stage s;
    tk_stage_open(&s, kernel, NULL);
    tk_stage_run(&s, "P");
    apply(&s, opts);
    tk_stage_is(&s, after);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

/* y[%20] = 3 x[%20]; where %19 holds */
#define PARAMS(n)                                                                                  \
    "tolk.uop 1\n%0 = const index " n "\n%1 = param f32 (%0) {slot=0, name=\"y\"}\n"               \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"
#define BODY                                                                                       \
    "%21 = index f32 (%1, %20)\n%22 = index f32 (%2, %20)\n%23 = load f32 (%22)\n"                 \
    "%24 = const f32 3\n%25 = mul f32 (%23, %24)\n%26 = store void (%21, %25)\n"
#define GATED_BODY                                                                                 \
    "%21 = index f32 (%1, %20)\n%22 = index f32 (%2, %20)\n%27 = const f32 0\n"                    \
    "%23 = load f32 (%22, %27, %19)\n%24 = const f32 3\n%25 = mul f32 (%23, %24)\n"                \
    "%26 = store void (%21, %25, %19)\n"
#define END(ranges) "%30 = end void (%26, " ranges ")\n%31 = sink void (%30) {name=\"scale\"}\n"
#define SCALE(n) PARAMS(n) "%20 = range index (%0) {axis=0, kind=global}\n" BODY END("%20")
#define SPLIT(outer, inner, kind)                                                                  \
    "%3 = const index " outer "\n%4 = range index (%3) {axis=0, sub=[0], kind=global}\n"           \
    "%5 = const index " inner "\n%6 = range index (%5) {axis=0, sub=[1], kind=" kind "}\n"         \
    "%7 = mul index (%4, %5)\n%20 = add index (%7, %6)\n"

static void test_UPCAST_splits_an_inner_range_off(void **state) {
    (void)state;
    expect(SCALE("8"), "UPCAST:0:4", PARAMS("8") SPLIT("2", "4", "upcast") BODY END("%4, %6"));
}

static void test_UPCAST_of_what_does_not_divide_gates_the_added_iterations(void **state) {
    (void)state;
    expect(SCALE("10"), "UPCAST:0:4",
           PARAMS("10")
               SPLIT("3", "4", "upcast") "%19 = cmplt bool (%20, %0)\n" GATED_BODY END("%4, %6"));
}

static void test_UPCAST_0_is_the_whole_axis(void **state) {
    (void)state;
    expect(SCALE("8"), "UPCAST:0:0",
           PARAMS("8") "%20 = range index (%0) {axis=0, sub=[1], kind=upcast}\n" BODY END("%20"));
}

static void test_LANE_splits_an_inner_range_of_kind_lane_off(void **state) {
    (void)state;
    expect(SCALE("16"), "LANE:0:8", PARAMS("16") SPLIT("2", "8", "lane") BODY END("%4, %6"));
    expect(SCALE("17"), "LANE:0:8",
           PARAMS("17")
               SPLIT("3", "8", "lane") "%19 = cmplt bool (%20, %0)\n" GATED_BODY END("%4, %6"));
}

static void test_LOCAL_splits_the_work_items_of_a_group_off(void **state) {
    (void)state;
    expect(SCALE("16"), "LOCAL:0:8", PARAMS("16") SPLIT("2", "8", "local") BODY END("%4, %6"));
    expect(SCALE("17"), "LOCAL:0:5",
           PARAMS("17")
               SPLIT("4", "5", "local") "%19 = cmplt bool (%20, %0)\n" GATED_BODY END("%4, %6"));
    expect(SCALE("8"), "LOCAL:0:0",
           PARAMS("8") "%20 = range index (%0) {axis=0, sub=[1], kind=local}\n" BODY END("%20"));
}

static void test_NOLOCALS_is_noted_in_the_sink(void **state) {
    (void)state;
    expect(SCALE("16"), "NOLOCALS LANE:0:8",
           PARAMS("16") SPLIT("2", "8", "lane") BODY
           "%30 = end void (%26, %4, %6)\n%31 = sink void (%30) {name=\"scale\", "
           "opts=\"NOLOCALS\"}\n");
}

static void test_THREAD_is_the_outer_loop_of_whole_pieces(void **state) {
    (void)state;
    expect(SCALE("12"), "THREAD:0:3",
           PARAMS("12") "%3 = const index 3\n%4 = range index (%3) {axis=0, sub=[0], kind=thread}\n"
                        "%5 = const index 4\n%6 = range index (%5) {axis=0, sub=[1], kind=global}\n"
                        "%7 = mul index (%4, %5)\n%20 = add index (%7, %6)\n" BODY END("%4, %6"));
    /* 10 in pieces of 4: the last two iterations are gated off */
    expect(SCALE("10"), "THREAD:0:3",
           PARAMS("10") "%3 = const index 3\n%4 = range index (%3) {axis=0, sub=[0], kind=thread}\n"
                        "%5 = const index 4\n%6 = range index (%5) {axis=0, sub=[1], kind=global}\n"
                        "%7 = mul index (%4, %5)\n%20 = add index (%7, %6)\n"
                        "%19 = cmplt bool (%20, %0)\n" GATED_BODY END("%4, %6"));
}

static void test_PADTO_rounds_the_size_up_and_gates(void **state) {
    (void)state;
    expect(
        SCALE("10"), "PADTO:0:4",
        PARAMS("10") "%3 = const index 12\n%20 = range index (%3) {axis=0, sub=[0], kind=global}\n"
                     "%19 = cmplt bool (%20, %0)\n" GATED_BODY END("%20"));
    expect(SCALE("12"), "PADTO:0:4", SCALE("12"));
}

static void test_LOOP_makes_a_global_axis_a_loop(void **state) {
    (void)state;
    expect(SCALE("10"), "LOOP:0",
           PARAMS("10") "%20 = range index (%0) {axis=0, sub=[0]}\n" BODY END("%20"));
}

/* y[%4, %5] = x[%5, %4] */
#define TRANSPOSE(first, second, order)                                                            \
    "tolk.uop 1\n%0 = const index 3\n%1 = const index 5\n%2 = stack index (%0, %1)\n"              \
    "%3 = stack index (%1, %0)\n%6 = param i32 (%2) {slot=0}\n%7 = param i32 (%3) {slot=1}\n"      \
    "%4 = range index (%0) {axis=" first ", kind=global}\n"                                        \
    "%5 = range index (%1) {axis=" second ", kind=global}\n%8 = index i32 (%6, %4, %5)\n"          \
    "%9 = index i32 (%7, %5, %4)\n%10 = load i32 (%9)\n%11 = store void (%8, %10)\n"               \
    "%12 = end void (%11, " order ")\n%13 = sink void (%12) {name=\"transpose\"}\n"

static void test_SWAP_exchanges_two_loops_and_their_names(void **state) {
    (void)state;
    expect(TRANSPOSE("0", "1", "%4, %5"), "SWAP:0:1", TRANSPOSE("1", "0", "%5, %4"));
    expect(TRANSPOSE("0", "1", "%4, %5"), "SWAP:0:1 SWAP:1:0", TRANSPOSE("0", "1", "%4, %5"));
    expect(TRANSPOSE("0", "1", "%4, %5"), "SWAP:1:1", TRANSPOSE("0", "1", "%4, %5"));
}

/* y[0] = fold over n elements of x, whose index is %20 and which are %30 */
#define FOLD_PARAMS(n)                                                                             \
    "tolk.uop 1\n%0 = const index " n "\n%1 = const index 1\n%2 = const index 0\n"                 \
    "%10 = param i32 (%1) {slot=0, name=\"y\"}\n%11 = param i32 (%0) {slot=1, name=\"x\"}\n"
#define FOLD_LOAD "%21 = index i32 (%11, %20)\n%30 = load i32 (%21)\n"
/* %18: the identity, %19: the guard */
#define FOLD_GATED                                                                                 \
    "%21 = index i32 (%11, %20)\n%22 = const i32 0\n%23 = load i32 (%21, %22, %19)\n"              \
    "%30 = where i32 (%19, %23, %18)\n"
#define FOLD_STORE                                                                                 \
    "%50 = index i32 (%10, %2)\n%51 = store void (%50, %40)\n%52 = sink void (%51) "               \
    "{name=\"fold\"}\n"
#define FOLD(n, op)                                                                                \
    FOLD_PARAMS(n)                                                                                 \
    "%20 = range index (%0) {axis=0, kind=reduce}\n" FOLD_LOAD                                     \
    "%40 = reduce i32 (%30, %20) {op=" op "}\n" FOLD_STORE
#define FOLD_SPLIT(outer, inner, kind)                                                             \
    "%3 = const index " outer "\n%4 = range index (%3) {axis=0, sub=[0], kind=reduce}\n"           \
    "%5 = const index " inner "\n%6 = range index (%5) {axis=0, sub=[1], kind=" kind "}\n"         \
    "%7 = mul index (%4, %5)\n%20 = add index (%7, %6)\n"
#define PARTIALS(op)                                                                               \
    "%31 = reduce i32 (%30, %4) {op=" op "}\n%40 = reduce i32 (%31, %6) {op=" op "}\n"

static void test_UNROLL_keeps_partial_results_and_folds_them_in_order(void **state) {
    (void)state;
    expect(FOLD("12", "add"), "UNROLL:0:4",
           FOLD_PARAMS("12") FOLD_SPLIT("3", "4", "unroll") FOLD_LOAD PARTIALS("add") FOLD_STORE);
}

#define UNROLLED_10(op, identity)                                                                  \
    FOLD_PARAMS("10")                                                                              \
    FOLD_SPLIT("3", "4", "unroll")                                                                 \
    "%19 = cmplt bool (%20, %0)\n%18 = const i32 " identity "\n" FOLD_GATED PARTIALS(op)           \
    FOLD_STORE

static void test_UNROLL_of_what_does_not_divide_folds_the_identity(void **state) {
    (void)state;
    expect(FOLD("10", "add"), "UNROLL:0:4", UNROLLED_10("add", "0"));
    expect(FOLD("10", "mul"), "UNROLL:0:4", UNROLLED_10("mul", "1"));
    expect(FOLD("10", "max"), "UNROLL:0:4", UNROLLED_10("max", "-2147483648"));
}

static void test_LANE_of_a_reduction_keeps_a_partial_result_a_lane(void **state) {
    (void)state;
    expect(FOLD("12", "max"), "LANE:0:4",
           FOLD_PARAMS("12") FOLD_SPLIT("3", "4", "lane") FOLD_LOAD PARTIALS("max") FOLD_STORE);
    expect(FOLD("4", "add"), "LANE:0:0",
           FOLD_PARAMS("4") "%20 = range index (%0) {axis=0, sub=[1], kind=lane}\n" FOLD_LOAD
                            "%40 = reduce i32 (%30, %20) {op=add}\n" FOLD_STORE);
}

static void test_GROUP_keeps_a_partial_result_a_work_item_and_folds_them_in_order(void **state) {
    (void)state;
    expect(FOLD("12", "max"), "GROUP:0:4",
           FOLD_PARAMS("12") FOLD_SPLIT("3", "4", "group_reduce") FOLD_LOAD PARTIALS("max")
               FOLD_STORE);
    expect(
        FOLD("12", "add"), "GROUP:0:0",
        FOLD_PARAMS("12") "%20 = range index (%0) {axis=0, sub=[1], kind=group_reduce}\n" FOLD_LOAD
                          "%40 = reduce i32 (%30, %20) {op=add}\n" FOLD_STORE);
}

static void test_GROUPTOP_folds_consecutive_pieces(void **state) {
    (void)state;
    expect(FOLD("12", "add"), "GROUPTOP:0:3",
           FOLD_PARAMS(
               "12") "%3 = const index 3\n%6 = range index (%3) {axis=0, sub=[0], "
                     "kind=group_reduce}\n"
                     "%5 = const index 4\n%4 = range index (%5) {axis=0, sub=[1], kind=reduce}\n"
                     "%7 = mul index (%6, %5)\n%20 = add index (%7, %4)\n" FOLD_LOAD PARTIALS("add")
                         FOLD_STORE);
}

static void test_PADTO_of_a_reduction_folds_the_identity(void **state) {
    (void)state;
    expect(
        FOLD("10", "mul"), "PADTO:0:8",
        FOLD_PARAMS("10") "%3 = const index 16\n%20 = range index (%3) {axis=0, sub=[0], "
                          "kind=reduce}\n%19 = cmplt bool (%20, %0)\n%18 = const i32 1\n" FOLD_GATED
                          "%40 = reduce i32 (%30, %20) {op=mul}\n" FOLD_STORE);
}

/* ---- values ---- */

/* After the options, and again after all the passes behind them. */
static void same(const char *kernel, const char *opts, const int64_t *vals, size_t n_vals) {
    static const char *const targets[] = {"x86-64", "skylake-avx512"};
    for (int t = 0; t < 2; t++) {
        tk_stage s;
        tk_stage_open(&s, kernel, targets[t]);
        s.pass.opts = opts;
        tk_stage_run(&s, "PO");
        assert_string_equal(s.pass.applied, opts);
        tk_stage_same(&s, vals, n_vals);
        tk_stage_run(&s, "GEVDFL");
        tk_stage_same(&s, vals, n_vals);
        tk_stage_close(&s);
    }
}

/* y[i, j] = sum over k of a[i, k] b[k, j], 5 x 9 x 7 */
static const char matmul[] =
    "tolk.uop 1\n%0 = const index 5\n%1 = const index 9\n%2 = const index 7\n"
    "%3 = stack index (%0, %1)\n%4 = stack index (%0, %2)\n%5 = stack index (%2, %1)\n"
    "%6 = param f32 (%3) {slot=0}\n%7 = param f32 (%4) {slot=1}\n%8 = param f32 (%5) {slot=2}\n"
    "%9 = range index (%0) {axis=0, kind=global}\n%10 = range index (%1) {axis=1, kind=global}\n"
    "%11 = range index (%2) {axis=2, kind=reduce}\n%12 = index f32 (%7, %9, %11)\n"
    "%13 = load f32 (%12)\n%14 = index f32 (%8, %11, %10)\n%15 = load f32 (%14)\n"
    "%16 = mul f32 (%13, %15)\n%17 = reduce f32 (%16, %11) {op=add}\n"
    "%18 = index f32 (%6, %9, %10)\n%19 = store void (%18, %17)\n%20 = end void (%19, %9, %10)\n"
    "%21 = sink void (%20) {name=\"matmul\"}\n";

static void test_matmul_is_the_same_under_every_option(void **state) {
    (void)state;
    static const char *const lists[] = {"",
                                        "UPCAST:0:2",
                                        "UPCAST:1:3 UPCAST:0:0",
                                        "LANE:1:4",
                                        "LANE:1:4 UPCAST:0:2 UPCAST:1:2",
                                        "LANE:0:8 UNROLL:2:3",
                                        "LANE:2:4",
                                        "LANE:2:2 UNROLL:3:2",
                                        "UNROLL:2:0",
                                        "GROUPTOP:2:3",
                                        "GROUP:2:3",
                                        "GROUP:2:2 UNROLL:2:2",
                                        "LOCAL:0:2 LOCAL:1:3",
                                        "LOCAL:1:4 UPCAST:1:3 GROUP:3:3",
                                        "LOCAL:1:8 LANE:2:4 GROUPTOP:4:2",
                                        "LOCAL:1:0 LANE:1:8 LOCAL:0:0",
                                        "NOLOCALS LANE:1:4",
                                        "THREAD:0:2 THREAD:2:2",
                                        "SWAP:0:1 LANE:0:4",
                                        "PADTO:0:4 PADTO:1:4 PADTO:2:4",
                                        "LOOP:0 LANE:0:4",
                                        "LOOP:1 UPCAST:0:2 LOOP:0"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        same(matmul, lists[i], NULL, 0);
}

/* n from an argument: y[i] = x[i] + 1, and y[n] = the largest of x. */
static const char symbolic[] =
    "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=100}\n"
    "%1 = cast index (%0)\n%2 = const index 1\n%3 = add index (%1, %2)\n"
    "%4 = param i16 (%3) {slot=0}\n%5 = param i16 (%1) {slot=1}\n"
    "%6 = range index (%1) {axis=0, kind=global}\n%7 = index i16 (%4, %6)\n"
    "%8 = index i16 (%5, %6)\n%9 = load i16 (%8)\n%10 = const i16 1\n%11 = add i16 (%9, %10)\n"
    "%12 = store void (%7, %11)\n%13 = end void (%12, %6)\n"
    "%14 = range index (%1) {axis=1, kind=reduce}\n%15 = index i16 (%5, %14)\n"
    "%16 = load i16 (%15)\n%17 = reduce i16 (%16, %14) {op=max}\n%18 = index i16 (%4, %1)\n"
    "%19 = store void (%18, %17)\n%20 = sink void (%13, %19) {name=\"symbolic\"}\n";

static void test_a_size_that_is_an_argument_is_the_same_at_every_value(void **state) {
    (void)state;
    static const char *const lists[] = {"UPCAST:0:4",
                                        "LANE:0:8",
                                        "LANE:0:4 UPCAST:0:2",
                                        "UNROLL:1:3",
                                        "UNROLL:1:32",
                                        "LANE:1:4 UNROLL:2:2",
                                        "GROUPTOP:1:4",
                                        "THREAD:0:3 LANE:1:4",
                                        "LOOP:0",
                                        "LOCAL:0:8",
                                        "GROUP:1:4",
                                        "LOCAL:0:4 GROUP:2:3 UPCAST:1:2"};
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 33};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            same(symbolic, lists[i], &sizes[k], 1);
}

/* y[i] = table[ids[i]] where ids[i] > 0, else 5; the access is gated already */
static const char gather[] =
    "tolk.uop 1\n%0 = const index 13\n%1 = param f64 (%0) {slot=0}\n%2 = const index 30\n"
    "%3 = param f64 (%2) {slot=1}\n%4 = param i32 (%0) {slot=2}\n"
    "%5 = range index (%0) {axis=0, kind=global}\n%6 = index i32 (%4, %5)\n%7 = load i32 (%6)\n"
    "%8 = cast index (%7)\n%9 = const i32 0\n%10 = cmplt bool (%9, %7)\n"
    "%11 = index f64 (%3, %8)\n%12 = const f64 5\n%13 = load f64 (%11, %12, %10)\n"
    "%14 = index f64 (%1, %5)\n%15 = store void (%14, %13, %10)\n%16 = end void (%15, %5)\n"
    "%17 = sink void (%16) {name=\"gather\"}\n";

static void test_gates_of_the_kernel_stay_beside_those_of_a_split(void **state) {
    (void)state;
    static const char *const lists[] = {"LANE:0:4",  "LANE:0:8 UPCAST:0:2", "UPCAST:0:4",
                                        "PADTO:0:8", "THREAD:0:4",          "LANE:0:16"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        same(gather, lists[i], NULL, 0);
}

/* Loops in order over i < 6 and j < 8 that store to y[%9], y of 60 elements. */
#define ORDERED(place, value)                                                                      \
    "tolk.uop 1\n%0 = const index 6\n%1 = const index 8\n%2 = const index 60\n"                    \
    "%3 = param i32 (%2) {slot=0}\n%4 = range index (%0) {axis=0}\n"                               \
    "%5 = range index (%1) {axis=1}\n" place "%10 = index i32 (%3, %9)\n" value                    \
    "%12 = store void (%10, %11)\n%13 = end void (%12, %4, %5)\n"                                  \
    "%14 = sink void (%13) {name=\"ordered\"}\n"
#define ROWS_OF_8 "%6 = mul index (%4, %1)\n%9 = add index (%6, %5)\n"
#define NUMBER "%15 = add index (%4, %5)\n%16 = mul index (%15, %4)\n%11 = cast i32 (%16)\n"

static void test_ordered_loops_whose_stores_are_apart_are_split(void **state) {
    (void)state;
    static const char *const kernels[] = {
        ORDERED(ROWS_OF_8, NUMBER),
        /* backwards, with room between the rows */
        ORDERED("%6 = const index -9\n%7 = mul index (%4, %6)\n%8 = sub index (%7, %5)\n"
                "%17 = const index 59\n%9 = add index (%17, %8)\n",
                NUMBER),
        /* in place: each element goes on from itself */
        ORDERED(ROWS_OF_8, "%17 = load i32 (%10)\n%18 = mul i32 (%17, %17)\n"
                           "%19 = cast i32 (%4)\n%11 = add i32 (%18, %19)\n"),
    };
    static const char *const lists[] = {"LANE:0:4",   "LANE:1:8",   "UPCAST:0:4",
                                        "UPCAST:1:3", "THREAD:0:2", "LANE:1:4 UPCAST:0:2",
                                        "PADTO:0:4",  "PADTO:1:3",  "UPCAST:0:2 LANE:1:4"};
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            same(kernels[k], lists[i], NULL, 0);
}

/* Narrow sums are folded in f32 and rounded once: with partial results as well. 4097 ones are more
 * than f16 counts one by one. */
static void test_partial_results_of_narrow_sums_are_wide(void **state) {
    (void)state;
    static const char kernel[] =
        "tolk.uop 1\n%0 = const index 5000\n%1 = const index 1\n%2 = const index 0\n"
        "%3 = param f16 (%1) {slot=0}\n%4 = range index (%0) {axis=0, kind=reduce}\n"
        "%5 = const f16 1\n%6 = reduce f16 (%5, %4) {op=add}\n%7 = index f16 (%3, %2)\n"
        "%8 = store void (%7, %6)\n%9 = sink void (%8) {name=\"ones\"}\n";
    static const char *const lists[] = {"UNROLL:0:2", "LANE:0:2", "GROUPTOP:0:2"};
    for (size_t i = 0; i < 3; i++) {
        tk_stage s;
        tk_stage_open(&s, kernel, NULL);
        apply(&s, lists[i]);
        assert_true(tk_stage_find(&s, TK_OP_REDUCE, 0)->dtype == TOLK_F32);
        assert_true(tk_stage_find(&s, TK_OP_REDUCE, 1)->dtype == TOLK_F32);
        tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_UPCAST_splits_an_inner_range_off),
        cmocka_unit_test(test_UPCAST_of_what_does_not_divide_gates_the_added_iterations),
        cmocka_unit_test(test_UPCAST_0_is_the_whole_axis),
        cmocka_unit_test(test_LANE_splits_an_inner_range_of_kind_lane_off),
        cmocka_unit_test(test_THREAD_is_the_outer_loop_of_whole_pieces),
        cmocka_unit_test(test_PADTO_rounds_the_size_up_and_gates),
        cmocka_unit_test(test_LOOP_makes_a_global_axis_a_loop),
        cmocka_unit_test(test_SWAP_exchanges_two_loops_and_their_names),
        cmocka_unit_test(test_UNROLL_keeps_partial_results_and_folds_them_in_order),
        cmocka_unit_test(test_UNROLL_of_what_does_not_divide_folds_the_identity),
        cmocka_unit_test(test_LANE_of_a_reduction_keeps_a_partial_result_a_lane),
        cmocka_unit_test(test_LOCAL_splits_the_work_items_of_a_group_off),
        cmocka_unit_test(test_NOLOCALS_is_noted_in_the_sink),
        cmocka_unit_test(test_GROUP_keeps_a_partial_result_a_work_item_and_folds_them_in_order),
        cmocka_unit_test(test_GROUPTOP_folds_consecutive_pieces),
        cmocka_unit_test(test_PADTO_of_a_reduction_folds_the_identity),
        cmocka_unit_test(test_matmul_is_the_same_under_every_option),
        cmocka_unit_test(test_a_size_that_is_an_argument_is_the_same_at_every_value),
        cmocka_unit_test(test_gates_of_the_kernel_stay_beside_those_of_a_split),
        cmocka_unit_test(test_ordered_loops_whose_stores_are_apart_are_split),
        cmocka_unit_test(test_partial_results_of_narrow_sums_are_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
