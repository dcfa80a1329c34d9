/* SPDX-License-Identifier: MIT
 *
 * The binary cache on disk: one file a key, DIR/xx/HASH.tolk, that holds the whole key, the bytes
 * and a checksum. Files appear by rename, so readers see all of one or nothing; anything that is
 * not exactly what this version writes for the key is a miss. Any number of processes may share a
 * directory. Nothing here fails visibly: without a usable directory there is no disk cache.
 */
#ifndef TK_JIT_CACHE_DISK_H
#define TK_JIT_CACHE_DISK_H

#include "base/ctx.h"

#include <tolk/jit.h>

typedef struct tk_cache_disk {
    tolk_ctx *ctx;
    char *dir; /* text of base/strbuf.h; NULL: no disk cache */
    uint64_t max_bytes;
    _Atomic uint64_t damaged;       /* entries that were there but no good */
    _Atomic uint64_t written_bytes; /* since the directory was last trimmed */
} tk_cache_disk;

/* Find and make the directory: ctx's, $TOLK_CACHE_DIR, $XDG_CACHE_HOME/tolk, ~/.cache/tolk; mode
 * 0700. One that belongs to another user or that others may write to is refused with a warning. */
void tk_cache_disk_init(tk_cache_disk *d, tolk_ctx *ctx);
void tk_cache_disk_fini(tk_cache_disk *d);
/* True on a hit; *out: text of base/strbuf.h with the bytes. */
bool tk_cache_disk_read(tk_cache_disk *d, const void *key, size_t n_key, char **out, size_t *len);
void tk_cache_disk_write(tk_cache_disk *d, const void *key, size_t n_key, const void *bytes,
                         size_t len);
/* Fills disk_dir, disk_entries, disk_bytes and damaged. */
void tk_cache_disk_stats(tk_cache_disk *d, tolk_cache_stats *out);
/* Remove every entry. Errors: TOLK_E_IO if some could not be removed. */
tolk_status tk_cache_disk_clear(tk_cache_disk *d, tolk_error *err);

#endif
