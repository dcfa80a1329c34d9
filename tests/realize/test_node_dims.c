/* SPDX-License-Identifier: MIT
 *
 * Shapes of nodes with values for their variables; the values of float variables.
 */
#include "realize/kernels.h"

#include <math.h>

static rt r;
static tolk_graph *g;
static tolk_error err;
static const tolk_uop *n, *m; /* n: 0 .. 10, m: -5 .. 2^62, index scalars */

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    n = tolk_cast(g, tolk_variable(g, TOLK_I32, 2, "n", 0, 10), TOLK_INDEX);
    m = tolk_cast(g, tolk_variable(g, TOLK_I64, 3, "m", -5, (int64_t)1 << 62), TOLK_INDEX);
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    rt_close(&r);
    return 0;
}

static const tolk_uop *of_dims(const tolk_uop *const *dims, size_t rank) {
    return tolk_buffer_node_sym(g, TOLK_F32, dims, rank, 0, NULL);
}

static void test_dims_are_those_of_the_variables(void **state) {
    (void)state;
    const tolk_var vars[] = {tolk_var_int("k", 1), tolk_var_int("m", 3), tolk_var_int("n", 7)};
    const tolk_uop *three[] = {tolk_add(g, n, m), tolk_const_int(g, TOLK_INDEX, 4),
                               tolk_mul(g, n, n)};
    int64_t dims[8], sizes[] = {5, 6};
    uint32_t rank = 9;
    assert_int_equal(tolk_node_dims(of_dims(three, 3), vars, 3, dims, &rank, &err), TOLK_OK);
    assert_int_equal(rank, 3);
    assert_int_equal(dims[0], 10);
    assert_int_equal(dims[1], 4);
    assert_int_equal(dims[2], 49);
    assert_int_equal(
        tolk_node_dims(tolk_param(g, TOLK_F32, sizes, 2, 1, NULL), NULL, 0, dims, &rank, &err),
        TOLK_OK);
    assert_int_equal(rank, 2);
    assert_int_equal(dims[0], 5);
    assert_int_equal(dims[1], 6);
    assert_int_equal(tolk_node_dims(of_dims(NULL, 0), NULL, 0, dims, &rank, &err), TOLK_OK);
    assert_int_equal(rank, 0);
    /* A dimension may have many nodes, and use one variable often. */
    const tolk_uop *sum = n;
    for (int i = 0; i < 200; i++)
        sum = tolk_add(g, sum, tolk_floordiv(g, n, tolk_const_int(g, TOLK_INDEX, i + 1)));
    assert_int_equal(tolk_node_dims(of_dims(&sum, 1), vars, 3, dims, &rank, &err), TOLK_OK);
    assert_int_equal(dims[0], 7 + 7 + 3 + 2 + 1 + 1 + 1 + 1); /* 7 div 1, 2, ... */
    assert_int_equal(rank, 1);
}

static void test_dims_wrong_are_refused(void **state) {
    (void)state;
    int64_t dims[8] = {-7};
    uint32_t rank = 9;
    const tolk_uop *both[] = {n, m};
#define REFUSED(code, says, node, ...)                                                             \
    do {                                                                                           \
        const tolk_var vars[] = {__VA_ARGS__};                                                     \
        assert_int_equal(                                                                          \
            tolk_node_dims(node, vars, sizeof vars / sizeof *vars, dims, &rank, &err), code);      \
        check_contains(err.msg, says);                                                             \
        assert_int_equal(rank, 9);                                                                 \
        assert_int_equal(dims[0], -7);                                                             \
    } while (0)
    REFUSED(TOLK_E_UNBOUND, "variable \"m\" (slot 3) has no value", of_dims(both, 2),
            tolk_var_int("n", 1), tolk_var_int(NULL, 1));
    REFUSED(TOLK_E_LAUNCH, "variable \"n\" (slot 2) is 11, expected 0 to 10", of_dims(both, 2),
            tolk_var_int("n", 11), tolk_var_int("m", 1));
    REFUSED(TOLK_E_LAUNCH, "dimension 1 of the buffer is -3", of_dims(both, 2),
            tolk_var_int("n", 1), tolk_var_int("m", -3));
    REFUSED(TOLK_E_LIMIT, "too large", of_dims(both, 2), tolk_var_int("n", 10),
            tolk_var_int("m", (int64_t)1 << 62));
    const tolk_uop *same = tolk_cast(g, tolk_variable(g, TOLK_I64, 2, "k", 0, 4), TOLK_INDEX);
    same = tolk_mul(g, same, n);
    REFUSED(TOLK_E_VERIFY, "one slot", of_dims(&same, 1), tolk_var_int("n", 1),
            tolk_var_int("k", 1));
    REFUSED(TOLK_E_ARG, "the node is add, expected a buffer or param", tolk_add(g, n, m),
            tolk_var_int("n", 1));
    REFUSED(TOLK_E_ARG, "the node is a scalar", tolk_scalar(g, TOLK_F32, 0, "k"),
            tolk_var_int("n", 1));
    REFUSED(TOLK_E_ARG, "NULL", NULL, tolk_var_int("n", 1));
    /* Where it is empty, the other dimensions do not count. */
    const tolk_var none[] = {tolk_var_int("n", 0), tolk_var_int("m", (int64_t)1 << 62)};
    const tolk_uop *three[] = {m, m, n};
    assert_int_equal(tolk_node_dims(of_dims(three, 3), none, 2, dims, &rank, &err), TOLK_OK);
    assert_int_equal(rank, 3);
    assert_int_equal(dims[2], 0);
}

