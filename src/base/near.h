/* SPDX-License-Identifier: MIT
 *
 * "Did you mean ...": which names of a table are nearest to a word that is none of them.
 */
#ifndef TK_BASE_NEAR_H
#define TK_BASE_NEAR_H

#include <stddef.h>

enum { TK_NEAR_MAX = 3 };

typedef struct tk_near {
    const char *word;
    size_t n;
    const char *best[TK_NEAR_MAX]; /* the nearest ones so far, in the order of the calls */
    size_t n_best;
    size_t distance; /* of these */
} tk_near;

/* word: n bytes. What is further off than about one edit in three bytes is not near. */
tk_near tk_near_start(const char *word, size_t n);
/* name: outlives *near. */
void tk_near_try(tk_near *near, const char *name);
/* " (did you mean mul or max?)", or "" if there is none near. Returns buf. */
const char *tk_near_text(const tk_near *near, char *buf, size_t cap);

/* How many bytes must be put in, left out, changed, or exchanged with their neighbour to make one
 * word of the other; SIZE_MAX for words of more than 31 bytes. */
size_t tk_near_distance(const char *a, size_t n_a, const char *b, size_t n_b);

#endif
