/* SPDX-License-Identifier: MIT */
#include "jit/llvm_build.h"

#include "ir/dtype.h"
#include "jit/llvm_pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failure ---- */

LLVMValueRef tk_llvm_build_fail(tk_llvm_fn *f, tolk_status status, const char *fmt, ...) {
    if (f->status != TOLK_OK)
        return NULL;
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    f->status = tk_status_fail(f->err, status, TK_NO_NODE, "%s", text);
    return NULL;
}

LLVMValueRef tk_llvm_build_unsupported(tk_llvm_fn *f, const char *what, tolk_dtype dtype) {
    char text[16];
    return tk_llvm_build_fail(f, TOLK_E_UNSUPPORTED, "%s %s: no code for it on %s", what,
                              tk_dtype_text(dtype, text), f->target->cpu);
}

static bool legal(tk_llvm_fn *f, tk_legal_op op, tolk_dtype from, tolk_dtype to) {
    if (f->status != TOLK_OK)
        return false;
    if (tk_llvm_legal(f->classes, op, from, to))
        return true;
    tk_llvm_build_unsupported(f, tk_llvm_legal_name(op), from);
    return false;
}

bool tk_llvm_build_has(const tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype) {
    return tk_llvm_legal(f->classes, op, dtype, dtype);
}

/* ---- the function ---- */

static void attribute(tk_llvm_fn *f, const char *key, const char *value) {
    LLVMAttributeRef a = LLVMCreateStringAttribute(f->lc, key, (unsigned)strlen(key), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(f->fn, LLVMAttributeFunctionIndex, a);
}

static void plain_attribute(tk_llvm_fn *f, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f->fn, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(f->lc, kind, 0));
}

void tk_llvm_build_define(tk_llvm_fn *f, const char *name, LLVMTypeRef *args, unsigned n) {
    f->fn = LLVMAddFunction(f->module, name,
                            LLVMFunctionType(LLVMVoidTypeInContext(f->lc), args, n, 0));
    plain_attribute(f, "nounwind");
    attribute(f, "target-cpu", f->target->cpu);
    attribute(f, "target-features", f->target->features);
    attribute(f, "frame-pointer", "none");
    char small[16];
    snprintf(small, sizeof small, "%d", TK_LLVM_SMALL_FRAME);
    attribute(f, "warn-stack-size", small);
    f->entry = tk_llvm_build_block(f, "entry");
    tk_llvm_build_enter(f, f->entry);
}

void tk_llvm_build_function(tk_llvm_fn *f, const char *symbol, uint32_t widest) {
    LLVMTypeRef p = tk_llvm_build_pointer_type(f), i64 = LLVMInt64TypeInContext(f->lc);
    LLVMTypeRef args[5] = {p, p, i64, i64, p};
    tk_llvm_build_define(f, symbol, args, 5);
    if (f->target->avx512) {
        const char *width = widest >= 64 ? "512" : "256";
        attribute(f, "prefer-vector-width", width);
        attribute(f, "min-legal-vector-width", width);
    }
    f->bufs = LLVMGetParam(f->fn, 0);
    f->vals = LLVMGetParam(f->fn, 1);
    f->begin = LLVMGetParam(f->fn, 2);
    f->end = LLVMGetParam(f->fn, 3);
    f->env = LLVMGetParam(f->fn, 4);
}

void tk_llvm_build_helper(tk_llvm_fn *f, const char *name, LLVMTypeRef *args, unsigned n) {
    tk_llvm_build_define(f, name, args, n);
    LLVMSetLinkage(f->fn, LLVMInternalLinkage);
}

/* ---- types and constants ---- */

static LLVMTypeRef scalar_type(const tk_llvm_fn *f, tolk_dtype dtype) {
    switch (tk_llvm_legal_type(dtype)) {
    case TK_LEGAL_I1:
        return LLVMInt1TypeInContext(f->lc);
    case TK_LEGAL_I8:
        return LLVMInt8TypeInContext(f->lc);
    case TK_LEGAL_I16:
        return LLVMInt16TypeInContext(f->lc);
    case TK_LEGAL_I32:
        return LLVMInt32TypeInContext(f->lc);
    case TK_LEGAL_F32:
        return LLVMFloatTypeInContext(f->lc);
    case TK_LEGAL_F64:
        return LLVMDoubleTypeInContext(f->lc);
    default:
        return LLVMInt64TypeInContext(f->lc);
    }
}

static LLVMTypeRef with_lanes(LLVMTypeRef scalar, uint32_t lanes) {
    return lanes == 1 ? scalar : LLVMVectorType(scalar, lanes);
}

LLVMTypeRef tk_llvm_build_type(const tk_llvm_fn *f, tolk_dtype dtype) {
    return with_lanes(scalar_type(f, dtype), tolk_dtype_lanes(dtype));
}

LLVMTypeRef tk_llvm_build_pointer_type(const tk_llvm_fn *f) {
    return LLVMPointerTypeInContext(f->lc, 0);
}

tolk_dtype tk_llvm_build_memory_dtype(tolk_dtype dtype) {
    return tk_dtype_scalar(dtype) == TOLK_BOOL ? tk_dtype_like(TOLK_U8, dtype) : dtype;
}

/* Floats from their bits: no decimal form in between, NaN payloads stay. */
static LLVMValueRef scalar_const(const tk_llvm_fn *f, tolk_dtype dtype, uint64_t bits) {
    LLVMTypeRef type = scalar_type(f, dtype);
    if (!(tk_llvm_legal_type(dtype) & (TK_LEGAL_F32 | TK_LEGAL_F64)))
        return LLVMConstInt(type, bits, 0);
    LLVMTypeRef as_int =
        tk_dtype_bits(dtype) == 32 ? LLVMInt32TypeInContext(f->lc) : LLVMInt64TypeInContext(f->lc);
    return LLVMConstBitCast(LLVMConstInt(as_int, bits, 0), type);
}

