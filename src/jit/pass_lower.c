/* SPDX-License-Identifier: MIT
 *
 * pass_lower: the loop nest becomes a straight list of instructions.
 *
 * Needs:  stage kernel, flattened and decomposed; ranges of kind upcast, unroll and lane only where
 *         lower_kinds.c left them.
 * Leaves: stage program: a LINEAR. p->span is the number of iterations of the flattened global
 *         range.
 *
 * How it works. A walk from the sink visits each node once for each *scope* (the body of one loop)
 * in which its value is needed: the innermost one among the loops it depends on. A visited node's
 * value is an array with one entry for each combination of the unrolled ranges it depends on; an
 * entry is uniform (a scalar), affine in the lane (base + lane * stride, for indices), or a vector.
 *
 * Pure instructions are not listed when they are made but when something needs them, and then in
 * the innermost scope among those of their sources: so everything is hoisted out of every loop that
 * it does not depend on. Loads are listed when visited, effects too, and a load's order token
 * (AFTER) is among its sources, so neither moves across the effect it waits for.
 */
#include "jit/lower.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/scalar.h"
#include "ir/sym.h"

#include <string.h>

/* An output of this size goes around the caches: it would push out all that is in them. */
enum { STREAM_BYTES = 8 << 20 };

/* ---- scopes and the list ---- */

int tk_lower_scope(tk_lower *l, int parent, const tolk_uop *opener) {
    tk_lower_body s = {
        .parent = parent, .depth = parent < 0 ? 0 : l->scopes.at[parent].depth + 1, .open = true};
    tk_vec_init(&s.list, l->al);
    if (opener && !tk_vec_push(&s.list, opener))
        return -1;
    if (!tk_vec_push(&l->scopes, s))
        return -1;
    int no = (int)l->scopes.n - 1;
    if (opener && !tk_lower_mark(l, opener, no))
        return -1;
    return no;
}

bool tk_lower_mark(tk_lower *l, const tolk_uop *u, int scope) {
    if (l->placed.n <= u->id && !tk_vec_resize(&l->placed, (size_t)u->id + 256))
        return false;
    l->placed.at[u->id] = scope + 1;
    return true;
}

/* Scope in which u is listed and still visible, or -1. */
static int visible(const tk_lower *l, const tolk_uop *u) {
    if (u->id >= l->placed.n || !l->placed.at[u->id])
        return -1;
    int s = l->placed.at[u->id] - 1;
    return l->scopes.at[s].open ? s : -1;
}

static bool list(tk_lower *l, const tolk_uop *u, int scope) {
    return tk_vec_push(&l->scopes.at[scope].list, u) && tk_lower_mark(l, u, scope);
}

static bool is_root_node(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) ||
           tk_uop_is(u, TK_OP_SPECIAL);
}

/* List u and all it needs. Returns its scope, or -1 on failure. */
int tk_lower_place(tk_lower *l, const tolk_uop *u) {
    if (!u)
        return -1;
    int s = visible(l, u);
    if (s >= 0)
        return s;
    size_t bottom = l->todo.n;
    if (!tk_vec_push(&l->todo, u))
        return -1;
    while (l->todo.n > bottom) {
        const tolk_uop *x = tk_vec_last(&l->todo);
        if (visible(l, x) >= 0) {
            l->todo.n--;
            continue;
        }
        bool ready = true;
        int scope = 0;
        for (uint32_t i = x->n_src; i-- > 0;) {
            int si = visible(l, x->src[i]);
            if (si < 0) {
                ready = false;
                if (!tk_vec_push(&l->todo, x->src[i]))
                    return -1;
            } else if (l->scopes.at[si].depth > l->scopes.at[scope].depth) {
                scope = si;
            }
        }
        if (!ready)
            continue;
        /* What a branch needs is listed in it, unless it belongs outside of the loop around the
         * branch: there it would stand before the branch's own copy of it, and code behind the
         * branch would see that copy. */
        if (l->pin > 0 && !is_root_node(x) &&
            l->scopes.at[scope].depth + 1 >= l->scopes.at[l->pin].depth)
            scope = l->pin;
        if (!list(l, x, scope))
            return -1;
        l->todo.n--;
    }
    return visible(l, u);
}

/* List an effect at the end of a scope. */
static bool effect(tk_lower *l, const tolk_uop *u, int scope) {
    if (!u)
        return false;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (tk_lower_place(l, u->src[i]) < 0)
            return false;
    return list(l, u, scope);
}

/* Close a scope with its last instruction and put it at the end of its parent. */
bool tk_lower_close(tk_lower *l, int scope, const tolk_uop *closer) {
    int parent = l->scopes.at[scope].parent;
    if (!closer || !tk_vec_push(&l->scopes.at[scope].list, closer))
        return false;
    tk_uops *from = &l->scopes.at[scope].list, *to = &l->scopes.at[parent].list;
    if (!tk_vec_reserve(to, to->n + from->n))
        return false;
    memcpy(to->at + to->n, from->at, from->n * sizeof *from->at);
    to->n += from->n;
    tk_vec_fini(from);
    l->scopes.at[scope].open = false;
    return tk_lower_mark(l, closer, parent);
}

/* ---- instances ---- */

/* Number of the lane range that u depends on, or -1. */
static int lane_of(const tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    for (size_t i = 0; i < l->lane_ranges.n; i++)
        if (tk_set_has(set, l->lane_ranges.at[i]))
            return (int)l->lane_ranges.at[i];
    return -1;
}

static uint32_t lanes_of(const tk_lower *l, const tolk_uop *u) {
    int no = lane_of(l, u);
    return no < 0 ? 1 : (uint32_t)l->v.ranges.at[no]->src[0]->attr[0].i;
}

/* Combinations of the unrolled ranges in a set. */
static uint32_t instances(const tk_lower *l, const uint64_t *set) {
    uint64_t n = 1;
    for (size_t i = 0; i < l->unrolled.n && n <= TK_LOWER_MAX_INSTANCES; i++)
        if (tk_set_has(set, l->unrolled.at[i].no))
            n *= l->unrolled.at[i].size;
    return n > TK_LOWER_MAX_INSTANCES ? TK_LOWER_MAX_INSTANCES + 1 : (uint32_t)n;
}

