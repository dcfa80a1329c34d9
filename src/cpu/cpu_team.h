/* SPDX-License-Identifier: MIT
 *
 * Teams of OpenMP threads: when there may be one, and what exit() and fork() do to it.
 */
#ifndef TK_CPU_CPU_TEAM_H
#define TK_CPU_CPU_TEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kernels with a larger stack frame run where there is room for it beside TK_CPU_STACK_SPARE. */
enum { TK_CPU_SMALL_FRAME = 16 << 10, TK_CPU_STACK_SPARE = 64 << 10 };

/* Call fn on up to `threads` threads at the same time, numbered from 0, which is the caller; on the
 * caller alone where the system has no room for more, or where their stacks do not hold a frame of
 * frame_bytes. Returns when all have returned.
 *
 *   stop: set to 1 when the process ends; fn is then to return soon. NULL: it is not told.
 * Threads: any, inside of OpenMP regions too.
 */
void tk_cpu_team_run(int threads, uint64_t frame_bytes, _Atomic uint32_t *stop,
                     void (*fn)(void *arg, int thread), void *arg);

#endif
