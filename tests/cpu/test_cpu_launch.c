/* SPDX-License-Identifier: MIT
 *
 * Running the iterations of a launch: each once, on no more threads than allowed, in any setting of
 * OpenMP. The kernels are C functions that write down how they are called. OMP-01 is an id of the
 * case collection this project tests against.
 */
#include "cpu/cpu_launch.h"

#include "jit/device.h"
#include "support/runtime.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { MANY = 20000 };
#define SMALL_WORK 1000.0 /* runs on the caller's thread */
#define TEAM_WORK 1e7     /* is worth a team */

RT_FIXTURE

/* ---- a kernel that takes notes ---- */

typedef struct notes {
    _Atomic int calls, empty_calls, threads;
    _Atomic int64_t iterations;
    _Atomic int64_t most_thread, least_thread;
    _Atomic int bad; /* what a kernel must not see */
    _Atomic int seen[MANY];
    _Atomic uint64_t ids[64]; /* of the threads that called */
    const void *scratch;
    int64_t fault_from; /* iterations from here on fault; -1: none */
    double seconds;     /* of one call */
    int wait_for;       /* calls last until so many threads are there */
    _Atomic int64_t before_barrier;
    int64_t pieces;
} notes;

static void note_thread(notes *n) {
    uint64_t me = (uint64_t)pthread_self();
    for (int i = 0; i < 64; i++) {
        uint64_t old = 0;
        if (atomic_compare_exchange_strong(&n->ids[i], &old, me)) {
            n->threads++;
            return;
        }
        if (old == me)
            return;
    }
    n->bad++;
}

static void noting(void *const *bufs, const int64_t *vals, int64_t begin, int64_t end,
                   tolk_kenv *env) {
    notes *n = bufs[0];
    n->calls++;
    n->empty_calls += begin >= end;
    n->bad += env->size != sizeof *env || env->fault || !env->cancel || env->thread < 0 ||
              (uintptr_t)env->scratch % 64 || (vals && vals[0] != 77);
    n->bad += n->scratch && env->scratch != n->scratch;
    note_thread(n);
    if (env->thread > n->most_thread)
        n->most_thread = env->thread;
    for (int64_t i = begin; i < end && i < MANY; i++)
        n->seen[i]++;
    /* behind the barrier all of what stands before it is done */
    if (n->pieces && begin >= n->pieces)
        n->bad += n->before_barrier != n->pieces;
    else if (n->pieces)
        n->bad += end > n->pieces;
    n->iterations += end - begin;
    if (n->pieces && begin < n->pieces)
        n->before_barrier += end - begin;
    if (n->seconds > 0)
        rt_sleep(n->seconds);
    for (double until = rt_now() + 10; n->threads < n->wait_for && rt_now() < until;)
        rt_sleep(0.0005);
    if (n->fault_from >= 0 && end > n->fault_from) {
        env->fault = 1;
        env->fault_slot = 5;
        env->fault_index = begin > n->fault_from ? begin : n->fault_from;
    }
}

static tk_launch launch_of(notes *n, void **bufs, int64_t span, double work) {
    memset(n, 0, sizeof *n);
    n->fault_from = -1;
    bufs[0] = n;
    return (tk_launch){.fn = noting, .bufs = bufs, .span = span, .work = work};
}

static notes n;
static void *bufs[1];

/* Run it, and check that each iteration ran once on at most that many threads. */
static void run_whole(int64_t span, double work, uint32_t threads) {
    static const int64_t vals[] = {77};
    tk_launch l = launch_of(&n, bufs, span, work);
    l.vals = vals;
    assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, NULL), TOLK_OK);
    assert_false(l.faulted);
    assert_int_equal(n.bad, 0);
    assert_int_equal(n.empty_calls, 0);
    assert_int_equal(n.iterations, span);
    for (int64_t i = 0; i < span && i < MANY; i++)
        assert_int_equal(n.seen[i], 1);
    assert_true(n.threads <= (int)threads);
    assert_true(n.most_thread < threads);
}

static void test_launch_every_span_and_team_runs_each_iteration_once(void **state) {
    (void)state;
    static const int64_t spans[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65, 1000, 4097, MANY};
    static const uint32_t teams[] = {1, 2, 3, 4, 7, 16};
    static const double works[] = {0, SMALL_WORK, 2.9e6, 3e6, TEAM_WORK, 1e9};
    for (size_t s = 0; s < sizeof spans / sizeof *spans; s++)
        for (size_t t = 0; t < sizeof teams / sizeof *teams; t++)
            for (size_t w = 0; w < sizeof works / sizeof *works; w++)
                run_whole(spans[s], works[w], teams[t]);
}

