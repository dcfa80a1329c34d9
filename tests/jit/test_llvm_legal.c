/* SPDX-License-Identifier: MIT
 *
 * Everything that llvm_legal.def lists, for every type, number of lanes and target class, selected
 * in child processes: LLVM ends a process on what it cannot select.
 */
#include "support/tk_object.h"
#include "support/tk_ptx.h"
#include "support/tk_test.h"

#include "ir/dtype.h"
#include "jit/llvm_build.h"
#include "jit/llvm_pool.h"

#include <llvm-c/Analysis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of each class that code is made for, and other tunings; cpu NULL: the name's own. */
static const struct {
    const char *name, *cpu;
} target_names[] = {{"x86-64", NULL},        {"x86-64-v2", NULL},      {"haswell", NULL},
                    {"x86-64-v3", "znver3"}, {"skylake-avx512", NULL}, {"x86-64-v4", "znver4"},
                    {"aarch64", NULL},       {"sm_75", NULL},          {"sm_80", NULL},
                    {"sm_86", NULL},         {"sm_89", NULL},          {"sm_90", NULL},
                    {"sm_90a", NULL},        {"sm_80,+ptx85", NULL}};
enum { N_TARGETS = sizeof target_names / sizeof *target_names };

static const tolk_dtype types[] = {TOLK_BOOL, TOLK_I8,  TOLK_I16, TOLK_I32,
                                   TOLK_I64,  TOLK_F32, TOLK_F64};
enum { N_TYPES = sizeof types / sizeof *types };

typedef struct probe {
    const tk_target *target;
    const tk_legal_row *row;
    uint64_t lanes; /* set of logarithms: those to try */
} probe;

/* Pointers are to global memory on a GPU. */
static LLVMTypeRef pointer(const tk_llvm_fn *f) {
    return tk_target_is_gpu(f->target) ? LLVMPointerTypeInContext(f->lc, 1)
                                       : tk_llvm_build_pointer_type(f);
}

/* A function with the arguments of a CPU kernel. */
static void start(tk_llvm_fn *f, const char *name, uint32_t bytes) {
    if (!tk_target_is_gpu(f->target)) {
        tk_llvm_build_function(f, name, bytes);
        return;
    }
    LLVMTypeRef p = pointer(f), i64 = LLVMInt64TypeInContext(f->lc), types[5] = {p, p, i64, i64, p};
    tk_llvm_build_define(f, name, types, 5);
    LLVMSetFunctionCallConv(f->fn, 71); /* a kernel */
    f->bufs = LLVMGetParam(f->fn, 0);
    f->vals = LLVMGetParam(f->fn, 1);
    f->begin = LLVMGetParam(f->fn, 2);
    f->end = LLVMGetParam(f->fn, 3);
    f->env = LLVMGetParam(f->fn, 4);
}

/* The k-th operand, from memory. */
static LLVMValueRef operand(tk_llvm_fn *f, tolk_dtype dtype, unsigned k) {
    LLVMValueRef at =
        tk_llvm_build_address(f, TOLK_I64, f->bufs, tk_llvm_build_const(f, TOLK_INDEX, k), true);
    LLVMValueRef p = LLVMBuildLoad2(f->b, pointer(f), at, "");
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    LLVMValueRef x = tk_llvm_build_load(f, m, p);
    if (m == dtype)
        return x;
    return tk_llvm_build_bin(f, TK_LEGAL_NE, m, x, tk_llvm_build_zero(f, m));
}

static void result(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    tolk_dtype m = tk_llvm_build_memory_dtype(dtype);
    if (m != dtype)
        x = tk_llvm_build_convert(f, TK_LEGAL_ZEXT, dtype, m, x);
    tk_llvm_build_store(f, m, f->env, x);
}

static void lane_op(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dt) {
    tolk_dtype one = tk_dtype_scalar(dt);
    uint32_t n = tolk_dtype_lanes(dt);
    uint8_t lanes[TOLK_MAX_LANES];
    switch (op) {
    case TK_LEGAL_SPLAT:
        result(f, dt, tk_llvm_build_splat(f, dt, operand(f, one, 0)));
        break;
    case TK_LEGAL_INSERT:
        result(f, dt, tk_llvm_build_insert(f, dt, operand(f, dt, 0), operand(f, one, 1), n - 1));
        break;
    case TK_LEGAL_EXTRACT:
        result(f, one, tk_llvm_build_extract(f, dt, operand(f, dt, 0), n - 1));
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            lanes[i] = (uint8_t)(i * 7 % (2 * n));
        result(f, dt, tk_llvm_build_shuffle(f, dt, operand(f, dt, 0), operand(f, dt, 1), lanes, n));
        break;
    }
}

