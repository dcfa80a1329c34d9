/* SPDX-License-Identifier: MIT */
#include "support/tk_test.h"

#include "ir/dtype.h"
#include "ir/narrow.h"
#include "ir/scalar.h"

#include <fenv.h>
#include <math.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

static const tolk_dtype ints[] = {TOLK_INDEX, TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64,
                                  TOLK_U8,    TOLK_U16, TOLK_U32, TOLK_U64};
static const tolk_dtype floats[] = {TOLK_FP8E4M3, TOLK_FP8E5M2, TOLK_BF16,
                                    TOLK_F16,     TOLK_F32,     TOLK_F64};
static const tolk_dtype narrow[] = {TOLK_FP8E4M3, TOLK_FP8E5M2, TOLK_BF16, TOLK_F16};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static uint64_t alu(tk_op op, tolk_dtype dt, uint64_t a, uint64_t b) {
    return tk_scalar_alu(op, dt, a, b, 0, true);
}
static uint64_t of(tolk_dtype dt, int64_t v) {
    return tk_dtype_canon(dt, (uint64_t)v);
}
static uint64_t fl(tolk_dtype dt, double v) {
    return tk_narrow_round(dt, v);
}
static bool is_nan(tolk_dtype dt, uint64_t bits) {
    return isnan(tk_narrow_widen(dt, bits)) != 0;
}

/* Every 8-bit integer op against the same in int, which holds all exact results. */
static void test_int_ops_on_all_8_bit_pairs_equal_exact_arithmetic(void **state) {
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        tolk_dtype dt = is_signed ? TOLK_I8 : TOLK_U8;
        int lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
        for (int a = lo; a <= hi; a++)
            for (int b = lo; b <= hi; b++) {
                uint64_t x = of(dt, a), y = of(dt, b);
                assert_int_equal(alu(TK_OP_ADD, dt, x, y), of(dt, a + b));
                assert_int_equal(alu(TK_OP_SUB, dt, x, y), of(dt, a - b));
                assert_int_equal(alu(TK_OP_MUL, dt, x, y), of(dt, a * b));
                assert_int_equal(tk_scalar_alu(TK_OP_MULACC, dt, x, y, x, true), of(dt, a * b + a));
                assert_int_equal(alu(TK_OP_NEG, dt, x, y), of(dt, -a));
                assert_int_equal(alu(TK_OP_MAX, dt, x, y), of(dt, a > b ? a : b));
                assert_int_equal(alu(TK_OP_AND, dt, x, y), of(dt, a & b));
                assert_int_equal(alu(TK_OP_OR, dt, x, y), of(dt, a | b));
                assert_int_equal(alu(TK_OP_XOR, dt, x, y), of(dt, a ^ b));
                assert_int_equal(alu(TK_OP_CMPLT, dt, x, y), a < b);
                assert_int_equal(alu(TK_OP_CMPNE, dt, x, y), a != b);
                assert_int_equal(alu(TK_OP_CMPEQ, dt, x, y), a == b);
                unsigned count = (unsigned)(b & 0xff);
                assert_int_equal(alu(TK_OP_SHL, dt, x, y),
                                 count < 8 ? of(dt, a * (1 << count)) : 0);
                int wide = a; /* shifted right in int, whose sign goes on */
                assert_int_equal(alu(TK_OP_SHR, dt, x, y), of(dt, count < 8 ? wide >> count
                                                                  : is_signed && a < 0 ? -1
                                                                                       : 0));
                int q = b ? a / b : 0, r = b ? a % b : a;
                assert_int_equal(alu(TK_OP_CDIV, dt, x, y), of(dt, q));
                assert_int_equal(alu(TK_OP_CMOD, dt, x, y), of(dt, r));
                if (b && r && (r < 0) != (b < 0)) {
                    q--;
                    r += b;
                }
                assert_int_equal(alu(TK_OP_FLOORDIV, dt, x, y), of(dt, q));
                assert_int_equal(alu(TK_OP_FLOORMOD, dt, x, y), of(dt, r));
            }
    }
}

