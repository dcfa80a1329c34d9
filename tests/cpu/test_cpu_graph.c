/* SPDX-License-Identifier: MIT
 *
 * Exec graphs of the CPU as the backend gives them: order, barriers, scratch memory, faults and
 * cancelling with functions in place of kernels' code, on several numbers of threads.
 */
#include "cpu/cpu_graph.h"

#include "jit/launch.h"
#include "support/runtime.h"

#include <pthread.h>

/* y[i] = 0 for i < n: one buffer, one scalar. Its code is replaced. */
#define NODE                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=100000}\n"                          \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%4 = const f32 0\n"                                                                           \
    "%5 = index f32 (%2, %3)\n"                                                                    \
    "%6 = store void (%5, %4)\n"                                                                   \
    "%7 = end void (%6, %3)\n"                                                                     \
    "%8 = sink void (%7) {name=\"node\"}\n"

enum { MOST = 60 };

static rt r;
static tolk_program *program;
static tolk_error err;

/* The graph at hand; node i is launched with the scalar i. */
static struct {
    size_t n;
    uint32_t deps[MOST][MOST];
    size_t n_deps[MOST];
    tk_launch launch[MOST];
    int64_t vals[MOST];
    void *bufs[MOST];
    tk_graph_node nodes[MOST];
    /* Of a run. */
    _Atomic int64_t done[MOST], before_barrier[MOST];
    _Atomic int wrong;
    bool faults[MOST];
} t;

static bool is_whole(uint32_t i) {
    return atomic_load(&t.done[i]) == t.launch[i].span;
}

/* In place of a kernel: are all nodes done that it comes after, and the iterations in front of its
 * barrier? Is its scratch memory its own? */
static void code(void *const *bufs, const int64_t *vals, int64_t begin, int64_t end,
                 tolk_kenv *env) {
    uint32_t i = (uint32_t)vals[0];
    tk_launch *l = &t.launch[i];
    if (bufs[0] != t.bufs[i] || begin < 0 || end > l->span)
        t.wrong = 1;
    for (size_t k = 0; k < t.n_deps[i]; k++)
        if (!is_whole(t.deps[i][k]))
            t.wrong = 2;
    if (end > l->pieces && begin < l->pieces && l->work >= 3e6)
        t.wrong = 3; /* a chunk across the barrier */
    if (begin >= l->pieces && l->pieces && t.before_barrier[i] < l->pieces && l->work >= 3e6)
        t.wrong = 4;
    if (l->scratch_bytes) {
        uint64_t *s = env->scratch;
        size_t words = l->scratch_bytes / 8;
        uint64_t mine = (uint64_t)i << 32 | (uint64_t)begin;
        if ((uintptr_t)s % 64)
            t.wrong = 5;
        if (l->scratch_per_thread) { /* nobody else writes there meanwhile */
            s[0] = s[words - 1] = mine;
            for (volatile int spin = 0; spin < 300; spin++)
                ;
            if (s[0] != mine || s[words - 1] != mine)
                t.wrong = 6;
        } else { /* all threads of the node, and no other node */
            for (int64_t e = begin; e < end && (size_t)e < words; e++)
                s[e] = mine - (uint64_t)begin + (uint64_t)e;
            for (int64_t e = begin; e < end && (size_t)e < words; e++)
                if (s[e] != ((uint64_t)i << 32 | (uint64_t)e))
                    t.wrong = 7;
        }
    }
    if (t.faults[i]) {
        env->fault = 1;
        env->fault_slot = 0;
        env->fault_index = 1000 + i;
    }
    if (begin < l->pieces)
        t.before_barrier[i] += (end < l->pieces ? end : l->pieces) - begin;
    t.done[i] += end - begin;
}

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    program = rt_compile(&r, NODE);
    atomic_store(&program->fn, code);
    memset(&t, 0, sizeof t);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    tolk_program_unref(program);
    rt_close(&r);
    return 0;
}

static void node(size_t i, int64_t span, double work) {
    t.n = i + 1;
    t.vals[i] = (int64_t)i;
    t.bufs[i] = &t.bufs[i];
    t.launch[i] = (tk_launch){.bufs = &t.bufs[i], .vals = &t.vals[i], .span = span, .work = work};
    t.nodes[i] = (tk_graph_node){.program = program, .launch = &t.launch[i], .deps = t.deps[i]};
}

static void begin(void) {
    for (size_t i = 0; i < MOST; i++)
        t.done[i] = t.before_barrier[i] = 0;
    t.wrong = 0;
}

