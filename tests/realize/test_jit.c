/* SPDX-License-Identifier: MIT
 *
 * Record and replay: what runs when, what a replay is given and refuses, memory that is planned,
 * calls in graphs, captures, and random functions against a plain run.
 */
#include "realize/kernels.h"

#include "base/ctx.h"
#include "ir/uop.h"
#include "realize/batch.h"
#include "realize/jit.h"

#include <pthread.h>

static rt r;
static tolk_bindings *b;
static tolk_graph *g; /* of buffers */
static tolk_error err;

static void open_with(uint32_t devices, const tolk_allocator *al) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = devices;
    o.allocator = al;
    rt_open(&r, NULL, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
}

static int setup(void **state) {
    (void)state;
    open_with(3, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

/* ---- kernels and calls ---- */

static const tolk_uop *attr_node(tolk_graph *at, const char *op, tolk_dtype dtype,
                                 const tolk_uop *const *src, size_t n, const tolk_attr *attrs,
                                 size_t n_attrs) {
    return tolk_uop_new(at, tolk_op_find(op), dtype, src, n, attrs, n_attrs);
}

/* The buffer node of a slot: f32, n elements. */
static const tolk_uop *buffer_in(tolk_graph *at, int64_t slot, int64_t n, const char *device) {
    const tolk_uop *size = tolk_const_int(at, TOLK_INDEX, n);
    const tolk_attr attrs[] = {{.key = "slot", .i = slot}, {.key = "device", .s = device}};
    return attr_node(at, "buffer", TOLK_F32, &size, 1, attrs, device ? 2 : 1);
}

static const tolk_uop *f32s(tolk_graph *at, int64_t slot) {
    return buffer_in(at, slot, N, NULL);
}

/* y[i] = a[i] * m + b[i], 16 elements. */
static const tolk_uop *mix(tolk_graph *at, double m) {
    int64_t n = N;
    const tolk_uop *i = tolk_range(at, tolk_const_int(at, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 0, "y"), &i, 1);
    const tolk_uop *x = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 1, "a"), &i, 1);
    const tolk_uop *z = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 2, "b"), &i, 1);
    const tolk_uop *v = tolk_add(
        at, tolk_mul(at, tolk_load(at, x), tolk_const_float(at, TOLK_F32, m)), tolk_load(at, z));
    const tolk_uop *end = tolk_end(at, tolk_store(at, y, v), &i, 1);
    return tolk_sink(at, &end, 1, "mix");
}

/* y[i] = x[i] * 2 + m, 16 elements. */
static const tolk_uop *twice(tolk_graph *at, double m) {
    int64_t n = N;
    const tolk_uop *i = tolk_range(at, tolk_const_int(at, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 0, "y"), &i, 1);
    const tolk_uop *x = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 1, "x"), &i, 1);
    const tolk_uop *v =
        tolk_add(at, tolk_mul(at, tolk_load(at, x), tolk_const_float(at, TOLK_F32, 2)),
                 tolk_const_float(at, TOLK_F32, m));
    const tolk_uop *end = tolk_end(at, tolk_store(at, y, v), &i, 1);
    return tolk_sink(at, &end, 1, "twice");
}

/* y[i] = x[i] + n, i < n, of at most 16 elements. */
static const tolk_uop *first_n(tolk_graph *at) {
    int64_t most = N;
    const tolk_uop *n = tolk_variable(at, TOLK_I32, 2, "n", 1, 10);
    const tolk_uop *i = tolk_range(at, tolk_cast(at, n, TOLK_INDEX), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_index(at, tolk_param(at, TOLK_F32, &most, 1, 0, "y"), &i, 1);
    const tolk_uop *x = tolk_index(at, tolk_param(at, TOLK_F32, &most, 1, 1, "x"), &i, 1);
    const tolk_uop *v = tolk_add(at, tolk_load(at, x), tolk_cast(at, n, TOLK_F32));
    const tolk_uop *end = tolk_end(at, tolk_store(at, y, v), &i, 1);
    return tolk_sink(at, &end, 1, "first_n");
}

static const tolk_uop *call(tolk_graph *at, const tolk_uop *body, const tolk_uop *y,
                            const tolk_uop *x, const tolk_uop *z) {
    const tolk_uop *src[] = {body, y, x, z};
    return attr_node(at, "call", TOLK_VOID, src, z ? 4 : 3, NULL, 0);
}

static const tolk_uop *copy_of(tolk_graph *at, const tolk_uop *to, const tolk_uop *from) {
    const tolk_attr device = {.key = "device", .s = "CPU"};
    return call(at, attr_node(at, "copy", TOLK_F32, &from, 1, &device, 1), to, from, NULL);
}

static const tolk_uop *slice_of(tolk_graph *at, const tolk_uop *u, int64_t offset, int64_t n) {
    const tolk_uop *src[] = {u, tolk_const_int(at, TOLK_INDEX, offset)};
    const tolk_attr count = {.key = "count", .i = n};
    return attr_node(at, "slice", TOLK_F32, src, 2, &count, 1);
}

static const tolk_uop *list_of(tolk_graph *at, const tolk_uop *const *calls, size_t n) {
    return attr_node(at, "linear", TOLK_VOID, calls, n, NULL, 0);
}

static tolk_status hand_over(tolk_bindings *to, tolk_graph *at, const tolk_uop *const *calls,
                             size_t n, const tolk_uop *const *held, size_t n_held,
                             const tolk_run_args *args, tolk_error *e) {
    tolk_linear *l;
    tolk_status st = tolk_graph_error(at, e);
    if (st == TOLK_OK)
        st = tolk_linear_create(r.ctx, list_of(at, calls, n), &l, e);
    if (st != TOLK_OK)
        return st;
    st = tolk_realize_linear(to, l, held, n_held, NULL, args, e);
    tolk_linear_unref(l);
    return st;
}

/* Bind a node to a buffer of N times v. */
static tolk_buffer *seed(const tolk_uop *node, const char *device, float v) {
    tolk_buffer *x = floats(device ? device_of(&r, device) : r.cpu, N, v);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    return x;
}

static tolk_buffer *bound(const tolk_uop *node) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(b, node, &x, NULL, NULL), TOLK_OK);
    return x;
}

