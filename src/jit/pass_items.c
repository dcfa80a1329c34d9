/* SPDX-License-Identifier: MIT
 *
 * pass_items: the program of one work-item becomes that of a CPU: a loop over groups, and in it,
 * for each region between meeting points, a loop over the work-items of a group.
 *
 * Needs:  stage program. p->items: one work-item's; else as pass_lower leaves it.
 * Leaves: stage program without gidx, idx and lidx: groups are the flattened range, of which each
 *         call runs a part; p->span is their number. What a work-item needs behind a meeting point
 *         is in local memory, an element for each of them: values that are not made again, and
 *         registers, which are loaded where a region begins and stored where it ends.
 *         p->scratch is the size of local memory. A GPU's program is left as it is: that of one
 *         work-item; p->scratch is the shared memory that its launch asks for.
 * Errors: TOLK_E_UNSUPPORTED: see items_plan.h.
 */
#include "jit/items_plan.h"
#include "jit/list.h"
#include "jit/pass.h"
#include "jit/reg.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/sym.h"

#include <string.h>

/* The axis number of the first loop made here. */
enum { FIRST_AXIS = 6000000 };

typedef struct splitter {
    tk_pass *p;
    tolk_graph *g;
    tk_items_plan plan;
    tk_list list;                    /* the new list */
    const tolk_uop **value, **token; /* by old id: what stands for it now; what comes behind it */
    const tolk_uop **slot;           /* by old id: scratch memory of a value that is kept */
    const tolk_uop **reg_slot;       /* by number of a reg buffer: the same */
    uint8_t *touched;                /* by reg element: see region_regs() */
    const tolk_uop *size[TK_ITEMS_DIMS], *index[TK_ITEMS_DIMS]; /* of lidx, in a loop over items */
    const tolk_uop *count, *flat; /* work-items of a group; number of the one at hand */
    const tolk_uop *last;         /* the last loop over items, for barriers */
    int64_t next_axis, next_slot;
} splitter;

/* ---- loops ---- */

static const tolk_uop *loop(splitter *s, const tolk_uop *size, tk_axis kind, bool poll) {
    tk_attr attrs[4] = {{.i = s->next_axis++}, {.blob = NULL}, {.i = kind}, {.i = poll}};
    const tolk_uop *r = size ? tk_uop(s->g, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs) : NULL;
    return r && tk_list_open(&s->list, r) ? r : NULL;
}

static const tolk_uop *close_loop(splitter *s, const tolk_uop *range) {
    const tolk_uop *end = tk_uop(s->g, TK_OP_END, TOLK_VOID, &range, 1, NULL);
    return end && tk_list_close(&s->list, end) ? end : NULL;
}

/* ---- one instruction ---- */

/* What stands for a value here. */
static const tolk_uop *now(splitter *s, const tolk_uop *u) {
    int dim = tk_items_lidx(u);
    if (dim >= 0)
        return s->index[dim];
    bool self = tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM);
    const tolk_uop *r = self ? u : s->value[u->id];
    return r && tk_list_place(&s->list, r) ? r : NULL;
}

static const tolk_uop *now_buffer(splitter *s, const tolk_uop *u) {
    tk_uops src;
    tk_vec_init(&src, s->g->al);
    const tolk_uop *base = tk_access_base(u);
    bool ok = tk_vec_push(&src, base);
    for (; tk_uop_is(u, TK_OP_AFTER) && ok; u = u->src[0])
        for (uint32_t i = 1; i < u->n_src && ok; i++)
            if (s->token[u->src[i]->id])
                ok = tk_vec_push(&src, s->token[u->src[i]->id]);
    const tolk_uop *r = !ok          ? NULL
                        : src.n == 1 ? base
                                     : tk_uop(s->g, TK_OP_AFTER, base->dtype, src.at, src.n, NULL);
    tk_vec_fini(&src);
    return r;
}

/* The new form of u's source i. NULL: failed, or an order that has nothing to wait for. */
static const tolk_uop *now_source(splitter *s, const tolk_uop *u, uint32_t i) {
    const tolk_uop *x = u->src[i];
    if (tk_items_is_value(u, i))
        return now(s, x);
    if (!tk_items_is_place(x))
        return tk_uop_is(u, TK_OP_END) || tk_uop_is(x, TK_OP_RANGE) ? s->value[x->id]
                                                                    : s->token[x->id];
    const tolk_uop *buffer = now_buffer(s, x->src[0]), *index = now(s, x->src[1]);
    return buffer && index
               ? tk_uop(s->g, TK_OP_INDEX, x->dtype, (const tolk_uop *[]){buffer, index}, 2, NULL)
               : NULL;
}

