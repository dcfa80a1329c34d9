/* SPDX-License-Identifier: MIT
 *
 * Symbolic algebra: each rule on its cases. Random expressions are in test_sym_random.c.
 */
#include "ir/sym.h"

#include "ir/sym_check.h"

static void assert_sym(const tolk_uop *u, const tolk_uop *want) {
    const tolk_uop *v = sym(u);
    if (v != want) {
        fprintf(stderr, "simplified:\n");
        expr_print(v);
        fprintf(stderr, "expected:\n");
        expr_print(want);
        fail_msg("another form");
    }
    assert_ptr_equal(sym(v), v);
}

static size_t count(const tolk_uop *u, tk_op op) {
    tk_walk_list list;
    size_t n = 0;
    tk_vec_init(&list, u->graph->al);
    expr_list(u, &list);
    for (size_t i = 0; i < list.n; i++)
        n += tk_uop_is(list.at[i], op);
    tk_vec_fini(&list);
    return n;
}

/* The same value before and after for x in [x0, x1] and y in [y0, y1]. */
static void assert_same_everywhere(comparison *c, const tolk_uop *u, const tolk_uop *x, int64_t x0,
                                   int64_t x1, const tolk_uop *y, int64_t y0, int64_t y1) {
    const tolk_uop *v = sym(u);
    expr_list(u, &c->before);
    expr_list(v, &c->after);
    expr_values_size(&c->values, u->graph);
    uint64_t nx = (uint64_t)x1 - (uint64_t)x0, ny = y ? (uint64_t)y1 - (uint64_t)y0 : 0;
    for (uint64_t p = 0; p <= nx; p++)
        for (uint64_t q = 0; q <= ny; q++) {
            int64_t i = (int64_t)((uint64_t)x0 + p), j = (int64_t)((uint64_t)y0 + q);
            c->values.bits[x->id] = tk_dtype_canon(x->dtype, (uint64_t)i);
            if (y)
                c->values.bits[y->id] = tk_dtype_canon(y->dtype, (uint64_t)j);
            uint64_t a = expr_eval(&c->before, &c->values);
            uint64_t b = expr_eval(&c->after, &c->values);
            if (!tk_scalar_same(u->dtype, a, b)) {
                expr_print(u);
                fprintf(stderr, "simplified:\n");
                expr_print(v);
                fail_msg("x=%lld y=%lld: %lld, simplified %lld", (long long)i, (long long)j,
                         (long long)a, (long long)b);
            }
        }
}

/* ---- integer division ---- */

static const tk_op divs[] = {TK_OP_CDIV, TK_OP_CMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD};

static void test_INT_01_least_by_minus_one_folds_without_a_trap(void **state) {
    (void)state;
    static const tolk_dtype dts[] = {TOLK_I8, TOLK_I16, TOLK_I32, TOLK_I64, TOLK_INDEX};
    for (int k = 0; k < 5; k++) {
        tolk_graph *g = expr_graph();
        int64_t min = tk_dtype_min(dts[k]);
        const tolk_uop *m = expr_int(g, dts[k], min), *seven = expr_int(g, dts[k], 7);
        const tolk_uop *n1 = expr_int(g, dts[k], -1);
        assert_sym(op2(TK_OP_CDIV, m, n1), m);
        assert_sym(op2(TK_OP_FLOORDIV, m, n1), m);
        assert_sym(op2(TK_OP_CMOD, m, n1), expr_int(g, dts[k], 0));
        assert_sym(op2(TK_OP_FLOORMOD, m, n1), expr_int(g, dts[k], 0));
        assert_sym(op2(TK_OP_CDIV, seven, n1), expr_int(g, dts[k], -7));
        /* a variable dividend: the quotient is the wrapping negative, the remainder 0 */
        const tolk_uop *x = expr_param(g, dts[k], 0, INT64_MIN, INT64_MAX);
        assert_sym(op2(TK_OP_CDIV, x, n1), tk_uop1(g, TK_OP_NEG, x));
        assert_sym(op2(TK_OP_FLOORDIV, x, n1), tk_uop1(g, TK_OP_NEG, x));
        assert_sym(op2(TK_OP_CMOD, x, n1), expr_int(g, dts[k], 0));
        assert_sym(op2(TK_OP_FLOORMOD, x, n1), expr_int(g, dts[k], 0));
        /* a variable divisor that may be -1 is left to the kernel */
        const tolk_uop *d = expr_param(g, dts[k], 1, -1, 1);
        assert_sym(op2(TK_OP_CDIV, m, d), op2(TK_OP_CDIV, m, d));
        expr_done(g);
    }
}

static void test_INT_03_division_by_zero_is_guarded_as_it_was(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    tolk_graph *g = expr_graph();
    for (int k = 0; k < 4; k++) {
        const tolk_uop *a = expr_param(g, TOLK_I32, 0, -9, 9),
                       *b = expr_param(g, TOLK_I32, 1, -4, 4);
        const tolk_uop *q = op2(divs[k], a, b);
        const tolk_uop *guarded =
            tk_uop3(g, TK_OP_WHERE, op2k(TK_OP_CMPNE, b, 0), q, expr_int(g, TOLK_I32, -1));
        assert_same_everywhere(&c, guarded, a, -9, 9, b, -4, 4);
        assert_same_everywhere(&c, q, a, -9, 9, b, -4, 4);
        const tolk_uop *safe = op2(divs[k], a, op2k(TK_OP_MUL, op2k(TK_OP_MAX, b, 1), 2));
        assert_same_everywhere(&c, safe, a, -9, 9, b, -4, 4);
        assert_int_equal(count(sym(safe), TK_OP_MAX), 1); /* max(b, 1) is not b */
        /* (a/0)/(a/0) is 0, not 1 */
        const tolk_uop *by0 = op2k(divs[k & 2], a, 0);
        assert_sym(op2(divs[k & 2], by0, by0), expr_int(g, TOLK_I32, 0));
        /* b/b is 1 only where b is not 0; b mod b is 0 */
        assert_same_everywhere(&c, op2(divs[k], b, b), b, -4, 4, NULL, 0, 0);
        const tolk_uop *p = expr_param(g, TOLK_I32, 2, 1, 4);
        assert_sym(op2(divs[k], p, p), expr_int(g, TOLK_I32, !(k & 1)));
    }
    const tolk_uop *zero = expr_int(g, TOLK_I32, 0);
    for (int k = 0; k < 4; k++) {
        assert_sym(op2(divs[k], zero, zero), zero);
        assert_sym(op2(divs[k], expr_int(g, TOLK_I32, 5), zero),
                   expr_int(g, TOLK_I32, k & 1 ? 5 : 0));
        const tolk_uop *x = expr_param(g, TOLK_I32, 3, INT64_MIN, INT64_MAX);
        assert_sym(op2(divs[k], x, zero), k & 1 ? x : zero);
    }
    compare_fini(&c);
    expr_done(g);
}

