/* SPDX-License-Identifier: MIT
 *
 * The memory of replays: arenas for what is between, what is kept and what is not, warm replays
 * take none, and jits for which there is none.
 */
#include "realize/jits.h"

static void test_what_is_between_lies_in_an_arena_that_goes_with_the_jit(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 5);
    run_ok(jit, &in, 1); /* nobody bound out: it is made, since it is held */
    check_floats(bound(out), 23);
    assert_int_equal(arenas(), 0);
    run_ok(jit, &in, 1);
    assert_int_equal(arenas(), 1);
    assert_null(bound(f32s(g, 1)));
    tolk_jit_reset(jit);
    assert_int_equal(arenas(), 0);
    run_ok(jit, &in, 1);
    run_ok(jit, &in, 1);
    assert_int_equal(w.calls, 4);
    tolk_jit_destroy(jit);
    assert_int_equal(arenas(), 0);
    check_floats(bound(out), 23);
}

static void test_MEM_03_inputs_that_are_gone_are_not_kept(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    for (int i = 0; i < 4; i++)
        run_ok(jit, &in, 1);
    tolk_buffer *x = tolk_buffer_ref(bound(in));
    tolk_bindings_remove(b, in);
    tolk_buffer_info info;
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    uint64_t used = tolk_device_used_memory(r.cpu);
    assert_int_equal(tolk_buffer_get_info(x, &info), TOLK_OK);
    tolk_buffer_unref(x); /* the last one */
    assert_true(tolk_device_used_memory(r.cpu) + info.bytes <= used);
    seed(in, NULL, 2);
    run_ok(jit, &in, 1);
    check_floats(bound(out), 11);
    tolk_jit_destroy(jit);
}

