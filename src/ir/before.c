/* SPDX-License-Identifier: MIT */
#include "ir/before.h"

#include "ir/access.h"

#include <stdlib.h>

/* A load of a register within a loop, and the effects that it waits for. */
typedef struct load {
    const tolk_uop *u, *buffer;
    size_t first, end; /* in waits */
} load;

/* An END repeats its store, whatever the store names. */
typedef struct repeated {
    const tolk_uop *store, *end;
} repeated;

typedef struct finder {
    const tk_walk_ranges *w;
    TK_VEC(load) loads;
    tk_walk_list waits;
    TK_VEC(repeated) repeats; /* those of one store stand together */
    tk_walk_map first_repeat; /* store -> its first one + 1 */
} finder;

static const tolk_uop *reg_of(const tolk_uop *access) {
    const tolk_uop *b = tk_access_buffer(access->src[0]);
    return b && tk_access_is_reg(b) ? b : NULL;
}

static int by_store(const void *pa, const void *pb) {
    const repeated *a = pa, *b = pb;
    return a->store->id < b->store->id ? -1 : a->store->id > b->store->id;
}

/* The stores of registers that each END repeats: its effect, those of groups, and of ENDs in it. */
static tolk_status find_repeats(finder *f, const tolk_allocator *al) {
    tk_walk_list effects;
    tk_vec_init(&effects, al);
    bool ok = true;
    for (size_t k = 0; k < f->w->nodes.n && ok; k++) {
        const tolk_uop *end = f->w->nodes.at[k];
        if (!tk_uop_is(end, TK_OP_END))
            continue;
        effects.n = 0;
        ok = tk_walk_repeated(end, &effects) == TOLK_OK;
        for (size_t i = 0; i < effects.n && ok; i++)
            if (tk_uop_is(effects.at[i], TK_OP_STORE) && reg_of(effects.at[i]))
                ok = tk_vec_push(&f->repeats, ((repeated){effects.at[i], end}));
    }
    tk_vec_fini(&effects);
    if (ok && f->repeats.n)
        qsort(f->repeats.at, f->repeats.n, sizeof *f->repeats.at, by_store);
    for (size_t i = f->repeats.n; i-- > 0 && ok;)
        ok = tk_walk_map_put(&f->first_repeat, f->repeats.at[i].store->id, (uint32_t)i + 1);
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

/* Does the store run in each iteration of the range? */
static bool runs_in(const finder *f, const tolk_uop *store, const tolk_uop *range) {
    if (tk_walk_ranges_has(f->w, store, range))
        return true;
    uint32_t first = tk_walk_map_get(&f->first_repeat, store->id);
    for (size_t i = first; first && i <= f->repeats.n && f->repeats.at[i - 1].store == store; i++) {
        const tolk_uop *end = f->repeats.at[i - 1].end;
        for (uint32_t s = 1; s < end->n_src; s++)
            if (end->src[s] == range)
                return true;
    }
    return false;
}

/* A range that the buffer of the load stands within and the store, too; NULL if there is none. */
static const tolk_uop *common_loop(const finder *f, const tolk_uop *place, const tolk_uop *store) {
    if (!tk_uop_is(place, TK_OP_INDEX))
        return NULL;
    for (const tolk_uop *u = place->src[0]; tk_uop_is(u, TK_OP_AFTER); u = u->src[0])
        for (uint32_t i = 1; i < u->n_src; i++)
            if (tk_uop_is(u->src[i], TK_OP_RANGE) && (!store || runs_in(f, store, u->src[i])))
                return u->src[i];
    return NULL;
}

static tolk_status find_loads(finder *f, const tolk_allocator *al) {
    tk_walk_list below;
    tk_vec_init(&below, al);
    tolk_status st = TOLK_OK;
    for (size_t k = 0; k < f->w->nodes.n && st == TOLK_OK; k++) {
        const tolk_uop *u = f->w->nodes.at[k];
        const tolk_uop *buffer = tk_uop_is(u, TK_OP_LOAD) ? reg_of(u) : NULL;
        if (!buffer || !common_loop(f, u->src[0], NULL))
            continue;
        load x = {.u = u, .buffer = buffer, .first = f->waits.n};
        below.n = 0;
        st = tk_walk(u, &below);
        for (size_t i = 0; i < below.n && st == TOLK_OK; i++)
            if ((tk_uop_is(below.at[i], TK_OP_STORE) || tk_uop_is(below.at[i], TK_OP_ATOMIC_ADD)) &&
                !tk_vec_push(&f->waits, below.at[i]))
                st = TOLK_E_NOMEM;
        x.end = f->waits.n;
        if (st == TOLK_OK && !tk_vec_push(&f->loads, x))
            st = TOLK_E_NOMEM;
    }
    tk_vec_fini(&below);
    return st;
}

static bool is_before(const finder *f, const load *x, const tolk_uop *store) {
    const tolk_uop *r = common_loop(f, x->u->src[0], store);
    if (!r)
        return false;
    for (size_t i = 0; i < f->w->ranges.n; i++)
        if (tk_walk_ranges_has(f->w, x->u, f->w->ranges.at[i]) &&
            !runs_in(f, store, f->w->ranges.at[i]))
            return false; /* it is done in a loop further in */
    for (size_t i = x->first; i < x->end; i++)
        if (f->waits.at[i] == store || runs_in(f, f->waits.at[i], r))
            return false; /* it is no value from before the iteration */
    return true;
}

static tolk_status find_pairs(tk_before *b, const finder *f) {
    for (size_t k = 0; f->loads.n && k < f->w->nodes.n; k++) {
        const tolk_uop *u = f->w->nodes.at[k];
        const tolk_uop *buffer = tk_uop_is(u, TK_OP_STORE) ? reg_of(u) : NULL;
        size_t before = b->pairs.n;
        for (size_t i = 0; buffer && i < f->loads.n; i++)
            if (f->loads.at[i].buffer == buffer && is_before(f, &f->loads.at[i], u) &&
                !tk_vec_push(&b->pairs, ((tk_before_pair){u, f->loads.at[i].u})))
                return TOLK_E_NOMEM;
        if (b->pairs.n > before && !tk_walk_map_put(&b->first, u->id, (uint32_t)before + 1))
            return TOLK_E_NOMEM;
    }
    return TOLK_OK;
}

/* Is there a cycle through the pairs? Depth first; a node is open (1) while on the path, then done
 * (2). */
static tolk_status find_cycle(const tk_before *b, const tolk_uop *root, const tolk_allocator *al,
                              bool *cycle) {
    struct step {
        const tolk_uop *u;
        uint32_t next;
    };
    TK_VEC(struct step) path;
    tk_walk_map state;
    tk_vec_init(&path, al);
    tk_walk_map_init(&state, al);
    bool ok = tk_vec_push(&path, ((struct step){root, 0})) && tk_walk_map_put(&state, root->id, 1);
    *cycle = false;
    while (ok && path.n && !*cycle) {
        struct step *s = &tk_vec_last(&path);
        uint32_t n;
        const tk_before_pair *p = tk_before_of(b, s->u, &n);
        if (s->next == n + s->u->n_src) {
            ok = tk_walk_map_put(&state, s->u->id, 2);
            path.n--;
            continue;
        }
        const tolk_uop *t = s->next < n ? p[s->next].load : s->u->src[s->next - n];
        s->next++;
        uint32_t seen = tk_walk_map_get(&state, t->id);
        if (seen == 0)
            ok = tk_vec_push(&path, ((struct step){t, 0})) && tk_walk_map_put(&state, t->id, 1);
        *cycle = seen == 1;
    }
    tk_vec_fini(&path);
    tk_walk_map_fini(&state);
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

tolk_status tk_before_init(tk_before *b, const tk_walk_ranges *w, const tolk_allocator *al) {
    finder f = {.w = w};
    tk_vec_init(&b->pairs, al);
    tk_walk_map_init(&b->first, al);
    tk_vec_init(&f.loads, al);
    tk_vec_init(&f.waits, al);
    tk_vec_init(&f.repeats, al);
    tk_walk_map_init(&f.first_repeat, al);
    tolk_status st = find_loads(&f, al);
    if (st == TOLK_OK && f.loads.n)
        st = find_repeats(&f, al);
    if (st == TOLK_OK)
        st = find_pairs(b, &f);
    tk_vec_fini(&f.loads);
    tk_vec_fini(&f.waits);
    tk_vec_fini(&f.repeats);
    tk_walk_map_fini(&f.first_repeat);
    bool cycle = false;
    if (st == TOLK_OK && b->pairs.n)
        st = find_cycle(b, tk_vec_last(&w->nodes), al, &cycle);
    /* Loads and stores that wait for each other in a circle: no order is right. */
    if (st != TOLK_OK || cycle)
        tk_before_fini(b);
    return st;
}

void tk_before_fini(tk_before *b) {
    tk_vec_fini(&b->pairs);
    tk_walk_map_fini(&b->first);
}

const tk_before_pair *tk_before_of(const tk_before *b, const tolk_uop *store, uint32_t *n) {
    uint32_t first = b->pairs.n ? tk_walk_map_get(&b->first, store->id) : 0;
    *n = 0;
    if (!first)
        return NULL;
    const tk_before_pair *p = &b->pairs.at[first - 1];
    while (first - 1 + *n < b->pairs.n && p[*n].store == store)
        ++*n;
    return p;
}