/* List u in its new form, and remember that. */
static bool step(splitter *s, const tolk_uop *u) {
    tk_uops src;
    tk_vec_init(&src, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < u->n_src && ok; i++) {
        const tolk_uop *x = now_source(s, u, i);
        bool order =
            (tk_uop_is(u, TK_OP_IF) || tk_uop_is(u, TK_OP_BARRIER)) && !tk_items_is_value(u, i);
        ok = x ? tk_vec_push(&src, x) : order;
    }
    if (ok && tk_uop_is(u, TK_OP_BARRIER) && s->last)
        ok = tk_vec_push(&src, s->last);
    const tolk_uop *r = ok ? tk_uop_with_src(s->g, u, src.at, src.n) : NULL;
    tk_vec_fini(&src);
    if (!r)
        return false;
    s->value[u->id] = s->token[u->id] = r;
    if (tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(u, TK_OP_IF))
        return tk_list_open(&s->list, r);
    if (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_ENDIF))
        return tk_list_close(&s->list, r);
    return tk_list_again(&s->list, r);
}

/* ---- what is kept across meeting points ---- */

/* Element of the work-item at hand in scratch memory with `each` scalars for each of them. */
static const tolk_uop *own_place(splitter *s, int64_t each, int64_t k) {
    const tolk_uop *at = tk_sym_mul_const(s->g, s->flat, each);
    return at ? tk_sym_add(s->g, at, tk_uop_index_const(s->g, k)) : NULL;
}

static const tolk_uop *slot_for(splitter *s, tolk_dtype dtype, int64_t each) {
    return tk_items_buffer(s->g, dtype, tk_sym_mul_const(s->g, s->count, each), s->next_slot++);
}

static bool keep(splitter *s, const tolk_uop *u) {
    const tolk_uop *at = own_place(s, tk_uop_lanes(u), 0);
    return tk_list_again(&s->list, tk_items_put(s->g, s->slot[u->id], at, s->value[u->id], NULL));
}

static bool bring_back(splitter *s, const tolk_uop *u) {
    const tolk_uop *at = own_place(s, tk_uop_lanes(u), 0);
    s->value[u->id] = tk_items_get(s->g, s->slot[u->id], at, u->dtype, NULL, s->last);
    return tk_list_place(&s->list, s->value[u->id]);
}

/* Make a cheap value again, and what it is made of. Those are few (items_plan.c). */
static bool make_again(splitter *s, const tolk_uop *u, uint32_t region) {
    tk_uops todo;
    tk_vec_init(&todo, s->g->al);
    bool ok = tk_vec_push(&todo, u);
    while (ok && todo.n) {
        const tolk_uop *x = tk_vec_last(&todo);
        bool ready = true;
        for (uint32_t i = 0; i < x->n_src && ok; i++) {
            const tolk_uop *y = x->src[i];
            if (tk_items_is_definition(y) || !s->plan.own[y->id] || s->plan.made[y->id] == region)
                continue;
            ready = false;
            ok = tk_vec_push(&todo, y);
        }
        if (ok && ready) {
            todo.n--;
            if (s->plan.made[x->id] != region) {
                s->plan.made[x->id] = region;
                ok = step(s, x);
            }
        }
    }
    tk_vec_fini(&todo);
    return ok;
}

/* A value that instruction u of the region uses: at hand from the region's beginning on. */
static bool fetch(splitter *s, const tolk_uop *x, uint32_t region) {
    const tk_items_plan *plan = &s->plan;
    if (!plan->own[x->id] || tk_items_is_definition(x) || plan->made[x->id] == region)
        return true;
    if (plan->cheap[x->id])
        return make_again(s, x, region);
    plan->made[x->id] = region;
    return bring_back(s, x);
}

/* The instructions [from, to) of a region: what they need of other regions. plan.made is used anew:
 * the region in which a value is at hand. Values made in the region before they are used are not
 * fetched. */
static bool fetch_values(splitter *s, uint32_t from, uint32_t to, uint32_t region) {
    const tk_items_plan *plan = &s->plan;
    bool ok = true;
    for (uint32_t i = from; i < to && ok; i++) {
        const tolk_uop *u = plan->linear->src[i];
        if (!plan->item[i] || tk_items_is_definition(u) || tk_items_is_place(u))
            continue;
        for (uint32_t k = 0; k < u->n_src && ok; k++)
            if (tk_items_is_value(u, k))
                ok = fetch(s, u->src[k], region);
        bool access = u->n_src && tk_items_is_place(u->src[0]) && !tk_items_plan_reg(plan, u);
        if (ok && access)
            ok = fetch(s, u->src[0]->src[1], region);
        plan->made[u->id] = region;
    }
    return ok;
}

