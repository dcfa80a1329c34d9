/* SPDX-License-Identifier: MIT */
#include "realize/memory.h"

#include "base/env.h"
#include "base/log.h"
#include "base/poison.h"
#include "base/status.h"
#include "realize/pool.h"
#include "realize/realize.h"
#include "realize/uses.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 64, POISON = 0xcb, LEAKS_LISTED = 20 };

struct tk_memory {
    tk_book *book;
    void *at;
    size_t bytes, alignment;
    uint64_t number; /* of this allocation; 0: external */
    uint32_t flags;
    bool external;
    _Atomic bool is_stored; /* memory.h */
    _Atomic size_t refs;
    void (*release)(void *user); /* of external memory */
    void *user;
    tk_memory *next, *prev; /* among those alive */
    /* While it is kept. The latest one of its key stands in the chain of its bucket; behind it
     * (`below`) stand the others, latest first. */
    tk_memory *newer, *older, *chain, *above, *below;
    tk_uses uses;
    char label[32];
};

static const tk_memory_ops *ops_of(const tk_book *book) {
    return book->device->backend->memory;
}

/* ---- kept memory; all of this under the lock ---- */

static tk_memory **bucket_of(tk_book *book, size_t bytes, size_t alignment, uint32_t flags) {
    uint64_t h = (bytes ^ (uint64_t)alignment << 40 ^ (uint64_t)flags << 60) * 0x9e3779b97f4a7c15u;
    return &book->bucket[h >> 56];
}

static bool has_key(const tk_memory *m, size_t bytes, size_t alignment, uint32_t flags) {
    return m->bytes == bytes && m->alignment == alignment && m->flags == flags;
}

static void kept_add(tk_book *book, tk_memory *m) {
    tk_memory **at = bucket_of(book, m->bytes, m->alignment, m->flags);
    while (*at && !has_key(*at, m->bytes, m->alignment, m->flags))
        at = &(*at)->chain;
    m->above = NULL;
    m->below = *at;
    m->chain = *at ? (*at)->chain : NULL;
    if (*at)
        (*at)->above = m;
    *at = m;
    m->older = book->newest;
    m->newer = NULL;
    *(book->newest ? &book->newest->newer : &book->oldest) = m;
    book->newest = m;
    book->n_kept++;
    book->stats.cached_bytes += m->bytes;
}

static void kept_remove(tk_book *book, tk_memory *m) {
    if (m->above) {
        m->above->below = m->below;
    } else {
        tk_memory **at = bucket_of(book, m->bytes, m->alignment, m->flags);
        while (*at != m)
            at = &(*at)->chain;
        *at = m->below ? m->below : m->chain;
        if (m->below)
            m->below->chain = m->chain;
    }
    if (m->below)
        m->below->above = m->above;
    *(m->newer ? &m->newer->older : &book->newest) = m->older;
    *(m->older ? &m->older->newer : &book->oldest) = m->newer;
    book->n_kept--;
    book->stats.cached_bytes -= m->bytes;
}

/* Remove the oldest ones until they fit; the list of them goes by `older`. */
static tk_memory *kept_evict(tk_book *book, uint64_t limit, uint32_t most) {
    tk_memory *out = NULL;
    while (book->oldest && (book->stats.cached_bytes > limit || book->n_kept > most)) {
        tk_memory *m = book->oldest;
        kept_remove(book, m);
        m->older = out;
        out = m;
    }
    return out;
}

/* ---- those alive; under the lock ---- */

static void live_add(tk_book *book, tk_memory *m) {
    m->prev = NULL;
    m->next = book->torn ? NULL : book->live;
    if (book->torn)
        return;
    if (m->next)
        m->next->prev = m;
    book->live = m;
}

static void live_remove(tk_book *book, tk_memory *m) {
    if (book->torn)
        return;
    *(m->prev ? &m->prev->next : &book->live) = m->next;
    if (m->next)
        m->next->prev = m->prev;
}

/* ---- giving it back; with no lock ---- */

static size_t raw_bytes(const tk_memory *m) {
    return m->bytes ? m->bytes : 1;
}

