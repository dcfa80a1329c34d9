/* SPDX-License-Identifier: MIT
 *
 * Three kernels on two devices, recorded once and replayed with other inputs and sizes: the squares
 * of x[0..n) on CPU, which go to CPU:1, are weighted there, and summed.
 */
#include <stdio.h>
#include <tolk/tolk.h>

enum { MOST = 4096 };

/* What runs: `x` is the input of each run, n its size, buffer 3 the result. */
static const char text[] = "tolk.uop 1\n"
                           "%0 = const index 4096\n"
                           "%1 = const index 1\n"
                           "%2 = const index 0\n"
                           "%3 = param i32 {slot=9, name=\"n\", space=alu, min=1, max=4096}\n"
                           "%4 = cast index (%3)\n"
                           "%5 = param f32 (%0) {slot=0, name=\"y\"}\n"
                           "%6 = param f32 (%0) {slot=1, name=\"x\"}\n"
                           "%7 = range index (%4) {axis=0, kind=global}\n"
                           "%8 = index f32 (%5, %7)\n"
                           "%9 = index f32 (%6, %7)\n"
                           "%10 = load f32 (%9)\n"
                           /* y[i] = x[i] * x[i] */
                           "%20 = mul f32 (%10, %10)\n"
                           "%21 = store void (%8, %20)\n"
                           "%22 = end void (%21, %7)\n"
                           "%23 = sink void (%22) {name=\"square\"}\n"
                           /* y[i] = x[i] * (i + 1) */
                           "%30 = add index (%7, %1)\n"
                           "%31 = cast f32 (%30)\n"
                           "%32 = mul f32 (%10, %31)\n"
                           "%33 = store void (%8, %32)\n"
                           "%34 = end void (%33, %7)\n"
                           "%35 = sink void (%34) {name=\"weigh\"}\n"
                           /* s[0] = x[0] + ... + x[n - 1] */
                           "%40 = param f32 (%1) {slot=0, name=\"s\"}\n"
                           "%41 = range index (%4) {axis=0, kind=reduce}\n"
                           "%42 = index f32 (%6, %41)\n"
                           "%43 = load f32 (%42)\n"
                           "%44 = reduce f32 (%43, %41) {op=add}\n"
                           "%45 = index f32 (%40, %2)\n"
                           "%46 = store void (%45, %44)\n"
                           "%47 = sink void (%46) {name=\"sum\"}\n"
                           /* their buffers, and the calls */
                           "%50 = param f32 (%0) {slot=0, name=\"x\", device=\"CPU\"}\n"
                           "%51 = buffer f32 (%0) {slot=0, device=\"CPU\"}\n"
                           "%52 = buffer f32 (%0) {slot=1, device=\"CPU:1\"}\n"
                           "%53 = buffer f32 (%0) {slot=2, device=\"CPU:1\"}\n"
                           "%54 = buffer f32 (%1) {slot=3, device=\"CPU:1\"}\n"
                           "%60 = call void (%23, %51, %50)\n"
                           "%61 = copy f32 (%51) {device=\"CPU:1\"}\n"
                           "%62 = call void (%61, %52, %51)\n"
                           "%63 = call void (%35, %53, %52)\n"
                           "%64 = call void (%47, %54, %53)\n"
                           "%65 = linear void (%60, %62, %63, %64)\n";

/* What the pipeline needs to run. */
typedef struct pipeline {
    tolk_linear *linear;
    int calls; /* of the function below */
} pipeline;

/* Hands over the work: it runs, or is recorded. */
static tolk_status work(void *user, tolk_bindings *bindings, const tolk_run_args *args,
                        tolk_error *e) {
    pipeline *p = user;
    p->calls++;
    return tolk_realize_linear(bindings, p->linear, NULL, 0, NULL, args, e);
}

int main(void) {
    static float x[MOST];
    tolk_error e = TOLK_ERROR_INIT;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.cpu_devices = 2;
    tolk_ctx *ctx = NULL;
    tolk_graph *g = NULL;
    tolk_device *d[2];
    const tolk_uop *root = NULL, *result = NULL, *input[2] = {NULL};
    tolk_buffer *in[2] = {NULL}, *sum = NULL;
    tolk_bindings *bindings = NULL;
    tolk_jit *jit = NULL;
    pipeline p = {NULL, 0};
    int bad = tolk_ctx_create(&opts, &ctx, &e) || tolk_device_open(ctx, "CPU:0", &d[0], &e) ||
              tolk_device_open(ctx, "CPU:1", &d[1], &e) || tolk_graph_create(ctx, &g) ||
              tolk_parse(g, text, sizeof text - 1, 0, &root, &e) ||
              tolk_linear_create(ctx, root, &p.linear, &e) ||
              tolk_bindings_create(d[0], &bindings, &e);

    /* Two inputs, in turn, and where the result goes: a node stands for each. */
    if (!bad) {
        const tolk_uop *sizes[] = {tolk_const_int(g, TOLK_INDEX, MOST),
                                   tolk_const_int(g, TOLK_INDEX, 1)};
        for (int i = 0; i < 3; i++) {
            const tolk_attr attrs[] = {{.key = "slot", .i = i < 2 ? 10 + i : 3},
                                       {.key = "device", .s = i < 2 ? "CPU" : "CPU:1"}};
            const tolk_uop *node =
                tolk_uop_new(g, tolk_op_find("buffer"), TOLK_F32, &sizes[i / 2], 1, attrs, 2);
            *(i < 2 ? &input[i] : &result) = node;
        }
        bad = tolk_graph_error(g, &e) ||
              tolk_buffer_create(d[0], TOLK_F32, MOST, NULL, &in[0], &e) ||
              tolk_buffer_create(d[0], TOLK_F32, MOST, NULL, &in[1], &e) ||
              tolk_buffer_create(d[1], TOLK_F32, 1, NULL, &sum, &e) ||
              tolk_bindings_seed(bindings, input[0], in[0], &e) ||
              tolk_bindings_seed(bindings, input[1], in[1], &e) ||
              tolk_bindings_seed(bindings, result, sum, &e) ||
              tolk_jit_create(bindings, work, &p, NULL, &jit, &e);
    }

    static const char *const how[] = {"runs", "is recorded", "is replayed", "is replayed",
                                      "is replayed"};
    static const int sizes[] = {10, 10, 4, 1000, 100};
    for (int k = 0; k < 5 && !bad; k++) {
        for (int i = 0; i < MOST; i++)
            x[i] = (float)(k + 1);
        tolk_var n = {"n", sizes[k]};
        tolk_run_args args = TOLK_RUN_INIT;
        args.vars = &n;
        args.n_vars = 1;
        args.inputs = &input[k % 2];
        args.n_inputs = 1;
        float s;
        bad = tolk_buffer_copyin(in[k % 2], 0, x, sizeof x, &e) || tolk_jit_call(jit, &args, &e) ||
              tolk_buffer_copyout(sum, 0, &s, sizeof s, &e);
        if (!bad)
            printf("%-11s x = %d, n = %4d: sum %.0f\n", how[k], k + 1, sizes[k], s);
    }
    if (bad)
        fprintf(stderr, "failed: %s\n", e.msg);
    else
        printf("the function was called %d times\n", p.calls);

    tolk_jit_destroy(jit);
    tolk_bindings_destroy(bindings);
    tolk_linear_unref(p.linear);
    tolk_buffer_unref(in[0]);
    tolk_buffer_unref(in[1]);
    tolk_buffer_unref(sum);
    tolk_graph_destroy(g);
    tolk_ctx_destroy(ctx);
    return bad;
}
