/* SPDX-License-Identifier: MIT
 *
 * CPUF-01, CPUF-03: what code may use follows from what the CPU reports and the system lets run,
 * never from a name. Case ids are those of the collection this project tests against.
 */
#include "cpu/cpu_detect.h"

#include "support/runtime.h"

#include <sched.h>

static tk_host host;

static int setup(void **state) {
    (void)state;
    tk_cpu_detect(&host);
    return 0;
}

static const char *const feature_names[TK_FEATURE_COUNT] = {
#define NAME_OF(NAME, text) text,
    TK_TARGET_FEATURES(NAME_OF)
#undef NAME_OF
};

static int feature_of(const char *name) {
    for (int i = 0; i < TK_FEATURE_COUNT; i++)
        if (strcmp(feature_names[i], name) == 0)
            return i;
    fail_msg("no feature %s", name);
    return 0;
}

static bool host_has(const char *name) {
    return host.features >> feature_of(name) & 1;
}

#if defined(__x86_64__)

/* ---- what is found ---- */

/* Does the system list a flag for its processors? Linux takes out what it does not enable. */
static bool listed(const char *flags, const char *flag) {
    size_t n = strlen(flag);
    for (const char *p = strstr(flags, flag); p; p = strstr(p + 1, flag))
        if (p[-1] == ' ' && (p[n] == ' ' || p[n] == '\n'))
            return true;
    return false;
}

static void test_CPUF_01_features_are_those_that_the_system_lists(void **state) {
    (void)state;
    /* where Linux's name is another one than LLVM's */
    static const char *const other[][2] = {
        {"sse3", "pni"},
        {"pclmul", "pclmulqdq"},
        {"sse4.1", "sse4_1"},
        {"sse4.2", "sse4_2"},
        {"sahf", "lahf_lm"},
        {"lzcnt", "abm"},
        {"bmi", "bmi1"},
        {"sha", "sha_ni"},
        {"avx512vbmi2", "avx512_vbmi2"},
        {"avx512vnni", "avx512_vnni"},
        {"avx512bitalg", "avx512_bitalg"},
        {"avx512vpopcntdq", "avx512_vpopcntdq"},
        {"avx512bf16", "avx512_bf16"},
        {"avx512fp16", "avx512_fp16"},
    };
    FILE *f = fopen("/proc/cpuinfo", "r");
    static char flags[16384];
    bool found = false;
    while (f && !found && fgets(flags, sizeof flags, f))
        found = strncmp(flags, "flags", 5) == 0;
    if (f)
        fclose(f);
    if (!found)
        skip();
    for (int i = 0; i < TK_FEATURE_COUNT; i++) {
        const char *name = feature_names[i];
        for (size_t k = 0; k < sizeof other / sizeof *other; k++)
            if (strcmp(other[k][0], name) == 0)
                name = other[k][1];
        if (listed(flags, name) != (host.features >> i & 1))
            fail_msg("%s: the system says %d", name, listed(flags, name));
    }
    assert_int_equal(host.arch, TK_ARCH_X86_64);
    assert_true(host.cpu[0] && host.model[0]);
}

static bool has(uint64_t features, const char *name) {
    return features >> feature_of(name) & 1;
}

