/* SPDX-License-Identifier: MIT
 *
 * The rewrite driver.
 */
#include "ir/rewrite.h"

#include "ir/expr.h"

#include <string.h>

typedef struct seen {
    int calls, matches;
} seen;

/* add(x, 0) -> x */
static const tolk_uop *drop_zero(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)g;
    seen *s = user;
    s->calls++;
    if (!tk_uop_is(u, TK_OP_ADD) || !tk_uop_is_int(u->src[1], 0))
        return NULL;
    s->matches++;
    return u->src[0];
}

static void test_rewrite_rule_on_new_sources_reaches_the_fixpoint(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9), *zero = expr_int(g, TOLK_I32, 0);
    const tolk_uop *a = tk_uop2(g, TK_OP_ADD, x, zero);
    const tolk_uop *b = tk_uop2(g, TK_OP_MUL, a, tk_uop2(g, TK_OP_ADD, a, zero));
    seen s = {0, 0};
    const tolk_uop *r = tk_rewrite(g, b, drop_zero, &s, 0);
    assert_ptr_equal(r, tk_uop2(g, TK_OP_MUL, x, x));
    expr_done(g);
}

static void test_rewrite_no_match_gives_the_same_node_and_looks_once(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *u = expr_param(g, TOLK_I32, 0, 0, 9);
    for (int i = 0; i < 30; i++)
        u = tk_uop2(g, TK_OP_MUL, u, u); /* 2^30 paths */
    seen s = {0, 0};
    assert_ptr_equal(tk_rewrite(g, u, drop_zero, &s, 0), u);
    assert_int_equal(s.calls, 31);
    expr_done(g);
}

/* neg(x) -> sub(0, x); sub(0, x) -> neg(x) */
static const tolk_uop *undo(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)user;
    if (tk_uop_is(u, TK_OP_NEG))
        return tk_uop2(g, TK_OP_SUB, tk_uop_const(g, u->dtype, 0), u->src[0]);
    return tk_uop_is(u, TK_OP_SUB) ? tk_uop1(g, TK_OP_NEG, u->src[1]) : NULL;
}

static void test_rewrite_rules_that_undo_each_other_are_an_error(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9);
    const tolk_uop *u = tk_uop2(g, TK_OP_ADD, tk_uop1(g, TK_OP_NEG, x), x);
    assert_null(tk_rewrite(g, u, undo, NULL, 0));
    assert_int_equal(g->error.code, TOLK_E_INTERNAL);
    assert_non_null(strstr(g->error.msg, "cycle"));
    expr_done(g);
}

/* x -> x + k with a k that was never there */
static const tolk_uop *grow(tolk_graph *g, const tolk_uop *u, void *user) {
    int64_t *k = user;
    if (tk_uop_is(u, TK_OP_ADD))
        return tk_uop2(g, TK_OP_ADD, u->src[0], tk_uop_index_const(g, ++*k));
    return NULL;
}

static const tolk_uop *wrap(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)user;
    return tk_uop_is(u, TK_OP_ADD) ? tk_uop1(g, TK_OP_NEG, tk_uop2(g, TK_OP_ADD, u, u)) : NULL;
}

static void test_rewrite_without_end_is_an_error(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *r = expr_range(g, 8, 0);
    int64_t k = 0;
    assert_null(tk_rewrite(g, tk_uop2(g, TK_OP_ADD, r, r), grow, &k, 0));
    assert_int_equal(g->error.code, TOLK_E_INTERNAL);
    expr_done(g);
    g = expr_graph();
    r = expr_range(g, 8, 0);
    assert_null(tk_rewrite(g, tk_uop2(g, TK_OP_ADD, r, r), wrap, NULL, 0));
    assert_int_equal(g->error.code, TOLK_E_INTERNAL);
    expr_done(g);
}

static const tolk_uop *fail_at_mul(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)user;
    return tk_uop_is(u, TK_OP_MUL) ? tk_graph_fail(g, TOLK_E_UNSUPPORTED, "no mul") : NULL;
}

static void test_rewrite_failure_of_a_rule_is_kept(void **state) {
    (void)state;
    for (unsigned flags = 0; flags <= TK_REWRITE_ONCE; flags++) {
        tolk_graph *g = expr_graph();
        const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9);
        const tolk_uop *u = tk_uop1(g, TK_OP_NEG, tk_uop2(g, TK_OP_MUL, x, x));
        assert_null(tk_rewrite(g, u, fail_at_mul, NULL, flags));
        assert_int_equal(g->error.code, TOLK_E_UNSUPPORTED);
        assert_string_equal(g->error.msg, "no mul");
        assert_null(tk_rewrite(g, x, drop_zero, NULL, flags)); /* a failed graph stays so */
        expr_done(g);
    }
}

/* neg(x) -> neg(neg(x)) */
static const tolk_uop *twice(tolk_graph *g, const tolk_uop *u, void *user) {
    (void)user;
    return tk_uop_is(u, TK_OP_NEG) ? tk_uop1(g, TK_OP_NEG, u) : NULL;
}

static void test_rewrite_once_does_not_look_at_replacements(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9);
    const tolk_uop *n1 = tk_uop1(g, TK_OP_NEG, x), *n2 = tk_uop1(g, TK_OP_NEG, n1);
    const tolk_uop *n4 = tk_uop1(g, TK_OP_NEG, tk_uop1(g, TK_OP_NEG, n2));
    assert_ptr_equal(tk_rewrite(g, n1, twice, NULL, TK_REWRITE_ONCE), n2);
    assert_ptr_equal(tk_rewrite(g, n2, twice, NULL, TK_REWRITE_ONCE), n4);
    expr_done(g);
}

