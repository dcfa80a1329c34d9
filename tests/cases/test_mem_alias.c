/* SPDX-License-Identifier: MIT
 *
 * Cases about memory and aliasing, as far as programs and launches have them; queues, captured
 * graphs and a planner of buffers do not exist yet. Case ids are those of the collection this
 * project tests against.
 */
#include "support/runtime.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include <sys/mman.h>

/* ---- an allocator that counts, and leaves 0xcb in what is new and what is gone ---- */

typedef struct counter {
    _Atomic int64_t live;
} counter;

static void *take(void *user, size_t bytes) {
    counter *c = user;
    void *p = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    if (p) {
        memset(p, 0xcb, bytes);
        atomic_fetch_add(&c->live, (int64_t)bytes);
    }
    return p;
}

static void give(void *user, void *p, size_t bytes) {
    counter *c = user;
    if (!p)
        return;
    memset(p, 0xcb, bytes);
    free(p);
    atomic_fetch_sub(&c->live, (int64_t)bytes);
}

static void *change(void *user, void *p, size_t old_bytes, size_t new_bytes) {
    void *q = take(user, new_bytes);
    if (q && p) {
        memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
        give(user, p, old_bytes);
    }
    return q;
}

/* ---- MEM-03: the part of launches: none keeps its arguments, or memory for them ---- */

/* y[g, i] = x[g, 63 - i] through the dynamic local buffer. */
#define TURNED                                                                                     \
    "tolk.uop 1\n%%0 = const index %d\n%%1 = const index 64\n%%2 = const index %d\n"               \
    "%%3 = param f32 (%%2) {slot=0}\n%%4 = param f32 (%%2) {slot=1}\n"                             \
    "%%5 = special index (%%0) {name=\"gidx0\"}\n%%6 = special index (%%1) {name=\"lidx0\"}\n"     \
    "%%7 = mul index (%%5, %%1)\n%%8 = add index (%%7, %%6)\n"                                     \
    "%%9 = buffer f32 {slot=0, space=local, dynamic=true}\n%%10 = index f32 (%%4, %%8)\n"          \
    "%%11 = load f32 (%%10)\n%%12 = index f32 (%%9, %%6)\n%%13 = store void (%%12, %%11)\n"        \
    "%%14 = barrier void (%%13)\n%%15 = after f32 (%%9, %%14)\n%%16 = const index 63\n"            \
    "%%17 = sub index (%%16, %%6)\n%%18 = index f32 (%%15, %%17)\n%%19 = load f32 (%%18)\n"        \
    "%%20 = index f32 (%%3, %%8)\n%%21 = store void (%%20, %%19)\n"                                \
    "%%22 = sink void (%%21) {name=\"turned\"}\n"

static void test_MEM_03_a_launch_keeps_neither_its_buffers_nor_memory(void **state) {
    (void)state;
    enum { GROUPS = 1 << 18, N = GROUPS * 64 }; /* arrays of 64 MiB */
    const size_t bytes = (size_t)N * 4, sizes[] = {bytes, bytes};
    counter c = {0};
    tolk_allocator al = {&c, take, change, give};
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = &al;
    rt r;
    rt_open(&r, NULL, &o);
    tolk_program *p = rt_compile(&r, rt_text(TURNED, GROUPS, N)); /* its graph is gone, too */
    tolk_launch_opts launch = TOLK_LAUNCH_OPTS_INIT;
    launch.shared_bytes = (size_t)16 << 20;
    int64_t live = c.live;
    for (int round = 0; round < 3; round++) {
        float *a[2];
        for (int k = 0; k < 2; k++) {
            a[k] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            assert_true(a[k] != MAP_FAILED);
        }
        for (int i = 0; i < N; i++)
            a[1][i] = (float)(i % 9973 + round);
        double before = rt_rss();
        assert_int_equal(
            tolk_launch_with(p, (void *[]){a[0], a[1]}, sizes, 2, NULL, 0, &launch, NULL), TOLK_OK);
        assert_int_equal(c.live, live); /* scratch memory has been given back */
        for (int i = 0; i < N; i++)
            if (a[0][i] != (float)((i / 64 * 64 + 63 - i % 64) % 9973 + round))
                fail_msg("round %d: y[%d] is %g", round, i, (double)a[0][i]);
        /* No access through an old address goes well from here on; none is made. */
        for (int k = 0; k < 2; k++)
            assert_true(mmap(a[k], bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                             0) == (void *)a[k]);
        if (!TK_TEST_ASAN && !TK_TEST_TSAN) /* the input's 64 MiB are gone at least */
            assert_true(rt_rss() < before - 60.0 * 1024 * 1024);
    }
    tolk_program_unref(p);
    rt_close(&r);
    assert_int_equal(c.live, 0);
}

