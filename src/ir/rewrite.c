/* SPDX-License-Identifier: MIT */
#include "ir/rewrite.h"

#include "ir/walk.h"

enum {
    FEW = 8,            /* sources kept on the stack */
    FIRES = 1 << 17,    /* matches allowed in any graph, and */
    FIRES_PER_NODE = 64 /* for each node that was there */
};
#define ACTIVE UINT32_MAX /* memo: being rewritten; else id + 1 of the result */

static const tolk_uop *no_memory(tolk_graph *g) {
    return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
}

static const tolk_uop *done(const tolk_graph *g, const tk_walk_map *memo, const tolk_uop *u) {
    return g->nodes.at[tk_walk_map_get(memo, u->id) - 1];
}

/* u over the results of its sources. */
static const tolk_uop *rebuild(tolk_graph *g, const tolk_uop *u, const tk_walk_map *memo) {
    uint32_t i = 0;
    while (i < u->n_src && done(g, memo, u->src[i]) == u->src[i])
        i++;
    if (i == u->n_src)
        return u;
    const tolk_uop *few[FEW], **src = few;
    if (u->n_src > FEW) {
        src = tk_alloc(g->al, u->n_src * sizeof *src);
        if (!src)
            return no_memory(g);
    }
    uint32_t n = 0;
    for (i = 0; i < u->n_src; i++) {
        const tolk_uop *s = done(g, memo, u->src[i]);
        /* A loop around that is no loop any more is none around a RANGE. */
        if (i == 0 || !tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(s, TK_OP_RANGE))
            src[n++] = s;
    }
    const tolk_uop *v = tk_uop_with_src(g, u, src, n);
    if (src != few)
        tk_alloc_free(g->al, src, u->n_src * sizeof *src);
    return v;
}

/* ---- once ---- */

static const tolk_uop *rewrite_once(tolk_graph *g, const tolk_uop *root, tk_rewrite_fn fn,
                                    void *user) {
    tk_walk_list nodes;
    tk_walk_map memo;
    tk_vec_init(&nodes, g->al);
    tk_walk_map_init(&memo, g->al);
    const tolk_uop *last = NULL;
    if (tk_walk(root, &nodes) != TOLK_OK)
        (void)no_memory(g);
    for (size_t i = 0; i < nodes.n && !tk_graph_failed(g); i++) {
        last = rebuild(g, nodes.at[i], &memo);
        const tolk_uop *w = last ? fn(g, last, user) : NULL;
        if (w)
            last = w;
        if (last && !tk_walk_map_put(&memo, nodes.at[i]->id, last->id + 1))
            (void)no_memory(g);
    }
    tk_walk_map_fini(&memo);
    tk_vec_fini(&nodes);
    return tk_graph_failed(g) ? NULL : last;
}

typedef struct pairs {
    tk_walk_map to; /* id + 1 of what replaces a node */
} pairs;

static bool not_replaced(const tolk_uop *u, void *user) {
    return !tk_walk_map_get(&((pairs *)user)->to, u->id);
}

const tolk_uop *tk_rewrite_substitute(tolk_graph *g, const tolk_uop *root,
                                      const tolk_uop *const *from, const tolk_uop *const *to,
                                      size_t n) {
    if (!root || tk_graph_failed(g))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!to[i])
            return no_memory(g);
    pairs p;
    tk_walk_list nodes;
    tk_walk_map memo;
    tk_walk_map_init(&p.to, g->al);
    tk_walk_map_init(&memo, g->al);
    tk_vec_init(&nodes, g->al);
    const tolk_uop *last = NULL;
    for (size_t i = 0; i < n; i++)
        if (!tk_walk_map_put(&p.to, from[i]->id, to[i]->id + 1))
            (void)no_memory(g);
    if (!tk_graph_failed(g) && tk_walk_gated(root, not_replaced, &p, &nodes) != TOLK_OK)
        (void)no_memory(g);
    for (size_t i = 0; i < nodes.n && !tk_graph_failed(g); i++) {
        uint32_t with = tk_walk_map_get(&p.to, nodes.at[i]->id);
        last = with ? g->nodes.at[with - 1] : rebuild(g, nodes.at[i], &memo);
        if (last && !tk_walk_map_put(&memo, nodes.at[i]->id, last->id + 1))
            (void)no_memory(g);
    }
    tk_vec_fini(&nodes);
    tk_walk_map_fini(&memo);
    tk_walk_map_fini(&p.to);
    return tk_graph_failed(g) ? NULL : last;
}

