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
 *          TOLK_E_UNBOUND (nothing was stored yet to a buffer that the kernel only reads),
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

/* ---- buffers on several devices ---- */

/* One buffer on each of several devices (a device may be there twice), all of the same dtype and
 * number of elements. Refcounted. */
typedef struct tolk_multi tolk_multi;
/* New buffers of n elements on each device. Errors: TOLK_E_ARG (no device), those of
 * tolk_buffer_create(). */
TOLK_API tolk_status tolk_multi_create(tolk_device *const *devices, size_t n_devices,
                                       tolk_dtype dtype, size_t n, tolk_multi **out,
                                       tolk_error *err);
/* Of buffers that there are; they are referenced. Errors: TOLK_E_ARG (none), TOLK_E_SHAPE,
 * TOLK_E_DTYPE (they differ). */
TOLK_API tolk_status tolk_multi_of(tolk_buffer *const *buffers, size_t n, tolk_multi **out,
                                   tolk_error *err);
TOLK_API tolk_multi *tolk_multi_ref(tolk_multi *multi);
TOLK_API void tolk_multi_unref(tolk_multi *multi);
TOLK_API size_t tolk_multi_count(const tolk_multi *multi);
/* The buffer at a position. Owner: multi; NULL past the end. */
TOLK_API tolk_buffer *tolk_multi_shard(const tolk_multi *multi, size_t i);

/* ---- linears: calls in their order ---- */

/* A LINEAR of CALLs with a graph of its own, immutable. Refcounted. docs/ir.md, "Calls". */
typedef struct tolk_linear tolk_linear;
/* A copy of a LINEAR of any graph. Errors: TOLK_E_VERIFY, TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_linear_create(tolk_ctx *ctx, const tolk_uop *linear, tolk_linear **out,
                                        tolk_error *err);
TOLK_API tolk_linear *tolk_linear_ref(tolk_linear *linear);
TOLK_API void tolk_linear_unref(tolk_linear *linear);
/* Its LINEAR node. Owner: linear. One thread at a time may build in its graph. */
TOLK_API const tolk_uop *tolk_linear_root(const tolk_linear *linear);

/* Make the program of a kernel: a PROGRAM in the graph of `sink`. */
typedef tolk_status (*tolk_to_program_fn)(void *user, tolk_device *device, const tolk_uop *sink,
                                          const tolk_uop **program, tolk_error *err);
/* Set it up with TOLK_REALIZE_OPTS_INIT. */
typedef struct tolk_realize_opts {
    uint32_t size;                    /* sizeof(tolk_realize_opts) */
    const tolk_compile_opts *compile; /* of all kernels; NULL: the defaults */
    /* Takes the place of the compiler, on the thread of the call; NULL: tolk_compile. Its program
     * has a SINK and, as last operand, a BINARY of what tolk_program_save gives. */
    tolk_to_program_fn to_program;
    void *user;
} tolk_realize_opts;
/* clang-format off */
#define TOLK_REALIZE_OPTS_INIT {(uint32_t)sizeof(tolk_realize_opts), NULL, NULL, NULL}
/* clang-format on */

/* The linear with the body of each call that is a kernel (a SINK) compiled: a PROGRAM of the kernel
 * and its code. Other calls stay as they are; where there is no kernel it is the linear itself.
 * Kernels are compiled at the same time on the cores there are, equal ones once, and looked for in
 * the binary cache. Owner: the caller, tolk_linear_unref(). Errors: those of tolk_compile(), naming
 * the first call that failed; TOLK_E_ARG (what to_program made; the linear is of another context
 * than the device, as in all that runs one). */
TOLK_API tolk_status tolk_compile_linear(tolk_device *device, tolk_linear *linear,
                                         const tolk_realize_opts *opts, tolk_linear **out,
                                         tolk_error *err);

/* ---- bindings: which buffers BUFFER nodes are ---- */

/* For one thread at a time. */
typedef struct tolk_bindings tolk_bindings;
/* device: of nodes that name none. */
TOLK_API tolk_status tolk_bindings_create(tolk_device *device, tolk_bindings **out,
                                          tolk_error *err);
