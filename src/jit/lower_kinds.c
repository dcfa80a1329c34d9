/* SPDX-License-Identifier: MIT
 *
 * Which ranges of kind upcast, unroll and lane the walk of pass_lower can take as such. The kind of
 * a range never changes a value, so the others simply become loops; a REDUCE over a single lane
 * range is the exception, as its order of folding depends on the kind: it must stay.
 */
#include "ir/dtype.h"
#include "jit/lower.h"

enum { MAX_UNROLL = 64 };

bool tk_lower_is_unrolled(tk_axis kind) {
    return kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL;
}

static bool power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

/* Does a reduction over this single lane range fold halves? */
static bool folds_halves(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (tk_uop_is(u, TK_OP_REDUCE) && u->n_src == 2 && u->src[1] == range)
            return true;
    }
    return false;
}

/* Can every reduction that closes the range fold it inside of its loops? */
static bool order_allows(const tk_kview *v, const tolk_uop *range) {
    tk_axis kind = tk_kview_axis(range);
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_REDUCE))
            continue;
        bool seen = false;
        for (uint32_t i = 1; i < u->n_src; i++) {
            if (u->src[i] == range) {
                seen = true;
                if (kind == TK_AXIS_LANE && u->n_src > 2)
                    return false;
            } else if (seen && !tk_lower_is_unrolled(tk_kview_axis(u->src[i]))) {
                return false; /* a loop inside of an unrolled range folds in another order */
            }
        }
    }
    return true;
}

static bool closed_by_end(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++)
        if (tk_uop_is(v->order.at[k], TK_OP_END))
            for (uint32_t i = 1; i < v->order.at[k]->n_src; i++)
                if (v->order.at[k]->src[i] == range)
                    return true;
    return false;
}

/* Does scratch memory carry state from one iteration to the next? An accumulator that is private to
 * an iteration is set anew in it, so its place names the range in an AFTER. */
static bool carries_state(const tk_kview *v, const tolk_uop *range) {
    uint32_t no = tk_kview_no(v, range);
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *s = v->order.at[k];
        if (!tk_uop_is(s, TK_OP_STORE) || tk_kview_is_memory(tk_access_buffer(s->src[0])))
            continue;
        if (tk_set_has(tk_kview_set(v, s), no) && !tk_set_has(tk_kview_set(v, s->src[0]), no)) {
            /* Private after all if some other store of the buffer names the range. */
            const tolk_uop *buffer = tk_access_buffer(s->src[0]);
            bool named = false;
            for (size_t j = 0; j < v->order.n && !named; j++) {
                const tolk_uop *o = v->order.at[j];
                named = o != s && tk_uop_is(o, TK_OP_STORE) &&
                        tk_access_buffer(o->src[0]) == buffer &&
                        tk_set_has(tk_kview_set(v, o->src[0]), no);
            }
            if (!named)
                return true;
        }
    }
    return false;
}

static bool is_access(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE);
}

bool tk_lower_indexes(const tk_kview *v, const tolk_uop *buffer, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (is_access(u) && tk_access_buffer(u->src[0]) == buffer && u->src[0]->n_src > 1 &&
            tk_kview_depends(v, u->src[0]->src[1], range))
            return true;
    }
    return false;
}

/* An array of registers whose element the range picks: copies of an access stand one behind
 * another, which is the order of a loop if there is one store, and loads are of its element. */
static bool meets_in_array(const tk_kview *v, const tolk_uop *buffer, const tolk_uop *range) {
    const tolk_uop *store = NULL;
    bool meets = tk_kview_axis(range) == TK_AXIS_LANE;
    for (size_t k = 0; k < v->order.n && !meets; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_STORE) || tk_access_buffer(u->src[0]) != buffer ||
            !tk_kview_depends(v, u, range))
            continue;
        meets = store != NULL;
        store = u;
    }
    for (size_t k = 0; k < v->order.n && store && !meets; k++) {
        const tolk_uop *u = v->order.at[k];
        if (tk_uop_is(u, TK_OP_LOAD) && tk_access_buffer(u->src[0]) == buffer &&
            tk_kview_depends(v, u, range))
            meets = u->src[0]->src[1] != store->src[0]->src[1];
    }
    return meets;
}