/* ---- to the fixpoint ---- */

/* A node on its way: first its sources (next < n_src), then v = u over their results is matched; a
 * match w is pushed, and when w has its result, that is the result of u and v, too. */
typedef struct frame {
    const tolk_uop *u, *v, *w;
    uint32_t next;
} frame;

typedef struct state {
    tolk_graph *g;
    tk_walk_map memo;
    TK_VEC(frame) stack;
    tk_rewrite_fn fn;
    void *user;
    uint64_t fires, fires_max;
    uint32_t final_below; /* ids that are not looked at */
} state;

static void cycle(state *s, const tolk_uop *u) {
    tk_graph_fail(s->g, TOLK_E_INTERNAL, "rewrite cycle at %s: a rule undoes another one",
                  tk_op_get(tk_uop_op(u))->name);
}

static bool put(state *s, const tolk_uop *u, uint32_t value) {
    if (tk_walk_map_put(&s->memo, u->id, value))
        return true;
    (void)no_memory(s->g);
    return false;
}

/* Begin u if it has no result. True: it has one. */
static bool begin(state *s, const tolk_uop *u, bool is_root) {
    uint32_t m = tk_walk_map_get(&s->memo, u->id);
    if (m == ACTIVE) {
        cycle(s, u);
        return false;
    }
    if (m)
        return true;
    if (u->id < s->final_below && !is_root)
        return put(s, u, u->id + 1);
    if (put(s, u, ACTIVE) && !tk_vec_push(&s->stack, ((frame){.u = u})))
        (void)no_memory(s->g);
    return false;
}

static void finish(state *s, const tolk_uop *result) {
    frame f = tk_vec_pop(&s->stack);
    (void)(put(s, f.u, result->id + 1) && put(s, f.v, result->id + 1) &&
           put(s, result, result->id + 1));
}

/* All sources have results: match. */
static void match(state *s) {
    frame *f = &tk_vec_last(&s->stack);
    const tolk_uop *v = rebuild(s->g, f->u, &s->memo);
    if (!v)
        return;
    f->v = v;
    if (v != f->u) {
        uint32_t m = tk_walk_map_get(&s->memo, v->id);
        if (m == ACTIVE) {
            cycle(s, v);
            return;
        }
        if (m) {
            finish(s, done(s->g, &s->memo, v));
            return;
        }
        if (v->id < s->final_below) {
            finish(s, v);
            return;
        }
        if (!put(s, v, ACTIVE))
            return;
    }
    const tolk_uop *w = s->fn(s->g, v, s->user);
    if (tk_graph_failed(s->g))
        return;
    if (!w || w == v) {
        finish(s, v);
        return;
    }
    if (++s->fires > s->fires_max) {
        tk_graph_fail(s->g, TOLK_E_INTERNAL, "rewriting does not end (at %s)",
                      tk_op_get(tk_uop_op(v))->name);
        return;
    }
    f->w = w;
    (void)begin(s, w, false); /* with a result: taken at the next look at this frame */
}

const tolk_uop *tk_rewrite(tolk_graph *g, const tolk_uop *root, tk_rewrite_fn fn, void *user,
                           unsigned flags) {
    if (!root || tk_graph_failed(g))
        return NULL;
    if (flags & TK_REWRITE_ONCE)
        return rewrite_once(g, root, fn, user);
    state s = {.g = g,
               .fn = fn,
               .user = user,
               .fires_max = FIRES + (uint64_t)FIRES_PER_NODE * g->nodes.n,
               .final_below = flags & TK_REWRITE_NEW ? (uint32_t)g->nodes.n : 0};
    tk_walk_map_init(&s.memo, g->al);
    tk_vec_init(&s.stack, g->al);
    (void)begin(&s, root, true);
    while (s.stack.n && !tk_graph_failed(g)) {
        frame *f = &tk_vec_last(&s.stack);
        if (f->w)
            finish(&s, done(g, &s.memo, f->w));
        else if (f->next == f->u->n_src)
            match(&s);
        else if (begin(&s, f->u->src[f->next], false))
            tk_vec_last(&s.stack).next++;
    }
    const tolk_uop *result = tk_graph_failed(g) ? NULL : done(g, &s.memo, root);
    tk_vec_fini(&s.stack);
    tk_walk_map_fini(&s.memo);
    return result;
}
