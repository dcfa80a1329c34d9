/* SPDX-License-Identifier: MIT
 *
 * Which loop options a kernel gets on a CPU when the caller names none:
 *   1. lanes on the output axis along which stores and loads move by one element;
 *   2. lanes and several accumulators on reduction axes along which loads move by one element,
 *      where no lane axis is in the way;
 *   3. a register tile for reductions whose operands are shared between output elements;
 *   4. a few vectors at once for short elementwise bodies;
 *   5. pieces for long reductions to few outputs, so that several threads can share them.
 */
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "jit/affine.h"
#include "jit/opt.h"

#include <string.h>

/* A reduction of this many elements to fewer outputs than FEW_OUTPUTS is cut into pieces. */
enum { LONG_REDUCE = 1 << 18, FEW_OUTPUTS = 16 };

typedef struct chooser {
    const tolk_uop *root;
    uint32_t vec_bytes;
    bool strict;
    tk_opts *out;
    tolk_error *err;
    tolk_status status;
} chooser;

/* What is known about one range. */
typedef struct facts {
    bool store_axis, reduce_axis; /* closed by END / REDUCE */
    bool unit_stores;             /* every store that depends on it moves by 1 */
    bool good_loads;              /* every load that depends on it moves by 1 */
    bool any_load, any_store;
    uint32_t elem_bytes; /* widest element computed along it */
    uint32_t n_ops, n_math;
} facts;

static bool is_global_access(const tolk_uop *u) {
    return (tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE)) &&
           tk_kview_is_global(tk_access_buffer(u->src[0]));
}

static facts look(const tk_kview *v, const tolk_uop *range, const tk_step *steps) {
    facts f = {.unit_stores = true, .good_loads = true};
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        for (uint32_t i = tk_kview_closes(u); i < u->n_src; i++)
            if (u->src[i] == range) {
                f.store_axis |= tk_uop_is(u, TK_OP_END);
                f.reduce_axis |= tk_uop_is(u, TK_OP_REDUCE);
            }
        if (!tk_kview_depends(v, u, range))
            continue;
        if (tk_op_is_alu(tk_uop_op(u)) && tk_dtype_scalar(u->dtype) != TOLK_INDEX) {
            f.n_ops++;
            f.n_math += tk_mathfn_is(tk_uop_op(u));
        }
        tolk_dtype dt = tk_uop_is(u, TK_OP_STORE) ? u->src[1]->dtype : u->dtype;
        bool counts =
            tk_dtype_scalar(dt) != TOLK_INDEX && tk_dtype_scalar(dt) != TOLK_BOOL &&
            (tk_op_is_alu(tk_uop_op(u)) || tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE));
        uint32_t bytes = (uint32_t)tolk_dtype_bytes(dt);
        if (tk_dtype_is_narrow_float(dt) && tk_op_is_alu(tk_uop_op(u)))
            bytes = 4; /* narrow floats are computed in f32 */
        if (counts && bytes > f.elem_bytes)
            f.elem_bytes = bytes;
        if (!is_global_access(u))
            continue;
        tk_step s = tk_affine_place(steps, u->src[0]);
        bool unit = s.kind == TK_STEP_CONST && s.elems == 1;
        bool depends = tk_kview_depends(v, u->src[0], range);
        if (tk_uop_is(u, TK_OP_STORE)) {
            f.any_store = true;
            f.unit_stores &= unit;
        } else if (depends) {
            f.any_load = true;
            f.good_loads &= unit;
        }
    }
    if (!f.elem_bytes)
        f.elem_bytes = 1;
    return f;
}

/* Most iterations a range can have, by its constant size; symbolic ones count as long. */
static int64_t length(const tolk_uop *range) {
    const tolk_uop *size = range->src[0];
    return tk_uop_is_const(size) ? size->attr[0].i : INT32_MAX;
}

static uint32_t lanes_for(const chooser *c, const tolk_uop *range, uint32_t elem_bytes) {
    uint32_t w = c->vec_bytes / elem_bytes;
    while (w > 1 && (int64_t)w / 2 >= length(range))
        w /= 2;
    return w > TOLK_MAX_LANES ? TOLK_MAX_LANES : w;
}

/* Number of range among the axes of v, or -1: it is none, or (c->status) something failed. */
static int axis_of(chooser *c, const tk_kview *v, const tolk_uop *range) {
    tk_uops axes;
    tk_vec_init(&axes, v->al);
    int found = -1;
    c->status = tk_opt_axes(v, &axes, c->err);
    if (c->status == TOLK_OK)
        for (size_t i = 0; i < axes.n; i++)
            if (axes.at[i] == range)
                found = (int)i;
    tk_vec_fini(&axes);
    return found;
}