/* Spans and work past every reasonable size: no product of them wraps. */
static void test_launch_huge_spans_are_covered_once(void **state) {
    (void)state;
    static const int64_t spans[] = {(int64_t)1 << 31, ((int64_t)1 << 32) + 1, (int64_t)1 << 62,
                                    INT64_MAX};
    static const double works[] = {SMALL_WORK, TEAM_WORK, 1e12, 1e19};
    for (int s = 0; s < 4; s++)
        for (int w = 0; w < 4; w++)
            run_whole(spans[s], works[w], w % 2 ? 3 : 1);
}

static void test_launch_of_nothing_calls_nobody(void **state) {
    (void)state;
    static const int64_t spans[] = {0, -1, INT64_MIN};
    for (int s = 0; s < 3; s++)
        for (int w = 0; w < 2; w++) {
            tk_launch l = launch_of(&n, bufs, spans[s], w ? TEAM_WORK : 0);
            l.faulted = true; /* whatever was there */
            l.scratch_bytes = 1 << 20;
            assert_int_equal(tk_cpu_launch(r.cpu, 4, &l, NULL), TOLK_OK);
            assert_int_equal(n.calls, 0);
            assert_false(l.faulted);
        }
}

static void test_launch_small_work_stays_on_the_callers_thread_in_one_call(void **state) {
    (void)state;
    run_whole(MANY, SMALL_WORK, 16);
    assert_int_equal(n.calls, 1);
    assert_int_equal(n.threads, 1);
    assert_int_equal(n.ids[0], (uint64_t)pthread_self());
}

static void test_launch_large_work_uses_the_threads_it_may_have(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        tk_launch l = launch_of(&n, bufs, 40, TEAM_WORK);
        n.wait_for = (int)threads;
        assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, NULL), TOLK_OK);
        assert_int_equal(n.threads, (int)threads);
        assert_int_equal(n.most_thread, (int64_t)threads - 1);
        assert_int_equal(n.iterations, 40);
    }
    /* never more than there are iterations */
    tk_launch l = launch_of(&n, bufs, 3, TEAM_WORK);
    n.seconds = 0.005;
    assert_int_equal(tk_cpu_launch(r.cpu, 8, &l, NULL), TOLK_OK);
    assert_true(n.threads <= 3);
}

/* ---- what a kernel gets ---- */

static void test_scratch_is_aligned_and_one_for_all_threads(void **state) {
    (void)state;
    static const size_t bytes[] = {0, 1, 4096, 4097, 100000, 10 << 20};
    for (int i = 0; i < 6; i++) {
        tk_launch l = launch_of(&n, bufs, 100, i % 2 ? TEAM_WORK : SMALL_WORK);
        l.scratch_bytes = bytes[i];
        assert_int_equal(tk_cpu_launch(r.cpu, 3, &l, NULL), TOLK_OK);
        assert_int_equal(n.bad, 0);
    }
}

typedef struct filling {
    size_t bytes;
    _Atomic int bad;
} filling;

/* The whole scratch memory can be written and read. */
static void fill(void *const *b, const int64_t *vals, int64_t begin, int64_t end, tolk_kenv *env) {
    (void)vals, (void)end;
    filling *f = b[0];
    memset(env->scratch, (int)begin + 1, f->bytes);
    for (size_t i = 0; i < f->bytes; i++)
        f->bad += ((unsigned char *)env->scratch)[i] != begin + 1;
}

static void test_scratch_has_all_its_bytes(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
        filling f = {.bytes = bytes};
        void *b[] = {&f};
        tk_launch l = {.fn = fill, .bufs = b, .span = 1, .scratch_bytes = bytes};
        assert_int_equal(tk_cpu_launch(r.cpu, 1, &l, NULL), TOLK_OK);
        assert_int_equal(f.bad, 0);
    }
}