static void test_int_ops_at_the_ends_of_every_dtype_wrap(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(ints); i++) {
        tolk_dtype dt = ints[i];
        uint64_t most = tk_dtype_is_signed(dt) ? (uint64_t)tk_dtype_max(dt)
                                               : UINT64_MAX >> (64 - tk_dtype_bits(dt));
        uint64_t least = (uint64_t)tk_dtype_min(dt);
        assert_int_equal(alu(TK_OP_ADD, dt, most, 1), least);
        assert_int_equal(alu(TK_OP_SUB, dt, least, 1), most);
        assert_int_equal(alu(TK_OP_NEG, dt, least, 0), least);
        assert_int_equal(alu(TK_OP_MUL, dt, most, 2), of(dt, -2));
        assert_int_equal(alu(TK_OP_MAX, dt, least, most), most);
        assert_int_equal(alu(TK_OP_CMPLT, dt, least, most), 1);
        assert_int_equal(alu(TK_OP_CMPLT, dt, most, least), 0);
    }
    assert_int_equal(alu(TK_OP_MUL, TOLK_U16, 65535, 65535), 1);
}

static void test_INT_01_min_by_minus_one_wraps(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(ints); i++) {
        tolk_dtype dt = ints[i];
        if (!tk_dtype_is_signed(dt))
            continue;
        uint64_t least = (uint64_t)tk_dtype_min(dt), minus = of(dt, -1);
        assert_int_equal(alu(TK_OP_CDIV, dt, least, minus), least);
        assert_int_equal(alu(TK_OP_CMOD, dt, least, minus), 0);
        assert_int_equal(alu(TK_OP_FLOORDIV, dt, least, minus), least);
        assert_int_equal(alu(TK_OP_FLOORMOD, dt, least, minus), 0);
        assert_int_equal(alu(TK_OP_CDIV, dt, 7, minus), of(dt, -7));
        assert_int_equal(alu(TK_OP_CMOD, dt, 7, minus), 0);
    }
}

static void test_division_by_zero_gives_zero_and_the_dividend(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(ints); i++) {
        tolk_dtype dt = ints[i];
        uint64_t a = of(dt, -3);
        assert_int_equal(alu(TK_OP_CDIV, dt, a, 0), 0);
        assert_int_equal(alu(TK_OP_CMOD, dt, a, 0), a);
        assert_int_equal(alu(TK_OP_FLOORDIV, dt, a, 0), 0);
        assert_int_equal(alu(TK_OP_FLOORMOD, dt, a, 0), a);
    }
}

static void test_INT_05_shift_past_the_width_gives_zero_or_the_sign(void **state) {
    (void)state;
    assert_int_equal(alu(TK_OP_SHR, TOLK_I64, 1000, 64), 0);
    assert_int_equal(alu(TK_OP_SHL, TOLK_I32, 1, 32), 0);
    assert_int_equal(alu(TK_OP_SHL, TOLK_I32, 1, of(TOLK_I32, -1)), 0);
    assert_int_equal(alu(TK_OP_SHR, TOLK_I32, of(TOLK_I32, -8), 33), of(TOLK_I32, -1));
    assert_int_equal(alu(TK_OP_SHR, TOLK_U32, 0x80000000, 32), 0);
    assert_int_equal(alu(TK_OP_SHL, TOLK_I8, 1, 8), 0);
    assert_int_equal(alu(TK_OP_SHR, TOLK_INDEX, UINT64_MAX, 63), UINT64_MAX);
    /* INT-13 */
    assert_int_equal(alu(TK_OP_SHR, TOLK_I32, of(TOLK_I32, -5), 31), of(TOLK_I32, -1));
    assert_int_equal(alu(TK_OP_SHR, TOLK_I32, 5, 31), 0);
    assert_int_equal(alu(TK_OP_SHL, TOLK_I32, 1, 31), of(TOLK_I32, INT32_MIN));
    assert_int_equal(alu(TK_OP_SHL, TOLK_I64, 1, 63), (uint64_t)INT64_MIN);
}

static void test_bool_add_and_max_are_or_mul_is_and(void **state) {
    (void)state;
    for (uint64_t a = 0; a < 2; a++)
        for (uint64_t b = 0; b < 2; b++) {
            assert_int_equal(alu(TK_OP_ADD, TOLK_BOOL, a, b), a | b);
            assert_int_equal(alu(TK_OP_MAX, TOLK_BOOL, a, b), a | b);
            assert_int_equal(alu(TK_OP_OR, TOLK_BOOL, a, b), a | b);
            assert_int_equal(alu(TK_OP_MUL, TOLK_BOOL, a, b), a & b);
            assert_int_equal(alu(TK_OP_AND, TOLK_BOOL, a, b), a & b);
            assert_int_equal(alu(TK_OP_XOR, TOLK_BOOL, a, b), a ^ b);
            assert_int_equal(alu(TK_OP_CMPLT, TOLK_BOOL, a, b), a < b);
        }
}

