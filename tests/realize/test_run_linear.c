/* SPDX-License-Identifier: MIT
 *
 * Running linears and execs: arguments, variables, copies, slices, several devices, what is
 * refused, what is kept, and random linears against a plain loop.
 */
#include "realize/linears.h"

#include "base/ctx.h"

#include <pthread.h>

static rt r;
static tolk_bindings *b;
static tolk_error err;
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

static void open_with(uint32_t devices, uint32_t synchronous, const tolk_allocator *al) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = devices;
    o.synchronous = synchronous;
    o.allocator = al;
    rt_open(&r, NULL, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
}

static int setup(void **state) {
    (void)state;
    open_with(4, 0, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_bindings_destroy(b);
    rt_close(&r);
    free(lines);
    lines = NULL;
    return 0;
}

/* ---- kernels and linears as text ---- */

/* y[i] = a[i] + 3 b[i], i < 48, i32: nodes %1 to %20, the kernel is %20. */
#define MIX                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 48\n"                                                                        \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 (%1) {slot=1, name=\"a\"}\n"                                                   \
    "%4 = param i32 (%1) {slot=2, name=\"b\"}\n"                                                   \
    "%5 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%6 = index i32 (%2, %5)\n"                                                                    \
    "%7 = index i32 (%3, %5)\n"                                                                    \
    "%8 = index i32 (%4, %5)\n"                                                                    \
    "%9 = load i32 (%7)\n"                                                                         \
    "%10 = load i32 (%8)\n"                                                                        \
    "%11 = const i32 3\n"                                                                          \
    "%12 = mul i32 (%10, %11)\n"                                                                   \
    "%13 = add i32 (%9, %12)\n"                                                                    \
    "%14 = store void (%6, %13)\n"                                                                 \
    "%15 = end void (%14, %5)\n"                                                                   \
    "%20 = sink void (%15) {name=\"mix\"}\n"

/* y[i] = v, i < 16, v of 1..10: nodes %1 to %20. */
#define PUT(var, lo, hi)                                                                           \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 16\n"                                                                        \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 {slot=1, name=\"" var "\", space=alu, min=" lo ", max=" hi "}\n"               \
    "%5 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%6 = index i32 (%2, %5)\n"                                                                    \
    "%14 = store void (%6, %3)\n"                                                                  \
    "%15 = end void (%14, %5)\n"                                                                   \
    "%20 = sink void (%15) {name=\"put\"}\n"

#define BUFFERS                                                                                    \
    "%30 = buffer i32 (%1) {slot=0}\n"                                                             \
    "%31 = buffer i32 (%1) {slot=1}\n"                                                             \
    "%32 = buffer i32 (%1) {slot=2}\n"

/* The buffer node of a slot: i32, n elements. */
static const tolk_uop *buffer_node(tolk_graph *g, int64_t n, int64_t slot, const char *device) {
    const tolk_uop *size = tolk_const_int(g, TOLK_INDEX, n);
    const tolk_attr attrs[] = {{.key = "slot", .i = slot}, {.key = "device", .s = device}};
    return tolk_uop_new(g, tolk_op_find("buffer"), TOLK_I32, &size, 1, attrs, device ? 2 : 1);
}

static tolk_buffer *ints(tolk_device *d, size_t n, int32_t first, int32_t step) {
    tolk_buffer *buf = NULL;
    int32_t *v = malloc(n * 4 + 1);
    for (size_t i = 0; i < n; i++)
        v[i] = first + (int32_t)i * step;
    assert_int_equal(tolk_alloc_i32(d, n, &buf, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(buf, 0, v, n * 4, NULL), TOLK_OK);
    free(v);
    return buf;
}

/* Bind a slot to new numbers; the buffer is the bindings'. */
static tolk_buffer *seed(int64_t n, int64_t slot, const char *device, int32_t first, int32_t step) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    tolk_buffer *buf = ints(device ? device_of(&r, device) : r.cpu, (size_t)n, first, step);
    assert_int_equal(tolk_bindings_seed(b, buffer_node(g, n, slot, device), buf, NULL), TOLK_OK);
    tolk_graph_destroy(g);
    tolk_buffer_unref(buf);
    return buf;
}

static void check_ints(tolk_buffer *buf, int32_t first, int32_t step) {
    tolk_buffer_info info;
    assert_int_equal(tolk_buffer_get_info(buf, &info), TOLK_OK);
    int32_t *v = malloc(info.bytes + 1);
    tolk_error why = TOLK_ERROR_INIT;
    if (tolk_buffer_copyout(buf, 0, v, info.bytes, &why))
        fail_msg("%s", why.msg);
    for (size_t i = 0; i < info.n; i++)
        if (v[i] != first + (int32_t)i * step)
            fail_msg("element %zu is %d, expected %d", i, v[i], first + (int32_t)i * step);
    free(v);
}

/* What the node of a slot stands for; the bindings'. */
static tolk_buffer *bound(int64_t n, int64_t slot, const char *device) {
    tolk_graph *g;
    tolk_buffer *buf = NULL;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_bindings_find(b, buffer_node(g, n, slot, device), &buf, NULL, NULL),
                     TOLK_OK);
    tolk_graph_destroy(g);
    assert_non_null(buf);
    return buf;
}

