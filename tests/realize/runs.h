/* SPDX-License-Identifier: MIT
 *
 * For tests that run linears: a context with four devices and bindings, linears of integers, what
 * nodes stand for.
 */
#ifndef TEST_RUNS_H
#define TEST_RUNS_H

#include "realize/linears.h"

static rt r;
static tolk_bindings *b;
static tolk_error err;

RT_UNUSED static void open_with(uint32_t devices, uint32_t synchronous, const tolk_allocator *al) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = devices;
    o.synchronous = synchronous;
    o.allocator = al;
    rt_open(&r, NULL, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
}

RT_UNUSED static int setup(void **state) {
    (void)state;
    open_with(4, 0, NULL);
    return 0;
}

RT_UNUSED static int teardown(void **state) {
    (void)state;
    tolk_bindings_destroy(b);
    rt_close(&r);
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
RT_UNUSED static const tolk_uop *buffer_node(tolk_graph *g, int64_t n, int64_t slot,
                                             const char *device) {
    return tolk_buffer_node(g, TOLK_I32, &n, 1, slot, device);
}

RT_UNUSED static tolk_buffer *ints(tolk_device *d, size_t n, int32_t first, int32_t step) {
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
RT_UNUSED static tolk_buffer *seed(int64_t n, int64_t slot, const char *device, int32_t first,
                                   int32_t step) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    tolk_buffer *buf = ints(device ? device_of(&r, device) : r.cpu, (size_t)n, first, step);
    assert_int_equal(tolk_bindings_seed(b, buffer_node(g, n, slot, device), buf, NULL), TOLK_OK);
    tolk_graph_destroy(g);
    tolk_buffer_unref(buf);
    return buf;
}

RT_UNUSED static void check_ints(tolk_buffer *buf, int32_t first, int32_t step) {
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
RT_UNUSED static tolk_buffer *bound(int64_t n, int64_t slot, const char *device) {
    tolk_graph *g;
    tolk_buffer *buf = NULL;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_bindings_find(b, buffer_node(g, n, slot, device), &buf, NULL, NULL),
                     TOLK_OK);
    tolk_graph_destroy(g);
    assert_non_null(buf);
    return buf;
}

RT_UNUSED static tolk_status run(tolk_linear *l, const tolk_run_args *args) {
    err = (tolk_error)TOLK_ERROR_INIT;
    return tolk_run_linear(b, l, NULL, args, &err);
}

RT_UNUSED static void run_well(tolk_linear *l, const tolk_run_args *args) {
    if (run(l, args))
        fail_msg("%s", err.msg);
}

RT_UNUSED static tolk_run_args with_vars(const tolk_var *vars, size_t n) {
    tolk_run_args a = TOLK_RUN_INIT;
    a.vars = vars;
    a.n_vars = n;
    return a;
}

RT_UNUSED static tolk_counters counters(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c;
}

#endif
