/* SPDX-License-Identifier: MIT
 *
 * The plan: nodes numbered densely, widths of their values, what each needs, which loops set which
 * nodes back, which END belongs to which RANGE. It is also where a graph that cannot be run is
 * refused, so that the rest of the interpreter can rely on its tables.
 */
#include "ir/interp_plan.h"

#include "ir/before.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/walk.h"

#include <string.h>

enum { MAX_WIDTH = 1 << 20 }; /* elements of one matrix */

typedef struct builder {
    tk_interp *in;
    tk_interp_plan *plan;
    tk_walk_map number; /* node -> its dense number + 1 */
    tk_walk_ranges ranges;
} builder;

static tolk_status refuse(builder *b, tolk_status code, const tolk_uop *u, const char *what) {
    return tk_status_fail(b->in->err, code, TK_NO_NODE, "%s: %s", tk_op_get(tk_uop_op(u))->name,
                          what);
}

static uint32_t number_of(const builder *b, const tolk_uop *u) {
    return tk_walk_map_get(&b->number, u->id) - 1;
}

/* ---- buffers ---- */

static tolk_status shape_of(builder *b, tk_interp_buf *f) {
    tk_interp *in = b->in;
    const tk_interp_args *args = in->args;
    if (f->param) {
        f->rank = f->param->rank;
        return tk_params_shape(f->param, &in->params, args->vals, f->dim, &f->scalars, in->err);
    }
    size_t bytes = tolk_dtype_bytes(f->dt) * f->lanes;
    if (tk_uop_int(f->u, TK_A_BUFFER_DYNAMIC)) {
        if (args->dynamic_bytes > INT64_MAX)
            return refuse(b, TOLK_E_LIMIT, f->u, "its bytes do not fit 63 bits");
        f->rank = 1;
        f->dim[0] = (int64_t)(args->dynamic_bytes / bytes);
    } else if (f->u->n_src) {
        const tolk_uop *shape = f->u->src[0];
        bool stack = tk_uop_is(shape, TK_OP_STACK);
        f->rank = stack ? shape->n_src : 1;
        if (f->rank > TK_PARAMS_MAX_RANK)
            return refuse(b, TOLK_E_LIMIT, f->u, "too many dimensions");
        for (uint32_t i = 0; i < f->rank; i++)
            TK_TRY(tk_params_eval(stack ? shape->src[i] : shape, &in->params, args->vals,
                                  &f->dim[i], in->err));
    }
    int64_t n = f->lanes, total;
    for (uint32_t i = 0; i < f->rank; i++)
        if (f->dim[i] < 0)
            return refuse(b, TOLK_E_LAUNCH, f->u, "a dimension is negative");
        else if (!tk_check_mul(&n, f->dim[i]))
            return refuse(b, TOLK_E_LIMIT, f->u, "too large: its elements do not fit 63 bits");
    f->scalars = total = n;
    if (!tk_check_mul(&total, (int64_t)tolk_dtype_bytes(f->dt)))
        return refuse(b, TOLK_E_LIMIT, f->u, "too large: its bytes do not fit 63 bits");
    return TOLK_OK;
}

static tolk_status add_buffer(builder *b, const tolk_uop *u, int32_t *out) {
    tk_interp_plan *plan = b->plan;
    tk_interp_buf f = {.u = u, .dt = tk_dtype_scalar(u->dtype), .lanes = tk_uop_lanes(u)};
    size_t *total = NULL;
    if (tk_uop_is(u, TK_OP_PARAM)) {
        f.param = tk_params_find(&b->in->params, tk_uop_int(u, TK_A_PARAM_SLOT));
        f.memory = TK_INTERP_ARG;
        f.base = b->in->args->bufs[f.param->place];
    } else {
        int64_t space = tk_uop_int(u, TK_A_BUFFER_SPACE);
        f.memory = space == TK_SPACE_LOCAL ? TK_INTERP_LOCAL
                   : space == TK_SPACE_REG ? TK_INTERP_REG
                                           : TK_INTERP_RUN;
        total = space == TK_SPACE_LOCAL ? &plan->local_bytes
                : space == TK_SPACE_REG ? &plan->reg_bytes
                                        : &plan->run_bytes;
    }
    TK_TRY(shape_of(b, &f));
    if (total) {
        f.offset = *total;
        size_t bytes = (size_t)f.scalars * tolk_dtype_bytes(f.dt);
        if (!tk_add_size(*total, (bytes + 15) & ~(size_t)15, total))
            return refuse(b, TOLK_E_LIMIT, u, "too much scratch memory");
        if (total == &plan->local_bytes)
            plan->local_asked +=
                tk_uop_int(u, TK_A_BUFFER_DYNAMIC) ? b->in->args->dynamic_bytes : bytes;
    }
    *out = (int32_t)plan->bufs.n;
    return tk_vec_push(&plan->bufs, f) ? TOLK_OK : tk_status_nomem(b->in->err);
}

