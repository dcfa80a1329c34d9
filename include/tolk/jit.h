/* SPDX-License-Identifier: MIT
 *
 * Compiling and launching kernels.
 */
#ifndef TOLK_JIT_H
#define TOLK_JIT_H

#include <tolk/device.h>
#include <tolk/ir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled kernel: immutable, refcounted, usable from any thread. */
typedef struct tolk_program tolk_program;

typedef enum tolk_bounds {
    TOLK_BOUNDS_CHECK = 0, /* accesses that are not proved in range are checked */
    TOLK_BOUNDS_TRUST = 1  /* the caller vouches for every access */
} tolk_bounds;

/* How much work goes into the code of a kernel. Loop options, and so every bit of the results, are
 * the same in each tier. */
typedef enum tolk_tier {
    TOLK_TIER_DEFAULT = 0, /* TOLK_TIER if it is set, else FULL */
    TOLK_TIER_FULL = 1,
    TOLK_TIER_QUICK = 2, /* compiled two to three times as fast, runs slower */
    /* QUICK at first, unless a cache holds FULL; after some launches FULL is compiled on another
     * thread while launches go on, and takes its place. */
    TOLK_TIER_AUTO = 3
} tolk_tier;

/* Set it up with TOLK_COMPILE_OPTS_INIT. */
typedef struct tolk_compile_opts {
    uint32_t size; /* sizeof(tolk_compile_opts) */
    /* Loop options to apply instead of the heuristic's: "LANE:0:16 UPCAST:0:4 UNROLL:0:8 ...",
     * "" for none; NULL: the heuristic chooses. docs/ir.md lists them. */
    const char *opts;
    /* CPU to compile for: "native", "x86-64", "haswell", "skylake-avx512", "aarch64" or
     * "native,-avx512f,..."; NULL: TOLK_CPU, else native. Or a GPU, whose program is PTX that this
     * library cannot launch: "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"; behind it
     * ",+ptx78" (a higher version of PTX than that chip needs) or ",cuda11.4" (an error unless the
     * driver of that CUDA takes the version). */
    const char *target;
    tolk_bounds bounds;
    uint32_t strict;   /* 1: no option that changes the order of float sums */
    uint32_t no_cache; /* 1: neither look in the binary cache nor fill it */
    /* tolk_emit alone: name of the function, an identifier of C of at most 64 bytes that has no
     * meaning yet: no keyword of C or C++, no name of the C library, of PTX (GPUs) or of tolk (all
     * that begin with "tolk_", but for "tolk_kernel"), none that begins with '_'. NULL:
     * "tolk_kernel_" and the kernel's name, with '_' for what is in no identifier, and behind it
     * where the library has a function of that name; for GPUs "tolk_kernel". */
    const char *symbol;
    tolk_tier tier; /* of tolk_compile; tolk_emit takes AUTO for FULL */
} tolk_compile_opts;

/* clang-format off */
#define TOLK_COMPILE_OPTS_INIT {(uint32_t)sizeof(tolk_compile_opts), NULL, NULL, TOLK_BOUNDS_CHECK, 0, 0, NULL, TOLK_TIER_DEFAULT}
/* clang-format on */

/* Compile one kernel (a SINK), or a program (a LINEAR; it takes no loop options), for a device.
 *
 *   opts: NULL for the defaults.
 * Works on a private copy: the graph of sink is not changed.
 * Owner:   the caller, tolk_program_unref(). Keep ctx alive longer.
 * Errors:  TOLK_E_VERIFY (not a valid kernel), TOLK_E_UNSUPPORTED (a construct or option the
 *          target cannot do), TOLK_E_LIMIT (too large), TOLK_E_ARG (bad option), TOLK_E_COMPILE.
 * Threads: any; one thread at a time per graph.
 */
TOLK_API tolk_status tolk_compile(tolk_device *device, const tolk_uop *sink,
                                  const tolk_compile_opts *opts, tolk_program **out,
                                  tolk_error *err);
TOLK_API tolk_program *tolk_program_ref(tolk_program *program);
TOLK_API void tolk_program_unref(tolk_program *program);

typedef enum tolk_cached {
    TOLK_CACHED_NONE = 0,
    TOLK_CACHED_MEMORY = 1,
    TOLK_CACHED_DISK = 2,
    TOLK_CACHED_SAVED = 3 /* none: tolk_program_load made the program */
} tolk_cached;

typedef struct tolk_program_info {
    const char *name; /* owner: the program */
    const char *opts; /* loop options that were applied */
    size_t n_bufs, n_vals;
    tolk_cached cached; /* where this program came from */
    uint64_t compile_ns;
    size_t code_bytes;
    size_t scratch_bytes; /* of a launch, or of each of its threads; 0 if scalars decide it.
                             Without the dynamic local buffer */
    uint32_t lanes;       /* of its vectors; 1: scalar code */
    tolk_tier tier;       /* of the code that the next launch runs: QUICK or FULL */
} tolk_program_info;
TOLK_API tolk_status tolk_program_get_info(const tolk_program *program, tolk_program_info *out);
/* The i-th parameter, in ascending slot order: buffers and scalars, info.n_bufs + info.n_vals of
 * them. A program keeps the number of elements of a buffer, not its shape: out->rank is 0.
 * Owner: of out->name the program. Errors: TOLK_E_ARG if i is too large. */
TOLK_API tolk_status tolk_program_param(const tolk_program *program, size_t i,
                                        tolk_param_info *out);
/* Elements that a launch with these scalars expects of buffer parameter i.
 * Errors: TOLK_E_ARG (i is no buffer, n_vals), TOLK_E_LAUNCH (a scalar out of its bounds, a
 * dimension is negative), TOLK_E_LIMIT (the number does not fit 63 bits). */
