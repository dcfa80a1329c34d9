/* SPDX-License-Identifier: MIT
 *
 * What holds in every way to run a linear: which argument and which value is whose, sizes of grids
 * that are variables, buffers that are made on demand, and sums and running sums of new data.
 */
#include "realize/ways.h"

/* y[i] = 100 a + b, where the names are not in the order of the slots, and y is the last slot. */
static void test_values_are_by_name(void **state) {
    (void)state;
    static const char nodes[] = "tolk.uop 1\n"
                                "%0 = const index 16\n"
                                "%1 = param i32 (%0) {slot=9, name=\"y\"}\n"
                                "%2 = param i32 {slot=2, name=\"b\", space=alu}\n"
                                "%3 = param i32 {slot=5, name=\"a\", space=alu}\n"
                                "%4 = range index (%0) {axis=0, kind=global}\n"
                                "%5 = const i32 100\n"
                                "%6 = mul i32 (%3, %5)\n"
                                "%7 = add i32 (%6, %2)\n"
                                "%8 = index i32 (%1, %4)\n"
                                "%9 = store void (%8, %7)\n"
                                "%10 = end void (%9, %4)\n"
                                "%11 = sink void (%10) {name=\"both\"}\n"
                                "%30 = buffer i32 (%0) {slot=0}\n"
                                "%31 = buffer i32 (%0) {slot=1}\n"
                                "%32 = const i32 4\n"
                                "%33 = bind i32 (%2, %32)\n"
                                "%40 = call void (%11, %30)\n"
                                "%41 = call void (%11, %3, %31, %2)\n"
                                "%42 = call void (%11, %33, %31)\n";
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, nodes, "%40, %41", NULL);
        (void)seed(16, 0, NULL, 0, 0);
        (void)seed(16, 1, NULL, 0, 0);
        for (int i = 1; i <= 4; i++) {
            const tolk_var v[] = {{"b", 10 + i}, {"a", i}}, swapped[] = {{"a", i}, {"b", 10 + i}};
            tolk_run_args a = with_vars(i % 2 ? v : swapped, 2);
            way_well(&w, &a);
            check_ints(bound(16, 0, NULL), 100 * i + 10 + i, 0);
            check_ints(bound(16, 1, NULL), 100 * i + 10 + i, 0);
        }
        way_close(&w);
        /* One is bound by the call. */
        way_open(&w, k, nodes, "%42", NULL);
        (void)seed(16, 1, NULL, 0, 0);
        for (int i = 1; i <= 4; i++) {
            const tolk_var v = {"a", i};
            tolk_run_args a = with_vars(&v, 1);
            way_well(&w, &a);
            check_ints(bound(16, 1, NULL), 100 * i + 4, 0);
        }
        way_close(&w);
    }
}

/* y = 0 p + q, whose p no code is left of, in slots 7 (y), 3 (p) and 5 (q): in a chain, whose order
 * follows from which buffer is written. */
static void test_buffers_are_by_slot_also_where_one_is_not_needed(void **state) {
    (void)state;
    static const char nodes[] = "tolk.uop 1\n"
                                "%0 = const index 48\n"
                                "%1 = param i32 (%0) {slot=7}\n"
                                "%2 = param i32 (%0) {slot=3}\n"
                                "%3 = param i32 (%0) {slot=5}\n"
                                "%4 = range index (%0) {axis=0, kind=global}\n"
                                "%5 = index i32 (%2, %4)\n"
                                "%6 = load i32 (%5)\n"
                                "%7 = const i32 0\n"
                                "%8 = mul i32 (%6, %7)\n"
                                "%9 = index i32 (%3, %4)\n"
                                "%10 = load i32 (%9)\n"
                                "%11 = add i32 (%8, %10)\n"
                                "%12 = const i32 1\n"
                                "%13 = add i32 (%11, %12)\n"
                                "%14 = index i32 (%1, %4)\n"
                                "%15 = store void (%14, %13)\n"
                                "%16 = end void (%15, %4)\n"
                                "%17 = sink void (%16) {name=\"next\"}\n"
                                "%30 = buffer i32 (%0) {slot=0}\n"
                                "%31 = buffer i32 (%0) {slot=1}\n"
                                "%32 = buffer i32 (%0) {slot=2}\n"
                                "%33 = buffer i32 (%0) {slot=3}\n"
                                "%34 = buffer i32 (%0) {slot=4}\n"
                                "%40 = call void (%17, %34, %30, %31)\n"  /* 31 = 30 + 1 */
                                "%41 = call void (%17, %34, %31, %32)\n"  /* 32 = 31 + 1 */
                                "%42 = call void (%17, %34, %32, %31)\n"  /* 31 = 32 + 1 */
                                "%43 = call void (%17, %34, %31, %33)\n"; /* 33 = 31 + 1 */
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, nodes, "%40, %41, %42, %43", NULL);
        (void)seed(48, 4, NULL, 1000, 1000);
        (void)seed(48, 3, NULL, -1, 0);
        for (int i = 0; i < 5; i++) {
            (void)seed(48, 0, NULL, i, 2);
            way_well(&w, NULL);
            check_ints(bound(48, 3, NULL), i + 4, 2);
        }
        way_close(&w);
    }
}