/* ---- nodes ---- */

static bool needs_all(tk_op op) {
    switch (op) {
    case TK_OP_CONST:
    case TK_OP_PARAM:
    case TK_OP_BUFFER:
    case TK_OP_SPECIAL:
    case TK_OP_RANGE:
    case TK_OP_REDUCE:
    case TK_OP_END:
    case TK_OP_AFTER:
        return false;
    default:
        return true;
    }
}

static bool is_run(tk_op op, bool is_program) {
    switch (op) {
    case TK_OP_CONST:
    case TK_OP_PARAM:
    case TK_OP_BUFFER:
    case TK_OP_SPECIAL:
    case TK_OP_RANGE:
    case TK_OP_STACK:
    case TK_OP_INDEX:
    case TK_OP_LOAD:
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
    case TK_OP_SHUFFLE:
    case TK_OP_WMMA:
    case TK_OP_AFTER:
    case TK_OP_BARRIER:
    case TK_OP_END:
        return true;
    case TK_OP_REDUCE:
    case TK_OP_GROUP:
    case TK_OP_SINK:
        return !is_program;
    case TK_OP_IF:
    case TK_OP_ENDIF:
    case TK_OP_LINEAR:
        return is_program;
    default:
        return tk_op_is_alu(op);
    }
}

static tolk_status want_sources(builder *b, const tolk_uop *u, uint32_t least) {
    return u->n_src < least ? refuse(b, TOLK_E_VERIFY, u, "too few sources") : TOLK_OK;
}

/* Width of an elementwise result: that of its operands. */
static tolk_status alu_width(builder *b, const tk_interp_node *k, uint32_t *width) {
    tk_interp_plan *plan = b->plan;
    *width = plan->nodes.at[plan->src.at[k->src]].width;
    for (uint32_t i = 0; i < k->u->n_src; i++)
        if (plan->nodes.at[plan->src.at[k->src + i]].width != *width || *width == 0)
            return refuse(b, TOLK_E_VERIFY, k->u, "operands of different widths");
    return TOLK_OK;
}

/* An INDEX is a place in a buffer, or an element of a value. */
static tolk_status index_width(builder *b, tk_interp_node *k, uint32_t *width) {
    tk_interp_plan *plan = b->plan;
    const tk_interp_node *base = &plan->nodes.at[plan->src.at[k->src]];
    bool is_place = base->buf >= 0 && base->width == 0;
    if (!is_place && (base->width == 0 || k->u->n_src != 2))
        return refuse(b, TOLK_E_VERIFY, k->u, "operand 0 is neither buffer nor vector");
    *width = 1;
    for (uint32_t i = 1; i < k->u->n_src; i++) {
        const tk_interp_node *s = &plan->nodes.at[plan->src.at[k->src + i]];
        if (s->width == 0 || s->dt != TOLK_INDEX || (s->width > 1 && k->u->n_src != 2))
            return refuse(b, TOLK_E_VERIFY, k->u, "an index that is no index scalar");
        *width = s->width;
    }
    if (!is_place)
        return *width == 1 ? TOLK_OK : refuse(b, TOLK_E_VERIFY, k->u, "lanes of lanes");
    const tk_interp_buf *f = &plan->bufs.at[base->buf];
    if (f->rank != k->u->n_src - 1)
        return refuse(b, TOLK_E_VERIFY, k->u, "not as many indices as the buffer has dimensions");
    if (*width > 1 && f->lanes > 1)
        return refuse(b, TOLK_E_VERIFY, k->u, "lanes of addresses into vectors");
    k->buf = base->buf;
    return TOLK_OK;
}

