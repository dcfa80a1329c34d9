/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments of every public call of the runtime: a status, a message that names the kernel,
 * the param, what was expected and what came; and nothing was run. Case ids are those of the
 * collection this project tests against.
 */
#include "support/runtime.h"

enum { N = 100 };

static rt r;
static tolk_program *scale, *sym, *typed;
static float x[2 * N], y[2 * N];

/* y[i] = x[i] + 1 for i < n, n in 1 .. 10; both arrays have n elements. */
static const char sym_text[] = "tolk.uop 1\n"
                               "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=10}\n"
                               "%1 = cast index (%0)\n"
                               "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                               "%3 = param f32 (%1) {slot=1, name=\"x\"}\n"
                               "%4 = range index (%1) {axis=0, kind=global}\n"
                               "%5 = index f32 (%3, %4)\n"
                               "%6 = load f32 (%5)\n"
                               "%7 = const f32 1\n"
                               "%8 = add f32 (%6, %7)\n"
                               "%9 = index f32 (%2, %4)\n"
                               "%10 = store void (%9, %8)\n"
                               "%11 = end void (%10, %4)\n"
                               "%12 = sink void (%11) {name=\"grow\"}\n";

/* One scalar of dtype, stored to y[0]. */
#define TYPED                                                                                      \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index 1\n"                                                                        \
    "%%1 = param %s (%%0) {slot=0, name=\"y\"}\n"                                                  \
    "%%2 = const index 0\n"                                                                        \
    "%%3 = index %s (%%1, %%2)\n"                                                                  \
    "%%4 = param %s {slot=1, name=\"v\", space=alu%s}\n"                                           \
    "%%5 = store void (%%3, %%4)\n"                                                                \
    "%%6 = sink void (%%5) {name=\"typed\"}\n"

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    scale = rt_compile(&r, rt_text(RT_SCALE, N, "3"));
    sym = rt_compile(&r, sym_text);
    typed = rt_compile(&r, rt_text(TYPED, "u8", "u8", "u8", ""));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_program_unref(scale);
    tolk_program_unref(sym);
    tolk_program_unref(typed);
    rt_close(&r);
    return 0;
}

/* A launch that fails: with this status, each of these words in the message, and no store done. */
static void refused(const tolk_program *p, void *const *bufs, const size_t *bytes, size_t n_bufs,
                    const int64_t *vals, size_t n_vals, tolk_status status,
                    const char *const *words) {
    tolk_error err = TOLK_ERROR_INIT;
    memset(y, 0x5a, sizeof y);
    tolk_status st = tolk_launch(p, bufs, bytes, n_bufs, vals, n_vals, &err);
    if (st != status)
        fail_msg("status %s, expected %s (%s)", tolk_status_name(st), tolk_status_name(status),
                 err.msg);
    assert_int_equal(err.code, status);
    for (; *words; words++)
        if (!strstr(err.msg, *words))
            fail_msg("the message has no \"%s\": %s", *words, err.msg);
    for (size_t i = 0; i < sizeof y; i++)
        assert_int_equal(((unsigned char *)y)[i], 0x5a);
    /* err may be NULL */
    assert_int_equal(tolk_launch(p, bufs, bytes, n_bufs, vals, n_vals, NULL), status);
}
#define WORDS(...)                                                                                 \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }

