/* SPDX-License-Identifier: MIT
 *
 * Files that Linux perf reads: /tmp/perf-PID.map (addresses to names) and /tmp/jit-PID.dump (code
 * with times, for `perf inject --jit`).
 *
 * Ref: tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt of Linux.
 */
#ifndef TK_JIT_PERF_H
#define TK_JIT_PERF_H

#include "jit/observe.h"

/* What went wrong with the map and with the dump; "" where nothing did. */
typedef struct tk_perf_warnings {
    char text[2][200];
} tk_perf_warnings;

/* Write a kernel into the files of this process. They are begun with those of `before`, a list, if
 * this process (a child of fork) has none. Called with the lock of observe.c, so it logs nothing.
 */
void tk_perf_add(tolk_ctx *ctx, const tk_observed *o, const tk_observed *before,
                 tk_perf_warnings *warnings);

#endif
