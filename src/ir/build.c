/* SPDX-License-Identifier: MIT
 *
 * The public builders and accessors. Each node is checked by the rules of its op (check.h) before
 * it is made. The first error stays in the graph; NULL sources pass through in silence.
 */
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/narrow.h"
#include "ir/uop.h"

#include <string.h>

enum {
    MAX_ATTRS = 8,
    MAX_STRING_BYTES = 2 << 20, /* what the text form can hold; see parse.c */
    MAX_LIST = 1 << 16,
    MAX_RANK = 8
};

/* ---- graphs and ops ---- */

tolk_op tolk_op_find(const char *name) {
    tk_op op;
    return name && tk_op_find(name, strlen(name), &op) ? (tolk_op)op : TOLK_OP_NONE;
}

const char *tolk_op_name(tolk_op op) {
    return op < TK_OP_COUNT ? tk_op_get((tk_op)op)->name : NULL;
}

tolk_status tolk_graph_create(tolk_ctx *ctx, tolk_graph **out) {
    return tk_graph_create(ctx, out);
}

void tolk_graph_destroy(tolk_graph *graph) {
    tk_graph_destroy(graph);
}

tolk_status tolk_graph_error(const tolk_graph *graph, tolk_error *err) {
    if (err && graph->error.code != TOLK_OK)
        *err = graph->error;
    return graph->error.code;
}

void tolk_graph_clear_error(tolk_graph *graph) {
    graph->error = (tolk_error)TOLK_ERROR_INIT;
}

tolk_status tk_graph_take_error(tolk_graph *g, tolk_error *err) {
    tolk_status st = tolk_graph_error(g, err);
    tolk_graph_clear_error(g);
    return st != TOLK_OK ? st : tk_status_nomem(err);
}

uint32_t tolk_graph_count(const tolk_graph *graph) {
    return (uint32_t)graph->nodes.n;
}

/* ---- any node ---- */

/* Check and make. attrs in table order; NULL: all default. */
static const tolk_uop *make(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *const *src,
                            size_t n, const tk_attr *attrs) {
    for (size_t i = 0; i < n; i++)
        if (!src[i]) { /* only a first error is news */
            return tk_graph_failed(g) ? NULL
                                      : tk_graph_fail(g, TOLK_E_ARG, "%s: source %zu is NULL",
                                                      tk_op_get(op)->name, i);
        } else if (src[i]->graph != g) {
            return tk_graph_fail(g, TOLK_E_ARG, "%s: source %zu belongs to another graph",
                                 tk_op_get(op)->name, i);
        }
    tk_attr defaults[MAX_ATTRS];
    if (!attrs) {
        const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
        memset(defaults, 0, sizeof defaults);
        for (uint32_t i = 0; i < tk_op_n_attr(op); i++)
            if (info[i].kind != TK_ATTR_STR && info[i].kind != TK_ATTR_INTS &&
                info[i].kind != TK_ATTR_BYTES)
                defaults[i].i = info[i].def;
        attrs = defaults;
    }
    tolk_error why = TOLK_ERROR_INIT;
    if (tk_check_node(g, op, dtype, src, n, attrs, &why) != TOLK_OK)
        return tk_graph_fail(g, why.code, "%s", why.msg);
    return tk_uop(g, op, dtype, src, n, attrs);
}

/* The same with the dtype that the op's rule gives. */
static const tolk_uop *make_by_rule(tolk_graph *g, tk_op op, tolk_dtype given,
                                    const tolk_uop *const *src, size_t n, const tk_attr *attrs) {
    for (size_t i = 0; i < n; i++)
        if (!src[i])
            return make(g, op, given, src, n, attrs); /* which says so */
    return make(g, op, tk_uop_result_dtype(op, src, n, given), src, n, attrs);
}

/* A string that the text form can print and read. NULL is recorded. */
static const tk_blob *checked_string(tolk_graph *g, tk_op op, const char *key, const char *s) {
    size_t n = strlen(s);
    if (n > MAX_STRING_BYTES) {
        tk_graph_fail(g, TOLK_E_LIMIT, "%s: %s has %zu bytes, at most %d", tk_op_get(op)->name, key,
                      n, MAX_STRING_BYTES);
        return NULL;
    }
    size_t valid = tk_literal_utf8(s, n);
    if (valid < n) {
        tk_graph_fail(g, TOLK_E_ARG, "%s: %s is not UTF-8 at byte %zu", tk_op_get(op)->name, key,
                      valid);
        return NULL;
    }
    return tk_blob_str(g, s, n);
}

