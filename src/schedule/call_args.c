/* SPDX-License-Identifier: MIT */
#include "schedule/call_args.h"

#include "ir/check.h"
#include "ir/params.h"

const char *tk_call_args_name(const tolk_uop *call) {
    const char *name = tk_uop_str(call, TK_A_CALL_NAME);
    const tolk_uop *body = call->src[0];
    if (!name && tk_uop_is(body, TK_OP_SINK))
        name = tk_uop_str(body, TK_A_SINK_NAME);
    if (!name && tk_uop_is(body, TK_OP_PROGRAM))
        name = tk_uop_str(body, TK_A_PROGRAM_NAME);
    return name ? name : tk_op_get(tk_uop_op(body))->name;
}

static bool is_inside(const tolk_uop *u, void *user) {
    (void)user;
    bool is_kernel =
        tk_uop_is(u, TK_OP_PROGRAM) || (tk_uop_is(u, TK_OP_SINK) && !tk_check_is_states(u));
    return !is_kernel && !tk_uop_is(u, TK_OP_BUFFER) && !tk_uop_is(u, TK_OP_PARAM);
}

tolk_status tk_call_args_walk(const tolk_uop *linear, tk_walk_list *out) {
    return tk_walk_gated(linear, is_inside, NULL, out);
}

static const tolk_uop *no_memory(tolk_graph *g) {
    return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
}

static const tolk_uop *rebuild(tolk_graph *g, const tolk_uop *u, const tk_walk_map *memo,
                               tk_walk_list *src) {
    bool same = true;
    src->n = 0;
    for (uint32_t i = 0; i < u->n_src; i++) {
        const tolk_uop *s = g->nodes.at[tk_walk_map_get(memo, u->src[i]->id) - 1];
        same = same && s == u->src[i];
        if (!tk_vec_push(src, s))
            return no_memory(g);
    }
    return same ? u : tk_uop_with_src(g, u, src->at, src->n);
}

const tolk_uop *tk_call_args_replace(tolk_graph *g, const tolk_uop *linear,
                                     const tolk_uop *const *from, const tolk_uop *const *to,
                                     size_t n) {
    if (tk_graph_failed(g))
        return NULL;
    tk_walk_list nodes, src;
    tk_walk_map memo, with;
    tk_vec_init(&nodes, g->al);
    tk_vec_init(&src, g->al);
    tk_walk_map_init(&memo, g->al);
    tk_walk_map_init(&with, g->al);
    const tolk_uop *last = NULL;
    bool ok = tk_call_args_walk(linear, &nodes) == TOLK_OK;
    for (size_t i = n; ok && i-- > 0;)
        ok = tk_walk_map_put(&with, from[i]->id, to[i]->id + 1);
    for (size_t i = 0; ok && i < nodes.n; i++) {
        const tolk_uop *u = nodes.at[i];
        uint32_t id = tk_walk_map_get(&with, u->id);
        last = id ? g->nodes.at[id - 1] : is_inside(u, NULL) ? rebuild(g, u, &memo, &src) : u;
        ok = last && tk_walk_map_put(&memo, u->id, last->id + 1);
    }
    tk_walk_map_fini(&with);
    tk_walk_map_fini(&memo);
    tk_vec_fini(&src);
    tk_vec_fini(&nodes);
    return ok ? last : no_memory(g);
}

/* A call of a graph of calls. */
static bool is_graph(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CALL) && tk_uop_is(u->src[0], TK_OP_CUSTOM_FUNCTION) &&
           u->src[0]->n_src == 1 && tk_uop_is(u->src[0]->src[0], TK_OP_LINEAR);
}

/* How many calls is an entry of a linear, or a linear? At most TK_MANY + 1. */
static uint32_t calls_in(const tolk_uop *u, const tk_walk_map *count) {
    uint64_t n = tk_uop_is(u, TK_OP_LINEAR) ? 0 : 1;
    if (is_graph(u))
        n += tk_walk_map_get(count, u->src[0]->src[0]->id);
    for (uint32_t i = 0; tk_uop_is(u, TK_OP_LINEAR) && i < u->n_src && n <= TK_MANY; i++)
        n += tk_uop_is(u->src[i], TK_OP_LINEAR) ? 1 + tk_walk_map_get(count, u->src[i]->id)
                                                : tk_walk_map_get(count, u->src[i]->id);
    return n <= TK_MANY ? (uint32_t)n : TK_MANY + 1;
}

tolk_status tk_call_args_check(const tolk_uop *linear, tolk_error *err) {
    tk_walk_list nodes;
    tk_walk_map count;
    tk_vec_init(&nodes, linear->graph->al);
    tk_walk_map_init(&count, linear->graph->al);
    bool ok = tk_call_args_walk(linear, &nodes) == TOLK_OK;
    for (size_t i = 0; ok && i < nodes.n; i++)
        ok = tk_walk_map_put(&count, nodes.at[i]->id, calls_in(nodes.at[i], &count));
    bool many = ok && tk_walk_map_get(&count, linear->id) > TK_MANY;
    tk_walk_map_fini(&count);
    tk_vec_fini(&nodes);
    if (!ok)
        return tk_status_nomem(err);
    return many ? tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                 "the linear makes more than %d calls, those of graphs in it "
                                 "counted each time",
                                 TK_MANY)
                : TOLK_OK;
}

tolk_status tk_call_args_flatten(const tolk_uop *linear, tk_walk_list *out, tolk_error *err) {
    tk_walk_list todo;
    TK_TRY(tk_call_args_check(linear, err));
    tk_vec_init(&todo, linear->graph->al);
    bool ok = tk_vec_push(&todo, linear);
    while (ok && todo.n) {
        const tolk_uop *u = tk_vec_pop(&todo);
        if (is_graph(u))
            u = u->src[0]->src[0];
        if (tk_uop_is(u, TK_OP_LINEAR))
            for (uint32_t i = u->n_src; ok && i-- > 0;)
                ok = tk_vec_push(&todo, u->src[i]);
        else
            ok = tk_vec_push(out, u);
    }
    tk_vec_fini(&todo);
    return ok ? TOLK_OK : tk_status_nomem(err);
}

tolk_status tk_call_args_written(const tolk_uop *call, const tolk_allocator *al,
                                 void (*fn)(void *user, const tolk_uop *arg), void *user,
                                 tolk_error *err) {
    const tolk_uop *body = call->src[0];
    bool is_kernel = tk_uop_is(body, TK_OP_SINK) || tk_uop_is(body, TK_OP_PROGRAM);
    tk_params params;
    if (is_kernel)
        TK_TRY(tk_params_init(&params, tk_uop_is(body, TK_OP_SINK) ? body : body->src[0], al, err));
    for (uint32_t i = 1, place = 0; i < call->n_src; i++) {
        if (tk_check_is_value(call->src[i]))
            continue;
        bool writes = is_kernel ? place < params.n_bufs && tk_params_buf(&params, place)->stored
                      : tk_uop_is(body, TK_OP_COPY) ? place == 0
                                                    : true;
        if (writes)
            fn(user, call->src[i]);
        place++;
    }
    if (is_kernel)
        tk_params_fini(&params);
    return TOLK_OK;
}
