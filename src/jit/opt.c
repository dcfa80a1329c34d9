/* SPDX-License-Identifier: MIT */
#include "jit/opt.h"

#include "ir/dtype.h"
#include "ir/scalar.h"
#include "ir/sym.h"
#include "jit/repeat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"UPCAST", "LANE", "UNROLL", "GROUPTOP", "THREAD",  "SWAP",
                                         "PADTO",  "LOOP", "LOCAL",  "GROUP",    "NOLOCALS"};
enum { N_KINDS = sizeof kind_names / sizeof *kind_names };

/* ---- text ---- */

static bool read_number(const char **p, int64_t *out) {
    if (**p < '0' || **p > '9')
        return false;
    int64_t v = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        v = v * 10 + (**p - '0');
        if (v > INT32_MAX)
            return false;
    }
    *out = v;
    return true;
}

tolk_status tk_opt_parse(const char *text, tk_opts *out, tolk_error *err) {
    const char *p = text;
    for (;;) {
        while (*p == ' ' || *p == ',')
            p++;
        if (!*p)
            return TOLK_OK;
        size_t len = strcspn(p, " ,");
        int kind = 0;
        while (kind < N_KINDS && strncmp(p, kind_names[kind], strlen(kind_names[kind])) != 0)
            kind++;
        int64_t axis = -1, arg = 0;
        const char *q = p;
        bool good = kind < N_KINDS;
        if (good) {
            q += strlen(kind_names[kind]);
            if (kind == TK_OPT_NOLOCALS)
                axis = 0;
            else
                good = *q++ == ':' && read_number(&q, &axis);
            if (good && kind != TK_OPT_LOOP && kind != TK_OPT_NOLOCALS)
                good = *q++ == ':' && read_number(&q, &arg);
            good = good && q == p + len;
        }
        if (!good)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "loop option \"%.*s\": expected UPCAST:AXIS:N, LANE:AXIS:N, "
                                  "UNROLL:AXIS:N, LOCAL:AXIS:N, GROUP:AXIS:N, GROUPTOP:AXIS:N, "
                                  "THREAD:AXIS:N, PADTO:AXIS:N, SWAP:AXIS:AXIS, LOOP:AXIS or "
                                  "NOLOCALS",
                                  (int)(len > 40 ? 40 : len), p);
        if (!tk_vec_push(out, ((tk_opt){(tk_opt_kind)kind, (uint32_t)axis, arg})))
            return tk_status_nomem(err);
        p += len;
    }
}

void tk_opt_text(const tk_opt *opt, char *buf, size_t bytes) {
    if (opt->kind == TK_OPT_NOLOCALS)
        snprintf(buf, bytes, "NOLOCALS");
    else if (opt->kind == TK_OPT_LOOP)
        snprintf(buf, bytes, "LOOP:%u", opt->axis);
    else
        snprintf(buf, bytes, "%s:%u:%lld", kind_names[opt->kind], opt->axis, (long long)opt->arg);
}

/* ---- axes ---- */

/* Position of a kind in the order of active ranges. */
static int position(tk_axis kind) {
    switch (kind) {
    case TK_AXIS_GLOBAL:
    case TK_AXIS_THREAD:
        return 0;
    case TK_AXIS_LOOP:
        return 1;
    case TK_AXIS_WARP:
    case TK_AXIS_LOCAL:
        return 2;
    case TK_AXIS_LANE:
        return 3;
    case TK_AXIS_UPCAST:
        return 4;
    case TK_AXIS_GROUP_REDUCE:
        return 5;
    case TK_AXIS_REDUCE:
        return 6;
    case TK_AXIS_UNROLL:
        return 7;
    }
    return 8;
}

