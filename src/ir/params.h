/* SPDX-License-Identifier: MIT
 *
 * What a kernel or program takes, and its shapes once the scalars are known. Nothing here writes to
 * the graph.
 */
#ifndef TK_IR_PARAMS_H
#define TK_IR_PARAMS_H

#include "ir/uop.h"

enum { TK_PARAMS_MAX_RANK = 8 };

typedef struct tk_param {
    const tolk_uop *node;
    const char *name; /* NULL if it has none */
    int64_t slot;
    tolk_dtype dtype; /* of an element, or of the scalar */
    bool is_scalar;   /* passed in vals, not in bufs */
    bool loaded, stored;
    uint32_t place; /* its index in bufs or in vals */
    uint32_t rank;
    const tolk_uop *dim[TK_PARAMS_MAX_RANK]; /* integer scalars */
} tk_param;

/* All params below a root, in ascending slot order. */
typedef struct tk_params {
    TK_VEC(tk_param) list;
    uint32_t n_bufs, n_vals;
} tk_params;

/* Collect. Errors: TOLK_E_VERIFY if two params have one slot, TOLK_E_LIMIT if the rank is too
 * large, TOLK_E_NOMEM. On failure nothing is left to free; params then is empty. */
tolk_status tk_params_init(tk_params *params, const tolk_uop *root, const tolk_allocator *al,
                           tolk_error *err);
void tk_params_fini(tk_params *params);
/* The param of a slot, or NULL. */
const tk_param *tk_params_find(const tk_params *params, int64_t slot);
/* The i-th buffer, or scalar; i < n_bufs, n_vals. */
const tk_param *tk_params_buf(const tk_params *params, uint32_t i);
const tk_param *tk_params_val(const tk_params *params, uint32_t i);
/* "x" (slot 1): how messages name a param. At most 63 bytes and a NUL. Returns buf. */
const char *tk_params_text(const tk_param *param, char buf[64]);

/* Is the value of an integer scalar within min and max? Where no max is given (INT64_MAX), u64
 * values that no int64 can state are, too: in value they are negative. */
bool tk_params_within(tolk_dtype dtype, int64_t min, int64_t max, int64_t value);

/* Does the result of an op on signed 64-bit operands fit? In narrower dtypes results wrap. */
bool tk_params_fits(tk_op op, int64_t a, int64_t b, int64_t c);

/* Value of an integer expression of constants and scalar params.
 *
 *   vals: n_vals scalars, floats as bit patterns. A small expression allocates nothing.
 * Errors:  TOLK_E_LIMIT if a step in i64 or index does not fit 64 bits; TOLK_E_VERIFY if the
 *          expression holds anything else; TOLK_E_NOMEM.
 */
tolk_status tk_params_eval(const tolk_uop *expr, const tk_params *params, const int64_t *vals,
                           int64_t *out, tolk_error *err);
/* Shape and number of elements of a buffer param. dims: room for TK_PARAMS_MAX_RANK, or NULL.
 * Errors: those of tk_params_eval; TOLK_E_LAUNCH if a dimension is negative; TOLK_E_LIMIT if the
 * number of elements does not fit 63 bits. */
tolk_status tk_params_shape(const tk_param *param, const tk_params *params, const int64_t *vals,
                            int64_t *dims, int64_t *elems, tolk_error *err);

/* Are these options of a launch? NULL: the defaults. Errors: TOLK_E_ARG. */
tolk_status tk_params_check_launch(const tolk_launch_opts *opts, tolk_error *err);

#endif