static uint64_t launches(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c.launches;
}

/* ---- functions ---- */

typedef struct work {
    int calls;           /* so far */
    int fail_at;         /* the call of this number fails, from 1 */
    int silent_at;       /* this one hands nothing over */
    const char *var;     /* handed over in place of the call's */
    bool slices, copies; /* more calls between the two */
} work;

/* out = 2 (2 in + 1) + 1 through a buffer in between; slots 0, 1, 2. */
static tolk_status chain(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    work *w = user;
    w->calls++;
    if (w->calls == w->fail_at)
        return TOLK_E_RANGE;
    if (w->calls == w->silent_at)
        return TOLK_OK;
    tolk_graph *at;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    const tolk_uop *in = f32s(at, 0), *t = f32s(at, 1), *out = f32s(at, 2);
    const tolk_uop *calls[] = {call(at, twice(at, 1), t, in, NULL),
                               call(at, twice(at, 1), out, t, NULL)};
    tolk_status st = hand_over(to, at, calls, 2, &out, 1, args, e);
    tolk_graph_destroy(at);
    return st;
}

static tolk_jit *jit_of(tolk_jit_fn fn, void *user, const tolk_jit_opts *opts) {
    tolk_jit *jit = NULL;
    if (tolk_jit_create(b, fn, user, opts, &jit, &err))
        fail_msg("%s", err.msg);
    return jit;
}

static tolk_status run(tolk_jit *jit, const tolk_uop *const *inputs, size_t n) {
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = inputs;
    args.n_inputs = n;
    err = (tolk_error)TOLK_ERROR_INIT;
    return tolk_jit_call(jit, &args, &err);
}

#define run_ok(jit, inputs, n)                                                                     \
    do {                                                                                           \
        if (run(jit, inputs, n))                                                                   \
            fail_msg("%s", err.msg);                                                               \
    } while (0)

/* ---- what runs when ---- */

static void test_the_function_runs_twice_and_each_call_launches_once(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(out, NULL, 0);
    for (int i = 0; i < 6; i++) {
        seed(in, NULL, (float)i);
        uint64_t before = launches();
        run_ok(jit, &in, 1);
        check_floats(bound(out), 4.0f * (float)i + 3);
        assert_int_equal(launches() - before, 2);
    }
    assert_int_equal(w.calls, 2);
    tolk_jit_destroy(jit);
}

static void count_arenas(void *user, const tolk_uop *node, tolk_buffer *buffer, tolk_multi *multi) {
    (void)buffer;
    (void)multi;
    *(int *)user += tolk_uop_dtype(node) == TOLK_I8;
}

static int arenas(void) {
    int n = 0;
    tolk_bindings_iter(b, count_arenas, &n);
    return n;
}

static void test_what_is_between_lies_in_an_arena_that_goes_with_the_jit(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 5);
    run_ok(jit, &in, 1); /* nobody bound out: it is made, since it is held */
    check_floats(bound(out), 23);
    assert_int_equal(arenas(), 0);
    run_ok(jit, &in, 1);
    assert_int_equal(arenas(), 1);
    assert_null(bound(f32s(g, 1)));
    tolk_jit_reset(jit);
    assert_int_equal(arenas(), 0);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 4);
    tolk_jit_destroy(jit);
    assert_int_equal(arenas(), 0);
    check_floats(bound(out), 23);
}

static void test_a_capture_that_failed_is_tried_again(void **state) {
    (void)state;
    work w = {.fail_at = 2, .silent_at = 3};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(run(jit, &in, 1), TOLK_E_RANGE);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_E_NOT_FOUND); /* none was left */
    assert_int_equal(run(jit, &in, 1), TOLK_E_ARG);
    check_contains(err.msg, "no linear");
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_E_NOT_FOUND);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    check_floats(bound(out), 11);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 4);
    tolk_jit_destroy(jit);
    /* A first run that failed is a first run again. */
    w = (work){.fail_at = 1};
    jit = jit_of(chain, &w, NULL);
    assert_int_equal(run(jit, &in, 1), TOLK_E_RANGE);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 3);
    tolk_jit_destroy(jit);
}

