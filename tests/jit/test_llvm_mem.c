/* SPDX-License-Identifier: MIT
 *
 * Memory and control: contiguous, gathered, gated and checked accesses, loops, ifs, reg buffers and
 * cancellation, compiled for each target that this machine can run, against the interpreter.
 */
#include "support/tk_code.h"

#include "ir/dtype.h"

#include <stdio.h>
#include <string.h>

static const tolk_dtype dtypes[] = {TOLK_BOOL, TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64, TOLK_U8,
                                    TOLK_U16,  TOLK_U32, TOLK_U64, TOLK_F32, TOLK_F64};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static void compare_everywhere(tk_code *c, const tk_code_buf *bufs, size_t n_bufs,
                               const int64_t *vals, size_t n_vals, const char *what) {
    const tolk_uop *l = tk_code_done(c);
    for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
        tk_target target;
        if (tk_code_target(t, &target))
            tk_code_compare(c->ctx, &target, l, bufs, n_bufs, vals, n_vals, what);
    }
    tk_target a64 = tk_code_any_target("aarch64");
    tk_code_emit(c->ctx, &a64, l, what);
}

/* ---- one access of each kind ---- */

enum { BLOCKS = 6, SIZE = 71 };

typedef struct access_case {
    tolk_dtype dtype;
    uint32_t lanes;
    bool scattered, gated, checked, is_store, symbolic;
} access_case;

typedef struct access_data {
    uint64_t memory[SIZE];        /* the buffer accessed */
    uint64_t values[BLOCKS * 64]; /* stored, or loaded to */
    uint64_t other[BLOCKS * 64];  /* alternatives */
    uint8_t gates[BLOCKS * 64];
    int32_t indices[BLOCKS * 64];
} access_data;

/* Indices of block b: inside where the gate is true unless `checked`; wild otherwise. */
static void fill_block(const access_case *a, access_data *d, uint32_t b, uint64_t *random) {
    int32_t base = (int32_t)(tk_test_rand(random) % SIZE);
    uint64_t kind = tk_test_rand(random) % 4; /* all gates, none, a head, any */
    uint32_t head = (uint32_t)tk_test_rand(random) % (a->lanes + 1);
    if (!a->gated && !a->checked)
        base %= SIZE - (int32_t)a->lanes + 1;
    if (a->checked && kind == 3)
        base = (int32_t)(tk_test_rand(random) % (3 * SIZE)) - SIZE;
    for (uint32_t k = 0; k < a->lanes; k++) {
        uint32_t i = b * a->lanes + k;
        int32_t index = base + (int32_t)k;
        bool gate = kind == 0 || (kind == 2 && k < head) || (kind == 3 && tk_test_rand(random) & 1);
        if (a->scattered) {
            index = (int32_t)(tk_test_rand(random) % SIZE);
            if (a->checked && tk_test_rand(random) % 8 == 0)
                index += (int32_t)(tk_test_rand(random) % 3 - 1) * SIZE;
        }
        bool inside = index >= 0 && index < SIZE;
        if (a->gated && !a->checked) {
            gate &= inside;
            if (!gate && a->scattered)
                index = (int32_t)tk_test_rand(random);
        }
        d->gates[i] = gate ? (uint8_t)(1 + k % 3) : 0;
        d->indices[i] = index;
    }
}

static void fill_access(const access_case *a, access_data *d, uint64_t *random) {
    for (size_t i = 0; i < SIZE; i++)
        d->memory[i] = tk_test_rand(random);
    for (size_t i = 0; i < BLOCKS * 64; i++) {
        d->values[i] = tk_test_rand(random);
        d->other[i] = tk_test_rand(random);
    }
    for (uint32_t b = 0; b < BLOCKS; b++)
        fill_block(a, d, b, random);
}

