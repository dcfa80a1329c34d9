/* SPDX-License-Identifier: MIT
 *
 * Which devices there are: names, indices, families of several priorities, limits, what a reset and
 * the end of a device change. S18-S22, O12, O14 are numbers of the behaviour notes' checklist.
 */
#include "fake.h"
#include "support/runtime.h"

static rt r;

/* A context with n CPU devices, its environment ignored. */
static void open_n(uint32_t n) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = n;
    o.no_environment = 1;
    rt_open(&r, NULL, &o);
}

/* A family that a test makes up. */
typedef struct row {
    const char *framework;
    int priority;
    uint32_t devices;
} row;
static fake f[8];

static void add(fake *to, const row *family) {
    fake_add(r.ctx, to, family->framework, family->devices, true, true);
    to->backend.priority = family->priority;
}

/* The same, and n families, which are f, that are added before any device is looked for. */
static void open_with(uint32_t cpus, const row *rows, size_t n) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = cpus;
    o.no_environment = o.no_disk_cache = 1;
    memset(&r, 0, sizeof r);
    assert_int_equal(tolk_ctx_create(&o, &r.ctx, NULL), TOLK_OK);
    for (size_t i = 0; i < n; i++)
        add(&f[i], &rows[i]);
}

static tolk_device *opened(const char *name) {
    tolk_device *d = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_device_open(r.ctx, name, &d, &err))
        fail_msg("%s: %s", name, err.msg);
    return d;
}

static void no_device(const char *name, const char *named) {
    tolk_device *d = (tolk_device *)1;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_device_open(r.ctx, name, &d, &err), TOLK_E_NO_DEVICE);
    if (!strstr(err.msg, named))
        fail_msg("\"%s\" does not name %s", err.msg, named);
    assert_ptr_equal(d, (tolk_device *)1);
}