enum { LOAD_FIRST = 1, STORED = 2, SURELY = 4 };

/* Which elements of registers that are kept the region uses: loaded before it surely stores to
 * them, or perhaps not stored to at all: they are loaded where it begins. */
static void region_regs(splitter *s, uint32_t from, uint32_t to) {
    const tk_items_plan *plan = &s->plan;
    memset(s->touched, 0, plan->n_elements);
    for (uint32_t i = from; i < to; i++) {
        const tolk_uop *u = plan->linear->src[i];
        bool load = tk_uop_is(u, TK_OP_LOAD);
        const tk_items_reg *reg =
            load || tk_uop_is(u, TK_OP_STORE) ? tk_items_plan_reg(plan, u) : NULL;
        if (!reg || !reg->kept)
            continue;
        uint8_t *t = &s->touched[tk_items_plan_element(reg, u)];
        bool sure = !load && plan->entry[i] == i;
        if (!sure && !(*t & SURELY))
            *t |= LOAD_FIRST;
        if (!load)
            *t |= STORED;
        if (sure)
            *t |= SURELY;
    }
}

static bool move_reg(splitter *s, const tk_items_reg *reg, const tolk_uop *slot, int64_t k,
                     bool out) {
    tolk_graph *g = s->g;
    const tolk_uop *buffer = reg->buffer, *last = tk_vec_last(&s->list.out);
    int64_t lanes = tk_uop_lanes(buffer), each = buffer->src[0]->attr[0].i * lanes;
    const tolk_uop *at = own_place(s, each, k * lanes);
    if (out) {
        const tolk_uop *x = tk_reg_load(g, buffer, k, last->dtype == TOLK_VOID ? last : NULL);
        return tk_list_again(&s->list, x) &&
               tk_list_again(&s->list, tk_items_put(g, slot, at, x, NULL));
    }
    const tolk_uop *x = tk_items_get(g, slot, at, buffer->dtype, NULL, s->last);
    return tk_list_again(&s->list, tk_reg_store(g, buffer, k, x, NULL));
}

static bool move_regs(splitter *s, bool out) {
    const tk_items_plan *plan = &s->plan;
    bool ok = true;
    for (size_t r = 0; r < plan->regs.n && ok; r++) {
        const tk_items_reg *reg = &plan->regs.at[r];
        int64_t n = reg->kept ? reg->buffer->src[0]->attr[0].i : 0;
        for (int64_t k = 0; k < n && ok; k++)
            if (s->touched[reg->first + (uint32_t)k] & (out ? STORED : LOAD_FIRST))
                ok = move_reg(s, reg, s->reg_slot[r], k, out);
    }
    return ok;
}

/* ---- regions ---- */

/* Does a work-item do anything in it that is seen behind it? */
static bool has_effects(const splitter *s, uint32_t from, uint32_t to) {
    const tk_items_plan *plan = &s->plan;
    for (uint32_t i = from; i < to; i++) {
        const tolk_uop *u = plan->linear->src[i];
        if (!plan->item[i])
            continue;
        if (plan->kept[u->id] || tk_uop_is(u, TK_OP_ATOMIC_ADD))
            return true;
        const tk_items_reg *reg = tk_uop_is(u, TK_OP_STORE) ? tk_items_plan_reg(plan, u) : NULL;
        if (tk_uop_is(u, TK_OP_STORE) && (!reg || reg->kept))
            return true;
    }
    return false;
}

static bool steps(splitter *s, uint32_t from, uint32_t to, bool item) {
    const tk_items_plan *plan = &s->plan;
    bool ok = true;
    for (uint32_t i = from; i < to && ok; i++) {
        const tolk_uop *u = plan->linear->src[i];
        if (tk_items_is_definition(u) || tk_items_is_place(u) || plan->item[i] != item)
            continue;
        ok = step(s, u);
        if (ok && item && plan->kept[u->id])
            ok = keep(s, u);
    }
    return ok;
}

