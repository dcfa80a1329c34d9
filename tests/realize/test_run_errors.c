/* SPDX-License-Identifier: MIT
 *
 * What linears are refused for, before anything runs, and what a call that fails leaves.
 */
#include "realize/runs.h"

static void test_SYM_05_variables_are_checked_before_anything_runs(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, PUT("n", "1", "10") BUFFERS
                               "%40 = call void (%20, %30)\n%41 = linear void (%40)\n");
    tolk_buffer *y = seed(16, 0, NULL, -1, 0);
    tolk_counters before = counters();
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND);
    check_contains(err.msg, "variable \"n\" of kernel put has no value");
    static const int64_t wrong[] = {0, 11, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        tolk_var v = {"n", wrong[i]};
        tolk_run_args a = with_vars(&v, 1);
        assert_int_equal(run(l, &a), TOLK_E_LAUNCH);
        check_contains(err.msg, "call 0 (kernel put): variable \"n\"");
    }
    const tolk_var twice[] = {{"n", 2}, {"n", 3}}, same[] = {{"n", 2}, {"n", 2}},
                   other[] = {{"n", 2}, {"m", 3}, {"m", 4}}, nameless = {NULL, 1};
    tolk_run_args a = with_vars(twice, 2);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "variable \"n\" is given twice, as 2 and as 3");
    a = with_vars(other, 3);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "\"m\"");
    a = with_vars(&nameless, 1);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    assert_int_equal(counters().launches, before.launches);
    check_ints(y, -1, 0);
    a = with_vars(same, 2);
    run_well(l, &a);
    check_ints(y, 2, 0);
    tolk_linear_unref(l);
    /* Two declarations of one name that differ. */
    assert_int_equal(linear_try(&r,
                                PUT("n", "1", "10") BUFFERS
                                "%50 = param i32 {slot=0, name=\"n\", space=alu, min=1, max=9}\n"
                                "%51 = param i32 {slot=9, name=\"n\", space=alu, min=1, max=8}\n"
                                "%40 = call void (%20, %30, %50, %51)\n%41 = linear void (%40)\n",
                                &l, &err),
                     TOLK_E_VERIFY);
    check_contains(err.msg, "declared twice, differently");
}

static void test_wrong_linears(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {MIX BUFFERS "%40 = call void (%20, %30, %31)\n%41 = linear void (%40)\n",
         "2 buffers, but its kernel takes 3"},
        {MIX BUFFERS "%33 = buffer f32 (%1) {slot=4}\n"
                     "%40 = call void (%20, %30, %31, %33)\n%41 = linear void (%40)\n",
         "buffer 2 is of f32"},
        {MIX BUFFERS "%33 = neg i32 (%30)\n"
                     "%40 = call void (%20, %30, %31, %33)\n%41 = linear void (%40)\n",
         "argument 2 is neg, expected a buffer"},
        {MIX BUFFERS "%40 = call void (%30, %30)\n%41 = linear void (%40)\n",
         "its body is buffer, expected sink"},
        {MIX BUFFERS "%39 = custom_function void {name=\"other\"}\n"
                     "%40 = call void (%39)\n%41 = linear void (%40)\n",
         "expected \"graph\""},
        {MIX BUFFERS "%39 = const index 40\n%38 = slice i32 (%30, %39) {count=9}\n"
                     "%40 = call void (%20, %38, %31, %31)\n%41 = linear void (%40)\n",
         "9 elements of i32 at 40 of 48"},
        {MIX BUFFERS "%33 = const index 9\n%34 = buffer i32 (%33) {slot=4}\n"
                     "%39 = copy i32 (%30) {device=\"CPU\"}\n"
                     "%40 = call void (%39, %34, %30)\n%41 = linear void (%40)\n",
         "dest has 9 elements, src has 48"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tolk_linear *l = NULL;
        assert_int_not_equal(linear_try(&r, bad[i][0], &l, &err), TOLK_OK);
        check_contains(err.msg, bad[i][1]);
    }
}

static void test_jit_takes_what_is_compiled_only(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                               "%42 = linear void (%40)\n"),
                *made = NULL;
    (void)seed(48, 0, NULL, 1, 1);
    tolk_run_args a = TOLK_RUN_INIT;
    a.jit = 1;
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "kernel mix is not compiled");
    assert_int_equal(tolk_compile_linear(r.cpu, l, NULL, &made, NULL), TOLK_OK);
    run_well(made, &a);
    check_ints(bound(48, 1, NULL), 4, 4);
    tolk_exec *e = NULL;
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_run(e, &a, &err), TOLK_E_ARG);
    tolk_exec_destroy(e);
    tolk_linear_unref(made);
    tolk_linear_unref(l);
}

