/* SPDX-License-Identifier: MIT
 *
 * A launch by way of a queue: arguments are matched with params and checked when it is submitted,
 * so that no caller's mistake stops the queue; what is needed later is copied and referenced. A
 * small launch on an idle queue runs on the calling thread, and takes no memory for that.
 */
#include "base/status.h"
#include "realize/args.h"
#include "realize/buffer.h"
#include "realize/counters.h"
#include "realize/kernel.h"
#include "realize/realize.h"

#include <stdio.h>
#include <string.h>

/* ---- what a launch holds ---- */

enum { FEW = 12 };

typedef tk_kernel_bound bound;

/* On the stack of a launch with few arguments. */
typedef struct few {
    void *bufs[FEW];
    size_t bytes[FEW];
    tk_piece pieces[FEW];
    tk_use uses[FEW];
    int64_t vals[FEW];
} few;

/* Room behind b for the arguments of a kernel. */
static tolk_status bound_alloc(bound *b, const tolk_allocator *al, tolk_error *err) {
    size_t n_bufs = b->n_bufs, n_vals = b->n_vals;
    /* Numbers of params: their products fit. */
    b->memory_bytes =
        n_bufs * (sizeof *b->pieces + sizeof *b->uses + sizeof *b->bufs + sizeof *b->bytes) +
        n_vals * sizeof *b->vals;
    if (!b->memory_bytes)
        return TOLK_OK;
    b->memory = tk_alloc(al, b->memory_bytes);
    if (!b->memory)
        return tk_status_nomem(err);
    b->pieces = b->memory;
    b->uses = (tk_use *)(void *)(b->pieces + n_bufs);
    b->bufs = (void **)(void *)(b->uses + n_bufs);
    b->bytes = (size_t *)(void *)(b->bufs + n_bufs);
    b->vals = (int64_t *)(void *)(b->bytes + n_bufs);
    return TOLK_OK;
}

static tolk_status bound_init(bound *b, few *f, size_t n_bufs, size_t n_vals,
                              const tolk_allocator *al, tolk_error *err) {
    *b = (bound){.n_bufs = n_bufs, .n_vals = n_vals};
    if (n_bufs > FEW || n_vals > FEW)
        return bound_alloc(b, al, err);
    b->bufs = f->bufs;
    b->bytes = f->bytes;
    b->pieces = f->pieces;
    b->uses = f->uses;
    b->vals = f->vals;
    return TOLK_OK;
}

static void bound_drop(bound *b) {
    for (size_t i = 0; i < b->held; i++)
        tk_piece_drop(&b->pieces[i]);
    b->held = b->n_uses = 0;
}

static void bound_fini(bound *b, const tolk_allocator *al) {
    bound_drop(b);
    tk_alloc_free(al, b->memory, b->memory_bytes);
}

/* ---- matching arguments and params ---- */

/* ", 3" behind the numbers in text; "..." where there is no room. */
static void list_slot(char *text, size_t size, long long slot) {
    size_t at = strlen(text);
    if (at + 28 < size)
        snprintf(text + at, size - at, "%s%lld", at ? ", " : "", slot);
    else if (at + 5 < size && text[at - 1] != '.')
        snprintf(text + at, size - at, ", ...");
}

/* "kernel scale: missing: 2, 5; unexpected: 7; expected 6 arguments, got 5" */
static tolk_status wrong_slots(const tolk_kernel *k, const tolk_args *args, tolk_error *err) {
    const tk_meta_param *p = k->program->meta.params;
    char missing[80] = "", unexpected[80] = "";
    size_t n = tolk_args_count(args);
    for (size_t i = 0, a = 0; i < k->n_params || a < n;) {
        bool param = i < k->n_params, arg = a < n;
        int64_t slot = param ? p[i].slot : 0, given = arg ? args->list.at[a].slot : 0;
        bool needed = param && k->param[i].axis < 0;
        if (param && arg && slot == given) {
            if (!needed)
                list_slot(unexpected, sizeof unexpected, given);
            i++;
            a++;
        } else if (param && (!arg || slot < given)) {
            if (needed)
                list_slot(missing, sizeof missing, slot);
            i++;
        } else {
            list_slot(unexpected, sizeof unexpected, given);
            a++;
        }
    }
    return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                          "kernel %.60s: %s%s%s%s%s%sexpected %zu argument%s, got %zu", k->name,
                          *missing ? "missing: " : "", missing, *missing ? "; " : "",
                          *unexpected ? "unexpected: " : "", unexpected, *unexpected ? "; " : "",
                          k->n_args, k->n_args == 1 ? "" : "s", n);
}