/* Instance of `to` that instance k of `from` uses; digits of ranges that only `to` has are 0. */
static uint32_t project(const tk_lower *l, const uint64_t *from, uint32_t k, const uint64_t *to) {
    uint32_t at = 0, scale = 1;
    for (size_t i = l->unrolled.n; i-- > 0;) {
        uint32_t size = l->unrolled.at[i].size, digit = 0;
        if (tk_set_has(from, l->unrolled.at[i].no)) {
            digit = k % size;
            k /= size;
        }
        if (tk_set_has(to, l->unrolled.at[i].no)) {
            at += digit * scale;
            scale *= size;
        }
    }
    return at;
}

/* Innermost scope among the loops u depends on. */
static int scope_of(const tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    int s = l->base_scope;
    for (size_t r = 0; r < l->v.ranges.n; r++)
        if (tk_set_has(set, (uint32_t)r) && l->range_scope[r] > 0 &&
            l->scopes.at[l->range_scope[r]].depth > l->scopes.at[s].depth)
            s = l->range_scope[r];
    return s;
}

static uint64_t value_key(const tolk_uop *u, int scope) {
    return (uint64_t)u->id << 32 | (uint32_t)scope;
}

static tk_lval *find_values(const tk_lower *l, const tolk_uop *u) {
    uint64_t *at = tk_map_find(&l->values, value_key(u, scope_of(l, u)));
    /* An effect of the sink that is done belongs to no loop, whatever loop is open now. */
    if (!at && tk_uop_is(u, TK_OP_END))
        at = tk_map_find(&l->values, value_key(u, 0));
    return at ? &l->lvals.at[*at] : NULL;
}

/* Room for the values of u in its scope. The pointer is good until the next call. */
static tk_lval *new_values(tk_lower *l, const tolk_uop *u, uint32_t n) {
    size_t at = l->lvals.n;
    if (!tk_vec_resize(&l->lvals, at + n) ||
        !tk_map_put(&l->values, value_key(u, scope_of(l, u)), at)) {
        tk_graph_fail(l->g, TOLK_E_NOMEM, "out of memory");
        return NULL;
    }
    return &l->lvals.at[at];
}

/* Value of source i of u for instance k of u. */
static tk_lval source(const tk_lower *l, const tolk_uop *u, uint32_t k, uint32_t i) {
    const tolk_uop *s = u->src[i];
    tk_lval *at = find_values(l, s);
    TK_ASSERT(at);
    return at[project(l, tk_kview_set(&l->v, u), k, tk_kview_set(&l->v, s))];
}

/* ---- vectors ---- */

static const tolk_uop *iota(tk_lower *l, tolk_dtype scalar, uint32_t lanes, int64_t step) {
    const tolk_uop *src[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < lanes; i++)
        src[i] = tk_uop_const(l->g, scalar, (uint64_t)((int64_t)i * step));
    return tk_uop(l->g, TK_OP_STACK, tolk_dtype_vec(scalar, lanes), src, lanes, NULL);
}

/* The value as a vector of `lanes`. */
static const tolk_uop *vector(tk_lower *l, tk_lval x, uint32_t lanes) {
    if (lanes == 1 || !x.u || tk_uop_lanes(x.u) > 1)
        return x.u;
    const tolk_uop *splat = tk_uop_splat(l->g, x.u, lanes);
    if (!x.stride)
        return splat;
    return tk_uop2(l->g, TK_OP_ADD, splat, iota(l, TOLK_INDEX, lanes, x.stride));
}

static tk_lval uniform(const tolk_uop *u) {
    return (tk_lval){u, 0};
}

static bool is_scalar(tk_lval x) {
    return tk_uop_lanes(x.u) == 1 && !x.stride;
}
static bool is_affine(tk_lval x) {
    return tk_uop_lanes(x.u) == 1;
}

/* Far outside of every buffer whatever lane is added: pass_prove's sentinel. */
static bool is_outside(tk_lval x) {
    return tk_uop_is_int(x.u, INT64_MIN / 2);
}

/* Index arithmetic that stays affine in the lane; u = NULL if it does not. */
static tk_lval affine_op(tk_lower *l, tk_op op, const tk_lval *s) {
    tolk_graph *g = l->g;
    tk_lval none = {NULL, 0};
    switch (op) {
    case TK_OP_ADD:
    case TK_OP_SUB: {
        int64_t stride;
        if (!is_affine(s[0]) || !is_affine(s[1]) ||
            (op == TK_OP_ADD ? __builtin_add_overflow(s[0].stride, s[1].stride, &stride)
                             : __builtin_sub_overflow(s[0].stride, s[1].stride, &stride)))
            return none;
        return (tk_lval){op == TK_OP_ADD ? tk_sym_add(g, s[0].u, s[1].u)
                                         : tk_uop2(g, TK_OP_SUB, s[0].u, s[1].u),
                         stride};
    }
    case TK_OP_MUL: {
        tk_lval a = s[0], b = s[1];
        if (!is_affine(a) || !is_affine(b))
            return none;
        if (!tk_uop_is_const(b.u) || b.stride) {
            a = s[1];
            b = s[0];
        }
        int64_t stride;
        if (!tk_uop_is_const(b.u) || b.stride ||
            __builtin_mul_overflow(a.stride, b.u->attr[0].i, &stride))
            return none;
        return (tk_lval){tk_sym_mul(g, a.u, b.u), stride};
    }
    case TK_OP_WHERE: {
        if (!is_scalar(s[0]) || !is_affine(s[1]) || !is_affine(s[2]))
            return none;
        bool out1 = is_outside(s[1]), out2 = is_outside(s[2]);
        if (s[1].stride != s[2].stride && !out1 && !out2)
            return none;
        return (tk_lval){tk_uop3(g, TK_OP_WHERE, s[0].u, s[1].u, s[2].u),
                         out1 ? s[2].stride : s[1].stride};
    }
    default:
        return none;
    }
}

