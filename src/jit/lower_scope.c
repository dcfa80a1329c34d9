/* SPDX-License-Identifier: MIT
 *
 * pass_lower, bodies of loops and branches, and what is listed in them: pure instructions in the
 * outermost body that their sources allow, effects at the end of theirs.
 */
#include "jit/lower.h"

#include <string.h>

int tk_lower_scope(tk_lower *l, int parent, const tolk_uop *opener) {
    tk_lower_body s = {
        .parent = parent, .depth = parent < 0 ? 0 : l->scopes.at[parent].depth + 1, .open = true};
    tk_vec_init(&s.list, l->al);
    if (opener && !tk_vec_push(&s.list, opener))
        return -1;
    if (!tk_vec_push(&l->scopes, s))
        return -1;
    int no = (int)l->scopes.n - 1;
    if (opener && !tk_lower_mark(l, opener, no))
        return -1;
    return no;
}

bool tk_lower_mark(tk_lower *l, const tolk_uop *u, int scope) {
    if (l->placed.n <= u->id && !tk_vec_resize(&l->placed, (size_t)u->id + 256))
        return false;
    l->placed.at[u->id] = scope + 1;
    return true;
}

/* Scope in which u is listed and still visible, or -1. */
int tk_lower_visible(const tk_lower *l, const tolk_uop *u) {
    if (u->id >= l->placed.n || !l->placed.at[u->id])
        return -1;
    int s = l->placed.at[u->id] - 1;
    return l->scopes.at[s].open ? s : -1;
}

bool tk_lower_list(tk_lower *l, const tolk_uop *u, int scope) {
    if (++l->n_listed > TK_PROGRAM_MAX) {
        tk_graph_fail(l->g, TOLK_E_LIMIT, "a program of more than %d instructions", TK_PROGRAM_MAX);
        return false;
    }
    return tk_vec_push(&l->scopes.at[scope].list, u) && tk_lower_mark(l, u, scope);
}

static bool is_root_node(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) ||
           tk_uop_is(u, TK_OP_SPECIAL);
}

/* List u and all it needs. Returns its scope, or -1 on failure. */
int tk_lower_place(tk_lower *l, const tolk_uop *u) {
    if (!u)
        return -1;
    int s = tk_lower_visible(l, u);
    if (s >= 0)
        return s;
    size_t bottom = l->todo.n;
    if (!tk_vec_push(&l->todo, u))
        return -1;
    while (l->todo.n > bottom) {
        const tolk_uop *x = tk_vec_last(&l->todo);
        if (tk_lower_visible(l, x) >= 0) {
            l->todo.n--;
            continue;
        }
        bool ready = true;
        int scope = is_root_node(x) ? 0 : l->floor;
        for (uint32_t i = x->n_src; i-- > 0;) {
            int si = tk_lower_visible(l, x->src[i]);
            if (si < 0) {
                ready = false;
                if (!tk_vec_push(&l->todo, x->src[i]))
                    return -1;
            } else if (l->scopes.at[si].depth > l->scopes.at[scope].depth) {
                scope = si;
            }
        }
        if (!ready)
            continue;
        /* What a branch needs is listed in it, unless it belongs outside of the loop around the
         * branch: there it would stand before the branch's own copy of it, and code behind the
         * branch would see that copy. */
        if (l->pin > 0 && !is_root_node(x) &&
            l->scopes.at[scope].depth + 1 >= l->scopes.at[l->pin].depth)
            scope = l->pin;
        if (!tk_lower_list(l, x, scope))
            return -1;
        l->todo.n--;
    }
    return tk_lower_visible(l, u);
}

/* List an effect at the end of a scope. */
bool tk_lower_effect(tk_lower *l, const tolk_uop *u, int scope) {
    if (!u)
        return false;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (tk_lower_place(l, u->src[i]) < 0)
            return false;
    return tk_lower_list(l, u, scope);
}

/* Close a scope with its last instruction and put it at the end of its parent. */
bool tk_lower_close(tk_lower *l, int scope, const tolk_uop *closer) {
    int parent = l->scopes.at[scope].parent;
    if (!closer || !tk_vec_push(&l->scopes.at[scope].list, closer))
        return false;
    tk_uops *from = &l->scopes.at[scope].list, *to = &l->scopes.at[parent].list;
    if (!tk_vec_reserve(to, to->n + from->n))
        return false;
    memcpy(to->at + to->n, from->at, from->n * sizeof *from->at);
    to->n += from->n;
    tk_vec_fini(from);
    l->scopes.at[scope].open = false;
    return tk_lower_mark(l, closer, parent);
}
