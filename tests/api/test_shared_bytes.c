/* SPDX-License-Identifier: MIT
 *
 * The dynamic local buffer: each launch says how many bytes it has. Compiled code for every CPU,
 * saved, cached and quick programs and the interpreter are compared with values computed here.
 */
#include "support/runtime.h"

static rt r;
static char *dir;

static int setup(void **state) {
    (void)state;
    dir = rt_mkdir();
    rt_open(&r, dir, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    rt_rmdir(dir);
    return 0;
}

/* groups, items, groups * items, dtype of the dynamic buffer (each %s), items - 1:
 * y[g, i] = x[g, items - 1 - i] + i, where x goes through the dynamic buffer and i through a static
 * one of bytes that stands before it. */
#define TURNED                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = const index %d\n"                                                                       \
    "%%2 = const index %d\n"                                                                       \
    "%%3 = param i32 (%%2) {slot=0, name=\"y\"}\n"                                                 \
    "%%4 = param i32 (%%2) {slot=1, name=\"x\"}\n"                                                 \
    "%%5 = special index (%%0) {name=\"gidx0\"}\n"                                                 \
    "%%6 = special index (%%1) {name=\"lidx0\"}\n"                                                 \
    "%%7 = mul index (%%5, %%1)\n"                                                                 \
    "%%8 = add index (%%7, %%6)\n"                                                                 \
    "%%9 = buffer %s {slot=0, space=local, dynamic=true}\n"                                        \
    "%%10 = buffer u8 (%%1) {slot=1, space=local}\n"                                               \
    "%%11 = index i32 (%%4, %%8)\n"                                                                \
    "%%12 = load i32 (%%11)\n"                                                                     \
    "%%13 = cast %s (%%12)\n"                                                                      \
    "%%14 = index %s (%%9, %%6)\n"                                                                 \
    "%%15 = store void (%%14, %%13)\n"                                                             \
    "%%16 = cast u8 (%%6)\n"                                                                       \
    "%%17 = index u8 (%%10, %%6)\n"                                                                \
    "%%18 = store void (%%17, %%16)\n"                                                             \
    "%%19 = barrier void (%%15, %%18)\n"                                                           \
    "%%20 = after %s (%%9, %%19)\n"                                                                \
    "%%21 = after u8 (%%10, %%19)\n"                                                               \
    "%%22 = const index %d\n"                                                                      \
    "%%23 = sub index (%%22, %%6)\n"                                                               \
    "%%24 = index %s (%%20, %%23)\n"                                                               \
    "%%25 = load %s (%%24)\n"                                                                      \
    "%%26 = cast i32 (%%25)\n"                                                                     \
    "%%27 = index u8 (%%21, %%6)\n"                                                                \
    "%%28 = load u8 (%%27)\n"                                                                      \
    "%%29 = cast i32 (%%28)\n"                                                                     \
    "%%30 = add i32 (%%26, %%29)\n"                                                                \
    "%%31 = index i32 (%%3, %%8)\n"                                                                \
    "%%32 = store void (%%31, %%30)\n"                                                             \
    "%%33 = sink void (%%32) {name=\"turned\"}\n"

static const char *turned(int groups, int items, const char *t) {
    return rt_text(TURNED, groups, items, groups * items, t, t, t, t, items - 1, t, t);
}

typedef struct sample {
    int groups, items;
    int32_t *x, *y;
    void *bufs[2];
    size_t bytes[2];
} sample;

static sample make(int groups, int items) {
    sample s = {.groups = groups, .items = items};
    size_t n = (size_t)groups * (size_t)items;
    s.x = malloc(n * sizeof *s.x);
    s.y = malloc(n * sizeof *s.y);
    assert_true(s.x && s.y);
    for (size_t i = 0; i < n; i++)
        s.x[i] = (int32_t)(i * 7 % 101) + 1;
    s.bufs[0] = s.y;
    s.bufs[1] = s.x;
    s.bytes[0] = s.bytes[1] = n * sizeof *s.x;
    return s;
}

static void drop(sample *s) {
    free(s->x);
    free(s->y);
}

/* What is behind `elems` elements of the dynamic buffer loads as 0. */
static void check(const sample *s, size_t elems, const char *what) {
    for (int g = 0; g < s->groups; g++)
        for (int i = 0; i < s->items; i++) {
            int from = s->items - 1 - i;
            int32_t want = ((size_t)from < elems ? s->x[g * s->items + from] : 0) + i;
            if (s->y[g * s->items + i] != want)
                fail_msg("%s, %zu elements: y[%d, %d] is %d, expected %d", what, elems, g, i,
                         s->y[g * s->items + i], want);
        }
}

static tolk_status launch(const tolk_program *p, sample *s, size_t shared, tolk_error *err) {
    tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
    opts.shared_bytes = shared;
    memset(s->y, 0xee, s->bytes[0]);
    return tolk_launch_with(p, s->bufs, s->bytes, 2, NULL, 0, &opts, err);
}

/* A program at sizes around what its work-items touch, 0 and none stated among them. */
static void check_sizes(const tolk_program *p, sample *s, size_t each, const char *what) {
    const size_t n = (size_t)s->items,
                 sizes[] = {n * each, n * each + 1, n * each - 1, each, each * 3 - 1, each - 1,
                            0,        n * each * 9};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        tolk_error err = TOLK_ERROR_INIT;
        size_t elems = sizes[k] / each;
        tolk_status st = launch(p, s, sizes[k], &err);
        assert_int_equal(st, elems >= n ? TOLK_OK : TOLK_E_RANGE);
        if (st) { /* of a store of work-item i, or of a load of it */
            unsigned long long at = strtoull(strstr(err.msg, "index ") + 6, NULL, 10);
            assert_non_null(strstr(err.msg, "kernel turned: local memory: index "));
            assert_true(at >= elems && at < n);
        }
        check(s, elems, what);
    }
    memset(s->y, 0xee, s->bytes[0]);
    assert_int_equal(tolk_launch(p, s->bufs, s->bytes, 2, NULL, 0, NULL), TOLK_E_RANGE);
    check(s, 0, what);
    assert_int_equal(tolk_launch_with(p, s->bufs, s->bytes, 2, NULL, 0, NULL, NULL), TOLK_E_RANGE);
}

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"i8", 1}, {"f16", 2}, {"bf16", 2}, {"i32", 4}, {"f32", 4}, {"i64", 8}, {"f64", 8}};

