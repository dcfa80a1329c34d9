/* SPDX-License-Identifier: MIT
 *
 * pass_lower, where work-items meet: barriers, and shuffles as an exchange through local memory.
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

/* The kernel's indices of work-items, and their sizes. */
static void find_items(const tk_lower *l, const tolk_uop *size[TK_ITEMS_DIMS],
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
}

/* All have read what was exchanged before; each stores its value; each loads its partner's. */
bool tk_lower_shuffle(tk_lower *l, const tolk_uop *u) {
    tolk_graph *g = l->g;
    const tolk_uop *size[TK_ITEMS_DIMS], *index[TK_ITEMS_DIMS];
    find_items(l, size, index);
    const tolk_uop *count = tk_items_count(g, size), *item = tk_items_flat(g, size, index);
    tk_lval value = tk_lower_source(l, u, 0, 0), lane = tk_lower_source(l, u, 0, 1);
    const tolk_uop *partner = count && item ? tk_items_partner(g, item, lane.u, count) : NULL;
    const tolk_uop *buffer = tk_items_buffer(g, u->dtype, count, l->next_local++);
    int scope = tk_lower_scope_of(l, u);
    if (!partner || tk_lower_place(l, buffer) < 0)
        return false;
    const tolk_uop *put = tk_items_put(g, buffer, item, value.u);
    const tolk_uop *read = tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &buffer, 0, NULL);
    const tolk_uop *written = put ? tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &put, 1, NULL) : NULL;
    const tolk_uop *r = tk_items_get(g, buffer, partner, u->dtype, written);
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
