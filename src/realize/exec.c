/* SPDX-License-Identifier: MIT
 *
 * Execs: the calls of a linear with their kernels loaded, their variables numbered and their
 * buffers found. A run looks at what may have changed (the bindings' generation, the inputs, the
 * values of variables) and does the calls; only where something changed are buffers looked for.
 */
#include "realize/exec.h"

#include "base/log.h"
#include "base/phases.h"
#include "base/status.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/params.h"
#include "realize/call.h"
#include "realize/compile_linear.h"
#include "realize/copy.h"
#include "realize/counters.h"
#include "realize/graph_call.h"
#include "realize/realize.h"
#include "realize/resolve.h"
#include "schedule/call_args.h"

#include <stdio.h>
#include <string.h>

/* A program on a device. */
typedef struct loaded {
    const tolk_uop *program; /* of the linear */
    tolk_device *device;
    tolk_kernel *kernel; /* referenced */
} loaded;

/* A variable of the kernels. */
typedef struct variable {
    const char *name; /* of a kernel's program */
    const char *kernel;
    tolk_dtype dtype;
    bool is_position; /* _device_num: needed where a call is on one device */
    bool is_set;      /* value is one that all kernels take */
    size_t at;        /* where it was among the arguments of the last run */
    int64_t value;
} variable;

/* A variable that BINDs of a call give a value. */
typedef struct constant {
    const char *name; /* of the linear */
    int64_t value;
    const tk_call *call;
} constant;

struct tolk_exec {
    tolk_exec *next, **link; /* among those of the bindings */
    tolk_bindings *bindings;
    tolk_linear *linear; /* compiled; referenced */
    bool had_kernels;    /* as it was given */
    bool busy;
    TK_VEC(loaded) loaded;
    TK_VEC(tk_call) calls; /* those of a graph behind it */
    TK_VEC(variable) vars;
    TK_VEC(constant) constants;
    /* After it was resolved. */
    bool is_resolved;
    uint64_t generation;
    TK_VEC(const tolk_uop *) inputs; /* the bindings' nodes */
    TK_VEC(tolk_device *) devices;   /* that calls are on, each once */
    size_t last;                     /* behind the last call that is on one */
    bool needs_position, has_shards; /* a call on one device, on several, asks for _device_num */
    bool was_run, has_reserved;
};

/* ---- kernels ---- */

static tolk_status load_program(const tolk_uop *program, tolk_device *device, tolk_kernel **out,
                                tolk_error *err) {
    const tolk_uop *binary = tk_compile_linear_binary(program);
    if (!binary)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "its program has no code: expected a binary as last operand");
    const tk_blob *bytes = tk_uop_attr(binary, TK_A_BINARY_BYTES).blob;
    tolk_program *p;
    TK_TRY(tolk_program_load(device, bytes->str, bytes->n, &p, err));
    tolk_status st = tk_kernel_create(device, p, program->src[0], out, err);
    tolk_program_unref(p);
    return st;
}

/* The kernel, from what was loaded already; *out is the exec's. */
static tolk_status find_kernel(tolk_exec *e, const tolk_uop *program, tolk_device *device,
                               tolk_kernel **out, tolk_error *err) {
    for (size_t i = 0; i < e->loaded.n; i++)
        if (e->loaded.at[i].program == program && e->loaded.at[i].device == device) {
            *out = e->loaded.at[i].kernel;
            return TOLK_OK;
        }
    tolk_kernel *k;
    TK_TRY(load_program(program, device, &k, err));
    if (!tk_vec_push(&e->loaded, ((loaded){program, device, k}))) {
        tolk_kernel_unref(k);
        return tk_status_nomem(err);
    }
    *out = k;
    return TOLK_OK;
}

static tolk_status load(void *user, const tolk_uop *program, tolk_device *device, tolk_kernel **out,
                        tolk_error *err) {
    TK_TRY(find_kernel(user, program, device, out, err));
    (void)tolk_kernel_ref(*out);
    return TOLK_OK;
}

/* ---- variables ---- */