static void test_CPUF_01_registers_that_are_not_saved_take_their_features_away(void **state) {
    (void)state;
    static const char *const wide[] = {"avx", "avx2", "fma", "f16c", "vaes", "vpclmulqdq"};
    static const char *const widest[] = {
        "avx512f",    "avx512cd",   "avx512bw",        "avx512dq",   "avx512vl",   "avx512ifma",
        "avx512vbmi", "avx512vnni", "avx512vpopcntdq", "avx512bf16", "avx512fp16", "avx512bitalg"};
    static const char *const narrow[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "bmi"};
    static const struct {
        uint64_t xcr0;
        bool osxsave, ymm, zmm;
    } t[] = {
        {0xe7, true, true, true},    /* x87, SSE, AVX, AVX-512 */
        {0x2ff, true, true, true},   /* and more */
        {0x07, true, true, false},   /* a hypervisor that masks AVX-512 */
        {0x67, true, true, false},   /* the upper 16 registers are not saved */
        {0xc7, true, true, false},   /* nor the masks */
        {0xa7, true, true, false},   /* nor the upper halves */
        {0xe3, true, false, false},  /* AVX-512 without AVX */
        {0xe5, true, false, false},  /* without SSE */
        {0x03, true, false, false},  /* SSE alone */
        {0x00, true, false, false},  /* nothing */
        {0xe7, false, false, false}, /* the system has not turned XSAVE on */
        {UINT64_MAX, false, false, false},
    };
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        tk_cpu_regs regs = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, t[k].xcr0};
        if (!t[k].osxsave)
            regs.leaf1_c &= ~(1u << 27);
        uint64_t f = tk_cpu_features(&regs);
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
            if (has(f, wide[i]) != t[k].ymm)
                fail_msg("XCR0 0x%llx: %s", (unsigned long long)t[k].xcr0, wide[i]);
        for (size_t i = 0; i < sizeof widest / sizeof *widest; i++)
            if (has(f, widest[i]) != t[k].zmm)
                fail_msg("XCR0 0x%llx: %s", (unsigned long long)t[k].xcr0, widest[i]);
        for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
            assert_true(has(f, narrow[i]));
    }
    tk_cpu_regs none = {.leaf1_c = 1u << 27, .xcr0 = UINT64_MAX};
    assert_int_equal(tk_cpu_features(&none), 0);
}

/* ---- what is made of it ---- */

/* Does the assembly use a register or an instruction that begins with word? */
static bool uses(const char *assembly, const char *word) {
    char at[32];
    bool reg = *word == '%';
    snprintf(at, sizeof at, "%s%s", reg ? "" : "\t", word);
    return strstr(assembly, at) != NULL;
}

/* y = x y + 3 with one rounding, and the number of ones in x's bits by shifts: f32 and u32. */
static const char sources[][1024] = {
    "tolk.uop 1\n%0 = const index 1000\n%1 = param f32 (%0) {slot=0}\n"
    "%2 = param f32 (%0) {slot=1}\n%3 = range index (%0) {axis=0, kind=global}\n"
    "%4 = index f32 (%1, %3)\n%5 = load f32 (%4)\n%6 = index f32 (%2, %3)\n%7 = load f32 (%6)\n"
    "%8 = const f32 3\n%9 = mulacc f32 (%5, %7, %8)\n%10 = store void (%4, %9)\n"
    "%11 = end void (%10, %3)\n%12 = sink void (%11) {name=\"fused\"}\n",
    "tolk.uop 1\n%0 = const index 1000\n%1 = param u32 (%0) {slot=0}\n"
    "%2 = param u32 (%0) {slot=1}\n%3 = range index (%0) {axis=0, kind=global}\n"
    "%4 = index u32 (%1, %3)\n%5 = load u32 (%4)\n%6 = index u32 (%2, %3)\n%7 = load u32 (%6)\n"
    "%8 = shl u32 (%5, %7)\n%9 = max u32 (%8, %7)\n%10 = cdiv u32 (%9, %5)\n"
    "%11 = store void (%4, %10)\n%12 = end void (%11, %3)\n"
    "%13 = sink void (%12) {name=\"ints\"}\n",
};
enum { N_SOURCES = sizeof sources / sizeof *sources };

static char *assembly_of(rt *r, const char *source, const char *target) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    tolk_graph *g;
    const tolk_uop *root;
    char *text = NULL;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    o.target = target;
    assert_int_equal(tolk_graph_create(r->ctx, &g), TOLK_OK);
    if (tolk_parse(g, source, strlen(source), 0, &root, &err) ||
        tolk_emit(r->ctx, root, &o, TOLK_EMIT_ASM, &text, &len, &err))
        fail_msg("%s: %s", target, err.msg);
    tolk_graph_destroy(g);
    return text;
}