/* Is some register that iterations store to not private to each of them: read or set outside? */
static bool escapes(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *s = v->order.at[k];
        const tolk_uop *buffer = tk_uop_is(s, TK_OP_STORE) ? tk_access_buffer(s->src[0]) : NULL;
        if (!buffer || tk_kview_is_memory(buffer) || !tk_kview_depends(v, s, range))
            continue;
        if (tk_lower_indexes(v, buffer, range)) {
            if (meets_in_array(v, buffer, range))
                return true;
            continue;
        }
        for (size_t j = 0; j < v->order.n; j++) {
            const tolk_uop *u = v->order.at[j];
            if (is_access(u) && tk_access_buffer(u->src[0]) == buffer &&
                !tk_kview_depends(v, u, range))
                return true;
        }
    }
    return false;
}

static bool keeps_kind(const tk_kview *v, const tolk_uop *range) {
    tk_axis kind = tk_kview_axis(range);
    const tolk_uop *size = range->src[0];
    int64_t n = tk_uop_is_const(size) ? size->attr[0].i : 0;
    if (kind == TK_AXIS_LANE) {
        if (!power_of_two(n) || n > TOLK_MAX_LANES || n < 2)
            return false;
        if (tk_kview_meets_lanes(v, range) && !folds_halves(v, range))
            return false;
    } else if (n < 1 || n > MAX_UNROLL) {
        return false;
    }
    if (!order_allows(v, range) || (tk_kview_sizes_depend(v, range) && !folds_halves(v, range)))
        return false;
    if (tk_kview_has_meetings(v, range) || (!folds_halves(v, range) && escapes(v, range)))
        return false;
    return !closed_by_end(v, range) || !carries_state(v, range);
}

/* Does quick code rather have a loop? Copies of a long elementwise body cost as much to compile as
 * they are many; those of a short one cost little and run faster, those of a reduction share what
 * they load. */
static bool costs_copies(const tk_pass *p, const tk_kview *v, const tolk_uop *range) {
    enum { LONG_BODY = 16 };
    if (!p->target->quick || tk_kview_axis(range) != TK_AXIS_UPCAST)
        return false;
    uint32_t n = 0;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (tk_uop_is(u, TK_OP_REDUCE))
            return false;
        n += tk_op_is_alu(tk_uop_op(u)) && tk_dtype_scalar(u->dtype) != TOLK_INDEX &&
             tk_kview_depends(v, u, range);
    }
    return n > LONG_BODY;
}

const tolk_uop *tk_lower_kinds(tk_pass *p, const tolk_uop *root) {
    for (int64_t axis = 2000000;; axis++) {
        tk_kview v;
        if (!tk_kview_init(&v, root))
            return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
        const tolk_uop *bad = NULL;
        bool blocked = false;
        for (size_t r = 0; r < v.ranges.n && !bad; r++) {
            const tolk_uop *range = v.ranges.at[r];
            tk_axis kind = tk_kview_axis(range);
            if (!tk_lower_is_unrolled(kind) && kind != TK_AXIS_LANE)
                continue;
            if (costs_copies(p, &v, range) || !keeps_kind(&v, range))
                bad = range;
            blocked |= kind == TK_AXIS_LANE && folds_halves(&v, range) &&
                       (tk_kview_meets_lanes(&v, range) || tk_kview_sizes_depend(&v, range) ||
                        escapes(&v, range));
        }
        if (!bad) {
            tk_kview_fini(&v);
            if (blocked)
                return tk_graph_fail(
                    p->g, TOLK_E_UNSUPPORTED,
                    "reductions over lane ranges that are nested, or that sizes, registers or "
                    "barriers depend on");
            return root;
        }
        tk_kview_fini(&v);
        if (!(root = tk_kview_make_loop(p->g, root, bad, axis)))
            return NULL;
    }
}
