/* SPDX-License-Identifier: MIT
 *
 * The guarded cache: a hash table of entries. What is being built is an entry too, on a list of its
 * own, so that a clear or the end of a device can mark it: the builder finds the mark when it comes
 * back. That does what a counter for each device would do, but needs no memory for devices, so
 * evicting cannot fail.
 *
 * The counters are moved in the same critical section as the entries they count: at any time
 * built = stored + destroyed.
 */
#include "realize/guarded_cache.h"

#include "base/alloc.h"
#include "base/status.h"

#include <pthread.h>
#include <string.h>

/* ---- keys ---- */

typedef struct pair {
    tk_hash128 name, value;
} pair;

static tk_hash128 digest(const char *s) {
    return tk_hash128_bytes(s, strlen(s));
}

static pair pair_of(const char *const option[2]) {
    return (pair){digest(option[0]), digest(option[1])};
}

/* Options in an order that depends on them alone: by digest; equal ones are equal. */
static tk_hash128 digest_options(const char *const (*options)[2], size_t n) {
    struct {
        tk_hash128 before;
        pair next;
        uint64_t left;
    } step = {.left = n};
    size_t last = 0;
    for (size_t k = 0; k < n; k++) {
        /* The least of those above the one before it; of equals, the next one. */
        size_t least = n;
        pair found = {{0, 0}, {0, 0}};
        for (size_t i = 0; i < n; i++) {
            pair p = pair_of(options[i]);
            int above = k ? memcmp(&p, &step.next, sizeof p) : 1;
            if (above < 0 || (above == 0 && i <= last))
                continue;
            int less = least == n ? -1 : memcmp(&p, &found, sizeof p);
            if (less < 0) {
                least = i;
                found = p;
            }
        }
        last = least;
        step.next = found;
        step.left = n - k;
        step.before = tk_hash128_bytes(&step, sizeof step);
    }
    return tk_hash128_bytes(&step, sizeof step);
}

tk_guarded_cache_key tk_guarded_cache_key_make(const char *device, const char *name,
                                               const char *source, const char *const (*options)[2],
                                               size_t n) {
    return (tk_guarded_cache_key){digest(device), digest(name), digest(source),
                                  digest_options(options, n)};
}

/* ---- the table ---- */

enum { BUCKETS = 1024 };

typedef struct entry {
    struct entry *next, *prev; /* in its bucket, or of those being built; prev of the latter only */
    tk_guarded_cache_key key;
    uint64_t device; /* 0: none */
    void *value;
    uint32_t life;       /* of the cache, when its building began */
    bool stale, cleared; /* its device went, the cache was cleared while it was built */
} entry;

struct tk_guarded_cache {
    const tolk_allocator *al;
    const tk_guarded_cache_ops *ops;
    bool invalidated_by_clear;
    pthread_mutex_t lock;
    uint32_t life; /* changes when a fork left the table behind */
    entry *bucket[BUCKETS];
    entry *building;
    size_t stored;
    uint64_t hits, misses, built, destroyed;
};

tolk_status tk_guarded_cache_create(const tolk_allocator *al, const tk_guarded_cache_ops *ops,
                                    bool invalidated_by_clear, tk_guarded_cache **out,
                                    tolk_error *err) {
    tk_guarded_cache *c = tk_alloc_zero(al, sizeof *c);
    if (!c)
        return tk_status_nomem(err);
    c->al = al;
    c->ops = ops;
    c->invalidated_by_clear = invalidated_by_clear;
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return TOLK_OK;
}

static entry **bucket_of(tk_guarded_cache *c, const tk_guarded_cache_key *key) {
    uint64_t h = key->device.lo ^ key->name.lo ^ key->source.lo ^ key->options.lo;
    return &c->bucket[h % BUCKETS];
}

static entry *find(tk_guarded_cache *c, const tk_guarded_cache_key *key) {
    for (entry *e = *bucket_of(c, key); e; e = e->next)
        if (memcmp(&e->key, key, sizeof *key) == 0)
            return e;
    return NULL;
}

