/* SPDX-License-Identifier: MIT
 *
 * Random work on four devices from eight threads at once: allocate, view, copy, launch, free, wait,
 * clear, reset. Each thread owns its buffers, so what it reads back is decided by what it does; the
 * model is the same work in a synchronous context on one thread. Nothing may be left at the end.
 */
#include "support/runtime.h"

#include <pthread.h>

enum { DEVICES = 4, THREADS = 8, SLOTS = 24, MOST = 2048 };

/* y = 3 y + x + c, i < n: in place in y. */
#define MIX                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=4096}\n"                            \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = param i32 {slot=3, name=\"c\", space=alu, min=0, max=1000}\n"                            \
    "%5 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%6 = index i32 (%2, %5)\n"                                                                    \
    "%7 = load i32 (%6)\n"                                                                         \
    "%8 = const i32 3\n"                                                                           \
    "%9 = mul i32 (%7, %8)\n"                                                                      \
    "%10 = index i32 (%3, %5)\n"                                                                   \
    "%11 = load i32 (%10)\n"                                                                       \
    "%12 = add i32 (%9, %11)\n"                                                                    \
    "%13 = add i32 (%12, %4)\n"                                                                    \
    "%14 = store void (%6, %13)\n"                                                                 \
    "%15 = end void (%14, %5)\n"                                                                   \
    "%16 = sink void (%15) {name=\"mix\"}\n"

/* y = c y, i < n. */
#define SCALE                                                                                      \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=4096}\n"                            \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 {slot=2, name=\"c\", space=alu, min=0, max=1000}\n"                            \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = index i32 (%2, %4)\n"                                                                    \
    "%6 = load i32 (%5)\n"                                                                         \
    "%7 = mul i32 (%6, %3)\n"                                                                      \
    "%8 = store void (%5, %7)\n"                                                                   \
    "%9 = end void (%8, %4)\n"                                                                     \
    "%10 = sink void (%9) {name=\"scale\"}\n"

typedef struct worker {
    tolk_ctx *ctx;
    uint64_t seed, ops;
    bool shares;   /* other threads clear caches meanwhile */
    uint64_t hash; /* of all that was read */
    char why[320];
    struct {
        tolk_buffer *b;
        int base; /* slot of the buffer it is a view of; -1: it is none */
        size_t n;
        size_t device;
    } slot[SLOTS];
    tolk_device *device[DEVICES];
    tolk_args *args;
    int32_t host[MOST];
} worker;

static bool fine(worker *w, tolk_status st, const tolk_error *err, const char *what) {
    if (st && !w->why[0])
        snprintf(w->why, sizeof w->why, "%s: %s: %s", what, tolk_status_name(st), err->msg);
    return st == TOLK_OK;
}

static void mix_hash(worker *w, const void *p, size_t n) {
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++)
        w->hash = (w->hash ^ c[i]) * 0x100000001b3u;
}

static void read_back(worker *w, int i) {
    tolk_error err = TOLK_ERROR_INIT;
    if (fine(w, tolk_buffer_copyout(w->slot[i].b, 0, w->host, w->slot[i].n * 4, &err), &err,
             "copyout"))
        mix_hash(w, w->host, w->slot[i].n * 4);
}

/* Views first: a base with views is busy. */
static void drop(worker *w, int i, bool read) {
    tolk_error err = TOLK_ERROR_INIT;
    if (!w->slot[i].b)
        return;
    bool viewed = false;
    for (int v = 0; v < SLOTS; v++)
        viewed |= w->slot[v].b && w->slot[v].base == i;
    if (viewed && tolk_buffer_free(w->slot[i].b, &err) != TOLK_E_BUSY && !w->why[0])
        snprintf(w->why, sizeof w->why, "a buffer with views was freed");
    for (int v = 0; v < SLOTS; v++)
        if (w->slot[v].b && w->slot[v].base == i)
            drop(w, v, read);
    if (read)
        read_back(w, i);
    fine(w, tolk_buffer_free(w->slot[i].b, &err), &err, "free");
    tolk_buffer_unref(w->slot[i].b);
    w->slot[i].b = NULL;
}

static void fill(worker *w, int i, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    for (size_t k = 0; k < w->slot[i].n; k++)
        w->host[k] = (int32_t)tk_test_rand(s);
    fine(w, tolk_buffer_copyin(w->slot[i].b, 0, w->host, w->slot[i].n * 4, &err), &err, "copyin");
}

