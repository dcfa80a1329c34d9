/* SPDX-License-Identifier: MIT
 *
 * CG-13: kernels that become giant blocks. Each is compiled in bounded time and right, or refused
 * in words. The id is one of the case collection this project tests against.
 */
#include "support/runtime.h"

/* Of CPU time, so that a busy machine does not count; more where sanitizers do. */
#define SECONDS (TK_TEST_ASAN || TK_TEST_TSAN ? 100.0 : 10.0)
enum { STORES = 4096, STRIDE = 17 };

RT_FIXTURE

/* Compile with these loop options; NULL: refused. */
static tolk_program *in_time(const tolk_uop *kernel, const char *opts, const char *what) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    o.opts = opts;
    clock_t start = clock();
    tolk_status st = tolk_compile(r.cpu, kernel, &o, &p, &err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%s: %s%s%s, %.2f s\n", what, tolk_status_name(st), st ? ": " : "", st ? err.msg : "",
           seconds);
    if (seconds > SECONDS)
        fail_msg("%s takes %.1f s", what, seconds);
    if (st && st != TOLK_E_LIMIT && st != TOLK_E_ARG && st != TOLK_E_UNSUPPORTED)
        fail_msg("%s: %s: %s", what, tolk_status_name(st), err.msg);
    if (st && !err.msg[0])
        fail_msg("%s is refused without a word", what);
    return p;
}

static tolk_graph *new_graph(void) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    return g;
}

static const tolk_uop *done(tolk_graph *g, const tolk_uop *const *effects, size_t n) {
    const tolk_uop *k = tolk_sink(g, effects, n, "giant");
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_graph_error(g, &err))
        fail_msg("%s", err.msg);
    return k;
}

static const tolk_uop *at(tolk_graph *g, const tolk_uop *buffer, int64_t i) {
    const tolk_uop *index = tolk_const_int(g, TOLK_INDEX, i);
    return tolk_index(g, buffer, &index, 1);
}

/* ---- stores ---- */

/* Run it on x[i] = i and check that y[17 i] = i for i < n and nothing else was written. */
static void check_strided(const tolk_program *p, int n) {
    static int32_t x[STORES], y[STORES * STRIDE];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    for (int i = 0; i < STORES; i++)
        x[i] = i;
    memset(y, -1, sizeof y);
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    for (int m = 0; m < STORES * STRIDE; m++)
        assert_int_equal(y[m], m % STRIDE || m / STRIDE >= n ? -1 : m / STRIDE);
}

static void strided_params(tolk_graph *g, const tolk_uop **y, const tolk_uop **x) {
    const int64_t yd[] = {STORES * STRIDE}, xd[] = {STORES};
    *y = tolk_param(g, TOLK_I32, yd, 1, 0, "y");
    *x = tolk_param(g, TOLK_I32, xd, 1, 1, "x");
}

static const tolk_uop *strided_loop(tolk_graph *g, tolk_axis kind) {
    const tolk_uop *y, *x;
    strided_params(g, &y, &x);
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, STORES), 0, kind);
    const tolk_uop *to = tolk_mul(g, i, tolk_const_int(g, TOLK_INDEX, STRIDE));
    const tolk_uop *e =
        tolk_store(g, tolk_index(g, y, &to, 1), tolk_load(g, tolk_index(g, x, &i, 1)));
    e = tolk_end(g, e, &i, 1);
    return done(g, &e, 1);
}

static void test_CG_13_a_loop_of_4096_strided_stores_unrolled(void **state) {
    (void)state;
    static const char *const opts[] = {
        "UPCAST:0:4096",           "UPCAST:0:64", "UPCAST:0:16", "LANE:0:64 UPCAST:0:16",
        "UPCAST:0:16 UPCAST:0:16", NULL};
    tolk_graph *g = new_graph();
    const tolk_uop *y, *x;
    strided_params(g, &y, &x);
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, STORES), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *to = tolk_mul(g, i, tolk_const_int(g, TOLK_INDEX, STRIDE));
    const tolk_uop *e =
        tolk_store(g, tolk_index(g, y, &to, 1), tolk_load(g, tolk_index(g, x, &i, 1)));
    e = tolk_end(g, e, &i, 1);
    const tolk_uop *k = done(g, &e, 1);
    int compiled = 0;
    for (size_t n = 0; n < sizeof opts / sizeof *opts; n++) {
        tolk_program *p = in_time(k, opts[n], opts[n] ? opts[n] : "heuristic");
        if (p)
            check_strided(p, STORES);
        compiled += p != NULL;
        tolk_program_unref(p);
    }
    assert_true(compiled > 0);
    tolk_graph_destroy(g);
    /* loops of a kind that says to write them out */
    static const tolk_axis kinds[] = {TOLK_AXIS_UPCAST, TOLK_AXIS_UNROLL, TOLK_AXIS_LOOP};
    for (int i = 0; i < 3; i++) {
        g = new_graph();
        tolk_program *p =
            in_time(strided_loop(g, kinds[i]), NULL, rt_text("kind %d", (int)kinds[i]));
        if (p)
            check_strided(p, STORES);
        tolk_program_unref(p);
        tolk_graph_destroy(g);
    }
}

