/* SPDX-License-Identifier: MIT
 *
 * Narrow floats: every code, every midpoint, and the hardware where it has the conversion.
 */
#include "ir/narrow.h"

#include "support/tk_test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const struct narrow {
    tolk_dtype dtype;
    unsigned bits;
    uint64_t last_finite, inf, nan; /* positive codes; inf = nan where there is no infinity */
    double max, min_denormal;
} narrows[] = {
    {TOLK_F16, 16, 0x7bff, 0x7c00, 0x7e00, 65504.0, 0x1p-24},
    {TOLK_BF16, 16, 0x7f7f, 0x7f80, 0x7fc0, 0x1.fep127, 0x1p-133},
    {TOLK_FP8E4M3, 8, 0x7e, 0x7f, 0x7f, 448.0, 0x1p-9},
    {TOLK_FP8E5M2, 8, 0x7b, 0x7c, 0x7e, 57344.0, 0x1p-16},
};
enum { NARROWS = sizeof narrows / sizeof narrows[0] };

static uint32_t bits32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t from_f32(tolk_dtype dtype, float v) {
    switch (dtype) {
    case TOLK_F16:
        return tk_narrow_f16_from_f32(v);
    case TOLK_BF16:
        return tk_narrow_bf16_from_f32(v);
    case TOLK_FP8E4M3:
        return tk_narrow_fp8e4m3_from_f32(v);
    default:
        return tk_narrow_fp8e5m2_from_f32(v);
    }
}

static uint64_t from_f64(tolk_dtype dtype, double v) {
    switch (dtype) {
    case TOLK_F16:
        return tk_narrow_f16_from_f64(v);
    case TOLK_BF16:
        return tk_narrow_bf16_from_f64(v);
    case TOLK_FP8E4M3:
        return tk_narrow_fp8e4m3_from_f64(v);
    default:
        return tk_narrow_fp8e5m2_from_f64(v);
    }
}

static float to_f32(tolk_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case TOLK_F16:
        return tk_narrow_f16_to_f32((uint16_t)bits);
    case TOLK_BF16:
        return tk_narrow_bf16_to_f32((uint16_t)bits);
    case TOLK_FP8E4M3:
        return tk_narrow_fp8e4m3_to_f32((uint8_t)bits);
    default:
        return tk_narrow_fp8e5m2_to_f32((uint8_t)bits);
    }
}

static void test_widen_every_code_is_exact_and_comes_back(void **state) {
    (void)state;
    for (int k = 0; k < NARROWS; k++) {
        const struct narrow *n = &narrows[k];
        const uint64_t sign = 1ULL << (n->bits - 1);
        double before = -1;
        for (uint64_t code = 0; code < 2 * sign; code++) {
            double v = tk_narrow_widen(n->dtype, code);
            float f = to_f32(n->dtype, code);
            uint64_t magnitude = code & ~sign;
            if (magnitude > n->inf || n->inf == n->nan ? magnitude > n->last_finite : 0) {
                assert_true(isnan(v) && isnan(f));
                assert_int_equal(!!signbit(v), !!(code & sign));
                /* Sign and payload stay, made quiet. */
                uint64_t back = tk_narrow_round(n->dtype, v);
                assert_int_equal(back, code | (n->nan ^ (n->inf == n->nan ? n->nan : n->inf)));
                assert_int_equal(from_f32(n->dtype, f), back);
                continue;
            }
            assert_true((double)f == v);
            assert_int_equal(!!signbit(v), !!(code & sign));
            assert_int_equal(tk_narrow_round(n->dtype, v), code);
            assert_int_equal(from_f64(n->dtype, v), code);
            assert_int_equal(from_f32(n->dtype, f), code);
            if (!(code & sign)) {
                assert_true(v > before);
                before = v;
            }
        }
        assert_true(tk_narrow_widen(n->dtype, n->last_finite) == n->max);
        assert_true(tk_narrow_widen(n->dtype, 1) == n->min_denormal);
        if (n->inf != n->nan)
            assert_true(isinf(tk_narrow_widen(n->dtype, n->inf)));
    }
}

static void check_one(const struct narrow *n, double v, uint64_t expect) {
    const uint64_t sign = 1ULL << (n->bits - 1);
    assert_int_equal(tk_narrow_round(n->dtype, v), expect);
    assert_int_equal(tk_narrow_round(n->dtype, -v), expect | sign);
    if ((double)(float)v == v)
        assert_int_equal(from_f32(n->dtype, (float)v), expect);
}

