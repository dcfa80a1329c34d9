/* SPDX-License-Identifier: MIT
 *
 * The kernel stage. One pass over the nodes, sources first, notes of each node what it stands for
 * and a few properties, and checks each node against those of its sources; a second one checks the
 * ranges, from the sets that walk.c gives.
 */
#include "ir/verify_parts.h"

#include <string.h>

/* Properties, above the kind in one number. */
enum {
    KIND_MASK = 0xf,
    UNIFORM = 0x10,   /* made of constants and scalar params alone */
    PER_ITEM = 0x20,  /* depends on lidx or idx: may differ between work-items that meet */
    BARRIERED = 0x40, /* an effect that is, or groups, or repeats, a barrier */
    CLOSED = 0x80     /* a range that some end or reduce closes */
};

typedef struct kernel {
    const tk_verify_cx *cx;
    const tolk_uop *sink;
    tk_walk_ranges w;
    tk_walk_map notes;
    tk_walk_map base;  /* buffer, also behind after -> id + 1 of the buffer */
    tk_walk_map stamp; /* range -> number of the closer looked at last */
    tk_walk_map place; /* range -> its position among that closer's sources */
    tk_map identities; /* hash of a range's identity -> address */
    tk_verify_defs defs;
} kernel;

static uint32_t note_of(const kernel *k, const tolk_uop *u) {
    return tk_walk_map_get(&k->notes, u->id);
}

static tk_verify_kind kind_of(const kernel *k, const tolk_uop *u) {
    return (tk_verify_kind)(note_of(k, u) & KIND_MASK);
}

static const char *op_name(const tolk_uop *u) {
    return tk_op_get(tk_uop_op(u))->name;
}

#define FAIL(k, u, ...) tk_verify_fail((k)->cx, u, TOLK_E_VERIFY, __VA_ARGS__)

/* ---- what a node stands for ---- */

static bool has_invalid_arm(const kernel *k, const tolk_uop *u) {
    tk_verify_kind c = kind_of(k, u->src[2]);
    return c == TK_VERIFY_INVALID || c == TK_VERIFY_GATED;
}

static tk_verify_kind classify(const kernel *k, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_CONST:
        return tk_uop_is_invalid(u) ? TK_VERIFY_INVALID : TK_VERIFY_VALUE;
    case TK_OP_PARAM:
    case TK_OP_BUFFER:
        return tk_check_is_buffer(u) ? TK_VERIFY_BUFFER : TK_VERIFY_VALUE;
    case TK_OP_STACK:
    case TK_OP_WMMA:
        return TK_VERIFY_STACK;
    case TK_OP_AFTER:
        return kind_of(k, u->src[0]);
    case TK_OP_INDEX:
        return kind_of(k, u->src[0]) == TK_VERIFY_BUFFER ? TK_VERIFY_PLACE : TK_VERIFY_VALUE;
    case TK_OP_WHERE:
        return has_invalid_arm(k, u) ? TK_VERIFY_GATED : TK_VERIFY_VALUE;
    default:
        return u->dtype == TOLK_VOID ? TK_VERIFY_EFFECT : TK_VERIFY_VALUE;
    }
}

static uint32_t properties(const kernel *k, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    bool uniform = tk_uop_is_const(u) || tk_check_is_scalar_param(u);
    uint32_t per_item = 0;
    if (tk_op_is_alu(op))
        uniform = true;
    for (uint32_t i = 0; i < u->n_src; i++) {
        uint32_t s = note_of(k, u->src[i]);
        uniform = uniform && (s & UNIFORM);
        per_item |= s & PER_ITEM;
    }
    if (op == TK_OP_SPECIAL) {
        tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
        if (kind == TK_SPECIAL_LIDX || kind == TK_SPECIAL_IDX)
            per_item = PER_ITEM;
    }
    bool barrier = op == TK_OP_BARRIER;
    if (op == TK_OP_GROUP || op == TK_OP_END)
        for (uint32_t i = 0; i < (op == TK_OP_END ? 1 : u->n_src); i++)
            barrier = barrier || (note_of(k, u->src[i]) & BARRIERED);
    return (uniform ? UNIFORM : 0) | per_item | (barrier ? BARRIERED : 0);
}

