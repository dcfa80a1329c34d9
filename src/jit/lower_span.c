/* SPDX-License-Identifier: MIT
 *
 * The outside of pass_lower: a kernel's global ranges become one flattened range, of which each
 * call of the compiled function runs the part [span_begin, span_end).
 *
 * Kernels whose work-items meet (items.h) keep their specials: the effects stand one behind another
 * as one work-item does them, and pass_items makes the flattened range.
 *
 * Each effect of the sink that is closed by global ranges takes as many iterations of the flattened
 * range as its leading global ranges have together; several effects stand one behind another. What
 * is not closed by global ranges takes one iteration. Where the order of effects matters (AFTER on
 * memory that all see, or one buffer in two effects that are not both unordered) the whole kernel
 * takes one.
 */
#include "jit/items.h"
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/dtype.h"
#include "ir/softnarrow.h"
#include "ir/sym.h"

#include <string.h>

/* Flattening stops at the first global range behind this many iterations; the rest are loops. */
enum { ENOUGH = 256 };
/* If one iteration of the flattened range is more work than this, it looks at the cancel flag. */
#define LONG_WORK 2e7

/* Does any AFTER make memory that all see wait for an effect? */
static bool effects_depend(const tk_kview *v) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_AFTER) || !tk_kview_is_global(tk_access_buffer(u)))
            continue;
        for (uint32_t i = 1; i < u->n_src; i++)
            if (!tk_uop_is(u->src[i], TK_OP_RANGE))
                return true;
    }
    return false;
}

bool tk_lower_effects(const tolk_uop *sink, tk_uops *out) {
    tk_uops todo;
    tk_vec_init(&todo, out->al);
    bool ok = tk_vec_push(&todo, sink);
    while (ok && todo.n) {
        const tolk_uop *u = tk_vec_pop(&todo);
        if (!tk_uop_is(u, TK_OP_SINK) && !tk_uop_is(u, TK_OP_GROUP)) {
            ok = tk_vec_push(out, u);
            continue;
        }
        for (uint32_t i = u->n_src; i-- > 0 && ok;)
            ok = tk_vec_push(&todo, u->src[i]);
    }
    tk_vec_fini(&todo);
    return ok;
}

static bool is_unordered_effect(const tolk_uop *e) {
    return tk_uop_is(e, TK_OP_END) && tk_uop_is(e->src[1], TK_OP_RANGE) &&
           tk_kview_is_unordered(e->src[1]);
}

enum { LOADED = 1, STORED = 2 };

/* Mark which buffers that all see an effect touches; by id. */
static bool touches(const tolk_uop *e, uint8_t *marks) {
    tk_kview v;
    if (!tk_kview_init(&v, e))
        return false;
    for (size_t k = 0; k < v.order.n; k++) {
        const tolk_uop *u = v.order.at[k];
        bool load = tk_uop_is(u, TK_OP_LOAD), adds = tk_uop_is(u, TK_OP_ATOMIC_ADD);
        if ((load || adds || tk_uop_is(u, TK_OP_STORE)) &&
            tk_kview_is_global(tk_access_buffer(u->src[0])))
            marks[tk_access_buffer(u->src[0])->id] |= load ? LOADED : STORED;
    }
    tk_kview_fini(&v);
    return true;
}

/* Do two effects meet in a buffer, one of them storing, and one of them in order? Then the order of
 * the sink counts. Iterations of two unordered effects may interleave as they like. */
static bool effects_meet(const tk_kview *v, const tk_uops *effects, bool *failed) {
    size_t n = v->n_ids;
    uint8_t *marks = effects->n > 1 ? tk_alloc(v->al, 3 * n) : NULL;
    bool meet = false;
    *failed = effects->n > 1 && !marks;
    if (!marks)
        return false;
    /* seen: by all effects so far; ordered: by those that are in order. */
    uint8_t *now = marks, *seen = marks + n, *ordered = marks + 2 * n;
    memset(marks, 0, 3 * n);
    for (size_t i = 0; i < effects->n && !meet && !*failed; i++) {
        bool unordered = is_unordered_effect(effects->at[i]);
        memset(now, 0, n);
        *failed = !touches(effects->at[i], now);
        for (size_t b = 0; b < n && !*failed; b++) {
            const uint8_t *before = unordered ? ordered : seen;
            meet |= now[b] && before[b] && ((now[b] | before[b]) & STORED);
            seen[b] |= now[b];
            if (!unordered)
                ordered[b] |= now[b];
        }
    }
    tk_alloc_free(v->al, marks, 3 * n);
    return meet;
}

