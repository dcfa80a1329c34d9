/* SPDX-License-Identifier: MIT
 *
 * Two CPU devices, a kernel from source, a slab pool, and events between their queues.
 */
#include <stdio.h>
#include <tolk/tolk.h>

enum { N = 1000 };
static const char source[] = "tolk.uop 1\n%0 = const index 1000\n" /* y[i] = x[i] * x[i] */
                             "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                             "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"
                             "%3 = range index (%0) {axis=0, kind=global}\n"
                             "%4 = index f32 (%2, %3)\n"
                             "%5 = load f32 (%4)\n"
                             "%6 = mul f32 (%5, %5)\n%7 = index f32 (%1, %3)\n"
                             "%8 = store void (%7, %6)\n"
                             "%9 = end void (%8, %3)\n"
                             "%10 = sink void (%9) {name=\"square\"}\n";

int main(void) {
    static float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    tolk_error e = TOLK_ERROR_INIT;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.cpu_devices = 2;
    tolk_ctx *ctx = NULL;
    tolk_device *d[2];
    tolk_buffer *in[2] = {NULL}, *out[2] = {NULL};
    tolk_args *args[2] = {NULL};
    tolk_event *done = NULL;
    int bad = tolk_ctx_create(&opts, &ctx, &e) || tolk_device_open(ctx, "CPU:0", &d[0], &e) ||
              tolk_device_open(ctx, "CPU:1", &d[1], &e);
    for (int i = 0; i < 2 && !bad; i++) /* x and its square, in one slab of each device */
        bad = tolk_pool_alloc(d[i], 1, 2 * sizeof x, 64, TOLK_POOL_DEFAULT, &e) ||
              tolk_buffer_in_pool(d[i], 1, 0, TOLK_F32, N, &in[i], &e) ||
              tolk_buffer_in_pool(d[i], 1, sizeof x, TOLK_F32, N, &out[i], &e) ||
              tolk_args_create(ctx, &args[i], &e) || tolk_args_buffer(args[i], 0, out[i], &e) ||
              tolk_args_buffer(args[i], 1, in[i], &e);
    /* CPU squares x; CPU:1, once that is done, takes the result and squares it again. */
    bad = bad || tolk_buffer_copyin(in[0], 0, x, sizeof x, &e) ||
          tolk_run(d[0], "square", source, args[0], NULL, NULL, 0, &e) ||
          tolk_event_record(d[0], &done, &e) || tolk_device_wait_for(d[1], done, &e) ||
          tolk_buffer_copy(in[1], out[0], &e) ||
          tolk_run(d[1], "square", source, args[1], NULL, NULL, 0, &e) ||
          tolk_buffer_copyout(out[1], 0, y, sizeof y, &e);
    if (bad)
        fprintf(stderr, "failed: %s\n", e.msg);
    else
        printf("2^4 = %g, 3^4 = %g\n", y[2], y[3]);
    for (int i = 0; i < 2; i++) {
        tolk_args_destroy(args[i]);
        tolk_buffer_unref(in[i]);
        tolk_buffer_unref(out[i]);
    }
    tolk_event_destroy(done);
    tolk_ctx_destroy(ctx);
    return bad;
}
