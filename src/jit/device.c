/* SPDX-License-Identifier: MIT */
#include "jit/device.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "base/vec.h"

#include <string.h>

enum { SLOT_ALIGN = _Alignof(tolk_device) };

typedef struct devices {
    TK_VEC(tolk_device *) list;
} devices;

static void destroy(tolk_ctx *ctx, void *part) {
    devices *d = part;
    for (size_t i = 0; i < d->list.n; i++) {
        tolk_device *dev = d->list.at[i];
        dev->backend->destroy(dev);
        tk_strbuf_text_free(&ctx->al, dev->name);
        tk_alloc_free(&ctx->al, dev->memory, sizeof *dev + SLOT_ALIGN);
    }
    tk_vec_fini(&d->list);
    tk_alloc_free(&ctx->al, d, sizeof *d);
}

tolk_status tk_device_register(tolk_ctx *ctx, const tk_backend *backend, const char *name,
                               void *state, tolk_error *err) {
    devices *d = ctx->part[TK_CTX_DEVICES];
    if (!d) {
        d = tk_alloc_zero(&ctx->al, sizeof *d);
        if (!d)
            return tk_status_nomem(err);
        tk_vec_init(&d->list, &ctx->al);
        ctx->part[TK_CTX_DEVICES] = d;
        ctx->part_destroy[TK_CTX_DEVICES] = destroy;
    }
    tolk_device *dev = NULL;
    void *memory = tk_alloc_zero(&ctx->al, sizeof *dev + SLOT_ALIGN);
    if (memory)
        dev = (void *)(((uintptr_t)memory + SLOT_ALIGN - 1) & ~(uintptr_t)(SLOT_ALIGN - 1));
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_str(&sb, name);
    char *copy = tk_strbuf_take(&sb, NULL);
    if (!dev || !copy || !tk_vec_push(&d->list, dev)) {
        tk_strbuf_text_free(&ctx->al, copy);
        tk_alloc_free(&ctx->al, memory, sizeof *dev + SLOT_ALIGN);
        return tk_status_nomem(err);
    }
    dev->memory = memory;
    dev->ctx = ctx;
    dev->backend = backend;
    dev->name = copy;
    dev->state = state;
    return TOLK_OK;
}

/* "cpu:0" -> "CPU": upper case before the colon, a ":0" at the end dropped. False: too long. */
static bool canonical(const char *name, char out[64]) {
    size_t n = strlen(name);
    if (n >= 64)
        return false;
    bool before = true;
    for (size_t i = 0; i <= n; i++) {
        before &= name[i] != ':';
        out[i] = before && name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
    }
    if (n >= 2 && strcmp(out + n - 2, ":0") == 0)
        out[n - 2] = 0;
    return true;
}

tolk_status tolk_device_open(tolk_ctx *ctx, const char *name, tolk_device **out, tolk_error *err) {
    if (!ctx || !name || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_open: an argument is NULL");
    const devices *d = ctx->part[TK_CTX_DEVICES];
    char want[64], known[128] = "none";
    bool fits = canonical(name, want);
    for (size_t i = 0, at = 0; d && i < d->list.n; i++) {
        const char *have = d->list.at[i]->name;
        if (fits && strcmp(have, want) == 0) {
            *out = d->list.at[i];
            return TOLK_OK;
        }
        size_t len = strlen(have);
        if (at + len + 3 < sizeof known) {
            memcpy(known + at, at ? ", " : "", at ? 2 : 0);
            at += at ? 2 : 0;
            memcpy(known + at, have, len + 1);
            at += len;
        }
    }
    return tk_status_fail(err, TOLK_E_NO_DEVICE, TK_NO_NODE,
                          "no device \"%.60s\": expected one of %s", name, known);
}

size_t tolk_device_count(tolk_ctx *ctx) {
    const devices *d = ctx ? ctx->part[TK_CTX_DEVICES] : NULL;
    return d ? d->list.n : 0;
}

const char *tolk_device_name(const tolk_device *device) {
    return device ? device->name : "";
}

tolk_status tolk_device_debug_info(tolk_device *device, char **text, size_t *len) {
    if (!device || !text || !len)
        return TOLK_E_ARG;
    return device->backend->debug_info(device, text, len);
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