static void test_ERR_03_wrong_buffers_are_refused_by_name(void **state) {
    (void)state;
    void *bufs[] = {y, x, x};
    size_t bytes[] = {N * 4, N * 4, N * 4};
    refused(scale, bufs, bytes, 1, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "2 buffers", "1"));
    refused(scale, bufs, bytes, 3, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "2 buffers", "3"));
    refused(scale, bufs, bytes, 0, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "2 buffers", "0"));
    refused(scale, NULL, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "2 buffers"));
    refused(scale, bufs, NULL, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "2 buffers"));
    int64_t val = 1;
    refused(scale, bufs, bytes, 2, &val, 1, TOLK_E_LAUNCH, WORDS("scale", "0 scalars", "1"));
    bytes[1] = N * 4 - 1;
    refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH,
            WORDS("scale", "\"x\"", "slot 1", "400", "399", "f32"));
    bytes[1] = 0;
    refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "\"x\"", "400", "0"));
    bytes[1] = N * 4;
    bytes[0] = 4;
    refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "\"y\"", "slot 0"));
    bytes[0] = N * 4;
    bufs[0] = NULL;
    refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "\"y\"", "NULL"));
    bufs[0] = y;
    bufs[1] = NULL;
    refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("scale", "\"x\"", "NULL"));
    refused(NULL, bufs, bytes, 2, NULL, 0, TOLK_E_ARG, WORDS("program is NULL"));
    bufs[1] = x; /* larger than declared is fine */
    bytes[0] = bytes[1] = SIZE_MAX;
    assert_int_equal(tolk_launch(scale, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
}

static void test_SYM_05_variables_missing_or_out_of_bounds_are_refused_by_name(void **state) {
    (void)state;
    void *bufs[] = {y, x};
    size_t bytes[] = {40, 40};
    static const int64_t wrong[] = {0, 11, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 32 | 5};
    refused(sym, bufs, bytes, 2, NULL, 0, TOLK_E_LAUNCH, WORDS("grow", "1 scalars", "0"));
    int64_t two[] = {3, 3};
    refused(sym, bufs, bytes, 2, two, 2, TOLK_E_LAUNCH, WORDS("grow", "1 scalars", "2"));
    refused(sym, bufs, bytes, 2, NULL, 1, TOLK_E_LAUNCH, WORDS("grow", "1 scalars"));
    for (int i = 0; i < 6; i++) {
        char shown[32];
        snprintf(shown, sizeof shown, "%lld", (long long)wrong[i]);
        refused(sym, bufs, bytes, 2, &wrong[i], 1, TOLK_E_LAUNCH, WORDS("grow", "\"n\"", shown));
    }
    int64_t n = 10;
    bytes[1] = 39;
    refused(sym, bufs, bytes, 2, &n, 1, TOLK_E_LAUNCH, WORDS("grow", "\"x\"", "40", "39"));
    n = 9; /* then 36 bytes are enough */
    for (int i = 0; i < 10; i++) {
        x[i] = (float)i;
        y[i] = -1;
    }
    assert_int_equal(tolk_launch(sym, bufs, bytes, 2, &n, 1, NULL), TOLK_OK);
    for (int i = 0; i < 9; i++)
        assert_true(y[i] == (float)i + 1);
    assert_true(y[9] == -1);
}

/* y[0] is 1 if v < 2^63, else 2. */
#define HALVES                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index 1\n"                                                                        \
    "%%1 = param u64 (%%0) {slot=0, name=\"y\"}\n"                                                 \
    "%%2 = const index 0\n"                                                                        \
    "%%3 = index u64 (%%1, %%2)\n"                                                                 \
    "%%4 = param u64 {slot=1, name=\"v\", space=alu%s}\n"                                          \
    "%%5 = const u64 9223372036854775808\n"                                                        \
    "%%6 = cmplt bool (%%4, %%5)\n"                                                                \
    "%%7 = const u64 1\n"                                                                          \
    "%%8 = const u64 2\n"                                                                          \
    "%%9 = where u64 (%%6, %%7, %%8)\n"                                                            \
    "%%10 = store void (%%3, %%9)\n"                                                               \
    "%%11 = sink void (%%10) {name=\"halves\"}\n"

/* Values and bounds compare as unsigned numbers, for a launch and for the interpreter. */
static void test_scalars_of_u64_are_bounded_by_what_is_given(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t min, max;
    } bounds[] = {{"", 0, UINT64_MAX},
                  {", min=0", 0, UINT64_MAX},
                  {", min=5", 5, UINT64_MAX},
                  {", min=9223372036854775807", INT64_MAX, UINT64_MAX},
                  {", max=9", 0, 9},
                  {", min=2, max=9", 2, 9},
                  {", max=9223372036854775806", 0, INT64_MAX - 1}};
    static const uint64_t values[] = {
        0, 1, 2, 5, 9, 10, INT64_MAX, (uint64_t)INT64_MAX - 1, 1ull << 63, UINT64_MAX};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        const char *text = rt_text(HALVES, bounds[b].text);
        tolk_program *p = rt_compile(&r, text);
        tolk_graph *g;
        const tolk_uop *kernel;
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        assert_int_equal(tolk_parse(g, text, strlen(text), 0, &kernel, NULL), TOLK_OK);
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            uint64_t compiled = 0, defined = 0, v = values[i];
            bool within = v >= bounds[b].min && v <= bounds[b].max;
            uint64_t want = !within ? 0 : v < 1ull << 63 ? 1 : 2;
            void *out[] = {&compiled}, *ref[] = {&defined};
            size_t bytes[] = {8};
            int64_t val = (int64_t)v;
            tolk_status st = within ? TOLK_OK : TOLK_E_LAUNCH;
            assert_int_equal(tolk_launch(p, out, bytes, 1, &val, 1, NULL), st);
            assert_int_equal(tolk_interpret(kernel, ref, bytes, 1, &val, 1, NULL), st);
            assert_int_equal(compiled, want);
            assert_int_equal(defined, want);
        }
        tolk_graph_destroy(g);
        tolk_program_unref(p);
    }
}