/* A rich name, and features taken away: no instruction of those is left. */
static void test_CPUF_01_features_not_the_name_decide_what_code_uses(void **state) {
    (void)state;
    static const struct {
        const char *target;
        const char *words[12]; /* that must not be used */
    } t[] = {
        {"skylake-avx512,-avx512f", {"%zmm", "%k1", "%xmm16", "%ymm16", "vpternlog"}},
        {"skylake-avx512,-avx512vl", {"%zmm", "%k1", "%xmm16", "%ymm16", "vpternlog"}},
        {"x86-64-v4,-avx512bw", {"%zmm", "%k1", "%xmm16"}},
        {"skylake-avx512,-avx2", {"%zmm", "%k1", "vpsllv", "vpmaxud\t%ymm", "vpbroadcast"}},
        {"skylake-avx512,-fma", {"%zmm", "vfmadd", "vfnmadd", "vfmsub"}},
        {"skylake-avx512,-avx", {"%zmm", "%ymm", "%k1", "v"}},
        {"haswell,-avx", {"%ymm", "v"}},
        {"haswell,-sse4.2", {"%ymm", "v", "pcmpgtq"}},
        {"haswell,-bmi2,-bmi,-lzcnt,-movbe",
         {"shlx", "shrx", "sarx", "mulx", "rorx", "andn", "blsr", "tzcnt", "lzcnt", "movbe"}},
        {"x86-64", {"%ymm", "%zmm", "v", "pmaxud", "popcnt", "shlx", "lzcnt", "blendv", "round"}},
        {"x86-64-v2", {"%ymm", "v", "shlx", "lzcnt"}},
        {"haswell", {"%zmm", "%k1"}},
    };
    rt r;
    rt_open(&r, NULL, NULL);
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        for (int k = 0; k < N_SOURCES; k++) {
            char *text = assembly_of(&r, sources[k], t[i].target);
            for (int w = 0; w < 12 && t[i].words[w]; w++)
                if (uses(text, t[i].words[w]))
                    fail_msg("%s: the code has %s:\n%s", t[i].target, t[i].words[w], text);
            tolk_free_text(r.ctx, text);
        }
    /* and the test can see them */
    char *text = assembly_of(&r, sources[0], "skylake-avx512");
    assert_true(uses(text, "%zmm") && uses(text, "vfmadd"));
    tolk_free_text(r.ctx, text);
    text = assembly_of(&r, sources[0], "haswell");
    assert_true(uses(text, "%ymm") && uses(text, "v"));
    tolk_free_text(r.ctx, text);
    rt_close(&r);
}

/* "native" on a machine whose name promises more than it runs. */
static void test_CPUF_01_native_on_a_masked_machine_is_what_it_runs(void **state) {
    (void)state;
    const char *missing = NULL;
    tk_host masked = {.arch = TK_ARCH_X86_64, .cpu = "sapphirerapids"};
    tk_target t;
    tk_cpu_regs regs = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 7}; /* AVX-512 is not enabled */
    masked.features = tk_cpu_features(&regs);
    assert_int_equal(tk_target_parse(&masked, "native", &t, NULL), TOLK_OK);
    assert_string_equal(t.cpu, "sapphirerapids");
    assert_false(t.avx512);
    assert_true(t.avx2 && t.fma);
    assert_int_equal(t.vec_bytes, 32);
    assert_non_null(strstr(t.features, "-avx512f"));
    assert_null(strstr(t.features, "+avx512"));
    assert_true(tk_target_runs_on(&t, &masked, &missing));
    assert_int_equal(tk_target_parse(&masked, "skylake-avx512", &t, NULL), TOLK_OK);
    assert_false(tk_target_runs_on(&t, &masked, &missing));
    assert_non_null(strstr(missing, "avx512"));
    assert_int_equal(tk_target_parse(&masked, "skylake-avx512,-avx512f", &t, NULL), TOLK_OK);
    assert_true(tk_target_runs_on(&t, &masked, &missing));
    masked.features = 0; /* SSE2 alone */
    assert_int_equal(tk_target_parse(&masked, "native", &t, NULL), TOLK_OK);
    assert_null(strchr(t.features, '+'));
    assert_int_equal(t.vec_bytes, 16);
    assert_int_equal(tk_target_parse(&masked, "haswell", &t, NULL), TOLK_OK);
    assert_false(tk_target_runs_on(&t, &masked, &missing));
    assert_int_equal(tk_target_parse(&masked, "aarch64", &t, NULL), TOLK_OK);
    assert_false(tk_target_runs_on(&t, &masked, &missing));
    assert_non_null(strstr(missing, "aarch64"));
}

