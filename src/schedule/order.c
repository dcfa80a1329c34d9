/* SPDX-License-Identifier: MIT
 *
 * Searches go from what waits to what it waits for. Three orders by which what is waited for comes
 * first say of most calls that they cannot be on the way; a tree of paths says of many that they
 * are.
 */
#include "schedule/order.h"

#include <stdlib.h>

enum { FEW = 4 /* searched one by one */ };

void tk_order_init(tk_order *o, const tolk_allocator *al) {
    *o = (tk_order){0};
    tk_vec_init(&o->v, al);
    tk_vec_init(&o->edges, al);
    tk_vec_init(&o->calls, al);
    tk_vec_init(&o->list, al);
    tk_vec_init(&o->waits, al);
    tk_vec_init(&o->todo, al);
    tk_vec_init(&o->next, al);
    tk_vec_init(&o->items, al);
}

void tk_order_fini(tk_order *o) {
    tk_vec_fini(&o->items);
    tk_vec_fini(&o->next);
    tk_vec_fini(&o->todo);
    tk_vec_fini(&o->waits);
    tk_vec_fini(&o->list);
    tk_vec_fini(&o->calls);
    tk_vec_fini(&o->edges);
    tk_vec_fini(&o->v);
}

/* ---- making ---- */

static bool add(tk_order *o, tk_order_vertex v, uint32_t *out) {
    *out = (uint32_t)o->v.n;
    return o->v.n < TK_ORDER_NONE - 1 && tk_vec_push(&o->v, v);
}

bool tk_order_call(tk_order *o, uint32_t *out) {
    tk_order_vertex v = {.number = (uint32_t)o->calls.n};
    return add(o, v, out) && tk_vec_push(&o->calls, *out);
}

bool tk_order_join(tk_order *o, bool keeps_key, uint32_t *out) {
    return add(o, (tk_order_vertex){.number = TK_ORDER_NONE, .keeps_key = keeps_key}, out);
}

bool tk_order_edge_add(tk_order *o, uint32_t from, uint32_t to, uint64_t key) {
    tk_order_vertex *f = &o->v.at[from], *t = &o->v.at[to];
    tk_order_edge e = {from, to, 0, t->before, key};
    if (o->edges.n >= UINT32_MAX - 1 || !tk_vec_push(&o->edges, e))
        return false;
    uint32_t at = (uint32_t)o->edges.n;
    if (f->last)
        o->edges.at[f->last - 1].next = at;
    else
        f->first = at;
    f->last = t->before = at;
    t->n_waits++;
    return true;
}

/* ---- the order ---- */

static bool is_join(const tk_order_vertex *v) {
    return v->number == TK_ORDER_NONE;
}

static bool add_item(tk_order *o, uint64_t key, uint32_t vertex) {
    return tk_vec_push(&o->items, ((tk_order_item){key, vertex}));
}

/* What waits for call k, perhaps behind a join that only k is missing to, to o->items. */
static bool find_items(tk_order *o, uint32_t k) {
    o->items.n = 0;
    for (uint32_t e = o->v.at[k].first; e; e = o->edges.at[e - 1].next) {
        tk_order_edge from = o->edges.at[e - 1];
        tk_order_vertex *to = &o->v.at[from.to];
        if (!is_join(to)) {
            if (!add_item(o, from.key, from.to))
                return false;
        } else if (--o->waits.at[from.to] == 0) {
            to->place = o->v.at[k].place;
            for (uint32_t i = to->first; i; i = o->edges.at[i - 1].next) {
                const tk_order_edge *x = &o->edges.at[i - 1];
                if (!add_item(o, x->key + (to->keeps_key ? from.key : 0), x->to))
                    return false;
            }
        }
    }
    return true;
}

