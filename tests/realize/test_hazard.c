/* SPDX-License-Identifier: MIT
 *
 * Who waits for whom: work of different queues on the same bytes keeps the order in which it was
 * submitted, reads included; work on other bytes does not wait.
 */
#include "fake.h"

#include "realize/uses.h"

static tolk_ctx *ctx;
static tolk_device *d[4];
static tolk_error err;

static int setup(void **state) {
    (void)state;
    ctx = fake_ctx("4", NULL);
    static const char *const names[] = {"CPU", "CPU:1", "CPU:2", "CPU:3"};
    for (int i = 0; i < 4; i++)
        d[i] = fake_device(ctx, names[i]);
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    ctx = NULL;
    return 0;
}

/* ---- the records alone ---- */

/* A queue of which `submitted` tickets were given out and `done` are done. */
typedef struct track {
    tk_queue *q;
    sem_t go[64];
    int done, submitted;
} track;

static tolk_status track_wait(void *arg, tolk_error *e) {
    (void)e;
    while (sem_wait(arg) != 0)
        ;
    return TOLK_OK;
}
static uint64_t track_submit(track *t) {
    tk_command c = {.run = track_wait, .arg = &t->go[t->submitted++]};
    uint64_t ticket;
    sem_init(c.arg, 0, 0);
    assert_int_equal(tk_queue_submit(t->q, &c, &ticket, &err), TOLK_OK);
    return ticket;
}
static void track_finish(track *t, uint64_t first) {
    sem_post(&t->go[t->done++]);
    assert_int_equal(tk_queue_wait(t->q, first + (uint64_t)t->done - 1, &err), TOLK_OK);
}

static void test_records_never_lose_a_use(void **state) {
    (void)state;
    enum { QUEUES = 4, STEPS = 160, BYTES = 64 };
    uint64_t rng = tk_test_seed();
    for (uint64_t round = tk_test_count(1000); round-- > 0;) {
        track t[QUEUES];
        uint64_t first[QUEUES];
        memset(t, 0, sizeof t);
        for (int i = 0; i < QUEUES; i++) {
            t[i].q = d[i]->realize->queue;
            first[i] = tk_queue_now(t[i].q) + 1;
        }
        tk_uses u;
        tk_uses_init(&u);
        static struct {
            int queue;
            uint64_t ticket;
            size_t from, to;
            bool writes;
        } all[STEPS];
        size_t n = 0;
        for (int step = 0; step < STEPS; step++) {
            int i = (int)(tk_test_rand(&rng) % QUEUES);
            size_t a = tk_test_rand(&rng) % BYTES, b = tk_test_rand(&rng) % (BYTES + 1);
            size_t from = a < b ? a : b, to = a < b ? b : a; /* may be empty */
            bool writes = tk_test_rand(&rng) % 2;
            if (tk_test_rand(&rng) % 4 == 0 && t[i].done < t[i].submitted) {
                track_finish(&t[i], first[i]);
            } else if (t[i].submitted < 60) {
                uint64_t ticket = track_submit(&t[i]);
                tk_uses_add(&u, from, to, writes, (tk_point){t[i].q, ticket});
                all[n].queue = i;
                all[n].ticket = ticket;
                all[n].from = from;
                all[n].to = to;
                all[n++].writes = writes;
                assert_true(u.n <= u.cap);
            }
            /* What a use of these bytes must wait for, by the list of all. */
            tk_point p[QUEUES];
            a = tk_test_rand(&rng) % BYTES;
            b = a + 1 + tk_test_rand(&rng) % (BYTES - a);
            writes = tk_test_rand(&rng) % 2;
            int except = (int)(tk_test_rand(&rng) % (QUEUES + 1));
            size_t found =
                tk_uses_find(&u, a, b, writes, except < QUEUES ? t[except].q : NULL, p, 0, QUEUES);
            for (size_t k = 0; k < found; k++)
                assert_true(except == QUEUES || p[k].queue != t[except].q);
            for (size_t k = 0; k < n; k++) {
                if (all[k].queue == except || tk_queue_done(t[all[k].queue].q, all[k].ticket) ||
                    all[k].from >= all[k].to || all[k].from >= b || all[k].to <= a ||
                    !(writes || all[k].writes))
                    continue;
                bool seen = false;
                for (size_t m = 0; m < found; m++)
                    seen |= p[m].queue == t[all[k].queue].q && p[m].ticket >= all[k].ticket;
                assert_true(seen);
            }
        }
        for (int i = 0; i < QUEUES; i++)
            while (t[i].done < t[i].submitted)
                track_finish(&t[i], first[i]);
        tk_uses_fini(&u, &ctx->al);
    }
}

