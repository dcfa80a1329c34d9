/* SPDX-License-Identifier: MIT
 *
 * Running linears: the order of calls, arguments, variables, slices, copies, graphs, what is kept
 * of those that ran, lines for each call, many threads.
 */
#include "realize/runs.h"

#include <pthread.h>

/* ---- one device ---- */

static void test_calls_run_in_their_order(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                               "%41 = call void (%20, %32, %31, %30)\n"
                                               "%42 = linear void (%40, %41)\n");
    (void)seed(48, 0, NULL, 1, 1);
    tolk_counters before = counters();
    run_well(l, NULL);
    check_ints(bound(48, 1, NULL), 4, 4);
    check_ints(bound(48, 2, NULL), 7, 7);
    /* What was compiled and found is kept; another binding is another result. */
    tolk_counters after = counters();
    assert_int_equal(after.launches - before.launches, 2);
    assert_int_equal(after.execs - before.execs, 1);
    assert_int_equal(after.compiles + after.compile_hits - before.compiles - before.compile_hits,
                     1);
    (void)seed(48, 0, NULL, 0, 2);
    run_well(l, NULL);
    check_ints(bound(48, 2, NULL), 0, 14);
    assert_int_equal(counters().compiles, after.compiles);
    assert_int_equal(counters().compile_hits, after.compile_hits);
    tolk_linear_unref(l);
}

static void test_an_empty_linear_does_nothing(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n%0 = linear void\n");
    run_well(l, NULL);
    tolk_linear_unref(l);
}

/* Params of a kernel are matched with a call's buffers in the order of their slots. */
static void test_buffers_are_arguments_by_slot(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n"
                                   "%1 = const index 16\n"
                                   "%2 = param i32 (%1) {slot=7, name=\"y\"}\n"
                                   "%3 = param i32 (%1) {slot=2, name=\"x\"}\n"
                                   "%4 = param i32 {slot=4, name=\"v\", space=alu}\n"
                                   "%5 = range index (%1) {axis=0, kind=global}\n"
                                   "%6 = index i32 (%2, %5)\n"
                                   "%7 = index i32 (%3, %5)\n"
                                   "%8 = load i32 (%7)\n"
                                   "%9 = add i32 (%8, %4)\n"
                                   "%10 = store void (%6, %9)\n"
                                   "%11 = end void (%10, %5)\n"
                                   "%20 = sink void (%11) {name=\"plus\"}\n" BUFFERS
                                   "%40 = call void (%20, %30, %4, %31)\n"
                                   "%41 = linear void (%40)\n");
    (void)seed(16, 0, NULL, 5, 1);
    const tolk_var v[] = {{"unused", 1}, {"v", 100}};
    tolk_run_args a = with_vars(v, 2);
    run_well(l, &a);
    check_ints(bound(16, 1, NULL), 105, 1);
    tolk_linear_unref(l);
}

static void test_inputs_take_the_place_of_params(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX "%30 = param i32 (%1) {slot=0}\n"
                                       "%31 = param i32 (%1) {slot=1}\n"
                                       "%40 = call void (%20, %31, %30, %30)\n"
                                       "%41 = linear void (%40)\n");
    tolk_buffer *x = seed(48, 5, NULL, 1, 1);
    for (int i = 0; i < 4; i++) {
        tolk_graph *g; /* at an address of one before */
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        const tolk_uop *inputs[] = {buffer_node(g, 48, 5, NULL), buffer_node(g, 48, 10 + i, NULL)};
        tolk_run_args a = TOLK_RUN_INIT;
        a.inputs = inputs;
        a.n_inputs = 2;
        run_well(l, &a);
        check_ints(bound(48, 10 + i, NULL), 4, 4);
        /* Newly the same memory: in place is what this kernel can do, ... */
        inputs[1] = inputs[0];
        a.n_inputs = 1;
        assert_int_equal(run(l, &a), TOLK_E_UNBOUND);
        check_contains(err.msg, "call 0 (kernel mix): argument 0: param {slot=1}: no input for it");
        tolk_graph_destroy(g);
    }
    check_ints(x, 1, 1);
    tolk_linear_unref(l);
}

