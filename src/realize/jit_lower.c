/* SPDX-License-Identifier: MIT */
#include "realize/jit.h"

#include "base/status.h"
#include "ir/check.h"
#include "ir/import.h"
#include "jit/device.h"
#include "realize/batch.h"
#include "realize/bindings.h"
#include "realize/buffer.h"
#include "realize/resolve.h"
#include "schedule/call_args.h"
#include "schedule/memory_plan.h"

#include <stdio.h>
#include <string.h>

/* ---- recording ---- */

tolk_status tk_jit_recording_init(tk_jit_recording *r, const tolk_jit *jit,
                                  const tolk_run_args *args, tolk_error *err) {
    *r = (tk_jit_recording){.jit = jit, .args = args};
    tk_vec_init(&r->calls, &jit->ctx->al);
    tk_vec_init(&r->held, &jit->ctx->al);
    return tk_graph_create(jit->ctx, &r->graph) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
}

void tk_jit_recording_fini(tk_jit_recording *r) {
    tk_vec_fini(&r->calls);
    tk_vec_fini(&r->held);
    tk_graph_destroy(r->graph);
}

static const tolk_var *find_var(const tolk_run_args *args, const char *name) {
    for (size_t i = 0; i < args->n_vars; i++)
        if (strcmp(args->vars[i].name, name) == 0)
            return &args->vars[i];
    return NULL;
}

static tolk_status check_value(const tolk_run_args *args, const char *name, int64_t value,
                               tolk_error *err) {
    const tolk_var *v = find_var(args, name);
    if (!v)
        return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                              "jit: variable \"%.60s\" of a linear is none of the call's: a replay "
                              "would not know its value",
                              name);
    if (v->value != value)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "jit: variable \"%.60s\" is %lld in the call, but %lld in a linear",
                              name, (long long)v->value, (long long)value);
    return TOLK_OK;
}

/* Variables of the call get their values from the call, BINDs of them, too. */
static tolk_status free_binds(tk_jit_recording *r, const tolk_uop **list, tk_walk_list *nodes,
                              tk_walk_list *from, tk_walk_list *to, tolk_error *err) {
    if (tk_call_args_walk(*list, nodes) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        const char *name = tk_uop_is(u, TK_OP_BIND) ? tk_uop_str(u->src[0], TK_A_PARAM_NAME) : NULL;
        if (!name || !find_var(r->args, name) || !tk_uop_is_const(u->src[1]))
            continue;
        TK_TRY(check_value(r->args, name, u->src[1]->attr[0].i, err));
        if (!tk_vec_push(from, u) || !tk_vec_push(to, u->src[0]))
            return tk_status_nomem(err);
    }
    *list = tk_call_args_replace(r->graph, *list, from->at, to->at, from->n);
    return *list ? TOLK_OK : tk_graph_take_error(r->graph, err);
}

static tolk_status add_list(tk_jit_recording *r, const tolk_uop *list, tolk_error *err) {
    tk_walk_list nodes, from, to;
    tk_vec_init(&nodes, &r->jit->ctx->al);
    tk_vec_init(&from, &r->jit->ctx->al);
    tk_vec_init(&to, &r->jit->ctx->al);
    tolk_status st = free_binds(r, &list, &nodes, &from, &to, err);
    tk_vec_fini(&to);
    tk_vec_fini(&from);
    tk_vec_fini(&nodes);
    return st == TOLK_OK ? tk_call_args_flatten(list, &r->calls, err) : st;
}