static bool is_device_num(const char *name) {
    return strcmp(name, TK_CALL_DEVICE_NUM) == 0;
}

/* The BIND of a call for a variable; NULL: none. Two that differ are an error. */
static tolk_status find_bind(const tk_call *c, const char *name, const tolk_uop **out,
                             tolk_error *err) {
    *out = NULL;
    for (uint32_t i = 1; i < c->node->n_src; i++) {
        const tolk_uop *bind = c->node->src[i];
        const char *var =
            tk_uop_is(bind, TK_OP_BIND) ? tk_uop_str(bind->src[0], TK_A_PARAM_NAME) : NULL;
        if (!var || strcmp(var, name) != 0)
            continue;
        if (!tk_uop_is_const(bind->src[1]))
            return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                  "%s: variable \"%.60s\" is bound to %s, expected a constant",
                                  c->what, name, tk_op_get(tk_uop_op(bind->src[1]))->name);
        if (*out && (*out)->src[1]->attr[0].i != bind->src[1]->attr[0].i)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "%s: variable \"%.60s\" is bound to %lld and to %lld", c->what,
                                  name, (long long)(*out)->src[1]->attr[0].i,
                                  (long long)bind->src[1]->attr[0].i);
        *out = bind;
    }
    return TOLK_OK;
}

/* May a scalar param of a kernel have this value? */
static tolk_status check_value(const tk_call *c, const tk_meta_param *m, int64_t value,
                               tolk_error *err) {
    const char *name = c->model->program->meta.strings + m->name;
    tolk_dtype dtype = (tolk_dtype)m->dtype;
    if (tolk_dtype_is_float(dtype))
        return TOLK_OK;
    if (dtype != TOLK_BOOL && (int64_t)tk_dtype_canon(dtype, (uint64_t)value) != value)
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "%s: variable \"%.60s\" is %lld, which does not fit %s", c->what,
                              name, (long long)value, tolk_dtype_name(dtype));
    if (!tk_params_within(dtype, m->min, m->max, value))
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "%s: variable \"%.60s\" is %lld, expected %lld to %lld", c->what,
                              name, (long long)value, (long long)m->min, (long long)m->max);
    return TOLK_OK;
}

static tolk_status add_variable(tolk_exec *e, const tk_call *c, const char *name, tolk_dtype dtype,
                                int64_t *number, tolk_error *err) {
    for (size_t i = 0; i < e->vars.n; i++) {
        const variable *v = &e->vars.at[i];
        if (strcmp(v->name, name) != 0)
            continue;
        if (v->dtype != dtype)
            return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                                  "%s: variable \"%.60s\" is %s, but %s in kernel %.60s", c->what,
                                  name, tolk_dtype_name(dtype), tolk_dtype_name(v->dtype),
                                  v->kernel);
        *number = (int64_t)i;
        return TOLK_OK;
    }
    *number = (int64_t)e->vars.n;
    variable v = {
        .name = name, .kernel = c->model->name, .dtype = dtype, .is_position = is_device_num(name)};
    return tk_vec_push(&e->vars, v) ? TOLK_OK : tk_status_nomem(err);
}

static tolk_status name_scalar(tolk_exec *e, tk_call *c, const tk_meta_param *m, tk_call_value *out,
                               tolk_error *err) {
    const char *name = m->name ? c->model->program->meta.strings + m->name : NULL;
    const tolk_uop *bind;
    if (!name)
        return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                              "%s: the scalar in slot %lld has no name, so nothing can give it a "
                              "value",
                              c->what, (long long)m->slot);
    TK_TRY(find_bind(c, name, &bind, err));
    if (!bind) {
        out->from = is_device_num(name) ? TK_CALL_POSITION : TK_CALL_VARIABLE;
        return add_variable(e, c, name, (tolk_dtype)m->dtype, &out->number, err);
    }
    const tolk_uop *value = bind->src[1];
    if (value->dtype != m->dtype)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "%s: variable \"%.60s\" is bound to a value of %s, expected %s",
                              c->what, name, tolk_dtype_name(value->dtype),
                              tolk_dtype_name((tolk_dtype)m->dtype));
    *out = (tk_call_value){TK_CALL_BOUND, value->attr[0].i};
    return check_value(c, m, value->attr[0].i, err);
}

