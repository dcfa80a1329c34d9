/* SPDX-License-Identifier: MIT
 *
 * Random kernels whose work-items meet. One value a work-item goes through steps: arithmetic,
 * exchanges through local memory, shuffles, loops with barriers inside around an accumulator in a
 * register, atomic adds, loads that are the same for all of a group. Between two accesses to one
 * element by two work-items stands a barrier, so that each kernel has one result.
 */
#include "support/tk_gen.h"

#include "base/ctx.h"
#include "ir/dtype.h"
#include "ir/uop.h"

#include <stdio.h>

enum { MAX_STEPS = 6, MAX_EFFECTS = 8 };

typedef struct gen {
    tolk_graph *g;
    uint64_t rng;
    tolk_dtype dt;
    const tolk_uop *item, *count; /* number of the work-item in its group; of them */
    int64_t most;                 /* of count */
    const tolk_uop *group;        /* number of the group */
    const tolk_uop *at;           /* its element in arrays of all work-items */
    const tolk_uop *total;        /* of those arrays */
    const tolk_uop *in;           /* such an array, of dt */
    const tolk_uop *size_var;     /* a scalar argument as index, 0 .. 5; NULL: none so far */
    const tolk_uop *range;        /* the loop around the step that is made; NULL: none */
    const tolk_uop *last;         /* the last barrier: what is stored next comes behind it */
    const tolk_uop *effects[MAX_EFFECTS];
    uint32_t n_effects;
    int64_t slot, buffer, axis;
} gen;

static uint64_t below(gen *s, uint64_t n) {
    return tk_test_rand(&s->rng) % n;
}
static bool chance(gen *s, unsigned percent) {
    return below(s, 100) < percent;
}
static const tolk_uop *number(gen *s, int64_t v) {
    return tk_uop_index_const(s->g, v);
}
static const tolk_uop *op2(gen *s, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    return a && b ? tk_uop2(s->g, op, a, b) : NULL;
}
static const tolk_uop *node(gen *s, tk_op op, tolk_dtype dt, const tolk_uop *a, const tolk_uop *b) {
    const tolk_uop *src[2] = {a, b};
    return a && (b || op == TK_OP_BARRIER) ? tk_uop(s->g, op, dt, src, b ? 2 : 1, NULL) : NULL;
}

/* ---- indices ---- */

static const tolk_uop *special(gen *s, const char *name, const tolk_uop *size) {
    tolk_attr attr = {.key = "name", .s = name};
    return size ? tolk_uop_new(s->g, (tolk_op)TK_OP_SPECIAL, TOLK_INDEX, &size, 1, &attr, 1) : NULL;
}

static const tolk_uop *variable(gen *s, const char *name, int64_t lo, int64_t hi) {
    return tolk_cast(s->g, tolk_variable(s->g, TOLK_I32, s->slot++, name, lo, hi), TOLK_INDEX);
}

/* A permutation of the work-items of a group. */
static const tolk_uop *permuted(gen *s) {
    switch (below(s, 3)) {
    case 0:
        return op2(s, TK_OP_SUB, op2(s, TK_OP_SUB, s->count, number(s, 1)), s->item);
    case 1:
        return op2(s, TK_OP_FLOORMOD,
                   op2(s, TK_OP_ADD, s->item, number(s, 1 + (int64_t)below(s, 5))), s->count);
    default:
        return s->item;
    }
}

/* Any of them. */
static const tolk_uop *another(gen *s) {
    const tolk_uop *x = op2(s, TK_OP_MUL, s->item, number(s, (int64_t)below(s, 4)));
    x = op2(s, TK_OP_ADD, x, number(s, (int64_t)below(s, 9)));
    if (s->range && chance(s, 50))
        x = op2(s, TK_OP_ADD, x, s->range);
    return op2(s, TK_OP_FLOORMOD, x, s->count);
}

static const tolk_uop *condition(gen *s) {
    const tolk_uop *x = chance(s, 25) ? s->group : s->item;
    const tolk_uop *c = number(s, (int64_t)below(s, (uint64_t)s->most + 2));
    if (chance(s, 30))
        x = op2(s, TK_OP_FLOORMOD, x, number(s, 2 + (int64_t)below(s, 3)));
    return chance(s, 50) ? op2(s, TK_OP_CMPLT, x, c) : op2(s, TK_OP_CMPNE, x, c);
}

