/* SPDX-License-Identifier: MIT
 *
 * The functions of math.def: computed on one scalar, or expanded into IR.
 */
#ifndef TK_IR_MATHFN_H
#define TK_IR_MATHFN_H

#include "ir/op.h"

#include <tolk/ir.h>

/* Functions of one operand with a slow body, with a fast body only, and of two operands.
 * X(OP, name in math.def, dtype suffix) */
/* clang-format off */
#define TK_MATHFN_SLOW(X)                                        \
    X(EXP, exp, f32)   X(EXP, exp, f64)                          \
    X(EXP2, exp2, f32) X(EXP2, exp2, f64)                        \
    X(LOG, log, f32)   X(LOG, log, f64)                          \
    X(LOG2, log2, f32) X(LOG2, log2, f64)                        \
    X(SIN, sin, f32)   X(SIN, sin, f64)                          \
    X(COS, cos, f32)   X(COS, cos, f64)
#define TK_MATHFN_FAST_ONLY(X)                                   \
    X(TANH, tanh, f32) X(TANH, tanh, f64)                        \
    X(ERF, erf, f32)   X(ERF, erf, f64)
#define TK_MATHFN_POW(X)                                         \
    X(POW, pow, f32)   X(POW, pow, f64)
/* clang-format on */

/* Is op one of EXP EXP2 LOG LOG2 SIN COS TANH ERF POW? */
bool tk_mathfn_is(tk_op op);

/* op(a), or a to the power of b, as every backend computes it.
 *
 *   dtype: a float dtype, its lanes ignored; f16, bf16 and the fp8s compute in f32 and round once.
 *   a, b: bits of that dtype; b is ignored unless op is POW.
 *   fma: the column: does the target have FMA?
 * Another op or dtype gives 0.
 */
uint64_t tk_mathfn_eval(tk_op op, tolk_dtype dtype, uint64_t a, uint64_t b, bool fma);

/* The expansion of one function: the value is fast where cond is false, slow where it is true.
 * slow and cond are NULL where fast is right everywhere. */
typedef struct tk_mathfn_expansion {
    const tolk_uop *fast, *slow, *cond;
} tk_mathfn_expansion;

/* Build the nodes of op(a), or of a to the power of b, in graph.
 *
 *   a, b: of one float dtype and any number of lanes, those of the results; cond is bool.
 *         b is NULL unless op is POW.
 *   fma:  as above; with it the nodes hold MULACC, without it none.
 * Errors:  all three are NULL and graph holds the error.
 * Threads: one at a time per graph.
 */
tk_mathfn_expansion tk_mathfn_expand(tolk_graph *graph, tk_op op, const tolk_uop *a,
                                     const tolk_uop *b, bool fma);

#endif
