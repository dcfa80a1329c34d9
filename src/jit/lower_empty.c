/* SPDX-License-Identifier: MIT
 *
 * Loops that may have no iteration. The walk of pass_lower puts an access into the innermost loop
 * that it depends on. One that depends on none of the loops around what needs it (its index was
 * simplified: the loop runs once at most, say) would happen although nothing needs it, and outside
 * of its buffer. Here such an access gets a gate: that one of the ways from the root down to it
 * passes only through loops that run.
 *
 * Global ranges that go into the flattened range count as running: their loop stands around all
 * that belongs to them. Loads that are proved to be inside their buffer are left as they are.
 */
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/rewrite.h"

typedef struct emptiness {
    tolk_graph *g;
    const tk_target *target;
    tk_kview v;
    bool pieces;          /* pass_group took reductions apart */
    bool *flattened;      /* by id: an END whose leading ranges go into the flattened range */
    const tolk_uop **way; /* by id: when a node needs the access at hand; NULL: never */
    const tolk_uop *yes;
} emptiness;

static bool may_be_empty(const tolk_uop *range) {
    tk_bound b = tk_bounds(range->src[0]);
    return b.state != 1 || b.lo <= 0;
}

/* a or b; NULL is false. */
static const tolk_uop *either(const emptiness *e, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b || a == b)
        return a ? a : b;
    return a == e->yes || b == e->yes ? e->yes : tk_uop2(e->g, TK_OP_OR, a, b);
}
static const tolk_uop *both(const emptiness *e, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b || b == e->yes || a == b)
        return b ? a : NULL;
    return a == e->yes ? b : tk_uop2(e->g, TK_OP_AND, a, b);
}

/* Does the range run, seen from the place of the access? Where its size depends on loops that the
 * access is not in: does it run in any of their iterations? */
static const tolk_uop *runs(emptiness *e, const tolk_uop *range, const tolk_uop *access) {
    const tolk_uop *size = range->src[0];
    tk_uops from, to, src;
    tk_vec_init(&from, e->v.al);
    tk_vec_init(&to, e->v.al);
    tk_vec_init(&src, e->v.al);
    bool ok = tk_vec_push(&src, size);
    /* Ranges in the order of their ids: those that others' sizes depend on come first. */
    for (size_t i = 0; i < e->v.ranges.n && ok; i++) {
        const tolk_uop *r = e->v.ranges.at[i];
        if (!tk_kview_depends(&e->v, size, r) || tk_kview_depends(&e->v, access, r))
            continue;
        const tolk_uop *n = tk_kview_substitute(&e->v, r->src[0], from.at, to.at, from.n);
        /* Far from other axis numbers, and the same one whenever it is asked for. */
        int64_t axis = 3000000 + tk_uop_int(r, TK_A_RANGE_AXIS) * 16 + (int64_t)tk_kview_axis(r);
        tk_attr attrs[4] = {{.i = axis}, r->attr[1], {.i = TK_AXIS_LOOP}, {.i = 0}};
        const tolk_uop *fresh = n ? tk_uop(e->g, TK_OP_RANGE, TOLK_INDEX, &n, 1, attrs) : NULL;
        ok = fresh && tk_vec_push(&from, r) && tk_vec_push(&to, fresh) && tk_vec_push(&src, fresh);
    }
    if (ok && from.n) {
        src.at[0] = tk_kview_substitute(&e->v, size, from.at, to.at, from.n);
        tk_attr attrs[2] = {{.i = TK_ROP_MAX}, {.i = 0}};
        size = src.at[0] ? tk_uop(e->g, TK_OP_REDUCE, TOLK_INDEX, src.at, src.n, attrs) : NULL;
    }
    tk_vec_fini(&from);
    tk_vec_fini(&to);
    tk_vec_fini(&src);
    return ok && size ? tk_uop2(e->g, TK_OP_CMPLT, tk_uop_index_const(e->g, 0), size) : NULL;
}

/* When does u need its source i: all loops of u before it run. NULL only on failure. */
static const tolk_uop *when(emptiness *e, const tolk_uop *u, uint32_t i, const tolk_uop *access) {
    uint32_t first = tk_kview_closes(u), end = i == 0 ? u->n_src : i;
    const tolk_uop *w = e->yes;
    if (e->flattened[u->id])
        first += tk_lower_flattened(&e->v, u, e->target);
    for (uint32_t k = first; k < end && w; k++) {
        const tolk_uop *r = u->src[k];
        if (tk_uop_is(r, TK_OP_RANGE) && may_be_empty(r) && !tk_kview_depends(&e->v, access, r)) {
            const tolk_uop *c = runs(e, r, access);
            w = c ? both(e, w, c) : NULL;
        }
    }
    return w;
}

/* Is source i of u the pieces of a reduction, which the sink names beside what waits for them? They
 * are needed where their results are. */
