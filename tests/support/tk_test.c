/* SPDX-License-Identifier: MIT */
#include "support/tk_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t number_of_env(const char *name, uint64_t fallback) {
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    if (errno || *end) {
        /* A seed that is no number would silently be another one. */
        fprintf(stderr, "%s=%s is not a number\n", name, text);
        exit(2);
    }
    return v;
}

unsigned tk_test_share(void) {
    uint64_t share = number_of_env("TOLK_TEST_SHARE", 5);
    return share > 100 ? 100 : (unsigned)share;
}

uint64_t tk_test_seed(void) {
    static bool printed;
    uint64_t seed = number_of_env("TOLK_TEST_SEED", (uint64_t)TK_TEST_COMMIT);
    if (!printed) {
        printed = true;
        printf("random suites: TOLK_TEST_SEED=0x%llx TOLK_TEST_SHARE=%u\n",
               (unsigned long long)seed, tk_test_share());
        fflush(stdout);
    }
    return seed;
}

uint64_t tk_test_count(uint64_t full) {
    tk_test_seed();
    uint64_t n = full / 100 * tk_test_share() + full % 100 * tk_test_share() / 100;
    return n ? n : 1;
}

uint64_t tk_test_rand(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---- the heap ---- */

/* In front of each block: its size, and a mark that a freed block no longer has. */
typedef struct block {
    size_t bytes;
    size_t mark;
} block;
enum { BLOCK_BYTES = 16, BLOCK_MARK = 0x746f6c6b };
_Static_assert(sizeof(block) <= BLOCK_BYTES, "blocks stay aligned to 16 bytes");

static bool heap_fails(tk_test_heap *h) {
    size_t call = ++h->calls, at = h->fail_at;
    return at && (h->fail_onward ? call >= at : call == at);
}

static bool block_is(tk_test_heap *h, const block *b, size_t bytes) {
    if (b->mark == BLOCK_MARK && b->bytes == bytes)
        return true;
    fprintf(stderr, "block of %zu bytes is given back as one of %zu\n", b->bytes, bytes);
    h->bad_size = true;
    return false;
}

static void *heap_alloc(void *user, size_t bytes) {
    tk_test_heap *h = user;
    if (heap_fails(h))
        return NULL;
    block *b = malloc(BLOCK_BYTES + bytes);
    if (!b)
        return NULL;
    b->bytes = bytes;
    b->mark = BLOCK_MARK;
    h->live++;
    char *p = (char *)b + BLOCK_BYTES;
    memset(p, 0xa5, bytes); /* memory is not zero by luck */
    return p;
}

static void heap_release(void *user, void *p, size_t bytes) {
    tk_test_heap *h = user;
    block *b = (block *)(void *)((char *)p - BLOCK_BYTES);
    if (!block_is(h, b, bytes))
        return;
    b->mark = 0;
    h->live--;
    free(b);
}

static void *heap_resize(void *user, void *p, size_t old_bytes, size_t new_bytes) {
    tk_test_heap *h = user;
    block *b = (block *)(void *)((char *)p - BLOCK_BYTES);
    if (!block_is(h, b, old_bytes))
        return NULL;
    void *q = heap_alloc(user, new_bytes);
    if (!q)
        return NULL;
    memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    heap_release(user, p, old_bytes);
    return q;
}

void tk_test_heap_init(tk_test_heap *h) {
    memset(h, 0, sizeof *h);
    h->al = (tolk_allocator){h, heap_alloc, heap_resize, heap_release};
}

/* One run with the k-th allocation failing. Returns how many there were. */
static size_t oom_run(tk_test_oom_fn fn, void *user, size_t k, bool onward, bool *failed) {
    tk_test_heap h;
    tk_test_heap_init(&h);
    h.fail_at = k;
    h.fail_onward = onward;
    tolk_status status = fn(&h.al, user);
    *failed = k && h.calls >= k;
    if (h.live || h.bad_size || (status != TOLK_OK && !(*failed && status == TOLK_E_NOMEM)))
        fail_msg("allocation %zu of %zu fails%s: status %d, %zu blocks left%s", k, (size_t)h.calls,
                 onward ? ", and all after it" : "", (int)status, (size_t)h.live,
                 h.bad_size ? ", wrong sizes" : "");
    return h.calls;
}

size_t tk_test_oom(tk_test_oom_fn fn, void *user) {
    bool failed;
    size_t calls = oom_run(fn, user, 0, false, &failed);
    for (int onward = 0; onward < 2; onward++) {
        failed = true;
        for (size_t k = 1; failed; k += k < 1000 ? 1 : 1 + k / 64)
            oom_run(fn, user, k, onward, &failed);
    }
    return calls;
}

/* ---- places to run ---- */

void *tk_test_on_stack(size_t stack_bytes, void *(*fn)(void *), void *arg) {
    pthread_attr_t attr;
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, stack_bytes), 0);
    assert_int_equal(pthread_create(&thread, &attr, fn, arg), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    pthread_attr_destroy(&attr);
    return result;
}

bool tk_test_limit_memory(size_t more) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    bool ok = f && fscanf(f, "%lu", &pages) == 1;
    if (f)
        fclose(f);
    struct rlimit most;
    if (!ok || getrlimit(RLIMIT_AS, &most))
        return false;
    most.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    return setrlimit(RLIMIT_AS, &most) == 0;
}

/* The child's signals are its own again: cmocka's handlers would make other ends of them. */
static void forget_handlers(void) {
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals && !TK_TEST_ASAN && !TK_TEST_TSAN; i++)
        signal(signals[i], SIG_DFL);
}

/* A child that calls exit() does so while its threads run, and the check for leaks may wait for
 * them for ever: it holds the loader's list of libraries, which a thread in dlopen() waits for,
 * while it waits for the threads' table, which a thread in pthread_create() holds until dlopen() is
 * over. */
#if TK_TEST_ASAN
static int is_child;
int __lsan_is_turned_off(void); /* NOLINT */
int __lsan_is_turned_off(void) {
    return is_child;
}
#endif

int tk_test_child(int (*fn)(void *), void *arg, unsigned seconds) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
#if TK_TEST_ASAN
        is_child = 1;
#endif
        forget_handlers();
        alarm(seconds);
        int code = fn(arg);
        fflush(NULL);
        _exit(code);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

char *tk_test_source(const char *relative) {
    const char *root = getenv("TOLK_TEST_SOURCE");
    char *path;
    if (asprintf(&path, "%s/%s", root ? root : ".", relative) < 0)
        fail_msg("no memory");
    return path;
}
