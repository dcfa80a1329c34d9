/* SPDX-License-Identifier: MIT
 *
 * Which block a kernel over groups of any size runs fastest with: each one that divides its sizes
 * is tried. Nothing that is tried touches the caller's buffers where it writes: those are copied
 * first, and a buffer that stands for two arguments stays one.
 */
#include "base/phases.h"
#include "base/status.h"
#include "realize/args.h"
#include "realize/copy.h"
#include "realize/kernel.h"
#include "realize/realize.h"

#include <string.h>

enum {
    MOST_THREADS = 1024, /* of a block */
    MOST_SIZES = 11,     /* 1, 2, 4 ... 1024 */
    MOST_TRIES = 2 * MOST_SIZES * MOST_SIZES * MOST_SIZES,
};
/* So much less time makes another block the better one: less is chance. */
#define BETTER 0.9

/* A block in one word: three times 16 bits; 0: none. */
static uint64_t pack(tolk_dims d) {
    return (uint64_t)d.x | (uint64_t)d.y << 16 | (uint64_t)d.z << 32;
}
static tolk_dims unpack(uint64_t word) {
    return tolk_dims3d((int64_t)(word & 0xffff), (int64_t)(word >> 16 & 0xffff),
                       (int64_t)(word >> 32 & 0xffff));
}

/* ---- what there is to try ---- */

/* Sizes of idx0, idx1, idx2; 1 where there is none. */
static tolk_status read_sizes(const tolk_kernel *k, int64_t size[3], tolk_error *err) {
    const tk_kernel_dims *d = &k->dims;
    bool any = false;
    for (int i = 0; i < 3; i++)
        any = any || d->flat[i] >= 0;
    if (!k->program || !any)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "tolk_optimize_local_size: kernel %.60s has no block to choose: "
                              "expected specials idx0 .. idx2",
                              k->name);
    if (!tk_expr_is_constant(d->steps, d->n_steps))
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "tolk_optimize_local_size: a size of kernel %.60s is no constant",
                              k->name);
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(d->steps, d->n_steps, NULL, values, NULL);
    for (int i = 0; i < 3; i++) {
        size[i] = d->flat[i] >= 0 ? values[d->flat[i]] : 1;
        if (size[i] < 1)
            return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                  "tolk_optimize_local_size: the size of idx%d of kernel %.60s is "
                                  "%lld",
                                  i, k->name, (long long)size[i]);
    }
    return TOLK_OK;
}

