/* SPDX-License-Identifier: MIT */
#include "schedule/create_schedule.h"

#include "ir/locate.h"
#include "ir/walk.h"
#include "schedule/call_args.h"
#include "schedule/old_states.h"
#include "schedule/order.h"

/* A call took a state of a buffer, on the way to the AFTER `under`. */
typedef struct read {
    uint32_t call; /* vertex of the order */
    const tolk_uop *state, *under;
    uint32_t next; /* index + 1: another one of the same state */
} read;

/* An AFTER made another state of `prior`, by calls first .. first+n-1 of made. */
typedef struct made_state {
    const tolk_uop *after, *prior;
    uint32_t first, n;
    uint32_t next; /* index + 1: another one of the same prior state */
    uint32_t join; /* vertex + 1, where those that took the prior state meet */
} made_state;

typedef struct schedule {
    tolk_graph *g;
    const tolk_uop *sink;
    const tolk_allocator *al;
    tolk_error *err;
    tk_order order;
    uint64_t key;       /* of the next edge */
    tk_walk_list calls; /* by their numbers in the order */
    TK_VEC(read) reads;
    TK_VEC(uint32_t) made;  /* vertices: calls of AFTERs */
    TK_VEC(uint8_t) needed; /* of each of made: some call that it has to wait for waits for it */
    TK_VEC(made_state) states;
    tk_walk_map call_of;  /* CALL -> vertex + 1 */
    tk_walk_map join_of;  /* AFTER of several calls -> vertex + 1 */
    tk_walk_map of_prior; /* state -> index + 1 of the latest in states */
    tk_walk_map of_state; /* state -> index + 1 of the latest in reads */
    tk_walk_map behind;   /* what one state is behind -> its id + 1 */
    tk_walk_list todo, found;
    tk_walk_list others;  /* states that an AFTER waits for */
    TK_VEC(uint32_t) met; /* by node: the latest search that met it */
    uint32_t search;
    TK_VEC(uint32_t) readers;
    tk_walk_map seen;
} schedule;

static tolk_status no_memory(const schedule *s) {
    return tk_status_nomem(s->err);
}

