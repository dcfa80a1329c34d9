/* SPDX-License-Identifier: MIT */
#include "ir/bounds.h"

#include "ir/dtype.h"

enum { KNOWN = 1, UNKNOWN = 2 };

typedef tk_wide_bound iv;

static bool is_integer(tolk_dtype dt) {
    return tolk_dtype_is_int(dt) || tk_dtype_scalar(dt) == TOLK_BOOL;
}

static tk_wide least(tk_wide a, tk_wide b) {
    return a < b ? a : b;
}

static tk_wide most(tk_wide a, tk_wide b) {
    return a > b ? a : b;
}

static iv join(iv a, iv b) {
    return (iv){least(a.lo, b.lo), most(a.hi, b.hi)};
}

tk_wide_bound tk_bounds_dtype(tolk_dtype dt) {
    if (tk_dtype_scalar(dt) == TOLK_U64)
        return (iv){0, UINT64_MAX};
    return (iv){tk_dtype_min(dt), tk_dtype_max(dt)};
}

/* Bounds of a node that are memoized already. */
static iv get(const tolk_uop *u) {
    tk_bound b = u->graph->bounds.at[u->id];
    return b.state == KNOWN ? (iv){b.lo, b.hi} : tk_bounds_dtype(u->dtype);
}

/* ---- ops ---- */

