/* SPDX-License-Identifier: MIT
 *
 * Sizes that are variables, in every way to run a linear: cases SYM of the collection this project
 * tests against, with the values of each.
 */
#include "realize/ways.h"

/* y[i] = x[i] + 1, i < n. */
#define PLUS_ONE(lo, hi)                                                                           \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=" lo ", max=" hi "}\n"                     \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = index i32 (%3, %4)\n"                                                                    \
    "%6 = load i32 (%5)\n"                                                                         \
    "%7 = const i32 1\n"                                                                           \
    "%8 = add i32 (%6, %7)\n"                                                                      \
    "%9 = index i32 (%2, %4)\n"                                                                    \
    "%10 = store void (%9, %8)\n"                                                                  \
    "%11 = end void (%10, %4)\n"                                                                   \
    "%12 = sink void (%11) {name=\"plus_one\"}\n"
/* Of 0 to 1 with one element in between: what is behind n in each is seen. */
#define TWO_CALLS(most)                                                                            \
    "%20 = const index " most "\n"                                                                 \
    "%30 = buffer i32 (%20) {slot=0}\n"                                                            \
    "%31 = buffer i32 (%20) {slot=1}\n"                                                            \
    "%32 = buffer i32 (%20) {slot=2}\n"                                                            \
    "%40 = call void (%12, %31, %30, %0)\n"                                                        \
    "%41 = call void (%12, %32, %31, %0)\n"

static tolk_run_args of_n(tolk_var *v, int64_t n) {
    *v = (tolk_var){"n", n};
    return with_vars(v, 1);
}

/* Slot 2 is x + 2 for the first n elements, and was not touched behind them. */
static void check_first(int64_t most, int64_t n) {
    int32_t y[128];
    read_ints(bound(most, 2, NULL), y, (size_t)most);
    for (int64_t i = 0; i < most; i++)
        if (y[i] != (i < n ? 3 * (int32_t)i + 2 : -77))
            fail_msg("n is %d: element %d is %d", (int)n, (int)i, y[i]);
}

static void seed_first(int64_t most) {
    (void)seed(most, 0, NULL, 0, 3);
    (void)seed(most, 1, NULL, -5, 0);
    (void)seed(most, 2, NULL, -77, 0);
}

static void test_SYM_01_each_run_has_its_own_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {10, 5, 1, 2, 3, 4};
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        tolk_var v;
        way_open(&w, k, PLUS_ONE("1", "10") TWO_CALLS("10"), "%40, %41", NULL);
        for (int i = 0; i < 6; i++) {
            tolk_run_args a = of_n(&v, sizes[i]);
            seed_first(10);
            way_well(&w, &a);
            check_first(10, sizes[i]);
        }
        way_close(&w);
    }
}

/* n = ceil(ceil(ceil(k / 2) / 2) / 2)^2 elements of 100 are copied, no more and no fewer. */
#define HALVES                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"k\", space=alu, min=33, max=80}\n"                             \
    "%1 = cast index (%0)\n%2 = const index 1\n%3 = const index 2\n"                               \
    "%4 = add index (%1, %2)\n%5 = floordiv index (%4, %3)\n"                                      \
    "%6 = add index (%5, %2)\n%7 = floordiv index (%6, %3)\n"                                      \
    "%8 = add index (%7, %2)\n%9 = floordiv index (%8, %3)\n"                                      \
    "%10 = mul index (%9, %9)\n%11 = param i32 (%10) {slot=0}\n"                                   \
    "%12 = param i32 (%10) {slot=1}\n%13 = range index (%10) {axis=0, kind=global}\n"              \
    "%14 = index i32 (%12, %13)\n%15 = load i32 (%14)\n%16 = index i32 (%11, %13)\n"               \
    "%17 = store void (%16, %15)\n%18 = end void (%17, %13)\n"                                     \
    "%19 = sink void (%18) {name=\"copy\"}\n"                                                      \
    "%20 = const index 101\n"                                                                      \
    "%30 = buffer i32 (%20) {slot=0}\n%31 = buffer i32 (%20) {slot=1}\n"                           \
    "%40 = call void (%19, %31, %30, %0)\n"