TOLK_API void tolk_bindings_destroy(tolk_bindings *bindings);
/* Say what a node (of any graph; equal nodes are one) stands for; the buffer is referenced, what it
 * stood for before is dropped. Errors: TOLK_E_ARG, TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_bindings_seed(tolk_bindings *bindings, const tolk_uop *node,
                                        tolk_buffer *buffer, tolk_error *err);
TOLK_API tolk_status tolk_bindings_seed_multi(tolk_bindings *bindings, const tolk_uop *node,
                                              tolk_multi *multi, tolk_error *err);
/* Forget it; execs look the node up anew. A node that is not bound is fine. */
TOLK_API void tolk_bindings_remove(tolk_bindings *bindings, const tolk_uop *node);
/* What a node stands for; both NULL: nothing. Owner: bindings. out_multi may be NULL: then a node
 * that stands for several buffers is TOLK_E_DEVICE. */
TOLK_API tolk_status tolk_bindings_find(const tolk_bindings *bindings, const tolk_uop *node,
                                        tolk_buffer **out, tolk_multi **out_multi, tolk_error *err);
/* Call fn for each, in no order; it may not change the bindings. */
TOLK_API void tolk_bindings_iter(const tolk_bindings *bindings,
                                 void (*fn)(void *user, const tolk_uop *node, tolk_buffer *buffer,
                                            tolk_multi *multi),
                                 void *user);
TOLK_API void tolk_bindings_clear(tolk_bindings *bindings);

/* ---- running ---- */

/* Value of a variable, by the name of its param. */
typedef struct tolk_var {
    const char *name;
    int64_t value; /* of a float variable: its bit pattern in the low bytes */
} tolk_var;
static inline tolk_var tolk_var_int(const char *name, int64_t value) {
    tolk_var v;
    v.name = name;
    v.value = value;
    return v;
}
static inline tolk_var tolk_var_f32(const char *name, float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return tolk_var_int(name, (int64_t)bits);
}
static inline tolk_var tolk_var_f64(const char *name, double value) {
    int64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return tolk_var_int(name, bits);
}
/* Shape of a BUFFER or PARAM with these variables; others than those in it are not looked at.
 *
 *   dims: room for 8, filled in to *rank.
 * Errors: TOLK_E_UNBOUND (a variable has no value), TOLK_E_LAUNCH (one is out of its bounds, a
 * dimension is negative), TOLK_E_LIMIT (the number of elements does not fit 63 bits), TOLK_E_VERIFY
 * (two variables of one dimension have the same slot), TOLK_E_ARG (another node), TOLK_E_NOMEM.
 * Threads: any; nothing of the graph is changed. */
TOLK_API tolk_status tolk_node_dims(const tolk_uop *node, const tolk_var *vars, size_t n_vars,
                                    int64_t *dims, uint32_t *rank, tolk_error *err);
/* What a run is given. Set it up with TOLK_RUN_INIT. Arrays are borrowed for the call. */
typedef struct tolk_run_args {
    uint32_t size; /* sizeof(tolk_run_args) */
    uint32_t jit;  /* 1: the linear is compiled already: a kernel in it is an error */
    uint32_t wait; /* 1: wait for the end, and work on this thread meanwhile; TOLK_DEBUG of 2 and
                    * more sets it */
    const tolk_var *vars;
    size_t n_vars;
    const tolk_uop *const *inputs; /* what PARAM nodes with these slots stand for */
    size_t n_inputs;
} tolk_run_args;
/* clang-format off */
#define TOLK_RUN_INIT {(uint32_t)sizeof(tolk_run_args), 0, 0, NULL, 0, NULL, 0}
/* clang-format on */

