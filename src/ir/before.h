/* SPDX-License-Identifier: MIT
 *
 * Loads that stand before a store of the same register although nothing but `after` says so: a load
 * of what a register is within each iteration of a loop has the value from before the stores of
 * that iteration (docs/ir.md, "Effects").
 */
#ifndef TK_IR_BEFORE_H
#define TK_IR_BEFORE_H

#include "ir/walk.h"

typedef struct tk_before_pair {
    const tolk_uop *store, *load;
} tk_before_pair;

typedef struct tk_before {
    TK_VEC(tk_before_pair) pairs; /* those of one store stand together */
    tk_walk_map first;            /* store -> its first pair + 1 */
} tk_before;

/* The pairs of a kernel. With them as further edges from store to load the graph has no cycle.
 * Errors: TOLK_E_NOMEM. Call _fini in any case. */
tolk_status tk_before_init(tk_before *b, const tk_walk_ranges *w, const tolk_allocator *al);
void tk_before_fini(tk_before *b);
/* The pairs of a node, *n of them. */
const tk_before_pair *tk_before_of(const tk_before *b, const tolk_uop *store, uint32_t *n);

#endif
