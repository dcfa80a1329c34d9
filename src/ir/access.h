/* SPDX-License-Identifier: MIT
 *
 * What can be proved about the accesses of a kernel: that they stay inside their buffers, and that
 * two params may be one memory.
 */
#ifndef TK_IR_ACCESS_H
#define TK_IR_ACCESS_H

#include "ir/uop.h"

/* u itself, behind any number of AFTERs. */
static inline const tolk_uop *tk_access_base(const tolk_uop *u) {
    while (tk_uop_is(u, TK_OP_AFTER))
        u = u->src[0];
    return u;
}
/* Is it a BUFFER of registers? */
static inline bool tk_access_is_reg(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_REG;
}
/* The PARAM or BUFFER that a place (INDEX), or a buffer behind AFTER, is in. */
const tolk_uop *tk_access_buffer(const tolk_uop *u);

/* The index without its gates, where(valid, i, invalid) -> i, and gate and every valid as one
 * condition (NULL: always). An index that is invalid everywhere gives `invalid`. *gate is NULL or a
 * bool scalar; new nodes go into the graph. NULL when out of memory. */
const tolk_uop *tk_access_ungate(const tolk_uop *index, const tolk_uop **gate);

/* Is it sure that wherever gate (NULL: always) and the gates of its indices hold, every index of
 * this place is within its dimension? False means: not proved, so it must be checked when it runs.
 * Uses the graph's memo tables: one thread at a time. */
bool tk_access_proved(const tolk_uop *place, const tolk_uop *gate);

/* Pairs of slots that may be given one memory. */
typedef struct tk_access_pair {
    int64_t loaded, stored; /* slots */
} tk_access_pair;
typedef TK_VEC(tk_access_pair) tk_access_pairs;

/* All pairs (one param loaded only, one stored once) that may have equal base and size: each
 * iteration of the kernel reads and writes one element that is its own, at the same index, and has
 * read it before it writes. Every other overlap of a stored param changes the result.
 *
 *   kernel: a verified SINK. out: initialised by the caller; pairs are appended, each once.
 * Errors:   TOLK_E_NOMEM, TOLK_E_LIMIT (too many ranges).
 */
tolk_status tk_access_inplace(const tolk_uop *kernel, tk_access_pairs *out);
/* Is (a, b), in either order, among the pairs? */
bool tk_access_pairs_has(const tk_access_pairs *pairs, int64_t a, int64_t b);

#endif
