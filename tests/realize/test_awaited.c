/* SPDX-License-Identifier: MIT
 *
 * Runs that are waited for: work that is too long for a thread that only submits it runs on the one
 * that would wait, so no worker is started and none is woken; but never where other devices could
 * work meanwhile.
 */
#include "realize/linears.h"

#include "base/ctx.h"
#include "base/strbuf.h"
#include "realize/state.h"

/* y = 499500 x, as a sum of 1000 products: enough for a team of threads. */
enum { SIZE = 4096, STEPS = 1000 };
static const float sum = 499500;

static rt r;
static tolk_bindings *b;
static tolk_graph *g; /* of nodes to bind */
static tolk_error err;

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 2;
    rt_open(&r, NULL, &o);
    err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

static const tolk_uop *node(int slot, const char *device) {
    const tolk_uop *root = NULL;
    const char *text = rt_text("tolk.uop 1\n%%0 = const index %d\n"
                               "%%1 = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n",
                               SIZE, slot, device);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err))
        fail_msg("%s", err.msg);
    return root;
}

static void seed(int slot, const char *device) {
    tolk_buffer *x = floats(device_of(&r, device), SIZE, 1);
    assert_int_equal(tolk_bindings_seed(b, node(slot, device), x, &err), TOLK_OK);
    tolk_buffer_unref(x);
}

static void check(int slot, const char *device, float v) {
    tolk_buffer *x = NULL;
    assert_int_equal(tolk_bindings_find(b, node(slot, device), &x, NULL, &err), TOLK_OK);
    check_floats(x, v);
}

/* The spin kernel, buffers 0 to 3 of CPU as %30 to %33 and of CPU:1 as %40 to %43, and these. */
static tolk_linear *linear(const char *calls) {
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", rt_text(RT_SPIN, SIZE, (long long)STEPS));
    for (int i = 0; i < 8; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "%%%d = buffer f32 (%%0) {slot=%d, device=\"%s\"}\n",
                              30 + 10 * (i / 4) + i % 4, i, i < 4 ? "CPU" : "CPU:1");
    snprintf(text + n, sizeof text - n, "%s", calls);
    return linear_of(&r, text);
}

static void run(const char *calls, uint32_t wait) {
    tolk_linear *l = linear(calls);
    tolk_run_args a = TOLK_RUN_INIT;
    a.wait = wait;
    if (tolk_run_linear(b, l, NULL, &a, &err))
        fail_msg("%s", err.msg);
    tolk_linear_unref(l);
}

static bool has_worker(const char *device) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &r.ctx->al);
    tk_queue_describe(tk_device_state_of(device_of(&r, device))->queue, &sb);
    bool has = strstr(sb.at, "\"worker\": true") != NULL;
    tk_strbuf_fini(&sb);
    return has;
}

#define ONE "%50 = call void (%14, %31, %30)\n%60 = linear void (%50)\n"

static void test_a_launch_that_is_waited_for_needs_no_worker(void **state) {
    (void)state;
    seed(0, "CPU");
    run(ONE, 1);
    check(1, "CPU", sum);
    assert_false(has_worker("CPU"));
    run(ONE, 0); /* and else it does */
    assert_true(has_worker("CPU"));
    check(1, "CPU", sum);
}

static void test_calls_of_one_device_need_none(void **state) {
    (void)state;
    seed(0, "CPU");
    run("%50 = call void (%14, %31, %30)\n%51 = copy f32 (%31) {device=\"CPU\"}\n"
        "%52 = call void (%51, %32, %31)\n%53 = call void (%14, %33, %30)\n"
        "%60 = linear void (%50, %52, %53)\n",
        1);
    check(2, "CPU", sum);
    check(3, "CPU", sum);
    assert_false(has_worker("CPU"));
}

static void test_a_graph_needs_none(void **state) {
    (void)state;
    seed(0, "CPU");
    run("%50 = call void (%14, %31, %30)\n%51 = call void (%14, %32, %30)\n"
        "%52 = linear void (%50, %51)\n%53 = custom_function void (%52) {name=\"graph\"}\n"
        "%54 = call void (%53)\n%60 = linear void (%54)\n",
        1);
    check(1, "CPU", sum);
    check(2, "CPU", sum);
    assert_false(has_worker("CPU"));
}

/* Only what comes last: what is before it goes on at the same time. */
static void test_devices_work_at_the_same_time(void **state) {
    (void)state;
    seed(0, "CPU");
    seed(4, "CPU:1");
    run("%50 = call void (%14, %31, %30)\n%51 = call void (%14, %41, %40)\n"
        "%60 = linear void (%50, %51)\n",
        1);
    assert_true(has_worker("CPU"));
    assert_false(has_worker("CPU:1"));
    check(1, "CPU", sum);
    check(5, "CPU:1", sum);
}

/* It waits for its turn, as it would in the queue. */
static void test_what_is_queued_comes_first(void **state) {
    (void)state;
    seed(0, "CPU");
    for (int i = 0; i < 20; i++) {
        run("%50 = call void (%14, %31, %30)\n%60 = linear void (%50)\n", 0);
        run("%50 = copy f32 (%31) {device=\"CPU\"}\n%51 = call void (%50, %32, %31)\n"
            "%60 = linear void (%51)\n",
            1);
        check(2, "CPU", sum);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_launch_that_is_waited_for_needs_no_worker),
        TEST(test_calls_of_one_device_need_none),
        TEST(test_a_graph_needs_none),
        TEST(test_devices_work_at_the_same_time),
        TEST(test_what_is_queued_comes_first),
    };
    return cmocka_run_group_tests_name("awaited", tests, NULL, NULL);
}
