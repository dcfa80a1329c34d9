/* SPDX-License-Identifier: MIT
 *
 * Work-items that meet as lanes of vectors: lidx becomes chunk * W + lane, where chunk is the index
 * of a work-item of W lanes. Between meeting points work-items have no order, so that all W of them
 * may take each step together; and they meet where their chunks do.
 *
 * The graph that comes out is between pass_flatten and the walk of pass_lower only: its barriers
 * stand inside of the lane range, which is no loop.
 */
#include "jit/items.h"
#include "jit/lower.h"

#include "ir/dtype.h"
#include "ir/sym.h"

/* Far from other axis numbers. */
enum { LANE_AXIS = 7000000 };

typedef struct widener {
    tolk_graph *g;
    const tolk_uop *lidx;  /* what is replaced ... */
    const tolk_uop *value; /* ... by this ... */
    const tolk_uop *lane;  /* ... which has this range in it */
    const tolk_uop *guard; /* true where value is below the old size; NULL: always */
} widener;

/* The index that moves fastest. */
static const tolk_uop *fastest(const tk_kview *v) {
    const tolk_uop *best = NULL;
    int least = TK_ITEMS_DIMS;
    for (size_t k = 0; k < v->order.n; k++) {
        int d = tk_items_lidx(v->order.at[k]);
        if (d >= 0 && d < least && !tk_uop_is_int(v->order.at[k]->src[0], 1)) {
            least = d;
            best = v->order.at[k];
        }
    }
    return best;
}

/* Nodes that depend on u: by id. NULL: out of memory. */
static bool *users(const tk_kview *v, const tolk_uop *u) {
    bool *uses = tk_alloc_zero(v->al, v->n_ids);
    for (size_t k = 0; uses && k < v->order.n; k++) {
        const tolk_uop *x = v->order.at[k];
        uses[x->id] = x == u;
        for (uint32_t i = 0; i < x->n_src; i++)
            uses[x->id] |= uses[x->src[i]->id];
    }
    return uses;
}

/* Can the work-items take each step together? Not if a loop has another size for each of them, or
 * if there are lanes already. */
static bool in_step(const tk_kview *v, const bool *uses) {
    for (size_t r = 0; r < v->ranges.n; r++)
        if (tk_kview_axis(v->ranges.at[r]) == TK_AXIS_LANE || uses[v->ranges.at[r]->src[0]->id])
            return false;
    return true;
}

/* Bytes of the widest element that is another one for each work-item, at least 2. */
static uint32_t widest(const tk_kview *v, const bool *uses) {
    uint32_t bytes = 2;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        tolk_dtype dt = tk_dtype_scalar(tk_uop_is(u, TK_OP_STORE) ? u->src[1]->dtype : u->dtype);
        if (!uses[u->id] || dt == TOLK_VOID || dt == TOLK_INDEX || dt == TOLK_BOOL)
            continue;
        if (tolk_dtype_bytes(dt) > bytes)
            bytes = (uint32_t)tolk_dtype_bytes(dt);
    }
    return bytes;
}

static const tolk_uop *within(widener *w, const tolk_uop *x) {
    return tk_uop(w->g, TK_OP_AFTER, x->dtype, (const tolk_uop *[]){x, w->lane}, 2, NULL);
}

static const tolk_uop *gated(widener *w, const tolk_uop *u, const tolk_uop **src, uint32_t n) {
    tolk_graph *g = w->g;
    const tolk_uop *gate = n == 3 ? tk_uop2(g, TK_OP_AND, src[2], w->guard) : w->guard;
    const tolk_uop *second = n > 1 ? src[1] : tk_uop_const(g, u->dtype, 0);
    return gate && second ? tk_uop(g, tk_uop_op(u), u->dtype,
                                   (const tolk_uop *[]){src[0], second, gate}, 3, u->attr)
                          : NULL;
}

/* Registers are a work-item's own, and atomic_add and shuffle are done by each: they depend on the
 * lane even where nothing in them does. */