static int by_key(const void *a, const void *b) {
    const tk_order_item *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static void sort_items(tk_order *o) {
    for (size_t i = 1; i < o->items.n; i++)
        if (o->items.at[i - 1].key > o->items.at[i].key) {
            qsort(o->items.at, o->items.n, sizeof *o->items.at, by_key);
            return;
        }
}

bool tk_order_sort(tk_order *o) {
    o->list.n = 0;
    if (!tk_vec_resize(&o->waits, o->v.n) || !tk_vec_reserve(&o->list, o->calls.n))
        return false;
    for (size_t i = 0; i < o->v.n; i++) {
        o->waits.at[i] = o->v.at[i].n_waits;
        o->v.at[i].place = TK_ORDER_NONE;
    }
    for (size_t i = 0; i < o->calls.n; i++)
        if (!o->waits.at[o->calls.at[i]])
            o->list.at[o->list.n++] = o->calls.at[i];
    for (size_t i = 0; i < o->list.n; i++) {
        o->v.at[o->list.at[i]].place = (uint32_t)i;
        if (!find_items(o, o->list.at[i]))
            return false;
        sort_items(o);
        for (size_t k = 0; k < o->items.n; k++)
            if (--o->waits.at[o->items.at[k].vertex] == 0)
                o->list.at[o->list.n++] = o->items.at[k].vertex;
    }
    return true;
}

/* One edge back to what has no place. */
static uint32_t step_back(const tk_order *o, uint32_t v) {
    uint32_t e = o->v.at[v].before;
    while (o->v.at[o->edges.at[e - 1].from].place != TK_ORDER_NONE)
        e = o->edges.at[e - 1].before;
    return o->edges.at[e - 1].from;
}

/* From one that never became free, back along edges of such ones until one comes again. */
uint32_t tk_order_on_cycle(tk_order *o) {
    uint32_t at = 0, stamp = TK_ORDER_NONE;
    while (o->v.at[at].place != TK_ORDER_NONE)
        at++;
    for (; o->v.at[at].stamp != stamp; at = step_back(o, at))
        o->v.at[at].stamp = stamp;
    return is_join(&o->v.at[at]) ? step_back(o, at) : at;
}

/* ---- labels ---- */

void tk_order_freeze(tk_order *o) {
    o->n_known = o->edges.n;
    o->is_labeled = false;
}

/* The first known edge from here on; 0: none. */
static uint32_t known(const tk_order *o, uint32_t e) {
    return e <= o->n_known ? e : 0;
}

static uint32_t known_before(const tk_order *o, uint32_t v) {
    uint32_t e = o->v.at[v].before;
    while (e > o->n_known)
        e = o->edges.at[e - 1].before;
    return e;
}

/* pre: as a walk along edges meets them; post: as it leaves them. */
static bool walk_all(tk_order *o) {
    uint32_t n_pre = 0, n_post = 0;
    if (!tk_vec_resize(&o->next, o->v.n))
        return false;
    for (size_t i = 0; i < o->v.n; i++) {
        o->v.at[i].pre = TK_ORDER_NONE;
        o->next.at[i] = known(o, o->v.at[i].first);
    }
    for (size_t i = 0; i < o->v.n; i++) {
        if (o->v.at[i].pre != TK_ORDER_NONE)
            continue;
        o->v.at[i].pre = n_pre++;
        o->todo.n = 0;
        if (!tk_vec_push(&o->todo, (uint32_t)i))
            return false;
        while (o->todo.n) {
            uint32_t at = tk_vec_last(&o->todo), e = o->next.at[at];
            if (!e) {
                o->v.at[at].post = n_post++;
                o->todo.n--;
                continue;
            }
            o->next.at[at] = known(o, o->edges.at[e - 1].next);
            uint32_t to = o->edges.at[e - 1].to;
            if (o->v.at[to].pre != TK_ORDER_NONE)
                continue;
            o->v.at[to].pre = n_pre++;
            if (!tk_vec_push(&o->todo, to))
                return false;
        }
    }
    return true;
}

/* late: what nothing waits for has the highest numbers. */
static bool number_late(tk_order *o) {
    if (!tk_vec_resize(&o->next, o->v.n))
        return false;
    o->todo.n = 0;
    for (size_t i = 0; i < o->v.n; i++) {
        o->next.at[i] = 0;
        for (uint32_t e = known(o, o->v.at[i].first); e; e = known(o, o->edges.at[e - 1].next))
            o->next.at[i]++;
        if (!o->next.at[i] && !tk_vec_push(&o->todo, (uint32_t)i))
            return false;
    }
    for (size_t i = 0; i < o->todo.n; i++) {
        o->v.at[o->todo.at[i]].late = (uint32_t)(o->v.n - i);
        for (uint32_t e = known_before(o, o->todo.at[i]); e; e = o->edges.at[e - 1].before)
            if (--o->next.at[o->edges.at[e - 1].from] == 0 &&
                !tk_vec_push(&o->todo, o->edges.at[e - 1].from))
                return false;
    }
    return true;
}

static bool label(tk_order *o) {
    if (!o->is_labeled)
        o->is_labeled = walk_all(o) && number_late(o);
    return o->is_labeled;
}

/* ---- searches ---- */

/* Whatever waits for a call that is looked for has at least this place and late, at most this post.
 */
typedef struct bounds {
    uint32_t place, late, post;
} bounds;

static bool may_wait(const tk_order_vertex *v, bounds b) {
    return v->place >= b.place && v->late >= b.late && v->post <= b.post;
}

/* Meet one of those that may wait. */
static bool meet(tk_order *o, uint32_t at, bounds b) {
    tk_order_vertex *v = &o->v.at[at];
    if (v->stamp == o->stamp || !may_wait(v, b))
        return true;
    v->stamp = o->stamp;
    return tk_vec_push(&o->todo, at);
}

static bool meet_all_before(tk_order *o, uint32_t at, bounds b) {
    for (uint32_t e = known_before(o, at); e; e = o->edges.at[e - 1].before)
        if (!meet(o, o->edges.at[e - 1].from, b))
            return false;
    return true;
}

static bool start(tk_order *o, const uint32_t *of, size_t n, bounds b) {
    o->stamp++;
    o->todo.n = 0;
    for (size_t i = 0; i < n; i++)
        if (!meet(o, of[i], b))
            return false;
    return true;
}

bool tk_order_is_before(tk_order *o, uint32_t k, const uint32_t *of, size_t n, bool *out) {
    *out = false;
    bool may = false;
    for (size_t i = 0; i < n && !may; i++)
        may = o->v.at[of[i]].place >= o->v.at[k].place;
    if (!may)
        return true;
    if (!label(o))
        return false;
    tk_order_vertex t = o->v.at[k];
    bounds b = {t.place, t.late, t.post};
    if (!start(o, of, n, b))
        return false;
    while (o->todo.n && !*out) {
        uint32_t at = tk_vec_pop(&o->todo);
        const tk_order_vertex *v = &o->v.at[at];
        *out = t.pre <= v->pre; /* and not left later: below k in the tree, or k */
        if (!*out && !meet_all_before(o, at, b))
            return false;
    }
    return true;
}

bool tk_order_are_before(tk_order *o, const uint32_t *k, size_t m, const uint32_t *of, size_t n,
                         uint8_t *out) {
    for (size_t i = 0; i < m && m <= FEW; i++) {
        bool is = false;
        if (!tk_order_is_before(o, k[i], of, n, &is))
            return false;
        out[i] = is;
    }
    if (m <= FEW)
        return true;
    if (!label(o))
        return false;
    bounds b = {UINT32_MAX, UINT32_MAX, 0};
    for (size_t i = 0; i < m; i++) {
        const tk_order_vertex *v = &o->v.at[k[i]];
        b.place = v->place < b.place ? v->place : b.place;
        b.late = v->late < b.late ? v->late : b.late;
        b.post = v->post > b.post ? v->post : b.post;
    }
    if (!start(o, of, n, b))
        return false;
    while (o->todo.n)
        if (!meet_all_before(o, tk_vec_pop(&o->todo), b))
            return false;
    for (size_t i = 0; i < m; i++)
        out[i] = o->v.at[k[i]].stamp == o->stamp;
    return true;
}
