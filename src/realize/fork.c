/* SPDX-License-Identifier: MIT */
#include "realize/fork.h"

#include <pthread.h>

_Atomic int64_t tk_fork_number = 1;

static void forked(void) {
    atomic_fetch_add(&tk_fork_number, 1);
}

/* If this fails, the child of a fork is taken for its parent. */
__attribute__((constructor)) static void at_load(void) {
    (void)pthread_atfork(NULL, NULL, forked);
}