static void memory_op(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dt) {
    tolk_dtype mask = tk_dtype_like(TOLK_BOOL, dt), indices = tk_dtype_like(TOLK_INDEX, dt);
    bool scattered = op == TK_LEGAL_GATHER || op == TK_LEGAL_SCATTER;
    bool gated =
        op != TK_LEGAL_LOAD && op != TK_LEGAL_STORE && op != TK_LEGAL_STREAM && op != TK_LEGAL_RMW;
    LLVMValueRef x = operand(f, dt, 0), m = gated ? operand(f, mask, 1) : NULL;
    LLVMValueRef index = scattered ? operand(f, indices, 2) : f->begin;
    LLVMValueRef p = tk_llvm_build_address(f, dt, f->vals, index, false);
    switch (op) {
    case TK_LEGAL_LOAD:
        result(f, dt, tk_llvm_build_load(f, dt, p));
        break;
    case TK_LEGAL_STORE:
        tk_llvm_build_store(f, dt, p, x);
        break;
    case TK_LEGAL_STREAM:
        tk_llvm_build_stream(f, dt, p, x);
        break;
    case TK_LEGAL_RMW:
        tk_llvm_build_rmw_add(f, dt, p, x, false);
        if (!tolk_dtype_is_float(dt))
            tk_llvm_build_rmw_add(f, dt, p, x, true);
        break;
    case TK_LEGAL_MLOAD:
        result(f, dt, tk_llvm_build_masked_load(f, dt, p, m, x));
        break;
    case TK_LEGAL_MSTORE:
        tk_llvm_build_masked_store(f, dt, p, m, x);
        break;
    case TK_LEGAL_GATHER:
        result(f, dt, tk_llvm_build_gather(f, dt, p, m, x));
        break;
    default:
        tk_llvm_build_scatter(f, dt, p, m, x);
        break;
    }
}

static void gpu_op(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dt) {
    LLVMValueRef x = operand(f, dt, 0), y = operand(f, dt, 1);
    LLVMValueRef all = tk_llvm_build_const(f, TOLK_U32, UINT32_MAX);
    LLVMValueRef clamp = tk_llvm_build_const(f, TOLK_U32, 31), shuffle[] = {all, x, y, clamp};
    static const char *const registers[] = {"tid.x",   "tid.y",    "tid.z",    "ctaid.x", "ctaid.y",
                                            "ctaid.z", "nctaid.x", "nctaid.y", "ntid.x",  "laneid"};
    switch (op) {
    case TK_LEGAL_SREG:
        for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
            char name[64];
            snprintf(name, sizeof name, "llvm.nvvm.read.ptx.sreg.%s", registers[i]);
            result(f, dt, tk_llvm_build_gpu(f, op, dt, name, NULL, 0));
        }
        break;
    case TK_LEGAL_BARRIER:
        tk_llvm_build_gpu(f, op, dt, "llvm.nvvm.barrier0", NULL, 0);
        break;
    case TK_LEGAL_SHFL:
        result(f, dt, tk_llvm_build_gpu(f, op, dt, "llvm.nvvm.shfl.sync.bfly.i32", shuffle, 4));
        break;
    case TK_LEGAL_ATOM:
        result(f, dt, tk_llvm_build_atom_add(f, dt, f->vals, x));
        break;
    default:
        result(f, dt, tk_llvm_build_cas(f, dt, f->vals, y, x));
        break;
    }
}

static void operation(tk_llvm_fn *f, const tk_legal_row *row, tolk_dtype from, tolk_dtype to) {
    tolk_dtype mask = tk_dtype_like(TOLK_BOOL, from);
    tk_legal_op op = row->op;
    switch (row->form) {
    case TK_FORM_UN:
        result(f, from, tk_llvm_build_un(f, op, from, operand(f, from, 0)));
        break;
    case TK_FORM_BIN:
        result(f, from, tk_llvm_build_bin(f, op, from, operand(f, from, 0), operand(f, from, 1)));
        break;
    case TK_FORM_TER:
        result(f, from,
               tk_llvm_build_ter(f, op, from, operand(f, from, 0), operand(f, from, 1),
                                 operand(f, from, 2)));
        break;
    case TK_FORM_CMP:
        result(f, mask, tk_llvm_build_bin(f, op, from, operand(f, from, 0), operand(f, from, 1)));
        break;
    case TK_FORM_SEL:
        result(f, from,
               tk_llvm_build_select(f, from, operand(f, mask, 0), operand(f, from, 1),
                                    operand(f, from, 2)));
        break;
    case TK_FORM_CONV:
        result(f, to, tk_llvm_build_convert(f, op, from, to, operand(f, from, 0)));
        break;
    case TK_FORM_MASK:
        result(f, op == TK_LEGAL_BITS ? TOLK_I64 : TOLK_BOOL,
               tk_llvm_build_mask(f, op, from, operand(f, from, 0)));
        break;
    case TK_FORM_LANE:
        lane_op(f, op, from);
        break;
    case TK_FORM_MEM:
        memory_op(f, op, from);
        break;
    case TK_FORM_GPU:
        gpu_op(f, op, from);
        break;
    }
}

