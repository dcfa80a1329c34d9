/* SPDX-License-Identifier: MIT
 *
 * Running a kernel's iterations on the caller's thread, or on a team of OpenMP threads.
 */
#ifndef TK_CPU_CPU_LAUNCH_H
#define TK_CPU_CPU_LAUNCH_H

#include "jit/backend.h"

/* Run launch on at most max_threads threads and wait.
 *
 * Small launches run on the caller's thread with no OpenMP region. Allocates only if the kernel
 * needs more than 4 KiB of scratch memory. The caller's floating-point environment is restored.
 * Results do not depend on the number of threads. Errors: TOLK_E_CANCELLED, TOLK_E_NOMEM. Threads:
 * any, at the same time too, inside of OpenMP regions too.
 */
tolk_status tk_cpu_launch(tolk_device *device, uint32_t max_threads, tk_launch *launch,
                          tolk_error *err);

/* ---- its parts, for graphs ---- */

/* In operations plus bytes. A region costs 1-2 us when the team is awake and a few tens after an
 * idle time, and this much work takes about 30 us on one core; and one chunk should be done in a
 * few milliseconds, so that a launch can be cancelled between chunks. */
#define TK_CPU_PARALLEL_WORK 3e6
#define TK_CPU_CHUNK_WORK 2e7

/* How many chunks work of `span` iterations is cut into for a team: 1 at least where there are any.
 */
static inline int64_t tk_cpu_chunk_count(double work, int64_t span, int threads) {
    double pieces = work / TK_CPU_CHUNK_WORK;
    int64_t chunks = pieces > 1e6 ? 1000000 : (int64_t)pieces + 1;
    if (threads > 1 && chunks < 4 * (int64_t)threads)
        chunks = 4 * (int64_t)threads; /* so that a late thread costs a quarter of a share */
    return chunks < span ? chunks : span;
}

__extension__ typedef __int128 tk_cpu_wide; /* iterations * chunks can pass 64 bits */
/* First iteration of chunk c of [from, to). */
static inline int64_t tk_cpu_chunk_begin(int64_t from, int64_t to, int64_t chunks, int64_t c) {
    return from + (int64_t)((tk_cpu_wide)(to - from) * c / chunks);
}

/* From one thread's scratch memory to the next one's, where each has its own: whole cache lines. */
static inline size_t tk_cpu_scratch_stride(const tk_launch *l) {
    return (l->scratch_bytes + 127) & ~(size_t)127;
}

/* A launch and where it runs. */
typedef struct tk_cpu_place {
    tk_launch *launch; /* of one iteration at least */
    void *scratch;     /* aligned to 64; for each of the threads where they have their own */
    const _Atomic uint32_t *cancel;
    _Atomic uint32_t *stop; /* the same where it may be set; or NULL */
    int threads;
} tk_cpu_place;
/* Run it here and on a team, or where the stack is large enough. launch->faulted was false. Errors:
 * TOLK_E_NOMEM (there is no such stack). */
tolk_status tk_cpu_launch_at(tk_cpu_place *p, tolk_error *err);

/* Would it run on the caller's thread, in some 30 us at most? */
bool tk_cpu_launch_is_small(const tolk_device *device, const tk_launch *launch);

#endif