/* Smallest and largest value that an integer argument may have for a param of that dtype. */
static void limits_of(tolk_dtype dtype, int64_t *lo, int64_t *hi) {
    unsigned bits = (unsigned)tolk_dtype_bytes(dtype) * 8;
    *lo = 0;
    *hi = 1;
    if (dtype == TOLK_BOOL)
        return;
    if (tolk_dtype_is_unsigned(dtype)) {
        *hi = bits == 64 ? INT64_MAX : (int64_t)((UINT64_C(1) << bits) - 1);
        return;
    }
    *lo = bits == 64 || dtype == TOLK_INDEX ? INT64_MIN : -(int64_t)(UINT64_C(1) << (bits - 1));
    *hi = -(*lo + 1);
}

static tolk_status match_scalar(const tolk_kernel *k, size_t i, const tk_arg *arg, int64_t *out,
                                tolk_error *err) {
    tolk_dtype want = (tolk_dtype)k->program->meta.params[i].dtype;
    bool is_float = tolk_dtype_is_float(want);
    if (arg->buffer)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "%s: expected a scalar %s, got a "
                              "buffer",
                              k->param[i].what, tolk_dtype_name(want));
    bool same = arg->dtype == want, counts = !tolk_dtype_is_float(arg->dtype) && !is_float;
    bool wide = want == TOLK_I64 || want == TOLK_U64;
    if (!same && (!counts || (arg->dtype == TOLK_I32 && wide)))
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE, "%s: expected a scalar %s, got %s",
                              k->param[i].what, tolk_dtype_name(want), tolk_dtype_name(arg->dtype));
    if (!is_float) {
        int64_t lo, hi;
        limits_of(want, &lo, &hi);
        if (arg->value < lo || arg->value > hi)
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE, "%s: %lld does not fit %s",
                                  k->param[i].what, (long long)arg->value, tolk_dtype_name(want));
    }
    *out = arg->value;
    return TOLK_OK;
}

/* "f32", or "elements of 12 bytes". */
static const char *type_of(const tk_piece *p, char buf[48]) {
    if (p->dtype != TOLK_VOID)
        return tolk_dtype_name(p->dtype);
    snprintf(buf, 48, "elements of %zu bytes", p->elem_bytes);
    return buf;
}

static tolk_status wrong_device(const tolk_kernel *k, const char *who, tolk_buffer *buffer,
                                tolk_error *err) {
    return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                          "%s: the buffer is on device %.40s, the kernel on %.40s", who,
                          tolk_device_name(tk_buffer_device(buffer)), tolk_device_name(k->device));
}

/* Take the buffer of param i, the next of the bound ones. */
static tolk_status take_buffer(const tolk_kernel *k, size_t i, tolk_buffer *buffer, bound *b,
                               tolk_error *err) {
    const tk_meta_param *m = &k->program->meta.params[i];
    tolk_dtype want = (tolk_dtype)m->dtype;
    char type[48];
    if (tk_buffer_device(buffer) != k->device)
        return wrong_device(k, k->param[i].what, buffer, err);
    tk_piece *p = &b->pieces[b->held];
    /* Where it only reads, there must be something. */
    TK_TRY((m->loaded && !m->stored ? tk_buffer_piece_bound
                                    : tk_buffer_piece)(buffer, k->param[i].what, p, err));
    b->bufs[b->held] = p->at;
    b->bytes[b->held] = p->bytes;
    b->held++;
    if (p->dtype == TOLK_VOID ? p->elem_bytes != tolk_dtype_bytes(want) : p->dtype != want)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "%s: expected a buffer of %s, got one of %s", k->param[i].what,
                              tolk_dtype_name(want), type_of(p, type));
    if (p->bytes && (m->loaded || m->stored))
        b->uses[b->n_uses++] = (tk_use){p->memory, p->offset, p->offset + p->bytes, m->stored != 0};
    return TOLK_OK;
}

static tolk_status match_buffer(const tolk_kernel *k, size_t i, const tk_arg *arg, bound *b,
                                tolk_error *err) {
    if (!arg->buffer)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                              "%s: expected a buffer of %s, got a "
                              "scalar %s",
                              k->param[i].what,
                              tolk_dtype_name((tolk_dtype)k->program->meta.params[i].dtype),
                              tolk_dtype_name(arg->dtype));
    return take_buffer(k, i, arg->buffer, b, err);
}

