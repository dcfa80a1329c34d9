/* SPDX-License-Identifier: MIT
 *
 * Calls through a tolk_allocator. All sizes in bytes; every failure is NULL.
 */
#ifndef TK_BASE_ALLOC_H
#define TK_BASE_ALLOC_H

#include <tolk/base.h>

#include <stdbool.h>

/* The allocator over malloc. */
extern const tolk_allocator tk_alloc_malloc;

/* n bytes aligned to 16; n = 0 is treated as 1. */
void *tk_alloc(const tolk_allocator *al, size_t bytes);
/* The same, zero-filled. */
void *tk_alloc_zero(const tolk_allocator *al, size_t bytes);
/* Grow or shrink; on failure p stays valid. */
void *tk_alloc_resize(const tolk_allocator *al, void *p, size_t old_bytes, size_t new_bytes);
/* p may be NULL. bytes is what was asked for. */
void tk_alloc_free(const tolk_allocator *al, void *p, size_t bytes);

/* Products and sums that detect overflow: true if it fits. */
static inline bool tk_mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tk_add_size(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

#endif
