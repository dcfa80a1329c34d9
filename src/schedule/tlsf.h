/* SPDX-License-Identifier: MIT
 *
 * A two-level segregated fit allocator over numbers: it says where in a range of addresses a block
 * goes, and touches no memory there. Free blocks stand in buckets by size, in the order in which
 * they became free; the oldest one of the first bucket whose blocks all fit is taken. Source:
 * section 1.11 of the notes on tinygrad's planner (Masmano and others, "TLSF", 2004).
 */
#ifndef TK_SCHEDULE_TLSF_H
#define TK_SCHEDULE_TLSF_H

#include "base/arena.h"
#include "base/map.h"

enum {
    TK_TLSF_CLASSES = 64, /* powers of two */
    TK_TLSF_PARTS = 64    /* of one of them, at most */
};

typedef struct tk_tlsf_block {
    uint64_t start, size;                /* bytes */
    struct tk_tlsf_block *prev, *next;   /* by address */
    struct tk_tlsf_block *older, *newer; /* in its bucket, if it is free */
    bool is_free;
} tk_tlsf_block;

typedef struct tk_tlsf {
    const tolk_allocator *al;
    tk_arena arena;
    tk_tlsf_block *spare; /* linked by next */
    tk_map used;          /* start -> block */
    uint64_t base, granule;
    uint32_t part_bits;
    uint64_t filled[TK_TLSF_CLASSES]; /* bit p: bucket p is not empty */
    struct {
        tk_tlsf_block *oldest, *newest;
    } bucket[TK_TLSF_CLASSES][TK_TLSF_PARTS];
} tk_tlsf;

/* Addresses base .. base + size-1 are free.
 *
 *   size: below 2^62. granule: the least size of a block. parts: 1 to 32, how fine the classes are.
 * al must outlive it. Errors: TOLK_E_NOMEM. Call _fini in any case.
 */
tolk_status tk_tlsf_init(tk_tlsf *t, const tolk_allocator *al, uint64_t size, uint64_t base,
                         uint64_t granule, uint32_t parts);
void tk_tlsf_fini(tk_tlsf *t);
/* A block of `size` bytes (granule, if that is more) at a multiple of align, counted from base.
 * align: at least 1. Errors: TOLK_E_LIMIT (no free block is large enough), TOLK_E_NOMEM (nothing
 * changed). */
tolk_status tk_tlsf_alloc(tk_tlsf *t, uint64_t size, uint64_t align, uint64_t *start);
/* Give back a block by its start. False: there is none. */
bool tk_tlsf_free(tk_tlsf *t, uint64_t start);

#endif
