/* SPDX-License-Identifier: MIT
 *
 * pass_peel: loops whose last iterations alone need a gate are split in two: a main part in which
 * the gate is true, and the rest.
 *
 * Needs:  stage kernel, prepared, loop options applied.
 * Leaves: the same values, bit for bit: a reduction goes on from the main part's result. Guards
 *         cmplt(c * range + rest, bound) that hold below some iteration are gone from main parts.
 * Cost:   each split copies what depends on the range; at most MAX_PEELS splits, and none that
 *         copies more than MAX_COPY nodes.
 */
#include "ir/bounds.h"
#include "ir/dtype.h"
#include "ir/rewrite.h"
#include "ir/sym.h"
#include "jit/affine.h"
#include "jit/pass.h"

enum { MAX_PEELS = 8, MAX_COPY = 3000 };

/* Where one loop can be split. */
typedef struct cut {
    const tolk_uop *closer; /* END or REDUCE ... */
    const tolk_uop *range;  /* ... that closes this */
    const tolk_uop *main;   /* iterations of the main part */
    const tolk_uop *rest;   /* iterations of the rest */
} cut;

static bool small(tk_bound b) {
    return b.state == 1 && b.lo > INT64_MIN / 4 && b.hi < INT64_MAX / 4;
}

/* First iteration for which guard = cmplt(l, bound) may be false, as a constant or an expression;
 * NULL if it is not of the form that can be solved. */
static const tolk_uop *true_below(tolk_graph *g, const tk_kview *v, const tk_step *steps,
                                  const tolk_uop *guard, const tolk_uop *range) {
    const tolk_uop *l = guard->src[0], *bound = guard->src[1];
    tk_step s = steps[l->id];
    if (s.kind != TK_STEP_CONST || s.elems <= 0 || tk_kview_depends(v, bound, range) ||
        !small(tk_bounds(l)))
        return NULL;
    int64_t n = s.elems;
    const tolk_uop *zero = tk_uop_index_const(g, 0);
    const tolk_uop *rest = tk_kview_substitute(v, l, &range, &zero, 1);
    if (!rest || !(rest = tk_sym(g, rest)))
        return NULL;
    tk_bound rb = tk_bounds(rest);
    if (!small(rb))
        return NULL;
    if (tk_uop_is_const(bound)) {
        int64_t c = bound->attr[0].i;
        if (c > INT64_MAX / 4 || c < INT64_MIN / 4)
            return NULL;
        int64_t num = c - rb.hi + n - 1;
        return tk_uop_index_const(g, num <= 0 ? 0 : num / n);
    }
    /* A symbolic bound: only the shape that splitting a range makes, where at most one iteration
     * is left over. */
    if (!small(tk_bounds(bound)) || tk_bounds(bound).lo < 0 || rb.hi != n - 1 || rb.lo < 0)
        return NULL;
    const tolk_uop *count = tk_uop_index_const(g, n);
    const tolk_uop *up =
        tk_sym_floordiv(g, tk_sym_add(g, bound, tk_uop_index_const(g, n - 1)), count);
    if (!up || up != tk_sym(g, range->src[0]))
        return NULL;
    return tk_sym_floordiv(g, bound, count);
}

/* Is a >= b, surely? Constants; or (x + k) // n and x // n with k >= 0. */
static bool not_less(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    if (a == b)
        return true;
    if (tk_uop_is_const(a) && tk_uop_is_const(b))
        return a->attr[0].i >= b->attr[0].i;
    if (!tk_uop_is(a, TK_OP_FLOORDIV) || !tk_uop_is(b, TK_OP_FLOORDIV) || a->src[1] != b->src[1] ||
        !tk_uop_is_const(a->src[1]) || a->src[1]->attr[0].i <= 0 || !small(tk_bounds(a->src[0])) ||
        !small(tk_bounds(b->src[0])))
        return false;
    const tolk_uop *d = tk_sym_sub(g, a->src[0], b->src[0]);
    return d && tk_uop_is_const(d) && d->attr[0].i >= 0;
}

