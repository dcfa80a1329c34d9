/* SPDX-License-Identifier: MIT
 *
 * What pass_items must know about a work-item's program before it writes loops.
 *
 * The list is cut into regions: runs of instructions between meeting points (barriers, and where
 * loops and ifs with meeting points inside begin and end). A region becomes one loop over the
 * work-items. Instructions that are the same for all of them are done once for the group, in front
 * of that loop: what the sizes of loops around barriers are made of must be such.
 */
#ifndef TK_JIT_ITEMS_PLAN_H
#define TK_JIT_ITEMS_PLAN_H

#include "jit/items.h"

/* A reg buffer of the program. */
typedef struct tk_items_reg {
    const tolk_uop *buffer;
    uint32_t first; /* number of its first element */
    bool item;      /* each work-item has its own */
    bool spread;    /* used in several regions, or again in a loop with meeting points */
    bool kept;      /* and keeps it across meeting points */
} tk_items_reg;

typedef struct tk_items_plan {
    const tolk_uop *linear;
    const tolk_allocator *al;
    uint32_t n;       /* instructions; arrays by position: */
    uint32_t *match;  /* RANGE and IF: their end; END and ENDIF: their beginning */
    uint32_t *entry;  /* the outermost loop or if without meeting points that it is in, or itself */
    uint32_t *region; /* number, from 1; 0: between regions */
    bool *looped;     /* in a loop with meeting points */
    bool *item;       /* done by each work-item */
    size_t n_ids;     /* arrays by id of node: */
    bool *own;        /* its value is another one for each work-item */
    bool *kept;       /* it is kept in scratch memory for regions behind that where it is made */
    uint8_t *cheap;   /* instructions that making it again takes, its own among them; 0: too many */
    uint32_t *made;   /* region in which it is made last */
    TK_VEC(tk_items_reg) regs;
    uint32_t n_elements; /* of all of them */
    const tolk_uop *lidx[TK_ITEMS_DIMS];
} tk_items_plan;

/* Errors: TOLK_E_NOMEM; TOLK_E_UNSUPPORTED: a loop or if around a meeting point whose size or
 * condition is not known to be the same for all work-items. Call fini in any case. */
tolk_status tk_items_plan_init(tk_items_plan *plan, const tolk_uop *linear, tolk_error *err);
void tk_items_plan_fini(tk_items_plan *plan);

/* The reg buffer of an access, NULL if it is memory. */
tk_items_reg *tk_items_plan_reg(const tk_items_plan *plan, const tolk_uop *access);
/* Number of the element of an access to a reg buffer. */
uint32_t tk_items_plan_element(const tk_items_reg *reg, const tolk_uop *access);
/* Is source i of u a value (not a place, an order or what u closes)? */
bool tk_items_is_value(const tolk_uop *u, uint32_t i);
/* Known from its first place on: nothing is done for it where it stands. */
bool tk_items_is_definition(const tolk_uop *u);
/* Stands for a place in memory: its users look through it. */
bool tk_items_is_place(const tolk_uop *u);

#endif
