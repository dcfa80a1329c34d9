/* SPDX-License-Identifier: MIT
 *
 * Loads and stores: contiguous, gathered, gated, checked.
 */
#ifndef TK_JIT_LLVM_MEM_H
#define TK_JIT_LLVM_MEM_H

#include "jit/llvm_wide.h"

typedef struct tk_llvm_access {
    tolk_dtype dtype;    /* of the value, with lanes */
    LLVMValueRef base;   /* address of the buffer */
    bool scattered;      /* each lane has an index of its own */
    bool gated;          /* only where the gate is true */
    tk_llvm_wide index;  /* i64: the element of lane 0, the others follow; or one for each */
    tk_llvm_wide gate;   /* bool with the lanes of the value */
    tk_llvm_wide value;  /* stored, or the alternative of a gated load */
    LLVMValueRef size;   /* i64: elements of the buffer; NULL: proved to be inside */
    int64_t const_size;  /* the same if it is a constant, else -1 */
    uint32_t fault_slot; /* what the fault record says */
    tolk_dtype code; /* of an atomic addition: the narrow float whose codes are added; else VOID */
} tk_llvm_access;

/* False: failed. */
bool tk_llvm_mem_load(tk_llvm_fn *f, const tk_llvm_access *a, tk_llvm_wide *out);
bool tk_llvm_mem_store(tk_llvm_fn *f, const tk_llvm_access *a);
/* Lane by lane, in ascending order. Bool: true is or-ed to the byte. */
bool tk_llvm_mem_atomic_add(tk_llvm_fn *f, const tk_llvm_access *a);

#endif