static bool is_guard(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CMPLT) && u->src[0]->dtype == TOLK_INDEX;
}

/* Does u depend only on loops that are around the one of that range? */
static bool is_outside(const tk_kview *v, const tolk_uop *u, const tolk_uop *closer,
                       const tolk_uop *range) {
    for (size_t r = 0; r < v->ranges.n; r++) {
        const tolk_uop *other = v->ranges.at[r];
        if (!tk_kview_depends(v, u, other))
            continue;
        bool around = tk_kview_depends(v, closer, other);
        for (uint32_t i = 1; closer->src[i] != range; i++)
            around |= closer->src[i] == other;
        if (!around)
            return false;
    }
    return true;
}

/* Find the split of one closed range, if it is worth one. */
static bool find_cut(tk_pass *p, const tk_kview *v, tk_step *steps, const tolk_uop *closer,
                     const tolk_uop *range, cut *out) {
    tk_axis kind = tk_kview_axis(range);
    if (kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL || kind == TK_AXIS_LANE)
        return false;
    bool reduce = tk_uop_is(closer, TK_OP_REDUCE);
    if (reduce && closer->n_src != 2)
        return false;
    if (reduce && tk_dtype_is_narrow_float(closer->dtype))
        return false;
    tk_affine_steps(v, range, steps);
    const tolk_uop *size = range->src[0];
    const tolk_uop *best = NULL;
    size_t copied = 0;
    for (size_t k = 0; k < v->order.n && v->order.at[k]->id <= closer->id; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_kview_depends(v, u, range))
            continue;
        copied++;
        /* A part that is no loop has nothing that an order within its iterations could name. */
        for (uint32_t i = 1; tk_uop_is(u, TK_OP_AFTER) && i < u->n_src; i++)
            if (u->src[i] == range)
                return false;
        /* Accumulators carry their state from one iteration to the next through `after`. */
        if (!reduce && tk_uop_is(u, TK_OP_STORE) &&
            !tk_kview_is_global(tk_access_buffer(u->src[0])))
            return false;
        if (!is_guard(u) || !is_outside(v, u->src[1], closer, range))
            continue;
        const tolk_uop *m = true_below(p->g, v, steps, u, range);
        if (!m)
            continue;
        if (!best || !not_less(p->g, m, best))
            best = m;
    }
    if (!best || copied > MAX_COPY)
        return false;
    const tolk_uop *rest;
    if (tk_uop_is_const(best) && tk_uop_is_const(size)) {
        int64_t m = best->attr[0].i, n = size->attr[0].i;
        if (m < 1 || m >= n)
            return false;
        /* A float sum may only go on by single iterations: partial sums would reorder it. */
        if (reduce && n - m > 1 && tolk_dtype_is_float(closer->dtype) &&
            tk_uop_int(closer, TK_A_REDUCE_OP) != TK_ROP_MAX)
            return false;
        rest = tk_uop_index_const(p->g, n - m);
    } else if (tk_uop_is_const(best)) {
        return false;
    } else {
        rest = tk_uop2(p->g, TK_OP_SUB, size, best);
    }
    *out = (cut){closer, range, best, rest};
    return rest != NULL;
}

/* First source of the END that is split. Parts run one after the other, so loops in order around
 * the one that is split stay around both; unordered ones may be in each part. */
static uint32_t first_split(const cut *c) {
    uint32_t at = 1;
    bool ordered = false;
    for (; c->closer->src[at] != c->range; at++)
        ordered |= tk_uop_is(c->closer->src[at], TK_OP_RANGE) &&
                   !tk_kview_is_unordered(c->closer->src[at]);
    return ordered ? at : 1;
}

/* The rest of a loop of symbolic size runs once at most: what is unrolled there would be code that
 * is compiled for little. Unrolled ranges that are in the rest alone become loops there. */