/* ---- MEM-05: the part of the binary cache: with and without it the results are the same ---- */

enum { N = 777, N_KERNELS = 6 };

static const char *kernel_text(int k) {
    static const char *const factors[] = {"2", "0x1.8p+1", "-0.5", "1e-3"};
    if (k < 4)
        return rt_text(RT_SCALE, N, factors[k]);
    if (k == 4) /* y[i] = x[i] summed with itself 50 times and more: a reduction in a loop */
        return rt_text(RT_SPIN, N, 50LL);
    return rt_text(TURNED, 12, 12 * 64); /* local memory */
}

static void run(const tolk_program *p, float *y) {
    static float x[N];
    void *bufs[] = {y, x};
    const size_t sizes[] = {sizeof x, sizeof x};
    tolk_launch_opts launch = TOLK_LAUNCH_OPTS_INIT;
    launch.shared_bytes = 256;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i * 37 % 101) - 50;
        y[i] = 0;
    }
    assert_int_equal(tolk_launch_with(p, bufs, sizes, 2, NULL, 0, &launch, NULL), TOLK_OK);
}

static void test_MEM_05_results_do_not_depend_on_what_the_cache_keeps(void **state) {
    (void)state;
    static float want[N_KERNELS][N], y[N];
    static const struct {
        uint64_t entries;
        uint32_t no_cache, disk;
        bool counted, auto_tier;
    } t[] = {{0, 0, 0, false, false}, {0, 0, 0, true, false}, {1, 0, 0, true, false},
             {1, 0, 1, true, false},  {0, 1, 0, true, false}, {2, 0, 1, true, true},
             {1, 1, 1, true, true}};
    char *dir = rt_mkdir();
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        counter c = {0};
        tolk_allocator al = {&c, take, change, give};
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
        o.allocator = t[i].counted ? &al : NULL;
        o.memory_entries = t[i].entries;
        rt r;
        rt_open(&r, t[i].disk ? dir : NULL, &o);
        tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
        opts.no_cache = t[i].no_cache;
        opts.tier = t[i].auto_tier ? TOLK_TIER_AUTO : TOLK_TIER_FULL;
        opts.strict = 1; /* one order of sums */
        /* Each is compiled again and again; what was compiled before runs on after it was evicted.
         */
        tolk_program *p[3][N_KERNELS];
        for (int round = 0; round < 3; round++)
            for (int n = 0; n < N_KERNELS; n++) {
                int k = (n * 5 + round) % N_KERNELS;
                tolk_error err = TOLK_ERROR_INIT;
                if (rt_try(&r, kernel_text(k), &opts, &p[round][k], &err))
                    fail_msg("%s", err.msg);
                for (int old = 0; old <= round; old++)
                    for (int times = 0; times < 4;
                         times++) { /* past the launches that AUTO counts */
                        run(p[old][k], y);
                        if (i == 0 && old == round)
                            memcpy(want[k], y, sizeof y);
                        if (memcmp(want[k], y, sizeof y) != 0)
                            fail_msg("context %zu, kernel %d: other results in round %d", i, k,
                                     round);
                    }
            }
        for (int round = 0; round < 3; round++)
            for (int k = 0; k < N_KERNELS; k++)
                tolk_program_unref(p[round][k]);
        rt_close(&r);
        assert_int_equal(c.live, 0);
    }
    rt_rmdir(dir);
    /* and they are right */
    for (int i = 0; i < N; i++) {
        float x = (float)(i * 37 % 101) - 50;
        assert_true(want[0][i] == 2 * x && want[1][i] == 3 * x && want[2][i] == -0.5f * x);
        assert_true(want[4][i] == x * (49 * 50 / 2)); /* whole numbers below 2^24 */
        int from = i / 64 * 64 + 63 - i % 64;
        assert_true(want[5][i] == (i < 12 * 64 ? (float)(from * 37 % 101) - 50 : 0));
    }
}

/* ---- MEM-07: a large kernel with many constants, compiled and loaded from disk by others ---- */

enum { STEPS = 5000 };

