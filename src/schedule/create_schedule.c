/* SPDX-License-Identifier: MIT */
#include "schedule/create_schedule.h"

#include "ir/walk.h"

#define NONE UINT32_MAX

/* A call, and what waits for it. */
typedef struct kernel {
    const tolk_uop *call;
    uint32_t first, last; /* index + 1 of its edges, in the order in which they were made */
    uint32_t before;      /* of the edges to it */
    uint32_t n_waits;     /* edges to it */
    uint32_t place;       /* in the order by what is read alone */
    uint32_t stamp;
} kernel;

/* `to` waits for `from`. */
typedef struct edge {
    uint32_t from, to;
    uint32_t next, before; /* index + 1: the next one from, the previous one to */
} edge;

/* A call took a state of a buffer, on the way to the AFTER `under`. */
typedef struct read {
    uint32_t kernel;
    const tolk_uop *state, *under;
} read;

/* An AFTER made another state of `prior`, by kernels first .. first+n-1 of made. */
typedef struct made_state {
    const tolk_uop *after, *prior;
    uint32_t first, n;
    uint32_t next; /* index + 1: another one of the same prior state */
} made_state;

typedef struct schedule {
    tolk_graph *g;
    const tolk_allocator *al;
    tolk_error *err;
    TK_VEC(kernel) kernels; /* in the order in which they were met */
    TK_VEC(edge) edges;
    TK_VEC(read) reads;
    TK_VEC(uint32_t) made; /* kernels of AFTERs */
    TK_VEC(made_state) states;
    tk_walk_map kernel_of; /* CALL -> index + 1 */
    tk_walk_map of_prior;  /* state -> index + 1 of the latest in states */
    tk_walk_list todo, found;
    TK_VEC(uint32_t) met; /* by node: the latest search that met it */
    uint32_t search;
    TK_VEC(uint32_t) order, ready;
    tk_walk_map seen;
} schedule;

static tolk_status no_memory(const schedule *s) {
    return tk_status_nomem(s->err);
}

static tolk_status graph_failed(const schedule *s) {
    tolk_status st = tolk_graph_error(s->g, s->err);
    tolk_graph_clear_error(s->g);
    return st != TOLK_OK ? st : no_memory(s);
}

static tolk_status wrong(const schedule *s, const tolk_uop *u, const char *what) {
    return tk_status_fail(s->err, TOLK_E_VERIFY, TK_NO_NODE, "schedule: %s, got %s", what,
                          tk_op_get(tk_uop_op(u))->name);
}

/* How messages name a call. */
static const char *name_of(const tolk_uop *call) {
    const char *name = tk_uop_str(call, TK_A_CALL_NAME);
    const tolk_uop *body = call->src[0];
    if (!name && tk_uop_is(body, TK_OP_SINK))
        name = tk_uop_str(body, TK_A_SINK_NAME);
    if (!name && tk_uop_is(body, TK_OP_PROGRAM))
        name = tk_uop_str(body, TK_A_PROGRAM_NAME);
    return name ? name : tk_op_get(tk_uop_op(body))->name;
}

/* ---- states ---- */

static bool is_transparent(const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_RESHAPE:
    case TK_OP_CONTIGUOUS:
    case TK_OP_MULTI:
    case TK_OP_SLICE:
        return true;
    default:
        return tk_uop_is(u, TK_OP_NOOP) && u->n_src == 1;
    }
}

/* The states that a value stands for to s->found, each once: AFTERs, BUFFERs and PARAMs. */
static tolk_status find_states(schedule *s, const tolk_uop *value) {
    s->found.n = s->todo.n = 0;
    s->search++;
    if (!tk_vec_resize(&s->met, s->g->nodes.n) || !tk_vec_push(&s->todo, value))
        return no_memory(s);
    while (s->todo.n) {
        const tolk_uop *u = tk_vec_pop(&s->todo);
        if (s->met.at[u->id] == s->search)
            continue;
        s->met.at[u->id] = s->search;
        if (is_transparent(u) || tk_uop_is(u, TK_OP_MSELECT)) {
            if (!tk_vec_push(&s->todo, u->src[0]))
                return no_memory(s);
        } else if (tk_uop_is(u, TK_OP_MSTACK)) {
            for (uint32_t i = u->n_src; i-- > 0;)
                if (!tk_vec_push(&s->todo, u->src[i]))
                    return no_memory(s);
        } else if (tk_uop_is(u, TK_OP_AFTER) || tk_uop_is(u, TK_OP_BUFFER) ||
                   tk_uop_is(u, TK_OP_PARAM)) {
            if (!tk_vec_push(&s->found, u))
                return no_memory(s);
        } else if (!tk_uop_is(u, TK_OP_BIND)) {
            return wrong(s, u, "expected a buffer, or the state of one behind calls");
        }
    }
    return TOLK_OK;
}

