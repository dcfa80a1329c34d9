/* SPDX-License-Identifier: MIT
 *
 * Devices, their queues and events, and their memory: pools, buffers, views.
 *
 * Every call may be made from any thread unless it says otherwise. A call that fails because of
 * what it was given changes nothing. In the child of a fork() the devices of a context made before
 * it run launches that need no other thread; everything else there is TOLK_E_FORKED, and what was
 * under way when the process forked never ends: make a new context.
 */
#ifndef TOLK_DEVICE_H
#define TOLK_DEVICE_H

#include <tolk/base.h>
#include <tolk/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One processor that runs kernels, with memory, and with a queue that runs what is submitted to it
 * in that order. */
typedef struct tolk_device tolk_device;

/* ---- the devices there are ---- */

/* Open a device by name: FRAMEWORK[/VARIANT][:N]. "CPU", "cpu" and "CPU:0" are the same.
 *
 * Owner:   ctx; the same name gives the same pointer until tolk_device_destroy().
 * Errors:  TOLK_E_NO_DEVICE, naming what there is.
 */
TOLK_API tolk_status tolk_device_open(tolk_ctx *ctx, const char *name, tolk_device **out,
                                      tolk_error *err);
/* The best device: of the framework of the highest priority (GPUs come before the CPU; an emulator
 * is never chosen) the first one.
 *
 *   framework: the only one to look at ("CPU", "CUDA", "CUDA/PTX"); NULL: all.
 * Errors:  TOLK_E_NO_DEVICE.
 */
TOLK_API tolk_status tolk_device_best(tolk_ctx *ctx, const char *framework, tolk_device **out,
                                      tolk_error *err);
/* Write the devices of a framework (NULL: all) in the order of their indices, at most cap of them,
 * and their number to *n. Starts no thread. Errors: TOLK_E_ARG, TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_device_list(tolk_ctx *ctx, const char *framework, tolk_device **out,
                                      size_t cap, size_t *n, tolk_error *err);
/* Number of devices of a context. Starts no thread. */
TOLK_API size_t tolk_device_count(tolk_ctx *ctx);
/* Canonical name ("CPU", "CPU:1"). Owner: device. */
TOLK_API const char *tolk_device_name(const tolk_device *device);
/* Position among the devices of the context, from 0; after a tolk_device_reset() another device may
 * have it. -1: the device was destroyed, or dropped by a reset and not found again. */
TOLK_API int64_t tolk_device_index(const tolk_device *device);
/* A number that no other device of this context ever has, from 1. */
TOLK_API uint64_t tolk_device_uid(const tolk_device *device);
/* 1 if the device belongs to this framework: "CUDA" is that of "CUDA" and "CUDA/PTX", not of
 * "CUDAX". Case-sensitive. */
TOLK_API int tolk_device_is_of_backend(const tolk_device *device, const char *framework);
/* Forget the indices and count the devices anew at the next call that asks for them. Devices,
 * buffers and kernels stay valid; the kernel cache is emptied. Errors: the first one of a hook. */
TOLK_API tolk_status tolk_device_reset(tolk_ctx *ctx, tolk_error *err);
/* End a device: no more work is taken, what is queued is run, its kernels leave the cache and its
 * memory is freed. The handle, and those of its buffers and events, stay valid to be given back;
 * other uses are TOLK_E_DEVICE_DESTROYED. The same name opens a new device. May not be called from
 * a task. Errors: the first one of a hook or of the queue; the device is destroyed in any case. */
TOLK_API tolk_status tolk_device_destroy(tolk_device *device, tolk_error *err);

/* What a kernel may use on every device of a family: of each number the least, of each capability
 * whether all have it. A number that a family does not have is 0. */
