/* SPDX-License-Identifier: MIT
 *
 * More elements than 31 and 32 bits count, through the public API: whole arrays where there is
 * memory for them, sparse ones elsewhere. Case ids are those of the collection this project tests
 * against.
 */
#include "support/runtime.h"

#include <pthread.h>
#include <sys/mman.h>

RT_FIXTURE

/* Zeros that take memory only where they are written. */
static void *sparse(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* Is there that much memory, and some more for others? */
static bool there_is(double bytes) {
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024 > bytes + 1e9;
}

static void launch(const tolk_program *p, void *const *bufs, const size_t *bytes, size_t n,
                   const int64_t *vals, size_t n_vals) {
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_launch(p, bufs, bytes, n, vals, n_vals, &err))
        fail_msg("%s", err.msg);
}

/* ---- whole arrays ---- */

#define BIG_N ((size_t)1 << 31 | 8)

/* BIG-01: fill 2^31 + 8 bytes with 1, set one at a computed index, and sum all of them. */
static void test_BIG_01_fill_set_and_sum_past_31_bits(void **state) {
    (void)state;
    if (!there_is((double)BIG_N))
        skip();
    unsigned char *y = sparse(BIG_N);
    void *bufs[] = {y, y};
    size_t bytes[] = {BIG_N, BIG_N};
    tolk_program *p = rt_compile(
        &r, rt_text("tolk.uop 1\n%%0 = const index %zu\n%%1 = param u8 (%%0) {slot=0}\n"
                    "%%2 = range index (%%0) {axis=0, kind=global}\n%%3 = index u8 (%%1, %%2)\n"
                    "%%4 = const u8 1\n%%5 = store void (%%3, %%4)\n%%6 = end void (%%5, %%2)\n"
                    "%%7 = sink void (%%6) {name=\"fill\"}\n",
                    BIG_N));
    launch(p, bufs, bytes, 1, NULL, 0);
    tolk_program_unref(p);
    /* out[row * 131072 + column] with both from the launch: 16384 * 131072 is 2^31 exactly */
    p = rt_compile(&r, rt_text("tolk.uop 1\n%%0 = const index %zu\n"
                               "%%1 = param u8 (%%0) {slot=0, name=\"out\"}\n"
                               "%%2 = param i32 {slot=1, name=\"row\", space=alu}\n"
                               "%%3 = param i32 {slot=2, name=\"column\", space=alu}\n"
                               "%%4 = cast index (%%2)\n%%5 = const index 131072\n"
                               "%%6 = mul index (%%4, %%5)\n%%7 = cast index (%%3)\n"
                               "%%8 = add index (%%6, %%7)\n%%9 = index u8 (%%1, %%8)\n"
                               "%%10 = const u8 7\n%%11 = store void (%%9, %%10)\n"
                               "%%12 = sink void (%%11) {name=\"set\"}\n",
                               BIG_N));
    int64_t at[] = {16384, 5};
    launch(p, bufs, bytes, 1, at, 2);
    assert_int_equal(y[((size_t)1 << 31) + 5], 7);
    assert_int_equal(y[5], 1);
    assert_int_equal(y[BIG_N - 1], 1);
    /* the first index past the end, and one whose low 32 bits are inside */
    static const int64_t outside[][2] = {{16384, 8}, {-1, 0}, {32768, 5}, {INT32_MAX, INT32_MAX}};
    for (int i = 0; i < 4; i++) {
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tolk_launch(p, bufs, bytes, 1, outside[i], 2, &err), TOLK_E_RANGE);
        long long index = (long long)outside[i][0] * 131072 + outside[i][1];
        assert_non_null(strstr(err.msg, "\"out\""));
        assert_non_null(strstr(err.msg, rt_text("index %lld ", index)));
    }
    tolk_program_unref(p);
    p = rt_compile(
        &r, rt_text("tolk.uop 1\n%%0 = const index %zu\n%%1 = const index 1\n"
                    "%%2 = param i64 (%%1) {slot=0}\n%%3 = param u8 (%%0) {slot=1}\n"
                    "%%4 = range index (%%0) {axis=0, kind=reduce}\n%%5 = index u8 (%%3, %%4)\n"
                    "%%6 = load u8 (%%5)\n%%7 = cast i64 (%%6)\n"
                    "%%8 = reduce i64 (%%7, %%4) {op=add}\n%%9 = const index 0\n"
                    "%%10 = index i64 (%%2, %%9)\n%%11 = store void (%%10, %%8)\n"
                    "%%12 = sink void (%%11) {name=\"sum\"}\n",
                    BIG_N));
    int64_t sum = 0;
    bufs[0] = &sum;
    bytes[0] = sizeof sum;
    launch(p, bufs, bytes, 2, NULL, 0);
    assert_true(sum == 2147483662); /* 2^31 + 8 ones, and 6 more */
    tolk_program_unref(p);
    munmap(y, BIG_N);
}

