/* SPDX-License-Identifier: MIT
 *
 * Graphs of launches and copies: what is patched, what is recorded anew, runs under way at the same
 * time, errors that name the kernel, and random graphs beside the same calls one by one.
 */
#include "kernels.h"

#include "base/ctx.h"
#include "jit/device.h"
#include "realize/graph_exec.h"
#include "realize/realize.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>

/* y[i] = x[i] + z[i], n elements, which is a param; in place where y is x. */
#define SUM2                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"                                                 \
    "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"                                                 \
    "%%3 = param f32 (%%0) {slot=2, name=\"z\"}\n"                                                 \
    "%%4 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%5 = index f32 (%%2, %%4)\n"                                                                 \
    "%%6 = load f32 (%%5)\n"                                                                       \
    "%%7 = index f32 (%%3, %%4)\n"                                                                 \
    "%%8 = load f32 (%%7)\n"                                                                       \
    "%%9 = add f32 (%%6, %%8)\n"                                                                   \
    "%%10 = index f32 (%%1, %%4)\n"                                                                \
    "%%11 = store void (%%10, %%9)\n"                                                              \
    "%%12 = end void (%%11, %%4)\n"                                                                \
    "%%13 = sink void (%%12) {name=\"sum2\"}\n"

/* y[i] = x[i] + 1 for i < n <= 100. */
#define STEP                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=100}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param f32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = index f32 (%3, %4)\n"                                                                    \
    "%6 = load f32 (%5)\n"                                                                         \
    "%7 = const f32 1\n"                                                                           \
    "%8 = add f32 (%6, %7)\n"                                                                      \
    "%9 = index f32 (%2, %4)\n"                                                                    \
    "%10 = store void (%9, %8)\n"                                                                  \
    "%11 = end void (%10, %4)\n"                                                                   \
    "%12 = sink void (%11) {name=\"step\"}\n"

static rt r;
static tolk_device *dev;
static tolk_error err;

static int setup_on(uint32_t devices, uint32_t threads) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    memset(&r, 0, sizeof r);
    err = (tolk_error)TOLK_ERROR_INIT;
    opts.cpu_devices = devices;
    opts.threads = threads;
    opts.no_disk_cache = 1;
    assert_int_equal(tolk_ctx_create(&opts, &r.ctx, NULL), TOLK_OK);
    dev = device_of(&r, "CPU");
    return 0;
}
static int setup(void **state) {
    (void)state;
    return setup_on(2, 3);
}
static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(r.ctx);
    return 0;
}

static tk_graph_exec *graph_of(const tk_graph_exec_call *calls, size_t n, size_t n_args,
                               size_t n_vars) {
    tk_graph_exec *g = NULL;
    if (tk_graph_exec_create(dev, calls, n, n_args, n_vars, &g, &err))
        fail_msg("%s", err.msg);
    return g;
}

static void run(tk_graph_exec *g, tolk_buffer *const *args, const int64_t *vars) {
    if (tk_graph_exec_run(g, args, vars, false, &err))
        fail_msg("%s", err.msg);
}

static void unref_all(tolk_buffer **b, size_t n) {
    for (size_t i = 0; i < n; i++)
        tolk_buffer_unref(b[i]);
}

#define CALL(KERNEL, ...)                                                                          \
    {                                                                                              \
        .kernel = KERNEL, .args = (const uint32_t[]) {                                             \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* ---- recording and patching ---- */

static void test_a_chain_runs_in_its_order_and_is_recorded_once(void **state) {
    (void)state;
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 64, "2"));
    tolk_kernel *sum = kernel_of(dev, "sum2", rt_text(SUM2, 64));
    /* b = 2a; c = b + a; d = copy of c; e = d + b */
    const tk_graph_exec_call calls[] = {CALL(twice, 1, 0), CALL(sum, 2, 1, 0), CALL(NULL, 3, 2),
                                        CALL(sum, 4, 3, 1)};
    tk_graph_exec *g = graph_of(calls, 4, 5, 0);
    tolk_buffer *b[5];
    for (int i = 0; i < 5; i++)
        b[i] = floats(dev, 64, i == 0 ? 3.0F : 0.0F);
    for (int i = 0; i < 3; i++)
        run(g, b, NULL);
    check_floats(b[4], 15);
    assert_int_equal(tk_graph_exec_records(g), 1);
    tolk_buffer *a = floats(dev, 64, 1), *old = b[0];
    b[0] = a;
    run(g, b, NULL);
    check_floats(b[4], 5);
    check_floats(b[3], 3);
    check_floats(old, 3);
    assert_int_equal(tk_graph_exec_records(g), 1); /* patched */
    tolk_buffer_unref(old);
    tk_graph_exec_destroy(g);
    unref_all(b, 5);
    tolk_kernel_unref(twice);
    tolk_kernel_unref(sum);
}