LLVMValueRef tk_llvm_build_const(const tk_llvm_fn *f, tolk_dtype dtype, uint64_t bits) {
    LLVMValueRef c = scalar_const(f, dtype, bits), lane[TOLK_MAX_LANES];
    uint32_t n = tolk_dtype_lanes(dtype);
    for (uint32_t i = 0; i < n; i++)
        lane[i] = c;
    return n == 1 ? c : LLVMConstVector(lane, n);
}

LLVMValueRef tk_llvm_build_zero(const tk_llvm_fn *f, tolk_dtype dtype) {
    return LLVMConstNull(tk_llvm_build_type(f, dtype));
}

LLVMValueRef tk_llvm_build_iota(const tk_llvm_fn *f, tolk_dtype dtype) {
    LLVMValueRef lane[TOLK_MAX_LANES];
    uint32_t n = tolk_dtype_lanes(dtype);
    for (uint32_t i = 0; i < n; i++)
        lane[i] = scalar_const(f, dtype, i);
    return n == 1 ? lane[0] : LLVMConstVector(lane, n);
}

/* ---- operations ---- */

static LLVMValueRef intrinsic(tk_llvm_fn *f, const char *name, LLVMTypeRef *types, size_t n_types,
                              LLVMValueRef *args, unsigned n) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef decl = LLVMGetIntrinsicDeclaration(f->module, id, types, n_types);
    f->n_calls++;
    return LLVMBuildCall2(f->b, LLVMGlobalGetValueType(decl), decl, args, n, "");
}

static LLVMValueRef intrinsic_of(tk_llvm_fn *f, const char *name, tolk_dtype dtype,
                                 LLVMValueRef *args, unsigned n) {
    LLVMTypeRef type = tk_llvm_build_type(f, dtype);
    return intrinsic(f, name, &type, 1, args, n);
}

LLVMValueRef tk_llvm_build_un(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a) {
    if (!a || !legal(f, op, dtype, dtype))
        return NULL;
    switch (op) {
    case TK_LEGAL_FNEG:
        return LLVMBuildFNeg(f->b, a, "");
    case TK_LEGAL_FSQRT:
        return intrinsic_of(f, "llvm.sqrt", dtype, &a, 1);
    case TK_LEGAL_FTRUNC:
        return intrinsic_of(f, "llvm.trunc", dtype, &a, 1);
    default:
        return tk_llvm_build_fail(f, TOLK_E_INTERNAL, "%s has not one operand",
                                  tk_llvm_legal_name(op));
    }
}

static LLVMValueRef compare(tk_llvm_fn *f, tk_legal_op op, LLVMValueRef a, LLVMValueRef b) {
    /* For each a < b, unsigned, CodeGenPrepare looks through all users of a for a matching
     * subtraction; for !(a >= b), which becomes the same code, it does not. */
    if (op == TK_LEGAL_ULT && f->is_large)
        return LLVMBuildNot(f->b, LLVMBuildICmp(f->b, LLVMIntUGE, a, b, ""), "");
    switch (op) {
    case TK_LEGAL_EQ:
        return LLVMBuildICmp(f->b, LLVMIntEQ, a, b, "");
    case TK_LEGAL_NE:
        return LLVMBuildICmp(f->b, LLVMIntNE, a, b, "");
    case TK_LEGAL_SLT:
        return LLVMBuildICmp(f->b, LLVMIntSLT, a, b, "");
    case TK_LEGAL_ULT:
        return LLVMBuildICmp(f->b, LLVMIntULT, a, b, "");
    case TK_LEGAL_UGE:
        return LLVMBuildICmp(f->b, LLVMIntUGE, a, b, "");
    case TK_LEGAL_FOLT:
        return LLVMBuildFCmp(f->b, LLVMRealOLT, a, b, "");
    case TK_LEGAL_FOGT:
        return LLVMBuildFCmp(f->b, LLVMRealOGT, a, b, "");
    case TK_LEGAL_FOGE:
        return LLVMBuildFCmp(f->b, LLVMRealOGE, a, b, "");
    case TK_LEGAL_FOEQ:
        return LLVMBuildFCmp(f->b, LLVMRealOEQ, a, b, "");
    case TK_LEGAL_FUNE:
        return LLVMBuildFCmp(f->b, LLVMRealUNE, a, b, "");
    default:
        return tk_llvm_build_fail(f, TOLK_E_INTERNAL, "%s has not two operands",
                                  tk_llvm_legal_name(op));
    }
}

