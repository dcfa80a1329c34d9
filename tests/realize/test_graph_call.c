/* SPDX-License-Identifier: MIT
 *
 * CALLs of CUSTOM_FUNCTION "graph": recorded by the first run, patched by those that follow. GRAPH,
 * MEM and SYM are ids of the case collection this project tests against.
 */
#include "linears.h"

#include "base/ctx.h"

enum { SIZE = 64 };

static rt r;
static tolk_bindings *b;
static tolk_graph *g; /* of nodes to bind */
static tolk_error err;

static void open_with(const tolk_ctx_opts *opts) {
    rt_open(&r, NULL, opts);
    err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
}
static int setup(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.cpu_devices = 2;
    open_with(&opts);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

static const tolk_uop *node(size_t n, int slot) {
    char text[160];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index %zu\n%%1 = buffer f32 (%%0) {slot=%d}\n", n, slot);
    const tolk_uop *root = NULL;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err))
        fail_msg("%s", err.msg);
    return root;
}

/* A buffer of floats v that the node of that slot stands for. Owner: the bindings. */
static tolk_buffer *seed(size_t n, int slot, float v) {
    tolk_buffer *x = floats(r.cpu, n, v);
    assert_int_equal(tolk_bindings_seed(b, node(n, slot), x, &err), TOLK_OK);
    tolk_buffer_unref(x);
    return x;
}

static tolk_buffer *bound(size_t n, int slot) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(b, node(n, slot), &x, NULL, &err), TOLK_OK);
    return x;
}

static tolk_counters counters(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c;
}

/* t = 2x, y = 2t, as a graph of the inputs x and y and the buffer t in slot 2. */
static tolk_linear *twice_twice(const char *x, const char *y) {
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, SIZE, "scale", "2");
    snprintf(text + n, sizeof text - n,
             "%%30 = %s f32 (%%0) {slot=0}\n%%31 = %s f32 (%%0) {slot=1}\n"
             "%%32 = buffer f32 (%%0) {slot=2}\n"
             "%%40 = call void (%%11, %%32, %%30)\n%%41 = call void (%%11, %%31, %%32)\n"
             "%%42 = linear void (%%40, %%41)\n"
             "%%43 = custom_function void (%%42) {name=\"graph\"}\n"
             "%%44 = call void (%%43, %%30, %%31)\n%%45 = linear void (%%44)\n",
             x, y);
    return linear_of(&r, text);
}

static tolk_exec *exec_of(tolk_linear *l) {
    tolk_exec *e = NULL;
    if (tolk_exec_create(b, l, NULL, &e, &err))
        fail_msg("%s", err.msg);
    return e;
}

static tolk_status try_run(tolk_exec *e, int x, int y) {
    const tolk_uop *inputs[] = {node(SIZE, x), node(SIZE, y)};
    tolk_run_args a = TOLK_RUN_INIT;
    a.inputs = inputs;
    a.n_inputs = 2;
    return tolk_exec_run(e, &a, &err);
}
static void run(tolk_exec *e, int x, int y) {
    if (try_run(e, x, y))
        fail_msg("%s", err.msg);
}

