/* SPDX-License-Identifier: MIT
 *
 * Chains of many operations: whatever the operation, they are compiled to the right code or refused
 * as too large, and neither takes time with the square of their length.
 */
#include "support/runtime.h"

#include <sys/resource.h>

enum { N = 37, SHORT = 1500, SECONDS = 60 };

typedef const tolk_uop *(*binary)(tolk_graph *g, const tolk_uop *a, const tolk_uop *b);

/* How each operation takes what came before. */
typedef enum shape {
    PREVIOUS_X, /* v op x */
    X_PREVIOUS, /* x op v */
    FIBONACCI   /* v op what was before v */
} shape;

RT_FIXTURE

/* y[i] = the chain over x[i] and z[i]. */
static const tolk_uop *chain(tolk_graph *g, binary op, tolk_dtype dtype, shape s, int length) {
    const int64_t dims[] = {N};
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *at[3], *x, *v, *before;
    for (int k = 0; k < 3; k++)
        at[k] = tolk_index(g, tolk_param(g, dtype, dims, 1, k, NULL), &i, 1);
    before = x = tolk_load(g, at[1]);
    v = tolk_load(g, at[2]);
    for (int k = 0; k < length; k++) {
        const tolk_uop *next = s == FIBONACCI    ? op(g, v, before)
                               : s == X_PREVIOUS ? op(g, x, v)
                                                 : op(g, v, x);
        before = v;
        v = next;
    }
    const tolk_uop *all = tolk_end(g, tolk_store(g, at[0], v), &i, 1);
    return tolk_sink(g, &all, 1, "chain");
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec;
}

static bool is_nan(tolk_dtype dtype, const unsigned char *at) {
    float f;
    double d;
    memcpy(&f, at, 4);
    memcpy(&d, at, dtype == TOLK_F64 ? 8 : 4);
    return dtype == TOLK_F32 ? f != f : dtype == TOLK_F64 && d != d;
}

static void check_values(const tolk_program *p, const tolk_uop *kernel, tolk_dtype dtype) {
    size_t width = tolk_dtype_bytes(dtype);
    static unsigned char want[N * 8], got[N * 8], x[N * 8], z[N * 8];
    uint64_t seed = tk_test_seed();
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = (unsigned char)tk_test_rand(&seed);
        z[i] = (unsigned char)tk_test_rand(&seed);
    }
    /* floats: numbers near 1 and zeros of both signs, and a few of any bits */
    for (int i = 0; tolk_dtype_is_float(dtype) && i < N - 5; i++) {
        double d[2] = {i % 7 ? 1 + i * 0.001 : -0.0, i % 5 ? 1 - i * 0.001 : 0.0};
        float f[2] = {(float)d[0], (float)d[1]};
        memcpy(x + (size_t)i * width, dtype == TOLK_F64 ? (void *)&d[0] : &f[0], width);
        memcpy(z + (size_t)i * width, dtype == TOLK_F64 ? (void *)&d[1] : &f[1], width);
    }
    /* counts of shifts that do not shift everything out at once */
    for (int i = 0; dtype == TOLK_I64 && i < N; i++)
        memcpy(x + i * 8, &(int64_t){i % 3 ? 0 : i}, 8);
    void *ref[] = {want, x, z}, *out[] = {got, x, z};
    size_t bytes[] = {N * width, N * width, N * width};
    assert_int_equal(tolk_interpret(kernel, ref, bytes, 3, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_launch(p, out, bytes, 3, NULL, 0, NULL), TOLK_OK);
    for (size_t i = 0; i < N; i++) {
        const unsigned char *a = want + i * width, *b = got + i * width;
        if (memcmp(a, b, width) && !(is_nan(dtype, a) && is_nan(dtype, b)))
            fail_msg("element %zu of %s", i, tolk_dtype_name(dtype));
    }
}

/* opts: loop options, or NULL. must: it is small enough. */
static void check(const char *name, binary op, tolk_dtype dtype, shape s, int length,
                  const char *opts, bool must) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    o.opts = opts;
    tolk_graph *g;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *kernel = chain(g, op, dtype, s, length);
    assert_non_null(kernel);
    double start = cpu_seconds();
    tolk_status st = tolk_compile(r.cpu, kernel, &o, &p, &err);
    double took = cpu_seconds() - start;
    if (st != TOLK_OK && (must || st != TOLK_E_LIMIT))
        fail_msg("%s %s: %s: %s", name, tolk_dtype_name(dtype), tolk_status_name(st), err.msg);
    if (!TK_TEST_ASAN && !TK_TEST_TSAN && took > SECONDS)
        fail_msg("%s %s: %.1f s for %d operations", name, tolk_dtype_name(dtype), took, length);
    if (p)
        check_values(p, kernel, dtype);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
}

/* Each of these took minutes, or would with a few more nodes. */
static void test_long_chains_compile_in_seconds(void **state) {
    (void)state;
    const int length = TK_TEST_ASAN || tk_test_share() < 100 ? 3000 : 12000;
    check("mul", tolk_mul, TOLK_I64, FIBONACCI, length, "", true);
    check("shl", tolk_shl, TOLK_I64, PREVIOUS_X, length, "", true);
    check("max", tolk_max, TOLK_U64, X_PREVIOUS, length, "", true);
    check("max", tolk_max, TOLK_I64, X_PREVIOUS, length, "", true);
    check("max", tolk_max, TOLK_F32, X_PREVIOUS, length / 2, "", true);
    check("add", tolk_add, TOLK_F32, PREVIOUS_X, 2 * length, "", true);
    check("mul", tolk_mul, TOLK_F64, FIBONACCI, length, NULL, false);
}

/* Every operation, dtype and form at a length that is cut in parts. */
static void test_long_chains_compute_what_the_interpreter_does(void **state) {
    (void)state;
    static const struct {
        const char *name;
        binary op;
        bool ints, floats;
    } ops[] = {{"add", tolk_add, 1, 1}, {"mul", tolk_mul, 1, 1},  {"max", tolk_max, 1, 1},
               {"sub", tolk_sub, 1, 1}, {"shl", tolk_shl, 1, 0},  {"shr", tolk_shr, 1, 0},
               {"xor", tolk_xor, 1, 0}, {"cdiv", tolk_cdiv, 1, 0}};
    static const tolk_dtype dtypes[] = {TOLK_I8,  TOLK_U16, TOLK_I32, TOLK_U32,
                                        TOLK_I64, TOLK_U64, TOLK_F32, TOLK_F64};
    static const char *const opts[] = {"", "LANE:0:2", "LANE:0:16", NULL};
    uint64_t seed = tk_test_seed();
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int s = 0; s < 3; s++)
                for (int k = 0; k < 4; k++) {
                    bool is_float = tolk_dtype_is_float(dtypes[d]) != 0;
                    if (!(is_float ? ops[o].floats : ops[o].ints) ||
                        (tk_test_rand(&seed) % 100 >= tk_test_share()))
                        continue;
                    check(ops[o].name, ops[o].op, dtypes[d], (shape)s, SHORT, opts[k], false);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_chains_compile_in_seconds),
        cmocka_unit_test(test_long_chains_compute_what_the_interpreter_does),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
