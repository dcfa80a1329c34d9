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