/* Is the value in the member that the kind of attribute uses? What tolk_uop_attr() filled in is. */
static bool right_member(tolk_graph *g, tk_op op, const tk_attr_info *info, const tolk_attr *in) {
    const char *have, *expected;
    switch (info->kind) {
    case TK_ATTR_INT:
    case TK_ATTR_BOOL:
        have = in->s ? "a string in s" : "a list in ints";
        expected = info->kind == TK_ATTR_INT ? "an integer in i" : "0 or 1 in i";
        if (!in->s && !in->ints)
            return true;
        break;
    case TK_ATTR_SPACE:
    case TK_ATTR_AXIS:
    case TK_ATTR_ROP:
        have = "a list in ints";
        expected = "a name in s or a number in i";
        if (!in->ints)
            return true;
        break;
    case TK_ATTR_STR:
        have = in->ints ? "a list in ints" : in->i ? "a number in i" : "NULL in s";
        expected = "a string in s";
        if (in->s)
            return true;
        break;
    case TK_ATTR_INTS:
        have = in->s ? "a string in s" : "a number in i";
        expected = "a list in ints and n";
        if (in->ints || (!in->s && !in->i))
            return true;
        break;
    default: /* bytes */
        have = in->ints ? "a list in ints" : "a number in i";
        expected = "bytes in s and n";
        if (in->s || (!in->ints && !in->i))
            return true;
        break;
    }
    tk_graph_fail(g, TOLK_E_ARG, "%s: %s has %s, expected %s", tk_op_get(op)->name, info->key, have,
                  expected);
    return false;
}

static bool attr_value(tolk_graph *g, tk_op op, const tk_attr_info *info, const tolk_attr *in,
                       tk_attr *out) {
    const char *name = tk_op_get(op)->name;
    if (!right_member(g, op, info, in))
        return false;
    switch (info->kind) {
    case TK_ATTR_INT:
        out->i = in->i;
        return true;
    case TK_ATTR_BOOL:
        out->i = in->i != 0;
        return true;
    case TK_ATTR_SPACE:
    case TK_ATTR_AXIS:
    case TK_ATTR_ROP:
        out->i = in->i;
        if (in->s) {
            out->i = tk_op_enum_find(info->kind, in->s, strlen(in->s));
            if (out->i < 0)
                tk_graph_fail(g, TOLK_E_ARG, "%s: %s has no value \"%.64s\"", name, info->key,
                              in->s);
            return out->i >= 0;
        }
        for (int64_t i = 0; tk_op_enum_text(info->kind, i); i++)
            if (i == in->i)
                return true;
        tk_graph_fail(g, TOLK_E_ARG, "%s: %s has no value %lld", name, info->key, (long long)in->i);
        return false;
    case TK_ATTR_STR:
        out->blob = checked_string(g, op, info->key, in->s);
        return out->blob != NULL;
    case TK_ATTR_INTS:
    case TK_ATTR_BYTES:
        break;
    }
    bool ints = info->kind == TK_ATTR_INTS;
    size_t most = ints ? (size_t)MAX_LIST : (size_t)MAX_STRING_BYTES / 2;
    if (in->n > most || (in->n && !(ints ? (const void *)in->ints : in->s))) {
        tk_graph_fail(g, in->n > most ? TOLK_E_LIMIT : TOLK_E_ARG,
                      "%s: %s has %zu elements%s, at most %zu", name, info->key, in->n,
                      in->n > most ? "" : " at NULL", most);
        return false;
    }
    out->blob = ints ? tk_blob_ints(g, in->ints, in->n) : tk_blob_str(g, in->s, in->n);
    return out->blob != NULL;
}

