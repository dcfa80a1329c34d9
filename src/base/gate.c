/* SPDX-License-Identifier: MIT */
#include "base/gate.h"

#include <time.h>

bool tk_gate_enter(tk_gate *g) {
    uint32_t old = atomic_load_explicit(&g->word, memory_order_relaxed);
    do {
        if (old & TK_GATE_CLOSED)
            return false;
    } while (!atomic_compare_exchange_weak(&g->word, &old, old + 1));
    return true;
}

void tk_gate_leave(tk_gate *g) {
    uint32_t old = atomic_load_explicit(&g->word, memory_order_relaxed);
    do {
        if (!(old & ~TK_GATE_CLOSED)) /* entered in the parent, forked inside */
            return;
    } while (!atomic_compare_exchange_weak(&g->word, &old, old - 1));
}

bool tk_gate_close(tk_gate *g) {
    return !(atomic_fetch_or(&g->word, TK_GATE_CLOSED) & TK_GATE_CLOSED);
}

void tk_gate_wait(const tk_gate *g, uint32_t milliseconds) {
    while ((atomic_load(&g->word) & ~TK_GATE_CLOSED) && milliseconds--) {
        struct timespec tick = {0, 1000000};
        nanosleep(&tick, NULL);
    }
}

void tk_gate_forked(tk_gate *g) {
    atomic_store(&g->word, 0);
}