static tolk_status run(tolk_linear *l, const tolk_run_args *args) {
    err = (tolk_error)TOLK_ERROR_INIT;
    return tolk_run_linear(b, l, NULL, args, &err);
}

static void run_well(tolk_linear *l, const tolk_run_args *args) {
    if (run(l, args))
        fail_msg("%s", err.msg);
}

static tolk_run_args with_vars(const tolk_var *vars, size_t n) {
    tolk_run_args a = TOLK_RUN_INIT;
    a.vars = vars;
    a.n_vars = n;
    return a;
}

static tolk_counters counters(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c;
}

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

/* ---- variables ---- */

static void test_SYM_05_variables_are_checked_before_anything_runs(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, PUT("n", "1", "10") BUFFERS
                               "%40 = call void (%20, %30)\n%41 = linear void (%40)\n");
    tolk_buffer *y = seed(16, 0, NULL, -1, 0);
    tolk_counters before = counters();
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND);
    check_contains(err.msg, "variable \"n\" of kernel put has no value");
    static const int64_t wrong[] = {0, 11, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        tolk_var v = {"n", wrong[i]};
        tolk_run_args a = with_vars(&v, 1);
        assert_int_equal(run(l, &a), TOLK_E_LAUNCH);
        check_contains(err.msg, "call 0 (kernel put): variable \"n\"");
    }
    const tolk_var twice[] = {{"n", 2}, {"n", 3}}, same[] = {{"n", 2}, {"n", 2}},
                   other[] = {{"n", 2}, {"m", 3}, {"m", 4}}, nameless = {NULL, 1};
    tolk_run_args a = with_vars(twice, 2);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "variable \"n\" is given twice, as 2 and as 3");
    a = with_vars(other, 3);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "\"m\"");
    a = with_vars(&nameless, 1);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    assert_int_equal(counters().launches, before.launches);
    check_ints(y, -1, 0);
    a = with_vars(same, 2);
    run_well(l, &a);
    check_ints(y, 2, 0);
    tolk_linear_unref(l);
    /* Two declarations of one name that differ. */
    assert_int_equal(linear_try(&r,
                                PUT("n", "1", "10") BUFFERS
                                "%50 = param i32 {slot=0, name=\"n\", space=alu, min=1, max=9}\n"
                                "%51 = param i32 {slot=9, name=\"n\", space=alu, min=1, max=8}\n"
                                "%40 = call void (%20, %30, %50, %51)\n%41 = linear void (%40)\n",
                                &l, &err),
                     TOLK_E_VERIFY);
    check_contains(err.msg, "declared twice, differently");
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

/* ---- several devices ---- */

