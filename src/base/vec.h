/* SPDX-License-Identifier: MIT
 *
 * Growable array of one type. Declare with TK_VEC(T), set up with tk_vec_init, push with
 * tk_vec_push, which is false when out of memory.
 */
#ifndef TK_BASE_VEC_H
#define TK_BASE_VEC_H

#include "base/alloc.h"

#define TK_VEC(T)                                                                                  \
    struct {                                                                                       \
        T *at;                                                                                     \
        size_t n, cap;                                                                             \
        const tolk_allocator *al;                                                                  \
    }

#define tk_vec_init(v, allocator)                                                                  \
    ((void)((v)->at = NULL, (v)->n = (v)->cap = 0, (v)->al = (allocator)))
#define tk_vec_fini(v)                                                                             \
    ((void)(tk_alloc_free((v)->al, (v)->at, (v)->cap * sizeof *(v)->at), (v)->at = NULL,           \
            (v)->n = (v)->cap = 0))
/* Make room for `count` elements in all. */
#define tk_vec_reserve(v, count)                                                                   \
    ((v)->cap >= (count) ||                                                                        \
     tk_vec_grow_((void **)&(v)->at, &(v)->cap, (count), sizeof *(v)->at, (v)->al))
#define tk_vec_push(v, x) (tk_vec_reserve(v, (v)->n + 1) ? ((v)->at[(v)->n++] = (x), true) : false)
#define tk_vec_last(v) ((v)->at[(v)->n - 1])
#define tk_vec_pop(v) ((v)->at[--(v)->n])
/* Make it `count` long; new elements are zero. */
#define tk_vec_resize(v, count)                                                                    \
    (tk_vec_reserve(v, count) ? (tk_vec_zero_((v)->at, &(v)->n, (count), sizeof *(v)->at), true)   \
                              : false)

bool tk_vec_grow_(void **at, size_t *cap, size_t count, size_t elem_bytes,
                  const tolk_allocator *al);
void tk_vec_zero_(void *at, size_t *n, size_t count, size_t elem_bytes);

#endif
