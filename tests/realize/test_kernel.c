/* SPDX-License-Identifier: MIT
 *
 * Kernels from source on two CPU devices: what they are bound to, how long they are kept, what
 * clears, resets and the end of devices do to them, and functions that stand for kernels. Test
 * names carry the numbers of the behaviour list that this layer is built to.
 */
#include "realize/kernels.h"

#include "jit/device.h"
#include "realize/realize.h"

#include <pthread.h>

TWO_DEVICES

static tolk_kernel_cache_stats stats(void) {
    tolk_kernel_cache_stats s;
    assert_int_equal(tolk_kernel_cache_get_stats(r.ctx, &s), TOLK_OK);
    assert_int_equal(s.built, s.entries + s.destroyed);
    return s;
}

/* The kernel of d fills a buffer there. */
static void check_fill(tolk_device *d) {
    tolk_kernel *k = kernel_of(d, "fill", KERNEL_FILL);
    tolk_buffer *b = floats(d, N, -1);
    assert_int_equal(run_one(&r, k, b, NULL), TOLK_OK);
    check_floats(b, 7);
    tolk_buffer_unref(b);
    tolk_kernel_unref(k);
}

/* ---- which device ---- */

static void test_S15_kernel_is_bound_to_its_device(void **state) {
    (void)state;
    tolk_kernel *a = kernel_of(d0, "fill", KERNEL_FILL), *b = kernel_of(d1, "fill", KERNEL_FILL);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(tolk_kernel_device(a), d0);
    assert_ptr_equal(tolk_kernel_device(b), d1);
    assert_string_equal(tolk_kernel_get_name(b), "fill");
    tolk_kernel *again = kernel_of(d0, "fill", KERNEL_FILL);
    assert_ptr_equal(again, a);
    tolk_kernel_unref(again);
    tolk_kernel_unref(a);
    tolk_kernel_unref(b);
    assert_int_equal(stats().entries, 2);
    assert_int_equal(stats().hits, 1);
}

static void test_S15_second_device_gets_its_results_warm(void **state) {
    (void)state;
    check_fill(d0);
    check_fill(d1);
}

static void test_S15_second_device_gets_its_results_cold(void **state) {
    (void)state;
    check_fill(d1);
    check_fill(d0);
}

static void test_S01_names_and_sources_tell_kernels_apart(void **state) {
    (void)state;
    tolk_kernel *ones = kernel_of(d0, "ones", KERNEL_TWO),
                *twos = kernel_of(d0, "twos", KERNEL_TWO);
    tolk_buffer *b = floats(d0, N, -1);
    assert_int_equal(run_one(&r, ones, b, NULL), TOLK_OK);
    check_floats(b, 1);
    assert_int_equal(run_one(&r, twos, b, NULL), TOLK_OK);
    check_floats(b, 2);
    tolk_kernel_unref(ones);
    tolk_kernel_unref(twos);
    /* One name in another source. */
    char text[1024];
    snprintf(text, sizeof text, "%s", KERNEL_FILL);
    memcpy(strstr(text, "0x1.cp+2"), "0x1.8p+2", 8);
    check_fill(d0);
    tolk_kernel *six = kernel_of(d0, "fill", text);
    assert_int_equal(run_one(&r, six, b, NULL), TOLK_OK);
    check_floats(b, 6);
    tolk_kernel_unref(six);
    tolk_buffer_unref(b);
    assert_int_equal(stats().entries, 4);
}

static void test_source_may_go_after_the_call(void **state) {
    (void)state;
    char *text = strdup(KERNEL_FILL), *name = strdup("fill");
    tolk_kernel *k = kernel_of(d0, name, text);
    memset(text, 'x', strlen(text));
    memset(name, 'x', strlen(name));
    free(text);
    free(name);
    assert_string_equal(tolk_kernel_get_name(k), "fill");
    tolk_kernel_unref(k);
    check_fill(d0);
    assert_int_equal(stats().built, 1);
}

/* ---- what takes kernels out ---- */

/* A device of another family with the same number. */
static tolk_status foreign_count(tolk_ctx *ctx, void *family, uint32_t *n, tolk_error *err) {
    (void)ctx, (void)family, (void)err;
    *n = 2;
    return TOLK_OK;
}
static tolk_status foreign_open(tolk_device *d, void *family, uint32_t ordinal, tolk_error *err) {
    (void)d, (void)family, (void)ordinal, (void)err;
    return TOLK_OK;
}
static void foreign_destroy(tolk_device *d) {
    (void)d;
}
static const tk_memory_ops no_memory;
static const tk_backend foreign = {.framework = "FOREIGN",
                                   .priority = -1,
                                   .count = foreign_count,
                                   .open = foreign_open,
                                   .memory = &no_memory,
                                   .destroy = foreign_destroy};