/* SYM-01: a replay uses the values that it is given, not the first ones. */
static void test_SYM_01_variables_and_sizes_of_each_run(void **state) {
    (void)state;
    tolk_kernel *step = kernel_of(dev, "step", STEP);
    const uint32_t var = 0;
    const tk_graph_exec_call calls[] = {{step, (const uint32_t[]){1, 0}, &var, NULL},
                                        {step, (const uint32_t[]){2, 1}, &var, NULL}};
    tk_graph_exec *g = graph_of(calls, 2, 3, 1);
    for (int64_t n = 1; n <= 100; n += 33) {
        tolk_buffer *b[] = {floats(dev, 100, 1), floats(dev, 100, 0), floats(dev, 100, -1)};
        float out[100];
        run(g, b, &n);
        assert_int_equal(tolk_buffer_copyout(b[2], 0, out, sizeof out, &err), TOLK_OK);
        for (int i = 0; i < 100; i++)
            assert_true(out[i] == (i < n ? 3.0F : -1.0F));
        unref_all(b, 3);
    }
    int64_t wrong = 101;
    tolk_buffer *b[] = {floats(dev, 100, 1), floats(dev, 100, 0), floats(dev, 100, 0)};
    assert_int_equal(tk_graph_exec_run(g, b, &wrong, false, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "kernel step");
    check_contains(err.msg, "\"n\"");
    wrong = 2;
    run(g, b, &wrong);
    assert_int_equal(tk_graph_exec_records(g), 1);
    unref_all(b, 3);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(step);
}

/* GRAPH-05: what does not fit is refused before anything runs, and the graph is as it was. */
static void test_GRAPH_05_an_input_of_another_size_is_refused(void **state) {
    (void)state;
    tolk_kernel *sum = kernel_of(dev, "sum2", rt_text(SUM2, 8));
    const tk_graph_exec_call calls[] = {CALL(sum, 2, 0, 1), CALL(NULL, 3, 2)};
    tk_graph_exec *g = graph_of(calls, 2, 4, 0);
    tolk_buffer *b[] = {floats(dev, 8, 1), floats(dev, 8, 2), floats(dev, 8, 0), floats(dev, 8, 0)};
    run(g, b, NULL);
    tolk_buffer *five = floats(dev, 5, 2), *good = b[1];
    b[1] = five;
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "kernel sum2");
    check_contains(err.msg, "expected 32 bytes");
    b[1] = good;
    tolk_buffer *good3 = b[3];
    b[3] = five;
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err), TOLK_E_RANGE);
    b[3] = good3;
    tolk_buffer *ints;
    assert_int_equal(tolk_alloc_i32(dev, 8, &ints, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(ints, 0, (int32_t[1]){1}, 4, &err), TOLK_OK);
    tolk_buffer *one = b[0], *in = floats(dev, 8, 9);
    b[0] = ints;
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err), TOLK_E_DTYPE);
    check_contains(err.msg, "argument 1");
    b[0] = in;
    run(g, b, NULL);
    check_floats(b[3], 11);
    unref_all(b, 4);
    tolk_buffer_unref(five);
    tolk_buffer_unref(ints);
    tolk_buffer_unref(one);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(sum);
}

/* ---- edges ---- */

static const tk_graph_ops *real_ops;
static char edges[400]; /* "0: 1: 0 2:", of what was built last */

static tolk_status see_build(tolk_device *device, const tk_graph_node *nodes, size_t n, void **out,
                             tolk_error *why) {
    edges[0] = 0;
    for (size_t i = 0; i < n; i++) {
        snprintf(edges + strlen(edges), sizeof edges - strlen(edges), "%s%zu:", i ? " " : "", i);
        for (size_t k = 0; k < nodes[i].n_deps; k++)
            snprintf(edges + strlen(edges), sizeof edges - strlen(edges), " %u", nodes[i].deps[k]);
    }
    return real_ops->build(device, nodes, n, out, why);
}