/* Does the order of the sink's effects count? False when out of memory. */
static bool find_order(const tk_kview *v, bool *in_order) {
    tk_uops effects;
    tk_vec_init(&effects, v->al);
    bool failed = !tk_lower_effects(v->root, &effects);
    *in_order = !failed && (effects_depend(v) || effects_meet(v, &effects, &failed));
    tk_vec_fini(&effects);
    return !failed;
}

/* Does the size of range i of an END depend on one before it? */
static bool is_dependent(const tk_kview *v, const tolk_uop *end, uint32_t i) {
    for (uint32_t k = 1; k < i; k++)
        if (tk_kview_depends(v, end->src[i]->src[0], end->src[k]))
            return true;
    return false;
}

/* Work-items of a group are threads of a GPU. */
static bool is_item_axis(const tolk_uop *range) {
    return tk_kview_axis(range) == TK_AXIS_LOCAL || tk_kview_axis(range) == TK_AXIS_WARP;
}

uint32_t tk_lower_flattened(const tk_kview *v, const tolk_uop *end, const tk_target *target) {
    if (!tk_uop_is(end, TK_OP_END))
        return 0;
    uint32_t n = 0;
    int64_t total = 1;
    bool all = tk_target_is_gpu(target);
    for (uint32_t i = 1; i < end->n_src && (all || total < ENOUGH); i++, n++) {
        const tolk_uop *r = end->src[i];
        bool thread = all && tk_uop_is(r, TK_OP_RANGE) && is_item_axis(r);
        if (!tk_uop_is(r, TK_OP_RANGE) || (!thread && !tk_kview_is_unordered(r)) ||
            is_dependent(v, end, i))
            break;
        int64_t size = tk_uop_is_const(r->src[0]) ? r->src[0]->attr[0].i : ENOUGH;
        total = size < ENOUGH ? total * (size > 0 ? size : 1) : ENOUGH;
    }
    return n;
}

const tolk_uop *tk_lower_span_size(tolk_graph *g, const tolk_uop *end, uint32_t n) {
    const tolk_uop *size = tk_uop_index_const(g, 1), *zero = tk_uop_index_const(g, 0);
    for (uint32_t i = 1; i <= n && size; i++) {
        /* Sizes below 0 mean no iteration, as everywhere. */
        const tolk_uop *s = end->src[i]->src[0];
        tk_bound b = tk_bounds(s);
        if (b.state != 1 || b.lo < 0)
            s = tk_uop2(g, TK_OP_MAX, s, zero);
        size = s ? tk_sym_mul(g, size, s) : NULL;
    }
    return size;
}

const tolk_uop *tk_lower_special(tk_lower *l, const char *name, const tolk_uop *size) {
    tk_attr attr = {.blob = tk_blob_str(l->g, name, strlen(name))};
    const tolk_uop *s =
        size && attr.blob ? tk_uop(l->g, TK_OP_SPECIAL, TOLK_INDEX, &size, 1, &attr) : NULL;
    return s && tk_lower_place(l, s) >= 0 ? s : NULL;
}

bool tk_lower_bind(tk_lower *l, const tolk_uop *end, uint32_t n, const tolk_uop *at, int scope) {
    tolk_graph *g = l->g;
    for (uint32_t i = n; i >= 1; i--) {
        uint32_t no = tk_kview_no(&l->v, end->src[i]);
        const tolk_uop *size = end->src[i]->src[0], *digit = at;
        if (i > 1) {
            digit = tk_uop2(g, TK_OP_CMOD, at, size);
            at = tk_uop2(g, TK_OP_CDIV, at, size);
        }
        if (!digit || !at)
            return false;
        l->range_scope[no] = scope;
        l->range_value[no] = digit;
    }
    return true;
}

