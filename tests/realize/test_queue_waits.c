/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for queues, circles of waits, and queues that are closed.
 */
#include "rig.h"

#include <pthread.h>

/* ---- waits that would never end ---- */

typedef struct waiter {
    tk_queue *on;
    uint64_t ticket; /* 0: all */
    _Atomic int runs, go;
    tolk_status got;
    tolk_error err;
} waiter;
static tolk_status wait_task(void *arg, tolk_error *err) {
    waiter *w = arg;
    (void)err;
    atomic_store(&w->runs, 1);
    if (!rig_await(&w->go))
        return TOLK_E_INTERNAL;
    w->got = w->ticket ? tk_queue_wait(w->on, w->ticket, &w->err) : tk_queue_await(w->on, &w->err);
    return TOLK_OK; /* a caller's error: it poisons nothing */
}

/* n queues, each with a task that waits for the next one: the last one to wait is refused, and all
 * others then end well. */
static void circle(int n, uint32_t spin_us) {
    rig r;
    waiter w[RIG_QUEUES];
    memset(w, 0, sizeof w);
    rig_open(&r, n, false, spin_us);
    for (int i = 0; i < n; i++) {
        w[i].on = r.q[(i + 1) % n];
        assert_int_equal(rig_submit(r.q[i], wait_task, &w[i], "waits", NULL), TOLK_OK);
    }
    for (int i = 0; i < n; i++)
        assert_true(rig_await(&w[i].runs));
    for (int i = 0; i < n; i++)
        atomic_store(&w[i].go, 1);
    int refused = 0;
    for (int i = 0; i < n; i++)
        assert_int_equal(tk_queue_await(r.q[i], NULL), TOLK_OK);
    for (int i = 0; i < n; i++) {
        refused += w[i].got == TOLK_E_DEADLOCK;
        assert_true(w[i].got == TOLK_OK || w[i].got == TOLK_E_DEADLOCK);
        if (w[i].got == TOLK_E_DEADLOCK && n == 1)
            assert_string_equal(w[i].err.msg, "a task of device CPU waits for its own queue");
    }
    assert_int_equal(refused, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
static void test_waits_in_a_circle_are_refused(void **state) {
    (void)state;
    for (int k = 0; k < 20; k++)
        for (int n = 1; n <= 4; n++)
            circle(n, k % 2 ? 0 : 20);
}

/* The thread that entered a queue counts as its task. */
static void test_the_inline_thread_counts_as_a_task(bool inline_only) {
    rig r;
    tolk_error err = TOLK_ERROR_INIT;
    uint64_t t;
    rig_open(&r, 2, inline_only, 20);
    assert_true(tk_queue_enter(r.q[0], NULL, 0, &t));
    assert_int_equal(tk_queue_await(r.q[0], &err), TOLK_E_DEADLOCK);
    assert_int_equal(tk_queue_wait(r.q[0], t, &err), TOLK_E_DEADLOCK);
    assert_string_equal(err.msg, "a task of device CPU waits for its own queue");
    waiter w = {.on = r.q[0], .go = 1};
    assert_int_equal(rig_submit(r.q[1], wait_task, &w, "waits", NULL), TOLK_OK);
    if (!inline_only) /* as a rule the other queue waits for this thread by then */
        rig_pause(20000);
    tolk_status st = tk_queue_await(r.q[1], &err);
    if (st == TOLK_E_DEADLOCK) /* else its wait came second, and was refused */
        assert_string_equal(err.msg,
                            "a task of device CPU waits for device CPU:1, which waits for that "
                            "task");
    tk_queue_leave(r.q[0], TOLK_OK, NULL, "mine");
    assert_int_equal(tk_queue_await(r.q[1], NULL), TOLK_OK);
    assert_true((st == TOLK_E_DEADLOCK) != (w.got == TOLK_E_DEADLOCK));
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_the_inline_thread_counts_as_a_task)

/* A command waits for another queue whose task waits for this command: it is the task that is told,
 * whoever came first. */
static void test_in_a_circle_with_a_command_the_task_is_refused(bool inline_only) {
    for (int i = 0; i < 40; i++) {
        rig r;
        int counter = 0;
        tolk_error err = TOLK_ERROR_INIT;
        rig_open(&r, 3, inline_only, i % 2 ? 0 : 20);
        uint64_t t0, t1, t2;
        assert_true(tk_queue_enter(r.q[0], NULL, 0, &t0));
        tk_point p = {r.q[0], t0};
        tk_command c = {
            .run = rig_add_one, .arg = &counter, .label = "c", .after = &p, .n_after = 1};
        assert_int_equal(tk_queue_submit(r.q[1], &c, &t1, NULL), TOLK_OK);
        tk_point p1 = {r.q[1], t1};
        c.after = &p1;
        assert_int_equal(tk_queue_submit(r.q[2], &c, &t2, NULL), TOLK_OK);
        if (!inline_only && i % 4 > 1) /* as a rule the command waits by then */
            rig_pause(500);
        int on = i % 3 ? 2 : 1;
        for (int k = 0; k < 2; k++)
            assert_int_equal(tk_queue_wait(r.q[on], on == 1 ? t1 : t2, &err), TOLK_E_DEADLOCK);
        assert_string_equal(err.msg, on == 1 ? "a task of device CPU waits for device CPU:1, which "
                                               "waits for that task"
                                             : "a task of device CPU waits for device CPU:2, which "
                                               "waits for that task");
        assert_int_equal(counter, 0);
        tk_queue_leave(r.q[0], TOLK_OK, NULL, "mine");
        assert_int_equal(tk_queue_await(r.q[2], NULL), TOLK_OK);
        assert_int_equal(counter, 2);
        assert_int_equal(rig_close(&r), TOLK_OK);
    }
}
RIG_BOTH(test_in_a_circle_with_a_command_the_task_is_refused)

/* Waits that are no circle are not refused: a task may wait for later work of another queue. */
static void test_a_task_may_wait_for_another_queue(bool inline_only) {
    rig r;
    int counter = 0;
    rig_open(&r, 2, inline_only, 20);
    for (int i = 0; i < 200; i++) {
        uint64_t t;
        assert_int_equal(rig_submit(r.q[1], rig_add_one, &counter, "a", &t), TOLK_OK);
        waiter w = {.on = r.q[1], .go = 1, .ticket = t};
        assert_int_equal(rig_submit(r.q[0], wait_task, &w, "w", NULL), TOLK_OK);
        assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
        assert_int_equal(w.got, TOLK_OK);
        assert_int_equal(counter, i + 1);
    }
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_a_task_may_wait_for_another_queue)

/* A task submits to its own queue and to another one, and waits for that. */
typedef struct parent {
    rig *r;
    track *ran;
    step steps[3];
    tolk_status own, other, waited;
} parent;
static tolk_status parent_task(void *arg, tolk_error *err) {
    parent *p = arg;
    uint64_t t;
    (void)err;
    p->own = rig_submit(p->r->q[0], step_task, &p->steps[0], "own", NULL);
    p->other = rig_submit(p->r->q[1], step_task, &p->steps[1], "other", &t);
    p->waited = tk_queue_wait(p->r->q[1], t, NULL);
    track_add(p->ran, 9);
    return rig_submit(p->r->q[2], step_task, &p->steps[2], "third", NULL);
}
static void test_tasks_submit(bool inline_only) {
    rig r;
    static track ran;
    atomic_store(&ran.n, 0);
    rig_open(&r, 3, inline_only, 20);
    parent p = {.r = &r, .ran = &ran};
    for (int i = 0; i < 3; i++)
        p.steps[i] = (step){&ran, NULL, i, TOLK_OK};
    assert_int_equal(rig_submit(r.q[0], parent_task, &p, "parent", NULL), TOLK_OK);
    for (int i = 0; i < 6; i++) /* first for the parent, then for what it submitted */
        assert_int_equal(tk_queue_await(r.q[i % 3], NULL), TOLK_OK);
    assert_int_equal(p.own, TOLK_OK);
    assert_int_equal(p.other, TOLK_OK);
    assert_int_equal(p.waited, TOLK_OK);
    assert_int_equal(ran.n, 4);
    assert_int_equal(ran.at[0], 1);
    assert_int_equal(ran.at[1], 9);
    assert_true((ran.at[2] == 0 && ran.at[3] == 2) || (ran.at[2] == 2 && ran.at[3] == 0));
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_tasks_submit)

/* With no worker: a task waits for work of another queue that is followed by a command which waits
 * for that very task. That is no circle, with workers or without. */
typedef struct between {
    rig *r;
    uint64_t own;
    int *counter;
    tolk_status got;
} between;
static tolk_status between_task(void *arg, tolk_error *err) {
    between *b = arg;
    uint64_t t;
    (void)err;
    tk_point p = {b->r->q[0], b->own};
    tk_command c = {.run = rig_add_one, .arg = b->counter, .label = "c", .after = &p, .n_after = 1};
    b->got = rig_submit(b->r->q[1], rig_add_one, b->counter, "a", &t);
    if (!b->got)
        b->got = tk_queue_submit(b->r->q[1], &c, NULL, NULL);
    if (!b->got)
        b->got = tk_queue_wait(b->r->q[1], t, NULL);
    return TOLK_OK;
}
static void test_what_is_behind_a_wait_may_wait_for_the_task(bool inline_only) {
    rig r;
    int counter = 0;
    rig_open(&r, 2, inline_only, 20);
    between b = {.r = &r, .own = 1, .counter = &counter};
    assert_int_equal(rig_submit(r.q[0], between_task, &b, "b", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[1], NULL), TOLK_OK);
    assert_int_equal(b.got, TOLK_OK);
    assert_int_equal(counter, 2);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_what_is_behind_a_wait_may_wait_for_the_task)

/* With no worker: nothing runs in a submit while it is delayed. */
static void test_delayed_submits_run_at_resume(void **state) {
    (void)state;
    rig r;
    int counter = 0;
    uint64_t t;
    rig_open(&r, 2, true, 20);
    tk_queue_delay();
    tk_queue_delay();
    assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "a", &t), TOLK_OK);
    assert_int_equal(rig_submit(r.q[1], rig_add_one, &counter, "b", NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "c", NULL), TOLK_OK);
    tk_queue_resume();
    assert_int_equal(counter, 0);
    assert_int_equal(tk_queue_wait(r.q[0], t, NULL), TOLK_OK); /* runs what it waits for */
    assert_int_equal(counter, 1);
    tk_queue_resume();
    assert_int_equal(counter, 3);
    assert_true(tk_queue_idle(r.q[0]) && tk_queue_idle(r.q[1]));
    assert_int_equal(rig_close(&r), TOLK_OK);
}

