/* SPDX-License-Identifier: MIT
 *
 * The IR: graphs of micro-operations (UOps), their text, their verifier, their interpreter.
 * docs/ir.md describes every op.
 */
#ifndef TOLK_IR_H
#define TOLK_IR_H

#include <tolk/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A graph owns its nodes; they are freed together. One thread at a time per graph. */
typedef struct tolk_graph tolk_graph;
/* One immutable node. Equal nodes of one graph are one pointer. */
typedef struct tolk_uop tolk_uop;

/* Number of an op; find it by its text name ("add"). */
typedef uint32_t tolk_op;
#define TOLK_OP_NONE ((tolk_op)UINT32_MAX)
/* TOLK_OP_NONE if there is no such op. */
TOLK_API tolk_op tolk_op_find(const char *name);
/* Text name; NULL for a number that is no op. */
TOLK_API const char *tolk_op_name(tolk_op op);

/* One attribute: the key as in the text form, and the member that its kind uses: i for integers,
 * booleans and enums given as numbers, s for strings and for enums given by name, ints and n for
 * lists, s and n for bytes. A value in another member is TOLK_E_ARG. */
typedef struct tolk_attr {
    const char *key;
    int64_t i;
    const char *s;
    const int64_t *ints;
    size_t n; /* elements of ints; bytes of s for byte attributes */
} tolk_attr;

/* The kind of a range. */
typedef enum tolk_axis {
    TOLK_AXIS_LOOP = 0,
    TOLK_AXIS_GLOBAL = 1,
    TOLK_AXIS_THREAD = 2,
    TOLK_AXIS_WARP = 3,
    TOLK_AXIS_LOCAL = 4,
    TOLK_AXIS_GROUP_REDUCE = 5,
    TOLK_AXIS_UPCAST = 6,
    TOLK_AXIS_REDUCE = 7,
    TOLK_AXIS_UNROLL = 8,
    TOLK_AXIS_LANE = 9
} tolk_axis;

typedef enum tolk_reduce_op {
    TOLK_REDUCE_ADD = 0,
    TOLK_REDUCE_MUL = 1,
    TOLK_REDUCE_MAX = 2
} tolk_reduce_op;

typedef enum tolk_stage {
    TOLK_STAGE_ANY = 0, /* inferred from the root */
    TOLK_STAGE_TENSOR = 1,
    TOLK_STAGE_KERNEL = 2,
    TOLK_STAGE_PROGRAM = 3
} tolk_stage;

/* Owner: the caller; destroy it before ctx. Errors: TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_graph_create(tolk_ctx *ctx, tolk_graph **out);
/* Frees every node. NULL does nothing. */
TOLK_API void tolk_graph_destroy(tolk_graph *graph);
/* The first error that a builder of this graph recorded; TOLK_OK if none. err may be NULL. */
TOLK_API tolk_status tolk_graph_error(const tolk_graph *graph, tolk_error *err);
/* Forget the recorded error. */
TOLK_API void tolk_graph_clear_error(tolk_graph *graph);
/* Number of nodes made so far. */
TOLK_API uint32_t tolk_graph_count(const tolk_graph *graph);

/* Any node.
 *
 *   dtype: of the result; TOLK_VOID where the op decides it itself.
 * All builders: NULL sources give NULL and leave the first recorded error; a wrong node gives NULL
 * and records TOLK_E_VERIFY, _DTYPE, _SHAPE, _LIMIT or _NOMEM with the op and the rule in graph.
 * Owner:   graph. Valid until tolk_graph_destroy(graph).
 * Threads: one at a time per graph.
 */
TOLK_API const tolk_uop *tolk_uop_new(tolk_graph *graph, tolk_op op, tolk_dtype dtype,
                                      const tolk_uop *const *src, size_t n, const tolk_attr *attrs,
                                      size_t n_attrs);

/* Constants. An integer out of the dtype's range is TOLK_E_RANGE; a float is rounded once. */
TOLK_API const tolk_uop *tolk_const_int(tolk_graph *graph, tolk_dtype dtype, int64_t value);
TOLK_API const tolk_uop *tolk_const_uint(tolk_graph *graph, tolk_dtype dtype, uint64_t value);
TOLK_API const tolk_uop *tolk_const_float(tolk_graph *graph, tolk_dtype dtype, double value);
TOLK_API const tolk_uop *tolk_const_bool(tolk_graph *graph, int value);
/* The index that is no place: where(valid, i, invalid) is a gated index. */
TOLK_API const tolk_uop *tolk_invalid(tolk_graph *graph);
/* Buffer parameter of dims[rank] elements, row-major. */
TOLK_API const tolk_uop *tolk_param(tolk_graph *graph, tolk_dtype dtype, const int64_t *dims,
                                    size_t rank, int64_t slot, const char *name);
