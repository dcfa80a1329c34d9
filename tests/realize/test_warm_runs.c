/* SPDX-License-Identifier: MIT
 *
 * Warm runs over several devices take no memory: calls that wait for other devices' queues, both
 * ways, launches at several positions, copies between devices and graphs, whether each run is
 * waited for or several are under way. Counted by the context's allocator; what the runs compute is
 * checked too.
 */
#include "realize/linears.h"

enum {
    RUNS = 1000,
    SMALL = 64,      /* floats: a call on the thread that submits it, if nothing is in its way */
    LARGE = 1 << 14, /* a copy of so many is queued, and so what follows it */
    BATCH = 3        /* runs under way at once; a graph has at most one more */
};

static rt r;
static tolk_bindings *b;
static tolk_graph *g; /* of nodes to bind */
static tolk_error err;
static int made; /* runs, since the buffers were seeded */

static tk_test_heap heap;

static void open_with(uint32_t devices) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tk_test_heap_init(&heap);
    o.cpu_devices = devices;
    o.allocator = &heap.al;
    rt_open(&r, NULL, &o);
    err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
}

static void close_all(void) {
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    assert_int_equal(heap.live, 0);
}

static const char *device_name(int i) {
    static const char *const names[] = {"CPU", "CPU:1", "CPU:2", "CPU:3"};
    return names[i];
}

/* ---- linears ---- */

typedef struct text {
    char at[8192];
    size_t n;
    int last; /* node */
    char calls[512];
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->at + t->n, sizeof t->at - t->n, fmt, ap);
    va_end(ap);
    assert_true(t->n < sizeof t->at);
}

/* A node that is one of the linear's calls. */
static void call(text *t) {
    size_t n = strlen(t->calls);
    snprintf(t->calls + n, sizeof t->calls - n, "%s%%%d", n ? ", " : "", t->last);
}

static void begin(text *t, int n) {
    *t = (text){.last = 200};
    put(t, "tolk.uop 1\n");
    t->n += (size_t)put_scale(t->at + t->n, sizeof t->at - t->n, 0, n, "same", "0x1p+0");
}

/* %(20 + 2 d), %(21 + 2 d): x and y of device d. */
static void put_buffers(text *t, int devices) {
    for (int d = 0; d < devices; d++)
        put(t,
            "%%%d = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n"
            "%%%d = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n",
            20 + 2 * d, 20 + 2 * d, device_name(d), 21 + 2 * d, 21 + 2 * d, device_name(d));
}

static void put_launch(text *t, int y, int x) {
    put(t, "%%%d = call void (%%11, %%%d, %%%d)\n", ++t->last, y, x);
}

static void put_copy(text *t, int y, int x, const char *device) {
    put(t, "%%%d = copy f32 (%%%d) {device=\"%s\"}\n", ++t->last, x, device);
    put(t, "%%%d = call void (%%%d, %%%d, %%%d)\n", t->last + 1, t->last, y, x);
    t->last++;
}

static tolk_linear *end(text *t) {
    put(t, "%%900 = linear void (%s)\n", t->calls);
    return linear_of(&r, t->at);
}

/* Two times: y = x on each device, and then the x of the next one. */
static tolk_linear *ring(int devices, int n) {
    text t;
    begin(&t, n);
    put_buffers(&t, devices);
    for (int twice = 0; twice < 2; twice++) {
        for (int d = 0; d < devices; d++) {
            put_launch(&t, 21 + 2 * d, 20 + 2 * d);
            call(&t);
        }
        for (int d = 0; d < devices; d++) {
            int next = (d + 1) % devices;
            put_copy(&t, 20 + 2 * next, 21 + 2 * d, device_name(next));
            call(&t);
        }
    }
    return end(&t);
}

