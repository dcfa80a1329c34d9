/* SPDX-License-Identifier: MIT
 *
 * One node at a time: elementwise ops, lanes, places and memory.
 */
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/interp_plan.h"
#include "ir/scalar.h"

#include <string.h>

/* ---- memory ---- */

static char *memory_of(const tk_interp *in, const tk_interp_item *it, const tk_interp_buf *f) {
    switch (f->memory) {
    case TK_INTERP_ARG:
        return f->base;
    case TK_INTERP_RUN:
        return in->run_memory + f->offset;
    case TK_INTERP_LOCAL:
        return in->local + f->offset;
    default:
        return it->reg + f->offset;
    }
}

static uint64_t read_scalar(const char *p, tolk_dtype dt) {
    uint8_t b;
    uint16_t h;
    uint32_t w;
    uint64_t d;
    switch (tolk_dtype_bytes(dt)) {
    case 1:
        memcpy(&b, p, 1);
        return tk_dtype_canon(dt, b);
    case 2:
        memcpy(&h, p, 2);
        return tk_dtype_canon(dt, h);
    case 4:
        memcpy(&w, p, 4);
        return tk_dtype_canon(dt, w);
    default:
        memcpy(&d, p, 8);
        return d;
    }
}

static void write_scalar(char *p, tolk_dtype dt, uint64_t bits) {
    uint8_t b = (uint8_t)bits;
    uint16_t h = (uint16_t)bits;
    uint32_t w = (uint32_t)bits;
    switch (tolk_dtype_bytes(dt)) {
    case 1:
        memcpy(p, &b, 1);
        break;
    case 2:
        memcpy(p, &h, 2);
        break;
    case 4:
        memcpy(p, &w, 4);
        break;
    default:
        memcpy(p, &bits, 8);
        break;
    }
}

static void eval_place(tk_interp *in, tk_interp_item *it, const tk_interp_node *k, uint32_t n) {
    const tk_interp_buf *f = &in->plan.bufs.at[k->buf];
    uint8_t state = TK_INTERP_DONE;
    if (f->rank <= 1) {
        uint64_t *out = it->val + k->val;
        *out = 0;
        if (f->rank == 1) {
            uint32_t s = tk_interp_src(in, k, 1);
            memcpy(out, it->val + tk_interp_node_at(in, s)->val, k->width * sizeof *out);
            state |= it->state[s] & TK_INTERP_INVALID;
        }
        it->state[n] = state;
        return;
    }
    uint64_t at = 0;
    for (uint32_t d = 0; d < f->rank; d++) {
        uint32_t s = tk_interp_src(in, k, d + 1);
        uint64_t i = it->val[tk_interp_node_at(in, s)->val];
        state |= it->state[s] & TK_INTERP_INVALID;
        if (i >= (uint64_t)f->dim[d])
            state |= TK_INTERP_BAD;
        at = at * (uint64_t)f->dim[d] + i;
    }
    it->val[k->val] = at;
    it->state[n] = state;
}

/* One access: which element each lane is, and whether it may be touched. */
typedef struct access {
    const tk_interp_buf *f;
    char *memory;
    const uint64_t *index, *gate; /* gate NULL: always */
    uint32_t index_width, gate_width;
    bool bad, off;
} access;

static access access_of(const tk_interp *in, const tk_interp_item *it, const tk_interp_node *k) {
    uint32_t p = tk_interp_src(in, k, 0);
    const tk_interp_node *place = tk_interp_node_at(in, p);
    access a = {.f = &in->plan.bufs.at[k->buf],
                .index = it->val + place->val,
                .index_width = place->width,
                .bad = (it->state[p] & TK_INTERP_BAD) != 0,
                .off = (it->state[p] & TK_INTERP_INVALID) != 0};
    a.memory = memory_of(in, it, a.f);
    if (k->u->n_src == 3) {
        const tk_interp_node *gate = tk_interp_node_at(in, tk_interp_src(in, k, 2));
        a.gate = it->val + gate->val;
        a.gate_width = gate->width;
    }
    return a;
}

/* Is lane l let through its gates? */
static bool is_open(const access *a, uint32_t l) {
    return !a->off && (!a->gate || a->gate[a->gate_width > 1 ? l : 0]);
}

/* Address of lane l, or NULL if it is out of the buffer: recorded as the run's fault. */
static char *address(tk_interp *in, const tk_interp_node *k, const access *a, uint32_t l) {
    const tk_interp_buf *f = a->f;
    uint64_t i = a->index_width > 1 ? a->index[l] : a->index[0] + l / f->lanes;
    uint64_t part = a->index_width > 1 ? 0 : l % f->lanes;
    if (!a->bad && i < (uint64_t)f->scalars / f->lanes)
        return a->memory + (i * f->lanes + part) * tolk_dtype_bytes(f->dt);
    if (!in->fault) {
        in->fault = true;
        in->fault_store = k->op != TK_OP_LOAD;
        in->fault_bad = a->bad;
        in->fault_buf = k->buf;
        in->fault_index = (int64_t)i;
    }
    return NULL;
}