/* lane index + base < bound as one compare of small integers: lane < clamp(bound - base). */
static const tolk_uop *lane_below(tk_lower *l, tk_lval a, tk_lval b, uint32_t lanes) {
    tolk_graph *g = l->g;
    tk_bound ba = tk_bounds(a.u), bb = tk_bounds(b.u);
    if (a.stride != 1 || b.stride || tk_uop_lanes(b.u) > 1 || ba.state != 1 || bb.state != 1 ||
        ba.lo < INT64_MIN / 4 || ba.hi > INT64_MAX / 4 || bb.lo < INT64_MIN / 4 ||
        bb.hi > INT64_MAX / 4)
        return NULL;
    const tolk_uop *n = tk_uop2(g, TK_OP_SUB, b.u, a.u);
    const tolk_uop *most = tk_uop_index_const(g, lanes);
    n = tk_uop3(g, TK_OP_WHERE, tk_uop2(g, TK_OP_CMPLT, n, most), n, most);
    n = tk_uop2(g, TK_OP_MAX, n, tk_uop_index_const(g, 0));
    n = tk_uop_cast(g, n, TOLK_I32);
    return tk_uop2(g, TK_OP_CMPLT, iota(l, TOLK_I32, lanes, 1), tk_uop_splat(g, n, lanes));
}

/* An affine index cast to another integer dtype: wrapping commutes with adding. */
static const tolk_uop *cast_affine(tk_lower *l, tk_lval x, tolk_dtype to, uint32_t lanes) {
    const tolk_uop *base = tk_uop_splat(l->g, tk_uop_cast(l->g, x.u, to), lanes);
    return tk_uop2(l->g, TK_OP_ADD, base, iota(l, to, lanes, x.stride));
}

/* bool has add = max = or and mul = and. */
static tk_op bool_op(tk_op op) {
    return op == TK_OP_ADD || op == TK_OP_MAX ? TK_OP_OR : op == TK_OP_MUL ? TK_OP_AND : op;
}

static const tolk_uop *math(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b);

static const tolk_uop *combine(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    if (!a || !b)
        return NULL;
    return tk_uop2(l->g, tk_dtype_scalar(a->dtype) == TOLK_BOOL ? bool_op(op) : op, a, b);
}

static tk_lval alu(tk_lower *l, const tolk_uop *u, const tk_lval *s, uint32_t lanes) {
    tolk_graph *g = l->g;
    tk_op op = tk_uop_op(u);
    uint32_t n = u->n_src;
    bool all_scalar = true;
    for (uint32_t i = 0; i < n; i++)
        all_scalar &= is_scalar(s[i]);
    if (!all_scalar && tk_dtype_scalar(u->dtype) == TOLK_INDEX) {
        tk_lval r = affine_op(l, op, s);
        if (r.u || tk_graph_failed(g))
            return r;
    }
    if (!all_scalar && op == TK_OP_CMPLT && is_affine(s[0]) && is_affine(s[1]) && s[0].stride) {
        const tolk_uop *r = lane_below(l, s[0], s[1], lanes);
        if (r || tk_graph_failed(g))
            return uniform(r);
    }
    if (!all_scalar && op == TK_OP_CAST && is_affine(s[0]) && tolk_dtype_is_int(u->dtype))
        return uniform(cast_affine(l, s[0], u->dtype, lanes));
    const tolk_uop *v[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < n; i++)
        if (!(v[i] = all_scalar ? s[i].u : vector(l, s[i], lanes)))
            return (tk_lval){NULL, 0};
    if (tk_mathfn_is(op))
        return uniform(math(l, op, v[0], v[1]));
    if (op == TK_OP_CAST)
        return uniform(tk_uop_cast(g, v[0], tk_dtype_scalar(u->dtype)));
    if (op == TK_OP_BITCAST)
        return uniform(tk_uop_bitcast(g, v[0], tk_dtype_scalar(u->dtype)));
    if (n == 2)
        return uniform(combine(l, op, v[0], v[1]));
    return uniform(n == 1 ? tk_uop1(g, op, v[0]) : tk_uop3(g, op, v[0], v[1], v[2]));
}

/* ---- scratch registers ---- */

