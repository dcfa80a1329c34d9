/* SPDX-License-Identifier: MIT */
#include "ir/shape.h"

#include "ir/bounds.h"
#include "ir/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const tk_shape scalar_shape = {0};

typedef struct infer {
    tolk_graph *g;
    const tolk_uop *u;
    tolk_error *err;
} infer;

static tolk_status fail(const infer *in, tolk_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static tolk_status fail(const infer *in, tolk_status code, const char *fmt, ...) {
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tk_status_fail(in->err, code, TK_NO_NODE, "%s: %s", tk_op_get(tk_uop_op(in->u))->name,
                          text);
}

/* ---- small helpers ---- */

const char *tk_shape_text(const tk_shape *shape, char buf[64]) {
    size_t at = 1;
    buf[0] = '[';
    for (uint32_t i = 0; i < shape->rank && at < 60; i++) {
        const tolk_uop *d = shape->dim[i];
        const char *name = tk_uop_is(d, TK_OP_PARAM) ? tk_uop_str(d, TK_A_PARAM_NAME) : NULL;
        char one[32];
        if (tk_uop_is_const(d))
            snprintf(one, sizeof one, "%lld", (long long)d->attr[0].i);
        else
            snprintf(one, sizeof one, "%.20s", name ? name : "?");
        at += (size_t)snprintf(buf + at, 64 - at, "%s%s", i ? ", " : "", one);
    }
    if (at > 58) {
        memcpy(buf + 55, " ...", 5);
        at = 59;
    }
    memcpy(buf + at, "]", 2);
    return buf;
}

bool tk_shape_elems(const tk_shape *shape, int64_t *out) {
    int64_t product = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (!tk_uop_is_const(shape->dim[i]))
            return false;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dim[i]->attr[0].i == 0) {
            *out = 0;
            return true;
        }
    for (uint32_t i = 0; i < shape->rank; i++)
        if (!tk_check_mul(&product, shape->dim[i]->attr[0].i))
            return false;
    *out = product;
    return true;
}

static int64_t add_saturating(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static tk_bound bounds_of(const tolk_uop *u) {
    if (tk_uop_is_const(u))
        return (tk_bound){u->attr[0].i, u->attr[0].i, 1};
    tk_bound b = tk_bounds(u);
    return b.state == 1 ? b : (tk_bound){INT64_MIN, INT64_MAX, 1};
}

static bool same_dim(const tolk_uop *a, const tolk_uop *b) {
    if (a == b)
        return true;
    tk_bound x = bounds_of(a), y = bounds_of(b);
    return x.lo == x.hi && y.lo == y.hi && x.lo == y.lo;
}

static bool same_shape(const tk_shape *a, const tk_shape *b) {
    if (a == b)
        return true;
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!same_dim(a->dim[i], b->dim[i]))
            return false;
    return true;
}

static const tk_shape *shape_at(const infer *in, uint32_t i) {
    return in->g->shapes.at[in->u->src[i]->id];
}

/* The index scalars of a shape operand. */
static const tolk_uop *const *list_of(const tolk_uop *const *operand, uint32_t *rank) {
    bool stack = tk_uop_is(*operand, TK_OP_STACK);
    *rank = stack ? (*operand)->n_src : 1;
    return stack ? (*operand)->src : operand;
}

/* A new shape to fill in. */
static tolk_status make(const infer *in, size_t rank, tk_shape **out) {
    if (rank > TK_MAX_TENSOR_RANK)
        return fail(in, TOLK_E_LIMIT, "rank %zu, at most %d", rank, TK_MAX_TENSOR_RANK);
    tk_shape *s = tk_arena_alloc(&in->g->arena, sizeof *s + rank * sizeof *s->dim);
    if (!s)
        return tk_status_nomem(in->err);
    s->rank = (uint32_t)rank;
    *out = s;
    return TOLK_OK;
}

