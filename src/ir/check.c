/* SPDX-License-Identifier: MIT */
#include "ir/check.h"

#include "ir/dtype.h"
#include "ir/params.h"
#include "ir/softnarrow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct check {
    tk_op op;
    const tk_op_info *info;
    tolk_dtype dtype;
    const tolk_uop *const *src;
    size_t n;
    const tk_attr *attrs; /* NULL: all default */
    tolk_error *err;
} check;

static tolk_status fail(const check *c, tolk_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static tolk_status fail(const check *c, tolk_status code, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tk_status_fail(c->err, code, TK_NO_NODE, "%s: %s", c->info->name, text);
}

/* ---- dtypes ---- */

static tolk_status fail_operand(const check *c, size_t i, const char *expected) {
    char have[16];
    return fail(c, TOLK_E_DTYPE, "operand %zu is %s, expected %s", i,
                tk_dtype_text(c->src[i]->dtype, have), expected);
}

/* Source i has exactly this dtype. why: "the dtype of operand 0", or NULL. */
static tolk_status operand(const check *c, size_t i, tolk_dtype dtype, const char *why) {
    if (c->src[i]->dtype == dtype)
        return TOLK_OK;
    char want[16], text[64];
    snprintf(text, sizeof text, "%s%s%s%s", tk_dtype_text(dtype, want), why ? " (" : "",
             why ? why : "", why ? ")" : "");
    return fail_operand(c, i, text);
}

static tolk_status not_void(const check *c, size_t i) {
    return c->src[i]->dtype == TOLK_VOID ? fail_operand(c, i, "a value") : TOLK_OK;
}

static tolk_status result(const check *c, tolk_dtype dtype) {
    if (c->dtype == dtype)
        return TOLK_OK;
    char have[16], want[16];
    return fail(c, TOLK_E_DTYPE, "the dtype is %s, expected %s", tk_dtype_text(c->dtype, have),
                tk_dtype_text(dtype, want));
}

static tolk_status scalar_result(const check *c) {
    char have[16];
    if (c->dtype == TOLK_VOID)
        return fail(c, TOLK_E_DTYPE, "the dtype is void, expected that of a value");
    if (tolk_dtype_lanes(c->dtype) != 1)
        return fail(c, TOLK_E_DTYPE, "the dtype is %s, expected a scalar",
                    tk_dtype_text(c->dtype, have));
    return TOLK_OK;
}

static bool in_domain(tolk_dtype dt, uint8_t dom) {
    tolk_dtype s = tk_dtype_scalar(dt);
    return s == TOLK_BOOL           ? (dom & TK_DOM_B) != 0
           : tolk_dtype_is_float(s) ? (dom & TK_DOM_F) != 0
           : s == TOLK_VOID         ? false
                                    : (dom & TK_DOM_I) != 0;
}

static const char *domain_text(uint8_t dom) {
    switch (dom) {
    case TK_DOM_I:
        return "an integer";
    case TK_DOM_F:
        return "a float";
    case TK_DOM_I | TK_DOM_F:
        return "an integer or a float";
    case TK_DOM_I | TK_DOM_B:
        return "an integer or bool";
    default:
        return "a value";
    }
}

/* Sources from..n-1 are of one op. */
static tolk_status all_ranges(const check *c, size_t from) {
    for (size_t i = from; i < c->n; i++)
        if (!tk_uop_is(c->src[i], TK_OP_RANGE))
            return fail(c, TOLK_E_VERIFY, "operand %zu is %s, expected a range", i,
                        tk_op_get(tk_uop_op(c->src[i]))->name);
    return TOLK_OK;
}

static tolk_status effect(const check *c, size_t i) {
    return c->src[i]->dtype == TOLK_VOID ? TOLK_OK : fail_operand(c, i, "an effect (void)");
}

static tolk_status effects(const check *c, size_t from) {
    for (size_t i = from; i < c->n; i++)
        TK_TRY(effect(c, i));
    return TOLK_OK;
}

/* ---- attributes ---- */

/* Is a string, a list or bytes. */
static bool is_blob(tk_attr_kind kind) {
    return kind == TK_ATTR_STR || kind == TK_ATTR_INTS || kind == TK_ATTR_BYTES;
}

static int64_t attr_int(const check *c, tk_attr_id id) {
    return c->attrs ? c->attrs[id - c->info->attr_first].i : tk_op_attrs[id].def;
}

static const tk_blob *attr_blob(const check *c, tk_attr_id id) {
    return c->attrs ? c->attrs[id - c->info->attr_first].blob : NULL;
}

static tolk_status attributes(const check *c) {
    static const int64_t counts[] = {
        [TK_ATTR_BOOL] = 2, [TK_ATTR_SPACE] = 4, [TK_ATTR_AXIS] = TK_AXIS_COUNT, [TK_ATTR_ROP] = 3};
    uint32_t n = tk_op_n_attr(c->op);
    for (uint32_t i = 0; i < n; i++) {
        const tk_attr_info *info = &tk_op_attrs[c->info->attr_first + i];
        if (info->required && (!c->attrs || (is_blob(info->kind) && !c->attrs[i].blob)))
            return fail(c, TOLK_E_VERIFY, "attribute %s is missing", info->key);
        if (!c->attrs || is_blob(info->kind) || info->kind == TK_ATTR_INT)
            continue;
        int64_t v = c->attrs[i].i;
        if (v < 0 || v >= counts[info->kind])
            return fail(c, TOLK_E_VERIFY, "attribute %s is %lld, expected 0..%lld", info->key,
                        (long long)v, (long long)counts[info->kind] - 1);
    }
    return TOLK_OK;
}

static tolk_status not_negative(const check *c, tk_attr_id id) {
    int64_t v = attr_int(c, id);
    if (v < 0)
        return fail(c, TOLK_E_VERIFY, "attribute %s is %lld, expected at least 0",
                    tk_op_attrs[id].key, (long long)v);
    return TOLK_OK;
}

/* A list of different numbers from 0 on, each below `below`. */
static tolk_status axes_list(const check *c, tk_attr_id id, size_t below) {
    const tk_blob *b = attr_blob(c, id);
    uint64_t seen = 0;
    for (size_t i = 0; i < b->n; i++) {
        int64_t v = b->ints[i];
        if (v < 0 || (uint64_t)v >= below)
            return fail(c, TOLK_E_SHAPE, "attribute %s names axis %lld, expected 0..%zu",
                        tk_op_attrs[id].key, (long long)v, below - 1);
        if (seen >> v & 1)
            return fail(c, TOLK_E_SHAPE, "attribute %s names axis %lld twice", tk_op_attrs[id].key,
                        (long long)v);
        seen |= (uint64_t)1 << v;
    }
    return TOLK_OK;
}

/* ---- shapes given as sources ---- */

bool tk_check_mul(int64_t *product, int64_t dim) {
    return !__builtin_mul_overflow(*product, dim, product);
}

/* Source i is a list of index scalars: one scalar, or a stack of at least two. sizes: they are
 * sizes of dimensions, so that none may be negative. */
static tolk_status index_list(const check *c, size_t i, size_t max_rank, bool sizes) {
    const tolk_uop *u = c->src[i];
    TK_TRY(operand(c, i, TOLK_INDEX, NULL));
    bool stack = tk_uop_is(u, TK_OP_STACK);
    const tolk_uop *const *dim = stack ? u->src : &u;
    size_t rank = stack ? u->n_src : 1;
    if (stack && rank < 2)
        return fail(c, TOLK_E_SHAPE,
                    "operand %zu is a stack of %zu, expected no operand for rank 0 and one index "
                    "scalar for rank 1",
                    i, rank);
    if (rank > max_rank)
        return fail(c, TOLK_E_LIMIT, "rank %zu, at most %zu", rank, max_rank);
    for (size_t k = 0; k < rank; k++) {
        if (tk_uop_is(dim[k], TK_OP_STACK) || tk_uop_is_invalid(dim[k]))
            return fail(c, TOLK_E_SHAPE, "element %zu of operand %zu is no index scalar", k, i);
        if (sizes && tk_uop_is_const(dim[k]) && dim[k]->attr[0].i < 0)
            return fail(c, TOLK_E_SHAPE, "dimension %zu is %lld, expected at least 0", k,
                        (long long)dim[k]->attr[0].i);
    }
    return TOLK_OK;
}

/* Do 63 bits hold the number of elements, and of bytes, of the shape in source 0? Dimensions that
 * are not constant are looked at when they have a value. */
static tolk_status element_count(const check *c) {
    const tolk_uop *u = c->src[0];
    const tolk_uop *const *dim = tk_uop_is(u, TK_OP_STACK) ? u->src : &u;
    size_t rank = tk_uop_is(u, TK_OP_STACK) ? u->n_src : 1;
    for (size_t k = 0; k < rank; k++)
        if (!tk_uop_is_const(dim[k]) || dim[k]->attr[0].i == 0)
            return TOLK_OK;
    int64_t bytes = (int64_t)(tolk_dtype_bytes(c->dtype) * tolk_dtype_lanes(c->dtype));
    for (size_t k = 0; k < rank; k++)
        if (!tk_check_mul(&bytes, dim[k]->attr[0].i))
            return fail(c, TOLK_E_LIMIT, "too large: more than 2^63-1 bytes");
    return TOLK_OK;
}

/* ---- definitions ---- */

static tolk_status check_const(const check *c) {
    TK_TRY(scalar_result(c));
    char have[16];
    if (c->attrs && (int64_t)tk_dtype_canon(c->dtype, (uint64_t)c->attrs[0].i) != c->attrs[0].i)
        return fail(c, TOLK_E_RANGE, "value %lld does not fit %s", (long long)c->attrs[0].i,
                    tk_dtype_text(c->dtype, have));
    return TOLK_OK;
}

static tolk_status scalar_param(const check *c) {
    char have[16];
    int64_t lo = attr_int(c, TK_A_PARAM_MIN), hi = attr_int(c, TK_A_PARAM_MAX);
    bool bounded = lo != INT64_MIN || hi != INT64_MAX;
    if (c->n)
        return fail(c, TOLK_E_SHAPE, "a scalar param (space=alu) has a shape");
    if (bounded && (tolk_dtype_is_float(c->dtype) || c->dtype == TOLK_BOOL))
        return fail(c, TOLK_E_VERIFY, "min and max of a %s param, expected an integer dtype",
                    tk_dtype_text(c->dtype, have));
    if (!bounded)
        return TOLK_OK;
    int64_t least = tk_dtype_min(c->dtype), most = tk_dtype_max(c->dtype);
    if ((lo != INT64_MIN && (lo < least || lo > most)) ||
        (hi != INT64_MAX && (hi < least || hi > most)))
        return fail(c, TOLK_E_RANGE, "min=%lld, max=%lld do not fit %s", (long long)lo,
                    (long long)hi, tk_dtype_text(c->dtype, have));
    if (lo > hi)
        return fail(c, TOLK_E_RANGE, "min=%lld is above max=%lld", (long long)lo, (long long)hi);
    return TOLK_OK;
}

static tolk_status check_param(const check *c) {
    TK_TRY(scalar_result(c));
    TK_TRY(not_negative(c, TK_A_PARAM_SLOT));
    int64_t space = attr_int(c, TK_A_PARAM_SPACE);
    if (space == TK_SPACE_ALU)
        return scalar_param(c);
    if (space != TK_SPACE_GLOBAL)
        return fail(c, TOLK_E_VERIFY, "space is %s, expected global or alu",
                    tk_op_enum_text(TK_ATTR_SPACE, space));
    if (attr_int(c, TK_A_PARAM_MIN) != INT64_MIN || attr_int(c, TK_A_PARAM_MAX) != INT64_MAX)
        return fail(c, TOLK_E_VERIFY, "min and max of a buffer, expected space=alu");
    if (c->dtype == TOLK_INDEX)
        return fail(c, TOLK_E_DTYPE, "the dtype is index, which never lives in memory");
    if (c->n == 0)
        return TOLK_OK;
    TK_TRY(index_list(c, 0, TK_MAX_RANK, true));
    return element_count(c);
}

static tolk_status check_buffer(const check *c) {
    int64_t space = attr_int(c, TK_A_BUFFER_SPACE);
    if (c->dtype == TOLK_VOID)
        return scalar_result(c);
    if (space == TK_SPACE_ALU)
        return fail(c, TOLK_E_VERIFY, "space is alu, expected global, local or reg");
    if (space != TK_SPACE_REG) {
        TK_TRY(scalar_result(c));
        if (c->dtype == TOLK_INDEX)
            return fail(c, TOLK_E_DTYPE, "the dtype is index, which lives in space reg only");
    }
    if (space != TK_SPACE_GLOBAL)
        TK_TRY(not_negative(c, TK_A_BUFFER_SLOT));
    if (attr_int(c, TK_A_BUFFER_DYNAMIC)) {
        if (space != TK_SPACE_LOCAL)
            return fail(c, TOLK_E_VERIFY, "dynamic, expected space=local");
        if (c->n)
            return fail(c, TOLK_E_SHAPE,
                        "a dynamic buffer has a shape: each launch gives its size");
    }
    if (c->n == 0)
        return TOLK_OK;
    TK_TRY(index_list(c, 0, TK_MAX_RANK, true));
    return element_count(c);
}

tk_special tk_check_special(const char *name, int *axis) {
    static const struct {
        const char *text;
        tk_special kind;
        int axis;
    } names[] = {{"gidx0", TK_SPECIAL_GIDX, 0},       {"gidx1", TK_SPECIAL_GIDX, 1},
                 {"gidx2", TK_SPECIAL_GIDX, 2},       {"lidx0", TK_SPECIAL_LIDX, 0},
                 {"lidx1", TK_SPECIAL_LIDX, 1},       {"lidx2", TK_SPECIAL_LIDX, 2},
                 {"idx0", TK_SPECIAL_IDX, 0},         {"idx1", TK_SPECIAL_IDX, 1},
                 {"idx2", TK_SPECIAL_IDX, 2},         {"span_begin", TK_SPECIAL_SPAN_BEGIN, 0},
                 {"span_end", TK_SPECIAL_SPAN_END, 0}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].text, name) == 0) {
            if (axis)
                *axis = names[i].axis;
            return names[i].kind;
        }
    return TK_SPECIAL_NONE;
}

