/* SPDX-License-Identifier: MIT
 *
 * The outside of pass_lower for a GPU: iterations of the flattened global range become threads.
 *
 * The program's work-items are the specials gidx0 (block) and lidx0 (thread in it); thread number
 * gidx0 * block + lidx0 takes that iteration of the flattened range, and those past its end do
 * nothing. Where a grid may be too small, each takes further ones, a grid apart.
 *
 * Kernels whose work-items meet (items.h) keep their groups: a group is a block, a work-item a
 * thread, and the program is what one of them does.
 */
#include "jit/items.h"
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/sym.h"

/* Threads of a block, if there are so many iterations: enough to hide latencies, few enough for any
 * number of registers a thread. */
enum { BLOCK = 256 };

/* Work-items of a group as the local ranges of an effect have them; 0: there are none, or not that
 * many threads. */
static int64_t local_items(const tk_kview *v, const tk_uops *effects, const tk_target *target) {
    int64_t most = 0;
    for (size_t i = 0; i < effects->n; i++) {
        int64_t n = 1;
        bool any = false;
        for (uint32_t k = tk_lower_flattened(v, effects->at[i], target); k > 0; k--) {
            const tolk_uop *range = effects->at[i]->src[k];
            tk_axis kind = tk_kview_axis(range);
            if (kind != TK_AXIS_LOCAL && kind != TK_AXIS_WARP)
                continue;
            bool fits = tk_uop_is_const(range->src[0]) && range->src[0]->attr[0].i > 0 &&
                        range->src[0]->attr[0].i <= TK_TARGET_MOST_THREADS / n;
            if (!fits)
                return 0;
            n *= range->src[0]->attr[0].i;
            any = true;
        }
        most = any && n > most ? n : most;
    }
    return most;
}

/* Threads of a block for that many iterations. */
static int64_t block_for(const tolk_uop *total) {
    if (!tk_uop_is_const(total))
        return BLOCK;
    int64_t n = total->attr[0].i;
    if (n <= 1)
        return 1;
    if (n < BLOCK)
        return (n + TK_ITEMS_WARP - 1) / TK_ITEMS_WARP * TK_ITEMS_WARP;
    return n % BLOCK != 0 && n % (BLOCK / 2) == 0 ? BLOCK / 2 : BLOCK;
}

/* Open a branch in the body `parent`: its body, or -1. token keeps branches of one condition apart;
 * NULL: there is no other. */
static int open_branch(tk_lower *l, int parent, const tolk_uop *cond, const tolk_uop *token) {
    if (!cond || tk_lower_place(l, cond) < 0)
        return -1;
    const tolk_uop *src[2] = {cond, token};
    const tolk_uop *open = tk_uop(l->g, TK_OP_IF, TOLK_VOID, src, token ? 2 : 1, NULL);
    return open ? tk_lower_scope(l, parent, open) : -1;
}

static const tolk_uop *close_branch(tk_lower *l, int scope) {
    const tolk_uop *open = l->scopes.at[scope].list.at[0];
    const tolk_uop *close = tk_uop(l->g, TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL);
    return close && tk_lower_close(l, scope, close) ? close : NULL;
}

/* The effect with its first n ranges as the digits of `at`, in a body. */
static bool effect_in(tk_lower *l, const tolk_uop *e, uint32_t n, const tolk_uop *at, int scope) {
    if (!at || !tk_lower_bind(l, e, n, at, scope))
        return false;
    tk_lower_frame f = {.u = e, .scope = scope, .first_loop = n + 1};
    l->base_scope = l->floor = scope;
    bool ok = n ? tk_lower_visit_end(l, &f) : tk_lower_visit(l, e);
    for (uint32_t i = 1; i <= n; i++)
        l->range_scope[tk_kview_no(&l->v, e->src[i])] = -1;
    return ok;
}

static bool surely_less(const tolk_uop *a, const tolk_uop *b) {
    tk_bound x = tk_bounds(a), y = tk_bounds(b);
    return x.state == 1 && y.state == 1 && x.hi < y.lo;
}