/* One effect, whose iterations are [offset, offset + size) of the flattened range. alone: it is the
 * only effect, so begin and end need no clipping. */
static bool lower_effect(tk_lower *l, const tolk_uop *e, uint32_t n, const tolk_uop *size,
                         const tolk_uop *offset, const tolk_uop *begin, const tolk_uop *end,
                         bool alone) {
    tolk_graph *g = l->g;
    const tolk_uop *lo = begin, *hi = end, *zero = tk_uop_index_const(g, 0);
    if (!alone) {
        lo = tk_sym_sub(g, begin, offset);
        lo = lo ? tk_uop2(g, TK_OP_MAX, lo, zero) : NULL;
        hi = tk_sym_sub(g, end, offset);
        hi = hi ? tk_uop3(g, TK_OP_WHERE, tk_uop2(g, TK_OP_CMPLT, hi, size), hi, size) : NULL;
    }
    const tolk_uop *count = lo && hi ? tk_uop2(g, TK_OP_SUB, hi, lo) : NULL;
    if (!count || tk_lower_place(l, count) < 0)
        return false;
    tk_attr attrs[4] = {{.i = l->next_axis++}, {.blob = NULL}, {.i = TK_AXIS_GLOBAL}, {.i = 0}};
    const tolk_uop *loop = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, &count, 1, attrs);
    int scope = loop ? tk_lower_scope(l, 0, loop) : -1;
    const tolk_uop *at = scope < 0 ? NULL : tk_uop2(g, TK_OP_ADD, loop, lo);
    if (!at || !tk_lower_bind(l, e, n, at, scope))
        return false;
    l->base_scope = scope; /* effects that depend on no range belong inside this loop too */
    tk_lower_frame f = {.u = e, .scope = scope, .first_loop = n + 1};
    bool ok = n ? tk_lower_visit_end(l, &f) : tk_lower_visit(l, e);
    l->base_scope = 0;
    const tolk_uop *close = ok ? tk_uop(g, TK_OP_END, TOLK_VOID, &loop, 1, NULL) : NULL;
    for (uint32_t i = 1; i <= n; i++)
        l->range_scope[tk_kview_no(&l->v, e->src[i])] = -1;
    return close && tk_lower_close(l, scope, close) && tk_lower_done(l, e, close);
}

/* Behind the last effect before the barrier: all that was stored there is ready. */
static bool list_barrier(tk_lower *l, const tk_uops *effects, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const tolk_uop *token = tk_lower_token(l, effects->at[i]);
        const tolk_uop *b = token ? tk_uop(l->g, TK_OP_BARRIER, TOLK_VOID, &token, 1, NULL) : NULL;
        if (!b || tk_lower_place(l, b) < 0)
            return false;
    }
    return true;
}

/* ---- setting up ---- */

static bool reg_too_large(tk_lower *l, int64_t elems) {
    tk_graph_fail(l->g, TOLK_E_UNSUPPORTED,
                  "buffer: space=reg becomes %lld registers; the CPU compiler takes a constant "
                  "size and at most %d",
                  (long long)elems, TK_LOWER_MAX_INSTANCES);
    return false;
}