static void test_scalars_of_every_width_outside_their_dtype_are_refused(void **state) {
    (void)state;
    void *bufs[] = {y};
    size_t bytes[] = {8};
    static const int64_t wrong[] = {256, -1, 1000};
    for (int i = 0; i < 3; i++)
        refused(typed, bufs, bytes, 1, &wrong[i], 1, TOLK_E_LAUNCH, WORDS("typed", "\"v\"", "u8"));
    for (int64_t v = 0; v < 256; v++) {
        assert_int_equal(tolk_launch(typed, bufs, bytes, 1, &v, 1, NULL), TOLK_OK);
        assert_int_equal(*(unsigned char *)y, v);
    }
    /* u64: all bits are a value, but a bound is a bound */
    tolk_program *p = rt_compile(&r, rt_text(TYPED, "u64", "u64", "u64", ""));
    static const int64_t all[] = {-1, INT64_MIN, INT64_MAX, 0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tolk_launch(p, bufs, bytes, 1, &all[i], 1, NULL), TOLK_OK);
        assert_memory_equal(y, &all[i], 8);
    }
    tolk_program_unref(p);
    p = rt_compile(&r, rt_text(TYPED, "u64", "u64", "u64", ", min=2, max=9"));
    static const int64_t outside[] = {1, 10, -1, INT64_MIN};
    for (int i = 0; i < 4; i++)
        refused(p, bufs, bytes, 1, &outside[i], 1, TOLK_E_LAUNCH,
                WORDS("typed", "\"v\"", "2 to 9"));
    tolk_program_unref(p);
    /* floats are bits */
    p = rt_compile(&r, rt_text(TYPED, "f32", "f32", "f32", ""));
    float f = -0.75f;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    int64_t v = bits;
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, &v, 1, NULL), TOLK_OK);
    assert_true(y[0] == f);
    tolk_program_unref(p);
}

/* ---- aliasing ---- */