static void test_round_at_every_midpoint_ties_to_even(void **state) {
    (void)state;
    for (int k = 0; k < NARROWS; k++) {
        const struct narrow *n = &narrows[k];
        for (uint64_t code = 0; code <= n->last_finite; code++) {
            double lo = tk_narrow_widen(n->dtype, code);
            /* Above the last one, the neighbour it would have decides. */
            double hi = code < n->last_finite ? tk_narrow_widen(n->dtype, code + 1)
                                              : 2 * lo - tk_narrow_widen(n->dtype, code - 1);
            uint64_t above = code < n->last_finite ? code + 1 : n->inf;
            double mid = lo + (hi - lo) / 2;
            check_one(n, mid, code & 1 ? above : code);
            check_one(n, nextafter(mid, 0), code);
            check_one(n, nextafter(mid, INFINITY), above);
            check_one(n, nextafter(hi, 0), above);
            if (code)
                check_one(n, nextafter(lo, INFINITY), code);
            /* The neighbouring f32s, which the f64 path must not round twice. */
            check_one(n, (double)nextafterf((float)mid, 0), code);
            check_one(n, (double)nextafterf((float)mid, INFINITY), above);
        }
        check_one(n, 4.9406564584124654e-324, 0);
        check_one(n, DBL_MAX, n->inf);
        check_one(n, INFINITY, n->inf);
    }
}

static void test_round_f32_from_f64_equals_hardware(void **state) {
    (void)state;
    uint64_t x = 88172645463325252ULL;
    for (int i = 0; i < 2000000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t u = x;
        if (i & 1) /* near the range of f32 */
            u = (u & 0x800fffffffffffffULL) | ((uint64_t)(1023 - 160 + (x >> 55) % 300) << 52);
        double v;
        memcpy(&v, &u, sizeof v);
        if (isnan(v))
            continue;
        assert_int_equal(tk_narrow_round(TOLK_F32, v), bits32((float)v));
    }
    assert_int_equal(tk_narrow_round(TOLK_F64, -0.0), 1ULL << 63);
    assert_int_equal(tk_narrow_round(TOLK_I32, 1.0), 0);
}

static void test_from_integer_is_rounded_once(void **state) {
    (void)state;
    uint64_t x = 362436069362436069ULL;
    for (int i = 0; i < 500000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t u = x >> (i & 63);
        int64_t s = (int64_t)(i & 64 ? 0 - u : u);
        assert_int_equal(tk_narrow_from_u64(TOLK_F32, u), bits32((float)u));
        assert_int_equal(tk_narrow_from_i64(TOLK_F32, s), bits32((float)s));
        double d = (double)u, sd = (double)s;
        uint64_t db, sb;
        memcpy(&db, &d, 8);
        memcpy(&sb, &sd, 8);
        assert_int_equal(tk_narrow_from_u64(TOLK_F64, u), db);
        assert_int_equal(tk_narrow_from_i64(TOLK_F64, s), sb);
        /* Up to 53 bits the f64 is exact, so that rounding it is rounding once. */
        if (u >> 53 == 0)
            for (int k = 0; k < NARROWS; k++)
                assert_int_equal(tk_narrow_from_u64(narrows[k].dtype, u),
                                 tk_narrow_round(narrows[k].dtype, d));
    }
    assert_int_equal(tk_narrow_from_i64(TOLK_F64, INT64_MIN), 0xc3e0000000000000ULL);
    assert_int_equal(tk_narrow_from_i64(TOLK_BF16, INT64_MIN), 0xdf00);
    assert_int_equal(tk_narrow_from_i64(TOLK_F16, -65520), 0xfc00);
    /* Just above a tie of bf16 by a bit that an f64 or f32 in between would lose. */
    assert_int_equal(tk_narrow_from_u64(TOLK_BF16, (0x101ULL << 54) + 1), 0x5e81);
    assert_int_equal(tk_narrow_from_u64(TOLK_BF16, 0x101ULL << 54), 0x5e80);
}

