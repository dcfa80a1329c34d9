/* SPDX-License-Identifier: MIT
 *
 * Quick code reads what the kernel reads, and no byte beside it.
 */
#include "support/runtime.h"

#include <sys/mman.h>

enum { N = 5 };

/* y[i] = x[i] < 3 ? x[i] : 0, where x[i] is loaded only if i < 5: a select of a load. */
static const char text[] =
    "tolk.uop 1\n%0 = const index 5\n%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n%3 = param f32 (%0) {slot=2, name=\"z\"}\n"
    "%4 = range index (%0) {axis=0, kind=loop}\n%5 = index f32 (%3, %4)\n%6 = load f32 (%5)\n"
    "%7 = const f32 3\n%8 = cmplt bool (%6, %7)\n%9 = const f32 0\n%10 = index f32 (%2, %4)\n"
    "%11 = load f32 (%10, %9, %8)\n%12 = index f32 (%1, %4)\n%13 = store void (%12, %11)\n"
    "%14 = end void (%13, %4)\n%15 = sink void (%14) {name=\"blend\"}\n";

static void test_an_element_at_the_end_of_a_page_is_all_that_is_read(void **state) {
    (void)state;
    static const tolk_tier tiers[] = {TOLK_TIER_QUICK, TOLK_TIER_FULL};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    float *x = (float *)(void *)(map + page) - N, y[N], z[N] = {1, 2, 3, 4, 2};
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 10);
    rt r;
    rt_open(&r, NULL, NULL);
    for (int t = 0; t < 2; t++) {
        tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
        tolk_graph *g;
        const tolk_uop *kernel;
        tolk_program *p;
        opts.opts = ""; /* one element at a time */
        opts.tier = tiers[t];
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        assert_int_equal(tolk_parse(g, text, sizeof text - 1, 0, &kernel, NULL), TOLK_OK);
        assert_int_equal(tolk_compile(r.cpu, kernel, &opts, &p, NULL), TOLK_OK);
        const size_t bytes[] = {sizeof y, sizeof y, sizeof y};
        assert_int_equal(tolk_launch(p, (void *[]){y, x, z}, bytes, 3, NULL, 0, NULL), TOLK_OK);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == (z[i] < 3 ? x[i] : 0));
        tolk_program_unref(p);
        tolk_graph_destroy(g);
    }
    rt_close(&r);
    munmap(map, 2 * page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_element_at_the_end_of_a_page_is_all_that_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