static tolk_status name_scalars(tolk_exec *e, tk_call *c, tolk_error *err) {
    const tk_meta_view *m = &c->model->program->meta;
    for (size_t i = 0, v = 0; v < c->n_vals; i++)
        if (m->params[i].is_scalar)
            TK_TRY(name_scalar(e, c, &m->params[i], &c->vals[v++], err));
    return TOLK_OK;
}

/* What BINDs say, also of variables that the kernel does not have: a run may not say otherwise. */
static tolk_status add_constants(tolk_exec *e, const tk_call *c, tolk_error *err) {
    for (uint32_t i = 1; i < c->node->n_src; i++) {
        const tolk_uop *bind = c->node->src[i];
        const char *name =
            tk_uop_is(bind, TK_OP_BIND) ? tk_uop_str(bind->src[0], TK_A_PARAM_NAME) : NULL;
        if (name && tk_uop_is_const(bind->src[1]) &&
            !tk_vec_push(&e->constants, ((constant){name, bind->src[1]->attr[0].i, c})))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

/* ---- making ---- */

/* A linear whose calls are being read. */
typedef struct reading {
    const tolk_uop *linear;
    uint32_t next;
    int64_t number; /* of the graph it belongs to; -1: none */
    size_t graph;   /* its place in calls */
} reading;

/* Which nodes that arguments may be depend on an input? */
static tolk_status find_inputs(const tolk_uop *linear, tk_walk_map *on_input,
                               const tolk_allocator *al, tolk_error *err) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, al);
    bool ok = tk_call_args_walk(linear, &nodes) == TOLK_OK;
    for (size_t i = 0; ok && i < nodes.n; i++) {
        const tolk_uop *u = nodes.at[i];
        bool is = tk_uop_is(u, TK_OP_PARAM) && !tk_check_is_scalar_param(u);
        for (uint32_t k = 0; k < u->n_src && !is; k++)
            is = tk_walk_map_get(on_input, u->src[k]->id) != 0;
        ok = !is || tk_walk_map_put(on_input, u->id, 1);
    }
    tk_vec_fini(&nodes);
    return ok ? TOLK_OK : tk_status_nomem(err);
}

/* All calls; what a graph is of comes behind it. */
static tolk_status read_calls_of(tolk_exec *e, const tk_walk_map *on_input, tolk_error *err) {
    const tolk_allocator *al = &e->bindings->ctx->al;
    TK_VEC(reading) stack;
    tk_vec_init(&stack, al);
    tolk_status st = tk_vec_push(&stack, ((reading){e->linear->root, 0, -1, 0}))
                         ? TOLK_OK
                         : tk_status_nomem(err);
    while (st == TOLK_OK && stack.n) {
        reading *r = &tk_vec_last(&stack);
        if (r->next == r->linear->n_src) {
            if (r->number >= 0)
                e->calls.at[r->graph].n_inner = e->calls.n - r->graph - 1;
            stack.n--;
            continue;
        }
        uint32_t i = r->next++;
        if (!tk_vec_push(&e->calls, (tk_call){0})) {
            st = tk_status_nomem(err);
            break;
        }
        tk_call *c = &tk_vec_last(&e->calls);
        st = tk_call_init(c, r->linear->src[i], i, r->number, on_input, al, err);
        if (st == TOLK_OK && c->kind == TK_CALL_GRAPH &&
            !tk_vec_push(&stack, ((reading){c->body->src[0], 0, i, e->calls.n - 1})))
            st = tk_status_nomem(err);
    }
    tk_vec_fini(&stack);
    return st;
}

static tolk_status read_calls(tolk_exec *e, tolk_error *err) {
    const tolk_allocator *al = &e->bindings->ctx->al;
    tk_walk_map on_input;
    TK_TRY(tk_call_args_check(e->linear->root, err));
    tk_walk_map_init(&on_input, al);
    tolk_status st = find_inputs(e->linear->root, &on_input, al, err);
    if (st == TOLK_OK)
        st = read_calls_of(e, &on_input, err);
    tk_walk_map_fini(&on_input);
    return st;
}

