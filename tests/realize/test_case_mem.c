/* SPDX-License-Identifier: MIT
 *
 * What linears and their replays leave behind: cases MEM of the collection this project tests
 * against, with the values of each, in every way to run a linear.
 */
#include "realize/ways.h"

/* y[i] = x[i] * 3 + number, 8 elements: another kernel for each number. */
#define UNIQUE                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index 8\n"                                                                        \
    "%%1 = param i32 (%%0) {slot=0}\n"                                                             \
    "%%2 = param i32 (%%0) {slot=1}\n"                                                             \
    "%%3 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%4 = index i32 (%%2, %%3)\n"                                                                 \
    "%%5 = load i32 (%%4)\n"                                                                       \
    "%%6 = const i32 3\n"                                                                          \
    "%%7 = mul i32 (%%5, %%6)\n"                                                                   \
    "%%8 = const i32 %d\n"                                                                         \
    "%%9 = add i32 (%%7, %%8)\n"                                                                   \
    "%%10 = index i32 (%%1, %%3)\n"                                                                \
    "%%11 = store void (%%10, %%9)\n"                                                              \
    "%%12 = end void (%%11, %%3)\n"                                                                \
    "%%13 = sink void (%%12) {name=\"unique\"}\n"                                                  \
    "%%30 = buffer i32 (%%0) {slot=0}\n%%31 = buffer i32 (%%0) {slot=1}\n"                         \
    "%%32 = buffer i32 (%%0) {slot=2}\n"                                                           \
    "%%40 = call void (%%13, %%31, %%30)\n%%41 = call void (%%13, %%32, %%31)\n"

static void one_kernel(int number, const tolk_realize_opts *o) {
    way w;
    (void)seed(8, 0, NULL, number, 1);
    (void)seed(8, 2, NULL, 0, 0);
    way_open(&w, number % WAYS, rt_text(UNIQUE, number), "%40, %41", o);
    for (int i = 0; i < 3; i++)
        way_well(&w, NULL);
    check_ints(bound(8, 2, NULL), 9 * number + 4 * number, 9);
    way_close(&w);
}

static int by_size(const void *x, const void *y) {
    const double *a = x, *c = y;
    return *a < *c ? -1 : *a > *c;
}

/* 20,000 linears at a share of 100 percent: built, compiled, run, dropped. */
static void test_MEM_01_linears_that_are_gone_leave_nothing(void **state) {
    (void)state;
    if (TK_TEST_ASAN || TK_TEST_TSAN)
        skip(); /* they keep freed memory back */
    enum { PARTS = 6, WARM = 400 };
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_compile_opts compile = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    opts.memory_entries = 16;
    opts.no_disk_cache = 1;
    compile.tier = TOLK_TIER_QUICK;
    o.compile = &compile;
    rt_open(&r, NULL, &opts);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    int n = tk_test_share() >= 100 ? 20000 : 1200, both, i = 0;
    while (i < WARM)
        one_kernel(i++, &o);
    double first = rt_rss(), before = first, grown[PARTS];
    int maps = rt_maps(&both);
    for (int part = 0; part < PARTS; part++) {
        while (i < WARM + n / PARTS * (part + 1))
            one_kernel(i++, &o);
        double now = rt_rss();
        grown[part] = now - before;
        before = now;
    }
    /* What malloc and LLVM take once is in one part or two, what grows with linears in each. */
    qsort(grown, PARTS, sizeof *grown, by_size);
    double most = grown[PARTS / 2] * PARTS;
    int maps_now = rt_maps(&both);
    printf("%d linears: resident memory %+.0f KiB, %.1f bytes each, mappings %+d\n", n,
           (before - first) / 1024, most / n, maps_now - maps);
    assert_true(before - first < 8.0 * 1024 * 1024);
    assert_true(most <= 1024 * 1024);
    assert_true(maps_now - maps < 4);
    (void)teardown(NULL);
}

/* ---- MEM-03 ---- */

enum { BYTES = 64 << 20 };

/* y[0] = x[16777215] + v, through a buffer in between. */
#define LAST_OF_MANY                                                                               \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 16777216\n"                                                                  \
    "%2 = const index 1\n"                                                                         \
    "%3 = param i32 (%2) {slot=0}\n"                                                               \
    "%4 = param i32 (%1) {slot=1}\n"                                                               \
    "%5 = const index 16777215\n"                                                                  \
    "%6 = index i32 (%4, %5)\n"                                                                    \
    "%7 = load i32 (%6)\n"                                                                         \
    "%8 = const index 0\n"                                                                         \
    "%9 = index i32 (%3, %8)\n"                                                                    \
    "%10 = store void (%9, %7)\n"                                                                  \
    "%11 = sink void (%10) {name=\"last\"}\n"                                                      \
    "%12 = param i32 (%2) {slot=1}\n"                                                              \
    "%13 = index i32 (%12, %8)\n"                                                                  \
    "%14 = load i32 (%13)\n"                                                                       \
    "%15 = add i32 (%14, %14)\n"                                                                   \
    "%16 = store void (%9, %15)\n"                                                                 \
    "%17 = sink void (%16) {name=\"twice\"}\n"                                                     \
    "%30 = param i32 (%1) {slot=0}\n"                                                              \
    "%31 = buffer i32 (%2) {slot=0}\n"                                                             \
    "%32 = buffer i32 (%2) {slot=1}\n"                                                             \
    "%40 = call void (%11, %31, %30)\n"                                                            \
    "%41 = call void (%17, %32, %31)\n"