static void *build(uint32_t threads) {
    void *g = NULL;
    for (size_t i = 0; i < t.n; i++)
        t.nodes[i].n_deps = t.n_deps[i];
    assert_int_equal(tk_cpu_graph_build(r.cpu, threads, t.nodes, t.n, &g, &err), TOLK_OK);
    assert_int_equal(tk_cpu_graph_commit(g, &err), TOLK_OK);
    return g;
}

static void check_whole(void) {
    assert_int_equal(t.wrong, 0);
    for (uint32_t i = 0; i < t.n; i++)
        assert_int_equal(t.done[i], t.launch[i].span > 0 ? t.launch[i].span : 0);
}

static void random_graph(uint64_t *rng) {
    size_t n = 1 + tk_test_rand(rng) % MOST;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = tk_test_rand(rng);
        int64_t span = x % 7 == 0 ? 0 : (int64_t)(tk_test_rand(rng) % 3000);
        node(i, span, x % 3 ? 1e5 : 4e6 + (double)(tk_test_rand(rng) % 1000) * 1e5);
        if (x / 7 % 4 == 0)
            t.launch[i].pieces = span ? (int64_t)(tk_test_rand(rng) % (uint64_t)span) : 0;
        if (x / 64 % 3 == 0) {
            t.launch[i].scratch_bytes = 64 + 8 * (tk_test_rand(rng) % 2000);
            t.launch[i].scratch_per_thread = x / 512 % 2;
        }
        t.n_deps[i] = 0;
        for (uint32_t k = 0; k < i; k++)
            if (tk_test_rand(rng) % (1 + n / 3) == 0)
                t.deps[i][t.n_deps[i]++] = k;
        t.faults[i] = false;
    }
}

static void test_random_graphs_keep_their_order_on_any_number_of_threads(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed() + 3, rounds = tk_test_count(4000);
    static const uint32_t threads[] = {1, 2, 3, 7};
    for (uint64_t round = 0; round < rounds; round++) {
        random_graph(&rng);
        void *g = build(threads[round % 4]);
        for (int i = 0; i < 2; i++) {
            begin();
            assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_OK);
            check_whole();
        }
        /* Other sizes, as a replay gives them. */
        for (size_t i = 0; i < t.n; i += 2) {
            t.launch[i].span = t.launch[i].span / 2 + 5;
            t.launch[i].work = 5e6;
            if (t.launch[i].pieces > t.launch[i].span)
                t.launch[i].pieces = t.launch[i].span;
            tk_cpu_graph_set(g, i, &t.nodes[i]);
        }
        assert_int_equal(tk_cpu_graph_commit(g, &err), TOLK_OK);
        begin();
        assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_OK);
        check_whole();
        tk_cpu_graph_destroy(g);
    }
}

static void test_the_first_fault_in_their_order_is_told(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed() + 4, rounds = tk_test_count(4000);
    for (uint64_t round = 0; round < rounds; round++) {
        random_graph(&rng);
        size_t first = t.n;
        for (int k = 0; k < 3; k++) {
            size_t i = tk_test_rand(&rng) % t.n;
            t.faults[i] = true;
            if (t.launch[i].span > 0 && i < first)
                first = i;
        }
        void *g = build((uint32_t)(1 + round % 4));
        begin();
        tolk_status st = tk_cpu_graph_launch(g, &err);
        assert_int_equal(st, first < t.n ? TOLK_E_RANGE : TOLK_OK);
        if (first < t.n) {
            char text[32];
            snprintf(text, sizeof text, "index %zu ", 1000 + first);
            assert_non_null(strstr(err.msg, "kernel node"));
            assert_non_null(strstr(err.msg, text));
        }
        assert_int_equal(t.wrong, 0);
        tk_cpu_graph_destroy(g);
    }
}

/* ---- at the same time ---- */

static _Atomic int arrived;
static void meet(void *const *bufs, const int64_t *vals, int64_t from, int64_t to, tolk_kenv *env) {
    (void)bufs, (void)vals, (void)from, (void)to, (void)env;
    arrived++;
    double began = rt_now();
    while (arrived < 2 && rt_now() - began < 30)
        ;
}

static void test_two_nodes_that_depend_on_nothing_run_at_the_same_time(void **state) {
    (void)state;
    node(0, 1, 4e6);
    node(1, 1, 4e6);
    atomic_store(&program->fn, meet);
    void *g = build(2);
    for (int i = 0; i < 3; i++) {
        arrived = 0;
        double began = rt_now();
        assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_OK);
        assert_int_equal(arrived, 2);
        assert_true(rt_now() - began < 25);
    }
    tk_cpu_graph_destroy(g);
}

