/* SPDX-License-Identifier: MIT
 *
 * An access that was not proved to be inside its buffer is done in one of two ways, by one test: no
 * lane is outside (the fast way, as if it had been proved), or some lane is (a loop over the lanes,
 * which also writes the fault record). A gated access is masked where the target has the
 * instruction; otherwise lanes whose gate is false work on a slot on the stack.
 */
#include "jit/llvm_mem.h"

#include "ir/dtype.h"
#include "jit/kenv.h"

enum {
    DUMMY, /* where lanes go that must not touch memory */
    VALUES,
    GATES,
    INDICES,          /* of the loop over lanes */
    UNROLLED_MAX = 16 /* most lanes done one by one in straight code where a mask is needed */
};

static LLVMValueRef slot(tk_llvm_fn *f, int which) {
    if (!f->slot[which])
        f->slot[which] = tk_llvm_build_stack(f, which == DUMMY || which == GATES ? 64 : 64 * 8);
    return f->slot[which];
}

static tolk_dtype mask_of(tolk_dtype dtype) {
    return tk_dtype_like(TOLK_BOOL, dtype);
}

static LLVMValueRef i64_const(const tk_llvm_fn *f, int64_t v) {
    return tk_llvm_build_const(f, TOLK_INDEX, (uint64_t)v);
}

/* A value as memory holds it, and back. A byte other than 0 and 1 is a true bool. */
static LLVMValueRef to_memory(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    return m == dtype ? x : tk_llvm_build_convert(f, TK_LEGAL_ZEXT, dtype, m, x);
}

static LLVMValueRef from_memory(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    return m == dtype ? x : tk_llvm_build_bin(f, TK_LEGAL_NE, m, x, tk_llvm_build_zero(f, m));
}

/* The bits of a gate, so that each lane costs one test. NULL: take the lanes themselves. */
static LLVMValueRef gate_bits(tk_llvm_fn *f, tolk_dtype mask, LLVMValueRef gate) {
    if (!gate || tolk_dtype_lanes(mask) == 1 || !tk_llvm_build_has(f, TK_LEGAL_BITS, mask))
        return NULL;
    return tk_llvm_build_mask(f, TK_LEGAL_BITS, mask, gate);
}

static LLVMValueRef gate_lane(tk_llvm_fn *f, tolk_dtype mask, LLVMValueRef gate, LLVMValueRef bits,
                              uint32_t lane) {
    if (!bits)
        return tk_llvm_build_extract(f, mask, gate, lane);
    LLVMValueRef bit = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U64, bits,
                                         tk_llvm_build_const(f, TOLK_U64, (uint64_t)1 << lane));
    return tk_llvm_build_bin(f, TK_LEGAL_NE, TOLK_U64, bit, tk_llvm_build_zero(f, TOLK_U64));
}

static LLVMValueRef lane_index(tk_llvm_fn *f, const tk_llvm_access *a, uint32_t lane) {
    if (a->scattered)
        return tk_llvm_build_extract(f, tk_dtype_like(TOLK_INDEX, a->dtype), a->index, lane);
    return lane ? tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, a->index, i64_const(f, lane))
                : a->index;
}

/* Address of one lane, or of the dummy slot if gate (NULL: none) is false. */
static LLVMValueRef lane_address(tk_llvm_fn *f, const tk_llvm_access *a, uint32_t lane,
                                 LLVMValueRef gate) {
    LLVMValueRef p = tk_llvm_build_address(f, a->dtype, a->base, lane_index(f, a, lane), !gate);
    return gate && p ? LLVMBuildSelect(f->b, gate, p, slot(f, DUMMY), "") : p;
}

/* ---- inside the buffer where the gate is true ---- */