TOLK_API tolk_status tolk_program_param_elems(const tolk_program *program, size_t i,
                                              const int64_t *vals, size_t n_vals, int64_t *elems,
                                              tolk_error *err);
/* Arithmetic operations and bytes moved by one launch with these scalars: each buffer byte counted
 * once for loads and once for stores. Errors: TOLK_E_ARG (n_vals). */
TOLK_API tolk_status tolk_program_estimate(const tolk_program *program, const int64_t *vals,
                                           size_t n_vals, double *flops, double *bytes);

/* Write a program out, to be loaded by another process without compiling: ahead of time.
 *
 *   bytes, len: the whole of it, machine code included; _file: into a regular file, which is
 *   replaced only when all is written.
 * A saved program has a checksum, the version of its format and the CPU features it needs.
 * Owner:   of *bytes the caller, tolk_free_text().
 * Errors:  TOLK_E_NOMEM, TOLK_E_IO.
 * Threads: any.
 */
TOLK_API tolk_status tolk_program_save(const tolk_program *program, char **bytes, size_t *len,
                                       tolk_error *err);
TOLK_API tolk_status tolk_program_save_file(const tolk_program *program, const char *path,
                                            tolk_error *err);
/* Load a program that tolk_program_save wrote. It launches with the same checks as a compiled one.
 * It is machine code: the checksum tells damage, not malice; load only what you trust.
 *
 *   bytes: copied; they may lie at any address.
 * Owner:   the caller, tolk_program_unref(). Keep the context alive longer.
 * Errors:  TOLK_E_PARSE (not a saved program, cut short, damaged), TOLK_E_UNSUPPORTED (made for
 *          another CPU, or saved by a version with another format), TOLK_E_IO, TOLK_E_NOMEM.
 * Threads: any.
 */
TOLK_API tolk_status tolk_program_load(tolk_device *device, const void *bytes, size_t len,
                                       tolk_program **out, tolk_error *err);
TOLK_API tolk_status tolk_program_load_file(tolk_device *device, const char *path,
                                            tolk_program **out, tolk_error *err);

/* Run a program and wait for it.
 *
 *   bufs, bytes: the buffer params in ascending slot order, bytes each has. They may begin at any
 *   address, multiples of 64 are fastest; NULL where the size is 0.
 *   vals: the scalar params in ascending slot order, a float as its bit pattern in the low bytes.
 * Errors:  TOLK_E_UNSUPPORTED (a program for a GPU), TOLK_E_LAUNCH (count, size or bounds of an
 * argument; nothing was run), TOLK_E_ALIAS (a stored buffer overlaps another in a way the kernel
 * does not allow; nothing was run), TOLK_E_RANGE (accesses out of range: those loads gave 0, those
 * stores were dropped), TOLK_E_CANCELLED. Threads: any, at the same time too.
 */
TOLK_API tolk_status tolk_launch(const tolk_program *program, void *const *bufs,
                                 const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                 size_t n_vals, tolk_error *err);
/* The same with options; NULL: the defaults. Errors: also TOLK_E_LIMIT (the bytes of the local
 * memory do not fit 63 bits), TOLK_E_NOMEM (there is no such memory); nothing was run. */
TOLK_API tolk_status tolk_launch_with(const tolk_program *program, void *const *bufs,
                                      const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                      size_t n_vals, const tolk_launch_opts *opts, tolk_error *err);

/* One form of a kernel on its way to machine code. */
typedef enum tolk_emit_kind {
    TOLK_EMIT_UOP = 0,     /* the kernel as given */
    TOLK_EMIT_OPT = 1,     /* after the loop options */
    TOLK_EMIT_PROGRAM = 2, /* the straight-line program */
    TOLK_EMIT_LLVM = 3,
    TOLK_EMIT_ASM = 4, /* of a GPU: PTX */
    TOLK_EMIT_OBJ = 5,
    TOLK_EMIT_HEADER = 6, /* C header for that object, for programs without libtolk */
    TOLK_EMIT_PTX = 7     /* for the GPU that the options name; without a target: sm_75 */
} tolk_emit_kind;
/* Lower a kernel to one form, for any target, with no cache.
 *
 * Owner:   the caller, tolk_free_text(); an object holds NUL bytes, *len counts.
 * Errors:  as tolk_compile.
 */
TOLK_API tolk_status tolk_emit(tolk_ctx *ctx, const tolk_uop *sink, const tolk_compile_opts *opts,
                               tolk_emit_kind kind, char **text, size_t *len, tolk_error *err);

/* The binary cache. */
typedef struct tolk_cache_stats {
    uint64_t memory_hits, disk_hits, misses, evictions, damaged;
    uint64_t memory_entries, memory_bytes;
    uint64_t disk_entries, disk_bytes;
    char disk_dir[512]; /* "" if there is none */
} tolk_cache_stats;
TOLK_API tolk_status tolk_cache_get_stats(tolk_ctx *ctx, tolk_cache_stats *out);
/* Drop every entry, in memory and on disk. Programs in use stay valid. */
TOLK_API tolk_status tolk_cache_clear(tolk_ctx *ctx, tolk_error *err);

/* What this context compiled last, the oldest first, at most 128 of them, as a JSON list. One
 * object each: number, kernel, target (as asked for), opts (loop options that were applied),
 * status, error (message or null), cached ("none", "memory", "disk", "saved"), lanes, code_bytes,
 * total_ns, and phases_ns, an object of the phases in their order: parse (of its text, not in the
 * total), verify, key, cache (looking), thread, one for each pass, llvm (building IR), object,
 * meta, store (in the cache), link. Owner: the caller, tolk_free_text(). Threads: any. */
TOLK_API tolk_status tolk_history(tolk_ctx *ctx, char **text, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
