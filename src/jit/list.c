/* SPDX-License-Identifier: MIT */
#include "jit/list.h"

#include "jit/items_plan.h"

bool tk_list_init(tk_list *l, tolk_graph *g) {
    *l = (tk_list){.g = g};
    tk_vec_init(&l->out, g->al);
    tk_vec_init(&l->listed_in, g->al);
    tk_vec_init(&l->is_open, g->al);
    tk_vec_init(&l->scopes, g->al);
    return tk_vec_push(&l->is_open, false) && tk_vec_push(&l->is_open, true) &&
           tk_vec_push(&l->scopes, 1);
}

void tk_list_fini(tk_list *l) {
    tk_vec_fini(&l->out);
    tk_vec_fini(&l->listed_in);
    tk_vec_fini(&l->is_open);
    tk_vec_fini(&l->scopes);
}

bool tk_list_is_pure(const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    return tk_op_is_alu(op) || op == TK_OP_STACK || op == TK_OP_INDEX || op == TK_OP_AFTER ||
           tk_items_is_definition(u);
}

bool tk_list_has(const tk_list *l, const tolk_uop *u) {
    uint32_t scope = u->id < l->listed_in.n ? l->listed_in.at[u->id] : 0;
    return scope && (l->is_open.at[scope] || tk_items_is_definition(u) || u->dtype == TOLK_VOID);
}

bool tk_list_push(tk_list *l, const tolk_uop *u) {
    if (!u || !tk_vec_push(&l->out, u) ||
        (l->listed_in.n <= u->id && !tk_vec_resize(&l->listed_in, (size_t)u->id + 256)))
        return false;
    l->listed_in.at[u->id] = tk_vec_last(&l->scopes);
    return true;
}

bool tk_list_place(tk_list *l, const tolk_uop *u) {
    if (!u)
        return false;
    tk_uops todo;
    tk_vec_init(&todo, l->g->al);
    bool ok = tk_vec_push(&todo, u);
    while (ok && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool ready = true;
        for (uint32_t i = x->n_src; i-- > 0 && ok && !tk_list_has(l, x);)
            if (!tk_list_has(l, x->src[i])) {
                ready = false;
                ok = tk_vec_push(&todo, x->src[i]);
            }
        if (!ok || !ready)
            continue;
        ok = tk_list_has(l, x) || tk_list_push(l, x);
        todo.n--;
    }
    tk_vec_fini(&todo);
    return ok;
}

static bool place_sources(tk_list *l, const tolk_uop *u) {
    bool ok = u != NULL;
    for (uint32_t i = 0; ok && i < u->n_src; i++)
        ok = tk_list_place(l, u->src[i]);
    return ok;
}

bool tk_list_again(tk_list *l, const tolk_uop *u) {
    return place_sources(l, u) && tk_list_push(l, u);
}

bool tk_list_open(tk_list *l, const tolk_uop *opener) {
    return place_sources(l, opener) && tk_vec_push(&l->is_open, true) &&
           tk_vec_push(&l->scopes, (uint32_t)l->is_open.n - 1) && tk_list_push(l, opener);
}

bool tk_list_close(tk_list *l, const tolk_uop *closer) {
    l->is_open.at[tk_vec_pop(&l->scopes)] = false;
    return tk_list_push(l, closer);
}

const tolk_uop *tk_list_linear(const tk_list *l, const tolk_uop *from) {
    return tk_uop(l->g, TK_OP_LINEAR, TOLK_VOID, l->out.at, l->out.n, from->attr);
}
