/* SPDX-License-Identifier: MIT
 *
 * Dependencies between accesses of memory: reference vectors, slices of one memory, and random
 * accesses beside a model that keeps a writer and readers for each byte.
 */
#include "realize/deps.h"
#include "support/tk_test.h"

#include <stdio.h>
#include <string.h>

static tk_deps deps;

static int setup(void **state) {
    (void)state;
    tk_deps_init(&deps, &tk_alloc_malloc);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tk_deps_fini(&deps);
    return 0;
}

static const char one, two;

/* Node `node` makes n accesses and must wait for what `expected` lists: "0 2". */
static void check(uint32_t node, const tk_deps_range *ranges, size_t n, const char *expected) {
    const uint32_t *found;
    size_t n_found;
    char text[64] = "";
    assert_int_equal(tk_deps_access(&deps, node, ranges, n, &found, &n_found, NULL), TOLK_OK);
    for (size_t i = 0; i < n_found; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " " : "", found[i]);
    assert_string_equal(text, expected);
}

#define R(FROM, TO) {&one, FROM, TO, false}
#define W(FROM, TO) {&one, FROM, TO, true}
#define CHECK(NODE, EXPECTED, ...)                                                                 \
    check(NODE, (tk_deps_range[]){__VA_ARGS__},                                                    \
          sizeof((tk_deps_range[]){__VA_ARGS__}) / sizeof(tk_deps_range), EXPECTED)

/* Appendix A of the behaviour notes. */
static void test_reference_vectors(void **state) {
    (void)state;
    CHECK(0, "", W(0, 100));
    CHECK(1, "0", W(50, 150));
    CHECK(2, "0 1", R(0, 60));
    CHECK(3, "0 2", W(0, 10));
    CHECK(4, "1 3", R(100, 120), W(0, 5));
    CHECK(5, "", W(200, 210));
    CHECK(6, "0 1 3 4 5", R(0, 300));
    CHECK(7, "0 1 2 3 4 5 6", W(0, 300));
}

static void test_slices_of_one_memory_that_lie_apart_do_not_depend(void **state) {
    (void)state;
    CHECK(0, "", W(0, 64));
    CHECK(1, "", W(64, 128));
    CHECK(2, "0", R(0, 64));
    CHECK(3, "1", R(64, 128));
    CHECK(4, "0 2", W(63, 64));
    CHECK(5, "4", R(63, 64)); /* 4 hides the two */
}

static void test_memories_and_empty_ranges_do_not_meet(void **state) {
    (void)state;
    CHECK(0, "", W(0, 64));
    CHECK(1, "", {&two, 0, 64, true});
    CHECK(2, "", W(10, 10));
    CHECK(3, "", R(10, 10));
    CHECK(4, "0 1", R(0, 1), {&two, 63, 64, false});
    CHECK(5, "", {NULL, 0, UINTPTR_MAX, true});
}

static void test_a_node_does_not_wait_for_itself_and_reads_not_for_reads(void **state) {
    (void)state;
    CHECK(0, "", R(0, 10), W(0, 10));
    CHECK(1, "0", R(0, 10), R(5, 10));
    CHECK(2, "0", R(0, 10));
    CHECK(3, "0 1 2", W(0, 1), R(0, 1));
    CHECK(4, "3", W(0, 1));
}

/* ---- random ---- */

enum { BYTES = 96, ROOTS = 3, NODES = 60 };

typedef struct model {
    int writer[ROOTS][BYTES]; /* -1: none */
    bool read[ROOTS][BYTES][NODES];
} model;

static void model_access(model *m, int node, const tk_deps_range *x, size_t n, bool wait[NODES]) {
    memset(wait, 0, NODES * sizeof *wait);
    for (size_t i = 0; i < n; i++)
        for (uintptr_t b = x[i].from; b < x[i].to; b++) {
            size_t r = (size_t)((const char *)x[i].root - (const char *)m);
            if (m->writer[r][b] >= 0)
                wait[m->writer[r][b]] = true;
            for (int k = 0; x[i].writes && k < node; k++)
                wait[k] |= m->read[r][b][k];
        }
    for (size_t i = 0; i < n; i++)
        for (uintptr_t b = x[i].from; b < x[i].to; b++) {
            size_t r = (size_t)((const char *)x[i].root - (const char *)m);
            if (x[i].writes) {
                m->writer[r][b] = node;
                memset(m->read[r][b], 0, sizeof m->read[r][b]);
            } else {
                m->read[r][b][node] = true;
            }
        }
}

static void test_random_accesses_equal_the_model(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed() + 77, rounds = tk_test_count(20000);
    static model m;
    for (uint64_t round = 0; round < rounds; round++) {
        tk_deps d;
        tk_deps_init(&d, &tk_alloc_malloc);
        memset(&m, 0, sizeof m);
        memset(m.writer, -1, sizeof m.writer);
        for (int node = 0; node < NODES; node++) {
            tk_deps_range x[5];
            size_t n = tk_test_rand(&rng) % 6, n_found;
            const uint32_t *found;
            bool wait[NODES];
            for (size_t i = 0; i < n; i++) {
                uintptr_t a = tk_test_rand(&rng) % BYTES, b = tk_test_rand(&rng) % (BYTES + 1);
                x[i] = (tk_deps_range){(const char *)&m + tk_test_rand(&rng) % ROOTS, a, b,
                                       tk_test_rand(&rng) % 2 == 0};
            }
            model_access(&m, node, x, n, wait);
            assert_int_equal(tk_deps_access(&d, (uint32_t)node, x, n, &found, &n_found, NULL),
                             TOLK_OK);
            size_t at = 0;
            for (uint32_t k = 0; k < NODES; k++)
                if (wait[k] && (at == n_found || found[at++] != k))
                    fail_msg("round %llu: node %d does not wait for %u", (unsigned long long)round,
                             node, k);
            assert_int_equal(at, n_found);
        }
        tk_deps_fini(&d);
    }
}

static tolk_status many(const tolk_allocator *al, void *user) {
    (void)user;
    tk_deps d;
    tk_deps_init(&d, al);
    tolk_status st = TOLK_OK;
    for (uint32_t i = 0; i < 40 && st == TOLK_OK; i++) {
        tk_deps_range x[] = {{&one, i * 3, i * 3 + 10, i % 2 == 0},
                             {i % 5 ? &one : &two, 100 - 2 * i, 120, i % 3 == 0}};
        const uint32_t *found;
        size_t n;
        st = tk_deps_access(&d, i, x, 2, &found, &n, NULL);
    }
    tk_deps_fini(&d);
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    assert_true(tk_test_oom(many, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reference_vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slices_of_one_memory_that_lie_apart_do_not_depend,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_memories_and_empty_ranges_do_not_meet, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_node_does_not_wait_for_itself_and_reads_not_for_reads, setup, teardown),
        cmocka_unit_test(test_random_accesses_equal_the_model),
        cmocka_unit_test(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
