/* SPDX-License-Identifier: MIT
 *
 * Scopes. A child begins with references of its own to all that its parent has, so neither may
 * surprise the other later. All scopes of a context share one lock, which a fork makes anew.
 */
#include "realize/scope.h"

#include "base/map.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "realize/buffer.h"
#include "realize/realize.h"

#include <string.h>

typedef struct binding {
    uint64_t node;
    tolk_buffer *buffer; /* referenced */
} binding;

struct tolk_scope {
    _Atomic uint32_t refs;
    tolk_device *device;
    tolk_scope *parent; /* referenced; or NULL */
    bool has_merge;
    uint64_t merge_node;
    tolk_compile_opts compile; /* its texts are the scope's, of base/strbuf.h */
    TK_VEC(binding) list;      /* the inherited ones first */
    tk_map place;              /* node -> its place in list */
    size_t n_inherited;
    _Atomic bool finalizing;
    bool finalized;
};

static pthread_mutex_t *lock_of(const tolk_scope *s) {
    return &tk_realize_of(s->device->ctx)->names;
}

/* ---- making and freeing ---- */

static void free_scope(tolk_scope *s) {
    const tolk_allocator *al = &s->device->ctx->al;
    for (size_t i = 0; i < s->list.n; i++)
        tolk_buffer_unref(s->list.at[i].buffer);
    tk_vec_fini(&s->list);
    tk_map_fini(&s->place);
    tk_strbuf_text_free(al, (char *)(uintptr_t)s->compile.opts);
    tk_strbuf_text_free(al, (char *)(uintptr_t)s->compile.target);
    tk_strbuf_text_free(al, (char *)(uintptr_t)s->compile.symbol);
    tk_alloc_free(al, s, sizeof *s);
}

tolk_scope *tolk_scope_ref(tolk_scope *scope) {
    if (scope)
        atomic_fetch_add_explicit(&scope->refs, 1, memory_order_relaxed);
    return scope;
}

void tolk_scope_unref(tolk_scope *scope) {
    while (scope && atomic_fetch_sub_explicit(&scope->refs, 1, memory_order_acq_rel) == 1) {
        tolk_scope *parent = scope->parent;
        free_scope(scope);
        scope = parent;
    }
}

/* *text becomes a copy of itself; false: no memory, and it is NULL. */
static bool own_text(const tolk_allocator *al, const char **text) {
    if (!*text)
        return true;
    tk_strbuf sb;
    tk_strbuf_init(&sb, al);
    tk_strbuf_str(&sb, *text);
    *text = tk_strbuf_take(&sb, NULL);
    return *text != NULL;
}

static bool copy_compile(tolk_scope *s, const tolk_compile_opts *from) {
    const tolk_allocator *al = &s->device->ctx->al;
    s->compile = *from;
    bool opts = own_text(al, &s->compile.opts);
    bool target = own_text(al, &s->compile.target);
    bool symbol = own_text(al, &s->compile.symbol);
    return opts && target && symbol;
}

static bool push(tolk_scope *s, uint64_t node, tolk_buffer *buffer) {
    if (!tk_vec_reserve(&s->list, s->list.n + 1) || !tk_map_put(&s->place, node, s->list.n))
        return false;
    s->list.at[s->list.n++] = (binding){node, tolk_buffer_ref(buffer)};
    return true;
}

static bool inherit(tolk_scope *s, const tolk_scope *parent) {
    bool done = true;
    pthread_mutex_lock(lock_of(s));
    for (size_t i = 0; done && i < parent->list.n; i++)
        done = push(s, parent->list.at[i].node, parent->list.at[i].buffer);
    pthread_mutex_unlock(lock_of(s));
    s->n_inherited = s->list.n;
    return done;
}

static tolk_status check_opts(const tolk_scope_opts **opts, tolk_error *err) {
    static const tolk_scope_opts defaults = TOLK_SCOPE_OPTS_INIT;
    if (!*opts)
        *opts = &defaults;
    if ((*opts)->size != sizeof **opts)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_scope_opts.size is %u, this library knows %zu (use "
                              "TOLK_SCOPE_OPTS_INIT)",
                              (*opts)->size, sizeof **opts);
    if ((int)(*opts)->merge < TOLK_MERGE_INHERIT || (*opts)->merge > TOLK_MERGE_NODE)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_scope_opts.merge is %d",
                              (int)(*opts)->merge);
    if ((*opts)->compile && (*opts)->compile->size != sizeof *(*opts)->compile)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_compile_opts.size is %u, this library knows %zu (use "
                              "TOLK_COMPILE_OPTS_INIT)",
                              (*opts)->compile->size, sizeof *(*opts)->compile);
    return TOLK_OK;
}

/* parent: NULL, or of that device. */
static tolk_status create(tolk_device *device, tolk_scope *parent, const tolk_scope_opts *opts,
                          tolk_scope **out, tolk_error *err) {
    static const tolk_compile_opts defaults = TOLK_COMPILE_OPTS_INIT;
    TK_TRY(check_opts(&opts, err));
    const tolk_allocator *al = &device->ctx->al;
    tolk_scope *s = tk_alloc_zero(al, sizeof *s);
    if (!s)
        return tk_status_nomem(err);
    atomic_init(&s->refs, 1);
    s->device = device;
    tk_vec_init(&s->list, al);
    tk_map_init(&s->place, al);
    if (!copy_compile(s, opts->compile ? opts->compile
                         : parent      ? &parent->compile
                                       : &defaults) ||
        (parent && !inherit(s, parent))) {
        free_scope(s);
        return tk_status_nomem(err);
    }
    s->parent = tolk_scope_ref(parent);
    if (opts->merge == TOLK_MERGE_INHERIT && parent) {
        s->has_merge = parent->has_merge;
        s->merge_node = parent->merge_node;
    } else if (opts->merge == TOLK_MERGE_NODE) {
        s->has_merge = true;
        s->merge_node = opts->merge_node;
    }
    *out = s;
    return TOLK_OK;
}

