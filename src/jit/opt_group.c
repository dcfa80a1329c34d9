/* SPDX-License-Identifier: MIT
 *
 * Loop options that make work-groups: what a group may have, and that there shall be none.
 */
#include "ir/dtype.h"
#include "ir/scalar.h"
#include "jit/opt.h"

#include <string.h>

static const char nolocals[] = "NOLOCALS";

bool tk_opt_has_nolocals(const tolk_uop *sink) {
    const char *opts = tk_uop_str(sink, TK_A_SINK_OPTS);
    return opts && strcmp(opts, nolocals) == 0;
}

const tolk_uop *tk_opt_with_nolocals(const tolk_uop *sink) {
    tolk_graph *g = sink->graph;
    tk_attr attrs[2] = {sink->attr[0], {.blob = tk_blob_str(g, nolocals, sizeof nolocals - 1)}};
    return attrs[1].blob ? tk_uop(g, TK_OP_SINK, TOLK_VOID, sink->src, sink->n_src, attrs) : NULL;
}

static bool is_item_axis(tk_axis kind) {
    return kind == TK_AXIS_LOCAL || kind == TK_AXIS_WARP || kind == TK_AXIS_GROUP_REDUCE;
}

bool tk_opt_has_locals(const tk_kview *v) {
    for (size_t r = 0; r < v->ranges.n; r++)
        if (is_item_axis(tk_kview_axis(v->ranges.at[r])))
            return true;
    return false;
}

/* n times the size of a range; what does not fit is only "very many". */
static int64_t times(int64_t n, const tolk_uop *range) {
    const tolk_uop *size = range->src[0];
    int64_t k = tk_uop_is_const(size) && size->attr[0].i > 0 ? size->attr[0].i : 1;
    return n > INT32_MAX || k > INT32_MAX ? INT64_MAX / 2 : n * k;
}

int64_t tk_opt_group_items(const tk_kview *v) {
    int64_t n = 1;
    for (size_t r = 0; r < v->ranges.n; r++)
        if (is_item_axis(tk_kview_axis(v->ranges.at[r])))
            n = times(n, v->ranges.at[r]);
    return n;
}

int64_t tk_opt_shared_bytes(const tk_kview *v, bool group) {
    int64_t n = 1;
    for (size_t r = 0; r < v->ranges.n; r++) {
        tk_axis kind = tk_kview_axis(v->ranges.at[r]);
        group |= kind == TK_AXIS_GROUP_REDUCE;
        if (is_item_axis(kind) || kind == TK_AXIS_UPCAST)
            n = times(n, v->ranges.at[r]);
    }
    for (size_t k = 0; k < v->order.n && group; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_REDUCE))
            continue;
        /* Partial sums of narrow floats are f32. */
        bool wide = tk_dtype_is_narrow_float(u->dtype) &&
                    (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP) != TK_ROP_MAX;
        return n * (int64_t)tolk_dtype_bytes(wide ? TOLK_F32 : u->dtype);
    }
    return 0;
}

/* Is it an axis of a reduction? One of its partial results is none. */
static bool is_folded(const tk_kview *v, uint32_t no) {
    tk_axis kind = tk_kview_axis(v->ranges.at[no]);
    if (kind != TK_AXIS_REDUCE && kind != TK_AXIS_LOOP)
        return false;
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        for (uint32_t i = 1; tk_uop_is(u, TK_OP_REDUCE) && i < u->n_src; i++)
            if (tk_kview_no(v, u->src[i]) == no)
                return true;
    }
    return false;
}

bool tk_opt_is_nested(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        bool closes = false;
        for (uint32_t i = 1; tk_uop_is(u, TK_OP_REDUCE) && i < u->n_src; i++)
            closes |= u->src[i] == range;
        for (uint32_t r = 0; closes && r < v->ranges.n; r++)
            if (tk_set_has(tk_kview_set(v, u), r) && is_folded(v, r))
                return true;
    }
    return false;
}