static void test_names_of_several_cpu_devices(void **state) {
    (void)state;
    open_n(3);
    assert_int_equal(tolk_device_count(r.ctx), 3);
    static const char *const same[][2] = {{"CPU", "cpu:0"}, {"CPU:1", "cpu:1"}, {"CPU:2", "Cpu:2"}};
    for (int i = 0; i < 3; i++) {
        tolk_device *d = opened(same[i][0]);
        assert_ptr_equal(opened(same[i][1]), d);
        assert_string_equal(tolk_device_name(d), same[i][0]);
        assert_int_equal(tolk_device_index(d), i);
        assert_true(tolk_device_uid(d) > 0);
        assert_true(tolk_device_is_idle(d));
    }
    static const char *const bad[] = {"CPU:3",  "CPU:-1", "CPU:01", "CPU:1 ", "CPU:",
                                      "CPU:+1", ":1",     "GPU",    "CPU/X",  "CPU:99999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        no_device(bad[i], "CPU, CPU:1, CPU:2");
    rt_close(&r);
}

static void test_S19_a_failing_probe_means_absent_and_no_memory_is_told(void **state) {
    (void)state;
    static const row rows[] = {{"AAA", 100, 2}, {"BBB", 90, 1}};
    open_with(1, rows, 2);
    f[0].count_fails = TOLK_E_IO;
    no_device("AAA", "BBB, CPU");
    assert_int_equal(tolk_device_count(r.ctx), 2);
    rt_close(&r);

    open_with(1, rows, 2);
    f[0].count_fails = TOLK_E_NOMEM;
    tolk_device *d;
    size_t n = 77;
    tolk_limits limits;
    assert_int_equal(tolk_device_open(r.ctx, "CPU", &d, NULL), TOLK_E_NOMEM);
    assert_int_equal(tolk_device_best(r.ctx, NULL, &d, NULL), TOLK_E_NOMEM);
    assert_int_equal(tolk_device_list(r.ctx, NULL, NULL, 0, &n, NULL), TOLK_E_NOMEM);
    assert_int_equal(tolk_family_limits(r.ctx, "CPU", &limits, NULL), TOLK_E_NOMEM);
    assert_int_equal(n, 77);
    f[0].count_fails = TOLK_OK; /* the next call tries again */
    assert_int_equal(tolk_device_count(r.ctx), 4);
    /* a device that cannot be opened is an error of the call, and leaves no half of a table */
    f[0].open_fails = TOLK_E_NOMEM;
    assert_int_equal(tolk_device_destroy(opened("AAA:1"), NULL), TOLK_OK);
    assert_int_equal(tolk_device_open(r.ctx, "AAA:1", &d, NULL), TOLK_E_NOMEM);
    assert_ptr_equal(opened("AAA:0"), opened("AAA"));
    f[0].open_fails = TOLK_OK;
    assert_int_equal(tolk_device_index(opened("AAA:1")), 1);
    rt_close(&r);
}

static void test_S20_S21_priorities_variants_and_predicates(void **state) {
    (void)state;
    static const row rows[] = {{"CUDA/EMU", -1, 1},
                               {"CUDAX", 60, 1},
                               {"CUDA/C", 90, 1},
                               {"CUDA/PTX", 100, 2},
                               {"HIP", 80, 0}};
    open_with(2, rows, 5);
    static const char *const order[] = {"CUDA/PTX", "CUDA/PTX:1", "CUDA/C",  "CUDAX",
                                        "CPU",      "CPU:1",      "CUDA/EMU"};
    tolk_device *list[16], *d;
    size_t n;
    assert_int_equal(tolk_device_list(r.ctx, NULL, list, 16, &n, NULL), TOLK_OK);
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(tolk_device_name(list[i]), order[i]);
        assert_int_equal(tolk_device_index(list[i]), i);
        for (size_t j = 0; j < i; j++)
            assert_true(tolk_device_uid(list[i]) != tolk_device_uid(list[j]));
    }
    assert_int_equal(tolk_device_list(r.ctx, "CUDA", list, 16, &n, NULL), TOLK_OK);
    assert_int_equal(n, 4); /* not CUDAX */
    assert_int_equal(tolk_device_list(r.ctx, "HIP", list, 16, &n, NULL), TOLK_OK);
    assert_int_equal(n, 0);
    assert_int_equal(tolk_device_list(r.ctx, "CUDA/PTX", list, 1, &n, NULL), TOLK_OK);
    assert_int_equal(n, 2); /* that there are, not that fit */
    /* a family's name is its best variant, an exact name that one */
    assert_ptr_equal(opened("cuda"), opened("CUDA/PTX:0"));
    assert_ptr_equal(opened("CUDA:1"), opened("CUDA/PTX:1"));
    assert_string_equal(tolk_device_name(opened("CUDA/EMU")), "CUDA/EMU");
    no_device("CUDA:2", "CUDA/PTX");
    no_device("HIP", "CPU");
    /* best: by priority; an emulator only when it is named */
    assert_int_equal(tolk_device_best(r.ctx, NULL, &d, NULL), TOLK_OK);
    assert_string_equal(tolk_device_name(d), "CUDA/PTX");
    assert_int_equal(tolk_device_best(r.ctx, "CPU", &d, NULL), TOLK_OK);
    assert_string_equal(tolk_device_name(d), "CPU");
    assert_int_equal(tolk_device_best(r.ctx, "CUDA/EMU", &d, NULL), TOLK_OK);
    assert_string_equal(tolk_device_name(d), "CUDA/EMU");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_device_best(r.ctx, "HIP", &d, &err), TOLK_E_NO_DEVICE);
    assert_non_null(strstr(err.msg, "\"HIP\""));
    assert_true(tolk_device_is_of_backend(opened("CUDA/PTX"), "CUDA"));
    assert_true(tolk_device_is_of_backend(opened("CUDA/PTX"), "CUDA/PTX"));
    assert_false(tolk_device_is_of_backend(opened("CUDA/PTX"), "CUDA/C"));
    assert_false(tolk_device_is_of_backend(opened("CUDAX"), "CUDA"));
    assert_false(tolk_device_is_of_backend(opened("CUDA/PTX"), "cuda"));
    assert_false(tolk_device_is_of_backend(opened("CPU"), ""));
    rt_close(&r);
}

