/* SPDX-License-Identifier: MIT
 *
 * pass_lower, where work-items meet: barriers, and shuffles as an exchange through local memory; a
 * GPU has an instruction for those.
 */
#include "jit/items.h"
#include "jit/lower.h"

#include "ir/dtype.h"

bool tk_lower_barrier(tk_lower *l, const tolk_uop *u) {
    tk_uops tokens;
    tk_vec_init(&tokens, l->al);
    bool ok = true;
    for (uint32_t i = 0; i < u->n_src && ok; i++) {
        const tolk_uop *token = tk_lower_token(l, u->src[i]);
        ok = !token || tk_vec_push(&tokens, token);
    }
    const tolk_uop *b =
        ok ? tk_uop(l->g, TK_OP_BARRIER, TOLK_VOID, tokens.at, tokens.n, NULL) : NULL;
    tk_vec_fini(&tokens);
    /* The one between pieces of reductions was listed by lower_span.c. */
    if (!b || (l->p->items && !tk_lower_effect(l, b, tk_lower_scope_of(l, u))))
        return false;
    return tk_lower_done(l, u, b);
}

/* Of a group: the sizes of its indices, and of the work-item at hand the indices (of the first of
 * its lanes), as instructions. False on failure. */
static bool find_items(tk_lower *l, const tolk_uop *size[TK_ITEMS_DIMS],
                       const tolk_uop *index[TK_ITEMS_DIMS]) {
    for (int d = 0; d < TK_ITEMS_DIMS; d++)
        size[d] = index[d] = NULL;
    for (size_t k = 0; k < l->v.order.n; k++) {
        int d = tk_items_lidx(l->v.order.at[k]);
        if (d < 0)
            continue;
        index[d] = l->v.order.at[k];
        size[d] = index[d]->src[0];
    }
    int d = l->wide.lidx ? tk_items_lidx(l->wide.lidx) : -1;
    if (d >= 0) {
        if (!tk_lower_values(l, l->wide.value) && !tk_lower_visit(l, l->wide.value))
            return false;
        index[d] = tk_lower_values(l, l->wide.value)[0].u;
        size[d] = l->wide.lidx->src[0];
    }
    return true;
}

/* The guard of work-items that are lanes, as an instruction. *out NULL: none is needed. */
static bool find_guard(tk_lower *l, const tolk_uop **out) {
    *out = NULL;
    if (!l->wide.guard)
        return true;
    if (!tk_lower_values(l, l->wide.guard) && !tk_lower_visit(l, l->wide.guard))
        return false;
    *out = tk_lower_values(l, l->wide.guard)[0].u;
    return *out != NULL;
}

/* A thread's instruction: it stays where it is, as the others of its warp come there, too. */
static bool gpu_shuffle(tk_lower *l, const tolk_uop *u) {
    tk_lval value = tk_lower_source(l, u, 0, 0), lane = tk_lower_source(l, u, 0, 1);
    const tolk_uop *src[2] = {value.u, lane.u};
    const tolk_uop *r =
        value.u && lane.u ? tk_uop(l->g, TK_OP_SHUFFLE, u->dtype, src, 2, NULL) : NULL;
    if (!r || !tk_lower_effect(l, r, tk_lower_scope_of(l, u)))
        return false;
    tk_lval *v = tk_lower_new_values(l, u, 1);
    if (v)
        v[0] = tk_lval_uniform(r);
    return v != NULL;
}

/* All have read what was exchanged before; each stores its value; each loads its partner's. */
bool tk_lower_shuffle(tk_lower *l, const tolk_uop *u) {
    tolk_graph *g = l->g;
    const tolk_uop *size[TK_ITEMS_DIMS], *index[TK_ITEMS_DIMS], *guard;
    if (tk_target_is_gpu(l->p->target))
        return gpu_shuffle(l, u);
    uint32_t lanes = l->wide.lane ? (uint32_t)l->wide.lane->src[0]->attr[0].i : 1;
    if (!find_items(l, size, index) || !find_guard(l, &guard))
        return false;
    const tolk_uop *count = tk_items_count(g, size), *first = tk_items_flat(g, size, index);
    tk_lval value = tk_lower_source(l, u, 0, 0), lane = tk_lower_source(l, u, 0, 1);
    if (!count || !first)
        return false;
    const tolk_uop *item = tk_lower_vector(l, (tk_lval){first, lanes > 1}, lanes);
    const tolk_uop *x = tk_lower_vector(l, value, lanes), *far = tk_lower_vector(l, lane, lanes);
    const tolk_uop *partner = item && x && far ? tk_items_partner(g, item, far, count) : NULL;
    const tolk_uop *buffer = tk_items_buffer(g, u->dtype, count, l->next_local++);
    int scope = tk_lower_scope_of(l, u);
    if (!partner || tk_lower_place(l, buffer) < 0)
        return false;
    const tolk_uop *put = tk_items_put(g, buffer, first, x, guard);
    const tolk_uop *read = tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &buffer, 0, NULL);
    const tolk_uop *written = put ? tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &put, 1, NULL) : NULL;
    const tolk_uop *r =
        tk_items_get(g, buffer, partner, tolk_dtype_vec(u->dtype, lanes), guard, written);
    const tolk_uop *load = r && tk_uop_is(r, TK_OP_CAST) ? r->src[0] : r;
    if (!load || !tk_lower_effect(l, read, scope) || !tk_lower_effect(l, put, scope) ||
        !tk_lower_effect(l, written, scope))
        return false;
    for (uint32_t i = 0; i < load->n_src; i++)
        if (tk_lower_place(l, load->src[i]) < 0)
            return false;
    if (!tk_lower_list(l, load, scope) || tk_lower_place(l, r) < 0)
        return false;
    tk_lval *v = tk_lower_new_values(l, u, 1);
    if (v)
        v[0] = tk_lval_uniform(r);
    return v != NULL;
}