tolk_status tk_jit_recording_add(tk_jit_recording *r, const tk_captured *x, tolk_error *err) {
    if (x->bindings != r->jit->bindings)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "jit: a linear was handed over with other bindings than the jit's");
    for (size_t i = 0; i < x->n_vars; i++)
        TK_TRY(check_value(r->args, x->vars[i].name ? x->vars[i].name : "", x->vars[i].value, err));
    tolk_linear *compiled;
    TK_TRY(tolk_compile_linear(x->bindings->device, x->linear, x->opts ? x->opts : r->jit->realize,
                               &compiled, err));
    const tolk_uop *list;
    tolk_status st = tk_import(r->graph, compiled->root, &list, err);
    tolk_linear_unref(compiled);
    if (st == TOLK_OK)
        st = add_list(r, list, err);
    for (size_t i = 0; i < x->n_held && st == TOLK_OK; i++) {
        const tolk_uop *held = NULL;
        if (!x->held[i])
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "node %zu of held is NULL, expected a buffer", i);
        st = tk_import(r->graph, x->held[i], &held, err);
        if (st == TOLK_OK && !tk_vec_push(&r->held, held))
            st = tk_status_nomem(err);
    }
    return st;
}

/* ---- inputs become PARAMs ---- */

typedef struct lowering {
    tk_jit_recording *r;
    tk_jit_replay *p;
    tolk_graph *g;
    const tolk_allocator *al;
    const tolk_uop *list;
    tk_walk_list inputs, params; /* by number; behind them what stays as it is */
    tk_walk_list nodes, written;
    tk_walk_map is_written; /* PARAM or BUFFER */
    tk_walk_map is_own;     /* BUFFER: an arena, or the view of a SLICE call */
    tk_resolve_memo known;  /* of buffers, while calls are put into graphs */
    bool no_memory;
} lowering;

/* name: no other PARAM has it, so that none of them is bound. */
static const tolk_uop *param_of(tolk_graph *g, const tolk_uop *buffer, uint32_t slot,
                                const tk_blob *name) {
    tk_attr a[7] = {{.i = slot},      {.blob = name},   {.i = TK_SPACE_GLOBAL},
                    {.i = INT64_MIN}, {.i = INT64_MAX}, tk_uop_attr(buffer, TK_A_BUFFER_DEVICE),
                    {.i = -1}};
    return tk_uop(g, TK_OP_PARAM, buffer->dtype, buffer->src, buffer->n_src, a);
}

static tolk_status put_params(lowering *l, tolk_error *err) {
    const tolk_run_args *args = l->r->args;
    long long number = -(long long)tk_memory_plan_slot(l->r->jit->ctx);
    for (uint32_t i = 0; i < l->p->n_inputs; i++) {
        char text[48];
        const tolk_uop *input, *param;
        TK_TRY(tk_import(l->g, args->inputs[i], &input, err));
        if (!tk_uop_is(input, TK_OP_BUFFER))
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "jit: input %u is %s, expected a buffer", i,
                                  tk_op_get(tk_uop_op(input))->name);
        uint32_t first = 0;
        while (first < i && l->inputs.at[first] != input)
            first++;
        int n = snprintf(text, sizeof text, "input %u of jit %lld", i, number);
        const tk_blob *name = tk_blob_str(l->g, text, (size_t)n);
        if (!name || !(param = param_of(l->g, input, i, name)))
            return tk_graph_take_error(l->g, err);
        if (!tk_vec_push(&l->inputs, input) || !tk_vec_push(&l->params, param) ||
            !tk_vec_push(&l->p->one_as, first))
            return tk_status_nomem(err);
    }
    TK_TRY(tk_captures_keep_bound(l->r->jit->bindings, l->list, &l->nodes, &l->inputs, &l->params,
                                  err));
    l->list = tk_call_args_replace(l->g, l->list, l->inputs.at, l->params.at, l->inputs.n);
    return l->list ? TOLK_OK : tk_graph_take_error(l->g, err);
}

/* What PARAM is in the calls is an input by now: any other one nobody gave, or it is bound, which a
 * replay, whose inputs have the slots, does not look at. */