static void test_records_are_exact_while_there_is_room(void **state) {
    (void)state;
    track t[2];
    memset(t, 0, sizeof t);
    tk_uses u;
    tk_uses_init(&u);
    uint64_t first[2];
    for (int i = 0; i < 2; i++) {
        t[i].q = d[i]->realize->queue;
        first[i] = tk_queue_now(t[i].q) + 1;
    }
    tk_queue *a = t[0].q, *b = t[1].q;
    tk_uses_add(&u, 0, 8, true, (tk_point){a, track_submit(&t[0])});
    tk_uses_add(&u, 8, 16, false, (tk_point){a, track_submit(&t[0])});
    tk_point p[2];
    assert_int_equal(tk_uses_find(&u, 0, 8, false, b, p, 0, 2), 1); /* read after write */
    assert_true(p[0].queue == a && p[0].ticket == first[0]);
    assert_int_equal(tk_uses_find(&u, 7, 9, true, b, p, 0, 2), 1); /* the later of both */
    assert_true(p[0].ticket == first[0] + 1);
    assert_int_equal(tk_uses_find(&u, 8, 16, false, b, p, 0, 2), 0); /* read after read */
    assert_int_equal(tk_uses_find(&u, 8, 16, true, b, p, 0, 2), 1);  /* write after read */
    assert_int_equal(tk_uses_find(&u, 16, 99, true, b, p, 0, 2), 0); /* other bytes */
    assert_int_equal(tk_uses_find(&u, 8, 8, true, b, p, 0, 2), 0);   /* none */
    assert_int_equal(tk_uses_find(&u, 0, 16, true, a, p, 0, 2), 0);  /* its own */
    tk_uses_add(&u, 0, 4, true, (tk_point){a, track_submit(&t[0])}); /* both stay */
    assert_int_equal(tk_uses_find(&u, 4, 8, false, b, p, 0, 2), 1);
    assert_true(p[0].ticket == first[0]);
    tk_uses_add(&u, 0, 16, true, (tk_point){a, track_submit(&t[0])}); /* stands for them */
    assert_int_equal(u.n, 1);
    tk_uses_add(&u, 5, 5, true, (tk_point){a, first[0] + 3}); /* nothing */
    assert_int_equal(u.n, 1);
    tk_uses_add(&u, 0, 16, false, (tk_point){b, track_submit(&t[1])}); /* another queue's stays */
    assert_int_equal(u.n, 2);
    for (int i = 0; i < 4; i++)
        track_finish(&t[0], first[0]);
    assert_int_equal(tk_uses_find(&u, 0, 16, true, NULL, p, 0, 2), 1);
    track_finish(&t[1], first[1]);
    assert_int_equal(tk_uses_find(&u, 0, 16, true, NULL, p, 0, 2), 0);
    tk_uses_add(&u, 0, 1, false, (tk_point){a, first[0]}); /* what is done is forgotten */
    assert_int_equal(u.n, 1);
    tk_uses_fini(&u, &ctx->al);
}

/* ---- buffers on several devices ---- */

