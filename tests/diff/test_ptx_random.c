/* SPDX-License-Identifier: MIT
 *
 * Random kernels for a GPU: the program is interpreted, work-item by work-item, beside the kernel;
 * its PTX has nothing in it that must not be there, and ptxas takes it. 4,000 kernels of each kind
 * at a share of 100 percent.
 *
 * "test_diff_ptx_random SEED [COUNT]" runs the kernels of those seeds alone.
 */
#include "support/tk_diff.h"
#include "support/tk_gen.h"
#include "support/tk_ptx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tk_diff diff;
static tk_ptx_module module;
static uint64_t texts;

static bool look(tk_diff *d, const char *text) {
    const char *why = tk_ptx_wrong(text, &module.target);
    if (why) {
        snprintf(d->what, sizeof d->what, "PTX: %s", why);
        return false;
    }
    texts++;
    tk_ptx_module_add(&module, text);
    return true;
}

static bool fails(const tolk_uop *kernel, void *user) {
    bool refused;
    const uint64_t *seed = user;
    diff.on_ptx = NULL;
    bool failed = !tk_diff_check(&diff, kernel, TK_DIFF_GPU, NULL, false, *seed, &refused);
    diff.on_ptx = look;
    return failed;
}

static void report(const tolk_uop *kernel, uint64_t seed) {
    char what[sizeof diff.what], *text;
    size_t len;
    snprintf(what, sizeof what, "%s", diff.what);
    const tolk_uop *least = strncmp(what, "PTX", 3) ? tk_gen_shrink(kernel, fails, &seed) : kernel;
    assert_int_equal(tolk_print(least, &text, &len), TOLK_OK);
    fprintf(stderr, "seed 0x%" PRIx64 ": %s\n%s\n", seed, what, text);
    tolk_free_text(diff.ctx, text);
}

typedef const tolk_uop *(*generator)(tolk_graph *g, uint64_t seed);

static unsigned run_seed(generator make, uint64_t seed) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(diff.ctx, &g), TOLK_OK);
    const tolk_uop *kernel = make(g, seed);
    unsigned failed = 0;
    uint64_t rng = seed ^ 0x9 ^ 0x5eed;
    char opts[200];
    for (int i = 0; kernel && i < 2 && !failed; i++) {
        bool refused, strict = tk_test_rand(&rng) % 4 == 0;
        if (i)
            tk_diff_options(&diff, kernel, TK_DIFF_GPU, strict, &rng, opts, sizeof opts);
        if (i && !*opts)
            continue;
        failed =
            !tk_diff_check(&diff, kernel, TK_DIFF_GPU, i ? opts : NULL, strict, seed, &refused);
        if (failed) {
            fprintf(stderr, "options %s%s\n", i ? opts : "of the heuristic",
                    strict ? ", strict" : "");
            report(kernel, seed);
        }
    }
    tolk_graph_destroy(g);
    return failed;
}

static uint64_t first_seed, n_seeds;

static void run_suite(generator make, uint64_t full) {
    tk_diff_init(&diff);
    diff.on_ptx = look;
    tk_target target;
    tolk_error err = TOLK_ERROR_INIT;
    static const tk_host none;
    assert_int_equal(tk_target_parse(&none, tk_diff_target_names[TK_DIFF_GPU], &target, &err),
                     TOLK_OK);
    tk_ptx_module_init(&module, &target);
    texts = 0;
    uint64_t n = n_seeds ? n_seeds : tk_test_count(full), failed = 0, rng = tk_test_seed();
    for (uint64_t i = 0; i < n && failed < 10; i++)
        failed += run_seed(make, n_seeds ? first_seed + i : tk_test_rand(&rng));
    tk_ptx_module_fini(&module);
    printf("%" PRIu64 " kernels, %" PRIu64 " PTX texts, %u assembled%s\n", n, texts,
           module.assembled, tk_ptx_assembler() ? "" : ": there is no ptxas");
    tk_diff_fini(&diff);
    assert_int_equal(failed, 0);
    assert_true(texts > n / 2);
}

static void test_ptx_random_kernels(void **state) {
    (void)state;
    run_suite(tk_gen_kernel, 4000);
}

/* Whose work-items meet. */
static void test_ptx_random_groups(void **state) {
    (void)state;
    run_suite(tk_gen_items, 4000);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 0);
        n_seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ptx_random_kernels),
                                       cmocka_unit_test(test_ptx_random_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
