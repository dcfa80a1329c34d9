/* SPDX-License-Identifier: MIT
 *
 * What a warm run of an exec costs beside the launch that it makes.
 */
#include "realize/linears.h"

enum { ROUNDS = 20, RUNS = 2000 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one call of fn: the least of several rounds. */
static double cost(tolk_status (*fn)(void *user), void *user) {
    double us[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double start = rt_now();
        for (int k = 0; k < RUNS; k++)
            if (fn(user) != TOLK_OK)
                fail_msg("a run failed");
        us[i] = (rt_now() - start) * 1e6 / RUNS;
    }
    qsort(us, ROUNDS, sizeof *us, by_value);
    return us[0];
}

static tolk_status run_exec(void *user) {
    return tolk_exec_run(user, NULL, NULL);
}

typedef struct bare {
    tolk_program *program;
    void *bufs[2];
} bare;

static tolk_status run_bare(void *user) {
    const bare *b = user;
    static const size_t bytes[2] = {4096 * 4, 4096 * 4};
    return tolk_launch(b->program, b->bufs, bytes, 2, NULL, 0, NULL);
}

static void test_a_warm_run_costs_a_microsecond_at_most(void **state) {
    (void)state;
    rt r;
    rt_open(&r, NULL, NULL);
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, 4096, "scale", "3");
    tolk_graph *g;
    bare b = {NULL, {NULL, NULL}};
    const tolk_uop *kernel = node_of(&r, text, &g);
    assert_int_equal(tolk_compile(r.cpu, kernel, NULL, &b.program, NULL), TOLK_OK);
    tolk_graph_destroy(g);
    snprintf(text + n, sizeof text - n,
             "%%30 = buffer f32 (%%0) {slot=0}\n%%31 = buffer f32 (%%0) {slot=1}\n"
             "%%40 = call void (%%11, %%31, %%30)\n%%41 = linear void (%%40)\n");
    tolk_linear *l = linear_of(&r, text);
    tolk_bindings *bind = NULL;
    tolk_exec *e = NULL;
    assert_int_equal(tolk_bindings_create(r.cpu, &bind, NULL), TOLK_OK);
    const tolk_uop *call = tolk_uop_src(tolk_linear_root(l), 0);
    tolk_buffer *x = floats(r.cpu, 4096, 3), *y = floats(r.cpu, 4096, 0);
    assert_int_equal(tolk_bindings_seed(bind, tolk_uop_src(call, 2), x, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(bind, tolk_uop_src(call, 1), y, NULL), TOLK_OK);
    assert_int_equal(tolk_exec_create(bind, l, NULL, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_map(x, &b.bufs[1], NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_map(y, &b.bufs[0], NULL), TOLK_OK);
    double exec = cost(run_exec, e), launch = cost(run_bare, &b);
    check_floats(y, 9);
    printf("exec %.3f us, launch %.3f us\n", exec, launch);
    if (!TK_TEST_ASAN && !TK_TEST_TSAN && exec > launch + 1)
        fail_msg("a run costs %.3f us, its launch %.3f", exec, launch);
    tolk_exec_destroy(e);
    tolk_bindings_destroy(bind);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
    tolk_program_unref(b.program);
    tolk_linear_unref(l);
    rt_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_warm_run_costs_a_microsecond_at_most),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