/* ---- who may use what ---- */

static bool may_use(const kernel *k, const tolk_uop *user, uint32_t i, tk_verify_kind kind) {
    tk_op op = tk_uop_op(user);
    switch (kind) {
    case TK_VERIFY_BUFFER:
        return i == 0 && (op == TK_OP_INDEX || op == TK_OP_AFTER);
    case TK_VERIFY_PLACE:
        return i == 0 && (op == TK_OP_LOAD || op == TK_OP_STORE || op == TK_OP_ATOMIC_ADD);
    case TK_VERIFY_INVALID:
        return (op == TK_OP_WHERE && i == 2) || (op == TK_OP_INDEX && i > 0);
    case TK_VERIFY_GATED:
        return (op == TK_OP_INDEX && i > 0) ||
               (op == TK_OP_WHERE && i == 1 && kind_of(k, user->src[2]) == TK_VERIFY_INVALID);
    case TK_VERIFY_STACK:
        return op == TK_OP_WMMA ||
               (i == 0 && (op == TK_OP_INDEX || op == TK_OP_PARAM || op == TK_OP_BUFFER));
    default:
        return true;
    }
}

static const char *kind_text(tk_verify_kind kind) {
    switch (kind) {
    case TK_VERIFY_BUFFER:
        return "a buffer, which feeds index and after only";
    case TK_VERIFY_PLACE:
        return "a place, which feeds load, store and atomic_add only";
    case TK_VERIFY_INVALID:
        return "invalid, which is the last operand of a where, or an index";
    case TK_VERIFY_GATED:
        return "a gated index, which feeds index only";
    case TK_VERIFY_STACK:
        return "a stack, which is a shape or the matrix of a wmma";
    default:
        return "a value";
    }
}

static tolk_status check_uses(const kernel *k, const tolk_uop *u) {
    for (uint32_t i = 0; i < u->n_src; i++) {
        tk_verify_kind kind = kind_of(k, u->src[i]);
        if (!may_use(k, u, i, kind))
            return FAIL(k, u, "operand %u is %s", i, kind_text(kind));
    }
    return TOLK_OK;
}

/* ---- rules by op ---- */

static const tolk_uop *behind_after(const kernel *k, const tolk_uop *u) {
    uint32_t base = tk_walk_map_get(&k->base, u->id);
    return base ? u->graph->nodes.at[base - 1] : u;
}

/* Number of scalars in a stack or in the result of a wmma. */
static int64_t stack_elems(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_STACK))
        return u->n_src;
    const int64_t *dims = tk_uop_attr(u, TK_A_WMMA_DIMS).blob->ints;
    return dims[0] * dims[1] / tk_uop_int(u, TK_A_WMMA_THREADS);
}

static uint32_t buffer_rank(const tolk_uop *b) {
    if (tk_uop_is(b, TK_OP_BUFFER) && tk_uop_int(b, TK_A_BUFFER_DYNAMIC))
        return 1;
    return b->n_src == 0 ? 0 : tk_uop_is(b->src[0], TK_OP_STACK) ? b->src[0]->n_src : 1;
}

static tolk_status check_index(const kernel *k, const tolk_uop *u) {
    tk_verify_kind kind = kind_of(k, u->src[0]);
    uint32_t n = u->n_src - 1;
    if (kind == TK_VERIFY_BUFFER) {
        uint32_t rank = buffer_rank(behind_after(k, u->src[0]));
        if (n != rank)
            return FAIL(k, u, "%u indices into a buffer of rank %u", n, rank);
        return TOLK_OK;
    }
    if (kind != TK_VERIFY_STACK)
        return FAIL(k, u, "operand 0 is %s, expected a buffer", op_name(u->src[0]));
    int64_t elems = stack_elems(u->src[0]);
    if (n != 1 || !tk_uop_is_const(u->src[1]) || u->src[1]->attr[0].i < 0 ||
        u->src[1]->attr[0].i >= elems)
        return FAIL(k, u, "the element is no constant in 0..%lld", (long long)elems - 1);
    return TOLK_OK;
}

