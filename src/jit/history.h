/* SPDX-License-Identifier: MIT
 *
 * What a context compiled last, and how long each phase took.
 */
#ifndef TK_JIT_HISTORY_H
#define TK_JIT_HISTORY_H

#include "base/ctx.h"
#include "base/phases.h"

#include <tolk/jit.h>

enum { TK_HISTORY_KEPT = 128 /* the newest */ };

/* One compilation, a cached or a failed one, too. All of it is copied. */
typedef struct tk_history_record {
    const char *kernel, *target, *opts; /* opts: those applied; "" where that is not known */
    tolk_status status;
    const char *error; /* message; NULL if it did not fail */
    tolk_cached cached;
    uint32_t lanes;
    size_t code_bytes;
    uint64_t total_ns;
    const tk_phases *phases;
} tk_history_record;

/* Silently drops it without memory. Threads: any. */
void tk_history_add(tolk_ctx *ctx, const tk_history_record *record);

#endif
