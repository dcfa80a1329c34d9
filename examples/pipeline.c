/* SPDX-License-Identifier: MIT
 *
 * Three kernels on two devices, recorded once and replayed with other inputs and sizes: the squares
 * of x[0..n) on CPU, which go to CPU:1, are weighted there, and summed.
 */
#include <stdio.h>
#include <tolk/tolk.h>

enum { MOST = 4096 };

/* y[i] = x[i] * (w ? i + 1 : x[i]), i < n */
static const tolk_uop *elementwise(tolk_graph *g, const tolk_uop *n, const char *name, int w) {
    const tolk_uop *y = tolk_param_sym(g, TOLK_F32, &n, 1, 0, "y");
    const tolk_uop *x = tolk_param_sym(g, TOLK_F32, &n, 1, 1, "x");
    const tolk_uop *i = tolk_range(g, n, 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *v = tolk_load(g, tolk_index(g, x, &i, 1)),
                   *one = tolk_const_int(g, TOLK_INDEX, 1);
    v = tolk_mul(g, v, w ? tolk_cast(g, tolk_add(g, i, one), TOLK_F32) : v);
    const tolk_uop *all = tolk_end(g, tolk_store(g, tolk_index(g, y, &i, 1), v), &i, 1);
    return tolk_sink(g, &all, 1, name);
}

/* s[0] = x[0] + ... + x[n - 1] */
static const tolk_uop *sum_of(tolk_graph *g, const tolk_uop *n) {
    static const int64_t one[] = {1};
    const tolk_uop *s = tolk_param(g, TOLK_F32, one, 1, 0, "s");
    const tolk_uop *x = tolk_param_sym(g, TOLK_F32, &n, 1, 1, "x");
    const tolk_uop *i = tolk_range(g, n, 0, TOLK_AXIS_REDUCE),
                   *zero = tolk_const_int(g, TOLK_INDEX, 0);
    const tolk_uop *v =
        tolk_reduce(g, TOLK_REDUCE_ADD, tolk_load(g, tolk_index(g, x, &i, 1)), &i, 1);
    v = tolk_store(g, tolk_index(g, s, &zero, 1), v);
    return tolk_sink(g, &v, 1, "sum");
}

/* The calls: param 0 is the input of each run, n its size, *result where the sum goes. In text this
 * is pipeline.uop, with its last two calls in a graph, which the jit makes itself. */
static const tolk_uop *build(tolk_graph *g, const tolk_uop **result) {
    static const int64_t one[] = {1};
    const tolk_uop *n = tolk_cast(g, tolk_variable(g, TOLK_I32, 2, "n", 1, MOST), TOLK_INDEX);
    const tolk_uop *in = tolk_param_sym(g, TOLK_F32, &n, 1, 0, "in");
    const tolk_uop *a = tolk_buffer_node_sym(g, TOLK_F32, &n, 1, 0, "CPU");
    const tolk_uop *b = tolk_buffer_node_sym(g, TOLK_F32, &n, 1, 1, "CPU:1");
    const tolk_uop *c = tolk_buffer_node_sym(g, TOLK_F32, &n, 1, 2, "CPU:1");
    const tolk_uop *s = *result = tolk_buffer_node(g, TOLK_F32, one, 1, 3, "CPU:1");
    const tolk_uop *square[] = {a, in}, *move[] = {b, a}, *weigh[] = {c, b}, *sum[] = {s, c};
    const tolk_uop *calls[] = {tolk_call(g, elementwise(g, n, "square", 0), square, 2),
                               tolk_call(g, tolk_copy(g, a, "CPU:1"), move, 2),
                               tolk_call(g, elementwise(g, n, "weigh", 1), weigh, 2),
                               tolk_call(g, sum_of(g, n), sum, 2)};
    return tolk_linear_node(g, calls, 4);
}

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
    const tolk_uop *result = NULL, *input[2] = {NULL};
    tolk_buffer *in[2] = {NULL}, *sum = NULL;
    tolk_bindings *bindings = NULL;
    tolk_jit *jit = NULL;
    pipeline p = {NULL, 0};
    int bad = tolk_ctx_create(&opts, &ctx, &e) || tolk_device_open(ctx, "CPU:0", &d[0], &e) ||
              tolk_device_open(ctx, "CPU:1", &d[1], &e) || tolk_graph_create(ctx, &g) ||
              tolk_bindings_create(d[0], &bindings, &e);

    /* Two inputs, in turn, and where the result goes: a node stands for each. */
    if (!bad) {
        static const int64_t most[] = {MOST};
        const tolk_uop *root = build(g, &result);
        for (int i = 0; i < 2; i++)
            input[i] = tolk_buffer_node(g, TOLK_F32, most, 1, 10 + i, "CPU");
        /* Builders pass NULL on and the graph keeps the first error: one check is enough. */
        bad = tolk_graph_error(g, &e) || tolk_linear_create(ctx, root, &p.linear, &e) ||
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
        tolk_var n = tolk_var_int("n", sizes[k]);
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
