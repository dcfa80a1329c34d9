/* SPDX-License-Identifier: MIT
 *
 * What a replay is given, and refuses: inputs, memory that they share, variables.
 */
#include "realize/jits.h"

static void test_inputs_that_differ_are_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2), *other = buffer_in(g, 7, N, "CPU:1");
    const tolk_uop *both[] = {in, out};
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(run(jit, both, 2), TOLK_E_ARG);
    check_contains(err.msg, "2 inputs, expected 1");
    assert_int_equal(run(jit, NULL, 0), TOLK_E_ARG);
    seed(other, "CPU:1", 4);
    assert_int_equal(run(jit, &other, 1), TOLK_E_DEVICE);
    check_contains(err.msg, "CPU:1");
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_alloc_i32(r.cpu, N, &x, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, in, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    assert_int_equal(run(jit, &in, 1), TOLK_E_DTYPE);
    check_contains(err.msg, "i32");
    tolk_bindings_remove(b, in);
    assert_int_equal(run(jit, &in, 1), TOLK_E_UNBOUND);
    check_contains(err.msg, "slot=0");
    seed(in, NULL, 9); /* none of that ended the replays */
    run_ok(jit, &in, 1);
    check_floats(bound(out), 39);
    /* Another node is fine. */
    const tolk_uop *elsewhere = f32s(g, 8);
    seed(elsewhere, NULL, 10);
    run_ok(jit, &elsewhere, 1);
    check_floats(bound(out), 43);
    assert_int_equal(w.calls, 2);
    tolk_jit_destroy(jit);
}

