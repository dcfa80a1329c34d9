/* SPDX-License-Identifier: MIT
 *
 * Random programs: straight lists with explicit vectors of 1 to 64 lanes, contiguous and scattered
 * accesses, gates, stacks and lanes, registers, loops, ifs, and nodes that are listed again. Some
 * of them are of one work-item of a group: each has a part of the output of its own, and they
 * exchange values in local memory and by shuffles.
 */
#include "support/tk_gen.h"

#include "base/ctx.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/uop.h"

#include <stdio.h>

enum { POOL = 64, DEPTH = 4, PART = 64, IN = 150, REGS = 3 };

typedef struct gen {
    tolk_graph *g;
    uint64_t rng;
    TK_VEC(const tolk_uop *) list;
    const tolk_uop *pool[POOL];
    uint32_t n_pool;
    TK_VEC(uint32_t) made_in;  /* by id: number of the scope in which it was listed last */
    TK_VEC(bool) is_open;      /* by scope */
    uint32_t scope[DEPTH + 2]; /* those that are open, from 1: their numbers */
    uint32_t depth, ifs;
    const tolk_uop *own, *item, *count; /* first element of the own part; index in the group */
    const tolk_uop *total;              /* elements of outputs */
    const tolk_uop *in[TOLK_DTYPE_COUNT], *out[TOLK_DTYPE_COUNT]; /* by scalar dtype */
    const tolk_uop *regs[REGS];
    const tolk_uop *last; /* the last effect */
    int64_t slot, buffer, axis;
    tolk_dtype dtypes[4]; /* what the program computes with */
    bool items, may_fault;
} gen;

static uint64_t below(gen *s, uint64_t n) {
    return tk_test_rand(&s->rng) % n;
}
static bool chance(gen *s, unsigned percent) {
    return below(s, 100) < percent;
}

/* May an instruction use u here? What was listed again in a loop or if is not known behind it. */
static bool is_known(const gen *s, const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) ||
        tk_uop_is(u, TK_OP_SPECIAL) || tk_uop_is(u, TK_OP_AFTER) || u->dtype == TOLK_VOID)
        return true;
    return u->id < s->made_in.n && s->is_open.at[s->made_in.at[u->id]];
}
static bool open_scope(gen *s) {
    s->scope[++s->depth] = (uint32_t)s->is_open.n;
    return tk_vec_push(&s->is_open, true);
}
/* List u. NULL if something that it is made of is not known: builders look through some nodes. */
static const tolk_uop *put(gen *s, const tolk_uop *u) {
    for (uint32_t i = 0; u && !tk_uop_is(u, TK_OP_END) && i < u->n_src; i++)
        if (!is_known(s, u->src[i]))
            return NULL;
    if (!u || !tk_vec_push(&s->list, u) ||
        (s->made_in.n <= u->id && !tk_vec_resize(&s->made_in, (size_t)u->id + 256)))
        return NULL;
    s->made_in.at[u->id] = s->scope[s->depth];
    if (u->dtype == TOLK_VOID)
        s->last = u;
    return u;
}
/* A value of the pool, or NULL. */
static const tolk_uop *some_known(gen *s) {
    const tolk_uop *u = s->n_pool ? s->pool[below(s, s->n_pool)] : NULL;
    return u && is_known(s, u) ? u : NULL;
}
/* List u; it is in the pool from now on. */
static const tolk_uop *keep(gen *s, const tolk_uop *u) {
    if (put(s, u) && s->n_pool < POOL)
        s->pool[s->n_pool++] = u;
    return u;
}
static const tolk_uop *node(gen *s, tk_op op, tolk_dtype dt, const tolk_uop *const *src, size_t n,
                            const tk_attr *attrs) {
    for (size_t i = 0; i < n; i++)
        if (!src[i])
            return NULL;
    return put(s, tk_uop(s->g, op, dt, src, n, attrs));
}
static const tolk_uop *op2(gen *s, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    return a && b ? put(s, tk_uop2(s->g, op, a, b)) : NULL;
}
static const tolk_uop *number(gen *s, int64_t v) {
    return put(s, tk_uop_index_const(s->g, v));
}
static const tolk_uop *splat(gen *s, const tolk_uop *x, uint32_t lanes) {
    return lanes == 1 || !x ? x : put(s, tk_uop_splat(s->g, x, lanes));
}

