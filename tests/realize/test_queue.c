/* SPDX-License-Identifier: MIT */
#include "rig.h"

#include <pthread.h>

/* ---- order ---- */

static tolk_status add_one(void *arg, tolk_error *err) {
    (void)err;
    ++*(int *)arg; /* not atomic: the queue orders it */
    return TOLK_OK;
}

static void test_O10_sixteen_increments_without_sync(bool inline_only) {
    rig r;
    int counter = 0;
    rig_open(&r, 1, inline_only, 20);
    for (int i = 0; i < 16; i++)
        assert_int_equal(rig_submit(r.q[0], add_one, &counter, "add", NULL), TOLK_OK);
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
    assert_int_equal(rig_submit(r.q[0], add_one, &counter, "add", &t2), TOLK_OK);
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
            assert_int_equal(rig_submit(r.q[0], add_one, &counter, "add", &t), TOLK_OK);
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
static tolk_status succeed(void *arg, tolk_error *err) {
    (void)arg;
    (void)err;
    return TOLK_OK;
}

static void test_release_is_called_before_the_ticket_is_done(bool inline_only) {
    rig r;
    rig_open(&r, 1, inline_only, 20);
    asker a = {.q = r.q[0]};
    tk_command c = {.run = succeed, .release = ask_in_release, .arg = &a, .label = "x"};
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
    assert_int_equal(rig_submit(r.q[0], add_one, &counter, "add", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);

    assert_int_equal(tk_queue_recover(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_check(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(tk_queue_mark(q, &w, NULL), TOLK_OK);
    assert_true(tk_queue_done_watched(&w)); /* nothing of before is in it */
    tk_queue_unwatch(&w);
    assert_int_equal(rig_submit(q, add_one, &counter, "add", &t), TOLK_OK);
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
        .run = add_one, .arg = &counter, .label = "dependent", .after = &p, .n_after = 1};
    assert_int_equal(tk_queue_submit(r.q[1], &c, &second, NULL), TOLK_OK);
    tk_watch w;
    assert_int_equal(tk_queue_mark(r.q[1], &w, NULL), TOLK_OK);
    assert_int_equal(tk_queue_wait_for(r.q[2], &w, NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[2], add_one, &counter, "last", &t), TOLK_OK);
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
    tk_command c = {.run = add_one, .arg = &counter, .label = "c", .after = &p, .n_after = 1};
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
    v->submit = rig_submit(v->q, add_one, &v->counter, "again", NULL);
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
    tk_command c = {.run = succeed, .release = revive, .arg = &v, .label = "reviver"};
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

static tolk_status fail_empty(void *arg, tolk_error *err) {
    (void)err;
    return *(tolk_status *)arg;
}
static void test_a_label_is_copied_and_cut_at_47_bytes(bool inline_only) {
    rig r;
    tolk_error err;
    tolk_status st = TOLK_E_DTYPE;
    char label[100];
    memset(label, 'x', sizeof label);
    label[99] = 0;
    rig_open(&r, 1, inline_only, 20);
    assert_int_equal(rig_submit(r.q[0], fail_empty, &st, label, NULL), TOLK_OK);
    memset(label, 'y', 98);
    assert_int_equal(tk_queue_await(r.q[0], &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "task \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" of CPU: "
                                 "dtype mismatch");
    assert_int_equal(tk_queue_recover(r.q[0], NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], fail_empty, &st, NULL, NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "task \"task\" of CPU: dtype mismatch");
    assert_int_equal(rig_close(&r), TOLK_E_DTYPE);
}
RIG_BOTH(test_a_label_is_copied_and_cut_at_47_bytes)

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
    return (void *)(intptr_t)rig_submit(a[0], add_one, a[1], "other", NULL); /* NOLINT */
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
    assert_int_equal(rig_submit(r.q[0], add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], fail_empty, &st, "say \"no\"", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_E_IO);
    tk_strbuf_init(&sb, &r.ctx->al);
    tk_queue_describe(r.q[0], &sb);
    assert_string_equal(sb.at, "{\"submitted\": 2, \"done\": 1, \"busy\": false, \"worker\": true, "
                               "\"error\": \"task \\\"say \\\"no\\\"\\\" of CPU: input/output "
                               "error\"}");
    tk_strbuf_fini(&sb);
    assert_int_equal(rig_close(&r), TOLK_E_IO);
}

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
        tk_command c = {.run = add_one, .arg = &counter, .label = "c", .after = &p, .n_after = 1};
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
        assert_int_equal(rig_submit(r.q[1], add_one, &counter, "a", &t), TOLK_OK);
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
    tk_command c = {.run = add_one, .arg = b->counter, .label = "c", .after = &p, .n_after = 1};
    b->got = rig_submit(b->r->q[1], add_one, b->counter, "a", &t);
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
    assert_int_equal(rig_submit(r.q[0], add_one, &counter, "a", &t), TOLK_OK);
    assert_int_equal(rig_submit(r.q[1], add_one, &counter, "b", NULL), TOLK_OK);
    assert_int_equal(rig_submit(r.q[0], add_one, &counter, "c", NULL), TOLK_OK);
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
        assert_int_equal(rig_submit(r.q[i], add_one, &counter, "add", NULL), TOLK_OK);
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
        assert_int_equal(rig_submit(q, add_one, &counter, "a", NULL), TOLK_OK);
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
        assert_int_equal(rig_submit(q, add_one, &counter, "late", NULL), TOLK_E_DEVICE_DESTROYED);
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

/* ---- what is not there ---- */

static bool no_thread(size_t stack_bytes, void *(*fn)(void *), void *arg, pthread_t *thread) {
    (void)stack_bytes;
    (void)fn;
    (void)arg;
    (void)thread;
    return false;
}
static void test_without_a_thread_submit_fails_and_changes_nothing(void **state) {
    (void)state;
    rig r;
    int counter = 0;
    static track released;
    step s = {NULL, &released, 1, TOLK_OK};
    tolk_error err;
    atomic_store(&released.n, 0);
    rig_open(&r, 1, false, 20);
    tk_queue *q = r.q[0];
    bool (*start)(size_t, void *(*)(void *), void *, pthread_t *) = q->start;
    q->start = no_thread;
    tk_command c = {.run = step_task, .release = step_release, .arg = &s, .label = "x"};
    assert_int_equal(tk_queue_submit(q, &c, NULL, &err), TOLK_E_NOMEM);
    assert_string_equal(err.msg, "device CPU: the system gives no thread for its queue");
    assert_int_equal(tk_queue_now(q), 0);
    assert_int_equal(released.n, 0);
    assert_int_equal(tk_queue_check(q, NULL), TOLK_OK);
    assert_true(tk_queue_enter(q, NULL, 0, NULL)); /* needs none */
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    q->start = start;
    assert_int_equal(rig_submit(q, add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

/* Six points of other queues are more than a command has room for. */
static tolk_status exercise(const tolk_allocator *al, void *user) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx;
    tk_queue *q[8] = {NULL};
    gate g = {0};
    int counter = 0;
    tolk_status st = tk_ctx_init(&opts, &ctx, NULL), later;
    if (st)
        return st;
    for (int i = 0; i < 8 && !st; i++)
        st = tk_queue_create(ctx, "CPU", *(bool *)user, 5, &q[i], NULL);
    tk_point p[7];
    if (!st && *(bool *)user)
        tk_queue_delay();
    for (int i = 0; i < 7 && !st; i++) {
        p[i].queue = q[i];
        st = rig_submit(q[i], gate_task, &g, "g", &p[i].ticket);
    }
    if (!st) {
        tk_command c = {.run = add_one, .arg = &counter, .label = "c", .after = p, .n_after = 7};
        st = tk_queue_submit(q[7], &c, NULL, NULL);
    }
    if (!st)
        assert_int_equal(counter, 0);
    atomic_store(&g.go, 1);
    if (q[7] && *(bool *)user)
        tk_queue_resume();
    bool submitted = !st;
    tolk_status broken = TOLK_E_IO;
    if (!st)
        st = tk_queue_await(q[7], NULL);
    if (!st)
        st = rig_submit(q[7], fail_empty, &broken, "f", NULL);
    if (!st && (later = tk_queue_await(q[7], NULL)) != TOLK_E_IO)
        st = later;
    if (!st)
        st = tk_queue_recover(q[7], NULL);
    if (submitted)
        assert_int_equal(counter, 1);
    for (int i = 0; i < 8 && q[i]; i++) {
        tk_queue_close(q[i], NULL);
        tk_queue_free(q[i]);
    }
    tk_ctx_fini(ctx);
    return st;
}
static void test_every_allocation_may_fail(bool inline_only) {
    assert_true(tk_test_oom(exercise, &inline_only) > 10);
}
RIG_BOTH(test_every_allocation_may_fail)

static tolk_status check_room(void *arg, tolk_error *err) {
    const unsigned char *room = arg;
    (void)err;
    for (size_t i = 1; i < 200; i++)
        if (room[i] != (unsigned char)(room[0] + i))
            return TOLK_E_INTERNAL;
    return TOLK_OK;
}

static void submit_room(tk_queue *q, size_t bytes, int first) {
    unsigned char *room = tk_queue_room(q, bytes);
    assert_non_null(room);
    assert_int_equal((uintptr_t)room % 8, 0);
    for (size_t i = 0; i < bytes; i++)
        room[i] = (unsigned char)(first + (int)i);
    tk_command c = {.run = check_room, .room = room, .label = "room"};
    assert_int_equal(tk_queue_submit(q, &c, NULL, NULL), TOLK_OK);
}

/* Of any size, in any order; and a large one makes no later one large. */
static void test_the_room_of_commands_is_kept(bool inline_only) {
    tk_test_heap heap;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_queue *q;
    tk_test_heap_init(&heap);
    opts.no_environment = 1;
    opts.allocator = &heap.al;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_queue_create(ctx, "CPU", inline_only, 20, &q, NULL), TOLK_OK);
    tk_queue_reserve(q, 3, 1000, 9);
    size_t calls = heap.calls;
    for (int i = 0; i < 300; i++) {
        submit_room(q, 200, i);
        submit_room(q, 1000, i + 1);
        submit_room(q, 201, i + 2);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    }
    assert_int_equal(heap.calls, calls);
    for (int i = 0; i < 3; i++) {
        size_t live = heap.live;
        submit_room(q, TK_MOST_ROOM + 1, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.live, live);
    }
    calls = heap.calls;
    tk_queue_drop_room(q, tk_queue_room(q, 1000));
    submit_room(q, 300, 5);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(heap.calls, calls);
    heap.fail_onward = true;
    heap.fail_at = 1;
    assert_null(tk_queue_room(q, SIZE_MAX));
    assert_null(tk_queue_room(q, TK_MOST_ROOM + 1));
    tk_queue_reserve(q, 100, 2000, 9); /* not one of them is there */
    heap.fail_at = 0;
    submit_room(q, 300, 6);
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    tk_queue_free(q);
    tk_ctx_fini(ctx);
    assert_int_equal(heap.live, 0);
}
RIG_BOTH(test_the_room_of_commands_is_kept)

/* Nothing is left of what was kept; later commands are as good, and keep what they took again. */
static void test_a_trim_gives_back_what_is_kept(bool inline_only) {
    tk_test_heap heap;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_queue *q;
    tk_test_heap_init(&heap);
    opts.no_environment = 1;
    opts.allocator = &heap.al;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_queue_create(ctx, "CPU", inline_only, 20, &q, NULL), TOLK_OK);
    size_t live = heap.live;
    for (int i = 0; i < 3; i++) {
        tk_queue_reserve(q, 2000, 5000, 9);
        assert_int_equal(heap.live, live + 4000); /* of each the room, and what it watches */
        submit_room(q, 5000, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        void *taken = tk_queue_room(q, 1000); /* by somebody who is not done with it */
        assert_non_null(taken);
        tk_queue_trim(q);
        assert_int_equal(heap.live, live + 2);
        tk_queue_drop_room(q, taken);
        tk_queue_trim(q);
        assert_int_equal(heap.live, live);
        submit_room(q, 200, i); /* for so many watches as it needs, again */
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.live, live + 1);
        size_t calls = heap.calls;
        submit_room(q, 200, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.calls, calls);
        tk_queue_trim(q);
    }
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    tk_queue_trim(q);
    tk_queue_free(q);
    tk_ctx_fini(ctx);
    assert_int_equal(heap.live, 0);
}
RIG_BOTH(test_a_trim_gives_back_what_is_kept)

enum { TRIM_THREADS = 4, TRIM_COMMANDS = 300 };

typedef struct trimming {
    tk_queue *q;
    _Atomic bool over;
    _Atomic int ran;
} trimming;

static tolk_status count_room(void *arg, tolk_error *err) {
    trimming *t;
    (void)err;
    memcpy(&t, arg, sizeof t);
    atomic_fetch_add(&t->ran, 1);
    return TOLK_OK;
}

static void *submit_many(void *arg) {
    trimming *t = arg;
    for (int i = 0; i < TRIM_COMMANDS; i++) {
        void *room = tk_queue_room(t->q, 64 + (size_t)i * 13 % 900);
        tk_command c = {.run = count_room, .room = room, .label = "count"};
        if (!room)
            return arg;
        memcpy(room, &t, sizeof t);
        if (tk_queue_submit(t->q, &c, NULL, NULL) != TOLK_OK)
            return arg;
    }
    return NULL;
}

static void *trim_often(void *arg) {
    trimming *t = arg;
    while (!atomic_load(&t->over))
        tk_queue_trim(t->q);
    return NULL;
}

static void test_a_trim_while_others_submit(bool inline_only) {
    rig r;
    static trimming t;
    pthread_t trims, submits[TRIM_THREADS];
    rig_open(&r, 1, inline_only, 20);
    t = (trimming){.q = r.q[0]};
    assert_int_equal(pthread_create(&trims, NULL, trim_often, &t), 0);
    for (int i = 0; i < TRIM_THREADS; i++)
        assert_int_equal(pthread_create(&submits[i], NULL, submit_many, &t), 0);
    for (int i = 0; i < TRIM_THREADS; i++) {
        void *failed = &t;
        assert_int_equal(pthread_join(submits[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    atomic_store(&t.over, true);
    assert_int_equal(pthread_join(trims, NULL), 0);
    assert_int_equal(atomic_load(&t.ran), TRIM_THREADS * TRIM_COMMANDS);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_a_trim_while_others_submit)

static void test_a_warm_submit_allocates_nothing(bool inline_only) {
    tk_test_heap heap;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_queue *q;
    int counter = 0;
    tk_test_heap_init(&heap);
    opts.no_environment = 1;
    opts.allocator = &heap.al;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_queue_create(ctx, "CPU", inline_only, 20, &q, NULL), TOLK_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_submit(q, add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    size_t calls = heap.calls;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(rig_submit(q, add_one, &counter, "a", NULL), TOLK_OK);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_true(tk_queue_enter(q, NULL, 0, NULL));
        tk_queue_leave(q, TOLK_OK, NULL, "a");
    }
    assert_int_equal(heap.calls, calls);
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    tk_queue_free(q);
    tk_ctx_fini(ctx);
    assert_int_equal(heap.live, 0);
}
RIG_BOTH(test_a_warm_submit_allocates_nothing)

int main(void) {
    const struct CMUnitTest tests[] = {
        RIG_TESTS(test_O10_sixteen_increments_without_sync),
        RIG_TESTS(test_O11_every_dispatched_value_is_seen_once),
        cmocka_unit_test(test_submit_returns_while_a_task_runs),
        cmocka_unit_test(test_no_wake_up_is_lost),
        RIG_TESTS(test_release_is_called_before_the_ticket_is_done),
        RIG_TESTS(test_ERR01_the_first_error_stops_the_queue_until_it_recovers),
        RIG_TESTS(test_O15_a_failure_spreads_along_waits),
        cmocka_unit_test(test_a_wait_for_discarded_work_fails_after_recovery),
        RIG_TESTS(test_recover_of_a_healthy_queue_does_nothing),
        RIG_TESTS(test_recovery_while_work_is_discarded),
        RIG_TESTS(test_a_label_is_copied_and_cut_at_47_bytes),
        RIG_TESTS(test_enter_takes_an_idle_queue_without_a_worker),
        RIG_TESTS(test_work_of_others_waits_for_leave),
        cmocka_unit_test(test_asking_starts_no_worker),
        cmocka_unit_test(test_waits_in_a_circle_are_refused),
        RIG_TESTS(test_the_inline_thread_counts_as_a_task),
        RIG_TESTS(test_in_a_circle_with_a_command_the_task_is_refused),
        RIG_TESTS(test_a_task_may_wait_for_another_queue),
        RIG_TESTS(test_tasks_submit),
        RIG_TESTS(test_what_is_behind_a_wait_may_wait_for_the_task),
        cmocka_unit_test(test_delayed_submits_run_at_resume),
        RIG_TESTS(test_a_task_cannot_close),
        cmocka_unit_test(test_close_runs_what_is_there_and_takes_no_more),
        cmocka_unit_test(test_without_a_thread_submit_fails_and_changes_nothing),
        RIG_TESTS(test_every_allocation_may_fail),
        RIG_TESTS(test_a_warm_submit_allocates_nothing),
        RIG_TESTS(test_the_room_of_commands_is_kept),
        RIG_TESTS(test_a_trim_gives_back_what_is_kept),
        RIG_TESTS(test_a_trim_while_others_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