/* A function for each type and number of lanes of a row. Returns their number, -1 on failure. */
static int functions(tk_llvm_fn *f, const probe *p) {
    int n = 0;
    for (uint32_t a = 0; a < N_TYPES; a++)
        for (uint32_t b = 0; b < N_TYPES; b++)
            for (uint32_t log = 0; log <= 6; log++) {
                tolk_dtype from = tolk_dtype_vec(types[a], 1U << log);
                tolk_dtype to = tolk_dtype_vec(types[b], 1U << log);
                bool once = p->row->form == TK_FORM_CONV || b == a;
                if (!once || !(p->lanes >> log & 1) ||
                    !(p->row->types & tk_llvm_legal_type(from)) ||
                    !tk_llvm_legal(f->classes, p->row->op, from, to))
                    continue;
                char name[32];
                snprintf(name, sizeof name, "f%d", n++);
                uint32_t bytes = (uint32_t)tolk_dtype_bytes(from) << log;
                start(f, name, bytes);
                operation(f, p->row, from, to);
                LLVMBuildRetVoid(f->b);
                if (f->status != TOLK_OK)
                    return -1;
            }
    return n;
}

/* Exit codes of the child. */
enum { SELECTED, NOT_BUILT, MALFORMED, NO_CODE, UNDEFINED, NOTHING };

/* A NUL-terminated copy is what text is looked at in. */
static const char *wrong_text(LLVMMemoryBufferRef object) {
    size_t n = LLVMGetBufferSize(object);
    char *text = malloc(n + 1);
    if (!text)
        return "no memory";
    memcpy(text, LLVMGetBufferStart(object), n);
    text[n] = 0;
    const char *wrong = tk_ptx_forbidden(text);
    free(text);
    return wrong;
}

static int select_row(void *arg) {
    const probe *p = arg;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    tolk_error err = TOLK_ERROR_INIT;
    tk_llvm_fn f = {.target = p->target, .classes = tk_llvm_legal_classes(p->target), .err = &err};
    tk_llvm_session *s;
    LLVMTargetMachineRef machine;
    LLVMTargetDataRef layout;
    if (tk_ctx_init(&opts, &f.ctx, NULL) != TOLK_OK ||
        tk_llvm_pool_take(f.ctx, &s, NULL) != TOLK_OK ||
        tk_llvm_pool_machine(s, p->target, &machine, &layout, NULL) != TOLK_OK)
        return NOT_BUILT;
    f.lc = s->lc;
    f.module = LLVMModuleCreateWithNameInContext("probe", f.lc);
    f.b = LLVMCreateBuilderInContext(f.lc);
    LLVMSetTarget(f.module, p->target->triple);
    LLVMSetModuleDataLayout(f.module, layout);
    bool is_gpu = tk_target_is_gpu(f.target);
    int n = functions(&f, p), code = SELECTED;
    char *why = NULL;
    LLVMMemoryBufferRef object = NULL;
    if (n < 0) {
        fprintf(stderr, "%s\n", err.msg);
        code = NOT_BUILT;
    } else if (n == 0) {
        code = NOTHING;
    } else if (LLVMVerifyModule(f.module, LLVMReturnStatusAction, &why)) {
        fprintf(stderr, "%s\n", why);
        code = MALFORMED;
    } else if (LLVMTargetMachineEmitToMemoryBuffer(
                   machine, f.module, is_gpu ? LLVMAssemblyFile : LLVMObjectFile, &why, &object) ||
               s->failed) {
        code = NO_CODE;
    } else {
        const char *name =
            is_gpu ? wrong_text(object)
                   : tk_object_undefined(LLVMGetBufferStart(object), LLVMGetBufferSize(object));
        if (name) {
            fprintf(stderr, "undefined: %s\n", name);
            code = UNDEFINED;
        }
        LLVMDisposeMemoryBuffer(object);
    }
    LLVMDisposeBuilder(f.b);
    LLVMDisposeModule(f.module);
    tk_llvm_pool_give(f.ctx, s);
    tk_ctx_fini(f.ctx);
    return code;
}