static tolk_buffer *filled(tolk_device *on, size_t n, int value) {
    tolk_buffer *b;
    uint8_t *p = malloc(n);
    assert_non_null(p);
    memset(p, value, n);
    assert_int_equal(tolk_buffer_create(on, TOLK_U8, n, NULL, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, p, n, &err), TOLK_OK);
    free(p);
    return b;
}
static tolk_buffer *view(tolk_buffer *b, size_t from, size_t n) {
    tolk_buffer *v;
    assert_int_equal(tolk_buffer_view(b, from, TOLK_U8, n, &v, &err), TOLK_OK);
    return v;
}
static void expect(tolk_buffer *b, int value) {
    tolk_buffer_info i;
    assert_int_equal(tolk_buffer_get_info(b, &i), TOLK_OK);
    uint8_t *p = malloc(i.bytes);
    assert_non_null(p);
    assert_int_equal(tolk_buffer_copyout(b, 0, p, i.bytes, &err), TOLK_OK);
    for (size_t k = 0; k < i.bytes; k++)
        assert_int_equal(p[k], value);
    free(p);
}

static tolk_status overwrite(void *arg, tolk_error *e) {
    tolk_buffer_info i;
    uint8_t p[64];
    memset(p, 9, sizeof p);
    tolk_status st = tolk_buffer_get_info(arg, &i);
    return st ? st : tolk_buffer_copyin(arg, 0, p, i.bytes, e);
}
static tolk_status read_it(void *arg, tolk_error *e) {
    tolk_buffer_info i;
    uint8_t p[64];
    tolk_status st = tolk_buffer_get_info(arg, &i);
    return st ? st : tolk_buffer_copyout(arg, 0, p, i.bytes, e);
}
static tolk_status map_it(void *arg, tolk_error *e) {
    void *at;
    return tolk_buffer_map(arg, &at, e);
}

static void test_a_write_waits_for_readers_on_other_queues(void **state) {
    (void)state;
    tolk_buffer *src = filled(d[0], 64, 1), *dst = filled(d[1], 64, 2);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_OK); /* reads src, later */
    call c, r;
    call_start(&r, read_it, src); /* a reader does not wait */
    assert_int_equal(call_end(&r), TOLK_OK);
    call_start(&c, overwrite, src);
    assert_true(call_waits(&c));
    gate_open(&g);
    assert_int_equal(call_end(&c), TOLK_OK);
    expect(dst, 1);
    expect(src, 9);
    tolk_buffer_unref(src);
    tolk_buffer_unref(dst);
}

static void test_other_bytes_do_not_wait(void **state) {
    (void)state;
    tolk_buffer *src = filled(d[0], 64, 1), *dst = filled(d[1], 32, 2);
    tolk_buffer *low = view(src, 0, 32), *high = view(src, 32, 32);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_buffer_copy(dst, low, &err), TOLK_OK);
    assert_int_equal(overwrite(high, &err), TOLK_OK); /* would hang here */
    assert_int_equal(map_it(high, &err), TOLK_OK);
    call c;
    call_start(&c, map_it, low);
    assert_true(call_waits(&c));
    gate_open(&g);
    assert_int_equal(call_end(&c), TOLK_OK);
    expect(dst, 1);
    expect(high, 9);
    tolk_buffer *all[] = {low, high, src, dst};
    for (int i = 0; i < 4; i++)
        tolk_buffer_unref(all[i]);
}

static void test_a_read_waits_for_the_writer(void **state) {
    (void)state;
    tolk_buffer *a = filled(d[0], 64, 1), *b = filled(d[1], 64, 2), *c = filled(d[2], 64, 3);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK); /* on queue 1 */
    assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK); /* on queue 2, after it */
    usleep(20000);
    assert_false(tolk_device_is_idle(d[2]));
    gate_open(&g);
    expect(c, 1);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(c);
}

static void test_a_chain_of_copies_over_three_queues(void **state) {
    (void)state;
    tolk_buffer *a = filled(d[0], 64, 1), *mid = filled(d[1], 64, 2), *b = filled(d[2], 64, 5);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_buffer_copy(mid, a, &err), TOLK_OK);
    call c;
    call_start(&c, overwrite, mid); /* the same queue: in its order */
    assert_true(call_waits(&c));
    assert_int_equal(tolk_buffer_copy(a, b, &err), TOLK_OK); /* waits for queue 1 to read a */
    usleep(20000);
    assert_false(tolk_device_is_idle(d[0]));
    gate_open(&g);
    assert_int_equal(call_end(&c), TOLK_OK);
    expect(a, 5);
    expect(mid, 9);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(mid);
}

