/* SPDX-License-Identifier: MIT
 *
 * pm_compile: a CALL of a SINK becomes a CALL of a PROGRAM. What is compiled twice is found by the
 * binary cache (jit/cache.h), whose key is all that shapes the code; within a linear equal kernels
 * are one node. Kernels are compiled at the same time, each on a graph of its own.
 */
#include "realize/compile_linear.h"

#include "base/deep.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "ir/check.h"
#include "ir/import.h"
#include "ir/params.h"
#include "ir/walk.h"
#include "realize/counters.h"
#include "realize/realize.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { MOST_THREADS = 16, STACK = 1 << 20 };

/* One kernel to be compiled. */
typedef struct job {
    const tolk_uop *sink; /* of the linear */
    const tolk_uop *own;  /* its copy, in g */
    tolk_graph *g;
    size_t call; /* the first one that it is the body of, counted in their order */
    const tolk_uop *node;
    char *bytes; /* of the saved program */
    size_t len;
    tolk_cached cached;
    const tolk_uop *program; /* what to_program made, in g */
    tolk_status st;
    tolk_error err;
} job;

typedef struct compiling {
    tolk_ctx *ctx;
    tolk_device *device;
    const tolk_realize_opts *opts;
    TK_VEC(job) jobs;
    tk_map job_of; /* SINK -> number of its job */
    _Atomic size_t next;
    _Atomic bool failed;
} compiling;

/* ---- what is to be compiled ---- */

static bool is_kernel_call(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CALL) && tk_uop_is(u->src[0], TK_OP_SINK) && !tk_check_calls_list(u);
}

static tolk_status add_job(compiling *c, const tolk_uop *call, size_t number, tolk_error *err) {
    const tolk_uop *sink = call->src[0];
    if (tk_map_find(&c->job_of, (uintptr_t)sink))
        return TOLK_OK;
    job j = {.sink = sink, .call = number, .node = call};
    if (!tk_map_put(&c->job_of, (uintptr_t)sink, c->jobs.n) || !tk_vec_push(&c->jobs, j))
        return tk_status_nomem(err);
    return TOLK_OK;
}

/* In the order of the list: linears in a linear come before it. */
static tolk_status find_jobs(compiling *c, const tk_walk_list *nodes, tolk_error *err) {
    for (size_t k = 0; k < nodes->n; k++) {
        const tolk_uop *l = nodes->at[k];
        for (uint32_t i = 0; tk_uop_is(l, TK_OP_LINEAR) && i < l->n_src; i++)
            if (is_kernel_call(l->src[i]))
                TK_TRY(add_job(c, l->src[i], i, err));
    }
    return TOLK_OK;
}

tolk_status tk_compile_linear_find(const tolk_linear *linear, const tolk_uop **call,
                                   tolk_error *err) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, &linear->ctx->al);
    tolk_status st = tk_walk(linear->root, &nodes) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
    *call = NULL;
    for (size_t k = 0; k < nodes.n && !*call; k++)
        for (uint32_t i = 0; tk_uop_is(nodes.at[k], TK_OP_LINEAR) && i < nodes.at[k]->n_src; i++)
            if (!*call && is_kernel_call(nodes.at[k]->src[i]))
                *call = nodes.at[k]->src[i];
    tk_vec_fini(&nodes);
    return st;
}

/* ---- one kernel ---- */

static tolk_status begin_job(compiling *c, job *j, tolk_error *err) {
    if (tolk_graph_create(c->ctx, &j->g) != TOLK_OK)
        return tk_status_nomem(err);
    return tk_import(j->g, j->sink, &j->own, err);
}

static tolk_status compile(const compiling *c, job *j, tolk_error *err) {
    tolk_program *p;
    tolk_program_info info;
    TK_TRY(tolk_compile(c->device, j->own, c->opts->compile, &p, err));
    (void)tolk_program_get_info(p, &info);
    j->cached = info.cached;
    tolk_status st = tolk_program_save(p, &j->bytes, &j->len, err);
    tolk_program_unref(p);
    return st;
}

static tolk_status replace(const compiling *c, job *j, tolk_error *err) {
    TK_TRY(c->opts->to_program(c->opts->user, c->device, j->own, &j->program, err));
    const tolk_uop *p = j->program;
    if (!p || p->graph != j->g || !tk_uop_is(p, TK_OP_PROGRAM))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "to_program returned %s, expected a program in the graph of the sink",
                              !p                 ? "NULL"
                              : p->graph == j->g ? tk_op_get(tk_uop_op(p))->name
                                                 : "a node of another graph");
    return TOLK_OK;
}

static void run_job(compiling *c, job *j) {
    tolk_error err = TOLK_ERROR_INIT;
    j->st = c->opts->to_program ? replace(c, j, &err) : compile(c, j, &err);
    j->err = err;
    if (j->st != TOLK_OK)
        atomic_store(&c->failed, true);
}

/* Jobs are taken in their order: when one failed, all before it were taken, and their failures
 * count first, so that the error is always the same. */