/* ALIAS-01: what a kernel cannot do in place is refused, and done right where it is not. */
static void test_ALIAS_01_shift_in_place(void **state) {
    (void)state;
    const char *kernel = "tolk.uop 1\n"
                         "%1 = const index 9\n"
                         "%2 = const index 10\n"
                         "%3 = param i32 (%1) {slot=0, name=\"y\"}\n"
                         "%4 = param i32 (%2) {slot=1, name=\"x\"}\n"
                         "%5 = range index (%1) {axis=0, kind=global}\n"
                         "%6 = const index 1\n"
                         "%7 = add index (%5, %6)\n"
                         "%8 = index i32 (%4, %7)\n"
                         "%9 = load i32 (%8)\n"
                         "%10 = index i32 (%3, %5)\n"
                         "%11 = store void (%10, %9)\n"
                         "%12 = end void (%11, %5)\n"
                         "%20 = sink void (%12) {name=\"shift\"}\n"
                         "%21 = const index 0\n"
                         "%30 = buffer i32 (%2) {slot=0}\n"
                         "%31 = slice i32 (%30, %21) {count=9}\n"
                         "%32 = buffer i32 (%1) {slot=1}\n";
    tolk_linear *in_place = linear_of(&r, rt_text("%s%s", kernel,
                                                  "%40 = call void (%20, %31, %30)\n"
                                                  "%41 = linear void (%40)\n"));
    tolk_linear *by_copy = linear_of(&r, rt_text("%s%s", kernel,
                                                 "%40 = call void (%20, %32, %30)\n"
                                                 "%41 = copy i32 (%32) {device=\"CPU\"}\n"
                                                 "%42 = call void (%41, %31, %32)\n"
                                                 "%43 = linear void (%40, %42)\n"));
    tolk_buffer *x = seed(10, 0, NULL, 0, 1);
    assert_int_equal(run(in_place, NULL), TOLK_E_ALIAS);
    check_contains(err.msg, "call 0 (kernel shift)");
    check_ints(x, 0, 1);
    for (int k = 1; k <= 3; k++) {
        const int32_t next = 9 + k;
        run_well(by_copy, NULL);
        assert_int_equal(tolk_buffer_copyin(x, 36, &next, 4, NULL), TOLK_OK);
        check_ints(x, k, 1);
    }
    tolk_linear_unref(in_place);
    tolk_linear_unref(by_copy);
}

/* ALIAS-03: a part is changed in place, once. */
static void test_ALIAS_03_in_place_on_a_slice(void **state) {
    (void)state;
    const char *kernels = "tolk.uop 1\n"
                          "%1 = const index 3\n"
                          "%2 = param i32 (%1) {slot=0}\n"
                          "%3 = range index (%1) {axis=0, kind=global}\n"
                          "%4 = index i32 (%2, %3)\n"
                          "%5 = load i32 (%4)\n"
                          "%6 = const i32 10\n"
                          "%7 = mul i32 (%5, %6)\n"
                          "%8 = store void (%4, %7)\n"
                          "%9 = end void (%8, %3)\n"
                          "%10 = sink void (%9) {name=\"ten\"}\n"
                          "%11 = const index 5\n"
                          "%12 = param i32 (%11) {slot=0}\n"
                          "%13 = range index (%11) {axis=0, kind=global}\n"
                          "%14 = index i32 (%12, %13)\n"
                          "%15 = load i32 (%14)\n"
                          "%16 = const i32 1\n"
                          "%17 = add i32 (%15, %16)\n"
                          "%18 = store void (%14, %17)\n"
                          "%19 = end void (%18, %13)\n"
                          "%20 = sink void (%19) {name=\"one\"}\n"
                          "%21 = const index 0\n"
                          "%30 = buffer i32 (%11) {slot=0}\n"
                          "%31 = slice i32 (%30, %21) {count=3}\n"
                          "%40 = call void (%10, %31)\n"
                          "%41 = call void (%20, %30)\n";
    static const int32_t after[2][5] = {{10, 20, 30, 4, 5}, {11, 21, 31, 5, 6}};
    tolk_buffer *t = seed(5, 0, NULL, 1, 1);
    for (int i = 0; i < 2; i++) {
        int32_t v[5];
        tolk_linear *l = linear_of(&r, rt_text("%s%%50 = linear void (%%%d)\n", kernels, 40 + i));
        run_well(l, NULL);
        assert_int_equal(tolk_buffer_copyout(t, 0, v, sizeof v, NULL), TOLK_OK);
        assert_memory_equal(v, after[i], sizeof v);
        tolk_linear_unref(l);
    }
}