static void test_zeros_of_a_pool_wait_for_readers(void **state) {
    (void)state;
    tolk_buffer *p, *dst = filled(d[1], 32, 2);
    uint8_t ones[64];
    memset(ones, 1, sizeof ones);
    assert_int_equal(tolk_pool_alloc(d[0], 1, 64, 64, TOLK_POOL_DEFAULT, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_in_pool(d[0], 1, 16, TOLK_U8, 32, &p, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(p, 0, ones, 32, &err), TOLK_OK);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_buffer_copy(dst, p, &err), TOLK_OK);
    assert_int_equal(tolk_memset_zero(d[0], 1, 48, 16, &err), TOLK_OK);
    assert_int_equal(tolk_device_await(d[0], &err), TOLK_OK); /* other bytes */
    assert_int_equal(tolk_memset_zero(d[0], 1, 40, 24, &err), TOLK_OK);
    usleep(20000);
    assert_false(tolk_device_is_idle(d[0]));
    gate_open(&g);
    expect(dst, 1);
    assert_int_equal(tolk_device_await(d[0], &err), TOLK_OK);
    uint8_t back[32];
    assert_int_equal(tolk_buffer_copyout(p, 0, back, 32, &err), TOLK_OK);
    for (int i = 0; i < 32; i++)
        assert_int_equal(back[i], i < 24 ? 1 : 0);
    tolk_buffer_unref(p);
    tolk_buffer_unref(dst);
}

/* A device that is destroyed with work that it never did is no reason to wait for ever. */
static void test_a_destroyed_device_holds_nobody_up(void **state) {
    (void)state;
    tolk_buffer *src = filled(d[0], 64, 1), *dst = filled(d[1], 64, 2);
    gate g;
    gate_close(&g, d[1]);
    assert_int_equal(tolk_queue_submit(d[1], fail_task, NULL, NULL, "bad", &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(dst, src, &err), TOLK_OK);
    gate_open(&g);
    assert_int_equal(tolk_device_await(d[1], &err), TOLK_E_IO);
    assert_int_equal(overwrite(src, &err), TOLK_E_IO); /* as long as it might still be asked for */
    assert_int_equal(tolk_device_recover(d[0], &err), TOLK_OK);
    assert_int_equal(tolk_device_destroy(d[1], &err), TOLK_E_IO);
    assert_int_equal(overwrite(src, &err), TOLK_OK);
    expect(src, 9);
    tolk_buffer_unref(src);
    tolk_buffer_unref(dst);
}

/* Many queues on one memory: more than the records that it comes with. */
static void test_many_queues_read_one_buffer(void **state) {
    (void)state;
    enum { N = 24 };
    tolk_ctx *many = fake_ctx("24", NULL);
    tolk_device *dev[N];
    tolk_buffer *dst[N];
    gate g[N];
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "CPU:%d", i);
        dev[i] = fake_device(many, name);
        dst[i] = filled(dev[i], 4096, 2);
    }
    tolk_buffer *src = filled(dev[0], 4096, 1),
                *part[2] = {view(src, 0, 2048), view(src, 2048, 64)};
    for (int i = 1; i < N; i++) {
        gate_close(&g[i], dev[i]);
        assert_int_equal(tolk_buffer_copy(dst[i], src, &err), TOLK_OK);
    }
    call c[2];
    call_start(&c[0], overwrite, part[1]);
    for (int i = N - 1; i > 0; i--) {
        assert_true(i % 8 ? !c[0].done : call_waits(&c[0])); /* for the last one of them */
        gate_open(&g[i]);
    }
    assert_int_equal(call_end(&c[0]), TOLK_OK);
    for (int i = 1; i < N; i++)
        expect(dst[i], 1);
    expect(part[1], 9);
    expect(part[0], 1);
    tolk_buffer_unref(part[0]);
    tolk_buffer_unref(part[1]);
    tolk_buffer_unref(src);
    for (int i = 0; i < N; i++)
        tolk_buffer_unref(dst[i]);
    tolk_ctx_destroy(many);
}

