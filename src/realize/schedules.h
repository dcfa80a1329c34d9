/* SPDX-License-Identifier: MIT
 *
 * Linears from schedules, and over arenas.
 */
#ifndef TK_REALIZE_SCHEDULES_H
#define TK_REALIZE_SCHEDULES_H

#include "ir/walk.h"
#include "realize/linear.h"

/* tolk_memory_plan(), checked. arenas: gets the nodes of the arenas, of *out's graph; may be NULL.
 */
tolk_status tk_schedules_plan(tolk_linear *linear, const tolk_uop *const *held, size_t n_held,
                              tk_walk_list *arenas, tolk_linear **out, tolk_error *err);

#endif