static void test_binds_are_values_of_their_call(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, PUT("n", "1", "10") BUFFERS
                               "%49 = param i32 {slot=0, name=\"n\", space=alu, min=1, max=20}\n"
                               "%50 = const i32 4\n"
                               "%51 = const i32 6\n"
                               "%52 = bind i32 (%49, %50)\n"
                               "%53 = bind i32 (%49, %51)\n"
                               "%40 = call void (%20, %30, %52)\n"
                               "%41 = call void (%20, %53, %31)\n"
                               "%42 = linear void (%40, %41)\n");
    run_well(l, NULL);
    check_ints(bound(16, 0, NULL), 4, 0);
    check_ints(bound(16, 1, NULL), 6, 0);
    tolk_var v = {"n", 4};
    tolk_run_args a = with_vars(&v, 1);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "call 1 (kernel put) binds it to 6");
    tolk_linear_unref(l);
    /* The kernel's own bounds count, too. */
    l = linear_of(&r, PUT("n", "1", "10") BUFFERS
                  "%49 = param i32 {slot=0, name=\"n\", space=alu, min=1, max=20}\n"
                  "%50 = const i32 14\n%52 = bind i32 (%49, %50)\n"
                  "%40 = call void (%20, %30, %52)\n%42 = linear void (%40)\n");
    assert_int_equal(run(l, NULL), TOLK_E_LAUNCH);
    check_contains(err.msg, "variable \"n\" is 14, expected 1 to 10");
    tolk_linear_unref(l);
}

/* SYM-01: each run has its own value, and the size that goes with it. */
static void test_SYM_01_replay_with_other_values(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n"
                                   "%0 = param i32 {slot=3, name=\"n\", space=alu, min=1, max=10}\n"
                                   "%1 = cast index (%0)\n"
                                   "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"
                                   "%3 = range index (%1) {axis=0, kind=global}\n"
                                   "%4 = index i32 (%2, %3)\n"
                                   "%5 = store void (%4, %0)\n"
                                   "%6 = end void (%5, %3)\n"
                                   "%7 = sink void (%6) {name=\"part\"}\n"
                                   "%8 = const index 10\n"
                                   "%9 = buffer i32 (%8) {slot=0}\n"
                                   "%10 = call void (%7, %9, %0)\n"
                                   "%11 = linear void (%10)\n");
    tolk_exec *e = NULL;
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    tolk_linear_unref(l);
    for (int n = 1; n <= 10; n++) {
        int32_t v[10];
        tolk_buffer *y = seed(10, 0, NULL, 77, 0);
        tolk_var var = {"n", n};
        tolk_run_args a = with_vars(&var, 1);
        for (int k = 0; k < 2; k++)
            assert_int_equal(tolk_exec_run(e, &a, NULL), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(y, 0, v, sizeof v, NULL), TOLK_OK);
        for (int i = 0; i < 10; i++)
            assert_int_equal(v[i], i < n ? n : 77);
    }
    tolk_exec_destroy(e);
}

/* ---- slices and copies ---- */

static void test_a_slice_call_binds_a_view(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX "%21 = const index 96\n"
                                       "%22 = const index 4\n"
                                       "%30 = buffer i32 (%21) {slot=0}\n"
                                       "%31 = buffer i32 (%1) {slot=1}\n"
                                       "%32 = buffer i32 (%1) {slot=2}\n"
                                       "%33 = slice i32 (%30, %22) {count=48}\n"
                                       "%40 = call void (%33, %31, %30)\n"
                                       "%41 = call void (%20, %32, %31, %31)\n"
                                       "%42 = linear void (%40, %41)\n");
    tolk_buffer *whole = seed(96, 0, NULL, 0, 1);
    for (int i = 0; i < 3; i++) {
        run_well(l, NULL);
        tolk_buffer_info info;
        assert_int_equal(tolk_buffer_get_info(bound(48, 1, NULL), &info), TOLK_OK);
        assert_ptr_equal(info.base, whole);
        assert_int_equal(info.offset, 16);
        assert_int_equal(info.n, 48);
        check_ints(bound(48, 2, NULL), 16, 4);
    }
    /* A new whole is viewed anew. */
    whole = seed(96, 0, NULL, 10, 1);
    run_well(l, NULL);
    check_ints(bound(48, 2, NULL), 56, 4);
    tolk_linear_unref(l);
}

/* Calls before a slice see what was bound before it: in the second run its view. */
static void test_calls_before_a_slice_see_what_was_bound(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX "%21 = const index 96\n"
                                       "%22 = const index 4\n"
                                       "%30 = buffer i32 (%21) {slot=0}\n"
                                       "%31 = buffer i32 (%1) {slot=1}\n"
                                       "%32 = buffer i32 (%1) {slot=2}\n"
                                       "%33 = slice i32 (%30, %22) {count=48}\n"
                                       "%40 = call void (%20, %32, %31, %31)\n"
                                       "%41 = call void (%33, %31, %30)\n"
                                       "%42 = linear void (%40, %41)\n");
    (void)seed(96, 0, NULL, 0, 1);
    (void)seed(48, 1, NULL, 100, 0);
    run_well(l, NULL);
    check_ints(bound(48, 2, NULL), 400, 0);
    for (int i = 0; i < 2; i++) {
        run_well(l, NULL);
        check_ints(bound(48, 2, NULL), 16, 4);
    }
    tolk_linear_unref(l);
}

