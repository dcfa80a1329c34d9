/* SPDX-License-Identifier: MIT
 *
 * State of pass_lower, shared by its files: lower_kinds.c (which ranges can be unrolled or lanes),
 * pass_lower.c (the walk), lower_span.c (the loops over the global range, and the pass itself).
 */
#ifndef TK_JIT_LOWER_H
#define TK_JIT_LOWER_H

#include "ir/before.h"
#include "jit/pass.h"

enum { TK_LOWER_MAX_INSTANCES = 1024 };

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

typedef struct tk_lower {
    tk_pass *p;
    tolk_graph *g;
    const tolk_allocator *al;
    tk_kview v;
    bool in_order;                      /* the effects take one iteration of the span together */
    tk_before before;                   /* loads that are done before stores of registers */
    TK_VEC(tk_lower_unrolled) unrolled; /* ranges of kind upcast and unroll */
    TK_VEC(uint32_t) lane_ranges;
    TK_VEC(tk_lower_body) scopes; /* 0 is the function's */
    TK_VEC(int) placed;           /* by id: scope + 1 in which a node is listed */
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
    int poll_depth; /* loops of this depth look at the cancel flag; 0: none do */
    int64_t next_axis, next_reg;
} tk_lower;

bool tk_lower_is_unrolled(tk_axis kind);

/* lower_kinds.c: ranges of kind upcast, unroll or lane that the walk cannot treat as such become
 * loops. The values stay the same. */
const tolk_uop *tk_lower_kinds(tk_pass *p, const tolk_uop *root);

/* lower_empty.c: accesses inside of loops that may have no iteration get a gate. flattened: the
 * leading global ranges of the sink's effects become the flattened range. NULL on failure. */
const tolk_uop *tk_lower_empty(tk_pass *p, const tolk_uop *root, bool flattened);
/* lower_span.c: number of ranges of an END, from source 1, that go into the flattened range. */
uint32_t tk_lower_flattened(const tk_kview *v, const tolk_uop *end);

/* pass_lower.c: visit root and all it needs, in the scopes that are open now. */
bool tk_lower_visit(tk_lower *l, const tolk_uop *root);
/* Visit an END some of whose loops are open already: start->scope is the body of the last of them,
 * start->first_loop the first source whose loop is not. */
bool tk_lower_visit_end(tk_lower *l, const tk_lower_frame *start);
/* List a pure instruction and all it needs; its scope, or -1 on failure. */
int tk_lower_place(tk_lower *l, const tolk_uop *u);
/* Open a scope whose first instruction is opener (NULL: none); its number, or -1. */
int tk_lower_scope(tk_lower *l, int parent, const tolk_uop *opener);
/* Close a scope with its last instruction and put it at the end of its parent. */
bool tk_lower_close(tk_lower *l, int scope, const tolk_uop *closer);
/* An effect of the sink is done; token is its last instruction. And asking for that token. */
bool tk_lower_done(tk_lower *l, const tolk_uop *effect, const tolk_uop *token);
const tolk_uop *tk_lower_token(const tk_lower *l, const tolk_uop *effect);
bool tk_lower_mark(tk_lower *l, const tolk_uop *u, int scope);

#endif