static void test_a_chain_of_small_nodes_stays_on_the_callers_thread(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 16; i++) {
        node(i, 100, 1e4);
        t.n_deps[i] = i > 0;
        t.deps[i][0] = i - 1;
    }
    void *g = build(2);
    assert_true(tk_cpu_graph_is_small(g));
    begin();
    assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_OK);
    check_whole();
    tk_cpu_graph_destroy(g);
}

/* ---- copies ---- */

static void test_copies_are_nodes_too_and_may_overlap(void **state) {
    (void)state;
    enum { BYTES = 3 << 20 };
    char *a = malloc(BYTES), *b = malloc(BYTES), *c = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        a[i] = (char)(i * 7 + i / 1000);
    memset(b, 0, BYTES);
    memset(c, 0, BYTES);
    const uint32_t zero = 0, one = 1;
    const tk_graph_node nodes[] = {
        {.dest = b, .src = a, .bytes = BYTES},
        {.dest = c, .src = b, .bytes = BYTES - 5, .deps = &zero, .n_deps = 1},
        {.dest = c + 100, .src = c, .bytes = BYTES - 200, .deps = &one, .n_deps = 1},
        {.dest = a, .src = a, .bytes = 0},
    };
    for (uint32_t threads = 1; threads < 4; threads++) {
        void *g;
        assert_int_equal(tk_cpu_graph_build(r.cpu, threads, nodes, 4, &g, &err), TOLK_OK);
        assert_int_equal(tk_cpu_graph_commit(g, &err), TOLK_OK);
        assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_OK);
        assert_memory_equal(a, b, BYTES);
        assert_memory_equal(c + 100, a, BYTES - 200);
        assert_memory_equal(c, a, 100);
        tk_cpu_graph_destroy(g);
    }
    free(a);
    free(b);
    free(c);
}

/* ---- cancelling ---- */

static _Atomic int running;
static void until_cancelled(void *const *bufs, const int64_t *vals, int64_t from, int64_t to,
                            tolk_kenv *env) {
    (void)bufs, (void)vals, (void)from, (void)to;
    running = 1;
    double began = rt_now();
    while (!atomic_load(env->cancel) && rt_now() - began < 30)
        ;
}
static void *cancel_it(void *arg) {
    (void)arg;
    while (!running)
        ;
    tolk_cancel(r.cpu);
    return NULL;
}

static void test_cancelling_ends_either_way_of_running(void **state) {
    (void)state;
    atomic_store(&program->fn, until_cancelled);
    for (uint32_t threads = 1; threads < 4; threads++) {
        for (size_t i = 0; i < 6; i++)
            node(i, 1, 4e6);
        void *g = build(threads);
        pthread_t thread;
        running = 0;
        double began = rt_now();
        assert_int_equal(pthread_create(&thread, NULL, cancel_it, NULL), 0);
        assert_int_equal(tk_cpu_graph_launch(g, &err), TOLK_E_CANCELLED);
        pthread_join(thread, NULL);
        assert_true(rt_now() - began < 25);
        assert_non_null(strstr(err.msg, "kernel node"));
        tk_cpu_graph_destroy(g);
    }
}

static tolk_status build_with(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx = r.ctx;
    tolk_allocator old = ctx->al;
    ctx->al = *al;
    void *g = NULL;
    tolk_status st = tk_cpu_graph_build(r.cpu, 2, t.nodes, t.n, &g, NULL);
    if (st == TOLK_OK) {
        st = tk_cpu_graph_commit(g, NULL);
        tk_cpu_graph_destroy(g);
    }
    ctx->al = old;
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        node(i, 10, 1e5);
        t.launch[i].scratch_bytes = 5000;
        t.launch[i].scratch_per_thread = i % 2;
    }
    assert_true(tk_test_oom(build_with, NULL) >= 3);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_random_graphs_keep_their_order_on_any_number_of_threads),
        TEST(test_the_first_fault_in_their_order_is_told),
        TEST(test_two_nodes_that_depend_on_nothing_run_at_the_same_time),
        TEST(test_a_chain_of_small_nodes_stays_on_the_callers_thread),
        TEST(test_copies_are_nodes_too_and_may_overlap),
        TEST(test_cancelling_ends_either_way_of_running),
        TEST(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