static void test_CG_13_2000_and_4096_stores_written_out(void **state) {
    (void)state;
    for (int n = 2000; n <= STORES; n += STORES - 2000) {
        static const tolk_uop *e[STORES];
        tolk_graph *g = new_graph();
        const tolk_uop *y, *x;
        strided_params(g, &y, &x);
        for (int i = 0; i < n; i++)
            e[i] = tolk_store(g, at(g, y, (int64_t)STRIDE * i), tolk_load(g, at(g, x, i)));
        tolk_program *p = in_time(done(g, e, (size_t)n), NULL, rt_text("%d stores", n));
        assert_true(p || n > 2000);
        if (p)
            check_strided(p, n);
        tolk_program_unref(p);
        tolk_graph_destroy(g);
    }
}

/* ---- sums ---- */

/* x[0] + .. + x[n - 1] in one expression, one after the other or as a tree. */
static void sum_of_loads(int n, bool tree) {
    tolk_graph *g = new_graph();
    const int64_t yd[] = {1}, xd[] = {n};
    const tolk_uop *to = tolk_param(g, TOLK_I64, yd, 1, 0, "y");
    const tolk_uop *from = tolk_param(g, TOLK_I64, xd, 1, 1, "x");
    const tolk_uop **v = malloc((size_t)n * sizeof *v);
    int64_t *x = malloc((size_t)n * sizeof *x), y = 0, want = 0;
    assert_true(v && x);
    for (int i = 0; i < n; i++) {
        want += x[i] = (int64_t)i * i;
        v[i] = tolk_load(g, at(g, from, i));
        if (i && !tree)
            v[0] = tolk_add(g, v[0], v[i]);
    }
    for (int m = n; tree && m > 1; m = (m + 1) / 2)
        for (int i = 0; i < (m + 1) / 2; i++)
            v[i] = 2 * i + 1 < m ? tolk_add(g, v[2 * i], v[2 * i + 1]) : v[2 * i];
    const tolk_uop *e = tolk_store(g, at(g, to, 0), v[0]);
    tolk_program *p =
        in_time(done(g, &e, 1), NULL, rt_text("%d loads in a %s", n, tree ? "tree" : "chain"));
    assert_true(p || n > 5000);
    void *bufs[] = {&y, x};
    size_t bytes[] = {sizeof y, (size_t)n * sizeof *x};
    if (p) {
        assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
        assert_true(y == want);
    }
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    free(v);
    free(x);
}

static void test_CG_13_sums_of_5000_to_50000_loads_written_out(void **state) {
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        sum_of_loads(5000, tree);
        sum_of_loads(8000, tree); /* nearly as large as a program may be */
        sum_of_loads(50000, tree);
    }
}

static void test_CG_13_a_sum_of_51200_unrolled(void **state) {
    (void)state;
    static const char *const opts[] = {"UNROLL:0:51200", "UNROLL:0:100", "UNROLL:0:32", NULL};
    enum { N = 51200 };
    static int32_t x[N];
    int32_t y, want = 0;
    tolk_graph *g = new_graph();
    const int64_t yd[] = {1}, xd[] = {N};
    const tolk_uop *to = tolk_param(g, TOLK_I32, yd, 1, 0, "y");
    const tolk_uop *from = tolk_param(g, TOLK_I32, xd, 1, 1, "x");
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, N), 0, TOLK_AXIS_REDUCE);
    const tolk_uop *v =
        tolk_reduce(g, TOLK_REDUCE_ADD, tolk_load(g, tolk_index(g, from, &i, 1)), &i, 1);
    const tolk_uop *e = tolk_store(g, at(g, to, 0), v);
    const tolk_uop *k = done(g, &e, 1);
    for (int n = 0; n < N; n++)
        want += x[n] = n % 1000;
    for (int n = 0; n < 4; n++) {
        tolk_program *p = in_time(k, opts[n], opts[n] ? opts[n] : "heuristic");
        assert_true(p || opts[n]); /* the heuristic's own choice is always possible */
        y = 0;
        void *bufs[] = {&y, x};
        size_t bytes[] = {sizeof y, sizeof x};
        if (p)
            assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
        assert_true(!p || y == want);
        tolk_program_unref(p);
    }
    tolk_graph_destroy(g);
}

/* ---- a loop, however large the array ---- */

static void test_CG_13_the_diagonal_of_5000_x_5000(void **state) {
    (void)state;
    enum { N = 5000 };
    tolk_graph *g = new_graph();
    const int64_t dims[] = {N, N};
    const tolk_uop *y = tolk_param(g, TOLK_F32, dims, 2, 0, "y");
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, N), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *place[] = {i, i};
    const tolk_uop *e = tolk_store(g, tolk_index(g, y, place, 2), tolk_const_float(g, TOLK_F32, 2));
    e = tolk_end(g, e, &i, 1);
    tolk_program *p = in_time(done(g, &e, 1), NULL, "diagonal");
    float *out = calloc((size_t)N * N, sizeof *out);
    assert_true(p && out);
    void *bufs[] = {out};
    size_t bytes[] = {(size_t)N * N * sizeof *out}, wrong = 0;
    assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, NULL), TOLK_OK);
    for (size_t m = 0; m < (size_t)N * N; m++)
        wrong += out[m] != (m % (N + 1) ? 0 : 2);
    assert_int_equal(wrong, 0);
    free(out);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_CG_13_a_loop_of_4096_strided_stores_unrolled),
        cmocka_unit_test(test_CG_13_2000_and_4096_stores_written_out),
        cmocka_unit_test(test_CG_13_sums_of_5000_to_50000_loads_written_out),
        cmocka_unit_test(test_CG_13_a_sum_of_51200_unrolled),
        cmocka_unit_test(test_CG_13_the_diagonal_of_5000_x_5000),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
