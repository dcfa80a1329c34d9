/* SPDX-License-Identifier: MIT
 *
 * The rules of docs/ir.md, "Calls": what a linear of calls may hold.
 */
#include "ir/params.h"
#include "ir/shape.h"
#include "ir/verify_parts.h"

#include <string.h>

static const char *name_of(const tolk_uop *u) {
    return tk_op_get(tk_uop_op(u))->name;
}

/* Number of elements, if the shape is constant. Shapes were looked at before. */
static bool elems_of(const tolk_uop *u, int64_t *n) {
    const tk_shape *shape;
    return tk_shape_get(u, &shape, NULL, NULL) == TOLK_OK && tk_shape_elems(shape, n);
}

/* ---- arguments ---- */

/* What can stand for a buffer in the calls of a linear. */
static bool names_buffer(const tolk_uop *u) {
    return tk_check_is_buffer(u) || tk_uop_is(u, TK_OP_SLICE) || tk_uop_is(u, TK_OP_MSELECT) ||
           tk_uop_is(u, TK_OP_MSTACK);
}

/* The i-th argument that is no scalar; NULL past the end. */
static const tolk_uop *buffer_arg(const tolk_uop *call, uint32_t i) {
    for (uint32_t k = 1; k < call->n_src; k++)
        if (!tk_check_is_value(call->src[k]) && i-- == 0)
            return call->src[k];
    return NULL;
}

static uint32_t n_buffers(const tolk_uop *call) {
    uint32_t n = 0;
    for (uint32_t k = 1; k < call->n_src; k++)
        n += !tk_check_is_value(call->src[k]);
    return n;
}

static tolk_status kernel_params(const tk_verify_cx *cx, const tolk_uop *call,
                                 const tk_params *params) {
    uint32_t n = n_buffers(call);
    if (n != params->n_bufs)
        return tk_verify_fail(cx, call, TOLK_E_VERIFY, "%u buffer%s, but its kernel takes %u", n,
                              n == 1 ? "" : "s", params->n_bufs);
    for (uint32_t i = 0; i < n; i++) {
        const tk_param *p = tk_params_buf(params, i);
        const tolk_uop *arg = buffer_arg(call, i);
        char text[64];
        if (arg->dtype != p->dtype)
            return tk_verify_fail(
                cx, call, TOLK_E_DTYPE, "buffer %u is of %s, but param %s of its kernel of %s", i,
                tolk_dtype_name(arg->dtype), tk_params_text(p, text), tolk_dtype_name(p->dtype));
    }
    return TOLK_OK;
}

static tolk_status kernel_args(const tk_verify_cx *cx, const tolk_uop *call, const tolk_uop *sink) {
    tk_params params;
    tolk_error why = TOLK_ERROR_INIT;
    tolk_status st = tk_params_init(&params, sink, cx->al, &why);
    if (st == TOLK_E_NOMEM)
        return tk_status_nomem(cx->err);
    if (st != TOLK_OK)
        return TOLK_OK; /* the kernel's own check says it better */
    st = kernel_params(cx, call, &params);
    tk_params_fini(&params);
    return st;
}

static tolk_status two_buffers(const tk_verify_cx *cx, const tolk_uop *call, const char *which) {
    if (call->n_src == 3 && !tk_check_is_value(call->src[1]) && !tk_check_is_value(call->src[2]))
        return TOLK_OK;
    return tk_verify_fail(cx, call, TOLK_E_VERIFY, "%u arguments, expected 2 buffers: %s",
                          call->n_src - 1, which);
}

static tolk_status copy_args(const tk_verify_cx *cx, const tolk_uop *call) {
    TK_TRY(two_buffers(cx, call, "dest and src"));
    const tolk_uop *dest = call->src[1], *src = call->src[2];
    int64_t n, m;
    if (dest->dtype != src->dtype)
        return tk_verify_fail(cx, call, TOLK_E_DTYPE, "dest is of %s, src of %s",
                              tolk_dtype_name(dest->dtype), tolk_dtype_name(src->dtype));
    if (elems_of(dest, &n) && elems_of(src, &m) && n != m)
        return tk_verify_fail(cx, call, TOLK_E_SHAPE, "dest has %lld elements, src has %lld",
                              (long long)n, (long long)m);
    return TOLK_OK;
}

static tolk_status slice_args(const tk_verify_cx *cx, const tolk_uop *call) {
    TK_TRY(two_buffers(cx, call, "what becomes the view, and of what"));
    const tolk_uop *slice = call->src[0], *out = call->src[1];
    int64_t n, count = tk_uop_int(slice, TK_A_SLICE_COUNT);
    if (!tk_uop_is(out, TK_OP_BUFFER))
        return tk_verify_fail(cx, call, TOLK_E_VERIFY, "argument 0 is %s, expected a buffer",
                              name_of(out));
    if (out->dtype != slice->dtype)
        return tk_verify_fail(cx, call, TOLK_E_DTYPE, "argument 0 is of %s, the slice of %s",
                              tolk_dtype_name(out->dtype), tolk_dtype_name(slice->dtype));
    if (elems_of(out, &n) && n != count)
        return tk_verify_fail(cx, call, TOLK_E_SHAPE,
                              "argument 0 has %lld elements, the slice has %lld", (long long)n,
                              (long long)count);
    return TOLK_OK;
}

