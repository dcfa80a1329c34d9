/* SPDX-License-Identifier: MIT
 *
 * The floating-point environment that kernels run in: nearest even, denormals kept, no traps.
 */
#ifndef TK_CPU_CPU_FP_H
#define TK_CPU_CPU_FP_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef uint32_t tk_cpu_fp;
enum { TK_CPU_FP_PLAIN = 0x1f80, TK_CPU_FP_RAISED = 0x3f };
/* Enter it; what it was. Writing the register takes as long as a small launch, reading it does not.
 */
static inline tk_cpu_fp tk_cpu_fp_enter(void) {
    tk_cpu_fp old = _mm_getcsr();
    if ((old & ~(tk_cpu_fp)TK_CPU_FP_RAISED) != TK_CPU_FP_PLAIN)
        _mm_setcsr(TK_CPU_FP_PLAIN);
    return old;
}
static inline void tk_cpu_fp_leave(tk_cpu_fp old) {
    if (_mm_getcsr() != old)
        _mm_setcsr(old);
}
#else
typedef uint64_t tk_cpu_fp;
static inline tk_cpu_fp tk_cpu_fp_enter(void) {
    tk_cpu_fp old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return old;
}
static inline void tk_cpu_fp_leave(tk_cpu_fp old) {
    __asm__ volatile("msr fpcr, %0" : : "r"(old));
}
#endif

#endif
