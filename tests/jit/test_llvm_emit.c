/* SPDX-License-Identifier: MIT
 *
 * Values: every op, dtype and number of lanes on edge values, compiled for each target that this
 * machine can run, against the interpreter; and what emission refuses.
 */
#include "support/tk_code.h"
#include "support/tk_object.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/scalar.h"
#include "jit/llvm_api.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 1024, MAX_EDGES = 40 };

static const tolk_dtype dtypes[] = {TOLK_BOOL, TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64, TOLK_U8,
                                    TOLK_U16,  TOLK_U32, TOLK_U64, TOLK_F32, TOLK_F64};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* ---- data ---- */

static uint64_t f64_bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Canonical bits of values where something happens. Returns their number. */
static uint32_t edges(tolk_dtype dt, uint64_t *out) {
    static const double floats[] = {
        0.0,     -0.0,          1.0,       -1.0,           0.5,     -0.5,          1.5,
        -2.5,    0x1p-149,      0x1p-1074, 0x1.8p-127,     127.9,   -128.5,        128.0,
        255.5,   -0.9,          32767.5,   65535.9,        0x1p23,  0x1.000002p24, 0x1p31,
        -0x1p31, 0x1.fffffep31, 0x1p32,    -0x1.00001p31,  0x1p52,  0x1.8p53,      0x1p63,
        -0x1p63, 0x1p64,        -0x1.8p63, 0x1.fffffep127, 3.14159, 1e-20};
    static const int64_t ints[] = {0,  1,  2,  3,  5,    7,    8,   9,   15,    16,
                                   31, 32, 33, 63, 64,   65,   100, 127, 128,   -1,
                                   -2, -3, -7, -8, -128, -129, 255, 256, 32767, -32768};
    uint32_t n = 0;
    if (tolk_dtype_is_float(dt)) {
        for (uint32_t i = 0; i < sizeof floats / sizeof *floats; i++)
            out[n++] = tk_scalar_cast(TOLK_F64, dt, f64_bits(floats[i]));
        out[n++] = dt == TOLK_F32 ? 0x7f800000 : 0x7ff0000000000000;
        out[n++] = dt == TOLK_F32 ? 0xff800000 : 0xfff0000000000000;
        out[n++] = dt == TOLK_F32 ? 0x7fc00000 : 0x7ff8000000000000;
        out[n++] = dt == TOLK_F32 ? 0xffc12345 : 0xfff8123456789abc;
        return n;
    }
    if (dt == TOLK_BOOL) {
        out[n++] = 0;
        out[n++] = 1;
        return n;
    }
    for (uint32_t i = 0; i < sizeof ints / sizeof *ints; i++)
        out[n++] = tk_dtype_canon(dt, (uint64_t)ints[i]);
    out[n++] = (uint64_t)tk_dtype_min(dt);
    out[n++] = (uint64_t)tk_dtype_min(dt) + 1;
    out[n++] = tk_dtype_canon(dt, UINT64_MAX);
    out[n++] = dt == TOLK_U64 ? UINT64_MAX - 1 : (uint64_t)tk_dtype_max(dt);
    out[n++] = (uint64_t)tk_dtype_max(dt) - 1;
    out[n++] = tk_dtype_canon(dt, 0xfffff80000000001);
    out[n++] = tk_dtype_canon(dt, 0x8000008000000001);
    return n;
}

typedef struct column {
    char bytes[ROWS * 8];
} column;

/* Operand k (0, 1, 2) of each row: all pairs of edges as far as they go, then random bits. Bools
 * are bytes of any value. */
static void fill(column *c, tolk_dtype dt, uint32_t k, uint64_t *random) {
    uint64_t edge[MAX_EDGES];
    uint32_t n = edges(dt, edge);
    for (uint32_t i = 0; i < ROWS; i++) {
        /* Where there are more pairs than rows, a stride that meets all edges. */
        uint64_t at = (uint64_t)i * (n * n > ROWS ? 7 : 1) % (n * n);
        uint64_t bits = edge[k == 0 ? at % n : k == 1 ? at / n : (at * 5 + at / n) % n];
        if (i >= n * n || (i % 8 == 7 && n * n > ROWS))
            bits = tk_test_rand(random);
        if (dt == TOLK_BOOL && bits && i % 3 == 0)
            bits = 0x80;
        memcpy(c->bytes + i * tolk_dtype_bytes(dt), &bits, tolk_dtype_bytes(dt));
    }
}