/* ---- values ---- */

static const tolk_uop *constant(gen *s) {
    int64_t v = (int64_t)below(s, 9) - (tolk_dtype_is_unsigned(s->dt) ? 0 : 4);
    return s->dt == TOLK_BOOL           ? tolk_const_bool(s->g, v & 1)
           : tolk_dtype_is_float(s->dt) ? tolk_const_float(s->g, s->dt, (double)v / 4)
                                        : tolk_const_int(s->g, s->dt, v);
}

static const tolk_uop *arithmetic(gen *s, const tolk_uop *a, const tolk_uop *b) {
    static const tk_op any[] = {TK_OP_ADD, TK_OP_MUL, TK_OP_MAX};
    if (s->dt == TOLK_BOOL)
        return op2(s, chance(s, 50) ? TK_OP_XOR : TK_OP_OR, a, b);
    switch (below(s, 5)) {
    case 0:
        return op2(s, TK_OP_SUB, a, b);
    case 1:
        return tk_uop3(s->g, TK_OP_WHERE, condition(s), a, b);
    default:
        return op2(s, any[below(s, 3)], a, b);
    }
}

static const tolk_uop *own_number(gen *s) {
    const tolk_uop *x = chance(s, 50) ? s->item : op2(s, TK_OP_ADD, s->item, s->group);
    return x ? tolk_cast(s->g, x, s->dt) : NULL;
}

static const tolk_uop *input(gen *s, const tolk_uop *at) {
    return tolk_load(s->g, tolk_index(s->g, s->in, &at, 1));
}

/* ---- memory ---- */

static const tolk_uop *buffer(gen *s, tolk_dtype dt, const tolk_uop *elems, tk_space space) {
    tk_attr attrs[4] = {{.i = s->buffer++}, {.i = space}, {.i = 0}, {.blob = NULL}};
    return elems ? tk_uop(s->g, TK_OP_BUFFER, dt, &elems, 1, attrs) : NULL;
}

static const tolk_uop *after(gen *s, const tolk_uop *x, const tolk_uop *effect) {
    return effect ? node(s, TK_OP_AFTER, x->dtype, x, effect) : x;
}

static const tolk_uop *store(gen *s, const tolk_uop *b, const tolk_uop *at, const tolk_uop *v) {
    const tolk_uop *place = b && at ? tolk_index(s->g, b, &at, 1) : NULL;
    if (place && v && chance(s, 20))
        return tolk_store_gated(s->g, place, v, condition(s));
    return tolk_store(s->g, place, v);
}

static const tolk_uop *load(gen *s, const tolk_uop *b, const tolk_uop *at) {
    const tolk_uop *place = b && at ? tolk_index(s->g, b, &at, 1) : NULL;
    if (place && chance(s, 15))
        return tolk_load_gated(s->g, place, constant(s), condition(s));
    return tolk_load(s->g, place);
}

/* ---- steps ---- */

/* Each stores its value, all of them wait, each loads another's. In a loop they wait once more at
 * its end, see in_loop(). Where a store may be gated off all elements are stored to first. */
static const tolk_uop *exchange(gen *s, const tolk_uop *v) {
    const tolk_uop *b = buffer(s, s->dt, s->count, TK_SPACE_LOCAL);
    if (!b)
        return NULL;
    const tolk_uop *first = node(s, TK_OP_BARRIER, TOLK_VOID,
                                 tolk_store(s->g, tolk_index(s->g, b, &s->item, 1),
                                            chance(s, 50) ? constant(s) : own_number(s)),
                                 s->range && s->last ? s->last : NULL);
    const tolk_uop *put = store(s, after(s, b, first), permuted(s), v);
    const tolk_uop *met = node(s, TK_OP_BARRIER, TOLK_VOID, put, NULL);
    if (!met)
        return NULL;
    s->last = met;
    const tolk_uop *from = after(s, b, met);
    const tolk_uop *r = load(s, from, another(s));
    if (chance(s, 30)) /* the same element for all */
        r = arithmetic(
            s, r, tolk_load(s->g, tolk_index(s->g, from, (const tolk_uop *[]){number(s, 0)}, 1)));
    return r && chance(s, 60) ? arithmetic(s, r, v) : r;
}

