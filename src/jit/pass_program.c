/* SPDX-License-Identifier: MIT
 *
 * Programs that were given as such: two passes, and those of kernels for narrow floats and for what
 * targets do not have between them.
 *
 * pass_given
 * Needs:  stage program, verified; may belong to another graph.
 * Leaves: the same in p->g; p->given is it. p->items: pass_items is to make the loop over groups
 * and work-items; else the program has a span of its own, which is p->span. Errors:
 * TOLK_E_UNSUPPORTED for wmma and for atomic_add of narrow floats, naming what was met.
 *
 * pass_program
 * Needs:  a LINEAR whose sources are its instructions in order, but not all that those are made of.
 * Leaves: stage program in the form that pass_lower leaves: no function of math.def, no shuffle,
 *         each node listed once but for what is listed right before its use. inbounds=true where
 *         bounds prove it (or TOLK_BOUNDS_TRUST says so), nowhere else.
 *
 * A node that a program lists twice is executed twice, and its users see the last time. Here its
 * value goes through a register: stored where it is made, loaded where it is used.
 */
#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "jit/items_plan.h"
#include "jit/pass.h"

#include <string.h>

typedef struct program {
    tk_pass *p;
    tolk_graph *g;
    const tolk_uop *linear; /* what is taken: ops of the target alone, but for math.def */
    size_t n_ids;
    tk_uops out;
    const tolk_uop **now;    /* by id: what stands for a node, where it was listed last */
    const tolk_uop **reg;    /* by id: the register of a node that is listed several times ... */
    const tolk_uop **stored; /* ... and the last store to it */
    uint8_t *times;          /* by id: how often a node is listed, 2 and more are 2 */
    bool *constant;          /* by id: made of constants alone, and no call of math.def */
    TK_VEC(uint32_t) fresh;  /* by id: the entry in which it was listed last, from 1 */
    uint32_t entry;
    bool whole; /* the whole span is run by one call */
    const tolk_uop *lidx[TK_ITEMS_DIMS];
    int64_t next_reg, next_local;
} program;

/* ---- the list ---- */

static bool push(program *s, const tolk_uop *u) {
    if (!u || !tk_vec_push(&s->out, u) ||
        (s->fresh.n <= u->id && !tk_vec_resize(&s->fresh, (size_t)u->id + 256)))
        return false;
    s->fresh.at[u->id] = s->entry;
    return true;
}

static bool is_there(const program *s, const tolk_uop *u) {
    uint32_t entry = u->id < s->fresh.n ? s->fresh.at[u->id] : 0;
    return entry && (entry == s->entry || tk_items_is_definition(u) || u->dtype == TOLK_VOID);
}

/* Say that a value is at hand for this entry, wherever it was listed. */
static bool take(program *s, const tolk_uop *u) {
    if (!u || (s->fresh.n <= u->id && !tk_vec_resize(&s->fresh, (size_t)u->id + 256)))
        return false;
    if (!tk_items_is_definition(u))
        s->fresh.at[u->id] = s->entry;
    return true;
}

/* List u and what of it is not at hand. */
static bool place(program *s, const tolk_uop *u) {
    if (!u)
        return false;
    tk_uops todo;
    tk_vec_init(&todo, s->g->al);
    bool ok = tk_vec_push(&todo, u);
    while (ok && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool ready = true;
        for (uint32_t i = x->n_src; i-- > 0 && ok && !is_there(s, x);)
            if (!is_there(s, x->src[i])) {
                ready = false;
                ok = tk_vec_push(&todo, x->src[i]);
            }
        if (!ok || !ready)
            continue;
        ok = is_there(s, x) || push(s, x);
        todo.n--;
    }
    tk_vec_fini(&todo);
    return ok;
}

/* ---- registers ---- */

