/* SPDX-License-Identifier: MIT
 *
 * What the tests of symbolic algebra share.
 */
#ifndef TK_TESTS_IR_SYM_CHECK_H
#define TK_TESTS_IR_SYM_CHECK_H

#include "ir/expr.h"
#include "ir/sym.h"

#include <string.h>

static const tolk_dtype ints[] = {TOLK_INDEX, TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64,
                                  TOLK_U8,    TOLK_U16, TOLK_U32, TOLK_U64};
enum { INTS = sizeof ints / sizeof *ints };

static inline const tolk_uop *sym(const tolk_uop *u) {
    const tolk_uop *v = tk_sym(u->graph, u);
    if (!v) {
        expr_print(u);
        fail_msg("%s", u->graph->error.msg);
    }
    return v;
}

static inline const tolk_uop *op2(tk_op op, const tolk_uop *a, const tolk_uop *b) {
    return tk_uop2(a->graph, op, a, b);
}

static inline const tolk_uop *op2k(tk_op op, const tolk_uop *a, int64_t k) {
    return op2(op, a, expr_int(a->graph, a->dtype, k));
}

/* An expression and its simplified form, and values for the nodes of both. */
typedef struct comparison {
    expr_values values;
    tk_walk_list before, after;
} comparison;

static inline void compare_init(comparison *c) {
    memset(c, 0, sizeof *c);
    tk_vec_init(&c->before, &tk_alloc_malloc);
    tk_vec_init(&c->after, &tk_alloc_malloc);
}

static inline void compare_fini(comparison *c) {
    free(c->values.bits);
    tk_vec_fini(&c->before);
    tk_vec_fini(&c->after);
}

#endif
