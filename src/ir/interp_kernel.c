/* SPDX-License-Identifier: MIT
 *
 * Kernels, on demand: a node is computed when something needs it and kept until a range that it
 * depends on moves. So a load or an effect happens once for each combination of its ranges, as
 * docs/ir.md says. What is in the middle of being done is a stack of frames in memory; END and
 * REDUCE are the frames that move ranges.
 *
 * A range may be looped over while an outer loop over the same node is open (a row maximum inside
 * the sum over the row): what depends on it is then put aside, and comes back when the inner loop
 * ends.
 */
#include "ir/dtype.h"
#include "ir/interp_plan.h"
#include "ir/scalar.h"

typedef enum phase { PHASE_OPEN, PHASE_BODY, PHASE_NEXT } phase;

/* f16, bf16 and fp8 sums and products are folded in f32 and rounded once, at the end. */
static tolk_dtype fold_dtype(const tk_interp_node *k) {
    bool narrow = tk_dtype_is_narrow_float(k->dt);
    return narrow && tk_uop_int(k->u, TK_A_REDUCE_OP) != TK_ROP_MAX ? TOLK_F32 : k->dt;
}

static tolk_status push(tk_interp *in, tk_interp_item *it, uint32_t node) {
    tk_interp_frame f = {.node = node};
    const tk_interp_node *k = tk_interp_node_at(in, node);
    if (k->op == TK_OP_REDUCE)
        f.acc = tk_scalar_identity((tk_rop)tk_uop_int(k->u, TK_A_REDUCE_OP), fold_dtype(k));
    return tk_vec_push(&it->stack, f) ? TOLK_OK : tk_status_nomem(in->err);
}

/* ---- ranges ---- */

/* Value of range r in its loop. */
static uint64_t *range_value(const tk_interp *in, const tk_interp_item *it, uint32_t r) {
    return &it->val[in->plan.nodes.at[in->plan.range_node.at[r]].val];
}

/* Range r has the value v now: what depends on it is to be done again. */
static void move_range(tk_interp *in, tk_interp_item *it, uint32_t r, int64_t v) {
    const tk_interp_plan *plan = &in->plan;
    *range_value(in, it, r) = (uint64_t)v;
    for (uint32_t i = plan->dep_first.at[r]; i < plan->dep_first.at[r + 1]; i++)
        it->state[plan->dependent.at[i]] = 0;
}

static bool put_aside(tk_interp *in, tk_interp_item *it, uint32_t r) {
    const tk_interp_plan *plan = &in->plan;
    bool ok = tk_vec_push(&it->spill, *range_value(in, it, r)) &&
              tk_vec_push(&it->spill, (uint64_t)it->limit[r]);
    for (uint32_t i = plan->dep_first.at[r]; ok && i < plan->dep_first.at[r + 1]; i++) {
        const tk_interp_node *k = &plan->nodes.at[plan->dependent.at[i]];
        ok = tk_vec_push(&it->spill, it->state[plan->dependent.at[i]]);
        for (uint32_t w = 0; ok && w < k->width; w++)
            ok = tk_vec_push(&it->spill, it->val[k->val + w]);
    }
    return ok;
}

static void bring_back(tk_interp *in, tk_interp_item *it, uint32_t r) {
    const tk_interp_plan *plan = &in->plan;
    for (uint32_t i = plan->dep_first.at[r + 1]; i-- > plan->dep_first.at[r];) {
        const tk_interp_node *k = &plan->nodes.at[plan->dependent.at[i]];
        for (uint32_t w = k->width; w-- > 0;)
            it->val[k->val + w] = tk_vec_pop(&it->spill);
        it->state[plan->dependent.at[i]] = (uint8_t)tk_vec_pop(&it->spill);
    }
    it->limit[r] = (int64_t)tk_vec_pop(&it->spill);
    *range_value(in, it, r) = tk_vec_pop(&it->spill);
}

/* ---- reductions ---- */

/* Is k the fold over lanes that adds halves? n: size of its range. */
static bool folds_halves(const tk_interp_node *k, int64_t n) {
    return k->op == TK_OP_REDUCE && k->u->n_src == 2 && (n & (n - 1)) == 0 &&
           tk_uop_int(k->u->src[1], TK_A_RANGE_KIND) == TK_AXIS_LANE;
}

static uint64_t fold(const tk_interp *in, const tk_interp_node *k, uint64_t a, uint64_t b) {
    tk_op op = tk_op_of_rop((tk_rop)tk_uop_int(k->u, TK_A_REDUCE_OP));
    return tk_scalar_alu(op, fold_dtype(k), a, b, 0, in->fma);
}

/* The value of this iteration joins the accumulator, or the lanes that are folded later. */
static tolk_status take_value(tk_interp *in, tk_interp_item *it, tk_interp_frame *f,
                              const tk_interp_node *k, uint32_t body) {
    uint64_t v = tk_scalar_cast(k->dt, fold_dtype(k), it->val[tk_interp_node_at(in, body)->val]);
    if (f->halves)
        return tk_vec_push(&it->spill, v) ? TOLK_OK : tk_status_nomem(in->err);
    f->acc = fold(in, k, f->acc, v);
    return TOLK_OK;
}

static void fold_lanes(tk_interp *in, tk_interp_item *it, tk_interp_frame *f,
                       const tk_interp_node *k) {
    uint64_t *v = it->spill.at + f->lanes;
    for (size_t n = (it->spill.n - f->lanes) / 2; n > 0; n /= 2)
        for (size_t i = 0; i < n; i++)
            v[i] = fold(in, k, v[i], v[i + n]);
    f->acc = v[0];
    it->spill.n = f->lanes;
}

