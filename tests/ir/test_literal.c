/* SPDX-License-Identifier: MIT
 *
 * Literals: every code of the narrow floats, and decimal numbers against the C library's strtod.
 */
#include "ir/literal.h"

#include "support/tk_test.h"

#include "base/ctx.h"
#include "ir/dtype.h"
#include "ir/narrow.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tolk_dtype floats[] = {TOLK_FP8E4M3, TOLK_FP8E5M2, TOLK_BF16,
                                    TOLK_F16,     TOLK_F32,     TOLK_F64};
enum { FLOATS = sizeof floats / sizeof *floats };

static tk_literal_result read_text(tolk_dtype dtype, const char *s, uint64_t *bits) {
    /* On the heap without a NUL, so that a read past the end is seen. */
    size_t n = strlen(s);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, s, n);
    tk_literal_result r = tk_literal_read(dtype, copy, n, bits);
    free(copy);
    return r;
}

static const char *write_text(tolk_dtype dtype, uint64_t bits, char out[64]) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    tk_literal_write(&sb, dtype, bits);
    assert_true(!sb.failed && sb.n < 64);
    memcpy(out, sb.at, sb.n + 1);
    tk_strbuf_fini(&sb);
    return out;
}

static void check_round_trip(tolk_dtype dtype, uint64_t bits) {
    char text[64];
    uint64_t back = ~bits;
    write_text(dtype, bits, text);
    if (read_text(dtype, text, &back) != TK_LITERAL_OK || back != bits)
        fail_msg("%s 0x%llx is written as %s and read as 0x%llx", tolk_dtype_name(dtype),
                 (unsigned long long)bits, text, (unsigned long long)back);
}