typedef struct tolk_limits {
    uint32_t devices;                      /* that the family has */
    uint32_t lanes_bytes;                  /* of a vector register; 0: no vectors */
    uint64_t max_threads_per_block;        /* 0: no limit */
    uint64_t max_block[3];                 /* of each axis; 0: no limit */
    uint64_t max_grid[3];                  /* of each axis; 0: no limit */
    uint64_t max_shared_bytes;             /* local memory of a group; 0: no limit but memory */
    uint64_t total_bytes;                  /* memory of the device */
    uint32_t warp;                         /* threads that run in step; 1 on CPUs */
    uint32_t compute_major, compute_minor; /* 0, 0 where there is no such thing */
    uint32_t multiprocessors;              /* cores of a CPU device */
    uint8_t has_f64, has_i64, has_f16, has_atomics, is_cpu;
} tolk_limits;
/* Limits of a family of devices. Looked up once; opens no driver that is not asked for and starts
 * no thread. Errors: TOLK_E_NO_DEVICE. */
TOLK_API tolk_status tolk_family_limits(tolk_ctx *ctx, const char *family, tolk_limits *out,
                                        tolk_error *err);
/* One JSON object with all devices: {"devices": [{"name", "framework", "ordinal", "index",
 * "threads", ...}]}, each with the same keys in the same order. Starts no thread.
 * Owner: the caller, tolk_free_text(). */
TOLK_API tolk_status tolk_static_properties(tolk_ctx *ctx, char **text, size_t *len);
/* State of one device, as one JSON object: what it is (name, cpu, isa, threads, features ...),
 * "queue" and "memory". Never waits, changes nothing. Owner: the caller, tolk_free_text(). */
TOLK_API tolk_status tolk_device_debug_info(tolk_device *device, char **text, size_t *len);

/* What the library runs on, as one JSON object: version, llvm, devices (of one family, or with NULL
 * of all: as tolk_device_debug_info), cache, kernels, and a list "problems".
 * Errors: TOLK_E_NO_DEVICE (no such family). Owner: the caller, tolk_free_text(). */
TOLK_API tolk_status tolk_debug_info(tolk_ctx *ctx, const char *family, char **text, size_t *len);

/* ---- queue ---- */

/* Work of a queue. Returns its status; for a failure it may fill *err, which is never NULL. */
typedef tolk_status (*tolk_task_fn)(void *arg, tolk_error *err);
typedef void (*tolk_release_fn)(void *arg);

/* Run fn(arg) on the device's queue, after all that was submitted before.
 *
 *   release: NULL, or called once with arg when fn has returned, or when it never will because an
 *   earlier task failed; not called when this call fails.
 *   label: copied, cut at 47 bytes; named in errors. NULL: "task".
 * A task that fails stops its queue: what is queued behind it is discarded, its release called, and
 * calls for the device return the first error until tolk_device_recover().
 * Errors:  TOLK_E_NOMEM, TOLK_E_FORKED, TOLK_E_DEVICE_DESTROYED, that of the task that stopped the
 *          queue.
 */
TOLK_API tolk_status tolk_queue_submit(tolk_device *device, tolk_task_fn fn, void *arg,
                                       tolk_release_fn release, const char *label, tolk_error *err);
/* Wait until the queue is empty. Errors: that of the task that stopped the queue, TOLK_E_DEADLOCK
 * (from a task of this queue), TOLK_E_FORKED. */
TOLK_API tolk_status tolk_device_await(tolk_device *device, tolk_error *err);
/* 1 if nothing is queued or runs. Takes no lock. */
TOLK_API int tolk_device_is_idle(const tolk_device *device);
/* Let a queue that a failed task stopped take work again. Does nothing else. */
TOLK_API tolk_status tolk_device_recover(tolk_device *device, tolk_error *err);
/* Stop the launches that run on the device now: they end with TOLK_E_CANCELLED, with part of their
 * results written; if they came from the queue, that stops as after any failed task. Later launches
 * are not affected. Async-signal-safe. */
TOLK_API void tolk_cancel(tolk_device *device);

/* ---- events ---- */

/* A point on the timeline of a device: all that was submitted before it. */
typedef struct tolk_event tolk_event;

/* Mark this point of the queue. Owner: the caller, tolk_event_destroy(). Errors: TOLK_E_NOMEM, that
 * of the task that stopped the queue. */
