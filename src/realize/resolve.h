/* SPDX-License-Identifier: MIT
 *
 * From nodes to buffers.
 */
#ifndef TK_REALIZE_RESOLVE_H
#define TK_REALIZE_RESOLVE_H

#include "base/map.h"
#include "ir/walk.h"
#include "realize/bindings.h"

/* What nodes stand for while nothing is bound anew: for many that share what is below them. The
 * nodes are of one graph, and the inputs stay. */
typedef struct tk_resolve_memo {
    tolk_bindings *bindings;
    uint64_t generation;           /* of the bindings, when it was begun */
    tk_walk_map own;               /* node -> id + 1 of the bindings' */
    tk_map place;                  /* node of the bindings -> index in values */
    TK_VEC(tk_bindings_to) values; /* referenced */
} tk_resolve_memo;
void tk_resolve_memo_init(tk_resolve_memo *memo, tolk_bindings *b);
void tk_resolve_memo_fini(tk_resolve_memo *memo);

/* What a node stands for, referenced for the caller: docs/ir.md, "Calls". node: of any graph.
 * memo NULL: none. Errors: those of tolk_resolve(); the message names the node at fault. */
tolk_status tk_resolve(tolk_bindings *b, tk_resolve_memo *memo, const tolk_uop *const *inputs,
                       size_t n_inputs, const tolk_uop *node, tk_bindings_to *out, tolk_error *err);
/* Is args such as this library knows, or NULL? call: "tolk_run_linear". Errors: TOLK_E_ARG. */
tolk_status tk_resolve_check_args(const char *call, const tolk_run_args *args, tolk_error *err);
/* "param {slot=3}", "slice {count=4}": a node in messages. Returns buf. */
const char *tk_resolve_name(const tolk_uop *node, char buf[96]);
/* The part [offset, offset + count) of what a slice's source stands for; offset: in elements of
 * source's dtype. Errors: TOLK_E_UNSUPPORTED, TOLK_E_RANGE, those of tolk_buffer_view(). */
tolk_status tk_resolve_slice(const tolk_uop *slice, tk_bindings_to source, tk_bindings_to *out,
                             tolk_error *err);

#endif
