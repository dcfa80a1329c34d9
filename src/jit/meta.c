/* SPDX-License-Identifier: MIT */
#include "jit/meta.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/sym.h"
#include "jit/items.h"

#include <string.h>

enum { MAGIC = 0x4d4b5431 };

typedef struct writer {
    tk_pipeline const *p;
    tolk_graph *g;
    tk_params params;
    tk_expr_steps steps;
    tk_map done;
    tk_strbuf strings;
    tk_access_pairs pairs;
} writer;

/* Can the launch compute it: is it made of scalar arguments alone? */
static bool is_size(const tk_kview *v, const tolk_uop *size) {
    const uint64_t *set = tk_kview_set(v, size);
    for (uint32_t w = 0; w < v->words; w++)
        if (set[w])
            return false;
    tk_uops todo;
    tk_vec_init(&todo, v->al);
    int looks = 0; /* a larger expression would be too large for the metadata, too */
    bool ok = tk_vec_push(&todo, size);
    while (ok && todo.n) {
        const tolk_uop *u = tk_vec_pop(&todo);
        bool leaf = tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM);
        ok = (leaf || tk_op_is_alu(tk_uop_op(u))) && !tk_uop_is(u, TK_OP_BITCAST) &&
             tk_uop_lanes(u) == 1 && looks++ < TK_EXPR_MAX_STEPS;
        for (uint32_t i = 0; i < u->n_src && ok; i++)
            ok = tk_vec_push(&todo, u->src[i]);
    }
    tk_vec_fini(&todo);
    return ok;
}

static bool is_span(const tolk_uop *special) {
    tk_special kind = tk_check_special(tk_uop_str(special, TK_A_SPECIAL_NAME), NULL);
    return kind == TK_SPECIAL_SPAN_BEGIN || kind == TK_SPECIAL_SPAN_END;
}

/* Work-items of all groups: the product of the sizes of the specials; 1 if there are none. */
static const tolk_uop *count_items(tolk_graph *g, const tk_kview *v) {
    const tolk_uop *n = tk_uop_index_const(g, 1);
    for (size_t k = 0; k < v->order.n && n; k++)
        if (tk_uop_is(v->order.at[k], TK_OP_SPECIAL) && !is_span(v->order.at[k]))
            n = tk_sym_mul(g, n, v->order.at[k]->src[0]);
    return n;
}

/* Iterations in which u runs: the product of the sizes of the ranges it depends on, in each of the
 * work-items. */
static const tolk_uop *times(tolk_graph *g, const tk_kview *v, const tolk_uop *u) {
    const tolk_uop *n = count_items(g, v);
    const uint64_t *set = tk_kview_set(v, u);
    for (size_t r = 0; r < v->ranges.n && n; r++) {
        if (!tk_set_has(set, (uint32_t)r))
            continue;
        const tolk_uop *size = v->ranges.at[r]->src[0];
        /* A size that moves with an outer loop, or is data, counts as its most. */
        if (!is_size(v, size)) {
            tk_bound b = tk_bounds(size);
            size = tk_uop_index_const(g, b.state == 1 && b.hi > 0 && b.hi < INT32_MAX ? b.hi : 1);
        }
        n = size ? tk_sym_mul(g, n, size) : NULL;
    }
    return n;
}

/* Is u part of an address or a gate only? Then it is no arithmetic that anybody asked for. */
static int64_t flops_of(const tolk_uop *u) {
    if (!tk_op_is_alu(tk_uop_op(u)) && !tk_uop_is(u, TK_OP_REDUCE))
        return 0;
    tolk_dtype dt = tk_dtype_scalar(u->dtype);
    if (dt == TOLK_INDEX || dt == TOLK_BOOL || tk_uop_is(u, TK_OP_CAST) ||
        tk_uop_is(u, TK_OP_BITCAST) || tk_uop_is(u, TK_OP_WHERE))
        return 0;
    return tk_uop_is(u, TK_OP_MULACC) ? 2 : 1;
}