static const tolk_uop *shuffled(gen *s, const tolk_uop *v) {
    static const int64_t lanes[] = {1, 2, 3, 4, 8, 16, 31, 0, 32, 100};
    const tolk_uop *lane = tolk_const_int(s->g, TOLK_I32, lanes[below(s, 10)]);
    if (chance(s, 30))
        lane = tolk_cast(s->g, s->range && chance(s, 50) ? s->range : s->group, TOLK_I32);
    const tolk_uop *r = node(s, TK_OP_SHUFFLE, v->dtype, v, lane);
    return r && chance(s, 70) ? arithmetic(s, r, v) : r;
}

/* A fold that each work-item does alone, over as many as it likes. Where that is none nothing in
 * the fold is computed, so that what has barriers in it must be needed elsewhere, too. */
static const tolk_uop *own_fold(gen *s, const tolk_uop *v) {
    const tolk_uop *size = number(s, 1 + (int64_t)below(s, 5));
    if (chance(s, 40))
        size = op2(s, TK_OP_FLOORMOD, s->item, number(s, 4));
    const tolk_uop *r = size ? tolk_range(s->g, size, s->axis++, TOLK_AXIS_REDUCE) : NULL;
    const tolk_uop *x =
        r ? input(s, op2(s, TK_OP_FLOORMOD, op2(s, TK_OP_ADD, s->at, r), s->total)) : NULL;
    if (s->dt == TOLK_BOOL || !x)
        return v;
    x = arithmetic(s, x, v);
    return x ? op2(s, TK_OP_ADD, tolk_reduce(s->g, TOLK_REDUCE_MAX, x, &r, 1), v) : NULL;
}

static const tolk_uop *loop_size(gen *s) {
    switch (below(s, 4)) {
    case 0:
        if (!s->size_var)
            s->size_var = variable(s, "n", 0, 5);
        return s->size_var;
    case 1: /* data, the same for all of a group */
        return op2(s, TK_OP_FLOORMOD, op2(s, TK_OP_ADD, s->group, number(s, 1)), number(s, 3));
    default:
        return number(s, 1 + (int64_t)below(s, 4));
    }
}

/* acc = v; for k: acc = exchange(acc) ...; the value is acc. */
static const tolk_uop *in_loop(gen *s, const tolk_uop *v) {
    tolk_graph *g = s->g;
    const tolk_uop *acc = buffer(s, s->dt, number(s, 1), TK_SPACE_REG), *zero = number(s, 0);
    const tolk_uop *place = acc ? tolk_index(g, acc, &zero, 1) : NULL;
    const tolk_uop *init = tolk_store(g, place, v), *size = loop_size(s);
    const tolk_uop *r = init && size ? tolk_range(g, size, s->axis++, TOLK_AXIS_LOOP) : NULL;
    if (!r)
        return NULL;
    const tolk_uop *now =
        tk_uop(g, TK_OP_AFTER, s->dt, (const tolk_uop *[]){acc, init, r}, 3, NULL);
    const tolk_uop *x = now ? tolk_load(g, tolk_index(g, now, &zero, 1)) : NULL;
    s->range = r;
    for (uint64_t n = 1 + below(s, 2); n && x; n--)
        x = chance(s, 70) ? exchange(s, x) : shuffled(s, x);
    if (x && chance(s, 40))
        x = arithmetic(s, x, own_number(s));
    s->range = NULL;
    const tolk_uop *next = x ? tolk_store(g, place, x) : NULL;
    const tolk_uop *met = node(s, TK_OP_BARRIER, TOLK_VOID, next, NULL);
    const tolk_uop *end = met ? tolk_end(g, met, &r, 1) : NULL;
    s->last = NULL;
    const tolk_uop *done =
        end ? tk_uop(g, TK_OP_AFTER, s->dt, (const tolk_uop *[]){acc, init, end}, 3, NULL) : NULL;
    return done ? tolk_load(g, tolk_index(g, done, &zero, 1)) : NULL;
}

