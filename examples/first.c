/* SPDX-License-Identifier: MIT
 *
 * The first program of README.md: build a kernel, compile it, run it.
 */
#include <tolk/tolk.h>

#include <stdio.h>

int main(void) {
    enum { N = 1000 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)i;

    tolk_error err = TOLK_ERROR_INIT;
    tolk_ctx *ctx = NULL;
    tolk_graph *g = NULL;
    tolk_device *cpu = NULL;
    tolk_program *program = NULL;
    int failed = tolk_ctx_create(NULL, &ctx, &err) || tolk_graph_create(ctx, &g) ||
                 tolk_device_open(ctx, "CPU", &cpu, &err);

    if (!failed) {
        /* for each i: y[i] = 2 x[i] + 1 */
        const int64_t dims[] = {N};
        const tolk_uop *out = tolk_param(g, TOLK_F32, dims, 1, 0, "y");
        const tolk_uop *in = tolk_param(g, TOLK_F32, dims, 1, 1, "x");
        const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
        const tolk_uop *v = tolk_load(g, tolk_index(g, in, &i, 1));
        v = tolk_mul(g, v, tolk_const_float(g, TOLK_F32, 2));
        v = tolk_add(g, v, tolk_const_float(g, TOLK_F32, 1));
        const tolk_uop *all = tolk_end(g, tolk_store(g, tolk_index(g, out, &i, 1), v), &i, 1);
        const tolk_uop *kernel = tolk_sink(g, &all, 1, "first");

        /* Builders pass NULL on and the graph keeps the first error: one check is enough. */
        void *bufs[] = {y, x};
        size_t bytes[] = {sizeof y, sizeof x};
        failed = tolk_graph_error(g, &err) || tolk_compile(cpu, kernel, NULL, &program, &err) ||
                 tolk_launch(program, bufs, bytes, 2, NULL, 0, &err);
    }
    if (failed)
        fprintf(stderr, "failed: %s\n", err.msg);
    else
        printf("y[0] = %g, y[1] = %g, y[999] = %g\n", y[0], y[1], y[999]);

    tolk_program_unref(program);
    tolk_graph_destroy(g);
    tolk_ctx_destroy(ctx);
    return failed ? 1 : 0;
}
