/* SPDX-License-Identifier: MIT */
#include "realize/call.h"

#include "base/status.h"
#include "ir/check.h"
#include "ir/params.h"
#include "realize/copy.h"
#include "realize/graph_call.h"
#include "realize/multi.h"
#include "realize/realize.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

tolk_status tk_call_failed(const tk_call *c, tolk_status st, const tolk_error *why,
                           tolk_error *err) {
    return tk_status_fail(err, st, TK_NO_NODE, "%s: %.200s", c->what,
                          *why->msg ? why->msg : tolk_status_text(st));
}

static tolk_status fail(const tk_call *c, tolk_status code, tolk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static tolk_status fail(const tk_call *c, tolk_status code, tolk_error *err, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tk_status_fail(err, code, TK_NO_NODE, "%s: %s", c->what, text);
}

static void describe(tk_call *c, size_t number, int64_t outer) {
    char place[48];
    const char *kind = "", *name = tk_uop_str(c->node, TK_A_CALL_NAME);
    if (outer >= 0)
        snprintf(place, sizeof place, "%lld.%zu", (long long)outer, number);
    else
        snprintf(place, sizeof place, "%zu", number);
    switch (c->kind) {
    case TK_CALL_LAUNCH:
        kind = "kernel ";
        name = tk_uop_str(c->body, TK_A_PROGRAM_NAME);
        break;
    case TK_CALL_COPY:
        kind = name ? "copy " : "copy";
        break;
    case TK_CALL_SLICE:
        kind = name ? "slice " : "slice";
        break;
    case TK_CALL_GRAPH:
        kind = name ? "graph " : "graph";
    }
    snprintf(c->what, sizeof c->what, "call %s (%s%.40s)", place, kind, name ? name : "");
}

/* ---- what the node says ---- */

static tolk_status read_args(tk_call *c, const tk_walk_map *on_input, const tolk_allocator *al,
                             tolk_error *err) {
    for (uint32_t i = 1; i < c->node->n_src; i++)
        c->n_args += !tk_check_is_value(c->node->src[i]);
    if (!c->n_args)
        return TOLK_OK;
    c->args = tk_alloc_zero(al, c->n_args * sizeof *c->args);
    c->to = tk_alloc_zero(al, c->n_args * sizeof *c->to);
    if (!c->args || !c->to)
        return tk_status_nomem(err);
    size_t n = 0;
    for (uint32_t i = 1; i < c->node->n_src; i++)
        if (!tk_check_is_value(c->node->src[i])) {
            c->args[n++] = c->node->src[i];
            c->reaches_input |= tk_walk_map_get(on_input, c->node->src[i]->id) != 0;
        }
    return TOLK_OK;
}

static bool kind_of(const tolk_uop *body, tk_call_kind *kind) {
    switch (tk_uop_op(body)) {
    case TK_OP_PROGRAM:
        *kind = TK_CALL_LAUNCH;
        return true;
    case TK_OP_COPY:
        *kind = TK_CALL_COPY;
        return true;
    case TK_OP_SLICE:
        *kind = TK_CALL_SLICE;
        return true;
    case TK_OP_CUSTOM_FUNCTION:
        *kind = TK_CALL_GRAPH;
        return strcmp(tk_uop_str(body, TK_A_CUSTOM_FUNCTION_NAME), "graph") == 0 &&
               body->n_src == 1 && tk_uop_is(body->src[0], TK_OP_LINEAR);
    default:
        return false;
    }
}

tolk_status tk_call_init(tk_call *c, const tolk_uop *node, size_t number, int64_t outer,
                         const tk_walk_map *on_input, const tolk_allocator *al, tolk_error *err) {
    *c = (tk_call){.node = node};
    if (!tk_uop_is(node, TK_OP_CALL))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "entry %zu is %s, expected a call",
                              number, tk_op_get(tk_uop_op(node))->name);
    c->body = node->src[0];
    if (!kind_of(c->body, &c->kind))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "call %zu is of %s, expected a program, copy, slice or graph%s",
                              number, tk_op_get(tk_uop_op(c->body))->name,
                              tk_check_calls_list(node) ? " (tolk_schedule makes calls of it)"
                              : tk_uop_is(c->body, TK_OP_SINK) ? " (a kernel is compiled first)"
                                                               : "");
    describe(c, number, outer);
    TK_TRY(read_args(c, on_input, al, err));
    bool two = c->kind == TK_CALL_COPY || c->kind == TK_CALL_SLICE;
    if (two && c->n_args != 2)
        return fail(c, TOLK_E_VERIFY, err, "%zu buffers, expected 2: %s", c->n_args,
                    c->kind == TK_CALL_COPY ? "dest and src"
                                            : "what becomes the view, and of what");
    return TOLK_OK;
}