/* Form of one of the kernel's own reg buffers in the program. */
static bool find_reg(tk_lower *l, const tolk_uop *b) {
    if (!tk_uop_is_const(b->src[0]) || b->src[0]->attr[0].i > TK_LOWER_MAX_INSTANCES)
        return reg_too_large(l, -1);
    tk_lower_reg reg = {.buffer = b};
    reg.set = tk_arena_zero(&l->g->arena, l->v.words * sizeof *reg.set);
    if (!reg.set)
        return false;
    for (size_t j = 0; j < l->v.order.n; j++) {
        const tolk_uop *s = l->v.order.at[j];
        if (tk_uop_is(s, TK_OP_STORE) && tk_access_buffer(s->src[0]) == b)
            for (uint32_t w = 0; w < l->v.words; w++)
                reg.set[w] |= tk_kview_set(&l->v, s)[w];
    }
    for (uint32_t r = 0; r < l->v.ranges.n; r++)
        if (tk_set_has(reg.set, r) && tk_lower_indexes(&l->v, b, l->v.ranges.at[r]))
            reg.set[r / 64] &= ~((uint64_t)1 << r % 64);
    uint32_t lanes = 1;
    for (size_t i = 0; i < l->lane_ranges.n; i++)
        if (tk_set_has(reg.set, l->lane_ranges.at[i]))
            lanes = (uint32_t)l->v.ranges.at[l->lane_ranges.at[i]]->src[0]->attr[0].i;
    int64_t elems = b->src[0]->attr[0].i;
    for (size_t i = 0; i < l->unrolled.n && elems <= TK_LOWER_MAX_INSTANCES; i++)
        if (tk_set_has(reg.set, l->unrolled.at[i].no))
            elems *= l->unrolled.at[i].size;
    if (elems > TK_LOWER_MAX_INSTANCES)
        return reg_too_large(l, elems);
    reg.program = tk_lower_reg_buffer(l, tolk_dtype_vec(b->dtype, lanes), elems);
    return reg.program && tk_vec_push(&l->regs, reg);
}

/* Local memory is listed as it is. */
static bool set_up_buffer(tk_lower *l, const tolk_uop *b) {
    if (tk_uop_int(b, TK_A_BUFFER_SPACE) == TK_SPACE_REG)
        return find_reg(l, b);
    return tk_lower_place(l, b) >= 0;
}

/* Work of one iteration of the flattened range, in operations; symbolic sizes count as their most.
 */
static double work_inside(const tk_lower *l, const tk_uops *effects) {
    uint64_t *outer = tk_alloc_zero(l->al, l->v.words * sizeof *outer);
    double total = 0;
    if (!outer)
        return 0;
    for (size_t i = 0; i < effects->n; i++) {
        uint32_t n = tk_lower_flattened(&l->v, effects->at[i], l->p->target);
        for (uint32_t j = 1; j <= n; j++)
            tk_set_add(outer, tk_kview_no(&l->v, effects->at[i]->src[j]));
    }
    for (size_t k = 0; k < l->v.order.n; k++) {
        const tolk_uop *u = l->v.order.at[k];
        if (!tk_op_is_alu(tk_uop_op(u)) && !tk_uop_is(u, TK_OP_LOAD))
            continue;
        double n = 1;
        const uint64_t *set = tk_kview_set(&l->v, u);
        for (size_t r = 0; r < l->v.ranges.n; r++) {
            if (!tk_set_has(set, (uint32_t)r) || tk_set_has(outer, (uint32_t)r))
                continue;
            tk_bound b = tk_bounds(l->v.ranges.at[r]->src[0]);
            n *= b.state == 1 && b.hi > 0 ? (double)b.hi : 1;
        }
        total += n;
    }
    tk_alloc_free(l->al, outer, l->v.words * sizeof *outer);
    return total;
}

static bool has_param(const tk_kview *v, int64_t slot) {
    for (size_t k = 0; k < v->order.n; k++)
        if (tk_uop_is(v->order.at[k], TK_OP_PARAM) &&
            tk_uop_int(v->order.at[k], TK_A_PARAM_SLOT) == slot)
            return true;
    return false;
}

/* Every param of the kernel as given stands in the program, so that both have the same arguments,
 * even where nothing uses one of them any more. */
static bool list_lost_params(tk_lower *l) {
    tolk_graph *g = l->g;
    tk_kview given;
    if (!tk_kview_init(&given, l->p->given))
        return false;
    bool ok = true;
    for (size_t k = 0; k < given.order.n && ok; k++) {
        const tolk_uop *u = given.order.at[k];
        if (!tk_uop_is(u, TK_OP_PARAM) || has_param(&l->v, tk_uop_int(u, TK_A_PARAM_SLOT)))
            continue;
        if (tk_uop_int(u, TK_A_PARAM_SPACE) != TK_SPACE_ALU) {
            const tolk_uop *size = tk_uop_index_const(g, 1);
            const tolk_uop *shape = u->n_src ? u->src[0] : size;
            if (!tk_uop_is(shape, TK_OP_STACK))
                size = shape;
            else
                for (uint32_t i = 0; i < shape->n_src && size; i++)
                    size = tk_sym_mul(g, size, shape->src[i]);
            u = size ? tk_uop_with_src(g, u, &size, 1) : NULL;
        }
        if (u && tk_dtype_is_narrow_float(u->dtype))
            u = tk_uop(g, TK_OP_PARAM, tk_softnarrow_code(u->dtype), u->src, u->n_src, u->attr);
        ok = u && tk_lower_place(l, u) >= 0;
    }
    tk_kview_fini(&given);
    return ok;
}

