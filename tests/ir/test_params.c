/* SPDX-License-Identifier: MIT
 *
 * Params of kernels and programs: which, in what order, how used, and of what size.
 */
#include "ir/params.h"

#include "support/tk_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tolk_ctx *make_ctx(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx = NULL;
    return tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK ? ctx : NULL;
}

static int setup(void **state) {
    tolk_ctx *ctx = make_ctx(NULL);
    tolk_graph *g;
    if (!ctx || tolk_graph_create(ctx, &g) != TOLK_OK)
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

static const tolk_uop *parse(tolk_graph *g, const char *text) {
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK)
        fail_msg("%u:%u: %s", err.line, err.column, err.msg);
    return root;
}

/* y = a x + y over n + 2 elements, z counted up, w stored through an AFTER; v has no use but its
 * size. Slots with gaps, not in the order of the text. */
static const char kernel_text[] =
    "tolk.uop 1\n"
    "%0 = param i32 {slot=30, name=\"n\", space=alu, min=1, max=100}\n"
    "%1 = cast index (%0)\n"
    "%2 = const index 2\n"
    "%3 = add index (%1, %2)\n"
    "%4 = param f32 (%3) {slot=20, name=\"y\"}\n"
    "%5 = param f32 (%3) {slot=10, name=\"x\"}\n"
    "%6 = param f32 {slot=2, name=\"a\", space=alu}\n"
    "%7 = range index (%3) {axis=0, kind=loop}\n"
    "%8 = index f32 (%4, %7)\n"
    "%9 = index f32 (%5, %7)\n"
    "%10 = load f32 (%9)\n"
    "%11 = load f32 (%8)\n"
    "%12 = mul f32 (%6, %10)\n"
    "%13 = add f32 (%12, %11)\n"
    "%14 = store void (%8, %13)\n"
    "%15 = stack index (%2, %3)\n"
    "%16 = param i64 (%15) {slot=21}\n"
    "%17 = const index 0\n"
    "%18 = index i64 (%16, %17, %7)\n"
    "%19 = const i64 1\n"
    "%20 = atomic_add void (%18, %19)\n"
    "%21 = param f32 (%3) {slot=22, name=\"w\"}\n"
    "%22 = after f32 (%21, %14)\n"
    "%23 = index f32 (%22, %7)\n"
    "%24 = store void (%23, %10)\n"
    "%25 = group void (%14, %20, %24)\n"
    "%26 = end void (%25, %7)\n"
    "%27 = sink void (%26) {name=\"axpy\"}\n";

static void test_params_in_slot_order_with_uses(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *k = parse(g, kernel_text);
    static const tolk_param_info expected[] = {
        {.name = "a", .slot = 2, .dtype = TOLK_F32, .is_scalar = 1, .is_loaded = 1},
        {.name = "x", .slot = 10, .dtype = TOLK_F32, .is_loaded = 1, .rank = 1},
        {.name = "y", .slot = 20, .dtype = TOLK_F32, .is_loaded = 1, .is_stored = 1, .rank = 1},
        {.name = NULL, .slot = 21, .dtype = TOLK_I64, .is_loaded = 1, .is_stored = 1, .rank = 2},
        {.name = "w", .slot = 22, .dtype = TOLK_F32, .is_stored = 1, .rank = 1},
        {.name = "n",
         .slot = 30,
         .dtype = TOLK_I32,
         .is_scalar = 1,
         .is_loaded = 1,
         .min = 1,
         .max = 100},
    };
    enum { N = sizeof expected / sizeof *expected };
    assert_int_equal(tolk_kernel_param_count(k), N);
    for (size_t i = 0; i < N; i++) {
        tolk_param_info p;
        const tolk_param_info *e = &expected[i];
        assert_int_equal(tolk_kernel_param(k, i, &p), TOLK_OK);
        assert_int_equal(p.slot, e->slot);
        assert_true((p.name == NULL) == (e->name == NULL));
        if (e->name)
            assert_string_equal(p.name, e->name);
        assert_int_equal(p.dtype, e->dtype);
        assert_int_equal(p.is_scalar, e->is_scalar);
        if (p.is_loaded != e->is_loaded || p.is_stored != e->is_stored)
            fail_msg("slot %lld: loaded %d, stored %d", (long long)p.slot, p.is_loaded,
                     p.is_stored);
        assert_int_equal(p.rank, e->rank);
        assert_int_equal(p.min, e->min);
        assert_int_equal(p.max, e->max);
    }
    tolk_param_info p;
    assert_int_equal(tolk_kernel_param(k, N, &p), TOLK_E_ARG);

    tk_params params;
    assert_int_equal(tk_params_init(&params, k, g->al, NULL), TOLK_OK);
    assert_int_equal(params.n_bufs, 4);
    assert_int_equal(params.n_vals, 2);
    assert_int_equal(tk_params_buf(&params, 0)->slot, 10);
    assert_int_equal(tk_params_buf(&params, 3)->slot, 22);
    assert_int_equal(tk_params_val(&params, 0)->slot, 2);
    assert_int_equal(tk_params_val(&params, 1)->slot, 30);
    assert_null(tk_params_val(&params, 2));
    assert_ptr_equal(tk_params_find(&params, 22), tk_params_buf(&params, 3));
    assert_null(tk_params_find(&params, 23));
    char text[64];
    assert_string_equal(tk_params_text(tk_params_buf(&params, 0), text), "\"x\" (slot 10)");
    assert_string_equal(tk_params_text(tk_params_find(&params, 21), text), "slot 21");
    tk_params_fini(&params);
}

