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

#endif
