/* SPDX-License-Identifier: MIT
 *
 * The list of a program while it is written: which values are at hand where it has come to.
 *
 * A value is at hand in the loop or branch in which it was listed last, and in those inside of it;
 * params, buffers, specials, constants and what has no value are from there on everywhere.
 */
#ifndef TK_JIT_LIST_H
#define TK_JIT_LIST_H

#include "jit/kview.h"

typedef struct tk_list {
    tolk_graph *g;
    tk_uops out;
    TK_VEC(uint32_t) listed_in; /* by id: scope in which it is listed, from 1; 0: nowhere */
    TK_VEC(bool) is_open;       /* by scope */
    TK_VEC(uint32_t) scopes;    /* those that are open, innermost last */
} tk_list;

/* An empty list. False when out of memory, here and below; call fini in any case. */
bool tk_list_init(tk_list *l, tolk_graph *g);
void tk_list_fini(tk_list *l);

/* Is u the same wherever it is listed, as long as its sources are? */
bool tk_list_is_pure(const tolk_uop *u);
/* Is it at hand? */
bool tk_list_has(const tk_list *l, const tolk_uop *u);
/* List u, whatever is at hand. NULL (failed) is passed on as false. */
bool tk_list_push(tk_list *l, const tolk_uop *u);
/* List u and what it is made of, but for what is at hand. */
bool tk_list_place(tk_list *l, const tolk_uop *u);
/* The same, with u as the answer; NULL: failed. */
static inline const tolk_uop *tk_list_placed(tk_list *l, const tolk_uop *u) {
    return tk_list_place(l, u) ? u : NULL;
}
/* List u once more, and what it is made of, but for what of that is at hand. */
bool tk_list_again(tk_list *l, const tolk_uop *u);
/* The same for what opens a loop or branch, which is in it; and list what closes the innermost. */
bool tk_list_open(tk_list *l, const tolk_uop *opener);
bool tk_list_close(tk_list *l, const tolk_uop *closer);
/* The whole as a LINEAR, with the name of `from`. */
const tolk_uop *tk_list_linear(const tk_list *l, const tolk_uop *from);

#endif