static void test_scalar_bounds_are_those_of_the_dtype(void **state) {
    tolk_graph *g = *state;
    static const struct {
        const char *attrs;
        tolk_dtype dtype;
        int64_t min, max;
    } rows[] = {{"i8 {slot=0, space=alu}", TOLK_I8, -128, 127},
                {"u16 {slot=0, space=alu, min=5}", TOLK_U16, 5, 65535},
                {"i64 {slot=0, space=alu, max=5}", TOLK_I64, INT64_MIN, 5},
                {"f32 {slot=0, space=alu}", TOLK_F32, 0, 0},
                {"bool {slot=0, space=alu}", TOLK_BOOL, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        snprintf(text, sizeof text, "tolk.uop 1\n%%0 = param %s\n", rows[i].attrs);
        tolk_param_info p;
        assert_int_equal(tolk_kernel_param(parse(g, text), 0, &p), TOLK_OK);
        assert_int_equal(p.dtype, rows[i].dtype);
        assert_int_equal(p.min, rows[i].min);
        assert_int_equal(p.max, rows[i].max);
    }
}

static void test_dims_for_given_scalars(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *k = parse(g, kernel_text);
    int64_t vals[] = {0x3f800000, 7}, dims[8] = {0}, elems = 0;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_param_dims(k, 1, vals, 2, dims, &elems, &err), TOLK_OK);
    assert_int_equal(dims[0], 9);
    assert_int_equal(elems, 9);
    assert_int_equal(tolk_kernel_param_dims(k, 3, vals, 2, dims, &elems, &err), TOLK_OK);
    assert_int_equal(dims[0], 2);
    assert_int_equal(dims[1], 9);
    assert_int_equal(elems, 18);
    vals[1] = -2; /* launches refuse it, shapes can be asked for: none */
    assert_int_equal(tolk_kernel_param_dims(k, 3, vals, 2, dims, &elems, &err), TOLK_OK);
    assert_int_equal(elems, 0);
    vals[1] = -3;
    elems = 77;
    assert_int_equal(tolk_kernel_param_dims(k, 3, vals, 2, dims, &elems, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "dimension 1 of param slot 21 is -1"));
    assert_int_equal(elems, 77);
    assert_int_equal(tolk_kernel_param_dims(k, 0, vals, 2, dims, &elems, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "\"a\" (slot 2) is a scalar"));
    assert_int_equal(tolk_kernel_param_dims(k, 6, vals, 2, dims, &elems, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_param_dims(k, 1, vals, 1, dims, &elems, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "1 scalars are given, expected 2"));
}

static void test_two_params_of_one_slot_are_refused(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *both[] = {tolk_param(g, TOLK_F32, NULL, 0, 4, "x"),
                              tolk_param(g, TOLK_F32, NULL, 0, 4, "y")};
    const tolk_uop *u = tolk_sink(g, both, 2, NULL);
    tk_params params;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_params_init(&params, u, g->al, &err), TOLK_E_VERIFY);
    assert_non_null(strstr(err.msg, "(slot 4)"));
    assert_int_equal(params.list.n, 0);
    assert_int_equal(tolk_kernel_param_count(u), 0);
    tolk_param_info p;
    assert_int_equal(tolk_kernel_param(u, 0, &p), TOLK_E_VERIFY);
}