static tolk_status index_scalar(const check *c, size_t i) {
    TK_TRY(operand(c, i, TOLK_INDEX, NULL));
    if (tk_uop_is(c->src[i], TK_OP_STACK) || tk_uop_is_invalid(c->src[i]))
        return fail(c, TOLK_E_VERIFY, "operand %zu is %s, expected an index scalar", i,
                    tk_uop_is(c->src[i], TK_OP_STACK) ? "a stack" : "invalid");
    return TOLK_OK;
}

static tolk_status check_special(const check *c) {
    TK_TRY(index_scalar(c, 0));
    const char *name = attr_blob(c, TK_A_SPECIAL_NAME)->str;
    if (tk_check_special(name, NULL) == TK_SPECIAL_NONE)
        return fail(c, TOLK_E_VERIFY,
                    "name is \"%.40s\", expected gidx0..2, lidx0..2, idx0..2, span_begin or "
                    "span_end",
                    name);
    return TOLK_OK;
}

static tolk_status check_range(const check *c) {
    TK_TRY(index_scalar(c, 0));
    return all_ranges(c, 1);
}

static tolk_status check_bind(const check *c) {
    const tolk_uop *var = c->src[0], *value = c->src[1];
    if (!tk_check_is_scalar_param(var))
        return fail(c, TOLK_E_VERIFY, "operand 0 is %s, expected a scalar param",
                    tk_op_get(tk_uop_op(var))->name);
    TK_TRY(operand(c, 1, var->dtype, "the dtype of operand 0"));
    int64_t lo = tk_uop_int(var, TK_A_PARAM_MIN), hi = tk_uop_int(var, TK_A_PARAM_MAX);
    if (tk_uop_is_const(value) && tolk_dtype_is_int(var->dtype) &&
        !tk_params_within(var->dtype, lo, hi, value->attr[0].i))
        return fail(c, TOLK_E_RANGE, "value %lld is not within %lld..%lld",
                    (long long)value->attr[0].i, (long long)lo, (long long)hi);
    return TOLK_OK;
}