/* Parts of one memory that lie apart do not wait for each other: edges are by bytes. */
static void test_edges_are_by_the_bytes_of_views(void **state) {
    (void)state;
    const tk_backend *own = dev->backend;
    tk_backend seen = *own;
    tk_graph_ops ops = *own->graph;
    real_ops = own->graph;
    ops.build = see_build;
    seen.graph = &ops;
    dev->backend = &seen;
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 64, "2"));
    tolk_kernel *sum = kernel_of(dev, "sum2", rt_text(SUM2, 64));
    tolk_buffer *arena = floats(dev, 5 * 64, 1), *v[7];
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(tolk_buffer_view(arena, 256 * i, TOLK_F32, 64, &v[i], &err), TOLK_OK);
    v[5] = floats(dev, 64, 0);
    assert_int_equal(tolk_buffer_view(arena, 256 * 2 + 128, TOLK_F32, 64, &v[6], &err), TOLK_OK);
    const tk_graph_exec_call calls[] = {
        CALL(twice, 1, 0),  /* v1 = 2 v0 */
        CALL(twice, 3, 2),  /* v3 = 2 v2, beside it */
        CALL(NULL, 4, 1),   /* v4 = v1: behind 0 */
        CALL(sum, 5, 4, 3), /* behind 1 and 2 */
        CALL(twice, 6, 0),  /* the end of v2, and the beginning of v3: behind 1 and 3 */
        CALL(twice, 0, 5),  /* v0, which 0 and 4 read; behind 3 */
    };
    tk_graph_exec *g = graph_of(calls, 6, 7, 0);
    run(g, v, NULL);
    assert_string_equal(edges, "0: 1: 2: 0 3: 1 2 4: 1 3 5: 0 3 4");
    check_floats(v[5], 4);
    check_floats(v[0], 8);
    tk_graph_exec_destroy(g);
    dev->backend = own;
    unref_all(v, 7);
    tolk_buffer_unref(arena);
    tolk_kernel_unref(twice);
    tolk_kernel_unref(sum);
}

/* Two runs that read what the other writes: apart they are independent, as one memory the second
 * must come after the first. */
static void test_arguments_that_newly_overlap_record_the_graph_anew(void **state) {
    (void)state;
    enum { BIG = 1 << 20 };
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, BIG, "2"));
    /* b = 2a; d = 2c */
    const tk_graph_exec_call calls[] = {CALL(twice, 1, 0), CALL(twice, 3, 2)};
    tk_graph_exec *g = graph_of(calls, 2, 4, 0);
    tolk_buffer *a = floats(dev, BIG, 1), *b = floats(dev, BIG, 0), *c = floats(dev, BIG, 5),
                *d = floats(dev, BIG, 0);
    for (int i = 0; i < 6; i++) {
        tolk_buffer *chain = i % 2 ? b : c; /* every other time d = 2b */
        tolk_buffer *now[] = {a, b, chain, d};
        run(g, now, NULL);
        check_floats(b, 2);
        check_floats(d, i % 2 ? 4 : 10);
        assert_int_equal(tk_graph_exec_records(g), i + 1);
    }
    /* An overlap that a kernel does not allow is refused. */
    tolk_buffer *wide = floats(dev, BIG + 16, 1), *lo, *hi;
    assert_int_equal(tolk_buffer_view(wide, 0, TOLK_F32, BIG, &lo, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(wide, 64, TOLK_F32, BIG, &hi, &err), TOLK_OK);
    tolk_buffer *wrong[] = {lo, hi, c, d}, *right[] = {a, b, c, d};
    assert_int_equal(tk_graph_exec_run(g, wrong, NULL, false, &err), TOLK_E_ALIAS);
    run(g, right, NULL);
    check_floats(d, 10);
    tolk_buffer *all[] = {a, b, c, d, wide, lo, hi};
    unref_all(all, 7);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(twice);
}

static void test_inputs_that_move_together_are_patched(void **state) {
    (void)state;
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 16, "2"));
    const tk_graph_exec_call calls[] = {CALL(twice, 1, 0), CALL(twice, 2, 1)};
    tk_graph_exec *g = graph_of(calls, 2, 3, 0);
    tolk_buffer *arena = floats(dev, 4096, 1);
    for (size_t i = 0; i < 20; i++) {
        tolk_buffer *v[3];
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(tolk_buffer_view(arena, ((i + k) % 7) * 64, TOLK_F32, 16, &v[k], &err),
                             TOLK_OK);
        float x[16];
        for (size_t k = 0; k < 16; k++)
            x[k] = (float)i;
        assert_int_equal(tolk_buffer_copyin(v[0], 0, x, sizeof x, &err), TOLK_OK);
        run(g, v, NULL);
        check_floats(v[2], 4 * (float)i);
        unref_all(v, 3);
    }
    assert_int_equal(tk_graph_exec_records(g), 1); /* slices of one memory that lie apart */
    tolk_buffer_unref(arena);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(twice);
}

