/* SPDX-License-Identifier: MIT
 *
 * Sums of constant multiples of unknowns: c1*t1 + c2*t2 + ... + k. Integers of a dtype are taken
 * modulo 2^bits, so reading and building such sums is always exact; a sum whose bounds fit the
 * dtype is the value as an integer, too, and only then may it be divided or compared.
 */
#ifndef TK_IR_LINEAR_H
#define TK_IR_LINEAR_H

#include "ir/bounds.h"

enum { TK_LINEAR_MAX = 24 };

typedef struct tk_linear {
    tolk_dtype dtype;
    uint32_t n;
    uint32_t leaves; /* terms and constants met by tk_linear_of, before like ones merged */
    tk_wide k;
    struct {
        const tolk_uop *u;
        int64_t c; /* not 0; the signed number of the dtype's width */
    } at[TK_LINEAR_MAX];
} tk_linear;

/* Integer constant, or a vector whose lanes are all that constant. */
bool tk_linear_const(const tolk_uop *u, tk_wide *out);
/* Constant of dtype (with lanes: the splat) from an integer modulo 2^bits. */
const tolk_uop *tk_linear_make_const(tolk_graph *g, tolk_dtype dtype, tk_wide v);
/* c modulo 2^bits of dtype, as a signed number. */
int64_t tk_linear_wrap(tolk_dtype dtype, tk_wide c);

/* u as a sum; u must be an integer. What has more than TK_LINEAR_MAX terms is the term u itself. */
void tk_linear_of(const tolk_uop *u, tk_linear *out);
/* The sum that is u alone. */
void tk_linear_opaque(const tolk_uop *u, tk_linear *out);
/* a += c * b (same dtype). False, and a is spoilt, if there are too many terms. */
bool tk_linear_add(tk_linear *a, const tk_linear *b, tk_wide c);
/* a - b over the integers, for exact a and b; false if it has too many terms or does not fit. */
bool tk_linear_difference(const tk_linear *a, const tk_linear *b, tk_linear *out);
/* a += c * u. */
bool tk_linear_add_term(tk_linear *a, const tolk_uop *u, tk_wide c);
void tk_linear_remove(tk_linear *a, uint32_t i);
/* Bounds of the sum over the integers; false if they pass 2^100. */
bool tk_linear_bound(const tk_linear *a, tk_wide_bound *out);
/* Is the sum, with k moved by multiples of 2^bits (done here), the very integer that the node
 * holds? Bounds are put in *out (which may be NULL) if so. */
bool tk_linear_exact(tk_linear *a, tk_wide_bound *out);
/* The one node for a sum: positive multiples by structure, then the negative ones subtracted, then
 * the constant. NULL: g failed. */
const tolk_uop *tk_linear_build(tolk_graph *g, tk_linear *a);

tk_wide tk_linear_floordiv(tk_wide a, tk_wide b); /* b not 0 */
tk_wide tk_linear_gcd(tk_wide a, tk_wide b);      /* not negative */

#endif
