/* SPDX-License-Identifier: MIT
 *
 * State of pass_lower, shared by its files:
 *   lower_span.c    the loops over the flattened global range, and the pass itself
 *   lower_grid.c    the same for a GPU: iterations become threads
 *   lower_kinds.c   which ranges can be unrolled or lanes; before the walk
 *   lower_empty.c   gates for what loops without iterations must not do; before the walk
 *   pass_lower.c    the walk over nodes
 *   lower_scope.c   bodies of loops and branches, and what is listed in them
 *   lower_value.c   values of nodes
 *   lower_alu.c     elementwise instructions and functions of math.def
 *   lower_memory.c  loads, stores, registers
 *   lower_fold.c    REDUCE and END
 *   lower_items.c   where work-items meet: barriers, shuffles
 */
#ifndef TK_JIT_LOWER_H
#define TK_JIT_LOWER_H

#include "ir/before.h"
#include "jit/pass.h"

enum { TK_LOWER_MAX_INSTANCES = 1024 };
/* Blocks of a CUDA grid in x. In y and z it is 65,535, so that all of it goes into x. */
#define TK_LOWER_MOST_BLOCKS INT32_MAX
enum { TK_LOWER_MOST_BLOCKS_YZ = 65535 };

/* One entry of a node's value: a scalar (stride 0), an index that moves by stride a lane from a
 * scalar base, or a vector (its dtype has lanes; stride 0). */
typedef struct tk_lval {
    const tolk_uop *u;
    int64_t stride;
} tk_lval;

/* The body of a loop or branch while it is written. */
typedef struct tk_lower_body {
    int parent, depth;
    bool open;
    tk_uops list;
} tk_lower_body;

typedef struct tk_lower_unrolled {
    uint32_t no, size;
} tk_lower_unrolled;

/* A range that was given a loop, and what it had before. */
typedef struct tk_lower_saved {
    uint32_t no;
    int scope;
    const tolk_uop *value;
} tk_lower_saved;

/* A reg buffer of the kernel and its form in the program. */
typedef struct tk_lower_reg {
    const tolk_uop *buffer, *program;
    uint64_t *set; /* ranges that its stores depend on; bits as in the view */
} tk_lower_reg;

/* One node on the way through the walk. */
typedef struct tk_lower_frame {
    const tolk_uop *u;
    uint32_t next, stage;
    int scope, inner;    /* where its value belongs; body of its innermost loop */
    uint32_t n_saved;    /* ranges it opened */
    uint32_t first_loop; /* closers: sources before this one are loops opened elsewhere */
    const tolk_uop *acc; /* REDUCE: its accumulators */
} tk_lower_frame;

/* Work-items as lanes (items_lanes.c). lidx NULL: they are not. */
typedef struct tk_items_wide {
    const tolk_uop *lidx, *lane, *value, *guard; /* the index as it was; its range of lanes; the
                                                    index now; where it is one, NULL: always */
} tk_items_wide;
/* The kernel with work-items as lanes, or as it is where that cannot be. NULL on failure. */
const tolk_uop *tk_items_lanes(tk_pass *p, const tolk_uop *root, tk_items_wide *wide);

typedef struct tk_lower {
    tk_pass *p;
    tolk_graph *g;
    const tolk_allocator *al;
    tk_kview v;
    bool in_order;                      /* the effects take one iteration of the span together */
    tk_before before;                   /* loads that are done before stores of registers */
    TK_VEC(tk_lower_unrolled) unrolled; /* ranges of kind upcast and unroll */
    TK_VEC(uint32_t) digits;            /* of an instance: room for one of each unrolled range */
    TK_VEC(uint32_t) lane_ranges;
    TK_VEC(tk_lower_body) scopes; /* 0 is the function's */
    TK_VEC(int) placed;           /* by id: scope + 1 in which a node is listed */
    size_t n_listed;              /* instructions in all scopes */
    int *range_scope;             /* by range number: its open loop's scope, or -1 */
    const tolk_uop **range_value; /* and its value there */
    tk_map values;                /* (node, scope) -> place in lvals */
    TK_VEC(tk_lval) lvals;
    TK_VEC(tk_lower_reg) regs;
    TK_VEC(tk_lower_frame) frames;
    TK_VEC(tk_lower_saved) saved;
    tk_uops todo;
    int base_scope; /* where what depends on no loop belongs: 0, or the flattened loop's body */
    int pin;        /* scope that pure nodes may not leave (a branch), 0: none */
    int floor;      /* the same for all but constants and arguments; deeper scopes stay. 0: none */
    int poll_depth; /* loops of this depth look at the cancel flag; 0: none do */
    int64_t next_axis, next_reg, next_local;
    tk_items_wide wide;
} tk_lower;

