/* SPDX-License-Identifier: MIT
 *
 * What replaying a graph costs: a chain of small kernels, a graph of a thousand nodes, and what two
 * kernels that do not depend on each other gain from two cores. Beside each the same calls one by
 * one, or for the last the one kernel alone. Bars are ratios; a replay of 16 small kernels should
 * take 15 us at most.
 */
#include "bench.h"

#include <tolk/tolk.h>

static tolk_ctx *ctx;
static tolk_device *device;
static tolk_error err = TOLK_ERROR_INIT;

static void check(tolk_status st, const char *what) {
    if (st == TOLK_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, err.msg);
    exit(1);
}

/* What is run again and again. */
typedef struct replay {
    tolk_linear *linear;
    tolk_bindings *bindings;
    tolk_exec *exec;
    const tolk_run_args *args;
} replay;

static const char kernel[] = "%%0 = const index %d\n"
                             "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"
                             "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"
                             "%%3 = range index (%%0) {axis=0, kind=global}\n"
                             "%%4 = index f32 (%%2, %%3)\n"
                             "%%5 = load f32 (%%4)\n"
                             "%%6 = const f32 0x1p-1\n"
                             "%%7 = mul f32 (%%5, %%6)\n"
                             "%%8 = index f32 (%%1, %%3)\n"
                             "%%9 = store void (%%8, %%7)\n"
                             "%%10 = end void (%%9, %%3)\n"
                             "%%11 = sink void (%%10) {name=\"half\"}\n";

/* n calls of a kernel over `elems` floats: each reads what the one before wrote (chain), or all the
 * same buffer; as a graph, or as they are. */
static replay open_replay(int n, int elems, int chain, int graph) {
    size_t room = 4096 + (size_t)n * 160, at = 0;
    char *text = malloc(room);
    replay r = {NULL, NULL, NULL, NULL};
    tolk_graph *g;
    const tolk_uop *root;
    if (!text)
        exit(1);
    at += (size_t)snprintf(text, room, "tolk.uop 1\n");
    at += (size_t)snprintf(text + at, room - at, kernel, elems);
    for (int i = 0; i <= n; i++)
        at += (size_t)snprintf(text + at, room - at, "%%%d = buffer f32 (%%0) {slot=%d}\n", 20 + i,
                               i);
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "%%%d = call void (%%11, %%%d, %%%d)\n",
                               5000 + i, 21 + i, chain ? 20 + i : 20);
    at += (size_t)snprintf(text + at, room - at, "%%9000 = linear void (");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%%%d", i ? ", " : "", 5000 + i);
    at += (size_t)snprintf(text + at, room - at, ")\n");
    if (graph)
        at += (size_t)snprintf(text + at, room - at,
                               "%%9001 = custom_function void (%%9000) {name=\"graph\"}\n"
                               "%%9002 = call void (%%9001)\n%%9003 = linear void (%%9002)\n");
    check(tolk_graph_create(ctx, &g), "graph");
    check(tolk_parse(g, text, at, 0, &root, &err), "text");
    check(tolk_linear_create(ctx, root, &r.linear, &err), "linear");
    check(tolk_bindings_create(device, &r.bindings, &err), "bindings");
    check(tolk_exec_create(r.bindings, r.linear, NULL, &r.exec, &err), "exec");
    tolk_graph_destroy(g);
    free(text);
    return r;
}

static void close_replay(replay *r) {
    tolk_exec_destroy(r->exec);
    tolk_bindings_destroy(r->bindings);
    tolk_linear_unref(r->linear);
}

static void run(void *user) {
    static const tolk_run_args wait = {(uint32_t)sizeof(tolk_run_args), 0, 1, NULL, 0, NULL, 0};
    const replay *r = user;
    check(tolk_exec_run(r->exec, &wait, &err), "run");
}

static void compare(const char *work, const char *peer, replay a, replay b, double bar) {
    bench_entry e[] = {{"graph", run, &a, 0}, {"peer", run, &b, 0}};
    bench_run(e, 2, 5e-3);
    bench_row(work, peer, e[0].seconds, e[1].seconds, bar);
    close_replay(&a);
    close_replay(&b);
}

int main(void) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_disk_cache = 1;
    check(tolk_ctx_create(&opts, &ctx, &err), "context");
    check(tolk_device_open(ctx, "CPU", &device, &err), "device");
    bench_head();
    compare("16 dependent kernels, 1 K floats", "call by call", open_replay(16, 1024, 1, 1),
            open_replay(16, 1024, 1, 0), 1);
    compare("1,000 dependent kernels, 64 floats", "call by call", open_replay(1000, 64, 1, 1),
            open_replay(1000, 64, 1, 0), 1);
    compare("1,000 kernels of one input", "call by call", open_replay(1000, 64, 0, 1),
            open_replay(1000, 64, 0, 0), 1);
    compare("2 independent kernels, 256 K floats", "one of them", open_replay(2, 1 << 18, 0, 1),
            open_replay(1, 1 << 18, 0, 1), 1.3);
    tolk_ctx_destroy(ctx);
    return 0;
}