static int compare_axes(const void *pa, const void *pb) {
    const tolk_uop *a = *(const tolk_uop *const *)pa, *b = *(const tolk_uop *const *)pb;
    int ka = position(tk_kview_axis(a)), kb = position(tk_kview_axis(b));
    if (ka != kb)
        return ka - kb;
    int64_t xa = tk_uop_int(a, TK_A_RANGE_AXIS), xb = tk_uop_int(b, TK_A_RANGE_AXIS);
    if (xa != xb)
        return xa < xb ? -1 : 1;
    return tk_uop_compare(a, b);
}

tolk_status tk_opt_axes(const tk_kview *v, tk_uops *out, tolk_error *err) {
    for (size_t i = 0; i < v->ranges.n; i++)
        if (!tk_uop_is_int(v->ranges.at[i]->src[0], 1) && !tk_vec_push(out, v->ranges.at[i]))
            return tk_status_nomem(err);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, compare_axes);
    return TOLK_OK;
}

/* ---- what closes a range ---- */

static bool closed_by_reduce(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_REDUCE))
            continue;
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] == range)
                return true;
    }
    return false;
}

static bool closed_by_end(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_END))
            continue;
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] == range)
                return true;
    }
    return false;
}

/* ---- splitting one range ---- */

typedef struct split {
    tolk_graph *g;
    const tolk_uop *range;         /* what is replaced ... */
    const tolk_uop *outer, *inner; /* ... by loops over these (either may be NULL) ... */
    const tolk_uop *value;         /* ... and this expression of them */
    const tolk_uop *guard;         /* true where value is below the old size; NULL: always */
    bool partials;                 /* reductions over range keep one partial result per inner */
    bool inner_first;              /* inner is the outer one of the two loops (THREAD, GROUPTOP) */
} split;

static const tolk_uop *and_gate(tolk_graph *g, const tolk_uop *a, const tolk_uop *b) {
    return a ? tk_uop2(g, TK_OP_AND, a, b) : b;
}

/* Replace range among the closed ranges or order dependencies src[from..]. */
static const tolk_uop *with_ranges(const split *s, const tolk_uop *u, const tolk_uop **src,
                                   uint32_t n, uint32_t from, bool drop_inner) {
    TK_VEC(const tolk_uop *) out;
    tk_vec_init(&out, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++) {
        if (i < from || u->src[i] != s->range) {
            ok = tk_vec_push(&out, src[i]);
            continue;
        }
        const tolk_uop *first = s->inner_first ? s->inner : s->outer;
        const tolk_uop *second = s->inner_first ? s->outer : s->inner;
        if (first && !(drop_inner && first == s->inner))
            ok = tk_vec_push(&out, first);
        if (ok && second && !(drop_inner && second == s->inner))
            ok = tk_vec_push(&out, second);
    }
    const tolk_uop *r = NULL;
    if (!ok)
        tk_graph_fail(s->g, TOLK_E_NOMEM, "out of memory");
    else
        r = out.n == 1 && (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_REDUCE))
                ? out.at[0]
                : tk_uop_with_src(s->g, u, out.at, out.n);
    tk_vec_fini(&out);
    return r;
}

static const tolk_uop *split_reduce(const split *s, const tolk_uop *u, const tolk_uop **src,
                                    uint32_t n) {
    tk_rop rop = (tk_rop)tk_uop_int(u, TK_A_REDUCE_OP);
    tolk_dtype dt = src[0]->dtype;
    if (s->guard) {
        const tolk_uop *id = tk_uop_const(s->g, dt, tk_scalar_identity(rop, dt));
        src[0] = tk_uop3(s->g, TK_OP_WHERE, s->guard, src[0], id);
    }
    /* Partial results of narrow sums stay in f32, as the whole fold does. */
    bool widen = s->partials && tk_dtype_is_narrow_float(dt) && rop != TK_ROP_MAX;
    if (widen)
        src[0] = tk_uop_cast(s->g, src[0], TOLK_F32);
    if (!src[0])
        return NULL;
    tk_attr attrs[2] = {u->attr[0], u->attr[1]};
    TK_VEC(const tolk_uop *) in;
    tk_vec_init(&in, s->g->al);
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++) {
        if (i == 0 || u->src[i] != s->range) {
            ok = tk_vec_push(&in, src[i]);
            continue;
        }
        if (s->outer)
            ok = tk_vec_push(&in, s->outer);
        if (ok && s->inner && !s->partials)
            ok = tk_vec_push(&in, s->inner);
    }
    const tolk_uop *r = NULL;
    if (!ok) {
        tk_graph_fail(s->g, TOLK_E_NOMEM, "out of memory");
    } else {
        r = in.n == 1 ? in.at[0] : tk_uop(s->g, TK_OP_REDUCE, in.at[0]->dtype, in.at, in.n, attrs);
        if (r && s->partials)
            r = tk_uop(s->g, TK_OP_REDUCE, r->dtype, (const tolk_uop *[]){r, s->inner}, 2, attrs);
        if (r && widen)
            r = tk_uop_cast(s->g, r, dt);
    }
    tk_vec_fini(&in);
    return r;
}

