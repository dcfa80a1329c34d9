/* SPDX-License-Identifier: MIT
 *
 * The value table: what every elementwise op computes, on one element at a time, in exact and
 * obvious code. Constant folding and the interpreter use it; backends must agree bit for bit.
 *
 * Values are canonical bits: integers sign- or zero-extended to 64 bits, bool 0 or 1, floats their
 * bit pattern in the low bits (dtype.h: tk_dtype_canon).
 */
#ifndef TK_IR_SCALAR_H
#define TK_IR_SCALAR_H

#include "ir/op.h"

/* One ALU op (all of TK_CLASS_ALU1..3 but CAST and BITCAST).
 *
 *   dtype: scalar dtype of the operands (of the two values for WHERE).
 *   fma:   math functions as on a target with FMA (the definition) or without.
 */
uint64_t tk_scalar_alu(tk_op op, tolk_dtype dtype, uint64_t a, uint64_t b, uint64_t c, bool fma);
uint64_t tk_scalar_cast(tolk_dtype from, tolk_dtype to, uint64_t bits);
/* Same width only. */
uint64_t tk_scalar_bitcast(tolk_dtype from, tolk_dtype to, uint64_t bits);
/* Where a reduction starts. */
uint64_t tk_scalar_identity(tk_rop rop, tolk_dtype dtype);
/* Equal as the tests mean it: the same bits, or both NaN. */
bool tk_scalar_same(tolk_dtype dtype, uint64_t a, uint64_t b);

#endif