static void test_rewrite_new_leaves_old_nodes(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9), *zero = expr_int(g, TOLK_I32, 0);
    const tolk_uop *a = tk_uop2(g, TK_OP_ADD, x, zero);
    const tolk_uop *u = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, a, a), zero);
    seen s = {0, 0};
    assert_ptr_equal(tk_rewrite(g, u, drop_zero, &s, TK_REWRITE_NEW), tk_uop2(g, TK_OP_MUL, a, a));
    assert_int_equal(s.matches, 1);
    expr_done(g);
}

static void test_substitute_is_one_shot_and_swaps(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9), *y = expr_param(g, TOLK_I32, 1, 0, 9);
    const tolk_uop *u = tk_uop2(g, TK_OP_SUB, x, tk_uop2(g, TK_OP_MUL, y, x));
    const tolk_uop *swapped =
        tk_rewrite_substitute(g, u, (const tolk_uop *[]){x, y}, (const tolk_uop *[]){y, x}, 2);
    assert_ptr_equal(swapped, tk_uop2(g, TK_OP_SUB, y, tk_uop2(g, TK_OP_MUL, x, y)));
    /* into itself: x becomes x*x, once */
    const tolk_uop *xx = tk_uop2(g, TK_OP_MUL, x, x);
    assert_ptr_equal(tk_rewrite_substitute(g, tk_uop1(g, TK_OP_NEG, x), &x, &xx, 1),
                     tk_uop1(g, TK_OP_NEG, xx));
    assert_ptr_equal(tk_rewrite_substitute(g, u, &u, &x, 1), x);
    assert_ptr_equal(tk_rewrite_substitute(g, u, NULL, NULL, 0), u);
    expr_done(g);
}

static void *rewrite_deep(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, 0, 9), *zero = expr_int(g, TOLK_I32, 0);
    const tolk_uop *y = expr_param(g, TOLK_I32, 1, 0, 9);
    const tolk_uop *u = x, *want = y;
    for (int i = 0; i < 50000; i++) {
        u = tk_uop1(g, TK_OP_NEG, tk_uop2(g, TK_OP_ADD, u, zero));
        want = tk_uop1(g, TK_OP_NEG, want);
    }
    seen s = {0, 0};
    const tolk_uop *v = tk_rewrite(g, u, drop_zero, &s, 0);
    v = v ? tk_rewrite_substitute(g, v, &x, &y, 1) : NULL;
    return v == want && s.matches == 50000 ? g : NULL;
}

static void test_rewrite_depth_100000_on_a_small_stack(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    assert_ptr_equal(tk_test_on_stack(512 << 10, rewrite_deep, g), g);
    expr_done(g);
}

static void test_rewrite_many_sources_are_rebuilt(void **state) {
    (void)state;
    enum { N = 5000 };
    tolk_graph *g = expr_graph();
    const tolk_uop **src = malloc(N * sizeof *src), **want = malloc(N * sizeof *want);
    const tolk_uop *zero = expr_int(g, TOLK_I32, 0);
    for (int i = 0; i < N; i++) {
        want[i] = expr_param(g, TOLK_I32, i, 0, 9);
        src[i] = tk_uop2(g, TK_OP_ADD, want[i], zero);
    }
    seen s = {0, 0};
    const tolk_uop *u = tk_uop(g, TK_OP_GROUP, TOLK_VOID, src, N, NULL);
    assert_ptr_equal(tk_rewrite(g, u, drop_zero, &s, 0),
                     tk_uop(g, TK_OP_GROUP, TOLK_VOID, want, N, NULL));
    free(src);
    free(want);
    expr_done(g);
}

static tolk_status rewrite_with(const tolk_allocator *al, void *user) {
    tolk_ctx *ctx;
    tolk_graph *g;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    unsigned flags = *(unsigned *)user;
    TK_TRY(tk_ctx_init(&opts, &ctx, NULL));
    tolk_status s = tk_graph_create(ctx, &g);
    if (s == TOLK_OK) {
        const tolk_uop *zero = tk_uop_index_const(g, 0);
        const tolk_uop *u = zero ? tk_uop_range(g, zero, 0, TK_AXIS_LOOP) : NULL, *x = u;
        for (int i = 0; u && i < 300; i++)
            u = tk_uop2(g, TK_OP_MUL, u, tk_uop2(g, TK_OP_ADD, u, zero));
        seen seen = {0, 0};
        u = u ? tk_rewrite(g, u, drop_zero, &seen, flags) : NULL;
        u = u ? tk_rewrite_substitute(g, u, &x, &zero, 1) : NULL;
        s = u ? TOLK_OK : g->error.code;
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return s;
}

static void test_rewrite_out_of_memory_is_reported(void **state) {
    (void)state;
    for (unsigned flags = 0; flags <= TK_REWRITE_ONCE; flags++)
        assert_true(tk_test_oom(rewrite_with, &flags) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewrite_rule_on_new_sources_reaches_the_fixpoint),
        cmocka_unit_test(test_rewrite_no_match_gives_the_same_node_and_looks_once),
        cmocka_unit_test(test_rewrite_rules_that_undo_each_other_are_an_error),
        cmocka_unit_test(test_rewrite_without_end_is_an_error),
        cmocka_unit_test(test_rewrite_failure_of_a_rule_is_kept),
        cmocka_unit_test(test_rewrite_once_does_not_look_at_replacements),
        cmocka_unit_test(test_rewrite_new_leaves_old_nodes),
        cmocka_unit_test(test_substitute_is_one_shot_and_swaps),
        cmocka_unit_test(test_rewrite_depth_100000_on_a_small_stack),
        cmocka_unit_test(test_rewrite_many_sources_are_rebuilt),
        cmocka_unit_test(test_rewrite_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
