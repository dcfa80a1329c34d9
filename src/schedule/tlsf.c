/* SPDX-License-Identifier: MIT */
#include "schedule/tlsf.h"

#include "base/status.h"

#include <string.h>

static uint32_t bit_length(uint64_t n) {
    return n ? 64 - (uint32_t)__builtin_clzll(n) : 0;
}

/* log2 of the width of the buckets of n's class. */
static uint32_t width_bits(const tk_tlsf *t, uint64_t n) {
    uint32_t bits = bit_length(n);
    return bits > t->part_bits ? bits - t->part_bits : 0;
}

static uint32_t class_of(uint64_t n) {
    return bit_length(n);
}

static uint32_t part_of(const tk_tlsf *t, uint64_t n) {
    return (uint32_t)((n - ((uint64_t)1 << (bit_length(n) - 1))) >> width_bits(t, n));
}

/* ---- blocks ---- */

static tk_tlsf_block *new_block(tk_tlsf *t) {
    tk_tlsf_block *b = t->spare;
    if (b)
        t->spare = b->next;
    else
        b = tk_arena_alloc(&t->arena, sizeof *b);
    return b;
}

static void spare_block(tk_tlsf *t, tk_tlsf_block *b) {
    b->next = t->spare;
    t->spare = b;
}

/* Make sure that the next n blocks need no memory. */
static bool prepare_blocks(tk_tlsf *t, int n) {
    int have = 0;
    for (tk_tlsf_block *b = t->spare; b && have < n; b = b->next)
        have++;
    for (; have < n; have++) {
        tk_tlsf_block *b = tk_arena_alloc(&t->arena, sizeof *b);
        if (!b)
            return false;
        spare_block(t, b);
    }
    return true;
}

static void put_free(tk_tlsf *t, tk_tlsf_block *b) {
    uint32_t c = class_of(b->size), p = part_of(t, b->size);
    b->is_free = true;
    b->older = t->bucket[c][p].newest;
    b->newer = NULL;
    if (b->older)
        b->older->newer = b;
    else
        t->bucket[c][p].oldest = b;
    t->bucket[c][p].newest = b;
    t->filled[c] |= (uint64_t)1 << p;
}

static void take_free(tk_tlsf *t, tk_tlsf_block *b) {
    uint32_t c = class_of(b->size), p = part_of(t, b->size);
    b->is_free = false;
    if (b->older)
        b->older->newer = b->newer;
    else
        t->bucket[c][p].oldest = b->newer;
    if (b->newer)
        b->newer->older = b->older;
    else
        t->bucket[c][p].newest = b->older;
    if (!t->bucket[c][p].oldest)
        t->filled[c] &= ~((uint64_t)1 << p);
}

/* Cut what lies behind the first `size` bytes off b, which is in no bucket, as a new block. */
static tk_tlsf_block *cut(tk_tlsf *t, tk_tlsf_block *b, uint64_t size) {
    tk_tlsf_block *rest = new_block(t); /* prepared */
    TK_ASSERT(rest);
    *rest = (tk_tlsf_block){
        .start = b->start + size, .size = b->size - size, .prev = b, .next = b->next};
    if (b->next)
        b->next->prev = rest;
    b->next = rest;
    b->size = size;
    return rest;
}

/* b takes in its right neighbour; both are in no bucket. */
static void merge_right(tk_tlsf *t, tk_tlsf_block *b) {
    tk_tlsf_block *gone = b->next;
    b->size += gone->size;
    b->next = gone->next;
    if (b->next)
        b->next->prev = b;
    spare_block(t, gone);
}

/* ---- interface ---- */

tolk_status tk_tlsf_init(tk_tlsf *t, const tolk_allocator *al, uint64_t size, uint64_t base,
                         uint64_t granule, uint32_t parts) {
    TK_ASSERT(size >> 62 == 0 && parts >= 1 && parts <= 32 && granule >= 1);
    memset(t, 0, sizeof *t);
    t->al = al;
    t->base = base;
    t->granule = granule;
    t->part_bits = bit_length(parts);
    tk_arena_init(&t->arena, al);
    tk_map_init(&t->used, al);
    if (!size)
        return TOLK_OK;
    tk_tlsf_block *b = new_block(t);
    if (!b)
        return TOLK_E_NOMEM;
    *b = (tk_tlsf_block){.size = size};
    put_free(t, b);
    return TOLK_OK;
}

void tk_tlsf_fini(tk_tlsf *t) {
    tk_map_fini(&t->used);
    tk_arena_fini(&t->arena);
}

/* The oldest block of the first bucket in which all blocks have that size; NULL: there is none. */
static tk_tlsf_block *find(const tk_tlsf *t, uint64_t size) {
    uint32_t c = class_of(size);
    uint64_t parts = t->filled[c] & (~(uint64_t)0 << part_of(t, size));
    while (!parts && ++c < TK_TLSF_CLASSES)
        parts = t->filled[c];
    return parts ? t->bucket[c][__builtin_ctzll(parts)].oldest : NULL;
}

tolk_status tk_tlsf_alloc(tk_tlsf *t, uint64_t size, uint64_t align, uint64_t *start) {
    TK_ASSERT(align >= 1);
    if (size < t->granule)
        size = t->granule;
    if (size >> 61 || align >> 60)
        return TOLK_E_LIMIT;
    uint64_t want = size + align - 1, width = (uint64_t)1 << width_bits(t, want);
    want = (want + width - 1) & ~(width - 1);
    tk_tlsf_block *b = find(t, want);
    if (!b)
        return TOLK_E_LIMIT;
    uint64_t skip = (align - b->start % align) % align;
    if (!prepare_blocks(t, 2) || !tk_map_put(&t->used, b->start + skip, (uintptr_t)b))
        return TOLK_E_NOMEM;
    take_free(t, b);
    if (skip) {
        tk_tlsf_block *rest = cut(t, b, skip);
        put_free(t, b);
        b = rest;
        *tk_map_find(&t->used, b->start) = (uintptr_t)b;
    }
    if (b->size > size)
        put_free(t, cut(t, b, size));
    *start = t->base + b->start;
    return TOLK_OK;
}

bool tk_tlsf_free(tk_tlsf *t, uint64_t start) {
    uint64_t *at = tk_map_find(&t->used, start - t->base);
    if (!at)
        return false;
    tk_tlsf_block *b = (tk_tlsf_block *)(uintptr_t)*at;
    (void)tk_map_remove(&t->used, b->start);
    if (b->next && b->next->is_free) {
        take_free(t, b->next);
        merge_right(t, b);
    }
    if (b->prev && b->prev->is_free) {
        b = b->prev;
        take_free(t, b);
        merge_right(t, b);
    }
    put_free(t, b);
    return true;
}
