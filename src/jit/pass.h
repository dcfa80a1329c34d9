/* SPDX-License-Identifier: MIT
 *
 * The passes from a kernel to a program, in the order pipeline.c runs them. Each works on a private
 * graph, takes and replaces *root, leaves it untouched on failure, and has a contract in its file.
 */
#ifndef TK_JIT_PASS_H
#define TK_JIT_PASS_H

#include "jit/kview.h"
#include "jit/target.h"

#include <tolk/jit.h>

/* Instructions of a program: instruction selection is superlinear in the size of a block. */
enum { TK_PROGRAM_MAX = 32768 };

/* What the passes share about one compilation. */
typedef struct tk_pass {
    tolk_graph *g; /* private to this compilation */
    const tk_target *target;
    tolk_bounds bounds;
    bool strict;
    const char *opts; /* loop options to apply; NULL: the heuristic chooses */
    /* pass_prepare leaves this: */
    const tolk_uop *given;  /* the kernel as it was given, in g: its params are the arguments */
    const tolk_uop *kernel; /* what launches check for overlap: pass_prepare's result; set by the
                             * pipeline. NULL: no param counts as read-only */
    bool items;             /* work-items meet: the program is that of one of them (items.h) */
    /* pass_opts leaves this: */
    char *applied; /* the options applied, text of base/strbuf.h; owned by the pipeline */
    /* pass_group leaves this: */
    int64_t pieces; /* iterations of the flattened range before the barrier; 0: there is none */
    /* pass_lower leaves these: */
    const tolk_uop
        *span;      /* iterations of the flattened global range: expression of scalar params */
    uint32_t lanes; /* widest vector */
    /* For a GPU: blocks of the grid and threads of a block in x, y and z, as expressions of scalar
     * params; scratch is then the shared memory of a block. */
    const tolk_uop *grid[3], *block[3];
    int64_t most_blocks; /* in x, where that is to be less than what a GPU can; 0: it is not */
    /* pass_items leaves this: */
    const tolk_uop *scratch; /* bytes of scratch memory: expression of scalar params */
} tk_pass;

/* The error that a builder recorded, or an internal one if there is none. */
tolk_status tk_pass_failed(const tk_pass *p, tolk_error *err);

tolk_status tk_pass_prepare(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_opts(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_group(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_peel(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_prove(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_narrow(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_decompose(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_flatten(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_lower(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_given(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_program(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_items(tk_pass *p, const tolk_uop **root, tolk_error *err);
tolk_status tk_pass_scalar(tk_pass *p, const tolk_uop **root, tolk_error *err);

#endif
