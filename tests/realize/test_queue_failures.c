/* SPDX-License-Identifier: MIT
 *
 * Queues that stop at an error: what waits for them, what a recovery lets go on, what is told.
 */
#include "rig.h"

/* ---- failures ---- */

/* ERR-01, O15: task 2 of 5 fails. */
static void test_ERR01_the_first_error_stops_the_queue_until_it_recovers(bool inline_only) {
    rig r;
    static track ran, released;
    step steps[5];
    gate g = {0};
    tk_watch at[5];
    uint64_t t;
    tolk_error err = TOLK_ERROR_INIT;
    atomic_store(&ran.n, 0);
    atomic_store(&released.n, 0);
    rig_open(&r, 2, inline_only, 20);
    tk_queue *q = r.q[1];
    /* Without a worker the five are queued behind a command of this thread. */
    if (inline_only)
        assert_true(tk_queue_enter(q, NULL, 0, &t));
    else
        assert_int_equal(rig_submit(q, gate_task, &g, "gate", &t), TOLK_OK);
    for (int i = 0; i < 5; i++) {
        steps[i] = (step){&ran, &released, i + 1, i == 1 ? TOLK_E_RANGE : TOLK_OK};
        char label[16];
        snprintf(label, sizeof label, "step %d", i + 1);
        tk_command c = {
            .run = step_task, .release = step_release, .arg = &steps[i], .label = label};
        assert_int_equal(tk_queue_submit(q, &c, NULL, NULL), TOLK_OK);
        assert_int_equal(tk_queue_mark(q, &at[i], NULL), TOLK_OK);
    }
    if (inline_only)
        tk_queue_leave(q, TOLK_OK, NULL, "gate");
    atomic_store(&g.go, 1);

    assert_int_equal(tk_queue_await(q, &err), TOLK_E_RANGE);
    const char *text = "task \"step 2\" of CPU:1: step 2 is broken";
    assert_string_equal(err.msg, text);
    assert_int_equal(err.code, TOLK_E_RANGE);
    assert_int_equal(ran.n, 2);
    assert_int_equal(released.n, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(released.at[i], i + 1);
    for (int i = 0; i < 5; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(tk_queue_done_watched(&at[i]), i == 0);
        assert_int_equal(tk_queue_wait_watched(&at[i], &err), i == 0 ? TOLK_OK : TOLK_E_RANGE);
        assert_string_equal(err.msg, i == 0 ? "" : text);
    }
    /* Clearly stopped: everything says so, with the first error. */
    tk_command c = {.run = step_task, .release = step_release, .arg = &steps[0], .label = "late"};
    memset(&err, 0, sizeof err);
    assert_int_equal(tk_queue_submit(q, &c, NULL, &err), TOLK_E_RANGE);
    assert_string_equal(err.msg,
                        "CPU:1 is stopped (tolk_device_recover): task \"step 2\" of CPU:1: "
                        "step 2 is broken");
    assert_int_equal(released.n, 5); /* a submit that fails releases nothing */
    tk_watch w;
    assert_int_equal(tk_queue_mark(q, &w, NULL), TOLK_E_RANGE);
    assert_int_equal(tk_queue_check(q, NULL), TOLK_E_RANGE);
    assert_false(tk_queue_enter(q, NULL, 0, NULL));
    assert_true(tk_queue_idle(q));
    assert_false(tk_queue_done(q, tk_queue_now(q)));
    /* Others are not affected. */
    int counter = 0;
    assert_int_equal(rig_submit(r.q[0], rig_add_one, &counter, "add", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);

    assert_int_equal(tk_queue_recover(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_check(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_mark(q, &w, NULL), TOLK_OK);
    assert_true(tk_queue_done_watched(&w)); /* nothing of before is in it */
    tk_queue_unwatch(&w);
    assert_int_equal(rig_submit(q, rig_add_one, &counter, "add", &t), TOLK_OK);
    assert_int_equal(tk_queue_wait(q, t, NULL), TOLK_OK);
    assert_int_equal(counter, 2);
    /* What was discarded stays so, and a second failure does not change why. */
    steps[0].result = TOLK_E_ALIAS;
    assert_int_equal(rig_submit(q, step_task, &steps[0], "other", NULL), TOLK_OK);
    memset(&err, 0, sizeof err);
    assert_int_equal(tk_queue_await(q, &err), TOLK_E_ALIAS);
    assert_string_equal(err.msg, "task \"other\" of CPU:1: step 1 is broken");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tk_queue_done_watched(&at[i]), i == 0);
        assert_int_equal(tk_queue_wait_watched(&at[i], &err), i == 0 ? TOLK_OK : TOLK_E_RANGE);
        assert_string_equal(err.msg, i == 0 ? "task \"other\" of CPU:1: step 1 is broken" : text);
        tk_queue_unwatch(&at[i]);
    }
    assert_int_equal(rig_close(&r), TOLK_E_ALIAS);
}
RIG_BOTH(test_ERR01_the_first_error_stops_the_queue_until_it_recovers)

/* O15: a queue that waits for a failed one fails with the same error, and so on. */
static void test_O15_a_failure_spreads_along_waits(bool inline_only) {
    rig r;
    gate g = {.result = TOLK_E_LAUNCH};
    int counter = 0;
    tolk_error err = TOLK_ERROR_INIT;
    uint64_t first, second, t;
    rig_open(&r, 3, inline_only, 20);
    if (inline_only) /* all is queued behind a command of this thread */
        assert_true(tk_queue_enter(r.q[0], NULL, 0, &first));
    else
        assert_int_equal(rig_submit(r.q[0], gate_task, &g, "gate", &first), TOLK_OK);
    tk_point p = {r.q[0], first};
    tk_command c = {
        .run = rig_add_one, .arg = &counter, .label = "dependent", .after = &p, .n_after = 1};
    assert_int_equal(tk_queue_submit(r.q[1], &c, &second, NULL), TOLK_OK);
    tk_watch w;
    assert_int_equal(tk_queue_mark(r.q[1], &w, NULL), TOLK_OK);
    assert_int_equal(tk_queue_wait_for(r.q[2], &w, NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[2], rig_add_one, &counter, "last", &t), TOLK_OK);
    assert_false(tk_queue_idle(r.q[2]));
    if (inline_only)
        tk_queue_leave(r.q[0], TOLK_E_LAUNCH, NULL, "gate");
    atomic_store(&g.go, 1);
    for (int i = 0; i < 3; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(tk_queue_await(r.q[i], &err), TOLK_E_LAUNCH);
        assert_string_equal(err.msg, "task \"gate\" of CPU: invalid launch");
    }
    assert_int_equal(counter, 0);
    tk_queue_unwatch(&w);
    assert_int_equal(rig_close(&r), TOLK_E_LAUNCH);
}
RIG_BOTH(test_O15_a_failure_spreads_along_waits)

/* The queue that failed has long recovered when the one that waits gets there. */
static void test_a_wait_for_discarded_work_fails_after_recovery(void **state) {
    (void)state;
    rig r;
    gate fails = {.result = TOLK_E_LAUNCH}, holds = {0};
    int counter = 0;
    uint64_t t;
    rig_open(&r, 2, false, 20);
    assert_int_equal(rig_submit(r.q[0], gate_task, &fails, "a", &t), TOLK_OK);
    assert_int_equal(rig_submit(r.q[1], gate_task, &holds, "b", NULL), TOLK_OK);
    tk_point p = {r.q[0], t};
    tk_command c = {.run = rig_add_one, .arg = &counter, .label = "c", .after = &p, .n_after = 1};
    assert_int_equal(tk_queue_submit(r.q[1], &c, NULL, NULL), TOLK_OK);
    atomic_store(&fails.go, 1);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_E_LAUNCH);
    assert_int_equal(tk_queue_recover(r.q[0], NULL), TOLK_OK);
    assert_true(tk_queue_done(r.q[0], t));
    atomic_store(&holds.go, 1);
    assert_int_equal(tk_queue_await(r.q[1], NULL), TOLK_E_LAUNCH);
    assert_int_equal(counter, 0);
    /* A point from before the recovery is one of the past for what is submitted now. */
    assert_int_equal(tk_queue_recover(r.q[1], NULL), TOLK_OK);
    assert_int_equal(tk_queue_submit(r.q[1], &c, NULL, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[1], NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

static void test_recover_of_a_healthy_queue_does_nothing(bool inline_only) {
    rig r;
    rig_open(&r, 1, inline_only, 20);
    assert_int_equal(tk_queue_recover(r.q[0], NULL), TOLK_OK);
    assert_int_equal(tk_queue_now(r.q[0]), 0);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_recover_of_a_healthy_queue_does_nothing)

/* A release callback of discarded work may let the queue go on and submit to it. */
typedef struct reviver {
    tk_queue *q;
    int counter;
    tolk_status recover, submit;
} reviver;
static void revive(void *arg) {
    reviver *v = arg;
    v->recover = tk_queue_recover(v->q, NULL);
    v->submit = rig_submit(v->q, rig_add_one, &v->counter, "again", NULL);
}
static void test_recovery_while_work_is_discarded(bool inline_only) {
    rig r;
    rig_open(&r, 1, inline_only, 20);
    static track ran, released;
    reviver v = {.q = r.q[0]};
    gate g = {.result = TOLK_E_IO};
    step s = {&ran, &released, 1, TOLK_OK};
    atomic_store(&released.n, 0);
    if (inline_only)
        assert_true(tk_queue_enter(r.q[0], NULL, 0, NULL));
    else
        assert_int_equal(rig_submit(r.q[0], gate_task, &g, "fails", NULL), TOLK_OK);
    tk_command c = {.run = rig_succeed, .release = revive, .arg = &v, .label = "reviver"};
    assert_int_equal(tk_queue_submit(r.q[0], &c, NULL, NULL), TOLK_OK);
    tk_command d = {.run = step_task, .release = step_release, .arg = &s, .label = "discarded"};
    assert_int_equal(tk_queue_submit(r.q[0], &d, NULL, NULL), TOLK_OK);
    tk_watch w;
    assert_int_equal(tk_queue_mark(r.q[0], &w, NULL), TOLK_OK);
    if (inline_only)
        tk_queue_leave(r.q[0], TOLK_E_IO, NULL, "fails");
    atomic_store(&g.go, 1);
    assert_int_equal(tk_queue_wait_watched(&w, NULL), TOLK_E_IO);
    tk_queue_unwatch(&w);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    assert_int_equal(v.recover, TOLK_OK);
    assert_int_equal(v.submit, TOLK_OK);
    assert_int_equal(v.counter, 1);
    assert_int_equal(released.n, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_recovery_while_work_is_discarded)

static void test_a_label_is_copied_and_cut_at_47_bytes(bool inline_only) {
    rig r;
    tolk_error err;
    tolk_status st = TOLK_E_DTYPE;
    char label[100];
    memset(label, 'x', sizeof label);
    label[99] = 0;
    rig_open(&r, 1, inline_only, 20);
    assert_int_equal(rig_submit(r.q[0], rig_fail_empty, &st, label, NULL), TOLK_OK);
    memset(label, 'y', 98);
    assert_int_equal(tk_queue_await(r.q[0], &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "task \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" of CPU: "
                                 "dtype mismatch");
    assert_int_equal(tk_queue_recover(r.q[0], NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], rig_fail_empty, &st, NULL, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "task \"task\" of CPU: dtype mismatch");
    assert_int_equal(rig_close(&r), TOLK_E_DTYPE);
}
RIG_BOTH(test_a_label_is_copied_and_cut_at_47_bytes)

int main(void) {
    const struct CMUnitTest tests[] = {
        RIG_TESTS(test_ERR01_the_first_error_stops_the_queue_until_it_recovers),
        RIG_TESTS(test_O15_a_failure_spreads_along_waits),
        cmocka_unit_test(test_a_wait_for_discarded_work_fails_after_recovery),
        RIG_TESTS(test_recover_of_a_healthy_queue_does_nothing),
        RIG_TESTS(test_recovery_while_work_is_discarded),
        RIG_TESTS(test_a_label_is_copied_and_cut_at_47_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