static uint64_t bits64(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double f64_of(uint64_t u) {
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static uint64_t bits32(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static void test_round_trip_every_narrow_code_is_exact(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++)
        for (uint64_t bits = 0; bits < (uint64_t)1 << tk_dtype_bits(floats[k]); bits++)
            check_round_trip(floats[k], bits);
}

static void test_round_trip_wide_floats_is_exact(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed(), n = tk_test_count(2000000);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = tk_test_rand(&seed);
        check_round_trip(TOLK_F64, r);
        check_round_trip(TOLK_F32, r >> 32);
        check_round_trip(TOLK_F64, r & 0x800fffffffffffff);         /* denormals */
        check_round_trip(TOLK_F32, (r >> 32) & 0x807fffff);         /* denormals */
        check_round_trip(TOLK_F64, r | 0x7ff0000000000000);         /* NaNs */
        check_round_trip(TOLK_F64, r & 0xfff0000000000000);         /* powers of two */
        check_round_trip(TOLK_F64, (r >> 12) & ~(uint64_t)0 << 40); /* few digits */
    }
    for (int s = 0; s < 64; s++) {
        check_round_trip(TOLK_F64, (uint64_t)1 << s);
        check_round_trip(TOLK_F64, ((uint64_t)1 << s) - 1);
    }
}

static void test_write_floats_is_shortest_hex(void **state) {
    (void)state;
    static const struct {
        tolk_dtype dtype;
        uint64_t bits;
        const char *text;
    } rows[] = {
        {TOLK_F32, 0x40400000, "0x1.8p+1"},
        {TOLK_F32, 0x40490fdb, "0x1.921fb6p+1"}, /* CG-09: pi */
        {TOLK_F32, 0, "0x0p+0"},
        {TOLK_F32, 0x80000000, "-0x0p+0"},
        {TOLK_F32, 0x3f800000, "0x1p+0"},
        {TOLK_F32, 1, "0x1p-149"},
        {TOLK_F32, 0x807fffff, "-0x1.fffffcp-127"},
        {TOLK_F32, 0x7f7fffff, "0x1.fffffep+127"},
        {TOLK_F32, 0x7f800000, "inf"},
        {TOLK_F32, 0xff800000, "-inf"},
        {TOLK_F32, 0x7fc00000, "nan"},
        {TOLK_F32, 0xffc00000, "nan(0xffc00000)"},
        {TOLK_F32, 0x7f800001, "nan(0x7f800001)"},
        {TOLK_F64, 1, "0x1p-1074"},
        {TOLK_F64, 0x400921fb54442d18, "0x1.921fb54442d18p+1"},
        {TOLK_F64, 0x7ff8000000000000, "nan"},
        {TOLK_F16, 0x3c00, "0x1p+0"},
        {TOLK_F16, 0x7e00, "nan"},
        {TOLK_F16, 0x0001, "0x1p-24"},
        {TOLK_BF16, 0x7fc0, "nan"},
        {TOLK_FP8E4M3, 0x7e, "0x1.cp+8"}, /* 448 */
        {TOLK_FP8E4M3, 0x7f, "nan"},
        {TOLK_FP8E4M3, 0xff, "nan(0xff)"},
        {TOLK_FP8E5M2, 0x7c, "inf"},
        {TOLK_FP8E5M2, 0x7e, "nan"},
    };
    char text[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(write_text(rows[i].dtype, rows[i].bits, text), rows[i].text);
}

/* The C library's value, and ours. Overflow is out of range to us. */
static void check_decimal(const char *text) {
    uint64_t bits = 0;
    double d = strtod(text, NULL);
    tk_literal_result r = read_text(TOLK_F64, text, &bits);
    if (isinf(d) ? r != TK_LITERAL_RANGE : r != TK_LITERAL_OK || bits != bits64(d))
        fail_msg("f64 %s: result %d, bits 0x%llx, expected %a", text, (int)r,
                 (unsigned long long)bits, d);
    float f = strtof(text, NULL);
    r = read_text(TOLK_F32, text, &bits);
    if (isinf(f) ? r != TK_LITERAL_RANGE : r != TK_LITERAL_OK || bits != bits32(f))
        fail_msg("f32 %s: result %d, bits 0x%llx, expected %a", text, (int)r,
                 (unsigned long long)bits, (double)f);
}

static void test_read_random_decimals_as_strtod(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed() + 1, n = tk_test_count(400000);
    for (uint64_t i = 0; i < n; i++) {
        char text[128];
        size_t at = 0;
        uint64_t r = tk_test_rand(&seed);
        if (r & 1)
            text[at++] = '-';
        unsigned before = r >> 1 & 31, after = r >> 6 & 31;
        for (unsigned k = 0; k < before; k++)
            text[at++] = (char)('0' + tk_test_rand(&seed) % 10);
        if (r >> 11 & 1 || !before) {
            text[at++] = '.';
            for (unsigned k = 0; k <= after; k++)
                text[at++] = (char)('0' + tk_test_rand(&seed) % 10);
        }
        text[at] = 0;
        if (r >> 12 & 3)
            snprintf(text + at, sizeof text - at, "%c%d", r >> 14 & 1 ? 'e' : 'E',
                     (int)(r >> 15 & 1023) % (r >> 25 & 1 ? 30 : 360) * (r >> 26 & 1 ? 1 : -1));
        check_decimal(text);
    }
}

/* Exactly between two neighbours, and a hair beside: what a reader with too few digits gets wrong.
 */
static void test_read_midpoints_exactly(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed() + 2, n = tk_test_count(20000);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t r = tk_test_rand(&seed) & 0x7fffffffffffffff;
        if (i % 4 == 0)
            r &= 0x000fffffffffffff;
        if (i % 4 == 1)
            r &= 0x0007ffffffff;
        if (r >= 0x7fe0000000000000)
            continue;
        char text[1400];
        long double mid = ((long double)f64_of(r) + (long double)f64_of(r + 1)) / 2;
        int len = snprintf(text, sizeof text, "%.1100Le", mid);
        assert_true(len > 1100 && len < (int)sizeof text);
        check_decimal(text);
        char *e = strchr(text, 'e');
        assert_non_null(e);
        e[-1] = '1';
        check_decimal(text);
        float f = (float)ldexp((double)(r >> 40), (int)(r & 127) - 100);
        double half = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
        if (isfinite(half)) {
            snprintf(text, sizeof text, "%.800e", half);
            check_decimal(text);
        }
    }
    /* The one everyone gets wrong, and more digits than are kept. */
    check_decimal("2.2250738585072011e-308");
    check_decimal("2.2250738585072012e-308");
    check_decimal("1.00000005960464477539062500000000000000000000000000000001");
    char *text = malloc(1 << 20);
    assert_non_null(text);
    memset(text, '3', (1 << 20) - 1);
    text[(1 << 20) - 1] = 0;
    text[1] = '.';
    check_decimal(text);
    /* 0.000...1e1048570: the exponent brings the digit back. */
    memset(text, '0', (1 << 20) - 1);
    text[1] = '.';
    memcpy(text + 1048560, "1e1048558", 10);
    uint64_t bits;
    assert_int_equal(read_text(TOLK_F64, text, &bits), TK_LITERAL_OK);
    assert_int_equal(bits, bits64(0.1));
    free(text);
}

static void test_read_narrow_rounds_once(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed() + 3, n = tk_test_count(400000);
    for (uint64_t i = 0; i < n; i++) {
        /* Values near those of the dtype, and near their midpoints, exactly as decimals. */
        tolk_dtype dtype = floats[tk_test_rand(&seed) % 4];
        uint64_t r = tk_test_rand(&seed), code = r & (((uint64_t)1 << tk_dtype_bits(dtype)) - 1);
        double v = tk_narrow_widen(dtype, code), w = tk_narrow_widen(dtype, code ^ 1);
        if (!isfinite(v) || !isfinite(w))
            continue;
        double mid = r >> 60 & 1 ? v + (w - v) / 2 : v + (w - v) / 4 * (double)(r >> 61 & 3);
        if (r >> 59 & 1)
            mid = nextafter(mid, r >> 58 & 1 ? INFINITY : -INFINITY);
        uint64_t expected = tk_narrow_round(dtype, mid), bits = 0;
        char text[1200];
        snprintf(text, sizeof text, r >> 57 & 1 ? "%a" : "%.400e", mid);
        tk_literal_result result = read_text(dtype, text, &bits);
        if (!isfinite(tk_narrow_widen(dtype, expected)))
            assert_int_equal(result, TK_LITERAL_RANGE);
        else if (result != TK_LITERAL_OK || bits != expected)
            fail_msg("%s %s: 0x%llx, expected 0x%llx", tolk_dtype_name(dtype), text,
                     (unsigned long long)bits, (unsigned long long)expected);
    }
}

static void test_read_in_other_rounding_modes_is_the_same(void **state) {
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static const char *const texts[] = {"0.1", "1e23", "3.141592653589793", "1e-320", "-2.5e10"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (int k = 0; k < FLOATS; k++) {
            uint64_t nearest = 0, other = 1;
            tk_literal_result a = read_text(floats[k], texts[t], &nearest);
            for (size_t m = 0; m < 3; m++) {
                fesetround(modes[m]);
                tk_literal_result b = read_text(floats[k], texts[t], &other);
                int mode = fegetround();
                fesetround(FE_TONEAREST);
                assert_int_equal(mode, modes[m]);
                assert_int_equal(a, b);
                if (a == TK_LITERAL_OK)
                    assert_int_equal(nearest, other);
            }
        }
}

/* PARSE-03: literals at the edges. RED-05: integer extremes never pass through a double. */
static void test_PARSE_03_RED_05_edges(void **state) {
    (void)state;
    enum { OK = TK_LITERAL_OK, BAD = TK_LITERAL_SYNTAX, FAR = TK_LITERAL_RANGE };
    static const struct {
        tolk_dtype dtype;
        const char *text;
        int result;
        uint64_t bits;
    } rows[] = {
        {TOLK_I32, "-2147483648", OK, 0xffffffff80000000},
        {TOLK_I32, "2147483647", OK, 2147483647},
        {TOLK_I32, "2147483648", FAR, 0},
        {TOLK_I32, "-2147483649", FAR, 0},
        {TOLK_I64, "-9223372036854775808", OK, 0x8000000000000000},
        {TOLK_I64, "9223372036854775807", OK, INT64_MAX},
        {TOLK_I64, "9223372036854775808", FAR, 0},
        {TOLK_I64, "-9223372036854775809", FAR, 0},
        {TOLK_I64, "9007199254740993", OK, 9007199254740993},
        {TOLK_INDEX, "9007199254740993", OK, 9007199254740993},
        {TOLK_U64, "18446744073709551615", OK, UINT64_MAX},
        {TOLK_U64, "18446744073709551616", FAR, 0},
        {TOLK_U64, "99999999999999999999999999", FAR, 0},
        {TOLK_U64, "0xffffffffffffffff", OK, UINT64_MAX},
        {TOLK_U64, "0x10000000000000000", FAR, 0},
        {TOLK_U64, "-1", FAR, 0},
        {TOLK_U8, "255", OK, 255},
        {TOLK_U8, "256", FAR, 0},
        {TOLK_I8, "-128", OK, 0xffffffffffffff80},
        {TOLK_I8, "128", FAR, 0},
        {TOLK_I8, "0x7F", OK, 127},
        {TOLK_I8, "0xff", FAR, 0},
        {TOLK_I8, "-0x80", OK, 0xffffffffffffff80},
        {TOLK_I32, "-0", OK, 0},
        {TOLK_I32, "007", OK, 7},
        {TOLK_I32, "", BAD, 0},
        {TOLK_I32, "-", BAD, 0},
        {TOLK_I32, "--5", BAD, 0},
        {TOLK_I32, "+5", BAD, 0},
        {TOLK_I32, "0x", BAD, 0},
        {TOLK_I32, "0xg", BAD, 0},
        {TOLK_I32, "1.0", BAD, 0},
        {TOLK_I32, "1e3", BAD, 0},
        {TOLK_I32, "12a", BAD, 0},
        {TOLK_I32, "true", BAD, 0},
        {TOLK_I32,
         "\xe2\x88\x92"
         "5",
         BAD, 0},
        {TOLK_BOOL, "true", OK, 1},
        {TOLK_BOOL, "false", OK, 0},
        {TOLK_BOOL, "1", BAD, 0},
        {TOLK_BOOL, "True", BAD, 0},
        {TOLK_F64, "1e400", FAR, 0},
        {TOLK_F64, "-1e400", FAR, 0},
        {TOLK_F64, "1e99999999999999999999999999", FAR, 0},
        {TOLK_F64, "0e99999999999999999999999999", OK, 0},
        {TOLK_F64, "1e-400", OK, 0},
        {TOLK_F64, "-1e-400", OK, 0x8000000000000000},
        {TOLK_F64, "1e-99999999999999999999999999", OK, 0},
        {TOLK_F64, "0x1p1023", OK, 0x7fe0000000000000},
        {TOLK_F64, "0x1p1024", FAR, 0},
        {TOLK_F64, "0x1.fffffffffffff7p1023", OK, 0x7fefffffffffffff},
        {TOLK_F64, "0x1.fffffffffffff8p1023", FAR, 0},
        {TOLK_F64, "0x1p-1074", OK, 1},
        {TOLK_F64, "0x1p-1075", OK, 0},
        {TOLK_F64, "0x1.0000000000000000000000001p-1075", OK, 1},
        {TOLK_F64, "0x1p-99999", OK, 0},
        {TOLK_F64, "0x0.00000000000000000000000000000001p128", OK, 0x3ff0000000000000},
        {TOLK_F64, "16777217", OK, 0x4170000010000000},
        {TOLK_F32, "16777217", OK, 0x4b800000},
        {TOLK_F32, "16777219", OK, 0x4b800002},
        {TOLK_F32, "0x1.fffffep127", OK, 0x7f7fffff},
        {TOLK_F32, "1e-45", OK, 1},
        {TOLK_F32, "1e-46", OK, 0},
        {TOLK_F32, "1e-8", OK, 0x322bcc77},
        {TOLK_F32, "1e-18", OK, 0x219392ef},
        {TOLK_F32, "1e39", FAR, 0},
        {TOLK_F32, "1.", OK, 0x3f800000},
        {TOLK_F32, ".5", OK, 0x3f000000},
        {TOLK_F32, "5", OK, 0x40a00000},
        {TOLK_F32, "0x10", OK, 0x41800000},
        {TOLK_F32, "1E+2", OK, 0x42c80000},
        {TOLK_F32, ".", BAD, 0},
        {TOLK_F32, "-", BAD, 0},
        {TOLK_F32, "1e", BAD, 0},
        {TOLK_F32, "1e+", BAD, 0},
        {TOLK_F32, "e5", BAD, 0},
        {TOLK_F32, "0x", BAD, 0},
        {TOLK_F32, "0x.p1", BAD, 0},
        {TOLK_F32, "0x1p", BAD, 0},
        {TOLK_F32, "1.2.3", BAD, 0},
        {TOLK_F32, "0x1.2.3", BAD, 0},
        {TOLK_F32, "--5", BAD, 0},
        {TOLK_F32, "0,5", BAD, 0},
        {TOLK_F32, "1f", BAD, 0},
        {TOLK_F32, "infinity", BAD, 0},
        {TOLK_F32, "INF", BAD, 0},
        {TOLK_F32, "-nan", BAD, 0},
        {TOLK_F32, "inf", OK, 0x7f800000},
        {TOLK_F32, "-inf", OK, 0xff800000},
        {TOLK_F32, "nan(0x7f800000)", FAR, 0}, /* that is inf */
        {TOLK_F32, "nan(0x3f800000)", FAR, 0}, /* that is 1 */
        {TOLK_F32, "nan(0x1ffffffff)", FAR, 0},
        {TOLK_F32, "nan(0xffffffff)", OK, 0xffffffff},
        {TOLK_F32, "nan(0x)", BAD, 0},
        {TOLK_F32, "nan(12)", BAD, 0},
        {TOLK_F32, "nan(0x7fc00001", BAD, 0},
        {TOLK_F16, "65519", OK, 0x7bff},
        {TOLK_F16, "65520", FAR, 0},
        {TOLK_FP8E4M3, "464", OK, 0x7e}, /* ties to 448 */
        {TOLK_FP8E4M3, "464.0000001", FAR, 0},
        {TOLK_FP8E4M3, "-464", OK, 0xfe},
        {TOLK_FP8E4M3, "inf", FAR, 0},
        {TOLK_FP8E4M3, "-inf", FAR, 0},
        {TOLK_FP8E4M3, "nan(0x7e)", FAR, 0},
        {TOLK_FP8E5M2, "61439", OK, 0x7b},
        {TOLK_FP8E5M2, "61440", FAR, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t bits = 0;
        int r = (int)read_text(rows[i].dtype, rows[i].text, &bits);
        if (r != rows[i].result || (r == OK && bits != rows[i].bits))
            fail_msg("%s %s: result %d, expected %d; bits 0x%llx, expected 0x%llx",
                     tolk_dtype_name(rows[i].dtype), rows[i].text, r, rows[i].result,
                     (unsigned long long)bits, (unsigned long long)rows[i].bits);
    }
}

static void test_utf8_stops_at_the_first_bad_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t valid, n;
    } rows[] = {
        {"abc", 3, 3},
        {"", 0, 0},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10, 10},
        {"a\xc3", 1, 2},
        {"\x80", 0, 1},
        {"\xc0\xaf", 0, 2},         /* overlong */
        {"\xe0\x9f\xbf", 0, 3},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0, 4}, /* overlong */
        {"\xed\xa0\x80", 0, 3},     /* surrogate */
        {"\xed\x9f\xbf", 3, 3},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xf4\x90\x80\x80", 0, 4}, /* above U+10FFFF */
        {"\xff", 0, 1},
        {"ok\xe2\x82", 2, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tk_literal_utf8(rows[i].text, rows[i].n), rows[i].valid);
}