/* ---- elementwise ---- */

static tolk_status check_cast(const check *c) {
    char a[16], b[16];
    TK_TRY(not_void(c, 0));
    tolk_dtype from = c->src[0]->dtype;
    if (c->dtype == TOLK_VOID || tolk_dtype_lanes(c->dtype) != tolk_dtype_lanes(from))
        return fail(c, TOLK_E_DTYPE, "from %s to %s, expected equal lanes", tk_dtype_text(from, a),
                    tk_dtype_text(c->dtype, b));
    if (c->op == TK_OP_BITCAST && tk_dtype_bits(from) != tk_dtype_bits(c->dtype))
        return fail(c, TOLK_E_DTYPE, "from %s to %s, expected equal widths", tk_dtype_text(from, a),
                    tk_dtype_text(c->dtype, b));
    return TOLK_OK;
}

static tolk_status check_where(const check *c) {
    TK_TRY(not_void(c, 1));
    TK_TRY(operand(c, 0, tk_dtype_like(TOLK_BOOL, c->src[1]->dtype), NULL));
    return operand(c, 2, c->src[1]->dtype, "the dtype of operand 1");
}

static tolk_status check_alu(const check *c) {
    if (c->op == TK_OP_CAST || c->op == TK_OP_BITCAST)
        return check_cast(c);
    if (c->op == TK_OP_WHERE)
        return check_where(c);
    tolk_dtype first = c->src[0]->dtype;
    if (c->op == TK_OP_THREEFRY && tk_dtype_scalar(first) != TOLK_U64)
        return fail_operand(c, 0, "u64");
    if (!in_domain(first, c->info->dom))
        return fail_operand(c, 0, domain_text(c->info->dom));
    if (c->op == TK_OP_SHL || c->op == TK_OP_SHR) {
        char want[48], a[16], b[16];
        if (c->src[1]->dtype == first || c->src[1]->dtype == tk_dtype_like(TOLK_U32, first))
            return TOLK_OK;
        snprintf(want, sizeof want, "%s or %s", tk_dtype_text(first, a),
                 tk_dtype_text(tk_dtype_like(TOLK_U32, first), b));
        return fail_operand(c, 1, want);
    }
    for (size_t i = 1; i < c->n; i++)
        TK_TRY(operand(c, i, first, "the dtype of operand 0"));
    return TOLK_OK;
}

