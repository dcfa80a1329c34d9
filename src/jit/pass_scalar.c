/* SPDX-License-Identifier: MIT
 *
 * pass_scalar: a program for a GPU, whose lanes are its threads.
 *
 * Needs:  stage program; on other targets the program is left as it is.
 * Leaves: every value is a scalar: an instruction on vectors became one for each lane. What stays
 *         are loads and stores of 2 or 4 consecutive elements of together 4 to 16 bytes, of which a
 *         loaded one is only taken apart (INDEX) and a stored one is a STACK: only where they are
 *         proved to be inside of their buffer, have no gate, and begin at a multiple of their
 *         length, and not for bool, whose bytes are looked at one by one. Loads of what no store of
 * the kernel reaches are marked readonly.
 */
#include "ir/dtype.h"
#include "ir/params.h"
#include "jit/affine.h"
#include "jit/list.h"
#include "jit/pass.h"

#include <string.h>

typedef struct scalar_pass {
    tk_pass *p;
    tolk_graph *g;
    tk_list list; /* the new program */
    tk_map made;  /* id of an old node -> place of its first lane in lanes */
    tk_uops lanes;
    tk_map read_only; /* slots that no store reaches */
    bool failed;
} scalar_pass;

/* ---- the list ---- */

static const tolk_uop *fail(scalar_pass *s) {
    s->failed = true;
    return NULL;
}

/* List u here, whatever it is. */
static const tolk_uop *list(scalar_pass *s, const tolk_uop *u) {
    return tk_list_push(&s->list, u) ? u : fail(s);
}

/* List a pure instruction, its sources having been listed, unless it stands there already. */
static const tolk_uop *add(scalar_pass *s, const tolk_uop *u) {
    return u && tk_list_has(&s->list, u) ? u : list(s, u);
}

static const tolk_uop *number(scalar_pass *s, int64_t v) {
    return add(s, tk_uop_index_const(s->g, v));
}

/* i + k */
static const tolk_uop *moved(scalar_pass *s, const tolk_uop *i, int64_t k) {
    if (!i || k == 0)
        return i;
    const tolk_uop *n = number(s, k);
    return n ? add(s, tk_uop2(s->g, TK_OP_ADD, i, n)) : NULL;
}

/* ---- lanes of old nodes ---- */

/* Lane k of an old node; scalars are the same in every lane. Nodes without a value have one lane.
 */
static const tolk_uop *lane(const scalar_pass *s, const tolk_uop *u, uint32_t k) {
    const uint64_t *at = tk_map_find(&s->made, u->id);
    TK_ASSERT(at);
    return s->lanes.at[*at + (tk_uop_lanes(u) > 1 ? k : 0)];
}

static bool set_lanes(scalar_pass *s, const tolk_uop *u, const tolk_uop *const *x, uint32_t n) {
    for (uint32_t k = 0; k < n; k++)
        if (!x[k] || !tk_vec_push(&s->lanes, x[k]))
            return fail(s) != NULL;
    return tk_map_put(&s->made, u->id, s->lanes.n - n) || fail(s);
}

/* ---- memory ---- */

/* Element that lane k of an access touches. */
static const tolk_uop *element(scalar_pass *s, const tolk_uop *place, uint32_t k) {
    const tolk_uop *buffer = tk_access_buffer(place), *i;
    if (tk_access_is_reg(buffer))
        i = number(s, place->src[1]->attr[0].i * tk_uop_lanes(buffer) + k);
    else if (tk_uop_lanes(place) > 1)
        i = lane(s, place->src[1], k);
    else
        i = moved(s, lane(s, place->src[1], 0), k);
    const tolk_uop *src[2] = {lane(s, place->src[0], 0), i};
    return i ? add(s, tk_uop(s->g, TK_OP_INDEX, src[0]->dtype, src, 2, NULL)) : NULL;
}

