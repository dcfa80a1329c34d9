/* SPDX-License-Identifier: MIT */
#include "realize/graph_call.h"

#include "base/map.h"
#include "base/status.h"
#include "base/vec.h"
#include "realize/counters.h"
#include "realize/realize.h"

struct tk_graph_call {
    tolk_device *device;
    tk_graph_exec *exec;
    TK_VEC(tolk_kernel *) kernels; /* of its calls, NULL for copies; the exec has them */
    TK_VEC(tolk_buffer *) args;    /* by number; those of the calls */
    TK_VEC(int64_t) vars;
    uint64_t n_copies;
};

void tk_graph_call_destroy(tk_graph_call *g) {
    if (!g)
        return;
    tk_graph_exec_destroy(g->exec);
    tk_vec_fini(&g->kernels);
    tk_vec_fini(&g->args);
    tk_vec_fini(&g->vars);
    tk_alloc_free(&g->device->ctx->al, g, sizeof *g);
}

tolk_device *tk_graph_call_device(const tk_graph_call *g) {
    return g->device;
}

int64_t *tk_graph_call_vars(tk_graph_call *g) {
    return g->vars.at;
}

/* Views are bound when buffers are found, and a graph in a graph is the calls behind it. */
static bool is_node(const tk_call *c) {
    return c->kind == TK_CALL_LAUNCH || c->kind == TK_CALL_COPY;
}

/* The device whose graph the calls are; NULL: they are none. */
static tolk_device *find_device(const tk_call *calls, size_t n) {
    tolk_device *device = NULL;
    for (size_t i = 0; i < n; i++) {
        const tk_call *c = &calls[i];
        if (is_node(c) && (c->is_multi || c->n_shards != 1))
            return NULL;
        if (c->kind != TK_CALL_LAUNCH)
            continue;
        if (device && device != c->shards->kernel->device)
            return NULL;
        device = c->shards->kernel->device;
    }
    for (size_t i = 0; i < n; i++) {
        const tk_call *c = &calls[i];
        if (c->kind != TK_CALL_COPY)
            continue;
        device = device ? device : tk_buffer_device(c->shards->bufs[0]);
        for (size_t b = 0; b < 2; b++)
            if (tk_buffer_device(c->shards->bufs[b])->backend->memory != device->backend->memory)
                return NULL;
    }
    return device && device->backend->graph && device->backend->memory->transfer ? device : NULL;
}

/* Is it a graph of the same kernels? */
static bool is_same(const tk_graph_call *g, const tolk_device *device, const tk_call *calls,
                    size_t n) {
    size_t at = 0;
    if (g->device != device)
        return false;
    for (size_t i = 0; i < n; i++)
        if (is_node(&calls[i]) &&
            (at == g->kernels.n ||
             g->kernels.at[at++] !=
                 (calls[i].kind == TK_CALL_LAUNCH ? calls[i].shards->kernel : NULL)))
            return false;
    return at == g->kernels.n;
}

/* ---- making one ---- */

/* Lists that a graph is made from. Places in numbers, vars and fixed, and not pointers, until all
 * are there. */
typedef struct making {
    tk_map number; /* of arguments, by the address of their node, which is the linear's */
    uint64_t n_args;
    TK_VEC(tk_graph_exec_call) calls;
    TK_VEC(uint32_t) args, vars;
    TK_VEC(int64_t) fixed;
} making;

static bool add_arg(making *m, const tolk_uop *node) {
    const uint64_t *known = tk_map_find(&m->number, (uintptr_t)node);
    uint64_t number = known ? *known : m->n_args;
    if (!known && !tk_map_put(&m->number, (uintptr_t)node, m->n_args++))
        return false;
    return tk_vec_push(&m->args, (uint32_t)number);
}

/* Behind a slice a node may be another buffer than before it: all get new numbers. */
static void forget_args(making *m) {
    const tolk_allocator *al = m->number.al;
    tk_map_fini(&m->number);
    tk_map_init(&m->number, al);
}

static bool add_call(making *m, tk_graph_call *g, const tk_call *c) {
    bool launch = c->kind == TK_CALL_LAUNCH;
    tolk_kernel *k = launch ? c->shards->kernel : NULL;
    for (size_t b = 0; b < (launch ? c->n_bufs : 2); b++)
        if (!add_arg(m, c->args[launch ? c->arg_of[b] : b]))
            return false;
    for (size_t v = 0; launch && v < c->n_vals; v++) {
        bool bound = c->vals[v].from == TK_CALL_BOUND;
        uint32_t var = bound ? TK_GRAPH_EXEC_FIXED : (uint32_t)c->vals[v].number;
        if (!tk_vec_push(&m->vars, var) ||
            !tk_vec_push(&m->fixed, bound ? c->vals[v].number : (int64_t)0))
            return false;
    }
    g->n_copies += !launch;
    return tk_vec_push(&m->calls, (tk_graph_exec_call){.kernel = k}) && tk_vec_push(&g->kernels, k);
}

