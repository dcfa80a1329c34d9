/* SPDX-License-Identifier: MIT
 *
 * How places move with a range: the step in elements of an access when one range advances by one.
 */
#ifndef TK_JIT_AFFINE_H
#define TK_JIT_AFFINE_H

#include "jit/kview.h"

typedef enum tk_step_kind {
    TK_STEP_NONE,   /* does not depend on the range */
    TK_STEP_CONST,  /* a constant step */
    TK_STEP_UNKNOWN /* anything else */
} tk_step_kind;

typedef struct tk_step {
    tk_step_kind kind;
    int64_t elems;
} tk_step;

/* The steps of every node of v as an integer expression of range; out: v->n_ids entries, of the
 * caller. Wraparound is ignored: the result guides choices, it proves nothing. */
void tk_affine_steps(const tk_kview *v, const tolk_uop *range, tk_step *out);
/* Step of a place (INDEX) in elements of its buffer, from the steps of its indices. */
tk_step tk_affine_place(const tk_step *steps, const tolk_uop *place);

/* Largest power of two that surely divides an index, at most 64. */
int64_t tk_affine_divisor(const tolk_uop *index);

#endif
