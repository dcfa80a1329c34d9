/* SPDX-License-Identifier: MIT
 *
 * Programs that begin with code that was made quickly: how often they are launched, and the better
 * code that is made on another thread once it is often. No launch ever waits for it.
 */
#ifndef TK_JIT_TIER_H
#define TK_JIT_TIER_H

#include "jit/program.h"

/* A kernel is worth better code after this many launches, or as soon as their work, in operations
 * plus bytes, is as much: with full code that takes a few milliseconds, as long as making it does.
 */
enum { TK_TIER_LAUNCHES = 8, TK_TIER_WORK = 1 << 28 };

/* Let p, which has quick code, get better code one day.
 *
 *   text: of its kernel, copied. opts: as given to tolk_compile; copied, too.
 * Errors: TOLK_E_NOMEM.
 */
tolk_status tk_tier_begin(tolk_program *p, const char *text, size_t len, const tk_target *target,
                          const tolk_compile_opts *opts, tolk_error *err);
/* p, which has a tier, is going to be launched; work: operations plus bytes. Threads: any. */
void tk_tier_launch(const tolk_program *p, double work);
/* Has p its final code? */
bool tk_tier_is_done(const tolk_program *p);
/* The last reference of p is gone; NULL does nothing. */
void tk_tier_end(tolk_ctx *ctx, struct tk_tier *tier);

#endif