LLVMValueRef tk_llvm_build_bin(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a,
                               LLVMValueRef b) {
    if (!a || !b || !legal(f, op, dtype, dtype))
        return NULL;
    LLVMValueRef args[2] = {a, b};
    switch (op) {
    case TK_LEGAL_ADD:
        return LLVMBuildAdd(f->b, a, b, "");
    case TK_LEGAL_SUB:
        return LLVMBuildSub(f->b, a, b, "");
    case TK_LEGAL_MUL:
        return LLVMBuildMul(f->b, a, b, "");
    case TK_LEGAL_SDIV:
        return LLVMBuildSDiv(f->b, a, b, "");
    case TK_LEGAL_UDIV:
        return LLVMBuildUDiv(f->b, a, b, "");
    case TK_LEGAL_SREM:
        return LLVMBuildSRem(f->b, a, b, "");
    case TK_LEGAL_UREM:
        return LLVMBuildURem(f->b, a, b, "");
    case TK_LEGAL_SHL:
        return LLVMBuildShl(f->b, a, b, "");
    case TK_LEGAL_LSHR:
        return LLVMBuildLShr(f->b, a, b, "");
    case TK_LEGAL_ASHR:
        return LLVMBuildAShr(f->b, a, b, "");
    case TK_LEGAL_AND:
        return LLVMBuildAnd(f->b, a, b, "");
    case TK_LEGAL_OR:
        return LLVMBuildOr(f->b, a, b, "");
    case TK_LEGAL_XOR:
        return LLVMBuildXor(f->b, a, b, "");
    case TK_LEGAL_SMAX:
        return intrinsic_of(f, "llvm.smax", dtype, args, 2);
    case TK_LEGAL_UMAX:
        return intrinsic_of(f, "llvm.umax", dtype, args, 2);
    case TK_LEGAL_UMIN:
        return intrinsic_of(f, "llvm.umin", dtype, args, 2);
    case TK_LEGAL_FADD:
        return LLVMBuildFAdd(f->b, a, b, "");
    case TK_LEGAL_FSUB:
        return LLVMBuildFSub(f->b, a, b, "");
    case TK_LEGAL_FMUL:
        return LLVMBuildFMul(f->b, a, b, "");
    case TK_LEGAL_FDIV:
        return LLVMBuildFDiv(f->b, a, b, "");
    case TK_LEGAL_FMAXIMUM:
        return intrinsic_of(f, "llvm.maximum", dtype, args, 2);
    default:
        return compare(f, op, a, b);
    }
}

LLVMValueRef tk_llvm_build_ter(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a,
                               LLVMValueRef b, LLVMValueRef c) {
    if (!a || !b || !c || !legal(f, op, dtype, dtype))
        return NULL;
    LLVMValueRef args[3] = {a, b, c};
    return intrinsic_of(f, "llvm.fma", dtype, args, 3);
}

LLVMValueRef tk_llvm_build_not(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    return tk_llvm_build_bin(f, TK_LEGAL_XOR, dtype, x,
                             LLVMConstAllOnes(tk_llvm_build_type(f, dtype)));
}

LLVMValueRef tk_llvm_build_select(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef mask,
                                  LLVMValueRef yes, LLVMValueRef no) {
    if (!mask || !yes || !no)
        return NULL;
    if (tk_dtype_scalar(dtype) == TOLK_BOOL) {
        LLVMValueRef a = tk_llvm_build_bin(f, TK_LEGAL_AND, dtype, mask, yes);
        LLVMValueRef b =
            tk_llvm_build_bin(f, TK_LEGAL_AND, dtype, tk_llvm_build_not(f, dtype, mask), no);
        return tk_llvm_build_bin(f, TK_LEGAL_OR, dtype, a, b);
    }
    if (!legal(f, TK_LEGAL_SELECT, dtype, dtype))
        return NULL;
    if (!f->target->quick || tolk_dtype_lanes(dtype) > 1 || !tolk_dtype_is_float(dtype))
        return LLVMBuildSelect(f->b, mask, yes, no, "");
    /* LLVM 19's fast instruction selection makes a blend of 16 bytes in memory from a comparison of
     * floats, a load of one and a select: bytes behind the element are read. Not of integers. */
    LLVMTypeRef type = LLVMTypeOf(yes);
    LLVMTypeRef bits = LLVMIntTypeInContext(f->lc, (unsigned)(8 * tolk_dtype_bytes(dtype)));
    LLVMValueRef x = LLVMBuildSelect(f->b, mask, LLVMBuildBitCast(f->b, yes, bits, ""),
                                     LLVMBuildBitCast(f->b, no, bits, ""), "");
    return LLVMBuildBitCast(f->b, x, type, "");
}

LLVMValueRef tk_llvm_build_convert(tk_llvm_fn *f, tk_legal_op op, tolk_dtype from, tolk_dtype to,
                                   LLVMValueRef x) {
    static const LLVMOpcode opcodes[TK_LEGAL_COUNT] = {
        [TK_LEGAL_TRUNC] = LLVMTrunc,     [TK_LEGAL_ZEXT] = LLVMZExt,
        [TK_LEGAL_SEXT] = LLVMSExt,       [TK_LEGAL_SITOFP] = LLVMSIToFP,
        [TK_LEGAL_UITOFP] = LLVMUIToFP,   [TK_LEGAL_FPTOSI] = LLVMFPToSI,
        [TK_LEGAL_FPTOUI] = LLVMFPToUI,   [TK_LEGAL_FPEXT] = LLVMFPExt,
        [TK_LEGAL_FPTRUNC] = LLVMFPTrunc, [TK_LEGAL_BITCAST] = LLVMBitCast};
    if (!x || !legal(f, op, from, to))
        return NULL;
    LLVMTypeRef half = with_lanes(LLVMHalfTypeInContext(f->lc),
                                  tolk_dtype_lanes(from)); /* here and nowhere else */
    LLVMTypeRef type = tk_llvm_build_type(f, to);
    if (op == TK_LEGAL_HALFEXT)
        return LLVMBuildFPExt(f->b, LLVMBuildBitCast(f->b, x, half, ""), type, "");
    if (op == TK_LEGAL_HALFTRUNC)
        return LLVMBuildBitCast(f->b, LLVMBuildFPTrunc(f->b, x, half, ""), type, "");
    return LLVMBuildCast(f->b, opcodes[op], x, type, "");
}