/* What an argument of a call stands for: PARAM: an input; BUFFER: its binding, or a new buffer that
 * is bound to it; SLICE: a view; MSELECT: one of several; MSTACK: several. Exactly one of *out and
 * *out_multi is set.
 * Owner:   the caller, tolk_buffer_unref(), tolk_multi_unref().
 * Errors:  TOLK_E_UNBOUND (a PARAM without input), TOLK_E_UNSUPPORTED (a SLICE at an offset that is
 *          no constant), TOLK_E_DEVICE (MSELECT of one buffer, MSTACK of several), TOLK_E_RANGE,
 *          TOLK_E_ARG (the node names no buffer); each names the node. */
TOLK_API tolk_status tolk_resolve(tolk_bindings *bindings, const tolk_run_args *args,
                                  const tolk_uop *node, tolk_buffer **out, tolk_multi **out_multi,
                                  tolk_error *err);
/* The same for a node that must be one buffer. Errors: TOLK_E_DEVICE (it is several). */
TOLK_API tolk_status tolk_resolve_single(tolk_bindings *bindings, const tolk_run_args *args,
                                         const tolk_uop *node, tolk_buffer **out, tolk_error *err);

/* Execute the calls of a linear, compiled first unless args->jit, in their order: PROGRAM launches,
 * SLICE binds a view to its first argument, COPY copies, CUSTOM_FUNCTION "graph" records its LINEAR
 * and replays it. Arguments on several devices: once for each position, the variable _device_num
 * being that position. What fails while it is set up runs nothing of that call and those behind it.
 * The execs of the linears that ran last are kept in the bindings, for the next run of each.
 * Errors:  those of tolk_resolve() and tolk_kernel_run(), naming the call; TOLK_E_SHAPE,
 *          TOLK_E_DTYPE (of a copy), TOLK_E_ARG (a call of something else, a variable with two
 *          values). Before anything runs: TOLK_E_UNBOUND (a variable without value), TOLK_E_LAUNCH
 *          (one out of its bounds), TOLK_E_LIMIT (more than 2^20 calls, graphs and the calls in
 * them counted each time that they are called). */
TOLK_API tolk_status tolk_run_linear(tolk_bindings *bindings, tolk_linear *linear,
                                     const tolk_realize_opts *opts, const tolk_run_args *args,
                                     tolk_error *err);

/* A linear that is ready to run: compiled, resolved, checked. For one thread at a time. */
typedef struct tolk_exec tolk_exec;
/* bindings: used by runs, and outlive the exec. Owner: the caller, tolk_exec_destroy(). Errors: as
 * tolk_run_linear. */
TOLK_API tolk_status tolk_exec_create(tolk_bindings *bindings, tolk_linear *linear,
                                      const tolk_realize_opts *opts, tolk_exec **out,
                                      tolk_error *err);
/* Run it. Where neither inputs nor bindings changed, nothing is looked up and no memory is taken.
 * args may be NULL. Errors: also TOLK_E_BUSY (called from inside of a run of it). */
TOLK_API tolk_status tolk_exec_run(tolk_exec *exec, const tolk_run_args *args, tolk_error *err);
TOLK_API void tolk_exec_destroy(tolk_exec *exec);

/* Counters of a context since it was made. */
typedef struct tolk_counters {
    uint64_t launches;       /* kernels handed to a device */
    uint64_t copies;         /* between buffers */
    uint64_t compiles;       /* programs made by linears */
    uint64_t compile_hits;   /* programs that were there */
    uint64_t graph_records;  /* exec graphs made */
    uint64_t graph_launches; /* runs of exec graphs, the first ones too */
    uint64_t execs;          /* runs of tolk_exec */
    uint64_t schedules;      /* graphs of calls whose order was found */
    uint64_t schedule_hits;  /* whose order was there */
} tolk_counters;
TOLK_API tolk_status tolk_stats(tolk_ctx *ctx, tolk_counters *out);

/* The block of a kernel over groups of any size (special idx0..2) that is fastest: divisors of its
 * sizes only (powers of two, and the size), products of at most 1024, each tried twice in an order
 * that `seed` decides, on copies of the buffers that it stores to. Among those that differ by less
 * than a tenth the first one in that order is chosen. Kept with the kernel: later calls return it.
 *
 *   args: as of a launch.   local: set.
 * Waits for the device. Results do not depend on the block; on CPUs the time hardly does, either.
 * Errors: TOLK_E_UNSUPPORTED (the kernel has no idx0..2; a size is no constant), TOLK_E_LAUNCH (all
 * failed), those of tolk_kernel_run(). */
