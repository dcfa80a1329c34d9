/* SPDX-License-Identifier: MIT
 *
 * Launches by way of a queue: which run before the call returns, what the others keep, what a fault
 * does, and the order between devices. Test names carry the numbers of the behaviour list that this
 * layer is built to.
 */
#include "realize/kernels.h"

#include <pthread.h>
#include <semaphore.h>

TWO_DEVICES

/* y[i] = y[i] + a, n elements. */
static const char *bump_text(int n) {
    return rt_text("tolk.uop 1\n"
                   "%%0 = const index %d\n"
                   "%%1 = param f32 (%%0) {slot=0, name=\"y\"}\n"
                   "%%2 = param f32 {slot=1, name=\"a\", space=alu}\n"
                   "%%3 = range index (%%0) {axis=0, kind=global}\n"
                   "%%4 = index f32 (%%1, %%3)\n"
                   "%%5 = load f32 (%%4)\n"
                   "%%6 = add f32 (%%5, %%2)\n"
                   "%%7 = store void (%%4, %%6)\n"
                   "%%8 = end void (%%7, %%3)\n"
                   "%%9 = sink void (%%8) {name=\"bump\"}\n",
                   n);
}

enum { BIG = 1 << 20 }; /* elements of a launch that goes to the device's thread */

static tolk_kernel *bump_of(tolk_device *d, int n) {
    return kernel_of(d, "bump", bump_text(n));
}

static tolk_args *bump_args(tolk_buffer *b, float a) {
    tolk_args *args = args_of(&r);
    assert_int_equal(tolk_args_buffer(args, 0, b, NULL), TOLK_OK);
    assert_int_equal(tolk_args_f32(args, 1, a, NULL), TOLK_OK);
    return args;
}

static tolk_status bump(tolk_kernel *k, tolk_buffer *b, float a, tolk_error *err) {
    tolk_args *args = bump_args(b, a);
    tolk_status st = tolk_kernel_run(k, args, NULL, NULL, 0, err);
    tolk_args_destroy(args);
    return st;
}

/* ---- a queue that stands ---- */

typedef struct gate {
    sem_t begun, open;
} gate;

static void pass(sem_t *s) {
    while (sem_wait(s) != 0)
        ;
}

static tolk_status stand(void *arg, tolk_error *err) {
    gate *g = arg;
    (void)err;
    sem_post(&g->begun);
    pass(&g->open);
    return TOLK_OK;
}

static void gate_close(gate *g, tolk_device *d) {
    sem_init(&g->begun, 0, 0);
    sem_init(&g->open, 0, 0);
    assert_int_equal(tolk_queue_submit(d, stand, g, NULL, "gate", NULL), TOLK_OK);
    pass(&g->begun);
}

static void gate_open(gate *g, tolk_device *d, tolk_status want) {
    sem_post(&g->open);
    assert_int_equal(tolk_device_await(d, NULL), want);
    sem_destroy(&g->begun);
    sem_destroy(&g->open);
}

/* ---- where it runs, and what it keeps ---- */

static void test_small_launch_on_an_idle_queue_is_done_when_it_returns(void **state) {
    (void)state;
    tolk_kernel *k = bump_of(d0, N);
    tolk_buffer *b = floats(d0, N, 1);
    void *at;
    assert_int_equal(tolk_buffer_map(b, &at, NULL), TOLK_OK);
    assert_int_equal(bump(k, b, 2, NULL), TOLK_OK);
    assert_true(((float *)at)[N - 1] == 3);
    assert_int_equal(tolk_device_is_idle(d0), 1);
    tolk_event *e = NULL;
    assert_int_equal(tolk_event_record(d0, &e, NULL), TOLK_OK);
    assert_int_equal(tolk_event_is_done(e), 1);
    tolk_event_destroy(e);
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
}

