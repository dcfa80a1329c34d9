/* SPDX-License-Identifier: MIT
 *
 * For tests of the running library through its public API alone: contexts that log into a buffer,
 * kernels from text with places to fill in, and what the process looks like from outside.
 */
#ifndef TK_RUNTIME_H
#define TK_RUNTIME_H

#include "support/tk_test.h"

#include <tolk/tolk.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RT_UNUSED __attribute__((unused))

typedef struct rt {
    tolk_ctx *ctx;
    tolk_device *cpu;
    _Atomic int logged; /* messages */
    char log[2048];     /* the last one */
} rt;

static void rt_log(void *user, tolk_log_level level, const char *text) {
    rt *r = user;
    if (level > TOLK_LOG_WARNING)
        return;
    r->logged++;
    snprintf(r->log, sizeof r->log, "%s", text);
}

/* A context with its disk cache in dir; NULL: none. opts: more settings, or NULL. */
RT_UNUSED static void rt_open(rt *r, const char *dir, const tolk_ctx_opts *opts) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    if (opts)
        o = *opts;
    memset(r, 0, sizeof *r);
    o.log = rt_log;
    o.log_user = r;
    o.cache_dir = dir;
    o.no_disk_cache = !dir;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_ctx_create(&o, &r->ctx, &err) || tolk_device_open(r->ctx, "CPU", &r->cpu, &err))
        fail_msg("%s", err.msg);
}

RT_UNUSED static void rt_close(rt *r) {
    tolk_ctx_destroy(r->ctx);
    r->ctx = NULL;
}

/* A context `r` without a disk cache for all tests of a group: setup and teardown of it. */
#define RT_FIXTURE                                                                                 \
    static rt r;                                                                                   \
    static int setup(void **state) {                                                               \
        (void)state;                                                                               \
        rt_open(&r, NULL, NULL);                                                                   \
        return 0;                                                                                  \
    }                                                                                              \
    static int teardown(void **state) {                                                            \
        (void)state;                                                                               \
        rt_close(&r);                                                                              \
        return 0;                                                                                  \
    }

/* Compile a text. Returns the status. */
RT_UNUSED static tolk_status rt_try(rt *r, const char *text, const tolk_compile_opts *opts,
                                    tolk_program **out, tolk_error *err) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_status st = tolk_graph_create(r->ctx, &g);
    if (st)
        return st;
    st = tolk_parse(g, text, strlen(text), 0, &root, err);
    if (!st)
        st = tolk_compile(r->cpu, root, opts, out, err);
    tolk_graph_destroy(g);
    return st;
}

RT_UNUSED static tolk_program *rt_compile(rt *r, const char *text) {
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (rt_try(r, text, NULL, &p, &err))
        fail_msg("%s\n%s", err.msg, text);
    return p;
}

