/* SPDX-License-Identifier: MIT
 *
 * pass_lower: the loop nest becomes a straight list of instructions.
 *
 * Needs:  stage kernel, flattened and decomposed; ranges of kind upcast, unroll and lane only where
 *         lower_kinds.c left them.
 * Leaves: stage program: a LINEAR. p->span is the number of iterations of the flattened global
 *         range.
 *
 * How it works. A walk from the sink visits each node once for each *scope* (the body of one loop)
 * in which its value is needed: the innermost one among the loops it depends on. A visited node's
 * value is an array with one entry for each combination of the unrolled ranges it depends on; an
 * entry is uniform (a scalar), affine in the lane (base + lane * stride, for indices), or a vector.
 *
 * Pure instructions are not listed when they are made but when something needs them, and then in
 * the innermost scope among those of their sources: so everything is hoisted out of every loop that
 * it does not depend on. Loads are listed when visited, effects too, and a load's order token
 * (AFTER) is among its sources, so neither moves across the effect it waits for.
 */
#include "jit/lower.h"

#include "ir/check.h"

/* ---- one node ---- */

static bool emit_after(tk_lower *l, const tolk_uop *u) {
    tk_uops src;
    tk_vec_init(&src, l->al);
    tk_lval *base = tk_lower_values(l, u->src[0]);
    const tolk_uop *buffer = base[0].u;
    bool ok = tk_vec_push(&src, buffer);
    for (uint32_t i = 1; i < u->n_src && ok; i++) {
        const tolk_uop *d = u->src[i], *token = NULL;
        if (tk_uop_is(d, TK_OP_RANGE)) {
            uint32_t no = tk_kview_no(&l->v, d);
            token = l->range_scope[no] > 0 ? l->range_value[no] : NULL;
        } else {
            tk_lval *e = tk_lower_values(l, d);
            token = e ? e[0].u : NULL;
        }
        if (token)
            ok = tk_vec_push(&src, token);
    }
    /* Values may be AFTER too; only buffers need the token, values are pinned by their loads. */
    const tolk_uop *root = tk_access_buffer(u);
    bool is_buffer = tk_uop_is(root, TK_OP_BUFFER) ||
                     (tk_uop_is(root, TK_OP_PARAM) && !tk_check_is_scalar_param(root));
    const tolk_uop *r = !ok ? NULL
                        : src.n > 1 && is_buffer
                            ? tk_uop(l->g, TK_OP_AFTER, buffer->dtype, src.at, src.n, NULL)
                            : buffer;
    tk_vec_fini(&src);
    uint32_t n = is_buffer ? 1 : tk_lower_instances(l, tk_kview_set(&l->v, u));
    tk_lval *v = r ? tk_lower_new_values(l, u, n) : NULL;
    for (uint32_t k = 0; v && k < n; k++) {
        tk_lval x = is_buffer ? tk_lval_uniform(r) : tk_lower_source(l, u, k, 0);
        tk_lower_values(l, u)[k] = x;
    }
    return v != NULL;
}

static bool emit(tk_lower *l, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = tk_lower_instances(l, set);
    if (n > TK_LOWER_MAX_INSTANCES) {
        tk_graph_fail(l->g, TOLK_E_LIMIT, "%s: more than %d copies by unrolling",
                      tk_op_get(op)->name, TK_LOWER_MAX_INSTANCES);
        return false;
    }
    tk_lval *v;
    switch (op) {
    case TK_OP_LOAD:
        return tk_lower_load(l, u);
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return tk_lower_store(l, u);
    case TK_OP_SHUFFLE:
        return tk_lower_shuffle(l, u);
    case TK_OP_SPECIAL:
        if (!(v = tk_lower_new_values(l, u, 1)))
            return false;
        v[0] = tk_lval_uniform(u);
        return true;
    case TK_OP_AFTER:
        return emit_after(l, u);
    case TK_OP_RANGE: {
        uint32_t no = tk_kview_no(&l->v, u);
        tk_axis kind = tk_kview_axis(u);
        if (!(v = tk_lower_new_values(l, u, n)))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            if (tk_lower_is_unrolled(kind))
                v[k] = tk_lval_uniform(tk_uop_index_const(l->g, k));
            else if (kind == TK_AXIS_LANE)
                v[k] = (tk_lval){tk_uop_index_const(l->g, 0), 1};
            else
                v[k] = tk_lval_uniform(l->range_value[no]);
            if (!v[k].u)
                return false;
        }
        return true;
    }
    case TK_OP_BUFFER: {
        tk_lower_reg *reg = tk_lower_reg_info(l, u);
        if (!(v = tk_lower_new_values(l, u, 1)))
            return false;
        v[0] = tk_lval_uniform(reg ? reg->program : u);
        return true;
    }
    case TK_OP_INDEX:
        if (!tk_lower_new_values(l, u, n))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            tk_lval at = tk_lower_source(l, u, k, 1);
            tk_lower_values(l, u)[k] = at;
        }
        return true;
    case TK_OP_BARRIER:
        return tk_lower_barrier(l, u);
    case TK_OP_GROUP:
    case TK_OP_SINK: {
        const tolk_uop *token = NULL;
        for (uint32_t i = 0; i < u->n_src; i++) {
            tk_lval *e = tk_lower_values(l, u->src[i]);
            if (e && e[0].u)
                token = e[0].u;
        }
        if (!(v = tk_lower_new_values(l, u, 1)))
            return false;
        v[0] = tk_lval_uniform(token);
        return true;
    }
    default:
        break;
    }
    if (op == TK_OP_CONST || op == TK_OP_PARAM) {
        if (!(v = tk_lower_new_values(l, u, 1)))
            return false;
        v[0] = tk_lval_uniform(u);
        return true;
    }
    if (!tk_op_is_alu(op)) {
        tk_graph_fail(l->g, TOLK_E_UNSUPPORTED, "%s: not expected in a lowered kernel",
                      tk_op_get(op)->name);
        return false;
    }
    uint32_t lanes = tk_lower_lanes(l, u);
    if (!tk_lower_new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval s[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
        for (uint32_t i = 0; i < u->n_src; i++)
            s[i] = tk_lower_source(l, u, k, i);
        tk_lval r = tk_lower_alu(l, u, s, lanes);
        if (!r.u)
            return false;
        tk_lower_values(l, u)[k] = r;
    }
    return true;
}