static void test_queued_launch_keeps_what_it_was_given(void **state) {
    (void)state;
    gate g;
    tolk_kernel *k = bump_of(d0, N);
    tolk_buffer *b = floats(d0, N, 1), *all = floats(d0, 2 * N, 1), *half = NULL;
    assert_int_equal(tolk_buffer_view(all, N * 4, TOLK_F32, N, &half, NULL), TOLK_OK);
    tolk_args *args = bump_args(half, 10);
    gate_close(&g, d0);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    /* None of this reaches the launch. */
    assert_int_equal(tolk_args_f32(args, 1, 1000, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(args, 0, b, NULL), TOLK_OK);
    tolk_args_destroy(args);
    tolk_buffer_unref(half);
    tolk_kernel_unref(k);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_is_idle(d0), 0);
    gate_open(&g, d0, TOLK_OK);
    check_floats(b, 1);
    float x[2 * N];
    assert_int_equal(tolk_buffer_copyout(all, 0, x, sizeof x, NULL), TOLK_OK);
    for (int i = 0; i < 2 * N; i++)
        assert_true(x[i] == (i < N ? 1 : 11));
    tolk_buffer_unref(b);
    tolk_buffer_unref(all);
}

static void test_buffers_may_be_freed_once_the_launch_is_submitted(void **state) {
    (void)state;
    gate g;
    tolk_kernel *k = bump_of(d0, N);
    uint64_t before = tolk_device_used_memory(d0);
    tolk_buffer *b = floats(d0, N, 1);
    gate_close(&g, d0);
    assert_int_equal(bump(k, b, 2, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, NULL), TOLK_OK);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(bump(k, b, 2, &err), TOLK_E_FREED);
    tolk_buffer_unref(b);
    gate_open(&g, d0, TOLK_OK);
    assert_int_equal(tolk_device_used_memory(d0), before);
    tolk_kernel_unref(k);
}

static void test_O10_launches_without_a_wait_are_in_order(void **state) {
    (void)state;
    static const int sizes[] = {N, BIG};
    for (int s = 0; s < 2; s++) {
        tolk_kernel *k = bump_of(d0, sizes[s]);
        tolk_buffer *b = floats(d0, (size_t)sizes[s], 0);
        for (int i = 0; i < 16; i++)
            assert_int_equal(bump(k, b, 1, NULL), TOLK_OK);
        check_floats(b, 16);
        tolk_buffer_unref(b);
        tolk_kernel_unref(k);
    }
}

static void test_O11_values_set_between_launches_are_those_of_each(void **state) {
    (void)state;
    enum { LAUNCHES = 32 };
    /* y[at] = at: each launch leaves its value at its place. */
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index 32\n"
                               "%1 = param f32 (%0) {slot=0}\n"
                               "%2 = param i32 {slot=1, name=\"at\", space=alu, min=0, max=31}\n"
                               "%3 = cast index (%2)\n"
                               "%4 = cast f32 (%2)\n"
                               "%5 = index f32 (%1, %3)\n"
                               "%6 = store void (%5, %4)\n"
                               "%7 = sink void (%6) {name=\"put\"}\n";
    gate g;
    tolk_kernel *k = kernel_of(d0, "put", text);
    tolk_buffer *b = floats(d0, LAUNCHES, -1);
    tolk_args *args = args_of(&r);
    assert_int_equal(tolk_args_buffer(args, 0, b, NULL), TOLK_OK);
    gate_close(&g, d0);
    for (int i = 0; i < LAUNCHES; i++) {
        assert_int_equal(tolk_args_i32(args, 1, i, NULL), TOLK_OK);
        assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    }
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_args_i32(args, 1, LAUNCHES, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, &err), TOLK_E_LAUNCH);
    gate_open(&g, d0, TOLK_OK);
    float y[LAUNCHES];
    assert_int_equal(tolk_buffer_copyout(b, 0, y, sizeof y, NULL), TOLK_OK);
    for (int i = 0; i < LAUNCHES; i++)
        assert_true(y[i] == (float)i);
    tolk_args_destroy(args);
    tolk_buffer_unref(b);
    tolk_kernel_unref(k);
}

/* ---- faults ---- */

