/* SPDX-License-Identifier: MIT
 *
 * Order of walks, and the ranges that nodes depend on.
 */
#include "ir/walk.h"

#include "ir/expr.h"

static void test_walk_shared_node_gives_sources_first_left_to_right(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *a = expr_param(g, TOLK_I32, 0, 0, 9), *b = expr_param(g, TOLK_I32, 1, 0, 9);
    const tolk_uop *s = tk_uop2(g, TK_OP_ADD, b, a);
    const tolk_uop *m = tk_uop2(g, TK_OP_MUL, s, b);
    tk_walk_list list;
    tk_vec_init(&list, g->al);
    assert_int_equal(tk_walk(m, &list), TOLK_OK);
    assert_int_equal(list.n, 4);
    assert_ptr_equal(list.at[0], b);
    assert_ptr_equal(list.at[1], a);
    assert_ptr_equal(list.at[2], s);
    assert_ptr_equal(list.at[3], m);
    tk_vec_fini(&list);
    expr_done(g);
}

static bool not_a_mul(const tolk_uop *u, void *user) {
    (*(int *)user)++;
    return !tk_uop_is(u, TK_OP_MUL);
}

static void test_walk_gated_does_not_enter_but_lists_the_node(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *a = expr_param(g, TOLK_I32, 0, 0, 9), *b = expr_param(g, TOLK_I32, 1, 0, 9);
    const tolk_uop *m = tk_uop2(g, TK_OP_MUL, a, a);
    const tolk_uop *s = tk_uop2(g, TK_OP_ADD, m, b);
    tk_walk_list list;
    int asked = 0;
    tk_vec_init(&list, g->al);
    assert_int_equal(tk_walk_gated(s, not_a_mul, &asked, &list), TOLK_OK);
    assert_int_equal(list.n, 3);
    assert_ptr_equal(list.at[0], m);
    assert_ptr_equal(list.at[1], b);
    assert_ptr_equal(list.at[2], s);
    assert_int_equal(asked, 3);
    list.n = 0;
    assert_int_equal(tk_walk_gated(m, not_a_mul, &asked, &list), TOLK_OK);
    assert_int_equal(list.n, 1);
    tk_vec_fini(&list);
    expr_done(g);
}

static void test_map_far_apart_ids_keep_their_values(void **state) {
    (void)state;
    tk_walk_map map;
    tk_walk_map_init(&map, &tk_alloc_malloc);
    assert_int_equal(tk_walk_map_get(&map, 7), 0);
    for (uint32_t id = 5; id < 16u << 20; id = id * 3 + 1)
        assert_true(tk_walk_map_put(&map, id, id + 1));
    for (uint32_t id = 5; id < 16u << 20; id = id * 3 + 1) {
        assert_int_equal(tk_walk_map_get(&map, id), id + 1);
        assert_int_equal(tk_walk_map_get(&map, id + 1), 0);
    }
    tk_walk_map_fini(&map);
}

/* ---- ranges ---- */

static const tolk_uop *load_of(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *i) {
    const tolk_uop *place =
        tk_uop(g, TK_OP_INDEX, TOLK_F32, (const tolk_uop *[]){buffer, i}, 2, NULL);
    return tk_uop(g, TK_OP_LOAD, TOLK_F32, &place, 1, NULL);
}

static const tolk_uop *buffer_of(tolk_graph *g, int64_t slot, const tolk_uop *size) {
    tk_attr a[7] = {{.i = slot},      {.blob = NULL},   {.i = TK_SPACE_GLOBAL},
                    {.i = INT64_MIN}, {.i = INT64_MAX}, {.blob = NULL},
                    {.i = -1}};
    return tk_uop(g, TK_OP_PARAM, TOLK_F32, &size, 1, a);
}

