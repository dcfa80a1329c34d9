/* SPDX-License-Identifier: MIT
 *
 * Bounds of integers and proofs of 0 <= a < b. The checks of random expressions are in test_sym.c.
 */
#include "ir/bounds.h"

#include "ir/expr.h"

static void assert_bounds(const tolk_uop *u, int64_t lo, int64_t hi) {
    tk_bound b = tk_bounds(u);
    if (b.state != 1 || b.lo != lo || b.hi != hi) {
        expr_print(u);
        fail_msg("[%lld, %lld] state %d, expected [%lld, %lld]", (long long)b.lo, (long long)b.hi,
                 b.state, (long long)lo, (long long)hi);
    }
}

static void test_bounds_leaves(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    assert_bounds(expr_int(g, TOLK_I8, -5), -5, -5);
    assert_bounds(expr_int(g, TOLK_BOOL, 1), 1, 1);
    assert_bounds(expr_range(g, 10, 0), 0, 9);
    assert_bounds(expr_range(g, 0, 0), 0, 0);
    assert_bounds(expr_param(g, TOLK_I32, 0, 3, 9), 3, 9);
    assert_bounds(expr_param(g, TOLK_I8, 0, INT64_MIN, INT64_MAX), -128, 127);
    assert_bounds(expr_param(g, TOLK_U8, 0, -7, 1000), 0, 255);
    assert_bounds(expr_param(g, TOLK_U64, 0, 0, 1000), 0, 1000);
    assert_bounds(expr_param(g, TOLK_U64, 0, INT64_MIN, 1000), 0, 1000);
    assert_int_equal(tk_bounds(expr_param(g, TOLK_U64, 0, 5, INT64_MAX)).state, 2);
    assert_true(tk_bounds_wide(expr_param(g, TOLK_U64, 0, 5, INT64_MAX)).hi == UINT64_MAX);
    assert_int_equal(tk_bounds(expr_param(g, TOLK_F32, 0, 0, 1)).state, 2);
    assert_int_equal(tk_bounds(expr_int(g, TOLK_U64, -1)).state, 2);
    assert_true(tk_bounds_wide(expr_int(g, TOLK_U64, -1)).hi == UINT64_MAX);
    const tolk_uop *n = expr_param(g, TOLK_INDEX, 1, 1, 4096);
    assert_bounds(tk_uop_range(g, n, 0, TK_AXIS_GLOBAL), 0, 4095);
    expr_done(g);
}

static void test_bounds_sum_that_may_wrap_is_the_dtype(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *a = expr_param(g, TOLK_I32, 0, 0, INT32_MAX);
    assert_bounds(tk_uop2(g, TK_OP_ADD, a, expr_int(g, TOLK_I32, 1)), INT32_MIN, INT32_MAX);
    const tolk_uop *b = expr_param(g, TOLK_I32, 1, 0, INT32_MAX - 1);
    assert_bounds(tk_uop2(g, TK_OP_ADD, b, expr_int(g, TOLK_I32, 1)), 1, INT32_MAX);
    const tolk_uop *c = expr_param(g, TOLK_U8, 2, 0, 255);
    assert_bounds(tk_uop2(g, TK_OP_SUB, c, expr_int(g, TOLK_U8, 1)), 0, 255);
    assert_bounds(tk_uop1(g, TK_OP_NEG, expr_int(g, TOLK_I8, -128)), -128, 127);
    expr_done(g);
}

