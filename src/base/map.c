/* SPDX-License-Identifier: MIT */
#include "base/map.h"

#include "base/hash.h"

void tk_map_init(tk_map *map, const tolk_allocator *al) {
    *map = (tk_map){.al = al};
}

void tk_map_fini(tk_map *map) {
    tk_alloc_free(map->al, map->slots, map->cap * sizeof *map->slots);
    tk_map_init(map, map->al);
}

static size_t home(const tk_map *map, uint64_t key) {
    return (size_t)tk_hash_mix(key) & (map->cap - 1);
}

uint64_t *tk_map_find(const tk_map *map, uint64_t key) {
    if (!map->cap)
        return NULL;
    for (size_t i = home(map, key);; i = (i + 1) & (map->cap - 1)) {
        if (!map->slots[i].used)
            return NULL;
        if (map->slots[i].key == key)
            return &map->slots[i].value;
    }
}

static void insert(tk_map *map, uint64_t key, uint64_t value) {
    size_t i = home(map, key);
    while (map->slots[i].used)
        i = (i + 1) & (map->cap - 1);
    map->slots[i] = (tk_map_slot){key, value, true};
    map->n++;
}

bool tk_map_put(tk_map *map, uint64_t key, uint64_t value) {
    uint64_t *old = tk_map_find(map, key);
    if (old) {
        *old = value;
        return true;
    }
    if (map->n * 3 >= map->cap * 2) {
        tk_map bigger = {.al = map->al, .cap = map->cap ? map->cap * 2 : 16};
        bigger.slots = tk_alloc_zero(map->al, bigger.cap * sizeof *bigger.slots);
        if (!bigger.slots)
            return false;
        for (size_t i = 0; i < map->cap; i++)
            if (map->slots[i].used)
                insert(&bigger, map->slots[i].key, map->slots[i].value);
        tk_map_fini(map);
        *map = bigger;
    }
    insert(map, key, value);
    return true;
}

bool tk_map_remove(tk_map *map, uint64_t key) {
    uint64_t *v = tk_map_find(map, key);
    if (!v)
        return false;
    size_t mask = map->cap - 1;
    size_t hole = (size_t)((tk_map_slot *)((char *)v - offsetof(tk_map_slot, value)) - map->slots);
    /* Close the gap: move back every later slot of the run that may stand in the hole. */
    for (size_t i = (hole + 1) & mask; map->slots[i].used; i = (i + 1) & mask) {
        size_t h = home(map, map->slots[i].key);
        if (((i - h) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole].used = false;
    map->n--;
    return true;
}