static void test_ranges_reduce_closes_its_ranges_only(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *size = tk_uop_index_const(g, 16);
    const tolk_uop *x = buffer_of(g, 1, size), *y = buffer_of(g, 0, size);
    const tolk_uop *i = expr_range(g, 4, 0), *j = expr_range(g, 4, 1);
    const tolk_uop *at = tk_uop2(g, TK_OP_ADD, i, j);
    const tolk_uop *v = load_of(g, x, at);
    tk_attr op[2] = {{.i = TK_ROP_ADD}, {.i = 0}};
    const tolk_uop *sum = tk_uop(g, TK_OP_REDUCE, TOLK_F32, (const tolk_uop *[]){v, j}, 2, op);
    const tolk_uop *place = tk_uop(g, TK_OP_INDEX, TOLK_F32, (const tolk_uop *[]){y, i}, 2, NULL);
    const tolk_uop *store =
        tk_uop(g, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){place, sum}, 2, NULL);
    const tolk_uop *end = tk_uop(g, TK_OP_END, TOLK_VOID, (const tolk_uop *[]){store, i}, 2, NULL);
    const tolk_uop *sink = tk_uop(g, TK_OP_SINK, TOLK_VOID, &end, 1, NULL);
    tk_walk_ranges w;
    assert_int_equal(tk_walk_ranges_init(&w, sink, g->al), TOLK_OK);
    assert_int_equal(w.ranges.n, 2);
    assert_true(tk_walk_ranges_has(&w, v, i) && tk_walk_ranges_has(&w, v, j));
    assert_true(tk_walk_ranges_has(&w, sum, i) && !tk_walk_ranges_has(&w, sum, j));
    assert_true(tk_walk_ranges_has(&w, store, i) && !tk_walk_ranges_has(&w, store, j));
    assert_int_equal(tk_walk_ranges_set(&w, end), 0);
    assert_int_equal(tk_walk_ranges_set(&w, sink), 0);
    assert_int_equal(tk_walk_ranges_set(&w, sum), tk_walk_ranges_set(&w, i));
    assert_true(tk_walk_ranges_has(&w, i, i) && !tk_walk_ranges_has(&w, i, j));
    assert_int_equal(tk_walk_ranges_number(&w, size), -1);
    tk_walk_ranges_fini(&w);
    expr_done(g);
}

static void test_ranges_parents_are_no_dependence_but_sizes_are(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *i = expr_range(g, 4, 0);
    tk_attr inner[4] = {{.i = 1}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
    tk_attr tri[4] = {{.i = 2}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
    const tolk_uop *four = tk_uop_index_const(g, 4);
    const tolk_uop *j = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, (const tolk_uop *[]){four, i}, 2, inner);
    const tolk_uop *k = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, &i, 1, tri);
    const tolk_uop *both = tk_uop2(g, TK_OP_ADD, j, k);
    tk_walk_ranges w;
    assert_int_equal(tk_walk_ranges_init(&w, both, g->al), TOLK_OK);
    assert_false(tk_walk_ranges_has(&w, j, i));
    assert_true(tk_walk_ranges_has(&w, k, i));
    assert_true(tk_walk_ranges_has(&w, both, i) && tk_walk_ranges_has(&w, both, j) &&
                tk_walk_ranges_has(&w, both, k));
    tk_walk_ranges_fini(&w);
    expr_done(g);
}

static void test_ranges_after_depends_on_its_range_and_open_effects(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *one = tk_uop_index_const(g, 1), *zero = tk_uop_index_const(g, 0);
    const tolk_uop *i = expr_range(g, 4, 0), *r = expr_range(g, 8, 1);
    tk_attr reg[4] = {{.i = 0}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *acc = tk_uop(g, TK_OP_BUFFER, TOLK_F32, &one, 1, reg);
    const tolk_uop *outer = tk_uop(g, TK_OP_AFTER, TOLK_F32, (const tolk_uop *[]){acc, i}, 2, NULL);
    const tolk_uop *p0 =
        tk_uop(g, TK_OP_INDEX, TOLK_F32, (const tolk_uop *[]){outer, zero}, 2, NULL);
    const tolk_uop *f0 = tk_uop_const(g, TOLK_F32, 0);
    const tolk_uop *init = tk_uop(g, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){p0, f0}, 2, NULL);
    const tolk_uop *in =
        tk_uop(g, TK_OP_AFTER, TOLK_F32, (const tolk_uop *[]){acc, init, r}, 3, NULL);
    const tolk_uop *cur = load_of(g, in, zero);
    const tolk_uop *place =
        tk_uop(g, TK_OP_INDEX, TOLK_F32, (const tolk_uop *[]){acc, zero}, 2, NULL);
    const tolk_uop *step =
        tk_uop(g, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){place, cur}, 2, NULL);
    const tolk_uop *end = tk_uop(g, TK_OP_END, TOLK_VOID, (const tolk_uop *[]){step, r}, 2, NULL);
    const tolk_uop *done =
        tk_uop(g, TK_OP_AFTER, TOLK_F32, (const tolk_uop *[]){acc, end}, 2, NULL);
    const tolk_uop *out = load_of(g, done, zero);
    tk_walk_ranges w;
    assert_int_equal(tk_walk_ranges_init(&w, out, g->al), TOLK_OK);
    assert_int_equal(tk_walk_ranges_set(&w, acc), 0);
    assert_true(tk_walk_ranges_has(&w, init, i) && !tk_walk_ranges_has(&w, init, r));
    assert_true(tk_walk_ranges_has(&w, cur, i) && tk_walk_ranges_has(&w, cur, r));
    assert_true(tk_walk_ranges_has(&w, out, i) && !tk_walk_ranges_has(&w, out, r));
    tk_walk_ranges_fini(&w);
    expr_done(g);
}

