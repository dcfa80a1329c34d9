/* SPDX-License-Identifier: MIT
 *
 * Running kernels on devices: kernels from source, arguments, the kernel cache, hooks, scopes.
 */
#ifndef TOLK_REALIZE_H
#define TOLK_REALIZE_H

#include <tolk/device.h>
#include <tolk/jit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernels from source ---- */

/* A kernel bound to one device. Refcounted. */
typedef struct tolk_kernel tolk_kernel;

/* Sizes of a grid (number of groups) or of a block (work-items of a group). */
typedef struct tolk_dims {
    int64_t x, y, z;
} tolk_dims;
static inline tolk_dims tolk_dims3d(int64_t x, int64_t y, int64_t z) {
    tolk_dims d;
    d.x = x;
    d.y = y;
    d.z = z;
    return d;
}
static inline tolk_dims tolk_dims2d(int64_t x, int64_t y) {
    return tolk_dims3d(x, y, 1);
}
static inline tolk_dims tolk_dims1d(int64_t x) {
    return tolk_dims3d(x, 1, 1);
}

/* The kernel `name` of a source text for a device, from the kernel cache where it is there.
 *
 *   name: of its sink; a function that tolk_kernel_register() gave the name comes first, whatever
 *   the source says.
 *   source: a text of one kernel, or of a `group` of several. Copied.
 * The same arguments give the same kernel until the cache is cleared.
 * Owner:   the caller, tolk_kernel_unref().
 * Errors:  TOLK_E_NOT_FOUND (no kernel of that name, naming those there are), TOLK_E_PARSE,
 *          TOLK_E_VERIFY, those of tolk_compile(); TOLK_E_CACHE_CLEARED (the cache was cleared
 *          meanwhile: try again), TOLK_E_DEVICE_DESTROYED.
 */
TOLK_API tolk_status tolk_kernel_compile(tolk_device *device, const char *name, const char *source,
                                         tolk_kernel **out, tolk_error *err);
TOLK_API tolk_kernel *tolk_kernel_ref(tolk_kernel *kernel);
TOLK_API void tolk_kernel_unref(tolk_kernel *kernel);
/* Its device and name. Owner: the kernel. */
TOLK_API tolk_device *tolk_kernel_device(const tolk_kernel *kernel);
TOLK_API const char *tolk_kernel_get_name(const tolk_kernel *kernel);

/* Arguments of a launch, by slot. For one thread at a time. */
typedef struct tolk_args tolk_args;
TOLK_API tolk_status tolk_args_create(tolk_ctx *ctx, tolk_args **out, tolk_error *err);
/* NULL does nothing. Launches that were submitted keep what they need. */
TOLK_API void tolk_args_destroy(tolk_args *args);
/* Set the argument of the param with slot i, in any order; the last one of a slot counts. A buffer
 * is referenced until it is replaced or args is destroyed. Errors: TOLK_E_NOMEM, TOLK_E_ARG,
 * TOLK_E_LIMIT (i is above 65535). */
TOLK_API tolk_status tolk_args_buffer(tolk_args *args, uint32_t i, tolk_buffer *buffer,
                                      tolk_error *err);
TOLK_API tolk_status tolk_args_i32(tolk_args *args, uint32_t i, int32_t value, tolk_error *err);
TOLK_API tolk_status tolk_args_i64(tolk_args *args, uint32_t i, int64_t value, tolk_error *err);
TOLK_API tolk_status tolk_args_f32(tolk_args *args, uint32_t i, float value, tolk_error *err);
TOLK_API tolk_status tolk_args_f64(tolk_args *args, uint32_t i, double value, tolk_error *err);
/* Number of slots that are set. */
TOLK_API size_t tolk_args_count(const tolk_args *args);

/* Submit a launch to the queue of the kernel's device. Arguments are copied and buffers kept until
 * it is done: freeing them after this call is safe. A small launch on an idle queue runs before the
 * call returns.
 *
 *   grid, block: NULL: the kernel's own. Scalar params named _grid_x .. _block_z get their values
 *   from here, 1 for NULL, and are no arguments. The size of gidx0 must be grid.x, that of lidx0
 *   block.x, that of idx0 grid.x * block.x, and so on; an axis without special and param must be 1.
 *   A kernel with neither takes NULL only.
 *   shared_bytes: of the dynamic local buffer.
 * Errors:  TOLK_E_LAUNCH (arguments are missing or too many, naming the slots; a size differs from
 *          the kernel's, naming both; sizes below 1), TOLK_E_DTYPE (an argument has another dtype
 *          than its param), TOLK_E_DEVICE (a buffer of another device), TOLK_E_FREED, TOLK_E_ALIAS,
 *          TOLK_E_NOMEM, TOLK_E_LIMIT (sizes with these scalars), that of the task that stopped the
 *          queue; none of these stops it. What goes wrong while the launch runs (TOLK_E_RANGE,
 *          TOLK_E_CANCELLED, on the queue also TOLK_E_NOMEM) does; where it ran before the call
 *          returned, it is returned, too.
 */
