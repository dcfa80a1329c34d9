/* SPDX-License-Identifier: MIT
 *
 * The flags that become tolk_compile_opts.
 */
#ifndef TK_TOOLS_COMPILE_FLAGS_H
#define TK_TOOLS_COMPILE_FLAGS_H

#include "tool.h"

#include <string.h>

typedef struct tk_compile_flags {
    const char *opts, *target, *bounds, *symbol, *tier;
    int strict;
    int no_cache; /* a replay compiles, whatever was kept since */
} tk_compile_flags;

/* Settings of a file that TOLK_REPRO wrote stand in for flags that are not given. Says so on
 * stderr. */
static inline void tk_compile_flags_replay(const tk_source *source, const char *path,
                                           tk_compile_flags *f) {
    if (!tk_source_is_repro(source))
        return;
    if (!f->target)
        f->target = source->target;
    if (!f->opts)
        f->opts = source->opts;
    if (!f->bounds)
        f->bounds = source->bounds;
    f->strict |= source->strict != NULL;
    if (!f->tier)
        f->tier = source->tier;
    if (!f->symbol)
        f->symbol = source->symbol;
    f->no_cache = 1;
    fprintf(stderr, "tolk-jit: %.400s is compiled as it was then: --target %.200s --bounds %.20s%s",
            path, f->target, f->bounds ? f->bounds : "check", f->strict ? " --strict" : "");
    if (f->tier)
        fprintf(stderr, " --tier %.20s", f->tier);
    if (f->symbol)
        fprintf(stderr, " --symbol %.100s", f->symbol);
    if (f->opts)
        fprintf(stderr, " --opts \"%.300s\"", f->opts);
    fputc('\n', stderr);
}

static inline int tk_compile_flags_read(const char *command, const tk_compile_flags *f,
                                        tolk_compile_opts *out) {
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = f->opts;
    opts.target = f->target;
    opts.symbol = f->symbol;
    opts.strict = (uint32_t)f->strict;
    opts.no_cache = (uint32_t)f->no_cache;
    static const char *const tiers[] = {
        [TOLK_TIER_FULL] = "full", [TOLK_TIER_QUICK] = "quick", [TOLK_TIER_AUTO] = "auto"};
    for (int i = TOLK_TIER_FULL; f->tier && i <= TOLK_TIER_AUTO; i++)
        if (!strcmp(f->tier, tiers[i]))
            opts.tier = (tolk_tier)i;
    if (f->tier && opts.tier == TOLK_TIER_DEFAULT)
        return tk_report_usage("%s: --tier %.100s: expected full, quick or auto", command, f->tier);
    if (f->bounds && !strcmp(f->bounds, "trust"))
        opts.bounds = TOLK_BOUNDS_TRUST;
    else if (f->bounds && strcmp(f->bounds, "check"))
        return tk_report_usage("%s: --bounds %.100s: expected check or trust", command, f->bounds);
    *out = opts;
    return TOOL_DONE;
}

#endif