/* The constant dimensions must not be negative and their product must fit 63 bits. */
static tolk_status check_size(const infer *in, const tk_shape *s) {
    int64_t product = 1;
    char text[64];
    bool fits = true, empty = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!tk_uop_is_const(s->dim[i])) {
            empty = true; /* may be 0 */
            continue;
        }
        int64_t d = s->dim[i]->attr[0].i;
        if (d < 0)
            return fail(in, TOLK_E_SHAPE, "dimension %u is %lld, expected at least 0", i,
                        (long long)d);
        empty = empty || d == 0;
        fits = fits && tk_check_mul(&product, d);
    }
    if (!fits && !empty)
        return fail(in, TOLK_E_LIMIT, "too large: shape %s has more than 2^63-1 elements",
                    tk_shape_text(s, text));
    return TOLK_OK;
}

static tolk_status from_list(const infer *in, const tolk_uop *const *operand,
                             const tk_shape **out) {
    uint32_t rank;
    const tolk_uop *const *dim = list_of(operand, &rank);
    tk_shape *s;
    TK_TRY(make(in, rank, &s));
    memcpy(s->dim, dim, rank * sizeof *dim);
    TK_TRY(check_size(in, s));
    *out = s;
    return TOLK_OK;
}

static tolk_status all_agree(const infer *in, const tk_shape **out) {
    const tk_shape *first = shape_at(in, 0);
    char a[64], b[64];
    for (uint32_t i = 1; i < in->u->n_src; i++)
        if (!same_shape(shape_at(in, i), first))
            return fail(in, TOLK_E_SHAPE,
                        "operand %u has shape %s, expected %s (the shape of operand 0)", i,
                        tk_shape_text(shape_at(in, i), a), tk_shape_text(first, b));
    *out = first;
    return TOLK_OK;
}

/* a's dimensions from `skip` on, behind `n` given ones. */
static tolk_status prepend(const infer *in, const tolk_uop *const *dim, uint32_t n,
                           const tk_shape *a, uint32_t skip, const tk_shape **out) {
    tk_shape *s;
    TK_TRY(make(in, (size_t)n + a->rank - skip, &s));
    if (n)
        memcpy(s->dim, dim, n * sizeof *dim);
    if (a->rank > skip)
        memcpy(s->dim + n, a->dim + skip, (a->rank - skip) * sizeof *dim);
    TK_TRY(check_size(in, s));
    *out = s;
    return TOLK_OK;
}

/* ---- movement ---- */

/* The product of dims[0..n), as bounds that no overflow leaves. */
static tk_bound product_bounds(const tolk_uop *const *dim, uint32_t n, int64_t constant) {
    tk_bound p = {constant, constant, 1};
    for (uint32_t i = 0; i < n; i++) {
        tk_bound d = bounds_of(dim[i]);
        if (!tk_check_mul(&p.lo, d.lo < 0 ? 0 : d.lo))
            p.lo = INT64_MAX;
        if (!tk_check_mul(&p.hi, d.hi < 0 ? 0 : d.hi))
            p.hi = INT64_MAX;
    }
    return p;
}

/* Constant factors of a shape into *constant, the others that are not in `other` into rest. */
static uint32_t factors(const tk_shape *s, const tk_shape *other, const tolk_uop **rest,
                        int64_t *constant, bool *fits) {
    bool taken[TK_MAX_TENSOR_RANK] = {false};
    uint32_t n = 0;
    *constant = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (tk_uop_is_const(s->dim[i]) && s->dim[i]->attr[0].i == 0)
            *constant = 0;
    if (*constant == 0)
        return 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (tk_uop_is_const(s->dim[i])) {
            *fits = *fits && tk_check_mul(constant, s->dim[i]->attr[0].i);
            continue;
        }
        uint32_t k = 0;
        while (k < other->rank && (taken[k] || other->dim[k] != s->dim[i]))
            k++;
        if (k < other->rank)
            taken[k] = true;
        else
            rest[n++] = s->dim[i];
    }
    return n;
}

static tolk_status reshape(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0), *to = &scalar_shape;
    if (in->u->n_src == 2)
        TK_TRY(from_list(in, &in->u->src[1], &to));
    const tolk_uop *a[TK_MAX_TENSOR_RANK], *b[TK_MAX_TENSOR_RANK];
    int64_t ca, cb;
    bool fits = true;
    uint32_t na = factors(from, to, a, &ca, &fits), nb = factors(to, from, b, &cb, &fits);
    if (!fits)
        return fail(in, TOLK_E_LIMIT, "too large: more than 2^63-1 elements");
    tk_bound x = product_bounds(a, na, ca), y = product_bounds(b, nb, cb);
    char ta[64], tb[64];
    if (x.hi < y.lo || y.hi < x.lo)
        return fail(in, TOLK_E_SHAPE, "from %s to %s, expected equal numbers of elements",
                    tk_shape_text(from, ta), tk_shape_text(to, tb));
    *out = to;
    return TOLK_OK;
}