/* ---- one op ---- */

typedef struct op_case {
    tk_op op;
    tolk_dtype in[3], out; /* TOLK_VOID: no such operand */
    uint32_t lanes;
    bool constant; /* operand 1 is a constant */
    uint64_t bits; /* that constant */
} op_case;

static const tolk_uop *row_operand(tk_code *c, const op_case *o, const tolk_uop *buffer, uint32_t k,
                                   const tolk_uop *at) {
    tolk_dtype dt = o->in[k];
    if (k == 1 && o->constant)
        return tk_code_splat(c, tk_code_add(c, tk_uop_const(c->g, dt, o->bits)), o->lanes);
    return tk_code_load(c, tolk_dtype_vec(dt, o->lanes), tk_code_place(c, buffer, at), NULL, NULL,
                        true);
}

static const tolk_uop *op_program(tk_code *c, const op_case *o) {
    const tolk_uop *rows = tk_code_index(c, ROWS), *out = tk_code_param(c, o->out, rows, 0);
    const tolk_uop *in[3] = {NULL, NULL, NULL}, *x[3] = {NULL, NULL, NULL}, *r;
    for (uint32_t k = 0; k < 3 && o->in[k]; k++)
        in[k] = tk_code_param(c, o->in[k], rows, k + 1);
    const tolk_uop *lanes = tk_code_index(c, o->lanes);
    const tolk_uop *range = tk_code_range(c, tk_code_index(c, ROWS / o->lanes), 0, false);
    const tolk_uop *at = tk_code_op(c, TK_OP_MUL, range, lanes, NULL);
    for (uint32_t k = 0; k < 3 && o->in[k]; k++)
        x[k] = row_operand(c, o, in[k], k, at);
    if (o->op == TK_OP_CAST)
        r = tk_code_cast(c, x[0], o->out);
    else if (o->op == TK_OP_BITCAST)
        r = tk_code_add(c, tk_uop_bitcast(c->g, x[0], o->out));
    else
        r = tk_code_op(c, o->op, x[0], x[1], x[2]);
    tk_code_store(c, tk_code_place(c, out, at), r, NULL, true);
    tk_code_end(c, range);
    return tk_code_done(c);
}

static void run_op(const op_case *o, uint64_t *random) {
    static column data[4];
    char what[64], a[16], b[16];
    snprintf(what, sizeof what, "%s %s -> %s, %u lanes%s", tk_op_get(o->op)->name,
             tk_dtype_text(o->in[0], a), tk_dtype_text(o->out, b), o->lanes,
             o->constant ? ", constant" : "");
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *l = op_program(&c, o);
    tk_code_buf bufs[4] = {{o->out, ROWS, data[0].bytes}};
    size_t n = 1;
    fill(&data[0], o->out, 0, random);
    for (; n < 4 && o->in[n - 1]; n++) {
        fill(&data[n], o->in[n - 1], (uint32_t)n - 1, random);
        bufs[n] = (tk_code_buf){o->in[n - 1], ROWS, data[n].bytes};
    }
    for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
        tk_target target;
        bool needs_fma = o->op == TK_OP_MULACC && tolk_dtype_is_float(o->out);
        if (tk_code_target(t, &target) && (target.fma || !needs_fma))
            tk_code_compare(c.ctx, &target, l, bufs, n, NULL, 0, what);
    }
    tk_target a64 = tk_code_any_target("aarch64");
    tk_code_emit(c.ctx, &a64, l, what);
    tk_code_fini(&c);
}

static bool takes(const tk_op_info *info, tolk_dtype dt) {
    uint8_t dom = tolk_dtype_is_float(dt) ? TK_DOM_F : dt == TOLK_BOOL ? TK_DOM_B : TK_DOM_I;
    return (info->dom & dom) != 0;
}

static bool is_lowered_before(tk_op op) {
    switch (op) {
    case TK_OP_EXP:
    case TK_OP_EXP2:
    case TK_OP_LOG:
    case TK_OP_LOG2:
    case TK_OP_SIN:
    case TK_OP_COS:
    case TK_OP_TANH:
    case TK_OP_ERF:
    case TK_OP_POW:
    case TK_OP_THREEFRY:
        return true;
    default:
        return false;
    }
}

/* All lanes with the whole suite; else the share of them, and 8 in any case. */
static bool chosen(uint32_t lanes, uint64_t *random) {
    return tk_test_rand(random) % 100 < tk_test_share() || lanes == 8;
}