static uint32_t some_lanes(gen *s) {
    static const uint32_t lanes[] = {1, 2, 4, 8, 16, 32, 64, 1, 4, 8};
    return lanes[below(s, 10)];
}
static tolk_dtype some_dtype(gen *s) {
    return s->dtypes[below(s, sizeof s->dtypes / sizeof *s->dtypes)];
}
static tolk_dtype any_dtype(gen *s) {
    static const tolk_dtype dtypes[] = {
        TOLK_F32, TOLK_F64, TOLK_I32, TOLK_I64,  TOLK_U8,      TOLK_I8,      TOLK_I16, TOLK_U16,
        TOLK_U32, TOLK_U64, TOLK_F16, TOLK_BF16, TOLK_FP8E4M3, TOLK_FP8E5M2, TOLK_F32, TOLK_BOOL};
    return dtypes[below(s, sizeof dtypes / sizeof *dtypes)];
}

/* ---- places ---- */

static const tolk_uop *array(gen *s, tolk_dtype dt, bool out) {
    const tolk_uop **at = out ? &s->out[dt] : &s->in[dt];
    if (*at)
        return *at;
    char name[16];
    snprintf(name, sizeof name, "b%lld", (long long)s->slot);
    const tolk_uop *size = out ? s->total : tk_uop_index_const(s->g, IN);
    *at = tolk_param_sym(s->g, dt, &size, 1, s->slot++, name);
    if (!out)
        put(s, size);
    return put(s, *at);
}

/* A scalar index 0 .. n-1, as far as it is known. */
static const tolk_uop *scalar_index(gen *s, int64_t n) {
    for (uint32_t tries = 0; s->n_pool && tries < 6; tries++) {
        const tolk_uop *x = some_known(s);
        if (!x)
            continue;
        if (x->dtype == TOLK_INDEX)
            return op2(s, TK_OP_FLOORMOD, x, number(s, n));
        if (x->dtype == TOLK_I32 && chance(s, 50))
            return op2(s, TK_OP_FLOORMOD, put(s, tk_uop_cast(s->g, x, TOLK_INDEX)), number(s, n));
    }
    return number(s, (int64_t)below(s, (uint64_t)n));
}

/* An index for each lane. */
static const tolk_uop *lane_indices(gen *s, int64_t n, uint32_t lanes) {
    const tolk_uop *src[TOLK_MAX_LANES];
    if (chance(s, 50)) {
        for (uint32_t i = 0; i < lanes; i++)
            src[i] = number(s, (int64_t)below(s, (uint64_t)n));
        return node(s, TK_OP_STACK, tolk_dtype_vec(TOLK_INDEX, lanes), src, lanes, NULL);
    }
    for (uint32_t i = 0; i < lanes; i++)
        src[i] = number(s, (int64_t)(i * (1 + (uint32_t)(s->rng & 3))));
    const tolk_uop *steps =
        node(s, TK_OP_STACK, tolk_dtype_vec(TOLK_INDEX, lanes), src, lanes, NULL);
    const tolk_uop *x = op2(s, TK_OP_ADD, splat(s, scalar_index(s, n), lanes), steps);
    return op2(s, TK_OP_FLOORMOD, x, splat(s, number(s, n), lanes));
}

/* Where an access of that many lanes is in a part of n elements of b that begins at `from`. */
static const tolk_uop *place_in(gen *s, const tolk_uop *b, const tolk_uop *from, int64_t n,
                                uint32_t lanes) {
    bool scattered = lanes > 1 && chance(s, 40);
    const tolk_uop *i = scattered ? lane_indices(s, n, lanes) : scalar_index(s, n - lanes + 1);
    if (from)
        i = op2(s, TK_OP_ADD, splat(s, from, scattered ? lanes : 1), i);
    if (s->may_fault && chance(s, 6))
        i = op2(s, TK_OP_ADD, i,
                splat(s, number(s, chance(s, 50) ? 3 : -2), scattered ? lanes : 1));
    return b && i ? node(s, TK_OP_INDEX, tolk_dtype_vec(b->dtype, scattered ? lanes : 1),
                         (const tolk_uop *[]){b, i}, 2, NULL)
                  : NULL;
}

