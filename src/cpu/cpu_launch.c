/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_launch.h"

#include "base/deep.h"
#include "base/status.h"
#include "cpu/cpu_fp.h"
#include "cpu/cpu_team.h"
#include "jit/device.h"

#include <pthread.h>

enum { SMALL_SCRATCH = 4096 };

/* ---- one launch ---- */

typedef struct job {
    const tk_launch *launch;
    const _Atomic uint32_t *cancel;
    int64_t from, to; /* the iterations of this part of the launch ... */
    int64_t chunks;   /* ... and how many chunks they are cut into */
    void *scratch;
    size_t stride;               /* from one thread's scratch to the next one's; 0: they share it */
    _Atomic int64_t next;        /* next chunk nobody has taken */
    _Atomic int64_t fault_chunk; /* lowest chunk that faulted; chunks if none did */
    pthread_mutex_t fault_lock;
    uint32_t fault_slot;
    int64_t fault_index;
} job;

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
static void work(void *arg, int thread) {
    job *j = arg;
    const tk_launch *l = j->launch;
    tk_cpu_fp old = tk_cpu_fp_enter();
    tolk_kenv env = {.size = sizeof env,
                     .scratch = (char *)j->scratch + (size_t)thread * j->stride,
                     .thread = thread,
                     .cancel = j->cancel,
                     .dynamic_bytes = (int64_t)l->dynamic_bytes};
    while (!cancelled(j)) {
        int64_t c = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (c >= j->chunks)
            break;
        l->fn(l->bufs, l->vals, tk_cpu_chunk_begin(j->from, j->to, j->chunks, c),
              tk_cpu_chunk_begin(j->from, j->to, j->chunks, c + 1), &env);
        if (env.fault) {
            keep_fault(j, c, &env);
            env.fault = 0;
        }
    }
    tk_cpu_fp_leave(old);
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

/* The iterations [from, to), in chunks. */
static void run_part(tk_launch *l, int64_t from, int64_t to, void *scratch,
                     const _Atomic uint32_t *cancel, _Atomic uint32_t *stop, int threads) {
    job j = {.launch = l,
             .cancel = cancel,
             .from = from,
             .to = to,
             .scratch = scratch,
             .stride = l->scratch_per_thread ? tk_cpu_scratch_stride(l) : 0};
    j.chunks = tk_cpu_chunk_count(l->work, to - from, threads);
    if (threads > j.chunks)
        threads = (int)j.chunks;
    atomic_init(&j.next, 0);
    atomic_init(&j.fault_chunk, j.chunks);
    pthread_mutex_init(&j.fault_lock, NULL);
    tk_cpu_team_run(threads, l->frame_bytes, stop, work, &j);
    pthread_mutex_destroy(&j.fault_lock);
    if (atomic_load(&j.fault_chunk) < j.chunks && !l->faulted) {
        l->faulted = true;
        l->fault_slot = j.fault_slot;
        l->fault_index = j.fault_index;
    }
}

static void run(void *arg) {
    const tk_cpu_place *p = arg;
    tk_launch *l = p->launch;
    /* Around the sharing out of the work, too: it computes, and flags would be left behind. */
    tk_cpu_fp old = tk_cpu_fp_enter();
    if (l->work < TK_CPU_PARALLEL_WORK) {
        run_inline(l, p->scratch, p->cancel);
    } else {
        if (l->pieces > 0)
            run_part(l, 0, l->pieces, p->scratch, p->cancel, p->stop, p->threads);
        if (l->span > l->pieces)
            run_part(l, l->pieces, l->span, p->scratch, p->cancel, p->stop, p->threads);
    }
    tk_cpu_fp_leave(old);
}

tolk_status tk_cpu_launch_at(tk_cpu_place *p, tolk_error *err) {
    uint64_t frame = p->launch->frame_bytes;
    if (frame > TK_CPU_SMALL_FRAME && tk_deep_left() < frame + TK_CPU_STACK_SPARE) {
        if (!tk_deep_run((size_t)frame + 4 * TK_CPU_STACK_SPARE, run, p))
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
    size_t each = tk_cpu_scratch_stride(l),
           n = l->scratch_per_thread && l->work >= TK_CPU_PARALLEL_WORK ? (size_t)*threads : 1;
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
    return launch->span <= 0 || launch->work < TK_CPU_PARALLEL_WORK;
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
        (launch->scratch_bytes && launch->scratch_per_thread &&
         launch->work >= TK_CPU_PARALLEL_WORK)) {
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
    tk_cpu_place p = {launch, scratch, cancel, slot < 0 ? NULL : &device->slot[slot].half.cancel,
                      threads};
    tolk_status st = tk_cpu_launch_at(&p, err);
    if (st == TOLK_OK && atomic_load_explicit(cancel, memory_order_relaxed))
        st = tk_status_fail(err, TOLK_E_CANCELLED, TK_NO_NODE, "the launch was cancelled");
    tk_device_leave(device, slot);
    tk_alloc_free(&device->ctx->al, memory, bytes);
    return st;
}
