/* SPDX-License-Identifier: MIT
 *
 * Which accesses of memory must wait for which earlier ones, on ranges of bytes: a read for the
 * writes before it, a write for the writes and the reads before it. A write hides what it covers,
 * so what comes later waits for it alone there. Reads never wait for reads.
 */
#ifndef TK_REALIZE_DEPS_H
#define TK_REALIZE_DEPS_H

#include "base/map.h"
#include "base/vec.h"

#include <tolk/base.h>

/* Bytes [from, to) of a root: a memory, or NULL where from and to are addresses. An empty range
 * meets nothing. */
typedef struct tk_deps_range {
    const void *root;
    uintptr_t from, to;
    bool writes;
} tk_deps_range;

struct tk_deps_root;
struct tk_deps_reader;

typedef struct tk_deps {
    const tolk_allocator *al;
    tk_map numbers; /* of roots, by address */
    TK_VEC(struct tk_deps_root) roots;
    TK_VEC(struct tk_deps_reader) readers; /* of all segments: lists that share their ends */
    TK_VEC(uint64_t) seen;                 /* by node: the last access that found it */
    uint64_t access;
    TK_VEC(uint32_t) found;
} tk_deps;

void tk_deps_init(tk_deps *d, const tolk_allocator *al);
void tk_deps_fini(tk_deps *d);
/* Node `node`, a number above those so far, accesses these ranges at once. *out: the nodes that it
 * must wait for, ascending, each once; valid until the next call. After TOLK_E_NOMEM only
 * tk_deps_fini may follow. Source: tinygrad's dependency tracker of graph runners. */
tolk_status tk_deps_access(tk_deps *d, uint32_t node, const tk_deps_range *ranges, size_t n,
                           const uint32_t **out, size_t *n_out, tolk_error *err);

#endif
