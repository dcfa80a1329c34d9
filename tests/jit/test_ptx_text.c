/* SPDX-License-Identifier: MIT
 *
 * The PTX of small kernels: every elementwise op, cast and reduction of every dtype on every chip,
 * looked at as text and assembled by ptxas where that is installed; and what accesses become.
 */
#include "support/runtime.h"
#include "support/tk_ptx.h"

#include "ir/dtype.h"
#include "ir/mathfn.h"
#include "ir/op.h"

#include <stdio.h>
#include <string.h>

RT_FIXTURE

static const char *const chips[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"};
enum { N_CHIPS = sizeof chips / sizeof *chips };

static const tolk_dtype dtypes[] = {TOLK_BOOL, TOLK_I8,  TOLK_I16, TOLK_I32,     TOLK_I64,
                                    TOLK_U8,   TOLK_U16, TOLK_U32, TOLK_U64,     TOLK_F16,
                                    TOLK_BF16, TOLK_F32, TOLK_F64, TOLK_FP8E4M3, TOLK_FP8E5M2};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static tk_target target_of(const char *name) {
    static const tk_host none;
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_target_parse(&none, name, &t, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return t;
}

/* The PTX of a kernel, to be freed by tolk_free_text. */
static char *emit_with(const tolk_uop *kernel, const char *chip, const char *opts,
                       tolk_bounds bounds) {
    tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
    co.target = chip;
    co.opts = opts;
    co.bounds = bounds;
    tolk_error err = TOLK_ERROR_INIT;
    char *text;
    size_t len;
    if (tolk_emit(r.ctx, kernel, &co, TOLK_EMIT_PTX, &text, &len, &err) != TOLK_OK)
        fail_msg("%s: %s", chip, err.msg);
    assert_int_equal(strlen(text), len);
    return text;
}

/* ---- every op ---- */

/* y[i] = f(a[i], b[i], c[i]), i < 256: one of a list of kernels. */
typedef struct kernel {
    char name[64];
    tk_op op;
    tolk_dtype from, to;
    tolk_reduce_op rop;
} kernel;

enum { MAX_KERNELS = 1200 };
static kernel kernels[MAX_KERNELS];
static size_t n_kernels;

static bool takes(tk_op op, tolk_dtype dt) {
    uint8_t dom = tk_op_get(op)->dom;
    if (op == TK_OP_THREEFRY)
        return dt == TOLK_U64;
    return dom & (dt == TOLK_BOOL ? TK_DOM_B : tolk_dtype_is_float(dt) ? TK_DOM_F : TK_DOM_I);
}

static void add_kernel(tk_op op, tolk_dtype from, tolk_dtype to, int rop) {
    assert_true(n_kernels < MAX_KERNELS);
    kernel *k = &kernels[n_kernels++];
    *k = (kernel){.op = op, .from = from, .to = to, .rop = (tolk_reduce_op)rop};
    snprintf(k->name, sizeof k->name, "%s %s %s %d", tk_op_get(op)->name, tolk_dtype_name(from),
             tolk_dtype_name(to), rop);
}

static void list_kernels(void) {
    n_kernels = 0;
    for (int op = 0; op < TK_OP_COUNT; op++) {
        if (!tk_op_is_alu((tk_op)op))
            continue;
        for (int a = 0; a < N_DTYPES; a++)
            for (int b = 0; b < N_DTYPES; b++) {
                bool cast = op == TK_OP_CAST, bits = op == TK_OP_BITCAST;
                bool same = tk_dtype_bits(dtypes[a]) == tk_dtype_bits(dtypes[b]);
                if (cast ? a != b : bits ? a != b && same : a == b && takes((tk_op)op, dtypes[a]))
                    add_kernel((tk_op)op, dtypes[a], dtypes[b], 0);
            }
    }
    for (int a = 0; a < N_DTYPES; a++)
        for (int rop = 0; rop < 3; rop++)
            add_kernel(TK_OP_REDUCE, dtypes[a], dtypes[a], rop);
}

static const tolk_uop *build(tolk_graph *g, const kernel *k) {
    const int64_t n = 256;
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, n), 0, TOLK_AXIS_GLOBAL);
    bool cmp = k->op == TK_OP_CMPLT || k->op == TK_OP_CMPNE || k->op == TK_OP_CMPEQ;
    const tolk_uop *y = tolk_param(g, cmp ? TOLK_BOOL : k->to, &n, 1, 0, "y"), *x[3], *v;
    uint32_t n_src = tk_op_is_alu(k->op) ? tk_op_get(k->op)->min_src : 1;
    for (uint32_t s = 0; s < n_src; s++) {
        bool is_cond = k->op == TK_OP_WHERE && s == 0;
        const tolk_uop *p =
            tolk_param(g, is_cond ? TOLK_BOOL : k->from, &n, 1, 1 + s, (const char[]){"abc"[s], 0});
        x[s] = tolk_load(g, tolk_index(g, p, &i, 1));
    }
    if (k->op == TK_OP_REDUCE) {
        const tolk_uop *r2 = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 7), 1, TOLK_AXIS_REDUCE);
        const int64_t n2 = 263;
        const tolk_uop *at = tolk_add(g, i, r2);
        const tolk_uop *a = tolk_param(g, k->from, &n2, 1, 1, "a");
        v = tolk_reduce(g, k->rop, tolk_load(g, tolk_index(g, a, &at, 1)), &r2, 1);
    } else if (k->op == TK_OP_CAST) {
        v = tolk_cast(g, x[0], k->to);
    } else if (k->op == TK_OP_BITCAST) {
        v = tolk_bitcast(g, x[0], k->to);
    } else {
        v = tolk_uop_new(g, (tolk_op)k->op, TOLK_VOID, x, n_src, NULL, 0);
    }
    const tolk_uop *all = tolk_end(g, tolk_store(g, tolk_index(g, y, &i, 1), v), &i, 1);
    return tolk_sink(g, &all, 1, "one");
}