static bool reads_only(const scalar_pass *s, const tolk_uop *buffer) {
    return tk_uop_is(buffer, TK_OP_PARAM) &&
           tk_map_find(&s->read_only, (uint64_t)tk_uop_int(buffer, TK_A_PARAM_SLOT));
}

/* Elements from lane k on that are accessed at once: 4, 2 or 1. */
static uint32_t together(const tolk_uop *u, uint32_t k, uint32_t lanes) {
    const tolk_uop *place = u->src[0], *buffer = tk_access_buffer(place);
    bool load = tk_uop_is(u, TK_OP_LOAD);
    if (tk_access_is_reg(buffer) || tk_dtype_scalar(buffer->dtype) == TOLK_BOOL ||
        tk_uop_lanes(place) > 1 || u->n_src > (load ? 1 : 2) ||
        !tk_uop_int(u, load ? TK_A_LOAD_INBOUNDS : TK_A_STORE_INBOUNDS))
        return 1;
    uint32_t bytes = (uint32_t)tolk_dtype_bytes(buffer->dtype), n = 4;
    int64_t divisor = tk_affine_divisor(place->src[1]) | (int64_t)k;
    while (n > 1 && (n * bytes > 16 || n * bytes < 4 || k + n > lanes || divisor % n != 0))
        n /= 2;
    return n;
}

static bool emit_load(scalar_pass *s, const tolk_uop *u) {
    tolk_graph *g = s->g;
    uint32_t lanes = tk_uop_lanes(u);
    const tolk_uop *x[TOLK_MAX_LANES], *buffer = tk_access_buffer(u->src[0]);
    tk_attr attrs[2] = {u->attr[0], {.i = reads_only(s, buffer)}};
    for (uint32_t k = 0, n; k < lanes; k += n) {
        const tolk_uop *src[3] = {element(s, u->src[0], k), NULL, NULL};
        for (uint32_t i = 1; i < u->n_src; i++)
            src[i] = lane(s, u->src[i], k);
        n = together(u, k, lanes);
        tolk_dtype dt = tolk_dtype_vec(tk_dtype_scalar(u->dtype), n);
        const tolk_uop *v =
            src[0] ? list(s, tk_uop(g, TK_OP_LOAD, dt, src, u->n_src, attrs)) : NULL;
        if (!v)
            return false;
        x[k] = v;
        for (uint32_t j = 0; n > 1 && j < n; j++) {
            const tolk_uop *one[2] = {v, number(s, j)};
            x[k + j] =
                one[1] ? add(s, tk_uop(g, TK_OP_INDEX, tk_dtype_scalar(dt), one, 2, NULL)) : NULL;
            if (!x[k + j])
                return false;
        }
    }
    return set_lanes(s, u, x, lanes);
}

/* A store or an ATOMIC_ADD. */
static bool emit_store(scalar_pass *s, const tolk_uop *u) {
    tolk_graph *g = s->g;
    tk_op op = tk_uop_op(u);
    uint32_t lanes = tk_uop_lanes(u->src[1]);
    const tolk_uop *last = NULL;
    for (uint32_t k = 0, n; k < lanes; k += n) {
        const tolk_uop *src[3] = {element(s, u->src[0], k), lane(s, u->src[1], k), NULL};
        if (u->n_src == 3)
            src[2] = lane(s, u->src[2], k);
        n = op == TK_OP_STORE ? together(u, k, lanes) : 1;
        if (n > 1) {
            const tolk_uop *v[4];
            for (uint32_t j = 0; j < n; j++)
                v[j] = lane(s, u->src[1], k + j);
            tolk_dtype dt = tolk_dtype_vec(v[0]->dtype, n);
            src[1] = add(s, tk_uop(g, TK_OP_STACK, dt, v, n, NULL));
        }
        if (!src[0] || !src[1] ||
            !(last = list(s, tk_uop(g, op, TOLK_VOID, src, u->n_src, u->attr))))
            return false;
    }
    return set_lanes(s, u, &last, 1);
}

/* ---- other instructions ---- */