/* What goes wrong while a call runs stops the queue, as of any launch; then it goes on. */
static void test_a_call_that_fails_stops_the_rest(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n"
                                   "%1 = const index 16\n"
                                   "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"
                                   "%3 = param i32 {slot=1, name=\"n\", space=alu}\n"
                                   "%4 = cast index (%3)\n"
                                   "%5 = index i32 (%2, %4)\n"
                                   "%6 = store void (%5, %3)\n"
                                   "%20 = sink void (%6) {name=\"at\"}\n"
                                   "%30 = buffer i32 (%1) {slot=0}\n"
                                   "%31 = buffer i32 (%1) {slot=1}\n"
                                   "%40 = const i32 3\n"
                                   "%41 = const i32 16\n"
                                   "%42 = bind i32 (%3, %40)\n"
                                   "%43 = bind i32 (%3, %41)\n"
                                   "%50 = call void (%20, %30, %42)\n"
                                   "%51 = call void (%20, %31, %43)\n"
                                   "%52 = call void (%20, %31, %42)\n"
                                   "%53 = linear void (%50, %51, %52)\n");
    tolk_buffer *x = seed(16, 0, NULL, -1, 0), *y = seed(16, 1, NULL, -1, 0);
    tolk_run_args a = TOLK_RUN_INIT;
    int32_t v[16];
    a.wait = 1;
    assert_int_equal(run(l, &a), TOLK_E_RANGE);
    check_contains(err.msg, "kernel at");
    assert_int_equal(tolk_device_recover(r.cpu, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(x, 0, v, sizeof v, NULL), TOLK_OK);
    assert_int_equal(v[3], 3);
    check_ints(y, -1, 0);
    tolk_linear_unref(l);
}

/* In synchronous mode all of a launch is over when the call returns, and so is what went wrong. */
static void test_a_large_launch_that_fails_says_so_at_once_in_synchronous_mode(void **state) {
    (void)state;
    static const char text[] = "tolk.uop 1\n"
                               "%%0 = const index 8388608\n"
                               "%%1 = param i32 (%%0) {slot=0, name=\"y\"}\n"
                               "%%2 = range index (%%0) {axis=0, kind=global}\n"
                               "%%3 = const index 5\n"
                               "%%4 = add index (%%2, %%3)\n"
                               "%%5 = index i32 (%%1, %%4)\n"
                               "%%6 = const i32 1\n"
                               "%%7 = store void (%%5, %%6)\n"
                               "%%8 = end void (%%7, %%2)\n"
                               "%%9 = sink void (%%8) {name=\"past\"}\n"
                               "%%10 = buffer i32 (%%0) {slot=0}\n"
                               "%%11 = call void (%%9, %%10)\n"
                               "%%12 = linear void (%%11)\n"
                               "%s";
    for (int graph = 0; graph < 2; graph++) {
        teardown(NULL);
        open_with(1, 1, NULL);
        tolk_linear *l = linear_of(&r, rt_text(text, graph ? "%13 = custom_function void (%12) "
                                                             "{name=\"graph\"}\n"
                                                             "%14 = call void (%13)\n"
                                                             "%15 = linear void (%14)\n"
                                                           : ""));
        assert_int_equal(run(l, NULL), TOLK_E_RANGE);
        check_contains(err.msg, "past");
        assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_E_RANGE);
        assert_int_equal(tolk_device_recover(r.cpu, NULL), TOLK_OK);
        tolk_linear_unref(l);
    }
}

/* A linear of another context would be gone with that while these bindings keep it. */
static void test_a_linear_of_another_context_is_refused(void **state) {
    (void)state;
    rt other;
    tolk_graph *g;
    tolk_linear *made = NULL, *copy = NULL, *compiled = NULL;
    tolk_exec *e = NULL;
    rt_open(&other, NULL, NULL);
    tolk_linear *l = linear_of(&other, MIX BUFFERS "%40 = call void (%20, %30, %31, %32)\n"
                                                   "%41 = linear void (%40)\n");
    assert_int_equal(tolk_compile_linear(other.cpu, l, NULL, &compiled, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *y = buffer_node(g, 48, 0, NULL);
    tolk_linear *both[] = {l, compiled};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run(both[i], NULL), TOLK_E_ARG);
        check_contains(err.msg, "the linear is of another context");
        assert_int_equal(tolk_exec_create(b, both[i], NULL, &e, NULL), TOLK_E_ARG);
        assert_int_equal(tolk_compile_linear(r.cpu, both[i], NULL, &made, NULL), TOLK_E_ARG);
        assert_int_equal(tolk_realize_linear(b, both[i], &y, 1, NULL, NULL, NULL), TOLK_E_ARG);
        assert_int_equal(tolk_realize_linear(b, both[i], NULL, 0, NULL, NULL, NULL), TOLK_E_ARG);
    }
    assert_int_equal(tolk_linear_create(r.ctx, tolk_linear_root(compiled), &copy, NULL), TOLK_OK);
    tolk_linear_unref(compiled);
    tolk_linear_unref(l);
    rt_close(&other);
    (void)seed(48, 1, NULL, 1, 1);
    (void)seed(48, 2, NULL, 10, 0);
    run_well(copy, NULL);
    check_ints(bound(48, 0, NULL), 31, 1);
    tolk_linear_unref(copy);
    tolk_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_large_launch_that_fails_says_so_at_once_in_synchronous_mode),
        TEST(test_SYM_05_variables_are_checked_before_anything_runs),
        TEST(test_wrong_linears),
        TEST(test_a_linear_of_another_context_is_refused),
        TEST(test_jit_takes_what_is_compiled_only),
        TEST(test_a_call_that_fails_stops_the_rest),
    };
    return cmocka_run_group_tests_name("run_errors", tests, NULL, NULL);
}
