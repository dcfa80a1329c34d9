/* SPDX-License-Identifier: MIT */
#include "schedule/memory_plan.h"

#include "base/arena.h"
#include "base/env.h"
#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/params.h"
#include "ir/rewrite.h"
#include "ir/shape.h"
#include "schedule/call_args.h"
#include "schedule/tlsf.h"

#include <stdlib.h>

enum { PARTS = 32 /* of the allocator's classes */ };

/* What a call does with an argument. */
typedef enum use { READS = 1, WRITES = 2, COPIES = 4 } use;

/* A BUFFER of global space. */
typedef struct item {
    const tolk_uop *node;
    size_t first, last; /* calls that reach it */
    bool is_fixed;      /* stays as it is, for whatever reason */
    bool is_view;       /* a SLICE call binds it */
    bool is_seen;       /* a view: what it stands for is fixed */
    bool is_written, is_copied;
    bool is_behind;   /* some view stands for a part of it */
    uint32_t edge;    /* of its views: index + 1 of the latest one */
    uint32_t stamp;   /* of the latest touch */
    uint32_t epoch;   /* when `settled` was true */
    unsigned settled; /* uses that change nothing here or behind it any more */
    uint32_t lane;
    uint32_t next; /* index + 1: which is freed at the same time */
    int64_t elems;
    uint64_t bytes, offset;
} item;

/* `view` stands for a part of `of`. */
typedef struct edge {
    uint32_t view, of;
    uint32_t next; /* index + 1: another one of the same view */
} edge;

typedef struct lane {
    const tk_blob *device;
    bool is_copied;
    tk_tlsf *tlsf;
    uint64_t peak;
    const tolk_uop *arena;
} lane;

/* What a kernel does with its buffers, in the order of their slots. */
typedef struct access {
    size_t n;
    uint8_t *use;
} access;

typedef struct plan {
    tolk_graph *g;
    const tolk_allocator *al;
    tk_arena scratch;
    tolk_error *err;
    TK_VEC(item) items; /* in the order in which they appear */
    TK_VEC(edge) edges;
    TK_VEC(lane) lanes;
    tk_walk_map item_of;   /* node -> index + 1 */
    tk_walk_map access_of; /* body -> index + 1 */
    TK_VEC(access) accesses;
    TK_VEC(uint32_t) seen; /* by node: the latest look that met it */
    uint32_t look;
    tk_walk_list stack;
    TK_VEC(uint32_t) found; /* items below an argument */
    tk_walk_map behind;     /* what is one buffer, or a part of it -> its id + 1 */
    uint32_t epoch;         /* counts views of what others are views of */
} plan;

static tolk_status no_memory(const plan *p) {
    return tk_status_nomem(p->err);
}

void tk_memory_plan_own_init(tk_memory_plan_own *own, const tolk_allocator *al) {
    tk_vec_init(&own->arenas, al);
    tk_vec_init(&own->views, al);
}

void tk_memory_plan_own_fini(tk_memory_plan_own *own) {
    tk_vec_fini(&own->views);
    tk_vec_fini(&own->arenas);
}

/* ---- buffers ---- */

/* Most elements that a BUFFER can have; false if it has none, or nothing bounds them. */
static bool most_elems(const tolk_uop *u, int64_t *elems) {
    const tk_shape *shape;
    if (tk_shape_get(u, &shape, NULL, NULL) != TOLK_OK)
        return false;
    int64_t bytes = (int64_t)tolk_dtype_bytes(u->dtype);
    *elems = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        tk_bound b = tk_bounds(shape->dim[i]);
        if (b.state != 1 || b.hi <= 0 || !tk_check_mul(&bytes, b.hi) || !tk_check_mul(elems, b.hi))
            return false;
    }
    return bytes > 0 && bytes >> 60 == 0;
}

static tolk_status item_at(plan *p, const tolk_uop *u, size_t call, uint32_t *out) {
    uint32_t at = tk_walk_map_get(&p->item_of, u->id);
    if (at) {
        *out = at - 1;
        return TOLK_OK;
    }
    item it = {.node = u, .first = call, .last = call};
    it.is_fixed = !most_elems(u, &it.elems);
    it.bytes = it.is_fixed ? 0 : (uint64_t)it.elems * tolk_dtype_bytes(u->dtype);
    if (p->items.n >= UINT32_MAX - 1 || !tk_vec_push(&p->items, it) ||
        !tk_walk_map_put(&p->item_of, u->id, (uint32_t)p->items.n))
        return no_memory(p);
    *out = (uint32_t)p->items.n - 1;
    return TOLK_OK;
}

