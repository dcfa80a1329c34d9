/* SPDX-License-Identifier: MIT
 *
 * Sums of floats: within n * eps * (sum of magnitudes) of the exact sum under every list of loop
 * options, exact where every order is, and the sequential sum bit for bit where no option may
 * change the order.
 */
#include "diff/reduce.h"
#include "support/tk_diff.h"

#include "jit/backend.h"
#include "jit/pipeline.h"
#include "jit/target.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { MAX_N = 1000003 };

static tk_diff d;
static double *x64;
static float *x32;

/* 262144 and more are cut into pieces by the heuristic; 1000003 is a prime. */
static const int64_t sizes[] = {0,      1,      2,      3,       7,      8,     9,     15,
                                16,     17,     31,     33,      63,     64,    65,    127,
                                129,    1000,   1023,   1024,    4097,   65536, 65537, 99991,
                                262143, 262144, 262145, 1000000, 1000003};

/* ---- data ---- */

typedef enum data {
    POSITIVE,  /* [0, 1) */
    SIGNED,    /* (-1, 1): much cancels */
    WIDE,      /* magnitudes from 2^-30 to 2^30 */
    ONE_LARGE, /* 2^24 (2^53) first, then ones, which a sequential sum loses */
    SMALL,     /* denormal */
    WHOLE,     /* whole numbers whose partial sums are exact in every order */
    DATA
} data;

static double element(data kind, bool f32, size_t i, uint64_t *rng) {
    const uint64_t r = tk_test_rand(rng);
    const double u = (double)(r >> 11) * 0x1p-53;
    switch (kind) {
    case POSITIVE:
        return u;
    case SIGNED:
        return r & 1 ? u : -u;
    case WIDE:
        return ldexp(r & 1 ? u : -u, (int)(r >> 1) % 61 - 30);
    case ONE_LARGE:
        return i ? 1 : f32 ? 0x1p24 : 0x1p53;
    case SMALL:
        return (r & 1 ? u : -u) * (f32 ? 0x1p-127 : 0x1p-1023);
    default:
        return (double)((int64_t)(r >> 1) % 17 - 8); /* 8 * 1000003 < 2^23 */
    }
}

static double of_bits(bool f32, uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float f;
    double v;
    memcpy(&f, &u, sizeof f);
    memcpy(&v, &bits, sizeof v);
    return f32 ? (double)f : v;
}

/* ---- references ---- */

/* The sum in two f64, which lose nothing that matters here: each step's error is kept (Knuth). */
typedef struct exact {
    double hi, lo, magnitude;
} exact;

static void add(exact *e, double v) {
    const double s = e->hi + v, b = s - e->hi;
    e->lo += (e->hi - (s - b)) + (v - b);
    e->hi = s;
    e->magnitude += fabs(v);
}

/* Of the first sizes[i] elements, which ascend. */
static exact exact_sums[COUNT(sizes)];

static void fill(data kind, bool f32) {
    uint64_t rng = tk_test_seed() + (uint64_t)kind;
    exact e = {0, 0, 0};
    size_t s = 0;
    for (size_t i = 0; i <= MAX_N && s < COUNT(sizes); i++) {
        if ((size_t)sizes[s] == i)
            exact_sums[s++] = e;
        if (i == MAX_N)
            break;
        const double v = element(kind, f32, i, &rng);
        x32[i] = (float)v;
        x64[i] = f32 ? (double)x32[i] : v;
        add(&e, x64[i]);
    }
    assert_int_equal(s, COUNT(sizes));
}

/* From +0, one after the other. */
static uint64_t sequential(bool f32, size_t n) {
    float s32 = 0;
    double s64 = 0;
    uint32_t u;
    uint64_t r;
    for (size_t i = 0; i < n; i++) {
        s32 += x32[i];
        s64 += x64[i];
    }
    memcpy(&u, &s32, sizeof u);
    memcpy(&r, &s64, sizeof r);
    return f32 ? u : r;
}