static void test_fma_rounds_the_exact_sum_once(void **state) {
    (void)state;
    /* Against 80-bit arithmetic where it is exact: fp8e4m3 has products and sums of few bits. */
    for (uint64_t a = 0; a < 256; a++)
        for (uint64_t b = 0; b < 256; b++)
            for (uint64_t c = 0; c < 256; c += 3) {
                double v = tk_narrow_widen(TOLK_FP8E4M3, a) * tk_narrow_widen(TOLK_FP8E4M3, b) +
                           tk_narrow_widen(TOLK_FP8E4M3, c);
                uint64_t got = tk_narrow_fma(TOLK_FP8E4M3, a, b, c);
                if (isnan(v))
                    assert_int_equal(got & 0x7f, 0x7f);
                else
                    assert_int_equal(got, tk_narrow_round(TOLK_FP8E4M3, v));
            }
    /* bf16: 1 + half an ulp + a product far below f64's last bit must go up, minus it must not. */
    uint64_t half = tk_narrow_round(TOLK_BF16, 0x1p-100);
    assert_int_equal(tk_narrow_fma(TOLK_BF16, half, half, 0x3f80), 0x3f80);
    uint64_t big = tk_narrow_round(TOLK_BF16, 0x1.02p+10); /* 258^2 = 66564 */
    uint64_t tiny = tk_narrow_round(TOLK_BF16, 0x1p-90);
    assert_int_equal(
        tk_narrow_fma(TOLK_BF16, tk_narrow_round(TOLK_BF16, 257 * 0x1p0), 0x3f80, tiny),
        tk_narrow_round(TOLK_BF16, 256));
    assert_int_equal(tk_narrow_fma(TOLK_BF16, big, big, tiny),
                     tk_narrow_round(TOLK_BF16, nextafter(0x1.02p+10 * 0x1.02p+10, INFINITY)));
    /* 1.5 * 0x1.55p0 = 0x1.ff8p0 is a tie of bf16; the sign of what comes to it decides. */
    uint64_t x = tk_narrow_round(TOLK_BF16, 1.5), y = 0;
    for (uint64_t m = 0x3f80; m < 0x4000; m++) {
        double p = tk_narrow_widen(TOLK_BF16, x) * tk_narrow_widen(TOLK_BF16, m);
        uint64_t even = tk_narrow_round(TOLK_BF16, p);
        if (tk_narrow_round(TOLK_BF16, nextafter(p, 0)) !=
            tk_narrow_round(TOLK_BF16, nextafter(p, 9))) {
            y++;
            assert_int_equal(tk_narrow_fma(TOLK_BF16, x, m, tiny),
                             tk_narrow_round(TOLK_BF16, nextafter(p, 9)));
            assert_int_equal(tk_narrow_fma(TOLK_BF16, x, m, tiny | 0x8000),
                             tk_narrow_round(TOLK_BF16, nextafter(p, 0)));
            assert_int_equal(tk_narrow_fma(TOLK_BF16, x, m, 0), even);
        }
    }
    assert_true(y > 10);
    assert_int_equal(tk_narrow_fma(TOLK_F32, 0x3f800000, 0x3f800000, 0), 0);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static void f16_by_hardware(const float *in, uint16_t *out) {
    __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(in), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)out, h);
}

__attribute__((target("avx512bf16,avx512vl"))) static void bf16_by_hardware(const float *in,
                                                                            uint16_t *out) {
    __m128bh h = _mm256_cvtneps_pbh(_mm256_loadu_ps(in));
    memcpy(out, &h, 16);
}
#endif

static void test_f16_and_bf16_equal_hardware(void **state) {
    (void)state;
#if defined(__x86_64__)
    bool has_f16 = __builtin_cpu_supports("f16c");
    bool has_bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
    if (!has_f16 && !has_bf16)
        skip();
    float in[8];
    uint16_t out[8];
    /* A stride that is prime to 2^32 reaches every exponent with all sorts of low bits. */
    for (uint64_t base = 0; base < 1ULL << 32; base += 8 * 251) {
        for (int i = 0; i < 8; i++)
            in[i] = float_of((uint32_t)(base + (uint64_t)i * 251));
        if (has_f16) {
            f16_by_hardware(in, out);
            for (int i = 0; i < 8; i++)
                assert_int_equal(tk_narrow_f16_from_f32(in[i]), out[i]);
        }
        if (has_bf16) {
            bf16_by_hardware(in, out);
            for (int i = 0; i < 8; i++) /* the instruction flushes denormals: not ours to follow */
                if (isnan(in[i]) || fabsf(in[i]) >= FLT_MIN)
                    assert_int_equal(tk_narrow_bf16_from_f32(in[i]), out[i]);
        }
    }
#else
    skip();
#endif
}