/* ---- values ---- */

static const tolk_uop *constant(gen *s, tolk_dtype dt, uint32_t lanes) {
    static const double floats[] = {0, 1, -1.5, 0.25, 3, 100, -0.0, 1e-3};
    const tolk_uop *c = tolk_dtype_is_float(dt) ? tolk_const_float(s->g, dt, floats[below(s, 8)])
                        : dt == TOLK_BOOL
                            ? tolk_const_bool(s->g, chance(s, 50))
                            : tk_uop_const(s->g, dt, below(s, 12) - (below(s, 2) ? 0 : 5));
    return splat(s, put(s, c), lanes);
}

static const tolk_uop *value(gen *s, tolk_dtype dt, uint32_t lanes);

static const tolk_uop *gate(gen *s, uint32_t lanes) {
    if (lanes > 1 && chance(s, 40)) {
        const tolk_uop *src[TOLK_MAX_LANES];
        for (uint32_t i = 0; i < lanes; i++)
            src[i] = put(s, tolk_const_bool(s->g, chance(s, 60)));
        return node(s, TK_OP_STACK, tolk_dtype_vec(TOLK_BOOL, lanes), src, lanes, NULL);
    }
    return value(s, TOLK_BOOL, lanes);
}

static const tolk_uop *load_value(gen *s, tolk_dtype dt, uint32_t lanes) {
    bool own = chance(s, 30);
    const tolk_uop *b = array(s, dt, own);
    if (own && s->last && b) /* what was stored so far */
        b = node(s, TK_OP_AFTER, b->dtype, (const tolk_uop *[]){b, s->last}, 2, NULL);
    const tolk_uop *src[3] = {place_in(s, b, own ? s->own : NULL, own ? PART : IN, lanes)};
    bool gated = chance(s, 25);
    if (gated) {
        src[1] = value(s, dt, lanes);
        src[2] = gate(s, lanes);
    }
    return node(s, TK_OP_LOAD, tolk_dtype_vec(dt, lanes), src, gated ? 3 : 1, NULL);
}

/* A vector of lanes of others. */
static const tolk_uop *mixed(gen *s, tolk_dtype dt, uint32_t lanes) {
    const tolk_uop *src[TOLK_MAX_LANES], *from = value(s, dt, 1 + 3 * (uint32_t)below(s, 2));
    for (uint32_t i = 0; i < lanes && from; i++) {
        uint32_t w = tk_uop_lanes(from);
        const tolk_uop *k = w > 1 ? number(s, (int64_t)below(s, w)) : NULL;
        src[i] = w > 1 ? node(s, TK_OP_INDEX, dt, (const tolk_uop *[]){from, k}, 2, NULL)
                       : (chance(s, 70) ? from : constant(s, dt, 1));
    }
    if (!from)
        return NULL;
    return lanes == 1 ? src[0] : node(s, TK_OP_STACK, tolk_dtype_vec(dt, lanes), src, lanes, NULL);
}

/* A value of the pool, or a new one from memory. */
static const tolk_uop *value(gen *s, tolk_dtype dt, uint32_t lanes) {
    for (uint32_t tries = 0; s->n_pool && tries < 8; tries++) {
        const tolk_uop *x = some_known(s);
        if (!x || tk_uop_lanes(x) != lanes)
            continue;
        if (tk_dtype_scalar(x->dtype) == dt)
            return x;
        if (tk_dtype_scalar(x->dtype) != TOLK_INDEX && chance(s, 30))
            return put(s, tk_uop_cast(s->g, x, dt));
    }
    return chance(s, 40) ? constant(s, dt, lanes) : keep(s, load_value(s, dt, lanes));
}

