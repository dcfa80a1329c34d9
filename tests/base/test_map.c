/* SPDX-License-Identifier: MIT */
#include "base/map.h"

#include "support/tk_test.h"

static void test_find_in_empty_map_is_null(void **state) {
    (void)state;
    tk_map m;
    tk_map_init(&m, &tk_alloc_malloc);
    assert_null(tk_map_find(&m, 0));
    assert_false(tk_map_remove(&m, 0));
    tk_map_fini(&m);
}

static void test_put_twice_replaces(void **state) {
    (void)state;
    tk_map m;
    tk_map_init(&m, &tk_alloc_malloc);
    assert_true(tk_map_put(&m, UINT64_MAX, 1));
    assert_true(tk_map_put(&m, UINT64_MAX, 2));
    assert_int_equal(m.n, 1);
    assert_int_equal(*tk_map_find(&m, UINT64_MAX), 2);
    tk_map_fini(&m);
}

/* Random puts and removes of few keys, so that runs form, wrap and close; a plain array tells. */
static void test_put_and_remove_random_agree_with_an_array(void **state) {
    (void)state;
    enum { KEYS = 700 };
    static bool in[KEYS];
    static uint64_t value[KEYS];
    tk_map m;
    tk_map_init(&m, &tk_alloc_malloc);
    uint64_t seed = tk_test_seed();
    for (int step = 0; step < 50000; step++) {
        uint64_t r = tk_test_rand(&seed);
        size_t k = r % KEYS;
        if (r >> 32 & 1) {
            assert_true(tk_map_put(&m, k << 40, r));
            in[k] = true;
            value[k] = r;
        } else {
            assert_int_equal(tk_map_remove(&m, k << 40), in[k]);
            in[k] = false;
        }
        size_t probe = (r >> 8) % KEYS;
        uint64_t *v = tk_map_find(&m, probe << 40);
        assert_int_equal(v != NULL, in[probe]);
        assert_true(!v || *v == value[probe]);
    }
    size_t n = 0;
    for (size_t k = 0; k < KEYS; k++) {
        n += in[k];
        assert_int_equal(tk_map_find(&m, k << 40) != NULL, in[k]);
    }
    assert_int_equal(m.n, n);
    tk_map_fini(&m);
}

static tolk_status fill(const tolk_allocator *al, void *user) {
    (void)user;
    tk_map m;
    tk_map_init(&m, al);
    tolk_status status = TOLK_OK;
    uint64_t done = 0;
    while (done < 1000 && tk_map_put(&m, done, done))
        done++;
    if (done < 1000)
        status = TOLK_E_NOMEM;
    /* What was put before the failure is still there. */
    for (uint64_t k = 0; k < done; k++)
        assert_true(tk_map_find(&m, k) && *tk_map_find(&m, k) == k);
    tk_map_fini(&m);
    return status;
}

static void test_put_without_memory_keeps_the_rest(void **state) {
    (void)state;
    assert_true(tk_test_oom(fill, NULL) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_in_empty_map_is_null),
        cmocka_unit_test(test_put_twice_replaces),
        cmocka_unit_test(test_put_and_remove_random_agree_with_an_array),
        cmocka_unit_test(test_put_without_memory_keeps_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