static void test_INT_07_division_by_powers_of_two_keeps_its_rounding(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    static const int64_t n[] = {-7, -1, -8, 7};
    for (int k = 0; k < 4; k++)
        for (int64_t d = 2; d <= 8; d *= 2)
            for (int s = 0; s < 2; s++) {
                tolk_graph *g = expr_graph();
                tolk_dtype dt = s ? TOLK_U32 : TOLK_I32;
                const tolk_uop *x = expr_param(g, dt, 0, INT64_MIN, INT64_MAX);
                const tolk_uop *u = op2k(divs[k], x, d);
                for (int i = 0; i < 4; i++)
                    assert_same_everywhere(&c, u, x, n[i], n[i], NULL, 0, 0);
                if (!s) {
                    const tolk_uop *v = op2k(divs[k], expr_int(g, dt, -7), d);
                    int64_t t = -7 / d, f = t - 1;
                    int64_t want[] = {t, -7 % d, f, -7 - f * d};
                    assert_sym(v, expr_int(g, dt, want[k]));
                }
                expr_done(g);
            }
    compare_fini(&c);
}

/* (a*x + b) div c and mod c, all x in ranges that cross 0, every a, b and c. */
static void test_INT_11_linear_numerators_exhaustive(void **state) {
    (void)state;
    static const struct {
        tolk_dtype dt;
        int64_t lo, hi;
    } of[] = {{TOLK_INDEX, -9, 9}, {TOLK_I32, -4, 11}, {TOLK_INDEX, 0, 12}, {TOLK_I8, -11, 2}};
    comparison c;
    compare_init(&c);
    for (int t = 0; t < 4; t++)
        for (int64_t d = -8; d <= 8; d++) {
            tolk_graph *g = expr_graph();
            const tolk_uop *x = expr_param(g, of[t].dt, 0, of[t].lo, of[t].hi);
            for (int64_t a = -8; a <= 8; a++)
                for (int64_t b = -9; b <= 9; b += 3)
                    for (int k = 0; k < 4; k++) {
                        const tolk_uop *n = op2k(TK_OP_ADD, op2k(TK_OP_MUL, x, a), b);
                        const tolk_uop *q = op2k(divs[k], n, d);
                        assert_same_everywhere(&c, q, x, of[t].lo, of[t].hi, NULL, 0, 0);
                    }
            expr_done(g);
        }
    compare_fini(&c);
}

static void test_INT_11_nested_and_two_terms_exhaustive(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    for (int64_t d = -8; d <= 8; d++) {
        tolk_graph *g = expr_graph();
        const tolk_uop *x = expr_param(g, TOLK_INDEX, 0, -6, 6),
                       *y = expr_param(g, TOLK_INDEX, 1, -3, 4);
        const tolk_uop *z = expr_param(g, TOLK_INDEX, 2, 0, 3);
        for (int64_t a = -8; a <= 8; a++)
            for (int64_t b = -8; b <= 8; b += 1)
                for (int k = 0; k < 4; k++) {
                    const tolk_uop *ax = op2k(TK_OP_MUL, x, a);
                    const tolk_uop *u = op2k(divs[k], op2(TK_OP_ADD, ax, op2k(TK_OP_MUL, y, b)), d);
                    assert_same_everywhere(&c, u, x, -6, 6, y, -3, 4);
                    u = op2k(divs[k], op2(TK_OP_ADD, ax, op2k(TK_OP_MUL, z, b)), d);
                    assert_same_everywhere(&c, u, x, -6, 6, z, 0, 3);
                    /* ((x + a) div b + a) div d, and mods of mods */
                    for (int m = 0; m < 4; m++) {
                        const tolk_uop *in = op2k(divs[m], op2k(TK_OP_ADD, x, a), b);
                        u = op2k(divs[k], op2k(TK_OP_ADD, in, a), d);
                        assert_same_everywhere(&c, u, x, -6, 6, NULL, 0, 0);
                        u = op2k(divs[k], in, d);
                        assert_same_everywhere(&c, u, x, -6, 6, NULL, 0, 0);
                    }
                }
        expr_done(g);
    }
    /* the truncating example: ((0-10)/2+10)/2 = 2, x = 1 gives 3 */
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, -20, 20);
    const tolk_uop *in = op2k(TK_OP_CDIV, op2k(TK_OP_ADD, x, -10), 2);
    const tolk_uop *u = op2k(TK_OP_CDIV, op2k(TK_OP_ADD, in, 10), 2);
    assert_same_everywhere(&c, u, x, -20, 20, NULL, 0, 0);
    expr_list(sym(u), &c.after);
    expr_values_size(&c.values, g);
    c.values.bits[x->id] = 0;
    assert_int_equal(expr_eval(&c.after, &c.values), 2);
    c.values.bits[x->id] = 1;
    assert_int_equal(expr_eval(&c.after, &c.values), 3);
    compare_fini(&c);
    expr_done(g);
}