static const void *array(bool f32) {
    return f32 ? (const void *)x32 : (const void *)x64;
}

/* ---- the bound ---- */

static void check_sum(bool f32, data kind, size_t size, uint64_t bits, const char *opts,
                      const char *target) {
    const exact e = exact_sums[size];
    const size_t n = (size_t)sizes[size];
    const double got = of_bits(f32, bits), eps = f32 ? 0x1p-24 : 0x1p-53;
    const double error = fabs((got - e.hi) - e.lo), most = (double)n * eps * e.magnitude;
    const bool good = kind == WHOLE ? got == e.hi + e.lo : error <= most;
    if (!good)
        fail_msg("%s, data %d, n=%zu, options \"%s\" on %s: %a, exact %a, error %g, allowed %g",
                 f32 ? "f32" : "f64", (int)kind, n, opts ? opts : "heuristic", target, got,
                 e.hi + e.lo, error, kind == WHOLE ? 0 : most);
}

/* Padding is of constant sizes. With less than the whole of the suites a size has the heuristic's
 * options and every third of the lists. */
static bool is_run(int list, int64_t n, bool symbolic) {
    const char *opts = reduce_options[list];
    if (symbolic)
        return !opts || !strstr(opts, "PADTO");
    return !opts || tk_test_share() >= 100 || (n + list) % 3 == 0;
}

/* Programs of every list and target for one size, or the symbolic one. */
typedef struct programs {
    tolk_graph *g;
    int n;
    struct {
        tolk_program *program; /* NULL: its options do not fit */
        int list;
        uint32_t target;
    } at[TK_DIFF_TARGETS * REDUCE_OPTIONS];
} programs;

static void compile_all(programs *p, bool f32, int64_t n, bool symbolic) {
    p->n = 0;
    assert_int_equal(tolk_graph_create(d.ctx, &p->g), TOLK_OK);
    const tolk_uop *kernel =
        reduce_kernel(p->g, "add", f32 ? TOLK_F32 : TOLK_F64, symbolic ? -1 : n, NULL);
    for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++)
        for (int o = 0; o < REDUCE_OPTIONS && d.runs[t]; o++) {
            if (!is_run(o, n, symbolic))
                continue;
            p->at[p->n].list = o;
            p->at[p->n].target = t;
            p->at[p->n++].program =
                reduce_compile(&d, kernel, t, reduce_options[o], false,
                               !symbolic && n < 200); /* axes too short for some */
        }
}

static void drop_all(programs *p) {
    for (int i = 0; i < p->n; i++)
        tolk_program_unref(p->at[i].program);
    tolk_graph_destroy(p->g);
}

/* What was filled in last, at sizes[size], by all of them. */
static void check_all(const programs *p, bool f32, data kind, size_t size, bool symbolic) {
    for (int i = 0; i < p->n; i++)
        if (p->at[i].program)
            check_sum(f32, kind, size,
                      reduce_run(p->at[i].program, f32 ? TOLK_F32 : TOLK_F64, array(f32),
                                 (size_t)sizes[size], symbolic),
                      reduce_options[p->at[i].list], tk_diff_target_names[p->at[i].target]);
}

static void test_sum_of_every_size_is_within_the_bound(void **state) {
    (void)state;
    for (int f32 = 0; f32 < 2; f32++)
        for (data kind = 0; kind < DATA; kind++) {
            /* All of the data with the whole of the suites, else two of them. */
            if (tk_test_share() < 100 && kind != WHOLE && kind != tk_test_seed() % WHOLE)
                continue;
            fill(kind, f32);
            for (size_t s = 0; s < COUNT(sizes); s++) {
                programs p;
                compile_all(&p, f32, sizes[s], false);
                check_all(&p, f32, kind, s, false);
                drop_all(&p);
            }
        }
}