/* The same in the kernel as it is now. */
static int axis_now(chooser *c, const tolk_uop *range) {
    tk_kview now;
    if (!tk_kview_init(&now, c->root)) {
        c->status = tk_status_nomem(c->err);
        return -1;
    }
    bool there = range->id < now.n_ids && now.reached[range->id];
    int axis = there ? axis_of(c, &now, range) : -1;
    tk_kview_fini(&now);
    return axis;
}

/* Apply one option; false if it was refused (then nothing changed) or something failed. */
static bool choose(chooser *c, tk_opt_kind kind, int axis, int64_t arg) {
    if (c->status != TOLK_OK || axis < 0 || arg < 2)
        return false;
    tk_opt opt = {kind, (uint32_t)axis, arg};
    tolk_error err;
    tolk_status st = tk_opt_apply(&c->root, &opt, c->strict, &err);
    if (st == TOLK_E_ARG)
        return false;
    if (st == TOLK_OK && !tk_vec_push(c->out, opt))
        st = tk_status_nomem(&err);
    if (st != TOLK_OK) {
        c->status = st;
        if (c->err)
            *c->err = err;
    }
    return st == TOLK_OK;
}

/* The outer part that is left of a range after it was split once more: the same axis and the same
 * sub with a 0 behind it. NULL if there is none. */
static const tolk_uop *outer_part(const tk_kview *v, int64_t axis, const int64_t *sub, size_t n) {
    for (size_t i = 0; i < v->ranges.n; i++) {
        const tolk_uop *r = v->ranges.at[i];
        const tk_blob *s = tk_uop_attr(r, TK_A_RANGE_SUB).blob;
        if (tk_uop_int(r, TK_A_RANGE_AXIS) == axis && s && s->n == n + 1 && s->ints[n] == 0 &&
            (n == 0 || memcmp(s->ints, sub, n * sizeof *sub) == 0))
            return r;
    }
    return NULL;
}

/* Split the outer part of `range`, which was split before, again. */
static bool choose_outer(chooser *c, const tolk_uop *range, tk_opt_kind kind, int64_t arg,
                         int64_t least) {
    const tk_blob *s = tk_uop_attr(range, TK_A_RANGE_SUB).blob;
    tk_kview v;
    if (c->status != TOLK_OK)
        return false;
    if (!tk_kview_init(&v, c->root)) {
        c->status = tk_status_nomem(c->err);
        return false;
    }
    const tolk_uop *outer =
        outer_part(&v, tk_uop_int(range, TK_A_RANGE_AXIS), s ? s->ints : NULL, s ? s->n : 0);
    int axis = outer && length(outer) >= least ? axis_of(c, &v, outer) : -1;
    tk_kview_fini(&v);
    return choose(c, kind, axis, arg);
}

/* Does some load inside a reduction that depends on `range` through other loads not depend on it
 * itself, so that a tile of range would share it? */
static bool shares_operands(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_REDUCE) || !tk_kview_depends(v, u, range))
            continue;
        const tolk_uop *x = u->src[0];
        while (tk_uop_is(x, TK_OP_CAST) || tk_uop_is(x, TK_OP_REDUCE))
            x = x->src[0];
        if (!tk_uop_is(x, TK_OP_MUL))
            continue;
        if (tk_kview_depends(v, x->src[0], range) != tk_kview_depends(v, x->src[1], range))
            return true;
    }
    return false;
}

/* Most results that all stores make together. */
static int64_t outputs(const tk_kview *v, const facts *f) {
    int64_t n = 1;
    for (size_t i = 0; i < v->ranges.n && n < INT32_MAX; i++)
        if (f[i].store_axis)
            n *= length(v->ranges.at[i]);
    return n;
}

/* Number of pieces of a long reduction: fixed by its length alone, so that results never depend on
 * the number of threads. 0: not worth it. */
static int64_t pieces_for(const tolk_uop *range) {
    int64_t n = length(range);
    if (!tk_uop_is_const(range->src[0]) || n < LONG_REDUCE)
        return 0;
    for (int64_t p = 64; p > 16; p--)
        if (n % p == 0 && n / p % 128 == 0)
            return p;
    return 32;
}

/* What GROUPTOP left of a reduce range inside of one piece: the same axis, sub with a 1 behind. */
static const tolk_uop *group_rest(chooser *c, const tolk_uop *range, int *axis) {
    tk_kview v;
    const tk_blob *old = tk_uop_attr(range, TK_A_RANGE_SUB).blob;
    size_t n = old ? old->n : 0;
    const tolk_uop *rest = NULL;
    if (!tk_kview_init(&v, c->root)) {
        c->status = tk_status_nomem(c->err);
        return NULL;
    }
    for (size_t i = 0; i < v.ranges.n; i++) {
        const tolk_uop *r = v.ranges.at[i];
        const tk_blob *s = tk_uop_attr(r, TK_A_RANGE_SUB).blob;
        if (tk_uop_int(r, TK_A_RANGE_AXIS) == tk_uop_int(range, TK_A_RANGE_AXIS) && s &&
            s->n == n + 1 && s->ints[n] == 1 && tk_kview_axis(r) == TK_AXIS_REDUCE &&
            (n == 0 || memcmp(s->ints, old->ints, n * sizeof *s->ints) == 0))
            rest = r;
    }
    *axis = rest ? axis_of(c, &v, rest) : -1;
    tk_kview_fini(&v);
    return rest;
}