static void access_program(tk_code *c, const access_case *a) {
    uint32_t n_lanes = a->lanes;
    tolk_dtype v = tolk_dtype_vec(a->dtype, n_lanes);
    const tolk_uop *all = tk_code_index(c, BLOCKS * n_lanes), *size = tk_code_index(c, SIZE);
    if (a->symbolic)
        size = tk_code_cast(c, tk_code_scalar(c, TOLK_I32, 9), TOLK_INDEX);
    const tolk_uop *memory = tk_code_param(c, a->dtype, size, 3);
    const tolk_uop *values = tk_code_param(c, a->dtype, all, 4);
    const tolk_uop *other = tk_code_param(c, a->dtype, all, 5);
    const tolk_uop *gates = tk_code_param(c, TOLK_BOOL, all, 6);
    const tolk_uop *indices = tk_code_param(c, TOLK_I32, all, 7);
    const tolk_uop *lanes = tk_code_index(c, n_lanes);
    const tolk_uop *range = tk_code_range(c, tk_code_index(c, BLOCKS), 0, false);
    const tolk_uop *at = tk_code_op(c, TK_OP_MUL, range, lanes, NULL);
    const tolk_uop *gate = NULL, *alt = NULL;
    if (a->gated)
        gate = tk_code_load(c, tolk_dtype_vec(TOLK_BOOL, n_lanes), tk_code_place(c, gates, at),
                            NULL, NULL, true);
    if (a->gated && !a->is_store)
        alt = tk_code_load(c, v, tk_code_place(c, other, at), NULL, NULL, true);
    const tolk_uop *i = tk_code_load(c, tolk_dtype_vec(TOLK_I32, a->scattered ? n_lanes : 1),
                                     tk_code_place(c, indices, at), NULL, NULL, true);
    const tolk_uop *place = tk_code_place(c, memory, tk_code_cast(c, i, TOLK_INDEX));
    const tolk_uop *mine = tk_code_place(c, values, at);
    if (a->is_store)
        tk_code_store(c, place, tk_code_load(c, v, mine, NULL, NULL, true), gate, !a->checked);
    else
        tk_code_store(c, mine, tk_code_load(c, v, place, alt, gate, !a->checked), NULL, true);
    tk_code_end(c, range);
}

static void run_access(const access_case *a, uint64_t *random) {
    static access_data d;
    char what[100], text[16];
    snprintf(what, sizeof what, "%s %s%s%s%s%s", a->is_store ? "store" : "load",
             tk_dtype_text(tolk_dtype_vec(a->dtype, a->lanes), text),
             a->scattered ? ", scattered" : "", a->gated ? ", gated" : "",
             a->checked ? ", checked" : "", a->symbolic ? ", symbolic" : "");
    tk_code c;
    tk_code_init(&c);
    access_program(&c, a);
    fill_access(a, &d, random);
    size_t all = (size_t)BLOCKS * a->lanes;
    tk_code_buf bufs[5] = {{a->dtype, SIZE, d.memory},
                           {a->dtype, all, d.values},
                           {a->dtype, all, d.other},
                           {TOLK_BOOL, all, d.gates},
                           {TOLK_I32, all, d.indices}};
    int64_t size = SIZE;
    compare_everywhere(&c, bufs, 5, &size, a->symbolic ? 1 : 0, what);
    tk_code_fini(&c);
}

static void test_mem_every_kind_of_access_equals_the_interpreter(void **state) {
    (void)state;
    uint64_t random = tk_test_seed();
    (void)tk_test_count(1);
    for (uint32_t d = 0; d < N_DTYPES; d++)
        for (uint32_t lanes = 1; lanes <= TOLK_MAX_LANES; lanes *= 2)
            for (uint32_t kind = 0; kind < 32; kind++) {
                access_case a = {.dtype = dtypes[d],
                                 .lanes = lanes,
                                 .scattered = lanes > 1 && (kind & 1),
                                 .gated = kind & 2,
                                 .checked = kind & 4,
                                 .is_store = kind & 8,
                                 .symbolic = kind & 16};
                if ((lanes == 1 && (kind & 1)) || (a.symbolic && !a.checked))
                    continue;
                if (tk_test_rand(&random) % 100 < tk_test_share() ||
                    (lanes == 8 && dtypes[d] >= TOLK_F32))
                    run_access(&a, &random);
            }
}

