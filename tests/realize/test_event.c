/* SPDX-License-Identifier: MIT
 *
 * Queues and events of CPU devices through the public functions, on 1, 2 and 4 devices, with
 * workers and without.
 */
#include "support/runtime.h"

#include <pthread.h>

enum { MOST = 4 };
static rt r;
static tolk_device *dev[MOST];

static void open_n(int n, bool synchronous) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = (uint32_t)n;
    o.synchronous = synchronous;
    o.no_environment = 1;
    rt_open(&r, NULL, &o);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "CPU:%d", i);
        assert_int_equal(tolk_device_open(r.ctx, name, &dev[i], NULL), TOLK_OK);
    }
}

/* Every test below runs with each number of devices, with workers and without. */
static void on_all(void (*fn)(int n, bool synchronous)) {
    for (int n = 1; n <= MOST; n *= 2)
        for (int synchronous = 0; synchronous < 2; synchronous++) {
            open_n(n, synchronous);
            fn(n, synchronous);
            rt_close(&r);
        }
}
#define ON_ALL(name)                                                                               \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        on_all(name);                                                                              \
    }

/* A task that waits to be let go. */
typedef struct gate {
    _Atomic int runs, go;
} gate;
static tolk_status gate_task(void *arg, tolk_error *err) {
    gate *g = arg;
    (void)err;
    g->runs = 1;
    for (int i = 0; i < 20000 && !g->go; i++)
        rt_sleep(0.001);
    return g->go ? TOLK_OK : TOLK_E_INTERNAL;
}

static tolk_status add_one(void *arg, tolk_error *err) {
    (void)err;
    ++*(int *)arg;
    return TOLK_OK;
}

static tolk_status break_down(void *arg, tolk_error *err) {
    (void)arg;
    snprintf(err->msg, sizeof err->msg, "no luck");
    return TOLK_E_IO;
}

/* ---- order ---- */

static void O10_sixteen_runs_without_sync_count_to_sixteen(int n, bool synchronous) {
    (void)synchronous;
    int counter[MOST] = {0};
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < n; i++)
            assert_int_equal(tolk_queue_submit(dev[i], add_one, &counter[i], NULL, "add", NULL),
                             TOLK_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(tolk_device_await(dev[i], NULL), TOLK_OK);
        assert_true(tolk_device_is_idle(dev[i]));
        assert_int_equal(counter[i], 16);
    }
}
ON_ALL(O10_sixteen_runs_without_sync_count_to_sixteen)

/* A chain over all devices: each waits for the event of the one before it. */
static void events_order_the_work_of_devices(int n, bool synchronous) {
    (void)synchronous;
    int counter = 0; /* not atomic: the events order it */
    for (int k = 0; k < 200; k++) {
        tolk_device *on = dev[k % n];
        tolk_event *e;
        assert_int_equal(tolk_queue_submit(on, add_one, &counter, NULL, "add", NULL), TOLK_OK);
        assert_int_equal(tolk_event_record(on, &e, NULL), TOLK_OK);
        assert_int_equal(tolk_device_wait_for(dev[(k + 1) % n], e, NULL), TOLK_OK);
        if (k % 50 == 49) {
            assert_int_equal(tolk_event_sync(e, NULL), TOLK_OK);
            assert_int_equal(tolk_event_is_done(e), 1);
            assert_int_equal(counter, k + 1);
        }
        tolk_event_destroy(e); /* waits that were submitted keep what they need */
    }
    for (int i = 0; i < n; i++)
        assert_int_equal(tolk_device_await(dev[i], NULL), TOLK_OK);
    assert_int_equal(counter, 200);
}
ON_ALL(events_order_the_work_of_devices)

