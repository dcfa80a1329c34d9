/* SPDX-License-Identifier: MIT */
#include "jit/llvm_lanes.h"

#include "ir/dtype.h"
#include "jit/kenv.h"

/* What a function does, as bits; with the size of an element its number in tk_llvm_fn.lanes. */
enum { LOAD = 1, SCATTERED = 2, CHECKED = 4, GATED = 8, KINDS = 16, SIZES = 4 };
_Static_assert(KINDS *SIZES + 1 == TK_LLVM_FN_OTHERS, "one each, and the one that records");
enum { RECORD = KINDS * SIZES };

enum { PRESERVE_ALL = 15 /* LLVM's number of the calling convention */ };

/* Arguments: what each function takes of them, in this order. */
typedef enum arg { BASE, INDEX, VALUES, LANES, GATES, SIZE, ENV, SLOT, N_ARGS } arg;

static LLVMValueRef i64_const(const tk_llvm_fn *f, int64_t v) {
    return tk_llvm_build_const(f, TOLK_INDEX, (uint64_t)v);
}

static bool takes(unsigned kind, arg a) {
    if (a == GATES)
        return kind & GATED;
    return a < GATES || (kind & CHECKED);
}

/* Gates come as bits where the target has BITS, else as the address of bytes. */
static bool gate_bits(const tk_llvm_fn *f) {
    return tk_llvm_build_has(f, TK_LEGAL_BITS, tolk_dtype_vec(TOLK_BOOL, 2));
}

/* ---- the functions ---- */

/* A new function beside f: out is f with that in the place of the kernel. */
static LLVMBasicBlockRef begin(tk_llvm_fn *f, const char *name, LLVMTypeRef *args, unsigned n,
                               tk_llvm_fn *out) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->b);
    *out = *f;
    for (unsigned i = 0; i < sizeof out->slot / sizeof *out->slot; i++)
        out->slot[i] = NULL;
    tk_llvm_build_helper(out, name, args, n);
    LLVMSetFunctionCallConv(out->fn, PRESERVE_ALL);
    return here;
}

static void end(tk_llvm_fn *f, tk_llvm_fn *g, LLVMBasicBlockRef here) {
    tk_llvm_build_return(g);
    if (f->status == TOLK_OK)
        f->status = g->status;
    tk_llvm_build_enter(f, here);
}

static LLVMValueRef record_function(tk_llvm_fn *f) {
    if (f->others[RECORD])
        return f->others[RECORD];
    tk_llvm_fn g;
    LLVMTypeRef args[3] = {tk_llvm_build_pointer_type(f), tk_llvm_build_type(f, TOLK_U32),
                           tk_llvm_build_type(f, TOLK_INDEX)};
    LLVMBasicBlockRef here = begin(f, "tolk_fault", args, 3, &g);
    LLVMValueRef env = LLVMGetParam(g.fn, 0), at[3];
    static const uint32_t offset[3] = {offsetof(tolk_kenv, fault), offsetof(tolk_kenv, fault_slot),
                                       offsetof(tolk_kenv, fault_index)};
    for (int i = 0; i < 3; i++)
        at[i] = tk_llvm_build_address(&g, TOLK_U8, env, i64_const(&g, offset[i]), true);
    LLVMValueRef fault = tk_llvm_build_load(&g, TOLK_U32, at[0]);
    LLVMValueRef first =
        tk_llvm_build_bin(&g, TK_LEGAL_EQ, TOLK_U32, fault, tk_llvm_build_zero(&g, TOLK_U32));
    LLVMBasicBlockRef record = tk_llvm_build_block(&g, "record"),
                      done = tk_llvm_build_block(&g, "recorded");
    tk_llvm_build_branch(&g, first, record, done, TK_LLVM_EVEN);
    tk_llvm_build_enter(&g, record);
    tk_llvm_build_store(&g, TOLK_U32, at[0], tk_llvm_build_const(&g, TOLK_U32, 1));
    tk_llvm_build_store(&g, TOLK_U32, at[1], LLVMGetParam(g.fn, 1));
    tk_llvm_build_store(&g, TOLK_INDEX, at[2], LLVMGetParam(g.fn, 2));
    tk_llvm_build_jump(&g, done);
    tk_llvm_build_enter(&g, done);
    end(f, &g, here);
    return f->others[RECORD] = g.fn;
}

static void call_record(tk_llvm_fn *f, LLVMValueRef env, LLVMValueRef slot, LLVMValueRef index) {
    LLVMValueRef fn = record_function(f), args[3] = {env, slot, index};
    LLVMValueRef call = LLVMBuildCall2(f->b, LLVMGlobalGetValueType(fn), fn, args, 3, "");
    LLVMSetInstructionCallConv(call, PRESERVE_ALL);
}

/* Goes on in a block where the gate of lane k is set, else jumps to `off`. gates: the argument, or
 * the bits from lane k on. */