/* ---- kernels and edges ---- */

static tolk_status add_edge(schedule *s, uint32_t from, uint32_t to) {
    kernel *f = &s->kernels.at[from], *t = &s->kernels.at[to];
    edge e = {from, to, 0, t->before};
    if (s->edges.n >= UINT32_MAX - 1 || !tk_vec_push(&s->edges, e))
        return no_memory(s);
    uint32_t at = (uint32_t)s->edges.n;
    if (f->last)
        s->edges.at[f->last - 1].next = at;
    else
        f->first = at;
    f->last = t->before = at;
    t->n_waits++;
    return TOLK_OK;
}

/* The CALL of a source of an AFTER; NULL: it is something else. */
static const tolk_uop *call_of(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_END))
        u = u->src[0];
    return tk_uop_is(u, TK_OP_CALL) ? u : NULL;
}

static bool has_kernel(const tolk_uop *after, const tolk_uop *call) {
    for (uint32_t i = 1; i < after->n_src; i++)
        if (call_of(after->src[i]) == call)
            return true;
    return false;
}

/* Those that made a state come first. */
static tolk_status wait_for(schedule *s, const tolk_uop *state, uint32_t k) {
    if (!tk_uop_is(state, TK_OP_AFTER))
        return TOLK_OK;
    for (uint32_t i = 1; i < state->n_src; i++) {
        const tolk_uop *call = call_of(state->src[i]);
        uint32_t at = call ? tk_walk_map_get(&s->kernel_of, call->id) : 0;
        if (at && at - 1 != k)
            TK_TRY(add_edge(s, at - 1, k));
    }
    return TOLK_OK;
}

static tolk_status kernel_at(schedule *s, const tolk_uop *call, uint32_t *out) {
    uint32_t at = tk_walk_map_get(&s->kernel_of, call->id);
    if (!at) {
        kernel k = {.call = call};
        if (s->kernels.n >= TK_MANY)
            return tk_status_fail(s->err, TOLK_E_LIMIT, TK_NO_NODE, "schedule: more than %d calls",
                                  TK_MANY);
        if (!tk_vec_push(&s->kernels, k) ||
            !tk_walk_map_put(&s->kernel_of, call->id, (uint32_t)s->kernels.n))
            return no_memory(s);
        at = (uint32_t)s->kernels.n;
    }
    *out = at - 1;
    return TOLK_OK;
}

/* One call among the sources of an AFTER. */
static tolk_status add_kernel(schedule *s, const tolk_uop *after, const tolk_uop *call) {
    uint32_t k = 0;
    TK_TRY(kernel_at(s, call, &k));
    for (uint32_t i = 1; i < call->n_src; i++) {
        TK_TRY(find_states(s, call->src[i]));
        for (size_t j = 0; j < s->found.n; j++) {
            read r = {k, s->found.at[j], after};
            TK_TRY(wait_for(s, r.state, k));
            if (!tk_vec_push(&s->reads, r))
                return no_memory(s);
        }
    }
    for (uint32_t i = 1; i < after->n_src; i++)
        if (tk_uop_is(after->src[i], TK_OP_AFTER))
            TK_TRY(wait_for(s, after->src[i], k));
    return TOLK_OK;
}

/* Remember which kernels made another state of each prior one. */
static tolk_status add_states(schedule *s, const tolk_uop *after) {
    TK_TRY(find_states(s, after->src[0]));
    for (size_t j = 0; j < s->found.n; j++) {
        const tolk_uop *prior = s->found.at[j];
        made_state m = {after, prior, (uint32_t)s->made.n, 0,
                        tk_walk_map_get(&s->of_prior, prior->id)};
        for (uint32_t i = 1; i < after->n_src; i++) {
            const tolk_uop *call = call_of(after->src[i]);
            if (!call || (tk_uop_is(prior, TK_OP_AFTER) && has_kernel(prior, call)))
                continue;
            if (!tk_vec_push(&s->made, tk_walk_map_get(&s->kernel_of, call->id) - 1))
                return no_memory(s);
            m.n++;
        }
        if (!tk_vec_push(&s->states, m) ||
            !tk_walk_map_put(&s->of_prior, prior->id, (uint32_t)s->states.n))
            return no_memory(s);
    }
    return TOLK_OK;
}

