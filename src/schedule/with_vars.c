/* SPDX-License-Identifier: MIT */
#include "schedule/with_vars.h"

#include "ir/check.h"
#include "ir/params.h"
#include "schedule/call_args.h"
#include "schedule/create_schedule.h"
#include "schedule/memory_plan.h"

#include <stdio.h>

/* What doubles with each level of calls must end. */
enum {
    MOST_STEPS = TK_MAX_NODES, /* nodes that are looked at, each as often as it is called */
    LIST_STEPS = 16            /* what a call of calls costs, beside the nodes of its body */
};

/* A list whose calls are being added, as they stand in its caller. */
typedef struct frame {
    const tolk_uop *list;
    uint32_t next;
} frame;

/* A node whose sources are being replaced. */
typedef struct step {
    const tolk_uop *u;
    uint32_t next;
} step;

typedef struct work {
    tolk_graph *g;
    const tolk_allocator *al;
    tk_with_vars_order order;
    void *user;
    tolk_error *err;
    TK_VEC(frame) frames;
    tk_walk_list calls;  /* the result */
    tk_walk_map ordered; /* SINK -> LINEAR + 1 */
    size_t steps;
    tk_walk_list *made; /* may be NULL */
    TK_VEC(step) stack;
    tk_walk_list src;
} work;

static tolk_status no_memory(const work *w) {
    return tk_status_nomem(w->err);
}

static const char *op_name(const tolk_uop *u) {
    return tk_op_get(tk_uop_op(u))->name;
}

static tolk_status too_many(const work *w) {
    return tk_status_fail(w->err, TOLK_E_LIMIT, TK_NO_NODE,
                          "schedule: calls of calls make more than %d calls, or take too long",
                          TK_MANY);
}

/* ---- variables ---- */

/* A BIND, of the graph that the caller gave. */
typedef TK_VEC(const tolk_uop *) binds;

static tolk_status take_binds(const work *w, const tolk_uop **root, binds *out, tk_walk_list *nodes,
                              tk_walk_list *vars) {
    if (tk_call_args_walk(*root, nodes) != TOLK_OK)
        return no_memory(w);
    for (size_t i = 0; i < nodes->n; i++)
        if (tk_uop_is(nodes->at[i], TK_OP_BIND) &&
            (!tk_vec_push(out, nodes->at[i]) || !tk_vec_push(vars, nodes->at[i]->src[0])))
            return no_memory(w);
    if (!out->n)
        return TOLK_OK;
    *root = tk_call_args_replace(w->g, *root, out->at, vars->at, out->n);
    return *root ? TOLK_OK : tk_graph_take_error(w->g, w->err);
}

/* The root with variables in place of the BINDs, which go to out. */
static tolk_status free_binds(const work *w, const tolk_uop **root, binds *out) {
    tk_walk_list nodes, vars;
    tk_vec_init(&nodes, w->al);
    tk_vec_init(&vars, w->al);
    tolk_status st = take_binds(w, root, out, &nodes, &vars);
    tk_vec_fini(&vars);
    tk_vec_fini(&nodes);
    return st;
}

/* The names of a kernel's variables, by address: all are of one graph. */
static tolk_status add_names(const work *w, const tolk_uop *kernel, tk_map *names) {
    tk_params params;
    TK_TRY(tk_params_init(&params, tk_uop_is(kernel, TK_OP_SINK) ? kernel : kernel->src[0], w->al,
                          w->err));
    bool ok = true;
    for (uint32_t i = 0; ok && i < params.n_vals; i++) {
        const tk_blob *name = tk_uop_attr(tk_params_val(&params, i)->node, TK_A_PARAM_NAME).blob;
        ok = !name || tk_map_put(names, (uintptr_t)name, 0);
    }
    tk_params_fini(&params);
    return ok ? TOLK_OK : no_memory(w);
}

