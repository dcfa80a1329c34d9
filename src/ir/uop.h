/* SPDX-License-Identifier: MIT
 *
 * Nodes and graphs. Nodes are immutable and interned: equal nodes of a graph are one pointer, so
 * equality is pointer equality and common subexpressions are shared for free.
 */
#ifndef TK_IR_UOP_H
#define TK_IR_UOP_H

#include <tolk/ir.h>

#include "base/arena.h"
#include "base/ctx.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/status.h"
#include "base/vec.h"
#include "ir/op.h"

/* Interned strings, byte strings and integer lists: equal ones of a graph are one pointer. */
typedef struct tk_blob {
    size_t n; /* bytes (strings, without the NUL behind them) or elements (lists) */
    const char *str;
    const int64_t *ints;
    uint64_t hash; /* of the contents */
} tk_blob;

/* One attribute value. An absent STR, INTS or BYTES is NULL. */
typedef union tk_attr {
    int64_t i;
    const tk_blob *blob;
} tk_attr;

struct tolk_uop {
    uint8_t op; /* tk_op */
    uint8_t flags;
    uint16_t n_attr;
    tolk_dtype dtype;
    uint32_t n_src;
    uint32_t id;   /* dense in its graph; sources have lower ids */
    uint64_t hash; /* of all below it, the same in every graph */
    tolk_graph *graph;
    const tolk_uop *const *src;
    const tk_attr *attr; /* in the order of ops.def; CONST: attr[0].i is the value */
};
enum { TK_UOP_INVALID = 1 /* flag of the CONST that is no index */ };

/* Bounds of an integer value: lo <= v <= hi, both as int64 (u64 values above INT64_MAX make the
 * bounds the whole int64 range and `known` false). */
typedef struct tk_bound {
    int64_t lo, hi;
    uint8_t state; /* 0 not computed yet, 1 known, 2 unknown (floats, void, too wide) */
} tk_bound;

/* Shape of a tensor value or buffer; each dim is an index scalar. */
typedef struct tk_shape {
    uint32_t rank;
    const tolk_uop *dim[];
} tk_shape;

/* Where a text defined a node first, and its number there. */
typedef struct tk_place {
    uint32_t line, column; /* of its op, from 1 */
    uint32_t text;         /* which of the texts that the graph was read from, from 1; 0: none */
    uint64_t number;       /* N of its %N */
} tk_place;

typedef struct tk_key_memo {
    tk_hash128 key;
    bool done;
} tk_key_memo;

struct tolk_graph {
    tolk_ctx *ctx;
    const tolk_allocator *al; /* that of ctx */
    tk_arena arena;
    const tolk_uop **table; /* interning, open addressing */
    size_t table_cap;
    const tk_blob **blobs; /* the same for blobs */
    size_t blob_cap, n_blobs;
    TK_VEC(const tolk_uop *) nodes; /* by id */
    /* Memo tables of other files, by id; each file grows its own. */
    TK_VEC(tk_key_memo) keys;        /* key.c */
    TK_VEC(tk_bound) bounds;         /* bounds.c */
    TK_VEC(const tk_shape *) shapes; /* shape.c; NULL: not computed */
    TK_VEC(tk_place) places;         /* parse.c; shorter than nodes where none is known */
    uint32_t n_texts;                /* that parse.c read */
    uint64_t parse_ns;               /* how long the last one took */
    tolk_error error;                /* first one; code TOLK_OK if none */
    bool symbolic_off; /* builders of sym.c do not simplify (tests of the simplifier) */
};

/* NULL if no text defined the node of that id. */
static inline const tk_place *tk_graph_place(const tolk_graph *g, uint32_t id) {
    return id < g->places.n && g->places.at[id].text ? &g->places.at[id] : NULL;
}

enum { TK_MAX_NODES = 1 << 24 /* of one graph */ };