/* Buffer parameter whose dimensions are index expressions (constants and variables). */
TOLK_API const tolk_uop *tolk_param_sym(tolk_graph *graph, tolk_dtype dtype,
                                        const tolk_uop *const *dims, size_t rank, int64_t slot,
                                        const char *name);
/* Integer scalar parameter with bounds min <= value <= max. */
TOLK_API const tolk_uop *tolk_variable(tolk_graph *graph, tolk_dtype dtype, int64_t slot,
                                       const char *name, int64_t min, int64_t max);
/* Scalar parameter of any dtype, without bounds of its own. */
TOLK_API const tolk_uop *tolk_scalar(tolk_graph *graph, tolk_dtype dtype, int64_t slot,
                                     const char *name);
/* Loop over 0 .. size-1. size: index scalar. */
TOLK_API const tolk_uop *tolk_range(tolk_graph *graph, const tolk_uop *size, int64_t axis,
                                    tolk_axis kind);
/* Place of one element: one index per dimension. */
TOLK_API const tolk_uop *tolk_index(tolk_graph *graph, const tolk_uop *buffer,
                                    const tolk_uop *const *idx, size_t n);
TOLK_API const tolk_uop *tolk_load(tolk_graph *graph, const tolk_uop *place);
/* alt where gate is false; memory is not touched there. */
TOLK_API const tolk_uop *tolk_load_gated(tolk_graph *graph, const tolk_uop *place,
                                         const tolk_uop *alt, const tolk_uop *gate);
TOLK_API const tolk_uop *tolk_store(tolk_graph *graph, const tolk_uop *place,
                                    const tolk_uop *value);
TOLK_API const tolk_uop *tolk_store_gated(tolk_graph *graph, const tolk_uop *place,
                                          const tolk_uop *value, const tolk_uop *gate);
/* Close the ranges of an effect. */
TOLK_API const tolk_uop *tolk_end(tolk_graph *graph, const tolk_uop *effect,
                                  const tolk_uop *const *ranges, size_t n);
/* Left fold of value over the ranges, in their order, from the identity. */
TOLK_API const tolk_uop *tolk_reduce(tolk_graph *graph, tolk_reduce_op op, const tolk_uop *value,
                                     const tolk_uop *const *ranges, size_t n);
/* Root of a kernel. */
TOLK_API const tolk_uop *tolk_sink(tolk_graph *graph, const tolk_uop *const *effects, size_t n,
                                   const char *name);
TOLK_API const tolk_uop *tolk_cast(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype);
TOLK_API const tolk_uop *tolk_bitcast(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype);

/* x, once the effects are done. */
TOLK_API const tolk_uop *tolk_after(tolk_graph *graph, const tolk_uop *x,
                                    const tolk_uop *const *effects, size_t n);

/* What linears are made of; docs/ir.md, "Calls", says what each means. The rules that go beyond one
 * node (the buffers of a call are those of its kernel, a slice lies in its buffer) are checked by
 * tolk_verify() and tolk_linear_create(). */
/* Memory of dims[rank] elements, row-major, that bindings give: on `device` ("CPU:1"; "CPU,CPU:1":
 * one on each), or, for NULL, on that of the bindings. */
TOLK_API const tolk_uop *tolk_buffer_node(tolk_graph *graph, tolk_dtype dtype, const int64_t *dims,
                                          size_t rank, int64_t slot, const char *device);
/* The same with dimensions that are index expressions (constants and variables). */
TOLK_API const tolk_uop *tolk_buffer_node_sym(tolk_graph *graph, tolk_dtype dtype,
                                              const tolk_uop *const *dims, size_t rank,
                                              int64_t slot, const char *device);
/* count elements of dtype, from the element number `offset` of x on (of x's dtype): an argument, or
 * the body of a call that makes its argument 0 that part of its argument 1. */
TOLK_API const tolk_uop *tolk_slice(tolk_graph *graph, const tolk_uop *x, tolk_dtype dtype,
                                    int64_t offset, int64_t count);