static void test_GRAPH_01_each_run_has_its_own_output(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("param", "param");
    tolk_exec *e = exec_of(l);
    (void)seed(SIZE, 10, 1);
    (void)seed(SIZE, 11, 2);
    tolk_buffer *r1 = seed(SIZE, 20, 0), *r2 = seed(SIZE, 21, 0);
    run(e, 10, 20);
    run(e, 11, 21);
    check_floats(r1, 4);
    check_floats(r2, 8);
    (void)seed(SIZE, 22, 0);
    run(e, 20, 22); /* the first result goes in again */
    check_floats(bound(SIZE, 22), 16);
    check_floats(r1, 4);
    run(e, 20, 20); /* in and out are one memory: t is between them */
    check_floats(r1, 16);
    tolk_counters c = counters();
    assert_int_equal(c.graph_launches, 4);
    assert_int_equal(c.graph_records, 2);
    assert_int_equal(c.launches, 8);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

typedef struct hold {
    _Atomic int began, go;
} hold;
static tolk_status holding(void *arg, tolk_error *e) {
    hold *h = arg;
    (void)e;
    h->began = 1;
    while (!h->go)
        rt_sleep(0.0005);
    return TOLK_OK;
}

static void test_GRAPH_09_replays_in_a_row_have_their_own_inputs(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("param", "param");
    tolk_exec *e = exec_of(l);
    for (int i = 0; i < 6; i++) {
        (void)seed(SIZE, 10 + i, (float)i);
        (void)seed(SIZE, 20 + i, -1);
    }
    hold h = {0, 0};
    assert_int_equal(tolk_queue_submit(r.cpu, holding, &h, NULL, "hold", &err), TOLK_OK);
    for (int i = 0; i < 4; i++)
        run(e, 10 + i, 20 + i);
    h.go = 1;
    for (int i = 4; i < 6; i++)
        run(e, 10 + i, 20 + i);
    for (int i = 0; i < 6; i++)
        check_floats(bound(SIZE, 20 + i), 4 * (float)i);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

static void test_what_nodes_stand_for_is_looked_up_again(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("buffer", "buffer");
    (void)seed(SIZE, 0, 1);
    tolk_exec *e = exec_of(l);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
    check_floats(bound(SIZE, 1), 4);
    tolk_buffer *first = tolk_buffer_ref(bound(SIZE, 1));
    (void)seed(SIZE, 0, 3);
    (void)seed(SIZE, 1, 0);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
    check_floats(bound(SIZE, 1), 12);
    check_floats(first, 4);
    tolk_buffer_unref(first);
    tolk_bindings_remove(b, node(SIZE, 2));
    (void)seed(SIZE, 2, 7);
    (void)seed(SIZE, 0, 5);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
    check_floats(bound(SIZE, 2), 10);
    check_floats(bound(SIZE, 1), 20);
    assert_int_equal(counters().graph_records, 1);
    /* Two bindings have graphs of their own. */
    tolk_bindings *other = NULL;
    assert_int_equal(tolk_bindings_create(r.cpu, &other, NULL), TOLK_OK);
    tolk_buffer *x = floats(r.cpu, SIZE, 100), *y = NULL;
    assert_int_equal(tolk_bindings_seed(other, node(SIZE, 0), x, &err), TOLK_OK);
    assert_int_equal(tolk_run_linear(other, l, NULL, NULL, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_find(other, node(SIZE, 1), &y, NULL, &err), TOLK_OK);
    check_floats(y, 400);
    check_floats(bound(SIZE, 1), 20);
    tolk_buffer_unref(x);
    tolk_bindings_destroy(other);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

static void test_inputs_that_do_not_fit_or_alias_are_refused(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("param", "param");
    tolk_exec *e = exec_of(l);
    tolk_buffer *wide = floats(r.cpu, 2 * SIZE, 1), *lo, *hi;
    (void)seed(SIZE, 10, 1);
    (void)seed(SIZE, 20, 0);
    run(e, 10, 20);
    /* GRAPH-05: smaller than at the recording. */
    assert_int_equal(tolk_buffer_view(wide, 0, TOLK_F32, SIZE - 3, &lo, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node(SIZE, 10), lo, &err), TOLK_OK);
    assert_int_equal(try_run(e, 10, 20), TOLK_E_LAUNCH);
    check_contains(err.msg, "(graph");
    check_contains(err.msg, "kernel scale");
    tolk_buffer_unref(lo);
    /* Overlapping as one kernel does not allow. */
    assert_int_equal(tolk_buffer_view(wide, 0, TOLK_F32, SIZE, &lo, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(wide, 64, TOLK_F32, SIZE, &hi, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node(SIZE, 10), lo, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node(SIZE, 2), hi, &err), TOLK_OK);
    assert_int_equal(try_run(e, 10, 20), TOLK_E_ALIAS);
    (void)seed(SIZE, 2, 0);
    run(e, 10, 20);
    check_floats(bound(SIZE, 20), 4);
    tolk_buffer_unref(lo);
    tolk_buffer_unref(hi);
    tolk_buffer_unref(wide);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* y[i] = x[i] + 1 for i < n. */
#define STEP_OF_N                                                                                  \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=100}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param f32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = index f32 (%3, %4)\n"                                                                    \
    "%6 = load f32 (%5)\n"                                                                         \
    "%7 = const f32 0x1p+0\n"                                                                      \
    "%8 = add f32 (%6, %7)\n"                                                                      \
    "%9 = index f32 (%2, %4)\n"                                                                    \
    "%10 = store void (%9, %8)\n"                                                                  \
    "%11 = end void (%10, %4)\n"                                                                   \
    "%12 = sink void (%11) {name=\"step\"}\n"

static void test_SYM_01_a_replay_uses_the_values_it_is_given(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, STEP_OF_N "%20 = const index 100\n"
                                             "%30 = buffer f32 (%20) {slot=0}\n"
                                             "%31 = buffer f32 (%20) {slot=1}\n"
                                             "%32 = buffer f32 (%20) {slot=2}\n"
                                             "%40 = call void (%12, %31, %30, %0)\n"
                                             "%41 = call void (%12, %32, %31, %0)\n"
                                             "%42 = linear void (%40, %41)\n"
                                             "%43 = custom_function void (%42) {name=\"graph\"}\n"
                                             "%44 = call void (%43)\n"
                                             "%45 = linear void (%44)\n");
    (void)seed(100, 0, 1);
    tolk_exec *e = exec_of(l);
    for (int64_t n = 1; n <= 100; n += 3) {
        float x[100];
        tolk_buffer *y = seed(100, 2, 0);
        tolk_var var = {"n", n};
        tolk_run_args a = TOLK_RUN_INIT;
        a.vars = &var;
        a.n_vars = 1;
        if (tolk_exec_run(e, &a, &err))
            fail_msg("%s", err.msg);
        assert_int_equal(tolk_buffer_copyout(y, 0, x, sizeof x, &err), TOLK_OK);
        for (int i = 0; i < 100; i++)
            assert_true(x[i] == (i < n ? 3.0F : 0.0F));
    }
    assert_int_equal(counters().graph_records, 1);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "\"n\"");
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* x = 2z through a view of what x is the first half of, and y = 2x through another one, in either
 * order, as calls and as a graph: there is something in x only where that is stored first. */
static void test_what_is_stored_later_is_not_there_to_be_read(void **state) {
    (void)state;
    static const char graph[] = "%43 = custom_function void (%42) {name=\"graph\"}\n"
                                "%44 = call void (%43)\n%45 = linear void (%44)\n";
    (void)seed(SIZE, 2, 3);
    for (int way = 0; way < 4; way++) {
        bool early = way < 2;
        char text[4096];
        size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
        n += (size_t)put_scale(text + n, sizeof text - n, 0, SIZE, "scale", "2");
        snprintf(text + n, sizeof text - n,
                 "%%20 = const index %d\n%%21 = const index 0\n"
                 "%%30 = buffer f32 (%%20) {slot=0}\n%%31 = buffer f32 (%%0) {slot=1}\n"
                 "%%32 = buffer f32 (%%0) {slot=2}\n"
                 "%%33 = slice f32 (%%30, %%21) {count=%d}\n"
                 "%%34 = slice f32 (%%33, %%21) {count=%d}\n"
                 "%%35 = slice f32 (%%30, %%21) {count=%d}\n"
                 "%%40 = call void (%%11, %%35, %%32)\n%%41 = call void (%%11, %%31, %%34)\n"
                 "%%42 = linear void (%s)\n%s",
                 2 * SIZE, 2 * SIZE, SIZE, SIZE, early ? "%40, %41" : "%41, %40",
                 way % 2 ? graph : "");
        tolk_linear *l = linear_of(&r, text);
        for (int again = 0; again < 2; again++) {
            err = (tolk_error)TOLK_ERROR_INIT;
            tolk_status st = tolk_run_linear(b, l, NULL, NULL, &err);
            if (st != (early ? TOLK_OK : TOLK_E_UNBOUND))
                fail_msg("way %d: %s %s", way, tolk_status_name(st), err.msg);
        }
        tolk_buffer *y = NULL;
        assert_int_equal(tolk_bindings_find(b, node(SIZE, 1), &y, NULL, NULL), TOLK_OK);
        if (early)
            check_floats(y, 12);
        else
            check_contains(err.msg, "nothing was stored");
        tolk_bindings_remove(b, node(SIZE, 1));
        tolk_bindings_remove(b, node(2 * SIZE, 0));
        tolk_linear_unref(l);
    }
}

/* GRAPH-07: random chains, the calls as they are and as a graph, and runs of it, bit for bit. */
static void test_GRAPH_07_a_graph_gives_the_bits_of_its_calls(void **state) {
    (void)state;
    enum { KERNELS = 3, CALLS = 30, BUFS = 8 };
    uint64_t rng = tk_test_seed() + 9, rounds = tk_test_count(100);
    static const char *const factor[KERNELS] = {"0x1.8p-1", "-0x1.4p+0", "0x1.99999ap-4"};
    for (uint64_t round = 0; round < rounds; round++) {
        char text[16000], list[800] = "";
        size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
        for (int k = 0; k < KERNELS; k++)
            n += (size_t)put_scale(text + n, sizeof text - n, 20 * k, SIZE, "scale", factor[k]);
        for (int k = 0; k < BUFS; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%%%d = buffer f32 (%%0) {slot=%d}\n",
                                  100 + k, k);
        for (int i = 0; i < CALLS; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = call void (%%%d, %%%d, %%%d) "
                                  "{name=\"c%d\"}\n",
                                  200 + i, 11 + 20 * (int)(tk_test_rand(&rng) % KERNELS),
                                  100 + (int)(tk_test_rand(&rng) % BUFS),
                                  100 + (int)(tk_test_rand(&rng) % BUFS), i);
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%%%d", i ? ", " : "",
                     200 + i);
        }
        snprintf(text + n, sizeof text - n, "%%300 = linear void (%s)\n", list);
        tolk_linear *plain = linear_of(&r, text);
        n += strlen(text + n);
        snprintf(text + n, sizeof text - n,
                 "%%301 = custom_function void (%%300) {name=\"graph\"}\n"
                 "%%302 = call void (%%301)\n%%303 = linear void (%%302)\n");
        tolk_linear *graph = linear_of(&r, text);
        float want[BUFS][SIZE], got[SIZE];
        for (int i = 0; i < 5; i++) {
            for (int k = 0; k < BUFS; k++)
                (void)seed(SIZE, k, 1.5F + (float)(k + i));
            if (tolk_run_linear(b, i ? graph : plain, NULL, NULL, &err))
                fail_msg("%s", err.msg);
            if (i) /* the same values once more by the calls */
                for (int k = 0; k < BUFS; k++)
                    assert_int_equal(
                        tolk_buffer_copyout(bound(SIZE, k), 0, want[k], sizeof got, &err), TOLK_OK);
            for (int k = 0; k < BUFS; k++)
                (void)seed(SIZE, k, 1.5F + (float)(k + i));
            if (tolk_run_linear(b, plain, NULL, NULL, &err))
                fail_msg("%s", err.msg);
            for (int k = 0; i && k < BUFS; k++) {
                assert_int_equal(tolk_buffer_copyout(bound(SIZE, k), 0, got, sizeof got, &err),
                                 TOLK_OK);
                assert_memory_equal(got, want[k], sizeof got);
            }
        }
        tolk_linear_unref(plain);
        tolk_linear_unref(graph);
    }
    assert_true(counters().graph_launches >= 4 * rounds);
}

static void test_MEM_03_a_graph_keeps_no_input(void **state) {
    (void)state;
    enum { MANY = 1 << 22 };
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, MANY, "scale", "2");
    snprintf(text + n, sizeof text - n,
             "%%30 = param f32 (%%0) {slot=0}\n%%31 = param f32 (%%0) {slot=1}\n"
             "%%40 = call void (%%11, %%31, %%30)\n%%42 = linear void (%%40)\n"
             "%%43 = custom_function void (%%42) {name=\"graph\"}\n"
             "%%44 = call void (%%43, %%30, %%31)\n%%45 = linear void (%%44)\n");
    tolk_linear *l = linear_of(&r, text);
    tolk_exec *e = exec_of(l);
    for (int i = 0; i < 3; i++) {
        const tolk_uop *inputs[] = {node(MANY, 10 + i), node(MANY, 20 + i)};
        tolk_run_args a = TOLK_RUN_INIT;
        a.inputs = inputs;
        a.n_inputs = 2;
        (void)seed(MANY, 10 + i, (float)i);
        tolk_buffer *y = seed(MANY, 20 + i, 0);
        assert_int_equal(tolk_exec_run(e, &a, &err), TOLK_OK);
        check_floats(y, 2 * (float)i);
        assert_true(tolk_device_used_memory(r.cpu) >= 8 * MANY);
        tolk_bindings_remove(b, inputs[0]);
        tolk_bindings_remove(b, inputs[1]);
        tolk_device_trim(r.cpu);
        assert_true(tolk_device_used_memory(r.cpu) < 1 << 20);
    }
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* Copies to another device are nodes; what is on several devices runs call by call. */
static void test_graphs_over_devices(void **state) {
    (void)state;
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, SIZE, "scale", "2");
    snprintf(text + n, sizeof text - n,
             "%%30 = buffer f32 (%%0) {slot=0}\n%%31 = buffer f32 (%%0) {slot=1}\n"
             "%%32 = buffer f32 (%%0) {slot=2, device=\"CPU:1\"}\n"
             "%%33 = buffer f32 (%%0) {slot=3, device=\"CPU:1\"}\n"
             "%%39 = copy f32 (%%31) {device=\"CPU:1\"}\n"
             "%%40 = call void (%%11, %%31, %%30)\n%%41 = call void (%%39, %%32, %%31)\n"
             "%%42 = linear void (%%40, %%41)\n"
             "%%43 = custom_function void (%%42) {name=\"graph\"}\n%%44 = call void (%%43)\n"
             "%%45 = call void (%%11, %%33, %%32)\n"
             "%%46 = linear void (%%40, %%41, %%45)\n"
             "%%47 = custom_function void (%%46) {name=\"graph\"}\n%%48 = call void (%%47)\n"
             "%%49 = linear void (%%44, %%45, %%48)\n");
    tolk_linear *l = linear_of(&r, text);
    (void)seed(SIZE, 0, 3);
    tolk_exec *e = exec_of(l);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
    const tolk_uop *root = tolk_linear_root(l), *last = tolk_uop_src(tolk_uop_src(root, 1), 1);
    tolk_buffer *y = NULL;
    assert_int_equal(tolk_bindings_find(b, last, &y, NULL, &err), TOLK_OK);
    check_floats(y, 12);
    assert_int_equal(counters().graph_launches, 5); /* the second one has kernels on two devices */
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* A slice in the middle: calls before it see what was bound before it, those behind it its view. */
static void test_a_slice_in_a_graph(void **state) {
    (void)state;
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, SIZE, "scale", "2");
    snprintf(text + n, sizeof text - n,
             "%%20 = const index 128\n%%30 = buffer f32 (%%20) {slot=0}\n"
             "%%31 = buffer f32 (%%0) {slot=1}\n%%32 = buffer f32 (%%0) {slot=2}\n"
             "%%33 = buffer f32 (%%0) {slot=3}\n%%39 = slice f32 (%%30, %%0) {count=64}\n"
             "%%40 = call void (%%11, %%32, %%31)\n%%41 = call void (%%39, %%31, %%30)\n"
             "%%42 = call void (%%11, %%33, %%31)\n%%43 = linear void (%%40, %%41, %%42)\n"
             "%%44 = custom_function void (%%43) {name=\"graph\"}\n%%45 = call void (%%44)\n"
             "%%46 = linear void (%%45)\n");
    tolk_linear *l = linear_of(&r, text);
    tolk_exec *e = exec_of(l);
    for (int i = 0; i < 3; i++) {
        (void)seed(128, 0, 5);
        (void)seed(SIZE, 1, (float)i);
        assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
        check_floats(bound(SIZE, 2), 2 * (float)i);
        check_floats(bound(SIZE, 3), 10);
        /* From now on the slot stands for the view. */
        assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_OK);
        check_floats(bound(SIZE, 2), 10);
        check_floats(bound(SIZE, 3), 10);
    }
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* ---- memory ---- */

static void test_a_warm_replay_takes_no_memory(void **state) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    opts.allocator = &heap.al;
    open_with(&opts);
    tolk_linear *l = twice_twice("param", "param");
    tolk_exec *e = exec_of(l);
    (void)seed(SIZE, 10, 1);
    (void)seed(SIZE, 20, 0);
    const tolk_uop *inputs[] = {node(SIZE, 10), node(SIZE, 20)};
    tolk_run_args a = TOLK_RUN_INIT;
    a.inputs = inputs;
    a.n_inputs = 2;
    size_t before = 0;
    for (int i = 0; i < 100; i++) {
        if (i == 3)
            before = heap.calls;
        assert_int_equal(tolk_exec_run(e, &a, &err), TOLK_OK);
    }
    assert_int_equal(heap.calls, before);
    check_floats(bound(SIZE, 20), 4);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
    (void)teardown(state);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

/* The same bytes as another dtype are another argument. */
static void test_an_input_that_becomes_another_dtype_is_refused(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("param", "param");
    tolk_exec *e = exec_of(l);
    tolk_buffer *x = seed(SIZE, 10, 1), *ints;
    (void)seed(SIZE, 20, 0);
    run(e, 10, 20);
    assert_int_equal(tolk_buffer_view(x, 0, TOLK_I32, SIZE, &ints, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node(SIZE, 10), ints, &err), TOLK_OK);
    tolk_buffer_unref(ints);
    assert_int_equal(try_run(e, 10, 20), TOLK_E_DTYPE);
    (void)seed(SIZE, 10, 3);
    run(e, 10, 20);
    check_floats(bound(SIZE, 20), 12);
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

static tolk_linear *oom_linear; /* compiled, of another context */
static const tolk_uop *oom_input;
static tolk_status all_of_it(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx = r.ctx;
    tolk_allocator old = ctx->al;
    ctx->al = *al;
    tolk_bindings *own = NULL;
    tolk_exec *e = NULL;
    tolk_buffer *x = NULL;
    tolk_status st = tolk_bindings_create(r.cpu, &own, NULL);
    if (st == TOLK_OK)
        st = tolk_resolve_single(own, NULL, oom_input, &x, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copyin(x, 0, (float[SIZE]){0}, SIZE * sizeof(float), NULL);
    tolk_buffer_unref(x);
    if (st == TOLK_OK)
        st = tolk_exec_create(own, oom_linear, NULL, &e, NULL);
    for (int i = 0; i < 2 && st == TOLK_OK; i++)
        st = tolk_exec_run(e, NULL, NULL);
    tolk_exec_destroy(e);
    tolk_bindings_destroy(own);
    tolk_device_trim(r.cpu);
    ctx->al = old;
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    tolk_linear *l = twice_twice("buffer", "buffer");
    assert_int_equal(tolk_compile_linear(r.cpu, l, NULL, &oom_linear, &err), TOLK_OK);
    assert_int_equal(tolk_run_linear(b, oom_linear, NULL, NULL, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "nothing was stored to the buffer yet");
    (void)seed(SIZE, 0, 1);
    oom_input = node(SIZE, 0);
    assert_int_equal(tolk_run_linear(b, oom_linear, NULL, NULL, &err), TOLK_OK);
    assert_true(tk_test_oom(all_of_it, NULL) > 10);
    tolk_linear_unref(oom_linear);
    tolk_linear_unref(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_GRAPH_01_each_run_has_its_own_output),
        TEST(test_GRAPH_09_replays_in_a_row_have_their_own_inputs),
        TEST(test_what_nodes_stand_for_is_looked_up_again),
        TEST(test_inputs_that_do_not_fit_or_alias_are_refused),
        TEST(test_an_input_that_becomes_another_dtype_is_refused),
        TEST(test_SYM_01_a_replay_uses_the_values_it_is_given),
        TEST(test_what_is_stored_later_is_not_there_to_be_read),
        TEST(test_GRAPH_07_a_graph_gives_the_bits_of_its_calls),
        TEST(test_MEM_03_a_graph_keeps_no_input),
        TEST(test_graphs_over_devices),
        TEST(test_a_slice_in_a_graph),
        cmocka_unit_test(test_a_warm_replay_takes_no_memory),
        TEST(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
