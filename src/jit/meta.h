/* SPDX-License-Identifier: MIT
 *
 * What a launch must know about a compiled kernel beside its code. It travels with the object
 * through the binary cache, so it is one flat run of bytes.
 */
#ifndef TK_JIT_META_H
#define TK_JIT_META_H

#include "ir/access.h"
#include "jit/expr.h"
#include "jit/pipeline.h"

/* Raise it when the meaning of a member changes, here or in tolk_kenv (jit/kenv.h), while names and
 * sizes stay: saved programs of the other meaning are refused by it. */
enum { TK_META_VERSION = 3 };

typedef struct tk_meta_param {
    int64_t slot;
    int64_t min, max; /* of an integer scalar */
    uint32_t dtype;
    uint32_t name; /* offset into the strings; 0: none */
    uint16_t size; /* buffers: value number of the elements */
    uint8_t is_scalar, loaded, stored, pad[3];
} tk_meta_param;

typedef struct tk_meta_pair {
    uint32_t a, b; /* places in bufs that may be one memory */
} tk_meta_pair;

/* The header of the bytes; arrays follow in this order: params, steps, pairs, strings, object. */
typedef struct tk_meta {
    uint32_t magic, version;
    uint64_t total_bytes;
    uint32_t n_bufs, n_vals, n_steps, n_pairs, n_string_bytes;
    uint32_t name, opts; /* offsets into the strings */
    uint32_t lanes;
    uint16_t span, flops, loaded_bytes, stored_bytes, scratch_bytes; /* value numbers */
    uint8_t scratch_per_thread;                                      /* else one for all */
    uint8_t dynamic; /* 1: there is a dynamic local buffer, behind the scratch bytes */
    uint8_t pad[4];  /* 0, so that all bytes are something */
    uint64_t object_bytes;
    uint64_t frame_bytes; /* of the function's stack frame, where more than a page, else 0 */
    int64_t pieces;       /* iterations before the barrier; 0: there is none */
    /* PTX: value numbers of the blocks in x, y, z and of the threads of a block (docs/ptx.md). The
     * object is the text with a NUL behind it, and scratch_bytes the shared memory of a block
     * beside what is in the text. */
    uint16_t grid[3], block[3];
    uint32_t is_ptx;
} tk_meta;
_Static_assert(sizeof(tk_meta) == 104 && sizeof(tk_meta_param) == 40, "no holes");

/* The parts of a run of bytes that was checked; pointers into it. */
typedef struct tk_meta_view {
    const tk_meta *head;
    const tk_meta_param *params; /* n_bufs + n_vals, in ascending slot order */
    const tk_expr_step *steps;
    const tk_meta_pair *pairs;
    const char *strings;
    const void *object;
} tk_meta_view;

/* Write the bytes for a lowered kernel and its object. *out: text of base/strbuf.h. */
tolk_status tk_meta_write(const tk_pipeline *p, const tolk_uop *kernel, const void *object,
                          size_t object_bytes, uint64_t frame_bytes, char **out, size_t *len,
                          tolk_error *err);
/* Look at bytes, which may be anything. False if they are not what tk_meta_write makes. */
bool tk_meta_open(const void *bytes, size_t len, tk_meta_view *out);

#endif
