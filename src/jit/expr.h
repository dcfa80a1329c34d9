/* SPDX-License-Identifier: MIT
 *
 * Integer expressions of scalar params, compiled to a short list that is evaluated at each launch
 * with no allocation: sizes of buffers, iterations, work.
 */
#ifndef TK_JIT_EXPR_H
#define TK_JIT_EXPR_H

#include "base/strbuf.h"
#include "ir/params.h"

/* One step; its result is value number i, i its position. */
typedef struct tk_expr_step {
    uint8_t op, dtype; /* TK_OP_CONST: value is the bits; TK_OP_PARAM: value is the place in vals */
    uint16_t a, b, c;  /* values of earlier steps */
    int64_t value;
} tk_expr_step;

enum { TK_EXPR_MAX_STEPS = 512 };

typedef TK_VEC(tk_expr_step) tk_expr_steps;

/* Append the steps of u. *out: number of its value. Steps of shared nodes are shared if `done`, a
 * map from node ids to value numbers + 1, is kept between calls. Errors: TOLK_E_LIMIT,
 * TOLK_E_UNSUPPORTED. */
tolk_status tk_expr_compile(const tolk_uop *u, const tk_params *params, tk_map *done,
                            tk_expr_steps *steps, uint16_t *out, tolk_error *err);
/* Evaluate all n steps (at most TK_EXPR_MAX_STEPS) into values.
 *
 *   wraps: NULL, or room for n: whether value i, or one it is made of, is an i64 or index that does
 *          not fit 64 bits.
 */
void tk_expr_eval(const tk_expr_step *steps, size_t n, const int64_t *vals, int64_t *values,
                  bool *wraps);
/* Does any step read a scalar param? */
bool tk_expr_is_constant(const tk_expr_step *steps, size_t n);

#endif
