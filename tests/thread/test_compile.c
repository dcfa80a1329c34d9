/* SPDX-License-Identifier: MIT
 *
 * Many threads compile and launch, the same kernels and different ones, while memory is never
 * writable and executable at once.
 */
#include "support/runtime.h"

#include <pthread.h>

enum { THREADS = 8, N = 500 };

static rt r;
static _Atomic int stop, wrong;

typedef struct job {
    int id;
    const char *why; /* NULL: all is right */
} job;

static void factor_of(int k, char text[32]) {
    snprintf(text, 32, "%d.5", k);
}

static void *compile_and_run(void *arg) {
    job *j = arg;
    for (int i = 0; i < 12 && !j->why; i++) {
        /* the first half is everybody's, the rest this thread's own */
        int k = i < 6 ? i : 100 * (j->id + 1) + i;
        char factor[32];
        factor_of(k, factor);
        tolk_program *p = NULL;
        if (rt_try(&r, rt_text(RT_SCALE, N, factor), NULL, &p, NULL))
            j->why = "compile";
        else if (!rt_scale_is(p, N, (float)k + 0.5f))
            j->why = "result";
        else {
            tolk_program *q = tolk_program_ref(p);
            tolk_program_unref(p);
            if (!rt_scale_is(q, N, (float)k + 0.5f))
                j->why = "result after unref";
            p = q;
        }
        tolk_program_unref(p);
        if (i == 8 && j->id == 3 && tolk_cache_clear(r.ctx, NULL))
            j->why = "clear";
        tolk_cache_stats stats;
        if (tolk_cache_get_stats(r.ctx, &stats))
            j->why = "stats";
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, compile_and_run, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (jobs[i].why)
            fail_msg("thread %d: %s", i, jobs[i].why);
}

static void test_8_threads_compile_same_and_different_kernels_all_are_right(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    for (int disk = 0; disk < 2; disk++) {
        rt_open(&r, disk ? dir : NULL, NULL);
        run_threads();
        tolk_cache_stats stats;
        assert_int_equal(tolk_cache_get_stats(r.ctx, &stats), TOLK_OK);
        assert_true(stats.memory_hits > 0 && stats.misses > 0);
        assert_int_equal(stats.damaged, 0);
        rt_close(&r);
    }
    rt_rmdir(dir);
}

static void test_8_threads_with_a_cache_of_1_entry_all_are_right(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.memory_entries = 1;
    rt_open(&r, NULL, &opts);
    run_threads();
    tolk_cache_stats stats;
    assert_int_equal(tolk_cache_get_stats(r.ctx, &stats), TOLK_OK);
    assert_int_equal(stats.memory_entries, 1);
    assert_true(stats.evictions > 0);
    rt_close(&r);
}

static void *same_kernel(void *arg) {
    tolk_program **p = arg;
    if (rt_try(&r, rt_text(RT_SCALE, N, "7"), NULL, p, NULL))
        *p = NULL;
    return NULL;
}

/* One build a key: the others wait. */
static void test_8_threads_that_want_one_kernel_build_it_once(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    pthread_t threads[THREADS];
    tolk_program *p[THREADS] = {NULL};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, same_kernel, &p[i]), 0);
    int built = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(p[i]);
        assert_true(rt_scale_is(p[i], N, 7));
        tolk_program_info info;
        assert_int_equal(tolk_program_get_info(p[i], &info), TOLK_OK);
        built += info.cached == TOLK_CACHED_NONE;
        tolk_program_unref(p[i]);
    }
    assert_int_equal(built, 1);
    tolk_cache_stats stats;
    assert_int_equal(tolk_cache_get_stats(r.ctx, &stats), TOLK_OK);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.memory_hits, THREADS - 1);
    rt_close(&r);
}

static void *launch_one(void *arg) {
    const tolk_program *p = arg;
    for (int i = 0; i < 200; i++)
        if (!rt_scale_is(p, N, 3))
            wrong++;
    return NULL;
}

static void test_8_threads_launch_one_program_all_are_right(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, N, "3"));
    pthread_t threads[THREADS];
    wrong = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_one, p), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    tolk_program_unref(p);
    rt_close(&r);
}

static void *look_at_maps(void *arg) {
    int *looks = arg, both;
    while (!stop) {
        rt_maps(&both);
        if (both)
            wrong++;
        ++*looks;
    }
    return NULL;
}

static void test_memory_is_never_writable_and_executable(void **state) {
    (void)state;
    int looks = 0, both;
    rt_maps(&both);
    if (both) /* a sanitizer's or a debugger's */
        skip();
    stop = wrong = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_at_maps, &looks), 0);
    rt_open(&r, NULL, NULL);
    for (int i = 0; i < 60; i++) {
        char factor[32];
        factor_of(i, factor);
        tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 100, factor));
        assert_true(rt_scale_is(p, 100, (float)i + 0.5f));
        tolk_program_unref(p);
    }
    rt_close(&r);
    stop = 1;
    pthread_join(thread, NULL);
    assert_true(looks > 5);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_8_threads_compile_same_and_different_kernels_all_are_right),
        cmocka_unit_test(test_8_threads_with_a_cache_of_1_entry_all_are_right),
        cmocka_unit_test(test_8_threads_that_want_one_kernel_build_it_once),
        cmocka_unit_test(test_8_threads_launch_one_program_all_are_right),
        cmocka_unit_test(test_memory_is_never_writable_and_executable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
