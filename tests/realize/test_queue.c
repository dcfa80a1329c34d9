/* SPDX-License-Identifier: MIT
 *
 * Queues: the order of their commands, when those are released, and the thread of the caller.
 */
#include "rig.h"

#include <pthread.h>

/* ---- order ---- */

static void test_O10_sixteen_increments_without_sync(bool inline_only) {
    rig r;
    int counter = 0;
    rig_open(&r, 1, inline_only, 20);
    for (int i = 0; i < 16; i++)
        assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "add", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    assert_int_equal(counter, 16);
    assert_true(tk_queue_idle(r.q[0]));
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_O10_sixteen_increments_without_sync)

static void test_O11_every_dispatched_value_is_seen_once(bool inline_only) {
    rig r;
    static track ran;
    static step steps[1000];
    atomic_store(&ran.n, 0);
    rig_open(&r, 1, inline_only, 20);
    for (int i = 0; i < 1000; i++) {
        steps[i] = (step){&ran, NULL, i, TOLK_OK};
        uint64_t ticket = 0;
        assert_int_equal(rig_submit(r.q[0], step_task, &steps[i], "step", &ticket), TOLK_OK);
        assert_int_equal(ticket, i + 1);
    }
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    assert_int_equal(ran.n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ran.at[i], i);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_O11_every_dispatched_value_is_seen_once)

/* Submitting does not wait for what runs. */
static void test_submit_returns_while_a_task_runs(void **state) {
    (void)state;
    rig r;
    gate g = {0};
    int counter = 0;
    uint64_t t1, t2;
    rig_open(&r, 1, false, 0);
    assert_true(tk_queue_idle(r.q[0]));
    assert_int_equal(rig_submit(r.q[0], gate_task, &g, "gate", &t1), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "add", &t2), TOLK_OK);
    assert_true(rig_await(&g.runs));
    assert_false(tk_queue_idle(r.q[0]));
    assert_false(tk_queue_done(r.q[0], t1));
    assert_int_equal(tk_queue_now(r.q[0]), 2);
    atomic_store(&g.go, 1);
    assert_int_equal(tk_queue_wait(r.q[0], t1, NULL), TOLK_OK);
    assert_true(tk_queue_done(r.q[0], t1));
    assert_int_equal(tk_queue_wait(r.q[0], t2, NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

/* Hand-offs one by one, to a worker that spins and to one that sleeps: none gets lost. */
static void test_no_wake_up_is_lost(void **state) {
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        rig r;
        int counter = 0;
        rig_open(&r, 1, false, k == 0 ? 0 : k == 1 ? 50 : 1);
        for (int i = 0; i < 2000; i++) {
            uint64_t t;
            assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "add", &t), TOLK_OK);
            if (i % 97 == 0)
                rig_pause(100);
            assert_int_equal(tk_queue_wait(r.q[0], t, NULL), TOLK_OK);
            assert_int_equal(counter, i + 1);
            assert_true(tk_queue_idle(r.q[0]));
        }
        assert_int_equal(rig_close(&r), TOLK_OK);
    }
}

/* ---- releasing ---- */

/* With a caller of every function that takes the lock: it is not held then. */
typedef struct asker {
    tk_queue *q;
    _Atomic int released;
    tolk_status check, await;
} asker;
static void ask_in_release(void *arg) {
    asker *a = arg;
    a->check = tk_queue_check(a->q, NULL);
    a->await = tk_queue_await(a->q, NULL);
    atomic_fetch_add(&a->released, 1);
}
static void test_release_is_called_before_the_ticket_is_done(bool inline_only) {
    rig r;
    rig_open(&r, 1, inline_only, 20);
    asker a = {.q = r.q[0]};
    tk_command c = {.run = rig_succeed, .release = ask_in_release, .arg = &a, .label = "x"};
    for (int i = 1; i <= 50; i++) {
        uint64_t t;
        assert_int_equal(tk_queue_submit(r.q[0], &c, &t, NULL), TOLK_OK);
        assert_int_equal(tk_queue_wait(r.q[0], t, NULL), TOLK_OK);
        assert_int_equal(a.released, i);
        assert_int_equal(a.check, TOLK_OK);
        assert_int_equal(a.await, TOLK_E_DEADLOCK); /* its own command is not over */
    }
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_release_is_called_before_the_ticket_is_done)

/* ---- the caller's thread ---- */