/* The place, gate and value of an access fit each other. */
static tolk_status access_width(builder *b, tk_interp_node *k, uint32_t *width) {
    tk_interp_plan *plan = b->plan;
    const tolk_uop *u = k->u;
    bool is_load = k->op == TK_OP_LOAD;
    const tk_interp_node *place = &plan->nodes.at[plan->src.at[k->src]];
    if (place->op != TK_OP_INDEX || place->buf < 0)
        return refuse(b, TOLK_E_VERIFY, u, "operand 0 is no place in a buffer");
    TK_TRY(want_sources(b, u, is_load ? 1 : 2));
    if (is_load && u->n_src == 2)
        return refuse(b, TOLK_E_VERIFY, u, "2 operands");
    k->buf = place->buf;
    uint32_t lanes = is_load ? tk_uop_lanes(u) : plan->nodes.at[plan->src.at[k->src + 1]].width;
    const tk_interp_buf *f = &plan->bufs.at[k->buf];
    if (lanes == 0 || (place->width > 1 && place->width != lanes) || lanes % f->lanes != 0)
        return refuse(b, TOLK_E_VERIFY, u, "the lanes of value and place differ");
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tk_interp_node *s = &plan->nodes.at[plan->src.at[k->src + i]];
        bool is_gate = i == 2;
        if (is_gate ? s->dt != TOLK_BOOL || (s->width != lanes && s->width != 1)
                    : s->dt != f->dt || s->width != lanes)
            return refuse(b, TOLK_E_VERIFY, u, "gate or value of another dtype than the place");
    }
    *width = is_load ? lanes : 0;
    return TOLK_OK;
}

static tolk_status width_of(builder *b, tk_interp_node *k, uint32_t *width) {
    tk_interp_plan *plan = b->plan;
    const tolk_uop *u = k->u;
    *width = 0;
    if (tk_op_is_alu(k->op))
        return alu_width(b, k, width);
    switch (k->op) {
    case TK_OP_CONST:
    case TK_OP_SPECIAL:
    case TK_OP_RANGE:
        *width = 1;
        return TOLK_OK;
    case TK_OP_PARAM:
        if (tk_check_is_scalar_param(u))
            *width = 1;
        else
            return add_buffer(b, u, &k->buf);
        return TOLK_OK;
    case TK_OP_BUFFER:
        return add_buffer(b, u, &k->buf);
    case TK_OP_STACK:
        for (uint32_t i = 0; i < u->n_src; i++)
            *width += plan->nodes.at[plan->src.at[k->src + i]].width;
        return *width <= MAX_WIDTH ? TOLK_OK : refuse(b, TOLK_E_LIMIT, u, "too many elements");
    case TK_OP_INDEX:
        return index_width(b, k, width);
    case TK_OP_LOAD:
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return access_width(b, k, width);
    case TK_OP_SHUFFLE:
        *width = plan->nodes.at[plan->src.at[k->src]].width;
        return plan->nodes.at[plan->src.at[k->src + 1]].width == 1
                   ? TOLK_OK
                   : refuse(b, TOLK_E_VERIFY, u, "the lane is no scalar");
    case TK_OP_WMMA:
        *width = plan->nodes.at[plan->src.at[k->src + 2]].width;
        return TOLK_OK;
    case TK_OP_REDUCE:
        *width = plan->nodes.at[plan->src.at[k->src]].width;
        return *width == 1 ? TOLK_OK : refuse(b, TOLK_E_VERIFY, u, "operand 0 is no scalar");
    case TK_OP_IF:
        if (plan->nodes.at[plan->src.at[k->src]].dt != TOLK_BOOL)
            return refuse(b, TOLK_E_VERIFY, u, "operand 0 is no bool");
        return TOLK_OK;
    case TK_OP_AFTER: {
        const tk_interp_node *x = &plan->nodes.at[plan->src.at[k->src]];
        k->buf = x->width ? -1 : x->buf;
        *width = x->width;
        return TOLK_OK;
    }
    default:
        return TOLK_OK;
    }
}