static void test_an_emulator_is_never_chosen(void **state) {
    (void)state;
    static const row rows[] = {{"CUDA/EMU", -1, 1}};
    open_with(1, rows, 1);
    tolk_device *d;
    assert_int_equal(tolk_device_best(r.ctx, NULL, &d, NULL), TOLK_OK);
    assert_string_equal(tolk_device_name(d), "CPU");
    assert_int_equal(tolk_device_best(r.ctx, "CUDA", &d, NULL), TOLK_E_NO_DEVICE);
    no_device("CUDA", "CUDA/EMU");
    assert_string_equal(tolk_device_name(opened("cuda/emu:0")), "CUDA/EMU");
    rt_close(&r);
}

static void test_S22_unknown_frameworks_are_named(void **state) {
    (void)state;
    open_n(1);
    tolk_device *d;
    tolk_limits limits;
    char *text;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_device_best(r.ctx, "Metal", &d, &err), TOLK_E_NO_DEVICE);
    assert_non_null(strstr(err.msg, "\"Metal\""));
    assert_int_equal(tolk_family_limits(r.ctx, "Metal", &limits, &err), TOLK_E_NO_DEVICE);
    assert_non_null(strstr(err.msg, "\"Metal\""));
    assert_int_equal(tolk_debug_info(r.ctx, "Metal", &text, &len), TOLK_E_NO_DEVICE);
    rt_close(&r);
}

