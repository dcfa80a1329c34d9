/* SPDX-License-Identifier: MIT
 *
 * Pools of a device by number.
 */
#ifndef TK_REALIZE_POOL_H
#define TK_REALIZE_POOL_H

#include "realize/buffer.h"

typedef struct tk_pools tk_pools;

tolk_status tk_pools_create(const tolk_allocator *al, tk_pools **out, tolk_error *err);
void tk_pools_destroy(tk_pools *p); /* after tk_pools_clear */
/* Free all pools of a book. */
void tk_pools_clear(tk_book *book);
/* The memory of a pool, referenced for the caller; NULL: there is no such pool. */
tk_memory *tk_pools_find(tk_book *book, uint64_t id);

#endif
