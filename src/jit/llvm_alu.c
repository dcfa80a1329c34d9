/* SPDX-License-Identifier: MIT
 *
 * No operation traps, and none yields poison that could reach a value: over-wide shifts are chosen
 * away by a select, divisors are made harmless before the division, whatever LLVM speculates.
 * No flag that lets LLVM assume anything (nsw, nuw, exact, fast-math) is ever set.
 */
#include "jit/llvm_alu.h"

#include "ir/dtype.h"
#include "jit/llvm_cast.h"

/* ---- integers ---- */

/* The constant that x is in every lane; false if it is none. */
static bool is_splat_const(const tolk_uop *x, uint64_t *bits) {
    if (tk_uop_is(x, TK_OP_STACK) && tk_uop_lanes(x) > 1) {
        for (uint32_t i = 1; i < x->n_src; i++)
            if (x->src[i] != x->src[0])
                return false;
        x = x->src[0];
    }
    if (!tk_uop_is_const(x))
        return false;
    *bits = tk_uop_bits(x);
    return true;
}

/* A scalar FMAXIMUM becomes branches, and MachineSink takes time with the square of their number;
 * selects by a comparison of floats become none. */
static LLVMValueRef scalar_maximum(tk_llvm_fn *f, tolk_dtype dt, LLVMValueRef a, LLVMValueRef b) {
    tolk_dtype bits = tk_dtype_bits(dt) == 32 ? TOLK_U32 : TOLK_U64;
    LLVMValueRef both = tk_llvm_build_bin(f, TK_LEGAL_AND, bits, tk_llvm_cast_bits(f, dt, bits, a),
                                          tk_llvm_cast_bits(f, dt, bits, b));
    LLVMValueRef less = tk_llvm_build_bin(f, TK_LEGAL_FOLT, dt, a, b);
    LLVMValueRef r = tk_llvm_build_select(f, dt, less, b, a);
    LLVMValueRef equal = tk_llvm_build_bin(f, TK_LEGAL_FOEQ, dt, a, b);
    r = tk_llvm_build_select(f, dt, equal, tk_llvm_cast_bits(f, bits, dt, both), r); /* -0 < +0 */
    r = tk_llvm_build_select(f, dt, tk_llvm_build_bin(f, TK_LEGAL_FUNE, dt, a, a), a, r);
    return tk_llvm_build_select(f, dt, tk_llvm_build_bin(f, TK_LEGAL_FUNE, dt, b, b), b, r);
}

/* Counts are unsigned, of the dtype of the value or u32; too large ones shift everything out. */
static LLVMValueRef shift(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt, LLVMValueRef x,
                          LLVMValueRef count) {
    tolk_dtype count_dt = tk_dtype_like(u->src[1]->dtype, dt);
    uint32_t width = tk_dtype_bits(dt);
    bool left = tk_uop_is(u, TK_OP_SHL), arithmetic = !left && tk_dtype_is_signed(dt);
    tk_legal_op op = left ? TK_LEGAL_SHL : arithmetic ? TK_LEGAL_ASHR : TK_LEGAL_LSHR;
    uint64_t c;
    if (is_splat_const(u->src[1], &c)) {
        if (c >= width && !arithmetic)
            return tk_llvm_build_zero(f, dt);
        c = c >= width ? width - 1 : c;
        return tk_llvm_build_bin(f, op, dt, x, tk_llvm_build_const(f, dt, c));
    }
    LLVMValueRef limit = tk_llvm_build_const(f, count_dt, width);
    LLVMValueRef fits = tk_llvm_build_bin(f, TK_LEGAL_ULT, count_dt, count, limit);
    if (arithmetic)
        count = tk_llvm_build_bin(f, TK_LEGAL_UMIN, count_dt, count,
                                  tk_llvm_build_const(f, count_dt, width - 1));
    uint32_t count_width = tk_dtype_bits(count_dt);
    if (count_width != width)
        count = tk_llvm_build_convert(f, count_width > width ? TK_LEGAL_TRUNC : TK_LEGAL_ZEXT,
                                      count_dt, dt, count);
    LLVMValueRef r = tk_llvm_build_bin(f, op, dt, x, count);
    return arithmetic ? r : tk_llvm_build_select(f, dt, fits, r, tk_llvm_build_zero(f, dt));
}

typedef struct division {
    LLVMValueRef quotient, remainder; /* toward zero; by 0: 0 and the dividend */
} division;

