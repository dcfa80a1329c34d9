/* SPDX-License-Identifier: MIT
 *
 * Linears, exec graphs and jits in the child of a fork, at exit, and under the host's signals:
 * cases THR of the collection this project tests against. THR-07 is in test_local_size.c.
 */
#include "realize/ways.h"

#include <pthread.h>
#include <signal.h>

/* exit() comes while OpenMP's own threads end that it does not join: that is no leak of ours. */
#if TK_TEST_TSAN
const char *__tsan_default_options(void); /* NOLINT */
const char *__tsan_default_options(void) {
    return "report_thread_leaks=0";
}
#endif

#define CHAIN                                                                                      \
    MIX BUFFERS "%40 = call void (%20, %31, %30, %30)\n"                                           \
                "%41 = call void (%20, %32, %31, %30)\n"

/* ---- THR-01 ---- */

static way ways[WAYS];

static void open_all(void) {
    for (way_kind k = 0; k < WAYS; k++)
        way_open(&ways[k], k, CHAIN, "%40, %41", NULL);
    (void)seed(48, 2, NULL, 0, 0);
}

static void close_all(void) {
    for (way_kind k = 0; k < WAYS; k++)
        way_close(&ways[k]);
}

/* Run each way once with x = first: y = 7 x. */
static tolk_status run_each(int32_t first) {
    for (way_kind k = 0; k < WAYS; k++) {
        (void)seed(48, 0, NULL, first, 1);
        tolk_status st = way_run(&ways[k], NULL);
        if (st)
            return st;
        int32_t v[48];
        if ((st = tolk_buffer_copyout(bound(48, 2, NULL), 0, v, sizeof v, &err)) != TOLK_OK)
            return st;
        for (int i = 0; i < 48; i++)
            if (v[i] != 7 * (first + i))
                return TOLK_E_INTERNAL;
    }
    return TOLK_OK;
}

static int child_of_idle(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++)
        if (run_each(100 + i))
            return 1;
    way w; /* a linear that the parent does not have is compiled here */
    way_open(&w, WAY_JIT, PUT("n", "1", "10") BUFFERS "%40 = call void (%20, %30)\n", "%40", NULL);
    tolk_var v = {"n", 4};
    tolk_run_args a = with_vars(&v, 1);
    (void)seed(16, 0, NULL, 0, 0);
    for (int i = 0; i < 3; i++)
        if (way_run(&w, &a))
            return 2;
    check_ints(bound(16, 0, NULL), 4, 0);
    way_close(&w);
    close_all();
    (void)teardown(NULL);
    return 0;
}

/* Before the first run, the capture, and replays: parent and child go on from there. */
static void test_THR_01_a_child_runs_what_its_parent_has(void **state) {
    (void)state;
    open_all();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tk_test_child(child_of_idle, NULL, 60), 0);
        if (run_each(i))
            fail_msg("%s", err.msg);
    }
    close_all();
}

typedef struct hold {
    _Atomic int runs, go;
} hold;
static tolk_status holding(void *arg, tolk_error *e) {
    hold *h = arg;
    (void)e;
    h->runs = 1;
    while (!h->go)
        rt_sleep(0.0005);
    return TOLK_OK;
}

/* What was queued is not the child's: a clear error, or the right result, and an end. */
static int child_of_busy(void *arg) {
    (void)arg;
    for (way_kind k = 0; k < WAYS; k++) {
        tolk_status st = way_run(&ways[k], NULL);
        if (st && st != TOLK_E_FORKED)
            return 10 + (int)k;
        if (st && !strstr(err.msg, "CPU"))
            return 20 + (int)k;
        int32_t v[48];
        st = tolk_buffer_copyout(bound(48, 2, NULL), 0, v, sizeof v, &err);
        if (st != TOLK_OK && st != TOLK_E_FORKED)
            return 30 + (int)k;
    }
    tolk_bindings *own = NULL; /* another device was idle */
    tolk_device *d1 = device_of(&r, "CPU:1");
    if (tolk_bindings_create(d1, &own, NULL))
        return 40;
    tolk_graph *g;
    if (tolk_graph_create(r.ctx, &g))
        return 41;
    tolk_buffer *x = ints(d1, 48, 5, 1), *y = NULL;
    if (tolk_bindings_seed(own, buffer_node(g, 48, 0, NULL), x, NULL) ||
        tolk_run_linear(own, ways[WAY_RUN].l, NULL, NULL, &err) ||
        tolk_bindings_find(own, buffer_node(g, 48, 2, NULL), &y, NULL, NULL))
        return 42;
    check_ints(y, 35, 7);
    tolk_buffer_unref(x);
    tolk_bindings_destroy(own);
    tolk_graph_destroy(g);
    close_all();
    (void)teardown(NULL);
    return 0;
}

