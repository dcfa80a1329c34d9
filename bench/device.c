/* SPDX-License-Identifier: MIT
 *
 * What the device layer costs: launches through a queue, on the caller's thread and on the worker,
 * events, memory from the free list, copies. Times are of this thread's clock; ratios are tolk's
 * time divided by that of the loop, the copy or the launch without a queue beside it.
 */
#include "bench.h"

#include <tolk/tolk.h>

#include <string.h>
#include <unistd.h>

enum { N = 4096 };
static const size_t BIG = (size_t)64 << 20;

static tolk_ctx *ctx;
static tolk_device *device;
static tolk_error err = TOLK_ERROR_INIT;

static void check(tolk_status st, const char *what) {
    if (st == TOLK_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, err.msg);
    exit(1);
}

/* A row whose bar is a time. */
static void row_of(const char *work, double seconds, const char *bar) {
    printf("| %-34s | %-28s | %10.4f | %10s | %6s | %6s |\n", work, "-", seconds * 1e6, "-", "-",
           bar);
    fflush(stdout);
}

/* ---- launches ---- */

static const char source[] = "tolk.uop 1\n"
                             "%0 = const index 4096\n"
                             "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                             "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"
                             "%3 = range index (%0) {axis=0, kind=global}\n"
                             "%4 = index f32 (%2, %3)\n"
                             "%5 = load f32 (%4)\n"
                             "%6 = const f32 3\n"
                             "%7 = mul f32 (%5, %6)\n"
                             "%8 = index f32 (%1, %3)\n"
                             "%9 = store void (%8, %7)\n"
                             "%10 = end void (%9, %3)\n"
                             "%11 = sink void (%10) {name=\"scale\"}\n";

static tolk_kernel *kernel;
static tolk_program *program;
static tolk_args *args;
static tolk_buffer *buffers[2];
static float *x, *y;

static void run_loop(void *user) {
    (void)user;
    for (int i = 0; i < N; i++)
        y[i] = x[i] * 3;
    __asm__ volatile("" ::: "memory");
}

static void run_program(void *user) {
    (void)user;
    void *bufs[] = {y, x};
    size_t bytes[] = {N * 4, N * 4};
    tolk_launch(program, bufs, bytes, 2, NULL, 0, NULL);
}

static void run_kernel(void *user) {
    (void)user;
    tolk_kernel_run(kernel, args, NULL, NULL, 0, NULL);
}

static void run_source(void *user) {
    (void)user;
    tolk_run(device, "scale", source, args, NULL, NULL, 0, NULL);
}

static tolk_bindings *bindings;
static tolk_linear *linear;
static tolk_exec *exec;

static void run_exec(void *user) {
    (void)user;
    tolk_exec_run(exec, NULL, NULL);
}

/* A linear of one call of the kernel, on the buffers that it has. */
static void open_exec(void) {
    static const char calls[] = "%20 = buffer f32 (%0) {slot=0}\n"
                                "%21 = buffer f32 (%0) {slot=1}\n"
                                "%22 = call void (%11, %20, %21)\n"
                                "%23 = linear void (%22)\n";
    char text[sizeof source + sizeof calls];
    tolk_graph *g = NULL;
    const tolk_uop *root;
    snprintf(text, sizeof text, "%s%s", source, calls);
    check(tolk_graph_create(ctx, &g), "graph");
    check(tolk_parse(g, text, strlen(text), 0, &root, &err), "parse");
    check(tolk_linear_create(ctx, root, &linear, &err), "linear");
    check(tolk_bindings_create(device, &bindings, &err), "bindings");
    for (size_t i = 0; i < 2; i++)
        check(tolk_bindings_seed(bindings, tolk_uop_src(tolk_uop_src(root, 0), i + 1), buffers[i],
                                 &err),
              "seed");
    tolk_graph_destroy(g);
    check(tolk_exec_create(bindings, linear, NULL, &exec, &err), "exec");
}

static void open_kernel(void) {
    tolk_graph *g = NULL;
    const tolk_uop *root;
    check(tolk_kernel_compile(device, "scale", source, &kernel, &err), "compile");
    check(tolk_graph_create(ctx, &g), "graph");
    check(tolk_parse(g, source, sizeof source - 1, 0, &root, &err), "parse");
    check(tolk_compile(device, root, NULL, &program, &err), "compile");
    tolk_graph_destroy(g);
    check(tolk_args_create(ctx, &args, &err), "args");
    void *at[2];
    for (uint32_t i = 0; i < 2; i++) {
        check(tolk_alloc_f32(device, N, &buffers[i], &err), "buffer");
        check(tolk_args_buffer(args, i, buffers[i], &err), "argument");
        check(tolk_buffer_map(buffers[i], &at[i], &err), "map");
    }
    y = at[0];
    x = at[1];
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    open_exec();
}

static void launches(void) {
    bench_entry e[] = {{"loop", run_loop, NULL, 0},
                       {"tolk_launch", run_program, NULL, 0},
                       {"tolk_kernel_run", run_kernel, NULL, 0},
                       {"tolk_run", run_source, NULL, 0},
                       {"tolk_exec_run", run_exec, NULL, 0}};
    bench_run(e, 5, 2e-3);
    row_of("the loop alone, n=4096", e[0].seconds, "-");
    row_of("tolk_launch, n=4096", e[1].seconds, "0.5 us");
    row_of("tolk_kernel_run, n=4096, idle queue", e[2].seconds, "0.5 us");
    row_of("tolk_run, n=4096, cached source", e[3].seconds, "-");
    row_of("tolk_exec_run, one call, n=4096", e[4].seconds, "1 us+");
}

