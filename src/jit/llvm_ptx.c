/* SPDX-License-Identifier: MIT
 *
 * The function is a kernel by its calling convention; its parameters have the types of their
 * dtypes. Nothing in it calls anything: LLVM's intrinsics used here are single instructions of PTX.
 */
#include "jit/llvm_ptx.h"

#include "ir/dtype.h"
#include "jit/llvm_cast.h"

#include <stdio.h>
#include <string.h>

enum { KERNEL_CONVENTION = 71, GLOBAL = 1 }; /* LLVM's numbers: ptx_kernel; address spaces */

/* ---- the function ---- */

static LLVMTypeRef param_type(const tk_llvm_fn *f, const tk_param *p) {
    return p->is_scalar ? tk_llvm_build_type(f, tk_llvm_build_memory_dtype(p->dtype))
                        : LLVMPointerTypeInContext(f->lc, GLOBAL);
}

static bool check_params(tk_llvm_fn *f, const tk_params *params) {
    size_t bytes = 0;
    for (size_t i = 0; i < params->list.n; i++) {
        const tk_param *p = &params->list.at[i];
        size_t n = p->is_scalar ? tolk_dtype_bytes(p->dtype) : 8;
        if (p->is_scalar && !tk_llvm_legal_type(p->dtype))
            return tk_llvm_build_unsupported(f, "param", p->dtype) != NULL;
        bytes = (bytes + n - 1) / n * n + n;
    }
    bytes = (bytes + 7) / 8 * 8 + 8;
    if (bytes <= TK_LLVM_PTX_PARAM_BYTES)
        return true;
    tk_llvm_build_fail(f, TOLK_E_LIMIT,
                       "%zu parameters of together %zu bytes; a GPU kernel has room for %d bytes",
                       params->list.n, bytes, TK_LLVM_PTX_PARAM_BYTES);
    return false;
}

/* An entry of the module's list of annotations: ".maxntid threads, 1, 1". */
static void annotate(tk_llvm_fn *f, const char *key, uint32_t value) {
    LLVMMetadataRef parts[3] = {
        LLVMValueAsMetadata(f->fn), LLVMMDStringInContext2(f->lc, key, strlen(key)),
        LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(f->lc), value, 0))};
    LLVMAddNamedMetadataOperand(f->module, "nvvm.annotations",
                                LLVMMetadataAsValue(f->lc, LLVMMDNodeInContext2(f->lc, parts, 3)));
}

bool tk_llvm_ptx_function(tk_llvm_fn *f, const char *symbol, const tk_params *params,
                          uint32_t threads) {
    if (!check_params(f, params))
        return false;
    LLVMTypeRef types[TK_LLVM_PTX_PARAM_BYTES];
    unsigned n = 0;
    for (size_t i = 0; i < params->list.n; i++)
        types[n++] = param_type(f, &params->list.at[i]);
    types[n++] = LLVMPointerTypeInContext(f->lc, GLOBAL);
    tk_llvm_build_define(f, symbol, types, n);
    LLVMSetFunctionCallConv(f->fn, KERNEL_CONVENTION);
    annotate(f, "maxntidx", threads);
    f->env = LLVMGetParam(f->fn, n - 1);
    return true;
}

LLVMValueRef tk_llvm_ptx_param(tk_llvm_fn *f, const tk_params *params, const tk_param *p) {
    LLVMValueRef x = LLVMGetParam(f->fn, (unsigned)(p - params->list.at));
    tolk_dtype m = tk_llvm_build_memory_dtype(p->dtype);
    return p->is_scalar && m != p->dtype ? tk_llvm_cast(f, m, p->dtype, x) : x;
}

/* ---- where a thread is ---- */