TOLK_API tolk_status tolk_kernel_run(tolk_kernel *kernel, const tolk_args *args,
                                     const tolk_dims *grid, const tolk_dims *block,
                                     size_t shared_bytes, tolk_error *err);
/* tolk_kernel_compile, then tolk_kernel_run. */
TOLK_API tolk_status tolk_run(tolk_device *device, const char *name, const char *source,
                              const tolk_args *args, const tolk_dims *grid, const tolk_dims *block,
                              size_t shared_bytes, tolk_error *err);

/* One argument as a registered function gets it. */
typedef struct tolk_native_arg {
    uint32_t slot;
    tolk_dtype dtype; /* of the elements, or of the scalar */
    void *data;       /* of a buffer; NULL: a scalar */
    size_t bytes;     /* of a buffer */
    int64_t value;    /* of a scalar: a float as its bit pattern in the low bytes */
} tolk_native_arg;
/* A kernel that is a function of the program, run once for a whole launch, on the queue.
 *   args: in ascending slot order.   grid, block: as given, or {1, 1, 1}. */
typedef tolk_status (*tolk_native_fn)(void *user, const tolk_native_arg *args, size_t n,
                                      tolk_dims grid, tolk_dims block, size_t shared_bytes,
                                      tolk_error *err);
/* Give a function a name, for all CPU devices of the context: tolk_kernel_compile() then returns
 * it. fn NULL takes the name away; the same name again replaces it. Kernels that were compiled stay
 * what they are. Clearing caches does not touch it. Errors: TOLK_E_NOMEM, TOLK_E_ARG. */
TOLK_API tolk_status tolk_kernel_register(tolk_ctx *ctx, const char *name, tolk_native_fn fn,
                                          void *user, tolk_error *err);

/* ---- the kernel cache ---- */

typedef struct tolk_kernel_cache_stats {
    uint64_t entries, hits, misses;
    uint64_t built;     /* kernels that were made */
    uint64_t destroyed; /* that the cache gave up: entries + destroyed = built */
} tolk_kernel_cache_stats;
TOLK_API tolk_status tolk_kernel_cache_get_stats(tolk_ctx *ctx, tolk_kernel_cache_stats *out);
/* Empty the kernel cache alone. Kernels in use stay valid. */
TOLK_API tolk_status tolk_kernel_cache_clear(tolk_ctx *ctx, tolk_error *err);

/* ---- hooks ---- */

typedef enum tolk_hook_kind {
    TOLK_HOOK_CLEAR_ALL = 0,      /* caches are being emptied: drop what was remembered of them */
    TOLK_HOOK_DEVICE_DESTROY = 1, /* a device is being destroyed; its memory is still there */
    TOLK_HOOK_RECLAIM = 2         /* a device has no more memory: unreference buffers */
} tolk_hook_kind;
/* What happens. */
typedef struct tolk_hook_event {
    tolk_hook_kind kind;
    const char *framework; /* of the device; NULL for CLEAR_ALL */
    uint32_t ordinal;      /* of the device among those of its framework */
    uint64_t uid;
    size_t bytes; /* RECLAIM: that are wanted */
} tolk_hook_event;
/* Called on the thread that causes the event, with no lock held: it may use the library. An event
 * of the same kind and device that a hook causes, on its thread, calls no hook. */
typedef tolk_status (*tolk_hook_fn)(void *user, const tolk_hook_event *event, tolk_error *err);
/* Have fn called. All hooks of a kind are called, in no particular order, also where one fails; the
 * first failure is what the call that caused it returns. *id: for tolk_hook_remove().
 * Errors: TOLK_E_NOMEM, TOLK_E_ARG. */
TOLK_API tolk_status tolk_hook_add(tolk_ctx *ctx, tolk_hook_kind kind, tolk_hook_fn fn, void *user,
                                   uint64_t *id, tolk_error *err);
/* It is not called any more by what begins later. Errors: TOLK_E_NOT_FOUND. */
TOLK_API tolk_status tolk_hook_remove(tolk_ctx *ctx, uint64_t id, tolk_error *err);

/* ---- scopes ---- */

/* Names of nodes and the buffers that hold their values on one device, with a parent: what a child
 * binds is not seen by its parent. Immutable but for tolk_scope_bind; refcounted. */
typedef struct tolk_scope tolk_scope;