static const tolk_uop *split_fn(void *user, const tk_kview *v, const tolk_uop *u,
                                const tolk_uop **src, uint32_t n) {
    const split *s = user;
    if (u == s->range)
        return s->value;
    bool closes = false;
    for (uint32_t i = 1; i < n; i++)
        closes |= u->src[i] == s->range;
    switch (tk_uop_op(u)) {
    case TK_OP_REDUCE:
        if (closes)
            return split_reduce(s, u, src, n);
        break;
    case TK_OP_END:
    case TK_OP_AFTER:
    case TK_OP_RANGE:
        if (closes)
            return with_ranges(s, u, src, n, 1, false);
        break;
    case TK_OP_LOAD:
        if (s->guard && tk_kview_depends(v, u, s->range) &&
            tk_kview_is_global(tk_access_buffer(u->src[0]))) {
            const tolk_uop *gate = and_gate(s->g, n == 3 ? src[2] : NULL, s->guard);
            const tolk_uop *alt = n >= 2 ? src[1] : tk_uop_const(s->g, u->dtype, 0);
            return tk_uop(s->g, TK_OP_LOAD, u->dtype, (const tolk_uop *[]){src[0], alt, gate}, 3,
                          u->attr);
        }
        break;
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        if (s->guard && tk_kview_depends(v, u, s->range) &&
            tk_kview_is_global(tk_access_buffer(u->src[0]))) {
            const tolk_uop *gate = and_gate(s->g, n == 3 ? src[2] : NULL, s->guard);
            return tk_uop(s->g, tk_uop_op(u), TOLK_VOID, (const tolk_uop *[]){src[0], src[1], gate},
                          3, u->attr);
        }
        break;
    default:
        break;
    }
    return tk_uop_with_src(s->g, u, src, n);
}

enum { MAX_SUB = 32 };

/* A range with another size or kind that continues the identity of `from`: sub grows by `part`. */
static const tolk_uop *derived_range(tolk_graph *g, const tolk_uop *from, const tolk_uop *size,
                                     tk_axis kind, int64_t part) {
    const tk_blob *old = tk_uop_attr(from, TK_A_RANGE_SUB).blob;
    int64_t sub[MAX_SUB];
    size_t n = old ? old->n : 0;
    if (n >= MAX_SUB)
        return tk_graph_fail(g, TOLK_E_LIMIT, "a range was split more than %d times", MAX_SUB);
    if (n)
        memcpy(sub, old->ints, n * sizeof *sub);
    sub[n] = part;
    tk_attr attrs[4] = {
        from->attr[0], {.blob = tk_blob_ints(g, sub, n + 1)}, {.i = kind}, {.i = 0}};
    if (!attrs[1].blob)
        return NULL;
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    bool ok = tk_vec_push(&src, size);
    for (uint32_t i = 1; i < from->n_src && ok; i++)
        ok = tk_vec_push(&src, from->src[i]);
    const tolk_uop *r = ok ? tk_uop(g, TK_OP_RANGE, TOLK_INDEX, src.at, src.n, attrs)
                           : tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
    tk_vec_fini(&src);
    return r;
}