/* What a float op of the hardware's own dtypes is, once. */
static void check_float_op(const kernel *k, const char *text) {
    static const struct {
        tk_op op;
        const char *mnemonic;
    } is[] = {{TK_OP_ADD, "add.rn"},  {TK_OP_SUB, "sub.rn"},        {TK_OP_MUL, "mul.rn"},
              {TK_OP_FDIV, "div.rn"}, {TK_OP_RECIPROCAL, "rcp.rn"}, {TK_OP_SQRT, "sqrt.rn"},
              {TK_OP_NEG, "neg"},     {TK_OP_MULACC, "fma.rn"}};
    const char *type = k->from == TOLK_F32 ? "f32" : "f64";
    char mnemonic[24];
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        if (is[i].op != k->op)
            continue;
        snprintf(mnemonic, sizeof mnemonic, "%s.%s", is[i].mnemonic, type);
        if (tk_ptx_count(text, mnemonic) != 1)
            fail_msg("%s: not one %s\n%s", k->name, mnemonic, text);
    }
    unsigned fmas = tk_ptx_count(text, "fma.rn.f32") + tk_ptx_count(text, "fma.rn.f64");
    if (!tk_mathfn_is(k->op) && fmas != (k->op == TK_OP_MULACC))
        fail_msg("%s: %u fma\n%s", k->name, fmas, text);
}

static void test_ptx_of_every_op_and_dtype_on_every_chip(void **state) {
    (void)state;
    list_kernels();
    unsigned assembled = 0, looked = 0, share = tk_test_share();
    for (unsigned c = 0; c < N_CHIPS; c++) {
        tk_target target = target_of(chips[c]);
        tk_ptx_module module;
        tk_ptx_module_init(&module, &target);
        /* Some 200 kernels of each chip, others on each; all of them with the whole suite. */
        for (size_t i = 0; i < n_kernels; i++) {
            if (share < 100 && (i + c) % 4 != 0)
                continue;
            tolk_graph *g;
            tolk_error err = TOLK_ERROR_INIT;
            assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
            const tolk_uop *u = build(g, &kernels[i]);
            if (!u && tolk_graph_error(g, &err))
                fail_msg("%s: %s", kernels[i].name, err.msg);
            char *text = emit_with(u, chips[c], NULL, TOLK_BOUNDS_CHECK);
            const char *why = tk_ptx_wrong(text, &target);
            if (why)
                fail_msg("%s on %s: %s", kernels[i].name, chips[c], why);
            if (kernels[i].from == TOLK_F32 || kernels[i].from == TOLK_F64)
                check_float_op(&kernels[i], text);
            tk_ptx_module_add(&module, text);
            tolk_free_text(r.ctx, text);
            tolk_graph_destroy(g);
            looked++;
        }
        tk_ptx_module_fini(&module);
        assembled += module.assembled;
    }
    assert_true(n_kernels > 550 && looked >= 6 * n_kernels / 4 - 6);
    printf("%zu kernels, %u texts, %u assembled%s\n", n_kernels, looked, assembled,
           tk_ptx_assembler() ? "" : ": there is no ptxas");
}