static void test_compiled_for_every_cpu(void **state) {
    (void)state;
    static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512", "native"};
    static const int items[] = {1, 8, 37};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t c = 0; c < sizeof targets / sizeof *targets; c++)
            for (size_t i = 0; i < sizeof items / sizeof *items; i++)
                for (int quick = 0; quick < 2; quick++) {
                    sample s = make(3, items[i]);
                    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
                    tolk_program *p;
                    tolk_error err = TOLK_ERROR_INIT;
                    opts.target = targets[c];
                    opts.tier = quick ? TOLK_TIER_QUICK : TOLK_TIER_FULL;
                    tolk_status st =
                        rt_try(&r, turned(3, items[i], types[t].name), &opts, &p, &err);
                    if (st == TOLK_OK) {
                        check_sizes(p, &s, types[t].bytes, types[t].name);
                        tolk_program_unref(p);
                    } else {
                        assert_int_equal(st, TOLK_E_UNSUPPORTED); /* not this machine */
                        assert_non_null(strstr(err.msg, "this machine does not have"));
                    }
                    drop(&s);
                }
}

static void test_interpreted(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        sample s = make(2, 9);
        const char *text = turned(2, 9, types[t].name);
        tolk_graph *g;
        const tolk_uop *root;
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, &err), TOLK_OK);
        for (size_t bytes = 0; bytes <= 10 * types[t].bytes; bytes++) {
            tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
            opts.shared_bytes = bytes;
            memset(s.y, 0xee, s.bytes[0]);
            size_t elems = bytes / types[t].bytes;
            assert_int_equal(
                tolk_interpret_launch(root, s.bufs, s.bytes, 2, NULL, 0, 0, &opts, &err),
                elems >= 9 ? TOLK_OK : TOLK_E_RANGE);
            check(&s, elems, "interpreter");
        }
        assert_int_equal(tolk_interpret_launch(root, s.bufs, s.bytes, 2, NULL, 0, 0, NULL, &err),
                         TOLK_E_RANGE);
        assert_int_equal(tolk_interpret_launch(root, s.bufs, s.bytes, 2, NULL, 0, 2, NULL, &err),
                         TOLK_E_ARG);
        tolk_graph_destroy(g);
        drop(&s);
    }
}