/* Arithmetic of the kernel as it was given: a REDUCE counts one operation an element. */
static const tolk_uop *count_flops(tolk_graph *g, const tk_kview *v) {
    const tolk_uop *sum = tk_uop_index_const(g, 0);
    for (size_t k = 0; k < v->order.n && sum; k++) {
        const tolk_uop *u = v->order.at[k];
        int64_t n = flops_of(u);
        if (!n)
            continue;
        const tolk_uop *t = times(g, v, tk_uop_is(u, TK_OP_REDUCE) ? u->src[0] : u);
        sum = t ? tk_sym_add(g, sum, tk_sym_mul_const(g, t, n)) : NULL;
    }
    return sum;
}

/* Bytes that loads (or stores) of all buffers move, each buffer's at most once. */
static const tolk_uop *count_bytes(const writer *w, const tk_kview *v, bool stores) {
    tolk_graph *g = w->g;
    const tolk_uop *sum = tk_uop_index_const(g, 0);
    for (uint32_t i = 0; i < w->params.n_bufs && sum; i++) {
        const tk_param *p = tk_params_buf(&w->params, i);
        const tolk_uop *moved = NULL, *size = tk_uop_index_const(g, 1);
        for (uint32_t d = 0; d < p->rank && size; d++)
            size = tk_sym_mul(g, size, p->dim[d]);
        for (size_t k = 0; k < v->order.n && size; k++) {
            const tolk_uop *u = v->order.at[k];
            if (!tk_uop_is(u, stores ? TK_OP_STORE : TK_OP_LOAD) ||
                tk_access_buffer(u->src[0]) != p->node)
                continue;
            const tolk_uop *t = times(g, v, u->src[0]);
            moved = moved && t ? tk_sym_add(g, moved, t) : t;
        }
        if (!moved || !size)
            continue;
        moved =
            tk_sym_mul_const(g, tk_sym_min(g, moved, size), (int64_t)tolk_dtype_bytes(p->dtype));
        sum = moved ? tk_sym_add(g, sum, moved) : NULL;
    }
    return sum;
}

static tolk_status add_expr(writer *w, const tolk_uop *u, uint16_t *out, tolk_error *err) {
    if (!u)
        return tk_pass_failed(&w->p->pass, err);
    return tk_expr_compile(u, &w->params, &w->done, &w->steps, out, err);
}

static uint32_t add_string(writer *w, const char *s) {
    if (!s)
        return 0;
    uint32_t at = (uint32_t)w->strings.n;
    tk_strbuf_bytes(&w->strings, s, strlen(s) + 1);
    return at;
}

/* Elements of a buffer; -1 where a dimension is negative, whatever their product is. */
static const tolk_uop *elements(tolk_graph *g, const tk_param *p) {
    const tolk_uop *zero = tk_uop_index_const(g, 0), *size = tk_uop_index_const(g, 1);
    for (uint32_t d = 0; d < p->rank && size; d++)
        size = tk_sym_mul(g, size, p->dim[d]);
    for (uint32_t d = 0; d < p->rank && size; d++) {
        tk_bound b = tk_bounds(p->dim[d]);
        if (b.state == 1 && b.lo >= 0)
            continue;
        const tolk_uop *bad = tk_uop2(g, TK_OP_CMPLT, p->dim[d], zero);
        size = tk_uop3(g, TK_OP_WHERE, bad, tk_uop_index_const(g, -1), size);
    }
    return size;
}

static tolk_status add_params(writer *w, tk_meta_param *out, tolk_error *err) {
    for (size_t i = 0; i < w->params.list.n; i++) {
        const tk_param *p = &w->params.list.at[i];
        tk_meta_param *m = &out[i];
        *m = (tk_meta_param){.slot = p->slot,
                             .dtype = p->dtype,
                             .name = add_string(w, p->name),
                             .is_scalar = p->is_scalar,
                             .loaded = p->loaded,
                             .stored = p->stored};
        if (p->is_scalar) {
            m->min = tk_uop_int(p->node, TK_A_PARAM_MIN);
            m->max = tk_uop_int(p->node, TK_A_PARAM_MAX);
            continue;
        }
        TK_TRY(add_expr(w, elements(w->g, p), &m->size, err));
    }
    return TOLK_OK;
}