static void elementwise_cases(tk_op op, uint64_t *random) {
    const tk_op_info *info = tk_op_get(op);
    for (uint32_t d = 0; d < N_DTYPES; d++)
        for (uint32_t lanes = 1; lanes <= TOLK_MAX_LANES; lanes *= 2) {
            tolk_dtype dt = dtypes[d];
            bool compare = info->result == TK_RESULT_BOOL;
            if (!takes(info, dt) || !chosen(lanes, random))
                continue;
            op_case o = {.op = op, .in = {dt}, .out = compare ? TOLK_BOOL : dt, .lanes = lanes};
            for (uint32_t k = 1; k < info->max_src; k++)
                o.in[k] = dt;
            if (op == TK_OP_WHERE)
                o.in[0] = TOLK_BOOL;
            run_op(&o, random);
            if (info->max_src != 2)
                continue;
            uint64_t edge[MAX_EDGES];
            uint32_t n = edges(dt, edge);
            o.constant = true;
            o.bits = edge[tk_test_rand(random) % n];
            run_op(&o, random);
            o.constant = false;
            o.in[1] = TOLK_U32;
            if ((op == TK_OP_SHL || op == TK_OP_SHR) && dt != TOLK_U32)
                run_op(&o, random);
        }
}

static void test_emit_every_op_dtype_and_lanes_on_edge_values_equals_the_interpreter(void **state) {
    (void)state;
    uint64_t random = tk_test_seed();
    (void)tk_test_count(1);
    for (int op = 0; op < TK_OP_COUNT; op++)
        if (tk_op_is_alu((tk_op)op) && op != TK_OP_CAST && op != TK_OP_BITCAST &&
            !is_lowered_before((tk_op)op))
            elementwise_cases((tk_op)op, &random);
}

static void test_emit_every_cast_on_edge_values_equals_the_interpreter(void **state) {
    (void)state;
    uint64_t random = tk_test_seed() + 1;
    for (uint32_t a = 0; a < N_DTYPES; a++)
        for (uint32_t b = 0; b < N_DTYPES; b++)
            for (uint32_t lanes = 1; lanes <= TOLK_MAX_LANES; lanes *= 2) {
                op_case o = {.op = TK_OP_CAST, .in = {dtypes[a]}, .out = dtypes[b], .lanes = lanes};
                if (a == b || !chosen(lanes, &random))
                    continue;
                run_op(&o, &random);
                o.op = TK_OP_BITCAST;
                if (tk_dtype_bits(dtypes[a]) == tk_dtype_bits(dtypes[b]))
                    run_op(&o, &random);
            }
}

static void test_INT_01_least_number_by_minus_one_and_by_zero_does_not_trap(void **state) {
    (void)state;
    uint64_t random = tk_test_seed() + 2;
    static const tk_op ops[] = {TK_OP_CDIV, TK_OP_CMOD, TK_OP_FLOORDIV, TK_OP_FLOORMOD};
    static const uint64_t divisors[] = {0, UINT64_MAX, 1, 2, 3, 7, 8, (uint64_t)-3, (uint64_t)-8};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t d = 0; d < sizeof divisors / sizeof *divisors; d++)
            for (uint32_t k = 1; k < 9; k++) {
                op_case o = {.op = ops[i],
                             .in = {dtypes[k], dtypes[k]},
                             .out = dtypes[k],
                             .lanes = d % 2 ? 1 : 8,
                             .constant = true,
                             .bits = tk_dtype_canon(dtypes[k], divisors[d])};
                if (tk_test_rand(&random) % 100 < tk_test_share() || dtypes[k] == TOLK_I32)
                    run_op(&o, &random);
            }
}

