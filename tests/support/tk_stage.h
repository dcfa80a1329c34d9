/* SPDX-License-Identifier: MIT
 *
 * A kernel in text on its way through the compiler's passes: run some of them, say what the graph
 * has to be then, and interpret it beside the kernel as it was given.
 */
#ifndef TK_STAGE_H
#define TK_STAGE_H

#include "support/tk_test.h"

#include "jit/pass.h"

typedef struct tk_stage {
    tolk_ctx *ctx;
    tolk_graph *text;      /* the graph of ... */
    const tolk_uop *given; /* ... the kernel as it was given */
    tk_target target;
    tk_pass pass;         /* pass.g: the graph of ... */
    const tolk_uop *root; /* ... the kernel now */
} tk_stage;

/* Read and verify text. target: name of a CPU; NULL: haswell. Options and modes of s->pass may be
 * set before the passes are run. */
void tk_stage_open(tk_stage *s, const char *text, const char *target);
void tk_stage_close(tk_stage *s);

/* Run the passes of these letters of TOLK_DUMP ("PO": prepare, opts) and verify after each. Fails
 * the test if a pass does, or leaves an invalid graph. */
void tk_stage_run(tk_stage *s, const char *letters);
/* The same for one pass that may fail: its status. Fails the test if a failure changes the root. */
tolk_status tk_stage_try(tk_stage *s, char letter, tolk_error *err);

/* Fails the test unless the root is what text says, node for node. */
void tk_stage_is(tk_stage *s, const char *text);
/* Fails the test unless the root gives the same bits and status as the kernel as given. Arrays are
 * filled with small whole numbers: sums of a few thousand of them are exact in any order. */
void tk_stage_same(tk_stage *s, const int64_t *vals, size_t n_vals);

/* Nodes of an op below the root (itself included): how many, and number i of them, sources first;
 * NULL past the end. */
size_t tk_stage_count(const tk_stage *s, tk_op op);
const tolk_uop *tk_stage_find(const tk_stage *s, tk_op op, size_t i);

#endif
