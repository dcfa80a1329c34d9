/* SPDX-License-Identifier: MIT
 *
 * Which loop options kernels get when nobody names any, at 16, 32 and 64 bytes a vector; that they
 * are options anybody could name, and change no value.
 */
#include "support/tk_stage.h"

#include "base/strbuf.h"
#include "jit/pipeline.h"

#include <string.h>

static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512"};

static void check(const char *text, bool strict, const char *target, const char *want,
                  const int64_t *vals, size_t n_vals) {
    tk_stage s;
    tk_stage_open(&s, text, target);
    s.pass.strict = strict;
    tk_stage_run(&s, "P");
    const tolk_uop *prepared = s.root;
    tk_stage_run(&s, "O");
    if (strcmp(s.pass.applied, want) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"\n%s", target, s.pass.applied, want, text);
    /* named, they give the same graph */
    const tolk_uop *chosen = s.root;
    char *named = s.pass.applied;
    s.root = prepared;
    s.pass.opts = named;
    tk_stage_run(&s, "O");
    assert_ptr_equal(s.root, chosen);
    assert_string_equal(s.pass.applied, named);
    tk_strbuf_text_free(s.pass.g->al, named);
    s.pass.opts = NULL;
    tk_stage_same(&s, vals, n_vals);
    tk_stage_run(&s, "GEVDFL");
    tk_stage_same(&s, vals, n_vals);
    tk_stage_close(&s);
}

static void chosen(const char *text, const char *sse2, const char *avx2, const char *avx512) {
    const char *const want[] = {sse2, avx2, avx512};
    for (int t = 0; t < 3; t++)
        check(text, false, targets[t], want[t], NULL, 0);
}

/* y[%5] = %8 for i < n, x[%6] being %7; %4 is i */
#define MAP(n, size, x_dtype, y_dtype, places, value)                                              \
    "tolk.uop 1\n%0 = const index " n "\n%1 = const index " size "\n%2 = param " y_dtype           \
    " (%1) {slot=0}\n%3 = param " x_dtype                                                          \
    " (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n" places "%20 = index " y_dtype  \
    " (%2, %5)\n%21 = index " x_dtype " (%3, %6)\n%7 = load " x_dtype " (%21)\n" value             \
    "%22 = store void (%20, %8)\n%23 = end void (%22, %4)\n"                                       \
    "%24 = sink void (%23) {name=\"map\"}\n"
#define PLACE(y, x)                                                                                \
    "%30 = const index 0\n%5 = add index (%30, " y ")\n%6 = add index (%30, " x ")\n"
#define TWICE "%31 = const index 2\n%32 = mul index (%4, %31)\n"
#define ADD(dtype) "%8 = add " dtype " (%7, %7)\n"

static void test_contiguous_loops_get_full_vectors_and_four_of_them(void **state) {
    (void)state;
    chosen(MAP("1000", "1000", "f32", "f32", PLACE("%4", "%4"), ADD("f32")), "LANE:0:4 UPCAST:0:4",
           "LANE:0:8 UPCAST:0:4", "LANE:0:16 UPCAST:0:4");
    chosen(MAP("1000", "1000", "f64", "f64", PLACE("%4", "%4"), ADD("f64")), "LANE:0:2 UPCAST:0:4",
           "LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4");
    chosen(MAP("1000", "1000", "u8", "u8", PLACE("%4", "%4"), ADD("u8")), "LANE:0:16 UPCAST:0:4",
           "LANE:0:32 UPCAST:0:4", "LANE:0:64 UPCAST:0:4");
    chosen(MAP("1000", "1000", "i16", "i16", PLACE("%4", "%4"), ADD("i16")), "LANE:0:8 UPCAST:0:4",
           "LANE:0:16 UPCAST:0:4", "LANE:0:32 UPCAST:0:4");
    /* the widest element decides */
    chosen(MAP("1000", "1000", "u8", "f64", PLACE("%4", "%4"), "%8 = cast f64 (%7)\n"),
           "LANE:0:2 UPCAST:0:4", "LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4");
}

static void test_long_bodies_get_two_vectors(void **state) {
    (void)state;
    chosen(MAP("1000", "1000", "f32", "f32", PLACE("%4", "%4"), "%8 = exp f32 (%7)\n"),
           "LANE:0:4 UPCAST:0:2", "LANE:0:8 UPCAST:0:2", "LANE:0:16 UPCAST:0:2");
}

