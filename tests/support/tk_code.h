/* SPDX-License-Identifier: MIT
 *
 * Programs compiled for each target that this machine can run, executed beside the interpreter on
 * arrays that end at an unmapped page, and compared bit for bit (any NaN is any NaN).
 */
#ifndef TK_CODE_H
#define TK_CODE_H

#include "support/tk_test.h"

#include "ir/uop.h"
#include "jit/kenv.h"
#include "jit/target.h"

/* What there is to run on: names of targets, widest last. */
enum { TK_CODE_TARGETS = 5 };
extern const char *const tk_code_target_names[TK_CODE_TARGETS];
/* Target i; false if this machine cannot run it. */
bool tk_code_target(uint32_t i, tk_target *out);
/* Any target by name, whether it can be run or not. Fails the test if there is none. */
tk_target tk_code_any_target(const char *name);

/* A program under construction, in a graph of its own. */
typedef struct tk_code {
    tolk_ctx *ctx;
    tolk_graph *g;
    TK_VEC(const tolk_uop *) list;
} tk_code;

void tk_code_init(tk_code *c);
void tk_code_fini(tk_code *c);
/* The next instruction: u, which is returned. Fails the test if u is NULL. */
const tolk_uop *tk_code_add(tk_code *c, const tolk_uop *u);
/* Shorthands that add what they make. */
const tolk_uop *tk_code_index(tk_code *c, int64_t v);
const tolk_uop *tk_code_param(tk_code *c, tolk_dtype dtype, const tolk_uop *size, int64_t slot);
const tolk_uop *tk_code_scalar(tk_code *c, tolk_dtype dtype, int64_t slot);
const tolk_uop *tk_code_reg(tk_code *c, tolk_dtype dtype, int64_t size, int64_t slot);
const tolk_uop *tk_code_op(tk_code *c, tk_op op, const tolk_uop *a, const tolk_uop *b,
                           const tolk_uop *x);
const tolk_uop *tk_code_splat(tk_code *c, const tolk_uop *x, uint32_t lanes);
const tolk_uop *tk_code_cast(tk_code *c, const tolk_uop *x, tolk_dtype dtype);
/* Place of buffer[i]; i may have lanes. */
const tolk_uop *tk_code_place(tk_code *c, const tolk_uop *buffer, const tolk_uop *i);
/* dtype with lanes; alt and gate may be NULL. */
const tolk_uop *tk_code_load(tk_code *c, tolk_dtype dtype, const tolk_uop *place,
                             const tolk_uop *alt, const tolk_uop *gate, bool inbounds);
const tolk_uop *tk_code_store(tk_code *c, const tolk_uop *place, const tolk_uop *value,
                              const tolk_uop *gate, bool inbounds);
const tolk_uop *tk_code_range(tk_code *c, const tolk_uop *size, int64_t axis, bool poll);
void tk_code_end(tk_code *c, const tolk_uop *range);
/* The LINEAR, verified. */
const tolk_uop *tk_code_done(tk_code *c);

typedef struct tk_code_buf {
    tolk_dtype dtype; /* how elements compare */
    size_t n;
    const void *data; /* before the run */
} tk_code_buf;

/* Run linear by the interpreter and by code for the target; fails the test, naming what and the
 * element, unless all buffers and whether there was a fault are the same. */
void tk_code_compare(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                     const tk_code_buf *bufs, size_t n_bufs, const int64_t *vals, size_t n_vals,
                     const char *what);
/* Run by code alone, in place. Returns the fault record and what else the kernel left in env. */
tolk_kenv tk_code_run(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear, void **bufs,
                      const int64_t *vals, int64_t begin, int64_t end, uint32_t cancel);
/* Emit an object and fail the test if it has an undefined symbol. */
void tk_code_emit(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear, const char *what);

#endif
