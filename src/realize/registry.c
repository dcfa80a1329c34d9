/* SPDX-License-Identifier: MIT
 *
 * Which devices there are. The table is made at the first call that asks for a device: families by
 * priority, of each its devices by ordinal. Device objects are made once and stay until the context
 * goes, so that a handle of a device that was destroyed can still be looked at.
 */
#include "base/status.h"
#include "realize/copy.h"
#include "realize/realize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64 };

/* Is `framework` that family, or one of its variants? */
static bool is_of(const char *framework, const char *family) {
    size_t n = strlen(family);
    return strncmp(framework, family, n) == 0 && (framework[n] == 0 || framework[n] == '/');
}

/* Does the name of a framework mean this backend? An emulator is meant by its own name only. */
static bool means(const char *framework, const tk_backend *b) {
    return b->priority >= 0 ? is_of(b->framework, framework) : strcmp(b->framework, framework) == 0;
}

/* ---- one device ---- */

static void write_name(const tk_family *family, uint32_t ordinal, char out[NAME]) {
    if (ordinal)
        snprintf(out, NAME, "%.40s:%u", family->backend->framework, ordinal);
    else
        snprintf(out, NAME, "%.40s", family->backend->framework);
}

void tk_device_end(tolk_device *device) {
    tk_device_state *s = device->realize;
    (void)tk_queue_close(s->queue, NULL);
    tk_book_fini(&s->book);
    tk_queue_unwatch(&s->merge.copy);
    tk_queue_free(s->queue);
    tk_copy_fini(device->ctx, s);
    tk_alloc_free(&device->ctx->al, s, sizeof *s);
    tk_device_free(device);
}

/* Under the lock, before a new device is handed out and after the queue of one was closed. */
static void count_queues(tk_realize *r) {
    uint32_t n = 0;
    for (size_t i = 0; i < r->all.n; i++)
        n += !tk_queue_is_closed(r->all.at[i]->realize->queue);
    atomic_store(&r->queues, n ? n : 1);
}

/* Make the device of a slot. Under the lock. */
static tolk_status make(tk_realize *r, tk_device_slot_at *slot, tolk_error *err) {
    tolk_ctx *ctx = r->ctx;
    char name[NAME];
    write_name(slot->family, slot->ordinal, name);
    TK_TRY(tk_memory_order_reserve(ctx, r->all.n + 1, err));
    tk_device_state *s = tk_alloc_zero(&ctx->al, sizeof *s);
    if (!s || !tk_vec_reserve(&r->all, r->all.n + 1)) {
        tk_alloc_free(&ctx->al, s, sizeof *s);
        return tk_status_nomem(err);
    }
    tolk_device *device = NULL;
    tolk_status st = tk_device_new(ctx, slot->family, slot->ordinal, name, &device, err);
    if (st == TOLK_OK)
        st = tk_queue_create(ctx, device->name, ctx->synchronous, r->spin_us, &s->queue, err);
    if (st == TOLK_OK)
        st = tk_copy_init(ctx, s, err);
    if (st == TOLK_OK)
        st = tk_book_init(&s->book, device, err);
    if (st != TOLK_OK) {
        tk_copy_fini(ctx, s);
        if (s->queue) {
            (void)tk_queue_close(s->queue, NULL);
            tk_queue_free(s->queue);
        }
        if (device)
            tk_device_free(device);
        tk_alloc_free(&ctx->al, s, sizeof *s);
        return st;
    }
    s->uid = ++r->last_uid;
    s->ordinal = slot->ordinal;
    device->realize = s;
    atomic_init(&s->index, slot - r->table.at);
    atomic_init(&s->destroyed, false);
    (void)tk_vec_push(&r->all, device); /* there is room */
    slot->device = device;
    return TOLK_OK;
}

tolk_status tk_device_check(const tolk_device *device, tolk_error *err) {
    if (!atomic_load_explicit(&device->realize->destroyed, memory_order_relaxed))
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_DEVICE_DESTROYED, TK_NO_NODE, "device %s was destroyed",
                          device->name);
}

/* ---- the table ---- */

static int by_priority(const void *a, const void *b) {
    const tk_family *x = *(const tk_family *const *)a, *y = *(const tk_family *const *)b;
    if (x->backend->priority != y->backend->priority)
        return x->backend->priority > y->backend->priority ? -1 : 1;
    return x < y ? -1 : x > y; /* families stand in one array: the one added first */
}