static void begin(tk_guarded_cache *c, entry *e) {
    e->life = c->life;
    e->next = c->building;
    e->prev = NULL;
    if (e->next)
        e->next->prev = e;
    c->building = e;
}

static void end(tk_guarded_cache *c, entry *e) {
    if (e->life != c->life)
        return; /* it is on a list that a fork left behind */
    *(e->prev ? &e->prev->next : &c->building) = e->next;
    if (e->next)
        e->next->prev = e->prev;
}

static void install(tk_guarded_cache *c, entry *e) {
    entry **head = bucket_of(c, &e->key);
    e->next = *head;
    *head = e;
    c->stored++;
}

/* Unlink all entries of a device, or all there are. Returns them as a list. */
static entry *take(tk_guarded_cache *c, bool all, uint64_t device) {
    entry *taken = NULL;
    for (size_t b = 0; b < BUCKETS; b++)
        for (entry **at = &c->bucket[b]; *at;) {
            entry *e = *at;
            if (!all && e->device != device) {
                at = &e->next;
                continue;
            }
            *at = e->next;
            e->next = taken;
            taken = e;
            c->stored--;
            c->destroyed++;
        }
    return taken;
}

/* Destroy the values of what was taken: all of them, whatever fails. */
static tolk_status destroy_all(tk_guarded_cache *c, entry *taken, tolk_error *err) {
    tolk_status first = TOLK_OK;
    for (entry *e = taken, *next; e; e = next) {
        next = e->next;
        tolk_error own = TOLK_ERROR_INIT;
        tolk_status st = c->ops->destroy(e->value, &own);
        if (st != TOLK_OK && first == TOLK_OK) {
            first = st;
            if (err)
                *err = own;
        }
        tk_alloc_free(c->al, e, sizeof *e);
    }
    return first;
}

void tk_guarded_cache_destroy(tk_guarded_cache *c) {
    if (!c)
        return;
    (void)destroy_all(c, take(c, true, 0), NULL);
    /* Only in the child of a fork: what other threads were building. */
    for (entry *e = c->building, *next; e; e = next) {
        next = e->next;
        tk_alloc_free(c->al, e, sizeof *e);
    }
    pthread_mutex_destroy(&c->lock);
    tk_alloc_free(c->al, c, sizeof *c);
}

/* Is it there? If not, and there is an entry for it, its building begins. */
static bool look(tk_guarded_cache *c, const tk_guarded_cache_key *key, entry *mine, void **value) {
    pthread_mutex_lock(&c->lock);
    const entry *hit = find(c, key);
    if (hit) {
        c->hits++;
        *value = c->ops->ref(hit->value);
    } else if (mine) {
        c->misses++;
        begin(c, mine);
    }
    pthread_mutex_unlock(&c->lock);
    return hit != NULL;
}

/* What became of a value that was built. */
typedef enum fate { INSTALLED, LOST, STALE, CLEARED } fate;

static fate decide(tk_guarded_cache *c, entry *mine, void **value) {
    const entry *winner = find(c, &mine->key);
    fate f = winner                                                                ? LOST
             : mine->stale                                                         ? STALE
             : c->invalidated_by_clear && (mine->cleared || mine->life != c->life) ? CLEARED
                                                                                   : INSTALLED;
    c->built++;
    if (f == INSTALLED)
        install(c, mine);
    else
        c->destroyed++;
    if (f == INSTALLED || f == LOST)
        *value = c->ops->ref(winner ? winner->value : mine->value);
    return f;
}