/* The value of a param that grid or block gives. */
static tolk_status take_dim(const tolk_kernel *k, size_t i, bool given,
                            const int64_t dim[TK_KERNEL_AXES], int64_t *out, tolk_error *err) {
    const tk_meta_param *m = &k->program->meta.params[i];
    int axis = k->param[i].axis;
    if (!given && !tk_params_within((tolk_dtype)m->dtype, m->min, m->max, dim[axis]))
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "kernel %.60s: %s is NULL, but its param \"%s\" needs %s, from %lld "
                              "to %lld",
                              k->name, axis < 3 ? "grid" : "block",
                              k->program->meta.strings + m->name, tk_kernel_dims_name(axis),
                              (long long)m->min, (long long)m->max);
    *out = dim[axis];
    return TOLK_OK;
}

/* Match all. On failure, too, b holds what it has got. */
static tolk_status match(const tolk_kernel *k, const tolk_args *args, bool has_grid, bool has_block,
                         const int64_t dim[TK_KERNEL_AXES], bound *b, tolk_error *err) {
    const tk_meta_view *meta = &k->program->meta;
    size_t n = tolk_args_count(args), a = 0, v = 0;
    for (size_t i = 0; i < k->n_params; i++)
        if (k->param[i].axis < 0 && (a == n || args->list.at[a++].slot != meta->params[i].slot))
            return wrong_slots(k, args, err);
    if (a != n)
        return wrong_slots(k, args, err);
    a = 0;
    for (size_t i = 0; i < k->n_params; i++) {
        const tk_meta_param *m = &meta->params[i];
        int axis = k->param[i].axis;
        if (axis >= 0)
            TK_TRY(take_dim(k, i, axis < 3 ? has_grid : has_block, dim, &b->vals[v++], err));
        else if (m->is_scalar)
            TK_TRY(match_scalar(k, i, &args->list.at[a++], &b->vals[v++], err));
        else
            TK_TRY(match_buffer(k, i, &args->list.at[a++], b, err));
    }
    return TOLK_OK;
}

/* ---- on the queue ---- */

/* A launch that waits in a queue, in the room of its command. Behind it: pieces, bufs, vals. */
typedef struct waiting {
    tolk_kernel *kernel;
    tk_launch launch;
    size_t n_pieces;
    tk_piece *pieces;
} waiting;

static tolk_status run_waiting(void *arg, tolk_error *err) {
    waiting *w = arg;
    return tk_launch_run(w->kernel->program, &w->launch, err);
}

size_t tk_kernel_waiting_bytes(size_t n_bufs, size_t n_vals) {
    return sizeof(waiting) + n_bufs * (sizeof(tk_piece) + sizeof(void *)) +
           n_vals * sizeof(int64_t);
}

static void release_waiting(void *arg) {
    waiting *w = arg;
    tolk_kernel *k = w->kernel;
    for (size_t i = 0; i < w->n_pieces; i++)
        tk_piece_drop(&w->pieces[i]);
    tolk_kernel_unref(k);
}

/* Submit it. What b holds becomes the command's. */
static tolk_status submit(tolk_kernel *k, bound *b, const tk_launch *launch, tolk_error *err) {
    tolk_ctx *ctx = k->device->ctx;
    tk_queue *q = tk_device_state_of(k->device)->queue;
    waiting *w = tk_queue_room(q, tk_kernel_waiting_bytes(b->n_bufs, b->n_vals));
    if (!w)
        return tk_status_nomem(err);
    *w = (waiting){.kernel = k, .launch = *launch, .n_pieces = b->held};
    w->pieces = (tk_piece *)(void *)(w + 1);
    void **bufs = (void **)(void *)(w->pieces + b->n_bufs);
    int64_t *vals = (int64_t *)(void *)(bufs + b->n_bufs);
    for (size_t i = 0; i < b->n_bufs; i++) {
        w->pieces[i] = b->pieces[i];
        bufs[i] = b->bufs[i];
    }
    for (size_t i = 0; i < b->n_vals; i++)
        vals[i] = b->vals[i];
    w->launch.bufs = bufs;
    w->launch.vals = vals;
    tk_command c = {.run = run_waiting, .release = release_waiting, .room = w, .label = k->name};
    tolk_kernel_ref(k);
    tolk_status st = tk_memory_submit(ctx, b->uses, b->n_uses, q, &c, NULL, err);
    if (st == TOLK_OK) {
        b->held = 0;
        return tk_queue_ran(q, err);
    }
    tk_queue_drop_room(q, w);
    tolk_kernel_unref(k);
    return st;
}

