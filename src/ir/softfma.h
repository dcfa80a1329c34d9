/* SPDX-License-Identifier: MIT
 *
 * Fused multiply-add for targets that have none, in IR.
 */
#ifndef TK_IR_SOFTFMA_H
#define TK_IR_SOFTFMA_H

#include "ir/uop.h"

/* a * b + c rounded once, to nearest even, for every finite and special value, out of add, mul and
 * integer ops.
 *
 *   a, b, c: f32 or f64, one dtype, any lanes.
 * NULL on failure, recorded in g.
 * Ref: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
 *      rounding to odd", IEEE Trans. Computers 57(4), 2008.
 */
const tolk_uop *tk_softfma_expand(tolk_graph *g, const tolk_uop *a, const tolk_uop *b,
                                  const tolk_uop *c);
/* a + b of two f64 rounded to odd: where it is inexact, to the neighbour whose last bit is set, so
 * that rounding it again, to fewer bits, is rounding the exact sum. NULL on failure or for NULL. */
const tolk_uop *tk_softfma_add_to_odd(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);

#endif
