/* SPDX-License-Identifier: MIT
 *
 * Kernels of devices: from a source text through the kernel cache to a compiled program, functions
 * that stand for kernels, and clearing caches.
 */
#include "realize/kernel.h"

#include "base/env.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "jit/cache.h"
#include "realize/realize.h"
#include "realize/schedule_cache.h"

#include <stdio.h>
#include <string.h>

/* ---- kernels ---- */

static void free_kernel(tolk_kernel *k) {
    const tolk_allocator *al = &k->device->ctx->al;
    tolk_program_unref(k->program);
    tk_kernel_dims_fini(&k->dims, al);
    if (k->param)
        tk_alloc_free(al, k->param, k->n_params * sizeof *k->param);
    tk_strbuf_text_free(al, k->name);
    tk_alloc_free(al, k, sizeof *k);
}

tolk_kernel *tolk_kernel_ref(tolk_kernel *kernel) {
    if (kernel)
        atomic_fetch_add_explicit(&kernel->refs, 1, memory_order_relaxed);
    return kernel;
}

void tolk_kernel_unref(tolk_kernel *kernel) {
    if (kernel && atomic_fetch_sub_explicit(&kernel->refs, 1, memory_order_acq_rel) == 1)
        free_kernel(kernel);
}

tolk_device *tolk_kernel_device(const tolk_kernel *kernel) {
    return kernel ? kernel->device : NULL;
}

const char *tolk_kernel_get_name(const tolk_kernel *kernel) {
    return kernel ? kernel->name : "";
}

static void *ref_value(void *value) {
    return tolk_kernel_ref(value);
}

static tolk_status destroy_value(void *value, tolk_error *err) {
    (void)err;
    tolk_kernel_unref(value);
    return TOLK_OK;
}

const tk_guarded_cache_ops tk_kernel_cache_ops = {ref_value, destroy_value};

static char *copy_text(const tolk_allocator *al, const char *text) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, al);
    tk_strbuf_str(&sb, text);
    return tk_strbuf_take(&sb, NULL);
}

static tolk_status create_kernel(tolk_device *device, const char *name, tolk_kernel **out,
                                 tolk_error *err) {
    const tolk_allocator *al = &device->ctx->al;
    tolk_kernel *k = tk_alloc_zero(al, sizeof *k);
    char *copy = copy_text(al, name);
    if (!k || !copy) {
        tk_alloc_free(al, k, sizeof *k);
        tk_strbuf_text_free(al, copy);
        return tk_status_nomem(err);
    }
    atomic_init(&k->refs, 1);
    k->device = device;
    k->name = copy;
    *out = k;
    return TOLK_OK;
}

/* ---- functions that stand for kernels ---- */

typedef struct native {
    char *name;
    tolk_native_fn fn;
    void *user;
    uint64_t number; /* of the registration: part of the kernel's key */
} native;

struct tk_natives {
    TK_VEC(native) list;
    uint64_t last;
};

tolk_status tk_natives_create(tolk_ctx *ctx, struct tk_natives **out, tolk_error *err) {
    struct tk_natives *n = tk_alloc_zero(&ctx->al, sizeof *n);
    if (!n)
        return tk_status_nomem(err);
    tk_vec_init(&n->list, &ctx->al);
    *out = n;
    return TOLK_OK;
}

void tk_natives_destroy(tolk_ctx *ctx, struct tk_natives *natives) {
    if (!natives)
        return;
    for (size_t i = 0; i < natives->list.n; i++)
        tk_strbuf_text_free(&ctx->al, natives->list.at[i].name);
    tk_vec_fini(&natives->list);
    tk_alloc_free(&ctx->al, natives, sizeof *natives);
}

/* What names a kernel in the cache. Beside the source only the environment says something about the
 * code; the rest are the defaults. number: of the registration of a function, whose source is "".
 */
static tk_guarded_cache_key key_of(tolk_ctx *ctx, uint64_t uid, const char *name,
                                   const char *source, uint64_t number) {
    const char *target = number ? NULL : tk_env_get(ctx, "TOLK_CPU");
    const char *tier = number ? NULL : tk_env_get(ctx, "TOLK_TIER");
    char id[24], registered[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)uid);
    snprintf(registered, sizeof registered, "%llu", (unsigned long long)number);
    const char *const options[][2] = {
        {"target", target ? target : ""}, {"tier", tier ? tier : ""}, {"registered", registered}};
    return tk_guarded_cache_key_make(id, name, source, options, sizeof options / sizeof *options);
}

/* Kernels of a registration that nobody can ask for any more leave the cache. */
static void drop_kernels(tk_realize *r, const char *name, uint64_t number) {
    pthread_mutex_lock(&r->lock);
    uint64_t last = r->last_uid;
    pthread_mutex_unlock(&r->lock);
    for (uint64_t uid = 1; number && uid <= last; uid++) {
        tk_guarded_cache_key key = key_of(r->ctx, uid, name, "", number);
        (void)tk_guarded_cache_drop(r->kernels, &key, NULL);
    }
}