/* ---- runs under way ---- */

typedef struct hold {
    sem_t began, go;
} hold;
static tolk_status holding(void *arg, tolk_error *e) {
    hold *h = arg;
    (void)e;
    sem_post(&h->began);
    while (sem_wait(&h->go))
        ;
    return TOLK_OK;
}

/* GRAPH-09: each run has what it was given, however many are under way. */
static void test_GRAPH_09_runs_in_a_row_have_their_own_arguments(void **state) {
    (void)state;
    enum { RUNS = 4 };
    tolk_kernel *step = kernel_of(dev, "step", STEP);
    const uint32_t var = 0;
    const tk_graph_exec_call calls[] = {{step, (const uint32_t[]){1, 0}, &var, NULL},
                                        {step, (const uint32_t[]){2, 1}, &var, NULL}};
    tk_graph_exec *g = graph_of(calls, 2, 3, 1);
    hold h;
    sem_init(&h.began, 0, 0);
    sem_init(&h.go, 0, 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(tolk_queue_submit(dev, holding, &h, NULL, "hold", &err), TOLK_OK);
        while (sem_wait(&h.began))
            ;
        tolk_buffer *middle, *out[RUNS], *in[RUNS];
        assert_int_equal(tolk_alloc_f32(dev, 100, &middle, &err), TOLK_OK);
        for (int i = 0; i < RUNS; i++) {
            assert_int_equal(tolk_alloc_f32(dev, 100, &in[i], &err), TOLK_OK);
            assert_int_equal(tolk_alloc_f32(dev, 100, &out[i], &err), TOLK_OK);
            void *at;
            assert_int_equal(tolk_buffer_map(in[i], &at, &err), TOLK_OK);
            for (int k = 0; k < 100; k++)
                ((float *)at)[k] = (float)(i * 10);
            int64_t n = 100 - i;
            run(g, (tolk_buffer *[]){in[i], middle, out[i]}, &n);
            tolk_buffer_unref(in[i]); /* the run keeps what it needs */
        }
        assert_int_equal(tk_graph_exec_instances(g), RUNS);
        sem_post(&h.go);
        assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
        for (int i = 0; i < RUNS; i++) {
            float x[100];
            assert_int_equal(tolk_buffer_copyout(out[i], 0, x, sizeof x, &err), TOLK_OK);
            for (int k = 0; k < 100 - i; k++)
                assert_true(x[k] == (float)(i * 10 + 2));
            tolk_buffer_unref(out[i]);
        }
        tolk_buffer_unref(middle);
    }
    assert_int_equal(tk_graph_exec_instances(g), RUNS);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(step);
    sem_destroy(&h.began);
    sem_destroy(&h.go);
}

static void test_many_runs_in_a_row_wait_for_a_free_one(void **state) {
    (void)state;
    tolk_kernel *spin = kernel_of(dev, "spin", rt_text(RT_SPIN, 64, 3000LL));
    tolk_kernel *sum = kernel_of(dev, "sum2", rt_text(SUM2, 64));
    const tk_graph_exec_call calls[] = {CALL(spin, 1, 0), CALL(sum, 2, 2, 0)};
    tk_graph_exec *g = graph_of(calls, 2, 3, 0);
    tolk_buffer *b[] = {floats(dev, 64, 1), floats(dev, 64, 0), floats(dev, 64, 0)};
    for (int i = 0; i < 50; i++)
        run(g, b, NULL);
    check_floats(b[2], 50);
    assert_true(tk_graph_exec_instances(g) <= 4);
    run(g, b, NULL);
    tk_graph_exec_destroy(g); /* the run goes on */
    check_floats(b[2], 51);
    unref_all(b, 3);
    tolk_kernel_unref(spin);
    tolk_kernel_unref(sum);
}