static tolk_status permute(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0);
    const tk_blob *order = tk_uop_attr(in->u, TK_A_PERMUTE_ORDER).blob;
    if (order->n != from->rank)
        return fail(in, TOLK_E_SHAPE, "order names %zu axes, expected %u", order->n, from->rank);
    tk_shape *s;
    TK_TRY(make(in, from->rank, &s));
    for (uint32_t i = 0; i < from->rank; i++)
        s->dim[i] = from->dim[order->ints[i]];
    *out = s;
    return TOLK_OK;
}

static tolk_status flip(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0);
    const tk_blob *axes = tk_uop_attr(in->u, TK_A_FLIP_AXES).blob;
    for (size_t i = 0; i < axes->n; i++)
        if (axes->ints[i] >= from->rank)
            return fail(in, TOLK_E_SHAPE, "axis %lld of a tensor of rank %u",
                        (long long)axes->ints[i], from->rank);
    *out = from;
    return TOLK_OK;
}

/* Does [offset, offset + part) provably not fit into [0, whole)? */
static bool outside(const tolk_uop *offset, const tolk_uop *part, const tolk_uop *whole) {
    tk_bound o = bounds_of(offset), p = bounds_of(part), w = bounds_of(whole);
    if (o.hi < 0 || (part == whole && o.lo > 0))
        return true;
    return add_saturating(o.lo < 0 ? 0 : o.lo, p.lo < 0 ? 0 : p.lo) > w.hi;
}

/* PAD puts the source at offset into size; SHRINK takes size at offset out of the source. */
static tolk_status pad_or_shrink(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0);
    bool pad = tk_uop_is(in->u, TK_OP_PAD);
    uint32_t n, n_size;
    const tolk_uop *const *offset = list_of(&in->u->src[1], &n);
    const tolk_uop *const *size = list_of(&in->u->src[2], &n_size);
    if (n != from->rank || n_size != from->rank)
        return fail(in, TOLK_E_SHAPE, "%u offsets and %u sizes, expected %u of each", n, n_size,
                    from->rank);
    for (uint32_t i = 0; i < n; i++)
        if (pad ? outside(offset[i], from->dim[i], size[i])
                : outside(offset[i], size[i], from->dim[i])) {
            tk_bound o = bounds_of(offset[i]), s = bounds_of(size[i]), d = bounds_of(from->dim[i]);
            return fail(in, TOLK_E_SHAPE,
                        "axis %u: offset %lld and size %lld do not fit the dimension %lld", i,
                        (long long)o.lo, (long long)s.lo, (long long)d.hi);
        }
    return from_list(in, &in->u->src[2], out);
}

static tolk_status expand(const infer *in, const tk_shape **out) {
    uint32_t n;
    const tolk_uop *const *dim = list_of(&in->u->src[1], &n);
    return prepend(in, dim, n, shape_at(in, 0), 0, out);
}

/* ---- the rest ---- */

static tolk_status stack(const infer *in, const tk_shape **out) {
    if (in->u->n_src == 0 || tk_uop_lanes(in->u) > 1) {
        *out = &scalar_shape;
        if (tk_uop_lanes(in->u) > 1)
            return TOLK_OK;
    } else {
        TK_TRY(all_agree(in, out));
    }
    const tolk_uop *n = tk_uop_index_const(in->g, in->u->n_src);
    if (!n)
        return tk_status_nomem(in->err);
    return prepend(in, &n, 1, *out, 0, out);
}

