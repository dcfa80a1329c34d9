/* SPDX-License-Identifier: MIT
 *
 * Graphs of calls: to linears with the values of their variables, and run. The order of a graph's
 * calls is kept (schedule_cache.h): it depends on neither arguments nor values.
 */
#include "base/env.h"
#include "base/log.h"
#include "base/phases.h"
#include "base/status.h"
#include "ir/check.h"
#include "ir/import.h"
#include "ir/key.h"
#include "ir/locate.h"
#include "ir/verify.h"
#include "realize/bindings.h"
#include "realize/captures.h"
#include "realize/realize.h"
#include "realize/resolve.h"
#include "realize/schedule_cache.h"
#include "schedule/call_args.h"
#include "schedule/create_schedule.h"
#include "schedule/with_vars.h"

#include <string.h>

/* ---- orders ---- */

typedef struct ordering {
    tolk_ctx *ctx;
    const tolk_uop *root; /* as it was given, in the graph of all that is made */
    bool is_verified;
} ordering;

static tolk_status verify(ordering *o, tolk_error *err) {
    if (!o->is_verified)
        TK_TRY(tk_verify(o->root, TOLK_STAGE_TENSOR, err));
    o->is_verified = true;
    return TOLK_OK;
}

static void tell(tolk_ctx *ctx, const tolk_uop *list, const char *from, tk_hash128 key,
                 uint64_t start_ns) {
    if (ctx->debug < 1 || (list->n_src < 2 && ctx->debug < 3))
        return;
    tk_log(ctx, TOLK_LOG_INFO, "schedule of %u call%s: %s in %llu us, key %08x", list->n_src,
           list->n_src == 1 ? "" : "s", from,
           (unsigned long long)((tk_phases_now_ns() - start_ns) / 1000), (unsigned)(key.hi >> 32));
}

/* A tk_with_vars_order: from the cache where it is there. */
static tolk_status find_order(void *user, tolk_graph *g, const tolk_uop *sink, bool again,
                              const tolk_uop **list, tolk_error *err) {
    ordering *o = user;
    tk_schedule_cache *c = tk_realize_of(o->ctx)->schedules;
    uint64_t start_ns = tk_phases_now_ns();
    bool kept = again && tk_env_int(o->ctx, "TOLK_SCHEDULE_CACHE", 1, 0, 1) == 1;
    tk_hash128 key = tk_key(sink);
    if (tk_graph_failed(g))
        return tk_status_nomem(err);
    *list = NULL;
    if (kept)
        TK_TRY(tk_schedule_cache_find(c, key, g, sink, list, err));
    bool hit = *list != NULL;
    if (!hit) {
        TK_TRY(verify(o, err));
        TK_TRY(tk_create_schedule(g, sink, list, err));
        if (kept)
            tk_schedule_cache_put(c, key, sink, *list);
    }
    tk_counters_add(o->ctx, hit ? TK_COUNT_SCHEDULE_HITS : TK_COUNT_SCHEDULES, 1);
    tell(o->ctx, *list, hit ? "from the cache" : "made", key, start_ns);
    return TOLK_OK;
}

/* ---- values ---- */

/* What is behind a tolk_vars; its variables and their names follow it. */
typedef struct owned_vars {
    tolk_vars pub;
    tolk_ctx *ctx;
    size_t bytes;
    tolk_var at[];
} owned_vars;

static tolk_status make_vars(tolk_ctx *ctx, const tk_with_vars_values *values, tolk_vars **out,
                             tolk_error *err) {
    size_t bytes = sizeof(owned_vars) + values->n * sizeof(tolk_var);
    for (size_t i = 0; i < values->n; i++)
        bytes += strlen(values->at[i].name) + 1;
    owned_vars *v = tk_alloc(&ctx->al, bytes);
    if (!v)
        return tk_status_nomem(err);
    *v = (owned_vars){{v->at, values->n}, ctx, bytes};
    char *name = (char *)(v->at + values->n);
    for (size_t i = 0; i < values->n; i++) {
        size_t n = strlen(values->at[i].name) + 1;
        v->at[i] = (tolk_var){memcpy(name, values->at[i].name, n), values->at[i].value};
        name += n;
    }
    *out = &v->pub;
    return TOLK_OK;
}

