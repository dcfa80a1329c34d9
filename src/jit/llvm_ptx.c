/* SPDX-License-Identifier: MIT
 *
 * The function is a kernel by its calling convention; its parameters have the types of their
 * dtypes. Nothing in it calls anything: LLVM's intrinsics used here are single instructions of PTX.
 */
#include "jit/llvm_ptx.h"

#include "ir/dtype.h"
#include "jit/items.h"
#include "jit/llvm_cast.h"
#include "jit/llvm_code.h"

#include <stdio.h>
#include <string.h>

enum { KERNEL_CONVENTION = 71 }; /* LLVM's ptx_kernel */

/* ---- the function ---- */

static LLVMTypeRef param_type(const tk_llvm_fn *f, const tk_param *p) {
    return p->is_scalar ? tk_llvm_build_type(f, tk_llvm_build_memory_dtype(p->dtype))
                        : LLVMPointerTypeInContext(f->lc, TK_LLVM_GLOBAL);
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
    uint32_t ptx = f->target->ptx;
    bool more = ptx >= TK_LLVM_PTX_MORE_PARAMS;
    size_t most = more ? TK_LLVM_PTX_MORE_PARAM_BYTES : TK_LLVM_PTX_PARAM_BYTES;
    if (bytes <= most)
        return true;
    char hint[96] = "";
    if (!more && bytes <= TK_LLVM_PTX_MORE_PARAM_BYTES)
        snprintf(hint, sizeof hint, ", one in PTX %d.%d (%s,+ptx%d) for %d",
                 TK_LLVM_PTX_MORE_PARAMS / 10, TK_LLVM_PTX_MORE_PARAMS % 10, f->target->cpu,
                 TK_LLVM_PTX_MORE_PARAMS, TK_LLVM_PTX_MORE_PARAM_BYTES);
    tk_llvm_build_fail(f, TOLK_E_LIMIT,
                       "%zu parameters and the fault record of together %zu bytes; a GPU kernel in "
                       "PTX %u.%u has room for %zu bytes%s",
                       params->list.n, bytes, ptx / 10, ptx % 10, most, hint);
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
    size_t n_types = params->list.n + 1;
    LLVMTypeRef *types = tk_alloc(&f->ctx->al, n_types * sizeof(LLVMTypeRef));
    unsigned n = 0;
    if (!types)
        return tk_llvm_build_fail(f, TOLK_E_NOMEM, "out of memory") != NULL;
    for (size_t i = 0; i < params->list.n; i++)
        types[n++] = param_type(f, &params->list.at[i]);
    types[n++] = LLVMPointerTypeInContext(f->lc, TK_LLVM_GLOBAL);
    tk_llvm_build_define(f, symbol, types, n);
    tk_alloc_free(&f->ctx->al, types, n_types * sizeof(LLVMTypeRef));
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

/* ---- atomic additions ---- */

/* What is in memory and its sum with x, as the bits of a word (u32); which part of it is this
 * element: `shift` bits up (u32). code: x is an f32, and that element a code of this dtype. */
static LLVMValueRef added_word(tk_llvm_fn *f, tolk_dtype dtype, tolk_dtype code, LLVMValueRef word,
                               LLVMValueRef x, LLVMValueRef shift) {
    uint32_t bits = tk_dtype_bits(dtype);
    if (dtype == TOLK_F32)
        return tk_llvm_cast_bits(f, TOLK_F32, TOLK_U32,
                                 tk_llvm_build_bin(f, TK_LEGAL_FADD, TOLK_F32,
                                                   tk_llvm_cast_bits(f, TOLK_U32, TOLK_F32, word),
                                                   x));
    LLVMValueRef mask = tk_llvm_build_const(f, TOLK_U32, (UINT64_C(1) << bits) - 1);
    LLVMValueRef sum = tk_llvm_build_bin(f, TK_LEGAL_LSHR, TOLK_U32, word, shift);
    if (code != TOLK_VOID) {
        sum = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U32, sum, mask);
        sum = tk_llvm_code_sum(f, code, sum, x);
    } else {
        sum = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_U32, sum, x);
        sum = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U32, sum, mask);
    }
    mask = tk_llvm_build_bin(f, TK_LEGAL_SHL, TOLK_U32, mask, shift);
    sum = tk_llvm_build_bin(f, TK_LEGAL_SHL, TOLK_U32, sum, shift);
    LLVMValueRef others =
        tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U32, word, tk_llvm_build_not(f, TOLK_U32, mask));
    return tk_llvm_build_bin(f, TK_LEGAL_OR, TOLK_U32, others, sum);
}

/* The hardware's f32 addition in global memory loses denormals, and it has none of bytes: the word
 * around the element is exchanged until nobody else was faster. */
