/* SPDX-License-Identifier: MIT
 *
 * Every op of f32 and f64 on all pairs (mulacc: triples) of edge values: the interpreter against
 * the C compiler's arithmetic and against stated values, code against the interpreter. The math
 * functions take their operands as constants here, and from memory in test_math_jit.c.
 */
#include "support/tk_edge.h"
#include "support/tk_edge_op.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/mathfn.h"

#include <math.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const tolk_dtype floats[] = {TOLK_F32, TOLK_F64};

/* ---- the value table, again ---- */

static float f32_of(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static double f64_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t f32(double v) { /* v is one */
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static uint64_t f64(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double larger(double x, double y) {
    if (isnan(x) || isnan(y))
        return (double)NAN;
    if (x == 0 && y == 0)
        return signbit(x) && signbit(y) ? -0.0 : 0.0;
    return x > y ? x : y;
}

/* In f64, whose rounding of a sum, product, quotient or root of two f32 never shows in f32. */
static double result(tk_op op, double x, double y) {
    switch (op) {
    case TK_OP_NEG:
        return copysign(x, signbit(x) ? 1 : -1);
    case TK_OP_SQRT:
        return sqrt(x);
    case TK_OP_RECIPROCAL:
        return 1 / x;
    case TK_OP_TRUNC:
        return fabs(x) < 0x1p52 ? copysign((double)(int64_t)x, x) : x;
    case TK_OP_ADD:
        return x + y;
    case TK_OP_SUB:
        return x - y;
    case TK_OP_MUL:
        return x * y;
    case TK_OP_FDIV:
        return x / y;
    case TK_OP_MAX:
        return larger(x, y);
    default:
        fail_msg("no model of %s", tk_op_get(op)->name);
        return 0;
    }
}

static uint64_t model(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b, uint64_t c) {
    const bool narrow = dt == TOLK_F32;
    const double x = narrow ? (double)f32_of(a) : f64_of(a);
    const double y = narrow ? (double)f32_of(b) : f64_of(b);
    switch (op) {
    case TK_OP_CMPLT:
        return x < y;
    case TK_OP_CMPNE:
        return x != y;
    case TK_OP_CMPEQ:
        return x == y;
    case TK_OP_MULACC:
        return narrow ? f32((double)fmaf(f32_of(a), f32_of(b), f32_of(c)))
                      : f64(fma(x, y, f64_of(c)));
    default:
        return narrow ? f32(result(op, x, y)) : f64(result(op, x, y));
    }
}

/* ---- ops ---- */

static bool has_model(tk_op op) {
    return op != TK_OP_CAST && op != TK_OP_BITCAST && op != TK_OP_WHERE && !tk_mathfn_is(op);
}

typedef void (*op_test)(tk_op op, tolk_dtype dtype, tk_edge_model model);

static void for_each(op_test test) {
    for (int op = 0; op < TK_OP_COUNT; op++)
        for (size_t d = 0; d < COUNT(floats); d++)
            if (tk_edge_op_takes((tk_op)op, floats[d]) && has_model((tk_op)op))
                test((tk_op)op, floats[d], model);
}

static void test_float_ops_of_all_pairs_from_memory_are_rounded_once(void **state) {
    (void)state;
    for_each(tk_edge_op_pairs);
}

static void test_float_ops_of_one_value_are_rounded_once(void **state) {
    (void)state;
    for_each(tk_edge_op_same);
}

static void test_float_ops_with_constants_are_rounded_once(void **state) {
    (void)state;
    (void)tk_test_count(1);
    for_each(tk_edge_op_constants);
}

static void test_float_ops_of_constants_are_folded_to_the_value_rounded_once(void **state) {
    (void)state;
    for_each(tk_edge_op_folded);
}

static void with_scalars(tk_op op, tolk_dtype dtype, tk_edge_model m) {
    (void)m;
    tk_edge_op_scalars(op, dtype);
}

static void test_float_ops_with_scalar_arguments_equal_the_interpreter(void **state) {
    (void)state;
    for_each(with_scalars);
}

/* ---- math functions of constants ---- */

/* Results 0 .. n-1: op of constants, or of a constant and what is loaded. */
static void run_functions(tk_op op, tolk_dtype dt, const uint64_t *c, size_t n) {
    static const uint64_t nothing[] = {0};
    uint64_t loaded[TK_EDGE_VALUES];
    const bool two = tk_op_get(op)->max_src == 2;
    const char *name = tolk_dtype_name(dt), *op_name = tk_op_get(op)->name;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    for (size_t i = 0; i < n; i++) {
        tk_strbuf_fmt(&sb, "%%%zu = const %s ", 400 + i, name);
        tk_literal_write(&sb, dt, c[i]);
        if (two)
            tk_strbuf_fmt(&sb, "\n%%%zu = %s %s (%%100, %%%zu)\n%%%zu = %s %s (%%%zu, %%100)\n",
                          200 + 2 * i, op_name, name, 400 + i, 201 + 2 * i, op_name, name, 400 + i);
        else
            tk_strbuf_fmt(&sb, "\n%%%zu = %s %s (%%%zu)\n", 200 + i, op_name, name, 400 + i);
    }
    assert_false(sb.failed);
    tk_edge e = {.name = op_name,
                 .body = sb.at,
                 .in = {two ? dt : TOLK_VOID},
                 .out = dt,
                 .bits = {loaded},
                 .rows = two ? tk_edge_values(dt, false, loaded) : COUNT(nothing),
                 .results = two ? 2 * n : n,
                 .functions = true};
    tk_edge_run_ways(&e, tk_test_share() >= 100 ? TK_EDGE_NONE : TK_EDGE_NONE | TK_EDGE_ONE_TARGET);
    tk_strbuf_fini(&sb);
}

static void test_math_functions_of_constants_equal_the_interpreter(void **state) {
    (void)state;
    uint64_t c[TK_EDGE_VALUES];
    for (int op = 0; op < TK_OP_COUNT; op++)
        for (size_t d = 0; d < COUNT(floats); d++) {
            if (!tk_mathfn_is((tk_op)op))
                continue;
            const size_t n = tk_edge_values(floats[d], false, c);
            const size_t at_once = tk_op_get((tk_op)op)->max_src == 2 ? 1 : 8;
            /* of pow, which is long, a few with less than the whole suite */
            const size_t step = at_once == 1 && tk_test_share() < 100 ? 9 : at_once;
            for (size_t at = 0; at < n; at += step)
                run_functions((tk_op)op, floats[d], c + at, n - at < at_once ? n - at : at_once);
        }
}

/* ---- stated values ---- */

static void test_float_values_are_those_stated(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    const struct {
        tk_op op;
        double a, b, want;
    } both[] = {
        /* of both dtypes: what is exact, or special */
        {TK_OP_ADD, 0.0, -0.0, 0.0},
        {TK_OP_ADD, -0.0, -0.0, -0.0},
        {TK_OP_ADD, 1, -1, 0.0},
        {TK_OP_ADD, inf, -inf, nan},
        {TK_OP_ADD, inf, 1, inf},
        {TK_OP_ADD, nan, 1, nan},
        {TK_OP_SUB, 0.0, 0.0, 0.0},
        {TK_OP_SUB, -0.0, 0.0, -0.0},
        {TK_OP_SUB, inf, inf, nan},
        {TK_OP_SUB, 5, 5, 0.0},
        {TK_OP_MUL, 0.0, -1, -0.0},
        {TK_OP_MUL, -0.0, -5, 0.0},
        {TK_OP_MUL, 0.0, inf, nan},
        {TK_OP_MUL, 0.0, nan, nan},
        {TK_OP_MUL, -2, inf, -inf},
        {TK_OP_FDIV, 0.0, 0.0, nan},
        {TK_OP_FDIV, 1, 0.0, inf},
        {TK_OP_FDIV, 1, -0.0, -inf},
        {TK_OP_FDIV, -1, inf, -0.0},
        {TK_OP_FDIV, inf, inf, nan},
        {TK_OP_FDIV, 41, 41, 1},
        {TK_OP_RECIPROCAL, 0.0, 0, inf},
        {TK_OP_RECIPROCAL, -0.0, 0, -inf},
        {TK_OP_RECIPROCAL, -inf, 0, -0.0},
        {TK_OP_RECIPROCAL, 4, 0, 0.25},
        {TK_OP_SQRT, -0.0, 0, -0.0},
        {TK_OP_SQRT, -1, 0, nan},
        {TK_OP_SQRT, inf, 0, inf},
        {TK_OP_SQRT, 2.25, 0, 1.5},
        {TK_OP_NEG, 0.0, 0, -0.0},
        {TK_OP_NEG, -0.0, 0, 0.0},
        {TK_OP_NEG, inf, 0, -inf},
        {TK_OP_TRUNC, -0.5, 0, -0.0},
        {TK_OP_TRUNC, 0.99, 0, 0.0},
        {TK_OP_TRUNC, -2.5, 0, -2},
        {TK_OP_TRUNC, 0x1p23, 0, 0x1p23},
        {TK_OP_TRUNC, 4194303.5, 0, 4194303},
        {TK_OP_TRUNC, inf, 0, inf},
        {TK_OP_TRUNC, nan, 0, nan},
        {TK_OP_TRUNC, -0x1p40, 0, -0x1p40},
        {TK_OP_MAX, -0.0, 0.0, 0.0},
        {TK_OP_MAX, 0.0, -0.0, 0.0},
        {TK_OP_MAX, -0.0, -0.0, -0.0},
        {TK_OP_MAX, nan, 1, nan},
        {TK_OP_MAX, 1, nan, nan},
        {TK_OP_MAX, -inf, nan, nan},
        {TK_OP_MAX, -inf, -2, -2},
        {TK_OP_MAX, inf, 2, inf},
    };
    tk_edge_fact facts[2 * COUNT(both)];
    for (size_t i = 0; i < COUNT(both); i++) {
        facts[2 * i] =
            (tk_edge_fact){both[i].op, TOLK_F32, f32(both[i].a), f32(both[i].b), f32(both[i].want)};
        facts[2 * i + 1] =
            (tk_edge_fact){both[i].op, TOLK_F64, f64(both[i].a), f64(both[i].b), f64(both[i].want)};
    }
    tk_edge_op_facts(facts, COUNT(facts));
    static const tk_edge_fact bits[] = {
        /* by bits. f32 1/3, 1 + 2^-24 (a tie to even, down), 1 + 3 2^-24 (up), overflow at the tie,
         * the largest that does not; denormals are kept */
        {TK_OP_FDIV, TOLK_F32, 0x3f800000, 0x40400000, 0x3eaaaaab},
        {TK_OP_ADD, TOLK_F32, 0x3f800000, 0x33800000, 0x3f800000},
        {TK_OP_ADD, TOLK_F32, 0x3f800001, 0x33800000, 0x3f800002},
        {TK_OP_ADD, TOLK_F32, 0x7f7fffff, 0x73000000, 0x7f800000},
        {TK_OP_ADD, TOLK_F32, 0x7f7fffff, 0x72ffffff, 0x7f7fffff},
        {TK_OP_MUL, TOLK_F32, 0x7f7fffff, 0x40000000, 0x7f800000},
        {TK_OP_MUL, TOLK_F32, 0x00800000, 0x3f000000, 0x00400000},
        {TK_OP_MUL, TOLK_F32, 0x00000001, 0x3f000000, 0x00000000},
        {TK_OP_MUL, TOLK_F32, 0x00000003, 0x3f000000, 0x00000002},
        {TK_OP_MUL, TOLK_F32, 0x00000001, 0x40000000, 0x00000002},
        {TK_OP_ADD, TOLK_F32, 0x00000001, 0x00000001, 0x00000002},
        {TK_OP_SUB, TOLK_F32, 0x00800000, 0x00000001, 0x007fffff},
        {TK_OP_SQRT, TOLK_F32, 0x00000001, 0, 0x1a3504f3},
        {TK_OP_RECIPROCAL, TOLK_F32, 0x00400000, 0, 0x7f000000},
        {TK_OP_RECIPROCAL, TOLK_F32, 0x00200000, 0, 0x7f800000},
        {TK_OP_RECIPROCAL, TOLK_F32, 0x7f000000, 0, 0x00400000},
        {TK_OP_MAX, TOLK_F32, 0x00000001, 0x80000001, 0x00000001},
        {TK_OP_CMPLT, TOLK_F32, 0x00000000, 0x00000001, 1},
        {TK_OP_CMPEQ, TOLK_F32, 0x00000000, 0x00000001, 0},
        {TK_OP_CMPEQ, TOLK_F32, 0x00000000, 0x80000000, 1},
        {TK_OP_CMPNE, TOLK_F32, 0x7fc00000, 0x7fc00000, 1},
        {TK_OP_CMPEQ, TOLK_F32, 0x7fc00000, 0x7fc00000, 0},
        {TK_OP_CMPLT, TOLK_F32, 0x7fc00000, 0x3f800000, 0},
        {TK_OP_CMPLT, TOLK_F32, 0x3f800000, 0xffc00000, 0},
        {TK_OP_CMPLT, TOLK_F32, 0xff800000, 0xff7fffff, 1},
        {TK_OP_CMPLT, TOLK_F32, 0x80000000, 0x00000000, 0},
        /* f64 likewise */
        {TK_OP_FDIV, TOLK_F64, 0x3ff0000000000000, 0x4008000000000000, 0x3fd5555555555555},
        {TK_OP_ADD, TOLK_F64, 0x3ff0000000000000, 0x3ca0000000000000, 0x3ff0000000000000},
        {TK_OP_ADD, TOLK_F64, 0x3ff0000000000001, 0x3ca0000000000000, 0x3ff0000000000002},
        {TK_OP_ADD, TOLK_F64, 0x7fefffffffffffff, 0x7c90000000000000, 0x7ff0000000000000},
        {TK_OP_ADD, TOLK_F64, 0x7fefffffffffffff, 0x7c8fffffffffffff, 0x7fefffffffffffff},
        {TK_OP_MUL, TOLK_F64, 0x0010000000000000, 0x3fe0000000000000, 0x0008000000000000},
        {TK_OP_MUL, TOLK_F64, 1, 0x3fe0000000000000, 0},
        {TK_OP_MUL, TOLK_F64, 3, 0x3fe0000000000000, 2},
        {TK_OP_SUB, TOLK_F64, 0x0010000000000000, 1, 0x000fffffffffffff},
        {TK_OP_RECIPROCAL, TOLK_F64, 0x0008000000000000, 0, 0x7fe0000000000000},
        {TK_OP_TRUNC, TOLK_F64, 0x432fffffffffffff, 0, 0x432ffffffffffffe},
        {TK_OP_CMPEQ, TOLK_F64, 0, 0x8000000000000000, 1},
        {TK_OP_CMPNE, TOLK_F64, 0x7ff8000000000000, 0x7ff8000000000000, 1},
        {TK_OP_CMPLT, TOLK_F64, 0xfff0000000000000, 0xffefffffffffffff, 1},
    };
    tk_edge_op_facts(bits, COUNT(bits));
}

/* (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24, which two roundings lose; infinity and 0 in the product are
 * NaN whatever is added; an exact 0 has the sign that its terms have. */
static void test_mulacc_values_are_those_stated(void **state) {
    (void)state;
    static const uint64_t a[] = {0x3f800800, 0x7f800000, 0x3f800000, 0x80000000, 0x7f7fffff};
    static const uint64_t b[] = {0x3f800800, 0x00000000, 0xbf800000, 0x3f800000, 0x40000000};
    static const uint64_t c[] = {0xbf801000, 0x7fc00000, 0x3f800000, 0x80000000, 0xff7fffff};
    static const uint64_t want[] = {0x33800000, 0x7fc00000, 0x00000000, 0x80000000, 0x7f7fffff};
    const tk_edge e = {.name = "mulacc f32",
                       .body = "%200 = mulacc f32 (%100, %101, %102)",
                       .in = {TOLK_F32, TOLK_F32, TOLK_F32},
                       .out = TOLK_F32,
                       .bits = {a, b, c},
                       .rows = COUNT(a),
                       .want = want};
    tk_edge_run_ways(&e, TK_EDGE_NONE | TK_EDGE_HEURISTIC | TK_EDGE_WINDOWS);
    /* a * b + c written out is two roundings on every target */
    static const uint64_t two[] = {0x00000000, 0x7fc00000, 0x00000000, 0x80000000, 0x7f800000};
    const tk_edge f = {.name = "mul, add f32",
                       .body = "%300 = mul f32 (%100, %101)\n%200 = add f32 (%300, %102)",
                       .in = {TOLK_F32, TOLK_F32, TOLK_F32},
                       .out = TOLK_F32,
                       .bits = {a, b, c},
                       .rows = COUNT(a),
                       .want = two};
    tk_edge_run_ways(&f, TK_EDGE_NONE | TK_EDGE_HEURISTIC | TK_EDGE_WINDOWS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_values_are_those_stated),
        cmocka_unit_test(test_mulacc_values_are_those_stated),
        cmocka_unit_test(test_float_ops_of_all_pairs_from_memory_are_rounded_once),
        cmocka_unit_test(test_float_ops_of_one_value_are_rounded_once),
        cmocka_unit_test(test_float_ops_with_constants_are_rounded_once),
        cmocka_unit_test(test_float_ops_of_constants_are_folded_to_the_value_rounded_once),
        cmocka_unit_test(test_float_ops_with_scalar_arguments_equal_the_interpreter),
        cmocka_unit_test(test_math_functions_of_constants_equal_the_interpreter),
    };
    return cmocka_run_group_tests_name("diff.edge_float", tests, tk_edge_setup, tk_edge_teardown);
}