static void test_ALIAS_stored_buffers_may_overlap_only_in_place(void **state) {
    (void)state;
    size_t bytes[] = {N * 4, N * 4};
    void *same[] = {y, y}; /* each element is read and written in one iteration */
    for (int i = 0; i < N; i++)
        y[i] = (float)i;
    assert_int_equal(tolk_launch(scale, same, bytes, 2, NULL, 0, NULL), TOLK_OK);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 3 * (float)i);
    static const int offsets[] = {1, -1, N - 1, 1 - N, N / 2};
    for (int i = 0; i < 5; i++) {
        void *bufs[] = {y + N / 2 + 50, y + N / 2 + 50 + offsets[i] / 2};
        if (offsets[i] / 2 == 0)
            bufs[1] = y + N / 2 + 50 + offsets[i];
        refused(scale, bufs, bytes, 2, NULL, 0, TOLK_E_ALIAS,
                WORDS("scale", "\"y\"", "\"x\"", "overlaps"));
    }
    void *bytewise[] = {y, (char *)y + 2};
    refused(scale, bytewise, bytes, 2, NULL, 0, TOLK_E_ALIAS, WORDS("overlaps"));
    void *beside[] = {y, y + N};
    assert_int_equal(tolk_launch(scale, beside, bytes, 2, NULL, 0, NULL), TOLK_OK);
    void *before[] = {y + N, y};
    assert_int_equal(tolk_launch(scale, before, bytes, 2, NULL, 0, NULL), TOLK_OK);
    /* bytes that the kernel does not declare do not count */
    size_t more[] = {2 * N * 4, N * 4};
    assert_int_equal(tolk_launch(scale, beside, more, 2, NULL, 0, NULL), TOLK_OK);
}

/* ALIAS-01: y[i] = x[i + 1] must not run in place. */
static void test_ALIAS_01_shift_in_place_is_refused(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, "tolk.uop 1\n"
                                     "%0 = const index 9\n"
                                     "%1 = const index 10\n"
                                     "%2 = param f32 (%1) {slot=0, name=\"out\"}\n"
                                     "%3 = param f32 (%1) {slot=1, name=\"in\"}\n"
                                     "%4 = range index (%0) {axis=0, kind=global}\n"
                                     "%5 = const index 1\n"
                                     "%6 = add index (%4, %5)\n"
                                     "%7 = index f32 (%3, %6)\n"
                                     "%8 = load f32 (%7)\n"
                                     "%9 = index f32 (%2, %4)\n"
                                     "%10 = store void (%9, %8)\n"
                                     "%11 = end void (%10, %4)\n"
                                     "%12 = sink void (%11) {name=\"shift\"}\n");
    size_t bytes[] = {40, 40};
    void *same[] = {y, y};
    refused(p, same, bytes, 2, NULL, 0, TOLK_E_ALIAS, WORDS("shift", "\"out\"", "\"in\""));
    void *apart[] = {y, x};
    for (int i = 0; i < 10; i++)
        x[i] = (float)i;
    assert_int_equal(tolk_launch(p, apart, bytes, 2, NULL, 0, NULL), TOLK_OK);
    for (int i = 0; i < 9; i++)
        assert_true(y[i] == (float)i + 1);
    tolk_program_unref(p);
}

/* ---- out of range ---- */

/* y[i] = x[idx[i]]; the index is data. */
static void test_RANGE_faults_name_the_param_and_the_first_index(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, "tolk.uop 1\n"
                                     "%0 = const index 20\n"
                                     "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                                     "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"
                                     "%3 = param i64 (%0) {slot=2, name=\"at\"}\n"
                                     "%4 = range index (%0) {axis=0, kind=global}\n"
                                     "%5 = index i64 (%3, %4)\n"
                                     "%6 = load i64 (%5)\n"
                                     "%7 = cast index (%6)\n"
                                     "%8 = index f32 (%2, %7)\n"
                                     "%9 = load f32 (%8)\n"
                                     "%10 = index f32 (%1, %4)\n"
                                     "%11 = store void (%10, %9)\n"
                                     "%12 = end void (%11, %4)\n"
                                     "%13 = sink void (%12) {name=\"gather\"}\n");
    int64_t at[20];
    void *bufs[] = {y, x, at};
    size_t bytes[] = {80, 80, 160};
    for (int i = 0; i < 20; i++) {
        at[i] = 19 - i;
        x[i] = (float)i + 1;
    }
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, NULL, 0, NULL), TOLK_OK);
    at[7] = 20;
    at[9] = -1;
    at[15] = INT64_MIN;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, NULL, 0, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, "gather"));
    assert_non_null(strstr(err.msg, "\"x\""));
    assert_non_null(strstr(err.msg, "20"));
    for (int i = 0; i < 20; i++)
        assert_true(y[i] == (i == 7 || i == 9 || i == 15 ? 0 : (float)(20 - i)));
    at[7] = at[9] = at[15] = 0;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, NULL, 0, NULL), TOLK_OK); /* no trace */
    tolk_program_unref(p);
}