/* Lane by lane, without a branch. a->value is in memory form. */
static LLVMValueRef load_lanes(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    tolk_dtype element = tk_dtype_scalar(m);
    LLVMValueRef bits = gate_bits(f, mask, a->gate);
    LLVMValueRef v = LLVMGetPoison(tk_llvm_build_type(f, m));
    for (uint32_t k = 0; k < tolk_dtype_lanes(m); k++) {
        LLVMValueRef g = a->gate ? gate_lane(f, mask, a->gate, bits, k) : NULL;
        LLVMValueRef x = tk_llvm_build_load(f, element, lane_address(f, a, k, g));
        v = tk_llvm_build_insert(f, m, v, x, k);
    }
    return a->gate ? tk_llvm_build_select(f, m, a->gate, v, a->value) : v;
}

static void store_lanes(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    LLVMValueRef bits = gate_bits(f, mask, a->gate);
    for (uint32_t k = 0; k < tolk_dtype_lanes(m); k++) {
        LLVMValueRef g = a->gate ? gate_lane(f, mask, a->gate, bits, k) : NULL;
        LLVMValueRef p = lane_address(f, a, k, g);
        tk_llvm_build_store(f, tk_dtype_scalar(m), p, tk_llvm_build_extract(f, m, a->value, k));
    }
}

static LLVMValueRef record_fault(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef index) {
    LLVMValueRef at[3];
    static const uint32_t offset[3] = {offsetof(tolk_kenv, fault), offsetof(tolk_kenv, fault_slot),
                                       offsetof(tolk_kenv, fault_index)};
    for (int i = 0; i < 3; i++)
        at[i] = tk_llvm_build_address(f, TOLK_U8, f->env, i64_const(f, offset[i]), true);
    LLVMValueRef fault = tk_llvm_build_load(f, TOLK_U32, at[0]);
    LLVMValueRef first =
        tk_llvm_build_bin(f, TK_LEGAL_EQ, TOLK_U32, fault, tk_llvm_build_zero(f, TOLK_U32));
    LLVMBasicBlockRef record = tk_llvm_build_block(f, "fault"),
                      next = tk_llvm_build_block(f, "faulted");
    tk_llvm_build_branch(f, first, record, next, TK_LLVM_EVEN);
    tk_llvm_build_enter(f, record);
    tk_llvm_build_store(f, TOLK_U32, at[0], tk_llvm_build_const(f, TOLK_U32, 1));
    tk_llvm_build_store(f, TOLK_U32, at[1], tk_llvm_build_const(f, TOLK_U32, a->fault_slot));
    tk_llvm_build_store(f, TOLK_INDEX, at[2], index);
    tk_llvm_build_jump(f, next);
    tk_llvm_build_enter(f, next);
    return fault;
}

/* ---- the loop over lanes ---- */

/* for k in 0 .. lanes-1, if gate[k]: access the element, or, if `checked` and it is outside, record
 * the fault and give 0. value (in memory form): the lanes of a load where the gate is false, what a
 * store stores. Returns the value loaded, in memory form. */
