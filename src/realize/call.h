/* SPDX-License-Identifier: MIT
 *
 * One CALL of a linear: what its node says, the buffers that its arguments stand for, and running
 * it. A call whose arguments are on several devices has one shard for each position.
 */
#ifndef TK_REALIZE_CALL_H
#define TK_REALIZE_CALL_H

#include "realize/bindings.h"
#include "realize/kernel.h"
#include "realize/resolve.h"

/* The variable that is the position of a shard. */
#define TK_CALL_DEVICE_NUM "_device_num"

typedef enum tk_call_kind {
    TK_CALL_LAUNCH, /* of a PROGRAM */
    TK_CALL_COPY,   /* of argument 1 to argument 0 */
    TK_CALL_SLICE,  /* argument 0 becomes a view of argument 1 */
    TK_CALL_GRAPH   /* of the calls that follow it: n_inner of them */
} tk_call_kind;

/* Where a scalar of a launch comes from. */
typedef enum tk_call_from {
    TK_CALL_BOUND,    /* a BIND of the call: the number is the value */
    TK_CALL_VARIABLE, /* the number counts the exec's variables */
    TK_CALL_POSITION  /* of the shard; on one device a variable */
} tk_call_from;
typedef struct tk_call_value {
    tk_call_from from;
    int64_t number;
} tk_call_value;

/* What runs at one position. */
typedef struct tk_call_shard {
    tolk_kernel *kernel; /* LAUNCH: referenced */
    /* LAUNCH: of the program's buffers, in its order; COPY: dest, src. Those of tk_call.to, which
     * has the references. */
    tolk_buffer **bufs;
    tk_kernel_bound bound; /* LAUNCH: room; bound.vals are the scalars of the last run */
} tk_call_shard;

typedef struct tk_call {
    tk_call_kind kind;
    const tolk_uop *node, *body; /* of the linear */
    size_t n_inner;
    struct tk_graph_call
        *graph;    /* GRAPH: what runs them (graph_call.h); NULL: they run one by one */
    char what[96]; /* "call 3 (kernel scale)": for errors */
    /* Arguments that are buffers, in their order. */
    const tolk_uop **args;
    size_t n_args;
    bool reaches_input; /* one of them depends on a PARAM */
    /* LAUNCH: the kernel on some device, which the exec has; of each buffer of its program the
     * argument, of each scalar where it comes from. */
    const tolk_kernel *model;
    uint32_t *arg_of;
    tk_call_value *vals;
    size_t n_bufs, n_vals;
    /* After tk_call_resolve(). */
    tk_bindings_to *to; /* n_args; referenced */
    tk_call_shard *shards;
    size_t n_shards;
    bool is_multi;
} tk_call;

/* Read a CALL. number: its place in the linear; outer: that of the graph it is in, or -1;
 * on_input: 1 of arguments that depend on a PARAM. Ends with tk_call_fini, also after a failure.
 * Errors: TOLK_E_ARG, TOLK_E_VERIFY, TOLK_E_NOMEM. */
tolk_status tk_call_init(tk_call *c, const tolk_uop *node, size_t number, int64_t outer,
                         const tk_walk_map *on_input, const tolk_allocator *al, tolk_error *err);
/* LAUNCH: match its buffers with the params of its kernel on some device, which becomes the model.
 * Names of scalars are for the exec to look up: vals is all 0. Errors: TOLK_E_VERIFY, TOLK_E_NOMEM.
 */
tolk_status tk_call_match(tk_call *c, const tolk_kernel *kernel, const tolk_allocator *al,
                          tolk_error *err);
void tk_call_fini(tk_call *c, const tolk_allocator *al);
/* Give up the buffers. */
void tk_call_forget(tk_call *c, const tolk_allocator *al);

/* The kernel of a PROGRAM on a device, referenced. */
typedef tolk_status (*tk_call_load_fn)(void *user, const tolk_uop *program, tolk_device *device,
                                       tolk_kernel **out, tolk_error *err);
/* Find its buffers in memo's bindings and make its shards; SLICE: also bind the view. Errors: those
 * of tk_resolve() and load; TOLK_E_DEVICE (arguments on one and on several devices, on different
 * numbers of them, a graph's), TOLK_E_DTYPE, TOLK_E_SHAPE (a copy's, a slice's); each names call
 * and argument. */
tolk_status tk_call_resolve(tk_call *c, tk_resolve_memo *memo, const tolk_uop *const *inputs,
                            size_t n_inputs, tk_call_load_fn load, void *user, tolk_error *err);
/* Run it: the shards' scalars are set in bound.vals. All shards are checked before the first one is
 * handed over. awaited: the caller waits for it right away, so the last one may run on this thread;
 * else none is waited for. Errors: those of tolk_kernel_run() and tolk_buffer_copy(),
 * naming the call. */
tolk_status tk_call_run(tk_call *c, bool awaited, tolk_error *err);
/* "call 3 (...): " before a message that is there. Returns st. */
tolk_status tk_call_failed(const tk_call *c, tolk_status st, const tolk_error *why,
                           tolk_error *err);

#endif
