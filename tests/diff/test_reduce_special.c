/* SPDX-License-Identifier: MIT
 *
 * Reductions whose result every order gives: max and products with NaN, infinities and zeros of
 * both signs at every place, and all reductions of integers and bools, under every list of loop
 * options.
 */
#include "diff/reduce.h"
#include "support/tk_diff.h"
#include "support/tk_edge.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { MAX_N = 1100, MAX_PROGRAMS = TK_DIFF_TARGETS * REDUCE_OPTIONS };

static tk_diff d;
static const size_t sizes[] = {0,  1,  2,  3,  4,  5,   7,   8,   9,   15,  16,  17,  31,  32,
                               33, 63, 64, 65, 73, 127, 128, 129, 255, 257, 447, 449, 1000};

/* ---- one reduction, compiled in every way for a symbolic size ---- */

typedef struct reduction {
    const char *op;
    tolk_dtype dtype;
    tolk_graph *g;
    const tolk_uop *kernel;
    struct {
        tolk_program *program;
        const char *opts, *target;
    } way[MAX_PROGRAMS];
    int ways;
} reduction;

/* With less than the whole of the suites, integers have every third list beside the first two. */
static void reduction_init(reduction *r, const char *op, tolk_dtype dtype) {
    static int turn;
    const bool all = tolk_dtype_is_float(dtype) || tk_test_share() >= 100;
    turn++;
    r->op = op;
    r->dtype = dtype;
    r->ways = 0;
    assert_int_equal(tolk_graph_create(d.ctx, &r->g), TOLK_OK);
    r->kernel = reduce_kernel(r->g, op, dtype, -1, NULL);
    for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++)
        for (int o = 0; o < REDUCE_OPTIONS && d.runs[t]; o++) {
            const char *opts = reduce_options[o];
            if (opts && strstr(opts, "PADTO")) /* is of constant sizes */
                continue;
            if (!all && o > 1 && (o + turn) % 3)
                continue;
            r->way[r->ways].opts = opts ? opts : "heuristic";
            r->way[r->ways].target = tk_diff_target_names[t];
            r->way[r->ways++].program = reduce_compile(&d, r->kernel, t, opts, false, false);
        }
}

static void reduction_fini(reduction *r) {
    for (int w = 0; w < r->ways; w++)
        tolk_program_unref(r->way[w].program);
    tolk_graph_destroy(r->g);
}

/* n elements, in canonical bits (bool: bytes), reduce to `want`, also by the interpreter. */
static void expect(const reduction *r, const uint64_t *x, size_t n, uint64_t want,
                   const char *what) {
    static char packed[MAX_N * 8 + 1];
    const size_t bytes = tolk_dtype_bytes(r->dtype);
    for (size_t i = 0; i < n; i++)
        memcpy(packed + i * bytes, &x[i], bytes);
    for (int w = -1; w < r->ways; w++) {
        uint64_t got = 0;
        if (w >= 0) {
            got = reduce_run(r->way[w].program, r->dtype, packed, n, true);
        } else {
            void *bufs[2] = {&got, packed};
            const size_t sizes_bytes[2] = {bytes, n * bytes};
            const int64_t vals[1] = {(int64_t)n};
            assert_int_equal(tolk_interpret(r->kernel, bufs, sizes_bytes, 2, vals, 1, NULL),
                             TOLK_OK);
        }
        if (r->dtype != TOLK_BOOL)
            got = tk_dtype_canon(r->dtype, got);
        if (!tk_scalar_same(r->dtype, got, want))
            fail_msg("%s %s of %zu elements, %s, by %s, options \"%s\": 0x%llx, expected 0x%llx",
                     r->op, tolk_dtype_name(r->dtype), n, what,
                     w < 0 ? "the interpreter" : r->way[w].target, w < 0 ? "" : r->way[w].opts,
                     (unsigned long long)got, (unsigned long long)want);
    }
}

/* ---- floats ---- */

static uint64_t bits(tolk_dtype dt, double v) {
    float f = (float)v;
    uint32_t u;
    uint64_t r;
    memcpy(&u, &f, sizeof u);
    memcpy(&r, &v, sizeof r);
    return dt == TOLK_F32 ? u : r;
}

