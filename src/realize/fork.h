/* SPDX-License-Identifier: MIT
 *
 * Noticing a fork without a system call.
 */
#ifndef TK_REALIZE_FORK_H
#define TK_REALIZE_FORK_H

#include <stdatomic.h>
#include <stdint.h>

extern _Atomic int64_t tk_fork_number;

/* Forks on the way from the process that loaded the library to this one, plus 1. */
static inline int64_t tk_fork_count(void) {
    return atomic_load_explicit(&tk_fork_number, memory_order_relaxed);
}

#endif
