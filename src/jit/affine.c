/* SPDX-License-Identifier: MIT */
#include "jit/affine.h"

#include "ir/bounds.h"

static const tk_step none = {TK_STEP_NONE, 0}, unknown = {TK_STEP_UNKNOWN, 0};

static tk_step constant(tk_wide elems) {
    if (elems > INT64_MAX || elems < INT64_MIN)
        return unknown;
    return (tk_step){TK_STEP_CONST, (int64_t)elems};
}

static tk_step add(tk_step a, tk_step b, int sign) {
    if (a.kind == TK_STEP_UNKNOWN || b.kind == TK_STEP_UNKNOWN)
        return unknown;
    if (a.kind == TK_STEP_NONE && b.kind == TK_STEP_NONE)
        return none;
    return constant((tk_wide)a.elems + (tk_wide)sign * b.elems);
}

static tk_step scale(tk_step a, const tolk_uop *factor) {
    if (a.kind != TK_STEP_CONST)
        return a;
    if (!tk_uop_is_const(factor))
        return unknown;
    return constant((tk_wide)a.elems * factor->attr[0].i);
}

void tk_affine_steps(const tk_kview *v, const tolk_uop *range, tk_step *out) {
    uint32_t no = tk_kview_no(v, range);
    for (size_t k = 0; k < v->order.n; k++) {
        const tolk_uop *u = v->order.at[k];
        tk_step *s = &out[u->id];
        if (u == range) {
            *s = (tk_step){TK_STEP_CONST, 1};
            continue;
        }
        if (!tk_set_has(tk_kview_set(v, u), no)) {
            *s = none;
            continue;
        }
        *s = unknown;
        if (!tolk_dtype_is_int(u->dtype))
            continue;
        const tk_step *a = u->n_src > 0 ? &out[u->src[0]->id] : NULL;
        const tk_step *b = u->n_src > 1 ? &out[u->src[1]->id] : NULL;
        switch (tk_uop_op(u)) {
        case TK_OP_ADD:
            *s = add(*a, *b, 1);
            break;
        case TK_OP_SUB:
            *s = add(*a, *b, -1);
            break;
        case TK_OP_NEG:
            *s = add(none, *a, -1);
            break;
        case TK_OP_MUL:
            if (b->kind == TK_STEP_NONE)
                *s = scale(*a, u->src[1]);
            else if (a->kind == TK_STEP_NONE)
                *s = scale(*b, u->src[0]);
            break;
        case TK_OP_CAST:
            *s = *a;
            break;
        case TK_OP_WHERE: {
            /* A gated index moves like its valid arm. */
            if (tk_uop_is_invalid(u->src[2]))
                *s = *b;
            break;
        }
        default:
            break;
        }
    }
}

tk_step tk_affine_place(const tk_step *steps, const tolk_uop *place) {
    const tolk_uop *buffer = tk_access_buffer(place);
    const tolk_uop *shape = buffer->n_src ? buffer->src[0] : NULL;
    tk_step total = none;
    tk_wide stride = 1;
    bool known = true;
    for (uint32_t d = place->n_src; d-- > 1;) {
        tk_step s = steps[place->src[d]->id];
        if (s.kind == TK_STEP_UNKNOWN || (s.kind == TK_STEP_CONST && s.elems && !known))
            return unknown;
        if (s.kind == TK_STEP_CONST)
            total = add(total, constant((tk_wide)s.elems * stride), 1);
        if (d == 1)
            break;
        const tolk_uop *dim = tk_uop_is(shape, TK_OP_STACK) ? shape->src[d - 1] : shape;
        if (!tk_uop_is_const(dim) || dim->attr[0].i > INT32_MAX || stride > INT32_MAX)
            known = false;
        else
            stride *= dim->attr[0].i;
    }
    return total;
}

static int64_t divisor(const tolk_uop *u, int depth) {
    if (tk_uop_is_const(u)) {
        uint64_t v = tk_uop_bits(u) | 64;
        return (int64_t)(v & (0 - v));
    }
    if (depth > 8 || u->n_src != 2 || (!tk_uop_is(u, TK_OP_ADD) && !tk_uop_is(u, TK_OP_MUL)))
        return 1;
    int64_t a = divisor(u->src[0], depth + 1), b = divisor(u->src[1], depth + 1);
    if (tk_uop_is(u, TK_OP_ADD))
        return a < b ? a : b;
    return a * b > 64 ? 64 : a * b;
}

int64_t tk_affine_divisor(const tolk_uop *index) {
    return divisor(index, 0);
}