/* y[i] = ((x[i] + c0) xor c1) + c2 ... of 64-bit integers: each constant is another one. */
static char *large_text(void) {
    size_t room = 160 * STEPS + 2000, at = 0;
    char *text = malloc(room);
    assert_non_null(text);
    at += (size_t)snprintf(text, room,
                           "tolk.uop 1\n%%0 = const index 64\n%%1 = param u64 (%%0) {slot=0}\n"
                           "%%2 = param u64 (%%0) {slot=1}\n"
                           "%%3 = range index (%%0) {axis=0, kind=global}\n"
                           "%%4 = index u64 (%%2, %%3)\n%%5 = load u64 (%%4)\n");
    uint64_t rng = 5;
    for (int i = 0; i < 2 * STEPS; i++)
        at += (size_t)snprintf(text + at, room - at,
                               "%%%d = const u64 %llu\n%%%d = %s u64 (%%%d, "
                               "%%%d)\n",
                               6 + 2 * i, (unsigned long long)tk_test_rand(&rng), 7 + 2 * i,
                               i % 2 ? "xor" : "add", 5 + 2 * i, 6 + 2 * i);
    int last = 5 + 4 * STEPS;
    snprintf(text + at, room - at,
             "%%%d = index u64 (%%1, %%3)\n%%%d = store void (%%%d, %%%d)\n"
             "%%%d = end void (%%%d, %%3)\n%%%d = sink void (%%%d) {name=\"large\"}\n",
             last + 1, last + 2, last + 1, last, last + 3, last + 2, last + 4, last + 3);
    return text;
}

typedef struct large {
    const char *dir, *text;
    tolk_cached cached;
} large;

static int large_is_right(void *arg) {
    const large *l = arg;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.target = "x86-64"; /* constants are whole vectors in memory */
    opts.opts = "LANE:0:2";
    o.cache_dir = l->dir;
    rt r = {0};
    tolk_program *p;
    tolk_program_info info;
    uint64_t x[64], y[64];
    void *bufs[] = {y, x};
    const size_t bytes[] = {sizeof y, sizeof x};
    if (tolk_ctx_create(&o, &r.ctx, NULL) || tolk_device_open(r.ctx, "CPU", &r.cpu, NULL))
        return 1;
    if (rt_try(&r, l->text, &opts, &p, NULL) || tolk_program_get_info(p, &info))
        return 2;
    if (info.cached != l->cached)
        return 3;
    for (int i = 0; i < 64; i++)
        x[i] = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
    if (tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL))
        return 4;
    for (int i = 0; i < 64; i++) {
        uint64_t want = x[i], rng = 5;
        for (int k = 0; k < 2 * STEPS; k++) {
            uint64_t c = tk_test_rand(&rng);
            want = k % 2 ? want ^ c : want + c;
        }
        if (y[i] != want)
            return 5;
    }
    tolk_program_unref(p);
    rt_close(&r);
    return 0;
}

static void test_MEM_07_a_large_kernel_from_disk_is_the_same(void **state) {
    (void)state;
    char *dir = rt_mkdir(), *text = large_text();
    large l = {dir, text, TOLK_CACHED_NONE};
    assert_int_equal(tk_test_child(large_is_right, &l, 120), 0);
    l.cached = TOLK_CACHED_DISK;
    for (int i = 0; i < 3; i++)
        assert_int_equal(tk_test_child(large_is_right, &l, 120), 0);
    free(text);
    rt_rmdir(dir);
}

/* ---- ALIAS-05: the part of local memory: no value that is still needed loses its place ---- */

/* In each group: t1 = x + 1 is kept across two meetings; t2 = 2 t1 and t3 = t2 of another work-item
 * + t1 go through local memory. All three are read behind the last meeting, t1 also as a view that
 * begins one element later. What the interpreter computes has no places that are used again. */
