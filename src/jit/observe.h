/* SPDX-License-Identifier: MIT
 *
 * Telling perf and GDB of compiled kernels: TOLK_PERF, TOLK_GDB. What they read belongs to the
 * process, so this keeps a list of all kernels of all contexts that are observed.
 */
#ifndef TK_JIT_OBSERVE_H
#define TK_JIT_OBSERVE_H

#include "base/ctx.h"

/* One kernel as the observers see it. */
typedef struct tk_observed {
    struct tk_observed *next, *prev; /* in the list of the process */
    char name[96];                   /* of the function, an identifier */
    const void *code;
    size_t code_bytes;
    struct tk_gdb_entry *gdb; /* NULL: GDB does not know it */
} tk_observed;

/* Does the environment ask for it? */
static inline bool tk_observe_wanted(const tolk_ctx *ctx) {
    return ctx->perf || ctx->gdb;
}
/* Tell the observers of a kernel that was linked.
 *
 *   object: it was linked from; tells how long the function `symbol` at `entry` is.
 * *out: NULL if nobody is told, else to be given to tk_observe_remove before the code goes. What
 * fails is a warning. Threads: any.
 */
void tk_observe_add(tolk_ctx *ctx, const char *kernel, const void *entry, const void *object,
                    size_t len, const char *symbol, tk_observed **out);
void tk_observe_remove(tolk_ctx *ctx, tk_observed *observed); /* NULL does nothing */

/* Bytes of a function of an ELF object, which may be any bytes. 0: it has none of that name. */
size_t tk_observe_function_bytes(const void *object, size_t len, const char *symbol);

#endif
