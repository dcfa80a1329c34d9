/* SPDX-License-Identifier: MIT */
#include "jit/items_plan.h"

#include "base/status.h"
#include "ir/check.h"
#include "ir/dtype.h"

#include <string.h>

enum { MOST_CHEAP = 12 };

static bool is_access(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE) || tk_uop_is(u, TK_OP_ATOMIC_ADD);
}

bool tk_items_is_definition(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) ||
           tk_uop_is(u, TK_OP_SPECIAL);
}

bool tk_items_is_place(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_AFTER) ||
           (tk_uop_is(u, TK_OP_INDEX) && tk_check_is_buffer(tk_access_base(u->src[0])));
}

bool tk_items_is_value(const tolk_uop *u, uint32_t i) {
    const tolk_uop *s = u->src[i];
    if (s->dtype == TOLK_VOID || tk_check_is_buffer(tk_access_base(s)))
        return false;
    if (i == 0)
        return !is_access(u) && !tk_uop_is(u, TK_OP_END);
    return !tk_uop_is(u, TK_OP_AFTER) && !tk_uop_is(u, TK_OP_IF);
}

tk_items_reg *tk_items_plan_reg(const tk_items_plan *plan, const tolk_uop *access) {
    const tolk_uop *base = tk_access_base(access->src[0]->src[0]);
    for (size_t i = 0; tk_access_is_reg(base) && i < plan->regs.n; i++)
        if (plan->regs.at[i].buffer == base)
            return &plan->regs.at[i];
    return NULL;
}

uint32_t tk_items_plan_element(const tk_items_reg *reg, const tolk_uop *access) {
    return reg->first + (uint32_t)access->src[0]->src[1]->attr[0].i;
}

static bool opens(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(u, TK_OP_IF);
}
static bool closes(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_ENDIF);
}

/* ---- regions ---- */

/* Which loops and ifs belong together, and which have meeting points inside. */
static bool find_scopes(tk_items_plan *p, bool *meets) {
    TK_VEC(uint32_t) open;
    tk_vec_init(&open, p->al);
    bool ok = true;
    for (uint32_t i = 0; i < p->n && ok; i++) {
        const tolk_uop *u = p->linear->src[i];
        if (opens(u)) {
            ok = tk_vec_push(&open, i);
        } else if (closes(u)) {
            uint32_t at = tk_vec_pop(&open); /* the program is verified */
            p->match[i] = at;
            p->match[at] = i;
            meets[i] = meets[at];
        } else if (tk_uop_is(u, TK_OP_BARRIER)) {
            meets[i] = true;
            for (size_t k = 0; k < open.n; k++)
                meets[open.at[k]] = true;
        }
    }
    tk_vec_fini(&open);
    return ok;
}

static void cut(tk_items_plan *p, const bool *meets) {
    uint32_t region = 1, loops = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const tolk_uop *u = p->linear->src[i];
        p->looped[i] = loops > 0;
        p->entry[i] = i;
        if (meets[i]) {
            loops += tk_uop_is(u, TK_OP_RANGE);
            loops -= tk_uop_is(u, TK_OP_END);
            region++;
            continue;
        }
        p->region[i] = region;
        if (!opens(u))
            continue;
        uint32_t end = p->match[i];
        for (uint32_t k = i; k <= end; k++) {
            p->entry[k] = i;
            p->region[k] = region;
            p->looped[k] = loops > 0;
        }
        i = end;
    }
}

static bool find_regs(tk_items_plan *p) {
    bool ok = true;
    for (uint32_t i = 0; i < p->n && ok; i++) {
        const tolk_uop *u = p->linear->src[i];
        int dim = tk_items_lidx(u);
        if (dim >= 0)
            p->lidx[dim] = u;
        if (!tk_access_is_reg(u))
            continue;
        bool known = false;
        for (size_t k = 0; k < p->regs.n; k++)
            known |= p->regs.at[k].buffer == u;
        tk_items_reg reg = {.buffer = u, .first = p->n_elements};
        if (known)
            continue;
        ok = tk_vec_push(&p->regs, reg);
        p->n_elements += (uint32_t)u->src[0]->attr[0].i;
    }
    return ok;
}

/* ---- what each work-item does ---- */

/* Is what u does, or its value, another thing for each work-item? stored: memory was stored to in
 * the region before it, so that what all load may be what one of them stored. */
