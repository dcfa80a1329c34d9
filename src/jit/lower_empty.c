/* SPDX-License-Identifier: MIT
 *
 * Loops that may have no iteration. The walk of pass_lower puts an access into the innermost loop
 * that it depends on; one that depends on none of the loops around it (its index was simplified:
 * the loop runs once at most, say) would happen although the loop around it does not run, and
 * outside of its buffer. Here such an access gets the gate 0 < size of that loop.
 *
 * Global ranges that go into the flattened range need none: its loop stands around all that belongs
 * to them.
 */
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/rewrite.h"

typedef struct emptiness {
    tolk_graph *g;
    uint32_t no; /* of the range in the view of the closer's source */
    const tolk_uop *not_empty;
    bool found;
} emptiness;

static bool has_term(const tolk_uop *gate, const tolk_uop *term) {
    while (gate != term) {
        if (!tk_uop_is(gate, TK_OP_AND))
            return false;
        if (gate->src[1] == term)
            return true;
        gate = gate->src[0];
    }
    return true;
}

/* Is u an access of memory that others see, which would happen without the range? */
static bool escapes(const tk_kview *v, const tolk_uop *u, const emptiness *e) {
    bool access = tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE);
    return access && tk_kview_is_global(tk_kview_buffer(u->src[0])) &&
           (e->no == UINT32_MAX || !tk_set_has(tk_kview_set(v, u), e->no)) &&
           !(u->n_src == 3 && has_term(u->src[2], e->not_empty));
}

static const tolk_uop *gated(void *user, const tk_kview *v, const tolk_uop *u, const tolk_uop **src,
                             uint32_t n) {
    emptiness *e = user;
    if (!escapes(v, u, e))
        return tk_uop_with_src(e->g, u, src, n);
    e->found = true;
    const tolk_uop *second = n > 1 ? src[1] : tk_uop_const(e->g, u->dtype, 0);
    const tolk_uop *gate = n == 3 ? tk_uop2(e->g, TK_OP_AND, src[2], e->not_empty) : e->not_empty;
    return second && gate ? tk_uop(e->g, tk_uop_op(u), u->dtype,
                                   (const tolk_uop *[]){src[0], second, gate}, 3, u->attr)
                          : NULL;
}

/* The effects of the sink: groups taken apart. */
static bool is_effect_of(const tk_kview *v, const tolk_uop *end) {
    tk_uops todo;
    tk_vec_init(&todo, v->al);
    bool ok = tk_vec_push(&todo, v->root), found = false;
    while (ok && todo.n && !found) {
        const tolk_uop *u = tk_vec_pop(&todo);
        found = u == end;
        bool inner = tk_uop_is(u, TK_OP_SINK) || tk_uop_is(u, TK_OP_GROUP);
        for (uint32_t i = 0; inner && i < u->n_src && ok; i++)
            ok = tk_vec_push(&todo, u->src[i]);
    }
    tk_vec_fini(&todo);
    return found;
}

/* Gate what is below closer for the range in its source i. Returns what stands in place of the
 * closer, itself if there is nothing to do, NULL on failure. */
static const tolk_uop *gate_below(tolk_graph *g, const tolk_uop *closer, uint32_t i) {
    const tolk_uop *range = closer->src[i], *body = closer->src[0];
    emptiness e = {.g = g};
    e.not_empty = tk_uop2(g, TK_OP_CMPLT, tk_uop_index_const(g, 0), range->src[0]);
    tk_kview v;
    if (!e.not_empty || !tk_kview_init(&v, body))
        return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    e.no = range->id <= body->id && v.reached[range->id] ? tk_kview_no(&v, range) : UINT32_MAX;
    bool any = false;
    for (size_t k = 0; k < v.order.n && !any; k++)
        any = escapes(&v, v.order.at[k], &e);
    const tolk_uop *to = any ? tk_kview_rebuild(&v, gated, &e) : body;
    tk_kview_fini(&v);
    if (!to || to == body)
        return to ? closer : NULL;
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    bool ok = true;
    for (uint32_t k = 0; k < closer->n_src && ok; k++)
        ok = tk_vec_push(&src, k ? closer->src[k] : to);
    const tolk_uop *r = ok ? tk_uop_with_src(g, closer, src.at, src.n)
                           : tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    tk_vec_fini(&src);
    return r;
}

const tolk_uop *tk_lower_empty(tk_pass *p, const tolk_uop *root, bool flattened) {
    tolk_graph *g = p->g;
    for (bool again = true; again;) {
        again = false;
        tk_kview v;
        if (!tk_kview_init(&v, root))
            return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
        for (size_t k = 0; k < v.order.n && root && !again; k++) {
            const tolk_uop *u = v.order.at[k];
            uint32_t i = tk_kview_closes(u);
            if (i < u->n_src && flattened && tk_uop_is(u, TK_OP_END) && is_effect_of(&v, u))
                i += tk_lower_flattened(u);
            for (; i < u->n_src && root && !again; i++) {
                if (!tk_uop_is(u->src[i], TK_OP_RANGE))
                    continue;
                tk_bound b = tk_bounds(u->src[i]->src[0]);
                if (b.state == 1 && b.lo > 0)
                    continue;
                const tolk_uop *to = gate_below(g, u, i);
                if (to != u) {
                    again = true;
                    root = to ? tk_rewrite_substitute(g, root, &u, &to, 1) : NULL;
                }
            }
        }
        tk_kview_fini(&v);
        if (!root)
            return NULL;
    }
    return root;
}
