/* SPDX-License-Identifier: MIT
 *
 * What code is made for.
 */
#ifndef TK_JIT_TARGET_H
#define TK_JIT_TARGET_H

#include <tolk/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tk_arch { TK_ARCH_X86_64, TK_ARCH_AARCH64, TK_ARCH_PTX } tk_arch;

/* A target is fully described by this struct; every byte of it shapes the code (it is zero-filled
 * before it is set, and is part of the cache key). */
typedef struct tk_target {
    tk_arch arch;
    char triple[40];     /* LLVM's: "x86_64-unknown-linux-gnu" */
    char cpu[32];        /* LLVM's name, from tolk's own list: it sets the scheduling model; "sm_80"
                          */
    char features[1024]; /* "+avx2,+fma,-avx512f,..." : what may be used, whatever the name implies
                          */
    uint32_t vec_bytes;  /* widest vector register used: 16, 32, 64 */
    bool fma;            /* fused multiply-add in hardware */
    bool f16c;           /* conversions between f16 and f32 in hardware, with AVX2 */
    bool avx2;
    bool avx512;           /* F, BW, DQ, VL, CD together */
    bool masked32;         /* masked loads and stores of 32- and 64-bit lanes (AVX2, AVX-512) */
    bool masked8;          /* and of 8- and 16-bit lanes (AVX-512) */
    bool quick;            /* code that is made soon, not code that runs fast */
    uint32_t sm;           /* TK_ARCH_PTX: 10 times the compute capability, 75 for sm_75; else 0 */
    uint32_t ptx;          /* and 10 times the version of PTX, 63 for 6.3 */
    uint32_t shared_bytes; /* and the most shared memory of a block */
} tk_target;

/* Threads of a block, of every GPU: all of them, and in z. */
enum { TK_TARGET_MOST_THREADS = 1024, TK_TARGET_MOST_THREADS_Z = 64 };

/* Is it a GPU, where each lane is a thread? */
static inline bool tk_target_is_gpu(const tk_target *target) {
    return target->arch == TK_ARCH_PTX;
}

/* CPU features that tolk knows, with LLVM's names: bit i of tk_host.features. */
/* clang-format off */
#define TK_TARGET_FEATURES(X)                                                                      \
    X(SSE3, "sse3") X(SSSE3, "ssse3") X(SSE41, "sse4.1") X(SSE42, "sse4.2") X(POPCNT, "popcnt")    \
    X(CX16, "cx16") X(SAHF, "sahf") X(MOVBE, "movbe") X(AES, "aes") X(PCLMUL, "pclmul")            \
    X(AVX, "avx") X(F16C, "f16c") X(FMA, "fma") X(AVX2, "avx2") X(BMI, "bmi") X(BMI2, "bmi2")      \
    X(LZCNT, "lzcnt") X(FSGSBASE, "fsgsbase") X(ADX, "adx") X(SHA, "sha") X(GFNI, "gfni")          \
    X(VAES, "vaes") X(VPCLMULQDQ, "vpclmulqdq") X(AVX512F, "avx512f") X(AVX512CD, "avx512cd")      \
    X(AVX512BW, "avx512bw") X(AVX512DQ, "avx512dq") X(AVX512VL, "avx512vl")                        \
    X(AVX512IFMA, "avx512ifma") X(AVX512VBMI, "avx512vbmi") X(AVX512VBMI2, "avx512vbmi2")          \
    X(AVX512VNNI, "avx512vnni") X(AVX512BITALG, "avx512bitalg")                                    \
    X(AVX512VPOPCNTDQ, "avx512vpopcntdq") X(AVX512BF16, "avx512bf16") X(AVX512FP16, "avx512fp16")
/* clang-format on */
enum {
#define TK_TARGET_FEATURE_ENUM(NAME, text) TK_FEATURE_##NAME,
    TK_TARGET_FEATURES(TK_TARGET_FEATURE_ENUM)
#undef TK_TARGET_FEATURE_ENUM
        TK_FEATURE_COUNT
};

/* What this machine can run, as a backend found it. */
typedef struct tk_host {
    tk_arch arch;
    char model[64];    /* as the CPU names itself */
    char cpu[32];      /* LLVM's name for the tuning, from tolk's own list */
    uint64_t features; /* bits TK_FEATURE_*: those the CPU has and the system lets run */
    uint32_t cores;    /* that this process may use (affinity, quota) */
    size_t l1d_bytes, l2_bytes, l3_bytes;
} tk_host;

/* Target by its name: "native", a CPU of tolk's list, either with ",+feature" and ",-feature"
 * behind it; or a GPU (target_ptx.c). NULL: native. Errors: TOLK_E_ARG, naming what there is. */
tolk_status tk_target_parse(const tk_host *host, const char *name, tk_target *out, tolk_error *err);
/* Can the host run code for it? If not, *missing names a feature (static text). */
bool tk_target_runs_on(const tk_target *target, const tk_host *host, const char **missing);

/* Features that code for it may use: bits TK_FEATURE_*. */
uint64_t tk_target_features(const tk_target *target);
/* Text name of feature i < TK_FEATURE_COUNT. */
const char *tk_target_feature_name(int i);

/* ---- target_ptx.c ---- */

/* Is that a name of a GPU, right or wrong: does it begin with "sm_"? */
bool tk_target_ptx_is(const char *name);
/* Is an identifier of C one that PTX has itself (PTX ISA, "Predefined Identifiers")? The others of
 * PTX begin with '%'; names of instructions and types can be names of functions. */
bool tk_target_ptx_has(const char *identifier);
/* "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"; the lowest version of PTX that the chip
 * needs. Behind it: ",+ptx78" a higher one; ",cuda12.4" the lowest again, and an error unless the
 * driver that comes with that version of CUDA takes it. Errors: TOLK_E_ARG, naming what there is;
 * TOLK_E_UNSUPPORTED, naming both versions. */
tolk_status tk_target_ptx_parse(const char *name, tk_target *out, tolk_error *err);
/* 10 times the highest version of PTX that a driver takes; driver: as cuDriverGetVersion says it,
 * 12040 for CUDA 12.4. 0: it takes none of what tolk makes. */
uint32_t tk_target_ptx_of_driver(uint32_t driver);

#endif
