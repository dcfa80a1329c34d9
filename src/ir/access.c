/* SPDX-License-Identifier: MIT */
#include "ir/access.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/linear.h"
#include "ir/shape.h"
#include "ir/walk.h"

#include <string.h>

const tolk_uop *tk_access_buffer(const tolk_uop *u) {
    return tk_access_base(tk_uop_is(u, TK_OP_INDEX) ? u->src[0] : u);
}

/* ---- inside its buffer ---- */

const tolk_uop *tk_access_ungate(const tolk_uop *index, const tolk_uop **gate) {
    while (tk_uop_is(index, TK_OP_WHERE) && tk_uop_is_invalid(index->src[2])) {
        const tolk_uop *valid = index->src[0];
        *gate = *gate && *gate != valid ? tk_uop2(index->graph, TK_OP_AND, *gate, valid) : valid;
        if (!*gate)
            return NULL;
        index = index->src[1];
    }
    return index;
}

bool tk_access_proved(const tolk_uop *place, const tolk_uop *gate) {
    const tolk_uop *index[TK_MAX_RANK];
    const tk_shape *shape = NULL;
    if (!tk_uop_is(place, TK_OP_INDEX) || place->n_src - 1 > TK_MAX_RANK ||
        tk_shape_get(tk_access_buffer(place), &shape, NULL, NULL) != TOLK_OK ||
        shape->rank != place->n_src - 1)
        return false;
    /* A gate on one index gates the access, so it holds for the others, too. */
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (tk_uop_lanes(place->src[i + 1]) > 1)
            return false;
        index[i] = tk_access_ungate(place->src[i + 1], &gate);
        if (!index[i])
            return false;
    }
    for (uint32_t i = 0; i < shape->rank; i++)
        if (tk_uop_is_invalid(index[i]))
            return true; /* never accessed */
    for (uint32_t i = 0; i < shape->rank; i++)
        if (!tk_bounds_prove_lt(index[i], shape->dim[i], gate))
            return false;
    return true;
}

/* ---- in place ---- */

enum { PLACES_NONE, PLACES_SAME, PLACES_MANY };

/* All accesses of one param. */
typedef struct use {
    const tolk_uop *param;
    const tolk_uop *place; /* of all its accesses, if there is one */
    const tolk_uop *store; /* if there is one only */
    uint32_t n_stores;
    bool loaded, odd; /* odd: accessed in a way that rules out sharing */
} use;

typedef struct inplace {
    tk_walk_ranges w;
    TK_VEC(use) uses;
    tk_walk_map use_of;             /* PARAM -> use + 1 */
    tk_walk_map closers;            /* RANGE -> number of nodes that close it */
    tk_walk_map below, above;       /* nodes that the store at hand reaches; that reach it */
    TK_VEC(const tolk_uop *) loops; /* what the index at hand tells apart */
    const tolk_allocator *al;
    bool no_memory; /* where there was no proof */
} inplace;

static use *use_at(inplace *a, const tolk_uop *param) {
    uint32_t k = tk_walk_map_get(&a->use_of, param->id);
    return k ? &a->uses.at[k - 1] : NULL;
}

static bool collect(inplace *a) {
    for (size_t i = 0; i < a->w.nodes.n; i++) {
        const tolk_uop *u = a->w.nodes.at[i];
        tk_op op = tk_uop_op(u);
        for (uint32_t k = tk_walk_closes_from(u); k < u->n_src; k++) {
            uint32_t n = tk_walk_map_get(&a->closers, u->src[k]->id);
            if (!tk_walk_map_put(&a->closers, u->src[k]->id, n + 1))
                return false;
        }
        if (op == TK_OP_PARAM && tk_check_is_buffer(u)) {
            use fresh = {.param = u};
            if (!tk_vec_push(&a->uses, fresh) ||
                !tk_walk_map_put(&a->use_of, u->id, (uint32_t)a->uses.n))
                return false;
        }
        if (op != TK_OP_LOAD && op != TK_OP_STORE && op != TK_OP_ATOMIC_ADD)
            continue;
        const tolk_uop *place = u->src[0];
        use *x = use_at(a, tk_access_buffer(place));
        if (!x)
            continue; /* scratch memory */
        x->odd = x->odd || op == TK_OP_ATOMIC_ADD || place->src[0] != x->param ||
                 (x->place && x->place != place);
        x->place = place;
        x->loaded = x->loaded || op == TK_OP_LOAD;
        x->n_stores += op != TK_OP_LOAD;
        x->store = op == TK_OP_STORE ? u : x->store;
    }
    return true;
}

