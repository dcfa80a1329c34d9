/* SPDX-License-Identifier: MIT
 *
 * pass_given: a program that was given as such.
 *
 * Needs:  stage program, verified; may belong to another graph.
 * Leaves: stage program in p->g, in which what is listed again has the value that it had before, or
 *         is used by what is listed right behind it alone: passes may look through each node.
 *         p->given is the program as it was. p->items: pass_items is to make the loop over groups
 *         and work-items; else the program has a span of its own, which is p->span.
 * Errors: TOLK_E_UNSUPPORTED for wmma, naming what was met.
 *
 * A node that a program lists twice is executed twice, and its users see the last time. Here such a
 * value goes through a register: stored where it is made, loaded where it is used. It needs none if
 * it is made of nothing else: then it is the same each time.
 */
#include "ir/dtype.h"
#include "jit/items_plan.h"
#include "jit/list.h"
#include "jit/pass.h"
#include "jit/reg.h"

typedef struct rewriter {
    tolk_graph *g;
    const tolk_uop *linear;
    size_t n_ids;
    tk_list list;
    uint8_t *times;          /* by id: how often a node is listed, 2 and more are 2 */
    bool *stable;            /* by id: its value is the same wherever it is in the list */
    const tolk_uop **now;    /* by id: what stands for a node, where it was listed last */
    const tolk_uop **reg;    /* by id: the register of one that is not stable ... */
    const tolk_uop **stored; /* ... the last store to it ... */
    const tolk_uop **within; /* ... and the loop in which that is */
    tk_uops loops;           /* by scope: the innermost loop; NULL: none */
    int64_t next_reg;
} rewriter;

static bool is_carried(const rewriter *s, const tolk_uop *u) {
    return !s->stable[u->id] && u->dtype != TOLK_VOID && !tk_uop_is(u, TK_OP_RANGE);
}

/* What was stored last, seen from here: in the next iteration of a loop that was opened since, it
 * may be what is stored further down in there. */
static const tolk_uop *carried(rewriter *s, const tolk_uop *u) {
    const tolk_uop *reg = s->reg[u->id], *loop = tk_vec_last(&s->loops);
    const tolk_uop *src[2] = {reg, loop};
    if (reg && loop && loop != s->within[u->id])
        reg = tk_uop(s->g, TK_OP_AFTER, reg->dtype, src, 2, NULL);
    return tk_list_placed(&s->list, tk_reg_load(s->g, reg, 0, s->stored[u->id]));
}

static const tolk_uop *source(rewriter *s, const tolk_uop *u, uint32_t i) {
    const tolk_uop *x = u->src[i], *now = s->now[x->id];
    if (!now || !is_carried(s, x))
        return now;
    if (tk_items_is_value(u, i))
        return carried(s, x);
    if (!tk_items_is_place(x))
        return now;
    const tolk_uop *src[2] = {now->src[0], carried(s, x)};
    return src[1] ? tk_uop(s->g, TK_OP_INDEX, now->dtype, src, 2, NULL) : NULL;
}

static bool list(rewriter *s, const tolk_uop *u, const tolk_uop *r) {
    tk_list *l = &s->list;
    if (tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(u, TK_OP_IF)) {
        const tolk_uop *loop = tk_uop_is(u, TK_OP_RANGE) ? r : tk_vec_last(&s->loops);
        return tk_vec_push(&s->loops, loop) && tk_list_open(l, r);
    }
    if (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_ENDIF)) {
        s->loops.n--;
        return tk_list_close(l, r);
    }
    return tk_list_is_pure(u) && s->stable[u->id] ? tk_list_place(l, r) : tk_list_again(l, r);
}

static bool entry(rewriter *s, const tolk_uop *u) {
    tk_uops src;
    tk_vec_init(&src, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < u->n_src && ok; i++) {
        const tolk_uop *x = source(s, u, i);
        ok = x && tk_vec_push(&src, x);
    }
    const tolk_uop *r = ok ? tk_uop_with_src(s->g, u, src.at, src.n) : NULL;
    tk_vec_fini(&src);
    if (!r || !list(s, u, r))
        return false;
    s->now[u->id] = r;
    if (!is_carried(s, u))
        return true;
    const tolk_uop *x = tk_items_is_place(u) ? r->src[1] : r;
    if (!s->reg[u->id])
        s->reg[u->id] = tk_reg_buffer(s->g, x->dtype, 1, s->next_reg++);
    s->within[u->id] = tk_vec_last(&s->loops);
    s->stored[u->id] =
        tk_list_placed(&s->list, tk_reg_store(s->g, s->reg[u->id], 0, x, s->stored[u->id]));
    return s->stored[u->id] != NULL;
}

/* Sources have lower ids than their users. */
static void find_stable(rewriter *s) {
    for (size_t id = 0; id < s->n_ids; id++) {
        const tolk_uop *u = s->g->nodes.at[id];
        bool same = tk_list_is_pure(u);
        for (uint32_t i = 0; i < u->n_src && same; i++)
            same = u->src[i]->dtype == TOLK_VOID || s->stable[u->src[i]->id];
        s->stable[id] = same || s->times[id] < 2 || tk_uop_is(u, TK_OP_AFTER);
    }
}