/* ---- launches ---- */

/* Which of the sink's buffer params, counted in slot order, has this slot? -1: none. */
static int64_t place_of(const tk_params *params, int64_t slot) {
    const tk_param *p = tk_params_find(params, slot);
    return p && !p->is_scalar ? (int64_t)p->place : -1;
}

static tolk_status match(tk_call *c, const tolk_kernel *kernel, const tk_params *params,
                         const tolk_allocator *al, tolk_error *err) {
    const tk_meta_view *m = &kernel->program->meta;
    if (params->n_bufs != c->n_args)
        return fail(c, TOLK_E_VERIFY, err, "%zu buffer%s, but the kernel takes %u", c->n_args,
                    c->n_args == 1 ? "" : "s", params->n_bufs);
    c->n_bufs = m->head->n_bufs;
    c->n_vals = m->head->n_vals;
    if (c->n_bufs && !(c->arg_of = tk_alloc_zero(al, c->n_bufs * sizeof *c->arg_of)))
        return tk_status_nomem(err);
    if (c->n_vals && !(c->vals = tk_alloc_zero(al, c->n_vals * sizeof *c->vals)))
        return tk_status_nomem(err);
    for (size_t i = 0, b = 0; b < c->n_bufs; i++) {
        if (m->params[i].is_scalar)
            continue;
        int64_t place = place_of(params, m->params[i].slot);
        if (place < 0)
            return fail(c, TOLK_E_VERIFY, err,
                        "its code takes a buffer in slot %lld, which its kernel does not",
                        (long long)m->params[i].slot);
        c->arg_of[b++] = (uint32_t)place;
    }
    return TOLK_OK;
}

tolk_status tk_call_match(tk_call *c, const tolk_kernel *kernel, const tolk_allocator *al,
                          tolk_error *err) {
    tk_params params;
    c->model = kernel;
    TK_TRY(tk_params_init(&params, c->body->src[0], al, err));
    tolk_status st = match(c, kernel, &params, al, err);
    tk_params_fini(&params);
    return st;
}

/* ---- buffers ---- */

static size_t bufs_of_shard(const tk_call *c) {
    return c->kind == TK_CALL_LAUNCH ? c->n_bufs : c->kind == TK_CALL_COPY ? 2 : 0;
}

void tk_call_forget(tk_call *c, const tolk_allocator *al) {
    for (size_t j = 0; j < c->n_shards; j++) {
        tk_call_shard *s = &c->shards[j];
        tk_kernel_bound_fini(&s->bound, al);
        tolk_kernel_unref(s->kernel);
        if (s->bufs)
            tk_alloc_free(al, s->bufs, bufs_of_shard(c) * sizeof(tolk_buffer *));
    }
    if (c->shards)
        tk_alloc_free(al, c->shards, c->n_shards * sizeof *c->shards);
    c->shards = NULL;
    c->n_shards = 0;
    for (size_t i = 0; c->to && i < c->n_args; i++)
        tk_bindings_to_drop(&c->to[i]);
}

void tk_call_fini(tk_call *c, const tolk_allocator *al) {
    tk_call_forget(c, al);
    tk_graph_call_destroy(c->graph);
    if (c->args)
        tk_alloc_free(al, c->args, c->n_args * sizeof *c->args);
    if (c->to)
        tk_alloc_free(al, c->to, c->n_args * sizeof *c->to);
    if (c->arg_of)
        tk_alloc_free(al, c->arg_of, c->n_bufs * sizeof *c->arg_of);
    if (c->vals)
        tk_alloc_free(al, c->vals, c->n_vals * sizeof *c->vals);
    *c = (tk_call){0};
}

static tolk_buffer *at_position(const tk_bindings_to *to, size_t j) {
    return to->many ? to->many->at[j] : to->one;
}