static tolk_status graph_status(tolk_graph *g, tolk_error *err) {
    if (err && g->error.code != TOLK_OK)
        *err = g->error;
    return g->error.code;
}

static tolk_status run_split(tk_kview *v, split *s, const tolk_uop **root, tolk_error *err) {
    const tolk_uop *r = tk_kview_rebuild(v, split_fn, s);
    if (!r)
        return graph_status(s->g, err);
    *root = r;
    return TOLK_OK;
}

static tolk_status refuse(tolk_error *err, const tk_opt *opt, const char *why) {
    char text[64];
    tk_opt_text(opt, text, sizeof text);
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "loop option %s: %s", text, why);
}

static const char in_order[] = "iterations of the axis depend on each other";
static const char sized[] = "the size of another loop depends on the axis";
static const char too_long[] = "the axis is too long";
static const char nolocals[] = "NOLOCALS stands before it";
static const char name_taken[] = "the kernel has a range of the new one's name already";

/* Has another range of the kernel the identity of this new one? Not counted: a and b (or NULL),
 * which go. */
static bool is_taken(const tk_kview *v, const tolk_uop *range, const tolk_uop *a,
                     const tolk_uop *b) {
    for (size_t i = 0; range && i < v->ranges.n; i++) {
        const tolk_uop *r = v->ranges.at[i];
        if (r != a && r != b && r->src[0] == range->src[0] && r->attr[0].i == range->attr[0].i &&
            r->attr[1].blob == range->attr[1].blob && r->attr[2].i == range->attr[2].i)
            return true;
    }
    return false;
}

/* Split range into outer * amount + inner. amount 0: all of it. */
static tolk_status split_range(tk_kview *v, const tolk_uop *range, const tk_opt *opt,
                               int64_t amount, tk_axis inner_kind, const tolk_uop **root,
                               tolk_error *err) {
    tolk_graph *g = range->graph;
    const tolk_uop *size = range->src[0];
    split s = {.g = g, .range = range};
    s.partials = opt->kind != TK_OPT_THREAD && closed_by_reduce(v, range);
    s.inner_first = opt->kind == TK_OPT_THREAD || opt->kind == TK_OPT_GROUPTOP;
    bool whole = tk_uop_is_int(size, amount);
    if (whole) {
        s.inner = derived_range(g, range, size, inner_kind, 1);
        s.value = s.inner;
    } else {
        if (tk_uop_is_const(size) && size->attr[0].i > INT64_MAX - amount)
            return refuse(err, opt, too_long);
        const tolk_uop *n = tk_uop_index_const(g, amount);
        const tolk_uop *up = tk_sym_add(g, size, tk_uop_index_const(g, amount - 1));
        const tolk_uop *count = up ? tk_sym_floordiv(g, up, n) : NULL;
        if (!count)
            return graph_status(g, err);
        bool exact = tk_uop_is_const(size) && size->attr[0].i % amount == 0;
        if (s.inner_first) {
            /* Amount pieces of count iterations each: value = piece * count + i. */
            s.inner = derived_range(g, range, n, inner_kind, 0);
            s.outer = derived_range(g, range, count, tk_kview_axis(range), 1);
            s.value = tk_sym_add(g, tk_sym_mul(g, s.inner, count), s.outer);
        } else {
            s.outer = derived_range(g, range, count, tk_kview_axis(range), 0);
            s.inner = derived_range(g, range, n, inner_kind, 1);
            s.value = s.outer && s.inner
                          ? tk_uop2(g, TK_OP_ADD, tk_uop2(g, TK_OP_MUL, s.outer, n), s.inner)
                          : NULL;
        }
        if (!exact && s.value)
            s.guard = tk_uop2(g, TK_OP_CMPLT, s.value, size);
    }
    if (!s.value || tk_graph_failed(g))
        return graph_status(g, err);
    if (is_taken(v, s.outer, range, NULL) || is_taken(v, s.inner, range, NULL))
        return refuse(err, opt, name_taken);
    return run_split(v, &s, root, err);
}

