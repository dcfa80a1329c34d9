/* SPDX-License-Identifier: MIT
 *
 * What replaying a graph costs: a chain of small kernels, a graph of a thousand nodes, and what two
 * kernels that do not depend on each other gain from two cores. Beside each the same calls one by
 * one, or for two kernels one of them alone; where that fills all cores itself two take twice as
 * long at best, and else as long as the one. Bars are ratios; a replay of 16 small kernels should
 * take 15 us at most.
 */
#include "bench.h"

#include <tolk/tolk.h>

/* Of all cores, and of one thread. */
static tolk_ctx *ctx, *narrow_ctx;
static tolk_device *device, *narrow;
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

/* Kernels over %d floats, nodes %%0 to %%11. Half of each float: */
static const char half[] = "%%0 = const index %d\n"
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
/* A sine of each float: bound by arithmetic, not by memory. */
static const char sines[] = "%%0 = const index %d\n"
                            "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"
                            "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"
                            "%%3 = range index (%%0) {axis=0, kind=global}\n"
                            "%%4 = index f32 (%%2, %%3)\n"
                            "%%5 = load f32 (%%4)\n"
                            "%%7 = sin f32 (%%5)\n"
                            "%%8 = index f32 (%%1, %%3)\n"
                            "%%9 = store void (%%8, %%7)\n"
                            "%%10 = end void (%%9, %%3)\n"
                            "%%11 = sink void (%%10) {name=\"sines\"}\n";
/* A decaying sum, each step after the one before: nothing for a second thread. */
static const char decay[] = "%%0 = const index %d\n"
                            "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"
                            "%%2 = param f32 (%%0) {slot=1, name=\"x\"}\n"
                            "%%3 = range index (%%0) {axis=0}\n"
                            "%%4 = const index 1\n"
                            "%%5 = const index 0\n"
                            "%%6 = const f32 0\n"
                            "%%7 = const f32 0x1p-1\n"
                            "%%8 = buffer f32 (%%4) {slot=0, space=reg}\n"
                            "%%9 = index f32 (%%8, %%5)\n"
                            "%%10 = store void (%%9, %%6)\n"
                            "%%6001 = after f32 (%%8, %%10, %%3)\n"
                            "%%6002 = index f32 (%%6001, %%5)\n"
                            "%%6003 = load f32 (%%6002)\n"
                            "%%6004 = mul f32 (%%6003, %%7)\n"
                            "%%6005 = index f32 (%%2, %%3)\n"
                            "%%6006 = load f32 (%%6005)\n"
                            "%%6007 = add f32 (%%6004, %%6006)\n"
                            "%%6008 = store void (%%9, %%6007)\n"
                            "%%6009 = end void (%%6008, %%3)\n"
                            "%%6010 = after f32 (%%8, %%10, %%6009)\n"
                            "%%6011 = index f32 (%%6010, %%5)\n"
                            "%%6012 = load f32 (%%6011)\n"
                            "%%6013 = index f32 (%%1, %%5)\n"
                            "%%6014 = store void (%%6013, %%6012)\n"
                            "%%11 = sink void (%%6014) {name=\"decay\"}\n";

/* n calls of a kernel over `elems` floats: each reads what the one before wrote (chain), or all the
 * same buffer; as a graph, or as they are. */
typedef struct work {
    const char *kernel;
    int n, elems, chain, graph;
} work;

/* Input is memory that was written: the system gives reads of other memory one page of zeros. */
static void fill_input(const replay *r, tolk_graph *g, int elems) {
    char text[100];
    const tolk_uop *node;
    tolk_buffer *x = NULL;
    float *v = malloc((size_t)elems * sizeof *v);
    if (!v)
        exit(1);
    for (int i = 0; i < elems; i++)
        v[i] = 1;
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index %d\n%%1 = buffer f32 (%%0) {slot=0}\n", elems);
    check(tolk_parse(g, text, strlen(text), 0, &node, &err), "node");
    check(tolk_bindings_find(r->bindings, node, &x, NULL, &err), "input");
    check(tolk_buffer_copyin(x, 0, v, (size_t)elems * sizeof *v, &err), "copyin");
    free(v);
}