static void test_SYM_03_a_size_that_is_an_expression(void **state) {
    (void)state;
    for (way_kind kind = 0; kind < WAYS; kind++) {
        way w;
        way_open(&w, kind, HALVES, "%40", NULL);
        for (int k = 33; k <= 80; k++) {
            int32_t y[101], side = (((k + 1) / 2 + 1) / 2 + 1) / 2;
            tolk_var v = {"k", k};
            tolk_run_args a = with_vars(&v, 1);
            (void)seed(101, 0, NULL, 1, 1);
            (void)seed(101, 1, NULL, -1, 0);
            way_well(&w, &a);
            read_ints(bound(101, 1, NULL), y, 101);
            for (int i = 0; i < 101; i++)
                assert_int_equal(y[i], i < side * side ? i + 1 : -1);
        }
        way_close(&w);
    }
}

/* ---- SYM-05: each error names the variable, and nothing is launched ---- */

static void refused(way *w, const tolk_run_args *a, const char *name) {
    uint64_t before = counters().launches;
    tolk_status st = way_run(w, a);
    if (st != TOLK_E_UNBOUND && st != TOLK_E_LAUNCH && st != TOLK_E_ARG)
        fail_msg("%s: status %d, \"%s\"", way_names[w->kind], (int)st, err.msg);
    check_contains(err.msg, name);
    assert_int_equal(counters().launches, before);
    check_ints(bound(10, 2, NULL), -77, 0);
}

static void refuse_all(way *w) {
    tolk_var v;
    const tolk_var twice[] = {{"n", 2}, {"n", 3}}, other[] = {{"m", 3}};
    refused(w, NULL, "\"n\"");
    tolk_run_args a = of_n(&v, 0);
    refused(w, &a, "\"n\"");
    a = of_n(&v, 11);
    refused(w, &a, "\"n\"");
    a = of_n(&v, INT64_MIN);
    refused(w, &a, "\"n\"");
    a = with_vars(twice, 2);
    refused(w, &a, "\"n\"");
    a = with_vars(other, 1);
    refused(w, &a, "\"n\"");
}

static void test_SYM_05_missing_out_of_bounds_and_double_values(void **state) {
    (void)state;
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, PLUS_ONE("1", "10") TWO_CALLS("10"), "%40, %41", NULL);
        for (int i = 1; i <= 4; i++) { /* before the first run, the capture and two replays */
            tolk_var v;
            seed_first(10);
            refuse_all(&w);
            tolk_run_args a = of_n(&v, i);
            way_well(&w, &a);
            check_first(10, i);
        }
        way_close(&w);
    }
}

/* Kernels whose variables have one name and other bounds: a value must be within all of them. In a
 * call, declarations that differ are refused by the verifier. */
static void test_SYM_05_one_name_with_different_bounds(void **state) {
    (void)state;
    static const char two[] =
        PLUS_ONE("1", "10") "%13 = param i32 {slot=2, name=\"n\", space=alu, min=3, max=20}\n"
                            "%14 = cast index (%13)\n"
                            "%15 = param i32 (%14) {slot=0}\n"
                            "%16 = range index (%14) {axis=0, kind=global}\n"
                            "%17 = index i32 (%15, %16)\n"
                            "%18 = store void (%17, %13)\n"
                            "%19 = end void (%18, %16)\n"
                            "%21 = sink void (%19) {name=\"other\"}\n"
                            "%20 = const index 20\n"
                            "%22 = const index 10\n"
                            "%30 = buffer i32 (%22) {slot=0}\n"
                            "%31 = buffer i32 (%22) {slot=2}\n"
                            "%32 = buffer i32 (%20) {slot=3}\n"
                            "%40 = call void (%12, %31, %30)\n"
                            "%41 = call void (%21, %32)\n";
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, two, "%40, %41", NULL);
        for (int i = 0; i < 4; i++) {
            static const int64_t wrong[] = {2, 11, 20, 1};
            tolk_var v;
            (void)seed(10, 0, NULL, 0, 3);
            (void)seed(10, 2, NULL, -77, 0);
            (void)seed(20, 3, NULL, -77, 0);
            tolk_run_args a = of_n(&v, wrong[i]);
            refused(&w, &a, "\"n\"");
            check_contains(err.msg, i == 0 || i == 3 ? "expected 3 to 20" : "expected 1 to 10");
            a = of_n(&v, 3 + i);
            way_well(&w, &a);
            int32_t y[20];
            read_ints(bound(20, 3, NULL), y, 20);
            for (int e = 0; e < 20; e++)
                assert_int_equal(y[e], e < 3 + i ? 3 + i : -77);
        }
        way_close(&w);
    }
    tolk_linear *l = NULL;
    assert_int_equal(
        linear_try(
            &r,
            rt_text("%s%%900 = linear void (%%42)\n",
                    PLUS_ONE("1", "10") TWO_CALLS(
                        "10") "%50 = param i32 {slot=9, name=\"n\", space=alu, min=1, max=9}\n"
                              "%42 = call void (%12, %31, %30, %0, %50)\n"),
            &l, &err),
        TOLK_E_VERIFY);
    check_contains(err.msg, "\"n\"");
}

