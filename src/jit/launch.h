/* SPDX-License-Identifier: MIT
 *
 * The two halves of a launch: what the caller may have got wrong, and running it.
 */
#ifndef TK_JIT_LAUNCH_H
#define TK_JIT_LAUNCH_H

#include "jit/program.h"

/* Check the arguments of a launch, as tolk_launch_with(), and make it ready to be run.
 *
 *   bufs, vals: kept in *out, so they stay until it was run; bytes is not.
 * Errors: all of tolk_launch_with() but TOLK_E_RANGE, TOLK_E_CANCELLED and TOLK_E_NOMEM.
 */
tolk_status tk_launch_prepare(const tolk_program *p, void *const *bufs, const size_t *bytes,
                              size_t n_bufs, const int64_t *vals, size_t n_vals,
                              size_t shared_bytes, tk_launch *out, tolk_error *err);
/* Run it and wait. Errors: TOLK_E_RANGE, TOLK_E_CANCELLED, TOLK_E_NOMEM. */
tolk_status tk_launch_run(const tolk_program *p, tk_launch *launch, tolk_error *err);
/* The two ends of it, for who runs a prepared launch by other means than backend->launch: say that
 * p is going to run, and set launch->fn; and the error of a launch that faulted, naming the kernel.
 */
void tk_launch_begin(const tolk_program *p, tk_launch *launch);
tolk_status tk_launch_faulted(const tolk_program *p, const tk_launch *launch, tolk_error *err);
/* Are the number of iterations and the bytes of local memory numbers? wraps: of all steps of p.
 * Errors: TOLK_E_LIMIT. */
tolk_status tk_launch_check_span(const tolk_program *p, const bool *wraps, tolk_error *err);

#endif