static void test_one_launch_for_each_device(void **state) {
    (void)state;
    tolk_linear *l =
        linear_of(&r, PUT("_device_num", "0", "7") "%30 = buffer i32 (%1) {slot=0, "
                                                   "device=\"CPU,CPU:1,CPU:2,CPU:3\"}\n"
                                                   "%31 = buffer i32 (%1) {slot=1}\n"
                                                   "%40 = call void (%20, %30)\n"
                                                   "%41 = linear void (%40)\n");
    tolk_counters before = counters();
    for (int i = 0; i < 3; i++)
        run_well(l, NULL);
    tolk_counters after = counters();
    assert_int_equal(after.launches - before.launches, 12);
    assert_int_equal(after.compiles + after.compile_hits - before.compiles - before.compile_hits,
                     1);
    const tolk_uop *root = tolk_linear_root(l);
    const tolk_uop *node = tolk_uop_src(tolk_uop_src(root, 0), 1);
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    assert_int_equal(tolk_bindings_find(b, node, &one, &many, NULL), TOLK_OK);
    for (size_t i = 0; i < 4; i++)
        check_ints(tolk_multi_shard(many, i), (int32_t)i, 0);
    /* The position is nobody's to give. */
    tolk_var v = {"_device_num", 3};
    tolk_run_args a = with_vars(&v, 1);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "_device_num");
    tolk_linear_unref(l);
    /* On one device it is a variable like any other. */
    l = linear_of(&r, PUT("_device_num", "0", "7") BUFFERS
                  "%40 = call void (%20, %31)\n%41 = linear void (%40)\n");
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND);
    run_well(l, &a);
    check_ints(bound(16, 1, NULL), 3, 0);
    tolk_linear_unref(l);
}

static void test_positions_out_of_bounds_launch_nothing(void **state) {
    (void)state;
    tolk_linear *l =
        linear_of(&r, PUT("_device_num", "0",
                          "1") "%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1,CPU:2\"}\n"
                               "%40 = call void (%20, %30)\n%41 = linear void (%40)\n");
    tolk_counters before = counters();
    assert_int_equal(run(l, NULL), TOLK_E_LAUNCH);
    assert_int_equal(counters().launches, before.launches);
    tolk_linear_unref(l);
}

static void test_copies_go_pair_by_pair(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n%1 = const index 8\n"
                                   "%30 = buffer i32 (%1) {slot=0, device=\"CPU\"}\n"
                                   "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n"
                                   "%32 = mstack i32 (%31, %30)\n"
                                   "%33 = buffer i32 (%1) {slot=2, device=\"CPU:2,CPU:3\"}\n"
                                   "%40 = copy i32 (%32) {device=\"CPU:2,CPU:3\"}\n"
                                   "%41 = call void (%40, %33, %32)\n"
                                   "%42 = mselect i32 (%33) {index=1}\n"
                                   "%43 = buffer i32 (%1) {slot=3}\n"
                                   "%44 = call void (%40, %43, %42)\n"
                                   "%45 = linear void (%41, %44)\n");
    (void)seed(8, 0, "CPU", 1, 1);
    (void)seed(8, 1, "CPU:1", 100, 1);
    run_well(l, NULL);
    check_ints(bound(8, 3, NULL), 1, 1);
    tolk_linear_unref(l);
}

static void test_mixed_arguments_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1\"}\n"
         "%31 = buffer i32 (%1) {slot=1}\n",
         "argument 1 is one buffer, argument 0 is several"},
        {"%30 = buffer i32 (%1) {slot=0}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU,CPU:1\"}\n",
         "argument 1 is several buffers, argument 0 is one"},
        {"%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1\"}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU,CPU:1,CPU:2\"}\n",
         "argument 1 is 3 buffers, argument 0 is 2"},
        {"%30 = buffer i32 (%1) {slot=0}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n",
         "the buffer is on device CPU:1, the kernel on CPU"}};
    for (size_t i = 0; i < 4; i++) {
        tolk_linear *l = linear_of(&r, rt_text("%s%s%s", MIX, bad[i][0],
                                               "%40 = call void (%20, %30, %31, %31)\n"
                                               "%41 = linear void (%40)\n"));
        assert_int_equal(run(l, NULL), TOLK_E_DEVICE);
        check_contains(err.msg, "call 0 (kernel mix)");
        check_contains(err.msg, bad[i][1]);
        tolk_linear_unref(l);
    }
}

/* ---- what linears are refused for ---- */

