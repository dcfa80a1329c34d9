/* SPDX-License-Identifier: MIT */
#include "realize/batch.h"

#include "base/status.h"
#include "ir/check.h"
#include "schedule/call_args.h"

typedef struct batches {
    tolk_graph *g;
    tolk_error *err;
    uint64_t most;      /* calls of the next graph; 0: no bound */
    const void *place;  /* of what is in calls */
    tk_walk_list calls; /* of the next graph */
    tk_walk_list out;
    tk_walk_list nodes, src;
} batches;

static tolk_status no_memory(const batches *b) {
    return tk_status_nomem(b->err);
}

/* The params that the calls of a list take to b->src, behind what is there. */
static tolk_status add_params(batches *b, const tolk_uop *list) {
    b->nodes.n = 0;
    if (tk_call_args_walk(list, &b->nodes) != TOLK_OK)
        return no_memory(b);
    for (size_t i = 0; i < b->nodes.n; i++) {
        const tolk_uop *u = b->nodes.at[i];
        if (tk_uop_is(u, TK_OP_PARAM) && !tk_check_is_scalar_param(u) && !tk_vec_push(&b->src, u))
            return no_memory(b);
    }
    return TOLK_OK;
}

static tolk_status graph_of(batches *b, const tolk_uop **out) {
    tk_attr name = {.blob = tk_blob_str(b->g, "graph", 5)};
    const tolk_uop *list = tk_uop(b->g, TK_OP_LINEAR, TOLK_VOID, b->calls.at, b->calls.n, NULL);
    const tolk_uop *body =
        list && name.blob ? tk_uop(b->g, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &list, 1, &name) : NULL;
    if (!body)
        return tk_graph_take_error(b->g, b->err);
    b->src.n = 0;
    if (!tk_vec_push(&b->src, body))
        return no_memory(b);
    TK_TRY(add_params(b, list));
    *out = tk_uop(b->g, TK_OP_CALL, TOLK_VOID, b->src.at, b->src.n, NULL);
    return *out ? TOLK_OK : tk_graph_take_error(b->g, b->err);
}

/* One call stays a call: a graph of it would only cost. */
static tolk_status flush(batches *b) {
    const tolk_uop *graph;
    if (b->calls.n > 1) {
        TK_TRY(graph_of(b, &graph));
        if (!tk_vec_push(&b->out, graph))
            return no_memory(b);
        b->most = b->most > UINT64_MAX / 2 ? 0 : 2 * b->most;
    } else if (b->calls.n == 1 && !tk_vec_push(&b->out, b->calls.at[0])) {
        return no_memory(b);
    }
    b->calls.n = 0;
    return TOLK_OK;
}

static tolk_status add(batches *b, const tolk_uop *call, const void *place) {
    if (!place || place != b->place || (b->most && b->calls.n >= b->most))
        TK_TRY(flush(b));
    b->place = place;
    return tk_vec_push(place ? &b->calls : &b->out, call) ? TOLK_OK : no_memory(b);
}

tolk_status tk_batch(tolk_graph *g, const tolk_uop *linear, uint32_t most, tk_batch_place_fn place,
                     void *user, const tolk_uop **out, tolk_error *err) {
    batches b = {.g = g, .err = err, .most = most};
    tk_vec_init(&b.calls, g->al);
    tk_vec_init(&b.out, g->al);
    tk_vec_init(&b.nodes, g->al);
    tk_vec_init(&b.src, g->al);
    tolk_status st = TOLK_OK;
    for (uint32_t i = 0; i < linear->n_src && st == TOLK_OK; i++) {
        const void *at = NULL;
        st = place(user, linear->src[i], &at, err);
        if (st == TOLK_OK)
            st = add(&b, linear->src[i], at);
    }
    if (st == TOLK_OK)
        st = flush(&b);
    const tolk_uop *r = NULL;
    if (st == TOLK_OK && !(r = tk_uop(g, TK_OP_LINEAR, TOLK_VOID, b.out.at, b.out.n, NULL)))
        st = tk_graph_take_error(b.g, b.err);
    tk_vec_fini(&b.src);
    tk_vec_fini(&b.nodes);
    tk_vec_fini(&b.out);
    tk_vec_fini(&b.calls);
    if (st == TOLK_OK)
        *out = r;
    return st;
}
