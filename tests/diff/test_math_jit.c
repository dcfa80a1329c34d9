/* SPDX-License-Identifier: MIT
 *
 * The math functions, trunc and mulacc compiled for every target that this machine runs, against
 * the interpreter bit for bit, in its column of that target: with FMA or without.
 */
#include "support/tk_code.h"
#include "support/tk_test.h"

#include "ir/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tolk/tolk.h>

enum { MAX_N = 8192, CANARIES = 64, OPERANDS = 3, MAX_EDGES = 512, ALL_PAIRS = 64 };

static tolk_ctx *ctx;
static tolk_device *device;

/* ---- values ---- */

typedef struct format {
    tolk_dtype dtype;
    const char *name;
    size_t bytes;
    uint32_t digits, bits; /* of the mantissa, of all */
} format;
static const format formats[2] = {{TOLK_F32, "f32", 4, 23, 32}, {TOLK_F64, "f64", 8, 52, 64}};

static void put(const format *f, void *array, size_t i, uint64_t bits) {
    memcpy((char *)array + i * f->bytes, &bits, f->bytes); /* little-endian: the low bytes */
}

static uint64_t get(const format *f, const void *array, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * f->bytes, f->bytes);
    return bits;
}

static uint64_t of(const format *f, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return tk_scalar_cast(TOLK_F64, f->dtype, bits);
}

/* Values at and beside every place where a body changes: its conditions, limits and special
 * results; both signs. The first ALL_PAIRS are those that matter in pairs. */
static size_t edges(const format *f, uint64_t *out) {
    /* clang-format off */
    static const double around[] = {
        0, 1, 2, 3, 0.5, 0.25, 0.75, 1.5, 0.9, 1.0 / 3, 5.95, 22, 44, 87.3, 88.7228, 103.9721,
        104, 125.5, 126, 127, 128, 149, 150, 152, 700, 708.39, 709.7827, 745.13, 745.134, 1000,
        1022, 1023, 1024, 1074, 1075, 1600, 65536, 1048576, 1e10, 1e22, 0x1p53, 0x1p63, 0x1p64,
        0x1p127, 0x1p70, 0.785398163397448, 1.57079632679489662, 3.14159265358979324, 1e-3,
        1e-8, 1e-30};
    /* clang-format on */
    uint64_t step = (uint64_t)1 << f->digits, inf = of(f, HUGE_VAL),
             sign = (uint64_t)1 << (f->bits - 1);
    uint64_t raw[] = {0,        1,       2,          step / 2, step - 1,      step,
                      step + 1, inf - 1, inf - step, inf,      inf + step / 2};
    size_t n = 0;
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        for (int s = 0; s < 2; s++)
            out[n++] = raw[i] | (s ? sign : 0);
    for (size_t i = 1; i < sizeof around / sizeof *around; i++)
        for (int d = -1; d <= 1; d++) {
            uint64_t b = of(f, around[i]) + (uint64_t)(int64_t)d;
            out[n++] = b;
            out[n++] = b | sign;
        }
    assert_true(n <= MAX_EDGES);
    return n;
}

/* Any bits, or a number whose exponent is near that of 1, where most of what matters happens. */
static uint64_t random_value(const format *f, uint64_t *random) {
    uint64_t r = tk_test_rand(random), bits = tk_test_rand(random) >> (64 - f->bits);
    if (r & 1)
        return bits;
    uint64_t mantissa = bits & (((uint64_t)1 << f->digits) - 1);
    uint64_t sign = bits >> (f->bits - 1) << (f->bits - 1);
    uint64_t exponent = (of(f, 1) >> f->digits) + (r >> 8) % 24 - 12;
    return sign | exponent << f->digits | mantissa;
}

/* ---- kernels ---- */

