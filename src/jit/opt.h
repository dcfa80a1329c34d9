/* SPDX-License-Identifier: MIT
 *
 * Loop options: how a kernel's loops are split, reordered and mapped to lanes. Each is a rewrite of
 * the kernel graph (docs/ir.md, "Loop options"); the graph afterwards says all that was decided.
 */
#ifndef TK_JIT_OPT_H
#define TK_JIT_OPT_H

#include "jit/kview.h"

typedef enum tk_opt_kind {
    TK_OPT_UPCAST,
    TK_OPT_LANE,
    TK_OPT_UNROLL,
    TK_OPT_GROUPTOP,
    TK_OPT_THREAD,
    TK_OPT_SWAP,
    TK_OPT_PADTO,
    TK_OPT_LOOP,
    TK_OPT_LOCAL,
    TK_OPT_GROUP,
    TK_OPT_NOLOCALS
} tk_opt_kind;

typedef struct tk_opt {
    tk_opt_kind kind;
    uint32_t axis; /* 0 in NOLOCALS, which has none */
    int64_t arg;   /* amount, or the other axis of SWAP; unused by LOOP and NOLOCALS */
} tk_opt;

typedef TK_VEC(tk_opt) tk_opts;

enum {
    TK_OPT_MAX_UPCAST = 16,
    TK_OPT_MAX_UNROLL = 32,
    TK_OPT_MAX_GROUP = 256,
    TK_OPT_MAX_ITEMS = 1024,  /* of a work-group: what every GPU has */
    TK_OPT_MAX_SHARED = 49152 /* bytes of partial results of a work-group: the same */
};

/* Read "UPCAST:0:4 LANE:1:16". Errors: TOLK_E_ARG naming the option and what was expected. */
tolk_status tk_opt_parse(const char *text, tk_opts *out, tolk_error *err);
/* The same form; buf is cut to fit. */
void tk_opt_text(const tk_opt *opt, char *buf, size_t bytes);

/* The active ranges of a kernel in the order options count them. out must be initialised. */
tolk_status tk_opt_axes(const tk_kview *v, tk_uops *out, tolk_error *err);

/* Apply one option to *root (a kernel's SINK).
 *
 *   strict: refuse what changes the order of a float sum or product.
 * Errors:  TOLK_E_ARG: the axis does not exist, its kind or size does not allow the option, or
 *          iterations depend on each other; *root is untouched.
 */
tolk_status tk_opt_apply(const tolk_uop **root, const tk_opt *opt, bool strict, tolk_error *err);

/* Choose options for a CPU with vectors of vec_bytes. Appends to out. */
tolk_status tk_opt_heuristic(const tolk_uop *root, uint32_t vec_bytes, bool strict, tk_opts *out,
                             const tolk_uop **result, tolk_error *err);

/* ---- opt_group.c: work-groups ---- */

/* Was NOLOCALS applied: may no axis become one of work-items? And the sink that says so. */
bool tk_opt_has_nolocals(const tolk_uop *sink);
const tolk_uop *tk_opt_with_nolocals(const tolk_uop *sink);
/* Is there a range of kind local, warp or group_reduce? */
bool tk_opt_has_locals(const tk_kview *v);
/* Work-items of a group so far: the product of the sizes of those ranges; symbolic ones count 1. */
int64_t tk_opt_group_items(const tk_kview *v);
/* Bytes of local memory that the partial results of a group need so far, for each element of the
 * first reduction; 0 where no reduction is grouped, unless `group` says that one will be. */
int64_t tk_opt_shared_bytes(const tk_kview *v, bool group);
/* Does a reduction over the range run inside of another reduction? */
bool tk_opt_is_nested(const tk_kview *v, const tolk_uop *range);

/* May iterations of this range run in any order and at once? True for the unordered kinds, and for
 * loops whose effects touch no scratch memory, store to places that no other iteration stores to,
 * and load what they store at that place only. (opt_order.c) */
bool tk_opt_parallel(const tk_kview *v, const tolk_uop *range);
/* The same kernel, where ranges of kind upcast, unroll and lane whose iterations meet in memory are
 * loops: unrolled, a store would be done for all of them before the next one. NULL on failure. */
const tolk_uop *tk_opt_order_given(tolk_graph *g, const tolk_uop *root);

#endif
