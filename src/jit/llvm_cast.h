/* SPDX-License-Identifier: MIT
 *
 * CAST and BITCAST of the value table in LLVM IR.
 */
#ifndef TK_JIT_LLVM_CAST_H
#define TK_JIT_LLVM_CAST_H

#include "jit/llvm_build.h"

/* from and to have the same lanes. NULL: failed. */
LLVMValueRef tk_llvm_cast(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x);
LLVMValueRef tk_llvm_cast_bits(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x);

#endif
