/* SPDX-License-Identifier: MIT
 *
 * Numbers of the behaviour list that no part of the device layer has alone: S25 (a move between
 * devices takes what was written last), S26 (every element of many small groups is written,
 * whatever the number of threads), S27 (errors name what there is), O4 (places are a function of
 * what is placed).
 */
#include "kernels.h"

#include <pthread.h>

static rt r;

static void open_devices(uint32_t devices, uint32_t threads) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = devices;
    o.threads = threads;
    rt_open(&r, NULL, &o);
}

static void test_S25_a_copy_takes_what_was_written_last_wherever_it_was(void **state) {
    (void)state;
    open_devices(2, 1);
    tolk_device *d1 = device_of(&r, "CPU:1");
    tolk_kernel *fill = kernel_of(r.cpu, "fill", KERNEL_FILL); /* 7 */
    tolk_buffer *a = floats(r.cpu, N, 1), *b = floats(d1, N, 2), *back = floats(r.cpu, N, 3);
    float stale[N] = {0};
    assert_int_equal(tolk_buffer_copyout(a, 0, stale, sizeof stale, NULL), TOLK_OK);
    assert_int_equal(run_one(&r, fill, a, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(b, a, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_free(a, NULL), TOLK_OK); /* the only other one that is fresh */
    assert_int_equal(tolk_buffer_copy(back, b, NULL), TOLK_OK);
    check_floats(b, 7);
    check_floats(back, 7);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(back);
    tolk_kernel_unref(fill);
    rt_close(&r);
}

/* y[64 g + l] = 64 g + l + 1, by 64 groups of 64 work-items that meet in local memory. */
#define GROUPS                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 4096\n"                                                                      \
    "%1 = param i32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = const index 64\n"                                                                        \
    "%3 = special index (%2) {name=\"gidx0\"}\n"                                                   \
    "%4 = special index (%2) {name=\"lidx0\"}\n"                                                   \
    "%5 = buffer i32 (%2) {slot=0, space=local}\n"                                                 \
    "%6 = mul index (%3, %2)\n"                                                                    \
    "%7 = add index (%6, %4)\n"                                                                    \
    "%8 = const index 1\n"                                                                         \
    "%9 = add index (%7, %8)\n"                                                                    \
    "%10 = cast i32 (%9)\n"                                                                        \
    "%11 = index i32 (%5, %4)\n"                                                                   \
    "%12 = store void (%11, %10)\n"                                                                \
    "%13 = barrier void (%12)\n"                                                                   \
    "%14 = after i32 (%5, %13)\n"                                                                  \
    "%15 = index i32 (%14, %4)\n"                                                                  \
    "%16 = load i32 (%15)\n"                                                                       \
    "%17 = index i32 (%1, %7)\n"                                                                   \
    "%18 = store void (%17, %16)\n"                                                                \
    "%19 = sink void (%18) {name=\"groups\"}\n"

enum { CALLERS = 96, TRIALS = 50, ELEMS = 4096 };
static tolk_kernel *groups;

static void *caller(void *arg) {
    (void)arg;
    int32_t y[ELEMS];
    tolk_buffer *b = NULL;
    if (tolk_alloc_i32(tolk_kernel_device(groups), ELEMS, &b, NULL))
        return (void *)1;
    intptr_t bad = 0;
    for (int t = 0; t < TRIALS && !bad; t++) {
        memset(y, 0, sizeof y);
        bad = tolk_buffer_copyin(b, 0, y, sizeof y, NULL) || run_one(&r, groups, b, NULL) ||
              tolk_buffer_copyout(b, 0, y, sizeof y, NULL);
        for (int i = 0; i < ELEMS; i++)
            bad |= y[i] != i + 1;
    }
    tolk_buffer_unref(b);
    return (void *)bad;
}

static void test_S26_every_element_is_written_with_many_callers(void **state) {
    (void)state;
    open_devices(1, 4);
    groups = kernel_of(r.cpu, "groups", GROUPS);
    pthread_t t[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, caller, NULL), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    tolk_kernel_unref(groups);
    rt_close(&r);
}

static void test_S27_errors_name_the_device_and_what_there_is(void **state) {
    (void)state;
    open_devices(3, 1);
    tolk_device *d;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_device_open(r.ctx, "CPU:7", &d, &err), TOLK_E_NO_DEVICE);
    check_contains(err.msg, "no device \"CPU:7\": expected one of CPU, CPU:1, CPU:2 "
                            "(TOLK_CPU_DEVICES=N or tolk_ctx_opts.cpu_devices makes N devices");
    assert_int_equal(tolk_device_open(r.ctx, "GPU:7", &d, &err), TOLK_E_NO_DEVICE);
    assert_null(strstr(err.msg, "TOLK_CPU_DEVICES"));
    tolk_buffer *b = floats(device_of(&r, "CPU:2"), N, 0);
    tolk_kernel *k = kernel_of(device_of(&r, "CPU:1"), "fill", KERNEL_FILL);
    assert_int_equal(run_one(&r, k, b, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "CPU:1");
    check_contains(err.msg, "CPU:2");
    check_contains(err.msg, "fill");
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
    rt_close(&r);
}

static void test_O4_places_are_the_same_in_two_contexts(void **state) {
    (void)state;
    static const size_t bytes[] = {100, 3, 4096, 1, 0, 900}, align[] = {1, 4, 64, 128, 8, 16};
    tolk_pool_place place[2][6];
    size_t sizes[2][6], n[2];
    tolk_status st[2];
    for (int c = 0; c < 2; c++) {
        open_devices(1, 1);
        st[c] = tolk_pool_pack(bytes, align, 6, 5000, place[c], sizes[c], &n[c], NULL);
        for (size_t p = 0; p < n[c]; p++)
            assert_int_equal(
                tolk_pool_alloc(r.cpu, p + 1, sizes[c][p], 128, TOLK_POOL_DEFAULT, NULL), TOLK_OK);
        for (int i = 0; i < 6; i++) { /* and memory is there */
            tolk_buffer *b = NULL;
            assert_int_equal(tolk_buffer_in_pool(r.cpu, place[c][i].pool + 1, place[c][i].offset,
                                                 TOLK_U8, bytes[i], &b, NULL),
                             TOLK_OK);
            tolk_buffer_unref(b);
        }
        rt_close(&r);
    }
    assert_int_equal(st[0], TOLK_OK);
    assert_int_equal(st[1], TOLK_OK);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(place[0], place[1], sizeof place[0]);
    assert_memory_equal(sizes[0], sizes[1], n[0] * sizeof *sizes[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S25_a_copy_takes_what_was_written_last_wherever_it_was),
        cmocka_unit_test(test_S26_every_element_is_written_with_many_callers),
        cmocka_unit_test(test_S27_errors_name_the_device_and_what_there_is),
        cmocka_unit_test(test_O4_places_are_the_same_in_two_contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