/* The known answers of Random123 for Threefry-2x32 with 20 rounds. */
static void test_threefry_gives_the_published_answers(void **state) {
    (void)state;
    assert_int_equal(alu(TK_OP_THREEFRY, TOLK_U64, 0, 0), 0x99ba4efe6b200159);
    assert_int_equal(alu(TK_OP_THREEFRY, TOLK_U64, UINT64_MAX, UINT64_MAX), 0xbb002be71cb996fc);
    assert_int_equal(alu(TK_OP_THREEFRY, TOLK_U64, 0x85a308d3243f6a88, 0x0370734413198a2e),
                     0x483df7a0c4923a9c);
}

/* In 80-bit arithmetic, whose 64 bits hold products and sums of the fp8s exactly and quotients
 * close enough (64 >= 2 * 4 + 2) that the one rounding from there is right. */
static void test_fp8_ops_on_all_pairs_are_rounded_once(void **state) {
    (void)state;
    for (int f = 0; f < 2; f++)
        for (uint64_t a = 0; a < 256; a++)
            for (uint64_t b = 0; b < 256; b++) {
                tolk_dtype dt = narrow[f];
                double x = tk_narrow_widen(dt, a), y = tk_narrow_widen(dt, b);
                assert_true(tk_scalar_same(dt, alu(TK_OP_ADD, dt, a, b), fl(dt, x + y)));
                assert_true(tk_scalar_same(dt, alu(TK_OP_SUB, dt, a, b), fl(dt, x - y)));
                assert_true(tk_scalar_same(dt, alu(TK_OP_MUL, dt, a, b), fl(dt, x * y)));
                assert_true(tk_scalar_same(dt, alu(TK_OP_FDIV, dt, a, b), fl(dt, x / y)));
                assert_int_equal(alu(TK_OP_CMPLT, dt, a, b), x < y);
                assert_int_equal(alu(TK_OP_CMPNE, dt, a, b), x != y);
                assert_int_equal(alu(TK_OP_CMPEQ, dt, a, b), x == y);
                double m = isnan(x) || isnan(y) ? (double)NAN : x > y ? x : y;
                if (x == 0 && y == 0)
                    m = signbit(x) && signbit(y) ? -0.0 : 0.0;
                assert_true(tk_scalar_same(dt, alu(TK_OP_MAX, dt, a, b), fl(dt, m)));
            }
}

#if defined(__FLT16_MANT_DIG__) && defined(__clang__)
static void test_f16_ops_equal_the_compilers(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed();
    for (int i = 0; i < 200000; i++) {
        uint64_t r = tk_test_rand(&rng);
        uint16_t a = (uint16_t)r, b = (uint16_t)(r >> 16), s;
        _Float16 x, y, z;
        memcpy(&x, &a, 2);
        memcpy(&y, &b, 2);
        const struct {
            tk_op op;
            _Float16 v;
        } t[] = {{TK_OP_ADD, x + y}, {TK_OP_SUB, x - y}, {TK_OP_MUL, x * y}, {TK_OP_FDIV, x / y}};
        for (size_t k = 0; k < COUNT(t); k++) {
            z = t[k].v;
            memcpy(&s, &z, 2);
            assert_true(tk_scalar_same(TOLK_F16, alu(t[k].op, TOLK_F16, a, b), s));
        }
    }
}
#endif

