/* SPDX-License-Identifier: MIT
 *
 * What stands in the calls of a linear outside of their kernels: arguments, calls in graphs of
 * calls, linears in linears.
 */
#ifndef TK_SCHEDULE_CALL_ARGS_H
#define TK_SCHEDULE_CALL_ARGS_H

#include "ir/walk.h"

/* How messages name a call: its own name, or that of its body, or what its body is. */
const char *tk_call_args_name(const tolk_uop *call);
/* Append the nodes that a linear, or a graph of calls, reaches, sources first, but nothing of what
 * kernels are (below their SINK or PROGRAM) and no dimensions of buffers. Errors: TOLK_E_NOMEM. */
tolk_status tk_call_args_walk(const tolk_uop *linear, tk_walk_list *out);
/* The linear, or graph of calls, with from[i] replaced by to[i] there: one shot, the first of equal
 * from[i] counts. All are of g. Kernels stay, though a param of one may be the same node as an
 * argument. NULL: g failed. */
const tolk_uop *tk_call_args_replace(tolk_graph *g, const tolk_uop *linear,
                                     const tolk_uop *const *from, const tolk_uop *const *to,
                                     size_t n);
/* May a linear be run? A graph of calls, or a linear, counts with all calls in it, and one more,
 * each time that it is called. Takes time by distinct nodes. Errors: TOLK_E_LIMIT (more than
 * TK_MANY calls), TOLK_E_NOMEM. */
tolk_status tk_call_args_check(const tolk_uop *linear, tolk_error *err);
/* Append the calls of a linear, those of linears and of graphs of calls in it at their place.
 * Errors: those of tk_call_args_check(). */
tolk_status tk_call_args_flatten(const tolk_uop *linear, tk_walk_list *out, tolk_error *err);
/* Call fn for each argument that a call may write; those of a graph of calls all are, and the
 * source of a slice. Errors: TOLK_E_NOMEM, those of tk_params_init(). */
tolk_status tk_call_args_written(const tolk_uop *call, const tolk_allocator *al,
                                 void (*fn)(void *user, const tolk_uop *arg), void *user,
                                 tolk_error *err);

#endif
