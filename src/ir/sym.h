/* SPDX-License-Identifier: MIT
 *
 * Symbolic algebra: expressions that compute the same values with less. A rule is used only where
 * it holds for every value of the dtype by the value table (docs/numerics.md): integers wrap, a
 * division by 0 gives 0 and leaves the dividend, and no identity of floats fails for a NaN, an
 * infinity or -0. Loads, effects and their order stay; only what is computed around them changes.
 *
 * Canonical forms that other code may rely on: constants stand on the right of commutative ops;
 * index sums are sorted by structure, positive multiples first, the constant last; division and
 * remainder of what is not negative are FLOORDIV and FLOORMOD; bools use AND, OR and
 * CMPNE(x, true) for not; a gated index is WHERE(gate, i, invalid) with nothing outside of it.
 */
#ifndef TK_IR_SYM_H
#define TK_IR_SYM_H

#include "ir/uop.h"

/* u with everything below it simplified, to the fixpoint. NULL: g failed. */
const tolk_uop *tk_sym(tolk_graph *g, const tolk_uop *u);

/* Builders for sources that are simplified (others are allowed): the op, simplified with what it
 * makes anew; the sources themselves are not searched. NULL sources give NULL. With
 * g->symbolic_off they only build. */
const tolk_uop *tk_sym1(tolk_graph *g, tk_op op, const tolk_uop *a);
const tolk_uop *tk_sym2(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym3(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b,
                        const tolk_uop *c);
const tolk_uop *tk_sym_add(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_sub(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_mul(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_floordiv(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_floormod(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_cdiv(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_cmod(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_max(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_min(tolk_graph *g, const tolk_uop *a, const tolk_uop *b); /* integers */
const tolk_uop *tk_sym_lt(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_and(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_or(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_sym_not(tolk_graph *g, const tolk_uop *a); /* bool */
const tolk_uop *tk_sym_where(tolk_graph *g, const tolk_uop *c, const tolk_uop *a,
                             const tolk_uop *b);
/* Integers: a + k, a * k, a // k, a mod k (flooring), a < k. */
const tolk_uop *tk_sym_add_const(tolk_graph *g, const tolk_uop *a, int64_t k);
const tolk_uop *tk_sym_mul_const(tolk_graph *g, const tolk_uop *a, int64_t k);
const tolk_uop *tk_sym_div_const(tolk_graph *g, const tolk_uop *a, int64_t k);
const tolk_uop *tk_sym_mod_const(tolk_graph *g, const tolk_uop *a, int64_t k);
const tolk_uop *tk_sym_lt_const(tolk_graph *g, const tolk_uop *a, int64_t k);

#endif
