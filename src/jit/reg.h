/* SPDX-License-Identifier: MIT
 *
 * Registers of a program that passes write: reg buffers, and accesses to their elements. New nodes
 * of g. NULL: failed, also where an operand is NULL (but for token).
 */
#ifndef TK_JIT_REG_H
#define TK_JIT_REG_H

#include "ir/uop.h"

const tolk_uop *tk_reg_buffer(tolk_graph *g, tolk_dtype dtype, int64_t elems, int64_t slot);
/* The place of element k; token: the instruction that the access stands behind, or NULL. */
const tolk_uop *tk_reg_place(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                             const tolk_uop *token);
const tolk_uop *tk_reg_store(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                             const tolk_uop *value, const tolk_uop *token);
const tolk_uop *tk_reg_load(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                            const tolk_uop *token);

#endif
