/* SPDX-License-Identifier: MIT
 *
 * Ref: Intel 64 and IA-32 Architectures Software Developer's Manual, vol. 2A (CPUID) and vol. 1,
 *      chapters 14.3 and 15.2 (detecting AVX and AVX-512 with XGETBV); AMD64 Architecture
 *      Programmer's Manual, vol. 3, appendix E.
 */
#include "cpu/cpu_detect.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct regs {
    uint32_t a, b, c, d;
} regs;

static regs cpuid(uint32_t leaf, uint32_t sub) {
    regs r = {0, 0, 0, 0};
    uint32_t most = __get_cpuid_max(leaf & 0x80000000u, NULL);
    if (most >= leaf)
        __cpuid_count(leaf, sub, r.a, r.b, r.c, r.d);
    return r;
}

/* The register states that the system saves: bit 1 SSE, 2 AVX, 5-7 AVX-512. */
static uint64_t xcr0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

uint64_t tk_cpu_features(const tk_cpu_regs *r) {
    uint64_t f = 0;
    bool osxsave = r->leaf1_c >> 27 & 1;
    uint64_t states = osxsave ? r->xcr0 : 0;
    bool ymm = (states & 6) == 6, zmm = (states & 0xe6) == 0xe6;
#define HAS(NAME, reg, bit, allowed)                                                               \
    if ((allowed) && ((reg) >> (bit) & 1))                                                         \
    f |= (uint64_t)1 << TK_FEATURE_##NAME
    HAS(SSE3, r->leaf1_c, 0, true);
    HAS(PCLMUL, r->leaf1_c, 1, true);
    HAS(SSSE3, r->leaf1_c, 9, true);
    HAS(FMA, r->leaf1_c, 12, ymm);
    HAS(CX16, r->leaf1_c, 13, true);
    HAS(SSE41, r->leaf1_c, 19, true);
    HAS(SSE42, r->leaf1_c, 20, true);
    HAS(MOVBE, r->leaf1_c, 22, true);
    HAS(POPCNT, r->leaf1_c, 23, true);
    HAS(AES, r->leaf1_c, 25, true);
    HAS(AVX, r->leaf1_c, 28, ymm);
    HAS(F16C, r->leaf1_c, 29, ymm);
    HAS(FSGSBASE, r->leaf7_b, 0, true);
    HAS(BMI, r->leaf7_b, 3, true);
    HAS(AVX2, r->leaf7_b, 5, ymm);
    HAS(BMI2, r->leaf7_b, 8, true);
    HAS(AVX512F, r->leaf7_b, 16, zmm);
    HAS(AVX512DQ, r->leaf7_b, 17, zmm);
    HAS(ADX, r->leaf7_b, 19, true);
    HAS(AVX512IFMA, r->leaf7_b, 21, zmm);
    HAS(AVX512CD, r->leaf7_b, 28, zmm);
    HAS(SHA, r->leaf7_b, 29, true);
    HAS(AVX512BW, r->leaf7_b, 30, zmm);
    HAS(AVX512VL, r->leaf7_b, 31, zmm);
    HAS(AVX512VBMI, r->leaf7_c, 1, zmm);
    HAS(AVX512VBMI2, r->leaf7_c, 6, zmm);
    HAS(GFNI, r->leaf7_c, 8, true);
    HAS(VAES, r->leaf7_c, 9, ymm);
    HAS(VPCLMULQDQ, r->leaf7_c, 10, ymm);
    HAS(AVX512VNNI, r->leaf7_c, 11, zmm);
    HAS(AVX512BITALG, r->leaf7_c, 12, zmm);
    HAS(AVX512VPOPCNTDQ, r->leaf7_c, 14, zmm);
    HAS(AVX512FP16, r->leaf7_d, 23, zmm);
    HAS(AVX512BF16, r->leaf7_1_a, 5, zmm);
    HAS(SAHF, r->ext1_c, 0, true);
    HAS(LZCNT, r->ext1_c, 5, true);
#undef HAS
    return f;
}

static uint64_t find_features(void) {
    regs one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1), ext = cpuid(0x80000001u, 0);
    tk_cpu_regs r = {one.c, seven.b, seven.c, seven.d, seven1.a, ext.c, 0};
    if (one.c >> 27 & 1) /* XGETBV is an illegal instruction otherwise */
        r.xcr0 = xcr0();
    return tk_cpu_features(&r);
}

