/* SPDX-License-Identifier: MIT
 *
 * Elementwise ops, casts, constants and vectors: the value table in LLVM IR.
 */
#ifndef TK_JIT_LLVM_ALU_H
#define TK_JIT_LLVM_ALU_H

#include "ir/uop.h"
#include "jit/llvm_wide.h"

/* A piece of so many lanes of the value of an elementwise op other than casts; s: those pieces of
 * its sources. NULL: failed. */
LLVMValueRef tk_llvm_alu(tk_llvm_fn *f, const tolk_uop *u, uint32_t lanes, const LLVMValueRef *s);

#endif
