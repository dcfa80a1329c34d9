/* SPDX-License-Identifier: MIT
 *
 * For tests of record and replay: a context with three devices and bindings, kernels and calls as
 * nodes, and a function of two kernels.
 */
#ifndef TEST_JITS_H
#define TEST_JITS_H

#include "realize/kernels.h"

static rt r;
static tolk_bindings *b;
static tolk_graph *g; /* of buffers */
static tolk_error err;

RT_UNUSED static void open_with(uint32_t devices, const tolk_allocator *al) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = devices;
    o.allocator = al;
    rt_open(&r, NULL, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
}

RT_UNUSED static int setup(void **state) {
    (void)state;
    open_with(3, NULL);
    return 0;
}

RT_UNUSED static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

/* ---- kernels and calls ---- */

/* The buffer node of a slot: f32, n elements. */
RT_UNUSED static const tolk_uop *buffer_in(tolk_graph *at, int64_t slot, int64_t n,
                                           const char *device) {
    return tolk_buffer_node(at, TOLK_F32, &n, 1, slot, device);
}

RT_UNUSED static const tolk_uop *f32s(tolk_graph *at, int64_t slot) {
    return buffer_in(at, slot, N, NULL);
}

/* y[i] = a[i] * m + b[i], 16 elements. */
RT_UNUSED static const tolk_uop *mix(tolk_graph *at, double m) {
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
RT_UNUSED static const tolk_uop *twice(tolk_graph *at, double m) {
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
RT_UNUSED static const tolk_uop *first_n(tolk_graph *at) {
    int64_t most = N;
    const tolk_uop *n = tolk_variable(at, TOLK_I32, 2, "n", 1, 10);
    const tolk_uop *i = tolk_range(at, tolk_cast(at, n, TOLK_INDEX), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_index(at, tolk_param(at, TOLK_F32, &most, 1, 0, "y"), &i, 1);
    const tolk_uop *x = tolk_index(at, tolk_param(at, TOLK_F32, &most, 1, 1, "x"), &i, 1);
    const tolk_uop *v = tolk_add(at, tolk_load(at, x), tolk_cast(at, n, TOLK_F32));
    const tolk_uop *end = tolk_end(at, tolk_store(at, y, v), &i, 1);
    return tolk_sink(at, &end, 1, "first_n");
}

RT_UNUSED static const tolk_uop *call(tolk_graph *at, const tolk_uop *body, const tolk_uop *y,
                                      const tolk_uop *x, const tolk_uop *z) {
    const tolk_uop *args[] = {y, x, z};
    return tolk_call(at, body, args, z ? 3 : 2);
}

RT_UNUSED static const tolk_uop *copy_of(tolk_graph *at, const tolk_uop *to, const tolk_uop *from) {
    return call(at, tolk_copy(at, from, "CPU"), to, from, NULL);
}

RT_UNUSED static const tolk_uop *slice_of(tolk_graph *at, const tolk_uop *u, int64_t offset,
                                          int64_t n) {
    return tolk_slice(at, u, TOLK_F32, offset, n);
}

RT_UNUSED static const tolk_uop *list_of(tolk_graph *at, const tolk_uop *const *calls, size_t n) {
    return tolk_linear_node(at, calls, n);
}

RT_UNUSED static tolk_status hand_over(tolk_bindings *to, tolk_graph *at,
                                       const tolk_uop *const *calls, size_t n,
                                       const tolk_uop *const *held, size_t n_held,
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
RT_UNUSED static tolk_buffer *seed(const tolk_uop *node, const char *device, float v) {
    tolk_buffer *x = floats(device ? device_of(&r, device) : r.cpu, N, v);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    return x;
}

RT_UNUSED static tolk_buffer *bound(const tolk_uop *node) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(b, node, &x, NULL, NULL), TOLK_OK);
    return x;
}

RT_UNUSED static uint64_t launches(void) {
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
RT_UNUSED static tolk_status chain(void *user, tolk_bindings *to, const tolk_run_args *args,
                                   tolk_error *e) {
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

RT_UNUSED static tolk_jit *jit_of(tolk_jit_fn fn, void *user, const tolk_jit_opts *opts) {
    tolk_jit *jit = NULL;
    if (tolk_jit_create(b, fn, user, opts, &jit, &err))
        fail_msg("%s", err.msg);
    return jit;
}

RT_UNUSED static tolk_status run(tolk_jit *jit, const tolk_uop *const *inputs, size_t n) {
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

RT_UNUSED static void count_arenas(void *user, const tolk_uop *node, tolk_buffer *buffer,
                                   tolk_multi *multi) {
    (void)buffer;
    (void)multi;
    *(int *)user += tolk_uop_dtype(node) == TOLK_I8;
}

RT_UNUSED static int arenas(void) {
    int n = 0;
    tolk_bindings_iter(b, count_arenas, &n);
    return n;
}

#endif