static void test_f32_and_f64_ops_equal_c(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed() + 1;
    for (int i = 0; i < 100000; i++) {
        uint64_t a = tk_test_rand(&rng), b = tk_test_rand(&rng), c = tk_test_rand(&rng), s;
        double x, y, z, r;
        memcpy(&x, &a, 8);
        memcpy(&y, &b, 8);
        memcpy(&z, &c, 8);
        const struct {
            tk_op op;
            double v;
        } d[] = {{TK_OP_ADD, x + y},          {TK_OP_SUB, x - y},          {TK_OP_MUL, x * y},
                 {TK_OP_FDIV, x / y},         {TK_OP_SQRT, sqrt(x)},       {TK_OP_TRUNC, trunc(x)},
                 {TK_OP_RECIPROCAL, 1.0 / x}, {TK_OP_MULACC, fma(x, y, z)}};
        for (size_t k = 0; k < COUNT(d); k++) {
            r = d[k].v;
            memcpy(&s, &r, 8);
            assert_true(
                tk_scalar_same(TOLK_F64, tk_scalar_alu(d[k].op, TOLK_F64, a, b, c, true), s));
        }
        float u, v, w, q;
        memcpy(&u, &a, 4);
        memcpy(&v, &b, 4);
        memcpy(&w, &c, 4);
        const struct {
            tk_op op;
            float v;
        } f[] = {{TK_OP_ADD, u + v},           {TK_OP_SUB, u - v},
                 {TK_OP_MUL, u * v},           {TK_OP_FDIV, u / v},
                 {TK_OP_SQRT, sqrtf(u)},       {TK_OP_TRUNC, truncf(u)},
                 {TK_OP_RECIPROCAL, 1.0F / u}, {TK_OP_MULACC, fmaf(u, v, w)}};
        for (size_t k = 0; k < COUNT(f); k++) {
            uint32_t bits;
            q = f[k].v;
            memcpy(&bits, &q, 4);
            assert_true(tk_scalar_same(TOLK_F32,
                                       tk_scalar_alu(f[k].op, TOLK_F32, a & 0xffffffff,
                                                     b & 0xffffffff, c & 0xffffffff, true),
                                       bits));
        }
    }
}

static void test_max_propagates_nan_and_orders_zeros(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(floats); i++) {
        tolk_dtype dt = floats[i];
        uint64_t nan = fl(dt, (double)NAN), one = fl(dt, 1), minus = fl(dt, -0.0);
        assert_true(is_nan(dt, alu(TK_OP_MAX, dt, nan, one)));
        assert_true(is_nan(dt, alu(TK_OP_MAX, dt, one, nan)));
        assert_int_equal(alu(TK_OP_MAX, dt, minus, 0), 0);
        assert_int_equal(alu(TK_OP_MAX, dt, 0, minus), 0);
        assert_int_equal(alu(TK_OP_MAX, dt, minus, minus), minus);
        assert_int_equal(alu(TK_OP_MAX, dt, fl(dt, -2), one), one);
    }
}

static void test_NAN_07_signs_of_zero_are_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(floats); i++) {
        tolk_dtype dt = floats[i];
        uint64_t minus = fl(dt, -0.0);
        assert_true(is_nan(dt, alu(TK_OP_SQRT, dt, fl(dt, -1), 0)));
        assert_int_equal(alu(TK_OP_SQRT, dt, minus, 0), minus);
        assert_int_equal(alu(TK_OP_NEG, dt, 0, 0), minus);
        assert_int_equal(alu(TK_OP_MUL, dt, 0, fl(dt, -1)), minus);
        assert_int_equal(alu(TK_OP_TRUNC, dt, fl(dt, -0.5), 0), minus);
        assert_int_equal(tk_scalar_cast(TOLK_F64, dt, fl(TOLK_F64, -0.0)), minus);
        assert_int_equal(alu(TK_OP_ADD, dt, minus, minus), minus);
        assert_int_equal(alu(TK_OP_ADD, dt, minus, 0), 0);
    }
}

static void test_narrow_mulacc_is_rounded_once(void **state) {
    (void)state;
    /* 1.25 * 1.5 = 1.875 is a tie of fp8e5m2 that goes to 2; a little less goes to 1.75. */
    tolk_dtype e5m2 = TOLK_FP8E5M2;
    uint64_t x = fl(e5m2, 1.25), y = fl(e5m2, 1.5), little = fl(e5m2, -0x1p-14);
    assert_int_equal(alu(TK_OP_MUL, e5m2, x, y), fl(e5m2, 2));
    assert_int_equal(tk_scalar_alu(TK_OP_MULACC, e5m2, x, y, little, true), fl(e5m2, 1.75));
    /* f16: (1 + 2^-10)(1 - 2^-10) = 1 - 2^-20, and minus 1 that is what remains. */
    uint64_t p = fl(TOLK_F16, 1 + 0x1p-10), q = fl(TOLK_F16, 1 - 0x1p-10);
    assert_int_equal(tk_scalar_alu(TK_OP_MULACC, TOLK_F16, p, q, fl(TOLK_F16, -1), true),
                     fl(TOLK_F16, -0x1p-20));
    assert_int_equal(alu(TK_OP_ADD, TOLK_F16, alu(TK_OP_MUL, TOLK_F16, p, q), fl(TOLK_F16, -1)), 0);
}