TOLK_API tolk_status tolk_optimize_local_size(tolk_kernel *kernel, const tolk_args *args,
                                              uint64_t seed, tolk_dims *local, tolk_error *err);

/* ---- schedules ---- */

/* The calls of a graph of AFTERs in an order in which each reads what it should: after what writes
 * it (read-after-write), and before what writes it next (write-after-read). Source: section 1.11 of
 * tinygrad's schedule. Errors: TOLK_E_VERIFY (a cycle, naming a call of it; a call that reads a
 * state of a buffer and takes one behind it, when what it reads is overwritten; an AFTER of
 * something else). */
TOLK_API tolk_status tolk_create_schedule(tolk_ctx *ctx, const tolk_uop *sink, tolk_linear **out,
                                          tolk_error *err);
/* Values of variables, each name once: for tolk_run_args.vars and n_vars. */
typedef struct tolk_vars {
    const tolk_var *at;
    size_t n;
} tolk_vars;
/* NULL does nothing. */
TOLK_API void tolk_vars_destroy(tolk_vars *vars);
/* A graph of calls as a linear, with the values of its variables.
 *
 *   sink: a SINK of AFTERs as tolk_create_schedule() takes, or a CALL of one, or of a LINEAR, with
 *   arguments: PARAM slot i of its body is argument i (BINDs count), and the BUFFERs of its body
 *   with slots from 0 on are memory of this one call: new nodes with new negative slots. Calls of
 *   that kind among the calls are replaced by theirs. docs/ir.md, "Calls of calls".
 *   vars: what BINDs of the graph say of variables that its kernels have; in the linear only the
 *   variables are left.
 * The order of a graph is kept for the next one that is equal but for arguments and values
 * (tolk_counters.schedule_hits), until tolk_cache_clear(); TOLK_SCHEDULE_CACHE=0 keeps none.
 * Owner:   the caller, tolk_linear_unref(), tolk_vars_destroy().
 * Errors:  those of tolk_create_schedule(); TOLK_E_VERIFY (sink or an argument is something else),
 *          TOLK_E_DTYPE (an argument and its PARAM), TOLK_E_ARG (BINDs give a variable two values),
 *          TOLK_E_UNSUPPORTED (a value is no constant), TOLK_E_LIMIT (too many calls).
 * Threads: any; the graph of sink is only read.
 */
TOLK_API tolk_status tolk_schedule(tolk_ctx *ctx, const tolk_uop *sink, tolk_linear **linear,
                                   tolk_vars **vars, tolk_error *err);
/* The linear with its intermediate buffers in arenas, one for each placement and kind (kernels,
 * copies), such that buffers in use at the same time do not overlap. BUFFERs in `held` stay as they
 * are, and those behind views of them; so do those that are read before they are written.
 * TOLK_MEMORY_PLAN=0 gives the linear as it is. Errors: TOLK_E_NOMEM, TOLK_E_LIMIT (too many calls,
 * as tolk_run_linear; more than 2^61 bytes). */
TOLK_API tolk_status tolk_memory_plan(tolk_linear *linear, const tolk_uop *const *held,
                                      size_t n_held, tolk_linear **out, tolk_error *err);

/* What gets the linears of a thread while it is the innermost one. */
typedef tolk_status (*tolk_capture_fn)(void *user, tolk_linear *linear, const tolk_var *vars,
                                       size_t n_vars, tolk_error *err);
