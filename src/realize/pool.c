/* SPDX-License-Identifier: MIT */
#include "realize/pool.h"

#include "base/map.h"
#include "base/status.h"
#include "realize/copy.h"
#include "realize/realize.h"

#include <inttypes.h>
#include <stdio.h>

struct tk_pools {
    const tolk_allocator *al;
    tk_map by_id; /* to tk_memory *; under the lock of the book */
};

tolk_status tk_pools_create(const tolk_allocator *al, tk_pools **out, tolk_error *err) {
    tk_pools *p = tk_alloc_zero(al, sizeof *p);
    if (!p)
        return tk_status_nomem(err);
    p->al = al;
    tk_map_init(&p->by_id, al);
    *out = p;
    return TOLK_OK;
}

void tk_pools_destroy(tk_pools *p) {
    tk_map_fini(&p->by_id);
    tk_alloc_free(p->al, p, sizeof *p);
}

/* The memory of an id, which is then not in use; NULL: it was not. */
static tk_memory *take(tk_book *book, uint64_t id) {
    pthread_mutex_lock(&book->lock);
    uint64_t *at = tk_map_find(&book->pools->by_id, id);
    tk_memory *m = at ? (tk_memory *)(uintptr_t)*at : NULL;
    if (m)
        (void)tk_map_remove(&book->pools->by_id, id);
    pthread_mutex_unlock(&book->lock);
    return m;
}

/* Give the id this memory, whose reference is taken; what another thread gave it meanwhile goes.
 * False when out of memory. */
static bool put(tk_book *book, uint64_t id, tk_memory *m, tk_memory **before) {
    pthread_mutex_lock(&book->lock);
    uint64_t *at = tk_map_find(&book->pools->by_id, id);
    *before = at ? (tk_memory *)(uintptr_t)*at : NULL;
    bool ok = tk_map_put(&book->pools->by_id, id, (uint64_t)(uintptr_t)m);
    pthread_mutex_unlock(&book->lock);
    return ok;
}

void tk_pools_clear(tk_book *book) {
    for (;;) {
        tk_memory *m = NULL;
        pthread_mutex_lock(&book->lock);
        tk_map *map = &book->pools->by_id;
        for (size_t i = 0; i < map->cap && !m; i++)
            if (map->slots[i].used) {
                m = (tk_memory *)(uintptr_t)map->slots[i].value;
                (void)tk_map_remove(map, map->slots[i].key);
            }
        pthread_mutex_unlock(&book->lock);
        if (!m)
            return;
        tk_memory_unref(m);
    }
}

tk_memory *tk_pools_find(tk_book *book, uint64_t id) {
    pthread_mutex_lock(&book->lock);
    uint64_t *at = tk_map_find(&book->pools->by_id, id);
    tk_memory *m = at ? tk_memory_ref((tk_memory *)(uintptr_t)*at) : NULL;
    pthread_mutex_unlock(&book->lock);
    return m;
}

static bool is_power(size_t n) {
    return n && !(n & (n - 1));
}

tolk_status tolk_pool_alloc(tolk_device *device, uint64_t id, size_t bytes, size_t alignment,
                            tolk_pool_mode mode, tolk_error *err) {
    if (!device)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_pool_alloc: device is NULL");
    if (!is_power(alignment))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_pool_alloc: alignment %zu is no power of two", alignment);
    if ((unsigned)mode > TOLK_POOL_STAGING)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_pool_alloc: no mode %d",
                              (int)mode);
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    tk_book *book = &device->realize->book;
    tk_memory_unref(take(book, id));
    char label[32];
    snprintf(label, sizeof label, "pool %" PRIu64, id);
    tk_memory *m, *before;
    /* Not kept for reuse: pools are large and of any size. */
    TK_TRY(tk_memory_alloc(book, bytes, alignment, TK_MEMORY_NO_REUSE, label, &m, err));
    tk_memory_set_stored(m); /* who reserves memory knows what is in it */
    if (!put(book, id, m, &before)) {
        tk_memory_unref(m);
        return tk_status_nomem(err);
    }
    tk_memory_unref(before);
    return TOLK_OK;
}

tolk_status tolk_pool_free(tolk_device *device, uint64_t id, tolk_error *err) {
    if (!device)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_pool_free: device is NULL");
    tk_realize_here(device->ctx);
    tk_memory_unref(take(&device->realize->book, id));
    return TOLK_OK;
}

tolk_status tolk_memset_zero(tolk_device *device, uint64_t pool, size_t offset, size_t bytes,
                             tolk_error *err) {
    if (!device)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_memset_zero: device is NULL");
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    tk_memory *m = tk_pools_find(&device->realize->book, pool);
    if (!m)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "tolk_memset_zero: %s has no pool %" PRIu64, device->name, pool);
    size_t have = tk_memory_bytes(m);
    tk_piece piece = {.memory = m, .offset = offset, .bytes = bytes};
    tolk_status st = TOLK_OK;
    if (offset > have || bytes > have - offset)
        st = tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                            "tolk_memset_zero: %zu bytes at %zu of pool %" PRIu64 ", which has %zu",
                            bytes, offset, pool, have);
    if (st == TOLK_OK)
        st = tk_memory_prepare(m, err);
    if (st == TOLK_OK) {
        piece.at = (char *)tk_memory_at(m) + offset;
        st = tk_copy_zero(device, &piece, err);
    }
    tk_piece_drop(&piece);
    return st;
}

tolk_status tolk_pool_pack(const size_t *bytes, const size_t *alignment, size_t n, size_t cap,
                           tolk_pool_place *place, size_t *sizes, size_t *n_pools,
                           tolk_error *err) {
    if (!n_pools || (n && (!bytes || !alignment || !place || !sizes)))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_pool_pack: an argument is NULL");
    for (size_t i = 0; i < n; i++) {
        if (!is_power(alignment[i]))
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "tolk_pool_pack: alignment %zu of item %zu is no power of two",
                                  alignment[i], i);
        if (bytes[i] > cap)
            return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                  "tolk_pool_pack: item %zu has %zu bytes; a pool has at most %zu",
                                  i, bytes[i], cap);
    }
    size_t pools = 0, end = 0; /* of the last pool */
    for (size_t i = 0; i < n; i++) {
        size_t mask = alignment[i] - 1, at = 0;
        bool fits = pools && tk_add_size(end, mask, &at);
        at &= ~mask;
        if (!fits || at > cap || bytes[i] > cap - at) {
            pools++;
            at = 0;
        }
        place[i] = (tolk_pool_place){pools - 1, at};
        end = at + bytes[i];
        sizes[pools - 1] = end;
    }
    *n_pools = pools;
    return TOLK_OK;
}
