/* SPDX-License-Identifier: MIT
 *
 * Record and replay: what runs when, what a capture gets, what a jit is not made of.
 */
#include "realize/jits.h"

#include <pthread.h>

/* ---- what runs when ---- */

static void test_the_function_runs_twice_and_each_call_launches_once(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(out, NULL, 0);
    for (int i = 0; i < 6; i++) {
        seed(in, NULL, (float)i);
        uint64_t before = launches();
        run_ok(jit, &in, 1);
        check_floats(bound(out), 4.0f * (float)i + 3);
        assert_int_equal(launches() - before, 2);
    }
    assert_int_equal(w.calls, 2);
    tolk_jit_destroy(jit);
}

static void test_a_capture_that_failed_is_tried_again(void **state) {
    (void)state;
    work w = {.fail_at = 2, .silent_at = 3};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(run(jit, &in, 1), TOLK_E_RANGE);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_E_NOT_FOUND); /* none was left */
    assert_int_equal(run(jit, &in, 1), TOLK_E_ARG);
    check_contains(err.msg, "no linear");
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_E_NOT_FOUND);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    check_floats(bound(out), 11);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 4);
    tolk_jit_destroy(jit);
    /* A first run that failed is a first run again. */
    w = (work){.fail_at = 1};
    jit = jit_of(chain, &w, NULL);
    assert_int_equal(run(jit, &in, 1), TOLK_E_RANGE);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 3);
    tolk_jit_destroy(jit);
}

static tolk_jit *inner_jit;
static tolk_status nested(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    (void)to;
    *(int *)user += 1;
    return tolk_jit_call(inner_jit, args, e);
}

static void test_a_jit_inside_of_a_capture_is_refused(void **state) {
    (void)state;
    work w = {0};
    int calls = 0;
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *outer = jit_of(nested, &calls, NULL);
    inner_jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(outer, &in, 1);
    check_floats(bound(out), 7);
    assert_int_equal(run(outer, &in, 1), TOLK_E_BUSY);
    check_contains(err.msg, "inside of a capture");
    tolk_jit_destroy(inner_jit);
    inner_jit = outer; /* itself */
    tolk_jit_reset(outer);
    assert_int_equal(run(outer, &in, 1), TOLK_E_BUSY);
    check_contains(err.msg, "own function");
    tolk_jit_destroy(outer);
}

/* ---- captures ---- */

typedef struct seen {
    int linears;
    size_t calls;
    int64_t n;
    bool has_param, has_slice;
} seen;

static tolk_status look(void *user, tolk_linear *linear, const tolk_var *vars, size_t n_vars,
                        tolk_error *e) {
    (void)e;
    seen *s = user;
    const tolk_uop *root = tolk_linear_root(linear);
    s->linears++;
    s->calls = tolk_uop_n_src(root);
    s->n = n_vars ? vars[0].value : 0;
    for (size_t i = 0; i < s->calls; i++)
        for (size_t k = 1; k < tolk_uop_n_src(tolk_uop_src(root, i)); k++) {
            tolk_op op = tolk_uop_op(tolk_uop_src(tolk_uop_src(root, i), k));
            s->has_param |= op == tolk_op_find("param");
            s->has_slice |= op == tolk_op_find("slice");
        }
    return TOLK_OK;
}

static void *run_elsewhere(void *arg) {
    tolk_run_args none = TOLK_RUN_INIT;
    work w = {0};
    return (void *)(intptr_t)chain(&w, arg, &none, NULL);
}