static LLVMValueRef lane_loop(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, bool checked) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    tolk_dtype element = tk_dtype_scalar(m), indices = tk_dtype_like(TOLK_INDEX, m);
    tolk_dtype bytes = tk_dtype_like(TOLK_U8, m);
    LLVMValueRef values = slot(f, VALUES), gates = a->gate ? slot(f, GATES) : NULL;
    if (a->value)
        tk_llvm_build_store(f, m, values, a->value);
    if (gates)
        tk_llvm_build_store(f, bytes, gates,
                            tk_llvm_build_convert(f, TK_LEGAL_ZEXT, mask, bytes, a->gate));
    if (a->scattered)
        tk_llvm_build_store(f, indices, slot(f, INDICES), a->index);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(f->b), loop = tk_llvm_build_block(f, "lane"),
                      next = tk_llvm_build_block(f, "lane.next"),
                      done = tk_llvm_build_block(f, "lane.done");
    tk_llvm_build_jump(f, loop);
    tk_llvm_build_enter(f, loop);
    LLVMValueRef zero = i64_const(f, 0);
    LLVMValueRef k = LLVMBuildPhi(f->b, tk_llvm_build_type(f, TOLK_INDEX), "");
    LLVMAddIncoming(k, &zero, &before, 1);
    if (gates) {
        LLVMBasicBlockRef in = tk_llvm_build_block(f, "lane.gated");
        LLVMValueRef g =
            tk_llvm_build_load(f, TOLK_U8, tk_llvm_build_address(f, TOLK_U8, gates, k, true));
        g = tk_llvm_build_bin(f, TK_LEGAL_NE, TOLK_U8, g, tk_llvm_build_zero(f, TOLK_U8));
        tk_llvm_build_branch(f, g, in, next, TK_LLVM_EVEN);
        tk_llvm_build_enter(f, in);
    }
    LLVMValueRef value_at = tk_llvm_build_address(f, element, values, k, true);
    LLVMValueRef index =
        a->scattered
            ? tk_llvm_build_load(f, TOLK_INDEX,
                                 tk_llvm_build_address(f, TOLK_INDEX, slot(f, INDICES), k, true))
            : tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, a->index, k);
    if (checked) {
        LLVMBasicBlockRef inside = tk_llvm_build_block(f, "lane.inside"),
                          outside = tk_llvm_build_block(f, "lane.outside");
        tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, index, a->size),
                             inside, outside, TK_LLVM_EVEN);
        tk_llvm_build_enter(f, outside);
        record_fault(f, a, index);
        if (is_load)
            tk_llvm_build_store(f, element, value_at, tk_llvm_build_zero(f, element));
        tk_llvm_build_jump(f, next);
        tk_llvm_build_enter(f, inside);
    }
    LLVMValueRef p = tk_llvm_build_address(f, element, a->base, index, false);
    tk_llvm_build_store(f, element, is_load ? value_at : p,
                        tk_llvm_build_load(f, element, is_load ? p : value_at));
    tk_llvm_build_jump(f, next);
    tk_llvm_build_enter(f, next);
    LLVMValueRef k1 = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, k, i64_const(f, 1));
    if (!k1)
        return NULL;
    LLVMAddIncoming(k, &k1, &next, 1);
    LLVMValueRef more =
        tk_llvm_build_bin(f, TK_LEGAL_SLT, TOLK_INDEX, k1, i64_const(f, tolk_dtype_lanes(m)));
    tk_llvm_build_branch(f, more, loop, done, TK_LLVM_EVEN);
    tk_llvm_build_enter(f, done);
    return is_load ? tk_llvm_build_load(f, m, values) : NULL;
}

/* ---- proved accesses ---- */

static LLVMValueRef vector_load(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    LLVMValueRef all = LLVMConstAllOnes(tk_llvm_build_type(f, mask));
    if (a->scattered && tk_llvm_build_has(f, TK_LEGAL_GATHER, m))
        return tk_llvm_build_gather(f, m, tk_llvm_build_address(f, m, a->base, a->index, false),
                                    a->gate ? a->gate : all,
                                    a->gate ? a->value : tk_llvm_build_zero(f, m));
    if (a->scattered)
        return load_lanes(f, a);
    LLVMValueRef p = tk_llvm_build_address(f, m, a->base, a->index, !a->gate);
    if (!a->gate)
        return tk_llvm_build_load(f, m, p);
    return tk_llvm_build_masked_load(f, m, p, a->gate, a->value);
}

static void vector_store(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    LLVMValueRef all = LLVMConstAllOnes(tk_llvm_build_type(f, mask));
    if (a->scattered && tk_llvm_build_has(f, TK_LEGAL_SCATTER, m)) {
        tk_llvm_build_scatter(f, m, tk_llvm_build_address(f, m, a->base, a->index, false),
                              a->gate ? a->gate : all, a->value);
        return;
    }
    if (a->scattered) {
        store_lanes(f, a);
        return;
    }
    LLVMValueRef p = tk_llvm_build_address(f, m, a->base, a->index, !a->gate);
    if (a->gate)
        tk_llvm_build_masked_store(f, m, p, a->gate, a->value);
    else
        tk_llvm_build_store(f, m, p, a->value);
}

