/* SPDX-License-Identifier: MIT
 *
 * Rewriting a graph by a function that looks at one node at a time. Nothing recurses.
 */
#ifndef TK_IR_REWRITE_H
#define TK_IR_REWRITE_H

#include "ir/uop.h"

/* A node whose sources are rewritten already. Returns what stands in its place (in g), or NULL for
 * no match; returning the node itself means the same. Failure is g's recorded error. */
typedef const tolk_uop *(*tk_rewrite_fn)(tolk_graph *g, const tolk_uop *u, void *user);

enum {
    TK_REWRITE_ONCE = 1, /* each node is shown once; what stands in its place is not looked at */
    TK_REWRITE_NEW = 2   /* only the root and nodes made from now on; older nodes are final */
};

/* The graph below root with fn applied, sources first, until fn has no match on any node left. Each
 * node is rewritten once however often it is used.
 *
 * Owner:  g. Returns NULL if g has failed or fails: TOLK_E_INTERNAL for a rule that undoes another
 * one or grows for ever, TOLK_E_NOMEM, or what fn recorded.
 */
const tolk_uop *tk_rewrite(tolk_graph *g, const tolk_uop *root, tk_rewrite_fn fn, void *user,
                           unsigned flags);
/* The graph below root with each from[i] replaced by to[i]. One shot: nothing is replaced inside of
 * to[i], nor a node that becomes equal to a from[i]. A to[i] that is NULL could not be made: then
 * memory has run out. */
const tolk_uop *tk_rewrite_substitute(tolk_graph *g, const tolk_uop *root,
                                      const tolk_uop *const *from, const tolk_uop *const *to,
                                      size_t n);

#endif
