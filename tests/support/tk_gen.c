/* SPDX-License-Identifier: MIT */
#include "support/tk_gen.h"

#include "base/ctx.h"
#include "ir/access.h"
#include "ir/dtype.h"
#include "ir/narrow.h"
#include "ir/uop.h"
#include "ir/walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tolk_dtype dtypes[] = {TOLK_F32,  TOLK_F64, TOLK_I32,  TOLK_I64,     TOLK_U8,
                                    TOLK_I8,   TOLK_I16, TOLK_U16,  TOLK_U32,     TOLK_U64,
                                    TOLK_BOOL, TOLK_F16, TOLK_BF16, TOLK_FP8E4M3, TOLK_FP8E5M2};
enum {
    N_DTYPES = sizeof dtypes / sizeof *dtypes,
    MAX_RANGES = 8,
    MAX_BUFS = 7,
    MAX_SCALARS = 3,
    POOL = 32,
    MAX_DIMS = 4
};

/* A loop in scope. */
typedef struct loop {
    const tolk_uop *r;
    const tolk_uop *size; /* an extent for buffers: at least the loop's size, no loop in it */
    int64_t max;          /* of it */
    bool ordered;
} loop;

typedef struct buffer {
    const tolk_uop *param;
    const tolk_uop *dims[MAX_DIMS];
    uint32_t rank;
    bool stored;
} buffer;

typedef struct gen {
    tolk_graph *g;
    uint64_t rng;
    loop loops[MAX_RANGES];
    uint32_t n_loops;
    int64_t work, max_work; /* iterations around the place that is generated */
    buffer bufs[MAX_BUFS];
    uint32_t n_bufs;
    const tolk_uop *scalars[MAX_SCALARS];
    uint32_t n_scalars;
    const tolk_uop *sizes[2]; /* variables that are sizes, as index, and their bounds */
    int64_t size_max[2];
    uint32_t n_sizes;
    const tolk_uop *pool[POOL]; /* values made in this scope or an outer one */
    uint32_t n_pool;
    const tolk_uop *own;               /* place that the store at hand writes: may be loaded ... */
    bool own_loaded;                   /* ... and was */
    const tolk_uop *earlier, *written; /* the last effect, and a buffer that it stored to */
    int64_t slot, axis, reg;
    uint32_t folds; /* reductions so far */
    bool may_fault;
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

/* ---- edge values ---- */

static uint64_t edge_bits(tolk_dtype dt, uint64_t *rng) {
    uint64_t r = tk_test_rand(rng);
    if (dt == TOLK_BOOL)
        return r & 1;
    uint64_t bits;
    if (tolk_dtype_is_float(dt)) {
        static const double edges[] = {
            0.0,    -0.0,    1.0,  -1.0,  0.5,          2.0,          -3.25,         1e-3,
            100.0,  65536.0, 1e30, -1e30, 4294967296.0, 2147483648.0, -2147483648.0, 1e-40,
            1e-310, 0.1,     3.0,  127.0, 128.0,        255.5};
        switch (r % 8) {
        case 0: /* any bits */
            bits = tk_test_rand(rng);
            break;
        case 1: { /* inf, NaN */
            const uint64_t inf = tk_narrow_round(dt, (double)INFINITY);
            const uint64_t specials[] = {inf, tk_narrow_round(dt, -(double)INFINITY),
                                         tk_narrow_round(dt, (double)NAN), 1, inf - 1};
            bits = specials[(r >> 8) % 5];
            break;
        }
        default: {
            bits = tk_narrow_round(dt, edges[(r >> 8) % (sizeof edges / sizeof *edges)]);
        }
        }
    } else {
        unsigned width = (unsigned)tolk_dtype_bytes(dt) * 8;
        switch (r % 6) {
        case 0:
            bits = tk_test_rand(rng);
            break;
        case 1: /* least and greatest, signed and unsigned */
            bits = (UINT64_C(1) << (width - 1)) - (r >> 8 & 1);
            break;
        case 2:
            bits = (UINT64_C(1) << (r >> 8) % width) - (r >> 16) % 3 + 1;
            break;
        default:
            bits = (r >> 8) % 9 - 4;
        }
    }
    return tk_dtype_canon(dt, bits);
}

static uint64_t nice_bits(tolk_dtype dt, uint64_t *rng) {
    uint64_t r = tk_test_rand(rng);
    if (!tolk_dtype_is_float(dt))
        return dt == TOLK_BOOL
                   ? r & 1
                   : tk_dtype_canon(dt, r % 201 - (tolk_dtype_is_unsigned(dt) ? 0 : 100));
    return tk_narrow_round(dt, ((double)(int64_t)(r % 4001) - 2000.0) / 512.0);
}

/* ---- arguments ---- */

void tk_gen_fill(const tolk_param_info *param, int64_t n, uint64_t seed, void *data) {
    uint64_t rng = seed * 31 + (uint64_t)param->slot;
    size_t bytes = tolk_dtype_bytes(param->dtype);
    bool index = param->name && (!strncmp(param->name, "ix", 2) || !strncmp(param->name, "iy", 2));
    const char *limit_text = index ? strchr(param->name, '_') : NULL;
    int64_t limit = limit_text ? strtoll(limit_text + 1, NULL, 10) : 1;
    bool wild = index && param->name[1] == 'y';
    bool edges = (tk_test_rand(&rng) & 3) == 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;
        if (index) {
            uint64_t r = tk_test_rand(&rng);
            v = r % (uint64_t)(limit > 0 ? limit : 1);
            if (wild && r >> 32 < 0x10000000)
                v = r & 4096 ? (uint64_t)limit + (r >> 13 & 3) : -(r >> 13 & 0xfffff) - 1;
        } else {
            v = edges ? edge_bits(param->dtype, &rng) : nice_bits(param->dtype, &rng);
        }
        memcpy((char *)data + (size_t)i * bytes, &v, bytes);
    }
}

