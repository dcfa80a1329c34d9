/* SPDX-License-Identifier: MIT
 *
 * An access that was not proved to be inside its buffer is done in one of two ways, by one test: no
 * lane is outside (the fast way, as if it had been proved), or some lane is (lane by lane, out of
 * the way, with a record of the fault). A gated access is masked where the target has the
 * instruction; otherwise it is whole where all gates are true, and lane by lane elsewhere. In
 * gathers and scatters lanes whose gate is false work on a slot on the stack.
 */
#include "jit/llvm_mem.h"

#include "ir/dtype.h"
#include "jit/llvm_code.h"
#include "jit/llvm_lanes.h"

/* Where lanes go that must not touch memory. */
static LLVMValueRef dummy(tk_llvm_fn *f) {
    LLVMValueRef *slot = &f->slot[TK_LLVM_SLOT_DUMMY];
    return *slot ? *slot : (*slot = tk_llvm_build_stack(f, 16));
}

static tolk_dtype mask_of(tolk_dtype dtype) {
    return tk_dtype_like(TOLK_BOOL, dtype);
}

static LLVMValueRef i64_const(const tk_llvm_fn *f, int64_t v) {
    return tk_llvm_build_const(f, TOLK_INDEX, (uint64_t)v);
}

/* A value as memory holds it, and back. A byte other than 0 and 1 is a true bool. */
static void to_memory(tk_llvm_fn *f, tolk_dtype dtype, tk_llvm_wide *x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    uint32_t lanes = tk_llvm_wide_lanes(f, m);
    tk_llvm_wide_cut(f, dtype, x, lanes);
    for (uint32_t i = 0; m != dtype && i < x->n; i++)
        x->at[i] = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, tk_llvm_wide_piece(dtype, lanes),
                                         tk_llvm_wide_piece(m, lanes), x->at[i]);
}

static void from_memory(tk_llvm_fn *f, tolk_dtype dtype, tk_llvm_wide *x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    tolk_dtype piece = tk_llvm_wide_piece(m, tolk_dtype_lanes(m) / x->n);
    for (uint32_t i = 0; m != dtype && i < x->n; i++)
        x->at[i] = tk_llvm_build_bin(f, TK_LEGAL_NE, piece, x->at[i], tk_llvm_build_zero(f, piece));
}

/* The bits of a gate, so that each lane costs one test. NULL: take the lanes themselves. */
static LLVMValueRef gate_bits(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype mask = mask_of(a->dtype);
    if (!a->gated || tolk_dtype_lanes(mask) == 1 || !tk_llvm_build_has(f, TK_LEGAL_BITS, mask))
        return NULL;
    return tk_llvm_wide_mask(f, TK_LEGAL_BITS, mask, &a->gate);
}

static LLVMValueRef gate_lane(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef bits,
                              uint32_t lane) {
    if (!a->gated)
        return NULL;
    if (!bits)
        return tk_llvm_wide_lane(f, mask_of(a->dtype), &a->gate, lane);
    LLVMValueRef bit = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U64, bits,
                                         tk_llvm_build_const(f, TOLK_U64, (uint64_t)1 << lane));
    return tk_llvm_build_bin(f, TK_LEGAL_NE, TOLK_U64, bit, tk_llvm_build_zero(f, TOLK_U64));
}

static LLVMValueRef lane_index(tk_llvm_fn *f, const tk_llvm_access *a, uint32_t lane) {
    if (a->scattered)
        return tk_llvm_wide_lane(f, tk_dtype_like(TOLK_INDEX, a->dtype), &a->index, lane);
    return lane ? tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, a->index.at[0], i64_const(f, lane))
                : a->index.at[0];
}

/* Address of one lane, or of the dummy slot if gate (NULL: none) is false. */
static LLVMValueRef lane_address(tk_llvm_fn *f, const tk_llvm_access *a, uint32_t lane,
                                 LLVMValueRef gate) {
    LLVMValueRef p = tk_llvm_build_address(f, a->dtype, a->base, lane_index(f, a, lane), !gate);
    return gate && p ? LLVMBuildSelect(f->b, gate, p, dummy(f), "") : p;
}

/* ---- inside the buffer where the gate is true ---- */

/* Where the gate is true what was loaded, else the alternative. */
static void choose(tk_llvm_fn *f, const tk_llvm_access *a, tk_llvm_wide *x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    uint32_t lanes = tolk_dtype_lanes(m) / x->n;
    tk_llvm_wide gate = a->gate;
    tk_llvm_wide_cut(f, mask_of(a->dtype), &gate, lanes);
    for (uint32_t i = 0; i < x->n; i++)
        x->at[i] = tk_llvm_build_select(f, tk_llvm_wide_piece(m, lanes), gate.at[i], x->at[i],
                                        a->value.at[i]);
}