/* ---- vectors and memory ---- */

static tolk_status check_stack(const check *c) {
    uint32_t lanes = tolk_dtype_lanes(c->dtype);
    if (c->dtype == TOLK_VOID)
        return scalar_result(c);
    if (lanes > 1 && c->n != lanes) {
        char have[16];
        return fail(c, TOLK_E_VERIFY, "%zu operands, expected %u for %s", c->n, lanes,
                    tk_dtype_text(c->dtype, have));
    }
    for (size_t i = 0; i < c->n; i++) {
        TK_TRY(operand(c, i, tk_dtype_scalar(c->dtype), NULL));
        if (tk_uop_is_invalid(c->src[i]))
            return fail(c, TOLK_E_VERIFY, "operand %zu is invalid, expected a value", i);
    }
    return TOLK_OK;
}

/* A buffer of vectors (space=reg) has lanes, too, also behind an AFTER. Each node is looked at a
 * bounded number of times: what hides behind more AFTERs is left to the verifier. */
static bool is_vector_value(const tolk_uop *u) {
    if (tk_uop_lanes(u) == 1)
        return false;
    for (int i = 0; i < 64 && tk_uop_is(u, TK_OP_AFTER); i++)
        u = u->src[0];
    return !tk_check_is_buffer(u) && !tk_uop_is(u, TK_OP_AFTER);
}

