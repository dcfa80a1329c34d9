/* SPDX-License-Identifier: MIT
 *
 * Hash map from 64-bit keys to 64-bit values, open addressing. Any key is allowed.
 */
#ifndef TK_BASE_MAP_H
#define TK_BASE_MAP_H

#include "base/alloc.h"

typedef struct tk_map_slot {
    uint64_t key, value;
    bool used;
} tk_map_slot;

typedef struct tk_map {
    const tolk_allocator *al;
    tk_map_slot *slots;
    size_t n, cap; /* cap: 0 or a power of two */
} tk_map;

void tk_map_init(tk_map *map, const tolk_allocator *al);
void tk_map_fini(tk_map *map);
/* Address of the value, or NULL. Valid until the next put. */
uint64_t *tk_map_find(const tk_map *map, uint64_t key);
/* Insert or replace. False when out of memory. */
bool tk_map_put(tk_map *map, uint64_t key, uint64_t value);
/* Remove; true if it was there. */
bool tk_map_remove(tk_map *map, uint64_t key);

#endif