static void test_enter_takes_an_idle_queue_without_a_worker(bool inline_only) {
    rig r;
    uint64_t t = 0;
    rig_open(&r, 2, inline_only, 20);
    assert_true(tk_queue_enter(r.q[0], NULL, 0, &t));
    assert_int_equal(t, 1);
    assert_false(tk_queue_idle(r.q[0]));
    assert_false(tk_queue_done(r.q[0], 1));
    assert_false(tk_queue_enter(r.q[0], NULL, 0, NULL)); /* taken */
    assert_true(tk_queue_enter(r.q[1], NULL, 0, NULL));  /* another one, from inside */
    tk_queue_leave(r.q[1], TOLK_OK, NULL, "inner");
    tk_queue_leave(r.q[0], TOLK_OK, NULL, "outer");
    assert_true(tk_queue_done(r.q[0], 1));
    assert_true(tk_queue_idle(r.q[0]));
    assert_false(r.q[0]->has_worker);
    tk_point ahead = {r.q[1], 2}, reached = {r.q[1], 1}, own = {r.q[0], 1};
    assert_false(tk_queue_enter(r.q[0], &ahead, 1, NULL));
    tk_point both[2] = {reached, own};
    assert_true(tk_queue_enter(r.q[0], both, 2, &t));
    assert_int_equal(t, 2);
    tk_queue_leave(r.q[0], TOLK_OK, NULL, "second");
    tolk_error err = TOLK_ERROR_INIT;
    assert_true(tk_queue_enter(r.q[0], NULL, 0, NULL));
    snprintf(err.msg, sizeof err.msg, "argument 3 is out of range");
    err.node = 7;
    tk_queue_leave(r.q[0], TOLK_E_RANGE, &err, "kernel scale");
    memset(&err, 0, sizeof err);
    assert_int_equal(tk_queue_check(r.q[0], &err), TOLK_E_RANGE);
    assert_string_equal(err.msg, "CPU is stopped (tolk_device_recover): task \"kernel scale\" of "
                                 "CPU: argument 3 is out of range");
    assert_int_equal(err.node, 7);
    assert_int_equal(rig_close(&r), TOLK_E_RANGE);
}
RIG_BOTH(test_enter_takes_an_idle_queue_without_a_worker)

static void *submit_one(void *arg) {
    void **a = arg;
    return (void *)(intptr_t)rig_submit(a[0], rig_add_one, a[1], "other", NULL); /* NOLINT */
}
/* Another thread submits while this one has the queue: it is queued behind. */
static void test_work_of_others_waits_for_leave(bool inline_only) {
    rig r;
    int counter = 0;
    pthread_t other;
    void *result;
    rig_open(&r, 1, inline_only, 20);
    for (int i = 1; i <= 100; i++) {
        assert_true(tk_queue_enter(r.q[0], NULL, 0, NULL));
        void *args[2] = {r.q[0], &counter};
        assert_int_equal(pthread_create(&other, NULL, submit_one, args), 0);
        pthread_join(other, &result);
        assert_int_equal((intptr_t)result, TOLK_OK);
        if (i % 10 == 0)
            rig_pause(200);
        assert_int_equal(counter, i - 1);
        tk_queue_leave(r.q[0], TOLK_OK, NULL, "mine");
        assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
        assert_int_equal(counter, i);
    }
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_work_of_others_waits_for_leave)

static void test_asking_starts_no_worker(void **state) {
    (void)state;
    rig r;
    rig_open(&r, 1, false, 20);
    tk_strbuf sb;
    tk_watch w;
    tk_strbuf_init(&sb, &r.ctx->al);
    tk_queue_describe(r.q[0], &sb);
    assert_string_equal(sb.at, "{\"submitted\": 0, \"done\": 0, \"busy\": false, \"worker\": "
                               "false, \"error\": null}");
    tk_strbuf_fini(&sb);
    assert_int_equal(tk_queue_mark(r.q[0], &w, NULL), TOLK_OK);
    assert_int_equal(tk_queue_wait_for(r.q[0], &w, NULL), TOLK_OK);
    assert_int_equal(tk_queue_wait_watched(&w, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    tk_queue_unwatch(&w);
    assert_false(r.q[0]->has_worker);
    int counter = 0;
    tolk_status st = TOLK_E_IO;
    assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], rig_fail_empty, &st, "say \"no\"", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_E_IO);
    tk_strbuf_init(&sb, &r.ctx->al);
    tk_queue_describe(r.q[0], &sb);
    assert_string_equal(sb.at, "{\"submitted\": 2, \"done\": 1, \"busy\": false, \"worker\": true, "
                               "\"error\": \"task \\\"say \\\"no\\\"\\\" of CPU: input/output "
                               "error\"}");
    tk_strbuf_fini(&sb);
    assert_int_equal(rig_close(&r), TOLK_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        RIG_TESTS(test_O10_sixteen_increments_without_sync),
        RIG_TESTS(test_O11_every_dispatched_value_is_seen_once),
        cmocka_unit_test(test_submit_returns_while_a_task_runs),
        cmocka_unit_test(test_no_wake_up_is_lost),
        RIG_TESTS(test_release_is_called_before_the_ticket_is_done),
        RIG_TESTS(test_enter_takes_an_idle_queue_without_a_worker),
        RIG_TESTS(test_work_of_others_waits_for_leave),
        cmocka_unit_test(test_asking_starts_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