static const tolk_uop *run(rewriter *s) {
    const tolk_uop *l = s->linear;
    tk_uops nodes;
    tk_vec_init(&nodes, s->g->al);
    bool ok = tk_vec_push(&s->loops, NULL), again = false;
    for (uint32_t i = 0; i < l->n_src && ok; i++) {
        uint8_t *t = &s->times[l->src[i]->id];
        *t = *t < 2 ? *t + 1 : 2;
        again |= *t > 1;
        ok = tk_vec_push(&nodes, l->src[i]);
    }
    s->next_reg = ok ? tk_items_free_slot(&nodes) : 0;
    tk_vec_fini(&nodes);
    if (ok && !again)
        return l;
    find_stable(s);
    for (uint32_t i = 0; i < l->n_src && ok; i++)
        ok = entry(s, l->src[i]);
    return ok ? tk_list_linear(&s->list, l) : NULL;
}

/* What is listed again, through registers. */
static const tolk_uop *registers(tk_pass *p, const tolk_uop *linear) {
    rewriter s = {.g = p->g, .linear = linear, .n_ids = (size_t)linear->id + 1};
    const tolk_allocator *al = p->g->al;
    size_t n = s.n_ids * sizeof *s.now;
    tk_vec_init(&s.loops, al);
    s.times = tk_alloc_zero(al, s.n_ids);
    s.stable = tk_alloc_zero(al, s.n_ids * sizeof *s.stable);
    s.now = tk_alloc_zero(al, n);
    s.reg = tk_alloc_zero(al, n);
    s.stored = tk_alloc_zero(al, n);
    s.within = tk_alloc_zero(al, n);
    bool ok = tk_list_init(&s.list, p->g) && s.times && s.stable && s.now && s.reg && s.stored &&
              s.within;
    const tolk_uop *r = ok ? run(&s) : NULL;
    tk_alloc_free(al, s.times, s.n_ids);
    tk_alloc_free(al, s.stable, s.n_ids * sizeof *s.stable);
    tk_alloc_free(al, s.now, n);
    tk_alloc_free(al, s.reg, n);
    tk_alloc_free(al, s.stored, n);
    tk_alloc_free(al, s.within, n);
    tk_vec_fini(&s.loops);
    tk_list_fini(&s.list);
    return r ? r : tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
}

/* ---- as it is ---- */

static tolk_status check_supported(const tolk_uop *u, tolk_error *err) {
    if (!tk_uop_is(u, TK_OP_WMMA))
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, u->id,
                          "%s: the CPU compiler does not have this op",
                          tk_op_get(tk_uop_op(u))->name);
}

/* The program in p->g, as it is. */
static tolk_status copy(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    tk_uops src;
    tk_vec_init(&src, v.al);
    const tolk_uop **map = tk_alloc_zero(v.al, v.n_ids * sizeof *map);
    tolk_status st = map ? TOLK_OK : tk_status_nomem(err);
    for (size_t k = 0; k < v.order.n && st == TOLK_OK; k++) {
        const tolk_uop *u = v.order.at[k];
        st = check_supported(u, err);
        if (st == TOLK_OK && !tk_vec_resize(&src, u->n_src))
            st = tk_status_nomem(err);
        for (uint32_t i = 0; i < u->n_src && st == TOLK_OK; i++)
            src.at[i] = map[u->src[i]->id];
        if (st == TOLK_OK && !(map[u->id] = tk_uop_import(p->g, u, src.at)))
            st = tk_pass_failed(p, err);
    }
    if (st == TOLK_OK)
        *root = map[(*root)->id];
    tk_alloc_free(v.al, map, v.n_ids * sizeof *map);
    tk_vec_fini(&src);
    tk_kview_fini(&v);
    return st;
}

/* The special by which the program says itself which part of a span it runs, or NULL. */
static const tolk_uop *find_span(const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (tk_items_is_span(linear->src[i]))
            return linear->src[i];
    return NULL;
}

tolk_status tk_pass_given(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    if (p->opts && *p->opts)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "loop options \"%.60s\": a program has its loops already, expected a "
                              "kernel",
                              p->opts);
    if (tk_target_is_gpu(p->target))
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "the compiler for GPUs takes kernels, no programs");
    TK_TRY(copy(p, root, err));
    p->given = *root;
    const tolk_uop *span = find_span(*root), *one = tk_uop_index_const(p->g, 1);
    p->items = span == NULL;
    if (span)
        p->span = tk_items_has_local(*root) ? one : tk_uop2(p->g, TK_OP_SUB, span->src[0], one);
    if (!one || (span && !p->span))
        return tk_pass_failed(p, err);
    p->lanes = 1;
    for (uint32_t i = 0; i < (*root)->n_src; i++)
        if (tk_uop_lanes((*root)->src[i]) > p->lanes)
            p->lanes = tk_uop_lanes((*root)->src[i]);
    const tolk_uop *r = registers(p, *root);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
