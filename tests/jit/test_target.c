/* SPDX-License-Identifier: MIT
 *
 * Names of targets: what each may use, what features turn on and off together, what is no name, and
 * which host runs what.
 */
#include "support/tk_test.h"

#include "jit/target.h"

#include <stdio.h>
#include <string.h>

#define BIT(NAME) ((uint64_t)1 << TK_FEATURE_##NAME)

/* A machine with AVX2 and no FMA, as nothing in the list of names is. */
static const tk_host host = {.arch = TK_ARCH_X86_64,
                             .model = "a test",
                             .cpu = "znver3",
                             .features = BIT(SSE3) | BIT(SSSE3) | BIT(SSE41) | BIT(SSE42) |
                                         BIT(POPCNT) | BIT(AVX) | BIT(AVX2),
                             .cores = 1};

static tk_target target(const char *name) {
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    memset(&t, 0xff, sizeof t);
    if (tk_target_parse(&host, name, &t, &err) != TOLK_OK)
        fail_msg("%s: %s", name ? name : "NULL", err.msg);
    return t;
}

/* Is the feature on? Fails the test unless it is either on or off. */
static bool has(const tk_target *t, const char *feature) {
    char on[40], off[40], all[sizeof t->features + 2];
    snprintf(all, sizeof all, ",%s,", t->features);
    snprintf(on, sizeof on, ",+%s,", feature);
    snprintf(off, sizeof off, ",-%s,", feature);
    bool is_on = strstr(all, on) != NULL;
    if (is_on == (strstr(all, off) != NULL))
        fail_msg("%s in %s", feature, t->features);
    return is_on;
}

static void test_names_and_what_they_may_use(void **state) {
    (void)state;
    static const struct {
        const char *name, *cpu;
        uint32_t vec_bytes;
        bool fma, avx2, avx512, masked32, masked8;
    } want[] = {
        {"x86-64", "x86-64", 16, false, false, false, false, false},
        {"x86-64-v2", "x86-64-v2", 16, false, false, false, false, false},
        {"x86-64-v3", "x86-64-v3", 32, true, true, false, true, false},
        {"x86-64-v4", "x86-64-v4", 64, true, true, true, true, true},
        {"haswell", "haswell", 32, true, true, false, true, false},
        {"skylake-avx512", "skylake-avx512", 64, true, true, true, true, true},
        {"native", "znver3", 32, false, true, false, true, false},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tk_target t = target(want[i].name);
        assert_int_equal(t.arch, TK_ARCH_X86_64);
        assert_string_equal(t.triple, "x86_64-unknown-linux-gnu");
        assert_string_equal(t.cpu, want[i].cpu);
        assert_int_equal(t.vec_bytes, want[i].vec_bytes);
        assert_int_equal(t.fma, want[i].fma);
        assert_int_equal(t.avx2, want[i].avx2);
        assert_int_equal(t.avx512, want[i].avx512);
        assert_int_equal(t.masked32, want[i].masked32);
        assert_int_equal(t.masked8, want[i].masked8);
        /* every feature is on or off, and says what the struct says */
#define CHECK(NAME, text) (void)has(&t, text);
        TK_TARGET_FEATURES(CHECK)
#undef CHECK
        assert_int_equal(has(&t, "fma"), t.fma);
        assert_int_equal(has(&t, "avx2"), t.avx2);
        assert_int_equal(has(&t, "avx512vl"), t.avx512);
        assert_false(has(&t, "prefer-256-bit"));
    }
    assert_false(has(&(tk_target[]){target("x86-64")}[0], "sse3"));
    assert_true(has(&(tk_target[]){target("x86-64-v2")}[0], "sse4.2"));
}

static void test_aarch64_has_16_byte_vectors_with_fma(void **state) {
    (void)state;
    tk_target t = target("aarch64");
    assert_int_equal(t.arch, TK_ARCH_AARCH64);
    assert_string_equal(t.triple, "aarch64-unknown-linux-gnu");
    assert_string_equal(t.features, "+neon");
    assert_int_equal(t.vec_bytes, 16);
    assert_true(t.fma);
    assert_false(t.avx2 || t.avx512 || t.masked32 || t.masked8);
}