/* Attributes by key to table order. */
static bool map_attrs(tolk_graph *g, tk_op op, const tolk_attr *in, size_t n, tk_attr *out) {
    const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
    uint32_t n_attr = tk_op_n_attr(op);
    const char *name = tk_op_get(op)->name;
    bool given[MAX_ATTRS] = {false};
    memset(out, 0, MAX_ATTRS * sizeof *out);
    for (uint32_t i = 0; i < n_attr; i++)
        if (info[i].kind != TK_ATTR_STR && info[i].kind != TK_ATTR_INTS &&
            info[i].kind != TK_ATTR_BYTES)
            out[i].i = info[i].def;
    for (size_t k = 0; k < n; k++) {
        uint32_t i = 0;
        while (i < n_attr && !(in[k].key && strcmp(info[i].key, in[k].key) == 0))
            i++;
        if (i == n_attr || given[i]) {
            tk_graph_fail(g, TOLK_E_ARG, "%s: attribute \"%.64s\" %s", name,
                          in[k].key ? in[k].key : "(NULL)",
                          i == n_attr ? "does not exist" : "is given twice");
            return false;
        }
        given[i] = true;
        if (!attr_value(g, op, &info[i], &in[k], &out[i]))
            return false;
    }
    for (uint32_t i = 0; i < n_attr; i++)
        if (info[i].required && !given[i]) {
            tk_graph_fail(g, TOLK_E_ARG, "%s: attribute \"%s\" is missing", name, info[i].key);
            return false;
        }
    return true;
}

const tolk_uop *tolk_uop_new(tolk_graph *graph, tolk_op op, tolk_dtype dtype,
                             const tolk_uop *const *src, size_t n, const tolk_attr *attrs,
                             size_t n_attrs) {
    if (op == TOLK_OP_NONE)
        return tk_graph_fail(graph, TOLK_E_ARG,
                             "the op is TOLK_OP_NONE: tolk_op_find found no op of that name");
    if (op >= TK_OP_COUNT)
        return tk_graph_fail(graph, TOLK_E_ARG, "%u is the number of no op", op);
    if (op == TK_OP_CONST)
        return tk_graph_fail(
            graph, TOLK_E_ARG,
            "const: made by tolk_const_int, _uint, _float, _bool and tolk_invalid");
    if (n > TK_MANY)
        return tk_graph_fail(graph, TOLK_E_LIMIT, "%s: %zu sources, at most %d",
                             tk_op_get((tk_op)op)->name, n, TK_MANY);
    tk_attr list[MAX_ATTRS];
    if (!map_attrs(graph, (tk_op)op, attrs, n_attrs, list))
        return NULL;
    if (dtype == TOLK_VOID)
        return make_by_rule(graph, (tk_op)op, dtype, src, n, list);
    return make(graph, (tk_op)op, dtype, src, n, list);
}

/* ---- constants ---- */

static bool is_scalar_dtype(tolk_graph *g, tolk_dtype dtype) {
    if (tk_dtype_valid(dtype) && dtype != TOLK_VOID && tolk_dtype_lanes(dtype) == 1)
        return true;
    char name[16];
    tk_graph_fail(g, TOLK_E_DTYPE, "const: dtype %s, expected a scalar one",
                  tk_dtype_text(dtype, name));
    return false;
}

const tolk_uop *tolk_const_int(tolk_graph *graph, tolk_dtype dtype, int64_t value) {
    if (!is_scalar_dtype(graph, dtype))
        return NULL;
    if (tolk_dtype_is_float(dtype))
        return tk_uop_const(graph, dtype, tk_narrow_from_i64(dtype, value));
    /* Of u64, the greatest value that an int64 can be is in range. */
    if (value < tk_dtype_min(dtype) || value > tk_dtype_max(dtype))
        return tk_graph_fail(graph, TOLK_E_RANGE, "const: %lld is out of the range of %s",
                             (long long)value, tolk_dtype_name(dtype));
    return tk_uop_const(graph, dtype, (uint64_t)value);
}

const tolk_uop *tolk_const_uint(tolk_graph *graph, tolk_dtype dtype, uint64_t value) {
    if (value <= INT64_MAX)
        return tolk_const_int(graph, dtype, (int64_t)value);
    if (!is_scalar_dtype(graph, dtype))
        return NULL;
    if (tolk_dtype_is_float(dtype))
        return tk_uop_const(graph, dtype, tk_narrow_from_u64(dtype, value));
    if (dtype != TOLK_U64)
        return tk_graph_fail(graph, TOLK_E_RANGE, "const: %llu is out of the range of %s",
                             (unsigned long long)value, tolk_dtype_name(dtype));
    return tk_uop_const(graph, dtype, value);
}