static void look_at_gate(tk_llvm_fn *g, LLVMValueRef gates, LLVMValueRef k, LLVMBasicBlockRef off) {
    LLVMBasicBlockRef on = tk_llvm_build_block(g, "gated");
    LLVMValueRef set;
    if (gate_bits(g)) {
        set = tk_llvm_build_bin(g, TK_LEGAL_AND, TOLK_U64, gates, i64_const(g, 1));
        set = tk_llvm_build_bin(g, TK_LEGAL_NE, TOLK_U64, set, i64_const(g, 0));
    } else {
        set = tk_llvm_build_load(g, TOLK_U8, tk_llvm_build_address(g, TOLK_U8, gates, k, true));
        set = tk_llvm_build_bin(g, TK_LEGAL_NE, TOLK_U8, set, tk_llvm_build_zero(g, TOLK_U8));
    }
    tk_llvm_build_branch(g, set, on, off, TK_LLVM_EVEN);
    tk_llvm_build_enter(g, on);
}

/* Goes on in a block where the index is inside; otherwise records it and jumps to next. */
static void look_at_index(tk_llvm_fn *g, const LLVMValueRef *a, unsigned kind, tolk_dtype element,
                          LLVMValueRef index, LLVMValueRef value_at, LLVMBasicBlockRef next) {
    LLVMBasicBlockRef inside = tk_llvm_build_block(g, "inside"),
                      outside = tk_llvm_build_block(g, "outside");
    tk_llvm_build_branch(g, tk_llvm_build_bin(g, TK_LEGAL_ULT, TOLK_U64, index, a[SIZE]), inside,
                         outside, TK_LLVM_EVEN);
    tk_llvm_build_enter(g, outside);
    call_record(g, a[ENV], a[SLOT], index);
    if (kind & LOAD)
        tk_llvm_build_store(g, element, value_at, tk_llvm_build_zero(g, element));
    tk_llvm_build_jump(g, next);
    tk_llvm_build_enter(g, inside);
}

static void lanes_body(tk_llvm_fn *g, LLVMValueRef *a, unsigned kind, tolk_dtype element) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b), loop = tk_llvm_build_block(g, "lane"),
                      next = tk_llvm_build_block(g, "next"), done = tk_llvm_build_block(g, "done");
    LLVMTypeRef i64 = tk_llvm_build_type(g, TOLK_INDEX);
    LLVMValueRef zero = i64_const(g, 0), one = i64_const(g, 1);
    bool bits = (kind & GATED) && gate_bits(g);
    tk_llvm_build_jump(g, loop);
    tk_llvm_build_enter(g, loop);
    LLVMValueRef k = LLVMBuildPhi(g->b, i64, ""), gates = a[GATES];
    LLVMAddIncoming(k, &zero, &before, 1);
    if (bits) {
        gates = LLVMBuildPhi(g->b, i64, "");
        LLVMAddIncoming(gates, &a[GATES], &before, 1);
    }
    if (kind & GATED)
        look_at_gate(g, gates, k, next);
    LLVMValueRef value_at = tk_llvm_build_address(g, element, a[VALUES], k, true);
    LLVMValueRef index =
        kind & SCATTERED
            ? tk_llvm_build_load(g, TOLK_INDEX,
                                 tk_llvm_build_address(g, TOLK_INDEX, a[INDEX], k, true))
            : tk_llvm_build_bin(g, TK_LEGAL_ADD, TOLK_INDEX, a[INDEX], k);
    if (kind & CHECKED)
        look_at_index(g, a, kind, element, index, value_at, next);
    LLVMValueRef p = tk_llvm_build_address(g, element, a[BASE], index, false);
    tk_llvm_build_store(g, element, kind & LOAD ? value_at : p,
                        tk_llvm_build_load(g, element, kind & LOAD ? p : value_at));
    tk_llvm_build_jump(g, next);
    tk_llvm_build_enter(g, next);
    LLVMValueRef k1 = tk_llvm_build_bin(g, TK_LEGAL_ADD, TOLK_INDEX, k, one);
    if (!k1)
        return;
    LLVMAddIncoming(k, &k1, &next, 1);
    if (bits) {
        LLVMValueRef rest = tk_llvm_build_bin(g, TK_LEGAL_LSHR, TOLK_U64, gates, one);
        LLVMAddIncoming(gates, &rest, &next, 1);
    }
    LLVMValueRef more = tk_llvm_build_bin(g, TK_LEGAL_SLT, TOLK_INDEX, k1, a[LANES]);
    tk_llvm_build_branch(g, more, loop, done, TK_LLVM_EVEN);
    tk_llvm_build_enter(g, done);
}

/* Elements are moved as integers: where a function that preserves vector registers uses one itself,
 * LLVM 19 clears the upper halves of them all when it returns. */
