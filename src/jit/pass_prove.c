/* SPDX-License-Identifier: MIT
 *
 * pass_prove: which accesses need no check at run time.
 *
 * Needs:  stage kernel, prepared; one index per dimension still.
 * Leaves: inbounds=true on every access that bounds and gate prove to be inside its buffer, and on
 *         all of them with TOLK_BOUNDS_TRUST. An access of several dimensions without a proof gets
 *         an index that is outside the whole buffer where any dimension is out of range, so that
 *         one check of the flat index finds it.
 */
#include "ir/access.h"
#include "jit/pass.h"

/* Far outside of every buffer, and still so after any number of lanes is added. */
#define OUTSIDE (INT64_MIN / 2)

static const tolk_uop *dim_of(const tolk_uop *buffer, uint32_t d) {
    const tolk_uop *shape = buffer->src[0];
    return tk_uop_is(shape, TK_OP_STACK) ? shape->src[d] : shape;
}

/* INDEX(buffer, i, j): j, and i where every dimension is in range, else far outside. */
static const tolk_uop *checked_place(tolk_graph *g, const tolk_uop *place) {
    if (place->n_src < 3)
        return place;
    const tolk_uop *buffer = tk_access_buffer(place);
    const tolk_uop *zero = tk_uop_index_const(g, 0), *bad = NULL;
    const tolk_uop *outside = tk_uop_index_const(g, OUTSIDE);
    tk_uops src;
    tk_vec_init(&src, g->al);
    bool ok = tk_vec_push(&src, place->src[0]);
    for (uint32_t d = 1; d < place->n_src && ok; d++) {
        const tolk_uop *i = place->src[d];
        const tolk_uop *low = tk_uop2(g, TK_OP_CMPLT, i, zero);
        const tolk_uop *below = tk_uop2(g, TK_OP_CMPLT, i, dim_of(buffer, d - 1));
        const tolk_uop *yes = tk_uop_const(g, TOLK_BOOL, 1);
        const tolk_uop *out = tk_uop2(g, TK_OP_OR, low, tk_uop2(g, TK_OP_XOR, below, yes));
        bad = bad ? tk_uop2(g, TK_OP_OR, bad, out) : out;
        ok = bad != NULL;
    }
    /* The last dimension has stride 1, so the sentinel goes there, and zeros before it. */
    for (uint32_t d = 1; d < place->n_src && ok; d++) {
        const tolk_uop *other = d + 1 == place->n_src ? outside : zero;
        const tolk_uop *i = tk_uop3(g, TK_OP_WHERE, bad, other, place->src[d]);
        ok = i && tk_vec_push(&src, i);
    }
    const tolk_uop *r = ok ? tk_uop_with_src(g, place, src.at, src.n)
                           : tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    tk_vec_fini(&src);
    return r;
}

static const tolk_uop *prove(void *user, const tk_kview *v, const tolk_uop *u, const tolk_uop **src,
                             uint32_t n) {
    (void)v;
    tk_pass *p = user;
    bool load = tk_uop_is(u, TK_OP_LOAD);
    if (!load && !tk_uop_is(u, TK_OP_STORE) && !tk_uop_is(u, TK_OP_ATOMIC_ADD))
        return tk_uop_with_src(p->g, u, src, n);
    const tolk_uop *gate = n == 3 ? src[2] : NULL;
    tk_attr attrs[2] = {{.i = p->bounds == TOLK_BOUNDS_TRUST || tk_access_proved(src[0], gate)},
                        load ? (tk_attr){.i = 0} : u->attr[1]}; /* a store's or sum's own */
    if (!attrs[0].i) {
        src[0] = checked_place(p->g, src[0]);
        if (!src[0])
            return NULL;
    }
    return tk_uop(p->g, tk_uop_op(u), u->dtype, src, n, attrs);
}

tolk_status tk_pass_prove(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    const tolk_uop *r = tk_kview_rebuild(&v, prove, p);
    tk_kview_fini(&v);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