static tolk_status check_lane(const check *c) {
    const tolk_uop *v = c->src[0];
    if (c->n != 2)
        return fail(c, TOLK_E_VERIFY, "%zu operands, expected a vector and its lane", c->n);
    TK_TRY(operand(c, 1, TOLK_INDEX, NULL));
    if (!tk_uop_is_const(c->src[1]) || c->src[1]->attr[0].i < 0 ||
        c->src[1]->attr[0].i >= tk_uop_lanes(v))
        return fail(c, TOLK_E_VERIFY, "the lane is no constant in 0..%u", tk_uop_lanes(v) - 1);
    return result(c, tk_dtype_scalar(v->dtype));
}

static tolk_status check_index(const check *c) {
    const tolk_uop *base = c->src[0];
    TK_TRY(not_void(c, 0));
    if (is_vector_value(base))
        return check_lane(c);
    if (tk_check_is_scalar_param(base))
        return fail(c, TOLK_E_VERIFY, "operand 0 is a scalar param, expected a buffer");
    for (size_t i = 1; i < c->n; i++)
        if (tk_dtype_scalar(c->src[i]->dtype) != TOLK_INDEX)
            return fail_operand(c, i, "index");
    /* Lanes of addresses: one index, into elements that are scalars. */
    uint32_t lanes = c->n > 1 ? tk_uop_lanes(c->src[1]) : 1;
    for (size_t i = 1; i < c->n; i++)
        if (tk_uop_lanes(c->src[i]) > 1 && (c->n > 2 || tk_uop_lanes(base) > 1))
            return fail_operand(c, i, "a scalar index");
    return result(c, lanes > 1 ? tolk_dtype_vec(base->dtype, lanes) : base->dtype);
}

/* Source 0 of an access is an INDEX that is no lane of a vector. */
static tolk_status place(const check *c) {
    const tolk_uop *p = c->src[0];
    if (!tk_uop_is(p, TK_OP_INDEX) || is_vector_value(p->src[0]))
        return fail(c, TOLK_E_VERIFY, "operand 0 is %s, expected a place (index of a buffer)",
                    tk_uop_is(p, TK_OP_INDEX) ? "a lane of a vector"
                                              : tk_op_get(tk_uop_op(p))->name);
    return TOLK_OK;
}

/* May a value of this dtype go through that place? One address: lanes are consecutive elements. */
static bool fits_place(tolk_dtype value, tolk_dtype place_dtype) {
    return tolk_dtype_lanes(place_dtype) > 1
               ? value == place_dtype
               : tk_dtype_scalar(value) == tk_dtype_scalar(place_dtype);
}

static tolk_status check_load(const check *c) {
    if (c->n == 2)
        return fail(c, TOLK_E_VERIFY, "2 operands, expected a place, or a place, alt and gate");
    TK_TRY(place(c));
    char have[16], want[16];
    if (c->dtype == TOLK_VOID || !fits_place(c->dtype, c->src[0]->dtype))
        return fail(c, TOLK_E_DTYPE, "the dtype is %s, but the place is of %s",
                    tk_dtype_text(c->dtype, have), tk_dtype_text(c->src[0]->dtype, want));
    if (c->n == 1)
        return TOLK_OK;
    TK_TRY(operand(c, 1, c->dtype, "the dtype of the load"));
    return operand(c, 2, tk_dtype_like(TOLK_BOOL, c->dtype), "the gate");
}