static const tolk_uop *arithmetic(gen *s, tolk_dtype dt, uint32_t lanes) {
    static const tk_op ints[] = {TK_OP_ADD,      TK_OP_SUB, TK_OP_MUL,     TK_OP_MAX,  TK_OP_AND,
                                 TK_OP_OR,       TK_OP_XOR, TK_OP_CDIV,    TK_OP_CMOD, TK_OP_SHL,
                                 TK_OP_FLOORDIV, TK_OP_SHR, TK_OP_FLOORMOD};
    static const tk_op floats[] = {TK_OP_ADD, TK_OP_SUB, TK_OP_MUL, TK_OP_FDIV, TK_OP_MAX};
    static const tk_op single[] = {TK_OP_EXP,  TK_OP_LOG2,      TK_OP_SIN, TK_OP_TANH,
                                   TK_OP_SQRT, TK_OP_ERF,       TK_OP_NEG, TK_OP_TRUNC,
                                   TK_OP_EXP2, TK_OP_RECIPROCAL};
    static const tk_op tests[] = {TK_OP_CMPLT, TK_OP_CMPNE, TK_OP_CMPEQ};
    const tolk_uop *a = value(s, dt, lanes), *b;
    switch (below(s, 7)) {
    case 0:
        return op2(s, tests[below(s, 3)], a, value(s, dt, lanes));
    case 1:
        b = value(s, dt, lanes);
        return node(s, TK_OP_WHERE, tolk_dtype_vec(dt, lanes),
                    (const tolk_uop *[]){gate(s, lanes), a, b}, 3, NULL);
    case 2:
        if (dt == TOLK_BOOL)
            break;
        b = value(s, dt, lanes);
        return node(s, TK_OP_MULACC, tolk_dtype_vec(dt, lanes),
                    (const tolk_uop *[]){a, b, value(s, dt, lanes)}, 3, NULL);
    case 3:
        if (!tolk_dtype_is_float(dt) || lanes > 16)
            break;
        return a ? put(s, tk_uop1(s->g, single[below(s, 10)], a)) : NULL;
    case 4:
        if (dt == TOLK_U64)
            return op2(s, TK_OP_THREEFRY, a, value(s, dt, lanes));
        return a ? put(s, tk_uop_cast(s->g, a, some_dtype(s))) : NULL;
    default:
        break;
    }
    b = value(s, dt, lanes);
    if (dt == TOLK_BOOL)
        return op2(s, ints[4 + below(s, 3)], a, b);
    return tolk_dtype_is_float(dt) ? op2(s, floats[below(s, 5)], a, b)
                                   : op2(s, ints[below(s, 13)], a, b);
}

/* ---- instructions ---- */

static void store(gen *s) {
    tolk_dtype dt = some_dtype(s);
    uint32_t lanes = some_lanes(s);
    const tolk_uop *src[3] = {NULL, value(s, dt, lanes), NULL};
    bool gated = chance(s, 30), adds = chance(s, 10) && dt != TOLK_BOOL;
    src[0] = place_in(s, array(s, dt, true), s->own, PART, lanes);
    if (gated)
        src[2] = gate(s, lanes);
    node(s, adds ? TK_OP_ATOMIC_ADD : TK_OP_STORE, TOLK_VOID, src, gated ? 3 : 2, NULL);
}

/* To and from a register. */
static void registers(gen *s) {
    uint32_t k = (uint32_t)below(s, REGS);
    const tolk_uop *reg = s->regs[k];
    const tolk_uop *i = number(s, (int64_t)below(s, 2));
    if (!reg)
        return;
    if (chance(s, 50)) {
        const tolk_uop *now =
            s->last ? node(s, TK_OP_AFTER, reg->dtype, (const tolk_uop *[]){reg, s->last}, 2, NULL)
                    : reg;
        const tolk_uop *p = node(s, TK_OP_INDEX, reg->dtype, (const tolk_uop *[]){now, i}, 2, NULL);
        keep(s, node(s, TK_OP_LOAD, reg->dtype, &p, 1, NULL));
        return;
    }
    const tolk_uop *x = value(s, tk_dtype_scalar(reg->dtype), tk_uop_lanes(reg));
    const tolk_uop *p = node(s, TK_OP_INDEX, reg->dtype, (const tolk_uop *[]){reg, i}, 2, NULL);
    node(s, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){p, x}, 2, NULL);
}