/* What divides it: powers of two, and itself. */
static size_t divisors(int64_t size, int64_t out[MOST_SIZES + 1]) {
    size_t n = 0;
    for (int64_t d = 1; d <= MOST_THREADS && d <= size; d *= 2)
        if (size % d == 0)
            out[n++] = d;
    if (size <= MOST_THREADS && (size & (size - 1)))
        out[n++] = size;
    return n;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* All blocks, each twice, in an order that the seed decides. */
static size_t list_blocks(const int64_t size[3], uint64_t seed, uint64_t out[MOST_TRIES]) {
    int64_t d[3][MOST_SIZES + 1];
    size_t n[3], all = 0;
    for (int i = 0; i < 3; i++)
        n[i] = divisors(size[i], d[i]);
    for (size_t x = 0; x < n[0]; x++)
        for (size_t y = 0; y < n[1]; y++)
            for (size_t z = 0; z < n[2]; z++)
                for (int twice = 0; twice < 2; twice++)
                    if (d[0][x] * d[1][y] * d[2][z] <= MOST_THREADS)
                        out[all++] = pack(tolk_dims3d(d[0][x], d[1][y], d[2][z]));
    for (size_t i = all; i > 1; i--) {
        size_t k = (size_t)(next_random(&seed) % i);
        uint64_t swap = out[i - 1];
        out[i - 1] = out[k];
        out[k] = swap;
    }
    return all;
}

/* ---- copies of what is written ---- */

static bool is_written(const tolk_kernel *k, uint32_t slot) {
    const tk_meta_param *p = k->program->meta.params;
    for (size_t i = 0; i < k->n_params; i++)
        if (p[i].slot == (int64_t)slot)
            return p[i].stored != 0;
    return true;
}

static bool is_same_memory(tolk_buffer *a, tolk_buffer *b) {
    tolk_buffer_info x, y;
    if (a == b)
        return true;
    if (tolk_buffer_get_info(a, &x) != TOLK_OK || tolk_buffer_get_info(b, &y) != TOLK_OK)
        return false;
    return (x.base ? x.base : a) == (y.base ? y.base : b) && x.offset == y.offset &&
           x.bytes == y.bytes;
}

static tolk_status fill_with_zeros(tolk_buffer *b, tolk_error *err) {
    tk_piece p;
    TK_TRY(tk_buffer_piece(b, "tolk_optimize_local_size", &p, err));
    tolk_status st = tk_copy_zero(tk_buffer_device(b), &p, err);
    tk_piece_drop(&p);
    return st;
}

/* A new buffer like b, with its contents where it has any. */
static tolk_status copy_of(tolk_buffer *b, tolk_buffer **out, tolk_error *err) {
    tolk_buffer_info info;
    tolk_buffer *made;
    tolk_buffer_opts opts = TOLK_BUFFER_OPTS_INIT;
    TK_TRY(tolk_buffer_get_info(b, &info));
    opts.elem_bytes = info.dtype == TOLK_VOID ? info.elem_bytes : 0;
    opts.label = "local size";
    TK_TRY(tolk_buffer_create(info.device, info.dtype, info.n, &opts, &made, err));
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status st = tolk_buffer_copy(made, b, &own);
    if (st == TOLK_E_UNBOUND) /* never used: there is nothing in it */
        st = fill_with_zeros(made, err);
    else if (st != TOLK_OK && err)
        *err = own;
    if (st != TOLK_OK)
        tolk_buffer_unref(made);
    else
        *out = made;
    return st;
}

/* The arguments to try with. */
static tolk_status fill_scratch(const tolk_kernel *k, const tolk_args *args, tolk_args *to,
                                tolk_error *err) {
    for (size_t i = 0; i < args->list.n; i++)
        if (!tk_vec_push(&to->list, args->list.at[i]))
            return tk_status_nomem(err);
        else if (args->list.at[i].buffer)
            (void)tolk_buffer_ref(args->list.at[i].buffer);
    for (size_t i = 0; i < args->list.n; i++) {
        const tk_arg *arg = &args->list.at[i];
        tolk_buffer *copy;
        if (!arg->buffer || !is_written(k, arg->slot) || to->list.at[i].buffer != arg->buffer)
            continue;
        TK_TRY(copy_of(arg->buffer, &copy, err));
        for (size_t j = 0; j < args->list.n; j++) {
            tolk_buffer *other = args->list.at[j].buffer;
            if (!other || to->list.at[j].buffer != other || !is_same_memory(other, arg->buffer))
                continue;
            tolk_buffer_unref(other);
            to->list.at[j].buffer = tolk_buffer_ref(copy);
        }
        tolk_buffer_unref(copy);
    }
    return TOLK_OK;
}

/* ---- trying ---- */

/* One launch with a block. *seconds: below 0 where the kernel cannot be launched with it. */
static tolk_status try_block(tolk_kernel *k, const tolk_args *args, const int64_t size[3],
                             tolk_dims block, double *seconds, tolk_error *err) {
    tolk_dims grid = tolk_dims3d(size[0] / block.x, size[1] / block.y, size[2] / block.z);
    uint64_t begin = tk_phases_now_ns();
    tolk_status st = tolk_kernel_run(k, args, &grid, &block, 0, err);
    *seconds = -1;
    if (st == TOLK_E_LAUNCH || st == TOLK_E_LIMIT)
        return TOLK_OK;
    TK_TRY(st);
    TK_TRY(tolk_device_await(k->device, err));
    *seconds = 1e-9 * (double)(tk_phases_now_ns() - begin);
    return TOLK_OK;
}

static tolk_status search(tolk_kernel *k, const tolk_args *args, const int64_t size[3],
                          uint64_t seed, uint64_t *tries, uint64_t *best, tolk_error *err) {
    size_t n = list_blocks(size, seed, tries);
    double least = -1, seconds;
    tolk_error why = TOLK_ERROR_INIT;
    err = err ? err : &why;
    /* The first launch takes longer, whatever its block is. */
    TK_TRY(tolk_device_await(k->device, err));
    TK_TRY(try_block(k, args, size, unpack(tries[0]), &seconds, err));
    for (size_t i = 0; i < n; i++) {
        TK_TRY(try_block(k, args, size, unpack(tries[i]), &seconds, err));
        if (seconds >= 0 && (least < 0 || seconds < BETTER * least)) {
            least = seconds;
            *best = tries[i];
        }
    }
    if (least < 0) {
        why = *err;
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "tolk_optimize_local_size: kernel %.60s runs with no block: %.150s",
                              k->name, why.msg);
    }
    return TOLK_OK;
}

static tolk_status optimize(tolk_kernel *k, const tolk_args *args, const int64_t size[3],
                            uint64_t seed, uint64_t *best, tolk_error *err) {
    const tolk_allocator *al = &k->device->ctx->al;
    tolk_args *scratch;
    TK_TRY(tolk_args_create(k->device->ctx, &scratch, err));
    uint64_t *tries = tk_alloc(al, MOST_TRIES * sizeof *tries);
    tolk_status st = tries ? fill_scratch(k, args, scratch, err) : tk_status_nomem(err);
    if (st == TOLK_OK)
        st = search(k, scratch, size, seed, tries, best, err);
    tk_alloc_free(al, tries, MOST_TRIES * sizeof *tries);
    tolk_args_destroy(scratch);
    return st;
}

tolk_status tolk_optimize_local_size(tolk_kernel *kernel, const tolk_args *args, uint64_t seed,
                                     tolk_dims *local, tolk_error *err) {
    if (!kernel || !args || !local)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_optimize_local_size: kernel, args or local is NULL");
    int64_t size[3];
    tk_realize_here(kernel->device->ctx);
    TK_TRY(tk_device_check(kernel->device, err));
    TK_TRY(read_sizes(kernel, size, err));
    uint64_t best = atomic_load_explicit(&kernel->block, memory_order_relaxed), none = 0;
    if (!best) {
        TK_TRY(optimize(kernel, args, size, seed, &best, err));
        /* Of threads that searched at the same time one decides. */
        if (!atomic_compare_exchange_strong(&kernel->block, &none, best))
            best = none;
    }
    *local = unpack(best);
    return TOLK_OK;
}