static LLVMValueRef special_register(tk_llvm_fn *f, const char *name, int dim) {
    char intrinsic[64];
    snprintf(intrinsic, sizeof intrinsic, "llvm.nvvm.read.ptx.sreg.%s.%c", name, "xyz"[dim]);
    LLVMValueRef x = tk_llvm_build_gpu(f, TK_LEGAL_SREG, TOLK_U32, intrinsic, NULL, 0);
    return tk_llvm_build_convert(f, TK_LEGAL_ZEXT, TOLK_U32, TOLK_INDEX, x);
}

LLVMValueRef tk_llvm_ptx_block(tk_llvm_fn *f, int dim, bool wide) {
    if (!wide)
        return special_register(f, "ctaid", dim);
    LLVMValueRef at = special_register(f, "ctaid", 2);
    for (int d = 1; d >= 0; d--) {
        at = tk_llvm_build_bin(f, TK_LEGAL_MUL, TOLK_INDEX, at, special_register(f, "nctaid", d));
        at = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, at, special_register(f, "ctaid", d));
    }
    return at;
}

LLVMValueRef tk_llvm_ptx_thread(tk_llvm_fn *f, int dim) {
    return special_register(f, "tid", dim);
}

/* ---- accesses ---- */

static LLVMValueRef i64_const(const tk_llvm_fn *f, int64_t v) {
    return tk_llvm_build_const(f, TOLK_INDEX, (uint64_t)v);
}

static LLVMValueRef part_of_record(tk_llvm_fn *f, int64_t offset) {
    return tk_llvm_build_address(f, TOLK_U8, f->env, i64_const(f, offset), true);
}

/* The first thread of the launch that changes the flag from 0 to 1 writes the record. */
static void record_fault(tk_llvm_fn *f, const tk_llvm_access *a) {
    LLVMBasicBlockRef record = tk_llvm_build_block(f, "fault"),
                      next = tk_llvm_build_block(f, "faulted");
    LLVMValueRef zero = tk_llvm_build_zero(f, TOLK_U32);
    LLVMValueRef old = tk_llvm_build_cas(f, TOLK_U32, part_of_record(f, TK_LLVM_PTX_FAULT), zero,
                                         tk_llvm_build_const(f, TOLK_U32, 1));
    tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_EQ, TOLK_U32, old, zero), record, next,
                         TK_LLVM_EVEN);
    tk_llvm_build_enter(f, record);
    tk_llvm_build_store(f, TOLK_U32, part_of_record(f, TK_LLVM_PTX_FAULT_SLOT),
                        tk_llvm_build_const(f, TOLK_U32, a->fault_slot));
    tk_llvm_build_store(f, TOLK_INDEX, part_of_record(f, TK_LLVM_PTX_FAULT_INDEX), a->index.at[0]);
    tk_llvm_build_jump(f, next);
    tk_llvm_build_enter(f, next);
}

/* The ways around an access, which meet behind it. */
typedef struct ways {
    LLVMBasicBlockRef done;
    LLVMValueRef value[3];
    LLVMBasicBlockRef from[3];
    unsigned n;
} ways;

static void leave_to(tk_llvm_fn *f, ways *w, LLVMValueRef value) {
    w->value[w->n] = value;
    w->from[w->n++] = LLVMGetInsertBlock(f->b);
    tk_llvm_build_jump(f, w->done);
}

/* Enter the block of the access itself: the gate is true and the element is inside. alt, zero: what
 * a load that is gated off or outside gives, in memory form; NULL for others, whose values do not
 * count. */