/* The same, once, with the launches of each device and the copy to it as a graph. */
static tolk_linear *ring_of_graphs(int devices, int n) {
    text t;
    begin(&t, n);
    put_buffers(&t, devices);
    for (int d = 0; d < devices; d++)
        put(&t, "%%%d = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n", 40 + d, 40 + d,
            device_name(d));
    for (int d = 0; d < devices; d++) {
        put_launch(&t, 40 + d, 20 + 2 * d);
        put_launch(&t, 21 + 2 * d, 40 + d);
        put(&t,
            "%%%d = linear void (%%%d, %%%d)\n%%%d = custom_function void (%%%d) {name=\"graph\"}\n"
            "%%%d = call void (%%%d)\n",
            t.last + 1, t.last - 1, t.last, t.last + 2, t.last + 1, t.last + 3, t.last + 2);
        t.last += 3;
        call(&t);
    }
    for (int d = 0; d < devices; d++) {
        int next = (d + 1) % devices;
        put_copy(&t, 20 + 2 * next, 21 + 2 * d, device_name(next));
        call(&t);
    }
    return end(&t);
}

/* At every device: y = x, and x = y as a copy. */
static tolk_linear *positions(int devices, int n) {
    text t;
    char all[64] = "";
    for (int d = 0; d < devices; d++) {
        strcat(all, d ? "," : "");
        strcat(all, device_name(d));
    }
    begin(&t, n);
    put(&t,
        "%%20 = buffer f32 (%%0) {slot=20, device=\"%s\"}\n"
        "%%21 = buffer f32 (%%0) {slot=21, device=\"%s\"}\n",
        all, all);
    put_launch(&t, 21, 20);
    call(&t);
    put_copy(&t, 20, 21, all);
    call(&t);
    return end(&t);
}

/* ---- running ---- */

static const tolk_uop *node(int n, int slot, const char *device) {
    const tolk_uop *root = NULL;
    const char *text = rt_text("tolk.uop 1\n%%0 = const index %d\n"
                               "%%1 = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n",
                               n, slot, device);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err))
        fail_msg("%s", err.msg);
    return root;
}

/* x of device d is d + 1 everywhere. */
static void seed_ring(int devices, int n) {
    made = 0;
    for (int d = 0; d < devices; d++) {
        tolk_buffer *x = floats(device_of(&r, device_name(d)), (size_t)n, (float)(d + 1));
        assert_int_equal(tolk_bindings_seed(b, node(n, 20 + 2 * d, device_name(d)), x, &err),
                         TOLK_OK);
        tolk_buffer_unref(x);
    }
}

