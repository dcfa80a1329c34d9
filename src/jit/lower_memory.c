/* SPDX-License-Identifier: MIT
 *
 * pass_lower, loads and stores: scalars, contiguous vectors, gathers and scatters, registers.
 */
#include "jit/lower.h"

#include "ir/dtype.h"
#include "jit/affine.h"
#include "jit/reg.h"

/* An output of this size goes around the caches: it would push out all that is in them. */
enum { STREAM_BYTES = 8 << 20 };

const tolk_uop *tk_lower_reg_buffer(tk_lower *l, tolk_dtype dtype, int64_t elems) {
    return tk_reg_buffer(l->g, dtype, elems, l->next_reg++);
}

static const tolk_uop *memory_op(tk_lower *l, tk_op op, tolk_dtype dtype, const tolk_uop *place,
                                 const tolk_uop *second, const tolk_uop *gate, bool inbounds) {
    tk_attr attrs[2] = {{.i = inbounds}, {.i = 0}};
    const tolk_uop *src[3] = {place, second, gate};
    uint32_t n = gate ? 3 : op == TK_OP_LOAD ? 1 : 2;
    return tk_uop(l->g, op, dtype, src, n, attrs);
}

const tolk_uop *tk_lower_reg_store(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                   const tolk_uop *value) {
    return tk_reg_store(l->g, buffer, k, value, NULL);
}

const tolk_uop *tk_lower_reg_load(tk_lower *l, const tolk_uop *buffer, int64_t k,
                                  const tolk_uop *token) {
    return token ? tk_reg_load(l->g, buffer, k, token) : NULL;
}

/* How a kernel's own reg buffer is laid out: one copy of it for each combination of the unrolled
 * ranges that its stores depend on, and vectors if they depend on a lane. */
tk_lower_reg *tk_lower_reg_info(tk_lower *l, const tolk_uop *buffer) {
    for (size_t i = 0; i < l->regs.n; i++)
        if (l->regs.at[i].buffer == buffer)
            return &l->regs.at[i];
    return NULL;
}

/* Element of a reg buffer for instance k of an access. -1: the index is no constant. */
static int64_t reg_element(tk_lower *l, const tk_lower_reg *reg, const tolk_uop *access, uint32_t k,
                           tk_lval at) {
    if (!tk_lval_is_scalar(at) || !tk_uop_is_const(at.u))
        return -1;
    int64_t elems = reg->buffer->src[0]->attr[0].i, i = at.u->attr[0].i;
    if (i < 0 || i >= elems)
        return -1;
    return (int64_t)tk_lower_project(l, tk_kview_set(&l->v, access), k, reg->set) * elems + i;
}

static bool reg_error(tk_lower *l, const tolk_uop *u) {
    tk_graph_fail(
        l->g, TOLK_E_UNSUPPORTED,
        "%s: the CPU compiler needs constant indices in range, and no gate, at buffers of "
        "space=reg",
        tk_op_get(tk_uop_op(u))->name);
    return false;
}

/* Place of the elements that lanes of an access touch: one address and consecutive elements if the
 * index moves by 1, else one address a lane. `one`: every lane has the same address. */
static const tolk_uop *place_of(tk_lower *l, const tolk_uop *buffer, tk_lval at, uint32_t lanes,
                                bool *one) {
    tolk_dtype dt = tk_dtype_scalar(buffer->dtype);
    *one = lanes == 1 || tk_lval_is_scalar(at);
    if (*one || (tk_lval_is_affine(at) && at.stride == 1))
        return tk_uop(l->g, TK_OP_INDEX, dt, (const tolk_uop *[]){buffer, at.u}, 2, NULL);
    const tolk_uop *idx = tk_lower_vector(l, at, lanes);
    if (!idx)
        return NULL;
    return tk_uop(l->g, TK_OP_INDEX, tolk_dtype_vec(dt, lanes), (const tolk_uop *[]){buffer, idx},
                  2, NULL);
}

static const tolk_uop *buffer_value(const tk_lower *l, const tolk_uop *place) {
    tk_lval *b = tk_lower_values(l, place->src[0]);
    TK_ASSERT(b);
    return b[0].u;
}

