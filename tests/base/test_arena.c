/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include "support/tk_test.h"

#include <string.h>

static void test_alloc_any_size_is_aligned_and_apart(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    tk_arena a;
    tk_arena_init(&a, &heap.al);
    uint64_t seed = tk_test_seed();
    struct {
        unsigned char *p;
        size_t n;
    } piece[500];
    for (size_t i = 0; i < 500; i++) {
        size_t n = i % 50 == 49 ? 5000 + tk_test_rand(&seed) % 100000 : tk_test_rand(&seed) % 300;
        piece[i].p = tk_arena_alloc(&a, n);
        piece[i].n = n;
        assert_non_null(piece[i].p);
        assert_int_equal((uintptr_t)piece[i].p % 16, 0);
        memset(piece[i].p, (int)(i & 255), n);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < piece[i].n; k++)
            assert_int_equal(piece[i].p[k], i & 255);
    tk_arena_fini(&a);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static void test_alloc_of_nothing_is_no_failure(void **state) {
    (void)state;
    tk_arena a;
    tk_arena_init(&a, &tk_alloc_malloc);
    assert_non_null(tk_arena_alloc(&a, 0));
    assert_non_null(tk_arena_copy(&a, NULL, 0));
    tk_arena_fini(&a);
}

static void test_alloc_too_large_returns_null(void **state) {
    (void)state;
    tk_arena a;
    tk_arena_init(&a, &tk_alloc_malloc);
    assert_null(tk_arena_alloc(&a, SIZE_MAX));
    assert_null(tk_arena_alloc(&a, SIZE_MAX - 16));
    assert_null(tk_arena_alloc(&a, SIZE_MAX - 64));
    assert_non_null(tk_arena_alloc(&a, 1));
    tk_arena_fini(&a);
}

static void test_zero_and_copy_fill(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap); /* gives memory that is not zero */
    tk_arena a;
    tk_arena_init(&a, &heap.al);
    const unsigned char *z = tk_arena_zero(&a, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(z[i], 0);
    assert_string_equal(tk_arena_copy(&a, "text", 5), "text");
    tk_arena_fini(&a);
}

static void test_fini_then_used_again(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    tk_arena a;
    tk_arena_init(&a, &heap.al);
    for (int round = 0; round < 3; round++) {
        assert_non_null(tk_arena_alloc(&a, 10000));
        assert_true(a.total_bytes >= 10000);
        tk_arena_fini(&a);
        assert_int_equal(heap.live, 0);
        assert_int_equal(a.total_bytes, 0);
    }
}

static tolk_status fill(const tolk_allocator *al, void *user) {
    (void)user;
    tk_arena a;
    tk_arena_init(&a, al);
    tolk_status status = TOLK_OK;
    for (int i = 0; i < 100 && status == TOLK_OK; i++)
        if (!tk_arena_alloc(&a, 1000))
            status = TOLK_E_NOMEM;
    tk_arena_fini(&a);
    return status;
}

static void test_alloc_without_memory_leaks_nothing(void **state) {
    (void)state;
    assert_true(tk_test_oom(fill, NULL) > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_any_size_is_aligned_and_apart),
        cmocka_unit_test(test_alloc_of_nothing_is_no_failure),
        cmocka_unit_test(test_alloc_too_large_returns_null),
        cmocka_unit_test(test_zero_and_copy_fill),
        cmocka_unit_test(test_fini_then_used_again),
        cmocka_unit_test(test_alloc_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
