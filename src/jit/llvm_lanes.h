/* SPDX-License-Identifier: MIT
 *
 * What is rare, out of the way: functions of the module that do an access lane by lane, and one
 * that records a fault. They preserve the registers of their caller, so that a call of one costs
 * the code around it nothing but the call; a loop in the kernel itself for each of some hundred
 * accesses keeps the register allocator and the scheduler busy for seconds.
 */
#ifndef TK_JIT_LLVM_LANES_H
#define TK_JIT_LLVM_LANES_H

#include "jit/llvm_mem.h"

/* For each lane, lowest first, whose gate is set: access its element; if `checked` and it is
 * outside, record the fault and give 0 instead. a is in memory form. out: the lanes of a load
 * (a->value where the gate is not set). */
void tk_llvm_lanes_access(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, bool checked,
                          tk_llvm_wide *out);
/* Record that element `index` was asked for, unless there is a fault already. */
void tk_llvm_lanes_fault(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef index);

#endif