static const tolk_uop *widen(void *user, const tk_kview *v, const tolk_uop *u, const tolk_uop **src,
                             uint32_t n) {
    (void)v;
    widener *w = user;
    tk_op op = tk_uop_op(u);
    if (u == w->lidx)
        return w->value;
    if (op == TK_OP_SHUFFLE) {
        src[0] = within(w, src[0]);
        return src[0] ? tk_uop_with_src(w->g, u, src, n) : NULL;
    }
    if (op != TK_OP_LOAD && op != TK_OP_STORE && op != TK_OP_ATOMIC_ADD)
        return tk_uop_with_src(w->g, u, src, n);
    const tolk_uop *buffer = tk_access_buffer(u->src[0]);
    bool reg = !tk_kview_is_memory(buffer);
    if (op == TK_OP_LOAD && reg) {
        const tolk_uop *base = within(w, src[0]->src[0]);
        src[0] = base ? tk_uop_with_src(w->g, src[0], (const tolk_uop *[]){base, src[0]->src[1]}, 2)
                      : NULL;
        return src[0] ? tk_uop_with_src(w->g, u, src, n) : NULL;
    }
    if (op == TK_OP_ATOMIC_ADD || (op == TK_OP_STORE && (reg || w->guard)))
        src[1] = within(w, src[1]);
    if (!src[1])
        return NULL;
    return reg || !w->guard ? tk_uop_with_src(w->g, u, src, n) : gated(w, u, src, n);
}

/* Close the lanes around each effect of the sink. */
static const tolk_uop *close_lanes(widener *w, const tolk_uop *sink) {
    tk_uops src;
    tk_vec_init(&src, w->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < sink->n_src && ok; i++) {
        const tolk_uop *end = tk_uop(w->g, TK_OP_END, TOLK_VOID,
                                     (const tolk_uop *[]){sink->src[i], w->lane}, 2, NULL);
        ok = end && tk_vec_push(&src, end);
    }
    const tolk_uop *r = ok ? tk_uop_with_src(w->g, sink, src.at, src.n) : NULL;
    tk_vec_fini(&src);
    return r;
}

static bool set_up(widener *w, const tolk_uop *lidx, int64_t lanes) {
    tolk_graph *g = w->g;
    const tolk_uop *size = lidx->src[0], *n = tk_uop_index_const(g, lanes);
    const tolk_uop *up = n ? tk_sym_add(g, size, tk_uop_index_const(g, lanes - 1)) : NULL;
    const tolk_uop *chunks = up ? tk_sym_floordiv(g, up, n) : NULL;
    /* Programs have no floordiv: the size of a group is not negative where it counts. */
    if (chunks && !tk_uop_is_const(chunks))
        chunks = tk_uop2(g, TK_OP_CDIV, up, n);
    const tolk_uop *chunk = chunks ? tk_uop_with_src(g, lidx, &chunks, 1) : NULL;
    w->lidx = lidx;
    w->lane = n ? tk_uop_range(g, n, LANE_AXIS, TK_AXIS_LANE) : NULL;
    if (!chunk || !w->lane)
        return false;
    w->value = tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, chunk, n), w->lane);
    bool exact = tk_uop_is_const(size) && size->attr[0].i % lanes == 0;
    w->guard = !exact && w->value ? tk_uop2(g, TK_OP_CMPLT, w->value, size) : NULL;
    return w->value && (exact || w->guard);
}

const tolk_uop *tk_items_lanes(tk_pass *p, const tolk_uop *root, tk_items_wide *wide) {
    tk_kview v;
    if (!tk_kview_init(&v, root))
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    const tolk_uop *lidx = fastest(&v), *r = root;
    bool *uses = lidx ? users(&v, lidx) : NULL;
    if (lidx && !uses) {
        r = tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    } else if (lidx && in_step(&v, uses)) {
        const tolk_uop *size = lidx->src[0];
        int64_t lanes = p->target->vec_bytes / widest(&v, uses);
        while (lanes > 2 && tk_uop_is_const(size) && lanes / 2 >= size->attr[0].i)
            lanes /= 2;
        widener w = {.g = p->g};
        r = lanes > 1 && set_up(&w, lidx, lanes) ? tk_kview_rebuild(&v, widen, &w) : root;
        if (r && r != root)
            r = close_lanes(&w, r);
        if (r && r != root)
            *wide = (tk_items_wide){lidx, w.lane, w.value, w.guard};
    }
    tk_alloc_free(v.al, uses, v.n_ids);
    tk_kview_fini(&v);
    return r && !tk_graph_failed(p->g) ? r : tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
}
