/* SPDX-License-Identifier: MIT
 *
 * The library as part of a process: fork, signals, exit, locale, what stays behind. Case ids are
 * those of the collection this project tests against.
 */
#include "support/runtime.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { N = 1000, BIG = 4096 };

/* ---- fork ---- */

static rt shared;
static tolk_program *shared_program, *shared_big;
static _Atomic int stop;
static char *shared_dir; /* of its disk cache; NULL: none */

/* In a child: what was there works, and new work does; exit code 0. */
static int child_works(void *arg) {
    int id = *(int *)arg;
    if (!rt_scale_is(shared_program, N, 3))
        return 1;
    tolk_program *p = NULL;
    if (rt_try(&shared, rt_text(RT_SCALE, N, "5"), NULL, &p, NULL) || !rt_scale_is(p, N, 5))
        return 2;
    tolk_program_unref(p);
    /* one that nobody has compiled */
    if (rt_try(&shared, rt_text(RT_SCALE, 100 + id, "0.5"), NULL, &p, NULL) ||
        !rt_scale_is(p, 100 + id, 0.5f))
        return 3;
    tolk_program_unref(p);
    static float x[BIG], y[BIG];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    if (tolk_launch(shared_big, bufs, bytes, 2, NULL, 0, NULL)) /* with a team of threads */
        return 4;
    tolk_cache_stats stats;
    if (tolk_cache_get_stats(shared.ctx, &stats) || tolk_cache_clear(shared.ctx, NULL))
        return 5;
    return 0;
}

static void open_shared(void) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.threads = 2;
    rt_open(&shared, shared_dir, &opts);
    shared_program = rt_compile(&shared, rt_text(RT_SCALE, N, "3"));
    shared_big = rt_compile(&shared, rt_text(RT_SPIN, BIG, 1000LL));
    assert_true(rt_scale_is(shared_program, N, 3));
    static float x[BIG], y[BIG];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    assert_int_equal(tolk_launch(shared_big, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
}

static void close_shared(void) {
    tolk_program_unref(shared_program);
    tolk_program_unref(shared_big);
    rt_close(&shared);
}

static void test_THR_01_fork_after_use_child_and_parent_work(void **state) {
    (void)state;
    open_shared();
    for (int i = 0; i < 4; i++)
        assert_int_equal(tk_test_child(child_works, &i, 60), 0);
    int id = 50;
    assert_int_equal(child_works(&id), 0); /* the parent */
    close_shared();
}

static void *compile_forever(void *arg) {
    int id = *(int *)arg;
    for (int i = 0; !stop; i++) {
        tolk_program *p = NULL;
        if (rt_try(&shared, rt_text(RT_SCALE, 2000 + id * 1000 + i % 1000, "2"), NULL, &p, NULL))
            return (void *)1;
        int good = rt_scale_is(p, 2000 + id * 1000 + i % 1000, 2);
        tolk_program_unref(p);
        if (!good)
            return (void *)2;
        if (i % 64 == 0)
            tolk_cache_clear(shared.ctx, NULL);
    }
    return NULL;
}

static void *launch_forever(void *arg) {
    (void)arg;
    static float x[BIG], y[BIG];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    while (!stop)
        if (tolk_launch(shared_big, bufs, bytes, 2, NULL, 0, NULL))
            return (void *)1;
    return NULL;
}

/* Files of the disk cache are open at that moment, too. */
static void test_THR_01_fork_while_compiling_and_launching_child_never_hangs(void **state) {
    (void)state;
    shared_dir = rt_mkdir();
    open_shared();
    stop = 0;
    pthread_t threads[3];
    int ids[3] = {0, 1, 2};
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 2 ? compile_forever : launch_forever, &ids[i]),
            0);
    int runs = (int)tk_test_count(400);
    for (int i = 0; i < runs; i++) {
        rt_sleep(0.0007 * (i % 7));
        int code = tk_test_child(child_works, &i, 60);
        if (code != 0)
            fail_msg("child %d of %d: %d", i, runs, code);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    close_shared();
    rt_rmdir(shared_dir);
    shared_dir = NULL;
}

/* ---- signals ---- */

static _Atomic int caught;

