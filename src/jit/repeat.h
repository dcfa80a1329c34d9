/* SPDX-License-Identifier: MIT */
#ifndef TK_JIT_REPEAT_H
#define TK_JIT_REPEAT_H

#include "jit/kview.h"

/* The same kernel, in which every store that ENDs repeat depends on all of their ranges; root
 * itself if that is so already. NULL on failure, with the error in the graph. */
const tolk_uop *tk_repeat_effects(tolk_graph *g, const tolk_uop *root);

#endif
