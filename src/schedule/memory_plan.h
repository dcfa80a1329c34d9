/* SPDX-License-Identifier: MIT
 *
 * Where the buffers between the calls of a linear lie: in arenas, such that no two of them share a
 * byte while both are in use.
 */
#ifndef TK_SCHEDULE_MEMORY_PLAN_H
#define TK_SCHEDULE_MEMORY_PLAN_H

#include "ir/walk.h"

enum { TK_MEMORY_PLAN_GRANULE = 256 /* bytes: buffers begin at multiples of it */ };

/* BUFFERs of a plan that stand for something only while its linear runs. */
typedef struct tk_memory_plan_own {
    tk_walk_list arenas; /* in the order of their first buffers */
    tk_walk_list views; /* that SLICE calls bind, and nobody looks at: perhaps to parts of arenas */
} tk_memory_plan_own;
void tk_memory_plan_own_init(tk_memory_plan_own *own, const tolk_allocator *al);
void tk_memory_plan_own_fini(tk_memory_plan_own *own);

/* The linear with BUFFERs replaced, wherever they stand, by SLICE(arena, byte offset). The arenas
 * are BUFFERs of i8 with new negative slots: one for each placement (attribute `device`) of the
 * buffers in it, and one more for those that copies touch, so that these wait for no kernels.
 *
 *   linear: a LINEAR of g. held: nodes of g; the BUFFERs that they reach stay as they are.
 *   own: gets the arenas that were made, and the views where there are arenas; may be NULL.
 *
 * A buffer is in use from the first to the last call that reaches it, itself or a view of it (a
 * SLICE call binds a node to one); one that copies touch for as long again behind that. Calls share
 * nothing within one call. Not planned: what is held; what stands for a view; what somebody outside
 * may see through a view (its node is held, or no BUFFER); what a call reads before one wrote it,
 * since its contents come from outside; what has no elements, or a size that nothing bounds.
 *
 * Offsets: in the order of the first calls, those that begin at one call in the order in which they
 * stand there; memory is free for the call behind the last use (tlsf.h). Source: section 1.11 of
 * the notes on tinygrad's planner.
 * Owner:   g. *out is `linear` where nothing was planned. Everything in *out is of this call, so
 *          that what it holds is lost when it ends.
 * Errors:  TOLK_E_NOMEM, TOLK_E_LIMIT (an arena is larger than 2^61 bytes, those of
 *          tk_call_args_check()), TOLK_E_VERIFY (no LINEAR); g keeps no error.
 */
tolk_status tk_memory_plan(tolk_graph *g, const tolk_uop *linear, const tolk_uop *const *held,
                           size_t n_held, const tolk_uop **out, tk_memory_plan_own *own,
                           tolk_error *err);

/* A slot for a new BUFFER of the context: -1, -2, ... below all that its graphs have named so far,
 * each once. */
int64_t tk_memory_plan_slot(tolk_ctx *ctx);

#endif
