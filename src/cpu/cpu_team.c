/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_team.h"

#include "base/env.h"
#include "base/gate.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_THREADS = 1024 };
enum {
    SPARE_BYTES = 64 << 20,  /* OpenMP takes less to start, and for a team */
    ARENA_BYTES = 128 << 20, /* of address space: what malloc takes for a thread that uses it */
    LEAST_STACK = 128 << 10, /* of a thread that kernels run on: OpenMP allows 16 KiB */
};

/* The end of a region orders its threads before what follows. libomp's tool for TSan, Archer, loses
 * that for a region inside a host's region, so it is said here; nothing in other builds. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#define REGION_LEAVE(j) __tsan_release(j)
#define REGION_JOIN(j) __tsan_acquire(j)
#endif
#endif
#ifndef REGION_JOIN
#define REGION_LEAVE(j) ((void)0)
#define REGION_JOIN(j) ((void)0)
#endif

/* Regions that go on, for exit(): OpenMP is taken apart then. The flags of some of them, so that
 * they end at once. */
static tk_gate gate;
enum { FLAGS = 64 };
static _Atomic(_Atomic uint32_t *) flags[FLAGS];

/* Threads that this process was seen to have room for. */
static _Atomic int proven = 1;

static void close_gate(void) {
    tk_gate_close(&gate);
    for (int i = 0; i < FLAGS; i++) {
        _Atomic uint32_t *flag = atomic_load(&flags[i]);
        if (flag)
            atomic_store(flag, 1);
    }
    tk_gate_wait(&gate, 60000);
}

static void forked(void) {
    tk_gate_forked(&gate);
    atomic_store(&proven, 1);
    for (int i = 0; i < FLAGS; i++)
        atomic_store(&flags[i], NULL);
}

/* At load, as exit() may have begun by the time of the first region. If one fails all is as if it
 * were not there. */
__attribute__((constructor)) static void at_load(void) {
    (void)atexit(close_gate);
    (void)pthread_atfork(NULL, NULL, forked);
}

/* Tell exit() of a region's flag. The slot, or FLAGS. */
static int show_flag(_Atomic uint32_t *stop) {
    int i = 0;
    for (; stop && i < FLAGS; i++) {
        _Atomic uint32_t *none = NULL;
        if (atomic_compare_exchange_strong(&flags[i], &none, stop))
            return i;
    }
    return FLAGS;
}

static void *wait_for(void *lock) {
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* Bytes of the stack of OpenMP's threads, which the environment decides; 0: not known. */
static size_t stack_of_workers(void) {
#ifdef KMP_VERSION_MAJOR
    return kmp_get_stacksize_s();
#else
    return 0;
#endif
}

/* Make up to `want` threads with such a stack at once, and end them. How many there were. */
static int try_threads(int want, size_t stack) {
    pthread_t made[MOST_THREADS];
    pthread_attr_t attr;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int n = 0;
    if (pthread_attr_init(&attr) != 0)
        return 0;
    if (!stack || pthread_attr_setstacksize(&attr, stack) == 0) {
        pthread_mutex_lock(&lock);
        while (n < want && pthread_create(&made[n], &attr, wait_for, &lock) == 0)
            n++;
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < n; i++)
            pthread_join(made[i], NULL);
    }
    pthread_mutex_destroy(&lock);
    pthread_attr_destroy(&attr);
    return n;
}

/* libomp 19 takes a number of threads that is none for a very large table, which ends the process:
 * with such a variable OpenMP is not even started. */
static bool starts_well(void) {
    const char *v = tk_env_of_process("OMP_NUM_THREADS");
    if (!v)
        return true;
    for (;;) {
        v += strspn(v, " \t");
        size_t digits = strspn(v, "0123456789"), zeros = strspn(v, "0");
        if (digits == 0 || digits > 9 || zeros == digits)
            return false;
        v += digits;
        v += strspn(v, " \t");
        if (*v != ',')
            return *v == 0;
        v++;
    }
}

/* How many threads of `threads` a team may have. OpenMP ends the process when the system gives it
 * no more threads or memory, so before a larger team than ever its threads are made once without
 * it, beside memory for what else it needs. */
static int affordable(int threads) {
    if (threads <= atomic_load_explicit(&proven, memory_order_relaxed))
        return threads;
    if (!starts_well())
        return 1;
    size_t space = SPARE_BYTES + (size_t)threads * ARENA_BYTES;
    void *spare =
        mmap(NULL, SPARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *arenas = mmap(NULL, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool has_room = spare != MAP_FAILED && arenas != MAP_FAILED;
    int want = 0, n = 0;
    if (has_room) {
        int limit = omp_get_thread_limit(); /* past that OpenMP prints a warning */
        threads = threads < limit ? threads : limit;
        want = threads < MOST_THREADS ? threads - 1 : MOST_THREADS - 1;
        size_t stack = stack_of_workers();
        if (!stack || stack >= LEAST_STACK)
            n = try_threads(want, stack);
    }
    if (spare != MAP_FAILED)
        munmap(spare, SPARE_BYTES);
    if (arenas != MAP_FAILED)
        munmap(arenas, space);
    if (!has_room || n < want)
        return n ? n : 1; /* one less than there were: others make threads, too */
    int old = atomic_load(&proven);
    while (old < n + 1 && !atomic_compare_exchange_weak(&proven, &old, n + 1))
        ;
    return n + 1;
}

/* Has the stack of OpenMP's threads room for the kernel? */
static bool workers_hold(uint64_t frame_bytes) {
    if (frame_bytes <= TK_CPU_SMALL_FRAME)
        return true;
    size_t stack = stack_of_workers();
    return stack >= TK_CPU_STACK_SPARE && stack - TK_CPU_STACK_SPARE >= frame_bytes;
}

typedef struct region {
    void (*fn)(void *arg, int thread);
    void *arg;
} region;

/* A function of its own: OpenMP is started at the beginning of the one that has a region. */
__attribute__((noinline)) static void run_region(region *r, int threads) {
#pragma omp parallel num_threads(threads) default(none) shared(r)
    {
        r->fn(r->arg, omp_get_thread_num());
        REGION_LEAVE(r);
    }
    REGION_JOIN(r);
}

void tk_cpu_team_run(int threads, uint64_t frame_bytes, _Atomic uint32_t *stop,
                     void (*fn)(void *arg, int thread), void *arg) {
    if (threads <= 1 || !tk_gate_enter(&gate)) {
        fn(arg, 0);
        return;
    }
    /* A thread that is cancelled in a region would leave it without its end. */
    int shown = show_flag(stop), cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    threads = affordable(threads);
    if (threads > 1 && workers_hold(frame_bytes))
        run_region(&(region){fn, arg}, threads);
    else
        fn(arg, 0);
    pthread_setcancelstate(cancel, NULL);
    if (shown < FLAGS)
        atomic_store(&flags[shown], NULL);
    tk_gate_leave(&gate);
}