static void test_wrong_linears(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {MIX BUFFERS "%40 = call void (%20, %30, %31)\n%41 = linear void (%40)\n",
         "2 buffers, but its kernel takes 3"},
        {MIX BUFFERS "%33 = buffer f32 (%1) {slot=4}\n"
                     "%40 = call void (%20, %30, %31, %33)\n%41 = linear void (%40)\n",
         "buffer 2 is of f32"},
        {MIX BUFFERS "%33 = neg i32 (%30)\n"
                     "%40 = call void (%20, %30, %31, %33)\n%41 = linear void (%40)\n",
         "argument 2 is neg, expected a buffer"},
        {MIX BUFFERS "%40 = call void (%30, %30)\n%41 = linear void (%40)\n",
         "its body is buffer, expected sink"},
        {MIX BUFFERS "%39 = custom_function void {name=\"other\"}\n"
                     "%40 = call void (%39)\n%41 = linear void (%40)\n",
         "expected \"graph\""},
        {MIX BUFFERS "%39 = const index 40\n%38 = slice i32 (%30, %39) {count=9}\n"
                     "%40 = call void (%20, %38, %31, %31)\n%41 = linear void (%40)\n",
         "9 elements of i32 at 40 of 48"},
        {MIX BUFFERS "%33 = const index 9\n%34 = buffer i32 (%33) {slot=4}\n"
                     "%39 = copy i32 (%30) {device=\"CPU\"}\n"
                     "%40 = call void (%39, %34, %30)\n%41 = linear void (%40)\n",
         "dest has 9 elements, src has 48"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tolk_linear *l = NULL;
        assert_int_not_equal(linear_try(&r, bad[i][0], &l, &err), TOLK_OK);
        check_contains(err.msg, bad[i][1]);
    }
}

static void test_jit_takes_what_is_compiled_only(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"
                                               "%42 = linear void (%40)\n"),
                *made = NULL;
    (void)seed(48, 0, NULL, 1, 1);
    tolk_run_args a = TOLK_RUN_INIT;
    a.jit = 1;
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "kernel mix is not compiled");
    assert_int_equal(tolk_compile_linear(r.cpu, l, NULL, &made, NULL), TOLK_OK);
    run_well(made, &a);
    check_ints(bound(48, 1, NULL), 4, 4);
    tolk_exec *e = NULL;
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_run(e, &a, &err), TOLK_E_ARG);
    tolk_exec_destroy(e);
    tolk_linear_unref(made);
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

/* ---- execs ---- */

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
    check_contains(lines, "call 1 (copy) on CPU:1: ");
    check_contains(lines, " us, ");
    check_contains(lines, " GFLOP/s, ");
    check_contains(lines, " GB/s\n");
    assert_true(tolk_device_is_idle(r.cpu));
    tolk_linear_unref(l);
}