static tolk_jit *inner_jit;
static tolk_status nested(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    (void)to;
    *(int *)user += 1;
    return tolk_jit_call(inner_jit, args, e);
}

static void test_a_jit_inside_of_a_capture_is_refused(void **state) {
    (void)state;
    work w = {0};
    int calls = 0;
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *outer = jit_of(nested, &calls, NULL);
    inner_jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(outer, &in, 1);
    check_floats(bound(out), 7);
    assert_int_equal(run(outer, &in, 1), TOLK_E_BUSY);
    check_contains(err.msg, "inside of a capture");
    tolk_jit_destroy(inner_jit);
    inner_jit = outer; /* itself */
    tolk_jit_reset(outer);
    assert_int_equal(run(outer, &in, 1), TOLK_E_BUSY);
    check_contains(err.msg, "own function");
    tolk_jit_destroy(outer);
}

/* ---- inputs ---- */

static void test_inputs_that_differ_are_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2), *other = buffer_in(g, 7, N, "CPU:1");
    const tolk_uop *both[] = {in, out};
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(run(jit, both, 2), TOLK_E_ARG);
    check_contains(err.msg, "2 inputs, expected 1");
    assert_int_equal(run(jit, NULL, 0), TOLK_E_ARG);
    seed(other, "CPU:1", 4);
    assert_int_equal(run(jit, &other, 1), TOLK_E_DEVICE);
    check_contains(err.msg, "CPU:1");
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_alloc_i32(r.cpu, N, &x, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, in, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    assert_int_equal(run(jit, &in, 1), TOLK_E_DTYPE);
    check_contains(err.msg, "i32");
    tolk_bindings_remove(b, in);
    assert_int_equal(run(jit, &in, 1), TOLK_E_UNBOUND);
    check_contains(err.msg, "slot=0");
    seed(in, NULL, 9); /* none of that ended the replays */
    run_ok(jit, &in, 1);
    check_floats(bound(out), 39);
    /* Another node is fine. */
    const tolk_uop *elsewhere = f32s(g, 8);
    seed(elsewhere, NULL, 10);
    run_ok(jit, &elsewhere, 1);
    check_floats(bound(out), 43);
    assert_int_equal(w.calls, 2);
    tolk_jit_destroy(jit);
}

static void test_GRAPH_05_inputs_of_another_size_are_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    tolk_buffer *x = floats(r.cpu, 8, 5);
    assert_int_equal(tolk_bindings_seed(b, in, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    assert_int_equal(run(jit, &in, 1), TOLK_E_SHAPE);
    check_contains(err.msg, "has 8 elements, expected 16");
    check_floats(bound(out), 7); /* nothing ran */
    tolk_jit_destroy(jit);
}

static void test_GRAPH_01_a_result_that_is_fed_back_is_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    tolk_buffer *first = bound(out);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    assert_ptr_equal(bound(out), first); /* held: one buffer, whose last contents count */
    assert_int_equal(run(jit, &out, 1), TOLK_E_ALIAS);
    check_contains(err.msg, "input 0");
    check_floats(first, 11);
    /* A copy of it is fine, and so is a new buffer for the next result. */
    tolk_buffer *copy = floats(r.cpu, N, 0);
    assert_int_equal(tolk_buffer_copy(copy, first, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, in, copy, NULL), TOLK_OK);
    tolk_buffer_unref(copy);
    tolk_buffer_ref(first);
    seed(out, NULL, 0);
    run_ok(jit, &in, 1);
    check_floats(first, 11);
    check_floats(bound(out), 47);
    tolk_buffer_unref(first);
    tolk_jit_destroy(jit);
}