static void test_INT_13_shifts_are_no_overflowing_products(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    comparison c;
    compare_init(&c);
    static const int64_t of[] = {-5, 5, INT32_MIN, 1, 0};
    const tolk_uop *x = expr_param(g, TOLK_I32, 0, INT64_MIN, INT64_MAX);
    for (int i = 0; i < 5; i++)
        for (int64_t k = -1; k <= 33; k++) {
            assert_same_everywhere(&c, op2k(TK_OP_SHR, x, k), x, of[i], of[i], NULL, 0, 0);
            assert_same_everywhere(&c, op2k(TK_OP_SHL, x, k), x, of[i], of[i], NULL, 0, 0);
        }
    assert_sym(op2k(TK_OP_SHR, expr_int(g, TOLK_I32, INT32_MIN), 31), expr_int(g, TOLK_I32, -1));
    assert_sym(op2k(TK_OP_SHL, expr_int(g, TOLK_I32, 1), 31), expr_int(g, TOLK_I32, INT32_MIN));
    assert_sym(op2k(TK_OP_SHL, expr_int(g, TOLK_U32, 1), 31),
               expr_int(g, TOLK_U32, INT64_C(1) << 31));
    assert_sym(op2k(TK_OP_SHL, expr_int(g, TOLK_I64, 1), 63), expr_int(g, TOLK_I64, INT64_MIN));
    const tolk_uop *r = expr_param(g, TOLK_INDEX, 1, INT64_MIN, INT64_MAX);
    for (int64_t k = -1; k <= 65; k++)
        for (int i = 0; i < 5; i++) {
            assert_same_everywhere(&c, op2k(TK_OP_SHR, r, k), r, of[i], of[i], NULL, 0, 0);
            assert_same_everywhere(&c, op2k(TK_OP_SHL, r, k), r, of[i], of[i], NULL, 0, 0);
        }
    compare_fini(&c);
    expr_done(g);
}

/* INT-15: what may wrap is not decided. */
static void test_INT_15_comparisons_of_values_that_wrap_are_kept(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    for (int t = 0; t < 2; t++) {
        tolk_dtype dt = t ? TOLK_I64 : TOLK_INDEX;
        const tolk_uop *v = expr_param(g, dt, 0, INT64_MIN, INT64_MAX);
        const tolk_uop *zero = expr_int(g, dt, 0);
        assert_int_equal(count(sym(op2(TK_OP_CMPLT, op2k(TK_OP_MUL, v, 3), zero)), TK_OP_MUL), 1);
        assert_false(tk_uop_is_const(sym(op2(TK_OP_CMPLT, op2(TK_OP_MUL, v, v), zero))));
        assert_false(tk_uop_is_const(sym(op2(TK_OP_CMPLT, op2(TK_OP_ADD, v, v), zero))));
        assert_false(tk_uop_is_const(sym(op2(TK_OP_CMPLT, v, op2k(TK_OP_ADD, v, 1)))));
        assert_false(tk_uop_is_const(sym(op2k(TK_OP_FLOORDIV, op2k(TK_OP_MUL, v, 2), 2))));
        assert_ptr_not_equal(sym(op2k(TK_OP_FLOORDIV, op2k(TK_OP_MUL, v, 2), 2)), v);
    }
    const tolk_uop *s = expr_param(g, TOLK_I32, 1, INT64_MIN, INT64_MAX);
    const tolk_uop *sum = op2k(TK_OP_ADD, s, INT32_MAX);
    assert_false(tk_uop_is_const(sym(op2(TK_OP_CMPLT, sum, s))));
    assert_sym(op2k(TK_OP_CMPLT, s, INT32_MAX), op2k(TK_OP_CMPLT, s, INT32_MAX));
    expr_done(g);
}

/* ---- forms ---- */

static void test_sum_like_terms_merge(void **state) {
    (void)state;
    for (int t = 0; t < INTS; t++) {
        tolk_graph *g = expr_graph();
        const tolk_uop *x = expr_param(g, ints[t], 0, INT64_MIN, INT64_MAX);
        const tolk_uop *y = expr_param(g, ints[t], 1, INT64_MIN, INT64_MAX);
        assert_sym(op2(TK_OP_SUB, x, x), expr_int(g, ints[t], 0));
        assert_sym(op2(TK_OP_ADD, x, x), op2k(TK_OP_MUL, x, 2));
        assert_sym(op2k(TK_OP_MUL, x, 0), expr_int(g, ints[t], 0));
        assert_sym(op2k(TK_OP_MUL, op2(TK_OP_ADD, x, y), 1), op2(TK_OP_ADD, x, y));
        assert_sym(op2k(TK_OP_ADD, x, 0), x);
        assert_sym(op2(TK_OP_ADD, expr_int(g, ints[t], 5), x), op2k(TK_OP_ADD, x, 5));
        assert_sym(op2k(TK_OP_ADD, op2k(TK_OP_ADD, x, 100), 27), op2k(TK_OP_ADD, x, 127));
        assert_sym(op2(TK_OP_SUB, op2(TK_OP_ADD, x, y), y), x);
        assert_sym(tk_uop1(g, TK_OP_NEG, tk_uop1(g, TK_OP_NEG, op2(TK_OP_ADD, x, y))),
                   op2(TK_OP_ADD, x, y));
        assert_sym(op2k(TK_OP_MUL, op2k(TK_OP_MUL, x, 2), 3), op2k(TK_OP_MUL, x, 6));
        /* 256 * x is 0 in 8 bits */
        const tolk_uop *m = op2k(TK_OP_MUL, op2k(TK_OP_MUL, x, 16), 16);
        assert_sym(m,
                   tk_dtype_bits(ints[t]) == 8 ? expr_int(g, ints[t], 0) : op2k(TK_OP_MUL, x, 256));
        for (int k = 0; k < 2; k++) {
            /* x div y * y + x mod y, with a constant divisor */
            tk_op d = k ? TK_OP_CDIV : TK_OP_FLOORDIV, r = k ? TK_OP_CMOD : TK_OP_FLOORMOD;
            assert_sym(op2(TK_OP_ADD, op2k(TK_OP_MUL, op2k(d, x, 7), 7), op2k(r, x, 7)), x);
        }
        expr_done(g);
    }
}