static tolk_status match_calls(tolk_exec *e, tolk_error *err) {
    for (size_t i = 0; i < e->calls.n; i++) {
        tk_call *c = &e->calls.at[i];
        tolk_error why = TOLK_ERROR_INIT;
        tolk_kernel *k;
        TK_TRY(add_constants(e, c, err));
        if (c->kind != TK_CALL_LAUNCH)
            continue;
        tolk_status st = find_kernel(e, c->body, e->bindings->device, &k, &why);
        if (st != TOLK_OK)
            return tk_call_failed(c, st, &why, err);
        TK_TRY(tk_call_match(c, k, &e->bindings->ctx->al, err));
        TK_TRY(name_scalars(e, c, err));
    }
    return TOLK_OK;
}

static void forget(tolk_exec *e) {
    for (size_t i = 0; i < e->calls.n; i++)
        tk_call_forget(&e->calls.at[i], &e->bindings->ctx->al);
    e->is_resolved = false;
}

static void free_exec(tolk_exec *e) {
    const tolk_allocator *al = &e->bindings->ctx->al;
    if (e->link) {
        *e->link = e->next;
        if (e->next)
            e->next->link = e->link;
    }
    for (size_t i = 0; i < e->calls.n; i++)
        tk_call_fini(&e->calls.at[i], al);
    for (size_t i = 0; i < e->loaded.n; i++)
        tolk_kernel_unref(e->loaded.at[i].kernel);
    tk_vec_fini(&e->calls);
    tk_vec_fini(&e->loaded);
    tk_vec_fini(&e->vars);
    tk_vec_fini(&e->constants);
    tk_vec_fini(&e->inputs);
    tk_vec_fini(&e->devices);
    tolk_linear_unref(e->linear);
    tk_alloc_free(al, e, sizeof *e);
}

static tolk_status fill(tolk_exec *e, tolk_linear *linear, const tolk_realize_opts *opts,
                        tolk_error *err) {
    const tolk_uop *kernel;
    TK_TRY(tk_compile_linear_find(linear, &kernel, err));
    e->had_kernels = kernel != NULL;
    if (kernel)
        TK_TRY(tolk_compile_linear(e->bindings->device, linear, opts, &e->linear, err));
    else
        e->linear = tolk_linear_ref(linear);
    TK_TRY(read_calls(e, err));
    return match_calls(e, err);
}

static bool is_early(const tolk_exec *e) {
    for (size_t i = 0; i < e->calls.n; i++)
        if (e->calls.at[i].reaches_input || e->calls.at[i].kind == TK_CALL_SLICE)
            return false;
    return true;
}

static tolk_status resolve(tolk_exec *e, const tolk_run_args *args, tolk_error *err);

