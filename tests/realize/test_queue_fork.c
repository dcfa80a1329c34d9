/* SPDX-License-Identifier: MIT
 *
 * THR-01: what the child of a fork can do with a queue, and that it never hangs.
 */
#include "rig.h"

#include <pthread.h>
#include <sys/wait.h>

#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok))                                                                                 \
            return 100 + __LINE__ % 100;                                                           \
    } while (0)

typedef struct scene {
    rig r;
    tk_watch before, within; /* done before the fork; under way */
    bool inline_only;
} scene;

/* An idle queue: everything but what needs the worker works. */
static int idle_child(void *arg) {
    scene *s = arg;
    tk_queue *q = s->r.q[0];
    int counter = 0;
    uint64_t t;
    tolk_error err = TOLK_ERROR_INIT;
    CHECK(tk_queue_idle(q));
    CHECK(tk_queue_done_watched(&s->before));
    CHECK(tk_queue_check(q, NULL) == TOLK_OK);
    CHECK(tk_queue_wait_watched(&s->before, NULL) == TOLK_OK);
    CHECK(tk_queue_await(q, NULL) == TOLK_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(tk_queue_enter(q, NULL, 0, &t));
        tk_queue_leave(q, TOLK_OK, NULL, "x");
        CHECK(tk_queue_done(q, t));
        CHECK(tk_queue_wait(q, t, NULL) == TOLK_OK);
    }
    tk_watch w;
    CHECK(tk_queue_mark(q, &w, NULL) == TOLK_OK);
    CHECK(tk_queue_done_watched(&w));
    CHECK(tk_queue_wait_for(s->r.q[1], &w, NULL) == TOLK_OK);
    tk_queue_unwatch(&w);
    tolk_status st = TOLK_OK;
    tk_command c = {.run = rig_add_one, .arg = &counter, .label = "x"};
    st = tk_queue_submit(q, &c, NULL, &err);
    if (s->inline_only) {
        CHECK(st == TOLK_OK && counter == 1);
    } else {
        CHECK(st == TOLK_E_FORKED && counter == 0);
        CHECK(strcmp(err.msg, "device CPU: this needs the thread of its queue, which the child of "
                              "a fork does not have: make a new context") == 0);
    }
    CHECK(tk_queue_idle(q));
    /* A failure stops it here, too, and it recovers. */
    CHECK(tk_queue_enter(q, NULL, 0, NULL));
    tk_queue_leave(q, TOLK_E_IO, NULL, "x");
    CHECK(tk_queue_check(q, NULL) == TOLK_E_IO);
    CHECK(tk_queue_recover(q, NULL) == TOLK_OK);
    CHECK(tk_queue_check(q, NULL) == TOLK_OK);
    tk_queue_unwatch(&s->before);
    CHECK(rig_close(&s->r) == TOLK_OK);
    return 0;
}

/* A new context of the child has workers. */
static int fresh_child(void *arg) {
    (void)arg;
    rig r;
    int counter = 0;
    rig_open(&r, 1, false, 20);
    CHECK(rig_submit(r.q[0], rig_add_one, &counter, "x", NULL) == TOLK_OK);
    CHECK(tk_queue_await(r.q[0], NULL) == TOLK_OK);
    CHECK(counter == 1);
    CHECK(rig_close(&r) == TOLK_OK);
    return 0;
}

static int grandchild(void *arg) {
    scene *s = arg;
    CHECK(tk_queue_enter(s->r.q[0], NULL, 0, NULL));
    tk_queue_leave(s->r.q[0], TOLK_OK, NULL, "x");
    return tk_test_child(idle_child, s, 20);
}

