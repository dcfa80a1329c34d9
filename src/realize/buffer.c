/* SPDX-License-Identifier: MIT
 *
 * Buffers: handles to memory. What changes in one (its memory, whether it is freed, how many views
 * it has) is under the lock `handles` of its device's book; a view holds its base.
 */
#include "realize/buffer.h"

#include "base/status.h"
#include "ir/dtype.h"
#include "realize/pool.h"
#include "realize/realize.h"

#include <inttypes.h>
#include <string.h>

struct tolk_buffer {
    tolk_device *device;
    _Atomic size_t refs;
    tolk_buffer *base; /* NULL: it is one */
    size_t offset;     /* in its base; of a base: in its memory */
    size_t n, elem_bytes, bytes;
    tolk_dtype dtype;
    bool is_freed;
    /* Of a base. */
    tk_memory *memory; /* NULL: not used yet, or freed */
    size_t views;      /* that are not freed */
    size_t alignment;
    uint32_t flags;
    char label[32];
};

static tk_book *book_of(const tolk_buffer *b) {
    return &b->device->realize->book;
}

/* Bytes of an element: of a dtype, or for VOID what the caller says. */
static tolk_status element(const char *call, tolk_dtype dtype, size_t asked, size_t *out,
                           tolk_error *err) {
    if (dtype == TOLK_VOID) {
        if (!asked)
            return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                                  "%s: void elements need their size in bytes", call);
        *out = asked;
        return TOLK_OK;
    }
    char text[16];
    if (!tk_dtype_valid(dtype) || tolk_dtype_lanes(dtype) != 1 || dtype == TOLK_INDEX)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE, "%s: %s is no dtype of memory", call,
                              tk_dtype_valid(dtype) ? tk_dtype_text(dtype, text) : "that number");
    *out = tolk_dtype_bytes(dtype);
    if (asked && asked != *out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: elem_bytes is %zu, but %s has %zu",
                              call, asked, tk_dtype_text(dtype, text), *out);
    return TOLK_OK;
}

/* A handle of n elements without memory. */
static tolk_status make(const char *call, tolk_device *device, tolk_dtype dtype, size_t asked,
                        size_t n, tolk_buffer **out, tolk_error *err) {
    size_t elem = 0, bytes;
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    if (!device->backend->memory)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "%s: %s has no memory", call,
                              device->name);
    TK_TRY(element(call, dtype, asked, &elem, err));
    if (!tk_mul_size(n, elem, &bytes) || bytes > PTRDIFF_MAX)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "%s: %zu elements of %zu bytes do not fit", call, n, elem);
    tolk_buffer *b = tk_alloc_zero(&device->ctx->al, sizeof *b);
    if (!b)
        return tk_status_nomem(err);
    b->device = device;
    b->n = n;
    b->elem_bytes = elem;
    b->bytes = bytes;
    b->dtype = dtype;
    atomic_init(&b->refs, 1);
    *out = b;
    return TOLK_OK;
}

static void discard(tolk_buffer *b) {
    tk_alloc_free(&b->device->ctx->al, b, sizeof *b);
}

/* Give it memory of the host; it is discarded on failure. */
static tolk_status put_over(tolk_buffer *b, void *at, void (*release)(void *user), void *user,
                            tolk_error *err) {
    tolk_status st;
    if (!b->device->backend->memory->host_visible)
        st = tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "%s cannot use memory of the host",
                            b->device->name);
    else
        st =
            tk_memory_wrap(&b->device->realize->book, at, b->bytes, release, user, &b->memory, err);
    if (st != TOLK_OK)
        discard(b);
    return st;
}

static tolk_status check_opts(const tolk_buffer_opts *o, tolk_error *err) {
    const char *wrong = NULL;
    if (o->size != sizeof *o)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_buffer_opts.size is %u, this library knows %zu (use "
                              "TOLK_BUFFER_OPTS_INIT)",
                              o->size, sizeof *o);
    if (o->no_reuse > 1)
        wrong = "no_reuse is neither 0 nor 1";
    else if (o->alignment & (o->alignment - 1))
        wrong = "alignment is no power of two";
    else if (!o->external && o->release)
        wrong = "release without external memory";
    else if (o->external && o->alignment && (uintptr_t)o->external & (o->alignment - 1))
        wrong = "external memory is not aligned as asked";
    return wrong ? tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_buffer_create: %s", wrong)
                 : TOLK_OK;
}

