/* SPDX-License-Identifier: MIT */
#include "ir/walk.h"

#include <string.h>

/* ---- numbers by node ---- */

void tk_walk_map_init(tk_walk_map *map, const tolk_allocator *al) {
    *map = (tk_walk_map){.al = al};
}

void tk_walk_map_fini(tk_walk_map *map) {
    for (size_t i = 0; i < map->n_pages; i++)
        tk_alloc_free(map->al, map->page[i], TK_WALK_PAGE * sizeof **map->page);
    tk_alloc_free(map->al, map->page, map->n_pages * sizeof *map->page);
    map->page = NULL;
    map->n_pages = 0;
}

bool tk_walk_map_put(tk_walk_map *map, uint32_t id, uint32_t value) {
    size_t p = id / TK_WALK_PAGE;
    if (p >= map->n_pages) {
        size_t n = p + 1 > 2 * map->n_pages ? p + 1 : 2 * map->n_pages;
        uint32_t **page = tk_alloc_zero(map->al, n * sizeof *page);
        if (!page)
            return false;
        if (map->n_pages)
            memcpy(page, map->page, map->n_pages * sizeof *page);
        tk_alloc_free(map->al, map->page, map->n_pages * sizeof *page);
        map->page = page;
        map->n_pages = n;
    }
    if (!map->page[p]) {
        map->page[p] = tk_alloc_zero(map->al, TK_WALK_PAGE * sizeof **map->page);
        if (!map->page[p])
            return false;
    }
    map->page[p][id % TK_WALK_PAGE] = value;
    return true;
}

/* ---- post-order ---- */

typedef struct frame {
    const tolk_uop *u;
    uint32_t next; /* source to look at */
} frame;

tolk_status tk_walk_gated(const tolk_uop *root, bool (*enter)(const tolk_uop *u, void *user),
                          void *user, tk_walk_list *out) {
    const tolk_allocator *al = root->graph->al;
    TK_VEC(frame) stack;
    tk_walk_map seen;
    tk_vec_init(&stack, al);
    tk_walk_map_init(&seen, al);
    bool ok = tk_walk_map_put(&seen, root->id, 1) && tk_vec_push(&stack, ((frame){root, 0}));
    if (ok && enter && !enter(root, user))
        stack.at[0].next = UINT32_MAX;
    while (ok && stack.n) {
        frame *f = &tk_vec_last(&stack);
        if (f->next >= f->u->n_src) {
            ok = tk_vec_push(out, f->u);
            (void)tk_vec_pop(&stack);
            continue;
        }
        const tolk_uop *s = f->u->src[f->next++];
        if (tk_walk_map_get(&seen, s->id))
            continue;
        uint32_t first = enter && !enter(s, user) ? UINT32_MAX : 0;
        ok = tk_walk_map_put(&seen, s->id, 1) && tk_vec_push(&stack, ((frame){s, first}));
    }
    tk_walk_map_fini(&seen);
    tk_vec_fini(&stack);
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

tolk_status tk_walk(const tolk_uop *root, tk_walk_list *out) {
    return tk_walk_gated(root, NULL, NULL, out);
}

tolk_status tk_walk_repeated(const tolk_uop *end, tk_walk_list *out) {
    tk_walk_map seen;
    tk_walk_map_init(&seen, end->graph->al);
    size_t next = out->n;
    bool ok = tk_vec_push(out, end->src[0]);
    for (; ok && next < out->n; next++) {
        const tolk_uop *u = out->at[next];
        bool joins = tk_uop_is(u, TK_OP_GROUP) || tk_uop_is(u, TK_OP_BARRIER);
        uint32_t n = joins ? u->n_src : tk_uop_is(u, TK_OP_END) ? 1 : 0;
        for (uint32_t i = 0; i < n && ok; i++)
            if (!tk_walk_map_get(&seen, u->src[i]->id))
                ok = tk_walk_map_put(&seen, u->src[i]->id, 1) && tk_vec_push(out, u->src[i]);
    }
    tk_walk_map_fini(&seen);
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

/* ---- dependence on ranges ---- */

uint32_t tk_walk_closes_from(const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_REDUCE:
    case TK_OP_END:
    case TK_OP_STAGE:
    case TK_OP_COPY:
    case TK_OP_CALL:
        return 1;
    default:
        return UINT32_MAX;
    }
}

/* Sets are interned, since most nodes share theirs with a neighbour; `index` finds a set by its
 * hash (the next free hash where two differ), `joins` the union of two sets. */
typedef struct builder {
    tk_walk_ranges *w;
    tk_map index, joins;
    uint64_t *work;
} builder;

static uint64_t *words_of(tk_walk_ranges *w, uint32_t set) {
    return w->words.at + set * w->n_words;
}

/* Number of the set in b->work; false when out of memory. */
static bool intern_set(builder *b, uint32_t *out) {
    tk_walk_ranges *w = b->w;
    size_t bytes = w->n_words * sizeof *b->work;
    uint64_t h = tk_hash64_bytes(b->work, bytes);
    for (uint64_t *at; (at = tk_map_find(&b->index, h)) != NULL; h++)
        if (memcmp(words_of(w, (uint32_t)*at), b->work, bytes) == 0) {
            *out = (uint32_t)*at;
            return true;
        }
    size_t n = w->words.n;
    *out = (uint32_t)(n / w->n_words);
    if (!tk_map_put(&b->index, h, *out) || !tk_vec_resize(&w->words, n + w->n_words))
        return false;
    memcpy(w->words.at + n, b->work, bytes);
    return true;
}

static bool join(builder *b, uint32_t x, uint32_t y, uint32_t *out) {
    if (x == y || y == 0) {
        *out = x;
        return true;
    }
    if (x == 0) {
        *out = y;
        return true;
    }
    uint64_t key = x < y ? (uint64_t)x << 32 | y : (uint64_t)y << 32 | x;
    const uint64_t *known = tk_map_find(&b->joins, key);
    if (known) {
        *out = (uint32_t)*known;
        return true;
    }
    for (size_t i = 0; i < b->w->n_words; i++)
        b->work[i] = words_of(b->w, x)[i] | words_of(b->w, y)[i];
    return intern_set(b, out) && tk_map_put(&b->joins, key, *out);
}

/* A range is itself and what its size depends on; its parents say only where it is nested. */
static bool set_of_node(builder *b, const tolk_uop *u, uint32_t *out) {
    tk_walk_ranges *w = b->w;
    bool is_range = tk_uop_is(u, TK_OP_RANGE);
    uint32_t n = is_range ? 1 : u->n_src;
    uint32_t set = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!join(b, set, tk_walk_map_get(&w->set_of, u->src[i]->id) - 1, &set))
            return false;
    uint32_t closes = tk_walk_closes_from(u);
    if (!is_range && closes >= u->n_src) {
        *out = set;
        return true;
    }
    memcpy(b->work, words_of(w, set), w->n_words * sizeof *b->work);
    if (is_range) {
        uint32_t r = tk_walk_map_get(&w->number_of, u->id) - 1;
        b->work[r / 64] |= (uint64_t)1 << r % 64;
    }
    for (uint32_t i = closes; i < u->n_src; i++)
        if (tk_uop_is(u->src[i], TK_OP_RANGE)) {
            uint32_t r = tk_walk_map_get(&w->number_of, u->src[i]->id) - 1;
            b->work[r / 64] &= ~((uint64_t)1 << r % 64);
        }
    return intern_set(b, out);
}