TOLK_API tolk_status tolk_event_record(tolk_device *device, tolk_event **out, tolk_error *err);
/* The same: is everything done that has been submitted so far? */
TOLK_API tolk_status tolk_device_all_work(tolk_device *device, tolk_event **out, tolk_error *err);
/* Wait for it. Errors: that of the task that stopped the queue before the event; TOLK_E_DEADLOCK
 * (the event waits for the task that this is called from); TOLK_E_FORKED. */
TOLK_API tolk_status tolk_event_sync(tolk_event *event, tolk_error *err);
/* 1 once everything before the event is done; never where a task before it failed. Takes no lock.
 */
TOLK_API int tolk_event_is_done(const tolk_event *event);
/* Let what is submitted to the device from now on wait for the event. Does not block the caller. If
 * the event's queue stops before it, so does this device's queue, with the same error.
 * Errors: TOLK_E_DEVICE (the event is of another context), as tolk_event_record(). */
TOLK_API tolk_status tolk_device_wait_for(tolk_device *device, tolk_event *event, tolk_error *err);
/* NULL does nothing. Waits that were submitted keep what they need. */
TOLK_API void tolk_event_destroy(tolk_event *event);

/* ---- pools ---- */

/* A hint about what a pool is for; it changes no result. */
typedef enum tolk_pool_mode {
    TOLK_POOL_DEFAULT = 0,
    TOLK_POOL_CONSTANT = 1, /* written once, then only read */
    TOLK_POOL_DEVICE = 2,   /* never read by the host */
    TOLK_POOL_STAGING = 3   /* on its way between host and device */
} tolk_pool_mode;

/* Reserve memory under a number of the caller's. Its contents are undefined.
 *
 *   id: any; 0 is meant for staging. Numbers of different devices are independent. An id that is in
 *   use is replaced: its memory is freed first (what buffers and queued work still use, when they
 *   are done), and if the new one cannot be had, the id is free.
 *   alignment: of its address, a power of two; raised to 64.
 * Errors:  TOLK_E_ARG (alignment), TOLK_E_NOMEM.
 */
TOLK_API tolk_status tolk_pool_alloc(tolk_device *device, uint64_t id, size_t bytes,
                                     size_t alignment, tolk_pool_mode mode, tolk_error *err);
/* Free it; an id that is not in use is fine. Queued work and buffers in it keep the memory. */
TOLK_API tolk_status tolk_pool_free(tolk_device *device, uint64_t id, tolk_error *err);
/* Zero [offset, offset + bytes) of a pool, in the order of the queue.
 * Errors:  TOLK_E_NOT_FOUND (no such pool), TOLK_E_RANGE. */
TOLK_API tolk_status tolk_memset_zero(tolk_device *device, uint64_t pool, size_t offset,
                                      size_t bytes, tolk_error *err);

/* Where tolk_pool_pack put an item. */
typedef struct tolk_pool_place {
    size_t pool;   /* from 0 */
    size_t offset; /* bytes */
} tolk_pool_place;
/* Place n items one behind the other: each at the next multiple of its alignment, in a new pool
 * where it would not end within cap bytes. Allocates nothing.
 *
 *   place: n of them.   sizes: bytes of each pool, room for n; *n_pools: how many there are.
 * Errors:  TOLK_E_LIMIT (an item is larger than cap), TOLK_E_ARG (an alignment is no power of two).
 */
TOLK_API tolk_status tolk_pool_pack(const size_t *bytes, const size_t *alignment, size_t n,
                                    size_t cap, tolk_pool_place *place, size_t *sizes,
                                    size_t *n_pools, tolk_error *err);

/* ---- buffers ---- */

/* A piece of a device's memory with the dtype of its elements. Refcounted. A base buffer gets its
 * memory at first use; a view is a part of another buffer. */
typedef struct tolk_buffer tolk_buffer;

