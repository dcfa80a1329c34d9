/* SPDX-License-Identifier: MIT
 *
 * Queues without a thread or without memory, and what they keep of commands.
 */
#include "rig.h"

#include <pthread.h>

/* ---- what is not there ---- */

static bool no_thread(size_t stack_bytes, void *(*fn)(void *), void *arg, pthread_t *thread) {
    (void)stack_bytes;
    (void)fn;
    (void)arg;
    (void)thread;
    return false;
}
static void test_without_a_thread_submit_fails_and_changes_nothing(void **state) {
    (void)state;
    rig r;
    int counter = 0;
    static track released;
    step s = {NULL, &released, 1, TOLK_OK};
    tolk_error err;
    atomic_store(&released.n, 0);
    rig_open(&r, 1, false, 20);
    tk_queue *q = r.q[0];
    bool (*start)(size_t, void *(*)(void *), void *, pthread_t *) = q->start;
    q->start = no_thread;
    tk_command c = {.run = step_task, .release = step_release, .arg = &s, .label = "x"};
    assert_int_equal(tk_queue_submit(q, &c, NULL, &err), TOLK_E_NOMEM);
    assert_string_equal(err.msg, "device CPU: the system gives no thread for its queue");
    assert_int_equal(tk_queue_now(q), 0);
    assert_int_equal(released.n, 0);
    assert_int_equal(tk_queue_check(q, NULL), TOLK_OK);
    assert_true(tk_queue_enter(q, NULL, 0, NULL)); /* needs none */
    tk_queue_leave(q, TOLK_OK, NULL, "x");
    q->start = start;
    assert_int_equal(rig_submit(q, rig_add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(counter, 1);
    assert_int_equal(rig_close(&r), TOLK_OK);
}

/* Six points of other queues are more than a command has room for. */
static tolk_status exercise(const tolk_allocator *al, void *user) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx;
    tk_queue *q[8] = {NULL};
    gate g = {0};
    int counter = 0;
    tolk_status st = tk_ctx_init(&opts, &ctx, NULL), later;
    if (st)
        return st;
    for (int i = 0; i < 8 && !st; i++)
        st = tk_queue_create(ctx, "CPU", *(bool *)user, 5, &q[i], NULL);
    tk_point p[7];
    if (!st && *(bool *)user)
        tk_queue_delay();
    for (int i = 0; i < 7 && !st; i++) {
        p[i].queue = q[i];
        st = rig_submit(q[i], gate_task, &g, "g", &p[i].ticket);
    }
    if (!st) {
        tk_command c = {
            .run = rig_add_one, .arg = &counter, .label = "c", .after = p, .n_after = 7};
        st = tk_queue_submit(q[7], &c, NULL, NULL);
    }
    if (!st)
        assert_int_equal(counter, 0);
    atomic_store(&g.go, 1);
    if (q[7] && *(bool *)user)
        tk_queue_resume();
    bool submitted = !st;
    tolk_status broken = TOLK_E_IO;
    if (!st)
        st = tk_queue_await(q[7], NULL);
    if (!st)
        st = rig_submit(q[7], rig_fail_empty, &broken, "f", NULL);
    if (!st && (later = tk_queue_await(q[7], NULL)) != TOLK_E_IO)
        st = later;
    if (!st)
        st = tk_queue_recover(q[7], NULL);
    if (submitted)
        assert_int_equal(counter, 1);
    for (int i = 0; i < 8 && q[i]; i++) {
        tk_queue_close(q[i], NULL);
        tk_queue_free(q[i]);
    }
    tk_ctx_fini(ctx);
    return st;
}
static void test_every_allocation_may_fail(bool inline_only) {
    assert_true(tk_test_oom(exercise, &inline_only) > 10);
}
RIG_BOTH(test_every_allocation_may_fail)

/* A queue of a context whose memory the heap counts. */
static tk_queue *open_counted(tk_test_heap *heap, bool inline_only) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_queue *q;
    tk_test_heap_init(heap);
    opts.no_environment = 1;
    opts.allocator = &heap->al;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_queue_create(ctx, "CPU", inline_only, 20, &q, NULL), TOLK_OK);
    return q;
}

/* A closed queue and its context: nothing is left. */
static void free_counted(tk_queue *q, const tk_test_heap *heap) {
    tolk_ctx *ctx = q->ctx;
    tk_queue_free(q);
    tk_ctx_fini(ctx);
    assert_int_equal(heap->live, 0);
}

static tolk_status check_room(void *arg, tolk_error *err) {
    const unsigned char *room = arg;
    (void)err;
    for (size_t i = 1; i < 200; i++)
        if (room[i] != (unsigned char)(room[0] + i))
            return TOLK_E_INTERNAL;
    return TOLK_OK;
}

static void submit_room(tk_queue *q, size_t bytes, int first) {
    unsigned char *room = tk_queue_room(q, bytes);
    assert_non_null(room);
    assert_int_equal((uintptr_t)room % 8, 0);
    for (size_t i = 0; i < bytes; i++)
        room[i] = (unsigned char)(first + (int)i);
    tk_command c = {.run = check_room, .room = room, .label = "room"};
    assert_int_equal(tk_queue_submit(q, &c, NULL, NULL), TOLK_OK);
}