static tolk_status find_names(const work *w, const tolk_uop *list, tk_map *names) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, w->al);
    tolk_status st = tk_call_args_walk(list, &nodes) == TOLK_OK ? TOLK_OK : no_memory(w);
    for (size_t i = 0; i < nodes.n && st == TOLK_OK; i++)
        if (tk_uop_is(nodes.at[i], TK_OP_SINK) || tk_uop_is(nodes.at[i], TK_OP_PROGRAM))
            st = add_names(w, nodes.at[i], names);
    tk_vec_fini(&nodes);
    return st;
}

/* names: by then name -> its number + 1 in values. */
static tolk_status add_value(const work *w, const tolk_uop *bind, tk_map *names,
                             tk_with_vars_values *values) {
    const tk_blob *name = tk_uop_attr(bind->src[0], TK_A_PARAM_NAME).blob;
    uint64_t *number = name ? tk_map_find(names, (uintptr_t)name) : NULL;
    if (!number)
        return TOLK_OK;
    if (!tk_uop_is_const(bind->src[1]))
        return tk_status_fail(w->err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "schedule: variable \"%.60s\" is bound to %s, expected a constant",
                              name->str, op_name(bind->src[1]));
    int64_t value = bind->src[1]->attr[0].i;
    if (!*number) {
        if (!tk_vec_push(values, ((tk_with_vars_value){name->str, value})))
            return no_memory(w);
        *number = values->n;
    }
    int64_t known = values->at[*number - 1].value;
    if (known != value)
        return tk_status_fail(w->err, TOLK_E_ARG, TK_NO_NODE,
                              "schedule: variable \"%.60s\" is bound to %lld and to %lld",
                              name->str, (long long)known, (long long)value);
    return TOLK_OK;
}

static tolk_status add_values(const work *w, const tolk_uop *list, const binds *from,
                              tk_with_vars_values *values) {
    tk_map names;
    tk_map_init(&names, w->al);
    tolk_status st = from->n ? find_names(w, list, &names) : TOLK_OK;
    for (size_t i = 0; i < from->n && st == TOLK_OK; i++)
        st = add_value(w, from->at[i], &names, values);
    tk_map_fini(&names);
    return st;
}

/* ---- arguments ---- */

static bool names_buffer(const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_BUFFER:
    case TK_OP_PARAM:
    case TK_OP_SLICE:
    case TK_OP_MSELECT:
    case TK_OP_MSTACK:
        return !tk_check_is_scalar_param(u);
    default:
        return false;
    }
}

/* "call "f"", "a call of a linear": in messages. */
static const char *text_of(const tolk_uop *call, char text[64]) {
    const char *name = tk_uop_str(call, TK_A_CALL_NAME);
    if (name)
        snprintf(text, 64, "call \"%.40s\"", name);
    else
        snprintf(text, 64, "a call of a %s", op_name(call->src[0]));
    return text;
}

static tolk_status check_args(const work *w, const tolk_uop *call) {
    char text[64];
    for (uint32_t i = 1; i < call->n_src; i++)
        if (!names_buffer(call->src[i]) && !tk_check_is_scalar_param(call->src[i]))
            return tk_status_fail(w->err, TOLK_E_VERIFY, TK_NO_NODE,
                                  "schedule: %s: argument %u is %s, expected a buffer (buffer, "
                                  "param, slice, mselect, mstack), a bind or a variable",
                                  text_of(call, text), i - 1, op_name(call->src[i]));
    return TOLK_OK;
}

/* ---- what stands for what in one call ---- */

/* Is a BUFFER of a body memory of each call of it? */
static bool is_own(const tolk_uop *u) {
    return tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL &&
           tk_uop_int(u, TK_A_BUFFER_SLOT) >= 0;
}

/* Does a PARAM of the body stand for an argument? */
static bool is_given(const tolk_uop *param, const tolk_uop *call) {
    int64_t slot = tk_uop_int(param, TK_A_PARAM_SLOT);
    return !tk_check_is_scalar_param(param) && slot >= 0 && slot < (int64_t)call->n_src - 1;
}

