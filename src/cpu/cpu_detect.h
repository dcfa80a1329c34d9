/* SPDX-License-Identifier: MIT
 *
 * What this CPU is and may run.
 */
#ifndef TK_CPU_CPU_DETECT_H
#define TK_CPU_CPU_DETECT_H

#include "jit/target.h"

#if defined(__x86_64__)
/* What CPUID and XGETBV say, as far as features depend on it. */
typedef struct tk_cpu_regs {
    uint32_t leaf1_c;
    uint32_t leaf7_b, leaf7_c, leaf7_d, leaf7_1_a; /* 7: sub-leaf 0; 7_1: sub-leaf 1 */
    uint32_t ext1_c;                               /* leaf 0x80000001 */
    uint64_t xcr0; /* states that the system saves; counts if it has turned XSAVE on */
} tk_cpu_regs;

/* The features, bits TK_FEATURE_*, that code may use on a CPU and system that say so. */
uint64_t tk_cpu_features(const tk_cpu_regs *regs);
#endif

/* Fill *out from CPUID, XCR0, the affinity mask and the cgroup quota. Never from a name alone: a
 * feature counts only if the CPU reports it and the system saves its registers. */
void tk_cpu_detect(tk_host *out);

#endif