/* ERR-01: one launch of five fails. It says so itself, naming the kernel and what was wrong with
 * it; those before and after it are right, and none of them has its error. */
static void test_ERR_01_a_failing_launch_is_blamed_and_no_other(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 30, "2"));
    for (int bad = 0; bad < 5; bad++)
        for (int i = 0; i < 5; i++) {
            void *bufs[] = {y, i == bad ? NULL : (void *)x};
            const size_t bytes[] = {120, 120};
            for (int k = 0; k < 30; k++) {
                x[k] = (float)(k + i);
                y[k] = -1;
            }
            tolk_error err = TOLK_ERROR_INIT;
            const tolk_status st = tolk_launch(p, bufs, bytes, 2, NULL, 0, &err);
            if (i == bad) {
                assert_int_not_equal(st, TOLK_OK);
                assert_int_equal(err.code, st);
                assert_non_null(strstr(err.msg, "scale"));
                assert_non_null(strstr(err.msg, "\"x\""));
            } else {
                assert_int_equal(st, TOLK_OK);
                assert_int_equal(err.code, TOLK_OK);
            }
            for (int k = 0; k < 30; k++)
                assert_true(y[k] == (i == bad ? -1 : 2 * x[k])); /* nothing was run */
        }
    tolk_program_unref(p);
}

/* ---- compiling ---- */

static tolk_status compile_with(const char *text, const tolk_compile_opts *opts, tolk_error *err) {
    tolk_program *p = NULL;
    tolk_status st = rt_try(&r, text, opts, &p, err);
    if (st == TOLK_OK)
        tolk_program_unref(p);
    else
        assert_null(p);
    return st;
}

static void test_compile_bad_options_are_refused(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    const char *text = rt_text(RT_SCALE, N, "3");
    o.size = 4;
    assert_int_equal(compile_with(text, &o, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "TOLK_COMPILE_OPTS_INIT"));
    o = (tolk_compile_opts)TOLK_COMPILE_OPTS_INIT;
    o.bounds = (tolk_bounds)7;
    assert_int_equal(compile_with(text, &o, &err), TOLK_E_ARG);
    o.bounds = TOLK_BOUNDS_CHECK;
    /* The message names what there is: CPUs, or features, or where features can be chosen at all.
     */
    static const char cpu[] = "skylake-avx512", feature[] = "avx2 bmi", only[] = "x86-64 only";
    static const struct {
        const char *target, *names;
    } targets[] = {{"pentium", cpu},
                   {"native,", feature},
                   {"native,avx2", feature},
                   {"x86-64,+nope", feature},
                   {"haswell,,+fma", feature},
                   {",", cpu},
                   {"Native", cpu},
                   {"native ", cpu},
                   {"aarch64,+avx2", only},
                   {"\xff\n", cpu}};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        o.target = targets[i].target;
        if (compile_with(text, &o, &err) != TOLK_E_ARG || !strstr(err.msg, targets[i].names))
            fail_msg("target \"%s\": %s", targets[i].target, err.msg);
    }
    o.target = "aarch64";
    assert_int_equal(compile_with(text, &o, &err), TOLK_E_UNSUPPORTED);
    o.target = NULL;
    static const char *const opts[] = {
        "NOPE:0:4",  "LANE",       "LANE:0",     "LANE:9:4",   "LANE:0:3",
        "LANE:0:-4", "UNROLL:0:4", "LANE:0:4:5", "LANE:0:1e9", "LANE:0:99999999999999999999",
        "lane:0:4",  "SWAP:0:9",
    };
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++) {
        o.opts = opts[i];
        if (compile_with(text, &o, &err) != TOLK_E_ARG)
            fail_msg("opts \"%s\" are accepted or: %s", opts[i], err.msg);
    }
    char *huge = malloc(1 << 20);
    assert_non_null(huge);
    memset(huge, 'A', 1 << 20);
    huge[(1 << 20) - 1] = 0;
    o.opts = huge;
    assert_int_equal(compile_with(text, &o, &err), TOLK_E_ARG);
    o.opts = NULL;
    o.target = huge;
    assert_int_equal(compile_with(text, &o, &err), TOLK_E_ARG);
    free(huge);
}

