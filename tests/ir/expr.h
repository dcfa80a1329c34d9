/* SPDX-License-Identifier: MIT
 *
 * Expressions in tests: the value of one from the values of its leaves, by the value table and with
 * no help of what is tested, and random ones.
 */
#ifndef TK_TESTS_IR_EXPR_H
#define TK_TESTS_IR_EXPR_H

#include "support/tk_test.h"

#include "base/ctx.h"
#include "ir/bounds.h"
#include "ir/dtype.h"
#include "ir/scalar.h"
#include "ir/uop.h"
#include "ir/walk.h"

#include <stdio.h>
#include <stdlib.h>

static inline tolk_graph *expr_graph(void) {
    tolk_ctx *ctx;
    tolk_graph *g;
    assert_int_equal(tk_ctx_init(NULL, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
    return g;
}

static inline void expr_done(tolk_graph *g) {
    tolk_ctx *ctx = g->ctx;
    tk_graph_destroy(g);
    tk_ctx_fini(ctx);
}

static inline const tolk_uop *expr_param(tolk_graph *g, tolk_dtype dt, int64_t slot, int64_t lo,
                                         int64_t hi) {
    tk_attr a[7] = {{.i = slot},    {.blob = NULL}, {.i = TK_SPACE_ALU}, {.i = lo}, {.i = hi},
                    {.blob = NULL}, {.i = -1}};
    const tolk_uop *u = tk_uop(g, TK_OP_PARAM, dt, NULL, 0, a);
    assert_non_null(u);
    return u;
}

static inline const tolk_uop *expr_range(tolk_graph *g, int64_t size, int64_t axis) {
    return tk_uop_range(g, tk_uop_index_const(g, size), axis, TK_AXIS_LOOP);
}

static inline const tolk_uop *expr_int(tolk_graph *g, tolk_dtype dt, int64_t v) {
    return tk_uop_const(g, dt, (uint64_t)v);
}

/* Values by node id. Leaves are set by the test. */
typedef struct expr_values {
    uint64_t *bits;
    size_t n;
} expr_values;

static inline void expr_values_size(expr_values *v, const tolk_graph *g) {
    v->bits = realloc(v->bits, g->nodes.n * sizeof *v->bits);
    assert_non_null(v->bits);
    v->n = g->nodes.n;
}

/* Values of the nodes of a list from tk_walk; those of PARAM and RANGE are there already. */
static inline uint64_t expr_eval(const tk_walk_list *list, expr_values *v) {
    uint64_t last = 0;
    for (size_t i = 0; i < list->n; i++) {
        const tolk_uop *u = list->at[i];
        uint64_t s[3] = {0, 0, 0};
        for (uint32_t j = 0; j < u->n_src && j < 3; j++)
            s[j] = v->bits[u->src[j]->id];
        tk_op op = tk_uop_op(u);
        if (op == TK_OP_CONST)
            v->bits[u->id] = tk_uop_bits(u);
        else if (op == TK_OP_CAST)
            v->bits[u->id] = tk_scalar_cast(u->src[0]->dtype, u->dtype, s[0]);
        else if (op == TK_OP_BITCAST)
            v->bits[u->id] = tk_scalar_bitcast(u->src[0]->dtype, u->dtype, s[0]);
        else if (tk_op_is_alu(op))
            v->bits[u->id] = tk_scalar_alu(op, op == TK_OP_WHERE ? u->dtype : u->src[0]->dtype,
                                           s[0], s[1], s[2], true);
        last = v->bits[u->id];
    }
    return last;
}

static inline const tk_walk_list *expr_list(const tolk_uop *u, tk_walk_list *list) {
    list->n = 0;
    assert_int_equal(tk_walk(u, list), TOLK_OK);
    return list;
}

/* One line for messages. */
static inline void expr_print(const tolk_uop *u) {
    tk_walk_list list;
    tk_vec_init(&list, u->graph->al);
    expr_list(u, &list);
    for (size_t i = 0; i < list.n; i++) {
        const tolk_uop *x = list.at[i];
        char dt[16];
        fprintf(stderr, "  %%%u = %s %s", (unsigned)x->id, tk_op_get(tk_uop_op(x))->name,
                tk_dtype_text(x->dtype, dt));
        if (tk_uop_is(x, TK_OP_CONST))
            fprintf(stderr, " %lld", (long long)x->attr[0].i);
        if (tk_uop_is(x, TK_OP_PARAM))
            fprintf(stderr, " [%lld, %lld]", (long long)tk_uop_int(x, TK_A_PARAM_MIN),
                    (long long)tk_uop_int(x, TK_A_PARAM_MAX));
        for (uint32_t j = 0; j < x->n_src; j++)
            fprintf(stderr, "%s%%%u", j ? ", " : " (", (unsigned)x->src[j]->id);
        fprintf(stderr, "%s\n", x->n_src ? ")" : "");
    }
    tk_vec_fini(&list);
}

#endif
