/* SPDX-License-Identifier: MIT
 *
 * Linears from schedules, and over arenas.
 */
#ifndef TK_REALIZE_SCHEDULES_H
#define TK_REALIZE_SCHEDULES_H

#include "ir/walk.h"
#include "realize/linear.h"
#include "schedule/memory_plan.h"

/* tolk_memory_plan(), checked. own: gets nodes of *out's graph; may be NULL. */
tolk_status tk_schedules_plan(tolk_linear *linear, const tolk_uop *const *held, size_t n_held,
                              tk_memory_plan_own *own, tolk_linear **out, tolk_error *err);

#endif
