/* SPDX-License-Identifier: MIT
 *
 * Sizes past 31 bits, sizes of 0, sizes that are scalars of the launch.
 */
#include "cases/case.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include <sys/mman.h>

/* Zeros that take memory only where they are written. */
static void *sparse(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* y[(g + 1) * 16384 * 131072 + 5] = 7 for the one g: 2^31 + 5, whose low 32 bits are negative. */
static void test_BIG_01_element_index_past_31_bits(void **state) {
    (void)state;
    const size_t n = ((size_t)1 << 31) + 8;
    for (size_t e = 0; e < tk_kernel_engines(); e++) {
        uint8_t *y = sparse(n);
        void *bufs[1] = {y};
        assert_int_equal(
            tk_kernel_run_on(
                e,
                "tolk.uop 1\n%0 = const index 2147483656\n%1 = param u8 (%0) {slot=0}\n"
                "%2 = const index 1\n%3 = range index (%2) {axis=0, kind=global}\n"
                "%4 = add index (%3, %2)\n%5 = const index 16384\n"
                "%6 = const index 131072\n%7 = mul index (%4, %5)\n"
                "%8 = mul index (%7, %6)\n%9 = const index 5\n%10 = add index (%8, %9)\n"
                "%11 = index u8 (%1, %10)\n%12 = const u8 7\n"
                "%13 = store void (%11, %12)\n%14 = end void (%13, %3)\n"
                "%15 = sink void (%14) {name=\"big\"}\n",
                bufs, &n, 1, NULL, 0),
            TOLK_OK);
        assert_int_equal(y[((size_t)1 << 31) + 5], 7);
        assert_int_equal(y[5], 0);
        munmap(y, n);
    }
}

/* A column far down a matrix of 65536 x 65536 bytes, which is a legal size. */
static void test_BIG_03_legal_size_of_32_bits(void **state) {
    (void)state;
    const size_t n = (size_t)65536 * 65536;
    for (size_t e = 0; e < tk_kernel_engines(); e++) {
        uint8_t *x = sparse(n);
        int32_t y[4];
        for (int i = 0; i < 4; i++)
            x[(size_t)(65532 + i) * 65536 + 65535] = (uint8_t)(10 + i);
        void *bufs[2] = {y, x};
        const size_t bytes[2] = {sizeof y, n};
        assert_int_equal(
            tk_kernel_run_on(
                e,
                "tolk.uop 1\n%0 = const index 4\n%1 = const index 65536\n"
                "%2 = stack index (%1, %1)\n%3 = param i32 (%0) {slot=0}\n"
                "%4 = param u8 (%2) {slot=1}\n%5 = range index (%0) {axis=0, kind=global}\n"
                "%6 = const index 65532\n%7 = add index (%5, %6)\n"
                "%8 = const index 65535\n%9 = index u8 (%4, %7, %8)\n%10 = load u8 (%9)\n"
                "%11 = cast i32 (%10)\n%12 = index i32 (%3, %5)\n"
                "%13 = store void (%12, %11)\n%14 = end void (%13, %5)\n"
                "%15 = sink void (%14) {name=\"big\"}\n",
                bufs, bytes, 2, NULL, 0),
            TOLK_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal(y[i], 10 + i);
        munmap(x, n);
    }
}

/* The last 20 elements of arrays between 2^30 and 2^31 elements. */
static void test_BIG_05_last_elements_are_written(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        size_t n, bytes;
    } t[] = {{"f32", ((size_t)1 << 30) + 3, 4},
             {"i16", ((size_t)1 << 31) - 1, 2},
             {"u8", (size_t)1 << 32, 1}};
    for (size_t e = 0; e < tk_kernel_engines(); e++)
        for (size_t k = 0; k < COUNT(t); k++) {
            const size_t bytes = t[k].n * t[k].bytes;
            char *y = sparse(bytes), text[1024];
            void *bufs[1] = {y};
            snprintf(
                text, sizeof text,
                "tolk.uop 1\n%%0 = const index %zu\n%%1 = param %s (%%0) {slot=0}\n"
                "%%2 = const index 20\n%%3 = range index (%%2) {axis=0, kind=global}\n"
                "%%4 = const index %zu\n%%5 = add index (%%3, %%4)\n%%6 = index %s (%%1, %%5)\n"
                "%%7 = const %s 1\n%%8 = store void (%%6, %%7)\n%%9 = end void (%%8, %%3)\n"
                "%%10 = sink void (%%9) {name=\"last\"}\n",
                t[k].n, t[k].dtype, t[k].n - 20, t[k].dtype, t[k].dtype);
            assert_int_equal(tk_kernel_run_on(e, text, bufs, &bytes, 1, NULL, 0), TOLK_OK);
            size_t set = 0;
            for (size_t i = bytes - 24 * t[k].bytes; i < bytes; i += t[k].bytes)
                set += y[i] != 0 || y[i + t[k].bytes - 1] != 0;
            assert_int_equal(set, 20);
            munmap(y, bytes);
        }
}

/* (4, 0) x (0, 4): an output full of NaN becomes zeros. */
static void test_EMPTY_01_product_over_nothing_is_zero(void **state) {
    (void)state;
    float before[16];
    for (int i = 0; i < 16; i++)
        before[i] = NAN;
    static const float zeros[16];
    const tk_kernel_arg args[] = {{TOLK_F32, 16, before, zeros, NULL},
                                  {TOLK_F32, 0, NULL, NULL, NULL},
                                  {TOLK_F32, 0, NULL, NULL, NULL}};
    tk_kernel_run("tolk.uop 1\n%0 = const index 4\n%1 = const index 0\n%2 = stack index (%0, %0)\n"
                  "%3 = stack index (%0, %1)\n%4 = stack index (%1, %0)\n"
                  "%5 = param f32 (%2) {slot=0}\n%6 = param f32 (%3) {slot=1}\n"
                  "%7 = param f32 (%4) {slot=2}\n%8 = range index (%0) {axis=0, kind=global}\n"
                  "%9 = range index (%0) {axis=1, kind=global}\n"
                  "%10 = range index (%1) {axis=2, kind=reduce}\n%11 = index f32 (%6, %8, %10)\n"
                  "%12 = load f32 (%11)\n%13 = index f32 (%7, %10, %9)\n%14 = load f32 (%13)\n"
                  "%15 = mul f32 (%12, %14)\n%16 = reduce f32 (%15, %10) {op=add}\n"
                  "%17 = index f32 (%5, %8, %9)\n%18 = store void (%17, %16)\n"
                  "%19 = end void (%18, %8, %9)\n%20 = sink void (%19) {name=\"matmul\"}\n",
                  args, 3, NULL, 0, TOLK_OK);
    const uint64_t none = 0;
    tk_kernel_reduce("add", TOLK_F32, &none, 1, 0, 0);
    tk_kernel_reduce("mul", TOLK_F32, &none, 1, 0, tk_kernel_f32(1));
    tk_kernel_reduce("max", TOLK_F32, &none, 1, 0, tk_kernel_f32(-INFINITY));
    tk_kernel_reduce("max", TOLK_F64, &none, 1, 0, tk_kernel_f64(-(double)INFINITY));
    tk_kernel_reduce("max", TOLK_I32, &none, 1, 0, (uint64_t)INT32_MIN);
    tk_kernel_reduce("max", TOLK_U8, &none, 1, 0, 0);
    tk_kernel_reduce("mul", TOLK_I64, &none, 1, 0, 1);
}

static const char plus_one[] =
    "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=100}\n"
    "%1 = cast index (%0)\n%2 = param i32 (%1) {slot=0}\n%3 = param i32 (%1) {slot=1}\n"
    "%4 = range index (%1) {axis=0, kind=global}\n%5 = index i32 (%3, %4)\n%6 = load i32 (%5)\n"
    "%7 = const i32 1\n%8 = add i32 (%6, %7)\n%9 = index i32 (%2, %4)\n%10 = store void (%9, %8)\n"
    "%11 = end void (%10, %4)\n%12 = sink void (%11) {name=\"plus_one\"}\n";

static void run_plus_one(int64_t n) {
    int32_t x[100], want[100];
    for (int i = 0; i < 100; i++) {
        x[i] = i * 3;
        want[i] = i * 3 + 1;
    }
    const tk_kernel_arg args[] = {{TOLK_I32, (size_t)n, NULL, want, NULL},
                                  {TOLK_I32, (size_t)n, x, NULL, NULL}};
    tk_kernel_run(plus_one, args, 2, &n, 1, TOLK_OK);
}

static void test_SYM_01_each_run_has_its_own_size(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        run_plus_one(n);
}

static void test_SYM_07_split_axes_keep_to_the_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 7, 100, 16, 17, 63};
    for (size_t i = 0; i < COUNT(sizes); i++)
        run_plus_one(sizes[i]);
}

