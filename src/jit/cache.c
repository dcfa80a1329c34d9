/* SPDX-License-Identifier: MIT
 *
 * The binary cache in memory: a hash table of entries in the order of their use. An entry is made
 * by the first thread that asks; others wait for it on one condition variable.
 */
#include "jit/cache.h"

#include "base/hash.h"
#include "base/strbuf.h"
#include "jit/cache_disk.h"
#include "jit/module.h"
#include "jit/observe.h"

#include <string.h>

struct tk_binary {
    _Atomic uint32_t refs;
    char *bytes; /* text of base/strbuf.h */
    size_t len;
    pthread_mutex_t link_lock;
    tk_code_linked *code; /* NULL until somebody linked it */
    void *entry;
    tk_observed *observed; /* NULL: nobody was told of it */
};

typedef enum entry_state { BUILDING, READY } entry_state;

typedef struct entry {
    struct entry *next_in_bucket;
    struct entry *newer, *older; /* by use; READY entries only */
    tk_hash128 hash;
    void *key;
    size_t n_key;
    entry_state state;
    pthread_t builder;
    uint32_t users; /* threads that wait for it or build it: it stays */
    bool failed;    /* the build failed: whoever waits builds for himself */
    bool dropped;   /* out of the table: its last user frees it */
    tk_binary *binary;
} entry;

enum {
    BUCKETS = 1024,
    MEMORY_BYTES = 64 << 20 /* most of all entries; some thousand kernels of the usual size */
};

typedef struct cache {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry *bucket[BUCKETS];
    entry *newest, *oldest;
    uint64_t n_entries, n_bytes;
    uint64_t memory_hits, disk_hits, misses, evictions;
    tk_cache_disk disk;
} cache;

/* ---- binaries ---- */

tk_binary *tk_binary_create(tolk_ctx *ctx, char *bytes, size_t len) {
    tk_binary *b = tk_alloc_zero(&ctx->al, sizeof *b);
    if (!b)
        return NULL;
    atomic_init(&b->refs, 1);
    pthread_mutex_init(&b->link_lock, NULL);
    b->bytes = bytes;
    b->len = len;
    return b;
}

tk_binary *tk_binary_ref(tk_binary *b) {
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void tk_binary_unref(tolk_ctx *ctx, tk_binary *b) {
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    tk_observe_remove(ctx, b->observed);
    tk_code_unlink(ctx, b->code);
    tk_strbuf_text_free(&ctx->al, b->bytes);
    pthread_mutex_destroy(&b->link_lock);
    tk_alloc_free(&ctx->al, b, sizeof *b);
}

const void *tk_binary_bytes(const tk_binary *b, size_t *len) {
    *len = b->len;
    return b->bytes;
}

tolk_status tk_binary_link(tolk_ctx *ctx, tk_binary *b, const tk_backend *backend, size_t offset,
                           size_t n, const char *symbol, void **entry, size_t *code_bytes,
                           tolk_error *err) {
    tolk_status st = TOLK_OK;
    pthread_mutex_lock(&b->link_lock);
    if (!b->code) {
        st = (backend->load ? backend->load : tk_module_link)(ctx, b->bytes + offset, n, symbol,
                                                              &b->code, &b->entry, err);
    }
    if (st == TOLK_OK) {
        *entry = b->entry;
        *code_bytes = b->code->used;
    }
    pthread_mutex_unlock(&b->link_lock);
    return st;
}

void tk_binary_observe(tolk_ctx *ctx, tk_binary *b, size_t offset, size_t n, const char *kernel,
                       const char *symbol) {
    if (!tk_observe_wanted(ctx))
        return;
    pthread_mutex_lock(&b->link_lock);
    if (b->code && !b->observed)
        tk_observe_add(ctx, kernel, b->entry, b->bytes + offset, n, symbol, &b->observed);
    pthread_mutex_unlock(&b->link_lock);
}

/* ---- the table ---- */

static void free_entry(tolk_ctx *ctx, entry *e) {
    tk_binary_unref(ctx, e->binary);
    tk_alloc_free(&ctx->al, e->key, e->n_key);
    tk_alloc_free(&ctx->al, e, sizeof *e);
}

static void destroy(tolk_ctx *ctx, void *part) {
    cache *c = part;
    for (int i = 0; i < BUCKETS; i++)
        for (entry *e = c->bucket[i], *next; e; e = next) {
            next = e->next_in_bucket;
            free_entry(ctx, e);
        }
    tk_cache_disk_fini(&c->disk);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    tk_alloc_free(&ctx->al, c, sizeof *c);
}

/* In a child of fork() nobody builds what was being built. If the lock was held the table may be
 * half changed: the child begins an empty one. */
static void after_fork(tolk_ctx *ctx, void *part) {
    cache *c = part;
    if (pthread_mutex_trylock(&c->lock) != 0) {
        ctx->part[TK_CTX_CACHE] = NULL;
        return;
    }
    pthread_mutex_unlock(&c->lock);
    pthread_cond_init(&c->changed, NULL);
    for (int i = 0; i < BUCKETS; i++)
        for (entry **link = &c->bucket[i]; *link;) {
            entry *e = *link;
            e->users = 0;
            if (e->state == BUILDING) {
                *link = e->next_in_bucket;
                continue;
            }
            if (pthread_mutex_trylock(&e->binary->link_lock) == 0)
                pthread_mutex_unlock(&e->binary->link_lock);
            else
                pthread_mutex_init(&e->binary->link_lock, NULL);
            link = &e->next_in_bucket;
        }
}

static cache *state(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    cache *c = ctx->part[TK_CTX_CACHE];
    bool made = false;
    if (!c && (c = tk_alloc_zero(&ctx->al, sizeof *c))) {
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->changed, NULL);
        ctx->part_destroy[TK_CTX_CACHE] = destroy;
        ctx->part_fork[TK_CTX_CACHE] = after_fork;
        ctx->part[TK_CTX_CACHE] = c;
        made = true;
        pthread_mutex_lock(&c->lock); /* nobody uses it before its directory is known */
    }
    pthread_mutex_unlock(&ctx->log_lock);
    if (made) {
        tk_cache_disk_init(&c->disk, ctx);
        pthread_mutex_unlock(&c->lock);
    }
    return c;
}

