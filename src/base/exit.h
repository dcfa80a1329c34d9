/* SPDX-License-Identifier: MIT
 *
 * What exit() takes apart, and when. Handlers run in reverse order of their registration, and a C++
 * library registers the destructor of a static object when it first makes that object: in the
 * middle of its work, after any handler that its user could have registered before. So a thread
 * that is in such a library for the first time may have its tables destroyed under it, whatever its
 * user registers with atexit.
 */
#ifndef TK_BASE_EXIT_H
#define TK_BASE_EXIT_H

#include <stdbool.h>

/* From now on call `first` before each destructor that the shared library around the address
 * `inside` registers from now on. `first` may be called many times. Called once in a process,
 * before the library is used by this one; this library stays loaded from then on. False: this
 * system links shared libraries in another way, or the library is no shared one; nothing was
 * changed. */
bool tk_exit_before(const void *inside, void (*first)(void));

#endif