static void test_MEM_03_an_input_of_64_MiB_is_given_up(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, LAST_OF_MANY, "%40, %41", NULL);
        tolk_buffer *y = seed(1, 1, NULL, -1, 0);
        for (int i = 0; i < 5; i++) {
            /* The same node twice, then others. */
            const tolk_uop *in = buffer_node(g, BYTES / 4, 100 + i / 2, NULL);
            tolk_run_args a = TOLK_RUN_INIT;
            a.inputs = &in;
            a.n_inputs = 1;
            (void)seed(BYTES / 4, 100 + i / 2, NULL, i, 0);
            assert_true(tolk_device_used_memory(r.cpu) >= BYTES);
            way_well(&w, &a);
            tolk_bindings_remove(b, in); /* while it may run */
            check_ints(y, 2 * i, 0);
            assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
            tolk_device_trim(r.cpu);
            if (tolk_device_used_memory(r.cpu) >= 1 << 20)
                fail_msg("%s keeps %llu bytes", way_names[k],
                         (unsigned long long)tolk_device_used_memory(r.cpu));
        }
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- MEM-05 ---- */

/* t = a + 3 a, u = t + 3 a, y = u + 3 t by MIX, where t and u lie in arenas of a jit; all that is
 * bound is new in each run and given up while it may still be used. */
static uint64_t run_with_new_memory(bool reuse, way_kind kind) {
    static const char nodes[] = MIX "%30 = buffer i32 (%1) {slot=0}\n"
                                    "%31 = buffer i32 (%1) {slot=1}\n"
                                    "%32 = buffer i32 (%1) {slot=2}\n"
                                    "%33 = buffer i32 (%1) {slot=3}\n"
                                    "%38 = buffer i32 (%1) {slot=4}\n"
                                    "%39 = copy i32 (%33) {device=\"CPU\"}\n"
                                    "%40 = call void (%20, %31, %30, %30)\n"
                                    "%41 = call void (%20, %32, %31, %30)\n"
                                    "%42 = call void (%20, %33, %32, %31)\n"
                                    "%43 = call void (%39, %38, %33)\n";
    way w;
    uint64_t sum = 0;
    tolk_graph *g;
    if (!reuse)
        setenv("TOLK_FREELIST_BYTES", "0", 1);
    open_with(1, 0, NULL);
    unsetenv("TOLK_FREELIST_BYTES");
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    way_open(&w, kind, nodes, "%40, %41, %42, %43", NULL);
    for (int i = 0; i < 40; i++) {
        int32_t v[48];
        (void)seed(48, 0, NULL, i, 3);
        (void)seed(48, 4, NULL, -1, 0);
        if (i % 3 == 0 && kind < WAY_JIT) /* what is in between is new memory, too */
            tolk_bindings_remove(b, buffer_node(g, 48, 2, NULL));
        way_well(&w, NULL);
        tolk_buffer *y = tolk_buffer_ref(bound(48, 4, NULL));
        tolk_bindings_remove(b, buffer_node(g, 48, 0, NULL));
        tolk_bindings_remove(b, buffer_node(g, 48, 4, NULL));
        read_ints(y, v, 48);
        tolk_buffer_unref(y);
        for (int e = 0; e < 48; e++) {
            /* t = 4 a, u = t + 3 a = 7 a, y = u + 3 t = 19 a */
            assert_int_equal(v[e], 19 * (i + 3 * e));
            sum = sum * 31 + (uint64_t)v[e];
        }
    }
    way_close(&w);
    tolk_graph_destroy(g);
    (void)teardown(NULL);
    return sum;
}

static void test_MEM_05_results_without_memory_that_is_kept(void **state) {
    (void)state;
    uint64_t first = run_with_new_memory(true, WAY_RUN);
    for (way_kind k = 0; k < WAYS; k++)
        for (int reuse = 0; reuse < 2; reuse++)
            assert_true(run_with_new_memory(reuse, k) == first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MEM_01_linears_that_are_gone_leave_nothing),
        TEST(test_MEM_03_an_input_of_64_MiB_is_given_up),
        cmocka_unit_test(test_MEM_05_results_without_memory_that_is_kept),
    };
    return cmocka_run_group_tests_name("case_mem", tests, NULL, NULL);
}