static void test_lanes_are_no_more_than_there_are_iterations(void **state) {
    (void)state;
    static const char one[] = MAP("1", "1", "f32", "f32", PLACE("%4", "%4"), ADD("f32"));
    static const char three[] = MAP("3", "3", "f32", "f32", PLACE("%4", "%4"), ADD("f32"));
    static const char seven[] = MAP("7", "7", "f32", "f32", PLACE("%4", "%4"), ADD("f32"));
    static const char fifty[] = MAP("50", "50", "f32", "f32", PLACE("%4", "%4"), ADD("f32"));
    chosen(one, "", "", "");
    chosen(three, "LANE:0:4", "LANE:0:4", "LANE:0:4");
    chosen(seven, "LANE:0:4", "LANE:0:8", "LANE:0:8");
    /* eight vectors at least for four at once */
    chosen(fifty, "LANE:0:4 UPCAST:0:4", "LANE:0:8", "LANE:0:16");
}

static void test_what_is_loaded_may_be_anywhere(void **state) {
    (void)state;
    /* every second element */
    chosen(MAP("500", "1000", "i32", "i32", TWICE PLACE("%4", "%32"), ADD("i32")),
           "LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4", "LANE:0:16 UPCAST:0:4");
    /* backwards */
    chosen(MAP("1000", "1000", "i32", "i32",
               "%31 = const index 999\n%32 = sub index (%31, %4)\n" PLACE("%4", "%32"), ADD("i32")),
           "LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4", "LANE:0:16 UPCAST:0:4");
    /* where data say */
    chosen("tolk.uop 1\n%0 = const index 200\n%1 = param f32 (%0) {slot=0}\n"
           "%2 = param f32 (%0) {slot=1}\n%3 = param u8 (%0) {slot=2}\n"
           "%4 = range index (%0) {axis=0, kind=global}\n%5 = index u8 (%3, %4)\n"
           "%6 = load u8 (%5)\n%7 = cast index (%6)\n%8 = index f32 (%2, %7)\n%9 = load f32 (%8)\n"
           "%10 = index f32 (%1, %4)\n%11 = store void (%10, %9)\n%12 = end void (%11, %4)\n"
           "%13 = sink void (%12) {name=\"gather\"}\n",
           "LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4", "LANE:0:16 UPCAST:0:4");
}

static void test_what_is_stored_moves_by_one_or_there_are_no_lanes(void **state) {
    (void)state;
    chosen(MAP("500", "1000", "i32", "i32", TWICE PLACE("%32", "%4"), ADD("i32")), "", "", "");
    chosen(MAP("1000", "1000", "i32", "i32",
               "%31 = const index 999\n%32 = sub index (%31, %4)\n" PLACE("%32", "%4"), ADD("i32")),
           "", "", "");
}

/* y[i + 1] = y[i] + 1 in order */
static void test_a_loop_in_order_stays(void **state) {
    (void)state;
    chosen("tolk.uop 1\n%0 = const index 200\n%1 = const index 199\n%2 = param i32 (%0) {slot=0}\n"
           "%3 = range index (%1) {axis=0}\n%4 = index i32 (%2, %3)\n%5 = load i32 (%4)\n"
           "%6 = const i32 1\n%7 = add i32 (%5, %6)\n%8 = const index 1\n%9 = add index (%3, %8)\n"
           "%10 = index i32 (%2, %9)\n%11 = store void (%10, %7)\n%12 = end void (%11, %3)\n"
           "%13 = sink void (%12) {name=\"chain\"}\n",
           "", "", "");
}

static void test_the_axis_along_the_stored_rows_gets_the_lanes(void **state) {
    (void)state;
    /* y[i, j] = x[j, i], 80 x 90 */
    chosen("tolk.uop 1\n%0 = const index 80\n%1 = const index 90\n%2 = stack index (%0, %1)\n"
           "%3 = stack index (%1, %0)\n%4 = param f32 (%2) {slot=0}\n%5 = param f32 (%3) {slot=1}\n"
           "%6 = range index (%0) {axis=0, kind=global}\n"
           "%7 = range index (%1) {axis=1, kind=global}\n%8 = index f32 (%5, %7, %6)\n"
           "%9 = load f32 (%8)\n%10 = index f32 (%4, %6, %7)\n%11 = store void (%10, %9)\n"
           "%12 = end void (%11, %6, %7)\n%13 = sink void (%12) {name=\"transpose\"}\n",
           "LANE:1:4 UPCAST:1:4", "LANE:1:8 UPCAST:1:4", "LANE:1:16");
}