tolk_status tolk_buffer_create(tolk_device *device, tolk_dtype dtype, size_t n,
                               const tolk_buffer_opts *opts, tolk_buffer **out, tolk_error *err) {
    static const tolk_buffer_opts defaults = TOLK_BUFFER_OPTS_INIT;
    if (!device || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_buffer_create: device or out is NULL");
    opts = opts ? opts : &defaults;
    TK_TRY(check_opts(opts, err));
    tolk_buffer *b;
    TK_TRY(make("tolk_buffer_create", device, dtype, opts->elem_bytes, n, &b, err));
    b->alignment = opts->alignment ? opts->alignment : 1;
    b->flags = opts->no_reuse ? TK_MEMORY_NO_REUSE : 0;
    size_t len = opts->label ? strnlen(opts->label, sizeof b->label - 1) : 0;
    if (len)
        memcpy(b->label, opts->label, len);
    if (opts->external)
        TK_TRY(put_over(b, opts->external, opts->release, opts->user, err));
    *out = b;
    return TOLK_OK;
}

tolk_status tk_buffer_over(tolk_device *device, tolk_dtype dtype, size_t n, void *data,
                           uint64_t byte_offset, void (*release)(void *user), void *user,
                           tolk_buffer **out, tolk_error *err) {
    static const char call[] = "tolk_buffer_from_dlpack";
    uintptr_t at = (uintptr_t)data, end;
    tolk_buffer *b;
    TK_TRY(make(call, device, dtype, 0, n, &b, err));
    if (n && !data) {
        discard(b);
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: data is NULL", call);
    }
    if (__builtin_add_overflow(at, byte_offset, &at) ||
        __builtin_add_overflow(at, b->bytes, &end)) {
        discard(b);
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "%s: byte offset %llu is beyond memory", call,
                              (unsigned long long)byte_offset);
    }
    TK_TRY(put_over(b, (void *)at, release, user, err));
    *out = b;
    return TOLK_OK;
}

tolk_status tolk_alloc_f32(tolk_device *device, size_t n, tolk_buffer **out, tolk_error *err) {
    return tolk_buffer_create(device, TOLK_F32, n, NULL, out, err);
}

tolk_status tolk_alloc_f64(tolk_device *device, size_t n, tolk_buffer **out, tolk_error *err) {
    return tolk_buffer_create(device, TOLK_F64, n, NULL, out, err);
}

tolk_status tolk_alloc_i32(tolk_device *device, size_t n, tolk_buffer **out, tolk_error *err) {
    return tolk_buffer_create(device, TOLK_I32, n, NULL, out, err);
}

tolk_status tolk_alloc_i64(tolk_device *device, size_t n, tolk_buffer **out, tolk_error *err) {
    return tolk_buffer_create(device, TOLK_I64, n, NULL, out, err);
}

tolk_status tolk_alloc_custom(tolk_device *device, size_t n, size_t elem_bytes, tolk_buffer **out,
                              tolk_error *err) {
    tolk_buffer_opts opts = TOLK_BUFFER_OPTS_INIT;
    opts.elem_bytes = elem_bytes;
    return tolk_buffer_create(device, TOLK_VOID, n, &opts, out, err);
}

tolk_status tk_buffer_of_pool(const char *call, tolk_device *device, uint64_t pool,
                              tk_memory *memory, size_t offset, tolk_dtype dtype, size_t n,
                              tolk_buffer **out, tolk_error *err) {
    tolk_buffer *b;
    TK_TRY(make(call, device, dtype, 0, n, &b, err));
    tolk_status st = TOLK_OK;
    size_t have = memory ? tk_memory_bytes(memory) : 0;
    if (!memory)
        st = tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE, "%s: %s has no pool %" PRIu64, call,
                            device->name, pool);
    else if (offset > have || b->bytes > have - offset)
        st = tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                            "%s: %zu bytes at %zu of pool %" PRIu64 ", which has %zu", call,
                            b->bytes, offset, pool, have);
    else if (offset % b->elem_bytes)
        st = tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                            "%s: offset %zu is no multiple of an element's %zu bytes", call, offset,
                            b->elem_bytes);
    if (st != TOLK_OK) {
        discard(b);
        return st;
    }
    b->memory = tk_memory_ref(memory);
    b->offset = offset;
    *out = b;
    return TOLK_OK;
}

tolk_status tolk_buffer_in_pool(tolk_device *device, uint64_t pool, size_t offset, tolk_dtype dtype,
                                size_t n, tolk_buffer **out, tolk_error *err) {
    static const char call[] = "tolk_buffer_in_pool";
    if (!device || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: device or out is NULL", call);
    tk_realize_here(device->ctx);
    tk_memory *m = tk_pools_find(&device->realize->book, pool);
    tolk_status st = tk_buffer_of_pool(call, device, pool, m, offset, dtype, n, out, err);
    tk_memory_unref(m);
    return st;
}

/* Is the handle freed, or its base? Under the lock. */
static bool is_freed(const tolk_buffer *b) {
    return b->is_freed || (b->base && b->base->is_freed);
}

static tolk_status fail_freed(const char *what, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_FREED, TK_NO_NODE, "%.120s: the buffer was freed", what);
}