/* Of any size, in any order; and a large one makes no later one large. */
static void test_the_room_of_commands_is_kept(bool inline_only) {
    tk_test_heap heap;
    tk_queue *q = open_counted(&heap, inline_only);
    tk_queue_reserve(q, 3, 1000, 9);
    size_t calls = heap.calls;
    for (int i = 0; i < 300; i++) {
        submit_room(q, 200, i);
        submit_room(q, 1000, i + 1);
        submit_room(q, 201, i + 2);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    }
    assert_int_equal(heap.calls, calls);
    for (int i = 0; i < 3; i++) {
        size_t live = heap.live;
        submit_room(q, TK_MOST_ROOM + 1, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.live, live);
    }
    calls = heap.calls;
    tk_queue_drop_room(q, tk_queue_room(q, 1000));
    submit_room(q, 300, 5);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    assert_int_equal(heap.calls, calls);
    heap.fail_onward = true;
    heap.fail_at = 1;
    assert_null(tk_queue_room(q, SIZE_MAX));
    assert_null(tk_queue_room(q, TK_MOST_ROOM + 1));
    tk_queue_reserve(q, 100, 2000, 9); /* not one of them is there */
    heap.fail_at = 0;
    submit_room(q, 300, 6);
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    free_counted(q, &heap);
}
RIG_BOTH(test_the_room_of_commands_is_kept)

/* Nothing is left of what was kept; later commands are as good, and keep what they took again. */
static void test_a_trim_gives_back_what_is_kept(bool inline_only) {
    tk_test_heap heap;
    tk_queue *q = open_counted(&heap, inline_only);
    size_t live = heap.live;
    for (int i = 0; i < 3; i++) {
        tk_queue_reserve(q, 2000, 5000, 9);
        assert_int_equal(heap.live, live + 4000); /* of each the room, and what it watches */
        submit_room(q, 5000, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        void *taken = tk_queue_room(q, 1000); /* by somebody who is not done with it */
        assert_non_null(taken);
        tk_queue_trim(q);
        assert_int_equal(heap.live, live + 2);
        tk_queue_drop_room(q, taken);
        tk_queue_trim(q);
        assert_int_equal(heap.live, live);
        submit_room(q, 200, i); /* for so many watches as it needs, again */
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.live, live + 1);
        size_t calls = heap.calls;
        submit_room(q, 200, i);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_int_equal(heap.calls, calls);
        tk_queue_trim(q);
    }
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    tk_queue_trim(q);
    free_counted(q, &heap);
}
RIG_BOTH(test_a_trim_gives_back_what_is_kept)

enum { TRIM_THREADS = 4, TRIM_COMMANDS = 300 };

typedef struct trimming {
    tk_queue *q;
    _Atomic bool over;
    _Atomic int ran;
} trimming;

static tolk_status count_room(void *arg, tolk_error *err) {
    trimming *t;
    (void)err;
    memcpy(&t, arg, sizeof t);
    atomic_fetch_add(&t->ran, 1);
    return TOLK_OK;
}

static void *submit_many(void *arg) {
    trimming *t = arg;
    for (int i = 0; i < TRIM_COMMANDS; i++) {
        void *room = tk_queue_room(t->q, 64 + (size_t)i * 13 % 900);
        tk_command c = {.run = count_room, .room = room, .label = "count"};
        if (!room)
            return arg;
        memcpy(room, &t, sizeof t);
        if (tk_queue_submit(t->q, &c, NULL, NULL) != TOLK_OK)
            return arg;
    }
    return NULL;
}

static void *trim_often(void *arg) {
    trimming *t = arg;
    while (!atomic_load(&t->over))
        tk_queue_trim(t->q);
    return NULL;
}

static void test_a_trim_while_others_submit(bool inline_only) {
    rig r;
    static trimming t;
    pthread_t trims, submits[TRIM_THREADS];
    rig_open(&r, 1, inline_only, 20);
    t = (trimming){.q = r.q[0]};
    assert_int_equal(pthread_create(&trims, NULL, trim_often, &t), 0);
    for (int i = 0; i < TRIM_THREADS; i++)
        assert_int_equal(pthread_create(&submits[i], NULL, submit_many, &t), 0);
    for (int i = 0; i < TRIM_THREADS; i++) {
        void *failed = &t;
        assert_int_equal(pthread_join(submits[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(tk_queue_await(r.q[0], NULL), TOLK_OK);
    atomic_store(&t.over, true);
    assert_int_equal(pthread_join(trims, NULL), 0);
    assert_int_equal(atomic_load(&t.ran), TRIM_THREADS * TRIM_COMMANDS);
    assert_int_equal(rig_close(&r), TOLK_OK);
}
RIG_BOTH(test_a_trim_while_others_submit)

static void test_a_warm_submit_allocates_nothing(bool inline_only) {
    tk_test_heap heap;
    tk_queue *q = open_counted(&heap, inline_only);
    int counter = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_submit(q, rig_add_one, &counter, "a", NULL), TOLK_OK);
    assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
    size_t calls = heap.calls;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(rig_submit(q, rig_add_one, &counter, "a", NULL), TOLK_OK);
        assert_int_equal(tk_queue_await(q, NULL), TOLK_OK);
        assert_true(tk_queue_enter(q, NULL, 0, NULL));
        tk_queue_leave(q, TOLK_OK, NULL, "a");
    }
    assert_int_equal(heap.calls, calls);
    assert_int_equal(tk_queue_close(q, NULL), TOLK_OK);
    free_counted(q, &heap);
}
RIG_BOTH(test_a_warm_submit_allocates_nothing)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_thread_submit_fails_and_changes_nothing),
        RIG_TESTS(test_every_allocation_may_fail),
        RIG_TESTS(test_a_warm_submit_allocates_nothing),
        RIG_TESTS(test_the_room_of_commands_is_kept),
        RIG_TESTS(test_a_trim_gives_back_what_is_kept),
        RIG_TESTS(test_a_trim_while_others_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