static void test_S16_only_the_end_of_its_own_device_evicts_a_kernel(void **state) {
    (void)state;
    rt_close(&r);
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 2;
    o.no_disk_cache = 1;
    assert_int_equal(tolk_ctx_create(&o, &r.ctx, NULL), TOLK_OK);
    assert_int_equal(tk_family_add(r.ctx, &foreign, NULL, NULL, NULL), TOLK_OK);
    d0 = device_of(&r, "CPU");
    d1 = device_of(&r, "CPU:1");
    tolk_device *other = device_of(&r, "FOREIGN:1");
    tolk_kernel *a = kernel_of(d0, "fill", KERNEL_FILL), *b = kernel_of(d1, "fill", KERNEL_FILL);
    assert_int_equal(tolk_device_destroy(other, NULL), TOLK_OK);
    assert_int_equal(stats().entries, 2);
    assert_int_equal(tolk_device_destroy(d1, NULL), TOLK_OK);
    assert_int_equal(stats().entries, 1);
    tolk_kernel *again = kernel_of(d0, "fill", KERNEL_FILL);
    assert_ptr_equal(again, a);
    tolk_kernel_unref(again);
    tolk_kernel_unref(a);
    /* What somebody holds is still there, but runs no more. */
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_run(b, NULL, NULL, NULL, 0, &err), TOLK_E_DEVICE_DESTROYED);
    check_contains(err.msg, "CPU:1");
    assert_int_equal(tolk_kernel_compile(d1, "fill", KERNEL_FILL, &again, &err),
                     TOLK_E_DEVICE_DESTROYED);
    tolk_kernel_unref(b);
    /* The same name is a new device, which gets a kernel of its own. */
    tolk_device *fresh = device_of(&r, "CPU:1");
    assert_ptr_not_equal(fresh, d1);
    check_fill(fresh);
    assert_int_equal(stats().entries, 2);
}

static void test_S17_clear_then_run_compiles_anew(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        check_fill(d0);
        assert_int_equal(stats().built, i + 1);
        assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
        assert_int_equal(stats().entries, 0);
        tolk_cache_stats binaries;
        assert_int_equal(tolk_cache_get_stats(r.ctx, &binaries), TOLK_OK);
        assert_int_equal(binaries.memory_entries, 0);
    }
    check_fill(d0);
}

static void test_S17_kernels_in_use_outlive_a_clear(void **state) {
    (void)state;
    tolk_kernel *k = kernel_of(d0, "fill", KERNEL_FILL);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    tolk_buffer *b = floats(d0, N, -1);
    assert_int_equal(run_one(&r, k, b, NULL), TOLK_OK);
    check_floats(b, 7);
    tolk_buffer_unref(b);
    tolk_kernel_unref(k);
}

static tolk_status count_calls(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)err;
    assert_int_equal(event->kind, TOLK_HOOK_CLEAR_ALL);
    ++*(int *)user;
    return TOLK_OK;
}

static tolk_status fails(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)err;
    count_calls(user, event, err);
    return TOLK_E_IO;
}

static void test_S14_clear_notifies_twice_also_where_a_hook_fails(void **state) {
    (void)state;
    int good = 0, bad = 0;
    uint64_t id, bad_id;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_CLEAR_ALL, fails, &bad, &bad_id, NULL),
                     TOLK_OK);
    assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_CLEAR_ALL, count_calls, &good, &id, NULL),
                     TOLK_OK);
    check_fill(d0);
    assert_int_equal(tolk_cache_clear(r.ctx, &err), TOLK_E_IO);
    assert_int_equal(good, 2);
    assert_int_equal(bad, 2);
    assert_int_equal(stats().entries, 0);
    assert_int_equal(tolk_hook_remove(r.ctx, bad_id, NULL), TOLK_OK);
    assert_int_equal(tolk_cache_clear(r.ctx, &err), TOLK_OK);
    assert_int_equal(good, 4);
    assert_int_equal(bad, 2);
    assert_int_equal(tolk_kernel_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_int_equal(good, 4); /* that is the kernel cache alone */
    assert_int_equal(tolk_hook_remove(r.ctx, bad_id, &err), TOLK_E_NOT_FOUND);
}

