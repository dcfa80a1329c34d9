/* SPDX-License-Identifier: MIT */
#include "jit/items.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/sym.h"

bool tk_items_meet(const tk_kview *v) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (tk_uop_is(u, TK_OP_BARRIER) || tk_uop_is(u, TK_OP_SHUFFLE) ||
            (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_LOCAL))
            return true;
    }
    return false;
}

int tk_items_lidx(const tolk_uop *u) {
    int dim = -1;
    if (!tk_uop_is(u, TK_OP_SPECIAL) ||
        tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &dim) != TK_SPECIAL_LIDX)
        return -1;
    return dim;
}

bool tk_items_is_span(const tolk_uop *u) {
    if (!tk_uop_is(u, TK_OP_SPECIAL))
        return false;
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
    return kind == TK_SPECIAL_SPAN_BEGIN || kind == TK_SPECIAL_SPAN_END;
}

bool tk_items_has_local(const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (tk_uop_is(linear->src[i], TK_OP_BUFFER) &&
            tk_uop_int(linear->src[i], TK_A_BUFFER_SPACE) == TK_SPACE_LOCAL)
            return true;
    return false;
}

bool tk_items_has_dynamic(const tolk_uop *linear) {
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (tk_uop_is(linear->src[i], TK_OP_BUFFER) &&
            tk_uop_int(linear->src[i], TK_A_BUFFER_DYNAMIC))
            return true;
    return false;
}

const tolk_uop *tk_items_size(tolk_graph *g, const tolk_uop *size) {
    tk_bound b = tk_bounds(size);
    return b.state == 1 && b.lo >= 0 ? size : tk_sym_max(g, size, tk_uop_index_const(g, 0));
}

const tolk_uop *tk_items_count(tolk_graph *g, const tolk_uop *const size[TK_ITEMS_DIMS]) {
    const tolk_uop *n = tk_uop_index_const(g, 1);
    for (int d = 0; d < TK_ITEMS_DIMS && n; d++)
        if (size[d])
            n = tk_sym_mul(g, n, size[d]);
    return n;
}

const tolk_uop *tk_items_flat(tolk_graph *g, const tolk_uop *const size[TK_ITEMS_DIMS],
                              const tolk_uop *const index[TK_ITEMS_DIMS]) {
    const tolk_uop *at = tk_uop_index_const(g, 0);
    for (int d = TK_ITEMS_DIMS; d-- > 0 && at;) {
        if (!size[d])
            continue;
        at = tk_sym_mul(g, at, size[d]);
        at = at ? tk_sym_add(g, at, index[d]) : NULL;
    }
    return at;
}

const tolk_uop *tk_items_partner(tolk_graph *g, const tolk_uop *item, const tolk_uop *lane,
                                 const tolk_uop *count) {
    uint32_t lanes = tk_uop_lanes(item);
    const tolk_uop *last = tk_uop_splat(g, tk_uop_index_const(g, TK_ITEMS_WARP - 1), lanes);
    const tolk_uop *warp = tk_uop_splat(g, tk_uop_index_const(g, TK_ITEMS_WARP), lanes);
    const tolk_uop *zero = tk_uop_splat(g, tk_uop_index_const(g, 0), lanes);
    const tolk_uop *yes = tk_uop_splat(g, tk_uop_const(g, TOLK_BOOL, 1), lanes);
    const tolk_uop *far = tk_uop_cast(g, lane, TOLK_INDEX);
    if (tk_uop_lanes(lane) == 1)
        far = tk_uop_splat(g, far, lanes);
    const tolk_uop *all = tk_uop_splat(g, count, lanes);
    if (!last || !warp || !zero || !yes || !far || !all)
        return NULL;
    const tolk_uop *own = tk_uop2(g, TK_OP_AND, item, last);
    const tolk_uop *other = own ? tk_uop2(g, TK_OP_XOR, own, far) : NULL;
    const tolk_uop *first = other ? tk_uop2(g, TK_OP_SUB, item, own) : NULL;
    const tolk_uop *at = first ? tk_uop2(g, TK_OP_ADD, first, other) : NULL;
    const tolk_uop *negative = at ? tk_uop2(g, TK_OP_CMPLT, other, zero) : NULL;
    const tolk_uop *near = negative ? tk_uop2(g, TK_OP_CMPLT, other, warp) : NULL;
    const tolk_uop *there = near ? tk_uop2(g, TK_OP_CMPLT, at, all) : NULL;
    const tolk_uop *in = there ? tk_uop2(g, TK_OP_XOR, negative, yes) : NULL;
    in = in ? tk_uop2(g, TK_OP_AND, in, near) : NULL;
    in = in ? tk_uop2(g, TK_OP_AND, in, there) : NULL;
    return in ? tk_uop3(g, TK_OP_WHERE, in, at, item) : NULL;
}

/* ---- local memory ---- */

static tolk_dtype kept_as(tolk_dtype dtype) {
    return tk_dtype_scalar(dtype) == TOLK_INDEX ? TOLK_I64 : tk_dtype_scalar(dtype);
}