/* A grid of n groups of 4 work-items: y[4 g + l] = n. */
static void test_grids_whose_size_is_a_variable(void **state) {
    (void)state;
    static const char nodes[] = "tolk.uop 1\n"
                                "%0 = const index 40\n"
                                "%1 = param i32 (%0) {slot=0}\n"
                                "%2 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=10}\n"
                                "%3 = cast index (%2)\n"
                                "%4 = special index (%3) {name=\"gidx0\"}\n"
                                "%5 = const index 4\n"
                                "%6 = special index (%5) {name=\"lidx0\"}\n"
                                "%7 = mul index (%4, %5)\n"
                                "%8 = add index (%7, %6)\n"
                                "%9 = index i32 (%1, %8)\n"
                                "%10 = store void (%9, %2)\n"
                                "%11 = sink void (%10) {name=\"grid\"}\n"
                                "%30 = buffer i32 (%0) {slot=0}\n"
                                "%31 = buffer i32 (%0) {slot=1}\n"
                                "%40 = call void (%11, %30, %2)\n"
                                "%41 = call void (%11, %31, %2)\n";
    static const int sizes[] = {2, 6, 4, 3, 5, 9, 2, 6};
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, nodes, "%40, %41", NULL);
        for (int i = 0; i < 8; i++) {
            tolk_var v = {"n", sizes[i]};
            tolk_run_args a = with_vars(&v, 1);
            for (int s = 0; s < 2; s++)
                (void)seed(40, s, NULL, -1, 0);
            way_well(&w, &a);
            for (int s = 0; s < 2; s++) {
                int32_t y[40];
                read_ints(bound(40, s, NULL), y, 40);
                for (int e = 0; e < 40; e++)
                    assert_int_equal(y[e], e < 4 * sizes[i] ? sizes[i] : -1);
            }
        }
        way_close(&w);
    }
}