/* ---- reductions ---- */

#define SUM(n, dtype, op)                                                                          \
    "tolk.uop 1\n%0 = const index " n                                                              \
    "\n%1 = const index 1\n%2 = const index 0\n%3 = param " dtype                                  \
    " (%1) {slot=0}\n%4 = param " dtype " (%0) {slot=1}\n"                                         \
    "%5 = range index (%0) {axis=0, kind=reduce}\n%6 = index " dtype " (%4, %5)\n%7 = load " dtype \
    " (%6)\n%8 = reduce " dtype " (%7, %5) {op=" op "}\n%9 = index " dtype " (%3, %2)\n"           \
    "%10 = store void (%9, %8)\n%11 = sink void (%10) {name=\"sum\"}\n"

static void test_reductions_get_lanes_and_several_accumulators(void **state) {
    (void)state;
    chosen(SUM("1024", "f32", "add"), "LANE:0:4 UNROLL:1:8", "LANE:0:8 UNROLL:1:8",
           "LANE:0:16 UNROLL:1:8");
    chosen(SUM("100", "i32", "max"), "LANE:0:4 UNROLL:1:4", "LANE:0:8 UNROLL:1:4", "LANE:0:16");
    chosen(SUM("3", "i32", "add"), "", "", "");
}

static void test_strict_keeps_float_sums_in_order(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        static const char *const max[] = {"LANE:0:4 UNROLL:1:8", "LANE:0:8 UNROLL:1:8",
                                          "LANE:0:16 UNROLL:1:8"};
        check(SUM("1024", "f32", "add"), true, targets[t], "", NULL, 0);
        check(SUM("1024", "f32", "max"), true, targets[t], max[t], NULL, 0);
        check(SUM("1024", "i32", "add"), true, targets[t], max[t], NULL, 0);
    }
}

static void test_long_reductions_to_few_results_get_pieces(void **state) {
    (void)state;
    chosen(SUM("262144", "i32", "add"), "GROUPTOP:0:64 LANE:1:4 UNROLL:2:8",
           "GROUPTOP:0:64 LANE:1:8 UNROLL:2:8", "GROUPTOP:0:64 LANE:1:16 UNROLL:2:8");
    /* a prime: 32 pieces, the last of them shorter */
    chosen(SUM("262147", "i32", "add"), "GROUPTOP:0:32 LANE:1:4 UNROLL:2:8",
           "GROUPTOP:0:32 LANE:1:8 UNROLL:2:8", "GROUPTOP:0:32 LANE:1:16 UNROLL:2:8");
    chosen(SUM("262143", "i32", "add"), "LANE:0:4 UNROLL:1:8", "LANE:0:8 UNROLL:1:8",
           "LANE:0:16 UNROLL:1:8");
}

/* y[i] = sum over k of x[i, k], or of x[k, i], 40 x 256 */
#define ROWS(shape, i, k)                                                                          \
    "tolk.uop 1\n%0 = const index 40\n%1 = const index 256\n%2 = stack index " shape               \
    "\n%3 = param f32 (%0) {slot=0}\n%4 = param f32 (%2) {slot=1}\n"                               \
    "%5 = range index (%0) {axis=0, kind=global}\n%6 = range index (%1) {axis=1, kind=reduce}\n"   \
    "%7 = index f32 (%4, " i ", " k ")\n%8 = load f32 (%7)\n%9 = reduce f32 (%8, %6) {op=add}\n"   \
    "%10 = index f32 (%3, %5)\n%11 = store void (%10, %9)\n%12 = end void (%11, %5)\n"             \
    "%13 = sink void (%12) {name=\"rows\"}\n"

static void test_lanes_follow_memory_through_a_fold(void **state) {
    (void)state;
    static const char along[] = ROWS("(%0, %1)", "%5", "%6"),
                      across[] = ROWS("(%1, %0)", "%6", "%5");
    chosen(along, "LANE:1:4 UNROLL:2:8", "LANE:1:8 UNROLL:2:4", "LANE:1:16 UNROLL:2:4");
    chosen(across, "LANE:0:4", "LANE:0:8", "LANE:0:16");
}