tolk_status tolk_scope_create(tolk_device *device, const tolk_scope_opts *opts, tolk_scope **out,
                              tolk_error *err) {
    if (!device || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_scope_create: device or out is NULL");
    tk_realize_here(device->ctx);
    TK_TRY(tk_device_check(device, err));
    return create(device, NULL, opts, out, err);
}

tolk_status tolk_scope_child(tolk_scope *parent, const tolk_scope_opts *opts, tolk_scope **out,
                             tolk_error *err) {
    if (!parent || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_scope_child: parent or out is NULL");
    tk_realize_here(parent->device->ctx);
    TK_TRY(tk_device_check(parent->device, err));
    return create(parent->device, parent, opts, out, err);
}

/* ---- what it has ---- */

tolk_device *tolk_scope_device(const tolk_scope *scope) {
    return scope ? scope->device : NULL;
}

const tolk_scope *tolk_scope_parent(const tolk_scope *scope) {
    return scope ? scope->parent : NULL;
}

const tolk_compile_opts *tolk_scope_compile_opts(const tolk_scope *scope) {
    return scope ? &scope->compile : NULL;
}

int tolk_scope_merge_node(const tolk_scope *scope, uint64_t *node) {
    if (!scope || !scope->has_merge)
        return 0;
    if (node)
        *node = scope->merge_node;
    return 1;
}

tolk_status tolk_scope_bind(tolk_scope *scope, uint64_t node, tolk_buffer *buffer,
                            tolk_error *err) {
    if (!scope || !buffer)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_scope_bind: scope or buffer is NULL");
    tk_realize_here(scope->device->ctx);
    tolk_device *of = tk_buffer_device(buffer);
    if (of != scope->device)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "node %llu: the buffer is on device %.60s, the scope on %.60s",
                              (unsigned long long)node, tolk_device_name(of),
                              tolk_device_name(scope->device));
    pthread_mutex_lock(lock_of(scope));
    tolk_status st = scope->finalized                   ? TOLK_E_FREED
                     : tk_map_find(&scope->place, node) ? TOLK_E_BUSY
                     : push(scope, node, buffer)        ? TOLK_OK
                                                        : TOLK_E_NOMEM;
    pthread_mutex_unlock(lock_of(scope));
    if (st == TOLK_E_FREED)
        return tk_status_fail(err, st, TK_NO_NODE, "node %llu: the scope was finalized",
                              (unsigned long long)node);
    if (st == TOLK_E_BUSY)
        return tk_status_fail(err, st, TK_NO_NODE, "node %llu has a buffer already",
                              (unsigned long long)node);
    return st == TOLK_OK ? st : tk_status_nomem(err);
}

static tolk_buffer *find(const tolk_scope *scope, uint64_t node, bool take) {
    if (!scope)
        return NULL;
    tk_realize_here(scope->device->ctx);
    pthread_mutex_lock(lock_of(scope));
    const uint64_t *place = tk_map_find(&scope->place, node);
    tolk_buffer *buffer = place ? scope->list.at[*place].buffer : NULL;
    if (take)
        tolk_buffer_ref(buffer);
    pthread_mutex_unlock(lock_of(scope));
    return buffer;
}

tolk_buffer *tolk_scope_find(const tolk_scope *scope, uint64_t node) {
    return find(scope, node, false);
}

tolk_buffer *tk_scope_take(const tolk_scope *scope, uint64_t node) {
    return find(scope, node, true);
}

size_t tolk_scope_count(const tolk_scope *scope) {
    if (!scope)
        return 0;
    tk_realize_here(scope->device->ctx);
    pthread_mutex_lock(lock_of(scope));
    size_t n = scope->list.n;
    pthread_mutex_unlock(lock_of(scope));
    return n;
}

tolk_status tolk_scope_finalize(tolk_scope *scope, tolk_error *err) {
    if (!scope)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_scope_finalize: scope is NULL");
    tk_realize_here(scope->device->ctx);
    if (atomic_exchange(&scope->finalizing, true))
        return TOLK_OK;
    /* Of a device that is gone nothing runs any more. */
    if (tk_device_check(scope->device, NULL) == TOLK_OK) {
        tolk_status st = tolk_device_await(scope->device, err);
        if (st != TOLK_OK) { /* it may be tried again */
            atomic_store(&scope->finalizing, false);
            return st;
        }
    }
    pthread_mutex_lock(lock_of(scope));
    scope->finalized = true;
    size_t from = scope->n_inherited, to = scope->list.n;
    for (size_t i = from; i < to; i++)
        tk_map_remove(&scope->place, scope->list.at[i].node);
    scope->list.n = from;
    pthread_mutex_unlock(lock_of(scope));
    for (size_t i = from; i < to; i++) /* nobody adds to the list any more */
        tolk_buffer_unref(scope->list.at[i].buffer);
    return TOLK_OK;
}
