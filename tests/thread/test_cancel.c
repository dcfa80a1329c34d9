/* SPDX-License-Identifier: MIT
 *
 * tolk_cancel: from another thread, from a signal handler, and the launches it must leave alone.
 */
#include "support/runtime.h"

#include "jit/device.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum { N = 256 };
static rt r;
static float x[N], y[N];
static void *bufs[] = {y, x};
static size_t bytes[] = {sizeof y, sizeof x};

/* Hours of work, in one iteration after the other of a reduction. */
static tolk_program *endless(void) {
    return rt_compile(&r, rt_text(RT_SPIN, N, 1LL << 40));
}

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.threads = 2;
    rt_open(&r, NULL, &opts);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

typedef struct launching {
    const tolk_program *p;
    tolk_status status;
    double ended;
    _Atomic int begun;
} launching;

static void *launch(void *arg) {
    launching *l = arg;
    float mine_x[N] = {0}, mine_y[N];
    void *b[] = {mine_y, mine_x};
    l->begun = 1;
    l->status = tolk_launch(l->p, b, bytes, 2, NULL, 0, NULL);
    l->ended = rt_now();
    return NULL;
}

static void test_cancel_from_another_thread_ends_long_launches_soon(void **state) {
    (void)state;
    tolk_program *p = endless();
    for (int round = 0; round < 3; round++) {
        launching l[3] = {{.p = p}, {.p = p}, {.p = p}};
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, launch, &l[i]), 0);
        while (!l[0].begun || !l[1].begun || !l[2].begun)
            rt_sleep(0.001);
        rt_sleep(0.05);
        double at = rt_now();
        tolk_cancel(r.cpu);
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(l[i].status, TOLK_E_CANCELLED);
            /* 100 ms, and what a busy machine adds */
            if (l[i].ended - at > 1.0)
                fail_msg("a launch ended %.3f s after the cancel", l[i].ended - at);
        }
    }
    tolk_program *scale = rt_compile(&r, rt_text(RT_SCALE, N, "3"));
    assert_true(rt_scale_is(scale, N, 3)); /* not affected */
    tolk_program_unref(scale);
    tolk_program_unref(p);
}

static void on_alarm(int sig) {
    (void)sig;
    tolk_cancel(r.cpu);
}

static void test_cancel_from_a_signal_handler_ends_the_launch_it_interrupts(void **state) {
    (void)state;
    if (TK_TEST_TSAN)
        skip(); /* it holds signals back while a kernel runs */
    tolk_program *p = endless();
    struct sigaction act = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &act, &old);
    struct itimerval timer = {{0, 0}, {0, 100000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    double at = rt_now();
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, &err), TOLK_E_CANCELLED);
    assert_int_equal(err.code, TOLK_E_CANCELLED);
    assert_true(rt_now() - at >= 0.09 && rt_now() - at < 2);
    sigaction(SIGALRM, &old, NULL);
    tolk_program_unref(p);
}

static void test_cancel_with_nothing_running_leaves_later_launches_alone(void **state) {
    (void)state;
    tolk_program *scale = rt_compile(&r, rt_text(RT_SCALE, N, "3"));
    tolk_program *big = rt_compile(&r, rt_text(RT_SPIN, N, 20000LL));
    for (int i = 0; i < 20; i++) {
        tolk_cancel(r.cpu);
        assert_true(rt_scale_is(scale, N, 3));
        tolk_cancel(r.cpu);
        assert_int_equal(tolk_launch(big, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    }
    tolk_cancel(NULL);
    tolk_program_unref(scale);
    tolk_program_unref(big);
}

static _Atomic int stop;

static void *cancel_always(void *arg) {
    (void)arg;
    while (!stop)
        tolk_cancel(r.cpu);
    return NULL;
}

/* Cancels meet launches at every moment: each ends as done or as cancelled, and the device is as
 * before when they stop. */
static void test_cancel_while_short_launches_come_and_go_leaves_no_trace(void **state) {
    (void)state;
    tolk_program *scale = rt_compile(&r, rt_text(RT_SCALE, N, "3"));
    stop = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_always, NULL), 0);
    double until = rt_now() + 0.5;
    int n[2] = {0, 0};
    while (rt_now() < until)
        for (int i = 0; i < 100; i++) {
            tolk_status st = tolk_launch(scale, bufs, bytes, 2, NULL, 0, NULL);
            assert_true(st == TOLK_OK || st == TOLK_E_CANCELLED);
            n[st != TOLK_OK]++;
        }
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d launches done, %d cancelled\n", n[0], n[1]);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(tolk_launch(scale, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    tolk_program_unref(scale);
}

/* The slots themselves: a cancel that comes late does not meet the next launch in the slot. */
static void test_slots_after_leave_are_not_cancelled(void **state) {
    (void)state;
    const _Atomic uint32_t *flag[TK_DEVICE_LAUNCHES + 1];
    int slot[TK_DEVICE_LAUNCHES + 1];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i <= TK_DEVICE_LAUNCHES; i++) {
            slot[i] = tk_device_enter(r.cpu, &flag[i]);
            assert_int_equal(*flag[i], 0);
        }
        assert_int_equal(slot[TK_DEVICE_LAUNCHES], -1); /* more run, but cannot be cancelled */
        tolk_cancel(r.cpu);
        tolk_cancel(r.cpu);
        for (int i = 0; i < TK_DEVICE_LAUNCHES; i++)
            assert_int_equal(*flag[i], 1);
        assert_int_equal(*flag[TK_DEVICE_LAUNCHES], 0);
        for (int i = 0; i <= TK_DEVICE_LAUNCHES; i++)
            tk_device_leave(r.cpu, slot[i]);
        tolk_cancel(r.cpu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_from_another_thread_ends_long_launches_soon),
        cmocka_unit_test(test_cancel_from_a_signal_handler_ends_the_launch_it_interrupts),
        cmocka_unit_test(test_cancel_with_nothing_running_leaves_later_launches_alone),
        cmocka_unit_test(test_cancel_while_short_launches_come_and_go_leaves_no_trace),
        cmocka_unit_test(test_slots_after_leave_are_not_cancelled),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