/* The live device of a slot from before a reset. */
static tolk_device *known(const tk_realize *r, const tk_device_slot_at *slot) {
    for (size_t i = 0; i < r->all.n; i++) {
        tolk_device *d = r->all.at[i];
        if (d->backend == slot->family->backend && d->realize->ordinal == slot->ordinal &&
            !atomic_load(&d->realize->destroyed))
            return d;
    }
    return NULL;
}

static tolk_status fill(tk_realize *r, const tk_family *const *order, size_t n, tolk_error *err) {
    for (size_t i = 0; i < n; i++) {
        const tk_family *f = order[i];
        uint32_t devices = 0;
        tolk_error why = TOLK_ERROR_INIT;
        tolk_status st = f->backend->count(r->ctx, f->state, &devices, &why);
        if (st == TOLK_E_NOMEM) { /* says nothing about the hardware */
            if (err)
                *err = why;
            return st;
        }
        for (uint32_t d = 0; st == TOLK_OK && d < devices; d++) {
            tk_device_slot_at slot = {f, d, NULL};
            if (!tk_vec_push(&r->table, slot))
                return tk_status_nomem(err);
        }
    }
    for (size_t i = 0; i < r->table.n; i++) {
        tk_device_slot_at *slot = &r->table.at[i];
        slot->device = known(r, slot);
        if (!slot->device)
            TK_TRY(make(r, slot, err));
    }
    for (size_t i = 0; i < r->table.n; i++)
        atomic_store(&r->table.at[i].device->realize->index, (int64_t)i);
    return TOLK_OK;
}

/* Under the lock. On failure there is no table, and the next call tries again. */
static tolk_status enumerate(tk_realize *r, tolk_error *err) {
    if (r->enumerated)
        return TOLK_OK;
    size_t n = tk_family_count(r->ctx);
    const tk_family **order = tk_alloc(&r->ctx->al, n * sizeof(void *));
    if (!order)
        return tk_status_nomem(err);
    for (size_t i = 0; i < n; i++)
        order[i] = tk_family_at(r->ctx, i);
    qsort(order, n, sizeof *order, by_priority);
    tolk_status st = fill(r, order, n, err);
    tk_alloc_free(&r->ctx->al, order, n * sizeof(void *));
    if (st != TOLK_OK) {
        for (size_t i = 0; i < r->table.n; i++)
            if (r->table.at[i].device)
                atomic_store(&r->table.at[i].device->realize->index, -1);
        r->table.n = 0;
        return st;
    }
    count_queues(r);
    r->enumerated = true;
    return TOLK_OK;
}