static bool is_memory(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL;
}

static bool is_part(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_MSELECT) || (tk_uop_is(u, TK_OP_SLICE) && tk_uop_is_const(u->src[1]));
}

/* Through parts of parts, at once for what was looked at before. */
static tolk_status skip_parts(plan *p, const tolk_uop **u) {
    const tolk_uop *at = *u;
    uint32_t known = 0;
    while (is_part(at) && !(known = tk_walk_map_get(&p->behind, at->id)))
        at = at->src[0];
    if (known)
        at = p->g->nodes.at[known - 1];
    for (const tolk_uop *v = *u; v != at && !tk_walk_map_get(&p->behind, v->id); v = v->src[0])
        if (!tk_walk_map_put(&p->behind, v->id, at->id + 1))
            return no_memory(p);
    *u = at;
    return TOLK_OK;
}

/* The items below an argument to p->found, left to right. */
static tolk_status find_items(plan *p, const tolk_uop *arg, size_t call) {
    p->found.n = p->stack.n = 0;
    if (++p->look == UINT32_MAX || !tk_vec_resize(&p->seen, p->g->nodes.n) ||
        !tk_vec_push(&p->stack, arg))
        return no_memory(p);
    while (p->stack.n) {
        const tolk_uop *u = tk_vec_pop(&p->stack);
        TK_TRY(skip_parts(p, &u));
        if (p->seen.at[u->id] == p->look)
            continue;
        p->seen.at[u->id] = p->look;
        if (is_memory(u)) {
            uint32_t i = 0;
            TK_TRY(item_at(p, u, call, &i));
            if (!tk_vec_push(&p->found, i))
                return no_memory(p);
            continue;
        }
        for (uint32_t i = u->n_src; i-- > 0;)
            if (!tk_vec_push(&p->stack, u->src[i]))
                return no_memory(p);
    }
    return TOLK_OK;
}

/* A call uses all of p->found, and what these are views of. That it does so latest is told to what
 * is behind views in the end. */
static tolk_status touch_found(plan *p, size_t call, unsigned how) {
    size_t direct = p->found.n;
    for (size_t k = 0; k < p->found.n; k++) {
        item *it = &p->items.at[p->found.at[k]];
        if (k < direct)
            it->last = call;
        if (it->epoch != p->epoch)
            it->settled = 0;
        it->epoch = p->epoch;
        if (it->stamp == p->look || (it->settled & how) == how)
            continue;
        it->stamp = p->look;
        it->settled |= how;
        it->is_copied |= (how & COPIES) != 0;
        it->is_fixed |= (how & READS) && !it->is_written;
        it->is_written |= (how & WRITES) != 0;
        for (uint32_t e = it->edge; e; e = p->edges.at[e - 1].next)
            if (!tk_vec_push(&p->found, p->edges.at[e - 1].of))
                return no_memory(p);
    }
    return TOLK_OK;
}

static tolk_status touch(plan *p, const tolk_uop *arg, size_t call, unsigned how) {
    TK_TRY(find_items(p, arg, call));
    return touch_found(p, call, how);
}

/* ---- calls ---- */

/* What a kernel does with its params. */
static tolk_status access_of(plan *p, const tolk_uop *body, const access **out) {
    uint32_t at = tk_walk_map_get(&p->access_of, body->id);
    if (!at) {
        const tolk_uop *kernel = tk_uop_is(body, TK_OP_PROGRAM) ? body->src[0] : body;
        access a = {0};
        tk_params params;
        TK_TRY(tk_params_init(&params, kernel, p->al, p->err));
        a.n = params.n_bufs;
        a.use = a.n ? tk_arena_zero(&p->scratch, a.n) : NULL;
        for (uint32_t i = 0; a.use && i < a.n; i++) {
            const tk_param *x = tk_params_buf(&params, i);
            a.use[i] = (uint8_t)((x->loaded ? READS : 0) | (x->stored ? WRITES : 0));
        }
        tk_params_fini(&params);
        if ((a.n && !a.use) || !tk_vec_push(&p->accesses, a) ||
            !tk_walk_map_put(&p->access_of, body->id, (uint32_t)p->accesses.n))
            return no_memory(p);
        at = (uint32_t)p->accesses.n;
    }
    *out = &p->accesses.at[at - 1];
    return TOLK_OK;
}

