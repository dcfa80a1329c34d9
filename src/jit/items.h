/* SPDX-License-Identifier: MIT
 *
 * Kernels whose work-items meet: at barriers or shuffles, or in local memory. They keep the form in
 * which docs/ir.md defines them until pass_lower is done with them: indices are specials, and the
 * program is what one work-item does. A GPU runs that program as it is. For a CPU pass_items makes
 * loops over the work-items of a group, from one meeting point to the next.
 *
 *   items.c        what is asked of such kernels in several places
 *   items_lanes.c  work-items as lanes of vectors
 *   lower_items.c  barriers and shuffles in pass_lower
 *   items_plan.c   what of a work-item's program is done for the whole group, and what it keeps
 *                  across meeting points
 *   pass_items.c   the loops
 */
#ifndef TK_JIT_ITEMS_H
#define TK_JIT_ITEMS_H

#include "jit/kview.h"

enum { TK_ITEMS_DIMS = 3, TK_ITEMS_WARP = 32 };

/* Do work-items of the kernel meet? */
bool tk_items_meet(const tk_kview *v);

/* Number dim (0..2: x, y, z) of lidx if u is such a SPECIAL, else -1. */
int tk_items_lidx(const tolk_uop *u);

/* Is u a SPECIAL that says which part of a span the program runs? */
bool tk_items_is_span(const tolk_uop *u);
/* Has the program local memory? Parts of a span that meet in it are not told from those that do
 * not: then one call runs all of it, and the span has one iteration. */
bool tk_items_has_local(const tolk_uop *linear);
/* Has it the local buffer whose size each launch says? */
bool tk_items_has_dynamic(const tolk_uop *linear);

/* A size of specials: below 0 it means none, as everywhere. NULL on failure. */
const tolk_uop *tk_items_size(tolk_graph *g, const tolk_uop *size);

/* Of a group: the number of its work-items, and of one of them its number, x fastest. size and
 * index: by dim; NULL where the kernel does not have it. New nodes of g; NULL on failure. */
const tolk_uop *tk_items_count(tolk_graph *g, const tolk_uop *const size[TK_ITEMS_DIMS]);
const tolk_uop *tk_items_flat(tolk_graph *g, const tolk_uop *const size[TK_ITEMS_DIMS],
                              const tolk_uop *const index[TK_ITEMS_DIMS]);

/* Number of the work-item whose value a shuffle gives, where item (an index, or one a lane) asks
 * for lane (an integer, or one a lane): item xor lane in its warp if there is such a one of
 * `count`, else item.
 */
const tolk_uop *tk_items_partner(tolk_graph *g, const tolk_uop *item, const tolk_uop *lane,
                                 const tolk_uop *count);

/* A new local buffer of `elems` scalars of dtype (index: kept as i64). */
const tolk_uop *tk_items_buffer(tolk_graph *g, tolk_dtype dtype, const tolk_uop *elems,
                                int64_t slot);
/* Storing a value to consecutive elements of such a buffer from `at` on, and loading one of dtype,
 * or one a lane from those places. gate: NULL for always; else 0 is loaded. token: the instruction
 * that the load stands behind, or NULL. Surely inside where the gate is true. */
const tolk_uop *tk_items_put(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *at,
                             const tolk_uop *value, const tolk_uop *gate);
const tolk_uop *tk_items_get(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *at,
                             tolk_dtype dtype, const tolk_uop *gate, const tolk_uop *token);
/* A slot that no BUFFER in the list or view has: one above the greatest. */
int64_t tk_items_free_slot(const tk_uops *nodes);

/* Bytes of local memory of a program, as an expression of scalar params: each buffer in the order
 * of the list, at a multiple of 64 bytes. Without the dynamic one, which is the last. */
const tolk_uop *tk_items_scratch(tolk_graph *g, const tolk_uop *linear);

/* The same for a GPU: bytes of a local buffer of constant size; and those of all of them that a
 * launch asks for, since they are more than what can be static: all or none. */
enum { TK_ITEMS_STATIC_BYTES = 48 << 10, TK_ITEMS_SHARED_ALIGN = 16 };
uint64_t tk_items_shared_bytes(const tolk_uop *buffer);
uint64_t tk_items_shared(const tolk_uop *linear);

#endif