/* Bytes nobody may use any more, so that who does sees it. */
static void poison(const tk_memory *m) {
    (void)m;
#ifndef NDEBUG
    if (ops_of(m->book)->host_visible)
        memset(m->at, POISON, m->bytes);
#endif
}

static void give_back(tk_memory *m) {
    tk_book *book = m->book;
    const tolk_allocator *al = &book->device->ctx->al;
    if (m->external) {
        if (m->release)
            m->release(m->user);
    } else {
        if (ops_of(book)->host_visible)
            TK_UNPOISON(m->at, m->bytes);
        ops_of(book)->release(book->device, m->at, raw_bytes(m), m->alignment);
    }
    tk_uses_fini(&m->uses, al);
    tk_alloc_free(al, m, sizeof *m);
}

static void give_back_all(tk_memory *m) {
    while (m) {
        tk_memory *next = m->older;
        give_back(m);
        m = next;
    }
}

void tk_memory_trim(tk_book *book) {
    pthread_mutex_lock(&book->lock);
    tk_memory *out = kept_evict(book, 0, 0);
    pthread_mutex_unlock(&book->lock);
    give_back_all(out);
}

/* ---- allocating ---- */

static void set_label(tk_memory *m, const char *label) {
    size_t n = label ? strnlen(label, sizeof m->label - 1) : 0;
    if (n)
        memcpy(m->label, label, n);
    m->label[n] = 0;
}

/* It has an owner: count it. Under the lock. */
static void begin(tk_book *book, tk_memory *m) {
    atomic_store_explicit(&m->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&m->is_stored, m->external, memory_order_relaxed);
    live_add(book, m);
    if (m->external)
        return;
    tolk_memory_stats *s = &book->stats;
    m->number = ++s->allocs;
    s->live_bytes += m->bytes;
    s->peak_bytes = s->live_bytes > s->peak_bytes ? s->live_bytes : s->peak_bytes;
}

static tk_memory *kept_find(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                            const char *label) {
    pthread_mutex_lock(&book->lock);
    tk_memory *m = *bucket_of(book, bytes, alignment, flags);
    while (m && !has_key(m, bytes, alignment, flags))
        m = m->chain;
    if (m) {
        kept_remove(book, m);
        set_label(m, label);
        begin(book, m);
    }
    pthread_mutex_unlock(&book->lock);
    if (m && ops_of(book)->host_visible)
        TK_UNPOISON(m->at, m->bytes);
    return m;
}

static tk_memory *make(tk_book *book, void *at, size_t bytes, const char *label) {
    tk_memory *m = tk_alloc_zero(&book->device->ctx->al, sizeof *m);
    if (!m)
        return NULL;
    m->book = book;
    m->at = at;
    m->bytes = bytes;
    atomic_init(&m->refs, 1);
    tk_uses_init(&m->uses);
    set_label(m, label);
    return m;
}

tk_memory *tk_memory_try(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                         const char *label) {
    TK_ASSERT((alignment & (alignment - 1)) == 0);
    alignment = alignment < ALIGN ? ALIGN : alignment;
    tk_memory *m = NULL;
    if (!(flags & TK_MEMORY_NO_REUSE))
        m = kept_find(book, bytes, alignment, flags, label);
    if (m)
        return m;
    m = make(book, NULL, bytes, label);
    if (!m)
        return NULL;
    m->alignment = alignment;
    m->flags = flags;
    m->at = ops_of(book)->alloc(book->device, raw_bytes(m), alignment);
    if (!m->at) {
        tk_alloc_free(&book->device->ctx->al, m, sizeof *m);
        return NULL;
    }
    pthread_mutex_lock(&book->lock);
    begin(book, m);
    pthread_mutex_unlock(&book->lock);
    return m;
}

void tk_memory_reclaim(tk_book *book, size_t bytes) {
    tolk_device *device = book->device;
    tk_device_state *s = tk_device_state_of(device);
    /* What fails here is not what was asked for. */
    (void)tk_queue_wait(s->queue, tk_queue_now(s->queue), NULL);
    tk_memory_trim(book);
    tolk_hook_event event = {.kind = TOLK_HOOK_RECLAIM,
                             .framework = device->backend->framework,
                             .ordinal = s->ordinal,
                             .uid = s->uid,
                             .bytes = bytes};
    (void)tk_hooks_notify(tk_realize_of(device->ctx)->hooks, &event, NULL);
    tk_memory_trim(book); /* what the hooks freed */
    pthread_mutex_lock(&book->lock);
    book->stats.reclaims++;
    pthread_mutex_unlock(&book->lock);
}

