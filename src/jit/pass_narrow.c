/* SPDX-License-Identifier: MIT
 *
 * pass_narrow: f16, bf16, fp8e4m3 and fp8e5m2 become integers that hold their codes.
 *
 * Needs:  stage kernel, loop options applied; or a program (pass_program.c), whose list is then
 *         incomplete.
 * Leaves: no narrow float dtype but in pairs: where the target has F16C, which gives the bits of
 *         ir/narrow.h, f16 stands between a bitcast from or to its code and a cast to or from f32.
 *         An atomic_add of one says so by its attribute "code". Memory, loads, stores, selects and
 *         bitcasts are of codes, so that a NaN that is moved keeps its bits; arithmetic is in f32
 * and rounded once more, which is exact (f32 has more than twice the bits of any of them, and two);
 * mulacc in f64, rounded to odd. Reductions of sums and products are in f32 and rounded at the end.
 */
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/softfma.h"
#include "ir/softnarrow.h"
#include "jit/pass.h"

#include <string.h>

typedef struct narrower {
    tolk_graph *g;
    bool f16c;    /* the target converts f16 */
    tk_map codes; /* id of a code as it is stored -> place of the same as u32 in wide */
    tk_uops wide;
} narrower;

static const tolk_uop *cast(narrower *w, const tolk_uop *x, tolk_dtype dt) {
    return x ? tk_uop_cast(w->g, x, dt) : NULL;
}
static const tolk_uop *bitcast(narrower *w, const tolk_uop *x, tolk_dtype dt) {
    return x ? tk_uop_bitcast(w->g, x, dt) : NULL;
}

/* The code of an f32 result. */
static const tolk_uop *rounded(narrower *w, tolk_dtype dt, const tolk_uop *x) {
    if (w->f16c && tk_dtype_scalar(dt) == TOLK_F16)
        return bitcast(w, cast(w, x, TOLK_F16), TOLK_U16);
    const tolk_uop *code = tk_softnarrow_round(w->g, dt, x);
    const tolk_uop *r = code ? tk_uop_cast(w->g, code, tk_softnarrow_code(dt)) : NULL;
    if (r && (!tk_vec_push(&w->wide, code) || !tk_map_put(&w->codes, r->id, w->wide.n - 1)))
        return tk_graph_fail(w->g, TOLK_E_NOMEM, "out of memory");
    return r;
}

/* The f32 of a code; one that was just rounded need not be made 16 bits in between. */
static const tolk_uop *widened(narrower *w, tolk_dtype dt, const tolk_uop *code) {
    if (w->f16c && tk_dtype_scalar(dt) == TOLK_F16)
        return cast(w, bitcast(w, code, TOLK_F16), TOLK_F32);
    const uint64_t *at = tk_map_find(&w->codes, code->id);
    return tk_softnarrow_widen(w->g, dt, at ? w->wide.at[*at] : tk_uop_cast(w->g, code, TOLK_U32));
}

static const tolk_uop *mulacc(narrower *w, tolk_dtype dt, const tolk_uop *const *x) {
    const tolk_uop *d[3];
    for (int i = 0; i < 3; i++)
        if (!x[i] || !(d[i] = tk_uop_cast(w->g, x[i], TOLK_F64)))
            return NULL;
    const tolk_uop *sum = tk_softfma_add_to_odd(w->g, tk_uop2(w->g, TK_OP_MUL, d[0], d[1]), d[2]);
    return rounded(w, dt, tk_softnarrow_to_odd(w->g, sum));
}

static const tolk_uop *reduce(narrower *w, const tolk_uop *u, const tolk_uop **src, uint32_t n) {
    tolk_dtype dt = u->dtype;
    if (!(src[0] = widened(w, dt, src[0])))
        return NULL;
    const tolk_uop *r = tk_uop(w->g, TK_OP_REDUCE, TOLK_F32, src, n, u->attr);
    /* The identity of max is the least number, which is not -inf in a dtype without infinity. */
    if (r && dt == TOLK_FP8E4M3 && tk_uop_int(u, TK_A_REDUCE_OP) == TK_ROP_MAX)
        r = tk_uop2(w->g, TK_OP_MAX, r, tk_uop_const(w->g, TOLK_F32, 0xc3e00000));
    return rounded(w, dt, r);
}

