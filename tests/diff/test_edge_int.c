/* SPDX-License-Identifier: MIT
 *
 * Every op of integers, index and bool on all pairs of edge values: the interpreter against exact
 * arithmetic in 128 bits and against stated values, code against the interpreter.
 */
#include "support/tk_edge.h"
#include "support/tk_edge_op.h"

#include "ir/dtype.h"

#include <stdio.h>

__extension__ typedef __int128 wide;
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { PAIRS = 100 * 100 };
static const tolk_dtype ints[] = {TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64,  TOLK_U8,
                                  TOLK_U16, TOLK_U32, TOLK_U64, TOLK_INDEX};

/* ---- the value table, again ---- */

static uint64_t shift(tk_op op, tolk_dtype dt, wide x, uint64_t b) {
    const unsigned width = tk_dtype_bits(dt);
    const uint64_t count = width == 64 ? b : b & (((uint64_t)1 << width) - 1); /* unsigned */
    if (count >= width)
        return op == TK_OP_SHR && x < 0 ? UINT64_MAX : 0;
    wide power = 1;
    for (uint64_t i = 0; i < count; i++)
        power *= 2;
    if (op == TK_OP_SHL)
        return (uint64_t)x * (uint64_t)power;
    wide q = x / power;
    return (uint64_t)(x % power < 0 ? q - 1 : q); /* down */
}

static uint64_t exact(tk_op op, tolk_dtype dt, wide x, wide y, wide z, uint64_t b) {
    const wide q = y ? x / y : 0, r = y ? x % y : x;
    const bool down = y && r && (r < 0) != (y < 0);
    switch (op) {
    case TK_OP_NEG:
        return (uint64_t)-x;
    case TK_OP_ADD:
        return (uint64_t)(x + y);
    case TK_OP_SUB:
        return (uint64_t)(x - y);
    case TK_OP_MUL:
        return (uint64_t)x * (uint64_t)y;
    case TK_OP_MULACC:
        return (uint64_t)x * (uint64_t)y + (uint64_t)z;
    case TK_OP_MAX:
        return (uint64_t)(x > y ? x : y);
    case TK_OP_CDIV:
        return (uint64_t)q;
    case TK_OP_CMOD:
        return (uint64_t)r;
    case TK_OP_FLOORDIV:
        return (uint64_t)(q - down);
    case TK_OP_FLOORMOD:
        return (uint64_t)(down ? r + y : r);
    case TK_OP_SHL:
    case TK_OP_SHR:
        return shift(op, dt, x, b);
    case TK_OP_AND:
        return (uint64_t)x & (uint64_t)y;
    case TK_OP_OR:
        return (uint64_t)x | (uint64_t)y;
    case TK_OP_XOR:
        return (uint64_t)x ^ (uint64_t)y;
    case TK_OP_CMPLT:
        return x < y;
    case TK_OP_CMPNE:
        return x != y;
    case TK_OP_CMPEQ:
        return x == y;
    default:
        fail_msg("no model of %s", tk_op_get(op)->name);
        return 0;
    }
}

static uint64_t bools(tk_op op, uint64_t a, uint64_t b) {
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_MAX:
    case TK_OP_OR:
        return a || b;
    case TK_OP_MUL:
    case TK_OP_AND:
        return a && b;
    case TK_OP_XOR:
    case TK_OP_CMPNE:
        return a != b;
    case TK_OP_CMPEQ:
        return a == b;
    case TK_OP_CMPLT:
        return !a && b;
    default:
        fail_msg("no model of %s", tk_op_get(op)->name);
        return 0;
    }
}

static uint64_t model(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b, uint64_t c) {
    if (dt == TOLK_BOOL)
        return bools(op, a, b);
    if (!tk_dtype_is_signed(dt))
        return tk_dtype_canon(tk_op_get(op)->result == TK_RESULT_BOOL ? TOLK_BOOL : dt,
                              exact(op, dt, (wide)a, (wide)b, (wide)c, b));
    return tk_dtype_canon(tk_op_get(op)->result == TK_RESULT_BOOL ? TOLK_BOOL : dt,
                          exact(op, dt, (int64_t)a, (int64_t)b, (int64_t)c, b));
}

/* ---- ops ---- */