typedef struct function {
    const char *name;
    uint32_t operands;
} function;
static const function functions[] = {{"exp", 1},   {"exp2", 1}, {"log", 1},  {"log2", 1},
                                     {"sin", 1},   {"cos", 1},  {"tanh", 1}, {"erf", 1},
                                     {"trunc", 1}, {"sqrt", 1}, {"pow", 2},  {"mulacc", 3}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* y[i] = function(x0[i], ...) for i < n, n a variable. */
static const tolk_uop *build(tolk_graph *g, const function *fn, const format *f) {
    char text[2048];
    int at = snprintf(text, sizeof text,
                      "tolk.uop 1\n"
                      "%%0 = param index {slot=9, name=\"n\", space=alu, min=0, max=%d}\n"
                      "%%1 = range index (%%0) {axis=0, kind=global}\n"
                      "%%2 = param %s (%%0) {slot=0, name=\"y\"}\n"
                      "%%3 = index %s (%%2, %%1)\n",
                      MAX_N, f->name, f->name);
    for (uint32_t i = 0; i < fn->operands; i++)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "%%%u = param %s (%%0) {slot=%u, name=\"x%u\"}\n"
                       "%%%u = index %s (%%%u, %%1)\n%%%u = load %s (%%%u)\n",
                       10 + 3 * i, f->name, i + 1, i, 11 + 3 * i, f->name, 10 + 3 * i, 12 + 3 * i,
                       f->name, 11 + 3 * i);
    static const char *const lists[] = {"", "%12", "%12, %15", "%12, %15, %18"};
    (void)snprintf(text + at, sizeof text - (size_t)at,
                   "%%30 = %s %s (%s)\n%%31 = store void (%%3, %%30)\n"
                   "%%32 = end void (%%31, %%1)\n%%33 = sink void (%%32) {name=\"k\"}\n",
                   fn->name, f->name, lists[fn->operands]);
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK)
        fail_msg("%s\n%s", err.msg, text);
    return root;
}

/* ---- one kernel on one target ---- */

typedef struct job {
    const function *fn;
    const format *f;
    const char *target;
    bool fma;
    const tolk_uop *kernel;
    tolk_program *program;
} job;

/* The operands of n elements, in arrays of their own. */
static struct arrays {
    _Alignas(64) char x[OPERANDS][(MAX_N + CANARIES) * 8];
    _Alignas(64) char want[(MAX_N + CANARIES) * 8], got[(MAX_N + CANARIES) * 8];
} a;

static void run(const job *j, size_t n, size_t offset) {
    size_t skip = offset * j->f->bytes, bytes[OPERANDS + 1];
    void *bufs[OPERANDS + 1];
    for (uint32_t i = 0; i <= OPERANDS; i++)
        bytes[i] = n * j->f->bytes;
    for (uint32_t i = 0; i < OPERANDS; i++)
        bufs[i + 1] = a.x[i] + skip;
    memset(a.want, 0xee, sizeof a.want);
    memset(a.got, 0xee, sizeof a.got);
    int64_t val = (int64_t)n;
    tolk_error err = TOLK_ERROR_INIT;
    bufs[0] = a.want + skip;
    if (tolk_interpret_with(j->kernel, bufs, bytes, j->fn->operands + 1, &val, 1,
                            j->fma ? 0 : TOLK_INTERPRET_NO_FMA, &err) != TOLK_OK)
        fail_msg("%s %s: %s", j->fn->name, j->f->name, err.msg);
    bufs[0] = a.got + skip;
    if (tolk_launch(j->program, bufs, bytes, j->fn->operands + 1, &val, 1, &err) != TOLK_OK)
        fail_msg("%s %s on %s: %s", j->fn->name, j->f->name, j->target, err.msg);
    for (size_t i = 0; i < n + offset + CANARIES / 2; i++) {
        uint64_t want = get(j->f, a.want, i), got = get(j->f, a.got, i);
        bool inside = i >= offset && i < n + offset;
        if (inside ? tk_scalar_same(j->f->dtype, want, got) : want == got)
            continue;
        fail_msg("%s %s on %s, n=%zu, element %zu: %#llx, expected %#llx, of %#llx %#llx %#llx",
                 j->fn->name, j->f->name, j->target, n, i - offset, (unsigned long long)got,
                 (unsigned long long)want, (unsigned long long)get(j->f, a.x[0], i),
                 (unsigned long long)get(j->f, a.x[1], i),
                 (unsigned long long)get(j->f, a.x[2], i));
    }
}

static void run_edges(const job *j, uint64_t *random) {
    uint64_t edge[MAX_EDGES];
    size_t n = edges(j->f, edge);
    if (j->fn->operands == 1) {
        for (size_t i = 0; i < n; i++)
            put(j->f, a.x[0], i, edge[i]);
        run(j, n, 0);
        /* One of them alone among numbers that are none: each lane has to go its own way. */
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < 16; k++)
                put(j->f, a.x[0], k, of(j->f, 0.625 + (double)k / 16));
            put(j->f, a.x[0], i % 16, edge[i]);
            run(j, 16, 0);
        }
        return;
    }
    /* Pairs; the third operand runs through them, too. */
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            bool last = i + 1 == n && k + 1 == n;
            if (!last && (i >= ALL_PAIRS || k >= ALL_PAIRS) &&
                tk_test_rand(random) % 100 >= tk_test_share())
                continue;
            put(j->f, a.x[0], at, edge[i]);
            put(j->f, a.x[1], at, edge[k]);
            put(j->f, a.x[2], at, edge[(i * 7 + k * 3) % n]);
            if (++at == MAX_N || last) {
                run(j, at, 0);
                at = 0;
            }
        }
}