static const tolk_uop *reg_buffer(tk_lower *l, tolk_dtype dtype, int64_t elems) {
    const tolk_uop *size = tk_uop_index_const(l->g, elems);
    tk_attr attrs[4] = {{.i = l->next_reg++}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    return size ? tk_uop(l->g, TK_OP_BUFFER, dtype, &size, 1, attrs) : NULL;
}

static const tolk_uop *reg_place(tk_lower *l, const tolk_uop *buffer, int64_t k) {
    if (!buffer)
        return NULL;
    return tk_uop(l->g, TK_OP_INDEX, buffer->dtype,
                  (const tolk_uop *[]){buffer, tk_uop_index_const(l->g, k)}, 2, NULL);
}

static const tolk_uop *memory_op(tk_lower *l, tk_op op, tolk_dtype dtype, const tolk_uop *place,
                                 const tolk_uop *second, const tolk_uop *gate, bool inbounds) {
    tk_attr attrs[2] = {{.i = inbounds}, {.i = 0}};
    const tolk_uop *src[3] = {place, second, gate};
    uint32_t n = gate ? 3 : op == TK_OP_STORE ? 2 : 1;
    return tk_uop(l->g, op, dtype, src, n, attrs);
}

static const tolk_uop *reg_store(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                 const tolk_uop *value) {
    const tolk_uop *place = reg_place(l, buffer, k);
    return place && value ? memory_op(l, TK_OP_STORE, TOLK_VOID, place, value, NULL, true) : NULL;
}

static const tolk_uop *reg_load(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                const tolk_uop *token) {
    if (!buffer || !token)
        return NULL;
    const tolk_uop *now =
        tk_uop(l->g, TK_OP_AFTER, buffer->dtype, (const tolk_uop *[]){buffer, token}, 2, NULL);
    const tolk_uop *place = reg_place(l, now, k);
    return place ? memory_op(l, TK_OP_LOAD, buffer->dtype, place, NULL, NULL, true) : NULL;
}

/* A function of math.def: the fast body, and a branch to the slow one when a lane needs it. */
static const tolk_uop *math(tk_lower *l, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    tolk_graph *g = l->g;
    tk_mathfn_expansion e = tk_mathfn_expand(g, op, a, b, l->p->target->fma);
    if (!e.fast || !e.slow || tk_uop_is_int(e.cond, 0))
        return e.fast;
    const tolk_uop *reg = reg_buffer(l, e.fast->dtype, 1);
    const tolk_uop *init = reg_store(l, reg, 0, e.fast);
    int at = tk_lower_place(l, e.cond);
    int fast_at = init ? tk_lower_place(l, e.fast) : -1;
    if (at < 0 || fast_at < 0)
        return NULL;
    if (l->scopes.at[fast_at].depth > l->scopes.at[at].depth)
        at = fast_at;
    /* The store is among the sources so that two functions with one condition get two nodes. */
    if (!effect(l, init, at))
        return NULL;
    const tolk_uop *open =
        tk_uop(g, TK_OP_IF, TOLK_VOID, (const tolk_uop *[]){e.cond, init}, 2, NULL);
    int body = open ? tk_lower_scope(l, at, open) : -1;
    if (body < 0)
        return NULL;
    int outer_pin = l->pin;
    l->pin = body;
    const tolk_uop *value = tk_uop3(g, TK_OP_WHERE, e.cond, e.slow, e.fast);
    bool ok = effect(l, reg_store(l, reg, 0, value), body);
    l->pin = outer_pin;
    const tolk_uop *end = ok ? tk_uop(g, TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL) : NULL;
    if (!end || !tk_lower_close(l, body, end))
        return NULL;
    const tolk_uop *r = reg_load(l, reg, 0, end);
    return r && tk_lower_place(l, r) >= 0 ? r : NULL;
}

/* ---- loads and stores ---- */

/* How a kernel's own reg buffer is laid out: one copy of it for each combination of the unrolled
 * ranges that its stores depend on, and vectors if they depend on a lane. */
static tk_lower_reg *reg_info(tk_lower *l, const tolk_uop *buffer) {
    for (size_t i = 0; i < l->regs.n; i++)
        if (l->regs.at[i].buffer == buffer)
            return &l->regs.at[i];
    return NULL;
}

/* Element of a reg buffer for instance k of an access. -1: the index is no constant. */
static int64_t reg_element(tk_lower *l, const tk_lower_reg *reg, const tolk_uop *access, uint32_t k,
                           tk_lval at) {
    if (!is_scalar(at) || !tk_uop_is_const(at.u))
        return -1;
    int64_t elems = reg->buffer->src[0]->attr[0].i, i = at.u->attr[0].i;
    if (i < 0 || i >= elems)
        return -1;
    return (int64_t)project(l, tk_kview_set(&l->v, access), k, reg->set) * elems + i;
}

static bool reg_error(tk_lower *l, const tolk_uop *u) {
    tk_graph_fail(
        l->g, TOLK_E_UNSUPPORTED,
        "%s: the CPU compiler needs constant indices, in range, into buffers of space=reg",
        tk_op_get(tk_uop_op(u))->name);
    return false;
}

/* Place of the elements that lanes of an access touch: one address and consecutive elements if the
 * index moves by 1, else one address a lane. `one`: every lane has the same address. */
static const tolk_uop *place_of(tk_lower *l, const tolk_uop *buffer, tk_lval at, uint32_t lanes,
                                bool *one) {
    tolk_dtype dt = tk_dtype_scalar(buffer->dtype);
    *one = lanes == 1 || is_scalar(at);
    if (*one || (is_affine(at) && at.stride == 1))
        return tk_uop(l->g, TK_OP_INDEX, dt, (const tolk_uop *[]){buffer, at.u}, 2, NULL);
    const tolk_uop *idx = vector(l, at, lanes);
    if (!idx)
        return NULL;
    return tk_uop(l->g, TK_OP_INDEX, tolk_dtype_vec(dt, lanes), (const tolk_uop *[]){buffer, idx},
                  2, NULL);
}

static const tolk_uop *buffer_value(const tk_lower *l, const tolk_uop *place) {
    tk_lval *b = find_values(l, place->src[0]);
    TK_ASSERT(b);
    return b[0].u;
}

/* List what loads memory (or a select behind the load) in the scope where it belongs, however
 * little its operands depend on: outside of the loop around it, it could be out of its buffer. */
static bool list_access(tk_lower *l, const tolk_uop *r, int scope) {
    if (!r)
        return false;
    const tolk_uop *load = r;
    while (!tk_uop_is(load, TK_OP_LOAD))
        load = load->src[tk_uop_is(load, TK_OP_WHERE) ? 1 : 0];
    if (visible(l, load) < 0) {
        int deepest = scope;
        for (uint32_t i = 0; i < load->n_src; i++) {
            int s = tk_lower_place(l, load->src[i]);
            if (s < 0)
                return false;
            if (l->scopes.at[s].depth > l->scopes.at[deepest].depth)
                deepest = s;
        }
        if (!list(l, load, deepest))
            return false;
    }
    return tk_lower_place(l, r) >= 0;
}

static bool emit_load(tk_lower *l, const tolk_uop *u) {
    tolk_graph *g = l->g;
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = instances(l, set), lanes = lanes_of(l, u);
    const tolk_uop *root = tk_kview_buffer(u->src[0]), *buffer = buffer_value(l, u->src[0]);
    tk_lower_reg *reg = tk_kview_is_global(root) ? NULL : reg_info(l, root);
    if (!new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval at = source(l, u, k, 0);
        const tolk_uop *r;
        if (reg) {
            int64_t e = reg_element(l, reg, u, k, at);
            if (e < 0 || u->n_src == 3)
                return reg_error(l, u);
            const tolk_uop *place = reg_place(l, buffer, e);
            r = place ? memory_op(l, TK_OP_LOAD, place->dtype, place, NULL, NULL, true) : NULL;
        } else {
            bool one, inbounds = tk_uop_int(u, TK_A_LOAD_INBOUNDS);
            const tolk_uop *alt = NULL, *gate = NULL;
            tk_lval ga = {NULL, 0};
            if (u->n_src == 3) {
                ga = source(l, u, k, 2);
                if (tk_uop_is_int(ga.u, 1))
                    ga.u = NULL;
            }
            const tolk_uop *place = place_of(l, buffer, at, lanes, &one);
            /* The same address with another gate in each lane is still a gather. */
            if (place && one && lanes > 1 && ga.u && !is_scalar(ga)) {
                const tolk_uop *idx = tk_uop_splat(g, at.u, lanes);
                place = idx ? tk_uop(g, TK_OP_INDEX, tolk_dtype_vec(buffer->dtype, lanes),
                                     (const tolk_uop *[]){buffer, idx}, 2, NULL)
                            : NULL;
                one = false;
            }
            if (!place)
                return false;
            uint32_t w = one ? 1 : lanes;
            if (ga.u) {
                gate = vector(l, ga, w);
                tk_lval alt_value = source(l, u, k, 1);
                /* A scalar load with a vector alternative: select behind the load. */
                bool late = one && !is_scalar(alt_value);
                alt =
                    late ? tk_uop_const(g, tk_dtype_scalar(u->dtype), 0) : vector(l, alt_value, w);
                r = gate && alt ? memory_op(l, TK_OP_LOAD, tolk_dtype_vec(u->dtype, w), place, alt,
                                            gate, inbounds)
                                : NULL;
                if (r && late)
                    r = tk_uop3(g, TK_OP_WHERE, tk_uop_splat(g, gate, lanes),
                                tk_uop_splat(g, r, lanes), vector(l, alt_value, lanes));
            } else {
                r = memory_op(l, TK_OP_LOAD, tolk_dtype_vec(u->dtype, w), place, NULL, NULL,
                              inbounds);
            }
        }
        if (reg ? tk_lower_place(l, r) < 0 : !list_access(l, r, scope_of(l, u)))
            return false;
        find_values(l, u)[k] = uniform(r);
    }
    return true;
}

/* Largest power of two that surely divides an index, at most 64. */
static int64_t divisor(const tolk_uop *u, int depth) {
    if (tk_uop_is_const(u)) {
        uint64_t v = tk_uop_bits(u) | 64;
        return (int64_t)(v & (0 - v));
    }
    if (depth > 8 || u->n_src != 2 || (!tk_uop_is(u, TK_OP_ADD) && !tk_uop_is(u, TK_OP_MUL)))
        return 1;
    int64_t a = divisor(u->src[0], depth + 1), b = divisor(u->src[1], depth + 1);
    if (tk_uop_is(u, TK_OP_ADD))
        return a < b ? a : b;
    return a * b > 64 ? 64 : a * b;
}

/* Should whole vectors of a large output go around the caches? Only what is written once and not
 * read here, in full vectors that are aligned if the buffer is. */
static bool should_stream(const tk_lower *l, const tolk_uop *u, tk_lval at, uint32_t lanes) {
    const tolk_uop *buffer = tk_kview_buffer(u->src[0]), *size = buffer->src[0];
    size_t elem = tolk_dtype_bytes(buffer->dtype);
    if (tk_dtype_scalar(buffer->dtype) == TOLK_BOOL || u->n_src != 2 || at.stride != 1 ||
        !tk_uop_int(u, TK_A_STORE_INBOUNDS) || !tk_uop_is_const(size) ||
        size->attr[0].i < STREAM_BYTES / (int64_t)elem || lanes * elem < l->p->target->vec_bytes ||
        divisor(at.u, 0) < (int64_t)lanes)
        return false;
    for (size_t k = 0; k < l->v.order.n; k++) {
        const tolk_uop *x = l->v.order.at[k];
        if (tk_uop_is(x, TK_OP_LOAD) && tk_kview_buffer(x->src[0]) == buffer)
            return false;
    }
    return true;
}

static const tolk_uop *streamed(tk_lower *l, const tolk_uop *store) {
    tk_attr attrs[2] = {store->attr[0], {.i = 1}};
    return tk_uop(l->g, TK_OP_STORE, TOLK_VOID, store->src, store->n_src, attrs);
}

static bool emit_store(tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = instances(l, set), lanes = lanes_of(l, u);
    const tolk_uop *root = tk_kview_buffer(u->src[0]), *buffer = buffer_value(l, u->src[0]);
    tk_lower_reg *reg = tk_kview_is_global(root) ? NULL : reg_info(l, root);
    int scope = scope_of(l, u);
    const tolk_uop *last = NULL;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval at = source(l, u, k, 0), value = source(l, u, k, 1);
        if (reg) {
            int64_t e = reg_element(l, reg, u, k, at);
            if (e < 0 || u->n_src == 3)
                return reg_error(l, u);
            last = reg_store(l, buffer, e, vector(l, value, tolk_dtype_lanes(buffer->dtype)));
        } else {
            bool one;
            const tolk_uop *gate = NULL;
            if (u->n_src == 3) {
                tk_lval ga = source(l, u, k, 2);
                if (!tk_uop_is_int(ga.u, 1))
                    gate = vector(l, ga, lanes);
                if (!gate && !tk_uop_is_int(ga.u, 1))
                    return false;
            }
            const tolk_uop *place;
            if (lanes > 1 && is_scalar(at)) {
                const tolk_uop *idx = tk_uop_splat(l->g, at.u, lanes);
                place = idx ? tk_uop(l->g, TK_OP_INDEX, tolk_dtype_vec(buffer->dtype, lanes),
                                     (const tolk_uop *[]){buffer, idx}, 2, NULL)
                            : NULL;
            } else {
                place = place_of(l, buffer, at, lanes, &one);
            }
            const tolk_uop *x = vector(l, value, lanes);
            last = place && x ? memory_op(l, TK_OP_STORE, TOLK_VOID, place, x, gate,
                                          tk_uop_int(u, TK_A_STORE_INBOUNDS))
                              : NULL;
            if (last && should_stream(l, u, at, lanes))
                last = streamed(l, last);
        }
        if (!effect(l, last, scope))
            return false;
    }
    tk_lval *v = new_values(l, u, n);
    for (uint32_t k = 0; v && k < n; k++)
        v[k] = uniform(last);
    return v != NULL;
}