static void test_sum_index_has_one_form(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *i = expr_range(g, 8, 0), *j = expr_range(g, 8, 1),
                   *n = expr_param(g, TOLK_INDEX, 0, 1, 64);
    const tolk_uop *a = op2k(TK_OP_ADD, op2(TK_OP_ADD, op2k(TK_OP_MUL, i, 8), j), 3);
    const tolk_uop *b = op2(TK_OP_ADD, op2k(TK_OP_ADD, j, 3), op2k(TK_OP_SHL, i, 3));
    assert_ptr_equal(sym(a), sym(b));
    assert_ptr_equal(sym(op2k(TK_OP_MUL, op2(TK_OP_ADD, i, j), 4)),
                     sym(op2(TK_OP_ADD, op2k(TK_OP_MUL, j, 4), op2k(TK_OP_MUL, i, 4))));
    assert_ptr_equal(sym(op2(TK_OP_MUL, op2k(TK_OP_MUL, i, 4), n)),
                     sym(op2k(TK_OP_MUL, op2(TK_OP_MUL, n, i), 4)));
    assert_sym(op2(TK_OP_SUB, op2k(TK_OP_ADD, i, 3), op2k(TK_OP_ADD, i, 1)),
               tk_uop_index_const(g, 2));
    /* negative multiples are subtracted */
    assert_sym(op2(TK_OP_ADD, tk_uop1(g, TK_OP_NEG, j), i), op2(TK_OP_SUB, i, j));
    assert_sym(op2(TK_OP_SUB, tk_uop_index_const(g, 7), i),
               op2(TK_OP_SUB, tk_uop_index_const(g, 7), i));
    /* mixed radix: (i*8 + j) // 8 is i, % 8 is j */
    const tolk_uop *f = op2(TK_OP_ADD, op2k(TK_OP_MUL, i, 8), j);
    assert_sym(op2k(TK_OP_FLOORDIV, f, 8), i);
    assert_sym(op2k(TK_OP_FLOORMOD, f, 8), j);
    assert_sym(op2k(TK_OP_CDIV, f, 8), i);
    assert_sym(op2k(TK_OP_CMOD, f, 8), j);
    assert_sym(op2k(TK_OP_AND, f, 7), j);
    assert_sym(op2k(TK_OP_SHR, f, 3), i);
    assert_sym(op2k(TK_OP_FLOORDIV, f, 16), op2k(TK_OP_FLOORDIV, i, 2));
    assert_sym(op2k(TK_OP_FLOORDIV, op2k(TK_OP_FLOORDIV, f, 4), 4), op2k(TK_OP_FLOORDIV, i, 2));
    assert_sym(op2k(TK_OP_FLOORMOD, op2k(TK_OP_FLOORMOD, n, 24), 8), op2k(TK_OP_FLOORMOD, n, 8));
    /* x % 12 and x // 12 of the parts of x give x back */
    const tolk_uop *x = expr_param(g, TOLK_INDEX, 1, 0, 1000);
    const tolk_uop *digits =
        op2(TK_OP_ADD, op2k(TK_OP_MUL, op2k(TK_OP_FLOORDIV, x, 12), 12),
            op2(TK_OP_ADD, op2k(TK_OP_MUL, op2k(TK_OP_FLOORMOD, op2k(TK_OP_FLOORDIV, x, 4), 3), 4),
                op2k(TK_OP_FLOORMOD, x, 4)));
    assert_sym(digits, x);
    /* an unknown divisor: r*n + s with s < n */
    const tolk_uop *s = tk_uop_range(g, n, 2, TK_AXIS_LOOP);
    const tolk_uop *at = op2(TK_OP_ADD, op2(TK_OP_MUL, i, n), s);
    assert_sym(op2(TK_OP_FLOORDIV, at, n), i);
    assert_sym(op2(TK_OP_FLOORMOD, at, n), s);
    assert_sym(op2(TK_OP_FLOORDIV, s, n), tk_uop_index_const(g, 0));
    assert_sym(op2(TK_OP_FLOORMOD, s, n), s);
    expr_done(g);
}

