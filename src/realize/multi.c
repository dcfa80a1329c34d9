/* SPDX-License-Identifier: MIT */
#include "realize/multi.h"

#include "base/alloc.h"
#include "base/status.h"
#include "realize/buffer.h"
#include "realize/state.h"

enum { MOST = 65536 }; /* shards */

static tolk_status make(tolk_ctx *ctx, size_t n, tolk_multi **out, tolk_error *err) {
    if (n > MOST)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE, "tolk_multi: %zu buffers, at most %d",
                              n, MOST);
    tolk_multi *m = tk_alloc_zero(&ctx->al, sizeof *m + n * sizeof *m->at);
    if (!m)
        return tk_status_nomem(err);
    atomic_init(&m->refs, 1);
    m->ctx = ctx;
    m->n = n;
    *out = m;
    return TOLK_OK;
}

/* Is shard i like the first one? */
static tolk_status check_shard(tolk_buffer *const *buffers, size_t i, tolk_error *err) {
    tolk_buffer_info a, b;
    TK_TRY(tolk_buffer_get_info(buffers[0], &a));
    TK_TRY(tolk_buffer_get_info(buffers[i], &b));
    if (tk_buffer_device(buffers[i])->ctx != tk_buffer_device(buffers[0])->ctx)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "tolk_multi: buffer %zu is of another context", i);
    if (a.dtype != b.dtype || a.elem_bytes != b.elem_bytes)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "tolk_multi: buffer %zu is of %s, expected %s as the first one", i,
                              tolk_dtype_name(b.dtype), tolk_dtype_name(a.dtype));
    if (a.n != b.n)
        return tk_status_fail(err, TOLK_E_SHAPE, TK_NO_NODE,
                              "tolk_multi: buffer %zu has %zu elements, expected %zu as the first "
                              "one",
                              i, b.n, a.n);
    return TOLK_OK;
}

tolk_status tolk_multi_of(tolk_buffer *const *buffers, size_t n, tolk_multi **out,
                          tolk_error *err) {
    if (!out || (n && !buffers))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_multi_of: buffers or out is NULL");
    if (!n)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_multi_of: expected at least one buffer");
    for (size_t i = 0; i < n; i++) {
        if (!buffers[i])
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_multi_of: buffer %zu is NULL",
                                  i);
        TK_TRY(check_shard(buffers, i, err));
    }
    tolk_multi *m;
    TK_TRY(make(tk_buffer_device(buffers[0])->ctx, n, &m, err));
    for (size_t i = 0; i < n; i++)
        m->at[i] = tolk_buffer_ref(buffers[i]);
    *out = m;
    return TOLK_OK;
}

tolk_status tk_multi_adopt(tolk_buffer *const *buffers, size_t n, tolk_multi **out,
                           tolk_error *err) {
    tolk_status st = tolk_multi_of(buffers, n, out, err);
    for (size_t i = 0; i < n; i++)
        tolk_buffer_unref(buffers[i]);
    return st;
}

tolk_status tolk_multi_create(tolk_device *const *devices, size_t n_devices, tolk_dtype dtype,
                              size_t n, tolk_multi **out, tolk_error *err) {
    if (!out || (n_devices && !devices))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_multi_create: devices or out is NULL");
    if (!n_devices || !devices[0])
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_multi_create: expected at least one device");
    tolk_multi *m;
    TK_TRY(make(devices[0]->ctx, n_devices, &m, err));
    tolk_status st = TOLK_OK;
    for (size_t i = 0; i < n_devices && st == TOLK_OK; i++) {
        if (!devices[i] || devices[i]->ctx != m->ctx)
            st = tk_status_fail(err, devices[i] ? TOLK_E_DEVICE : TOLK_E_ARG, TK_NO_NODE,
                                "tolk_multi_create: device %zu is %s", i,
                                devices[i] ? "of another context" : "NULL");
        else
            st = tolk_buffer_create(devices[i], dtype, n, NULL, &m->at[i], err);
    }
    if (st != TOLK_OK) {
        tolk_multi_unref(m);
        return st;
    }
    *out = m;
    return TOLK_OK;
}

tolk_multi *tolk_multi_ref(tolk_multi *multi) {
    if (multi)
        atomic_fetch_add_explicit(&multi->refs, 1, memory_order_relaxed);
    return multi;
}

void tolk_multi_unref(tolk_multi *multi) {
    if (!multi || atomic_fetch_sub_explicit(&multi->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < multi->n; i++)
        tolk_buffer_unref(multi->at[i]);
    tk_alloc_free(&multi->ctx->al, multi, sizeof *multi + multi->n * sizeof *multi->at);
}

size_t tolk_multi_count(const tolk_multi *multi) {
    return multi ? multi->n : 0;
}

tolk_buffer *tolk_multi_shard(const tolk_multi *multi, size_t i) {
    return multi && i < multi->n ? multi->at[i] : NULL;
}
