/* SPDX-License-Identifier: MIT
 *
 * Nodes: interning, structural order, copies between graphs, and the tables of ops and dtypes.
 */
#include "ir/uop.h"

#include "support/tk_test.h"

#include "ir/dtype.h"
#include "ir/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    tolk_ctx *ctx;
    tolk_graph *g;
    if (tk_ctx_init(&opts, &ctx, NULL) != TOLK_OK || tk_graph_create(ctx, &g) != TOLK_OK)
        return -1;
    *state = g;
    return 0;
}

static int teardown(void **state) {
    tolk_graph *g = *state;
    tolk_ctx *ctx = g->ctx;
    tk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return 0;
}

/* ---- tables ---- */

static void test_ops_are_found_by_name(void **state) {
    (void)state;
    uint32_t attrs = 0;
    for (int i = 0; i < TK_OP_COUNT; i++) {
        const tk_op_info *op = tk_op_get((tk_op)i);
        tk_op found;
        assert_true(tk_op_find(op->name, strlen(op->name), &found));
        assert_int_equal(found, i);
        assert_false(tk_op_find(op->name, strlen(op->name) - 1, &found) && (int)found == i);
        assert_true(op->min_src <= op->max_src && op->stages);
        /* Attributes stand one op after the other, and say whose they are. */
        assert_int_equal(op->attr_first, attrs);
        for (uint32_t k = 0; k < tk_op_n_attr((tk_op)i); k++)
            assert_int_equal(tk_op_attrs[attrs + k].op, i);
        attrs += tk_op_n_attr((tk_op)i);
    }
    assert_int_equal(attrs, TK_A_COUNT);
    assert_true(tk_op_attrs[TK_A_PARAM_SLOT].required);
    assert_false(tk_op_attrs[TK_A_PARAM_AXIS].required);
    assert_int_equal(tk_op_attrs[TK_A_PARAM_AXIS].def, -1);
}

static void test_enum_texts_come_back(void **state) {
    (void)state;
    static const tk_attr_kind kinds[] = {TK_ATTR_SPACE, TK_ATTR_AXIS, TK_ATTR_ROP};
    static const int64_t counts[] = {4, TK_AXIS_COUNT, 3};
    for (int k = 0; k < 3; k++) {
        int64_t n = 0;
        for (const char *text; (text = tk_op_enum_text(kinds[k], n)) != NULL; n++)
            assert_int_equal(tk_op_enum_find(kinds[k], text, strlen(text)), n);
        assert_int_equal(n, counts[k]);
        assert_int_equal(tk_op_enum_find(kinds[k], "none", 4), -1);
        assert_int_equal(tk_op_enum_find(kinds[k], "", 0), -1);
    }
    assert_string_equal(tk_op_enum_text(TK_ATTR_AXIS, TK_AXIS_GROUP_REDUCE), "group_reduce");
    assert_string_equal(tk_op_enum_text(TK_ATTR_AXIS, TK_AXIS_LANE), "lane");
    assert_int_equal(tk_op_of_rop(TK_ROP_MUL), TK_OP_MUL);
}