/* One of the buffers that x is on several devices; several buffers as one. */
TOLK_API const tolk_uop *tolk_mselect(tolk_graph *graph, const tolk_uop *x, int64_t index);
TOLK_API const tolk_uop *tolk_mstack(tolk_graph *graph, const tolk_uop *const *x, size_t n);
/* Value of a variable for one call: an argument of it. value: a constant of the variable's dtype.
 */
TOLK_API const tolk_uop *tolk_bind(tolk_graph *graph, const tolk_uop *variable,
                                   const tolk_uop *value);
/* Body of a call that copies its argument 1 to its argument 0. */
TOLK_API const tolk_uop *tolk_copy(tolk_graph *graph, const tolk_uop *src, const char *device);
/* Body (a kernel's sink, a copy, a slice, a graph) and arguments; those of a kernel in the order of
 * its buffer parameters. */
TOLK_API const tolk_uop *tolk_call(tolk_graph *graph, const tolk_uop *body,
                                   const tolk_uop *const *args, size_t n);
/* Calls, one after the other: the root that tolk_linear_create() takes. */
TOLK_API const tolk_uop *tolk_linear_node(tolk_graph *graph, const tolk_uop *const *calls,
                                          size_t n);
/* Body of a call that runs a linear as one, recorded where the device can. */
TOLK_API const tolk_uop *tolk_graph_node(tolk_graph *graph, const tolk_uop *linear);

/* Elementwise ops: operands and result share one dtype; comparisons give bool. See docs/ir.md. */
/* clang-format off */
#define TOLK_UNARY_MAP(X)                                                                          \
    X(exp) X(exp2) X(log) X(log2) X(sin) X(cos) X(tanh) X(erf) X(sqrt) X(reciprocal) X(neg) X(trunc)
#define TOLK_BINARY_MAP(X)                                                                         \
    X(add) X(mul) X(max) X(sub) X(fdiv) X(pow) X(cdiv) X(cmod) X(floordiv) X(floormod) X(shl)      \
    X(shr) X(and) X(or) X(xor) X(threefry) X(cmplt) X(cmpne) X(cmpeq)
/* clang-format on */
#define TOLK_DECLARE_UNARY(name)                                                                   \
    TOLK_API const tolk_uop *tolk_##name(tolk_graph *graph, const tolk_uop *a);
#define TOLK_DECLARE_BINARY(name)                                                                  \
    TOLK_API const tolk_uop *tolk_##name(tolk_graph *graph, const tolk_uop *a, const tolk_uop *b);
TOLK_UNARY_MAP(TOLK_DECLARE_UNARY)
TOLK_BINARY_MAP(TOLK_DECLARE_BINARY)
#undef TOLK_DECLARE_UNARY
#undef TOLK_DECLARE_BINARY
/* cond ? a : b, for each element. */
TOLK_API const tolk_uop *tolk_where(tolk_graph *graph, const tolk_uop *cond, const tolk_uop *a,
                                    const tolk_uop *b);
/* a * b + c with one rounding. */
TOLK_API const tolk_uop *tolk_mulacc(tolk_graph *graph, const tolk_uop *a, const tolk_uop *b,
                                     const tolk_uop *c);

/* Looking at a node. */
TOLK_API tolk_op tolk_uop_op(const tolk_uop *u);
TOLK_API tolk_dtype tolk_uop_dtype(const tolk_uop *u);
/* The graph that it is of, to build more with it. */
TOLK_API tolk_graph *tolk_uop_graph(const tolk_uop *u);
TOLK_API size_t tolk_uop_n_src(const tolk_uop *u);
TOLK_API const tolk_uop *tolk_uop_src(const tolk_uop *u, size_t i); /* NULL past the end */
/* Attribute by key; 0 if the op has no such key. "value" is that of a constant, of integers, index
 * and bool. *out borrows from the graph. */
TOLK_API int tolk_uop_attr(const tolk_uop *u, const char *key, tolk_attr *out);

/* 128-bit key of the canonical form; equal for equal graphs, in any process. */
typedef struct tolk_key {
    uint64_t lo, hi;
} tolk_key;
TOLK_API tolk_key tolk_uop_key(const tolk_uop *u);

enum {
    TOLK_PARSE_TRUSTED = 1 /* accept BINARY nodes */
};
/* Read the text form.
 *
 *   text: len bytes of UTF-8, need not be NUL-terminated.
 * Owner:   graph. The graph keeps what was read even if a later line fails.
 * Errors:  TOLK_E_PARSE, TOLK_E_LIMIT and what builders record, with line and column.
 */