static void test_cast_float_to_int_saturates(void **state) {
    (void)state;
    for (size_t f = 0; f < COUNT(floats); f++)
        for (size_t i = 0; i < COUNT(ints); i++) {
            tolk_dtype from = floats[f], to = ints[i];
            uint64_t most = tk_dtype_is_signed(to) ? (uint64_t)tk_dtype_max(to)
                                                   : UINT64_MAX >> (64 - tk_dtype_bits(to));
            assert_int_equal(tk_scalar_cast(from, to, fl(from, (double)NAN)), 0);
            assert_int_equal(tk_scalar_cast(from, to, fl(from, -0.9)), 0);
            assert_int_equal(tk_scalar_cast(from, to, fl(from, 1.9)),
                             fl(from, 1.9) == fl(from, 2) ? 2U : 1U);
            assert_int_equal(tk_scalar_cast(from, to, fl(from, -2)),
                             tk_dtype_is_signed(to) ? of(to, -2) : 0);
            if (from == TOLK_FP8E4M3)
                continue; /* it has no infinity */
            assert_int_equal(tk_scalar_cast(from, to, fl(from, (double)INFINITY)), most);
            assert_int_equal(tk_scalar_cast(from, to, fl(from, -(double)INFINITY)),
                             (uint64_t)tk_dtype_min(to));
        }
    assert_int_equal(tk_scalar_cast(TOLK_F64, TOLK_I64, fl(TOLK_F64, 0x1p63)), INT64_MAX);
    assert_int_equal(tk_scalar_cast(TOLK_F64, TOLK_I64, fl(TOLK_F64, -0x1p63)),
                     (uint64_t)INT64_MIN);
    assert_int_equal(tk_scalar_cast(TOLK_F64, TOLK_U64, fl(TOLK_F64, 0x1p64)), UINT64_MAX);
    assert_int_equal(tk_scalar_cast(TOLK_F64, TOLK_U64, fl(TOLK_F64, 0x1.8p63)),
                     0xc000000000000000);
    assert_int_equal(tk_scalar_cast(TOLK_F32, TOLK_I32, fl(TOLK_F32, 2147483648.0)), INT32_MAX);
}

static void test_cast_to_bool_is_not_zero(void **state) {
    (void)state;
    for (size_t f = 0; f < COUNT(floats); f++) {
        tolk_dtype dt = floats[f];
        assert_int_equal(tk_scalar_cast(dt, TOLK_BOOL, 0), 0);
        assert_int_equal(tk_scalar_cast(dt, TOLK_BOOL, fl(dt, -0.0)), 0);
        assert_int_equal(tk_scalar_cast(dt, TOLK_BOOL, 1), 1); /* the least denormal */
        assert_int_equal(tk_scalar_cast(dt, TOLK_BOOL, fl(dt, (double)NAN)), 1);
        assert_int_equal(tk_scalar_cast(TOLK_BOOL, dt, 1), fl(dt, 1));
    }
    assert_int_equal(tk_scalar_cast(TOLK_I32, TOLK_BOOL, 256), 1);
    assert_int_equal(tk_scalar_cast(TOLK_BOOL, TOLK_I8, 1), 1);
}

static void test_CAST_07_narrow_integers_wrap_before_they_are_widened(void **state) {
    (void)state;
    uint64_t sum = alu(TK_OP_ADD, TOLK_U8, 128, 128);
    assert_int_equal(tk_scalar_cast(TOLK_U8, TOLK_I16, sum), 0);
    uint64_t neg = alu(TK_OP_NEG, TOLK_U8, 6, 0);
    assert_int_equal(neg, 250);
    assert_int_equal(alu(TK_OP_CMPLT, TOLK_U8, neg, 4), 0);
    uint64_t past = alu(TK_OP_ADD, TOLK_I8, 127, 1);
    assert_int_equal(tk_scalar_cast(TOLK_I8, TOLK_I32, past), of(TOLK_I32, -128));
    uint64_t square = alu(TK_OP_MUL, TOLK_U16, 65535, 65535);
    assert_int_equal(tk_scalar_cast(TOLK_U16, TOLK_U32, square), 1);
    assert_int_equal(tk_scalar_cast(TOLK_I32, TOLK_I8, 300), 44);
}

