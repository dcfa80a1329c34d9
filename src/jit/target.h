/* SPDX-License-Identifier: MIT
 *
 * What code is made for.
 */
#ifndef TK_JIT_TARGET_H
#define TK_JIT_TARGET_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tk_arch { TK_ARCH_X86_64, TK_ARCH_AARCH64 } tk_arch;

/* A target is fully described by this struct; every byte of it shapes the code (it is zero-filled
 * before it is set, and is part of the cache key). */
typedef struct tk_target {
    tk_arch arch;
    char triple[40];     /* LLVM's: "x86_64-unknown-linux-gnu" */
    char cpu[32];        /* LLVM's name, from tolk's own list: it sets the scheduling model */
    char features[1024]; /* "+avx2,+fma,-avx512f,..." : what may be used, whatever the name implies */
    uint32_t vec_bytes;  /* widest vector register used: 16, 32, 64 */
    bool fma;            /* fused multiply-add in hardware */
    bool avx2;
    bool avx512;   /* F, BW, DQ, VL, CD together */
    bool masked32; /* masked loads and stores of 32- and 64-bit lanes (AVX2, AVX-512) */
    bool masked8;  /* and of 8- and 16-bit lanes (AVX-512) */
} tk_target;

#endif
