/* SPDX-License-Identifier: MIT
 *
 * Symbolic algebra and bounds on random expressions: every value stays, and is within its bounds.
 */
#include "ir/sym_check.h"

#include <math.h>

/* ---- random expressions ---- */

typedef struct maker {
    tolk_graph *g;
    uint64_t rand;
    const tolk_uop *at[96];
    uint32_t n, n_leaves;
} maker;

static uint64_t rnd(maker *m, uint64_t below) {
    return tk_test_rand(&m->rand) % below;
}

static int64_t some_int(maker *m) {
    static const int64_t special[] = {
        0,  1,   -1,   2,   -2,        3,         4,         7,         8,  16, 31, 32, 63,
        64, 127, -128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 12, 24, -8, -3, 5};
    return rnd(m, 4) ? special[rnd(m, sizeof special / sizeof *special)] : (int64_t)rnd(m, 41) - 20;
}

static const tolk_uop *pick(maker *m, tolk_dtype dt) {
    for (int tries = 0; tries < 40; tries++) {
        const tolk_uop *u = m->at[rnd(m, m->n)];
        if (u->dtype == dt)
            return u;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->at[i]->dtype == dt)
            return m->at[i];
    return NULL;
}

static void make_leaves(maker *m, const tolk_dtype *dts, uint32_t n) {
    m->n = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            int64_t lo = some_int(m), hi = some_int(m);
            if (lo > hi) {
                int64_t t = lo;
                lo = hi;
                hi = t;
            }
            tolk_dtype dt = dts[i];
            bool small = rnd(m, 2);
            if (small) {
                lo = (int64_t)rnd(m, 9) - (tk_dtype_min(dt) < 0 ? 5 : 0);
                lo = lo < 0 && tk_dtype_min(dt) == 0 ? 0 : lo;
                hi = lo + (int64_t)rnd(m, 12);
            }
            if (dt == TOLK_BOOL)
                lo = 0, hi = 1;
            /* what a launch would accept: values of the dtype within the bounds */
            if (lo < tk_dtype_min(dt))
                lo = tk_dtype_min(dt);
            if (hi > tk_dtype_max(dt))
                hi = tk_dtype_max(dt);
            if (lo > hi)
                lo = hi;
            m->at[m->n] = dt == TOLK_INDEX && rnd(m, 2)
                              ? expr_range(m->g, 1 + (int64_t)rnd(m, 20), (int64_t)m->n)
                              : expr_param(m->g, dt, (int64_t)m->n, lo, hi);
            m->n++;
        }
    m->n_leaves = m->n;
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            m->at[m->n++] =
                expr_int(m->g, dts[i], dts[i] == TOLK_BOOL ? (int64_t)rnd(m, 2) : some_int(m));
}

static const tk_op int_ops[] = {
    TK_OP_ADD,  TK_OP_ADD,      TK_OP_SUB,      TK_OP_MUL,      TK_OP_MUL,      TK_OP_CDIV,
    TK_OP_CMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD, TK_OP_MAX,
    TK_OP_SHL,  TK_OP_SHR,      TK_OP_AND,      TK_OP_OR,       TK_OP_XOR};

static const tolk_uop *make_node(maker *m, const tolk_dtype *dts, uint32_t n_dts) {
    tolk_dtype dt = dts[rnd(m, n_dts)];
    const tolk_uop *a = pick(m, dt), *b = pick(m, dt), *c = pick(m, TOLK_BOOL);
    uint64_t kind = rnd(m, 20);
    if (kind == 0)
        return tk_uop3(m->g, TK_OP_WHERE, c, a, b);
    if (kind == 1 && dt != TOLK_BOOL)
        return tk_uop_cast(m->g, pick(m, dts[rnd(m, n_dts)]), dt);
    if (kind <= 4) {
        static const tk_op cmp[] = {TK_OP_CMPLT, TK_OP_CMPLT, TK_OP_CMPNE, TK_OP_CMPEQ};
        return tk_uop2(m->g, cmp[rnd(m, 4)], a, b);
    }
    if (dt == TOLK_BOOL) {
        static const tk_op ops[] = {TK_OP_AND, TK_OP_OR,  TK_OP_XOR,
                                    TK_OP_ADD, TK_OP_MUL, TK_OP_MAX};
        return tk_uop2(m->g, ops[rnd(m, 6)], a, b);
    }
    if (kind == 5)
        return tk_uop1(m->g, TK_OP_NEG, a);
    if (kind == 6)
        return tk_uop3(m->g, TK_OP_MULACC, a, b, pick(m, dt));
    if (rnd(m, 2)) /* a constant operand, mostly a small one */
        b = expr_int(m->g, dt, some_int(m));
    return tk_uop2(m->g, int_ops[rnd(m, sizeof int_ops / sizeof *int_ops)], a, b);
}