/* Uses of the view are ones of what is behind it from now on. */
static tolk_status add_edge(plan *p, uint32_t view, uint32_t of) {
    item *v = &p->items.at[view];
    edge e = {view, of, v->edge};
    if (!tk_vec_push(&p->edges, e))
        return no_memory(p);
    v->edge = (uint32_t)p->edges.n;
    v->settled = 0;
    p->epoch += v->is_behind;
    p->items.at[of].is_behind = true;
    return TOLK_OK;
}

/* A SLICE call: from now on its first argument stands for a part of the second one. */
static tolk_status bind_view(plan *p, const tolk_uop *u, size_t call) {
    if (u->n_src < 2)
        return TOLK_OK;
    bool seen_outside = !is_memory(u->src[1]);
    TK_TRY(touch(p, u->src[1], call, 0));
    uint32_t view = 0;
    if (!seen_outside) {
        view = tk_walk_map_get(&p->item_of, u->src[1]->id) - 1;
        p->items.at[view].is_view = p->items.at[view].is_written = true;
    }
    for (uint32_t i = 2; i < u->n_src; i++) {
        TK_TRY(find_items(p, u->src[i], call));
        size_t n = p->found.n;
        TK_TRY(touch_found(p, call, 0));
        for (size_t k = 0; k < n; k++) {
            uint32_t of = p->found.at[k];
            p->items.at[of].is_fixed |= seen_outside;
            if (!seen_outside && of != view)
                TK_TRY(add_edge(p, view, of));
        }
    }
    return TOLK_OK;
}

static bool holds_calls(const tolk_uop *body) {
    return tk_uop_is(body, TK_OP_LINEAR) ||
           (tk_uop_is(body, TK_OP_CUSTOM_FUNCTION) && body->n_src == 1 &&
            tk_uop_is(body->src[0], TK_OP_LINEAR));
}

/* The arguments of one call, but not what calls it may hold do. */
static tolk_status plain_call(plan *p, const tolk_uop *u, size_t call) {
    const tolk_uop *body = u->src[0];
    const access *a = NULL;
    bool copies = tk_uop_is(body, TK_OP_COPY);
    if (tk_uop_is(body, TK_OP_SINK) || tk_uop_is(body, TK_OP_PROGRAM))
        TK_TRY(access_of(p, body, &a));
    else if (!holds_calls(body)) /* those are looked at themselves */
        TK_TRY(touch(p, body, call, copies ? COPIES : 0));
    if (tk_uop_is(body, TK_OP_SLICE))
        return bind_view(p, u, call);
    for (uint32_t pass = 0; pass < 2; pass++) { /* all is read before anything is written */
        unsigned mask = pass ? (unsigned)WRITES : ~(unsigned)WRITES;
        for (uint32_t i = 1, buffer = 0; i < u->n_src; i++) {
            const tolk_uop *x = u->src[i];
            if (tk_check_is_value(x))
                continue;
            unsigned how = copies               ? (unsigned)COPIES | (buffer ? READS : WRITES)
                           : a && buffer < a->n ? a->use[buffer]
                                                : 0;
            TK_TRY(touch(p, x, call, how & mask));
            buffer++;
        }
    }
    return TOLK_OK;
}

static bool not_a_kernel(const tolk_uop *u, void *user) {
    (void)user;
    return !tk_uop_is(u, TK_OP_SINK) && !tk_uop_is(u, TK_OP_PROGRAM) && !tk_uop_is(u, TK_OP_BUFFER);
}