/* 64 x 64 x 64 */
static const char product[] =
    "tolk.uop 1\n%0 = const index 64\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
    "%3 = param f32 (%1) {slot=1}\n%4 = param f32 (%1) {slot=2}\n"
    "%5 = range index (%0) {axis=0, kind=global}\n"
    "%6 = range index (%0) {axis=1, kind=global}\n"
    "%7 = range index (%0) {axis=2, kind=reduce}\n%8 = index f32 (%3, %5, %7)\n"
    "%9 = load f32 (%8)\n%10 = index f32 (%4, %7, %6)\n%11 = load f32 (%10)\n"
    "%12 = mul f32 (%9, %11)\n%13 = reduce f32 (%12, %7) {op=add}\n"
    "%14 = index f32 (%2, %5, %6)\n%15 = store void (%14, %13)\n"
    "%16 = end void (%15, %5, %6)\n%17 = sink void (%16) {name=\"product\"}\n";

static void test_a_matrix_product_gets_a_tile_of_registers(void **state) {
    (void)state;
    chosen(product, "LANE:1:4 UPCAST:0:4 UPCAST:1:2", "LANE:1:8 UPCAST:0:4 UPCAST:1:2",
           "LANE:1:16 UPCAST:0:8 UPCAST:1:2");
}

static void test_a_size_that_is_an_argument_counts_as_long(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=100}\n"
        "%1 = cast index (%0)\n%2 = param f32 (%1) {slot=0}\n%3 = param f32 (%1) {slot=1}\n"
        "%4 = range index (%1) {axis=0, kind=global}\n%5 = index f32 (%2, %4)\n"
        "%6 = index f32 (%3, %4)\n%7 = load f32 (%6)\n%8 = add f32 (%7, %7)\n"
        "%9 = store void (%5, %8)\n%10 = end void (%9, %4)\n%11 = sink void (%10) "
        "{name=\"twice\"}\n";
    static const char *const want[] = {"LANE:0:4 UPCAST:0:4", "LANE:0:8 UPCAST:0:4",
                                       "LANE:0:16 UPCAST:0:4"};
    static const int64_t sizes[] = {0, 1, 31, 32, 33, 64, 100};
    for (int t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check(text, false, targets[t], want[t], &sizes[i], 1);
}

/* ---- memory ---- */

typedef struct choice {
    const tk_stage *s;
    const char *want;
} choice;

static tolk_status choose(const tolk_allocator *al, void *user) {
    const choice *c = user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_pipeline p;
    opts.allocator = al;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    st = tk_pipeline_run(ctx, c->s->given, NULL, &c->s->target, TOLK_BOUNDS_CHECK, false,
                         TK_PIPELINE_OPT, &p, NULL);
    if (st == TOLK_OK)
        assert_string_equal(p.pass.applied, c->want);
    tk_pipeline_fini(&p);
    tolk_ctx_destroy(ctx);
    return st;
}

/* Code with fewer options would sum floats in another order, and stay in the cache. */
static void test_out_of_memory_is_an_error_and_never_another_choice(void **state) {
    (void)state;
    static const char sum[] = ROWS("(%0, %1)", "%5", "%6");
    static const struct {
        const char *text, *want;
    } runs[] = {{product, "LANE:1:8 UPCAST:0:4 UPCAST:1:2"}, {sum, "LANE:1:8 UNROLL:2:4"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        tk_stage s;
        tk_stage_open(&s, runs[i].text, NULL);
        choice c = {&s, runs[i].want};
        assert_true(tk_test_oom(choose, &c) > 100);
        tk_stage_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contiguous_loops_get_full_vectors_and_four_of_them),
        cmocka_unit_test(test_long_bodies_get_two_vectors),
        cmocka_unit_test(test_lanes_are_no_more_than_there_are_iterations),
        cmocka_unit_test(test_what_is_loaded_may_be_anywhere),
        cmocka_unit_test(test_what_is_stored_moves_by_one_or_there_are_no_lanes),
        cmocka_unit_test(test_a_loop_in_order_stays),
        cmocka_unit_test(test_the_axis_along_the_stored_rows_gets_the_lanes),
        cmocka_unit_test(test_reductions_get_lanes_and_several_accumulators),
        cmocka_unit_test(test_strict_keeps_float_sums_in_order),
        cmocka_unit_test(test_long_reductions_to_few_results_get_pieces),
        cmocka_unit_test(test_lanes_follow_memory_through_a_fold),
        cmocka_unit_test(test_a_matrix_product_gets_a_tile_of_registers),
        cmocka_unit_test(test_a_size_that_is_an_argument_counts_as_long),
        cmocka_unit_test(test_out_of_memory_is_an_error_and_never_another_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