tolk_status tolk_buffer_view(tolk_buffer *base, size_t offset, tolk_dtype dtype, size_t n,
                             tolk_buffer **out, tolk_error *err) {
    static const char call[] = "tolk_buffer_view";
    if (!base || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: base or out is NULL", call);
    tolk_buffer *v, *root = base->base ? base->base : base;
    /* Elements of a size that tolk does not know are those of the base. */
    size_t elem = dtype == TOLK_VOID && base->dtype == TOLK_VOID ? base->elem_bytes : 0;
    TK_TRY(make(call, base->device, dtype, elem, n, &v, err));
    v->offset = (base->base ? base->offset : 0) + offset; /* checked before it is used */
    tk_book *book = book_of(base);
    pthread_mutex_lock(&book->handles);
    tolk_status st = TOLK_OK;
    size_t place = root->offset + v->offset; /* in its memory: a pool begins before its buffers */
    if (is_freed(base))
        st = fail_freed(call, err);
    else if (offset > base->bytes || v->bytes > base->bytes - offset)
        st =
            tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE, "%s: %zu bytes at %zu of a buffer of %zu",
                           call, v->bytes, offset, base->bytes);
    else if (offset % v->elem_bytes || (dtype != TOLK_VOID && place % v->elem_bytes))
        st = tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                            "%s: offset %zu is no multiple of an element's %zu bytes", call, place,
                            v->elem_bytes);
    else
        root->views++;
    pthread_mutex_unlock(&book->handles);
    if (st != TOLK_OK) {
        discard(v);
        return st;
    }
    v->base = tolk_buffer_ref(root);
    *out = v;
    return TOLK_OK;
}

tolk_buffer *tolk_buffer_ref(tolk_buffer *buffer) {
    if (buffer)
        atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

void tolk_buffer_unref(tolk_buffer *buffer) {
    while (buffer && atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1) {
        tolk_buffer *base = buffer->base;
        tk_realize_here(buffer->device->ctx);
        if (base && !buffer->is_freed) {
            tk_book *book = book_of(buffer);
            pthread_mutex_lock(&book->handles);
            base->views--;
            pthread_mutex_unlock(&book->handles);
        }
        tk_memory_unref(buffer->memory);
        discard(buffer);
        buffer = base;
    }
}

tolk_status tolk_buffer_free(tolk_buffer *buffer, tolk_error *err) {
    if (!buffer)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_buffer_free: buffer is NULL");
    tk_realize_here(buffer->device->ctx);
    tk_book *book = book_of(buffer);
    tk_memory *m = NULL;
    size_t views = 0;
    pthread_mutex_lock(&book->handles);
    if (buffer->is_freed) {
        pthread_mutex_lock(&book->lock);
        book->stats.double_frees++;
        pthread_mutex_unlock(&book->lock);
    } else if (buffer->views) {
        views = buffer->views;
    } else {
        buffer->is_freed = true;
        m = buffer->memory;
        buffer->memory = NULL;
        if (buffer->base)
            buffer->base->views--;
    }
    pthread_mutex_unlock(&book->handles);
    tk_memory_unref(m);
    if (views)
        return tk_status_fail(err, TOLK_E_BUSY, TK_NO_NODE,
                              "tolk_buffer_free: %zu view%s of the buffer %s not freed", views,
                              views == 1 ? "" : "s", views == 1 ? "is" : "are");
    return TOLK_OK;
}

tolk_status tolk_buffer_get_info(const tolk_buffer *buffer, tolk_buffer_info *out) {
    if (!buffer || !out)
        return TOLK_E_ARG;
    tk_realize_here(buffer->device->ctx);
    const tolk_buffer *root = buffer->base ? buffer->base : buffer;
    tk_book *book = book_of(buffer);
    pthread_mutex_lock(&book->handles);
    *out = (tolk_buffer_info){.device = buffer->device,
                              .dtype = buffer->dtype,
                              .n = buffer->n,
                              .elem_bytes = buffer->elem_bytes,
                              .bytes = buffer->bytes,
                              .offset = buffer->offset,
                              .base = buffer->base,
                              .is_allocated = !buffer->is_freed && root->memory != NULL,
                              .is_freed = buffer->is_freed};
    pthread_mutex_unlock(&book->handles);
    return TOLK_OK;
}

/* ---- what a command needs of one ---- */

tolk_device *tk_buffer_device(const tolk_buffer *b) {
    return b->device;
}

/* The memory of a base, referenced; NULL: there is none, as *freed says or for want of room, or
 * without `allocate` nothing in it. Under the lock. */
static tk_memory *memory_of(tolk_buffer *b, tolk_buffer *root, bool allocate, bool *freed) {
    *freed = is_freed(b);
    if (*freed)
        return NULL;
    if (!root->memory && allocate)
        root->memory =
            tk_memory_try(book_of(root), root->bytes, root->alignment, root->flags, root->label);
    bool is_there = root->memory && (allocate || tk_memory_is_stored(root->memory));
    return is_there ? tk_memory_ref(root->memory) : NULL;
}

static tolk_status take(tolk_buffer *b, const char *what, bool allocate, tk_piece *out,
                        tolk_error *err) {
    TK_TRY(tk_device_check(b->device, err));
    tolk_buffer *root = b->base ? b->base : b;
    tk_book *book = book_of(b);
    tk_memory *m = NULL;
    bool freed = false;
    /* No lock is held while memory is looked for with the help of others; so another thread, or
     * a hook, may have found some meanwhile. */
    for (int i = 0; i < 2 && !m && !freed; i++) {
        if (i)
            tk_memory_reclaim(book, root->bytes);
        pthread_mutex_lock(&book->handles);
        m = memory_of(b, root, allocate, &freed);
        pthread_mutex_unlock(&book->handles);
        if (!m && !freed && !allocate)
            return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                                  "%.140s: nothing was stored to the buffer yet", what);
    }
    if (freed)
        return fail_freed(what, err);
    if (!m)
        return tk_memory_none(book, root->bytes, root->label, err);
    tolk_status st = tk_memory_prepare(m, err);
    if (st != TOLK_OK) {
        tk_memory_unref(m);
        return st;
    }
    size_t offset = b->offset + (b->base ? root->offset : 0);
    *out = (tk_piece){.memory = m,
                      .at = tk_memory_at(m) ? (char *)tk_memory_at(m) + offset : NULL,
                      .offset = offset,
                      .bytes = b->bytes,
                      .dtype = b->dtype,
                      .elem_bytes = b->elem_bytes};
    return TOLK_OK;
}