/* From now on linears that this thread hands to tolk_realize_linear() in this context go to fn;
 * each thread has a stack of captures of its own. What they get is not planned yet, and where
 * inputs were given, it has their nodes in place of the PARAMs that are not bound. Errors:
 * TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_capture_push(tolk_ctx *ctx, tolk_capture_fn fn, void *user,
                                       tolk_error *err);
/* Errors: TOLK_E_NOT_FOUND (nothing was pushed). */
TOLK_API tolk_status tolk_capture_pop(tolk_ctx *ctx, tolk_error *err);
/* Hand over a linear: to the innermost capture of this thread, else to the memory planner and
 * tolk_run_linear(). held: as there; what is bound stays as it is, too. The contents of other
 * BUFFERs are lost when the call ends. */
TOLK_API tolk_status tolk_realize_linear(tolk_bindings *bindings, tolk_linear *linear,
                                         const tolk_uop *const *held, size_t n_held,
                                         const tolk_realize_opts *opts, const tolk_run_args *args,
                                         tolk_error *err);

/* tolk_schedule(), then tolk_realize_linear() with its variables and those of args, which may not
 * differ. What stays as it is beside `held` and what is bound: BUFFERs among the arguments of a
 * CALL; of a SINK those with slots from 0 on, and those whose states it gathers. What is memory of
 * the one call is gone when it returns. */
TOLK_API tolk_status tolk_realize(tolk_bindings *bindings, const tolk_uop *sink,
                                  const tolk_uop *const *held, size_t n_held,
                                  const tolk_realize_opts *opts, const tolk_run_args *args,
                                  tolk_error *err);

/* ---- record and replay of a function ---- */

/* A function that hands linears to tolk_realize_linear() or tolk_realize(): it runs once as it is,
 * once while it is captured; after that what was captured runs without it. All that it computes
 * must be in these linears, and follow from the inputs and variables of the call: a variable that
 * the call does not give is refused, and a BIND of one that it gives takes the call's value. What
 * is bound when it is captured keeps its memory, and so do held buffers: a result is in the same
 * buffer after each replay, until another one is bound. Graphs of calls that are handed over are
 * taken apart: the jit makes its own. For one thread at a time. */
typedef struct tolk_jit tolk_jit;
typedef tolk_status (*tolk_jit_fn)(void *user, tolk_bindings *bindings, const tolk_run_args *args,
                                   tolk_error *err);
typedef struct tolk_jit_opts {
    uint32_t size; /* sizeof(tolk_jit_opts) */
    uint32_t
        batch; /* most calls of the first graph, doubled for each one; 0: no bound; default 32 */
    uint32_t no_graphs;          /* 1: calls stay calls */
    const tolk_uop *const *held; /* BUFFERs that others look at: not planned. Copied */
    size_t n_held;
    /* Of linears that are handed over without; as long as the jit lives. */
    const tolk_realize_opts *realize;
} tolk_jit_opts;
/* clang-format off */
#define TOLK_JIT_OPTS_INIT {(uint32_t)sizeof(tolk_jit_opts), 32, 0, NULL, 0, NULL}
/* clang-format on */
TOLK_API tolk_status tolk_jit_create(tolk_bindings *bindings, tolk_jit_fn fn, void *user,
                                     const tolk_jit_opts *opts, tolk_jit **out, tolk_error *err);
/* Call it. args->inputs: BUFFER nodes that are bound in bindings; a replay takes any node that is.
 * Errors: TOLK_E_ARG (a replay has another number of inputs, or variables of other names; nothing
 * was captured), TOLK_E_SHAPE, TOLK_E_DTYPE, TOLK_E_DEVICE (an input is not as it was captured),
 * TOLK_E_ALIAS (inputs are the same memory now, and were not, or the other way round; an input is
 * the memory of a result, or of another buffer that is written), TOLK_E_BUSY (inside of a capture),
 * TOLK_E_UNBOUND, those of the function. A failed capture is tried again by the next call. */
TOLK_API tolk_status tolk_jit_call(tolk_jit *jit, const tolk_run_args *args, tolk_error *err);
/* As it was made: the next call runs the function. */
TOLK_API void tolk_jit_reset(tolk_jit *jit);
TOLK_API void tolk_jit_destroy(tolk_jit *jit);

#ifdef __cplusplus
}
#endif
#endif
