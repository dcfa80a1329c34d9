/* SPDX-License-Identifier: MIT
 *
 * pass_program: the list of a program that was given as such (pass_given.c), after the passes for
 * narrow floats and for what targets do not have.
 *
 * Needs:  a LINEAR whose sources are its instructions in order, but not all that those are made of.
 * Leaves: stage program in the form that pass_lower leaves: no function of math.def, no shuffle,
 *         each value at hand where it is used. inbounds=true where bounds prove it (or
 *         TOLK_BOUNDS_TRUST says so), nowhere else.
 */
#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "jit/items_plan.h"
#include "jit/list.h"
#include "jit/pass.h"
#include "jit/reg.h"

typedef struct program {
    tk_pass *p;
    tolk_graph *g;
    const tolk_uop *linear; /* what is taken: ops of the target alone, but for math.def */
    size_t n_ids;
    tk_list list;
    const tolk_uop **value; /* by id: what stands for a node, where it was listed last */
    bool whole;             /* the whole span is run by one call */
    const tolk_uop *lidx[TK_ITEMS_DIMS];
    int64_t next_reg, next_local;
} program;

/* A function of math.def: the fast body, and a branch to the slow one when a lane needs it. */
static const tolk_uop *math(program *s, const tolk_uop *u, const tolk_uop **src) {
    tolk_graph *g = s->g;
    tk_list *l = &s->list;
    tk_mathfn_expansion e =
        tk_mathfn_expand(g, tk_uop_op(u), src[0], u->n_src > 1 ? src[1] : NULL, s->p->target->fma);
    if (!e.fast || !tk_list_place(l, e.fast) || !e.slow || tk_uop_is_int(e.cond, 0))
        return e.fast;
    const tolk_uop *reg = tk_reg_buffer(g, e.fast->dtype, 1, s->next_reg++);
    const tolk_uop *init = tk_list_placed(l, tk_reg_store(g, reg, 0, e.fast, NULL));
    const tolk_uop *in[2] = {e.cond, init};
    const tolk_uop *open = init ? tk_uop(g, TK_OP_IF, TOLK_VOID, in, 2, NULL) : NULL;
    const tolk_uop *value = tk_uop3(g, TK_OP_WHERE, e.cond, e.slow, e.fast);
    const tolk_uop *end = open ? tk_uop(g, TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL) : NULL;
    if (!end || !tk_list_open(l, open) || !tk_list_place(l, tk_reg_store(g, reg, 0, value, init)) ||
        !tk_list_close(l, end))
        return NULL;
    return tk_list_placed(l, tk_reg_load(g, reg, 0, end));
}

/* Is the access surely inside of its buffer? */
static bool is_inside(const tolk_uop *place, uint32_t lanes) {
    const tolk_uop *buffer = tk_access_base(place->src[0]), *index = place->src[1];
    const tolk_uop *size = buffer->n_src ? buffer->src[0] : NULL;
    if (tk_access_is_reg(buffer))
        return true; /* the verifier has seen to it */
    if (!size || !tk_uop_is_const(size) || tk_uop_lanes(index) > 1)
        return false;
    tk_bound b = tk_bounds(index);
    return b.state == 1 && b.lo >= 0 && size->attr[0].i >= lanes && b.hi <= size->attr[0].i - lanes;
}

/* The access with the attribute that is known here. */
static const tolk_uop *access(program *s, const tolk_uop *u, const tolk_uop **src) {
    bool load = tk_uop_is(u, TK_OP_LOAD);
    uint32_t lanes = tk_uop_lanes(load ? u : src[1]);
    tk_attr attrs[2] = {{.i = s->p->bounds == TOLK_BOUNDS_TRUST || is_inside(src[0], lanes)},
                        load ? (tk_attr){.i = 0} : u->attr[1]}; /* a store's or sum's own */
    return tk_uop(s->g, tk_uop_op(u), u->dtype, src, u->n_src, attrs);
}

/* An exchange through local memory: all have read what was exchanged before, each stores its value,
 * each loads its partner's. */
static const tolk_uop *shuffle(program *s, const tolk_uop *u, const tolk_uop **src) {
    tolk_graph *g = s->g;
    const tolk_uop *size[TK_ITEMS_DIMS];
    for (int d = 0; d < TK_ITEMS_DIMS; d++)
        size[d] = s->lidx[d] ? s->lidx[d]->src[0] : NULL;
    const tolk_uop *count = tk_items_count(g, size), *item = tk_items_flat(g, size, s->lidx);
    const tolk_uop *partner = count && item ? tk_items_partner(g, item, src[1], count) : NULL;
    const tolk_uop *lanes = tk_uop_index_const(g, tk_uop_lanes(u));
    if (!partner || !lanes)
        return NULL;
    const tolk_uop *elems = tk_uop2(g, TK_OP_MUL, count, lanes);
    const tolk_uop *buffer = tk_items_buffer(g, u->dtype, elems, s->next_local++);
    const tolk_uop *to = tk_uop2(g, TK_OP_MUL, item, lanes);
    const tolk_uop *from = tk_uop2(g, TK_OP_MUL, partner, lanes);
    const tolk_uop *put = tk_items_put(g, buffer, to, src[0], NULL);
    const tolk_uop *read = tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &lanes, 0, NULL);
    const tolk_uop *written = put ? tk_uop(g, TK_OP_BARRIER, TOLK_VOID, &put, 1, NULL) : NULL;
    const tolk_uop *r = tk_items_get(g, buffer, from, u->dtype, NULL, written);
    tk_list *l = &s->list;
    return r && tk_list_push(l, read) && tk_list_place(l, put) && tk_list_push(l, written) &&
                   tk_list_place(l, r)
               ? r
               : NULL;
}

