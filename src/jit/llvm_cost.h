/* SPDX-License-Identifier: MIT
 *
 * How much machine code an instruction of a program becomes: LLVM takes time with more than the
 * number of those.
 */
#ifndef TK_JIT_LLVM_COST_H
#define TK_JIT_LLVM_COST_H

#include "ir/uop.h"
#include "jit/llvm_build.h"

/* Instructions of the machine, about. Values of many pieces are kept on the stack. */
uint32_t tk_llvm_cost(const tk_llvm_fn *f, const tolk_uop *u);

#endif