static tolk_status add_after(schedule *s, const tolk_uop *u) {
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *x = u->src[i], *call = call_of(x);
        if (call)
            TK_TRY(add_kernel(s, u, call));
        else if (!tk_uop_is(x, TK_OP_AFTER) && !tk_uop_is(x, TK_OP_STORE))
            return wrong(s, x, "an after waits for calls, ends of calls, afters and stores");
    }
    return add_states(s, u);
}

/* ---- the walk ---- */

typedef struct frame {
    const tolk_uop *u;
    uint32_t next;
} frame;

/* Bodies of calls are another stage; what is in them says nothing about the order of calls. */
static uint32_t first_source(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_BUFFER) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_STORE))
        return u->n_src;
    return tk_uop_is(u, TK_OP_CALL) ? 1 : 0;
}

static tolk_status walk(schedule *s, const tolk_uop *root) {
    TK_VEC(frame) stack;
    tk_vec_init(&stack, s->al);
    bool ok = tk_walk_map_put(&s->seen, root->id, 1) &&
              tk_vec_push(&stack, ((frame){root, first_source(root)}));
    tolk_status st = TOLK_OK;
    while (ok && st == TOLK_OK && stack.n) {
        frame *f = &tk_vec_last(&stack);
        if (f->next < f->u->n_src) {
            const tolk_uop *x = f->u->src[f->next++];
            if (!tk_walk_map_get(&s->seen, x->id))
                ok = tk_walk_map_put(&s->seen, x->id, 1) &&
                     tk_vec_push(&stack, ((frame){x, first_source(x)}));
            continue;
        }
        if (tk_uop_is(f->u, TK_OP_AFTER))
            st = add_after(s, f->u);
        (void)tk_vec_pop(&stack);
    }
    tk_vec_fini(&stack);
    return ok ? st : no_memory(s);
}

/* ---- what must come before what is overwritten ---- */

/* Kahn's order over the edges there are, by `ready`. Kernels of a cycle are not in it. */
static tolk_status sort(schedule *s) {
    size_t n = s->kernels.n;
    uint32_t *waits = tk_alloc(s->al, n * sizeof *waits);
    s->order.n = 0;
    bool ok = waits && tk_vec_reserve(&s->order, n);
    for (size_t i = 0; ok && i < n; i++) {
        waits[i] = s->kernels.at[i].n_waits;
        s->kernels.at[i].place = NONE;
        if (!waits[i])
            s->order.at[s->order.n++] = (uint32_t)i;
    }
    for (size_t i = 0; ok && i < s->order.n; i++) {
        s->kernels.at[s->order.at[i]].place = (uint32_t)i;
        for (uint32_t e = s->kernels.at[s->order.at[i]].first; e; e = s->edges.at[e - 1].next)
            if (--waits[s->edges.at[e - 1].to] == 0)
                s->order.at[s->order.n++] = s->edges.at[e - 1].to;
    }
    tk_alloc_free(s->al, waits, n * sizeof *waits);
    return ok ? TOLK_OK : no_memory(s);
}

/* Does `of` wait for `k`, perhaps through others? By the first n_edges edges, which have no cycle:
 * only what has a place from k's on can lie between. */
static tolk_status is_before(schedule *s, uint32_t k, uint32_t of, size_t n_edges, uint32_t stamp,
                             bool *out) {
    uint32_t least = s->kernels.at[k].place;
    *out = false;
    if (least > s->kernels.at[of].place)
        return TOLK_OK;
    s->ready.n = 0;
    if (!tk_vec_push(&s->ready, of))
        return no_memory(s);
    while (s->ready.n && !*out) {
        kernel *x = &s->kernels.at[tk_vec_pop(&s->ready)];
        for (uint32_t e = x->before; e; e = s->edges.at[e - 1].before) {
            uint32_t from = s->edges.at[e - 1].from;
            kernel *y = &s->kernels.at[from];
            if (e > n_edges || y->stamp == stamp || y->place < least)
                continue;
            y->stamp = stamp;
            *out |= from == k;
            if (!tk_vec_push(&s->ready, from))
                return no_memory(s);
        }
    }
    return TOLK_OK;
}

static tolk_status cycle(const schedule *s, uint32_t k) {
    return tk_status_fail(s->err, TOLK_E_VERIFY, TK_NO_NODE,
                          "schedule: call \"%.60s\" (number %u) would have to run before itself: "
                          "what it needs overwrites what it reads",
                          name_of(s->kernels.at[k].call), (unsigned)k);
}

