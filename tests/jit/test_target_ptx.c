/* SPDX-License-Identifier: MIT
 *
 * GPUs as targets: names, versions of PTX, what drivers take.
 */
#include "support/tk_test.h"

#include "jit/target.h"

#include <stdio.h>
#include <string.h>

static const tk_host host = {.arch = TK_ARCH_X86_64, .cpu = "x86-64"};

static tolk_status parse(const char *name, tk_target *t, tolk_error *err) {
    memset(t, 0xff, sizeof *t);
    return tk_target_parse(&host, name, t, err);
}

static void is(const char *name, const char *cpu, uint32_t sm, uint32_t ptx) {
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    char features[16];
    if (parse(name, &t, &err) != TOLK_OK)
        fail_msg("%s: %s", name, err.msg);
    assert_true(tk_target_is_gpu(&t));
    assert_string_equal(t.triple, "nvptx64-nvidia-cuda");
    assert_string_equal(t.cpu, cpu);
    snprintf(features, sizeof features, "+ptx%u", ptx);
    assert_string_equal(t.features, features);
    assert_int_equal(t.sm, sm);
    assert_int_equal(t.ptx, ptx);
    assert_true(t.fma && t.vec_bytes == 16);
    assert_false(t.avx2 || t.avx512 || t.masked32 || t.masked8);
    const char *missing = NULL;
    assert_false(tk_target_runs_on(&t, &host, &missing));
    assert_string_equal(missing, "a CUDA device");
}

/* The lowest version that knows each chip, from the PTX manual's ".target". */
static void test_ptx_names_have_the_lowest_version_of_their_chip(void **state) {
    (void)state;
    is("sm_75", "sm_75", 75, 63);
    is("sm_80", "sm_80", 80, 70);
    is("sm_86", "sm_86", 86, 71);
    is("sm_89", "sm_89", 89, 78);
    is("sm_90", "sm_90", 90, 78);
    is("sm_90a", "sm_90a", 90, 80);
    is("sm_80,+ptx78", "sm_80", 80, 78);
    is("sm_80,+ptx85", "sm_80", 80, 85);
    is("sm_80,+ptx85,+ptx70", "sm_80", 80, 70);
    is("sm_80,cuda11.0", "sm_80", 80, 70);
    is("sm_80,cuda13.0,+ptx84", "sm_80", 80, 84);
}

static void refuses(const char *name, tolk_status want, const char *part) {
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = parse(name, &t, &err);
    if (st != want || !strstr(err.msg, part) || strchr(err.msg, '\n'))
        fail_msg("%s: %s (%s), expected %s and \"%s\"", name, tolk_status_name(st), err.msg,
                 tolk_status_name(want), part);
    const unsigned char *bytes = (const unsigned char *)&t;
    for (size_t i = 0; i < sizeof t; i++)
        assert_int_equal(bytes[i], 0xff); /* untouched */
    assert_int_equal(parse(name, &t, NULL), want);
}

/* PTX-03: LLVM would say "not a recognized processor (ignoring)" and go on. */
static void test_ptx_03_unknown_chips_are_refused_and_known_ones_named(void **state) {
    (void)state;
    static const char *const odd[] = {"sm_999", "sm_100", "sm_75a", "sm_",    "sm_7",
                                      "sm_70",  "sm_90A", "sm_80 ", "sm_0080"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        refuses(odd[i], TOLK_E_ARG, "sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a");
        refuses(odd[i], TOLK_E_ARG, odd[i]);
    }
    tk_target t;
    assert_int_equal(parse("", &t, NULL), TOLK_OK); /* native, as for a CPU */
    assert_false(tk_target_is_gpu(&t));
    static const char *const options[] = {"sm_80,ptx78",   "sm_80,+ptx",    "sm_80,+ptx99",
                                          "sm_80,",        "sm_80,+avx2",   "sm_80,cuda12",
                                          "sm_80,cuda9.2", "sm_80,cuda12.", "sm_80,cuda12.44",
                                          "sm_80,+ptx070", "sm_80,cuda.1",  "sm_80,-ptx78"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        refuses(options[i], TOLK_E_ARG, "unknown GPU option");
}

/* PTX-01: never newer than the driver takes; both versions are in the message. */
static void test_ptx_01_a_driver_that_is_too_old_is_told_with_both_versions(void **state) {
    (void)state;
    static const struct {
        uint32_t driver, ptx;
    } drivers[] = {{9020, 0},   {10000, 63}, {11000, 70}, {11040, 74}, {11080, 78},
                   {12000, 80}, {12040, 84}, {12060, 85}, {12090, 85}, {13000, 85}};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        assert_int_equal(tk_target_ptx_of_driver(drivers[i].driver), drivers[i].ptx);
    static const char *const fit[] = {"sm_80,cuda11.4", "sm_86,cuda11.4", "sm_89,cuda12.0",
                                      "sm_90a,cuda12.4", "sm_75,cuda13.0"};
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) {
        tk_target t;
        tolk_error err = TOLK_ERROR_INIT;
        if (parse(fit[i], &t, &err) != TOLK_OK)
            fail_msg("%s", err.msg);
    }
    refuses("sm_89,cuda11.4", TOLK_E_UNSUPPORTED,
            "PTX 7.8: the driver of CUDA 11.4 takes PTX up to 7.4");
    refuses("sm_90a,cuda11.8", TOLK_E_UNSUPPORTED,
            "PTX 8.0: the driver of CUDA 11.8 takes PTX up to 7.8");
    refuses("sm_75,+ptx85,cuda12.4", TOLK_E_UNSUPPORTED, "PTX 8.5");
    refuses("sm_86,+ptx70", TOLK_E_UNSUPPORTED, "sm_86 needs PTX 7.1 or newer, not 7.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ptx_names_have_the_lowest_version_of_their_chip),
        cmocka_unit_test(test_ptx_03_unknown_chips_are_refused_and_known_ones_named),
        cmocka_unit_test(test_ptx_01_a_driver_that_is_too_old_is_told_with_both_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