/* The codes of a sum are no sum of codes: the dtype stays as an attribute. */
static const tolk_uop *atomic_add(narrower *w, const tolk_uop *u, const tolk_uop **src,
                                  uint32_t n) {
    const char *name = tolk_dtype_name(tk_dtype_scalar(u->src[1]->dtype));
    tk_attr attrs[2] = {u->attr[0], {.blob = tk_blob_str(w->g, name, strlen(name))}};
    return attrs[1].blob ? tk_uop(w->g, TK_OP_ATOMIC_ADD, TOLK_VOID, src, n, attrs)
                         : tk_graph_fail(w->g, TOLK_E_NOMEM, "out of memory");
}

/* Elementwise, with a narrow operand or result. from: the operands' dtypes as they were. */
static const tolk_uop *alu(narrower *w, const tolk_uop *u, const tolk_uop **src, uint32_t n) {
    tolk_graph *g = w->g;
    tk_op op = tk_uop_op(u);
    tolk_dtype to = u->dtype, from = u->src[0]->dtype;
    tolk_dtype code = tk_dtype_is_narrow_float(to) ? tk_softnarrow_code(to) : to;
    if (op == TK_OP_WHERE)
        return tk_uop3(g, op, src[0], src[1], src[2]);
    if (op == TK_OP_BITCAST)
        return tk_uop_bitcast(g, src[0], code);
    if (op == TK_OP_NEG)
        return tk_uop2(
            g, TK_OP_XOR, src[0],
            tk_uop_const_like(g, code, (uint64_t)1 << (tk_dtype_bits(tk_dtype_scalar(to)) - 1)));
    const tolk_uop *x[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < n && i < 3; i++)
        if (!(x[i] =
                  tk_dtype_is_narrow_float(u->src[i]->dtype) ? widened(w, from, src[i]) : src[i]))
            return NULL;
    if (op == TK_OP_CAST)
        return tk_dtype_is_narrow_float(to) ? rounded(w, to, tk_softnarrow_to_odd(g, x[0]))
                                            : tk_uop_cast(g, x[0], to);
    if (op == TK_OP_MULACC)
        return mulacc(w, to, x);
    if (op == TK_OP_RECIPROCAL)
        return rounded(w, to,
                       tk_uop2(g, TK_OP_FDIV, tk_uop_const_like(g, x[0]->dtype, 0x3f800000), x[0]));
    const tolk_uop *r = n == 1 ? tk_uop1(g, op, x[0]) : tk_uop2(g, op, x[0], x[1]);
    return tk_dtype_is_narrow_float(to) ? rounded(w, to, r) : r;
}

static const tolk_uop *convert(void *user, const tk_kview *v, const tolk_uop *u,
                               const tolk_uop **src, uint32_t n) {
    (void)v;
    narrower *w = user;
    bool narrow = tk_dtype_is_narrow_float(u->dtype);
    for (uint32_t i = 0; i < n; i++)
        narrow |= tk_dtype_is_narrow_float(u->src[i]->dtype);
    if (!narrow)
        return tk_uop_with_src(w->g, u, src, n);
    if (tk_op_is_alu(tk_uop_op(u)))
        return alu(w, u, src, n);
    if (tk_uop_is(u, TK_OP_REDUCE))
        return reduce(w, u, src, n);
    if (tk_uop_is(u, TK_OP_ATOMIC_ADD))
        return atomic_add(w, u, src, n);
    tolk_dtype dt = tk_dtype_is_narrow_float(u->dtype) ? tk_softnarrow_code(u->dtype) : u->dtype;
    if (tk_uop_is(u, TK_OP_CONST))
        return tk_uop_const(w->g, dt, tk_uop_bits(u));
    return tk_uop(w->g, tk_uop_op(u), dt, src, n, u->attr);
}

tolk_status tk_pass_narrow(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    narrower w = {.g = p->g, .f16c = p->target->f16c};
    tk_map_init(&w.codes, v.al);
    tk_vec_init(&w.wide, v.al);
    bool any = false;
    for (size_t k = 0; k < v.order.n && !any; k++)
        any = tk_dtype_is_narrow_float(v.order.at[k]->dtype);
    const tolk_uop *r = any ? tk_kview_rebuild(&v, convert, &w) : *root;
    tk_map_fini(&w.codes);
    tk_vec_fini(&w.wide);
    tk_kview_fini(&v);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