int64_t tk_gen_scalar(const tolk_param_info *param, unsigned which, uint64_t seed) {
    uint64_t rng = seed * 77 + (uint64_t)param->slot + which * 1000;
    uint64_t v = edge_bits(param->dtype, &rng);
    if (tolk_dtype_is_float(param->dtype) || param->dtype == TOLK_BOOL || param->dtype == TOLK_U64)
        return (int64_t)v;
    int64_t lo = param->min, hi = param->max;
    if (!tolk_dtype_is_unsigned(param->dtype) && lo == INT64_MIN && hi == INT64_MAX)
        return (int64_t)v;
    if (which == 0 && lo != INT64_MIN)
        return (int64_t)tk_dtype_canon(param->dtype, (uint64_t)lo) == lo ? lo : (int64_t)v;
    if (which == 1 && hi != INT64_MAX)
        return (int64_t)tk_dtype_canon(param->dtype, (uint64_t)hi) == hi ? hi : (int64_t)v;
    if ((int64_t)v >= lo && (int64_t)v <= hi)
        return (int64_t)v;
    return lo + (int64_t)(tk_test_rand(&rng) % (uint64_t)(hi - lo + 1));
}

/* ---- sizes and loops ---- */

static const tolk_uop *a_size(gen *s, int64_t room, int64_t *max) {
    static const int64_t sizes[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,   15,  16,  17,  31,  32,
                                    33, 63, 64, 65, 66, 73, 95, 96, 127, 128, 129, 200, 257, 6};
    if (chance(s, 20)) {
        uint32_t k = (uint32_t)below(s, 2);
        if (k >= s->n_sizes && s->n_sizes < 2) {
            k = s->n_sizes++;
            int64_t lo = below(s, 3) ? 1 + (int64_t)below(s, 8) : 0;
            int64_t hi = lo + (int64_t)below(s, 70);
            char name[16];
            snprintf(name, sizeof name, "n%u", k);
            s->sizes[k] = tolk_cast(
                s->g,
                tolk_variable(s->g, chance(s, 70) ? TOLK_I32 : TOLK_I64, s->slot++, name, lo, hi),
                TOLK_INDEX);
            s->size_max[k] = hi;
        }
        if (k < s->n_sizes && s->sizes[k]) {
            const tolk_uop *n = s->sizes[k];
            int64_t m = s->size_max[k];
            switch (below(s, 6)) {
            case 0:
                n = op2(s, TK_OP_ADD, n, number(s, 3));
                m += 3;
                break;
            case 1:
                n = op2(s, TK_OP_MUL, n, number(s, 2));
                m *= 2;
                break;
            case 2:
                n = op2(s, TK_OP_FLOORDIV, op2(s, TK_OP_ADD, n, number(s, 3)), number(s, 4));
                m = (m + 3) / 4;
                break;
            default:
                break;
            }
            if (m <= room) {
                *max = m;
                return n;
            }
        }
    }
    int64_t v;
    do
        v = sizes[below(s, sizeof sizes / sizeof *sizes)];
    while (v > room || (v == 0 && below(s, 4)));
    *max = v;
    return number(s, v);
}