static void eval_load(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    access a = access_of(in, it, k);
    const uint64_t *alt = NULL;
    if (k->u->n_src == 3)
        alt = it->val + tk_interp_node_at(in, tk_interp_src(in, k, 1))->val;
    for (uint32_t l = 0; l < k->width; l++) {
        uint64_t v = 0;
        if (!is_open(&a, l)) {
            v = alt ? alt[l] : 0;
        } else {
            const char *p = address(in, k, &a, l);
            if (p)
                v = read_scalar(p, a.f->dt);
        }
        it->val[k->val + l] = v;
    }
}

static void eval_store(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    access a = access_of(in, it, k);
    const tk_interp_node *value = tk_interp_node_at(in, tk_interp_src(in, k, 1));
    tolk_dtype dt = a.f->dt;
    if (k->op == TK_OP_ATOMIC_ADD && tk_uop_attr(k->u, TK_A_ATOMIC_ADD_CODE).blob)
        dt = tk_check_code(tk_uop_attr(k->u, TK_A_ATOMIC_ADD_CODE).blob);
    for (uint32_t l = 0; l < value->width; l++) {
        if (!is_open(&a, l))
            continue;
        char *p = address(in, k, &a, l);
        if (!p)
            continue;
        uint64_t v = it->val[value->val + l];
        if (k->op == TK_OP_ATOMIC_ADD)
            v = tk_scalar_alu(TK_OP_ADD, dt, read_scalar(p, a.f->dt), v, 0, in->fma);
        write_scalar(p, a.f->dt, v);
    }
}

/* ---- values ---- */

static void eval_alu(tk_interp *in, tk_interp_item *it, const tk_interp_node *k, uint32_t n) {
    const uint64_t *v[3] = {it->val, it->val, it->val};
    uint32_t n_src = k->u->n_src, s[3] = {0, 0, 0};
    for (uint32_t i = 0; i < n_src && i < 3; i++) {
        s[i] = tk_interp_src(in, k, i);
        v[i] = it->val + tk_interp_node_at(in, s[i])->val;
    }
    uint64_t *out = it->val + k->val;
    tolk_dtype from = tk_interp_node_at(in, s[0])->dt;
    uint8_t state = TK_INTERP_DONE;
    switch (k->op) {
    case TK_OP_CAST:
        for (uint32_t l = 0; l < k->width; l++)
            out[l] = tk_scalar_cast(from, k->dt, v[0][l]);
        break;
    case TK_OP_BITCAST:
        for (uint32_t l = 0; l < k->width; l++)
            out[l] = tk_scalar_bitcast(from, k->dt, v[0][l]);
        break;
    case TK_OP_WHERE:
        for (uint32_t l = 0; l < k->width; l++)
            out[l] = v[0][l] ? v[1][l] : v[2][l];
        /* where(valid, i, invalid) is the index that means: do not access. Only scalars have it. */
        state |= it->state[v[0][0] ? s[1] : s[2]] & TK_INTERP_INVALID;
        break;
    default:
        for (uint32_t l = 0; l < k->width; l++)
            out[l] = tk_scalar_alu(k->op, from, v[0][l], v[1][l], v[2][l], in->fma);
        for (uint32_t i = 0; i < n_src && i < 3; i++)
            state |= it->state[s[i]] & TK_INTERP_INVALID;
        break;
    }
    it->state[n] = state;
}

static void eval_stack(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    uint64_t *out = it->val + k->val;
    for (uint32_t i = 0; i < k->u->n_src; i++) {
        const tk_interp_node *s = tk_interp_node_at(in, tk_interp_src(in, k, i));
        memcpy(out, it->val + s->val, s->width * sizeof *out);
        out += s->width;
    }
}

/* Element of a vector. An index past its end, which no verified graph has, gives 0. */
static void eval_element(tk_interp *in, tk_interp_item *it, const tk_interp_node *k) {
    const tk_interp_node *v = tk_interp_node_at(in, tk_interp_src(in, k, 0));
    uint64_t i = it->val[tk_interp_node_at(in, tk_interp_src(in, k, 1))->val];
    it->val[k->val] = i < v->width ? it->val[v->val + i] : 0;
}

static void copy_source(tk_interp *in, tk_interp_item *it, const tk_interp_node *k, uint32_t n) {
    uint32_t s = tk_interp_src(in, k, 0);
    if (!k->width)
        return;
    memcpy(it->val + k->val, it->val + tk_interp_node_at(in, s)->val, k->width * sizeof *it->val);
    it->state[n] |= it->state[s] & TK_INTERP_INVALID;
}

void tk_interp_eval(tk_interp *in, tk_interp_item *it, uint32_t n) {
    const tk_interp_node *k = tk_interp_node_at(in, n);
    if (tk_op_is_alu(k->op)) {
        eval_alu(in, it, k, n);
        return;
    }
    it->state[n] = TK_INTERP_DONE;
    switch (k->op) {
    case TK_OP_STACK:
        eval_stack(in, it, k);
        break;
    case TK_OP_INDEX:
        if (k->buf >= 0)
            eval_place(in, it, k, n);
        else
            eval_element(in, it, k);
        break;
    case TK_OP_LOAD:
        eval_load(in, it, k);
        break;
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        eval_store(in, it, k);
        break;
    case TK_OP_AFTER:
    case TK_OP_SHUFFLE: /* alone in its group: its own value */
        copy_source(in, it, k, n);
        break;
    default: /* order only: GROUP, SINK, BARRIER; leaves have their values from the start */
        break;
    }
}
