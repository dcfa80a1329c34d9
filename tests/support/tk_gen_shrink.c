/* SPDX-License-Identifier: MIT
 *
 * Making a kernel or program that fails smaller.
 */
#include "support/tk_gen.h"

#include "ir/dtype.h"
#include "ir/rewrite.h"
#include "ir/uop.h"
#include "ir/walk.h"

static const tolk_uop *accept(const tolk_uop *now, const tolk_uop *next,
                              bool (*fails)(const tolk_uop *, void *), void *user) {
    tolk_stage stage = tk_uop_is(now, TK_OP_LINEAR) ? TOLK_STAGE_PROGRAM : TOLK_STAGE_KERNEL;
    if (!next || next == now || tolk_verify(next, stage, NULL) != TOLK_OK)
        return NULL;
    return fails(next, user) ? next : NULL;
}

static const tolk_uop *try_node(const tolk_uop *root, const tolk_uop *u,
                                bool (*fails)(const tolk_uop *, void *), void *user) {
    tolk_graph *g = root->graph;
    const tolk_uop *to[8];
    uint32_t n = 0;
    tk_class cls = tk_op_get(tk_uop_op(u))->cls;
    bool value = cls == TK_CLASS_ALU1 || cls == TK_CLASS_ALU2 || cls == TK_CLASS_ALU3 ||
                 tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_REDUCE);
    if (value && u->dtype != TOLK_INDEX) {
        to[n++] = tk_uop_const(g, u->dtype, 1);
        to[n++] = tk_uop_const(g, u->dtype, 0);
    } else if (value) {
        to[n++] = tk_uop_index_const(g, 0);
    }
    if (value)
        for (uint32_t i = 0; i < u->n_src && n < 7; i++)
            if (u->src[i]->dtype == u->dtype && !tk_uop_is(u->src[i], TK_OP_RANGE) &&
                !tk_uop_is(u->src[i], TK_OP_INDEX) && !tk_uop_is_invalid(u->src[i]))
                to[n++] = u->src[i];
    if (tk_uop_is(u, TK_OP_LOAD) && u->n_src == 3)
        to[n++] = tk_uop(g, TK_OP_LOAD, u->dtype, u->src, 1, u->attr);
    if (tk_uop_is(u, TK_OP_STORE) && u->n_src == 3)
        to[n++] = tk_uop(g, TK_OP_STORE, TOLK_VOID, u->src, 2, u->attr);
    if (tk_uop_is_const(u) && u->dtype == TOLK_INDEX && u->attr[0].i > 1) {
        to[n++] = tk_uop_index_const(g, 1);
        to[n++] = tk_uop_index_const(g, u->attr[0].i / 2);
        to[n++] = tk_uop_index_const(g, u->attr[0].i - 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        const tolk_uop *r = to[i] ? tk_rewrite_substitute(g, root, &u, &to[i], 1) : NULL;
        tolk_graph_clear_error(g);
        if ((r = accept(root, r, fails, user)))
            return r;
    }
    return NULL;
}

/* ---- programs ---- */

/* The list without entries [from, to), and without those behind that need one of them. */
static const tolk_uop *without(const tolk_uop *linear, uint32_t from, uint32_t to) {
    TK_VEC(const tolk_uop *) list;
    bool *listed = tk_alloc_zero(&tk_alloc_malloc, (size_t)linear->id + 1);
    tk_vec_init(&list, &tk_alloc_malloc);
    bool ok = listed != NULL;
    for (uint32_t i = 0; i < linear->n_src && ok; i++) {
        const tolk_uop *u = linear->src[i];
        bool keep = i < from || i >= to;
        for (uint32_t k = 0; k < u->n_src && keep; k++)
            keep = listed[u->src[k]->id];
        if (!keep)
            continue;
        listed[u->id] = true;
        ok = tk_vec_push(&list, u);
    }
    const tolk_uop *r = ok && list.n < linear->n_src
                            ? tk_uop_with_src(linear->graph, linear, list.at, list.n)
                            : NULL;
    tk_vec_fini(&list);
    tk_alloc_free(&tk_alloc_malloc, listed, (size_t)linear->id + 1);
    return r;
}

/* Drop halves, quarters ... and single instructions, the last ones first, these until none goes. */
static const tolk_uop *shrink_program(const tolk_uop *now, bool (*fails)(const tolk_uop *, void *),
                                      void *user) {
    for (uint32_t step = now->n_src / 2; step > 0;) {
        uint32_t before = now->n_src;
        for (uint32_t to = now->n_src; to > 0;) {
            uint32_t from = to > step ? to - step : 0;
            const tolk_uop *next = accept(now, without(now, from, to), fails, user);
            now = next ? next : now;
            to = from < now->n_src ? from : now->n_src;
        }
        if (step > 1 || now->n_src == before)
            step /= 2;
    }
    return now;
}

const tolk_uop *tk_gen_shrink(const tolk_uop *kernel, bool (*fails)(const tolk_uop *, void *),
                              void *user) {
    const tolk_uop *now = kernel;
    if (tk_uop_is(kernel, TK_OP_LINEAR))
        return shrink_program(kernel, fails, user);
    for (uint32_t i = 0; i < now->n_src && now->n_src > 1;) {
        const tolk_uop *src[64];
        uint32_t n = 0;
        for (uint32_t k = 0; k < now->n_src && n < 64; k++)
            if (k != i)
                src[n++] = now->src[k];
        const tolk_uop *next = accept(now, tk_uop_with_src(now->graph, now, src, n), fails, user);
        if (next)
            now = next;
        else
            i++;
    }
    bool again = true;
    for (int round = 0; again && round < 60; round++) {
        again = false;
        tk_walk_list nodes;
        tk_vec_init(&nodes, &tk_alloc_malloc);
        assert_int_equal(tk_walk(now, &nodes), TOLK_OK);
        for (size_t i = nodes.n; i-- && !again;) {
            const tolk_uop *next = try_node(now, nodes.at[i], fails, user);
            if (next) {
                now = next;
                again = true;
            }
        }
        tk_vec_fini(&nodes);
    }
    return now;
}