/* BIG-01, BIG-05: a matrix of 16385 rows of 131072 bytes, the last of which begins at 2^31. */
static void test_BIG_05_rows_and_columns_past_31_bits(void **state) {
    (void)state;
    const size_t rows = 16385, columns = 131072, n = rows * columns;
    unsigned char *y = sparse(n);
    tolk_program *p = rt_compile(
        &r, rt_text("tolk.uop 1\n%%0 = const index %zu\n%%1 = const index %zu\n"
                    "%%2 = stack index (%%0, %%1)\n%%3 = param u8 (%%2) {slot=0}\n"
                    "%%4 = range index (%%0) {axis=0, kind=global}\n%%5 = const index %zu\n"
                    "%%6 = index u8 (%%3, %%4, %%5)\n%%7 = cast u8 (%%4)\n%%8 = const u8 1\n"
                    "%%9 = or u8 (%%7, %%8)\n%%10 = store void (%%6, %%9)\n"
                    "%%11 = end void (%%10, %%4)\n%%12 = sink void (%%11) {name=\"column\"}\n",
                    rows, columns, columns - 1));
    void *bufs[] = {y};
    size_t bytes[] = {n};
    launch(p, bufs, bytes, 1, NULL, 0);
    for (size_t i = 0; i < rows; i++)
        assert_int_equal(y[i * columns + columns - 1], (i & 255) | 1);
    assert_int_equal(y[n - 2], 0);
    /* one byte too few is seen in 64 bits */
    bytes[0] = n - 1;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, rt_text("%zu", n)));
    bytes[0] = n - ((size_t)1 << 32 >> 1); /* as 32 bits have it */
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, &err), TOLK_E_LAUNCH);
    tolk_program_unref(p);
    munmap(y, n);
}

/* BIG-05: gathers with indices past 32 bits that are data. */
static void test_BIG_05_gathered_indices_past_32_bits(void **state) {
    (void)state;
    enum { N = 67 };
    const size_t n = ((size_t)1 << 33) + 9;
    unsigned char *x = sparse(n), y[N];
    int64_t at[N];
    tolk_program *p = rt_compile(
        &r, rt_text("tolk.uop 1\n%%0 = const index %zu\n%%1 = const index %d\n"
                    "%%2 = param u8 (%%1) {slot=0}\n%%3 = param u8 (%%0) {slot=1}\n"
                    "%%4 = param i64 (%%1) {slot=2}\n"
                    "%%5 = range index (%%1) {axis=0, kind=global}\n%%6 = index i64 (%%4, %%5)\n"
                    "%%7 = load i64 (%%6)\n%%8 = cast index (%%7)\n%%9 = index u8 (%%3, %%8)\n"
                    "%%10 = load u8 (%%9)\n%%11 = index u8 (%%2, %%5)\n"
                    "%%12 = store void (%%11, %%10)\n%%13 = end void (%%12, %%5)\n"
                    "%%14 = sink void (%%13) {name=\"gather\"}\n",
                    n, N));
    for (int i = 0; i < N; i++) {
        at[i] = (int64_t)(n - 1 - (size_t)i * 120000000);
        x[at[i]] = (unsigned char)(i + 1);
    }
    void *bufs[] = {y, x, at};
    size_t bytes[] = {sizeof y, n, sizeof at};
    launch(p, bufs, bytes, 3, NULL, 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(y[i], i + 1);
    at[5] = (int64_t)n;
    at[6] += (int64_t)1 << 40;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, NULL, 0, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, rt_text("%zu", n)));
    for (int i = 0; i < N; i++)
        assert_int_equal(y[i], i == 5 || i == 6 ? 0 : i + 1);
    tolk_program_unref(p);
    munmap(x, n);
}

