/* SPDX-License-Identifier: MIT
 *
 * How compiled code is called.
 */
#ifndef TK_JIT_KENV_H
#define TK_JIT_KENV_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What a kernel gets beside its arguments, one a thread. scratch: partial results that the launch's
 * threads share, or local memory of the group at hand, which each thread has of its own (the
 * program says which). The layout is part of the code version. */
typedef struct tolk_kenv {
    uint64_t size;                  /* sizeof(tolk_kenv) */
    void *scratch;                  /* aligned to 64; as many bytes as the program says */
    int64_t thread;                 /* 0 .. threads-1 */
    const _Atomic uint32_t *cancel; /* not 0: leave the loops that poll */
    uint32_t fault;                 /* set to 1 by the first access out of bounds */
    uint32_t fault_slot;            /* slot of its param; UINT32_MAX for scratch */
    int64_t fault_index;            /* the element index that was out of bounds */
    int64_t dynamic_bytes;          /* of the dynamic local buffer, the last one in scratch */
} tolk_kenv;
_Static_assert(offsetof(tolk_kenv, fault) == 32 && sizeof(tolk_kenv) == 56, "known to the code");

/* Runs the iterations [begin, end) of the flattened global range. bufs: buffer params in ascending
 * slot order; vals: scalar params in ascending slot order, floats as bits in the low bytes. */
typedef void (*tk_kernel_fn)(void *const *bufs, const int64_t *vals, int64_t begin, int64_t end,
                             tolk_kenv *env);

#endif
