/* SPDX-License-Identifier: MIT
 *
 * Keys: the same for the same graph anywhere, another one for anything else. KEY-05: constants that
 * only look alike are neither one node nor one key.
 */
#include "ir/key.h"

#include "support/tk_test.h"

#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

static int setup(void **state) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    tolk_ctx *ctx;
    tolk_graph *g;
    if (tk_ctx_init(&opts, &ctx, NULL) != TOLK_OK || tolk_graph_create(ctx, &g) != TOLK_OK)
        return -1;
    *state = g;
    return 0;
}

static int teardown(void **state) {
    tolk_graph *g = *state;
    tolk_ctx *ctx = g->ctx;
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return 0;
}

static bool same(tk_hash128 a, tk_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

/* All different: nodes, and keys in both halves. */
static void check_all_differ(const tolk_uop *const *u, size_t n) {
    for (size_t i = 0; i < n; i++) {
        assert_non_null(u[i]);
        for (size_t j = 0; j < i; j++) {
            tk_hash128 a = tk_key(u[i]), b = tk_key(u[j]);
            if (u[i] == u[j] || a.lo == b.lo || a.hi == b.hi)
                fail_msg("%zu and %zu are one", j, i);
        }
    }
}

static void test_KEY_05_constants_that_look_alike_differ(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *u[] = {
        tolk_const_int(g, TOLK_I32, 1),
        tolk_const_int(g, TOLK_I64, 1),
        tolk_const_int(g, TOLK_U8, 1),
        tolk_const_int(g, TOLK_INDEX, 1),
        tolk_const_bool(g, 1),
        tolk_const_float(g, TOLK_F32, 1.0),
        tolk_const_float(g, TOLK_F64, 1.0),
        tolk_const_float(g, TOLK_F16, 1.0),
        tolk_const_float(g, TOLK_BF16, 1.0),
        tolk_const_float(g, TOLK_F32, 0.0),
        tolk_const_float(g, TOLK_F32, -0.0),
        tolk_const_int(g, TOLK_I32, 0),
        tolk_const_bool(g, 0),
        tolk_const_int(g, TOLK_INDEX, 0),
        tolk_invalid(g),
        tk_uop_const(g, TOLK_F32, 0x7fc00000),
        tk_uop_const(g, TOLK_F32, 0x7fc00001),
        tk_uop_const(g, TOLK_F32, 0xffc00000),
        tolk_const_int(g, TOLK_I64, 9007199254740992),
        tolk_const_int(g, TOLK_I64, 9007199254740993),
        tolk_const_uint(g, TOLK_U64, UINT64_MAX),
        tolk_const_int(g, TOLK_I64, -1),
        tolk_const_int(g, TOLK_I64, INT64_MIN),
    };
    size_t n = sizeof u / sizeof *u;
    check_all_differ(u, n);
    /* and so do kernels over them */
    const tolk_uop *casts[sizeof u / sizeof *u];
    for (size_t i = 0; i < n; i++)
        casts[i] = tk_uop(g, TK_OP_STACK, tolk_uop_dtype(u[i]), &u[i], 1, NULL);
    check_all_differ(casts, n);
}

static void test_attributes_and_shape_of_the_graph_count(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tk_uop_index_const(g, 8), *m = tk_uop_index_const(g, 9);
    const tolk_uop *a = tolk_const_int(g, TOLK_I64, 5), *b = tolk_const_int(g, TOLK_I64, 6);
    int64_t parts[] = {0, 1, 2};
    tolk_attr axis = {.key = "axis", .i = 0};
    tolk_op range = tolk_op_find("range");
    const tolk_uop *u[] = {
        tolk_range(g, n, 0, TOLK_AXIS_LOOP),
        tolk_range(g, m, 0, TOLK_AXIS_LOOP),
        tolk_range(g, n, 1, TOLK_AXIS_LOOP),
        tolk_range(g, n, 0, TOLK_AXIS_GLOBAL),
        /* an empty list is not an absent one */
        tolk_uop_new(g, range, TOLK_VOID, &n, 1,
                     (tolk_attr[]){axis, {.key = "sub", .ints = parts, .n = 0}}, 2),
        tolk_uop_new(g, range, TOLK_VOID, &n, 1,
                     (tolk_attr[]){axis, {.key = "sub", .ints = parts, .n = 1}}, 2),
        tolk_uop_new(g, range, TOLK_VOID, &n, 1,
                     (tolk_attr[]){axis, {.key = "sub", .ints = parts, .n = 2}}, 2),
        tolk_uop_new(g, range, TOLK_VOID, &n, 1,
                     (tolk_attr[]){axis, {.key = "sub", .ints = parts + 1, .n = 2}}, 2),
        tolk_uop_new(g, range, TOLK_VOID, &n, 1, (tolk_attr[]){axis, {.key = "poll", .i = 1}}, 2),
        tolk_sub(g, a, b),
        tolk_sub(g, b, a),
        tolk_add(g, a, b),
        tolk_add(g, b, a), /* commutative, but another graph */
        tolk_add(g, a, a),
        tolk_neg(g, a),
        tolk_neg(g, tolk_neg(g, a)),
        tolk_sink(g, NULL, 0, NULL),
        tolk_sink(g, NULL, 0, ""),
        tolk_sink(g, NULL, 0, "a"),
        tolk_sink(g, NULL, 0, "b"),
        tolk_param(g, TOLK_F32, (int64_t[]){8}, 1, 0, "x"),
        tolk_param(g, TOLK_F32, (int64_t[]){8}, 1, 0, "y"),
        tolk_param(g, TOLK_F32, (int64_t[]){8}, 1, 1, "x"),
        tolk_param(g, TOLK_F64, (int64_t[]){8}, 1, 0, "x"),
        tolk_param(g, TOLK_F32, (int64_t[]){8, 1}, 2, 0, "x"),
        tolk_param(g, TOLK_F32, NULL, 0, 0, "x"),
    };
    check_all_differ(u, sizeof u / sizeof *u);
}

/* Two stacks that differ in one of many sources, wherever it is: the serialization is folded. */
static void test_every_source_counts(void **state) {
    tolk_graph *g = *state;
    enum { N = 200 };
    const tolk_uop *src[N], *one = tk_uop_index_const(g, 1), *u[N + 1];
    for (int i = 0; i < N; i++)
        src[i] = tk_uop_index_const(g, 0);
    u[N] = tk_uop(g, TK_OP_STACK, TOLK_INDEX, src, N, NULL);
    for (int i = 0; i < N; i++) {
        const tolk_uop *zero = src[i];
        src[i] = one;
        u[i] = tk_uop(g, TK_OP_STACK, TOLK_INDEX, src, N, NULL);
        src[i] = zero;
    }
    check_all_differ(u, N + 1);
}

static const char text[] = "tolk.uop 1\n"
                           "%0 = const index 1024\n"
                           "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                           "%2 = range index (%0) {axis=0, kind=global}\n"
                           "%3 = index f32 (%1, %2)\n"
                           "%4 = const f32 0x1.8p+1\n"
                           "%5 = store void (%3, %4)\n"
                           "%6 = end void (%5, %2)\n"
                           "%7 = sink void (%6) {name=\"fill\"}\n";

/* The value itself is pinned: caches on disk hold it, so a change needs a new code version. */
static void test_key_is_the_same_in_any_graph_and_process(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *a = NULL, *b = NULL;
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &a, NULL), TOLK_OK);
    for (int noise = 0; noise < 3; noise++) {
        tolk_graph *other;
        assert_int_equal(tolk_graph_create(g->ctx, &other), TOLK_OK);
        for (int i = 0; i < noise * 100; i++)
            tk_key(tk_uop_index_const(other, 2000 - i));
        assert_int_equal(tolk_parse(other, text, strlen(text), 0, &b, NULL), TOLK_OK);
        assert_true(same(tk_key(a), tk_key(b)));
        tolk_graph_destroy(other);
    }
    tolk_key key = tolk_uop_key(a);
    if (key.hi != 0x17ae005aa684f83f || key.lo != 0xda6d16f17c31cf2a)
        fail_msg("the key is {0x%016llx, 0x%016llx}", (unsigned long long)key.hi,
                 (unsigned long long)key.lo);
}