/* ---- no memory ---- */

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
    tolk_run_args a = TOLK_RUN_INIT;
    a.wait = 1;
    assert_int_equal(tolk_exec_create(b, l, NULL, &e, NULL), TOLK_OK);
    for (int i = 0; i < 20; i++) {
        size_t before = heap.calls;
        assert_int_equal(tolk_exec_run(e, &a, NULL), TOLK_OK);
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

/* ---- threads, failures ---- */

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

/* What goes wrong while a call runs stops the queue, as of any launch; then it goes on. */
static void test_a_call_that_fails_stops_the_rest(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n"
                                   "%1 = const index 16\n"
                                   "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"
                                   "%3 = param i32 {slot=1, name=\"n\", space=alu}\n"
                                   "%4 = cast index (%3)\n"
                                   "%5 = index i32 (%2, %4)\n"
                                   "%6 = store void (%5, %3)\n"
                                   "%20 = sink void (%6) {name=\"at\"}\n"
                                   "%30 = buffer i32 (%1) {slot=0}\n"
                                   "%31 = buffer i32 (%1) {slot=1}\n"
                                   "%40 = const i32 3\n"
                                   "%41 = const i32 16\n"
                                   "%42 = bind i32 (%3, %40)\n"
                                   "%43 = bind i32 (%3, %41)\n"
                                   "%50 = call void (%20, %30, %42)\n"
                                   "%51 = call void (%20, %31, %43)\n"
                                   "%52 = call void (%20, %31, %42)\n"
                                   "%53 = linear void (%50, %51, %52)\n");
    tolk_buffer *x = seed(16, 0, NULL, -1, 0), *y = seed(16, 1, NULL, -1, 0);
    tolk_run_args a = TOLK_RUN_INIT;
    int32_t v[16];
    a.wait = 1;
    assert_int_equal(run(l, &a), TOLK_E_RANGE);
    check_contains(err.msg, "kernel at");
    assert_int_equal(tolk_device_recover(r.cpu, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(x, 0, v, sizeof v, NULL), TOLK_OK);
    assert_int_equal(v[3], 3);
    check_ints(y, -1, 0);
    tolk_linear_unref(l);
}

/* ---- at random ---- */

enum { SLOTS = 6, ELEMS = 96, PART = 48, CALLS = 12 };

typedef struct operand {
    int slot, at; /* a part of PART elements */
} operand;
typedef struct random_call {
    bool is_copy, whole; /* whole: all ELEMS of the buffers are copied */
    operand y, a, b;
} random_call;
typedef struct random_linear {
    int devices, device[SLOTS], n, graph_from, graph_to;
    random_call call[CALLS];
} random_linear;

static bool overlap(operand a, operand c) {
    return a.slot == c.slot && a.at < c.at + PART && c.at < a.at + PART;
}

static bool same(operand a, operand c) {
    return a.slot == c.slot && a.at == c.at;
}

static int below(uint64_t *s, int n) {
    return (int)(tk_test_rand(s) % (uint64_t)n);
}

static operand pick(uint64_t *s) {
    static const int starts[] = {0, 16, 48};
    return (operand){below(s, SLOTS), starts[below(s, 3)]};
}

/* A launch's buffers are on one device and apart from what it stores, or the same. */
static bool can_run(const random_linear *l, const random_call *c) {
    if (c->is_copy)
        return !overlap(c->y, c->a) && (!c->whole || c->y.slot != c->a.slot);
    return l->device[c->y.slot] == l->device[c->a.slot] &&
           l->device[c->y.slot] == l->device[c->b.slot] &&
           (same(c->y, c->a) || !overlap(c->y, c->a)) && (same(c->y, c->b) || !overlap(c->y, c->b));
}

static void make_random(random_linear *l, uint64_t *s) {
    memset(l, 0, sizeof *l);
    l->devices = 1 + below(s, 4);
    for (int i = 0; i < SLOTS; i++)
        l->device[i] = below(s, l->devices);
    int n = 1 + below(s, CALLS);
    while (l->n < n) {
        random_call c = {below(s, 3) == 0, below(s, 4) == 0, pick(s), pick(s), pick(s)};
        if (can_run(l, &c))
            l->call[l->n++] = c;
    }
    l->graph_from = below(s, n + 1);
    l->graph_to = l->graph_from + below(s, n + 1 - l->graph_from);
}

static void device_name(int i, char name[8]) {
    snprintf(name, 8, i ? "CPU:%d" : "CPU", i);
}

/* Slots 0 and 1 are inputs, the others BUFFERs. Nodes %100 + 10 slot: the whole, + 1, 2, 3: parts.
 */
static tolk_linear *write_random(rt *on, const random_linear *l) {
    char text[16384], device[8];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "%s%%21 = const index %d\n%%22 = const index 0\n"
                                "%%23 = const index 16\n",
                                MIX, ELEMS);
    for (int i = 0; i < SLOTS; i++) {
        int w = 100 + 10 * i;
        device_name(l->device[i], device);
        if (i < 2)
            n += (size_t)snprintf(text + n, sizeof text - n, "%%%d = param i32 (%%21) {slot=%d}\n",
                                  w, i);
        else
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = buffer i32 (%%21) {slot=%d, device=\"%s\"}\n", w, i,
                                  device);
        for (int k = 0; k < 3; k++)
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = slice i32 (%%%d, %%%d) {count=48}\n", w + 1 + k, w,
                                  k == 0   ? 22
                                  : k == 1 ? 23
                                           : 1);
    }
    int list[CALLS];
    for (int i = 0; i < l->n; i++) {
        const random_call *c = &l->call[i];
        const operand *o[] = {&c->y, &c->a, &c->b};
        int node[3];
        for (int k = 0; k < 3; k++)
            node[k] = 100 + 10 * o[k]->slot + (o[k]->at == 0 ? 1 : o[k]->at == 16 ? 2 : 3);
        list[i] = 301 + 2 * i;
        if (c->is_copy) {
            int y = c->whole ? 100 + 10 * c->y.slot : node[0],
                a = c->whole ? 100 + 10 * c->a.slot : node[1];
            device_name(l->device[c->y.slot], device);
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = copy i32 (%%%d) {device=\"%s\"}\n"
                                  "%%%d = call void (%%%d, %%%d, %%%d)\n",
                                  300 + 2 * i, a, device, list[i], 300 + 2 * i, y, a);
        } else {
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = call void (%%20, %%%d, %%%d, %%%d)\n", list[i], node[0],
                                  node[1], node[2]);
        }
    }
    /* The calls from graph_from to graph_to as a graph. */
    if (l->graph_to > l->graph_from) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%%400 = linear void (");
        for (int i = l->graph_from; i < l->graph_to; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%%%d",
                                  i > l->graph_from ? ", " : "", list[i]);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              ")\n%%401 = custom_function void (%%400) {name=\"graph\"}\n"
                              "%%402 = call void (%%401, %%100, %%110)\n");
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%%500 = linear void (");
    for (int i = 0, any = 0; i < l->n; i++) {
        bool in = i >= l->graph_from && i < l->graph_to;
        if (!in || i == l->graph_from)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%%%d", any++ ? ", " : "",
                                  in ? 402 : list[i]);
    }
    snprintf(text + n, sizeof text - n, ")\n");
    return linear_of(on, text);
}