static bool differs(const tk_items_plan *p, const tolk_uop *u, bool stored) {
    bool d = false;
    for (uint32_t i = 0; i < u->n_src; i++)
        d |= tk_items_is_value(u, i) && p->own[u->src[i]->id];
    if (!is_access(u))
        return d;
    const tk_items_reg *reg = tk_items_plan_reg(p, u);
    if (reg)
        return d || reg->item;
    return d || !tk_uop_is(u, TK_OP_LOAD) || stored || p->own[u->src[0]->src[1]->id];
}

static bool sweep(tk_items_plan *p) {
    bool changed = false, stored = false;
    uint32_t region = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const tolk_uop *u = p->linear->src[i];
        if (p->region[i] != region)
            stored = false;
        region = p->region[i];
        bool own = tk_items_lidx(u) >= 0;
        if (region && !tk_items_is_definition(u) && !tk_items_is_place(u)) {
            /* What is listed again is one value: that of one of them or of all. */
            bool item =
                p->item[i] || p->item[p->entry[i]] || p->own[u->id] || differs(p, u, stored);
            changed |= item && !p->item[p->entry[i]];
            p->item[i] |= item;
            p->item[p->entry[i]] |= item;
            own = item;
            tk_items_reg *reg = is_access(u) ? tk_items_plan_reg(p, u) : NULL;
            if (reg && item && !reg->item)
                changed = reg->item = true;
            stored |= is_access(u) && !reg && !tk_uop_is(u, TK_OP_LOAD);
        } else if (tk_uop_is(u, TK_OP_RANGE)) {
            own = false; /* a loop of the whole group */
        }
        changed |= own && !p->own[u->id];
        p->own[u->id] |= own;
    }
    return changed;
}

static tolk_status check_uniform(const tk_items_plan *p, tolk_error *err) {
    for (uint32_t i = 0; i < p->n; i++) {
        const tolk_uop *u = p->linear->src[i];
        if (p->region[i] || !opens(u) || !p->own[u->src[0]->id])
            continue;
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "%s around a barrier or shuffle: the CPU compiler needs %s that is "
                              "surely the same for all work-items of a group",
                              tk_op_get(tk_uop_op(u))->name,
                              tk_uop_is(u, TK_OP_RANGE) ? "a size" : "a condition");
    }
    return TOLK_OK;
}

/* ---- what lives across meeting points ---- */

/* Instructions that making u again takes: it is elementwise, and made of what is always at hand. */
static uint8_t price(const tk_items_plan *p, const tolk_uop *u, const uint8_t *times) {
    tk_op op = tk_uop_op(u);
    bool divides = op == TK_OP_CDIV || op == TK_OP_CMOD || op == TK_OP_FDIV || op == TK_OP_SQRT ||
                   op == TK_OP_FLOORDIV || op == TK_OP_FLOORMOD || op == TK_OP_RECIPROCAL;
    if (times[u->id] > 1 || divides || (!tk_op_is_alu(op) && op != TK_OP_STACK))
        return 0;
    uint32_t sum = 1;
    for (uint32_t i = 0; i < u->n_src; i++) {
        const tolk_uop *s = u->src[i];
        if (tk_items_is_definition(s))
            continue;
        if (times[s->id] > 1 || (p->own[s->id] && !p->cheap[s->id]))
            return 0;
        sum += p->own[s->id] ? p->cheap[s->id] : 0;
    }
    return sum <= MOST_CHEAP ? (uint8_t)sum : 0;
}

/* A value that is used in a region: must it be kept for it? */
static void use_value(tk_items_plan *p, const tolk_uop *s, uint32_t region) {
    if (p->own[s->id] && !tk_items_is_definition(s) && p->made[s->id] != region && !p->cheap[s->id])
        p->kept[s->id] = true;
}

/* sure: by element, the region in which it was surely stored to so far. */
static void use_reg(tk_items_plan *p, uint32_t i, uint32_t *sure, uint32_t *used_in) {
    const tolk_uop *u = p->linear->src[i];
    tk_items_reg *reg = tk_items_plan_reg(p, u);
    if (!reg || !reg->item)
        return;
    uint32_t e = tk_items_plan_element(reg, u), no = (uint32_t)(reg - p->regs.at);
    reg->spread |= p->looped[i] || (used_in[no] && used_in[no] != p->region[i]);
    used_in[no] = p->region[i];
    if (tk_uop_is(u, TK_OP_LOAD) && sure[e] != p->region[i] && reg->spread)
        reg->kept = true;
    if (tk_uop_is(u, TK_OP_STORE) && p->entry[i] == i)
        sure[e] = p->region[i];
}

