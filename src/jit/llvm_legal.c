/* SPDX-License-Identifier: MIT */
#include "jit/llvm_legal.h"

#include "ir/dtype.h"

#include <string.h>

enum {
    I1 = TK_LEGAL_I1,
    I8 = TK_LEGAL_I8,
    I16 = TK_LEGAL_I16,
    I32 = TK_LEGAL_I32,
    I64 = TK_LEGAL_I64,
    F32 = TK_LEGAL_F32,
    F64 = TK_LEGAL_F64,
    INTS = I8 | I16 | I32 | I64,
    FLOATS = F32 | F64,

    AVX512 = TK_LEGAL_ON_AVX512,
    AVX2 = AVX512 | TK_LEGAL_ON_AVX2,
    SSE41 = AVX2 | TK_LEGAL_ON_SSE41,
    X86 = SSE41 | TK_LEGAL_ON_SSE2,
    A64 = TK_LEGAL_ON_A64,
    FMA = TK_LEGAL_ON_FMA,
    F16C = TK_LEGAL_ON_F16C,
    ALL = X86 | A64
};

static const tk_legal_row rows[] = {
#define TK_LEGAL(OP, form, types, results, lo, hi, targets, ptx)                                   \
    {TK_LEGAL_##OP, #OP, TK_FORM_##form, types, results, lo, hi, targets, ptx},
#define TK_LEGAL_MORE TK_LEGAL
#include "jit/llvm_legal.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const tk_legal_row *tk_llvm_legal_rows(uint32_t *n) {
    *n = N_ROWS;
    return rows;
}

/* Rows are in the order of ops with further rows between: the first row of an op is at its number
 * or a little behind. */
static const tk_legal_row *first_row(tk_legal_op op) {
    uint32_t i = (uint32_t)op;
    while (rows[i].op != op)
        i++;
    return &rows[i];
}

const char *tk_llvm_legal_name(tk_legal_op op) {
    return first_row(op)->name;
}

uint8_t tk_llvm_legal_classes(const tk_target *target) {
    if (tk_target_is_gpu(target))
        return TK_LEGAL_ON_PTX;
    uint8_t more = target->fma ? TK_LEGAL_ON_FMA : 0;
    more |= target->f16c ? TK_LEGAL_ON_F16C : 0;
    if (target->arch == TK_ARCH_AARCH64)
        return more | TK_LEGAL_ON_A64;
    if (target->avx512)
        return more | TK_LEGAL_ON_AVX512;
    if (target->avx2)
        return more | TK_LEGAL_ON_AVX2;
    return more | (strstr(target->features, "+sse4.1") ? TK_LEGAL_ON_SSE41 : TK_LEGAL_ON_SSE2);
}

uint8_t tk_llvm_legal_type(tolk_dtype dtype) {
    switch (tk_dtype_scalar(dtype)) {
    case TOLK_BOOL:
        return I1;
    case TOLK_I8:
    case TOLK_U8:
        return I8;
    case TOLK_I16:
    case TOLK_U16:
    case TOLK_F16:
        return I16;
    case TOLK_I32:
    case TOLK_U32:
        return I32;
    case TOLK_I64:
    case TOLK_U64:
    case TOLK_INDEX:
        return I64;
    case TOLK_F32:
        return F32;
    case TOLK_F64:
        return F64;
    default:
        return 0;
    }
}

static uint32_t width(tolk_dtype dtype) {
    return tk_dtype_scalar(dtype) == TOLK_BOOL ? 1 : tk_dtype_bits(dtype);
}

static bool widths_fit(tk_legal_op op, uint32_t from, uint32_t to) {
    switch (op) {
    case TK_LEGAL_TRUNC:
        return to < from;
    case TK_LEGAL_ZEXT:
    case TK_LEGAL_SEXT:
        return to > from;
    case TK_LEGAL_BITCAST:
        return to == from;
    default:
        return true;
    }
}

bool tk_llvm_legal(uint8_t classes, tk_legal_op op, tolk_dtype from, tolk_dtype to) {
    uint8_t type = tk_llvm_legal_type(from), result = tk_llvm_legal_type(to);
    uint32_t lanes = tolk_dtype_lanes(from);
    if (op == TK_LEGAL_RMW && tk_dtype_scalar(from) == TOLK_F16)
        return false; /* codes do not add up as integers do */
    for (const tk_legal_row *r = first_row(op); r < rows + N_ROWS && r->op == op; r++) {
        bool there = classes & TK_LEGAL_ON_PTX
                         ? lanes <= r->ptx && lanes * tk_dtype_bits(from) <= 128
                         : lanes <= r->hi && (r->targets & classes);
        there &= lanes >= r->lo;
        if (!(r->types & type) || !there)
            continue;
        if (r->form != TK_FORM_CONV)
            return true;
        if ((r->results & result) && tolk_dtype_lanes(to) == lanes &&
            widths_fit(op, width(from), width(to)))
            return true;
    }
    return false;
}
