/* SPDX-License-Identifier: MIT
 *
 * OMP-01: launches from inside of the host's OpenMP regions, and under every setting of OpenMP that
 * changes how many threads there are. Results never depend on it.
 */
#include "support/runtime.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

enum { N = 4096, ROUNDS = 500 };

static float want[N];

/* A launch large enough for a team: 0 if the result is right. */
static int run_big(const tolk_program *p) {
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    void *bufs[] = {y, x};
    size_t bytes[] = {N * sizeof *y, N * sizeof *x};
    for (int i = 0; x && i < N; i++)
        x[i] = (float)(i % 17);
    int bad = !x || !y || tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL) != TOLK_OK;
    for (int i = 0; !bad && i < N; i++)
        bad = y[i] != want[i];
    free(x);
    free(y);
    return bad;
}

static void fill_want(void) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < ROUNDS; k++)
            want[i] += (float)(i % 17) * (float)k; /* whole numbers below 2^24: exact */
}

static void open_with(rt *r, uint32_t threads, tolk_program **p) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.threads = threads;
    rt_open(r, NULL, &opts);
    *p = rt_compile(r, rt_text(RT_SPIN, N, (long long)ROUNDS));
    double flops, bytes;
    assert_int_equal(tolk_program_estimate(*p, NULL, 0, &flops, &bytes), TOLK_OK);
    assert_true(flops > 1e6); /* a team's work */
}

static void test_OMP_01_launches_inside_host_regions_are_right(void **state) {
    (void)state;
    static const int teams[] = {2, 4, 16};
    rt r;
    tolk_program *p;
    open_with(&r, 4, &p);
    for (int levels = 1; levels <= 2; levels++) {
        omp_set_max_active_levels(levels);
        for (int t = 0; t < 3; t++) {
            int bad = 0;
#pragma omp parallel num_threads(teams[t]) reduction(+ : bad) default(none) shared(p)
            for (int i = 0; i < 3; i++)
                bad += run_big(p);
            assert_int_equal(bad, 0);
        }
    }
    omp_set_max_active_levels(1);
    assert_int_equal(run_big(p), 0);
    tolk_program_unref(p);
    rt_close(&r);
}

static void test_OMP_01_launches_in_tasks_and_sections_are_right(void **state) {
    (void)state;
    rt r;
    tolk_program *p;
    open_with(&r, 3, &p);
    int bad = 0;
#pragma omp parallel num_threads(3) default(none) shared(p, bad)
#pragma omp single
    for (int i = 0; i < 12; i++) {
#pragma omp task default(none) shared(p, bad)
        {
            int one = run_big(p);
#pragma omp atomic
            bad += one;
        }
    }
    assert_int_equal(bad, 0);
    tolk_program_unref(p);
    rt_close(&r);
}

static void test_OMP_01_dynamic_and_every_thread_count_give_the_same(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 7, 16, 64};
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        omp_set_dynamic(dynamic);
        for (int i = 0; i < 6; i++) {
            rt r;
            tolk_program *p;
            open_with(&r, counts[i], &p);
            assert_int_equal(run_big(p), 0);
            assert_int_equal(run_big(p), 0);
            tolk_program_unref(p);
            rt_close(&r);
        }
    }
    omp_set_dynamic(0);
}

/* ---- settings that OpenMP reads once a process: run in a new one ---- */

static int in_new_process(void) {
    rt r;
    tolk_program *p;
    open_with(&r, 4, &p);
    int bad = run_big(p) + run_big(p);
    tolk_program_unref(p);
    rt_close(&r);
    return bad;
}

static const char *self;

static int run_self(const char *settings) {
    char command[1024];
    snprintf(command, sizeof command, "%s '%s' child", settings, self);
    return system(command);
}

static void test_OMP_01_environment_and_affinity_results_are_right(void **state) {
    (void)state;
    static const char *const settings[] = {
        "OMP_NUM_THREADS=1",      "OMP_NUM_THREADS=3",
        "OMP_DYNAMIC=true",       "OMP_MAX_ACTIVE_LEVELS=1",
        "OMP_THREAD_LIMIT=1",     "OMP_THREAD_LIMIT=2",
        "OMP_WAIT_POLICY=active", "OMP_WAIT_POLICY=passive",
        "OMP_PROC_BIND=true",     "KMP_BLOCKTIME=0",
        "taskset -c 0",           "TOLK_THREADS=1",
        "TOLK_THREADS=nonsense",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (run_self(settings[i]) != 0)
            fail_msg("wrong with %s", settings[i]);
}

/* Where no more threads can be made the launch runs with those there are; OpenMP would abort. */
static int without_threads(void *arg) {
    (void)arg;
    rt r;
    tolk_program *p;
    open_with(&r, 8, &p);
    if (!tk_test_limit_memory(4 << 20))
        return 1;
    int bad = run_big(p) + run_big(p);
    return bad ? 2 : 0;
}

static void test_launch_where_threads_cannot_be_made_is_right(void **state) {
    (void)state;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    skip(); /* they reserve terabytes */
#endif
#endif
    assert_int_equal(tk_test_child(without_threads, NULL, 60), 0);
}

int main(int argc, char **argv) {
    fill_want();
    if (argc > 1)
        return in_new_process();
    self = argv[0];
    const struct CMUnitTest tests[] = {
        /* first: before this process has made threads */
        cmocka_unit_test(test_launch_where_threads_cannot_be_made_is_right),
        cmocka_unit_test(test_OMP_01_launches_inside_host_regions_are_right),
        cmocka_unit_test(test_OMP_01_launches_in_tasks_and_sections_are_right),
        cmocka_unit_test(test_OMP_01_dynamic_and_every_thread_count_give_the_same),
        cmocka_unit_test(test_OMP_01_environment_and_affinity_results_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