static void on_signal(int sig) {
    (void)sig;
    caught++;
}

typedef struct signals {
    struct sigaction action[65];
    sigset_t mask;
    stack_t stack;
} signals;

static void look(signals *s) {
    memset(s, 0, sizeof *s);
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &s->action[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    sigaltstack(NULL, &s->stack);
}

static int same_signals(const signals *a, const signals *b) {
    for (int i = 1; i < 65; i++)
        if (a->action[i].sa_handler != b->action[i].sa_handler ||
            a->action[i].sa_flags != b->action[i].sa_flags)
            return i;
    for (int i = 1; i < 65; i++)
        if (sigismember(&a->mask, i) != sigismember(&b->mask, i))
            return 100 + i;
    return a->stack.ss_sp == b->stack.ss_sp && a->stack.ss_flags == b->stack.ss_flags ? 0 : 200;
}

/* In a child, so that it sees the first use in a process. */
static int use_and_compare(void *arg) {
    (void)arg;
    static signals before, after;
    struct sigaction mine = {.sa_handler = on_signal};
    sigaction(SIGINT, &mine, NULL);
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    look(&before);
    int id = 1;
    open_shared();
    int works = child_works(&id);
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT; /* an error on the way, too */
    int refused = rt_try(&shared, "tolk.uop 1\n%0 = nonsense\n", NULL, &p, &err);
    close_shared();
    look(&after);
    return works || !refused ? 250 : same_signals(&before, &after);
}

static void test_THR_03_signals_after_use_are_as_before(void **state) {
    (void)state;
    assert_int_equal(tk_test_child(use_and_compare, NULL, 60), 0);
}

/* Ctrl-C between all passes of a compilation, and a timer that interrupts every system call it can:
 * the host's handlers get the signals, and the work is done all the same. */
static void press_ctrl_c(void *user, tolk_log_level level, const char *text) {
    (void)user, (void)level, (void)text;
    kill(getpid(), SIGINT);
}

static int work_under_signals(void *arg) {
    const char *dir = arg;
    struct sigaction mine = {.sa_handler = on_signal}; /* without SA_RESTART */
    sigaction(SIGINT, &mine, NULL);
    sigaction(SIGALRM, &mine, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    setenv("TOLK_DEBUG", "9", 1);
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.log = press_ctrl_c;
    o.cache_dir = dir;
    rt own = {0};
    if (tolk_ctx_create(&o, &own.ctx, NULL) || tolk_device_open(own.ctx, "CPU", &own.cpu, NULL))
        return 1;
    for (int i = 0; i < 8; i++) {
        tolk_program *p;
        if (rt_try(&own, rt_text(RT_SCALE, 300 + i % 4, "3"), NULL, &p, NULL))
            return 2;
        if (!rt_scale_is(p, 300 + i % 4, 3))
            return 3;
        tolk_program_unref(p);
    }
    tolk_program *big = NULL;
    static float x[BIG], y[BIG];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    if (rt_try(&own, rt_text(RT_SPIN, BIG, 1000LL), NULL, &big, NULL))
        return 4;
    for (int i = 0; i < 20; i++)
        if (tolk_launch(big, bufs, bytes, 2, NULL, 0, NULL))
            return 5;
    tolk_program_unref(big);
    rt_close(&own);
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, NULL);
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    return now.sa_handler != on_signal ? 6 : caught < 20 ? 7 : 0;
}

static void test_THR_03_the_hosts_handlers_get_signals_and_work_goes_on(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    assert_int_equal(tk_test_child(work_under_signals, dir, 120), 0);
    rt_rmdir(dir);
}

/* ---- exit ---- */

/* exit() while other threads compile and launch. */
static int exit_with_work(void *arg) {
    static int ids[3] = {0, 1, 2};
    int run = *(int *)arg;
    open_shared();
    stop = 0;
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        if (pthread_create(&thread, NULL, i < 2 ? compile_forever : launch_forever, &ids[i]))
            return 1;
        pthread_detach(thread);
    }
    rt_sleep(0.001 * (run % 20));
    exit(7);
}