static bool open_loop(gen *s, tolk_axis kind) {
    if (s->n_loops == MAX_RANGES || s->work >= s->max_work)
        return false;
    int64_t max, room = s->max_work / (s->work ? s->work : 1);
    const tolk_uop *size = a_size(s, room < 1 ? 1 : room, &max), *bound = size;
    bool ordered = kind != TOLK_AXIS_GLOBAL;
    if (s->n_loops && chance(s, 6)) { /* a triangle, with its point or without */
        const loop *o = &s->loops[below(s, s->n_loops)];
        if (o->max + 1 <= room) {
            bound = op2(s, TK_OP_ADD, o->r, number(s, (int64_t)below(s, 3) - 1));
            max = o->max;
            size = number(s, max);
        }
    }
    const tolk_uop *r = bound ? tolk_range(s->g, bound, s->axis++, kind) : NULL;
    if (!r)
        return false;
    s->loops[s->n_loops++] = (loop){r, size, max, ordered};
    s->work *= max > 0 ? max : 1;
    return true;
}

static void close_loop(gen *s) {
    int64_t max = s->loops[--s->n_loops].max;
    s->work /= max > 0 ? max : 1;
}

/* ---- buffers and places ---- */

static const tolk_uop *a_buffer(gen *s, tolk_dtype dt, const tolk_uop *const *dims, uint32_t rank,
                                bool stored, const char *prefix, int64_t limit) {
    if (!stored && !prefix && chance(s, 50))
        for (uint32_t i = 0; i < s->n_bufs; i++) {
            buffer *b = &s->bufs[i];
            if (!b->stored && b->param->dtype == dt && b->rank == rank &&
                (!rank || !memcmp(b->dims, dims, rank * sizeof *dims)))
                return b->param;
        }
    if (s->n_bufs == MAX_BUFS)
        return NULL;
    char name[40];
    if (prefix)
        snprintf(name, sizeof name, "%s%lld_%lld", prefix, (long long)s->slot, (long long)limit);
    else
        snprintf(name, sizeof name, "b%lld", (long long)s->slot);
    const tolk_uop *p = tolk_param_sym(s->g, dt, dims, rank, s->slot, name);
    if (!p)
        return NULL;
    s->slot++;
    buffer *b = &s->bufs[s->n_bufs++];
    *b = (buffer){.param = p, .rank = rank, .stored = stored || prefix};
    if (rank)
        memcpy(b->dims, dims, rank * sizeof *dims);
    return p;
}

static const tolk_uop *a_bool(gen *s, unsigned depth);
static const tolk_uop *a_value(gen *s, tolk_dtype dt, unsigned depth);

/* Index of one loop and the extent it needs: as it is, backwards, with steps, moved. */
static const tolk_uop *one_index(gen *s, const loop *l, const tolk_uop **extent) {
    *extent = l->size;
    switch (below(s, 10)) {
    case 0:
        return op2(s, TK_OP_SUB, op2(s, TK_OP_SUB, l->size, number(s, 1)), l->r);
    case 1: {
        int64_t step = 2 + (int64_t)below(s, 3);
        *extent = op2(s, TK_OP_MUL, l->size, number(s, step));
        return op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, l->r, number(s, step)),
                   number(s, (int64_t)below(s, (uint64_t)step)));
    }
    case 2: {
        int64_t off = 1 + (int64_t)below(s, 4);
        *extent = op2(s, TK_OP_ADD, l->size, number(s, off));
        return op2(s, TK_OP_ADD, l->r, number(s, off));
    }
    default:
        return l->r;
    }
}

/* Place of a buffer whose dimensions are those loops; flat: one dimension. */
static const tolk_uop *place_of(gen *s, tolk_dtype dt, const uint32_t *which, uint32_t n,
                                bool stored) {
    const tolk_uop *idx[MAX_RANGES], *dims[MAX_RANGES];
    for (uint32_t i = 0; i < n; i++)
        if (!(idx[i] = one_index(s, &s->loops[which[i]], &dims[i])))
            return NULL;
    bool flat = n > MAX_DIMS || (n > 1 && chance(s, 40));
    if (flat) {
        for (uint32_t i = 1; i < n; i++) {
            idx[0] = op2(s, TK_OP_ADD, op2(s, TK_OP_MUL, idx[0], dims[i]), idx[i]);
            dims[0] = op2(s, TK_OP_MUL, dims[0], dims[i]);
        }
        n = 1;
    }
    if (s->may_fault && n && chance(s, 5))
        idx[0] = op2(s, TK_OP_ADD, idx[0], number(s, chance(s, 50) ? 1 : -1));
    const tolk_uop *b = a_buffer(s, dt, dims, n, stored, NULL, 0);
    return b ? tolk_index(s->g, b, idx, n) : NULL;
}

static void shuffle(gen *s, uint32_t *a, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)below(s, i), t = a[j];
        a[j] = a[i - 1];
        a[i - 1] = t;
    }
}