/* A flag that is broadcast, and'ed with a constant: true in the first k lanes. Arrays have k
 * elements and end at an unmapped page, so that no other lane may be touched. LLVM knows that whole
 * pieces of such a gate are false. */
static void test_mem_lanes_that_no_flag_opens_are_not_touched(void **state) {
    (void)state;
    static uint64_t data[3][TOLK_MAX_LANES];
    static const tolk_dtype of[] = {TOLK_F32, TOLK_F64, TOLK_I32, TOLK_I64};
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t lanes = 2; lanes <= 32; lanes *= 2)
            for (uint32_t k = 1; k <= lanes; k++) {
                tk_code c;
                tk_code_init(&c);
                tolk_dtype v = tolk_dtype_vec(of[t], lanes);
                const tolk_uop *n = tk_code_index(&c, k), *zero = tk_code_index(&c, 0);
                const tolk_uop *x = tk_code_param(&c, of[t], n, 0);
                const tolk_uop *y = tk_code_param(&c, of[t], n, 1);
                const tolk_uop *all = tk_code_param(&c, of[t], tk_code_index(&c, lanes), 2);
                const tolk_uop *f = tk_code_scalar(&c, TOLK_F32, 3);
                const tolk_uop *flag = tk_code_op(&c, TK_OP_CMPNE, f, f, NULL);
                const tolk_uop *bools[2] = {tk_code_add(&c, tolk_const_bool(c.g, false)),
                                            tk_code_add(&c, tolk_const_bool(c.g, true))};
                const tolk_uop *src[TOLK_MAX_LANES];
                for (uint32_t i = 0; i < lanes; i++)
                    src[i] = bools[i < k];
                const tolk_uop *some =
                    tk_code_add(&c, tk_uop(c.g, TK_OP_STACK, tolk_dtype_vec(TOLK_BOOL, lanes), src,
                                           lanes, NULL));
                const tolk_uop *gate =
                    tk_code_op(&c, TK_OP_AND, tk_code_splat(&c, flag, lanes), some, NULL);
                const tolk_uop *seven =
                    tk_code_add(&c, tolk_dtype_is_float(of[t]) ? tolk_const_float(c.g, of[t], 7)
                                                               : tolk_const_int(c.g, of[t], 7));
                const tolk_uop *loaded = tk_code_load(&c, v, tk_code_place(&c, x, zero),
                                                      tk_code_splat(&c, seven, lanes), gate, true);
                tk_code_store(&c, tk_code_place(&c, all, zero), loaded, NULL, true);
                tk_code_store(&c, tk_code_place(&c, y, zero), loaded, gate, true);
                tk_code_buf bufs[3] = {
                    {of[t], k, data[0]}, {of[t], k, data[1]}, {of[t], lanes, data[2]}};
                for (int64_t nan = 0; nan < 2; nan++) {
                    int64_t bits = nan ? 0x7fc00000 : 0x3f800000;
                    compare_everywhere(&c, bufs, 3, &bits, 1, "a gate that is false in part");
                }
                tk_code_fini(&c);
            }
}