static void test_INT_03_a_guarded_division_is_harmless_whatever_is_speculated(void **state) {
    (void)state;
    int32_t a[16], b[16], out[16] = {0};
    for (int i = 0; i < 16; i++) {
        a[i] = i % 5 == 0 ? INT32_MIN : i * 7 - 30;
        b[i] = i % 3 == 0 ? 0 : i % 4 == 1 ? -1 : i - 8;
    }
    for (uint32_t lanes = 1; lanes <= 16; lanes *= 4) {
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *n = tk_code_index(&c, 16), *p[3];
        for (int i = 0; i < 3; i++)
            p[i] = tk_code_param(&c, TOLK_I32, n, i);
        const tolk_uop *r = tk_code_range(&c, tk_code_index(&c, 16 / lanes), 0, false);
        const tolk_uop *at = tk_code_op(&c, TK_OP_MUL, r, tk_code_index(&c, lanes), NULL);
        tolk_dtype dt = tolk_dtype_vec(TOLK_I32, lanes);
        const tolk_uop *x = tk_code_load(&c, dt, tk_code_place(&c, p[1], at), NULL, NULL, true);
        const tolk_uop *y = tk_code_load(&c, dt, tk_code_place(&c, p[2], at), NULL, NULL, true);
        const tolk_uop *zero =
            tk_code_splat(&c, tk_code_add(&c, tk_uop_const(c.g, TOLK_I32, 0)), lanes);
        const tolk_uop *minus =
            tk_code_splat(&c, tk_code_add(&c, tk_uop_const(c.g, TOLK_I32, UINT64_MAX)), lanes);
        const tolk_uop *q = tk_code_op(&c, TK_OP_CDIV, x, y, NULL);
        const tolk_uop *w =
            tk_code_op(&c, TK_OP_WHERE, tk_code_op(&c, TK_OP_CMPNE, y, zero, NULL), q, minus);
        tk_code_store(&c, tk_code_place(&c, p[0], at), w, NULL, true);
        tk_code_end(&c, r);
        const tolk_uop *l = tk_code_done(&c);
        for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
            tk_target target;
            if (!tk_code_target(t, &target))
                continue;
            void *bufs[3] = {out, a, b};
            (void)tk_code_run(c.ctx, &target, l, bufs, NULL, 0, 0, 0);
            for (int i = 0; i < 16; i++) {
                int32_t want = b[i] == 0                         ? -1
                               : a[i] == INT32_MIN && b[i] == -1 ? INT32_MIN
                                                                 : a[i] / b[i];
                assert_int_equal(out[i], want);
            }
        }
        tk_code_fini(&c);
    }
}

/* ---- many ops in one program ---- */

enum { CHAIN = 40 };

/* A value made by random ops on what is there; NULL: the ops chosen do not fit. */
static const tolk_uop *random_value(tk_code *c, const tolk_uop *const *pool, uint32_t n,
                                    uint64_t *random) {
    tk_op op = (tk_op)(tk_test_rand(random) % TK_OP_COUNT);
    const tk_op_info *info = tk_op_get(op);
    const tolk_uop *a = pool[tk_test_rand(random) % n];
    if (!tk_op_is_alu(op) || is_lowered_before(op) || op == TK_OP_BITCAST)
        return NULL;
    if (op == TK_OP_CAST)
        return tk_code_cast(c, a, dtypes[tk_test_rand(random) % N_DTYPES]);
    const tolk_uop *s[3] = {a, NULL, NULL};
    if (op == TK_OP_WHERE) {
        s[0] = pool[tk_test_rand(random) % n];
        a = s[1] = pool[tk_test_rand(random) % n];
        if (tk_dtype_scalar(s[0]->dtype) != TOLK_BOOL)
            return NULL;
    }
    if (!takes(info, tk_dtype_scalar(a->dtype)) ||
        (op == TK_OP_MULACC && tolk_dtype_is_float(a->dtype)))
        return NULL;
    for (uint32_t k = op == TK_OP_WHERE ? 2 : 1; k < info->max_src; k++) {
        for (int tries = 0; tries < 20 && !s[k]; tries++) {
            const tolk_uop *b = pool[tk_test_rand(random) % n];
            s[k] = b->dtype == a->dtype ? b : NULL;
        }
        if (!s[k])
            return NULL;
    }
    return tk_code_op(c, op, s[0], s[1], s[2]);
}