/* Set it up with TOLK_BUFFER_OPTS_INIT. */
typedef struct tolk_buffer_opts {
    uint32_t size;     /* sizeof(tolk_buffer_opts) */
    uint32_t no_reuse; /* 1: its memory goes back to the system when it is freed */
    size_t alignment;  /* of its address, a power of two; raised to 64 */
    size_t elem_bytes; /* of an element whose type tolk does not know; then dtype is VOID */
    void *external;    /* memory of the caller to use, or NULL; it stays until release */
    void (*release)(void *user); /* of external: called once, when nothing uses it any more */
    void *user;
    const char *label; /* copied, cut at 31 bytes; named in the list of leaks */
} tolk_buffer_opts;
/* clang-format off */
#define TOLK_BUFFER_OPTS_INIT {(uint32_t)sizeof(tolk_buffer_opts), 0, 0, 0, NULL, NULL, NULL, NULL}
/* clang-format on */

/* A buffer of n elements, whose contents are undefined.
 *
 *   opts: NULL for the defaults.
 * Owner:   the caller, tolk_buffer_unref().
 * Errors:  TOLK_E_NOMEM, TOLK_E_LIMIT (n * bytes of an element does not fit), TOLK_E_DTYPE (no
 *          dtype of memory), TOLK_E_ARG.
 */
TOLK_API tolk_status tolk_buffer_create(tolk_device *device, tolk_dtype dtype, size_t n,
                                        const tolk_buffer_opts *opts, tolk_buffer **out,
                                        tolk_error *err);
/* n elements of a pool from byte `offset` on, which must be a multiple of an element's bytes.
 * Errors: TOLK_E_NOT_FOUND, TOLK_E_RANGE. */
TOLK_API tolk_status tolk_buffer_in_pool(tolk_device *device, uint64_t pool, size_t offset,
                                         tolk_dtype dtype, size_t n, tolk_buffer **out,
                                         tolk_error *err);
/* n elements of another buffer from byte `offset` on. A view of a view is one of its base. n may be
 * 0, offset the end. Errors: TOLK_E_RANGE, TOLK_E_FREED, TOLK_E_ARG (they would not lie at a
 * multiple of an element's bytes in the base, or in the pool that it lies in). */
TOLK_API tolk_status tolk_buffer_view(tolk_buffer *base, size_t offset, tolk_dtype dtype, size_t n,
                                      tolk_buffer **out, tolk_error *err);
/* Allocate one of a dtype with the defaults; _custom: of elements of elem_bytes. */
TOLK_API tolk_status tolk_alloc_f32(tolk_device *device, size_t n, tolk_buffer **out,
                                    tolk_error *err);
TOLK_API tolk_status tolk_alloc_f64(tolk_device *device, size_t n, tolk_buffer **out,
                                    tolk_error *err);
TOLK_API tolk_status tolk_alloc_i32(tolk_device *device, size_t n, tolk_buffer **out,
                                    tolk_error *err);
TOLK_API tolk_status tolk_alloc_i64(tolk_device *device, size_t n, tolk_buffer **out,
                                    tolk_error *err);
TOLK_API tolk_status tolk_alloc_custom(tolk_device *device, size_t n, size_t elem_bytes,
                                       tolk_buffer **out, tolk_error *err);
TOLK_API tolk_buffer *tolk_buffer_ref(tolk_buffer *buffer);
/* NULL does nothing. The last one frees the memory, when queued work is done with it. */
TOLK_API void tolk_buffer_unref(tolk_buffer *buffer);
/* Free the memory now (queued work that uses it keeps it until it is done). The handle stays to be
 * unreferenced; other uses are TOLK_E_FREED. A second call does nothing, and is counted.
 * Errors:  TOLK_E_BUSY (there are views that are not freed). */
TOLK_API tolk_status tolk_buffer_free(tolk_buffer *buffer, tolk_error *err);

typedef struct tolk_buffer_info {
    tolk_device *device;
    tolk_dtype dtype; /* VOID: elements of elem_bytes */
    size_t n, elem_bytes, bytes;
    size_t offset;        /* in its base, in bytes */
    tolk_buffer *base;    /* NULL: it is none's view. Owner: the buffer */
    uint8_t is_allocated; /* has memory */
    uint8_t is_freed;
} tolk_buffer_info;
TOLK_API tolk_status tolk_buffer_get_info(const tolk_buffer *buffer, tolk_buffer_info *out);

