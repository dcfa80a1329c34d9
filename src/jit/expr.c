/* SPDX-License-Identifier: MIT */
#include "jit/expr.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

static tolk_status compile_one(const tolk_uop *u, const tk_params *params, tk_map *done,
                               tk_expr_step *step, tolk_error *err) {
    *step = (tk_expr_step){.op = u->op, .dtype = (uint8_t)tk_dtype_scalar(u->dtype)};
    if (tk_uop_is_const(u)) {
        step->value = u->attr[0].i;
        return TOLK_OK;
    }
    if (tk_uop_is(u, TK_OP_PARAM)) {
        const tk_param *p = tk_params_find(params, tk_uop_int(u, TK_A_PARAM_SLOT));
        if (p && p->is_scalar) {
            step->value = p->place;
            return TOLK_OK;
        }
    }
    if (!tk_op_is_alu(tk_uop_op(u)) || tk_uop_is(u, TK_OP_BITCAST) || u->n_src > 3)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "%s: a size may be made of constants, variables and integer "
                              "arithmetic only",
                              tk_op_get(tk_uop_op(u))->name);
    uint16_t src[3] = {0, 0, 0};
    for (uint32_t i = 0; i < u->n_src; i++)
        src[i] = (uint16_t)(*tk_map_find(done, u->src[i]->id) - 1);
    step->a = src[0];
    step->b = src[1];
    step->c = src[2];
    /* The table of values is asked by the dtype of the operands; a cast needs both. */
    uint32_t typed = tk_uop_is(u, TK_OP_WHERE) ? 1 : 0;
    if (tk_uop_is(u, TK_OP_CAST))
        step->value = tk_dtype_scalar(u->src[0]->dtype);
    else
        step->dtype = (uint8_t)tk_dtype_scalar(u->src[typed]->dtype);
    return TOLK_OK;
}

tolk_status tk_expr_compile(const tolk_uop *u, const tk_params *params, tk_map *done,
                            tk_expr_steps *steps, uint16_t *out, tolk_error *err) {
    TK_VEC(const tolk_uop *) todo;
    tk_vec_init(&todo, steps->al);
    tolk_status st = tk_vec_push(&todo, u) ? TOLK_OK : tk_status_nomem(err);
    while (st == TOLK_OK && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool leaf = tk_uop_is(x, TK_OP_CONST) || tk_uop_is(x, TK_OP_PARAM), ready = true;
        for (uint32_t i = 0; i < x->n_src && !leaf && st == TOLK_OK; i++)
            if (!tk_map_find(done, x->src[i]->id)) {
                ready = false;
                if (!tk_vec_push(&todo, x->src[i]))
                    st = tk_status_nomem(err);
            }
        if (!ready || st != TOLK_OK)
            continue;
        todo.n--;
        if (tk_map_find(done, x->id))
            continue;
        tk_expr_step step;
        if (steps->n >= TK_EXPR_MAX_STEPS)
            st = tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                "sizes of one kernel take more than %d operations",
                                TK_EXPR_MAX_STEPS);
        else
            st = compile_one(x, params, done, &step, err);
        if (st == TOLK_OK && (!tk_vec_push(steps, step) || !tk_map_put(done, x->id, steps->n)))
            st = tk_status_nomem(err);
    }
    tk_vec_fini(&todo);
    if (st == TOLK_OK)
        *out = (uint16_t)(*tk_map_find(done, u->id) - 1);
    return st;
}

/* Does the value of a step fit, if those it is made of do? */
static bool fits(const tk_expr_step *s, const int64_t *values) {
    if (s->dtype != TOLK_INDEX && s->dtype != TOLK_I64)
        return true;
    if (s->op == TK_OP_CAST)
        return s->value != TOLK_U64 || values[s->a] >= 0;
    return tk_params_fits((tk_op)s->op, values[s->a], values[s->b], values[s->c]);
}

static bool step_wraps(const tk_expr_step *s, const int64_t *values, const bool *wraps) {
    if (s->op == TK_OP_CONST || s->op == TK_OP_PARAM)
        return false;
    if (s->op == TK_OP_WHERE)
        return wraps[s->a] || wraps[values[s->a] ? s->b : s->c];
    bool zero = (values[s->a] == 0 && !wraps[s->a]) || (values[s->b] == 0 && !wraps[s->b]);
    if (s->op == TK_OP_MUL && zero)
        return false;
    uint32_t n = tk_op_get((tk_op)s->op)->max_src;
    return wraps[s->a] || (n > 1 && wraps[s->b]) || (n > 2 && wraps[s->c]) || !fits(s, values);
}

void tk_expr_eval(const tk_expr_step *steps, size_t n, const int64_t *vals, int64_t *values,
                  bool *wraps) {
    for (size_t i = 0; i < n; i++) {
        const tk_expr_step *s = &steps[i];
        if (s->op == TK_OP_CONST)
            values[i] = s->value;
        else if (s->op == TK_OP_PARAM)
            values[i] = (int64_t)tk_dtype_canon(s->dtype, (uint64_t)vals[s->value]);
        else if (s->op == TK_OP_CAST)
            values[i] =
                (int64_t)tk_scalar_cast((tolk_dtype)s->value, s->dtype, (uint64_t)values[s->a]);
        else
            values[i] =
                (int64_t)tk_scalar_alu((tk_op)s->op, s->dtype, (uint64_t)values[s->a],
                                       (uint64_t)values[s->b], (uint64_t)values[s->c], true);
        if (wraps)
            wraps[i] = step_wraps(s, values, wraps);
    }
}

bool tk_expr_is_constant(const tk_expr_step *steps, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (steps[i].op == TK_OP_PARAM)
            return false;
    return true;
}