/* Does splitting this reduce range into partial results change a float sum? */
static bool reorders_floats(const tk_kview *v, const tolk_uop *range) {
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        if (!tk_uop_is(u, TK_OP_REDUCE) || !tolk_dtype_is_float(u->dtype) ||
            tk_uop_int(u, TK_A_REDUCE_OP) == TK_ROP_MAX)
            continue;
        for (uint32_t i = 1; i < u->n_src; i++)
            if (u->src[i] == range)
                return true;
    }
    return false;
}

static tolk_status check_amount(const tolk_uop *range, const tk_opt *opt, int64_t *amount,
                                tolk_error *err) {
    const tolk_uop *size = range->src[0];
    *amount = opt->arg;
    if (opt->arg == 0) {
        if (!tk_uop_is_const(size))
            return refuse(err, opt, "the whole axis needs a constant size");
        *amount = size->attr[0].i;
    }
    if (*amount < 2)
        return refuse(err, opt, "the amount must be at least 2");
    return TOLK_OK;
}

static tolk_status apply_swap(tk_kview *v, const tolk_uop *a, const tolk_uop *b, const tk_opt *opt,
                              const tolk_uop **root, tolk_error *err);
static tolk_status apply_padto(tk_kview *v, const tolk_uop *range, const tk_opt *opt,
                               const tolk_uop **root, tolk_error *err);

/* Does the size of the range depend on another one, which then has to be around it? */
static bool is_sized(const tk_kview *v, const tolk_uop *range) {
    const uint64_t *set = tk_kview_set(v, range->src[0]);
    for (uint32_t w = 0; w < v->words; w++)
        if (set[w])
            return true;
    return false;
}

static bool is_parent(const tk_kview *v, const tolk_uop *range) {
    for (size_t r = 0; r < v->ranges.n; r++)
        for (uint32_t i = 1; i < v->ranges.at[r]->n_src; i++)
            if (v->ranges.at[r]->src[i] == range)
                return true;
    return false;
}

static tolk_status check_items(const tk_kview *v, const tk_opt *opt, int64_t amount,
                               tolk_error *err) {
    return tk_opt_group_items(v) <= TK_OPT_MAX_ITEMS / amount
               ? TOLK_OK
               : refuse(err, opt, "a group would have more than 1024 work-items");
}

static tolk_status check_shared(const tk_kview *v, const tk_opt *opt, int64_t amount,
                                tolk_error *err) {
    bool group = opt->kind == TK_OPT_GROUP || opt->kind == TK_OPT_GROUPTOP;
    return tk_opt_shared_bytes(v, group) <= TK_OPT_MAX_SHARED / amount
               ? TOLK_OK
               : refuse(err, opt,
                        "partial results of a group would need more than 49152 bytes of local "
                        "memory");
}

static tolk_status apply_nolocals(tk_kview *v, const tk_opt *opt, const tolk_uop **root,
                                  tolk_error *err) {
    const tolk_uop *sink = *root;
    if (tk_opt_has_locals(v))
        return refuse(err, opt, "the kernel has local, warp or group_reduce axes");
    const tolk_uop *r = tk_opt_with_nolocals(sink);
    if (!r)
        return graph_status(sink->graph, err);
    *root = r;
    return TOLK_OK;
}

