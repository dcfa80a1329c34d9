/* SPDX-License-Identifier: MIT
 *
 * A compiled program.
 */
#ifndef TK_JIT_PROGRAM_H
#define TK_JIT_PROGRAM_H

#include "jit/backend.h"
#include "jit/cache.h"
#include "jit/meta.h"

/* What a launch looks at for each buffer. */
typedef struct tk_launch_buf {
    size_t bytes;
    bool stored;
} tk_launch_buf;

struct tolk_program {
    _Atomic uint32_t refs;
    tolk_ctx *ctx;
    tolk_device *device;
    tk_binary *binary;
    tk_meta_view meta;       /* into the binary's bytes */
    bool constant;           /* no size depends on a scalar: values holds them all */
    int64_t *values;         /* n_steps */
    tk_launch_buf *buf;      /* n_bufs; NULL: sizes depend on scalars, or do not fit */
    _Atomic tk_kernel_fn fn; /* what a launch runs; changes once where there is a tier */
    tolk_cached cached;
    uint64_t compile_ns;
    size_t code_bytes;
    /* What runs it: bits TK_FEATURE_* that the code may use. */
    tk_arch arch;
    uint64_t features;
    bool quick;           /* fn began as code of that tier */
    struct tk_tier *tier; /* NULL: the code stays as it is */
};

/* The name of the function in every object that is linked. */
#define TK_PROGRAM_SYMBOL "tolk_kernel"

/* A program of a binary: its code is linked and what does not change between launches evaluated.
 *
 *   binary: the program's, also where this fails.   start_ns: when its making began
 * (CLOCK_MONOTONIC) Errors:  TOLK_E_INTERNAL (no metadata in the binary), TOLK_E_LIMIT,
 * TOLK_E_NOMEM, TOLK_E_COMPILE.
 */
tolk_status tk_program_open(tolk_device *device, tk_binary *binary, tolk_cached cached,
                            tk_arch arch, uint64_t features, uint64_t start_ns, tolk_program **out,
                            tolk_error *err);

/* Compile the text of a kernel, which was compiled before, and link it. Errors: of tolk_compile;
 * TOLK_E_LIMIT if its frame is larger than frame_bytes. */
tolk_status tk_program_build(tolk_device *device, const char *text, size_t len,
                             const tk_target *target, const tolk_compile_opts *opts,
                             uint64_t frame_bytes, tk_binary **binary, void **entry,
                             tolk_error *err);

#endif