static tolk_status arg_of(const work *w, const tolk_uop *param, const tolk_uop *call,
                          const tolk_uop **out) {
    char text[64];
    int64_t slot = tk_uop_int(param, TK_A_PARAM_SLOT);
    *out = param;
    if (!is_given(param, call))
        return TOLK_OK;
    const tolk_uop *arg = call->src[1 + slot];
    if (!names_buffer(arg))
        return tk_status_fail(w->err, TOLK_E_VERIFY, TK_NO_NODE,
                              "schedule: %s: param {slot=%lld} is argument %lld, a variable, "
                              "expected a buffer",
                              text_of(call, text), (long long)slot, (long long)slot);
    if (arg->dtype != param->dtype)
        return tk_status_fail(w->err, TOLK_E_DTYPE, TK_NO_NODE,
                              "schedule: %s: argument %lld is of %s, but param {slot=%lld} of %s",
                              text_of(call, text), (long long)slot, tolk_dtype_name(arg->dtype),
                              (long long)slot, tolk_dtype_name(param->dtype));
    *out = arg;
    return TOLK_OK;
}

static tolk_status new_buffer(const work *w, const tolk_uop *u, const tolk_uop **out) {
    *out = u;
    if (!is_own(u))
        return TOLK_OK;
    tk_attr attrs[4] = {{.i = tk_memory_plan_slot(w->g->ctx)},
                        tk_uop_attr(u, TK_A_BUFFER_SPACE),
                        tk_uop_attr(u, TK_A_BUFFER_DYNAMIC),
                        tk_uop_attr(u, TK_A_BUFFER_DEVICE)};
    *out = tk_uop(w->g, TK_OP_BUFFER, u->dtype, u->src, u->n_src, attrs);
    if (!*out)
        return tk_graph_take_error(w->g, w->err);
    return !w->made || tk_vec_push(w->made, *out) ? TOLK_OK : no_memory(w);
}

/* From which source on a node's sources are of the same call; n_src: none is. */
static uint32_t first_source(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_BUFFER) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_PROGRAM) ||
        (tk_uop_is(u, TK_OP_SINK) && !tk_check_is_states(u)))
        return u->n_src;
    return tk_check_calls_list(u) ? 1 : 0;
}

/* A node whose sources are done. */
static tolk_status put_in(work *w, const tolk_uop *u, const tolk_uop *call, tk_walk_map *memo) {
    const tolk_uop *r = u;
    uint32_t first = first_source(u);
    if (tk_uop_is(u, TK_OP_PARAM))
        TK_TRY(arg_of(w, u, call, &r));
    if (tk_uop_is(u, TK_OP_BUFFER))
        TK_TRY(new_buffer(w, u, &r));
    if (first < u->n_src) {
        bool same = true;
        w->src.n = 0;
        for (uint32_t i = 0; i < u->n_src; i++) {
            const tolk_uop *x = u->src[i];
            if (i >= first)
                x = w->g->nodes.at[tk_walk_map_get(memo, x->id) - 1];
            same = same && x == u->src[i];
            if (!tk_vec_push(&w->src, x))
                return no_memory(w);
        }
        if (!same && !(r = tk_uop_with_src(w->g, u, w->src.at, w->src.n)))
            return tk_graph_take_error(w->g, w->err);
    }
    return tk_walk_map_put(memo, u->id, r->id + 1) ? TOLK_OK : no_memory(w);
}