static void random_program(uint64_t number) {
    static column data[2 * N_DTYPES];
    uint64_t random = tk_test_seed() * 1000003 + number;
    uint32_t lanes = 1U << tk_test_rand(&random) % 7;
    enum { BLOCKS = 2 };
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *pool[N_DTYPES + CHAIN], *out[N_DTYPES], *in[N_DTYPES];
    const tolk_uop *rows = tk_code_index(&c, ROWS);
    tk_code_buf bufs[2 * N_DTYPES];
    uint32_t n = 0, stored[N_DTYPES] = {0};
    for (uint32_t d = 0; d < N_DTYPES; d++) {
        if (number % 4 && d % 4 != number % 4 && dtypes[d] != TOLK_F32)
            continue; /* most programs have few dtypes */
        out[n] = tk_code_param(&c, dtypes[d], rows, 2 * n);
        in[n] = tk_code_param(&c, dtypes[d], rows, 2 * n + 1);
        for (uint32_t k = 0; k < 2; k++) {
            fill(&data[2 * n + k], dtypes[d], k, &random);
            bufs[2 * n + k] = (tk_code_buf){dtypes[d], ROWS, data[2 * n + k].bytes};
        }
        n++;
        if (n == 7) /* tk_code_compare takes 16 buffers */
            break;
    }
    uint32_t n_params = n;
    const tolk_uop *range = tk_code_range(&c, tk_code_index(&c, BLOCKS), 0, false);
    const tolk_uop *at = tk_code_op(&c, TK_OP_MUL, range, tk_code_index(&c, lanes), NULL);
    for (uint32_t k = 0; k < n; k++)
        pool[k] = tk_code_load(&c, tolk_dtype_vec(in[k]->dtype, lanes),
                               tk_code_place(&c, in[k], at), NULL, NULL, true);
    for (int tries = 0; tries < 3000 && n < n_params + CHAIN; tries++) {
        const tolk_uop *x = random_value(&c, pool, n, &random);
        if (x)
            pool[n++] = x;
    }
    /* Store as many as there is room for. */
    for (uint32_t i = n_params; i < n; i++)
        for (uint32_t k = 0; k < n_params; k++)
            if (tk_dtype_scalar(pool[i]->dtype) == out[k]->dtype &&
                (stored[k] + 1) * BLOCKS * lanes <= ROWS) {
                const tolk_uop *to = tk_code_index(&c, (int64_t)stored[k]++ * BLOCKS * lanes);
                to = tk_code_op(&c, TK_OP_ADD, at, to, NULL);
                tk_code_store(&c, tk_code_place(&c, out[k], to), pool[i], NULL, true);
            }
    tk_code_end(&c, range);
    const tolk_uop *l = tk_code_done(&c);
    char what[40];
    snprintf(what, sizeof what, "random program %llu", (unsigned long long)number);
    for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
        tk_target target;
        if (tk_code_target(t, &target))
            tk_code_compare(c.ctx, &target, l, bufs, 2 * n_params, NULL, 0, what);
    }
    tk_code_fini(&c);
}

static void test_emit_random_straight_programs_equal_the_interpreter(void **state) {
    (void)state;
    uint64_t n = tk_test_count(2000);
    for (uint64_t i = 0; i < n; i++)
        random_program(i);
}

/* ---- vectors ---- */

static void test_emit_stack_and_lanes_in_any_order_equal_the_interpreter(void **state) {
    (void)state;
    static column data[2];
    uint64_t random = tk_test_seed() + 3;
    for (uint32_t d = 0; d < N_DTYPES; d++)
        for (uint32_t kind = 0; kind < 5; kind++) {
            tolk_dtype dt = dtypes[d];
            uint32_t lanes = 2U << tk_test_rand(&random) % 4;
            tk_code c;
            tk_code_init(&c);
            const tolk_uop *n = tk_code_index(&c, ROWS), *out = tk_code_param(&c, dt, n, 0);
            const tolk_uop *in = tk_code_param(&c, dt, n, 1), *v[3], *lane[TOLK_MAX_LANES];
            for (uint32_t k = 0; k < 3; k++)
                v[k] = tk_code_load(&c, tolk_dtype_vec(dt, lanes),
                                    tk_code_place(&c, in, tk_code_index(&c, 5 + k * 70)), NULL,
                                    NULL, true);
            /* lanes of 1, 2 or 3 vectors; with constants between; half of one vector */
            uint32_t m = kind == 4 ? lanes / 2 : lanes;
            for (uint32_t i = 0; i < m; i++) {
                uint32_t from = (uint32_t)(tk_test_rand(&random) % (kind < 3 ? kind + 1 : 1));
                uint32_t at = kind == 4 ? i + lanes / 2 : (uint32_t)tk_test_rand(&random) % lanes;
                const tolk_uop *src[2] = {v[from], tk_code_index(&c, at)};
                lane[i] = kind == 3 && i % 2 == 0
                              ? tk_code_add(&c, tk_uop_const(c.g, dt, i % 4 / 2))
                              : tk_code_add(&c, tk_uop(c.g, TK_OP_INDEX, dt, src, 2, NULL));
            }
            const tolk_uop *x = m == 1
                                    ? lane[0]
                                    : tk_code_add(&c, tk_uop(c.g, TK_OP_STACK,
                                                             tolk_dtype_vec(dt, m), lane, m, NULL));
            tk_code_store(&c, tk_code_place(&c, out, tk_code_index(&c, 1)), x, NULL, true);
            tk_code_store(&c, tk_code_place(&c, out, tk_code_index(&c, 100)), lane[m - 1], NULL,
                          true);
            const tolk_uop *l = tk_code_done(&c);
            fill(&data[0], dt, 0, &random);
            fill(&data[1], dt, 1, &random);
            tk_code_buf bufs[2] = {{dt, ROWS, data[0].bytes}, {dt, ROWS, data[1].bytes}};
            for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
                tk_target target;
                if (tk_code_target(t, &target))
                    tk_code_compare(c.ctx, &target, l, bufs, 2, NULL, 0, "stack");
            }
            tk_code_fini(&c);
        }
}