/* Bits that a lane of a mask of n lanes has in a vector register of the target, at most `most`. */
static uint32_t mask_width(const tk_llvm_fn *f, uint32_t lanes, uint32_t most) {
    uint32_t width = (f->classes & TK_LEGAL_ON_AVX2 ? 256 : 128) / lanes;
    return width < 8 ? 8 : width > most ? most : width;
}

/* A mask as integers, 0 or all ones a lane. */
static LLVMValueRef widened_mask(tk_llvm_fn *f, LLVMValueRef mask, uint32_t lanes, uint32_t bits) {
    LLVMTypeRef type = LLVMVectorType(LLVMIntTypeInContext(f->lc, bits), lanes);
    return LLVMBuildSExt(f->b, mask, type, "");
}

static LLVMValueRef sign_bits(tk_llvm_fn *f, const char *name, LLVMTypeRef type, LLVMValueRef x) {
    x = LLVMBuildBitCast(f->b, x, type, "");
    return intrinsic(f, name, NULL, 0, &x, 1);
}

/* Lanes [from, from + n) of x, all integers of 8 bits, as the low bits of an i32. */
static LLVMValueRef byte_bits(tk_llvm_fn *f, LLVMValueRef x, uint32_t from, uint32_t n) {
    LLVMTypeRef type = LLVMVectorType(LLVMInt8TypeInContext(f->lc), n);
    x = tk_llvm_build_lanes(f, x, from, n);
    return sign_bits(f, n == 32 ? "llvm.x86.avx2.pmovmskb" : "llvm.x86.sse2.pmovmskb.128", type, x);
}

/* The lanes of a mask as the low bits of an i32, or an i64 if there are 64, where no mask registers
 * are. Asked for by the instructions themselves: LLVM looks for them below a bit cast of a mask, in
 * a time that doubles with each and, or, xor that the mask was made by. */
static LLVMValueRef mask_bits_x86(tk_llvm_fn *f, LLVMValueRef mask, uint32_t lanes) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(f->lc), f64 = LLVMDoubleTypeInContext(f->lc);
    bool avx2 = f->classes & TK_LEGAL_ON_AVX2;
    if (lanes < 8 || (lanes == 8 && avx2)) {
        uint32_t bits = mask_width(f, lanes, 64);
        bool is_64 = bits == 64, is_256 = lanes * bits == 256;
        const char *name = is_64 ? is_256 ? "llvm.x86.avx.movmsk.pd.256" : "llvm.x86.sse2.movmsk.pd"
                           : is_256 ? "llvm.x86.avx.movmsk.ps.256"
                                    : "llvm.x86.sse.movmsk.ps";
        return sign_bits(f, name, LLVMVectorType(is_64 ? f64 : f32, lanes),
                         widened_mask(f, mask, lanes, bits));
    }
    if (lanes == 8) {
        LLVMValueRef words = widened_mask(f, mask, lanes, 16);
        LLVMValueRef both[2] = {words, LLVMConstNull(LLVMTypeOf(words))};
        return byte_bits(f, intrinsic(f, "llvm.x86.sse2.packsswb.128", NULL, 0, both, 2), 0, 16);
    }
    LLVMTypeRef type = LLVMIntTypeInContext(f->lc, lanes == 64 ? 64 : 32);
    LLVMValueRef bytes = widened_mask(f, mask, lanes, 8), all = NULL;
    uint32_t n = avx2 && lanes >= 32 ? 32 : 16;
    for (uint32_t from = 0; from < lanes; from += n) {
        LLVMValueRef part = byte_bits(f, bytes, from, n);
        part = LLVMBuildZExt(f->b, part, type, "");
        part = LLVMBuildShl(f->b, part, LLVMConstInt(type, from, 0), "");
        all = all ? LLVMBuildOr(f->b, all, part, "") : part;
    }
    return all;
}

LLVMValueRef tk_llvm_build_mask(tk_llvm_fn *f, tk_legal_op op, tolk_dtype mask_dtype,
                                LLVMValueRef mask) {
    uint32_t lanes = tolk_dtype_lanes(mask_dtype);
    if (lanes == 1 && op != TK_LEGAL_BITS)
        return mask;
    if (!mask || !legal(f, op, mask_dtype, mask_dtype))
        return NULL;
    if (f->classes & TK_LEGAL_ON_A64)
        return intrinsic_of(f,
                            op == TK_LEGAL_ANY ? "llvm.vector.reduce.or" : "llvm.vector.reduce.and",
                            mask_dtype, &mask, 1);
    bool registers = f->classes & TK_LEGAL_ON_AVX512;
    LLVMValueRef bits = registers
                            ? LLVMBuildBitCast(f->b, mask, LLVMIntTypeInContext(f->lc, lanes), "")
                            : mask_bits_x86(f, mask, lanes);
    LLVMTypeRef type = LLVMTypeOf(bits);
    if (op == TK_LEGAL_ANY)
        return LLVMBuildICmp(f->b, LLVMIntNE, bits, LLVMConstNull(type), "");
    if (op == TK_LEGAL_EVERY) {
        LLVMValueRef all = LLVMConstInt(type, UINT64_MAX >> (64 - lanes), 0);
        return LLVMBuildICmp(f->b, LLVMIntEQ, bits, all, "");
    }
    return lanes == 64 ? bits : LLVMBuildZExt(f->b, bits, LLVMInt64TypeInContext(f->lc), "");
}

/* ---- lanes ---- */

static LLVMValueRef lane_number(const tk_llvm_fn *f, uint32_t lane) {
    return LLVMConstInt(LLVMInt32TypeInContext(f->lc), lane, 0);
}