/* Run it here if the queue is idle and it is small, or the caller waits for it anyway: *ran. */
static tolk_status run_here(tolk_kernel *k, const bound *b, tk_launch *launch, bool awaited,
                            bool *ran, tolk_error *err) {
    const tk_backend *backend = k->device->backend;
    tk_queue *q = tk_device_state_of(k->device)->queue;
    *ran = (awaited || (backend->is_small && backend->is_small(k->device, launch))) &&
           tk_memory_enter(k->device->ctx, b->uses, b->n_uses, q);
    if (!*ran)
        return TOLK_OK;
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status st = tk_launch_run(k->program, launch, &own);
    /* Without memory nothing was run: the caller knows, and the queue is as it was. */
    tk_queue_leave(q, st == TOLK_E_NOMEM ? TOLK_OK : st, &own, k->name);
    if (st != TOLK_OK && err)
        *err = own;
    return st;
}

/* Hand it over. What b holds is given up, or the command's. */
static tolk_status go(tolk_kernel *k, bound *b, bool awaited, tolk_error *err) {
    bool ran = false;
    tolk_status st = run_here(k, b, &b->launch, awaited, &ran, err);
    if (st == TOLK_OK && !ran)
        st = submit(k, b, &b->launch, err);
    bound_drop(b);
    if (st == TOLK_OK)
        tk_counters_add(k->device->ctx, TK_COUNT_LAUNCHES, 1);
    return st;
}

static tolk_status run_program(tolk_kernel *k, const tolk_args *args, bool has_grid, bool has_block,
                               const int64_t dim[TK_KERNEL_AXES], size_t shared_bytes,
                               tolk_error *err) {
    const tolk_allocator *al = &k->device->ctx->al;
    const tk_meta *h = k->program->meta.head;
    few f;
    bound b;
    TK_TRY(bound_init(&b, &f, h->n_bufs, h->n_vals, al, err));
    tolk_status st = match(k, args, has_grid, has_block, dim, &b, err);
    if (st == TOLK_OK)
        st = tk_kernel_dims_check(k, has_grid, has_block, dim, b.vals, err);
    if (st == TOLK_OK)
        st = tk_launch_prepare(k->program, b.bufs, b.bytes, b.n_bufs, b.vals, b.n_vals,
                               shared_bytes, &b.launch, err);
    if (st == TOLK_OK)
        st = go(k, &b, false, err);
    bound_fini(&b, al);
    return st;
}

/* ---- the same in two steps ---- */

tolk_status tk_kernel_bound_init(tk_kernel_bound *b, const tolk_kernel *k, tolk_error *err) {
    const tk_meta *h = k->program->meta.head;
    *b = (tk_kernel_bound){.n_bufs = h->n_bufs, .n_vals = h->n_vals};
    return bound_alloc(b, &k->device->ctx->al, err);
}

void tk_kernel_bound_fini(tk_kernel_bound *b, const tolk_allocator *al) {
    bound_fini(b, al);
    *b = (tk_kernel_bound){0};
}

tolk_status tk_kernel_bind(const tolk_kernel *k, tolk_buffer *const *bufs, tk_kernel_bound *b,
                           tolk_error *err) {
    tolk_status st = tk_device_check(k->device, err);
    for (size_t i = 0; i < k->n_params && st == TOLK_OK; i++)
        if (!k->program->meta.params[i].is_scalar)
            st = take_buffer(k, i, bufs[b->held], b, err);
    if (st == TOLK_OK)
        st = tk_launch_prepare(k->program, b->bufs, b->bytes, b->n_bufs, b->vals, b->n_vals, 0,
                               &b->launch, err);
    if (st != TOLK_OK)
        bound_drop(b);
    return st;
}

tolk_status tk_kernel_go(tolk_kernel *k, tk_kernel_bound *b, bool awaited, tolk_error *err) {
    return go(k, b, awaited, err);
}

void tk_kernel_unbind(tk_kernel_bound *b) {
    bound_drop(b);
}

/* ---- functions that stand for kernels ---- */

/* A call that waits in a queue, in the room of its command. Behind it: n pieces and arguments. */
typedef struct call {
    tolk_kernel *kernel;
    tolk_dims grid, block;
    size_t shared_bytes, n, n_pieces;
    tk_piece *pieces; /* of the buffers among the arguments */
    tolk_native_arg *args;
} call;