static bool set_up(tk_lower *l) {
    for (size_t r = 0; r < l->v.ranges.n; r++) {
        const tolk_uop *range = l->v.ranges.at[r];
        tk_axis kind = tk_kview_axis(range);
        l->range_scope[r] = -1;
        l->range_value[r] = NULL;
        if (tk_lower_is_unrolled(kind)) {
            tk_lower_unrolled u = {(uint32_t)r, (uint32_t)range->src[0]->attr[0].i};
            if (!tk_vec_push(&l->unrolled, u))
                return false;
        } else if (kind == TK_AXIS_LANE) {
            uint32_t lanes = (uint32_t)range->src[0]->attr[0].i;
            if (!tk_vec_push(&l->lane_ranges, (uint32_t)r))
                return false;
            if (lanes > l->p->lanes)
                l->p->lanes = lanes;
        }
    }
    if (!tk_vec_resize(&l->digits, l->unrolled.n + 1) || tk_lower_scope(l, -1, NULL) != 0)
        return false;
    for (size_t k = 0; k < l->v.order.n; k++) {
        const tolk_uop *u = l->v.order.at[k];
        if (tk_uop_is(u, TK_OP_PARAM) && tk_lower_place(l, u) < 0)
            return false;
        if (tk_uop_is(u, TK_OP_BUFFER) && !set_up_buffer(l, u))
            return false;
    }
    return list_lost_params(l);
}

static bool lower_span(tk_lower *l, const tk_uops *effects) {
    tolk_graph *g = l->g;
    bool one = l->in_order || l->p->items;
    const tolk_uop *total = tk_uop_index_const(g, one ? 1 : 0);
    for (size_t i = 0; i < effects->n && !one && total; i++) {
        const tolk_uop *size = tk_lower_span_size(
            g, effects->at[i], tk_lower_flattened(&l->v, effects->at[i], l->p->target));
        total = size ? tk_sym_add(g, total, size) : NULL;
    }
    if (!total)
        return false;
    l->p->span = total;
    if (work_inside(l, effects) > LONG_WORK)
        l->poll_depth = one ? 1 : 2;
    /* A program of one work-item: pass_items puts the span around it. */
    const tolk_uop *size1 = tk_sym_add(g, total, tk_uop_index_const(g, 1));
    const tolk_uop *begin = NULL, *end = NULL;
    if (!l->p->items) {
        begin = tk_lower_special(l, "span_begin", size1);
        end = tk_lower_special(l, "span_end", size1);
        if (!begin || !end)
            return false;
    }
    const tolk_uop *offset = tk_uop_index_const(g, 0);
    for (size_t i = 0; i < effects->n; i++) {
        if (one) {
            if (!tk_lower_visit(l, effects->at[i]))
                return false;
            continue;
        }
        uint32_t n = tk_lower_flattened(&l->v, effects->at[i], l->p->target);
        const tolk_uop *size = tk_lower_span_size(g, effects->at[i], n);
        /* The pieces of grouped reductions stand first; the others wait for all of them. */
        bool first = l->p->pieces && tk_uop_is_int(offset, l->p->pieces);
        if (first && !list_barrier(l, effects, i))
            return false;
        if (!size || !offset ||
            !lower_effect(l, effects->at[i], n, size, offset, begin, end, effects->n == 1))
            return false;
        offset = tk_sym_add(g, offset, size);
    }
    return true;
}

