/* SPDX-License-Identifier: MIT
 *
 * The table llvm_legal.def as data. Types are dtypes: bool is a lane of a mask (i1), index and i64
 * are one type, and so are signed and unsigned integers.
 */
#ifndef TK_JIT_LLVM_LEGAL_H
#define TK_JIT_LLVM_LEGAL_H

#include "jit/target.h"

#include <tolk/dtype.h>

typedef enum tk_legal_op {
#define TK_LEGAL(OP, ...) TK_LEGAL_##OP,
#include "jit/llvm_legal.def"
} tk_legal_op;
enum { TK_LEGAL_COUNT = TK_LEGAL_CAS + 1 };

typedef enum tk_legal_form {
    TK_FORM_UN,
    TK_FORM_BIN,
    TK_FORM_TER,
    TK_FORM_CMP,
    TK_FORM_SEL,
    TK_FORM_CONV,
    TK_FORM_MASK,
    TK_FORM_LANE,
    TK_FORM_MEM,
    TK_FORM_GPU
} tk_legal_form;

/* Sets of element types. */
enum {
    TK_LEGAL_I1 = 1,
    TK_LEGAL_I8 = 2,
    TK_LEGAL_I16 = 4,
    TK_LEGAL_I32 = 8,
    TK_LEGAL_I64 = 16,
    TK_LEGAL_F32 = 32,
    TK_LEGAL_F64 = 64
};

/* Sets of target classes. */
enum {
    TK_LEGAL_ON_SSE2 = 1, /* and nothing better */
    TK_LEGAL_ON_SSE41 = 2,
    TK_LEGAL_ON_AVX2 = 4,
    TK_LEGAL_ON_AVX512 = 8,
    TK_LEGAL_ON_A64 = 16,
    TK_LEGAL_ON_FMA = 32, /* beside one of the others */
    TK_LEGAL_ON_PTX = 64,
    TK_LEGAL_ON_F16C = 128 /* beside AVX2 or AVX512 */
};

typedef struct tk_legal_row {
    tk_legal_op op;
    const char *name;
    tk_legal_form form;
    uint8_t types, results;
    uint8_t lo, hi; /* lanes */
    uint8_t targets;
    uint8_t ptx; /* most lanes there */
} tk_legal_row;

/* All rows; *n is their number. */
const tk_legal_row *tk_llvm_legal_rows(uint32_t *n);
const char *tk_llvm_legal_name(tk_legal_op op);
/* What a target is: one of SSE2 .. A64, and FMA and F16C if it has them; or PTX. */
uint8_t tk_llvm_legal_classes(const tk_target *target);
/* The element type as a set of one; 0 if LLVM is never given such values. f16 is I16, its code:
 * what moves values is legal of it, and the two conversions. */
uint8_t tk_llvm_legal_type(tolk_dtype dtype);
/* May op be built? from: dtype with lanes of the operands; to: of the result, looked at for
 * conversions only, which also must make sense: narrower, wider or as wide as op says. */
bool tk_llvm_legal(uint8_t classes, tk_legal_op op, tolk_dtype from, tolk_dtype to);

#endif