static bool row_is_for(const tk_legal_row *row, const tk_target *target) {
    if (tk_target_is_gpu(target))
        return row->ptx > 0;
    return (row->targets & tk_llvm_legal_classes(target)) != 0;
}

static void test_legal_every_row_on_every_target_is_selected_without_undefined_symbols(void **st) {
    (void)st;
    static const tk_host none;
    uint32_t n;
    const tk_legal_row *rows = tk_llvm_legal_rows(&n);
    uint64_t random = tk_test_seed();
    int bad = 0, done = 0;
    for (size_t t = 0; t < N_TARGETS; t++) {
        tk_target target;
        tolk_error err = TOLK_ERROR_INIT;
        if (tk_target_parse(&none, target_names[t].name, &target, &err) != TOLK_OK)
            fail_msg("%s", err.msg);
        if (target_names[t].cpu)
            snprintf(target.cpu, sizeof target.cpu, "%s", target_names[t].cpu);
        for (uint32_t i = 0; i < n; i++) {
            if (!row_is_for(&rows[i], &target))
                continue;
            /* Always scalars (or the fewest lanes) and the most; all with the whole suite. */
            probe p = {&target, &rows[i], 0x7f};
            if (tk_test_share() < 100)
                p.lanes = tk_target_is_gpu(&target) ? 7 : 0x47 & ~(uint64_t)2;
            if (tk_test_share() < 100)
                p.lanes |= (uint64_t)1 << tk_test_rand(&random) % 7;
            /* The code generator's quick way is another one; a third of it with a part of the
             * suite. */
            bool both = tk_test_share() >= 100 || tk_test_rand(&random) % 3 == 0;
            for (int quick = 0; quick <= (both && !tk_target_is_gpu(&target)); quick++) {
                target.quick = quick;
                int code = tk_test_child(select_row, &p, 120);
                done++;
                if (code != SELECTED) {
                    fprintf(stderr, "%s on %s%s: %d\n", rows[i].name, target.cpu,
                            quick ? ", quick" : "", code);
                    bad++;
                }
            }
            target.quick = false;
        }
    }
    assert_int_equal(bad, 0);
    assert_true(done > 550);
}

static void test_legal_what_is_not_listed_is_refused(void **st) {
    (void)st;
    uint8_t sse2 = TK_LEGAL_ON_SSE2, avx2 = TK_LEGAL_ON_AVX2 | TK_LEGAL_ON_FMA;
    tolk_dtype f32x8 = tolk_dtype_vec(TOLK_F32, 8), i8x8 = tolk_dtype_vec(TOLK_I8, 8);
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_FMA, f32x8, f32x8));
    assert_true(tk_llvm_legal(avx2, TK_LEGAL_FMA, f32x8, f32x8));
    assert_false(tk_llvm_legal(avx2, TK_LEGAL_MLOAD, i8x8, i8x8));
    assert_true(tk_llvm_legal(avx2, TK_LEGAL_MLOAD, f32x8, f32x8));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_FTRUNC, f32x8, f32x8));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_FADD, TOLK_F16, TOLK_F16));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_ADD, f32x8, f32x8));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_TRUNC, TOLK_I8, TOLK_I32));
    assert_true(tk_llvm_legal(sse2, TK_LEGAL_TRUNC, TOLK_I32, TOLK_U8));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_TRUNC, f32x8, TOLK_U8));
    uint8_t ptx = TK_LEGAL_ON_PTX;
    tolk_dtype f32x4 = tolk_dtype_vec(TOLK_F32, 4), f64x4 = tolk_dtype_vec(TOLK_F64, 4);
    assert_true(tk_llvm_legal(ptx, TK_LEGAL_FADD, TOLK_F32, TOLK_F32));
    assert_false(tk_llvm_legal(ptx, TK_LEGAL_FADD, f32x4, f32x4));
    assert_true(tk_llvm_legal(ptx, TK_LEGAL_LOAD, f32x4, f32x4));
    assert_false(tk_llvm_legal(ptx, TK_LEGAL_LOAD, f64x4, f64x4));
    assert_false(tk_llvm_legal(ptx, TK_LEGAL_STREAM, f32x4, f32x4));
    assert_false(tk_llvm_legal(sse2, TK_LEGAL_BARRIER, TOLK_I32, TOLK_I32));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_legal_every_row_on_every_target_is_selected_without_undefined_symbols),
        cmocka_unit_test(test_legal_what_is_not_listed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
