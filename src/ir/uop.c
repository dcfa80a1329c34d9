/* SPDX-License-Identifier: MIT */
#include "ir/uop.h"

#include "ir/dtype.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tolk_status tk_graph_create(tolk_ctx *ctx, tolk_graph **out) {
    tolk_graph *g = tk_alloc_zero(&ctx->al, sizeof *g);
    if (!g)
        return TOLK_E_NOMEM;
    g->ctx = ctx;
    g->al = &ctx->al;
    tk_arena_init(&g->arena, g->al);
    tk_vec_init(&g->nodes, g->al);
    tk_vec_init(&g->keys, g->al);
    tk_vec_init(&g->bounds, g->al);
    tk_vec_init(&g->shapes, g->al);
    tk_vec_init(&g->places, g->al);
    g->error.node = TK_NO_NODE;
    *out = g;
    return TOLK_OK;
}

void tk_graph_destroy(tolk_graph *g) {
    if (!g)
        return;
    tk_arena_fini(&g->arena);
    tk_alloc_free(g->al, g->table, g->table_cap * sizeof *g->table);
    tk_alloc_free(g->al, g->blobs, g->blob_cap * sizeof *g->blobs);
    tk_vec_fini(&g->nodes);
    tk_vec_fini(&g->keys);
    tk_vec_fini(&g->bounds);
    tk_vec_fini(&g->shapes);
    tk_vec_fini(&g->places);
    tk_alloc_free(g->al, g, sizeof *g);
}

const tolk_uop *tk_graph_fail(tolk_graph *g, tolk_status code, const char *fmt, ...) {
    if (g->error.code != TOLK_OK)
        return NULL;
    g->error.code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->error.msg, sizeof g->error.msg, fmt, ap);
    va_end(ap);
    return NULL;
}

static const tolk_uop *no_memory(tolk_graph *g) {
    return tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
}

/* ---- interning ---- */

static bool same_blob(const tk_blob *a, const char *str, const int64_t *ints, size_t n) {
    if (a->n != n || (a->str != NULL) != (str != NULL))
        return false;
    return n == 0 || memcmp(str ? (const void *)a->str : a->ints, str ? (const void *)str : ints,
                            str ? n : n * sizeof *ints) == 0;
}

static uint64_t blob_hash(const char *str, const int64_t *ints, size_t n) {
    return str ? tk_hash64_bytes(str, n) : tk_hash_mix(tk_hash64_bytes(ints, n * sizeof *ints) + 1);
}

static const tk_blob *intern_blob(tolk_graph *g, const char *str, const int64_t *ints, size_t n) {
    uint64_t h = blob_hash(str, ints, n);
    if ((g->n_blobs + 1) * 2 > g->blob_cap) {
        size_t cap = g->blob_cap ? g->blob_cap * 2 : 16;
        const tk_blob **bigger = tk_alloc_zero(g->al, cap * sizeof *bigger);
        if (!bigger) {
            no_memory(g);
            return NULL;
        }
        for (size_t i = 0; i < g->blob_cap; i++) {
            const tk_blob *b = g->blobs[i];
            if (!b)
                continue;
            size_t j = (size_t)b->hash & (cap - 1);
            while (bigger[j])
                j = (j + 1) & (cap - 1);
            bigger[j] = b;
        }
        tk_alloc_free(g->al, g->blobs, g->blob_cap * sizeof *g->blobs);
        g->blobs = bigger;
        g->blob_cap = cap;
    }
    size_t i = (size_t)h & (g->blob_cap - 1);
    for (; g->blobs[i]; i = (i + 1) & (g->blob_cap - 1))
        if (same_blob(g->blobs[i], str, ints, n))
            return g->blobs[i];
    tk_blob *b = tk_arena_zero(&g->arena, sizeof *b);
    char *bytes = tk_arena_alloc(&g->arena, str ? n + 1 : n * sizeof *ints + 1);
    if (!b || !bytes) {
        no_memory(g);
        return NULL;
    }
    if (n)
        memcpy(bytes, str ? (const void *)str : ints, str ? n : n * sizeof *ints);
    if (str)
        bytes[n] = 0;
    *b = (tk_blob){.n = n,
                   .str = str ? bytes : NULL,
                   .ints = str ? NULL : (int64_t *)(void *)bytes,
                   .hash = h};
    g->blobs[i] = b;
    g->n_blobs++;
    return b;
}

