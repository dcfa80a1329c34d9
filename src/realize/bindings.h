/* SPDX-License-Identifier: MIT
 *
 * Which buffers nodes stand for. Nodes of all graphs are copied into one graph, where equal ones
 * are one pointer: that is how they are found, never by an address in somebody's graph.
 */
#ifndef TK_REALIZE_BINDINGS_H
#define TK_REALIZE_BINDINGS_H

#include "ir/uop.h"
#include "schedule/memory_plan.h"

#include <tolk/realize.h>

/* What a node stands for: exactly one of the two. */
typedef struct tk_bindings_to {
    tolk_buffer *one;
    tolk_multi *many;
} tk_bindings_to;

typedef struct tk_bindings_entry {
    const tolk_uop *node; /* of bindings->graph */
    tk_bindings_to to;    /* referenced */
} tk_bindings_entry;

struct tolk_bindings {
    tolk_ctx *ctx;
    tolk_device *device;
    tolk_graph *graph; /* of the nodes */
    uint32_t least;    /* nodes that graph began with */
    TK_VEC(tk_bindings_entry) list;
    tk_map place; /* address of a node -> its place in list */
    /* The same by the hash of a node, for nodes of other graphs; one that another one has, too, is
     * looked for in the list. */
    tk_map of_hash;
    bool collides;
    /* Changes when what a node stands for does: what was resolved before is to be resolved anew.
     * Buffers that are made on demand change nothing. */
    uint64_t generation;
    struct tolk_exec *execs; /* those that use these bindings, in a list: exec.c */
    struct tk_runs *runs;    /* execs kept for tolk_run_linear(): run_linear.c */
};

/* The bindings' own node that is equal to node. What it returned before stays valid until the next
 * tk_bindings_begin(). Errors: TOLK_E_NOMEM, TOLK_E_LIMIT. */
tolk_status tk_bindings_node(tolk_bindings *b, const tolk_uop *node, const tolk_uop **out,
                             tolk_error *err);
/* Called where no node that tk_bindings_node() returned is in use: nodes that stand for nothing are
 * dropped when there are many of them. */
void tk_bindings_begin(tolk_bindings *b);
/* What one of the bindings' own nodes stands for; NULL: nothing. */
const tk_bindings_to *tk_bindings_of(const tolk_bindings *b, const tolk_uop *node);
/* Is a node (of any graph) one that arguments are made of, and does it stand for something itself?
 */
bool tk_bindings_is_bound(const tolk_bindings *b, const tolk_uop *node);
/* Bind it, referenced. made: it stood for nothing, and the buffers are made for it. The same
 * buffers again change nothing. Errors: TOLK_E_NOMEM. */
tolk_status tk_bindings_put(tolk_bindings *b, const tolk_uop *node, tk_bindings_to to, bool made,
                            tolk_error *err);
/* The linear of a plan is over: its arenas stand for nothing any more, and its views where they are
 * parts of them. */
void tk_bindings_remove_own(tolk_bindings *b, const tk_memory_plan_own *own);

void tk_bindings_to_ref(tk_bindings_to to);
void tk_bindings_to_drop(tk_bindings_to *to);

#endif