static replay open_replay(work w, tolk_device *on) {
    size_t room = 4096 + (size_t)w.n * 160, at = 0;
    char *text = malloc(room);
    replay r = {NULL, NULL, NULL, NULL};
    tolk_graph *g;
    const tolk_uop *root;
    if (!text)
        exit(1);
    at += (size_t)snprintf(text, room, "tolk.uop 1\n");
    at += (size_t)snprintf(text + at, room - at, w.kernel, w.elems);
    for (int i = 0; i <= w.n; i++)
        at += (size_t)snprintf(text + at, room - at, "%%%d = buffer f32 (%%0) {slot=%d}\n", 20 + i,
                               i);
    for (int i = 0; i < w.n; i++)
        at += (size_t)snprintf(text + at, room - at, "%%%d = call void (%%11, %%%d, %%%d)\n",
                               5000 + i, 21 + i, w.chain ? 20 + i : 20);
    at += (size_t)snprintf(text + at, room - at, "%%9000 = linear void (");
    for (int i = 0; i < w.n; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%%%d", i ? ", " : "", 5000 + i);
    at += (size_t)snprintf(text + at, room - at, ")\n");
    if (w.graph)
        at += (size_t)snprintf(text + at, room - at,
                               "%%9001 = custom_function void (%%9000) {name=\"graph\"}\n"
                               "%%9002 = call void (%%9001)\n%%9003 = linear void (%%9002)\n");
    tolk_ctx *c = on == narrow ? narrow_ctx : ctx;
    check(tolk_graph_create(c, &g), "graph");
    check(tolk_parse(g, text, at, 0, &root, &err), "text");
    check(tolk_linear_create(c, root, &r.linear, &err), "linear");
    check(tolk_bindings_create(on, &r.bindings, &err), "bindings");
    check(tolk_exec_create(r.bindings, r.linear, NULL, &r.exec, &err), "exec");
    fill_input(&r, g, w.elems);
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

/* Two kernels beside one of them, and that on one thread. */
static void overlap(const char *what, const char *kernel, int elems, double bar) {
    char label[80];
    snprintf(label, sizeof label, "2 independent %s", what);
    compare(label, "one of them", open_replay((work){kernel, 2, elems, 0, 1}, device),
            open_replay((work){kernel, 1, elems, 0, 1}, device), bar);
    snprintf(label, sizeof label, "1 of these %s", what);
    compare(label, "on one thread", open_replay((work){kernel, 1, elems, 0, 1}, device),
            open_replay((work){kernel, 1, elems, 0, 1}, narrow), 1);
}

int main(void) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_disk_cache = 1;
    check(tolk_ctx_create(&opts, &ctx, &err), "context");
    check(tolk_device_open(ctx, "CPU", &device, &err), "device");
    opts.threads = 1;
    check(tolk_ctx_create(&opts, &narrow_ctx, &err), "context");
    check(tolk_device_open(narrow_ctx, "CPU", &narrow, &err), "device");
    bench_head();
    compare("16 dependent kernels, 1 K floats", "call by call",
            open_replay((work){half, 16, 1024, 1, 1}, device),
            open_replay((work){half, 16, 1024, 1, 0}, device), 1);
    compare("1,000 dependent kernels, 64 floats", "call by call",
            open_replay((work){half, 1000, 64, 1, 1}, device),
            open_replay((work){half, 1000, 64, 1, 0}, device), 1);
    compare("1,000 kernels of one input", "call by call",
            open_replay((work){half, 1000, 64, 0, 1}, device),
            open_replay((work){half, 1000, 64, 0, 0}, device), 1);
    /* Of one thread each: the one, as nothing in it can be shared out, the other, as it is less
     * than is worth a team. */
    overlap("serial kernels, 400 K steps", decay, 400000, 1.3);
    overlap("kernels, 256 K floats", half, 1 << 18, 1.3);
    /* Of all cores each: one after the other, with a start of the team for each. */
    overlap("kernels, 1 M sines", sines, 1 << 20, 2.1);
    overlap("kernels, 8 M floats", half, 1 << 23, 2.1);
    tolk_ctx_destroy(narrow_ctx);
    tolk_ctx_destroy(ctx);
    return 0;
}