static bool has_model(tk_op op) {
    return op != TK_OP_CAST && op != TK_OP_BITCAST && op != TK_OP_WHERE && op != TK_OP_THREEFRY;
}

typedef void (*op_test)(tk_op op, tolk_dtype dtype, tk_edge_model model);

static void for_each(op_test test, const tolk_dtype *dtypes, size_t n) {
    for (int op = 0; op < TK_OP_COUNT; op++)
        for (size_t d = 0; d < n; d++)
            if (tk_edge_op_takes((tk_op)op, dtypes[d]) && has_model((tk_op)op))
                test((tk_op)op, dtypes[d], model);
}

static const tolk_dtype only_bool[] = {TOLK_BOOL};

static void test_int_ops_of_all_pairs_from_memory_are_exact(void **state) {
    (void)state;
    for_each(tk_edge_op_pairs, ints, COUNT(ints));
}

static void test_int_ops_of_one_value_are_exact(void **state) {
    (void)state;
    for_each(tk_edge_op_same, ints, COUNT(ints));
}

static void test_int_ops_with_constants_are_exact(void **state) {
    (void)state;
    (void)tk_test_count(1);
    for_each(tk_edge_op_constants, ints, COUNT(ints));
}

static void test_int_ops_of_constants_are_folded_to_the_exact_value(void **state) {
    (void)state;
    for_each(tk_edge_op_folded, ints, COUNT(ints));
}

static void with_scalars(tk_op op, tolk_dtype dtype, tk_edge_model m) {
    (void)m;
    if (dtype != TOLK_INDEX)
        tk_edge_op_scalars(op, dtype);
}

static void test_int_ops_with_scalar_arguments_equal_the_interpreter(void **state) {
    (void)state;
    for_each(with_scalars, ints, COUNT(ints));
}

static void test_bool_ops_of_any_byte_see_true_and_false(void **state) {
    (void)state;
    for_each(tk_edge_op_pairs, only_bool, 1);
    for_each(tk_edge_op_same, only_bool, 1);
    for_each(tk_edge_op_constants, only_bool, 1);
    for_each(tk_edge_op_folded, only_bool, 1);
    for_each(with_scalars, only_bool, 1);
}

/* ---- all of a small dtype ---- */

static void test_8_bit_ops_of_all_pairs_are_exact(void **state) {
    (void)state;
    enum { N = 256 * 256 };
    static uint64_t a[N], b[N], want[N];
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        const tolk_dtype dt = is_signed ? TOLK_I8 : TOLK_U8;
        for (int op = 0; op < TK_OP_COUNT; op++) {
            if (!tk_edge_op_takes((tk_op)op, dt) || !has_model((tk_op)op) ||
                tk_op_get((tk_op)op)->max_src != 2)
                continue;
            const bool compares = tk_op_get((tk_op)op)->result == TK_RESULT_BOOL;
            const tolk_dtype out = compares ? TOLK_BOOL : dt;
            for (uint64_t i = 0; i < N; i++) {
                a[i] = tk_dtype_canon(dt, i >> 8);
                b[i] = tk_dtype_canon(dt, i);
                want[i] = model((tk_op)op, dt, a[i], b[i], 0);
            }
            char body[64];
            snprintf(body, sizeof body, "%%200 = %s %s (%%100, %%101)", tk_op_get((tk_op)op)->name,
                     tolk_dtype_name(out));
            const tk_edge e = {.name = body,
                               .body = body,
                               .in = {dt, dt},
                               .out = out,
                               .bits = {a, b},
                               .rows = N,
                               .want = want};
            tk_edge_run_ways(&e, TK_EDGE_HEURISTIC);
        }
    }
}

/* ---- what is not in the table above ---- */