static bool roll_up(tk_pass *p, const cut *c, tk_uops *from, tk_uops *to) {
    if (!tk_uop_is(c->closer, TK_OP_END) || tk_uop_is_const(c->main))
        return true;
    for (uint32_t i = first_split(c); i < c->closer->n_src; i++) {
        const tolk_uop *r = c->closer->src[i];
        if (!tk_uop_is(r, TK_OP_RANGE) || tk_kview_axis(r) != TK_AXIS_UPCAST ||
            !tk_uop_is_const(r->src[0]))
            continue;
        const tolk_uop *loop = tk_kview_of_kind(p->g, r, TK_AXIS_LOOP);
        if (!loop || !tk_vec_push(from, r) || !tk_vec_push(to, loop))
            return false;
    }
    return true;
}

/* Copy of u with range replaced: for the main part the guards that hold below `main` are true, for
 * the rest it is rolled up. */
static const tolk_uop *copy_with(tk_pass *p, const tk_kview *v, const tk_step *steps,
                                 const tolk_uop *u, const cut *c, const tolk_uop *by, bool main) {
    tolk_graph *g = p->g;
    tk_uops from, to;
    tk_vec_init(&from, g->al);
    tk_vec_init(&to, g->al);
    bool ok =
        tk_vec_push(&from, c->range) && tk_vec_push(&to, by) && (main || roll_up(p, c, &from, &to));
    const tolk_uop *yes = tk_uop_const(g, TOLK_BOOL, 1);
    for (size_t k = 0; main && k < v->order.n && v->order.at[k]->id <= u->id && ok; k++) {
        const tolk_uop *x = v->order.at[k];
        if (!is_guard(x) || !tk_kview_depends(v, x, c->range))
            continue;
        const tolk_uop *m = true_below(g, v, steps, x, c->range);
        bool holds = m && not_less(g, m, c->main);
        if (holds)
            ok = tk_vec_push(&from, x) && tk_vec_push(&to, yes);
    }
    const tolk_uop *r = ok && yes ? tk_kview_substitute(v, u, from.at, to.at, from.n) : NULL;
    tk_vec_fini(&from);
    tk_vec_fini(&to);
    return r;
}

/* A range of another size in the place of r. */
static const tolk_uop *resized(tolk_graph *g, const tolk_uop *r, const tolk_uop *size) {
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    bool ok = tk_vec_push(&src, size);
    for (uint32_t i = 1; i < r->n_src && ok; i++)
        ok = tk_vec_push(&src, r->src[i]);
    const tolk_uop *out = ok ? tk_uop_with_src(g, r, src.at, src.n) : NULL;
    tk_vec_fini(&src);
    return out;
}

/* END(effect, its ranges from source `first` on with c->range replaced by `by`, or dropped if by is
 * NULL). Sizes of ranges that depend on it get its value `at` there, as they do in the effect. */
static const tolk_uop *end_with(tk_pass *p, const tk_kview *v, const tk_step *steps, const cut *c,
                                uint32_t first, const tolk_uop *effect, const tolk_uop *by,
                                const tolk_uop *at, bool main) {
    tolk_graph *g = p->g;
    const tolk_uop *end = c->closer;
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    bool ok = tk_vec_push(&src, effect);
    for (uint32_t i = first; i < end->n_src && ok; i++) {
        const tolk_uop *r =
            end->src[i] == c->range ? by : copy_with(p, v, steps, end->src[i], c, at, main);
        if (!r && end->src[i] != c->range)
            ok = false;
        else if (r)
            ok = tk_vec_push(&src, r);
    }
    const tolk_uop *r = !ok          ? NULL
                        : src.n == 1 ? effect
                                     : tk_uop(g, TK_OP_END, TOLK_VOID, src.at, src.n, NULL);
    tk_vec_fini(&src);
    return r;
}

