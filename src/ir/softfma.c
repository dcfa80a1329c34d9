/* SPDX-License-Identifier: MIT */
#include "ir/softfma.h"

#include "ir/dtype.h"

static const tolk_uop *bits(tolk_graph *g, tolk_dtype dt, uint64_t v, uint32_t lanes) {
    return tk_uop_splat(g, tk_uop_const(g, dt, v), lanes);
}

/* The product of two f32 is exact in f64. The sum there is rounded to odd: if it was not exact, its
 * last bit is set, so that rounding to f32 afterwards sees that something follows. */
static const tolk_uop *fma_f32(tolk_graph *g, const tolk_uop *a, const tolk_uop *b,
                               const tolk_uop *c) {
    uint32_t n = tk_uop_lanes(a);
    const tolk_uop *p =
        tk_uop2(g, TK_OP_MUL, tk_uop_cast(g, a, TOLK_F64), tk_uop_cast(g, b, TOLK_F64));
    const tolk_uop *z = tk_uop_cast(g, c, TOLK_F64);
    const tolk_uop *s = tk_uop2(g, TK_OP_ADD, p, z);
    /* Knuth's TwoSum: what the sum lost. */
    const tolk_uop *zz = tk_uop2(g, TK_OP_SUB, s, p);
    const tolk_uop *lost =
        tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_SUB, p, tk_uop2(g, TK_OP_SUB, s, zz)),
                tk_uop2(g, TK_OP_SUB, z, zz));
    const tolk_uop *i = tk_uop_bitcast(g, s, TOLK_I64);
    const tolk_uop *zero = bits(g, TOLK_I64, 0, n), *one = bits(g, TOLK_I64, 1, n);
    const tolk_uop *none = bits(g, TOLK_F64, 0, n);
    /* The truncated neighbour toward the lost part, or the sum itself: the one with an odd end.
     * Bits grow with magnitude, so away from zero is +1. */
    const tolk_uop *even = tk_uop2(g, TK_OP_CMPEQ, tk_uop2(g, TK_OP_AND, i, one), zero);
    const tolk_uop *away = tk_uop2(g, TK_OP_CMPEQ, tk_uop2(g, TK_OP_CMPLT, lost, none),
                                   tk_uop2(g, TK_OP_CMPLT, s, none));
    const tolk_uop *step = tk_uop3(g, TK_OP_WHERE, away, one, bits(g, TOLK_I64, UINT64_MAX, n));
    const tolk_uop *odd = tk_uop_bitcast(g, tk_uop2(g, TK_OP_ADD, i, step), TOLK_F64);
    /* lost is NaN for infinities and NaN: those stay as they are. */
    const tolk_uop *inexact = tk_uop2(g, TK_OP_OR, tk_uop2(g, TK_OP_CMPLT, lost, none),
                                      tk_uop2(g, TK_OP_CMPLT, none, lost));
    const tolk_uop *fix = tk_uop2(g, TK_OP_AND, inexact, even);
    return tk_uop_cast(g, tk_uop3(g, TK_OP_WHERE, fix, odd, s), TOLK_F32);
}

const tolk_uop *tk_softfma_expand(tolk_graph *g, const tolk_uop *a, const tolk_uop *b,
                                  const tolk_uop *c) {
    if (!a || !b || !c)
        return NULL;
    if (tk_dtype_scalar(a->dtype) == TOLK_F32)
        return fma_f32(g, a, b, c);
    return tk_graph_fail(g, TOLK_E_UNSUPPORTED, "mulacc: %s on a target without FMA",
                         tolk_dtype_name(a->dtype));
}