/* MEM-03, GRAPH-03: between runs a graph keeps no memory; in a run it keeps all of it. */
static _Atomic int released;
static void note_release(void *user) {
    free(user);
    released++;
}
static tolk_buffer *external(size_t n, float v) {
    float *x = malloc(n * 4);
    for (size_t i = 0; i < n; i++)
        x[i] = v;
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    o.external = x;
    o.release = note_release;
    o.user = x;
    tolk_buffer *b = NULL;
    if (tolk_buffer_create(dev, TOLK_F32, n, &o, &b, &err))
        fail_msg("%s", err.msg);
    return b;
}
static void test_MEM_03_GRAPH_03_memory_is_kept_by_runs_alone(void **state) {
    (void)state;
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 64, "2"));
    const tk_graph_exec_call calls[] = {CALL(NULL, 1, 0), CALL(twice, 2, 1)};
    tk_graph_exec *g = graph_of(calls, 2, 3, 0);
    tolk_buffer *middle = floats(dev, 64, 0), *out = floats(dev, 64, 0);
    released = 0;
    hold h;
    sem_init(&h.began, 0, 0);
    sem_init(&h.go, 0, 0);
    for (int i = 0; i < 4; i++) {
        if (i % 2) {
            assert_int_equal(tolk_queue_submit(dev, holding, &h, NULL, "hold", &err), TOLK_OK);
            while (sem_wait(&h.began))
                ;
        }
        tolk_buffer *in = external(64, (float)i);
        run(g, (tolk_buffer *[]){in, middle, out}, NULL);
        tolk_buffer_unref(in);
        if (i % 2) {
            assert_int_equal(released, i);
            sem_post(&h.go);
        }
        assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
        assert_int_equal(released, i + 1);
        check_floats(out, 2 * (float)i);
    }
    sem_destroy(&h.began);
    sem_destroy(&h.go);
    tolk_buffer_unref(middle);
    tolk_buffer_unref(out);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(twice);
}

static void test_other_queues_wait_for_all_that_a_graph_uses(void **state) {
    (void)state;
    tolk_device *other = device_of(&r, "CPU:1");
    tolk_kernel *spin = kernel_of(dev, "spin", rt_text(RT_SPIN, 64, 200000LL));
    const tk_graph_exec_call calls[] = {CALL(spin, 1, 0), CALL(NULL, 2, 1)};
    tk_graph_exec *g = graph_of(calls, 2, 3, 0);
    tolk_buffer *a = floats(dev, 64, 1), *b = floats(dev, 64, 0), *c = floats(other, 64, 0),
                *d = floats(other, 64, 0);
    float expected[64], got[64];
    for (int i = 0; i < 5; i++) {
        run(g, (tolk_buffer *[]){a, b, c}, NULL); /* a copy to the other device's memory */
        assert_int_equal(tolk_buffer_copy(d, c, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(d, 0, got, sizeof got, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(b, 0, expected, sizeof got, &err), TOLK_OK);
        assert_memory_equal(got, expected, sizeof got);
        assert_true(got[0] > 0);
        float zero[64] = {0};
        assert_int_equal(tolk_buffer_copyin(c, 0, zero, sizeof zero, &err), TOLK_OK);
    }
    tolk_buffer *all[] = {a, b, c, d};
    unref_all(all, 4);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(spin);
}

/* ---- errors ---- */

static void test_errors_of_making_one(void **state) {
    (void)state;
    tolk_device *other = device_of(&r, "CPU:1");
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 64, "2"));
    const tk_graph_exec_call calls[] = {CALL(twice, 1, 0)};
    tk_graph_exec *g = NULL;
    assert_int_equal(tk_graph_exec_create(other, calls, 1, 2, 0, &g, &err), TOLK_E_DEVICE);
    assert_null(g);
    g = graph_of(calls, 1, 2, 0);
    tolk_buffer *b[] = {floats(dev, 64, 1), floats(other, 64, 0)};
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "CPU:1");
    const tk_graph_exec_call copy[] = {CALL(NULL, 1, 0)};
    tk_graph_exec *other_graph = graph_of(copy, 1, 2, 0);
    tolk_buffer *never, *two[2] = {NULL, b[0]};
    assert_int_equal(tolk_alloc_f32(dev, 64, &never, &err), TOLK_OK);
    two[0] = never;
    assert_int_equal(tk_graph_exec_run(other_graph, two, NULL, false, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "what a copy reads: ");
    tolk_buffer_unref(never);
    tk_graph_exec_destroy(other_graph);
    tolk_buffer_free(b[0], NULL);
    tolk_buffer *c[] = {b[0], b[0]};
    assert_int_equal(tk_graph_exec_run(g, c, NULL, false, &err), TOLK_E_FREED);
    tk_graph_exec_destroy(NULL);
    tk_graph_exec_destroy(g);
    unref_all(b, 2);
    tolk_kernel_unref(twice);
}

