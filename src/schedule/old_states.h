/* SPDX-License-Identifier: MIT
 *
 * Calls that need what is not there any more.
 */
#ifndef TK_SCHEDULE_OLD_STATES_H
#define TK_SCHEDULE_OLD_STATES_H

#include "ir/walk.h"

/* Does some call read a state of a buffer, and take one that is behind it, too? Where a call in
 * between wrote to what is read, it would have to run before that one and after it.
 *
 *   calls: CALLs whose arguments are states of buffers (create_schedule.c), each once.
 * Only what is certain is refused: the buffer is one, known by its node; the call reads it, and
 * does not write it through the same argument, which says nothing of what it expects there; what
 * was written is a part of what is read. Time: near-linear in the nodes, where parts that are
 * written one after the other lie side by side. Errors: TOLK_E_VERIFY naming the call, the buffer
 * and who overwrote it; TOLK_E_NOMEM, those of tk_params_init().
 */
tolk_status tk_old_states_check(const tk_walk_list *calls, const tolk_allocator *al,
                                tolk_error *err);

#endif