/* A node of the pool once more, if all that it is made of is still known. */
static void again(gen *s) {
    const tolk_uop *u = some_known(s);
    bool ok =
        u && !tk_uop_is(u, TK_OP_SPECIAL) && !tk_uop_is(u, TK_OP_RANGE) && !tk_uop_is_const(u);
    for (uint32_t i = 0; ok && i < u->n_src; i++)
        ok = is_known(s, u->src[i]);
    if (ok && !(s->ifs && tk_uop_is(u, TK_OP_SHUFFLE)))
        put(s, u);
}

/* Each work-item stores a value, and loads that of another one. */
static void exchange(gen *s) {
    tolk_dtype dt = some_dtype(s);
    uint32_t lanes = some_lanes(s);
    const tolk_uop *n = number(s, lanes), *one = number(s, 1 + (int64_t)below(s, 3));
    const tolk_uop *elems = op2(s, TK_OP_MUL, s->count, n), *x = value(s, dt, lanes);
    tk_attr attrs[4] = {{.i = s->buffer++}, {.i = TK_SPACE_LOCAL}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *b = node(s, TK_OP_BUFFER, dt, &elems, 1, attrs);
    const tolk_uop *at = op2(s, TK_OP_MUL, s->item, n);
    const tolk_uop *p = node(s, TK_OP_INDEX, dt, (const tolk_uop *[]){b, at}, 2, NULL);
    node(s, TK_OP_BARRIER, TOLK_VOID, NULL, 0, NULL);
    const tolk_uop *st = node(s, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){p, x}, 2, NULL);
    const tolk_uop *met = node(s, TK_OP_BARRIER, TOLK_VOID, &st, 1, NULL);
    const tolk_uop *other = op2(s, TK_OP_FLOORMOD, op2(s, TK_OP_ADD, s->item, one), s->count);
    other = op2(s, TK_OP_MUL, other, n);
    const tolk_uop *now = node(s, TK_OP_AFTER, dt, (const tolk_uop *[]){b, met}, 2, NULL);
    p = node(s, TK_OP_INDEX, dt, (const tolk_uop *[]){now, other}, 2, NULL);
    keep(s, node(s, TK_OP_LOAD, tolk_dtype_vec(dt, lanes), &p, 1, NULL));
}

static void shuffle(gen *s) {
    uint32_t lanes = some_lanes(s);
    const tolk_uop *x = value(s, some_dtype(s), lanes);
    const tolk_uop *lane = put(s, tolk_const_int(s->g, TOLK_I32, (int64_t)below(s, 6)));
    if (x)
        keep(s, node(s, TK_OP_SHUFFLE, x->dtype, (const tolk_uop *[]){x, lane}, 2, NULL));
}

static void instructions(gen *s, uint64_t n);

static void scope(gen *s) {
    if (s->depth > DEPTH)
        return;
    bool loop = chance(s, 60);
    const tolk_uop *open, *close;
    if (loop) {
        tk_attr attrs[4] = {{.i = s->axis++}, {.blob = NULL}, {.i = 0}, {.i = 0}};
        const tolk_uop *size = number(s, (int64_t)below(s, 5));
        open = tk_uop(s->g, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs);
    } else {
        const tolk_uop *src[2] = {value(s, TOLK_BOOL, some_lanes(s)), s->last};
        if (!src[0])
            return;
        open = tk_uop(s->g, TK_OP_IF, TOLK_VOID, src, s->last ? 2 : 1, NULL);
    }
    uint32_t mark = s->n_pool;
    s->ifs += !loop;
    if (!open_scope(s))
        return;
    if (loop)
        keep(s, open);
    else
        put(s, open);
    instructions(s, 1 + below(s, 4));
    close = tk_uop(s->g, loop ? TK_OP_END : TK_OP_ENDIF, TOLK_VOID, &open, 1, NULL);
    s->is_open.at[s->scope[s->depth--]] = false;
    put(s, close);
    s->ifs -= !loop;
    s->n_pool = mark;
}

