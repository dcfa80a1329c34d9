/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_launch.h"

#include "base/deep.h"
#include "base/env.h"
#include "base/gate.h"
#include "base/status.h"
#include "jit/device.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In operations plus bytes. A region costs 1-2 us when the team is awake and a few tens after an
 * idle time, and this much work takes about 30 us on one core; and one chunk should be done in a
 * few milliseconds, so that a launch can be cancelled between chunks. */
#define PARALLEL_WORK 3e6
#define CHUNK_WORK 2e7
enum { SMALL_SCRATCH = 4096, MOST_THREADS = 1024 };
/* A kernel whose frame is larger runs where the stack has room for it beside STACK_SPARE. */
enum { SMALL_FRAME = 16 << 10, STACK_SPARE = 64 << 10 };
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

/* ---- the floating-point environment ---- */

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef uint32_t fp_env;
enum { FP_PLAIN = 0x1f80, FP_RAISED = 0x3f }; /* nearest, denormals kept, exceptions masked */
/* Writing the register takes as long as a small launch, reading it does not. */
static fp_env fp_enter(void) {
    fp_env old = _mm_getcsr();
    if ((old & ~(fp_env)FP_RAISED) != FP_PLAIN)
        _mm_setcsr(FP_PLAIN);
    return old;
}
static void fp_leave(fp_env old) {
    if (_mm_getcsr() != old)
        _mm_setcsr(old);
}
#else
typedef uint64_t fp_env;
static fp_env fp_enter(void) {
    fp_env old;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return old;
}
static void fp_leave(fp_env old) {
    __asm__ volatile("msr fpcr, %0" : : "r"(old));
}
#endif

/* ---- one launch ---- */

typedef struct job {
    const tk_launch *launch;
    const _Atomic uint32_t *cancel;
    _Atomic uint32_t *stop; /* the same where it may be set; or NULL */
    int64_t from, to;       /* the iterations of this part of the launch ... */
    int64_t chunks;         /* ... and how many chunks they are cut into */
    void *scratch;
    size_t stride;               /* from one thread's scratch to the next one's; 0: they share it */
    _Atomic int64_t next;        /* next chunk nobody has taken */
    _Atomic int64_t fault_chunk; /* lowest chunk that faulted; chunks if none did */
    pthread_mutex_t fault_lock;
    uint32_t fault_slot;
    int64_t fault_index;
} job;

__extension__ typedef __int128 wide; /* span * chunks can pass 64 bits */

/* First iteration of chunk c. */
static int64_t chunk_begin(const job *j, int64_t c) {
    return j->from + (int64_t)((wide)(j->to - j->from) * c / j->chunks);
}

static void keep_fault(job *j, int64_t chunk, const tolk_kenv *env) {
    pthread_mutex_lock(&j->fault_lock);
    if (chunk < atomic_load_explicit(&j->fault_chunk, memory_order_relaxed)) {
        atomic_store_explicit(&j->fault_chunk, chunk, memory_order_relaxed);
        j->fault_slot = env->fault_slot;
        j->fault_index = env->fault_index;
    }
    pthread_mutex_unlock(&j->fault_lock);
}

static bool cancelled(const job *j) {
    return atomic_load_explicit(j->cancel, memory_order_relaxed) != 0;
}

/* Take chunks until none is left. */
static void work(job *j, int thread) {
    const tk_launch *l = j->launch;
    fp_env old = fp_enter();
    tolk_kenv env = {.size = sizeof env,
                     .scratch = (char *)j->scratch + (size_t)thread * j->stride,
                     .thread = thread,
                     .cancel = j->cancel,
                     .dynamic_bytes = (int64_t)l->dynamic_bytes};
    while (!cancelled(j)) {
        int64_t c = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (c >= j->chunks)
            break;
        l->fn(l->bufs, l->vals, chunk_begin(j, c), chunk_begin(j, c + 1), &env);
        if (env.fault) {
            keep_fault(j, c, &env);
            env.fault = 0;
        }
    }
    fp_leave(old);
}

/* The common case: one chunk on the caller's thread. */
static void run_inline(tk_launch *l, void *scratch, const _Atomic uint32_t *cancel) {
    tolk_kenv env = {.size = sizeof env,
                     .scratch = scratch,
                     .cancel = cancel,
                     .dynamic_bytes = (int64_t)l->dynamic_bytes};
    l->fn(l->bufs, l->vals, 0, l->span, &env);
    l->faulted = env.fault != 0;
    l->fault_slot = env.fault_slot;
    l->fault_index = env.fault_index;
}