/* BIG-03: sizes known at launch only */
static void test_BIG_03_too_large_at_launch_is_E_LIMIT(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tolk_variable(g, TOLK_I64, 1, "n", 0, INT64_MAX);
    const tolk_uop *m = tolk_cast(g, n, TOLK_INDEX);
    const tolk_uop *dims[] = {m, m, tolk_const_int(g, TOLK_INDEX, 2)};
    const tolk_uop *x = tolk_param_sym(g, TOLK_U8, dims, 3, 0, "x");
    assert_non_null(x);
    static const struct {
        int64_t n;
        tolk_status st;
        int64_t elems;
    } rows[] = {{0, TOLK_OK, 0},
                {65536, TOLK_OK, 2LL * 65536 * 65536},
                {2147483647, TOLK_OK, 2LL * 2147483647 * 2147483647},
                {2147483648, TOLK_E_LIMIT, 0},
                {1LL << 32, TOLK_E_LIMIT, 0},
                {INT64_MAX, TOLK_E_LIMIT, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t elems = 0, out[8];
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = tolk_kernel_param_dims(x, 0, &rows[i].n, 1, out, &elems, &err);
        assert_int_equal(st, rows[i].st);
        if (st == TOLK_OK)
            assert_int_equal(elems, rows[i].elems);
        else
            assert_non_null(strstr(err.msg, "too large"));
    }
}

static tolk_status eval(tolk_graph *g, const tolk_uop *expr, const int64_t *vals, int64_t *out,
                        tolk_error *err) {
    tk_params params;
    assert_int_equal(tk_params_init(&params, expr, g->al, NULL), TOLK_OK);
    tolk_status st = tk_params_eval(expr, &params, vals, out, err);
    tk_params_fini(&params);
    return st;
}

static void test_eval_follows_the_value_table_and_sees_overflow(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tolk_variable(g, TOLK_I64, 0, "n", INT64_MIN, INT64_MAX);
    const tolk_uop *c[8];
    for (int i = 0; i < 8; i++)
        c[i] = tolk_const_int(g, TOLK_I64, i);
    const tolk_uop *minus = tolk_const_int(g, TOLK_I64, -1);
    const tolk_uop *i8 = tolk_cast(g, n, TOLK_I8);
    enum { LIMIT = TOLK_E_LIMIT };
    const struct {
        const tolk_uop *expr;
        int64_t n, value;
        int st;
    } rows[] = {
        {n, -5, -5, 0},
        {c[7], 0, 7, 0},
        {tolk_add(g, tolk_mul(g, n, c[3]), c[7]), -5, -8, 0},
        {tolk_floordiv(g, n, c[2]), -5, -3, 0},
        {tolk_cdiv(g, n, c[2]), -5, -2, 0},
        {tolk_floormod(g, n, c[3]), -5, 1, 0},
        {tolk_cmod(g, n, c[3]), -5, -2, 0},
        {tolk_cdiv(g, n, c[0]), -5, 0, 0},
        {tolk_max(g, n, c[1]), -5, 1, 0},
        {tolk_where(g, tolk_cmplt(g, n, c[1]), c[2], n), -5, 2, 0},
        {tolk_where(g, tolk_cmplt(g, n, c[1]), c[2], n), 5, 5, 0},
        {tolk_shl(g, n, c[4]), 3, 48, 0},
        {tolk_cast(g, tolk_add(g, i8, i8), TOLK_INDEX), 100, -56, 0}, /* narrow ones wrap */
        {tolk_add(g, n, c[1]), INT64_MAX, 0, LIMIT},
        {tolk_sub(g, n, c[1]), INT64_MIN, 0, LIMIT},
        {tolk_mul(g, n, c[2]), INT64_MAX, 0, LIMIT},
        {tolk_neg(g, n), INT64_MIN, 0, LIMIT},
        {tolk_neg(g, n), INT64_MAX, -INT64_MAX, 0},
        {tolk_floordiv(g, n, minus), INT64_MIN, 0, LIMIT},
        {tolk_shl(g, n, c[1]), INT64_MAX, 0, LIMIT},
        {tolk_mulacc(g, n, c[2], c[1]), 4611686018427387904, 0, LIMIT},
        {tolk_mulacc(g, n, c[2], c[1]), 4611686018427387903, INT64_MAX, 0},
        {tolk_cast(g, tolk_cast(g, n, TOLK_U64), TOLK_INDEX), -1, 0, LIMIT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t out = 0;
        tolk_error err = TOLK_ERROR_INIT;
        assert_non_null(rows[i].expr);
        int st = (int)eval(g, rows[i].expr, &rows[i].n, &out, &err);
        if (st != rows[i].st || (st == TOLK_OK && out != rows[i].value))
            fail_msg("row %zu: status %d, value %lld: %s", i, st, (long long)out, err.msg);
    }
    /* what is no expression of scalars */
    int64_t out;
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *r = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 4), 0, TOLK_AXIS_LOOP);
    assert_int_equal(eval(g, tolk_add(g, r, r), NULL, &out, &err), TOLK_E_VERIFY);
    assert_non_null(strstr(err.msg, "range in a size"));
}

