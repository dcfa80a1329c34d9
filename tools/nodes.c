/* SPDX-License-Identifier: MIT
 *
 * Lists of nodes, each once, and the calls of a linear.
 */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const tk_nodes *nodes, const tolk_uop *u) {
    uint64_t h = (uint64_t)(uintptr_t)u * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 32) & (nodes->n_slots - 1);
    while (nodes->slots[i] && nodes->at[nodes->slots[i] - 1] != u)
        i = (i + 1) & (nodes->n_slots - 1);
    return i;
}

static int grow(tk_nodes *nodes) {
    size_t cap = nodes->n_slots ? nodes->n_slots : 8; /* twice as many slots as nodes */
    const tolk_uop **at = realloc(nodes->at, cap * sizeof *at);
    if (!at)
        return 0;
    nodes->at = at;
    size_t *slots = calloc(2 * cap, sizeof *slots);
    if (!slots)
        return 0;
    free(nodes->slots);
    nodes->slots = slots;
    nodes->n_slots = 2 * cap;
    for (size_t i = 0; i < nodes->n; i++)
        nodes->slots[slot_of(nodes, nodes->at[i])] = i + 1;
    return 1;
}

int tk_nodes_add(tk_nodes *nodes, const tolk_uop *u, int *is_new) {
    if (2 * nodes->n == nodes->n_slots && !grow(nodes))
        return tk_report_failed("out of memory");
    size_t i = slot_of(nodes, u);
    *is_new = !nodes->slots[i];
    if (*is_new) {
        nodes->at[nodes->n++] = u;
        nodes->slots[i] = nodes->n;
    }
    return TOOL_DONE;
}

void tk_nodes_free(tk_nodes *nodes) {
    free(nodes->at);
    free(nodes->slots);
    *nodes = (tk_nodes){0};
}

/* The linear that a call is of, as it is or as a graph; NULL: it is of something else. */
static const tolk_uop *linear_of(const tolk_uop *call) {
    const tolk_uop *body = tolk_uop_n_src(call) ? tolk_uop_src(call, 0) : call;
    if (tk_source_is_op(body, "custom_function") && tolk_uop_n_src(body))
        body = tolk_uop_src(body, 0);
    return tk_source_is_op(body, "linear") ? body : NULL;
}

/* A linear whose calls are being looked at; a stack of them. */
typedef struct level {
    const tolk_uop *linear;
    size_t next;
    struct level *below;
} level;

static int enter(level **top, tk_nodes *seen, const tolk_uop *linear) {
    int is_new = 0, code = tk_nodes_add(seen, linear, &is_new);
    if (code || !is_new)
        return code;
    level *l = malloc(sizeof *l);
    if (!l)
        return tk_report_failed("out of memory");
    *l = (level){linear, 0, *top};
    *top = l;
    return TOOL_DONE;
}

int tk_nodes_each_call(const tolk_uop *linear, tk_call_fn fn, void *user) {
    tk_nodes seen = {0};
    level *top = NULL;
    int code = enter(&top, &seen, linear);
    while (top && !code) {
        if (top->next == tolk_uop_n_src(top->linear)) {
            level *done = top;
            top = done->below;
            free(done);
            continue;
        }
        const tolk_uop *call = tolk_uop_src(top->linear, top->next++), *inner = linear_of(call);
        code = inner ? enter(&top, &seen, inner) : fn(user, call);
    }
    while (top) {
        level *below = top->below;
        free(top);
        top = below;
    }
    tk_nodes_free(&seen);
    return code;
}