/* Each effect in its part of the flattened range; `at` is this thread's place in that. */
static bool effects_at(tk_lower *l, const tk_uops *effects, const tolk_uop *at, int scope) {
    tolk_graph *g = l->g;
    const tolk_uop *offset = tk_uop_index_const(g, 0), *token = NULL;
    for (size_t i = 0; i < effects->n && offset; i++) {
        const tolk_uop *e = effects->at[i];
        uint32_t n = tk_lower_flattened(&l->v, e, l->p->target);
        const tolk_uop *size = tk_lower_span_size(g, e, n);
        const tolk_uop *here = size ? tk_sym_sub(g, at, offset) : NULL;
        if (!here)
            return false;
        if (scope == 0 && effects->n == 1 && surely_less(here, size)) {
            bool ok = effect_in(l, e, n, here, 0);
            l->base_scope = l->floor = 0;
            return ok;
        }
        const tolk_uop *in = tk_sym_lt(g, here, size);
        if (i > 0)
            in = tk_sym_and(g, tk_sym_not(g, tk_sym_lt_const(g, here, 0)), in);
        l->base_scope = l->floor = scope;
        int body = open_branch(l, scope, in, token);
        bool ok = body >= 0 && effect_in(l, e, n, here, body);
        l->base_scope = l->floor = 0;
        if (!ok || !(token = close_branch(l, body)) || !tk_lower_done(l, e, token))
            return false;
        offset = tk_sym_add(g, offset, size);
    }
    return offset != NULL;
}

/* All effects in order, by one thread. */
static bool one_thread(tk_lower *l, const tk_uops *effects) {
    const tolk_uop *one = tk_uop_index_const(l->g, 1);
    l->p->span = l->p->grid[0] = l->p->block[0] = one;
    for (size_t i = 0; i < effects->n; i++)
        if (!tk_lower_visit(l, effects->at[i]))
            return false;
    return one != NULL;
}

/* ---- work-items that meet ---- */

/* The specials of a kernel: gidx, idx, lidx of each dimension; NULL where it has none. */
enum { GIDX, IDX, LIDX, KINDS, DIMS = 3 };
typedef const tolk_uop *specials[KINDS][DIMS];

static void find_specials(const tk_kview *v, specials s) {
    for (int k = 0; k < KINDS; k++)
        for (int d = 0; d < DIMS; d++)
            s[k][d] = NULL;
    for (size_t i = 0; i < v->order.n; i++) {
        const tolk_uop *u = v->order.at[i];
        int dim = 0;
        if (!tk_uop_is(u, TK_OP_SPECIAL))
            continue;
        tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &dim);
        s[kind == TK_SPECIAL_LIDX ? LIDX : kind == TK_SPECIAL_IDX ? IDX : GIDX][dim] = u;
    }
}

static bool is_at_most(const tolk_uop *special, int64_t most) {
    tk_bound b = special ? tk_bounds(special->src[0]) : (tk_bound){0};
    return !special || (b.state == 1 && b.hi <= most);
}

/* Size of a special. */
static const tolk_uop *size_of(tolk_graph *g, const tolk_uop *special) {
    return special ? tk_items_size(g, special->src[0]) : tk_uop_index_const(g, 1);
}

/* The specials of a list, the first fastest, become the digits of one that counts them through.
 * NULL on failure; *total: the size of that one. */
static const tolk_uop *fold(tk_lower *l, const char *name, const tolk_uop *const *list, int n,
                            const tolk_uop **total) {
    tolk_graph *g = l->g;
    const tolk_uop *size = tk_uop_index_const(g, 1);
    for (int i = 0; i < n && size; i++)
        size = tk_sym_mul(g, size, size_of(g, list[i]));
    const tolk_uop *one = size ? tk_lower_special(l, name, size) : NULL, *at = one;
    for (int i = 0; i < n && at; i++) {
        if (!list[i])
            continue;
        tk_lval *v = tk_lower_new_values(l, list[i], 1);
        const tolk_uop *digit = tk_uop2(g, TK_OP_CMOD, at, list[i]->src[0]);
        at = digit ? tk_uop2(g, TK_OP_CDIV, at, list[i]->src[0]) : NULL;
        if (!v || !at)
            return NULL;
        v[0] = tk_lval_uniform(digit);
    }
    *total = size;
    return at ? one : NULL;
}