/* Random copies between parts of buffers of four devices, against the same on one thread at once.
 */
static void test_random_copies_keep_the_order_of_submission(void **state) {
    (void)state;
    enum { BUFFERS = 6, BYTES = 256 };
    uint64_t rng = tk_test_seed() + 1;
    for (uint64_t round = tk_test_count(400); round-- > 0;) {
        tolk_buffer *b[BUFFERS];
        uint8_t model[BUFFERS][BYTES];
        for (int i = 0; i < BUFFERS; i++) {
            b[i] = filled(d[i % 4], BYTES, i);
            memset(model[i], i, BYTES);
        }
        gate g[4];
        for (int i = 0; i < 4; i++)
            gate_close(&g[i], d[i]);
        for (int step = 0; step < 60; step++) {
            size_t to = tk_test_rand(&rng) % BUFFERS, from = tk_test_rand(&rng) % BUFFERS;
            size_t n = 1 + tk_test_rand(&rng) % 64;
            size_t at = tk_test_rand(&rng) % (BYTES - n), of = tk_test_rand(&rng) % (BYTES - n);
            tolk_buffer *v = view(b[to], at, n), *w = view(b[from], of, n);
            assert_int_equal(tolk_buffer_copy(v, w, &err), TOLK_OK);
            memmove(model[to] + at, model[from] + of, n);
            tolk_buffer_unref(v);
            tolk_buffer_unref(w);
            if (step % 15 == 14)
                gate_open(&g[tk_test_rand(&rng) % 4]);
        }
        for (int i = 0; i < 4; i++)
            gate_open(&g[i]);
        for (int i = 0; i < BUFFERS; i++) {
            uint8_t back[BYTES];
            assert_int_equal(tolk_buffer_copyout(b[i], 0, back, BYTES, &err), TOLK_OK);
            assert_memory_equal(back, model[i], BYTES);
            tolk_buffer_unref(b[i]);
        }
        for (int i = 0; i < 4; i++)
            assert_int_equal(tolk_device_await(d[i], &err), TOLK_OK);
    }
}

/* Threads that copy to and fro between two buffers of two devices: what is there is always what one
 * copy wrote, whole. */
static tolk_buffer *ping, *pong;

static void *copy_around(void *arg) {
    uint64_t rng = (uint64_t)(uintptr_t)arg;
    enum { N = 40000 };
    uint8_t *p = malloc(N);
    for (int i = 0; i < 100; i++) {
        tolk_status st;
        switch (tk_test_rand(&rng) % 4) {
        case 0:
            st = tolk_buffer_copy(ping, pong, NULL);
            break;
        case 1:
            st = tolk_buffer_copy(pong, ping, NULL);
            break;
        case 2:
            memset(p, (int)(tk_test_rand(&rng) & 0xff), N);
            st = tolk_buffer_copyin(i & 1 ? ping : pong, 0, p, N, NULL);
            break;
        default:
            st = tolk_buffer_copyout(i & 1 ? ping : pong, 0, p, N, NULL);
            for (int k = 1; k < N; k++)
                assert_int_equal(p[k], p[0]);
        }
        assert_int_equal(st, TOLK_OK);
    }
    free(p);
    return NULL;
}

static void test_threads_see_whole_copies(void **state) {
    (void)state;
    ping = filled(d[0], 40000, 1);
    pong = filled(d[1], 40000, 2);
    pthread_t t[6];
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&t[i], NULL, copy_around, (void *)(i + 1)), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    tolk_buffer_unref(ping);
    tolk_buffer_unref(pong);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_records_never_lose_a_use),
        T(test_records_are_exact_while_there_is_room),
        T(test_a_write_waits_for_readers_on_other_queues),
        T(test_other_bytes_do_not_wait),
        T(test_a_read_waits_for_the_writer),
        T(test_a_chain_of_copies_over_three_queues),
        T(test_zeros_of_a_pool_wait_for_readers),
        T(test_a_destroyed_device_holds_nobody_up),
        T(test_many_queues_read_one_buffer),
        T(test_random_copies_keep_the_order_of_submission),
        T(test_threads_see_whole_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