static tolk_status check_shape(const kernel *k, const tolk_uop *u) {
    if (u->n_src == 0)
        return TOLK_OK;
    const tolk_uop *s = u->src[0];
    const tolk_uop *const *dim = tk_uop_is(s, TK_OP_STACK) ? s->src : &s;
    uint32_t rank = buffer_rank(u);
    for (uint32_t i = 0; i < rank; i++)
        if (!(note_of(k, dim[i]) & UNIFORM))
            return FAIL(k, u, "dimension %u is %s, expected constants and scalar params alone", i,
                        op_name(dim[i]));
    return TOLK_OK;
}

static tolk_status check_special(const kernel *k, const tolk_uop *u) {
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
    if (kind == TK_SPECIAL_SPAN_BEGIN || kind == TK_SPECIAL_SPAN_END)
        return FAIL(k, u, "%s, expected at the program stage only",
                    tk_uop_str(u, TK_A_SPECIAL_NAME));
    if (!(note_of(k, u->src[0]) & UNIFORM))
        return FAIL(k, u, "the size is %s, expected constants and scalar params alone",
                    op_name(u->src[0]));
    return TOLK_OK;
}

static tolk_status check_effects(const kernel *k, const tolk_uop *u) {
    for (uint32_t i = 0; i < u->n_src; i++)
        if (u->src[i]->dtype != TOLK_VOID)
            return FAIL(k, u, "operand %u is %s, expected an effect (store, end, group ...)", i,
                        op_name(u->src[i]));
    return TOLK_OK;
}

static tolk_status check_op(const kernel *k, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_PARAM:
    case TK_OP_BUFFER:
        if (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL)
            return FAIL(k, u, "space is global, expected local or reg (global memory is a param)");
        return check_shape(k, u);
    case TK_OP_SPECIAL:
        return check_special(k, u);
    case TK_OP_INDEX:
        return check_index(k, u);
    case TK_OP_SHRINK:
    case TK_OP_STAGE:
        return FAIL(k, u, "no op of the kernel stage once a kernel is made");
    case TK_OP_REDUCE:
        if (tk_uop_int(u, TK_A_REDUCE_AXES))
            return FAIL(k, u, "axes of a tensor, expected ranges");
        return TOLK_OK;
    case TK_OP_AFTER:
        return tk_verify_after(k->cx, u);
    case TK_OP_LOAD:
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        if (kind_of(k, u->src[0]) != TK_VERIFY_PLACE)
            return FAIL(k, u, "operand 0 is %s, expected a place (index of a buffer)",
                        op_name(u->src[0]));
        return TOLK_OK;
    case TK_OP_END:
        if (u->src[0]->dtype != TOLK_VOID)
            return FAIL(k, u, "operand 0 is %s, expected an effect", op_name(u->src[0]));
        return TOLK_OK;
    case TK_OP_GROUP:
    case TK_OP_BARRIER:
        return check_effects(k, u);
    case TK_OP_SINK:
        if (u != k->sink)
            return FAIL(k, u, "a sink inside a kernel");
        return check_effects(k, u);
    default:
        return TOLK_OK;
    }
}

static tolk_status check_node(kernel *k, const tolk_uop *u) {
    TK_TRY(tk_verify_node(k->cx, u, TK_STAGE_K));
    if (tk_uop_lanes(u) != 1)
        return tk_verify_fail(k->cx, u, TOLK_E_DTYPE,
                              "a vector, expected at the program stage only");
    TK_TRY(tk_verify_defs_add(&k->defs, u));
    TK_TRY(check_uses(k, u));
    TK_TRY(check_op(k, u));
    uint32_t base = 0;
    if (tk_uop_is(u, TK_OP_AFTER))
        base = tk_walk_map_get(&k->base, u->src[0]->id);
    else if (tk_check_is_buffer(u))
        base = u->id + 1;
    if (!tk_walk_map_put(&k->notes, u->id, (uint32_t)classify(k, u) | properties(k, u)) ||
        (base && !tk_walk_map_put(&k->base, u->id, base)))
        return tk_status_nomem(k->cx->err);
    return TOLK_OK;
}

/* ---- ranges ---- */

