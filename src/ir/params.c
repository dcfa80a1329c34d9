/* SPDX-License-Identifier: MIT */
#include "ir/params.h"

#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/scalar.h"
#include "ir/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- collecting ---- */

const char *tk_params_text(const tk_param *param, char buf[64]) {
    if (!param->name) {
        snprintf(buf, 64, "slot %lld", (long long)param->slot);
        return buf;
    }
    size_t n = strlen(param->name), most = 24;
    if (n > most) { /* cut between characters */
        n = tk_literal_utf8(param->name, most);
        if (n < most - 3)
            n = most;
    }
    snprintf(buf, 64, "\"%.*s\" (slot %lld)", (int)n, param->name, (long long)param->slot);
    return buf;
}

static int by_slot(const void *a, const void *b) {
    int64_t x = ((const tk_param *)a)->slot, y = ((const tk_param *)b)->slot;
    return (x > y) - (x < y);
}

static tk_param *of_node(tk_params *params, const tolk_uop *u) {
    tk_param key = {.slot = tk_uop_int(u, TK_A_PARAM_SLOT)};
    return bsearch(&key, params->list.at, params->list.n, sizeof key, by_slot);
}

static tolk_status add(tk_params *params, const tolk_uop *u, tolk_error *err) {
    tk_param p = {.node = u,
                  .name = tk_uop_str(u, TK_A_PARAM_NAME),
                  .slot = tk_uop_int(u, TK_A_PARAM_SLOT),
                  .dtype = u->dtype,
                  .is_scalar = tk_check_is_scalar_param(u)};
    const tolk_uop *const *dims = u->src;
    uint32_t rank = u->n_src;
    if (rank && tk_uop_is(u->src[0], TK_OP_STACK)) {
        rank = dims[0]->n_src;
        dims = dims[0]->src;
    }
    char text[64];
    if (rank > TK_PARAMS_MAX_RANK)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "param %s has %u dimensions, at most %d", tk_params_text(&p, text),
                              rank, TK_PARAMS_MAX_RANK);
    p.rank = rank;
    for (uint32_t i = 0; i < rank; i++)
        p.dim[i] = dims[i];
    return tk_vec_push(&params->list, p) ? TOLK_OK : tk_status_nomem(err);
}

/* The buffer behind a place, if it is a param. */
static const tolk_uop *base_of(const tolk_uop *u) {
    while (u->n_src && (tk_uop_is(u, TK_OP_INDEX) || tk_uop_is(u, TK_OP_AFTER)))
        u = u->src[0];
    return tk_uop_is(u, TK_OP_PARAM) ? u : NULL;
}

static void mark_uses(tk_params *params, const tolk_uop *u) {
    for (uint32_t i = 0; i < u->n_src; i++) {
        const tolk_uop *param = NULL;
        bool stored = false, loaded = true;
        switch (tk_uop_op(u)) {
        case TK_OP_STORE:
            stored = i == 0;
            loaded = !stored;
            param = stored ? base_of(u->src[0]) : NULL;
            break;
        case TK_OP_ATOMIC_ADD: /* what was there matters */
            stored = i == 0;
            param = stored ? base_of(u->src[0]) : NULL;
            break;
        case TK_OP_LOAD:
            param = i == 0 ? base_of(u->src[0]) : NULL;
            break;
        case TK_OP_INDEX: /* of a buffer: a place, whose users decide */
        case TK_OP_AFTER:
            loaded = i > 0;
            break;
        case TK_OP_LINEAR: /* stands in the list */
            loaded = false;
            break;
        default:
            break;
        }
        if (!param && loaded && tk_uop_is(u->src[i], TK_OP_PARAM))
            param = u->src[i];
        if (!param)
            continue;
        tk_param *p = of_node(params, param);
        p->loaded |= loaded;
        p->stored |= stored;
    }
}

static tolk_status collect(tk_params *params, const tk_walk_list *nodes, tolk_error *err) {
    for (size_t i = 0; i < nodes->n; i++)
        if (tk_uop_is(nodes->at[i], TK_OP_PARAM))
            TK_TRY(add(params, nodes->at[i], err));
    if (params->list.n)
        qsort(params->list.at, params->list.n, sizeof *params->list.at, by_slot);
    for (size_t i = 0; i < params->list.n; i++) {
        tk_param *p = &params->list.at[i];
        char a[64], b[64];
        if (i && p[-1].slot == p->slot)
            return tk_status_fail(err, TOLK_E_VERIFY, TK_NO_NODE,
                                  "two different params have one slot: %s and %s",
                                  tk_params_text(p - 1, a), tk_params_text(p, b));
        p->place = p->is_scalar ? params->n_vals++ : params->n_bufs++;
    }
    for (size_t i = 0; i < nodes->n; i++)
        mark_uses(params, nodes->at[i]);
    return TOLK_OK;
}