/* Iterations from `pieces` on begin when all before are done. */
static void test_pieces_all_are_done_before_the_rest_begins(void **state) {
    (void)state;
    static const int64_t pieces[] = {1, 2, 7, 32, 999, 1000};
    for (int i = 0; i < 6; i++)
        for (uint32_t threads = 1; threads <= 4; threads++) {
            tk_launch l = launch_of(&n, bufs, 1000, TEAM_WORK);
            l.pieces = n.pieces = pieces[i];
            assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, NULL), TOLK_OK);
            assert_int_equal(n.bad, 0);
            assert_int_equal(n.iterations, 1000);
            for (int k = 0; k < 1000; k++)
                assert_int_equal(n.seen[k], 1);
        }
}

/* The fault that is told is that of the lowest iteration, whoever is first. */
static void test_fault_of_the_lowest_iteration_is_kept(void **state) {
    (void)state;
    static const int64_t from[] = {0, 1, 500, 998, 999};
    for (int i = 0; i < 5; i++)
        for (uint32_t threads = 1; threads <= 4; threads++)
            for (int large = 0; large < 2; large++) {
                tk_launch l = launch_of(&n, bufs, 1000, large ? TEAM_WORK : SMALL_WORK);
                n.fault_from = from[i];
                assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, NULL), TOLK_OK);
                assert_true(l.faulted);
                assert_int_equal(l.fault_slot, 5);
                assert_int_equal(l.fault_index, from[i]);
                assert_int_equal(n.iterations, 1000); /* the rest is done */
                l = launch_of(&n, bufs, 1000, large ? TEAM_WORK : SMALL_WORK);
                assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, NULL), TOLK_OK);
                assert_false(l.faulted); /* no trace of it */
            }
}

#if defined(__x86_64__)
static _Atomic int other_modes;

static void look_at_mode(void *const *b, const int64_t *vals, int64_t begin, int64_t end,
                         tolk_kenv *env) {
    (void)b, (void)vals, (void)begin, (void)end, (void)env;
    other_modes += (_mm_getcsr() & 0xffc0) != 0x1f80;
    _mm_setcsr(_mm_getcsr() | 0x3f); /* flags that a computation raises */
}

/* Nearest even and denormals inside, the caller's mode again afterwards. */
static void test_rounding_mode_is_nearest_inside_and_the_callers_again_outside(void **state) {
    (void)state;
    static const unsigned modes[] = {0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0xffc0, 0x1fbf};
    const unsigned before = _mm_getcsr();
    other_modes = 0;
    for (int i = 0; i < 7; i++)
        for (int large = 0; large < 2; large++) {
            tk_launch l = {
                .fn = look_at_mode, .span = 1000, .work = large ? TEAM_WORK : SMALL_WORK};
            _mm_setcsr(modes[i]);
            tolk_status st = tk_cpu_launch(r.cpu, 3, &l, NULL);
            unsigned after = _mm_getcsr();
            _mm_setcsr(before);
            assert_int_equal(st, TOLK_OK);
            assert_int_equal(after, modes[i]);
        }
    assert_int_equal(other_modes, 0);
}
#endif

/* ---- memory ---- */