/* A kernel on a cycle: from one that never became ready, back along edges of such ones until one
 * comes again. */
static uint32_t on_cycle(schedule *s) {
    uint32_t k = 0, stamp = NONE;
    while (s->kernels.at[k].place != NONE)
        k++;
    while (s->kernels.at[k].stamp != stamp) {
        s->kernels.at[k].stamp = stamp;
        uint32_t e = s->kernels.at[k].before;
        while (s->kernels.at[s->edges.at[e - 1].from].place != NONE)
            e = s->edges.at[e - 1].before;
        k = s->edges.at[e - 1].from;
    }
    return k;
}

static tolk_status sort_all(schedule *s) {
    TK_TRY(sort(s));
    return s->order.n == s->kernels.n ? TOLK_OK : cycle(s, on_cycle(s));
}

/* What made a prior state comes before what makes the next one, also where that does not read it.
 */
static tolk_status order_writes(schedule *s, uint32_t *stamp) {
    size_t n_edges = s->edges.n;
    for (size_t i = 0; i < s->states.n; i++) {
        made_state m = s->states.at[i];
        for (uint32_t a = 1; tk_uop_is(m.prior, TK_OP_AFTER) && a < m.prior->n_src; a++) {
            const tolk_uop *call = call_of(m.prior->src[a]);
            uint32_t from = call ? tk_walk_map_get(&s->kernel_of, call->id) : 0;
            for (uint32_t b = 0; from && b < m.n; b++) {
                uint32_t to = s->made.at[m.first + b];
                bool needed = to == from - 1;
                if (!needed)
                    TK_TRY(is_before(s, to, from - 1, n_edges, ++*stamp, &needed));
                if (!needed)
                    TK_TRY(add_edge(s, from - 1, to));
            }
        }
    }
    return TOLK_OK;
}

/* A call that took a state runs before what makes another one of it. */
static tolk_status order_reads(schedule *s, uint32_t *stamp) {
    size_t n_edges = s->edges.n;
    for (size_t i = 0; i < s->reads.n; i++) {
        read r = s->reads.at[i];
        for (uint32_t at = tk_walk_map_get(&s->of_prior, r.state->id); at;) {
            made_state m = s->states.at[at - 1];
            at = m.next;
            for (uint32_t b = 0; m.after != r.under && b < m.n; b++) {
                uint32_t t = s->made.at[m.first + b];
                bool needed = t == r.kernel;
                if (!needed)
                    TK_TRY(is_before(s, t, r.kernel, n_edges, ++*stamp, &needed));
                if (!needed)
                    TK_TRY(add_edge(s, r.kernel, t));
            }
        }
    }
    return TOLK_OK;
}

/* ---- the list ---- */

/* The buffer of a state, and what selects of it: AFTERs and what only says how it is looked at go.
 * *out NULL: the value of a BIND, which stays as it is. */
static tolk_status storage(schedule *s, tk_walk_map *memo, const tolk_uop *value,
                           const tolk_uop **out) {
    s->todo.n = 0;
    if (!tk_vec_push(&s->todo, value))
        return no_memory(s);
    while (s->todo.n) {
        const tolk_uop *u = tk_vec_last(&s->todo), *r = NULL;
        bool keeps =
            tk_uop_is(u, TK_OP_MSELECT) || tk_uop_is(u, TK_OP_MSTACK) || tk_uop_is(u, TK_OP_SLICE);
        bool passes = tk_uop_is(u, TK_OP_AFTER) || (is_transparent(u) && !keeps);
        uint32_t n = tk_uop_is(u, TK_OP_MSTACK) ? u->n_src : keeps || passes ? 1 : 0;
        size_t was = s->todo.n;
        for (uint32_t i = n; i-- > 0;)
            if (!tk_walk_map_get(memo, u->src[i]->id) && !tk_vec_push(&s->todo, u->src[i]))
                return no_memory(s);
        if (s->todo.n > was)
            continue;
        if (passes) {
            r = s->g->nodes.at[tk_walk_map_get(memo, u->src[0]->id) - 1];
        } else if (keeps) {
            s->found.n = 0;
            for (uint32_t i = 0; i < u->n_src; i++) {
                const tolk_uop *x =
                    i < n ? s->g->nodes.at[tk_walk_map_get(memo, u->src[i]->id) - 1] : u->src[i];
                if (!tk_vec_push(&s->found, x))
                    return no_memory(s);
            }
            r = tk_uop_with_src(s->g, u, s->found.at, s->found.n);
        } else {
            r = u;
        }
        if (!r)
            return graph_failed(s);
        if (!tk_walk_map_put(memo, u->id, r->id + 1))
            return no_memory(s);
        (void)tk_vec_pop(&s->todo);
    }
    *out = s->g->nodes.at[tk_walk_map_get(memo, value->id) - 1];
    return TOLK_OK;
}