/* IDX-01: 64-bit index arithmetic, no product is cut to 32 bits. */
static void test_IDX_01_index_product_past_32_bits_keeps_its_bounds(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *r0 = expr_range(g, 65536, 0), *r1 = expr_range(g, 65536, 1);
    const tolk_uop *k = tk_uop_index_const(g, 65536);
    const tolk_uop *sum = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, r0, k), r1);
    assert_bounds(sum, 0, INT64_C(4294967295));
    assert_bounds(tk_uop2(g, TK_OP_FLOORDIV, sum, k), 0, 65535);
    /* from loaded i32 values, widened before the product */
    const tolk_uop *x = tk_uop_cast(g, expr_param(g, TOLK_I32, 0, 0, 65535), TOLK_INDEX);
    const tolk_uop *y = tk_uop_cast(g, expr_param(g, TOLK_I32, 1, 0, 65535), TOLK_INDEX);
    sum = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, x, k), y);
    assert_bounds(tk_uop2(g, TK_OP_FLOORDIV, sum, k), 0, 65535);
    assert_true(tk_bounds_prove_lt(tk_uop2(g, TK_OP_FLOORDIV, sum, k), k, NULL));
    expr_done(g);
}

/* INT-15: nothing overflows in here (run under UBSan), and nothing is decided that is not so. */
static void test_INT_15_extreme_bounds_do_not_overflow(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    static const tolk_dtype wide[] = {TOLK_I64, TOLK_INDEX};
    for (size_t i = 0; i < 2; i++) {
        const tolk_uop *v = expr_param(g, wide[i], 0, INT64_MIN, INT64_MAX);
        assert_bounds(tk_uop2(g, TK_OP_MUL, v, v), INT64_MIN, INT64_MAX);
        assert_bounds(tk_uop2(g, TK_OP_ADD, v, v), INT64_MIN, INT64_MAX);
        assert_bounds(tk_uop2(g, TK_OP_SUB, v, v), INT64_MIN, INT64_MAX);
        assert_bounds(tk_uop1(g, TK_OP_NEG, v), INT64_MIN, INT64_MAX);
        const tolk_uop *three = tk_uop2(g, TK_OP_MUL, v, expr_int(g, wide[i], 3));
        assert_bounds(tk_uop2(g, TK_OP_CMPLT, three, expr_int(g, wide[i], 0)), 0, 1);
        static const tk_op ops[] = {TK_OP_CDIV, TK_OP_CMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD,
                                    TK_OP_SHL,  TK_OP_SHR,  TK_OP_AND,      TK_OP_XOR};
        static const int64_t with[] = {INT64_MIN, -1, 0, 1, 63, 64, INT64_MAX};
        for (size_t o = 0; o < 8; o++)
            for (size_t k = 0; k < 7; k++) {
                (void)tk_bounds(tk_uop2(g, ops[o], v, expr_int(g, wide[i], with[k])));
                (void)tk_bounds(tk_uop2(g, ops[o], expr_int(g, wide[i], with[k]), v));
                (void)tk_bounds(tk_uop2(g, ops[o], v, v));
            }
        const tolk_uop *m = tk_uop3(g, TK_OP_MULACC, v, v, v);
        assert_bounds(m, INT64_MIN, INT64_MAX);
        assert_false(tk_bounds_prove_lt(v, tk_uop2(g, TK_OP_MUL, v, v), NULL));
        assert_false(tk_bounds_prove_less(tk_uop2(g, TK_OP_MUL, v, expr_int(g, wide[i], INT64_MIN)),
                                          v, tk_uop2(g, TK_OP_CMPLT, v, three)));
    }
    const tolk_uop *u = expr_param(g, TOLK_U64, 1, INT64_MIN, INT64_MAX);
    assert_int_equal(tk_bounds(tk_uop2(g, TK_OP_MUL, u, u)).state, 2);
    assert_int_equal(tk_bounds(tk_uop2(g, TK_OP_ADD, u, u)).state, 2);
    assert_int_equal(tk_bounds(tk_uop3(g, TK_OP_MULACC, u, u, u)).state, 2);
    const tolk_uop *s = expr_param(g, TOLK_I32, 2, INT64_MIN, INT64_MAX);
    const tolk_uop *c = expr_int(g, TOLK_I32, INT32_MAX);
    assert_bounds(tk_uop2(g, TK_OP_CMPLT, s, c), 0, 1);
    assert_bounds(tk_uop2(g, TK_OP_CMPLT, tk_uop2(g, TK_OP_ADD, s, c), s), 0, 1);
    /* a sum over 2^62 iterations of a large value */
    const tolk_uop *r = expr_range(g, INT64_C(1) << 62, 0);
    tk_attr add[2] = {{.i = TK_ROP_ADD}, {.i = 0}};
    const tolk_uop *src[] = {r, r};
    assert_bounds(tk_uop(g, TK_OP_REDUCE, TOLK_INDEX, src, 2, add), INT64_MIN, INT64_MAX);
    expr_done(g);
}