/* `rest` everywhere but `special` at one place, each in turn, and `other` at the place as far from
 * the end: `rest`, too, if one is enough. */
static void with_special(const reduction *r, double rest, double special, double other, double want,
                         const char *what) {
    static uint64_t x[MAX_N];
    static const size_t few[] = {2, 5, 8, 17, 64, 73};
    for (size_t s = 0; s < COUNT(few); s++) {
        const size_t n = few[s];
        for (size_t at = 0; at < n; at++) {
            if (n - 1 - at == at && bits(TOLK_F64, other) != bits(TOLK_F64, rest))
                continue;
            for (size_t i = 0; i < n; i++)
                x[i] = bits(r->dtype, rest);
            x[n - 1 - at] = bits(r->dtype, other);
            x[at] = bits(r->dtype, special);
            expect(r, x, n, bits(r->dtype, want), what);
        }
    }
}

static void all_of(const reduction *r, double v, const char *what, double (*want)(size_t n)) {
    static uint64_t x[MAX_N];
    for (size_t i = 0; i < MAX_N; i++)
        x[i] = bits(r->dtype, v);
    for (size_t s = 0; s < COUNT(sizes); s++)
        expect(r, x, sizes[s], bits(r->dtype, want(sizes[s])), what);
}

static double least(size_t n) {
    (void)n;
    return -(double)INFINITY;
}
static double minus_zero(size_t n) {
    return n ? -0.0 : -(double)INFINITY;
}
static double minus_five(size_t n) {
    return n ? -5 : -(double)INFINITY;
}
static double not_a_number(size_t n) {
    return n ? (double)NAN : -(double)INFINITY;
}
static double one_or_minus_one(size_t n) {
    return n % 2 ? -1 : 1;
}
static double zero_of_n_signs(size_t n) {
    return n == 0 ? 1 : n % 2 ? -0.0 : 0.0;
}
static double one(size_t n) {
    (void)n;
    return 1;
}

static void test_max_of_special_values_at_every_place(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64};
    for (size_t k = 0; k < COUNT(dtypes); k++) {
        reduction r;
        reduction_init(&r, "max", dtypes[k]);
        all_of(&r, -inf, "all -inf", least);
        all_of(&r, -0.0, "all -0", minus_zero);
        all_of(&r, -5, "all -5", minus_five);
        all_of(&r, nan, "all NaN", not_a_number);
        with_special(&r, 1, nan, 1, nan, "NaN among ones");
        with_special(&r, -inf, nan, -inf, nan, "NaN among -inf");
        with_special(&r, 1, nan, inf, nan, "NaN and inf");
        with_special(&r, -0.0, 0.0, -0.0, 0.0, "+0 among -0");
        with_special(&r, 0.0, -0.0, 0.0, 0.0, "-0 among +0");
        with_special(&r, -1, -0.0, -1, -0.0, "-0 among -1");
        with_special(&r, -1, -0.0, 0.0, 0.0, "-0 and +0 among -1");
        with_special(&r, -inf, -(double)FLT_MAX, -inf, -(double)FLT_MAX, "a number among -inf");
        with_special(&r, 3, inf, 4, inf, "inf");
        with_special(&r, -3, 0x1p-149, -1, 0x1p-149, "a denormal");
        reduction_fini(&r);
    }
}

static void test_product_of_special_values_at_every_place(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64};
    for (size_t k = 0; k < COUNT(dtypes); k++) {
        reduction r;
        reduction_init(&r, "mul", dtypes[k]);
        all_of(&r, 1, "all 1", one);
        all_of(&r, -1, "all -1", one_or_minus_one);
        all_of(&r, -0.0, "all -0", zero_of_n_signs);
        with_special(&r, 1, nan, 1, nan, "NaN");
        with_special(&r, 1, nan, 0.0, nan, "NaN and 0");
        with_special(&r, 1, inf, 0.0, nan, "inf and 0");
        with_special(&r, 1, inf, -2, -inf, "inf and -2");
        with_special(&r, 1, 0.0, -2, -0.0, "0 and -2");
        with_special(&r, 1, -0.0, -3, 0.0, "-0 and -3");
        with_special(&r, 1, -inf, -inf, inf, "-inf twice");
        with_special(&r, 1, -inf, 1, -inf, "-inf once");
        with_special(&r, 1, 0x1p-149, 0.5, dtypes[k] == TOLK_F32 ? 0 : 0x1p-150, "a denormal");
        reduction_fini(&r);
    }
}

