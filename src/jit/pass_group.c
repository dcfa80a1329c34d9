/* SPDX-License-Identifier: MIT
 *
 * pass_group: reductions whose pieces can run on several threads at once.
 *
 * Needs:  stage kernel, loop options applied.
 * Leaves: kernels whose work-items meet as they are. In others, for each REDUCE over one range of
 * kind group_reduce that depends on no loop: its pieces' results are stored to local memory by an
 * effect of its own over a global range, and the REDUCE, over a loop now, reads them behind a
 * barrier. The values and their order stay. p->pieces is the number of iterations before that
 * barrier. Other REDUCEs over such ranges are left as they are: plain loops.
 */
#include "ir/rewrite.h"
#include "jit/pass.h"

/* A REDUCE that is taken apart, and what stands in its place. */
typedef struct grouped {
    const tolk_uop *reduce, *effect, *result;
} grouped;

static bool depends_on_loops(const tk_kview *v, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(v, u);
    for (uint32_t w = 0; w < v->words; w++)
        if (set[w])
            return true;
    return false;
}

static bool is_grouped(const tk_kview *v, const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_REDUCE) && u->n_src == 2 &&
           tk_kview_axis(u->src[1]) == TK_AXIS_GROUP_REDUCE && tk_uop_is_const(u->src[1]->src[0]) &&
           u->src[1]->src[0]->attr[0].i > 0 && !depends_on_loops(v, u);
}

static bool take_apart(tk_pass *p, const tk_kview *v, grouped *r, int64_t slot) {
    tolk_graph *g = p->g;
    const tolk_uop *range = r->reduce->src[1], *size = range->src[0];
    const tolk_uop *global = tk_kview_of_kind(g, range, TK_AXIS_GLOBAL);
    const tolk_uop *loop = tk_kview_of_kind(g, range, TK_AXIS_REDUCE);
    tk_attr attrs[4] = {{.i = slot}, {.i = TK_SPACE_LOCAL}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *buffer = tk_uop(g, TK_OP_BUFFER, r->reduce->dtype, &size, 1, attrs);
    if (!global || !loop || !buffer)
        return false;
    const tolk_uop *value = tk_kview_substitute(v, r->reduce->src[0], &range, &global, 1);
    const tolk_uop *to =
        tk_uop(g, TK_OP_INDEX, buffer->dtype, (const tolk_uop *[]){buffer, global}, 2, NULL);
    const tolk_uop *store =
        value && to ? tk_uop(g, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){to, value}, 2, NULL)
                    : NULL;
    r->effect = store
                    ? tk_uop(g, TK_OP_END, TOLK_VOID, (const tolk_uop *[]){store, global}, 2, NULL)
                    : NULL;
    const tolk_uop *barrier =
        r->effect ? tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &r->effect, 1, NULL) : NULL;
    const tolk_uop *ready = barrier ? tk_uop(g, TK_OP_AFTER, buffer->dtype,
                                             (const tolk_uop *[]){buffer, barrier}, 2, NULL)
                                    : NULL;
    const tolk_uop *from =
        ready ? tk_uop(g, TK_OP_INDEX, buffer->dtype, (const tolk_uop *[]){ready, loop}, 2, NULL)
              : NULL;
    const tolk_uop *load = from ? tk_uop(g, TK_OP_LOAD, buffer->dtype, &from, 1, NULL) : NULL;
    r->result = load ? tk_uop_with_src(g, r->reduce, (const tolk_uop *[]){load, loop}, 2) : NULL;
    return r->result != NULL;
}

/* Does any of them compute with the result of another? Then one barrier is not enough. */
static bool independent(const grouped *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tk_kview v;
        if (!tk_kview_init(&v, list[i].reduce->src[0]))
            return false;
        bool free_of_others = true;
        for (size_t j = 0; j < n; j++)
            free_of_others &=
                i == j || list[j].reduce->id >= v.n_ids || !v.reached[list[j].reduce->id];
        tk_kview_fini(&v);
        if (!free_of_others)
            return false;
    }
    return true;
}

static const tolk_uop *rebuild(tk_pass *p, const tk_kview *v, grouped *list, size_t n) {
    tolk_graph *g = p->g;
    tk_uops from, to, src;
    tk_vec_init(&from, g->al);
    tk_vec_init(&to, g->al);
    tk_vec_init(&src, g->al);
    const tolk_uop *r = NULL;
    bool ok = true;
    p->pieces = 0;
    for (size_t i = 0; i < n && ok; i++) {
        ok = take_apart(p, v, &list[i], (int64_t)i) && tk_vec_push(&from, list[i].reduce) &&
             tk_vec_push(&to, list[i].result) && tk_vec_push(&src, list[i].effect);
        p->pieces += list[i].reduce->src[1]->src[0]->attr[0].i;
    }
    const tolk_uop *rest = ok ? tk_rewrite_substitute(g, v->root, from.at, to.at, n) : NULL;
    for (uint32_t i = 0; rest && ok && i < rest->n_src; i++)
        ok = tk_vec_push(&src, rest->src[i]);
    if (rest && ok)
        r = tk_uop_with_src(g, rest, src.at, src.n);
    tk_vec_fini(&from);
    tk_vec_fini(&to);
    tk_vec_fini(&src);
    return r ? r : tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
}

tolk_status tk_pass_group(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_kview v;
    if (tk_target_is_gpu(p->target)) /* no barrier joins the blocks of a grid */
        return TOLK_OK;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    TK_VEC(grouped) list;
    tk_vec_init(&list, v.al);
    bool ok = true;
    for (size_t k = 0; k < v.order.n && ok && !p->items; k++)
        if (is_grouped(&v, v.order.at[k]))
            ok = tk_vec_push(&list, ((grouped){.reduce = v.order.at[k]}));
    const tolk_uop *r = *root;
    if (ok && list.n && independent(list.at, list.n))
        r = rebuild(p, &v, list.at, list.n);
    tk_vec_fini(&list);
    tk_kview_fini(&v);
    if (!ok)
        return tk_status_nomem(err);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