#define COPY_TO(dest, src)                                                                         \
    "%40 = copy i32 (" src ") {device=\"CPU\"}\n"                                                  \
    "%41 = call void (%40, " dest ", " src ")\n"                                                   \
    "%42 = linear void (%41)\n"

static void test_copies_check_before_they_move(void **state) {
    (void)state;
    const char *const head = "tolk.uop 1\n%1 = const index 8\n"
                             "%30 = buffer i32 (%1) {slot=0}\n"
                             "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n";
    tolk_linear *l = linear_of(&r, rt_text("%s%s", head, COPY_TO("%31", "%30")));
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND); /* of what was never written */
    check_contains(err.msg, "call 0 (copy)");
    (void)seed(8, 0, NULL, 3, 5);
    tolk_counters before = counters();
    run_well(l, NULL);
    check_ints(bound(8, 1, "CPU:1"), 3, 5);
    assert_int_equal(counters().copies - before.copies, 1);
    /* Bound to another size or dtype than the nodes have. */
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    tolk_buffer *nine = ints(r.cpu, 9, 0, 1), *f = floats(r.cpu, 8, 0);
    assert_int_equal(tolk_bindings_seed(b, buffer_node(g, 8, 0, NULL), nine, NULL), TOLK_OK);
    assert_int_equal(run(l, NULL), TOLK_E_SHAPE);
    check_contains(err.msg, "dest has 8 elements, src has 9");
    assert_int_equal(tolk_bindings_seed(b, buffer_node(g, 8, 0, NULL), f, NULL), TOLK_OK);
    assert_int_equal(run(l, NULL), TOLK_E_DTYPE);
    check_ints(bound(8, 1, "CPU:1"), 3, 5);
    tolk_buffer_unref(nine);
    tolk_buffer_unref(f);
    tolk_graph_destroy(g);
    tolk_linear_unref(l);
}

static void test_graphs_run_what_is_in_them(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX "%30 = param i32 (%1) {slot=0}\n"
                                       "%31 = param i32 (%1) {slot=1}\n"
                                       "%32 = buffer i32 (%1) {slot=2}\n"
                                       "%40 = call void (%20, %32, %30, %30)\n"
                                       "%41 = call void (%20, %31, %32, %30)\n"
                                       "%42 = linear void (%40, %41)\n"
                                       "%43 = custom_function void (%42) {name=\"graph\"}\n"
                                       "%44 = call void (%43, %30, %31)\n"
                                       "%45 = call void (%20, %32, %31, %31)\n"
                                       "%46 = linear void (%44, %45)\n");
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *inputs[] = {buffer_node(g, 48, 5, NULL), buffer_node(g, 48, 6, NULL)};
    tolk_run_args a = TOLK_RUN_INIT;
    a.inputs = inputs;
    a.n_inputs = 2;
    for (int i = 1; i < 4; i++) {
        (void)seed(48, 5, NULL, i, i);
        run_well(l, &a);
        check_ints(bound(48, 6, NULL), 7 * i, 7 * i);
        check_ints(bound(48, 2, NULL), 28 * i, 28 * i);
    }
    tolk_graph_destroy(g);
    tolk_linear_unref(l);
}

/* More linears than are kept run, again and again. */
static void test_many_linears(void **state) {
    (void)state;
    enum { MANY = 40 };
    tolk_linear *l[MANY];
    for (int i = 0; i < MANY; i++)
        l[i] = linear_of(&r, rt_text("%s%%30 = buffer i32 (%%1) {slot=0}\n"
                                     "%%31 = buffer i32 (%%1) {slot=%d}\n"
                                     "%%40 = call void (%%20, %%31, %%30, %%30)\n"
                                     "%%42 = linear void (%%40)\n",
                                     MIX, i + 1));
    for (int k = 0; k < 2; k++) {
        (void)seed(48, 0, NULL, k, 1);
        for (int i = 0; i < MANY; i++)
            run_well(l[i], NULL);
        for (int i = 0; i < MANY; i++)
            check_ints(bound(48, i + 1, NULL), 4 * k, 4);
    }
    for (int i = 0; i < MANY; i++)
        tolk_linear_unref(l[i]);
}

static char *lines; /* of the log at the debug level */

