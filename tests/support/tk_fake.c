/* SPDX-License-Identifier: MIT */
#include "support/tk_fake.h"

#include "base/status.h"
#include "support/tk_test.h"

#include <stdlib.h>
#include <string.h>

static tolk_status count(tolk_ctx *ctx, void *family, uint32_t *n, tolk_error *err) {
    (void)ctx;
    tk_fake *f = family;
    f->counts++;
    if (f->count_fails)
        return tk_status_fail(err, f->count_fails, TK_NO_NODE, "%s cannot be counted",
                              f->backend.framework);
    *n = f->devices;
    return TOLK_OK;
}

static tolk_status open_device(tolk_device *device, void *family, uint32_t ordinal,
                               tolk_error *err) {
    tk_fake *f = family;
    f->opens++;
    if (f->open_fails)
        return tk_status_fail(err, f->open_fails, TK_NO_NODE, "%s:%u cannot be opened",
                              f->backend.framework, ordinal);
    device->state = f;
    return TOLK_OK;
}

static void limits(tolk_ctx *ctx, void *family, uint32_t ordinal, tolk_limits *out) {
    (void)ctx;
    *out = ((const tk_fake *)family)->limits[ordinal];
}

static const tk_host *host(const tolk_device *device) {
    return tk_family_host(device->ctx);
}

static tolk_status launch(tolk_device *device, tk_launch *l, tolk_error *err) {
    (void)l;
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "%s runs nothing", device->name);
}

static void debug_info(const tolk_device *device, tk_strbuf *sb) {
    (void)device;
    tk_strbuf_str(sb, "\"fake\": true");
}

static void destroy(tolk_device *device) {
    (void)device;
}

static bool fails(tk_fake *f) {
    int64_t n = ++f->calls, at = f->fail_at;
    return at && (n == at || (f->fail_onward && n > at));
}

static tolk_status may_fail(tolk_device *device, const char *what, tolk_error *err) {
    return fails(device->state)
               ? tk_status_fail(err, TOLK_E_IO, TK_NO_NODE, "%s: %s failed", device->name, what)
               : TOLK_OK;
}

static void *alloc(tolk_device *device, size_t bytes, size_t alignment) {
    tk_fake *f = device->state;
    if (fails(f))
        return NULL;
    void *p = NULL;
    if (posix_memalign(&p, alignment, bytes ? bytes : 1))
        return NULL;
    f->live++;
    return p;
}

static void release(tolk_device *device, void *at, size_t bytes, size_t alignment) {
    (void)bytes, (void)alignment;
    ((tk_fake *)device->state)->live--;
    free(at);
}

static tolk_status copyin(tolk_device *device, void *dst, const void *src, size_t bytes,
                          tolk_error *err) {
    TK_TRY(may_fail(device, "copyin", err));
    memmove(dst, src, bytes);
    return TOLK_OK;
}

static tolk_status copyout(tolk_device *device, void *dst, const void *src, size_t bytes,
                           tolk_error *err) {
    TK_TRY(may_fail(device, "copyout", err));
    memmove(dst, src, bytes);
    return TOLK_OK;
}

static tolk_status zero(tolk_device *device, void *at, size_t bytes, tolk_error *err) {
    TK_TRY(may_fail(device, "zero", err));
    memset(at, 0, bytes);
    return TOLK_OK;
}

static tolk_status transfer(tolk_device *dst, void *to, tolk_device *src, const void *from,
                            size_t bytes, tolk_error *err) {
    ((tk_fake *)dst->state)->transfers++;
    (void)src;
    TK_TRY(may_fail(dst, "transfer", err));
    memmove(to, from, bytes);
    return TOLK_OK;
}

void tk_fake_add(tolk_ctx *ctx, tk_fake *f) {
    f->memory = (tk_memory_ops){.host_visible = !f->host_hidden,
                                .alloc = alloc,
                                .release = release,
                                .copyin = copyin,
                                .copyout = copyout,
                                .zero = zero,
                                .transfer = f->host_hidden ? NULL : transfer};
    f->backend.count = count;
    f->backend.open = open_device;
    f->backend.limits = limits;
    f->backend.host = host;
    f->backend.launch = launch;
    f->backend.debug_info = debug_info;
    f->backend.destroy = destroy;
    f->backend.memory = &f->memory;
    assert_int_equal(tk_family_add(ctx, &f->backend, f, NULL, NULL), TOLK_OK);
}
