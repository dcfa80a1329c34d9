/* SPDX-License-Identifier: MIT
 *
 * Copying nodes from one graph into another, where they are interned: nodes of any graphs are equal
 * if and only if their copies in one graph are one pointer.
 */
#ifndef TK_IR_IMPORT_H
#define TK_IR_IMPORT_H

#include "ir/uop.h"
#include "ir/walk.h"

/* The node of g that is equal to root, made with all below it where it is not there; root itself if
 * it is of g. Changes nothing of root's graph. Errors: TOLK_E_NOMEM, TOLK_E_LIMIT; what g has got
 * by then stays. */
tolk_status tk_import(tolk_graph *g, const tolk_uop *root, const tolk_uop **out, tolk_error *err);
/* The same for one root of a graph after another: made has the ids + 1 of what copies there are of
 * nodes of that graph, and gets those of new ones. It is of use while g is. */
tolk_status tk_import_more(tolk_graph *g, const tolk_uop *root, tk_walk_map *made,
                           const tolk_uop **out, tolk_error *err);

#endif