/* ---- scalars of the call ---- */

static void test_emit_scalar_params_are_taken_from_the_low_bytes(void **state) {
    (void)state;
    uint64_t edge[MAX_EDGES];
    for (uint32_t d = 1; d < N_DTYPES; d++) {
        tolk_dtype dt = dtypes[d];
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *out = tk_code_param(&c, dt, tk_code_index(&c, 2), 5);
        const tolk_uop *x = tk_code_scalar(&c, dt, 2), *y = tk_code_scalar(&c, dt, 7);
        tk_code_store(&c, tk_code_place(&c, out, tk_code_index(&c, 0)), y, NULL, true);
        tk_code_store(&c, tk_code_place(&c, out, tk_code_index(&c, 1)), x, NULL, true);
        const tolk_uop *l = tk_code_done(&c);
        uint32_t n = edges(dt, edge);
        for (uint32_t i = 0; i + 1 < n; i += 5) {
            int64_t vals[2] = {(int64_t)edge[i], (int64_t)edge[i + 1]};
            uint64_t out_data[2] = {0, 0};
            tk_code_buf buf = {dt, 2, out_data};
            tk_target target = tk_code_any_target("x86-64");
            tk_code_compare(c.ctx, &target, l, &buf, 1, vals, 2, "scalars");
        }
        tk_code_fini(&c);
    }
}

/* ---- what is refused, and what is never there ---- */

static tolk_status try_emit(tk_code *c, const tk_target *target, const tolk_uop *l,
                            tk_llvm_form form, char **out, tolk_error *err) {
    size_t len = 0;
    return tk_llvm_emit(c->ctx, target, l, "kernel", form, NULL, NULL, out, &len, err);
}

static void expect_unsupported(tolk_dtype dt, tk_op op, const char *target_name,
                               const char *names) {
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *n = tk_code_index(&c, 8), *p = tk_code_param(&c, dt, n, 0);
    const tolk_uop *place = tk_code_place(&c, p, tk_code_index(&c, 0));
    const tolk_uop *x = tk_code_load(&c, tolk_dtype_vec(dt, 4), place, NULL, NULL, true);
    uint32_t operands = tk_op_get(op)->max_src;
    tk_code_store(&c, place,
                  tk_code_op(&c, op, x, operands > 1 ? x : NULL, operands > 2 ? x : NULL), NULL,
                  true);
    const tolk_uop *l = tk_code_done(&c);
    tk_target target = tk_code_any_target(target_name);
    char *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(try_emit(&c, &target, l, TK_LLVM_OBJ, &out, &err), TOLK_E_UNSUPPORTED);
    assert_null(out);
    if (!strstr(err.msg, names))
        fail_msg("\"%s\" does not name %s", err.msg, names);
    tk_code_fini(&c);
}

static void test_emit_what_the_table_does_not_list_is_unsupported_by_name(void **state) {
    (void)state;
    expect_unsupported(TOLK_F32, TK_OP_MULACC, "x86-64", "f32x4");
    expect_unsupported(TOLK_F16, TK_OP_ADD, "haswell", "f16x4");
    expect_unsupported(TOLK_FP8E4M3, TK_OP_NEG, "haswell", "fp8e4m3x4");
    expect_unsupported(TOLK_F64, TK_OP_SIN, "skylake-avx512", "sin f64x4");
}

