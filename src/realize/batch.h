/* SPDX-License-Identifier: MIT
 *
 * Calls that follow each other become one: CALL(CUSTOM_FUNCTION "graph"(LINEAR calls), params).
 */
#ifndef TK_REALIZE_BATCH_H
#define TK_REALIZE_BATCH_H

#include "ir/uop.h"

/* Where a call may be part of a graph: the same for calls that may be in one together; *place NULL:
 * nowhere. */
typedef tolk_status (*tk_batch_place_fn)(void *user, const tolk_uop *call, const void **place,
                                         tolk_error *err);

/* The linear with runs of at least two calls of one place as graphs, in the order that there was.
 *
 *   linear: a LINEAR of CALLs of g.
 *   most: calls of the first graph; twice as many in each one behind it. 0: no bound.
 * The params of a graph's call are those that its calls take, each once, in the order in which they
 * come.
 * Owner: g. Errors: TOLK_E_NOMEM, TOLK_E_LIMIT, those of place; g keeps no error.
 */
tolk_status tk_batch(tolk_graph *g, const tolk_uop *linear, uint32_t most, tk_batch_place_fn place,
                     void *user, const tolk_uop **out, tolk_error *err);

#endif