/* List what loads memory (or a select behind the load) in the scope where it belongs, however
 * little its operands depend on: outside of the loop around it, it could be out of its buffer. */
static bool list_access(tk_lower *l, const tolk_uop *r, int scope) {
    if (!r)
        return false;
    const tolk_uop *load = r;
    while (!tk_uop_is(load, TK_OP_LOAD))
        load = load->src[tk_uop_is(load, TK_OP_WHERE) ? 1 : 0];
    if (tk_lower_visible(l, load) < 0) {
        int deepest = scope;
        for (uint32_t i = 0; i < load->n_src; i++) {
            int s = tk_lower_place(l, load->src[i]);
            if (s < 0)
                return false;
            if (l->scopes.at[s].depth > l->scopes.at[deepest].depth)
                deepest = s;
        }
        if (!tk_lower_list(l, load, deepest))
            return false;
    }
    return tk_lower_place(l, r) >= 0;
}

bool tk_lower_load(tk_lower *l, const tolk_uop *u) {
    tolk_graph *g = l->g;
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = tk_lower_instances(l, set), lanes = tk_lower_lanes(l, u);
    const tolk_uop *root = tk_access_buffer(u->src[0]), *buffer = buffer_value(l, u->src[0]);
    tk_lower_reg *reg = tk_kview_is_global(root) ? NULL : tk_lower_reg_info(l, root);
    if (!tk_lower_new_values(l, u, n))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval at = tk_lower_source(l, u, k, 0);
        const tolk_uop *r;
        if (reg) {
            int64_t e = reg_element(l, reg, u, k, at);
            if (e < 0 || u->n_src == 3)
                return reg_error(l, u);
            r = tk_reg_load(g, buffer, e, NULL);
        } else {
            bool one, inbounds = tk_uop_int(u, TK_A_LOAD_INBOUNDS);
            const tolk_uop *alt = NULL, *gate = NULL;
            tk_lval ga = {NULL, 0};
            if (u->n_src == 3) {
                ga = tk_lower_source(l, u, k, 2);
                if (tk_uop_is_int(ga.u, 1))
                    ga.u = NULL;
            }
            const tolk_uop *place = place_of(l, buffer, at, lanes, &one);
            /* The same address with another gate in each lane is still a gather. */
            if (place && one && lanes > 1 && ga.u && !tk_lval_is_scalar(ga)) {
                const tolk_uop *idx = tk_uop_splat(g, at.u, lanes);
                place = idx ? tk_uop(g, TK_OP_INDEX, tolk_dtype_vec(buffer->dtype, lanes),
                                     (const tolk_uop *[]){buffer, idx}, 2, NULL)
                            : NULL;
                one = false;
            }
            if (!place)
                return false;
            uint32_t w = one ? 1 : lanes;
            if (ga.u) {
                gate = tk_lower_vector(l, ga, w);
                tk_lval alt_value = tk_lower_source(l, u, k, 1);
                /* A scalar load with a vector alternative: select behind the load. */
                bool late = one && !tk_lval_is_scalar(alt_value);
                alt = late ? tk_uop_const(g, tk_dtype_scalar(u->dtype), 0)
                           : tk_lower_vector(l, alt_value, w);
                r = gate && alt ? memory_op(l, TK_OP_LOAD, tolk_dtype_vec(u->dtype, w), place, alt,
                                            gate, inbounds)
                                : NULL;
                if (r && late)
                    r = tk_uop3(g, TK_OP_WHERE, tk_uop_splat(g, gate, lanes),
                                tk_uop_splat(g, r, lanes), tk_lower_vector(l, alt_value, lanes));
            } else {
                r = memory_op(l, TK_OP_LOAD, tolk_dtype_vec(u->dtype, w), place, NULL, NULL,
                              inbounds);
            }
        }
        if (reg ? tk_lower_place(l, r) < 0 : !list_access(l, r, tk_lower_scope_of(l, u)))
            return false;
        tk_lower_values(l, u)[k] = tk_lval_uniform(r);
    }
    return true;
}

/* Should whole vectors of a large output go around the caches? Only what is written once and not
 * read here, in full vectors that are aligned if the buffer is. */
