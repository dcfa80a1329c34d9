/* SPDX-License-Identifier: MIT
 *
 * Tiers: quick code gives the bits of full code, and full code takes its place while launches go
 * on.
 */
#include "support/runtime.h"

#include <pthread.h>

RT_FIXTURE

enum { N = 777, THREADS = 4, MOST_SECONDS = 60 };

static tolk_program *compile(rt *to, const char *text, tolk_tier tier) {
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.tier = tier;
    if (rt_try(to, text, &opts, &p, &err))
        fail_msg("%s", err.msg);
    return p;
}

static tolk_program_info info_of(const tolk_program *p) {
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    return info;
}

static void test_tiers_that_are_forced_are_what_is_made(void **state) {
    (void)state;
    tolk_program *quick = compile(&r, rt_text(RT_SCALE, N, "3"), TOLK_TIER_QUICK);
    tolk_program *full = compile(&r, rt_text(RT_SCALE, N, "3"), TOLK_TIER_FULL);
    tolk_program *other = compile(&r, rt_text(RT_SCALE, N, "3"), TOLK_TIER_DEFAULT);
    assert_int_equal(info_of(quick).tier, TOLK_TIER_QUICK);
    assert_int_equal(info_of(full).tier, TOLK_TIER_FULL);
    assert_int_equal(info_of(other).tier, TOLK_TIER_FULL);
    /* the loop options are the same, the code and its key are not */
    assert_string_equal(info_of(quick).opts, info_of(full).opts);
    assert_int_equal(info_of(full).cached, TOLK_CACHED_NONE);
    assert_int_equal(info_of(other).cached, TOLK_CACHED_MEMORY);
    for (int i = 0; i < 50; i++)
        assert_true(rt_scale_is(quick, N, 3) && rt_scale_is(full, N, 3));
    assert_int_equal(info_of(quick).tier, TOLK_TIER_QUICK);
    tolk_program_unref(quick);
    tolk_program_unref(full);
    tolk_program_unref(other);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.tier = 4;
    tolk_program *none;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(rt_try(&r, rt_text(RT_SCALE, N, "3"), &opts, &none, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "tier"));
}

static void wait_for_full(const tolk_program *p, float factor) {
    double start = rt_now();
    while (info_of(p).tier != TOLK_TIER_FULL && rt_now() - start < MOST_SECONDS)
        assert_true(rt_scale_is(p, N, factor));
    assert_int_equal(info_of(p).tier, TOLK_TIER_FULL);
}

static void test_auto_begins_quick_and_becomes_full_when_it_is_launched_often(void **state) {
    (void)state;
    tolk_program *p = compile(&r, rt_text(RT_SCALE, N, "5"), TOLK_TIER_AUTO);
    tolk_program *idle = compile(&r, rt_text(RT_SCALE, N, "6"), TOLK_TIER_AUTO);
    assert_int_equal(info_of(p).tier, TOLK_TIER_QUICK);
    wait_for_full(p, 5);
    assert_true(rt_scale_is(p, N, 5));
    /* one that is not launched stays as it is */
    assert_true(rt_scale_is(idle, N, 6));
    assert_int_equal(info_of(idle).tier, TOLK_TIER_QUICK);
    /* from now on full code is there */
    tolk_program *again = compile(&r, rt_text(RT_SCALE, N, "5"), TOLK_TIER_AUTO);
    assert_int_equal(info_of(again).tier, TOLK_TIER_FULL);
    assert_int_equal(info_of(again).cached, TOLK_CACHED_MEMORY);
    tolk_program_unref(p);
    tolk_program_unref(idle);
    tolk_program_unref(again);
}

/* y[i] = the largest x[i] k of k < 2^22, for 64 i: one launch is as much work as many small ones.
 */