static void test_an_event_is_done_when_what_was_before_it_is(void **state) {
    (void)state;
    open_n(1, false);
    gate first = {0}, second = {0};
    tolk_event *a, *b, *c;
    assert_int_equal(tolk_device_all_work(dev[0], &a, NULL), TOLK_OK);
    assert_int_equal(tolk_event_is_done(a), 1);
    assert_int_equal(tolk_queue_submit(dev[0], gate_task, &first, NULL, NULL, NULL), TOLK_OK);
    assert_int_equal(tolk_event_record(dev[0], &b, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(dev[0], gate_task, &second, NULL, NULL, NULL), TOLK_OK);
    assert_int_equal(tolk_device_all_work(dev[0], &c, NULL), TOLK_OK);
    assert_int_equal(tolk_event_is_done(b), 0);
    assert_int_equal(tolk_device_is_idle(dev[0]), 0);
    first.go = 1;
    assert_int_equal(tolk_event_sync(b, NULL), TOLK_OK);
    assert_int_equal(tolk_event_is_done(b), 1);
    assert_int_equal(tolk_event_is_done(c), 0);
    assert_int_equal(tolk_event_sync(a, NULL), TOLK_OK);
    second.go = 1;
    assert_int_equal(tolk_event_sync(c, NULL), TOLK_OK);
    assert_int_equal(tolk_device_is_idle(dev[0]), 1);
    tolk_event_destroy(a);
    tolk_event_destroy(b);
    tolk_event_destroy(c);
    rt_close(&r);
}

/* ---- failures ---- */

static _Atomic int releases;
static void count_release(void *arg) {
    (void)arg;
    releases++;
}

/* O15: submit, await, sync of an event that is pending and a device that waits: all say it. */
static void O15_a_failing_task_stops_its_device_and_who_waits_for_it(int n, bool synchronous) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_event *before, *after = NULL;
    int counter = 0;
    gate g = {0};
    releases = 0;
    tolk_device *d = dev[n - 1];
    char text[64];
    snprintf(text, sizeof text, "task \"bad\" of %s: no luck", tolk_device_name(d));
    assert_int_equal(tolk_queue_submit(d, add_one, &counter, NULL, "good", NULL), TOLK_OK);
    assert_int_equal(tolk_event_record(d, &before, NULL), TOLK_OK);
    if (!synchronous) /* else the failure is there when submit returns */
        assert_int_equal(tolk_queue_submit(d, gate_task, &g, NULL, "gate", NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(d, break_down, NULL, count_release, "bad", NULL), TOLK_OK);
    tolk_status late = tolk_queue_submit(d, add_one, &counter, count_release, "late", NULL);
    assert_int_equal(late, synchronous ? TOLK_E_IO : TOLK_OK);
    late = tolk_event_record(d, &after, NULL);
    assert_int_equal(late, synchronous ? TOLK_E_IO : TOLK_OK);
    if (after && n > 1) {
        assert_int_equal(tolk_device_wait_for(dev[0], after, NULL), TOLK_OK);
        assert_int_equal(tolk_queue_submit(dev[0], add_one, &counter, count_release, "x", NULL),
                         TOLK_OK);
    }
    g.go = 1;
    assert_int_equal(tolk_device_await(d, &err), TOLK_E_IO);
    assert_string_equal(err.msg, text);
    assert_int_equal(tolk_queue_submit(d, add_one, &counter, count_release, "x", &err), TOLK_E_IO);
    assert_non_null(strstr(err.msg, text));
    assert_non_null(strstr(err.msg, " is stopped (tolk_device_recover): "));
    assert_int_equal(tolk_event_is_done(before), 1);
    assert_int_equal(tolk_event_sync(before, NULL), TOLK_OK);
    if (after) {
        assert_int_equal(tolk_event_is_done(after), 0);
        memset(&err, 0, sizeof err);
        assert_int_equal(tolk_event_sync(after, &err), TOLK_E_IO);
        assert_string_equal(err.msg, text);
        if (n > 1) {
            memset(&err, 0, sizeof err);
            assert_int_equal(tolk_device_await(dev[0], &err), TOLK_E_IO);
            assert_string_equal(err.msg, text);
            assert_int_equal(tolk_device_recover(dev[0], NULL), TOLK_OK);
        }
    }
    assert_int_equal(releases, synchronous ? 1 : n > 1 ? 3 : 2);
    assert_int_equal(counter, 1);
    assert_int_equal(tolk_device_recover(d, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(d, add_one, &counter, NULL, "again", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d, NULL), TOLK_OK);
    assert_int_equal(counter, 2);
    if (after) {
        assert_int_equal(tolk_event_is_done(after), 0);
        assert_int_equal(tolk_event_sync(after, NULL), TOLK_E_IO);
        /* It is no less discarded for those who wait from now on, on its own device, too. */
        assert_int_equal(tolk_device_wait_for(d, after, NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(d, &err), TOLK_E_IO);
        assert_string_equal(err.msg, text);
    }
    tolk_event_destroy(before);
    tolk_event_destroy(after);
}
ON_ALL(O15_a_failing_task_stops_its_device_and_who_waits_for_it)

/* ERR-01: a kernel that fails while it runs, second of five. */
typedef struct launch {
    const tolk_program *program;
    void *bufs[3];
    size_t bytes[3];
    int64_t n;
    int ran;
} launch;
static tolk_status launch_task(void *arg, tolk_error *err) {
    launch *l = arg;
    l->ran++;
    return tolk_launch(l->program, l->bufs, l->bytes, 3, &l->n, 1, err);
}
static void ERR01_sync_names_the_first_kernel_that_failed(int n, bool synchronous) {
    float x[100], y[5][10];
    int32_t at[5][10];
    launch l[5];
    tolk_event *e[5] = {NULL};
    tolk_program *p = rt_compile(&r, RT_GATHER);
    tolk_device *d = dev[0];
    gate g = {0};
    (void)n;
    for (int i = 0; i < 100; i++)
        x[i] = (float)i;
    if (!synchronous)
        assert_int_equal(tolk_queue_submit(d, gate_task, &g, NULL, "gate", NULL), TOLK_OK);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 10; k++) {
            at[i][k] = i == 1 && k == 3 ? 777 : k;
            y[i][k] = -1;
        }
        l[i] = (launch){.program = p,
                        .bufs = {y[i], x, at[i]},
                        .bytes = {sizeof y[i], sizeof x, sizeof at[i]},
                        .n = 10};
        char label[16];
        snprintf(label, sizeof label, "gather %d", i);
        tolk_status st = tolk_queue_submit(d, launch_task, &l[i], NULL, label, NULL);
        assert_int_equal(st, synchronous && i > 1 ? TOLK_E_RANGE : TOLK_OK);
        (void)tolk_event_record(d, &e[i], NULL);
    }
    g.go = 1;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_device_await(d, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, "task \"gather 1\" of CPU: "));
    assert_non_null(strstr(err.msg, "777"));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(l[i].ran, i <= 1);
        if (e[i]) {
            assert_int_equal(tolk_event_is_done(e[i]), i == 0);
            assert_int_equal(tolk_event_sync(e[i], NULL), i == 0 ? TOLK_OK : TOLK_E_RANGE);
        }
        tolk_event_destroy(e[i]);
    }
    for (int k = 0; k < 10; k++)
        assert_true(y[0][k] == (float)k && y[2][k] == -1);
    assert_int_equal(tolk_device_recover(d, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(d, launch_task, &l[2], NULL, "again", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d, NULL), TOLK_OK);
    for (int k = 0; k < 10; k++)
        assert_true(y[2][k] == (float)k);
    tolk_program_unref(p);
}
ON_ALL(ERR01_sync_names_the_first_kernel_that_failed)