static tolk_status compile_again(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event, (void)err;
    *(tolk_kernel **)user = kernel_of(d0, "fill", KERNEL_FILL);
    tolk_kernel_unref(*(tolk_kernel **)user);
    return TOLK_OK;
}

static void test_hook_may_compile(void **state) {
    (void)state;
    tolk_kernel *k = NULL;
    uint64_t id;
    assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_CLEAR_ALL, compile_again, &k, &id, NULL),
                     TOLK_OK);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_non_null(k);
    check_fill(d0);
}

static void test_S18_reset_gives_fresh_kernels(void **state) {
    (void)state;
    tolk_kernel *a = kernel_of(d0, "fill", KERNEL_FILL);
    assert_int_equal(tolk_device_reset(r.ctx, NULL), TOLK_OK);
    assert_int_equal(stats().entries, 0);
    tolk_buffer *b = floats(d0, N, -1);
    assert_int_equal(run_one(&r, a, b, NULL), TOLK_OK); /* what is held works on */
    check_floats(b, 7);
    tolk_device *now = NULL;
    size_t n;
    assert_int_equal(tolk_device_list(r.ctx, NULL, &now, 1, &n, NULL), TOLK_OK);
    tolk_kernel *c = kernel_of(now, "fill", KERNEL_FILL);
    assert_ptr_not_equal(a, c);
    assert_ptr_equal(tolk_kernel_device(c), now);
    tolk_kernel_unref(c);
    tolk_kernel_unref(a);
    tolk_buffer_unref(b);
}

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = TK_TEST_TSAN ? 40 : 200 };
static _Atomic bool stop;

typedef struct worker {
    pthread_t thread;
    tolk_device *device;
    tolk_status bad;
    int cleared;
} worker;

static void *compile_and_run(void *arg) {
    worker *w = arg;
    tolk_buffer *b = NULL;
    tolk_args *a = NULL;
    w->bad = tolk_alloc_f32(w->device, N, &b, NULL);
    if (!w->bad)
        w->bad = tolk_args_create(r.ctx, &a, NULL);
    if (!w->bad)
        w->bad = tolk_args_buffer(a, 0, b, NULL);
    for (int i = 0; i < ROUNDS && !w->bad; i++) {
        tolk_status st =
            tolk_run(w->device, i % 2 ? "ones" : "twos", KERNEL_TWO, a, NULL, NULL, 0, NULL);
        w->cleared += st == TOLK_E_CACHE_CLEARED;
        if (st == TOLK_E_CACHE_CLEARED)
            continue;
        float y[N];
        w->bad = st ? st : tolk_buffer_copyout(b, 0, y, sizeof y, NULL);
        for (int j = 0; j < N && !w->bad; j++)
            if (y[j] != (i % 2 ? 1 : 2))
                w->bad = TOLK_E_INTERNAL;
    }
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
    return NULL;
}

static void *clear_often(void *arg) {
    tolk_status *bad = arg;
    while (!stop && !*bad) {
        *bad = tolk_kernel_cache_clear(r.ctx, NULL);
        rt_sleep(0.0005);
    }
    return NULL;
}