/* Set it up with TOLK_SCOPE_OPTS_INIT. */
typedef enum tolk_merge {
    TOLK_MERGE_INHERIT = 0, /* the parent's merge node */
    TOLK_MERGE_NONE = 1,    /* none */
    TOLK_MERGE_NODE = 2     /* opts.merge_node */
} tolk_merge;
typedef struct tolk_scope_opts {
    uint32_t size; /* sizeof(tolk_scope_opts) */
    tolk_merge merge;
    uint64_t merge_node;
    const tolk_compile_opts *compile; /* copied; NULL: the parent's, or the defaults */
} tolk_scope_opts;
/* clang-format off */
#define TOLK_SCOPE_OPTS_INIT {(uint32_t)sizeof(tolk_scope_opts), TOLK_MERGE_INHERIT, 0, NULL}
/* clang-format on */

/* An empty scope of a device. Owner: the caller, tolk_scope_unref(). Errors: TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_scope_create(tolk_device *device, const tolk_scope_opts *opts,
                                       tolk_scope **out, tolk_error *err);
/* A scope of the same device that begins with all that the parent has; what either binds later the
 * other does not see. The parent may be unreferenced, or finalized, first. */
TOLK_API tolk_status tolk_scope_child(tolk_scope *parent, const tolk_scope_opts *opts,
                                      tolk_scope **out, tolk_error *err);
TOLK_API tolk_scope *tolk_scope_ref(tolk_scope *scope);
TOLK_API void tolk_scope_unref(tolk_scope *scope);
TOLK_API tolk_device *tolk_scope_device(const tolk_scope *scope);
TOLK_API const tolk_scope *tolk_scope_parent(const tolk_scope *scope); /* NULL: none */
/* The options that kernels of this scope are compiled with. Owner: the scope. */
TOLK_API const tolk_compile_opts *tolk_scope_compile_opts(const tolk_scope *scope);
/* 1 and *node, or 0: no node is promised to be in the merge buffer. */
TOLK_API int tolk_scope_merge_node(const tolk_scope *scope, uint64_t *node);
/* Bind a node's number to a buffer of the scope's device, which is referenced. Errors:
 * TOLK_E_DEVICE, TOLK_E_BUSY (it has one already), TOLK_E_FREED (finalized), TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_scope_bind(tolk_scope *scope, uint64_t node, tolk_buffer *buffer,
                                     tolk_error *err);
/* The buffer of a node; NULL: none. Owner: the scope. */
TOLK_API tolk_buffer *tolk_scope_find(const tolk_scope *scope, uint64_t node);
/* Number of nodes bound, those it began with too. */
TOLK_API size_t tolk_scope_count(const tolk_scope *scope);
/* Wait for the device and drop what this scope bound itself; nothing more can be bound. Once; again
 * does nothing. Errors: that of the task that stopped the queue (then it may be tried again),
 * TOLK_E_DEADLOCK. */
TOLK_API tolk_status tolk_scope_finalize(tolk_scope *scope, tolk_error *err);

/* A transfer between scopes that is ready to run, as often as wanted. */
typedef struct tolk_transfer tolk_transfer;
/* Copy the node's buffer of src to dst's buffer of it; nothing happens until it runs.
 *
 *   into_merge: copy to the merge buffer of dst's device instead, which grows to hold it.
 *   scope_out: with into_merge, a child of dst whose merge node is `node`; else untouched.
 * Owner:   the caller, tolk_transfer_destroy(), tolk_scope_unref().
 * Errors:  TOLK_E_NOT_FOUND (src, or without into_merge dst, has no such node), TOLK_E_RANGE and
 *          TOLK_E_DTYPE (sizes, dtypes differ), TOLK_E_DEVICE (another context), TOLK_E_NOMEM.
 */
TOLK_API tolk_status tolk_transfer_create(tolk_scope *dst, tolk_scope *src, uint64_t node,
                                          int into_merge, tolk_transfer **out,
                                          tolk_scope **scope_out, tolk_error *err);
TOLK_API void tolk_transfer_destroy(tolk_transfer *transfer);
/* Submit it: dst's queue waits for what writes the source. Errors: as tolk_buffer_copy(). */
TOLK_API tolk_status tolk_transfer_run(tolk_transfer *transfer, tolk_error *err);
/* What is in the merge buffer, as n elements of dtype, for a scope whose merge node is `node`.
 * Owner: the caller, tolk_buffer_unref(). Errors: TOLK_E_NOT_FOUND (the scope promises another node
 * or none; nothing was merged yet, or another node since, or pool 0 was freed or replaced, or the
 * queue stopped before the transfer), TOLK_E_RANGE. */
TOLK_API tolk_status tolk_scope_merge_buffer(tolk_scope *scope, uint64_t node, tolk_dtype dtype,
                                             size_t n, tolk_buffer **out, tolk_error *err);

#ifdef __cplusplus
}
#endif
#endif
