/* SPDX-License-Identifier: MIT
 *
 * Linears over several devices: a launch for each position, copies pair by pair, what may not be
 * mixed.
 */
#include "realize/runs.h"

static void test_one_launch_for_each_device(void **state) {
    (void)state;
    tolk_linear *l =
        linear_of(&r, PUT("_device_num", "0", "7") "%30 = buffer i32 (%1) {slot=0, "
                                                   "device=\"CPU,CPU:1,CPU:2,CPU:3\"}\n"
                                                   "%31 = buffer i32 (%1) {slot=1}\n"
                                                   "%40 = call void (%20, %30)\n"
                                                   "%41 = linear void (%40)\n");
    tolk_counters before = counters();
    for (int i = 0; i < 3; i++)
        run_well(l, NULL);
    tolk_counters after = counters();
    assert_int_equal(after.launches - before.launches, 12);
    assert_int_equal(after.compiles + after.compile_hits - before.compiles - before.compile_hits,
                     1);
    const tolk_uop *root = tolk_linear_root(l);
    const tolk_uop *node = tolk_uop_src(tolk_uop_src(root, 0), 1);
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    assert_int_equal(tolk_bindings_find(b, node, &one, &many, NULL), TOLK_OK);
    for (size_t i = 0; i < 4; i++)
        check_ints(tolk_multi_shard(many, i), (int32_t)i, 0);
    /* The position is nobody's to give. */
    tolk_var v = {"_device_num", 3};
    tolk_run_args a = with_vars(&v, 1);
    assert_int_equal(run(l, &a), TOLK_E_ARG);
    check_contains(err.msg, "_device_num");
    tolk_linear_unref(l);
    /* On one device it is a variable like any other. */
    l = linear_of(&r, PUT("_device_num", "0", "7") BUFFERS
                  "%40 = call void (%20, %31)\n%41 = linear void (%40)\n");
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND);
    run_well(l, &a);
    check_ints(bound(16, 1, NULL), 3, 0);
    tolk_linear_unref(l);
}

static void test_positions_out_of_bounds_launch_nothing(void **state) {
    (void)state;
    tolk_linear *l =
        linear_of(&r, PUT("_device_num", "0",
                          "1") "%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1,CPU:2\"}\n"
                               "%40 = call void (%20, %30)\n%41 = linear void (%40)\n");
    tolk_counters before = counters();
    assert_int_equal(run(l, NULL), TOLK_E_LAUNCH);
    assert_int_equal(counters().launches, before.launches);
    tolk_linear_unref(l);
    /* Nor do calls before that one. */
    l = linear_of(&r, PUT("_device_num", "0", "1") "%30 = buffer i32 (%1) {slot=0, "
                                                   "device=\"CPU,CPU:1\"}\n"
                                                   "%31 = buffer i32 (%1) {slot=1, "
                                                   "device=\"CPU,CPU:1,CPU:2\"}\n"
                                                   "%40 = call void (%20, %30)\n"
                                                   "%41 = call void (%20, %31)\n"
                                                   "%42 = linear void (%40, %41)\n");
    assert_int_equal(run(l, NULL), TOLK_E_LAUNCH);
    check_contains(err.msg, "call 1 (kernel put): variable \"_device_num\" is 2, expected 0 to 1");
    assert_int_equal(counters().launches, before.launches);
    tolk_linear_unref(l);
}

static void test_copies_go_pair_by_pair(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n%1 = const index 8\n"
                                   "%30 = buffer i32 (%1) {slot=0, device=\"CPU\"}\n"
                                   "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n"
                                   "%32 = mstack i32 (%31, %30)\n"
                                   "%33 = buffer i32 (%1) {slot=2, device=\"CPU:2,CPU:3\"}\n"
                                   "%40 = copy i32 (%32) {device=\"CPU:2,CPU:3\"}\n"
                                   "%41 = call void (%40, %33, %32)\n"
                                   "%42 = mselect i32 (%33) {index=1}\n"
                                   "%43 = buffer i32 (%1) {slot=3}\n"
                                   "%44 = call void (%40, %43, %42)\n"
                                   "%45 = linear void (%41, %44)\n");
    (void)seed(8, 0, "CPU", 1, 1);
    (void)seed(8, 1, "CPU:1", 100, 1);
    run_well(l, NULL);
    check_ints(bound(8, 3, NULL), 1, 1);
    tolk_linear_unref(l);
}

/* What is wrong with the copy of one position is seen before any other one moves. */
static void test_copies_are_checked_at_all_positions_first(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n%1 = const index 8\n"
                                   "%30 = buffer i32 (%1) {slot=0, device=\"CPU\"}\n"
                                   "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n"
                                   "%32 = mstack i32 (%30, %31)\n"
                                   "%33 = buffer i32 (%1) {slot=2, device=\"CPU:2\"}\n"
                                   "%34 = buffer i32 (%1) {slot=3, device=\"CPU:3\"}\n"
                                   "%35 = mstack i32 (%33, %34)\n"
                                   "%40 = copy i32 (%32) {device=\"CPU:2,CPU:3\"}\n"
                                   "%41 = call void (%40, %35, %32)\n"
                                   "%42 = linear void (%41)\n");
    (void)seed(8, 0, "CPU", 1, 1);
    tolk_buffer *to = seed(8, 2, "CPU:2", 50, 0);
    assert_int_equal(run(l, NULL), TOLK_E_UNBOUND); /* slot 1 has nothing in it */
    check_ints(to, 50, 0);
    tolk_buffer *from = seed(8, 1, "CPU:1", 9, 0);
    run_well(l, NULL);
    check_ints(to, 1, 1);
    (void)seed(8, 0, "CPU", 70, 0);
    assert_int_equal(tolk_buffer_free(from, NULL), TOLK_OK);
    assert_int_equal(run(l, NULL), TOLK_E_FREED);
    check_ints(to, 1, 1);
    tolk_linear_unref(l);
}

static void test_mixed_arguments_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1\"}\n"
         "%31 = buffer i32 (%1) {slot=1}\n",
         "argument 1 is one buffer, argument 0 is several"},
        {"%30 = buffer i32 (%1) {slot=0}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU,CPU:1\"}\n",
         "argument 1 is several buffers, argument 0 is one"},
        {"%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1\"}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU,CPU:1,CPU:2\"}\n",
         "argument 1 is 3 buffers, argument 0 is 2"},
        {"%30 = buffer i32 (%1) {slot=0}\n"
         "%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n",
         "the buffer is on device CPU:1, the kernel on CPU"}};
    for (size_t i = 0; i < 4; i++) {
        tolk_linear *l = linear_of(&r, rt_text("%s%s%s", MIX, bad[i][0],
                                               "%40 = call void (%20, %30, %31, %31)\n"
                                               "%41 = linear void (%40)\n"));
        assert_int_equal(run(l, NULL), TOLK_E_DEVICE);
        check_contains(err.msg, "call 0 (kernel mix)");
        check_contains(err.msg, bad[i][1]);
        tolk_linear_unref(l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_one_launch_for_each_device),
        TEST(test_positions_out_of_bounds_launch_nothing),
        TEST(test_copies_go_pair_by_pair),
        TEST(test_copies_are_checked_at_all_positions_first),
        TEST(test_mixed_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("run_devices", tests, NULL, NULL);
}