static void test_sum_of_a_symbolic_size_is_within_the_bound(void **state) {
    (void)state;
    for (int f32 = 0; f32 < 2; f32++) {
        programs p;
        compile_all(&p, f32, -1, true);
        for (data kind = 0; kind < DATA; kind++) {
            fill(kind, f32);
            for (size_t s = 0; s < COUNT(sizes); s++)
                check_all(&p, f32, kind, s, true);
        }
        drop_all(&p);
    }
}

/* ---- the sequential sum ---- */

static void expect_sequential(const tolk_uop *kernel, bool f32, int64_t n, const char *opts,
                              bool strict, bool symbolic) {
    const tolk_dtype dt = f32 ? TOLK_F32 : TOLK_F64;
    const uint64_t want = sequential(f32, (size_t)n);
    for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++) {
        if (!d.runs[t])
            continue;
        tolk_program *p = reduce_compile(&d, kernel, t, opts, strict, opts && *opts && n < 20);
        if (!p)
            continue; /* too short an axis for padding */
        const uint64_t got = reduce_run(p, dt, array(f32), (size_t)n, symbolic);
        if (got != want)
            fail_msg("%s, n=%lld, options \"%s\", strict %d on %s: %a, in order %a",
                     f32 ? "f32" : "f64", (long long)n, opts ? opts : "heuristic", strict,
                     tk_diff_target_names[t], of_bits(f32, got), of_bits(f32, want));
        tolk_program_unref(p);
    }
}

/* Without options, and with those that the heuristic may choose if it is to be strict. */
static void test_sum_without_options_or_strict_is_the_sequential_one(void **state) {
    (void)state;
    for (int f32 = 0; f32 < 2; f32++)
        for (data kind = POSITIVE; kind < WHOLE; kind++) {
            fill(kind, f32);
            for (size_t s = 0; s < COUNT(sizes); s++) {
                const int64_t n = sizes[s];
                tolk_graph *g;
                assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
                for (int symbolic = 0; symbolic < 2; symbolic++) {
                    if (tk_test_share() < 100 && (size_t)kind != s % WHOLE)
                        continue;
                    const tolk_uop *k =
                        reduce_kernel(g, "add", f32 ? TOLK_F32 : TOLK_F64, symbolic ? -1 : n, NULL);
                    expect_sequential(k, f32, n, "", false, symbolic);
                    expect_sequential(k, f32, n, NULL, true, symbolic);
                    if (!symbolic)
                        expect_sequential(k, f32, n, "PADTO:0:60", true, false);
                }
                tolk_graph_destroy(g);
            }
        }
}

/* What the heuristic does without `strict` is another sum: else the test above would say nothing.
 */
static void test_sum_by_the_heuristic_is_not_the_sequential_one(void **state) {
    (void)state;
    const int64_t n = 1000000;
    fill(POSITIVE, true);
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
    tolk_program *p =
        reduce_compile(&d, reduce_kernel(g, "add", TOLK_F32, n, NULL), 0, NULL, false, false);
    assert_int_not_equal(reduce_run(p, TOLK_F32, x32, (size_t)n, false),
                         sequential(true, (size_t)n));
    tolk_program_unref(p);
    tolk_graph_destroy(g);
}

static void test_options_that_change_the_order_are_refused_if_strict(void **state) {
    (void)state;
    static const char *const lists[] = {"LANE:0:4", "UNROLL:0:4", "GROUPTOP:0:4",
                                        "PADTO:0:60 UNROLL:0:2"};
    static const char *const ops[] = {"add", "mul"};
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
    for (size_t o = 0; o < COUNT(ops); o++)
        for (size_t i = 0; i < COUNT(lists); i++) {
            const tolk_uop *f = reduce_kernel(g, ops[o], TOLK_F32, 4095, NULL);
            const tolk_uop *k = reduce_kernel(g, ops[o], TOLK_I32, 4095, NULL);
            assert_null(reduce_compile(&d, f, 0, lists[i], true, true));
            tolk_program *p = reduce_compile(&d, f, 0, lists[i], false, false);
            tolk_program_unref(p);
            /* of integers, every order is the same */
            p = reduce_compile(&d, k, 0, lists[i], true, false);
            tolk_program_unref(p);
        }
    /* so is every order of a maximum */
    tolk_program *p = reduce_compile(&d, reduce_kernel(g, "max", TOLK_F64, 4095, NULL), 0,
                                     "LANE:0:4 UNROLL:1:2", true, false);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
}

