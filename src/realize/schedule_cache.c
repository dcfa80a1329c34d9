/* SPDX-License-Identifier: MIT */
#include "realize/schedule_cache.h"

#include "base/status.h"
#include "ir/import.h"

#include <pthread.h>
#include <string.h>

/* Immutable, but for what the lock is for. */
typedef struct entry {
    tk_hash128 key;
    tolk_graph *graph;
    const tolk_uop *sink, *list;
    size_t n_nodes;
    uint32_t refs;      /* under the lock: the table's, and those of threads that read it */
    uint64_t used;      /* number of the latest use, under the lock */
    struct entry *next; /* of those that nobody has any more */
} entry;

struct tk_schedule_cache {
    tolk_ctx *ctx;
    pthread_mutex_t lock;
    entry *at[TK_SCHEDULE_CACHE_ENTRIES];
    size_t n, n_nodes;
    uint64_t uses;
};

tolk_status tk_schedule_cache_create(tolk_ctx *ctx, tk_schedule_cache **out, tolk_error *err) {
    tk_schedule_cache *c = tk_alloc_zero(&ctx->al, sizeof *c);
    if (!c)
        return tk_status_nomem(err);
    c->ctx = ctx;
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return TOLK_OK;
}

static void free_all(tolk_ctx *ctx, entry *e) {
    for (entry *next; e; e = next) {
        next = e->next;
        tolk_graph_destroy(e->graph);
        tk_alloc_free(&ctx->al, e, sizeof *e);
    }
}

void tk_schedule_cache_destroy(tk_schedule_cache *c) {
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        free_all(c->ctx, c->at[i]);
    pthread_mutex_destroy(&c->lock);
    tk_alloc_free(&c->ctx->al, c, sizeof *c);
}

/* What other threads were reading keeps their references for ever; that does no harm. If the lock
 * was held the table may be half changed: it is left as it is, and the child begins an empty one.
 */
void tk_schedule_cache_forked(tk_schedule_cache *c) {
    if (!c)
        return;
    if (pthread_mutex_trylock(&c->lock) == 0) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    pthread_mutex_init(&c->lock, NULL);
    c->n = c->n_nodes = 0;
}

/* ---- under the lock ---- */

static entry *look(tk_schedule_cache *c, tk_hash128 key) {
    for (size_t i = 0; i < c->n; i++)
        if (memcmp(&c->at[i]->key, &key, sizeof key) == 0)
            return c->at[i];
    return NULL;
}

/* One reference less; without any it goes to the list *gone, which is freed without the lock. */
static void drop(entry *e, entry **gone) {
    if (--e->refs)
        return;
    e->next = *gone;
    *gone = e;
}

static void take_out(tk_schedule_cache *c, size_t i, entry **gone) {
    entry *e = c->at[i];
    c->at[i] = c->at[--c->n];
    c->n_nodes -= e->n_nodes;
    drop(e, gone);
}

static void take_oldest(tk_schedule_cache *c, entry **gone) {
    size_t oldest = 0;
    for (size_t i = 1; i < c->n; i++)
        if (c->at[i]->used < c->at[oldest]->used)
            oldest = i;
    take_out(c, oldest, gone);
}

static void add(tk_schedule_cache *c, entry *e, entry **gone) {
    if (e->n_nodes > TK_SCHEDULE_CACHE_NODES || look(c, e->key)) {
        drop(e, gone);
        return;
    }
    while (c->n == TK_SCHEDULE_CACHE_ENTRIES || c->n_nodes + e->n_nodes > TK_SCHEDULE_CACHE_NODES)
        take_oldest(c, gone);
    e->used = ++c->uses;
    c->at[c->n++] = e;
    c->n_nodes += e->n_nodes;
}

/* ---- finding and keeping ---- */

static void give_back(tk_schedule_cache *c, entry *e) {
    entry *gone = NULL;
    pthread_mutex_lock(&c->lock);
    drop(e, &gone);
    pthread_mutex_unlock(&c->lock);
    free_all(c->ctx, gone);
}

tolk_status tk_schedule_cache_find(tk_schedule_cache *c, tk_hash128 key, tolk_graph *g,
                                   const tolk_uop *sink, const tolk_uop **list, tolk_error *err) {
    *list = NULL;
    pthread_mutex_lock(&c->lock);
    entry *e = look(c, key);
    if (e) {
        e->refs++;
        e->used = ++c->uses;
    }
    pthread_mutex_unlock(&c->lock);
    if (!e)
        return TOLK_OK;
    const tolk_uop *known; /* equal nodes of a graph are one */
    tolk_status st = tk_import(g, e->sink, &known, err);
    if (st == TOLK_OK && known == sink)
        st = tk_import(g, e->list, list, err);
    give_back(c, e);
    return st;
}

static entry *make_entry(tolk_ctx *ctx, tk_hash128 key, const tolk_uop *sink,
                         const tolk_uop *list) {
    entry *e = tk_alloc_zero(&ctx->al, sizeof *e);
    if (!e || tk_graph_create(ctx, &e->graph) != TOLK_OK) {
        tk_alloc_free(&ctx->al, e, sizeof *e);
        return NULL;
    }
    if (tk_import(e->graph, sink, &e->sink, NULL) != TOLK_OK ||
        tk_import(e->graph, list, &e->list, NULL) != TOLK_OK) {
        free_all(ctx, e);
        return NULL;
    }
    e->key = key;
    e->n_nodes = e->graph->nodes.n;
    e->refs = 1;
    return e;
}

void tk_schedule_cache_put(tk_schedule_cache *c, tk_hash128 key, const tolk_uop *sink,
                           const tolk_uop *list) {
    entry *gone = NULL, *e = make_entry(c->ctx, key, sink, list);
    if (!e)
        return;
    pthread_mutex_lock(&c->lock);
    add(c, e, &gone);
    pthread_mutex_unlock(&c->lock);
    free_all(c->ctx, gone);
}

void tk_schedule_cache_clear(tk_schedule_cache *c) {
    entry *gone = NULL;
    pthread_mutex_lock(&c->lock);
    while (c->n)
        take_out(c, c->n - 1, &gone);
    pthread_mutex_unlock(&c->lock);
    free_all(c->ctx, gone);
}

size_t tk_schedule_cache_length(tk_schedule_cache *c) {
    pthread_mutex_lock(&c->lock);
    size_t n = c->n;
    pthread_mutex_unlock(&c->lock);
    return n;
}
