/* SPDX-License-Identifier: MIT
 *
 * From kernels in linears to programs: what is compiled once, at the same time, by whom, and what
 * is said when it fails.
 */
#include "realize/linears.h"

#include "base/status.h"
#include "ir/uop.h"

static rt r;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

static tolk_counters counters(void) {
    tolk_counters c;
    assert_int_equal(tolk_stats(r.ctx, &c), TOLK_OK);
    return c;
}

static tolk_linear *compile(tolk_linear *l, const tolk_realize_opts *opts) {
    tolk_linear *out = NULL;
    if (tolk_compile_linear(r.cpu, l, opts, &out, &err))
        fail_msg("%s", err.msg);
    return out;
}

/* n kernels "k0" ..., kernel i multiplies by factor i + 2; one call each, and one more of k0. */
static tolk_linear *many(int n) {
    static char text[65536];
    size_t at = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    for (int i = 0; i < n; i++) {
        char name[16], factor[16];
        snprintf(name, sizeof name, "k%d", i);
        snprintf(factor, sizeof factor, "%d", i + 2);
        at += (size_t)put_scale(text + at, sizeof text - at, 100 * i, 16, name, factor);
    }
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "%%9000 = buffer f32 (%%0) {slot=0}\n"
                           "%%9001 = buffer f32 (%%0) {slot=1}\n");
    for (int i = 0; i <= n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "%%%d = call void (%%%d, %%9001, %%9000) {name=\"tag %d\"}\n",
                               9100 + i, i < n ? 100 * i + 11 : 11, i);
    at += (size_t)snprintf(text + at, sizeof text - at, "%%9999 = linear void (");
    for (int i = 0; i <= n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%%%d", i ? ", " : "", 9100 + i);
    snprintf(text + at, sizeof text - at, ")\n");
    tolk_graph *g;
    const tolk_uop *root = NULL;
    tolk_linear *l = NULL;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) ||
        tolk_linear_create(r.ctx, root, &l, &err))
        fail_msg("%s", err.msg);
    tolk_graph_destroy(g);
    return l;
}

static const tolk_uop *body_of(const tolk_linear *l, size_t i) {
    return tolk_uop_src(tolk_uop_src(tolk_linear_root(l), i), 0);
}

static void test_kernels_become_programs(void **state) {
    (void)state;
    enum { N = 6 };
    tolk_linear *l = many(N);
    tolk_counters before = counters();
    tolk_linear *made = compile(l, NULL);
    tolk_counters after = counters();
    /* Calls whose tags differ share one. */
    assert_int_equal(after.compiles - before.compiles, N);
    assert_int_equal(after.compile_hits, before.compile_hits);
    assert_int_equal(tolk_uop_n_src(tolk_linear_root(made)), N + 1);
    assert_ptr_equal(body_of(made, 0), body_of(made, N));
    for (size_t i = 0; i < N; i++) {
        const tolk_uop *p = body_of(made, i);
        char name[16];
        snprintf(name, sizeof name, "k%zu", i);
        tolk_attr a;
        assert_string_equal(tolk_op_name(tolk_uop_op(p)), "program");
        assert_string_equal(tolk_op_name(tolk_uop_op(tolk_uop_src(p, 0))), "sink");
        assert_string_equal(tolk_op_name(tolk_uop_op(tolk_uop_src(p, 1))), "binary");
        assert_true(tolk_uop_attr(p, "name", &a));
        assert_string_equal(a.s, name);
        assert_true(tolk_uop_attr(p, "outs", &a));
        assert_true(a.n == 1 && a.ints[0] == 0);
        assert_true(tolk_uop_attr(p, "ins", &a));
        assert_true(a.n == 1 && a.ints[0] == 1);
        const tolk_uop *call = tolk_uop_src(tolk_linear_root(made), i);
        assert_int_equal(tolk_uop_n_src(call), 3);
        assert_true(tolk_uop_attr(call, "name", &a));
    }
    /* Again: all are there. What is compiled stays as it is. */
    tolk_linear *again = compile(l, NULL), *same = compile(made, NULL);
    assert_int_equal(counters().compiles, after.compiles);
    assert_int_equal(counters().compile_hits - after.compile_hits, N);
    tolk_key a = tolk_uop_key(tolk_linear_root(made)), b = tolk_uop_key(tolk_linear_root(again));
    assert_true(a.lo == b.lo && a.hi == b.hi);
    assert_ptr_equal(same, made);
    /* Other options, other code. */
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    c.opts = "";
    o.compile = &c;
    tolk_linear_unref(compile(l, &o));
    assert_int_equal(counters().compiles - after.compiles, N);
    tolk_linear_unref(same);
    tolk_linear_unref(again);
    tolk_linear_unref(made);
    tolk_linear_unref(l);
}

