/* SPDX-License-Identifier: MIT
 *
 * From what depends on what to an order: a graph of AFTERs becomes a list of calls.
 */
#ifndef TK_SCHEDULE_CREATE_SCHEDULE_H
#define TK_SCHEDULE_CREATE_SCHEDULE_H

#include "ir/uop.h"

/* A LINEAR of the calls below sink.
 *
 * AFTER(x, ...) is the state of the buffer x (itself the state that was there before) once the
 * calls among its sources have run: a CALL, or an END around one. Its other sources are states that
 * these calls come after, and STOREs, which say nothing here. An argument of a call is a state (a
 * BUFFER or PARAM is the first one), MSELECT or MSTACK of such, or a SLICE, RESHAPE, CONTIGUOUS,
 * MULTI or NOOP of one; BINDs are values.
 *
 * A call comes after those that made the states that it takes, those of the state that its own
 * AFTER is of, and before those that make another state of one that it takes, unless it needs them
 * itself (old_states.h: only where they spare what it reads). Among what is free the order is that
 * in which the walk meets the calls: sources first, left to right. In the LINEAR each argument is
 * the buffer of its state. Source: section 1.11 of the notes on tinygrad's schedule.
 *
 * Owner:   g, which is sink's.
 * Errors:  TOLK_E_VERIFY (a cycle, naming a call of it; a call of two states that are not there at
 *          once; what is no call or state where one is expected), TOLK_E_NOMEM, TOLK_E_LIMIT; g
 *          keeps no error.
 */
tolk_status tk_create_schedule(tolk_graph *g, const tolk_uop *sink, const tolk_uop **out,
                               tolk_error *err);

#endif
