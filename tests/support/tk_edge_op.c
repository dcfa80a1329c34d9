/* SPDX-License-Identifier: MIT */
#include "support/tk_edge_op.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/scalar.h"
#include "ir/sym.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tk_edge_op_takes(tk_op op, tolk_dtype dtype) {
    const tk_op_info *info = tk_op_get(op);
    uint8_t dom = tolk_dtype_is_float(dtype) ? TK_DOM_F : dtype == TOLK_BOOL ? TK_DOM_B : TK_DOM_I;
    return tk_op_is_alu(op) && (info->dom & dom) != 0;
}

static tolk_dtype memory(tolk_dtype dtype) {
    return dtype == TOLK_INDEX ? TOLK_I64 : dtype;
}

static tolk_dtype result(tk_op op, tolk_dtype dtype) {
    return tk_op_get(op)->result == TK_RESULT_BOOL ? TOLK_BOOL : dtype;
}

/* What an operand from memory is once it was loaded. */
static uint64_t loaded(tolk_dtype dtype, uint64_t bits) {
    return tk_dtype_canon(memory(dtype), bits);
}

/* ---- text ---- */

/* Operand k as value number `at`. */
static void put_operand(tk_strbuf *sb, tolk_dtype dtype, int k, int at) {
    if (dtype == TOLK_INDEX)
        tk_strbuf_fmt(sb, "%%%d = cast index (%%%d)\n", at, 100 + k);
}

static int operand(tolk_dtype dtype, int k, int at) {
    return dtype == TOLK_INDEX ? at : 100 + k;
}

static void put_const(tk_strbuf *sb, int at, tolk_dtype dtype, uint64_t bits) {
    tk_strbuf_fmt(sb, "%%%d = const %s ", at, tolk_dtype_name(dtype));
    tk_literal_write(sb, dtype, bits);
    tk_strbuf_char(sb, '\n');
}

/* Result r is op of the values at[0..n-1]. */
static void put_op(tk_strbuf *sb, tk_op op, tolk_dtype dtype, const int *at, uint32_t n, int r) {
    const char *out = tolk_dtype_name(result(op, dtype));
    bool index = result(op, dtype) == TOLK_INDEX;
    tk_strbuf_fmt(sb, "%%%d = %s %s (", index ? 5000 + r : 200 + r, tk_op_get(op)->name, out);
    for (uint32_t i = 0; i < n; i++)
        tk_strbuf_fmt(sb, "%s%%%d", i ? ", " : "", at[i]);
    tk_strbuf_str(sb, ")\n");
    if (index)
        tk_strbuf_fmt(sb, "%%%d = cast i64 (%%%d)\n", 200 + r, 5000 + r);
}

/* ---- rows ---- */

typedef struct table {
    tk_edge e;
    char name[64];
    tk_strbuf body;
    uint64_t *bits[TK_EDGE_OPERANDS], *want;
    uint64_t values[TK_EDGE_VALUES];
    size_t n;
} table;

static void table_init(table *t, tk_op op, tolk_dtype dtype, const char *how) {
    memset(t, 0, sizeof *t);
    tk_strbuf_init(&t->body, &tk_alloc_malloc);
    snprintf(t->name, sizeof t->name, "%s %s, %s", tk_op_get(op)->name, tolk_dtype_name(dtype),
             how);
    t->n = tk_edge_values(memory(dtype), false, t->values);
    t->e.name = t->name;
    t->e.out = memory(result(op, dtype));
}

/* Room for rows of so many operands and results. */
static void table_rows(table *t, tolk_dtype dtype, uint32_t operands, size_t rows, size_t results) {
    t->e.rows = rows;
    t->e.results = results;
    for (uint32_t k = 0; k < operands; k++) {
        t->e.in[k] = memory(dtype);
        t->e.bits[k] = t->bits[k] = malloc(rows * sizeof **t->bits);
        assert_non_null(t->bits[k]);
    }
    t->e.want = t->want = malloc(rows * results * sizeof *t->want);
    assert_non_null(t->want);
}

/* ways 0: as tk_edge_run has them. */
static void table_run(table *t, unsigned ways) {
    assert_false(t->body.failed);
    t->e.body = t->body.at ? t->body.at : "";
    if (ways)
        tk_edge_run_ways(&t->e, ways);
    else
        tk_edge_run(&t->e);
}

static void table_fini(table *t) {
    for (uint32_t k = 0; k < TK_EDGE_OPERANDS; k++)
        free(t->bits[k]);
    free(t->want);
    tk_strbuf_fini(&t->body);
}