/* One call of the linear, and those in its body if it is a graph of others. */
static tolk_status scan_call(plan *p, const tolk_uop *u, size_t call) {
    if (!tk_uop_is(u, TK_OP_CALL))
        return touch(p, u, call, 0);
    if (!tk_uop_is(u->src[0], TK_OP_CUSTOM_FUNCTION) && !tk_uop_is(u->src[0], TK_OP_LINEAR))
        return plain_call(p, u, call);
    tk_walk_list inner;
    tk_vec_init(&inner, p->al);
    tolk_status st = tk_walk_gated(u->src[0], not_a_kernel, NULL, &inner);
    if (st != TOLK_OK)
        st = no_memory(p);
    for (size_t i = 0; i < inner.n && st == TOLK_OK; i++)
        if (tk_uop_is(inner.at[i], TK_OP_CALL))
            st = plain_call(p, inner.at[i], call);
    tk_vec_fini(&inner);
    for (uint32_t i = 1; i < u->n_src && st == TOLK_OK; i++)
        st = touch(p, u->src[i], call, 0);
    return st;
}

/* What is behind a view that somebody sees stays, too. */
static tolk_status fix_behind_views(plan *p) {
    p->found.n = 0;
    for (size_t i = 0; i < p->items.n; i++)
        if (p->items.at[i].is_fixed && p->items.at[i].edge && !tk_vec_push(&p->found, (uint32_t)i))
            return no_memory(p);
    while (p->found.n)
        for (uint32_t e = p->items.at[tk_vec_pop(&p->found)].edge; e; e = p->edges.at[e - 1].next) {
            item *of = &p->items.at[p->edges.at[e - 1].of];
            if (of->is_fixed)
                continue;
            of->is_fixed = true;
            if (of->edge && !tk_vec_push(&p->found, p->edges.at[e - 1].of))
                return no_memory(p);
        }
    return TOLK_OK;
}

static int by_last(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    return (x->last < y->last) - (x->last > y->last);
}

/* What is behind a view is in use as long as the view is: those used latest tell it first, so that
 * each is told once. */
static tolk_status last_behind_views(plan *p) {
    size_t n = p->edges.n ? p->items.n : 0;
    item **order = n ? tk_arena_alloc(&p->scratch, n * sizeof *order) : NULL;
    if ((n && !order) || ++p->look == UINT32_MAX)
        return no_memory(p);
    for (size_t i = 0; i < n; i++)
        order[i] = &p->items.at[i];
    if (n)
        qsort(order, n, sizeof(item *), by_last);
    for (size_t i = 0; i < n; i++) {
        size_t last = order[i]->last;
        p->found.n = 0;
        if (!tk_vec_push(&p->found, (uint32_t)(order[i] - p->items.at)))
            return no_memory(p);
        while (p->found.n) {
            item *it = &p->items.at[tk_vec_pop(&p->found)];
            if (it->stamp == p->look)
                continue;
            it->stamp = p->look;
            it->last = last;
            for (uint32_t e = it->edge; e; e = p->edges.at[e - 1].next)
                if (!tk_vec_push(&p->found, p->edges.at[e - 1].of))
                    return no_memory(p);
        }
    }
    return TOLK_OK;
}

static tolk_status scan(plan *p, const tolk_uop *linear, const tolk_uop *const *held,
                        size_t n_held) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        TK_TRY(scan_call(p, linear->src[i], i));
    size_t n = p->items.n;
    for (size_t i = 0; i < n_held; i++) {
        TK_TRY(find_items(p, held[i], 0));
        for (size_t k = 0; k < p->found.n; k++)
            p->items.at[p->found.at[k]].is_fixed = true;
    }
    for (size_t i = n; i < p->items.n; i++)
        p->items.at[i].is_fixed = true; /* of held nodes that no call reaches */
    TK_TRY(fix_behind_views(p));
    TK_TRY(last_behind_views(p));
    for (size_t i = 0; i < n; i++) {
        p->items.at[i].is_seen = p->items.at[i].is_fixed;
        p->items.at[i].is_fixed |= p->items.at[i].is_view;
    }
    return TOLK_OK;
}

/* ---- offsets ---- */