/* Counts of dtype u32 for values of any width. */
static void test_shifts_by_u32_counts_are_exact(void **state) {
    (void)state;
    static uint64_t a[PAIRS], b[PAIRS];
    static uint64_t want[PAIRS];
    uint64_t x[TK_EDGE_VALUES], c[TK_EDGE_VALUES];
    const size_t counts = tk_edge_values(TOLK_U32, false, c);
    static const tk_op ops[] = {TK_OP_SHL, TK_OP_SHR};
    for (size_t d = 0; d < COUNT(ints); d++) {
        const tolk_dtype dt = ints[d];
        if (dt == TOLK_INDEX || dt == TOLK_U32)
            continue;
        const size_t n = tk_edge_values(dt, false, x);
        assert_true(n * counts <= PAIRS);
        for (size_t k = 0; k < COUNT(ops); k++) {
            for (size_t i = 0; i < n * counts; i++) {
                a[i] = x[i / counts];
                b[i] = c[i % counts];
                const wide v = tk_dtype_is_signed(dt) ? (wide)(int64_t)a[i] : (wide)a[i];
                /* 64 shifts everything out of every dtype, as larger counts do */
                want[i] = tk_dtype_canon(
                    dt, shift(ops[k], dt, v, b[i] >= tk_dtype_bits(dt) ? tk_dtype_bits(dt) : b[i]));
            }
            char body[64];
            snprintf(body, sizeof body, "%%200 = %s %s (%%100, %%101)", tk_op_get(ops[k])->name,
                     tolk_dtype_name(dt));
            const tk_edge e = {.name = body,
                               .body = body,
                               .in = {dt, TOLK_U32},
                               .out = dt,
                               .bits = {a, b},
                               .rows = n * counts,
                               .want = want};
            tk_edge_run(&e);
        }
    }
}

/* The answers of Random123's known-answer file for Threefry-2x32-20, and edge values against the
 * interpreter, which ir/test_scalar.c holds to that file, too. */
static void test_threefry_gives_the_published_answers(void **state) {
    (void)state;
    static const uint64_t counter[] = {0, UINT64_MAX, 0x85a308d3243f6a88};
    static const uint64_t key[] = {0, UINT64_MAX, 0x0370734413198a2e};
    static const uint64_t want[] = {0x99ba4efe6b200159, 0xbb002be71cb996fc, 0x483df7a0c4923a9c};
    tk_edge e = {.name = "threefry",
                 .body = "%200 = threefry u64 (%100, %101)",
                 .in = {TOLK_U64, TOLK_U64},
                 .out = TOLK_U64,
                 .bits = {counter, key},
                 .rows = 3,
                 .want = want};
    tk_edge_run(&e);
    static uint64_t a[PAIRS], b[PAIRS];
    uint64_t x[TK_EDGE_VALUES];
    const size_t n = tk_edge_values(TOLK_U64, false, x);
    assert_true(n * n <= PAIRS);
    for (size_t i = 0; i < n * n; i++) {
        a[i] = x[i / n];
        b[i] = x[i % n];
    }
    e.bits[0] = a;
    e.bits[1] = b;
    e.rows = n * n;
    e.want = NULL;
    tk_edge_run(&e);
}

