/* SPDX-License-Identifier: MIT
 *
 * pass_decompose: none of the ops that no target has is left, and what stands in their place has
 * the same values.
 */
#include "support/tk_stage.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

#include <stdio.h>
#include <string.h>

static void gone(const tk_stage *s, tk_op op) {
    assert_int_equal(tk_stage_count(s, op), 0);
}

/* ---- divisions ---- */

static const char *const int_dtypes[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
enum { N_INTS = sizeof int_dtypes / sizeof *int_dtypes };

static bool is_unsigned(int d) {
    return d >= 4;
}

/* Edges of a dtype, as canonical bits: what -1, the least and the greatest are in it. */
static size_t edges(int d, int64_t out[12]) {
    static const int64_t small[] = {0, 1, 2, 3, 7, -1, -2, -3, -7, INT64_MIN, INT64_MAX};
    size_t n = 0;
    int bits = 8 << d % 4;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        int64_t v = small[i];
        if (v == INT64_MIN)
            v = is_unsigned(d) ? 0 : -1 - (int64_t)(UINT64_MAX >> (65 - bits));
        else if (v == INT64_MAX)
            v = (int64_t)(UINT64_MAX >> (65 - bits));
        out[n++] = is_unsigned(d) ? (int64_t)((uint64_t)v & (UINT64_MAX >> (64 - bits))) : v;
    }
    return n;
}

/* y[0] = a op b, both scalars */
static void open_pair(tk_stage *s, const char *op, const char *dtype, const char *target) {
    char text[1024];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n%%2 = param %s (%%0) {slot=0}\n"
             "%%3 = param %s {slot=1, space=alu}\n%%4 = param %s {slot=2, space=alu}\n"
             "%%5 = %s %s (%%3, %%4)\n%%6 = index %s (%%2, %%1)\n%%7 = store void (%%6, %%5)\n"
             "%%8 = sink void (%%7) {name=\"pair\"}\n",
             dtype, dtype, dtype, op, dtype, dtype);
    tk_stage_open(s, text, target);
    tk_stage_run(s, "PD");
}

static void test_divisions_of_edges(void **state) {
    (void)state;
    static const char *const ops[] = {"floordiv", "floormod", "cdiv", "cmod"};
    for (int d = 0; d < N_INTS; d++)
        for (int o = 0; o < 4; o++) {
            tk_stage s;
            int64_t v[12];
            size_t n = edges(d, v);
            open_pair(&s, ops[o], int_dtypes[d], NULL);
            gone(&s, TK_OP_FLOORDIV);
            gone(&s, TK_OP_FLOORMOD);
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < n; k++)
                    tk_stage_same(&s, (const int64_t[]){v[i], v[k]}, 2);
            tk_stage_close(&s);
        }
}

/* y[0] = a op c, c a constant; does the form have a division? */
static bool divides_by(const char *op, int d, int64_t c) {
    char text[1024];
    tk_stage s;
    int64_t v[12];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n%%2 = param %s (%%0) {slot=0}\n"
             "%%3 = param %s {slot=1, space=alu}\n%%4 = const %s %lld\n%%5 = %s %s (%%3, %%4)\n"
             "%%6 = index %s (%%2, %%1)\n%%7 = store void (%%6, %%5)\n"
             "%%8 = sink void (%%7) {name=\"constant\"}\n",
             int_dtypes[d], int_dtypes[d], int_dtypes[d], (long long)c, op, int_dtypes[d],
             int_dtypes[d]);
    tk_stage_open(&s, text, NULL);
    tk_stage_run(&s, "PD");
    gone(&s, TK_OP_FLOORDIV);
    gone(&s, TK_OP_FLOORMOD);
    for (size_t i = 0, n = edges(d, v); i < n; i++)
        tk_stage_same(&s, &v[i], 1);
    bool divides = tk_stage_count(&s, TK_OP_CDIV) + tk_stage_count(&s, TK_OP_CMOD) > 0;
    tk_stage_close(&s);
    return divides;
}

static void test_powers_of_two_are_shifts_and_masks(void **state) {
    (void)state;
    static const int64_t powers[] = {2, 4, 16, 64};
    for (int d = 0; d < N_INTS; d++)
        for (size_t i = 0; i < 4; i++) {
            /* rounding down needs no sign; rounding to zero does not shift what may be negative */
            assert_false(divides_by("floordiv", d, powers[i]));
            assert_false(divides_by("floormod", d, powers[i]));
            assert_int_equal(divides_by("cdiv", d, powers[i]), !is_unsigned(d));
            assert_int_equal(divides_by("cmod", d, powers[i]), !is_unsigned(d));
        }
    /* the greatest power of each signed dtype is negative, of an unsigned one it is not */
    assert_true(divides_by("floordiv", 0, -128));
    assert_true(divides_by("floormod", 1, -32768));
    assert_true(divides_by("cdiv", 3, INT64_MIN));
    assert_false(divides_by("floordiv", 4, 128));
    assert_false(divides_by("cmod", 6, INT64_C(1) << 31));
}