static tolk_status with_large_scratch(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tolk_device *cpu;
    o.allocator = al;
    o.no_disk_cache = 1;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = tolk_device_open(ctx, "CPU", &cpu, NULL);
    tk_launch l = launch_of(&n, bufs, 100, SMALL_WORK);
    l.scratch_bytes = 100000;
    tolk_error err = TOLK_ERROR_INIT;
    if (!st)
        st = tk_cpu_launch(cpu, 1, &l, &err);
    if (st == TOLK_E_NOMEM)
        assert_int_equal(n.calls, 0);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_launch_without_memory_for_scratch_is_nomem_and_runs_nothing(void **state) {
    (void)state;
    tk_test_oom(with_large_scratch, NULL);
}

/* ---- OMP-01: settings ---- */

static void test_OMP_01_inside_of_regions_each_launch_is_whole(void **state) {
    (void)state;
    static notes inner[16];
    for (int levels = 1; levels <= 3; levels++) {
        omp_set_max_active_levels(levels);
        for (int team = 1; team <= 16; team *= 4) {
            int bad = 0;
#pragma omp parallel num_threads(team) reduction(+ : bad) default(none) shared(r, inner)
            {
                notes *mine = &inner[omp_get_thread_num()];
                void *b[1];
                tk_launch l = launch_of(mine, b, 1000, TEAM_WORK);
                bad += tk_cpu_launch(r.cpu, 4, &l, NULL) != TOLK_OK;
                bad += mine->iterations != 1000 || mine->bad || mine->threads > 4;
                for (int i = 0; i < 1000; i++)
                    bad += mine->seen[i] != 1;
            }
            assert_int_equal(bad, 0);
        }
    }
    omp_set_max_active_levels(1);
}

static void test_OMP_01_the_hosts_own_settings_are_left_alone(void **state) {
    (void)state;
    int most = omp_get_max_threads(), dynamic = omp_get_dynamic(),
        levels = omp_get_max_active_levels();
    run_whole(1000, TEAM_WORK, 3);
    assert_int_equal(omp_get_max_threads(), most);
    assert_int_equal(omp_get_dynamic(), dynamic);
    assert_int_equal(omp_get_max_active_levels(), levels);
    int host = 0;
#pragma omp parallel num_threads(2) reduction(+ : host)
    host += 1;
    assert_true(host >= 1 && host <= 2);
}

/* In a process of its own: at most so many threads as OpenMP grants, and at least one. */
static int child(int most) {
    rt_open(&r, NULL, NULL);
    tk_launch l = launch_of(&n, bufs, 40, TEAM_WORK);
    n.seconds = 0.002;
    int bad = tk_cpu_launch(r.cpu, 6, &l, NULL) != TOLK_OK || n.iterations != 40 || n.bad ||
              n.threads < 1 || n.threads > most;
    for (int i = 0; i < 40; i++)
        bad |= n.seen[i] != 1;
    rt_close(&r);
    return bad;
}

static const char *self;

static void test_OMP_01_limits_of_the_environment_hold(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        int most;
    } t[] = {{"OMP_NUM_THREADS=1", 6},   {"OMP_NUM_THREADS=3,2", 6},    {"OMP_THREAD_LIMIT=1", 1},
             {"OMP_THREAD_LIMIT=2", 2},  {"OMP_DYNAMIC=true", 6},       {"OMP_NESTED=true", 6},
             {"OMP_PROC_BIND=close", 6}, {"OMP_MAX_ACTIVE_LEVELS=0", 1}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        int code = system(rt_text("%s '%s' %d", t[i].settings, self, t[i].most));
        if (code != 0)
            fail_msg("wrong with %s", t[i].settings);
    }
}

/* ---- cancelling ---- */

static void cancel_now(void *const *b, const int64_t *vals, int64_t begin, int64_t end,
                       tolk_kenv *env) {
    (void)b, (void)vals, (void)env;
    n.iterations += end - begin;
    tolk_cancel(r.cpu);
}

static void test_cancel_ends_a_launch_between_chunks(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        tk_launch l = launch_of(&n, bufs, 1000, 1e9);
        l.fn = cancel_now;
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tk_cpu_launch(r.cpu, threads, &l, &err), TOLK_E_CANCELLED);
        assert_int_equal(err.code, TOLK_E_CANCELLED);
        assert_true(n.iterations > 0 && n.iterations < 1000);
        run_whole(1000, TEAM_WORK, threads); /* the next one is not affected */
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        return child(atoi(argv[1]));
    self = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch_every_span_and_team_runs_each_iteration_once),
        cmocka_unit_test(test_launch_huge_spans_are_covered_once),
        cmocka_unit_test(test_launch_of_nothing_calls_nobody),
        cmocka_unit_test(test_launch_small_work_stays_on_the_callers_thread_in_one_call),
        cmocka_unit_test(test_launch_large_work_uses_the_threads_it_may_have),
        cmocka_unit_test(test_scratch_is_aligned_and_one_for_all_threads),
        cmocka_unit_test(test_scratch_has_all_its_bytes),
        cmocka_unit_test(test_pieces_all_are_done_before_the_rest_begins),
        cmocka_unit_test(test_fault_of_the_lowest_iteration_is_kept),
#if defined(__x86_64__)
        cmocka_unit_test(test_rounding_mode_is_nearest_inside_and_the_callers_again_outside),
#endif
        cmocka_unit_test(test_launch_without_memory_for_scratch_is_nomem_and_runs_nothing),
        cmocka_unit_test(test_OMP_01_inside_of_regions_each_launch_is_whole),
        cmocka_unit_test(test_OMP_01_the_hosts_own_settings_are_left_alone),
        cmocka_unit_test(test_OMP_01_limits_of_the_environment_hold),
        cmocka_unit_test(test_cancel_ends_a_launch_between_chunks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