/* n = ceil(ceil(ceil(k / 2) / 2) / 2)^2 elements are copied, no more and no fewer. */
static void test_SYM_03_size_is_an_expression_with_integer_division(void **state) {
    (void)state;
    for (int64_t k = 33; k <= 80; k++) {
        int64_t side = k;
        for (int i = 0; i < 3; i++)
            side = (side + 1) / 2;
        size_t n = (size_t)(side * side);
        double x[100];
        assert_true(n <= COUNT(x));
        for (size_t i = 0; i < n; i++)
            x[i] = (double)i + 0.5;
        const tk_kernel_arg args[] = {{TOLK_F64, n, NULL, x, NULL}, {TOLK_F64, n, x, NULL, NULL}};
        tk_kernel_run(
            "tolk.uop 1\n%0 = param i32 {slot=2, name=\"k\", space=alu, min=33, max=80}\n"
            "%1 = cast index (%0)\n%2 = const index 1\n%3 = const index 2\n"
            "%4 = add index (%1, %2)\n%5 = floordiv index (%4, %3)\n"
            "%6 = add index (%5, %2)\n%7 = floordiv index (%6, %3)\n"
            "%8 = add index (%7, %2)\n%9 = floordiv index (%8, %3)\n"
            "%10 = mul index (%9, %9)\n%11 = param f64 (%10) {slot=0}\n"
            "%12 = param f64 (%10) {slot=1}\n%13 = range index (%10) {axis=0, kind=global}\n"
            "%14 = index f64 (%12, %13)\n%15 = load f64 (%14)\n%16 = index f64 (%11, %13)\n"
            "%17 = store void (%16, %15)\n%18 = end void (%17, %13)\n"
            "%19 = sink void (%18) {name=\"copy\"}\n",
            args, 2, &k, 1, TOLK_OK);
    }
}