/* ---- sums inside of other loops ---- */

/* Rows summed along memory, and across it, and both ranges in one reduction, first one outermost;
 * the sums' operands are products, rounded before they are added. */
typedef struct matrix {
    const char *indices; /* of x[rows, columns] by the output's range %20 and the sum's %21, %22 */
    int64_t outputs, outer, inner;
} matrix;

static const tolk_uop *matrix_kernel(tolk_graph *g, const matrix *m, int64_t rows,
                                     int64_t columns) {
    char text[2048];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%1 = const index %lld\n%%2 = const index %lld\n"
             "%%3 = stack index (%%1, %%2)\n%%4 = const index %lld\n%%5 = const index %lld\n"
             "%%6 = const index %lld\n%%7 = param f32 (%%4) {slot=0}\n"
             "%%8 = param f32 (%%3) {slot=1}\n%%20 = range index (%%4) {axis=0, kind=global}\n"
             "%%21 = range index (%%5) {axis=1, kind=reduce}\n"
             "%%22 = range index (%%6) {axis=2, kind=reduce}\n"
             "%%30 = index f32 (%%8, %s)\n%%31 = load f32 (%%30)\n%%32 = const f32 0x1.555556p-2\n"
             "%%33 = mul f32 (%%31, %%32)\n%%34 = reduce f32 (%%33, %%21, %%22) {op=add}\n"
             "%%35 = index f32 (%%7, %%20)\n%%36 = store void (%%35, %%34)\n"
             "%%37 = end void (%%36, %%20)\n%%38 = sink void (%%37) {name=\"sums\"}\n",
             (long long)rows, (long long)columns, (long long)m->outputs, (long long)m->outer,
             (long long)m->inner, m->indices);
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK)
        fail_msg("%s\n%s", err.msg, text);
    return root;
}

static void test_sums_of_matrices_are_in_order_if_strict_and_within_the_bound_if_not(void **state) {
    (void)state;
    enum { ROWS = 37, COLUMNS = 531 };
    static const matrix kinds[] = {{"%20, %22", ROWS, 1, COLUMNS},
                                   {"%22, %20", COLUMNS, 1, ROWS},
                                   {"%21, %22", 1, ROWS, COLUMNS},
                                   {"%22, %21", 1, COLUMNS, ROWS}};
    static float y[COLUMNS];
    fill(SIGNED, true);
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
    for (size_t m = 0; m < COUNT(kinds); m++) {
        const matrix *k = &kinds[m];
        const tolk_uop *kernel = matrix_kernel(g, k, ROWS, COLUMNS);
        for (int strict = 0; strict < 2; strict++)
            for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++) {
                if (!d.runs[t])
                    continue;
                tolk_program *p = reduce_compile(&d, kernel, t, NULL, strict, false);
                void *bufs[2] = {y, x32};
                const size_t bytes[2] = {(size_t)k->outputs * 4, (size_t)ROWS * COLUMNS * 4};
                assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
                tolk_program_unref(p);
                for (int64_t i = 0; i < k->outputs; i++) {
                    float sum = 0;
                    exact e = {0, 0, 0};
                    for (int64_t a = 0; a < k->outer; a++)
                        for (int64_t b = 0; b < k->inner; b++) {
                            const int64_t row = m == 0 ? i : m == 2 ? a : b;
                            const int64_t column = m == 0 ? b : m == 1 ? i : m == 2 ? b : a;
                            const float v = x32[row * COLUMNS + column] * 0x1.555556p-2F;
                            sum += v;
                            add(&e, (double)v);
                        }
                    const double error = fabs(((double)y[i] - e.hi) - e.lo);
                    const double n = (double)(k->outer * k->inner);
                    if (strict ? y[i] != sum : error > n * 0x1p-24 * e.magnitude)
                        fail_msg("form %zu, strict %d on %s: sum %lld is %a, in order %a, "
                                 "error %g",
                                 m, strict, tk_diff_target_names[t], (long long)i, (double)y[i],
                                 (double)sum, error);
                }
            }
    }
    tolk_graph_destroy(g);
}

