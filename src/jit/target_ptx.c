/* SPDX-License-Identifier: MIT
 *
 * GPUs as targets. The lists are tolk's own: LLVM would take an unknown name with a warning and
 * make code for its oldest chip.
 */
#include "jit/target.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* The chips that LLVM 19 makes code for, the first version of PTX that knows each, and the KiB of
 * shared memory that a block may ask for (CUDA C++ Programming Guide, "Compute Capabilities"). */
static const struct {
    const char *name;
    uint32_t sm, ptx, shared_kib;
} chips[] = {{"sm_75", 75, 63, 64}, {"sm_80", 80, 70, 163}, {"sm_86", 86, 71, 99},
             {"sm_89", 89, 78, 99}, {"sm_90", 90, 78, 227}, {"sm_90a", 90, 80, 227}};
enum { N_CHIPS = sizeof chips / sizeof *chips };

/* Versions of PTX that LLVM 19 writes, those since the first chip above. */
static const uint32_t versions[] = {63, 64, 65, 70, 71, 72, 73, 74, 75,
                                    76, 77, 78, 80, 81, 82, 83, 84, 85};
enum { N_VERSIONS = sizeof versions / sizeof *versions };

/* CUDA's releases and the highest version of PTX that the driver of each takes (the table of the
 * PTX ISA manual, "PTX release history"). Newer drivers take all that stands here. */
static const struct {
    uint32_t cuda, ptx;
} drivers[] = {{100, 63}, {101, 64}, {102, 65}, {110, 70}, {111, 71}, {112, 72},
               {113, 73}, {114, 74}, {115, 75}, {116, 76}, {117, 77}, {118, 78},
               {120, 80}, {121, 81}, {122, 82}, {123, 83}, {124, 84}, {125, 85}};
enum { N_DRIVERS = sizeof drivers / sizeof *drivers };

bool tk_target_ptx_is(const char *name) {
    return strncmp(name, "sm_", 3) == 0;
}

bool tk_target_ptx_has(const char *identifier) {
    return strcmp(identifier, "WARP_SZ") == 0;
}

/* Of a release of CUDA, 124 for 12.4. */
static uint32_t ptx_of_cuda(uint32_t cuda) {
    uint32_t ptx = 0;
    for (int i = 0; i < N_DRIVERS && drivers[i].cuda <= cuda; i++)
        ptx = drivers[i].ptx;
    return ptx;
}

uint32_t tk_target_ptx_of_driver(uint32_t driver) {
    return ptx_of_cuda(driver / 1000 * 10 + driver % 1000 / 10);
}

static tolk_status unknown_chip(const char *name, size_t len, tolk_error *err) {
    char known[80] = "";
    size_t at = 0;
    for (int i = 0; i < N_CHIPS; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", chips[i].name);
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "unknown GPU \"%.*s\": expected one of %s (a newer chip runs the code of "
                          "an older one, but for sm_90a)",
                          (int)(len > 32 ? 32 : len), name, known);
}

static tolk_status unknown_option(const char *at, size_t len, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "unknown GPU option \"%.*s\": expected +ptx63 to +ptx85 (a version of "
                          "PTX), or cuda10.0 and newer (one that this driver takes)",
                          (int)(len > 32 ? 32 : len), at);
}

/* "12.4" as 124; 0: it is no such thing. */
static uint32_t read_cuda(const char *at, size_t len) {
    uint32_t major = 0, i = 0;
    for (; i < len && at[i] >= '0' && at[i] <= '9' && i < 3; i++)
        major = major * 10 + (uint32_t)(at[i] - '0');
    bool minor = i + 2 == len && at[i] == '.' && at[i + 1] >= '0' && at[i + 1] <= '9';
    return i && minor ? major * 10 + (uint32_t)(at[i + 1] - '0') : 0;
}

/* "ptx78" as 78; 0: there is no such version. */
static uint32_t read_version(const char *at, size_t len) {
    char name[8];
    for (int i = 0; i < N_VERSIONS; i++)
        if (snprintf(name, sizeof name, "ptx%u", versions[i]) == (int)len &&
            memcmp(name, at, len) == 0)
            return versions[i];
    return 0;
}

tolk_status tk_target_ptx_parse(const char *name, tk_target *out, tolk_error *err) {
    size_t len = strcspn(name, ",");
    int c = 0;
    while (c < N_CHIPS && !(strlen(chips[c].name) == len && memcmp(chips[c].name, name, len) == 0))
        c++;
    if (c == N_CHIPS)
        return unknown_chip(name, len, err);
    uint32_t ptx = chips[c].ptx, cuda = 0;
    for (const char *p = name + len; *p;) {
        p++; /* the comma */
        size_t n = strcspn(p, ",");
        uint32_t v = n > 1 && *p == '+' ? read_version(p + 1, n - 1) : 0;
        uint32_t driver = n > 4 && !memcmp(p, "cuda", 4) ? read_cuda(p + 4, n - 4) : 0;
        if (!v && (!driver || !ptx_of_cuda(driver)))
            return unknown_option(p, n, err);
        if (v && v < chips[c].ptx)
            return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                  "%s needs PTX %u.%u or newer, not %u.%u", chips[c].name,
                                  chips[c].ptx / 10, chips[c].ptx % 10, v / 10, v % 10);
        ptx = v ? v : ptx;
        cuda = driver ? driver : cuda;
        p += n;
    }
    if (cuda && ptx > ptx_of_cuda(cuda))
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "%s in PTX %u.%u: the driver of CUDA %u.%u takes PTX up to %u.%u",
                              chips[c].name, ptx / 10, ptx % 10, cuda / 10, cuda % 10,
                              ptx_of_cuda(cuda) / 10, ptx_of_cuda(cuda) % 10);
    tk_target t;
    memset(&t, 0, sizeof t);
    t.arch = TK_ARCH_PTX;
    snprintf(t.triple, sizeof t.triple, "nvptx64-nvidia-cuda");
    snprintf(t.cpu, sizeof t.cpu, "%s", chips[c].name);
    snprintf(t.features, sizeof t.features, "+ptx%u", ptx);
    t.vec_bytes = 16;
    t.fma = true;
    t.sm = chips[c].sm;
    t.ptx = ptx;
    t.shared_bytes = chips[c].shared_kib << 10;
    *out = t;
    return TOLK_OK;
}