/* Lane by lane, without a branch. */
static void load_lanes(tk_llvm_fn *f, const tk_llvm_access *a, tk_llvm_wide *out) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), element = tk_dtype_scalar(m);
    uint32_t all = tolk_dtype_lanes(m), lanes = tk_llvm_wide_lanes(f, m);
    tolk_dtype piece = tk_llvm_wide_piece(m, lanes);
    LLVMValueRef bits = gate_bits(f, a), v = NULL;
    out->n = all / lanes;
    for (uint32_t k = 0; k < all; k++) {
        LLVMValueRef g = gate_lane(f, a, bits, k);
        LLVMValueRef x = tk_llvm_build_load(f, element, lane_address(f, a, k, g));
        if (k % lanes == 0)
            v = LLVMGetPoison(tk_llvm_build_type(f, piece));
        v = tk_llvm_build_insert(f, piece, v, x, k % lanes);
        out->at[k / lanes] = v;
    }
    if (a->gated)
        choose(f, a, out);
}

static void store_lanes(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    LLVMValueRef bits = gate_bits(f, a);
    for (uint32_t k = 0; k < tolk_dtype_lanes(m); k++) {
        LLVMValueRef p = lane_address(f, a, k, gate_lane(f, a, bits, k));
        tk_llvm_build_store(f, tk_dtype_scalar(m), p, tk_llvm_wide_lane(f, m, &a->value, k));
    }
}

/* ---- proved accesses ---- */

/* Gate and addresses of the pieces of a gather or scatter, or of masked pieces. */
typedef struct pieces {
    tolk_dtype dtype; /* of a piece */
    uint32_t n, lanes;
    tk_llvm_wide gate;  /* all true where there is none */
    tk_llvm_wide index; /* scattered only */
} pieces;

static pieces cut(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    pieces p = {.lanes = tk_llvm_wide_lanes(f, m)};
    p.dtype = tk_llvm_wide_piece(m, p.lanes);
    p.n = tolk_dtype_lanes(m) / p.lanes;
    if (a->gated)
        p.gate = a->gate;
    else
        tk_llvm_wide_const(f, mask, 1, &p.gate);
    tk_llvm_wide_cut(f, mask, &p.gate, p.lanes);
    p.index = a->index;
    if (a->scattered)
        tk_llvm_wide_cut(f, tk_dtype_like(TOLK_INDEX, a->dtype), &p.index, p.lanes);
    return p;
}

static LLVMValueRef address(tk_llvm_fn *f, const tk_llvm_access *a, const pieces *p, uint32_t i) {
    if (a->scattered)
        return tk_llvm_build_address(f, p->dtype, a->base, p->index.at[i], false);
    return tk_llvm_build_address(f, p->dtype, a->base, lane_index(f, a, i * p->lanes), false);
}

static void vector_load(tk_llvm_fn *f, const tk_llvm_access *a, tk_llvm_wide *out) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    pieces p = cut(f, a);
    if (a->scattered && !tk_llvm_build_has(f, TK_LEGAL_GATHER, p.dtype)) {
        load_lanes(f, a, out);
        return;
    }
    if (!a->scattered && !a->gated) {
        tk_llvm_wide_load(f, m, tk_llvm_build_address(f, m, a->base, a->index.at[0], true), out);
        return;
    }
    out->n = p.n;
    for (uint32_t i = 0; i < p.n; i++) {
        LLVMValueRef alt = a->gated ? a->value.at[i] : tk_llvm_build_zero(f, p.dtype);
        out->at[i] = (a->scattered ? tk_llvm_build_gather : tk_llvm_build_masked_load)(
            f, p.dtype, address(f, a, &p, i), p.gate.at[i], alt);
    }
}

static void vector_store(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    pieces p = cut(f, a);
    if (a->scattered && !tk_llvm_build_has(f, TK_LEGAL_SCATTER, p.dtype)) {
        store_lanes(f, a);
        return;
    }
    if (!a->scattered && !a->gated) {
        tk_llvm_wide_store(f, m, tk_llvm_build_address(f, m, a->base, a->index.at[0], true),
                           &a->value);
        return;
    }
    for (uint32_t i = 0; i < p.n; i++)
        (a->scattered ? tk_llvm_build_scatter : tk_llvm_build_masked_store)(
            f, p.dtype, address(f, a, &p, i), p.gate.at[i], a->value.at[i]);
}

/* Contiguous and gated, and the target has no mask for such lanes: whole where all gates are true,
 * as they are but at the end of a row. */