static void test_dtypes_are_found_by_text(void **state) {
    (void)state;
    static const uint32_t lanes[] = {1, 2, 4, 8, 16, 32, 64};
    for (tolk_dtype kind = 0; kind < TOLK_DTYPE_COUNT; kind++)
        for (int i = 0; i < 7; i++) {
            tolk_dtype dt = tolk_dtype_vec(kind, lanes[i]), found = 0xdead;
            char text[16];
            if (kind == TOLK_VOID) {
                assert_int_equal(dt, TOLK_VOID);
                continue;
            }
            tk_dtype_text(dt, text);
            assert_true(tolk_dtype_parse(text, strlen(text), &found));
            assert_int_equal(found, dt);
            assert_int_equal(tolk_dtype_lanes(dt), lanes[i]);
            assert_int_equal(tolk_dtype_scalar(dt), kind);
            assert_true(tolk_dtype_bytes(dt) > 0);
            assert_int_equal(tolk_dtype_is_float(dt) + tolk_dtype_is_int(dt) + (kind == TOLK_BOOL),
                             1);
        }
    static const char *const wrong[] = {"",      "f",     "f3",      "f32x",    "f32x0",
                                        "f32x1", "f32x3", "f32x02",  "f32x128", "voidx2",
                                        "f32 ",  "F32",   "i32x4x4", "f32x-4",  "indexx"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tolk_dtype out = 0xdead;
        assert_false(tolk_dtype_parse(wrong[i], strlen(wrong[i]), &out));
        assert_int_equal(out, 0xdead);
    }
    assert_int_equal(tolk_dtype_vec(TOLK_F32, 3), TOLK_VOID);
    assert_int_equal(tolk_dtype_vec(TOLK_F32, 128), TOLK_VOID);
    assert_int_equal(tolk_dtype_vec(99, 2), TOLK_VOID);
    assert_string_equal(tolk_dtype_name(99), "?");
}

static void test_canon_and_bounds_of_dtypes(void **state) {
    (void)state;
    assert_int_equal(tk_dtype_canon(TOLK_I8, 0x1ff), UINT64_MAX);
    assert_int_equal(tk_dtype_canon(TOLK_I8, 0x17f), 0x7f);
    assert_int_equal(tk_dtype_canon(TOLK_U8, 0x1ff), 0xff);
    assert_int_equal(tk_dtype_canon(TOLK_BOOL, 0x100), 1);
    assert_int_equal(tk_dtype_canon(TOLK_F16, 0x12345), 0x2345);
    assert_int_equal(tk_dtype_canon(TOLK_U64, UINT64_MAX), UINT64_MAX);
    assert_int_equal(tk_dtype_min(TOLK_I8), -128);
    assert_int_equal(tk_dtype_max(TOLK_I8), 127);
    assert_int_equal(tk_dtype_min(TOLK_INDEX), INT64_MIN);
    assert_int_equal(tk_dtype_max(TOLK_U32), UINT32_MAX);
    assert_int_equal(tk_dtype_max(TOLK_U64), INT64_MAX);
    assert_int_equal(tk_dtype_max(TOLK_BOOL), 1);
}

/* ---- interning ---- */

static void test_equal_nodes_are_one_pointer(void **state) {
    tolk_graph *g = *state;
    enum { N = 5000 };
    static const tolk_uop *first[N];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            const tolk_uop *u = tk_uop_index_const(g, i);
            u = i ? tk_uop2(g, TK_OP_ADD, u, first[i / 2]) : u;
            if (round == 0)
                first[i] = u;
            assert_ptr_equal(first[i], u);
            assert_true(u->id < g->nodes.n && g->nodes.at[u->id] == u);
            for (uint32_t k = 0; k < u->n_src; k++)
                assert_true(u->src[k]->id < u->id);
        }
    assert_true(g->nodes.n < 2 * N);
}

static void test_blobs_are_one_pointer_by_content(void **state) {
    tolk_graph *g = *state;
    static const tk_blob *strings[1000], *lists[1000];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            char text[16];
            int64_t list[] = {i, -i, i};
            int n = snprintf(text, sizeof text, "s%d", i);
            const tk_blob *s = tk_blob_str(g, text, (size_t)n);
            const tk_blob *l = tk_blob_ints(g, list, (size_t)i % 4);
            if (round == 0) {
                strings[i] = s;
                lists[i] = l;
            }
            assert_ptr_equal(s, strings[i]);
            assert_ptr_equal(l, lists[i]);
            assert_string_equal(s->str, text);
            assert_int_equal(l->n, i % 4);
            assert_memory_equal(l->ints, list, sizeof *list * l->n);
        }
    /* Eight bytes of text are not one integer; a NUL inside counts. */
    int64_t eight;
    memcpy(&eight, "abcdefgh", 8);
    assert_ptr_not_equal(tk_blob_str(g, "abcdefgh", 8), tk_blob_ints(g, &eight, 1));
    assert_ptr_not_equal(tk_blob_str(g, "a\0b", 3), tk_blob_str(g, "a\0c", 3));
    assert_ptr_not_equal(tk_blob_str(g, "", 0), tk_blob_ints(g, NULL, 0));
}

