/* SPDX-License-Identifier: MIT
 *
 * LLVM's own conversions to integers are undefined for what does not fit, and its saturating ones
 * are taken apart lane by lane where vectors would do: the operand is brought into range first.
 */
#include "jit/llvm_cast.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

#include <string.h>

static bool is_bool(tolk_dtype dtype) {
    return tk_dtype_scalar(dtype) == TOLK_BOOL;
}

static tolk_dtype mask_of(tolk_dtype dtype) {
    return tk_dtype_like(TOLK_BOOL, dtype);
}

/* A power of two, or one less, which the float dtype holds. */
static LLVMValueRef float_const(const tk_llvm_fn *f, tolk_dtype dtype, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits = tk_scalar_cast(TOLK_F64, tk_dtype_scalar(dtype), bits);
    return tk_llvm_build_const(f, dtype, bits);
}

/* Toward zero, held at the ends of the dtype, NaN 0.
 *
 * Up to 16 bits: clamped as a float (both ends are floats), through i32. From 32 bits on: what is
 * out of range is converted as 0 and replaced after. */
static LLVMValueRef narrow_int(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    uint32_t bits = tk_dtype_bits(to);
    bool is_signed = tk_dtype_is_signed(to);
    double lo = is_signed ? -(double)(1 << (bits - 1)) : 0;
    double hi = is_signed ? (double)((1 << (bits - 1)) - 1) : (double)((1 << bits) - 1);
    LLVMValueRef zero = tk_llvm_build_zero(f, from), l = float_const(f, from, lo),
                 h = float_const(f, from, hi);
    if (is_signed) {
        x = tk_llvm_build_select(f, from, tk_llvm_build_bin(f, TK_LEGAL_FUNE, from, x, x), zero, x);
        x = tk_llvm_build_select(f, from, tk_llvm_build_bin(f, TK_LEGAL_FOLT, from, x, l), l, x);
    } else {
        x = tk_llvm_build_select(f, from, tk_llvm_build_bin(f, TK_LEGAL_FOGT, from, x, zero), x,
                                 zero);
    }
    x = tk_llvm_build_select(f, from, tk_llvm_build_bin(f, TK_LEGAL_FOGT, from, x, h), h, x);
    tolk_dtype i32 = tk_dtype_like(TOLK_I32, from);
    return tk_llvm_build_convert(f, TK_LEGAL_TRUNC, i32, to,
                                 tk_llvm_build_convert(f, TK_LEGAL_FPTOSI, from, i32, x));
}

static LLVMValueRef wide_int(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    uint32_t bits = tk_dtype_bits(to);
    bool is_signed = tk_dtype_is_signed(to);
    double end =
        is_signed ? (double)((uint64_t)1 << (bits - 1)) : 2.0 * (double)((uint64_t)1 << (bits - 1));
    tolk_dtype mask = mask_of(from);
    LLVMValueRef zero = tk_llvm_build_zero(f, from), e = float_const(f, from, end);
    LLVMValueRef below = tk_llvm_build_bin(f, TK_LEGAL_FOLT, from, x, e), under = NULL, r;
    if (is_signed) {
        LLVMValueRef least = float_const(f, from, -end);
        LLVMValueRef above = tk_llvm_build_bin(f, TK_LEGAL_FOGE, from, x, least);
        LLVMValueRef in = tk_llvm_build_bin(f, TK_LEGAL_AND, mask, below, above);
        under = tk_llvm_build_bin(f, TK_LEGAL_FOLT, from, x, least);
        r = tk_llvm_build_select(f, from, in, x, zero);
        r = tk_llvm_build_convert(f, TK_LEGAL_FPTOSI, from, to, r);
    } else {
        LLVMValueRef above = tk_llvm_build_bin(f, TK_LEGAL_FOGT, from, x, zero);
        LLVMValueRef in = tk_llvm_build_bin(f, TK_LEGAL_AND, mask, below, above);
        r = tk_llvm_build_select(f, from, in, x, zero);
        r = tk_llvm_build_convert(f, TK_LEGAL_FPTOUI, from, to, r);
    }
    uint64_t most = UINT64_MAX >> (64 - bits) >> (is_signed ? 1 : 0);
    LLVMValueRef over = tk_llvm_build_bin(f, TK_LEGAL_FOGE, from, x, e);
    r = tk_llvm_build_select(f, to, over, tk_llvm_build_const(f, to, most), r);
    if (under)
        r = tk_llvm_build_select(f, to, under, tk_llvm_build_const(f, to, most + 1), r);
    return r;
}

static LLVMValueRef from_float(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    if (is_bool(to))
        return tk_llvm_build_bin(f, TK_LEGAL_FUNE, from, x, tk_llvm_build_zero(f, from));
    if (tk_dtype_scalar(from) == TOLK_F16 || tk_dtype_scalar(to) == TOLK_F16)
        return tk_llvm_build_convert(
            f, tk_dtype_scalar(from) == TOLK_F16 ? TK_LEGAL_HALFEXT : TK_LEGAL_HALFTRUNC, from, to,
            x);
    if (tolk_dtype_is_float(to))
        return tk_llvm_build_convert(
            f, tk_dtype_bits(to) > tk_dtype_bits(from) ? TK_LEGAL_FPEXT : TK_LEGAL_FPTRUNC, from,
            to, x);
    return tk_dtype_bits(to) < 32 ? narrow_int(f, from, to, x) : wide_int(f, from, to, x);
}

static LLVMValueRef from_int(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    if (tolk_dtype_is_float(to))
        return tk_llvm_build_convert(
            f, tk_dtype_is_signed(from) ? TK_LEGAL_SITOFP : TK_LEGAL_UITOFP, from, to, x);
    if (is_bool(to))
        return tk_llvm_build_bin(f, TK_LEGAL_NE, from, x, tk_llvm_build_zero(f, from));
    uint32_t a = is_bool(from) ? 1 : tk_dtype_bits(from), b = tk_dtype_bits(to);
    if (a == b)
        return x;
    tk_legal_op op = b < a                      ? TK_LEGAL_TRUNC
                     : tk_dtype_is_signed(from) ? TK_LEGAL_SEXT
                                                : TK_LEGAL_ZEXT;
    return tk_llvm_build_convert(f, op, from, to, x);
}

static bool known(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to) {
    tolk_dtype odd = !tk_llvm_legal_type(from) ? from : !tk_llvm_legal_type(to) ? to : TOLK_VOID;
    if (odd == TOLK_VOID)
        return true;
    tk_llvm_build_unsupported(f, "cast", odd);
    return false;
}

LLVMValueRef tk_llvm_cast(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    if (!known(f, from, to))
        return NULL;
    if (from == to)
        return x;
    return tolk_dtype_is_float(from) ? from_float(f, from, to, x) : from_int(f, from, to, x);
}

LLVMValueRef tk_llvm_cast_bits(tk_llvm_fn *f, tolk_dtype from, tolk_dtype to, LLVMValueRef x) {
    if (!known(f, from, to))
        return NULL;
    if (from == to)
        return x;
    if (is_bool(from) || is_bool(to)) /* a byte in memory, 0 or 1 once it is a bool */
        return tk_llvm_cast(f, from, to, x);
    bool same = tolk_dtype_is_float(from) == tolk_dtype_is_float(to) ||
                tk_dtype_bits(from) == 16; /* a code is the integer */
    return same ? x : tk_llvm_build_convert(f, TK_LEGAL_BITCAST, from, to, x);
}