/* ---- reductions ---- */

/* Fold the lanes of one vector: halves until one is left (docs/ir.md, "Reduce"). */
static const tolk_uop *fold_lanes(tk_lower *l, tk_op op, const tolk_uop *x) {
    tolk_graph *g = l->g;
    tolk_dtype dt = tk_dtype_scalar(x->dtype);
    for (uint32_t w = tk_uop_lanes(x); w > 1; w /= 2) {
        const tolk_uop *half[2][TOLK_MAX_LANES];
        for (uint32_t i = 0; i < w; i++)
            half[i / (w / 2)][i % (w / 2)] = tk_uop(
                g, TK_OP_INDEX, dt, (const tolk_uop *[]){x, tk_uop_index_const(g, i)}, 2, NULL);
        const tolk_uop *lo = half[0][0], *hi = half[1][0];
        if (w > 2) {
            lo = tk_uop(g, TK_OP_STACK, tolk_dtype_vec(dt, w / 2), half[0], w / 2, NULL);
            hi = tk_uop(g, TK_OP_STACK, tolk_dtype_vec(dt, w / 2), half[1], w / 2, NULL);
        }
        x = combine(l, op, lo, hi);
        if (!x)
            return NULL;
    }
    return x;
}

/* Where folds that start at the identity differ from folds that start at the first value. */
static bool identity_matters(tk_op op, tolk_dtype dt) {
    return op == TK_OP_ADD && tolk_dtype_is_float(dt);
}