/* What the calls do, one after the other. */
static void simulate(const random_linear *l, uint32_t mem[SLOTS][ELEMS]) {
    for (int i = 0; i < l->n; i++) {
        const random_call *c = &l->call[i];
        if (c->is_copy && c->whole) {
            memcpy(mem[c->y.slot], mem[c->a.slot], sizeof mem[0]);
            continue;
        }
        for (int k = 0; k < PART; k++) {
            uint32_t a = mem[c->a.slot][c->a.at + k], x = mem[c->b.slot][c->b.at + k];
            mem[c->y.slot][c->y.at + k] = c->is_copy ? a : a + 3 * x;
        }
    }
}

/* One context and what stands for the slots in it. */
typedef struct side {
    rt r;
    tolk_bindings *b;
    tolk_buffer *buf[SLOTS];
    tolk_linear *l;
    tolk_exec *e;
} side;

static void bind_slots(side *s, const random_linear *l, tolk_graph *g, unsigned which,
                       uint32_t mem[SLOTS][ELEMS]) {
    char device[8];
    for (int i = 0; i < SLOTS; i++) {
        if (!(which >> i & 1))
            continue;
        tolk_buffer_unref(s->buf[i]);
        device_name(l->device[i], device);
        assert_int_equal(tolk_alloc_i32(device_of(&s->r, device), ELEMS, &s->buf[i], NULL),
                         TOLK_OK);
        assert_int_equal(tolk_buffer_copyin(s->buf[i], 0, mem[i], sizeof mem[i], NULL), TOLK_OK);
        const tolk_uop *node = buffer_node(g, ELEMS, i, device);
        assert_int_equal(tolk_bindings_seed(s->b, node, s->buf[i], NULL), TOLK_OK);
    }
}

static void run_side(side *s, const random_linear *l, tolk_graph *g, bool exec, int round) {
    char device[8];
    const tolk_uop *inputs[2];
    tolk_run_args a = TOLK_RUN_INIT;
    tolk_error why = TOLK_ERROR_INIT;
    for (int i = 0; i < 2; i++) {
        device_name(l->device[i], device);
        inputs[i] = buffer_node(g, ELEMS, i, device);
    }
    a.inputs = inputs;
    a.n_inputs = 2;
    a.wait = round & 1;
    if (!s->e)
        assert_int_equal(tolk_exec_create(s->b, s->l, NULL, &s->e, NULL), TOLK_OK);
    if (exec ? tolk_exec_run(s->e, &a, &why) : tolk_run_linear(s->b, s->l, NULL, &a, &why))
        fail_msg("%s", why.msg);
}