/* A text with printf places; valid until the next call on this thread. */
RT_UNUSED __attribute__((format(printf, 1, 2))) static const char *rt_text(const char *fmt, ...) {
    static _Thread_local char text[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert_true(n > 0 && n < (int)sizeof text);
    return text;
}

/* y[i] = factor x[i], i < n, f32. */
#define RT_SCALE                                                                                   \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"                                                 \
    "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"                                                 \
    "%%3 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%4 = index f32 (%%1, %%3)\n"                                                                 \
    "%%5 = index f32 (%%2, %%3)\n"                                                                 \
    "%%6 = load f32 (%%5)\n"                                                                       \
    "%%7 = const f32 %s\n"                                                                         \
    "%%8 = mul f32 (%%6, %%7)\n"                                                                   \
    "%%9 = store void (%%4, %%8)\n"                                                                \
    "%%10 = end void (%%9, %%3)\n"                                                                 \
    "%%11 = sink void (%%10) {name=\"scale\"}\n"

/* y[i] = x[at[i]], i < n, for x of 100 elements: a size that is a scalar, accesses to be checked.
 */
#define RT_GATHER                                                                                  \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=3, name=\"n\", space=alu, min=0, max=100}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = const index 100\n"                                                                       \
    "%4 = param f32 (%3) {slot=1, name=\"x\"}\n"                                                   \
    "%5 = param i32 (%1) {slot=2}            \n"                                                   \
    "%6 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%7 = index i32 (%5, %6)\n"                                                                    \
    "%8 = load i32 (%7)\n"                                                                         \
    "%9 = cast index (%8)\n"                                                                       \
    "%10 = index f32 (%4, %9)\n"                                                                   \
    "%11 = load f32 (%10)\n"                                                                       \
    "%12 = index f32 (%2, %6)\n"                                                                   \
    "%13 = store void (%12, %11)\n"                                                                \
    "%14 = end void (%13, %6)\n"                                                                   \
    "%15 = sink void (%14) {name=\"gather\"}\n"

/* s = the sum of x, 100,000 elements: partial sums in scratch memory, and a barrier. */
#define RT_SUM                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 100000\n"                                                                    \
    "%1 = param f32 {slot=0, name=\"s\"}\n"                                                        \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"                                                   \
    "%3 = range index (%0) {axis=0, kind=reduce}\n"                                                \
    "%4 = index f32 (%2, %3)\n"                                                                    \
    "%5 = load f32 (%4)\n"                                                                         \
    "%6 = reduce f32 (%5, %3) {op=add}\n"                                                          \
    "%7 = index f32 (%1)\n"                                                                        \
    "%8 = store void (%7, %6)\n"                                                                   \
    "%9 = sink void (%8) {name=\"sum\"}\n"

/* y[i] = x repeated multiplied and added `rounds` times, i < n: work that lasts. */
#define RT_SPIN                                                                                    \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"                                                 \
    "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"                                                 \
    "%%3 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%4 = const index %lld\n"                                                                     \
    "%%5 = range index (%%4) {axis=1, kind=reduce}\n"                                              \
    "%%6 = index f32 (%%2, %%3)\n"                                                                 \
    "%%7 = load f32 (%%6)\n"                                                                       \
    "%%8 = cast f32 (%%5)\n"                                                                       \
    "%%9 = mul f32 (%%7, %%8)\n"                                                                   \
    "%%10 = reduce f32 (%%9, %%5) {op=add}\n"                                                      \
    "%%11 = index f32 (%%1, %%3)\n"                                                                \
    "%%12 = store void (%%11, %%10)\n"                                                             \
    "%%13 = end void (%%12, %%3)\n"                                                                \
    "%%14 = sink void (%%13) {name=\"spin\"}\n"

/* Run y = f(x) over n floats and check that y = factor x. */
RT_UNUSED static int rt_scale_is(const tolk_program *p, int n, float factor) {
    float *x = malloc((size_t)n * 4), *y = malloc((size_t)n * 4);
    if (!x || !y)
        return 0;
    for (int i = 0; i < n; i++) {
        x[i] = (float)i - 7;
        y[i] = -1;
    }
    void *bufs[] = {y, x};
    size_t bytes[] = {(size_t)n * 4, (size_t)n * 4};
    int good = tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL) == TOLK_OK;
    for (int i = 0; good && i < n; i++)
        good = y[i] == factor * x[i];
    free(x);
    free(y);
    return good;
}

RT_UNUSED static double rt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

RT_UNUSED static void rt_sleep(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* ---- folders ---- */

/* A fresh folder; free it with rt_rmdir. */
RT_UNUSED static char *rt_mkdir(void) {
    char *path = strdup("/tmp/tolk-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static int rt_remove(const char *path, const struct stat *s, int flag, struct FTW *at) {
    (void)s, (void)flag, (void)at;
    return remove(path);
}

RT_UNUSED static void rt_rmdir(char *path) {
    nftw(path, rt_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* ---- the process ---- */

/* Lines of /proc/self/maps; *both counts those that are writable and executable. */
RT_UNUSED static int rt_maps(int *both) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;
    *both = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *perms = strchr(line, ' ');
        n++;
        *both += perms && perms[2] == 'w' && perms[3] == 'x';
    }
    if (f)
        fclose(f);
    return n;
}

/* What may be done with the memory at an address: "rw-p", "r-xp"; "" if nothing is there. */
RT_UNUSED static void rt_perms(const void *at, char perms[5]) {
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char line[512], found[5];
    perms[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, found) == 3 && (uintptr_t)at >= from &&
            (uintptr_t)at < to)
            memcpy(perms, found, sizeof found);
    if (f)
        fclose(f);
}

/* Resident bytes. */
RT_UNUSED static double rt_rss(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    long all = 0, resident = 0;
    if (f) {
        if (fscanf(f, "%ld %ld", &all, &resident) != 2)
            resident = 0;
        fclose(f);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

#endif