/* By a constant that is neither 0 nor -1: the code generator multiplies. */
static division divide_const(tk_llvm_fn *f, tolk_dtype dt, LLVMValueRef a, uint64_t c) {
    LLVMValueRef b = tk_llvm_build_const(f, dt, c);
    division d;
    d.quotient =
        tk_llvm_build_bin(f, tk_dtype_is_signed(dt) ? TK_LEGAL_SDIV : TK_LEGAL_UDIV, dt, a, b);
    d.remainder = tk_llvm_build_bin(f, TK_LEGAL_SUB, dt, a,
                                    tk_llvm_build_bin(f, TK_LEGAL_MUL, dt, d.quotient, b));
    return d;
}

static division divide(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt, LLVMValueRef a,
                       LLVMValueRef b) {
    tolk_dtype mask = tk_dtype_like(TOLK_BOOL, dt);
    bool is_signed = tk_dtype_is_signed(dt);
    uint64_t c;
    if (is_splat_const(u->src[1], &c) && c != 0 && !(is_signed && c == UINT64_MAX))
        return divide_const(f, dt, a, c);
    LLVMValueRef zero = tk_llvm_build_zero(f, dt);
    LLVMValueRef by_zero = tk_llvm_build_bin(f, TK_LEGAL_EQ, dt, b, zero), harmful = by_zero;
    if (is_signed) { /* MIN / -1 is MIN / 1, and leaves as much */
        LLVMValueRef least =
            tk_llvm_build_const(f, dt, (uint64_t)tk_dtype_min(tk_dtype_scalar(dt)));
        LLVMValueRef minus_one = tk_llvm_build_const(f, dt, UINT64_MAX);
        LLVMValueRef wraps = tk_llvm_build_bin(f, TK_LEGAL_AND, mask,
                                               tk_llvm_build_bin(f, TK_LEGAL_EQ, dt, a, least),
                                               tk_llvm_build_bin(f, TK_LEGAL_EQ, dt, b, minus_one));
        harmful = tk_llvm_build_bin(f, TK_LEGAL_OR, mask, by_zero, wraps);
    }
    LLVMValueRef safe = tk_llvm_build_select(f, dt, harmful, tk_llvm_build_const(f, dt, 1), b);
    division d;
    d.quotient = tk_llvm_build_bin(f, is_signed ? TK_LEGAL_SDIV : TK_LEGAL_UDIV, dt, a, safe);
    d.remainder = tk_llvm_build_bin(f, is_signed ? TK_LEGAL_SREM : TK_LEGAL_UREM, dt, a, safe);
    d.quotient = tk_llvm_build_select(f, dt, by_zero, zero, d.quotient);
    d.remainder = tk_llvm_build_select(f, dt, by_zero, a, d.remainder);
    return d;
}

/* Down: one less where there is a remainder of another sign than the divisor's. */
static LLVMValueRef floor_divide(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt, LLVMValueRef a,
                                 LLVMValueRef b) {
    tolk_dtype mask = tk_dtype_like(TOLK_BOOL, dt);
    bool quotient = tk_uop_is(u, TK_OP_FLOORDIV);
    division d = divide(f, u, dt, a, b);
    if (!tk_dtype_is_signed(dt))
        return quotient ? d.quotient : d.remainder;
    LLVMValueRef zero = tk_llvm_build_zero(f, dt);
    LLVMValueRef rest = tk_llvm_build_bin(f, TK_LEGAL_NE, dt, d.remainder, zero);
    LLVMValueRef signs = tk_llvm_build_bin(f, TK_LEGAL_XOR, dt, d.remainder, b);
    LLVMValueRef differ = tk_llvm_build_bin(f, TK_LEGAL_SLT, dt, signs, zero);
    LLVMValueRef by_zero = tk_llvm_build_bin(f, TK_LEGAL_EQ, dt, b, zero);
    LLVMValueRef fix = tk_llvm_build_bin(f, TK_LEGAL_AND, mask, rest, differ);
    fix = tk_llvm_build_bin(f, TK_LEGAL_AND, mask, fix, tk_llvm_build_not(f, mask, by_zero));
    if (quotient)
        return tk_llvm_build_select(
            f, dt, fix,
            tk_llvm_build_bin(f, TK_LEGAL_SUB, dt, d.quotient, tk_llvm_build_const(f, dt, 1)),
            d.quotient);
    return tk_llvm_build_select(f, dt, fix, tk_llvm_build_bin(f, TK_LEGAL_ADD, dt, d.remainder, b),
                                d.remainder);
}