/* ---- the queue ---- */

static tolk_status nothing(void *arg, tolk_error *e) {
    (void)arg, (void)e;
    return TOLK_OK;
}

static void hand_over(void *user) {
    (void)user;
    tolk_queue_submit(device, nothing, NULL, NULL, NULL, NULL);
    tolk_device_await(device, NULL);
}

static void after_idle(void) {
    double times[40], plain[40];
    for (int i = 0; i < 40; i++) {
        usleep(20000);
        double t = bench_now();
        hand_over(NULL);
        times[i] = bench_now() - t;
        usleep(20000);
        t = bench_now();
        run_kernel(NULL);
        plain[i] = bench_now() - t;
    }
    double idle = bench_median(times, 40), launch = bench_median(plain, 40);
    row_of("task after 20 ms idle, and wait", idle, "40 us");
    row_of("tolk_kernel_run after 20 ms idle", launch, "-");
}

static tolk_event *event;
static volatile int sink;

static void ask(void *user) {
    (void)user;
    for (int i = 0; i < 100; i++)
        sink = tolk_event_is_done(event);
}

static void record(void *user) {
    (void)user;
    tolk_event *e;
    tolk_event_record(device, &e, NULL);
    tolk_event_destroy(e);
}

static void queue(void) {
    check(tolk_event_record(device, &event, &err), "event");
    bench_entry e[] = {{"hand-off", hand_over, NULL, 0},
                       {"is_done x 100", ask, NULL, 0},
                       {"record and destroy", record, NULL, 0}};
    bench_run(e, 3, 2e-3);
    row_of("task to a hot worker, and wait", e[0].seconds, "2 us");
    row_of("tolk_event_is_done", e[1].seconds / 100, "-");
    row_of("tolk_event_record and _destroy", e[2].seconds, "-");
    tolk_event_destroy(event);
}

/* ---- memory ---- */

static void reuse(void *user) {
    size_t n = *(const size_t *)user;
    tolk_buffer *b;
    void *at;
    tolk_alloc_f32(device, n, &b, NULL);
    tolk_buffer_map(b, &at, NULL); /* it gets its memory at first use */
    tolk_buffer_unref(b);
}

static void take_malloc(void *user) {
    void *volatile p = malloc(*(const size_t *)user * 4);
    free(p);
}

static tolk_buffer *big[2];
static char *host[2];

static void copy_in(void *user) {
    (void)user;
    tolk_buffer_copyin(big[0], 0, host[0], BIG, NULL);
}
static void copy_out(void *user) {
    (void)user;
    tolk_buffer_copyout(big[0], 0, host[1], BIG, NULL);
}
static void copy_across(void *user) {
    (void)user;
    tolk_buffer_copy(big[1], big[0], NULL);
    tolk_device_await(device, NULL);
}
static void copy_host(void *user) {
    (void)user;
    memcpy(host[1], host[0], BIG);
    __asm__ volatile("" ::: "memory");
}

static void memory(void) {
    static size_t sizes[] = {256, 65536};
    bench_entry e[] = {{"256", reuse, &sizes[0], 0},
                       {"65536", reuse, &sizes[1], 0},
                       {"malloc 256", take_malloc, &sizes[0], 0},
                       {"malloc 65536", take_malloc, &sizes[1], 0}};
    bench_run(e, 4, 2e-3);
    row_of("buffer of 1 KiB from the free list", e[0].seconds, "0.1 us");
    row_of("buffer of 256 KiB from the list", e[1].seconds, "0.1 us");
    row_of("malloc and free of 1 KiB", e[2].seconds, "-");
    row_of("malloc and free of 256 KiB", e[3].seconds, "-");
    for (int i = 0; i < 2; i++) {
        check(tolk_alloc_f32(device, BIG / 4, &big[i], &err), "buffer");
        host[i] = aligned_alloc(64, BIG); /* as device memory is: else rows do not compare */
        if (!host[i])
            exit(1);
        memset(host[i], i, BIG);
    }
    bench_entry c[] = {{"in", copy_in, NULL, 0},
                       {"out", copy_out, NULL, 0},
                       {"across", copy_across, NULL, 0},
                       {"memcpy", copy_host, NULL, 0}};
    bench_run(c, 4, 2e-2);
    bench_row("copyin, 64 MiB", "memcpy", c[0].seconds, c[3].seconds, 1.05);
    bench_row("copyout, 64 MiB", "memcpy", c[1].seconds, c[3].seconds, 1.05);
    bench_row("tolk_buffer_copy, 64 MiB, and wait", "memcpy", c[2].seconds, c[3].seconds, 1.05);
    for (int i = 0; i < 2; i++) {
        tolk_buffer_unref(big[i]);
        free(host[i]);
    }
}

int main(void) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_disk_cache = 1;
    check(tolk_ctx_create(&opts, &ctx, &err), "context");
    check(tolk_device_open(ctx, "CPU", &device, &err), "device");
    open_kernel();
    bench_head();
    launches();
    queue();
    after_idle();
    memory();
    for (int i = 0; i < 2; i++)
        tolk_buffer_unref(buffers[i]);
    tolk_exec_destroy(exec);
    tolk_bindings_destroy(bindings);
    tolk_linear_unref(linear);
    tolk_args_destroy(args);
    tolk_program_unref(program);
    tolk_kernel_unref(kernel);
    tolk_ctx_destroy(ctx);
    return 0;
}