const tolk_uop *tolk_const_float(tolk_graph *graph, tolk_dtype dtype, double value) {
    if (!is_scalar_dtype(graph, dtype))
        return NULL;
    if (!tolk_dtype_is_float(dtype))
        return tk_graph_fail(graph, TOLK_E_DTYPE, "const: a float value for dtype %s",
                             tolk_dtype_name(dtype));
    return tk_uop_const(graph, dtype, tk_narrow_round(dtype, value));
}

const tolk_uop *tolk_const_bool(tolk_graph *graph, int value) {
    return tk_uop_const(graph, TOLK_BOOL, value != 0);
}

const tolk_uop *tolk_invalid(tolk_graph *graph) {
    return tk_uop_invalid(graph);
}

/* ---- params and ranges ---- */

/* attrs of a param: slot, name, space, min, max, device, axis */
static bool param_attrs(tolk_graph *g, int64_t slot, const char *name, tk_attr attrs[MAX_ATTRS]) {
    memset(attrs, 0, MAX_ATTRS * sizeof *attrs);
    attrs[0].i = slot;
    if (name) {
        attrs[1].blob = checked_string(g, TK_OP_PARAM, "name", name);
        if (!attrs[1].blob)
            return false;
    }
    attrs[2].i = TK_SPACE_GLOBAL;
    attrs[3].i = INT64_MIN;
    attrs[4].i = INT64_MAX;
    attrs[6].i = -1;
    return true;
}
_Static_assert(TK_A_PARAM_NAME == TK_A_PARAM_SLOT + 1 && TK_A_PARAM_SPACE == TK_A_PARAM_SLOT + 2 &&
                   TK_A_PARAM_MIN == TK_A_PARAM_SLOT + 3 && TK_A_PARAM_MAX == TK_A_PARAM_SLOT + 4 &&
                   TK_A_PARAM_AXIS == TK_A_PARAM_SLOT + 6,
               "param_attrs() knows the order");

/* A PARAM or BUFFER of a shape. */
static const tolk_uop *make_shaped(tolk_graph *g, tk_op op, tolk_dtype dtype,
                                   const tolk_uop *const *dims, size_t rank, const tk_attr *attrs) {
    if (rank > MAX_RANK)
        return tk_graph_fail(g, TOLK_E_LIMIT, "%s: %zu dimensions, at most %d", tk_op_get(op)->name,
                             rank, MAX_RANK);
    if (rank < 2)
        return make(g, op, dtype, dims, rank, attrs);
    const tolk_uop *shape = make(g, TK_OP_STACK, TOLK_INDEX, dims, rank, NULL);
    return make(g, op, dtype, &shape, 1, attrs);
}

/* Constant dimensions as nodes; what is above the limit is left to make_shaped(). */
static bool const_dims(tolk_graph *g, tk_op op, const int64_t *dims, size_t rank,
                       const tolk_uop *sizes[MAX_RANK]) {
    for (size_t i = 0; i < rank && i < MAX_RANK; i++) {
        if (dims[i] < 0) {
            tk_graph_fail(g, TOLK_E_SHAPE, "%s: dimension %zu is %lld", tk_op_get(op)->name, i,
                          (long long)dims[i]);
            return false;
        }
        sizes[i] = tk_uop_index_const(g, dims[i]);
    }
    return true;
}

const tolk_uop *tolk_param_sym(tolk_graph *graph, tolk_dtype dtype, const tolk_uop *const *dims,
                               size_t rank, int64_t slot, const char *name) {
    tk_attr attrs[MAX_ATTRS];
    return param_attrs(graph, slot, name, attrs)
               ? make_shaped(graph, TK_OP_PARAM, dtype, dims, rank, attrs)
               : NULL;
}