/* ---- BIG-03: products that do not fit ---- */

/* A kernel that stores to element 0 of an array of that shape: compile or refuse. */
static tolk_status compile_shape(const int64_t *dims, size_t rank, tolk_dtype dtype,
                                 tolk_program **p, tolk_error *err) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *zero = tolk_const_int(g, TOLK_INDEX, 0);
    const tolk_uop *at[] = {zero, zero, zero, zero};
    const tolk_uop *y = tolk_param(g, dtype, dims, rank, 0, "y");
    const tolk_uop *v = tolk_cast(g, tolk_const_int(g, TOLK_I32, 9), dtype);
    const tolk_uop *e = tolk_store(g, tolk_index(g, y, at, rank), v);
    const tolk_uop *k = tolk_sink(g, &e, 1, "shape");
    tolk_status st = tolk_graph_error(g, err);
    if (!st)
        st = tolk_compile(r.cpu, k, NULL, p, err);
    tolk_graph_destroy(g);
    return st;
}

static void test_BIG_03_shapes_whose_product_overflows_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t dims[4];
        size_t rank;
        tolk_dtype dtype;
    } t[] = {
        {{INT64_MAX, 2, 0, 0}, 2, TOLK_U8},
        {{INT64_MAX, 2, 1, 1}, 4, TOLK_F32},
        {{(int64_t)1 << 32, (int64_t)1 << 32, 0, 0}, 2, TOLK_U8},
        {{(int64_t)1 << 32, (int64_t)1 << 31, 0, 0}, 2, TOLK_U8},
        {{(int64_t)1 << 16, (int64_t)1 << 16, (int64_t)1 << 16, (int64_t)1 << 16}, 4, TOLK_U8},
        {{3037000500, 3037000500, 0, 0}, 2, TOLK_U8},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        tolk_program *p = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = compile_shape(t[i].dims, t[i].rank, t[i].dtype, &p, &err);
        if (st == TOLK_OK)
            tolk_program_unref(p);
        if (st != TOLK_E_LIMIT && st != TOLK_E_SHAPE)
            fail_msg("shape %zu: %s: %s", i, tolk_status_name(st), err.msg);
        assert_true(err.msg[0]);
    }
}

/* Elements fit 63 bits, but bytes do not fit 64: no array is large enough, and none is touched. */
static void test_BIG_03_sizes_whose_bytes_overflow_are_never_enough(void **state) {
    (void)state;
    static const int64_t dims[][2] = {{INT64_MAX, 1}, {(int64_t)1 << 31, (int64_t)1 << 31}};
    for (int i = 0; i < 2; i++) {
        tolk_program *p = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        unsigned char y[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        tolk_status st = compile_shape(dims[i], 2, TOLK_F64, &p, &err);
        if (st == TOLK_OK) {
            void *bufs[] = {y};
            static const size_t bytes[] = {0, 8, (size_t)1 << 62, SIZE_MAX};
            for (int b = 0; b < 4; b++) {
                assert_int_equal(tolk_launch(p, bufs, &bytes[b], 1, NULL, 0, &err), TOLK_E_LAUNCH);
                assert_non_null(strstr(err.msg, "\"y\""));
            }
            tolk_program_unref(p);
        } else {
            assert_true(st == TOLK_E_LIMIT || st == TOLK_E_SHAPE);
        }
        for (int k = 0; k < 8; k++)
            assert_int_equal(y[k], 1);
    }
}

/* The third shape of BIG-03 is a legal one: 65536 x 65536 bytes. */
static void test_BIG_03_legal_shape_runs(void **state) {
    (void)state;
    const int64_t dims[] = {65536, 65536};
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (compile_shape(dims, 2, TOLK_U8, &p, &err))
        fail_msg("%s", err.msg);
    unsigned char *y = sparse((size_t)1 << 32);
    void *bufs[] = {y};
    size_t bytes[] = {((size_t)1 << 32) - 1};
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "4294967296"));
    bytes[0]++;
    launch(p, bufs, bytes, 1, NULL, 0);
    assert_int_equal(y[0], 9);
    tolk_program_unref(p);
    munmap(y, (size_t)1 << 32);
}