tolk_dtype tk_check_code(const tk_blob *name) {
    tolk_dtype dtype;
    return name && tolk_dtype_parse(name->str, name->n, &dtype) &&
                   tk_dtype_is_narrow_float(dtype) && tolk_dtype_lanes(dtype) == 1
               ? dtype
               : TOLK_VOID;
}

/* An ATOMIC_ADD of codes: of a narrow float dtype, in unsigned integers of its width. */
static tolk_status check_code(const check *c) {
    char want[16], text[64];
    const tk_blob *name = attr_blob(c, TK_A_ATOMIC_ADD_CODE);
    tolk_dtype code = tk_check_code(name);
    if (!name)
        return TOLK_OK;
    if (code == TOLK_VOID)
        return fail(c, TOLK_E_DTYPE, "code is \"%.20s\", expected f16, bf16, fp8e4m3 or fp8e5m2",
                    name->str);
    if (tk_dtype_scalar(c->src[1]->dtype) == tk_softnarrow_code(code))
        return TOLK_OK;
    snprintf(text, sizeof text, "%s (what holds codes of %s)",
             tk_dtype_text(tk_dtype_like(tk_softnarrow_code(code), c->src[1]->dtype), want),
             tolk_dtype_name(code));
    return fail_operand(c, 1, text);
}

static tolk_status check_store(const check *c) {
    char want[16], text[48];
    TK_TRY(not_void(c, 0));
    if (c->op == TK_OP_ATOMIC_ADD) {
        TK_TRY(place(c));
        if (!in_domain(c->src[1]->dtype, TK_DOM_I | TK_DOM_F))
            return fail_operand(c, 1, "an integer or a float");
        TK_TRY(check_code(c));
    }
    if (is_vector_value(c->src[0]) && !tk_uop_is(c->src[0], TK_OP_INDEX))
        return place(c);
    if (!fits_place(c->src[1]->dtype, c->src[0]->dtype)) {
        snprintf(text, sizeof text, "%s (the dtype of operand 0)",
                 tk_dtype_text(c->src[0]->dtype, want));
        return fail_operand(c, 1, text);
    }
    if (tk_uop_is_invalid(c->src[1]))
        return fail(c, TOLK_E_VERIFY, "operand 1 is invalid, expected a value");
    return c->n < 3 ? TOLK_OK
                    : operand(c, 2, tk_dtype_like(TOLK_BOOL, c->src[1]->dtype), "the gate");
}

static tolk_status check_shuffle(const check *c) {
    TK_TRY(not_void(c, 0));
    if (!tolk_dtype_is_int(c->src[1]->dtype) || tk_uop_lanes(c->src[1]) != 1)
        return fail_operand(c, 1, "an integer scalar");
    return TOLK_OK;
}

/* Number of values that a matrix operand holds: lanes in programs, a stack in kernels. */
static int64_t matrix_elems(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_STACK))
        return (int64_t)u->n_src;
    return tk_uop_is(u, TK_OP_WMMA) && tk_uop_lanes(u) == 1 ? -1 : (int64_t)tk_uop_lanes(u);
}

static tolk_status check_wmma(const check *c) {
    const tk_blob *dims = attr_blob(c, TK_A_WMMA_DIMS);
    int64_t threads = attr_int(c, TK_A_WMMA_THREADS);
    if (dims->n != 3)
        return fail(c, TOLK_E_VERIFY, "%zu dims, expected [m, n, k]", dims->n);
    for (size_t i = 0; i < 3; i++)
        if (dims->ints[i] < 1 || dims->ints[i] > 1024)
            return fail(c, TOLK_E_VERIFY, "dims[%zu] is %lld, expected 1..1024", i,
                        (long long)dims->ints[i]);
    if (threads != 1 && threads != 32)
        return fail(c, TOLK_E_VERIFY, "threads is %lld, expected 1 or 32", (long long)threads);
    for (size_t i = 0; i < 3; i++)
        if (!in_domain(c->src[i]->dtype, TK_DOM_I | TK_DOM_F) ||
            tk_dtype_scalar(c->src[i]->dtype) == TOLK_INDEX)
            return fail_operand(c, i, "a matrix of integers or floats");
    if (tk_dtype_scalar(c->src[1]->dtype) != tk_dtype_scalar(c->src[0]->dtype))
        return operand(c, 1, c->src[0]->dtype, "the dtype of operand 0");
    int64_t m = dims->ints[0], n = dims->ints[1], k = dims->ints[2];
    const int64_t want[3] = {m * k, k * n, m * n};
    for (size_t i = 0; i < 3; i++) {
        int64_t have = matrix_elems(c->src[i]);
        if (have >= 0 && have * threads != want[i])
            return fail(c, TOLK_E_SHAPE, "operand %zu has %lld elements, expected %lld / %lld", i,
                        (long long)have, (long long)want[i], (long long)threads);
    }
    return TOLK_OK;
}

