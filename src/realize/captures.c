/* SPDX-License-Identifier: MIT */
#include "realize/captures.h"

#include "base/status.h"
#include "ir/check.h"
#include "ir/import.h"
#include "realize/bindings.h"
#include "realize/resolve.h"
#include "realize/schedules.h"
#include "schedule/call_args.h"

/* ---- hooks of users ---- */

static tolk_status call_user(const tk_capture *c, const void *what, tolk_error *err) {
    const tk_captured *x = what;
    return ((tolk_capture_fn)c->callee)(c->user, x->linear, x->vars, x->n_vars, err);
}

tolk_status tolk_capture_push(tolk_ctx *ctx, tolk_capture_fn fn, void *user, tolk_error *err) {
    if (!ctx || !fn)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_capture_push: ctx or fn is NULL");
    return tk_capture_push(ctx, &(tk_capture){call_user, (void (*)(void))fn, user}, err);
}

tolk_status tolk_capture_pop(tolk_ctx *ctx, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_capture_pop: ctx is NULL");
    return tk_capture_pop(ctx, err);
}

/* ---- handing over ---- */

tolk_status tk_captures_keep_bound(const tolk_bindings *b, const tolk_uop *linear,
                                   tk_walk_list *nodes, tk_walk_list *from, tk_walk_list *to,
                                   tolk_error *err) {
    nodes->n = 0;
    if (tk_call_args_walk(linear, nodes) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        if (!tk_uop_is(u, TK_OP_BUFFER) && tk_bindings_is_bound(b, u) &&
            (!tk_vec_push(from, u) || !tk_vec_push(to, u)))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

/* The linear in g with the nodes of inputs where its PARAMs were, but for those that are bound. */
static tolk_status put_inputs(tolk_graph *g, const tk_captured *x, const tolk_run_args *args,
                              tk_walk_list *nodes, tk_walk_list *from, tk_walk_list *to,
                              const tolk_uop **out, tolk_error *err) {
    const tolk_uop *root;
    TK_TRY(tk_import(g, x->linear->root, &root, err));
    TK_TRY(tk_captures_keep_bound(x->bindings, root, nodes, from, to, err));
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i], *input;
        if (!tk_uop_is(u, TK_OP_PARAM) || tk_check_is_scalar_param(u))
            continue;
        uint64_t slot = (uint64_t)tk_uop_int(u, TK_A_PARAM_SLOT);
        if (slot >= args->n_inputs || !args->inputs[slot])
            continue; /* who runs it says what is missing */
        TK_TRY(tk_import(g, args->inputs[slot], &input, err));
        if (!tk_vec_push(from, u) || !tk_vec_push(to, input))
            return tk_status_nomem(err);
    }
    root = tk_call_args_replace(g, root, from->at, to->at, from->n);
    if (!root)
        return tk_graph_take_error(g, err);
    *out = root;
    return TOLK_OK;
}

static tolk_status with_inputs(const tk_captured *x, const tolk_run_args *args, tolk_linear **out,
                               tolk_error *err) {
    tolk_ctx *ctx = x->bindings->ctx;
    if (!args || !args->n_inputs) {
        *out = tolk_linear_ref(x->linear);
        return TOLK_OK;
    }
    tolk_graph *g;
    if (tk_graph_create(ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    tk_walk_list nodes, from, to;
    tk_vec_init(&nodes, &ctx->al);
    tk_vec_init(&from, &ctx->al);
    tk_vec_init(&to, &ctx->al);
    const tolk_uop *root = NULL;
    tolk_status st = put_inputs(g, x, args, &nodes, &from, &to, &root, err);
    tk_vec_fini(&to);
    tk_vec_fini(&from);
    tk_vec_fini(&nodes);
    if (st == TOLK_OK)
        return tk_linear_adopt(ctx, g, root, out, err);
    tk_graph_destroy(g);
    return st;
}

static tolk_status hand_over(const tk_capture *c, tk_captured *x, const tolk_run_args *args,
                             tolk_error *err) {
    tolk_linear *whole;
    TK_TRY(with_inputs(x, args, &whole, err));
    x->linear = whole;
    tolk_status st = c->hook(c, x, err);
    tolk_linear_unref(whole);
    return st;
}

/* ---- running ---- */

/* What the linear names and that stands for something, views too: their contents are not the
 * plan's. */
static tolk_status hold_bound(tolk_bindings *b, const tolk_linear *linear, tk_walk_list *nodes,
                              tk_walk_list *held, tolk_error *err) {
    if (tk_call_args_walk(linear->root, nodes) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < nodes->n; i++)
        if (tk_bindings_is_bound(b, nodes->at[i]) && !tk_vec_push(held, nodes->at[i]))
            return tk_status_nomem(err);
    return TOLK_OK;
}

static tolk_status run_planned(const tk_captured *x, const tolk_run_args *args, tk_walk_list *nodes,
                               tk_walk_list *held, tk_memory_plan_own *own, bool again,
                               tolk_error *err) {
    for (size_t i = 0; i < x->n_held; i++)
        if (!tk_vec_push(held, x->held[i]))
            return tk_status_nomem(err);
    for (size_t i = 0; args && i < args->n_inputs; i++)
        if (args->inputs[i] && !tk_vec_push(held, args->inputs[i]))
            return tk_status_nomem(err);
    TK_TRY(hold_bound(x->bindings, x->linear, nodes, held, err));
    tolk_linear *planned;
    TK_TRY(tk_schedules_plan(x->linear, held->at, held->n, own, &planned, err));
    tolk_status st;
    if (planned == x->linear && again) {
        st = tolk_run_linear(x->bindings, planned, x->opts, args, err);
    } else {
        tolk_exec *exec = NULL;
        st = tolk_exec_create(x->bindings, planned, x->opts, &exec, err);
        if (st == TOLK_OK)
            st = tolk_exec_run(exec, args, err);
        tolk_exec_destroy(exec);
        tk_bindings_remove_own(x->bindings, own); /* what is queued keeps their memory */
    }
    tolk_linear_unref(planned);
    return st;
}

tolk_status tk_captures_realize(tolk_bindings *b, tolk_linear *linear, const tolk_uop *const *held,
                                size_t n_held, const tolk_realize_opts *opts,
                                const tolk_run_args *args, bool again, tolk_error *err) {
    tolk_ctx *ctx = b->ctx;
    tk_captured x = {
        b, linear, held, n_held, opts, args ? args->vars : NULL, args ? args->n_vars : 0};
    tk_capture c;
    if (tk_capture_find(ctx, &c))
        return hand_over(&c, &x, args, err);
    tk_walk_list nodes, all;
    tk_memory_plan_own own;
    tk_vec_init(&nodes, &ctx->al);
    tk_vec_init(&all, &ctx->al);
    tk_memory_plan_own_init(&own, &ctx->al);
    tolk_status st = run_planned(&x, args, &nodes, &all, &own, again, err);
    tk_memory_plan_own_fini(&own);
    tk_vec_fini(&all);
    tk_vec_fini(&nodes);
    return st;
}

tolk_status tolk_realize_linear(tolk_bindings *bindings, tolk_linear *linear,
                                const tolk_uop *const *held, size_t n_held,
                                const tolk_realize_opts *opts, const tolk_run_args *args,
                                tolk_error *err) {
    static const char call[] = "tolk_realize_linear";
    if (!bindings || !linear || (n_held && !held))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: bindings, linear or held is NULL",
                              call);
    TK_TRY(tk_resolve_check_args(call, args, err));
    return tk_captures_realize(bindings, linear, held, n_held, opts, args, true, err);
}
