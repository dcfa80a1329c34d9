/* SPDX-License-Identifier: MIT */
#include "base/near.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 31 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t tk_near_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    if (n_a > LONGEST || n_b > LONGEST)
        return SIZE_MAX;
    size_t d[LONGEST + 1][LONGEST + 1]; /* between the first i bytes of a and the first k of b */
    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = i;
    for (size_t k = 0; k <= n_b; k++)
        d[0][k] = k;
    for (size_t i = 1; i <= n_a; i++)
        for (size_t k = 1; k <= n_b; k++) {
            size_t one = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            d[i][k] = least(one, 1 + least(d[i - 1][k], d[i][k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = least(d[i][k], 1 + d[i - 2][k - 2]);
        }
    return d[n_a][n_b];
}

tk_near tk_near_start(const char *word, size_t n) {
    return (tk_near){.word = word, .n = n, .distance = (n + 1) / 3};
}

void tk_near_try(tk_near *near, const char *name) {
    size_t d = tk_near_distance(near->word, near->n, name, strlen(name));
    if (d > near->distance || d == 0)
        return;
    if (d < near->distance)
        near->n_best = 0;
    near->distance = d;
    if (near->n_best < TK_NEAR_MAX)
        near->best[near->n_best++] = name;
}

const char *tk_near_text(const tk_near *near, char *buf, size_t cap) {
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < near->n_best && at < cap; i++) {
        const char *between = i == 0 ? " (did you mean " : i + 1 < near->n_best ? ", " : " or ";
        at += (size_t)snprintf(buf + at, cap - at, "%s%s", between, near->best[i]);
    }
    if (at && at < cap)
        snprintf(buf + at, cap - at, "?)");
    return buf;
}
