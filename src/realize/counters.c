/* SPDX-License-Identifier: MIT */
#include "realize/counters.h"

#include "realize/realize.h"

#include <tolk/realize.h>

void tk_counters_add(tolk_ctx *ctx, tk_count what, uint64_t n) {
    atomic_fetch_add_explicit(&tk_realize_of(ctx)->counts[what], n, memory_order_relaxed);
}

tolk_status tolk_stats(tolk_ctx *ctx, tolk_counters *out) {
    if (!ctx || !out)
        return TOLK_E_ARG;
    uint64_t n[TK_COUNTS];
    for (int i = 0; i < TK_COUNTS; i++)
        n[i] = atomic_load_explicit(&tk_realize_of(ctx)->counts[i], memory_order_relaxed);
    *out = (tolk_counters){.launches = n[TK_COUNT_LAUNCHES],
                           .copies = n[TK_COUNT_COPIES],
                           .compiles = n[TK_COUNT_COMPILES],
                           .compile_hits = n[TK_COUNT_COMPILE_HITS],
                           .graph_records = n[TK_COUNT_GRAPH_RECORDS],
                           .graph_launches = n[TK_COUNT_GRAPH_LAUNCHES],
                           .execs = n[TK_COUNT_EXECS],
                           .schedules = n[TK_COUNT_SCHEDULES],
                           .schedule_hits = n[TK_COUNT_SCHEDULE_HITS]};
    return TOLK_OK;
}
