/* SPDX-License-Identifier: MIT
 *
 * Launch cost, memory-bound kernels against hand-written loops, functions against SLEEF and
 * libmvec, and sizes that are no multiple of the vector. Prints one table; ratios are tolk's time
 * divided by the peer's, the bar is the most the ratio may be.
 */
#include "bench.h"
#include "peers.h"

#include <math.h>
#include <tolk/tolk.h>

typedef struct kernel {
    tolk_program *p;
    void *bufs[3];
    size_t bytes[3];
    size_t n;
} kernel;

static tolk_ctx *ctx;
static tolk_device *device;
static double launch_seconds; /* of one element */

static void fail(const char *what, const tolk_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(1);
}

static void run_kernel(void *user) {
    kernel *k = user;
    tolk_launch(k->p, k->bufs, k->bytes, k->n, NULL, 0, NULL);
}

static tolk_program *compile(const char *text) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_graph *g = NULL;
    const tolk_uop *root;
    tolk_program *p = NULL;
    if (tolk_graph_create(ctx, &g) != TOLK_OK ||
        tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK ||
        tolk_compile(device, root, NULL, &p, &err) != TOLK_OK)
        fail("compile", &err);
    tolk_graph_destroy(g);
    return p;
}

/* y = f(x...) over n elements; body uses %x (and %z) for the loaded values and names %r. */
static tolk_program *elementwise(long n, int two, const char *body) {
    char text[2048];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index %ld\n%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"
             "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n%s"
             "%%4 = range index (%%0) {axis=0, kind=global}\n%%5 = index f32 (%%1, %%4)\n"
             "%%6 = index f32 (%%2, %%4)\n%%7 = load f32 (%%6)\n%s%s"
             "%%21 = store void (%%5, %%20)\n%%22 = end void (%%21, %%4)\n"
             "%%23 = sink void (%%22) {name=\"k\"}\n",
             n, two ? "%3 = param f32 (%0) {slot=2, name=\"z\"}\n" : "",
             two ? "%8 = index f32 (%3, %4)\n%9 = load f32 (%8)\n" : "", body);
    return compile(text);
}

static tolk_program *sum_of(long n) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "tolk.uop 1\n%%0 = const index %ld\n%%1 = const index 1\n"
        "%%2 = param f32 (%%1) {slot=0, name=\"y\"}\n%%3 = param f32 (%%0) {slot=1, name=\"x\"}\n"
        "%%4 = range index (%%0) {axis=0, kind=reduce}\n%%5 = index f32 (%%3, %%4)\n"
        "%%6 = load f32 (%%5)\n%%7 = reduce f32 (%%6, %%4) {op=add}\n%%8 = const index 0\n"
        "%%9 = index f32 (%%2, %%8)\n%%10 = store void (%%9, %%7)\n"
        "%%11 = sink void (%%10) {name=\"sum\"}\n",
        n);
    return compile(text);
}

static float *array(long n) {
    float *a = aligned_alloc(4096, ((size_t)n * 4 + 8191) & ~(size_t)4095);
    for (long i = 0; i < n; i++)
        a[i] = (float)(i % 1000) * 0.01f - 5;
    return a;
}

/* ---- hand-written loops ---- */

typedef struct loop {
    float *y;
    const float *x, *z;
    long n;
    volatile float sink;
} loop;

static void hand_add(void *user) {
    loop *l = user;
    if (l->n < 500000) {
        peer_add(l->y, l->x, l->z, l->n, 0);
        return;
    }
#pragma omp parallel for schedule(static)
    for (long b = 0; b < l->n; b += 1 << 16)
        peer_add(l->y + b, l->x + b, l->z + b, l->n - b < 1 << 16 ? l->n - b : 1 << 16, 0);
}

/* The tuned STREAM add: stores that do not read their line first. */
static void stream_add(void *user) {
    loop *l = user;
#pragma omp parallel for schedule(static)
    for (long b = 0; b < l->n; b += 1 << 16)
        peer_add(l->y + b, l->x + b, l->z + b, l->n - b < 1 << 16 ? l->n - b : 1 << 16, 1);
}