static void test_escape_every_character_comes_back(void **state) {
    (void)state;
    for (unsigned c = 0; c < 0x20; c++) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &tk_alloc_malloc);
        char in = (char)c, out[4] = {1};
        size_t n = 0;
        tk_literal_write_string(&sb, &in, 1);
        assert_true(sb.n >= 4 && sb.at[0] == '"' && sb.at[1] == '\\' && sb.at[sb.n - 1] == '"');
        assert_int_equal(tk_literal_read_escape(sb.at + 2, sb.n - 3, out, &n), sb.n - 3);
        assert_int_equal(n, 1);
        assert_int_equal(out[0], (char)c);
        tk_strbuf_fini(&sb);
    }
    static const struct {
        const char *text, *utf8; /* NULL: no escape */
        size_t used;
    } rows[] = {
        {"u00e9", "\xc3\xa9", 5},
        {"u20AC", "\xe2\x82\xac", 5},
        {"ud83d\\ude00", "\xf0\x9f\x98\x80", 11},
        {"ud83d", NULL, 0},
        {"ud83dxude00", NULL, 0},
        {"ud83d\\ud83d", NULL, 0},
        {"ude00", NULL, 0},
        {"u12", NULL, 0},
        {"u12g4", NULL, 0},
        {"x41", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[4];
        size_t n = 0;
        size_t used = tk_literal_read_escape(rows[i].text, strlen(rows[i].text), out, &n);
        assert_int_equal(used, rows[i].used);
        if (rows[i].utf8) {
            assert_int_equal(n, strlen(rows[i].utf8));
            assert_memory_equal(out, rows[i].utf8, n);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_every_narrow_code_is_exact),
        cmocka_unit_test(test_round_trip_wide_floats_is_exact),
        cmocka_unit_test(test_write_floats_is_shortest_hex),
        cmocka_unit_test(test_read_random_decimals_as_strtod),
        cmocka_unit_test(test_read_midpoints_exactly),
        cmocka_unit_test(test_read_narrow_rounds_once),
        cmocka_unit_test(test_read_in_other_rounding_modes_is_the_same),
        cmocka_unit_test(test_PARSE_03_RED_05_edges),
        cmocka_unit_test(test_utf8_stops_at_the_first_bad_byte),
        cmocka_unit_test(test_escape_every_character_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