/* One region: for the group, then for each work-item. */
static bool region(splitter *s, uint32_t from, uint32_t to) {
    const tolk_uop *ranges[TK_ITEMS_DIMS] = {NULL, NULL, NULL};
    if (!steps(s, from, to, false))
        return false;
    if (!has_effects(s, from, to))
        return true;
    for (int d = TK_ITEMS_DIMS; d-- > 0;) {
        if (!s->size[d])
            continue;
        if (!(ranges[d] = loop(s, s->size[d], TK_AXIS_LOCAL, false)))
            return false;
        s->index[d] = ranges[d];
    }
    s->flat = tk_items_flat(s->g, s->size, s->index);
    region_regs(s, from, to);
    if (!s->flat || !move_regs(s, false) || !fetch_values(s, from, to, s->plan.region[from]) ||
        !steps(s, from, to, true) || !move_regs(s, true))
        return false;
    for (int d = 0; d < TK_ITEMS_DIMS; d++)
        if (ranges[d] && !(s->last = close_loop(s, ranges[d])))
            return false;
    return true;
}

static bool group(splitter *s) {
    const tk_items_plan *plan = &s->plan;
    memset(plan->made, 0, plan->n_ids * sizeof *plan->made);
    for (uint32_t i = 0; i < plan->n;) {
        const tolk_uop *u = plan->linear->src[i];
        uint32_t to = i + 1;
        if (!plan->region[i]) {
            if (!step(s, u))
                return false;
        } else {
            while (to < plan->n && plan->region[to] == plan->region[i])
                to++;
            if (!region(s, i, to))
                return false;
        }
        i = to;
    }
    return true;
}

/* ---- the flattened range ---- */

static const tolk_uop *special(splitter *s, const char *name, const tolk_uop *total) {
    const tolk_uop *size = tk_sym_add(s->g, total, tk_uop_index_const(s->g, 1));
    tk_attr attr = {.blob = tk_blob_str(s->g, name, strlen(name))};
    return size && attr.blob ? tk_uop(s->g, TK_OP_SPECIAL, TOLK_INDEX, &size, 1, &attr) : NULL;
}

/* Indices of groups, x last: it moves fastest. */
static bool find_groups(const splitter *s, tk_uops *groups) {
    bool ok = true;
    for (int axis = 2; axis >= 0 && ok; axis--)
        for (uint32_t i = 0; i < s->plan.n && ok; i++) {
            const tolk_uop *u = s->plan.linear->src[i];
            int of = -1;
            bool known = false;
            if (!tk_uop_is(u, TK_OP_SPECIAL) || tk_items_lidx(u) >= 0)
                continue;
            (void)tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &of);
            for (size_t k = 0; k < groups->n; k++)
                known |= groups->at[k] == u;
            ok = of != axis || known || tk_vec_push(groups, u);
        }
    return ok;
}