static void test_comparison_by_bounds_and_forms(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *yes = expr_int(g, TOLK_BOOL, 1), *no = expr_int(g, TOLK_BOOL, 0);
    const tolk_uop *i = expr_range(g, 8, 0), *j = expr_range(g, 8, 1);
    assert_sym(op2k(TK_OP_CMPLT, i, 8), yes);
    assert_sym(op2k(TK_OP_CMPLT, i, 0), no);
    assert_sym(op2k(TK_OP_CMPEQ, i, 8), no);
    assert_sym(op2k(TK_OP_CMPNE, i, -1), yes);
    assert_sym(op2(TK_OP_CMPLT, i, op2k(TK_OP_ADD, i, 1)), yes);
    assert_sym(op2(TK_OP_CMPLT, op2(TK_OP_ADD, i, j), op2(TK_OP_ADD, j, i)), no);
    assert_sym(op2k(TK_OP_CMPLT, op2k(TK_OP_ADD, op2k(TK_OP_MUL, i, 4), 3), 17),
               op2k(TK_OP_CMPLT, i, 4));
    assert_sym(op2k(TK_OP_CMPLT, op2k(TK_OP_FLOORDIV, i, 3), 2), op2k(TK_OP_CMPLT, i, 6));
    assert_sym(op2(TK_OP_CMPLT, tk_uop_index_const(g, 0), op2k(TK_OP_FLOORDIV, i, 3)),
               op2(TK_OP_CMPLT, tk_uop_index_const(g, 2), i));
    assert_sym(op2(TK_OP_CMPLT, op2(TK_OP_ADD, i, j), op2k(TK_OP_ADD, op2(TK_OP_ADD, j, j), 1)),
               op2(TK_OP_CMPLT, i, op2k(TK_OP_ADD, j, 1)));
    assert_sym(op2k(TK_OP_CMPEQ, op2k(TK_OP_MUL, i, 4), 6), no);
    assert_sym(op2k(TK_OP_CMPEQ, op2k(TK_OP_MUL, i, 4), 8), op2k(TK_OP_CMPEQ, i, 2));
    assert_sym(op2k(TK_OP_CMPNE, op2k(TK_OP_ADD, i, 4), 8), op2k(TK_OP_CMPNE, i, 4));
    /* not */
    assert_sym(op2(TK_OP_CMPNE, op2k(TK_OP_CMPLT, i, 4), yes),
               op2(TK_OP_CMPLT, tk_uop_index_const(g, 3), i));
    assert_sym(op2(TK_OP_CMPEQ, op2(TK_OP_CMPEQ, i, j), no), op2(TK_OP_CMPNE, i, j));
    /* and, or */
    const tolk_uop *l4 = op2k(TK_OP_CMPLT, i, 4), *l6 = op2k(TK_OP_CMPLT, i, 6);
    const tolk_uop *g4 = op2(TK_OP_CMPLT, tk_uop_index_const(g, 4), i),
                   *g3 = op2(TK_OP_CMPLT, tk_uop_index_const(g, 3), i);
    const tolk_uop *p = op2(TK_OP_CMPLT, i, j);
    assert_sym(op2(TK_OP_AND, l4, l6), l4);
    assert_sym(op2(TK_OP_AND, op2(TK_OP_AND, l6, p), l4), op2(TK_OP_AND, p, l4));
    assert_sym(op2(TK_OP_OR, l4, l6), l6);
    assert_sym(op2(TK_OP_AND, l4, g3), no);
    assert_sym(op2(TK_OP_OR, l4, g3), yes);
    assert_sym(op2(TK_OP_AND, l4, g4), no);
    assert_sym(op2(TK_OP_OR, l4, g4), op2(TK_OP_OR, l4, g4)); /* 4 is in neither */
    assert_sym(op2(TK_OP_AND, op2(TK_OP_AND, p, l4), g4), no);
    assert_sym(op2(TK_OP_MUL, p, l4), op2(TK_OP_AND, p, l4));
    assert_sym(op2(TK_OP_ADD, p, p), p);
    /* where */
    const tolk_uop *x = expr_param(g, TOLK_F32, 0, 0, 0), *y = expr_param(g, TOLK_F32, 1, 0, 0);
    assert_sym(tk_uop3(g, TK_OP_WHERE, op2k(TK_OP_CMPLT, i, 9), x, y), x);
    assert_sym(tk_uop3(g, TK_OP_WHERE, p, x, x), x);
    assert_sym(tk_uop3(g, TK_OP_WHERE, op2(TK_OP_CMPNE, op2(TK_OP_CMPLT, x, y), yes), x, y),
               tk_uop3(g, TK_OP_WHERE, op2(TK_OP_CMPLT, x, y), y, x));
    assert_sym(tk_uop3(g, TK_OP_WHERE, p, yes, no), p);
    /* !(x < y) of floats is not y <= x */
    const tolk_uop *nlt = op2(TK_OP_CMPNE, op2(TK_OP_CMPLT, x, y), yes);
    assert_sym(nlt, nlt);
    expr_done(g);
}

static void test_gated_index_keeps_its_gate_outermost(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *i = expr_range(g, 8, 0), *inv = tk_uop_invalid(g);
    const tolk_uop *v = op2k(TK_OP_CMPLT, i, 5);
    const tolk_uop *gated = tk_uop3(g, TK_OP_WHERE, v, i, inv);
    assert_sym(op2k(TK_OP_ADD, op2k(TK_OP_MUL, gated, 4), 1),
               tk_uop3(g, TK_OP_WHERE, v, op2k(TK_OP_ADD, op2k(TK_OP_MUL, i, 4), 1), inv));
    /* the gate stays, however constant the index */
    const tolk_uop *zero = tk_uop3(g, TK_OP_WHERE, v, tk_uop_index_const(g, 0), inv);
    assert_sym(zero, zero);
    assert_sym(op2k(TK_OP_MUL, gated, 0), zero);
    assert_sym(tk_uop3(g, TK_OP_WHERE, op2k(TK_OP_CMPLT, i, 8), i, inv), i);
    assert_sym(tk_uop3(g, TK_OP_WHERE, op2k(TK_OP_CMPLT, i, 0), i, inv), inv);
    const tolk_uop *w = op2(TK_OP_CMPLT, tk_uop_index_const(g, 1), i);
    assert_sym(tk_uop3(g, TK_OP_WHERE, w, gated, inv),
               tk_uop3(g, TK_OP_WHERE, op2(TK_OP_AND, w, v), i, inv));
    assert_sym(tk_uop3(g, TK_OP_WHERE, v, inv, i),
               tk_uop3(g, TK_OP_WHERE, op2(TK_OP_CMPLT, tk_uop_index_const(g, 4), i), i, inv));
    expr_done(g);
}

static void test_range_of_one_is_zero_in_sums_but_still_a_range(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *r = expr_range(g, 1, 0), *i = expr_range(g, 8, 1);
    assert_sym(op2(TK_OP_ADD, i, op2k(TK_OP_MUL, r, 8)), i);
    const tolk_uop *x = expr_param(g, TOLK_F32, 0, 0, 0);
    tk_attr add[2] = {{.i = TK_ROP_ADD}, {.i = 0}};
    const tolk_uop *sum = tk_uop(g, TK_OP_REDUCE, TOLK_F32, (const tolk_uop *[]){x, r}, 2, add);
    assert_sym(sum, sum);
    expr_done(g);
}

/* ---- casts ---- */