static tolk_status emit(schedule *s, tk_walk_map *memo, tk_walk_list *args, tk_walk_list *calls,
                        const tolk_uop **out) {
    for (size_t i = 0; i < s->order.n; i++) {
        const tolk_uop *call = s->kernels.at[s->order.at[i]].call;
        args->n = 0;
        bool ok = tk_vec_push(args, call->src[0]);
        for (uint32_t a = 1; ok && a < call->n_src; a++) {
            const tolk_uop *x = NULL;
            TK_TRY(storage(s, memo, call->src[a], &x));
            ok = tk_vec_push(args, x);
        }
        const tolk_uop *c = ok ? tk_uop_with_src(s->g, call, args->at, args->n) : NULL;
        if (ok && !c)
            return graph_failed(s);
        if (!ok || !tk_vec_push(calls, c))
            return no_memory(s);
    }
    *out = tk_uop(s->g, TK_OP_LINEAR, TOLK_VOID, calls->at, calls->n, NULL);
    return *out ? TOLK_OK : graph_failed(s);
}

static tolk_status emit_list(schedule *s, const tolk_uop **out) {
    tk_walk_map memo;
    tk_walk_list args, calls;
    tk_walk_map_init(&memo, s->al);
    tk_vec_init(&args, s->al);
    tk_vec_init(&calls, s->al);
    const tolk_uop *r = NULL;
    tolk_status st = emit(s, &memo, &args, &calls, &r);
    tk_vec_fini(&calls);
    tk_vec_fini(&args);
    tk_walk_map_fini(&memo);
    if (st == TOLK_OK)
        *out = r;
    return st;
}

/* What a graph computes is states of buffers: a call that no AFTER waits for writes nothing that
 * anybody can name. */
static tolk_status check_root(schedule *s, const tolk_uop *sink) {
    if (!tk_uop_is(sink, TK_OP_SINK))
        return wrong(s, sink, "expected a sink of states");
    for (uint32_t i = 0; i < sink->n_src; i++)
        TK_TRY(find_states(s, sink->src[i]));
    return TOLK_OK;
}

tolk_status tk_create_schedule(tolk_graph *g, const tolk_uop *sink, const tolk_uop **out,
                               tolk_error *err) {
    schedule s = {.g = g, .al = g->al, .err = err};
    tk_vec_init(&s.met, s.al);
    tk_vec_init(&s.kernels, s.al);
    tk_vec_init(&s.edges, s.al);
    tk_vec_init(&s.reads, s.al);
    tk_vec_init(&s.made, s.al);
    tk_vec_init(&s.states, s.al);
    tk_vec_init(&s.todo, s.al);
    tk_vec_init(&s.found, s.al);
    tk_vec_init(&s.order, s.al);
    tk_vec_init(&s.ready, s.al);
    tk_walk_map_init(&s.kernel_of, s.al);
    tk_walk_map_init(&s.of_prior, s.al);
    tk_walk_map_init(&s.seen, s.al);
    uint32_t stamp = 0;
    tolk_status st = check_root(&s, sink);
    if (st == TOLK_OK)
        st = walk(&s, sink);
    if (st == TOLK_OK)
        st = sort_all(&s);
    if (st == TOLK_OK)
        st = order_writes(&s, &stamp);
    if (st == TOLK_OK)
        st = sort_all(&s);
    if (st == TOLK_OK)
        st = order_reads(&s, &stamp);
    if (st == TOLK_OK)
        st = sort_all(&s);
    if (st == TOLK_OK)
        st = emit_list(&s, out);
    tk_walk_map_fini(&s.seen);
    tk_walk_map_fini(&s.of_prior);
    tk_walk_map_fini(&s.kernel_of);
    tk_vec_fini(&s.ready);
    tk_vec_fini(&s.order);
    tk_vec_fini(&s.found);
    tk_vec_fini(&s.todo);
    tk_vec_fini(&s.states);
    tk_vec_fini(&s.made);
    tk_vec_fini(&s.reads);
    tk_vec_fini(&s.edges);
    tk_vec_fini(&s.kernels);
    tk_vec_fini(&s.met);
    return st;
}