const tolk_uop *tolk_param(tolk_graph *graph, tolk_dtype dtype, const int64_t *dims, size_t rank,
                           int64_t slot, const char *name) {
    const tolk_uop *sizes[MAX_RANK];
    return const_dims(graph, TK_OP_PARAM, dims, rank, sizes)
               ? tolk_param_sym(graph, dtype, sizes, rank, slot, name)
               : NULL;
}

const tolk_uop *tolk_scalar(tolk_graph *graph, tolk_dtype dtype, int64_t slot, const char *name) {
    tk_attr attrs[MAX_ATTRS];
    if (!param_attrs(graph, slot, name, attrs))
        return NULL;
    attrs[2].i = TK_SPACE_ALU;
    return make(graph, TK_OP_PARAM, dtype, NULL, 0, attrs);
}

const tolk_uop *tolk_variable(tolk_graph *graph, tolk_dtype dtype, int64_t slot, const char *name,
                              int64_t min, int64_t max) {
    tk_attr attrs[MAX_ATTRS];
    if (!tolk_dtype_is_int(dtype) || min < tk_dtype_min(dtype) || max > tk_dtype_max(dtype) ||
        min > max)
        return tk_graph_fail(graph, tolk_dtype_is_int(dtype) ? TOLK_E_RANGE : TOLK_E_DTYPE,
                             "param: a variable of dtype %s with the bounds %lld .. %lld",
                             tolk_dtype_name(dtype), (long long)min, (long long)max);
    if (!param_attrs(graph, slot, name, attrs))
        return NULL;
    attrs[2].i = TK_SPACE_ALU;
    attrs[3].i = min;
    attrs[4].i = max;
    return make(graph, TK_OP_PARAM, dtype, NULL, 0, attrs);
}

const tolk_uop *tolk_range(tolk_graph *graph, const tolk_uop *size, int64_t axis, tolk_axis kind) {
    if ((unsigned)kind >= TK_AXIS_COUNT)
        return tk_graph_fail(graph, TOLK_E_ARG, "range: kind has no value %d", (int)kind);
    tk_attr attrs[MAX_ATTRS] = {{.i = axis}, {.blob = NULL}, {.i = (int64_t)kind}, {.i = 0}};
    return make(graph, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs);
}
_Static_assert(TK_A_RANGE_KIND == TK_A_RANGE_AXIS + 2, "tolk_range() knows the order");
_Static_assert((int)TOLK_AXIS_LANE == (int)TK_AXIS_LANE, "the public enum is the same");

/* ---- memory and control ---- */

/* first, then rest[n]. Lists that fit are joined on the stack. */
static const tolk_uop *make_joined(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *first,
                                   const tolk_uop *const *rest, size_t n, const tk_attr *attrs) {
    const tolk_uop *few[17];
    if (n >= TK_MANY)
        return tk_graph_fail(g, TOLK_E_LIMIT, "%s: %zu sources, at most %d", tk_op_get(op)->name,
                             n + 1, TK_MANY);
    size_t bytes = (n + 1) * sizeof *rest;
    const tolk_uop **src = n + 1 <= sizeof few / sizeof *few ? few : tk_alloc(g->al, bytes);
    if (!src)
        return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    src[0] = first;
    if (n)
        memcpy(src + 1, rest, n * sizeof *rest);
    const tolk_uop *u = make_by_rule(g, op, dtype, src, n + 1, attrs);
    if (src != few)
        tk_alloc_free(g->al, src, bytes);
    return u;
}

const tolk_uop *tolk_index(tolk_graph *graph, const tolk_uop *buffer, const tolk_uop *const *idx,
                           size_t n) {
    return make_joined(graph, TK_OP_INDEX, buffer ? buffer->dtype : TOLK_VOID, buffer, idx, n,
                       NULL);
}

const tolk_uop *tolk_load(tolk_graph *graph, const tolk_uop *place) {
    return make(graph, TK_OP_LOAD, place ? place->dtype : TOLK_VOID, &place, 1, NULL);
}

const tolk_uop *tolk_load_gated(tolk_graph *graph, const tolk_uop *place, const tolk_uop *alt,
                                const tolk_uop *gate) {
    return make(graph, TK_OP_LOAD, place ? place->dtype : TOLK_VOID,
                (const tolk_uop *[]){place, alt, gate}, 3, NULL);
}

