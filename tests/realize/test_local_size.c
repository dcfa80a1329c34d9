/* SPDX-License-Identifier: MIT
 *
 * Choosing a block: what is tried divides the sizes, and nothing that the caller has is written.
 * SYM and THR are ids of the case collection this project tests against.
 */
#include "kernels.h"

#include "base/ctx.h"
#include "realize/kernel.h"

#include <pthread.h>

/* y[idx0 + 96 idx1] += x[the same] where idx0 < n, for 96 x 5. */
#define ADD_TO                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 480\n"                                                                       \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"                                                   \
    "%3 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=100}\n"                             \
    "%4 = const index 96\n"                                                                        \
    "%5 = const index 5\n"                                                                         \
    "%6 = special index (%4) {name=\"idx0\"}\n"                                                    \
    "%7 = special index (%5) {name=\"idx1\"}\n"                                                    \
    "%8 = mul index (%7, %4)\n"                                                                    \
    "%9 = add index (%8, %6)\n"                                                                    \
    "%10 = cast index (%3)\n"                                                                      \
    "%11 = cmplt bool (%6, %10)\n"                                                                 \
    "%12 = index f32 (%1, %9)\n"                                                                   \
    "%13 = index f32 (%2, %9)\n"                                                                   \
    "%14 = load f32 (%12)\n"                                                                       \
    "%15 = load f32 (%13)\n"                                                                       \
    "%16 = add f32 (%14, %15)\n"                                                                   \
    "%17 = where f32 (%11, %16, %14)\n"                                                            \
    "%18 = store void (%12, %17)\n"                                                                \
    "%19 = sink void (%18) {name=\"add_to\"}\n"

/* y[idx0] = 1, idx0 < n. */
#define OF_N                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=100}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = special index (%1) {name=\"idx0\"}\n"                                                    \
    "%4 = const f32 0x1p+0\n"                                                                      \
    "%5 = index f32 (%2, %3)\n"                                                                    \
    "%6 = store void (%5, %4)\n"                                                                   \
    "%7 = sink void (%6) {name=\"of_n\"}\n"

static rt r;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}
static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

static tolk_args *add_args(tolk_buffer *y, tolk_buffer *x, int32_t n) {
    tolk_args *a = args_of(&r);
    assert_int_equal(tolk_args_buffer(a, 0, y, &err), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 1, x, &err), TOLK_OK);
    assert_int_equal(tolk_args_i32(a, 2, n, &err), TOLK_OK);
    return a;
}

static void check_divides(tolk_dims d) {
    assert_true(d.x >= 1 && d.y >= 1 && d.z == 1 && 96 % d.x == 0 && 5 % d.y == 0);
}