/* The first node in their order that has a fault is the one that is told, whatever ran. */
static void test_a_fault_names_the_kernel_and_stops_the_graph(void **state) {
    (void)state;
    tolk_kernel *gather = kernel_of(dev, "gather", RT_GATHER);
    tolk_kernel *twice = kernel_of(dev, "scale", rt_text(RT_SCALE, 100, "2"));
    const uint32_t fixed = TK_GRAPH_EXEC_FIXED;
    const int64_t n = 100;
    const tk_graph_exec_call calls[] = {
        CALL(twice, 2, 0), {gather, (const uint32_t[]){3, 2, 1}, &fixed, &n}, CALL(twice, 4, 3)};
    tk_graph_exec *g = graph_of(calls, 3, 5, 0);
    int32_t at[100];
    for (int i = 0; i < 100; i++)
        at[i] = 99 - i;
    tolk_buffer *idx;
    assert_int_equal(tolk_alloc_i32(dev, 100, &idx, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(idx, 0, at, sizeof at, &err), TOLK_OK);
    tolk_buffer *b[] = {floats(dev, 100, 3), idx, floats(dev, 100, 0), floats(dev, 100, 0),
                        floats(dev, 100, -1)};
    run(g, b, NULL);
    check_floats(b[4], 12);
    at[7] = 100;
    tolk_buffer *out = floats(dev, 100, -1);
    tolk_buffer_unref(b[4]);
    b[4] = out;
    assert_int_equal(tolk_buffer_copyin(idx, 0, at, sizeof at, &err), TOLK_OK);
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err), TOLK_E_RANGE);
    check_contains(err.msg, "kernel gather");
    check_contains(err.msg, "index 100");
    assert_int_equal(tk_graph_exec_run(g, b, NULL, false, &err),
                     TOLK_E_RANGE); /* the queue stopped */
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
    check_floats(b[4], -1);
    at[7] = 0;
    assert_int_equal(tolk_buffer_copyin(idx, 0, at, sizeof at, &err), TOLK_OK);
    run(g, b, NULL);
    check_floats(b[4], 12);
    unref_all(b, 5);
    tk_graph_exec_destroy(g);
    tolk_kernel_unref(gather);
    tolk_kernel_unref(twice);
}

static void *cancel_soon(void *arg) {
    (void)arg;
    rt_sleep(0.2);
    tolk_cancel(dev);
    return NULL;
}

static void test_a_graph_can_be_cancelled_and_names_the_kernel(void **state) {
    (void)state;
    tolk_kernel *hours = kernel_of(dev, "long", TK_TEST_LONG_KERNEL);
    tolk_kernel *scale = kernel_of(dev, "scale", rt_text(RT_SCALE, 64, "2"));
    for (int both = 0; both < 2; both++) {
        const tk_graph_exec_call calls[] = {CALL(scale, 1, 0), CALL(hours, 2), CALL(hours, 3)};
        tk_graph_exec *g = graph_of(calls, both ? 3 : 2, both ? 4 : 3, 0);
        tolk_buffer *b[] = {floats(dev, 64, 1), floats(dev, 64, 0), floats(dev, 1, 0),
                            floats(dev, 1, 0)};
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_soon, NULL), 0);
        double began = rt_now();
        run(g, b, NULL);
        assert_int_equal(tolk_device_await(dev, &err), TOLK_E_CANCELLED);
        check_contains(err.msg, "kernel long");
        assert_true(rt_now() - began < 60);
        pthread_join(t, NULL);
        assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
        tk_graph_exec_destroy(g);
        unref_all(b, 4);
    }
    tolk_kernel_unref(hours);
    tolk_kernel_unref(scale);
}

/* ---- random graphs beside single calls ---- */

enum { SLOTS = 40, VIEW = 3000, MOST = 24 };

static tolk_status by_one(const tk_graph_exec_call *c, tolk_buffer *const *args) {
    if (!c->kernel)
        return tolk_buffer_copy(args[c->args[0]], args[c->args[1]], &err);
    tolk_args *a = args_of(&r);
    for (uint32_t i = 0; i < c->kernel->program->meta.head->n_bufs; i++)
        assert_int_equal(tolk_args_buffer(a, i, args[c->args[i]], NULL), TOLK_OK);
    tolk_status st = tolk_kernel_run(c->kernel, a, NULL, NULL, 0, &err);
    tolk_args_destroy(a);
    return st;
}

