/* SPDX-License-Identifier: MIT
 *
 * Atomic additions of f16, bf16 and fp8, by the interpreter and by code for every CPU there is:
 * each addition is rounded once, none is lost, and what stands beside the element stays.
 */
#include "support/runtime.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include "ir/narrow.h"

static const struct {
    tolk_dtype dtype;
    const char *name;
} narrow[] = {
    {TOLK_F16, "f16"}, {TOLK_BF16, "bf16"}, {TOLK_FP8E4M3, "fp8e4m3"}, {TOLK_FP8E5M2, "fp8e5m2"}};
enum { N_NARROW = 4, ROOM = 8192 };

static void put(void *array, tolk_dtype dtype, size_t i, uint64_t bits) {
    size_t n = tolk_dtype_bytes(dtype);
    memcpy((char *)array + i * n, &bits, n); /* little endian */
}

/* One rounding of the sum: that of two f16 or fp8 is exact in f64. Of two bf16 f64 may lose what is
 * far below the larger one's last place, which decides nothing, as the larger one is no tie. */
static uint64_t sum(tolk_dtype dtype, uint64_t a, uint64_t b) {
    return tk_narrow_round(dtype, tk_narrow_widen(dtype, a) + tk_narrow_widen(dtype, b));
}

/* y[i] += x[i]: all pairs of fp8, many of the others. */
static void test_one_addition_is_rounded_once(void **state) {
    (void)state;
    enum { N = 65536 };
    static const uint16_t odd[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x401,
                                   0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x7f7f, 0x7f80,
                                   0xff80, 0x80,   0x7f,   0x3c00, 0x3c01, 0xbc00, 0x3f80};
    enum { N_ODD = sizeof odd / sizeof *odd };
    uint16_t *x = malloc(3 * N * sizeof *x), *y = x + N, *want = y + N;
    assert_non_null(x);
    for (size_t d = 0; d < N_NARROW; d++) {
        tolk_dtype dt = narrow[d].dtype;
        uint64_t rng = 7;
        for (size_t i = 0; i < N; i++) {
            uint64_t a = i & 255, b = i >> 8;
            if (tolk_dtype_bytes(dt) == 2) {
                uint64_t bits = tk_test_rand(&rng);
                a = i < N_ODD * N_ODD ? odd[i / N_ODD] : bits & 0xffff;
                b = i < N_ODD * N_ODD ? odd[i % N_ODD] : bits >> 16 & 0xffff;
                if (i % 3 == 0 && i >= N_ODD * N_ODD) /* of like size, so that they meet */
                    b = (a & 0xff00) | (b & 0xff);
            }
            put(y, dt, i, a);
            put(x, dt, i, b);
            put(want, dt, i, sum(dt, a, b));
        }
        char text[ROOM];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index %d\n%%1 = param %s (%%0) {slot=0}\n"
                 "%%2 = param %s (%%0) {slot=1}\n%%3 = range index (%%0) {axis=0, kind=global}\n"
                 "%%4 = index %s (%%1, %%3)\n%%5 = index %s (%%2, %%3)\n%%6 = load %s (%%5)\n"
                 "%%7 = atomic_add void (%%4, %%6)\n%%8 = end void (%%7, %%3)\n"
                 "%%9 = sink void (%%8) {name=\"pairs\"}\n",
                 N, narrow[d].name, narrow[d].name, narrow[d].name, narrow[d].name, narrow[d].name);
        tk_kernel_arg args[2] = {{dt, N, y, want, NULL}, {dt, N, x, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
    free(x);
}

/* One work-item adds a hundred numbers to one element, each rounded, in their order; a gate leaves
 * some out. */
static void test_additions_of_one_work_item_are_in_order(void **state) {
    (void)state;
    enum { N = 100 };
    for (size_t d = 0; d < N_NARROW; d++)
        for (int gated = 0; gated < 2; gated++) {
            tolk_dtype dt = narrow[d].dtype;
            uint16_t x[N], y[3], want[3];
            uint64_t acc = tk_narrow_round(dt, 1), rng = 99 + d;
            for (size_t i = 0; i < 3; i++) {
                put(y, dt, i, acc);
                put(want, dt, i, acc);
            }
            for (size_t i = 0; i < N; i++) {
                double v = (double)(tk_test_rand(&rng) % 1000) / 256 - 1.25;
                uint64_t bits = tk_narrow_round(dt, v);
                put(x, dt, i, bits);
                if (!gated || i % 3)
                    acc = sum(dt, acc, bits);
            }
            put(want, dt, 1, acc);
            char text[ROOM];
            snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index %d\n%%1 = const index 3\n"
                     "%%2 = param %s (%%1) {slot=0}\n%%3 = param %s (%%0) {slot=1}\n"
                     "%%4 = range index (%%0) {axis=0, kind=loop}\n%%5 = const index 1\n"
                     "%%6 = index %s (%%2, %%5)\n%%7 = index %s (%%3, %%4)\n%%8 = load %s (%%7)\n"
                     "%%9 = floormod index (%%4, %%1)\n%%10 = const index %d\n"
                     "%%11 = cmpne bool (%%9, %%10)\n%%12 = atomic_add void (%%6, %%8, %%11)\n"
                     "%%13 = end void (%%12, %%4)\n%%14 = sink void (%%13) {name=\"chain\"}\n",
                     N, narrow[d].name, narrow[d].name, narrow[d].name, narrow[d].name,
                     narrow[d].name, gated ? 0 : 3); /* no remainder is 3 */
            tk_kernel_arg args[2] = {{dt, 3, y, want, NULL}, {dt, N, x, NULL, NULL}};
            tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
        }
}

/* Work-items of several groups add to counters, in memory of all and in that of their group. Whole
 * numbers up to 8 are exact in every dtype, so the order is all the same. Two of them are sent to
 * an element that does not exist. */
static void test_additions_of_many_work_items(void **state) {
    (void)state;
    enum { GROUPS = 6, ITEMS = 15, COUNTERS = 30, ALL = GROUPS * ITEMS };
    for (size_t d = 0; d < N_NARROW; d++)
        for (int scale = 0; scale < 2; scale++) {
            tolk_dtype dt = narrow[d].dtype;
            /* 1, or the least number there is */
            uint64_t one = scale ? 1 : tk_narrow_round(dt, 1);
            double unit = tk_narrow_widen(dt, one);
            uint16_t y[COUNTERS], want[COUNTERS], z[GROUPS * 3], want_z[GROUPS * 3];
            int32_t at[ALL];
            int count[COUNTERS];
            for (int i = 0; i < COUNTERS; i++)
                count[i] = i % 4;
            for (int i = 0; i < COUNTERS; i++)
                put(y, dt, (size_t)i, tk_narrow_round(dt, unit * count[i]));
            for (int i = 0; i < ALL; i++) {
                at[i] = i % 44 == 43 ? COUNTERS + i : i * 7 % COUNTERS;
                count[i * 7 % COUNTERS] += i % 44 != 43;
            }
            for (int i = 0; i < COUNTERS; i++)
                put(want, dt, (size_t)i, tk_narrow_round(dt, unit * count[i]));
            for (int i = 0; i < GROUPS * 3; i++)
                put(want_z, dt, (size_t)i, tk_narrow_round(dt, unit * 5));
            char text[ROOM], c[32];
            const char *t = narrow[d].name;
            snprintf(c, sizeof c, "%a", unit);
            snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index %d\n%%1 = const index %d\n"
                     "%%2 = const index %d\n%%3 = const index %d\n%%4 = const index 3\n"
                     "%%5 = const index %d\n%%6 = param %s (%%3) {slot=0}\n"
                     "%%7 = param %s (%%5) {slot=1}\n%%8 = param i32 (%%2) {slot=2}\n"
                     "%%9 = special index (%%0) {name=\"gidx0\"}\n"
                     "%%10 = special index (%%1) {name=\"lidx0\"}\n"
                     "%%11 = mul index (%%9, %%1)\n%%12 = add index (%%11, %%10)\n"
                     "%%13 = index i32 (%%8, %%12)\n%%14 = load i32 (%%13)\n"
                     "%%15 = cast index (%%14)\n%%16 = const %s %s\n%%17 = index %s (%%6, %%15)\n"
                     "%%18 = atomic_add void (%%17, %%16)\n"
                     "%%19 = buffer %s (%%4) {slot=0, space=local}\n"
                     "%%20 = floormod index (%%10, %%4)\n%%21 = index %s (%%19, %%20)\n"
                     "%%22 = const %s 0\n%%23 = store void (%%21, %%22)\n"
                     "%%24 = barrier void (%%23)\n%%25 = after %s (%%19, %%24)\n"
                     "%%26 = index %s (%%25, %%20)\n%%27 = atomic_add void (%%26, %%16)\n"
                     "%%28 = barrier void (%%27)\n%%29 = after %s (%%19, %%28)\n"
                     "%%30 = index %s (%%29, %%20)\n%%31 = load %s (%%30)\n"
                     "%%32 = mul index (%%9, %%4)\n%%33 = add index (%%32, %%20)\n"
                     "%%34 = index %s (%%7, %%33)\n%%35 = store void (%%34, %%31)\n"
                     "%%36 = sink void (%%18, %%35) {name=\"counted\"}\n",
                     GROUPS, ITEMS, ALL, COUNTERS, GROUPS * 3, t, t, t, c, t, t, t, t, t, t, t, t,
                     t, t);
            tk_kernel_arg args[3] = {{dt, COUNTERS, y, want, NULL},
                                     {dt, GROUPS * 3, z, want_z, NULL},
                                     {TOLK_I32, ALL, at, NULL, NULL}};
            memset(z, 0, sizeof z);
            tk_kernel_run(text, args, 3, NULL, 0, TOLK_E_RANGE);
        }
}

