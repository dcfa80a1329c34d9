/* SPDX-License-Identifier: MIT
 *
 * Codes of f16, bf16, fp8e4m3 and fp8e5m2 where no pass has made them numbers: in what adds to
 * memory.
 */
#ifndef TK_JIT_LLVM_CODE_H
#define TK_JIT_LLVM_CODE_H

#include "jit/llvm_build.h"

/* The f32 that a code (u32) of dtype stands for. NULL: failed; so for the other. */
LLVMValueRef tk_llvm_code_widen(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef code);
/* The code (u32) of the sum of a code and an f32 of the same dtype's values, rounded once. */
LLVMValueRef tk_llvm_code_sum(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef code, LLVMValueRef x);
/* Add a code (in the integer that holds codes of dtype) to the one at an address, as one step of
 * all threads: in a loop, until nobody else stored between load and exchange. */
void tk_llvm_code_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef at, LLVMValueRef x);

#endif