static bool same_places(const tolk_uop *p, const tolk_uop *q) {
    if (p->n_src != q->n_src)
        return false;
    for (uint32_t i = 1; i < p->n_src; i++)
        if (p->src[i] != q->src[i])
            return false;
    const tolk_uop *x = p->src[0], *y = q->src[0]; /* params, without after */
    return tolk_dtype_bytes(x->dtype) == tolk_dtype_bytes(y->dtype) && x->n_src == y->n_src &&
           (x->n_src == 0 || x->src[0] == y->src[0]);
}

/* Does this index differ wherever one of its loop variables does? They are added to a->loops. Terms
 * are sorted by their coefficients: each step must be longer than all shorter ones together. */
static bool tells_apart(inplace *a, const tolk_uop *index) {
    tk_linear sum;
    while (tk_uop_is(index, TK_OP_WHERE) && tk_uop_is_invalid(index->src[2]))
        index = index->src[1];
    if (tk_uop_is_invalid(index))
        return true;
    tk_linear_of(index, &sum);
    bool alone = sum.n == 1 && sum.at[0].c == 1;
    if (!alone && !tk_linear_exact(&sum, NULL))
        return false;
    tk_wide reach = 0;
    bool taken[TK_LINEAR_MAX] = {false};
    for (uint32_t step = 0; step < sum.n; step++) {
        uint32_t best = TK_LINEAR_MAX;
        tk_wide least = 0;
        for (uint32_t i = 0; i < sum.n; i++) {
            tk_wide c = sum.at[i].c < 0 ? -(tk_wide)sum.at[i].c : sum.at[i].c;
            if (!taken[i] && (best == TK_LINEAR_MAX || c < least)) {
                best = i;
                least = c;
            }
        }
        taken[best] = true;
        const tolk_uop *t = sum.at[best].u;
        if (tk_check_is_scalar_param(t))
            continue; /* the same everywhere */
        if (!tk_uop_is(t, TK_OP_RANGE) && !tk_uop_is(t, TK_OP_SPECIAL))
            return false;
        if (least <= reach)
            return false;
        if (!tk_vec_push(&a->loops, t)) {
            a->no_memory = true;
            return false;
        }
        tk_wide part;
        if (__builtin_mul_overflow(least, (tk_wide)tk_bounds(t).hi, &part) ||
            __builtin_add_overflow(reach, part, &reach))
            return false;
    }
    return true;
}

static bool told_apart(const inplace *a, const tolk_uop *loop) {
    for (size_t i = 0; i < a->loops.n; i++)
        if (a->loops.at[i] == loop)
            return true;
    return false;
}

/* Marks what the store reaches, and what reaches it. */
static bool mark(inplace *a, const tolk_uop *store) {
    bool ok = tk_walk_map_put(&a->below, store->id, 1) && tk_walk_map_put(&a->above, store->id, 1);
    for (size_t i = a->w.nodes.n; ok && i-- > 0;) {
        const tolk_uop *u = a->w.nodes.at[i];
        for (uint32_t k = 0; ok && tk_walk_map_get(&a->below, u->id) && k < u->n_src; k++)
            ok = tk_walk_map_put(&a->below, u->src[k]->id, 1);
    }
    for (size_t i = 0; ok && i < a->w.nodes.n; i++) {
        const tolk_uop *u = a->w.nodes.at[i];
        for (uint32_t k = 0; ok && k < u->n_src; k++)
            if (tk_walk_map_get(&a->above, u->src[k]->id))
                ok = tk_walk_map_put(&a->above, u->id, 1);
    }
    return ok;
}

static bool in_loops(const inplace *a, const tolk_uop *u) {
    const uint64_t *set = tk_walk_ranges_of(&a->w, u);
    for (size_t q = 0; q < a->w.ranges.n; q++)
        if ((set[q / 64] >> q % 64 & 1) && !told_apart(a, a->w.ranges.at[q]))
            return false;
    return true;
}

/* Each iteration of all loops around the store has an element of its own: the loops are told apart
 * by the index, and nothing else closes them. Nothing is read behind the store. */