const tk_blob *tk_blob_str(tolk_graph *g, const char *s, size_t n) {
    return intern_blob(g, s ? s : "", NULL, n);
}

const tk_blob *tk_blob_ints(tolk_graph *g, const int64_t *ints, size_t n) {
    static const int64_t none = 0;
    return intern_blob(g, NULL, ints ? ints : &none, n);
}

static bool is_blob(tk_op op, uint32_t attr) {
    if (op == TK_OP_CONST)
        return false;
    tk_attr_kind kind = tk_op_attrs[tk_op_get(op)->attr_first + attr].kind;
    return kind == TK_ATTR_STR || kind == TK_ATTR_INTS || kind == TK_ATTR_BYTES;
}

/* Of the structure alone: no id and no address is in it. */
static uint64_t node_hash(tk_op op, uint8_t flags, tolk_dtype dtype, const tolk_uop *const *src,
                          size_t n, const tk_attr *attr, size_t n_attr) {
    uint64_t h = tk_hash_mix((uint64_t)op << 40 ^ (uint64_t)flags << 32 ^ dtype);
    for (size_t i = 0; i < n; i++)
        h = tk_hash_combine(h, src[i]->hash);
    for (size_t i = 0; i < n_attr; i++) {
        bool blob = is_blob(op, (uint32_t)i);
        h = tk_hash_combine(h, !blob ? (uint64_t)attr[i].i : attr[i].blob ? attr[i].blob->hash : 0);
    }
    return h;
}

static bool same_node(const tolk_uop *u, tk_op op, uint8_t flags, tolk_dtype dtype,
                      const tolk_uop *const *src, size_t n, const tk_attr *attr, size_t n_attr) {
    return u->op == (uint8_t)op && u->flags == flags && u->dtype == dtype && u->n_src == n &&
           (n == 0 || memcmp(u->src, src, n * sizeof *src) == 0) &&
           (n_attr == 0 || memcmp(u->attr, attr, n_attr * sizeof *attr) == 0);
}

static bool grow_table(tolk_graph *g) {
    size_t cap = g->table_cap ? g->table_cap * 2 : 64;
    const tolk_uop **bigger = tk_alloc_zero(g->al, cap * sizeof *bigger);
    if (!bigger)
        return false;
    for (size_t i = 0; i < g->nodes.n; i++) {
        size_t j = (size_t)g->nodes.at[i]->hash & (cap - 1);
        while (bigger[j])
            j = (j + 1) & (cap - 1);
        bigger[j] = g->nodes.at[i];
    }
    tk_alloc_free(g->al, g->table, g->table_cap * sizeof *g->table);
    g->table = bigger;
    g->table_cap = cap;
    return true;
}

/* New BUFFERs of the context get slots that no node of any of its graphs has had: the counter goes
 * below what a text or a program names. Slots that would leave it no room are nobody's. */