/* One shard if all arguments are one buffer, else one for each position, which all must have. */
static tolk_status count_shards(tk_call *c, size_t *n, tolk_error *err) {
    *n = 1;
    c->is_multi = c->n_args && c->to[0].many;
    for (size_t i = 0; i < c->n_args; i++) {
        const tolk_multi *m = c->to[i].many;
        if ((m != NULL) != c->is_multi)
            return fail(c, TOLK_E_DEVICE, err, "argument %zu is %s, argument 0 is %s", i,
                        m ? "several buffers" : "one buffer", m ? "one" : "several");
        if (m && i && m->n != *n)
            return fail(c, TOLK_E_DEVICE, err, "argument %zu is %zu buffers, argument 0 is %zu", i,
                        m->n, *n);
        if (m)
            *n = m->n;
    }
    return TOLK_OK;
}

static tolk_status find_args(tk_call *c, tk_resolve_memo *memo, const tolk_uop *const *inputs,
                             size_t n_inputs, size_t from, tolk_error *err) {
    for (size_t i = from; i < c->n_args; i++) {
        tolk_error why = TOLK_ERROR_INIT;
        tolk_status st =
            tk_resolve(memo->bindings, memo, inputs, n_inputs, c->args[i], &c->to[i], &why);
        if (st != TOLK_OK)
            return fail(c, st, err, "argument %zu: %.180s", i, why.msg);
    }
    return TOLK_OK;
}

static tolk_status fill_launch(tk_call *c, tk_call_shard *s, size_t j, tolk_bindings *b,
                               tk_call_load_fn load, void *user, tolk_error *err) {
    tolk_error why = TOLK_ERROR_INIT;
    tolk_device *device = c->n_args ? tk_buffer_device(at_position(&c->to[0], j)) : b->device;
    tolk_status st = load(user, c->body, device, &s->kernel, &why);
    if (st != TOLK_OK)
        return tk_call_failed(c, st, &why, err);
    const tk_meta *h = s->kernel->program->meta.head;
    if (h->n_bufs != c->n_bufs || h->n_vals != c->n_vals)
        return fail(c, TOLK_E_INTERNAL, err, "its program differs between devices");
    for (size_t i = 0; i < c->n_bufs; i++)
        s->bufs[i] = at_position(&c->to[c->arg_of[i]], j);
    return tk_kernel_bound_init(&s->bound, s->kernel, err);
}

static tolk_status fill_copy(tk_call *c, tk_call_shard *s, size_t j, tolk_error *err) {
    tolk_buffer_info d, from;
    for (size_t i = 0; i < 2; i++)
        s->bufs[i] = at_position(&c->to[i], j);
    TK_TRY(tolk_buffer_get_info(s->bufs[0], &d));
    TK_TRY(tolk_buffer_get_info(s->bufs[1], &from));
    if (d.dtype != from.dtype || d.elem_bytes != from.elem_bytes)
        return fail(c, TOLK_E_DTYPE, err, "dest is %s, src is %s", tolk_dtype_name(d.dtype),
                    tolk_dtype_name(from.dtype));
    if (d.n != from.n)
        return fail(c, TOLK_E_SHAPE, err, "dest has %zu elements, src has %zu", d.n, from.n);
    return TOLK_OK;
}

static tolk_status make_shards(tk_call *c, size_t n, tolk_bindings *b, tk_call_load_fn load,
                               void *user, tolk_error *err) {
    const tolk_allocator *al = &b->ctx->al;
    size_t bufs = bufs_of_shard(c);
    c->shards = tk_alloc_zero(al, n * sizeof *c->shards);
    if (!c->shards)
        return tk_status_nomem(err);
    c->n_shards = n;
    for (size_t j = 0; j < n; j++) {
        tk_call_shard *s = &c->shards[j];
        if (bufs && !(s->bufs = tk_alloc_zero(al, bufs * sizeof(tolk_buffer *))))
            return tk_status_nomem(err);
        if (c->kind == TK_CALL_LAUNCH)
            TK_TRY(fill_launch(c, s, j, b, load, user, err));
        else if (c->kind == TK_CALL_COPY)
            TK_TRY(fill_copy(c, s, j, err));
    }
    return TOLK_OK;
}

/* ---- slices ---- */

