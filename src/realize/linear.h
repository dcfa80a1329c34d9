/* SPDX-License-Identifier: MIT
 *
 * Linears: a LINEAR of CALLs in a graph of its own.
 */
#ifndef TK_REALIZE_LINEAR_H
#define TK_REALIZE_LINEAR_H

#include "ir/uop.h"

#include <tolk/realize.h>

struct tolk_linear {
    _Atomic uint32_t refs;
    tolk_ctx *ctx;
    tolk_graph *graph;
    const tolk_uop *root;
};

/* A linear over a graph, which becomes its own, also on failure; root is a LINEAR of it. Checks the
 * rules of the tensor stage. Errors: those of tolk_verify(), TOLK_E_NOMEM. */
tolk_status tk_linear_adopt(tolk_ctx *ctx, tolk_graph *graph, const tolk_uop *root,
                            tolk_linear **out, tolk_error *err);
/* Is it of this context? What runs a linear keeps it, and may outlive another one. Errors:
 * TOLK_E_ARG. */
tolk_status tk_linear_check(const tolk_linear *linear, const tolk_ctx *ctx, tolk_error *err);

#endif