static _Atomic int done;
static tolk_status long_status;

static void *launch_long(void *p) {
    float y = 0;
    void *bufs[] = {&y};
    size_t bytes[] = {4};
    long_status = tolk_launch(p, bufs, bytes, 1, NULL, 0, NULL);
    done = 1;
    return NULL;
}

/* BIG-03: loops of 2^40 iterations and of 2^80; neither is taken for a small one. */
static void test_BIG_03_ranges_past_32_bits_are_not_taken_for_short_ones(void **state) {
    (void)state;
    /* one array of 2^40 floats: refused by its size */
    tolk_program *p = rt_compile(
        &r, "tolk.uop 1\n%0 = const index 1099511627776\n%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
            "%2 = range index (%0) {axis=0, kind=global}\n%3 = index f32 (%1, %2)\n"
            "%4 = const f32 1\n%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
            "%7 = sink void (%6) {name=\"long\"}\n");
    float y = 0;
    void *bufs[] = {&y};
    size_t bytes[] = {4};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "4398046511104"));
    double flops, moved;
    assert_int_equal(tolk_program_estimate(p, NULL, 0, &flops, &moved), TOLK_OK);
    assert_true(moved == 4398046511104.0);
    tolk_program_unref(p);
    /* two loops whose product is past 63 bits: nobody waits for its end, and it can be stopped */
    p = rt_compile(&r, "tolk.uop 1\n%0 = const index 1099511627776\n%1 = const index 1\n"
                       "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                       "%3 = range index (%0) {axis=0, kind=global}\n"
                       "%4 = range index (%0) {axis=1, kind=global}\n%5 = const index 0\n"
                       "%6 = add index (%3, %4)\n%7 = cmpeq bool (%6, %5)\n"
                       "%8 = index f32 (%2, %5)\n%9 = const f32 1\n"
                       "%10 = store void (%8, %9, %7)\n%11 = end void (%10, %3, %4)\n"
                       "%12 = sink void (%11) {name=\"longer\"}\n");
    pthread_t thread;
    done = 0;
    assert_int_equal(pthread_create(&thread, NULL, launch_long, p), 0);
    rt_sleep(0.1);
    assert_int_equal(done, 0);
    for (double until = rt_now() + 20; !done && rt_now() < until; rt_sleep(0.01))
        tolk_cancel(r.cpu);
    if (!done)
        fail_msg("a launch of 2^80 iterations does not stop");
    pthread_join(thread, NULL);
    assert_int_equal(long_status, TOLK_E_CANCELLED);
    tolk_program_unref(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BIG_01_fill_set_and_sum_past_31_bits),
        cmocka_unit_test(test_BIG_03_shapes_whose_product_overflows_are_refused),
        cmocka_unit_test(test_BIG_03_sizes_whose_bytes_overflow_are_never_enough),
        cmocka_unit_test(test_BIG_03_legal_shape_runs),
        cmocka_unit_test(test_BIG_03_ranges_past_32_bits_are_not_taken_for_short_ones),
        cmocka_unit_test(test_BIG_05_rows_and_columns_past_31_bits),
        cmocka_unit_test(test_BIG_05_gathered_indices_past_32_bits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