static bool same_view(tolk_buffer *a, tolk_buffer *b) {
    tolk_buffer_info x, y;
    return tolk_buffer_get_info(a, &x) == TOLK_OK && tolk_buffer_get_info(b, &y) == TOLK_OK &&
           !x.is_freed && x.base && x.base == y.base && x.offset == y.offset && x.n == y.n &&
           x.dtype == y.dtype;
}

static bool same_views(tk_bindings_to a, tk_bindings_to b) {
    if (a.one && b.one)
        return same_view(a.one, b.one);
    if (!a.many || !b.many || a.many->n != b.many->n)
        return false;
    for (size_t i = 0; i < a.many->n; i++)
        if (!same_view(a.many->at[i], b.many->at[i]))
            return false;
    return true;
}

/* Argument 0 stands for the view from now on: after the first run it does already. */
static tolk_status bind_view(tk_call *c, tolk_bindings *b, tolk_error *err) {
    const tolk_uop *own;
    tolk_error why = TOLK_ERROR_INIT;
    tk_bindings_to made = {NULL, NULL};
    tolk_status st = tk_resolve_slice(c->body, c->to[1], &made, &why);
    if (st != TOLK_OK)
        return tk_call_failed(c, st, &why, err);
    st = tk_bindings_node(b, c->args[0], &own, err);
    if (st == TOLK_OK) {
        const tk_bindings_to *old = tk_bindings_of(b, own);
        if (!old || !same_views(*old, made))
            st = tk_bindings_put(b, own, made, false, err);
    }
    tk_bindings_to_drop(&made);
    return st;
}

/* ---- all ---- */

tolk_status tk_call_resolve(tk_call *c, tk_resolve_memo *memo, const tolk_uop *const *inputs,
                            size_t n_inputs, tk_call_load_fn load, void *user, tolk_error *err) {
    size_t n;
    tolk_bindings *b = memo->bindings;
    if (c->kind == TK_CALL_GRAPH)
        return TOLK_OK;
    tk_call_forget(c, &b->ctx->al);
    TK_TRY(find_args(c, memo, inputs, n_inputs, c->kind == TK_CALL_SLICE, err));
    if (c->kind == TK_CALL_SLICE)
        return bind_view(c, b, err);
    TK_TRY(count_shards(c, &n, err));
    return make_shards(c, n, b, load, user, err);
}

static tolk_status launch(tk_call *c, bool awaited, tolk_error *err) {
    size_t bound = 0;
    tolk_error why = TOLK_ERROR_INIT;
    tolk_status st = TOLK_OK;
    for (size_t j = 0; j < c->n_shards && st == TOLK_OK; j++) {
        tk_call_shard *s = &c->shards[j];
        st = tk_kernel_bind(s->kernel, s->bufs, &s->bound, &why);
        bound += st == TOLK_OK;
    }
    size_t gone = 0;
    while (st == TOLK_OK && gone < bound) {
        st = tk_kernel_go(c->shards[gone].kernel, &c->shards[gone].bound,
                          awaited && gone + 1 == bound, &why);
        gone++;
    }
    for (size_t j = gone; j < bound; j++)
        tk_kernel_unbind(&c->shards[j].bound);
    return st == TOLK_OK ? TOLK_OK : tk_call_failed(c, st, &why, err);
}

static tolk_status copy(const tk_call *c, bool awaited, tolk_error *err) {
    tolk_error why = TOLK_ERROR_INIT;
    tolk_status st = TOLK_OK;
    for (size_t j = 0; c->n_shards > 1 && j < c->n_shards && st == TOLK_OK; j++)
        st = tk_copy_check(c->shards[j].bufs[0], c->shards[j].bufs[1], &why);
    for (size_t j = 0; j < c->n_shards && st == TOLK_OK; j++)
        st = tk_copy_buffers(c->shards[j].bufs[0], c->shards[j].bufs[1],
                             awaited && j + 1 == c->n_shards, &why);
    return st == TOLK_OK ? TOLK_OK : tk_call_failed(c, st, &why, err);
}

tolk_status tk_call_run(tk_call *c, bool awaited, tolk_error *err) {
    switch (c->kind) {
    case TK_CALL_LAUNCH:
        return launch(c, awaited, err);
    case TK_CALL_COPY:
        return copy(c, awaited, err);
    default:
        return TOLK_OK;
    }
}