static LLVMValueRef int_op(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt, const LLVMValueRef *s) {
    bool is_signed = tk_dtype_is_signed(dt);
    switch (tk_uop_op(u)) {
    case TK_OP_NEG:
        return tk_llvm_build_bin(f, TK_LEGAL_SUB, dt, tk_llvm_build_zero(f, dt), s[0]);
    case TK_OP_ADD:
        return tk_llvm_build_bin(f, TK_LEGAL_ADD, dt, s[0], s[1]);
    case TK_OP_SUB:
        return tk_llvm_build_bin(f, TK_LEGAL_SUB, dt, s[0], s[1]);
    case TK_OP_MUL:
        return tk_llvm_build_bin(f, TK_LEGAL_MUL, dt, s[0], s[1]);
    case TK_OP_MULACC:
        return tk_llvm_build_bin(f, TK_LEGAL_ADD, dt,
                                 tk_llvm_build_bin(f, TK_LEGAL_MUL, dt, s[0], s[1]), s[2]);
    case TK_OP_MAX:
        return tk_llvm_build_bin(f, is_signed ? TK_LEGAL_SMAX : TK_LEGAL_UMAX, dt, s[0], s[1]);
    case TK_OP_CDIV:
        return divide(f, u, dt, s[0], s[1]).quotient;
    case TK_OP_CMOD:
        return divide(f, u, dt, s[0], s[1]).remainder;
    case TK_OP_FLOORDIV:
    case TK_OP_FLOORMOD:
        return floor_divide(f, u, dt, s[0], s[1]);
    case TK_OP_SHL:
    case TK_OP_SHR:
        return shift(f, u, dt, s[0], s[1]);
    case TK_OP_AND:
        return tk_llvm_build_bin(f, TK_LEGAL_AND, dt, s[0], s[1]);
    case TK_OP_OR:
        return tk_llvm_build_bin(f, TK_LEGAL_OR, dt, s[0], s[1]);
    case TK_OP_XOR:
        return tk_llvm_build_bin(f, TK_LEGAL_XOR, dt, s[0], s[1]);
    case TK_OP_CMPLT:
        return tk_llvm_build_bin(f, is_signed ? TK_LEGAL_SLT : TK_LEGAL_ULT, dt, s[0], s[1]);
    case TK_OP_CMPNE:
        return tk_llvm_build_bin(f, TK_LEGAL_NE, dt, s[0], s[1]);
    case TK_OP_CMPEQ:
        return tk_llvm_build_bin(f, TK_LEGAL_EQ, dt, s[0], s[1]);
    default:
        return tk_llvm_build_unsupported(f, tk_op_get(tk_uop_op(u))->name, u->dtype);
    }
}

static LLVMValueRef bool_op(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt,
                            const LLVMValueRef *s) {
    switch (tk_uop_op(u)) {
    case TK_OP_ADD:
    case TK_OP_MAX:
    case TK_OP_OR:
        return tk_llvm_build_bin(f, TK_LEGAL_OR, dt, s[0], s[1]);
    case TK_OP_MUL:
    case TK_OP_AND:
        return tk_llvm_build_bin(f, TK_LEGAL_AND, dt, s[0], s[1]);
    case TK_OP_XOR:
    case TK_OP_CMPNE:
        return tk_llvm_build_bin(f, TK_LEGAL_XOR, dt, s[0], s[1]);
    case TK_OP_CMPEQ:
        return tk_llvm_build_not(f, dt, tk_llvm_build_bin(f, TK_LEGAL_XOR, dt, s[0], s[1]));
    case TK_OP_CMPLT:
        return tk_llvm_build_bin(f, TK_LEGAL_AND, dt, tk_llvm_build_not(f, dt, s[0]), s[1]);
    default:
        return tk_llvm_build_unsupported(f, tk_op_get(tk_uop_op(u))->name, u->dtype);
    }
}

/* ---- floats ---- */

/* Without an instruction: through integers where the number has a fraction at all, which is below
 * 2^23 or 2^52; the sign comes back because -0.5 gives -0. Larger ones, inf and NaN stay. */