/* Of a reg buffer of vectors: their lanes one behind another. */
static bool emit_buffer(scalar_pass *s, const tolk_uop *u) {
    const tolk_uop *b = u;
    if (tk_access_is_reg(u) && tk_uop_lanes(u) > 1) {
        const tolk_uop *n = number(s, u->src[0]->attr[0].i * tk_uop_lanes(u));
        b = n ? tk_uop(s->g, TK_OP_BUFFER, tk_dtype_scalar(u->dtype), &n, 1, u->attr) : NULL;
    }
    /* The buffer counts as a scalar, whatever its dtype says. */
    return b && add(s, b) && set_lanes(s, u, (const tolk_uop *[]){b}, 1);
}

/* An IF over lanes is taken when one of them is set. */
static const tolk_uop *any(scalar_pass *s, const tolk_uop *cond) {
    const tolk_uop *x = lane(s, cond, 0);
    for (uint32_t k = 1; x && k < tk_uop_lanes(cond); k++)
        x = add(s, tk_uop2(s->g, TK_OP_OR, x, lane(s, cond, k)));
    return x;
}

/* u with lane k of its sources, of dtype dt. */
static const tolk_uop *with_lane(scalar_pass *s, const tolk_uop *u, uint32_t k, tolk_dtype dt) {
    const tolk_uop *few[4], **src = few;
    if (u->n_src > 4 && !(src = tk_arena_alloc(&s->g->arena, u->n_src * sizeof *src)))
        return fail(s);
    for (uint32_t i = 0; i < u->n_src; i++)
        src[i] = lane(s, u->src[i], k);
    if (tk_uop_is(u, TK_OP_IF) && !(src[0] = any(s, u->src[0])))
        return NULL;
    return tk_uop(s->g, tk_uop_op(u), dt, src, u->n_src, u->attr);
}

static bool emit_node(scalar_pass *s, const tolk_uop *u) {
    const tolk_uop *x[TOLK_MAX_LANES];
    uint32_t lanes = tk_uop_lanes(u);
    switch (tk_uop_op(u)) {
    case TK_OP_BUFFER:
        return emit_buffer(s, u);
    case TK_OP_CONST:
    case TK_OP_PARAM:
    case TK_OP_SPECIAL:
        return add(s, u) && set_lanes(s, u, &u, 1);
    case TK_OP_LOAD:
        return emit_load(s, u);
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return emit_store(s, u);
    case TK_OP_STACK:
        for (uint32_t k = 0; k < u->n_src; k++)
            x[k] = lane(s, u->src[k], 0);
        return set_lanes(s, u, x, u->n_src);
    case TK_OP_INDEX: {
        const tolk_uop *b = tk_access_buffer(u);
        if (tk_uop_is(b, TK_OP_BUFFER) ||
            (tk_uop_is(b, TK_OP_PARAM) && tk_uop_int(b, TK_A_PARAM_SPACE) != TK_SPACE_ALU))
            return true; /* made by each access of its own */
        x[0] = lane(s, u->src[0], (uint32_t)u->src[1]->attr[0].i);
        return set_lanes(s, u, x, 1);
    }
    case TK_OP_AFTER: {
        /* Of a buffer, whose dtype is that of its elements; or of a value. */
        const tolk_uop *b = tk_access_buffer(u);
        lanes = tk_access_is_reg(b) ? 1 : lanes;
        for (uint32_t k = 0; k < lanes; k++)
            if (!(x[k] = add(s, with_lane(s, u, k, lane(s, u->src[0], k)->dtype))))
                return false;
        return set_lanes(s, u, x, lanes);
    }
    case TK_OP_IF:
    case TK_OP_RANGE:
        x[0] = with_lane(s, u, 0, u->dtype);
        return tk_list_open(&s->list, x[0]) ? set_lanes(s, u, x, 1) : fail(s) != NULL;
    case TK_OP_END:
    case TK_OP_ENDIF:
        x[0] = with_lane(s, u, 0, TOLK_VOID);
        return tk_list_close(&s->list, x[0]) ? set_lanes(s, u, x, 1) : fail(s) != NULL;
    case TK_OP_BARRIER:
        return (x[0] = list(s, with_lane(s, u, 0, TOLK_VOID))) && set_lanes(s, u, x, 1);
    case TK_OP_SHUFFLE:
        for (uint32_t k = 0; k < lanes; k++)
            if (!(x[k] = list(s, with_lane(s, u, k, tk_dtype_scalar(u->dtype)))))
                return false;
        return set_lanes(s, u, x, lanes);
    default:
        break;
    }
    if (!tk_op_is_alu(tk_uop_op(u))) {
        tk_graph_fail(s->g, TOLK_E_UNSUPPORTED, "%s: no code for it on a GPU",
                      tk_op_get(tk_uop_op(u))->name);
        return false;
    }
    for (uint32_t k = 0; k < lanes; k++)
        if (!(x[k] = add(s, with_lane(s, u, k, tk_dtype_scalar(u->dtype)))))
            return false;
    return set_lanes(s, u, x, lanes);
}