tolk_status tolk_exec_create(tolk_bindings *bindings, tolk_linear *linear,
                             const tolk_realize_opts *opts, tolk_exec **out, tolk_error *err) {
    if (!bindings || !linear || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_exec_create: bindings, linear or out is NULL");
    TK_TRY(tk_compile_linear_opts(&opts, err));
    TK_TRY(tk_linear_check(linear, bindings->ctx, err));
    tk_realize_here(bindings->ctx);
    const tolk_allocator *al = &bindings->ctx->al;
    tolk_exec *e = tk_alloc_zero(al, sizeof *e);
    if (!e)
        return tk_status_nomem(err);
    e->bindings = bindings;
    tk_vec_init(&e->loaded, al);
    tk_vec_init(&e->calls, al);
    tk_vec_init(&e->vars, al);
    tk_vec_init(&e->constants, al);
    tk_vec_init(&e->inputs, al);
    tk_vec_init(&e->devices, al);
    tolk_status st = fill(e, linear, opts, err);
    /* What needs no run to be known is known now. */
    if (st == TOLK_OK && is_early(e))
        st = resolve(e, NULL, err);
    if (st != TOLK_OK) {
        free_exec(e);
        return st;
    }
    e->link = &bindings->execs;
    e->next = bindings->execs;
    if (e->next)
        e->next->link = &e->next;
    bindings->execs = e;
    *out = e;
    return TOLK_OK;
}

void tolk_exec_destroy(tolk_exec *exec) {
    if (exec)
        free_exec(exec);
}

void tk_exec_forget(tolk_bindings *b) {
    for (tolk_exec *e = b->execs; e; e = e->next)
        if (!e->busy && e->is_resolved) /* else it sees that the generation is another one */
            forget(e);
}

/* ---- finding buffers ---- */

static tolk_status add_device(tolk_exec *e, tolk_device *d, tolk_error *err) {
    for (size_t i = 0; i < e->devices.n; i++)
        if (e->devices.at[i] == d)
            return TOLK_OK;
    return tk_vec_push(&e->devices, d) ? TOLK_OK : tk_status_nomem(err);
}

static tolk_device *device_of(const tk_call *c, size_t j) {
    const tk_call_shard *s = &c->shards[j];
    return c->kind == TK_CALL_LAUNCH ? s->kernel->device : tk_buffer_device(s->bufs[0]);
}

static tolk_status note_call(tolk_exec *e, const tk_call *c, tolk_error *err) {
    for (size_t j = 0; j < c->n_shards; j++)
        TK_TRY(add_device(e, device_of(c, j), err));
    if (c->n_shards)
        e->last = (size_t)(c - e->calls.at) + 1;
    if (c->kind != TK_CALL_LAUNCH)
        return TOLK_OK;
    const tk_meta_param *m = c->model->program->meta.params;
    for (size_t v = 0; v < c->n_vals; v++, m++) {
        while (!m->is_scalar)
            m++;
        if (c->vals[v].from != TK_CALL_POSITION)
            continue;
        *(c->is_multi ? &e->has_shards : &e->needs_position) = true;
        for (size_t j = 0; c->is_multi && j < c->n_shards; j++)
            TK_TRY(check_value(c, m, (int64_t)j, err));
    }
    return TOLK_OK;
}

/* Graphs of calls whose buffers were found. Those in a graph are a part of it. */
static tolk_status bind_graphs(tolk_exec *e, tolk_error *err) {
    for (size_t i = 0; i < e->calls.n; i++) {
        tk_call *c = &e->calls.at[i];
        if (c->kind != TK_CALL_GRAPH)
            continue;
        TK_TRY(tk_graph_call_bind(&c->graph, c + 1, c->n_inner, e->vars.n, err));
        i += c->graph ? c->n_inner : 0;
    }
    return TOLK_OK;
}

static tolk_status resolve_all(tolk_exec *e, const tolk_run_args *args, tk_resolve_memo *memo,
                               tolk_error *err) {
    tolk_bindings *b = e->bindings;
    size_t n = args ? args->n_inputs : 0;
    const tolk_uop *const *inputs = args ? args->inputs : NULL;
    e->devices.n = e->last = 0;
    e->needs_position = e->has_shards = e->was_run = e->has_reserved = false;
    if (!tk_vec_resize(&e->inputs, n))
        return tk_status_nomem(err);
    for (size_t i = 0; i < n; i++) {
        e->inputs.at[i] = NULL;
        if (inputs[i])
            TK_TRY(tk_bindings_node(b, inputs[i], &e->inputs.at[i], err));
    }
    for (size_t i = 0; i < e->calls.n; i++) {
        TK_TRY(tk_call_resolve(&e->calls.at[i], memo, inputs, n, load, e, err));
        TK_TRY(note_call(e, &e->calls.at[i], err));
    }
    return bind_graphs(e, err);
}

static tolk_status resolve(tolk_exec *e, const tolk_run_args *args, tolk_error *err) {
    forget(e);
    e->busy = true;
    tk_bindings_begin(e->bindings);
    /* As of now: a slice that binds its view changes it, and then calls before that slice are to be
     * looked at again. */
    uint64_t generation = e->bindings->generation;
    tk_resolve_memo memo;
    tk_resolve_memo_init(&memo, e->bindings);
    tolk_status st = resolve_all(e, args, &memo, err);
    tk_resolve_memo_fini(&memo);
    e->busy = false;
    e->generation = generation;
    e->is_resolved = true;
    if (st != TOLK_OK)
        forget(e);
    return st;
}

static bool same_inputs(const tolk_exec *e, const tolk_run_args *args) {
    if (e->inputs.n != (args ? args->n_inputs : 0))
        return false;
    for (size_t i = 0; i < e->inputs.n; i++) {
        const tolk_uop *a = e->inputs.at[i], *b = args->inputs[i];
        if (!a || !b || a->hash != b->hash || tk_uop_compare(a, b) != 0)
            return false;
    }
    return true;
}

bool tk_exec_is_settled(const tolk_exec *e, const tolk_run_args *args) {
    return e->is_resolved && e->generation == e->bindings->generation && same_inputs(e, args);
}

/* ---- running ---- */

static tolk_status check_new_value(const tolk_exec *e, size_t v, int64_t value, tolk_error *err) {
    for (size_t i = 0; i < e->calls.n; i++) {
        const tk_call *c = &e->calls.at[i];
        if (c->kind != TK_CALL_LAUNCH)
            continue;
        const tk_meta_param *m = c->model->program->meta.params;
        for (size_t k = 0, s = 0; s < c->n_vals; k++) {
            if (!m[k].is_scalar)
                continue;
            if (c->vals[s].from != TK_CALL_BOUND && (size_t)c->vals[s].number == v)
                TK_TRY(check_value(c, &m[k], value, err));
            s++;
        }
    }
    return TOLK_OK;
}

static bool has_name(const tolk_run_args *args, size_t i, const char *name) {
    return i < args->n_vars && strcmp(args->vars[i].name, name) == 0;
}

static tolk_status read_variable(tolk_exec *e, size_t number, const tolk_run_args *args,
                                 tolk_error *err) {
    variable *v = &e->vars.at[number];
    size_t at = v->at;
    if (!has_name(args, at, v->name))
        for (at = 0; at < args->n_vars && !has_name(args, at, v->name);)
            at++;
    if (at == args->n_vars) {
        if (v->is_position && !e->needs_position)
            return TOLK_OK;
        return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                              "variable \"%.60s\" of kernel %.60s has no value", v->name,
                              v->kernel);
    }
    if (v->is_position && !e->needs_position)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "variable \"%.60s\" is the position among the devices, and cannot be "
                              "given",
                              v->name);
    v->at = at;
    if (v->is_set && v->value == args->vars[at].value)
        return TOLK_OK;
    v->is_set = false;
    TK_TRY(check_new_value(e, number, args->vars[at].value, err));
    v->value = args->vars[at].value;
    v->is_set = true;
    return TOLK_OK;
}