static void test_cast_int_to_float_is_rounded_once(void **state) {
    (void)state;
    assert_int_equal(tk_scalar_cast(TOLK_U64, TOLK_F32, UINT64_MAX), fl(TOLK_F32, 0x1p64));
    assert_int_equal(tk_scalar_cast(TOLK_I64, TOLK_F32, (1ULL << 53) + (1ULL << 29) + 1),
                     fl(TOLK_F32, 0x1p53 + 0x1p30)); /* through f64 it would tie down */
    assert_int_equal(tk_scalar_cast(TOLK_INDEX, TOLK_F64, of(TOLK_INDEX, -3)), fl(TOLK_F64, -3));
    assert_int_equal(tk_scalar_cast(TOLK_U32, TOLK_F16, 65520), 0x7c00);
}

static void test_bitcast_keeps_bits(void **state) {
    (void)state;
    assert_int_equal(tk_scalar_bitcast(TOLK_F32, TOLK_I32, 0xffc00001), of(TOLK_I32, -4194303));
    assert_int_equal(tk_scalar_bitcast(TOLK_I32, TOLK_F32, of(TOLK_I32, -4194303)), 0xffc00001);
    assert_int_equal(tk_scalar_bitcast(TOLK_I8, TOLK_U8, of(TOLK_I8, -1)), 255);
    assert_int_equal(tk_scalar_bitcast(TOLK_U8, TOLK_BOOL, 7), 1);
}

static void test_identity_leaves_every_value_as_it_is(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(floats); i++) {
        tolk_dtype dt = floats[i];
        for (int rop = 0; rop < 3; rop++) {
            uint64_t id = tk_scalar_identity((tk_rop)rop, dt);
            for (double v = -448; v < 449; v += 64)
                assert_int_equal(alu(tk_op_of_rop((tk_rop)rop), dt, id, fl(dt, v)), fl(dt, v));
        }
        if (dt != TOLK_FP8E4M3)
            assert_int_equal(tk_scalar_identity(TK_ROP_MAX, dt), fl(dt, -(double)INFINITY));
    }
    for (size_t i = 0; i < COUNT(ints); i++)
        for (int rop = 0; rop < 3; rop++) {
            uint64_t id = tk_scalar_identity((tk_rop)rop, ints[i]);
            for (int64_t v = -100; v < 100; v++)
                assert_int_equal(alu(tk_op_of_rop((tk_rop)rop), ints[i], id, of(ints[i], v)),
                                 of(ints[i], v));
        }
    assert_int_equal(tk_scalar_identity(TK_ROP_ADD, TOLK_BOOL), 0);
    assert_int_equal(tk_scalar_identity(TK_ROP_MUL, TOLK_BOOL), 1);
    assert_int_equal(tk_scalar_identity(TK_ROP_MAX, TOLK_BOOL), 0);
}

static void test_same_takes_any_nan_for_any_other(void **state) {
    (void)state;
    assert_true(tk_scalar_same(TOLK_F32, 0x7fc00000, 0xff800001));
    assert_false(tk_scalar_same(TOLK_F32, 0x7fc00000, 0x7f800000));
    assert_false(tk_scalar_same(TOLK_F32, 0, 0x80000000));
    assert_false(tk_scalar_same(TOLK_I32, 0x7fc00000, 0x7fc00001));
    assert_true(tk_scalar_same(TOLK_FP8E4M3, 0x7f, 0xff));
}

