/* SPDX-License-Identifier: MIT
 *
 * TOLK_REPRO: a kernel that is being compiled stands in a file with its options, so that one which
 * fails, or ends the process, can be compiled again by `tolk-jit run`.
 */
#ifndef TK_JIT_REPRO_H
#define TK_JIT_REPRO_H

#include "jit/target.h"

#include <tolk/jit.h>

typedef struct tk_repro {
    char *path; /* text of base/strbuf.h; NULL: nothing is written */
} tk_repro;

/* Before a kernel is compiled: write its file, if the environment asks for that.
 *
 *   name: of the target as it was asked for; NULL: native. target: what that is, and the tier.
 *   emit: the form that tolk_emit was asked for ("asm"); NULL: tolk_compile was called.
 * A file that cannot be written is a warning.
 */
void tk_repro_begin(tolk_ctx *ctx, const tolk_uop *kernel, const tolk_compile_opts *opts,
                    const char *name, const tk_target *target, const char *emit, tk_repro *out);
/* After it: the file goes if all is well, and stays with a warning if not. */
void tk_repro_end(tolk_ctx *ctx, tk_repro *repro, tolk_status st);

#endif