/* ---- closing ---- */

static tolk_status close_task(void *arg, tolk_error *err) {
    void **a = arg;
    *(tolk_status *)a[1] = tk_queue_close(a[0], err);
    return TOLK_OK;
}
static void test_a_task_cannot_close(bool inline_only) {
    rig r;
    int counter = 0;
    rig_open(&r, 2, inline_only, 20);
    for (int i = 0; i < 2; i++) { /* its own queue, and another one */
        tolk_status got = TOLK_OK;
        void *args[2] = {r.q[i], &got};
        assert_int_equal(rig_submit(r.q[0], close_task, args, "c", NULL), TOLK_OK);
        assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
        assert_int_equal(got, TOLK_E_DEADLOCK);
        assert_int_equal(rig_submit(r.q[i], rig_add_one, &counter, "add", NULL), TOLK_OK);
        assert_int_equal(tk_queue_await(r.q[i], NULL), TOLK_OK);
    }
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_a_task_cannot_close)

static void *close_thread(void *arg) {
    return (void *)(intptr_t)tk_queue_close(arg, NULL); /* NOLINT */
}
static void test_close_runs_what_is_there_and_takes_no_more(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        rig r;
        gate g = {.result = fails ? TOLK_E_IO : TOLK_OK};
        int counter = 0;
        tolk_error err;
        pthread_t closers[2];
        tk_watch w;
        rig_open(&r, 1, false, 20);
        tk_queue *q = r.q[0];
        assert_int_equal(rig_submit(q, gate_task, &g, "g", NULL), TOLK_OK);
        assert_int_equal(rig_submit(q, rig_add_one, &counter, "a", NULL), TOLK_OK);
        assert_int_equal(tk_queue_mark(q, &w, NULL), TOLK_OK);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&closers[i], NULL, close_thread, q), 0);
        tk_strbuf sb;
        while (tk_queue_check(q, &err) == TOLK_OK)
            rig_pause(100);
        assert_int_equal(err.code, TOLK_E_DEVICE_DESTROYED);
        assert_string_equal(err.msg, "device CPU was destroyed");
        assert_false(tk_queue_enter(q, NULL, 0, NULL));
        atomic_store(&g.go, 1);
        for (int i = 0; i < 2; i++) {
            void *got;
            pthread_join(closers[i], &got);
            assert_int_equal((intptr_t)got, fails ? TOLK_E_IO : TOLK_OK);
        }
        assert_int_equal(counter, !fails);
        assert_int_equal(tk_queue_wait_watched(&w, NULL), fails ? TOLK_E_IO : TOLK_OK);
        assert_int_equal(tk_queue_done_watched(&w), !fails);
        assert_int_equal(rig_submit(q, rig_add_one, &counter, "late", NULL),
                         TOLK_E_DEVICE_DESTROYED);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_E_DEVICE_DESTROYED);
        assert_int_equal(tk_queue_recover(q, NULL), TOLK_E_DEVICE_DESTROYED);
        assert_int_equal(tk_queue_close(q, NULL), fails ? TOLK_E_IO : TOLK_OK);
        tk_strbuf_init(&sb, &r.ctx->al);
        tk_queue_describe(q, &sb);
        assert_non_null(strstr(sb.at, "\"worker\": false"));
        tk_strbuf_fini(&sb);
        /* An event outlives its queue. */
        tk_queue_free(q);
        r.n = 0;
        assert_int_equal(tk_queue_wait_watched(&w, NULL), fails ? TOLK_E_IO : TOLK_OK);
        tk_queue_unwatch(&w);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_in_a_circle_are_refused),
        RIG_TESTS(test_the_inline_thread_counts_as_a_task),
        RIG_TESTS(test_in_a_circle_with_a_command_the_task_is_refused),
        RIG_TESTS(test_a_task_may_wait_for_another_queue),
        RIG_TESTS(test_tasks_submit),
        RIG_TESTS(test_what_is_behind_a_wait_may_wait_for_the_task),
        cmocka_unit_test(test_delayed_submits_run_at_resume),
        RIG_TESTS(test_a_task_cannot_close),
        cmocka_unit_test(test_close_runs_what_is_there_and_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
