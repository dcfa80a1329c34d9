/* SPDX-License-Identifier: MIT
 *
 * A cache whose values may be invalidated while they are being built, by clearing it or by the end
 * of a device. Not single-flight: several threads may build the value of one key; the first one
 * installed is everybody's.
 */
#ifndef TK_REALIZE_GUARDED_CACHE_H
#define TK_REALIZE_GUARDED_CACHE_H

#include "base/hash.h"

#include <tolk/base.h>

#include <stdbool.h>

typedef struct tk_guarded_cache tk_guarded_cache;

/* Fixed-width parts, so that no part can look like the end of another. */
typedef struct tk_guarded_cache_key {
    tk_hash128 device, name, source, options;
} tk_guarded_cache_key;
/* device, name, source: any bytes. options: n pairs of name and value, in any order. */
tk_guarded_cache_key tk_guarded_cache_key_make(const char *device, const char *name,
                                               const char *source, const char *const (*options)[2],
                                               size_t n);

typedef struct tk_guarded_cache_ops {
    void *(*ref)(void *value); /* a reference for the caller; called under the lock */
    /* Drop the cache's reference. A failure of it is reported by what caused it, after all. */
    tolk_status (*destroy)(void *value, tolk_error *err);
} tk_guarded_cache_ops;
typedef tolk_status (*tk_guarded_cache_build)(void *user, void **value, tolk_error *err);

/* invalidated_by_clear: values borrow what a clear releases, so one that was being built across a
 * clear is refused. ops: stays. */
tolk_status tk_guarded_cache_create(const tolk_allocator *al, const tk_guarded_cache_ops *ops,
                                    bool invalidated_by_clear, tk_guarded_cache **out,
                                    tolk_error *err);
void tk_guarded_cache_destroy(tk_guarded_cache *c);
/* *value: of the key, referenced for the caller; build(user) makes it, with no lock held and one
 * reference, which becomes the cache's.
 *   device: 0: none; else what tk_guarded_cache_evict_device() names.
 * Errors: of build; TOLK_E_DEVICE_DESTROYED, TOLK_E_CACHE_CLEARED, TOLK_E_NOMEM. */
tolk_status tk_guarded_cache_find_or_build(tk_guarded_cache *c, const tk_guarded_cache_key *key,
                                           uint64_t device, tk_guarded_cache_build build,
                                           void *user, void **value, tolk_error *err);
/* Take out one value, if it is there. Errors: of destroy. */
tolk_status tk_guarded_cache_drop(tk_guarded_cache *c, const tk_guarded_cache_key *key,
                                  tolk_error *err);
/* All values are destroyed; the first failure is returned. */
tolk_status tk_guarded_cache_evict_device(tk_guarded_cache *c, uint64_t device, tolk_error *err);
tolk_status tk_guarded_cache_clear(tk_guarded_cache *c, tolk_error *err);
size_t tk_guarded_cache_length(tk_guarded_cache *c);
void tk_guarded_cache_count(tk_guarded_cache *c, uint64_t *hits, uint64_t *misses, uint64_t *built,
                            uint64_t *destroyed);
void tk_guarded_cache_forked(tk_guarded_cache *c);

#endif