/* The grid: as the kernel has it where that fits, else all of its groups in x; and of more than x
 * takes the rest in y and z. *guard: where a block is one of the groups, NULL: everywhere. */
static bool set_grid(tk_lower *l, specials s, const tolk_uop **guard) {
    tolk_graph *g = l->g;
    *guard = NULL;
    if (!s[IDX][0] && !s[IDX][1] && !s[IDX][2] && is_at_most(s[GIDX][0], TK_LOWER_MOST_BLOCKS) &&
        is_at_most(s[GIDX][1], TK_LOWER_MOST_BLOCKS_YZ) &&
        is_at_most(s[GIDX][2], TK_LOWER_MOST_BLOCKS_YZ)) {
        l->p->span = tk_uop_index_const(g, 1);
        for (int d = 0; d < DIMS && l->p->span; d++) {
            l->p->grid[d] = size_of(g, s[GIDX][d]);
            l->p->span = tk_sym_mul(g, l->p->span, l->p->grid[d]);
        }
        return l->p->span != NULL;
    }
    const tolk_uop *list[2 * DIMS] = {s[GIDX][0], s[GIDX][1], s[GIDX][2],
                                      s[IDX][0],  s[IDX][1],  s[IDX][2]};
    const tolk_uop *one = fold(l, "gidx0", list, 2 * DIMS, &l->p->grid[0]);
    if (!one)
        return false;
    const tolk_uop *n = l->p->span = l->p->grid[0];
    tk_bound b = tk_bounds(n);
    if (b.state == 1 && b.hi <= TK_LOWER_MOST_BLOCKS)
        return true;
    /* A power of two in x, so that few blocks are too many. */
    const tolk_uop *x = tk_sym_min(g, n, tk_uop_index_const(g, 1 << 30));
    const tolk_uop *rows =
        tk_sym_add_const(g, tk_sym_div_const(g, tk_sym_add_const(g, n, -1), 1 << 30), 1);
    const tolk_uop *most = tk_uop_index_const(g, 1 << 15), *y = tk_sym_min(g, rows, most);
    const tolk_uop *z =
        tk_sym_add_const(g, tk_sym_div_const(g, tk_sym_add_const(g, rows, -1), 1 << 15), 1);
    l->p->grid[0] = x;
    l->p->grid[1] = y;
    l->p->grid[2] = z;
    *guard = tk_uop2(g, TK_OP_CMPLT, one, n);
    return x && y && z && *guard;
}

static bool set_block(tk_lower *l, specials s) {
    tolk_graph *g = l->g;
    int64_t n = 1;
    for (int d = 0; d < DIMS; d++) {
        l->p->block[d] = size_of(g, s[LIDX][d]);
        if (!l->p->block[d])
            return false;
        tk_bound b = tk_bounds(l->p->block[d]);
        n = b.state == 1 && b.lo > 0 ? (b.lo > INT32_MAX / n ? INT32_MAX : n * b.lo) : n;
    }
    if (n > TK_TARGET_MOST_THREADS) {
        tk_graph_fail(g, TOLK_E_LIMIT,
                      "work-groups of %s%lld work-items: a block of a GPU has at most %d threads",
                      n == INT32_MAX ? "more than " : "", (long long)n, TK_TARGET_MOST_THREADS);
        return false;
    }
    if (is_at_most(s[LIDX][2], TK_TARGET_MOST_THREADS_Z))
        return true;
    l->p->block[1] = l->p->block[2] = tk_uop_index_const(g, 1);
    return fold(l, "lidx0", s[LIDX], DIMS, &l->p->block[0]) != NULL;
}