/* Integers add up in local memory, or for all groups. */
static void add_up(gen *s, const tolk_uop *v) {
    const tolk_uop *n = number(s, 3), *zero = number(s, 0);
    const tolk_uop *at = op2(s, TK_OP_FLOORMOD, s->item, n);
    if (tolk_dtype_is_float(s->dt) || s->dt == TOLK_BOOL || s->n_effects + 2 > MAX_EFFECTS || !at)
        return;
    char name[16];
    snprintf(name, sizeof name, "b%lld", (long long)s->slot);
    const tolk_uop *out = tolk_param_sym(s->g, s->dt, &n, 1, s->slot, name);
    const tolk_uop *place = out ? tolk_index(s->g, out, chance(s, 50) ? &at : &zero, 1) : NULL;
    if (!place)
        return;
    s->slot++;
    const tolk_uop *src[3] = {place, v, condition(s)};
    s->effects[s->n_effects++] =
        tk_uop(s->g, TK_OP_ATOMIC_ADD, TOLK_VOID, src, chance(s, 30) ? 3 : 2, NULL);
}

static const tolk_uop *step(gen *s, const tolk_uop *v) {
    switch (below(s, 8)) {
    case 0:
    case 1:
        return exchange(s, v);
    case 2:
        return shuffled(s, v);
    case 3:
    case 4:
        return in_loop(s, v);
    case 5:
        return own_fold(s, v);
    case 6:
        add_up(s, v);
        return v;
    default:
        return arithmetic(s, v, chance(s, 50) ? constant(s) : own_number(s));
    }
}

/* ---- the whole ---- */

static bool set_up(gen *s) {
    static const tolk_dtype dtypes[] = {TOLK_F32,     TOLK_I32,  TOLK_F64, TOLK_I64,
                                        TOLK_U8,      TOLK_I16,  TOLK_F32, TOLK_F16,
                                        TOLK_FP8E4M3, TOLK_BOOL, TOLK_U32, TOLK_BF16};
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 48, 64};
    static const char *const names[] = {"lidx0", "lidx1", "lidx2"};
    static const char *const blocks[] = {"_block_x", "_block_y", "_block_z"};
    s->dt = dtypes[below(s, sizeof dtypes / sizeof *dtypes)];
    s->item = number(s, 0);
    s->count = number(s, 1);
    s->most = 1;
    int64_t room = 96;
    for (int d = 2; d >= 0; d--) {
        int64_t n = sizes[below(s, sizeof sizes / sizeof *sizes)];
        if (n > room || (d > 0 && chance(s, 60)))
            continue;
        const tolk_uop *size = number(s, n);
        if (chance(s, 10))
            size = variable(s, blocks[d], 1, n);
        room /= n;
        const tolk_uop *l = special(s, names[d], size);
        s->item = op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, s->item, size), l);
        s->count = op2(s, TK_OP_MUL, s->count, size);
        s->most *= n;
    }
    const tolk_uop *groups = number(s, 1 + (int64_t)below(s, 4));
    if (chance(s, 20))
        groups = variable(s, "_grid_x", 1, 4);
    s->group = special(s, "gidx0", groups);
    if (chance(s, 30)) {
        const tolk_uop *more = number(s, 2 + (int64_t)below(s, 2));
        s->group =
            op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, special(s, "gidx1", more), groups), s->group);
        groups = op2(s, TK_OP_MUL, groups, more);
    }
    s->at = op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, s->group, s->count), s->item);
    s->total = op2(s, TK_OP_MUL, groups, s->count);
    s->in = s->total ? tolk_param_sym(s->g, s->dt, &s->total, 1, s->slot++, "x") : NULL;
    return s->in != NULL && s->at;
}

const tolk_uop *tk_gen_items(tolk_graph *g, uint64_t seed) {
    gen s = {.g = g, .rng = seed};
    if (!set_up(&s))
        return NULL;
    const tolk_uop *v = input(&s, s.at);
    for (uint64_t n = 1 + below(&s, MAX_STEPS); n && v; n--)
        v = step(&s, v);
    const tolk_uop *out = tolk_param_sym(g, s.dt, &s.total, 1, s.slot++, "y");
    s.effects[s.n_effects++] = v && out ? store(&s, out, s.at, v) : NULL;
    const tolk_uop *root = tolk_sink(g, s.effects, s.n_effects, "items");
    tolk_error err = TOLK_ERROR_INIT;
    if (!root || tolk_verify(root, TOLK_STAGE_KERNEL, &err) == TOLK_OK)
        return root;
    tk_graph_fail(g, err.code, "%s", err.msg);
    return NULL;
}
