/* SPDX-License-Identifier: MIT
 *
 * A kernel as passes look at it: its order, its ranges, what each node depends on, and rebuilding.
 */
#include "support/tk_stage.h"

#include <string.h>

/* y[i, j] = sum over k < j + 1 of x[i, k], in one loop over i and j; then y[0, 0] = max over i of
 * x[i, 0]. */
static const char text[] =
    "tolk.uop 1\n%0 = const index 5\n%1 = stack index (%0, %0)\n%2 = param i32 (%1) {slot=0}\n"
    "%3 = param i32 (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"
    "%5 = range index (%0) {axis=1, kind=global}\n%6 = const index 1\n%7 = add index (%5, %6)\n"
    "%8 = range index (%7, %5) {axis=2, kind=reduce}\n%9 = index i32 (%3, %4, %8)\n"
    "%10 = load i32 (%9)\n%11 = reduce i32 (%10, %8) {op=add}\n%12 = index i32 (%2, %4, %5)\n"
    "%13 = store void (%12, %11)\n%14 = end void (%13, %4, %5)\n%15 = const index 0\n"
    "%16 = range index (%0) {axis=3, kind=reduce}\n%17 = index i32 (%3, %16, %15)\n"
    "%18 = load i32 (%17)\n%19 = reduce i32 (%18, %16) {op=max}\n%20 = index i32 (%2, %15, %15)\n"
    "%21 = store void (%20, %19)\n%22 = sink void (%14, %21) {name=\"two\"}\n";

/* Are these, by axis number, the ranges that u depends on? axes: "012" */
static void depends(const tk_kview *v, const tolk_uop *u, const char *axes) {
    char have[8] = "";
    for (char axis = '0'; axis <= '3'; axis++)
        for (size_t r = 0; r < v->ranges.n; r++)
            if (tk_uop_int(v->ranges.at[r], TK_A_RANGE_AXIS) == axis - '0' &&
                tk_kview_depends(v, u, v->ranges.at[r]))
                strncat(have, &axis, 1);
    assert_string_equal(have, axes);
}

