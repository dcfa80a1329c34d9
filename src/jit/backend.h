/* SPDX-License-Identifier: MIT
 *
 * What a family of devices gives to the compiler and the launcher.
 */
#ifndef TK_JIT_BACKEND_H
#define TK_JIT_BACKEND_H

#include "base/ctx.h"
#include "base/strbuf.h"
#include "jit/code.h"
#include "jit/kenv.h"
#include "jit/target.h"

#include <tolk/device.h>
#include <tolk/jit.h>

/* One launch, checked and ready. Nothing in it is owned. */
typedef struct tk_launch {
    tk_kernel_fn fn;
    void *const *bufs;
    const int64_t *vals;
    int64_t span;   /* iterations of the flattened global range */
    double work;    /* operations and bytes of the whole launch: how long it may take */
    int64_t pieces; /* the iterations from this one on wait for all before; 0: none waits */
    size_t scratch_bytes;
    bool scratch_per_thread; /* else one for all threads of the launch */
    size_t dynamic_bytes;    /* of the dynamic local buffer, in scratch_bytes too */
    uint64_t frame_bytes;    /* that fn takes of a stack, where they are more than a page, else 0 */
    /* Set by the backend when accesses were out of range: the first one of the lowest iteration. */
    bool faulted;
    uint32_t fault_slot;
    int64_t fault_index;
} tk_launch;

/* Memory of a device. Addresses are the device's; where host_visible they are the host's, too. */
typedef struct tk_memory_ops {
    bool host_visible;
    /* NULL: there is none. alignment: a power of two, 64 at least. */
    void *(*alloc)(tolk_device *device, size_t bytes, size_t alignment);
    void (*release)(tolk_device *device, void *at, size_t bytes, size_t alignment);
    /* Run on the device's queue, and done when they return. */
    tolk_status (*copyin)(tolk_device *device, void *dst, const void *host, size_t bytes,
                          tolk_error *err);
    tolk_status (*copyout)(tolk_device *device, void *host, const void *src, size_t bytes,
                           tolk_error *err);
    tolk_status (*zero)(tolk_device *device, void *at, size_t bytes, tolk_error *err);
    /* From another device of the family, or the same one (then the ranges may overlap). NULL: only
     * through host memory. */
    tolk_status (*transfer)(tolk_device *dst, void *to, tolk_device *src, const void *from,
                            size_t bytes, tolk_error *err);
} tk_memory_ops;

/* One node of an exec graph: a launch, or a copy of bytes between memory of its family. Nothing in
 * it is owned, and nothing of it but the program is used after the call that gets it. */
typedef struct tk_graph_node {
    const tolk_program *program; /* of the launch, stays until the graph goes; NULL: a copy */
    const tk_launch *launch;     /* prepared; what its bufs and vals hold is copied */
    void *dest;
    const void *src; /* the ranges may overlap */
    size_t bytes;
    const uint32_t *deps; /* earlier nodes that it runs after; used by build() alone */
    size_t n_deps;
} tk_graph_node;

/* Exec graphs: launches and copies that were made ready once and run as one. A graph is for one
 * thread at a time, and is not touched while it runs. */
typedef struct tk_graph_ops {
    /* Make one; commit() comes before the first launch(). Errors: TOLK_E_NOMEM. */
    tolk_status (*build)(tolk_device *device, const tk_graph_node *nodes, size_t n, void **out,
                         tolk_error *err);
    /* Give node i other memory, scalars or sizes: it stays a launch of its program, or a copy. It
     * counts when it is committed. */
    void (*set)(void *graph, size_t i, const tk_graph_node *node);
    /* Make what was set ready. Errors: TOLK_E_NOMEM; then it is to be tried again. */
    tolk_status (*commit)(void *graph, tolk_error *err);
    /* As of a launch: is it so short that handing it to another thread costs more? */
    bool (*is_small)(const void *graph);
    /* Run it and wait. The first node, in their order, whose accesses were out of range ends it
     * (nodes that do not depend on it may have run); the error names it. Allocates nothing as a
     * rule. Errors: TOLK_E_RANGE, TOLK_E_CANCELLED, TOLK_E_NOMEM. */
    tolk_status (*launch)(void *graph, tolk_error *err);
    void (*destroy)(void *graph);
} tk_graph_ops;

typedef struct tk_backend {
    const char *framework; /* "CPU", "CUDA/PTX" */
    int priority;          /* of tolk_device_best(); below 0: never chosen unless named */
    /* Is there such hardware, and how many devices? 0: none. family: as registered. Starts no
     * thread. Errors: TOLK_E_NOMEM, which is told; any other means 0. */
    tolk_status (*count)(tolk_ctx *ctx, void *family, uint32_t *n, tolk_error *err);
    /* Make device->state. */
    tolk_status (*open)(tolk_device *device, void *family, uint32_t ordinal, tolk_error *err);
    /* Of one device; limits.devices is left alone. Starts no thread. */
    void (*limits)(tolk_ctx *ctx, void *family, uint32_t ordinal, tolk_limits *out);
    void (*family_destroy)(tolk_ctx *ctx, void *family); /* NULL: nothing to free */
    const tk_memory_ops *memory;
    /* Is a launch so short that handing it to another thread costs more? */
    bool (*is_small)(const tolk_device *device, const tk_launch *launch);
    const tk_host *(*host)(const tolk_device *device);
    /* Run it and wait. Errors: TOLK_E_CANCELLED, TOLK_E_NOMEM. */
    tolk_status (*launch)(tolk_device *device, tk_launch *launch, tolk_error *err);
    const tk_graph_ops *graph; /* NULL: it has none */
    /* Members of a JSON object: `"cpu": "znver3", ...`. */
    void (*debug_info)(const tolk_device *device, tk_strbuf *sb);
    void (*destroy)(tolk_device *device); /* what open() made */
    /* NULL, both, on systems whose objects LLVM's linker places (tk_llvm_link). Would load() load
     * this object, which may be any bytes, and into how many; and loading it: *entry is the address
     * of `symbol`. Errors: TOLK_E_UNSUPPORTED for an object that this library did not make,
     * TOLK_E_NOMEM. */
    tolk_status (*check)(const void *object, size_t len, const char *symbol, size_t *bytes,
                         tolk_error *err);
    tolk_status (*load)(tolk_ctx *ctx, const void *object, size_t len, const char *symbol,
                        tk_code_linked **out, void **entry, tolk_error *err);
} tk_backend;

enum { TK_DEVICE_LAUNCHES = 64 };

/* A launch that runs, as tolk_cancel sees it. Both halves change in one step, so that a cancel can
 * only meet the launch it looked at. On its own cache line: kernels poll it. */
typedef union tk_device_slot {
    _Alignas(64) _Atomic uint64_t whole;
    struct {
        _Atomic uint32_t cancel; /* the low half: what the launch polls */
        _Atomic uint32_t number; /* of the launch, odd while it runs */
    } half;
} tk_device_slot;

struct tolk_device {
    tolk_ctx *ctx;
    const tk_backend *backend;
    char *name;                      /* canonical; text of base/strbuf.h */
    void *state;                     /* the backend's */
    void *memory;                    /* what was allocated for the device */
    struct tk_device_state *realize; /* the realize layer's; NULL: none */
    tk_device_slot slot[TK_DEVICE_LAUNCHES];
};

#endif
