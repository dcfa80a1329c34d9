/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include "support/tk_test.h"

#include <string.h>

static void test_alloc_zero_bytes_gives_a_block(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    void *p = tk_alloc(&heap.al, 0);
    assert_non_null(p);
    tk_alloc_free(&heap.al, p, 0);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static void test_alloc_zero_fills(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    char *p = tk_alloc_zero(&heap.al, 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(p[i], 0);
    tk_alloc_free(&heap.al, p, 64);
    assert_int_equal(heap.live, 0);
}

static void test_resize_keeps_what_fits(void **state) {
    (void)state;
    const tolk_allocator *al = &tk_alloc_malloc;
    char *p = tk_alloc_resize(al, NULL, 0, 8);
    memcpy(p, "1234567", 8);
    p = tk_alloc_resize(al, p, 8, 4096);
    assert_string_equal(p, "1234567");
    assert_int_equal((uintptr_t)p % 16, 0);
    p = tk_alloc_resize(al, p, 4096, 4);
    assert_memory_equal(p, "1234", 4);
    tk_alloc_free(al, p, 4);
}

static void test_resize_without_memory_keeps_the_block(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    char *p = tk_alloc(&heap.al, 8);
    memcpy(p, "1234567", 8);
    heap.fail_at = 2;
    assert_null(tk_alloc_resize(&heap.al, p, 8, 100));
    assert_string_equal(p, "1234567");
    tk_alloc_free(&heap.al, p, 8);
    assert_int_equal(heap.live, 0);
}

static void test_free_null_does_nothing(void **state) {
    (void)state;
    tk_alloc_free(&tk_alloc_malloc, NULL, 0);
    tk_alloc_free(&tk_alloc_malloc, NULL, 100);
}

static void test_sizes_overflow_is_seen(void **state) {
    (void)state;
    size_t out;
    assert_true(tk_mul_size(1u << 16, 1u << 15, &out) && out == (size_t)1 << 31);
    assert_false(tk_mul_size(SIZE_MAX / 2, 3, &out));
    assert_true(tk_add_size(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_false(tk_add_size(SIZE_MAX, 1, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_zero_bytes_gives_a_block),
        cmocka_unit_test(test_alloc_zero_fills),
        cmocka_unit_test(test_resize_keeps_what_fits),
        cmocka_unit_test(test_resize_without_memory_keeps_the_block),
        cmocka_unit_test(test_free_null_does_nothing),
        cmocka_unit_test(test_sizes_overflow_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