/* ---- control ---- */

static tolk_status check_reduce(const check *c) {
    TK_TRY(not_void(c, 0));
    if (tk_uop_lanes(c->src[0]) != 1)
        return fail_operand(c, 0, "a scalar");
    int64_t axes = attr_int(c, TK_A_REDUCE_AXES);
    if (axes < 0 || axes > TK_MAX_TENSOR_RANK)
        return fail(c, TOLK_E_VERIFY, "axes is %lld, expected 0..%d", (long long)axes,
                    TK_MAX_TENSOR_RANK);
    if (axes && c->n > 1)
        return fail(c, TOLK_E_VERIFY, "both axes and ranges, expected one of them");
    return all_ranges(c, 1);
}

/* Kernels close the ranges of an effect; programs close one range. */
static tolk_status check_end(const check *c) {
    if (c->n == 1 && tk_uop_is(c->src[0], TK_OP_RANGE))
        return TOLK_OK;
    TK_TRY(effect(c, 0));
    return all_ranges(c, 1);
}

static tolk_status check_if(const check *c) {
    return tk_dtype_scalar(c->src[0]->dtype) == TOLK_BOOL ? TOLK_OK : fail_operand(c, 0, "bool");
}

static tolk_status check_endif(const check *c) {
    if (!tk_uop_is(c->src[0], TK_OP_IF))
        return fail(c, TOLK_E_VERIFY, "operand 0 is %s, expected an if",
                    tk_op_get(tk_uop_op(c->src[0]))->name);
    return TOLK_OK;
}

/* ---- movement and graph ops ---- */

static size_t list_rank(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_STACK) ? u->n_src : 1;
}

static tolk_status tensor_operand(const check *c, size_t i) {
    TK_TRY(not_void(c, i));
    return tk_uop_lanes(c->src[i]) == 1 ? TOLK_OK : fail_operand(c, i, "a tensor of scalars");
}

static tolk_status check_move(const check *c) {
    TK_TRY(tensor_operand(c, 0));
    switch (c->op) {
    case TK_OP_RESHAPE:
        return c->n == 1 ? TOLK_OK : index_list(c, 1, TK_MAX_TENSOR_RANK, true);
    case TK_OP_EXPAND:
        return index_list(c, 1, TK_MAX_TENSOR_RANK, true);
    case TK_OP_PERMUTE: {
        size_t n = attr_blob(c, TK_A_PERMUTE_ORDER)->n;
        if (n > TK_MAX_TENSOR_RANK)
            return fail(c, TOLK_E_LIMIT, "rank %zu, at most %d", n, TK_MAX_TENSOR_RANK);
        return axes_list(c, TK_A_PERMUTE_ORDER, n);
    }
    case TK_OP_FLIP:
        return axes_list(c, TK_A_FLIP_AXES, TK_MAX_TENSOR_RANK);
    default: /* PAD, SHRINK */
        TK_TRY(index_list(c, 1, TK_MAX_TENSOR_RANK, true));
        TK_TRY(index_list(c, 2, TK_MAX_TENSOR_RANK, true));
        if (list_rank(c->src[1]) != list_rank(c->src[2]))
            return fail(c, TOLK_E_SHAPE, "%zu offsets and %zu sizes, expected one each per axis",
                        list_rank(c->src[1]), list_rank(c->src[2]));
        return TOLK_OK;
    }
}

/* A sink, then any of its later forms, in their order. */
static tolk_status check_program(const check *c) {
    static const tk_op parts[] = {TK_OP_SINK, TK_OP_LINEAR, TK_OP_SOURCE, TK_OP_BINARY};
    static const char *const expected[] = {"sink", "linear, source or binary", "source or binary",
                                           "binary"};
    for (size_t i = 0, part = 0; i < c->n; i++, part++) {
        const char *want = part < 4 ? expected[part] : "nothing more";
        while (i && part < 4 && !tk_uop_is(c->src[i], parts[part]))
            part++;
        if (part == 4 || !tk_uop_is(c->src[i], parts[part]))
            return fail(c, TOLK_E_VERIFY, "operand %zu is %s, expected %s", i,
                        tk_op_get(tk_uop_op(c->src[i]))->name, want);
    }
    return TOLK_OK;
}

