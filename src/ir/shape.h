/* SPDX-License-Identifier: MIT
 *
 * Shapes of tensor values and buffers. Values of kernels and programs have rank 0; their buffers
 * have the shape that they are declared with.
 */
#ifndef TK_IR_SHAPE_H
#define TK_IR_SHAPE_H

#include "ir/uop.h"

/* Shape of u; each dimension is an index scalar of the graph. Kept in the graph's memo table, so
 * one thread at a time per graph. A buffer with dynamic=true has shape [0]: its size is not known
 * before the launch.
 *
 * Errors: TOLK_E_SHAPE (sources do not fit), TOLK_E_LIMIT (more elements than 63 bits hold, or too
 * many dimensions), TOLK_E_NOMEM. err (may be NULL) has no node number; *at (may be NULL) is the
 * node whose rule was broken, which may lie below u.
 */
tolk_status tk_shape_get(const tolk_uop *u, const tk_shape **out, const tolk_uop **at,
                         tolk_error *err);
/* The same; NULL on failure, which is recorded in the graph. */
const tk_shape *tk_shape_of(const tolk_uop *u);

/* Number of elements if every dimension is a constant; false if one is not. */
bool tk_shape_elems(const tk_shape *shape, int64_t *out);

/* "[4, n, ?]": constants, names of variables, anything else. Cut to fit. Returns buf. */
const char *tk_shape_text(const tk_shape *shape, char buf[64]);

#endif