static void guard(tk_llvm_fn *f, const tk_llvm_access *a, ways *w, LLVMValueRef alt,
                  LLVMValueRef zero) {
    *w = (ways){.done = NULL};
    if (!a->gated && !a->size)
        return;
    w->done = tk_llvm_build_block(f, "accessed");
    if (a->gated) {
        LLVMBasicBlockRef in = tk_llvm_build_block(f, "gated");
        w->value[w->n] = alt;
        w->from[w->n++] = LLVMGetInsertBlock(f->b);
        tk_llvm_build_branch(f, a->gate.at[0], in, w->done, TK_LLVM_EVEN);
        tk_llvm_build_enter(f, in);
    }
    if (!a->size)
        return;
    LLVMBasicBlockRef inside = tk_llvm_build_block(f, "inside"),
                      outside = tk_llvm_build_block(f, "outside");
    tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U64, a->index.at[0], a->size),
                         inside, outside, TK_LLVM_LIKELY);
    tk_llvm_build_enter(f, outside);
    record_fault(f, a);
    leave_to(f, w, zero);
    tk_llvm_build_enter(f, inside);
}

static void unguard(tk_llvm_fn *f, ways *w, LLVMValueRef value) {
    if (!w->done)
        return;
    leave_to(f, w, value);
    tk_llvm_build_enter(f, w->done);
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

static LLVMValueRef address(tk_llvm_fn *f, const tk_llvm_access *a) {
    return tk_llvm_build_address(f, a->dtype, a->base, a->index.at[0], true);
}

static LLVMValueRef load(tk_llvm_fn *f, const tk_llvm_access *a, bool read_only) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    LLVMValueRef alt = a->gated ? to_memory(f, a->dtype, a->value.at[0]) : NULL;
    ways w;
    guard(f, a, &w, alt, tk_llvm_build_zero(f, m));
    LLVMValueRef x = tk_llvm_build_load(f, m, address(f, a));
    if (x && read_only)
        LLVMSetMetadata(x, LLVMGetMDKindIDInContext(f->lc, "invariant.load", 14),
                        LLVMMetadataAsValue(f->lc, LLVMMDNodeInContext2(f->lc, NULL, 0)));
    unguard(f, &w, x);
    if (f->status != TOLK_OK || !x)
        return NULL;
    if (w.done) {
        x = LLVMBuildPhi(f->b, LLVMTypeOf(x), "");
        LLVMAddIncoming(x, w.value, w.from, w.n);
    }
    return from_memory(f, a->dtype, x);
}

static bool store(tk_llvm_fn *f, const tk_llvm_access *a) {
    LLVMValueRef value = to_memory(f, a->dtype, a->value.at[0]);
    ways w;
    guard(f, a, &w, NULL, NULL);
    tk_llvm_build_store(f, tk_llvm_build_memory_dtype(a->dtype), address(f, a), value);
    unguard(f, &w, NULL);
    return f->status == TOLK_OK;
}

/* Lane k of a vector access. */
static tk_llvm_access lane_of(tk_llvm_fn *f, const tk_llvm_access *a, uint32_t k) {
    tk_llvm_access one = *a;
    one.dtype = tk_dtype_scalar(a->dtype);
    one.index.at[0] =
        tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, a->index.at[0], i64_const(f, k));
    if (a->value.n)
        one.value.at[0] = tk_llvm_build_extract(f, a->dtype, a->value.at[0], k);
    return one;
}

LLVMValueRef tk_llvm_ptx_load(tk_llvm_fn *f, const tk_llvm_access *a, bool in_parts,
                              bool read_only) {
    if (!in_parts)
        return load(f, a, read_only);
    LLVMValueRef v = LLVMGetPoison(tk_llvm_build_type(f, a->dtype));
    for (uint32_t k = 0; k < tolk_dtype_lanes(a->dtype); k++) {
        tk_llvm_access one = lane_of(f, a, k);
        v = tk_llvm_build_insert(f, a->dtype, v, load(f, &one, read_only), k);
    }
    return v;
}

bool tk_llvm_ptx_store(tk_llvm_fn *f, const tk_llvm_access *a, bool in_parts) {
    if (!in_parts)
        return store(f, a);
    bool ok = true;
    for (uint32_t k = 0; k < tolk_dtype_lanes(a->dtype) && ok; k++) {
        tk_llvm_access one = lane_of(f, a, k);
        ok = store(f, &one);
    }
    return ok;
}
