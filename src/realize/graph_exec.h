/* SPDX-License-Identifier: MIT
 *
 * A list of calls that is recorded once and run as one command: which call must wait for which is
 * worked out from the bytes that they use, the device makes a graph of it, and later runs change
 * in it only what is not as it was.
 *
 * A run keeps what it was given until it is done; so several may be under way, each with arguments
 * of its own. Memory is held by runs only, not between them.
 */
#ifndef TK_REALIZE_GRAPH_EXEC_H
#define TK_REALIZE_GRAPH_EXEC_H

#include "realize/kernel.h"

typedef struct tk_graph_exec tk_graph_exec;

/* One call. Arguments and variables are those of the whole list, by number. */
typedef struct tk_graph_exec_call {
    tolk_kernel *kernel; /* of a program; NULL: a copy */
    /* Arguments: of a kernel those of its n_bufs buffer params in ascending slot order; of a copy
     * two, where to and where from. */
    const uint32_t *args;
    /* Of a kernel, for its n_vals scalar params in ascending slot order: the variable, or
     * TK_GRAPH_EXEC_FIXED and then the value in `fixed`. */
    const uint32_t *vars;
    const int64_t *fixed;
} tk_graph_exec_call;
#define TK_GRAPH_EXEC_FIXED UINT32_MAX

/* Every number below n_args and n_vars is used. The calls are copied, the kernels referenced.
 * Errors: TOLK_E_UNSUPPORTED (the device has no graphs), TOLK_E_DEVICE (a kernel of another one),
 * TOLK_E_NOMEM. */
tolk_status tk_graph_exec_create(tolk_device *device, const tk_graph_exec_call *calls, size_t n,
                                 size_t n_args, size_t n_vars, tk_graph_exec **out,
                                 tolk_error *err);
/* Runs that are under way go on. NULL does nothing. */
void tk_graph_exec_destroy(tk_graph_exec *g);

/* Submit a run; a small one on an idle queue runs before this returns, and any one if the caller
 * waits for it right away (awaited). args: borrowed for the call.
 *
 * Where arguments overlap in another way than when the graph was recorded it is recorded anew.
 * Errors before anything runs: those of tolk_kernel_run(), naming kernel and argument; of a copy
 * TOLK_E_RANGE and TOLK_E_DTYPE; TOLK_E_NOMEM. Then the next run is as good as if this one had not
 * been. What goes wrong in a run stops the queue.
 */
tolk_status tk_graph_exec_run(tk_graph_exec *g, tolk_buffer *const *args, const int64_t *vars,
                              bool awaited, tolk_error *err);
/* The number of argument a of call i. */
uint32_t tk_graph_exec_arg(const tk_graph_exec *g, size_t i, uint32_t a);
/* How often it was recorded, and how many graphs of the device it has. */
uint64_t tk_graph_exec_records(const tk_graph_exec *g);
size_t tk_graph_exec_instances(const tk_graph_exec *g);

#endif
