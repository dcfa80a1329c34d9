/* SPDX-License-Identifier: MIT
 *
 * Schedules and plans as linears: from texts, with errors, and that what is planned runs from a
 * text of its own.
 */
#include "realize/linears.h"

RT_FIXTURE

/* Two kernels, the second one of what the first one made, and a third that overwrites it. */
static const char *states_text(void) {
    static char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, 16, "scale", "0x1p+1");
    snprintf(text + n, sizeof text - n,
             "%%20 = buffer f32 (%%0) {slot=0}\n"
             "%%21 = buffer f32 (%%0) {slot=1}\n"
             "%%22 = buffer f32 (%%0) {slot=2}\n"
             "%%30 = call void (%%11, %%21, %%20) {name=\"first\"}\n"
             "%%31 = after f32 (%%21, %%30)\n"
             "%%32 = call void (%%11, %%22, %%31) {name=\"second\"}\n"
             "%%33 = after f32 (%%22, %%32)\n"
             "%%34 = call void (%%11, %%31, %%20) {name=\"third\"}\n"
             "%%35 = after f32 (%%31, %%34)\n"
             "%%36 = after f32 (%%20, %%35)\n"
             "%%40 = sink void (%%36, %%33)\n");
    return text;
}

static const char *name_at(const tolk_linear *l, size_t i) {
    tolk_attr a;
    const tolk_uop *call = tolk_uop_src(tolk_linear_root(l), i);
    return call && tolk_uop_attr(call, "name", &a) ? a.s : "";
}

static void test_a_graph_of_states_becomes_a_linear(void **state) {
    (void)state;
    tolk_graph *g;
    const tolk_uop *sink = node_of(&r, states_text(), &g);
    uint32_t count = tolk_graph_count(g);
    tolk_linear *l = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_create_schedule(r.ctx, sink, &l, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(tolk_graph_count(g), count); /* nothing was made in it */
    tolk_graph_destroy(g);
    assert_int_equal(tolk_uop_n_src(tolk_linear_root(l)), 3);
    assert_string_equal(name_at(l, 0), "first");
    assert_string_equal(name_at(l, 1), "second"); /* reads what third overwrites */
    assert_string_equal(name_at(l, 2), "third");
    tolk_linear_unref(l);
}

static void test_a_schedule_of_something_else_is_refused(void **state) {
    (void)state;
    tolk_graph *g;
    const tolk_uop *sum = node_of(&r,
                                  "tolk.uop 1\n"
                                  "%0 = const index 16\n"
                                  "%1 = buffer f32 (%0) {slot=0}\n"
                                  "%2 = add f32 (%1, %1)\n"
                                  "%3 = sink void (%2)\n",
                                  &g);
    tolk_linear *l = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_create_schedule(r.ctx, sum, &l, &err), TOLK_E_VERIFY);
    check_contains(err.msg, "got %2 add");
    assert_int_equal(err.line, 4);
    assert_int_equal(tolk_create_schedule(NULL, sum, &l, &err), TOLK_E_ARG);
    assert_int_equal(tolk_create_schedule(r.ctx, NULL, &l, &err), TOLK_E_ARG);
    assert_int_equal(tolk_create_schedule(r.ctx, sum, NULL, &err), TOLK_E_ARG);
    tolk_graph_destroy(g);
    assert_null(l);
}

static tolk_linear *chain(void) {
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    n += (size_t)put_scale(text + n, sizeof text - n, 0, 16, "scale", "0x1p+1");
    snprintf(text + n, sizeof text - n,
             "%%20 = buffer f32 (%%0) {slot=0}\n"
             "%%21 = buffer f32 (%%0) {slot=1, device=\"CPU\"}\n"
             "%%22 = buffer f32 (%%0) {slot=2, device=\"CPU\"}\n"
             "%%23 = buffer f32 (%%0) {slot=3}\n"
             "%%30 = call void (%%11, %%21, %%20)\n"
             "%%31 = call void (%%11, %%22, %%21)\n"
             "%%32 = call void (%%11, %%23, %%22)\n"
             "%%40 = linear void (%%30, %%31, %%32)\n");
    return linear_of(&r, text);
}

