/* SPDX-License-Identifier: MIT
 *
 * What the files of the interpreter share: the graph as dense tables (the plan), one run of it, and
 * the work-items of that run.
 */
#ifndef TK_IR_INTERP_PLAN_H
#define TK_IR_INTERP_PLAN_H

#include "ir/interp.h"
#include "ir/params.h"

/* One node. Every value is `width` words of canonical bits (scalar.h): the lanes of a vector, the
 * elements of a stack. Of a place the words are element indices. */
typedef struct tk_interp_node {
    const tolk_uop *u;
    tk_op op;
    tolk_dtype dt;         /* scalar dtype */
    uint32_t width;        /* 0: no value */
    uint32_t val;          /* first word in an item's val */
    uint32_t src;          /* first in plan.src; as many as u has */
    uint32_t need, n_need; /* in plan.need: what must be done before it, in this order */
    uint32_t range;        /* number of a RANGE */
    int32_t buf;           /* the buffer that it is, or is a place in; -1: none */
    uint8_t special;       /* SPECIAL: place in tk_interp.dims */
} tk_interp_node;

typedef enum tk_interp_memory {
    TK_INTERP_ARG,   /* the caller's */
    TK_INTERP_RUN,   /* scratch of the whole run */
    TK_INTERP_LOCAL, /* of a work-group */
    TK_INTERP_REG    /* of a work-item */
} tk_interp_memory;

typedef struct tk_interp_buf {
    const tolk_uop *u;
    const tk_param *param; /* of an ARG */
    tk_interp_memory memory;
    tolk_dtype dt;  /* scalar dtype */
    uint32_t lanes; /* of one element */
    uint32_t rank;
    int64_t dim[TK_PARAMS_MAX_RANK];
    int64_t scalars; /* elements * lanes */
    size_t offset;   /* in the memory of its kind */
    char *base;      /* ARG */
} tk_interp_buf;

/* Kinds of work-item indices, in tk_interp.dims. Those before LIDX number work-groups. */
enum { TK_INTERP_GIDX = 0, TK_INTERP_IDX = 3, TK_INTERP_LIDX = 6, TK_INTERP_DIMS = 9 };

typedef struct tk_interp_plan {
    TK_VEC(tk_interp_node) nodes; /* sources first; a program's list is `order` */
    TK_VEC(uint32_t) src, need;
    TK_VEC(uint32_t) specials; /* the SPECIAL nodes that number work-items */
    TK_VEC(tk_interp_buf) bufs;
    uint32_t n_vals; /* words of all values */
    uint32_t root;
    bool is_program;
    bool meets; /* barriers, shuffles or shared matrices: work-items run side by side */
    /* Kernels: range r sets back the nodes dependent.at[dep_first.at[r] .. dep_first.at[r + 1]]. */
    TK_VEC(uint32_t) range_node, dep_first, dependent;
    /* Programs: node of each instruction, and for RANGE END IF ENDIF the other's position. */
    TK_VEC(uint32_t) order, match;
    size_t run_bytes, local_bytes, reg_bytes;
    size_t local_asked; /* local_bytes before each buffer was rounded up, for messages */
    uint32_t n_ranges;
} tk_interp_plan;

enum {
    TK_INTERP_DONE = 1,    /* its value is there, or its effect was done */
    TK_INTERP_INVALID = 2, /* the value is the index that means: do not access */
    TK_INTERP_BAD = 4      /* a place out of its buffer by one of several indices */
};

/* What a work-item is in the middle of. */
typedef struct tk_interp_frame {
    uint32_t node;
    uint32_t pos;   /* of what it needs */
    uint32_t level; /* loops that are open */
    uint8_t phase;
    bool halves;  /* a REDUCE that folds halves: its values wait in item.spill */
    size_t lanes; /* the first of them */
    uint64_t acc; /* of a REDUCE */
} tk_interp_frame;

/* One work-item. */
typedef struct tk_interp_item {
    uint64_t *val;
    uint8_t *state;   /* by node */
    int64_t *limit;   /* by range: size of its open loop */
    uint32_t *active; /* by range: how many loops over it are open */
    char *reg;
    TK_VEC(tk_interp_frame) stack;
    TK_VEC(uint64_t) spill;
    uint32_t pc;   /* programs */
    uint32_t wait; /* node at which it waits for others */
    bool waiting, granted, done;
} tk_interp_item;

/* One run. */
typedef struct tk_interp {
    const tolk_allocator *al;
    const tk_interp_args *args;
    tk_interp_plan plan;
    tk_params params;
    tolk_error *err;
    bool fma;
    int64_t dims[TK_INTERP_DIMS];
    uint64_t *val0; /* values and states that an item starts from: constants, scalar params */
    uint8_t *state0;
    char *run_memory, *local;
    tk_interp_item *items;
    uint32_t n_items; /* that are set up */
    size_t items_bytes;
    /* The first access out of its buffer. */
    bool fault, fault_store;
    bool fault_bad; /* by one of several indices */
    int32_t fault_buf;
    int64_t fault_index;
} tk_interp;

/* interp_plan.c: tables of root, buffers with their sizes; in->args and in->params are there. */
tolk_status tk_interp_plan_init(tk_interp *in, const tolk_uop *root);
void tk_interp_plan_fini(tk_interp_plan *plan);

/* interp_eval.c: compute node n, do its effect; what it needs is done. */
void tk_interp_eval(tk_interp *in, tk_interp_item *it, uint32_t n);

/* interp_kernel.c, interp_program.c: run an item until it is done or waits. */
tolk_status tk_interp_kernel_step(tk_interp *in, tk_interp_item *it);
tolk_status tk_interp_program_step(tk_interp *in, tk_interp_item *it);
/* Does node n have to wait for the other work-items? */
static inline bool tk_interp_meets(const tk_interp_node *k) {
    return k->op == TK_OP_BARRIER || k->op == TK_OP_SHUFFLE ||
           (k->op == TK_OP_WMMA && tk_uop_int(k->u, TK_A_WMMA_THREADS) != 1);
}

/* interp_wmma.c: the product of the fragments that items[0..n) hold at node k, n = 1 or 32. */
tolk_status tk_interp_wmma(tk_interp *in, tk_interp_item *items, uint32_t n, uint32_t node);

static inline const tk_interp_node *tk_interp_node_at(const tk_interp *in, uint32_t n) {
    return &in->plan.nodes.at[n];
}
static inline uint32_t tk_interp_src(const tk_interp *in, const tk_interp_node *k, uint32_t i) {
    return in->plan.src.at[k->src + i];
}

#endif