/* Buffers that are aligned go around the caches, others do not; both end at an unmapped page. */
static void test_mem_streamed_stores_equal_the_interpreter_on_any_alignment(void **state) {
    (void)state;
    static uint64_t data[2][512];
    uint64_t random = tk_test_seed() + 5;
    for (uint32_t i = 0; i < 512; i++)
        data[1][i] = tk_test_rand(&random);
    for (uint32_t d = 1; d < N_DTYPES; d++)
        for (uint32_t lanes = 2; lanes <= TOLK_MAX_LANES; lanes *= 2)
            for (int64_t n = 511; n <= 512; n++) {
                if (lanes != 16 && tk_test_rand(&random) % 100 >= tk_test_share())
                    continue;
                tk_code c;
                tk_code_init(&c);
                const tolk_uop *size = tk_code_index(&c, n);
                const tolk_uop *y = tk_code_param(&c, dtypes[d], size, 0);
                const tolk_uop *x = tk_code_param(&c, dtypes[d], size, 1);
                const tolk_uop *r = tk_code_range(&c, tk_code_index(&c, n / lanes), 0, false);
                const tolk_uop *at = tk_code_op(&c, TK_OP_MUL, r, tk_code_index(&c, lanes), NULL);
                const tolk_uop *src[2] = {tk_code_place(&c, y, at),
                                          tk_code_load(&c, tolk_dtype_vec(dtypes[d], lanes),
                                                       tk_code_place(&c, x, at), NULL, NULL, true)};
                tk_attr attrs[2] = {{.i = 1}, {.i = 1}}; /* inbounds, stream */
                tk_code_add(&c, tk_uop(c.g, TK_OP_STORE, TOLK_VOID, src, 2, attrs));
                tk_code_end(&c, r);
                tk_code_buf bufs[2] = {{dtypes[d], (size_t)n, data[0]},
                                       {dtypes[d], (size_t)n, data[1]}};
                compare_everywhere(&c, bufs, 2, NULL, 0, "streamed store");
                tk_code_fini(&c);
            }
}

/* A program may ask for that at places that are not aligned even if the buffer is. */
static void test_mem_streamed_stores_at_unaligned_places_do_not_fault(void **state) {
    (void)state;
    static uint64_t data[2][128];
    uint64_t random = tk_test_seed() + 6;
    for (uint32_t i = 0; i < 128; i++)
        data[1][i] = tk_test_rand(&random);
    static const int64_t steps[][2] = {{8, 1}, {8, 4}, {4, 0}, {1, 0}, {12, 0}}; /* i step + at */
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *size = tk_code_index(&c, 128);
        const tolk_uop *y = tk_code_param(&c, TOLK_F32, size, 0);
        const tolk_uop *x = tk_code_param(&c, TOLK_F32, size, 1);
        const tolk_uop *r = tk_code_range(&c, tk_code_index(&c, 9), 0, false);
        const tolk_uop *at = tk_code_op(&c, TK_OP_MUL, r, tk_code_index(&c, steps[k][0]), NULL);
        at = tk_code_op(&c, TK_OP_ADD, at, tk_code_index(&c, steps[k][1]), NULL);
        const tolk_uop *src[2] = {tk_code_place(&c, y, at),
                                  tk_code_load(&c, tolk_dtype_vec(TOLK_F32, 8),
                                               tk_code_place(&c, x, at), NULL, NULL, true)};
        tk_attr attrs[2] = {{.i = 1}, {.i = 1}}; /* inbounds, stream */
        tk_code_add(&c, tk_uop(c.g, TK_OP_STORE, TOLK_VOID, src, 2, attrs));
        tk_code_end(&c, r);
        tk_code_buf bufs[2] = {{TOLK_F32, 128, data[0]}, {TOLK_F32, 128, data[1]}};
        compare_everywhere(&c, bufs, 2, NULL, 0, "streamed store at an unaligned place");
        tk_code_fini(&c);
    }
}

/* ---- the fault record ---- */