static tolk_status run_call(void *arg, tolk_error *err) {
    const call *c = arg;
    return c->kernel->fn(c->kernel->user, c->args, c->n, c->grid, c->block, c->shared_bytes, err);
}

static void release_call(void *arg) {
    call *c = arg;
    for (size_t i = 0; i < c->n_pieces; i++)
        tk_piece_drop(&c->pieces[i]);
    tolk_kernel_unref(c->kernel);
}

/* It may do anything with its buffers: uses, at most c->n of them. */
static tolk_status fill_call(call *c, const tolk_args *args, tk_use *uses, size_t *n_uses,
                             tolk_error *err) {
    for (size_t i = 0; i < c->n; i++) {
        const tk_arg *arg = &args->list.at[i];
        c->args[i] = (tolk_native_arg){.slot = arg->slot, .dtype = arg->dtype, .value = arg->value};
        if (!arg->buffer)
            continue;
        char who[116];
        snprintf(who, sizeof who, "kernel %.60s: argument %u", c->kernel->name, arg->slot);
        if (tk_buffer_device(arg->buffer) != c->kernel->device)
            return wrong_device(c->kernel, who, arg->buffer, err);
        tk_piece *p = &c->pieces[c->n_pieces];
        TK_TRY(tk_buffer_piece(arg->buffer, who, p, err));
        c->n_pieces++;
        if (p->bytes)
            uses[(*n_uses)++] = (tk_use){p->memory, p->offset, p->offset + p->bytes, true};
        c->args[i].dtype = p->dtype;
        c->args[i].data = p->at;
        c->args[i].bytes = p->bytes;
    }
    return TOLK_OK;
}

static tolk_status run_function(tolk_kernel *k, const tolk_args *args,
                                const int64_t dim[TK_KERNEL_AXES], size_t shared_bytes,
                                tolk_error *err) {
    tolk_ctx *ctx = k->device->ctx;
    tk_queue *q = tk_device_state_of(k->device)->queue;
    size_t n = tolk_args_count(args), n_uses = 0;
    size_t bytes = sizeof(call) + n * (sizeof(tk_piece) + sizeof(tolk_native_arg));
    /* Not in the call, which is given back when it is over: before tk_memory_submit returns. */
    tk_use few_uses[FEW], *uses = few_uses;
    if (n > FEW)
        uses = tk_alloc(&ctx->al, n * sizeof *uses);
    call *c = uses ? tk_queue_room(q, bytes) : NULL;
    if (!c) {
        if (uses != few_uses)
            tk_alloc_free(&ctx->al, uses, n * sizeof *uses);
        return tk_status_nomem(err);
    }
    *c = (call){.kernel = tolk_kernel_ref(k),
                .grid = {dim[0], dim[1], dim[2]},
                .block = {dim[3], dim[4], dim[5]},
                .shared_bytes = shared_bytes,
                .n = n};
    c->pieces = (tk_piece *)(void *)(c + 1);
    c->args = (tolk_native_arg *)(void *)(c->pieces + n);
    tk_command command = {.run = run_call, .release = release_call, .room = c, .label = k->name};
    tolk_status st = fill_call(c, args, uses, &n_uses, err);
    if (st == TOLK_OK)
        st = tk_memory_submit(ctx, uses, n_uses, q, &command, NULL, err);
    if (st != TOLK_OK) {
        release_call(c);
        tk_queue_drop_room(q, c);
    } else {
        tk_counters_add(ctx, TK_COUNT_LAUNCHES, 1);
    }
    if (uses != few_uses)
        tk_alloc_free(&ctx->al, uses, n * sizeof *uses);
    return st;
}

tolk_status tolk_kernel_run(tolk_kernel *kernel, const tolk_args *args, const tolk_dims *grid,
                            const tolk_dims *block, size_t shared_bytes, tolk_error *err) {
    if (!kernel)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_kernel_run: kernel is NULL");
    tk_realize_here(kernel->device->ctx);
    TK_TRY(tk_device_check(kernel->device, err));
    int64_t dim[TK_KERNEL_AXES];
    TK_TRY(tk_kernel_dims_read(kernel, grid, block, dim, err));
    if (!kernel->program)
        return run_function(kernel, args, dim, shared_bytes, err);
    return run_program(kernel, args, grid != NULL, block != NULL, dim, shared_bytes, err);
}