static bool list_buffers(splitter *s) {
    const tk_items_plan *plan = &s->plan;
    const tolk_uop *dynamic = NULL;
    bool ok = true;
    for (uint32_t i = 0; i < plan->n && ok; i++) {
        const tolk_uop *u = plan->linear->src[i];
        bool buffer = tk_uop_is(u, TK_OP_BUFFER);
        if (buffer && tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            dynamic = u;
        else if (buffer || tk_uop_is(u, TK_OP_PARAM))
            ok = tk_list_place(&s->list, u);
    }
    for (uint32_t i = 0; i < plan->n && ok; i++) {
        const tolk_uop *u = plan->linear->src[i];
        if (!plan->kept[u->id] || s->slot[u->id])
            continue;
        s->slot[u->id] = slot_for(s, u->dtype, tk_uop_lanes(u));
        ok = tk_list_place(&s->list, s->slot[u->id]);
    }
    for (size_t r = 0; r < plan->regs.n && ok; r++) {
        const tk_items_reg *reg = &plan->regs.at[r];
        if (!reg->kept)
            continue;
        s->reg_slot[r] = slot_for(s, reg->buffer->dtype,
                                  reg->buffer->src[0]->attr[0].i * tk_uop_lanes(reg->buffer));
        ok = tk_list_place(&s->list, s->reg_slot[r]);
    }
    return ok && (!dynamic || tk_list_place(&s->list, dynamic));
}

static const tolk_uop *whole(splitter *s, const tk_uops *groups) {
    tolk_graph *g = s->g;
    const tolk_uop *total = tk_uop_index_const(g, 1);
    for (size_t i = 0; i < groups->n && total; i++) {
        const tolk_uop *n = tk_items_size(g, groups->at[i]->src[0]);
        total = n ? tk_sym_mul(g, total, n) : NULL;
    }
    s->p->span = total;
    const tolk_uop *begin = total ? special(s, "span_begin", total) : NULL;
    const tolk_uop *end = total ? special(s, "span_end", total) : NULL;
    const tolk_uop *count = begin && end ? tk_uop2(g, TK_OP_SUB, end, begin) : NULL;
    if (!list_buffers(s) || !count || !tk_list_place(&s->list, begin) ||
        !tk_list_place(&s->list, end))
        return NULL;
    s->next_axis = FIRST_AXIS;
    const tolk_uop *range = loop(s, count, TK_AXIS_GLOBAL, true);
    const tolk_uop *at = range ? tk_uop2(g, TK_OP_ADD, range, begin) : NULL;
    for (size_t i = groups->n; i-- > 0 && at;) {
        const tolk_uop *u = groups->at[i], *size = u->src[0], *digit = at;
        if (i > 0) {
            digit = tk_uop2(g, TK_OP_CMOD, at, size);
            at = tk_uop2(g, TK_OP_CDIV, at, size);
        }
        s->value[u->id] = digit;
        if (!tk_list_place(&s->list, digit))
            return NULL;
    }
    if (!at || !group(s) || !close_loop(s, range))
        return NULL;
    return tk_list_linear(&s->list, s->plan.linear);
}

static const tolk_uop *split(splitter *s) {
    const tk_items_plan *plan = &s->plan;
    tk_uops groups, nodes;
    tk_vec_init(&groups, s->g->al);
    tk_vec_init(&nodes, s->g->al);
    bool ok = find_groups(s, &groups);
    for (uint32_t i = 0; i < plan->n && ok; i++)
        ok = tk_vec_push(&nodes, plan->linear->src[i]);
    for (int d = 0; d < TK_ITEMS_DIMS; d++)
        if (plan->lidx[d])
            s->size[d] = plan->lidx[d]->src[0];
    const tolk_uop *sizes[TK_ITEMS_DIMS];
    for (int d = 0; d < TK_ITEMS_DIMS; d++)
        sizes[d] = s->size[d] ? tk_items_size(s->g, s->size[d]) : NULL;
    s->count = tk_items_count(s->g, sizes);
    s->next_slot = tk_items_free_slot(&nodes);
    const tolk_uop *r = ok && s->count ? whole(s, &groups) : NULL;
    tk_vec_fini(&groups);
    tk_vec_fini(&nodes);
    return r;
}

static const tolk_uop *run(tk_pass *p, const tolk_uop *linear, tolk_error *err, tolk_status *st) {
    splitter s = {.p = p, .g = p->g};
    const tolk_allocator *al = p->g->al;
    bool ok = tk_list_init(&s.list, p->g);
    *st = tk_items_plan_init(&s.plan, linear, err);
    size_t n = s.plan.n_ids * sizeof *s.value, n_regs = (s.plan.regs.n + 1) * sizeof *s.reg_slot;
    s.value = tk_alloc_zero(al, n);
    s.token = tk_alloc_zero(al, n);
    s.slot = tk_alloc_zero(al, n);
    s.reg_slot = tk_alloc_zero(al, n_regs);
    s.touched = tk_alloc_zero(al, s.plan.n_elements + 1);
    const tolk_uop *r = NULL;
    if (*st == TOLK_OK && ok && s.value && s.token && s.slot && s.reg_slot && s.touched)
        r = split(&s);
    tk_alloc_free(al, s.value, n);
    tk_alloc_free(al, s.token, n);
    tk_alloc_free(al, s.slot, n);
    tk_alloc_free(al, s.reg_slot, n_regs);
    tk_alloc_free(al, s.touched, s.plan.n_elements + 1);
    tk_items_plan_fini(&s.plan);
    tk_list_fini(&s.list);
    return r;
}

/* Shared memory that a GPU's launch asks for; -1: more than there is. */
static int64_t shared_memory(tk_pass *p, const tolk_uop *linear) {
    uint64_t bytes = tk_items_shared(linear);
    if (bytes <= p->target->shared_bytes)
        return (int64_t)bytes;
    tk_graph_fail(p->g, TOLK_E_LIMIT,
                  "%llu bytes of local memory: a block has at most %u of shared memory on %s",
                  (unsigned long long)bytes, p->target->shared_bytes, p->target->cpu);
    return -1;
}

tolk_status tk_pass_items(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    const tolk_uop *r = *root;
    tolk_status st = TOLK_OK;
    bool gpu = tk_target_is_gpu(p->target);
    if (p->items && !gpu)
        r = run(p, r, err, &st);
    if (st != TOLK_OK)
        return st;
    p->scratch = !r    ? NULL
                 : gpu ? tk_uop_index_const(p->g, shared_memory(p, r))
                       : tk_items_scratch(p->g, r);
    if (tk_graph_failed(p->g))
        return tk_pass_failed(p, err);
    if (!r || !p->scratch) {
        /* Containers fail without a word. */
        tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
        return tk_pass_failed(p, err);
    }
    *root = r;
    return TOLK_OK;
}