static void test_raw_constructor_refuses_foreign_and_null_sources(void **state) {
    tolk_graph *g = *state, *other;
    assert_int_equal(tk_graph_create(g->ctx, &other), TOLK_OK);
    const tolk_uop *mine = tk_uop_index_const(g, 1), *theirs = tk_uop_index_const(other, 1);
    assert_null(tk_uop2(g, TK_OP_ADD, mine, theirs));
    assert_int_equal(g->error.code, TOLK_E_ARG);
    assert_non_null(strstr(g->error.msg, "add: source 1 belongs to another graph"));
    tolk_graph_clear_error(g);
    assert_null(tk_uop2(g, TK_OP_ADD, mine, NULL));
    assert_non_null(strstr(g->error.msg, "add: source 1 is NULL"));
    tk_graph_destroy(other);
}

static void test_shorthands_follow_the_rules_of_dtypes(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *x = tk_uop_const(g, TOLK_F32, 0), *v = tk_uop_splat(g, x, 4);
    assert_int_equal(v->dtype, tolk_dtype_vec(TOLK_F32, 4));
    assert_int_equal(v->n_src, 4);
    assert_ptr_equal(tk_uop_splat(g, x, 1), x);
    const tolk_uop *c = tk_uop2(g, TK_OP_CMPLT, v, v);
    assert_int_equal(c->dtype, tolk_dtype_vec(TOLK_BOOL, 4));
    assert_int_equal(tk_uop3(g, TK_OP_WHERE, c, v, v)->dtype, v->dtype);
    assert_int_equal(tk_uop_cast(g, v, TOLK_I8)->dtype, tolk_dtype_vec(TOLK_I8, 4));
    assert_ptr_equal(tk_uop_cast(g, v, TOLK_F32), v);
    assert_ptr_equal(tk_uop_bitcast(g, v, tolk_dtype_vec(TOLK_F32, 16)), v);
    const tolk_uop *w = tk_uop_with_src(g, c, (const tolk_uop *[]){v, v}, 2);
    assert_ptr_equal(w, c);
    assert_true(tk_uop_is_int(tk_uop_index_const(g, -3), -3));
    assert_false(tk_uop_is_int(tk_uop_const(g, TOLK_F32, 3), 3));
    assert_false(tk_uop_is_int(tk_uop_invalid(g), 0));
    assert_false(tk_uop_is_const(tk_uop_invalid(g)));
}

/* ---- order and copies ---- */

static const tolk_uop *random_node(tolk_graph *g, uint64_t *seed, const tolk_uop **pool, size_t n) {
    uint64_t r = tk_test_rand(seed);
    const tolk_uop *a = pool[(r >> 8) % n], *b = pool[(r >> 20) % n];
    switch (r % 4) {
    case 0:
        return tk_uop_index_const(g, (int64_t)(r >> 40) % 8 - 4);
    case 1:
        return tk_uop1(g, TK_OP_NEG, a);
    case 2:
        return tk_uop_range(g, a, (int64_t)(r >> 40) % 3, TK_AXIS_LOOP);
    default:
        return tk_uop2(g, r >> 50 & 1 ? TK_OP_ADD : TK_OP_MUL, a, b);
    }
}

static void test_compare_is_a_total_order_of_structure(void **state) {
    tolk_graph *g = *state;
    enum { N = 60 };
    const tolk_uop *pool[N] = {tk_uop_index_const(g, 0)};
    uint64_t seed = tk_test_seed();
    for (size_t i = 1; i < N; i++)
        pool[i] = random_node(g, &seed, pool, i);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            int c = tk_uop_compare(pool[i], pool[j]);
            assert_int_equal(c == 0, pool[i] == pool[j]);
            assert_true((c > 0) == (tk_uop_compare(pool[j], pool[i]) < 0));
            for (size_t k = 0; k < N; k++)
                if (c < 0 && tk_uop_compare(pool[j], pool[k]) < 0)
                    assert_true(tk_uop_compare(pool[i], pool[k]) < 0);
        }
}