static void compare(side *s, uint32_t mem[SLOTS][ELEMS], uint64_t number) {
    for (int i = 0; i < SLOTS; i++) {
        uint32_t have[ELEMS];
        assert_int_equal(tolk_buffer_copyout(s->buf[i], 0, have, sizeof have, NULL), TOLK_OK);
        if (memcmp(have, mem[i], sizeof have) != 0)
            fail_msg("linear %llu: slot %d differs", (unsigned long long)number, i);
    }
}

static void one_random(side sides[2], uint64_t number) {
    random_linear l;
    uint64_t state = tk_test_seed() + number * 1000003;
    uint32_t mem[SLOTS][ELEMS];
    make_random(&l, &state);
    tolk_graph *g[2];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(tolk_graph_create(sides[k].r.ctx, &g[k]), TOLK_OK);
        assert_int_equal(tolk_bindings_create(sides[k].r.cpu, &sides[k].b, NULL), TOLK_OK);
        sides[k].l = write_random(&sides[k].r, &l);
    }
    for (int round = 0; round < 4; round++) {
        unsigned which = round ? (unsigned)below(&state, 1 << SLOTS) : (1u << SLOTS) - 1;
        bool exec = below(&state, 2) != 0;
        for (int i = 0; i < SLOTS; i++)
            for (int k = 0; which >> i & 1 && k < ELEMS; k++)
                mem[i][k] = (uint32_t)tk_test_rand(&state);
        for (int k = 0; k < 2; k++) {
            bind_slots(&sides[k], &l, g[k], which, mem);
            run_side(&sides[k], &l, g[k], exec, round);
        }
        simulate(&l, mem);
        for (int k = 0; k < 2; k++)
            compare(&sides[k], mem, number);
    }
    for (int k = 0; k < 2; k++) {
        side *s = &sides[k];
        tolk_exec_destroy(s->e);
        tolk_bindings_destroy(s->b);
        tolk_linear_unref(s->l);
        tolk_graph_destroy(g[k]);
        for (int i = 0; i < SLOTS; i++)
            tolk_buffer_unref(s->buf[i]);
        memset(s->buf, 0, sizeof s->buf);
        s->e = NULL;
    }
}

/* GRAPH-07, too: the first run, later ones and execs do the same. */
static void test_GRAPH_07_random_linears(void **state) {
    (void)state;
    static side sides[2];
    memset(sides, 0, sizeof sides);
    for (uint32_t k = 0; k < 2; k++) {
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
        o.cpu_devices = 4;
        o.synchronous = k;
        rt_open(&sides[k].r, NULL, &o);
    }
    uint64_t n = tk_test_count(10000);
    for (uint64_t i = 0; i < n; i++)
        one_random(sides, i);
    for (int k = 0; k < 2; k++)
        rt_close(&sides[k].r);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls_run_in_their_order),
        TEST(test_an_empty_linear_does_nothing),
        TEST(test_buffers_are_arguments_by_slot),
        TEST(test_inputs_take_the_place_of_params),
        TEST(test_ALIAS_01_shift_in_place),
        TEST(test_ALIAS_03_in_place_on_a_slice),
        TEST(test_SYM_05_variables_are_checked_before_anything_runs),
        TEST(test_binds_are_values_of_their_call),
        TEST(test_SYM_01_replay_with_other_values),
        TEST(test_a_slice_call_binds_a_view),
        TEST(test_calls_before_a_slice_see_what_was_bound),
        TEST(test_copies_check_before_they_move),
        TEST(test_one_launch_for_each_device),
        TEST(test_positions_out_of_bounds_launch_nothing),
        TEST(test_copies_go_pair_by_pair),
        TEST(test_mixed_arguments_are_refused),
        TEST(test_wrong_linears),
        TEST(test_jit_takes_what_is_compiled_only),
        TEST(test_graphs_run_what_is_in_them),
        TEST(test_execs_notice_what_is_bound),
        TEST(test_MEM_03_an_exec_keeps_no_memory),
        TEST(test_many_linears),
        TEST(test_a_line_for_each_call),
        TEST(test_warm_runs_take_no_memory),
        TEST(test_warm_runs_on_the_queue_take_no_memory),
        TEST(test_a_linear_is_for_many_threads),
        TEST(test_a_call_that_fails_stops_the_rest),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_GRAPH_07_random_linears),
    };
    return cmocka_run_group_tests_name("run_linear", tests, NULL, NULL);
}