static void test_other_constants_divide(void **state) {
    (void)state;
    static const char *const ops[] = {"floordiv", "floormod", "cdiv", "cmod"};
    static const int64_t odd[] = {3, 7, 100, -1, -2, -3, -4};
    for (int d = 0; d < N_INTS; d++)
        for (int o = 0; o < 4; o++)
            for (size_t i = 0; i < (is_unsigned(d) ? 3 : 7); i++)
                (void)divides_by(ops[o], d, odd[i]);
    assert_true(divides_by("floordiv", 2, 3));
    assert_true(divides_by("floormod", 7, 100));
}

/* What a loop's index is, is not negative. */
static void test_indices_of_loops_shift(void **state) {
    (void)state;
    static const char *const ops[] = {"floordiv", "floormod", "cdiv", "cmod"};
    for (int o = 0; o < 4; o++) {
        char text[1024];
        tk_stage s;
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 100\n%%1 = param i32 (%%0) {slot=0}\n"
                 "%%2 = range index (%%0) {axis=0, kind=global}\n%%3 = const index 8\n"
                 "%%4 = %s index (%%2, %%3)\n%%5 = cast i32 (%%4)\n%%6 = index i32 (%%1, %%2)\n"
                 "%%7 = store void (%%6, %%5)\n%%8 = end void (%%7, %%2)\n"
                 "%%9 = sink void (%%8) {name=\"eights\"}\n",
                 ops[o]);
        tk_stage_open(&s, text, NULL);
        tk_stage_run(&s, "PD");
        gone(&s, TK_OP_CDIV);
        gone(&s, TK_OP_CMOD);
        gone(&s, TK_OP_FLOORDIV);
        gone(&s, TK_OP_FLOORMOD);
        assert_int_equal(tk_stage_count(&s, TK_OP_SHR), o % 2 == 0);
        assert_int_equal(tk_stage_count(&s, TK_OP_AND), o % 2);
        tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

/* ---- threefry ---- */

static void test_threefry(void **state) {
    (void)state;
    tk_stage s;
    open_pair(&s, "threefry", "u64", NULL);
    gone(&s, TK_OP_THREEFRY);
    static const uint64_t v[] = {
        0,          1,          UINT64_MAX, 0x13198a2e03707344, 0x243f6a8885a308d3,
        1ull << 32, 0xffffffff, 1ull << 63};
    for (size_t i = 0; i < 8; i++)
        for (size_t k = 0; k < 8; k++)
            tk_stage_same(&s, (const int64_t[]){(int64_t)v[i], (int64_t)v[k]}, 2);
    tk_stage_close(&s);
    /* the published vector of Threefry-2x32-20 for counter 0 and key 0: 6b200159 99ba4efe */
    assert_int_equal(tk_scalar_alu(TK_OP_THREEFRY, TOLK_U64, 0, 0, 0, true), 0x99ba4efe6b200159);
}

/* ---- reciprocal and mulacc ---- */

static void test_reciprocal_is_a_division_of_one(void **state) {
    (void)state;
    static const char *const dtypes[] = {"f32", "f64"};
    static const uint64_t f32[] = {0,          0x80000000, 0x3f800000, 0x40400000, 1,
                                   0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000};
    static const uint64_t f64[] = {0,
                                   1ull << 63,
                                   0x3ff0000000000000,
                                   0x4008000000000000,
                                   1,
                                   0x7fefffffffffffff,
                                   0x7ff0000000000000,
                                   0xfff0000000000000,
                                   0x7ff8000000000000};
    for (int d = 0; d < 2; d++) {
        char text[1024];
        tk_stage s;
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n"
                 "%%2 = param %s (%%0) {slot=0}\n%%3 = param %s {slot=1, space=alu}\n"
                 "%%4 = reciprocal %s (%%3)\n%%5 = index %s (%%2, %%1)\n"
                 "%%6 = store void (%%5, %%4)\n%%7 = sink void (%%6) {name=\"one\"}\n",
                 dtypes[d], dtypes[d], dtypes[d], dtypes[d]);
        tk_stage_open(&s, text, NULL);
        tk_stage_run(&s, "PD");
        gone(&s, TK_OP_RECIPROCAL);
        assert_int_equal(tk_stage_count(&s, TK_OP_FDIV), 1);
        for (size_t i = 0; i < 9; i++) {
            int64_t v = (int64_t)(d ? f64[i] : f32[i]);
            tk_stage_same(&s, &v, 1);
        }
        tk_stage_close(&s);
    }
}

