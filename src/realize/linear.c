/* SPDX-License-Identifier: MIT */
#include "realize/linear.h"

#include "base/status.h"
#include "ir/import.h"
#include "ir/locate.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "schedule/call_args.h"

#include <stdio.h>
#include <string.h>

static tolk_status is_linear(const tolk_uop *root, tolk_error *err) {
    if (tk_uop_is(root, TK_OP_LINEAR))
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_VERIFY, TK_NO_NODE, "expected a linear of calls, got %s",
                          tk_op_get(tk_uop_op(root))->name);
}

/* Nobody has seen the numbers of a list that was made here: name the call at fault in place of one.
 */
static void name_call(const tolk_uop *root, tolk_error *err) {
    tk_walk_list nodes;
    if (!err || err->node == TK_NO_NODE || err->line)
        return;
    tk_vec_init(&nodes, root->graph->al);
    const tolk_uop *u =
        tk_walk(root, &nodes) == TOLK_OK && err->node < nodes.n ? nodes.at[err->node] : NULL;
    const char *text = strchr(err->msg, ' '); /* "%13 call: ..." */
    char msg[sizeof err->msg];
    if (u && text) {
        snprintf(msg, sizeof msg, "%s", text + 1);
        if (tk_uop_is(u, TK_OP_CALL) && (text = strchr(msg, ':')))
            snprintf(err->msg, sizeof err->msg, "call \"%.60s\"%.150s", tk_call_args_name(u), text);
        else
            memcpy(err->msg, msg, sizeof msg);
        err->node = TK_NO_NODE;
    }
    tk_vec_fini(&nodes);
}

/* is_made: by the library; else it is a copy of what somebody wrote. */
static tolk_status adopt(tolk_ctx *ctx, tolk_graph *graph, const tolk_uop *root, bool is_made,
                         tolk_linear **out, tolk_error *err) {
    tolk_status st = is_linear(root, err);
    if (st == TOLK_OK) {
        st = tk_verify(root, TOLK_STAGE_TENSOR, err);
        if (st != TOLK_OK && is_made)
            name_call(root, err);
    }
    tolk_linear *l = st == TOLK_OK ? tk_alloc_zero(&ctx->al, sizeof *l) : NULL;
    if (!l) {
        tolk_graph_destroy(graph);
        return st != TOLK_OK ? st : tk_status_nomem(err);
    }
    atomic_init(&l->refs, 1);
    l->ctx = ctx;
    l->graph = graph;
    l->root = root;
    *out = l;
    return TOLK_OK;
}

tolk_status tk_linear_adopt(tolk_ctx *ctx, tolk_graph *graph, const tolk_uop *root,
                            tolk_linear **out, tolk_error *err) {
    return adopt(ctx, graph, root, true, out, err);
}

tolk_status tolk_linear_create(tolk_ctx *ctx, const tolk_uop *linear, tolk_linear **out,
                               tolk_error *err) {
    if (!ctx || !linear || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_linear_create: ctx, linear or out is NULL");
    TK_TRY(is_linear(linear, err));
    tk_ctx_after_fork(ctx);
    tolk_graph *g;
    if (tolk_graph_create(ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    const tolk_uop *root;
    tolk_status st = tk_import(g, linear, &root, err);
    if (st != TOLK_OK) {
        tolk_graph_destroy(g);
        return st;
    }
    tk_locate_copy(linear, root);
    return adopt(ctx, g, root, false, out, err);
}

tolk_status tk_linear_check(const tolk_linear *linear, const tolk_ctx *ctx, tolk_error *err) {
    if (linear->ctx == ctx)
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "the linear is of another context: tolk_linear_create() copies it");
}

tolk_linear *tolk_linear_ref(tolk_linear *linear) {
    if (linear)
        atomic_fetch_add_explicit(&linear->refs, 1, memory_order_relaxed);
    return linear;
}

void tolk_linear_unref(tolk_linear *linear) {
    if (!linear || atomic_fetch_sub_explicit(&linear->refs, 1, memory_order_acq_rel) != 1)
        return;
    tolk_ctx *ctx = linear->ctx;
    tolk_graph_destroy(linear->graph);
    tk_alloc_free(&ctx->al, linear, sizeof *linear);
}

const tolk_uop *tolk_linear_root(const tolk_linear *linear) {
    return linear ? linear->root : NULL;
}