static void test_ALIAS_05_values_across_meetings_have_places_of_their_own(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 7, 16, 33, 64};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int again = 0; again < 2; again++) { /* a second run finds what the first has left */
            enum { GROUPS = 3, MOST = 64 };
            int n = sizes[s];
            int32_t x[GROUPS * MOST], t1[GROUPS * MOST], t2[GROUPS * MOST], t3[GROUPS * MOST],
                view[GROUPS * MOST];
            for (int i = 0; i < GROUPS * n; i++)
                x[i] = i * i - 7 * i + again;
            for (int i = 0; i < GROUPS * n; i++)
                t1[i] = x[i] + 1;
            for (int i = 0; i < GROUPS * n; i++) {
                int g = i / n * n, l = i % n;
                t2[i] = 2 * t1[i];
                t3[i] = 2 * t1[g + n - 1 - l] + t1[i];
                view[i] = t1[g + (l + 1) % n];
            }
            char text[8192];
            snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index %d\n%%1 = const index %d\n"
                     "%%2 = const index %d\n%%3 = param i32 (%%2) {slot=0}\n"
                     "%%4 = param i32 (%%2) {slot=1}\n%%5 = param i32 (%%2) {slot=2}\n"
                     "%%6 = param i32 (%%2) {slot=3}\n%%7 = param i32 (%%2) {slot=4}\n"
                     "%%8 = special index (%%0) {name=\"gidx0\"}\n"
                     "%%9 = special index (%%1) {name=\"lidx0\"}\n%%10 = mul index (%%8, %%1)\n"
                     "%%11 = add index (%%10, %%9)\n%%12 = index i32 (%%7, %%11)\n"
                     "%%13 = load i32 (%%12)\n%%14 = const i32 1\n%%15 = add i32 (%%13, %%14)\n"
                     "%%16 = buffer i32 (%%1) {slot=0, space=local}\n"
                     "%%17 = buffer i32 (%%1) {slot=1, space=local}\n"
                     "%%18 = buffer i32 (%%1) {slot=2, space=local}\n"
                     "%%19 = index i32 (%%16, %%9)\n%%20 = store void (%%19, %%15)\n"
                     "%%21 = const i32 2\n%%22 = mul i32 (%%15, %%21)\n"
                     "%%23 = index i32 (%%17, %%9)\n%%24 = store void (%%23, %%22)\n"
                     "%%25 = barrier void (%%20, %%24)\n%%26 = after i32 (%%17, %%25)\n"
                     "%%27 = const index %d\n%%28 = sub index (%%27, %%9)\n"
                     "%%29 = index i32 (%%26, %%28)\n%%30 = load i32 (%%29)\n"
                     "%%31 = add i32 (%%30, %%15)\n%%32 = index i32 (%%18, %%9)\n"
                     "%%33 = store void (%%32, %%31)\n%%34 = barrier void (%%33)\n"
                     "%%35 = after i32 (%%16, %%34)\n%%36 = after i32 (%%17, %%34)\n"
                     "%%37 = after i32 (%%18, %%34)\n%%38 = const index 1\n"
                     "%%39 = add index (%%9, %%38)\n%%40 = floormod index (%%39, %%1)\n"
                     "%%41 = index i32 (%%35, %%40)\n%%42 = load i32 (%%41)\n"
                     "%%43 = index i32 (%%36, %%9)\n%%44 = load i32 (%%43)\n"
                     "%%45 = index i32 (%%37, %%9)\n%%46 = load i32 (%%45)\n"
                     "%%47 = index i32 (%%3, %%11)\n%%48 = store void (%%47, %%15)\n"
                     "%%49 = index i32 (%%4, %%11)\n%%50 = store void (%%49, %%44)\n"
                     "%%51 = index i32 (%%5, %%11)\n%%52 = store void (%%51, %%46)\n"
                     "%%53 = index i32 (%%6, %%11)\n%%54 = store void (%%53, %%42)\n"
                     "%%55 = sink void (%%48, %%50, %%52, %%54) {name=\"places\"}\n",
                     GROUPS, n, GROUPS * n, n - 1);
            size_t all = (size_t)GROUPS * (size_t)n;
            tk_kernel_arg args[5] = {{TOLK_I32, all, NULL, t1, NULL},
                                     {TOLK_I32, all, NULL, t2, NULL},
                                     {TOLK_I32, all, NULL, t3, NULL},
                                     {TOLK_I32, all, NULL, view, NULL},
                                     {TOLK_I32, all, x, NULL, NULL}};
            tk_kernel_run(text, args, 5, NULL, 0, TOLK_OK);
        }
}

int main(void) {
    tk_kernel_add_compilers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MEM_03_a_launch_keeps_neither_its_buffers_nor_memory),
        cmocka_unit_test(test_MEM_05_results_do_not_depend_on_what_the_cache_keeps),
        cmocka_unit_test(test_MEM_07_a_large_kernel_from_disk_is_the_same),
        cmocka_unit_test(test_ALIAS_05_values_across_meetings_have_places_of_their_own),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