static const tolk_uop *index_gate(gen *s) {
    if (!s->n_loops || chance(s, 25))
        return a_bool(s, 1);
    const loop *l = &s->loops[below(s, s->n_loops)];
    const tolk_uop *x = l->r;
    if (s->n_loops > 1 && chance(s, 20))
        x = op2(s, TK_OP_ADD, x, s->loops[below(s, s->n_loops)].r);
    if (chance(s, 15))
        x = op2(s, TK_OP_FLOORMOD, x, number(s, 2 + (int64_t)below(s, 4)));
    const tolk_uop *c = number(s, (int64_t)below(s, (uint64_t)l->max + 2));
    return chance(s, 50) ? op2(s, TK_OP_CMPLT, x, c) : op2(s, TK_OP_CMPLT, c, x);
}

static const tolk_uop *gather_index(gen *s, int64_t limit) {
    if (s->n_bufs + 2 > MAX_BUFS || !s->n_loops)
        return NULL;
    static const tolk_dtype kinds[] = {TOLK_I32, TOLK_I64, TOLK_U32, TOLK_I16};
    tolk_dtype dt = kinds[below(s, 4)];
    const loop *l = &s->loops[below(s, s->n_loops)];
    const tolk_uop *b = a_buffer(s, dt, &l->size, 1, false, s->may_fault ? "iy" : "ix", limit);
    const tolk_uop *place = b ? tolk_index(s->g, b, &l->r, 1) : NULL;
    return place ? tolk_cast(s->g, tolk_load(s->g, place), TOLK_INDEX) : NULL;
}

/* A place to load from. */
static const tolk_uop *load_place(gen *s, tolk_dtype dt) {
    if (!s->n_loops || chance(s, 7)) {
        const tolk_uop *d = number(s, 5), *i = number(s, 3);
        if (chance(s, 40)) {
            const tolk_uop *b = a_buffer(s, dt, NULL, 0, false, NULL, 0);
            return b ? tolk_index(s->g, b, NULL, 0) : NULL;
        }
        const tolk_uop *b = a_buffer(s, dt, &d, 1, false, NULL, 0);
        return b ? tolk_index(s->g, b, &i, 1) : NULL;
    }
    const loop *l = &s->loops[below(s, s->n_loops)];
    switch (below(s, 12)) {
    case 0: { /* quotients and remainders */
        int64_t k = 1 + (int64_t)below(s, 9);
        bool div = chance(s, 50);
        const tolk_uop *dim = div ? l->size : number(s, k);
        const tolk_uop *i = op2(s, div ? TK_OP_FLOORDIV : TK_OP_FLOORMOD, l->r, number(s, k));
        const tolk_uop *b = a_buffer(s, dt, &dim, 1, false, NULL, 0);
        return b ? tolk_index(s->g, b, &i, 1) : NULL;
    }
    case 1: { /* a gather */
        int64_t limit = 1 + (int64_t)below(s, 40);
        const tolk_uop *i = gather_index(s, limit), *dim = number(s, limit);
        const tolk_uop *b = i ? a_buffer(s, dt, &dim, 1, false, NULL, 0) : NULL;
        return b ? tolk_index(s->g, b, &i, 1) : NULL;
    }
    case 2: { /* clamped */
        const tolk_uop *i = op2(s, TK_OP_MAX, op2(s, TK_OP_SUB, l->r, number(s, 2)), number(s, 0));
        const tolk_uop *b = a_buffer(s, dt, &l->size, 1, false, NULL, 0);
        return b ? tolk_index(s->g, b, &i, 1) : NULL;
    }
    case 3: { /* any sum, gated to its buffer */
        const loop *m = &s->loops[below(s, s->n_loops)];
        int64_t limit = 1 + (int64_t)below(s, 60);
        const tolk_uop *i =
            op2(s, TK_OP_SUB, op2(s, TK_OP_MUL, l->r, number(s, 1 + (int64_t)below(s, 3))),
                op2(s, TK_OP_MUL, m->r, number(s, (int64_t)below(s, 3))));
        i = op2(s, TK_OP_ADD, i, number(s, (int64_t)below(s, 9) - 4));
        const tolk_uop *dim = number(s, limit);
        const tolk_uop *valid =
            op2(s, TK_OP_AND, op2(s, TK_OP_CMPLT, number(s, -1), i), op2(s, TK_OP_CMPLT, i, dim));
        const tolk_uop *b = a_buffer(s, dt, &dim, 1, false, NULL, 0);
        if (!b)
            return NULL;
        i = tolk_where(s->g, valid, i, tolk_invalid(s->g));
        return tolk_index(s->g, b, &i, 1);
    }
    default: {
        uint32_t which[MAX_RANGES];
        for (uint32_t i = 0; i < s->n_loops; i++)
            which[i] = i;
        if (chance(s, 40))
            shuffle(s, which, s->n_loops);
        uint32_t n = chance(s, 60) ? s->n_loops : 1 + (uint32_t)below(s, s->n_loops);
        return place_of(s, dt, which + (s->n_loops - n), n, false);
    }
    }
}