/* NUM-07: a cast down and up again rounds. */
static void test_NUM_07_cast_down_and_up_stays(void **state) {
    (void)state;
    static const tolk_dtype way[][3] = {
        {TOLK_F32, TOLK_F16, TOLK_F32},  {TOLK_F64, TOLK_F32, TOLK_F64},
        {TOLK_F32, TOLK_BF16, TOLK_F32}, {TOLK_I32, TOLK_I8, TOLK_I32},
        {TOLK_F32, TOLK_I32, TOLK_F32},  {TOLK_I32, TOLK_F32, TOLK_I32},
        {TOLK_I64, TOLK_F64, TOLK_I64},  {TOLK_U32, TOLK_I32, TOLK_I64},
        {TOLK_F16, TOLK_BF16, TOLK_F16}, {TOLK_I32, TOLK_BOOL, TOLK_I32},
        {TOLK_I32, TOLK_F64, TOLK_I8},   {TOLK_F32, TOLK_FP8E5M2, TOLK_F32}};
    tolk_graph *g = expr_graph();
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        const tolk_uop *x = expr_param(g, way[i][0], 0, INT64_MIN, INT64_MAX);
        const tolk_uop *u = tk_uop_cast(g, tk_uop_cast(g, x, way[i][1]), way[i][2]);
        assert_sym(u, u);
    }
    const tolk_uop *seventh = tk_uop_const(g, TOLK_F32, 0x3e124925);
    assert_sym(tk_uop_cast(g, tk_uop_cast(g, seventh, TOLK_F16), TOLK_F32),
               tk_uop_const(g, TOLK_F32, 0x3e124000));
    assert_sym(tk_uop_cast(g, tk_uop_cast(g, expr_int(g, TOLK_I32, 300), TOLK_I8), TOLK_I32),
               expr_int(g, TOLK_I32, 44));
    expr_done(g);
}

static void test_cast_up_and_down_goes(void **state) {
    (void)state;
    static const tolk_dtype way[][3] = {
        {TOLK_F16, TOLK_F32, TOLK_F16},   {TOLK_F32, TOLK_F64, TOLK_F32},
        {TOLK_I8, TOLK_I64, TOLK_I8},     {TOLK_I8, TOLK_F32, TOLK_I8},
        {TOLK_BOOL, TOLK_I32, TOLK_BOOL}, {TOLK_FP8E4M3, TOLK_F16, TOLK_FP8E4M3},
        {TOLK_I64, TOLK_INDEX, TOLK_I64}, {TOLK_U32, TOLK_I32, TOLK_U32}};
    tolk_graph *g = expr_graph();
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        const tolk_uop *x = expr_param(g, way[i][0], 0, INT64_MIN, INT64_MAX);
        assert_sym(tk_uop_cast(g, tk_uop_cast(g, x, way[i][1]), way[i][2]), x);
    }
    const tolk_uop *small = expr_param(g, TOLK_I32, 1, -100, 100);
    assert_sym(tk_uop_cast(g, tk_uop_cast(g, small, TOLK_I8), TOLK_INDEX),
               tk_uop_cast(g, small, TOLK_INDEX));
    const tolk_uop *b = op2k(TK_OP_CMPLT, small, 5);
    assert_sym(op2k(TK_OP_CMPNE, tk_uop_cast(g, b, TOLK_I32), 0), b);
    expr_done(g);
}

/* Every pair of casts that is joined keeps every value of small dtypes, and edges of large ones. */
static void test_cast_pairs_keep_values(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    127,
                                    128,
                                    255,
                                    256,
                                    300,
                                    32767,
                                    32768,
                                    65535,
                                    65536,
                                    65504,
                                    INT32_MAX,
                                    INT32_MIN,
                                    UINT32_MAX,
                                    INT64_MAX,
                                    INT64_MIN,
                                    0x3f800000,
                                    0x7f800000,
                                    0x7fc00000,
                                    0x4f000000,
                                    0x7ff0000000000000,
                                    0x3ff0000000000000,
                                    0x41f0000000000000,
                                    0x7c00,
                                    0x7e00,
                                    0x3c00,
                                    (INT64_C(1) << 53) + 1,
                                    (1 << 24) + 1};
    for (tolk_dtype a = TOLK_INDEX; a < TOLK_DTYPE_COUNT; a++)
        for (tolk_dtype m = TOLK_INDEX; m < TOLK_DTYPE_COUNT; m++)
            for (tolk_dtype z = TOLK_INDEX; z < TOLK_DTYPE_COUNT; z++) {
                tolk_graph *g = expr_graph();
                for (int narrow = 0; narrow < 2; narrow++) {
                    const tolk_uop *x =
                        expr_param(g, a, 0, narrow ? 0 : INT64_MIN, narrow ? 200 : INT64_MAX);
                    tk_wide_bound b = {0, 200};
                    const tolk_uop *u = tk_uop_cast(g, tk_uop_cast(g, x, m), z);
                    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
                        int64_t v = (int64_t)tk_dtype_canon(a, (uint64_t)edges[i]);
                        if (!narrow || tolk_dtype_is_float(a) || (v >= b.lo && v <= b.hi))
                            assert_same_everywhere(&c, u, x, v, v, NULL, 0, 0);
                    }
                }
                expr_done(g);
            }
    compare_fini(&c);
}

/* ---- floats ---- */

static uint64_t f32(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    return u;
}

