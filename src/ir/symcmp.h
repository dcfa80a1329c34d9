/* SPDX-License-Identifier: MIT
 *
 * Simplifying comparisons and what is made of their results.
 */
#ifndef TK_IR_SYMCMP_H
#define TK_IR_SYMCMP_H

#include "ir/uop.h"

/* One step on a CMPLT, CMPNE or CMPEQ whose sources are simplified; NULL: no match. Integer
 * comparisons with a constant are brought to the forms sum < k and k < sum, sum without a constant
 * and with no common factor; !x is written as cmpne(x, true). */
const tolk_uop *tk_symcmp_rule(tolk_graph *g, const tolk_uop *u);
/* The same for the elementwise ops of bools with two operands. */
const tolk_uop *tk_symcmp_bool(tolk_graph *g, const tolk_uop *u);
/* The same for WHERE. */
const tolk_uop *tk_symcmp_where(tolk_graph *g, const tolk_uop *u);

/* Is u the bool constant v, in all lanes? */
bool tk_symcmp_is(const tolk_uop *u, bool v);
/* The bool constant v with the lanes of a dtype. */
const tolk_uop *tk_symcmp_truth(tolk_graph *g, tolk_dtype like, bool v);
const tolk_uop *tk_symcmp_not(tolk_graph *g, const tolk_uop *u);

#endif