static bool store_is_own(inplace *a, const tolk_uop *store) {
    if (!in_loops(a, store))
        return false;
    for (size_t i = 0; i < a->loops.n; i++)
        if (tk_uop_is(a->loops.at[i], TK_OP_RANGE) &&
            tk_walk_map_get(&a->closers, a->loops.at[i]->id) != 1)
            return false;
    for (size_t i = 0; i < a->w.nodes.n; i++) {
        const tolk_uop *u = a->w.nodes.at[i];
        if (tk_uop_is(u, TK_OP_SPECIAL) && !told_apart(a, u))
            return false;
        if (!tk_walk_map_get(&a->above, u->id))
            continue;
        if (tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_REDUCE))
            return false;
        for (uint32_t k = 1; tk_uop_is(u, TK_OP_END) && k < u->n_src; k++)
            if (!told_apart(a, u->src[k]))
                return false;
    }
    return true;
}

/* Every load of the param is done before the store of the same iteration, because the store needs
 * its value, and is done once in it. */
static bool loads_come_first(const inplace *a, const use *x) {
    for (size_t i = 0; i < a->w.nodes.n; i++) {
        const tolk_uop *u = a->w.nodes.at[i];
        if (tk_uop_is(u, TK_OP_LOAD) && u->src[0] == x->place &&
            (!tk_walk_map_get(&a->below, u->id) || !in_loops(a, u)))
            return false;
    }
    return true;
}

static bool may_share(const use *stored, const use *loaded) {
    return loaded != stored && loaded->loaded && !loaded->n_stores && !loaded->odd &&
           same_places(stored->place, loaded->place);
}

/* Appends the pairs of one stored param; false when out of memory. */
static bool pairs_of(inplace *a, const use *stored, tk_access_pairs *out) {
    if (stored->odd || stored->n_stores != 1 || !stored->store)
        return true;
    bool any = false;
    for (size_t i = 0; i < a->uses.n && !any; i++)
        any = may_share(stored, &a->uses.at[i]);
    if (!any)
        return true;
    a->loops.n = 0;
    for (uint32_t i = 1; i < stored->place->n_src; i++)
        if (!tells_apart(a, stored->place->src[i]))
            return !a->no_memory;
    tk_walk_map_init(&a->below, a->al);
    tk_walk_map_init(&a->above, a->al);
    bool ok = mark(a, stored->store);
    if (ok && store_is_own(a, stored->store))
        for (size_t i = 0; ok && i < a->uses.n; i++) {
            const use *x = &a->uses.at[i];
            if (!may_share(stored, x) || !loads_come_first(a, x))
                continue;
            tk_access_pair pair = {tk_uop_int(x->param, TK_A_PARAM_SLOT),
                                   tk_uop_int(stored->param, TK_A_PARAM_SLOT)};
            ok = tk_vec_push(out, pair);
        }
    tk_walk_map_fini(&a->below);
    tk_walk_map_fini(&a->above);
    return ok;
}

tolk_status tk_access_inplace(const tolk_uop *kernel, tk_access_pairs *out) {
    inplace a = {.al = kernel->graph->al};
    tk_vec_init(&a.uses, a.al);
    tk_vec_init(&a.loops, a.al);
    tk_walk_map_init(&a.use_of, a.al);
    tk_walk_map_init(&a.closers, a.al);
    tolk_status st = tk_walk_ranges_init(&a.w, kernel, a.al);
    bool ok = st != TOLK_OK || collect(&a);
    for (size_t i = 0; st == TOLK_OK && ok && i < a.uses.n; i++)
        ok = pairs_of(&a, &a.uses.at[i], out);
    tk_walk_ranges_fini(&a.w);
    tk_walk_map_fini(&a.closers);
    tk_walk_map_fini(&a.use_of);
    tk_vec_fini(&a.loops);
    tk_vec_fini(&a.uses);
    return ok ? st : TOLK_E_NOMEM;
}

bool tk_access_pairs_has(const tk_access_pairs *pairs, int64_t a, int64_t b) {
    for (size_t i = 0; i < pairs->n; i++) {
        const tk_access_pair *p = &pairs->at[i];
        if ((p->loaded == a && p->stored == b) || (p->loaded == b && p->stored == a))
            return true;
    }
    return false;
}