LLVMValueRef tk_llvm_build_splat(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    if (tolk_dtype_lanes(dtype) == 1)
        return x;
    if (!x || !legal(f, TK_LEGAL_SPLAT, dtype, dtype))
        return NULL;
    LLVMTypeRef type = tk_llvm_build_type(f, dtype);
    uint32_t n = tolk_dtype_lanes(dtype);
    /* A mask register takes its bits from an integer; LLVM would compare a vector of bytes. */
    if (tk_dtype_scalar(dtype) == TOLK_BOOL && n >= 8 && (f->classes & TK_LEGAL_ON_AVX512))
        return LLVMBuildBitCast(f->b, LLVMBuildSExt(f->b, x, LLVMIntTypeInContext(f->lc, n), ""),
                                type, "");
    LLVMTypeRef lanes = LLVMVectorType(LLVMInt32TypeInContext(f->lc), n);
    LLVMValueRef v = LLVMBuildInsertElement(f->b, LLVMGetPoison(type), x, lane_number(f, 0), "");
    return LLVMBuildShuffleVector(f->b, v, LLVMGetPoison(type), LLVMConstNull(lanes), "");
}

LLVMValueRef tk_llvm_build_insert(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef v, LLVMValueRef x,
                                  uint32_t lane) {
    if (!v || !x || !legal(f, TK_LEGAL_INSERT, dtype, dtype))
        return NULL;
    return LLVMBuildInsertElement(f->b, v, x, lane_number(f, lane), "");
}

LLVMValueRef tk_llvm_build_extract(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef v, uint32_t lane) {
    if (tolk_dtype_lanes(dtype) == 1)
        return v;
    if (!v || !legal(f, TK_LEGAL_EXTRACT, dtype, dtype))
        return NULL;
    return LLVMBuildExtractElement(f->b, v, lane_number(f, lane), "");
}

LLVMValueRef tk_llvm_build_shuffle(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef a, LLVMValueRef b,
                                   const uint8_t *lanes, uint32_t n) {
    if (!a || !legal(f, TK_LEGAL_SHUFFLE, dtype, dtype))
        return NULL;
    LLVMValueRef mask[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < n; i++)
        mask[i] = lane_number(f, lanes[i]);
    if (!b)
        b = LLVMGetPoison(tk_llvm_build_type(f, dtype));
    return LLVMBuildShuffleVector(f->b, a, b, LLVMConstVector(mask, n), "");
}

static LLVMValueRef any_shuffle(tk_llvm_fn *f, LLVMValueRef a, LLVMValueRef b, uint32_t from,
                                uint32_t n) {
    LLVMValueRef lane[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < n; i++)
        lane[i] = lane_number(f, from + i);
    return LLVMBuildShuffleVector(f->b, a, b, LLVMConstVector(lane, n), "");
}

LLVMValueRef tk_llvm_build_lanes(tk_llvm_fn *f, LLVMValueRef x, uint32_t from, uint32_t n) {
    if (!x || LLVMGetVectorSize(LLVMTypeOf(x)) == n)
        return x;
    return any_shuffle(f, x, LLVMGetPoison(LLVMTypeOf(x)), from, n);
}

LLVMValueRef tk_llvm_build_joined(tk_llvm_fn *f, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? any_shuffle(f, a, b, 0, 2 * LLVMGetVectorSize(LLVMTypeOf(a))) : NULL;
}

/* ---- memory ---- */

LLVMValueRef tk_llvm_build_address(tk_llvm_fn *f, tolk_dtype element, LLVMValueRef base,
                                   LLVMValueRef index, bool inbounds) {
    if (!base || !index)
        return NULL;
    LLVMTypeRef type = scalar_type(f, tk_llvm_build_memory_dtype(element));
    return inbounds ? LLVMBuildInBoundsGEP2(f->b, type, base, &index, 1, "")
                    : LLVMBuildGEP2(f->b, type, base, &index, 1, "");
}

/* Arrays may begin at any address, so nothing is promised to LLVM. CPUs of today have the same
 * instructions for it; a GPU has not, so there they begin at a multiple of what is accessed. */
enum { ANY_ADDRESS = 1 };

static unsigned alignment(const tk_llvm_fn *f, tolk_dtype dtype) {
    return tk_target_is_gpu(f->target) ? (unsigned)tolk_dtype_bytes(dtype) * tolk_dtype_lanes(dtype)
                                       : ANY_ADDRESS;
}

LLVMValueRef tk_llvm_build_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address) {
    if (!address || !legal(f, TK_LEGAL_LOAD, dtype, dtype))
        return NULL;
    LLVMValueRef x = LLVMBuildLoad2(f->b, tk_llvm_build_type(f, dtype), address, "");
    LLVMSetAlignment(x, alignment(f, dtype));
    return x;
}

LLVMValueRef tk_llvm_build_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                 LLVMValueRef x) {
    if (!address || !x || !legal(f, TK_LEGAL_STORE, dtype, dtype))
        return NULL;
    LLVMValueRef s = LLVMBuildStore(f->b, x, address);
    LLVMSetAlignment(s, alignment(f, dtype));
    return s;
}

