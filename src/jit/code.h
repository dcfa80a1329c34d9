/* SPDX-License-Identifier: MIT
 *
 * Executable memory. Pieces are whole pages of large slabs: writable while they are filled,
 * executable afterwards, never both. A slab is one mapping again as soon as its pieces are sealed,
 * so the number of mappings does not grow with the number of kernels. Private memory: a child of
 * fork() has its own.
 */
#ifndef TK_JIT_CODE_H
#define TK_JIT_CODE_H

#include "base/ctx.h"

typedef struct tk_code_piece {
    char *at;     /* aligned to a page */
    size_t bytes; /* whole pages */
    void *slab;
} tk_code_piece;

/* Writable memory for at least `bytes`. Errors: TOLK_E_NOMEM. Threads: any. */
tolk_status tk_code_alloc(tolk_ctx *ctx, size_t bytes, tk_code_piece *out, tolk_error *err);
/* Give back the pages behind the first `used` bytes and make the rest executable and read-only.
 * Errors: TOLK_E_NOMEM if the system refuses; the piece is still to be freed. */
tolk_status tk_code_seal(tolk_ctx *ctx, tk_code_piece *piece, size_t used, tolk_error *err);
void tk_code_free(tolk_ctx *ctx, const tk_code_piece *piece);

/* Linked code: a sealed piece. Many may have been linked from objects with the same symbols. */
typedef struct tk_code_linked {
    tk_code_piece piece;
    size_t used; /* bytes of it that code and constants take */
} tk_code_linked;

/* Remove it and give its memory back; NULL does nothing. Nothing may run in it. */
void tk_code_unlink(tolk_ctx *ctx, tk_code_linked *code);

#endif