/* ---- accesses ---- */

/* The PTX of a kernel in text. */
static char *ptx(const char *text, const char *opts, tolk_bounds bounds) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK)
        fail_msg("line %u: %s\n%s", err.line, err.msg, text);
    char *out = emit_with(root, "sm_80", opts, bounds);
    tk_target target = target_of("sm_80");
    tk_ptx_check(out, &target);
    tolk_graph_destroy(g);
    return out;
}

/* y[i] = x[i + k] + y0, where y0 is y[i] or 1; i < n. */
#define SHIFTED                                                                                    \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = const index %d\n"                                                                       \
    "%%2 = add index (%%0, %%1)\n"                                                                 \
    "%%3 = param f32 (%%0) {slot=0, name=\"y\"}\n"                                                 \
    "%%4 = param f32 (%%2) {slot=1, name=\"x\"}\n"                                                 \
    "%%5 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%6 = add index (%%5, %%1)\n"                                                                 \
    "%%7 = index f32 (%%4, %%6)\n"                                                                 \
    "%%8 = load f32 (%%7)\n"                                                                       \
    "%%9 = index f32 (%%3, %%5)\n"                                                                 \
    "%%10 = %s\n"                                                                                  \
    "%%11 = add f32 (%%8, %%10)\n"                                                                 \
    "%%12 = store void (%%9, %%11)\n"                                                              \
    "%%13 = end void (%%12, %%5)\n"                                                                \
    "%%14 = sink void (%%13) {name=\"shifted\"}\n"