static void note_slot(tolk_graph *g, int64_t slot) {
    int64_t least = atomic_load_explicit(&g->ctx->next_slot, memory_order_relaxed);
    while (slot < least && slot > INT64_MIN / 2 &&
           !atomic_compare_exchange_weak_explicit(&g->ctx->next_slot, &least, slot,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static const tolk_uop *intern(tolk_graph *g, tk_op op, uint8_t flags, tolk_dtype dtype,
                              const tolk_uop *const *src, size_t n, const tk_attr *attr,
                              size_t n_attr) {
    if (n > TK_MANY)
        return tk_graph_fail(g, TOLK_E_LIMIT, "%s: %zu sources, at most %d", tk_op_get(op)->name, n,
                             TK_MANY);
    for (size_t i = 0; i < n; i++)
        if (!src[i]) {
            return tk_graph_fail(g, TOLK_E_ARG, "%s: source %zu is NULL", tk_op_get(op)->name, i);
        } else if (src[i]->graph != g) {
            return tk_graph_fail(g, TOLK_E_ARG, "%s: source %zu belongs to another graph",
                                 tk_op_get(op)->name, i);
        }
    if ((g->nodes.n + 1) * 3 > g->table_cap * 2 && !grow_table(g))
        return no_memory(g);
    uint64_t h = node_hash(op, flags, dtype, src, n, attr, n_attr);
    size_t i = (size_t)h & (g->table_cap - 1);
    for (; g->table[i]; i = (i + 1) & (g->table_cap - 1))
        if (g->table[i]->hash == h &&
            same_node(g->table[i], op, flags, dtype, src, n, attr, n_attr))
            return g->table[i];
    if (g->nodes.n >= TK_MAX_NODES)
        return tk_graph_fail(g, TOLK_E_LIMIT, "more than %d nodes in one graph", TK_MAX_NODES);
    size_t src_bytes = n * sizeof *src, attr_bytes = n_attr * sizeof *attr;
    char *mem = tk_arena_alloc(&g->arena, sizeof(tolk_uop) + src_bytes + attr_bytes);
    if (!mem)
        return no_memory(g);
    tolk_uop *u = (tolk_uop *)(void *)mem;
    const tolk_uop **s = (const tolk_uop **)(void *)(mem + sizeof *u);
    tk_attr *a = (tk_attr *)(void *)(mem + sizeof *u + src_bytes);
    if (n)
        memcpy(s, src, src_bytes);
    if (n_attr)
        memcpy(a, attr, attr_bytes);
    *u = (tolk_uop){.op = (uint8_t)op,
                    .flags = flags,
                    .n_attr = (uint16_t)n_attr,
                    .dtype = dtype,
                    .n_src = (uint32_t)n,
                    .id = (uint32_t)g->nodes.n,
                    .hash = h,
                    .graph = g,
                    .src = s,
                    .attr = a};
    if (!tk_vec_push(&g->nodes, u))
        return no_memory(g);
    g->table[i] = u;
    if (op == TK_OP_BUFFER && tk_uop_int(u, TK_A_BUFFER_SLOT) < 0)
        note_slot(g, tk_uop_int(u, TK_A_BUFFER_SLOT));
    return u;
}

/* ---- constructors ---- */

const tolk_uop *tk_uop(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *const *src,
                       size_t n, const tk_attr *attrs) {
    uint32_t n_attr = tk_op_n_attr(op);
    tk_attr defaults[8];
    _Static_assert(sizeof defaults / sizeof *defaults >= 7, "room for the longest list");
    if (!attrs && n_attr) {
        const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
        for (uint32_t i = 0; i < n_attr; i++) {
            defaults[i] = (tk_attr){.i = info[i].def};
            if (info[i].kind == TK_ATTR_STR || info[i].kind == TK_ATTR_INTS ||
                info[i].kind == TK_ATTR_BYTES)
                defaults[i] = (tk_attr){.blob = NULL};
        }
        attrs = defaults;
    }
    return intern(g, op, 0, dtype, src, n, attrs, n_attr);
}

const tolk_uop *tk_uop_with_src(tolk_graph *g, const tolk_uop *u, const tolk_uop *const *src,
                                size_t n) {
    TK_ASSERT(u->graph == g);
    return intern(g, tk_uop_op(u), u->flags, u->dtype, src, n, u->attr, u->n_attr);
}

const tolk_uop *tk_uop_import(tolk_graph *g, const tolk_uop *u, const tolk_uop *const *src) {
    tk_attr attrs[8];
    uint32_t n_attr = tk_op_n_attr(tk_uop_op(u));
    if (tk_uop_is(u, TK_OP_CONST))
        return intern(g, TK_OP_CONST, u->flags, u->dtype, NULL, 0, u->attr, 1);
    for (uint32_t i = 0; i < n_attr; i++) {
        attrs[i] = u->attr[i];
        tk_attr_kind kind = tk_op_attrs[tk_op_get(tk_uop_op(u))->attr_first + i].kind;
        if ((kind == TK_ATTR_STR || kind == TK_ATTR_BYTES || kind == TK_ATTR_INTS) &&
            attrs[i].blob) {
            const tk_blob *b = attrs[i].blob;
            attrs[i].blob = b->str ? tk_blob_str(g, b->str, b->n) : tk_blob_ints(g, b->ints, b->n);
            if (!attrs[i].blob)
                return NULL;
        }
    }
    return intern(g, tk_uop_op(u), u->flags, u->dtype, src, u->n_src, attrs, n_attr);
}

tolk_dtype tk_uop_result_dtype(tk_op op, const tolk_uop *const *src, size_t n, tolk_dtype given) {
    switch (tk_op_get(op)->result) {
    case TK_RESULT_GIVEN:
        return given;
    case TK_RESULT_VOID:
        return TOLK_VOID;
    case TK_RESULT_S0:
        return n > 0 ? src[0]->dtype : given;
    case TK_RESULT_S1:
        return n > 1 ? src[1]->dtype : given;
    case TK_RESULT_S2:
        return n > 2 ? src[2]->dtype : given;
    case TK_RESULT_BOOL:
        return n > 0 ? tk_dtype_like(TOLK_BOOL, src[0]->dtype) : given;
    case TK_RESULT_INDEX:
        return TOLK_INDEX;
    case TK_RESULT_U8:
        return TOLK_U8;
    }
    return given;
}

static const tolk_uop *by_rule(tolk_graph *g, tk_op op, const tolk_uop *const *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!src[i])
            return tk_graph_fail(g, TOLK_E_ARG, "%s: source %zu is NULL", tk_op_get(op)->name, i);
    return tk_uop(g, op, tk_uop_result_dtype(op, src, n, TOLK_VOID), src, n, NULL);
}

const tolk_uop *tk_uop1(tolk_graph *g, tk_op op, const tolk_uop *a) {
    return by_rule(g, op, &a, 1);
}

const tolk_uop *tk_uop2(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b) {
    return by_rule(g, op, (const tolk_uop *[]){a, b}, 2);
}

const tolk_uop *tk_uop3(tolk_graph *g, tk_op op, const tolk_uop *a, const tolk_uop *b,
                        const tolk_uop *c) {
    return by_rule(g, op, (const tolk_uop *[]){a, b, c}, 3);
}

static const tolk_uop *convert(tolk_graph *g, tk_op op, const tolk_uop *x, tolk_dtype dtype) {
    if (!x)
        return tk_graph_fail(g, TOLK_E_ARG, "%s: source 0 is NULL", tk_op_get(op)->name);
    dtype = tk_dtype_like(dtype, x->dtype);
    return dtype == x->dtype ? x : tk_uop(g, op, dtype, &x, 1, NULL);
}

const tolk_uop *tk_uop_cast(tolk_graph *g, const tolk_uop *x, tolk_dtype dtype) {
    return convert(g, TK_OP_CAST, x, dtype);
}

const tolk_uop *tk_uop_bitcast(tolk_graph *g, const tolk_uop *x, tolk_dtype dtype) {
    return convert(g, TK_OP_BITCAST, x, dtype);
}

const tolk_uop *tk_uop_const(tolk_graph *g, tolk_dtype dtype, uint64_t bits) {
    TK_ASSERT(tolk_dtype_lanes(dtype) == 1 && dtype != TOLK_VOID);
    tk_attr a = {.i = (int64_t)tk_dtype_canon(dtype, bits)};
    return intern(g, TK_OP_CONST, 0, dtype, NULL, 0, &a, 1);
}

const tolk_uop *tk_uop_index_const(tolk_graph *g, int64_t v) {
    return tk_uop_const(g, TOLK_INDEX, (uint64_t)v);
}

const tolk_uop *tk_uop_invalid(tolk_graph *g) {
    tk_attr a = {.i = 0};
    return intern(g, TK_OP_CONST, TK_UOP_INVALID, TOLK_INDEX, NULL, 0, &a, 1);
}

const tolk_uop *tk_uop_splat(tolk_graph *g, const tolk_uop *x, uint32_t lanes) {
    if (lanes == 1 || !x)
        return x;
    const tolk_uop *src[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < lanes; i++)
        src[i] = x;
    return tk_uop(g, TK_OP_STACK, tolk_dtype_vec(x->dtype, lanes), src, lanes, NULL);
}

const tolk_uop *tk_uop_const_like(tolk_graph *g, tolk_dtype dtype, uint64_t bits) {
    const tolk_uop *c = tk_uop_const(g, tk_dtype_scalar(dtype), bits);
    return c ? tk_uop_splat(g, c, tolk_dtype_lanes(dtype)) : NULL;
}

const tolk_uop *tk_uop_range(tolk_graph *g, const tolk_uop *size, int64_t axis, tk_axis kind) {
    tk_attr a[4] = {{.i = axis}, {.blob = NULL}, {.i = kind}, {.i = 0}};
    return tk_uop(g, TK_OP_RANGE, TOLK_INDEX, &size, 1, a);
}

/* ---- comparison ---- */

static int order(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int compare_blobs(const tk_blob *a, const tk_blob *b) {
    if (a == b || !a || !b)
        return order(a != NULL, b != NULL);
    if (a->n != b->n)
        return order((int64_t)a->n, (int64_t)b->n);
    if (a->str)
        return memcmp(a->str, b->str, a->n);
    for (size_t i = 0; i < a->n; i++)
        if (a->ints[i] != b->ints[i])
            return order(a->ints[i], b->ints[i]);
    return 0;
}

static int compare_heads(const tolk_uop *a, const tolk_uop *b) {
    if (a->op != b->op)
        return order(a->op, b->op);
    if (a->dtype != b->dtype)
        return order(a->dtype, b->dtype);
    if (a->flags != b->flags)
        return order(a->flags, b->flags);
    for (uint32_t i = 0; i < a->n_attr; i++) {
        int c = is_blob(tk_uop_op(a), i) ? compare_blobs(a->attr[i].blob, b->attr[i].blob)
                                         : order(a->attr[i].i, b->attr[i].i);
        if (c)
            return c;
    }
    return order(a->n_src, b->n_src);
}

/* Walks down the first differing source. Sources that are the same pointer are equal, so each step
 * goes strictly down both graphs and no stack is needed. Two values of one long chain differ only
 * at its far end: from some depth on the hashes decide. */
int tk_uop_compare(const tolk_uop *a, const tolk_uop *b) {
    enum { BY_HASH = 64 };
    for (int depth = 0; a != b; depth++) {
        int c = compare_heads(a, b);
        if (c == 0 && depth >= BY_HASH && a->hash != b->hash)
            c = a->hash < b->hash ? -1 : 1;
        if (c)
            return c;
        uint32_t i = 0;
        while (i < a->n_src && (a->src[i] == b->src[i] ||
                                (a->graph != b->graph && a->src[i]->hash == b->src[i]->hash)))
            i++;
        if (i == a->n_src)
            return 0; /* the same form in two graphs */
        a = a->src[i];
        b = b->src[i];
    }
    return 0;
}
