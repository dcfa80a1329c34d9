/* SPDX-License-Identifier: MIT
 *
 * Every cast and bitcast, two casts in a row, where and plain copies, between all dtypes that
 * compilers have, on edge values: the interpreter against C on 64-bit mantissas and against stated
 * values, code against the interpreter.
 */
#include "support/tk_edge.h"
#include "support/tk_edge_op.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/scalar.h"
#include "ir/sym.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { N_DTYPES = TK_EDGE_DTYPES + 1 };

/* The last one is index, which comes from memory and goes there as i64. */
static tolk_dtype dtype(size_t i) {
    return i < TK_EDGE_DTYPES ? tk_edge_dtypes[i] : TOLK_INDEX;
}

static tolk_dtype memory(tolk_dtype dt) {
    return dt == TOLK_INDEX ? TOLK_I64 : dt;
}

/* ---- the value table, again ---- */

static_assert(LDBL_MANT_DIG >= 64, "long double holds every value of every dtype");

static long double value(tolk_dtype dt, uint64_t bits) {
    if (dt == TOLK_F32) {
        uint32_t u = (uint32_t)bits;
        float f;
        memcpy(&f, &u, sizeof f);
        return (long double)f;
    }
    if (dt == TOLK_F64) {
        double d;
        memcpy(&d, &bits, sizeof d);
        return (long double)d;
    }
    return tk_dtype_is_signed(dt) ? (long double)(int64_t)bits : (long double)bits;
}

static uint64_t float_of(tolk_dtype to, long double v) {
    float f = (float)v;
    double d = (double)v;
    uint32_t u32;
    uint64_t u64;
    memcpy(&u32, &f, sizeof u32);
    memcpy(&u64, &d, sizeof u64);
    return to == TOLK_F32 ? u32 : u64;
}