/* Number of combinations of the unrolled ranges that a REDUCE closes. */
static uint32_t folded_instances(const tolk_uop *u) {
    uint32_t n = 1;
    for (uint32_t i = 1; i < u->n_src; i++)
        if (tk_lower_is_unrolled(tk_kview_axis(u->src[i])))
            n *= (uint32_t)u->src[i]->src[0]->attr[0].i;
    return n;
}

/* Value of a REDUCE's source for instance k of the REDUCE and combination j of the unrolled ranges
 * it closes, in the order of its sources. */
static tk_lval folded_value(const tk_lower *l, const tolk_uop *u, uint32_t k, uint32_t j) {
    const uint64_t *from = tk_kview_set(&l->v, u), *to = tk_kview_set(&l->v, u->src[0]);
    uint32_t digits[64] = {0};
    /* Digits of k over the ranges u depends on ... */
    for (size_t i = l->unrolled.n; i-- > 0;)
        if (tk_set_has(from, l->unrolled.at[i].no)) {
            digits[i] = k % l->unrolled.at[i].size;
            k /= l->unrolled.at[i].size;
        }
    /* ... and of j over those it closes. */
    for (uint32_t s = u->n_src; s-- > 1;) {
        if (!tk_lower_is_unrolled(tk_kview_axis(u->src[s])))
            continue;
        uint32_t no = tk_kview_no(&l->v, u->src[s]);
        for (size_t i = 0; i < l->unrolled.n; i++)
            if (l->unrolled.at[i].no == no) {
                digits[i] = j % l->unrolled.at[i].size;
                j /= l->unrolled.at[i].size;
            }
    }
    uint32_t at = 0;
    for (size_t i = 0; i < l->unrolled.n; i++)
        if (tk_set_has(to, l->unrolled.at[i].no))
            at = at * l->unrolled.at[i].size + digits[i];
    return find_values(l, u->src[0])[at];
}

static bool closes_loops(const tolk_uop *u) {
    for (uint32_t i = 1; i < u->n_src; i++) {
        tk_axis kind = tk_kview_axis(u->src[i]);
        if (!tk_lower_is_unrolled(kind) && kind != TK_AXIS_LANE)
            return true;
    }
    return false;
}

/* Open the loops of a REDUCE or END in the order of its sources. */
static bool open_loops(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    int scope = f->scope;
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *range = u->src[i];
        tk_axis kind = tk_kview_axis(range);
        if (tk_lower_is_unrolled(kind) || kind == TK_AXIS_LANE || i < f->first_loop)
            continue;
        tk_attr attrs[4] = {{.i = l->next_axis++}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = 0}};
        attrs[3].i = l->poll_depth && l->scopes.at[scope].depth + 1 == l->poll_depth;
        /* The size may itself be a value of outer loops, of those just opened, too. */
        if (!find_values(l, range->src[0]) && !tk_lower_visit(l, range->src[0]))
            return false;
        const tolk_uop *size = find_values(l, range->src[0])[0].u;
        const tolk_uop *loop = tk_uop(l->g, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs);
        if (!loop || tk_lower_place(l, size) < 0)
            return false;
        int body = tk_lower_scope(l, scope, loop);
        uint32_t no = tk_kview_no(&l->v, range);
        tk_lower_saved saved = {no, l->range_scope[no], l->range_value[no]};
        if (body < 0 || !tk_vec_push(&l->saved, saved))
            return false;
        f->n_saved++;
        l->range_scope[no] = body;
        l->range_value[no] = loop;
        scope = body;
    }
    f->inner = scope;
    return true;
}

/* Close them again; the outermost END is the token of all that happened inside. */
static const tolk_uop *close_loops(tk_lower *l, tk_lower_frame *f) {
    const tolk_uop *end = NULL;
    int scope = f->inner;
    while (scope != f->scope) {
        const tolk_uop *loop = l->scopes.at[scope].list.at[0];
        int parent = l->scopes.at[scope].parent;
        end = tk_uop(l->g, TK_OP_END, TOLK_VOID, &loop, 1, NULL);
        if (!end || !tk_lower_close(l, scope, end))
            return NULL;
        scope = parent;
    }
    for (; f->n_saved; f->n_saved--) {
        tk_lower_saved s = tk_vec_pop(&l->saved);
        l->range_scope[s.no] = s.scope;
        l->range_value[s.no] = s.value;
    }
    return end;
}

static bool enter_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    if (!closes_loops(u)) {
        f->inner = f->scope;
        return true;
    }
    uint32_t n = instances(l, tk_kview_set(&l->v, u));
    tolk_dtype dt = tk_dtype_scalar(u->dtype);
    uint32_t lanes = lanes_of(l, u);
    f->acc = reg_buffer(l, tolk_dtype_vec(dt, lanes), n);
    tk_rop rop = (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP);
    const tolk_uop *id = tk_uop_const(l->g, dt, tk_scalar_identity(rop, dt));
    for (uint32_t k = 0; k < n; k++)
        if (!effect(l, reg_store(l, f->acc, k, tk_uop_splat(l->g, id, lanes)), f->scope))
            return false;
    return open_loops(l, u, f);
}

