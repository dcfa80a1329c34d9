/* SPDX-License-Identifier: MIT
 *
 * Conversions of f16, bf16, fp8e4m3 and fp8e5m2 in IR, out of integer ops and exact f32 operations,
 * so that every target gives the bits of ir/narrow.h (NaN: any NaN). A code is an unsigned integer
 * of the dtype's width.
 */
#ifndef TK_IR_SOFTNARROW_H
#define TK_IR_SOFTNARROW_H

#include "ir/uop.h"

/* u16 or u8: the integer that holds codes of a narrow float dtype, with its lanes. */
tolk_dtype tk_softnarrow_code(tolk_dtype dtype);

/* The f32 that a code stands for. code: u32, below 2^16 or 2^8. Exact.
 * NULL for a failed operand, or on failure, recorded in g; so do the others. */
const tolk_uop *tk_softnarrow_widen(tolk_graph *g, tolk_dtype dtype, const tolk_uop *code);
/* The code of an f32, rounded once to nearest even, as u32. */
const tolk_uop *tk_softnarrow_round(tolk_graph *g, tolk_dtype dtype, const tolk_uop *x);
/* Any f64 or integer as an f32 rounded to odd: rounding that to a narrow dtype is rounding the
 * value itself once (24 bits are two more than the most a narrow dtype has).
 * Ref: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
 *      rounding to odd", IEEE Trans. Computers 57(4), 2008. */
const tolk_uop *tk_softnarrow_to_odd(tolk_graph *g, const tolk_uop *x);

#endif
