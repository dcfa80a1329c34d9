/* SPDX-License-Identifier: MIT
 *
 * Where a node stands in the text that its graph was read from, or would be printed as.
 */
#ifndef TK_IR_LOCATE_H
#define TK_IR_LOCATE_H

#include "ir/uop.h"

typedef struct tk_location {
    uint32_t number; /* as tolk_print(root) numbers it; TK_NO_NODE if it is not below the root */
    const tk_place *place; /* in the text; NULL unless one text defined all nodes below the root */
    char name[24];         /* "%N", N as that text says, else the number */
} tk_location;

/* The location of node u. Walks the graph: only failures should pay for it. */
tk_location tk_locate(const tolk_uop *root, const tolk_uop *u);
/* Nodes of `copy`, which tk_import() made of root in a graph that nothing was read into, stand
 * where those of root do. Walks both, where a text defined root; without memory they stand nowhere.
 */
void tk_locate_copy(const tolk_uop *root, const tolk_uop *copy);
/* Make err, which may be NULL, tell of that node: its number, line and column. */
void tk_locate_error(const tk_location *at, tolk_error *err);

#endif