/* ---- loops ---- */

static uint32_t loop_range(const tk_interp *in, const tk_interp_node *k, uint32_t level) {
    return tk_interp_node_at(in, tk_interp_src(in, k, level + 1))->range;
}

/* Open the loop of the frame's level, or go on to the body if all are open. */
static tolk_status open_loop(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    tk_interp_frame *f = &tk_vec_last(&it->stack);
    if (f->level + 1 == k->u->n_src) {
        f->phase = PHASE_BODY;
        if (k->op == TK_OP_END) /* repeats its effects, even those that depend on no range */
            for (uint32_t i = 0; i < k->n_need; i++)
                it->state[in->plan.need.at[k->need + i]] = 0;
        return TOLK_OK;
    }
    uint32_t r = loop_range(in, k, f->level);
    uint32_t range_node = in->plan.range_node.at[r];
    uint32_t size_node = tk_interp_src(in, tk_interp_node_at(in, range_node), 0);
    if (!it->state[size_node])
        return push(in, it, size_node);
    int64_t size = (int64_t)it->val[tk_interp_node_at(in, size_node)->val];
    if (size <= 0) {
        f->phase = PHASE_NEXT;
        return TOLK_OK;
    }
    if (it->active[r] && !put_aside(in, it, r))
        return tk_status_nomem(in->err);
    f->halves = folds_halves(k, size);
    f->lanes = it->spill.n;
    it->active[r]++;
    it->limit[r] = size;
    it->state[range_node] = TK_INTERP_DONE;
    move_range(in, it, r, 0);
    f->level++;
    return TOLK_OK;
}

static void close_loop(tk_interp *in, tk_interp_item *it, tk_interp_frame *f,
                       const tk_interp_node *k) {
    uint32_t r = loop_range(in, k, --f->level);
    if (f->halves)
        fold_lanes(in, it, f, k);
    if (--it->active[r])
        bring_back(in, it, r);
    else
        it->state[in->plan.range_node.at[r]] = 0;
}

/* The next iteration of the innermost loop that has one, or the end of the node. */
static void next_iteration(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    tk_interp_frame *f = &tk_vec_last(&it->stack);
    while (f->level) {
        uint32_t r = loop_range(in, k, f->level - 1);
        int64_t v = (int64_t)*range_value(in, it, r) + 1;
        if (v < it->limit[r]) {
            move_range(in, it, r, v);
            f->phase = PHASE_OPEN;
            return;
        }
        close_loop(in, it, f, k);
    }
    if (k->op == TK_OP_REDUCE)
        it->val[k->val] = tk_scalar_cast(fold_dtype(k), k->dt, f->acc);
    it->state[f->node] = TK_INTERP_DONE;
    (void)tk_vec_pop(&it->stack);
}

static tolk_status step_loop(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    tk_interp_frame *f = &tk_vec_last(&it->stack);
    uint32_t body = tk_interp_src(in, k, 0);
    switch ((phase)f->phase) {
    case PHASE_OPEN:
        return open_loop(in, it, k);
    case PHASE_BODY:
        if (!it->state[body])
            return push(in, it, body);
        if (k->op == TK_OP_REDUCE)
            TK_TRY(take_value(in, it, f, k, body));
        if (k->u->n_src > 1) {
            f->phase = PHASE_NEXT;
            return TOLK_OK;
        }
        break;
    case PHASE_NEXT:
        break;
    }
    next_iteration(in, it, k);
    return TOLK_OK;
}

/* ---- all nodes ---- */

/* Do what the top frame's node needs, or the node itself. */
static tolk_status step_node(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    tk_interp_frame *f = &tk_vec_last(&it->stack);
    const uint32_t *need = in->plan.need.at + k->need;
    for (; f->pos < k->n_need; f->pos++)
        if (!it->state[need[f->pos]])
            return push(in, it, need[f->pos]);
    if (k->op == TK_OP_RANGE)
        return tk_status_fail(in->err, TOLK_E_VERIFY, TK_NO_NODE,
                              "kernel \"%.60s\": a range is used outside of its loop",
                              tolk_kernel_name(tk_interp_node_at(in, in->plan.root)->u));
    if (tk_interp_meets(k) && in->n_items > 1) {
        if (!it->granted) {
            it->wait = f->node;
            it->waiting = true;
            return TOLK_OK;
        }
        it->granted = false;
        it->state[f->node] = TK_INTERP_DONE;
    } else if (k->op == TK_OP_WMMA) {
        TK_TRY(tk_interp_wmma(in, it, 1, f->node));
        it->state[f->node] = TK_INTERP_DONE;
    } else {
        tk_interp_eval(in, it, f->node);
    }
    (void)tk_vec_pop(&it->stack);
    return TOLK_OK;
}

tolk_status tk_interp_kernel_step(tk_interp *in, tk_interp_item *it) {
    if (it->stack.n == 0 && !it->state[in->plan.root])
        TK_TRY(push(in, it, in->plan.root));
    while (it->stack.n && !it->waiting) {
        const tk_interp_node *k = tk_interp_node_at(in, tk_vec_last(&it->stack).node);
        bool loops = k->op == TK_OP_REDUCE || k->op == TK_OP_END;
        TK_TRY(loops ? step_loop(in, it, k) : step_node(in, it, k));
    }
    it->done = it->stack.n == 0;
    return TOLK_OK;
}