/* The first element of what an earlier effect stored. */
static const tolk_uop *earlier_place(gen *s) {
    const tolk_uop *zeros[MAX_DIMS], *src[] = {s->written, s->earlier};
    const tolk_uop *shape = s->written->n_src ? s->written->src[0] : NULL;
    uint32_t rank = !shape ? 0 : tk_uop_is(shape, TK_OP_STACK) ? shape->n_src : 1;
    for (uint32_t i = 0; i < rank; i++)
        zeros[i] = number(s, 0);
    const tolk_uop *b = tk_uop(s->g, TK_OP_AFTER, s->written->dtype, src, 2, NULL);
    return b ? tolk_index(s->g, b, zeros, rank) : NULL;
}

static const tolk_uop *a_load(gen *s, tolk_dtype dt) {
    if (s->own && s->own->dtype == dt && chance(s, 40)) {
        s->own_loaded = true;
        return tolk_load(s->g, s->own);
    }
    const tolk_uop *place = load_place(s, dt);
    if (s->earlier && s->written->dtype == dt && chance(s, 10))
        place = earlier_place(s);
    if (!place)
        return NULL;
    if (!chance(s, 18))
        return tolk_load(s->g, place);
    const tolk_uop *gate = index_gate(s);
    if (!gate)
        return NULL;
    if (place->n_src == 2 && chance(s, 50) && !tk_uop_is_invalid(place->src[1]) &&
        !tk_uop_is(place->src[1], TK_OP_WHERE)) {
        const tolk_uop *i = tolk_where(s->g, gate, place->src[1], tolk_invalid(s->g));
        return tolk_load(s->g, tolk_index(s->g, place->src[0], &i, 1));
    }
    const tolk_uop *alt = a_value(s, dt, 0);
    return alt ? tolk_load_gated(s->g, place, alt, gate) : NULL;
}

/* ---- values ---- */

static const tolk_uop *a_const(gen *s, tolk_dtype dt) {
    uint64_t bits = chance(s, 50) ? edge_bits(dt, &s->rng) : nice_bits(dt, &s->rng);
    return tk_uop_const(s->g, dt, bits);
}

static const tolk_uop *a_scalar(gen *s, tolk_dtype dt) {
    for (uint32_t i = 0; i < s->n_scalars; i++)
        if (s->scalars[i]->dtype == dt)
            return s->scalars[i];
    if (s->n_scalars == MAX_SCALARS)
        return NULL;
    tk_attr attrs[7] = {{.i = s->slot},   {.blob = NULL},   {.i = TK_SPACE_ALU},
                        {.i = INT64_MIN}, {.i = INT64_MAX}, {.blob = NULL},
                        {.i = -1}};
    if (tolk_dtype_is_int(dt) && dt != TOLK_U64) {
        attrs[3].i = tolk_dtype_is_unsigned(dt) ? 0 : -8;
        attrs[4].i = chance(s, 50) ? 12 : 100;
    }
    const tolk_uop *p = tk_uop(s->g, TK_OP_PARAM, dt, NULL, 0, attrs);
    if (p) {
        s->slot++;
        s->scalars[s->n_scalars++] = p;
    }
    return p;
}

static const tolk_uop *leaf(gen *s, tolk_dtype dt) {
    const tolk_uop *u = NULL;
    if (chance(s, 20) && s->n_pool)
        for (uint32_t k = 0; k < 4 && !u; k++) {
            const tolk_uop *p = s->pool[below(s, s->n_pool)];
            u = p->dtype == dt ? p : NULL;
        }
    if (!u && chance(s, 65))
        u = a_load(s, dt);
    if (!u && chance(s, 25))
        u = a_scalar(s, dt);
    if (!u && s->n_loops && chance(s, 40))
        u = tolk_cast(s->g, s->loops[below(s, s->n_loops)].r, dt);
    return u ? u : a_const(s, dt);
}