bool tk_lower_is_unrolled(tk_axis kind);

/* lower_kinds.c: ranges of kind upcast, unroll or lane that the walk cannot treat as such become
 * loops. The values stay the same. */
const tolk_uop *tk_lower_kinds(tk_pass *p, const tolk_uop *root);

/* Does the range pick elements of an array of registers? Then it is one array for all iterations.
 */
bool tk_lower_indexes(const tk_kview *v, const tolk_uop *buffer, const tolk_uop *range);

/* lower_empty.c: accesses inside of loops that may have no iteration get a gate. flattened: the
 * leading global ranges of the sink's effects become the flattened range. NULL on failure. */
const tolk_uop *tk_lower_empty(tk_pass *p, const tolk_uop *root, bool flattened);
/* lower_span.c: the effects of a sink with its groups taken apart, appended to out in their order.
 * False when out of memory. */
bool tk_lower_effects(const tolk_uop *sink, tk_uops *out);
/* lower_span.c: number of ranges of an END, from source 1, that go into the flattened range. On a
 * CPU those behind the first few hundred iterations are loops. */
uint32_t tk_lower_flattened(const tk_kview *v, const tolk_uop *end, const tk_target *target);
/* Iterations of the first n ranges of an END together. NULL on failure. */
const tolk_uop *tk_lower_span_size(tolk_graph *g, const tolk_uop *end, uint32_t n);
/* Give the first n ranges of an END their values in a scope: the digits of `at` in the base of
 * their sizes. */
bool tk_lower_bind(tk_lower *l, const tolk_uop *end, uint32_t n, const tolk_uop *at, int scope);
/* List a SPECIAL; NULL on failure. */
const tolk_uop *tk_lower_special(tk_lower *l, const char *name, const tolk_uop *size);
/* lower_grid.c: list a kernel's effects for a GPU. */
bool tk_lower_grid(tk_lower *l, const tk_uops *effects);

/* ---- pass_lower.c ---- */

/* Visit root and all it needs, in the scopes that are open now. */
bool tk_lower_visit(tk_lower *l, const tolk_uop *root);
/* Visit an END some of whose loops are open already: start->scope is the body of the last of them,
 * start->first_loop the first source whose loop is not. */
bool tk_lower_visit_end(tk_lower *l, const tk_lower_frame *start);
/* An effect of the sink is done; token is its last instruction. And asking for that token. */
bool tk_lower_done(tk_lower *l, const tolk_uop *effect, const tolk_uop *token);
const tolk_uop *tk_lower_token(const tk_lower *l, const tolk_uop *effect);

/* ---- lower_scope.c ---- */

/* Open a scope whose first instruction is opener (NULL: none); its number, or -1. */
int tk_lower_scope(tk_lower *l, int parent, const tolk_uop *opener);
/* Close a scope with its last instruction and put it at the end of its parent. */
bool tk_lower_close(tk_lower *l, int scope, const tolk_uop *closer);
/* Scope in which u is listed and still visible, or -1. */
int tk_lower_visible(const tk_lower *l, const tolk_uop *u);
bool tk_lower_mark(tk_lower *l, const tolk_uop *u, int scope);
bool tk_lower_list(tk_lower *l, const tolk_uop *u, int scope);
/* List a pure instruction and all it needs; its scope, or -1 on failure. */
int tk_lower_place(tk_lower *l, const tolk_uop *u);
/* List an effect at the end of a scope, and what it needs. */
bool tk_lower_effect(tk_lower *l, const tolk_uop *u, int scope);