static tolk_status special_of(builder *b, tk_interp_node *k) {
    tk_interp *in = b->in;
    const tolk_uop *u = k->u;
    int axis = 0;
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &axis);
    int64_t size;
    TK_TRY(tk_params_eval(u->src[0], &in->params, in->args->vals, &size, in->err));
    if (kind == TK_SPECIAL_SPAN_BEGIN || kind == TK_SPECIAL_SPAN_END) {
        in->val0[k->val] = kind == TK_SPECIAL_SPAN_BEGIN ? 0 : (uint64_t)size - 1;
        return TOLK_OK;
    }
    if (kind == TK_SPECIAL_NONE)
        return refuse(b, TOLK_E_VERIFY, u, "unknown name");
    int first = kind == TK_SPECIAL_GIDX   ? TK_INTERP_GIDX
                : kind == TK_SPECIAL_LIDX ? TK_INTERP_LIDX
                                          : TK_INTERP_IDX;
    k->special = (uint8_t)(first + axis);
    int64_t *dim = &in->dims[k->special];
    if (size < 0)
        size = 0;
    if (*dim >= 0 && *dim != size)
        return refuse(b, TOLK_E_VERIFY, u, "two sizes for one name");
    *dim = size;
    return tk_vec_push(&b->plan->specials, (uint32_t)(k - b->plan->nodes.at))
               ? TOLK_OK
               : tk_status_nomem(in->err);
}

static bool add_repeated(builder *b, const tolk_uop *end) {
    tk_walk_list effects;
    tk_vec_init(&effects, b->in->al);
    bool ok = tk_walk_repeated(end, &effects) == TOLK_OK;
    for (size_t i = 0; ok && i < effects.n; i++)
        ok = tk_vec_push(&b->plan->need, number_of(b, effects.at[i]));
    tk_vec_fini(&effects);
    return ok;
}

/* The order in which sources are done. AFTER: effects before what comes after them. END of a
 * kernel: what it repeats. */
static bool add_needs(builder *b, tk_interp_node *k) {
    tk_interp_plan *plan = b->plan;
    const tolk_uop *u = k->u;
    k->need = (uint32_t)plan->need.n;
    bool ok = true;
    if (k->op == TK_OP_AFTER) {
        for (uint32_t i = 1; i < u->n_src; i++)
            if (!tk_uop_is(u->src[i], TK_OP_RANGE))
                ok &= tk_vec_push(&plan->need, plan->src.at[k->src + i]);
        ok &= tk_vec_push(&plan->need, plan->src.at[k->src]);
    } else if (k->op == TK_OP_END && !plan->is_program) {
        ok = add_repeated(b, u);
    } else if (needs_all(k->op)) {
        for (uint32_t i = 0; i < u->n_src; i++)
            ok &= tk_vec_push(&plan->need, plan->src.at[k->src + i]);
    }
    k->n_need = (uint32_t)plan->need.n - k->need;
    return ok;
}

static tolk_status add_node(builder *b, const tolk_uop *u) {
    tk_interp_plan *plan = b->plan;
    tk_interp_node k = {.u = u,
                        .op = tk_uop_op(u),
                        .dt = tk_dtype_scalar(u->dtype),
                        .src = (uint32_t)plan->src.n,
                        .val = plan->n_vals,
                        .buf = -1,
                        .range = UINT32_MAX};
    if (!is_run(k.op, plan->is_program) ||
        (k.op == TK_OP_REDUCE && tk_uop_int(u, TK_A_REDUCE_AXES)))
        return refuse(b, TOLK_E_UNSUPPORTED, u, "the interpreter runs kernels and programs");
    TK_TRY(want_sources(b, u, tk_op_get(k.op)->min_src));
    for (uint32_t i = 0; i < u->n_src; i++)
        if (!tk_vec_push(&plan->src, number_of(b, u->src[i])))
            return tk_status_nomem(b->in->err);
    if (k.op == TK_OP_RANGE)
        k.range = plan->n_ranges++;
    TK_TRY(width_of(b, &k, &k.width));
    if (k.width > MAX_WIDTH || plan->n_vals > UINT32_MAX - MAX_WIDTH)
        return refuse(b, TOLK_E_LIMIT, u, "too many values");
    plan->n_vals += k.width;
    plan->meets |= tk_interp_meets(&k);
    if (!add_needs(b, &k) || !tk_walk_map_put(&b->number, u->id, (uint32_t)plan->nodes.n + 1) ||
        !tk_vec_push(&plan->nodes, k) ||
        (k.op == TK_OP_RANGE && !tk_vec_push(&plan->range_node, (uint32_t)plan->nodes.n - 1)))
        return tk_status_nomem(b->in->err);
    return TOLK_OK;
}