/* What was made on demand and is taken away is made again, and noticed by what was recorded. */
static void test_buffers_that_are_made_again(void **state) {
    (void)state;
    static const char nodes[] = MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                            "%41 = call void (%20, %32, %31, %30)\n";
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    for (way_kind k = 0; k < WAY_JIT; k++) {
        way w;
        way_open(&w, k, nodes, "%40, %41", NULL);
        for (int i = 0; i < 6; i++) {
            if (i == 2 || i == 4)
                tolk_bindings_remove(b, buffer_node(g, 48, 1, NULL));
            if (i == 3 || i == 4)
                tolk_bindings_remove(b, buffer_node(g, 48, 2, NULL));
            if (i == 5)
                tolk_bindings_clear(b);
            (void)seed(48, 0, NULL, i, 1);
            way_well(&w, NULL);
            check_ints(bound(48, 1, NULL), 4 * i, 4);
            check_ints(bound(48, 2, NULL), 7 * i, 7);
        }
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- numbers ---- */

/* y[i] = 2 x[i]; run[i] = x[0] + ... + x[i]; s, of no dimensions, = the sum of x. */
#define SUMS                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 48\n"                                                                        \
    "%1 = param i32 (%0) {slot=0}\n"                                                               \
    "%2 = param i32 (%0) {slot=1}\n"                                                               \
    "%3 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%4 = index i32 (%2, %3)\n"                                                                    \
    "%5 = load i32 (%4)\n"                                                                         \
    "%6 = add i32 (%5, %5)\n"                                                                      \
    "%7 = index i32 (%1, %3)\n"                                                                    \
    "%8 = store void (%7, %6)\n"                                                                   \
    "%9 = end void (%8, %3)\n"                                                                     \
    "%10 = sink void (%9) {name=\"double\"}\n"                                                     \
    "%11 = range index (%0) {axis=1, kind=reduce}\n"                                               \
    "%12 = index i32 (%2, %11)\n"                                                                  \
    "%13 = load i32 (%12)\n"                                                                       \
    "%14 = cmplt bool (%3, %11)\n"                                                                 \
    "%15 = const i32 0\n"                                                                          \
    "%16 = where i32 (%14, %15, %13)\n"                                                            \
    "%17 = reduce i32 (%16, %11) {op=add}\n"                                                       \
    "%18 = store void (%7, %17)\n"                                                                 \
    "%19 = end void (%18, %3)\n"                                                                   \
    "%20 = sink void (%19) {name=\"running\"}\n"                                                   \
    "%21 = param i32 {slot=0}\n"                                                                   \
    "%22 = reduce i32 (%13, %11) {op=add}\n"                                                       \
    "%23 = index i32 (%21)\n"                                                                      \
    "%24 = store void (%23, %22)\n"                                                                \
    "%25 = sink void (%24) {name=\"sum\"}\n"                                                       \
    "%30 = buffer i32 (%0) {slot=0}\n"                                                             \
    "%31 = buffer i32 (%0) {slot=1}\n"                                                             \
    "%32 = buffer i32 (%0) {slot=2}\n"                                                             \
    "%33 = buffer i32 {slot=3}\n"                                                                  \
    "%34 = buffer i32 (%0) {slot=4}\n"                                                             \
    "%40 = call void (%10, %31, %30)\n"                                                            \
    "%41 = call void (%20, %32, %30)\n"                                                            \
    "%42 = call void (%10, %34, %30)\n"                                                            \
    "%43 = call void (%25, %33, %34)\n"

static void test_doubles_running_sums_and_a_sum_without_dimensions(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_attr slot = {.key = "slot", .i = 3};
    const tolk_uop *scalar = tolk_uop_new(g, tolk_op_find("buffer"), TOLK_I32, NULL, 0, &slot, 1);
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        tolk_buffer *s = ints(r.cpu, 1, -1, 0);
        assert_int_equal(tolk_bindings_seed(b, scalar, s, NULL), TOLK_OK);
        (void)seed(48, 1, NULL, -1, 0);
        (void)seed(48, 2, NULL, -1, 0);
        way_open(&w, k, SUMS, "%40, %41, %42, %43", NULL);
        for (int i = 0; i < 5; i++) {
            int32_t run[48], sum = 0;
            (void)seed(48, 0, NULL, 3 * i, i - 2);
            way_well(&w, NULL);
            check_ints(bound(48, 1, NULL), 6 * i, 2 * (i - 2));
            read_ints(bound(48, 2, NULL), run, 48);
            for (int e = 0; e < 48; e++) {
                sum += 3 * i + e * (i - 2);
                assert_int_equal(run[e], sum);
            }
            check_ints(s, 2 * sum, 0); /* of the doubles, which lie in between */
        }
        way_close(&w);
        tolk_buffer_unref(s);
    }
    tolk_graph_destroy(g);
}

/* The sum of x[start .. 9], start of 3, 5 and 7: one compilation. */
static void test_one_compilation_for_all_values(void **state) {
    (void)state;
    static const char nodes[] = "tolk.uop 1\n"
                                "%0 = param i32 {slot=2, name=\"start\", space=alu, min=1, max=9}\n"
                                "%1 = cast index (%0)\n"
                                "%2 = const index 10\n"
                                "%3 = param i32 {slot=0}\n"
                                "%4 = param i32 (%2) {slot=1}\n"
                                "%5 = sub index (%2, %1)\n"
                                "%6 = range index (%5) {axis=0, kind=reduce}\n"
                                "%7 = add index (%1, %6)\n"
                                "%8 = index i32 (%4, %7)\n"
                                "%9 = load i32 (%8)\n"
                                "%10 = reduce i32 (%9, %6) {op=add}\n"
                                "%11 = index i32 (%3)\n"
                                "%12 = store void (%11, %10)\n"
                                "%13 = sink void (%12) {name=\"rest\"}\n"
                                "%14 = const index 1\n"
                                "%30 = buffer i32 (%2) {slot=0}\n"
                                "%31 = buffer i32 (%14) {slot=1}\n"
                                "%40 = call void (%13, %31, %30, %0)\n";
    static const int starts[] = {3, 5, 7, 3, 5, 7};
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, nodes, "%40", NULL);
        (void)seed(1, 1, NULL, -1, 0);
        tolk_counters before = counters();
        for (int i = 0; i < 6; i++) {
            tolk_var v = {"start", starts[i]};
            tolk_run_args a = with_vars(&v, 1);
            int32_t sum = 0;
            (void)seed(10, 0, NULL, i, 1);
            way_well(&w, &a);
            for (int e = starts[i]; e < 10; e++)
                sum += i + e;
            check_ints(bound(1, 1, NULL), sum, 0);
        }
        tolk_counters after = counters();
        assert_true(after.compiles - before.compiles <= (k == 0));
        way_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_values_are_by_name),
        TEST(test_buffers_are_by_slot_also_where_one_is_not_needed),
        TEST(test_grids_whose_size_is_a_variable),
        TEST(test_buffers_that_are_made_again),
        TEST(test_doubles_running_sums_and_a_sum_without_dimensions),
        TEST(test_one_compilation_for_all_values),
    };
    return cmocka_run_group_tests_name("run_ways", tests, NULL, NULL);
}