static uint64_t leaf_value(maker *m, const tolk_uop *u) {
    tk_wide_bound b = tk_bounds_wide(u);
    uint64_t span = (uint64_t)(b.hi - b.lo), off;
    switch (rnd(m, 4)) {
    case 0:
        off = 0;
        break;
    case 1:
        off = span;
        break;
    default:
        off = span == UINT64_MAX ? tk_test_rand(&m->rand) : tk_test_rand(&m->rand) % (span + 1);
    }
    return tk_dtype_canon(u->dtype, (uint64_t)b.lo + off);
}

static void assert_in_bounds(const tk_walk_list *list, const expr_values *v, const tolk_uop *root) {
    for (size_t i = 0; i < list->n; i++) {
        const tolk_uop *u = list->at[i];
        if (!tolk_dtype_is_int(u->dtype) && u->dtype != TOLK_BOOL)
            continue;
        tk_wide_bound b = tk_bounds_wide(u);
        tk_wide x =
            u->dtype == TOLK_U64 ? (tk_wide)v->bits[u->id] : (tk_wide)(int64_t)v->bits[u->id];
        if (x < b.lo || x > b.hi) {
            expr_print(root);
            fail_msg("%%%u is %lld, bounds [%lld, %lld]", (unsigned)u->id, (long long)x,
                     (long long)b.lo, (long long)b.hi);
        }
    }
}

static void one_random(uint64_t seed, comparison *c) {
    maker m = {.g = expr_graph(), .rand = seed};
    tolk_dtype dts[3] = {rnd(&m, 2) ? TOLK_INDEX : ints[rnd(&m, INTS)], ints[rnd(&m, INTS)],
                         TOLK_BOOL};
    make_leaves(&m, dts, 3);
    uint64_t steps = 1 + rnd(&m, 24);
    for (uint64_t i = 0; i < steps; i++) {
        const tolk_uop *u = make_node(&m, dts, 3);
        assert_non_null(u);
        m.at[m.n++] = u;
    }
    const tolk_uop *u = m.at[m.n - 1], *v = sym(u);
    if (sym(v) != v) {
        expr_print(u);
        fail_msg("seed 0x%llx: not a fixpoint", (unsigned long long)seed);
    }
    expr_list(u, &c->before);
    expr_list(v, &c->after);
    for (size_t i = 0; i < c->after.n; i++)
        (void)tk_bounds(c->after.at[i]);
    expr_values_size(&c->values, m.g);
    for (int k = 0; k < 12; k++) {
        for (uint32_t i = 0; i < m.n_leaves; i++)
            c->values.bits[m.at[i]->id] = leaf_value(&m, m.at[i]);
        uint64_t a = expr_eval(&c->before, &c->values);
        assert_in_bounds(&c->before, &c->values, u);
        uint64_t b = expr_eval(&c->after, &c->values);
        assert_in_bounds(&c->after, &c->values, v);
        if (!tk_scalar_same(u->dtype, a, b)) {
            expr_print(u);
            fprintf(stderr, "simplified:\n");
            expr_print(v);
            for (uint32_t i = 0; i < m.n_leaves; i++)
                fprintf(stderr, "%%%u = %lld\n", (unsigned)m.at[i]->id,
                        (long long)c->values.bits[m.at[i]->id]);
            fail_msg("seed 0x%llx: %lld, simplified %lld", (unsigned long long)seed, (long long)a,
                     (long long)b);
        }
    }
    expr_done(m.g);
}

static void test_random_expressions_keep_every_value(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    uint64_t n = tk_test_count(100000);
    for (uint64_t i = 0; i < n; i++)
        one_random(tk_test_seed() * 1000003 + i, &c);
    compare_fini(&c);
}

