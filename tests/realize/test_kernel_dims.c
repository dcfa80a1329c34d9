/* SPDX-License-Identifier: MIT
 *
 * Grid and block of launches: sizes that the kernel takes from them, sizes that must be equal, and
 * what NULL means.
 */
#include "realize/kernels.h"

static rt r;

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

enum { MOST = 256 };
static tolk_buffer *y;
static tolk_error err;

/* Run the only kernel of a source, "k": its buffer in slot 0, 256 floats, is all -1 before. n: its
 * scalar in slot 1, or 0. */
static tolk_status run(const char *text, int n, const tolk_dims *grid, const tolk_dims *block) {
    tolk_args *a = args_of(&r);
    tolk_buffer_unref(y);
    y = floats(r.cpu, MOST, -1);
    assert_int_equal(tolk_args_buffer(a, 0, y, NULL), TOLK_OK);
    if (n)
        assert_int_equal(tolk_args_i32(a, 1, n, NULL), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
    tolk_status st = tolk_run(r.cpu, "k", text, a, grid, block, 0, &err);
    tolk_args_destroy(a);
    return st;
}

/* The first n floats are 1, the others were not written. */
static void check_written(int n) {
    float v[MOST];
    assert_int_equal(tolk_buffer_copyout(y, 0, v, sizeof v, NULL), TOLK_OK);
    for (int i = 0; i < MOST; i++)
        if (v[i] != (i < n ? 1 : -1))
            fail_msg("element %d is %g, %d were to be written", i, (double)v[i], n);
    tolk_buffer_unref(y);
    y = NULL;
}

static void refused(const char *text, int n, const tolk_dims *grid, const tolk_dims *block,
                    const char *why) {
    assert_int_equal(run(text, n, grid, block), TOLK_E_LAUNCH);
    assert_string_equal(err.msg, why);
    check_written(0);
}

#define STORE                                                                                      \
    "%90 = index f32 (%1, %80)\n"                                                                  \
    "%91 = const f32 0x1p+0\n"                                                                     \
    "%92 = store void (%90, %91)\n"
#define Y                                                                                          \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 256\n"                                                                       \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"

/* Groups of 8 work-items in x, 4 groups in x. */
#define CONSTANT                                                                                   \
    Y "%2 = const index 4\n"                                                                       \
      "%3 = const index 8\n"                                                                       \
      "%4 = special index (%2) {name=\"gidx0\"}\n"                                                 \
      "%5 = special index (%3) {name=\"lidx0\"}\n"                                                 \
      "%6 = mul index (%4, %3)\n"                                                                  \
      "%80 = add index (%6, %5)\n" STORE "%99 = sink void (%92) {name=\"k\"}\n"

static void test_constant_sizes_must_be_equal(void **state) {
    (void)state;
    tolk_dims g = {4, 1, 1}, b = {8, 1, 1}, bad = {5, 1, 1}, deep = {4, 1, 2}, none = {4, 0, 1};
    assert_int_equal(run(CONSTANT, 0, NULL, NULL), TOLK_OK);
    check_written(32);
    assert_int_equal(run(CONSTANT, 0, &g, &b), TOLK_OK);
    check_written(32);
    assert_int_equal(run(CONSTANT, 0, &g, NULL), TOLK_OK);
    check_written(32);
    assert_int_equal(run(CONSTANT, 0, NULL, &b), TOLK_OK);
    check_written(32);
    refused(CONSTANT, 0, &bad, &b, "kernel k: grid.x is 5, but the size of its gidx0 is 4");
    refused(CONSTANT, 0, &g, &bad, "kernel k: block.x is 5, but the size of its lidx0 is 8");
    refused(CONSTANT, 0, &deep, &b, "kernel k: grid.z is 2, expected 1: it has no gidx2");
    refused(CONSTANT, 0, &none, &b, "kernel k: grid.y is 0, expected 1 or more");
    none.y = -3;
    refused(CONSTANT, 0, NULL, &none, "kernel k: block.y is -3, expected 1 or more");
}

/* gidx1 of _grid_y groups, lidx0 of _block_x work-items; the params are in slots 5 and 6. */
#define GIVEN(bounds)                                                                              \
    Y "%2 = param i32 {slot=5, name=\"_grid_y\", space=alu, " bounds "}\n"                         \
      "%3 = param i32 {slot=6, name=\"_block_x\", space=alu, min=1, max=16}\n"                     \
      "%12 = cast index (%2)\n"                                                                    \
      "%13 = cast index (%3)\n"                                                                    \
      "%4 = special index (%12) {name=\"gidx1\"}\n"                                                \
      "%5 = special index (%13) {name=\"lidx0\"}\n"                                                \
      "%6 = mul index (%4, %13)\n"                                                                 \
      "%80 = add index (%6, %5)\n" STORE "%99 = sink void (%92) {name=\"k\"}\n"

static void test_sizes_that_the_call_gives(void **state) {
    (void)state;
    tolk_dims g = {1, 5, 1}, b = {7, 1, 1}, wide = {2, 5, 1}, large = {1, 17, 1},
              thick = {17, 1, 1};
    assert_int_equal(run(GIVEN("min=1, max=16"), 0, &g, &b), TOLK_OK);
    check_written(35);
    assert_int_equal(run(GIVEN("min=1, max=16"), 0, &g, NULL), TOLK_OK);
    check_written(5);
    assert_int_equal(run(GIVEN("min=1, max=16"), 0, NULL, NULL), TOLK_OK);
    check_written(1);
    refused(GIVEN("min=1, max=16"), 0, &wide, &b,
            "kernel k: grid.x is 2, expected 1: it has no gidx0");
    refused(GIVEN("min=1, max=16"), 0, &large, &b,
            "kernel k: param \"_grid_y\" (slot 5) is 17, expected 1 to 16");
    refused(GIVEN("min=1, max=16"), 0, &g, &thick,
            "kernel k: param \"_block_x\" (slot 6) is 17, expected 1 to 16");
    refused(GIVEN("min=2, max=16"), 0, NULL, &b,
            "kernel k: grid is NULL, but its param \"_grid_y\" needs grid.y, from 2 to 16");
}

static void test_params_that_the_call_gives_are_no_arguments(void **state) {
    (void)state;
    tolk_args *a = args_of(&r);
    tolk_buffer *b = floats(r.cpu, MOST, -1);
    assert_int_equal(tolk_args_buffer(a, 0, b, NULL), TOLK_OK);
    assert_int_equal(tolk_args_i32(a, 5, 3, NULL), TOLK_OK);
    assert_int_equal(tolk_run(r.cpu, "k", GIVEN("min=1, max=16"), a, NULL, NULL, 0, &err),
                     TOLK_E_LAUNCH);
    assert_string_equal(err.msg, "kernel k: unexpected: 5; expected 1 argument, got 2");
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
}

/* A range of _grid_x iterations. */
#define RANGE                                                                                      \
    Y "%2 = param i32 {slot=5, name=\"_grid_x\", space=alu, min=1, max=256}\n"                     \
      "%3 = cast index (%2)\n"                                                                     \
      "%80 = range index (%3) {axis=0, kind=global}\n" STORE "%93 = end void (%92, %80)\n"         \
      "%99 = sink void (%93) {name=\"k\"}\n"

static void test_range_of_a_size_that_the_call_gives(void **state) {
    (void)state;
    tolk_dims g = {100, 1, 1}, b = {2, 1, 1};
    assert_int_equal(run(RANGE, 0, &g, NULL), TOLK_OK);
    check_written(100);
    assert_int_equal(run(RANGE, 0, NULL, NULL), TOLK_OK);
    check_written(1);
    refused(RANGE, 0, &g, &b, "kernel k: block.x is 2, expected 1: it has no lidx0");
}

/* n + 1 groups, n an argument. */
#define COMPUTED                                                                                   \
    Y "%2 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=100}\n"                           \
      "%3 = cast index (%2)\n"                                                                     \
      "%4 = const index 1\n"                                                                       \
      "%5 = add index (%3, %4)\n"                                                                  \
      "%80 = special index (%5) {name=\"gidx0\"}\n" STORE "%99 = sink void (%92) {name=\"k\"}\n"

static void test_sizes_that_are_computed_must_be_equal(void **state) {
    (void)state;
    tolk_dims g = {11, 1, 1};
    assert_int_equal(run(COMPUTED, 10, &g, NULL), TOLK_OK);
    check_written(11);
    assert_int_equal(run(COMPUTED, 10, NULL, NULL), TOLK_OK);
    check_written(11);
    refused(COMPUTED, 11, &g, NULL, "kernel k: grid.x is 11, but the size of its gidx0 is 12");
}

/* Work-items without groups. */
#define FLAT                                                                                       \
    Y "%2 = const index 48\n"                                                                      \
      "%80 = special index (%2) {name=\"idx0\"}\n" STORE "%99 = sink void (%92) {name=\"k\"}\n"

static void test_work_items_without_groups_are_counted_together(void **state) {
    (void)state;
    tolk_dims g = {6, 1, 1}, b = {8, 1, 1}, huge = {INT64_MAX, 1, 1};
    assert_int_equal(run(FLAT, 0, &g, &b), TOLK_OK);
    check_written(48);
    assert_int_equal(run(FLAT, 0, NULL, NULL), TOLK_OK);
    check_written(48);
    refused(FLAT, 0, &g, NULL, "kernel k: grid.x * block.x is 6, but the size of its idx0 is 48");
    refused(FLAT, 0, &huge, &b,
            "kernel k: grid.x * block.x is 9223372036854775807, but the size of its idx0 is 48");
    tolk_dims tall = {6, 2, 1};
    refused(FLAT, 0, &tall, &b, "kernel k: grid.y is 2, expected 1: it has no gidx1");
}

static void test_kernel_without_specials_takes_null_only(void **state) {
    (void)state;
    tolk_dims one = {1, 1, 1};
    tolk_args *a = args_of(&r);
    tolk_buffer *b = floats(r.cpu, N, -1);
    assert_int_equal(tolk_args_buffer(a, 0, b, NULL), TOLK_OK);
    assert_int_equal(tolk_run(r.cpu, "fill", KERNEL_FILL, a, &one, NULL, 0, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "expected NULL as grid");
    assert_int_equal(tolk_run(r.cpu, "fill", KERNEL_FILL, a, NULL, &one, 0, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "expected NULL as block");
    assert_int_equal(tolk_run(r.cpu, "fill", KERNEL_FILL, a, NULL, NULL, 0, &err), TOLK_OK);
    check_floats(b, 7);
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
}

/* y[lidx] = the number of elements of the dynamic local buffer: 256 work-items fill as many as
 * there are. */
static void test_shared_bytes_reach_the_launch(void **state) {
    (void)state;
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index 4\n"
                               "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                               "%2 = special index (%0) {name=\"lidx0\"}\n"
                               "%3 = buffer f32 {slot=0, space=local, dynamic=true}\n"
                               "%4 = index f32 (%3, %2)\n"
                               "%5 = const f32 0x1p+0\n"
                               "%6 = store void (%4, %5)\n"
                               "%7 = barrier void (%6)\n"
                               "%8 = after f32 (%3, %7)\n"
                               "%9 = index f32 (%8, %2)\n"
                               "%10 = load f32 (%9)\n"
                               "%11 = index f32 (%1, %2)\n"
                               "%12 = store void (%11, %10)\n"
                               "%13 = sink void (%12) {name=\"k\"}\n";
    tolk_args *a = args_of(&r);
    tolk_buffer *b = floats(r.cpu, 4, -1);
    assert_int_equal(tolk_args_buffer(a, 0, b, NULL), TOLK_OK);
    if (tolk_run(r.cpu, "k", text, a, NULL, NULL, 16, &err))
        fail_msg("%s", err.msg);
    check_floats(b, 1);
    assert_int_equal(tolk_run(r.cpu, "k", text, a, NULL, NULL, 12, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_device_recover(r.cpu, NULL), TOLK_OK);
    assert_int_equal(tolk_run(r.cpu, "k", text, a, NULL, NULL, SIZE_MAX, &err), TOLK_E_LIMIT);
    /* There is no such memory: nothing ran, so the queue goes on. */
    assert_int_equal(tolk_run(r.cpu, "k", text, a, NULL, NULL, (size_t)1 << 60, &err),
                     TOLK_E_NOMEM);
    assert_int_equal(tolk_run(r.cpu, "k", text, a, NULL, NULL, 16, NULL), TOLK_OK);
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_constant_sizes_must_be_equal),
        TEST(test_sizes_that_the_call_gives),
        TEST(test_params_that_the_call_gives_are_no_arguments),
        TEST(test_range_of_a_size_that_the_call_gives),
        TEST(test_sizes_that_are_computed_must_be_equal),
        TEST(test_work_items_without_groups_are_counted_together),
        TEST(test_kernel_without_specials_takes_null_only),
        TEST(test_shared_bytes_reach_the_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