static void without_mask(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, tk_llvm_wide *out) {
    LLVMBasicBlockRef whole = tk_llvm_build_block(f, "whole"),
                      part = tk_llvm_build_block(f, "part"), done = tk_llvm_build_block(f, "done");
    tk_llvm_build_branch(f, tk_llvm_wide_mask(f, TK_LEGAL_EVERY, mask_of(a->dtype), &a->gate),
                         whole, part, TK_LLVM_LIKELY);
    tk_llvm_access ungated = *a;
    ungated.gated = false;
    tk_llvm_wide x, y;
    tk_llvm_build_enter(f, whole);
    if (is_load)
        vector_load(f, &ungated, &x);
    else
        vector_store(f, &ungated);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, part);
    tk_llvm_lanes_access(f, a, is_load, false, &y);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    if (is_load)
        tk_llvm_wide_phi(f, &x, whole, &y, part, out);
}

/* One access, in memory form, that touches only what is inside its buffer. */
static void proved(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, tk_llvm_wide *out) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    if (tolk_dtype_lanes(m) == 1) {
        LLVMValueRef p = lane_address(f, a, 0, a->gated ? a->gate.at[0] : NULL);
        if (!is_load) {
            tk_llvm_build_store(f, m, p, a->value.at[0]);
            return;
        }
        out->n = 1;
        out->at[0] = tk_llvm_build_load(f, m, p);
        if (a->gated)
            choose(f, a, out);
        return;
    }
    tolk_dtype piece = tk_llvm_wide_piece(m, tk_llvm_wide_lanes(f, m));
    if (!a->scattered && a->gated &&
        !tk_llvm_build_has(f, is_load ? TK_LEGAL_MLOAD : TK_LEGAL_MSTORE, piece))
        without_mask(f, a, is_load, out);
    else if (is_load)
        vector_load(f, a, out);
    else
        vector_store(f, a);
}

/* ---- checked accesses ---- */

/* The 32-bit integers that the index was extended from, if they will do for the comparison: against
 * a size of 31 bits a negative one is as large before as after. NULL: none. */
static LLVMValueRef narrow_index(const tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef index,
                                 uint32_t lanes) {
    if (a->const_size < 0 || a->const_size > INT32_MAX ||
        (!LLVMIsASExtInst(index) && !LLVMIsAZExtInst(index)))
        return NULL;
    LLVMValueRef from = LLVMGetOperand(index, 0);
    return LLVMTypeOf(from) == tk_llvm_build_type(f, tk_llvm_wide_piece(TOLK_U32, lanes)) ? from
                                                                                          : NULL;
}

/* Which lanes of a piece are inside. */
static LLVMValueRef piece_inside(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef index,
                                 uint32_t lanes) {
    tolk_dtype indices = tk_llvm_wide_piece(TOLK_U32, lanes);
    LLVMValueRef narrow = narrow_index(f, a, index, lanes);
    if (narrow)
        return tk_llvm_build_bin(f, TK_LEGAL_ULT, indices, narrow,
                                 tk_llvm_build_const(f, indices, (uint64_t)a->const_size));
    indices = tk_llvm_wide_piece(TOLK_U64, lanes);
    return tk_llvm_build_bin(f, TK_LEGAL_ULT, indices, index,
                             tk_llvm_build_splat(f, indices, a->size));
}

/* True where every lane is inside, or is gated off as far as that costs nothing to see. */
static LLVMValueRef all_inside(tk_llvm_fn *f, const tk_llvm_access *a) {
    uint32_t lanes = tolk_dtype_lanes(a->dtype);
    tolk_dtype mask = mask_of(a->dtype);
    if (lanes > 1 && !a->scattered) {
        LLVMValueRef index = a->index.at[0];
        if (a->const_size >= 0) {
            int64_t starts = a->const_size >= lanes ? a->const_size - lanes + 1 : 0;
            return tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, index, i64_const(f, starts));
        }
        LLVMValueRef left = tk_llvm_build_bin(f, TK_LEGAL_SUB, TOLK_U64, a->size, index);
        LLVMValueRef starts = tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, index, a->size);
        LLVMValueRef ends = tk_llvm_build_bin(f, TK_LEGAL_UGE, TOLK_U64, left, i64_const(f, lanes));
        return tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_BOOL, starts, ends);
    }
    tk_llvm_wide ok = {.n = a->index.n}, gate = a->gate;
    lanes /= ok.n;
    if (a->gated)
        tk_llvm_wide_cut(f, mask, &gate, lanes);
    for (uint32_t i = 0; i < ok.n; i++) {
        tolk_dtype piece = tk_llvm_wide_piece(TOLK_BOOL, lanes);
        ok.at[i] = piece_inside(f, a, a->index.at[i], lanes);
        if (a->gated)
            ok.at[i] = tk_llvm_build_bin(f, TK_LEGAL_OR, piece, ok.at[i],
                                         tk_llvm_build_not(f, piece, gate.at[i]));
    }
    return tk_llvm_wide_mask(f, TK_LEGAL_EVERY, mask, &ok);
}