/* The next range of u's set, from number *q on; NULL at the end. */
static const tolk_uop *next_range(const kernel *k, const tolk_uop *u, size_t *q) {
    const uint64_t *set = tk_walk_ranges_of(&k->w, u);
    while (*q < k->w.ranges.n) {
        uint64_t rest = set[*q / 64] >> *q % 64;
        if (rest) {
            *q += (size_t)__builtin_ctzll(rest) + 1;
            return k->w.ranges.at[*q - 1];
        }
        *q = (*q / 64 + 1) * 64;
    }
    return NULL;
}

static bool unordered(tk_axis kind) {
    return kind == TK_AXIS_GLOBAL || kind == TK_AXIS_THREAD || kind == TK_AXIS_LOCAL ||
           kind == TK_AXIS_WARP;
}

/* Two ranges of one identity are one loop, which is nested in one place. */
static tolk_status check_identity(kernel *k, const tolk_uop *r) {
    uint64_t h = tk_hash_mix((uint64_t)tk_uop_int(r, TK_A_RANGE_AXIS));
    h = tk_hash_combine(h, (uintptr_t)tk_uop_attr(r, TK_A_RANGE_SUB).blob);
    h = tk_hash_combine(h, (uint64_t)tk_uop_int(r, TK_A_RANGE_KIND) << 32 ^ r->src[0]->id);
    for (const uint64_t *at; (at = tk_map_find(&k->identities, h)) != NULL; h++) {
        const tolk_uop *other = (const tolk_uop *)(uintptr_t)*at;
        if (other->src[0] == r->src[0] &&
            tk_uop_int(other, TK_A_RANGE_AXIS) == tk_uop_int(r, TK_A_RANGE_AXIS) &&
            tk_uop_int(other, TK_A_RANGE_KIND) == tk_uop_int(r, TK_A_RANGE_KIND) &&
            tk_uop_attr(other, TK_A_RANGE_SUB).blob == tk_uop_attr(r, TK_A_RANGE_SUB).blob)
            return FAIL(k, r, "the same axis, sub, kind and size as %s, but other parents",
                        tk_verify_name_of(k->cx, other).text);
    }
    return tk_map_put(&k->identities, h, (uintptr_t)r) ? TOLK_OK : tk_status_nomem(k->cx->err);
}

static tolk_status check_range(kernel *k, const tolk_uop *r) {
    tk_axis kind = (tk_axis)tk_uop_int(r, TK_A_RANGE_KIND);
    const tolk_uop *size = r->src[0];
    bool constant = tk_uop_is_const(size);
    int64_t n = constant ? size->attr[0].i : 0;
    if (kind == TK_AXIS_LANE && (!constant || n < 1 || n > TOLK_MAX_LANES || (n & (n - 1))))
        return FAIL(k, r, "kind lane, expected a constant size 1, 2, 4 .. 64");
    if ((kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL) && !constant)
        return FAIL(k, r, "kind %s, expected a constant size", tk_op_enum_text(TK_ATTR_AXIS, kind));
    return check_identity(k, r);
}

/* A range is at most once in a closer, and its size depends on none that stands further in. */
static tolk_status check_closer(kernel *k, const tolk_uop *u, uint32_t number) {
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *r = u->src[i];
        if (tk_uop_is(u, TK_OP_REDUCE) && unordered((tk_axis)tk_uop_int(r, TK_A_RANGE_KIND)))
            return FAIL(k, u, "folds over a range of kind %s, whose iterations have no order (%s)",
                        tk_op_enum_text(TK_ATTR_AXIS, tk_uop_int(r, TK_A_RANGE_KIND)),
                        tk_verify_name_of(k->cx, r).text);
        if (tk_walk_map_get(&k->stamp, r->id) == number)
            return FAIL(k, u, "closes range %s twice", tk_verify_name_of(k->cx, r).text);
        if (!tk_walk_map_put(&k->stamp, r->id, number) || !tk_walk_map_put(&k->place, r->id, i) ||
            !tk_walk_map_put(&k->notes, r->id, note_of(k, r) | CLOSED))
            return tk_status_nomem(k->cx->err);
        if ((note_of(k, r->src[0]) & PER_ITEM) && tk_uop_is(u, TK_OP_END) &&
            (note_of(k, u->src[0]) & BARRIERED))
            return FAIL(k, u, "a barrier in a loop whose size depends on the work-item");
    }
    for (uint32_t i = 1; i < u->n_src; i++) {
        size_t q = 0;
        for (const tolk_uop *r; (r = next_range(k, u->src[i]->src[0], &q)) != NULL;)
            if (tk_walk_map_get(&k->stamp, r->id) == number &&
                tk_walk_map_get(&k->place, r->id) > i)
                return FAIL(k, u, "the size of range %s depends on range %s further in",
                            tk_verify_name_of(k->cx, u->src[i]).text,
                            tk_verify_name_of(k->cx, r).text);
    }
    return TOLK_OK;
}