LLVMValueRef tk_llvm_build_stream(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                  LLVMValueRef x) {
    if (!address || !x || !legal(f, TK_LEGAL_STREAM, dtype, dtype))
        return NULL;
    unsigned bytes = (unsigned)tolk_dtype_bytes(dtype) * tolk_dtype_lanes(dtype);
    LLVMValueRef s = LLVMBuildStore(f->b, x, address);
    LLVMSetAlignment(s, bytes < 64 ? bytes : 64);
    LLVMValueRef one = LLVMConstInt(LLVMInt32TypeInContext(f->lc), 1, 0);
    LLVMMetadataRef md = LLVMValueAsMetadata(one);
    LLVMSetMetadata(s, LLVMGetMDKindIDInContext(f->lc, "nontemporal", 11),
                    LLVMMetadataAsValue(f->lc, LLVMMDNodeInContext2(f->lc, &md, 1)));
    return s;
}

LLVMValueRef tk_llvm_build_rmw_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                   LLVMValueRef x, bool is_or) {
    if (!address || !x || !legal(f, TK_LEGAL_RMW, dtype, dtype))
        return NULL;
    LLVMAtomicRMWBinOp op = is_or                        ? LLVMAtomicRMWBinOpOr
                            : tolk_dtype_is_float(dtype) ? LLVMAtomicRMWBinOpFAdd
                                                         : LLVMAtomicRMWBinOpAdd;
    return LLVMBuildAtomicRMW(f->b, op, address, x, LLVMAtomicOrderingMonotonic, 0);
}

/* Masked loads and stores without mask registers, as AVX2's instructions: LLVM 19 loses the mask of
 * a piece of llvm.masked.load and .store where it finds out that all of it is false, as in the
 * upper half of a flag that was broadcast and'ed with a constant, and then loads or stores all
 * lanes. x: what to store; NULL: load, `alt` where the mask is not set. */
static LLVMValueRef masked_avx2(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                LLVMValueRef mask, LLVMValueRef x, LLVMValueRef alt) {
    uint32_t lanes = tolk_dtype_lanes(dtype), bits = tk_dtype_bits(tk_dtype_scalar(dtype));
    if (lanes * bits > 256) {
        LLVMValueRef half[2];
        for (uint32_t i = 0, n = lanes / 2; i < 2; i++) {
            tolk_dtype part = tolk_dtype_vec(tk_dtype_scalar(dtype), n);
            LLVMValueRef index = LLVMConstInt(LLVMInt64TypeInContext(f->lc), i * n, 0);
            half[i] = masked_avx2(f, part, tk_llvm_build_address(f, part, address, index, false),
                                  tk_llvm_build_lanes(f, mask, i * n, n),
                                  x ? tk_llvm_build_lanes(f, x, i * n, n) : NULL,
                                  alt ? tk_llvm_build_lanes(f, alt, i * n, n) : NULL);
            if (!half[i])
                return NULL;
        }
        return x ? half[1] : tk_llvm_build_joined(f, half[0], half[1]);
    }
    bool is_float = tolk_dtype_is_float(dtype), is_64 = bits == 64, narrow = lanes * bits == 64;
    LLVMValueRef wide_mask = mask;
    if (narrow) { /* the instructions begin with 128 bits */
        wide_mask = tk_llvm_build_joined(f, mask, LLVMConstNull(LLVMTypeOf(mask)));
        x = x ? tk_llvm_build_joined(f, x, x) : NULL;
    }
    wide_mask = widened_mask(f, wide_mask, narrow ? 2 * lanes : lanes, bits);
    char name[48];
    snprintf(name, sizeof name, "llvm.x86.%s.mask%s.%s%s", is_float ? "avx" : "avx2",
             x ? "store" : "load",
             is_float ? is_64 ? "pd" : "ps"
             : is_64  ? "q"
                      : "d",
             lanes * bits == 256 ? ".256" : "");
    LLVMValueRef args[3] = {address, wide_mask, x};
    LLVMValueRef r = intrinsic(f, name, NULL, 0, args, x ? 3 : 2);
    if (x || !r)
        return r;
    if (narrow)
        r = tk_llvm_build_lanes(f, r, 0, lanes);
    return LLVMBuildSelect(f->b, mask, r, alt, "");
}

/* The four masked intrinsics differ in the order of their arguments. */
static LLVMValueRef masked(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef address,
                           LLVMValueRef mask, LLVMValueRef x) {
    if (!address || !mask || !x || !legal(f, op, dtype, dtype))
        return NULL;
    if ((op == TK_LEGAL_MLOAD || op == TK_LEGAL_MSTORE) && !(f->classes & TK_LEGAL_ON_AVX512) &&
        f->classes & TK_LEGAL_ON_AVX2)
        return op == TK_LEGAL_MLOAD ? masked_avx2(f, dtype, address, mask, NULL, x)
                                    : masked_avx2(f, dtype, address, mask, x, NULL);
    LLVMTypeRef types[2] = {tk_llvm_build_type(f, dtype), LLVMTypeOf(address)};
    LLVMValueRef align = LLVMConstInt(LLVMInt32TypeInContext(f->lc), ANY_ADDRESS, 0);
    LLVMValueRef load[4] = {address, align, mask, x}, store[4] = {x, address, align, mask};
    switch (op) {
    case TK_LEGAL_MLOAD:
        return intrinsic(f, "llvm.masked.load", types, 2, load, 4);
    case TK_LEGAL_GATHER:
        return intrinsic(f, "llvm.masked.gather", types, 2, load, 4);
    case TK_LEGAL_MSTORE:
        return intrinsic(f, "llvm.masked.store", types, 2, store, 4);
    default:
        return intrinsic(f, "llvm.masked.scatter", types, 2, store, 4);
    }
}