/* No name may have two values. Where all that is given is what the kernels take, none has. */
static tolk_status check_names(const tolk_exec *e, const tolk_run_args *args, tolk_error *err) {
    const tolk_var *v = args->vars;
    bool may_repeat = args->n_vars > e->vars.n;
    for (size_t i = 0; i < args->n_vars; i++) {
        bool known = false;
        for (size_t k = 0; k < e->vars.n && !known; k++)
            known = e->vars.at[k].at == i && strcmp(e->vars.at[k].name, v[i].name) == 0;
        may_repeat = may_repeat || !known;
    }
    for (size_t i = 0; may_repeat && i < args->n_vars; i++)
        for (size_t j = 0; j < i; j++)
            if (v[i].value != v[j].value && strcmp(v[i].name, v[j].name) == 0)
                return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                      "variable \"%.60s\" is given twice, as %lld and as %lld",
                                      v[i].name, (long long)v[j].value, (long long)v[i].value);
    for (size_t k = 0; k < e->constants.n; k++)
        for (size_t i = 0; i < args->n_vars; i++)
            if (v[i].value != e->constants.at[k].value &&
                strcmp(v[i].name, e->constants.at[k].name) == 0)
                return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                      "variable \"%.60s\" is given as %lld, but %s binds it to "
                                      "%lld",
                                      v[i].name, (long long)v[i].value,
                                      e->constants.at[k].call->what,
                                      (long long)e->constants.at[k].value);
    return TOLK_OK;
}

