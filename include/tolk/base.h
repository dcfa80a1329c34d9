/* SPDX-License-Identifier: MIT
 *
 * Status codes, errors, allocators, logging and the context.
 */
#ifndef TOLK_BASE_H
#define TOLK_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TOLK_API __attribute__((visibility("default")))
#else
#define TOLK_API
#endif

#define TOLK_VERSION_MAJOR 0
#define TOLK_VERSION_MINOR 1
#define TOLK_VERSION_PATCH 0

/* Every status: name, pinned value, text. Rows are only ever appended. */
/* clang-format off */
#define TOLK_STATUS_MAP(X)                                                     \
    X(TOLK_OK,                  0, "success")                                  \
    X(TOLK_E_NOMEM,             1, "out of memory")                            \
    X(TOLK_E_ARG,               2, "invalid argument")                         \
    X(TOLK_E_DTYPE,             3, "dtype mismatch")                           \
    X(TOLK_E_SHAPE,             4, "shape mismatch")                           \
    X(TOLK_E_PARSE,             5, "parse error")                              \
    X(TOLK_E_VERIFY,            6, "invalid graph")                            \
    X(TOLK_E_LIMIT,             7, "limit exceeded")                           \
    X(TOLK_E_UNSUPPORTED,       8, "not supported by the target")              \
    X(TOLK_E_IO,                9, "input/output error")                       \
    X(TOLK_E_RANGE,            10, "index out of range")                       \
    X(TOLK_E_ALIAS,            11, "arguments overlap")                        \
    X(TOLK_E_LAUNCH,           12, "invalid launch")                           \
    X(TOLK_E_CANCELLED,        13, "cancelled")                                \
    X(TOLK_E_NO_DEVICE,        14, "no such device")                           \
    X(TOLK_E_COMPILE,          15, "compilation failed")                       \
    X(TOLK_E_CACHE_CLEARED,    16, "kernel cache was cleared meanwhile")       \
    X(TOLK_E_DEVICE_DESTROYED, 17, "device was destroyed meanwhile")           \
    X(TOLK_E_FREED,            18, "object was freed")                         \
    X(TOLK_E_INTERNAL,         19, "internal error")                           \
    X(TOLK_E_UNBOUND,          20, "unbound name")                             \
    X(TOLK_E_BUSY,             21, "object is in use")                         \
    X(TOLK_E_DEADLOCK,         22, "would wait for itself")                    \
    X(TOLK_E_NOT_FOUND,        23, "no such object")                           \
    X(TOLK_E_DEVICE,           24, "belongs to another device")                \
    X(TOLK_E_FORKED,           25, "not possible in the child of a fork")
/* clang-format on */

typedef enum tolk_status {
#define TOLK_STATUS_ENUM(name, value, text) name = value,
    TOLK_STATUS_MAP(TOLK_STATUS_ENUM)
#undef TOLK_STATUS_ENUM
} tolk_status;

/* Static text of a status ("out of memory"); never NULL, for any value. */
TOLK_API const char *tolk_status_text(tolk_status status);
/* Name of a status ("TOLK_E_NOMEM"); never NULL, for any value. */
TOLK_API const char *tolk_status_name(tolk_status status);

/* Details of a failure. Lives on the caller's stack; filling it never allocates.
 * Calls leave it untouched on success. */
typedef struct tolk_error {
    tolk_status code;
    uint32_t node;         /* number of the uop as tolk_print() numbers it; UINT32_MAX if none */
    uint32_t line, column; /* place in the text, from 1; 0 if none */
    char msg[240];         /* UTF-8, always NUL-terminated */
} tolk_error;

/* clang-format off */
#define TOLK_ERROR_INIT {TOLK_OK, UINT32_MAX, 0, 0, {0}}
/* clang-format on */

/* Memory for everything but executable pages. All three are called from any thread.
 * Pointers are aligned to 16 bytes; bytes is never 0. */
typedef struct tolk_allocator {
    void *user;
    void *(*alloc)(void *user, size_t bytes);                                 /* NULL: no memory */
    void *(*resize)(void *user, void *p, size_t old_bytes, size_t new_bytes); /* NULL: p is kept */
    void (*release)(void *user, void *p, size_t bytes);
} tolk_allocator;

typedef enum tolk_log_level {
    TOLK_LOG_ERROR = 0,
    TOLK_LOG_WARNING = 1,
    TOLK_LOG_INFO = 2,
    TOLK_LOG_DEBUG = 3
} tolk_log_level;

/* Called from any thread, one call at a time per context. text: one UTF-8 message, no newline at
 * its end, valid during the call only. May not call the library with the same context. */
typedef void (*tolk_log_fn)(void *user, tolk_log_level level, const char *text);

/* How to make a context. Set it up with TOLK_CTX_OPTS_INIT; NULL and 0 mean the default. */
typedef struct tolk_ctx_opts {
    uint32_t size;                   /* sizeof(tolk_ctx_opts) */
    uint32_t no_environment;         /* 1: ignore every TOLK_* variable, HOME and XDG_CACHE_HOME */
    const tolk_allocator *allocator; /* copied; default: malloc */
    tolk_log_fn log;                 /* default: warnings and errors to stderr */
    void *log_user;
    uint32_t threads;        /* most threads of one launch; default: the cores available */
    uint32_t no_disk_cache;  /* 1: keep compiled kernels in memory only */
    const char *cache_dir;   /* copied; default: see docs/environment.md */
    uint64_t cache_bytes;    /* bound of the disk cache; default 1 GiB */
    uint64_t memory_entries; /* bound of the in-memory binary cache, which holds 64 MiB at
                              * most, too; default 4096 */
    uint32_t cpu_devices;    /* how many CPU devices there are; default: TOLK_CPU_DEVICES, or 1 */
    uint32_t synchronous;    /* 1: what is submitted to a device has run when the call returns,
                              * on the thread that calls; results are the same */
} tolk_ctx_opts;

/* clang-format off */
#define TOLK_CTX_OPTS_INIT {(uint32_t)sizeof(tolk_ctx_opts), 0, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0}
/* clang-format on */

/* A context owns caches, settings and devices. Any thread may use it, and so may the child of a
 * fork(), with everything that was made from it. */
typedef struct tolk_ctx tolk_ctx;

/* Make a context.
 *
 *   opts: NULL for the defaults.
 * Owner:   the caller; destroy it after everything that was made from it.
 * Errors:  TOLK_E_NOMEM, TOLK_E_ARG (opts->size unknown). *out is untouched on failure.
 * Since:   0.1
 */
TOLK_API tolk_status tolk_ctx_create(const tolk_ctx_opts *opts, tolk_ctx **out, tolk_error *err);
/* Destroy a context; NULL does nothing. Nothing made from it may be in use. */
TOLK_API void tolk_ctx_destroy(tolk_ctx *ctx);

/* The last long log (LLVM, driver) of this context, or "". Valid until the next call of
 * tolk_last_log() on ctx from any thread; free nothing. */
TOLK_API const char *tolk_last_log(tolk_ctx *ctx);

/* Free a text that tolk returned (tolk_print, tolk_program_emit ...). NULL does nothing. */
TOLK_API void tolk_free_text(tolk_ctx *ctx, char *text);

/* Version of the library, (major << 16) | (minor << 8) | patch. */
TOLK_API uint32_t tolk_version(void);

#ifdef __cplusplus
}
#endif
#endif
