/* SPDX-License-Identifier: MIT
 *
 * The shape of a BUFFER or PARAM once its variables have values. Nothing here writes to the graph.
 */
#include "ir/check.h"
#include "ir/params.h"

#include <tolk/realize.h>

#include <string.h>

static const tolk_var *find_var(const tolk_var *vars, size_t n, const char *name) {
    for (size_t i = 0; name && i < n; i++)
        if (vars[i].name && strcmp(vars[i].name, name) == 0)
            return &vars[i];
    return NULL;
}

/* Values of the params of a dimension, in their order. */
static tolk_status read_values(const tk_params *params, const tolk_var *vars, size_t n_vars,
                               int64_t *vals, tolk_error *err) {
    for (uint32_t i = 0; i < params->n_vals; i++) {
        const tk_param *p = tk_params_val(params, i);
        const tolk_var *v = find_var(vars, n_vars, p->name);
        char text[64];
        if (!v)
            return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE, "variable %s has no value",
                                  tk_params_text(p, text));
        int64_t lo = tk_uop_int(p->node, TK_A_PARAM_MIN), hi = tk_uop_int(p->node, TK_A_PARAM_MAX);
        if (tolk_dtype_is_int(p->dtype) && !tk_params_within(p->dtype, lo, hi, v->value))
            return tk_status_fail(
                err, TOLK_E_LAUNCH, TK_NO_NODE, "variable %s is %lld, expected %lld to %lld",
                tk_params_text(p, text), (long long)v->value, (long long)lo, (long long)hi);
        vals[i] = v->value;
    }
    return TOLK_OK;
}

static tolk_status one_dim(const tolk_uop *expr, const tolk_var *vars, size_t n_vars, int64_t *out,
                           tolk_error *err) {
    const tolk_allocator *al = expr->graph->al;
    tk_params params;
    TK_TRY(tk_params_init(&params, expr, al, err));
    size_t bytes = (params.n_vals + 1) * sizeof(int64_t);
    int64_t *vals = tk_alloc(al, bytes);
    tolk_status st = vals ? read_values(&params, vars, n_vars, vals, err) : tk_status_nomem(err);
    if (st == TOLK_OK)
        st = tk_params_eval(expr, &params, vals, out, err);
    tk_alloc_free(al, vals, bytes);
    tk_params_fini(&params);
    return st;
}

tolk_status tolk_node_dims(const tolk_uop *node, const tolk_var *vars, size_t n_vars, int64_t *dims,
                           uint32_t *rank, tolk_error *err) {
    if (!node || !dims || !rank || (n_vars && !vars))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_node_dims: an argument is NULL");
    if (!tk_uop_is(node, TK_OP_BUFFER) &&
        (!tk_uop_is(node, TK_OP_PARAM) || tk_check_is_scalar_param(node)))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_node_dims: the node is %s, expected a buffer or param",
                              tk_check_is_scalar_param(node) ? "a scalar"
                                                             : tk_op_get(tk_uop_op(node))->name);
    const tolk_uop *const *shape = node->src;
    uint32_t n = node->n_src;
    if (n && tk_uop_is(shape[0], TK_OP_STACK)) {
        n = shape[0]->n_src;
        shape = shape[0]->src;
    }
    int64_t d[TK_PARAMS_MAX_RANK], elems = 1;
    bool fits = true, empty = false;
    for (uint32_t i = 0; i < n; i++) {
        TK_TRY(one_dim(shape[i], vars, n_vars, &d[i], err));
        if (d[i] < 0)
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE, "dimension %u of the %s is %lld",
                                  i, tk_op_get(tk_uop_op(node))->name, (long long)d[i]);
        empty |= d[i] == 0;
        fits = fits && tk_check_mul(&elems, d[i]);
    }
    if (!fits && !empty)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "too large: its number of elements does not fit 63 bits");
    memcpy(dims, d, n * sizeof *d);
    *rank = n;
    return TOLK_OK;
}