static const tolk_uop *a_bool(gen *s, unsigned depth) {
    switch (below(s, 6)) {
    case 0: {
        const tolk_uop *u = a_load(s, TOLK_BOOL);
        return u ? u : leaf(s, TOLK_BOOL);
    }
    case 1:
        if (depth) {
            static const tk_op ops[] = {TK_OP_AND, TK_OP_OR,  TK_OP_XOR,  TK_OP_ADD,
                                        TK_OP_MUL, TK_OP_MAX, TK_OP_CMPLT};
            return op2(s, ops[below(s, 7)], a_bool(s, depth - 1), a_bool(s, depth - 1));
        }
        return leaf(s, TOLK_BOOL);
    case 2:
        return s->n_loops ? index_gate(s) : leaf(s, TOLK_BOOL);
    default: {
        static const tk_op ops[] = {TK_OP_CMPLT, TK_OP_CMPNE, TK_OP_CMPEQ};
        tolk_dtype dt = dtypes[below(s, N_DTYPES)];
        unsigned d = depth ? depth - 1 : 0;
        return op2(s, ops[below(s, 3)], a_value(s, dt, d), a_value(s, dt, d));
    }
    }
}

static const tolk_uop *a_fold(gen *s, tolk_dtype dt, unsigned depth) {
    uint32_t before = s->n_loops, pool = s->n_pool;
    const tolk_uop *result = NULL, *ranges[2];
    uint32_t n = 1 + (uint32_t)chance(s, 20);
    uint32_t opened = 0;
    s->folds++;
    while (opened < n && open_loop(s, chance(s, 80) ? TOLK_AXIS_REDUCE : TOLK_AXIS_LOOP))
        opened++;
    for (uint32_t i = 0; i < opened; i++)
        ranges[i] = s->loops[before + i].r;
    const tolk_uop *v = opened ? a_value(s, dt, depth) : NULL;
    const tolk_uop *w = v && chance(s, 15) ? a_value(s, dt, depth) : NULL;
    if (v)
        result = tolk_reduce(s->g, (tolk_reduce_op)below(s, 3), v, ranges, opened);
    if (result && w) { /* a second one over the same ranges */
        const tolk_uop *r2 = tolk_reduce(s->g, (tolk_reduce_op)below(s, 3), w, ranges, opened);
        result = r2 ? op2(s, TK_OP_ADD, result, r2) : NULL;
    }
    while (s->n_loops > before)
        close_loop(s);
    s->n_pool = pool;
    return result;
}