void tolk_vars_destroy(tolk_vars *vars) {
    owned_vars *v = (owned_vars *)vars; /* pub is the first of it */
    if (v)
        tk_alloc_free(&v->ctx->al, v, v->bytes);
}

/* ---- tolk_schedule ---- */

static tolk_status make_list(tolk_ctx *ctx, tolk_graph *g, const tolk_uop *sink,
                             const tolk_uop **list, tk_with_vars_values *values, tk_walk_list *own,
                             tolk_error *err) {
    ordering o = {.ctx = ctx};
    TK_TRY(tk_import(g, sink, &o.root, err));
    tk_locate_copy(sink, o.root);
    /* What has no graph of calls at its root is not looked for in the cache. */
    if (!tk_check_is_states(o.root) &&
        !(tk_check_calls_list(o.root) && tk_check_is_states(o.root->src[0])))
        TK_TRY(verify(&o, err));
    return tk_with_vars(g, o.root, find_order, &o, list, values, own, err);
}

/* g becomes the linear's, also on failure. */
static tolk_status make_linear(tolk_ctx *ctx, tolk_graph *g, const tolk_uop *sink,
                               tk_with_vars_values *values, tolk_linear **linear, tolk_vars **vars,
                               tk_walk_list *own, tolk_error *err) {
    const tolk_uop *list;
    tolk_vars *made = NULL;
    tolk_status st = make_list(ctx, g, sink, &list, values, own, err);
    if (st == TOLK_OK)
        st = make_vars(ctx, values, &made, err);
    if (st != TOLK_OK) {
        tolk_graph_destroy(g);
        return st;
    }
    st = tk_linear_adopt(ctx, g, list, linear, err);
    if (st == TOLK_OK)
        *vars = made;
    else
        tolk_vars_destroy(made);
    return st;
}

