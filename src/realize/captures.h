/* SPDX-License-Identifier: MIT
 *
 * Linears on their way to be run, or to who captures them.
 */
#ifndef TK_REALIZE_CAPTURES_H
#define TK_REALIZE_CAPTURES_H

#include "ir/walk.h"
#include "realize/linear.h"
#include "schedule/capture.h"

/* What tolk_realize_linear() hands to the hook of a tk_capture. */
typedef struct tk_captured {
    tolk_bindings *bindings;
    tolk_linear *linear; /* its inputs stand in it in place of the PARAMs for them */
    const tolk_uop *const *held;
    size_t n_held;
    const tolk_realize_opts *opts; /* NULL: none were given */
    const tolk_var *vars;
    size_t n_vars;
} tk_captured;

/* tolk_realize_linear(), of arguments that were checked. again: the linear may come again; false:
 * no exec is kept for it. */
tolk_status tk_captures_realize(tolk_bindings *b, tolk_linear *linear, const tolk_uop *const *held,
                                size_t n_held, const tolk_realize_opts *opts,
                                const tolk_run_args *args, bool again, tolk_error *err);
/* For tk_call_args_replace(): the nodes of a linear's arguments, BUFFERs excepted, that are bound,
 * as what they are replaced by: what a node stands for is not what is below it. nodes: scratch.
 * Errors: TOLK_E_NOMEM. */
tolk_status tk_captures_keep_bound(const tolk_bindings *b, const tolk_uop *linear,
                                   tk_walk_list *nodes, tk_walk_list *from, tk_walk_list *to,
                                   tolk_error *err);

#endif
