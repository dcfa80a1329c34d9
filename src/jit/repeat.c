/* SPDX-License-Identifier: MIT
 *
 * An END runs its effect in each iteration of its ranges, also one that names none of them
 * (docs/ir.md, "Effects"); and whatever a pass folds, the END still lists the ranges. Here each
 * store that an END repeats comes to depend on all ranges of it: its value is that value within
 * each iteration, by AFTER. So every other part of the compiler may rely on dependence alone.
 */
#include "jit/repeat.h"

#include "ir/bounds.h"
#include "ir/rewrite.h"
#include "ir/walk.h"

#include <stdlib.h>

typedef struct repeater {
    tolk_graph *g;
    tk_kview v;
    tk_walk_list effects; /* what one END repeats, each once */
    const tolk_uop **to;  /* by id: what stands in their place */
} repeater;

static int by_id(const void *pa, const void *pb) {
    const tolk_uop *a = *(const tolk_uop *const *)pa, *b = *(const tolk_uop *const *)pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* First source of an effect that is none; the sources before it are effects that it stands for. */
static uint32_t inner_effects(const tolk_uop *u) {
    bool joins = tk_uop_is(u, TK_OP_GROUP) || tk_uop_is(u, TK_OP_BARRIER);
    return joins ? u->n_src : tk_uop_is(u, TK_OP_END) ? 1 : 0;
}

/* What the END repeats, those inside of others first. */
static bool find_effects(repeater *r, const tolk_uop *end) {
    r->effects.n = 0;
    bool ok = tk_walk_repeated(end, &r->effects) == TOLK_OK;
    if (ok)
        qsort(r->effects.at, r->effects.n, sizeof *r->effects.at, by_id);
    return ok;
}

/* A range of surely one iteration is none to depend on, but for the order of registers, which are
 * read before they are stored to in an iteration (ir/before.h). */
static bool misses_range(const repeater *r, const tolk_uop *end, const tolk_uop *u, uint32_t i) {
    bool adds = tk_uop_is(u, TK_OP_ATOMIC_ADD);
    if ((!tk_uop_is(u, TK_OP_STORE) && !adds) || !tk_uop_is(end->src[i], TK_OP_RANGE) ||
        tk_kview_depends(&r->v, u, end->src[i]))
        return false;
    if (!tk_kview_is_global(tk_access_buffer(u->src[0])))
        return true;
    tk_bound size = tk_bounds(end->src[i]->src[0]);
    return size.state != 1 || size.lo != 1 || size.hi != 1;
}

static bool misses(repeater *r, const tolk_uop *end, bool *found) {
    *found = false;
    if (!find_effects(r, end))
        return false;
    for (size_t k = 0; k < r->effects.n; k++)
        for (uint32_t i = 1; i < end->n_src; i++)
            *found |= misses_range(r, end, r->effects.at[k], i);
    return true;
}

static const tolk_uop *repeated_store(repeater *r, const tolk_uop *end, const tolk_uop *store) {
    tk_uops src;
    tk_vec_init(&src, r->g->al);
    bool ok = tk_vec_push(&src, store->src[1]);
    for (uint32_t i = 1; i < end->n_src && ok; i++)
        if (misses_range(r, end, store, i))
            ok = tk_vec_push(&src, end->src[i]);
    const tolk_uop *in[3] = {store->src[0], store->src[1],
                             store->n_src == 3 ? store->src[2] : NULL};
    if (ok && src.n > 1)
        in[1] = tk_uop(r->g, TK_OP_AFTER, src.at[0]->dtype, src.at, src.n, NULL);
    tk_vec_fini(&src);
    return ok && in[1] ? tk_uop_with_src(r->g, store, in, store->n_src) : NULL;
}

/* The END with its effects repeated, after misses(). */
static const tolk_uop *repeated(repeater *r, const tolk_uop *end) {
    tk_uops src;
    tk_vec_init(&src, r->g->al);
    bool ok = true;
    for (size_t k = 0; k <= r->effects.n && ok; k++) {
        const tolk_uop *u = k < r->effects.n ? r->effects.at[k] : end;
        uint32_t inner = inner_effects(u);
        src.n = 0;
        for (uint32_t i = 0; i < u->n_src && ok; i++)
            ok = tk_vec_push(&src, i < inner ? r->to[u->src[i]->id] : u->src[i]);
        if (!ok)
            break;
        bool access = tk_uop_is(u, TK_OP_STORE) || tk_uop_is(u, TK_OP_ATOMIC_ADD);
        r->to[u->id] = access  ? repeated_store(r, end, u)
                       : inner ? tk_uop_with_src(r->g, u, src.at, src.n)
                               : u;
        ok = r->to[u->id] != NULL;
    }
    tk_vec_fini(&src);
    return ok ? r->to[end->id] : tk_graph_fail(r->g, TOLK_E_NOMEM, "out of memory");
}

/* Repeat the effects of the first END that needs it. NULL on failure. */
static const tolk_uop *one_end(tolk_graph *g, const tolk_uop *root) {
    repeater r = {.g = g};
    if (!tk_kview_init(&r.v, root))
        return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    tk_vec_init(&r.effects, r.v.al);
    r.to = tk_alloc_zero(r.v.al, r.v.n_ids * sizeof *r.to);
    bool ok = r.to != NULL, found = false;
    const tolk_uop *end = NULL, *to = NULL;
    for (size_t k = 0; k < r.v.order.n && ok && !found; k++) {
        end = r.v.order.at[k];
        if (tk_uop_is(end, TK_OP_END))
            ok = misses(&r, end, &found);
    }
    if (found)
        to = repeated(&r, end);
    tk_alloc_free(r.v.al, r.to, r.v.n_ids * sizeof *r.to);
    tk_vec_fini(&r.effects);
    tk_kview_fini(&r.v);
    if (!ok)
        return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    return !found ? root : to ? tk_rewrite_substitute(g, root, &end, &to, 1) : NULL;
}

const tolk_uop *tk_repeat_effects(tolk_graph *g, const tolk_uop *root) {
    for (;;) {
        const tolk_uop *next = one_end(g, root);
        if (!next || next == root)
            return next;
        root = next;
    }
}