static const tolk_uop *pick_lane_axis(const tk_kview *v, const facts *f) {
    const tolk_uop *best = NULL;
    for (size_t i = 0; i < v->ranges.n; i++) {
        const tolk_uop *r = v->ranges.at[i];
        if (!f[i].store_axis || f[i].reduce_axis || !f[i].any_store || !f[i].unit_stores ||
            length(r) < 2)
            continue;
        if (!best || (f[i].good_loads && !f[tk_kview_no(v, best)].good_loads))
            best = r;
    }
    return best;
}

static void choose_all(chooser *c, const tk_kview *v, const facts *f) {
    const tolk_uop *lane = pick_lane_axis(v, f);
    bool reduces = false, unit_reduce = false;
    for (size_t i = 0; i < v->ranges.n; i++) {
        reduces |= f[i].reduce_axis;
        unit_reduce |= f[i].reduce_axis && f[i].good_loads && f[i].any_load && !c->strict &&
                       length(v->ranges.at[i]) >= 8 && lane && !f[tk_kview_no(v, lane)].good_loads;
    }
    /* Rows summed along memory: lanes belong on the reduction, not on the far strided output. */
    if (lane && unit_reduce)
        lane = NULL;
    if (lane) {
        const facts *lf = &f[tk_kview_no(v, lane)];
        uint32_t w = lanes_for(c, lane, lf->elem_bytes);
        if (!choose(c, TK_OPT_LANE, axis_of(c, v, lane), w))
            lane = NULL;
        else if (!reduces)
            choose_outer(c, lane, TK_OPT_UPCAST, lf->n_math || lf->n_ops > 24 ? 2 : 4, 8);
    }
    for (size_t i = 0; i < v->ranges.n && c->status == TOLK_OK; i++) {
        const tolk_uop *r = v->ranges.at[i];
        if (!f[i].reduce_axis || f[i].store_axis)
            continue;
        int axis = axis_now(c, r);
        if (outputs(v, f) < FEW_OUTPUTS && choose(c, TK_OPT_GROUPTOP, axis, pieces_for(r)) &&
            !(r = group_rest(c, r, &axis)))
            return;
        if (!f[i].good_loads || !f[i].any_load || length(r) < 4)
            continue;
        uint32_t w = lanes_for(c, r, f[i].elem_bytes);
        if (choose(c, TK_OPT_LANE, axis, w))
            choose_outer(c, r, TK_OPT_UNROLL,
                         length(r) >= (int64_t)w * 64  ? 8
                         : length(r) >= (int64_t)w * 8 ? 4
                                                       : 0,
                         2);
    }
    if (!lane || !reduces)
        return;
    for (size_t i = 0; i < v->ranges.n && c->status == TOLK_OK; i++) {
        const tolk_uop *r = v->ranges.at[i];
        if (r == lane || !f[i].store_axis || f[i].reduce_axis || !shares_operands(v, r))
            continue;
        int axis = axis_now(c, r);
        int64_t rows = c->vec_bytes == 64 ? 8 : 4;
        while (rows > 2 && length(r) < rows)
            rows /= 2;
        if (length(r) >= rows && choose(c, TK_OPT_UPCAST, axis, rows)) {
            choose_outer(c, lane, TK_OPT_UPCAST, 2, 2);
            break;
        }
    }
}

tolk_status tk_opt_heuristic(const tolk_uop *root, uint32_t vec_bytes, bool strict, tk_opts *out,
                             const tolk_uop **result, tolk_error *err) {
    chooser c = {root, vec_bytes, strict, out, err, TOLK_OK};
    tk_kview v;
    if (!tk_kview_init(&v, root))
        return tk_status_nomem(err);
    facts *f = tk_alloc_zero(v.al, (v.ranges.n + 1) * sizeof *f);
    tk_step *steps = tk_alloc(v.al, v.n_ids * sizeof *steps);
    if (!f || !steps) {
        c.status = tk_status_nomem(err);
    } else {
        for (size_t i = 0; i < v.ranges.n; i++) {
            tk_affine_steps(&v, v.ranges.at[i], steps);
            f[i] = look(&v, v.ranges.at[i], steps);
        }
        choose_all(&c, &v, f);
    }
    tk_alloc_free(v.al, f, (v.ranges.n + 1) * sizeof *f);
    tk_alloc_free(v.al, steps, v.n_ids * sizeof *steps);
    tk_kview_fini(&v);
    if (c.status == TOLK_OK)
        *result = c.root;
    return c.status;
}
