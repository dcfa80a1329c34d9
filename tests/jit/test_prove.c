/* SPDX-License-Identifier: MIT
 *
 * pass_prove: accesses that are surely inside their buffer are marked, others keep what finds them.
 */
#include "support/tk_stage.h"

/* Accesses of the param of a slot that are marked inbounds, and those that are not. */
static void marks(const tk_stage *s, tk_op op, int64_t slot, size_t yes, size_t no) {
    size_t have[2] = {0, 0};
    const tolk_uop *u;
    for (size_t i = 0; (u = tk_stage_find(s, op, i)); i++) {
        const tolk_uop *b = tk_access_buffer(u->src[0]);
        if (tk_uop_is(b, TK_OP_PARAM) && tk_uop_int(b, TK_A_PARAM_SLOT) == slot)
            have[u->attr[0].i != 0]++;
    }
    assert_int_equal(have[1], yes);
    assert_int_equal(have[0], no);
}

static tk_stage proved(const char *text, tolk_bounds bounds, const int64_t *vals, size_t n_vals) {
    tk_stage s;
    tk_stage_open(&s, text, NULL);
    s.pass.bounds = bounds;
    tk_stage_run(&s, "PV");
    if (bounds == TOLK_BOUNDS_CHECK)
        tk_stage_same(&s, vals, n_vals);
    return s;
}

/* y[i] = x[index %20] over i < 10, x of 12; both where %21 */
#define COPY(more, places)                                                                         \
    "tolk.uop 1\n%0 = const index 10\n%1 = const index 12\n%2 = param i32 (%0) {slot=0}\n"         \
    "%3 = param i32 (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"                  \
    "%5 = index i32 (%2, %4)\n" more "%6 = index i32 (%3, %20)\n" places                           \
    "%9 = end void (%8, %4)\n%10 = sink void (%9) {name=\"copy\"}\n"
#define PLAIN "%7 = load i32 (%6)\n%8 = store void (%5, %7)\n"
#define GATED "%22 = const i32 9\n%7 = load i32 (%6, %22, %21)\n%8 = store void (%5, %7)\n"

static void test_bounds_of_loops_prove_accesses(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool inside;
    } cases[] = {
        {COPY("%19 = const index 2\n%20 = add index (%4, %19)\n", PLAIN), true},
        {COPY("%19 = const index 3\n%20 = add index (%4, %19)\n", PLAIN), false},
        {COPY("%19 = const index -1\n%20 = add index (%4, %19)\n", PLAIN), false},
        {COPY("%19 = const index 11\n%20 = sub index (%19, %4)\n", PLAIN), true},
        {COPY("%19 = const index 8\n%20 = sub index (%19, %4)\n", PLAIN), false},
        {COPY("%19 = const index 7\n%18 = mul index (%4, %19)\n%20 = floormod index (%18, %1)\n",
              PLAIN),
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tk_stage s = proved(cases[i].text, TOLK_BOUNDS_CHECK, NULL, 0);
        marks(&s, TK_OP_STORE, 0, 1, 0);
        marks(&s, TK_OP_LOAD, 1, cases[i].inside, !cases[i].inside);
        tk_stage_close(&s);
    }
}

static void test_gates_prove_accesses(void **state) {
    (void)state;
    /* x[i - 1] where 0 < i; x[i + 3] where i < 9, and where i < 10, which is no help */
    tk_stage s =
        proved(COPY("%19 = const index -1\n%20 = add index (%4, %19)\n%18 = const index 0\n"
                    "%21 = cmplt bool (%18, %4)\n",
                    GATED),
               TOLK_BOUNDS_CHECK, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 1, 0);
    tk_stage_close(&s);
    s = proved(COPY("%19 = const index 3\n%20 = add index (%4, %19)\n%18 = const index 9\n"
                    "%21 = cmplt bool (%4, %18)\n",
                    GATED),
               TOLK_BOUNDS_CHECK, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 1, 0);
    tk_stage_close(&s);
    s = proved(COPY("%19 = const index 4\n%20 = add index (%4, %19)\n%18 = const index 9\n"
                    "%21 = cmplt bool (%4, %18)\n",
                    GATED),
               TOLK_BOUNDS_CHECK, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 0, 1);
    tk_stage_close(&s);
}

/* A size that is an argument bounds loops over it. */
static void test_symbolic_sizes_prove_accesses(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=50}\n"
        "%1 = cast index (%0)\n%2 = const index 1\n%3 = add index (%1, %2)\n"
        "%4 = param i32 (%1) {slot=0}\n%5 = param i32 (%3) {slot=1}\n"
        "%6 = range index (%1) {axis=0, kind=global}\n%7 = index i32 (%4, %6)\n"
        "%8 = index i32 (%5, %6)\n%9 = add index (%6, %2)\n%10 = index i32 (%5, %9)\n"
        "%11 = add index (%9, %2)\n%12 = index i32 (%5, %11)\n%13 = load i32 (%8)\n"
        "%14 = load i32 (%10)\n%15 = load i32 (%12)\n%16 = add i32 (%13, %14)\n"
        "%17 = add i32 (%16, %15)\n%18 = store void (%7, %17)\n%19 = end void (%18, %6)\n"
        "%20 = sink void (%19) {name=\"three\"}\n";
    for (int64_t n = 0; n < 50; n += 7) {
        tk_stage s = proved(text, TOLK_BOUNDS_CHECK, &n, 1);
        marks(&s, TK_OP_STORE, 0, 1, 0);
        marks(&s, TK_OP_LOAD, 1, 2, 1); /* i and i + 1, but not i + 2 */
        tk_stage_close(&s);
    }
}

