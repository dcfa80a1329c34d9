/* SPDX-License-Identifier: MIT
 *
 * Linears: copies of LINEARs with a graph of their own.
 */
#include "realize/linears.h"

RT_FIXTURE

static const char *two_calls(void) {
    static char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, 16, "scale", "0x1p+1");
    snprintf(text + n, sizeof text - n,
             "%%20 = buffer f32 (%%0) {slot=0}\n"
             "%%21 = buffer f32 (%%0) {slot=1}\n"
             "%%22 = buffer f32 (%%0) {slot=2}\n"
             "%%30 = call void (%%11, %%21, %%20) {name=\"first\"}\n"
             "%%31 = call void (%%11, %%22, %%21) {name=\"second\"}\n"
             "%%40 = linear void (%%30, %%31)\n");
    return text;
}

static void test_a_linear_outlives_the_graph_it_was_made_of(void **state) {
    (void)state;
    tolk_graph *g;
    const tolk_uop *root = node_of(&r, two_calls(), &g);
    char *before, *after;
    size_t n, m;
    tolk_key key = tolk_uop_key(root);
    uint32_t count = tolk_graph_count(g);
    assert_int_equal(tolk_print(root, &before, &n), TOLK_OK);
    tolk_linear *l = NULL;
    assert_int_equal(tolk_linear_create(r.ctx, root, &l, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_count(g), count); /* nothing was made in it */
    tolk_graph_destroy(g);
    assert_ptr_equal(tolk_linear_ref(l), l);
    tolk_linear_unref(l);
    assert_int_equal(tolk_uop_n_src(tolk_linear_root(l)), 2);
    assert_int_equal(tolk_print(tolk_linear_root(l), &after, &m), TOLK_OK);
    assert_string_equal(before, after);
    tolk_key copy = tolk_uop_key(tolk_linear_root(l));
    assert_true(copy.lo == key.lo && copy.hi == key.hi);
    tolk_free_text(r.ctx, before);
    tolk_free_text(r.ctx, after);
    tolk_linear_unref(l);
}

static void test_no_calls_are_a_linear(void **state) {
    (void)state;
    tolk_linear *l = linear_of(&r, "tolk.uop 1\n%0 = linear void\n");
    assert_int_equal(tolk_uop_n_src(tolk_linear_root(l)), 0);
    tolk_linear_unref(l);
}

static void test_what_is_no_linear_is_refused(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_linear *l = NULL;
    assert_int_equal(linear_try(&r, KERNEL_FILL, &l, &err), TOLK_E_VERIFY);
    check_contains(err.msg, "expected a linear of calls, got sink");
    assert_null(l);
    assert_int_equal(tolk_linear_create(r.ctx, NULL, &l, &err), TOLK_E_ARG);
    tolk_linear_unref(NULL);
    assert_null(tolk_linear_root(NULL));
}

/* A chain of 100,000 nodes: neither copied by recursion nor twice. */
static void test_deep_graphs_are_copied(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    int64_t n = 4;
    const tolk_uop *b = tolk_buffer_node(g, TOLK_F32, &n, 1, 0, NULL);
    for (int i = 0; i < 100000; i++)
        b = tolk_slice(g, b, TOLK_F32, 0, 4);
    const tolk_uop *args[] = {b, b};
    const tolk_uop *call = tolk_call(g, tolk_copy(g, b, "CPU"), args, 2);
    const tolk_uop *root = tolk_linear_node(g, &call, 1);
    tolk_error err = TOLK_ERROR_INIT;
    tolk_linear *l = NULL;
    if (!root)
        (void)tolk_graph_error(g, &err);
    else
        (void)tolk_linear_create(r.ctx, root, &l, &err);
    if (!l)
        fail_msg("%s", err.msg);
    tolk_graph_destroy(g);
    tolk_linear_unref(l);
}

static tolk_status create_without_memory(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_environment = 1;
    o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    tolk_graph *g;
    const tolk_uop *root;
    const char *text = two_calls();
    tolk_linear *l;
    st = tolk_graph_create(ctx, &g);
    if (!st) {
        st = tolk_parse(g, text, strlen(text), 0, &root, NULL);
        if (!st)
            st = tolk_linear_create(ctx, root, &l, NULL);
        tolk_graph_destroy(g);
    }
    if (!st)
        tolk_linear_unref(l);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory(void **state) {
    (void)state;
    (void)tk_test_oom(create_without_memory, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_linear_outlives_the_graph_it_was_made_of),
        cmocka_unit_test(test_no_calls_are_a_linear),
        cmocka_unit_test(test_what_is_no_linear_is_refused),
        cmocka_unit_test(test_deep_graphs_are_copied),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("linear", tests, setup, teardown);
}
