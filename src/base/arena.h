/* SPDX-License-Identifier: MIT
 *
 * Bump allocator: many small pieces, freed all at once.
 */
#ifndef TK_BASE_ARENA_H
#define TK_BASE_ARENA_H

#include "base/alloc.h"

typedef struct tk_arena_chunk tk_arena_chunk;

typedef struct tk_arena {
    const tolk_allocator *al;
    tk_arena_chunk *chunk; /* newest first */
    char *at, *end;        /* free part of the newest chunk */
    size_t total_bytes;    /* asked from the allocator so far */
} tk_arena;

/* al must outlive the arena. Allocates nothing yet. */
void tk_arena_init(tk_arena *arena, const tolk_allocator *al);
/* Frees every piece; the arena may be used again. */
void tk_arena_fini(tk_arena *arena);
/* bytes aligned to 16, uninitialised; NULL when out of memory. */
void *tk_arena_alloc(tk_arena *arena, size_t bytes);
void *tk_arena_zero(tk_arena *arena, size_t bytes);
void *tk_arena_copy(tk_arena *arena, const void *from, size_t bytes);

#endif