static const tolk_uop *run(tk_lower *l) {
    const tolk_uop *result = NULL;
    tk_uops effects;
    tk_vec_init(&effects, l->al);
    if (tk_lower_effects(l->v.root, &effects) &&
        (tk_target_is_gpu(l->p->target) ? tk_lower_grid(l, &effects) : lower_span(l, &effects))) {
        const tk_uops *list = &l->scopes.at[0].list;
        result = tk_uop(l->g, TK_OP_LINEAR, TOLK_VOID, list->at, list->n, &l->v.root->attr[0]);
    }
    tk_vec_fini(&effects);
    return result;
}

static void fini(tk_lower *l) {
    for (size_t i = 0; i < l->scopes.n; i++)
        tk_vec_fini(&l->scopes.at[i].list);
    tk_vec_fini(&l->unrolled);
    tk_vec_fini(&l->digits);
    tk_vec_fini(&l->lane_ranges);
    tk_vec_fini(&l->scopes);
    tk_vec_fini(&l->placed);
    tk_vec_fini(&l->lvals);
    tk_vec_fini(&l->regs);
    tk_vec_fini(&l->frames);
    tk_vec_fini(&l->saved);
    tk_vec_fini(&l->todo);
    tk_map_fini(&l->values);
    size_t n = l->v.ranges.n + 1;
    tk_alloc_free(l->al, l->range_scope, n * sizeof *l->range_scope);
    tk_alloc_free(l->al, l->range_value, n * sizeof *l->range_value);
    tk_before_fini(&l->before);
    tk_kview_fini(&l->v);
}

static bool find_before(tk_lower *l) {
    tk_walk_ranges w;
    tolk_status st = tk_walk_ranges_init(&w, l->v.root, l->al);
    if (st == TOLK_OK)
        st = tk_before_init(&l->before, &w, l->al);
    tk_walk_ranges_fini(&w);
    if (st == TOLK_E_LIMIT)
        tk_graph_fail(l->g, st, "more than %d ranges", TK_WALK_MAX_RANGES);
    return st == TOLK_OK;
}

tolk_status tk_pass_lower(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    const tolk_uop *kernel = tk_lower_kinds(p, *root);
    tk_lower l = {.p = p, .g = p->g, .al = p->g->al};
    if (kernel && p->items && !tk_target_is_gpu(p->target))
        kernel = tk_items_lanes(p, kernel, &l.wide);
    if (!kernel || !tk_kview_init(&l.v, kernel))
        return kernel ? tk_status_nomem(err) : tk_pass_failed(p, err);
    bool found = find_order(&l.v, &l.in_order);
    tk_kview_fini(&l.v);
    if (!found)
        return tk_status_nomem(err);
    /* Pieces of reductions stand before the flattened loop of what needs them, not in it. */
    kernel = tk_lower_empty(p, kernel, !l.in_order && !p->items && !p->pieces);
    if (!kernel || !tk_kview_init(&l.v, kernel))
        return kernel ? tk_status_nomem(err) : tk_pass_failed(p, err);
    tk_vec_init(&l.unrolled, l.al);
    tk_vec_init(&l.digits, l.al);
    tk_vec_init(&l.lane_ranges, l.al);
    tk_vec_init(&l.scopes, l.al);
    tk_vec_init(&l.placed, l.al);
    tk_vec_init(&l.lvals, l.al);
    tk_vec_init(&l.regs, l.al);
    tk_vec_init(&l.frames, l.al);
    tk_vec_init(&l.saved, l.al);
    tk_vec_init(&l.todo, l.al);
    tk_map_init(&l.values, l.al);
    size_t n = l.v.ranges.n + 1;
    l.range_scope = tk_alloc_zero(l.al, n * sizeof *l.range_scope);
    l.range_value = tk_alloc_zero(l.al, n * sizeof *l.range_value);
    l.next_local = tk_items_free_slot(&l.v.order);
    p->lanes = 1;
    const tolk_uop *r = NULL;
    bool ok = find_before(&l);
    if (ok && l.range_scope && l.range_value && set_up(&l))
        r = run(&l);
    fini(&l);
    if (!r) {
        /* Containers fail without a word. */
        tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
        return tk_pass_failed(p, err);
    }
    *root = r;
    return TOLK_OK;
}