static void test_emit_a_program_of_too_many_instructions_is_refused(void **state) {
    (void)state;
    tk_code c;
    tk_code_init(&c);
    for (int64_t i = 0; i < 32769; i++)
        tk_code_index(&c, i);
    const tolk_uop *l = tk_code_done(&c);
    tk_target target = tk_code_any_target("x86-64");
    char *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(try_emit(&c, &target, l, TK_LLVM_OBJ, &out, &err), TOLK_E_LIMIT);
    tk_code_fini(&c);
}

typedef struct giant {
    const char *target;
    tolk_dtype dtype; /* with lanes */
    uint32_t n;
} giant;

/* A sum of n loads in one block. Exit code: the status. */
static int emit_giant(void *arg) {
    const giant *g = arg;
    tk_code c;
    tk_code_init(&c);
    tolk_dtype one = tk_dtype_scalar(g->dtype);
    const tolk_uop *x = tk_code_param(&c, one, tk_code_index(&c, 1 << 20), 0), *sum = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        const tolk_uop *at = tk_code_index(&c, (int64_t)i * 64);
        const tolk_uop *v = tk_code_load(&c, g->dtype, tk_code_place(&c, x, at), NULL, NULL, true);
        sum = sum ? tk_code_op(&c, TK_OP_ADD, sum, v, NULL) : v;
    }
    tk_code_store(&c, tk_code_place(&c, x, tk_code_index(&c, 0)), sum, NULL, true);
    tk_target target = tk_code_any_target(g->target);
    char *out = NULL;
    return (int)try_emit(&c, &target, tk_code_done(&c), TK_LLVM_OBJ, &out, NULL);
}

static void test_CG_13_a_giant_block_is_compiled_in_bounded_time_or_refused(void **state) {
    (void)state;
    static const giant cases[] = {{"x86-64", TOLK_F32, 4000},
                                  {"x86-64", TOLK_F32, 50000},
                                  {"x86-64", TOLK_F64 | 6 << 8, 600},
                                  {"x86-64", TOLK_F64 | 6 << 8, 8000}};
    static const tolk_status want[] = {TOLK_OK, TOLK_E_LIMIT, TOLK_OK, TOLK_E_LIMIT};
    for (int i = 0; i < 4; i++) {
        giant g = cases[i];
        assert_int_equal(tk_test_child(emit_giant, &g, 60), want[i]);
    }
}

/* y[i] = x[i] * x[i] + x[i], 8 lanes. */
static const tolk_uop *small_program(tk_code *c) {
    const tolk_uop *n = tk_code_index(c, 64);
    const tolk_uop *y = tk_code_param(c, TOLK_F32, n, 0), *x = tk_code_param(c, TOLK_F32, n, 1);
    const tolk_uop *r = tk_code_range(c, tk_code_index(c, 8), 0, false);
    const tolk_uop *at = tk_code_op(c, TK_OP_MUL, r, tk_code_index(c, 8), NULL);
    const tolk_uop *v =
        tk_code_load(c, tolk_dtype_vec(TOLK_F32, 8), tk_code_place(c, x, at), NULL, NULL, true);
    v = tk_code_op(c, TK_OP_ADD, tk_code_op(c, TK_OP_MUL, v, v, NULL), v, NULL);
    tk_code_store(c, tk_code_place(c, y, at), v, NULL, true);
    tk_code_end(c, r);
    return tk_code_done(c);
}

static void test_NUM_05_text_has_no_fast_math_and_code_no_contraction(void **state) {
    (void)state;
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *l = small_program(&c);
    tk_target target = tk_code_any_target("haswell");
    char *ir = NULL, *assembly = NULL;
    assert_int_equal(try_emit(&c, &target, l, TK_LLVM_IR, &ir, NULL), TOLK_OK);
    assert_non_null(strstr(ir, "fmul <8 x float>"));
    assert_non_null(strstr(ir, "define void @kernel("));
    static const char *const words[] = {"fast", "contract", "reassoc", "nnan",
                                        "ninf", "arcp",     "noalias", "alloca"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(ir, words[i]))
            fail_msg("the IR has \"%s\":\n%s", words[i], ir);
    assert_int_equal(try_emit(&c, &target, l, TK_LLVM_ASM, &assembly, NULL), TOLK_OK);
    assert_non_null(strstr(assembly, "vmulps"));
    assert_null(strstr(assembly, "vfmadd"));
    tk_strbuf_text_free(&c.ctx->al, ir);
    tk_strbuf_text_free(&c.ctx->al, assembly);
    tk_code_fini(&c);
}