/* ---- teams ---- */

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
static int show_flag(const job *j) {
    int i = 0;
    for (; j->stop && i < FLAGS; i++) {
        _Atomic uint32_t *none = NULL;
        if (atomic_compare_exchange_strong(&flags[i], &none, j->stop))
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
static bool workers_hold(const tk_launch *l) {
    if (l->frame_bytes <= SMALL_FRAME)
        return true;
    size_t stack = stack_of_workers();
    return stack >= STACK_SPARE && stack - STACK_SPARE >= l->frame_bytes;
}

/* A function of its own: OpenMP is started at the beginning of the one that has a region. */
__attribute__((noinline)) static void run_team(job *j, int threads) {
#pragma omp parallel num_threads(threads) default(none) shared(j)
    {
        work(j, omp_get_thread_num());
        REGION_LEAVE(j);
    }
    REGION_JOIN(j);
}

static void run_chunks(job *j, int threads) {
    if (threads <= 1 || !tk_gate_enter(&gate)) {
        work(j, 0);
        return;
    }
    int shown = show_flag(j);
    threads = affordable(threads);
    if (threads > 1 && workers_hold(j->launch))
        run_team(j, threads);
    else
        work(j, 0);
    if (shown < FLAGS)
        atomic_store(&flags[shown], NULL);
    tk_gate_leave(&gate);
}

/* Of scratch memory that each thread has of its own: whole cache lines. */
static size_t stride_of(const tk_launch *l) {
    return (l->scratch_bytes + 127) & ~(size_t)127;
}

/* The iterations [from, to), in chunks. */
static void run_part(tk_launch *l, int64_t from, int64_t to, void *scratch,
                     const _Atomic uint32_t *cancel, _Atomic uint32_t *stop, int threads) {
    job j = {.launch = l,
             .cancel = cancel,
             .stop = stop,
             .from = from,
             .to = to,
             .scratch = scratch,
             .stride = l->scratch_per_thread ? stride_of(l) : 0};
    double pieces = l->work / CHUNK_WORK;
    j.chunks = pieces > 1e6 ? 1000000 : (int64_t)pieces + 1;
    if (threads > 1 && j.chunks < 4 * (int64_t)threads)
        j.chunks = 4 * (int64_t)threads; /* so that a late thread costs a quarter of a share */
    if (j.chunks > to - from)
        j.chunks = to - from;
    if (threads > j.chunks)
        threads = (int)j.chunks;
    atomic_init(&j.next, 0);
    atomic_init(&j.fault_chunk, j.chunks);
    pthread_mutex_init(&j.fault_lock, NULL);
    run_chunks(&j, threads);
    pthread_mutex_destroy(&j.fault_lock);
    if (atomic_load(&j.fault_chunk) < j.chunks && !l->faulted) {
        l->faulted = true;
        l->fault_slot = j.fault_slot;
        l->fault_index = j.fault_index;
    }
}

/* A launch and where it runs. */
typedef struct place {
    tk_launch *launch;
    void *scratch;
    const _Atomic uint32_t *cancel;
    _Atomic uint32_t *stop;
    int threads;
} place;

static void run(void *arg) {
    const place *p = arg;
    tk_launch *l = p->launch;
    /* Around the sharing out of the work, too: it computes, and flags would be left behind. */
    fp_env old = fp_enter();
    if (l->work < PARALLEL_WORK) {
        run_inline(l, p->scratch, p->cancel);
    } else {
        if (l->pieces > 0)
            run_part(l, 0, l->pieces, p->scratch, p->cancel, p->stop, p->threads);
        if (l->span > l->pieces)
            run_part(l, l->pieces, l->span, p->scratch, p->cancel, p->stop, p->threads);
    }
    fp_leave(old);
}

/* Run it here, or where the stack is large enough. */
static tolk_status run_placed(place *p, tolk_error *err) {
    uint64_t frame = p->launch->frame_bytes;
    if (frame > SMALL_FRAME && tk_deep_left() < frame + STACK_SPARE) {
        if (!tk_deep_run((size_t)frame + 4 * STACK_SPARE, run, p))
            return tk_status_fail(
                err, TOLK_E_NOMEM, TK_NO_NODE,
                "the kernel takes %llu bytes of stack, more than this thread has, "
                "and the system gives no other thread",
                (unsigned long long)frame);
        return TOLK_OK;
    }
    run(p);
    return TOLK_OK;
}

/* Scratch memory for as many of *threads as there is memory for. *bytes: allocated. NULL: none. */
static void *big_scratch(const tolk_allocator *al, const tk_launch *l, int *threads,
                         size_t *bytes) {
    size_t each = stride_of(l),
           n = l->scratch_per_thread && l->work >= PARALLEL_WORK ? (size_t)*threads : 1;
    void *memory = NULL;
    for (; n > 0 && !memory; n /= 2) {
        if (each < l->scratch_bytes || !tk_mul_size(each, n, bytes) ||
            !tk_add_size(*bytes, 64, bytes))
            continue;
        memory = tk_alloc(al, *bytes);
        if (memory && l->scratch_per_thread)
            *threads = (int)n;
    }
    return memory;
}

bool tk_cpu_launch_is_small(const tolk_device *device, const tk_launch *launch) {
    (void)device;
    return launch->span <= 0 || launch->work < PARALLEL_WORK;
}

tolk_status tk_cpu_launch(tolk_device *device, uint32_t max_threads, tk_launch *launch,
                          tolk_error *err) {
    launch->faulted = false;
    if (launch->span <= 0)
        return TOLK_OK;
    /* Scratch memory is small as a rule: partial results of a few dozen pieces. */
    _Alignas(64) char small[SMALL_SCRATCH];
    void *scratch = small, *memory = NULL;
    size_t bytes = 0;
    int threads = (int)max_threads;
    if (launch->scratch_bytes > sizeof small ||
        (launch->scratch_bytes && launch->scratch_per_thread && launch->work >= PARALLEL_WORK)) {
        memory = big_scratch(&device->ctx->al, launch, &threads, &bytes);
        if (!memory)
            return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE,
                                  "there is no memory for the %zu bytes of local memory that this "
                                  "launch needs",
                                  launch->scratch_bytes);
        scratch = (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    }
    const _Atomic uint32_t *cancel;
    int slot = tk_device_enter(device, &cancel);
    place p = {launch, scratch, cancel, slot < 0 ? NULL : &device->slot[slot].half.cancel, threads};
    tolk_status st = run_placed(&p, err);
    if (st == TOLK_OK && atomic_load_explicit(cancel, memory_order_relaxed))
        st = tk_status_fail(err, TOLK_E_CANCELLED, TK_NO_NODE, "the launch was cancelled");
    tk_device_leave(device, slot);
    tk_alloc_free(&device->ctx->al, memory, bytes);
    return st;
}
