/* SPDX-License-Identifier: MIT
 *
 * What a command needs of a buffer.
 */
#ifndef TK_REALIZE_BUFFER_H
#define TK_REALIZE_BUFFER_H

#include "realize/memory.h"

/* A piece of memory that a command uses: referenced, so that the buffer may be freed meanwhile. */
typedef struct tk_piece {
    tk_memory *memory;
    void *at;
    size_t offset, bytes; /* in the memory */
    tolk_dtype dtype;     /* VOID: elements of elem_bytes */
    size_t elem_bytes;
} tk_piece;

/* Take it, allocating the memory where this is the first use. what: names it in errors ("kernel
 * scale: argument 1"). Errors: TOLK_E_FREED, TOLK_E_NOMEM, TOLK_E_DEVICE_DESTROYED. Ends with
 * tk_piece_drop. */
tolk_status tk_buffer_piece(tolk_buffer *b, const char *what, tk_piece *out, tolk_error *err);
/* The same for what is only read: where nothing was stored to its memory it is TOLK_E_UNBOUND. */
tolk_status tk_buffer_piece_bound(tolk_buffer *b, const char *what, tk_piece *out, tolk_error *err);
void tk_piece_drop(tk_piece *p);
/* A buffer over host memory at data + byte_offset; release(user) as for TOLK_BUFFER_OPTS' external.
 * data may be NULL where there are no elements. Errors: TOLK_E_ARG, TOLK_E_LIMIT,
 * TOLK_E_UNSUPPORTED, TOLK_E_NOMEM. */
tolk_status tk_buffer_over(tolk_device *device, tolk_dtype dtype, size_t n, void *data,
                           uint64_t byte_offset, void (*release)(void *user), void *user,
                           tolk_buffer **out, tolk_error *err);
/* tolk_buffer_in_pool() of this memory, which gets a reference more; NULL: there is no such pool.
 */
tolk_status tk_buffer_of_pool(const char *call, tolk_device *device, uint64_t pool,
                              tk_memory *memory, size_t offset, tolk_dtype dtype, size_t n,
                              tolk_buffer **out, tolk_error *err);
tolk_device *tk_buffer_device(const tolk_buffer *b);

#endif