/* Contiguous and gated, and the target has no mask for such lanes: whole where all gates are true,
 * as they are but at the end of a row. */
static LLVMValueRef without_mask(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    LLVMBasicBlockRef whole = tk_llvm_build_block(f, "whole"),
                      part = tk_llvm_build_block(f, "part"), done = tk_llvm_build_block(f, "done");
    tk_llvm_build_branch(f, tk_llvm_build_mask(f, TK_LEGAL_EVERY, mask, a->gate), whole, part,
                         TK_LLVM_LIKELY);
    tk_llvm_access ungated = *a;
    ungated.gate = NULL;
    LLVMValueRef x = NULL, y = NULL;
    tk_llvm_build_enter(f, whole);
    if (is_load)
        x = vector_load(f, &ungated);
    else
        vector_store(f, &ungated);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, part);
    if (tolk_dtype_lanes(m) > UNROLLED_MAX)
        y = lane_loop(f, a, is_load, false);
    else if (is_load)
        y = load_lanes(f, a);
    else
        store_lanes(f, a);
    LLVMBasicBlockRef part_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    return is_load ? tk_llvm_build_phi(f, tk_llvm_build_type(f, m), x, whole, y, part_end) : NULL;
}

/* One access, in memory form, that touches only what is inside its buffer. */
static LLVMValueRef proved(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    bool contiguous = tolk_dtype_lanes(m) > 1 && !a->scattered;
    if (tolk_dtype_lanes(m) == 1) {
        LLVMValueRef p = lane_address(f, a, 0, a->gate);
        if (!is_load) {
            tk_llvm_build_store(f, m, p, a->value);
            return NULL;
        }
        LLVMValueRef x = tk_llvm_build_load(f, m, p);
        return a->gate ? tk_llvm_build_select(f, m, a->gate, x, a->value) : x;
    }
    if (contiguous && a->gate &&
        !tk_llvm_build_has(f, is_load ? TK_LEGAL_MLOAD : TK_LEGAL_MSTORE, m))
        return without_mask(f, a, is_load);
    if (is_load)
        return vector_load(f, a);
    vector_store(f, a);
    return NULL;
}

/* ---- checked accesses ---- */

/* The 32-bit integers that the index was extended from, if they will do for the comparison: against
 * a size of 31 bits a negative one is as large before as after. NULL: none. */
static LLVMValueRef narrow_index(const tk_llvm_fn *f, const tk_llvm_access *a) {
    if (a->const_size < 0 || a->const_size > INT32_MAX ||
        (!LLVMIsASExtInst(a->index) && !LLVMIsAZExtInst(a->index)))
        return NULL;
    LLVMValueRef from = LLVMGetOperand(a->index, 0);
    tolk_dtype narrow = tk_dtype_like(TOLK_U32, a->scattered ? a->dtype : TOLK_U32);
    return LLVMTypeOf(from) == tk_llvm_build_type(f, narrow) ? from : NULL;
}