/* Whatever single feature is taken away: the code runs, and is right. */
static void test_CPUF_01_native_without_any_one_feature_runs(void **state) {
    (void)state;
    rt r;
    rt_open(&r, NULL, NULL);
    for (int i = 0; i < TK_FEATURE_COUNT; i++) {
        char target[64];
        tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
        tolk_program *p = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        snprintf(target, sizeof target, "native,-%s", feature_names[i]);
        o.target = target;
        if (rt_try(&r, rt_text(RT_SCALE, 1001, "3"), &o, &p, &err))
            fail_msg("%s: %s", target, err.msg);
        if (!rt_scale_is(p, 1001, 3))
            fail_msg("%s: wrong", target);
        tolk_program_unref(p);
        /* and one that the machine lacks is refused by name */
        snprintf(target, sizeof target, "x86-64,+%s", feature_names[i]);
        tk_target t;
        const char *missing = NULL;
        assert_int_equal(tk_target_parse(&host, target, &t, NULL), TOLK_OK);
        if (!tk_target_runs_on(&t, &host, &missing)) {
            p = NULL;
            assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 1001, "3"), &o, &p, &err),
                             TOLK_E_UNSUPPORTED);
            assert_non_null(strstr(err.msg, missing));
        }
    }
    rt_close(&r);
}

/* ---- the override ---- */

static void lanes_with(const char *cpu, const char *dir, uint32_t *lanes, tolk_cached *cached) {
    rt r;
    if (cpu)
        setenv("TOLK_CPU", cpu, 1);
    else
        unsetenv("TOLK_CPU");
    rt_open(&r, dir, NULL);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 4096, "3"));
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    assert_true(rt_scale_is(p, 4096, 3));
    *lanes = info.lanes;
    *cached = info.cached;
    tolk_program_unref(p);
    rt_close(&r);
    unsetenv("TOLK_CPU");
}

static void test_CPUF_01_TOLK_CPU_overrides_what_was_found(void **state) {
    (void)state;
    uint32_t lanes;
    tolk_cached cached;
    tk_target native;
    assert_int_equal(tk_target_parse(&host, NULL, &native, NULL), TOLK_OK);
    lanes_with(NULL, NULL, &lanes, &cached);
    assert_int_equal(lanes, native.vec_bytes / 4);
    lanes_with("", NULL, &lanes, &cached); /* empty is unset */
    assert_int_equal(lanes, native.vec_bytes / 4);
    lanes_with("native", NULL, &lanes, &cached);
    assert_int_equal(lanes, native.vec_bytes / 4);
    lanes_with("x86-64", NULL, &lanes, &cached);
    assert_int_equal(lanes, 4);
    lanes_with("native,-avx", NULL, &lanes, &cached);
    assert_int_equal(lanes, 4);
    if (host_has("avx2")) {
        lanes_with("native,-avx512f", NULL, &lanes, &cached);
        assert_int_equal(lanes, 8);
    }
    /* what the program names wins */
    setenv("TOLK_CPU", "no such CPU", 1);
    rt r;
    rt_open(&r, NULL, NULL);
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 10, "3"), NULL, &p, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "no such CPU"));
    assert_non_null(strstr(err.msg, "x86-64-v3")); /* names what there is */
    o.target = "native";
    assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 10, "3"), &o, &p, &err), TOLK_OK);
    tolk_program_unref(p);
    rt_close(&r);
    tolk_ctx_opts blind = TOLK_CTX_OPTS_INIT;
    blind.no_environment = 1;
    rt_open(&r, NULL, &blind);
    tolk_program_unref(rt_compile(&r, rt_text(RT_SCALE, 10, "3")));
    rt_close(&r);
    unsetenv("TOLK_CPU");
}