static tolk_status check_mstack(const check *c) {
    TK_TRY(tensor_operand(c, 0));
    for (size_t i = 1; i < c->n; i++)
        TK_TRY(operand(c, i, c->src[0]->dtype, "the dtype of operand 0"));
    return TOLK_OK;
}

static tolk_status check_graph(const check *c) {
    switch (c->op) {
    case TK_OP_CONTIGUOUS:
    case TK_OP_STAGE:
    case TK_OP_COPY:
        TK_TRY(tensor_operand(c, 0));
        return all_ranges(c, 1);
    case TK_OP_SLICE:
        TK_TRY(tensor_operand(c, 0));
        TK_TRY(index_scalar(c, 1));
        TK_TRY(scalar_result(c));
        return not_negative(c, TK_A_SLICE_COUNT);
    case TK_OP_MULTI:
        TK_TRY(tensor_operand(c, 0));
        return not_negative(c, TK_A_MULTI_AXIS);
    case TK_OP_MSELECT:
        TK_TRY(tensor_operand(c, 0));
        return not_negative(c, TK_A_MSELECT_INDEX);
    case TK_OP_MSTACK:
        return check_mstack(c);
    case TK_OP_ALLREDUCE:
        return tensor_operand(c, 0);
    case TK_OP_PROGRAM:
        return check_program(c);
    default: /* CALL, SOURCE, BINARY, CUSTOM_FUNCTION: any sources */
        return TOLK_OK;
    }
}

/* ---- all ---- */

static tolk_status by_op(const check *c) {
    switch (c->info->cls) {
    case TK_CLASS_ALU1:
    case TK_CLASS_ALU2:
    case TK_CLASS_ALU3:
        return check_alu(c);
    case TK_CLASS_MOVE:
        return check_move(c);
    case TK_CLASS_GRAPH:
        return check_graph(c);
    default:
        break;
    }
    switch (c->op) {
    case TK_OP_CONST:
        return check_const(c);
    case TK_OP_PARAM:
        return check_param(c);
    case TK_OP_BUFFER:
        return check_buffer(c);
    case TK_OP_SPECIAL:
        return check_special(c);
    case TK_OP_RANGE:
        return check_range(c);
    case TK_OP_BIND:
        return check_bind(c);
    case TK_OP_STACK:
        return check_stack(c);
    case TK_OP_INDEX:
        return check_index(c);
    case TK_OP_LOAD:
        return check_load(c);
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return check_store(c);
    case TK_OP_SHUFFLE:
        return check_shuffle(c);
    case TK_OP_WMMA:
        return check_wmma(c);
    case TK_OP_REDUCE:
        return check_reduce(c);
    case TK_OP_AFTER:
        return not_void(c, 0); /* what it may wait for depends on the stage */
    case TK_OP_GROUP:
    case TK_OP_BARRIER:
        return effects(c, 0);
    case TK_OP_END:
        return check_end(c);
    case TK_OP_IF:
        return check_if(c);
    case TK_OP_ENDIF:
        return check_endif(c);
    default: /* NOOP, SINK, LINEAR: any sources; the stages have rules for them */
        return TOLK_OK;
    }
}

static tolk_status source_count(const check *c) {
    uint32_t lo = c->info->min_src, hi = c->info->max_src;
    if (c->n >= lo && c->n <= hi)
        return TOLK_OK;
    if (c->n > TK_MANY)
        return fail(c, TOLK_E_LIMIT, "%zu operands, at most %d", c->n, TK_MANY);
    const char *least = hi == TK_MANY ? "at least " : "";
    if (lo == hi || hi == TK_MANY)
        return fail(c, TOLK_E_VERIFY, "%zu operands, expected %s%u", c->n, least, lo);
    return fail(c, TOLK_E_VERIFY, "%zu operands, expected %u to %u", c->n, lo, hi);
}

tolk_status tk_check_node(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *const *src,
                          size_t n, const tk_attr *attrs, tolk_error *err) {
    if ((unsigned)op >= TK_OP_COUNT)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%u is the number of no op",
                              (unsigned)op);
    check c = {op, tk_op_get(op), dtype, src, n, attrs, err};
    for (size_t i = 0; i < n; i++)
        if (!src[i])
            return fail(&c, TOLK_E_ARG, "operand %zu is NULL", i);
        else if (src[i]->graph != g)
            return fail(&c, TOLK_E_ARG, "operand %zu belongs to another graph", i);
    if (!tk_dtype_valid(dtype))
        return fail(&c, TOLK_E_DTYPE, "0x%x is no dtype", dtype);
    TK_TRY(source_count(&c));
    TK_TRY(attributes(&c));
    TK_TRY(by_op(&c));
    return c.info->result == TK_RESULT_GIVEN ? TOLK_OK
                                             : result(&c, tk_uop_result_dtype(op, src, n, dtype));
}