/* True where every lane is inside, or is gated off as far as that costs nothing to see. */
static LLVMValueRef all_inside(tk_llvm_fn *f, const tk_llvm_access *a) {
    uint32_t lanes = tolk_dtype_lanes(a->dtype);
    tolk_dtype mask = mask_of(a->dtype), indices = tk_dtype_like(TOLK_U64, a->dtype);
    if (lanes > 1 && !a->scattered) {
        if (a->const_size >= 0) {
            int64_t starts = a->const_size >= lanes ? a->const_size - lanes + 1 : 0;
            return tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, a->index, i64_const(f, starts));
        }
        LLVMValueRef left = tk_llvm_build_bin(f, TK_LEGAL_SUB, TOLK_U64, a->size, a->index);
        LLVMValueRef starts = tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, a->index, a->size);
        LLVMValueRef ends = tk_llvm_build_bin(f, TK_LEGAL_UGE, TOLK_U64, left, i64_const(f, lanes));
        return tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_BOOL, starts, ends);
    }
    LLVMValueRef index = narrow_index(f, a), sizes;
    if (index) {
        indices = tk_dtype_like(TOLK_U32, a->dtype);
        sizes = tk_llvm_build_const(f, indices, (uint64_t)a->const_size);
    } else {
        index = a->index;
        sizes = tk_llvm_build_splat(f, indices, a->size);
    }
    LLVMValueRef ok = tk_llvm_build_bin(f, TK_LEGAL_ULT, indices, index, sizes);
    if (a->gate)
        ok = tk_llvm_build_bin(f, TK_LEGAL_OR, mask, ok, tk_llvm_build_not(f, mask, a->gate));
    return tk_llvm_build_mask(f, TK_LEGAL_EVERY, mask, ok);
}

/* Some lane is outside. A gate that is false everywhere is common there (borders): no loop then. */
static LLVMValueRef outside(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype), mask = mask_of(a->dtype);
    if (tolk_dtype_lanes(m) == 1) {
        record_fault(f, a, a->index);
        return is_load ? tk_llvm_build_zero(f, m) : NULL;
    }
    if (!a->gate || a->scattered)
        return lane_loop(f, a, is_load, true);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->b), some = tk_llvm_build_block(f, "some"),
                      done = tk_llvm_build_block(f, "none");
    tk_llvm_build_branch(f, tk_llvm_build_mask(f, TK_LEGAL_ANY, mask, a->gate), some, done,
                         TK_LLVM_EVEN);
    tk_llvm_build_enter(f, some);
    LLVMValueRef x = lane_loop(f, a, is_load, true);
    LLVMBasicBlockRef some_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    return is_load ? tk_llvm_build_phi(f, tk_llvm_build_type(f, m), a->value, here, x, some_end)
                   : NULL;
}

static LLVMValueRef access(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load) {
    if (!a->size)
        return proved(f, a, is_load);
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    LLVMBasicBlockRef fast = tk_llvm_build_block(f, "inside"),
                      slow = tk_llvm_build_block(f, "outside"),
                      done = tk_llvm_build_block(f, "accessed");
    tk_llvm_build_branch(f, all_inside(f, a), fast, slow, TK_LLVM_LIKELY);
    tk_llvm_build_enter(f, fast);
    LLVMValueRef x = proved(f, a, is_load);
    LLVMBasicBlockRef fast_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, slow);
    LLVMValueRef y = outside(f, a, is_load);
    LLVMBasicBlockRef slow_end = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, done);
    tk_llvm_build_enter(f, done);
    return is_load ? tk_llvm_build_phi(f, tk_llvm_build_type(f, m), x, fast_end, y, slow_end)
                   : NULL;
}

static bool complete(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (f->status != TOLK_OK || !a->base || !a->index)
        return false;
    if (tk_llvm_legal_type(a->dtype))
        return true;
    tk_llvm_build_unsupported(f, "memory of", a->dtype);
    return false;
}

LLVMValueRef tk_llvm_mem_load(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (!complete(f, a))
        return NULL;
    tk_llvm_access in_memory = *a;
    if (a->gate)
        in_memory.value = to_memory(f, a->dtype, a->value);
    return from_memory(f, a->dtype, access(f, &in_memory, true));
}

bool tk_llvm_mem_store(tk_llvm_fn *f, const tk_llvm_access *a) {
    if (!complete(f, a))
        return false;
    tk_llvm_access in_memory = *a;
    in_memory.value = to_memory(f, a->dtype, a->value);
    access(f, &in_memory, false);
    return f->status == TOLK_OK;
}