static void test_GRAPH_05_inputs_of_another_size_are_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    tolk_buffer *x = floats(r.cpu, 8, 5);
    assert_int_equal(tolk_bindings_seed(b, in, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    assert_int_equal(run(jit, &in, 1), TOLK_E_SHAPE);
    check_contains(err.msg, "has 8 elements, expected 16");
    check_floats(bound(out), 7); /* nothing ran */
    tolk_jit_destroy(jit);
}

static void test_GRAPH_01_a_result_that_is_fed_back_is_refused(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    tolk_buffer *first = bound(out);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    assert_ptr_equal(bound(out), first); /* held: one buffer, whose last contents count */
    assert_int_equal(run(jit, &out, 1), TOLK_E_ALIAS);
    check_contains(err.msg, "input 0");
    check_floats(first, 11);
    /* A copy of it is fine, and so is a new buffer for the next result. */
    tolk_buffer *copy = floats(r.cpu, N, 0);
    assert_int_equal(tolk_buffer_copy(copy, first, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, in, copy, NULL), TOLK_OK);
    tolk_buffer_unref(copy);
    tolk_buffer_ref(first);
    seed(out, NULL, 0);
    run_ok(jit, &in, 1);
    check_floats(first, 11);
    check_floats(bound(out), 47);
    tolk_buffer_unref(first);
    tolk_jit_destroy(jit);
}

/* y = 3 a + b; slots 3, 0, 1. */
static tolk_status sum(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *y = f32s(at, 3);
    const tolk_uop *c = call(at, mix(at, 3), y, f32s(at, 0), f32s(at, *(int *)user));
    tolk_status st = hand_over(to, at, &c, 1, &y, 1, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_inputs_that_become_one_or_come_apart_are_refused(void **state) {
    (void)state;
    int second = 1;
    const tolk_uop *a = f32s(g, 0), *c = f32s(g, 1), *y = f32s(g, 3);
    const tolk_uop *two[] = {a, c}, *one[] = {a, a};
    tolk_jit *jit = jit_of(sum, &second, NULL);
    seed(a, NULL, 1);
    seed(c, NULL, 2);
    run_ok(jit, two, 2);
    run_ok(jit, two, 2);
    check_floats(bound(y), 5);
    assert_int_equal(run(jit, one, 2), TOLK_E_ALIAS);
    check_contains(err.msg, "inputs 0 and 1");
    tolk_buffer *x = bound(a), *part = NULL; /* the same memory by another buffer */
    assert_int_equal(tolk_buffer_view(x, 0, TOLK_F32, N, &part, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, c, part, NULL), TOLK_OK);
    tolk_buffer_unref(part);
    assert_int_equal(run(jit, two, 2), TOLK_E_ALIAS);
    seed(c, NULL, 4);
    run_ok(jit, two, 2);
    check_floats(bound(y), 7);
    tolk_jit_destroy(jit);
    /* The other way round: one buffer for two inputs was captured. */
    second = 0;
    jit = jit_of(sum, &second, NULL);
    run_ok(jit, one, 2);
    run_ok(jit, one, 2);
    check_floats(bound(y), 4);
    seed(a, NULL, 5);
    run_ok(jit, one, 2);
    check_floats(bound(y), 20);
    assert_int_equal(run(jit, two, 2), TOLK_E_ALIAS);
    check_contains(err.msg, "were one buffer");
    tolk_jit_destroy(jit);
}

/* v = view of in, t = 2 v, out = 2 t + 1, handed over as a graph of these calls. */
static tolk_status as_graph(void *user, tolk_bindings *to, const tolk_run_args *args,
                            tolk_error *e) {
    (void)user;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *in = f32s(at, 0), *v = f32s(at, 4), *t = f32s(at, 1), *out = f32s(at, 2);
    const tolk_uop *calls[] = {call(at, slice_of(at, in, 0, N), v, in, NULL),
                               call(at, twice(at, 0), t, v, NULL),
                               call(at, twice(at, 1), out, t, NULL)};
    const tolk_uop *graph = tolk_call(at, tolk_graph_node(at, list_of(at, calls, 3)), NULL, 0);
    tolk_status st = hand_over(to, at, &graph, 1, NULL, 0, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_graphs_that_are_handed_over_are_their_calls(void **state) {
    (void)state;
    const tolk_uop *in = f32s(g, 0), *t = f32s(g, 1), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(as_graph, NULL, NULL);
    seed(t, NULL, 0);
    seed(out, NULL, 0);
    for (int i = 0; i < 5; i++) { /* a view of the input is no memory of its own */
        seed(in, NULL, (float)i);
        run_ok(jit, &in, 1);
        check_floats(bound(out), 4 * (float)i + 1);
    }
    /* What is written in the graph is no input. */
    assert_int_equal(run(jit, &t, 1), TOLK_E_ALIAS);
    assert_int_equal(run(jit, &out, 1), TOLK_E_ALIAS);
    check_floats(bound(out), 17);
    check_floats(bound(t), 8);
    tolk_jit_destroy(jit);
}

/* ---- variables ---- */

static tolk_status of_n(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    work *w = user;
    w->calls++;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *y = f32s(at, 2), *c = call(at, first_n(at), y, f32s(at, 0), NULL);
    tolk_run_args mine = *args;
    tolk_var v = {"n", 7};
    if (w->var) {
        v.name = w->var;
        mine.vars = &v;
        mine.n_vars = 1;
    }
    tolk_status st = hand_over(to, at, &c, 1, &y, 1, &mine, e);
    tolk_graph_destroy(at);
    return st;
}

static tolk_status run_var(tolk_jit *jit, const char *name, int64_t value) {
    const tolk_uop *in = f32s(g, 0);
    tolk_var v = {name, value};
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = &in;
    args.n_inputs = 1;
    args.vars = &v;
    args.n_vars = 1;
    err = (tolk_error)TOLK_ERROR_INIT;
    return tolk_jit_call(jit, &args, &err);
}

static void check_first(int n) {
    float x[N];
    assert_int_equal(tolk_buffer_copyout(bound(f32s(g, 2)), 0, x, sizeof x, NULL), TOLK_OK);
    for (int i = 0; i < N; i++)
        if (x[i] != (i < n ? 100.0f + (float)n : 0))
            fail_msg("n is %d: element %d is %g", n, i, (double)x[i]);
}

static void test_SYM_01_each_replay_has_its_own_value(void **state) {
    (void)state;
    work w = {0};
    tolk_jit *jit = jit_of(of_n, &w, NULL);
    seed(f32s(g, 0), NULL, 100);
    for (int n = 1; n <= 10; n++) {
        seed(f32s(g, 2), NULL, 0);
        if (run_var(jit, "n", n))
            fail_msg("%s", err.msg);
        check_first(n);
    }
    assert_int_equal(w.calls, 2);
    assert_int_equal(run_var(jit, "n", 11), TOLK_E_LAUNCH);
    check_contains(err.msg, "\"n\"");
    assert_int_equal(run_var(jit, "m", 3), TOLK_E_ARG);
    check_contains(err.msg, "\"n\"");
    const tolk_uop *in = f32s(g, 0);
    assert_int_equal(run(jit, &in, 1), TOLK_E_ARG);
    check_contains(err.msg, "\"n\" was captured, and has no value now");
    const tolk_var two[] = {{"n", 2}, {"m", 3}};
    tolk_run_args more = TOLK_RUN_INIT;
    more.inputs = &in;
    more.n_inputs = 1;
    more.vars = two;
    more.n_vars = 2;
    assert_int_equal(tolk_jit_call(jit, &more, &err), TOLK_E_ARG);
    check_contains(err.msg, "\"m\" was not captured");
    check_first(10); /* none of them ran */
    tolk_jit_destroy(jit);
}

static void test_a_variable_that_a_replay_cannot_know_is_refused(void **state) {
    (void)state;
    work w = {.var = "n"};
    tolk_jit *jit = jit_of(of_n, &w, NULL);
    seed(f32s(g, 0), NULL, 100);
    assert_int_equal(run_var(jit, "n", 7), TOLK_OK);
    assert_int_equal(run_var(jit, "n", 8), TOLK_E_ARG); /* the function says 7 */
    check_contains(err.msg, "is 8 in the call, but 7");
    assert_int_equal(run_var(jit, "m", 8), TOLK_E_UNBOUND);
    check_contains(err.msg, "\"n\"");
    assert_int_equal(run_var(jit, "n", 7), TOLK_OK); /* captured */
    seed(f32s(g, 2), NULL, 0);
    assert_int_equal(run_var(jit, "n", 2), TOLK_OK);
    check_first(2);
    tolk_jit_destroy(jit);
}

/* Views without elements share nothing, wherever they are. */
static tolk_status with_nothing(void *user, tolk_bindings *to, const tolk_run_args *args,
                                tolk_error *e) {
    tolk_graph *at;
    (void)user;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    const tolk_uop *out = f32s(at, 1), *to0 = buffer_in(at, 3, 0, NULL),
                   *calls[] = {call(at, twice(at, 1), out, f32s(at, 0), NULL),
                               copy_of(at, to0, buffer_in(at, 2, 0, NULL))};
    tolk_status st = hand_over(to, at, calls, 2, &out, 1, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_inputs_without_elements_may_be_anywhere(void **state) {
    (void)state;
    const tolk_uop *in[] = {f32s(g, 0), buffer_in(g, 2, 0, NULL), buffer_in(g, 3, 0, NULL)};
    tolk_jit *jit = jit_of(with_nothing, NULL, NULL);
    tolk_buffer *x = seed(in[0], NULL, 4), *v[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(tolk_buffer_view(x, 16 * i, TOLK_F32, 0, &v[i], NULL), TOLK_OK);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(tolk_bindings_seed(b, in[1], v[i % 4], NULL), TOLK_OK);
        assert_int_equal(tolk_bindings_seed(b, in[2], v[i / 3], NULL), TOLK_OK);
        run_ok(jit, in, 3);
        check_floats(bound(f32s(g, 1)), 9);
    }
    for (size_t i = 0; i < 4; i++)
        tolk_buffer_unref(v[i]);
    tolk_jit_destroy(jit);
}

/* ---- what nothing was stored to ---- */

/* Bind a node to a buffer of n elements that nothing was stored to. */
static void seed_nothing(const tolk_uop *node, size_t n) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_alloc_f32(r.cpu, n, &x, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
}

/* out = 2 in + weights, slots 0, 5, 2; the weights are no input. */
static tolk_status weigh(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    tolk_graph *at;
    (void)user;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    const tolk_uop *out = f32s(at, 2), *c = call(at, mix(at, 2), out, f32s(at, 0), f32s(at, 5));
    tolk_status st = hand_over(to, at, &c, 1, &out, 1, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_what_nothing_was_stored_to_is_not_read(void **state) {
    (void)state;
    for (uint32_t no_graphs = 0; no_graphs < 2; no_graphs++) {
        tolk_jit_opts o = TOLK_JIT_OPTS_INIT;
        o.no_graphs = no_graphs;
        const tolk_uop *in = f32s(g, 0), *weights = f32s(g, 5), *out = f32s(g, 2);
        work w = {0};
        tolk_jit *two = jit_of(chain, &w, &o), *jit = jit_of(weigh, NULL, &o);
        seed(in, NULL, 1);
        seed(weights, NULL, 5);
        run_ok(two, &in, 1);
        run_ok(two, &in, 1);
        run_ok(jit, &in, 1);
        run_ok(jit, &in, 1);
        check_floats(bound(out), 7);
        seed_nothing(in, N);
        assert_int_equal(run(two, &in, 1), TOLK_E_UNBOUND);
        assert_int_equal(run(jit, &in, 1), TOLK_E_UNBOUND);
        check_contains(err.msg, "nothing was stored");
        seed(in, NULL, 2);
        tolk_bindings_remove(b, weights); /* they are memory that is made now */
        assert_int_equal(run(jit, &in, 1), TOLK_E_UNBOUND);
        check_floats(bound(out), 7); /* none of them ran */
        seed(weights, NULL, 6);
        run_ok(jit, &in, 1);
        check_floats(bound(out), 10);
        tolk_jit_destroy(two);
        tolk_jit_destroy(jit);
        /* Nor is it captured, or what a call that was refused would have stored to. */
        tolk_bindings_clear(b);
        jit = jit_of(weigh, NULL, &o);
        seed(weights, NULL, 5);
        seed_nothing(in, N);
        for (int i = 0; i < 3; i++)
            assert_int_equal(run(jit, &in, 1), TOLK_E_UNBOUND);
        float x[N];
        assert_int_equal(tolk_buffer_copyout(bound(out), 0, x, sizeof x, NULL), TOLK_E_UNBOUND);
        tolk_jit_destroy(jit);
        tolk_bindings_clear(b);
    }
}

/* ---- nodes that are bound themselves ---- */

/* y = 2 x + 1 of the input, and of a slice of all of it: slots 0; 1, 2. With a param: of that, too:
 * 3. */
static tolk_status bound_nodes(void *user, tolk_bindings *to, const tolk_run_args *args,
                               tolk_error *e) {
    tolk_graph *at;
    const bool *with_param = user;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    int64_t n = N;
    const tolk_uop *in = f32s(at, 0), *y[] = {f32s(at, 1), f32s(at, 2), f32s(at, 3)},
                   *x[] = {in, slice_of(at, in, 0, N), tolk_param(at, TOLK_F32, &n, 1, 0, NULL)},
                   *calls[3];
    for (int i = 0; i < 3; i++)
        calls[i] = call(at, twice(at, 1), y[i], x[i], NULL);
    tolk_status st = hand_over(to, at, calls, *with_param ? 3 : 2, y, 3, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_a_node_that_is_bound_stands_for_its_binding(void **state) {
    (void)state;
    int64_t n = N;
    bool with_param = false;
    const tolk_uop *in = f32s(g, 0), *other = f32s(g, 9),
                   *p = tolk_param(g, TOLK_F32, &n, 1, 0, NULL);
    for (uint32_t no_graphs = 0; no_graphs < 2; no_graphs++) {
        tolk_jit_opts o = TOLK_JIT_OPTS_INIT;
        o.no_graphs = no_graphs;
        tolk_jit *jit = jit_of(bound_nodes, &with_param, &o);
        seed(slice_of(g, in, 0, N), NULL, 100);
        seed(p, NULL, 1000);
        for (int i = 0; i < 4; i++) { /* as it is, captured, replayed twice */
            const tolk_uop *x = i < 3 ? in : other;
            seed(x, NULL, (float)i);
            run_ok(jit, &x, 1);
            check_floats(bound(f32s(g, 1)), 2 * (float)i + 1);
            check_floats(bound(f32s(g, 2)), 201);
        }
        seed(slice_of(g, in, 0, N), NULL, 3);
        run_ok(jit, &other, 1);
        check_floats(bound(f32s(g, 2)), 7);
        tolk_jit_destroy(jit);
        tolk_bindings_clear(b);
    }
    /* Where the calls name the param itself, a replay could not tell it from its input. */
    with_param = true;
    tolk_jit *jit = jit_of(bound_nodes, &with_param, NULL);
    seed(in, NULL, 1);
    seed(p, NULL, 1000);
    run_ok(jit, &in, 1);
    check_floats(bound(f32s(g, 3)), 2001);
    assert_int_equal(run(jit, &in, 1), TOLK_E_ARG);
    check_contains(err.msg, "param {slot=0} is bound itself");
    tolk_bindings_remove(b, p);
    run_ok(jit, &in, 1);
    check_floats(bound(f32s(g, 3)), 3);
    tolk_jit_destroy(jit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_inputs_that_differ_are_refused),
        TEST(test_GRAPH_05_inputs_of_another_size_are_refused),
        TEST(test_GRAPH_01_a_result_that_is_fed_back_is_refused),
        TEST(test_inputs_that_become_one_or_come_apart_are_refused),
        TEST(test_graphs_that_are_handed_over_are_their_calls),
        TEST(test_SYM_01_each_replay_has_its_own_value),
        TEST(test_a_variable_that_a_replay_cannot_know_is_refused),
        TEST(test_inputs_without_elements_may_be_anywhere),
        TEST(test_what_nothing_was_stored_to_is_not_read),
        TEST(test_a_node_that_is_bound_stands_for_its_binding),
    };
    return cmocka_run_group_tests_name("jit_inputs", tests, NULL, NULL);
}
