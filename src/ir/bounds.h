/* SPDX-License-Identifier: MIT
 *
 * Bounds of integer values, and proofs of 0 <= a < b from bounds and the conditions of a gate.
 * Integers wrap around: where the exact result of an op may leave its dtype, the bounds are those
 * of the dtype. The arithmetic here is 128 bits wide and checked, so nothing in it overflows.
 */
#ifndef TK_IR_BOUNDS_H
#define TK_IR_BOUNDS_H

#include "ir/uop.h"

__extension__ typedef __int128 tk_wide;

/* Least and greatest value of u, in any lane, memoized in its graph (so: one thread at a time). For
 * anything but integers and bool, and for u64 values that may pass INT64_MAX, the state is 2
 * (unknown) and the bounds are those of int64. */
tk_bound tk_bounds(const tolk_uop *u);

/* The same with u64 as it is, for integers and bool only. */
typedef struct tk_wide_bound {
    tk_wide lo, hi;
} tk_wide_bound;
tk_wide_bound tk_bounds_wide(const tolk_uop *u);
/* All values of an integer dtype or bool. */
tk_wide_bound tk_bounds_dtype(tolk_dtype dtype);

/* Is it sure that 0 <= a < b wherever gate holds? gate: a bool, or NULL for always. Each side is
 * taken as a sum of multiples of unknowns, so i*16+lane < n follows from a gate that says it, from
 * a range of size n, and from parts of each. False means: not proved. */
bool tk_bounds_prove_lt(const tolk_uop *a, const tolk_uop *b, const tolk_uop *gate);
/* The upper half alone: a < b wherever gate holds, both as integers. */
bool tk_bounds_prove_less(const tolk_uop *a, const tolk_uop *b, const tolk_uop *gate);

#endif