static tolk_status index_shape(const infer *in, const tk_shape **out) {
    const tolk_uop *u = in->u;
    if (tk_uop_lanes(u->src[0]) > 1 && !tk_check_is_buffer(u->src[0])) {
        *out = &scalar_shape; /* a lane */
        return TOLK_OK;
    }
    const tk_shape *from = shape_at(in, 0);
    if (u->n_src - 1 > from->rank)
        return fail(in, TOLK_E_SHAPE, "%u indices into rank %u", u->n_src - 1, from->rank);
    const tolk_uop *dim[TK_MAX_TENSOR_RANK];
    uint32_t n = 0;
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tk_shape *s = shape_at(in, i);
        if (n + s->rank > TK_MAX_TENSOR_RANK)
            return fail(in, TOLK_E_LIMIT, "more than %d dimensions", TK_MAX_TENSOR_RANK);
        if (s->rank)
            memcpy(dim + n, s->dim, s->rank * sizeof *dim);
        n += s->rank;
    }
    if (n == 0 && u->n_src - 1 == from->rank) {
        *out = &scalar_shape;
        return TOLK_OK;
    }
    return prepend(in, dim, n, from, u->n_src - 1, out);
}

static tolk_status reduce(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0);
    int64_t axes = tk_uop_int(in->u, TK_A_REDUCE_AXES);
    if (axes > from->rank)
        return fail(in, TOLK_E_SHAPE, "%lld axes of a tensor of rank %u", (long long)axes,
                    from->rank);
    if (axes == 0) {
        *out = from;
        return TOLK_OK;
    }
    return prepend(in, NULL, 0, from, (uint32_t)axes, out);
}

static tolk_status stage(const infer *in, const tk_shape **out) {
    const tolk_uop *dim[TK_MAX_TENSOR_RANK];
    uint32_t n = in->u->n_src - 1;
    if (n > TK_MAX_TENSOR_RANK)
        return fail(in, TOLK_E_LIMIT, "more than %d dimensions", TK_MAX_TENSOR_RANK);
    for (uint32_t i = 0; i < n; i++)
        dim[i] = in->u->src[i + 1]->src[0];
    return prepend(in, dim, n, shape_at(in, 0), 0, out);
}

static tolk_status one_dim(const infer *in, int64_t size, const tk_shape **out) {
    const tolk_uop *d = tk_uop_index_const(in->g, size);
    return d ? prepend(in, &d, 1, &scalar_shape, 0, out) : tk_status_nomem(in->err);
}

/* The sharded axis is as long as all shards together. */
static tolk_status multi(const infer *in, const tk_shape **out) {
    const tk_shape *from = shape_at(in, 0);
    int64_t axis = tk_uop_int(in->u, TK_A_MULTI_AXIS);
    if (!tk_uop_is(in->u->src[0], TK_OP_MSTACK))
        return fail(in, TOLK_E_SHAPE, "operand 0 is %s, expected an mstack of shards",
                    tk_op_get(tk_uop_op(in->u->src[0]))->name);
    if (axis >= from->rank)
        return fail(in, TOLK_E_SHAPE, "axis %lld of shards of rank %u", (long long)axis,
                    from->rank);
    int64_t shards = in->u->src[0]->n_src;
    const tolk_uop *d = from->dim[axis];
    int64_t whole = tk_uop_is_const(d) ? d->attr[0].i : 1;
    if (!tk_check_mul(&whole, shards))
        return fail(in, TOLK_E_LIMIT, "too large: more than 2^63-1 elements");
    const tolk_uop *n = tk_uop_index_const(in->g, whole);
    if (n && !tk_uop_is_const(d))
        n = tk_uop2(in->g, TK_OP_MUL, d, n);
    tk_shape *s;
    if (!n)
        return tk_status_nomem(in->err);
    TK_TRY(make(in, from->rank, &s));
    memcpy(s->dim, from->dim, from->rank * sizeof *s->dim);
    s->dim[axis] = n;
    TK_TRY(check_size(in, s));
    *out = s;
    return TOLK_OK;
}

/* Sources whose shapes a node's own needs: [0, n). */
static uint32_t shaped_sources(const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_INDEX:
    case TK_OP_STACK:
    case TK_OP_MSTACK:
    case TK_OP_SHUFFLE:
        return u->n_src;
    case TK_OP_WMMA: /* that of C, the last source */
        return 3;
    case TK_OP_LOAD:
    case TK_OP_REDUCE:
    case TK_OP_AFTER:
    case TK_OP_END:
    case TK_OP_NOOP:
    case TK_OP_CONTIGUOUS:
    case TK_OP_STAGE:
    case TK_OP_COPY:
    case TK_OP_MULTI:
    case TK_OP_MSELECT:
    case TK_OP_ALLREDUCE:
        return u->n_src ? 1 : 0;
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return u->n_src;
    default:
        return tk_op_is_alu(tk_uop_op(u))                      ? u->n_src
               : tk_op_get(tk_uop_op(u))->cls == TK_CLASS_MOVE ? 1
                                                               : 0;
    }
}