static void test_bounds_reduce(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *v = expr_param(g, TOLK_I32, 0, -2, 5), *r = expr_range(g, 10, 0);
    const tolk_uop *n = expr_param(g, TOLK_INDEX, 1, 0, 10), *q = tk_uop_range(g, n, 1, 0);
    tk_attr add[2] = {{.i = TK_ROP_ADD}, {.i = 0}}, max[2] = {{.i = TK_ROP_MAX}, {.i = 0}};
    const tolk_uop *fixed[] = {v, r}, *maybe[] = {v, q};
    assert_bounds(tk_uop(g, TK_OP_REDUCE, TOLK_I32, fixed, 2, add), -20, 50);
    assert_bounds(tk_uop(g, TK_OP_REDUCE, TOLK_I32, fixed, 2, max), -2, 5);
    assert_bounds(tk_uop(g, TK_OP_REDUCE, TOLK_I32, maybe, 2, max), INT32_MIN, 5);
    expr_done(g);
}

/* Every op on every pair of small intervals contains every result; and i8's whole range as well. */
static void test_bounds_all_small_intervals_contain_every_value(void **state) {
    (void)state;
    static const tk_op ops[] = {TK_OP_ADD,  TK_OP_SUB,   TK_OP_MUL,      TK_OP_MAX,
                                TK_OP_CDIV, TK_OP_CMOD,  TK_OP_FLOORDIV, TK_OP_FLOORMOD,
                                TK_OP_SHL,  TK_OP_SHR,   TK_OP_AND,      TK_OP_OR,
                                TK_OP_XOR,  TK_OP_CMPLT, TK_OP_CMPNE,    TK_OP_CMPEQ};
    static const int64_t edges[2][9] = {{-128, -127, -5, -1, 0, 1, 3, 8, 127},
                                        {0, 1, 2, 3, 7, 8, 127, 128, 255}};
    for (int k = 0; k < 2; k++) {
        tolk_dtype dt = k ? TOLK_U8 : TOLK_I8;
        tolk_graph *g = expr_graph();
        for (int i = 0; i < 9; i++)
            for (int j = i; j < 9; j++)
                for (int m = 0; m < 9; m++)
                    for (int n = m; n < 9; n++) {
                        const tolk_uop *a = expr_param(g, dt, 0, edges[k][i], edges[k][j]);
                        const tolk_uop *b = expr_param(g, dt, 1, edges[k][m], edges[k][n]);
                        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
                            tk_bound r = tk_bounds(tk_uop2(g, ops[o], a, b));
                            assert_int_equal(r.state, 1);
                            /* the ends and their neighbours, and around zero */
                            for (int x = i; x <= j; x++)
                                for (int y = m; y <= n; y++) {
                                    int64_t v =
                                        (int64_t)tk_scalar_alu(ops[o], dt, (uint64_t)edges[k][x],
                                                               (uint64_t)edges[k][y], 0, true);
                                    if (v < r.lo || v > r.hi)
                                        fail_msg("%s %d..%d op %d..%d: %d not in [%d, %d]",
                                                 tk_op_get(ops[o])->name, (int)edges[k][i],
                                                 (int)edges[k][j], (int)edges[k][m],
                                                 (int)edges[k][n], (int)v, (int)r.lo, (int)r.hi);
                                }
                        }
                    }
        expr_done(g);
    }
}

/* ---- proofs ---- */

