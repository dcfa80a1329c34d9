/* SPDX-License-Identifier: MIT
 *
 * The rules of one node that can be seen from the node and its sources alone: number and dtypes of
 * sources, lanes, result dtype, attributes. What needs the whole graph is in verify.h, what needs
 * shapes is in shape.h.
 */
#ifndef TK_IR_CHECK_H
#define TK_IR_CHECK_H

#include "ir/uop.h"

enum {
    TK_MAX_RANK = 8,        /* of a param or buffer */
    TK_MAX_TENSOR_RANK = 32 /* of any other shape */
};

/* Check a node before it is made (or again, on a node that passes made).
 *
 *   src: n sources of g; attrs: as many as the op has, in table order (CONST: its value), or NULL
 *   for all default.
 * Costs O(n) and reads no memo. Errors: TOLK_E_VERIFY, _DTYPE, _SHAPE, _LIMIT, _RANGE or _ARG; err
 * (may be NULL) says "op: what is there, what was expected" and has no node number.
 */
tolk_status tk_check_node(tolk_graph *g, tk_op op, tolk_dtype dtype, const tolk_uop *const *src,
                          size_t n, const tk_attr *attrs, tolk_error *err);

/* The same for an existing node. */
static inline tolk_status tk_check_uop(const tolk_uop *u, tolk_error *err) {
    return tk_check_node(u->graph, tk_uop_op(u), u->dtype, u->src, u->n_src, u->attr, err);
}

/* A param or buffer that is memory (not a scalar param)? AFTER around it is not looked through. */
static inline bool tk_check_is_buffer(const tolk_uop *u) {
    return u->op == TK_OP_BUFFER ||
           (u->op == TK_OP_PARAM && tk_uop_int(u, TK_A_PARAM_SPACE) != TK_SPACE_ALU);
}
/* A param that is a scalar. */
static inline bool tk_check_is_scalar_param(const tolk_uop *u) {
    return u->op == TK_OP_PARAM && tk_uop_int(u, TK_A_PARAM_SPACE) == TK_SPACE_ALU;
}
/* An argument of a call that is a value, and no buffer. */
static inline bool tk_check_is_value(const tolk_uop *u) {
    return u->op == TK_OP_BIND || tk_check_is_scalar_param(u);
}

/* A SINK of states of buffers, which is a graph of calls, rather than one of effects, which is a
 * kernel: it has no name, and its first source is a value. */
static inline bool tk_check_is_states(const tolk_uop *u) {
    return u->op == TK_OP_SINK && !tk_uop_str(u, TK_A_SINK_NAME) &&
           (!u->n_src || u->src[0]->dtype != TOLK_VOID);
}
/* A CALL of calls, in an order (LINEAR) or without one (a SINK of states)? Its PARAMs are those of
 * its body alone. */
static inline bool tk_check_calls_list(const tolk_uop *u) {
    return u->op == TK_OP_CALL && (u->src[0]->op == TK_OP_LINEAR || tk_check_is_states(u->src[0]));
}

/* What kind of work-item index a SPECIAL of that name is. */
typedef enum tk_special {
    TK_SPECIAL_NONE, /* no such name */
    TK_SPECIAL_GIDX,
    TK_SPECIAL_LIDX,
    TK_SPECIAL_IDX,
    TK_SPECIAL_SPAN_BEGIN,
    TK_SPECIAL_SPAN_END
} tk_special;
/* axis (may be NULL) is set to 0..2 for the first three kinds. */
tk_special tk_check_special(const char *name, int *axis);

/* The narrow float dtype that the attribute "code" of an ATOMIC_ADD names; TOLK_VOID: none. */
tolk_dtype tk_check_code(const tk_blob *name);

/* Multiply *product by dim, both not negative; false if 63 bits do not hold it. */
bool tk_check_mul(int64_t *product, int64_t dim);

#endif