static tolk_status infer_one(const infer *in, const tk_shape **out) {
    const tolk_uop *u = in->u;
    tk_op op = tk_uop_op(u);
    if (tk_op_is_alu(op))
        return all_agree(in, out);
    switch (op) {
    case TK_OP_BUFFER:
        if (tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            return one_dim(in, 0, out);
        /* fall through */
    case TK_OP_PARAM:
        if (u->n_src)
            return from_list(in, &u->src[0], out);
        break;
    case TK_OP_STACK:
        return stack(in, out);
    case TK_OP_INDEX:
        return index_shape(in, out);
    case TK_OP_RESHAPE:
        return reshape(in, out);
    case TK_OP_PERMUTE:
        return permute(in, out);
    case TK_OP_EXPAND:
        return expand(in, out);
    case TK_OP_PAD:
    case TK_OP_SHRINK:
        return pad_or_shrink(in, out);
    case TK_OP_FLIP:
        return flip(in, out);
    case TK_OP_REDUCE:
        return reduce(in, out);
    case TK_OP_STAGE:
        return stage(in, out);
    case TK_OP_MULTI:
        return multi(in, out);
    case TK_OP_SLICE:
        return one_dim(in, tk_uop_int(u, TK_A_SLICE_COUNT), out);
    case TK_OP_BINARY:
        return one_dim(in, (int64_t)tk_uop_attr(u, TK_A_BINARY_BYTES).blob->n, out);
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
    case TK_OP_MSTACK:
    case TK_OP_SHUFFLE:
        return all_agree(in, out);
    case TK_OP_WMMA:
        *out = shape_at(in, 2);
        return TOLK_OK;
    default:
        if (shaped_sources(u)) {
            *out = shape_at(in, 0);
            return TOLK_OK;
        }
        break;
    }
    *out = &scalar_shape;
    return TOLK_OK;
}

static const tk_shape *known(const tolk_uop *u) {
    return u->id < u->graph->shapes.n ? u->graph->shapes.at[u->id] : NULL;
}

typedef struct frame {
    const tolk_uop *u;
    uint32_t next;
} frame;

tolk_status tk_shape_get(const tolk_uop *u, const tk_shape **out, const tolk_uop **at,
                         tolk_error *err) {
    tolk_graph *g = u->graph;
    if (known(u)) {
        *out = known(u);
        return TOLK_OK;
    }
    TK_VEC(frame) stack;
    tk_vec_init(&stack, g->al);
    tolk_status st = TOLK_OK;
    if (!tk_vec_resize(&g->shapes, g->nodes.n) || !tk_vec_push(&stack, ((frame){u, 0})))
        st = tk_status_nomem(err);
    while (st == TOLK_OK && stack.n) {
        frame *f = &tk_vec_last(&stack);
        if (f->next < shaped_sources(f->u)) {
            const tolk_uop *s = f->u->src[f->next++];
            if (!known(s) && !tk_vec_push(&stack, ((frame){s, 0})))
                st = tk_status_nomem(err);
            continue;
        }
        infer in = {g, f->u, err};
        const tk_shape *shape = NULL;
        st = infer_one(&in, &shape);
        if (st == TOLK_OK)
            g->shapes.at[f->u->id] = shape;
        else if (at)
            *at = f->u;
        (void)tk_vec_pop(&stack);
    }
    tk_vec_fini(&stack);
    if (st == TOLK_OK)
        *out = known(u);
    return st;
}

const tk_shape *tk_shape_of(const tolk_uop *u) {
    const tk_shape *shape = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tk_shape_get(u, &shape, NULL, &err);
    if (st != TOLK_OK)
        (void)tk_graph_fail(u->graph, st, "%s", err.msg);
    return shape;
}