LLVMValueRef tk_llvm_build_masked_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                       LLVMValueRef mask, LLVMValueRef alt) {
    return masked(f, TK_LEGAL_MLOAD, dtype, address, mask, alt);
}
LLVMValueRef tk_llvm_build_masked_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                        LLVMValueRef mask, LLVMValueRef x) {
    return masked(f, TK_LEGAL_MSTORE, dtype, address, mask, x);
}
LLVMValueRef tk_llvm_build_gather(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef addresses,
                                  LLVMValueRef mask, LLVMValueRef alt) {
    return masked(f, TK_LEGAL_GATHER, dtype, addresses, mask, alt);
}
LLVMValueRef tk_llvm_build_scatter(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef addresses,
                                   LLVMValueRef mask, LLVMValueRef x) {
    return masked(f, TK_LEGAL_SCATTER, dtype, addresses, mask, x);
}

/* ---- threads of a GPU ---- */

LLVMValueRef tk_llvm_build_gpu(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, const char *name,
                               LLVMValueRef *args, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (!args[i])
            return NULL;
    return legal(f, op, dtype, dtype) ? intrinsic(f, name, NULL, 0, args, n) : NULL;
}

/* LLVM 19 would exchange the word around it, which need not be memory of the buffer. */
static LLVMValueRef cas_b16(tk_llvm_fn *f, LLVMValueRef address, LLVMValueRef old,
                            LLVMValueRef fresh) {
    static const char how[] = "=h,l,h,h,~{memory}";
    bool shared = LLVMGetPointerAddressSpace(LLVMTypeOf(address)) == TK_LLVM_SHARED;
    LLVMValueRef args[3] = {address, old, fresh};
    LLVMTypeRef in[3] = {LLVMTypeOf(address), LLVMTypeOf(old), LLVMTypeOf(fresh)};
    const char *text =
        shared ? "atom.shared.cas.b16 $0, [$1], $2, $3;" : "atom.global.cas.b16 $0, [$1], $2, $3;";
    LLVMTypeRef type = LLVMFunctionType(in[1], in, 3, 0);
    LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), how, sizeof how - 1, true, false,
                                         LLVMInlineAsmDialectATT, false);
    return LLVMBuildCall2(f->b, type, code, args, 3, "");
}

LLVMValueRef tk_llvm_build_cas(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                               LLVMValueRef old, LLVMValueRef fresh) {
    if (!address || !old || !fresh || !legal(f, TK_LEGAL_CAS, dtype, dtype))
        return NULL;
    if ((f->classes & TK_LEGAL_ON_PTX) && tk_dtype_bits(dtype) == 16)
        return cas_b16(f, address, old, fresh);
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(
        f->b, address, old, fresh, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    return LLVMBuildExtractValue(f->b, pair, 0, "");
}

LLVMValueRef tk_llvm_build_atom_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                    LLVMValueRef x) {
    if (!address || !x || !legal(f, TK_LEGAL_ATOM, dtype, dtype))
        return NULL;
    LLVMAtomicRMWBinOp op =
        tolk_dtype_is_float(dtype) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    return LLVMBuildAtomicRMW(f->b, op, address, x, LLVMAtomicOrderingMonotonic, false);
}

/* ---- control ---- */

LLVMBasicBlockRef tk_llvm_build_block(tk_llvm_fn *f, const char *name) {
    return LLVMAppendBasicBlockInContext(f->lc, f->fn, name);
}

void tk_llvm_build_enter(tk_llvm_fn *f, LLVMBasicBlockRef block) {
    LLVMPositionBuilderAtEnd(f->b, block);
}

/* Before the end of a block. LLVM's fast instruction selection, which quick code uses, takes the
 * instructions of a block one by one from its end. For an intrinsic that it does not know (fma,
 * smax ...) it sets up the thorough selection, which costs more than all else about that
 * instruction; where it meets another instruction that it does not know, the thorough one does all
 * the rest of the block at once. Such an instruction is a fence among the signal handlers of a
 * thread, which becomes no code. */
static void end_block(tk_llvm_fn *f) {
    enum { FEW_CALLS = 4, SPARSE = 8 };
    uint32_t calls = f->n_calls, n = 0;
    f->n_calls = 0;
    if (!f->target->quick || f->target->arch != TK_ARCH_X86_64 || calls < FEW_CALLS)
        return;
    for (LLVMValueRef i = LLVMGetFirstInstruction(LLVMGetInsertBlock(f->b));
         i && n < calls * SPARSE; i = LLVMGetNextInstruction(i))
        n++;
    if (n < calls * SPARSE)
        LLVMBuildFence(f->b, LLVMAtomicOrderingAcquireRelease, true, "");
}

void tk_llvm_build_jump(tk_llvm_fn *f, LLVMBasicBlockRef to) {
    end_block(f);
    LLVMBuildBr(f->b, to);
}

void tk_llvm_build_return(tk_llvm_fn *f) {
    end_block(f);
    LLVMBuildRetVoid(f->b);
}

