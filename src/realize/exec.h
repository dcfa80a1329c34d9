/* SPDX-License-Identifier: MIT
 *
 * Linears that are ready to run.
 */
#ifndef TK_REALIZE_EXEC_H
#define TK_REALIZE_EXEC_H

#include "realize/bindings.h"

/* What nodes of these bindings stand for has changed: their execs give up the buffers that they
 * found, and look again when they run. */
void tk_exec_forget(tolk_bindings *b);
/* The bindings end: so do the execs that are kept in them. */
void tk_exec_end(tolk_bindings *b);
/* Would a run use the buffers that the last one found? Then neither bindings nor inputs have
 * changed since. Allocates nothing. */
bool tk_exec_is_settled(const tolk_exec *e, const tolk_run_args *args);

#endif