static tolk_status apply(tk_kview *v, const tk_uops *axes, const tk_opt *opt, bool strict,
                         const tolk_uop **root, tolk_error *err) {
    if (opt->kind == TK_OPT_NOLOCALS)
        return apply_nolocals(v, opt, root, err);
    if (opt->axis >= axes->n) {
        char text[64];
        tk_opt_text(opt, text, sizeof text);
        if (!axes->n)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "loop option %s: the kernel has no axis", text);
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "loop option %s: expected an axis from 0 to %zu", text, axes->n - 1);
    }
    const tolk_uop *range = axes->at[opt->axis];
    tk_axis kind = tk_kview_axis(range);
    int64_t amount;
    bool reduce = closed_by_reduce(v, range), end = closed_by_end(v, range);
    bool splittable = kind == TK_AXIS_GLOBAL || kind == TK_AXIS_LOOP || kind == TK_AXIS_THREAD ||
                      kind == TK_AXIS_LOCAL;
    if ((opt->kind == TK_OPT_UPCAST || opt->kind == TK_OPT_LANE || opt->kind == TK_OPT_UNROLL ||
         opt->kind == TK_OPT_LOCAL || opt->kind == TK_OPT_GROUP || opt->kind == TK_OPT_GROUPTOP) &&
        tk_kview_sizes_depend(v, range))
        return refuse(err, opt, sized);
    switch (opt->kind) {
    case TK_OPT_SWAP:
        if (opt->arg >= (int64_t)axes->n)
            return refuse(err, opt, "the second axis does not exist");
        if (kind != TK_AXIS_GLOBAL || tk_kview_axis(axes->at[opt->arg]) != TK_AXIS_GLOBAL)
            return refuse(err, opt, "both axes must be global");
        if (tk_kview_sizes_depend(v, range) || tk_kview_sizes_depend(v, axes->at[opt->arg]))
            return refuse(err, opt, sized);
        if (is_sized(v, range) || is_sized(v, axes->at[opt->arg]))
            return refuse(err, opt, "the size of the axis depends on another loop");
        if (is_parent(v, range) || is_parent(v, axes->at[opt->arg]))
            return refuse(err, opt, "another loop names the axis as one around it");
        return apply_swap(v, range, axes->at[opt->arg], opt, root, err);
    case TK_OPT_PADTO:
        return apply_padto(v, range, opt, root, err);
    case TK_OPT_LOOP: {
        if (kind != TK_AXIS_GLOBAL && kind != TK_AXIS_THREAD)
            return refuse(err, opt, "the axis must be global");
        split s = {.g = range->graph, .range = range};
        s.outer = s.value = derived_range(s.g, range, range->src[0], TK_AXIS_LOOP, 0);
        if (is_taken(v, s.outer, range, NULL))
            return refuse(err, opt, name_taken);
        return s.value ? run_split(v, &s, root, err) : graph_status(s.g, err);
    }
    case TK_OPT_UNROLL:
        TK_TRY(check_amount(range, opt, &amount, err));
        if (!reduce || end || kind == TK_AXIS_UNROLL || kind == TK_AXIS_LANE)
            return refuse(err, opt, "the axis must be a reduction's, not yet unrolled");
        if (amount > TK_OPT_MAX_UNROLL)
            return refuse(err, opt, "at most 32");
        if (strict && reorders_floats(v, range))
            return refuse(err, opt, "it changes the order of a float sum, and strict forbids that");
        if (!tk_opt_parallel(v, range))
            return refuse(err, opt, in_order);
        TK_TRY(check_shared(v, opt, amount, err));
        return split_range(v, range, opt, amount, TK_AXIS_UNROLL, root, err);
    case TK_OPT_LOCAL:
        TK_TRY(check_amount(range, opt, &amount, err));
        if (tk_opt_has_nolocals(v->root))
            return refuse(err, opt, nolocals);
        if (reduce || (kind != TK_AXIS_GLOBAL && kind != TK_AXIS_LOOP))
            return refuse(err, opt, "the axis must be a global or loop axis of a store");
        TK_TRY(check_items(v, opt, amount, err));
        TK_TRY(check_shared(v, opt, amount, err));
        if (!tk_opt_parallel(v, range))
            return refuse(err, opt, in_order);
        return split_range(v, range, opt, amount, TK_AXIS_LOCAL, root, err);
    case TK_OPT_GROUP:
    case TK_OPT_GROUPTOP:
        TK_TRY(check_amount(range, opt, &amount, err));
        if (tk_opt_has_nolocals(v->root))
            return refuse(err, opt, nolocals);
        if (!reduce || end || kind != TK_AXIS_REDUCE)
            return refuse(err, opt, "the axis must be a reduction's, not yet split into lanes");
        if (tk_opt_is_nested(v, range))
            return refuse(err, opt, "the reduction is inside of another one");
        if (amount > TK_OPT_MAX_GROUP)
            return refuse(err, opt, "at most 256");
        TK_TRY(check_items(v, opt, amount, err));
        TK_TRY(check_shared(v, opt, amount, err));
        if (strict && reorders_floats(v, range))
            return refuse(err, opt, "it changes the order of a float sum, and strict forbids that");
        if (!tk_opt_parallel(v, range))
            return refuse(err, opt, in_order);
        return split_range(v, range, opt, amount, TK_AXIS_GROUP_REDUCE, root, err);
    case TK_OPT_UPCAST:
        TK_TRY(check_amount(range, opt, &amount, err));
        if (reduce || !splittable)
            return refuse(err, opt, "the axis must be a global, loop or local axis of a store");
        if (amount > TK_OPT_MAX_UPCAST)
            return refuse(err, opt, "at most 16");
        TK_TRY(check_shared(v, opt, amount, err));
        if (!tk_opt_parallel(v, range))
            return refuse(err, opt, in_order);
        return split_range(v, range, opt, amount, TK_AXIS_UPCAST, root, err);
    case TK_OPT_LANE:
        TK_TRY(check_amount(range, opt, &amount, err));
        if ((amount & (amount - 1)) || amount > TOLK_MAX_LANES)
            return refuse(err, opt, "lanes must be a power of two up to 64");
        if (reduce && end)
            return refuse(err, opt, "the axis is both a reduction's and a store's");
        if (reduce ? kind == TK_AXIS_UNROLL || kind == TK_AXIS_LANE : !splittable)
            return refuse(err, opt, "the axis is already unrolled or a lane");
        if (reduce && strict && reorders_floats(v, range))
            return refuse(err, opt, "it changes the order of a float sum, and strict forbids that");
        if (!tk_opt_parallel(v, range))
            return refuse(err, opt, in_order);
        if (tk_kview_meets_lanes(v, range))
            return refuse(err, opt, "something already depends on another lane axis");
        return split_range(v, range, opt, amount, TK_AXIS_LANE, root, err);
    case TK_OPT_THREAD:
        TK_TRY(check_amount(range, opt, &amount, err));
        if (reduce || !splittable || kind == TK_AXIS_LOCAL || !tk_opt_parallel(v, range))
            return refuse(err, opt, "the axis must be a global or independent loop axis");
        return split_range(v, range, opt, amount, TK_AXIS_THREAD, root, err);
    case TK_OPT_NOLOCALS: /* has no axis: done above */
        break;
    }
    return refuse(err, opt, "unknown");
}