static void test_CAST_03_u32_to_f16_rounds_and_overflows_to_inf(void **state) {
    (void)state;
    static const uint32_t in[8] = {0, 1, 2, 65504, 65519, 65520, 100000, 4294967295U};
    static const uint16_t out[8] = {0, 0x3c00, 0x4000, 0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(tk_narrow_from_u64(TOLK_F16, in[i]), out[i]);
        assert_int_equal(tk_narrow_f16_from_f64(in[i]), out[i]);
    }
}

static void test_CAST_05_bf16_rounds_and_keeps_nan(void **state) {
    (void)state;
    assert_true(tk_narrow_bf16_to_f32(tk_narrow_bf16_from_f32(0.2691408770292272F)) == 0.26953125F);
    assert_true(tk_narrow_bf16_to_f32(tk_narrow_bf16_from_f32(3.14F)) == 3.140625F);
    assert_true(tk_narrow_bf16_to_f32(tk_narrow_bf16_from_f32(1e-8F)) == 1.00117177e-08F);
    assert_int_equal(tk_narrow_bf16_from_f32(FLT_MAX), 0x7f80);
    static const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xffffffff, 0xff800001};
    for (int i = 0; i < 4; i++) {
        uint16_t h = tk_narrow_bf16_from_f32(float_of(nans[i]));
        assert_int_equal(h & 0x7fc0, 0x7fc0);
        assert_int_equal(h >> 15, nans[i] >> 31);
        assert_int_equal(tk_narrow_f16_from_f32(float_of(nans[i])) & 0x7e00, 0x7e00);
        assert_int_equal(tk_narrow_fp8e5m2_from_f32(float_of(nans[i])) & 0x7e, 0x7e);
        assert_int_equal(tk_narrow_fp8e4m3_from_f32(float_of(nans[i])) & 0x7f, 0x7f);
    }
    assert_int_equal(tk_narrow_bf16_from_f32(float_of(0x3f808000)), 0x3f80);
    assert_int_equal(tk_narrow_bf16_from_f32(float_of(0x3f818000)), 0x3f82);
}

static void test_NAN_07_cast_keeps_the_sign_of_zero(void **state) {
    (void)state;
    assert_int_equal(tk_narrow_f16_from_f32(-0.0F), 0x8000);
    assert_int_equal(tk_narrow_bf16_from_f64(-0.0), 0x8000);
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(-0.0), 0x80);
    assert_int_equal(tk_narrow_fp8e5m2_from_f32(-1e-30F), 0x80);
    assert_true(signbit(tk_narrow_fp8e5m2_to_f64(0x80)) != 0);
    assert_int_equal(tk_narrow_from_i64(TOLK_F16, 0), 0);
}

static void test_fp8e4m3_above_448_ties_down_at_464_else_nan(void **state) {
    (void)state;
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(448), 0x7e);
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(464), 0x7e);
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(nextafter(464, 1e9)), 0x7f);
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(480), 0x7f);
    assert_int_equal(tk_narrow_fp8e4m3_from_f64(-1e300), 0xff);
    assert_int_equal(tk_narrow_fp8e4m3_from_f32(-INFINITY), 0xff);
    assert_int_equal(tk_narrow_from_i64(TOLK_FP8E4M3, -465), 0xff);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widen_every_code_is_exact_and_comes_back),
        cmocka_unit_test(test_round_at_every_midpoint_ties_to_even),
        cmocka_unit_test(test_round_f32_from_f64_equals_hardware),
        cmocka_unit_test(test_from_integer_is_rounded_once),
        cmocka_unit_test(test_fma_rounds_the_exact_sum_once),
        cmocka_unit_test(test_f16_and_bf16_equal_hardware),
        cmocka_unit_test(test_CAST_03_u32_to_f16_rounds_and_overflows_to_inf),
        cmocka_unit_test(test_CAST_05_bf16_rounds_and_keeps_nan),
        cmocka_unit_test(test_NAN_07_cast_keeps_the_sign_of_zero),
        cmocka_unit_test(test_fp8e4m3_above_448_ties_down_at_464_else_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