static void exchange_add(tk_llvm_fn *f, tolk_dtype dtype, tolk_dtype code, LLVMValueRef at,
                         LLVMValueRef x) {
    LLVMTypeRef i64 = LLVMInt64TypeInContext(f->lc);
    LLVMValueRef shift = NULL, word_at = at;
    if (!at || !x)
        return;
    if (dtype != TOLK_F32) {
        LLVMValueRef address = LLVMBuildPtrToInt(f->b, at, i64, "");
        LLVMValueRef byte = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U64, address,
                                              tk_llvm_build_const(f, TOLK_U64, 3));
        shift = tk_llvm_build_convert(f, TK_LEGAL_TRUNC, TOLK_U64, TOLK_U32, byte);
        shift = tk_llvm_build_bin(f, TK_LEGAL_SHL, TOLK_U32, shift,
                                  tk_llvm_build_const(f, TOLK_U32, 3));
        LLVMValueRef down =
            tk_llvm_build_bin(f, TK_LEGAL_SUB, TOLK_I64, tk_llvm_build_zero(f, TOLK_I64), byte);
        word_at = tk_llvm_build_address(f, TOLK_U8, at, down, false);
        x = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, dtype, TOLK_U32, x);
        if (code != TOLK_VOID)
            x = tk_llvm_code_widen(f, code, x);
    }
    tk_llvm_exchange loop;
    LLVMValueRef word = tk_llvm_build_exchange(f, TOLK_U32, word_at, &loop);
    if (word)
        tk_llvm_build_exchange_end(f, &loop, added_word(f, dtype, code, word, x, shift));
}

bool tk_llvm_ptx_atomic_add(tk_llvm_fn *f, const tk_llvm_access *a) {
    LLVMValueRef x = a->value.at[0];
    ways w;
    guard(f, a, &w, NULL, NULL);
    if (a->code == TOLK_VOID && tk_llvm_build_has(f, TK_LEGAL_ATOM, a->dtype))
        tk_llvm_build_atom_add(f, a->dtype, address(f, a), x);
    else if (a->code != TOLK_VOID && tk_llvm_build_has(f, TK_LEGAL_CAS, a->dtype))
        tk_llvm_code_add(f, a->code, address(f, a), x);
    else
        exchange_add(f, a->dtype, a->code, address(f, a), x);
    unguard(f, &w, NULL);
    return f->status == TOLK_OK;
}

/* ---- shared memory ---- */

static LLVMValueRef shared_symbol(tk_llvm_fn *f, const char *name, uint64_t bytes, bool external) {
    LLVMValueRef v = LLVMGetNamedGlobal(f->module, name);
    if (v)
        return v;
    LLVMTypeRef type = LLVMArrayType2(LLVMInt8TypeInContext(f->lc), bytes);
    v = LLVMAddGlobalInAddressSpace(f->module, type, name, TK_LLVM_SHARED);
    LLVMSetAlignment(v, TK_ITEMS_SHARED_ALIGN);
    if (!external) {
        LLVMSetLinkage(v, LLVMInternalLinkage);
        LLVMSetInitializer(v, LLVMGetPoison(type));
    }
    return v;
}

LLVMValueRef tk_llvm_ptx_shared(tk_llvm_fn *f, uint32_t number, uint64_t bytes) {
    char name[32];
    snprintf(name, sizeof name, "tolk_local_%u", number);
    return shared_symbol(f, name, bytes, false);
}

LLVMValueRef tk_llvm_ptx_dynamic(tk_llvm_fn *f, uint64_t from) {
    LLVMValueRef base = shared_symbol(f, "tolk_shared", 0, true);
    return tk_llvm_build_address(f, TOLK_U8, base, i64_const(f, (int64_t)from), true);
}

LLVMValueRef tk_llvm_ptx_dynamic_elements(tk_llvm_fn *f, tolk_dtype dtype, uint64_t from) {
    static const char text[] = "mov.u32 $0, %dynamic_smem_size;";
    LLVMTypeRef type = LLVMFunctionType(LLVMInt32TypeInContext(f->lc), NULL, 0, 0);
    LLVMValueRef read = LLVMGetInlineAsm(type, text, sizeof text - 1, "=r", 2, false, false,
                                         LLVMInlineAsmDialectATT, false);
    LLVMValueRef x = LLVMBuildCall2(f->b, type, read, NULL, 0, "");
    x = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, TOLK_U32, TOLK_INDEX, x);
    if (from)
        x = tk_llvm_build_bin(f, TK_LEGAL_SUB, TOLK_INDEX, x, i64_const(f, (int64_t)from));
    return tk_llvm_build_bin(f, TK_LEGAL_UDIV, TOLK_U64, x,
                             i64_const(f, (int64_t)tolk_dtype_bytes(dtype)));
}

/* ---- threads that meet ---- */

void tk_llvm_ptx_barrier(tk_llvm_fn *f) {
    tk_llvm_build_gpu(f, TK_LEGAL_BARRIER, TOLK_U32, "llvm.nvvm.barrier0", NULL, 0);
}