/* own: gets the BUFFERs that are memory of this call alone, of the linear's graph; may be NULL. */
static tolk_status schedule(tolk_ctx *ctx, const tolk_uop *sink, tolk_linear **linear,
                            tolk_vars **vars, tk_walk_list *own, tolk_error *err) {
    tk_realize_here(ctx);
    tolk_graph *g;
    if (tk_graph_create(ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    tk_with_vars_values values;
    tk_vec_init(&values, &ctx->al);
    tolk_status st = make_linear(ctx, g, sink, &values, linear, vars, own, err);
    tk_vec_fini(&values);
    return st;
}

tolk_status tolk_schedule(tolk_ctx *ctx, const tolk_uop *sink, tolk_linear **linear,
                          tolk_vars **vars, tolk_error *err) {
    if (!ctx || !sink || !linear || !vars)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_schedule: ctx, sink, linear or vars is NULL");
    return schedule(ctx, sink, linear, vars, NULL, err);
}

/* ---- tolk_realize ---- */

typedef TK_VEC(tolk_var) var_list;

/* Those of the schedule, then those that only the caller gives. */
static tolk_status merge_vars(const tolk_vars *of_binds, const tolk_run_args *args, var_list *all,
                              tolk_error *err) {
    for (size_t i = 0; i < of_binds->n; i++)
        if (!tk_vec_push(all, of_binds->at[i]))
            return tk_status_nomem(err);
    for (size_t i = 0; args && i < args->n_vars; i++) {
        tolk_var x = args->vars[i];
        size_t k = 0;
        if (!x.name)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "tolk_realize: variable %zu has no name", i);
        while (k < of_binds->n && strcmp(of_binds->at[k].name, x.name) != 0)
            k++;
        if (k < of_binds->n && of_binds->at[k].value != x.value)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "tolk_realize: variable \"%.60s\" is bound to %lld, but %lld in "
                                  "the arguments of the run",
                                  x.name, (long long)of_binds->at[k].value, (long long)x.value);
        if (k == of_binds->n && !tk_vec_push(all, x))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

/* The BUFFERs whose states a graph of calls gives. */
static tolk_status add_results(const tolk_uop *sink, tk_walk_list *todo, tk_walk_map *seen,
                               tk_walk_list *held) {
    bool ok = true;
    for (uint32_t i = 0; ok && i < sink->n_src; i++)
        ok = tk_vec_push(todo, sink->src[i]);
    while (ok && todo->n) {
        const tolk_uop *u = tk_vec_pop(todo);
        if (tk_walk_map_get(seen, u->id))
            continue;
        ok = tk_walk_map_put(seen, u->id, 1);
        uint32_t n = tk_uop_is(u, TK_OP_MSTACK) ? u->n_src : u->n_src ? 1 : 0;
        if (tk_uop_is(u, TK_OP_BUFFER))
            ok = ok && tk_vec_push(held, u);
        else
            for (uint32_t i = 0; ok && i < n; i++)
                ok = tk_vec_push(todo, u->src[i]);
    }
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

/* What the caller of a graph can name outlives the run: the buffers that a call has as arguments;
 * without a call the graph's own, but for those with negative slots, which are nobody's, and its
 * results in any case. */
static tolk_status hold(const tolk_uop *sink, tk_walk_list *nodes, tk_walk_map *seen,
                        tk_walk_list *held) {
    if (tk_uop_is(sink, TK_OP_CALL)) {
        for (uint32_t i = 1; i < sink->n_src; i++)
            if (!tk_vec_push(held, sink->src[i]))
                return TOLK_E_NOMEM;
        return TOLK_OK;
    }
    TK_TRY(add_results(sink, nodes, seen, held));
    nodes->n = 0;
    TK_TRY(tk_call_args_walk(sink, nodes));
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        if (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SLOT) >= 0 &&
            !tk_vec_push(held, u))
            return TOLK_E_NOMEM;
    }
    return TOLK_OK;
}

static tolk_status hold_all(const tolk_uop *sink, const tolk_uop *const *more, size_t n,
                            tk_walk_list *held, tolk_error *err) {
    tk_walk_list nodes;
    tk_walk_map seen;
    tk_vec_init(&nodes, held->al);
    tk_walk_map_init(&seen, held->al);
    tolk_status st = hold(sink, &nodes, &seen, held);
    for (size_t i = 0; i < n && st == TOLK_OK; i++)
        st = tk_vec_push(held, more[i]) ? TOLK_OK : TOLK_E_NOMEM;
    tk_walk_map_fini(&seen);
    tk_vec_fini(&nodes);
    return st == TOLK_OK ? st : tk_status_nomem(err);
}

/* Merged variables, held buffers, the run. own: see schedule(). */
static tolk_status run(tolk_bindings *b, tolk_linear *linear, const tolk_vars *vars,
                       const tk_walk_list *held, const tk_walk_list *own,
                       const tolk_realize_opts *opts, const tolk_run_args *args, tolk_error *err) {
    tolk_run_args all = TOLK_RUN_INIT;
    var_list values;
    if (args)
        all = *args;
    tk_vec_init(&values, &b->ctx->al);
    tolk_status st = merge_vars(vars, args, &values, err);
    if (st == TOLK_OK) {
        all.vars = values.at;
        all.n_vars = values.n;
        st = tk_captures_realize(b, linear, held->at, held->n, opts, &all, false, err);
    }
    for (size_t i = 0; i < own->n; i++) /* what is queued keeps their memory */
        tolk_bindings_remove(b, own->at[i]);
    tk_vec_fini(&values);
    return st;
}

tolk_status tolk_realize(tolk_bindings *bindings, const tolk_uop *sink, const tolk_uop *const *held,
                         size_t n_held, const tolk_realize_opts *opts, const tolk_run_args *args,
                         tolk_error *err) {
    static const char call[] = "tolk_realize";
    if (!bindings || !sink || (n_held && !held))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: bindings, sink or held is NULL",
                              call);
    TK_TRY(tk_resolve_check_args(call, args, err));
    tolk_ctx *ctx = bindings->ctx;
    tolk_linear *linear = NULL;
    tolk_vars *vars = NULL;
    tk_walk_list all, own;
    tk_vec_init(&all, &ctx->al);
    tk_vec_init(&own, &ctx->al);
    tolk_status st = hold_all(sink, held, n_held, &all, err);
    if (st == TOLK_OK)
        st = schedule(ctx, sink, &linear, &vars, &own, err);
    if (st == TOLK_OK)
        st = run(bindings, linear, vars, &all, &own, opts, args, err);
    tk_vec_fini(&own);
    tk_vec_fini(&all);
    tolk_vars_destroy(vars);
    tolk_linear_unref(linear);
    return st;
}