TOLK_API tolk_status tolk_parse(tolk_graph *graph, const char *text, size_t len, uint32_t flags,
                                const tolk_uop **root, tolk_error *err);
/* Write the text form. Owner: the caller, tolk_free_text(). Errors: TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_print(const tolk_uop *root, char **text, size_t *len);
/* Check every rule of a stage. Errors: TOLK_E_VERIFY and others; err names node and rule. A graph
 * that tolk_parse read keeps where: err has line and column of the node's definition, and the
 * message the %N of that text. Else, and where a root reaches nodes of two texts or nodes that
 * builders made, %N is the number that tolk_print gives. err->node is that one in any case. */
TOLK_API tolk_status tolk_verify(const tolk_uop *root, tolk_stage stage, tolk_error *err);

/* What a kernel or program takes: its params in ascending slot order. */
typedef struct tolk_param_info {
    const char *name; /* NULL if it has none; borrowed from the graph */
    int64_t slot;
    tolk_dtype dtype;
    int is_scalar; /* a variable: passed in vals, not in bufs */
    int is_loaded, is_stored;
    uint32_t rank;
    int64_t min, max; /* of an integer scalar */
} tolk_param_info;
/* Number of params of a kernel (buffers and scalars). */
TOLK_API size_t tolk_kernel_param_count(const tolk_uop *kernel);
/* The i-th param. Errors: TOLK_E_ARG if i is too large. */
TOLK_API tolk_status tolk_kernel_param(const tolk_uop *kernel, size_t i, tolk_param_info *out);
/* Shape of buffer param i for given scalars. dims: room for 8, filled in to rank.
 * Errors: TOLK_E_LIMIT if the number of elements does not fit 63 bits. */
TOLK_API tolk_status tolk_kernel_param_dims(const tolk_uop *kernel, size_t i, const int64_t *vals,
                                            size_t n_vals, int64_t *dims, int64_t *elems,
                                            tolk_error *err);
/* Name of a kernel or program; "kernel" if it has none. */
TOLK_API const char *tolk_kernel_name(const tolk_uop *kernel);
/* Kernel of that name inside a root that is a SINK or a GROUP of SINKs; NULL if there is none.
 * name NULL: the only one. */
TOLK_API const tolk_uop *tolk_kernel_find(const tolk_uop *root, const char *name);

/* Run a kernel or program slowly: the definition of what it computes.
 *
 *   bufs, bytes: the buffer params in ascending slot order; vals: the scalar params in ascending
 *   slot order, a float as its bit pattern in the low bytes.
 * Errors:  TOLK_E_ARG, TOLK_E_UNBOUND, TOLK_E_LAUNCH (a scalar out of its bounds), TOLK_E_VERIFY,
 *          TOLK_E_RANGE (some access was out of bounds: those loads gave 0, those stores were
 *          dropped, everything else was done).
 * Threads: any; nothing of the graph is changed.
 */
TOLK_API tolk_status tolk_interpret(const tolk_uop *kernel, void *const *bufs, const size_t *bytes,
                                    size_t n_bufs, const int64_t *vals, size_t n_vals,
                                    tolk_error *err);
enum {
    TOLK_INTERPRET_NO_FMA = 1 /* math functions as on a target without FMA (docs/numerics.md) */
};
/* The same with flags. */
TOLK_API tolk_status tolk_interpret_with(const tolk_uop *kernel, void *const *bufs,
                                         const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                         size_t n_vals, uint32_t flags, tolk_error *err);

/* What a run says beside its arguments. Set it up with TOLK_LAUNCH_OPTS_INIT. */
typedef struct tolk_launch_opts {
    uint32_t size; /* sizeof(tolk_launch_opts) */
    /* Of the dynamic local buffer (docs/ir.md), for each group: it has as many elements as fit. Of
     * no effect where the kernel has no such buffer. */
    size_t shared_bytes;
} tolk_launch_opts;
/* clang-format off */
#define TOLK_LAUNCH_OPTS_INIT {(uint32_t)sizeof(tolk_launch_opts), 0}
/* clang-format on */
/* tolk_interpret_with() as a launch with these options; NULL: the defaults. Errors: also
 * TOLK_E_LIMIT (the bytes of the local memory do not fit 63 bits), TOLK_E_NOMEM. */
TOLK_API tolk_status tolk_interpret_launch(const tolk_uop *kernel, void *const *bufs,
                                           const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                           size_t n_vals, uint32_t flags,
                                           const tolk_launch_opts *opts, tolk_error *err);

#ifdef __cplusplus
}
#endif
#endif
