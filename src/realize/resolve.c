/* SPDX-License-Identifier: MIT
 *
 * From nodes to buffers, with a stack of its own: expressions may be deep. A node that is bound
 * stands for its binding, whatever it is.
 */
#include "realize/resolve.h"

#include "base/status.h"
#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/import.h"
#include "ir/shape.h"
#include "realize/buffer.h"
#include "realize/multi.h"
#include "realize/realize.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

const char *tk_resolve_name(const tolk_uop *node, char buf[96]) {
    const char *op = tk_op_get(tk_uop_op(node))->name;
    const char *device = NULL;
    switch (tk_uop_op(node)) {
    case TK_OP_PARAM: {
        const char *name = tk_uop_str(node, TK_A_PARAM_NAME);
        snprintf(buf, 96, "param {slot=%lld%s%.40s%s}",
                 (long long)tk_uop_int(node, TK_A_PARAM_SLOT), name ? ", name=\"" : "",
                 name ? name : "", name ? "\"" : "");
        break;
    }
    case TK_OP_BUFFER:
        device = tk_uop_str(node, TK_A_BUFFER_DEVICE);
        snprintf(buf, 96, "buffer {slot=%lld%s%.40s%s}",
                 (long long)tk_uop_int(node, TK_A_BUFFER_SLOT), device ? ", device=\"" : "",
                 device ? device : "", device ? "\"" : "");
        break;
    case TK_OP_SLICE:
        snprintf(buf, 96, "slice {count=%lld}", (long long)tk_uop_int(node, TK_A_SLICE_COUNT));
        break;
    case TK_OP_MSELECT:
        snprintf(buf, 96, "mselect {index=%lld}", (long long)tk_uop_int(node, TK_A_MSELECT_INDEX));
        break;
    default:
        snprintf(buf, 96, "%s", op);
    }
    return buf;
}

static tolk_status fail(const tolk_uop *node, tolk_status code, tolk_error *err, const char *fmt,
                        ...) __attribute__((format(printf, 4, 5)));

static tolk_status fail(const tolk_uop *node, tolk_status code, tolk_error *err, const char *fmt,
                        ...) {
    char name[96], text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tk_status_fail(err, code, TK_NO_NODE, "%s: %s", tk_resolve_name(node, name), text);
}

/* The node before the message of what failed. */
static tolk_status pass_on(const tolk_uop *node, const tolk_error *why, tolk_error *err) {
    return fail(node, why->code, err, "%.180s", why->msg);
}

/* ---- BUFFER: memory on demand ---- */

/* Most elements that a shape may have. */
static tolk_status most_elems(const tolk_uop *node, size_t *out, tolk_error *err) {
    const tk_shape *shape;
    tolk_error why = TOLK_ERROR_INIT;
    if (tk_shape_get(node, &shape, NULL, &why) != TOLK_OK)
        return pass_on(node, &why, err);
    int64_t n = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const tolk_uop *dim = shape->dim[i];
        tk_bound b =
            tk_uop_is_const(dim) ? (tk_bound){dim->attr[0].i, dim->attr[0].i, 1} : tk_bounds(dim);
        if (tk_graph_failed(node->graph)) {
            tolk_graph_clear_error(node->graph);
            return tk_status_nomem(err);
        }
        if (b.state != 1 || b.hi == INT64_MAX)
            return fail(node, TOLK_E_UNSUPPORTED, err,
                        "dimension %u has no upper bound: bind a buffer to it", i);
        if (!tk_check_mul(&n, b.hi < 0 ? 0 : b.hi))
            return fail(node, TOLK_E_LIMIT, err, "too large: more than 2^63-1 elements");
    }
    *out = (size_t)n;
    return TOLK_OK;
}

