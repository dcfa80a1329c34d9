/* SPDX-License-Identifier: MIT
 *
 * Grid and block of a launch, and what a kernel makes of them. Sizes of specials are compiled to a
 * list of steps once, with the kernel, and compared at each launch that gives a grid or block.
 */
#include "base/status.h"
#include "ir/check.h"
#include "ir/walk.h"
#include "realize/kernel.h"

#include <string.h>

static const char *const axes[TK_KERNEL_AXES] = {"grid.x",  "grid.y",  "grid.z",
                                                 "block.x", "block.y", "block.z"};
static const char *const specials[TK_KERNEL_AXES] = {"gidx0", "gidx1", "gidx2",
                                                     "lidx0", "lidx1", "lidx2"};

int tk_kernel_dims_axis(const char *name) {
    static const char *const params[TK_KERNEL_AXES] = {"_grid_x",  "_grid_y",  "_grid_z",
                                                       "_block_x", "_block_y", "_block_z"};
    for (int i = 0; name && i < TK_KERNEL_AXES; i++)
        if (strcmp(params[i], name) == 0)
            return i;
    return -1;
}

const char *tk_kernel_dims_name(int axis) {
    return axes[axis];
}

/* ---- with the kernel ---- */

/* Where the value number of a special's size is kept; NULL: it is no size. */
static int32_t *place_of(tk_kernel_dims *d, const tolk_uop *u) {
    int axis = 0;
    switch (tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &axis)) {
    case TK_SPECIAL_GIDX:
        return &d->size[axis];
    case TK_SPECIAL_LIDX:
        return &d->size[3 + axis];
    case TK_SPECIAL_IDX:
        return &d->flat[axis];
    default:
        return NULL;
    }
}

static tolk_status collect(tk_kernel_dims *d, const tk_walk_list *nodes, const tk_params *params,
                           tk_map *done, tk_expr_steps *steps, tolk_error *err) {
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        int32_t *place = tk_uop_is(u, TK_OP_SPECIAL) ? place_of(d, u) : NULL;
        uint16_t value;
        if (!place || *place >= 0)
            continue;
        TK_TRY(tk_expr_compile(u->src[0], params, done, steps, &value, err));
        *place = value;
        d->any = true;
    }
    return TOLK_OK;
}

tolk_status tk_kernel_dims_init(tk_kernel_dims *d, const tolk_uop *sink, tolk_error *err) {
    const tolk_allocator *al = sink->graph->al;
    tk_walk_list nodes;
    tk_params params;
    tk_map done;
    tk_expr_steps steps;
    memset(d, 0, sizeof *d);
    memset(d->size, -1, sizeof d->size);
    memset(d->flat, -1, sizeof d->flat);
    TK_TRY(tk_params_init(&params, sink, al, err));
    tk_vec_init(&nodes, al);
    tk_vec_init(&steps, al);
    tk_map_init(&done, al);
    tolk_status st = tk_walk(sink, &nodes) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
    if (st == TOLK_OK)
        st = collect(d, &nodes, &params, &done, &steps, err);
    for (size_t i = 0; i < params.list.n; i++) {
        const tk_param *p = &params.list.at[i];
        int axis =
            p->is_scalar && !tolk_dtype_is_float(p->dtype) ? tk_kernel_dims_axis(p->name) : -1;
        if (axis >= 0)
            d->any = d->given[axis] = true;
    }
    if (st == TOLK_OK && steps.n) {
        d->steps = tk_alloc(al, steps.n * sizeof *d->steps);
        d->n_steps = d->steps ? steps.n : 0;
        if (d->steps)
            memcpy(d->steps, steps.at, steps.n * sizeof *d->steps);
        else
            st = tk_status_nomem(err);
    }
    tk_map_fini(&done);
    tk_vec_fini(&steps);
    tk_vec_fini(&nodes);
    tk_params_fini(&params);
    return st;
}

void tk_kernel_dims_fini(tk_kernel_dims *d, const tolk_allocator *al) {
    if (d->steps)
        tk_alloc_free(al, d->steps, d->n_steps * sizeof *d->steps);
}

/* ---- with a launch ---- */

tolk_status tk_kernel_dims_read(const tolk_kernel *k, const tolk_dims *grid, const tolk_dims *block,
                                int64_t dim[TK_KERNEL_AXES], tolk_error *err) {
    static const tolk_dims one = {1, 1, 1};
    const tolk_dims *g = grid ? grid : &one, *b = block ? block : &one;
    const int64_t given[TK_KERNEL_AXES] = {g->x, g->y, g->z, b->x, b->y, b->z};
    for (int i = 0; i < TK_KERNEL_AXES; i++) {
        if (given[i] < 1)
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "kernel %.60s: %s is %lld, expected 1 or more", k->name, axes[i],
                                  (long long)given[i]);
        dim[i] = given[i];
    }
    if (k->program && !k->dims.any && (grid || block))
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "kernel %.60s has no specials and no params _grid_x .. _block_z: "
                              "expected NULL as %s",
                              k->name, grid ? "grid" : "block");
    return TOLK_OK;
}

static tolk_status differs(const tolk_kernel *k, const char *what, int64_t got, const char *special,
                           int64_t want, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                          "kernel %.60s: %s is %lld, but the size of its %s is %lld", k->name, what,
                          (long long)got, special, (long long)want);
}

tolk_status tk_kernel_dims_check(const tolk_kernel *k, bool has_grid, bool has_block,
                                 const int64_t dim[TK_KERNEL_AXES], const int64_t *vals,
                                 tolk_error *err) {
    static const char *const flat[3] = {"idx0", "idx1", "idx2"};
    static const char *const both[3] = {"grid.x * block.x", "grid.y * block.y", "grid.z * block.z"};
    const tk_kernel_dims *d = &k->dims;
    int64_t values[TK_EXPR_MAX_STEPS];
    if (!d->any || (!has_grid && !has_block))
        return TOLK_OK;
    tk_expr_eval(d->steps, d->n_steps, vals, values, NULL);
    for (int i = 0; i < TK_KERNEL_AXES; i++) {
        int f = i % 3;
        if (!(i < 3 ? has_grid : has_block))
            continue;
        if (d->flat[f] >= 0) {
            int64_t threads;
            if (__builtin_mul_overflow(dim[f], dim[3 + f], &threads))
                threads = INT64_MAX;
            if (threads != values[d->flat[f]])
                return differs(k, both[f], threads, flat[f], values[d->flat[f]], err);
        } else if (d->size[i] >= 0) {
            if (dim[i] != values[d->size[i]])
                return differs(k, axes[i], dim[i], specials[i], values[d->size[i]], err);
        } else if (!d->given[i] && dim[i] != 1) {
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "kernel %.60s: %s is %lld, expected 1: it has no %s", k->name,
                                  axes[i], (long long)dim[i], specials[i]);
        }
    }
    return TOLK_OK;
}
