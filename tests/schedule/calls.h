/* SPDX-License-Identifier: MIT
 *
 * Buffers, kernels and calls for tests of schedules and plans.
 */
#ifndef TEST_CALLS_H
#define TEST_CALLS_H

#include "support/tk_test.h"

#include "base/ctx.h"
#include "ir/uop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_UNUSED __attribute__((unused))
enum { CALLS_MOST = 8 /* arguments of a call */ };

CALLS_UNUSED static tolk_graph *calls_graph(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    tolk_ctx *ctx;
    tolk_graph *g;
    if (tk_ctx_init(&opts, &ctx, NULL) != TOLK_OK)
        return NULL;
    if (tk_graph_create(ctx, &g) == TOLK_OK)
        return g;
    tk_ctx_fini(ctx);
    return NULL;
}

CALLS_UNUSED static void calls_done(tolk_graph *g) {
    tolk_ctx *ctx = g->ctx;
    tk_graph_destroy(g);
    tk_ctx_fini(ctx);
}

/* n elements; device NULL: it names none. */
CALLS_UNUSED static const tolk_uop *buffer_of(tolk_graph *g, tolk_dtype dtype, int64_t slot,
                                              int64_t n, const char *device) {
    const tolk_uop *size = tk_uop_index_const(g, n);
    tk_attr a[4] = {{.i = slot},
                    {.i = TK_SPACE_GLOBAL},
                    {.i = 0},
                    {.blob = device ? tk_blob_str(g, device, strlen(device)) : NULL}};
    return tk_uop(g, TK_OP_BUFFER, dtype, &size, 1, a);
}

CALLS_UNUSED static const tolk_uop *f32s(tolk_graph *g, int64_t slot, int64_t n) {
    return buffer_of(g, TOLK_F32, slot, n, "CPU");
}

/* A kernel that stores to param 0 a sum of params 1 .. n. */
CALLS_UNUSED static const tolk_uop *kernel_of(tolk_graph *g, const char *name, int n) {
    int64_t dim = 1;
    const tolk_uop *zero = tk_uop_index_const(g, 0);
    const tolk_uop *sum = tolk_const_float(g, TOLK_F32, 1);
    for (int i = 1; i <= n; i++) {
        const tolk_uop *p = tolk_param(g, TOLK_F32, &dim, 1, i, NULL);
        sum = tolk_add(g, sum, tolk_load(g, tolk_index(g, p, &zero, 1)));
    }
    const tolk_uop *out = tolk_param(g, TOLK_F32, &dim, 1, 0, NULL);
    const tolk_uop *store = tolk_store(g, tolk_index(g, out, &zero, 1), sum);
    return tolk_sink(g, &store, 1, name);
}

/* body NULL: a kernel of that name that reads all arguments but the first one, which it writes. The
 * arguments end with NULL. */
CALLS_UNUSED static const tolk_uop *call_of_body(tolk_graph *g, const tolk_uop *body,
                                                 const char *name, const tolk_uop *const *args) {
    const tolk_uop *src[CALLS_MOST + 1];
    size_t n = 0;
    while (args[n]) {
        src[n + 1] = args[n];
        n++;
    }
    src[0] = body ? body : kernel_of(g, name, (int)n - 1);
    tk_attr a = {.blob = tk_blob_str(g, name, strlen(name))};
    return src[0] ? tk_uop(g, TK_OP_CALL, TOLK_VOID, src, n + 1, &a) : NULL;
}
#define CALL(g, name, ...) call_of_body(g, NULL, name, (const tolk_uop *const[]){__VA_ARGS__, NULL})

/* A copy from src to dst, and a call that binds view to a part of src. */
CALLS_UNUSED static const tolk_uop *copy_call(tolk_graph *g, const tolk_uop *dst,
                                              const tolk_uop *src) {
    tk_attr device = {.blob = tk_blob_str(g, "CPU", 3)};
    const tolk_uop *body = src ? tk_uop(g, TK_OP_COPY, src->dtype, &src, 1, &device) : NULL;
    return body ? call_of_body(g, body, "copy", (const tolk_uop *const[]){dst, src, NULL}) : NULL;
}

CALLS_UNUSED static const tolk_uop *slice_of_node(tolk_graph *g, const tolk_uop *u, int64_t offset,
                                                  int64_t n) {
    const tolk_uop *src[2] = {u, tk_uop_index_const(g, offset)};
    tk_attr count = {.i = n};
    return u && src[1] ? tk_uop(g, TK_OP_SLICE, u->dtype, src, 2, &count) : NULL;
}

CALLS_UNUSED static const tolk_uop *slice_call(tolk_graph *g, const tolk_uop *view,
                                               const tolk_uop *src, int64_t offset, int64_t n) {
    const tolk_uop *body = slice_of_node(g, src, offset, n);
    return body ? call_of_body(g, body, "slice", (const tolk_uop *const[]){view, src, NULL}) : NULL;
}

CALLS_UNUSED static const tolk_uop *list_of(tolk_graph *g, const tolk_uop *const *calls, size_t n) {
    return tk_uop(g, TK_OP_LINEAR, TOLK_VOID, calls, n, NULL);
}
#define LIST(g, ...)                                                                               \
    list_of(g, (const tolk_uop *const[]){__VA_ARGS__},                                             \
            sizeof((const tolk_uop *const[]){__VA_ARGS__}) / sizeof(const tolk_uop *))

#endif