tolk_status tk_params_init(tk_params *params, const tolk_uop *root, const tolk_allocator *al,
                           tolk_error *err) {
    memset(params, 0, sizeof *params);
    tk_vec_init(&params->list, al);
    tk_walk_list nodes;
    tk_vec_init(&nodes, al);
    tolk_status st = tk_walk(root, &nodes);
    if (st != TOLK_OK)
        tk_status_nomem(err);
    else
        st = collect(params, &nodes, err);
    tk_vec_fini(&nodes);
    if (st != TOLK_OK)
        tk_params_fini(params);
    return st;
}

void tk_params_fini(tk_params *params) {
    tk_vec_fini(&params->list);
    params->n_bufs = params->n_vals = 0;
}

const tk_param *tk_params_find(const tk_params *params, int64_t slot) {
    tk_param key = {.slot = slot};
    return params->list.n ? bsearch(&key, params->list.at, params->list.n, sizeof key, by_slot)
                          : NULL;
}

static const tk_param *nth(const tk_params *params, bool is_scalar, uint32_t i) {
    for (size_t k = 0; k < params->list.n; k++)
        if (params->list.at[k].is_scalar == is_scalar && params->list.at[k].place == i)
            return &params->list.at[k];
    return NULL;
}

const tk_param *tk_params_buf(const tk_params *params, uint32_t i) {
    return nth(params, false, i);
}

const tk_param *tk_params_val(const tk_params *params, uint32_t i) {
    return nth(params, true, i);
}

bool tk_params_within(tolk_dtype dtype, int64_t min, int64_t max, int64_t value) {
    bool beyond = dtype == TOLK_U64 && value < 0;
    return beyond ? max == INT64_MAX : value >= min && value <= max;
}

/* ---- evaluating ---- */

/* The nodes of an expression in post-order: few of them here, many in a list with a map. */
enum { FEW = 48 };
typedef struct expression {
    const tolk_uop *few[FEW];
    const tolk_uop *const *at;
    size_t n;
    tk_walk_list many;
    tk_walk_map index; /* of the nodes in many */
    bool is_small;
} expression;

static size_t index_of(const expression *e, const tolk_uop *u) {
    if (!e->is_small)
        return tk_walk_map_get(&e->index, u->id);
    size_t i = e->n;
    while (i-- > 0)
        if (e->few[i] == u)
            return i;
    return SIZE_MAX;
}

/* False if there are more than FEW. */
static bool walk_few(expression *e, const tolk_uop *root) {
    const tolk_uop *stack[FEW];
    size_t depth = 0;
    stack[depth++] = root;
    while (depth) {
        const tolk_uop *u = stack[depth - 1];
        uint32_t i = 0;
        while (i < u->n_src && index_of(e, u->src[i]) != SIZE_MAX)
            i++;
        if (i < u->n_src) {
            if (depth == FEW)
                return false;
            stack[depth++] = u->src[i];
            continue;
        }
        if (e->n == FEW)
            return false;
        e->few[e->n++] = u;
        depth--;
    }
    return true;
}

static tolk_status expression_init(expression *e, const tolk_uop *root, const tolk_allocator *al) {
    e->n = 0;
    e->is_small = true;
    tk_vec_init(&e->many, al);
    tk_walk_map_init(&e->index, al);
    e->at = e->few;
    if (walk_few(e, root))
        return TOLK_OK;
    e->is_small = false;
    TK_TRY(tk_walk(root, &e->many));
    e->at = e->many.at;
    e->n = e->many.n;
    for (uint32_t i = 0; i < e->n; i++)
        if (!tk_walk_map_put(&e->index, e->at[i]->id, i))
            return TOLK_E_NOMEM;
    return TOLK_OK;
}

static void expression_fini(expression *e) {
    tk_vec_fini(&e->many);
    tk_walk_map_fini(&e->index);
}