static tolk_buffer *seed_positions(int devices, int n) {
    char all[64] = "";
    tolk_buffer *x[4];
    for (int d = 0; d < devices; d++) {
        strcat(all, d ? "," : "");
        strcat(all, device_name(d));
        x[d] = floats(device_of(&r, device_name(d)), (size_t)n, (float)(d + 1));
    }
    tolk_multi *m = NULL;
    assert_int_equal(tolk_multi_of(x, (size_t)devices, &m, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed_multi(b, node(n, 20, all), m, &err), TOLK_OK);
    tolk_multi_unref(m);
    for (int d = 0; d < devices; d++)
        tolk_buffer_unref(x[d]);
    return x[0]; /* the bindings' */
}

static void await_all(int devices) {
    for (int d = 0; d < devices; d++)
        assert_int_equal(tolk_device_await(device_of(&r, device_name(d)), &err), TOLK_OK);
}

static void run(tolk_exec *e, uint32_t wait) {
    tolk_run_args a = TOLK_RUN_INIT;
    a.wait = wait;
    if (tolk_exec_run(e, &a, &err))
        fail_msg("%s", err.msg);
    made++;
}

/* Keeps a queue from going on. */
static _Atomic int closed;
static tolk_status gate(void *arg, tolk_error *why) {
    (void)arg, (void)why;
    for (int i = 0; i < 200000 && atomic_load(&closed); i++) {
        struct timespec t = {0, 100000};
        nanosleep(&t, NULL);
    }
    return TOLK_OK;
}

/* More runs than a batch has are queued at once: no later batch has more in the queues. */
static void fill_queues(tolk_exec *e, int devices) {
    atomic_store(&closed, 1);
    for (int d = 0; d < devices; d++)
        assert_int_equal(
            tolk_queue_submit(device_of(&r, device_name(d)), gate, NULL, NULL, "gate", &err),
            TOLK_OK);
    for (int i = 0; i <= BATCH; i++)
        run(e, 0);
    atomic_store(&closed, 0);
    await_all(devices);
}

/* x: a buffer of the first device, which is read while runs are under way. n: its floats. */
static void check_runs(tolk_linear *l, int devices, tolk_buffer *x, int n) {
    tolk_exec *e = NULL;
    tolk_device *open[4];
    float *host = malloc((size_t)n * sizeof *host);
    for (int d = 0; d < devices; d++)
        open[d] = device_of(&r, device_name(d));
    if (tolk_exec_create(b, l, NULL, &e, &err))
        fail_msg("%s", err.msg);
    /* Waited for: warm after two. */
    run(e, 1);
    run(e, 1);
    size_t before = heap.calls;
    for (int i = 2; i < RUNS; i++)
        run(e, 1);
    assert_int_equal(heap.calls - before, 0);
    /* Several under way: warm when as many were queued once. */
    fill_queues(e, devices);
    before = heap.calls;
    for (int i = BATCH; i < RUNS; i += BATCH) {
        for (int k = 0; k < BATCH; k++)
            run(e, 0);
        assert_int_equal(tolk_buffer_copyout(x, 0, host, (size_t)n * sizeof *host, &err), TOLK_OK);
        for (int d = 0; d < devices; d++)
            assert_int_equal(tolk_device_await(open[d], &err), TOLK_OK);
    }
    assert_int_equal(heap.calls - before, 0);
    tolk_exec_destroy(e);
    free(host);
}

/* Device d has what device d - steps had at first. */
static void check_ring(int devices, int n, int steps) {
    for (int d = 0; d < devices; d++) {
        tolk_buffer *x = NULL;
        int from = ((d - steps) % devices + devices) % devices;
        assert_int_equal(tolk_bindings_find(b, node(n, 20 + 2 * d, device_name(d)), &x, NULL, &err),
                         TOLK_OK);
        check_floats(x, (float)(from + 1));
    }
}

static void check_ring_runs(tolk_linear *(*make)(int, int), int devices, int n, int steps) {
    open_with((uint32_t)devices);
    seed_ring(devices, n);
    tolk_linear *l = make(devices, n);
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(b, node(n, 20, "CPU"), &x, NULL, &err), TOLK_OK);
    check_runs(l, devices, x, n);
    check_ring(devices, n, made * steps);
    tolk_linear_unref(l);
    close_all();
}

static void test_calls_on_devices_with_edges_both_ways(void **state) {
    (void)state;
    for (int devices = 2; devices <= 4; devices += 2) {
        check_ring_runs(ring, devices, SMALL, 2);
        check_ring_runs(ring, devices, LARGE, 2);
    }
}

static void test_graphs_with_edges_both_ways(void **state) {
    (void)state;
    for (int devices = 2; devices <= 4; devices += 2) {
        check_ring_runs(ring_of_graphs, devices, SMALL, 1);
        check_ring_runs(ring_of_graphs, devices, LARGE, 1);
    }
}

static void test_launches_and_copies_at_all_positions(void **state) {
    (void)state;
    for (int devices = 2; devices <= 4; devices += 2)
        for (int n = SMALL; n <= LARGE; n *= LARGE / SMALL) {
            open_with((uint32_t)devices);
            tolk_buffer *x = seed_positions(devices, n);
            tolk_linear *l = positions(devices, n);
            check_runs(l, devices, x, n);
            tolk_linear_unref(l);
            close_all();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_on_devices_with_edges_both_ways),
        cmocka_unit_test(test_graphs_with_edges_both_ways),
        cmocka_unit_test(test_launches_and_copies_at_all_positions),
    };
    return cmocka_run_group_tests_name("warm_runs", tests, NULL, NULL);
}