/* END(group(a, b), the first ranges of the closer); without any, the group. */
static const tolk_uop *both_parts(tk_pass *p, const cut *c, uint32_t first, const tolk_uop *a,
                                  const tolk_uop *b) {
    tk_uops src;
    tk_vec_init(&src, p->g->al);
    const tolk_uop *group =
        a && b ? tk_uop(p->g, TK_OP_GROUP, TOLK_VOID, (const tolk_uop *[]){a, b}, 2, NULL) : NULL;
    bool ok = group && tk_vec_push(&src, group);
    for (uint32_t i = 1; i < first && ok; i++)
        ok = tk_vec_push(&src, c->closer->src[i]);
    const tolk_uop *r = !ok          ? NULL
                        : src.n == 1 ? group
                                     : tk_uop(p->g, TK_OP_END, TOLK_VOID, src.at, src.n, NULL);
    tk_vec_fini(&src);
    return r;
}

static const tolk_uop *split_closer(tk_pass *p, const tk_kview *v, const tk_step *steps,
                                    const cut *c) {
    tolk_graph *g = p->g;
    /* The range of unordered iterations stays even for a single one: it says that they are. */
    bool one_left = tk_uop_is_int(c->rest, 1) && !tk_kview_is_unordered(c->range);
    const tolk_uop *main_range = resized(g, c->range, c->main);
    const tolk_uop *rest_range = one_left ? NULL : resized(g, c->range, c->rest);
    /* Two parts of one size would be one node. */
    if (rest_range && rest_range == main_range)
        return NULL;
    const tolk_uop *at = rest_range ? tk_uop2(g, TK_OP_ADD, rest_range, c->main) : c->main;
    const tolk_uop *value = c->closer->src[0];
    const tolk_uop *a = copy_with(p, v, steps, value, c, main_range, true);
    const tolk_uop *b = copy_with(p, v, steps, value, c, at, false);
    if (!a || !b)
        return NULL;
    if (tk_uop_is(c->closer, TK_OP_END)) {
        uint32_t first = first_split(c);
        a = end_with(p, v, steps, c, first, a, main_range, main_range, true);
        b = end_with(p, v, steps, c, first, b, rest_range, at, false);
        return both_parts(p, c, first, a, b);
    }
    a = tk_uop_with_src(g, c->closer, (const tolk_uop *[]){a, main_range}, 2);
    if (rest_range)
        b = tk_uop_with_src(g, c->closer, (const tolk_uop *[]){b, rest_range}, 2);
    tk_op op = tk_op_of_rop((tk_rop)tk_uop_int(c->closer, TK_A_REDUCE_OP));
    return a && b ? tk_uop2(g, op, a, b) : NULL;
}

tolk_status tk_pass_peel(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tolk_graph *g = p->g;
    const tolk_uop *now = *root;
    for (int peels = 0; peels < MAX_PEELS && !p->items; peels++) {
        tk_kview v;
        if (!tk_kview_init(&v, now))
            return tk_status_nomem(err);
        tk_step *steps = tk_alloc(v.al, v.n_ids * sizeof *steps);
        if (!steps) {
            tk_kview_fini(&v);
            return tk_status_nomem(err);
        }
        const tolk_uop *next = NULL;
        for (size_t k = 0; k < v.order.n && !next && !tk_graph_failed(g); k++) {
            const tolk_uop *u = v.order.at[k];
            for (uint32_t i = tk_kview_closes(u); i < u->n_src && !next; i++) {
                cut c;
                if (!tk_uop_is(u->src[i], TK_OP_RANGE) || !find_cut(p, &v, steps, u, u->src[i], &c))
                    continue;
                const tolk_uop *to = split_closer(p, &v, steps, &c);
                if (to)
                    next = tk_rewrite_substitute(g, now, &u, &to, 1);
                if (next)
                    next = tk_sym(g, next);
            }
        }
        tk_alloc_free(v.al, steps, v.n_ids * sizeof *steps);
        tk_kview_fini(&v);
        if (tk_graph_failed(g))
            return tk_pass_failed(p, err);
        if (!next)
            break;
        now = next;
    }
    *root = now;
    return TOLK_OK;
}