/* NAN-05, NUM-05, NAN-01: no identity that a NaN, an infinity or -0 breaks. */
static void test_NAN_05_float_identities_that_fail_are_not_used(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *x = expr_param(g, TOLK_F32, 0, 0, 0), *y = expr_param(g, TOLK_F32, 1, 0, 0);
    const tolk_uop *zero = tk_uop_const(g, TOLK_F32, 0),
                   *mz = tk_uop_const(g, TOLK_F32, 0x80000000);
    const tolk_uop *three = tk_uop_const(g, TOLK_F32, f32(3)),
                   *inf = tk_uop_const(g, TOLK_F32, 0x7f800000);
    const tolk_uop *keep[] = {op2(TK_OP_MUL, x, zero),
                              op2(TK_OP_SUB, x, x),
                              op2(TK_OP_FDIV, x, x),
                              op2(TK_OP_FDIV, zero, x),
                              op2(TK_OP_CMPEQ, x, x),
                              op2(TK_OP_CMPNE, x, x),
                              op2(TK_OP_CMPLT, x, inf),
                              op2(TK_OP_ADD, x, zero),
                              op2(TK_OP_SUB, x, mz),
                              op2(TK_OP_FDIV, x, three),
                              op2(TK_OP_SUB, zero, x),
                              op2(TK_OP_MAX, x, tk_uop_const(g, TOLK_F32, 0xff800000)),
                              op2(TK_OP_ADD, op2(TK_OP_ADD, x, three), three),
                              op2(TK_OP_SUB, op2(TK_OP_ADD, x, y), y),
                              op2(TK_OP_ADD, op2(TK_OP_MUL, x, three), y),
                              tk_uop1(g, TK_OP_RECIPROCAL, tk_uop1(g, TK_OP_RECIPROCAL, x))};
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
        assert_sym(keep[i], keep[i]);
    assert_sym(op2(TK_OP_CMPLT, x, x), expr_int(g, TOLK_BOOL, 0));
    assert_sym(op2(TK_OP_ADD, x, mz), x);
    assert_sym(op2(TK_OP_SUB, x, zero), x);
    assert_sym(op2(TK_OP_MUL, x, tk_uop_const(g, TOLK_F32, f32(1))), x);
    assert_sym(op2(TK_OP_MUL, tk_uop_const(g, TOLK_F32, f32(1)), x), x);
    assert_sym(op2(TK_OP_FDIV, x, tk_uop_const(g, TOLK_F32, f32(-8))),
               op2(TK_OP_MUL, x, tk_uop_const(g, TOLK_F32, f32(-0.125f))));
    const tolk_uop *tiny = op2(TK_OP_FDIV, x, tk_uop_const(g, TOLK_F32, f32(0x1p127f)));
    assert_sym(tiny, tiny); /* 1/c is no normal number */
    expr_done(g);
}

static void test_NAN_07_folded_signs_of_zero(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *mz = tk_uop_const(g, TOLK_F32, 0x80000000), *z = tk_uop_const(g, TOLK_F32, 0);
    assert_sym(tk_uop1(g, TK_OP_NEG, z), mz);
    assert_sym(op2(TK_OP_MUL, z, tk_uop_const(g, TOLK_F32, f32(-1))), mz);
    assert_sym(tk_uop1(g, TK_OP_TRUNC, tk_uop_const(g, TOLK_F32, f32(-0.5f))), mz);
    assert_sym(tk_uop_cast(g, mz, TOLK_F16), tk_uop_const(g, TOLK_F16, 0x8000));
    const tolk_uop *nan = sym(
        tk_uop_bitcast(g, tk_uop1(g, TK_OP_SQRT, tk_uop_const(g, TOLK_F32, f32(-1))), TOLK_U32));
    assert_true(tk_uop_is_const(nan) && (tk_uop_bits(nan) & 0x7fffffff) > 0x7f800000);
    /* NUM-11: nothing traps */
    assert_sym(op2(TK_OP_FDIV, tk_uop_const(g, TOLK_F32, f32(1)), z),
               tk_uop_const(g, TOLK_F32, 0x7f800000));
    assert_sym(tk_uop_cast(g, tk_uop_const(g, TOLK_F32, 0x7fc00000), TOLK_I32),
               expr_int(g, TOLK_I32, 0));
    expr_done(g);
}

/* CG-01: a guard stays in front of what it guards, and the value is the table's either way. */
static void test_CG_01_guarded_shift_folds_by_the_table(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    static const int64_t s[] = {0, 31, 32, 33, 255};
    static const int64_t want[] = {1, INT64_C(2147483648), 0, 0, 0};
    for (int i = 0; i < 5; i++) {
        const tolk_uop *k = expr_int(g, TOLK_U32, s[i]), *one = expr_int(g, TOLK_U32, 1);
        const tolk_uop *u = tk_uop3(g, TK_OP_WHERE, op2k(TK_OP_CMPLT, k, 32),
                                    op2(TK_OP_SHL, one, k), expr_int(g, TOLK_U32, 0));
        assert_sym(u, expr_int(g, TOLK_U32, want[i]));
    }
    expr_done(g);
}

/* Vectors follow the same rules, with splats as constants. */
static void test_vectors_fold_and_simplify_like_scalars(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *i = expr_range(g, 8, 0), *x[4];
    for (int k = 0; k < 4; k++)
        x[k] = op2k(TK_OP_ADD, op2k(TK_OP_MUL, i, 4), k);
    const tolk_uop *v = tk_uop(g, TK_OP_STACK, tolk_dtype_vec(TOLK_INDEX, 4), x, 4, NULL);
    const tolk_uop *two = tk_uop_splat(g, tk_uop_index_const(g, 2), 4),
                   *zero = tk_uop_splat(g, tk_uop_index_const(g, 0), 4);
    const tolk_uop *s = sym(v);
    assert_int_equal(tk_bounds(v).hi, 31);
    assert_sym(op2(TK_OP_SUB, v, v), zero);
    assert_sym(op2(TK_OP_ADD, v, zero), s);
    assert_sym(op2(TK_OP_MUL, two, two), tk_uop_splat(g, tk_uop_index_const(g, 4), 4));
    assert_sym(op2(TK_OP_CMPLT, v, tk_uop_splat(g, tk_uop_index_const(g, 32), 4)),
               tk_uop_splat(g, expr_int(g, TOLK_BOOL, 1), 4));
    assert_sym(op2(TK_OP_FLOORDIV, op2(TK_OP_MUL, v, two), two), s);
    const tolk_uop *lane = tk_uop(g, TK_OP_INDEX, TOLK_INDEX,
                                  (const tolk_uop *[]){v, tk_uop_index_const(g, 2)}, 2, NULL);
    assert_sym(lane, sym(x[2]));
    expr_done(g);
}

