/* SPDX-License-Identifier: MIT
 *
 * Room for what goes deep: the stack of whoever calls the library may be small, and the code
 * generator needs much, more for larger kernels.
 */
#ifndef TK_BASE_DEEP_H
#define TK_BASE_DEEP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Run fn(arg) on a thread with a stack of that many bytes and wait for it; where the system gives
 * no more threads, here, if the stack has a quarter of that left. False: neither was possible. The
 * thread gets no signals but those of its own faults, and while it runs the caller is no point of
 * cancellation. */
bool tk_deep_run(size_t bytes, void (*fn)(void *arg), void *arg);
/* Bytes of this thread's stack below the caller's frame; 0 if nobody knows: the frame is on another
 * stack than the thread's own. Cheap from the second call of a thread on. */
size_t tk_deep_left(void);

/* Start a thread with so much stack, which gets no signals. *thread is to be joined. False: there
 * is none. */
bool tk_deep_start(size_t bytes, void *(*fn)(void *arg), void *arg, pthread_t *thread);

#endif