/* CPUF-03: a cache that was filled with more features than a run has is no cache for it. */
static void test_CPUF_03_code_of_a_richer_machine_is_not_taken_from_disk(void **state) {
    (void)state;
    static const char *const features[] = {"avx512f", "avx2", "avx", "sse4.2", "sse3"};
    char *dir = rt_mkdir();
    uint32_t lanes;
    tolk_cached cached;
    lanes_with("native", dir, &lanes, &cached);
    assert_int_equal(cached, TOLK_CACHED_NONE);
    lanes_with("native", dir, &lanes, &cached);
    assert_int_equal(cached, TOLK_CACHED_DISK);
    for (int i = 0; i < 5; i++)
        if (host_has(features[i])) {
            char cpu[64];
            snprintf(cpu, sizeof cpu, "native,-%s", features[i]);
            lanes_with(cpu, dir, &lanes, &cached);
            assert_int_equal(cached, TOLK_CACHED_NONE);
            lanes_with(cpu, dir, &lanes, &cached);
            assert_int_equal(cached, TOLK_CACHED_DISK);
        }
    lanes_with("native", dir, &lanes, &cached);
    assert_int_equal(cached, TOLK_CACHED_DISK);
    rt_rmdir(dir);
}

#endif

/* ---- cores ---- */

static void test_cores_are_those_of_the_affinity_mask_at_most(void **state) {
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int n = CPU_COUNT(&all), first = 0;
    tk_host now;
    tk_cpu_detect(&now);
    assert_true(now.cores >= 1 && now.cores <= (uint32_t)n);
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    tk_cpu_detect(&now);
    assert_int_equal(now.cores, 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    tk_cpu_detect(&now);
    assert_int_equal(now.cores, host.cores);
    assert_int_equal(now.features, host.features);
}

/* The device tells what was found: every feature by name, and how many threads a launch gets. */
static void test_device_info_names_what_was_found(void **state) {
    (void)state;
    static const struct {
        const char *env;
        uint32_t opts, want; /* 0: the cores */
    } t[] = {{NULL, 0, 0}, {"3", 0, 3}, {"3", 5, 5}, {"", 0, 0}, {"0", 0, 0}, {"x", 0, 0}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        rt r;
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
        o.threads = t[i].opts;
        if (t[i].env)
            setenv("TOLK_THREADS", t[i].env, 1);
        rt_open(&r, NULL, &o);
        unsetenv("TOLK_THREADS");
        /* what is no number of threads is told and left alone */
        assert_int_equal(r.logged, t[i].env && (*t[i].env == '0' || *t[i].env == 'x'));
        char *text, want[64];
        size_t len;
        assert_int_equal(tolk_device_debug_info(r.cpu, &text, &len), TOLK_OK);
        assert_int_equal(strlen(text), len);
        snprintf(want, sizeof want, "\"threads\": %u,", t[i].want ? t[i].want : host.cores);
        if (!strstr(text, want))
            fail_msg("no %s in %s", want, text);
        for (int k = 0; k < TK_FEATURE_COUNT; k++) {
            snprintf(want, sizeof want, "\"%s\"", feature_names[k]);
            assert_int_equal(strstr(strstr(text, "\"features\""), want) != NULL,
                             host_has(feature_names[k]));
        }
        tolk_free_text(r.ctx, text);
        rt_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(test_CPUF_01_features_are_those_that_the_system_lists),
        cmocka_unit_test(test_CPUF_01_registers_that_are_not_saved_take_their_features_away),
        cmocka_unit_test(test_CPUF_01_features_not_the_name_decide_what_code_uses),
        cmocka_unit_test(test_CPUF_01_native_on_a_masked_machine_is_what_it_runs),
        cmocka_unit_test(test_CPUF_01_native_without_any_one_feature_runs),
        cmocka_unit_test(test_CPUF_01_TOLK_CPU_overrides_what_was_found),
        cmocka_unit_test(test_CPUF_03_code_of_a_richer_machine_is_not_taken_from_disk),
#endif
        cmocka_unit_test(test_cores_are_those_of_the_affinity_mask_at_most),
        cmocka_unit_test(test_device_info_names_what_was_found),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