static void test_order_has_each_node_once_and_sources_first(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    assert_true(tk_kview_init(&v, s.given));
    assert_int_equal(v.order.n, 23);
    assert_ptr_equal(tk_vec_last(&v.order), s.given);
    assert_int_equal(v.ranges.n, 4);
    for (size_t k = 0; k < v.order.n; k++) {
        const tolk_uop *u = v.order.at[k];
        assert_true(v.reached[u->id]);
        for (size_t j = k + 1; j < v.order.n; j++)
            assert_ptr_not_equal(v.order.at[j], u);
        for (uint32_t i = 0; i < u->n_src; i++) {
            size_t at = 0;
            while (v.order.at[at] != u->src[i])
                at++;
            assert_true(at < k);
        }
        bool range = tk_uop_is(u, TK_OP_RANGE);
        assert_int_equal(tk_kview_no(&v, u) != UINT32_MAX, range);
        if (range)
            assert_ptr_equal(v.ranges.at[tk_kview_no(&v, u)], u);
    }
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

static void test_nodes_the_root_does_not_reach_are_left_out(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    const tolk_uop *first = s.given->src[0];
    assert_true(tk_kview_init(&v, first));
    assert_ptr_equal(tk_vec_last(&v.order), first);
    assert_int_equal(v.ranges.n, 3);
    for (size_t k = 0; k < v.order.n; k++)
        assert_false(tk_uop_is(v.order.at[k], TK_OP_SINK));
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

static void test_sets_are_what_is_reached_less_what_is_closed(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    assert_true(tk_kview_init(&v, s.given));
    depends(&v, tk_stage_find(&s, TK_OP_LOAD, 0), "012");
    /* the reduction closes 2, whose size depends on 1 */
    depends(&v, tk_stage_find(&s, TK_OP_REDUCE, 0), "01");
    depends(&v, tk_stage_find(&s, TK_OP_STORE, 0), "01");
    depends(&v, tk_stage_find(&s, TK_OP_END, 0), "");
    depends(&v, tk_stage_find(&s, TK_OP_LOAD, 1), "3");
    depends(&v, tk_stage_find(&s, TK_OP_STORE, 1), "");
    depends(&v, s.given, "");
    for (size_t r = 0; r < v.ranges.n; r++) {
        const tolk_uop *u = v.ranges.at[r];
        static const char *const own[] = {"0", "1", "12", "3"};
        depends(&v, u, own[tk_uop_int(u, TK_A_RANGE_AXIS)]);
    }
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

/* How often a fold runs depends on what the size of its loop depends on, though its value reads
 * nothing that does: sum over k < i of 1. */
static void test_the_size_of_a_closed_loop_counts(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s,
                  "tolk.uop 1\n%0 = const index 5\n%1 = param i32 (%0) {slot=0}\n"
                  "%2 = range index (%0) {axis=0, kind=global}\n"
                  "%3 = range index (%2, %2) {axis=1, kind=reduce}\n%4 = const i32 1\n"
                  "%5 = reduce i32 (%4, %3) {op=add}\n%6 = index i32 (%1, %2)\n"
                  "%7 = store void (%6, %5)\n%8 = end void (%7, %2)\n"
                  "%9 = sink void (%8) {name=\"counts\"}\n",
                  NULL);
    assert_true(tk_kview_init(&v, s.given));
    depends(&v, tk_stage_find(&s, TK_OP_REDUCE, 0), "0");
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

/* A fold over what does not depend on its range involves it all the same. */
static void test_a_reduction_involves_its_ranges(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s,
                  "tolk.uop 1\n%0 = const index 4\n%1 = const index 1\n%2 = const index 0\n"
                  "%3 = param i32 (%1) {slot=0}\n%4 = range index (%0) {axis=0, kind=lane}\n"
                  "%5 = const i32 2\n%6 = reduce i32 (%5, %4) {op=mul}\n%7 = index i32 (%3, %2)\n"
                  "%8 = store void (%7, %6)\n%9 = sink void (%8) {name=\"power\"}\n",
                  NULL);
    assert_true(tk_kview_init(&v, s.given));
    const tolk_uop *reduce = tk_stage_find(&s, TK_OP_REDUCE, 0), *lane = reduce->src[1];
    assert_false(tk_kview_depends(&v, reduce, lane));
    assert_true(tk_kview_involves(&v, reduce, lane));
    assert_false(tk_kview_involves(&v, tk_stage_find(&s, TK_OP_STORE, 0), lane));
    assert_true(tk_kview_involves(&v, lane, lane));
    assert_int_equal(tk_kview_closes(reduce), 1);
    assert_int_equal(tk_kview_closes(lane), 1); /* its one source, so: none */
    assert_int_equal(tk_kview_closes(s.given), 1);
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

/* More ranges than one word of a set has. */
static void test_a_hundred_ranges(void **state) {
    (void)state;
    enum { N = 100 };
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    tolk_graph *g = s.pass.g;
    const tolk_uop *range[N], *two = tk_uop_index_const(g, 2), *sum = two;
    for (int i = 0; i < N; i++) {
        range[i] = tk_uop_range(g, two, i, TK_AXIS_REDUCE);
        sum = tk_uop2(g, TK_OP_ADD, sum, range[i]);
    }
    const tolk_uop *fold = sum;
    tk_attr attrs[2] = {{.i = TK_ROP_ADD}, {.i = 0}};
    for (int i = 99; i >= 70; i--)
        fold = tk_uop(g, TK_OP_REDUCE, TOLK_INDEX, (const tolk_uop *[]){fold, range[i]}, 2, attrs);
    assert_true(tk_kview_init(&v, fold));
    assert_int_equal(v.words, 2);
    for (int i = 0; i < N; i++) {
        assert_true(tk_kview_depends(&v, sum, range[i]));
        assert_int_equal(tk_kview_depends(&v, fold, range[i]), i < 70);
    }
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

static void test_the_buffer_behind_places_and_order(void **state) {
    (void)state;
    tk_stage s;
    tk_stage_open(
        &s,
        "tolk.uop 1\n%0 = const index 1\n%1 = const index 0\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = buffer i32 (%0) {slot=0, space=reg}\n%4 = index i32 (%3, %1)\n"
        "%5 = const i32 1\n%6 = store void (%4, %5)\n%7 = after i32 (%3, %6)\n"
        "%8 = after i32 (%7, %6)\n%9 = index i32 (%8, %1)\n%10 = load i32 (%9)\n"
        "%11 = index i32 (%2, %1)\n%12 = store void (%11, %10)\n"
        "%13 = sink void (%12) {name=\"order\"}\n",
        NULL);
    const tolk_uop *reg = tk_stage_find(&s, TK_OP_BUFFER, 0);
    const tolk_uop *param = tk_stage_find(&s, TK_OP_PARAM, 0);
    assert_ptr_equal(tk_access_buffer(tk_stage_find(&s, TK_OP_LOAD, 0)->src[0]), reg);
    assert_ptr_equal(tk_access_buffer(reg), reg);
    assert_ptr_equal(tk_access_buffer(tk_stage_find(&s, TK_OP_STORE, 1)->src[0]), param);
    assert_true(tk_kview_is_global(param));
    assert_false(tk_kview_is_global(reg));
    tk_stage_close(&s);
}

/* ---- rebuilding ---- */

typedef struct rebuild {
    tolk_graph *g;
    size_t calls;
    int fail_at;
} rebuild;

static const tolk_uop *add_to_mul(void *user, const tk_kview *v, const tolk_uop *u,
                                  const tolk_uop **src, uint32_t n) {
    rebuild *r = user;
    assert_int_equal(n, u->n_src);
    for (uint32_t i = 0; i < n; i++)
        assert_ptr_equal(src[i], v->map[u->src[i]->id]);
    if ((int)r->calls++ == r->fail_at)
        return tk_graph_fail(r->g, TOLK_E_LIMIT, "enough");
    if (tk_uop_is(u, TK_OP_ADD))
        return tk_uop2(r->g, TK_OP_MUL, src[0], src[1]);
    return tk_uop_with_src(r->g, u, src, n);
}

static void test_rebuild_gives_new_sources_to_every_user(void **state) {
    (void)state;
    tk_stage s;
    tk_kview v;
    tk_stage_open(&s, text, NULL);
    tk_stage_run(&s, "P");
    size_t n = tk_stage_count(&s, TK_OP_ADD), muls = tk_stage_count(&s, TK_OP_MUL);
    assert_int_equal(n, 1);
    assert_true(tk_kview_init(&v, s.root));
    rebuild r = {s.pass.g, 0, -1};
    const tolk_uop *root = tk_kview_rebuild(&v, add_to_mul, &r);
    assert_int_equal(r.calls, v.order.n);
    assert_null(v.map);
    tk_kview_fini(&v);
    assert_non_null(root);
    assert_ptr_not_equal(root, s.root);
    s.root = root;
    assert_int_equal(tk_stage_count(&s, TK_OP_ADD), 0);
    assert_int_equal(tk_stage_count(&s, TK_OP_MUL), muls + 1);
    /* once more changes nothing: the same node */
    assert_true(tk_kview_init(&v, s.root));
    assert_ptr_equal(tk_kview_rebuild(&v, add_to_mul, &r), s.root);
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

static void test_rebuild_stops_at_the_first_failure(void **state) {
    (void)state;
    for (int at = 0; at < 20; at += 3) {
        tk_stage s;
        tk_kview v;
        tk_stage_open(&s, text, NULL);
        tk_stage_run(&s, "P");
        assert_true(tk_kview_init(&v, s.root));
        rebuild r = {s.pass.g, 0, at};
        assert_null(tk_kview_rebuild(&v, add_to_mul, &r));
        assert_int_equal(r.calls, at + 1);
        assert_int_equal(s.pass.g->error.code, TOLK_E_LIMIT);
        tk_kview_fini(&v);
        tk_stage_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_has_each_node_once_and_sources_first),
        cmocka_unit_test(test_nodes_the_root_does_not_reach_are_left_out),
        cmocka_unit_test(test_sets_are_what_is_reached_less_what_is_closed),
        cmocka_unit_test(test_the_size_of_a_closed_loop_counts),
        cmocka_unit_test(test_a_reduction_involves_its_ranges),
        cmocka_unit_test(test_a_hundred_ranges),
        cmocka_unit_test(test_the_buffer_behind_places_and_order),
        cmocka_unit_test(test_rebuild_gives_new_sources_to_every_user),
        cmocka_unit_test(test_rebuild_stops_at_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
