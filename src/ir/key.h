/* SPDX-License-Identifier: MIT
 *
 * Keys of graphs: equal for equal graphs, whatever graph object, process or machine they are in.
 */
#ifndef TK_IR_KEY_H
#define TK_IR_KEY_H

#include "ir/uop.h"

/* XXH3-128 of the canonical form of u: op, flags, dtype, attributes in the order of ops.def, and
 * the keys of its sources. Memoized in the graph. Out of memory: {0, 0}, recorded in the graph. */
tk_hash128 tk_key(const tolk_uop *u);

#endif