tolk_status tk_opt_apply(const tolk_uop **root, const tk_opt *opt, bool strict, tolk_error *err) {
    tk_kview v;
    if (!tk_kview_init(&v, *root))
        return tk_status_nomem(err);
    tk_uops axes;
    tk_vec_init(&axes, v.al);
    tolk_status st = tk_opt_axes(&v, &axes, err);
    if (st == TOLK_OK)
        st = apply(&v, &axes, opt, strict, root, err);
    /* Guards of the next option go to what depends on its range. */
    const tolk_uop *repeated = st == TOLK_OK ? tk_repeat_effects((*root)->graph, *root) : NULL;
    if (repeated)
        *root = repeated;
    else if (st == TOLK_OK)
        st = graph_status((*root)->graph, err);
    /* Memory that ended while an answer was looked for is no answer. */
    if (st != TOLK_OK && tk_graph_failed((*root)->graph))
        st = graph_status((*root)->graph, err);
    tk_vec_fini(&axes);
    tk_kview_fini(&v);
    return st;
}

/* ---- SWAP and PADTO ---- */

typedef struct swap {
    tolk_graph *g;
    const tolk_uop *a, *b;         /* exchange these ... */
    const tolk_uop *new_a, *new_b; /* ... whose axis numbers are exchanged here */
} swap;

