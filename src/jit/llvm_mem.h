/* SPDX-License-Identifier: MIT
 *
 * Loads and stores: contiguous, gathered, gated, checked.
 */
#ifndef TK_JIT_LLVM_MEM_H
#define TK_JIT_LLVM_MEM_H

#include "jit/llvm_build.h"

typedef struct tk_llvm_access {
    tolk_dtype dtype;    /* of the value, with lanes */
    LLVMValueRef base;   /* address of the buffer */
    LLVMValueRef index;  /* i64: element of lane 0, the others follow; or a vector: one for each */
    bool scattered;      /* index is a vector */
    LLVMValueRef gate;   /* bool with the lanes of the value; NULL: all */
    LLVMValueRef value;  /* stored, or the alternative of a gated load */
    LLVMValueRef size;   /* i64: elements of the buffer; NULL: proved to be inside */
    int64_t const_size;  /* the same if it is a constant, else -1 */
    uint32_t fault_slot; /* what the fault record says */
} tk_llvm_access;

LLVMValueRef tk_llvm_mem_load(tk_llvm_fn *f, const tk_llvm_access *a);
/* False: failed. */
bool tk_llvm_mem_store(tk_llvm_fn *f, const tk_llvm_access *a);

#endif
