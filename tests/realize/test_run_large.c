/* SPDX-License-Identifier: MIT
 *
 * Linears that are large, or deep, or small but large when all in them is counted: they run in a
 * time by their distinct nodes and calls, or are refused before anything runs.
 */
#include "jits.h"

#include <stdint.h>

static const tolk_uop *graph_call(tolk_graph *at, const tolk_uop *list) {
    return tolk_call(at, tolk_graph_node(at, list), NULL, 0);
}

static tolk_linear *linear_of_list(const tolk_uop *list) {
    tolk_linear *l = NULL;
    if (tolk_linear_create(r.ctx, list, &l, &err))
        fail_msg("%s", err.msg);
    return l;
}

static void check(const tolk_uop *node, float v) {
    float data[N];
    assert_int_equal(tolk_buffer_copyout(bound(node), 0, data, sizeof data, NULL), TOLK_OK);
    for (int i = 0; i < N; i++)
        assert_true(data[i] == v);
}

/* A graph that is called twice by one that is called twice ...: x = x + x is run 2^levels times. */
static tolk_linear *doubling(int levels) {
    const tolk_uop *x = f32s(g, 0);
    const tolk_uop *mixed = call(g, mix(g, 1), x, x, f32s(g, 1));
    const tolk_uop *list = list_of(g, &mixed, 1);
    for (int i = 0; i < levels; i++) {
        const tolk_uop *c = graph_call(g, list);
        list = list_of(g, (const tolk_uop *[]){c, c}, 2);
    }
    return linear_of_list(list);
}

static tolk_status hand_over_linear(void *user, tolk_bindings *to, const tolk_run_args *args,
                                    tolk_error *e) {
    return tolk_realize_linear(to, user, NULL, 0, NULL, args, e);
}

static void assert_too_many(tolk_status st) {
    assert_int_equal(st, TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "more than 1048576 calls"));
    err = (tolk_error)TOLK_ERROR_INIT;
}

static void test_large_graphs_that_are_called_twice_each(void **state) {
    (void)state;
    seed(f32s(g, 0), NULL, 0);
    seed(f32s(g, 1), NULL, 1);
    tolk_linear *l = doubling(10), *planned = NULL;
    assert_int_equal(tolk_run_linear(b, l, NULL, NULL, &err), TOLK_OK);
    check(f32s(g, 0), 1024);
    tolk_linear_unref(l);
    l = doubling(40);
    tolk_exec *exec = NULL;
    tolk_jit *jit = jit_of(hand_over_linear, l, NULL);
    uint64_t before = launches();
    assert_too_many(tolk_run_linear(b, l, NULL, NULL, &err));
    assert_too_many(tolk_exec_create(b, l, NULL, &exec, &err));
    assert_null(exec);
    assert_too_many(tolk_memory_plan(l, NULL, 0, &planned, &err));
    assert_null(planned);
    assert_too_many(tolk_realize_linear(b, l, NULL, 0, NULL, NULL, &err));
    for (int i = 0; i < 3; i++)
        assert_too_many(tolk_jit_call(jit, NULL, &err));
    assert_int_equal(launches(), before);
    check(f32s(g, 0), 1024);
    tolk_jit_destroy(jit);
    tolk_linear_unref(l);
}

/* Captured at first, where running it would have been refused. */
static tolk_status second_is_large(void *user, tolk_bindings *to, const tolk_run_args *args,
                                   tolk_error *e) {
    tolk_linear **two = user;
    tolk_status st = tolk_realize_linear(to, two[0], NULL, 0, NULL, args, e);
    two[0] = two[1];
    return st;
}

static void test_large_graph_in_a_recording(void **state) {
    (void)state;
    seed(f32s(g, 0), NULL, 0);
    seed(f32s(g, 1), NULL, 1);
    tolk_linear *two[2] = {doubling(1), doubling(40)}, *small = two[0];
    tolk_jit *jit = jit_of(second_is_large, two, NULL);
    assert_int_equal(tolk_jit_call(jit, NULL, &err), TOLK_OK);
    assert_too_many(tolk_jit_call(jit, NULL, &err));
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    check(f32s(g, 0), 2);
    tolk_jit_destroy(jit);
    tolk_linear_unref(small);
    tolk_linear_unref(two[1]);
}

