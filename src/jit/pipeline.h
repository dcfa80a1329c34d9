/* SPDX-License-Identifier: MIT
 *
 * The compiler's passes in their order, and running them.
 */
#ifndef TK_JIT_PIPELINE_H
#define TK_JIT_PIPELINE_H

#include "base/phases.h"
#include "jit/pass.h"

/* How far to go. */
typedef enum tk_pipeline_end { TK_PIPELINE_OPT, TK_PIPELINE_PROGRAM } tk_pipeline_end;

/* A kernel on its way, in a graph of its own. */
typedef struct tk_pipeline {
    tk_pass pass;            /* pass.g is the graph */
    const tolk_uop *kernel;  /* prepared, before the loop options */
    const tolk_uop *opt;     /* after the loop options */
    const tolk_uop *program; /* LINEAR; NULL if not asked for */
    tk_phases phases;        /* how long each pass took */
} tk_pipeline;

/* Run the passes on a copy of a verified kernel.
 *
 *   opts: loop options, NULL: the heuristic's.
 * Owner:  tk_pipeline_fini(), whatever is returned.
 * Errors: of the passes; TOLK_E_ARG for options.
 */
tolk_status tk_pipeline_run(tolk_ctx *ctx, const tolk_uop *kernel, const char *opts,
                            const tk_target *target, tolk_bounds bounds, bool strict,
                            tk_pipeline_end end, tk_pipeline *out, tolk_error *err);
void tk_pipeline_fini(tk_pipeline *p);

/* The letters of TOLK_DUMP in the order of the passes, as a string. */
enum { TK_PIPELINE_LETTERS = 32 };
void tk_pipeline_letters(char letters[TK_PIPELINE_LETTERS]);

#endif
