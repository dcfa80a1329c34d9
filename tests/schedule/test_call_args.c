/* SPDX-License-Identifier: MIT
 *
 * How many calls a linear may make, counted by what is in it.
 */
#include "schedule/call_args.h"

#include "calls.h"

static const tolk_uop *times(tolk_graph *g, const tolk_uop *call, size_t n) {
    const tolk_uop **calls = malloc(n * sizeof *calls);
    for (size_t i = 0; i < n; i++)
        calls[i] = call;
    const tolk_uop *l = list_of(g, calls, n);
    free(calls);
    return l;
}

static const tolk_uop *graph_call(tolk_graph *g, const tolk_uop *list) {
    tk_attr name = {.blob = tk_blob_str(g, "graph", 5)};
    const tolk_uop *f = tk_uop(g, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &list, 1, &name);
    return call_of_body(g, f, "graph", (const tolk_uop *[]){NULL});
}

static void assert_many(const tolk_uop *linear) {
    tk_walk_list out;
    tolk_error err = TOLK_ERROR_INIT;
    tk_vec_init(&out, linear->graph->al);
    assert_int_equal(tk_call_args_check(linear, &err), TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "more than 1048576 calls"));
    assert_int_equal(tk_call_args_flatten(linear, &out, &err), TOLK_E_LIMIT);
    assert_int_equal(out.n, 0);
    tk_vec_fini(&out);
}

static void test_call_args_limit_is_exact(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    tk_walk_list out;
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *k = CALL(g, "k", f32s(g, 0, 4));
    const tolk_uop *most = times(g, k, TK_MANY);
    tk_vec_init(&out, g->al);
    assert_int_equal(tk_call_args_flatten(most, &out, &err), TOLK_OK);
    assert_int_equal(out.n, TK_MANY);
    assert_ptr_equal(out.at[TK_MANY - 1], k);
    /* 1023 graphs of 1024 calls, each with one for itself: 2^20 - 1. */
    const tolk_uop *graph = graph_call(g, times(g, k, 1024));
    const tolk_uop *list[1025];
    for (int i = 0; i < 1023; i++)
        list[i] = graph;
    list[1023] = list[1024] = k;
    assert_int_equal(tk_call_args_check(list_of(g, list, 1024), &err), TOLK_OK);
    assert_many(list_of(g, list, 1025));
    assert_many(LIST(g, graph_call(g, most)));
    tk_vec_fini(&out);
    calls_done(g);
}

static void test_call_args_count_by_distinct_nodes(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *k = CALL(g, "k", f32s(g, 0, 4)), *l = LIST(g, k), *deep = l;
    tk_walk_list out;
    tolk_error err = TOLK_ERROR_INIT;
    for (int i = 0; i < 10; i++)
        l = times(g, graph_call(g, l), 2);
    tk_vec_init(&out, g->al);
    assert_int_equal(tk_call_args_flatten(l, &out, &err), TOLK_OK);
    assert_int_equal(out.n, 1024);
    for (int i = 0; i < 200; i++) /* far more than any number counts */
        l = times(g, graph_call(g, l), 2);
    assert_many(l);
    for (int i = 0; i < 100000; i++)
        deep = LIST(g, graph_call(g, deep));
    out.n = 0;
    assert_int_equal(tk_call_args_flatten(deep, &out, &err), TOLK_OK);
    assert_int_equal(out.n, 1);
    tk_vec_fini(&out);
    calls_done(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call_args_limit_is_exact),
        cmocka_unit_test(test_call_args_count_by_distinct_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