/* Stores of registers need the loads that stand before them, too (ir/before.h). */
static tolk_status add_before(builder *b) {
    tk_interp_plan *plan = b->plan;
    tk_before before;
    bool ok = tk_before_init(&before, &b->ranges, b->in->al) == TOLK_OK;
    for (size_t p = 0; ok && p < before.pairs.n;) {
        uint32_t n;
        const tk_before_pair *pair = tk_before_of(&before, before.pairs.at[p].store, &n);
        tk_interp_node *k = &plan->nodes.at[number_of(b, pair->store)];
        uint32_t old = k->need;
        k->need = (uint32_t)plan->need.n;
        for (uint32_t i = 0; ok && i < n; i++)
            ok = tk_vec_push(&plan->need, number_of(b, pair[i].load));
        for (uint32_t i = 0; ok && i < k->n_need; i++) {
            uint32_t need = plan->need.at[old + i];
            ok = tk_vec_push(&plan->need, need);
        }
        k->n_need += n;
        p += n;
    }
    tk_before_fini(&before);
    return ok ? TOLK_OK : tk_status_nomem(b->in->err);
}

/* Constants, scalar params and specials: what every item starts with. */
static tolk_status initial_values(builder *b) {
    tk_interp *in = b->in;
    tk_interp_plan *plan = b->plan;
    for (uint32_t n = 0; n < plan->nodes.n; n++) {
        tk_interp_node *k = &plan->nodes.at[n];
        switch (k->op) {
        case TK_OP_CONST:
            in->val0[k->val] = tk_uop_bits(k->u);
            in->state0[n] =
                tk_uop_is_invalid(k->u) ? TK_INTERP_DONE | TK_INTERP_INVALID : TK_INTERP_DONE;
            break;
        case TK_OP_PARAM:
            in->state0[n] = TK_INTERP_DONE;
            if (k->buf < 0) {
                const tk_param *p = tk_params_find(&in->params, tk_uop_int(k->u, TK_A_PARAM_SLOT));
                in->val0[k->val] = tk_dtype_canon(k->dt, (uint64_t)in->args->vals[p->place]);
            }
            break;
        case TK_OP_SPECIAL:
            TK_TRY(special_of(b, k));
            in->state0[n] = TK_INTERP_DONE;
            break;
        case TK_OP_BUFFER:
            in->state0[n] = TK_INTERP_DONE;
            break;
        default:
            break;
        }
    }
    return TOLK_OK;
}

/* ---- kernels: which loops set which nodes back ---- */

static tolk_status dependents(builder *b) {
    tk_interp_plan *plan = b->plan;
    tolk_error *err = b->in->err;
    for (uint32_t r = 0; r < plan->n_ranges; r++) {
        const tolk_uop *range = plan->nodes.at[plan->range_node.at[r]].u;
        int32_t bit = tk_walk_ranges_number(&b->ranges, range);
        if (!tk_vec_push(&plan->dep_first, (uint32_t)plan->dependent.n))
            return tk_status_nomem(err);
        for (uint32_t n = 0; n < plan->nodes.n; n++) {
            const tk_interp_node *k = &plan->nodes.at[n];
            const uint64_t *set = tk_walk_ranges_of(&b->ranges, k->u);
            if (k->op == TK_OP_RANGE || !(set[bit / 64] >> bit % 64 & 1))
                continue;
            if (!tk_vec_push(&plan->dependent, n))
                return tk_status_nomem(err);
        }
    }
    return tk_vec_push(&plan->dep_first, (uint32_t)plan->dependent.n) ? TOLK_OK
                                                                      : tk_status_nomem(err);
}

/* ---- programs: the list ---- */