/* Floats: special values in, the same value out (any NaN is any NaN). */
static void one_random_float(uint64_t seed, comparison *c) {
    static const tolk_dtype dts[] = {TOLK_F32, TOLK_F64, TOLK_F16, TOLK_BF16, TOLK_FP8E5M2};
    static const double special[] = {0.0,      -0.0,    1.0,      -1.0,      2.0,
                                     -0.125,   3.0,     INFINITY, -INFINITY, NAN,
                                     0x1p-149, 0x1p127, -0x1p-14, 65504.0,   0.1};
    static const tk_op ops[] = {TK_OP_ADD, TK_OP_SUB, TK_OP_MUL, TK_OP_FDIV, TK_OP_MAX, TK_OP_MUL};
    enum { SPECIALS = sizeof special / sizeof *special, LEAVES = 3 };
    maker m = {.g = expr_graph(), .rand = seed};
    tolk_dtype dt = dts[rnd(&m, 5)], other = dts[rnd(&m, 5)];
    for (int i = 0; i < LEAVES; i++)
        m.at[m.n++] = expr_param(m.g, dt, i, 0, 0);
    m.at[m.n++] = op2(TK_OP_CMPLT, m.at[0], m.at[1]);
    for (uint64_t i = 0, n = 1 + rnd(&m, 12); i < n; i++) {
        const tolk_uop *a = pick(&m, dt), *b = pick(&m, dt);
        uint64_t bits;
        memcpy(&bits, &special[rnd(&m, SPECIALS)], sizeof bits);
        if (rnd(&m, 2))
            b = tk_uop_const(m.g, dt, tk_scalar_cast(TOLK_F64, dt, bits));
        if (rnd(&m, 8) == 0) {
            const tolk_uop *t = a;
            a = b;
            b = t;
        }
        switch (rnd(&m, 10)) {
        case 0:
            m.at[m.n++] = tk_uop1(m.g, rnd(&m, 2) ? TK_OP_NEG : TK_OP_TRUNC, a);
            break;
        case 1:
            m.at[m.n++] = tk_uop_cast(m.g, tk_uop_cast(m.g, a, other), dt);
            break;
        case 2:
            m.at[m.n++] = tk_uop3(m.g, TK_OP_WHERE, pick(&m, TOLK_BOOL), a, b);
            break;
        case 3: {
            static const tk_op cmp[] = {TK_OP_CMPLT, TK_OP_CMPNE, TK_OP_CMPEQ};
            const tolk_uop *p = op2(cmp[rnd(&m, 3)], a, b);
            m.at[m.n++] = rnd(&m, 2) ? op2k(TK_OP_CMPNE, p, 1) : p;
            break;
        }
        case 4:
            m.at[m.n++] = tk_uop3(m.g, TK_OP_MULACC, a, b, pick(&m, dt));
            break;
        default:
            m.at[m.n++] = op2(ops[rnd(&m, 6)], a, b);
        }
    }
    const tolk_uop *u = m.at[m.n - 1], *v = sym(u);
    expr_list(u, &c->before);
    expr_list(v, &c->after);
    expr_values_size(&c->values, m.g);
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < LEAVES; i++) {
            uint64_t bits;
            memcpy(&bits, &special[rnd(&m, SPECIALS)], sizeof bits);
            if (rnd(&m, 4) == 0)
                bits = tk_test_rand(&m.rand);
            c->values.bits[m.at[i]->id] = tk_scalar_cast(TOLK_F64, dt, bits);
        }
        uint64_t a = expr_eval(&c->before, &c->values), b = expr_eval(&c->after, &c->values);
        if (!tk_scalar_same(u->dtype, a, b)) {
            expr_print(u);
            fprintf(stderr, "simplified:\n");
            expr_print(v);
            fail_msg("seed 0x%llx: %llx, simplified %llx", (unsigned long long)seed,
                     (unsigned long long)a, (unsigned long long)b);
        }
    }
    expr_done(m.g);
}

static void test_random_floats_keep_every_value(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    uint64_t n = tk_test_count(40000);
    for (uint64_t i = 0; i < n; i++)
        one_random_float(tk_test_seed() * 1000033 + i, &c);
    compare_fini(&c);
}

/* ---- proofs ---- */