/* ---- read-only params ---- */

/* Params that no store of the program reaches: not themselves, and not as the memory of another
 * one, which a launch allows for the pairs of tk_access_inplace only. */
static bool find_read_only(scalar_pass *s, const tolk_uop *linear) {
    if (!s->p->kernel)
        return true;
    tk_access_pairs pairs;
    tk_params params;
    tk_vec_init(&pairs, s->g->al);
    bool ok = tk_params_init(&params, linear, s->g->al, NULL) == TOLK_OK;
    if (!ok)
        return false;
    tolk_status st = tk_access_inplace(s->p->kernel, &pairs);
    ok = st == TOLK_OK || st == TOLK_E_LIMIT;
    for (uint32_t i = 0; st == TOLK_OK && ok && i < params.n_bufs; i++) {
        const tk_param *b = tk_params_buf(&params, i);
        int64_t slot = tk_uop_int(b->node, TK_A_PARAM_SLOT);
        bool stored = false;
        for (uint32_t k = 0; k < linear->n_src && !stored; k++) {
            const tolk_uop *u = linear->src[k];
            stored = (tk_uop_is(u, TK_OP_STORE) || tk_uop_is(u, TK_OP_ATOMIC_ADD)) &&
                     tk_access_buffer(u->src[0]) == b->node;
        }
        for (size_t k = 0; k < pairs.n && !stored; k++)
            stored = pairs.at[k].loaded == slot;
        ok = stored || tk_map_put(&s->read_only, (uint64_t)slot, 1);
    }
    tk_params_fini(&params);
    tk_vec_fini(&pairs);
    return ok;
}

static const tolk_uop *rebuild(scalar_pass *s, const tolk_uop *linear) {
    if (!find_read_only(s, linear))
        return fail(s);
    for (uint32_t i = 0; i < linear->n_src; i++)
        if (!emit_node(s, linear->src[i]))
            return NULL;
    return tk_list_linear(&s->list, linear);
}

tolk_status tk_pass_scalar(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    if (!tk_target_is_gpu(p->target))
        return TOLK_OK;
    scalar_pass s = {.p = p, .g = p->g};
    const tolk_allocator *al = p->g->al;
    bool ok = tk_list_init(&s.list, p->g);
    tk_map_init(&s.made, al);
    tk_vec_init(&s.lanes, al);
    tk_map_init(&s.read_only, al);
    const tolk_uop *r = ok ? rebuild(&s, *root) : NULL;
    tk_list_fini(&s.list);
    tk_map_fini(&s.made);
    tk_vec_fini(&s.lanes);
    tk_map_fini(&s.read_only);
    if (!r) {
        tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory"); /* containers fail without a word */
        return tk_pass_failed(p, err);
    }
    *root = r;
    return TOLK_OK;
}
