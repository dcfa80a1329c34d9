/* SPDX-License-Identifier: MIT
 *
 * CALLs of CUSTOM_FUNCTION "graph": the calls of their linear as one exec graph, which belongs to
 * the call that has them and goes with it.
 */
#ifndef TK_REALIZE_GRAPH_CALL_H
#define TK_REALIZE_GRAPH_CALL_H

#include "realize/call.h"
#include "realize/graph_exec.h"

typedef struct tk_graph_call tk_graph_call;

/* The buffers of the n calls behind a graph's call were found: make *g what runs them, or go on
 * with what it was. Where they are no graph it becomes NULL, and the calls are to be run one by
 * one: when some are on several devices, kernels are not all on one, it has no graphs, or it cannot
 * copy.
 *
 *   n_vars: the number of the exec's variables.
 * Errors: TOLK_E_NOMEM; then *g is NULL. */
tolk_status tk_graph_call_bind(tk_graph_call **g, const tk_call *calls, size_t n, size_t n_vars,
                               tolk_error *err);
void tk_graph_call_destroy(tk_graph_call *g); /* NULL does nothing; what is under way goes on */
tolk_device *tk_graph_call_device(const tk_graph_call *g);
/* The values of the variables for the next run, to be set. */
int64_t *tk_graph_call_vars(tk_graph_call *g);
/* Run it with the buffers that were bound, which are still there. awaited, errors: as
 * tk_graph_exec_run. */
tolk_status tk_graph_call_run(tk_graph_call *g, bool awaited, tolk_error *err);

#endif