/* Each thread has an area of its own, of a size that no stack has. */
static void test_many_groups_on_all_threads(void **state) {
    (void)state;
    sample s = make(20000, 64);
    tolk_program *p = rt_compile(&r, turned(20000, 64, "f32"));
    static const size_t sizes[] = {256, 255, 100, 1 << 20, 64 << 20};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        assert_int_equal(launch(p, &s, sizes[k], NULL), sizes[k] >= 256 ? TOLK_OK : TOLK_E_RANGE);
        check(&s, sizes[k] / 4, "threads");
    }
    tolk_program_unref(p);
    drop(&s);
}

/* A saved program knows its dynamic buffer, one from disk does, too. */
static void test_saved_and_cached(void **state) {
    (void)state;
    sample s = make(3, 21);
    tolk_program *p = rt_compile(&r, turned(3, 21, "i64"));
    char *bytes;
    size_t len, scratch;
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    scratch = info.scratch_bytes;
    assert_true(scratch >= 21 && scratch % 64 == 0);
    assert_int_equal(tolk_program_save(p, &bytes, &len, NULL), TOLK_OK);
    tolk_program_unref(p);
    for (int disk = 0; disk < 2; disk++) {
        rt other;
        rt_open(&other, disk ? dir : NULL, NULL);
        if (disk)
            p = rt_compile(&other, turned(3, 21, "i64"));
        else
            assert_int_equal(tolk_program_load(other.cpu, bytes, len, &p, NULL), TOLK_OK);
        assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
        assert_int_equal(info.cached, disk ? TOLK_CACHED_DISK : TOLK_CACHED_SAVED);
        assert_int_equal(info.scratch_bytes, scratch); /* without the dynamic buffer */
        check_sizes(p, &s, 8, "saved");
        tolk_program_unref(p);
        rt_close(&other);
    }
    tolk_free_text(r.ctx, bytes);
    drop(&s);
}

/* y[i] = x[i] of a list of instructions that says itself which groups it runs. */
static void test_programs_in_text(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 8\n%1 = param i32 (%0) {slot=0}\n"
        "%2 = param i32 (%0) {slot=1}\n%3 = buffer i32 {slot=0, space=local, dynamic=true}\n"
        "%4 = const index 0\n%5 = index i32 (%2, %4)\n%6 = load i32x8 (%5)\n"
        "%7 = index i32 (%3, %4)\n%8 = store void (%7, %6)\n%9 = barrier void\n"
        "%10 = after i32 (%3, %9)\n%11 = index i32 (%10, %4)\n%12 = load i32x8 (%11)\n"
        "%13 = index i32 (%1, %4)\n%14 = store void (%13, %12)\n"
        "%15 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14)\n";
    tolk_program *p = rt_compile(&r, text);
    int32_t x[8], y[8];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    for (int i = 0; i < 8; i++)
        x[i] = 11 * i + 1;
    for (size_t n = 0; n <= 9; n++) {
        tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
        opts.shared_bytes = 4 * n + 3;
        memset(y, 0xee, sizeof y);
        assert_int_equal(tolk_launch_with(p, bufs, bytes, 2, NULL, 0, &opts, NULL),
                         n >= 8 ? TOLK_OK : TOLK_E_RANGE);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(y[i], i < n ? x[i] : 0);
    }
    tolk_program_unref(p);
}

