/* SPDX-License-Identifier: MIT
 *
 * Contexts with queues and kernels in the child of a fork (THR-01), at exit (THR-05), under the
 * host's signals (THR-03) and inside of OpenMP regions (OMP-01).
 */
#include "support/runtime.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>

/* exit() comes while OpenMP's own threads end that it does not join: that is no leak of ours. */
#if TK_TEST_TSAN
const char *__tsan_default_options(void); /* NOLINT */
const char *__tsan_default_options(void) {
    return "report_thread_leaks=0";
}
#endif

enum { N = 100, BIG = 2000000 };
#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok))                                                                                 \
            return 100 + __LINE__ % 100;                                                           \
    } while (0)

static rt r;
static tolk_device *dev[2];

static void open_two(rt *to, tolk_device *d[2]) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 2;
    o.threads = 2;
    o.no_environment = 1;
    rt_open(to, NULL, &o);
    d[0] = to->cpu;
    assert_int_equal(tolk_device_open(to->ctx, "CPU:1", &d[1], NULL), TOLK_OK);
}

typedef struct scaling {
    tolk_program *p;
    float *x, *y;
    size_t bytes;
} scaling;
static tolk_status scale_task(void *arg, tolk_error *err) {
    scaling *s = arg;
    void *bufs[2] = {s->y, s->x};
    size_t bytes[2] = {s->bytes, s->bytes};
    return tolk_launch(s->p, bufs, bytes, 2, NULL, 0, err);
}

typedef struct gate {
    _Atomic int runs, go;
} gate;
static tolk_status gate_task(void *arg, tolk_error *err) {
    gate *g = arg;
    (void)err;
    g->runs = 1;
    for (int i = 0; i < 20000 && !g->go; i++)
        rt_sleep(0.001);
    return TOLK_OK;
}

/* y = 3 x through the device layer: buffers of the device, its queue. */
static tolk_status scale_on(tolk_device *d, bool *right, tolk_error *err) {
    tolk_buffer *x = NULL, *y = NULL;
    tolk_args *args = NULL;
    tolk_kernel *k = NULL;
    float in[N], out[N] = {0};
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    tolk_status st = tolk_alloc_f32(d, N, &x, err);
    if (!st)
        st = tolk_alloc_f32(d, N, &y, err);
    if (!st)
        st = tolk_buffer_copyin(x, 0, in, sizeof in, err);
    if (!st)
        st = tolk_kernel_compile(d, "scale", rt_text(RT_SCALE, N, "3"), &k, err);
    if (!st)
        st = tolk_args_create(r.ctx, &args, err);
    if (!st)
        st = tolk_args_buffer(args, 0, y, err);
    if (!st)
        st = tolk_args_buffer(args, 1, x, err);
    if (!st)
        st = tolk_kernel_run(k, args, NULL, NULL, 0, err);
    if (!st)
        st = tolk_buffer_copyout(y, 0, out, sizeof out, err);
    *right = true;
    for (int i = 0; i < N; i++)
        *right &= out[i] == 3 * in[i];
    tolk_args_destroy(args);
    tolk_kernel_unref(k);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
    return st;
}

/* ---- fork ---- */

static int fresh_context(void) {
    rt own;
    tolk_device *d[2];
    float *x = calloc(BIG, sizeof *x), *y = calloc(BIG, sizeof *y);
    open_two(&own, d);
    scaling s = {rt_compile(&own, rt_text(RT_SCALE, BIG, "3")), x, y, BIG * sizeof *x};
    x[BIG - 1] = 2;
    CHECK(tolk_queue_submit(d[1], scale_task, &s, NULL, "s", NULL) == TOLK_OK);
    CHECK(tolk_device_await(d[1], NULL) == TOLK_OK);
    CHECK(y[BIG - 1] == 6);
    tolk_program_unref(s.p);
    rt_close(&own);
    free(x);
    free(y);
    return 0;
}