static const tolk_uop *arg_at(const tolk_linear *l, size_t call, size_t i) {
    return tolk_uop_src(tolk_uop_src(tolk_linear_root(l), call), i + 1);
}

static void test_a_plan_is_another_linear(void **state) {
    (void)state;
    tolk_linear *l = chain(), *planned = NULL, *again = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *held[] = {arg_at(l, 0, 1), arg_at(l, 2, 0)};
    if (tolk_memory_plan(l, held, 2, &planned, &err))
        fail_msg("%s", err.msg);
    assert_ptr_not_equal(planned, l);
    tolk_op slice = tolk_op_find("slice");
    assert_int_equal(tolk_uop_op(arg_at(planned, 0, 0)), slice);
    assert_int_equal(tolk_uop_op(arg_at(planned, 1, 0)), slice);
    assert_int_equal(tolk_uop_op(arg_at(planned, 2, 0)), tolk_op_find("buffer"));
    tolk_attr a;
    assert_true(tolk_uop_attr(tolk_uop_src(arg_at(planned, 0, 0), 0), "device", &a));
    assert_string_equal(a.s, "CPU");
    /* What is planned is written, read and planned again. */
    char *text;
    size_t n;
    assert_int_equal(tolk_print(tolk_linear_root(planned), &text, &n), TOLK_OK);
    tolk_linear *read = linear_of(&r, text);
    tolk_free_text(r.ctx, text);
    const tolk_uop *arena = tolk_uop_src(arg_at(read, 0, 0), 0);
    const tolk_uop *held2[] = {arg_at(read, 0, 1), arg_at(read, 2, 0), arena};
    assert_int_equal(tolk_memory_plan(read, held2, 3, &again, &err), TOLK_OK);
    assert_ptr_equal(again, read); /* nothing to plan */
    tolk_linear_unref(again);
    tolk_linear_unref(read);
    tolk_linear_unref(planned);
    assert_int_equal(tolk_memory_plan(NULL, held, 2, &planned, &err), TOLK_E_ARG);
    assert_int_equal(tolk_memory_plan(l, NULL, 2, &planned, &err), TOLK_E_ARG);
    assert_int_equal(tolk_memory_plan(l, held, 2, NULL, &err), TOLK_E_ARG);
    held[1] = NULL;
    assert_int_equal(tolk_memory_plan(l, held, 2, &planned, &err), TOLK_E_ARG);
    tolk_linear_unref(l);
}

static tolk_status schedule_and_plan(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.no_environment = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_graph *g = NULL;
    const tolk_uop *sink;
    tolk_linear *l = NULL, *planned = NULL;
    st = tolk_graph_create(ctx, &g);
    if (st == TOLK_OK)
        st = tolk_parse(g, states_text(), strlen(states_text()), 0, &sink, NULL);
    if (st == TOLK_OK)
        st = tolk_create_schedule(ctx, sink, &l, NULL);
    if (st == TOLK_OK) {
        const tolk_uop *held[] = {arg_at(l, 1, 0)};
        st = tolk_memory_plan(l, held, 1, &planned, NULL);
    }
    tolk_linear_unref(planned);
    tolk_linear_unref(l);
    tolk_graph_destroy(g);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory_schedules_fail_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(schedule_and_plan, NULL) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_graph_of_states_becomes_a_linear),
        cmocka_unit_test(test_a_schedule_of_something_else_is_refused),
        cmocka_unit_test(test_a_plan_is_another_linear),
        cmocka_unit_test(test_without_memory_schedules_fail_cleanly),
    };
    return cmocka_run_group_tests_name("schedules", tests, setup, teardown);
}
