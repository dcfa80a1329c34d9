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

/* The root of a text, all of whose lines it reaches. */
static const tolk_uop *parsed(const char *text, tolk_graph **g) {
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, g), TOLK_OK);
    if (tolk_parse(*g, text, strlen(text), 0, &root, &err))
        fail_msg("%s", err.msg);
    return root;
}

/* What is wrong in a copy is told by the lines and numbers of the text that the original is of. */
static void test_errors_name_nodes_as_the_text_does(void **state) {
    (void)state;
    char text[4096];
    const char *ends[] = {
        "%77 = call void (%61, %70) {name=\"few\"}\n%90 = linear void (%77)\n",
        "%77 = call void (%61, %70)\n%80 = group void (%77)\n%90 = sink void (%70, %80)\n",
        "%77 = call void (%61, %70)\n%80 = after f32 (%70, %77)\n%90 = sink void (%80)\n"};
    const char *says[] = {"%77 call: 1 buffer, but its kernel takes 2", "%80 group",
                          "call \"scale\": 1 buffer, but its kernel takes 2"};
    const uint32_t line[] = {16, 17, 0}; /* the last one is told of the list that was made */
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n; kernel\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 50, 16, "scale", "0x1p+1");
    n += (size_t)snprintf(text + n, sizeof text - n, "%%70 = buffer f32 (%%50) {slot=0}\n");
    for (int i = 0; i < 3; i++) {
        tolk_graph *g;
        tolk_linear *l = NULL;
        tolk_vars *vars = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        snprintf(text + n, sizeof text - n, "%s", ends[i]);
        const tolk_uop *root = parsed(text, &g);
        assert_int_equal(i ? tolk_schedule(r.ctx, root, &l, &vars, &err)
                           : tolk_linear_create(r.ctx, root, &l, &err),
                         TOLK_E_VERIFY);
        check_contains(err.msg, says[i]);
        assert_int_equal(err.line, line[i]);
        assert_int_equal(err.column, line[i] ? 7 : 0);
        assert_int_equal(err.node == UINT32_MAX, i == 2);
        tolk_graph_destroy(g);
    }
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
        cmocka_unit_test(test_errors_name_nodes_as_the_text_does),
        cmocka_unit_test(test_deep_graphs_are_copied),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("linear", tests, setup, teardown);
}