static tolk_status lane_of(plan *p, const item *it, uint64_t capacity, uint32_t *out) {
    const tk_blob *device = tk_uop_attr(it->node, TK_A_BUFFER_DEVICE).blob;
    for (size_t i = 0; i < p->lanes.n; i++)
        if (p->lanes.at[i].device == device && p->lanes.at[i].is_copied == it->is_copied) {
            *out = (uint32_t)i;
            return TOLK_OK;
        }
    lane l = {.device = device, .is_copied = it->is_copied};
    l.tlsf = tk_alloc(p->al, sizeof *l.tlsf);
    if (!l.tlsf)
        return no_memory(p);
    tolk_status st = tk_tlsf_init(l.tlsf, p->al, capacity, 0, TK_MEMORY_PLAN_GRANULE, PARTS);
    if (st != TOLK_OK || !tk_vec_push(&p->lanes, l)) {
        tk_tlsf_fini(l.tlsf);
        tk_alloc_free(p->al, l.tlsf, sizeof *l.tlsf);
        return no_memory(p);
    }
    *out = (uint32_t)p->lanes.n - 1;
    return TOLK_OK;
}

static uint64_t rounded(uint64_t bytes) {
    return (bytes + TK_MEMORY_PLAN_GRANULE - 1) & ~(uint64_t)(TK_MEMORY_PLAN_GRANULE - 1);
}

/* The first call at which the item's memory may be another's. */
static size_t end_of(const item *it) {
    return it->last + 1 + (it->is_copied ? it->last - it->first + 1 : 0);
}

static tolk_status open_item(plan *p, item *it, uint64_t capacity) {
    TK_TRY(lane_of(p, it, capacity, &it->lane));
    lane *l = &p->lanes.at[it->lane];
    if (tk_tlsf_alloc(l->tlsf, rounded(it->bytes), 1, &it->offset) != TOLK_OK)
        return no_memory(p); /* there are twice as many addresses as bytes */
    if (l->peak < it->offset + it->bytes)
        l->peak = it->offset + it->bytes;
    return TOLK_OK;
}

/* Items come in the order of their first calls, so that only the ends need a table by time. */
static tolk_status place_items(plan *p, size_t n_calls, bool *any) {
    uint64_t capacity = 0;
    *any = false;
    for (size_t i = 0; i < p->items.n; i++)
        if (!p->items.at[i].is_fixed) {
            *any = true;
            if (__builtin_add_overflow(capacity, 2 * rounded(p->items.at[i].bytes), &capacity) ||
                capacity >> 62)
                return tk_status_fail(p->err, TOLK_E_LIMIT, TK_NO_NODE,
                                      "the buffers between calls have more than 2^61 bytes");
        }
    if (!*any)
        return TOLK_OK;
    size_t n_times = 2 * n_calls + 2;
    uint32_t *ends = tk_arena_zero(&p->scratch, n_times * sizeof *ends);
    if (!ends)
        return no_memory(p);
    for (size_t i = p->items.n; i-- > 0;) {
        item *it = &p->items.at[i];
        if (it->is_fixed)
            continue;
        it->next = ends[end_of(it)];
        ends[end_of(it)] = (uint32_t)i + 1;
    }
    size_t next = 0;
    for (size_t t = 0; t < n_calls; t++) {
        for (uint32_t i = ends[t]; i; i = p->items.at[i - 1].next)
            (void)tk_tlsf_free(p->lanes.at[p->items.at[i - 1].lane].tlsf,
                               p->items.at[i - 1].offset);
        for (; next < p->items.n && p->items.at[next].first == t; next++)
            if (!p->items.at[next].is_fixed)
                TK_TRY(open_item(p, &p->items.at[next], capacity));
    }
    return TOLK_OK;
}

/* ---- the linear over arenas ---- */

int64_t tk_memory_plan_slot(tolk_ctx *ctx) {
    return atomic_fetch_sub_explicit(&ctx->next_slot, 1, memory_order_relaxed) - 1;
}

static tolk_status make_arenas(plan *p, tk_memory_plan_own *own) {
    for (size_t i = 0; i < p->lanes.n; i++) {
        lane *l = &p->lanes.at[i];
        tk_attr attrs[4] = {{.i = tk_memory_plan_slot(p->g->ctx)},
                            {.i = TK_SPACE_GLOBAL},
                            {.i = 0},
                            {.blob = l->device}};
        const tolk_uop *size = tk_uop_index_const(p->g, (int64_t)rounded(l->peak));
        l->arena = size ? tk_uop(p->g, TK_OP_BUFFER, TOLK_I8, &size, 1, attrs) : NULL;
        if (!l->arena)
            return tk_graph_take_error(p->g, p->err);
        if (own && !tk_vec_push(&own->arenas, l->arena))
            return no_memory(p);
    }
    for (size_t i = 0; own && i < p->items.n; i++) {
        const item *it = &p->items.at[i];
        if (it->is_view && !it->is_seen && !tk_vec_push(&own->views, it->node))
            return no_memory(p);
    }
    return TOLK_OK;
}