static tolk_status check_params(lowering *l, tk_walk_list *before, tolk_error *err) {
    if (tk_call_args_walk(l->list, before) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < before->n; i++) {
        char name[96];
        const tolk_uop *u = before->at[i];
        if (tk_uop_is(u, TK_OP_PARAM) && tk_bindings_is_bound(l->r->jit->bindings, u))
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "jit: %s is bound itself: expected a buffer, or an input of that "
                                  "slot",
                                  tk_resolve_name(u, name));
        if (tk_uop_is(u, TK_OP_PARAM) && !tk_check_is_scalar_param(u))
            return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE, "jit: %s: no input of that slot",
                                  tk_resolve_name(u, name));
    }
    return TOLK_OK;
}

/* ---- memory ---- */

/* What stands for something keeps what it stands for, and what others look at, too. */
static tolk_status hold(lowering *l, tolk_error *err) {
    const tolk_jit *jit = l->r->jit;
    const tolk_uop *own;
    for (size_t i = 0; i < jit->held.n; i++) {
        TK_TRY(tk_import(l->g, jit->held.at[i], &own, err));
        if (!tk_vec_push(&l->r->held, own))
            return tk_status_nomem(err);
    }
    l->nodes.n = 0;
    if (tk_call_args_walk(l->list, &l->nodes) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < l->nodes.n; i++)
        if (tk_bindings_is_bound(jit->bindings, l->nodes.at[i]) &&
            !tk_vec_push(&l->r->held, l->nodes.at[i]))
            return tk_status_nomem(err);
    return TOLK_OK;
}

static void note_written(void *user, const tolk_uop *arg) {
    lowering *l = user;
    l->no_memory |= !tk_vec_push(&l->written, arg);
}

/* Which params and buffers the calls write to, perhaps through a slice. */
static tolk_status find_written(lowering *l, tolk_error *err) {
    for (uint32_t i = 0; i < l->list->n_src; i++)
        TK_TRY(tk_call_args_written(l->list->src[i], l->al, note_written, l, err));
    while (l->written.n && !l->no_memory) {
        const tolk_uop *u = tk_vec_pop(&l->written);
        if (tk_walk_map_get(&l->is_written, u->id))
            continue;
        l->no_memory = !tk_walk_map_put(&l->is_written, u->id, 1);
        for (uint32_t i = 0; i < u->n_src && !tk_uop_is(u, TK_OP_BUFFER); i++)
            note_written(l, u->src[i]);
    }
    return l->no_memory ? tk_status_nomem(err) : TOLK_OK;
}

/* Arenas, and BUFFERs that a call binds to a view, which have no memory of their own. */
static tolk_status find_own(lowering *l) {
    for (size_t i = 0; i < l->p->own.arenas.n; i++)
        if (!tk_walk_map_put(&l->is_own, l->p->own.arenas.at[i]->id, 1))
            return TOLK_E_NOMEM;
    for (uint32_t i = 0; i < l->list->n_src; i++) {
        const tolk_uop *c = l->list->src[i];
        if (tk_uop_is(c, TK_OP_CALL) && tk_uop_is(c->src[0], TK_OP_SLICE) && c->n_src > 1 &&
            !tk_walk_map_put(&l->is_own, c->src[1]->id, 1))
            return TOLK_E_NOMEM;
    }
    return TOLK_OK;
}