static void *work(void *arg) {
    compiling *c = arg;
    while (!atomic_load(&c->failed)) {
        size_t i = atomic_fetch_add(&c->next, 1);
        if (i >= c->jobs.n)
            break;
        run_job(c, &c->jobs.at[i]);
    }
    return NULL;
}

static size_t cores(const tolk_ctx *ctx) {
    cpu_set_t set;
    size_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
    if (ctx->threads && ctx->threads < n)
        n = ctx->threads;
    return ctx->synchronous ? 1 : n < MOST_THREADS ? n : MOST_THREADS;
}

/* Compile all. The caller takes part; a program of the user's is not called by two threads. */
static void run_jobs(compiling *c) {
    pthread_t threads[MOST_THREADS];
    size_t n = c->opts->to_program ? 1 : cores(c->ctx), made = 0;
    n = n < c->jobs.n ? n : c->jobs.n;
    while (made + 1 < n && tk_deep_start(STACK, work, c, &threads[made]))
        made++;
    (void)work(c);
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
}

static tolk_status first_failure(const compiling *c, tolk_error *err) {
    for (size_t i = 0; i < c->jobs.n; i++) {
        const job *j = &c->jobs.at[i];
        if (j->st == TOLK_OK)
            continue;
        return tk_status_fail(err, j->st, TK_NO_NODE, "call %zu (kernel %.60s): %.160s", j->call,
                              tolk_kernel_name(j->sink), j->err.msg);
    }
    return TOLK_OK;
}

/* ---- programs as nodes ---- */

/* Constant sizes of a kernel's grid and block; *has: there are specials, and all are constant. */
static tolk_status find_dims(const tolk_uop *sink, int64_t grid[3], int64_t block[3], bool *has,
                             tolk_error *err) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, sink->graph->al);
    tolk_status st = tk_walk(sink, &nodes) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
    bool any = false, constant = true;
    for (size_t k = 0; k < nodes.n; k++) {
        const tolk_uop *u = nodes.at[k];
        int axis = 0;
        if (!tk_uop_is(u, TK_OP_SPECIAL))
            continue;
        any = true;
        constant = constant && tk_uop_is_const(u->src[0]);
        tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &axis);
        if (constant && axis < 3)
            (kind == TK_SPECIAL_LIDX ? block : grid)[axis] = u->src[0]->attr[0].i;
    }
    tk_vec_fini(&nodes);
    *has = any && constant;
    return st;
}

static const tolk_uop *failed(tolk_graph *g, const char *what) {
    return tk_graph_fail(g, TOLK_E_NOMEM, "%s", what);
}

/* The slots of the buffers that a kernel stores to, or loads from; NULL on failure, in g. */
static const tk_blob *slots(tolk_graph *g, const tk_params *params, bool stored) {
    TK_VEC(int64_t) list;
    tk_vec_init(&list, g->al);
    bool ok = true;
    for (size_t i = 0; i < params->list.n && ok; i++) {
        const tk_param *p = &params->list.at[i];
        if (!p->is_scalar && (stored ? p->stored : p->loaded))
            ok = tk_vec_push(&list, p->slot);
    }
    const tk_blob *b = ok ? tk_blob_ints(g, list.at, list.n) : NULL;
    tk_vec_fini(&list);
    return b;
}

static const tolk_uop *program_node(tolk_graph *g, const tolk_uop *sink, const job *j,
                                    const tk_params *params, const int64_t grid[3],
                                    const int64_t block[3], bool has_dims) {
    enum { NAME, TARGET, GLOBAL, LOCAL, OUTS, INS, ATTRS };
    tk_attr a[ATTRS] = {{.i = 0}};
    const char *name = tolk_kernel_name(sink);
    tk_attr bytes = {.blob = tk_blob_str(g, j->bytes, j->len)};
    a[NAME].blob = tk_blob_str(g, name, strlen(name));
    a[OUTS].blob = slots(g, params, true);
    a[INS].blob = slots(g, params, false);
    a[GLOBAL].blob = has_dims ? tk_blob_ints(g, grid, 3) : NULL;
    a[LOCAL].blob = has_dims ? tk_blob_ints(g, block, 3) : NULL;
    if (!bytes.blob || !a[NAME].blob || !a[OUTS].blob || !a[INS].blob ||
        (has_dims && (!a[GLOBAL].blob || !a[LOCAL].blob)))
        return failed(g, "out of memory");
    const tolk_uop *binary = tk_uop(g, TK_OP_BINARY, TOLK_U8, NULL, 0, &bytes);
    if (!binary)
        return NULL;
    const tolk_uop *src[] = {sink, binary};
    return tk_uop(g, TK_OP_PROGRAM, TOLK_VOID, src, 2, a);
}

static tolk_status make_node(tolk_graph *g, const tolk_uop *sink, const job *j,
                             const tolk_uop **out, tolk_error *err) {
    int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
    bool has_dims;
    tk_params params;
    if (j->program)
        return tk_import(g, j->program, out, err);
    TK_TRY(find_dims(sink, grid, block, &has_dims, err));
    TK_TRY(tk_params_init(&params, sink, g->al, err));
    *out = program_node(g, sink, j, &params, grid, block, has_dims);
    tk_params_fini(&params);
    return *out ? TOLK_OK : tolk_graph_error(g, err);
}