static void keep_line(void *user, tolk_log_level level, const char *text) {
    (void)user;
    if (level != TOLK_LOG_DEBUG || strncmp(text, "call ", 5) != 0)
        return;
    size_t n = lines ? strlen(lines) : 0, m = strlen(text);
    lines = realloc(lines, n + m + 2);
    memcpy(lines + n, text, m);
    memcpy(lines + n + m, "\n", 2);
}

static void test_a_line_for_each_call(void **state) {
    (void)state;
    teardown(NULL);
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 2;
    o.log = keep_line;
    o.no_disk_cache = 1;
    setenv("TOLK_DEBUG", "2", 1);
    assert_int_equal(tolk_ctx_create(&o, &r.ctx, NULL), TOLK_OK);
    unsetenv("TOLK_DEBUG");
    assert_int_equal(tolk_device_open(r.ctx, "CPU", &r.cpu, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%33 = buffer i32 (%1) {slot=3, device=\"CPU:1\"}\n"
                                               "%40 = call void (%20, %31, %30, %30)\n"
                                               "%41 = copy i32 (%31) {device=\"CPU:1\"}\n"
                                               "%42 = call void (%41, %33, %31)\n"
                                               "%43 = linear void (%40, %42)\n");
    (void)seed(48, 0, NULL, 1, 0);
    run_well(l, NULL);
    assert_non_null(lines);
    check_contains(lines, "call 0 (kernel mix) on CPU: ");
    check_contains(lines, "call 1 (copy) on CPU:1 <- CPU, 192 bytes: ");
    check_contains(lines, " us, ");
    check_contains(lines, " GFLOP/s, ");
    check_contains(lines, " GB/s\n");
    assert_true(tolk_device_is_idle(r.cpu));
    tolk_linear_unref(l);
    free(lines);
    lines = NULL;
}

/* ---- threads ---- */

typedef struct runner {
    tolk_linear *l;
    int32_t first;
    tolk_status st;
    int32_t got;
} runner;

/* Each with bindings of its own, all with one linear. */
static void *run_often(void *arg) {
    runner *w = arg;
    tolk_bindings *own = NULL;
    tolk_graph *g = NULL;
    tolk_buffer *x = NULL, *y = NULL;
    int32_t v[48];
    for (int i = 0; i < 48; i++)
        v[i] = w->first;
    w->st = tolk_bindings_create(r.cpu, &own, NULL);
    if (!w->st)
        w->st = tolk_graph_create(r.ctx, &g);
    if (!w->st)
        w->st = tolk_alloc_i32(r.cpu, 48, &x, NULL);
    if (!w->st)
        w->st = tolk_buffer_copyin(x, 0, v, sizeof v, NULL);
    if (!w->st)
        w->st = tolk_bindings_seed(own, buffer_node(g, 48, 0, NULL), x, NULL);
    for (int i = 0; i < 100 && !w->st; i++)
        w->st = tolk_run_linear(own, w->l, NULL, NULL, NULL);
    if (!w->st)
        w->st = tolk_bindings_find(own, buffer_node(g, 48, 2, NULL), &y, NULL, NULL);
    if (!w->st)
        w->st = tolk_buffer_copyout(y, 47 * 4, &w->got, 4, NULL);
    tolk_bindings_destroy(own);
    tolk_graph_destroy(g);
    tolk_buffer_unref(x);
    return NULL;
}

static void test_a_linear_is_for_many_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                               "%41 = call void (%20, %32, %31, %30)\n"
                                               "%42 = linear void (%40, %41)\n");
    pthread_t thread[THREADS];
    runner w[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (runner){l, i + 1, TOLK_OK, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, run_often, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].st, TOLK_OK);
        assert_int_equal(w[i].got, 7 * (i + 1));
    }
    tolk_linear_unref(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls_run_in_their_order),
        TEST(test_an_empty_linear_does_nothing),
        TEST(test_buffers_are_arguments_by_slot),
        TEST(test_inputs_take_the_place_of_params),
        TEST(test_ALIAS_01_shift_in_place),
        TEST(test_ALIAS_03_in_place_on_a_slice),
        TEST(test_binds_are_values_of_their_call),
        TEST(test_SYM_01_replay_with_other_values),
        TEST(test_a_slice_call_binds_a_view),
        TEST(test_calls_before_a_slice_see_what_was_bound),
        TEST(test_copies_check_before_they_move),
        TEST(test_graphs_run_what_is_in_them),
        TEST(test_many_linears),
        TEST(test_a_line_for_each_call),
        TEST(test_a_linear_is_for_many_threads),
    };
    return cmocka_run_group_tests_name("run_linear", tests, NULL, NULL);
}