static void hand_sum(void *user) {
    loop *l = user;
    if (l->n < 500000) {
        l->sink = peer_sum(l->x, l->n);
        return;
    }
    float s = 0;
#pragma omp parallel for schedule(static) reduction(+ : s)
    for (long b = 0; b < l->n; b += 1 << 16)
        s += peer_sum(l->x + b, l->n - b < 1 << 16 ? l->n - b : 1 << 16);
    l->sink = s;
}

typedef void map_fn(float *y, const float *x, long n);

typedef struct library {
    map_fn *map;
    loop *l;
} library;

static void run_library(void *user) {
    library *f = user;
    f->map(f->l->y, f->l->x, f->l->n);
}

static void compare(const char *work, const char *peer, kernel *k, void (*fn)(void *), void *l,
                    double bar) {
    bench_entry e[2] = {{"tolk", run_kernel, k, 0}, {peer, fn, l, 0}};
    bench_run(e, 2, k->bytes[1] > 4000000 ? 0.02 : 0.002);
    bench_row(work, peer, e[0].seconds, e[1].seconds, bar);
}

/* The bar is the loop's time / 0.95 and one launch. */
static void compare_loop(const char *work, kernel *k, void (*fn)(void *), void *l) {
    bench_entry e[2] = {{"tolk", run_kernel, k, 0}, {"loop", fn, l, 0}};
    bench_run(e, 2, k->bytes[1] > 4000000 ? 0.02 : 0.002);
    bench_row(work, "hand-written", e[0].seconds, e[1].seconds,
              1 / 0.95 + launch_seconds / e[1].seconds);
}

static void memory_bound(void) {
    static const long sizes[] = {1000, 4096, 16384, 262144, 4194304, 33554432};
    char name[64];
    for (int i = 0; i < 6; i++) {
        long n = sizes[i];
        loop l = {array(n), array(n), array(n), n, 0};
        kernel k = {elementwise(n, 1, "%20 = add f32 (%7, %9)\n"),
                    {l.y, (void *)l.x, (void *)l.z},
                    {(size_t)n * 4, (size_t)n * 4, (size_t)n * 4},
                    3};
        snprintf(name, sizeof name, "add f32 n=%ld", n);
        compare_loop(name, &k, hand_add, &l);
        if (n > 4000000)
            compare(name, "tuned STREAM", &k, stream_add, &l, 1.05);
        tolk_program_unref(k.p);
        float y;
        kernel s = {sum_of(n), {&y, (void *)l.x}, {4, (size_t)n * 4}, 2};
        snprintf(name, sizeof name, "sum f32 n=%ld", n);
        compare_loop(name, &s, hand_sum, &l);
        tolk_program_unref(s.p);
        free(l.y);
        free((void *)l.x);
        free((void *)l.z);
    }
}

static void functions(void) {
    static const char *const names[] = {"exp", "log", "sin"};
    long n = 4096;
    for (int i = 0; i < 3; i++) {
        loop l = {array(n), array(n), NULL, n, 0};
        if (i == 1)
            for (long j = 0; j < n; j++)
                ((float *)l.x)[j] = fabsf(l.x[j]) + 0.01f;
        char body[64], work[64];
        snprintf(body, sizeof body, "%%20 = %s f32 (%%7)\n", names[i]);
        snprintf(work, sizeof work, "%s f32 n=4096", names[i]);
        kernel k = {elementwise(n, 0, body), {l.y, (void *)l.x}, {(size_t)n * 4, (size_t)n * 4}, 2};
#ifdef TOLK_HAVE_SLEEF
        map_fn *sleef[] = {sleef_exp, sleef_log, sleef_sin};
        compare(work, "SLEEF 1.0 ULP", &k, run_library, &(library){sleef[i], &l}, 1.0);
#else
        printf("| %-34s | SLEEF is absent |\n", work);
#endif
#ifdef TOLK_HAVE_MVEC
        map_fn *mvec[] = {mvec_exp, mvec_log, mvec_sin};
        compare(work, "libmvec (4 ULP)", &k, run_library, &(library){mvec[i], &l}, 1.0);
#else
        printf("| %-34s | libmvec is absent |\n", work);
#endif
        tolk_program_unref(k.p);
        free(l.y);
        free((void *)l.x);
    }
}