static void test_S04_clear_while_threads_compile_and_run(void **state) {
    (void)state;
    worker w[THREADS];
    pthread_t clearer;
    tolk_status bad = TOLK_OK;
    stop = false;
    assert_int_equal(pthread_create(&clearer, NULL, clear_often, &bad), 0);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.device = i % 2 ? d1 : d0};
        assert_int_equal(pthread_create(&w[i].thread, NULL, compile_and_run, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    stop = true;
    pthread_join(clearer, NULL);
    assert_int_equal(bad, TOLK_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(w[i].bad, TOLK_OK);
    assert_int_equal(tolk_kernel_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_int_equal(stats().entries, 0);
}

/* ---- what is refused ---- */

static void test_kernel_not_in_the_source(void **state) {
    (void)state;
    tolk_kernel *k = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_compile(d0, "threes", KERNEL_TWO, &k, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "\"threes\"");
    check_contains(err.msg, "\"ones\", \"twos\"");
    assert_int_equal(tolk_kernel_compile(d0, "full", KERNEL_FILL, &k, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "\"fill\"");
    assert_int_equal(tolk_kernel_compile(d0, "full", "tolk.uop 1\n%0 = const index 1\n", &k, &err),
                     TOLK_E_NOT_FOUND);
    check_contains(err.msg, "const");
    assert_null(k);
    assert_int_equal(stats().entries, 0);
    assert_int_equal(stats().built, 0);
}

static void test_bad_sources_say_where(void **state) {
    (void)state;
    tolk_kernel *k = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_compile(d0, "x", "tolk.uop 1\n%0 = cnst index 1\n", &k, &err),
                     TOLK_E_PARSE);
    assert_int_equal(err.line, 2);
    assert_int_equal(tolk_kernel_compile(d0, "x", "", &k, &err), TOLK_E_PARSE);
    /* A value that no loop has. */
    char text[1024];
    snprintf(text, sizeof text, "%s", KERNEL_FILL);
    memcpy(strstr(text, "%6 = end void (%5, %2)"), "%6 = group void (%5)  ", 22);
    assert_int_equal(tolk_kernel_compile(d0, "fill", text, &k, &err), TOLK_E_VERIFY);
    /* A group in which a kernel that was not asked for is bad. */
    snprintf(text, sizeof text, "%s", KERNEL_TWO);
    memcpy(strstr(text, "%9 = end void (%7, %2)"), "%9 = group void (%7)  ", 22);
    assert_int_equal(tolk_kernel_compile(d0, "ones", text, &k, &err), TOLK_E_VERIFY);
    assert_null(k);
    assert_int_equal(stats().built, 0);
}

/* A hook that causes what it is told of. */
typedef struct echo {
    int called, inside;
    tolk_status (*again)(tolk_ctx *ctx, tolk_error *err);
} echo;
static tolk_status cause(void *user, const tolk_hook_event *event, tolk_error *err) {
    echo *e = user;
    tolk_status st = TOLK_OK;
    (void)event;
    e->called++;
    if (e->inside++ < 10) /* else this would not end */
        st = e->again(r.ctx, err);
    e->inside--;
    return st;
}

static void test_hooks_that_clear_are_not_told_of_it(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status (*const calls[])(tolk_ctx *ctx, tolk_error *err) = {tolk_device_reset,
                                                                    tolk_cache_clear};
    for (int outer = 0; outer < 2; outer++)
        for (int inner = 0; inner < 2; inner++) {
            echo e = {.again = calls[inner]};
            uint64_t id;
            assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_CLEAR_ALL, cause, &e, &id, &err),
                             TOLK_OK);
            assert_int_equal(calls[outer](r.ctx, &err), TOLK_OK);
            assert_int_equal(e.called, outer ? 2 : 1); /* a clear tells before and after */
            assert_int_equal(tolk_hook_remove(r.ctx, id, &err), TOLK_OK);
        }
    assert_int_equal(tolk_device_count(r.ctx), 2);
}

static void test_null_arguments(void **state) {
    (void)state;
    tolk_kernel *k = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_kernel_cache_stats s;
    assert_int_equal(tolk_kernel_compile(NULL, "fill", KERNEL_FILL, &k, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_compile(d0, NULL, KERNEL_FILL, &k, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_compile(d0, "fill", NULL, &k, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_compile(d0, "fill", KERNEL_FILL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_run(d0, "fill", NULL, NULL, NULL, NULL, 0, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_run(NULL, NULL, NULL, NULL, 0, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_register(NULL, "f", NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_register(r.ctx, NULL, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_register(r.ctx, "", NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_cache_get_stats(NULL, &s), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_cache_get_stats(r.ctx, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_cache_clear(NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_hook_add(NULL, TOLK_HOOK_RECLAIM, fails, NULL, &(uint64_t){0}, &err),
                     TOLK_E_ARG);
    assert_int_equal(tolk_hook_remove(NULL, 1, &err), TOLK_E_ARG);
    assert_null(tolk_kernel_ref(NULL));
    assert_null(tolk_kernel_device(NULL));
    assert_string_equal(tolk_kernel_get_name(NULL), "");
    tolk_kernel_unref(NULL);
    assert_null(k);
}

/* ---- functions that stand for kernels ---- */

typedef struct call {
    int calls;
    size_t n;
    tolk_native_arg arg[4];
    tolk_dims grid, block;
    size_t shared_bytes;
    tolk_status result;
} call;

static tolk_status record(void *user, const tolk_native_arg *args, size_t n, tolk_dims grid,
                          tolk_dims block, size_t shared_bytes, tolk_error *err) {
    call *c = user;
    c->calls++;
    c->n = n;
    memcpy(c->arg, args, n * sizeof *args);
    c->grid = grid;
    c->block = block;
    c->shared_bytes = shared_bytes;
    if (n && args[0].data)
        ((float *)args[0].data)[0] = 42;
    (void)err;
    return c->result;
}

static void test_registered_function_comes_before_the_source(void **state) {
    (void)state;
    call c = {0};
    assert_int_equal(tolk_kernel_register(r.ctx, "fill", record, &c, NULL), TOLK_OK);
    for (int i = 0; i < 2; i++) {
        tolk_device *d = i ? d1 : d0;
        tolk_kernel *k = kernel_of(d, "fill", i ? "no kernel at all" : KERNEL_FILL);
        tolk_kernel *none = kernel_of(d, "fill", NULL);
        assert_ptr_equal(k, none);
        tolk_kernel_unref(none);
        tolk_args *a = args_of(&r);
        tolk_buffer *b = floats(d, N, 5);
        assert_int_equal(tolk_args_f64(a, 9, 1.5, NULL), TOLK_OK);
        assert_int_equal(tolk_args_i32(a, 4, -3, NULL), TOLK_OK);
        assert_int_equal(tolk_args_buffer(a, 2, b, NULL), TOLK_OK);
        tolk_dims grid = tolk_dims2d(3, 4), block = tolk_dims1d(8);
        assert_int_equal(tolk_kernel_run(k, a, &grid, &block, 128, NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(d, NULL), TOLK_OK);
        assert_int_equal(c.calls, i + 1);
        assert_int_equal(c.n, 3);
        assert_int_equal(c.arg[0].slot, 2);
        assert_int_equal(c.arg[0].dtype, TOLK_F32);
        assert_int_equal(c.arg[0].bytes, N * 4);
        assert_int_equal(c.arg[1].slot, 4);
        assert_int_equal(c.arg[1].dtype, TOLK_I32);
        assert_int_equal(c.arg[1].value, -3);
        assert_null(c.arg[1].data);
        assert_int_equal(c.arg[2].dtype, TOLK_F64);
        assert_int_equal(c.arg[2].value, 0x3ff8000000000000);
        assert_int_equal(c.grid.x * 100 + c.grid.y * 10 + c.grid.z, 341);
        assert_int_equal(c.block.x * 100 + c.block.y * 10 + c.block.z, 811);
        assert_int_equal(c.shared_bytes, 128);
        float y[2];
        assert_int_equal(tolk_buffer_copyout(b, 0, y, sizeof y, NULL), TOLK_OK);
        assert_true(y[0] == 42 && y[1] == 5);
        tolk_args_destroy(a);
        tolk_buffer_unref(b);
        tolk_kernel_unref(k);
    }
}

static void test_registration_outlives_a_clear_and_can_be_taken_away(void **state) {
    (void)state;
    call c = {0}, other = {0};
    assert_int_equal(tolk_kernel_register(r.ctx, "fill", record, &c, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_register(r.ctx, "more", record, &c, NULL), TOLK_OK);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "fill", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.grid.x + c.grid.y + c.grid.z + c.block.x + c.block.y + c.block.z, 6);
    tolk_kernel *k = kernel_of(d0, "fill", NULL);
    assert_int_equal(tolk_kernel_register(r.ctx, "fill", record, &other, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "fill", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_run(k, NULL, NULL, NULL, 0, NULL), TOLK_OK); /* what it was */
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(c.calls, 2);
    assert_int_equal(other.calls, 1);
    tolk_kernel_unref(k);
    assert_int_equal(tolk_kernel_register(r.ctx, "fill", NULL, NULL, NULL), TOLK_OK);
    assert_int_equal(tolk_kernel_register(r.ctx, "fill", NULL, NULL, NULL), TOLK_OK);
    check_fill(d0);
    assert_int_equal(tolk_run(d0, "more", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(c.calls, 3);
}

static void test_registrations_leave_nothing_behind(void **state) {
    (void)state;
    call c = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tolk_kernel_register(r.ctx, "f", record, &c, NULL), TOLK_OK);
        assert_int_equal(tolk_run(i % 2 ? d0 : d1, "f", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
        assert_int_equal(tolk_device_await(i % 2 ? d0 : d1, NULL), TOLK_OK);
        assert_int_equal(stats().entries, 1);
    }
    assert_int_equal(tolk_kernel_register(r.ctx, "f", NULL, NULL, NULL), TOLK_OK);
    assert_int_equal(stats().entries, 0);
    assert_int_equal(c.calls, 100);
}

static void test_failing_function_stops_its_queue(void **state) {
    (void)state;
    call c = {.result = TOLK_E_IO};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_register(r.ctx, "bad", record, &c, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "bad", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d0, &err), TOLK_E_IO);
    assert_int_equal(tolk_run(d0, "bad", NULL, NULL, NULL, NULL, 0, &err), TOLK_E_IO);
    assert_int_equal(c.calls, 1);
    assert_int_equal(tolk_run(d1, "bad", NULL, NULL, NULL, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d1, &err), TOLK_E_IO);
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    check_fill(d0);
}

static void test_function_refuses_buffers_of_another_device(void **state) {
    (void)state;
    call c = {0};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_kernel_register(r.ctx, "f", record, &c, NULL), TOLK_OK);
    tolk_kernel *k = kernel_of(d1, "f", NULL);
    tolk_buffer *b = floats(d0, N, 5);
    assert_int_equal(run_one(&r, k, b, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "argument 0");
    check_contains(err.msg, "CPU:1");
    assert_int_equal(tolk_buffer_free(b, NULL), TOLK_OK);
    tolk_kernel_unref(k);
    k = kernel_of(d0, "f", NULL);
    assert_int_equal(run_one(&r, k, b, &err), TOLK_E_FREED);
    check_contains(err.msg, "kernel f: argument 0");
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(c.calls, 0);
    tolk_kernel_unref(k);
    tolk_buffer_unref(b);
}

/* ---- out of memory ---- */

static char *folder;

static tolk_status no_memory_in(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.cache_dir = folder;
    o.no_environment = 1;
    o.cpu_devices = 2;
    o.threads = 1;
    tolk_ctx *ctx = NULL;
    tolk_device *d = NULL;
    tolk_args *a = NULL;
    tolk_buffer *b = NULL;
    tolk_kernel *k = NULL;
    call c = {0};
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st == TOLK_OK)
        st = tolk_device_open(ctx, "CPU:1", &d, NULL);
    if (st == TOLK_OK)
        st = tolk_kernel_register(ctx, "f", record, &c, NULL);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(d, N, &b, NULL);
    if (st == TOLK_OK)
        st = tolk_args_create(ctx, &a, NULL);
    if (st == TOLK_OK)
        st = tolk_args_buffer(a, 0, b, NULL);
    if (st == TOLK_OK)
        st = tolk_kernel_compile(d, "fill", KERNEL_FILL, &k, NULL);
    if (st == TOLK_OK)
        st = tolk_kernel_run(k, a, NULL, NULL, 0, NULL);
    if (st == TOLK_OK)
        st = tolk_run(d, "f", NULL, a, NULL, NULL, 0, NULL);
    if (st == TOLK_OK)
        st = tolk_device_await(d, NULL);
    if (st == TOLK_OK && c.calls != 1)
        st = TOLK_E_INTERNAL;
    if (st == TOLK_OK)
        st = tolk_kernel_cache_clear(ctx, NULL);
    tolk_kernel_unref(k);
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    folder = rt_mkdir();
    tk_test_oom(no_memory_in, NULL);
    rt_rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_S15_kernel_is_bound_to_its_device),
        TEST(test_S15_second_device_gets_its_results_warm),
        TEST(test_S15_second_device_gets_its_results_cold),
        TEST(test_S01_names_and_sources_tell_kernels_apart),
        TEST(test_source_may_go_after_the_call),
        TEST(test_S16_only_the_end_of_its_own_device_evicts_a_kernel),
        TEST(test_S17_clear_then_run_compiles_anew),
        TEST(test_S17_kernels_in_use_outlive_a_clear),
        TEST(test_S14_clear_notifies_twice_also_where_a_hook_fails),
        TEST(test_hook_may_compile),
        TEST(test_S18_reset_gives_fresh_kernels),
        TEST(test_S04_clear_while_threads_compile_and_run),
        TEST(test_kernel_not_in_the_source),
        TEST(test_bad_sources_say_where),
        TEST(test_hooks_that_clear_are_not_told_of_it),
        TEST(test_null_arguments),
        TEST(test_registered_function_comes_before_the_source),
        TEST(test_registration_outlives_a_clear_and_can_be_taken_away),
        TEST(test_registrations_leave_nothing_behind),
        TEST(test_failing_function_stops_its_queue),
        TEST(test_function_refuses_buffers_of_another_device),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