static void test_null_arguments_are_refused_and_null_objects_ignored(void **state) {
    (void)state;
    tolk_program *p = NULL;
    tolk_graph *g;
    const tolk_uop *root;
    const char *text = rt_text(RT_SCALE, N, "3");
    char *out;
    size_t len;
    tolk_device *device;
    double flops, bytes;
    tolk_cache_stats stats;
    tolk_program_info info;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    assert_int_equal(tolk_compile(NULL, root, NULL, &p, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_compile(r.cpu, NULL, NULL, &p, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_compile(r.cpu, root, NULL, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_emit(NULL, root, NULL, TOLK_EMIT_UOP, &out, &len, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_emit(r.ctx, NULL, NULL, TOLK_EMIT_UOP, &out, &len, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_emit(r.ctx, root, NULL, TOLK_EMIT_UOP, NULL, &len, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_emit(r.ctx, root, NULL, (tolk_emit_kind)77, &out, &len, NULL),
                     TOLK_E_ARG);
    assert_int_equal(tolk_program_get_info(NULL, &info), TOLK_E_ARG);
    assert_int_equal(tolk_program_get_info(scale, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_estimate(NULL, NULL, 0, &flops, &bytes), TOLK_E_ARG);
    assert_int_equal(tolk_program_estimate(scale, NULL, 1, &flops, &bytes), TOLK_E_ARG);
    assert_int_equal(tolk_program_estimate(sym, NULL, 0, &flops, &bytes), TOLK_E_ARG);
    assert_int_equal(tolk_cache_get_stats(NULL, &stats), TOLK_E_ARG);
    assert_int_equal(tolk_cache_get_stats(r.ctx, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_cache_clear(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_debug_info(NULL, NULL, &out, &len), TOLK_E_ARG);
    assert_int_equal(tolk_debug_info(r.ctx, NULL, NULL, &len), TOLK_E_ARG);
    assert_int_equal(tolk_device_debug_info(NULL, &out, &len), TOLK_E_ARG);
    assert_int_equal(tolk_device_open(NULL, "CPU", &device, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_open(r.ctx, NULL, &device, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_open(r.ctx, "CPU", NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_count(NULL), 0);
    assert_string_equal(tolk_device_name(NULL), "");
    assert_null(tolk_program_ref(NULL));
    tolk_program_unref(NULL);
    tolk_ctx_destroy(NULL);
    tolk_free_text(NULL, NULL);
    tolk_free_text(r.ctx, NULL);
    tolk_cancel(NULL);
    assert_string_equal(tolk_last_log(NULL), "");
    assert_string_equal(tolk_last_log(r.ctx), "");
    tolk_graph_destroy(g);
}

static void test_device_names_are_found_or_refused(void **state) {
    (void)state;
    tolk_device *device = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    static const char *const good[] = {"CPU", "cpu", "Cpu", "CPU:0", "cpu:0"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tolk_device_open(r.ctx, good[i], &device, &err), TOLK_OK);
        assert_ptr_equal(device, r.cpu);
    }
    static const char *const bad[] = {
        "",       "CPU:1",
        "CPU:00", "CUDA:0",
        "CPU ",   ":0",
        "C",      "CPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPUCPU"};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(tolk_device_open(r.ctx, bad[i], &device, &err), TOLK_E_NO_DEVICE);
        assert_non_null(strstr(err.msg, "CPU"));
    }
    assert_int_equal(tolk_device_count(r.ctx), 1);
    assert_string_equal(tolk_device_name(r.cpu), "CPU");
}

static void *only_fail(void *user, size_t bytes) {
    (void)user, (void)bytes;
    return NULL;
}

static void test_context_options_bad_ones_are_refused(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_ctx *ctx = (tolk_ctx *)1;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.size++;
    assert_int_equal(tolk_ctx_create(&o, &ctx, &err), TOLK_E_ARG);
    o.size--;
    assert_int_equal(tolk_ctx_create(&o, NULL, &err), TOLK_E_ARG);
    tolk_allocator al = {NULL, only_fail, NULL, NULL};
    o.allocator = &al;
    assert_int_equal(tolk_ctx_create(&o, &ctx, &err), TOLK_E_ARG);
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    al = heap.al;
    al.alloc = only_fail;
    assert_int_equal(tolk_ctx_create(&o, &ctx, &err), TOLK_E_NOMEM);
    assert_ptr_equal(ctx, (tolk_ctx *)1); /* untouched */
    /* extreme but fine */
    o = (tolk_ctx_opts)TOLK_CTX_OPTS_INIT;
    o.threads = UINT32_MAX;
    o.memory_entries = UINT64_MAX;
    o.cache_bytes = UINT64_MAX;
    o.cache_dir = "";
    o.no_environment = 1;
    assert_int_equal(tolk_ctx_create(&o, &ctx, &err), TOLK_OK);
    tolk_device *cpu;
    tolk_cache_stats stats;
    assert_int_equal(tolk_device_open(ctx, "CPU", &cpu, &err), TOLK_OK);
    assert_int_equal(tolk_cache_get_stats(ctx, &stats), TOLK_OK);
    assert_string_equal(stats.disk_dir, ""); /* no environment: no HOME */
    rt other = {.ctx = ctx, .cpu = cpu};
    tolk_program *p = rt_compile(&other, rt_text(RT_SPIN, 4096, 500LL));
    static float in[4096], out[4096];
    void *bufs[] = {out, in};
    size_t bytes[] = {sizeof out, sizeof in};
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    tolk_program_unref(p);
    tolk_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ERR_03_wrong_buffers_are_refused_by_name),
        cmocka_unit_test(test_SYM_05_variables_missing_or_out_of_bounds_are_refused_by_name),
        cmocka_unit_test(test_scalars_of_u64_are_bounded_by_what_is_given),
        cmocka_unit_test(test_scalars_of_every_width_outside_their_dtype_are_refused),
        cmocka_unit_test(test_ALIAS_stored_buffers_may_overlap_only_in_place),
        cmocka_unit_test(test_ALIAS_01_shift_in_place_is_refused),
        cmocka_unit_test(test_RANGE_faults_name_the_param_and_the_first_index),
        cmocka_unit_test(test_ERR_01_a_failing_launch_is_blamed_and_no_other),
        cmocka_unit_test(test_compile_bad_options_are_refused),
        cmocka_unit_test(test_null_arguments_are_refused_and_null_objects_ignored),
        cmocka_unit_test(test_device_names_are_found_or_refused),
        cmocka_unit_test(test_context_options_bad_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
