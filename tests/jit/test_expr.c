/* SPDX-License-Identifier: MIT
 *
 * Sizes as short lists of steps: the same values as the interpreter's own evaluation, shared nodes
 * once, what does not fit is known, and what is no size is refused.
 */
#include "jit/expr.h"

#include "ir/expr.h"
#include "ir/sym.h"

#include <string.h>

/* The params of a kernel: a buffer of slot 0 and scalars a, b, c of slots 1 to 3. */
typedef struct sizes {
    tolk_graph *g;
    tk_params params;
    const tolk_uop *a, *b, *c; /* as index; c is an u64 */
    tk_expr_steps steps;
    tk_map done;
} sizes;

static void sizes_init(sizes *x) {
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=1, space=alu}\n%1 = param i64 {slot=2, space=alu}\n"
        "%2 = param u64 {slot=3, space=alu}\n%3 = cast index (%0)\n%4 = cast index (%1)\n"
        "%5 = cast index (%2)\n%6 = stack index (%3, %4, %5)\n%7 = param i32 (%6) {slot=0}\n"
        "%8 = const index 0\n%9 = index i32 (%7, %8, %8, %8)\n%10 = const i32 1\n"
        "%11 = store void (%9, %10)\n%12 = sink void (%11) {name=\"sizes\"}\n";
    const tolk_uop *root;
    x->g = expr_graph();
    assert_int_equal(tolk_parse(x->g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    assert_int_equal(tk_params_init(&x->params, root, x->g->al, NULL), TOLK_OK);
    const tk_param *y = tk_params_find(&x->params, 0);
    x->a = y->dim[0];
    x->b = y->dim[1];
    x->c = y->dim[2];
    tk_vec_init(&x->steps, x->g->al);
    tk_map_init(&x->done, x->g->al);
}

static void sizes_fini(sizes *x) {
    tk_vec_fini(&x->steps);
    tk_map_fini(&x->done);
    tk_params_fini(&x->params);
    expr_done(x->g);
}

static uint16_t compile(sizes *x, const tolk_uop *u) {
    uint16_t at = UINT16_MAX;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_expr_compile(u, &x->params, &x->done, &x->steps, &at, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    assert_true(at < x->steps.n);
    return at;
}

/* The value of u by its steps; *wraps: whether it does not fit. */
static int64_t value(sizes *x, const tolk_uop *u, const int64_t *vals, bool *wraps) {
    int64_t values[TK_EXPR_MAX_STEPS], again[TK_EXPR_MAX_STEPS];
    bool all[TK_EXPR_MAX_STEPS];
    uint16_t at = compile(x, u);
    tk_expr_eval(x->steps.at, x->steps.n, vals, values, all);
    tk_expr_eval(x->steps.at, x->steps.n, vals, again, NULL);
    assert_int_equal(values[at], again[at]);
    *wraps = all[at];
    return values[at];
}

static void test_values_are_those_of_the_interpreter(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    tolk_graph *g = x.g;
    static const tk_op ops[] = {TK_OP_ADD,  TK_OP_SUB,      TK_OP_MUL,      TK_OP_MAX,
                                TK_OP_CDIV, TK_OP_CMOD,     TK_OP_AND,      TK_OP_OR,
                                TK_OP_XOR,  TK_OP_FLOORDIV, TK_OP_FLOORMOD, TK_OP_SHR};
    static const int64_t vals[][3] = {
        {0, 0, 0},         {1, 2, 3},          {-7, 3, 5},        {7, -3, 9},         {100, 64, 1},
        {INT32_MAX, 2, 2}, {INT32_MIN, 1, 62}, {5, INT64_MAX, 1}, {3, INT64_MIN, -1}, {1, -1, 63}};
    size_t fit = 0, not_fit = 0;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t v = 0; v < sizeof vals / sizeof *vals; v++) {
            const tolk_uop *in = tk_uop2(g, ops[o], x.a, x.b);
            const tolk_uop *u = tk_uop2(g, TK_OP_ADD, tk_uop2(g, ops[o], in, x.c), x.b);
            int64_t want;
            bool wraps;
            tolk_status st = tk_params_eval(u, &x.params, vals[v], &want, NULL);
            int64_t have = value(&x, u, vals[v], &wraps);
            assert_int_equal(wraps, st == TOLK_E_LIMIT);
            if (st == TOLK_OK)
                assert_int_equal(have, want);
            fit += !wraps;
            not_fit += wraps;
        }
    assert_true(fit > 50 && not_fit > 8);
    sizes_fini(&x);
}

static void test_narrow_steps_wrap_as_their_dtype_does(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const int64_t vals[] = {INT32_MAX, 0, 0};
    bool wraps;
    const tolk_uop *n = x.a->src[0], *one = tk_uop_const(x.g, TOLK_I32, 1);
    const tolk_uop *u = tk_uop_cast(x.g, tk_uop2(x.g, TK_OP_ADD, n, one), TOLK_INDEX);
    assert_int_equal(value(&x, u, vals, &wraps), INT32_MIN);
    assert_false(wraps);
    u = tk_uop_cast(x.g, tk_uop_cast(x.g, n, TOLK_U8), TOLK_INDEX);
    assert_int_equal(value(&x, u, vals, &wraps), 255);
    u = tk_uop3(x.g, TK_OP_WHERE, tk_uop2(x.g, TK_OP_CMPLT, n, one), x.b,
                tk_uop_index_const(x.g, 9));
    assert_int_equal(value(&x, u, vals, &wraps), 9);
    sizes_fini(&x);
}

/* What was not chosen, and what is multiplied by nothing, need not fit. */
static void test_what_does_not_count_need_not_fit(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const int64_t vals[] = {0, INT64_MAX, 1};
    bool wraps;
    const tolk_uop *big = tk_uop2(x.g, TK_OP_ADD, x.b, x.c);
    (void)value(&x, big, vals, &wraps);
    assert_true(wraps);
    assert_int_equal(value(&x, tk_uop2(x.g, TK_OP_MUL, big, x.a), vals, &wraps), 0);
    assert_false(wraps);
    assert_int_equal(value(&x, tk_uop2(x.g, TK_OP_MUL, x.a, big), vals, &wraps), 0);
    assert_false(wraps);
    const tolk_uop *none = tk_uop2(x.g, TK_OP_CMPLT, x.a, x.c);
    assert_int_equal(value(&x, tk_uop3(x.g, TK_OP_WHERE, none, x.c, big), vals, &wraps), 1);
    assert_false(wraps);
    (void)value(&x, tk_uop3(x.g, TK_OP_WHERE, none, big, x.c), vals, &wraps);
    assert_true(wraps);
    sizes_fini(&x);
}

static void test_shared_nodes_are_one_step(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const tolk_uop *sum = tk_uop2(x.g, TK_OP_ADD, x.a, x.b);
    const tolk_uop *square = tk_uop2(x.g, TK_OP_MUL, sum, sum);
    /* two params, two casts (i64 to index is one, too), the sum, the product */
    uint16_t at = compile(&x, square);
    assert_int_equal(x.steps.n, 6);
    assert_int_equal(at, 5);
    assert_int_equal(compile(&x, square), at);
    assert_int_equal(compile(&x, sum), 4);
    assert_int_equal(x.steps.n, 6);
    compile(&x, tk_uop2(x.g, TK_OP_SUB, square, sum));
    assert_int_equal(x.steps.n, 7);
    sizes_fini(&x);
}

static void test_constant_means_that_no_step_reads_a_scalar(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const tolk_uop *five = tk_uop_index_const(x.g, 5);
    compile(&x, tk_uop2(x.g, TK_OP_MUL, five, five));
    assert_true(tk_expr_is_constant(x.steps.at, x.steps.n));
    compile(&x, x.a);
    assert_false(tk_expr_is_constant(x.steps.at, x.steps.n));
    sizes_fini(&x);
}

static void refused(sizes *x, const tolk_uop *u, tolk_status status, const char *msg) {
    uint16_t at;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_expr_compile(u, &x->params, &x->done, &x->steps, &at, &err), status);
    assert_string_equal(err.msg, msg);
}