static void test_float_variables_are_bit_patterns(void **state) {
    (void)state;
    assert_int_equal(tolk_var_f32("k", 0.5f).value, 0x3f000000);
    assert_int_equal(tolk_var_f32("k", -2).value, 0xc0000000); /* in the low bytes alone */
    assert_int_equal(tolk_var_f64("k", -2).value, (int64_t)0xc000000000000000);
    assert_int_equal(tolk_var_int("k", -2).value, -2);
    assert_string_equal(tolk_var_f64("k", -2).name, "k");
    /* y[0] = k, z[0] = d in a run */
    static const char text[] = "tolk.uop 1\n"
                               "%1 = param f32 {slot=0, name=\"y\"}\n"
                               "%2 = param f64 {slot=1, name=\"z\"}\n"
                               "%3 = param f32 {slot=2, name=\"k\", space=alu}\n"
                               "%4 = param f64 {slot=3, name=\"d\", space=alu}\n"
                               "%5 = index f32 (%1)\n"
                               "%6 = store void (%5, %3)\n"
                               "%7 = index f64 (%2)\n"
                               "%8 = store void (%7, %4)\n"
                               "%9 = sink void (%6, %8) {name=\"put\"}\n"
                               "%10 = buffer f32 {slot=0}\n"
                               "%11 = buffer f64 {slot=1}\n"
                               "%12 = call void (%9, %10, %11)\n"
                               "%13 = linear void (%12)\n";
    const tolk_uop *root;
    tolk_linear *l;
    tolk_bindings *b;
    assert_int_equal(tolk_parse(g, text, sizeof text - 1, 0, &root, &err), TOLK_OK);
    assert_int_equal(tolk_linear_create(r.ctx, root, &l, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, &err), TOLK_OK);
    const tolk_var vars[] = {tolk_var_f32("k", -1.25f), tolk_var_f64("d", M_PI)};
    tolk_run_args args = TOLK_RUN_INIT;
    args.vars = vars;
    args.n_vars = 2;
    if (tolk_run_linear(b, l, NULL, &args, &err))
        fail_msg("%s", err.msg);
    float y;
    double z;
    tolk_buffer *buf = NULL;
    const tolk_uop *at = tolk_buffer_node(g, TOLK_F32, NULL, 0, 0, NULL);
    assert_int_equal(tolk_bindings_find(b, at, &buf, NULL, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(buf, 0, &y, sizeof y, &err), TOLK_OK);
    at = tolk_buffer_node(g, TOLK_F64, NULL, 0, 1, NULL);
    assert_int_equal(tolk_bindings_find(b, at, &buf, NULL, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(buf, 0, &z, sizeof z, &err), TOLK_OK);
    assert_true(y == -1.25f);
    assert_true(z == M_PI);
    tolk_bindings_destroy(b);
    tolk_linear_unref(l);
}

static tolk_status dims_without_memory(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tolk_graph *own;
    int64_t dims[8];
    uint32_t rank;
    o.allocator = al;
    o.no_environment = 1;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = tolk_graph_create(ctx, &own);
    if (!st) {
        const tolk_uop *v = tolk_variable(own, TOLK_INDEX, 2, "n", 0, 10);
        v = tolk_buffer_node_sym(own, TOLK_F32, &v, 1, 0, NULL);
        const tolk_var var = tolk_var_int("n", 3);
        st = v ? tolk_node_dims(v, &var, 1, dims, &rank, NULL) : tolk_graph_error(own, NULL);
        tolk_graph_destroy(own);
    }
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_dims_without_memory_is_E_NOMEM(void **state) {
    (void)state;
    assert_true(tk_test_oom(dims_without_memory, NULL) > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_dims_are_those_of_the_variables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dims_wrong_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_float_variables_are_bit_patterns, setup, teardown),
        cmocka_unit_test(test_dims_without_memory_is_E_NOMEM),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
