/* SPDX-License-Identifier: MIT
 *
 * The expansion of mulacc for targets without FMA: evaluated node by node and compared with the C
 * library's fma and fmaf, which are exact.
 */
#include "ir/softfma.h"

#include "ir/expr.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* One expansion, ready to be evaluated. */
typedef struct expansion {
    tolk_graph *g;
    const tolk_uop *x[3];
    tk_walk_list list;
    expr_values values;
    tolk_dtype dtype;
} expansion;

static void expansion_init(expansion *e, tolk_dtype dtype) {
    memset(e, 0, sizeof *e);
    e->g = expr_graph();
    e->dtype = dtype;
    for (int i = 0; i < 3; i++)
        e->x[i] = expr_param(e->g, dtype, i, INT64_MIN, INT64_MAX);
    const tolk_uop *r = tk_softfma_expand(e->g, e->x[0], e->x[1], e->x[2]);
    assert_non_null(r);
    assert_int_equal(r->dtype, dtype);
    tk_vec_init(&e->list, e->g->al);
    expr_list(r, &e->list);
    expr_values_size(&e->values, e->g);
}

static void expansion_fini(expansion *e) {
    free(e->values.bits);
    tk_vec_fini(&e->list);
    expr_done(e->g);
}

static double real(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t bits_of(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float real32(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t bits_of32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static void check(expansion *e, uint64_t a, uint64_t b, uint64_t c) {
    e->values.bits[e->x[0]->id] = a;
    e->values.bits[e->x[1]->id] = b;
    e->values.bits[e->x[2]->id] = c;
    uint64_t got = expr_eval(&e->list, &e->values);
    uint64_t want = e->dtype == TOLK_F32 ? bits_of32(fmaf(real32(a), real32(b), real32(c)))
                                         : bits_of(fma(real(a), real(b), real(c)));
    if (!tk_scalar_same(e->dtype, got, want))
        fail_msg("fma of %#llx, %#llx, %#llx (%s): %#llx, expected %#llx", (unsigned long long)a,
                 (unsigned long long)b, (unsigned long long)c, tolk_dtype_name(e->dtype),
                 (unsigned long long)got, (unsigned long long)want);
}

/* ---- operands ---- */

enum { MAX_EDGES = 64 };

/* Both signs of: zero, denormals, normals at every end, ones with a first and a last bit, large. */
static uint32_t edges(tolk_dtype dtype, uint64_t *out) {
    uint32_t digits = dtype == TOLK_F32 ? 23 : 52, top = dtype == TOLK_F32 ? 8 : 11, n = 0;
    uint64_t one = 1, sign = one << (digits + top), exps = ((one << top) - 1) << digits;
    uint64_t bias = (((one << top) - 1) >> 1) << digits, step = one << digits, last = step - 1;
    uint64_t sizes[] = {0,
                        1,
                        2,
                        3,
                        last,     /* greatest denormal */
                        step / 2, /* a denormal power of two */
                        step,     /* least normal */
                        step + 1,
                        2 * step,
                        2 * step - 1,
                        bias, /* 1 */
                        bias + 1,
                        bias - 1,
                        bias + step, /* 2 */
                        bias - step, /* 1/2 */
                        bias + last,
                        bias + step / 2, /* 1.5 */
                        bias + digits * step,
                        bias + digits * step + 1,
                        bias - digits * step,
                        bias - (digits + 1) * step,
                        bias - (digits + 1) * step + 1,
                        bias / 2,
                        bias / 2 + 1,
                        bias + bias / 2,
                        exps - step,     /* greatest power of two */
                        exps - 1,        /* greatest number */
                        exps,            /* infinity */
                        exps + step / 2, /* NaN */
                        exps + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int s = 0; s < 2; s++)
            out[n++] = sizes[i] | (s ? sign : 0);
    return n;
}

static uint64_t random_bits(tolk_dtype dtype, uint64_t *random) {
    uint64_t r = tk_test_rand(random);
    return dtype == TOLK_F32 ? r >> 32 : r;
}

/* Few bits set or few clear, so that ties and exact sums are frequent. */
static uint64_t sparse(tolk_dtype dtype, uint64_t *random) {
    uint64_t r = tk_test_rand(random);
    uint32_t digits = dtype == TOLK_F32 ? 23 : 52;
    uint64_t m = 0;
    for (uint32_t i = 0; i < (r & 3); i++)
        m |= (uint64_t)1 << (r >> (8 * (i + 1))) % digits;
    if (r & 4)
        m = (((uint64_t)1 << digits) - 1) ^ m;
    return (random_bits(dtype, random) >> digits << digits) | m;
}

/* x * 2^e in the dtype: moves x where something happens. */
static uint64_t scaled(tolk_dtype dtype, uint64_t x, int e) {
    return dtype == TOLK_F32 ? bits_of32(ldexpf(real32(x), e)) : bits_of(ldexp(real(x), e));
}

static int exponent(tolk_dtype dtype, uint64_t x) {
    double v = dtype == TOLK_F32 ? (double)real32(x) : real(x);
    int e = 0;
    if (isfinite(v))
        (void)frexp(v, &e);
    return e;
}

/* Operands of every kind: unrelated; the product near a chosen exponent (denormal results,
 * overflow), and c near the product, its negative, or far from it. */
static void random_case(expansion *e, uint64_t *random) {
    tolk_dtype dt = e->dtype;
    uint64_t r = tk_test_rand(random), x[3];
    for (int i = 0; i < 3; i++)
        x[i] = r >> i & 1 ? sparse(dt, random) : random_bits(dt, random);
    if (r & 8) {
        static const int centre[2][4] = {{0, -149, -126, 128}, {0, -1074, -1022, 1024}};
        int to = centre[dt == TOLK_F64][r >> 4 & 3] + (int)(r >> 8 & 7) - 4;
        int ea = (int)(r >> 16 & 255) - 128;
        x[0] = scaled(dt, x[0], ea - exponent(dt, x[0]));
        x[1] = scaled(dt, x[1], to - ea - exponent(dt, x[1]));
        int spread = r & 64 ? 3 : dt == TOLK_F32 ? 60 : 130;
        int ec = to + (int)((r >> 32) % (uint64_t)(2 * spread + 1)) - spread;
        x[2] = scaled(dt, x[2], ec - exponent(dt, x[2]));
        if (r & 128) { /* what cancels all but a few bits */
            uint64_t p = dt == TOLK_F32 ? bits_of32(-real32(x[0]) * real32(x[1]))
                                        : bits_of(-real(x[0]) * real(x[1]));
            x[2] = p + (r >> 40 & 7) - 3;
            if (dt == TOLK_F32)
                x[2] &= UINT32_MAX;
        }
    }
    check(e, x[0], x[1], x[2]);
}

/* ---- tests ---- */

static void check_edges(tolk_dtype dtype) {
    expansion e;
    expansion_init(&e, dtype);
    uint64_t edge[MAX_EDGES];
    uint32_t n = edges(dtype, edge);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t k = 0; k < n; k++)
                check(&e, edge[i], edge[j], edge[k]);
    expansion_fini(&e);
}

static void test_f32_all_triples_of_edge_values_are_rounded_once(void **state) {
    (void)state;
    check_edges(TOLK_F32);
}

static void test_f64_all_triples_of_edge_values_are_rounded_once(void **state) {
    (void)state;
    check_edges(TOLK_F64);
}

static void check_random(tolk_dtype dtype, uint64_t full) {
    expansion e;
    expansion_init(&e, dtype);
    uint64_t random = tk_test_seed() + dtype, n = tk_test_count(full);
    for (uint64_t i = 0; i < n; i++)
        random_case(&e, &random);
    expansion_fini(&e);
}

static void test_f32_random_operands_are_rounded_once(void **state) {
    (void)state;
    check_random(TOLK_F32, 10000000);
}

static void test_f64_random_operands_are_rounded_once(void **state) {
    (void)state;
    check_random(TOLK_F64, 10000000);
}

/* Each of these goes wrong in one of the known ways to do it nearly right. */
static void test_f64_double_rounding_underflow_and_overflow_are_avoided(void **state) {
    (void)state;
    static const double cases[][3] = {
        /* a * b is a tie; what follows is far below. */
        {0x1.0000000000001p0, 0x1.0000000000001p0, 0x1p-1074},
        {0x1.0000000000001p0, 0x1.8p0, -0x1p-1074},
        /* The product overflows, the sum does not. */
        {0x1p1023, 2, -DBL_MAX},
        {0x1p1000, 0x1p24, -0x1.8p1023},
        {DBL_MAX, 0x1.0000000000001p0, -DBL_MAX},
        /* Just at the end. */
        {0x1.fffffffffffffp511, 0x1.0000000000001p512, 0x1p969},
        {DBL_MAX, 1, 0x1p969},
        {DBL_MAX, 1, 0x1.fffffffffffffp969},
        {DBL_MAX, 1, 0x1p970},
        /* The product is below all numbers and decides a tie, or a sign. */
        {0x1p-1074, 0x1p-1074, 0x1p-1074},
        {-0x1p-1074, 0x1p-1074, 0x1p-1022},
        {-0x1p-1074, 0x1p-1074, 0},
        {-0x1p-1074, 0x1p-1074, -0.0},
        {0x1p-1074, 0x1p-1074, 0},
        {0x1p-1074, 0.5, 0},
        {0x1.8p-1074, 0.5, 0},
        {0x1p-600, 0x1p-475, 0},
        {0x1.0000000000001p-600, 0x1p-475, 0},
        {0x1p-600, 0x1p-475, 0x1p-1074},
        {0x1.0000000000001p-600, -0x1p-475, 0x1p-1074},
        /* The sum rounds to a denormal, or up to the least normal number. */
        {0x1.fffffffffffffp-512, 0x1.0000000000001p-511, 0},
        {0x1.fffffffffffffp-512, 0x1p-511, 0},
        {0x1.fffffffffffffp-512, 0x1.0000000000001p-511, -0x1p-1074},
        {0x1.0000000000001p-511, 0x1.0000000000001p-511, -0x1p-1074},
        {0x1.0000000000001p-511, 0x1.fffffffffffffp-512, 0x1p-1074},
        /* All but the last bits cancel. */
        {0x1.0000000000001p0, 0x1.0000000000001p0, -0x1.0000000000002p0},
        {0x1.fffffffffffffp0, 0x1.fffffffffffffp0, -0x1.ffffffffffffep1},
        {0x1.0000000000001p-537, 0x1.0000000000001p-500, -0x1.0000000000002p-1037},
        {3, 1.0 / 3, -1},
        {1, 1, -1},
        {-1, 1, 1},
        {-0.0, 1, 0},
        {-0.0, 1, -0.0},
        {INFINITY, 1, -INFINITY},
        {1e300, 1e300, -INFINITY},
        {1e300, 1e300, NAN},
        {INFINITY, 0, 1},
    };
    expansion e;
    expansion_init(&e, TOLK_F64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int s = 0; s < 4; s++)
            check(&e, bits_of(s & 1 ? -cases[i][0] : cases[i][0]), bits_of(cases[i][1]),
                  bits_of(s & 2 ? -cases[i][2] : cases[i][2]));
    expansion_fini(&e);
}

static void test_lanes_and_bad_dtypes_are_as_promised(void **state) {
    (void)state;
    static const tolk_dtype dtypes[2] = {TOLK_F32, TOLK_F64};
    tolk_graph *g = expr_graph();
    for (int i = 0; i < 2; i++) {
        const tolk_uop *x = tk_uop_splat(g, expr_param(g, dtypes[i], i, 0, 0), 8);
        const tolk_uop *r = tk_softfma_expand(g, x, x, x);
        assert_non_null(r);
        assert_int_equal(r->dtype, tolk_dtype_vec(dtypes[i], 8));
        /* No multiply-add among the nodes, nor what could be contracted away. */
        tk_walk_list list;
        tk_vec_init(&list, g->al);
        expr_list(r, &list);
        for (size_t k = 0; k < list.n; k++)
            assert_false(tk_uop_is(list.at[k], TK_OP_MULACC));
        tk_vec_fini(&list);
    }
    assert_null(tk_softfma_expand(g, NULL, NULL, NULL));
    assert_false(tk_graph_failed(g));
    const tolk_uop *h = expr_param(g, TOLK_F16, 7, 0, 0);
    assert_null(tk_softfma_expand(g, h, h, h));
    assert_int_equal(g->error.code, TOLK_E_UNSUPPORTED);
    expr_done(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_all_triples_of_edge_values_are_rounded_once),
        cmocka_unit_test(test_f64_all_triples_of_edge_values_are_rounded_once),
        cmocka_unit_test(test_f32_random_operands_are_rounded_once),
        cmocka_unit_test(test_f64_random_operands_are_rounded_once),
        cmocka_unit_test(test_f64_double_rounding_underflow_and_overflow_are_avoided),
        cmocka_unit_test(test_lanes_and_bad_dtypes_are_as_promised),
    };
    return cmocka_run_group_tests_name("ir.softfma", tests, NULL, NULL);
}
