/* SPDX-License-Identifier: MIT */
#include "jit/target.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const char *const feature_names[TK_FEATURE_COUNT] = {
#define FEATURE_NAME(NAME, text) text,
    TK_TARGET_FEATURES(FEATURE_NAME)
#undef FEATURE_NAME
};

#define BIT(NAME) ((uint64_t)1 << TK_FEATURE_##NAME)
#define V2 (BIT(SSE3) | BIT(SSSE3) | BIT(SSE41) | BIT(SSE42) | BIT(POPCNT) | BIT(CX16) | BIT(SAHF))
#define HASWELL                                                                                    \
    (V2 | BIT(MOVBE) | BIT(AES) | BIT(PCLMUL) | BIT(AVX) | BIT(F16C) | BIT(FMA) | BIT(AVX2) |      \
     BIT(BMI) | BIT(BMI2) | BIT(LZCNT) | BIT(FSGSBASE))
#define V3                                                                                         \
    (V2 | BIT(MOVBE) | BIT(AVX) | BIT(F16C) | BIT(FMA) | BIT(AVX2) | BIT(BMI) | BIT(BMI2) |        \
     BIT(LZCNT))
#define AVX512 (BIT(AVX512F) | BIT(AVX512CD) | BIT(AVX512BW) | BIT(AVX512DQ) | BIT(AVX512VL))

/* tolk's CPUs: LLVM's name of the scheduling model, and the features that code may use. */
static const struct {
    const char *name, *cpu;
    tk_arch arch;
    uint64_t features;
} cpus[] = {
    {"x86-64", "x86-64", TK_ARCH_X86_64, 0},
    {"x86-64-v2", "x86-64-v2", TK_ARCH_X86_64, V2},
    {"x86-64-v3", "x86-64-v3", TK_ARCH_X86_64, V3},
    {"x86-64-v4", "x86-64-v4", TK_ARCH_X86_64, V3 | AVX512},
    {"haswell", "haswell", TK_ARCH_X86_64, HASWELL},
    {"skylake-avx512", "skylake-avx512", TK_ARCH_X86_64, HASWELL | BIT(ADX) | AVX512},
    {"aarch64", "generic", TK_ARCH_AARCH64, 0},
};
enum { N_CPUS = sizeof cpus / sizeof *cpus };

static tolk_status unknown_cpu(tolk_error *err, const char *name, size_t len) {
    char known[200] = "native";
    size_t at = strlen(known);
    for (int i = 0; i < N_CPUS; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, ", %s", cpus[i].name);
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "unknown CPU name \"%.*s\": expected %s, then +feature or -feature; or a "
                          "GPU, sm_75 to sm_90a",
                          (int)(len > 32 ? 32 : len), name, known);
}

/* All names do not fit a message, so those that begin with avx512 share that. */
static tolk_status unknown_feature(tolk_error *err, tk_arch arch, const char *name, size_t len) {
    char known[240] = "";
    size_t at = 0;
    int n = (int)(len > 16 ? 16 : len);
    if (arch != TK_ARCH_X86_64)
        return tk_status_fail(
            err, TOLK_E_ARG, TK_NO_NODE,
            "unknown CPU feature \"%.*s\": features can be chosen for x86-64 only", n, name);
    for (int avx512 = 0; avx512 < 2; avx512++)
        for (int i = 0; i < TK_FEATURE_COUNT; i++)
            if ((strncmp(feature_names[i], "avx512", 6) == 0) == avx512)
                at += (size_t)snprintf(known + at, sizeof known - at, "%s%s",
                                       !at                       ? ""
                                       : i == TK_FEATURE_AVX512F ? " avx512:"
                                       : avx512                  ? ","
                                                                 : " ",
                                       feature_names[i] + 6 * avx512);
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "unknown CPU feature \"%.*s\": +/- %s", n,
                          name, known);
}

/* Turn every feature on or off by name: what the CPU's name implies to LLVM must not matter. */
static void write_features(tk_target *t, uint64_t features) {
    size_t at = 0;
    if (t->arch == TK_ARCH_AARCH64) {
        snprintf(t->features, sizeof t->features, "+neon");
        return;
    }
    for (int i = 0; i < TK_FEATURE_COUNT; i++)
        at += (size_t)snprintf(t->features + at, sizeof t->features - at, "%s%c%s", at ? "," : "",
                               features >> i & 1 ? '+' : '-', feature_names[i]);
    /* Models with narrow preferences would halve the vectors that tolk chose. */
    snprintf(t->features + at, sizeof t->features - at, ",-prefer-256-bit,-prefer-128-bit");
}