/* Under the lock of names. */
static native *find_native(struct tk_natives *n, const char *name) {
    for (size_t i = 0; i < n->list.n; i++)
        if (strcmp(n->list.at[i].name, name) == 0)
            return &n->list.at[i];
    return NULL;
}

tolk_status tolk_kernel_register(tolk_ctx *ctx, const char *name, tolk_native_fn fn, void *user,
                                 tolk_error *err) {
    if (!ctx || !name || !*name)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_kernel_register: ctx is NULL, or there is no name");
    tk_realize_here(ctx);
    tk_realize *r = tk_realize_of(ctx);
    char *copy = fn ? copy_text(&ctx->al, name) : NULL;
    if (fn && !copy)
        return tk_status_nomem(err);
    tolk_status st = TOLK_OK;
    pthread_mutex_lock(&r->names);
    struct tk_natives *n = r->natives;
    native *old = find_native(n, name);
    uint64_t gone = old ? old->number : 0;
    if (old && fn) {
        old->fn = fn;
        old->user = user;
        old->number = ++n->last;
    } else if (old) {
        copy = old->name;
        *old = tk_vec_last(&n->list);
        n->list.n--;
    } else if (fn) {
        if (tk_vec_push(&n->list, ((native){copy, fn, user, ++n->last})))
            copy = NULL;
        else
            st = tk_status_nomem(err);
    }
    pthread_mutex_unlock(&r->names);
    tk_strbuf_text_free(&ctx->al, copy);
    drop_kernels(r, name, gone);
    return st;
}

/* ---- compiling ---- */

typedef struct build {
    tolk_device *device;
    const char *name, *source;
    tolk_native_fn fn; /* NULL: the source is compiled */
    void *user;
} build;

static tolk_status build_native(void *user, void **value, tolk_error *err) {
    const build *b = user;
    tolk_kernel *k;
    TK_TRY(create_kernel(b->device, b->name, &k, err));
    k->fn = b->fn;
    k->user = b->user;
    *value = k;
    return TOLK_OK;
}

/* What is the same for all launches. */
static tolk_status prepare(tolk_kernel *k, const tolk_uop *sink, tolk_error *err) {
    TK_TRY(tk_kernel_dims_init(&k->dims, sink, err));
    const tk_meta_view *m = &k->program->meta;
    size_t n = (size_t)m->head->n_bufs + m->head->n_vals;
    if (!n)
        return TOLK_OK;
    k->param = tk_alloc_zero(&k->device->ctx->al, n * sizeof *k->param);
    if (!k->param)
        return tk_status_nomem(err);
    k->n_params = n;
    for (size_t i = 0; i < n; i++) {
        const tk_meta_param *p = &m->params[i];
        bool counts = p->is_scalar && !tolk_dtype_is_float((tolk_dtype)p->dtype);
        k->param[i].axis =
            (int8_t)(counts && p->name ? tk_kernel_dims_axis(m->strings + p->name) : -1);
        const char *name = p->name ? m->strings + p->name : NULL;
        snprintf(k->param[i].what, sizeof k->param[i].what,
                 name ? "kernel %.60s: argument %lld (\"%.40s\")" : "kernel %.60s: argument %lld",
                 k->name, (long long)p->slot, name);
        k->n_args += k->param[i].axis < 0;
    }
    return TOLK_OK;
}

tolk_status tk_kernel_create(tolk_device *device, tolk_program *program, const tolk_uop *sink,
                             tolk_kernel **out, tolk_error *err) {
    tolk_kernel *k;
    TK_TRY(create_kernel(device, tolk_kernel_name(sink), &k, err));
    k->program = tolk_program_ref(program);
    tolk_status st = prepare(k, sink, err);
    if (st != TOLK_OK)
        free_kernel(k);
    else
        *out = k;
    return st;
}

static tolk_status no_such_kernel(const tolk_uop *root, const char *name, tolk_error *err) {
    char have[160] = "";
    size_t at = 0;
    bool one = !tk_uop_is(root, TK_OP_GROUP);
    uint32_t n = one ? 1 : root->n_src;
    if (one && !tk_uop_is(root, TK_OP_SINK) && !tk_uop_is(root, TK_OP_LINEAR))
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                              "no kernel \"%.60s\": the source is no kernel, but ends with %s",
                              name, tk_op_get(tk_uop_op(root))->name);
    for (uint32_t i = 0; i < n && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s\"%.40s\"", i ? ", " : "",
                               tolk_kernel_name(one ? root : root->src[i]));
    return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE,
                          "no kernel \"%.60s\" in the source: it has %s", name, have);
}

static tolk_status build_in(tolk_graph *g, const build *b, tolk_kernel **out, tolk_error *err) {
    const tolk_uop *root;
    TK_TRY(tolk_parse(g, b->source, strlen(b->source), 0, &root, err));
    const tolk_uop *sink = tolk_kernel_find(root, b->name);
    if (!sink)
        return no_such_kernel(root, b->name, err);
    if (sink != root) /* each of them, and that their names differ */
        TK_TRY(tolk_verify(root, TOLK_STAGE_KERNEL, err));
    tolk_program *program;
    TK_TRY(tolk_compile(b->device, sink, NULL, &program, err));
    tolk_kernel *k;
    tolk_status st = create_kernel(b->device, b->name, &k, err);
    if (st != TOLK_OK) {
        tolk_program_unref(program);
        return st;
    }
    k->program = program;
    st = prepare(k, sink, err);
    if (st != TOLK_OK)
        free_kernel(k);
    else
        *out = k;
    return st;
}