/* Arguments of RT_GATHER: n elements, the last index of which is wrong. */
static tolk_args *bad_gather(tolk_buffer **y) {
    int32_t at[N];
    for (int i = 0; i < N; i++)
        at[i] = i < N - 1 ? i : 100;
    tolk_buffer *x = floats(d0, 100, 3), *index = NULL;
    *y = floats(d0, N, -1);
    assert_int_equal(tolk_alloc_i32(d0, N, &index, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(index, 0, at, sizeof at, NULL), TOLK_OK);
    tolk_args *args = args_of(&r);
    assert_int_equal(tolk_args_buffer(args, 0, *y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(args, 1, x, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(args, 2, index, NULL), TOLK_OK);
    assert_int_equal(tolk_args_i32(args, 3, N, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    tolk_buffer_unref(index);
    return args;
}

static void test_fault_of_a_launch_here_is_returned_and_stops_the_queue(void **state) {
    (void)state;
    tolk_buffer *y;
    tolk_args *args = bad_gather(&y);
    tolk_kernel *k = kernel_of(d0, "gather", RT_GATHER);
    tolk_error err = TOLK_ERROR_INIT, later = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, &err), TOLK_E_RANGE);
    check_contains(err.msg, "kernel gather: param \"x\" (slot 1): index 100 is out of range");
    assert_int_equal(tolk_device_await(d0, &later), TOLK_E_RANGE);
    check_contains(later.msg, "index 100 is out of range");
    assert_int_equal(tolk_args_i32(args, 3, N - 1, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, &err), TOLK_E_RANGE); /* it stands */
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    float v[N];
    assert_int_equal(tolk_buffer_copyout(y, 0, v, sizeof v, NULL), TOLK_OK);
    assert_true(v[0] == 3 && v[N - 2] == 3 && v[N - 1] == 0);
    tolk_args_destroy(args);
    tolk_kernel_unref(k);
    tolk_buffer_unref(y);
}

static void test_fault_of_a_queued_launch_stops_the_queue(void **state) {
    (void)state;
    gate g;
    tolk_buffer *y, *b = floats(d0, N, 1);
    tolk_args *args = bad_gather(&y);
    tolk_kernel *k = kernel_of(d0, "gather", RT_GATHER), *add = bump_of(d0, N);
    tolk_error err = TOLK_ERROR_INIT;
    gate_close(&g, d0);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(bump(add, b, 1, NULL), TOLK_OK); /* will be discarded */
    gate_open(&g, d0, TOLK_E_RANGE);
    assert_int_equal(bump(add, b, 1, &err), TOLK_E_RANGE);
    check_contains(err.msg, "index 100 is out of range");
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    check_floats(b, 1);
    assert_int_equal(bump(add, b, 1, NULL), TOLK_OK);
    check_floats(b, 2);
    tolk_args_destroy(args);
    tolk_kernel_unref(k);
    tolk_kernel_unref(add);
    tolk_buffer_unref(y);
    tolk_buffer_unref(b);
}

static void test_callers_mistakes_stop_nothing(void **state) {
    (void)state;
    tolk_kernel *k = bump_of(d0, N);
    tolk_buffer *small = floats(d0, N - 1, 1), *b = floats(d0, N, 1);
    tolk_dims dims = {1, 1, 1};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(bump(k, small, 1, &err), TOLK_E_LAUNCH);
    assert_int_equal(run_one(&r, k, b, &err), TOLK_E_LAUNCH);
    tolk_args *args = bump_args(b, 1);
    assert_int_equal(tolk_kernel_run(k, args, &dims, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    check_floats(b, 2);
    tolk_args_destroy(args);
    tolk_kernel_unref(k);
    tolk_buffer_unref(small);
    tolk_buffer_unref(b);
}

static void test_cancelled_launch_stops_its_queue(void **state) {
    (void)state;
    tolk_kernel *k = kernel_of(d0, "long", TK_TEST_LONG_KERNEL);
    tolk_buffer *b = floats(d0, 1, 1);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(run_one(&r, k, b, NULL), TOLK_OK);
    for (int i = 0; i < 2000 && !tolk_device_is_idle(d0); i++) {
        tolk_cancel(d0);
        rt_sleep(0.01);
    }
    assert_int_equal(tolk_device_await(d0, &err), TOLK_E_CANCELLED);
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
}

/* ---- between devices ---- */

static void test_launches_wait_for_copies_of_other_devices(void **state) {
    (void)state;
    /* Each round d0 writes, d1 takes a copy and works on it; d0's next write waits for that copy.
     */
    tolk_kernel *k0 = bump_of(d0, BIG), *k1 = bump_of(d1, BIG), *small = bump_of(d1, N);
    tolk_buffer *a = floats(d0, BIG, 0), *b = floats(d1, BIG, 0), *part = NULL;
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, N, &part, NULL), TOLK_OK);
    enum { ROUNDS = 20 };
    for (int i = 1; i <= ROUNDS; i++) {
        assert_int_equal(bump(k0, a, 1, NULL), TOLK_OK);
        assert_int_equal(tolk_buffer_copy(b, a, NULL), TOLK_OK);
        assert_int_equal(bump(k0, a, 1, NULL), TOLK_OK); /* not before the copy has read */
        assert_int_equal(bump(k1, b, 100, NULL), TOLK_OK);
        assert_int_equal(bump(small, part, -100, NULL), TOLK_OK);
        float first[N + 1], last;
        assert_int_equal(tolk_buffer_copyout(b, 0, first, sizeof first, NULL), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(b, (BIG - 1) * 4, &last, 4, NULL), TOLK_OK);
        assert_true(first[0] == (float)(2 * i - 1) && first[N - 1] == first[0]);
        assert_true(first[N] == first[0] + 100 && last == first[N]);
    }
    check_floats(a, 2 * ROUNDS);
    tolk_kernel_unref(k0);
    tolk_kernel_unref(k1);
    tolk_kernel_unref(small);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(part);
}

static void test_small_launch_does_not_run_here_before_what_it_waits_for(void **state) {
    (void)state;
    gate g;
    tolk_kernel *k = bump_of(d0, N);
    tolk_buffer *a = floats(d0, N, 5), *b = floats(d1, N, 0);
    gate_close(&g, d1);
    assert_int_equal(tolk_buffer_copy(b, a, NULL), TOLK_OK); /* d1 reads a, later */
    assert_int_equal(bump(k, a, 1, NULL), TOLK_OK);
    assert_int_equal(tolk_device_is_idle(d0), 0);
    gate_open(&g, d1, TOLK_OK);
    check_floats(b, 5);
    check_floats(a, 6);
    tolk_kernel_unref(k);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
}

/* ---- many threads ---- */

enum { THREADS = 4, LAUNCHES = TK_TEST_TSAN ? 100 : 1000 };

typedef struct worker {
    pthread_t thread;
    tolk_kernel *kernel;
    tolk_buffer *buffer;
    tolk_status bad;
} worker;

static void *launch_often(void *arg) {
    worker *w = arg;
    for (int i = 0; i < LAUNCHES && !w->bad; i++)
        w->bad = bump(w->kernel, w->buffer, 1, NULL);
    return NULL;
}

static void test_threads_launch_on_one_queue(void **state) {
    (void)state;
    tolk_kernel *k = bump_of(d0, N);
    tolk_buffer *b = floats(d0, N, 0);
    worker w[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.kernel = k, .buffer = b};
        assert_int_equal(pthread_create(&w[i].thread, NULL, launch_often, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        assert_int_equal(w[i].bad, TOLK_OK);
    }
    check_floats(b, THREADS * LAUNCHES);
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
}

/* ---- memory and forks ---- */

static void test_warm_launch_takes_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = &heap.al;
    o.cpu_devices = 2;
    rt_open(&r, NULL, &o);
    tolk_kernel *k = bump_of(r.cpu, N);
    tolk_buffer *b = floats(r.cpu, N, 0);
    tolk_args *args = bump_args(b, 1);
    assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    size_t calls = heap.calls;
    for (int i = 0; i < 100; i++)
        assert_int_equal(tolk_kernel_run(k, args, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(heap.calls, calls);
    check_floats(b, 101);
    tolk_args_destroy(args);
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
    rt_close(&r);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

typedef struct inherited {
    tolk_kernel *small, *big;
    tolk_buffer *b, *large;
} inherited;

static int in_child(void *arg) {
    inherited *h = arg;
    void *at;
    if (bump(h->small, h->b, 2, NULL))
        return 1;
    if (bump(h->big, h->large, 2, NULL) != TOLK_E_FORKED)
        return 2;
    if (bump(h->small, h->b, 2, NULL)) /* that stopped nothing */
        return 3;
    if (tolk_buffer_map(h->b, &at, NULL) || ((float *)at)[N - 1] != 5)
        return 4;
    return 0;
}

static void test_THR_01_child_of_a_fork_runs_small_launches(void **state) {
    (void)state;
    inherited h = {bump_of(d0, N), bump_of(d0, BIG), floats(d0, N, 1), floats(d0, BIG, 1)};
    assert_int_equal(bump(h.big, h.large, 1, NULL), TOLK_OK); /* the worker runs */
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(tk_test_child(in_child, &h, 30), 0);
    check_floats(h.b, 1); /* memory is not shared */
    assert_int_equal(bump(h.big, h.large, 1, NULL), TOLK_OK);
    check_floats(h.large, 3);
    tolk_kernel_unref(h.small);
    tolk_kernel_unref(h.big);
    tolk_buffer_unref(h.b);
    tolk_buffer_unref(h.large);
}

static char *folder;

/* A launch that is queued. */
static tolk_status no_memory_in(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.cache_dir = folder;
    o.no_environment = 1;
    o.threads = 1;
    tolk_ctx *ctx = NULL;
    tolk_device *d = NULL;
    tolk_buffer *b = NULL;
    tolk_args *args = NULL;
    tolk_kernel *k = NULL;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    st = st ? st : tolk_device_open(ctx, "CPU", &d, NULL);
    st = st ? st : tolk_alloc_f32(d, BIG, &b, NULL);
    st = st ? st : tolk_args_create(ctx, &args, NULL);
    st = st ? st : tolk_args_buffer(args, 0, b, NULL);
    st = st ? st : tolk_args_f32(args, 1, 1, NULL);
    st = st ? st : tolk_kernel_compile(d, "bump", bump_text(BIG), &k, NULL);
    st = st ? st : tolk_kernel_run(k, args, NULL, NULL, 0, NULL);
    st = st ? st : tolk_kernel_run(k, args, NULL, NULL, 0, NULL);
    tolk_kernel_unref(k);
    tolk_args_destroy(args);
    tolk_buffer_unref(b);
    tolk_status end = d ? tolk_device_await(d, NULL) : TOLK_OK;
    tolk_ctx_destroy(ctx);
    return st ? st : end;
}

static void test_out_of_memory(void **state) {
    (void)state;
    folder = rt_mkdir();
    tk_test_oom(no_memory_in, NULL);
    rt_rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define BOTH(name)                                                                                 \
    TEST(name), {                                                                                  \
        #name " (synchronous)", name, setup_synchronous, teardown, NULL                            \
    }
        BOTH(test_small_launch_on_an_idle_queue_is_done_when_it_returns),
        TEST(test_queued_launch_keeps_what_it_was_given),
        TEST(test_buffers_may_be_freed_once_the_launch_is_submitted),
        BOTH(test_O10_launches_without_a_wait_are_in_order),
        TEST(test_O11_values_set_between_launches_are_those_of_each),
        BOTH(test_fault_of_a_launch_here_is_returned_and_stops_the_queue),
        TEST(test_fault_of_a_queued_launch_stops_the_queue),
        BOTH(test_callers_mistakes_stop_nothing),
        TEST(test_cancelled_launch_stops_its_queue),
        BOTH(test_launches_wait_for_copies_of_other_devices),
        TEST(test_small_launch_does_not_run_here_before_what_it_waits_for),
        BOTH(test_threads_launch_on_one_queue),
        cmocka_unit_test(test_warm_launch_takes_no_memory),
        TEST(test_THR_01_child_of_a_fork_runs_small_launches),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
