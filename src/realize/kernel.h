/* SPDX-License-Identifier: MIT
 *
 * Kernels as the kernel cache holds them, and functions that stand for kernels.
 */
#ifndef TK_REALIZE_KERNEL_H
#define TK_REALIZE_KERNEL_H

#include "jit/launch.h"
#include "realize/buffer.h"
#include "realize/guarded_cache.h"

#include <tolk/realize.h>

/* What a launch's grid and block have to do with a kernel. Axes: 0..2 grid x, y, z; 3..5 block. */
enum { TK_KERNEL_AXES = 6 };
typedef struct tk_kernel_dims {
    bool any; /* there are specials or params of that kind: grid and block may be given */
    /* Specials: value number of the size, or -1 where the kernel has none. flat: of idx0..2. */
    int32_t size[TK_KERNEL_AXES], flat[3];
    bool given[TK_KERNEL_AXES]; /* a param is named _grid_x .. _block_z */
    tk_expr_step *steps;        /* of the sizes */
    size_t n_steps;
} tk_kernel_dims;

/* One param of a kernel, in ascending slot order as in the program's metadata. */
typedef struct tk_kernel_param {
    int8_t axis;    /* that gives its value; -1: an argument does */
    char what[144]; /* "kernel scale: argument 1 ("x")", for errors */
} tk_kernel_param;

struct tolk_kernel {
    _Atomic uint32_t refs;
    tolk_device *device;
    char *name;             /* text of base/strbuf.h */
    _Atomic uint64_t block; /* local_size.c: the fastest one, packed; 0: not known */
    /* A program ... */
    tolk_program *program;
    tk_kernel_param *param; /* n_bufs + n_vals of the program */
    size_t n_params, n_args;
    tk_kernel_dims dims;
    /* ... or, where that is NULL, a function. */
    tolk_native_fn fn;
    void *user;
};

/* A kernel of a program, which gets a reference; sink: what it was compiled from. Errors:
 * TOLK_E_NOMEM, TOLK_E_LIMIT. */
tolk_status tk_kernel_create(tolk_device *device, tolk_program *program, const tolk_uop *sink,
                             tolk_kernel **out, tolk_error *err);

/* The arguments of a launch, in the order of the program's params: n_bufs and n_vals of them. */
typedef struct tk_kernel_bound {
    size_t n_bufs, n_vals;
    size_t held; /* of pieces: they are references */
    void **bufs;
    size_t *bytes;
    tk_piece *pieces;
    tk_use *uses;
    size_t n_uses;
    int64_t *vals;
    tk_launch launch;
    void *memory; /* of all that; NULL: on the stack, or there are none */
    size_t memory_bytes;
} tk_kernel_bound;

/* Room of a launch that waits in a queue. */
size_t tk_kernel_waiting_bytes(size_t n_bufs, size_t n_vals);

/* A launch in two steps, for who launches the same kernel again and again. init: room for the
 * arguments of kernels with so many. Set vals; tk_kernel_bind() then takes the buffers and checks
 * all that a launch does before it may run, without grid, block and dynamic local memory;
 * tk_kernel_go() hands it over, or tk_kernel_unbind() drops it. awaited: the caller waits for it
 * right away, so on an idle queue it runs on this thread, however long it takes. */
tolk_status tk_kernel_bound_init(tk_kernel_bound *b, const tolk_kernel *k, tolk_error *err);
void tk_kernel_bound_fini(tk_kernel_bound *b, const tolk_allocator *al);
tolk_status tk_kernel_bind(const tolk_kernel *k, tolk_buffer *const *bufs, tk_kernel_bound *b,
                           tolk_error *err);
tolk_status tk_kernel_go(tolk_kernel *k, tk_kernel_bound *b, bool awaited, tolk_error *err);
void tk_kernel_unbind(tk_kernel_bound *b);

/* Values of tk_realize.kernels are tolk_kernel. */
struct tk_natives;
extern const tk_guarded_cache_ops tk_kernel_cache_ops;

/* Find what a kernel's specials and params ask of grid and block. sink: what p was compiled from.
 * Ends with tk_kernel_dims_fini, also after a failure. Errors: TOLK_E_NOMEM, TOLK_E_LIMIT. */
tolk_status tk_kernel_dims_init(tk_kernel_dims *d, const tolk_uop *sink, tolk_error *err);
void tk_kernel_dims_fini(tk_kernel_dims *d, const tolk_allocator *al);
/* The axis of a param of that name, or -1. */
int tk_kernel_dims_axis(const char *name);
const char *tk_kernel_dims_name(int axis); /* "grid.x" */
/* Are these sizes? NULL: the kernel's own. dim: 1 where none is given. Errors: TOLK_E_LAUNCH. */
tolk_status tk_kernel_dims_read(const tolk_kernel *k, const tolk_dims *grid, const tolk_dims *block,
                                int64_t dim[TK_KERNEL_AXES], tolk_error *err);
/* Do they agree with the kernel's specials? vals: the scalars of the launch. Errors: TOLK_E_LAUNCH.
 */
tolk_status tk_kernel_dims_check(const tolk_kernel *k, bool has_grid, bool has_block,
                                 const int64_t dim[TK_KERNEL_AXES], const int64_t *vals,
                                 tolk_error *err);

/* Functions that tolk_kernel_register() named. */
tolk_status tk_natives_create(tolk_ctx *ctx, struct tk_natives **out, tolk_error *err);
void tk_natives_destroy(tolk_ctx *ctx, struct tk_natives *natives); /* NULL does nothing */

#endif