const tolk_uop *tk_items_buffer(tolk_graph *g, tolk_dtype dtype, const tolk_uop *elems,
                                int64_t slot) {
    tk_attr attrs[4] = {{.i = slot}, {.i = TK_SPACE_LOCAL}, {.i = 0}, {.blob = NULL}};
    return elems ? tk_uop(g, TK_OP_BUFFER, kept_as(dtype), &elems, 1, attrs) : NULL;
}

static const tolk_uop *place(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *at) {
    return buffer && at ? tk_uop(g, TK_OP_INDEX, tolk_dtype_vec(buffer->dtype, tk_uop_lanes(at)),
                                 (const tolk_uop *[]){buffer, at}, 2, NULL)
                        : NULL;
}

const tolk_uop *tk_items_put(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *at,
                             const tolk_uop *value, const tolk_uop *gate) {
    tk_attr attrs[2] = {{.i = 1}, {.i = 0}};
    const tolk_uop *to = place(g, buffer, at);
    const tolk_uop *x = value && buffer ? tk_uop_cast(g, value, buffer->dtype) : NULL;
    const tolk_uop *src[3] = {to, x, gate};
    return to && x ? tk_uop(g, TK_OP_STORE, TOLK_VOID, src, gate ? 3 : 2, attrs) : NULL;
}

const tolk_uop *tk_items_get(tolk_graph *g, const tolk_uop *buffer, const tolk_uop *at,
                             tolk_dtype dtype, const tolk_uop *gate, const tolk_uop *token) {
    tk_attr attrs[2] = {{.i = 1}, {.i = 0}};
    if (buffer && token)
        buffer =
            tk_uop(g, TK_OP_AFTER, buffer->dtype, (const tolk_uop *[]){buffer, token}, 2, NULL);
    const tolk_uop *from = place(g, buffer, at);
    if (!from)
        return NULL;
    const tolk_uop *zero =
        tk_uop_splat(g, tk_uop_const(g, buffer->dtype, 0), tolk_dtype_lanes(dtype));
    const tolk_uop *src[3] = {from, zero, gate};
    const tolk_uop *x =
        zero ? tk_uop(g, TK_OP_LOAD, tk_dtype_like(buffer->dtype, dtype), src, gate ? 3 : 1, attrs)
             : NULL;
    return x ? tk_uop_cast(g, x, tk_dtype_scalar(dtype)) : NULL;
}

int64_t tk_items_free_slot(const tk_uops *nodes) {
    int64_t slot = 0;
    for (size_t i = 0; i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        if (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SLOT) >= slot)
            slot = tk_uop_int(u, TK_A_BUFFER_SLOT) + 1;
    }
    return slot;
}

const tolk_uop *tk_items_scratch(tolk_graph *g, const tolk_uop *linear) {
    const tolk_uop *sum = tk_uop_index_const(g, 0), *zero = sum;
    const tolk_uop *line = tk_uop_index_const(g, 63), *mask = tk_uop_index_const(g, ~(int64_t)63);
    for (uint32_t i = 0; i < linear->n_src && sum; i++) {
        const tolk_uop *u = linear->src[i];
        if (!tk_uop_is(u, TK_OP_BUFFER) || tk_uop_int(u, TK_A_BUFFER_SPACE) != TK_SPACE_LOCAL ||
            tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            continue;
        const tolk_uop *n = u->src[0];
        tk_bound b = tk_bounds(n);
        if (b.state != 1 || b.lo < 0)
            n = tk_uop2(g, TK_OP_MAX, n, zero);
        int64_t bytes = (int64_t)tolk_dtype_bytes(u->dtype) * tk_uop_lanes(u);
        n = n ? tk_sym_mul_const(g, n, bytes) : NULL;
        n = n && line ? tk_sym_add(g, n, line) : NULL;
        if (n && tk_uop_is_const(n))
            n = tk_uop_index_const(g, n->attr[0].i & ~(int64_t)63);
        else
            n = n && mask ? tk_uop2(g, TK_OP_AND, n, mask) : NULL;
        sum = n ? tk_sym_add(g, sum, n) : NULL;
    }
    return sum;
}

uint64_t tk_items_shared_bytes(const tolk_uop *buffer) {
    const tolk_uop *size = buffer->n_src ? buffer->src[0] : NULL;
    tk_bound b = size ? tk_bounds(size) : (tk_bound){.hi = 0, .state = 1};
    if (b.state != 1 || b.hi > INT32_MAX)
        return INT32_MAX;
    uint64_t bytes = b.hi > 0 ? (uint64_t)b.hi * tolk_dtype_bytes(buffer->dtype) : 0;
    return (bytes * tk_uop_lanes(buffer) + TK_ITEMS_SHARED_ALIGN - 1) &
           ~(uint64_t)(TK_ITEMS_SHARED_ALIGN - 1);
}

uint64_t tk_items_shared(const tolk_uop *linear) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < linear->n_src; i++) {
        const tolk_uop *u = linear->src[i];
        if (tk_uop_is(u, TK_OP_BUFFER) && tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_LOCAL &&
            !tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            bytes += tk_items_shared_bytes(u);
    }
    return bytes > TK_ITEMS_STATIC_BYTES ? bytes : 0;
}