static const tolk_uop *swap_fn(void *user, const tk_kview *v, const tolk_uop *u,
                               const tolk_uop **src, uint32_t n) {
    (void)v;
    const swap *s = user;
    if (u == s->a)
        return s->new_a;
    if (u == s->b)
        return s->new_b;
    if (tk_uop_is(u, TK_OP_END)) {
        /* The order of an END's ranges is the order of the loops. */
        uint32_t ia = 0, ib = 0;
        for (uint32_t i = 1; i < n; i++) {
            if (u->src[i] == s->a)
                ia = i;
            if (u->src[i] == s->b)
                ib = i;
        }
        if (ia && ib) {
            const tolk_uop *t = src[ia];
            src[ia] = src[ib];
            src[ib] = t;
        }
    }
    return tk_uop_with_src(s->g, u, src, n);
}

static tolk_status apply_swap(tk_kview *v, const tolk_uop *a, const tolk_uop *b, const tk_opt *opt,
                              const tolk_uop **root, tolk_error *err) {
    tolk_graph *g = a->graph;
    swap s = {.g = g, .a = a, .b = b};
    tk_attr xa[4], xb[4];
    memcpy(xa, a->attr, sizeof xa);
    memcpy(xb, b->attr, sizeof xb);
    xa[0] = b->attr[0];
    xa[1] = b->attr[1];
    xb[0] = a->attr[0];
    xb[1] = a->attr[1];
    s.new_a = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, a->src, a->n_src, xa);
    s.new_b = tk_uop(g, TK_OP_RANGE, TOLK_INDEX, b->src, b->n_src, xb);
    if (is_taken(v, s.new_a, a, b) || is_taken(v, s.new_b, a, b))
        return refuse(err, opt, name_taken);
    const tolk_uop *r = s.new_a && s.new_b ? tk_kview_rebuild(v, swap_fn, &s) : NULL;
    if (!r)
        return graph_status(g, err);
    *root = r;
    return TOLK_OK;
}

static tolk_status apply_padto(tk_kview *v, const tolk_uop *range, const tk_opt *opt,
                               const tolk_uop **root, tolk_error *err) {
    tolk_graph *g = range->graph;
    const tolk_uop *size = range->src[0];
    tk_axis kind = tk_kview_axis(range);
    if (!tk_uop_is_const(size))
        return refuse(err, opt, "the axis needs a constant size");
    if (kind == TK_AXIS_UPCAST || kind == TK_AXIS_UNROLL || kind == TK_AXIS_LANE ||
        kind == TK_AXIS_THREAD)
        return refuse(err, opt, "the axis is unrolled, a lane or a thread");
    if (opt->arg < 2)
        return refuse(err, opt, "the amount must be at least 2");
    int64_t old = size->attr[0].i;
    if (old > INT64_MAX - opt->arg)
        return refuse(err, opt, too_long);
    int64_t padded = old <= 0 ? 0 : (old + opt->arg - 1) / opt->arg * opt->arg;
    if (padded == old)
        return TOLK_OK;
    if (old <= padded / 4)
        return refuse(err, opt, "more than three quarters would be padding");
    if (!tk_opt_parallel(v, range))
        return refuse(err, opt, in_order);
    split s = {.g = g, .range = range};
    s.outer = s.value = derived_range(g, range, tk_uop_index_const(g, padded), kind, 0);
    s.guard = s.value ? tk_uop2(g, TK_OP_CMPLT, s.value, size) : NULL;
    if (!s.guard)
        return graph_status(g, err);
    if (is_taken(v, s.outer, range, NULL))
        return refuse(err, opt, name_taken);
    return run_split(v, &s, root, err);
}
