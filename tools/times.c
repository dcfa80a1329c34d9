/* SPDX-License-Identifier: MIT
 *
 * How long runs took.
 */
#include "tool.h"

#include <stdlib.h>
#include <time.h>

double tk_times_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tk_times_median(double *us, size_t n) {
    qsort(us, n, sizeof *us, by_value);
    return n % 2 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2;
}