static void test_ranges_more_than_one_word_stay_apart(void **state) {
    (void)state;
    enum { N = 200 };
    tolk_graph *g = expr_graph();
    const tolk_uop *r[N], *sum[N];
    for (int i = 0; i < N; i++) {
        r[i] = expr_range(g, i + 2, i);
        sum[i] = i ? tk_uop2(g, TK_OP_ADD, sum[i - 1], r[i]) : r[0];
    }
    tk_walk_ranges w;
    assert_int_equal(tk_walk_ranges_init(&w, sum[N - 1], g->al), TOLK_OK);
    assert_int_equal(w.ranges.n, N);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            assert_int_equal(tk_walk_ranges_has(&w, sum[i], r[j]), j <= i);
    tk_walk_ranges_fini(&w);
    expr_done(g);
}

static void test_ranges_too_many_is_a_limit(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *sum = expr_range(g, 2, 0);
    for (int i = 1; i <= TK_WALK_MAX_RANGES; i++)
        sum = tk_uop2(g, TK_OP_ADD, sum, expr_range(g, 2, i));
    tk_walk_ranges w;
    assert_int_equal(tk_walk_ranges_init(&w, sum, g->al), TOLK_E_LIMIT);
    tk_walk_ranges_fini(&w);
    expr_done(g);
}

static void *walk_deep(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *u = expr_range(g, 4, 0);
    for (int i = 0; i < 100000; i++)
        u = tk_uop1(g, TK_OP_NEG, u);
    tk_walk_ranges w;
    bool ok = tk_walk_ranges_init(&w, u, g->al) == TOLK_OK && w.nodes.n == 100002 &&
              tk_walk_ranges_set(&w, u) == 1;
    tk_walk_ranges_fini(&w);
    return ok ? g : NULL;
}

static void test_walk_depth_100000_on_a_small_stack(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    assert_ptr_equal(tk_test_on_stack(512 << 10, walk_deep, g), g);
    expr_done(g);
}

static tolk_status walk_with(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx;
    tolk_graph *g;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    TK_TRY(tk_ctx_init(&opts, &ctx, NULL));
    tolk_status s = tk_graph_create(ctx, &g);
    if (s == TOLK_OK) {
        const tolk_uop *u = expr_range(g, 4, 0);
        for (int i = 1; u && i < 70; i++) {
            const tolk_uop *r = expr_range(g, 4, i);
            u = r ? tk_uop2(g, TK_OP_ADD, u, r) : NULL;
        }
        s = u ? TOLK_OK : g->error.code;
        if (u) {
            tk_walk_ranges w;
            s = tk_walk_ranges_init(&w, u, g->al);
            tk_walk_ranges_fini(&w);
        }
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return s;
}

static void test_walk_out_of_memory_is_reported(void **state) {
    (void)state;
    assert_true(tk_test_oom(walk_with, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_shared_node_gives_sources_first_left_to_right),
        cmocka_unit_test(test_walk_gated_does_not_enter_but_lists_the_node),
        cmocka_unit_test(test_map_far_apart_ids_keep_their_values),
        cmocka_unit_test(test_ranges_reduce_closes_its_ranges_only),
        cmocka_unit_test(test_ranges_parents_are_no_dependence_but_sizes_are),
        cmocka_unit_test(test_ranges_after_depends_on_its_range_and_open_effects),
        cmocka_unit_test(test_ranges_more_than_one_word_stay_apart),
        cmocka_unit_test(test_ranges_too_many_is_a_limit),
        cmocka_unit_test(test_walk_depth_100000_on_a_small_stack),
        cmocka_unit_test(test_walk_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
