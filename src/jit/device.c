/* SPDX-License-Identifier: MIT */
#include "jit/device.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "base/vec.h"

#include <string.h>

enum { SLOT_ALIGN = _Alignof(tolk_device) };

/* ---- families ---- */

typedef struct families {
    TK_VEC(tk_family) list;
    const tk_host *host;
} families;

static void destroy(tolk_ctx *ctx, void *part) {
    families *f = part;
    for (size_t i = 0; i < f->list.n; i++)
        if (f->list.at[i].backend->family_destroy)
            f->list.at[i].backend->family_destroy(ctx, f->list.at[i].state);
    tk_vec_fini(&f->list);
    tk_alloc_free(&ctx->al, f, sizeof *f);
}

tolk_status tk_family_add(tolk_ctx *ctx, const tk_backend *backend, void *state,
                          const tk_host *host, tolk_error *err) {
    families *f = ctx->part[TK_CTX_FAMILIES];
    if (!f) {
        f = tk_alloc_zero(&ctx->al, sizeof *f);
        if (!f)
            return tk_status_nomem(err);
        tk_vec_init(&f->list, &ctx->al);
        ctx->part[TK_CTX_FAMILIES] = f;
        ctx->part_destroy[TK_CTX_FAMILIES] = destroy;
    }
    tk_family family = {backend, state};
    if (!tk_vec_push(&f->list, family))
        return tk_status_nomem(err);
    if (host)
        f->host = host;
    return TOLK_OK;
}

size_t tk_family_count(const tolk_ctx *ctx) {
    const families *f = ctx->part[TK_CTX_FAMILIES];
    return f ? f->list.n : 0;
}

const tk_family *tk_family_at(const tolk_ctx *ctx, size_t i) {
    const families *f = ctx->part[TK_CTX_FAMILIES];
    return &f->list.at[i];
}

const tk_host *tk_family_host(const tolk_ctx *ctx) {
    const families *f = ctx->part[TK_CTX_FAMILIES];
    return f ? f->host : NULL;
}

/* ---- devices ---- */

static void free_memory(tolk_device *device) {
    const tolk_allocator *al = &device->ctx->al;
    tk_strbuf_text_free(al, device->name);
    tk_alloc_free(al, device->memory, sizeof *device + SLOT_ALIGN);
}

tolk_status tk_device_new(tolk_ctx *ctx, const tk_family *family, uint32_t ordinal,
                          const char *name, tolk_device **out, tolk_error *err) {
    void *memory = tk_alloc_zero(&ctx->al, sizeof(tolk_device) + SLOT_ALIGN);
    if (!memory)
        return tk_status_nomem(err);
    tolk_device *dev =
        (void *)(((uintptr_t)memory + SLOT_ALIGN - 1) & ~(uintptr_t)(SLOT_ALIGN - 1));
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_str(&sb, name);
    dev->memory = memory;
    dev->ctx = ctx;
    dev->backend = family->backend;
    dev->name = tk_strbuf_take(&sb, NULL);
    tolk_status st =
        dev->name ? family->backend->open(dev, family->state, ordinal, err) : tk_status_nomem(err);
    if (st != TOLK_OK)
        free_memory(dev);
    else
        *out = dev;
    return st;
}

void tk_device_free(tolk_device *device) {
    device->backend->destroy(device);
    free_memory(device);
}

const char *tolk_device_name(const tolk_device *device) {
    return device ? device->name : "";
}

/* ---- cancelling ---- */

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the halves of tk_device_slot are those of a little-endian machine"
#endif

static bool runs(uint64_t whole) {
    return whole >> 32 & 1;
}

int tk_device_enter(tolk_device *device, const _Atomic uint32_t **flag) {
    static const _Atomic uint32_t never = 0;
    int here;
    /* Threads begin their search at different slots, by the address of their stack. */
    uint32_t start = (uint32_t)((uintptr_t)&here >> 12);
    for (uint32_t i = 0; i < TK_DEVICE_LAUNCHES; i++) {
        uint32_t s = (start + i) % TK_DEVICE_LAUNCHES;
        tk_device_slot *slot = &device->slot[s];
        uint64_t old = atomic_load_explicit(&slot->whole, memory_order_relaxed);
        uint64_t mine = ((old >> 32) + 1) << 32; /* not cancelled */
        if (!runs(old) &&
            atomic_compare_exchange_strong_explicit(&slot->whole, &old, mine, memory_order_acquire,
                                                    memory_order_relaxed)) {
            *flag = &slot->half.cancel;
            return (int)s;
        }
    }
    *flag = &never;
    return -1;
}

void tk_device_leave(tolk_device *device, int slot) {
    if (slot < 0)
        return;
    /* Only this launch changes the number while it runs. */
    tk_device_slot *s = &device->slot[slot];
    uint64_t old = atomic_load_explicit(&s->whole, memory_order_relaxed);
    atomic_store_explicit(&s->whole, ((old >> 32) + 1) << 32, memory_order_release);
}

void tolk_cancel(tolk_device *device) {
    if (!device)
        return;
    for (int s = 0; s < TK_DEVICE_LAUNCHES; s++) {
        /* If the exchange fails, that launch has ended or another thread cancelled it. */
        uint64_t old = atomic_load_explicit(&device->slot[s].whole, memory_order_acquire);
        if (runs(old))
            atomic_compare_exchange_strong_explicit(&device->slot[s].whole, &old, old | 1,
                                                    memory_order_relaxed, memory_order_relaxed);
    }
}