static void test_what_is_no_size_is_refused(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const tolk_uop *range = expr_range(x.g, 4, 0);
    refused(&x, tk_uop2(x.g, TK_OP_ADD, range, x.a), TOLK_E_UNSUPPORTED,
            "range: a size may be made of constants, variables and integer arithmetic only");
    /* a buffer is no scalar, and a scalar of another kernel is not there */
    refused(&x, tk_params_find(&x.params, 0)->node, TOLK_E_UNSUPPORTED,
            "param: a size may be made of constants, variables and integer arithmetic only");
    refused(&x, expr_param(x.g, TOLK_I32, 9, 0, 5), TOLK_E_UNSUPPORTED,
            "param: a size may be made of constants, variables and integer arithmetic only");
    sizes_fini(&x);
}

static void test_512_steps_are_the_most(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const tolk_uop *u = x.b;
    compile(&x, u);
    while (x.steps.n < TK_EXPR_MAX_STEPS) {
        u = tk_uop2(x.g, TK_OP_SUB, x.b, u);
        compile(&x, u);
    }
    const int64_t vals[] = {0, 3, 0};
    bool wraps;
    int64_t v = value(&x, u, vals, &wraps);
    assert_true(v == 0 || v == 3);
    refused(&x, tk_uop2(x.g, TK_OP_SUB, x.b, u), TOLK_E_LIMIT,
            "sizes of one kernel take more than 512 operations");
    sizes_fini(&x);
}

/* 100,000 nodes deep: nothing recurses. */
static void test_depth_costs_no_stack(void **state) {
    (void)state;
    sizes x;
    sizes_init(&x);
    const tolk_uop *u = x.b;
    for (int i = 0; i < 100000; i++)
        u = tk_uop2(x.g, TK_OP_SUB, x.b, u);
    refused(&x, u, TOLK_E_LIMIT, "sizes of one kernel take more than 512 operations");
    sizes_fini(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_those_of_the_interpreter),
        cmocka_unit_test(test_narrow_steps_wrap_as_their_dtype_does),
        cmocka_unit_test(test_what_does_not_count_need_not_fit),
        cmocka_unit_test(test_shared_nodes_are_one_step),
        cmocka_unit_test(test_constant_means_that_no_step_reads_a_scalar),
        cmocka_unit_test(test_what_is_no_size_is_refused),
        cmocka_unit_test(test_512_steps_are_the_most),
        cmocka_unit_test(test_depth_costs_no_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