static void test_a_capture_gets_what_would_have_run(void **state) {
    (void)state;
    work w = {0};
    seen inner = {0}, outer = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    seed(in, NULL, 1);
    seed(out, NULL, 0);
    tolk_run_args args = TOLK_RUN_INIT;
    tolk_var n = {"n", 3};
    args.vars = &n;
    args.n_vars = 1;
    assert_int_equal(tolk_capture_push(r.ctx, look, &outer, NULL), TOLK_OK);
    assert_int_equal(tolk_capture_push(r.ctx, look, &inner, NULL), TOLK_OK);
    assert_int_equal(chain(&w, b, &args, &err), TOLK_OK);
    assert_int_equal(inner.linears, 1);
    assert_int_equal(inner.calls, 2);
    assert_int_equal(inner.n, 3);
    assert_false(inner.has_slice); /* nothing is planned yet */
    assert_int_equal(outer.linears, 0);
    check_floats(bound(out), 0);
    /* Another thread runs what it has. */
    pthread_t t;
    void *st;
    assert_int_equal(pthread_create(&t, NULL, run_elsewhere, b), 0);
    assert_int_equal(pthread_join(t, &st), 0);
    assert_int_equal((intptr_t)st, TOLK_OK);
    check_floats(bound(out), 7);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_OK);
    /* What inputs stand for is in the linear. */
    tolk_graph *at;
    int64_t size = N;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *p = tolk_param(at, TOLK_F32, &size, 1, 0, NULL);
    const tolk_uop *c = call(at, twice(at, 1), f32s(at, 2), p, NULL);
    args.inputs = &in;
    args.n_inputs = 1;
    assert_int_equal(hand_over(b, at, &c, 1, NULL, 0, &args, &err), TOLK_OK);
    assert_int_equal(outer.linears, 1);
    assert_false(outer.has_param);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_capture_pop(r.ctx, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(hand_over(b, at, &c, 1, NULL, 0, &args, &err), TOLK_OK);
    check_floats(bound(out), 3);
    tolk_graph_destroy(at);
    assert_int_equal(inner.linears, 1);
    assert_int_equal(tolk_capture_push(NULL, look, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_capture_push(r.ctx, NULL, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_capture_pop(NULL, NULL), TOLK_E_ARG);
}

static void test_wrong_arguments_are_refused(void **state) {
    (void)state;
    work w = {0};
    tolk_jit *jit = NULL;
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    opts.size = 3;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    opts = (tolk_jit_opts)TOLK_JIT_OPTS_INIT;
    opts.n_held = 1;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    const tolk_uop *none = NULL;
    opts.held = &none;
    assert_int_equal(tolk_jit_create(b, chain, &w, &opts, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(NULL, chain, &w, NULL, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(b, NULL, &w, NULL, &jit, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_create(b, chain, &w, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_jit_call(NULL, NULL, &err), TOLK_E_ARG);
    tolk_jit_reset(NULL);
    tolk_jit_destroy(NULL);
    assert_int_equal(tolk_realize_linear(b, NULL, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_realize_linear(NULL, NULL, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_null(jit);
}

static int resets;
static tolk_status resets_itself(void *user, tolk_bindings *to, const tolk_run_args *args,
                                 tolk_error *e) {
    resets++;
    tolk_jit_reset(*(tolk_jit **)user);
    (void)to;
    (void)args;
    (void)e;
    return TOLK_OK;
}

static void test_a_reset_from_inside_counts_when_the_call_is_over(void **state) {
    (void)state;
    tolk_jit *jit = NULL;
    resets = 0;
    assert_int_equal(tolk_jit_create(b, resets_itself, &jit, NULL, &jit, &err), TOLK_OK);
    for (int i = 1; i < 4; i++) { /* always the first call: a capture would miss its linear */
        assert_int_equal(tolk_jit_call(jit, NULL, &err), TOLK_OK);
        assert_int_equal(resets, i);
    }
    tolk_jit_destroy(jit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_reset_from_inside_counts_when_the_call_is_over),
        TEST(test_the_function_runs_twice_and_each_call_launches_once),
        TEST(test_a_capture_that_failed_is_tried_again),
        TEST(test_a_jit_inside_of_a_capture_is_refused),
        TEST(test_a_capture_gets_what_would_have_run),
        TEST(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
