/* SPDX-License-Identifier: MIT
 *
 * Copies. Between host and device they wait, and need no memory where the queue is idle: the
 * calling thread does the work. Between buffers they are commands of the queue of the one that is
 * written.
 */
#include "realize/copy.h"

#include "base/status.h"
#include "realize/counters.h"
#include "realize/realize.h"

#include <sched.h>

enum {
    SMALL = 32 << 10, /* bytes that are moved before another thread has woken up */
    CHUNK = 1 << 20,  /* of a copy through host memory */
};

static tk_queue *queue_of(const tolk_device *device) {
    return device->realize->queue;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- between host and device ---- */

typedef enum host_state { PENDING, RUNNING, DONE, ABANDONED } host_state;

/* A copy that is queued. Two own it: the call and the command. */
typedef struct host_copy {
    tolk_device *device;
    tk_piece piece; /* the part of the buffer */
    void *host;
    bool in;
    _Atomic int state; /* host_state */
    _Atomic uint32_t refs;
} host_copy;

static tolk_status move_host(const host_copy *c, tolk_error *err) {
    const tk_memory_ops *ops = c->device->backend->memory;
    return c->in ? ops->copyin(c->device, c->piece.at, c->host, c->piece.bytes, err)
                 : ops->copyout(c->device, c->host, c->piece.at, c->piece.bytes, err);
}

static tolk_status run_host(void *arg, tolk_error *err) {
    host_copy *c = arg;
    int state = PENDING;
    if (!atomic_compare_exchange_strong(&c->state, &state, RUNNING))
        return TOLK_OK; /* the caller has left, and its memory with it */
    tolk_status st = move_host(c, err);
    atomic_store(&c->state, DONE);
    return st;
}

static void release_host(void *arg) {
    host_copy *c = arg;
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    tk_piece_drop(&c->piece);
    const tolk_allocator *al = &c->device->ctx->al;
    void *none = NULL;
    if (!atomic_compare_exchange_strong(&c->device->realize->host_copy, &none, c))
        tk_alloc_free(al, c, sizeof *c);
}

tolk_status tk_copy_init(tolk_ctx *ctx, tk_device_state *s, tolk_error *err) {
    atomic_init(&s->host_copy, tk_alloc(&ctx->al, sizeof(host_copy)));
    return atomic_load(&s->host_copy) ? TOLK_OK : tk_status_nomem(err);
}

void tk_copy_fini(tolk_ctx *ctx, tk_device_state *s) {
    tk_alloc_free(&ctx->al, atomic_load(&s->host_copy), sizeof(host_copy));
}

/* Queue it and wait. The command never touches host memory after this has returned. */
static tolk_status queue_host(const host_copy *like, const tk_use *use, const char *label,
                              tolk_error *err) {
    tolk_ctx *ctx = like->device->ctx;
    host_copy *c = atomic_exchange(&like->device->realize->host_copy, NULL);
    if (!c && !(c = tk_alloc(&ctx->al, sizeof *c)))
        return tk_status_nomem(err);
    *c = *like;
    (void)tk_memory_ref(c->piece.memory);
    atomic_init(&c->state, PENDING);
    atomic_init(&c->refs, 2);
    tk_command command = {.run = run_host, .release = release_host, .arg = c, .label = label};
    tk_queue *q = queue_of(c->device);
    uint64_t ticket;
    tolk_status st = tk_memory_submit(ctx, use, 1, q, &command, &ticket, err);
    if (st != TOLK_OK) {
        release_host(c);
    } else {
        st = tk_queue_wait(q, ticket, err);
        int state = PENDING;
        if (st != TOLK_OK && !atomic_compare_exchange_strong(&c->state, &state, ABANDONED))
            while (atomic_load(&c->state) == RUNNING)
                sched_yield();
    }
    release_host(c);
    return st;
}

/* By the thread itself, as a part of the task that it is inside of. */
static tolk_status join_host(const host_copy *c, const tk_use *use, tolk_error *err) {
    TK_TRY(tk_queue_check(queue_of(c->device), err)); /* a release of what was dropped asks, too */
    do
        TK_TRY(tk_memory_wait(use, err));
    while (!tk_memory_join(c->device->ctx, use, 1, queue_of(c->device)));
    return move_host(c, err);
}

static tolk_status copy_host(const char *call, tolk_buffer *b, size_t offset, void *host,
                             size_t bytes, bool in, tolk_error *err) {
    if (!b || (!host && bytes))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: %s is NULL", call,
                              b ? "the host memory" : "the buffer");
    tolk_error own = TOLK_ERROR_INIT;
    err = err ? err : &own;
    tolk_buffer_info info;
    TK_TRY(tolk_buffer_get_info(b, &info));
    tk_queue *q = queue_of(info.device);
    TK_TRY(tk_device_check(info.device, err));
    if (info.is_freed)
        return tk_status_fail(err, TOLK_E_FREED, TK_NO_NODE, "%s: the buffer was freed", call);
    if (offset > info.bytes || bytes > info.bytes - offset)
        return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                              "%s: %zu bytes at %zu of a buffer of %zu", call, bytes, offset,
                              info.bytes);
    if (!bytes)
        return tk_queue_check(q, err);
    host_copy c = {.device = info.device, .host = host, .in = in};
    TK_TRY((in ? tk_buffer_piece : tk_buffer_piece_bound)(b, call, &c.piece, err));
    c.piece.at = (char *)c.piece.at + offset;
    c.piece.offset += offset;
    c.piece.bytes = bytes;
    tk_use use = {c.piece.memory, c.piece.offset, c.piece.offset + bytes, in};
    tolk_status st;
    if (tk_queue_task(q)) {
        st = join_host(&c, &use, err);
    } else if (tk_memory_enter(info.device->ctx, &use, 1, q)) {
        st = move_host(&c, err);
        tk_queue_leave(q, st, err, call);
    } else {
        st = queue_host(&c, &use, call, err);
    }
    tk_piece_drop(&c.piece);
    return st;
}

