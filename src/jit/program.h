/* SPDX-License-Identifier: MIT
 *
 * A compiled program.
 */
#ifndef TK_JIT_PROGRAM_H
#define TK_JIT_PROGRAM_H

#include "jit/backend.h"
#include "jit/cache.h"
#include "jit/meta.h"

struct tolk_program {
    _Atomic uint32_t refs;
    tolk_ctx *ctx;
    tolk_device *device;
    tk_binary *binary;
    tk_meta_view meta; /* into the binary's bytes */
    bool constant;     /* no size depends on a scalar: values holds them all */
    int64_t *values;   /* n_steps */
    tk_kernel_fn fn;
    tolk_cached cached;
    uint64_t compile_ns;
    size_t code_bytes;
};

#endif