/* Overlapping pieces of two memories, so that who waits for whom is all kinds of things. The
 * kernels are small, or long enough that threads share them. */
static void random_graphs(uint64_t seed, uint64_t rounds, long long work) {
    uint64_t rng = seed, n_runs = 0, n_good = 0;
    tolk_kernel *k[] = {kernel_of(dev, "scale", rt_text(RT_SCALE, VIEW, "0.5")),
                        kernel_of(dev, "sum2", rt_text(SUM2, VIEW)),
                        kernel_of(dev, "spin", rt_text(RT_SPIN, VIEW, work)), NULL};
    for (uint64_t round = 0; round < rounds; round++) {
        tk_graph_exec_call calls[MOST];
        uint32_t args[MOST][3];
        size_t n = 1 + tk_test_rand(&rng) % MOST;
        for (size_t i = 0; i < n; i++) {
            calls[i] = (tk_graph_exec_call){.kernel = k[tk_test_rand(&rng) % 4], .args = args[i]};
            for (int a = 0; a < 3; a++)
                args[i][a] = (uint32_t)(tk_test_rand(&rng) % SLOTS);
        }
        tk_graph_exec *g = graph_of(calls, n, SLOTS, 0);
        for (int run_number = 0; run_number < 3; run_number++) {
            enum { ALL = 8 * VIEW };
            static float values[ALL], one[ALL], two[ALL];
            tolk_buffer *base[2], *view[2][SLOTS];
            for (size_t i = 0; i < ALL; i++)
                values[i] = (float)(tk_test_rand(&rng) % 2001) / 1000 - 1;
            uint64_t places[SLOTS];
            for (int i = 0; i < SLOTS; i++) /* whole steps often, so that pieces lie apart */
                places[i] = tk_test_rand(&rng) % 30 ? tk_test_rand(&rng) % 7 * VIEW
                                                    : tk_test_rand(&rng) % (7 * VIEW);
            for (int w = 0; w < 2; w++) {
                base[w] = floats(dev, ALL, 0);
                assert_int_equal(tolk_buffer_copyin(base[w], 0, values, sizeof values, &err),
                                 TOLK_OK);
                for (int i = 0; i < SLOTS; i++)
                    assert_int_equal(
                        tolk_buffer_view(base[w], places[i] * 4, TOLK_F32, VIEW, &view[w][i], &err),
                        TOLK_OK);
            }
            /* A call whose arguments meet in a way that it does not allow is refused, and then the
             * whole graph is. */
            tolk_status st = TOLK_OK;
            for (size_t i = 0; i < n && st == TOLK_OK; i++)
                st = by_one(&calls[i], view[0]);
            tolk_status got = tk_graph_exec_run(g, view[1], NULL, false, &err);
            assert_int_equal(got, st);
            assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
            n_runs++;
            n_good += st == TOLK_OK;
            if (st == TOLK_OK) {
                assert_int_equal(tolk_buffer_copyout(base[0], 0, one, sizeof one, &err), TOLK_OK);
                assert_int_equal(tolk_buffer_copyout(base[1], 0, two, sizeof two, &err), TOLK_OK);
                if (memcmp(one, two, sizeof one))
                    fail_msg("round %llu, run %d: a graph of %zu differs",
                             (unsigned long long)round, run_number, n);
            } else {
                assert_int_equal(st, TOLK_E_ALIAS);
            }
            for (int w = 0; w < 2; w++) {
                unref_all(view[w], SLOTS);
                tolk_buffer_unref(base[w]);
            }
        }
        tk_graph_exec_destroy(g);
    }
    assert_true(n_good * 4 >= n_runs); /* not only errors */
    for (int i = 0; i < 3; i++)
        tolk_kernel_unref(k[i]);
}

static void test_random_graphs_equal_single_calls(void **state) {
    (void)state;
    random_graphs(tk_test_seed() + 5, tk_test_count(4000), 3);
}

/* GRAPH-07: the first run and replays give the bits of single launches; also on many threads. */
static void test_GRAPH_07_random_graphs_on_a_team_equal_single_calls(void **state) {
    (void)state;
    random_graphs(tk_test_seed() + 6, tk_test_count(600), 500);
}