static void test_mem_first_fault_is_recorded_by_slot_and_index(void **state) {
    (void)state;
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 8) {
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *n = tk_code_index(&c, 20);
        const tolk_uop *y = tk_code_param(&c, TOLK_F32, n, 4),
                       *x = tk_code_param(&c, TOLK_F32, n, 6);
        tolk_dtype v = tolk_dtype_vec(TOLK_F32, lanes);
        const tolk_uop *r = tk_code_range(&c, tk_code_index(&c, 4), 0, false);
        const tolk_uop *at = tk_code_op(&c, TK_OP_MUL, r, tk_code_index(&c, 7), NULL);
        const tolk_uop *value = tk_code_load(&c, v, tk_code_place(&c, x, at), NULL, NULL, false);
        tk_code_store(&c, tk_code_place(&c, y, at), value, NULL, false);
        tk_code_end(&c, r);
        const tolk_uop *l = tk_code_done(&c);
        for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
            tk_target target;
            if (!tk_code_target(t, &target))
                continue;
            float in[20], out[20];
            for (int i = 0; i < 20; i++) {
                in[i] = (float)i;
                out[i] = -1;
            }
            void *bufs[2] = {out, in};
            tolk_kenv env = tk_code_run(c.ctx, &target, l, bufs, NULL, 0, 0, 0);
            assert_int_equal(env.fault, 1);
            assert_int_equal(env.fault_slot, 6);
            /* 8 lanes: 14 .. 21 is the first block that is not all inside; 1 lane: 21. */
            assert_int_equal(env.fault_index, lanes == 8 ? 20 : 21);
            assert_true(out[14] == 14);
            assert_true(out[19] == (lanes == 8 ? 19 : -1));
        }
        tk_code_fini(&c);
    }
}

static void test_CG_07_bools_are_bytes_of_0_and_1_and_any_other_byte_is_true(void **state) {
    (void)state;
    for (uint32_t lanes = 1; lanes <= TOLK_MAX_LANES; lanes *= 2) {
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *n = tk_code_index(&c, 80);
        const tolk_uop *y = tk_code_param(&c, TOLK_BOOL, n, 0),
                       *x = tk_code_param(&c, TOLK_BOOL, n, 1);
        tolk_dtype v = tolk_dtype_vec(TOLK_BOOL, lanes);
        const tolk_uop *i = tk_code_index(&c, 3);
        tk_code_store(&c, tk_code_place(&c, y, i),
                      tk_code_load(&c, v, tk_code_place(&c, x, i), NULL, NULL, true), NULL, true);
        const tolk_uop *l = tk_code_done(&c);
        for (uint32_t t = 0; t < TK_CODE_TARGETS; t++) {
            tk_target target;
            if (!tk_code_target(t, &target))
                continue;
            uint8_t in[80], out[80];
            for (uint32_t k = 0; k < 80; k++)
                in[k] = k % 3 ? (uint8_t)(k * 5) : 0;
            memset(out, 0xee, sizeof out);
            void *bufs[2] = {out, in};
            (void)tk_code_run(c.ctx, &target, l, bufs, NULL, 0, 0, 0);
            for (uint32_t k = 0; k < 80; k++) {
                bool stored = k >= 3 && k < 3 + lanes;
                assert_int_equal(out[k], stored ? in[k] != 0 : 0xee);
            }
        }
        tk_code_fini(&c);
    }
}

/* ---- loops, ifs, reg buffers ---- */

enum { REGS = 5, MAX_DEPTH = 4 };

typedef struct random_code {
    tk_code c;
    uint64_t random;
    const tolk_uop *reg, *index[REGS], *sizes[4];
    tolk_dtype dtype;
    uint32_t axis, left; /* statements left to make */
} random_code;

static const tolk_uop *reg_place(random_code *r) {
    return tk_code_place(&r->c, r->reg, r->index[tk_test_rand(&r->random) % REGS]);
}

/* The same load again is executed again. */
static const tolk_uop *reg_load(random_code *r) {
    return tk_code_load(&r->c, r->dtype, reg_place(r), NULL, NULL, true);
}

static void statement(random_code *r) {
    static const tk_op ops[] = {TK_OP_ADD, TK_OP_MUL, TK_OP_XOR, TK_OP_SUB, TK_OP_MAX};
    const tolk_uop *a = reg_load(r), *b = reg_load(r);
    const tolk_uop *x = tk_code_op(&r->c, ops[tk_test_rand(&r->random) % 5], a, b, NULL);
    tk_code_store(&r->c, reg_place(r), x, NULL, true);
}