static tolk_status program_list(builder *b) {
    tk_interp_plan *plan = b->plan;
    tk_interp *in = b->in;
    const tk_interp_node *root = &plan->nodes.at[plan->root];
    uint32_t n = root->u->n_src;
    TK_VEC(uint32_t) open;
    TK_VEC(uint32_t) made; /* by node: its position + 1 */
    tk_vec_init(&open, in->al);
    tk_vec_init(&made, in->al);
    tolk_status st = TOLK_OK;
    if (!tk_vec_resize(&plan->match, n) || !tk_vec_resize(&made, plan->nodes.n))
        st = tk_status_nomem(in->err);
    for (uint32_t pos = 0; pos < n && st == TOLK_OK; pos++) {
        uint32_t id = plan->src.at[root->src + pos];
        const tk_interp_node *k = &plan->nodes.at[id];
        bool opens = k->op == TK_OP_RANGE || k->op == TK_OP_IF;
        bool closes = k->op == TK_OP_END || k->op == TK_OP_ENDIF;
        if (!tk_vec_push(&plan->order, id) || (opens && !tk_vec_push(&open, pos))) {
            st = tk_status_nomem(in->err);
            break;
        }
        if (closes) {
            if (!open.n || plan->order.at[tk_vec_last(&open)] != plan->src.at[k->src]) {
                st = refuse(b, TOLK_E_VERIFY, k->u, "closes what is not the innermost open one");
                break;
            }
            uint32_t at = tk_vec_pop(&open);
            plan->match.at[at] = pos;
            plan->match.at[pos] = at;
        }
        for (uint32_t i = 0; i < k->n_need; i++) {
            uint32_t s = plan->need.at[k->need + i];
            if (!in->state0[s] && !made.at[s])
                st = refuse(b, TOLK_E_VERIFY, k->u, "a source does not stand before it");
        }
        if (k->op == TK_OP_RANGE) {
            uint32_t s = plan->src.at[k->src];
            if (!in->state0[s] && !made.at[s])
                st = refuse(b, TOLK_E_VERIFY, k->u, "its size does not stand before it");
        }
        made.at[id] = pos + 1;
    }
    if (st == TOLK_OK && open.n)
        st = refuse(b, TOLK_E_VERIFY, plan->nodes.at[plan->order.at[tk_vec_last(&open)]].u,
                    "is never closed");
    tk_vec_fini(&open);
    tk_vec_fini(&made);
    return st;
}

/* ---- all of it ---- */

static tolk_status build(builder *b, const tolk_uop *root) {
    tk_interp *in = b->in;
    tk_interp_plan *plan = b->plan;
    tolk_status st = tk_walk_ranges_init(&b->ranges, root, in->al);
    if (st == TOLK_E_LIMIT)
        return tk_status_fail(in->err, st, TK_NO_NODE, "more than %d ranges", TK_WALK_MAX_RANGES);
    if (st != TOLK_OK)
        return tk_status_nomem(in->err);
    for (size_t i = 0; i < b->ranges.nodes.n; i++)
        TK_TRY(add_node(b, b->ranges.nodes.at[i]));
    if (!plan->is_program)
        TK_TRY(add_before(b));
    plan->root = (uint32_t)plan->nodes.n - 1;
    in->val0 = tk_alloc_zero(in->al, ((size_t)plan->n_vals + 1) * sizeof *in->val0);
    in->state0 = tk_alloc_zero(in->al, plan->nodes.n);
    if (!in->val0 || !in->state0)
        return tk_status_nomem(in->err);
    TK_TRY(initial_values(b));
    return plan->is_program ? program_list(b) : dependents(b);
}

tolk_status tk_interp_plan_init(tk_interp *in, const tolk_uop *root) {
    tk_interp_plan *plan = &in->plan;
    tk_vec_init(&plan->nodes, in->al);
    tk_vec_init(&plan->src, in->al);
    tk_vec_init(&plan->need, in->al);
    tk_vec_init(&plan->specials, in->al);
    tk_vec_init(&plan->bufs, in->al);
    tk_vec_init(&plan->range_node, in->al);
    tk_vec_init(&plan->dep_first, in->al);
    tk_vec_init(&plan->dependent, in->al);
    tk_vec_init(&plan->order, in->al);
    tk_vec_init(&plan->match, in->al);
    plan->is_program = tk_uop_is(root, TK_OP_LINEAR);
    for (int i = 0; i < TK_INTERP_DIMS; i++)
        in->dims[i] = -1; /* no such special */
    builder b = {.in = in, .plan = plan};
    tk_walk_map_init(&b.number, in->al);
    tolk_status st = build(&b, root);
    tk_walk_map_fini(&b.number);
    tk_walk_ranges_fini(&b.ranges);
    return st;
}

void tk_interp_plan_fini(tk_interp_plan *plan) {
    tk_vec_fini(&plan->nodes);
    tk_vec_fini(&plan->src);
    tk_vec_fini(&plan->need);
    tk_vec_fini(&plan->specials);
    tk_vec_fini(&plan->bufs);
    tk_vec_fini(&plan->range_node);
    tk_vec_fini(&plan->dep_first);
    tk_vec_fini(&plan->dependent);
    tk_vec_fini(&plan->order);
    tk_vec_fini(&plan->match);
}
