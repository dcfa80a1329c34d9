/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_memory.h"

#include "base/poison.h"

#include <string.h>

/* What the allocator of the context returned, in the bytes before an aligned address. */
typedef struct origin {
    void *at;
} origin;

/* The allocator aligns to 16; so the next multiple of the alignment lies 16 bytes on at least,
 * where the origin fits, and one alignment on at most. */
static void *alloc(tolk_device *device, size_t bytes, size_t alignment) {
    size_t whole;
    if (!tk_add_size(bytes, alignment, &whole))
        return NULL;
    void *at = tk_alloc(&device->ctx->al, whole);
    if (!at)
        return NULL;
    uintptr_t aligned = ((uintptr_t)at + alignment) & ~(uintptr_t)(alignment - 1);
    ((origin *)aligned)[-1].at = at;
    /* What follows is the allocator's still, but nobody's. */
    uintptr_t end = aligned + bytes;
    TK_POISON((void *)end, (uintptr_t)at + whole - end);
    return (void *)aligned;
}

static void release(tolk_device *device, void *at, size_t bytes, size_t alignment) {
    void *whole_at = ((origin *)at)[-1].at;
    size_t whole = bytes + alignment; /* it did fit */
    TK_UNPOISON(whole_at, whole);
    tk_alloc_free(&device->ctx->al, whole_at, whole);
}

static tolk_status copyin(tolk_device *device, void *dst, const void *host, size_t bytes,
                          tolk_error *err) {
    (void)device, (void)err;
    memmove(dst, host, bytes); /* host may be what tolk_buffer_map() returned */
    return TOLK_OK;
}

static tolk_status copyout(tolk_device *device, void *host, const void *src, size_t bytes,
                           tolk_error *err) {
    (void)device, (void)err;
    memmove(host, src, bytes);
    return TOLK_OK;
}

static tolk_status zero(tolk_device *device, void *at, size_t bytes, tolk_error *err) {
    (void)device, (void)err;
    memset(at, 0, bytes);
    return TOLK_OK;
}

static tolk_status transfer(tolk_device *dst, void *to, tolk_device *src, const void *from,
                            size_t bytes, tolk_error *err) {
    (void)dst, (void)src, (void)err;
    memmove(to, from, bytes);
    return TOLK_OK;
}

const tk_memory_ops tk_cpu_memory = {.host_visible = true,
                                     .alloc = alloc,
                                     .release = release,
                                     .copyin = copyin,
                                     .copyout = copyout,
                                     .zero = zero,
                                     .transfer = transfer};