/* Some lane is outside. A gate that is false everywhere is common there (borders): no loop then. */
static void outside(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, tk_llvm_wide *out) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    if (tolk_dtype_lanes(m) == 1) {
        tk_llvm_lanes_fault(f, a, a->index.at[0]);
        if (is_load)
            tk_llvm_wide_const(f, m, 0, out);
        return;
    }
    if (!a->gated || a->scattered) {
        tk_llvm_lanes_access(f, a, is_load, true, out);
        return;
    }
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->b), some = tk_llvm_build_block(f, "some"),
                      done = tk_llvm_build_block(f, "none");
    tk_llvm_build_branch(f, tk_llvm_wide_mask(f, TK_LEGAL_ANY, mask, &a->gate), some, done,
                         TK_LLVM_EVEN);
    tk_llvm_build_enter(f, some);
    tk_llvm_wide x;
    tk_llvm_lanes_access(f, a, is_load, true, &x);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    if (is_load)
        tk_llvm_wide_phi(f, &a->value, here, &x, some, out);
}

static void access(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, tk_llvm_wide *out) {
    if (!a->size) {
        proved(f, a, is_load, out);
        return;
    }
    LLVMBasicBlockRef fast = tk_llvm_build_block(f, "inside"),
                      slow = tk_llvm_build_block(f, "outside"),
                      done = tk_llvm_build_block(f, "accessed");
    tk_llvm_wide x, y;
    tk_llvm_build_branch(f, all_inside(f, a), fast, slow, TK_LLVM_LIKELY);
    tk_llvm_build_enter(f, fast);
    proved(f, a, is_load, &x);
    LLVMBasicBlockRef fast_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, slow);
    outside(f, a, is_load, &y);
    LLVMBasicBlockRef slow_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    if (is_load && f->status == TOLK_OK)
        tk_llvm_wide_phi(f, &x, fast_end, &y, slow_end, out);
}

static bool complete(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (f->status != TOLK_OK || !a->base || !a->index.n)
        return false;
    if (tk_llvm_legal_type(a->dtype))
        return true;
    tk_llvm_build_unsupported(f, "memory of", a->dtype);
    return false;
}

bool tk_llvm_mem_load(tk_llvm_fn *f, const tk_llvm_access *a, tk_llvm_wide *out) {
    if (!complete(f, a))
        return false;
    tk_llvm_access in_memory = *a;
    if (a->gated)
        to_memory(f, a->dtype, &in_memory.value);
    access(f, &in_memory, true, out);
    if (f->status == TOLK_OK)
        from_memory(f, a->dtype, out);
    return f->status == TOLK_OK;
}

bool tk_llvm_mem_store(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (!complete(f, a))
        return false;
    tk_llvm_access in_memory = *a;
    to_memory(f, a->dtype, &in_memory.value);
    access(f, &in_memory, false, NULL);
    return f->status == TOLK_OK;
}

/* One lane, where its gate is true and its element is inside. */
static void add_lane(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef bits, uint32_t lane) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), element = tk_dtype_scalar(m);
    LLVMValueRef index = lane_index(f, a, lane), x = tk_llvm_wide_lane(f, m, &a->value, lane);
    LLVMValueRef gate = gate_lane(f, a, bits, lane);
    LLVMBasicBlockRef done = tk_llvm_build_block(f, "added");
    if (gate) {
        LLVMBasicBlockRef add = tk_llvm_build_block(f, "add");
        tk_llvm_build_branch(f, gate, add, done, TK_LLVM_EVEN);
        tk_llvm_build_enter(f, add);
    }
    if (a->size) {
        LLVMBasicBlockRef in = tk_llvm_build_block(f, "inside"),
                          out = tk_llvm_build_block(f, "outside");
        tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, index, a->size), in,
                             out, TK_LLVM_LIKELY);
        tk_llvm_build_enter(f, out);
        tk_llvm_lanes_fault(f, a, index);
        tk_llvm_build_jump(f, done);
        tk_llvm_build_enter(f, in);
    }
    LLVMValueRef at = tk_llvm_build_address(f, element, a->base, index, false);
    if (a->code != TOLK_VOID)
        tk_llvm_code_add(f, a->code, at, x);
    else
        tk_llvm_build_rmw_add(f, element, at, x, tk_dtype_scalar(a->dtype) == TOLK_BOOL);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
}

bool tk_llvm_mem_atomic_add(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (!complete(f, a))
        return false;
    tk_llvm_access in_memory = *a;
    to_memory(f, a->dtype, &in_memory.value);
    LLVMValueRef bits = gate_bits(f, a);
    for (uint32_t k = 0; k < tolk_dtype_lanes(a->dtype) && f->status == TOLK_OK; k++)
        add_lane(f, &in_memory, bits, k);
    return f->status == TOLK_OK;
}