/* The context's state with its lock taken and its table made; NULL: *st says why. */
static tk_realize *begin(tolk_ctx *ctx, tolk_status *st, tolk_error *err) {
    tk_realize_here(ctx);
    tk_realize *r = tk_realize_of(ctx);
    pthread_mutex_lock(&r->lock);
    *st = enumerate(r, err);
    if (*st == TOLK_OK)
        return r;
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* The device of a slot, made anew if it was destroyed. Under the lock. */
static tolk_status device_at(tk_realize *r, size_t i, tolk_device **out, tolk_error *err) {
    tk_device_slot_at *slot = &r->table.at[i];
    if (!slot->device || atomic_load(&slot->device->realize->destroyed)) { /* or is being */
        TK_TRY(make(r, slot, err));
        count_queues(r);
    }
    *out = slot->device;
    return TOLK_OK;
}

static void list_names(const tk_realize *r, char *out, size_t cap) {
    size_t at = 0;
    snprintf(out, cap, "none");
    for (size_t i = 0; i < r->table.n; i++) {
        char name[NAME];
        write_name(r->table.at[i].family, r->table.at[i].ordinal, name);
        int n = snprintf(out + at, cap - at, "%s%s", i ? ", " : "", name);
        if (n < 0 || (size_t)n >= cap - at) {
            out[at] = 0;
            return;
        }
        at += (size_t)n;
    }
}

/* "cpu:1" -> "CPU", 1. False: it cannot be the name of a device. */
static bool parse_name(const char *name, char framework[NAME], uint32_t *ordinal) {
    size_t n = strcspn(name, ":");
    if (n == 0 || n >= NAME)
        return false;
    for (size_t i = 0; i < n; i++)
        framework[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
    framework[n] = 0;
    *ordinal = 0;
    if (!name[n])
        return true;
    const char *digits = name + n + 1;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 9 || digits[count] || (digits[0] == '0' && count > 1))
        return false;
    for (size_t i = 0; i < count; i++)
        *ordinal = *ordinal * 10 + (uint32_t)(digits[i] - '0');
    return true;
}

/* ---- the API ---- */

tolk_status tolk_device_open(tolk_ctx *ctx, const char *name, tolk_device **out, tolk_error *err) {
    if (!ctx || !name || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_open: an argument is NULL");
    tolk_status st;
    tk_realize *r = begin(ctx, &st, err);
    if (!r)
        return st;
    char framework[NAME], names[128];
    uint32_t ordinal;
    bool more = false; /* of the CPU: as many as are asked for */
    st = TOLK_E_NO_DEVICE;
    if (parse_name(name, framework, &ordinal)) {
        more = is_of(framework, "CPU") && ordinal > 0;
        /* An exact name counts for itself; a family's for its variants, the best one first. */
        for (int exact = 1; exact >= 0 && st == TOLK_E_NO_DEVICE; exact--)
            for (size_t i = 0; i < r->table.n && st == TOLK_E_NO_DEVICE; i++) {
                const tk_backend *b = r->table.at[i].family->backend;
                if (r->table.at[i].ordinal == ordinal &&
                    (exact ? strcmp(b->framework, framework) == 0 : means(framework, b)))
                    st = device_at(r, i, out, err);
            }
    }
    list_names(r, names, sizeof names);
    pthread_mutex_unlock(&r->lock);
    if (st == TOLK_E_NO_DEVICE)
        return tk_status_fail(err, st, TK_NO_NODE, "no device \"%.60s\": expected one of %s%s",
                              name, names,
                              more ? " (TOLK_CPU_DEVICES=N or tolk_ctx_opts.cpu_devices makes N "
                                     "devices of the CPU)"
                                   : "");
    return st;
}

tolk_status tolk_device_best(tolk_ctx *ctx, const char *framework, tolk_device **out,
                             tolk_error *err) {
    if (!ctx || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_best: an argument is NULL");
    tolk_status st;
    tk_realize *r = begin(ctx, &st, err);
    if (!r)
        return st;
    st = TOLK_E_NO_DEVICE;
    char names[128];
    for (size_t i = 0; i < r->table.n && st == TOLK_E_NO_DEVICE; i++) {
        const tk_backend *b = r->table.at[i].family->backend;
        if (framework ? means(framework, b) : b->priority >= 0)
            st = device_at(r, i, out, err);
    }
    list_names(r, names, sizeof names);
    pthread_mutex_unlock(&r->lock);
    if (st == TOLK_E_NO_DEVICE)
        return tk_status_fail(err, st, TK_NO_NODE, "no device of framework \"%.60s\": there is %s",
                              framework ? framework : "any", names);
    return st;
}

tolk_status tolk_device_list(tolk_ctx *ctx, const char *framework, tolk_device **out, size_t cap,
                             size_t *n, tolk_error *err) {
    if (!ctx || !n || (cap && !out))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_list: an argument is NULL");
    tolk_status st;
    tk_realize *r = begin(ctx, &st, err);
    if (!r)
        return st;
    size_t found = 0;
    for (size_t i = 0; i < r->table.n && st == TOLK_OK; i++) {
        if (framework && !is_of(r->table.at[i].family->backend->framework, framework))
            continue;
        if (found < cap)
            st = device_at(r, i, &out[found], err);
        found++;
    }
    pthread_mutex_unlock(&r->lock);
    if (st == TOLK_OK)
        *n = found;
    return st;
}

size_t tolk_device_count(tolk_ctx *ctx) {
    size_t n = 0;
    return ctx && tolk_device_list(ctx, NULL, NULL, 0, &n, NULL) == TOLK_OK ? n : 0;
}

int64_t tolk_device_index(const tolk_device *device) {
    return device ? atomic_load(&device->realize->index) : -1;
}

uint64_t tolk_device_uid(const tolk_device *device) {
    return device ? device->realize->uid : 0;
}

int tolk_device_is_of_backend(const tolk_device *device, const char *framework) {
    return device && framework && is_of(device->backend->framework, framework);
}

static tolk_status clear_kernels(void *user, tolk_error *err) {
    tk_realize *r = user;
    return tk_guarded_cache_clear(r->kernels, err);
}

tolk_status tolk_device_reset(tolk_ctx *ctx, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_reset: ctx is NULL");
    tk_realize_here(ctx);
    tk_realize *r = tk_realize_of(ctx);
    tolk_hook_event event = {.kind = TOLK_HOOK_CLEAR_ALL};
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status st = clear_kernels(r, err);
    tolk_status told = tk_hooks_notify(r->hooks, &event, st == TOLK_OK ? err : &own);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->table.n; i++)
        if (r->table.at[i].device)
            atomic_store(&r->table.at[i].device->realize->index, -1);
    r->table.n = r->limits.n = 0;
    r->enumerated = false;
    pthread_mutex_unlock(&r->lock);
    return st == TOLK_OK ? told : st;
}

tolk_status tolk_device_destroy(tolk_device *device, tolk_error *err) {
    if (!device)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_device_destroy: device is NULL");
    tolk_ctx *ctx = device->ctx;
    tk_realize_here(ctx);
    tk_realize *r = tk_realize_of(ctx);
    tk_device_state *s = device->realize;
    TK_TRY(tk_queue_may_close(s->queue, err));
    if (atomic_exchange(&s->destroyed, true))
        return TOLK_OK;
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status first = tk_queue_close(s->queue, err);
    tolk_hook_event event = {.kind = TOLK_HOOK_DEVICE_DESTROY,
                             .framework = device->backend->framework,
                             .ordinal = s->ordinal,
                             .uid = s->uid};
    tolk_status st = tk_hooks_notify(r->hooks, &event, first == TOLK_OK ? err : &own);
    first = first == TOLK_OK ? st : first;
    st = tk_guarded_cache_evict_device(r->kernels, s->uid, first == TOLK_OK ? err : &own);
    first = first == TOLK_OK ? st : first;
    tk_book_close(&s->book);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->table.n; i++)
        if (r->table.at[i].device == device)
            r->table.at[i].device = NULL;
    atomic_store(&s->index, -1);
    count_queues(r);
    pthread_mutex_unlock(&r->lock);
    return first;
}

/* ---- what they are ---- */

static uint64_t least(uint64_t a, uint64_t b) {
    return a && (!b || a < b) ? a : b; /* 0: no limit */
}

/* What two devices have in common. */
static void meet(tolk_limits *a, const tolk_limits *b) {
    a->lanes_bytes = a->lanes_bytes < b->lanes_bytes ? a->lanes_bytes : b->lanes_bytes;
    a->max_threads_per_block = least(a->max_threads_per_block, b->max_threads_per_block);
    for (int i = 0; i < 3; i++) {
        a->max_block[i] = least(a->max_block[i], b->max_block[i]);
        a->max_grid[i] = least(a->max_grid[i], b->max_grid[i]);
    }
    a->max_shared_bytes = least(a->max_shared_bytes, b->max_shared_bytes);
    a->total_bytes = least(a->total_bytes, b->total_bytes);
    a->warp = a->warp < b->warp ? a->warp : b->warp;
    if (b->compute_major < a->compute_major ||
        (b->compute_major == a->compute_major && b->compute_minor < a->compute_minor)) {
        a->compute_major = b->compute_major;
        a->compute_minor = b->compute_minor;
    }
    a->multiprocessors =
        a->multiprocessors < b->multiprocessors ? a->multiprocessors : b->multiprocessors;
    a->has_f64 &= b->has_f64;
    a->has_i64 &= b->has_i64;
    a->has_f16 &= b->has_f16;
    a->has_atomics &= b->has_atomics;
    a->is_cpu &= b->is_cpu;
}

/* Under the lock. *out: of all devices of the family; devices 0: there is none. */
static void look_up(tk_realize *r, const char *family, tolk_limits *out) {
    *out = (tolk_limits){0};
    for (size_t i = 0; i < r->table.n; i++) {
        const tk_device_slot_at *slot = &r->table.at[i];
        if (!is_of(slot->family->backend->framework, family))
            continue;
        tolk_limits one = {0};
        slot->family->backend->limits(r->ctx, slot->family->state, slot->ordinal, &one);
        if (out->devices++)
            meet(out, &one);
        else
            *out = one, out->devices = 1;
    }
}

tolk_status tolk_family_limits(tolk_ctx *ctx, const char *family, tolk_limits *out,
                               tolk_error *err) {
    if (!ctx || !family || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_family_limits: an argument is NULL");
    tolk_status st;
    tk_realize *r = begin(ctx, &st, err);
    if (!r)
        return st;
    tk_limits_of found = {{0}, {0}};
    for (size_t i = 0; i < r->limits.n && !found.limits.devices; i++)
        if (strcmp(r->limits.at[i].family, family) == 0)
            found = r->limits.at[i];
    if (!found.limits.devices) {
        look_up(r, family, &found.limits);
        if (!found.limits.devices) {
            char names[128];
            list_names(r, names, sizeof names);
            st = tk_status_fail(err, TOLK_E_NO_DEVICE, TK_NO_NODE,
                                "no device of family \"%.60s\": there is %s", family, names);
        } else if (strlen(family) < sizeof found.family) {
            snprintf(found.family, sizeof found.family, "%s", family);
            (void)tk_vec_push(&r->limits, found); /* without memory it is looked up again */
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (st == TOLK_OK)
        *out = found.limits;
    return st;
}

static void put_axes(tk_strbuf *sb, const char *name, const uint64_t axes[3]) {
    tk_strbuf_fmt(sb, ", \"%s\": [%llu, %llu, %llu]", name, (unsigned long long)axes[0],
                  (unsigned long long)axes[1], (unsigned long long)axes[2]);
}

static void put_limits(tk_strbuf *sb, const tolk_limits *l) {
    tk_strbuf_fmt(sb,
                  ", \"lanes_bytes\": %u, \"warp\": %u, \"multiprocessors\": %u, "
                  "\"compute_capability\": \"%u.%u\", \"total_bytes\": %llu, "
                  "\"max_shared_bytes\": %llu, \"max_threads_per_block\": %llu",
                  l->lanes_bytes, l->warp, l->multiprocessors, l->compute_major, l->compute_minor,
                  (unsigned long long)l->total_bytes, (unsigned long long)l->max_shared_bytes,
                  (unsigned long long)l->max_threads_per_block);
    put_axes(sb, "max_block", l->max_block);
    put_axes(sb, "max_grid", l->max_grid);
    const struct {
        const char *name;
        uint8_t has;
    } flags[] = {{"f64", l->has_f64},
                 {"i64", l->has_i64},
                 {"f16", l->has_f16},
                 {"atomics", l->has_atomics},
                 {"is_cpu", l->is_cpu}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        tk_strbuf_fmt(sb, ", \"%s\": %s", flags[i].name, flags[i].has ? "true" : "false");
}

tolk_status tolk_static_properties(tolk_ctx *ctx, char **text, size_t *len) {
    if (!ctx || !text || !len)
        return TOLK_E_ARG;
    tolk_status st;
    tk_realize *r = begin(ctx, &st, NULL);
    if (!r)
        return st;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_str(&sb, "{\"devices\": [");
    for (size_t i = 0; i < r->table.n; i++) {
        const tk_device_slot_at *slot = &r->table.at[i];
        const tk_backend *b = slot->family->backend;
        char name[NAME];
        tolk_limits l = {0};
        write_name(slot->family, slot->ordinal, name);
        b->limits(ctx, slot->family->state, slot->ordinal, &l);
        tk_strbuf_fmt(&sb,
                      "%s{\"name\": \"%s\", \"framework\": \"%s\", \"ordinal\": %u, "
                      "\"index\": %zu, \"priority\": %d",
                      i ? ", " : "", name, b->framework, slot->ordinal, i, b->priority);
        put_limits(&sb, &l);
        tk_strbuf_str(&sb, "}");
    }
    tk_strbuf_str(&sb, "]}");
    pthread_mutex_unlock(&r->lock);
    *text = tk_strbuf_take(&sb, len);
    return *text ? TOLK_OK : TOLK_E_NOMEM;
}

tolk_status tolk_device_debug_info(tolk_device *device, char **text, size_t *len) {
    if (!device || !text || !len)
        return TOLK_E_ARG;
    tk_realize_here(device->ctx);
    const tk_device_state *s = device->realize;
    tolk_memory_stats m;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &device->ctx->al);
    tk_strbuf_fmt(&sb,
                  "{\"name\": \"%s\", \"framework\": \"%s\", \"ordinal\": %u, \"index\": %lld, "
                  "\"uid\": %llu, \"destroyed\": %s, ",
                  device->name, device->backend->framework, s->ordinal,
                  (long long)atomic_load(&s->index), (unsigned long long)s->uid,
                  atomic_load(&s->destroyed) ? "true" : "false");
    device->backend->debug_info(device, &sb);
    tk_strbuf_str(&sb, ", \"queue\": ");
    tk_queue_describe(s->queue, &sb);
    if (tolk_device_memory_stats(device, &m) == TOLK_OK)
        tk_strbuf_fmt(&sb,
                      ", \"memory\": {\"live_bytes\": %llu, \"peak_bytes\": %llu, "
                      "\"cached_bytes\": %llu, \"allocs\": %llu, \"frees\": %llu, "
                      "\"double_frees\": %llu, \"reclaims\": %llu}",
                      (unsigned long long)m.live_bytes, (unsigned long long)m.peak_bytes,
                      (unsigned long long)m.cached_bytes, (unsigned long long)m.allocs,
                      (unsigned long long)m.frees, (unsigned long long)m.double_frees,
                      (unsigned long long)m.reclaims);
    tk_strbuf_str(&sb, "}");
    *text = tk_strbuf_take(&sb, len);
    return *text ? TOLK_OK : TOLK_E_NOMEM;
}