static tolk_status find_others(lowering *l, tolk_error *err) {
    l->nodes.n = 0;
    if (find_own(l) != TOLK_OK || tk_call_args_walk(l->list, &l->nodes) != TOLK_OK)
        return tk_status_nomem(err);
    for (uint32_t i = 0; i < l->p->n_inputs; i++)
        if (!tk_vec_push(&l->p->writes, tk_walk_map_get(&l->is_written, l->params.at[i]->id) != 0))
            return tk_status_nomem(err);
    for (size_t i = 0; i < l->nodes.n; i++) {
        const tolk_uop *u = l->nodes.at[i];
        /* A view that was bound has memory of its own. */
        bool is_bound = tk_bindings_is_bound(l->r->jit->bindings, u);
        if ((!tk_uop_is(u, TK_OP_BUFFER) && !is_bound) || tk_walk_map_get(&l->is_own, u->id))
            continue;
        if (!tk_vec_push(&l->p->others, u) ||
            !tk_vec_push(&l->p->writes, tk_walk_map_get(&l->is_written, u->id) != 0))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

/* ---- graphs ---- */

/* A launch or copy may be in a graph of the one device that all its buffers are on. */
static tolk_status place_of(void *user, const tolk_uop *call, const void **place, tolk_error *err) {
    lowering *l = user;
    tolk_device *device = NULL;
    *place = NULL;
    if (!tk_uop_is(call->src[0], TK_OP_PROGRAM) && !tk_uop_is(call->src[0], TK_OP_COPY))
        return TOLK_OK;
    for (uint32_t i = 1; i < call->n_src; i++) {
        const tolk_uop *arg = call->src[i];
        if (tk_check_is_value(arg))
            continue;
        tk_bindings_to to = {NULL, NULL};
        TK_TRY(tk_resolve(l->r->jit->bindings, &l->known, l->r->args->inputs, l->p->n_inputs, arg,
                          &to, err));
        tolk_device *on = to.one ? tk_buffer_device(to.one) : NULL;
        tk_bindings_to_drop(&to);
        if (!on || (device && on != device))
            return TOLK_OK;
        device = on;
    }
    *place = device && device->backend->graph ? device : NULL;
    return TOLK_OK;
}

/* ---- all of it ---- */

static tolk_status lower(lowering *l, tolk_error *err) {
    const tolk_jit *jit = l->r->jit;
    tk_jit_recording *r = l->r;
    if (!r->calls.n)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "jit: the function handed over no linear to be captured");
    l->list = tk_uop(l->g, TK_OP_LINEAR, TOLK_VOID, r->calls.at, r->calls.n, NULL);
    if (!l->list)
        return tk_graph_take_error(l->g, err);
    TK_TRY(check_params(l, &l->nodes, err));
    TK_TRY(put_params(l, err));
    TK_TRY(hold(l, err));
    TK_TRY(tk_memory_plan(l->g, l->list, r->held.at, r->held.n, &l->list, &l->p->own, err));
    TK_TRY(find_written(l, err));
    TK_TRY(find_others(l, err));
    if (jit->no_graphs)
        return TOLK_OK;
    tk_bindings_begin(jit->bindings);
    tk_resolve_memo_init(&l->known, jit->bindings);
    tolk_status st = tk_batch(l->g, l->list, jit->batch, place_of, l, &l->list, err);
    tk_resolve_memo_fini(&l->known);
    tk_bindings_remove_own(jit->bindings, &l->p->own); /* to ask where they are was to bind them */
    return st;
}

tolk_status tk_jit_lower(tk_jit_recording *r, tk_jit_replay *p, tolk_error *err) {
    const tolk_jit *jit = r->jit;
    lowering l = {.r = r, .p = p, .g = r->graph, .al = &jit->ctx->al};
    p->n_inputs = (uint32_t)r->args->n_inputs;
    tk_vec_init(&l.inputs, l.al);
    tk_vec_init(&l.params, l.al);
    tk_vec_init(&l.nodes, l.al);
    tk_vec_init(&l.written, l.al);
    tk_walk_map_init(&l.is_written, l.al);
    tk_walk_map_init(&l.is_own, l.al);
    tolk_status st = lower(&l, err);
    tk_walk_map_fini(&l.is_own);
    tk_walk_map_fini(&l.is_written);
    tk_vec_fini(&l.written);
    tk_vec_fini(&l.nodes);
    tk_vec_fini(&l.params);
    tk_vec_fini(&l.inputs);
    if (st != TOLK_OK)
        return st;
    tolk_graph *g = r->graph;
    r->graph = NULL; /* the linear's now: what the replay names is in it */
    st = tk_linear_adopt(jit->ctx, g, l.list, &p->linear, err);
    if (st != TOLK_OK) {
        p->own.arenas.n = p->own.views.n = p->others.n = 0; /* went with the graph */
        return st;
    }
    return tolk_exec_create(jit->bindings, p->linear, jit->realize, &p->exec, err);
}