static uint64_t saturated(tolk_dtype to, long double v) {
    const long double lo = (long double)tk_dtype_min(to);
    const long double hi = to == TOLK_U64 ? (long double)UINT64_MAX : (long double)tk_dtype_max(to);
    if (isnan(v))
        return 0;
    if (v <= lo)
        return (uint64_t)tk_dtype_min(to);
    if (v >= hi)
        return to == TOLK_U64 ? UINT64_MAX : (uint64_t)tk_dtype_max(to);
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t cast(tolk_dtype from, tolk_dtype to, uint64_t bits) {
    const long double v = value(from, bits);
    if (to == TOLK_BOOL)
        return v != 0;
    if (tolk_dtype_is_float(to))
        return float_of(to, v);
    return tolk_dtype_is_float(from) ? saturated(to, v) : tk_dtype_canon(to, bits);
}

/* ---- kernels ---- */

/* %at = %x, which is of dtype `from`, as `to`, by way of memory's dtypes for index. */
static void put_load(tk_strbuf *sb, tolk_dtype from, int at) {
    if (from == TOLK_INDEX)
        tk_strbuf_fmt(sb, "%%%d = cast index (%%100)\n", at);
}

static int load_of(tolk_dtype from, int at) {
    return from == TOLK_INDEX ? at : 100;
}

static void put_cast(tk_strbuf *sb, const char *op, tolk_dtype to, int x, int r) {
    int at = to == TOLK_INDEX ? 5000 + r : 200 + r;
    tk_strbuf_fmt(sb, "%%%d = %s %s (%%%d)\n", at, op, tolk_dtype_name(to), x);
    if (to == TOLK_INDEX)
        tk_strbuf_fmt(sb, "%%%d = cast i64 (%%%d)\n", 200 + r, at);
}

typedef struct rows {
    uint64_t bits[TK_EDGE_VALUES], loaded[TK_EDGE_VALUES];
    size_t n;
} rows;

static void rows_of(rows *r, tolk_dtype dt) {
    r->n = tk_edge_values(memory(dt), true, r->bits);
    for (size_t i = 0; i < r->n; i++)
        r->loaded[i] = tk_dtype_canon(memory(dt), r->bits[i]);
}

static void test_casts_between_all_dtypes_are_rounded_once_or_saturate(void **state) {
    (void)state;
    static rows r;
    static uint64_t want[TK_EDGE_VALUES];
    for (size_t i = 0; i < N_DTYPES; i++)
        for (size_t k = 0; k < N_DTYPES; k++) {
            const tolk_dtype from = dtype(i), to = dtype(k);
            rows_of(&r, from);
            tk_strbuf sb;
            tk_strbuf_init(&sb, &tk_alloc_malloc);
            put_load(&sb, from, 300);
            put_cast(&sb, "cast", to, load_of(from, 300), 0);
            assert_false(sb.failed);
            for (size_t at = 0; at < r.n; at++)
                want[at] = from == to ? r.loaded[at] : cast(from, to, r.loaded[at]);
            char name[48];
            snprintf(name, sizeof name, "cast %s to %s", tolk_dtype_name(from),
                     tolk_dtype_name(to));
            const tk_edge e = {.name = name,
                               .body = sb.at,
                               .in = {memory(from)},
                               .out = memory(to),
                               .bits = {r.bits},
                               .rows = r.n,
                               .want = want,
                               .all_bits = from == to};
            tk_edge_run(&e);
            tk_strbuf_fini(&sb);
        }
}

/* Each of the small dtypes' values, to all dtypes at once. */
static void test_casts_of_all_8_and_16_bit_values_are_exact(void **state) {
    (void)state;
    enum { N = 65536 };
    static uint64_t bits[N], want[N];
    static const tolk_dtype small[] = {TOLK_I8, TOLK_U8, TOLK_I16, TOLK_U16};
    for (size_t i = 0; i < COUNT(small); i++)
        for (size_t k = 0; k < TK_EDGE_DTYPES; k++) {
            const tolk_dtype to = dtype(k);
            const size_t n = (size_t)1 << tk_dtype_bits(small[i]);
            for (size_t at = 0; at < n; at++) {
                bits[at] = tk_dtype_canon(small[i], at);
                want[at] = cast(small[i], to, bits[at]);
            }
            char body[64];
            snprintf(body, sizeof body, "%%200 = cast %s (%%100)", tolk_dtype_name(to));
            const tk_edge e = {.name = body,
                               .body = body,
                               .in = {small[i]},
                               .out = to,
                               .bits = {bits},
                               .rows = n,
                               .want = want};
            tk_edge_run_ways(&e, TK_EDGE_HEURISTIC | TK_EDGE_ONE_TARGET);
        }
}

/* cast(cast(x, mid), to) for every mid: none is skipped that changes a value. */
static void test_two_casts_in_a_row_are_two(void **state) {
    (void)state;
    static rows r;
    static uint64_t want[N_DTYPES * TK_EDGE_VALUES];
    for (size_t i = 0; i < N_DTYPES; i++)
        for (size_t k = 0; k < N_DTYPES; k++) {
            const tolk_dtype from = dtype(i), to = dtype(k);
            rows_of(&r, from);
            tk_strbuf sb;
            tk_strbuf_init(&sb, &tk_alloc_malloc);
            put_load(&sb, from, 300);
            for (size_t m = 0; m < N_DTYPES; m++) {
                const tolk_dtype mid = dtype(m);
                const int at = 400 + (int)m;
                tk_strbuf_fmt(&sb, "%%%d = cast %s (%%%d)\n", at, tolk_dtype_name(mid),
                              load_of(from, 300));
                put_cast(&sb, "cast", to, at, (int)m);
                for (size_t j = 0; j < r.n; j++) {
                    const uint64_t v = from == mid ? r.loaded[j] : cast(from, mid, r.loaded[j]);
                    want[m * r.n + j] = mid == to ? v : cast(mid, to, v);
                }
            }
            assert_false(sb.failed);
            char name[48];
            snprintf(name, sizeof name, "two casts, %s to %s", tolk_dtype_name(from),
                     tolk_dtype_name(to));
            const tk_edge e = {.name = name,
                               .body = sb.at,
                               .in = {memory(from)},
                               .out = memory(to),
                               .bits = {r.bits},
                               .rows = r.n,
                               .results = N_DTYPES,
                               .want = want};
            tk_edge_run_ways(&e, tk_test_share() >= 100
                                     ? TK_EDGE_NONE | TK_EDGE_LANES
                                     : TK_EDGE_ONE_TARGET | (k % 2 ? TK_EDGE_NONE : TK_EDGE_LANES));
            tk_strbuf_fini(&sb);
        }
}

/* The simplifier's casts of constants; bitcasts, too. */
static void test_casts_of_constants_are_folded_to_the_same_value(void **state) {
    (void)state;
    static rows r;
    tolk_graph *g = tk_edge_graph();
    for (size_t i = 0; i < N_DTYPES; i++)
        for (size_t k = 0; k < N_DTYPES; k++) {
            const tolk_dtype from = dtype(i), to = dtype(k);
            rows_of(&r, from);
            for (size_t at = 0; at < r.n && from != to; at++) {
                const tolk_uop *c = tk_uop_const(g, from, r.loaded[at]);
                const tolk_uop *u = tk_sym(g, tk_uop_cast(g, c, to));
                assert_true(u && tk_uop_is_const(u));
                if (!tk_scalar_same(to, tk_uop_bits(u), cast(from, to, r.loaded[at])))
                    fail_msg("cast %s 0x%llx to %s is folded to 0x%llx", tolk_dtype_name(from),
                             (unsigned long long)r.loaded[at], tolk_dtype_name(to),
                             (unsigned long long)tk_uop_bits(u));
                if (tk_dtype_bits(from) != tk_dtype_bits(to))
                    continue;
                u = tk_sym(g, tk_uop_bitcast(g, c, to));
                assert_true(u && tk_uop_is_const(u));
                assert_int_equal(tk_uop_bits(u), tk_dtype_canon(to, r.loaded[at]));
            }
        }
    tolk_graph_destroy(g);
}

/* ---- bits ---- */

/* Load and store keep bits, those of a signalling NaN, too; a bool is stored as 0 or 1. Bitcasts
 * between all dtypes of one width likewise. */
static void test_bitcasts_and_copies_keep_all_bits(void **state) {
    (void)state;
    static rows r;
    static uint64_t want[TK_EDGE_VALUES];
    for (size_t i = 0; i < N_DTYPES; i++)
        for (size_t k = 0; k < N_DTYPES; k++) {
            const tolk_dtype from = dtype(i), to = dtype(k);
            if (tk_dtype_bits(from) != tk_dtype_bits(to))
                continue;
            rows_of(&r, from);
            tk_strbuf sb;
            tk_strbuf_init(&sb, &tk_alloc_malloc);
            put_load(&sb, from, 300);
            put_cast(&sb, "bitcast", to, load_of(from, 300), 0);
            assert_false(sb.failed);
            for (size_t at = 0; at < r.n; at++)
                want[at] = tk_dtype_canon(to, r.loaded[at]);
            char name[48];
            snprintf(name, sizeof name, "bitcast %s to %s", tolk_dtype_name(from),
                     tolk_dtype_name(to));
            const tk_edge e = {.name = name,
                               .body = sb.at,
                               .in = {memory(from)},
                               .out = memory(to),
                               .bits = {r.bits},
                               .rows = r.n,
                               .want = want,
                               .all_bits = true};
            tk_edge_run(&e);
            tk_strbuf_fini(&sb);
        }
}

/* ---- where ---- */

static void test_where_chooses_by_any_byte(void **state) {
    (void)state;
    enum { MAX = 6 * 100 * 100 };
    static uint64_t c[MAX], a[MAX], b[MAX], want[MAX];
    uint64_t bytes[TK_EDGE_VALUES], v[TK_EDGE_VALUES];
    const size_t n_bytes = tk_edge_values(TOLK_BOOL, false, bytes);
    for (size_t d = 0; d < TK_EDGE_DTYPES; d++) {
        const tolk_dtype dt = dtype(d);
        const size_t n = tk_edge_values(dt, false, v);
        assert_true(n_bytes * n * n <= MAX);
        for (size_t i = 0; i < n_bytes * n * n; i++) {
            c[i] = bytes[i % n_bytes];
            a[i] = v[i / n_bytes % n];
            b[i] = v[i / n_bytes / n];
            want[i] = tk_dtype_canon(dt, c[i] ? a[i] : b[i]);
        }
        char body[64];
        snprintf(body, sizeof body, "%%200 = where %s (%%100, %%101, %%102)", tolk_dtype_name(dt));
        const tk_edge e = {.name = body,
                           .body = body,
                           .in = {TOLK_BOOL, dt, dt},
                           .out = dt,
                           .bits = {c, a, b},
                           .rows = n_bytes * n * n,
                           .want = want};
        tk_edge_run(&e);
    }
}

/* where(c, x, const), where(c, const, x), where(x < const, x, const) and the same with one constant
 * twice, for every constant. */
static void test_where_of_constants_chooses(void **state) {
    (void)state;
    uint64_t v[TK_EDGE_VALUES], cond[TK_EDGE_VALUES];
    static uint64_t want[4 * 8 * TK_EDGE_VALUES];
    for (size_t d = 0; d < TK_EDGE_DTYPES; d++) {
        const tolk_dtype dt = dtype(d);
        const char *name = tolk_dtype_name(dt);
        const size_t n = tk_edge_values(dt, false, v);
        for (size_t i = 0; i < n; i++)
            cond[i] = i % 3 ? 0 : i % 2 ? 0x80 : 1;
        for (size_t first = 0; first < n; first += 8) {
            const size_t count = n - first < 8 ? n - first : 8;
            tk_strbuf sb;
            tk_strbuf_init(&sb, &tk_alloc_malloc);
            for (size_t k = 0; k < count; k++) {
                const uint64_t x = tk_dtype_canon(dt, v[first + k]);
                const size_t at = 400 + k, r = 200 + 4 * k;
                tk_strbuf_fmt(&sb, "%%%zu = const %s ", at, name);
                tk_literal_write(&sb, dt, x);
                tk_strbuf_fmt(&sb,
                              "\n%%%zu = where %s (%%100, %%101, %%%zu)\n"
                              "%%%zu = where %s (%%100, %%%zu, %%101)\n"
                              "%%%zu = cmplt bool (%%101, %%%zu)\n"
                              "%%%zu = where %s (%%%zu, %%101, %%%zu)\n"
                              "%%%zu = where %s (%%100, %%%zu, %%%zu)\n",
                              r, name, at, r + 1, name, at, 500 + k, at, r + 2, name, 500 + k, at,
                              r + 3, name, at, at);
                for (size_t i = 0; i < n; i++) {
                    const uint64_t y = tk_dtype_canon(dt, v[i]);
                    const long double p = value(dt, y), q = value(dt, x);
                    want[(4 * k) * n + i] = cond[i] ? y : x;
                    want[(4 * k + 1) * n + i] = cond[i] ? x : y;
                    want[(4 * k + 2) * n + i] = p < q ? y : x;
                    want[(4 * k + 3) * n + i] = x;
                }
            }
            assert_false(sb.failed);
            const tk_edge e = {.name = "where with constants",
                               .body = sb.at,
                               .in = {TOLK_BOOL, dt},
                               .out = dt,
                               .bits = {cond, v},
                               .rows = n,
                               .results = 4 * count,
                               .want = want};
            tk_edge_run_ways(&e, TK_EDGE_ONE_TARGET | (first ? TK_EDGE_NONE : TK_EDGE_LANES));
            tk_strbuf_fini(&sb);
        }
    }
}

/* A bool as a number: mask * x, mask + mask, and counted. */
static void test_bools_are_numbers_0_and_1(void **state) {
    (void)state;
    static const uint64_t bytes[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0, 3, 1, 1};
    uint64_t want[COUNT(bytes)];
    for (size_t d = 0; d < TK_EDGE_DTYPES; d++) {
        const tolk_dtype dt = dtype(d);
        if (dt == TOLK_BOOL)
            continue;
        for (size_t i = 0; i < COUNT(bytes); i++)
            want[i] = cast(TOLK_I64, dt, bytes[i] ? 7 : 2);
        char body[256];
        snprintf(body, sizeof body,
                 "%%300 = cast %s (%%100)\n%%301 = const %s 5\n%%302 = mul %s (%%300, %%301)\n"
                 "%%303 = const %s 2\n%%200 = add %s (%%302, %%303)",
                 tolk_dtype_name(dt), tolk_dtype_name(dt), tolk_dtype_name(dt), tolk_dtype_name(dt),
                 tolk_dtype_name(dt));
        const tk_edge e = {.name = body,
                           .body = body,
                           .in = {TOLK_BOOL},
                           .out = dt,
                           .bits = {bytes},
                           .rows = COUNT(bytes),
                           .want = want};
        tk_edge_run(&e);
    }
}

/* ---- stated values ---- */

typedef struct fact {
    tolk_dtype from, to;
    double v; /* from a float: rounded to it; from an integer: exact */
    double want;
} fact;

static uint64_t bits_of(tolk_dtype dt, double v) {
    if (tolk_dtype_is_float(dt))
        return float_of(dt, (long double)v);
    return v < 0 ? (uint64_t)(int64_t)v : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

static void run_fact(tolk_dtype from, tolk_dtype to, uint64_t bits, uint64_t want) {
    char body[64];
    snprintf(body, sizeof body, "%%200 = cast %s (%%100)", tolk_dtype_name(to));
    const tk_edge e = {.name = body,
                       .body = body,
                       .in = {from},
                       .out = to,
                       .bits = {&bits},
                       .rows = 1,
                       .want = &want};
    tk_edge_run_ways(&e, TK_EDGE_NONE);
}

static void test_cast_values_are_those_stated(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    /* 2^63 - 1 and 2^64 - 1 are no doubles: a result of 0x1p64 stands for the latter */
    const fact facts[] = {
        {TOLK_F32, TOLK_U8, -0.9, 0},
        {TOLK_F32, TOLK_U8, -2.18, 0},
        {TOLK_F32, TOLK_U8, 255.9, 255},
        {TOLK_F32, TOLK_U8, 256, 255},
        {TOLK_F32, TOLK_U8, inf, 255},
        {TOLK_F32, TOLK_U8, nan, 0},
        {TOLK_F32, TOLK_I8, -128.9, -128},
        {TOLK_F32, TOLK_I8, -129, -128},
        {TOLK_F32, TOLK_I8, 127.9, 127},
        {TOLK_F32, TOLK_I8, 1e10, 127},
        {TOLK_F32, TOLK_I8, -inf, -128},
        {TOLK_F64, TOLK_I16, 32767.9999, 32767},
        {TOLK_F64, TOLK_I16, -32769, -32768},
        {TOLK_F64, TOLK_U16, 65535.9999, 65535},
        {TOLK_F64, TOLK_U16, -0.0, 0},
        {TOLK_F32, TOLK_I32, 2147483648.0, 2147483647},
        {TOLK_F32, TOLK_I32, 2147483520.0, 2147483520},
        {TOLK_F32, TOLK_I32, -2147483648.0, -2147483648.0},
        {TOLK_F32, TOLK_I32, -2147483904.0, -2147483648.0},
        {TOLK_F32, TOLK_I32, nan, 0},
        {TOLK_F32, TOLK_I32, -0.999999, 0},
        {TOLK_F64, TOLK_I32, 2147483647.9, 2147483647},
        {TOLK_F64, TOLK_I32, -2147483648.9, -2147483648.0},
        {TOLK_F64, TOLK_U32, 4294967295.5, 4294967295.0},
        {TOLK_F64, TOLK_U32, 4294967296.0, 4294967295.0},
        {TOLK_F32, TOLK_U32, 4294967040.0, 4294967040.0},
        {TOLK_F32, TOLK_U32, 3e9, 3e9},
        {TOLK_F32, TOLK_U32, -1, 0},
        {TOLK_F64, TOLK_I64, 9223372036854774784.0, 9223372036854774784.0},
        {TOLK_F64, TOLK_I64, -9223372036854775808.0, -9223372036854775808.0},
        {TOLK_F64, TOLK_I64, -1e19, -9223372036854775808.0},
        {TOLK_F32, TOLK_I64, nan, 0},
        {TOLK_F64, TOLK_U64, 18446744073709549568.0, 18446744073709549568.0},
        {TOLK_F64, TOLK_U64, 0x1p64, 0x1p64},
        {TOLK_F64, TOLK_U64, 0x1p63, 0x1p63},
        {TOLK_F32, TOLK_U64, inf, 0x1p64},
        {TOLK_F32, TOLK_U64, -1, 0},
        /* to bool: is it not 0 */
        {TOLK_F32, TOLK_BOOL, 0x1p-149, 1},
        {TOLK_F32, TOLK_BOOL, -0.0, 0},
        {TOLK_F32, TOLK_BOOL, nan, 1},
        {TOLK_F64, TOLK_BOOL, 0.3, 1},
        {TOLK_I32, TOLK_BOOL, 256, 1},
        {TOLK_U64, TOLK_BOOL, 0x1p63, 1},
        {TOLK_BOOL, TOLK_F32, 1, 1},
        {TOLK_BOOL, TOLK_I8, 1, 1},
        /* integers keep the low bits */
        {TOLK_I32, TOLK_I8, 300, 44},
        {TOLK_I32, TOLK_U8, -1, 255},
        {TOLK_I8, TOLK_U64, -1, 0x1p64},
        {TOLK_I8, TOLK_U32, -1, 4294967295.0},
        {TOLK_U8, TOLK_I64, 200, 200},
        {TOLK_U8, TOLK_I8, 200, -56},
        {TOLK_U32, TOLK_I64, 4294967295.0, 4294967295.0},
        {TOLK_I64, TOLK_I32, 4294967296.0, 0},
        /* integers to floats: ties to even */
        {TOLK_I32, TOLK_F32, 16777217, 16777216},
        {TOLK_I32, TOLK_F32, 16777219, 16777220},
        {TOLK_I32, TOLK_F32, -16777217, -16777216},
        {TOLK_I32, TOLK_F32, 2147483647, 2147483648.0},
        {TOLK_U32, TOLK_F32, 4294967295.0, 4294967296.0},
        {TOLK_U32, TOLK_F64, 4294967295.0, 4294967295.0},
        {TOLK_U64, TOLK_F32, 0x1p64, 0x1p64},
        {TOLK_U64, TOLK_F64, 0x1p64, 0x1p64},
        {TOLK_I64, TOLK_F32, -9223372036854775808.0, -0x1p63},
        {TOLK_U64, TOLK_F64, 0x1p63, 0x1p63},
        {TOLK_U8, TOLK_F32, 255, 255},
        {TOLK_I8, TOLK_F64, -128, -128},
        /* f64 to f32: ties to even, overflow, denormals, what vanishes */
        {TOLK_F64, TOLK_F32, 0x1.000001p0, 1},
        {TOLK_F64, TOLK_F32, 0x1.000003p0, 0x1.000004p0},
        {TOLK_F64, TOLK_F32, 0x1.0000010000001p0, 0x1.000002p0},
        {TOLK_F64, TOLK_F32, 0x1.fffffefffffffp127, 0x1.fffffep127},
        {TOLK_F64, TOLK_F32, 0x1.ffffffp127, inf},
        {TOLK_F64, TOLK_F32, -1e39, -inf},
        {TOLK_F64, TOLK_F32, 0x1p-150, 0},
        {TOLK_F64, TOLK_F32, -0x1p-150, -0.0},
        {TOLK_F64, TOLK_F32, 0x1.0000000000001p-150, 0x1p-149},
        {TOLK_F64, TOLK_F32, 0x1.8p-149, 0x1p-148},
        {TOLK_F64, TOLK_F32, 0x1.ffffffp-127, 0x1p-126},
        {TOLK_F64, TOLK_F32, nan, nan},
        {TOLK_F64, TOLK_F32, -0.0, -0.0},
        {TOLK_F32, TOLK_F64, 0x1p-149, 0x1p-149},
        {TOLK_F32, TOLK_F64, -inf, -inf},
    };
    for (size_t i = 0; i < COUNT(facts); i++) {
        const fact *f = &facts[i];
        run_fact(f->from, f->to, bits_of(f->from, f->v),
                 tk_dtype_canon(f->to, bits_of(f->to, f->want)));
    }
    /* past the integers that double holds; the second would tie down if it went through f64 */
    run_fact(TOLK_U64, TOLK_F32, (1ULL << 63) + (1ULL << 39), 0x5f000000);
    run_fact(TOLK_I64, TOLK_F32, (1ULL << 53) + (1ULL << 29) + 1, bits_of(TOLK_F32, 0x1.000002p53));
    run_fact(TOLK_I64, TOLK_F64, (1ULL << 53) + 1, bits_of(TOLK_F64, 0x1p53));
    run_fact(TOLK_I64, TOLK_F64, (1ULL << 53) + 3, bits_of(TOLK_F64, 0x1.0000000000002p53));
    run_fact(TOLK_I64, TOLK_F64, INT64_MAX, bits_of(TOLK_F64, 0x1p63));
    run_fact(TOLK_F64, TOLK_I64, bits_of(TOLK_F64, 0x1p63), INT64_MAX);
    run_fact(TOLK_F32, TOLK_I64, bits_of(TOLK_F32, (double)INFINITY), INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cast_values_are_those_stated),
        cmocka_unit_test(test_casts_between_all_dtypes_are_rounded_once_or_saturate),
        cmocka_unit_test(test_casts_of_all_8_and_16_bit_values_are_exact),
        cmocka_unit_test(test_two_casts_in_a_row_are_two),
        cmocka_unit_test(test_casts_of_constants_are_folded_to_the_same_value),
        cmocka_unit_test(test_bitcasts_and_copies_keep_all_bits),
        cmocka_unit_test(test_where_chooses_by_any_byte),
        cmocka_unit_test(test_where_of_constants_chooses),
        cmocka_unit_test(test_bools_are_numbers_0_and_1),
    };
    return cmocka_run_group_tests_name("diff.edge_cast", tests, tk_edge_setup, tk_edge_teardown);
}
