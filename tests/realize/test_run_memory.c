/* SPDX-License-Identifier: MIT
 *
 * The memory of runs: execs notice what is bound and keep none of it, warm runs take none, and runs
 * for which there is none.
 */
#include "realize/runs.h"

static void test_execs_notice_what_is_bound(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                               "%42 = linear void (%40)\n");
    tolk_exec *e = NULL;
    tolk_buffer *x = seed(48, 0, NULL, 1, 0);
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_run(e, NULL, NULL), TOLK_OK);
    check_ints(bound(48, 1, NULL), 4, 0);
    (void)seed(48, 0, NULL, 2, 0);
    assert_int_equal(tolk_exec_run(e, NULL, NULL), TOLK_OK);
    check_ints(bound(48, 1, NULL), 8, 0);
    /* Another output: the old one is left alone. */
    tolk_buffer *old = tolk_buffer_ref(bound(48, 1, NULL));
    (void)seed(48, 0, NULL, 3, 0);
    tolk_buffer *y = seed(48, 1, NULL, 0, 0);
    assert_int_equal(tolk_exec_run(e, NULL, NULL), TOLK_OK);
    check_ints(y, 12, 0);
    check_ints(old, 8, 0);
    tolk_buffer_unref(old);
    /* One that was made on demand and removed is made again. */
    tolk_bindings_clear(b);
    (void)seed(48, 0, NULL, 4, 0);
    assert_int_equal(tolk_exec_run(e, NULL, NULL), TOLK_OK);
    check_ints(bound(48, 1, NULL), 16, 0);
    /* Bound to one that is freed. */
    x = seed(48, 0, NULL, 1, 0);
    assert_int_equal(tolk_buffer_free(x, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_E_FREED);
    check_contains(err.msg, "call 0 (kernel mix)");
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
}

/* MEM-03: an exec keeps no memory that its bindings gave up. */
static void test_MEM_03_an_exec_keeps_no_memory(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    const char *text = "tolk.uop 1\n"
                       "%1 = const index 16777216\n"
                       "%2 = const index 1\n"
                       "%3 = param i32 (%2) {slot=0}\n"
                       "%4 = param i32 (%1) {slot=1}\n"
                       "%5 = const index 0\n"
                       "%6 = index i32 (%4, %5)\n"
                       "%7 = load i32 (%6)\n"
                       "%8 = index i32 (%3, %5)\n"
                       "%9 = store void (%8, %7)\n"
                       "%10 = sink void (%9) {name=\"first\"}\n"
                       "%30 = param i32 (%1) {slot=0}\n"
                       "%31 = buffer i32 (%2) {slot=0}\n"
                       "%40 = call void (%10, %31, %30)\n"
                       "%41 = linear void (%40)\n";
    tolk_linear *l = linear_of(&r, text);
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    for (int i = 0; i < 3; i++) {
        const tolk_uop *in = buffer_node(g, BYTES / 4, 100 + i, NULL);
        tolk_run_args a = TOLK_RUN_INIT;
        a.inputs = &in;
        a.n_inputs = 1;
        (void)seed(BYTES / 4, 100 + i, NULL, i, 0);
        run_well(l, &a);
        check_ints(bound(1, 0, NULL), i, 0);
        assert_true(tolk_device_used_memory(r.cpu) >= BYTES);
        tolk_bindings_remove(b, in);
        tolk_device_trim(r.cpu);
        assert_true(tolk_device_used_memory(r.cpu) < 1 << 20);
    }
    tolk_graph_destroy(g);
    tolk_linear_unref(l);
}