static bool find_kept(tk_items_plan *p) {
    size_t n_sure = p->n_elements + 1, n_used = p->regs.n + 1;
    uint32_t *sure = tk_alloc_zero(p->al, n_sure * sizeof *sure);
    uint32_t *used_in = tk_alloc_zero(p->al, n_used * sizeof *used_in);
    uint8_t *times = tk_alloc_zero(p->al, p->n_ids);
    bool ok = sure && used_in && times;
    for (uint32_t i = 0; i < p->n && ok; i++) {
        uint8_t *t = &times[p->linear->src[i]->id];
        *t = *t < 2 ? *t + 1 : 2;
    }
    for (uint32_t i = 0; i < p->n && ok; i++) {
        const tolk_uop *u = p->linear->src[i];
        if (!p->region[i] || tk_items_is_definition(u) || tk_items_is_place(u))
            continue;
        for (uint32_t k = 0; k < u->n_src; k++)
            if (tk_items_is_value(u, k))
                use_value(p, u->src[k], p->region[i]);
        if (is_access(u)) {
            if (!tk_items_plan_reg(p, u))
                use_value(p, u->src[0]->src[1], p->region[i]);
            use_reg(p, i, sure, used_in);
        }
        p->made[u->id] = p->region[i];
        p->cheap[u->id] = p->own[u->id] ? price(p, u, times) : 0;
    }
    tk_alloc_free(p->al, sure, n_sure * sizeof *sure);
    tk_alloc_free(p->al, used_in, n_used * sizeof *used_in);
    tk_alloc_free(p->al, times, p->n_ids);
    return ok;
}

/* ---- all of it ---- */

tolk_status tk_items_plan_init(tk_items_plan *p, const tolk_uop *linear, tolk_error *err) {
    const tolk_allocator *al = linear->graph->al;
    *p = (tk_items_plan){
        .linear = linear, .al = al, .n = linear->n_src, .n_ids = (size_t)linear->id + 1};
    tk_vec_init(&p->regs, al);
    size_t n = (size_t)p->n + 1;
    bool *meets = tk_alloc_zero(al, n);
    p->match = tk_alloc_zero(al, n * sizeof *p->match);
    p->entry = tk_alloc_zero(al, n * sizeof *p->entry);
    p->region = tk_alloc_zero(al, n * sizeof *p->region);
    p->looped = tk_alloc_zero(al, n);
    p->item = tk_alloc_zero(al, n);
    p->own = tk_alloc_zero(al, p->n_ids);
    p->kept = tk_alloc_zero(al, p->n_ids);
    p->cheap = tk_alloc_zero(al, p->n_ids);
    p->made = tk_alloc_zero(al, p->n_ids * sizeof *p->made);
    bool ok = meets && p->match && p->entry && p->region && p->looped && p->item && p->own &&
              p->kept && p->cheap && p->made && find_scopes(p, meets) && find_regs(p);
    if (ok)
        cut(p, meets);
    while (ok && sweep(p))
        ;
    tk_alloc_free(al, meets, n);
    if (ok)
        TK_TRY(check_uniform(p, err));
    return ok && find_kept(p) ? TOLK_OK : tk_status_nomem(err);
}

void tk_items_plan_fini(tk_items_plan *p) {
    size_t n = (size_t)p->n + 1;
    tk_alloc_free(p->al, p->match, n * sizeof *p->match);
    tk_alloc_free(p->al, p->entry, n * sizeof *p->entry);
    tk_alloc_free(p->al, p->region, n * sizeof *p->region);
    tk_alloc_free(p->al, p->looped, n);
    tk_alloc_free(p->al, p->item, n);
    tk_alloc_free(p->al, p->own, p->n_ids);
    tk_alloc_free(p->al, p->kept, p->n_ids);
    tk_alloc_free(p->al, p->cheap, p->n_ids);
    tk_alloc_free(p->al, p->made, p->n_ids * sizeof *p->made);
    tk_vec_fini(&p->regs);
}
