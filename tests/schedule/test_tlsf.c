/* SPDX-License-Identifier: MIT
 *
 * The allocator of memory plans: the vectors of appendix A, random use against a plain model, and
 * running out of memory.
 */
#include "schedule/tlsf.h"

#include "support/tk_test.h"

#include <stdlib.h>

static uint64_t take(tk_tlsf *t, uint64_t size) {
    uint64_t start = UINT64_MAX;
    assert_int_equal(tk_tlsf_alloc(t, size, 1, &start), TOLK_OK);
    return start;
}

static tk_tlsf *open_tlsf(uint64_t size, uint64_t base, uint64_t granule) {
    tk_tlsf *t = malloc(sizeof *t);
    assert_non_null(t);
    assert_int_equal(tk_tlsf_init(t, &tk_alloc_malloc, size, base, granule, 32), TOLK_OK);
    return t;
}

static void close_tlsf(tk_tlsf *t) {
    tk_tlsf_fini(t);
    free(t);
}

static void test_tlsf_vector_gives_the_offsets_of_the_reference(void **state) {
    (void)state;
    tk_tlsf *t = open_tlsf(65536, 0, 256);
    assert_int_equal(take(t, 1024), 0);
    assert_int_equal(take(t, 512), 1024);
    assert_int_equal(take(t, 2048), 1536);
    assert_true(tk_tlsf_free(t, 1024));
    assert_int_equal(take(t, 256), 1024);
    assert_int_equal(take(t, 512), 3584);
    assert_true(tk_tlsf_free(t, 0));
    assert_true(tk_tlsf_free(t, 1024));
    assert_int_equal(take(t, 1280), 0);
    close_tlsf(t);
}

static void test_tlsf_tie_takes_the_block_that_was_free_first(void **state) {
    (void)state;
    tk_tlsf *t = open_tlsf(65536, 0, 256);
    for (int i = 0; i < 5; i++)
        assert_int_equal(take(t, 512), 512 * i);
    assert_true(tk_tlsf_free(t, 512));
    assert_true(tk_tlsf_free(t, 1536));
    assert_int_equal(take(t, 512), 512);
    assert_int_equal(take(t, 512), 1536);
    close_tlsf(t);
}

static void test_tlsf_base_and_granule_shift_and_enlarge(void **state) {
    (void)state;
    tk_tlsf *t = open_tlsf(4096, 1 << 20, 256);
    assert_int_equal(take(t, 1), 1 << 20);
    assert_int_equal(take(t, 1), (1 << 20) + 256);
    uint64_t start;
    assert_int_equal(tk_tlsf_alloc(t, 16, 1024, &start), TOLK_OK);
    assert_int_equal(start, (1 << 20) + 1024);
    assert_int_equal(take(t, 512), (1 << 20) + 512); /* what alignment left in between */
    close_tlsf(t);
}

static void test_tlsf_what_is_not_there_is_refused(void **state) {
    (void)state;
    uint64_t start = 7;
    tk_tlsf *t = open_tlsf(1024, 0, 256);
    assert_int_equal(tk_tlsf_alloc(t, 1025, 1, &start), TOLK_E_LIMIT);
    assert_int_equal(tk_tlsf_alloc(t, UINT64_MAX, 1, &start), TOLK_E_LIMIT);
    assert_int_equal(tk_tlsf_alloc(t, 1, UINT64_MAX, &start), TOLK_E_LIMIT);
    assert_int_equal(start, 7);
    assert_false(tk_tlsf_free(t, 0));
    assert_int_equal(take(t, 1024), 0);
    assert_int_equal(tk_tlsf_alloc(t, 1, 1, &start), TOLK_E_LIMIT);
    assert_false(tk_tlsf_free(t, 256));
    assert_true(tk_tlsf_free(t, 0));
    assert_false(tk_tlsf_free(t, 0));
    close_tlsf(t);
    t = open_tlsf(0, 0, 256);
    assert_int_equal(tk_tlsf_alloc(t, 1, 1, &start), TOLK_E_LIMIT);
    close_tlsf(t);
}

enum { BLOCKS = 64 };
typedef struct model {
    uint64_t start[BLOCKS], size[BLOCKS];
    int n;
} model;

/* Blocks that are in use do not overlap, are aligned and inside; once all are free, all is one. */
static void random_use(uint64_t seed) {
    static const uint64_t granules[] = {1, 16, 256};
    uint64_t s = seed, total = 4096 + tk_test_rand(&s) % (1 << 20);
    uint64_t granule = granules[tk_test_rand(&s) % 3];
    tk_tlsf *t = open_tlsf(total, 0, granule);
    model m = {.n = 0};
    for (int step = 0; step < 300; step++) {
        if (m.n && (m.n == BLOCKS || tk_test_rand(&s) % 5 < 2)) {
            int i = (int)(tk_test_rand(&s) % (uint64_t)m.n);
            assert_true(tk_tlsf_free(t, m.start[i]));
            m.start[i] = m.start[--m.n];
            m.size[i] = m.size[m.n];
            continue;
        }
        uint64_t size = 1 + tk_test_rand(&s) % (total / 16), start;
        uint64_t align = 1 + (tk_test_rand(&s) % 4 == 0) * (tk_test_rand(&s) % 300);
        if (tk_tlsf_alloc(t, size, align, &start) != TOLK_OK)
            continue;
        size = size < granule ? granule : size;
        assert_true(start % align == 0 && start + size <= total);
        for (int i = 0; i < m.n; i++)
            if (start < m.start[i] + m.size[i] && m.start[i] < start + size)
                fail_msg("seed %llu: block %llu of %llu bytes lies over another one",
                         (unsigned long long)seed, (unsigned long long)start,
                         (unsigned long long)size);
        m.start[m.n] = start;
        m.size[m.n++] = size;
    }
    while (m.n)
        assert_true(tk_tlsf_free(t, m.start[--m.n]));
    uint64_t most = total, start;
    for (uint64_t width = 1; most && tk_tlsf_alloc(t, most, 1, &start) != TOLK_OK; width *= 2)
        most = total > width ? total - width : 0;
    assert_true(most > total - total / 16); /* one block: classes are that fine */
    close_tlsf(t);
}

static void test_tlsf_random_use_never_overlaps(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(10000); i < n; i++)
        random_use(seed + i);
}

static tolk_status little_use(const tolk_allocator *al, void *user) {
    (void)user;
    tk_tlsf *t = malloc(sizeof *t);
    assert_non_null(t);
    tolk_status st = tk_tlsf_init(t, al, 1 << 20, 0, 256, 32);
    uint64_t at[40];
    int n = 0;
    for (; n < 40 && st == TOLK_OK; n++)
        st = tk_tlsf_alloc(t, 1000, 512, &at[n]);
    for (int i = 0; i < n && st == TOLK_OK; i += 2)
        assert_true(tk_tlsf_free(t, at[i]));
    close_tlsf(t);
    return st;
}

static void test_tlsf_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(little_use, NULL) > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tlsf_vector_gives_the_offsets_of_the_reference),
        cmocka_unit_test(test_tlsf_tie_takes_the_block_that_was_free_first),
        cmocka_unit_test(test_tlsf_base_and_granule_shift_and_enlarge),
        cmocka_unit_test(test_tlsf_what_is_not_there_is_refused),
        cmocka_unit_test(test_tlsf_random_use_never_overlaps),
        cmocka_unit_test(test_tlsf_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
