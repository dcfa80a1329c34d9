/* SPDX-License-Identifier: MIT
 *
 * The context: settings every layer reads, and one slot a layer for its own state.
 */
#ifndef TK_BASE_CTX_H
#define TK_BASE_CTX_H

#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>

/* State that a higher layer keeps in a context. */
typedef enum tk_ctx_part {
    TK_CTX_LLVM,
    TK_CTX_CODE,
    TK_CTX_LINK,
    TK_CTX_CACHE,
    TK_CTX_HISTORY,
    TK_CTX_FAMILIES, /* of devices */
    TK_CTX_REALIZE,
    TK_CTX_TIERS,
    TK_CTX_CAPTURE,
    TK_CTX_RUNNING, /* queues: ended before anything that their work uses */
    TK_CTX_PARTS
} tk_ctx_part;

struct tolk_ctx {
    tolk_allocator al;
    tolk_log_fn log;
    void *log_user;
    pthread_mutex_t log_lock; /* one log call at a time; also guards last_log */
    char *last_log;           /* of the text allocator of strbuf */
    char *shown_log;          /* what tolk_last_log returned last */

    bool no_environment;
    bool no_disk_cache;
    uint32_t threads; /* as asked; 0: all */
    char *cache_dir;  /* as asked; may be NULL; text of strbuf */
    uint64_t cache_bytes, memory_entries;
    uint32_t cpu_devices; /* as asked; 0: not */
    bool synchronous;
    int debug;      /* TOLK_DEBUG */
    bool perf, gdb; /* TOLK_PERF, TOLK_GDB */

    _Atomic int64_t next_slot; /* of BUFFER nodes */

    void *part[TK_CTX_PARTS];
    void (*part_destroy[TK_CTX_PARTS])(tolk_ctx *ctx, void *part);
    /* NULL, or called in the child of a fork: see tk_ctx_after_fork. */
    void (*part_fork[TK_CTX_PARTS])(tolk_ctx *ctx, void *part);
    _Atomic int64_t pid; /* the process whose threads hold the locks; negative: being repaired */
};

/* The settings alone, no part. Called by tolk_ctx_create, and by tests of the lower layers. */
tolk_status tk_ctx_init(const tolk_ctx_opts *opts, tolk_ctx **out, tolk_error *err);
/* Called before a lock of ctx is taken where the process may have been forked. In a child, threads
 * that held locks or were building something do not exist: every lock is made anew, and a part
 * whose lock was held is left behind as it is. The child of a fork then works on its own. Threads:
 * any. */
void tk_ctx_after_fork(tolk_ctx *ctx);
/* Destroys the parts, last one first, then the context. */
void tk_ctx_fini(tolk_ctx *ctx);

#endif