static void test_THR_05_exit_with_work_in_flight_ends_with_its_status(void **state) {
    (void)state;
    int runs = (int)tk_test_count(200);
    for (int i = 0; i < runs; i++) {
        int code = tk_test_child(exit_with_work, &i, 60);
        if (code != 7)
            fail_msg("run %d of %d ended with %d, expected 7", i, runs, code);
    }
}

/* ---- what stays behind ---- */

static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Compile, run and drop a kernel that no other is like. */
static void one_kernel(rt *r, int i) {
    char factor[32];
    snprintf(factor, sizeof factor, "%d.25", i);
    tolk_program *p = rt_compile(r, rt_text(RT_SCALE, 64, factor));
    assert_true(rt_scale_is(p, 64, (float)i + 0.25f));
    tolk_program_unref(p);
}

static int by_size(const void *pa, const void *pb) {
    const double *a = pa, *b = pb;
    return *a < *b ? -1 : *a > *b;
}

/* MEM-01: the library keeps nothing of a kernel that was dropped. 100,000 of them at a share of 100
 * percent. */
static void test_MEM_01_compile_and_drop_memory_and_mappings_do_not_grow(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they keep freed memory back */
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    skip();
#endif
#endif
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.memory_entries = 16;
    rt r;
    rt_open(&r, NULL, &opts);
    /* Memory in six equal parts: what grows with the kernels grows in each, what malloc and LLVM
     * take once does not. Of the last four the median counts. */
    enum { PARTS = 6 };
    int n = tk_test_share() >= 100 ? 100000 : 3000, warm = 600, both, i = 0;
    while (i < warm)
        one_kernel(&r, i++);
    double first = rt_rss(), before = first, grown[PARTS];
    int maps = rt_maps(&both), files = open_files();
    for (int part = 0; part < PARTS; part++) {
        while (i < warm + n / PARTS * (part + 1))
            one_kernel(&r, i++);
        double now = rt_rss();
        grown[part] = now - before;
        before = now;
    }
    int maps_now = rt_maps(&both), files_now = open_files();
    qsort(grown + 2, PARTS - 2, sizeof *grown, by_size);
    double slope = (grown[3] + grown[4]) / 2 / (n / PARTS); /* bytes a kernel */
    printf("%d kernels: resident memory %+.0f KiB, in the end %.1f bytes a kernel, mappings %+d\n",
           n, (before - first) / 1024, slope, maps_now - maps);
    assert_true(before - first < 4.0 * 1024 * 1024);
    assert_true(slope <= 4.0 * 1024 * 1024 / 100000);
    assert_int_equal(maps_now, maps);
    assert_int_equal(files_now, files);
    rt_close(&r);
}

/* y[i] = exp(x[i]) + 1e-3 over 1000 floats: constants in tables, and what another compiler would
 * call libm for. */
#define EXP                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n%%1 = param f32 (%%0) {slot=0}\n%%2 = param f32 (%%0) {slot=1}\n"       \
    "%%3 = range index (%%0) {axis=0, kind=global}\n%%4 = index f32 (%%2, %%3)\n"                  \
    "%%5 = load f32 (%%4)\n%%6 = exp f32 (%%5)\n%%7 = const f32 1e-3\n"                            \
    "%%8 = add f32 (%%6, %%7)\n%%9 = index f32 (%%1, %%3)\n%%10 = store void (%%9, %%8)\n"         \
    "%%11 = end void (%%10, %%3)\n%%12 = sink void (%%11) {name=\"scale\"}\n"

static bool exp_is_right(const tolk_program *p) {
    float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 50;
    void *bufs[] = {y, x};
    const size_t bytes[] = {sizeof y, sizeof x};
    bool good = tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL) == TOLK_OK;
    for (int i = 0; good && i < N; i++) {
        const double want = exp((double)x[i]) + 1e-3;
        good = fabs((double)y[i] - want) <= 4e-7 * want; /* 1 ULP, and the sum's rounding */
    }
    return good;
}

/* CG-03, CG-05: many kernels of one name are alive at once, in a process with large reservations:
 * whatever is mapped from here on is far from libm, libc and the first code. */
