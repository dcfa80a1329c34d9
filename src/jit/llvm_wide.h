/* SPDX-License-Identifier: MIT
 *
 * Values of programs may have more lanes than a register of the target holds. They are cut into
 * pieces here, so that LLVM sees only vectors that fit: what its legalizer does to others takes
 * very long, above all to comparisons, whose masks it packs and unpacks between types of other
 * widths.
 */
#ifndef TK_JIT_LLVM_WIDE_H
#define TK_JIT_LLVM_WIDE_H

#include "jit/llvm_build.h"

/* Lanes in order, in `n` pieces of equally many. A scalar is one piece. */
typedef struct tk_llvm_wide {
    uint32_t n;
    LLVMValueRef at[TOLK_MAX_LANES];
} tk_llvm_wide;

/* A dtype with so many lanes. */
static inline tolk_dtype tk_llvm_wide_piece(tolk_dtype dtype, uint32_t lanes) {
    return tolk_dtype_vec((tolk_dtype)(dtype & 0xff), lanes);
}

/* Lanes of a piece of a value of dtype; a bool counts as a byte. Masks are often in smaller pieces:
 * those of what was compared. */
uint32_t tk_llvm_wide_lanes(const tk_llvm_fn *f, tolk_dtype dtype);
/* The same bits, or the same scalar, in each lane. */
void tk_llvm_wide_const(const tk_llvm_fn *f, tolk_dtype dtype, uint64_t bits, tk_llvm_wide *out);
void tk_llvm_wide_splat(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x, tk_llvm_wide *out);
/* Cut x, of dtype, into pieces of so many lanes. */
void tk_llvm_wide_cut(tk_llvm_fn *f, tolk_dtype dtype, tk_llvm_wide *x, uint32_t lanes);
LLVMValueRef tk_llvm_wide_lane(tk_llvm_fn *f, tolk_dtype dtype, const tk_llvm_wide *x,
                               uint32_t lane);
/* tk_llvm_build_mask of all pieces. */
LLVMValueRef tk_llvm_wide_mask(tk_llvm_fn *f, tk_legal_op op, tolk_dtype mask_dtype,
                               const tk_llvm_wide *mask);
/* Loads and stores of consecutive lanes at a scalar address, in memory form. */
void tk_llvm_wide_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address, tk_llvm_wide *out);
void tk_llvm_wide_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                        const tk_llvm_wide *x);
/* The value that comes from each of two blocks; b is cut like a. */
void tk_llvm_wide_phi(tk_llvm_fn *f, const tk_llvm_wide *a, LLVMBasicBlockRef from_a,
                      const tk_llvm_wide *b, LLVMBasicBlockRef from_b, tk_llvm_wide *out);

#endif