static void instructions(gen *s, uint64_t n) {
    for (; n; n--)
        switch (below(s, 12)) {
        case 0:
        case 1:
            store(s);
            break;
        case 2:
        case 3:
            registers(s);
            break;
        case 4:
            scope(s);
            break;
        case 5:
            again(s);
            break;
        case 6:
            keep(s, mixed(s, some_dtype(s), some_lanes(s)));
            break;
        case 7:
            if (s->items && !s->ifs)
                chance(s, 70) ? exchange(s) : shuffle(s);
            break;
        default:
            keep(s, arithmetic(s, some_dtype(s), some_lanes(s)));
            break;
        }
}

/* ---- the whole ---- */

static const tolk_uop *special(gen *s, const char *name, int64_t n) {
    const tolk_uop *size = number(s, n);
    tolk_attr attr = {.key = "name", .s = name};
    return keep(s, size ? tolk_uop_new(s->g, (tolk_op)TK_OP_SPECIAL, TOLK_INDEX, &size, 1, &attr, 1)
                        : NULL);
}

static void set_up(gen *s) {
    for (size_t i = 0; i < sizeof s->dtypes / sizeof *s->dtypes; i++)
        s->dtypes[i] = any_dtype(s);
    s->items = chance(s, 40);
    s->may_fault = chance(s, 10);
    s->own = number(s, 0);
    s->total = number(s, PART);
    if (s->items) {
        static const int64_t sizes[] = {1, 2, 3, 5, 8, 33};
        int64_t n = sizes[below(s, 6)], groups = 1 + (int64_t)below(s, 3);
        const tolk_uop *g = special(s, "gidx0", groups);
        s->item = special(s, "lidx0", n);
        s->count = number(s, n);
        s->own = op2(s, TK_OP_MUL, op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, g, s->count), s->item),
                     number(s, PART));
        s->total = number(s, n * groups * PART);
    }
    for (int k = 0; k < REGS; k++) {
        const tolk_uop *two = number(s, 2);
        tolk_dtype dt = some_dtype(s);
        uint32_t lanes = some_lanes(s);
        tk_attr attrs[4] = {{.i = s->buffer++}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
        s->regs[k] = node(s, TK_OP_BUFFER, tolk_dtype_vec(dt, lanes), &two, 1, attrs);
        for (int64_t i = 0; i < 2; i++) {
            const tolk_uop *x = constant(s, dt, lanes), *at = number(s, i);
            const tolk_uop *p = node(s, TK_OP_INDEX, tolk_dtype_vec(dt, lanes),
                                     (const tolk_uop *[]){s->regs[k], at}, 2, NULL);
            node(s, TK_OP_STORE, TOLK_VOID, (const tolk_uop *[]){p, x}, 2, NULL);
        }
    }
}

const tolk_uop *tk_gen_program(tolk_graph *g, uint64_t seed) {
    gen s = {.g = g, .rng = seed};
    tk_vec_init(&s.list, &tk_alloc_malloc);
    tk_vec_init(&s.made_in, &tk_alloc_malloc);
    tk_vec_init(&s.is_open, &tk_alloc_malloc);
    if (tk_vec_push(&s.is_open, false) && open_scope(&s)) {
        set_up(&s);
        instructions(&s, 4 + below(&s, 14));
        store(&s);
    }
    tk_attr attr = {.blob = tk_blob_str(g, "random", 6)};
    const tolk_uop *root =
        tk_graph_failed(g) ? NULL : tk_uop(g, TK_OP_LINEAR, TOLK_VOID, s.list.at, s.list.n, &attr);
    tk_vec_fini(&s.list);
    tk_vec_fini(&s.made_in);
    tk_vec_fini(&s.is_open);
    tolk_error err = TOLK_ERROR_INIT;
    if (!root || tolk_verify(root, TOLK_STAGE_PROGRAM, &err) == TOLK_OK)
        return root;
    tk_graph_fail(g, err.code, "%s", err.msg);
    return NULL;
}