/* ---- large ones ---- */

/* The optimized graph, pieces and all, interpreted: the same bits as code, with any number of
 * threads. */
static void test_long_sum_equals_its_optimized_graph_with_any_number_of_threads(void **state) {
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8};
    const int64_t n = 300007;
    fill(WIDE, true);
    for (uint32_t t = 0; t < TK_DIFF_TARGETS; t++) {
        if (!d.runs[t])
            continue;
        tolk_graph *g;
        tk_target target;
        tk_pipeline pipeline;
        assert_int_equal(tolk_graph_create(d.ctx, &g), TOLK_OK);
        const tolk_uop *kernel = reduce_kernel(g, "add", TOLK_F32, n, NULL);
        assert_int_equal(tk_target_parse(d.device->backend->host(d.device), tk_diff_target_names[t],
                                         &target, NULL),
                         TOLK_OK);
        assert_int_equal(tk_pipeline_run(d.ctx, kernel, NULL, &target, TOLK_BOUNDS_CHECK, false,
                                         TK_PIPELINE_OPT, &pipeline, NULL),
                         TOLK_OK);
        float want = 0;
        void *bufs[2] = {&want, x32};
        const size_t bytes[2] = {4, (size_t)n * 4};
        assert_int_equal(tolk_interpret(pipeline.opt, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
        tk_pipeline_fini(&pipeline);
        for (size_t i = 0; i < COUNT(threads); i++) {
            tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
            opts.no_environment = 1;
            opts.no_disk_cache = 1;
            opts.threads = threads[i];
            tk_diff other = {.ctx = NULL};
            assert_int_equal(tolk_ctx_create(&opts, &other.ctx, NULL), TOLK_OK);
            assert_int_equal(tolk_device_open(other.ctx, "CPU", &other.device, NULL), TOLK_OK);
            tolk_program *p = reduce_compile(&other, kernel, t, NULL, false, false);
            tolk_program_info info;
            assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
            assert_non_null(strstr(info.opts, "GROUPTOP"));
            for (int k = 0; k < 3; k++)
                assert_int_equal(reduce_run(p, TOLK_F32, x32, (size_t)n, false), ((union {
                                                                                     float f;
                                                                                     uint32_t u;
                                                                                 }){.f = want})
                                                                                     .u);
            tolk_program_unref(p);
            tolk_ctx_destroy(other.ctx);
        }
        tolk_graph_destroy(g);
    }
}

static int setup(void **state) {
    (void)state;
    tk_diff_init(&d);
    x64 = malloc(MAX_N * sizeof *x64);
    x32 = malloc(MAX_N * sizeof *x32);
    (void)tk_test_count(1);
    return !x64 || !x32;
}

static int teardown(void **state) {
    (void)state;
    free(x64);
    free(x32);
    tk_diff_fini(&d);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_of_every_size_is_within_the_bound),
        cmocka_unit_test(test_sum_of_a_symbolic_size_is_within_the_bound),
        cmocka_unit_test(test_sum_without_options_or_strict_is_the_sequential_one),
        cmocka_unit_test(test_sum_by_the_heuristic_is_not_the_sequential_one),
        cmocka_unit_test(test_options_that_change_the_order_are_refused_if_strict),
        cmocka_unit_test(test_sums_of_matrices_are_in_order_if_strict_and_within_the_bound_if_not),
        cmocka_unit_test(test_long_sum_equals_its_optimized_graph_with_any_number_of_threads),
    };
    return cmocka_run_group_tests_name("diff.float_sum", tests, setup, teardown);
}
