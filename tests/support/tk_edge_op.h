/* SPDX-License-Identifier: MIT
 *
 * One elementwise op of one dtype on all of the dtype's edge values, with operands of every origin.
 */
#ifndef TK_EDGE_OP_H
#define TK_EDGE_OP_H

#include "support/tk_edge.h"

#include "ir/op.h"

/* What the op gives by the value table, written without the library's code: the oracle of the
 * oracle. Canonical bits. */
typedef uint64_t (*tk_edge_model)(tk_op op, tolk_dtype dtype, uint64_t a, uint64_t b, uint64_t c);

/* Does the op take operands of this dtype? */
bool tk_edge_op_takes(tk_op op, tolk_dtype dtype);

/* Each of these: the interpreter against the model, code against the interpreter. dtype may be
 * index, whose values come and go as i64.
 *
 * pairs:     all values, pairs or triples of values, from memory
 * same:      one value as all operands
 * constants: operand 0, then 1, is each of the values as a constant. All on every target with the
 *            whole of the random suites (tk_test_share), else the first few and some others, each
 *            on one of them
 * scalars:   operand 0, then 1, is each of the values as an argument of the launch; one of the two
 *            with less than the whole
 * folded:    all operands are constants: what the simplifier makes of them is the constant that
 *            the model gives */
void tk_edge_op_pairs(tk_op op, tolk_dtype dtype, tk_edge_model model);
void tk_edge_op_same(tk_op op, tolk_dtype dtype, tk_edge_model model);
void tk_edge_op_constants(tk_op op, tolk_dtype dtype, tk_edge_model model);
void tk_edge_op_scalars(tk_op op, tolk_dtype dtype);
void tk_edge_op_folded(tk_op op, tolk_dtype dtype, tk_edge_model model);

/* One operation and its result, stated by hand. */
typedef struct tk_edge_fact {
    tk_op op;
    tolk_dtype dtype;
    uint64_t a, b, want; /* want and the operands: cut to their dtypes */
} tk_edge_fact;
/* Each fact, with operands from memory, as constants and folded. */
void tk_edge_op_facts(const tk_edge_fact *facts, size_t n);

#endif