/* Statements, loops and ifs, nested; scopes are kept in a list of what closes them. */
static void random_body(random_code *r) {
    const tolk_uop *open[MAX_DEPTH];
    uint32_t depth = 0;
    while (r->left > 0 || depth > 0) {
        uint64_t what = tk_test_rand(&r->random) % 6;
        if (depth > 0 && (r->left == 0 || what == 0)) {
            const tolk_uop *u = open[--depth];
            tk_op closer = tk_uop_is(u, TK_OP_IF) ? TK_OP_ENDIF : TK_OP_END;
            tk_code_add(&r->c, tk_uop(r->c.g, closer, TOLK_VOID, &u, 1, NULL));
            continue;
        }
        if (r->left == 0)
            continue;
        r->left--;
        if (what == 1 && depth < MAX_DEPTH) {
            const tolk_uop *size = r->sizes[tk_test_rand(&r->random) % 4];
            const tolk_uop *range =
                tk_code_range(&r->c, size, r->axis++, tk_test_rand(&r->random) & 1);
            open[depth++] = range;
            const tolk_uop *x = tk_code_cast(&r->c, range, tk_dtype_scalar(r->dtype));
            x = tk_code_splat(&r->c, x, tolk_dtype_lanes(r->dtype));
            x = tk_code_op(&r->c, TK_OP_ADD, x, reg_load(r), NULL);
            tk_code_store(&r->c, reg_place(r), x, NULL, true);
        } else if (what == 2 && depth < MAX_DEPTH) {
            const tolk_uop *a = reg_load(r), *b = reg_load(r);
            const tolk_uop *cond = tk_code_op(&r->c, TK_OP_CMPLT, a, b, NULL);
            const tolk_uop *u = tk_uop(r->c.g, TK_OP_IF, TOLK_VOID, &cond, 1, NULL);
            bool is_open = false; /* the same condition: the same node */
            for (uint32_t i = 0; i < depth; i++)
                is_open |= open[i] == u;
            if (!is_open)
                open[depth++] = tk_code_add(&r->c, u);
        } else {
            statement(r);
        }
    }
}

static void random_control(uint64_t number) {
    random_code r = {.random = tk_test_seed() * 7919 + number, .left = 24};
    uint32_t lanes = 1U << tk_test_rand(&r.random) % 6;
    tolk_dtype scalar = dtypes[1 + tk_test_rand(&r.random) % 8];
    tk_code *c = &r.c;
    tk_code_init(c);
    r.dtype = tolk_dtype_vec(scalar, lanes);
    const tolk_uop *out = tk_code_param(c, scalar, tk_code_index(c, REGS * 64), 0);
    const tolk_uop *in = tk_code_param(c, scalar, tk_code_index(c, REGS * 64), 1);
    r.reg = tk_code_reg(c, r.dtype, REGS, 0);
    for (uint32_t i = 0; i < REGS; i++)
        r.index[i] = tk_code_index(c, i);
    r.sizes[0] = tk_code_cast(c, tk_code_scalar(c, TOLK_I32, 2), TOLK_INDEX);
    r.sizes[1] = tk_code_cast(c, tk_code_scalar(c, TOLK_I32, 3), TOLK_INDEX);
    r.sizes[2] = tk_code_index(c, 2);
    r.sizes[3] = tk_code_index(c, (int64_t)(tk_test_rand(&r.random) % 3));
    for (uint32_t i = 0; i < REGS; i++) {
        const tolk_uop *x = tk_code_load(c, r.dtype, tk_code_place(c, in, tk_code_index(c, i * 64)),
                                         NULL, NULL, true);
        tk_code_store(c, tk_code_place(c, r.reg, r.index[i]), x, NULL, true);
    }
    random_body(&r);
    for (uint32_t i = 0; i < REGS; i++) {
        const tolk_uop *x =
            tk_code_load(c, r.dtype, tk_code_place(c, r.reg, r.index[i]), NULL, NULL, true);
        tk_code_store(c, tk_code_place(c, out, tk_code_index(c, i * 64)), x, NULL, true);
    }
    static uint64_t data[2][REGS * 64];
    for (uint32_t i = 0; i < REGS * 64; i++)
        data[1][i] = tk_test_rand(&r.random);
    tk_code_buf bufs[2] = {{scalar, REGS * 64, data[0]}, {scalar, REGS * 64, data[1]}};
    int64_t vals[2] = {(int64_t)(tk_test_rand(&r.random) % 4), -3};
    char what[40];
    snprintf(what, sizeof what, "random loops %llu", (unsigned long long)number);
    compare_everywhere(c, bufs, 2, vals, 2, what);
    tk_code_fini(c);
}

