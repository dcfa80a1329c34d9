/* SPDX-License-Identifier: MIT
 *
 * Conversions of f16 by the hardware (F16C) are tolk's exact code bit for bit, NaN payloads and
 * denormals included: all 2^16 codes to f32, and f32 to f16 around every code and every tie; at a
 * share of 100 percent (tk_test_share) all 2^32 f32. CPUs without F16C give any NaN for a NaN.
 */
#include "support/runtime.h"

#include "ir/narrow.h"

#include <fenv.h>
#include <math.h>

RT_FIXTURE

enum { CODES = 1 << 16, BLOCK = 1 << 20 };

static const struct {
    const char *target;
    bool exact; /* NaNs, too */
} targets[] = {
    {"haswell", true}, {"skylake-avx512", true}, {"haswell,-f16c", false}, {"x86-64", false}};
enum { N_TARGETS = sizeof targets / sizeof *targets };

/* Scalars, parts of a register, whole ones, several. */
static const char *const options[] = {"", "LANE:0:4", "LANE:0:8", "LANE:0:16 UPCAST:0:4",
                                      "LANE:0:64"};
enum { N_OPTIONS = sizeof options / sizeof *options };

/* y[i] = x[i] of another dtype, n elements; u32 and u16 are the bits of f32 and f16. */
#define WIDEN                                                                                      \
    "tolk.uop 1\n%%0 = const index %d\n%%1 = param u32 (%%0) {slot=0}\n"                           \
    "%%2 = param f16 (%%0) {slot=1}\n%%3 = range index (%%0) {axis=0, kind=global}\n"              \
    "%%4 = index f16 (%%2, %%3)\n%%5 = load f16 (%%4)\n%%6 = cast f32 (%%5)\n"                     \
    "%%7 = bitcast u32 (%%6)\n%%8 = index u32 (%%1, %%3)\n%%9 = store void (%%8, %%7)\n"           \
    "%%10 = end void (%%9, %%3)\n%%11 = sink void (%%10) {name=\"widen\"}\n"
#define ROUND                                                                                      \
    "tolk.uop 1\n%%0 = const index %d\n%%1 = param f16 (%%0) {slot=0}\n"                           \
    "%%2 = param u32 (%%0) {slot=1}\n%%3 = range index (%%0) {axis=0, kind=global}\n"              \
    "%%4 = index u32 (%%2, %%3)\n%%5 = load u32 (%%4)\n%%6 = bitcast f32 (%%5)\n"                  \
    "%%7 = cast f16 (%%6)\n%%8 = index f16 (%%1, %%3)\n%%9 = store void (%%8, %%7)\n"              \
    "%%10 = end void (%%9, %%3)\n%%11 = sink void (%%10) {name=\"round\"}\n"

static tolk_program *compile(const char *text, const char *target, const char *opts, bool quick) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    o.target = target;
    o.opts = opts;
    o.tier = quick ? TOLK_TIER_QUICK : TOLK_TIER_FULL;
    tolk_status st = rt_try(&r, text, &o, &p, &err);
    if (st != TOLK_OK && !strstr(err.msg, "this machine does not have"))
        fail_msg("%s, %s: %s", target, opts, err.msg);
    return p;
}

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static void run(const tolk_program *p, void *y, size_t y_bytes, const void *x, size_t x_bytes) {
    void *bufs[] = {y, (void *)(uintptr_t)x};
    size_t bytes[] = {y_bytes, x_bytes};
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
}

static void test_every_code_becomes_its_f32(void **state) {
    (void)state;
    static uint16_t x[CODES];
    static uint32_t y[CODES];
    for (int i = 0; i < CODES; i++)
        x[i] = (uint16_t)i;
    for (size_t t = 0; t < N_TARGETS; t++)
        for (size_t k = 0; k < N_OPTIONS; k++)
            for (int quick = 0; quick < 2; quick++) {
                tolk_program *p =
                    compile(rt_text(WIDEN, CODES), targets[t].target, options[k], quick);
                if (!p)
                    continue;
                run(p, y, sizeof y, x, sizeof x);
                for (int i = 0; i < CODES; i++) {
                    uint32_t want = bits_of(tk_narrow_f16_to_f32((uint16_t)i));
                    bool any = !targets[t].exact && isnan(float_of(want)) && isnan(float_of(y[i]));
                    if (y[i] != want && !any)
                        fail_msg("%s, %s: 0x%x becomes 0x%x, expected 0x%x", targets[t].target,
                                 options[k], i, y[i], want);
                }
                tolk_program_unref(p);
            }
}

