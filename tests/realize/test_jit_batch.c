/* SPDX-License-Identifier: MIT
 *
 * Calls in graphs: which are put together, and how many.
 */
#include "realize/jits.h"

#include "base/ctx.h"
#include "ir/uop.h"
#include "realize/batch.h"
#include "realize/jit.h"

static tolk_status place_by_name(void *user, const tolk_uop *c, const void **place, tolk_error *e) {
    (void)e;
    if (!user)
        return TOLK_E_DEVICE;
    const char *name = tk_uop_str(c, TK_A_CALL_NAME);
    *place = name[0] == '-' ? NULL : (const char *)user + (name[0] - 'a');
    return TOLK_OK;
}

/* What a batch makes of calls named by letters (their places): graphs in brackets. */
static void check_batch(const char *calls, uint32_t most, const char *expected) {
    static const char places[26];
    const tolk_uop *list[64], *out = NULL;
    size_t n = 0;
    char text[200] = "";
    for (; calls[n]; n++) {
        const char name[2] = {calls[n], 0};
        const tolk_attr a = {.key = "name", .s = name};
        int64_t size = N;
        const tolk_uop *src[] = {twice(g, (double)n), f32s(g, (int64_t)n),
                                 tolk_param(g, TOLK_F32, &size, 1, (int64_t)n % 3, NULL)};
        list[n] = tolk_uop_new(g, tolk_op_find("call"), TOLK_VOID, src, 3, &a, 1);
    }
    assert_int_equal(
        tk_batch(g, list_of(g, list, n), most, place_by_name, (void *)places, &out, &err), TOLK_OK);
    for (uint32_t i = 0; i < out->n_src; i++) {
        const tolk_uop *c = out->src[i], *inner = c->src[0];
        if (!tk_uop_is(inner, TK_OP_CUSTOM_FUNCTION)) {
            strcat(text, tk_uop_str(c, TK_A_CALL_NAME));
            continue;
        }
        inner = inner->src[0];
        assert_string_equal(tk_uop_str(c->src[0], TK_A_CUSTOM_FUNCTION_NAME), "graph");
        assert_int_equal(c->n_src - 1, inner->n_src < 3 ? inner->n_src : 3);
        for (uint32_t k = 1; k < c->n_src; k++) /* its params, in the order in which they come */
            assert_ptr_equal(c->src[k], inner->src[k - 1]->src[2]);
        strcat(text, "[");
        for (uint32_t k = 0; k < inner->n_src; k++)
            strcat(text, tk_uop_str(inner->src[k], TK_A_CALL_NAME));
        strcat(text, "]");
    }
    assert_string_equal(text, expected);
}

static void test_batches_keep_the_order_and_double(void **state) {
    (void)state;
    check_batch("", 2, "");
    check_batch("a", 2, "a");
    check_batch("aaaaaaaaaaaaaaaaaaaaaa", 2, "[aa][aaaa][aaaaaaaa][aaaaaaaa]");
    check_batch("aaaaaa", 0, "[aaaaaa]");
    check_batch("aa-aa", 0, "[aa]-[aa]");
    check_batch("a-aaa-", 32, "a-[aaa]-");
    check_batch("aabba", 32, "[aa][bb]a");
    check_batch("aaa", 1, "aaa"); /* a graph of one is none */
    check_batch("abab", 32, "abab");
    check_batch("aaabbbbb", 2, "[aa]a[bbbb]b");
    const tolk_uop *c = f32s(g, 0), *out = NULL;
    assert_int_equal(tk_batch(g, list_of(g, &c, 1), 2, place_by_name, NULL, &out, &err),
                     TOLK_E_DEVICE);
}

static void check_graphs(const tolk_jit_opts *opts, size_t expected, const char *op) {
    work w = {0};
    const tolk_uop *in = f32s(g, 0);
    tolk_jit *jit = jit_of(chain, &w, opts);
    seed(in, NULL, 1);
    for (int i = 0; i < 3; i++)
        run_ok(jit, &in, 1);
    const tolk_uop *root = tolk_linear_root(jit->replay.linear);
    assert_int_equal(root->n_src, expected);
    assert_string_equal(tk_op_get(tk_uop_op(root->src[0]->src[0]))->name, op);
    check_floats(bound(f32s(g, 2)), 7);
    tolk_jit_destroy(jit);
}

static void test_a_replay_is_one_graph_unless_calls_are_asked_for(void **state) {
    (void)state;
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    check_graphs(NULL, 1, "custom_function");
    opts.batch = 0;
    check_graphs(&opts, 1, "custom_function");
    opts.batch = 1;
    check_graphs(&opts, 2, "program");
    opts = (tolk_jit_opts)TOLK_JIT_OPTS_INIT;
    opts.no_graphs = 1;
    check_graphs(&opts, 2, "program");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_batches_keep_the_order_and_double),
        TEST(test_a_replay_is_one_graph_unless_calls_are_asked_for),
    };
    return cmocka_run_group_tests_name("jit_batch", tests, NULL, NULL);
}