bool tk_params_fits(tk_op op, int64_t a, int64_t b, int64_t c) {
    int64_t r;
    switch (op) {
    case TK_OP_ADD:
        return !__builtin_add_overflow(a, b, &r);
    case TK_OP_SUB:
        return !__builtin_sub_overflow(a, b, &r);
    case TK_OP_MUL:
        return !__builtin_mul_overflow(a, b, &r);
    case TK_OP_MULACC:
        return !__builtin_mul_overflow(a, b, &r) && !__builtin_add_overflow(r, c, &r);
    case TK_OP_NEG:
        return a != INT64_MIN;
    case TK_OP_CDIV:
    case TK_OP_FLOORDIV:
        return !(a == INT64_MIN && b == -1);
    case TK_OP_SHL:
        if (a == 0)
            return true;
        return (uint64_t)b < 64 && (int64_t)((uint64_t)a << b) >> b == a;
    default:
        return true;
    }
}

static tolk_status step(const tolk_uop *u, const tk_params *params, const int64_t *vals,
                        const uint64_t v[3], uint64_t *out, tolk_error *err) {
    tk_op op = tk_uop_op(u);
    if (tk_uop_is_const(u)) {
        *out = tk_uop_bits(u);
        return TOLK_OK;
    }
    if (op == TK_OP_PARAM) {
        const tk_param *p = tk_params_find(params, tk_uop_int(u, TK_A_PARAM_SLOT));
        if (p && p->node == u && p->is_scalar) {
            *out = tk_dtype_canon(u->dtype, (uint64_t)vals[p->place]);
            return TOLK_OK;
        }
    }
    if (!tk_op_is_alu(op) || tk_uop_lanes(u) != 1)
        return tk_status_fail(err, TOLK_E_VERIFY, TK_NO_NODE,
                              "%s in a size, expected an expression of constants and scalar params",
                              tk_op_get(op)->name);
    tolk_dtype dtype = u->src[op == TK_OP_WHERE]->dtype;
    bool wide = u->dtype == TOLK_INDEX || u->dtype == TOLK_I64, ok = true;
    if (op == TK_OP_CAST) {
        ok = !(wide && dtype == TOLK_U64 && v[0] > INT64_MAX);
        *out = tk_scalar_cast(dtype, u->dtype, v[0]);
    } else if (op == TK_OP_BITCAST) {
        *out = tk_scalar_bitcast(dtype, u->dtype, v[0]);
    } else {
        ok = !wide || tk_params_fits(op, (int64_t)v[0], (int64_t)v[1], (int64_t)v[2]);
        *out = tk_scalar_alu(op, dtype, v[0], v[1], v[2], true);
    }
    if (!ok)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "too large: a step (%s) of the expression of a size does not fit 64 "
                              "bits",
                              tk_op_get(op)->name);
    return TOLK_OK;
}

static tolk_status evaluate(const expression *e, const tk_params *params, const int64_t *vals,
                            uint64_t *values, tolk_error *err) {
    for (size_t i = 0; i < e->n; i++) {
        const tolk_uop *u = e->at[i];
        uint64_t v[3] = {0, 0, 0};
        for (uint32_t k = 0; k < u->n_src && k < 3; k++)
            v[k] = values[index_of(e, u->src[k])];
        TK_TRY(step(u, params, vals, v, &values[i], err));
    }
    return TOLK_OK;
}

tolk_status tk_params_eval(const tolk_uop *expr, const tk_params *params, const int64_t *vals,
                           int64_t *out, tolk_error *err) {
    if (tk_uop_is_const(expr)) {
        *out = (int64_t)tk_uop_bits(expr);
        return TOLK_OK;
    }
    expression e;
    uint64_t few[FEW], *values = few;
    const tolk_allocator *al = params->list.al;
    tolk_status st = expression_init(&e, expr, al);
    if (st == TOLK_OK && !e.is_small && !(values = tk_alloc(al, e.n * sizeof *values)))
        st = TOLK_E_NOMEM;
    if (st != TOLK_OK)
        tk_status_nomem(err);
    else
        st = evaluate(&e, params, vals, values, err);
    if (st == TOLK_OK)
        *out = (int64_t)values[e.n - 1];
    if (values && values != few)
        tk_alloc_free(al, values, e.n * sizeof *values);
    expression_fini(&e);
    return st;
}

tolk_status tk_params_shape(const tk_param *param, const tk_params *params, const int64_t *vals,
                            int64_t *dims, int64_t *elems, tolk_error *err) {
    int64_t d[TK_PARAMS_MAX_RANK], product = 1;
    bool empty = false; /* whatever the other dimensions are */
    char text[64];
    for (uint32_t i = 0; i < param->rank; i++) {
        TK_TRY(tk_params_eval(param->dim[i], params, vals, &d[i], err));
        if (d[i] < 0)
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "dimension %u of param %s is %lld", i,
                                  tk_params_text(param, text), (long long)d[i]);
        empty |= d[i] == 0;
    }
    for (uint32_t i = 0; !empty && i < param->rank; i++)
        if (!tk_check_mul(&product, d[i]))
            return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                  "param %s is too large: its number of elements does not fit 63 "
                                  "bits",
                                  tk_params_text(param, text));
    for (uint32_t i = 0; dims && i < param->rank; i++)
        dims[i] = d[i];
    *elems = empty ? 0 : product;
    return TOLK_OK;
}