/* The next name of a list "CPU, CPU:1", without blanks around it; false: the list is over. */
static bool next_name(const char **at, char name[96], bool *too_long) {
    const char *p = *at;
    if (!p)
        return false;
    const char *end = strchr(p, ','), *last = end ? end : p + strlen(p);
    *at = end ? end + 1 : NULL;
    while (p < last && *p == ' ')
        p++;
    while (last > p && last[-1] == ' ')
        last--;
    *too_long = (size_t)(last - p) >= 96;
    size_t n = *too_long ? 95 : (size_t)(last - p);
    memcpy(name, p, n);
    name[n] = 0;
    return true;
}

typedef TK_VEC(tolk_device *) devices;

static tolk_status open_devices(const tolk_bindings *b, const tolk_uop *node, const char *names,
                                devices *out, tolk_error *err) {
    char name[96];
    bool too_long;
    while (next_name(&names, name, &too_long)) {
        tolk_device *d;
        tolk_error why = TOLK_ERROR_INIT;
        if (too_long)
            return fail(node, TOLK_E_DEVICE, err, "\"%.40s...\" is no name of a device", name);
        if (tolk_device_open(b->ctx, name, &d, &why) != TOLK_OK)
            return pass_on(node, &why, err);
        if (!tk_vec_push(out, d))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

static tolk_status make(tolk_bindings *b, const tolk_uop *node, devices *on, tk_bindings_to *out,
                        tolk_error *err) {
    size_t n = 0;
    tolk_error why = TOLK_ERROR_INIT;
    const char *names = tk_uop_str(node, TK_A_BUFFER_DEVICE);
    TK_TRY(most_elems(node, &n, err));
    if (names)
        TK_TRY(open_devices(b, node, names, on, err));
    tolk_status st;
    if (on->n > 1)
        st = tolk_multi_create(on->at, on->n, node->dtype, n, &out->many, &why);
    else
        st = tolk_buffer_create(on->n ? on->at[0] : b->device, node->dtype, n, NULL, &out->one,
                                &why);
    if (st != TOLK_OK)
        return pass_on(node, &why, err);
    st = tk_bindings_put(b, node, *out, true, err);
    if (st != TOLK_OK)
        tk_bindings_to_drop(out);
    return st;
}

static tolk_status buffer(tolk_bindings *b, const tolk_uop *node, tk_bindings_to *out,
                          tolk_error *err) {
    if (tk_uop_int(node, TK_A_BUFFER_SPACE) != TK_SPACE_GLOBAL)
        return fail(node, TOLK_E_ARG, err, "it is of a kernel: expected space=global");
    devices on;
    tk_vec_init(&on, &b->ctx->al);
    tolk_status st = make(b, node, &on, out, err);
    tk_vec_fini(&on);
    return st;
}

/* ---- the others ---- */

static tolk_status view(const tolk_uop *slice, tolk_buffer *source, tolk_buffer **out,
                        tolk_error *err) {
    int64_t offset = slice->src[1]->attr[0].i;
    size_t elem = tolk_dtype_bytes(slice->src[0]->dtype), bytes;
    tolk_error why = TOLK_ERROR_INIT;
    if (offset < 0)
        return fail(slice, TOLK_E_RANGE, err, "its offset is %lld, expected at least 0",
                    (long long)offset);
    if (!tk_mul_size((size_t)offset, elem, &bytes))
        return fail(slice, TOLK_E_RANGE, err, "its offset of %lld elements is beyond memory",
                    (long long)offset);
    if (tolk_buffer_view(source, bytes, slice->dtype, (size_t)tk_uop_int(slice, TK_A_SLICE_COUNT),
                         out, &why) != TOLK_OK)
        return pass_on(slice, &why, err);
    return TOLK_OK;
}

static tolk_status views(const tolk_uop *slice, const tolk_multi *source, tolk_multi **out,
                         tolk_error *err) {
    TK_VEC(tolk_buffer *) parts;
    tk_vec_init(&parts, &source->ctx->al);
    tolk_status st = tk_vec_resize(&parts, source->n) ? TOLK_OK : tk_status_nomem(err);
    for (size_t i = 0; i < source->n && st == TOLK_OK; i++)
        st = view(slice, source->at[i], &parts.at[i], err);
    if (st == TOLK_OK)
        st = tolk_multi_of(parts.at, parts.n, out, err);
    for (size_t i = 0; i < parts.n; i++)
        tolk_buffer_unref(parts.at[i]);
    tk_vec_fini(&parts);
    return st;
}

tolk_status tk_resolve_slice(const tolk_uop *slice, tk_bindings_to source, tk_bindings_to *out,
                             tolk_error *err) {
    if (!tk_uop_is_const(slice->src[1]))
        return fail(slice, TOLK_E_UNSUPPORTED, err, "its offset is %s, expected a constant",
                    tk_op_get(tk_uop_op(slice->src[1]))->name);
    return source.many ? views(slice, source.many, &out->many, err)
                       : view(slice, source.one, &out->one, err);
}

static tolk_status mselect(const tolk_uop *u, tk_bindings_to source, tk_bindings_to *out,
                           tolk_error *err) {
    int64_t i = tk_uop_int(u, TK_A_MSELECT_INDEX);
    if (!source.many)
        return fail(u, TOLK_E_DEVICE, err, "its source is one buffer, expected several");
    if ((uint64_t)i >= source.many->n)
        return fail(u, TOLK_E_RANGE, err, "its source is %zu buffers", source.many->n);
    out->one = tolk_buffer_ref(source.many->at[i]);
    return TOLK_OK;
}

static tolk_status mstack(const tolk_uop *u, const tk_bindings_to *sources, tk_bindings_to *out,
                          const tolk_allocator *al, tolk_error *err) {
    TK_VEC(tolk_buffer *) parts;
    tolk_error why = TOLK_ERROR_INIT;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (sources[i].many)
            return fail(u, TOLK_E_DEVICE, err, "its operand %u is %zu buffers, expected one", i,
                        sources[i].many->n);
    tk_vec_init(&parts, al);
    if (!tk_vec_resize(&parts, u->n_src))
        return tk_status_nomem(err);
    for (uint32_t i = 0; i < u->n_src; i++)
        parts.at[i] = sources[i].one;
    tolk_status st = tolk_multi_of(parts.at, parts.n, &out->many, &why);
    tk_vec_fini(&parts);
    return st == TOLK_OK ? TOLK_OK : pass_on(u, &why, err);
}

/* ---- what is known ---- */

void tk_resolve_memo_init(tk_resolve_memo *memo, tolk_bindings *b) {
    *memo = (tk_resolve_memo){.bindings = b, .generation = b->generation};
    tk_walk_map_init(&memo->own, &b->ctx->al);
    tk_map_init(&memo->place, &b->ctx->al);
    tk_vec_init(&memo->values, &b->ctx->al);
}

void tk_resolve_memo_fini(tk_resolve_memo *memo) {
    for (size_t i = 0; i < memo->values.n; i++)
        tk_bindings_to_drop(&memo->values.at[i]);
    tk_vec_fini(&memo->values);
    tk_map_fini(&memo->place);
    tk_walk_map_fini(&memo->own);
}

/* Something was bound, or the bindings' nodes moved: what was known is not any more. */
static void refresh(tk_resolve_memo *memo) {
    tolk_bindings *b = memo->bindings;
    if (memo->generation == b->generation)
        return;
    tk_resolve_memo_fini(memo);
    tk_resolve_memo_init(memo, b);
}

static const tk_bindings_to *find_known(tk_resolve_memo *memo, const tolk_uop *u) {
    refresh(memo);
    const uint64_t *i = tk_map_find(&memo->place, (uintptr_t)u);
    return i ? &memo->values.at[*i] : NULL;
}

static bool put_known(tk_resolve_memo *memo, const tolk_uop *u, tk_bindings_to value) {
    refresh(memo);
    if (!tk_map_put(&memo->place, (uintptr_t)u, memo->values.n) ||
        !tk_vec_push(&memo->values, value))
        return false;
    tk_bindings_to_ref(value);
    return true;
}

/* ---- the walk ---- */

typedef struct frame {
    const tolk_uop *u; /* of the bindings' graph */
    uint32_t next;     /* source to be resolved */
    uint32_t hops;     /* inputs that led here */
    size_t first;      /* of its sources' values */
} frame;

typedef struct resolving {
    tolk_bindings *b;
    tk_resolve_memo *memo;
    const tolk_uop *const *inputs;
    size_t n_inputs;
    TK_VEC(frame) stack;
    TK_VEC(tk_bindings_to) values;
    tolk_error *err;
} resolving;

static tolk_status enter(resolving *r, const tolk_uop *u, uint32_t hops) {
    return tk_vec_push(&r->stack, ((frame){u, 0, hops, r->values.n})) ? TOLK_OK
                                                                      : tk_status_nomem(r->err);
}

/* The node is done: its sources' values become its own. */
static tolk_status leave(resolving *r, tk_bindings_to value) {
    size_t first = tk_vec_last(&r->stack).first;
    r->stack.n--;
    while (r->values.n > first)
        tk_bindings_to_drop(&r->values.at[--r->values.n]);
    if (tk_vec_push(&r->values, value))
        return TOLK_OK;
    tk_bindings_to_drop(&value);
    return tk_status_nomem(r->err);
}

/* An input takes the place of a param. */
static tolk_status input(resolving *r, const tolk_uop *u, uint32_t hops) {
    int64_t slot = tk_uop_int(u, TK_A_PARAM_SLOT);
    if (tk_check_is_scalar_param(u))
        return fail(u, TOLK_E_ARG, r->err, "a variable is no buffer");
    if (slot >= (int64_t)r->n_inputs)
        return fail(u, TOLK_E_UNBOUND, r->err, "no input for it: %zu input%s", r->n_inputs,
                    r->n_inputs == 1 ? "" : "s");
    if (!r->inputs[slot])
        return fail(u, TOLK_E_ARG, r->err, "its input is NULL");
    if (hops >= r->n_inputs)
        return fail(u, TOLK_E_UNBOUND, r->err, "the inputs stand for each other, in a circle");
    const tolk_uop *own;
    TK_TRY(tk_bindings_node(r->b, r->inputs[slot], &own, r->err));
    r->stack.n--;
    return enter(r, own, hops + 1);
}

/* How many of its sources are buffers; -1: it is none itself. */
static int64_t n_buffers(const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_BUFFER:
    case TK_OP_PARAM:
        return 0;
    case TK_OP_SLICE:
    case TK_OP_MSELECT:
        return 1;
    case TK_OP_MSTACK:
        return u->n_src;
    default:
        return -1;
    }
}

static tolk_status step(resolving *r) {
    frame *f = &tk_vec_last(&r->stack);
    const tolk_uop *u = f->u;
    tk_bindings_to out = {NULL, NULL};
    const tk_bindings_to *bound = f->next ? NULL : tk_bindings_of(r->b, u);
    if (bound) {
        tk_bindings_to_ref(*bound);
        return leave(r, *bound);
    }
    int64_t n = n_buffers(u);
    const tk_bindings_to *known = n > 0 && !f->next ? find_known(r->memo, u) : NULL;
    if (known) {
        tk_bindings_to_ref(*known);
        return leave(r, *known);
    }
    if (n < 0)
        return fail(u, TOLK_E_ARG, r->err,
                    "it names no buffer: expected param, buffer, slice, mselect or mstack");
    if (f->next < n)
        return enter(r, u->src[f->next++], f->hops);
    if (tk_uop_is(u, TK_OP_PARAM))
        return input(r, u, f->hops);
    const tk_bindings_to *sources = n ? r->values.at + f->first : NULL;
    switch (tk_uop_op(u)) {
    case TK_OP_BUFFER:
        TK_TRY(buffer(r->b, u, &out, r->err));
        break;
    case TK_OP_SLICE:
        TK_TRY(tk_resolve_slice(u, sources[0], &out, r->err));
        break;
    case TK_OP_MSELECT:
        TK_TRY(mselect(u, sources[0], &out, r->err));
        break;
    default:
        TK_TRY(mstack(u, sources, &out, &r->b->ctx->al, r->err));
    }
    if (n && !put_known(r->memo, u, out)) {
        tk_bindings_to_drop(&out);
        return tk_status_nomem(r->err);
    }
    return leave(r, out);
}

static tolk_status resolve_in(resolving *r, const tolk_uop *node, tk_bindings_to *out) {
    const tolk_uop *own = node;
    refresh(r->memo);
    if (node->graph != r->b->graph)
        TK_TRY(tk_import_more(r->b->graph, node, &r->memo->own, &own, r->err));
    tk_vec_init(&r->stack, &r->b->ctx->al);
    tk_vec_init(&r->values, &r->b->ctx->al);
    tolk_status st = enter(r, own, 0);
    while (st == TOLK_OK && r->stack.n)
        st = step(r);
    if (st == TOLK_OK)
        *out = tk_vec_pop(&r->values);
    while (r->values.n)
        tk_bindings_to_drop(&r->values.at[--r->values.n]);
    tk_vec_fini(&r->stack);
    tk_vec_fini(&r->values);
    return st;
}

tolk_status tk_resolve(tolk_bindings *b, tk_resolve_memo *memo, const tolk_uop *const *inputs,
                       size_t n_inputs, const tolk_uop *node, tk_bindings_to *out,
                       tolk_error *err) {
    tk_resolve_memo own;
    tk_resolve_memo_init(&own, b);
    resolving r = {
        .b = b, .memo = memo ? memo : &own, .inputs = inputs, .n_inputs = n_inputs, .err = err};
    tolk_status st = resolve_in(&r, node, out);
    tk_resolve_memo_fini(&own);
    return st;
}

/* ---- public ---- */

tolk_status tk_resolve_check_args(const char *call, const tolk_run_args *args, tolk_error *err) {
    const char *wrong = NULL;
    if (!args)
        return TOLK_OK;
    if (args->size != sizeof *args)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_run_args.size is %u, this library knows %zu (use "
                              "TOLK_RUN_INIT)",
                              args->size, sizeof *args);
    if (args->jit > 1 || args->wait > 1)
        wrong = "jit or wait is neither 0 nor 1";
    else if (args->n_vars && !args->vars)
        wrong = "vars is NULL";
    else if (args->n_inputs && !args->inputs)
        wrong = "inputs is NULL";
    return wrong ? tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: %s", call, wrong) : TOLK_OK;
}

static tolk_status resolve(const char *call, tolk_bindings *bindings, const tolk_run_args *args,
                           const tolk_uop *node, bool good, tk_bindings_to *to, tolk_error *err) {
    if (!bindings || !node || !good)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: bindings, node or out is NULL",
                              call);
    TK_TRY(tk_resolve_check_args(call, args, err));
    tk_realize_here(bindings->ctx);
    tk_bindings_begin(bindings);
    return tk_resolve(bindings, NULL, args ? args->inputs : NULL, args ? args->n_inputs : 0, node,
                      to, err);
}

tolk_status tolk_resolve(tolk_bindings *bindings, const tolk_run_args *args, const tolk_uop *node,
                         tolk_buffer **out, tolk_multi **out_multi, tolk_error *err) {
    tk_bindings_to to = {NULL, NULL};
    TK_TRY(resolve("tolk_resolve", bindings, args, node, out && out_multi, &to, err));
    *out = to.one;
    *out_multi = to.many;
    return TOLK_OK;
}

tolk_status tolk_resolve_single(tolk_bindings *bindings, const tolk_run_args *args,
                                const tolk_uop *node, tolk_buffer **out, tolk_error *err) {
    tk_bindings_to to = {NULL, NULL};
    TK_TRY(resolve("tolk_resolve_single", bindings, args, node, out != NULL, &to, err));
    if (to.many) {
        size_t n = to.many->n;
        tk_bindings_to_drop(&to);
        return fail(node, TOLK_E_DEVICE, err, "it is %zu buffers, expected one", n);
    }
    *out = to.one;
    return TOLK_OK;
}
