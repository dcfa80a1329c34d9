/* SPDX-License-Identifier: MIT */
#include "base/vec.h"

#include "support/tk_test.h"

typedef TK_VEC(uint32_t) numbers;

static void test_push_many_keeps_order(void **state) {
    (void)state;
    numbers v;
    tk_vec_init(&v, &tk_alloc_malloc);
    for (uint32_t i = 0; i < 10000; i++)
        assert_true(tk_vec_push(&v, i));
    assert_int_equal(v.n, 10000);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(v.at[i], i);
    assert_int_equal(tk_vec_last(&v), 9999);
    assert_int_equal(tk_vec_pop(&v), 9999);
    assert_int_equal(v.n, 9999);
    tk_vec_fini(&v);
    assert_int_equal(v.n + v.cap, 0);
}

static void test_resize_new_elements_are_zero(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap); /* gives memory that is not zero */
    numbers v;
    tk_vec_init(&v, &heap.al);
    assert_true(tk_vec_push(&v, 7u));
    assert_true(tk_vec_resize(&v, 100));
    assert_int_equal(v.at[0], 7);
    for (size_t i = 1; i < 100; i++)
        assert_int_equal(v.at[i], 0);
    v.at[50] = 9;
    assert_true(tk_vec_resize(&v, 10));
    assert_true(tk_vec_resize(&v, 60));
    assert_int_equal(v.at[50], 0);
    tk_vec_fini(&v);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static void test_reserve_too_much_fails_and_keeps(void **state) {
    (void)state;
    numbers v;
    tk_vec_init(&v, &tk_alloc_malloc);
    assert_true(tk_vec_push(&v, 1u));
    assert_false(tk_vec_reserve(&v, SIZE_MAX / 2));
    assert_false(tk_vec_resize(&v, SIZE_MAX));
    assert_int_equal(v.n, 1);
    assert_int_equal(v.at[0], 1);
    tk_vec_fini(&v);
}

static tolk_status fill(const tolk_allocator *al, void *user) {
    (void)user;
    numbers v;
    tk_vec_init(&v, al);
    uint32_t done = 0;
    while (done < 1000 && tk_vec_push(&v, done))
        done++;
    assert_int_equal(v.n, done);
    tk_vec_fini(&v);
    return done < 1000 ? TOLK_E_NOMEM : TOLK_OK;
}

static void test_push_without_memory_is_false(void **state) {
    (void)state;
    assert_true(tk_test_oom(fill, NULL) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_many_keeps_order),
        cmocka_unit_test(test_resize_new_elements_are_zero),
        cmocka_unit_test(test_reserve_too_much_fails_and_keeps),
        cmocka_unit_test(test_push_without_memory_is_false),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