static void test_emit_twice_gives_the_same_bytes_also_after_the_context_was_renewed(void **state) {
    (void)state;
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *l = small_program(&c);
    tk_target target = tk_code_any_target("skylake-avx512");
    char *first = NULL;
    size_t n = 0;
    assert_int_equal(
        tk_llvm_emit(c.ctx, &target, l, "kernel", TK_LLVM_OBJ, NULL, NULL, &first, &n, NULL),
        TOLK_OK);
    assert_true(tk_object_defines(first, n, "kernel"));
    for (int i = 0; i < 300; i++) {
        char *again = NULL;
        size_t m = 0;
        assert_int_equal(
            tk_llvm_emit(c.ctx, &target, l, "kernel", TK_LLVM_OBJ, NULL, NULL, &again, &m, NULL),
            TOLK_OK);
        assert_int_equal(m, n);
        assert_memory_equal(again, first, n);
        tk_strbuf_text_free(&c.ctx->al, again);
    }
    tk_strbuf_text_free(&c.ctx->al, first);
    tk_code_fini(&c);
}

typedef struct emitter_thread {
    pthread_t thread;
    tk_code *c;
    const tolk_uop *linear;
    const char *target;
    int bad;
} emitter_thread;

static void *emit_many(void *arg) {
    emitter_thread *e = arg;
    tk_target target = tk_code_any_target(e->target);
    for (int i = 0; i < 20; i++) {
        char *out = NULL;
        e->bad += try_emit(e->c, &target, e->linear, TK_LLVM_OBJ, &out, NULL) != TOLK_OK;
        tk_strbuf_text_free(&e->c->ctx->al, out);
    }
    return NULL;
}

static void test_emit_from_several_threads_at_once_succeeds(void **state) {
    (void)state;
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *l = small_program(&c);
    static const char *const names[4] = {"x86-64", "haswell", "aarch64", "skylake-avx512"};
    emitter_thread threads[4];
    for (int i = 0; i < 4; i++) {
        threads[i] = (emitter_thread){.c = &c, .linear = l, .target = names[i]};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, emit_many, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_int_equal(threads[i].bad, 0);
    }
    tk_code_fini(&c);
}

static tolk_status emit_with(const tolk_allocator *al, void *user) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx;
    tolk_status st = tk_ctx_init(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tk_target target = tk_code_any_target("haswell");
    char *out = NULL;
    size_t len;
    st = tk_llvm_emit(ctx, &target, user, "kernel", TK_LLVM_OBJ, NULL, NULL, &out, &len, NULL);
    tk_strbuf_text_free(&ctx->al, out);
    tk_ctx_fini(ctx);
    return st;
}

static void test_emit_without_memory_is_nomem_and_leaves_nothing(void **state) {
    (void)state;
    tk_code c;
    tk_code_init(&c);
    const tolk_uop *l = small_program(&c);
    tk_test_oom(emit_with, (void *)(uintptr_t)l);
    tk_code_fini(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emit_every_op_dtype_and_lanes_on_edge_values_equals_the_interpreter),
        cmocka_unit_test(test_emit_every_cast_on_edge_values_equals_the_interpreter),
        cmocka_unit_test(test_INT_01_least_number_by_minus_one_and_by_zero_does_not_trap),
        cmocka_unit_test(test_INT_03_a_guarded_division_is_harmless_whatever_is_speculated),
        cmocka_unit_test(test_emit_random_straight_programs_equal_the_interpreter),
        cmocka_unit_test(test_emit_stack_and_lanes_in_any_order_equal_the_interpreter),
        cmocka_unit_test(test_emit_scalar_params_are_taken_from_the_low_bytes),
        cmocka_unit_test(test_emit_what_the_table_does_not_list_is_unsupported_by_name),
        cmocka_unit_test(test_emit_a_program_of_too_many_instructions_is_refused),
        cmocka_unit_test(test_CG_13_a_giant_block_is_compiled_in_bounded_time_or_refused),
        cmocka_unit_test(test_NUM_05_text_has_no_fast_math_and_code_no_contraction),
        cmocka_unit_test(test_emit_twice_gives_the_same_bytes_also_after_the_context_was_renewed),
        cmocka_unit_test(test_emit_from_several_threads_at_once_succeeds),
        cmocka_unit_test(test_emit_without_memory_is_nomem_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