/* A compiled linear is text like any other, but it is machine code: only for who trusts it. */
static void test_programs_in_texts_must_be_trusted(void **state) {
    (void)state;
    tolk_linear *l = many(2), *made = compile(l, NULL), *read = NULL;
    char *text;
    size_t n;
    tolk_graph *g;
    const tolk_uop *root;
    assert_int_equal(tolk_print(tolk_linear_root(made), &text, &n), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_not_equal(tolk_parse(g, text, n, 0, &root, &err), TOLK_OK);
    tolk_graph_destroy(g);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, n, TOLK_PARSE_TRUSTED, &root, &err), TOLK_OK);
    assert_int_equal(tolk_linear_create(r.ctx, root, &read, &err), TOLK_OK);
    tolk_bindings *b = NULL;
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    const tolk_uop *call = tolk_uop_src(tolk_linear_root(read), 1);
    tolk_buffer *x = floats(r.cpu, 16, 3), *y = NULL;
    assert_int_equal(tolk_bindings_seed(b, tolk_uop_src(call, 2), x, NULL), TOLK_OK);
    tolk_run_args a = TOLK_RUN_INIT;
    a.jit = 1;
    if (tolk_run_linear(b, read, NULL, &a, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(tolk_bindings_find(b, tolk_uop_src(call, 1), &y, NULL, NULL), TOLK_OK);
    check_floats(y, 6); /* the last call is k0 again: times 2 */
    tolk_bindings_destroy(b);
    tolk_buffer_unref(x);
    tolk_free_text(r.ctx, text);
    tolk_graph_destroy(g);
    tolk_linear_unref(read);
    tolk_linear_unref(made);
    tolk_linear_unref(l);
}

/* The first call that fails is named, whichever thread is quicker. */
static void test_errors_name_the_call(void **state) {
    (void)state;
    tolk_linear *l = many(8), *out = NULL;
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    c.opts = "LANE:7:16";
    o.compile = &c;
    for (int i = 0; i < 5; i++) {
        assert_int_not_equal(tolk_compile_linear(r.cpu, l, &o, &out, &err), TOLK_OK);
        check_contains(err.msg, "call 0 (kernel k0): ");
        assert_null(out);
    }
    o.size = 4;
    assert_int_equal(tolk_compile_linear(r.cpu, l, &o, &out, &err), TOLK_E_ARG);
    check_contains(err.msg, "tolk_realize_opts.size is 4");
    tolk_linear_unref(l);
}

/* ---- to_program ---- */

typedef struct maker {
    int calls;
    int wrong; /* 1: NULL, 2: the sink itself, 3: an error */
} maker;

/* A program whose code is that of another kernel: times 10. */
static tolk_status times_ten(void *user, tolk_device *device, const tolk_uop *sink,
                             const tolk_uop **program, tolk_error *why) {
    maker *m = user;
    m->calls++;
    *program = m->wrong == 1 ? NULL : sink;
    if (m->wrong == 3) {
        snprintf(why->msg, sizeof why->msg, "not today");
        return TOLK_E_UNSUPPORTED;
    }
    if (m->wrong)
        return TOLK_OK;
    tolk_graph *g;
    tolk_program *p;
    char text[2048], *bytes;
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    (void)put_scale(text + n, sizeof text - n, 0, 16, "ten", "10");
    const tolk_uop *kernel = node_of(&r, text, &g);
    TK_TRY(tolk_compile(device, kernel, NULL, &p, why));
    TK_TRY(tolk_program_save(p, &bytes, &n, why));
    tolk_program_unref(p);
    const tolk_attr code = {.key = "bytes", .s = bytes, .n = n}, name = {.key = "name", .s = "ten"};
    tolk_graph *own = tolk_uop_graph(sink);
    const tolk_uop *src[] = {sink,
                             tolk_uop_new(own, tolk_op_find("binary"), TOLK_U8, NULL, 0, &code, 1)};
    *program = tolk_uop_new(own, tolk_op_find("program"), TOLK_VOID, src, 2, &name, 1);
    tolk_free_text(r.ctx, bytes);
    tolk_graph_destroy(g);
    return TOLK_OK;
}

static void test_to_program_takes_the_compilers_place(void **state) {
    (void)state;
    maker m = {0, 0};
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    o.to_program = times_ten;
    o.user = &m;
    tolk_linear *l = many(3), *out = NULL;
    tolk_bindings *b = NULL;
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    const tolk_uop *call = tolk_uop_src(tolk_linear_root(l), 0);
    tolk_buffer *x = floats(r.cpu, 16, 3), *y = NULL;
    assert_int_equal(tolk_bindings_seed(b, tolk_uop_src(call, 2), x, NULL), TOLK_OK);
    if (tolk_run_linear(b, l, &o, NULL, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(m.calls, 3);
    assert_int_equal(tolk_bindings_find(b, tolk_uop_src(call, 1), &y, NULL, NULL), TOLK_OK);
    check_floats(y, 30);
    /* The compiler's are others. */
    if (tolk_run_linear(b, l, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    check_floats(y, 6);
    static const char *const says[] = {"NULL", "sink", "not today"};
    for (int i = 0; i < 3; i++) {
        m.wrong = i + 1;
        assert_int_not_equal(tolk_compile_linear(r.cpu, l, &o, &out, &err), TOLK_OK);
        check_contains(err.msg, "call 0 (kernel k0)");
        check_contains(err.msg, says[i]);
    }
    tolk_bindings_destroy(b);
    tolk_buffer_unref(x);
    tolk_linear_unref(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_kernels_become_programs),
        TEST(test_programs_in_texts_must_be_trusted),
        TEST(test_errors_name_the_call),
        TEST(test_to_program_takes_the_compilers_place),
    };
    return cmocka_run_group_tests_name("compile_linear", tests, NULL, NULL);
}