static bool leave_reduce(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    tolk_graph *g = l->g;
    uint32_t n = instances(l, tk_kview_set(&l->v, u)), m = folded_instances(u);
    tolk_dtype dt = tk_dtype_scalar(u->dtype);
    tk_rop rop = (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP);
    tk_op op = tk_op_of_rop(rop);
    uint32_t lanes = lanes_of(l, u);
    if (!f->acc) {
        /* Unrolled ranges or lanes alone: the fold is straight code. */
        bool over_lane = u->n_src == 2 && tk_kview_axis(u->src[1]) == TK_AXIS_LANE;
        const tolk_uop *id = tk_uop_const(g, dt, tk_scalar_identity(rop, dt));
        if (!new_values(l, u, n))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            const tolk_uop *r = NULL;
            if (over_lane) {
                uint32_t w = (uint32_t)u->src[1]->src[0]->attr[0].i;
                tk_lval x = folded_value(l, u, k, 0);
                r = x.u ? vector(l, x, w) : NULL;
                r = r ? fold_lanes(l, op, r) : NULL;
            } else {
                if (identity_matters(op, dt))
                    r = tk_uop_splat(g, id, lanes);
                for (uint32_t j = 0; j < m; j++) {
                    const tolk_uop *x = vector(l, folded_value(l, u, k, j), lanes);
                    r = r ? combine(l, op, r, x) : x;
                    if (!r)
                        return false;
                }
            }
            if (!r)
                return false;
            find_values(l, u)[k] = uniform(r);
        }
        return true;
    }
    const tolk_uop *innermost = l->scopes.at[f->inner].list.at[0];
    for (uint32_t k = 0; k < n; k++) {
        const tolk_uop *acc = reg_load(l, f->acc, k, innermost);
        if (tk_lower_place(l, acc) < 0)
            return false;
        for (uint32_t j = 0; j < m; j++)
            acc = combine(l, op, acc, vector(l, folded_value(l, u, k, j), lanes));
        if (!effect(l, reg_store(l, f->acc, k, acc), f->inner))
            return false;
    }
    const tolk_uop *end = close_loops(l, f);
    if (!end || !new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const tolk_uop *r = reg_load(l, f->acc, k, end);
        if (tk_lower_place(l, r) < 0)
            return false;
        find_values(l, u)[k] = uniform(r);
    }
    return true;
}

static bool leave_end(tk_lower *l, const tolk_uop *u, tk_lower_frame *f) {
    const tolk_uop *end = f->inner == f->scope ? NULL : close_loops(l, f);
    if (!end) {
        if (tk_graph_failed(l->g))
            return false;
        tk_lval *e = find_values(l, u->src[0]);
        end = e ? e[0].u : NULL;
    }
    tk_lval *v = new_values(l, u, 1);
    if (v)
        v[0] = uniform(end);
    return v != NULL;
}

/* ---- one node ---- */

static bool emit_after(tk_lower *l, const tolk_uop *u) {
    tk_uops src;
    tk_vec_init(&src, l->al);
    tk_lval *base = find_values(l, u->src[0]);
    const tolk_uop *buffer = base[0].u;
    bool ok = tk_vec_push(&src, buffer);
    for (uint32_t i = 1; i < u->n_src && ok; i++) {
        const tolk_uop *d = u->src[i], *token = NULL;
        if (tk_uop_is(d, TK_OP_RANGE)) {
            uint32_t no = tk_kview_no(&l->v, d);
            token = l->range_scope[no] > 0 ? l->range_value[no] : NULL;
        } else {
            tk_lval *e = find_values(l, d);
            token = e ? e[0].u : NULL;
        }
        if (token)
            ok = tk_vec_push(&src, token);
    }
    /* Values may be AFTER too; only buffers need the token, values are pinned by their loads. */
    const tolk_uop *root = tk_kview_buffer(u);
    bool is_buffer = tk_uop_is(root, TK_OP_BUFFER) ||
                     (tk_uop_is(root, TK_OP_PARAM) && !tk_check_is_scalar_param(root));
    const tolk_uop *r = !ok ? NULL
                        : src.n > 1 && is_buffer
                            ? tk_uop(l->g, TK_OP_AFTER, buffer->dtype, src.at, src.n, NULL)
                            : buffer;
    tk_vec_fini(&src);
    uint32_t n = is_buffer ? 1 : instances(l, tk_kview_set(&l->v, u));
    tk_lval *v = r ? new_values(l, u, n) : NULL;
    for (uint32_t k = 0; v && k < n; k++) {
        tk_lval x = is_buffer ? uniform(r) : source(l, u, k, 0);
        find_values(l, u)[k] = x;
    }
    return v != NULL;
}