#define DATA                                                                                       \
    "%30 = param i32 (%0) {slot=2}\n%31 = index i32 (%30, %4)\n%32 = load i32 (%31)\n"             \
    "%20 = cast index (%32)\n"

static void test_indices_that_are_data_are_proved_by_nothing_but_trust(void **state) {
    (void)state;
    tk_stage s = proved(COPY(DATA, PLAIN), TOLK_BOUNDS_CHECK, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 0, 1);
    marks(&s, TK_OP_LOAD, 2, 1, 0);
    tk_stage_close(&s);
    s = proved(COPY(DATA, PLAIN), TOLK_BOUNDS_TRUST, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 1, 0);
    marks(&s, TK_OP_LOAD, 2, 1, 0);
    marks(&s, TK_OP_STORE, 0, 1, 0);
    tk_stage_close(&s);
}

/* What a kernel says about itself is not a proof; what it says about caches stays. */
static void test_marks_of_the_kernel_as_given_are_not_believed(void **state) {
    (void)state;
    tk_stage s = proved(COPY(DATA, "%7 = load i32 (%6) {inbounds=true}\n"
                                   "%8 = store void (%5, %7) {stream=true}\n"),
                        TOLK_BOUNDS_CHECK, NULL, 0);
    marks(&s, TK_OP_LOAD, 1, 0, 1);
    assert_int_equal(tk_uop_int(tk_stage_find(&s, TK_OP_STORE, 0), TK_A_STORE_STREAM), 1);
    tk_stage_close(&s);
}

/* y[i] = x[i, ids[i]], x of 10 x 5: an id of 5 to 9 is outside, although its element of the flat
 * array is not. */
static const char rows[] =
    "tolk.uop 1\n%0 = const index 10\n%1 = const index 5\n%2 = stack index (%0, %1)\n"
    "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n%5 = param i32 (%0) {slot=2}\n"
    "%6 = range index (%0) {axis=0, kind=global}\n%7 = index i32 (%5, %6)\n%8 = load i32 (%7)\n"
    "%9 = cast index (%8)\n%10 = index i32 (%4, %6, %9)\n%11 = load i32 (%10)\n"
    "%12 = index i32 (%3, %6)\n%13 = store void (%12, %11)\n%14 = end void (%13, %6)\n"
    "%15 = sink void (%14) {name=\"rows\"}\n";

static void test_one_bad_dimension_puts_the_place_outside_of_the_flat_array(void **state) {
    (void)state;
    static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512"};
    for (int t = 0; t < 3; t++) {
        tk_stage s;
        tk_stage_open(&s, rows, targets[t]);
        s.pass.opts = t ? "LANE:0:4" : "";
        tk_stage_run(&s, "POV");
        marks(&s, TK_OP_LOAD, 1, 0, 1);
        tk_stage_same(&s, NULL, 0);
        tk_stage_run(&s, "DF");
        assert_int_equal(tk_stage_find(&s, TK_OP_INDEX, 0)->n_src, 2);
        tk_stage_same(&s, NULL, 0);
        tk_stage_run(&s, "L");
        tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

/* Stored to there, the place is dropped, and nothing else is touched. */
static void test_stores_outside_in_one_dimension_are_dropped(void **state) {
    (void)state;
    tk_stage s;
    tk_stage_open(&s,
                  "tolk.uop 1\n%0 = const index 10\n%1 = const index 5\n%2 = stack index (%0, %1)\n"
                  "%3 = param i32 (%2) {slot=0}\n%4 = param i32 (%0) {slot=1}\n"
                  "%5 = range index (%0) {axis=0}\n%6 = index i32 (%4, %5)\n%7 = load i32 (%6)\n"
                  "%8 = cast index (%7)\n%9 = index i32 (%3, %8, %8)\n%10 = store void (%9, %7)\n"
                  "%11 = end void (%10, %5)\n%12 = sink void (%11) {name=\"scatter\"}\n",
                  NULL);
    s.pass.opts = "";
    tk_stage_run(&s, "POV");
    marks(&s, TK_OP_STORE, 0, 0, 1);
    tk_stage_same(&s, NULL, 0);
    tk_stage_run(&s, "DFL");
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_of_loops_prove_accesses),
        cmocka_unit_test(test_gates_prove_accesses),
        cmocka_unit_test(test_symbolic_sizes_prove_accesses),
        cmocka_unit_test(test_indices_that_are_data_are_proved_by_nothing_but_trust),
        cmocka_unit_test(test_marks_of_the_kernel_as_given_are_not_believed),
        cmocka_unit_test(test_one_bad_dimension_puts_the_place_outside_of_the_flat_array),
        cmocka_unit_test(test_stores_outside_in_one_dimension_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
