/* SPDX-License-Identifier: MIT */
#include "base/vec.h"

#include <string.h>

bool tk_vec_grow_(void **at, size_t *cap, size_t count, size_t elem_bytes,
                  const tolk_allocator *al) {
    size_t want = *cap < 8 ? 8 : *cap + *cap / 2;
    if (want < count)
        want = count;
    size_t bytes;
    if (!tk_mul_size(want, elem_bytes, &bytes))
        return false;
    void *p = tk_alloc_resize(al, *at, *cap * elem_bytes, bytes);
    if (!p)
        return false;
    *at = p;
    *cap = want;
    return true;
}

void tk_vec_zero_(void *at, size_t *n, size_t count, size_t elem_bytes) {
    if (count > *n)
        memset((char *)at + *n * elem_bytes, 0, (count - *n) * elem_bytes);
    *n = count;
}
