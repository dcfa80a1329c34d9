/* SPDX-License-Identifier: MIT */
#include "base/phases.h"

#include <string.h>
#include <time.h>

uint64_t tk_phases_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tk_phases_begin(tk_phases *p) {
    p->n = 0;
    p->last_ns = tk_phases_now_ns();
}

void tk_phases_add(tk_phases *p, const char *name, uint64_t ns) {
    uint32_t i = 0;
    while (i < p->n && strcmp(p->at[i].name, name) != 0)
        i++;
    if (i == TK_PHASES_MAX)
        return;
    if (i == p->n) {
        p->at[i].name = name;
        p->at[i].ns = 0;
        p->n++;
    }
    p->at[i].ns += ns;
}

void tk_phases_mark(tk_phases *p, const char *name) {
    if (!p)
        return;
    uint64_t now = tk_phases_now_ns();
    tk_phases_add(p, name, now - p->last_ns);
    p->last_ns = now;
}

void tk_phases_append(tk_phases *p, const tk_phases *more) {
    for (uint32_t i = 0; i < more->n; i++)
        tk_phases_add(p, more->at[i].name, more->at[i].ns);
    p->last_ns = tk_phases_now_ns();
}