static void test_caller_rounding_mode_and_flushing_do_not_matter(void **state) {
    (void)state;
    uint64_t third = alu(TK_OP_FDIV, TOLK_F32, fl(TOLK_F32, 1), fl(TOLK_F32, 3));
    uint64_t denormal = alu(TK_OP_MUL, TOLK_F32, fl(TOLK_F32, 0x1p-100), fl(TOLK_F32, 0x1p-40));
    uint64_t e = alu(TK_OP_EXP, TOLK_F64, fl(TOLK_F64, 1), 0);
    assert_int_equal(denormal, 1U << 9);
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 3; i++) {
        fesetround(modes[i]);
#if defined(__SSE2__)
        _mm_setcsr(_mm_getcsr() | 0x8040);
        unsigned csr = _mm_getcsr() & ~0x3fU;
#endif
        uint64_t t = alu(TK_OP_FDIV, TOLK_F32, fl(TOLK_F32, 1), fl(TOLK_F32, 3));
        uint64_t d = alu(TK_OP_MUL, TOLK_F32, fl(TOLK_F32, 0x1p-100), fl(TOLK_F32, 0x1p-40));
        uint64_t x = alu(TK_OP_EXP, TOLK_F64, fl(TOLK_F64, 1), 0);
        uint64_t b = tk_scalar_cast(TOLK_F32, TOLK_BOOL, 1);
        uint64_t up = tk_scalar_cast(TOLK_F64, TOLK_F32, 0x3fe0000010000001);
        uint64_t down = tk_scalar_cast(TOLK_F64, TOLK_F32, 0x3fe000000fffffff);
        int mode = fegetround();
#if defined(__SSE2__)
        unsigned after = _mm_getcsr() & ~0x3fU;
        _mm_setcsr(0x1f80);
        assert_int_equal(after, csr);
#endif
        fesetround(FE_TONEAREST);
        assert_int_equal(mode, modes[i]);
        assert_int_equal(t, third);
        assert_int_equal(d, denormal);
        assert_int_equal(x, e);
        assert_int_equal(b, 1);
        assert_int_equal(up, 0x3f000001);
        assert_int_equal(down, 0x3f000000);
    }
}

/* NUM-11: what libm would call a domain error is a value. */
static void test_NUM_11_special_operands_give_values(void **state) {
    (void)state;
    static const tolk_dtype dts[] = {TOLK_F16, TOLK_BF16, TOLK_F32, TOLK_F64};
    for (size_t i = 0; i < COUNT(dts); i++) {
        tolk_dtype dt = dts[i];
        uint64_t inf = fl(dt, (double)INFINITY);
        assert_true(is_nan(dt, alu(TK_OP_SIN, dt, inf, 0)));
        assert_true(is_nan(dt, alu(TK_OP_LOG2, dt, fl(dt, -1), 0)));
        assert_true(is_nan(dt, alu(TK_OP_SQRT, dt, fl(dt, -1), 0)));
        assert_int_equal(alu(TK_OP_RECIPROCAL, dt, 0, 0), inf);
        assert_int_equal(alu(TK_OP_EXP2, dt, fl(dt, 1e6), 0), inf);
        assert_int_equal(tk_scalar_cast(dt, TOLK_I32, fl(dt, (double)NAN)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int_ops_on_all_8_bit_pairs_equal_exact_arithmetic),
        cmocka_unit_test(test_int_ops_at_the_ends_of_every_dtype_wrap),
        cmocka_unit_test(test_INT_01_min_by_minus_one_wraps),
        cmocka_unit_test(test_division_by_zero_gives_zero_and_the_dividend),
        cmocka_unit_test(test_INT_05_shift_past_the_width_gives_zero_or_the_sign),
        cmocka_unit_test(test_bool_add_and_max_are_or_mul_is_and),
        cmocka_unit_test(test_threefry_gives_the_published_answers),
        cmocka_unit_test(test_fp8_ops_on_all_pairs_are_rounded_once),
#if defined(__FLT16_MANT_DIG__) && defined(__clang__)
        cmocka_unit_test(test_f16_ops_equal_the_compilers),
#endif
        cmocka_unit_test(test_f32_and_f64_ops_equal_c),
        cmocka_unit_test(test_max_propagates_nan_and_orders_zeros),
        cmocka_unit_test(test_NAN_07_signs_of_zero_are_kept),
        cmocka_unit_test(test_narrow_mulacc_is_rounded_once),
        cmocka_unit_test(test_cast_float_to_int_saturates),
        cmocka_unit_test(test_cast_to_bool_is_not_zero),
        cmocka_unit_test(test_CAST_07_narrow_integers_wrap_before_they_are_widened),
        cmocka_unit_test(test_cast_int_to_float_is_rounded_once),
        cmocka_unit_test(test_bitcast_keeps_bits),
        cmocka_unit_test(test_identity_leaves_every_value_as_it_is),
        cmocka_unit_test(test_same_takes_any_nan_for_any_other),
        cmocka_unit_test(test_caller_rounding_mode_and_flushing_do_not_matter),
        cmocka_unit_test(test_NUM_11_special_operands_give_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