static int threads_now(void) {
    char line[256];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

static void test_O14_limits_are_the_least_and_start_nothing(void **state) {
    (void)state;
    static const row rows[] = {{"X/A", 9, 2}, {"X/B", 8, 1}};
    open_with(3, rows, 2);
    f[0].limits[0] = (tolk_limits){.max_threads_per_block = 1024,
                                   .max_block = {1024, 1024, 64},
                                   .max_grid = {2147483647, 65535, 65535},
                                   .max_shared_bytes = 49152,
                                   .total_bytes = 1000,
                                   .warp = 32,
                                   .compute_major = 9,
                                   .multiprocessors = 132,
                                   .has_f64 = 1,
                                   .has_i64 = 1,
                                   .has_f16 = 1,
                                   .has_atomics = 1};
    f[0].limits[1] = f[0].limits[0];
    f[0].limits[1].max_block[0] = 512;
    f[0].limits[1].compute_major = 8;
    f[0].limits[1].compute_minor = 6;
    f[0].limits[1].has_f64 = 0;
    f[1].limits[0] = f[0].limits[0];
    f[1].limits[0].total_bytes = 900;
    f[1].limits[0].max_shared_bytes = 0; /* no limit */
    f[1].limits[0].multiprocessors = 4;
    int threads = threads_now();
    tolk_limits x, again;
    assert_int_equal(tolk_family_limits(r.ctx, "X", &x, NULL), TOLK_OK);
    assert_int_equal(x.devices, 3);
    assert_int_equal(x.max_block[0], 512);
    assert_int_equal(x.max_block[2], 64);
    assert_int_equal(x.max_shared_bytes, 49152);
    assert_int_equal(x.total_bytes, 900);
    assert_int_equal(x.compute_major, 8);
    assert_int_equal(x.compute_minor, 6);
    assert_int_equal(x.multiprocessors, 4);
    assert_false(x.has_f64);
    assert_true(x.has_i64 && x.has_f16 && x.has_atomics && !x.is_cpu);
    f[0].limits[0].total_bytes = 1; /* looked up once */
    assert_int_equal(tolk_family_limits(r.ctx, "X", &again, NULL), TOLK_OK);
    assert_memory_equal(&x, &again, sizeof x);
    assert_int_equal(tolk_family_limits(r.ctx, "CPU", &x, NULL), TOLK_OK);
    assert_int_equal(x.devices, 3);
    assert_true(x.is_cpu && x.has_f64 && x.lanes_bytes >= 16 && x.warp == 1 && x.total_bytes);
    assert_int_equal(x.max_grid[1], 0); /* LIM-01: a CPU has no such limit */
    assert_int_equal(threads_now(), threads);
    rt_close(&r);
}

/* Each entry of "devices" has the same keys in the same order, their number is the devices'. */
static void test_O12_static_properties(void **state) {
    (void)state;
    static const row rows[] = {{"X", 90, 2}};
    open_with(2, rows, 1);
    int threads = threads_now();
    char *text, keys[4][1024];
    size_t len, n = 0;
    assert_int_equal(tolk_static_properties(r.ctx, &text, &len), TOLK_OK);
    assert_int_equal(strlen(text), len);
    for (const char *p = strstr(text, "[{"); p && n < 4; n++) {
        const char *end = strchr(p, '}');
        assert_non_null(end);
        size_t at = 0;
        for (const char *q = strchr(p, '"'); q && q < end; q = strchr(q + 1, '"')) {
            const char *close = strchr(q + 1, '"');
            if (close[1] == ':') { /* a key */
                memcpy(keys[n] + at, q, (size_t)(close - q));
                at += (size_t)(close - q);
            }
            q = close;
        }
        keys[n][at] = 0;
        char want[64];
        snprintf(want, sizeof want, "\"index\": %zu,", n);
        assert_non_null(strstr(p, want));
        p = strstr(end, ", {");
    }
    assert_int_equal(n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(keys[i], keys[0]);
    static const char *const have[] = {"\"name\": \"X:1\"",    "\"name\": \"CPU:1\"",
                                       "\"framework\": \"X\"", "\"ordinal\": 1",
                                       "\"is_cpu\": true",     "\"is_cpu\": false"};
    for (size_t i = 0; i < sizeof have / sizeof *have; i++)
        assert_non_null(strstr(text, have[i]));
    tolk_free_text(r.ctx, text);
    assert_int_equal(threads_now(), threads);
    rt_close(&r);
}

static void test_S18_reset_renumbers_and_keeps_devices(void **state) {
    (void)state;
    static const row rows[] = {{"X", 10, 1}, {"Y", 90, 1}};
    open_with(2, rows, 1);
    tolk_device *cpu = opened("CPU"), *x = opened("X");
    uint64_t uid = tolk_device_uid(cpu);
    assert_int_equal(tolk_device_index(cpu), 0);
    assert_int_equal(tolk_device_index(x), 2);
    add(&f[1], &rows[1]);
    assert_int_equal(tolk_device_count(r.ctx), 3); /* the table was made */
    assert_int_equal(tolk_device_reset(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_index(cpu), -1);
    assert_int_equal(tolk_device_count(r.ctx), 4);
    assert_ptr_equal(opened("CPU"), cpu);
    assert_int_equal(tolk_device_index(cpu), 1); /* index 0 names Y now */
    assert_int_equal(tolk_device_index(opened("Y")), 0);
    assert_int_equal(tolk_device_uid(cpu), uid);
    assert_true(tolk_device_uid(opened("Y")) > tolk_device_uid(x));
    f[0].devices = 0; /* a family whose devices are gone */
    assert_int_equal(tolk_device_reset(r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_count(r.ctx), 3);
    assert_int_equal(tolk_device_index(x), -1);
    assert_int_equal(tolk_device_await(x, NULL), TOLK_OK); /* its handle is as good as before */
    rt_close(&r);
}

static tolk_status count_task(void *arg, tolk_error *err) {
    (void)err;
    ++*(_Atomic int *)arg;
    return TOLK_OK;
}

static tolk_status destroy_task(void *arg, tolk_error *err) {
    return tolk_device_destroy(arg, err);
}

static void test_destroyed_devices_say_so_and_come_back_with_another_uid(void **state) {
    (void)state;
    open_n(2);
    tolk_device *d = opened("CPU:1");
    uint64_t uid = tolk_device_uid(d);
    _Atomic int ran = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(tolk_queue_submit(d, count_task, &ran, NULL, "count", NULL), TOLK_OK);
    assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
    assert_int_equal(ran, 5); /* what was queued has run */
    assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_queue_submit(d, count_task, &ran, NULL, NULL, &err),
                     TOLK_E_DEVICE_DESTROYED);
    assert_non_null(strstr(err.msg, "CPU:1"));
    tolk_buffer *b;
    assert_int_equal(tolk_alloc_f32(d, 4, &b, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_pool_alloc(d, 1, 64, 1, TOLK_POOL_DEFAULT, NULL),
                     TOLK_E_DEVICE_DESTROYED);
    tolk_event *e;
    assert_int_equal(tolk_event_record(d, &e, NULL), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_device_index(d), -1);
    assert_string_equal(tolk_device_name(d), "CPU:1");
    assert_int_equal(tolk_device_count(r.ctx), 2);
    tolk_device *again = opened("CPU:1");
    assert_ptr_not_equal(again, d);
    assert_true(tolk_device_uid(again) > uid);
    assert_int_equal(tolk_device_index(again), 1);
    assert_int_equal(tolk_device_await(again, NULL), TOLK_OK);
    /* not from one of its own tasks, which would wait for itself: nothing is destroyed */
    assert_int_equal(tolk_queue_submit(again, destroy_task, again, NULL, "end", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(again, &err), TOLK_E_DEADLOCK);
    assert_int_equal(tolk_device_recover(again, NULL), TOLK_OK);
    assert_ptr_equal(opened("CPU:1"), again);
    rt_close(&r);
}

static tolk_status deadlock_task(void *arg, tolk_error *err) {
    return tolk_device_await(arg, err);
}

/* Also where its queue was stopped by the error that a task gets which destroys its own device. */
static void test_destroy_ends_a_device_whose_task_waited_for_itself(void **state) {
    (void)state;
    open_n(2);
    tolk_device *d = opened("CPU:1");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_queue_submit(d, deadlock_task, d, NULL, "self", NULL), TOLK_OK);
    assert_int_equal(tolk_device_destroy(d, &err), TOLK_E_DEADLOCK);
    assert_non_null(strstr(err.msg, "\"self\""));
    assert_int_equal(tolk_device_index(d), -1);
    assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
    tolk_device *again = opened("CPU:1");
    assert_ptr_not_equal(again, d);
    assert_int_equal(tolk_device_await(again, NULL), TOLK_OK);
    rt_close(&r);
}

/* Buffers have room for uses by the queues there are, not by those that were. */
static void test_destroyed_devices_are_not_counted_as_queues(void **state) {
    (void)state;
    open_n(2);
    for (int i = 0; i < 200; i++) {
        tolk_device *d = opened("CPU:1");
        assert_int_equal(tk_realize_of(r.ctx)->queues, 2);
        assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
        assert_int_equal(tk_realize_of(r.ctx)->queues, 1);
    }
    rt_close(&r);
}

static tolk_status open_again(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event;
    tolk_device **d = user;
    return tolk_device_open(r.ctx, "CPU:1", d, err);
}

static void test_a_device_that_is_being_destroyed_is_not_opened(void **state) {
    (void)state;
    open_n(2);
    tolk_device *d = opened("CPU:1"), *again = NULL;
    uint64_t id;
    assert_int_equal(tolk_hook_add(r.ctx, TOLK_HOOK_DEVICE_DESTROY, open_again, &again, &id, NULL),
                     TOLK_OK);
    assert_int_equal(tolk_device_destroy(d, NULL), TOLK_OK);
    assert_non_null(again);
    assert_ptr_not_equal(again, d);
    assert_int_equal(tolk_device_await(again, NULL), TOLK_OK);
    assert_ptr_equal(opened("CPU:1"), again);
    assert_int_equal(tolk_device_index(again), 1);
    assert_int_equal(tolk_device_index(d), -1);
    assert_int_equal(tolk_device_count(r.ctx), 2);
    rt_close(&r);
}

static void *open_all(void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++) {
        tolk_device *list[8];
        size_t n;
        tolk_limits limits;
        char *text;
        size_t len;
        if (tolk_device_list(r.ctx, NULL, list, 8, &n, NULL) || n != 4 ||
            tolk_family_limits(r.ctx, "CPU", &limits, NULL) || limits.devices != 4 ||
            tolk_static_properties(r.ctx, &text, &len))
            return (void *)1;
        tolk_free_text(r.ctx, text);
        for (size_t k = 0; k < n; k++) {
            if (tolk_device_debug_info(list[k], &text, &len))
                return (void *)1;
            tolk_free_text(r.ctx, text);
        }
    }
    return NULL;
}

static void test_first_calls_from_eight_threads(void **state) {
    (void)state;
    open_with(4, NULL, 0);
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&t[i], NULL, open_all, NULL), 0);
    for (int i = 0; i < 8; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    rt_close(&r);
}

static tolk_status use_all(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.cpu_devices = 3;
    o.no_environment = o.no_disk_cache = 1;
    tolk_ctx *ctx;
    if (tolk_ctx_create(&o, &ctx, NULL))
        return TOLK_E_NOMEM;
    tolk_device *d = NULL;
    tolk_limits limits;
    char *text = NULL;
    size_t len;
    tolk_status st = tolk_device_open(ctx, "CPU:2", &d, NULL);
    if (!st)
        st = tolk_family_limits(ctx, "CPU", &limits, NULL);
    if (!st && !(st = tolk_static_properties(ctx, &text, &len)))
        tolk_free_text(ctx, text);
    if (!st && !(st = tolk_debug_info(ctx, "CPU", &text, &len)))
        tolk_free_text(ctx, text);
    if (!st)
        st = tolk_device_reset(ctx, NULL);
    if (!st)
        st = tolk_device_destroy(d, NULL);
    if (!st)
        st = tolk_device_open(ctx, "CPU:2", &d, NULL);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory(void **state) {
    (void)state;
    assert_true(tk_test_oom(use_all, NULL) > 10);
}

static void test_too_many_devices_and_null_arguments_are_errors(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tolk_error err = TOLK_ERROR_INIT;
    o.cpu_devices = 257;
    assert_int_equal(tolk_ctx_create(&o, &ctx, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "257"));
    open_n(1);
    tolk_device *d;
    size_t n;
    tolk_limits limits;
    char *text;
    assert_int_equal(tolk_device_best(NULL, NULL, &d, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_best(r.ctx, NULL, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_list(r.ctx, NULL, NULL, 4, &n, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_list(r.ctx, NULL, &d, 1, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_family_limits(r.ctx, NULL, &limits, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_family_limits(r.ctx, "CPU", NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_static_properties(r.ctx, NULL, &n), TOLK_E_ARG);
    assert_int_equal(tolk_static_properties(NULL, &text, &n), TOLK_E_ARG);
    assert_int_equal(tolk_device_reset(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_destroy(NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_device_index(NULL), -1);
    assert_int_equal(tolk_device_uid(NULL), 0);
    assert_int_equal(tolk_device_is_of_backend(NULL, "CPU"), 0);
    assert_int_equal(tolk_device_is_of_backend(r.cpu, NULL), 0);
    rt_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_several_cpu_devices),
        cmocka_unit_test(test_S19_a_failing_probe_means_absent_and_no_memory_is_told),
        cmocka_unit_test(test_S20_S21_priorities_variants_and_predicates),
        cmocka_unit_test(test_an_emulator_is_never_chosen),
        cmocka_unit_test(test_S22_unknown_frameworks_are_named),
        cmocka_unit_test(test_O14_limits_are_the_least_and_start_nothing),
        cmocka_unit_test(test_O12_static_properties),
        cmocka_unit_test(test_S18_reset_renumbers_and_keeps_devices),
        cmocka_unit_test(test_destroyed_devices_say_so_and_come_back_with_another_uid),
        cmocka_unit_test(test_destroy_ends_a_device_whose_task_waited_for_itself),
        cmocka_unit_test(test_destroyed_devices_are_not_counted_as_queues),
        cmocka_unit_test(test_a_device_that_is_being_destroyed_is_not_opened),
        cmocka_unit_test(test_first_calls_from_eight_threads),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_too_many_devices_and_null_arguments_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
