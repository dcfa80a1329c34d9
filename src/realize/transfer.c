/* SPDX-License-Identifier: MIT
 *
 * Transfers between scopes. The merge buffer of a device is its pool 0. It is found and, if it is
 * too small, replaced when a transfer is submitted; commands that were submitted before keep the
 * memory that they were given, so that is the order of the queue.
 */
#include "base/status.h"
#include "realize/copy.h"
#include "realize/pool.h"
#include "realize/realize.h"
#include "realize/scope.h"

#include <stdio.h>

struct tolk_transfer {
    tolk_device *dst_device;
    tolk_buffer *src, *dst; /* referenced; dst NULL: the merge buffer */
    uint64_t node;
};

static void free_transfer(tolk_transfer *t) {
    tolk_buffer_unref(t->src);
    tolk_buffer_unref(t->dst);
    tk_alloc_free(&t->dst_device->ctx->al, t, sizeof *t);
}

void tolk_transfer_destroy(tolk_transfer *transfer) {
    if (transfer)
        free_transfer(transfer);
}

static tolk_status no_node(const char *which, const tolk_scope *scope, uint64_t node,
                           tolk_error *err) {
    return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                          "node %llu: the %s scope, of device %.60s, has no buffer for it",
                          (unsigned long long)node, which,
                          tolk_device_name(tolk_scope_device(scope)));
}

/* Find the buffers. */
static tolk_status resolve(tolk_transfer *t, const tolk_scope *dst, const tolk_scope *src,
                           bool into_merge, tolk_error *err) {
    t->src = tk_scope_take(src, t->node);
    if (!t->src)
        return no_node("source", src, t->node, err);
    if (into_merge)
        return TOLK_OK;
    t->dst = tk_scope_take(dst, t->node);
    if (!t->dst)
        return no_node("destination", dst, t->node, err);
    tolk_buffer_info from, to;
    TK_TRY(tolk_buffer_get_info(t->src, &from));
    TK_TRY(tolk_buffer_get_info(t->dst, &to));
    if (from.bytes != to.bytes)
        return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                              "node %llu: the source has %zu bytes, the destination %zu",
                              (unsigned long long)t->node, from.bytes, to.bytes);
    if (from.dtype != to.dtype || from.elem_bytes != to.elem_bytes)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "node %llu: the source is %s of %zu bytes each, the destination %s "
                              "of %zu",
                              (unsigned long long)t->node, tolk_dtype_name(from.dtype),
                              from.elem_bytes, tolk_dtype_name(to.dtype), to.elem_bytes);
    return TOLK_OK;
}

tolk_status tolk_transfer_create(tolk_scope *dst, tolk_scope *src, uint64_t node, int into_merge,
                                 tolk_transfer **out, tolk_scope **scope_out, tolk_error *err) {
    if (!dst || !src || !out || (into_merge && !scope_out))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_transfer_create: an argument is NULL");
    tolk_device *device = tolk_scope_device(dst);
    if (device->ctx != tolk_scope_device(src)->ctx)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "node %llu: the scopes are of different contexts",
                              (unsigned long long)node);
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    tolk_transfer *t = tk_alloc_zero(&device->ctx->al, sizeof *t);
    if (!t)
        return tk_status_nomem(err);
    t->dst_device = device;
    t->node = node;
    tolk_status st = resolve(t, dst, src, into_merge != 0, err);
    if (st == TOLK_OK && into_merge) {
        tolk_scope_opts opts = TOLK_SCOPE_OPTS_INIT;
        opts.merge = TOLK_MERGE_NODE;
        opts.merge_node = node;
        st = tolk_scope_child(dst, &opts, scope_out, err);
    }
    if (st != TOLK_OK)
        free_transfer(t);
    else
        *out = t;
    return st;
}

/* ---- the merge buffer ---- */

/* The memory of pool 0, referenced, which becomes larger where it has fewer bytes. */
static tolk_status merge_memory(tolk_device *device, size_t bytes, tk_memory **out,
                                tolk_error *err) {
    for (;;) {
        tk_memory *m = tk_pools_find(&device->realize->book, 0);
        if (m && tk_memory_bytes(m) >= bytes) {
            *out = m;
            return TOLK_OK;
        }
        tk_memory_unref(m);
        /* Another thread may replace it once more: then it is tried again. */
        TK_TRY(tolk_pool_alloc(device, 0, bytes, 64, TOLK_POOL_STAGING, err));
    }
}

/* Submit the copy; from then on the node is what later commands find there. *again: that is no
 * longer the memory of pool 0, and nothing was done. */