static LLVMValueRef trunc_by_int(tk_llvm_fn *f, tolk_dtype dt, LLVMValueRef x) {
    bool f32 = tk_dtype_bits(dt) == 32;
    tolk_dtype ints = tk_dtype_like(f32 ? TOLK_I32 : TOLK_I64, dt);
    LLVMValueRef sign_bit =
        tk_llvm_build_const(f, ints, (uint64_t)tk_dtype_min(tk_dtype_scalar(ints)));
    LLVMValueRef bits = tk_llvm_build_convert(f, TK_LEGAL_BITCAST, dt, ints, x);
    LLVMValueRef sign = tk_llvm_build_bin(f, TK_LEGAL_AND, ints, bits, sign_bit);
    LLVMValueRef size = tk_llvm_build_bin(f, TK_LEGAL_XOR, ints, bits, sign);
    size = tk_llvm_build_convert(f, TK_LEGAL_BITCAST, ints, dt, size);
    LLVMValueRef limit = tk_llvm_build_const(f, dt, f32 ? 0x4b000000 : 0x4330000000000000);
    LLVMValueRef has_fraction = tk_llvm_build_bin(f, TK_LEGAL_FOLT, dt, size, limit);
    LLVMValueRef r = tk_llvm_build_select(f, dt, has_fraction, size, tk_llvm_build_zero(f, dt));
    r = tk_llvm_build_convert(f, TK_LEGAL_FPTOSI, dt, ints, r);
    r = tk_llvm_build_convert(f, TK_LEGAL_SITOFP, ints, dt, r);
    r = tk_llvm_build_convert(f, TK_LEGAL_BITCAST, dt, ints, r);
    r = tk_llvm_build_bin(f, TK_LEGAL_OR, ints, r, sign);
    r = tk_llvm_build_convert(f, TK_LEGAL_BITCAST, ints, dt, r);
    return tk_llvm_build_select(f, dt, has_fraction, r, x);
}

static LLVMValueRef float_op(tk_llvm_fn *f, const tolk_uop *u, tolk_dtype dt,
                             const LLVMValueRef *s) {
    switch (tk_uop_op(u)) {
    case TK_OP_NEG:
        return tk_llvm_build_un(f, TK_LEGAL_FNEG, dt, s[0]);
    case TK_OP_SQRT:
        return tk_llvm_build_un(f, TK_LEGAL_FSQRT, dt, s[0]);
    case TK_OP_TRUNC:
        return tk_llvm_build_has(f, TK_LEGAL_FTRUNC, dt)
                   ? tk_llvm_build_un(f, TK_LEGAL_FTRUNC, dt, s[0])
                   : trunc_by_int(f, dt, s[0]);
    case TK_OP_RECIPROCAL: {
        uint64_t one = tk_dtype_bits(dt) == 32 ? 0x3f800000 : 0x3ff0000000000000;
        return tk_llvm_build_bin(f, TK_LEGAL_FDIV, dt, tk_llvm_build_const(f, dt, one), s[0]);
    }
    case TK_OP_ADD:
        return tk_llvm_build_bin(f, TK_LEGAL_FADD, dt, s[0], s[1]);
    case TK_OP_SUB:
        return tk_llvm_build_bin(f, TK_LEGAL_FSUB, dt, s[0], s[1]);
    case TK_OP_MUL:
        return tk_llvm_build_bin(f, TK_LEGAL_FMUL, dt, s[0], s[1]);
    case TK_OP_FDIV:
        return tk_llvm_build_bin(f, TK_LEGAL_FDIV, dt, s[0], s[1]);
    case TK_OP_MAX:
        return f->is_large && tolk_dtype_lanes(dt) == 1
                   ? scalar_maximum(f, dt, s[0], s[1])
                   : tk_llvm_build_bin(f, TK_LEGAL_FMAXIMUM, dt, s[0], s[1]);
    case TK_OP_MULACC:
        return tk_llvm_build_ter(f, TK_LEGAL_FMA, dt, s[0], s[1], s[2]);
    case TK_OP_CMPLT:
        return tk_llvm_build_bin(f, TK_LEGAL_FOLT, dt, s[0], s[1]);
    case TK_OP_CMPNE:
        return tk_llvm_build_bin(f, TK_LEGAL_FUNE, dt, s[0], s[1]);
    case TK_OP_CMPEQ:
        return tk_llvm_build_bin(f, TK_LEGAL_FOEQ, dt, s[0], s[1]);
    default:
        return tk_llvm_build_unsupported(f, tk_op_get(tk_uop_op(u))->name, u->dtype);
    }
}

/* ---- all ---- */

LLVMValueRef tk_llvm_alu(tk_llvm_fn *f, const tolk_uop *u, uint32_t lanes, const LLVMValueRef *s) {
    for (uint32_t i = 0; i < u->n_src; i++) {
        if (!s[i])
            return NULL;
        if (!tk_llvm_legal_type(u->src[i]->dtype))
            return tk_llvm_build_unsupported(f, tk_op_get(tk_uop_op(u))->name, u->src[i]->dtype);
    }
    if (tk_uop_is(u, TK_OP_WHERE))
        return tk_llvm_build_select(f, tk_llvm_wide_piece(u->dtype, lanes), s[0], s[1], s[2]);
    tolk_dtype dt = tk_llvm_wide_piece(u->src[0]->dtype, lanes);
    if (tolk_dtype_is_float(dt))
        return float_op(f, u, dt, s);
    return tk_dtype_scalar(dt) == TOLK_BOOL ? bool_op(f, u, dt, s) : int_op(f, u, dt, s);
}