static void check_rounded(const uint16_t *y, const uint32_t *x, size_t n, bool exact,
                          const char *who) {
    for (size_t i = 0; i < n; i++) {
        uint16_t want = tk_narrow_f16_from_f32(float_of(x[i]));
        bool any = !exact && isnan(float_of(x[i])) && (y[i] & 0x7fff) > 0x7c00;
        if (y[i] != want && !any)
            fail_msg("%s: 0x%x becomes 0x%x, expected 0x%x", who, x[i], y[i], want);
    }
}

/* Each code's f32, the ties beside it, and what is next to these; NaNs of all payloads' upper bits.
 * The caller's rounding mode changes nothing. */
static void test_every_tie_and_its_neighbours_are_rounded_to_even(void **state) {
    (void)state;
    enum { NEAR = 5, N = CODES * NEAR * 2 };
    uint32_t *x = malloc(N * sizeof *x), n = 0;
    uint16_t *y = malloc(N * sizeof *y);
    assert_true(x && y);
    for (uint32_t code = 0; code < CODES; code++) {
        uint32_t at = bits_of(tk_narrow_f16_to_f32((uint16_t)code));
        uint32_t next = bits_of(tk_narrow_f16_to_f32((uint16_t)(code + 1)));
        uint32_t tie = bits_of((float)(((double)float_of(at) + (double)float_of(next)) / 2));
        if (isnan(float_of(at)))
            tie = at ^ 0x1fff; /* the lower bits of the payload, which are cut off */
        for (uint32_t k = 0; k < NEAR; k++) {
            x[n++] = at + k - NEAR / 2;
            x[n++] = tie + k - NEAR / 2;
        }
    }
    assert_int_equal(n, N);
    for (size_t t = 0; t < N_TARGETS; t++)
        for (size_t k = 0; k < N_OPTIONS; k++)
            for (int quick = 0; quick < 2; quick++) {
                tolk_program *p = compile(rt_text(ROUND, N), targets[t].target, options[k], quick);
                if (!p)
                    continue;
                fesetround(k % 2 ? FE_DOWNWARD : FE_TONEAREST);
                run(p, y, N * sizeof *y, x, N * sizeof *x);
                fesetround(FE_TONEAREST);
                check_rounded(y, x, N, targets[t].exact, targets[t].target);
                tolk_program_unref(p);
            }
    free(x);
    free(y);
}

/* All f32, or every so many of them. */
static void test_every_f32_is_rounded_once(void **state) {
    (void)state;
    uint32_t *x = malloc(BLOCK * sizeof *x);
    uint16_t *y = malloc(BLOCK * sizeof *y);
    assert_true(x && y);
    for (size_t t = 0; t < N_TARGETS; t++) {
        tolk_program *p = targets[t].exact
                              ? compile(rt_text(ROUND, BLOCK), targets[t].target, NULL, false)
                              : NULL;
        if (!p)
            continue;
        uint64_t blocks = tk_test_count(4096), step = 4096 / blocks;
        for (uint64_t b = 0; b < blocks; b++) {
            /* with fewer blocks the numbers lie `step` apart, so that they still cover all */
            for (uint32_t i = 0; i < BLOCK; i++)
                x[i] = (uint32_t)(((b * BLOCK + i) * step + i % step) & UINT32_MAX);
            run(p, y, BLOCK * sizeof *y, x, BLOCK * sizeof *x);
            check_rounded(y, x, BLOCK, true, targets[t].target);
        }
        printf("%s: %llu blocks of %d\n", targets[t].target, (unsigned long long)blocks, BLOCK);
        tolk_program_unref(p);
    }
    free(x);
    free(y);
}

/* The instructions are there where the CPU has them, and nowhere else. */
static void test_CPUF_01_instructions_follow_the_feature(void **state) {
    (void)state;
    for (size_t t = 0; t < N_TARGETS; t++)
        for (int narrow = 0; narrow < 2; narrow++) {
            tolk_graph *g;
            const tolk_uop *root;
            const char *text = narrow ? rt_text(ROUND, 1000) : rt_text(WIDEN, 1000);
            tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
            char *out;
            size_t len;
            o.target = targets[t].target;
            assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
            assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
            assert_int_equal(tolk_emit(r.ctx, root, &o, TOLK_EMIT_ASM, &out, &len, NULL), TOLK_OK);
            assert_true((strstr(out, narrow ? "vcvtps2ph" : "vcvtph2ps") != NULL) ==
                        targets[t].exact);
            tolk_free_text(r.ctx, out);
            tolk_graph_destroy(g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_becomes_its_f32),
        cmocka_unit_test(test_every_tie_and_its_neighbours_are_rounded_to_even),
        cmocka_unit_test(test_every_f32_is_rounded_once),
        cmocka_unit_test(test_CPUF_01_instructions_follow_the_feature),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