static tolk_status submit_merge(const tolk_transfer *t, const tk_piece *to, const tk_piece *from,
                                bool *again, tolk_error *err) {
    tk_realize *r = tk_realize_of(t->dst_device->ctx);
    tk_device_state *s = tk_device_state_of(t->dst_device);
    tolk_status st = TOLK_OK;
    tk_queue_delay();
    pthread_mutex_lock(&r->names);
    tk_memory *now = tk_pools_find(&s->book, 0);
    *again = now != to->memory;
    if (!*again)
        st = tk_copy_pieces(t->dst_device, to, tk_buffer_device(t->src), from, err);
    if (!*again && st == TOLK_OK) {
        tk_queue_unwatch(&s->merge.copy);
        bool goes = tk_queue_mark(s->queue, &s->merge.copy, NULL) == TOLK_OK;
        s->merge.memory = goes ? tk_memory_number(now) : 0;
        s->merge.node = t->node;
        s->merge.bytes = from->bytes;
    }
    pthread_mutex_unlock(&r->names);
    tk_queue_resume();
    tk_memory_unref(now);
    return st;
}

static tolk_status run_merge(const tolk_transfer *t, tolk_error *err) {
    char what[48];
    tk_piece from;
    snprintf(what, sizeof what, "transfer: node %llu", (unsigned long long)t->node);
    TK_TRY(tk_buffer_piece_bound(t->src, what, &from, err));
    tolk_status st;
    bool again;
    do {
        tk_piece to = {.bytes = from.bytes};
        again = false;
        st = merge_memory(t->dst_device, from.bytes, &to.memory, err);
        if (st != TOLK_OK)
            break;
        to.at = tk_memory_at(to.memory);
        st = tk_memory_prepare(to.memory, err);
        if (st == TOLK_OK)
            st = submit_merge(t, &to, &from, &again, err);
        tk_piece_drop(&to);
    } while (again);
    tk_piece_drop(&from);
    return st;
}

tolk_status tolk_transfer_run(tolk_transfer *transfer, tolk_error *err) {
    if (!transfer)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_transfer_run: transfer is NULL");
    tk_realize_here(transfer->dst_device->ctx);
    TK_TRY(tk_device_check(transfer->dst_device, err));
    if (transfer->dst)
        return tolk_buffer_copy(transfer->dst, transfer->src, err);
    return run_merge(transfer, err);
}

/* Is that node what is in the memory of pool 0, and so many bytes of it? */
static tolk_status check_merged(const tolk_device *device, const tk_merge_state *m,
                                const tk_memory *memory, uint64_t node, tolk_dtype dtype, size_t n,
                                tolk_error *err) {
    if (!m->memory)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: nothing was merged on %.60s yet",
                              (unsigned long long)node, tolk_device_name(device));
    if (!memory || tk_memory_number(memory) != m->memory)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: nothing was merged on %.60s since "
                              "its pool 0 was freed or replaced",
                              (unsigned long long)node, tolk_device_name(device));
    if (atomic_load_explicit(&m->copy.failure, memory_order_acquire))
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: the queue of %.60s stopped before "
                              "node %llu was there",
                              (unsigned long long)node, tolk_device_name(device),
                              (unsigned long long)m->node);
    if (m->node != node)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: that of %.60s holds node %llu now",
                              (unsigned long long)node, tolk_device_name(device),
                              (unsigned long long)m->node);
    size_t bytes;
    if (!tk_mul_size(n, tolk_dtype_bytes(dtype), &bytes) || bytes > m->bytes)
        return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                              "node %llu in the merge buffer: expected at most %zu bytes, got %zu "
                              "x %s",
                              (unsigned long long)node, m->bytes, n, tolk_dtype_name(dtype));
    return TOLK_OK;
}

tolk_status tolk_scope_merge_buffer(tolk_scope *scope, uint64_t node, tolk_dtype dtype, size_t n,
                                    tolk_buffer **out, tolk_error *err) {
    if (!scope || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_scope_merge_buffer: scope or out is NULL");
    tolk_device *device = tolk_scope_device(scope);
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    uint64_t promised;
    if (!tolk_scope_merge_node(scope, &promised))
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: the scope promises none",
                              (unsigned long long)node);
    if (promised != node)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "node %llu in the merge buffer: the scope promises node %llu",
                              (unsigned long long)node, (unsigned long long)promised);
    tk_realize *r = tk_realize_of(device->ctx);
    pthread_mutex_lock(&r->names);
    tk_memory *memory = tk_pools_find(&device->realize->book, 0);
    tolk_status st =
        check_merged(device, &tk_device_state_of(device)->merge, memory, node, dtype, n, err);
    pthread_mutex_unlock(&r->names);
    if (st == TOLK_OK)
        st = tk_buffer_of_pool("tolk_scope_merge_buffer", device, 0, memory, 0, dtype, n, out, err);
    tk_memory_unref(memory);
    return st;
}