const tolk_uop *tolk_store(tolk_graph *graph, const tolk_uop *place, const tolk_uop *value) {
    return make(graph, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){place, value}, 2, NULL);
}

const tolk_uop *tolk_store_gated(tolk_graph *graph, const tolk_uop *place, const tolk_uop *value,
                                 const tolk_uop *gate) {
    return make(graph, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){place, value, gate}, 3, NULL);
}

const tolk_uop *tolk_end(tolk_graph *graph, const tolk_uop *effect, const tolk_uop *const *ranges,
                         size_t n) {
    return make_joined(graph, TK_OP_END, TOLK_VOID, effect, ranges, n, NULL);
}

const tolk_uop *tolk_reduce(tolk_graph *graph, tolk_reduce_op op, const tolk_uop *value,
                            const tolk_uop *const *ranges, size_t n) {
    if ((unsigned)op > TOLK_REDUCE_MAX)
        return tk_graph_fail(graph, TOLK_E_ARG, "reduce: op has no value %d", (int)op);
    tk_attr attrs[MAX_ATTRS] = {{.i = (int64_t)op}, {.i = 0}};
    return make_joined(graph, TK_OP_REDUCE, TOLK_VOID, value, ranges, n, attrs);
}
_Static_assert((int)TOLK_REDUCE_MUL == (int)TK_ROP_MUL && (int)TOLK_REDUCE_MAX == (int)TK_ROP_MAX,
               "the public enum is the same");

const tolk_uop *tolk_sink(tolk_graph *graph, const tolk_uop *const *effects, size_t n,
                          const char *name) {
    tk_attr attrs[MAX_ATTRS] = {{.blob = NULL}, {.blob = NULL}};
    if (n > TK_MANY)
        return tk_graph_fail(graph, TOLK_E_LIMIT, "sink: %zu sources, at most %d", n, TK_MANY);
    if (name && !(attrs[0].blob = checked_string(graph, TK_OP_SINK, "name", name)))
        return NULL;
    return make(graph, TK_OP_SINK, TOLK_VOID, effects, n, attrs);
}
_Static_assert(TK_A_SINK_OPTS == TK_A_SINK_NAME + 1, "tolk_sink() knows the order");

const tolk_uop *tolk_after(tolk_graph *graph, const tolk_uop *x, const tolk_uop *const *effects,
                           size_t n) {
    return make_joined(graph, TK_OP_AFTER, TOLK_VOID, x, effects, n, NULL);
}

/* ---- calls ---- */

/* One string attribute that must be there. */
static bool needed_string(tolk_graph *g, tk_op op, const char *key, const char *s,
                          tk_attr attrs[MAX_ATTRS]) {
    memset(attrs, 0, MAX_ATTRS * sizeof *attrs);
    if (!s)
        tk_graph_fail(g, TOLK_E_ARG, "%s: %s is NULL", tk_op_get(op)->name, key);
    else
        attrs[0].blob = checked_string(g, op, key, s);
    return attrs[0].blob != NULL;
}

const tolk_uop *tolk_buffer_node_sym(tolk_graph *graph, tolk_dtype dtype,
                                     const tolk_uop *const *dims, size_t rank, int64_t slot,
                                     const char *device) {
    tk_attr attrs[MAX_ATTRS] = {{.i = slot}, {.i = TK_SPACE_GLOBAL}, {.i = 0}, {.blob = NULL}};
    if (device && !(attrs[3].blob = checked_string(graph, TK_OP_BUFFER, "device", device)))
        return NULL;
    return make_shaped(graph, TK_OP_BUFFER, dtype, dims, rank, attrs);
}
_Static_assert(TK_A_BUFFER_SPACE == TK_A_BUFFER_SLOT + 1 &&
                   TK_A_BUFFER_DYNAMIC == TK_A_BUFFER_SLOT + 2 &&
                   TK_A_BUFFER_DEVICE == TK_A_BUFFER_SLOT + 3,
               "tolk_buffer_node_sym() knows the order");