static void test_sizes_that_cannot_be_are_refused(void **state) {
    (void)state;
    sample s = make(2, 5);
    char text[8192];
    snprintf(text, sizeof text, "%s", turned(2, 5, "i32"));
    tolk_program *p = rt_compile(&r, text);
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, &err), TOLK_OK);
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    const size_t most = (size_t)INT64_MAX - info.scratch_bytes;
    /* (size_t)-1 is what a negative number becomes */
    const size_t large[] = {(size_t)-1, (size_t)INT64_MAX + 1, (size_t)INT64_MAX, most + 1,
                            most,       (size_t)1 << 62};
    for (size_t k = 0; k < sizeof large / sizeof *large; k++) {
        tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
        char want[160];
        opts.shared_bytes = large[k];
        tolk_status st = launch(p, &s, large[k], &err);
        if (large[k] <= most)
            snprintf(want, sizeof want,
                     "there is no memory for the %zu bytes of local memory that this launch needs",
                     large[k] + info.scratch_bytes);
        else
            snprintf(want, sizeof want,
                     "kernel turned: %zu bytes for its dynamic local buffer, expected at most %zu",
                     large[k], most);
        assert_int_equal(st, large[k] <= most ? TOLK_E_NOMEM : TOLK_E_LIMIT);
        assert_string_equal(err.msg, want);
        assert_int_equal(s.y[0], (int32_t)0xeeeeeeee); /* nothing was run */
        st = tolk_interpret_launch(root, s.bufs, s.bytes, 2, NULL, 0, 0, &opts, &err);
        assert_int_equal(st, large[k] <= INT64_MAX ? TOLK_E_NOMEM : TOLK_E_LIMIT);
        /* 5: its other local buffer */
        snprintf(want, sizeof want, "there is no memory for the %zu bytes", large[k] + 5);
        assert_non_null(strstr(err.msg, large[k] <= INT64_MAX ? want : "do not fit 63 bits"));
        assert_int_equal(s.y[0], (int32_t)0xeeeeeeee);
    }
    /* options of another version of the struct */
    tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
    opts.size = 4;
    assert_int_equal(tolk_launch_with(p, s.bufs, s.bytes, 2, NULL, 0, &opts, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "tolk_launch_opts.size is 4"));
    assert_int_equal(tolk_interpret_launch(root, s.bufs, s.bytes, 2, NULL, 0, 0, &opts, &err),
                     TOLK_E_ARG);
    assert_int_equal(tolk_launch_with(NULL, s.bufs, s.bytes, 2, NULL, 0, NULL, &err), TOLK_E_ARG);
    tolk_graph_destroy(g);
    tolk_program_unref(p);
    drop(&s);
}

/* Where there is no such buffer the bytes count for nothing. */
static void test_other_kernels_take_no_notice(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 10, "2"));
    float x[10], y[10];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
    opts.shared_bytes = (size_t)-1;
    for (int i = 0; i < 10; i++)
        x[i] = (float)i;
    assert_int_equal(tolk_launch_with(p, bufs, bytes, 2, NULL, 0, &opts, NULL), TOLK_OK);
    for (int i = 0; i < 10; i++)
        assert_true(y[i] == 2 * x[i]);
    tolk_program_unref(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiled_for_every_cpu),
        cmocka_unit_test(test_interpreted),
        cmocka_unit_test(test_many_groups_on_all_threads),
        cmocka_unit_test(test_saved_and_cached),
        cmocka_unit_test(test_programs_in_text),
        cmocka_unit_test(test_sizes_that_cannot_be_are_refused),
        cmocka_unit_test(test_other_kernels_take_no_notice),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