static void test_CG_05_many_kernels_in_a_large_process_each_runs_its_own(void **state) {
    (void)state;
    enum { RESERVED = 4 };
    const size_t far = (size_t)8 << 30;
    void *reserved[RESERVED];
    rt r;
    rt_open(&r, NULL, NULL);
    tolk_program *before = rt_compile(&r, rt_text(EXP, N));
    assert_true(exp_is_right(before));
    for (int i = 0; i < RESERVED; i++)
        reserved[i] =
            mmap(NULL, far, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.no_cache = 1;
    int n = tk_test_share() >= 100 ? 5000 : 400;
    tolk_program **p = calloc((size_t)n, sizeof *p), *after = NULL;
    assert_non_null(p);
    for (int i = 0; i < n; i++) {
        char factor[32];
        snprintf(factor, sizeof factor, "%d.5", i);
        p[i] = rt_compile(&r, rt_text(RT_SCALE, 37, factor));
        if (i % 100 == 0) {
            tolk_program_unref(after);
            after = NULL;
            assert_int_equal(rt_try(&r, rt_text(EXP, N), &opts, &after, NULL), TOLK_OK);
            assert_true(exp_is_right(after));
        }
    }
    for (int i = 0; i < n; i++)
        assert_true(rt_scale_is(p[i], 37, (float)i + 0.5f));
    assert_true(exp_is_right(after));
    assert_true(exp_is_right(before));
    for (int i = 0; i < n; i++)
        tolk_program_unref(p[i]);
    tolk_program_unref(before);
    tolk_program_unref(after);
    free(p);
    rt_close(&r);
    for (int i = 0; i < RESERVED; i++)
        if (reserved[i] != MAP_FAILED)
            munmap(reserved[i], far);
}

/* CG-03: one name, compiled and dropped again and again, two alive; memory stays. */
static void test_CG_03_one_name_compiled_1000_times_gives_no_error(void **state) {
    (void)state;
    rt r;
    rt_open(&r, NULL, NULL);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.no_cache = 1;
    const int n = tk_test_share() >= 100 ? 1000 : 200, warm = n / 2;
    double rss = 0;
    for (int i = 0; i < n; i++) {
        tolk_program *a = NULL, *b = NULL;
        if (i == warm)
            rss = rt_rss();
        assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 50, "3"), &opts, &a, NULL), TOLK_OK);
        assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 50, "4"), &opts, &b, NULL), TOLK_OK);
        assert_true(rt_scale_is(a, 50, 3));
        assert_true(rt_scale_is(b, 50, 4));
        tolk_program_unref(a);
        tolk_program_unref(b);
    }
    if (!TK_TEST_ASAN && !TK_TEST_TSAN) /* they keep freed memory back */
        assert_true(rt_rss() - rss < 2.0 * 1024 * 1024);
    assert_int_equal(r.logged, 0);
    rt_close(&r);
}

/* CG-03: a kernel that the cache has dropped while it is in use, compiled again. */
static void test_CG_03_evicted_kernel_is_compiled_again(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.memory_entries = 1;
    rt r;
    rt_open(&r, NULL, &opts);
    tolk_program *first = rt_compile(&r, rt_text(RT_SCALE, 50, "3"));
    for (int i = 0; i < 50; i++) {
        tolk_program *other = rt_compile(&r, rt_text(RT_SCALE, 50, "4"));
        tolk_program *again = rt_compile(&r, rt_text(RT_SCALE, 50, "3"));
        tolk_program_info info;
        assert_int_equal(tolk_program_get_info(again, &info), TOLK_OK);
        assert_int_equal(info.cached, TOLK_CACHED_NONE); /* it was gone */
        assert_true(rt_scale_is(other, 50, 4));
        assert_true(rt_scale_is(again, 50, 3));
        assert_true(rt_scale_is(first, 50, 3));
        tolk_program_unref(other);
        tolk_program_unref(again);
    }
    tolk_program_unref(first);
    assert_int_equal(r.logged, 0);
    rt_close(&r);
}

/* ---- locale ---- */