/* A launch that is cancelled stops the queue that it came from. */
static tolk_status long_task(void *arg, tolk_error *err) {
    float y;
    void *bufs[1] = {&y};
    size_t bytes[1] = {sizeof y};
    return tolk_launch(arg, bufs, bytes, 1, NULL, 0, err);
}
static void test_cancel_stops_the_queue(void **state) {
    (void)state;
    open_n(2, false);
    int counter = 0;
    tolk_program *p = rt_compile(&r, TK_TEST_LONG_KERNEL);
    tolk_error err;
    assert_int_equal(tolk_queue_submit(dev[0], long_task, p, NULL, "long", NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(dev[0], add_one, &counter, NULL, "x", NULL), TOLK_OK);
    while (!tolk_device_is_idle(dev[0])) {
        tolk_cancel(dev[0]);
        rt_sleep(0.001);
    }
    assert_int_equal(tolk_device_await(dev[0], &err), TOLK_E_CANCELLED);
    assert_non_null(strstr(err.msg, "task \"long\" of CPU: "));
    assert_int_equal(counter, 0);
    assert_int_equal(tolk_device_recover(dev[0], NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(dev[0], add_one, &counter, NULL, "x", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
    tolk_program_unref(p);
    rt_close(&r);
}

/* ---- what tasks may not do ---- */

static tolk_status await_own(void *arg, tolk_error *err) {
    (void)err;
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status *got = arg;
    got[0] = tolk_device_await(dev[0], &own);
    got[1] = tolk_device_destroy(dev[0], &own);
    return TOLK_OK;
}
static void a_task_that_waits_for_itself_is_told(int n, bool synchronous) {
    (void)n, (void)synchronous;
    tolk_status got[2] = {TOLK_OK, TOLK_OK};
    int counter = 0;
    assert_int_equal(tolk_queue_submit(dev[0], await_own, got, NULL, "w", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
    assert_int_equal(got[0], TOLK_E_DEADLOCK);
    assert_int_equal(got[1], TOLK_E_DEADLOCK);
    assert_int_equal(tolk_queue_submit(dev[0], add_one, &counter, NULL, "x", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
    assert_int_equal(counter, 1);
}
ON_ALL(a_task_that_waits_for_itself_is_told)

/* ---- a device that goes ---- */

static void a_destroyed_device_takes_nothing(int n, bool synchronous) {
    (void)synchronous;
    tolk_device *d = dev[n - 1];
    int counter = 0;
    tolk_event *e, *late = (tolk_event *)1;
    tolk_error err;
    assert_int_equal(tolk_queue_submit(d, add_one, &counter, NULL, "x", NULL), TOLK_OK);
    assert_int_equal(tolk_event_record(d, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
    assert_int_equal(counter, 1); /* what was queued is run */
    assert_int_equal(tolk_queue_submit(d, add_one, &counter, count_release, "x", &err),
                     TOLK_E_DEVICE_DESTROYED);
    assert_non_null(strstr(err.msg, tolk_device_name(d)));
    assert_int_equal(tolk_device_await(d, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_device_recover(d, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_event_record(d, &late, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_ptr_equal(late, (tolk_event *)1);
    assert_int_equal(tolk_device_wait_for(d, e, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_device_is_idle(d), 1);
    assert_int_equal(tolk_event_is_done(e), 1);
    assert_int_equal(tolk_event_sync(e, NULL), TOLK_OK);
    if (n > 1) { /* another device may wait for it */
        assert_int_equal(tolk_device_wait_for(dev[0], e, NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
    }
    tolk_event_destroy(e);
}
ON_ALL(a_destroyed_device_takes_nothing)

/* ---- arguments ---- */

static void test_null_is_an_argument_error(void **state) {
    (void)state;
    open_n(1, false);
    tolk_event *e;
    tolk_error err;
    assert_int_equal(tolk_event_record(dev[0], &e, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(NULL, add_one, NULL, NULL, "x", &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "tolk_queue_submit: the device is NULL");
    assert_int_equal(tolk_queue_submit(dev[0], NULL, NULL, NULL, "x", &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "tolk_queue_submit: fn is NULL");
    assert_int_equal(tolk_device_await(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_recover(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_is_idle(NULL), 1);
    assert_int_equal(tolk_event_record(NULL, &e, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_event_record(dev[0], NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_all_work(NULL, &e, &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "tolk_device_all_work: the device is NULL");
    assert_int_equal(tolk_event_sync(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_event_is_done(NULL), 0);
    assert_int_equal(tolk_device_wait_for(NULL, e, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_wait_for(dev[0], NULL, NULL), TOLK_E_ARG);
    tolk_event_destroy(NULL);
    tolk_event_destroy(e);
    assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK); /* that poisoned nothing */
    rt_close(&r);
}

/* ---- memory ---- */

static tolk_status use_events(const tolk_allocator *al, void *user) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.cpu_devices = 2;
    o.no_environment = o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_device *d[2];
    tolk_event *e = NULL;
    int counter = 0;
    (void)user;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = tolk_device_open(ctx, "CPU", &d[0], NULL);
    if (!st)
        st = tolk_device_open(ctx, "CPU:1", &d[1], NULL);
    if (!st)
        st = tolk_queue_submit(d[0], add_one, &counter, NULL, "a", NULL);
    if (!st)
        st = tolk_event_record(d[0], &e, NULL);
    if (!st)
        st = tolk_device_wait_for(d[1], e, NULL);
    if (!st)
        st = tolk_queue_submit(d[1], add_one, &counter, NULL, "b", NULL);
    if (!st)
        st = tolk_device_await(d[1], NULL);
    if (!st)
        assert_int_equal(counter, 2);
    tolk_event_destroy(e);
    tolk_ctx_destroy(ctx);
    return st;
}
static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(tk_test_oom(use_events, NULL) > 5);
}

/* ---- many threads ---- */

static void *poll_event(void *arg) {
    while (!tolk_event_is_done(arg))
        ;
    return (void *)(intptr_t)tolk_event_sync(arg, NULL); /* NOLINT */
}
static void test_many_threads_ask_for_one_event(void **state) {
    (void)state;
    open_n(1, false);
    gate g = {0};
    int counter = 0;
    tolk_event *e;
    pthread_t threads[8];
    assert_int_equal(tolk_queue_submit(dev[0], gate_task, &g, NULL, "gate", NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(dev[0], add_one, &counter, NULL, "x", NULL), TOLK_OK);
    assert_int_equal(tolk_event_record(dev[0], &e, NULL), TOLK_OK);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poll_event, e), 0);
    g.go = 1;
    assert_int_equal(tolk_event_sync(e, NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    for (int i = 0; i < 8; i++) {
        void *got;
        pthread_join(threads[i], &got);
        assert_int_equal((intptr_t)got, TOLK_OK);
    }
    tolk_event_destroy(e);
    rt_close(&r);
}

/* A task that waits for a device that was told to wait for the task. */
typedef struct circle {
    tolk_device *own, *other;
    int counter;
    tolk_status got;
    tolk_error err;
} circle;
static tolk_status circle_task(void *arg, tolk_error *err) {
    circle *c = arg;
    tolk_event *all;
    tolk_status st = tolk_event_record(c->own, &all, err);
    if (st == TOLK_OK)
        st = tolk_device_wait_for(c->other, all, err);
    if (st == TOLK_OK)
        st = tolk_queue_submit(c->other, add_one, &c->counter, NULL, "innocent", err);
    tolk_event_destroy(all);
    c->got = tolk_device_await(c->other, &c->err);
    return st;
}

static void a_task_in_a_circle_is_told_and_nobody_stops(int n, bool synchronous) {
    (void)synchronous;
    for (int i = 0; n > 1 && i < 20; i++) {
        circle c = {.own = dev[0], .other = dev[n - 1], .err = TOLK_ERROR_INIT};
        assert_int_equal(tolk_queue_submit(dev[0], circle_task, &c, NULL, "circle", NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
        assert_int_equal(c.got, TOLK_E_DEADLOCK);
        assert_non_null(strstr(c.err.msg, "a task of device CPU waits for device CPU:"));
        assert_int_equal(tolk_device_await(dev[n - 1], NULL), TOLK_OK);
        assert_int_equal(c.counter, 1);
    }
}
ON_ALL(a_task_in_a_circle_is_told_and_nobody_stops)

static void test_events_of_another_context_are_refused(void **state) {
    (void)state;
    rt other;
    tolk_event *e;
    tolk_error err = TOLK_ERROR_INIT;
    rt_open(&other, NULL, NULL);
    open_n(1, false);
    assert_int_equal(tolk_event_record(other.cpu, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_device_wait_for(dev[0], e, &err), TOLK_E_DEVICE);
    assert_string_equal(err.msg,
                        "tolk_device_wait_for: the event is of another context than device CPU");
    assert_int_equal(tolk_device_await(dev[0], NULL), TOLK_OK);
    assert_int_equal(tolk_event_sync(e, NULL), TOLK_OK); /* which keeps nothing of it */
    tolk_event_destroy(e);
    rt_close(&other);
    rt_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_O10_sixteen_runs_without_sync_count_to_sixteen),
        cmocka_unit_test(test_events_order_the_work_of_devices),
        cmocka_unit_test(test_an_event_is_done_when_what_was_before_it_is),
        cmocka_unit_test(test_O15_a_failing_task_stops_its_device_and_who_waits_for_it),
        cmocka_unit_test(test_ERR01_sync_names_the_first_kernel_that_failed),
        cmocka_unit_test(test_cancel_stops_the_queue),
        cmocka_unit_test(test_a_task_that_waits_for_itself_is_told),
        cmocka_unit_test(test_a_destroyed_device_takes_nothing),
        cmocka_unit_test(test_a_task_in_a_circle_is_told_and_nobody_stops),
        cmocka_unit_test(test_events_of_another_context_are_refused),
        cmocka_unit_test(test_null_is_an_argument_error),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_many_threads_ask_for_one_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
