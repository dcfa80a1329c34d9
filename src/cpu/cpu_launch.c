/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_launch.h"

#include "base/status.h"
#include "jit/device.h"

#include <omp.h>
#include <string.h>

/* In operations plus bytes. A region costs 1-2 us when the team is awake, about the time of
 * 100,000 of these; and one chunk should be done in a few milliseconds, so that a launch can be
 * cancelled between chunks. */
#define PARALLEL_WORK 4e5
#define CHUNK_WORK 2e7

/* ---- the floating-point environment ---- */

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef uint32_t fp_env;
static fp_env fp_enter(void) {
    fp_env old = _mm_getcsr();
    _mm_setcsr(0x1f80); /* nearest, denormals kept, all exceptions masked */
    return old;
}
static void fp_leave(fp_env old) {
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
    int64_t chunks;
    char *scratch; /* threads * scratch_stride, aligned to 64 */
    size_t scratch_stride;
    _Atomic int64_t next;       /* next chunk nobody has taken */
    _Atomic int64_t fault_chunk; /* lowest chunk that faulted; chunks if none did */
    pthread_mutex_t fault_lock;
    uint32_t fault_slot;
    int64_t fault_index;
} job;

__extension__ typedef __int128 wide; /* span * chunks can pass 64 bits */

/* First iteration of chunk c. */
static int64_t chunk_begin(const job *j, int64_t c) {
    return (int64_t)((wide)j->launch->span * c / j->chunks);
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
                     .scratch = j->scratch ? j->scratch + (size_t)thread * j->scratch_stride : NULL,
                     .thread = thread,
                     .cancel = j->cancel};
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
static void run_inline(tk_launch *l, const _Atomic uint32_t *cancel) {
    fp_env old = fp_enter();
    tolk_kenv env = {.size = sizeof env, .cancel = cancel};
    l->fn(l->bufs, l->vals, 0, l->span, &env);
    fp_leave(old);
    l->faulted = env.fault != 0;
    l->fault_slot = env.fault_slot;
    l->fault_index = env.fault_index;
}

static void run_chunks(job *j, int threads) {
    if (threads <= 1) {
        work(j, 0);
        return;
    }
#pragma omp parallel num_threads(threads) default(none) shared(j)
    work(j, omp_get_thread_num());
}

static tolk_status run_job(tolk_device *device, tk_launch *l, const _Atomic uint32_t *cancel,
                           int threads, tolk_error *err) {
    job j = {.launch = l, .cancel = cancel};
    double pieces = l->work / CHUNK_WORK;
    j.chunks = pieces > 1e6 ? 1000000 : (int64_t)pieces + 1;
    if (threads > 1 && j.chunks < 4 * (int64_t)threads)
        j.chunks = 4 * (int64_t)threads; /* so that a late thread costs a quarter of a share */
    if (j.chunks > l->span)
        j.chunks = l->span;
    atomic_init(&j.next, 0);
    atomic_init(&j.fault_chunk, j.chunks);
    void *memory = NULL;
    size_t bytes = 0;
    if (l->scratch_bytes) {
        j.scratch_stride = (l->scratch_bytes + 63) & ~(size_t)63;
        bytes = j.scratch_stride * (size_t)threads + 64;
        memory = tk_alloc(&device->ctx->al, bytes);
        if (!memory)
            return tk_status_nomem(err);
        j.scratch = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    }
    pthread_mutex_init(&j.fault_lock, NULL);
    run_chunks(&j, threads);
    pthread_mutex_destroy(&j.fault_lock);
    tk_alloc_free(&device->ctx->al, memory, bytes);
    l->faulted = atomic_load(&j.fault_chunk) < j.chunks;
    l->fault_slot = j.fault_slot;
    l->fault_index = j.fault_index;
    return TOLK_OK;
}

tolk_status tk_cpu_launch(tolk_device *device, uint32_t max_threads, tk_launch *launch,
                          tolk_error *err) {
    launch->faulted = false;
    if (launch->span <= 0)
        return TOLK_OK;
    const _Atomic uint32_t *cancel;
    int slot = tk_device_enter(device, &cancel);
    tolk_status st = TOLK_OK;
    if (launch->work < PARALLEL_WORK && !launch->scratch_bytes) {
        run_inline(launch, cancel);
    } else {
        int threads = launch->work < PARALLEL_WORK ? 1 : (int)max_threads;
        if (threads > launch->span)
            threads = (int)launch->span;
        st = run_job(device, launch, cancel, threads, err);
    }
    if (st == TOLK_OK && atomic_load_explicit(cancel, memory_order_relaxed))
        st = tk_status_fail(err, TOLK_E_CANCELLED, TK_NO_NODE, "the launch was cancelled");
    tk_device_leave(device, slot);
    return st;
}
