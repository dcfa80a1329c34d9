/* SPDX-License-Identifier: MIT
 *
 * What this CPU is and may run.
 */
#ifndef TK_CPU_CPU_DETECT_H
#define TK_CPU_CPU_DETECT_H

#include "jit/target.h"

/* Fill *out from CPUID, XCR0, the affinity mask and the cgroup quota. Never from a name alone: a
 * feature counts only if the CPU reports it and the system saves its registers. */
void tk_cpu_detect(tk_host *out);

#endif
