/* SPDX-License-Identifier: MIT
 *
 * Simplifying quotients and remainders of integers.
 */
#ifndef TK_IR_DIVMOD_H
#define TK_IR_DIVMOD_H

#include "ir/uop.h"

/* One step on a CDIV, CMOD, FLOORDIV or FLOORMOD whose sources are simplified; NULL: no match.
 *
 * With divisor c > 0 and the dividend as an exact sum L = sum ci*ti + k:
 *   1. L = c*Q + R with R inside one period of c: L div c = Q + R div c, L mod c = R mod c.
 *   2. common factor g of c and some terms, the rest of L inside one period of g: divide by g.
 *   3. (x div a + k) div c = (x + k*a) div (a*c); (x mod a*c) div c = (x div c) mod a;
 *      x mod (a*c) inside of ... mod c is x.
 *   4. multiples of c leave a quotient, and vanish from a remainder.
 * Truncation equals flooring where L >= 0 and is turned into it; where L <= 0 it is flooring of -L;
 * where L may have both signs only rules that hold for it are used.
 */
const tolk_uop *tk_divmod_rule(tolk_graph *g, const tolk_uop *u);

#endif