static bool is_pieces(const emptiness *e, const tolk_uop *u, uint32_t i) {
    const tolk_uop *end = u->src[i], *store = end->n_src ? end->src[0] : NULL;
    if (!e->pieces || u != e->v.root || !tk_uop_is(end, TK_OP_END) ||
        !tk_uop_is(store, TK_OP_STORE))
        return false;
    const tolk_uop *buffer = tk_access_buffer(store->src[0]);
    return tk_uop_is(buffer, TK_OP_BUFFER) &&
           tk_uop_int(buffer, TK_A_BUFFER_SPACE) == TK_SPACE_LOCAL;
}

/* Condition under which the root needs the access: e->yes, or an expression. NULL on failure. */
static const tolk_uop *needed(emptiness *e, const tolk_uop *access) {
    for (size_t k = 0; k < e->v.order.n; k++) {
        const tolk_uop *u = e->v.order.at[k], *way = u == access ? e->yes : NULL;
        for (uint32_t i = 0; i < u->n_src && u->id > access->id && way != e->yes; i++) {
            const tolk_uop *below = e->way[u->src[i]->id];
            if (!below || is_pieces(e, u, i))
                continue;
            const tolk_uop *w = when(e, u, i, access);
            if (!w || !(way = either(e, way, both(e, below, w))))
                return NULL;
        }
        e->way[u->id] = way;
    }
    return e->way[e->v.root->id];
}

static bool has_term(const tolk_uop *gate, const tolk_uop *term) {
    while (gate != term) {
        if (!tk_uop_is(gate, TK_OP_AND))
            return false;
        if (gate->src[1] == term)
            return true;
        gate = gate->src[0];
    }
    return true;
}

/* Memory that others see, by an access that could be outside of it or change it? */
static bool escapes(const tolk_uop *u) {
    bool store = tk_uop_is(u, TK_OP_STORE) || tk_uop_is(u, TK_OP_ATOMIC_ADD);
    bool load = tk_uop_is(u, TK_OP_LOAD);
    return (store || (load && !tk_uop_int(u, TK_A_LOAD_INBOUNDS))) &&
           tk_kview_is_global(tk_access_buffer(u->src[0]));
}

static const tolk_uop *gated(tolk_graph *g, const tolk_uop *u, const tolk_uop *by) {
    const tolk_uop *second = u->n_src > 1 ? u->src[1] : tk_uop_const(g, u->dtype, 0);
    const tolk_uop *gate = u->n_src == 3 ? tk_uop2(g, TK_OP_AND, u->src[2], by) : by;
    return second && gate ? tk_uop(g, tk_uop_op(u), u->dtype,
                                   (const tolk_uop *[]){u->src[0], second, gate}, 3, u->attr)
                          : NULL;
}

/* Is there a loop that may be empty and that the access is not in? */
static bool may_be_unneeded(const tk_kview *v, const tolk_uop *access) {
    for (size_t r = 0; r < v->ranges.n; r++)
        if (may_be_empty(v->ranges.at[r]) && !tk_kview_depends(v, access, v->ranges.at[r]))
            return true;
    return false;
}

static bool find_flattened(emptiness *e) {
    tk_uops effects;
    tk_vec_init(&effects, e->v.al);
    bool ok = tk_lower_effects(e->v.root, &effects);
    for (size_t i = 0; i < effects.n; i++)
        e->flattened[effects.at[i]->id] = tk_uop_is(effects.at[i], TK_OP_END);
    tk_vec_fini(&effects);
    return ok;
}

/* Gate the first access that needs it. Returns the new root, root itself if there is none. */
static const tolk_uop *one_access(tk_pass *p, const tolk_uop *root, bool flattened) {
    emptiness e = {.g = p->g,
                   .target = p->target,
                   .pieces = p->pieces > 0,
                   .yes = tk_uop_const(p->g, TOLK_BOOL, 1)};
    if (!e.yes || !tk_kview_init(&e.v, root))
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    const tk_kview *v = &e.v;
    e.flattened = tk_alloc_zero(v->al, v->n_ids * sizeof *e.flattened);
    e.way = tk_alloc(v->al, v->n_ids * sizeof *e.way);
    bool ok = e.flattened && e.way && (!flattened || find_flattened(&e));
    const tolk_uop *to = NULL, *u = NULL;
    for (size_t k = 0; k < v->order.n && ok && !to; k++) {
        u = v->order.at[k];
        if (!escapes(u) || !may_be_unneeded(v, u))
            continue;
        const tolk_uop *by = needed(&e, u);
        ok = by != NULL;
        if (ok && by != e.yes && !(u->n_src == 3 && has_term(u->src[2], by)))
            ok = (to = gated(p->g, u, by)) != NULL;
    }
    tk_alloc_free(v->al, e.flattened, v->n_ids * sizeof *e.flattened);
    tk_alloc_free(v->al, e.way, v->n_ids * sizeof *e.way);
    tk_kview_fini(&e.v);
    if (!ok)
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    return to ? tk_rewrite_substitute(p->g, root, &u, &to, 1) : root;
}

const tolk_uop *tk_lower_empty(tk_pass *p, const tolk_uop *root, bool flattened) {
    for (;;) {
        const tolk_uop *next = one_access(p, root, flattened);
        if (!next || next == root)
            return next;
        root = next;
    }
}