/* LLVM's name for the scheduling model. It tunes; it allows nothing. */
static const char *tuning(uint64_t f) {
    regs id = cpuid(0, 0), one = cpuid(1, 0);
    char vendor[13];
    memcpy(vendor, &id.b, 4);
    memcpy(vendor + 4, &id.d, 4);
    memcpy(vendor + 8, &id.c, 4);
    vendor[12] = 0;
    uint32_t family = one.a >> 8 & 15, model = one.a >> 4 & 15;
    if (family == 15)
        family += one.a >> 20 & 255;
    if (family == 6 || family >= 15)
        model |= (one.a >> 16 & 15) << 4;
    if (strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "HygonGenuine") == 0) {
        if (family >= 26)
            return "znver4"; /* LLVM 19 has no newer model that helps */
        if (family == 25)
            return f >> TK_FEATURE_AVX512F & 1 ? "znver4" : "znver3";
        if (family == 23 || family == 24)
            return model >= 0x30 ? "znver2" : "znver1";
    }
    if (strcmp(vendor, "GenuineIntel") == 0 && family == 6) {
        if (f >> TK_FEATURE_AVX512FP16 & 1)
            return "sapphirerapids";
        if (f >> TK_FEATURE_AVX512VBMI2 & 1)
            return "icelake-server";
        if (f >> TK_FEATURE_AVX512F & 1)
            return f >> TK_FEATURE_AVX512VNNI & 1 ? "cascadelake" : "skylake-avx512";
        if (model >= 0x97)
            return "alderlake";
        if (f >> TK_FEATURE_ADX & 1)
            return "skylake";
        if (f >> TK_FEATURE_AVX2 & 1)
            return "haswell";
    }
    return f >> TK_FEATURE_AVX2 & 1    ? "x86-64-v3"
           : f >> TK_FEATURE_SSE42 & 1 ? "x86-64-v2"
                                       : "x86-64";
}

static void find_model(char model[64]) {
    uint32_t text[12] = {0};
    if (cpuid(0x80000000u, 0).a >= 0x80000004u)
        for (uint32_t i = 0; i < 3; i++) {
            regs r = cpuid(0x80000002u + i, 0);
            memcpy(text + 4 * i, &r, sizeof r);
        }
    char raw[49] = {0};
    memcpy(raw, text, 48);
    const char *p = raw;
    while (*p == ' ')
        p++;
    snprintf(model, 64, "%s", *p ? p : "unknown");
}
#endif

/* Cores by quota of the control group (version 2, then 1); 0: no quota. */
static uint32_t quota_cores(void) {
    long long quota = -1, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fscanf(f, "%lld %lld", &quota, &period) != 2)
            quota = -1;
        fclose(f);
    } else {
        f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re");
        if (f) {
            if (fscanf(f, "%lld", &quota) != 1)
                quota = -1;
            fclose(f);
        }
        f = quota > 0 ? fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re") : NULL;
        if (f) {
            if (fscanf(f, "%lld", &period) != 1)
                period = 0;
            fclose(f);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    long long cores = (quota + period - 1) / period;
    return cores < 1 ? 1 : cores > 4096 ? 4096 : (uint32_t)cores;
}

static uint32_t usable_cores(void) {
    cpu_set_t set;
    uint32_t n = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = (uint32_t)CPU_COUNT(&set);
    if (!n) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        n = online > 0 ? (uint32_t)online : 1;
    }
    uint32_t quota = quota_cores();
    return quota && quota < n ? quota : n;
}

static size_t cache_size(int name) {
    long v = sysconf(name);
    return v > 0 ? (size_t)v : 0;
}

void tk_cpu_detect(tk_host *out) {
    memset(out, 0, sizeof *out);
#if defined(__x86_64__)
    out->arch = TK_ARCH_X86_64;
    out->features = find_features();
    snprintf(out->cpu, sizeof out->cpu, "%s", tuning(out->features));
    find_model(out->model);
#elif defined(__aarch64__)
    out->arch = TK_ARCH_AARCH64;
    snprintf(out->cpu, sizeof out->cpu, "generic");
    snprintf(out->model, sizeof out->model, "aarch64");
#else
#error "tolk runs on x86-64 and aarch64"
#endif
    out->cores = usable_cores();
    out->l1d_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE);
    out->l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE);
    out->l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE);
}