static void test_SYM_07_exact_for_all_values_and_nothing_of_the_caller_is_written(void **state) {
    (void)state;
    tolk_kernel *k = kernel_of(r.cpu, "add_to", ADD_TO);
    tolk_buffer *y = floats(r.cpu, 480, 3), *x = floats(r.cpu, 480, 2);
    tolk_dims local = {0, 0, 0}, again = {0, 0, 0};
    tolk_args *a = add_args(y, x, 57);
    if (tolk_optimize_local_size(k, a, 1, &local, &err))
        fail_msg("%s", err.msg);
    check_divides(local);
    check_floats(y, 3);
    check_floats(x, 2);
    tolk_args_destroy(a);
    static const int32_t values[] = {1, 7, 96, 100};
    for (int v = 0; v < 4; v++) {
        float got[480];
        tolk_buffer *out = floats(r.cpu, 480, 1);
        tolk_dims grid = {96 / local.x, 5 / local.y, 1};
        a = add_args(out, x, values[v]);
        assert_int_equal(tolk_kernel_run(k, a, &grid, &local, 0, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(out, 0, got, sizeof got, &err), TOLK_OK);
        for (int i = 0; i < 480; i++)
            assert_true(got[i] == (i % 96 < values[v] ? 3.0F : 1.0F));
        /* Kept: another seed asks nothing. */
        assert_int_equal(tolk_optimize_local_size(k, a, 99, &again, &err), TOLK_OK);
        assert_memory_equal(&local, &again, sizeof local);
        tolk_args_destroy(a);
        tolk_buffer_unref(out);
    }
    tolk_buffer_unref(y);
    tolk_buffer_unref(x);
    tolk_kernel_unref(k);
}

static void test_one_buffer_as_two_arguments_stays_one(void **state) {
    (void)state;
    tolk_kernel *k = kernel_of(r.cpu, "add_to", ADD_TO);
    tolk_buffer *y = floats(r.cpu, 480, 3);
    tolk_dims local;
    tolk_args *a = add_args(y, y, 96);
    if (tolk_optimize_local_size(k, a, 5, &local, &err))
        fail_msg("%s", err.msg);
    check_floats(y, 3);
    tolk_args_destroy(a);
    /* Never used before. */
    tolk_buffer *fresh;
    assert_int_equal(tolk_alloc_f32(r.cpu, 480, &fresh, &err), TOLK_OK);
    tolk_kernel *other = kernel_of(r.cpu, "add_to", ADD_TO "; another one\n");
    a = add_args(fresh, y, 96);
    assert_int_equal(tolk_optimize_local_size(other, a, 5, &local, &err), TOLK_OK);
    check_divides(local);
    tolk_args_destroy(a);
    tolk_buffer_unref(fresh);
    tolk_buffer_unref(y);
    tolk_kernel_unref(k);
    tolk_kernel_unref(other);
}

/* Each device has a kernel of its own, which is searched for itself. */
static void test_a_block_is_kept_for_its_kernel_and_device(void **state) {
    (void)state;
    rt own;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 2;
    rt_open(&own, NULL, &o);
    tolk_device *d[] = {own.cpu, device_of(&own, "CPU:1")};
    tolk_kernel *k[] = {kernel_of(d[0], "add_to", ADD_TO), kernel_of(d[1], "add_to", ADD_TO)};
    for (int i = 0; i < 2; i++) {
        tolk_dims local, again;
        tolk_args *a = args_of(&own);
        tolk_buffer *y = floats(d[i], 480, 3), *x = floats(d[i], 480, 2);
        assert_int_equal(tolk_args_buffer(a, 0, y, &err), TOLK_OK);
        assert_int_equal(tolk_args_buffer(a, 1, x, &err), TOLK_OK);
        assert_int_equal(tolk_args_i32(a, 2, 57, &err), TOLK_OK);
        assert_true(atomic_load(&k[i]->block) == 0); /* not the other one's */
        assert_int_equal(tolk_optimize_local_size(k[i], a, 4, &local, &err), TOLK_OK);
        check_divides(local);
        assert_true(atomic_load(&k[i]->block) != 0);
        assert_int_equal(tolk_optimize_local_size(k[i], a, 5, &again, &err), TOLK_OK);
        assert_memory_equal(&local, &again, sizeof local);
        check_floats(y, 3);
        tolk_args_destroy(a);
        tolk_buffer_unref(y);
        tolk_buffer_unref(x);
    }
    tolk_kernel_unref(k[0]);
    tolk_kernel_unref(k[1]);
    rt_close(&own);
}

static void test_errors(void **state) {
    (void)state;
    tolk_buffer *y = floats(r.cpu, 480, 3);
    tolk_dims local = {7, 7, 7};
    tolk_kernel *fill = kernel_of(r.cpu, "fill", KERNEL_FILL), *n = kernel_of(r.cpu, "of_n", OF_N);
    tolk_kernel *k = kernel_of(r.cpu, "add_to", ADD_TO);
    tolk_args *a = args_of(&r);
    assert_int_equal(tolk_optimize_local_size(fill, a, 0, &local, &err), TOLK_E_UNSUPPORTED);
    check_contains(err.msg, "kernel fill");
    assert_int_equal(tolk_optimize_local_size(n, a, 0, &local, &err), TOLK_E_UNSUPPORTED);
    check_contains(err.msg, "no constant");
    assert_int_equal(tolk_args_buffer(a, 0, y, &err), TOLK_OK);
    assert_int_equal(tolk_optimize_local_size(k, a, 0, &local, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "missing: 1, 2");
    assert_int_equal(tolk_args_buffer(a, 1, y, &err), TOLK_OK);
    assert_int_equal(tolk_args_i32(a, 2, 101, &err), TOLK_OK);
    assert_int_equal(tolk_optimize_local_size(k, a, 0, &local, &err), TOLK_E_LAUNCH);
    assert_int_equal(tolk_optimize_local_size(NULL, a, 0, &local, &err), TOLK_E_ARG);
    assert_int_equal(tolk_optimize_local_size(k, NULL, 0, &local, &err), TOLK_E_ARG);
    assert_int_equal(tolk_optimize_local_size(k, a, 0, NULL, &err), TOLK_E_ARG);
    assert_true(local.x == 7 && local.y == 7 && local.z == 7);
    check_floats(y, 3);
    tolk_args_destroy(a);
    tolk_buffer_unref(y);
    tolk_kernel_unref(fill);
    tolk_kernel_unref(n);
    tolk_kernel_unref(k);
}

typedef struct job {
    tolk_ctx *ctx;
    tolk_device *device;
    tolk_dims local;
    tolk_status st;
} job;

static void *compile_and_search(void *arg) {
    job *j = arg;
    tolk_kernel *k = NULL;
    tolk_args *a = NULL;
    tolk_buffer *y = NULL, *x = NULL;
    j->st = tolk_kernel_compile(j->device, "add_to", ADD_TO, &k, NULL);
    if (j->st == TOLK_OK)
        j->st = tolk_alloc_f32(j->device, 480, &y, NULL);
    if (j->st == TOLK_OK)
        j->st = tolk_alloc_f32(j->device, 480, &x, NULL);
    if (j->st == TOLK_OK)
        j->st = tolk_buffer_copyin(x, 0, (float[480]){0}, 480 * sizeof(float), NULL);
    if (j->st == TOLK_OK)
        j->st = tolk_args_create(j->ctx, &a, NULL);
    if (j->st == TOLK_OK) {
        (void)tolk_args_buffer(a, 0, y, NULL);
        (void)tolk_args_buffer(a, 1, x, NULL);
        (void)tolk_args_i32(a, 2, 50, NULL);
        j->st = tolk_optimize_local_size(k, a, 3, &j->local, NULL);
    }
    tolk_args_destroy(a);
    tolk_buffer_unref(y);
    tolk_buffer_unref(x);
    tolk_kernel_unref(k);
    return NULL;
}

/* THR-07: searches of several threads that compile at the same time end, and agree. */
static void test_THR_07_fifty_cold_searches_in_parallel(void **state) {
    (void)state;
    enum { RUNS = 50, THREADS = 3 };
    double began = rt_now();
    for (int i = 0; i < RUNS; i++) {
        rt_open(&r, NULL, NULL);
        job j[THREADS];
        pthread_t t[THREADS];
        for (int k = 0; k < THREADS; k++) {
            j[k] = (job){.ctx = r.ctx, .device = r.cpu};
            assert_int_equal(pthread_create(&t[k], NULL, compile_and_search, &j[k]), 0);
        }
        for (int k = 0; k < THREADS; k++) {
            pthread_join(t[k], NULL);
            assert_int_equal(j[k].st, TOLK_OK);
            check_divides(j[k].local);
            assert_memory_equal(&j[k].local, &j[0].local, sizeof j[0].local);
        }
        rt_close(&r);
    }
    assert_true(rt_now() - began < 300);
}

/* Contexts that share nothing: each finds a block that divides, and all end. */
static void test_THR_07_cold_searches_of_several_contexts(void **state) {
    (void)state;
    enum { RUNS = 25, CONTEXTS = 3 };
    double began = rt_now();
    for (int i = 0; i < RUNS; i++) {
        rt own[CONTEXTS];
        job j[CONTEXTS];
        pthread_t t[CONTEXTS];
        for (int k = 0; k < CONTEXTS; k++) {
            rt_open(&own[k], NULL, NULL);
            j[k] = (job){.ctx = own[k].ctx, .device = own[k].cpu};
            assert_int_equal(pthread_create(&t[k], NULL, compile_and_search, &j[k]), 0);
        }
        for (int k = 0; k < CONTEXTS; k++) {
            pthread_join(t[k], NULL);
            assert_int_equal(j[k].st, TOLK_OK);
            check_divides(j[k].local);
            rt_close(&own[k]);
        }
    }
    assert_true(rt_now() - began < 300);
}

static tolk_kernel *oom_kernel;
static tolk_status search_with(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx = r.ctx;
    tolk_allocator old = ctx->al;
    ctx->al = *al;
    tolk_args *a = NULL;
    tolk_buffer *y = NULL;
    tolk_dims local;
    tolk_status st = tolk_alloc_f32(r.cpu, 480, &y, NULL);
    if (st == TOLK_OK)
        st = tolk_args_create(ctx, &a, NULL);
    if (st == TOLK_OK)
        st = tolk_args_buffer(a, 0, y, NULL);
    if (st == TOLK_OK)
        st = tolk_args_buffer(a, 1, y, NULL);
    if (st == TOLK_OK)
        st = tolk_args_i32(a, 2, 50, NULL);
    atomic_store(&oom_kernel->block, 0);
    if (st == TOLK_OK)
        st = tolk_optimize_local_size(oom_kernel, a, 3, &local, NULL);
    tolk_args_destroy(a);
    tolk_buffer_unref(y);
    tolk_device_trim(r.cpu);
    ctx->al = old;
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    oom_kernel = kernel_of(r.cpu, "add_to", ADD_TO);
    assert_true(tk_test_oom(search_with, NULL) > 5);
    tolk_kernel_unref(oom_kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_SYM_07_exact_for_all_values_and_nothing_of_the_caller_is_written),
        TEST(test_one_buffer_as_two_arguments_stays_one),
        TEST(test_a_block_is_kept_for_its_kernel_and_device),
        TEST(test_errors),
        cmocka_unit_test(test_THR_07_fifty_cold_searches_in_parallel),
        cmocka_unit_test(test_THR_07_cold_searches_of_several_contexts),
        TEST(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