static tolk_status wrong(const schedule *s, const tolk_uop *u, const char *what) {
    const char *op = tk_op_get(tk_uop_op(u))->name;
    tk_location at = tk_locate(s->sink, u);
    if (!at.place) /* its number may be none that anybody has seen */
        return tk_status_fail(s->err, TOLK_E_VERIFY, TK_NO_NODE, "schedule: %s, got %s", what, op);
    tk_status_fail(s->err, TOLK_E_VERIFY, at.number, "schedule: %s, got %s %s", what, at.name, op);
    tk_locate_error(&at, s->err);
    return TOLK_E_VERIFY;
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

/* Through all that is one state looked at in some way: the same node for each of them, at once. */
static tolk_status skip_views(schedule *s, const tolk_uop **u) {
    const tolk_uop *at = *u;
    uint32_t known = 0;
    while ((is_transparent(at) || tk_uop_is(at, TK_OP_MSELECT)) &&
           !(known = tk_walk_map_get(&s->behind, at->id)))
        at = at->src[0];
    if (known)
        at = s->g->nodes.at[known - 1];
    for (const tolk_uop *v = *u; v != at && !tk_walk_map_get(&s->behind, v->id); v = v->src[0])
        if (!tk_walk_map_put(&s->behind, v->id, at->id + 1))
            return no_memory(s);
    *u = at;
    return TOLK_OK;
}

/* The states that a value stands for to s->found, each once: AFTERs, BUFFERs and PARAMs. */
static tolk_status find_states(schedule *s, const tolk_uop *value) {
    s->found.n = s->todo.n = 0;
    s->search++;
    if (!tk_vec_resize(&s->met, s->g->nodes.n) || !tk_vec_push(&s->todo, value))
        return no_memory(s);
    while (s->todo.n) {
        const tolk_uop *u = tk_vec_pop(&s->todo);
        TK_TRY(skip_views(s, &u));
        if (s->met.at[u->id] == s->search)
            continue;
        s->met.at[u->id] = s->search;
        if (tk_uop_is(u, TK_OP_MSTACK)) {
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

/* ---- calls and edges ---- */

static tolk_status add_edge(schedule *s, uint32_t from, uint32_t to) {
    return tk_order_edge_add(&s->order, from, to, s->key++) ? TOLK_OK : no_memory(s);
}

/* The CALL of a source of an AFTER; NULL: it is something else. */
static const tolk_uop *call_of(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_END))
        u = u->src[0];
    return tk_uop_is(u, TK_OP_CALL) ? u : NULL;
}

/* The vertex of a call among the sources of an AFTER; TK_ORDER_NONE: the source is none. */
static uint32_t vertex_of(const schedule *s, const tolk_uop *source) {
    const tolk_uop *call = call_of(source);
    return call ? tk_walk_map_get(&s->call_of, call->id) - 1 : TK_ORDER_NONE;
}

static bool has_call(const tolk_uop *after, const tolk_uop *call) {
    for (uint32_t i = 1; i < after->n_src; i++)
        if (call_of(after->src[i]) == call)
            return true;
    return false;
}

/* Where those that made a state meet: a call, or a join of several; TK_ORDER_NONE: no call did. */
static tolk_status maker_of(schedule *s, const tolk_uop *after, uint32_t *out) {
    uint32_t n = 0, known = tk_walk_map_get(&s->join_of, after->id);
    *out = known - 1;
    if (known)
        return TOLK_OK;
    for (uint32_t i = 1; i < after->n_src; i++) {
        uint32_t v = vertex_of(s, after->src[i]);
        n += v != TK_ORDER_NONE;
        *out = v != TK_ORDER_NONE ? v : *out;
    }
    if (n < 2)
        return TOLK_OK;
    if (!tk_order_join(&s->order, false, out) || !tk_walk_map_put(&s->join_of, after->id, *out + 1))
        return no_memory(s);
    for (uint32_t i = 1; i < after->n_src; i++) {
        uint32_t v = vertex_of(s, after->src[i]);
        if (v != TK_ORDER_NONE)
            TK_TRY(add_edge(s, v, *out));
    }
    return TOLK_OK;
}

/* Those that made a state come first. */
static tolk_status wait_for(schedule *s, const tolk_uop *state, uint32_t v) {
    uint32_t maker;
    if (!tk_uop_is(state, TK_OP_AFTER))
        return TOLK_OK;
    TK_TRY(maker_of(s, state, &maker));
    return maker == TK_ORDER_NONE || maker == v ? TOLK_OK : add_edge(s, maker, v);
}

/* The same where the call may be one that made the state: the others do. */
static tolk_status wait_for_others(schedule *s, const tolk_uop *state, uint32_t v) {
    for (uint32_t i = 1; i < state->n_src; i++) {
        uint32_t maker = vertex_of(s, state->src[i]);
        if (maker != TK_ORDER_NONE && maker != v)
            TK_TRY(add_edge(s, maker, v));
    }
    return TOLK_OK;
}

static tolk_status vertex_at(schedule *s, const tolk_uop *call, uint32_t *out) {
    uint32_t at = tk_walk_map_get(&s->call_of, call->id);
    *out = at - 1;
    if (at)
        return TOLK_OK;
    if (s->calls.n >= TK_MANY)
        return tk_status_fail(s->err, TOLK_E_LIMIT, TK_NO_NODE, "schedule: more than %d calls",
                              TK_MANY);
    return tk_vec_push(&s->calls, call) && tk_order_call(&s->order, out) &&
                   tk_walk_map_put(&s->call_of, call->id, *out + 1)
               ? TOLK_OK
               : no_memory(s);
}

static tolk_status add_read(schedule *s, read r) {
    r.next = tk_walk_map_get(&s->of_state, r.state->id);
    return tk_vec_push(&s->reads, r) &&
                   tk_walk_map_put(&s->of_state, r.state->id, (uint32_t)s->reads.n)
               ? TOLK_OK
               : no_memory(s);
}

/* One call among the sources of an AFTER. before: vertices that there were before the AFTER: only
 * those of before may have made a state that the AFTER waits for. n_both: calls that did; from the
 * second one on there is a cycle of the first two. */
static tolk_status add_call(schedule *s, const tolk_uop *after, const tolk_uop *call,
                            uint32_t before, uint32_t *n_both) {
    uint32_t v = 0;
    TK_TRY(vertex_at(s, call, &v));
    for (uint32_t i = 1; i < call->n_src; i++) {
        TK_TRY(find_states(s, call->src[i]));
        for (size_t j = 0; j < s->found.n; j++) {
            TK_TRY(wait_for(s, s->found.at[j], v));
            TK_TRY(add_read(s, (read){v, s->found.at[j], after, 0}));
        }
    }
    bool both = false;
    for (size_t i = 0; i < s->others.n && *n_both < 2; i++) {
        const tolk_uop *state = s->others.at[i];
        bool made_it = v < before && has_call(state, call);
        TK_TRY(made_it ? wait_for_others(s, state, v) : wait_for(s, state, v));
        both |= made_it;
    }
    *n_both += both;
    return TOLK_OK;
}

/* Remember which calls made another state of each prior one. */
static tolk_status add_states(schedule *s, const tolk_uop *after, uint32_t before) {
    TK_TRY(find_states(s, after->src[0]));
    for (size_t j = 0; j < s->found.n; j++) {
        const tolk_uop *prior = s->found.at[j];
        made_state m = {.after = after,
                        .prior = prior,
                        .first = (uint32_t)s->made.n,
                        .next = tk_walk_map_get(&s->of_prior, prior->id)};
        for (uint32_t i = 1; i < after->n_src; i++) {
            const tolk_uop *call = call_of(after->src[i]);
            uint32_t v = vertex_of(s, after->src[i]);
            if (!call || (v < before && tk_uop_is(prior, TK_OP_AFTER) && has_call(prior, call)))
                continue;
            if (!tk_vec_push(&s->made, v) || !tk_vec_push(&s->needed, 0))
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
    uint32_t before = (uint32_t)s->order.v.n, n_both = 0;
    s->others.n = 0;
    for (uint32_t i = 1; i < u->n_src; i++)
        if (tk_uop_is(u->src[i], TK_OP_AFTER) && !tk_vec_push(&s->others, u->src[i]))
            return no_memory(s);
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *x = u->src[i], *call = call_of(x);
        if (call)
            TK_TRY(add_call(s, u, call, before, &n_both));
        else if (!tk_uop_is(x, TK_OP_AFTER) && !tk_uop_is(x, TK_OP_STORE))
            return wrong(s, x, "an after waits for calls, ends of calls, afters and stores");
    }
    return add_states(s, u, before);
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

static tolk_status cycle(schedule *s) {
    uint32_t k = s->order.v.at[tk_order_on_cycle(&s->order)].number;
    return tk_status_fail(s->err, TOLK_E_VERIFY, TK_NO_NODE,
                          "schedule: call \"%.60s\" (number %u) would have to run before itself: "
                          "what it needs overwrites what it reads",
                          tk_call_args_name(s->calls.at[k]), (unsigned)k);
}

static tolk_status sort(schedule *s) {
    if (!tk_order_sort(&s->order))
        return no_memory(s);
    return s->order.list.n == s->calls.n ? TOLK_OK : cycle(s);
}

/* Which calls of m does one of `readers` wait for already? */
static tolk_status find_needed(schedule *s, made_state m) {
    return tk_order_are_before(&s->order, s->made.at + m.first, m.n, s->readers.at, s->readers.n,
                               s->needed.at + m.first)
               ? TOLK_OK
               : no_memory(s);
}

/* What made a state to s->readers. */
static tolk_status find_makers(schedule *s, const tolk_uop *state) {
    s->readers.n = 0;
    for (uint32_t a = 1; tk_uop_is(state, TK_OP_AFTER) && a < state->n_src; a++) {
        uint32_t v = vertex_of(s, state->src[a]);
        if (v != TK_ORDER_NONE && !tk_vec_push(&s->readers, v))
            return no_memory(s);
    }
    return TOLK_OK;
}

/* A call of `to` waits for all of s->readers that do not wait for it. */
static tolk_status order_odd(schedule *s, uint32_t to) {
    for (size_t i = 0; i < s->readers.n; i++) {
        bool needed = false;
        if (!tk_order_is_before(&s->order, to, &s->readers.at[i], 1, &needed))
            return no_memory(s);
        if (!needed)
            TK_TRY(add_edge(s, s->readers.at[i], to));
    }
    return TOLK_OK;
}

/* What made a prior state comes before what makes the next one, also where that does not read it.
 */
static tolk_status order_writes(schedule *s) {
    for (size_t i = 0; i < s->states.n; i++) {
        made_state m = s->states.at[i];
        TK_TRY(find_makers(s, m.prior));
        if (!s->readers.n || !m.n)
            continue;
        TK_TRY(find_needed(s, m));
        for (uint32_t b = 0; b < m.n; b++) {
            uint32_t to = s->made.at[m.first + b];
            TK_TRY(s->needed.at[m.first + b] ? order_odd(s, to) : wait_for(s, m.prior, to));
        }
    }
    return TOLK_OK;
}

/* Those that took the state of which m made another one, on another way, to s->readers. */
static tolk_status find_readers(schedule *s, made_state m) {
    s->readers.n = 0;
    for (uint32_t at = tk_walk_map_get(&s->of_state, m.prior->id); at;
         at = s->reads.at[at - 1].next)
        if (s->reads.at[at - 1].under != m.after &&
            !tk_vec_push(&s->readers, s->reads.at[at - 1].call))
            return no_memory(s);
    return TOLK_OK;
}

/* One that took the state of which m made another one runs before m's calls. key: as of one edge to
 * each of them. */
static tolk_status before_made(schedule *s, uint32_t reader, made_state *m) {
    uint64_t key = s->key;
    s->key += m->n;
    if (m->n > 1 && !m->join) {
        uint32_t join, n = 0;
        for (uint32_t b = 0; b < m->n; b++)
            n += !s->needed.at[m->first + b];
        if (n && !tk_order_join(&s->order, true, &join))
            return no_memory(s);
        for (uint32_t b = 0; b < m->n && n; b++)
            if (!s->needed.at[m->first + b] &&
                !tk_order_edge_add(&s->order, join, s->made.at[m->first + b], b))
                return no_memory(s);
        m->join = n ? join + 1 : TK_ORDER_NONE;
    }
    if (m->join && m->join != TK_ORDER_NONE &&
        !tk_order_edge_add(&s->order, reader, m->join - 1, key))
        return no_memory(s);
    for (uint32_t b = 0; b < m->n; b++) {
        uint32_t t = s->made.at[m->first + b];
        bool needed = s->needed.at[m->first + b] != 0;
        if (m->n > 1 && !needed)
            continue;
        if (needed && !tk_order_is_before(&s->order, t, &reader, 1, &needed))
            return no_memory(s);
        if (!needed && !tk_order_edge_add(&s->order, reader, t, key + b))
            return no_memory(s);
    }
    return TOLK_OK;
}

/* A call that took a state runs before what makes another one of it. Where there are many edges a
 * cycle is found before there are more. */
static tolk_status order_reads(schedule *s) {
    for (size_t i = 0; i < s->states.n; i++) {
        TK_TRY(find_readers(s, s->states.at[i]));
        if (s->readers.n)
            TK_TRY(find_needed(s, s->states.at[i]));
    }
    size_t most = 2 * s->order.edges.n + 1024;
    for (size_t i = 0; i < s->reads.n; i++) {
        read r = s->reads.at[i];
        for (uint32_t at = tk_walk_map_get(&s->of_prior, r.state->id); at;) {
            made_state *m = &s->states.at[at - 1];
            at = m->next;
            if (m->after != r.under)
                TK_TRY(before_made(s, r.call, m));
        }
        if (s->order.edges.n > most) {
            TK_TRY(sort(s));
            most = 2 * s->order.edges.n;
        }
    }
    return TOLK_OK;
}

static tolk_status order_all(schedule *s) {
    TK_TRY(sort(s));
    tk_order_freeze(&s->order);
    TK_TRY(order_writes(s));
    TK_TRY(sort(s));
    tk_order_freeze(&s->order);
    TK_TRY(order_reads(s));
    return sort(s);
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
            return tk_graph_take_error(s->g, s->err);
        if (!tk_walk_map_put(memo, u->id, r->id + 1))
            return no_memory(s);
        (void)tk_vec_pop(&s->todo);
    }
    *out = s->g->nodes.at[tk_walk_map_get(memo, value->id) - 1];
    return TOLK_OK;
}

static tolk_status emit(schedule *s, tk_walk_map *memo, tk_walk_list *args, tk_walk_list *calls,
                        const tolk_uop **out) {
    for (size_t i = 0; i < s->order.list.n; i++) {
        const tolk_uop *call = s->calls.at[s->order.v.at[s->order.list.at[i]].number];
        args->n = 0;
        bool ok = tk_vec_push(args, call->src[0]);
        for (uint32_t a = 1; ok && a < call->n_src; a++) {
            const tolk_uop *x = NULL;
            TK_TRY(storage(s, memo, call->src[a], &x));
            ok = tk_vec_push(args, x);
        }
        const tolk_uop *c = ok ? tk_uop_with_src(s->g, call, args->at, args->n) : NULL;
        if (ok && !c)
            return tk_graph_take_error(s->g, s->err);
        if (!ok || !tk_vec_push(calls, c))
            return no_memory(s);
    }
    *out = tk_uop(s->g, TK_OP_LINEAR, TOLK_VOID, calls->at, calls->n, NULL);
    return *out ? TOLK_OK : tk_graph_take_error(s->g, s->err);
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
    schedule s = {.g = g, .sink = sink, .al = g->al, .err = err};
    tk_order_init(&s.order, s.al);
    tk_vec_init(&s.met, s.al);
    tk_vec_init(&s.calls, s.al);
    tk_vec_init(&s.reads, s.al);
    tk_vec_init(&s.made, s.al);
    tk_vec_init(&s.needed, s.al);
    tk_vec_init(&s.states, s.al);
    tk_vec_init(&s.todo, s.al);
    tk_vec_init(&s.found, s.al);
    tk_vec_init(&s.others, s.al);
    tk_vec_init(&s.readers, s.al);
    tk_walk_map_init(&s.call_of, s.al);
    tk_walk_map_init(&s.join_of, s.al);
    tk_walk_map_init(&s.of_prior, s.al);
    tk_walk_map_init(&s.of_state, s.al);
    tk_walk_map_init(&s.behind, s.al);
    tk_walk_map_init(&s.seen, s.al);
    tolk_status st = check_root(&s, sink);
    if (st == TOLK_OK)
        st = walk(&s, sink);
    if (st == TOLK_OK)
        st = tk_old_states_check(&s.calls, s.al, err);
    if (st == TOLK_OK)
        st = order_all(&s);
    if (st == TOLK_OK)
        st = emit_list(&s, out);
    tk_walk_map_fini(&s.seen);
    tk_walk_map_fini(&s.behind);
    tk_walk_map_fini(&s.of_state);
    tk_walk_map_fini(&s.of_prior);
    tk_walk_map_fini(&s.join_of);
    tk_walk_map_fini(&s.call_of);
    tk_vec_fini(&s.readers);
    tk_vec_fini(&s.others);
    tk_vec_fini(&s.found);
    tk_vec_fini(&s.todo);
    tk_vec_fini(&s.states);
    tk_vec_fini(&s.needed);
    tk_vec_fini(&s.made);
    tk_vec_fini(&s.reads);
    tk_vec_fini(&s.calls);
    tk_vec_fini(&s.met);
    tk_order_fini(&s.order);
    return st;
}