static bool should_stream(const tk_lower *l, const tolk_uop *u, tk_lval at, uint32_t lanes) {
    const tolk_uop *buffer = tk_access_buffer(u->src[0]), *size = buffer->src[0];
    size_t elem = tolk_dtype_bytes(buffer->dtype);
    if (tk_target_is_gpu(l->p->target) || tk_dtype_scalar(buffer->dtype) == TOLK_BOOL ||
        u->n_src != 2 || at.stride != 1 || !tk_uop_int(u, TK_A_STORE_INBOUNDS) ||
        !tk_uop_is_const(size) || size->attr[0].i < STREAM_BYTES / (int64_t)elem ||
        lanes * elem < l->p->target->vec_bytes || tk_affine_divisor(at.u) < (int64_t)lanes)
        return false;
    for (size_t k = 0; k < l->v.order.n; k++) {
        const tolk_uop *x = l->v.order.at[k];
        if (tk_uop_is(x, TK_OP_LOAD) && tk_access_buffer(x->src[0]) == buffer)
            return false;
    }
    return true;
}

static const tolk_uop *streamed(tk_lower *l, const tolk_uop *store) {
    tk_attr attrs[2] = {store->attr[0], {.i = 1}};
    return tk_uop(l->g, TK_OP_STORE, TOLK_VOID, store->src, store->n_src, attrs);
}

bool tk_lower_store(tk_lower *l, const tolk_uop *u) {
    const uint64_t *set = tk_kview_set(&l->v, u);
    uint32_t n = tk_lower_instances(l, set), lanes = tk_lower_lanes(l, u);
    const tolk_uop *root = tk_access_buffer(u->src[0]), *buffer = buffer_value(l, u->src[0]);
    tk_lower_reg *reg = tk_kview_is_global(root) ? NULL : tk_lower_reg_info(l, root);
    int scope = tk_lower_scope_of(l, u);
    const tolk_uop *last = NULL;
    for (uint32_t k = 0; k < n; k++) {
        tk_lval at = tk_lower_source(l, u, k, 0), value = tk_lower_source(l, u, k, 1);
        if (reg) {
            int64_t e = reg_element(l, reg, u, k, at);
            if (e < 0 || u->n_src == 3)
                return reg_error(l, u);
            last = tk_lower_reg_store(l, buffer, e,
                                      tk_lower_vector(l, value, tolk_dtype_lanes(buffer->dtype)));
        } else {
            bool one;
            const tolk_uop *gate = NULL;
            if (u->n_src == 3) {
                tk_lval ga = tk_lower_source(l, u, k, 2);
                if (!tk_uop_is_int(ga.u, 1))
                    gate = tk_lower_vector(l, ga, lanes);
                if (!gate && !tk_uop_is_int(ga.u, 1))
                    return false;
            }
            const tolk_uop *place;
            if (lanes > 1 && tk_lval_is_scalar(at)) {
                const tolk_uop *idx = tk_uop_splat(l->g, at.u, lanes);
                place = idx ? tk_uop(l->g, TK_OP_INDEX, tolk_dtype_vec(buffer->dtype, lanes),
                                     (const tolk_uop *[]){buffer, idx}, 2, NULL)
                            : NULL;
            } else {
                place = place_of(l, buffer, at, lanes, &one);
            }
            const tolk_uop *x = tk_lower_vector(l, value, lanes);
            bool adds = tk_uop_is(u, TK_OP_ATOMIC_ADD);
            if (!place || !x)
                last = NULL;
            else if (adds)
                last = tk_uop(l->g, TK_OP_ATOMIC_ADD, TOLK_VOID,
                              (const tolk_uop *[]){place, x, gate}, gate ? 3 : 2, u->attr);
            else
                last = memory_op(l, TK_OP_STORE, TOLK_VOID, place, x, gate,
                                 tk_uop_int(u, TK_A_STORE_INBOUNDS));
            if (last && !adds && should_stream(l, u, at, lanes))
                last = streamed(l, last);
        }
        if (!tk_lower_effect(l, last, scope))
            return false;
    }
    tk_lval *v = tk_lower_new_values(l, u, n);
    for (uint32_t k = 0; v && k < n; k++)
        v[k] = tk_lval_uniform(last);
    return v != NULL;
}