/* Builders give what tk_sym gives on sums of simplified sources, and nothing with symbolic_off. */
static void test_builders_simplify_what_they_make(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    const tolk_uop *i = expr_range(g, 8, 0), *j = expr_range(g, 8, 1);
    const tolk_uop *f = tk_sym_add(g, tk_sym_mul_const(g, i, 8), j);
    assert_ptr_equal(tk_sym_div_const(g, f, 8), i);
    assert_ptr_equal(tk_sym_mod_const(g, f, 8), j);
    assert_ptr_equal(tk_sym_sub(g, tk_sym_add_const(g, i, 3), i), tk_uop_index_const(g, 3));
    assert_true(tk_uop_is_int(tk_sym_lt_const(g, f, 64), 1));
    assert_ptr_equal(tk_sym_not(g, tk_sym_not(g, tk_sym_lt(g, i, j))), tk_sym_lt(g, i, j));
    assert_ptr_equal(tk_sym_and(g, tk_sym_lt_const(g, i, 3), tk_sym_lt_const(g, i, 8)),
                     tk_sym_lt_const(g, i, 3));
    const tolk_uop *n = expr_param(g, TOLK_INDEX, 0, 1, 100),
                   *m = tk_sym_min(g, n, tk_uop_index_const(g, 10));
    assert_int_equal(tk_bounds(m).lo, 1);
    assert_int_equal(tk_bounds(m).hi, 10);
    assert_ptr_equal(tk_sym_min(g, i, n->graph == g ? tk_uop_index_const(g, 10) : NULL), i);
    const tolk_uop *u = expr_param(g, TOLK_U8, 1, 0, 255);
    m = tk_sym_min(g, u, expr_int(g, TOLK_U8, 9));
    assert_int_equal(tk_bounds(m).hi, 9);
    assert_null(tk_sym_add(g, NULL, i));
    assert_null(tk_sym_min(g, i, NULL));
    g->symbolic_off = true;
    assert_true(tk_uop_is(tk_sym_sub(g, i, i), TK_OP_SUB));
    expr_done(g);
}

static void *sym_deep(void *arg) {
    tolk_graph *g = arg;
    const tolk_uop *i = expr_range(g, 8, 0), *x = expr_param(g, TOLK_I32, 0, INT64_MIN, INT64_MAX);
    const tolk_uop *y = expr_param(g, TOLK_F32, 1, 0, 0), *z = expr_param(g, TOLK_F32, 2, 0, 0);
    const tolk_uop *a = i, *b = x, *c = y, *d = x;
    for (int k = 0; k < 25000; k++) {
        a = op2k(TK_OP_ADD, op2(TK_OP_ADD, a, i), 1);
        b = op2k(TK_OP_XOR, op2k(TK_OP_ADD, b, 1), k);
        c = op2(TK_OP_ADD, op2(TK_OP_MUL, c, z), y);
        d = op2(TK_OP_ADD, op2(TK_OP_MUL, d, x),
                expr_param(g, TOLK_I32, k + 9, INT64_MIN, INT64_MAX));
    }
    a = tk_sym(g, a);
    bool ok =
        a == op2k(TK_OP_ADD, op2k(TK_OP_MUL, i, 25001), 25000) && tk_sym(g, b) && tk_sym(g, d);
    return ok && tk_sym(g, c) == c ? g : NULL;
}

static void test_sym_depth_100000_on_a_small_stack(void **state) {
    (void)state;
    tolk_graph *g = expr_graph();
    assert_ptr_equal(tk_test_on_stack(512 << 10, sym_deep, g), g);
    expr_done(g);
}

static tolk_status sym_with(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx;
    tolk_graph *g;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    TK_TRY(tk_ctx_init(&opts, &ctx, NULL));
    tolk_status s = tk_graph_create(ctx, &g);
    if (s == TOLK_OK) {
        const tolk_uop *k = tk_uop_index_const(g, 8);
        const tolk_uop *i = k ? tk_uop_range(g, k, 0, TK_AXIS_LOOP) : NULL;
        const tolk_uop *j = k ? tk_uop_range(g, k, 1, TK_AXIS_LOOP) : NULL, *u = i;
        for (int n = 0; u && j && n < 12; n++) {
            u = tk_uop2(g, TK_OP_FLOORDIV, tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, u, k), j),
                        k);
            u = tk_uop2(g, TK_OP_MAX, tk_uop2(g, TK_OP_ADD, u, i),
                        tk_uop2(g, TK_OP_FLOORMOD, u, k));
        }
        const tolk_uop *c = u ? tk_uop2(g, TK_OP_CMPLT, u, k) : NULL;
        c = c ? tk_uop2(g, TK_OP_AND, c, tk_uop2(g, TK_OP_CMPLT, u, i)) : NULL;
        u = c ? tk_sym(g, c) : NULL;
        s = u ? TOLK_OK : g->error.code;
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return s;
}

static void test_sym_out_of_memory_is_reported(void **state) {
    (void)state;
    assert_true(tk_test_oom(sym_with, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_INT_01_least_by_minus_one_folds_without_a_trap),
        cmocka_unit_test(test_INT_03_division_by_zero_is_guarded_as_it_was),
        cmocka_unit_test(test_INT_07_division_by_powers_of_two_keeps_its_rounding),
        cmocka_unit_test(test_INT_11_linear_numerators_exhaustive),
        cmocka_unit_test(test_INT_11_nested_and_two_terms_exhaustive),
        cmocka_unit_test(test_INT_13_shifts_are_no_overflowing_products),
        cmocka_unit_test(test_INT_15_comparisons_of_values_that_wrap_are_kept),
        cmocka_unit_test(test_sum_like_terms_merge),
        cmocka_unit_test(test_sum_index_has_one_form),
        cmocka_unit_test(test_comparison_by_bounds_and_forms),
        cmocka_unit_test(test_gated_index_keeps_its_gate_outermost),
        cmocka_unit_test(test_range_of_one_is_zero_in_sums_but_still_a_range),
        cmocka_unit_test(test_NUM_07_cast_down_and_up_stays),
        cmocka_unit_test(test_cast_up_and_down_goes),
        cmocka_unit_test(test_cast_pairs_keep_values),
        cmocka_unit_test(test_NAN_05_float_identities_that_fail_are_not_used),
        cmocka_unit_test(test_NAN_07_folded_signs_of_zero),
        cmocka_unit_test(test_CG_01_guarded_shift_folds_by_the_table),
        cmocka_unit_test(test_vectors_fold_and_simplify_like_scalars),
        cmocka_unit_test(test_builders_simplify_what_they_make),
        cmocka_unit_test(test_sym_depth_100000_on_a_small_stack),
        cmocka_unit_test(test_sym_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