tolk_status tolk_buffer_copyin(tolk_buffer *dst, size_t offset, const void *src, size_t bytes,
                               tolk_error *err) {
    return copy_host("tolk_buffer_copyin", dst, offset, (void *)(uintptr_t)src, bytes, true, err);
}

tolk_status tolk_buffer_copyout(tolk_buffer *src, size_t offset, void *dst, size_t bytes,
                                tolk_error *err) {
    return copy_host("tolk_buffer_copyout", src, offset, dst, bytes, false, err);
}

/* ---- on devices ---- */

/* Fill dst with src, or with zeros where that has no memory. Nothing in it is owned until it is
 * queued: then it is in the room of its command. */
typedef struct move {
    tolk_device *dst_device, *src_device;
    tk_piece dst, src;
    void *bounce; /* CHUNK bytes of host memory, or the whole if that is less; NULL: not needed */
} move;

static bool is_native(const move *m) {
    const tk_memory_ops *ops = m->dst_device->backend->memory;
    return ops == m->src_device->backend->memory && ops->transfer;
}

static bool needs_bounce(const move *m) {
    if (!m->src.memory || is_native(m))
        return false;
    bool overlap = m->src.memory == m->dst.memory && m->src.offset < m->dst.offset + m->dst.bytes &&
                   m->dst.offset < m->src.offset + m->src.bytes;
    return overlap || (!m->dst_device->backend->memory->host_visible &&
                       !m->src_device->backend->memory->host_visible);
}

/* Piece by piece, from the end that is not overwritten before it was read. */
static tolk_status move_chunks(const move *m, tolk_error *err) {
    bool backwards = m->src.memory == m->dst.memory && m->dst.offset > m->src.offset;
    const tk_memory_ops *d = m->dst_device->backend->memory, *s = m->src_device->backend->memory;
    for (size_t done = 0; done < m->dst.bytes;) {
        size_t n = least(m->dst.bytes - done, CHUNK);
        size_t at = backwards ? m->dst.bytes - done - n : done;
        TK_TRY(s->copyout(m->src_device, m->bounce, (char *)m->src.at + at, n, err));
        TK_TRY(d->copyin(m->dst_device, (char *)m->dst.at + at, m->bounce, n, err));
        done += n;
    }
    return TOLK_OK;
}

static tolk_status move_bytes(const move *m, tolk_error *err) {
    const tk_memory_ops *d = m->dst_device->backend->memory;
    void *to = m->dst.at, *from = m->src.at;
    if (!m->src.memory)
        return d->zero(m->dst_device, to, m->dst.bytes, err);
    if (is_native(m))
        return d->transfer(m->dst_device, to, m->src_device, from, m->dst.bytes, err);
    if (m->bounce)
        return move_chunks(m, err);
    const tk_memory_ops *s = m->src_device->backend->memory;
    return s->host_visible ? d->copyin(m->dst_device, to, from, m->dst.bytes, err)
                           : s->copyout(m->src_device, to, from, m->dst.bytes, err);
}

static tolk_status run_move(void *arg, tolk_error *err) {
    return move_bytes(arg, err);
}

static void release_move(void *arg) {
    move *m = arg;
    const tolk_allocator *al = &m->dst_device->ctx->al;
    tk_alloc_free(al, m->bounce, least(m->dst.bytes, CHUNK));
    tk_piece_drop(&m->dst);
    tk_piece_drop(&m->src);
}

size_t tk_copy_waiting_bytes(void) {
    return sizeof(move);
}

