/* SPDX-License-Identifier: MIT
 *
 * Who is inside of a library that exit() takes apart. exit() runs while other threads go on; LLVM
 * and OpenMP destroy what those use, and the process crashes. A gate lets exit() wait until nobody
 * is inside, and lets nobody in any more. Gates belong to the process, so they are static.
 */
#ifndef TK_BASE_GATE_H
#define TK_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tk_gate {
    _Atomic uint32_t word; /* TK_GATE_CLOSED, and the number of threads inside */
} tk_gate;
#define TK_GATE_CLOSED 0x80000000u

/* False: it is closed. */
bool tk_gate_enter(tk_gate *g);
void tk_gate_leave(tk_gate *g);
/* Close it: who is inside goes on. False: it was closed already. */
bool tk_gate_close(tk_gate *g);
/* Wait until nobody is inside, at most that long. */
void tk_gate_wait(const tk_gate *g, uint32_t milliseconds);
/* For the child of a fork: its parent's threads are not inside. */
void tk_gate_forked(tk_gate *g);

#endif