/* Every byte is part of a cache key. */
static void test_equal_targets_are_equal_bytes(void **state) {
    (void)state;
    static const char *const same[][2] = {{NULL, "native"},
                                          {"", "native"},
                                          {"native,+avx2", "native"},
                                          {"haswell,-fma,+fma", "haswell"},
                                          {"haswell,+fma,-fma", "haswell,-fma"},
                                          {"x86-64-v4,-avx512vl", "x86-64-v4,-avx512f"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        tk_target a = target(same[i][0]), b = target(same[i][1]);
        assert_memory_equal(&a, &b, sizeof a);
    }
    tk_target a = target("haswell"), b = target("haswell,-fma");
    assert_memory_not_equal(&a, &b, sizeof a);
}

/* What a feature needs is never off while it is on; nothing is turned on that was not asked for. */
static void test_features_go_with_what_they_need(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t vec_bytes;
        const char *off; /* a feature that has gone */
    } want[] = {
        {"haswell,-sse3", 16, "ssse3"},
        {"haswell,-ssse3", 16, "sse4.1"},
        {"haswell,-sse4.1", 16, "sse4.2"},
        {"haswell,-sse4.2", 16, "avx"},
        {"haswell,-avx", 16, "avx2"},
        {"haswell,-avx", 16, "f16c"},
        {"haswell,-avx", 16, "fma"},
        {"skylake-avx512,-avx2", 16, "avx512f"},
        {"skylake-avx512,-fma", 32, "avx512f"},
        {"skylake-avx512,-f16c", 32, "avx512bw"},
        {"skylake-avx512,-avx512vl", 32, "avx512f"},
        {"skylake-avx512,-avx512cd", 32, "avx512dq"},
        {"skylake-avx512,+avx512fp16,-avx512bw", 32, "avx512fp16"},
        {"haswell,+avx512f", 32, "avx512f"},
        {"haswell,+avx512vnni", 32, "avx512vnni"},
        {"haswell,+vaes,-aes", 32, "vaes"},
        {"haswell,+vpclmulqdq,-pclmul", 32, "vpclmulqdq"},
        {"x86-64,+avx2", 16, "avx2"},
        {"x86-64,+fma", 16, "fma"},
        {"x86-64,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl", 16, "avx512f"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tk_target t = target(want[i].name);
        if (t.vec_bytes != want[i].vec_bytes || has(&t, want[i].off))
            fail_msg("%s: %u bytes, %s", want[i].name, t.vec_bytes, t.features);
        assert_int_equal(t.fma, has(&t, "fma"));
    }
    tk_target t = target("haswell,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl");
    assert_int_equal(t.vec_bytes, 64);
    assert_false(has(&t, "avx512vnni"));
    t = target("haswell,-fma");
    assert_int_equal(t.vec_bytes, 32);
    assert_false(t.fma);
    assert_true(t.masked32);
}

static void refused(const char *name, const char *msg) {
    tk_target t, before;
    tolk_error err = TOLK_ERROR_INIT;
    memset(&t, 0x5a, sizeof t);
    before = t;
    assert_int_equal(tk_target_parse(&host, name, &t, &err), TOLK_E_ARG);
    assert_memory_equal(&t, &before, sizeof t);
    assert_string_equal(err.msg, msg);
    assert_int_equal(tk_target_parse(&host, name, &t, NULL), TOLK_E_ARG);
}

static void test_an_unknown_name_is_told_the_known_ones(void **state) {
    (void)state;
    static const char *const bad[] = {"pentium",  "Haswell",   " haswell", "haswel",
                                      "haswellx", "x86-64-v5", "+avx2",    "native "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char msg[240];
        snprintf(
            msg, sizeof msg,
            "unknown CPU name \"%s\": expected native, x86-64, x86-64-v2, x86-64-v3, "
            "x86-64-v4, haswell, skylake-avx512, aarch64, then +feature or -feature; or a GPU, "
            "sm_75 to sm_90a",
            bad[i]);
        refused(bad[i], msg);
    }
    refused(",+avx2", "unknown CPU name \"\": expected native, x86-64, x86-64-v2, x86-64-v3, "
                      "x86-64-v4, haswell, skylake-avx512, aarch64, then +feature or -feature; or "
                      "a GPU, sm_75 to sm_90a");
    refused("a-name-that-is-longer-than-any-message-should-be",
            "unknown CPU name \"a-name-that-is-longer-than-any-m\": expected native, x86-64, "
            "x86-64-v2, x86-64-v3, x86-64-v4, haswell, skylake-avx512, aarch64, then +feature or "
            "-feature; or a GPU, sm_75 to sm_90a");
}

static void test_an_unknown_feature_is_told_the_known_ones(void **state) {
    (void)state;
    static const struct {
        const char *name, *feature;
    } bad[] = {{"haswell,avx2", "avx2"},
               {"haswell,+", "+"},
               {"haswell,", ""},
               {"haswell,+foo", "+foo"},
               {"haswell,+avx2,", ""},
               {"haswell,,+avx2", ""},
               {"haswell,+AVX2", "+AVX2"},
               {"haswell, +fma", " +fma"},
               {"haswell,-prefer-256-bit", "-prefer-256-bit"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char msg[300];
        snprintf(msg, sizeof msg,
                 "unknown CPU feature \"%s\": +/- sse3 ssse3 sse4.1 sse4.2 popcnt cx16 sahf movbe "
                 "aes pclmul avx f16c fma avx2 bmi bmi2 lzcnt fsgsbase adx sha gfni vaes "
                 "vpclmulqdq avx512:f,cd,bw,dq,vl,ifma,vbmi,vbmi2,vnni,bitalg,vpopcntdq,bf16,fp16",
                 bad[i].feature);
        msg[sizeof((tolk_error *)0)->msg - 1] = 0;
        refused(bad[i].name, msg);
    }
    refused("aarch64,+neon",
            "unknown CPU feature \"+neon\": features can be chosen for x86-64 only");
}

static void test_a_host_runs_what_it_has(void **state) {
    (void)state;
    const char *missing = NULL;
    static const struct {
        const char *name, *missing;
    } want[] = {{"native", NULL},
                {"x86-64", NULL},
                {"native,-avx2", NULL},
                {"x86-64,+sse3", NULL},
                {"x86-64-v2", "cx16"},
                {"native,+fma", "fma"},
                {"native,+sha", "sha"},
                {"aarch64", "an aarch64 CPU"},
                {"native,+lzcnt,-lzcnt", NULL}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        tk_target t = target(want[i].name);
        missing = NULL;
        assert_int_equal(tk_target_runs_on(&t, &host, &missing), want[i].missing == NULL);
        if (want[i].missing)
            assert_string_equal(missing, want[i].missing);
    }
    tk_host arm = {.arch = TK_ARCH_AARCH64, .cpu = "generic"};
    tk_target t = target("aarch64");
    assert_true(tk_target_runs_on(&t, &arm, &missing));
    t = target("x86-64");
    assert_false(tk_target_runs_on(&t, &arm, &missing));
    assert_string_equal(missing, "an x86-64 CPU");
    assert_int_equal(tk_target_parse(&arm, "native", &t, NULL), TOLK_OK);
    assert_int_equal(t.arch, TK_ARCH_AARCH64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_what_they_may_use),
        cmocka_unit_test(test_aarch64_has_16_byte_vectors_with_fma),
        cmocka_unit_test(test_equal_targets_are_equal_bytes),
        cmocka_unit_test(test_features_go_with_what_they_need),
        cmocka_unit_test(test_an_unknown_name_is_told_the_known_ones),
        cmocka_unit_test(test_an_unknown_feature_is_told_the_known_ones),
        cmocka_unit_test(test_a_host_runs_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