tolk_status tk_guarded_cache_find_or_build(tk_guarded_cache *c, const tk_guarded_cache_key *key,
                                           uint64_t device, tk_guarded_cache_build build,
                                           void *user, void **value, tolk_error *err) {
    if (look(c, key, NULL, value))
        return TOLK_OK;
    entry *mine = tk_alloc_zero(c->al, sizeof *mine);
    if (!mine)
        return tk_status_nomem(err);
    mine->key = *key;
    mine->device = device;
    if (look(c, key, mine, value)) {
        tk_alloc_free(c->al, mine, sizeof *mine);
        return TOLK_OK;
    }

    tolk_status st = build(user, &mine->value, err);

    fate f = LOST;
    pthread_mutex_lock(&c->lock);
    end(c, mine);
    if (st == TOLK_OK)
        f = decide(c, mine, value);
    pthread_mutex_unlock(&c->lock);
    if (st == TOLK_OK && f != INSTALLED) {
        tolk_error own = TOLK_ERROR_INIT;
        (void)c->ops->destroy(mine->value, &own);
    }
    if (st != TOLK_OK || f != INSTALLED)
        tk_alloc_free(c->al, mine, sizeof *mine);
    TK_TRY(st);
    if (f == STALE)
        return tk_status_fail(err, TOLK_E_DEVICE_DESTROYED, TK_NO_NODE,
                              "device with uid %llu was destroyed while a kernel was being made "
                              "for it",
                              (unsigned long long)device);
    if (f == CLEARED)
        return tk_status_fail(err, TOLK_E_CACHE_CLEARED, TK_NO_NODE,
                              "the kernel cache was cleared while a kernel was being made: try "
                              "again");
    return TOLK_OK;
}

/* ---- invalidating ---- */

tolk_status tk_guarded_cache_evict_device(tk_guarded_cache *c, uint64_t device, tolk_error *err) {
    if (!device)
        return TOLK_OK;
    pthread_mutex_lock(&c->lock);
    for (entry *e = c->building; e; e = e->next)
        e->stale |= e->device == device;
    entry *taken = take(c, false, device);
    pthread_mutex_unlock(&c->lock);
    return destroy_all(c, taken, err);
}

tolk_status tk_guarded_cache_drop(tk_guarded_cache *c, const tk_guarded_cache_key *key,
                                  tolk_error *err) {
    entry *taken = NULL;
    pthread_mutex_lock(&c->lock);
    for (entry **at = bucket_of(c, key); *at; at = &(*at)->next)
        if (memcmp(&(*at)->key, key, sizeof *key) == 0) {
            taken = *at;
            *at = taken->next;
            taken->next = NULL;
            c->stored--;
            c->destroyed++;
            break;
        }
    pthread_mutex_unlock(&c->lock);
    return destroy_all(c, taken, err);
}

tolk_status tk_guarded_cache_clear(tk_guarded_cache *c, tolk_error *err) {
    pthread_mutex_lock(&c->lock);
    for (entry *e = c->building; e; e = e->next)
        e->cleared = true;
    entry *taken = take(c, true, 0);
    pthread_mutex_unlock(&c->lock);
    return destroy_all(c, taken, err);
}

size_t tk_guarded_cache_length(tk_guarded_cache *c) {
    pthread_mutex_lock(&c->lock);
    size_t n = c->stored;
    pthread_mutex_unlock(&c->lock);
    return n;
}

void tk_guarded_cache_count(tk_guarded_cache *c, uint64_t *hits, uint64_t *misses, uint64_t *built,
                            uint64_t *destroyed) {
    pthread_mutex_lock(&c->lock);
    *hits = c->hits;
    *misses = c->misses;
    *built = c->built;
    *destroyed = c->destroyed;
    pthread_mutex_unlock(&c->lock);
}

/* What other threads were building is on the list for ever; that does no harm. If the lock was held
 * the table may be half changed: it is left as it is, and the child begins an empty one. */
void tk_guarded_cache_forked(tk_guarded_cache *c) {
    if (pthread_mutex_trylock(&c->lock) == 0) {
        pthread_mutex_unlock(&c->lock);
        return;
    }
    pthread_mutex_init(&c->lock, NULL);
    memset(c->bucket, 0, sizeof c->bucket);
    c->building = NULL;
    c->life++;
    c->stored = 0;
    c->built = c->destroyed = 0;
}
