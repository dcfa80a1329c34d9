/* SPDX-License-Identifier: MIT
 *
 * How long each part of a piece of work took.
 */
#ifndef TK_BASE_PHASES_H
#define TK_BASE_PHASES_H

#include <stdint.h>

enum { TK_PHASES_MAX = 32 };

typedef struct tk_phases {
    uint64_t last_ns; /* when the last one ended, CLOCK_MONOTONIC */
    uint32_t n;
    struct {
        const char *name; /* static text */
        uint64_t ns;
    } at[TK_PHASES_MAX]; /* in the order in which they first ended */
} tk_phases;

uint64_t tk_phases_now_ns(void);
/* No phases; the first one begins now. */
void tk_phases_begin(tk_phases *p);
/* A phase ended now, and the next begins. One of the same name adds to it; more than there is room
 * for are not kept. p may be NULL. */
void tk_phases_mark(tk_phases *p, const char *name);
/* Add a phase that took so long at another time. */
void tk_phases_add(tk_phases *p, const char *name, uint64_t ns);
/* Add those of another list; the next one begins now. */
void tk_phases_append(tk_phases *p, const tk_phases *more);

#endif