static void test_THR01_fork_with_an_idle_queue(bool inline_only) {
    scene s = {.inline_only = inline_only};
    int counter = 0;
    rig_open(&s.r, 2, inline_only, 20);
    for (int used = 0; used < 2; used++) {
        if (used) {
            assert_int_equal(rig_submit(s.r.q[0], rig_add_one, &counter, "x", NULL), TOLK_OK);
            assert_int_equal(tk_queue_await(s.r.q[0], NULL), TOLK_OK);
        }
        assert_int_equal(tk_queue_mark(s.r.q[0], &s.before, NULL), TOLK_OK);
        assert_int_equal(tk_test_child(idle_child, &s, 20), 0);
        assert_int_equal(tk_test_child(grandchild, &s, 20), 0);
        assert_int_equal(tk_test_child(fresh_child, &s, 20), 0);
        tk_queue_unwatch(&s.before);
    }
    /* The parent is what it was. */
    assert_int_equal(rig_submit(s.r.q[0], rig_add_one, &counter, "x", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(s.r.q[0], NULL), TOLK_OK);
    assert_int_equal(counter, 2);
    assert_int_equal(rig_close(&s.r), TOLK_OK);
}
RIG_BOTH(test_THR01_fork_with_an_idle_queue)

/* What was under way never ends: everything says so at once. */
static int busy_child(void *arg) {
    scene *s = arg;
    tk_queue *q = s->r.q[0];
    int counter = 0;
    tolk_error err = TOLK_ERROR_INIT;
    CHECK(!tk_queue_idle(q));
    CHECK(!tk_queue_done_watched(&s->within));
    CHECK(tk_queue_wait_watched(&s->within, &err) == TOLK_E_FORKED);
    CHECK(strcmp(err.msg, "device CPU: work was under way when the process forked, and never ends "
                          "in the child: make a new context") == 0);
    CHECK(tk_queue_done_watched(&s->before));
    CHECK(tk_queue_wait_watched(&s->before, NULL) == TOLK_OK);
    CHECK(tk_queue_await(q, NULL) == TOLK_E_FORKED);
    CHECK(tk_queue_check(q, NULL) == TOLK_E_FORKED);
    CHECK(tk_queue_recover(q, NULL) == TOLK_E_FORKED);
    CHECK(rig_submit(q, rig_add_one, &counter, "x", NULL) == TOLK_E_FORKED);
    CHECK(!tk_queue_enter(q, NULL, 0, NULL));
    /* Another queue that is to wait for it. */
    CHECK(tk_queue_wait_for(s->r.q[1], &s->within, NULL) == TOLK_E_FORKED);
    CHECK(tk_queue_enter(s->r.q[1], NULL, 0, NULL));
    tk_queue_leave(s->r.q[1], TOLK_OK, NULL, "x");
    tk_queue_unwatch(&s->before);
    tk_queue_unwatch(&s->within);
    CHECK(rig_close(&s->r) == TOLK_E_FORKED);
    return 0;
}

static void test_THR01_fork_with_a_busy_queue(void **state) {
    (void)state;
    scene s = {0};
    gate g = {0};
    int counter = 0;
    rig_open(&s.r, 2, false, 20);
    tk_queue *q = s.r.q[0];
    assert_int_equal(rig_submit(q, rig_add_one, &counter, "x", NULL), TOLK_OK);
    assert_int_equal(tk_queue_mark(q, &s.before, NULL), TOLK_OK);
    assert_int_equal(rig_submit(q, gate_task, &g, "g", NULL), TOLK_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_submit(q, rig_add_one, &counter, "x", NULL), TOLK_OK);
    assert_int_equal(tk_queue_mark(q, &s.within, NULL), TOLK_OK);
    assert_true(rig_await(&g.runs));
    assert_int_equal(tk_test_child(busy_child, &s, 20), 0);
    atomic_store(&g.go, 1);
    assert_int_equal(tk_queue_wait_watched(&s.within, NULL), TOLK_OK);
    assert_int_equal(counter, 4);
    tk_queue_unwatch(&s.before);
    tk_queue_unwatch(&s.within);
    assert_int_equal(rig_close(&s.r), TOLK_OK);
}

static int stopped_child(void *arg) {
    scene *s = arg;
    tk_queue *q = s->r.q[0];
    CHECK(tk_queue_check(q, NULL) == TOLK_E_LAUNCH);
    CHECK(tk_queue_wait_watched(&s->within, NULL) == TOLK_E_LAUNCH);
    CHECK(tk_queue_await(q, NULL) == TOLK_E_LAUNCH);
    CHECK(tk_queue_recover(q, NULL) == TOLK_OK);
    CHECK(tk_queue_enter(q, NULL, 0, NULL));
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    CHECK(tk_queue_wait_watched(&s->within, NULL) == TOLK_E_LAUNCH);
    tk_queue_unwatch(&s->within);
    CHECK(rig_close(&s->r) == TOLK_OK);
    return 0;
}

static void test_fork_with_a_stopped_queue(void **state) {
    (void)state;
    scene s = {0};
    gate g = {.result = TOLK_E_LAUNCH};
    rig_open(&s.r, 1, false, 20);
    assert_int_equal(rig_submit(s.r.q[0], gate_task, &g, "g", NULL), TOLK_OK);
    assert_int_equal(tk_queue_mark(s.r.q[0], &s.within, NULL), TOLK_OK);
    atomic_store(&g.go, 1);
    assert_int_equal(tk_queue_await(s.r.q[0], NULL), TOLK_E_LAUNCH);
    assert_int_equal(tk_test_child(stopped_child, &s, 20), 0);
    assert_int_equal(tk_queue_check(s.r.q[0], NULL), TOLK_E_LAUNCH);
    tk_queue_unwatch(&s.within);
    assert_int_equal(rig_close(&s.r), TOLK_E_LAUNCH);
}

/* The thread that forks is inside of a command of its own: that goes on in both. */
static int inside_child(void *arg) {
    scene *s = arg;
    tk_queue *q = s->r.q[0];
    CHECK(!tk_queue_idle(q));
    CHECK(tk_queue_await(q, NULL) == TOLK_E_DEADLOCK);
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    CHECK(tk_queue_idle(q));
    CHECK(tk_queue_enter(q, NULL, 0, NULL));
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    CHECK(tk_queue_await(q, NULL) == TOLK_OK);
    return 0;
}
/* Others had queued work behind it. */
static int inside_lost_child(void *arg) {
    scene *s = arg;
    tk_queue *q = s->r.q[0];
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    CHECK(tk_queue_await(q, NULL) == TOLK_E_FORKED);
    CHECK(!tk_queue_enter(q, NULL, 0, NULL));
    return 0;
}

static void test_fork_inside_of_a_command_of_this_thread(void **state) {
    (void)state;
    scene s = {0};
    int counter = 0;
    rig_open(&s.r, 1, false, 20);
    assert_true(tk_queue_enter(s.r.q[0], NULL, 0, NULL));
    assert_int_equal(tk_test_child(inside_child, &s, 20), 0);
    assert_int_equal(rig_submit(s.r.q[0], rig_add_one, &counter, "x", NULL), TOLK_OK);
    assert_int_equal(tk_test_child(inside_lost_child, &s, 20), 0);
    tk_queue_leave(s.r.q[0], TOLK_OK, NULL, "x");
    assert_int_equal(tk_queue_await(s.r.q[0], NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    assert_int_equal(rig_close(&s.r), TOLK_OK);
}

/* A task forks and returns in the child, whose only thread is a copy of the worker. */
static tolk_status fork_task(void *arg, tolk_error *err) {
    (void)err;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        return TOLK_OK;
    }
    int status = -1;
    if (waitpid(pid, &status, 0) == pid)
        *(int *)arg = status;
    return TOLK_OK;
}
static void test_fork_in_a_task(void **state) {
    (void)state;
    if (TK_TEST_ASAN) /* its search for leaks does not know the child's threads */
        skip();
    rig r;
    int status = -1;
    rig_open(&r, 1, false, 20);
    assert_int_equal(rig_submit(r.q[0], fork_task, &status, "f", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    assert_int_equal(status, 0);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

/* Forks at any moment of other threads' calls. */
typedef struct crowd {
    tk_queue *q;
    _Atomic int end;
} crowd;
static void *crowd_thread(void *arg) {
    crowd *c = arg;
    int counter = 0;
    while (!atomic_load(&c->end)) {
        uint64_t t;
        if (tk_queue_enter(c->q, NULL, 0, NULL))
            tk_queue_leave(c->q, TOLK_OK, NULL, "x");
        if (rig_submit(c->q, rig_add_one, &counter, "x", &t) == TOLK_OK)
            (void)tk_queue_wait(c->q, t, NULL);
        tk_watch w;
        if (tk_queue_mark(c->q, &w, NULL) == TOLK_OK)
            tk_queue_unwatch(&w);
    }
    return NULL;
}
static int crowd_child(void *arg) {
    crowd *c = arg;
    int counter = 0;
    uint64_t t;
    tolk_status st = tk_queue_await(c->q, NULL);
    CHECK(st == TOLK_OK || st == TOLK_E_FORKED);
    CHECK(rig_submit(c->q, rig_add_one, &counter, "x", NULL) == TOLK_E_FORKED);
    bool in = tk_queue_enter(c->q, NULL, 0, &t);
    CHECK(in == (st == TOLK_OK));
    if (in) {
        tk_queue_leave(c->q, TOLK_OK, NULL, "x");
        CHECK(tk_queue_wait(c->q, t, NULL) == TOLK_OK);
    }
    tk_watch w;
    CHECK(tk_queue_mark(c->q, &w, NULL) == st);
    if (st == TOLK_OK)
        tk_queue_unwatch(&w);
    CHECK(tk_queue_close(c->q, NULL) == st);
    return 0;
}
static void test_THR01_forks_at_any_moment(void **state) {
    (void)state;
    rig r;
    pthread_t threads[3];
    rig_open(&r, 1, false, 5);
    crowd c = {.q = r.q[0]};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &c), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tk_test_child(crowd_child, &c, 20), 0);
    atomic_store(&c.end, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        RIG_TESTS(test_THR01_fork_with_an_idle_queue),
        cmocka_unit_test(test_THR01_fork_with_a_busy_queue),
        cmocka_unit_test(test_fork_with_a_stopped_queue),
        cmocka_unit_test(test_fork_inside_of_a_command_of_this_thread),
        cmocka_unit_test(test_fork_in_a_task),
        cmocka_unit_test(test_THR01_forks_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