tolk_status tk_graph_create(tolk_ctx *ctx, tolk_graph **out);
void tk_graph_destroy(tolk_graph *g);
/* Record the graph's first error. Returns NULL so that builders can return it. */
const tolk_uop *tk_graph_fail(tolk_graph *g, tolk_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool tk_graph_failed(const tolk_graph *g) {
    return g->error.code != TOLK_OK;
}

/* The error that it recorded, or TOLK_E_NOMEM; the graph is as good as before. */
tolk_status tk_graph_take_error(tolk_graph *g, tolk_error *err);

/* Interned blobs; NULL when out of memory. */
const tk_blob *tk_blob_str(tolk_graph *g, const char *s, size_t n);
const tk_blob *tk_blob_ints(tolk_graph *g, const int64_t *ints, size_t n);

/* The raw constructor: interns, checks nothing but NULL sources and limits. attrs: as many as the
 * op has, in table order; NULL: all default (then nothing may be required). NULL on failure,
 * recorded in g. Passes use this; tolk_uop_new and the parser check with check.h first. */
const tolk_uop *tk_uop(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *const *src,
                       size_t n, const tk_attr *attrs);
/* The same op, dtype and attributes over other sources. */
const tolk_uop *tk_uop_with_src(tolk_graph *g, const tolk_uop *u, const tolk_uop *const *src,
                                size_t n);
/* The same with another graph's node as model: attributes are copied into g. */
const tolk_uop *tk_uop_import(tolk_graph *g, const tolk_uop *u, const tolk_uop *const *src);

/* Shorthands; dtype of the result by the op's rule. */
const tolk_uop *tk_uop1(tolk_graph *g, tk_op op, const tolk_uop *a);
const tolk_uop *tk_uop2(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b);
const tolk_uop *tk_uop3(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b,
                        const tolk_uop *c);
/* CAST or BITCAST; the same dtype gives x itself. Lanes are those of x, whatever dtype says. */
const tolk_uop *tk_uop_cast(tolk_graph *g, const tolk_uop *x, tolk_dtype dtype);
const tolk_uop *tk_uop_bitcast(tolk_graph *g, const tolk_uop *x, tolk_dtype dtype);
/* Scalar constant of raw bits: sign-extended for signed integers and index, zero-extended for
 * unsigned ones and bool, the bit pattern for floats. Canonicalized to the dtype's width. */
const tolk_uop *tk_uop_const(tolk_graph *g, tolk_dtype dtype, uint64_t bits);
const tolk_uop *tk_uop_index_const(tolk_graph *g, int64_t v);
const tolk_uop *tk_uop_invalid(tolk_graph *g);
/* Vector of n equal lanes: STACK(x, x, ...); n = 1 gives x. */
const tolk_uop *tk_uop_splat(tolk_graph *g, const tolk_uop *x, uint32_t lanes);
/* The constant in each lane of dtype. */
const tolk_uop *tk_uop_const_like(tolk_graph *g, tolk_dtype dtype, uint64_t bits);
const tolk_uop *tk_uop_range(tolk_graph *g, const tolk_uop *size, int64_t axis, tk_axis kind);

/* Result dtype of an op by its rule, GIVEN gives `given`. */
tolk_dtype tk_uop_result_dtype(tk_op op, const tolk_uop *const *src, size_t n, tolk_dtype given);

static inline tk_op tk_uop_op(const tolk_uop *u) {
    return (tk_op)u->op;
}
static inline tk_attr tk_uop_attr(const tolk_uop *u, tk_attr_id id) {
    TK_ASSERT(tk_op_attrs[id].op == (tk_op)u->op);
    return u->attr[id - tk_op_get((tk_op)u->op)->attr_first];
}
static inline int64_t tk_uop_int(const tolk_uop *u, tk_attr_id id) {
    return tk_uop_attr(u, id).i;
}
/* NULL if absent. */
static inline const char *tk_uop_str(const tolk_uop *u, tk_attr_id id) {
    const tk_blob *b = tk_uop_attr(u, id).blob;
    return b ? b->str : NULL;
}
static inline bool tk_uop_is(const tolk_uop *u, tk_op op) {
    return u->op == (uint8_t)op;
}
static inline bool tk_uop_is_const(const tolk_uop *u) {
    return u->op == TK_OP_CONST && !(u->flags & TK_UOP_INVALID);
}
static inline bool tk_uop_is_invalid(const tolk_uop *u) {
    return u->op == TK_OP_CONST && (u->flags & TK_UOP_INVALID);
}
/* Raw bits of a CONST. */
static inline uint64_t tk_uop_bits(const tolk_uop *u) {
    return (uint64_t)u->attr[0].i;
}
/* Is u the integer constant v? (bool and every integer dtype) */
static inline bool tk_uop_is_int(const tolk_uop *u, int64_t v) {
    return tk_uop_is_const(u) && !tolk_dtype_is_float(u->dtype) && u->attr[0].i == v;
}
static inline uint32_t tk_uop_lanes(const tolk_uop *u) {
    return tolk_dtype_lanes(u->dtype);
}

/* Total order that depends on no address and no id: (op, dtype, attributes, sources), and deep down
 * the hashes. Takes a bounded time. */
int tk_uop_compare(const tolk_uop *a, const tolk_uop *b);

#endif