static tolk_status read_variables(tolk_exec *e, const tolk_run_args *args, tolk_error *err) {
    for (size_t i = 0; i < args->n_vars; i++)
        if (!args->vars[i].name)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "variable %zu has no name", i);
    for (size_t i = 0; i < e->vars.n; i++)
        TK_TRY(read_variable(e, i, args, err));
    return check_names(e, args, err);
}

static void set_scalars(const tolk_exec *e, tk_call *c) {
    for (size_t j = 0; j < c->n_shards; j++)
        for (size_t v = 0; v < c->n_vals; v++) {
            const tk_call_value *from = &c->vals[v];
            c->shards[j].bound.vals[v] = from->from == TK_CALL_BOUND ? from->number
                                         : from->from == TK_CALL_POSITION && c->is_multi
                                             ? (int64_t)j
                                             : e->vars.at[from->number].value;
        }
}

static tolk_status await(const tolk_exec *e, tolk_error *err) {
    tolk_status first = TOLK_OK;
    for (size_t i = 0; i < e->devices.n; i++) {
        tolk_status st = tolk_device_await(e->devices.at[i], first == TOLK_OK ? err : NULL);
        first = first != TOLK_OK ? first : st;
    }
    return first;
}

/* What a call did, in a line of the log. */
static void tell(const tolk_exec *e, const tk_call *c, uint64_t ns) {
    double flops = 0, bytes = 0, f, b;
    char from[64] = "", more[32] = "";
    for (size_t j = 0; j < c->n_shards; j++) {
        const tk_call_shard *s = &c->shards[j];
        tolk_buffer_info info;
        if (c->kind == TK_CALL_LAUNCH && tolk_program_estimate(s->kernel->program, s->bound.vals,
                                                               c->n_vals, &f, &b) == TOLK_OK) {
            flops += f;
            bytes += b;
        } else if (c->kind == TK_CALL_COPY && tolk_buffer_get_info(s->bufs[1], &info) == TOLK_OK) {
            bytes += 2 * (double)info.bytes; /* read and written */
            if (!j)
                snprintf(from, sizeof from, " <- %.40s, %zu bytes", tolk_device_name(info.device),
                         info.bytes);
        }
    }
    if (c->n_shards > 1)
        snprintf(more, sizeof more, " and %zu more", c->n_shards - 1);
    double t = ns ? (double)ns : 1;
    tk_log(e->bindings->ctx, TOLK_LOG_DEBUG, "%s on %s%s%s: %.2f us, %.2f GFLOP/s, %.2f GB/s",
           c->what, c->n_shards ? tolk_device_name(device_of(c, 0)) : e->bindings->device->name,
           from, more, t / 1000, flops / t, bytes / t);
}

static tolk_status run_call(tolk_exec *e, tk_call *c, bool awaited, bool debug, tolk_error *err) {
    if (c->kind == TK_CALL_LAUNCH)
        set_scalars(e, c);
    if (!debug || c->kind == TK_CALL_SLICE || c->kind == TK_CALL_GRAPH)
        return tk_call_run(c, awaited, err);
    uint64_t start = tk_phases_now_ns();
    TK_TRY(tk_call_run(c, awaited, err));
    for (size_t j = 0; j < c->n_shards; j++)
        TK_TRY(tolk_device_await(device_of(c, j), err));
    tell(e, c, tk_phases_now_ns() - start);
    return TOLK_OK;
}

