/* SPDX-License-Identifier: MIT
 *
 * Random valid kernels, their arguments, and making a kernel that fails smaller. All of it follows
 * from a seed and the kernel's text.
 */
#ifndef TK_GEN_H
#define TK_GEN_H

#include "support/tk_test.h"

#include <tolk/tolk.h>

/* A kernel in g, verified. NULL: what came out was refused, and the graph's error says why. */
const tolk_uop *tk_gen_kernel(tolk_graph *g, uint64_t seed);

/* The same, whose work-items meet at barriers, in shuffles and in local memory (tk_gen_items.c). */
const tolk_uop *tk_gen_items(tolk_graph *g, uint64_t seed);

/* A program with vectors of 1 to 64 lanes, of all groups or of a work-item (tk_gen_program.c). */
const tolk_uop *tk_gen_program(tolk_graph *g, uint64_t seed);

/* Does it fold floats with add or mul, so that options may change its results by rounding? */
bool tk_gen_has_float_sum(const tolk_uop *kernel);

/* Fill n elements of the buffer param: indices for params named ix or iy by the generator (iy: some
 * are out of range), otherwise numbers, edge values and any bits. */
void tk_gen_fill(const tolk_param_info *param, int64_t n, uint64_t seed, void *data);
/* Value number `which` of a scalar param: 0 its least, 1 its greatest, otherwise any. */
int64_t tk_gen_scalar(const tolk_param_info *param, unsigned which, uint64_t seed);

/* Replace parts of a kernel by simpler ones as long as fails(kernel) stays true: fewer stores,
 * operands instead of operations, smaller constants; of a program, fewer instructions. Returns the
 * smallest found. */
const tolk_uop *tk_gen_shrink(const tolk_uop *kernel, bool (*fails)(const tolk_uop *, void *),
                              void *user);

#endif