static void allocate(worker *w, int i, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    drop(w, i, tk_test_rand(s) % 2);
    w->slot[i].device = tk_test_rand(s) % DEVICES;
    w->slot[i].n = tk_test_rand(s) % (tk_test_rand(s) % 8 ? 64 : MOST + 1);
    w->slot[i].base = -1;
    if (fine(w, tolk_alloc_i32(w->device[w->slot[i].device], w->slot[i].n, &w->slot[i].b, &err),
             &err, "alloc"))
        fill(w, i, s);
}

static void view(worker *w, int i, int of, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    int base = w->slot[of].base < 0 ? of : w->slot[of].base;
    if (!w->slot[of].b || i == base || i == of)
        return;
    drop(w, i, false);
    if (!w->slot[of].b) /* it was a view of i */
        return;
    size_t at = tk_test_rand(s) % (w->slot[of].n + 1);
    w->slot[i].n = tk_test_rand(s) % (w->slot[of].n - at + 1);
    w->slot[i].device = w->slot[of].device;
    w->slot[i].base = base;
    fine(w, tolk_buffer_view(w->slot[of].b, at * 4, TOLK_I32, w->slot[i].n, &w->slot[i].b, &err),
         &err, "view");
}

static void copy(worker *w, int to, int from) {
    tolk_error err = TOLK_ERROR_INIT;
    if (!w->slot[to].b || !w->slot[from].b)
        return;
    size_t n = w->slot[to].n < w->slot[from].n ? w->slot[to].n : w->slot[from].n;
    tolk_buffer *a = NULL, *b = NULL;
    if (fine(w, tolk_buffer_view(w->slot[to].b, 0, TOLK_I32, n, &a, &err), &err, "view to") &&
        fine(w, tolk_buffer_view(w->slot[from].b, 0, TOLK_I32, n, &b, &err), &err, "view from"))
        fine(w, tolk_buffer_copy(a, b, &err), &err, "copy");
    tolk_buffer_unref(a); /* queued work keeps what it needs */
    tolk_buffer_unref(b);
}

static int root_of(const worker *w, int i) {
    return w->slot[i].base < 0 ? i : w->slot[i].base;
}

static void launch(worker *w, int y, int x, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    if (!w->slot[y].b)
        return;
    bool two = w->slot[x].b && w->slot[x].device == w->slot[y].device &&
               root_of(w, x) != root_of(w, y) && w->slot[x].n >= w->slot[y].n;
    tolk_args *a = w->args;
    int32_t n = (int32_t)w->slot[y].n, c = (int32_t)(tk_test_rand(s) % 1001);
    tolk_args_destroy(a);
    w->args = NULL;
    if (!fine(w, tolk_args_create(w->ctx, &w->args, &err), &err, "args"))
        return;
    a = w->args;
    fine(w, tolk_args_buffer(a, 0, w->slot[y].b, &err), &err, "argument");
    if (two)
        fine(w, tolk_args_buffer(a, 1, w->slot[x].b, &err), &err, "argument");
    fine(w, tolk_args_i32(a, two ? 2 : 1, n, &err), &err, "argument");
    fine(w, tolk_args_i32(a, two ? 3 : 2, c, &err), &err, "argument");
    tolk_status st;
    for (int tries = 0; tries < 1000; tries++) {
        st = tolk_run(w->device[w->slot[y].device], two ? "mix" : "scale", two ? MIX : SCALE, a,
                      NULL, NULL, 0, &err);
        if (st != TOLK_E_CACHE_CLEARED || !w->shares)
            break;
    }
    fine(w, st, &err, "run");
}

static void wait_for_something(worker *w, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_device *d = w->device[tk_test_rand(s) % DEVICES],
                *o = w->device[tk_test_rand(s) % DEVICES];
    tolk_event *e;
    switch (tk_test_rand(s) % 4) {
    case 0:
        fine(w, tolk_device_await(d, &err), &err, "await");
        break;
    case 1:
        if (fine(w, tolk_event_record(d, &e, &err), &err, "record")) {
            fine(w, tolk_event_sync(e, &err), &err, "sync");
            if (!tolk_event_is_done(e) && !w->why[0])
                snprintf(w->why, sizeof w->why, "an event that was waited for is not done");
            tolk_event_destroy(e);
        }
        break;
    case 2:
        if (fine(w, tolk_device_all_work(d, &e, &err), &err, "all_work")) {
            fine(w, tolk_device_wait_for(o, e, &err), &err, "wait_for");
            tolk_event_destroy(e);
        }
        break;
    default:
        (void)tolk_device_is_idle(d);
        (void)tolk_device_used_memory(d);
    }
}