/* At most one range of kind lane around a store. */
static tolk_status check_lanes(const kernel *k, const tolk_uop *u) {
    size_t q = 0;
    int found = 0;
    for (const tolk_uop *r; (r = next_range(k, u, &q)) != NULL;)
        found += tk_uop_int(r, TK_A_RANGE_KIND) == TK_AXIS_LANE;
    return found > 1 ? FAIL(k, u, "depends on %d ranges of kind lane, expected at most 1", found)
                     : TOLK_OK;
}

/* All work-items of a group reach a barrier equally often. */
static tolk_status check_barrier(const kernel *k, const tolk_uop *u) {
    size_t q = 0;
    for (const tolk_uop *r; (r = next_range(k, u, &q)) != NULL;)
        if (note_of(k, r->src[0]) & PER_ITEM)
            return FAIL(k, u, "inside range %s, whose size depends on the work-item",
                        tk_verify_name_of(k->cx, r).text);
    return TOLK_OK;
}

static tolk_status check_ranges_of(kernel *k, const tolk_uop *u, uint32_t number) {
    switch (tk_uop_op(u)) {
    case TK_OP_RANGE:
        return check_range(k, u);
    case TK_OP_END:
    case TK_OP_REDUCE:
        return check_closer(k, u, number);
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return check_lanes(k, u);
    case TK_OP_BARRIER:
    case TK_OP_SHUFFLE:
        return check_barrier(k, u);
    default:
        return TOLK_OK;
    }
}

static tolk_status check_open(const kernel *k) {
    size_t q = 0;
    const tolk_uop *r = next_range(k, k->sink, &q);
    if (!r)
        return TOLK_OK;
    return note_of(k, r) & CLOSED
               ? FAIL(k, r, "used outside of the end or reduce that closes it")
               : FAIL(k, r, "still open at the sink, expected an end or reduce that closes it");
}

static tolk_status verify(kernel *k) {
    const tk_verify_cx *cx = k->cx;
    tolk_status st = tk_walk_ranges_init(&k->w, k->sink, cx->al);
    if (st == TOLK_E_LIMIT)
        return tk_verify_fail(cx, k->sink, st, "more than %d ranges", TK_WALK_MAX_RANGES);
    if (st != TOLK_OK)
        return tk_status_nomem(cx->err);
    for (size_t i = 0; i < k->w.nodes.n; i++)
        TK_TRY(check_node(k, k->w.nodes.at[i]));
    for (size_t i = 0; i < k->w.nodes.n; i++)
        TK_TRY(check_ranges_of(k, k->w.nodes.at[i], (uint32_t)i + 1));
    return check_open(k);
}

tolk_status tk_verify_kernel(const tk_verify_cx *cx, const tolk_uop *sink) {
    kernel k = {.cx = cx, .sink = sink};
    tk_walk_map_init(&k.notes, cx->al);
    tk_walk_map_init(&k.base, cx->al);
    tk_walk_map_init(&k.stamp, cx->al);
    tk_walk_map_init(&k.place, cx->al);
    tk_map_init(&k.identities, cx->al);
    tk_verify_defs_init(&k.defs, cx);
    tolk_status st = verify(&k);
    tk_verify_defs_fini(&k.defs);
    tk_map_fini(&k.identities);
    tk_walk_map_fini(&k.place);
    tk_walk_map_fini(&k.stamp);
    tk_walk_map_fini(&k.base);
    tk_walk_map_fini(&k.notes);
    tk_walk_ranges_fini(&k.w);
    return st;
}