/* Sums that every order gives: infinities, NaN, and zeros, which are + since the first one is. */
static double plus_zero(size_t n) {
    (void)n;
    return 0.0;
}

static void test_sum_of_special_values_at_every_place(void **state) {
    (void)state;
    const double nan = (double)NAN, inf = (double)INFINITY;
    static const tolk_dtype dtypes[] = {TOLK_F32, TOLK_F64};
    for (size_t k = 0; k < COUNT(dtypes); k++) {
        reduction r;
        reduction_init(&r, "add", dtypes[k]);
        all_of(&r, -0.0, "all -0", plus_zero);
        with_special(&r, 0.0, nan, 0.0, nan, "NaN");
        with_special(&r, 1, inf, 1, inf, "inf");
        with_special(&r, 1, inf, -inf, nan, "inf and -inf");
        with_special(&r, -0.0, 0x1p-149, -0.0, 0x1p-149, "a denormal among -0");
        reduction_fini(&r);
    }
}

/* ---- integers and bools ---- */

/* Wrapping, in 64 bits, cut at the end: what every order gives. */
static uint64_t fold(const char *op, tolk_dtype dt, const uint64_t *x, size_t n) {
    const bool is_add = !strcmp(op, "add"), is_mul = !strcmp(op, "mul");
    if (dt == TOLK_BOOL) {
        bool any = false, all = true;
        for (size_t i = 0; i < n; i++) {
            any |= x[i] != 0;
            all &= x[i] != 0;
        }
        return is_mul ? all : any;
    }
    uint64_t r = is_mul ? 1 : 0;
    if (!is_add && !is_mul)
        r = (uint64_t)tk_dtype_min(dt);
    for (size_t i = 0; i < n; i++) {
        const bool above = tk_dtype_is_signed(dt) ? (int64_t)x[i] > (int64_t)r : x[i] > r;
        r = is_add ? r + x[i] : is_mul ? r * x[i] : above ? x[i] : r;
    }
    return tk_dtype_canon(dt, r);
}

static void test_integer_and_bool_reductions_are_equal_in_every_order(void **state) {
    (void)state;
    static const char *const ops[] = {"add", "mul", "max"};
    static uint64_t x[MAX_N], odd[MAX_N];
    for (size_t k = 0; k < TK_EDGE_DTYPES; k++) {
        const tolk_dtype dt = tk_edge_dtypes[k];
        if (tolk_dtype_is_float(dt))
            continue;
        uint64_t v[TK_EDGE_VALUES], rng = tk_test_seed() + k;
        const size_t n = tk_edge_values(dt, false, v);
        for (size_t i = 0; i < MAX_N; i++) {
            x[i] = v[tk_test_rand(&rng) % n];
            /* products of these do not become 0 */
            odd[i] = dt == TOLK_BOOL ? 1 + i % 255 : tk_dtype_canon(dt, x[i] | 1);
        }
        for (size_t o = 0; o < COUNT(ops); o++) {
            reduction r;
            reduction_init(&r, ops[o], dt);
            for (size_t s = 0; s < COUNT(sizes); s++) {
                expect(&r, x, sizes[s], fold(ops[o], dt, x, sizes[s]), "edge values");
                expect(&r, odd, sizes[s], fold(ops[o], dt, odd, sizes[s]), "odd values");
            }
            /* one value that decides, at every place */
            for (size_t at = 0; at < 73; at++) {
                uint64_t y[73];
                for (size_t i = 0; i < 73; i++)
                    y[i] = dt == TOLK_BOOL ? o == 1 : (uint64_t)tk_dtype_min(dt) + (o == 1);
                y[at] = dt == TOLK_BOOL ? (o == 1 ? 0 : 0x80) : (uint64_t)tk_dtype_max(dt);
                expect(&r, y, 73, fold(ops[o], dt, y, 73), "one at one place");
            }
            reduction_fini(&r);
        }
    }
}

