/* SPDX-License-Identifier: MIT
 *
 * Copies: between host and device, between buffers of any two devices, in the order of queues, and
 * what happens when they cannot. Ids are those of the behaviour lists this project tests against.
 */
#include "fake.h"

static tolk_ctx *ctx;
static fake near, far, plain, remote;
static tolk_device *dev, *cpu;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    ctx = fake_ctx("2", NULL);
    fake_add(ctx, &near, "NEAR", 2, true, true);
    fake_add(ctx, &far, "FAR", 2, false, true);
    fake_add(ctx, &plain, "PLAIN", 1, true, false);
    fake_add(ctx, &remote, "REMOTE", 1, false, false);
    dev = fake_device(ctx, "NEAR");
    cpu = fake_device(ctx, "CPU");
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    ctx = NULL;
    assert_int_equal(near.live + far.live + plain.live + remote.live, 0);
    return 0;
}

static tolk_buffer *bytes_on(tolk_device *d, size_t n) {
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_create(d, TOLK_U8, n, NULL, &b, &err), TOLK_OK);
    return b;
}

static uint8_t *noise(size_t n, uint64_t seed) {
    uint8_t *p = malloc(n ? n : 1);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)tk_test_rand(&seed);
    return p;
}

static void put(tolk_buffer *b, size_t offset, const void *p, size_t n) {
    assert_int_equal(tolk_buffer_copyin(b, offset, p, n, &err), TOLK_OK);
}

static void expect(tolk_buffer *b, size_t offset, const uint8_t *p, size_t n) {
    uint8_t *back = malloc(n);
    assert_non_null(back);
    memset(back, 0x33, n);
    assert_int_equal(tolk_buffer_copyout(b, offset, back, n, &err), TOLK_OK);
    assert_memory_equal(back, p, n);
    free(back);
}

/* ---- between host and device ---- */

static void test_O6_in_and_out_at_an_offset(void **state) {
    (void)state;
    static const char *const names[] = {"CPU", "NEAR", "FAR:1", "PLAIN", "REMOTE"};
    uint8_t *p = noise(1000, 1), *q = noise(300, 2);
    for (size_t i = 0; i < 5; i++) {
        tolk_buffer *b = bytes_on(fake_device(ctx, names[i]), 1000);
        put(b, 0, p, 1000);
        put(b, 123, q, 300);
        expect(b, 0, p, 123);
        expect(b, 123, q, 300);
        expect(b, 423, p + 423, 577);
        tolk_buffer_unref(b);
    }
    free(p);
    free(q);
}