/* What one work-item does, all effects in order. */
static bool groups(tk_lower *l, const tk_uops *effects) {
    specials s;
    const tolk_uop *guard;
    find_specials(&l->v, s);
    if (!set_grid(l, s, &guard) || !set_block(l, s))
        return false;
    int scope = guard ? open_branch(l, 0, guard, NULL) : 0;
    if (scope < 0)
        return false;
    l->base_scope = l->floor = scope;
    bool ok = true;
    for (size_t i = 0; i < effects->n && ok; i++)
        ok = tk_lower_visit(l, effects->at[i]);
    l->base_scope = l->floor = 0;
    return ok && (!guard || close_branch(l, scope));
}

/* ---- all kernels ---- */

bool tk_lower_grid(tk_lower *l, const tk_uops *effects) {
    tolk_graph *g = l->g;
    const tolk_uop *one = tk_uop_index_const(g, 1);
    for (int d = 0; d < 3; d++)
        l->p->grid[d] = l->p->block[d] = one;
    if (l->p->items)
        return groups(l, effects);
    if (l->in_order)
        return one_thread(l, effects);
    const tolk_uop *total = tk_uop_index_const(g, 0);
    for (size_t i = 0; i < effects->n && total; i++) {
        uint32_t n = tk_lower_flattened(&l->v, effects->at[i], l->p->target);
        const tolk_uop *size = tk_lower_span_size(g, effects->at[i], n);
        total = size ? tk_sym_add(g, total, size) : NULL;
    }
    if (!total)
        return false;
    l->p->span = total;
    int64_t threads = local_items(&l->v, effects, l->p->target);
    if (!threads)
        threads = block_for(total);
    int64_t most = l->p->most_blocks ? l->p->most_blocks : TK_LOWER_MOST_BLOCKS;
    const tolk_uop *block = tk_uop_index_const(g, threads);
    /* Rounded up, for totals up to 2^63 - 1. */
    const tolk_uop *blocks =
        tk_sym_add_const(g, tk_sym_div_const(g, tk_sym_add_const(g, total, -1), threads), 1);
    if (!blocks || !block)
        return false;
    tk_bound b = tk_bounds(blocks);
    bool again = b.state != 1 || b.hi > most;
    if (again) /* a total that does not fit 63 bits is refused by the launch */
        blocks = tk_sym_min(g, blocks, tk_uop_index_const(g, most));
    const tolk_uop *gidx = blocks ? tk_lower_special(l, "gidx0", blocks) : NULL;
    const tolk_uop *lidx = gidx ? tk_lower_special(l, "lidx0", block) : NULL;
    if (!lidx)
        return false;
    l->p->grid[0] = blocks;
    l->p->block[0] = block;
    const tolk_uop *at = tk_sym_add(g, tk_sym_mul_const(g, gidx, threads), lidx);
    if (!again)
        return at && effects_at(l, effects, at, 0);
    const tolk_uop *step = tk_sym_mul_const(g, blocks, threads);
    /* Iterations at, at + step ... below the total: none where `at` is not. */
    const tolk_uop *left = tk_sym_add_const(g, tk_sym_sub(g, total, at), -1);
    const tolk_uop *count = tk_sym_add_const(g, tk_sym_cdiv(g, left, step), 1);
    count = tk_sym_where(g, tk_sym_lt(g, at, total), count, tk_uop_index_const(g, 0));
    if (!count || tk_lower_place(l, count) < 0)
        return false;
    tk_attr attrs[4] = {{.i = l->next_axis++}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
    const tolk_uop *loop = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, &count, 1, attrs);
    int scope = loop ? tk_lower_scope(l, 0, loop) : -1;
    if (scope < 0 || !effects_at(l, effects, tk_sym_add(g, at, tk_sym_mul(g, loop, step)), scope))
        return false;
    const tolk_uop *close = tk_uop(g, TK_OP_END, TOLK_VOID, &loop, 1, NULL);
    return close && tk_lower_close(l, scope, close);
}