/* ---- the walk ---- */

static bool push_frame(tk_lower *l, const tolk_uop *u) {
    tk_lower_frame f = {.u = u, .scope = -1};
    return tk_vec_push(&l->frames, f);
}

/* Sources that are visited before a node; shapes of buffers are not. */
static uint32_t visited_sources(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) || tk_uop_is(u, TK_OP_RANGE))
        return 0;
    return u->n_src;
}

/* What of source i is visited: closed ranges only for their sizes, ordering ranges not at all. */
static const tolk_uop *to_visit(const tk_kview *v, const tolk_uop *u, uint32_t i) {
    const tolk_uop *s = u->src[i];
    if (i == 0 || !tk_uop_is(s, TK_OP_RANGE))
        return s;
    if (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE)) {
        /* A size that depends on a loop of this node is visited when that is open. */
        for (uint32_t k = 1; k < u->n_src; k++)
            if (tk_uop_is(u->src[k], TK_OP_RANGE) && tk_kview_depends(v, s->src[0], u->src[k]))
                return NULL;
        return s->src[0];
    }
    return tk_uop_is(u, TK_OP_AFTER) ? NULL : s;
}

/* Visit root and all it needs, in the scopes that are open now. */
bool tk_lower_visit(tk_lower *l, const tolk_uop *root) {
    size_t bottom = l->frames.n;
    if (!push_frame(l, root))
        return false;
    while (l->frames.n > bottom) {
        tk_lower_frame *f = &tk_vec_last(&l->frames);
        const tolk_uop *u = f->u;
        bool closer = tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE);
        if (f->next == 0 && f->stage == 0) {
            if (tk_lower_values(l, u)) {
                l->frames.n--;
                continue;
            }
            f->scope = tk_lower_scope_of(l, u);
            f->stage = 1;
            f->next = closer ? 1 : 0;
        }
        /* Closers: the sizes of their ranges first, then their loops open, then source 0. */
        if (f->stage == 1) {
            uint32_t n_before, n = visited_sources(u);
            const tk_before_pair *before = tk_before_of(&l->before, u, &n_before);
            const tolk_uop *s = NULL;
            while (f->next < n_before + n && !s) {
                uint32_t i = f->next++;
                s = i < n_before ? before[i].load : to_visit(&l->v, u, i - n_before);
                if (s && tk_lower_values(l, s))
                    s = NULL;
            }
            if (s) {
                if (!push_frame(l, s))
                    return false;
                continue;
            }
            f->stage = 2;
            if (closer) {
                /* Opening may visit sizes, and so move the frames. */
                tk_lower_frame opened = *f;
                size_t at = l->frames.n - 1;
                bool ok = tk_uop_is(u, TK_OP_REDUCE) ? tk_lower_enter_reduce(l, u, &opened)
                                                     : tk_lower_open_loops(l, u, &opened);
                if (!ok)
                    return false;
                l->frames.at[at] = opened;
                if (!push_frame(l, u->src[0]))
                    return false;
                continue;
            }
        }
        bool ok = tk_uop_is(u, TK_OP_REDUCE) ? tk_lower_leave_reduce(l, u, f)
                  : tk_uop_is(u, TK_OP_END)  ? tk_lower_leave_end(l, u, f)
                                             : emit(l, u);
        if (!ok || tk_graph_failed(l->g))
            return false;
        l->frames.n--;
    }
    return true;
}

bool tk_lower_visit_end(tk_lower *l, const tk_lower_frame *start) {
    tk_lower_frame f = *start;
    for (uint32_t i = f.first_loop; i < f.u->n_src; i++)
        if (to_visit(&l->v, f.u, i) && !tk_lower_visit(l, f.u->src[i]->src[0]))
            return false;
    if (!tk_lower_open_loops(l, f.u, &f))
        return false;
    return tk_lower_visit(l, f.u->src[0]) && tk_lower_leave_end(l, f.u, &f);
}

bool tk_lower_done(tk_lower *l, const tolk_uop *effect, const tolk_uop *token) {
    tk_lval *v = tk_lower_new_values(l, effect, 1);
    if (v)
        v[0] = tk_lval_uniform(token);
    return v != NULL;
}

const tolk_uop *tk_lower_token(const tk_lower *l, const tolk_uop *effect) {
    tk_lval *v = tk_lower_values(l, effect);
    return v ? v[0].u : NULL;
}