/* y = 3 a + b; slots 3, 0, 1. */
static tolk_status sum(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *y = f32s(at, 3);
    const tolk_uop *c = call(at, mix(at, 3), y, f32s(at, 0), f32s(at, *(int *)user));
    tolk_status st = hand_over(to, at, &c, 1, &y, 1, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_inputs_that_become_one_or_come_apart_are_refused(void **state) {
    (void)state;
    int second = 1;
    const tolk_uop *a = f32s(g, 0), *c = f32s(g, 1), *y = f32s(g, 3);
    const tolk_uop *two[] = {a, c}, *one[] = {a, a};
    tolk_jit *jit = jit_of(sum, &second, NULL);
    seed(a, NULL, 1);
    seed(c, NULL, 2);
    run_ok(jit, two, 2);
    run_ok(jit, two, 2);
    check_floats(bound(y), 5);
    assert_int_equal(run(jit, one, 2), TOLK_E_ALIAS);
    check_contains(err.msg, "inputs 0 and 1");
    tolk_buffer *x = bound(a), *part = NULL; /* the same memory by another buffer */
    assert_int_equal(tolk_buffer_view(x, 0, TOLK_F32, N, &part, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, c, part, NULL), TOLK_OK);
    tolk_buffer_unref(part);
    assert_int_equal(run(jit, two, 2), TOLK_E_ALIAS);
    seed(c, NULL, 4);
    run_ok(jit, two, 2);
    check_floats(bound(y), 7);
    tolk_jit_destroy(jit);
    /* The other way round: one buffer for two inputs was captured. */
    second = 0;
    jit = jit_of(sum, &second, NULL);
    run_ok(jit, one, 2);
    run_ok(jit, one, 2);
    check_floats(bound(y), 4);
    seed(a, NULL, 5);
    run_ok(jit, one, 2);
    check_floats(bound(y), 20);
    assert_int_equal(run(jit, two, 2), TOLK_E_ALIAS);
    check_contains(err.msg, "were one buffer");
    tolk_jit_destroy(jit);
}

static void test_MEM_03_inputs_that_are_gone_are_not_kept(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    for (int i = 0; i < 4; i++)
        run_ok(jit, &in, 1);
    tolk_buffer *x = tolk_buffer_ref(bound(in));
    tolk_bindings_remove(b, in);
    tolk_buffer_info info;
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    uint64_t used = tolk_device_used_memory(r.cpu);
    assert_int_equal(tolk_buffer_get_info(x, &info), TOLK_OK);
    tolk_buffer_unref(x); /* the last one */
    assert_true(tolk_device_used_memory(r.cpu) + info.bytes <= used);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    check_floats(bound(out), 11);
    tolk_jit_destroy(jit);
}

/* ---- variables ---- */

static tolk_status of_n(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    work *w = user;
    w->calls++;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *y = f32s(at, 2), *c = call(at, first_n(at), y, f32s(at, 0), NULL);
    tolk_run_args mine = *args;
    tolk_var v = {"n", 7};
    if (w->var) {
        v.name = w->var;
        mine.vars = &v;
        mine.n_vars = 1;
    }
    tolk_status st = hand_over(to, at, &c, 1, &y, 1, &mine, e);
    tolk_graph_destroy(at);
    return st;
}

static tolk_status run_var(tolk_jit *jit, const char *name, int64_t value) {
    const tolk_uop *in = f32s(g, 0);
    tolk_var v = {name, value};
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = &in;
    args.n_inputs = 1;
    args.vars = &v;
    args.n_vars = 1;
    err = (tolk_error)TOLK_ERROR_INIT;
    return tolk_jit_call(jit, &args, &err);
}

static void check_first(int n) {
    float x[N];
    assert_int_equal(tolk_buffer_copyout(bound(f32s(g, 2)), 0, x, sizeof x, NULL), TOLK_OK);
    for (int i = 0; i < N; i++)
        if (x[i] != (i < n ? 100.0f + (float)n : 0))
            fail_msg("n is %d: element %d is %g", n, i, (double)x[i]);
}

static void test_SYM_01_each_replay_has_its_own_value(void **state) {
    (void)state;
    work w = {0};
    tolk_jit *jit = jit_of(of_n, &w, NULL);
    seed(f32s(g, 0), NULL, 100);
    for (int n = 1; n <= 10; n++) {
        seed(f32s(g, 2), NULL, 0);
        if (run_var(jit, "n", n))
            fail_msg("%s", err.msg);
        check_first(n);
    }
    assert_int_equal(w.calls, 2);
    assert_int_equal(run_var(jit, "n", 11), TOLK_E_LAUNCH);
    check_contains(err.msg, "\"n\"");
    assert_int_equal(run_var(jit, "m", 3), TOLK_E_ARG);
    check_contains(err.msg, "\"n\"");
    const tolk_uop *in = f32s(g, 0);
    assert_int_equal(run(jit, &in, 1), TOLK_E_ARG);
    check_contains(err.msg, "0 variables, expected 1");
    check_first(10); /* none of them ran */
    tolk_jit_destroy(jit);
}

static void test_a_variable_that_a_replay_cannot_know_is_refused(void **state) {
    (void)state;
    work w = {.var = "n"};
    tolk_jit *jit = jit_of(of_n, &w, NULL);
    seed(f32s(g, 0), NULL, 100);
    assert_int_equal(run_var(jit, "n", 7), TOLK_OK);
    assert_int_equal(run_var(jit, "n", 8), TOLK_E_ARG); /* the function says 7 */
    check_contains(err.msg, "is 8 in the call, but 7");
    assert_int_equal(run_var(jit, "m", 8), TOLK_E_UNBOUND);
    check_contains(err.msg, "\"n\"");
    assert_int_equal(run_var(jit, "n", 7), TOLK_OK); /* captured */
    seed(f32s(g, 2), NULL, 0);
    assert_int_equal(run_var(jit, "n", 2), TOLK_OK);
    check_first(2);
    tolk_jit_destroy(jit);
}

/* ---- memory ---- */

/* ALIAS-05: t1 = 2x + 1, v = t1[1:], t2 = 2 t1 + 1, t3 = 2 t2 + 1, and v is read last. */
static tolk_status with_view(void *user, tolk_bindings *to, const tolk_run_args *args,
                             tolk_error *e) {
    const bool *hold = user;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *x = f32s(at, 0), *t1 = f32s(at, 1), *t2 = f32s(at, 2), *t3 = f32s(at, 3);
    const tolk_uop *v = buffer_in(at, 4, N - 1, NULL), *w = buffer_in(at, 5, N - 1, NULL);
    const tolk_uop *view = call(at, slice_of(at, t1, 1, N - 1), v, t1, NULL);
    const tolk_uop *held[] = {t2, t3, w, v};
    const tolk_uop *calls[] = {call(at, twice(at, 1), t1, x, NULL), view,
                               call(at, twice(at, 1), t2, t1, NULL),
                               call(at, twice(at, 1), t3, t2, NULL), copy_of(at, w, v)};
    tolk_status st = hand_over(to, at, calls, 5, held, *hold ? 4 : 3, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void check_view(bool hold, const tolk_jit_opts *opts) {
    const tolk_uop *x = f32s(g, 0), *v = buffer_in(g, 4, N - 1, NULL);
    tolk_jit *jit = jit_of(with_view, &hold, opts);
    for (int i = 0; i < 5; i++) {
        seed(x, NULL, (float)i);
        run_ok(jit, &x, 1);
        check_floats(bound(buffer_in(g, 5, N - 1, NULL)), 2 * (float)i + 1);
        check_floats(bound(f32s(g, 2)), 4 * (float)i + 3);
        check_floats(bound(f32s(g, 3)), 8 * (float)i + 7);
        if (hold)
            check_floats(bound(v), 2 * (float)i + 1);
    }
    tolk_jit_destroy(jit);
    tolk_bindings_clear(b);
}

static void test_ALIAS_05_a_view_that_is_looked_at_keeps_its_memory(void **state) {
    (void)state;
    tolk_jit_opts calls = TOLK_JIT_OPTS_INIT;
    calls.no_graphs = 1;
    for (int i = 0; i < 4; i++)
        check_view(i & 1, i & 2 ? &calls : NULL);
    setenv("TOLK_MEMORY_PLAN", "0", 1);
    check_view(true, NULL);
    unsetenv("TOLK_MEMORY_PLAN");
}

static void test_buffers_that_stand_for_something_keep_it(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *t = f32s(g, 1), *out = f32s(g, 2);
    seed(in, NULL, 1);
    tolk_buffer *x = seed(t, NULL, 0); /* bound, so somebody may look at it */
    tolk_jit *jit = jit_of(chain, &w, NULL);
    for (int i = 0; i < 3; i++) {
        seed(in, NULL, (float)i);
        run_ok(jit, &in, 1);
        assert_ptr_equal(bound(t), x);
        check_floats(x, 2 * (float)i + 1);
        check_floats(bound(out), 4 * (float)i + 3);
    }
    assert_int_equal(arenas(), 0);
    tolk_jit_destroy(jit);
}

/* ---- batches ---- */

static tolk_status place_by_name(void *user, const tolk_uop *c, const void **place, tolk_error *e) {
    (void)e;
    if (!user)
        return TOLK_E_DEVICE;
    const char *name = tk_uop_str(c, TK_A_CALL_NAME);
    *place = name[0] == '-' ? NULL : (const char *)user + (name[0] - 'a');
    return TOLK_OK;
}

/* What a batch makes of calls named by letters (their places): graphs in brackets. */
static void check_batch(const char *calls, uint32_t most, const char *expected) {
    static const char places[26];
    const tolk_uop *list[64], *out = NULL;
    size_t n = 0;
    char text[200] = "";
    for (; calls[n]; n++) {
        const char name[2] = {calls[n], 0};
        const tolk_attr a = {.key = "name", .s = name};
        int64_t size = N;
        const tolk_uop *src[] = {twice(g, (double)n), f32s(g, (int64_t)n),
                                 tolk_param(g, TOLK_F32, &size, 1, (int64_t)n % 3, NULL)};
        list[n] = attr_node(g, "call", TOLK_VOID, src, 3, &a, 1);
    }
    assert_int_equal(
        tk_batch(g, list_of(g, list, n), most, place_by_name, (void *)places, &out, &err), TOLK_OK);
    for (uint32_t i = 0; i < out->n_src; i++) {
        const tolk_uop *c = out->src[i], *inner = c->src[0];
        if (!tk_uop_is(inner, TK_OP_CUSTOM_FUNCTION)) {
            strcat(text, tk_uop_str(c, TK_A_CALL_NAME));
            continue;
        }
        inner = inner->src[0];
        assert_string_equal(tk_uop_str(c->src[0], TK_A_CUSTOM_FUNCTION_NAME), "graph");
        assert_int_equal(c->n_src - 1, inner->n_src < 3 ? inner->n_src : 3);
        for (uint32_t k = 1; k < c->n_src; k++) /* its params, in the order in which they come */
            assert_ptr_equal(c->src[k], inner->src[k - 1]->src[2]);
        strcat(text, "[");
        for (uint32_t k = 0; k < inner->n_src; k++)
            strcat(text, tk_uop_str(inner->src[k], TK_A_CALL_NAME));
        strcat(text, "]");
    }
    assert_string_equal(text, expected);
}

static void test_batches_keep_the_order_and_double(void **state) {
    (void)state;
    check_batch("", 2, "");
    check_batch("a", 2, "a");
    check_batch("aaaaaaaaaaaaaaaaaaaaaa", 2, "[aa][aaaa][aaaaaaaa][aaaaaaaa]");
    check_batch("aaaaaa", 0, "[aaaaaa]");
    check_batch("aa-aa", 0, "[aa]-[aa]");
    check_batch("a-aaa-", 32, "a-[aaa]-");
    check_batch("aabba", 32, "[aa][bb]a");
    check_batch("aaa", 1, "aaa"); /* a graph of one is none */
    check_batch("abab", 32, "abab");
    check_batch("aaabbbbb", 2, "[aa]a[bbbb]b");
    const tolk_uop *c = f32s(g, 0), *out = NULL;
    assert_int_equal(tk_batch(g, list_of(g, &c, 1), 2, place_by_name, NULL, &out, &err),
                     TOLK_E_DEVICE);
}

static void check_graphs(const tolk_jit_opts *opts, size_t expected, const char *op) {
    work w = {0};
    const tolk_uop *in = f32s(g, 0);
    tolk_jit *jit = jit_of(chain, &w, opts);
    seed(in, NULL, 1);
    for (int i = 0; i < 3; i++)
        run_ok(jit, &in, 1);
    const tolk_uop *root = tolk_linear_root(jit->replay.linear);
    assert_int_equal(root->n_src, expected);
    assert_string_equal(tk_op_get(tk_uop_op(root->src[0]->src[0]))->name, op);
    check_floats(bound(f32s(g, 2)), 7);
    tolk_jit_destroy(jit);
}

static void test_a_replay_is_one_graph_unless_calls_are_asked_for(void **state) {
    (void)state;
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    check_graphs(NULL, 1, "custom_function");
    opts.batch = 0;
    check_graphs(&opts, 1, "custom_function");
    opts.batch = 1;
    check_graphs(&opts, 2, "program");
    opts = (tolk_jit_opts)TOLK_JIT_OPTS_INIT;
    opts.no_graphs = 1;
    check_graphs(&opts, 2, "program");
}

/* ---- captures ---- */

typedef struct seen {
    int linears;
    size_t calls;
    int64_t n;
    bool has_param, has_slice;
} seen;

static tolk_status look(void *user, tolk_linear *linear, const tolk_var *vars, size_t n_vars,
                        tolk_error *e) {
    (void)e;
    seen *s = user;
    const tolk_uop *root = tolk_linear_root(linear);
    s->linears++;
    s->calls = tolk_uop_n_src(root);
    s->n = n_vars ? vars[0].value : 0;
    for (size_t i = 0; i < s->calls; i++)
        for (size_t k = 1; k < tolk_uop_n_src(tolk_uop_src(root, i)); k++) {
            tolk_op op = tolk_uop_op(tolk_uop_src(tolk_uop_src(root, i), k));
            s->has_param |= op == tolk_op_find("param");
            s->has_slice |= op == tolk_op_find("slice");
        }
    return TOLK_OK;
}

static void *run_elsewhere(void *arg) {
    tolk_run_args none = TOLK_RUN_INIT;
    work w = {0};
    return (void *)(intptr_t)chain(&w, arg, &none, NULL);
}

static void test_a_capture_gets_what_would_have_run(void **state) {
    (void)state;
    work w = {0};
    seen inner = {0}, outer = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    seed(in, NULL, 1);
    seed(out, NULL, 0);
    tolk_run_args args = TOLK_RUN_INIT;
    tolk_var n = {"n", 3};
    args.vars = &n;
    args.n_vars = 1;
    assert_int_equal(tolk_capture_push(r.ctx, look, &outer, NULL), TOLK_OK);
    assert_int_equal(tolk_capture_push(r.ctx, look, &inner, NULL), TOLK_OK);
    assert_int_equal(chain(&w, b, &args, &err), TOLK_OK);
    assert_int_equal(inner.linears, 1);
    assert_int_equal(inner.calls, 2);
    assert_int_equal(inner.n, 3);
    assert_false(inner.has_slice); /* nothing is planned yet */
    assert_int_equal(outer.linears, 0);
    check_floats(bound(out), 0);
    /* Another thread runs what it has. */
    pthread_t t;
    void *st;
    assert_int_equal(pthread_create(&t, NULL, run_elsewhere, b), 0);
    assert_int_equal(pthread_join(t, &st), 0);
    assert_int_equal((intptr_t)st, TOLK_OK);
    check_floats(bound(out), 7);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_OK);
    /* What inputs stand for is in the linear. */
    tolk_graph *at;
    int64_t size = N;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *p = tolk_param(at, TOLK_F32, &size, 1, 0, NULL);
    const tolk_uop *c = call(at, twice(at, 1), f32s(at, 2), p, NULL);
    args.inputs = &in;
    args.n_inputs = 1;
    assert_int_equal(hand_over(b, at, &c, 1, NULL, 0, &args, &err), TOLK_OK);
    assert_int_equal(outer.linears, 1);
    assert_false(outer.has_param);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_capture_pop(r.ctx, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(hand_over(b, at, &c, 1, NULL, 0, &args, &err), TOLK_OK);
    check_floats(bound(out), 3);
    tolk_graph_destroy(at);
    assert_int_equal(inner.linears, 1);
    assert_int_equal(tolk_capture_push(NULL, look, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_capture_push(r.ctx, NULL, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_capture_pop(NULL, NULL), TOLK_E_ARG);
}

static void test_wrong_arguments_are_refused(void **state) {
    (void)state;
    work w = {0};
    tolk_jit *jit = NULL;
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    opts.size = 3;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    opts = (tolk_jit_opts)TOLK_JIT_OPTS_INIT;
    opts.n_held = 1;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    const tolk_uop *none = NULL;
    opts.held = &none;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(NULL, chain, &w, NULL, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(b, NULL, &w, NULL, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(b, chain, &w, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_call(NULL, NULL, &err), TOLK_E_ARG);
    tolk_jit_reset(NULL);
    tolk_jit_destroy(NULL);
    assert_int_equal(tolk_realize_linear(b, NULL, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_realize_linear(NULL, NULL, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_null(jit);
}

/* ---- random functions ---- */

enum { SLOTS = 10, CALLS = 24 };

/* The same calls for each run of the function; slots 0 and 1 are inputs, 2 and 3 are held. */
typedef struct program {
    uint64_t seed;
    bool direct; /* run the calls as they are */
} program;

static const char *device_at(int slot) {
    return slot % 5 == 4 ? "CPU:1" : NULL;
}

static const tolk_uop *slot_node(tolk_graph *at, int slot) {
    return buffer_in(at, slot, N, device_at(slot));
}

static tolk_status random_calls(void *user, tolk_bindings *to, const tolk_run_args *args,
                                tolk_error *e) {
    const program *p = user;
    uint64_t s = p->seed;
    bool made[SLOTS] = {true, true};
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *calls[CALLS], *held[] = {slot_node(at, 2), slot_node(at, 3)};
    size_t n = 0, most = 4 + tk_test_rand(&s) % (CALLS - 6);
    while (n < most || !made[2] || !made[3]) {
        int y = 2 + (int)(tk_test_rand(&s) % (SLOTS - 2)), x, z;
        if (n >= CALLS - 2)
            y = made[2] ? 3 : 2;
        do
            x = (int)(tk_test_rand(&s) % SLOTS);
        while (!made[x]);
        do
            z = (int)(tk_test_rand(&s) % SLOTS);
        while (!made[z]);
        bool near = device_at(x) == device_at(y) && x != y;
        if (near && device_at(z) == device_at(y) && z != y && tk_test_rand(&s) % 4)
            calls[n++] = call(at, mix(at, (double)(tk_test_rand(&s) % 3)), slot_node(at, y),
                              slot_node(at, x), slot_node(at, z));
        else if (near && tk_test_rand(&s) % 3)
            calls[n++] = call(at, twice(at, (double)(tk_test_rand(&s) % 3)), slot_node(at, y),
                              slot_node(at, x), NULL);
        else if (x != y)
            calls[n++] = copy_of(at, slot_node(at, y), slot_node(at, x));
        else
            continue;
        made[y] = true;
        if (n == CALLS)
            break;
    }
    tolk_status st = TOLK_OK;
    if (p->direct) {
        tolk_linear *l;
        st = tolk_linear_create(r.ctx, list_of(at, calls, n), &l, e);
        if (st == TOLK_OK)
            st = tolk_run_linear(to, l, NULL, args, e);
        tolk_linear_unref(l);
    } else { /* in two linears: what is between them is in use across both */
        size_t half = n / 2;
        const tolk_uop *all[SLOTS];
        for (int i = 0; i < SLOTS; i++)
            all[i] = slot_node(at, i);
        st = hand_over(to, at, calls, half, all, SLOTS, args, e);
        if (st == TOLK_OK)
            st = hand_over(to, at, calls + half, n - half, held, 2, args, e);
    }
    tolk_graph_destroy(at);
    return st;
}

static void set_inputs(tolk_bindings *to, float v) {
    for (int i = 0; i < 2; i++) {
        tolk_buffer *x = floats(r.cpu, N, v + (float)i);
        assert_int_equal(tolk_bindings_seed(to, slot_node(g, i), x, NULL), TOLK_OK);
        tolk_buffer_unref(x);
    }
}

static void read_results(tolk_bindings *to, float out[2][N]) {
    for (int i = 0; i < 2; i++) {
        tolk_buffer *x = NULL;
        assert_int_equal(tolk_bindings_find(to, slot_node(g, 2 + i), &x, NULL, NULL), TOLK_OK);
        memset(out[i], 0, sizeof out[i]);
        if (x)
            assert_int_equal(tolk_buffer_copyout(x, 0, out[i], sizeof out[i], NULL), TOLK_OK);
    }
}

static void random_function(uint64_t seed) {
    program p = {seed, false}, plain = {seed, true};
    const tolk_uop *inputs[] = {slot_node(g, 0), slot_node(g, 1)};
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    opts.batch = (uint32_t)(seed % 4);
    opts.no_graphs = seed % 3 == 0;
    tolk_jit *jit = jit_of(random_calls, &p, &opts);
    for (int i = 0; i < 5; i++) {
        float have[2][N], want[2][N];
        tolk_bindings *other;
        tolk_run_args args = TOLK_RUN_INIT;
        set_inputs(b, (float)i);
        run_ok(jit, inputs, 2);
        read_results(b, have);
        assert_int_equal(tolk_bindings_create(r.cpu, &other, NULL), TOLK_OK);
        set_inputs(other, (float)i);
        if (random_calls(&plain, other, &args, &err))
            fail_msg("%s", err.msg);
        read_results(other, want);
        tolk_bindings_destroy(other);
        if (memcmp(have, want, sizeof have) != 0)
            fail_msg("seed %llu: run %d computes something else", (unsigned long long)seed, i);
    }
    tolk_jit_destroy(jit);
    assert_int_equal(arenas(), 0);
    tolk_bindings_clear(b);
}

static void test_random_functions_compute_what_plain_runs_do(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(2000); i < n; i++)
        random_function(seed + i);
}

/* ---- memory that is short, memory that is not taken ---- */

static void test_a_warm_replay_takes_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    work w = {0};
    open_with(1, &heap.al);
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    for (int i = 0; i < 5; i++)
        run_ok(jit, &in, 1);
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    size_t before = heap.calls;
    for (int i = 0; i < 50; i++)
        run_ok(jit, &in, 1);
    assert_int_equal(heap.calls, before);
    check_floats(bound(out), 7);
    tolk_jit_destroy(jit);
    (void)teardown(NULL);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static tolk_status jit_little(const tolk_allocator *al, void *user) {
    work w = {0};
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    o.synchronous = 1;
    memset(&r, 0, sizeof r);
    tolk_status st = tolk_ctx_create(&o, &r.ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_bindings *to = NULL;
    tolk_graph *at = NULL;
    tolk_jit *jit = NULL;
    tolk_buffer *x = NULL;
    const tolk_uop *in = NULL;
    st = tolk_device_open(r.ctx, "CPU", &r.cpu, NULL);
    if (st == TOLK_OK)
        st = tolk_bindings_create(r.cpu, &to, NULL);
    if (st == TOLK_OK)
        st = tolk_graph_create(r.ctx, &at);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(r.cpu, N, &x, NULL);
    if (st == TOLK_OK && !(in = f32s(at, 0)))
        st = TOLK_E_NOMEM;
    if (st == TOLK_OK)
        st = tolk_bindings_seed(to, in, x, NULL);
    if (st == TOLK_OK)
        st = tolk_jit_create(to, chain, &w, NULL, &jit, NULL);
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = &in;
    args.n_inputs = 1;
    for (int i = 0; i < 3 && st == TOLK_OK; i++)
        st = tolk_jit_call(jit, &args, NULL);
    tolk_jit_destroy(jit);
    tolk_buffer_unref(x);
    tolk_graph_destroy(at);
    tolk_bindings_destroy(to);
    tolk_ctx_destroy(r.ctx);
    return st;
}

static void test_without_memory_a_jit_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(jit_little, NULL) > 100);
}

#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(test_the_function_runs_twice_and_each_call_launches_once),
        IN_CONTEXT(test_what_is_between_lies_in_an_arena_that_goes_with_the_jit),
        IN_CONTEXT(test_a_capture_that_failed_is_tried_again),
        IN_CONTEXT(test_a_jit_inside_of_a_capture_is_refused),
        IN_CONTEXT(test_inputs_that_differ_are_refused),
        IN_CONTEXT(test_GRAPH_05_inputs_of_another_size_are_refused),
        IN_CONTEXT(test_GRAPH_01_a_result_that_is_fed_back_is_refused),
        IN_CONTEXT(test_inputs_that_become_one_or_come_apart_are_refused),
        IN_CONTEXT(test_MEM_03_inputs_that_are_gone_are_not_kept),
        IN_CONTEXT(test_SYM_01_each_replay_has_its_own_value),
        IN_CONTEXT(test_a_variable_that_a_replay_cannot_know_is_refused),
        IN_CONTEXT(test_ALIAS_05_a_view_that_is_looked_at_keeps_its_memory),
        IN_CONTEXT(test_buffers_that_stand_for_something_keep_it),
        IN_CONTEXT(test_batches_keep_the_order_and_double),
        IN_CONTEXT(test_a_replay_is_one_graph_unless_calls_are_asked_for),
        IN_CONTEXT(test_a_capture_gets_what_would_have_run),
        IN_CONTEXT(test_wrong_arguments_are_refused),
        IN_CONTEXT(test_random_functions_compute_what_plain_runs_do),
        cmocka_unit_test(test_a_warm_replay_takes_no_memory),
        cmocka_unit_test(test_without_memory_a_jit_fails_cleanly),
    };
    return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