static void test_auto_becomes_full_after_one_long_launch(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 64\n%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
        "%2 = param f32 (%0) {slot=1, name=\"x\"}\n%3 = range index (%0) {axis=0, kind=global}\n"
        "%4 = index f32 (%2, %3)\n%5 = load f32 (%4)\n%6 = const index 4194304\n"
        "%7 = range index (%6) {axis=1, kind=reduce}\n%8 = cast f32 (%7)\n%9 = mul f32 (%5, %8)\n"
        "%10 = reduce f32 (%9, %7) {op=max}\n%11 = index f32 (%1, %3)\n"
        "%12 = store void (%11, %10)\n%13 = end void (%12, %3)\n"
        "%14 = sink void (%13) {name=\"long\"}\n";
    enum { M = 64 };
    float x[M], y[M];
    for (int i = 0; i < M; i++)
        x[i] = (float)(i + 1);
    tolk_program *p = compile(&r, text, TOLK_TIER_AUTO);
    double flops, bytes, start = rt_now();
    assert_int_equal(tolk_program_estimate(p, NULL, 0, &flops, &bytes), TOLK_OK);
    assert_true(flops + bytes > 1 << 28);
    assert_int_equal(info_of(p).tier, TOLK_TIER_QUICK);
    assert_int_equal(
        tolk_launch(p, (void *[]){y, x}, (size_t[]){sizeof y, sizeof x}, 2, NULL, 0, NULL),
        TOLK_OK);
    while (info_of(p).tier != TOLK_TIER_FULL && rt_now() - start < MOST_SECONDS)
        rt_sleep(0.001);
    assert_int_equal(info_of(p).tier, TOLK_TIER_FULL);
    for (int i = 0; i < M; i++)
        assert_true(y[i] == (float)(i + 1) * 4194303);
    tolk_program_unref(p);
}

static void *launch_often(void *p) {
    for (int i = 0; i < 400; i++)
        if (!rt_scale_is(p, N, 7))
            return p;
    return NULL;
}

static void test_auto_changes_the_code_under_launches_of_many_threads(void **state) {
    (void)state;
    tolk_program *p = compile(&r, rt_text(RT_SCALE, N, "7"), TOLK_TIER_AUTO);
    pthread_t thread[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, launch_often, p), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    wait_for_full(p, 7);
    tolk_program_unref(p);
}

/* Programs, and then the context, go while their better code is being made. */
static void test_auto_programs_may_go_at_any_time(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        rt own;
        rt_open(&own, NULL, NULL);
        for (int k = 0; k < 4; k++) {
            char factor[16];
            snprintf(factor, sizeof factor, "%d", 10 + k);
            tolk_program *p = compile(&own, rt_text(RT_SCALE, N, factor), TOLK_TIER_AUTO);
            for (int i = 0; i < 8; i++)
                assert_true(rt_scale_is(p, N, (float)(10 + k)));
            if (round % 2)
                rt_sleep(0.002 * k);
            tolk_program_unref(p);
        }
        rt_close(&own);
    }
}

static void test_the_environment_says_which(void **state) {
    (void)state;
    static const char *const values[] = {"quick", "full", "auto", "fast"};
    static const tolk_tier want[] = {TOLK_TIER_QUICK, TOLK_TIER_FULL, TOLK_TIER_QUICK,
                                     TOLK_TIER_FULL};
    for (int i = 0; i < 4; i++) {
        rt own;
        setenv("TOLK_TIER", values[i], 1);
        rt_open(&own, NULL, NULL);
        tolk_program *p = compile(&own, rt_text(RT_SCALE, N, "3"), TOLK_TIER_DEFAULT);
        assert_int_equal(info_of(p).tier, want[i]);
        assert_true(rt_scale_is(p, N, 3));
        assert_true(i < 3 ? own.logged == 0 : strstr(own.log, "TOLK_TIER") != NULL);
        tolk_program_unref(p);
        rt_close(&own);
    }
    unsetenv("TOLK_TIER");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiers_that_are_forced_are_what_is_made),
        cmocka_unit_test(test_auto_begins_quick_and_becomes_full_when_it_is_launched_often),
        cmocka_unit_test(test_auto_becomes_full_after_one_long_launch),
        cmocka_unit_test(test_auto_changes_the_code_under_launches_of_many_threads),
        cmocka_unit_test(test_auto_programs_may_go_at_any_time),
        cmocka_unit_test(test_the_environment_says_which),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