void tk_edge_op_pairs(tk_op op, tolk_dtype dtype, tk_edge_model model) {
    const uint32_t operands = tk_op_get(op)->max_src;
    table t;
    table_init(&t, op, dtype, "from memory");
    size_t rows = t.n;
    for (uint32_t k = 1; k < operands; k++)
        rows *= t.n;
    table_rows(&t, dtype, operands, rows, 1);
    for (size_t i = 0; i < rows; i++) {
        uint64_t v[3] = {0, 0, 0};
        size_t at = i;
        for (uint32_t k = 0; k < operands; k++, at /= t.n) {
            t.bits[k][i] = t.values[at % t.n];
            v[k] = loaded(dtype, t.bits[k][i]);
        }
        t.want[i] = model(op, dtype, v[0], v[1], v[2]);
    }
    int at[3] = {0, 0, 0};
    for (uint32_t k = 0; k < operands; k++) {
        put_operand(&t.body, dtype, (int)k, 300 + (int)k);
        at[k] = operand(dtype, (int)k, 300 + (int)k);
    }
    put_op(&t.body, op, dtype, at, operands, 0);
    table_run(&t, 0);
    table_fini(&t);
}

void tk_edge_op_same(tk_op op, tolk_dtype dtype, tk_edge_model model) {
    const uint32_t operands = tk_op_get(op)->max_src;
    table t;
    table_init(&t, op, dtype, "of one value");
    table_rows(&t, dtype, 1, t.n, 1);
    for (size_t i = 0; i < t.n; i++) {
        uint64_t v = loaded(dtype, t.bits[0][i] = t.values[i]);
        t.want[i] = model(op, dtype, v, v, v);
    }
    put_operand(&t.body, dtype, 0, 300);
    int x = operand(dtype, 0, 300), at[3] = {x, x, x};
    put_op(&t.body, op, dtype, at, operands, 0);
    table_run(&t, TK_EDGE_NONE | TK_EDGE_LANES | TK_EDGE_ONE_TARGET);
    table_fini(&t);
}

/* Constants first .. first+n-1 on both sides of what is loaded. */
static void run_constants(tk_op op, tolk_dtype dtype, tk_edge_model model, size_t first, size_t n) {
    table t;
    table_init(&t, op, dtype, "with constants");
    table_rows(&t, dtype, 1, t.n, 2 * n);
    put_operand(&t.body, dtype, 0, 300);
    const int x = operand(dtype, 0, 300);
    for (size_t i = 0; i < t.n; i++)
        t.bits[0][i] = t.values[i];
    for (size_t k = 0; k < n; k++) {
        const uint64_t c = loaded(dtype, t.values[first + k]);
        const int at = 400 + (int)k, right[2] = {x, at}, left[2] = {at, x};
        put_const(&t.body, at, dtype, c);
        put_op(&t.body, op, dtype, right, 2, (int)(2 * k));
        put_op(&t.body, op, dtype, left, 2, (int)(2 * k) + 1);
        for (size_t i = 0; i < t.n; i++) {
            const uint64_t v = loaded(dtype, t.values[i]);
            t.want[2 * k * t.n + i] = model(op, dtype, v, c, 0);
            t.want[(2 * k + 1) * t.n + i] = model(op, dtype, c, v, 0);
        }
    }
    /* The first have 0, 1, -1, powers of two: what rules are made for. */
    const unsigned ways = first ? TK_EDGE_NONE : TK_EDGE_NONE | TK_EDGE_LANES;
    table_run(&t, tk_test_share() >= 100 ? TK_EDGE_LANES : ways | TK_EDGE_ONE_TARGET);
    table_fini(&t);
}

void tk_edge_op_constants(tk_op op, tolk_dtype dtype, tk_edge_model model) {
    enum { AT_ONCE = 8 };
    uint64_t values[TK_EDGE_VALUES];
    const size_t n = tk_edge_values(memory(dtype), false, values);
    if (tk_op_get(op)->max_src != 2)
        return;
    static uint64_t rng;
    if (!rng)
        rng = tk_test_seed() | 1;
    const size_t drawn = tk_test_rand(&rng) % (n / AT_ONCE + 1) * AT_ONCE;
    for (size_t at = 0; at < n; at += AT_ONCE)
        if (at == 0 || at == drawn || tk_test_share() >= 100)
            run_constants(op, dtype, model, at, n - at < AT_ONCE ? n - at : AT_ONCE);
}