/* What needs another feature goes when that one is off. */
static uint64_t consistent(uint64_t f) {
    if (!(f & BIT(SSE3)))
        f &= ~(BIT(SSSE3));
    if (!(f & BIT(SSSE3)))
        f &= ~(BIT(SSE41));
    if (!(f & BIT(SSE41)))
        f &= ~(BIT(SSE42));
    if (!(f & BIT(SSE42)))
        f &= ~(BIT(AVX));
    if (!(f & BIT(AVX)))
        f &= ~(BIT(F16C) | BIT(FMA) | BIT(AVX2) | BIT(VAES) | BIT(VPCLMULQDQ));
    /* To LLVM these imply the others, which would come back. */
    if (!(f & BIT(AVX2)) || !(f & BIT(AES)))
        f &= ~(BIT(VAES));
    if (!(f & BIT(PCLMUL)))
        f &= ~(BIT(VPCLMULQDQ));
    if (!(f & BIT(AVX2)) || !(f & BIT(FMA)) || !(f & BIT(F16C)))
        f &= ~(AVX512);
    if (!(f & BIT(AVX512F)) || (f & AVX512) != AVX512)
        f &= ~(AVX512 | BIT(AVX512IFMA) | BIT(AVX512VBMI) | BIT(AVX512VBMI2) | BIT(AVX512VNNI) |
               BIT(AVX512BITALG) | BIT(AVX512VPOPCNTDQ) | BIT(AVX512BF16) | BIT(AVX512FP16));
    return f;
}

tolk_status tk_target_parse(const tk_host *host, const char *name, tk_target *out,
                            tolk_error *err) {
    if (!name || !*name)
        name = "native";
    if (tk_target_ptx_is(name))
        return tk_target_ptx_parse(name, out, err);
    size_t len = strcspn(name, ",");
    tk_target t;
    memset(&t, 0, sizeof t);
    uint64_t features = 0;
    if (len == 6 && memcmp(name, "native", 6) == 0) {
        t.arch = host->arch;
        snprintf(t.cpu, sizeof t.cpu, "%s", host->cpu);
        features = host->features;
    } else {
        int i = 0;
        while (i < N_CPUS && !(strlen(cpus[i].name) == len && memcmp(cpus[i].name, name, len) == 0))
            i++;
        if (i == N_CPUS)
            return unknown_cpu(err, name, len);
        t.arch = cpus[i].arch;
        snprintf(t.cpu, sizeof t.cpu, "%s", cpus[i].cpu);
        features = cpus[i].features;
    }
    for (const char *p = name + len; *p;) {
        p++; /* the comma */
        size_t n = strcspn(p, ",");
        int f = 0;
        if (n > 1 && (*p == '+' || *p == '-'))
            while (f < TK_FEATURE_COUNT && !(strlen(feature_names[f]) == n - 1 &&
                                             memcmp(feature_names[f], p + 1, n - 1) == 0))
                f++;
        else
            f = TK_FEATURE_COUNT;
        if (f == TK_FEATURE_COUNT || t.arch != TK_ARCH_X86_64)
            return unknown_feature(err, t.arch, p, n);
        if (*p == '+')
            features |= (uint64_t)1 << f;
        else
            features &= ~((uint64_t)1 << f);
        p += n;
    }
    features = consistent(features);
    bool x86 = t.arch == TK_ARCH_X86_64;
    snprintf(t.triple, sizeof t.triple, "%s",
             x86 ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu");
    write_features(&t, features);
    t.avx512 = (features & AVX512) == AVX512;
    t.avx2 = (features & BIT(AVX2)) != 0;
    t.fma = !x86 || (features & BIT(FMA)) != 0;
    t.f16c = t.avx2 && (features & BIT(F16C)) != 0;
    t.vec_bytes = t.avx512 ? 64 : t.avx2 ? 32 : 16;
    t.masked32 = t.avx512 || t.avx2;
    t.masked8 = t.avx512;
    *out = t;
    return TOLK_OK;
}

uint64_t tk_target_features(const tk_target *target) {
    uint64_t features = 0;
    for (const char *p = target->features; *p;) {
        size_t n = strcspn(p, ",");
        for (int f = 0; f < TK_FEATURE_COUNT && *p == '+'; f++)
            if (strlen(feature_names[f]) == n - 1 && memcmp(feature_names[f], p + 1, n - 1) == 0)
                features |= (uint64_t)1 << f;
        p += n + (p[n] == ',');
    }
    return features;
}

const char *tk_target_feature_name(int i) {
    return feature_names[i];
}

bool tk_target_runs_on(const tk_target *target, const tk_host *host, const char **missing) {
    static const char *const units[] = {[TK_ARCH_X86_64] = "an x86-64 CPU",
                                        [TK_ARCH_AARCH64] = "an aarch64 CPU",
                                        [TK_ARCH_PTX] = "a CUDA device"};
    if (target->arch != host->arch) {
        *missing = units[target->arch];
        return false;
    }
    uint64_t lacks = tk_target_features(target) & ~host->features;
    for (int f = 0; f < TK_FEATURE_COUNT; f++)
        if (lacks >> f & 1) {
            *missing = feature_names[f];
            return false;
        }
    return true;
}