/* Out of bounds, missing: named errors from every engine, and nothing is run. */
static void test_SYM_05_bad_scalars_are_refused(void **state) {
    (void)state;
    for (size_t e = 0; e < tk_kernel_engines(); e++) {
        int32_t y[200] = {0}, x[200] = {0};
        void *bufs[2] = {y, x};
        const size_t bytes[2] = {sizeof y, sizeof x};
        static const int64_t bad[] = {0, 101, -1, INT64_MAX};
        for (size_t i = 0; i < COUNT(bad); i++) {
            assert_int_equal(tk_kernel_run_on(e, plus_one, bufs, bytes, 2, &bad[i], 1),
                             TOLK_E_LAUNCH);
            assert_non_null(strstr(tk_kernel_error()->msg, "n"));
        }
        assert_int_not_equal(tk_kernel_run_on(e, plus_one, bufs, bytes, 2, NULL, 0), TOLK_OK);
        for (int i = 0; i < 200; i++)
            assert_int_equal(y[i], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_BIG_01_element_index_past_31_bits),
        cmocka_unit_test(test_BIG_03_legal_size_of_32_bits),
        cmocka_unit_test(test_BIG_05_last_elements_are_written),
        cmocka_unit_test(test_EMPTY_01_product_over_nothing_is_zero),
        cmocka_unit_test(test_SYM_01_each_run_has_its_own_size),
        cmocka_unit_test(test_SYM_03_size_is_an_expression_with_integer_division),
        cmocka_unit_test(test_SYM_05_bad_scalars_are_refused),
        cmocka_unit_test(test_SYM_07_split_axes_keep_to_the_size),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