/* Copy the linear into g with programs in the place of kernels. */
static tolk_status rebuild(const compiling *c, tolk_graph *g, const tk_walk_list *nodes,
                           tk_walk_map *made, const tolk_uop **out, tolk_error *err) {
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    tolk_status st = TOLK_OK;
    for (size_t k = 0; k < nodes->n && st == TOLK_OK; k++) {
        const tolk_uop *u = nodes->at[k], *copy;
        if (!tk_vec_resize(&src, u->n_src)) {
            st = tk_status_nomem(err);
            break;
        }
        for (uint32_t i = 0; i < u->n_src; i++)
            src.at[i] = g->nodes.at[tk_walk_map_get(made, u->src[i]->id) - 1];
        const uint64_t *j =
            is_kernel_call(u) ? tk_map_find(&c->job_of, (uintptr_t)u->src[0]) : NULL;
        if (j)
            st = make_node(g, src.at[0], &c->jobs.at[*j], &src.at[0], err);
        if (st != TOLK_OK)
            break;
        copy = tk_uop_import(g, u, src.at);
        if (!copy)
            st = tolk_graph_error(g, err);
        else if (!tk_walk_map_put(made, u->id, copy->id + 1))
            st = tk_status_nomem(err);
        else
            *out = copy; /* the root is the last one */
    }
    tk_vec_fini(&src);
    return st;
}

static tolk_status finish(const compiling *c, const tk_walk_list *nodes, tolk_linear **out,
                          tolk_error *err) {
    tolk_graph *g;
    tk_walk_map made;
    const tolk_uop *root = NULL;
    if (tolk_graph_create(c->ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    tk_walk_map_init(&made, g->al);
    tolk_status st = rebuild(c, g, nodes, &made, &root, err);
    tk_walk_map_fini(&made);
    if (st == TOLK_OK)
        return tk_linear_adopt(c->ctx, g, root, out, err);
    tolk_graph_destroy(g);
    return st;
}

static void count(const compiling *c) {
    uint64_t hits = 0;
    for (size_t i = 0; i < c->jobs.n; i++)
        hits += c->jobs.at[i].cached != TOLK_CACHED_NONE;
    tk_counters_add(c->ctx, TK_COUNT_COMPILE_HITS, hits);
    tk_counters_add(c->ctx, TK_COUNT_COMPILES, c->jobs.n - hits);
}

static tolk_status compile_linear(compiling *c, tolk_linear *linear, const tk_walk_list *nodes,
                                  tolk_linear **out, tolk_error *err) {
    TK_TRY(find_jobs(c, nodes, err));
    if (!c->jobs.n) {
        *out = tolk_linear_ref(linear);
        return TOLK_OK;
    }
    for (size_t i = 0; i < c->jobs.n; i++)
        TK_TRY(begin_job(c, &c->jobs.at[i], err));
    run_jobs(c);
    TK_TRY(first_failure(c, err));
    TK_TRY(finish(c, nodes, out, err));
    count(c);
    return TOLK_OK;
}

/* ---- public ---- */

tolk_status tk_compile_linear_opts(const tolk_realize_opts **opts, tolk_error *err) {
    static const tolk_realize_opts defaults = TOLK_REALIZE_OPTS_INIT;
    if (!*opts)
        *opts = &defaults;
    if ((*opts)->size != sizeof **opts)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_realize_opts.size is %u, this library knows %zu (use "
                              "TOLK_REALIZE_OPTS_INIT)",
                              (*opts)->size, sizeof **opts);
    return TOLK_OK;
}

const tolk_uop *tk_compile_linear_binary(const tolk_uop *program) {
    const tolk_uop *last = program->src[program->n_src - 1];
    return tk_uop_is(last, TK_OP_BINARY) ? last : NULL;
}

tolk_status tolk_compile_linear(tolk_device *device, tolk_linear *linear,
                                const tolk_realize_opts *opts, tolk_linear **out, tolk_error *err) {
    if (!device || !linear || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_compile_linear: device, linear or out is NULL");
    TK_TRY(tk_compile_linear_opts(&opts, err));
    TK_TRY(tk_linear_check(linear, device->ctx, err));
    tk_realize_here(device->ctx);
    const tolk_allocator *al = &device->ctx->al;
    compiling c = {.ctx = device->ctx, .device = device, .opts = opts};
    tk_walk_list nodes;
    tk_vec_init(&nodes, al);
    tk_vec_init(&c.jobs, al);
    tk_map_init(&c.job_of, al);
    tolk_status st = tk_walk(linear->root, &nodes) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
    if (st == TOLK_OK)
        st = compile_linear(&c, linear, &nodes, out, err);
    for (size_t i = 0; i < c.jobs.n; i++) {
        tolk_graph_destroy(c.jobs.at[i].g);
        tolk_free_text(c.ctx, c.jobs.at[i].bytes);
    }
    tk_map_fini(&c.job_of);
    tk_vec_fini(&c.jobs);
    tk_vec_fini(&nodes);
    return st;
}