static void odd_sizes(void) {
    static const long pairs[][2] = {{1023, 1024}, {4095, 4096}, {1009, 1024}, {100, 112}};
    for (int i = 0; i < 4; i++) {
        float *x = array(5000), *y = array(5000), *z = array(5000);
        kernel k[2];
        for (int j = 0; j < 2; j++) {
            size_t b = (size_t)pairs[i][j] * 4;
            k[j] = (kernel){
                elementwise(pairs[i][j], 1, "%20 = add f32 (%7, %9)\n"), {y, x, z}, {b, b, b}, 3};
        }
        bench_entry e[2] = {{"odd", run_kernel, &k[0], 0}, {"even", run_kernel, &k[1], 0}};
        bench_run(e, 2, 0.002);
        char work[64], peer[64];
        snprintf(work, sizeof work, "add f32 n=%ld", pairs[i][0]);
        snprintf(peer, sizeof peer, "tolk, n=%ld", pairs[i][1]);
        bench_row(work, peer, e[0].seconds, e[1].seconds, 1.10);
        for (int j = 0; j < 2; j++)
            tolk_program_unref(k[j].p);
        free(x);
        free(y);
        free(z);
    }
}

static void empty_loop(void *user) {
    loop *l = user;
    peer_add(l->y, l->x, l->z, l->n, 0);
}

static void launches(void) {
    long n = 4096;
    loop l = {array(n), array(n), array(n), n, 0};
    kernel k = {elementwise(n, 1, "%20 = add f32 (%7, %9)\n"),
                {l.y, (void *)l.x, (void *)l.z},
                {(size_t)n * 4, (size_t)n * 4, (size_t)n * 4},
                3};
    kernel one_element = {elementwise(1, 1, "%20 = add f32 (%7, %9)\n"),
                          {l.y, (void *)l.x, (void *)l.z},
                          {4, 4, 4},
                          3};
    bench_entry e[3] = {{"tolk", run_kernel, &k, 0},
                        {"loop", empty_loop, &l, 0},
                        {"launch", run_kernel, &one_element, 0}};
    bench_run(e, 3, 0.005);
    launch_seconds = e[2].seconds;
    printf("| warm launch, inline, n=4096 add: %.3f us (bar 0.5 us); the loop itself: %.3f us; a "
           "launch of one element: %.3f us |\n",
           e[0].seconds * 1e6, e[1].seconds * 1e6, e[2].seconds * 1e6);
    tolk_program_unref(one_element.p);
    tolk_program_unref(k.p);
    /* Two threads, hot and after 20 ms idle. */
    long m = 400000;
    loop big = {array(m), array(m), array(m), m, 0};
    kernel kb = {elementwise(m, 1, "%20 = add f32 (%7, %9)\n"),
                 {big.y, (void *)big.x, (void *)big.z},
                 {(size_t)m * 4, (size_t)m * 4, (size_t)m * 4},
                 3};
    enum { TIMES = 61 };
    double hot[TIMES], idle[TIMES], one[TIMES];
    for (int i = 0; i < TIMES; i++) {
        run_kernel(&kb);
        double t = bench_now();
        run_kernel(&kb);
        hot[i] = bench_now() - t;
        t = bench_now();
        empty_loop(&big);
        one[i] = bench_now() - t;
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        t = bench_now();
        run_kernel(&kb);
        idle[i] = bench_now() - t;
    }
    printf(
        "| n=400000 add: two threads hot %.1f us, after 20 ms idle %.1f us, one-thread loop %.1f "
        "us (bar: one-thread + 40 us) |\n",
        bench_median(hot, TIMES) * 1e6, bench_median(idle, TIMES) * 1e6,
        bench_median(one, TIMES) * 1e6);
    tolk_program_unref(kb.p);
}

int main(void) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_disk_cache = 1;
    if (tolk_ctx_create(&opts, &ctx, &err) != TOLK_OK ||
        tolk_device_open(ctx, "CPU", &device, &err) != TOLK_OK)
        fail("context", &err);
    char *text;
    size_t len;
    if (tolk_device_debug_info(device, &text, &len) == TOLK_OK) {
        printf("%s\n\n", text);
        tolk_free_text(ctx, text);
    }
    launches();
    printf("\n");
    bench_head();
    odd_sizes();
    functions();
    memory_bound();
    tolk_ctx_destroy(ctx);
    return 0;
}
