/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static void *malloc_alloc(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void *malloc_resize(void *user, void *p, size_t old_bytes, size_t new_bytes) {
    (void)user;
    (void)old_bytes;
    return realloc(p, new_bytes);
}

static void malloc_release(void *user, void *p, size_t bytes) {
    (void)user;
    (void)bytes;
    free(p);
}

const tolk_allocator tk_alloc_malloc = {NULL, malloc_alloc, malloc_resize, malloc_release};

void *tk_alloc(const tolk_allocator *al, size_t bytes) {
    return al->alloc(al->user, bytes ? bytes : 1);
}

void *tk_alloc_zero(const tolk_allocator *al, size_t bytes) {
    void *p = tk_alloc(al, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *tk_alloc_resize(const tolk_allocator *al, void *p, size_t old_bytes, size_t new_bytes) {
    if (!p)
        return tk_alloc(al, new_bytes);
    return al->resize(al->user, p, old_bytes ? old_bytes : 1, new_bytes ? new_bytes : 1);
}

void tk_alloc_free(const tolk_allocator *al, void *p, size_t bytes) {
    if (p)
        al->release(al->user, p, bytes ? bytes : 1);
}