static void test_mem_random_loops_and_ifs_over_reg_buffers_equal_the_interpreter(void **state) {
    (void)state;
    uint64_t n = tk_test_count(1000);
    for (uint64_t i = 0; i < n; i++)
        random_control(i);
}

/* for r in span_begin .. span_end: y[r] = y[r] + 1, through AFTER. */
static const tolk_uop *span_program(tk_code *c, bool poll) {
    const tolk_uop *n = tk_code_index(c, 64);
    const tolk_uop *y = tk_code_param(c, TOLK_I32, n, 0), *ends[2], *size = tk_code_index(c, 65);
    for (int i = 0; i < 2; i++) {
        tk_attr name = {.blob = tk_blob_str(c->g, i ? "span_end" : "span_begin", i ? 8 : 10)};
        ends[i] = tk_code_add(c, tk_uop(c->g, TK_OP_SPECIAL, TOLK_INDEX, &size, 1, &name));
    }
    const tolk_uop *r = tk_code_range(c, tk_code_op(c, TK_OP_SUB, ends[1], ends[0], NULL), 0, poll);
    const tolk_uop *at = tk_code_op(c, TK_OP_ADD, r, ends[0], NULL);
    const tolk_uop *src[2] = {y, r};
    const tolk_uop *now = tk_code_add(c, tk_uop(c->g, TK_OP_AFTER, TOLK_I32, src, 2, NULL));
    const tolk_uop *x = tk_code_load(c, TOLK_I32, tk_code_place(c, now, at), NULL, NULL, true);
    x = tk_code_op(c, TK_OP_ADD, x, tk_code_add(c, tk_uop_const(c->g, TOLK_I32, 1)), NULL);
    tk_code_store(c, tk_code_place(c, y, at), x, NULL, true);
    tk_code_end(c, r);
    return tk_code_done(c);
}

static void test_mem_a_span_runs_its_part_and_a_cancelled_one_nothing(void **state) {
    (void)state;
    for (int poll = 0; poll < 2; poll++) {
        tk_code c;
        tk_code_init(&c);
        const tolk_uop *l = span_program(&c, poll);
        tk_target target = tk_code_any_target("x86-64");
        for (uint32_t cancel = 0; cancel < 2; cancel++) {
            int32_t y[64] = {0};
            void *bufs[1] = {y};
            (void)tk_code_run(c.ctx, &target, l, bufs, NULL, 5, 9, cancel);
            (void)tk_code_run(c.ctx, &target, l, bufs, NULL, 9, 9, cancel);
            (void)tk_code_run(c.ctx, &target, l, bufs, NULL, 60, 64, 0);
            for (int i = 0; i < 64; i++)
                assert_int_equal(y[i], i >= 60 || (i >= 5 && i < 9 && !(poll && cancel)));
        }
        tk_code_fini(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mem_every_kind_of_access_equals_the_interpreter),
        cmocka_unit_test(test_mem_lanes_that_no_flag_opens_are_not_touched),
        cmocka_unit_test(test_mem_streamed_stores_equal_the_interpreter_on_any_alignment),
        cmocka_unit_test(test_mem_streamed_stores_at_unaligned_places_do_not_fault),
        cmocka_unit_test(test_mem_first_fault_is_recorded_by_slot_and_index),
        cmocka_unit_test(test_CG_07_bools_are_bytes_of_0_and_1_and_any_other_byte_is_true),
        cmocka_unit_test(test_mem_random_loops_and_ifs_over_reg_buffers_equal_the_interpreter),
        cmocka_unit_test(test_mem_a_span_runs_its_part_and_a_cancelled_one_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