/* y[0] = a b + c */
static void open_mulacc(tk_stage *s, const char *dtype, const char *target) {
    char text[1024];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n%%2 = param %s (%%0) {slot=0}\n"
             "%%3 = param %s {slot=1, space=alu}\n%%4 = param %s {slot=2, space=alu}\n"
             "%%5 = param %s {slot=3, space=alu}\n%%6 = mulacc %s (%%3, %%4, %%5)\n"
             "%%7 = index %s (%%2, %%1)\n%%8 = store void (%%7, %%6)\n"
             "%%9 = sink void (%%8) {name=\"mulacc\"}\n",
             dtype, dtype, dtype, dtype, dtype, dtype);
    tk_stage_open(s, text, target);
    tk_stage_run(s, "PD");
}

static void test_integer_mulacc_is_a_product_and_a_sum(void **state) {
    (void)state;
    for (int d = 0; d < N_INTS; d++) {
        tk_stage s;
        int64_t v[12];
        size_t n = edges(d, v);
        open_mulacc(&s, int_dtypes[d], "haswell");
        gone(&s, TK_OP_MULACC);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                tk_stage_same(&s, (const int64_t[]){v[i], v[k], v[(i + k) % n]}, 3);
        tk_stage_close(&s);
    }
}

/* One rounding, with the instruction or without. */
static void test_float_mulacc_stays_where_there_is_fma(void **state) {
    (void)state;
    static const char *const targets[] = {"haswell", "aarch64", "x86-64", "haswell,-fma"};
    static const uint64_t f32[][3] = {
        {0x3f800001, 0x3f800001, 0xbf800002}, /* the rounding of the product alone shows */
        {0x7f7fffff, 0x40000000, 0xff7fffff}, {0x00000001, 0x3f000000, 0},
        {0x3f800000, 0x80000000, 0},          {0x7f800000, 0, 0x3f800000},
        {0x7f800000, 0x3f800000, 0xff800000}, {0x3f7fffff, 0x3f7fffff, 0x3f800000},
        {0x00800000, 0x3f7fffff, 0x80000001}};
    static const uint64_t f64[][3] = {{0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002},
                                      {0x7fefffffffffffff, 0x4000000000000000, 0xffefffffffffffff},
                                      {1, 0x3fe0000000000000, 0},
                                      {0x3ff0000000000000, 1ull << 63, 0},
                                      {0x7ff0000000000000, 0, 0},
                                      {0x0010000000000000, 0x3fefffffffffffff, 0x8000000000000001}};
    for (int t = 0; t < 4; t++) {
        tk_stage s;
        open_mulacc(&s, "f32", targets[t]);
        assert_int_equal(tk_stage_count(&s, TK_OP_MULACC), s.target.fma);
        assert_int_equal(s.target.fma, t < 2);
        for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++)
            tk_stage_same(&s, (const int64_t *)f32[i], 3);
        tk_stage_close(&s);
        open_mulacc(&s, "f64", targets[t]);
        assert_int_equal(tk_stage_count(&s, TK_OP_MULACC), s.target.fma);
        for (size_t i = 0; i < sizeof f64 / sizeof *f64; i++)
            tk_stage_same(&s, (const int64_t *)f64[i], 3);
        tk_stage_close(&s);
    }
}

static void test_what_targets_have_stays_as_it_is(void **state) {
    (void)state;
    tk_stage s;
    open_pair(&s, "shl", "i32", NULL);
    const tolk_uop *before = s.root;
    tk_stage_run(&s, "D");
    assert_ptr_equal(s.root, before);
    assert_int_equal(tk_stage_count(&s, TK_OP_SHL), 1);
    tk_stage_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisions_of_edges),
        cmocka_unit_test(test_powers_of_two_are_shifts_and_masks),
        cmocka_unit_test(test_other_constants_divide),
        cmocka_unit_test(test_indices_of_loops_shift),
        cmocka_unit_test(test_threefry),
        cmocka_unit_test(test_reciprocal_is_a_division_of_one),
        cmocka_unit_test(test_integer_mulacc_is_a_product_and_a_sum),
        cmocka_unit_test(test_float_mulacc_stays_where_there_is_fma),
        cmocka_unit_test(test_what_targets_have_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
