/* SPDX-License-Identifier: MIT
 *
 * math.def as IR: the same bodies as mathfn_eval.c, but every value is a node and every step makes
 * one. Nothing is checked on the way: a failed builder gives NULL, takes NULL, and leaves its error
 * in the graph.
 */
#include "ir/mathfn.h"

#include "ir/uop.h"

#include <math.h>
#include <string.h>

typedef struct builder {
    tolk_graph *graph;
    uint32_t lanes;
    bool fma;
} builder;

typedef const tolk_uop *node;
typedef node F32;
typedef node F64;
typedef node I32;
typedef node I64;
typedef node B;

static node splat(builder *m, node scalar) {
    return scalar ? tk_uop_splat(m->graph, scalar, m->lanes) : NULL;
}

static node const_f32(builder *m, float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return splat(m, tk_uop_const(m->graph, TOLK_F32, u));
}

static node const_f64(builder *m, double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return splat(m, tk_uop_const(m->graph, TOLK_F64, u));
}

static node const_int(builder *m, tolk_dtype dtype, int64_t v) {
    return splat(m, tk_uop_const(m->graph, dtype, (uint64_t)v));
}

static node op1(builder *m, tk_op op, node a) {
    return a ? tk_uop1(m->graph, op, a) : NULL;
}

static node op2(builder *m, tk_op op, node a, node b) {
    return a && b ? tk_uop2(m->graph, op, a, b) : NULL;
}

static node op3(builder *m, tk_op op, node a, node b, node c) {
    return a && b && c ? tk_uop3(m->graph, op, a, b, c) : NULL;
}

static node cast(builder *m, node a, tolk_dtype dtype) {
    return a ? tk_uop_cast(m->graph, a, dtype) : NULL;
}

static node bitcast(builder *m, node a, tolk_dtype dtype) {
    return a ? tk_uop_bitcast(m->graph, a, dtype) : NULL;
}

static node muladd(builder *m, node a, node b, node c) {
    return m->fma ? op3(m, TK_OP_MULACC, a, b, c) : op2(m, TK_OP_ADD, op2(m, TK_OP_MUL, a, b), c);
}

static bool is_64(node a) {
    return a && tolk_dtype_bytes(a->dtype) == 8;
}

static node shift(builder *m, tk_op op, node a, node count) {
    if (op == TK_OP_SHL)
        return op2(m, op, a, count);
    /* A right shift of unsigned operands is the logical one. */
    tolk_dtype u = is_64(a) ? TOLK_U64 : TOLK_U32, s = is_64(a) ? TOLK_I64 : TOLK_I32;
    return bitcast(m, op2(m, op, bitcast(m, a, u), bitcast(m, count, u)), s);
}

static node shift_by(builder *m, tk_op op, node a, int count) {
    return shift(m, op, a, const_int(m, is_64(a) ? TOLK_I64 : TOLK_I32, count));
}

static node true_const(builder *m) {
    return const_int(m, TOLK_BOOL, 1);
}

#define M_CTX builder *
#define M_ARG m
#define M_FMA m->fma

#define CF32(x) const_f32(m, (float)(x))
#define CF64(x) const_f64(m, (x))
#define CI32(x) const_int(m, TOLK_I32, (int32_t)(x))
#define CI64(x) const_int(m, TOLK_I64, (int64_t)(x))
#define ADD(a, b) op2(m, TK_OP_ADD, a, b)
#define SUB(a, b) op2(m, TK_OP_SUB, a, b)
#define MUL(a, b) op2(m, TK_OP_MUL, a, b)
#define DIV(a, b) op2(m, TK_OP_FDIV, a, b)
#define NEG(a) op1(m, TK_OP_NEG, a)
#define MULADD(a, b, c) muladd(m, a, b, c)
#define IADD(a, b) op2(m, TK_OP_ADD, a, b)
#define ISUB(a, b) op2(m, TK_OP_SUB, a, b)
#define IMUL(a, b) op2(m, TK_OP_MUL, a, b)
#define AND(a, b) op2(m, TK_OP_AND, a, b)
#define OR(a, b) op2(m, TK_OP_OR, a, b)
#define XOR(a, b) op2(m, TK_OP_XOR, a, b)
#define SHL(a, count) shift_by(m, TK_OP_SHL, a, count)
#define SHR(a, count) shift_by(m, TK_OP_SHR, a, count)
#define SHLV(a, count) shift(m, TK_OP_SHL, a, count)
#define SHRV(a, count) shift(m, TK_OP_SHR, a, count)
#define SAR(a, count) op2(m, TK_OP_SHR, a, const_int(m, is_64(a) ? TOLK_I64 : TOLK_I32, count))
#define LT(a, b) op2(m, TK_OP_CMPLT, a, b)
#define EQ(a, b) op2(m, TK_OP_CMPEQ, a, b)
#define NE(a, b) op2(m, TK_OP_CMPNE, a, b)
#define ILT(a, b) op2(m, TK_OP_CMPLT, a, b)
#define IEQ(a, b) op2(m, TK_OP_CMPEQ, a, b)
#define BAND(a, b) op2(m, TK_OP_AND, a, b)
#define BOR(a, b) op2(m, TK_OP_OR, a, b)
#define BNOT(a) op2(m, TK_OP_XOR, a, true_const(m))
#define SEL(c, a, b) op3(m, TK_OP_WHERE, c, a, b)
#define TRUNC(a) op1(m, TK_OP_TRUNC, a)
#define BITS(a) bits_of(m, a)
#define FLOAT(a) float_of(m, a)
#define F_OF_I(a) float_of_int(m, a)
#define F64_OF_F32(a) cast(m, a, TOLK_F64)
#define F32_OF_F64(a) cast(m, a, TOLK_F32)
#define F64_OF_I32(a) cast(m, a, TOLK_F64)
#define I64_OF_I32(a) cast(m, a, TOLK_I64)
#define I64_OF_U32(a) bitcast(m, cast(m, bitcast(m, a, TOLK_U32), TOLK_U64), TOLK_I64)
#define I32_OF_I64(a) cast(m, a, TOLK_I32)

