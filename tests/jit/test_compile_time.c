/* SPDX-License-Identifier: MIT
 *
 * No kernel within the limits keeps the compiler busy for long: those of kinds that LLVM is slow
 * at, at the widest vectors, on every target. The time is that of the processor, so that a machine
 * which has other things to do does not matter.
 */
#include "support/tk_test.h"

#include <tolk/tolk.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* It took minutes, or did not end. Sanitizers make it several times as long. */
enum { MOST_SECONDS = TK_TEST_ASAN || TK_TEST_TSAN ? 200 : 60, TEXT = 1 << 20 };

static tolk_ctx *ctx;
static char text[TEXT];
static size_t used;
static int node;

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    return tolk_ctx_create(&opts, &ctx, NULL);
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    return 0;
}

/* Adds a line; returns its node. */
static int line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int line(const char *fmt, ...) {
    va_list ap;
    used += (size_t)snprintf(text + used, TEXT - used, "%%%d = ", node);
    va_start(ap, fmt);
    used += (size_t)vsnprintf(text + used, TEXT - used, fmt, ap);
    va_end(ap);
    used += (size_t)snprintf(text + used, TEXT - used, "\n");
    assert_true(used < TEXT - 100);
    return node++;
}

/* y[i] = ..., of 1000 elements of dtype; x and w are of 70,000. */
typedef struct kernel {
    const char *dtype;
    int n, y, x, i, a, b;
} kernel;

static int load_at(const kernel *k, int index) {
    int place = line("index %s (%%%d, %%%d)", k->dtype, k->x, index);
    return line("load %s (%%%d)", k->dtype, place);
}

static kernel begin(const char *dtype) {
    kernel k = {.dtype = dtype};
    used = (size_t)snprintf(text, TEXT, "tolk.uop 1\n");
    node = 0;
    k.n = line("const index 1000");
    int m = line("const index 70000");
    k.y = line("param %s (%%%d) {slot=0, name=\"y\"}", dtype, k.n);
    k.x = line("param %s (%%%d) {slot=1, name=\"x\"}", dtype, m);
    k.i = line("range index (%%%d) {axis=0, kind=global}", k.n);
    k.a = load_at(&k, k.i);
    k.b = load_at(&k, line("add index (%%%d, %%%d)", k.i, k.n));
    return k;
}

static void finish(const kernel *k, int value) {
    value = line("add %s (%%%d, %%%d)", k->dtype, value, k->b);
    int place = line("index %s (%%%d, %%%d)", k->dtype, k->y, k->i);
    int store = line("store void (%%%d, %%%d)", place, value);
    int end = line("end void (%%%d, %%%d)", store, k->i);
    line("sink void (%%%d) {name=\"k\"}", end);
}

/* Compiles what was written for each target; with options that make too much of it that is said. */
static void compile(const char *opts_text, const char *what) {
    static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512", "aarch64"};
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, used, 0, &root, &err) != TOLK_OK)
        fail_msg("%s: %s", what, err.msg);
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
        opts.target = targets[t];
        opts.opts = opts_text;
        char *object;
        size_t len;
        struct timespec t0, t1;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
        tolk_status st = tolk_emit(ctx, root, &opts, TOLK_EMIT_OBJ, &object, &len, &err);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
        double s = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
        if (st == TOLK_OK)
            tolk_free_text(ctx, object);
        else if (st != TOLK_E_LIMIT)
            fail_msg("%s for %s: %s", what, targets[t], err.msg);
        else
            assert_non_null(strstr(err.msg, "more than"));
        if (s > MOST_SECONDS)
            fail_msg("%s for %s: %.1f s", what, targets[t], s);
    }
    tolk_graph_destroy(g);
}

/* CG-13: masks made of masks of masks. */
static void test_CG_13_a_chain_of_masks(void **state) {
    (void)state;
    kernel k = begin("bool");
    int u = k.a, v = k.b;
    for (int n = 0; n < 100; n++) {
        int less = line("cmplt bool (%%%d, %%%d)", u, v);
        u = v;
        v = line("where bool (%%%d, %%%d, %%%d)", less, v, k.a);
    }
    finish(&k, v);
    compile("LANE:0:64", "masks of masks");
}

static void test_CG_13_gated_loads(void **state) {
    (void)state;
    static const char *const dtypes[] = {"f32", "i8"};
    for (int d = 0; d < 2; d++) {
        kernel k = begin(dtypes[d]);
        int zero = line("const %s 0", k.dtype), sum = k.a;
        for (int n = 0; n < 130; n++) {
            int limit = line("const index %d", 990 - n);
            int gate = line("cmplt bool (%%%d, %%%d)", k.i, limit);
            int far = line("const index %d", 2000 + 400 * n);
            int place = line("index %s (%%%d, %%%d)", k.dtype, k.x,
                             line("add index (%%%d, %%%d)", k.i, far));
            int x = line("load %s (%%%d, %%%d, %%%d)", k.dtype, place, zero, gate);
            sum = line("add %s (%%%d, %%%d)", k.dtype, sum, x);
        }
        finish(&k, sum);
        compile("LANE:0:16 UPCAST:0:4", "130 gated loads");
    }
}

/* Comparisons of one width that choose between values of it, many registers wide. */
static void test_CG_13_wide_choices(void **state) {
    (void)state;
    static const char *const dtypes[] = {"i8", "f32", "i64"};
    for (int d = 0; d < 3; d++) {
        kernel k = begin(dtypes[d]);
        int a = k.a, gate = -1;
        for (int n = 0; n < 50; n++) {
            int less = line("cmplt bool (%%%d, %%%d)", a, k.b);
            int other = line("cmpne bool (%%%d, %%%d)", a, line("const %s %d", k.dtype, n + 3));
            gate = line("where bool (%%%d, %%%d, %%%d)", less, other, gate < 0 ? less : gate);
            a = line("where %s (%%%d, %%%d, %%%d)", k.dtype, gate, k.b, a);
            a = line("add %s (%%%d, %%%d)", k.dtype, a, k.a);
        }
        finish(&k, a);
        compile("LANE:0:64", "wide choices");
    }
}

/* Gathers, as many as there may be and more. */
static void test_CG_13_gathers(void **state) {
    (void)state;
    for (int count = 10; count <= 1000; count *= 10) {
        kernel k = begin("i64");
        int sum = k.a;
        for (int n = 0; n < count; n++) {
            int index = line("mul index (%%%d, %%%d)", k.i, line("const index %d", n % 64 + 3));
            sum =
                line("add i64 (%%%d, %%%d)", sum,
                     load_at(&k, line("add index (%%%d, %%%d)", index, line("const index %d", n))));
        }
        finish(&k, sum);
        compile("LANE:0:64", "gathers");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_CG_13_a_chain_of_masks),
        cmocka_unit_test(test_CG_13_gated_loads),
        cmocka_unit_test(test_CG_13_wide_choices),
        cmocka_unit_test(test_CG_13_gathers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