/* ---- SYM-07: what loop options make of an axis of that size ---- */

/* y[i] = x[i] + sum of the first n of x, which is a loop of a variable size, too. */
#define SUM_OF_N                                                                                   \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=100}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = range index (%1) {axis=1, kind=reduce}\n"                                                \
    "%6 = index i32 (%3, %5)\n"                                                                    \
    "%7 = load i32 (%6)\n"                                                                         \
    "%8 = reduce i32 (%7, %5) {op=add}\n"                                                          \
    "%9 = index i32 (%3, %4)\n"                                                                    \
    "%10 = load i32 (%9)\n"                                                                        \
    "%11 = add i32 (%10, %8)\n"                                                                    \
    "%12 = index i32 (%2, %4)\n"                                                                   \
    "%13 = store void (%12, %11)\n"                                                                \
    "%14 = end void (%13, %4)\n"                                                                   \
    "%15 = sink void (%14) {name=\"sum_of_n\"}\n"                                                  \
    "%20 = const index 101\n"                                                                      \
    "%30 = buffer i32 (%20) {slot=0}\n%31 = buffer i32 (%20) {slot=1}\n"                           \
    "%40 = call void (%15, %31, %30, %0)\n"

static void sums(way_kind kind, const char *options) {
    way w;
    tolk_compile_opts compile = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    compile.opts = options;
    o.compile = &compile;
    way_open(&w, kind, SUM_OF_N, "%40", &o);
    static const int n[] = {100, 1, 7, 100, 1, 63, 64, 65};
    for (int k = 0; k < 8; k++) {
        int32_t y[101];
        tolk_var v;
        tolk_run_args a = of_n(&v, n[k]);
        (void)seed(101, 0, NULL, 1, 1);
        (void)seed(101, 1, NULL, -1, 0);
        way_well(&w, &a);
        read_ints(bound(101, 1, NULL), y, 101);
        for (int i = 0; i < 101; i++)
            if (y[i] != (i < n[k] ? i + 1 + n[k] * (n[k] + 1) / 2 : -1))
                fail_msg("%s, options \"%s\", n=%d: element %d is %d", way_names[kind],
                         options ? options : "", n[k], i, y[i]);
        check_ints(bound(101, 0, NULL), 1, 1);
    }
    way_close(&w);
}

static void test_SYM_07_options_on_an_axis_of_a_variable_size(void **state) {
    (void)state;
    static const char *const options[] = {NULL,
                                          "UPCAST:0:4",
                                          "LANE:0:8",
                                          "LOCAL:0:4",
                                          "UNROLL:1:4",
                                          "LOOP:0",
                                          "LANE:1:8",
                                          "UPCAST:0:4 UNROLL:2:8",
                                          ""};
    for (way_kind k = 0; k < WAYS; k++)
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            sums(k, options[i]);
    /* What only a constant size can have is refused. */
    way w;
    tolk_var v;
    tolk_compile_opts compile = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    compile.opts = "PADTO:0:32";
    o.compile = &compile;
    tolk_run_args a = of_n(&v, 7);
    for (way_kind k = 0; k < WAYS; k++) {
        way_open(&w, k, SUM_OF_N, "%40", &o);
        assert_int_not_equal(way_run(&w, &a), TOLK_OK);
        check_contains(err.msg, "PADTO:0:32: the axis needs a constant size");
        way_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_SYM_01_each_run_has_its_own_size),
        TEST(test_SYM_03_a_size_that_is_an_expression),
        TEST(test_SYM_05_missing_out_of_bounds_and_double_values),
        TEST(test_SYM_05_one_name_with_different_bounds),
        TEST(test_SYM_07_options_on_an_axis_of_a_variable_size),
    };
    return cmocka_run_group_tests_name("case_sym", tests, NULL, NULL);
}