static void one(worker *w, uint64_t *s) {
    tolk_error err = TOLK_ERROR_INIT;
    int i = (int)(tk_test_rand(s) % SLOTS), j = (int)(tk_test_rand(s) % SLOTS);
    uint64_t what = tk_test_rand(s) % 1000;
    if (what < 150)
        allocate(w, i, s);
    else if (what < 250)
        view(w, i, j, s);
    else if (what < 450)
        copy(w, i, j);
    else if (what < 800)
        launch(w, i, j, s);
    else if (what < 850)
        drop(w, i, true);
    else if (what < 900 && w->slot[i].b)
        read_back(w, i);
    else if (what < 997)
        wait_for_something(w, s);
    else if (what < 998)
        fine(w, tolk_device_reset(w->ctx, &err), &err, "reset");
    else
        fine(w, tolk_kernel_cache_clear(w->ctx, &err), &err, "clear");
}

static void *run(void *arg) {
    worker *w = arg;
    uint64_t s = w->seed;
    tolk_error err = TOLK_ERROR_INIT;
    char name[16];
    for (int d = 0; d < DEVICES; d++) {
        snprintf(name, sizeof name, "CPU:%d", d);
        if (!fine(w, tolk_device_open(w->ctx, name, &w->device[d], &err), &err, "open"))
            return NULL;
    }
    for (uint64_t i = 0; i < w->ops && !w->why[0]; i++)
        one(w, &s);
    for (int i = 0; i < SLOTS; i++)
        drop(w, i, true);
    tolk_args_destroy(w->args);
    return NULL;
}

static tolk_ctx *context(bool synchronous, tk_test_heap *heap) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_test_heap_init(heap);
    o.cpu_devices = DEVICES;
    o.no_disk_cache = o.no_environment = 1;
    o.synchronous = synchronous;
    o.threads = 2;
    o.allocator = synchronous ? &heap->al : NULL; /* that allocator is slow with threads */
    assert_int_equal(tolk_ctx_create(&o, &ctx, NULL), TOLK_OK);
    return ctx;
}

static void nothing_is_used(tolk_ctx *ctx) {
    tolk_device *d[DEVICES];
    size_t n;
    assert_int_equal(tolk_device_list(ctx, NULL, d, DEVICES, &n, NULL), TOLK_OK);
    assert_int_equal(n, DEVICES);
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(tolk_device_await(d[i], NULL), TOLK_OK);
        assert_int_equal(tolk_device_used_memory(d[i]), 0);
        tolk_memory_stats m;
        assert_int_equal(tolk_device_memory_stats(d[i], &m), TOLK_OK);
        assert_int_equal(m.allocs, m.frees);
    }
}

static void test_random_work_of_eight_threads_equals_synchronous_work(void **state) {
    (void)state;
    static worker w[THREADS], model;
    uint64_t ops = tk_test_count(1000000) / THREADS, seed = tk_test_seed();
    tk_test_heap heap;
    tolk_ctx *ctx = context(false, &heap);
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        memset(&w[i], 0, sizeof w[i]);
        w[i].ctx = ctx;
        w[i].seed = seed + (uint64_t)i;
        w[i].ops = ops;
        w[i].shares = true;
        assert_int_equal(pthread_create(&t[i], NULL, run, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (w[i].why[0])
            fail_msg("thread %d, seed %#llx: %s", i, (unsigned long long)seed, w[i].why);
    nothing_is_used(ctx);
    tolk_ctx_destroy(ctx);

    ctx = context(true, &heap);
    for (int i = 0; i < THREADS; i++) {
        memset(&model, 0, sizeof model);
        model.ctx = ctx;
        model.seed = w[i].seed;
        model.ops = ops;
        run(&model);
        if (model.why[0])
            fail_msg("model of thread %d: %s", i, model.why);
        if (model.hash != w[i].hash)
            fail_msg("thread %d of seed %#llx read something else than the model", i,
                     (unsigned long long)seed);
    }
    nothing_is_used(ctx);
    tolk_ctx_destroy(ctx);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_work_of_eight_threads_equals_synchronous_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