/* List x with these sources. What stands for it. */
static const tolk_uop *step(program *s, const tolk_uop *x, const tolk_uop **src) {
    if (tk_mathfn_is(tk_uop_op(x)))
        return math(s, x, src);
    if (tk_uop_is(x, TK_OP_SHUFFLE))
        return shuffle(s, x, src);
    bool moves =
        tk_uop_is(x, TK_OP_LOAD) || tk_uop_is(x, TK_OP_STORE) || tk_uop_is(x, TK_OP_ATOMIC_ADD);
    const tolk_uop *r = moves ? access(s, x, src) : tk_uop_with_src(s->g, x, src, x->n_src);
    bool opens = tk_uop_is(x, TK_OP_RANGE) || tk_uop_is(x, TK_OP_IF);
    bool closes = tk_uop_is(x, TK_OP_END) || tk_uop_is(x, TK_OP_ENDIF);
    bool ok = r && (opens                ? tk_list_open(&s->list, r)
                    : closes             ? tk_list_close(&s->list, r)
                    : tk_list_is_pure(x) ? tk_list_place(&s->list, r)
                                         : tk_list_again(&s->list, r));
    return ok ? r : NULL;
}

/* What stands for a special of such a program. */
static const tolk_uop *whole_span(tolk_graph *g, const tolk_uop *u) {
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
    return kind == TK_SPECIAL_SPAN_BEGIN
               ? tk_uop_index_const(g, 0)
               : tk_uop2(g, TK_OP_SUB, u->src[0], tk_uop_index_const(g, 1));
}

static bool is_made(const program *s, const tolk_uop *x) {
    return s->value[x->id] && tk_list_has(&s->list, s->value[x->id]);
}

static const tolk_uop *definition(program *s, const tolk_uop *x) {
    const tolk_uop *r = s->whole && tk_items_is_span(x) ? whole_span(s->g, x) : x;
    return r && tk_list_place(&s->list, r) ? r : NULL;
}

/* Make x, whose sources are at hand. */
static bool make(program *s, const tolk_uop *x) {
    tk_uops src;
    tk_vec_init(&src, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < x->n_src && ok; i++)
        ok = tk_vec_push(&src, s->value[x->src[i]->id]);
    s->value[x->id] = !ok                         ? NULL
                      : tk_items_is_definition(x) ? definition(s, x)
                                                  : step(s, x, src.at);
    tk_vec_fini(&src);
    return s->value[x->id] != NULL;
}

/* One entry of the list: what passes before this one made of it, and then itself. */
static bool entry(program *s, const tolk_uop *u) {
    if (tk_list_is_pure(u) && is_made(s, u))
        return true;
    tk_uops todo;
    tk_vec_init(&todo, s->g->al);
    bool ok = tk_vec_push(&todo, u);
    while (ok && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool ready = true, done = x != u && is_made(s, x);
        for (uint32_t i = tk_items_is_definition(x) || done ? 0 : x->n_src; i-- > 0 && ok;)
            if (!is_made(s, x->src[i])) {
                ready = false;
                ok = tk_vec_push(&todo, x->src[i]);
            }
        if (!ok || !ready)
            continue;
        ok = done || make(s, x);
        todo.n--;
    }
    tk_vec_fini(&todo);
    return ok;
}

static const tolk_uop *run(program *s) {
    const tolk_uop *l = s->linear;
    tk_uops nodes;
    tk_vec_init(&nodes, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < l->n_src && ok; i++) {
        int d = tk_items_lidx(l->src[i]);
        if (d >= 0)
            s->lidx[d] = l->src[i];
        ok = tk_vec_push(&nodes, l->src[i]);
    }
    s->next_reg = s->next_local = ok ? tk_items_free_slot(&nodes) : 0;
    tk_vec_fini(&nodes);
    for (uint32_t i = 0; i < l->n_src && ok; i++)
        ok = entry(s, l->src[i]);
    return ok ? tk_list_linear(&s->list, l) : NULL;
}

tolk_status tk_pass_program(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    program s = {.p = p, .g = p->g, .linear = *root, .n_ids = (size_t)(*root)->id + 1};
    size_t n = s.n_ids * sizeof *s.value;
    s.value = tk_alloc_zero(p->g->al, n);
    s.whole = !p->items && tk_items_has_local(*root);
    const tolk_uop *r = tk_list_init(&s.list, p->g) && s.value ? run(&s) : NULL;
    tk_alloc_free(p->g->al, s.value, n);
    tk_list_fini(&s.list);
    if (!r) {
        tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory"); /* containers fail without a word */
        return tk_pass_failed(p, err);
    }
    *root = r;
    return TOLK_OK;
}