/* ---- memory ---- */

static void test_a_warm_run_allocates_nothing(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    opts.allocator = &heap.al;
    opts.cpu_devices = 2;
    opts.threads = 2;
    opts.no_disk_cache = 1;
    memset(&r, 0, sizeof r);
    assert_int_equal(tolk_ctx_create(&opts, &r.ctx, NULL), TOLK_OK);
    dev = device_of(&r, "CPU");
    for (int large = 0; large < 2; large++) {
        tolk_kernel *spin = kernel_of(dev, "spin", rt_text(RT_SPIN, 64, large ? 60000LL : 4LL));
        tolk_kernel *sum = kernel_of(dev, "sum", RT_SUM);
        const tk_graph_exec_call calls[] = {CALL(spin, 1, 0), CALL(spin, 3, 2), CALL(sum, 5, 4)};
        tk_graph_exec *g = graph_of(calls, large ? 3 : 2, large ? 6 : 4, 0);
        tolk_buffer *b[] = {floats(dev, 64, 1), floats(dev, 64, 0),     floats(dev, 64, 1),
                            floats(dev, 64, 0), floats(dev, 100000, 1), floats(dev, 1, 0)};
        tolk_buffer *other = floats(dev, 64, 2), *first = b[0];
        size_t before = 0;
        for (int i = 0; i < 12; i++) {
            if (i == 4)
                before = heap.calls;
            b[0] = i % 2 ? other : first; /* patched each time */
            run(g, b, NULL);
            assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
        }
        assert_int_equal(heap.calls, before);
        b[0] = first;
        unref_all(b, 6);
        tolk_buffer_unref(other);
        tk_graph_exec_destroy(g);
        tolk_kernel_unref(spin);
        tolk_kernel_unref(sum);
    }
    tolk_ctx_destroy(r.ctx);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

/* Everything that takes memory after the kernels are there: making, recording, a second instance,
 * recording anew. */
static tolk_status all_of_it(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.no_environment = 1;
    opts.cpu_devices = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_device *d = NULL;
    tolk_buffer *b[3] = {NULL, NULL, NULL};
    tk_graph_exec *g = NULL;
    st = tolk_device_open(ctx, "CPU", &d, NULL);
    for (int i = 0; i < 3 && st == TOLK_OK; i++)
        st = tolk_alloc_f32(d, 64, &b[i], NULL);
    const float values[64] = {1};
    const tk_graph_exec_call calls[] = {CALL(NULL, 1, 0), CALL(NULL, 2, 1)};
    if (st == TOLK_OK)
        st = tolk_buffer_copyin(b[0], 0, values, sizeof values, NULL);
    if (st == TOLK_OK)
        st = tk_graph_exec_create(d, calls, 2, 3, 0, &g, NULL);
    for (int i = 0; i < 3 && st == TOLK_OK; i++) {
        tolk_buffer *now[] = {b[0], b[1], i == 1 ? b[0] : b[2]};
        st = tk_graph_exec_run(g, now, NULL, false, NULL);
        tolk_status end = tolk_device_await(d, NULL);
        st = st == TOLK_OK ? end : st;
    }
    tk_graph_exec_destroy(g);
    unref_all(b, 3);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    assert_true(tk_test_oom(all_of_it, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_chain_runs_in_its_order_and_is_recorded_once),
        TEST(test_SYM_01_variables_and_sizes_of_each_run),
        TEST(test_GRAPH_05_an_input_of_another_size_is_refused),
        TEST(test_edges_are_by_the_bytes_of_views),
        TEST(test_arguments_that_newly_overlap_record_the_graph_anew),
        TEST(test_inputs_that_move_together_are_patched),
        TEST(test_GRAPH_09_runs_in_a_row_have_their_own_arguments),
        TEST(test_many_runs_in_a_row_wait_for_a_free_one),
        TEST(test_MEM_03_GRAPH_03_memory_is_kept_by_runs_alone),
        TEST(test_other_queues_wait_for_all_that_a_graph_uses),
        TEST(test_errors_of_making_one),
        TEST(test_a_fault_names_the_kernel_and_stops_the_graph),
        TEST(test_a_graph_can_be_cancelled_and_names_the_kernel),
        TEST(test_random_graphs_equal_single_calls),
        TEST(test_GRAPH_07_random_graphs_on_a_team_equal_single_calls),
        cmocka_unit_test(test_a_warm_run_allocates_nothing),
        cmocka_unit_test(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
