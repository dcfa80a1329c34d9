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

/* Would it run on the caller's thread, in some 30 us at most? */
bool tk_cpu_launch_is_small(const tolk_device *device, const tk_launch *launch);

#endif