static void test_THR_01_fork_while_replays_are_queued(void **state) {
    (void)state;
    hold h = {0, 0};
    open_all();
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_each(i), TOLK_OK);
    (void)seed(48, 0, NULL, 10, 1);
    assert_int_equal(tolk_queue_submit(r.cpu, holding, &h, NULL, "hold", &err), TOLK_OK);
    for (way_kind k = 0; k < WAYS; k++)
        way_well(&ways[k], NULL);
    while (!h.runs)
        rt_sleep(0.0005);
    int code = tk_test_child(child_of_busy, NULL, 60);
    h.go = 1;
    assert_int_equal(code, 0);
    check_ints(bound(48, 2, NULL), 70, 7);
    if (run_each(20))
        fail_msg("%s", err.msg);
    close_all();
}

/* ---- THR-03 ---- */

static void test_THR_03_dispositions_and_masks_stay(void **state) {
    (void)state;
    static struct sigaction before[65], after[65];
    sigset_t mask, then;
    stack_t stack, stack_then;
    for (int i = 1; i <= 64; i++)
        (void)sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    sigaltstack(NULL, &stack);
    open_all();
    for (int i = 0; i < 4; i++)
        assert_int_equal(run_each(i), TOLK_OK);
    close_all();
    for (int i = 1; i <= 64; i++) {
        (void)sigaction(i, NULL, &after[i]);
        assert_ptr_equal(before[i].sa_handler, after[i].sa_handler);
        assert_int_equal(before[i].sa_flags, after[i].sa_flags);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &then);
    for (int i = 1; i <= 64; i++)
        assert_int_equal(sigismember(&mask, i), sigismember(&then, i));
    sigaltstack(NULL, &stack_then);
    assert_ptr_equal(stack.ss_sp, stack_then.ss_sp);
    assert_int_equal(stack.ss_flags, stack_then.ss_flags);
}

/* ---- THR-05 ---- */

/* A slow kernel in replays on the queue, graphs and calls, when exit() or _exit() comes. */
static int leave(void *arg) {
    int run = *(int *)arg;
    open_with(2, 0, NULL);
    static char nodes[8192];
    snprintf(nodes, sizeof nodes,
             RT_SPIN "%%30 = buffer f32 (%%0) {slot=0}\n%%31 = buffer f32 (%%0) {slot=1}\n"
                     "%%32 = buffer f32 (%%0) {slot=2}\n"
                     "%%40 = call void (%%14, %%31, %%30)\n%%41 = call void (%%14, %%32, %%31)\n",
             64, 20000LL);
    static way w; /* the context is left as it is: nobody has to close it */
    way_open(&w, run % WAYS, nodes, "%40, %41", NULL);
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    for (int i = 0; i < 3; i++) {
        const tolk_uop *size = tolk_const_int(g, TOLK_INDEX, 64);
        const tolk_attr slot = {.key = "slot", .i = i};
        tolk_buffer *x = floats(r.cpu, 64, 1);
        assert_int_equal(
            tolk_bindings_seed(
                b, tolk_uop_new(g, tolk_op_find("buffer"), TOLK_F32, &size, 1, &slot, 1), x, NULL),
            TOLK_OK);
        tolk_buffer_unref(x);
    }
    tolk_graph_destroy(g);
    for (int i = 0; i < 8; i++)
        way_well(&w, NULL);
    rt_sleep(1e-6 * (run * 731 % 6000));
    if (run % 4 == 3)
        _exit(3);
    exit(3);
}

static void test_THR_05_exit_with_replays_in_flight(void **state) {
    (void)state;
    int times = TK_TEST_TSAN ? 6 : tk_test_share() >= 100 ? 200 : 36;
    for (int i = 0; i < times; i++) {
        int code = tk_test_child(leave, &i, 60);
        if (code != 3)
            fail_msg("run %d ended with %d, expected 3", i, code);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_THR_05_exit_with_replays_in_flight),
        TEST(test_THR_01_a_child_runs_what_its_parent_has),
        TEST(test_THR_01_fork_while_replays_are_queued),
        TEST(test_THR_03_dispositions_and_masks_stay),
    };
    return cmocka_run_group_tests_name("case_thr", tests, NULL, NULL);
}