/* ---- lower_value.c ---- */

/* Lanes of the lane range that u depends on; 1 if there is none. */
uint32_t tk_lower_lanes(const tk_lower *l, const tolk_uop *u);
/* Combinations of the unrolled ranges in a set; more than TK_LOWER_MAX_INSTANCES: too many. */
uint32_t tk_lower_instances(const tk_lower *l, const uint64_t *set);
/* Instance of `to` that instance k of `from` uses; digits of ranges that only `to` has are 0. */
uint32_t tk_lower_project(const tk_lower *l, const uint64_t *from, uint32_t k, const uint64_t *to);
/* Innermost scope among the loops u depends on. */
int tk_lower_scope_of(const tk_lower *l, const tolk_uop *u);
/* The values of u in its scope; NULL if it was not visited there. And room for n of them. Pointers
 * are good until the next call of tk_lower_new_values. */
tk_lval *tk_lower_values(const tk_lower *l, const tolk_uop *u);
tk_lval *tk_lower_new_values(tk_lower *l, const tolk_uop *u, uint32_t n);
/* Value of source i of u for instance k of u. */
tk_lval tk_lower_source(const tk_lower *l, const tolk_uop *u, uint32_t k, uint32_t i);
/* (0, step, 2 * step ...), and a value as a vector of `lanes`. */
const tolk_uop *tk_lower_iota(tk_lower *l, tolk_dtype scalar, uint32_t lanes, int64_t step);
const tolk_uop *tk_lower_vector(tk_lower *l, tk_lval x, uint32_t lanes);

static inline tk_lval tk_lval_uniform(const tolk_uop *u) {
    return (tk_lval){u, 0};
}
static inline bool tk_lval_is_affine(tk_lval x) {
    return tk_uop_lanes(x.u) == 1;
}
static inline bool tk_lval_is_scalar(tk_lval x) {
    return tk_uop_lanes(x.u) == 1 && !x.stride;
}

/* ---- lower_alu.c ---- */

/* a op b, of any dtype; NULL if one of them is. */
const tolk_uop *tk_lower_combine(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b);
/* One instance of an elementwise node with operands s; its u is NULL on failure. */
tk_lval tk_lower_alu(tk_lower *l, const tolk_uop *u, const tk_lval *s, uint32_t lanes);

/* ---- lower_memory.c ---- */

/* A new register file of the program; storing to and loading from element k of one. token: the
 * instruction that a load stands behind. */
const tolk_uop *tk_lower_reg_buffer(tk_lower *l, tolk_dtype dtype, int64_t elems);
const tolk_uop *tk_lower_reg_store(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                   const tolk_uop *value);
const tolk_uop *tk_lower_reg_load(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                  const tolk_uop *token);
/* Form of one of the kernel's own reg buffers in the program; NULL for other buffers. */
tk_lower_reg *tk_lower_reg_info(tk_lower *l, const tolk_uop *buffer);
/* Emit all instances of a LOAD, and of a STORE or ATOMIC_ADD. */
bool tk_lower_load(tk_lower *l, const tolk_uop *u);
bool tk_lower_store(tk_lower *l, const tolk_uop *u);

/* ---- lower_items.c ---- */

/* Emit a BARRIER; and a SHUFFLE, which is an exchange through local memory. */
bool tk_lower_barrier(tk_lower *l, const tolk_uop *u);
bool tk_lower_shuffle(tk_lower *l, const tolk_uop *u);

/* ---- lower_fold.c ---- */

/* What stands before and behind the source of a REDUCE or END in its loops. */
bool tk_lower_open_loops(tk_lower *l, const tolk_uop *u, tk_lower_frame *f);
bool tk_lower_enter_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f);
bool tk_lower_leave_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f);
bool tk_lower_leave_end(tk_lower *l, const tolk_uop *u, tk_lower_frame *f);

#endif