static entry **bucket_of(cache *c, tk_hash128 h) {
    return &c->bucket[h.lo % BUCKETS];
}

static entry *find(cache *c, tk_hash128 h, const void *key, size_t n) {
    for (entry *e = *bucket_of(c, h); e; e = e->next_in_bucket)
        if (e->hash.lo == h.lo && e->hash.hi == h.hi && e->n_key == n &&
            memcmp(e->key, key, n) == 0)
            return e;
    return NULL;
}

static void unlink_use(cache *c, entry *e) {
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(cache *c, entry *e) {
    e->older = c->newest;
    e->newer = NULL;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

/* Take it out of the table; it is freed here or by its last user. */
static void drop(tolk_ctx *ctx, cache *c, entry *e) {
    entry **link = bucket_of(c, e->hash);
    while (*link && *link != e)
        link = &(*link)->next_in_bucket;
    if (*link) /* not in a child of fork() that builds on */
        *link = e->next_in_bucket;
    e->dropped = true;
    if (e->state == READY) {
        unlink_use(c, e);
        c->n_entries--;
        c->n_bytes -= e->binary->len;
    }
    if (!e->users)
        free_entry(ctx, e);
}

static entry *add(tolk_ctx *ctx, cache *c, tk_hash128 h, const void *key, size_t n) {
    entry *e = tk_alloc_zero(&ctx->al, sizeof *e);
    void *copy = tk_alloc(&ctx->al, n);
    if (!e || !copy) {
        tk_alloc_free(&ctx->al, e, sizeof *e);
        tk_alloc_free(&ctx->al, copy, n);
        return NULL;
    }
    memcpy(copy, key, n);
    *e = (entry){.next_in_bucket = *bucket_of(c, h),
                 .hash = h,
                 .key = copy,
                 .n_key = n,
                 .state = BUILDING,
                 .builder = pthread_self()};
    *bucket_of(c, h) = e;
    return e;
}

/* From disk, else by building. No lock is held. */
static tolk_status make(tolk_ctx *ctx, cache *c, const void *key, size_t n_key, bool bypass,
                        tk_cache_check check, tk_cache_build build, void *user, tk_binary **out,
                        tolk_cached *where, tolk_error *err) {
    char *bytes = NULL;
    size_t len;
    *where = TOLK_CACHED_NONE;
    if (!bypass && tk_cache_disk_read(&c->disk, key, n_key, &bytes, &len)) {
        if (check(user, bytes, len)) {
            *where = TOLK_CACHED_DISK;
        } else {
            atomic_fetch_add(&c->disk.damaged, 1);
            tk_strbuf_text_free(&ctx->al, bytes);
            bytes = NULL;
        }
    }
    *out = NULL;
    if (!bytes && !build)
        return TOLK_OK;
    if (!bytes) {
        TK_TRY(build(user, &bytes, &len, err));
        if (!bypass)
            tk_cache_disk_write(&c->disk, key, n_key, bytes, len);
    }
    *out = tk_binary_create(ctx, bytes, len);
    if (!*out) {
        tk_strbuf_text_free(&ctx->al, bytes);
        return tk_status_nomem(err);
    }
    return TOLK_OK;
}

/* The entry's turn is over: with a binary it becomes ready, without one it goes. */
static void finish(tolk_ctx *ctx, cache *c, entry *e, tk_binary *binary) {
    e->users--;
    if (binary) {
        e->binary = tk_binary_ref(binary);
        e->state = READY;
        link_newest(c, e);
        c->n_entries++;
        c->n_bytes += binary->len;
        while ((c->n_entries > ctx->memory_entries || c->n_bytes > MEMORY_BYTES) &&
               c->oldest != e) {
            c->evictions++;
            drop(ctx, c, c->oldest);
        }
    } else {
        e->failed = true;
        drop(ctx, c, e);
    }
    pthread_cond_broadcast(&c->changed);
}

tolk_status tk_cache_get(tolk_ctx *ctx, const void *key, size_t n_key, bool bypass,
                         tk_cache_check check, tk_cache_build build, void *user, tk_binary **out,
                         tolk_cached *where, tolk_error *err) {
    cache *c = state(ctx);
    if (!c)
        return tk_status_nomem(err);
    if (bypass)
        return make(ctx, c, key, n_key, true, check, build, user, out, where, err);
    tk_hash128 h = tk_hash128_bytes(key, n_key);
    entry *mine = NULL;
    bool alone = false; /* this thread is building the key already: build beside the table */
    pthread_mutex_lock(&c->lock);
    while (!mine && !alone) {
        entry *e = find(c, h, key, n_key);
        if (e && e->state == READY) {
            c->memory_hits++;
            unlink_use(c, e);
            link_newest(c, e);
            *out = tk_binary_ref(e->binary);
            *where = TOLK_CACHED_MEMORY;
            pthread_mutex_unlock(&c->lock);
            return TOLK_OK;
        }
        if (!e) {
            mine = add(ctx, c, h, key, n_key);
            if (!mine)
                break;
            mine->users = 1;
        } else if (!build) { /* nobody waits to look */
            pthread_mutex_unlock(&c->lock);
            *out = NULL;
            *where = TOLK_CACHED_NONE;
            return TOLK_OK;
        } else if (pthread_equal(e->builder, pthread_self())) {
            alone = true;
        } else {
            e->users++;
            while (e->state == BUILDING && !e->failed)
                pthread_cond_wait(&c->changed, &c->lock);
            e->users--;
            /* It may be ready and out of the table again. */
            bool ready = e->state == READY;
            if (ready) {
                c->memory_hits++;
                *out = tk_binary_ref(e->binary);
                *where = TOLK_CACHED_MEMORY;
            }
            if (e->dropped && !e->users)
                free_entry(ctx, e);
            if (ready) {
                pthread_mutex_unlock(&c->lock);
                return TOLK_OK;
            }
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (!mine && !alone)
        return tk_status_nomem(err);
    tk_binary *binary = NULL;
    tolk_status st = make(ctx, c, key, n_key, false, check, build, user, &binary, where, err);
    pthread_mutex_lock(&c->lock);
    if (*where == TOLK_CACHED_DISK)
        c->disk_hits++;
    else
        c->misses += build != NULL;
    if (mine)
        finish(ctx, c, mine, binary);
    pthread_mutex_unlock(&c->lock);
    if (st == TOLK_OK)
        *out = binary;
    return st;
}

/* ---- public ---- */

tolk_status tolk_cache_get_stats(tolk_ctx *ctx, tolk_cache_stats *out) {
    if (!ctx || !out)
        return TOLK_E_ARG;
    tk_ctx_after_fork(ctx);
    cache *c = state(ctx);
    if (!c)
        return TOLK_E_NOMEM;
    tolk_cache_stats s;
    memset(&s, 0, sizeof s);
    pthread_mutex_lock(&c->lock);
    s.memory_hits = c->memory_hits;
    s.disk_hits = c->disk_hits;
    s.misses = c->misses;
    s.evictions = c->evictions;
    s.memory_entries = c->n_entries;
    s.memory_bytes = c->n_bytes;
    pthread_mutex_unlock(&c->lock);
    tk_cache_disk_stats(&c->disk, &s);
    *out = s;
    return TOLK_OK;
}

tolk_status tk_cache_clear(tolk_ctx *ctx, tolk_error *err) {
    cache *c = state(ctx);
    if (!c)
        return tk_status_nomem(err);
    pthread_mutex_lock(&c->lock);
    while (c->oldest)
        drop(ctx, c, c->oldest);
    pthread_mutex_unlock(&c->lock);
    return tk_cache_disk_clear(&c->disk, err);
}