/* 32 bits of the other lane. All lanes of the warp that have not ended take part. */
static LLVMValueRef exchanged(tk_llvm_fn *f, LLVMValueRef x, LLVMValueRef lane) {
    LLVMValueRef args[4] = {tk_llvm_build_const(f, TOLK_U32, UINT32_MAX), x, lane,
                            tk_llvm_build_const(f, TOLK_U32, TK_ITEMS_WARP - 1)};
    return tk_llvm_build_gpu(f, TK_LEGAL_SHFL, TOLK_U32, "llvm.nvvm.shfl.sync.bfly.i32", args, 4);
}

static LLVMValueRef read_u32(tk_llvm_fn *f, const char *name) {
    char intrinsic[64];
    snprintf(intrinsic, sizeof intrinsic, "llvm.nvvm.read.ptx.sreg.%s", name);
    return tk_llvm_build_gpu(f, TK_LEGAL_SREG, TOLK_U32, intrinsic, NULL, 0);
}

/* Is there a thread number `own` xor lane in this warp? The last one of a block may be partial. */
static LLVMValueRef is_there(tk_llvm_fn *f, LLVMValueRef lane, uint32_t threads) {
    if (threads && threads % TK_ITEMS_WARP == 0)
        return NULL;
    LLVMValueRef flat = read_u32(f, "tid.z"), count = read_u32(f, "ntid.z");
    static const char *const tid[] = {"tid.y", "tid.x"}, *const ntid[] = {"ntid.y", "ntid.x"};
    for (int i = 0; i < 2; i++) {
        LLVMValueRef n = read_u32(f, ntid[i]);
        flat = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_U32,
                                 tk_llvm_build_bin(f, TK_LEGAL_MUL, TOLK_U32, flat, n),
                                 read_u32(f, tid[i]));
        count = tk_llvm_build_bin(f, TK_LEGAL_MUL, TOLK_U32, count, n);
    }
    /* The lane's bits are below those that number the warps. */
    LLVMValueRef other = tk_llvm_build_bin(f, TK_LEGAL_XOR, TOLK_U32, flat, lane);
    return tk_llvm_build_bin(f, TK_LEGAL_ULT, TOLK_U32, other, count);
}

LLVMValueRef tk_llvm_ptx_shuffle(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x,
                                 tolk_dtype lane_dtype, LLVMValueRef lane, uint32_t threads) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    uint32_t bits = tk_dtype_bits(m);
    tolk_dtype ints = bits == 64   ? TOLK_U64
                      : bits == 32 ? TOLK_U32
                      : bits == 16 ? TOLK_U16
                                   : TOLK_U8;
    LLVMValueRef near = tk_llvm_build_bin(f, TK_LEGAL_ULT, lane_dtype, lane,
                                          tk_llvm_build_const(f, lane_dtype, TK_ITEMS_WARP));
    lane = tk_llvm_cast(f, lane_dtype, TOLK_U32, lane);
    lane = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_U32, lane,
                             tk_llvm_build_const(f, TOLK_U32, TK_ITEMS_WARP - 1));
    LLVMValueRef v = to_memory(f, dtype, x), r;
    if (m == dtype && tolk_dtype_is_float(dtype))
        v = tk_llvm_cast_bits(f, dtype, ints, v);
    if (bits == 64) {
        LLVMValueRef half = tk_llvm_build_const(f, TOLK_U64, 32);
        LLVMValueRef low = tk_llvm_build_convert(f, TK_LEGAL_TRUNC, TOLK_U64, TOLK_U32, v);
        LLVMValueRef high = tk_llvm_build_bin(f, TK_LEGAL_LSHR, TOLK_U64, v, half);
        high = tk_llvm_build_convert(f, TK_LEGAL_TRUNC, TOLK_U64, TOLK_U32, high);
        low = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, TOLK_U32, TOLK_U64, exchanged(f, low, lane));
        high =
            tk_llvm_build_convert(f, TK_LEGAL_ZEXT, TOLK_U32, TOLK_U64, exchanged(f, high, lane));
        r = tk_llvm_build_bin(f, TK_LEGAL_SHL, TOLK_U64, high, half);
        r = tk_llvm_build_bin(f, TK_LEGAL_OR, TOLK_U64, r, low);
    } else {
        if (bits < 32)
            v = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, ints, TOLK_U32, v);
        r = exchanged(f, v, lane);
        if (bits < 32)
            r = tk_llvm_build_convert(f, TK_LEGAL_TRUNC, TOLK_U32, ints, r);
    }
    if (m == dtype && tolk_dtype_is_float(dtype))
        r = tk_llvm_cast_bits(f, ints, dtype, r);
    r = from_memory(f, dtype, r);
    LLVMValueRef there = is_there(f, lane, threads);
    if (there)
        near = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_BOOL, near, there);
    return tk_llvm_build_select(f, dtype, near, r, x);
}