static void test_warm_runs_take_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    teardown(NULL);
    tk_test_heap_init(&heap);
    open_with(1, 0, &heap.al);
    tolk_linear *l =
        linear_of(&r, PUT("n", "1", "10") BUFFERS "%40 = call void (%20, %30)\n"
                                                  "%43 = call void (%20, %31)\n"
                                                  "%44 = copy i32 (%31) {device=\"CPU\"}\n"
                                                  "%45 = call void (%44, %32, %31)\n"
                                                  "%46 = linear void (%40, %43, %45)\n");
    tolk_exec *e = NULL;
    tolk_linear *made = NULL;
    assert_int_equal(tolk_compile_linear(r.cpu, l, NULL, &made, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    for (int i = 1; i <= 10; i++) {
        tolk_var v = {"n", i};
        tolk_run_args a = with_vars(&v, 1);
        size_t before = heap.calls;
        assert_int_equal(tolk_exec_run(e, &a, NULL), TOLK_OK);
        if (i > 2)
            assert_int_equal(heap.calls, before);
        a.jit = 1;
        before = heap.calls;
        run_well(made, &a);
        if (i > 2)
            assert_int_equal(heap.calls, before);
        check_ints(bound(16, 2, NULL), i, 0);
    }
    tolk_exec_destroy(e);
    tolk_linear_unref(made);
    tolk_linear_unref(l);
    teardown(NULL);
    assert_int_equal(heap.live, 0);
    open_with(1, 0, NULL);
}

/* Nor do those of launches that are too long for the calling thread. */
static void test_warm_runs_on_the_queue_take_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    teardown(NULL);
    tk_test_heap_init(&heap);
    open_with(1, 0, &heap.al);
    tolk_linear *l = linear_of(&r, rt_text(RT_SPIN "%%30 = buffer f32 (%%0) {slot=0}\n"
                                                   "%%31 = buffer f32 (%%0) {slot=1}\n"
                                                   "%%40 = call void (%%14, %%31, %%30)\n"
                                                   "%%41 = linear void (%%40)\n",
                                           4096, 1000LL));
    tolk_exec *e = NULL;
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_run(e, NULL, &err), TOLK_E_UNBOUND); /* of its input */
    check_contains(err.msg, "nothing was stored to the buffer yet");
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *size = tolk_const_int(g, TOLK_INDEX, 4096);
    const tolk_attr slot = {.key = "slot", .i = 0};
    tolk_buffer *x = floats(r.cpu, 4096, 0);
    const tolk_uop *node = tolk_uop_new(g, tolk_op_find("buffer"), TOLK_F32, &size, 1, &slot, 1);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    tolk_graph_destroy(g);
    for (int i = 0; i < 20; i++) {
        size_t before = heap.calls;
        assert_int_equal(tolk_exec_run(e, NULL, NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
        if (i > 4)
            assert_int_equal(heap.calls, before);
    }
    tolk_exec_destroy(e);
    tolk_linear_unref(l);
    teardown(NULL);
    assert_int_equal(heap.live, 0);
    open_with(1, 0, NULL);
}

static tolk_status run_without_memory(const tolk_allocator *al, void *user) {
    (void)user;
    static const char *const text =
        MIX "%21 = const index 96\n%22 = const index 4\n"
            "%30 = buffer i32 (%21) {slot=0}\n%31 = buffer i32 (%1) {slot=1}\n"
            "%32 = buffer i32 (%1) {slot=2, device=\"CPU:1\"}\n"
            "%33 = slice i32 (%30, %22) {count=48}\n"
            "%40 = call void (%33, %31, %30)\n"
            "%41 = call void (%20, %31, %31, %31)\n"
            "%43 = copy i32 (%31) {device=\"CPU:1\"}\n"
            "%44 = call void (%43, %32, %31)\n"
            "%45 = linear void (%40, %41, %44)\n";
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_environment = 1;
    o.no_disk_cache = 1;
    o.cpu_devices = 2;
    o.synchronous = 1;
    tolk_ctx *ctx;
    tolk_device *d;
    tolk_graph *g = NULL;
    tolk_bindings *bind = NULL;
    tolk_linear *l = NULL;
    const tolk_uop *root;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = tolk_device_open(ctx, "CPU", &d, NULL);
    if (!st)
        st = tolk_bindings_create(d, &bind, NULL);
    if (!st)
        st = tolk_graph_create(ctx, &g);
    if (!st)
        st = tolk_parse(g, text, strlen(text), 0, &root, NULL);
    if (!st)
        st = tolk_linear_create(ctx, root, &l, NULL);
    const int64_t n = 96;
    tolk_buffer *x = NULL;
    const tolk_uop *node = st ? NULL : tolk_buffer_node(g, TOLK_I32, &n, 1, 0, NULL);
    if (!st)
        st = node ? tolk_resolve_single(bind, NULL, node, &x, NULL) : TOLK_E_NOMEM;
    if (!st)
        st = tolk_buffer_copyin(x, 0, (int32_t[96]){0}, 96 * sizeof(int32_t), NULL);
    tolk_buffer_unref(x);
    for (int i = 0; i < 2 && !st; i++)
        st = tolk_run_linear(bind, l, NULL, NULL, NULL);
    tolk_linear_unref(l);
    tolk_graph_destroy(g);
    tolk_bindings_destroy(bind);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory(void **state) {
    (void)state;
    (void)tk_test_oom(run_without_memory, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_execs_notice_what_is_bound), TEST(test_MEM_03_an_exec_keeps_no_memory),
        TEST(test_warm_runs_take_no_memory),   TEST(test_warm_runs_on_the_queue_take_no_memory),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("run_memory", tests, NULL, NULL);
}