static tolk_status write_all(writer *w, const tk_kview *v, const void *object, size_t object_bytes,
                             uint64_t frame_bytes, char **out, size_t *len, tolk_error *err) {
    const tolk_uop *sink = v->root;
    tk_strbuf_bytes(&w->strings, "", 1); /* offset 0 is "none" */
    size_t n_params = w->params.list.n;
    tk_meta_param *params = tk_arena_zero(&w->g->arena, (n_params + 1) * sizeof *params);
    if (!params)
        return tk_status_nomem(err);
    TK_TRY(add_params(w, params, err));
    tk_meta head = {.magic = MAGIC,
                    .version = TK_META_VERSION,
                    .n_bufs = w->params.n_bufs,
                    .n_vals = w->params.n_vals,
                    .lanes = w->p->pass.lanes,
                    .frame_bytes = frame_bytes,
                    .scratch_per_thread = w->p->pass.items,
                    .dynamic = tk_items_has_dynamic(w->p->program),
                    .pieces = w->p->pass.pieces,
                    .object_bytes = object_bytes};
    TK_TRY(add_expr(w, w->p->pass.span, &head.span, err));
    head.is_ptx = tk_target_is_gpu(w->p->pass.target);
    for (int d = 0; d < 3 && head.is_ptx; d++) {
        TK_TRY(add_expr(w, w->p->pass.grid[d], &head.grid[d], err));
        TK_TRY(add_expr(w, w->p->pass.block[d], &head.block[d], err));
    }
    TK_TRY(add_expr(w, w->p->pass.scratch, &head.scratch_bytes, err));
    TK_TRY(add_expr(w, count_flops(w->g, v), &head.flops, err));
    TK_TRY(add_expr(w, count_bytes(w, v, false), &head.loaded_bytes, err));
    TK_TRY(add_expr(w, count_bytes(w, v, true), &head.stored_bytes, err));
    head.name = add_string(w, tolk_kernel_name(sink));
    head.opts = add_string(w, w->p->pass.applied);
    if (tk_uop_is(sink, TK_OP_SINK)) {
        tolk_status st = tk_access_inplace(w->p->kernel, &w->pairs);
        if (st == TOLK_E_LIMIT) /* nobody knows: then no two may be one memory */
            w->pairs.n = 0;
        else if (st != TOLK_OK)
            return tk_status_nomem(err);
    }
    head.n_steps = (uint32_t)w->steps.n;
    head.n_pairs = (uint32_t)w->pairs.n;
    while (w->strings.n % 8)
        tk_strbuf_char(&w->strings, 0);
    head.n_string_bytes = (uint32_t)w->strings.n;
    head.total_bytes = sizeof head + n_params * sizeof *params + w->steps.n * sizeof *w->steps.at +
                       w->pairs.n * sizeof(tk_meta_pair) + w->strings.n + object_bytes;
    tk_strbuf sb;
    tk_strbuf_init(&sb, w->g->al);
    tk_strbuf_bytes(&sb, &head, sizeof head);
    tk_strbuf_bytes(&sb, params, n_params * sizeof *params);
    tk_strbuf_bytes(&sb, w->steps.at, w->steps.n * sizeof *w->steps.at);
    for (size_t i = 0; i < w->pairs.n; i++) {
        const tk_param *a = tk_params_find(&w->params, w->pairs.at[i].loaded);
        const tk_param *b = tk_params_find(&w->params, w->pairs.at[i].stored);
        tk_meta_pair pair = {a ? a->place : 0, b ? b->place : 0};
        tk_strbuf_bytes(&sb, &pair, sizeof pair);
    }
    if (w->strings.failed)
        sb.failed = true;
    else
        tk_strbuf_bytes(&sb, w->strings.at, w->strings.n);
    tk_strbuf_bytes(&sb, object, object_bytes);
    char *text = tk_strbuf_take(&sb, len);
    if (!text)
        return tk_status_nomem(err);
    *out = text;
    return TOLK_OK;
}