/* Constant sizes, whose tails are other code, padded ones, too. */
static void test_reductions_of_constant_sizes_are_equal_in_every_order(void **state) {
    (void)state;
    static const char *const ops[] = {"add", "mul", "max"};
    static int32_t x32[MAX_N];
    static uint64_t x[MAX_N];
    uint64_t rng = tk_test_seed();
    for (size_t i = 0; i < MAX_N; i++) {
        x32[i] = (int32_t)(tk_test_rand(&rng) >> 32) | 1;
        x[i] = (uint64_t)(int64_t)x32[i];
    }
    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t o = 0; o < COUNT(ops); o++) {
            const size_t n = sizes[s];
            tolk_graph *g;
            assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
            const tolk_uop *kernel = reduce_kernel(g, ops[o], TOLK_I32, (int64_t)n, NULL);
            for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++)
                for (int k = 0; k < REDUCE_OPTIONS && d.runs[t]; k++) {
                    if (tk_test_share() < 100 && (s + (size_t)k + t) % 4)
                        continue;
                    tolk_program *p =
                        reduce_compile(&d, kernel, t, reduce_options[k], false, n < 200);
                    if (!p)
                        continue; /* an axis too short for these options */
                    const uint64_t got =
                        tk_dtype_canon(TOLK_I32, reduce_run(p, TOLK_I32, x32, n, false));
                    if (got != fold(ops[o], TOLK_I32, x, n))
                        fail_msg("%s of %zu, options \"%s\" on %s: 0x%llx, expected 0x%llx", ops[o],
                                 n, reduce_options[k] ? reduce_options[k] : "heuristic",
                                 tk_diff_target_names[t], (unsigned long long)got,
                                 (unsigned long long)fold(ops[o], TOLK_I32, x, n));
                    tolk_program_unref(p);
                }
            tolk_graph_destroy(g);
        }
}

/* ---- cases ---- */

/* RED-09: the last part that does not fill its group is summed, too: squares of 2880 numbers in
 * groups of every kind; least and greatest of 0 .. n-1. */
static void test_RED_09_partial_groups_are_reduced(void **state) {
    (void)state;
    static const char *const lists[] = {NULL,
                                        "",
                                        "GROUPTOP:0:180",
                                        "GROUPTOP:0:7",
                                        "GROUPTOP:0:5",
                                        "GROUPTOP:0:3 LANE:1:16",
                                        "LANE:0:64",
                                        "UNROLL:0:32",
                                        "GROUPTOP:0:256"};
    static const char square[] = "%200 = mul i64 (%100, %100)\n";
    static const char minus[] = "%200 = neg i64 (%100)\n";
    static const int64_t counts[] = {2880, 257, 1000};
    static int64_t x[2880];
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
    for (size_t c = 0; c < COUNT(counts); c++) {
        const int64_t n = counts[c];
        int64_t sum = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = i;
            sum += i * i;
        }
        const struct {
            const tolk_uop *kernel;
            int64_t want;
        } t[] = {{reduce_kernel(g, "add", TOLK_I64, n, square), sum},
                 {reduce_kernel(g, "max", TOLK_I64, n, NULL), n - 1},
                 {reduce_kernel(g, "max", TOLK_I64, n, minus), 0}};
        for (size_t k = 0; k < COUNT(t); k++)
            for (size_t o = 0; o < COUNT(lists); o++)
                for (uint32_t target = 0; target < TK_DIFF_TARGETS; target++) {
                    if (!d.runs[target])
                        continue;
                    tolk_program *p =
                        reduce_compile(&d, t[k].kernel, target, lists[o], false, false);
                    assert_int_equal(reduce_run(p, TOLK_I64, x, (size_t)n, false), t[k].want);
                    tolk_program_unref(p);
                }
    }
    tolk_graph_destroy(g);
}