/* x + x + ... : shared 60 times is 2^60 paths, but 60 steps; and deep chains on a small stack. */
static void *deep_eval(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *n = tolk_variable(g, TOLK_I64, 0, "n", 0, 10), *u = n;
    tk_params params;
    int64_t val = 3, out = 0;
    const char *bad = NULL;
    if (tk_params_init(&params, n, g->al, NULL) != TOLK_OK)
        return "params";
    for (int i = 0; i < 60; i++)
        u = tolk_add(g, u, u);
    if (tk_params_eval(u, &params, &val, &out, NULL) != TOLK_OK || out != 3LL << 60)
        bad = "shared";
    for (int i = 0; i < 30; i++) /* few nodes: no memory is asked for */
        u = tolk_neg(g, i ? u : n);
    if (tk_params_eval(u, &params, &val, &out, NULL) != TOLK_OK || out != 3)
        bad = "few";
    for (int i = 0; i < 100000; i++)
        u = tolk_sub(g, i ? u : n, n);
    if (tk_params_eval(u, &params, &val, &out, NULL) != TOLK_OK || out != 3 - 3 * 100000)
        bad = "deep";
    tk_params_fini(&params);
    return (void *)(uintptr_t)bad;
}

static void test_eval_shared_and_deep_expressions(void **state) {
    const char *bad = tk_test_on_stack(512 << 10, deep_eval, *state);
    if (bad)
        fail_msg("%s", bad);
}

static void test_kernel_names_and_find(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *a = tolk_sink(g, NULL, 0, "a"), *b = tolk_sink(g, NULL, 0, "b");
    const tolk_uop *none = tolk_sink(g, NULL, 0, NULL);
    const tolk_uop *both[] = {a, b, none};
    const tolk_uop *group = tolk_uop_new(g, tolk_op_find("group"), TOLK_VOID, both, 3, NULL, 0);
    const tolk_uop *one = tolk_uop_new(g, tolk_op_find("group"), TOLK_VOID, &b, 1, NULL, 0);
    const tolk_uop *linear = tolk_uop_new(g, tolk_op_find("linear"), TOLK_VOID, NULL, 0,
                                          &(tolk_attr){.key = "name", .s = "p"}, 1);
    assert_string_equal(tolk_kernel_name(a), "a");
    assert_string_equal(tolk_kernel_name(none), "kernel");
    assert_string_equal(tolk_kernel_name(linear), "p");
    assert_ptr_equal(tolk_kernel_find(a, NULL), a);
    assert_ptr_equal(tolk_kernel_find(a, "a"), a);
    assert_null(tolk_kernel_find(a, "b"));
    assert_ptr_equal(tolk_kernel_find(linear, "p"), linear);
    assert_ptr_equal(tolk_kernel_find(group, "b"), b);
    assert_ptr_equal(tolk_kernel_find(group, "kernel"), none);
    assert_null(tolk_kernel_find(group, "c"));
    assert_null(tolk_kernel_find(group, NULL)); /* which? */
    assert_ptr_equal(tolk_kernel_find(one, NULL), b);
    assert_null(tolk_kernel_find(tolk_const_bool(g, 1), NULL));
}

static tolk_status params_without_memory(const tolk_allocator *al, void *user) {
    tolk_ctx *ctx = make_ctx(al);
    tolk_graph *g = NULL;
    const tolk_uop *k = NULL;
    (void)user;
    if (!ctx)
        return TOLK_E_NOMEM;
    tolk_status st = tolk_graph_create(ctx, &g);
    if (st == TOLK_OK)
        st = tolk_parse(g, kernel_text, strlen(kernel_text), 0, &k, NULL);
    if (st == TOLK_OK) {
        const tolk_uop *n = k->graph->nodes.at[0]; /* the variable; its chain is long */
        for (int i = 0; i < 200; i++)
            n = tk_uop1(g, TK_OP_NEG, n);
        tk_params params;
        int64_t vals[2] = {0, 5}, out = 0;
        st = n ? tk_params_init(&params, k, al, NULL) : TOLK_E_NOMEM;
        if (st == TOLK_OK) {
            st = tk_params_eval(n, &params, vals, &out, NULL);
            if (st == TOLK_OK && out != 5)
                st = TOLK_E_INTERNAL;
            tk_params_fini(&params);
        }
    }
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return st;
}

static void test_params_without_memory_is_E_NOMEM(void **state) {
    (void)state;
    assert_true(tk_test_oom(params_without_memory, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_params_in_slot_order_with_uses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scalar_bounds_are_those_of_the_dtype, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dims_for_given_scalars, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_params_of_one_slot_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_BIG_03_too_large_at_launch_is_E_LIMIT, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_eval_follows_the_value_table_and_sees_overflow, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_eval_shared_and_deep_expressions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kernel_names_and_find, setup, teardown),
        cmocka_unit_test(test_params_without_memory_is_E_NOMEM),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