const tolk_uop *tolk_buffer_node(tolk_graph *graph, tolk_dtype dtype, const int64_t *dims,
                                 size_t rank, int64_t slot, const char *device) {
    const tolk_uop *sizes[MAX_RANK];
    return const_dims(graph, TK_OP_BUFFER, dims, rank, sizes)
               ? tolk_buffer_node_sym(graph, dtype, sizes, rank, slot, device)
               : NULL;
}

const tolk_uop *tolk_slice(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype, int64_t offset,
                           int64_t count) {
    tk_attr attrs[MAX_ATTRS] = {{.i = count}};
    if (offset < 0)
        return tk_graph_fail(graph, TOLK_E_RANGE, "slice: offset is %lld, expected at least 0",
                             (long long)offset);
    const tolk_uop *src[] = {x, tk_uop_index_const(graph, offset)};
    return make(graph, TK_OP_SLICE, dtype, src, 2, attrs);
}

const tolk_uop *tolk_mselect(tolk_graph *graph, const tolk_uop *x, int64_t index) {
    tk_attr attrs[MAX_ATTRS] = {{.i = index}};
    return make_by_rule(graph, TK_OP_MSELECT, TOLK_VOID, &x, 1, attrs);
}

const tolk_uop *tolk_mstack(tolk_graph *graph, const tolk_uop *const *x, size_t n) {
    return make_by_rule(graph, TK_OP_MSTACK, TOLK_VOID, x, n, NULL);
}

const tolk_uop *tolk_bind(tolk_graph *graph, const tolk_uop *variable, const tolk_uop *value) {
    return make_by_rule(graph, TK_OP_BIND, TOLK_VOID, (const tolk_uop *[]){variable, value}, 2,
                        NULL);
}

const tolk_uop *tolk_copy(tolk_graph *graph, const tolk_uop *src, const char *device) {
    tk_attr attrs[MAX_ATTRS];
    return needed_string(graph, TK_OP_COPY, "device", device, attrs)
               ? make_by_rule(graph, TK_OP_COPY, TOLK_VOID, &src, 1, attrs)
               : NULL;
}

const tolk_uop *tolk_call(tolk_graph *graph, const tolk_uop *body, const tolk_uop *const *args,
                          size_t n) {
    return make_joined(graph, TK_OP_CALL, TOLK_VOID, body, args, n, NULL);
}

const tolk_uop *tolk_linear_node(tolk_graph *graph, const tolk_uop *const *calls, size_t n) {
    return make(graph, TK_OP_LINEAR, TOLK_VOID, calls, n, NULL);
}

const tolk_uop *tolk_graph_node(tolk_graph *graph, const tolk_uop *linear) {
    tk_attr attrs[MAX_ATTRS];
    return needed_string(graph, TK_OP_CUSTOM_FUNCTION, "name", "graph", attrs)
               ? make(graph, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &linear, 1, attrs)
               : NULL;
}

/* ---- elementwise ---- */

static const tolk_uop *convert(tolk_graph *g, tk_op op, const tolk_uop *x, tolk_dtype dtype) {
    if (x && x->graph == g && tk_dtype_valid(dtype))
        dtype = tk_dtype_like(dtype, x->dtype); /* lanes are those of x */
    if (x && x->graph == g && dtype == x->dtype)
        return x;
    return make(g, op, dtype, &x, 1, NULL);
}

const tolk_uop *tolk_cast(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype) {
    return convert(graph, TK_OP_CAST, x, dtype);
}

const tolk_uop *tolk_bitcast(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype) {
    return convert(graph, TK_OP_BITCAST, x, dtype);
}

static const tolk_uop *elementwise(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b,
                                   const tolk_uop *c, size_t n) {
    const tolk_uop *src[3] = {a, b, c};
    return make_by_rule(g, op, TOLK_VOID, src, n, NULL);
}