static const tolk_uop *slice_of(const plan *p, const item *it) {
    const tolk_uop *src[2] = {p->lanes.at[it->lane].arena,
                              tk_uop_index_const(p->g, (int64_t)it->offset)};
    tk_attr count = {.i = it->elems};
    return src[1] ? tk_uop(p->g, TK_OP_SLICE, it->node->dtype, src, 2, &count) : NULL;
}

static tolk_status replace(plan *p, const tolk_uop *linear, const tolk_uop **out) {
    const tolk_uop **from = tk_arena_alloc(&p->scratch, p->items.n * sizeof *from);
    const tolk_uop **to = tk_arena_alloc(&p->scratch, p->items.n * sizeof *to);
    if (!from || !to)
        return no_memory(p);
    size_t n = 0;
    for (size_t i = 0; i < p->items.n; i++) {
        if (p->items.at[i].is_fixed)
            continue;
        from[n] = p->items.at[i].node;
        to[n] = slice_of(p, &p->items.at[i]);
        if (!to[n++])
            return tk_graph_take_error(p->g, p->err);
    }
    const tolk_uop *r = tk_rewrite_substitute(p->g, linear, from, to, n);
    if (!r)
        return tk_graph_take_error(p->g, p->err);
    *out = r;
    return TOLK_OK;
}

tolk_status tk_memory_plan(tolk_graph *g, const tolk_uop *linear, const tolk_uop *const *held,
                           size_t n_held, const tolk_uop **out, tk_memory_plan_own *own,
                           tolk_error *err) {
    if (!tk_uop_is(linear, TK_OP_LINEAR))
        return tk_status_fail(err, TOLK_E_VERIFY, TK_NO_NODE, "expected a linear of calls, got %s",
                              tk_op_get(tk_uop_op(linear))->name);
    if (!tk_env_int(g->ctx, "TOLK_MEMORY_PLAN", 1, 0, 1)) {
        *out = linear;
        return TOLK_OK;
    }
    plan p = {.g = g, .al = g->al, .err = err};
    tk_arena_init(&p.scratch, p.al);
    tk_vec_init(&p.items, p.al);
    tk_vec_init(&p.edges, p.al);
    tk_vec_init(&p.lanes, p.al);
    tk_vec_init(&p.accesses, p.al);
    tk_vec_init(&p.seen, p.al);
    tk_vec_init(&p.stack, p.al);
    tk_vec_init(&p.found, p.al);
    tk_walk_map_init(&p.item_of, p.al);
    tk_walk_map_init(&p.access_of, p.al);
    tk_walk_map_init(&p.behind, p.al);
    bool any = false;
    const tolk_uop *planned = linear;
    tolk_status st = tk_call_args_check(linear, err);
    if (st == TOLK_OK)
        st = scan(&p, linear, held, n_held);
    if (st == TOLK_OK)
        st = place_items(&p, linear->n_src, &any);
    if (st == TOLK_OK && any)
        st = make_arenas(&p, own);
    if (st == TOLK_OK && any)
        st = replace(&p, linear, &planned);
    for (size_t i = 0; i < p.lanes.n; i++) {
        tk_tlsf_fini(p.lanes.at[i].tlsf);
        tk_alloc_free(p.al, p.lanes.at[i].tlsf, sizeof *p.lanes.at[i].tlsf);
    }
    tk_walk_map_fini(&p.behind);
    tk_walk_map_fini(&p.access_of);
    tk_walk_map_fini(&p.item_of);
    tk_vec_fini(&p.found);
    tk_vec_fini(&p.stack);
    tk_vec_fini(&p.seen);
    tk_vec_fini(&p.accesses);
    tk_vec_fini(&p.lanes);
    tk_vec_fini(&p.edges);
    tk_vec_fini(&p.items);
    tk_arena_fini(&p.scratch);
    if (st == TOLK_OK)
        *out = planned;
    return st;
}