static void test_key_of_nodes_made_later_fits_in(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *u = tk_uop_index_const(g, 1), *all[50];
    for (int i = 0; i < 50; i++) {
        u = tk_uop2(g, TK_OP_ADD, u, u);
        all[i] = u;
        if (i % 7 == 0)
            tk_key(u); /* memoized in pieces */
    }
    tolk_graph *other;
    assert_int_equal(tolk_graph_create(g->ctx, &other), TOLK_OK);
    const tolk_uop *v = tk_uop_index_const(other, 1);
    for (int i = 0; i < 50; i++)
        v = tk_uop2(other, TK_OP_ADD, v, v);
    assert_true(same(tk_key(u), tk_key(v)));
    check_all_differ(all, 50);
    tolk_graph_destroy(other);
}

static void *deep_key(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *u = tk_uop_index_const(g, 1);
    for (int i = 0; i < 100000; i++)
        u = tk_uop1(g, TK_OP_NEG, u);
    return (void *)(uintptr_t)(tk_key(u).lo != tk_key(u->src[0]).lo);
}

static void test_key_of_a_deep_graph_on_a_small_stack(void **state) {
    assert_non_null(tk_test_on_stack(512 << 10, deep_key, *state));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_KEY_05_constants_that_look_alike_differ, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_attributes_and_shape_of_the_graph_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_every_source_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_is_the_same_in_any_graph_and_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_key_of_nodes_made_later_fits_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_of_a_deep_graph_on_a_small_stack, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