tolk_status tk_buffer_piece(tolk_buffer *b, const char *what, tk_piece *out, tolk_error *err) {
    return take(b, what, true, out, err);
}

tolk_status tk_buffer_piece_bound(tolk_buffer *b, const char *what, tk_piece *out,
                                  tolk_error *err) {
    return take(b, what, !b->bytes, out, err);
}

void tk_piece_drop(tk_piece *p) {
    tk_memory_unref(p->memory);
    p->memory = NULL;
}

tolk_status tolk_buffer_map(tolk_buffer *buffer, void **out, tolk_error *err) {
    static const char call[] = "tolk_buffer_map";
    if (!buffer || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: buffer or out is NULL", call);
    tolk_device *device = buffer->device;
    tk_realize_here(device->ctx);
    const tk_memory_ops *ops = device->backend->memory;
    if (!ops->host_visible)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "%s: the host cannot see memory of %s", call, device->name);
    tk_piece p;
    TK_TRY(tk_buffer_piece(buffer, call, &p, err));
    tk_use use = {p.memory, p.offset, p.offset + p.bytes, true};
    tolk_status st = tk_memory_wait(&use, err);
    tk_memory_set_stored(p.memory); /* by the host, whenever it likes */
    tk_piece_drop(&p);              /* the buffer has it */
    if (st == TOLK_OK)
        *out = p.at;
    return st;
}

/* ---- used memory ---- */

tolk_status tolk_device_memory_stats(const tolk_device *device, tolk_memory_stats *out) {
    if (!device || !out)
        return TOLK_E_ARG;
    tk_realize_here(device->ctx);
    tk_book *book = &device->realize->book;
    pthread_mutex_lock(&book->lock);
    *out = book->stats;
    pthread_mutex_unlock(&book->lock);
    return TOLK_OK;
}

uint64_t tolk_device_used_memory(const tolk_device *device) {
    tolk_memory_stats s;
    return tolk_device_memory_stats(device, &s) == TOLK_OK ? s.live_bytes : 0;
}

void tolk_device_rebase_peak(tolk_device *device) {
    if (!device)
        return;
    tk_realize_here(device->ctx);
    tk_book *book = &device->realize->book;
    pthread_mutex_lock(&book->lock);
    book->stats.peak_bytes = book->stats.live_bytes;
    pthread_mutex_unlock(&book->lock);
}

void tolk_device_trim(tolk_device *device) {
    if (!device)
        return;
    tk_realize_here(device->ctx);
    tk_memory_trim(&device->realize->book);
    tk_queue_trim(device->realize->queue);
}
