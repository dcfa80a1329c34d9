/* SPDX-License-Identifier: MIT
 *
 * One cache directory for many threads of many processes. Case ids are those of the collection this
 * project tests against.
 */
#include "support/runtime.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>

enum { PROCESSES = 8, THREADS = 8, KERNELS = 12, N = 300 };

static char *dir;

static int setup(void **state) {
    (void)state;
    dir = rt_mkdir();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_rmdir(dir);
    return 0;
}

/* Kernel k: its number of elements, its factor and its loop options are its own, so a launch with
 * another one's code or another one's description is wrong or refused. */
static const char *const options[] = {"", "LANE:0:4", "LANE:0:2 UPCAST:0:2"};

static int one_kernel(rt *r, int k, tolk_cached *cached) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    tolk_program *p = NULL;
    tolk_program_info info;
    char factor[16];
    int n = N + 4 * k;
    o.opts = options[k % 3];
    snprintf(factor, sizeof factor, "%d.5", k);
    if (rt_try(r, rt_text(RT_SCALE, n, factor), &o, &p, NULL))
        return 1;
    int bad = tolk_program_get_info(p, &info) != TOLK_OK || strcmp(info.opts, o.opts) != 0 ||
              info.lanes != (uint32_t)(k % 3 == 0   ? 1
                                       : k % 3 == 1 ? 4
                                                    : 2) ||
              !rt_scale_is(p, n, (float)k + 0.5f);
    if (cached && !bad)
        *cached = info.cached;
    tolk_program_unref(p);
    return bad ? 2 : 0;
}

/* ---- many processes ---- */

/* fn(0) .. fn(n - 1), each in a process, at the same time; all must return 0 in that time. */
static void together(int (*fn)(int), int n, unsigned seconds) {
    pid_t child[32];
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i]) {
            alarm(seconds);
            int code = fn(i);
            fflush(NULL);
            _exit(code);
        }
    }
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "process %d: %s %d\n", i, WIFSIGNALED(status) ? "signal" : "code",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* Files of the directory whose name holds part. */
static int files_with(const char *part) {
    int n = 0;
    for (int shard = 0; shard < 256; shard++) {
        DIR *d = opendir(rt_text("%s/%02x", dir, shard));
        for (struct dirent *e; d && (e = readdir(d));)
            n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
        if (d)
            closedir(d);
    }
    return n;
}

/* Each process goes through all kernels from another one on, with nothing in memory. */
static int compile_all(int id) {
    for (int round = 0; round < 3; round++) {
        rt r;
        rt_open(&r, dir, NULL);
        for (int i = 0; i < KERNELS; i++) {
            int bad = one_kernel(&r, (i + id) % KERNELS, NULL);
            if (bad)
                return bad;
        }
        tolk_cache_stats stats;
        if (tolk_cache_get_stats(r.ctx, &stats) || stats.damaged || r.logged ||
            stats.misses + stats.disk_hits != KERNELS)
            return 3;
        /* what this process made or found is there in the next round */
        if (round && stats.misses)
            return 4;
        rt_close(&r);
    }
    return 0;
}

static void test_DISK_03_processes_that_make_the_same_entries_see_whole_ones(void **state) {
    (void)state;
    together(compile_all, PROCESSES, 100);
    assert_int_equal(files_with(".tolk"), KERNELS);
    assert_int_equal(files_with(".tmp"), 0);
    rt r;
    rt_open(&r, dir, NULL);
    for (int k = 0; k < KERNELS; k++) {
        tolk_cached cached;
        assert_int_equal(one_kernel(&r, k, &cached), 0);
        assert_int_equal(cached, TOLK_CACHED_DISK);
    }
    rt_close(&r);
}

/* Two keys that start together, again and again from an empty directory. */
static int one_of_two(int id) {
    rt r;
    rt_open(&r, dir, NULL);
    int bad = one_kernel(&r, id % 2, NULL);
    rt_close(&r);
    return bad;
}

static void test_DISK_03_different_keys_that_start_together_do_not_mix(void **state) {
    (void)state;
    for (int round = 0; round < 5; round++) {
        rt r;
        together(one_of_two, 6, 60);
        assert_int_equal(files_with(".tolk"), 2);
        rt_open(&r, dir, NULL);
        for (int k = 0; k < 2; k++) {
            tolk_cached cached;
            assert_int_equal(one_kernel(&r, k, &cached), 0);
            assert_int_equal(cached, TOLK_CACHED_DISK);
        }
        assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
        rt_close(&r);
        assert_int_equal(files_with(""), 0);
    }
}

/* ---- DISK-05: 8 threads of 8 processes ---- */

typedef struct worker {
    rt *r;
    int id;
    int bad;
} worker;

static void *get_and_put(void *arg) {
    worker *w = arg;
    uint64_t seed = 77 * (uint64_t)w->id + 1;
    for (int i = 0; i < 25 && !w->bad; i++) {
        uint64_t random = tk_test_rand(&seed);
        tolk_cache_stats stats;
        w->bad = one_kernel(w->r, (int)(random % KERNELS), NULL);
        if (random >> 8 & 1) {
            double start = rt_now();
            w->bad |= tolk_cache_get_stats(w->r->ctx, &stats) != TOLK_OK ? 8 : 0;
            w->bad |= rt_now() - start > 20 ? 4 : 0;
        }
        if ((random >> 16 & 31) == 0)
            w->bad |= tolk_cache_clear(w->r->ctx, NULL) != TOLK_OK ? 16 : 0;
    }
    return NULL;
}

static rt before_fork;

/* A context made before the fork, and one made after it; room for a few entries on disk and two in
 * memory, so that entries come and go all the time. */
static int contend(int id) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.memory_entries = 2;
    o.cache_bytes = 6000;
    rt own;
    rt_open(&own, dir, &o);
    pthread_t threads[THREADS];
    worker w[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){i % 2 ? &own : &before_fork, id * THREADS + i, 0};
        if (pthread_create(&threads[i], NULL, get_and_put, &w[i]))
            return 32;
    }
    int bad = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        bad |= w[i].bad;
    }
    tolk_cache_stats stats;
    bad |= tolk_cache_get_stats(own.ctx, &stats) != TOLK_OK || stats.damaged ? 64 : 0;
    bad |= own.logged || before_fork.logged ? 128 : 0; /* no error surfaces */
    rt_close(&own);
    return bad;
}

static void test_DISK_05_8_threads_of_8_processes_get_and_put_without_errors(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.memory_entries = 2;
    o.cache_bytes = 6000;
    rt_open(&before_fork, dir, &o);
    assert_int_equal(one_kernel(&before_fork, 0, NULL), 0);
    together(contend, PROCESSES, 250);
    assert_int_equal(contend(PROCESSES), 0); /* and the parent */
    assert_int_equal(files_with(".tmp"), 0);
    rt_close(&before_fork);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_DISK_03_processes_that_make_the_same_entries_see_whole_ones),
        TEST(test_DISK_03_different_keys_that_start_together_do_not_mix),
        TEST(test_DISK_05_8_threads_of_8_processes_get_and_put_without_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