tolk_status tk_memory_none(const tk_book *book, size_t bytes, const char *label, tolk_error *err) {
    bool named = label && *label;
    return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE, "no memory for %zu bytes on %s%s%.31s%s",
                          bytes, book->device->name, named ? " (\"" : "", named ? label : "",
                          named ? "\")" : "");
}

tolk_status tk_memory_alloc(tk_book *book, size_t bytes, size_t alignment, uint32_t flags,
                            const char *label, tk_memory **out, tolk_error *err) {
    tk_memory *m = tk_memory_try(book, bytes, alignment, flags, label);
    if (!m) {
        tk_memory_reclaim(book, bytes);
        m = tk_memory_try(book, bytes, alignment, flags, label);
    }
    if (!m)
        return tk_memory_none(book, bytes, label, err);
    *out = m;
    return TOLK_OK;
}

tolk_status tk_memory_wrap(tk_book *book, void *at, size_t bytes, void (*release)(void *user),
                           void *user, tk_memory **out, tolk_error *err) {
    tk_memory *m = make(book, at, bytes, "external");
    if (!m)
        return tk_status_nomem(err);
    m->external = true;
    m->release = release;
    m->user = user;
    pthread_mutex_lock(&book->lock);
    begin(book, m);
    pthread_mutex_unlock(&book->lock);
    *out = m;
    return TOLK_OK;
}