static tolk_status build_source(void *user, void **value, tolk_error *err) {
    const build *b = user;
    tolk_graph *g;
    tolk_kernel *k = NULL;
    if (tolk_graph_create(b->device->ctx, &g) != TOLK_OK)
        return tk_status_nomem(err);
    tolk_status st = build_in(g, b, &k, err);
    tolk_graph_destroy(g);
    *value = k;
    return st;
}

static bool is_cpu(const tolk_device *device) {
    return tolk_device_is_of_backend(device, "CPU") != 0;
}

tolk_status tolk_kernel_compile(tolk_device *device, const char *name, const char *source,
                                tolk_kernel **out, tolk_error *err) {
    if (!device || !name || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_kernel_compile: device, name or out is NULL");
    tolk_ctx *ctx = device->ctx;
    tk_realize_here(ctx);
    TK_TRY(tk_device_check(device, err));
    tk_realize *r = tk_realize_of(ctx);
    uint64_t uid = tk_device_state_of(device)->uid, number = 0;
    build b = {.device = device, .name = name, .source = source};
    if (is_cpu(device)) {
        pthread_mutex_lock(&r->names);
        const native *n = find_native(r->natives, name);
        if (n) {
            b.fn = n->fn;
            b.user = n->user;
            number = n->number;
        }
        pthread_mutex_unlock(&r->names);
    }
    if (!b.fn && !source)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_kernel_compile: source is NULL, and no function has the name "
                              "\"%.60s\"",
                              name);
    tk_guarded_cache_key key = key_of(ctx, uid, name, b.fn ? "" : source, number);
    void *value;
    TK_TRY(tk_guarded_cache_find_or_build(r->kernels, &key, uid, b.fn ? build_native : build_source,
                                          &b, &value, err));
    /* If the device ended before the build began, its eviction did not see this one. */
    tolk_status st = tk_device_check(device, err);
    if (st != TOLK_OK) {
        (void)tk_guarded_cache_drop(r->kernels, &key, NULL);
        tolk_kernel_unref(value);
        return st;
    }
    *out = value;
    return TOLK_OK;
}

tolk_status tolk_run(tolk_device *device, const char *name, const char *source,
                     const tolk_args *args, const tolk_dims *grid, const tolk_dims *block,
                     size_t shared_bytes, tolk_error *err) {
    tolk_kernel *k;
    TK_TRY(tolk_kernel_compile(device, name, source, &k, err));
    tolk_status st = tolk_kernel_run(k, args, grid, block, shared_bytes, err);
    tolk_kernel_unref(k);
    return st;
}

/* ---- caches ---- */

tolk_status tolk_kernel_cache_get_stats(tolk_ctx *ctx, tolk_kernel_cache_stats *out) {
    if (!ctx || !out)
        return TOLK_E_ARG;
    tk_realize_here(ctx);
    tolk_kernel_cache_stats s = {0, 0, 0, 0, 0};
    tk_guarded_cache_count(tk_realize_of(ctx)->kernels, &s.hits, &s.misses, &s.built, &s.destroyed);
    s.entries = s.built - s.destroyed;
    *out = s;
    return TOLK_OK;
}

tolk_status tolk_kernel_cache_clear(tolk_ctx *ctx, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_kernel_cache_clear: ctx is NULL");
    tk_realize_here(ctx);
    return tk_guarded_cache_clear(tk_realize_of(ctx)->kernels, err);
}

static tolk_status clear_all(void *user, tolk_error *err) {
    tolk_ctx *ctx = user;
    tolk_error own = TOLK_ERROR_INIT;
    tk_schedule_cache_clear(tk_realize_of(ctx)->schedules);
    tolk_status st = tk_guarded_cache_clear(tk_realize_of(ctx)->kernels, err);
    tolk_status binaries = tk_cache_clear(ctx, st == TOLK_OK ? err : &own);
    return st == TOLK_OK ? binaries : st;
}

tolk_status tolk_cache_clear(tolk_ctx *ctx, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_cache_clear: ctx is NULL");
    tk_realize_here(ctx);
    return tk_hooks_around_clear(tk_realize_of(ctx)->hooks, clear_all, ctx, err);
}

/* ---- hooks ---- */

tolk_status tolk_hook_add(tolk_ctx *ctx, tolk_hook_kind kind, tolk_hook_fn fn, void *user,
                          uint64_t *id, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_hook_add: ctx is NULL");
    tk_realize_here(ctx);
    return tk_hooks_add(tk_realize_of(ctx)->hooks, kind, fn, user, id, err);
}

tolk_status tolk_hook_remove(tolk_ctx *ctx, uint64_t id, tolk_error *err) {
    if (!ctx)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_hook_remove: ctx is NULL");
    tk_realize_here(ctx);
    return tk_hooks_remove(tk_realize_of(ctx)->hooks, id, err);
}