/* The public maps hold text names. One enumerator for each of them, as ops.def spells it: */
enum {
    op_exp = TK_OP_EXP,
    op_exp2 = TK_OP_EXP2,
    op_log = TK_OP_LOG,
    op_log2 = TK_OP_LOG2,
    op_sin = TK_OP_SIN,
    op_cos = TK_OP_COS,
    op_tanh = TK_OP_TANH,
    op_erf = TK_OP_ERF,
    op_sqrt = TK_OP_SQRT,
    op_reciprocal = TK_OP_RECIPROCAL,
    op_neg = TK_OP_NEG,
    op_trunc = TK_OP_TRUNC,
    op_add = TK_OP_ADD,
    op_mul = TK_OP_MUL,
    op_max = TK_OP_MAX,
    op_sub = TK_OP_SUB,
    op_fdiv = TK_OP_FDIV,
    op_pow = TK_OP_POW,
    op_cdiv = TK_OP_CDIV,
    op_cmod = TK_OP_CMOD,
    op_floordiv = TK_OP_FLOORDIV,
    op_floormod = TK_OP_FLOORMOD,
    op_shl = TK_OP_SHL,
    op_shr = TK_OP_SHR,
    op_and = TK_OP_AND,
    op_or = TK_OP_OR,
    op_xor = TK_OP_XOR,
    op_threefry = TK_OP_THREEFRY,
    op_cmplt = TK_OP_CMPLT,
    op_cmpne = TK_OP_CMPNE,
    op_cmpeq = TK_OP_CMPEQ
};

#define DEFINE_UNARY(name)                                                                         \
    const tolk_uop *tolk_##name(tolk_graph *graph, const tolk_uop *a) {                            \
        return elementwise(graph, (tk_op)op_##name, a, NULL, NULL, 1);                             \
    }
#define DEFINE_BINARY(name)                                                                        \
    const tolk_uop *tolk_##name(tolk_graph *graph, const tolk_uop *a, const tolk_uop *b) {         \
        return elementwise(graph, (tk_op)op_##name, a, b, NULL, 2);                                \
    }
TOLK_UNARY_MAP(DEFINE_UNARY)
TOLK_BINARY_MAP(DEFINE_BINARY)
#undef DEFINE_UNARY
#undef DEFINE_BINARY

const tolk_uop *tolk_where(tolk_graph *graph, const tolk_uop *cond, const tolk_uop *a,
                           const tolk_uop *b) {
    return elementwise(graph, TK_OP_WHERE, cond, a, b, 3);
}

const tolk_uop *tolk_mulacc(tolk_graph *graph, const tolk_uop *a, const tolk_uop *b,
                            const tolk_uop *c) {
    return elementwise(graph, TK_OP_MULACC, a, b, c, 3);
}

/* ---- looking at nodes ---- */

tolk_op tolk_uop_op(const tolk_uop *u) {
    return u->op;
}

tolk_graph *tolk_uop_graph(const tolk_uop *u) {
    return u->graph;
}

tolk_dtype tolk_uop_dtype(const tolk_uop *u) {
    return u->dtype;
}

size_t tolk_uop_n_src(const tolk_uop *u) {
    return u->n_src;
}

const tolk_uop *tolk_uop_src(const tolk_uop *u, size_t i) {
    return i < u->n_src ? u->src[i] : NULL;
}

int tolk_uop_attr(const tolk_uop *u, const char *key, tolk_attr *out) {
    tk_op op = tk_uop_op(u);
    const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
    if (tk_uop_is_const(u) && !tolk_dtype_is_float(u->dtype) && strcmp(key, "value") == 0) {
        *out = (tolk_attr){.key = "value", .i = u->attr[0].i};
        return 1;
    }
    for (uint32_t i = 0; i < tk_op_n_attr(op); i++) {
        if (strcmp(info[i].key, key) != 0)
            continue;
        *out = (tolk_attr){.key = info[i].key};
        switch (info[i].kind) {
        case TK_ATTR_STR:
        case TK_ATTR_BYTES:
        case TK_ATTR_INTS:
            if (u->attr[i].blob) {
                out->s = u->attr[i].blob->str;
                out->ints = u->attr[i].blob->ints;
                out->n = u->attr[i].blob->n;
            }
            break;
        case TK_ATTR_SPACE:
        case TK_ATTR_AXIS:
        case TK_ATTR_ROP:
            out->s = tk_op_enum_text(info[i].kind, u->attr[i].i);
            out->i = u->attr[i].i;
            break;
        case TK_ATTR_INT:
        case TK_ATTR_BOOL:
            out->i = u->attr[i].i;
            break;
        }
        return 1;
    }
    return 0;
}
