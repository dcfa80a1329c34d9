/* SPDX-License-Identifier: MIT
 *
 * What is only on a GPU: the kernel's function and its parameters, the place of a thread, shared
 * memory, accesses by single threads, and how they meet. docs/ptx.md is the contract with whoever
 * launches such a kernel.
 */
#ifndef TK_JIT_LLVM_PTX_H
#define TK_JIT_LLVM_PTX_H

#include "ir/params.h"
#include "jit/llvm_mem.h"

enum {
    /* Most bytes of parameters (PTX ISA, "Kernel Function Parameters"): before PTX 8.1, and from
       it. */
    TK_LLVM_PTX_PARAM_BYTES = 4096,
    TK_LLVM_PTX_MORE_PARAMS = 81,
    TK_LLVM_PTX_MORE_PARAM_BYTES = 32764,
    TK_LLVM_PTX_VECTOR_ALIGN = 16, /* of arrays that are accessed by vectors */
    /* The fault record: u32 that is 0 or 1, u32 slot, i64 index. */
    TK_LLVM_PTX_FAULT = 0,
    TK_LLVM_PTX_FAULT_SLOT = 4,
    TK_LLVM_PTX_FAULT_INDEX = 8
};

/* A kernel named symbol in f->module, with an entry block where the builder stands: the params in
 * ascending slot order, and then the address of the fault record, f->env. threads: most in a block.
 * False: failed. */
bool tk_llvm_ptx_function(tk_llvm_fn *f, const char *symbol, const tk_params *params,
                          uint32_t threads);
/* The value of a param: an address in global memory, or a scalar. NULL: failed. */
LLVMValueRef tk_llvm_ptx_param(tk_llvm_fn *f, const tk_params *params, const tk_param *p);

/* The block's index (in one of three dimensions), the thread's in its block, as i64. wide: all
 * blocks counted through in x, where there are more than x takes. */
LLVMValueRef tk_llvm_ptx_block(tk_llvm_fn *f, int dim, bool wide);
LLVMValueRef tk_llvm_ptx_thread(tk_llvm_fn *f, int dim);

/* One access of one lane, or an ungated one of 2 or 4 lanes that was proved. in_parts: such a one
 * lane by lane, as its buffer may not be aligned. */
LLVMValueRef tk_llvm_ptx_load(tk_llvm_fn *f, const tk_llvm_access *a, bool in_parts,
                              bool read_only);
bool tk_llvm_ptx_store(tk_llvm_fn *f, const tk_llvm_access *a, bool in_parts);
/* Add to an element as one step; of what several threads add, the order is not defined. */
bool tk_llvm_ptx_atomic_add(tk_llvm_fn *f, const tk_llvm_access *a);

/* The address of static shared memory: `number` names it within the kernel. */
LLVMValueRef tk_llvm_ptx_shared(tk_llvm_fn *f, uint32_t number, uint64_t bytes);
/* The address of the shared memory that a launch asks for, from a byte on; and how many elements it
 * has from there, as i64. */
LLVMValueRef tk_llvm_ptx_dynamic(tk_llvm_fn *f, uint64_t from);
LLVMValueRef tk_llvm_ptx_dynamic_elements(tk_llvm_fn *f, tolk_dtype dtype, uint64_t from);

/* All threads of the block meet; what they stored before is seen by all of them after. */
void tk_llvm_ptx_barrier(tk_llvm_fn *f);
/* The value (dtype, in value form) of the thread whose number in its warp is this one's xor lane
 * (of dtype lane_dtype); the own one where there is none. threads: of a block; 0: not known. */
LLVMValueRef tk_llvm_ptx_shuffle(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x,
                                 tolk_dtype lane_dtype, LLVMValueRef lane, uint32_t threads);

#endif