/* So that what is rare is laid out, and spills its registers, away from what is not. */
static void set_odds(tk_llvm_fn *f, LLVMValueRef branch, bool likely) {
    LLVMTypeRef i32 = LLVMInt32TypeInContext(f->lc);
    LLVMMetadataRef parts[3] = {
        LLVMMDStringInContext2(f->lc, "branch_weights", 14),
        LLVMValueAsMetadata(LLVMConstInt(i32, likely ? 4000 : 1, 0)),
        LLVMValueAsMetadata(LLVMConstInt(i32, likely ? 1 : 4000, 0)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(f->lc, parts, 3);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(f->lc, "prof", 4),
                    LLVMMetadataAsValue(f->lc, node));
}

void tk_llvm_build_branch(tk_llvm_fn *f, LLVMValueRef cond, LLVMBasicBlockRef yes,
                          LLVMBasicBlockRef no, tk_llvm_odds odds) {
    if (!cond)
        return;
    end_block(f);
    LLVMValueRef branch = LLVMBuildCondBr(f->b, cond, yes, no);
    if (odds != TK_LLVM_EVEN)
        set_odds(f, branch, odds == TK_LLVM_LIKELY);
}

/* An empty piece of assembly that takes x in a register. */
static void need_here(tk_llvm_fn *f, LLVMValueRef x, const char *constraint) {
    LLVMTypeRef type = LLVMTypeOf(x);
    LLVMTypeRef fn = LLVMFunctionType(LLVMVoidTypeInContext(f->lc), &type, 1, 0);
    LLVMValueRef nothing = LLVMGetInlineAsm(fn, "", 0, constraint, strlen(constraint), true, false,
                                            LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(f->b, fn, nothing, &x, 1, "");
}

void tk_llvm_build_keep(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x) {
    if (!x || !LLVMIsAInstruction(x) || LLVMTypeOf(x) != tk_llvm_build_type(f, dtype))
        return; /* a constant, an argument, an address */
    bool is_bool = tk_dtype_scalar(dtype) == TOLK_BOOL,
         is_float = (tk_llvm_legal_type(dtype) & (TK_LEGAL_F32 | TK_LEGAL_F64)) != 0;
    uint32_t lanes = tolk_dtype_lanes(dtype), bits = is_bool ? 1 : tk_dtype_bits(dtype);
    if (is_bool && lanes > 1 && !(f->classes & TK_LEGAL_ON_AVX512)) {
        bits = mask_width(f, lanes, 32);
        x = widened_mask(f, x, lanes, bits);
        is_bool = false;
    }
    uint32_t widest = f->target->vec_bytes >= 16 ? 8 * f->target->vec_bytes : 128;
    bool gpu = tk_target_is_gpu(f->target);
    const char *vector = f->classes & TK_LEGAL_ON_A64 ? "w" : widest > 256 ? "v" : "x";
    LLVMTypeRef i32 = LLVMInt32TypeInContext(f->lc);
    if (lanes * bits >= 128 && !is_bool && !gpu) {
        /* Each register that the vector takes. */
        uint32_t n = lanes * bits > widest ? widest / bits : lanes;
        for (uint32_t from = 0; from < lanes; from += n)
            need_here(f, tk_llvm_build_lanes(f, x, from, n), vector);
    } else if (lanes == 1 && is_float) {
        need_here(f, x, !gpu ? vector : bits == 32 ? "f" : "d");
    } else {
        if (lanes > 1)
            x = LLVMBuildExtractElement(f->b, x, LLVMConstInt(i32, 0, 0), "");
        if (is_float)
            x = LLVMBuildBitCast(f->b, x, LLVMIntTypeInContext(f->lc, bits), "");
        need_here(f, bits < 32 ? LLVMBuildZExt(f->b, x, i32, "") : x,
                  gpu && bits == 64 ? "l" : "r");
    }
}

LLVMValueRef tk_llvm_build_phi(tk_llvm_fn *f, LLVMTypeRef type, LLVMValueRef a,
                               LLVMBasicBlockRef from_a, LLVMValueRef b, LLVMBasicBlockRef from_b) {
    if (!a || !b)
        return NULL;
    LLVMValueRef phi = LLVMBuildPhi(f->b, type, "");
    LLVMAddIncoming(phi, &a, &from_a, 1);
    LLVMAddIncoming(phi, &b, &from_b, 1);
    return phi;
}

LLVMValueRef tk_llvm_build_exchange(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                    tk_llvm_exchange *x) {
    *x = (tk_llvm_exchange){.dtype = dtype, .address = address};
    x->first = tk_llvm_build_load(f, dtype, address);
    if (!x->first)
        return NULL;
    x->before = LLVMGetInsertBlock(f->b);
    x->again = tk_llvm_build_block(f, "again");
    tk_llvm_build_jump(f, x->again);
    tk_llvm_build_enter(f, x->again);
    return x->old = LLVMBuildPhi(f->b, LLVMTypeOf(x->first), "");
}

void tk_llvm_build_exchange_end(tk_llvm_fn *f, const tk_llvm_exchange *x, LLVMValueRef fresh) {
    LLVMValueRef first = x->first,
                 there = tk_llvm_build_cas(f, x->dtype, x->address, x->old, fresh);
    if (!there)
        return;
    LLVMBasicBlockRef before = x->before, here = LLVMGetInsertBlock(f->b),
                      done = tk_llvm_build_block(f, "exchanged");
    LLVMAddIncoming(x->old, &first, &before, 1);
    LLVMAddIncoming(x->old, &there, &here, 1);
    tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_EQ, x->dtype, there, x->old), done,
                         x->again, TK_LLVM_LIKELY);
    tk_llvm_build_enter(f, done);
}

LLVMValueRef tk_llvm_build_stack(tk_llvm_fn *f, uint32_t bytes) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->b);
    LLVMValueRef first = LLVMGetFirstInstruction(f->entry);
    if (first)
        LLVMPositionBuilderBefore(f->b, first);
    else
        LLVMPositionBuilderAtEnd(f->b, f->entry);
    LLVMValueRef slot =
        LLVMBuildAlloca(f->b, LLVMArrayType2(LLVMInt8TypeInContext(f->lc), bytes), "");
    LLVMSetAlignment(slot, 16);
    LLVMPositionBuilderAtEnd(f->b, here);
    return slot;
}