/* On queues that were idle small work runs; what needs a thread is refused. */
static int idle_child(void *arg) {
    (void)arg;
    tolk_error err = TOLK_ERROR_INIT;
    gate g = {.go = 1};
    bool right;
    for (int i = 0; i < 2; i++) {
        CHECK(tolk_device_await(dev[i], NULL) == TOLK_OK);
        CHECK(scale_on(dev[i], &right, &err) == TOLK_OK && right);
        CHECK(tolk_queue_submit(dev[i], gate_task, &g, NULL, "g", &err) == TOLK_E_FORKED);
        CHECK(strstr(err.msg, tolk_device_name(dev[i])));
        CHECK(tolk_device_await(dev[i], NULL) == TOLK_OK);
    }
    int st = fresh_context();
    CHECK(st == 0);
    rt_close(&r); /* the parent's, without its threads */
    return 0;
}
static void test_THR01_a_child_runs_small_work_of_idle_devices(void **state) {
    (void)state;
    bool right;
    gate g = {.go = 1};
    open_two(&r, dev);
    for (int used = 0; used < 2; used++) {
        if (used)
            for (int i = 0; i < 2; i++) {
                assert_int_equal(scale_on(dev[i], &right, NULL), TOLK_OK);
                assert_true(right);
                assert_int_equal(tolk_queue_submit(dev[i], gate_task, &g, NULL, "g", NULL),
                                 TOLK_OK);
                assert_int_equal(tolk_device_await(dev[i], NULL), TOLK_OK);
            }
        assert_int_equal(tk_test_child(idle_child, NULL, 60), 0);
    }
    assert_int_equal(scale_on(dev[1], &right, NULL), TOLK_OK);
    assert_true(right);
    rt_close(&r);
}

