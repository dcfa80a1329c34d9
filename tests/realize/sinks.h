/* SPDX-License-Identifier: MIT
 *
 * Graphs of calls for tests of tolk_schedule and tolk_realize: a context, nodes, kernels, a body.
 */
#ifndef TEST_SINKS_H
#define TEST_SINKS_H

#include "realize/kernels.h"

#include "base/ctx.h"
#include "ir/uop.h"

static rt r;
static tolk_bindings *b;
static tolk_graph *g;
static tolk_error err;
static char told[8][256]; /* messages of every level */
static int n_told;

RT_UNUSED static void note_log(void *user, tolk_log_level level, const char *text) {
    (void)user;
    (void)level;
    if (strstr(text, "schedule of"))
        snprintf(told[n_told++ % 8], sizeof told[0], "%s", text);
}

RT_UNUSED static int setup(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    memset(&r, 0, sizeof r);
    o.log = note_log;
    o.no_disk_cache = 1;
    n_told = 0;
    err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tolk_ctx_create(&o, &r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_open(r.ctx, "CPU", &r.cpu, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    return 0;
}

RT_UNUSED static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

/* ---- nodes ---- */

RT_UNUSED static const tolk_uop *make(tolk_graph *at, const char *op, tolk_dtype dtype,
                                      const tolk_uop *const *src, size_t n) {
    return tolk_uop_new(at, tolk_op_find(op), dtype, src, n, NULL, 0);
}
#define MAKE(at, op, dtype, ...)                                                                   \
    make(at, op, dtype, (const tolk_uop *const[]){__VA_ARGS__},                                    \
         sizeof((const tolk_uop *const[]){__VA_ARGS__}) / sizeof(const tolk_uop *))
#define AFTER(at, ...) MAKE(at, "after", TOLK_F32, __VA_ARGS__)
#define SINK(at, ...) MAKE(at, "sink", TOLK_VOID, __VA_ARGS__)
#define LINEAR(at, ...) MAKE(at, "linear", TOLK_VOID, __VA_ARGS__)
#define CALL(at, ...) MAKE(at, "call", TOLK_VOID, __VA_ARGS__)

RT_UNUSED static const tolk_uop *floats_in(tolk_graph *at, int64_t slot, int64_t n) {
    return tolk_buffer_node(at, TOLK_F32, &n, 1, slot, NULL);
}
RT_UNUSED static const tolk_uop *buf(tolk_graph *at, int64_t slot) {
    return floats_in(at, slot, N);
}
RT_UNUSED static const tolk_uop *param(tolk_graph *at, int64_t slot) {
    int64_t n = N;
    return tolk_param(at, TOLK_F32, &n, 1, slot, NULL);
}
RT_UNUSED static const tolk_uop *slice_of(tolk_graph *at, const tolk_uop *u, int64_t offset) {
    return tolk_slice(at, u, TOLK_F32, offset, N);
}
RT_UNUSED static const tolk_uop *variable(tolk_graph *at, const char *name) {
    return tolk_variable(at, TOLK_I32, 5, name, 0, 99);
}
RT_UNUSED static const tolk_uop *bind(tolk_graph *at, const char *name, int64_t value) {
    return tolk_bind(at, variable(at, name), tolk_const_int(at, TOLK_I32, value));
}

/* y = a m + z, or y = a + var where there is one; 16 elements. */
RT_UNUSED static const tolk_uop *kernel(tolk_graph *at, double m, const char *var) {
    int64_t n = N;
    const tolk_uop *i = tolk_range(at, tolk_const_int(at, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 0, "y"), &i, 1);
    const tolk_uop *a =
        tolk_load(at, tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 1, "a"), &i, 1));
    const tolk_uop *v;
    if (var)
        v = tolk_add(at, a, tolk_cast(at, variable(at, var), TOLK_F32));
    else
        v = tolk_add(at, tolk_mul(at, a, tolk_const_float(at, TOLK_F32, m)),
                     tolk_load(at, tolk_index(at, tolk_param(at, TOLK_F32, &n, 1, 2, "z"), &i, 1)));
    const tolk_uop *end = tolk_end(at, tolk_store(at, y, v), &i, 1);
    return tolk_sink(at, &end, 1, var ? "add" : "mix");
}
RT_UNUSED static const tolk_uop *mix(tolk_graph *at, double m, const tolk_uop *y, const tolk_uop *a,
                                     const tolk_uop *z) {
    return CALL(at, kernel(at, m, NULL), y, a, z);
}
RT_UNUSED static const tolk_uop *add(tolk_graph *at, const char *var, const tolk_uop *y,
                                     const tolk_uop *a) {
    return CALL(at, kernel(at, 0, var), y, a);
}

/* Bind a node of n floats to numbers that are all v. */
RT_UNUSED static tolk_buffer *seed(tolk_bindings *to, const tolk_uop *node, size_t n, float v) {
    tolk_buffer *x = floats(r.cpu, n, v);
    assert_int_equal(tolk_bindings_seed(to, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    return x;
}

RT_UNUSED static tolk_buffer *bound(tolk_bindings *to, const tolk_uop *node) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(to, node, &x, NULL, NULL), TOLK_OK);
    return x;
}

RT_UNUSED static tolk_counters stats(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c;
}

RT_UNUSED static void count_arenas(void *user, const tolk_uop *node, tolk_buffer *buffer,
                                   tolk_multi *multi) {
    (void)buffer;
    (void)multi;
    *(int *)user += tolk_uop_dtype(node) != TOLK_F32 || tk_uop_int(node, TK_A_BUFFER_SLOT) < 0;
}

/* Bindings that no user made. */
RT_UNUSED static int strangers(void) {
    int n = 0;
    tolk_bindings_iter(b, count_arenas, &n);
    return n;
}

RT_UNUSED static tolk_linear *schedule(const tolk_uop *sink, tolk_vars **vars) {
    tolk_linear *l = NULL;
    assert_int_equal(tolk_graph_error(g, &err), TOLK_OK);
    if (tolk_schedule(r.ctx, sink, &l, vars, &err))
        fail_msg("%s", err.msg);
    return l;
}

/* Schedule it and forget it; 1: its order was in the cache. */
RT_UNUSED static int hits(const tolk_uop *sink) {
    tolk_counters before = stats(), after;
    tolk_vars *vars;
    tolk_linear_unref(schedule(sink, &vars));
    tolk_vars_destroy(vars);
    after = stats();
    assert_int_equal(after.schedules + after.schedule_hits,
                     before.schedules + before.schedule_hits + 1);
    return (int)(after.schedule_hits - before.schedule_hits);
}

RT_UNUSED static void realize(const tolk_uop *sink, const tolk_run_args *args) {
    assert_int_equal(tolk_graph_error(g, &err), TOLK_OK);
    if (tolk_realize(b, sink, NULL, 0, NULL, args, &err))
        fail_msg("%s", err.msg);
}

/* A body: param 0 = 2 (3 param 1 + param 1) + param 1 + n through its buffer 0. */
RT_UNUSED static const tolk_uop *body_in(tolk_graph *at) {
    const tolk_uop *t = buf(at, 0), *y = param(at, 0), *x = param(at, 1);
    const tolk_uop *t1 = AFTER(at, t, mix(at, 3, t, x, x));
    const tolk_uop *y1 = AFTER(at, y, mix(at, 2, y, t1, x));
    return SINK(at, AFTER(at, y1, add(at, "n", y1, y1)));
}

#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