static void test_prove_gate_that_says_it(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *n = expr_param(g, TOLK_INDEX, 0, 1, 1000000);
    const tolk_uop *i = expr_range(g, 70000, 0), *lane = expr_range(g, 16, 1);
    const tolk_uop *a =
        tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, i, tk_uop_index_const(g, 16)), lane);
    const tolk_uop *gate = tk_uop2(g, TK_OP_CMPLT, a, n);
    assert_false(tk_bounds_prove_lt(a, n, NULL));
    assert_true(tk_bounds_prove_lt(a, n, gate));
    /* with other conditions, written otherwise */
    const tolk_uop *other = tk_uop2(g, TK_OP_CMPLT, lane, i);
    assert_true(tk_bounds_prove_lt(a, n, tk_uop2(g, TK_OP_AND, other, gate)));
    assert_true(tk_bounds_prove_lt(a, n, tk_uop2(g, TK_OP_MUL, gate, other)));
    assert_false(tk_bounds_prove_lt(a, n, tk_uop2(g, TK_OP_OR, gate, other)));
    assert_false(tk_bounds_prove_lt(a, n, other));
    const tolk_uop *yes = expr_int(g, TOLK_BOOL, 1);
    const tolk_uop *not_ge = tk_uop2(
        g, TK_OP_CMPNE,
        tk_uop2(g, TK_OP_CMPLT, n, tk_uop2(g, TK_OP_ADD, a, tk_uop_index_const(g, 1))), yes);
    assert_true(tk_bounds_prove_lt(a, n, not_ge));
    /* one too far */
    const tolk_uop *a1 = tk_uop2(g, TK_OP_ADD, a, tk_uop_index_const(g, 1));
    assert_false(tk_bounds_prove_lt(a1, n, gate));
    /* one before is below n, but not from 0 */
    const tolk_uop *a_1 = tk_uop2(g, TK_OP_ADD, a, tk_uop_index_const(g, -1));
    assert_false(tk_bounds_prove_lt(a_1, n, gate));
    assert_true(tk_bounds_prove_less(a_1, n, gate));
    const tolk_uop *from1 = tk_uop2(g, TK_OP_CMPLT, tk_uop_index_const(g, 0), a);
    assert_true(tk_bounds_prove_lt(a_1, n, tk_uop2(g, TK_OP_AND, gate, from1)));
    expr_done(g);
}

static void test_prove_symbolic_ranges(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *n = expr_param(g, TOLK_INDEX, 0, 1, 100000), *four = tk_uop_index_const(g, 4);
    const tolk_uop *r = tk_uop_range(g, n, 0, TK_AXIS_GLOBAL), *l = expr_range(g, 4, 1);
    assert_true(tk_bounds_prove_lt(r, n, NULL));
    const tolk_uop *n4 = tk_uop2(g, TK_OP_MUL, n, four);
    const tolk_uop *at = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, r, four), l);
    assert_true(tk_bounds_prove_lt(at, n4, NULL));
    assert_false(tk_bounds_prove_lt(at, tk_uop2(g, TK_OP_MUL, n, tk_uop_index_const(g, 3)), NULL));
    /* n - 1 - r, the other way round */
    const tolk_uop *back =
        tk_uop2(g, TK_OP_SUB, tk_uop2(g, TK_OP_ADD, n, tk_uop_index_const(g, -1)), r);
    assert_true(tk_bounds_prove_lt(back, n, NULL));
    /* r4 < 4n: r4 // 4 < n, and x mod n < n */
    const tolk_uop *r4 = tk_uop_range(g, n4, 2, TK_AXIS_GLOBAL);
    assert_true(tk_bounds_prove_lt(tk_uop2(g, TK_OP_FLOORDIV, r4, four), n, NULL));
    assert_false(
        tk_bounds_prove_lt(tk_uop2(g, TK_OP_FLOORDIV, r4, tk_uop_index_const(g, 3)), n, NULL));
    const tolk_uop *x = expr_param(g, TOLK_INDEX, 3, -1000, 1000);
    assert_true(tk_bounds_prove_lt(tk_uop2(g, TK_OP_FLOORMOD, x, n), n, NULL));
    assert_false(tk_bounds_prove_lt(tk_uop2(g, TK_OP_CMOD, x, n), n, NULL));
    /* through a cast that keeps the value, not through one that does not */
    const tolk_uop *i32 = tk_uop_cast(g, tk_uop_cast(g, r, TOLK_I32), TOLK_INDEX);
    assert_true(tk_bounds_prove_lt(i32, n, NULL));
    const tolk_uop *i16 = tk_uop_cast(g, tk_uop_cast(g, r, TOLK_I16), TOLK_INDEX);
    assert_false(tk_bounds_prove_lt(i16, n, NULL));
    expr_done(g);
}

