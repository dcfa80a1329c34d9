/* SPDX-License-Identifier: MIT
 *
 * The schedule layer for linears: each has a graph of its own.
 */
#include "realize/schedules.h"

#include "base/status.h"
#include "ir/import.h"
#include "ir/locate.h"
#include "ir/verify.h"
#include "schedule/create_schedule.h"
#include "schedule/memory_plan.h"

static tolk_status arg_null(const char *call, const char *what, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: %s is NULL", call, what);
}

tolk_status tolk_create_schedule(tolk_ctx *ctx, const tolk_uop *sink, tolk_linear **out,
                                 tolk_error *err) {
    if (!ctx || !sink || !out)
        return arg_null("tolk_create_schedule", "ctx, sink or out", err);
    TK_TRY(tk_verify(sink, TOLK_STAGE_TENSOR, err));
    tk_ctx_after_fork(ctx);
    tolk_graph *g;
    if (tk_graph_create(ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    const tolk_uop *own, *list;
    tolk_status st = tk_import(g, sink, &own, err);
    if (st == TOLK_OK) {
        tk_locate_copy(sink, own);
        st = tk_create_schedule(g, own, &list, err);
    }
    if (st != TOLK_OK) {
        tk_graph_destroy(g);
        return st;
    }
    return tk_linear_adopt(ctx, g, list, out, err);
}

/* Into g: the list, and the held nodes to `nodes`. */
static tolk_status import_all(tolk_graph *g, const tolk_linear *linear, const tolk_uop *const *held,
                              size_t n_held, const tolk_uop **list, const tolk_uop **nodes,
                              tolk_error *err) {
    TK_TRY(tk_import(g, linear->root, list, err));
    for (size_t i = 0; i < n_held; i++) {
        if (!held[i])
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "node %zu of held is NULL, expected a buffer", i);
        TK_TRY(tk_import(g, held[i], &nodes[i], err));
    }
    return TOLK_OK;
}

tolk_status tk_schedules_plan(tolk_linear *linear, const tolk_uop *const *held, size_t n_held,
                              tk_memory_plan_own *own, tolk_linear **out, tolk_error *err) {
    tolk_ctx *ctx = linear->ctx;
    tk_ctx_after_fork(ctx);
    tolk_graph *g;
    const tolk_uop **nodes = tk_alloc(&ctx->al, n_held * sizeof *nodes);
    if (!nodes || tk_graph_create(ctx, &g) != TOLK_OK) {
        tk_alloc_free(&ctx->al, nodes, n_held * sizeof *nodes);
        return tk_status_nomem(err);
    }
    const tolk_uop *list = NULL, *planned = NULL;
    tolk_status st = import_all(g, linear, held, n_held, &list, nodes, err);
    if (st == TOLK_OK)
        st = tk_memory_plan(g, list, nodes, n_held, &planned, own, err);
    tk_alloc_free(&ctx->al, nodes, n_held * sizeof *nodes);
    if (st == TOLK_OK && planned != list)
        return tk_linear_adopt(ctx, g, planned, out, err);
    tk_graph_destroy(g);
    if (st == TOLK_OK)
        *out = tolk_linear_ref(linear);
    return st;
}

tolk_status tolk_memory_plan(tolk_linear *linear, const tolk_uop *const *held, size_t n_held,
                             tolk_linear **out, tolk_error *err) {
    if (!linear || !out || (n_held && !held))
        return arg_null("tolk_memory_plan", "linear, held or out", err);
    return tk_schedules_plan(linear, held, n_held, NULL, out, err);
}