static tolk_status submit(const move *like, const char *label, bool awaited, tolk_error *err) {
    tolk_ctx *ctx = like->dst_device->ctx;
    tk_queue *q = queue_of(like->dst_device);
    tk_piece dst = like->dst, src = like->src;
    if (!dst.bytes)
        return tk_queue_check(q, err);
    tk_use uses[] = {{dst.memory, dst.offset, dst.offset + dst.bytes, true},
                     {src.memory, src.offset, src.offset + src.bytes, false}};
    size_t n = src.memory ? 2 : 1;
    bool bounce = needs_bounce(like);
    if ((dst.bytes <= SMALL || awaited) && !bounce && tk_memory_enter(ctx, uses, n, q)) {
        tolk_error own = TOLK_ERROR_INIT;
        err = err ? err : &own;
        tolk_status st = move_bytes(like, err);
        tk_queue_leave(q, st, err, label);
        return st;
    }
    move *m = tk_queue_room(q, sizeof *m);
    if (!m)
        return tk_status_nomem(err);
    *m = *like;
    (void)tk_memory_ref(dst.memory);
    if (src.memory)
        (void)tk_memory_ref(src.memory);
    tolk_status st = TOLK_OK;
    if (bounce) {
        m->bounce = tk_alloc(&ctx->al, least(dst.bytes, CHUNK));
        if (!m->bounce)
            st = tk_status_nomem(err);
    }
    tk_command command = {.run = run_move, .release = release_move, .room = m, .label = label};
    if (st == TOLK_OK)
        st = tk_memory_submit(ctx, uses, n, q, &command, NULL, err);
    if (st == TOLK_OK)
        return tk_queue_ran(q, err);
    release_move(m);
    tk_queue_drop_room(q, m);
    return st;
}

static tolk_status copy_pieces(tolk_device *dst_device, const tk_piece *dst,
                               tolk_device *src_device, const tk_piece *src, bool awaited,
                               tolk_error *err) {
    TK_ASSERT(dst->bytes == src->bytes);
    if (dst_device->ctx != src_device->ctx)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "a copy from a device of another context");
    move m = {.dst_device = dst_device, .src_device = src_device, .dst = *dst, .src = *src};
    TK_TRY(submit(&m, "copy", awaited, err));
    tk_counters_add(dst_device->ctx, TK_COUNT_COPIES, 1);
    return TOLK_OK;
}

tolk_status tk_copy_pieces(tolk_device *dst_device, const tk_piece *dst, tolk_device *src_device,
                           const tk_piece *src, tolk_error *err) {
    return copy_pieces(dst_device, dst, src_device, src, false, err);
}

tolk_status tk_copy_zero(tolk_device *device, const tk_piece *piece, tolk_error *err) {
    move m = {.dst_device = device, .dst = *piece};
    return submit(&m, "zero", false, err);
}

static tolk_status check_pair(const tolk_buffer_info *d, const tolk_buffer_info *s,
                              tolk_error *err) {
    if (d->is_freed || s->is_freed)
        return tk_status_fail(err, TOLK_E_FREED, TK_NO_NODE, "tolk_buffer_copy: %s was freed",
                              d->is_freed ? "dst" : "src");
    if (d->dtype != s->dtype || d->elem_bytes != s->elem_bytes)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "tolk_buffer_copy: dst is %s of %zu bytes, src is %s of %zu",
                              tolk_dtype_name(d->dtype), d->elem_bytes, tolk_dtype_name(s->dtype),
                              s->elem_bytes);
    if (d->bytes != s->bytes)
        return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                              "tolk_buffer_copy: dst has %zu bytes, src has %zu", d->bytes,
                              s->bytes);
    return TOLK_OK;
}

/* All that can be wrong before anything moves, and the memory. */
static tolk_status take_pair(tolk_buffer *dst, tolk_buffer *src, tk_piece *to, tk_piece *from,
                             tolk_error *err) {
    tolk_buffer_info d, s;
    TK_TRY(tolk_buffer_get_info(dst, &d));
    TK_TRY(tolk_buffer_get_info(src, &s));
    TK_TRY(tk_device_check(d.device, err));
    TK_TRY(tk_device_check(s.device, err));
    TK_TRY(check_pair(&d, &s, err));
    if (!d.bytes) /* nothing needs no memory */
        return TOLK_OK;
    TK_TRY(tk_buffer_piece_bound(src, "tolk_buffer_copy: src", from, err));
    return tk_buffer_piece(dst, "tolk_buffer_copy: dst", to, err);
}

tolk_status tk_copy_check(tolk_buffer *dst, tolk_buffer *src, tolk_error *err) {
    tk_piece to = {0}, from = {0};
    tolk_status st = take_pair(dst, src, &to, &from, err);
    tk_piece_drop(&to);
    tk_piece_drop(&from);
    return st;
}

tolk_status tk_copy_buffers(tolk_buffer *dst, tolk_buffer *src, bool awaited, tolk_error *err) {
    if (!dst || !src)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_buffer_copy: a buffer is NULL");
    tk_piece to = {0}, from = {0};
    tolk_status st = take_pair(dst, src, &to, &from, err);
    if (st == TOLK_OK)
        st = copy_pieces(tk_buffer_device(dst), &to, tk_buffer_device(src), &from, awaited, err);
    tk_piece_drop(&to);
    tk_piece_drop(&from);
    return st;
}

tolk_status tolk_buffer_copy(tolk_buffer *dst, tolk_buffer *src, tolk_error *err) {
    return tk_copy_buffers(dst, src, false, err);
}