/* Values of the table in docs/numerics.md, worked out by hand. */
static void test_int_values_are_those_stated(void **state) {
    (void)state;
#define MIN8 0x80
#define MIN16 0x8000
#define MIN32 0x80000000
#define MIN64 0x8000000000000000
#define M(v) ((uint64_t)-(v))
    static const tk_edge_fact facts[] = {
        /* wrap around */
        {TK_OP_ADD, TOLK_I8, 127, 1, MIN8},
        {TK_OP_ADD, TOLK_U8, 255, 1, 0},
        {TK_OP_ADD, TOLK_I32, 0x7fffffff, 1, MIN32},
        {TK_OP_ADD, TOLK_I64, 0x7fffffffffffffff, 1, MIN64},
        {TK_OP_ADD, TOLK_U64, UINT64_MAX, 2, 1},
        {TK_OP_SUB, TOLK_U16, 0, 1, 65535},
        {TK_OP_SUB, TOLK_I16, MIN16, 1, 32767},
        {TK_OP_SUB, TOLK_U64, 0, 1, UINT64_MAX},
        {TK_OP_MUL, TOLK_I8, MIN8, M(1), MIN8},
        {TK_OP_MUL, TOLK_I16, 300, 300, 24464},
        {TK_OP_MUL, TOLK_U16, 65535, 65535, 1},
        {TK_OP_MUL, TOLK_I32, 65536, 65536, 0},
        {TK_OP_MUL, TOLK_U32, 0x10001, 0x10001, 0x20001},
        {TK_OP_MUL, TOLK_I64, MIN64, M(1), MIN64},
        {TK_OP_MUL, TOLK_U64, UINT64_MAX, UINT64_MAX, 1},
        {TK_OP_MUL, TOLK_I64, 0x100000001, 0x100000001, 0x200000001},
        {TK_OP_NEG, TOLK_I8, MIN8, 0, MIN8},
        {TK_OP_NEG, TOLK_U8, 6, 0, 250},
        {TK_OP_NEG, TOLK_I64, MIN64, 0, MIN64},
        {TK_OP_NEG, TOLK_U32, 1, 0, 0xffffffff},
        /* signed and unsigned order */
        {TK_OP_MAX, TOLK_I32, M(1), 0, 0},
        {TK_OP_MAX, TOLK_U32, M(1), 0, 0xffffffff},
        {TK_OP_MAX, TOLK_I64, MIN64, M(1), M(1)},
        {TK_OP_MAX, TOLK_U64, MIN64, 0x7fffffffffffffff, MIN64},
        {TK_OP_MAX, TOLK_I8, MIN8, 127, 127},
        {TK_OP_CMPLT, TOLK_I64, MIN64, 0, 1},
        {TK_OP_CMPLT, TOLK_U64, MIN64, 0, 0},
        {TK_OP_CMPLT, TOLK_U8, 250, 4, 0},
        {TK_OP_CMPLT, TOLK_I8, 250, 4, 1},
        /* by zero: 0, and the dividend remains; MIN / -1 is MIN, and nothing remains */
        {TK_OP_CDIV, TOLK_I32, 5, 0, 0},
        {TK_OP_CMOD, TOLK_I32, M(5), 0, M(5)},
        {TK_OP_FLOORDIV, TOLK_I64, M(5), 0, 0},
        {TK_OP_FLOORMOD, TOLK_I64, M(5), 0, M(5)},
        {TK_OP_CDIV, TOLK_U64, UINT64_MAX, 0, 0},
        {TK_OP_CMOD, TOLK_U8, 255, 0, 255},
        {TK_OP_FLOORMOD, TOLK_U16, 7, 0, 7},
        {TK_OP_CDIV, TOLK_I32, 0, 0, 0},
        {TK_OP_CDIV, TOLK_I8, MIN8, M(1), MIN8},
        {TK_OP_CMOD, TOLK_I8, MIN8, M(1), 0},
        {TK_OP_CDIV, TOLK_I16, MIN16, M(1), MIN16},
        {TK_OP_CDIV, TOLK_I32, MIN32, M(1), MIN32},
        {TK_OP_CMOD, TOLK_I32, MIN32, M(1), 0},
        {TK_OP_FLOORDIV, TOLK_I32, MIN32, M(1), MIN32},
        {TK_OP_FLOORMOD, TOLK_I32, MIN32, M(1), 0},
        {TK_OP_CDIV, TOLK_I64, MIN64, M(1), MIN64},
        {TK_OP_CMOD, TOLK_I64, MIN64, M(1), 0},
        {TK_OP_FLOORDIV, TOLK_INDEX, MIN64, M(1), MIN64},
        {TK_OP_FLOORMOD, TOLK_INDEX, MIN64, M(1), 0},
        /* toward zero and down */
        {TK_OP_CDIV, TOLK_I32, M(7), 2, M(3)},
        {TK_OP_CMOD, TOLK_I32, M(7), 2, M(1)},
        {TK_OP_FLOORDIV, TOLK_I32, M(7), 2, M(4)},
        {TK_OP_FLOORMOD, TOLK_I32, M(7), 2, 1},
        {TK_OP_CDIV, TOLK_I32, 7, M(2), M(3)},
        {TK_OP_CMOD, TOLK_I32, 7, M(2), 1},
        {TK_OP_FLOORDIV, TOLK_I32, 7, M(2), M(4)},
        {TK_OP_FLOORMOD, TOLK_I32, 7, M(2), M(1)},
        {TK_OP_FLOORDIV, TOLK_I32, M(7), M(2), 3},
        {TK_OP_FLOORMOD, TOLK_I32, M(7), M(2), M(1)},
        {TK_OP_FLOORDIV, TOLK_I8, 127, MIN8, M(1)},
        {TK_OP_FLOORMOD, TOLK_I8, 127, MIN8, M(1)},
        {TK_OP_FLOORDIV, TOLK_I64, MIN64, 0x7fffffffffffffff, M(2)},
        {TK_OP_FLOORMOD, TOLK_I64, MIN64, 0x7fffffffffffffff, 0x7ffffffffffffffe},
        {TK_OP_FLOORMOD, TOLK_I32, M(1), 8, 7},
        {TK_OP_FLOORMOD, TOLK_I64, MIN64, 3, 1},
        {TK_OP_CMOD, TOLK_I64, MIN64, 3, M(2)},
        {TK_OP_CDIV, TOLK_U64, UINT64_MAX, 3, 0x5555555555555555},
        {TK_OP_CDIV, TOLK_U64, UINT64_MAX, UINT64_MAX, 1},
        {TK_OP_CDIV, TOLK_U32, 0xfffffff9, 2, 2147483644},
        /* counts are unsigned; the width and more shift everything out */
        {TK_OP_SHL, TOLK_I32, 1, 31, MIN32},
        {TK_OP_SHL, TOLK_I32, 1, 32, 0},
        {TK_OP_SHL, TOLK_I32, 1, 33, 0},
        {TK_OP_SHL, TOLK_I32, 1, M(1), 0},
        {TK_OP_SHL, TOLK_I8, 1, 7, MIN8},
        {TK_OP_SHL, TOLK_I8, 1, 8, 0},
        {TK_OP_SHL, TOLK_I16, 3, 15, MIN16},
        {TK_OP_SHL, TOLK_U64, 1, 63, MIN64},
        {TK_OP_SHL, TOLK_U64, 1, 64, 0},
        {TK_OP_SHR, TOLK_I32, M(8), 1, M(4)},
        {TK_OP_SHR, TOLK_I32, M(5), 31, M(1)},
        {TK_OP_SHR, TOLK_I32, M(8), 33, M(1)},
        {TK_OP_SHR, TOLK_I32, M(8), M(1), M(1)},
        {TK_OP_SHR, TOLK_I32, 8, M(1), 0},
        {TK_OP_SHR, TOLK_I8, MIN8, 9, M(1)},
        {TK_OP_SHR, TOLK_I64, 1000, 64, 0},
        {TK_OP_SHR, TOLK_I64, MIN64, 63, M(1)},
        {TK_OP_SHR, TOLK_U32, MIN32, 31, 1},
        {TK_OP_SHR, TOLK_U32, MIN32, 32, 0},
        {TK_OP_SHR, TOLK_U8, 255, 7, 1},
        {TK_OP_SHR, TOLK_U8, 255, 8, 0},
        {TK_OP_SHR, TOLK_INDEX, M(1), 64, M(1)},
        {TK_OP_SHL, TOLK_INDEX, 1, 64, 0},
        /* bool: + and max are or, * is and */
        {TK_OP_ADD, TOLK_BOOL, 1, 1, 1},
        {TK_OP_MAX, TOLK_BOOL, 0, 1, 1},
        {TK_OP_MUL, TOLK_BOOL, 1, 0, 0},
        {TK_OP_XOR, TOLK_BOOL, 1, 1, 0},
        {TK_OP_CMPLT, TOLK_BOOL, 0, 1, 1},
        {TK_OP_CMPLT, TOLK_BOOL, 1, 0, 0},
        {TK_OP_CMPEQ, TOLK_BOOL, 0, 0, 1},
    };
    tk_edge_op_facts(facts, COUNT(facts));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int_values_are_those_stated),
        cmocka_unit_test(test_int_ops_of_all_pairs_from_memory_are_exact),
        cmocka_unit_test(test_int_ops_of_one_value_are_exact),
        cmocka_unit_test(test_int_ops_with_constants_are_exact),
        cmocka_unit_test(test_int_ops_of_constants_are_folded_to_the_exact_value),
        cmocka_unit_test(test_int_ops_with_scalar_arguments_equal_the_interpreter),
        cmocka_unit_test(test_bool_ops_of_any_byte_see_true_and_false),
        cmocka_unit_test(test_8_bit_ops_of_all_pairs_are_exact),
        cmocka_unit_test(test_shifts_by_u32_counts_are_exact),
        cmocka_unit_test(test_threefry_gives_the_published_answers),
    };
    return cmocka_run_group_tests_name("diff.edge_int", tests, tk_edge_setup, tk_edge_teardown);
}