static tolk_status graph_body(const tk_verify_cx *cx, const tolk_uop *call) {
    const tolk_uop *body = call->src[0];
    const char *name = tk_uop_str(body, TK_A_CUSTOM_FUNCTION_NAME);
    if (strcmp(name, "graph") != 0)
        return tk_verify_fail(cx, body, TOLK_E_VERIFY, "its name is \"%.40s\", expected \"graph\"",
                              name);
    if (body->n_src != 1 || !tk_uop_is(body->src[0], TK_OP_LINEAR))
        return tk_verify_fail(cx, body, TOLK_E_VERIFY, "expected one operand, a linear");
    return TOLK_OK;
}

/* ---- calls ---- */

/* A call of a linear: its arguments are buffers and values of variables. */
static tolk_status listed_call(const tk_verify_cx *cx, const tolk_uop *call) {
    const tolk_uop *body = call->src[0];
    for (uint32_t i = 1; i < call->n_src; i++)
        if (!tk_check_is_value(call->src[i]) && !names_buffer(call->src[i]))
            return tk_verify_fail(cx, call, TOLK_E_VERIFY,
                                  "argument %u is %s, expected a buffer (param, buffer, slice, "
                                  "mselect, mstack), a bind or a variable",
                                  i - 1, name_of(call->src[i]));
    switch (tk_uop_op(body)) {
    case TK_OP_SINK:
        return tk_check_is_states(body) ? TOLK_OK : kernel_args(cx, call, body);
    case TK_OP_PROGRAM:
        return kernel_args(cx, call, body->src[0]);
    case TK_OP_COPY:
        return copy_args(cx, call);
    case TK_OP_SLICE:
        return slice_args(cx, call);
    default:
        return TOLK_OK;
    }
}

static tolk_status call_body(const tk_verify_cx *cx, const tolk_uop *call) {
    const tolk_uop *body = call->src[0];
    switch (tk_uop_op(body)) {
    case TK_OP_SINK:
    case TK_OP_PROGRAM:
    case TK_OP_LINEAR:
    case TK_OP_COPY:
    case TK_OP_SLICE:
        return TOLK_OK;
    case TK_OP_CUSTOM_FUNCTION:
        return graph_body(cx, call);
    default:
        return tk_verify_fail(cx, call, TOLK_E_VERIFY,
                              "its body is %s, expected sink, program, linear, copy, slice or "
                              "custom_function",
                              name_of(body));
    }
}

static tolk_status linear_calls(const tk_verify_cx *cx, const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++) {
        const tolk_uop *call = linear->src[i];
        if (!tk_uop_is(call, TK_OP_CALL))
            return tk_verify_fail(cx, linear, TOLK_E_VERIFY, "operand %u is %s, expected a call", i,
                                  name_of(call));
        TK_TRY(listed_call(cx, call));
    }
    return TOLK_OK;
}

/* ---- parts of buffers ---- */

static tolk_status slice_bounds(const tk_verify_cx *cx, const tolk_uop *u) {
    const tolk_uop *source = u->src[0];
    int64_t n, offset, end, count = tk_uop_int(u, TK_A_SLICE_COUNT);
    int64_t elem = (int64_t)tolk_dtype_bytes(u->dtype), have;
    if (!tk_uop_is_const(u->src[1]))
        return TOLK_OK;
    offset = u->src[1]->attr[0].i;
    if (offset < 0)
        return tk_verify_fail(cx, u, TOLK_E_RANGE, "its offset is %lld, expected at least 0",
                              (long long)offset);
    int64_t from = (int64_t)tolk_dtype_bytes(source->dtype);
    if (!elems_of(source, &n) || !tk_check_mul(&n, from))
        return TOLK_OK;
    have = n / from;
    if (!tk_check_mul(&offset, from) || !tk_check_mul(&count, elem) ||
        __builtin_add_overflow(offset, count, &end) || end > n)
        return tk_verify_fail(
            cx, u, TOLK_E_RANGE, "%lld elements of %s at %lld of %lld elements of %s",
            (long long)tk_uop_int(u, TK_A_SLICE_COUNT), tolk_dtype_name(u->dtype),
            (long long)u->src[1]->attr[0].i, (long long)have, tolk_dtype_name(source->dtype));
    return TOLK_OK;
}

static tolk_status mselect_index(const tk_verify_cx *cx, const tolk_uop *u) {
    const tolk_uop *source = u->src[0];
    int64_t i = tk_uop_int(u, TK_A_MSELECT_INDEX);
    if (tk_uop_is(source, TK_OP_MSTACK) && i >= (int64_t)source->n_src)
        return tk_verify_fail(cx, u, TOLK_E_RANGE, "index is %lld, expected 0..%u", (long long)i,
                              source->n_src - 1);
    return TOLK_OK;
}

tolk_status tk_verify_call(const tk_verify_cx *cx, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_LINEAR:
        return linear_calls(cx, u);
    case TK_OP_CALL:
        return call_body(cx, u);
    case TK_OP_SLICE:
        return slice_bounds(cx, u);
    case TK_OP_MSELECT:
        return mselect_index(cx, u);
    default:
        return TOLK_OK;
    }
}