static tolk_status make_in(making *m, tk_graph_call *g, const tk_call *calls, size_t n,
                           size_t n_vars, tolk_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (calls[i].kind == TK_CALL_SLICE)
            forget_args(m);
        else if (is_node(&calls[i]) && !add_call(m, g, &calls[i]))
            return tk_status_nomem(err);
    }
    if (!tk_vec_resize(&g->args, m->n_args) || !tk_vec_resize(&g->vars, n_vars))
        return tk_status_nomem(err);
    size_t arg = 0, val = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        const tk_call *c = &calls[i];
        if (!is_node(c))
            continue;
        tk_graph_exec_call *x = &m->calls.at[at++];
        x->args = m->args.at ? m->args.at + arg : NULL;
        arg += x->kernel ? c->n_bufs : 2;
        if (x->kernel && c->n_vals) {
            x->vars = m->vars.at + val;
            x->fixed = m->fixed.at + val;
            val += c->n_vals;
        }
    }
    return tk_graph_exec_create(g->device, m->calls.at, at, m->n_args, n_vars, &g->exec, err);
}

static tolk_status make(tolk_device *device, const tk_call *calls, size_t n, size_t n_vars,
                        tk_graph_call **out, tolk_error *err) {
    const tolk_allocator *al = &device->ctx->al;
    tk_graph_call *g = tk_alloc_zero(al, sizeof *g);
    if (!g)
        return tk_status_nomem(err);
    g->device = device;
    tk_vec_init(&g->kernels, al);
    tk_vec_init(&g->args, al);
    tk_vec_init(&g->vars, al);
    making m = {.n_args = 0};
    tk_map_init(&m.number, al);
    tk_vec_init(&m.calls, al);
    tk_vec_init(&m.args, al);
    tk_vec_init(&m.vars, al);
    tk_vec_init(&m.fixed, al);
    tolk_status st = make_in(&m, g, calls, n, n_vars, err);
    tk_map_fini(&m.number);
    tk_vec_fini(&m.calls);
    tk_vec_fini(&m.args);
    tk_vec_fini(&m.vars);
    tk_vec_fini(&m.fixed);
    if (st != TOLK_OK)
        tk_graph_call_destroy(g);
    else
        *out = g;
    return st;
}

/* Arguments have their numbers in the order in which they are used first. */
static void take_args(tk_graph_call *g, const tk_call *calls, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const tk_call *c = &calls[i];
        size_t n_bufs = c->kind == TK_CALL_LAUNCH ? c->n_bufs : 2;
        for (size_t b = 0; is_node(c) && b < n_bufs; b++) {
            uint32_t number = tk_graph_exec_arg(g->exec, at, (uint32_t)b);
            g->args.at[number] = c->shards->bufs[b];
        }
        at += is_node(c);
    }
}

tolk_status tk_graph_call_bind(tk_graph_call **g, const tk_call *calls, size_t n, size_t n_vars,
                               tolk_error *err) {
    tolk_device *device = find_device(calls, n);
    if (*g && (!device || !is_same(*g, device, calls, n))) {
        tk_graph_call_destroy(*g);
        *g = NULL;
    }
    if (device && !*g)
        TK_TRY(make(device, calls, n, n_vars, g, err));
    if (*g)
        take_args(*g, calls, n);
    return TOLK_OK;
}

/* ---- running ---- */

tolk_status tk_graph_call_run(tk_graph_call *g, bool awaited, tolk_error *err) {
    tolk_ctx *ctx = g->device->ctx;
    uint64_t records = tk_graph_exec_records(g->exec);
    tolk_status st = tk_graph_exec_run(g->exec, g->args.at, g->vars.at, awaited, err);
    tk_counters_add(ctx, TK_COUNT_GRAPH_RECORDS, tk_graph_exec_records(g->exec) - records);
    if (st != TOLK_OK)
        return st;
    tk_counters_add(ctx, TK_COUNT_GRAPH_LAUNCHES, 1);
    tk_counters_add(ctx, TK_COUNT_LAUNCHES, g->kernels.n - g->n_copies);
    tk_counters_add(ctx, TK_COUNT_COPIES, g->n_copies);
    return TOLK_OK;
}
