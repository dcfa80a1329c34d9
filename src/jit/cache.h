/* SPDX-License-Identifier: MIT
 *
 * The binary cache: compiled kernels by everything that shaped them, in memory and on disk. One
 * build a key at a time; bounded, least recently used first out; counted.
 */
#ifndef TK_JIT_CACHE_H
#define TK_JIT_CACHE_H

#include "base/ctx.h"
#include "jit/backend.h"

#include <tolk/jit.h>

/* A compiled kernel: bytes that do not depend on the process, and the linked code once somebody
 * needed it. Refcounted: an entry dropped from the cache lives on in its users. */
typedef struct tk_binary tk_binary;

/* Are these the bytes of a kernel, as this version makes them? What the disk cache says that is not
 * is built anew. */
typedef bool (*tk_cache_check)(void *user, const void *bytes, size_t len);
/* Makes the bytes; *out is a text of base/strbuf.h. Called with no lock held. */
typedef tolk_status (*tk_cache_build)(void *user, char **out, size_t *len, tolk_error *err);

/* Find or build the binary of a key.
 *
 *   key: n_key bytes, all that shapes the code; compared whole.
 *   bypass: neither look nor keep.
 *   where: where it was found.
 *   build: NULL: only look; *out is NULL if it is not there.
 * Several threads that ask for one key wait for the first; if that one fails the next builds; a
 * thread that asks for the key it is building builds.
 * Owner: the caller gets a reference. Errors: what build returns, TOLK_E_NOMEM.
 */
tolk_status tk_cache_get(tolk_ctx *ctx, const void *key, size_t n_key, bool bypass,
                         tk_cache_check check, tk_cache_build build, void *user, tk_binary **out,
                         tolk_cached *where, tolk_error *err);
/* Drop every entry, in memory and on disk; binaries in use stay. Errors: TOLK_E_NOMEM, TOLK_E_IO.
 */
tolk_status tk_cache_clear(tolk_ctx *ctx, tolk_error *err);
/* One that no cache knows, of bytes (text of base/strbuf.h) that become its own. NULL: no memory,
 * and the bytes are still the caller's. */
tk_binary *tk_binary_create(tolk_ctx *ctx, char *bytes, size_t len);
tk_binary *tk_binary_ref(tk_binary *b);
void tk_binary_unref(tolk_ctx *ctx, tk_binary *b);
/* Its bytes, valid as long as the reference. */
const void *tk_binary_bytes(const tk_binary *b, size_t *len);
/* Link the object that is at bytes [offset, offset + n) on first use, by the backend's loader or,
 * if it has none, by LLVM's linker; the same entry for all. Threads: any. */
tolk_status tk_binary_link(tolk_ctx *ctx, tk_binary *b, const tk_backend *backend, size_t offset,
                           size_t n, const char *symbol, void **entry, size_t *code_bytes,
                           tolk_error *err);

/* Tell perf and GDB, if the environment asks for that, of a binary that was linked; once. It is
 * told again when it goes. Threads: any. */
void tk_binary_observe(tolk_ctx *ctx, tk_binary *b, size_t offset, size_t n, const char *kernel,
                       const char *symbol);

#endif
