/* SPDX-License-Identifier: MIT
 *
 * In a loop that looks at memory until another thread changes it.
 */
#ifndef TK_BASE_RELAX_H
#define TK_BASE_RELAX_H

static inline void tk_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