static node bits_of(builder *m, node a) {
    return bitcast(m, a, is_64(a) ? TOLK_I64 : TOLK_I32);
}

static node float_of(builder *m, node a) {
    return bitcast(m, a, is_64(a) ? TOLK_F64 : TOLK_F32);
}

static node float_of_int(builder *m, node a) {
    return cast(m, a, is_64(a) ? TOLK_F64 : TOLK_F32);
}

#include "ir/math.def"

bool tk_mathfn_is(tk_op op) {
    return (op >= TK_OP_EXP && op <= TK_OP_ERF) || op == TK_OP_POW;
}

#define IS_64_f32 0
#define IS_64_f64 1
#define EXPAND_SLOW(OP, name, T)                                                                   \
    case TK_OP_##OP * 2 + IS_64_##T:                                                               \
        r.fast = name##_##T##_fast(m, a, &r.cond);                                                 \
        r.slow = name##_##T##_slow(m, a);                                                          \
        break;
#define EXPAND_FAST_ONLY(OP, name, T)                                                              \
    case TK_OP_##OP * 2 + IS_64_##T:                                                               \
        r.fast = name##_##T##_fast(m, a, &r.cond);                                                 \
        break;
#define EXPAND_POW(OP, name, T)                                                                    \
    case TK_OP_##OP * 2 + IS_64_##T:                                                               \
        r.fast = name##_##T##_fast(m, a, b, &r.cond);                                              \
        r.slow = name##_##T##_slow(m, a, b);                                                       \
        break;

/* a, b: f32 or f64. */
static tk_mathfn_expansion expand(builder *m, tk_op op, node a, node b) {
    tk_mathfn_expansion r = {NULL, NULL, NULL};
    switch ((int)op * 2 + is_64(a)) {
        TK_MATHFN_SLOW(EXPAND_SLOW)
        TK_MATHFN_FAST_ONLY(EXPAND_FAST_ONLY)
        TK_MATHFN_POW(EXPAND_POW)
    default:
        break;
    }
    return r;
}

tk_mathfn_expansion tk_mathfn_expand(tolk_graph *graph, tk_op op, const tolk_uop *a,
                                     const tolk_uop *b, bool fma) {
    const tk_mathfn_expansion none = {NULL, NULL, NULL};
    if (!a || (op == TK_OP_POW && !b))
        return none;
    if (!tk_mathfn_is(op) || !tolk_dtype_is_float(a->dtype)) {
        tk_graph_fail(graph, TOLK_E_DTYPE, "%s of %s has no description in math.def",
                      tk_op_get(op)->name, tolk_dtype_name(a->dtype));
        return none;
    }
    builder m = {graph, tk_uop_lanes(a), fma};
    tolk_dtype dtype = tolk_dtype_scalar(a->dtype);
    bool narrow = dtype != TOLK_F32 && dtype != TOLK_F64;
    if (narrow) {
        a = cast(&m, a, TOLK_F32);
        b = op == TK_OP_POW ? cast(&m, b, TOLK_F32) : NULL;
    }
    tk_mathfn_expansion r = expand(&m, op, a, b);
    if (narrow) {
        r.fast = cast(&m, r.fast, dtype);
        r.slow = cast(&m, r.slow, dtype);
    }
    return tk_graph_failed(graph) ? none : r;
}