static const tolk_uop *new_reg(program *s, tolk_dtype dtype) {
    const tolk_uop *one = tk_uop_index_const(s->g, 1);
    tk_attr attrs[4] = {{.i = s->next_reg++}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    return one ? tk_uop(s->g, TK_OP_BUFFER, dtype, &one, 1, attrs) : NULL;
}

static const tolk_uop *reg_place(program *s, const tolk_uop *reg, const tolk_uop *token) {
    const tolk_uop *zero = tk_uop_index_const(s->g, 0), *src[2] = {reg, token};
    const tolk_uop *now = token && reg ? tk_uop(s->g, TK_OP_AFTER, reg->dtype, src, 2, NULL) : reg;
    return now && zero
               ? tk_uop(s->g, TK_OP_INDEX, reg->dtype, (const tolk_uop *[]){now, zero}, 2, NULL)
               : NULL;
}

/* Store to a register, behind token. The store. */
static const tolk_uop *reg_store(program *s, const tolk_uop *reg, const tolk_uop *x,
                                 const tolk_uop *token) {
    tk_attr attrs[2] = {{.i = 1}, {.i = 0}};
    const tolk_uop *to = reg_place(s, reg, token);
    const tolk_uop *u =
        to && x ? tk_uop(s->g, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){to, x}, 2, attrs)
                : NULL;
    return u && place(s, u) ? u : NULL;
}

static const tolk_uop *reg_load(program *s, const tolk_uop *reg, const tolk_uop *token) {
    tk_attr attrs[2] = {{.i = 1}, {.i = 0}};
    const tolk_uop *from = reg_place(s, reg, token);
    const tolk_uop *u = from ? tk_uop(s->g, TK_OP_LOAD, reg->dtype, &from, 1, attrs) : NULL;
    return u && place(s, u) ? u : NULL;
}

/* ---- one instruction ---- */

/* A function of math.def: the fast body, and a branch to the slow one when a lane needs it. */
static const tolk_uop *math(program *s, const tolk_uop *u, const tolk_uop **src) {
    tolk_graph *g = s->g;
    tk_mathfn_expansion e =
        tk_mathfn_expand(g, tk_uop_op(u), src[0], u->n_src > 1 ? src[1] : NULL, s->p->target->fma);
    if (!e.fast || !place(s, e.fast) || !e.slow || tk_uop_is_int(e.cond, 0))
        return e.fast;
    const tolk_uop *reg = new_reg(s, e.fast->dtype), *init = reg_store(s, reg, e.fast, NULL);
    if (!init || !place(s, e.cond))
        return NULL;
    const tolk_uop *open =
        tk_uop(g, TK_OP_IF, TOLK_VOID, (const tolk_uop *[]){e.cond, init}, 2, NULL);
    const tolk_uop *value = tk_uop3(g, TK_OP_WHERE, e.cond, e.slow, e.fast);
    if (!open || !push(s, open) || !reg_store(s, reg, value, init))
        return NULL;
    const tolk_uop *end = tk_uop(g, TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL);
    if (!end || !push(s, end))
        return NULL;
    /* What the branch made is not at hand behind it. */
    s->entry++;
    return reg_load(s, reg, end);
}

/* Is the access surely inside of its buffer? */
static bool is_inside(const tolk_uop *place, uint32_t lanes) {
    const tolk_uop *buffer = tk_items_base(place->src[0]), *index = place->src[1];
    const tolk_uop *size = buffer->n_src ? buffer->src[0] : NULL;
    if (tk_uop_is(buffer, TK_OP_BUFFER) && tk_uop_int(buffer, TK_A_BUFFER_SPACE) == TK_SPACE_REG)
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
                        {.i = tk_uop_is(u, TK_OP_STORE) && tk_uop_int(u, TK_A_STORE_STREAM)}};
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
    return r && push(s, read) && place(s, put) && push(s, written) && place(s, r) ? r : NULL;
}

/* List x with these sources. What stands for it. */
static const tolk_uop *step(program *s, const tolk_uop *x, const tolk_uop **src) {
    const tolk_uop *r;
    if (tk_mathfn_is(tk_uop_op(x)))
        return math(s, x, src);
    if (tk_uop_is(x, TK_OP_SHUFFLE))
        return shuffle(s, x, src);
    if (tk_uop_is(x, TK_OP_LOAD) || tk_uop_is(x, TK_OP_STORE) || tk_uop_is(x, TK_OP_ATOMIC_ADD))
        r = access(s, x, src);
    else
        r = tk_uop_with_src(s->g, x, src, x->n_src);
    if (!r)
        return NULL;
    for (uint32_t i = 0; i < r->n_src; i++)
        if (!is_there(s, r->src[i]) && !place(s, r->src[i]))
            return NULL;
    return push(s, r) ? r : NULL;
}

