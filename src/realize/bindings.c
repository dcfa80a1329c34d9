/* SPDX-License-Identifier: MIT */
#include "realize/bindings.h"

#include "base/status.h"
#include "ir/check.h"
#include "ir/import.h"
#include "realize/exec.h"
#include "realize/multi.h"
#include "realize/realize.h"

enum { ROOM = 1024 }; /* nodes that a graph may have got for nothing */

void tk_bindings_to_ref(tk_bindings_to to) {
    (void)tolk_buffer_ref(to.one);
    (void)tolk_multi_ref(to.many);
}

void tk_bindings_to_drop(tk_bindings_to *to) {
    tolk_buffer_unref(to->one);
    tolk_multi_unref(to->many);
    *to = (tk_bindings_to){NULL, NULL};
}

/* ---- making and freeing ---- */

tolk_status tolk_bindings_create(tolk_device *device, tolk_bindings **out, tolk_error *err) {
    if (!device || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_bindings_create: device or out is NULL");
    tolk_ctx *ctx = device->ctx;
    tk_realize_here(ctx);
    TK_TRY(tk_device_check(device, err));
    tolk_bindings *b = tk_alloc_zero(&ctx->al, sizeof *b);
    if (!b)
        return tk_status_nomem(err);
    if (tolk_graph_create(ctx, &b->graph) != TOLK_OK) {
        tk_alloc_free(&ctx->al, b, sizeof *b);
        return tk_status_nomem(err);
    }
    b->ctx = ctx;
    b->device = device;
    b->least = tolk_graph_count(b->graph);
    tk_vec_init(&b->list, &ctx->al);
    tk_map_init(&b->place, &ctx->al);
    tk_map_init(&b->of_hash, &ctx->al);
    *out = b;
    return TOLK_OK;
}

static void drop_all(tolk_bindings *b) {
    for (size_t i = 0; i < b->list.n; i++)
        tk_bindings_to_drop(&b->list.at[i].to);
    b->list.n = 0;
}

void tolk_bindings_destroy(tolk_bindings *bindings) {
    if (!bindings)
        return;
    tolk_ctx *ctx = bindings->ctx;
    tk_exec_end(bindings);
    drop_all(bindings);
    tk_vec_fini(&bindings->list);
    tk_map_fini(&bindings->place);
    tk_map_fini(&bindings->of_hash);
    tolk_graph_destroy(bindings->graph);
    tk_alloc_free(&ctx->al, bindings, sizeof *bindings);
}

/* ---- nodes ---- */

tolk_status tk_bindings_node(tolk_bindings *b, const tolk_uop *node, const tolk_uop **out,
                             tolk_error *err) {
    return tk_import(b->graph, node, out, err);
}

/* Copy what is bound into a graph of its own. False: there is no memory, and all is as it was. */
static bool move_nodes(tolk_bindings *b, tolk_graph *g) {
    tk_map place;
    TK_VEC(const tolk_uop *) nodes;
    tk_map_init(&place, &b->ctx->al);
    tk_vec_init(&nodes, &b->ctx->al);
    bool ok = tk_vec_resize(&nodes, b->list.n);
    for (size_t i = 0; ok && i < b->list.n; i++)
        ok = tk_import(g, b->list.at[i].node, &nodes.at[i], NULL) == TOLK_OK &&
             tk_map_put(&place, (uintptr_t)nodes.at[i], i);
    if (ok) {
        for (size_t i = 0; i < b->list.n; i++)
            b->list.at[i].node = nodes.at[i];
        tk_map old = b->place;
        b->place = place;
        place = old;
    }
    tk_map_fini(&place);
    tk_vec_fini(&nodes);
    return ok;
}

void tk_bindings_begin(tolk_bindings *b) {
    tolk_graph *g;
    if (tolk_graph_count(b->graph) / 2 < b->least + ROOM)
        return;
    if (tolk_graph_create(b->ctx, &g) != TOLK_OK)
        return; /* it may grow on */
    if (move_nodes(b, g)) {
        tolk_graph *old = b->graph;
        b->graph = g;
        g = old;
        b->generation++; /* who keeps nodes looks them up again */
    }
    tolk_graph_destroy(g);
    b->least = tolk_graph_count(b->graph);
}

const tk_bindings_to *tk_bindings_of(const tolk_bindings *b, const tolk_uop *node) {
    const uint64_t *i = tk_map_find(&b->place, (uintptr_t)node);
    return i ? &b->list.at[*i].to : NULL;
}

/* The place in the list of what is bound to a node of any graph. Nothing is copied: the graph would
 * grow with all that is asked for. */
static bool find_place(const tolk_bindings *b, const tolk_uop *node, size_t *out) {
    const uint64_t *i = tk_map_find(&b->of_hash, node->hash);
    *out = i ? (size_t)*i : 0;
    if (i && tk_uop_compare(b->list.at[*i].node, node) == 0)
        return true;
    for (*out = 0; b->collides && *out < b->list.n; ++*out)
        if (b->list.at[*out].node->hash == node->hash &&
            tk_uop_compare(b->list.at[*out].node, node) == 0)
            return true;
    return false;
}

/* The latest node of the list to both maps. False: there is no memory, and it is in none. */
static bool put_place(tolk_bindings *b) {
    const tolk_uop *node = tk_vec_last(&b->list).node;
    bool taken = tk_map_find(&b->of_hash, node->hash) != NULL;
    if (!tk_map_put(&b->place, (uintptr_t)node, b->list.n - 1))
        return false;
    if (!taken && !tk_map_put(&b->of_hash, node->hash, b->list.n - 1)) {
        (void)tk_map_remove(&b->place, (uintptr_t)node);
        return false;
    }
    b->collides |= taken;
    return true;
}

static bool is_same(tk_bindings_to a, tk_bindings_to b) {
    return a.one == b.one && a.many == b.many;
}

tolk_status tk_bindings_put(tolk_bindings *b, const tolk_uop *node, tk_bindings_to to, bool made,
                            tolk_error *err) {
    const uint64_t *i = tk_map_find(&b->place, (uintptr_t)node);
    if (i) {
        tk_bindings_to *at = &b->list.at[*i].to, old = *at;
        if (is_same(old, to))
            return TOLK_OK;
        tk_bindings_to_ref(to);
        *at = to;
        b->generation++;
        tk_exec_forget(b);
        tk_bindings_to_drop(&old);
        return TOLK_OK;
    }
    if (!tk_vec_push(&b->list, ((tk_bindings_entry){node, to})))
        return tk_status_nomem(err);
    if (!put_place(b)) {
        b->list.n--;
        return tk_status_nomem(err);
    }
    tk_bindings_to_ref(to);
    if (!made) {
        b->generation++;
        tk_exec_forget(b);
    }
    return TOLK_OK;
}

/* ---- public ---- */

/* May a node stand for memory? */
static bool names_memory(const tolk_uop *node) {
    switch (tk_uop_op(node)) {
    case TK_OP_BUFFER:
    case TK_OP_SLICE:
    case TK_OP_MSELECT:
    case TK_OP_MSTACK:
        return true;
    case TK_OP_PARAM:
        return !tk_check_is_scalar_param(node);
    default:
        return false;
    }
}

static tolk_status check_node(const char *call, const tolk_uop *node, tolk_error *err) {
    if (names_memory(node))
        return TOLK_OK;
    return tk_status_fail(
        err, TOLK_E_ARG, TK_NO_NODE, "%s: the node is %s, expected one that names a buffer", call,
        tk_uop_is(node, TK_OP_PARAM) ? "a variable" : tk_op_get(tk_uop_op(node))->name);
}

static tolk_status seed(const char *call, tolk_bindings *b, const tolk_uop *node, tk_bindings_to to,
                        tolk_ctx *of, tolk_error *err) {
    if (of != b->ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: the buffer is of another context",
                              call);
    TK_TRY(check_node(call, node, err));
    tk_bindings_begin(b);
    const tolk_uop *own;
    TK_TRY(tk_bindings_node(b, node, &own, err));
    return tk_bindings_put(b, own, to, false, err);
}

tolk_status tolk_bindings_seed(tolk_bindings *bindings, const tolk_uop *node, tolk_buffer *buffer,
                               tolk_error *err) {
    static const char call[] = "tolk_bindings_seed";
    tolk_buffer_info info;
    if (!bindings || !node || !buffer)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: an argument is NULL", call);
    TK_TRY(tolk_buffer_get_info(buffer, &info));
    return seed(call, bindings, node, (tk_bindings_to){buffer, NULL}, info.device->ctx, err);
}

tolk_status tolk_bindings_seed_multi(tolk_bindings *bindings, const tolk_uop *node,
                                     tolk_multi *multi, tolk_error *err) {
    static const char call[] = "tolk_bindings_seed_multi";
    if (!bindings || !node || !multi)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: an argument is NULL", call);
    return seed(call, bindings, node, (tk_bindings_to){NULL, multi}, multi->ctx, err);
}

static void remove_at(tolk_bindings *b, size_t i) {
    tk_bindings_entry gone = b->list.at[i];
    size_t last = b->list.n - 1;
    uint64_t *at = tk_map_find(&b->of_hash, gone.node->hash);
    (void)tk_map_remove(&b->place, (uintptr_t)gone.node);
    if (at && *at == i)
        (void)tk_map_remove(&b->of_hash, gone.node->hash);
    b->list.at[i] = tk_vec_pop(&b->list);
    uint64_t *moved = i < last ? tk_map_find(&b->place, (uintptr_t)b->list.at[i].node) : NULL;
    if (moved)
        *moved = i;
    at = i < last ? tk_map_find(&b->of_hash, b->list.at[i].node->hash) : NULL;
    if (at && *at == last)
        *at = i;
    b->generation++;
    tk_exec_forget(b);
    tk_bindings_to_drop(&gone.to);
}

void tolk_bindings_remove(tolk_bindings *bindings, const tolk_uop *node) {
    size_t i;
    if (!bindings || !node)
        return;
    tk_bindings_begin(bindings);
    if (find_place(bindings, node, &i))
        remove_at(bindings, i);
}

static bool has_buffer(tk_bindings_to to, const tolk_buffer *buffer) {
    bool has = to.one == buffer;
    for (size_t i = 0; to.many && i < to.many->n; i++)
        has |= to.many->at[i] == buffer;
    return has;
}

/* Is a buffer a view of what one of the arenas stands for? */
static bool is_part(tolk_bindings *b, const tolk_buffer *buffer, const tk_walk_list *arenas) {
    size_t i;
    tolk_buffer_info info;
    if (tolk_buffer_get_info(buffer, &info) != TOLK_OK || !info.base)
        return false;
    for (size_t k = 0; k < arenas->n; k++)
        if (find_place(b, arenas->at[k], &i) && has_buffer(b->list.at[i].to, info.base))
            return true;
    return false;
}

static bool has_part(tolk_bindings *b, tk_bindings_to to, const tk_walk_list *arenas) {
    bool has = to.one && is_part(b, to.one, arenas);
    for (size_t i = 0; to.many && i < to.many->n && !has; i++)
        has = is_part(b, to.many->at[i], arenas);
    return has;
}

void tk_bindings_remove_own(tolk_bindings *b, const tk_memory_plan_own *own) {
    size_t i;
    tk_bindings_begin(b);
    for (size_t k = 0; k < own->views.n; k++)
        if (find_place(b, own->views.at[k], &i) && has_part(b, b->list.at[i].to, &own->arenas))
            remove_at(b, i);
    for (size_t k = 0; k < own->arenas.n; k++)
        if (find_place(b, own->arenas.at[k], &i))
            remove_at(b, i);
}

tolk_status tolk_bindings_find(const tolk_bindings *bindings, const tolk_uop *node,
                               tolk_buffer **out, tolk_multi **out_multi, tolk_error *err) {
    if (!bindings || !node || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_bindings_find: bindings, node or out is NULL");
    size_t i;
    const tk_bindings_to *to = find_place(bindings, node, &i) ? &bindings->list.at[i].to : NULL;
    if (to && to->many && !out_multi)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "tolk_bindings_find: the node stands for %zu buffers, expected one",
                              to->many->n);
    *out = to ? to->one : NULL;
    if (out_multi)
        *out_multi = to ? to->many : NULL;
    return TOLK_OK;
}

bool tk_bindings_is_bound(const tolk_bindings *b, const tolk_uop *node) {
    size_t i;
    return names_memory(node) && find_place(b, node, &i);
}

void tolk_bindings_iter(const tolk_bindings *bindings,
                        void (*fn)(void *user, const tolk_uop *node, tolk_buffer *buffer,
                                   tolk_multi *multi),
                        void *user) {
    for (size_t i = 0; bindings && fn && i < bindings->list.n; i++) {
        const tk_bindings_entry *e = &bindings->list.at[i];
        fn(user, e->node, e->to.one, e->to.many);
    }
}

void tolk_bindings_clear(tolk_bindings *bindings) {
    if (!bindings)
        return;
    bindings->generation++;
    tk_exec_forget(bindings);
    drop_all(bindings);
    tk_map_fini(&bindings->place);
    tk_map_fini(&bindings->of_hash);
    bindings->collides = false;
    tk_bindings_begin(bindings);
}