void tk_edge_op_scalars(tk_op op, tolk_dtype dtype) {
    if (tk_op_get(op)->max_src != 2)
        return;
    static int turn;
    const int only = tk_test_share() < 100 ? turn++ % 2 : -1;
    for (int which = 0; which < 2; which++) {
        if (only >= 0 && which != only)
            continue;
        table t;
        table_init(&t, op, dtype, "with a scalar");
        table_rows(&t, dtype, 2, t.n, 1);
        for (size_t i = 0; i < t.n; i++)
            t.bits[0][i] = t.bits[1][i] = t.values[i];
        put_operand(&t.body, dtype, 0, 300);
        put_operand(&t.body, dtype, 1, 301);
        const int at[2] = {operand(dtype, 0, 300), operand(dtype, 1, 301)};
        put_op(&t.body, op, dtype, at, 2, 0);
        t.e.body = t.body.at;
        tk_edge_run_scalar(&t.e, which, t.values, t.n);
        table_fini(&t);
    }
}

/* ---- folding ---- */

static void check_fold(tolk_graph *g, tk_op op, tolk_dtype dtype, const uint64_t *v,
                       uint64_t want) {
    const uint32_t n = tk_op_get(op)->max_src;
    const tolk_uop *c[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < n; k++)
        c[k] = tk_uop_const(g, dtype, v[k]);
    const tolk_uop *u = n == 3   ? tk_uop3(g, op, c[0], c[1], c[2])
                        : n == 2 ? tk_uop2(g, op, c[0], c[1])
                                 : tk_uop1(g, op, c[0]);
    const tolk_uop *r = tk_sym(g, u);
    assert_non_null(r);
    if (!tk_uop_is_const(r))
        fail_msg("%s %s of constants is not folded", tk_op_get(op)->name, tolk_dtype_name(dtype));
    if (r->dtype != result(op, dtype) || !tk_scalar_same(r->dtype, tk_uop_bits(r), want))
        fail_msg("%s %s of 0x%llx, 0x%llx, 0x%llx is folded to 0x%llx, expected 0x%llx",
                 tk_op_get(op)->name, tolk_dtype_name(dtype), (unsigned long long)v[0],
                 (unsigned long long)v[1], (unsigned long long)v[2],
                 (unsigned long long)tk_uop_bits(r), (unsigned long long)want);
}

void tk_edge_op_folded(tk_op op, tolk_dtype dtype, tk_edge_model model) {
    const uint32_t operands = tk_op_get(op)->max_src;
    uint64_t values[TK_EDGE_VALUES];
    const size_t n = tk_edge_values(memory(dtype), false, values);
    tolk_graph *g = tk_edge_graph();
    const size_t rows = operands > 1 ? n * n : n;
    for (size_t i = 0; i < rows; i++) {
        const uint64_t v[3] = {loaded(dtype, values[i % n]), loaded(dtype, values[i / n]),
                               loaded(dtype, values[(i * 7 + i / n) % n])};
        check_fold(g, op, dtype, v, model(op, dtype, v[0], v[1], v[2]));
    }
    tolk_graph_destroy(g);
}

/* ---- facts ---- */

static void run_fact(const tk_edge_fact *f, bool constants) {
    const uint32_t operands = tk_op_get(f->op)->max_src;
    const uint64_t v[2] = {loaded(f->dtype, f->a), loaded(f->dtype, f->b)};
    table t;
    table_init(&t, f->op, f->dtype, constants ? "constants" : "stated value");
    table_rows(&t, f->dtype, constants ? 0 : operands, 1, 1);
    int at[2] = {0, 0};
    for (uint32_t k = 0; k < operands; k++) {
        at[k] = constants ? 300 + (int)k : operand(f->dtype, (int)k, 300 + (int)k);
        if (constants) {
            put_const(&t.body, at[k], f->dtype, v[k]);
            continue;
        }
        put_operand(&t.body, f->dtype, (int)k, 300 + (int)k);
        t.bits[k][0] = v[k];
    }
    put_op(&t.body, f->op, f->dtype, at, operands, 0);
    t.want[0] = tk_dtype_canon(result(f->op, f->dtype), f->want);
    table_run(&t, TK_EDGE_NONE | TK_EDGE_ONE_TARGET);
    table_fini(&t);
}

void tk_edge_op_facts(const tk_edge_fact *facts, size_t n) {
    tolk_graph *g = tk_edge_graph();
    for (size_t i = 0; i < n; i++) {
        const tk_edge_fact *f = &facts[i];
        const uint64_t v[3] = {loaded(f->dtype, f->a), loaded(f->dtype, f->b), 0};
        run_fact(f, false);
        run_fact(f, true);
        check_fold(g, f->op, f->dtype, v, tk_dtype_canon(result(f->op, f->dtype), f->want));
    }
    tolk_graph_destroy(g);
}
