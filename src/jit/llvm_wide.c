/* SPDX-License-Identifier: MIT */
#include "jit/llvm_wide.h"

#include "ir/dtype.h"

uint32_t tk_llvm_wide_lanes(const tk_llvm_fn *f, tolk_dtype dtype) {
    uint32_t lanes = tolk_dtype_lanes(dtype), bits = tk_dtype_bits(tk_dtype_scalar(dtype));
    uint32_t register_bits = f->target->vec_bytes > 16 ? 8 * f->target->vec_bytes : 128;
    uint32_t most = register_bits / bits;
    return lanes < most ? lanes : most;
}

void tk_llvm_wide_const(const tk_llvm_fn *f, tolk_dtype dtype, uint64_t bits, tk_llvm_wide *out) {
    uint32_t lanes = tk_llvm_wide_lanes(f, dtype);
    LLVMValueRef c = tk_llvm_build_const(f, tk_llvm_wide_piece(dtype, lanes), bits);
    out->n = tolk_dtype_lanes(dtype) / lanes;
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = c;
}

void tk_llvm_wide_splat(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x, tk_llvm_wide *out) {
    uint32_t lanes = tk_llvm_wide_lanes(f, dtype);
    LLVMValueRef v = tk_llvm_build_splat(f, tk_llvm_wide_piece(dtype, lanes), x);
    out->n = tolk_dtype_lanes(dtype) / lanes;
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = v;
}

void tk_llvm_wide_cut(tk_llvm_fn *f, tolk_dtype dtype, tk_llvm_wide *x, uint32_t lanes) {
    uint32_t all = tolk_dtype_lanes(dtype), now = all / x->n;
    if (f->status != TOLK_OK)
        return;
    if (lanes < now) {
        uint32_t parts = now / lanes;
        for (uint32_t i = x->n; i-- > 0;) {
            LLVMValueRef whole = x->at[i];
            for (uint32_t k = parts; k-- > 0;)
                x->at[i * parts + k] = tk_llvm_build_lanes(f, whole, k * lanes, lanes);
        }
        x->n *= parts;
    }
    for (; now < lanes; now *= 2) {
        x->n /= 2;
        for (uint32_t i = 0; i < x->n; i++)
            x->at[i] = tk_llvm_build_joined(f, x->at[2 * i], x->at[2 * i + 1]);
    }
}

LLVMValueRef tk_llvm_wide_lane(tk_llvm_fn *f, tolk_dtype dtype, const tk_llvm_wide *x,
                               uint32_t lane) {
    uint32_t lanes = tolk_dtype_lanes(dtype) / x->n;
    return tk_llvm_build_extract(f, tk_llvm_wide_piece(dtype, lanes), x->at[lane / lanes],
                                 lane % lanes);
}

LLVMValueRef tk_llvm_wide_mask(tk_llvm_fn *f, tk_legal_op op, tolk_dtype mask_dtype,
                               const tk_llvm_wide *mask) {
    uint32_t lanes = tolk_dtype_lanes(mask_dtype) / mask->n;
    tolk_dtype piece = tk_llvm_wide_piece(mask_dtype, lanes);
    LLVMValueRef all = mask->at[0];
    if (op != TK_LEGAL_BITS) {
        for (uint32_t i = 1; i < mask->n; i++)
            all = tk_llvm_build_bin(f, op == TK_LEGAL_ANY ? TK_LEGAL_OR : TK_LEGAL_AND, piece, all,
                                    mask->at[i]);
        return tk_llvm_build_mask(f, op, piece, all);
    }
    /* What a byte a lane holds gives its bits at once. */
    tk_llvm_wide x = *mask;
    lanes = tk_llvm_wide_lanes(f, mask_dtype);
    tk_llvm_wide_cut(f, mask_dtype, &x, lanes);
    piece = tk_llvm_wide_piece(mask_dtype, lanes);
    all = NULL;
    for (uint32_t i = 0; i < x.n; i++) {
        LLVMValueRef bits = tk_llvm_build_mask(f, op, piece, x.at[i]);
        if (i)
            bits = tk_llvm_build_bin(f, TK_LEGAL_SHL, TOLK_U64, bits,
                                     tk_llvm_build_const(f, TOLK_U64, (uint64_t)i * lanes));
        all = all ? tk_llvm_build_bin(f, TK_LEGAL_OR, TOLK_U64, all, bits) : bits;
    }
    return all;
}

static LLVMValueRef piece_address(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                  uint32_t lane) {
    return lane ? tk_llvm_build_address(f, dtype, address, tk_llvm_build_const(f, TOLK_INDEX, lane),
                                        true)
                : address;
}

void tk_llvm_wide_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address, tk_llvm_wide *out) {
    uint32_t lanes = tk_llvm_wide_lanes(f, dtype);
    tolk_dtype piece = tk_llvm_wide_piece(dtype, lanes);
    out->n = tolk_dtype_lanes(dtype) / lanes;
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = tk_llvm_build_load(f, piece, piece_address(f, dtype, address, i * lanes));
}

void tk_llvm_wide_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                        const tk_llvm_wide *x) {
    uint32_t lanes = tolk_dtype_lanes(dtype) / x->n;
    tolk_dtype piece = tk_llvm_wide_piece(dtype, lanes);
    for (uint32_t i = 0; i < x->n; i++)
        tk_llvm_build_store(f, piece, piece_address(f, dtype, address, i * lanes), x->at[i]);
}

void tk_llvm_wide_phi(tk_llvm_fn *f, const tk_llvm_wide *a, LLVMBasicBlockRef from_a,
                      const tk_llvm_wide *b, LLVMBasicBlockRef from_b, tk_llvm_wide *out) {
    out->n = a->n;
    for (uint32_t i = 0; i < a->n; i++)
        out->at[i] = a->at[i] ? tk_llvm_build_phi(f, LLVMTypeOf(a->at[i]), a->at[i], from_a,
                                                  b->at[i], from_b)
                              : NULL;
}
