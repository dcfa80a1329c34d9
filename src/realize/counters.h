/* SPDX-License-Identifier: MIT
 *
 * What tolk_stats() counts. The numbers are in tk_realize.
 */
#ifndef TK_REALIZE_COUNTERS_H
#define TK_REALIZE_COUNTERS_H

#include "base/ctx.h"

typedef enum tk_count {
    TK_COUNT_LAUNCHES,
    TK_COUNT_COPIES,
    TK_COUNT_COMPILES,
    TK_COUNT_COMPILE_HITS,
    TK_COUNT_GRAPH_RECORDS,
    TK_COUNT_GRAPH_LAUNCHES,
    TK_COUNT_EXECS,
    TK_COUNT_SCHEDULES,
    TK_COUNT_SCHEDULE_HITS,
    TK_COUNTS
} tk_count;

/* Threads: any. */
void tk_counters_add(tolk_ctx *ctx, tk_count what, uint64_t n);

#endif