tk_memory *tk_memory_ref(tk_memory *m) {
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void tk_memory_unref(tk_memory *m) {
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    tk_book *book = m->book;
    /* Whoever used it had a reference until that was over. */
    m->uses.n = 0;
    if (!m->external)
        poison(m);
    bool keep = !m->external && !(m->flags & TK_MEMORY_NO_REUSE);
    if (keep && ops_of(book)->host_visible)
        TK_POISON(m->at, m->bytes);
    tk_memory *out = NULL;
    pthread_mutex_lock(&book->lock);
    live_remove(book, m);
    if (!m->external) {
        book->stats.live_bytes -= m->bytes;
        book->stats.frees++;
    }
    keep = keep && !book->closed && m->bytes <= book->kept_limit && book->kept_limit;
    if (keep) {
        kept_add(book, m);
        out = kept_evict(book, book->kept_limit, TK_KEPT_MOST);
    }
    pthread_mutex_unlock(&book->lock);
    give_back_all(out);
    if (!keep)
        give_back(m);
}

void *tk_memory_at(const tk_memory *m) {
    return m->at;
}

size_t tk_memory_bytes(const tk_memory *m) {
    return m->bytes;
}

uint64_t tk_memory_number(const tk_memory *m) {
    return m->number;
}

bool tk_memory_is_stored(const tk_memory *m) {
    return atomic_load_explicit(&m->is_stored, memory_order_relaxed);
}

void tk_memory_set_stored(tk_memory *m) {
    if (!tk_memory_is_stored(m)) /* what is set already is not taken from other cores */
        atomic_store_explicit(&m->is_stored, true, memory_order_relaxed);
}

/* ---- the book ---- */

/* An eighth of the machine's memory. */
static int64_t default_limit(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (int64_t)pages * page / 8 : 0;
}

tolk_status tk_book_init(tk_book *book, tolk_device *device, tolk_error *err) {
    *book = (tk_book){.device = device};
    book->kept_limit =
        (uint64_t)tk_env_int(device->ctx, "TOLK_FREELIST_BYTES", default_limit(), 0, INT64_MAX);
    tolk_status st = tk_pools_create(&device->ctx->al, &book->pools, err);
    if (st != TOLK_OK)
        return st;
    pthread_mutex_init(&book->lock, NULL);
    pthread_mutex_init(&book->handles, NULL);
    return TOLK_OK;
}

void tk_book_close(tk_book *book) {
    pthread_mutex_lock(&book->lock);
    book->closed = true;
    pthread_mutex_unlock(&book->lock);
    tk_pools_clear(book);
    tk_memory_trim(book);
}

/* Debug builds tell what was never freed. */
static void list_leaks(const tk_book *book) {
#ifndef NDEBUG
    tolk_ctx *ctx = book->device->ctx;
    size_t listed = 0, more = 0;
    for (const tk_memory *m = book->live; m; m = m->next) {
        if (m->external)
            continue;
        if (listed == LEAKS_LISTED) {
            more++;
            continue;
        }
        listed++;
        tk_log(ctx, TOLK_LOG_WARNING, "%s: %zu bytes of \"%s\" were never freed",
               book->device->name, m->bytes, m->label);
    }
    if (more)
        tk_log(ctx, TOLK_LOG_WARNING, "%s: and %zu more were never freed", book->device->name,
               more);
#else
    (void)book;
#endif
}

/* A release may give back other memory of the list, and be what keeps it: so each is looked for
 * anew, and what it belongs to stays until all were called. */
void tk_book_release_external(tk_book *book) {
    for (;;) {
        pthread_mutex_lock(&book->lock);
        tk_memory *m = book->torn ? NULL : book->live;
        while (m && !m->release)
            m = m->next;
        void (*release)(void *user) = m ? m->release : NULL;
        void *user = m ? m->user : NULL;
        if (m)
            m->release = NULL;
        pthread_mutex_unlock(&book->lock);
        if (!release)
            return;
        release(user);
    }
}

void tk_book_fini(tk_book *book) {
    tk_book_close(book);
    if (!book->torn)
        list_leaks(book);
    while (book->live && !book->torn) {
        tk_memory *m = book->live;
        live_remove(book, m);
        give_back(m);
    }
    tk_pools_destroy(book->pools);
    pthread_mutex_destroy(&book->lock);
    pthread_mutex_destroy(&book->handles);
}

void tk_book_forked(tk_book *book) {
    if (pthread_mutex_trylock(&book->handles) == 0)
        pthread_mutex_unlock(&book->handles);
    else
        pthread_mutex_init(&book->handles, NULL);
    if (pthread_mutex_trylock(&book->lock) == 0) {
        pthread_mutex_unlock(&book->lock);
        return;
    }
    /* A thread that does not exist here was changing the lists. */
    pthread_mutex_init(&book->lock, NULL);
    book->torn = true;
    book->kept_limit = 0;
    book->newest = book->oldest = NULL;
    book->n_kept = 0;
    book->stats.cached_bytes = 0;
    memset(book->bucket, 0, sizeof book->bucket);
}

/* ---- the order of commands that use the same bytes ---- */

static size_t queues_of(const tolk_ctx *ctx) {
    return atomic_load_explicit(&tk_realize_of(ctx)->queues, memory_order_relaxed);
}

void tk_memory_order_lock(tolk_ctx *ctx) {
    tk_queue_delay();
    pthread_mutex_lock(&tk_realize_of(ctx)->order);
}

void tk_memory_order_unlock(tolk_ctx *ctx) {
    pthread_mutex_unlock(&tk_realize_of(ctx)->order);
    tk_queue_resume();
}

size_t tk_memory_order_points(const tolk_ctx *ctx) {
    return queues_of(ctx) - 1;
}

tolk_status tk_memory_order_reserve(tolk_ctx *ctx, size_t queues, tolk_error *err) {
    tk_realize *r = tk_realize_of(ctx);
    if (queues <= r->n_points) /* nobody else changes it */
        return TOLK_OK;
    size_t n = 2 * queues, old_n = r->n_points;
    tk_point *points = tk_alloc(&ctx->al, n * sizeof *points), *old = r->points;
    if (!points)
        return tk_status_nomem(err);
    pthread_mutex_lock(&r->order); /* nothing is submitted here */
    r->points = points;
    r->n_points = n;
    pthread_mutex_unlock(&r->order);
    if (old != r->few_points)
        tk_alloc_free(&ctx->al, old, old_n * sizeof *old);
    return TOLK_OK;
}

/* Each queue that uses the memory was there when its command prepared it; so there is room for all
 * of them. */
tolk_status tk_memory_prepare(tk_memory *m, tolk_error *err) {
    tolk_ctx *ctx = m->book->device->ctx;
    size_t queues = queues_of(ctx);
    if (queues <= TK_USES_OWN / 2)
        return TOLK_OK;
    tk_memory_order_lock(ctx);
    bool fits = tk_uses_fits(&m->uses, queues);
    tk_memory_order_unlock(ctx);
    if (fits)
        return TOLK_OK;
    size_t cap = 2 * queues + TK_USES_OWN, bytes = cap * sizeof(tk_uses_record);
    void *room = tk_alloc(&ctx->al, bytes);
    if (!room)
        return tk_status_nomem(err);
    tk_memory_order_lock(ctx);
    if (!tk_uses_fits(&m->uses, queues))
        room = tk_uses_move(&m->uses, room, (uint32_t)cap, &bytes);
    tk_memory_order_unlock(ctx);
    tk_alloc_free(&ctx->al, room, bytes);
    return TOLK_OK;
}

size_t tk_memory_hazards(const tk_use *uses, size_t n, const tk_queue *q, tk_point *out,
                         size_t cap) {
    size_t points = 0;
    if (!n || queues_of(uses->memory->book->device->ctx) == 1)
        return 0;
    for (size_t i = 0; i < n; i++)
        points = tk_uses_find(&uses[i].memory->uses, uses[i].from, uses[i].to, uses[i].writes, q,
                              out, points, cap);
    return points;
}

void tk_memory_used(const tk_use *uses, size_t n, tk_queue *q, uint64_t ticket) {
    for (size_t i = 0; i < n; i++) {
        tk_uses_add(&uses[i].memory->uses, uses[i].from, uses[i].to, uses[i].writes,
                    (tk_point){q, ticket});
        if (uses[i].writes)
            tk_memory_set_stored(uses[i].memory);
    }
}

tolk_status tk_memory_submit(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q,
                             tk_command *c, uint64_t *ticket, tolk_error *err) {
    const tk_realize *r = tk_realize_of(ctx);
    uint64_t own;
    ticket = ticket ? ticket : &own;
    tk_memory_order_lock(ctx);
    c->after = r->points;
    c->n_after = tk_memory_hazards(uses, n, q, r->points, r->n_points);
    /* The command may be over, and what it holds given back, before its use is noted. */
    for (size_t i = 0; i < n; i++)
        tk_memory_ref(uses[i].memory);
    tolk_status st = tk_queue_submit(q, c, ticket, err);
    if (st == TOLK_OK)
        tk_memory_used(uses, n, q, *ticket);
    tk_memory_order_unlock(ctx);
    for (size_t i = 0; i < n; i++)
        tk_memory_unref(uses[i].memory);
    c->after = NULL;
    c->n_after = 0;
    return st;
}

bool tk_memory_enter(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q) {
    tk_point point;
    uint64_t ticket;
    tk_memory_order_lock(ctx);
    bool in = !tk_memory_hazards(uses, n, q, &point, 1) && tk_queue_enter(q, NULL, 0, &ticket);
    if (in)
        tk_memory_used(uses, n, q, ticket);
    tk_memory_order_unlock(ctx);
    return in;
}

bool tk_memory_join(tolk_ctx *ctx, const tk_use *uses, size_t n, tk_queue *q) {
    tk_point point;
    tk_memory_order_lock(ctx);
    bool in = !tk_memory_hazards(uses, n, q, &point, 1);
    if (in)
        tk_memory_used(uses, n, q, tk_queue_task(q));
    tk_memory_order_unlock(ctx);
    return in;
}

tolk_status tk_memory_wait(const tk_use *use, tolk_error *err) {
    tolk_ctx *ctx = use->memory->book->device->ctx;
    for (;;) {
        tk_point points[16];
        const size_t most = sizeof points / sizeof *points;
        tk_memory_order_lock(ctx);
        size_t n = tk_uses_find(&use->memory->uses, use->from, use->to, use->writes, NULL, points,
                                0, most);
        tk_memory_order_unlock(ctx);
        for (size_t i = 0; i < n; i++)
            if (points[i].ticket > tk_queue_task(points[i].queue))
                TK_TRY(tk_queue_wait(points[i].queue, points[i].ticket, err));
        if (n < most)
            return TOLK_OK;
    }
}