static void test_ptx_read_only_loads_only_where_no_store_can_reach(void **state) {
    (void)state;
    /* x[i + 1] may be no other iteration's y[i]: a launch refuses the overlap. */
    char *text = ptx(rt_text(SHIFTED, 1024, 1, "const f32 0x1p+0"), NULL, TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.nc.f32", 1);
    tk_ptx_stands(text, "ld.global.f32", 0);
    tolk_free_text(r.ctx, text);
    /* x[i] and y[i] may be one memory. */
    text = ptx(rt_text(SHIFTED, 1024, 0, "const f32 0x1p+0"), NULL, TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.nc.f32", 0);
    tk_ptx_stands(text, "ld.global.f32", 1);
    tolk_free_text(r.ctx, text);
    /* y is stored to. */
    text = ptx(rt_text(SHIFTED, 1024, 1, "load f32 (%9)"), NULL, TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.nc.f32", 1);
    tk_ptx_stands(text, "ld.global.f32", 1);
    tolk_free_text(r.ctx, text);
}

static void test_ptx_vectors_only_where_alignment_is_proved_or_tested(void **state) {
    (void)state;
    /* One body with vectors, one without, and a test of both addresses. */
    char *text = ptx(rt_text(SHIFTED, 4096, 0, "const f32 0x1p+0"), "LANE:0:4", TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.v4.f32", 1);
    tk_ptx_stands(text, "st.global.v4.f32", 1);
    tk_ptx_stands(text, "ld.global.f32", 4);
    tk_ptx_stands(text, "st.global.f32", 4);
    tk_ptx_stands(text, "and.b64", 1);
    tolk_free_text(r.ctx, text);
    /* x[i + 1] never begins at a multiple of 16. */
    text = ptx(rt_text(SHIFTED, 4096, 1, "const f32 0x1p+0"), "LANE:0:4", TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.nc.v4.f32", 0);
    tk_ptx_stands(text, "ld.global.nc.f32", 8);
    tk_ptx_stands(text, "st.global.v4.f32", 1);
    tolk_free_text(r.ctx, text);
    /* Eight lanes are two accesses of four. */
    text = ptx(rt_text(SHIFTED, 4096, 0, "const f32 0x1p+0"), "LANE:0:8", TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "ld.global.v4.f32", 2);
    tk_ptx_stands(text, "st.global.v4.f32", 2);
    tolk_free_text(r.ctx, text);
}

/* y[i] = x[ix[i]], ix any. */
#define GATHER                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 256\n"                                                                       \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"                                                   \
    "%3 = param i32 (%0) {slot=2, name=\"ix\"}\n"                                                  \
    "%4 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%5 = index i32 (%3, %4)\n"                                                                    \
    "%6 = load i32 (%5)\n"                                                                         \
    "%7 = cast index (%6)\n"                                                                       \
    "%8 = index f32 (%2, %7)\n"                                                                    \
    "%9 = load f32 (%8)\n"                                                                         \
    "%10 = index f32 (%1, %4)\n"                                                                   \
    "%11 = store void (%10, %9)\n"                                                                 \
    "%12 = end void (%11, %4)\n"                                                                   \
    "%13 = sink void (%12) {name=\"gather\"}\n"

static void test_ptx_accesses_that_are_not_proved_are_checked_unless_trusted(void **state) {
    (void)state;
    char *text = ptx(GATHER, NULL, TOLK_BOUNDS_CHECK);
    tk_ptx_stands(text, "atom.global.cas.b32", 1);
    assert_non_null(strstr(text, "0f00000000")); /* what a load outside gives */
    tolk_free_text(r.ctx, text);
    text = ptx(GATHER, NULL, TOLK_BOUNDS_TRUST);
    tk_ptx_stands(text, "atom.global.cas.b32", 0);
    assert_null(strstr(text, "bra"));
    tolk_free_text(r.ctx, text);
}

static void test_ptx_of_one_kernel_is_always_the_same(void **state) {
    (void)state;
    char *a = ptx(GATHER, NULL, TOLK_BOUNDS_CHECK), *b = ptx(GATHER, NULL, TOLK_BOUNDS_CHECK);
    assert_string_equal(a, b);
    tolk_free_text(r.ctx, a);
    tolk_free_text(r.ctx, b);
}

/* Arguments of tolk_emit that have no PTX. */
static void test_ptx_is_for_gpus_and_objects_are_not(void **state) {
    (void)state;
    static const struct {
        const char *target;
        tolk_emit_kind kind;
        tolk_status want;
        const char *part;
    } odd[] = {{"haswell", TOLK_EMIT_PTX, TOLK_E_ARG, "expected a GPU"},
               {"native", TOLK_EMIT_PTX, TOLK_E_ARG, "expected a GPU"},
               {"sm_80", TOLK_EMIT_OBJ, TOLK_E_UNSUPPORTED, "sm_80"},
               {"sm_80", TOLK_EMIT_HEADER, TOLK_E_UNSUPPORTED, "sm_80"}};
    tolk_graph *g;
    const tolk_uop *root;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, GATHER, strlen(GATHER), 0, &root, NULL), TOLK_OK);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
        co.target = odd[i].target;
        tolk_error err = TOLK_ERROR_INIT;
        char *text = NULL;
        size_t len;
        assert_int_equal(tolk_emit(r.ctx, root, &co, odd[i].kind, &text, &len, &err), odd[i].want);
        if (!strstr(err.msg, odd[i].part))
            fail_msg("%s", err.msg);
        assert_null(text);
    }
    /* Without a target: the chip whose code runs anywhere. */
    char *text = emit_with(root, NULL, NULL, TOLK_BOUNDS_CHECK);
    assert_non_null(strstr(text, ".target sm_75\n"));
    tolk_free_text(r.ctx, text);
    /* --emit=asm is the same. */
    tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
    co.target = "sm_90";
    char *other = emit_with(root, "sm_90", NULL, TOLK_BOUNDS_CHECK);
    size_t len;
    assert_int_equal(tolk_emit(r.ctx, root, &co, TOLK_EMIT_ASM, &text, &len, NULL), TOLK_OK);
    assert_string_equal(text, other);
    tolk_free_text(r.ctx, text);
    tolk_free_text(r.ctx, other);
    tolk_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ptx_of_every_op_and_dtype_on_every_chip),
        cmocka_unit_test(test_ptx_read_only_loads_only_where_no_store_can_reach),
        cmocka_unit_test(test_ptx_vectors_only_where_alignment_is_proved_or_tested),
        cmocka_unit_test(test_ptx_accesses_that_are_not_proved_are_checked_unless_trusted),
        cmocka_unit_test(test_ptx_of_one_kernel_is_always_the_same),
        cmocka_unit_test(test_ptx_is_for_gpus_and_objects_are_not),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