/* acc = init; for r: acc = acc op value, by hand in a reg buffer. */
static const tolk_uop *an_accumulator(gen *s, tolk_dtype dt, unsigned depth) {
    uint32_t pool = s->n_pool, outer = s->n_loops;
    const tolk_uop *init = a_value(s, dt, 0);
    s->folds++;
    if (!init || !open_loop(s, chance(s, 60) ? TOLK_AXIS_LOOP : TOLK_AXIS_REDUCE))
        return NULL;
    const tolk_uop *r = s->loops[outer].r, *x = a_value(s, dt, depth), *result = NULL;
    tk_attr attrs[4] = {{.i = s->reg++}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *one = number(s, 1), *zero = number(s, 0);
    const tolk_uop *acc = tk_uop(s->g, TK_OP_BUFFER, dt, &one, 1, attrs);
    if (x && acc) {
        const tolk_uop *src[MAX_RANGES + 1] = {acc};
        for (uint32_t i = 0; i < outer; i++)
            src[i + 1] = s->loops[i].r;
        const tolk_uop *a = outer ? tk_uop(s->g, TK_OP_AFTER, dt, src, outer + 1, NULL) : acc;
        const tolk_uop *st = tolk_store(s->g, tolk_index(s->g, a, &zero, 1), init);
        a = tk_uop(s->g, TK_OP_AFTER, dt, (const tolk_uop *[]){acc, st, r}, 3, NULL);
        const tolk_uop *cur = tolk_load(s->g, tolk_index(s->g, a, &zero, 1)), *next;
        switch (below(s, dt == TOLK_BOOL ? 3 : 5)) {
        case 0:
            next = op2(s, TK_OP_ADD, cur, x);
            break;
        case 1:
            next = op2(s, TK_OP_MAX, x, cur);
            break;
        case 2:
            next = op2(s, TK_OP_MUL, cur, x);
            break;
        case 3:
            next = op2(s, TK_OP_SUB, x, cur);
            break;
        default:
            next = tk_uop3(s->g, TK_OP_MULACC, x, cur, x);
        }
        /* A product of integers may be found to be 0 and so lose its order behind the start. */
        a = tolk_dtype_is_float(dt)
                ? acc
                : tk_uop(s->g, TK_OP_AFTER, dt, (const tolk_uop *[]){acc, st}, 2, NULL);
        const tolk_uop *step = tolk_store(s->g, tolk_index(s->g, a, &zero, 1), next);
        const tolk_uop *end = tolk_end(s->g, step, &r, 1);
        /* init, too: the loop may have no iteration. */
        a = end ? tk_uop(s->g, TK_OP_AFTER, dt, (const tolk_uop *[]){acc, st, end}, 3, NULL) : NULL;
        result = a ? tolk_load(s->g, tolk_index(s->g, a, &zero, 1)) : NULL;
    }
    close_loop(s);
    s->n_pool = pool;
    return result;
}

static const tolk_uop *alu(gen *s, tolk_dtype dt, unsigned depth) {
    static const tk_op floats1[] = {TK_OP_EXP,  TK_OP_EXP2,       TK_OP_LOG,  TK_OP_LOG2,
                                    TK_OP_SIN,  TK_OP_COS,        TK_OP_TANH, TK_OP_ERF,
                                    TK_OP_SQRT, TK_OP_RECIPROCAL, TK_OP_NEG,  TK_OP_TRUNC};
    static const tk_op floats2[] = {TK_OP_ADD, TK_OP_MUL, TK_OP_MAX, TK_OP_SUB, TK_OP_FDIV};
    static const tk_op ints2[] = {TK_OP_ADD,  TK_OP_MUL,      TK_OP_MAX,      TK_OP_SUB, TK_OP_CDIV,
                                  TK_OP_CMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD, TK_OP_SHL, TK_OP_SHR,
                                  TK_OP_AND,  TK_OP_OR,       TK_OP_XOR};
    static const tk_op bools2[] = {TK_OP_ADD, TK_OP_MUL, TK_OP_MAX, TK_OP_AND, TK_OP_OR, TK_OP_XOR};
    bool is_float = tolk_dtype_is_float(dt);
    if (dt == TOLK_BOOL)
        return chance(s, 50) ? a_bool(s, depth)
                             : op2(s, bools2[below(s, 6)], a_value(s, dt, depth - 1),
                                   a_value(s, dt, depth - 1));
    if (is_float && chance(s, 22)) {
        uint64_t k = chance(s, 60) ? 8 + below(s, 4) : below(s, 8);
        const tolk_uop *a = a_value(s, dt, depth - 1);
        return a ? tk_uop1(s->g, floats1[k], a) : NULL;
    }
    if (!is_float && chance(s, 6)) {
        const tolk_uop *a = a_value(s, dt, depth - 1);
        return a ? tk_uop1(s->g, TK_OP_NEG, a) : NULL;
    }
    const tolk_uop *a = a_value(s, dt, depth - 1), *b = a_value(s, dt, depth - 1);
    if (!a || !b)
        return NULL;
    if (chance(s, 8)) {
        const tolk_uop *c = a_value(s, dt, depth - 1);
        return c ? tk_uop3(s->g, TK_OP_MULACC, a, b, c) : NULL;
    }
    if (is_float)
        return op2(s, chance(s, 2) ? TK_OP_POW : floats2[below(s, 5)], a, b);
    if (dt == TOLK_U64 && chance(s, 10))
        return op2(s, TK_OP_THREEFRY, a, b);
    return op2(s, ints2[below(s, 13)], a, b);
}

static const tolk_uop *a_value(gen *s, tolk_dtype dt, unsigned depth) {
    const tolk_uop *u = NULL;
    uint64_t kind = depth ? below(s, 100) : 0;
    if (kind >= 92 && s->folds < 4)
        u = kind < 98 ? a_fold(s, dt, depth - 1) : an_accumulator(s, dt, depth - 1);
    else if (kind >= 82)
        u = tolk_cast(s->g, a_value(s, dtypes[below(s, N_DTYPES)], depth - 1), dt);
    else if (kind >= 78) {
        tolk_dtype from = dtypes[below(s, N_DTYPES)];
        /* The bits of a computed NaN are not specified, so no float is looked at as bits. */
        if (from != dt && from != TOLK_BOOL && dt != TOLK_BOOL && !tolk_dtype_is_float(from) &&
            tolk_dtype_bytes(from) == tolk_dtype_bytes(dt))
            u = tolk_bitcast(s->g, a_value(s, from, depth - 1), dt);
    } else if (kind >= 70)
        u = tolk_where(s->g, a_bool(s, depth - 1), a_value(s, dt, depth - 1),
                       a_value(s, dt, depth - 1));
    else if (kind >= 15)
        u = alu(s, dt, depth);
    if (!u || u->dtype != dt)
        u = leaf(s, dt);
    if (s->n_pool < POOL)
        s->pool[s->n_pool++] = u;
    return u;
}

/* ---- kernels ---- */

static const tolk_uop *a_store(gen *s) {
    tolk_dtype dt = dtypes[chance(s, 50) ? below(s, 4) : below(s, N_DTYPES)];
    uint32_t which[MAX_RANGES], n = 0;
    for (uint32_t i = 0; i < s->n_loops; i++)
        /* Or each iteration of it stores to the same place; the last one stays. */
        if (!s->loops[i].ordered || !chance(s, 8))
            which[n++] = i;
    if (chance(s, 30))
        shuffle(s, which, n);
    const tolk_uop *place = place_of(s, dt, which, n, true);
    if (!place)
        return NULL;
    s->own_loaded = false;
    /* No after orders a load of what several iterations store. */
    s->own = n < s->n_loops ? NULL : place;
    const tolk_uop *v = a_value(s, dt, 1 + (unsigned)below(s, 5));
    s->own = NULL;
    if (!v)
        return NULL;
    if (!chance(s, 15))
        return tolk_store(s->g, place, v);
    const tolk_uop *gate = index_gate(s);
    if (!gate)
        return NULL;
    if (place->n_src == 2 && chance(s, 40)) {
        const tolk_uop *i = tolk_where(s->g, gate, place->src[1], tolk_invalid(s->g));
        return tolk_store(s->g, tolk_index(s->g, place->src[0], &i, 1), v);
    }
    return tolk_store_gated(s->g, place, v, gate);
}

const tolk_uop *tk_gen_kernel(tolk_graph *g, uint64_t seed) {
    gen s = {.g = g, .rng = seed, .work = 1};
    s.max_work = chance(&s, 10) ? 4000 : chance(&s, 50) ? 900 : 200;
    s.may_fault = chance(&s, 12);
    const tolk_uop *effects[8];
    uint32_t n_effects = 0, nests = 1 + (uint32_t)(chance(&s, 25) + chance(&s, 10));
    for (uint32_t k = 0; k < nests; k++) {
        uint32_t depth = chance(&s, 5) ? 0 : 1 + (uint32_t)(chance(&s, 35) + chance(&s, 20));
        if (k == 0 || s.n_loops == 0 || chance(&s, 50)) { /* otherwise over the same ranges */
            while (s.n_loops)
                close_loop(&s);
            s.n_pool = 0;
            bool loop_first = chance(&s, 15);
            for (uint32_t i = 0; i < depth; i++) {
                tolk_axis kind = (i == 0 && loop_first) || (i > 0 && chance(&s, 30))
                                     ? TOLK_AXIS_LOOP
                                     : TOLK_AXIS_GLOBAL;
                open_loop(&s, kind);
            }
        }
        const tolk_uop *ranges[MAX_RANGES], *stores[2];
        for (uint32_t i = 0; i < s.n_loops; i++)
            ranges[i] = s.loops[i].r;
        uint32_t n_stores = 0, want = 1 + (uint32_t)chance(&s, 15), outer = s.n_loops;
        for (uint32_t i = 0; i < want; i++) {
            const tolk_uop *st = a_store(&s);
            if (st)
                stores[n_stores++] = st;
            /* Elsewhere no after orders what was loaded of it against the store. */
            if (s.own_loaded)
                s.n_pool = 0;
        }
        if (!n_stores)
            continue;
        const tolk_uop *e =
            n_stores == 1 ? stores[0] : tk_uop(g, TK_OP_GROUP, TOLK_VOID, stores, 2, NULL);
        if (outer > 1 && e && chance(&s, 20)) { /* an END in an END */
            uint32_t inner = 1 + (uint32_t)below(&s, outer - 1);
            e = tolk_end(g, e, ranges + (outer - inner), inner);
            outer -= inner;
        }
        effects[n_effects++] = outer && e ? tolk_end(g, e, ranges, outer) : e;
        s.earlier = effects[n_effects - 1];
        s.written = tk_access_buffer(stores[0]->src[0]);
    }
    if (tk_graph_failed(g) || !n_effects)
        return NULL;
    const tolk_uop *sink = tolk_sink(g, effects, n_effects, "random");
    tolk_error err = TOLK_ERROR_INIT;
    if (sink && tolk_verify(sink, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
        return tk_graph_fail(g, err.code, "%s", err.msg);
    return sink;
}

bool tk_gen_has_float_sum(const tolk_uop *kernel) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, &tk_alloc_malloc);
    assert_int_equal(tk_walk(kernel, &nodes), TOLK_OK);
    bool found = false;
    for (size_t i = 0; i < nodes.n; i++)
        found |= tk_uop_is(nodes.at[i], TK_OP_REDUCE) && tolk_dtype_is_float(nodes.at[i]->dtype) &&
                 tk_uop_int(nodes.at[i], TK_A_REDUCE_OP) != TK_ROP_MAX;
    tk_vec_fini(&nodes);
    return found;
}
