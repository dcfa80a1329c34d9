/* SPDX-License-Identifier: MIT
 *
 * Hooks that use the bindings while a run or a jit that uses them looks for memory.
 */
#include "realize/runs.h"

enum { BIG = 1 << 18, SMALL = 48, OTHERS = 35 /* more than the execs that bindings keep */ };

/* An allocator that has nothing large while it is armed. */
static _Atomic bool armed;
static void *get(void *user, size_t n) {
    (void)user;
    return armed && n >= BIG * 4 ? NULL : malloc(n);
}
static void *grow(void *user, void *p, size_t old, size_t n) {
    (void)user;
    (void)old;
    return armed && n >= BIG * 4 ? NULL : realloc(p, n);
}
static void give(void *user, void *p, size_t n) {
    (void)user;
    (void)n;
    free(p);
}
static const tolk_allocator heap = {NULL, get, grow, give};

static tolk_graph *g;
static tolk_linear *big, *other[OTHERS];
static const tolk_uop *x_node, *y_node;
static int calls;

static const tolk_uop *f32_node(int64_t n, int64_t slot) {
    const tolk_uop *size = tolk_const_int(g, TOLK_INDEX, n);
    const tolk_attr a = {.key = "slot", .i = slot};
    return tolk_uop_new(g, tolk_op_find("buffer"), TOLK_F32, &size, 1, &a, 1);
}

/* Slot `to` = factor * slot `from`, n elements; as params of these slots: inputs. */
static tolk_linear *scale(int n, const char *factor, const char *kind, int to, int from) {
    char text[4096];
    size_t at = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    at += (size_t)put_scale(text + at, sizeof text - at, 0, n, "scale", factor);
    snprintf(text + at, sizeof text - at,
             "%%30 = %s f32 (%%0) {slot=%d}\n%%31 = %s f32 (%%0) {slot=%d}\n"
             "%%40 = call void (%%11, %%30, %%31)\n%%41 = linear void (%%40)\n",
             kind, to, kind, from);
    return linear_of(&r, text);
}

static void fill(const tolk_uop *node, size_t n, float v) {
    tolk_buffer *f = floats(r.cpu, n, v);
    assert_int_equal(tolk_bindings_seed(b, node, f, NULL), TOLK_OK);
    tolk_buffer_unref(f);
}

static void open_all(tolk_hook_fn fn, const char *kind) {
    uint64_t id;
    calls = 0;
    open_with(1, 0, &heap);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    big = scale(BIG, "3", kind, 0, 1);
    x_node = f32_node(BIG, 1);
    y_node = f32_node(BIG, 0);
    assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_RECLAIM, fn, NULL, &id, NULL), TOLK_OK);
}

static void close_all(void) {
    tolk_linear_unref(big);
    tolk_graph_destroy(g);
    teardown(NULL);
}

static void check_y(float v) {
    tolk_buffer *y = NULL;
    assert_int_equal(tolk_bindings_find(b, y_node, &y, NULL, NULL), TOLK_OK);
    assert_non_null(y);
    check_floats(y, v);
}

static tolk_status run_others(void *user, const tolk_hook_event *event, tolk_error *e) {
    (void)user;
    (void)event;
    armed = false;
    calls++;
    for (int i = 0; i < OTHERS; i++) {
        tolk_status st = tolk_run_linear(b, other[i], NULL, NULL, e);
        if (st != TOLK_OK)
            return st;
    }
    return TOLK_OK;
}

static void test_a_run_outlives_the_runs_of_a_hook(void **state) {
    (void)state;
    open_all(run_others, "buffer");
    fill(x_node, BIG, 2);
    fill(f32_node(SMALL, 101), SMALL, 1);
    for (int i = 0; i < OTHERS; i++) {
        char factor[8];
        snprintf(factor, sizeof factor, "%d", i + 1);
        other[i] = scale(SMALL, factor, "buffer", 100, 101);
    }
    for (int i = 0; i < 3; i++) {
        tolk_bindings_remove(b, y_node);
        tolk_device_trim(r.cpu);
        armed = true;
        assert_int_equal(tolk_run_linear(b, big, NULL, NULL, &err), TOLK_OK);
        armed = false;
        check_y(6);
    }
    assert_int_equal(calls, 3);
    for (int i = 0; i < OTHERS; i++)
        tolk_linear_unref(other[i]);
    close_all();
}

static tolk_status forget_all(void *user, const tolk_hook_event *event, tolk_error *e) {
    (void)user;
    (void)event;
    (void)e;
    armed = false;
    calls++;
    tolk_bindings_clear(b);
    return TOLK_OK;
}

static tolk_status hand_over(void *user, tolk_bindings *to, const tolk_run_args *args,
                             tolk_error *e) {
    (void)user;
    return tolk_realize_linear(to, big, NULL, 0, NULL, args, e);
}

static void test_a_jit_outlives_bindings_that_a_hook_clears(void **state) {
    (void)state;
    open_all(forget_all, "param");
    tolk_jit *jit = NULL;
    const tolk_uop *inputs[] = {y_node, x_node};
    tolk_run_args a = TOLK_RUN_INIT;
    a.inputs = inputs;
    a.n_inputs = 2;
    assert_int_equal(tolk_jit_create(b, hand_over, NULL, NULL, &jit, NULL), TOLK_OK);
    for (int i = 0; i < 6; i++) {
        tolk_buffer *y = NULL; /* without memory until it is asked for */
        fill(x_node, BIG, (float)i);
        assert_int_equal(tolk_alloc_f32(r.cpu, BIG, &y, NULL), TOLK_OK);
        assert_int_equal(tolk_bindings_seed(b, y_node, y, NULL), TOLK_OK);
        tolk_buffer_unref(y);
        tolk_device_trim(r.cpu);
        armed = i % 2;
        tolk_status st = tolk_jit_call(jit, &a, &err);
        armed = false;
        if (i % 2 == 0) {
            assert_int_equal(st, TOLK_OK);
            check_y(3 * (float)i);
        } else { /* what the hook took away is missing, or was found before that */
            assert_true(st == TOLK_OK || st == TOLK_E_UNBOUND);
        }
    }
    assert_int_equal(calls, 3);
    tolk_jit_destroy(jit);
    close_all();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_outlives_the_runs_of_a_hook),
        cmocka_unit_test(test_a_jit_outlives_bindings_that_a_hook_clears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