static tolk_status replace(work *w, const tolk_uop *body, const tolk_uop *call, tk_walk_map *memo,
                           const tolk_uop **out) {
    w->stack.n = 0;
    if (!tk_vec_push(&w->stack, ((step){body, first_source(body)})))
        return no_memory(w);
    while (w->stack.n) {
        step *s = &tk_vec_last(&w->stack);
        const tolk_uop *u = s->u;
        if (s->next < u->n_src) {
            const tolk_uop *x = u->src[s->next++];
            if (!tk_walk_map_get(memo, x->id) &&
                !tk_vec_push(&w->stack, ((step){x, first_source(x)})))
                return no_memory(w);
            continue;
        }
        if (++w->steps > MOST_STEPS)
            return too_many(w);
        TK_TRY(put_in(w, u, call, memo));
        w->stack.n--;
    }
    *out = w->g->nodes.at[tk_walk_map_get(memo, body->id) - 1];
    return TOLK_OK;
}

/* A body, ordered or not, as it is in one call: PARAMs and BUFFERs replaced. */
static tolk_status body_of_call(work *w, const tolk_uop *body, const tolk_uop *call,
                                const tolk_uop **out) {
    tk_walk_map memo;
    tk_walk_map_init(&memo, w->al);
    tolk_status st = replace(w, body, call, &memo, out);
    tk_walk_map_fini(&memo);
    return st;
}

/* ---- arguments that are the same memory ---- */

/* Whose memory a BUFFER or PARAM is. */
typedef struct owners {
    tk_walk_map of; /* node -> number of its source of the call; n_src: the body */
    bool shared;
} owners;

static tolk_status own_all(const work *w, const tolk_uop *call, const tolk_uop *from,
                           uint32_t number, tk_walk_list *nodes, owners *o) {
    bool is_body = number == call->n_src;
    nodes->n = 0;
    if (tk_call_args_walk(from, nodes) != TOLK_OK)
        return no_memory(w);
    for (size_t k = 0; k < nodes->n; k++) {
        const tolk_uop *u = nodes->at[k];
        bool buffer = tk_uop_is(u, TK_OP_BUFFER) && !(is_body && is_own(u));
        bool param = tk_uop_is(u, TK_OP_PARAM) && !(is_body && is_given(u, call));
        if (!buffer && (!param || tk_check_is_scalar_param(u)))
            continue;
        uint32_t other = tk_walk_map_get(&o->of, u->id);
        o->shared |= other && other != number;
        if (!tk_walk_map_put(&o->of, u->id, number))
            return no_memory(w);
    }
    return TOLK_OK;
}

/* May two arguments, or one and what the body names itself, be the same memory? */
static tolk_status share(const work *w, const tolk_uop *call, bool *out) {
    tk_walk_list nodes;
    owners o = {.shared = false};
    tk_vec_init(&nodes, w->al);
    tk_walk_map_init(&o.of, w->al);
    tolk_status st = TOLK_OK;
    for (uint32_t i = 1; i < call->n_src && st == TOLK_OK; i++)
        st = own_all(w, call, call->src[i], i, &nodes, &o);
    if (st == TOLK_OK)
        st = own_all(w, call, call->src[0], call->n_src, &nodes, &o);
    tk_walk_map_fini(&o.of);
    tk_vec_fini(&nodes);
    *out = o.shared;
    return st;
}

/* ---- lists ---- */

static tolk_status find_order(work *w, const tolk_uop *sink, bool again, const tolk_uop **list) {
    uint32_t known = tk_walk_map_get(&w->ordered, sink->id);
    if (known) {
        *list = w->g->nodes.at[known - 1];
        return TOLK_OK;
    }
    TK_TRY(w->order ? w->order(w->user, w->g, sink, again, list, w->err)
                    : tk_create_schedule(w->g, sink, list, w->err));
    return tk_walk_map_put(&w->ordered, sink->id, (*list)->id + 1) ? TOLK_OK : no_memory(w);
}

/* The list of a call of calls, in terms of who calls. */
static tolk_status list_of_call(work *w, const tolk_uop *call, const tolk_uop **out) {
    const tolk_uop *body = call->src[0];
    if (tk_uop_is(body, TK_OP_LINEAR))
        return body_of_call(w, body, call, out);
    bool shared;
    TK_TRY(share(w, call, &shared));
    if (shared) {
        TK_TRY(body_of_call(w, body, call, &body));
        return find_order(w, body, false, out);
    }
    TK_TRY(find_order(w, body, true, &body));
    return body_of_call(w, body, call, out);
}

