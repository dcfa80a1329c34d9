/* SPDX-License-Identifier: MIT
 *
 * For tests that run kernels on devices: sources, buffers with values, what is in a buffer.
 */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include "support/runtime.h"

/* y[i] = 7, 16 elements. */
#define KERNEL_FILL                                                                                \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%3 = index f32 (%1, %2)\n"                                                                    \
    "%4 = const f32 0x1.cp+2\n"                                                                    \
    "%5 = store void (%3, %4)\n"                                                                   \
    "%6 = end void (%5, %2)\n"                                                                     \
    "%7 = sink void (%6) {name=\"fill\"}\n"

/* y[i] = x[i] + a, 16 elements; slots 1, 4 and 2. */
#define KERNEL_ADD                                                                                 \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=1, name=\"y\"}\n"                                                   \
    "%2 = param f32 (%0) {slot=4, name=\"x\"}\n"                                                   \
    "%3 = param f32 {slot=2, name=\"a\", space=alu}\n"                                             \
    "%4 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%5 = index f32 (%2, %4)\n"                                                                    \
    "%6 = load f32 (%5)\n"                                                                         \
    "%7 = add f32 (%6, %3)\n"                                                                      \
    "%8 = index f32 (%1, %4)\n"                                                                    \
    "%9 = store void (%8, %7)\n"                                                                   \
    "%10 = end void (%9, %4)\n"                                                                    \
    "%11 = sink void (%10) {name=\"add\"}\n"

/* Two kernels of one source: y[i] = 1, y[i] = 2. */
#define KERNEL_TWO                                                                                 \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%3 = index f32 (%1, %2)\n"                                                                    \
    "%4 = const f32 0x1p+0\n"                                                                      \
    "%5 = const f32 0x1p+1\n"                                                                      \
    "%6 = store void (%3, %4)\n"                                                                   \
    "%7 = store void (%3, %5)\n"                                                                   \
    "%8 = end void (%6, %2)\n"                                                                     \
    "%9 = end void (%7, %2)\n"                                                                     \
    "%10 = sink void (%8) {name=\"ones\"}\n"                                                       \
    "%11 = sink void (%9) {name=\"twos\"}\n"                                                       \
    "%12 = group void (%10, %11)\n"

enum { N = 16 };

RT_UNUSED static tolk_device *device_of(rt *r, const char *name) {
    tolk_device *d = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_device_open(r->ctx, name, &d, &err))
        fail_msg("%s", err.msg);
    return d;
}

/* A context `r` with the devices d0 and d1 for each test: setup and teardown of it. */
#define TWO_DEVICES                                                                                \
    static rt r;                                                                                   \
    static tolk_device *d0, *d1;                                                                   \
    static int open_devices(uint32_t synchronous, uint32_t threads) {                              \
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;                                                      \
        o.cpu_devices = 2;                                                                         \
        o.synchronous = synchronous;                                                               \
        o.threads = threads;                                                                       \
        rt_open(&r, NULL, &o);                                                                     \
        d0 = r.cpu;                                                                                \
        d1 = device_of(&r, "CPU:1");                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    static int setup(void **state) {                                                               \
        (void)state;                                                                               \
        return open_devices(0, 2);                                                                 \
    }                                                                                              \
    RT_UNUSED static int setup_synchronous(void **state) {                                         \
        (void)state;                                                                               \
        return open_devices(1, 2);                                                                 \
    }                                                                                              \
    static int teardown(void **state) {                                                            \
        (void)state;                                                                               \
        rt_close(&r);                                                                              \
        return 0;                                                                                  \
    }

/* A buffer of n floats, all of them v. */
RT_UNUSED static tolk_buffer *floats(tolk_device *d, size_t n, float v) {
    tolk_buffer *b = NULL;
    assert_int_equal(tolk_alloc_f32(d, n, &b, NULL), TOLK_OK);
    float *x = malloc(n * 4 + 1);
    for (size_t i = 0; i < n; i++)
        x[i] = v;
    assert_int_equal(tolk_buffer_copyin(b, 0, x, n * 4, NULL), TOLK_OK);
    free(x);
    return b;
}

/* Are all floats of a buffer v? */
RT_UNUSED static void check_floats(tolk_buffer *b, float v) {
    tolk_buffer_info info;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_buffer_get_info(b, &info), TOLK_OK);
    float *x = malloc(info.bytes + 1);
    if (tolk_buffer_copyout(b, 0, x, info.bytes, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < info.n; i++)
        if (x[i] != v)
            fail_msg("element %zu is %g, expected %g", i, (double)x[i], (double)v);
    free(x);
}

RT_UNUSED static tolk_kernel *kernel_of(tolk_device *d, const char *name, const char *source) {
    tolk_kernel *k = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_kernel_compile(d, name, source, &k, &err))
        fail_msg("%s", err.msg);
    return k;
}

RT_UNUSED static tolk_args *args_of(rt *r) {
    tolk_args *a = NULL;
    assert_int_equal(tolk_args_create(r->ctx, &a, NULL), TOLK_OK);
    return a;
}

/* Run a kernel whose only argument is a buffer in slot 0. */
RT_UNUSED static tolk_status run_one(rt *r, tolk_kernel *k, tolk_buffer *b, tolk_error *err) {
    tolk_args *a = args_of(r);
    assert_int_equal(tolk_args_buffer(a, 0, b, NULL), TOLK_OK);
    tolk_status st = tolk_kernel_run(k, a, NULL, NULL, 0, err);
    tolk_args_destroy(a);
    return st;
}

/* A test in the context of its file. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#define check_contains(text, part)                                                                 \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("\"%s\" does not say \"%s\"", text, part);                                    \
    } while (0)

#endif
