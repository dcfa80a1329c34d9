/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <string.h>

struct tk_arena_chunk {
    tk_arena_chunk *next;
    size_t bytes; /* of the whole chunk, this header included */
};

enum { HEADER = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };
_Static_assert(sizeof(tk_arena_chunk) <= HEADER, "the header keeps 16-byte alignment");

void tk_arena_init(tk_arena *arena, const tolk_allocator *al) {
    *arena = (tk_arena){.al = al};
}

void tk_arena_fini(tk_arena *arena) {
    tk_arena_chunk *c = arena->chunk;
    while (c) {
        tk_arena_chunk *next = c->next;
        tk_alloc_free(arena->al, c, c->bytes);
        c = next;
    }
    tk_arena_init(arena, arena->al);
}

static bool grow(tk_arena *arena, size_t need) {
    size_t bytes = arena->chunk ? arena->chunk->bytes * 2 : FIRST_CHUNK;
    if (bytes > LARGEST_CHUNK)
        bytes = LARGEST_CHUNK;
    size_t least;
    if (!tk_add_size(need, HEADER, &least))
        return false;
    if (bytes < least)
        bytes = least;
    tk_arena_chunk *c = tk_alloc(arena->al, bytes);
    if (!c)
        return false;
    c->next = arena->chunk;
    c->bytes = bytes;
    arena->chunk = c;
    arena->at = (char *)c + HEADER;
    arena->end = (char *)c + bytes;
    arena->total_bytes += bytes;
    return true;
}

void *tk_arena_alloc(tk_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX - 64)
        return NULL;
    size_t need = ((bytes ? bytes : 1) + 15) & ~(size_t)15; /* NULL only means no memory */
    if ((size_t)(arena->end - arena->at) < need && !grow(arena, need))
        return NULL;
    void *p = arena->at;
    arena->at += need;
    return p;
}

void *tk_arena_zero(tk_arena *arena, size_t bytes) {
    void *p = tk_arena_alloc(arena, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *tk_arena_copy(tk_arena *arena, const void *from, size_t bytes) {
    void *p = tk_arena_alloc(arena, bytes);
    if (p && bytes)
        memcpy(p, from, bytes);
    return p;
}