static void test_prove_loaded_index_needs_a_gate(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *n = tk_uop_index_const(g, 1000), *zero = tk_uop_index_const(g, 0);
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, INT64_MIN, INT64_MAX);
    const tolk_uop *i = tk_uop_cast(g, x, TOLK_INDEX);
    const tolk_uop *hi = tk_uop2(g, TK_OP_CMPLT, i, n);
    const tolk_uop *lo = tk_uop2(g, TK_OP_CMPLT, tk_uop_index_const(g, -1), i);
    assert_false(tk_bounds_prove_lt(i, n, hi));
    assert_false(tk_bounds_prove_lt(i, n, lo));
    assert_true(tk_bounds_prove_lt(i, n, tk_uop2(g, TK_OP_AND, lo, hi)));
    /* the gate compares the i32 itself */
    const tolk_uop *xhi = tk_uop2(g, TK_OP_CMPLT, x, expr_int(g, TOLK_I32, 1000));
    const tolk_uop *xlo = tk_uop2(g, TK_OP_CMPLT, x, expr_int(g, TOLK_I32, 0));
    const tolk_uop *ge = tk_uop2(g, TK_OP_CMPNE, xlo, expr_int(g, TOLK_BOOL, 1));
    assert_true(tk_bounds_prove_lt(i, n, tk_uop2(g, TK_OP_AND, ge, xhi)));
    /* 2x < 1000 in i32 says nothing of x, since 2x may wrap */
    const tolk_uop *x2 = tk_uop2(g, TK_OP_ADD, x, x);
    const tolk_uop *wraps = tk_uop2(g, TK_OP_CMPLT, x2, expr_int(g, TOLK_I32, 1000));
    assert_false(tk_bounds_prove_less(i, n, wraps));
    /* equality is two facts */
    assert_true(tk_bounds_prove_lt(i, n, tk_uop2(g, TK_OP_CMPEQ, i, tk_uop_index_const(g, 7))));
    assert_false(tk_bounds_prove_lt(i, n, tk_uop2(g, TK_OP_CMPNE, i, zero)));
    expr_done(g);
}

static void *bounds_deep(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *u = expr_range(g, 2, 0), *one = tk_uop_index_const(g, 1);
    for (int i = 0; i < 100000; i++)
        u = tk_uop2(g, TK_OP_ADD, u, one);
    tk_bound b = tk_bounds(u);
    bool ok = b.lo == 100000 && b.hi == 100001;
    return ok && !tk_bounds_prove_lt(u, one, NULL) ? g : NULL;
}

static void test_bounds_depth_100000_on_a_small_stack(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    assert_ptr_equal(tk_test_on_stack(512 << 10, bounds_deep, g), g);
    expr_done(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_leaves),
        cmocka_unit_test(test_bounds_sum_that_may_wrap_is_the_dtype),
        cmocka_unit_test(test_IDX_01_index_product_past_32_bits_keeps_its_bounds),
        cmocka_unit_test(test_INT_15_extreme_bounds_do_not_overflow),
        cmocka_unit_test(test_bounds_reduce),
        cmocka_unit_test(test_bounds_all_small_intervals_contain_every_value),
        cmocka_unit_test(test_prove_gate_that_says_it),
        cmocka_unit_test(test_prove_symbolic_ranges),
        cmocka_unit_test(test_prove_loaded_index_needs_a_gate),
        cmocka_unit_test(test_bounds_depth_100000_on_a_small_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