static void run_random(const job *j, uint64_t *random) {
    static const size_t sizes[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,  15,
                                   16, 17, 31, 32, 33, 63, 64, 65, 129};
    for (uint64_t round = tk_test_count(100); round; round--) {
        for (size_t i = 0; i < MAX_N; i++)
            for (uint32_t k = 0; k < j->fn->operands; k++)
                put(j->f, a.x[k], i, random_value(j->f, random));
        run(j, MAX_N, 0);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        run(j, sizes[i], i % 4);
}

static void check_function(const function *fn, const format *f, const char *name,
                           const tk_target *target) {
    tolk_graph *g;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
    uint64_t random = tk_test_seed() + (uint64_t)(fn - functions) * 2 + (f->dtype == TOLK_F64);
    job j = {.fn = fn, .f = f, .target = name, .fma = target->fma, .kernel = build(g, fn, f)};
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.target = name;
    opts.no_cache = 1;
    if (tolk_compile(device, j.kernel, &opts, &j.program, &err) != TOLK_OK)
        fail_msg("%s %s on %s: %s", fn->name, f->name, name, err.msg);
    run_edges(&j, &random);
    run_random(&j, &random);
    tolk_program_unref(j.program);
    tolk_graph_destroy(g);
}

static void check_target(const char *name) {
    tk_target target;
    for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
        if (strcmp(tk_code_target_names[t], name) != 0)
            continue;
        if (!tk_code_target(t, &target))
            skip();
        for (int i = 0; i < FUNCTIONS; i++)
            for (int f = 0; f < 2; f++)
                check_function(&functions[i], &formats[f], name, &target);
        return;
    }
    fail_msg("no target %s", name);
}

static void test_x86_64_every_function_equals_the_interpreter(void **state) {
    (void)state;
    check_target("x86-64");
}

static void test_x86_64_v2_every_function_equals_the_interpreter(void **state) {
    (void)state;
    check_target("x86-64-v2");
}

static void test_haswell_every_function_equals_the_interpreter(void **state) {
    (void)state;
    check_target("haswell");
}

static void test_skylake_avx512_every_function_equals_the_interpreter(void **state) {
    (void)state;
    check_target("skylake-avx512");
}

/* ---- the two columns are two ---- */

static void test_fma_and_no_fma_columns_differ_where_they_are_said_to(void **state) {
    (void)state;
    /* Else this file would compare with the right column by chance. */
    for (int f = 0; f < 2; f++) {
        tolk_graph *g;
        assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
        const tolk_uop *k = build(g, &functions[0], &formats[f]);
        uint64_t random = tk_test_seed();
        for (size_t i = 0; i < MAX_N; i++)
            put(&formats[f], a.x[0], i, random_value(&formats[f], &random));
        size_t bytes[2] = {MAX_N * formats[f].bytes, MAX_N * formats[f].bytes}, differ = 0;
        int64_t n = MAX_N;
        void *bufs[2] = {a.want, a.x[0]};
        assert_int_equal(tolk_interpret_with(k, bufs, bytes, 2, &n, 1, 0, NULL), TOLK_OK);
        bufs[0] = a.got;
        assert_int_equal(tolk_interpret_with(k, bufs, bytes, 2, &n, 1, TOLK_INTERPRET_NO_FMA, NULL),
                         TOLK_OK);
        for (size_t i = 0; i < MAX_N; i++)
            differ += get(&formats[f], a.want, i) != get(&formats[f], a.got, i);
        assert_true(differ > 0);
        tolk_graph_destroy(g);
    }
}

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    return tolk_ctx_create(&opts, &ctx, NULL) != TOLK_OK ||
           tolk_device_open(ctx, "CPU", &device, NULL) != TOLK_OK;
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x86_64_every_function_equals_the_interpreter),
        cmocka_unit_test(test_x86_64_v2_every_function_equals_the_interpreter),
        cmocka_unit_test(test_haswell_every_function_equals_the_interpreter),
        cmocka_unit_test(test_skylake_avx512_every_function_equals_the_interpreter),
        cmocka_unit_test(test_fma_and_no_fma_columns_differ_where_they_are_said_to),
    };
    return cmocka_run_group_tests_name("diff.math_jit", tests, setup, teardown);
}
