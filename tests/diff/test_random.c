/* SPDX-License-Identifier: MIT
 *
 * Random kernels: interpreter, every form on the way, and code, on each target that this machine
 * runs, with the heuristic's options, with random ones and with none. 20,000 kernels at a share of
 * 100 percent.
 *
 * "test_diff_random SEED [COUNT]" runs the kernels of those seeds alone.
 */
#include "support/tk_diff.h"
#include "support/tk_gen.h"

#include "base/ctx.h"
#include "ir/uop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tk_diff diff;

/* What is to be compared, for the shrinker. */
typedef struct variant {
    uint32_t target;
    const char *opts; /* NULL: the heuristic's */
    bool strict;
    uint64_t seed;
    char kind[24]; /* how the difference begins; a smaller kernel must fail in the same way */
} variant;

static bool fails(const tolk_uop *kernel, void *user) {
    const variant *v = user;
    bool refused;
    char *text;
    size_t len;
    assert_int_equal(tolk_print(kernel, &text, &len), TOLK_OK);
    tk_diff_note(text);
    bool failed = !tk_diff_check(&diff, kernel, v->target, v->opts, v->strict, v->seed, &refused);
    tk_diff_note(NULL);
    tolk_free_text(diff.ctx, text);
    return failed && !strncmp(diff.what, v->kind, strlen(v->kind));
}

static void report(const tolk_uop *kernel, variant *v) {
    char what[sizeof diff.what], path[64], *text, *small;
    size_t len, small_len;
    snprintf(what, sizeof what, "%s", diff.what);
    snprintf(v->kind, sizeof v->kind, "%.20s", diff.what);
    assert_int_equal(tolk_print(kernel, &text, &len), TOLK_OK);
    const tolk_uop *least = tk_gen_shrink(kernel, fails, v);
    fails(least, v);
    assert_int_equal(tolk_print(least, &small, &small_len), TOLK_OK);
    snprintf(path, sizeof path, "diff_random_%" PRIx64 ".uop", v->seed);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%s", text);
        fclose(f);
    }
    fprintf(stderr,
            "seed 0x%" PRIx64 ", target %s, options %s%s%s, strict %d: %s\n(the kernel is in "
            "%s) made smaller: %s\n%s\n",
            v->seed, tk_diff_target_names[v->target], v->opts ? "\"" : "",
            v->opts ? v->opts : "of the heuristic", v->opts ? "\"" : "", v->strict, what, path,
            diff.what, small);
    tolk_free_text(diff.ctx, text);
    tolk_free_text(diff.ctx, small);
}

/* Makes the kernels of the suite at hand. */
static const tolk_uop *(*make)(tolk_graph *g, uint64_t seed) = tk_gen_kernel;

/* Returns 0, or 1 if something differed. */
static unsigned run_seed(uint64_t seed) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(diff.ctx, &g), TOLK_OK);
    const tolk_uop *kernel = make(g, seed);
    tolk_error err = TOLK_ERROR_INIT;
    if (!kernel) {
        if (tolk_graph_error(g, &err) != TOLK_OK)
            fail_msg("seed 0x%" PRIx64 ": the generator made a wrong kernel: %s", seed, err.msg);
        tolk_graph_destroy(g);
        return 0;
    }
    char *text;
    size_t len;
    assert_int_equal(tolk_print(kernel, &text, &len), TOLK_OK);
    tk_diff_note(text);
    uint64_t rng = seed ^ 0x5eed;
    unsigned failed = 0, one = (unsigned)(tk_test_rand(&rng) % TK_DIFF_TARGETS);
    for (uint32_t t = 0; t < TK_DIFF_TARGETS && !failed; t++) {
        if (!diff.runs[t])
            continue;
        char opts[200];
        bool refused, strict = tk_test_rand(&rng) % 4 == 0;
        variant v[3] = {
            {t, NULL, strict, seed, {0}}, {t, "", strict, seed, {0}}, {t, opts, strict, seed, {0}}};
        for (int i = 0; i < 3 && !failed; i++) {
            if (i > 0 && t != (one + (unsigned)i) % TK_DIFF_TARGETS && i != 2)
                continue;
            if (i == 2 && tk_uop_is(kernel, TK_OP_LINEAR))
                continue; /* its loops are as they are */
            if (i == 2)
                tk_diff_options(&diff, kernel, t, strict, &rng, opts, sizeof opts);
            if (i == 2 && !*opts)
                continue;
            if (!tk_diff_check(&diff, kernel, t, v[i].opts, strict, seed, &refused)) {
                report(kernel, &v[i]);
                failed = 1;
            }
        }
    }
    tk_diff_note(NULL);
    tolk_free_text(diff.ctx, text);
    tolk_graph_destroy(g);
    return failed;
}

static uint64_t first_seed, n_seeds;

static void run_suite(const tolk_uop *(*generator)(tolk_graph *g, uint64_t seed), uint64_t full) {
    make = generator;
    tk_diff_init(&diff);
    uint64_t n = n_seeds ? n_seeds : tk_test_count(full), failed = 0, rng = tk_test_seed();
    for (uint64_t i = 0; i < n && failed < 20; i++)
        failed += run_seed(n_seeds ? first_seed + i : tk_test_rand(&rng));
    printf("%" PRIu64 " kernels, %" PRIu64 " compared variants, %" PRIu64 " launches of code\n", n,
           diff.optimized, diff.launches);
    tk_diff_fini(&diff);
    assert_int_equal(failed, 0);
    assert_true(n < 100 || diff.optimized > n);
}

static void test_random_kernels_agree(void **state) {
    (void)state;
    run_suite(tk_gen_kernel, 20000);
}

static void test_random_work_groups_agree(void **state) {
    (void)state;
    run_suite(tk_gen_items, 8000);
}

static void test_random_programs_agree(void **state) {
    (void)state;
    run_suite(tk_gen_program, 8000);
}

/* Arguments: a seed, how many from it on, and a pattern of the tests to run. */
int main(int argc, char **argv) {
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 0);
        n_seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    }
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_kernels_agree),
                                       cmocka_unit_test(test_random_work_groups_agree),
                                       cmocka_unit_test(test_random_programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
