/* SPDX-License-Identifier: MIT
 *
 * Timing for the benchmarks: rounds of each contestant in turn, so that a machine whose speed
 * drifts treats all alike; the figure of each is the median of its rounds.
 */
#ifndef TK_BENCH_H
#define TK_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads of this process: what others do on the machine adds little. */
static inline double bench_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int bench_compare(const void *pa, const void *pb) {
    double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

static inline double bench_median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, bench_compare);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

typedef struct bench_entry {
    const char *name;
    void (*run)(void *user);
    void *user;
    double seconds; /* of one run: the result */
} bench_entry;

enum { BENCH_ROUNDS = 15 };

/* Fill seconds of every entry. least: seconds that one round of an entry should take. */
static inline void bench_run(bench_entry *e, int n, double least) {
    double times[8][BENCH_ROUNDS];
    long reps[8];
    for (int i = 0; i < n; i++) {
        reps[i] = 1;
        e[i].run(e[i].user); /* warm */
        for (;;) {
            double t = bench_now();
            for (long r = 0; r < reps[i]; r++)
                e[i].run(e[i].user);
            t = bench_now() - t;
            if (t > least)
                break;
            reps[i] = t < least / 16 ? reps[i] * 8 : reps[i] * 2;
        }
    }
    for (int round = 0; round < BENCH_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            double t = bench_now();
            for (long r = 0; r < reps[i]; r++)
                e[i].run(e[i].user);
            times[i][round] = (bench_now() - t) / (double)reps[i];
        }
    for (int i = 0; i < n; i++)
        e[i].seconds = bench_median(times[i], BENCH_ROUNDS);
}

/* One row of the table: work, tolk, peer, ratio, bar. */
static inline void bench_row(const char *work, const char *peer, double tolk, double other,
                             double bar) {
    printf("| %-34s | %-28s | %10.3f | %10.3f | %6.2f | %6.2f |\n", work, peer, tolk * 1e6,
           other * 1e6, tolk / other, bar);
    fflush(stdout);
}

static inline void bench_head(void) {
    printf("| %-34s | %-28s | %10s | %10s | %6s | %6s |\n", "work", "peer", "tolk us", "peer us",
           "ratio", "bar");
    printf("|---|---|---|---|---|---|\n");
}

#endif