static void test_CG_11_comma_locale_changes_no_number_and_no_key(void **state) {
    (void)state;
    char *dir = rt_mkdir(), *text;
    size_t len;
    rt r;
    rt_open(&r, dir, NULL);
    tolk_program_unref(rt_compile(&r, rt_text(RT_SCALE, N, "0.5")));
    rt_close(&r);
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    bool found = false;
    for (int i = 0; i < 4 && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL && localeconv()->decimal_point[0] == ',';
    if (!found) {
        /* Make one, as a user would. */
        char command[600];
        snprintf(command, sizeof command,
                 "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", dir);
        setenv("LOCPATH", dir, 1);
        found = system(command) >= 0 && setlocale(LC_ALL, "de_DE.UTF-8") != NULL &&
                localeconv()->decimal_point[0] == ',';
        unsetenv("LOCPATH");
    }
    if (!found) {
        rt_rmdir(dir);
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    rt_open(&r, dir, NULL);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, N, "0.5"));
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    assert_int_equal(info.cached, TOLK_CACHED_DISK); /* the key is the same */
    assert_true(rt_scale_is(p, N, 0.5f));
    tolk_program_unref(p);
    tolk_graph *g;
    const tolk_uop *root;
    const char *source = rt_text(RT_SCALE, N, "0.1");
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, source, strlen(source), 0, &root, NULL), TOLK_OK);
    for (int kind = TOLK_EMIT_UOP; kind <= TOLK_EMIT_LLVM; kind++) {
        assert_int_equal(tolk_emit(r.ctx, root, NULL, (tolk_emit_kind)kind, &text, &len, NULL),
                         TOLK_OK);
        assert_null(strstr(text, "0,1"));
        tolk_free_text(r.ctx, text);
    }
    tolk_graph_destroy(g);
    p = rt_compile(&r, source);
    assert_true(rt_scale_is(p, N, 0.1f));
    tolk_program_unref(p);
    rt_close(&r);
    setlocale(LC_ALL, "C");
    rt_rmdir(dir);
}

/* ---- quiet ---- */

/* Nothing is written to stdout or stderr, whatever goes wrong. */
static int quiet(void *arg) {
    const char *path = arg;
    fflush(NULL);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        return 1;
    int id = 3;
    open_shared();
    int works = child_works(&id);
    static const char *const wrong[] = {"", "tolk.uop 1\n%0 = sink void () {name=\"a\"}\n",
                                        "tolk.uop 1\n%0 = const f32 1e400\n"};
    for (int i = 0; i < 3; i++) {
        tolk_program *p = NULL;
        if (rt_try(&shared, wrong[i], NULL, &p, NULL) == TOLK_OK)
            tolk_program_unref(p);
    }
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    static const char *const targets[] = {"x86-64", "pentium", "native,+nothing", "aarch64",
                                          "native,-avx"};
    for (int i = 0; i < 5; i++) {
        tolk_program *p = NULL;
        opts.target = targets[i];
        if (rt_try(&shared, rt_text(RT_SCALE, N, "3"), &opts, &p, NULL) == TOLK_OK)
            tolk_program_unref(p);
    }
    close_shared();
    fflush(NULL);
    return works ? 2 : lseek(fd, 0, SEEK_END) == 0 ? 0 : 3;
}

static void test_use_and_errors_write_nothing_to_stderr(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    int code = tk_test_child(quiet, (void *)(uintptr_t)rt_text("%s/out", dir), 60);
    rt_rmdir(dir);
    assert_int_equal(code, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_THR_03_signals_after_use_are_as_before),
        cmocka_unit_test(test_THR_03_the_hosts_handlers_get_signals_and_work_goes_on),
        cmocka_unit_test(test_use_and_errors_write_nothing_to_stderr),
        cmocka_unit_test(test_THR_01_fork_after_use_child_and_parent_work),
        cmocka_unit_test(test_THR_01_fork_while_compiling_and_launching_child_never_hangs),
        cmocka_unit_test(test_THR_05_exit_with_work_in_flight_ends_with_its_status),
        cmocka_unit_test(test_CG_11_comma_locale_changes_no_number_and_no_key),
        cmocka_unit_test(test_CG_03_one_name_compiled_1000_times_gives_no_error),
        cmocka_unit_test(test_CG_03_evicted_kernel_is_compiled_again),
        cmocka_unit_test(test_CG_05_many_kernels_in_a_large_process_each_runs_its_own),
        cmocka_unit_test(test_MEM_01_compile_and_drop_memory_and_mappings_do_not_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