static void test_large_nest_of_graphs(void **state) {
    (void)state;
    enum { DEEP = 20000 };
    const tolk_uop *in = f32s(g, 0), *t = f32s(g, 1), *out = f32s(g, 2);
    seed(in, NULL, 3);
    seed(out, NULL, 0);
    const tolk_uop *list = list_of(
        g,
        (const tolk_uop *[]){call(g, twice(g, 1), t, in, NULL), call(g, twice(g, 1), out, t, NULL)},
        2);
    for (int i = 0; i < DEEP; i++) {
        const tolk_uop *c = graph_call(g, list);
        list = list_of(g, &c, 1);
    }
    tolk_linear *l = linear_of_list(list);
    if (tolk_realize_linear(b, l, NULL, 0, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    check(out, 15);
    if (tolk_run_linear(b, l, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    check(out, 15);
    tolk_jit *jit = jit_of(hand_over_linear, l, NULL);
    for (int i = 0; i < 3; i++) {
        seed(in, NULL, (float)i);
        if (tolk_jit_call(jit, NULL, &err))
            fail_msg("%s", err.msg);
        check(out, (float)(4 * i + 3));
    }
    tolk_jit_destroy(jit);
    tolk_linear_unref(l);
}

/* Position 0 of (position 0 of ..., the same): 2^40 ways to one buffer. */
static void test_large_stacks_of_one_buffer(void **state) {
    (void)state;
    const tolk_uop *to = f32s(g, 0), *base = f32s(g, 1), *u = base;
    tolk_buffer *x = seed(base, NULL, 7), *one = NULL;
    tolk_multi *many = NULL;
    seed(to, NULL, 0);
    for (int i = 0; i < 40; i++) {
        u = tolk_mstack(g, (const tolk_uop *[]){u, u}, 2);
        u = tolk_mselect(g, u, i % 2);
    }
    assert_int_equal(tolk_resolve(b, NULL, u, &one, &many, &err), TOLK_OK);
    assert_ptr_equal(one, x);
    assert_null(many);
    tolk_buffer_unref(one);
    const tolk_uop *c = copy_of(g, to, u);
    tolk_linear *l = linear_of_list(list_of(g, &c, 1));
    if (tolk_run_linear(b, l, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    check(to, 7);
    tolk_linear_unref(l);
}

enum { LONG = 6000 };

/* Call i copies the part that is behind i slices of slices, bound to another buffer in between. */
static void test_large_chain_of_slices(void **state) {
    (void)state;
    const tolk_uop **calls = malloc(LONG * sizeof *calls), *base = buffer_in(g, 0, LONG + N, NULL);
    const tolk_uop *u = base;
    float *data = malloc((LONG + N) * sizeof *data), *got = malloc(N * sizeof *got);
    for (int i = 0; i < LONG; i++) {
        u = slice_of(g, u, 1, LONG + N - 1 - i);
        calls[i] = copy_of(g, f32s(g, 1 + i), slice_of(g, u, 0, N));
    }
    tolk_linear *l = linear_of_list(list_of(g, calls, LONG));
    tolk_exec *exec = NULL;
    for (int round = 0; round < 2; round++) {
        tolk_buffer *x = NULL;
        assert_int_equal(tolk_alloc_f32(r.cpu, LONG + N, &x, NULL), TOLK_OK);
        for (int i = 0; i < LONG + N; i++)
            data[i] = (float)(i + 100000 * round);
        assert_int_equal(tolk_buffer_copyin(x, 0, data, (LONG + N) * sizeof *data, NULL), TOLK_OK);
        assert_int_equal(tolk_bindings_seed(b, base, x, NULL), TOLK_OK);
        tolk_buffer_unref(x);
        if (!round && tolk_exec_create(b, l, NULL, &exec, &err))
            fail_msg("%s", err.msg);
        if (tolk_exec_run(exec, NULL, &err))
            fail_msg("%s", err.msg);
        for (int i = 0; i < LONG; i++) {
            assert_int_equal(
                tolk_buffer_copyout(bound(f32s(g, 1 + i)), 0, got, N * sizeof *got, NULL), TOLK_OK);
            for (int k = 0; k < N; k++)
                assert_true(got[k] == (float)(i + 1 + k + 100000 * round));
        }
    }
    tolk_exec_destroy(exec);
    tolk_linear_unref(l);
    free(got);
    free(data);
    free(calls);
}

/* A view of in for each call, and a call that adds it: out = in + in + ... */
static tolk_status add_views(void *user, tolk_bindings *to, const tolk_run_args *args,
                             tolk_error *e) {
    tolk_graph *at;
    (void)user;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    const tolk_uop **calls = malloc(2 * LONG * sizeof *calls);
    const tolk_uop *in = f32s(at, 0), *out = f32s(at, 1), *body = mix(at, 1);
    for (int i = 0; i < LONG; i++) {
        const tolk_uop *view = f32s(at, 2 + i);
        calls[2 * i] = call(at, slice_of(at, in, 0, N), view, in, NULL);
        calls[2 * i + 1] = call(at, body, out, i ? out : in, view);
    }
    tolk_status st = hand_over(to, at, calls, 2 * LONG, &out, 1, args, e);
    free(calls);
    tolk_graph_destroy(at);
    return st;
}

static void test_large_recording_of_views(void **state) {
    (void)state;
    seed(f32s(g, 1), NULL, 0);
    tolk_jit *jit = jit_of(add_views, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        seed(f32s(g, 0), NULL, (float)(i + 1));
        if (tolk_jit_call(jit, NULL, &err))
            fail_msg("%s", err.msg);
        check(f32s(g, 1), (float)((i + 1) * (LONG + 1)));
    }
    tolk_jit_destroy(jit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_large_graphs_that_are_called_twice_each, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_large_graph_in_a_recording, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_nest_of_graphs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_stacks_of_one_buffer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_chain_of_slices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_recording_of_views, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