static void test_what_is_no_copy(void **state) {
    (void)state;
    tolk_buffer *b = bytes_on(dev, 100);
    uint8_t x[200] = {0};
    assert_int_equal(tolk_buffer_copyin(NULL, 0, x, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_copyin(b, 0, NULL, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_copyout(b, 0, NULL, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 101, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, "101"));
    assert_int_equal(tolk_buffer_copyin(b, 100, x, 1, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_copyin(b, 101, x, 0, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_copyout(b, SIZE_MAX, x, 2, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_copyout(b, 2, x, SIZE_MAX, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_copyin(b, 100, x, 0, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 101, NULL), TOLK_E_RANGE);
    assert_int_equal(near.calls[FAKE_ALLOC] + near.calls[FAKE_IN] + near.calls[FAKE_OUT], 0);
    tolk_buffer_unref(b);
}

static void test_an_idle_queue_needs_no_memory(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.allocator = &heap.al;
    tolk_ctx *c;
    assert_int_equal(tolk_ctx_create(&o, &c, NULL), TOLK_OK);
    tolk_buffer *b = bytes_on(fake_device(c, "CPU"), 1000),
                *d = bytes_on(tk_buffer_device(b), 1000);
    uint8_t x[1000] = {1, 2, 3};
    put(b, 0, x, 1000);
    put(d, 0, x, 1000);
    heap.fail_at = heap.calls + 1;
    heap.fail_onward = true;
    put(b, 0, x, 1000);
    assert_int_equal(tolk_buffer_copyout(b, 0, x, 1000, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(d, b, &err), TOLK_OK); /* it is small */
    heap.fail_at = 0;
    tolk_buffer_unref(b);
    tolk_buffer_unref(d);
    tolk_ctx_destroy(c);
    assert_int_equal(heap.live, 0);
}

static void test_host_copies_keep_the_order_of_the_queue(void **state) {
    (void)state;
    tolk_buffer *a = bytes_on(dev, 64), *b = bytes_on(dev, 64);
    uint8_t ones[64], twos[64];
    memset(ones, 1, 64);
    memset(twos, 2, 64);
    put(a, 0, ones, 64);
    put(b, 0, ones, 64);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK);
    usleep(1000);
    gate_open(&g);
    put(a, 0, twos, 64); /* after the copy that reads it */
    expect(b, 0, ones, 64);
    expect(a, 0, twos, 64);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
}

/* ---- from inside of tasks ---- */

typedef struct inside {
    tolk_buffer *b;
    uint8_t x[8], y[8];
    tolk_status in, out;
    tolk_error err;
    sem_t go;
} inside;

static tolk_status both_ways(void *arg, tolk_error *e) {
    inside *i = arg;
    (void)e;
    i->in = tolk_buffer_copyin(i->b, 0, i->x, 8, &i->err);
    if (i->in == TOLK_OK)
        i->out = tolk_buffer_copyout(i->b, 0, i->y, 8, &i->err);
    return TOLK_OK;
}

static void test_a_task_copies_on_its_own_queue(void **state) {
    (void)state;
    inside i = {.b = bytes_on(dev, 8), .x = {1, 2, 3, 4, 5, 6, 7, 8}};
    assert_int_equal(tolk_queue_submit(dev, both_ways, &i, NULL, "task", &err), TOLK_OK);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(i.in, TOLK_OK);
    assert_int_equal(i.out, TOLK_OK);
    assert_memory_equal(i.x, i.y, 8);
    expect(i.b, 0, i.x, 8);
    tolk_buffer_unref(i.b);
}

static void test_a_task_copies_on_another_queue(void **state) {
    (void)state;
    tolk_device *other = fake_device(ctx, "NEAR:1");
    inside i = {.b = bytes_on(other, 8), .x = {1, 2, 3, 4, 5, 6, 7, 8}};
    gate g;
    gate_close(&g, other);
    assert_int_equal(tolk_queue_submit(dev, both_ways, &i, NULL, "task", &err), TOLK_OK);
    usleep(10000);
    gate_open(&g);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_true(i.in == TOLK_OK && i.out == TOLK_OK);
    assert_memory_equal(i.x, i.y, 8);
    tolk_buffer_unref(i.b);
}

static tolk_status when_told(void *arg, tolk_error *e) {
    inside *i = arg;
    while (sem_wait(&i->go) != 0)
        ;
    return both_ways(arg, e);
}

static void test_a_task_does_not_wait_for_what_is_behind_it(void **state) {
    (void)state;
    inside i = {.b = bytes_on(dev, 8), .x = {1, 2, 3, 4, 5, 6, 7, 8}};
    sem_init(&i.go, 0, 0);
    tolk_buffer *c = bytes_on(dev, 8), *free_one = i.b;
    put(c, 0, i.x, 8);
    put(i.b, 0, i.x, 8);
    assert_int_equal(tolk_queue_submit(dev, when_told, &i, NULL, "task", &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(i.b, c, &err), TOLK_OK); /* writes it, later */
    sem_post(&i.go);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(i.in, TOLK_E_DEADLOCK);
    /* What is used by nobody behind it may be copied. */
    i.b = bytes_on(dev, 8);
    assert_int_equal(tolk_queue_submit(dev, when_told, &i, NULL, "task", &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(free_one, c, &err), TOLK_OK);
    sem_post(&i.go);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_true(i.in == TOLK_OK && i.out == TOLK_OK);
    tolk_buffer_unref(i.b);
    tolk_buffer_unref(c);
    tolk_buffer_unref(free_one);
}

/* Two tasks that copy on each other's queue: one is refused, and its copy never runs later on. */
typedef struct crossing {
    tolk_buffer *b;
    uint8_t *host;
    sem_t *mine, *other;
    tolk_status st;
} crossing;

static tolk_status cross(void *arg, tolk_error *e) {
    crossing *c = arg;
    (void)e;
    sem_post(c->mine);
    while (sem_wait(c->other) != 0)
        ;
    c->st = tolk_buffer_copyout(c->b, 0, c->host, 8, NULL);
    free(c->host); /* a copy that runs after this is seen by ASan */
    return TOLK_OK;
}

static void test_two_tasks_that_wait_for_each_other(void **state) {
    (void)state;
    tolk_device *d[2] = {dev, fake_device(ctx, "NEAR:1")};
    sem_t s[2];
    crossing c[2];
    for (int i = 0; i < 2; i++) {
        sem_init(&s[i], 0, 0);
        c[i] = (crossing){.b = bytes_on(d[1 - i], 8), .host = malloc(8)};
        put(c[i].b, 0, "12345678", 8);
    }
    for (int i = 0; i < 2; i++) {
        c[i].mine = &s[i];
        c[i].other = &s[1 - i];
        assert_int_equal(tolk_queue_submit(d[i], cross, &c[i], NULL, "cross", &err), TOLK_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(tolk_device_await(d[i], &err), TOLK_OK);
    assert_true((c[0].st == TOLK_E_DEADLOCK) + (c[1].st == TOLK_E_DEADLOCK) == 1);
    assert_true((c[0].st == TOLK_OK) + (c[1].st == TOLK_OK) == 1);
    tolk_buffer_unref(c[0].b);
    tolk_buffer_unref(c[1].b);
}

/* ---- between buffers ---- */

typedef struct pair {
    const char *dst, *src;
    bool native;
} pair;

static void test_K1_the_hook_within_a_family_and_host_memory_else(void **state) {
    (void)state;
    static const pair pairs[] = {
        {"NEAR", "NEAR", true},    {"NEAR:1", "NEAR", true}, {"FAR", "FAR:1", true},
        {"NEAR", "FAR", false},    {"FAR", "NEAR", false},   {"FAR", "REMOTE", false},
        {"REMOTE", "FAR", false},  {"CPU", "FAR", false},    {"REMOTE", "CPU", false},
        {"PLAIN", "PLAIN", false}, {"PLAIN", "CPU", false},  {"REMOTE", "REMOTE", false},
        {"CPU:1", "CPU", true},
    };
    const size_t sizes[] = {1, 1000, (1 << 20) - 1, 1 << 20, (5 << 20) + 13};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            tolk_buffer *src = bytes_on(fake_device(ctx, pairs[i].src), n);
            tolk_buffer *dst = bytes_on(fake_device(ctx, pairs[i].dst), n);
            uint8_t *p = noise(n, k);
            put(src, 0, p, n);
            int before = near.calls[FAKE_TRANSFER] + far.calls[FAKE_TRANSFER];
            near.most = far.most = plain.most = remote.most = 0;
            assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_OK);
            assert_int_equal(tolk_device_await(tk_buffer_device(dst), &err), TOLK_OK);
            bool cpus = pairs[i].dst[0] == 'C' && pairs[i].native;
            assert_int_equal(near.calls[FAKE_TRANSFER] + far.calls[FAKE_TRANSFER],
                             before + (pairs[i].native && !cpus));
            if (strcmp(pairs[i].dst, "REMOTE") == 0 && strcmp(pairs[i].src, "FAR") == 0)
                assert_true(remote.most <= 1 << 20); /* piece by piece */
            expect(dst, 0, p, n);
            free(p);
            tolk_buffer_unref(src);
            tolk_buffer_unref(dst);
        }
    assert_int_equal(plain.calls[FAKE_TRANSFER] + remote.calls[FAKE_TRANSFER], 0);
}

static void test_a_copy_into_a_view_leaves_the_rest(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"NEAR", "NEAR"}, {"NEAR", "FAR"}, {"CPU:1", "CPU"}, {"CPU", "REMOTE"}, {"PLAIN", "CPU"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tolk_buffer *whole = bytes_on(fake_device(ctx, pairs[i][0]), 100), *part;
        tolk_buffer *src = bytes_on(fake_device(ctx, pairs[i][1]), 20);
        uint8_t *p = noise(100, 1), *q = noise(20, 2);
        put(whole, 0, p, 100);
        put(src, 0, q, 20);
        assert_int_equal(tolk_buffer_view(whole, 10, TOLK_U8, 20, &part, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copy(part, src, &err), TOLK_OK);
        memcpy(p + 10, q, 20);
        expect(whole, 0, p, 100);
        expect(src, 0, q, 20);
        tolk_buffer_info info;
        assert_int_equal(tolk_buffer_get_info(part, &info), TOLK_OK);
        assert_true(info.n == 20 && info.dtype == TOLK_U8 && info.offset == 10);
        free(p);
        free(q);
        tolk_buffer_unref(part);
        tolk_buffer_unref(whole);
        tolk_buffer_unref(src);
    }
}

static void test_K1_sizes_and_dtypes_are_compared_before_anything_moves(void **state) {
    (void)state;
    tolk_buffer *f4, *f5, *i4, *u16, *c12, *c6;
    assert_int_equal(tolk_alloc_f32(dev, 4, &f4, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_f32(dev, 5, &f5, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_i32(dev, 4, &i4, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_create(dev, TOLK_U8, 16, NULL, &u16, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_custom(dev, 2, 12, &c12, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_custom(dev, 4, 6, &c6, &err), TOLK_OK);
    put(f4, 0, "0123456789abcde", 16);
    put(f5, 0, "0123456789abcde", 16);
    put(c12, 0, "0123456789abcde", 16);
    assert_int_equal(tolk_buffer_copy(f5, f4, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, "20"));
    assert_int_equal(tolk_buffer_copy(f4, f5, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_copy(i4, f4, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_copy(u16, f4, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_copy(c6, c12, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_copy(NULL, f4, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_copy(f4, NULL, &err), TOLK_E_ARG);
    assert_int_equal(near.calls[FAKE_TRANSFER], 0);
    tolk_buffer *all[] = {f4, f5, i4, u16, c12, c6};
    for (int i = 0; i < 6; i++)
        tolk_buffer_unref(all[i]);
}

static void test_a_source_without_memory(void **state) {
    (void)state;
    tolk_buffer *a = bytes_on(dev, 8), *b = bytes_on(dev, 8), *none = bytes_on(dev, 0), *n2;
    n2 = bytes_on(dev, 0);
    assert_int_equal(tolk_buffer_copy(a, b, &err), TOLK_E_UNBOUND);
    assert_int_equal(near.calls[FAKE_ALLOC], 0);
    assert_int_equal(tolk_buffer_copy(none, n2, &err), TOLK_OK);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(none);
    tolk_buffer_unref(n2);
}

static void test_a_buffer_of_another_context(void **state) {
    (void)state;
    tolk_ctx *other = fake_ctx("1", NULL);
    tolk_buffer *a = bytes_on(cpu, 8), *b = bytes_on(fake_device(other, "CPU"), 8);
    put(b, 0, "1234567", 8);
    assert_int_equal(tolk_buffer_copy(a, b, &err), TOLK_E_DEVICE);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_ctx_destroy(other);
}

static void test_parts_of_the_same_memory_may_overlap(void **state) {
    (void)state;
    static const char *const names[] = {"CPU", "NEAR", "FAR", "PLAIN", "REMOTE"};
    const size_t shifts[] = {0, 1, 4096, 1 << 20, (1 << 20) + 1};
    enum { N = (3 << 20) + 77 };
    uint8_t *p = noise(2 * N, 5), *want = malloc(2 * N);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 10; k++) {
            tolk_buffer *b = bytes_on(fake_device(ctx, names[i]), 2 * N), *dst, *src;
            size_t from = k & 1 ? shifts[k / 2] : 100, to = k & 1 ? 100 : shifts[k / 2];
            put(b, 0, p, 2 * N);
            assert_int_equal(tolk_buffer_view(b, from, TOLK_U8, N, &src, &err), TOLK_OK);
            assert_int_equal(tolk_buffer_view(b, to, TOLK_U8, N, &dst, &err), TOLK_OK);
            assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_OK);
            memcpy(want, p, 2 * N);
            memmove(want + to, want + from, N);
            expect(b, 0, want, 2 * N);
            tolk_buffer_unref(src);
            tolk_buffer_unref(dst);
            tolk_buffer_unref(b);
        }
    free(p);
    free(want);
}

/* ---- what fails ---- */

static void test_each_failing_call_stops_the_queue_once(void **state) {
    (void)state;
    static const struct {
        const char *dst, *src;
        fake *f;
        fake_call call;
    } rows[] = {
        {"NEAR", "NEAR:1", &near, FAKE_TRANSFER}, {"FAR", "REMOTE", &far, FAKE_IN},
        {"FAR", "REMOTE", &remote, FAKE_OUT},     {"FAR", "CPU", &far, FAKE_IN},
        {"CPU", "FAR", &far, FAKE_OUT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int big = 0; big < 2; big++) {
            size_t n = big ? 3 << 20 : 64;
            tolk_device *d = fake_device(ctx, rows[i].dst);
            tolk_buffer *src = bytes_on(fake_device(ctx, rows[i].src), n), *dst = bytes_on(d, n);
            uint8_t *p = noise(n, 3);
            put(src, 0, p, n);
            rows[i].f->fail[rows[i].call] = rows[i].f->calls[rows[i].call] + 1;
            tolk_status st = tolk_buffer_copy(dst, src, &err);
            assert_true(st == TOLK_OK || st == TOLK_E_IO); /* the latter: it ran at once */
            assert_int_equal(tolk_device_await(d, &err), TOLK_E_IO);
            assert_non_null(strstr(err.msg, "the fake failed"));
            uint8_t x;
            assert_int_equal(tolk_buffer_copyout(dst, 0, &x, 1, &err), TOLK_E_IO);
            assert_int_equal(tolk_buffer_copyin(dst, 0, &x, 0, &err), TOLK_E_IO);
            assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_E_IO);
            assert_int_equal(tolk_device_recover(d, &err), TOLK_OK);
            assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_OK);
            expect(dst, 0, p, n);
            free(p);
            tolk_buffer_unref(src);
            tolk_buffer_unref(dst);
        }
}

static void test_a_failing_host_copy_stops_the_queue(void **state) {
    (void)state;
    for (int queued = 0; queued < 2; queued++)
        for (int in = 0; in < 2; in++) {
            tolk_buffer *b = bytes_on(dev, 8);
            put(b, 0, "1234567", 8);
            fake_call c = in ? FAKE_IN : FAKE_OUT;
            near.fail[c] = near.calls[c] + 1;
            gate g;
            uint8_t x[8] = {0};
            if (queued) {
                gate_close(&g, dev);
                gate_open(&g);
            }
            assert_int_equal(in ? tolk_buffer_copyin(b, 0, x, 8, &err)
                                : tolk_buffer_copyout(b, 0, x, 8, &err),
                             TOLK_E_IO);
            assert_non_null(strstr(err.msg, "the fake failed"));
            assert_int_equal(tolk_device_await(dev, &err), TOLK_E_IO);
            assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
            tolk_buffer_unref(b);
        }
}

static tolk_status copy_out(void *arg, tolk_error *e) {
    static uint8_t x[8];
    return tolk_buffer_copyout(arg, 0, x, 8, e);
}

static void test_a_copy_behind_a_failing_task_returns_its_error(void **state) {
    (void)state;
    tolk_buffer *b = bytes_on(dev, 8);
    put(b, 0, "1234567", 8);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_queue_submit(dev, fail_task, NULL, NULL, "bad", &err), TOLK_OK);
    call c;
    call_start(&c, copy_out, b);
    assert_true(call_waits(&c));
    int before = near.calls[FAKE_OUT];
    gate_open(&g);
    assert_int_equal(call_end(&c), TOLK_E_IO);
    assert_non_null(strstr(c.err.msg, "the task failed"));
    assert_int_equal(near.calls[FAKE_OUT], before);
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
    assert_int_equal(copy_out(b, &err), TOLK_OK);
    tolk_buffer_unref(b);
}

static void test_copies_behind_a_failing_task_give_up_their_memory(void **state) {
    (void)state;
    tolk_buffer *a = bytes_on(dev, 1 << 20), *b = bytes_on(dev, 1 << 20);
    put(a, 0, "1234567", 8);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_queue_submit(dev, fail_task, NULL, NULL, "bad", &err), TOLK_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_device_used_memory(dev), 2 << 20);
    gate_open(&g);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_E_IO);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
}

/* The source's queue is stopped before it wrote: who reads it stops, too. */
static void test_a_copy_of_what_was_never_written_fails(void **state) {
    (void)state;
    tolk_device *other = fake_device(ctx, "NEAR:1");
    tolk_buffer *a = bytes_on(dev, 8), *b = bytes_on(dev, 8), *c = bytes_on(other, 8);
    put(a, 0, "1234567", 8);
    put(b, 0, "1234567", 8);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_queue_submit(dev, fail_task, NULL, NULL, "bad", &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK);
    gate_open(&g);
    assert_int_equal(tolk_device_await(other, &err), TOLK_E_IO);
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
    assert_int_equal(tolk_device_recover(other, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK);
    expect(c, 0, (const uint8_t *)"1234567", 8);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(c);
}

static tolk_status use_copies(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.allocator = al;
    o.log = fake_log;
    static uint8_t x[3 << 20];
    tolk_ctx *c;
    tolk_device *d = NULL, *e = NULL;
    tolk_buffer *a = NULL, *b = NULL;
    fake far_one, far_two;
    tolk_status st = tolk_ctx_create(&o, &c, NULL), end = TOLK_OK;
    if (st != TOLK_OK)
        return st;
    st = fake_try_add(c, &far_one, "ONE", 1, false, false);
    if (st == TOLK_OK)
        st = fake_try_add(c, &far_two, "TWO", 1, false, false);
    if (st == TOLK_OK)
        st = tolk_device_open(c, "ONE", &d, NULL);
    if (st == TOLK_OK)
        st = tolk_device_open(c, "TWO", &e, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_create(d, TOLK_U8, sizeof x, NULL, &a, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_create(e, TOLK_U8, sizeof x, NULL, &b, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copyin(a, 0, x, sizeof x, NULL);
    for (int i = 0; st == TOLK_OK && i < 3; i++)
        st = tolk_buffer_copy(b, a, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copyout(b, 0, x, sizeof x, NULL);
    if (e)
        end = tolk_device_await(e, NULL);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_ctx_destroy(c);
    return st != TOLK_OK ? st : end;
}

static void test_oom_of_copies(void **state) {
    (void)state;
    setenv("TOLK_CPU_DEVICES", "1", 1);
    tk_test_oom(use_copies, NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_O6_in_and_out_at_an_offset),
        T(test_what_is_no_copy),
        T(test_an_idle_queue_needs_no_memory),
        T(test_host_copies_keep_the_order_of_the_queue),
        T(test_a_task_copies_on_its_own_queue),
        T(test_a_task_copies_on_another_queue),
        T(test_a_task_does_not_wait_for_what_is_behind_it),
        T(test_two_tasks_that_wait_for_each_other),
        T(test_K1_the_hook_within_a_family_and_host_memory_else),
        T(test_a_copy_into_a_view_leaves_the_rest),
        T(test_K1_sizes_and_dtypes_are_compared_before_anything_moves),
        T(test_a_source_without_memory),
        T(test_a_buffer_of_another_context),
        T(test_parts_of_the_same_memory_may_overlap),
        T(test_each_failing_call_stops_the_queue_once),
        T(test_a_failing_host_copy_stops_the_queue),
        T(test_a_copy_behind_a_failing_task_returns_its_error),
        T(test_copies_behind_a_failing_task_give_up_their_memory),
        T(test_a_copy_of_what_was_never_written_fails),
        T(test_oom_of_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