static bool emit(tk_lower *l, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = instances(l, set);
    if (n > TK_LOWER_MAX_INSTANCES) {
        tk_graph_fail(l->g, TOLK_E_LIMIT, "%s: more than %d copies by unrolling",
                      tk_op_get(op)->name, TK_LOWER_MAX_INSTANCES);
        return false;
    }
    tk_lval *v;
    switch (op) {
    case TK_OP_LOAD:
        return emit_load(l, u);
    case TK_OP_STORE:
        return emit_store(l, u);
    case TK_OP_AFTER:
        return emit_after(l, u);
    case TK_OP_RANGE: {
        uint32_t no = tk_kview_no(&l->v, u);
        tk_axis kind = tk_kview_axis(u);
        if (!(v = new_values(l, u, n)))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            if (tk_lower_is_unrolled(kind))
                v[k] = uniform(tk_uop_index_const(l->g, k));
            else if (kind == TK_AXIS_LANE)
                v[k] = (tk_lval){tk_uop_index_const(l->g, 0), 1};
            else
                v[k] = uniform(l->range_value[no]);
            if (!v[k].u)
                return false;
        }
        return true;
    }
    case TK_OP_BUFFER: {
        tk_lower_reg *reg = reg_info(l, u);
        if (!(v = new_values(l, u, 1)))
            return false;
        v[0] = uniform(reg ? reg->program : u);
        return true;
    }
    case TK_OP_INDEX:
        if (!new_values(l, u, n))
            return false;
        for (uint32_t k = 0; k < n; k++) {
            tk_lval at = source(l, u, k, 1);
            find_values(l, u)[k] = at;
        }
        return true;
    case TK_OP_BARRIER: {
        /* lower_span.c listed it between the two parts of the flattened range. */
        tk_lval *e = find_values(l, u->src[0]);
        const tolk_uop *b = tk_uop(l->g, TK_OP_BARRIER, TOLK_VOID, &e[0].u, 1, NULL);
        if (!b || !(v = new_values(l, u, 1)))
            return false;
        v[0] = uniform(b);
        return true;
    }
    case TK_OP_GROUP:
    case TK_OP_SINK: {
        const tolk_uop *token = NULL;
        for (uint32_t i = 0; i < u->n_src; i++) {
            tk_lval *e = find_values(l, u->src[i]);
            if (e && e[0].u)
                token = e[0].u;
        }
        if (!(v = new_values(l, u, 1)))
            return false;
        v[0] = uniform(token);
        return true;
    }
    default:
        break;
    }
    if (op == TK_OP_CONST || op == TK_OP_PARAM) {
        if (!(v = new_values(l, u, 1)))
            return false;
        v[0] = uniform(u);
        return true;
    }
    if (!tk_op_is_alu(op)) {
        tk_graph_fail(l->g, TOLK_E_UNSUPPORTED, "%s: not expected in a lowered kernel",
                      tk_op_get(op)->name);
        return false;
    }
    uint32_t lanes = lanes_of(l, u);
    if (!new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval s[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
        for (uint32_t i = 0; i < u->n_src; i++)
            s[i] = source(l, u, k, i);
        tk_lval r = alu(l, u, s, lanes);
        if (!r.u)
            return false;
        find_values(l, u)[k] = r;
    }
    return true;
}

/* ---- the walk ---- */

static bool push_frame(tk_lower *l, const tolk_uop *u) {
    tk_lower_frame f = {.u = u, .scope = -1};
    return tk_vec_push(&l->frames, f);
}

/* Sources that are visited before a node; shapes of buffers are not. */
static uint32_t visited_sources(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) || tk_uop_is(u, TK_OP_RANGE))
        return 0;
    return u->n_src;
}

/* What of source i is visited: closed ranges only for their sizes, ordering ranges not at all. */
static const tolk_uop *to_visit(const tk_kview *v, const tolk_uop *u, uint32_t i) {
    const tolk_uop *s = u->src[i];
    if (i == 0 || !tk_uop_is(s, TK_OP_RANGE))
        return s;
    if (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE)) {
        /* A size that depends on a loop of this node is visited when that is open. */
        for (uint32_t k = 1; k < u->n_src; k++)
            if (tk_uop_is(u->src[k], TK_OP_RANGE) && tk_kview_depends(v, s->src[0], u->src[k]))
                return NULL;
        return s->src[0];
    }
    return tk_uop_is(u, TK_OP_AFTER) ? NULL : s;
}

/* Visit root and all it needs, in the scopes that are open now. */
bool tk_lower_visit(tk_lower *l, const tolk_uop *root) {
    size_t bottom = l->frames.n;
    if (!push_frame(l, root))
        return false;
    while (l->frames.n > bottom) {
        tk_lower_frame *f = &tk_vec_last(&l->frames);
        const tolk_uop *u = f->u;
        bool closer = tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE);
        if (f->next == 0 && f->stage == 0) {
            if (find_values(l, u)) {
                l->frames.n--;
                continue;
            }
            f->scope = scope_of(l, u);
            f->stage = 1;
            f->next = closer ? 1 : 0;
        }
        /* Closers: the sizes of their ranges first, then their loops open, then source 0. */
        if (f->stage == 1) {
            uint32_t n_before, n = visited_sources(u);
            const tk_before_pair *before = tk_before_of(&l->before, u, &n_before);
            const tolk_uop *s = NULL;
            while (f->next < n_before + n && !s) {
                uint32_t i = f->next++;
                s = i < n_before ? before[i].load : to_visit(&l->v, u, i - n_before);
                if (s && find_values(l, s))
                    s = NULL;
            }
            if (s) {
                if (!push_frame(l, s))
                    return false;
                continue;
            }
            f->stage = 2;
            if (closer) {
                /* Opening may visit sizes, and so move the frames. */
                tk_lower_frame opened = *f;
                size_t at = l->frames.n - 1;
                bool ok = tk_uop_is(u, TK_OP_REDUCE) ? enter_reduce(l, u, &opened)
                                                     : open_loops(l, u, &opened);
                if (!ok)
                    return false;
                l->frames.at[at] = opened;
                if (!push_frame(l, u->src[0]))
                    return false;
                continue;
            }
        }
        bool ok = tk_uop_is(u, TK_OP_REDUCE) ? leave_reduce(l, u, f)
                  : tk_uop_is(u, TK_OP_END)  ? leave_end(l, u, f)
                                             : emit(l, u);
        if (!ok || tk_graph_failed(l->g))
            return false;
        l->frames.n--;
    }
    return true;
}

bool tk_lower_visit_end(tk_lower *l, const tk_lower_frame *start) {
    tk_lower_frame f = *start;
    for (uint32_t i = f.first_loop; i < f.u->n_src; i++)
        if (to_visit(&l->v, f.u, i) && !tk_lower_visit(l, f.u->src[i]->src[0]))
            return false;
    if (!open_loops(l, f.u, &f))
        return false;
    return tk_lower_visit(l, f.u->src[0]) && leave_end(l, f.u, &f);
}

bool tk_lower_done(tk_lower *l, const tolk_uop *effect, const tolk_uop *token) {
    tk_lval *v = new_values(l, effect, 1);
    if (v)
        v[0] = uniform(token);
    return v != NULL;
}

const tolk_uop *tk_lower_token(const tk_lower *l, const tolk_uop *effect) {
    tk_lval *v = find_values(l, effect);
    return v ? v[0].u : NULL;
}