/* A sum of small multiples of the leaves, sometimes divided or cut by a constant. */
static const tolk_uop *some_sum(maker *m) {
    const tolk_uop *u = expr_int(m->g, TOLK_INDEX, (int64_t)rnd(m, 9) - 4);
    for (uint64_t i = 0, n = 1 + rnd(m, 3); i < n; i++) {
        const tolk_uop *t = op2k(TK_OP_MUL, m->at[rnd(m, m->n_leaves)], (int64_t)rnd(m, 7) - 3);
        static const tk_op ops[] = {TK_OP_FLOORDIV, TK_OP_FLOORMOD, TK_OP_CDIV, TK_OP_MAX};
        if (rnd(m, 4) == 0)
            t = op2k(ops[rnd(m, 4)], t, 1 + (int64_t)rnd(m, 4));
        u = op2(TK_OP_ADD, u, t);
    }
    return u;
}

/* What is proved holds for all values of three leaves, the third a range as long as the second. */
static bool one_random_proof(uint64_t seed, comparison *c) {
    maker m = {.g = expr_graph(), .rand = seed};
    int64_t x0 = (int64_t)rnd(&m, 6) - 3, x1 = x0 + (int64_t)rnd(&m, 7),
            n1 = 1 + (int64_t)rnd(&m, 6);
    const tolk_uop *x = m.at[m.n++] = expr_param(m.g, TOLK_INDEX, 0, x0, x1);
    const tolk_uop *n = m.at[m.n++] = expr_param(m.g, TOLK_INDEX, 1, 1, n1);
    const tolk_uop *r = m.at[m.n++] = tk_uop_range(m.g, n, 0, TK_AXIS_LOOP);
    m.n_leaves = m.n;
    const tolk_uop *a = some_sum(&m), *b = some_sum(&m), *gate = NULL;
    for (uint64_t i = 0, k = rnd(&m, 4); i < k; i++) {
        bool same = rnd(&m, 2); /* gates that speak of what is to be proved */
        const tolk_uop *p = op2(rnd(&m, 5) ? TK_OP_CMPLT : TK_OP_CMPEQ, same ? a : some_sum(&m),
                                rnd(&m, 2) ? b : some_sum(&m));
        if (rnd(&m, 4) == 0)
            p = op2k(TK_OP_CMPNE, p, 1);
        gate = gate ? op2(rnd(&m, 6) ? TK_OP_AND : TK_OP_OR, gate, p) : p;
    }
    bool proved = tk_bounds_prove_lt(a, b, gate);
    bool less = tk_bounds_prove_less(a, b, gate);
    assert_true(less || !proved);
    const tolk_uop *lt = op2(TK_OP_CMPLT, a, b);
    const tolk_uop *all =
        gate ? tk_uop3(m.g, TK_OP_WHERE, gate, lt, expr_int(m.g, TOLK_BOOL, 1)) : lt;
    expr_list(all, &c->before);
    expr_values_size(&c->values, m.g);
    uint64_t *v = c->values.bits;
    for (int64_t i = x0; i <= x1; i++)
        for (int64_t j = 1; j <= n1; j++)
            for (int64_t k = 0; k < j; k++) {
                v[x->id] = (uint64_t)i;
                v[n->id] = (uint64_t)j;
                v[r->id] = (uint64_t)k;
                uint64_t ok = expr_eval(&c->before, &c->values);
                bool open = !gate || v[gate->id];
                if ((less && !ok) || (proved && open && (int64_t)v[a->id] < 0)) {
                    expr_print(all);
                    fail_msg("seed 0x%llx: proved, but not so at %d %d %d",
                             (unsigned long long)seed, (int)i, (int)j, (int)k);
                }
            }
    bool by_facts = less && !(tk_bounds_wide(a).hi < tk_bounds_wide(b).lo);
    expr_done(m.g);
    return by_facts;
}

static void test_random_proofs_hold(void **state) {
    (void)state;
    comparison c;
    compare_init(&c);
    uint64_t n = tk_test_count(100000), proved = 0;
    for (uint64_t i = 0; i < n; i++)
        proved += one_random_proof(tk_test_seed() * 1000037 + i, &c);
    assert_true(proved > n / 20); /* many need more than the bounds of both sides */
    compare_fini(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_expressions_keep_every_value),
        cmocka_unit_test(test_random_floats_keep_every_value),
        cmocka_unit_test(test_random_proofs_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