/* Was x itself listed so far, so that its value is that of its last time there? What the passes
 * before this one made of an instruction may also be what they made of a later one. */
static bool is_listed(const program *s, const tolk_uop *x) {
    return x->id < s->n_ids && s->now[x->id] != NULL;
}

static bool is_span(const tolk_uop *u) {
    if (!tk_uop_is(u, TK_OP_SPECIAL))
        return false;
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
    return kind == TK_SPECIAL_SPAN_BEGIN || kind == TK_SPECIAL_SPAN_END;
}

/* Does the program say itself which part of a span it runs? */
static const tolk_uop *find_span(const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (is_span(linear->src[i]))
            return linear->src[i];
    return NULL;
}

/* Parts of a span that meet in local memory are not told from those that do not: then one call
 * runs all of it, and the span has one iteration. */
static bool has_local(const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (tk_uop_is(linear->src[i], TK_OP_BUFFER) &&
            tk_uop_int(linear->src[i], TK_A_BUFFER_SPACE) == TK_SPACE_LOCAL)
            return true;
    return false;
}

/* What stands for a special of such a program. */
static const tolk_uop *whole_span(tolk_graph *g, const tolk_uop *u) {
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
    return kind == TK_SPECIAL_SPAN_BEGIN
               ? tk_uop_index_const(g, 0)
               : tk_uop2(g, TK_OP_SUB, u->src[0], tk_uop_index_const(g, 1));
}

/* What stands for a source that the list has. */
static const tolk_uop *listed_now(program *s, const tolk_uop *x) {
    if (s->whole && is_span(x)) {
        const tolk_uop *r = whole_span(s->g, x);
        return r && place(s, r) ? r : NULL;
    }
    if (tk_items_is_definition(x))
        return place(s, x) ? x : NULL;
    const tolk_uop *r =
        s->reg[x->id] ? reg_load(s, s->reg[x->id], s->stored[x->id]) : s->now[x->id];
    /* What an entry of a loop or branch made may be the same node; that was listed last in there.
     */
    if (s->constant[x->id] && !s->reg[x->id])
        return place(s, r) ? r : NULL;
    return r && take(s, r) ? r : NULL;
}

/* One entry of the list: what passes before this one made of it, and then itself. */
static bool entry(program *s, const tolk_uop *u) {
    tk_uops todo, src;
    tk_map made; /* id of a node that the list does not have -> what stands for it */
    tk_vec_init(&todo, s->g->al);
    tk_vec_init(&src, s->g->al);
    tk_map_init(&made, s->g->al);
    s->entry++;
    bool ok = tk_vec_push(&todo, u);
    while (ok && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool ready = true;
        if (x != u && tk_map_find(&made, x->id)) {
            todo.n--;
            continue;
        }
        for (uint32_t i = x->n_src; i-- > 0 && ok;)
            if (!is_listed(s, x->src[i]) && !tk_items_is_definition(x->src[i]) &&
                !tk_map_find(&made, x->src[i]->id)) {
                ready = false;
                ok = tk_vec_push(&todo, x->src[i]);
            }
        if (!ok || !ready)
            continue;
        ok = tk_vec_resize(&src, x->n_src);
        for (uint32_t i = 0; i < x->n_src && ok; i++) {
            uint64_t *at = tk_map_find(&made, x->src[i]->id);
            src.at[i] = at ? (const tolk_uop *)(uintptr_t)*at : listed_now(s, x->src[i]);
            ok = src.at[i] != NULL;
        }
        const tolk_uop *r = ok ? step(s, x, src.at) : NULL;
        ok = r != NULL;
        todo.n--;
        if (!ok)
            break;
        if (x != u) {
            ok = take(s, r) && tk_map_put(&made, x->id, (uintptr_t)r);
            continue;
        }
        s->now[u->id] = r;
        if (s->times[u->id] > 1 && u->dtype != TOLK_VOID && !tk_items_is_place(u) &&
            !tk_uop_is(u, TK_OP_RANGE)) {
            if (!s->reg[u->id])
                s->reg[u->id] = new_reg(s, r->dtype);
            ok = take(s, r) &&
                 (s->stored[u->id] = reg_store(s, s->reg[u->id], r, s->stored[u->id])) != NULL;
        }
    }
    tk_vec_fini(&todo);
    tk_vec_fini(&src);
    tk_map_fini(&made);
    return ok;
}