static iv mul(iv a, iv b, iv full) {
    tk_wide p[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
        return full;
    return join(join((iv){p[0], p[0]}, (iv){p[1], p[1]}), join((iv){p[2], p[2]}, (iv){p[3], p[3]}));
}

static tk_wide floor_div(tk_wide a, tk_wide b) {
    tk_wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* b does not contain 0: a quotient is monotone in either operand, so the corners bound it. */
static iv corners(iv a, iv b, bool is_floor) {
    iv r = {0, 0};
    for (int i = 0; i < 4; i++) {
        tk_wide x = i & 1 ? a.hi : a.lo, y = i & 2 ? b.hi : b.lo;
        tk_wide q = is_floor ? floor_div(x, y) : x / y;
        r = i ? join(r, (iv){q, q}) : (iv){q, q};
    }
    return r;
}

static iv quotient(iv a, iv b, bool is_floor) {
    if (b.lo > 0 || b.hi < 0)
        return corners(a, b, is_floor);
    iv r = {0, 0}; /* by 0 */
    if (b.lo < 0)
        r = join(r, corners(a, (iv){b.lo, -1}, is_floor));
    if (b.hi > 0)
        r = join(r, corners(a, (iv){1, b.hi}, is_floor));
    return r;
}

static iv remainder_trunc(iv a, iv b) {
    tk_wide m = most(b.hi, -b.lo); /* largest |divisor| */
    if (m == 0)
        return a;
    if (b.lo == b.hi && a.lo / b.lo == a.hi / b.lo && (a.lo >= 0 || a.hi <= 0))
        return (iv){a.lo % b.lo, a.hi % b.lo};
    iv r = {a.lo < 0 ? most(a.lo, 1 - m) : 0, a.hi > 0 ? least(a.hi, m - 1) : 0};
    return b.lo <= 0 && b.hi >= 0 ? join(r, a) : r;
}

static iv remainder_floor(iv a, iv b) {
    if (b.lo == b.hi && b.lo != 0) {
        tk_wide q = floor_div(a.lo, b.lo);
        if (q == floor_div(a.hi, b.lo))
            return (iv){a.lo - q * b.lo, a.hi - q * b.lo};
    }
    if (a.lo >= 0 && b.lo > a.hi)
        return a;
    iv r = {0, 0};
    if (b.hi > 0)
        r.hi = a.lo >= 0 ? least(a.hi, b.hi - 1) : b.hi - 1;
    if (b.lo < 0)
        r.lo = a.hi <= 0 ? most(a.lo, b.lo + 1) : b.lo + 1;
    return b.lo <= 0 && b.hi >= 0 ? join(r, a) : r;
}

static iv shift_left(iv a, iv k, uint32_t bits, iv full) {
    if (k.lo < 0 || k.hi >= (tk_wide)bits)
        return a.lo == 0 && a.hi == 0 ? a : full;
    return mul(a, (iv){(tk_wide)1 << (int)k.lo, (tk_wide)1 << (int)k.hi}, full);
}

/* Counts are unsigned and saturate; a signed one below 0 is a large one. */
static iv shift_right(iv a, iv k, uint32_t bits) {
    tk_wide big = (tk_wide)bits; /* all of the value is shifted out */
    if (k.lo < 0) {
        k.lo = k.hi < 0 ? big : 0;
        k.hi = big;
    }
    int lo = (int)least(k.lo, big), hi = (int)least(k.hi, big);
    return (iv){least(a.lo >> lo, a.lo >> hi), most(a.hi >> lo, a.hi >> hi)};
}

/* Least 2^n - 1 that covers x >= 0. */
static tk_wide mask_of(tk_wide x) {
    tk_wide m = 0;
    while (m < x)
        m = 2 * m + 1;
    return m;
}

static iv bitwise(tk_op op, iv a, iv b, iv full) {
    bool a_pos = a.lo >= 0, b_pos = b.lo >= 0;
    if (op == TK_OP_AND) {
        if (a_pos && b_pos)
            return (iv){0, least(a.hi, b.hi)};
        return a_pos ? (iv){0, a.hi} : b_pos ? (iv){0, b.hi} : full;
    }
    if (!a_pos || !b_pos)
        return full;
    tk_wide m = mask_of(most(a.hi, b.hi));
    return (iv){op == TK_OP_OR ? most(a.lo, b.lo) : 0, m};
}

static iv truth(bool always, bool never) {
    return (iv){always, !never};
}

static iv compare(tk_op op, iv a, iv b) {
    bool apart = a.hi < b.lo || b.hi < a.lo;
    bool same = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
    switch (op) {
    case TK_OP_CMPLT:
        return truth(a.hi < b.lo, a.lo >= b.hi);
    case TK_OP_CMPNE:
        return truth(apart, same);
    default:
        return truth(same, apart);
    }
}

static iv bool_op(tk_op op, iv a, iv b) {
    switch (op) {
    case TK_OP_AND:
    case TK_OP_MUL:
        return (iv){a.lo & b.lo, a.hi & b.hi};
    case TK_OP_XOR:
        if (a.lo == a.hi && b.lo == b.hi)
            return (iv){a.lo ^ b.lo, a.lo ^ b.lo};
        return (iv){0, 1};
    default: /* add, max and or */
        return (iv){a.lo | b.lo, a.hi | b.hi};
    }
}

static iv where(const tolk_uop *u) {
    const tolk_uop *c = u->src[0], *x = u->src[1], *y = u->src[2];
    if (tk_uop_is_invalid(x) || tk_uop_is_invalid(y))
        return get(tk_uop_is_invalid(x) ? y : x);
    iv a = get(x), b = get(y), t = get(c);
    if (t.lo == 1 || t.hi == 0)
        return t.lo == 1 ? a : b;
    if (tk_uop_is(c, TK_OP_CMPLT) && c->src[0] == x && c->src[1] == y)
        return (iv){least(a.lo, b.lo), least(a.hi, b.hi)};
    if (tk_uop_is(c, TK_OP_CMPLT) && c->src[0] == y && c->src[1] == x)
        return (iv){most(a.lo, b.lo), most(a.hi, b.hi)};
    return join(a, b);
}

/* The folds whose number of terms is bounded by the sizes of their ranges. */
static iv reduce(const tolk_uop *u, iv full) {
    iv v = get(u->src[0]);
    if (tk_dtype_scalar(u->dtype) == TOLK_BOOL || u->n_src == 1)
        return full;
    tk_wide most_terms = 1;
    bool some = true;
    for (uint32_t i = 1; i < u->n_src; i++) {
        if (!tk_uop_is(u->src[i], TK_OP_RANGE))
            return full;
        iv size = get(u->src[i]->src[0]);
        some &= size.lo > 0;
        if (__builtin_mul_overflow(most_terms, most(size.hi, 0), &most_terms))
            return full;
    }
    switch (tk_uop_int(u, TK_A_REDUCE_OP)) {
    case TK_ROP_ADD:
        return mul((iv){least(v.lo, 0), most(v.hi, 0)}, (iv){0, most_terms}, full);
    case TK_ROP_MAX:
        return (iv){some ? v.lo : full.lo, most_terms ? v.hi : full.lo};
    default:
        return full;
    }
}

/* A scalar argument, as tk_params_within lets it through. No bound is INT64_MIN and INT64_MAX,
 * which for u64 means up to its own maximum. */
static iv param(const tolk_uop *u, iv full) {
    if (tk_uop_int(u, TK_A_PARAM_SPACE) != TK_SPACE_ALU)
        return full;
    int64_t lo = tk_uop_int(u, TK_A_PARAM_MIN), hi = tk_uop_int(u, TK_A_PARAM_MAX);
    iv r = {most(lo, full.lo), hi == INT64_MAX ? full.hi : least(hi, full.hi)};
    return r.lo <= r.hi ? r : full;
}

static iv cast(const tolk_uop *u, iv full) {
    const tolk_uop *x = u->src[0];
    if (!is_integer(x->dtype))
        return full;
    iv a = get(x);
    if (tk_dtype_scalar(u->dtype) == TOLK_BOOL)
        return truth(a.lo > 0 || a.hi < 0, a.lo == 0 && a.hi == 0);
    return a;
}

/* The same bits as signed and unsigned: equal where both are, else one whole turn apart. */
static iv bitcast(const tolk_uop *u, iv full) {
    const tolk_uop *x = u->src[0];
    if (!is_integer(x->dtype) || tk_dtype_scalar(u->dtype) == TOLK_BOOL ||
        tk_dtype_bits(x->dtype) != tk_dtype_bits(u->dtype))
        return full;
    iv a = get(x);
    tk_wide turn = (tk_wide)1 << tk_dtype_bits(u->dtype);
    if (a.lo >= full.lo && a.hi <= full.hi)
        return a;
    if (a.hi < full.lo)
        return (iv){a.lo + turn, a.hi + turn};
    if (a.lo > full.hi)
        return (iv){a.lo - turn, a.hi - turn};
    return full;
}

static iv alu(const tolk_uop *u, iv full) {
    tk_op op = tk_uop_op(u);
    bool comparison = op == TK_OP_CMPLT || op == TK_OP_CMPNE || op == TK_OP_CMPEQ;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (!is_integer(u->src[i]->dtype))
            return full;
    uint32_t bits = tk_dtype_bits(u->dtype);
    iv a = get(u->src[0]);
    if (op == TK_OP_NEG)
        return (iv){-a.hi, -a.lo};
    if (op == TK_OP_WHERE)
        return where(u);
    if (u->n_src < 2)
        return full;
    iv b = get(u->src[1]);
    if (comparison)
        return compare(op, a, b);
    if (tk_dtype_scalar(u->dtype) == TOLK_BOOL)
        return bool_op(op, a, b);
    switch (op) {
    case TK_OP_ADD:
        return (iv){a.lo + b.lo, a.hi + b.hi};
    case TK_OP_SUB:
        return (iv){a.lo - b.hi, a.hi - b.lo};
    case TK_OP_MUL: {
        iv p = mul(a, b, full);
        if (u->src[0] == u->src[1])
            p.lo = most(p.lo, 0);
        return p;
    }
    case TK_OP_MULACC: {
        iv p = mul(a, b, full), c = get(u->src[2]);
        iv sum;
        if (__builtin_add_overflow(p.lo, c.lo, &sum.lo) ||
            __builtin_add_overflow(p.hi, c.hi, &sum.hi) || p.lo < full.lo || p.hi > full.hi)
            return full;
        return sum;
    }
    case TK_OP_MAX:
        return (iv){most(a.lo, b.lo), most(a.hi, b.hi)};
    case TK_OP_CDIV:
    case TK_OP_FLOORDIV:
        return quotient(a, b, op == TK_OP_FLOORDIV);
    case TK_OP_CMOD:
        return remainder_trunc(a, b);
    case TK_OP_FLOORMOD:
        return remainder_floor(a, b);
    case TK_OP_SHL:
        return shift_left(a, b, bits, full);
    case TK_OP_SHR:
        return shift_right(a, b, bits);
    case TK_OP_AND:
    case TK_OP_OR:
    case TK_OP_XOR:
        return bitwise(op, a, b, full);
    default:
        return full;
    }
}

/* ---- nodes ---- */

/* How many of the first sources the bounds of u are made from. */
static uint32_t n_needed(const tolk_uop *u) {
    if (!is_integer(u->dtype))
        return 0;
    switch (tk_uop_op(u)) {
    case TK_OP_RANGE:
    case TK_OP_SPECIAL:
    case TK_OP_BIND:
    case TK_OP_AFTER:
    case TK_OP_SHUFFLE:
    case TK_OP_INDEX:
        return 1;
    case TK_OP_NOOP:
    case TK_OP_STACK:
        return u->n_src;
    case TK_OP_REDUCE:
        return u->n_src;
    default:
        return tk_op_is_alu(tk_uop_op(u)) ? u->n_src : 0;
    }
}

static iv compute(const tolk_uop *u, iv full) {
    switch (tk_uop_op(u)) {
    case TK_OP_CONST:
        if (tk_uop_is_invalid(u))
            return full;
        if (tk_dtype_scalar(u->dtype) == TOLK_U64)
            return (iv){tk_uop_bits(u), tk_uop_bits(u)};
        return (iv){u->attr[0].i, u->attr[0].i};
    case TK_OP_PARAM:
        return param(u, full);
    case TK_OP_RANGE:
    case TK_OP_SPECIAL:
        return (iv){0, most(get(u->src[0]).hi - 1, 0)};
    case TK_OP_BIND:
    case TK_OP_AFTER:
    case TK_OP_SHUFFLE:
    case TK_OP_INDEX: /* a lane of a vector; a place has the bounds of its buffer, all values */
        return get(u->src[0]);
    case TK_OP_NOOP:
        return u->n_src ? get(u->src[0]) : full;
    case TK_OP_STACK: {
        iv r = u->n_src ? get(u->src[0]) : full;
        for (uint32_t i = 1; i < u->n_src; i++)
            r = join(r, get(u->src[i]));
        return r;
    }
    case TK_OP_REDUCE:
        return reduce(u, full);
    case TK_OP_CAST:
        return cast(u, full);
    case TK_OP_BITCAST:
        return bitcast(u, full);
    default:
        return n_needed(u) ? alu(u, full) : full;
    }
}

static tk_bound bound_of(const tolk_uop *u) {
    const tk_bound unknown = {INT64_MIN, INT64_MAX, UNKNOWN};
    if (!is_integer(u->dtype))
        return unknown;
    iv full = tk_bounds_dtype(u->dtype);
    iv r = compute(u, full);
    if (r.lo < full.lo || r.hi > full.hi || r.lo > r.hi)
        r = full; /* it may wrap */
    if (r.hi > INT64_MAX)
        return unknown;
    return (tk_bound){(int64_t)r.lo, (int64_t)r.hi, KNOWN};
}

tk_bound tk_bounds(const tolk_uop *u) {
    tolk_graph *g = u->graph;
    if (u->id < g->bounds.n && g->bounds.at[u->id].state)
        return g->bounds.at[u->id];
    TK_VEC(const tolk_uop *) stack;
    tk_vec_init(&stack, g->al);
    /* Sources have lower ids, so the table covers all that is needed. */
    bool ok = (g->bounds.n >= g->nodes.n || tk_vec_resize(&g->bounds, g->nodes.n)) &&
              tk_vec_push(&stack, u);
    while (ok && stack.n) {
        const tolk_uop *at = tk_vec_last(&stack);
        size_t depth = stack.n;
        if (!g->bounds.at[at->id].state) {
            for (uint32_t i = n_needed(at); ok && i-- > 0;)
                if (!g->bounds.at[at->src[i]->id].state)
                    ok = tk_vec_push(&stack, at->src[i]);
            if (ok && stack.n == depth)
                g->bounds.at[at->id] = bound_of(at);
        }
        if (stack.n == depth && ok)
            (void)tk_vec_pop(&stack);
    }
    tk_vec_fini(&stack);
    if (ok)
        return g->bounds.at[u->id];
    /* Out of memory: what is always true, and is not remembered. */
    iv full = is_integer(u->dtype) ? tk_bounds_dtype(u->dtype) : (iv){0, UINT64_MAX};
    if (full.hi > INT64_MAX)
        return (tk_bound){INT64_MIN, INT64_MAX, UNKNOWN};
    return (tk_bound){(int64_t)full.lo, (int64_t)full.hi, KNOWN};
}

tk_wide_bound tk_bounds_wide(const tolk_uop *u) {
    tk_bound b = tk_bounds(u);
    return b.state == KNOWN ? (iv){b.lo, b.hi} : tk_bounds_dtype(u->dtype);
}
