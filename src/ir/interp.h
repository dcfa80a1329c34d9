/* SPDX-License-Identifier: MIT
 *
 * The interpreter: runs a kernel or a program slowly and obviously, one scalar at a time. What it
 * computes is what the graph means; backends are compared with it bit for bit.
 */
#ifndef TK_IR_INTERP_H
#define TK_IR_INTERP_H

#include "ir/uop.h"

typedef struct tk_interp_args {
    void *const *bufs; /* buffer params, ascending slots */
    const size_t *bytes;
    size_t n_bufs;
    const int64_t *vals; /* scalar params, ascending slots; floats as bits in the low bytes */
    size_t n_vals;
    size_t dynamic_bytes; /* of the dynamic local buffer, if the kernel has one */
    bool no_fma;          /* math functions as on a target without FMA */
} tk_interp_args;

/* Run root, a SINK of the kernel stage or a LINEAR. It need not be verified: what cannot be run is
 * an error, never a crash.
 *
 * Scratch memory that nothing stored to reads as bytes 0xcb. Errors: as tolk_interpret(), and
 * TOLK_E_UNSUPPORTED for ops of the tensor stage, TOLK_E_LIMIT, TOLK_E_NOMEM.
 * Threads: any; the graph is only read.
 */
tolk_status tk_interp_run(const tolk_uop *root, const tk_interp_args *args, tolk_error *err);

#endif