static tolk_status open_list(work *w, const tolk_uop *list) {
    w->steps += LIST_STEPS + w->g->nodes.n / TK_WALK_PAGE;
    if (w->steps > MOST_STEPS)
        return too_many(w);
    return tk_vec_push(&w->frames, ((frame){list, 0})) ? TOLK_OK : no_memory(w);
}

static tolk_status add_calls(work *w) {
    while (w->frames.n) {
        frame *f = &tk_vec_last(&w->frames);
        if (f->next == f->list->n_src) {
            w->frames.n--;
            continue;
        }
        const tolk_uop *list, *call = f->list->src[f->next++];
        if (!tk_uop_is(call, TK_OP_CALL))
            return tk_status_fail(w->err, TOLK_E_VERIFY, TK_NO_NODE,
                                  "schedule: entry %u of a linear is %s, expected a call",
                                  f->next - 1, op_name(call));
        if (tk_check_calls_list(call)) {
            TK_TRY(check_args(w, call));
            TK_TRY(list_of_call(w, call, &list));
            TK_TRY(open_list(w, list));
        } else if (w->calls.n >= TK_MANY) {
            return too_many(w);
        } else if (!tk_vec_push(&w->calls, call)) {
            return no_memory(w);
        }
    }
    return TOLK_OK;
}

static tolk_status open_root(work *w, const tolk_uop *root) {
    const tolk_uop *list;
    if (tk_check_is_states(root)) {
        TK_TRY(find_order(w, root, true, &list));
    } else if (tk_check_calls_list(root)) {
        TK_TRY(check_args(w, root));
        TK_TRY(list_of_call(w, root, &list));
    } else {
        bool is_call = tk_uop_is(root, TK_OP_CALL);
        return tk_status_fail(w->err, TOLK_E_VERIFY, TK_NO_NODE,
                              "schedule: expected a sink of states, or a call of one or of a "
                              "linear, got %s%s",
                              is_call ? "a call of " : "", op_name(is_call ? root->src[0] : root));
    }
    return open_list(w, list);
}

static tolk_status make(work *w, const tolk_uop *root, binds *from, const tolk_uop **list,
                        tk_with_vars_values *values) {
    TK_TRY(free_binds(w, &root, from));
    TK_TRY(open_root(w, root));
    TK_TRY(add_calls(w));
    const tolk_uop *all = tk_uop(w->g, TK_OP_LINEAR, TOLK_VOID, w->calls.at, w->calls.n, NULL);
    if (!all)
        return tk_graph_take_error(w->g, w->err);
    TK_TRY(add_values(w, all, from, values));
    *list = all;
    return TOLK_OK;
}

tolk_status tk_with_vars(tolk_graph *g, const tolk_uop *root, tk_with_vars_order order, void *user,
                         const tolk_uop **list, tk_with_vars_values *values, tk_walk_list *made,
                         tolk_error *err) {
    work w = {.g = g, .al = g->al, .order = order, .user = user, .err = err, .made = made};
    binds from;
    tk_vec_init(&from, w.al);
    tk_vec_init(&w.frames, w.al);
    tk_vec_init(&w.calls, w.al);
    tk_vec_init(&w.stack, w.al);
    tk_vec_init(&w.src, w.al);
    tk_walk_map_init(&w.ordered, w.al);
    tolk_status st = make(&w, root, &from, list, values);
    tk_walk_map_fini(&w.ordered);
    tk_vec_fini(&w.src);
    tk_vec_fini(&w.stack);
    tk_vec_fini(&w.calls);
    tk_vec_fini(&w.frames);
    tk_vec_fini(&from);
    return st;
}