tolk_status tk_walk_ranges_init(tk_walk_ranges *w, const tolk_uop *root, const tolk_allocator *al) {
    memset(w, 0, sizeof *w);
    tk_vec_init(&w->nodes, al);
    tk_vec_init(&w->ranges, al);
    tk_vec_init(&w->words, al);
    tk_walk_map_init(&w->set_of, al);
    tk_walk_map_init(&w->number_of, al);
    TK_TRY(tk_walk(root, &w->nodes));
    for (size_t i = 0; i < w->nodes.n; i++) {
        const tolk_uop *u = w->nodes.at[i];
        if (!tk_uop_is(u, TK_OP_RANGE))
            continue;
        if (w->ranges.n == TK_WALK_MAX_RANGES)
            return TOLK_E_LIMIT;
        if (!tk_vec_push(&w->ranges, u) ||
            !tk_walk_map_put(&w->number_of, u->id, (uint32_t)w->ranges.n))
            return TOLK_E_NOMEM;
    }
    w->n_words = w->ranges.n / 64 + 1;
    builder b = {.w = w, .work = tk_alloc_zero(al, w->n_words * sizeof *b.work)};
    tk_map_init(&b.index, al);
    tk_map_init(&b.joins, al);
    uint32_t set;
    bool ok = b.work && intern_set(&b, &set);
    for (size_t i = 0; ok && i < w->nodes.n; i++)
        ok = set_of_node(&b, w->nodes.at[i], &set) &&
             tk_walk_map_put(&w->set_of, w->nodes.at[i]->id, set + 1);
    tk_map_fini(&b.index);
    tk_map_fini(&b.joins);
    tk_alloc_free(al, b.work, w->n_words * sizeof *b.work);
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

void tk_walk_ranges_fini(tk_walk_ranges *w) {
    tk_vec_fini(&w->nodes);
    tk_vec_fini(&w->ranges);
    tk_vec_fini(&w->words);
    tk_walk_map_fini(&w->set_of);
    tk_walk_map_fini(&w->number_of);
}

const uint64_t *tk_walk_ranges_of(const tk_walk_ranges *w, const tolk_uop *u) {
    uint32_t set = tk_walk_map_get(&w->set_of, u->id);
    return set ? w->words.at + (set - 1) * w->n_words : NULL;
}

uint32_t tk_walk_ranges_set(const tk_walk_ranges *w, const tolk_uop *u) {
    uint32_t set = tk_walk_map_get(&w->set_of, u->id);
    TK_ASSERT(set);
    return set - 1;
}

int32_t tk_walk_ranges_number(const tk_walk_ranges *w, const tolk_uop *range) {
    return (int32_t)tk_walk_map_get(&w->number_of, range->id) - 1;
}

bool tk_walk_ranges_has(const tk_walk_ranges *w, const tolk_uop *u, const tolk_uop *range) {
    const uint64_t *set = tk_walk_ranges_of(w, u);
    int32_t r = tk_walk_ranges_number(w, range);
    return set && r >= 0 && (set[r / 64] >> r % 64 & 1);
}