/* ---- all of it ---- */

static const tolk_uop *run(program *s) {
    const tolk_uop *l = s->linear;
    tk_uops nodes;
    tk_vec_init(&nodes, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < l->n_src && ok; i++) {
        const tolk_uop *u = l->src[i];
        int d = tk_items_lidx(u);
        if (d >= 0)
            s->lidx[d] = u;
        if (s->times[u->id] < 2)
            s->times[u->id]++;
        ok = tk_vec_push(&nodes, u);
    }
    for (size_t id = 0; id < s->n_ids && ok; id++) {
        const tolk_uop *u = s->g->nodes.at[id];
        bool all = u->n_src ? tk_uop_is(u, TK_OP_STACK) ||
                                  (tk_op_is_alu(tk_uop_op(u)) && !tk_mathfn_is(tk_uop_op(u)))
                            : tk_uop_is(u, TK_OP_CONST);
        for (uint32_t i = 0; i < u->n_src && all; i++)
            all = s->constant[u->src[i]->id];
        s->constant[id] = all;
    }
    s->next_reg = s->next_local = ok ? tk_items_free_slot(&nodes) : 0;
    tk_vec_fini(&nodes);
    for (uint32_t i = 0; i < l->n_src && ok; i++)
        if (!(s->whole && is_span(l->src[i])))
            ok = tk_items_is_definition(l->src[i]) ? place(s, l->src[i]) : entry(s, l->src[i]);
    return ok ? tk_uop(s->g, TK_OP_LINEAR, TOLK_VOID, s->out.at, s->out.n, l->attr) : NULL;
}

static const tolk_uop *listed(tk_pass *p, const tolk_uop *linear) {
    program s = {.p = p, .g = p->g, .linear = linear, .n_ids = (size_t)linear->id + 1};
    const tolk_allocator *al = p->g->al;
    size_t n = s.n_ids * sizeof *s.now;
    tk_vec_init(&s.out, al);
    tk_vec_init(&s.fresh, al);
    s.now = tk_alloc_zero(al, n);
    s.reg = tk_alloc_zero(al, n);
    s.stored = tk_alloc_zero(al, n);
    s.times = tk_alloc_zero(al, s.n_ids);
    s.constant = tk_alloc_zero(al, s.n_ids * sizeof *s.constant);
    s.entry = 1;
    s.whole = !p->items && has_local(linear);
    const tolk_uop *r = s.now && s.reg && s.stored && s.times && s.constant ? run(&s) : NULL;
    tk_alloc_free(al, s.now, n);
    tk_alloc_free(al, s.reg, n);
    tk_alloc_free(al, s.stored, n);
    tk_alloc_free(al, s.times, s.n_ids);
    tk_alloc_free(al, s.constant, s.n_ids * sizeof *s.constant);
    tk_vec_fini(&s.out);
    tk_vec_fini(&s.fresh);
    return r ? r : tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
}

static tolk_status check_supported(const tolk_uop *u, tolk_error *err) {
    bool narrow = tk_uop_is(u, TK_OP_ATOMIC_ADD) && tk_dtype_is_narrow_float(u->src[1]->dtype);
    if (!narrow && !tk_uop_is(u, TK_OP_WMMA))
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, u->id, "%s: the CPU compiler does not have %s",
                          tk_op_get(tk_uop_op(u))->name,
                          narrow ? "it for f16, bf16 and fp8" : "this op");
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
        p->span = has_local(*root) ? one : tk_uop2(p->g, TK_OP_SUB, span->src[0], one);
    if (!one || (span && !p->span))
        return tk_pass_failed(p, err);
    p->lanes = 1;
    for (uint32_t i = 0; i < (*root)->n_src; i++)
        if (tk_uop_lanes((*root)->src[i]) > p->lanes)
            p->lanes = tk_uop_lanes((*root)->src[i]);
    return TOLK_OK;
}

tolk_status tk_pass_program(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    const tolk_uop *r = listed(p, *root);
    if (!r)
        return tk_pass_failed(p, err);
    *root = r;
    return TOLK_OK;
}