/* All calls of a graph as one command. */
static tolk_status run_graph(tolk_exec *e, const tk_call *c, bool awaited, bool debug,
                             tolk_error *err) {
    tolk_error why = TOLK_ERROR_INIT;
    tolk_device *device = tk_graph_call_device(c->graph);
    int64_t *vars = tk_graph_call_vars(c->graph);
    for (size_t v = 0; v < e->vars.n; v++)
        vars[v] = e->vars.at[v].value;
    uint64_t start = debug ? tk_phases_now_ns() : 0;
    tolk_status st = tk_graph_call_run(c->graph, awaited, &why);
    if (st != TOLK_OK)
        return tk_call_failed(c, st, &why, err);
    if (!debug)
        return TOLK_OK;
    TK_TRY(tolk_device_await(device, err));
    tk_log(e->bindings->ctx, TOLK_LOG_DEBUG, "%s of %zu calls on %s: %.2f us", c->what, c->n_inner,
           tolk_device_name(device), (double)(tk_phases_now_ns() - start) / 1000);
    return TOLK_OK;
}

/* What a run may ask of the queue of a device. */
typedef struct demand {
    size_t commands, room;
} demand;

static demand demand_of(const tolk_exec *e, const tolk_device *d) {
    demand most = {0, 0};
    for (size_t i = 0; i < e->calls.n; i++) {
        const tk_call *c = &e->calls.at[i];
        if (c->graph) {
            most.commands += tk_graph_call_device(c->graph) == d;
            i += c->n_inner;
            continue;
        }
        for (size_t j = 0; j < c->n_shards; j++) {
            size_t room = c->kind == TK_CALL_LAUNCH ? tk_kernel_waiting_bytes(c->n_bufs, c->n_vals)
                                                    : tk_copy_waiting_bytes();
            if (device_of(c, j) != d)
                continue;
            most.commands++;
            most.room = room > most.room ? room : most.room;
        }
    }
    return most;
}

/* An exec that is run again is run many times: have all that its commands take in the queues. One
 * device alone may never queue any. */
static void reserve(tolk_exec *e) {
    for (size_t i = 0; i < e->devices.n; i++) {
        const tolk_device *d = e->devices.at[i];
        tk_queue *q = tk_device_state_of(d)->queue;
        if (e->devices.n == 1 && !tk_queue_had_room(q))
            return;
        demand most = demand_of(e, d);
        tk_queue_reserve(q, most.commands, most.room, tk_memory_order_points(e->bindings->ctx));
    }
    e->has_reserved = true;
}

static tolk_status run_calls(tolk_exec *e, const tolk_run_args *args, tolk_error *err) {
    bool debug = e->bindings->ctx->debug >= 2, wait = args->wait || debug;
    TK_TRY(read_variables(e, args, err));
    if (e->was_run && !e->has_reserved)
        reserve(e);
    e->was_run = true;
    for (size_t i = 0; i < e->calls.n; i++) {
        tk_call *c = &e->calls.at[i];
        size_t next = i + 1 + (c->graph ? c->n_inner : 0);
        /* Nothing that would go on beside it follows. */
        bool awaited = wait && (e->devices.n == 1 || next >= e->last);
        if (c->graph)
            TK_TRY(run_graph(e, c, awaited, debug, err));
        else
            TK_TRY(run_call(e, c, awaited, debug, err));
        i = next - 1;
    }
    return wait ? await(e, err) : TOLK_OK;
}

static tolk_status run(tolk_exec *e, const tolk_run_args *args, tolk_error *err) {
    static const tolk_run_args none = TOLK_RUN_INIT;
    args = args ? args : &none;
    if (args->jit && e->had_kernels)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "the linear has a kernel that is not compiled, but jit says it has "
                              "none");
    if (e->busy)
        return tk_status_fail(err, TOLK_E_BUSY, TK_NO_NODE, "the exec is running");
    if (!e->is_resolved || e->generation != e->bindings->generation || !same_inputs(e, args))
        TK_TRY(resolve(e, args, err));
    e->busy = true;
    tolk_status st = run_calls(e, args, err);
    e->busy = false;
    if (st == TOLK_OK)
        tk_counters_add(e->bindings->ctx, TK_COUNT_EXECS, 1);
    return st;
}

tolk_status tolk_exec_run(tolk_exec *exec, const tolk_run_args *args, tolk_error *err) {
    if (!exec)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_exec_run: exec is NULL");
    TK_TRY(tk_resolve_check_args("tolk_exec_run", args, err));
    tk_realize_here(exec->bindings->ctx);
    return run(exec, args, err);
}