/* Copy between host memory and a buffer, in the order of its device's queue, and wait: the host
 * memory may be used when the call returns. bytes may be less than the buffer has.
 * Errors:  TOLK_E_RANGE (offset + bytes is more than the buffer has), TOLK_E_FREED, TOLK_E_ARG
 *          (NULL), TOLK_E_UNBOUND (copyout: nothing was stored to it yet), that of the task that
 *          stopped the queue. */
TOLK_API tolk_status tolk_buffer_copyin(tolk_buffer *dst, size_t offset, const void *src,
                                        size_t bytes, tolk_error *err);
TOLK_API tolk_status tolk_buffer_copyout(tolk_buffer *src, size_t offset, void *dst, size_t bytes,
                                         tolk_error *err);
/* Copy src to dst, of the same size and dtype, on any devices: submitted to the queue of dst, after
 * what writes src. Does not wait. Parts of the same memory may overlap.
 * Errors:  TOLK_E_RANGE (sizes differ), TOLK_E_DTYPE, TOLK_E_FREED, TOLK_E_NOMEM, TOLK_E_UNBOUND
 *          (nothing was stored to src yet). */
TOLK_API tolk_status tolk_buffer_copy(tolk_buffer *dst, tolk_buffer *src, tolk_error *err);
/* The address of a buffer in host memory, after waiting for all queued work that uses it. Valid
 * until the buffer is freed. Errors: TOLK_E_UNSUPPORTED (memory the host cannot see),
 * TOLK_E_FREED. */
TOLK_API tolk_status tolk_buffer_map(tolk_buffer *buffer, void **out, tolk_error *err);

/* ---- used memory ---- */

typedef struct tolk_memory_stats {
    uint64_t live_bytes;   /* that buffers and pools hold, as asked for */
    uint64_t peak_bytes;   /* the most of that since the last rebase */
    uint64_t cached_bytes; /* freed, kept for the next buffer of that size */
    uint64_t allocs, frees, double_frees, reclaims;
} tolk_memory_stats;
/* live_bytes of it. */
TOLK_API uint64_t tolk_device_used_memory(const tolk_device *device);
TOLK_API tolk_status tolk_device_memory_stats(const tolk_device *device, tolk_memory_stats *out);
/* peak_bytes becomes live_bytes. */
TOLK_API void tolk_device_rebase_peak(tolk_device *device);
/* Give cached memory back to the system, also what the queue keeps of commands that are over. */
TOLK_API void tolk_device_trim(tolk_device *device);

/* ---- exchange with other libraries: DLPack 1.x (dmlc.github.io/dlpack) ---- */

struct DLManagedTensorVersioned;
/* The buffer as a tensor of one dimension, or of the given shape (row-major, its product is the
 * number of elements). Waits for queued work. The tensor keeps the memory; its deleter may be
 * called on any thread, also after the buffer is unreferenced, not after the context is destroyed.
 * Errors: TOLK_E_DTYPE (no DLPack type), TOLK_E_SHAPE, TOLK_E_FREED, TOLK_E_UNSUPPORTED. */
TOLK_API tolk_status tolk_buffer_to_dlpack(tolk_buffer *buffer, const int64_t *shape, size_t rank,
                                           struct DLManagedTensorVersioned **out, tolk_error *err);
/* A buffer over a tensor's memory, without a copy. Takes the tensor: its deleter is called when
 * nothing uses the memory any more; on failure it stays the caller's.
 * Errors: TOLK_E_UNSUPPORTED (version, another device, strides that are not row-major, a type of
 * several lanes or no type of tolk's, read-only memory), TOLK_E_LIMIT, TOLK_E_ARG. */
TOLK_API tolk_status tolk_buffer_from_dlpack(tolk_device *device,
                                             struct DLManagedTensorVersioned *tensor,
                                             tolk_buffer **out, tolk_error *err);

#ifdef __cplusplus
}
#endif
#endif