/* ALIAS-05: t1 = 2x + 1, v = t1[1:], t2 = 2 t1 + 1, t3 = 2 t2 + 1, and v is read last. */
static tolk_status with_view(void *user, tolk_bindings *to, const tolk_run_args *args,
                             tolk_error *e) {
    const bool *hold = user;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *x = f32s(at, 0), *t1 = f32s(at, 1), *t2 = f32s(at, 2), *t3 = f32s(at, 3);
    const tolk_uop *v = buffer_in(at, 4, N - 1, NULL), *w = buffer_in(at, 5, N - 1, NULL);
    const tolk_uop *view = call(at, slice_of(at, t1, 1, N - 1), v, t1, NULL);
    const tolk_uop *held[] = {t2, t3, w, v};
    const tolk_uop *calls[] = {call(at, twice(at, 1), t1, x, NULL), view,
                               call(at, twice(at, 1), t2, t1, NULL),
                               call(at, twice(at, 1), t3, t2, NULL), copy_of(at, w, v)};
    tolk_status st = hand_over(to, at, calls, 5, held, *hold ? 4 : 3, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void check_view(bool hold, const tolk_jit_opts *opts) {
    const tolk_uop *x = f32s(g, 0), *v = buffer_in(g, 4, N - 1, NULL);
    tolk_jit *jit = jit_of(with_view, &hold, opts);
    for (int i = 0; i < 5; i++) {
        seed(x, NULL, (float)i);
        run_ok(jit, &x, 1);
        check_floats(bound(buffer_in(g, 5, N - 1, NULL)), 2 * (float)i + 1);
        check_floats(bound(f32s(g, 2)), 4 * (float)i + 3);
        check_floats(bound(f32s(g, 3)), 8 * (float)i + 7);
        if (hold)
            check_floats(bound(v), 2 * (float)i + 1);
    }
    tolk_jit_destroy(jit);
    tolk_bindings_clear(b);
}

static void test_ALIAS_05_a_view_that_is_looked_at_keeps_its_memory(void **state) {
    (void)state;
    tolk_jit_opts calls = TOLK_JIT_OPTS_INIT;
    calls.no_graphs = 1;
    for (int i = 0; i < 4; i++)
        check_view(i & 1, i & 2 ? &calls : NULL);
    setenv("TOLK_MEMORY_PLAN", "0", 1);
    check_view(true, NULL);
    unsetenv("TOLK_MEMORY_PLAN");
}

/* What is in use when nothing runs and nothing is kept for later. */
static uint64_t used_now(void) {
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    tolk_device_trim(r.cpu);
    return tolk_device_used_memory(r.cpu);
}

static const tolk_uop *seed_view_buffers(void) {
    const tolk_uop *w = buffer_in(g, 5, N - 1, NULL);
    tolk_buffer *x = floats(r.cpu, N - 1, 0);
    assert_int_equal(tolk_bindings_seed(b, w, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    seed(f32s(g, 0), NULL, 1);
    seed(f32s(g, 2), NULL, 0);
    seed(f32s(g, 3), NULL, 0);
    return w;
}

/* A view of planned memory that nobody looks at ends with it: after a run, and with the jit. */
static void test_a_view_of_an_arena_keeps_it_no_longer_than_the_run(void **state) {
    (void)state;
    bool hold = false;
    const tolk_uop *x = f32s(g, 0), *v = buffer_in(g, 4, N - 1, NULL), *w = seed_view_buffers();
    uint64_t used = used_now();
    for (int i = 0; i < 3; i++) { /* a view that stayed would be one of those that are held */
        assert_int_equal(with_view(&hold, b, NULL, &err), TOLK_OK);
        check_floats(bound(w), 3);
        assert_null(bound(v));
        assert_null(bound(f32s(g, 1)));
        assert_int_equal(arenas(), 0);
        assert_int_equal(used_now(), used);
    }
    for (int i = 0; i < 3; i++) {
        tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
        opts.no_graphs = i == 1;
        tolk_jit *jit = jit_of(with_view, &hold, &opts);
        for (int k = 0; k < 4; k++)
            run_ok(jit, &x, 1);
        check_floats(bound(w), 3);
        assert_null(bound(f32s(g, 1)));
        assert_int_equal(arenas(), 1);
        assert_true(used_now() > used);
        tolk_buffer *other = NULL;
        if (i == 2) { /* bound anew by somebody: it is no view of the jit's memory any more */
            other = floats(r.cpu, N - 1, 7);
            assert_int_equal(tolk_bindings_seed(b, v, other, NULL), TOLK_OK);
            tolk_buffer_unref(other);
        }
        tolk_jit_destroy(jit);
        assert_ptr_equal(bound(v), other);
        if (other)
            check_floats(other, 7);
        tolk_bindings_remove(b, v);
        assert_int_equal(arenas(), 0);
        assert_int_equal(used_now(), used);
    }
}

/* v = t[4:12] of an arena or, where user says so, of what is bound; then both are read. */
static tolk_status on_two_devices(void *user, tolk_bindings *to, const tolk_run_args *args,
                                  tolk_error *e) {
    const bool *again = user;
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *x = buffer_in(at, 0, N, "CPU,CPU:1"), *t = buffer_in(at, 1, N, "CPU,CPU:1");
    const tolk_uop *v = buffer_in(at, 2, 8, "CPU,CPU:1"), *y = buffer_in(at, 3, 8, "CPU,CPU:1");
    const tolk_uop *one = tolk_mselect(at, t, 1), *u = buffer_in(at, 4, 8, "CPU:1");
    const tolk_uop *z = buffer_in(at, 5, 8, "CPU:1");
    const tolk_uop *calls[] = {call(at, twice(at, 1), t, x, NULL),
                               call(at, slice_of(at, t, 4, 8), v, t, NULL),
                               call(at, slice_of(at, one, 4, 8), u, one, NULL),
                               copy_of(at, y, v),
                               copy_of(at, z, u),
                               call(at, slice_of(at, x, 4, 8), v, x, NULL)};
    const tolk_uop *held[] = {x, y, z};
    tolk_status st = hand_over(to, at, calls, *again ? 6 : 5, held, 3, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_views_on_several_devices_go_with_their_arena(void **state) {
    (void)state;
    tolk_device *devices[2] = {r.cpu, device_of(&r, "CPU:1")};
    const tolk_uop *x = buffer_in(g, 0, N, "CPU,CPU:1"), *v = buffer_in(g, 2, 8, "CPU,CPU:1");
    tolk_buffer *parts[2] = {floats(devices[0], N, 1), floats(devices[1], N, 2)};
    tolk_multi *m = NULL, *many = NULL;
    assert_int_equal(tolk_multi_of(parts, 2, &m, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed_multi(b, x, m, NULL), TOLK_OK);
    tolk_multi_unref(m);
    for (int i = 0; i < 2; i++) {
        bool again = i == 1;
        tolk_buffer *one = NULL;
        if (on_two_devices(&again, b, NULL, &err))
            fail_msg("%s", err.msg);
        check_floats(bound(buffer_in(g, 5, 8, "CPU:1")), 5);
        assert_null(bound(buffer_in(g, 4, 8, "CPU:1")));
        assert_int_equal(tolk_bindings_find(b, v, &one, &many, NULL), TOLK_OK);
        /* The latest view is of what was bound before: it stays. */
        assert_int_equal(many != NULL, again);
        assert_int_equal(arenas(), 0);
    }
    for (int i = 0; i < 2; i++)
        tolk_buffer_unref(parts[i]);
}

static void test_buffers_that_stand_for_something_keep_it(void **state) {
    (void)state;
    work w = {0};
    const tolk_uop *in = f32s(g, 0), *t = f32s(g, 1), *out = f32s(g, 2);
    seed(in, NULL, 1);
    tolk_buffer *x = seed(t, NULL, 0); /* bound, so somebody may look at it */
    tolk_jit *jit = jit_of(chain, &w, NULL);
    for (int i = 0; i < 3; i++) {
        seed(in, NULL, (float)i);
        run_ok(jit, &in, 1);
        assert_ptr_equal(bound(t), x);
        check_floats(x, 2 * (float)i + 1);
        check_floats(bound(out), 4 * (float)i + 3);
    }
    assert_int_equal(arenas(), 0);
    tolk_jit_destroy(jit);
}

/* t[0..8) = 2x + 1 through a view that is bound itself, y = 2 (that view) + 1. */
static tolk_status through_a_view(void *user, tolk_bindings *to, const tolk_run_args *args,
                                  tolk_error *e) {
    tolk_graph *at;
    tolk_status st = tolk_graph_create(r.ctx, &at);
    if (st != TOLK_OK)
        return st;
    const tolk_uop *view = slice_of(at, buffer_in(at, 1, 2 * N, NULL), 0, N);
    const tolk_uop *calls[] = {call(at, twice(at, 1), view, f32s(at, 0), NULL),
                               call(at, twice(at, 1), f32s(at, 2), view, NULL)};
    (void)user;
    st = hand_over(to, at, calls, 2, NULL, 0, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_a_view_that_was_bound_is_what_is_written(void **state) {
    (void)state;
    tolk_buffer *out = seed(f32s(g, 2), NULL, 0);
    tolk_buffer *view = seed(slice_of(g, buffer_in(g, 1, 2 * N, NULL), 0, N), NULL, -1);
    tolk_jit *jit = NULL;
    assert_int_equal(tolk_jit_create(b, through_a_view, NULL, NULL, &jit, &err), TOLK_OK);
    for (int i = 0; i < 4; i++) {
        (void)seed(f32s(g, 0), NULL, (float)i);
        if (tolk_jit_call(jit, NULL, &err))
            fail_msg("%s", err.msg);
        check_floats(view, 2 * (float)i + 1);
        check_floats(out, 4 * (float)i + 3);
    }
    tolk_jit_destroy(jit);
}

static void test_a_warm_replay_takes_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    work w = {0};
    open_with(1, &heap.al);
    const tolk_uop *in = f32s(g, 0), *out = f32s(g, 2);
    tolk_jit *jit = jit_of(chain, &w, NULL);
    seed(in, NULL, 1);
    for (int i = 0; i < 5; i++)
        run_ok(jit, &in, 1);
    assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
    size_t before = heap.calls;
    for (int i = 0; i < 50; i++)
        run_ok(jit, &in, 1);
    assert_int_equal(heap.calls, before);
    check_floats(bound(out), 7);
    tolk_jit_destroy(jit);
    (void)teardown(NULL);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static tolk_status jit_little(const tolk_allocator *al, void *user) {
    work w = {0};
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    o.synchronous = 1;
    memset(&r, 0, sizeof r);
    tolk_status st = tolk_ctx_create(&o, &r.ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_bindings *to = NULL;
    tolk_graph *at = NULL;
    tolk_jit *jit = NULL;
    tolk_buffer *x = NULL;
    const tolk_uop *in = NULL;
    st = tolk_device_open(r.ctx, "CPU", &r.cpu, NULL);
    if (st == TOLK_OK)
        st = tolk_bindings_create(r.cpu, &to, NULL);
    if (st == TOLK_OK)
        st = tolk_graph_create(r.ctx, &at);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(r.cpu, N, &x, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copyin(x, 0, (float[N]){0}, N * sizeof(float), NULL);
    if (st == TOLK_OK && !(in = f32s(at, 0)))
        st = TOLK_E_NOMEM;
    if (st == TOLK_OK)
        st = tolk_bindings_seed(to, in, x, NULL);
    if (st == TOLK_OK)
        st = tolk_jit_create(to, chain, &w, NULL, &jit, NULL);
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = &in;
    args.n_inputs = 1;
    for (int i = 0; i < 3 && st == TOLK_OK; i++)
        st = tolk_jit_call(jit, &args, NULL);
    tolk_jit_destroy(jit);
    tolk_buffer_unref(x);
    tolk_graph_destroy(at);
    tolk_bindings_destroy(to);
    tolk_ctx_destroy(r.ctx);
    return st;
}

static void test_without_memory_a_jit_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(jit_little, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_between_lies_in_an_arena_that_goes_with_the_jit),
        TEST(test_MEM_03_inputs_that_are_gone_are_not_kept),
        TEST(test_ALIAS_05_a_view_that_is_looked_at_keeps_its_memory),
        TEST(test_a_view_of_an_arena_keeps_it_no_longer_than_the_run),
        TEST(test_views_on_several_devices_go_with_their_arena),
        TEST(test_buffers_that_stand_for_something_keep_it),
        TEST(test_a_view_that_was_bound_is_what_is_written),
        cmocka_unit_test(test_a_warm_replay_takes_no_memory),
        cmocka_unit_test(test_without_memory_a_jit_fails_cleanly),
    };
    return cmocka_run_group_tests_name("jit_memory", tests, NULL, NULL);
}
