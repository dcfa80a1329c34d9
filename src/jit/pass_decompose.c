/* SPDX-License-Identifier: MIT
 *
 * pass_decompose: ops that no target has become ops that all have.
 *
 * Needs:  stage kernel, prepared; or a program (pass_program.c), whose list is then incomplete.
 * Leaves: no floordiv, floormod, threefry, reciprocal (1/x is fdiv) or integer mulacc; mulacc of
 *         floats only where the target has FMA. Divisions by powers of two of what is not negative
 *         are shifts.
 * Ref:    Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011 (threefry).
 */
#include "ir/bounds.h"
#include "ir/dtype.h"
#include "ir/softfma.h"
#include "jit/pass.h"

static bool not_negative(const tolk_uop *u) {
    if (tolk_dtype_is_unsigned(u->dtype))
        return true;
    tk_bound b = tk_bounds(u);
    return b.state == 1 && b.lo >= 0;
}

static bool power_of_two(const tolk_uop *u, uint32_t *log2) {
    if (!tk_uop_is_const(u) || tolk_dtype_is_float(u->dtype))
        return false;
    uint64_t v = tk_uop_bits(u);
    if (!v || (v & (v - 1)) || (tk_dtype_is_signed(u->dtype) && (int64_t)v < 0))
        return false;
    *log2 = (uint32_t)__builtin_ctzll(v);
    return true;
}

/* Truncating division of what is known not to be negative, or of anything. */
static const tolk_uop *divide(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    uint32_t log2;
    if (power_of_two(b, &log2) && not_negative(a)) {
        uint64_t c = op == TK_OP_CDIV ? log2 : tk_uop_bits(b) - 1;
        return tk_uop2(g, op == TK_OP_CDIV ? TK_OP_SHR : TK_OP_AND, a,
                       tk_uop_const(g, a->dtype, c));
    }
    return tk_uop2(g, op, a, b);
}

static const tolk_uop *floor_divide(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    bool div = op == TK_OP_FLOORDIV;
    if (not_negative(a) && not_negative(b))
        return divide(g, div ? TK_OP_CDIV : TK_OP_CMOD, a, b);
    /* Shifts and masks round down for every sign. */
    uint32_t log2;
    if (power_of_two(b, &log2)) {
        uint64_t c = div ? log2 : tk_uop_bits(b) - 1;
        return tk_uop2(g, div ? TK_OP_SHR : TK_OP_AND, a, tk_uop_const(g, a->dtype, c));
    }
    /* One less than the truncated quotient where the remainder's sign differs from the divisor's.
     * b = 0 leaves quotient 0 and remainder a, which is why the fix asks for b != 0. */
    const tolk_uop *zero = tk_uop_const_like(g, a->dtype, 0);
    const tolk_uop *one = tk_uop_const_like(g, a->dtype, 1);
    const tolk_uop *r = tk_uop2(g, TK_OP_CMOD, a, b);
    const tolk_uop *differ =
        tk_uop2(g, TK_OP_CMPNE, tk_uop2(g, TK_OP_CMPLT, r, zero), tk_uop2(g, TK_OP_CMPLT, b, zero));
    const tolk_uop *fix = tk_uop2(g, TK_OP_AND, tk_uop2(g, TK_OP_CMPNE, r, zero), differ);
    fix = tk_uop2(g, TK_OP_AND, fix, tk_uop2(g, TK_OP_CMPNE, b, zero));
    if (div) {
        const tolk_uop *q = tk_uop2(g, TK_OP_CDIV, a, b);
        return tk_uop3(g, TK_OP_WHERE, fix, tk_uop2(g, TK_OP_SUB, q, one), q);
    }
    return tk_uop3(g, TK_OP_WHERE, fix, tk_uop2(g, TK_OP_ADD, r, b), r);
}

static const tolk_uop *rotate_left(tolk_graph *g, const tolk_uop *x, uint32_t by) {
    return tk_uop2(g, TK_OP_OR, tk_uop2(g, TK_OP_SHL, x, tk_uop_const_like(g, x->dtype, by)),
                   tk_uop2(g, TK_OP_SHR, x, tk_uop_const_like(g, x->dtype, 32 - by)));
}

/* Threefry-2x32 with 20 rounds, as tk_scalar_alu computes it. */
static const tolk_uop *threefry(tolk_graph *g, const tolk_uop *counter, const tolk_uop *key) {
    static const uint8_t rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const tolk_uop *half = tk_uop_const_like(g, key->dtype, 32);
    const tolk_uop *k[3], *x[2];
    k[0] = tk_uop_cast(g, key, TOLK_U32);
    k[1] = tk_uop_cast(g, tk_uop2(g, TK_OP_SHR, key, half), TOLK_U32);
    k[2] = tk_uop2(g, TK_OP_XOR, tk_uop_const_like(g, k[0]->dtype, 0x1bd11bda),
                   tk_uop2(g, TK_OP_XOR, k[0], k[1]));
    x[0] = tk_uop2(g, TK_OP_ADD, tk_uop_cast(g, counter, TOLK_U32), k[0]);
    x[1] =
        tk_uop2(g, TK_OP_ADD, tk_uop_cast(g, tk_uop2(g, TK_OP_SHR, counter, half), TOLK_U32), k[1]);
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x[0] = tk_uop2(g, TK_OP_ADD, x[0], x[1]);
            x[1] = tk_uop2(g, TK_OP_XOR, rotate_left(g, x[1], rotation[group % 2][i]), x[0]);
        }
        x[0] = tk_uop2(g, TK_OP_ADD, x[0], k[(group + 1) % 3]);
        x[1] = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_ADD, x[1], k[(group + 2) % 3]),
                       tk_uop_const_like(g, k[0]->dtype, group + 1));
    }
    return tk_uop2(g, TK_OP_OR, tk_uop2(g, TK_OP_SHL, tk_uop_cast(g, x[1], TOLK_U64), half),
                   tk_uop_cast(g, x[0], TOLK_U64));
}

static const tolk_uop *decompose(void *user, const tk_kview *v, const tolk_uop *u,
                                 const tolk_uop **src, uint32_t n) {
    (void)v;
    tk_pass *p = user;
    tolk_graph *g = p->g;
    switch (tk_uop_op(u)) {
    case TK_OP_FLOORDIV:
    case TK_OP_FLOORMOD:
        return floor_divide(g, tk_uop_op(u), src[0], src[1]);
    case TK_OP_CDIV:
    case TK_OP_CMOD:
        return divide(g, tk_uop_op(u), src[0], src[1]);
    case TK_OP_RECIPROCAL:
        return tk_uop2(g, TK_OP_FDIV,
                       tk_uop_const_like(g, u->dtype,
                                         tk_dtype_scalar(u->dtype) == TOLK_F64 ? 0x3ff0000000000000u
                                                                               : 0x3f800000u),
                       src[0]);
    case TK_OP_MULACC:
        if (!tolk_dtype_is_float(u->dtype))
            return tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, src[0], src[1]), src[2]);
        if (!p->target->fma)
            return tk_softfma_expand(g, src[0], src[1], src[2]);
        break;
    case TK_OP_THREEFRY:
        return threefry(g, src[0], src[1]);
    default:
        break;
    }
    return tk_uop_with_src(g, u, src, n);
}

tolk_status tk_pass_decompose(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    const tolk_uop *r = tk_kview_rebuild(&v, decompose, p);
    tk_kview_fini(&v);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