/* ---- public ---- */

size_t tolk_kernel_param_count(const tolk_uop *kernel) {
    tk_params params;
    if (!kernel || tk_params_init(&params, kernel, kernel->graph->al, NULL) != TOLK_OK)
        return 0;
    size_t n = params.list.n;
    tk_params_fini(&params);
    return n;
}

tolk_status tolk_kernel_param(const tolk_uop *kernel, size_t i, tolk_param_info *out) {
    if (!kernel || !out)
        return TOLK_E_ARG;
    tk_params params;
    TK_TRY(tk_params_init(&params, kernel, kernel->graph->al, NULL));
    bool found = i < params.list.n;
    if (found) {
        const tk_param *p = &params.list.at[i];
        bool bounded = p->is_scalar && !tolk_dtype_is_float(p->dtype);
        int64_t min = tk_uop_int(p->node, TK_A_PARAM_MIN);
        int64_t max = tk_uop_int(p->node, TK_A_PARAM_MAX);
        int64_t least = tk_dtype_min(p->dtype), most = tk_dtype_max(p->dtype);
        *out = (tolk_param_info){.name = p->name,
                                 .slot = p->slot,
                                 .dtype = p->dtype,
                                 .is_scalar = p->is_scalar,
                                 .is_loaded = p->loaded,
                                 .is_stored = p->stored,
                                 .rank = p->rank,
                                 .min = !bounded      ? 0
                                        : min > least ? min
                                                      : least,
                                 .max = !bounded     ? 0
                                        : max < most ? max
                                                     : most};
    }
    tk_params_fini(&params);
    return found ? TOLK_OK : TOLK_E_ARG;
}

static tolk_status param_dims(const tk_params *params, size_t i, const int64_t *vals, size_t n_vals,
                              int64_t *dims, int64_t *elems, tolk_error *err) {
    if (i >= params->list.n)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "param %zu of %zu", i, params->list.n);
    const tk_param *p = &params->list.at[i];
    char text[64];
    if (p->is_scalar)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "param %s is a scalar, it has no shape",
                              tk_params_text(p, text));
    if (n_vals != params->n_vals)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%zu scalars are given, expected %u",
                              n_vals, params->n_vals);
    return tk_params_shape(p, params, vals, dims, elems, err);
}

tolk_status tolk_kernel_param_dims(const tolk_uop *kernel, size_t i, const int64_t *vals,
                                   size_t n_vals, int64_t *dims, int64_t *elems, tolk_error *err) {
    tk_params params;
    TK_TRY(tk_params_init(&params, kernel, kernel->graph->al, err));
    tolk_status st = param_dims(&params, i, vals, n_vals, dims, elems, err);
    tk_params_fini(&params);
    return st;
}

const char *tolk_kernel_name(const tolk_uop *kernel) {
    const char *name = tk_uop_is(kernel, TK_OP_SINK)     ? tk_uop_str(kernel, TK_A_SINK_NAME)
                       : tk_uop_is(kernel, TK_OP_LINEAR) ? tk_uop_str(kernel, TK_A_LINEAR_NAME)
                                                         : NULL;
    return name ? name : "kernel";
}

static bool is_kernel(const tolk_uop *u, const char *name) {
    return (tk_uop_is(u, TK_OP_SINK) || tk_uop_is(u, TK_OP_LINEAR)) &&
           (!name || strcmp(name, tolk_kernel_name(u)) == 0);
}

const tolk_uop *tolk_kernel_find(const tolk_uop *root, const char *name) {
    if (!tk_uop_is(root, TK_OP_GROUP))
        return is_kernel(root, name) ? root : NULL;
    if (!name && root->n_src != 1)
        return NULL;
    for (uint32_t i = 0; i < root->n_src; i++)
        if (is_kernel(root->src[i], name))
            return root->src[i];
    return NULL;
}

tolk_status tk_params_check_launch(const tolk_launch_opts *opts, tolk_error *err) {
    if (!opts || opts->size == sizeof *opts)
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "tolk_launch_opts.size is %u, this library knows %zu (use "
                          "TOLK_LAUNCH_OPTS_INIT)",
                          opts->size, sizeof *opts);
}