tolk_status tk_meta_write(const tk_pipeline *p, const tolk_uop *kernel, const void *object,
                          size_t object_bytes, uint64_t frame_bytes, char **out, size_t *len,
                          tolk_error *err) {
    tolk_graph *g = p->pass.g;
    writer w = {.p = p, .g = g};
    tk_kview v;
    TK_TRY(tk_params_init(&w.params, kernel, g->al, err));
    if (!tk_kview_init(&v, kernel)) {
        tk_params_fini(&w.params);
        return tk_status_nomem(err);
    }
    tk_vec_init(&w.steps, g->al);
    tk_vec_init(&w.pairs, g->al);
    tk_map_init(&w.done, g->al);
    tk_strbuf_init(&w.strings, g->al);
    tolk_status st = write_all(&w, &v, object, object_bytes, frame_bytes, out, len, err);
    tk_vec_fini(&w.steps);
    tk_vec_fini(&w.pairs);
    tk_map_fini(&w.done);
    tk_strbuf_fini(&w.strings);
    tk_params_fini(&w.params);
    tk_kview_fini(&v);
    return st;
}

/* ---- reading ---- */

static bool valid_string(const tk_meta_view *m, uint32_t at) {
    return at < m->head->n_string_bytes &&
           memchr(m->strings + at, 0, m->head->n_string_bytes - at) != NULL;
}

static bool valid_steps(const tk_meta_view *m) {
    for (uint32_t i = 0; i < m->head->n_steps; i++) {
        const tk_expr_step *s = &m->steps[i];
        if (s->op >= TK_OP_COUNT || s->dtype >= TOLK_DTYPE_COUNT)
            return false;
        if (s->op == TK_OP_CONST)
            continue;
        if (s->op == TK_OP_PARAM) {
            if (s->value < 0 || s->value >= (int64_t)m->head->n_vals)
                return false;
            continue;
        }
        if (!tk_op_is_alu((tk_op)s->op) || s->a >= i || (s->b && s->b >= i) ||
            (s->c && s->c >= i) ||
            (s->op == TK_OP_CAST && (s->value < 0 || s->value >= TOLK_DTYPE_COUNT)))
            return false;
    }
    return true;
}

bool tk_meta_open(const void *bytes, size_t len, tk_meta_view *out) {
    tk_meta_view m = {.head = bytes};
    if (len < sizeof *m.head || (uintptr_t)bytes % 8)
        return false;
    const tk_meta *h = m.head;
    if (h->magic != MAGIC || h->version != TK_META_VERSION || h->total_bytes != len ||
        h->n_steps > TK_EXPR_MAX_STEPS || h->object_bytes > len || h->n_string_bytes > len)
        return false;
    uint64_t n_params = (uint64_t)h->n_bufs + h->n_vals;
    if (n_params > len || h->n_pairs > len)
        return false;
    const char *at = (const char *)bytes + sizeof *h;
    m.params = (const void *)at;
    at += n_params * sizeof *m.params;
    m.steps = (const void *)at;
    at += h->n_steps * sizeof *m.steps;
    m.pairs = (const void *)at;
    at += h->n_pairs * sizeof *m.pairs;
    m.strings = at;
    at += h->n_string_bytes;
    m.object = at;
    if (sizeof *h + n_params * sizeof *m.params + (uint64_t)h->n_steps * sizeof *m.steps +
            (uint64_t)h->n_pairs * sizeof *m.pairs + h->n_string_bytes + h->object_bytes !=
        len)
        return false;
    if (!valid_string(&m, h->name) || !valid_string(&m, h->opts) || !valid_steps(&m) ||
        h->span >= h->n_steps || h->flops >= h->n_steps || h->loaded_bytes >= h->n_steps ||
        h->stored_bytes >= h->n_steps || h->scratch_bytes >= h->n_steps)
        return false;
    if (h->is_ptx && (!h->object_bytes || at[h->object_bytes - 1]))
        return false; /* a text ends with NUL */
    for (int d = 0; d < 3; d++)
        if (h->grid[d] >= h->n_steps || h->block[d] >= h->n_steps)
            return false;
    uint32_t bufs = 0;
    for (uint64_t i = 0; i < n_params; i++) {
        const tk_meta_param *p = &m.params[i];
        bufs += !p->is_scalar;
        if (p->dtype >= TOLK_DTYPE_COUNT || (p->name && !valid_string(&m, p->name)) ||
            (!p->is_scalar && p->size >= h->n_steps))
            return false;
    }
    for (uint32_t i = 0; i < h->n_pairs; i++)
        if (m.pairs[i].a >= h->n_bufs || m.pairs[i].b >= h->n_bufs)
            return false;
    if (bufs != h->n_bufs)
        return false;
    *out = m;
    return true;
}