/* Neighbours in a chain differ only at its beginning: to walk there each time takes minutes. */
static void test_compare_of_long_chains_takes_bounded_time(void **state) {
    tolk_graph *g = *state, *other;
    assert_int_equal(tk_graph_create(g->ctx, &other), TOLK_OK);
    enum { N = 100000 };
    static const tolk_uop *chain[N], *again[N];
    for (int i = 0; i < N; i++) {
        chain[i] =
            i < 2 ? tk_uop_index_const(g, i) : tk_uop2(g, TK_OP_MUL, chain[i - 1], chain[i - 2]);
        if (i % 7 == 0) /* so that ids differ */
            tk_uop_index_const(other, 1000 + i);
        again[i] = i < 2 ? tk_uop_index_const(other, i)
                         : tk_uop2(other, TK_OP_MUL, again[i - 1], again[i - 2]);
    }
    for (int i = N / 2; i + 1 < N; i++) {
        int c = tk_uop_compare(chain[i], chain[i + 1]);
        assert_int_not_equal(c, 0);
        assert_true((c < 0) == (tk_uop_compare(chain[i + 1], chain[i]) > 0));
        assert_true((c < 0) == (tk_uop_compare(again[i], again[i + 1]) < 0));
        assert_int_equal(tk_uop_compare(chain[i], again[i]), 0);
        assert_true((c < 0) == (tk_uop_compare(chain[i], again[i + 1]) < 0));
    }
    tk_graph_destroy(other);
}

static void test_import_copies_the_graph(void **state) {
    tolk_graph *g = *state, *other;
    assert_int_equal(tk_graph_create(g->ctx, &other), TOLK_OK);
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index invalid\n"
                               "%1 = const index 4\n"
                               "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                               "%3 = range index (%1) {axis=0, sub=[1, 2]}\n"
                               "%4 = const bool true\n"
                               "%5 = where index (%4, %3, %0)\n"
                               "%6 = index f32 (%2, %5)\n"
                               "%7 = const f32 nan(0x7fc00001)\n"
                               "%8 = store void (%6, %7)\n"
                               "%9 = sink void (%8) {name=\"k\"}\n";
    const tolk_uop *root;
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    tk_uop_index_const(other, 99);
    const tolk_uop **copy = calloc(g->nodes.n, sizeof *copy);
    assert_non_null(copy);
    for (size_t id = 0; id < g->nodes.n; id++) {
        const tolk_uop *u = g->nodes.at[id], *src[4];
        assert_true(u->n_src <= 4);
        for (uint32_t i = 0; i < u->n_src; i++)
            src[i] = copy[u->src[i]->id];
        copy[id] = tk_uop_import(other, u, src);
        assert_non_null(copy[id]);
        assert_ptr_equal(copy[id]->graph, other);
    }
    const tolk_uop *v = copy[root->id], *again;
    tk_hash128 a = tk_key(root), b = tk_key(v);
    assert_true(a.lo == b.lo && a.hi == b.hi);
    assert_int_equal(tolk_parse(other, text, strlen(text), 0, &again, NULL), TOLK_OK);
    assert_ptr_equal(again, v);
    free(copy);
    tk_graph_destroy(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_found_by_name),
        cmocka_unit_test(test_enum_texts_come_back),
        cmocka_unit_test(test_dtypes_are_found_by_text),
        cmocka_unit_test(test_canon_and_bounds_of_dtypes),
        cmocka_unit_test_setup_teardown(test_equal_nodes_are_one_pointer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blobs_are_one_pointer_by_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_raw_constructor_refuses_foreign_and_null_sources,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_shorthands_follow_the_rules_of_dtypes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_compare_of_long_chains_takes_bounded_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_compare_is_a_total_order_of_structure, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_import_copies_the_graph, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