static int busy_child(void *arg) {
    tolk_event *e = arg;
    tolk_error err = TOLK_ERROR_INIT;
    gate g = {.go = 1};
    bool right;
    CHECK(!tolk_event_is_done(e));
    CHECK(tolk_event_sync(e, &err) == TOLK_E_FORKED);
    CHECK(tolk_device_await(dev[0], &err) == TOLK_E_FORKED);
    CHECK(tolk_queue_submit(dev[0], gate_task, &g, NULL, "g", &err) == TOLK_E_FORKED);
    CHECK(scale_on(dev[0], &right, &err) == TOLK_E_FORKED);
    CHECK(strstr(err.msg, "device CPU: "));
    CHECK(tolk_device_wait_for(dev[1], e, &err) == TOLK_E_FORKED);
    CHECK(scale_on(dev[1], &right, &err) == TOLK_OK && right); /* that one was idle */
    tolk_event_destroy(e);
    CHECK(tolk_device_destroy(dev[0], &err) == TOLK_E_FORKED);
    int st = fresh_context();
    CHECK(st == 0);
    rt_close(&r);
    return 0;
}
static void test_THR01_a_child_is_told_of_work_that_was_under_way(void **state) {
    (void)state;
    gate g = {0};
    tolk_event *e;
    bool right;
    open_two(&r, dev);
    assert_int_equal(scale_on(dev[1], &right, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(dev[0], gate_task, &g, NULL, "g", NULL), TOLK_OK);
    assert_int_equal(tolk_event_record(dev[0], &e, NULL), TOLK_OK);
    while (!g.runs)
        rt_sleep(0.001);
    assert_int_equal(tk_test_child(busy_child, e, 60), 0);
    g.go = 1;
    assert_int_equal(tolk_event_sync(e, NULL), TOLK_OK);
    tolk_event_destroy(e);
    assert_int_equal(scale_on(dev[0], &right, NULL), TOLK_OK);
    assert_true(right);
    rt_close(&r);
}

/* ---- exit ---- */

/* Kernels on both queues, on all threads, and more of them queued, when exit() comes. */
static int leave_with_kernels(void *arg) {
    int run = *(int *)arg;
    static float x[BIG], y[2][BIG];
    static scaling s[2];
    static gate g;
    open_two(&r, dev);
    for (int i = 0; i < 2; i++)
        s[i] = (scaling){rt_compile(&r, rt_text(RT_SCALE, BIG, i ? "3" : "5")), x, y[i], sizeof x};
    for (int k = 0; k < 50; k++)
        for (int i = 0; i < 2; i++)
            if (tolk_queue_submit(dev[i], scale_task, &s[i], NULL, "s", NULL) != TOLK_OK)
                return 1;
    if (run % 3 == 0 && tolk_queue_submit(dev[1], gate_task, &g, NULL, "g", NULL) != TOLK_OK)
        return 1;
    rt_sleep(1e-6 * (run * 731 % 12000));
    exit(3);
}
static void test_THR05_exit_with_kernels_in_flight(void **state) {
    (void)state;
    int times = TK_TEST_TSAN ? 5 : 50; /* TSan makes each exit take a second */
    for (int i = 0; i < times; i++) {
        int code = tk_test_child(leave_with_kernels, &i, 60);
        if (code != 3)
            fail_msg("run %d ended with %d, expected 3", i, code);
    }
}

/* ---- signals ---- */

static void test_THR03_dispositions_and_mask_stay(void **state) {
    (void)state;
    static struct sigaction before[65], after[65];
    sigset_t mask, then;
    stack_t stack, stack_then;
    for (int i = 1; i <= 64; i++)
        (void)sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigaltstack(NULL, &stack);
    bool right;
    gate g = {.go = 1};
    open_two(&r, dev);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tolk_queue_submit(dev[i], gate_task, &g, NULL, "g", NULL), TOLK_OK);
        assert_int_equal(scale_on(dev[i], &right, NULL), TOLK_OK);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= 64; i++) {
            (void)sigaction(i, NULL, &after[i]);
            assert_ptr_equal(before[i].sa_handler, after[i].sa_handler);
            assert_int_equal(before[i].sa_flags, after[i].sa_flags);
        }
        pthread_sigmask(SIG_SETMASK, NULL, &then);
        for (int i = 1; i <= 64; i++)
            assert_int_equal(sigismember(&mask, i), sigismember(&then, i));
        sigaltstack(NULL, &stack_then);
        assert_ptr_equal(stack.ss_sp, stack_then.ss_sp);
        assert_int_equal(stack.ss_flags, stack_then.ss_flags);
        if (!round)
            rt_close(&r);
    }
}

/* ---- OpenMP ---- */

static void test_OMP01_devices_from_inside_of_a_region(void **state) {
    (void)state;
    static float x[BIG], y[16][BIG];
    open_two(&r, dev);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, BIG, "3"));
    for (int i = 0; i < BIG; i++)
        x[i] = (float)(i % 1000);
    for (int threads = 2; threads <= 16; threads *= 2) {
        _Atomic int failures = 0;
#pragma omp parallel num_threads(threads)
        {
            int me = omp_get_thread_num();
            scaling s = {p, x, y[me], sizeof x};
            tolk_event *e;
            failures += tolk_queue_submit(dev[me % 2], scale_task, &s, NULL, "s", NULL) != TOLK_OK;
            failures += tolk_event_record(dev[me % 2], &e, NULL) != TOLK_OK;
            failures += tolk_event_sync(e, NULL) != TOLK_OK;
            tolk_event_destroy(e);
            for (int i = 0; i < BIG; i += 997)
                failures += y[me][i] != 3 * x[i];
            bool right;
            failures += scale_on(dev[me % 2], &right, NULL) != TOLK_OK || !right;
        }
        assert_int_equal(failures, 0);
    }
    tolk_program_unref(p);
    rt_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_THR05_exit_with_kernels_in_flight),
        cmocka_unit_test(test_THR01_a_child_runs_small_work_of_idle_devices),
        cmocka_unit_test(test_THR01_a_child_is_told_of_work_that_was_under_way),
        cmocka_unit_test(test_THR03_dispositions_and_mask_stay),
        cmocka_unit_test(test_OMP01_devices_from_inside_of_a_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