static LLVMValueRef lanes_function(tk_llvm_fn *f, unsigned kind, size_t element_bytes) {
    static const tolk_dtype by_size[SIZES] = {TOLK_U8, TOLK_U16, TOLK_U32, TOLK_U64};
    unsigned size = (unsigned)__builtin_ctzll(element_bytes);
    tolk_dtype element = by_size[size];
    LLVMValueRef *fn = &f->others[kind + KINDS * size];
    if (*fn || f->status != TOLK_OK)
        return *fn;
    if (kind & CHECKED)
        record_function(f);
    LLVMTypeRef p = tk_llvm_build_pointer_type(f), i64 = tk_llvm_build_type(f, TOLK_INDEX);
    const LLVMTypeRef types[N_ARGS] = {
        [BASE] = p,    [INDEX] = kind & SCATTERED ? p : i64,    [VALUES] = p,
        [LANES] = i64, [GATES] = gate_bits(f) ? i64 : p,        [SIZE] = i64,
        [ENV] = p,     [SLOT] = tk_llvm_build_type(f, TOLK_U32)};
    LLVMTypeRef args[N_ARGS];
    LLVMValueRef at[N_ARGS] = {NULL};
    unsigned n = 0;
    for (arg i = 0; i < N_ARGS; i++)
        if (takes(kind, i))
            args[n++] = types[i];
    tk_llvm_fn g;
    LLVMBasicBlockRef here = begin(f, kind & LOAD ? "tolk_load" : "tolk_store", args, n, &g);
    n = 0;
    for (arg i = 0; i < N_ARGS; i++)
        if (takes(kind, i))
            at[i] = LLVMGetParam(g.fn, n++);
    lanes_body(&g, at, kind, element);
    end(f, &g, here);
    return *fn = g.fn;
}

/* ---- calling them ---- */

/* A vector in memory, at the slot of that use; x may be NULL. */
static LLVMValueRef put(tk_llvm_fn *f, int use, tolk_dtype dtype, const tk_llvm_wide *x) {
    if (!f->slot[use])
        f->slot[use] = tk_llvm_build_stack(f, use == TK_LLVM_SLOT_GATES ? 64 : 64 * 8);
    if (x)
        tk_llvm_wide_store(f, dtype, f->slot[use], x);
    return f->slot[use];
}

static LLVMValueRef gate_argument(tk_llvm_fn *f, const tk_llvm_access *a) {
    tolk_dtype mask = tk_dtype_like(TOLK_BOOL, a->dtype), bytes = tk_dtype_like(TOLK_U8, a->dtype);
    if (gate_bits(f))
        return tk_llvm_wide_mask(f, TK_LEGAL_BITS, mask, &a->gate);
    tk_llvm_wide gate = a->gate;
    uint32_t lanes = tk_llvm_wide_lanes(f, bytes);
    tk_llvm_wide_cut(f, mask, &gate, lanes);
    for (uint32_t i = 0; i < gate.n; i++)
        gate.at[i] = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, tk_llvm_wide_piece(mask, lanes),
                                           tk_llvm_wide_piece(bytes, lanes), gate.at[i]);
    return put(f, TK_LLVM_SLOT_GATES, bytes, &gate);
}

void tk_llvm_lanes_access(tk_llvm_fn *f, const tk_llvm_access *a, bool is_load, bool checked,
                          tk_llvm_wide *out) {
    tolk_dtype m = tk_llvm_build_memory_dtype(a->dtype);
    unsigned kind = (is_load ? LOAD : 0) | (a->scattered ? SCATTERED : 0) |
                    (checked ? CHECKED : 0) | (a->gated ? GATED : 0);
    LLVMValueRef fn = lanes_function(f, kind, tolk_dtype_bytes(m));
    const tk_llvm_wide *value = a->gated || !is_load ? &a->value : NULL;
    LLVMValueRef all[N_ARGS] = {
        [BASE] = a->base,
        [INDEX] = a->scattered
                      ? put(f, TK_LLVM_SLOT_INDICES, tk_dtype_like(TOLK_INDEX, m), &a->index)
                      : a->index.at[0],
        [VALUES] = put(f, TK_LLVM_SLOT_VALUES, m, value),
        [LANES] = i64_const(f, tolk_dtype_lanes(m)),
        [GATES] = a->gated ? gate_argument(f, a) : NULL,
        [SIZE] = a->size,
        [ENV] = f->env,
        [SLOT] = tk_llvm_build_const(f, TOLK_U32, a->fault_slot)};
    LLVMValueRef args[N_ARGS];
    unsigned n = 0;
    for (arg i = 0; i < N_ARGS; i++)
        if (takes(kind, i))
            args[n++] = all[i];
    if (f->status != TOLK_OK)
        return;
    LLVMValueRef call = LLVMBuildCall2(f->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
    LLVMSetInstructionCallConv(call, PRESERVE_ALL);
    if (is_load)
        tk_llvm_wide_load(f, m, all[VALUES], out);
}

void tk_llvm_lanes_fault(tk_llvm_fn *f, const tk_llvm_access *a, LLVMValueRef index) {
    if (index && f->status == TOLK_OK)
        call_record(f, f->env, tk_llvm_build_const(f, TOLK_U32, a->fault_slot), index);
}