/* All threads add ones to neighbours at the same time, and to one element. */
static void test_no_thread_loses_an_addition(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    static const int most[] = {2048, 256, 16, 8}; /* whole numbers up to here are exact */
    rt own;
    rt_open(&own, NULL, NULL);
    for (size_t d = 0; d < N_NARROW; d++) {
        tolk_dtype dt = narrow[d].dtype;
        int counters = N / most[d];
        const char *t = narrow[d].name;
        tolk_program *p = rt_compile(
            &own, rt_text("tolk.uop 1\n%%0 = const index %d\n%%1 = const index %d\n"
                          "%%2 = param %s (%%1) {slot=0}\n"
                          "%%3 = range index (%%0) {axis=0, kind=global}\n"
                          "%%4 = floormod index (%%3, %%1)\n%%5 = index %s (%%2, %%4)\n"
                          "%%6 = const %s 1\n%%7 = atomic_add void (%%5, %%6)\n"
                          "%%8 = end void (%%7, %%3)\n%%9 = sink void (%%8) {name=\"ones\"}\n",
                          N, counters, t, t, t));
        size_t bytes = (size_t)counters * tolk_dtype_bytes(dt);
        void *y = malloc(bytes);
        assert_non_null(y);
        for (int round = 0; round < 3; round++) {
            memset(y, 0, bytes);
            assert_int_equal(tolk_launch(p, &y, &bytes, 1, NULL, 0, NULL), TOLK_OK);
            for (size_t i = 0; i < (size_t)counters; i++) {
                uint64_t bits = 0;
                memcpy(&bits, (char *)y + i * tolk_dtype_bytes(dt), tolk_dtype_bytes(dt));
                if (bits != tk_narrow_round(dt, most[d]))
                    fail_msg("%s: counter %zu has %g, expected %d", t, i, tk_narrow_widen(dt, bits),
                             most[d]);
            }
        }
        free(y);
        tolk_program_unref(p);
    }
    rt_close(&own);
}

int main(void) {
    tk_kernel_add_compilers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_addition_is_rounded_once),
        cmocka_unit_test(test_additions_of_one_work_item_are_in_order),
        cmocka_unit_test(test_additions_of_many_work_items),
        cmocka_unit_test(test_no_thread_loses_an_addition),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
