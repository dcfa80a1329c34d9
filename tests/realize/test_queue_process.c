/* SPDX-License-Identifier: MIT
 *
 * What the rest of the process sees of queues: signals, exit, OpenMP regions.
 */
#include "rig.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* ---- signals ---- */

enum { SIGNALS = 64 };
typedef struct dispositions {
    struct sigaction of[SIGNALS + 1];
    sigset_t mask;
    stack_t stack;
} dispositions;

static void look(dispositions *d) {
    memset(d, 0, sizeof *d);
    for (int s = 1; s <= SIGNALS; s++)
        (void)sigaction(s, NULL, &d->of[s]);
    pthread_sigmask(SIG_SETMASK, NULL, &d->mask);
    sigaltstack(NULL, &d->stack);
}

static bool are_equal(const dispositions *a, const dispositions *b) {
    for (int s = 1; s <= SIGNALS; s++) {
        if (a->of[s].sa_handler != b->of[s].sa_handler || a->of[s].sa_flags != b->of[s].sa_flags)
            return false;
        if (sigismember(&a->mask, s) != sigismember(&b->mask, s))
            return false;
    }
    return a->stack.ss_sp == b->stack.ss_sp && a->stack.ss_flags == b->stack.ss_flags &&
           a->stack.ss_size == b->stack.ss_size;
}

static _Atomic int handled, handled_elsewhere;
static pthread_t main_thread;
static void on_signal(int s) {
    (void)s;
    atomic_fetch_add(&handled, 1);
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&handled_elsewhere, 1);
}

static tolk_status read_mask(void *arg, tolk_error *err) {
    (void)err;
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return TOLK_OK;
}

static void test_THR03_signals_are_the_hosts(void **state) {
    (void)state;
    rig r;
    dispositions before, after;
    sigset_t of_worker;
    struct sigaction mine = {.sa_handler = on_signal};
    main_thread = pthread_self();
    assert_int_equal(sigaction(SIGUSR1, &mine, NULL), 0);
    assert_int_equal(sigaction(SIGINT, &mine, NULL), 0);
    look(&before);
    rig_open(&r, 1, false, 20);
    sigemptyset(&of_worker);
    assert_int_equal(rig_submit(r.q[0], read_mask, &of_worker, "m", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    look(&after);
    assert_true(are_equal(&before, &after));
    /* All that other threads may get; its own faults reach the host's handlers. */
    static const int blocked[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                  SIGALRM, SIGCHLD, SIGPIPE, SIGTSTP, SIGPROF};
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
        assert_true(sigismember(&of_worker, blocked[i]));
    assert_false(sigismember(&of_worker, SIGSEGV));
    for (int i = 0; i < 50; i++) {
        int had = atomic_load(&handled);
        kill(getpid(), i % 2 ? SIGUSR1 : SIGINT);
        for (int k = 0; k < 20000 && atomic_load(&handled) == had; k++)
            rig_pause(100);
        assert_int_equal(atomic_load(&handled), had + 1);
    }
    assert_int_equal(atomic_load(&handled_elsewhere), 0);
    assert_int_equal(rig_close(&r), TOLK_OK);
    look(&after);
    assert_true(are_equal(&before, &after));
}

/* ---- exit ---- */

static tolk_status work_a_while(void *arg, tolk_error *err) {
    (void)err;
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 20000; i++)
        sum = sum + i;
    atomic_fetch_add((_Atomic int *)arg, 1);
    return TOLK_OK;
}

/* exit() with queues that run, that wait for each other and that sleep. */
static int leave_with_work(void *arg) {
    static rig r;
    static _Atomic int done;
    static gate g;
    int how = *(int *)arg;
    rig_open(&r, 3, false, 20);
    uint64_t t = 0;
    for (int i = 0; i < 200; i++)
        if (rig_submit(r.q[0], work_a_while, &done, "w", &t) != TOLK_OK)
            return 1;
    tk_point p = {r.q[0], t};
    tk_command c = {.run = work_a_while, .arg = &done, .label = "w", .after = &p, .n_after = 1};
    if (tk_queue_submit(r.q[1], &c, NULL, NULL) != TOLK_OK)
        return 1;
    if (rig_submit(r.q[2], gate_task, &g, "g", NULL) != TOLK_OK)
        return 1;
    rig_pause((unsigned)how * 50);
    exit(3);
}
static void test_THR05_exit_with_work_in_flight(void **state) {
    (void)state;
    int times = TK_TEST_TSAN ? 5 : 50; /* TSan makes each exit take a second */
    for (int i = 0; i < times; i++)
        assert_int_equal(tk_test_child(leave_with_work, &i, 20), 3);
}

/* ---- OpenMP ---- */

static tolk_status region_task(void *arg, tolk_error *err) {
    (void)err;
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 100; i++)
        sum += i;
    *(int *)arg = sum;
    return TOLK_OK;
}

static void test_OMP01_calls_from_inside_of_a_region(bool inline_only) {
    rig r;
    _Atomic int failures = 0, ran = 0;
    rig_open(&r, 4, inline_only, 20);
    for (int threads = 2; threads <= 16; threads *= 2)
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        for (int i = 0; i < 50; i++) {
            tk_queue *q = r.q[(me + i) % 4];
            uint64_t t;
            int sum = 0;
            if (tk_queue_enter(q, NULL, 0, NULL))
                tk_queue_leave(q, TOLK_OK, NULL, "x");
            failures += rig_submit(q, i % 5 ? work_a_while : region_task,
                                   i % 5 ? (void *)&ran : &sum, "x", &t) != TOLK_OK;
            failures += tk_queue_wait(q, t, NULL) != TOLK_OK;
            failures += i % 5 == 0 && sum != 4950;
        }
    }
    assert_int_equal(failures, 0);
    assert_true(ran >= 2 * 40);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_OMP01_calls_from_inside_of_a_region)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_THR05_exit_with_work_in_flight),
        cmocka_unit_test(test_THR03_signals_are_the_hosts),
        RIG_TESTS(test_OMP01_calls_from_inside_of_a_region),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