/* RED-07 on several threads: the first NaN, else the first of the greatest, as the maximum and then
 * the least place that has it; long enough to be cut into pieces. */
static void test_RED_07_argmax_of_a_long_array_is_the_first(void **state) {
    (void)state;
    enum { LONG = 300000 };
    static const struct {
        size_t at[3]; /* of what decides; the first of them is right */
        float v;
    } t[] = {{{0, 1, 299999}, 9},
             {{299999, 299999, 299999}, 9},
             {{150001, 150002, 299999}, 9},
             {{9375, 9376, 250000}, (float)NAN},
             {{299998, 299999, 299999}, (float)NAN},
             {{131071, 262143, 262144}, (float)INFINITY}};
    static const char text[] =
        "tolk.uop 1\n%0 = const index 1\n%1 = const index 300000\n%2 = param i64 (%0) {slot=0}\n"
        "%3 = param f32 (%1) {slot=1}\n%4 = range index (%1) {axis=0, kind=reduce}\n"
        "%5 = index f32 (%3, %4)\n%6 = load f32 (%5)\n%7 = reduce f32 (%6, %4) {op=max}\n"
        "%8 = range index (%1) {axis=1, kind=reduce}\n%9 = index f32 (%3, %8)\n"
        "%10 = load f32 (%9)\n%11 = cmpeq bool (%10, %7)\n%12 = cmpne bool (%10, %10)\n"
        "%13 = or bool (%11, %12)\n%14 = sub index (%1, %8)\n%15 = cast i64 (%14)\n"
        "%16 = const i64 0\n%17 = where i64 (%13, %15, %16)\n"
        "%18 = reduce i64 (%17, %8) {op=max}\n%19 = cast i64 (%1)\n%20 = sub i64 (%19, %18)\n"
        "%21 = const index 0\n%22 = index i64 (%2, %21)\n%23 = store void (%22, %20)\n"
        "%24 = sink void (%23) {name=\"argmax\"}\n";
    static float x[LONG];
    tolk_graph *g;
    const tolk_uop *kernel;
    assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &kernel, NULL), TOLK_OK);
    for (uint32_t target = 0; target < TK_DIFF_TARGETS; target++) {
        if (!d.runs[target])
            continue;
        tolk_program *p = reduce_compile(&d, kernel, target, NULL, false, false);
        tolk_program_info info;
        assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
        assert_non_null(strstr(info.opts, "GROUPTOP"));
        for (size_t k = 0; k < COUNT(t); k++) {
            for (size_t i = 0; i < LONG; i++)
                x[i] = (float)(i % 8);
            for (int i = 0; i < 3; i++)
                x[t[k].at[i]] = t[k].v;
            int64_t found = -1;
            void *bufs[2] = {&found, x};
            const size_t bytes[2] = {sizeof found, sizeof x};
            assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
            assert_int_equal(found, t[k].at[0]);
        }
        for (size_t i = 0; i < LONG; i++)
            x[i] = 7;
        int64_t found = -1;
        void *bufs[2] = {&found, x};
        const size_t bytes[2] = {sizeof found, sizeof x};
        assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
        assert_int_equal(found, 0);
        tolk_program_unref(p);
    }
    tolk_graph_destroy(g);
}

static int setup(void **state) {
    (void)state;
    (void)tk_test_count(1);
    tk_diff_init(&d);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tk_diff_fini(&d);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_of_special_values_at_every_place),
        cmocka_unit_test(test_product_of_special_values_at_every_place),
        cmocka_unit_test(test_sum_of_special_values_at_every_place),
        cmocka_unit_test(test_integer_and_bool_reductions_are_equal_in_every_order),
        cmocka_unit_test(test_reductions_of_constant_sizes_are_equal_in_every_order),
        cmocka_unit_test(test_RED_09_partial_groups_are_reduced),
        cmocka_unit_test(test_RED_07_argmax_of_a_long_array_is_the_first),
    };
    return cmocka_run_group_tests_name("diff.reduce_special", tests, setup, teardown);
}
