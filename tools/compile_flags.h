/* SPDX-License-Identifier: MIT
 *
 * The flags that become tolk_compile_opts.
 */
#ifndef TK_TOOLS_COMPILE_FLAGS_H
#define TK_TOOLS_COMPILE_FLAGS_H

#include "tool.h"

#include <string.h>

typedef struct tk_compile_flags {
    const char *opts, *target, *bounds, *symbol;
    int strict;
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
    fprintf(stderr, "tolk-jit: %.400s is compiled as it was then: --target %.200s --bounds %.20s%s",
            path, f->target, f->bounds ? f->bounds : "check", f->strict ? " --strict" : "");
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
    if (f->bounds && !strcmp(f->bounds, "trust"))
        opts.bounds = TOLK_BOUNDS_TRUST;
    else if (f->bounds && strcmp(f->bounds, "check"))
        return tk_report_usage("%s: --bounds %.100s: expected check or trust", command, f->bounds);
    *out = opts;
    return TOOL_DONE;
}

#endif
