/* SPDX-License-Identifier: MIT */
#include "support/tk_kernel.h"

#include "base/ctx.h"
#include "ir/narrow.h"
#include "ir/scalar.h"
#include "ir/uop.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define RUN(text, args) tk_kernel_run(text, args, COUNT(args), NULL, 0, TOLK_OK)
#define RUN_STATUS(text, args, status) tk_kernel_run(text, args, COUNT(args), NULL, 0, status)

/* A kernel in memory, for what tk_kernel_run does not show. */
typedef struct kernel {
    tolk_ctx *ctx;
    tolk_graph *graph;
    const tolk_uop *root;
} kernel;

static tolk_status kernel_open(kernel *k, const char *text, const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    *k = (kernel){NULL, NULL, NULL};
    tolk_status st = tk_ctx_init(&opts, &k->ctx, NULL);
    if (st == TOLK_OK)
        st = tolk_graph_create(k->ctx, &k->graph);
    if (st == TOLK_OK && text)
        st = tolk_parse(k->graph, text, strlen(text), 0, &k->root, NULL);
    return st;
}

static void kernel_close(kernel *k) {
    tolk_graph_destroy(k->graph);
    if (k->ctx)
        tk_ctx_fini(k->ctx);
}

/* ---- loops and reductions ---- */

static void test_reduce_nested_is_a_left_fold_first_range_outermost(void **state) {
    (void)state;
    /* 2^24 + 1 is 2^24 in f32: the order of the sum shows. */
    static const float x[6] = {0x1p24F, 1, 1, -0x1p24F, 1, 1};
    const float want[1] = {((((0x1p24F + 1) + 1) + -0x1p24F) + 1) + 1};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
    RUN("tolk.uop 1\n%0 = const index 1\n%1 = const index 2\n%2 = const index 3\n"
        "%3 = stack index (%1, %2)\n%4 = param f32 (%0) {slot=0}\n%5 = param f32 (%3) {slot=1}\n"
        "%6 = range index (%1) {axis=0, kind=reduce}\n%7 = range index (%2) {axis=1, kind=reduce}\n"
        "%8 = index f32 (%5, %6, %7)\n%9 = load f32 (%8)\n%10 = reduce f32 (%9, %6, %7) {op=add}\n"
        "%11 = const index 0\n%12 = index f32 (%4, %11)\n%13 = store void (%12, %10)\n"
        "%14 = sink void (%13) {name=\"k\"}\n",
        args);
}

static void test_reduce_over_lanes_folds_halves(void **state) {
    (void)state;
    static const float x[4] = {0x1p24F, 1, -0x1p24F, 1};
    const float want[1] = {2}; /* (x0 + x2) + (x1 + x3); a left fold gives 1 */
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
    RUN("tolk.uop 1\n%0 = const index 1\n%1 = const index 4\n%4 = param f32 (%0) {slot=0}\n"
        "%5 = param f32 (%1) {slot=1}\n%6 = range index (%1) {axis=0, kind=lane}\n"
        "%8 = index f32 (%5, %6)\n%9 = load f32 (%8)\n%10 = reduce f32 (%9, %6) {op=add}\n"
        "%11 = const index 0\n%12 = index f32 (%4, %11)\n%13 = store void (%12, %10)\n"
        "%14 = sink void (%13) {name=\"k\"}\n",
        args);
}

static void test_reduce_of_f16_runs_in_f32_and_rounds_once(void **state) {
    (void)state;
    const uint64_t one = tk_kernel_float(TOLK_F16, 1), small = tk_kernel_float(TOLK_F16, 0x1p-11);
    const uint64_t data[2] = {one, small};
    tk_kernel_reduce("add", TOLK_F16, &one, 1, 4096, tk_kernel_float(TOLK_F16, 4096));
    /* 32 of 1 and 32 of 2^-11: 32 + 2^-6 rounds to 32.03125 / 32 = ... once */
    tk_kernel_reduce("add", TOLK_F16, data, 2, 64, tk_kernel_float(TOLK_F16, 32 + 0x1p-6));
    const uint64_t factor = tk_kernel_float(TOLK_BF16, 1 + 0x1p-7);
    float product = 1;
    for (int i = 0; i < 50; i++)
        product *= 1 + 0x1p-7F;
    tk_kernel_reduce("mul", TOLK_BF16, &factor, 1, 50, tk_kernel_float(TOLK_BF16, (double)product));
}

/* sum over r of (x[r] - max over r of x[r]): one range node, looped over inside itself. */
static void test_range_used_in_a_reduction_inside_its_own_loop(void **state) {
    (void)state;
    static const int32_t x[5] = {3, -1, 7, 7, 0};
    const int32_t want[1] = {3 - 1 + 7 + 7 - 5 * 7};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want), TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 1\n%1 = const index 5\n%4 = param i32 (%0) {slot=0}\n"
        "%5 = param i32 (%1) {slot=1}\n%6 = range index (%1) {axis=0, kind=reduce}\n"
        "%8 = index i32 (%5, %6)\n%9 = load i32 (%8)\n%10 = reduce i32 (%9, %6) {op=max}\n"
        "%11 = sub i32 (%9, %10)\n%12 = reduce i32 (%11, %6) {op=add}\n"
        "%13 = const index 0\n%14 = index i32 (%4, %13)\n%15 = store void (%14, %12)\n"
        "%16 = sink void (%15) {name=\"k\"}\n",
        args);
}

/* for i < 4: y[i] = sum of j for j < i */
static void test_inner_size_may_depend_on_the_outer_range(void **state) {
    (void)state;
    const int64_t want[4] = {0, 0, 1, 3};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I64, want)};
    RUN("tolk.uop 1\n%0 = const index 4\n%1 = param i64 (%0) {slot=0}\n"
        "%2 = range index (%0) {axis=0}\n%3 = range index (%2) {axis=1, kind=reduce}\n"
        "%4 = cast i64 (%3)\n%5 = reduce i64 (%4, %3) {op=add}\n%6 = index i64 (%1, %2)\n"
        "%7 = store void (%6, %5)\n%8 = end void (%7, %2)\n%9 = sink void (%8) {name=\"k\"}\n",
        args);
}

/* The accumulator of docs/ir.md, inside an outer loop; its first value comes with the outer range.
 */
static void test_accumulator_in_a_register_starts_anew_in_each_outer_iteration(void **state) {
    (void)state;
    static const int32_t x[6] = {1, 2, 3, 10, 20, 30};
    const int32_t want[2] = {106, 160};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want), TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 2\n%1 = const index 3\n%2 = stack index (%0, %1)\n"
        "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n"
        "%5 = range index (%0) {axis=0, kind=global}\n%6 = range index (%1) {axis=1}\n"
        "%7 = const index 1\n%8 = buffer i32 (%7) {slot=0, space=reg}\n%9 = after i32 (%8, %5)\n"
        "%10 = const index 0\n%11 = index i32 (%9, %10)\n%12 = const i32 100\n"
        "%13 = store void (%11, %12)\n%14 = after i32 (%8, %13, %6)\n%15 = index i32 (%14, %10)\n"
        "%16 = load i32 (%15)\n%17 = index i32 (%4, %5, %6)\n%18 = load i32 (%17)\n"
        "%19 = add i32 (%16, %18)\n%20 = index i32 (%8, %10)\n%21 = store void (%20, %19)\n"
        "%22 = end void (%21, %6)\n%23 = after i32 (%8, %22)\n%24 = index i32 (%23, %10)\n"
        "%25 = load i32 (%24)\n%26 = index i32 (%3, %5)\n%27 = store void (%26, %25)\n"
        "%28 = end void (%27, %5)\n%29 = sink void (%28) {name=\"k\"}\n",
        args);
}

static void test_effect_referred_to_twice_runs_once(void **state) {
    (void)state;
    static const int32_t before[2] = {5, 0};
    const int32_t want[2] = {8, 8};
    const tk_kernel_arg args[] = {{TOLK_I32, 2, before, want, NULL}};
    RUN("tolk.uop 1\n%0 = const index 2\n%1 = param i32 (%0) {slot=0}\n%2 = const index 0\n"
        "%3 = index i32 (%1, %2)\n%4 = const i32 3\n%5 = atomic_add void (%3, %4)\n"
        "%6 = after i32 (%1, %5)\n%7 = index i32 (%6, %2)\n%8 = load i32 (%7)\n%9 = const index 1\n"
        "%10 = index i32 (%1, %9)\n%11 = store void (%10, %8)\n%12 = group void (%5, %11, %5)\n"
        "%13 = sink void (%12, %5) {name=\"k\"}\n",
        args);
}

static void test_end_repeats_an_effect_for_every_iteration(void **state) {
    (void)state;
    static const int32_t before[1] = {0};
    const int32_t want[1] = {12};
    const tk_kernel_arg args[] = {{TOLK_I32, 1, before, want, NULL}};
    RUN("tolk.uop 1\n%0 = const index 1\n%1 = param i32 (%0) {slot=0}\n%2 = const index 0\n"
        "%3 = index i32 (%1, %2)\n%4 = const i32 1\n%5 = atomic_add void (%3, %4)\n"
        "%6 = const index 3\n%7 = const index 4\n%8 = range index (%6) {axis=0}\n"
        "%9 = range index (%7) {axis=1}\n%10 = end void (%5, %8, %9)\n"
        "%11 = sink void (%10) {name=\"k\"}\n",
        args);
}

static void test_empty_range_does_nothing_and_reduces_to_the_identity(void **state) {
    (void)state;
    const uint64_t none = 0;
    tk_kernel_reduce("add", TOLK_F32, &none, 1, 0, 0);
    tk_kernel_reduce("mul", TOLK_F32, &none, 1, 0, tk_kernel_f32(1));
    tk_kernel_reduce("max", TOLK_F32, &none, 1, 0, tk_kernel_f32(-INFINITY));
    tk_kernel_reduce("max", TOLK_I16, &none, 1, 0, (uint64_t)INT16_MIN);
    tk_kernel_reduce("max", TOLK_U16, &none, 1, 0, 0);
    tk_kernel_reduce("mul", TOLK_BOOL, &none, 1, 0, 1);
    tk_kernel_reduce("max", TOLK_FP8E4M3, &none, 1, 0, tk_kernel_float(TOLK_FP8E4M3, -448));
}

/* ---- memory ---- */

/* y[i] = table[ids[i]] */
static const char gather_text[] =
    "tolk.uop 1\n%0 = const index 4\n%1 = const index 3\n%2 = param f32 (%0) {slot=0, name=\"y\"}\n"
    "%3 = param f32 (%1) {slot=1, name=\"table\"}\n%4 = param i32 (%0) {slot=2, name=\"ids\"}\n"
    "%5 = range index (%0) {axis=0, kind=global}\n%6 = index i32 (%4, %5)\n%7 = load i32 (%6)\n"
    "%8 = cast index (%7)\n%9 = index f32 (%3, %8)\n%10 = load f32 (%9)\n%11 = index f32 (%2, %5)\n"
    "%12 = store void (%11, %10)\n%13 = end void (%12, %5)\n%14 = sink void (%13) "
    "{name=\"gather\"}\n";

static void test_load_out_of_range_gives_zero_and_says_where(void **state) {
    (void)state;
    static const float table[3] = {1, 2, 3};
    static const int32_t good[4] = {2, 0, 1, 2}, bad[4] = {2, -7, 3, 0};
    const float want_good[4] = {3, 1, 2, 3}, want_bad[4] = {3, 0, 0, 1};
    const tk_kernel_arg a[] = {TK_KERNEL_OUT(TOLK_F32, want_good), TK_KERNEL_IN(TOLK_F32, table),
                               TK_KERNEL_IN(TOLK_I32, good)};
    RUN(gather_text, a);
    const tk_kernel_arg b[] = {TK_KERNEL_OUT(TOLK_F32, want_bad), TK_KERNEL_IN(TOLK_F32, table),
                               TK_KERNEL_IN(TOLK_I32, bad)};
    RUN_STATUS(gather_text, b, TOLK_E_RANGE);
    const char *msg = tk_kernel_error()->msg;
    assert_non_null(strstr(msg, "\"gather\""));
    assert_non_null(strstr(msg, "\"table\" (slot 1)"));
    assert_non_null(strstr(msg, "-7"));
    assert_non_null(strstr(msg, "load"));
}

/* y[ids[i]] = 9 */
static void test_store_out_of_range_is_dropped(void **state) {
    (void)state;
    static const int32_t ids[3] = {0, 4, -1}, before[4] = {1, 2, 3, 4};
    const int32_t want[4] = {9, 2, 3, 4};
    const tk_kernel_arg args[] = {{TOLK_I32, 4, before, want, NULL}, TK_KERNEL_IN(TOLK_I32, ids)};
    RUN_STATUS("tolk.uop 1\n%0 = const index 4\n%1 = const index 3\n%2 = param i32 (%0) {slot=0}\n"
               "%4 = param i32 (%1) {slot=2}\n%5 = range index (%1) {axis=0, kind=loop}\n"
               "%6 = index i32 (%4, %5)\n%7 = load i32 (%6)\n%8 = cast index (%7)\n"
               "%9 = index i32 (%2, %8)\n%10 = const i32 9\n%12 = store void (%9, %10)\n"
               "%13 = end void (%12, %5)\n%14 = sink void (%13) {name=\"k\"}\n",
               args, TOLK_E_RANGE);
    assert_non_null(strstr(tk_kernel_error()->msg, "store"));
}

/* Row 1, column 2 of a 2 x 2 array is the flat element 4 of 4; row 0, column 3 is element 3, in
 * the array, but out of its dimension. */
static void test_each_dimension_is_checked(void **state) {
    (void)state;
    static const int32_t x[4] = {1, 2, 3, 4};
    const int32_t want[1] = {0};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want), TK_KERNEL_IN(TOLK_I32, x)};
    RUN_STATUS("tolk.uop 1\n%0 = const index 2\n%1 = stack index (%0, %0)\n%2 = const index 1\n"
               "%3 = param i32 (%2) {slot=0}\n%4 = param i32 (%1) {slot=1}\n%5 = const index 0\n"
               "%6 = const index 3\n%7 = index i32 (%4, %5, %6)\n%8 = load i32 (%7)\n"
               "%9 = index i32 (%3, %5)\n%10 = store void (%9, %8)\n"
               "%11 = sink void (%10) {name=\"k\"}\n",
               args, TOLK_E_RANGE);
}

/* y[i] = i < 2 ? x[i] : 7, by the gate of the load, and stored where i != 1. */
static void test_gates_keep_hands_off_memory(void **state) {
    (void)state;
    static const int32_t x[2] = {10, 20}, before[4] = {1, 2, 3, 4};
    const int32_t want[4] = {10, 2, 7, 7};
    const tk_kernel_arg args[] = {{TOLK_I32, 4, before, want, NULL}, TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 4\n%1 = const index 2\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = param i32 (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"
        "%5 = cmplt bool (%4, %1)\n%6 = index i32 (%3, %4)\n%7 = const i32 7\n"
        "%8 = load i32 (%6, %7, %5)\n%9 = const index 1\n%10 = cmpne bool (%4, %9)\n"
        "%11 = index i32 (%2, %4)\n%12 = store void (%11, %8, %10)\n%13 = end void (%12, %4)\n"
        "%14 = sink void (%13) {name=\"k\"}\n",
        args);
}

/* The same with a gated index: no load, no store where the index is invalid; the load is 0. */
static void test_gated_index_keeps_hands_off_memory(void **state) {
    (void)state;
    static const int32_t x[2] = {10, 20}, before[4] = {1, 2, 3, 4};
    const int32_t want[4] = {10, 2, 0, 0};
    const tk_kernel_arg args[] = {{TOLK_I32, 4, before, want, NULL}, TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 4\n%1 = const index 2\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = param i32 (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"
        "%5 = cmplt bool (%4, %1)\n%6 = const index invalid\n%7 = where index (%5, %4, %6)\n"
        "%8 = index i32 (%3, %7)\n%9 = load i32 (%8)\n%10 = const index 1\n"
        "%11 = cmpne bool (%4, %10)\n%12 = where index (%11, %4, %6)\n%13 = index i32 (%2, %12)\n"
        "%14 = store void (%13, %9)\n%15 = end void (%14, %4)\n%16 = sink void (%15) "
        "{name=\"k\"}\n",
        args);
}

static void test_stored_byte_of_a_bool_other_than_0_and_1_reads_as_true(void **state) {
    (void)state;
    static const uint8_t x[4] = {0, 1, 2, 255}, want[4] = {0, 1, 1, 1};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_U8, want), TK_KERNEL_IN(TOLK_BOOL, x)};
    RUN("tolk.uop 1\n%0 = const index 4\n%1 = param u8 (%0) {slot=0}\n"
        "%2 = param bool (%0) {slot=1}\n%3 = range index (%0) {axis=0, kind=global}\n"
        "%4 = index bool (%2, %3)\n%5 = load bool (%4)\n%6 = cast u8 (%5)\n%7 = index u8 (%1, %3)\n"
        "%8 = store void (%7, %6)\n%9 = end void (%8, %3)\n%10 = sink void (%9) {name=\"k\"}\n",
        args);
}

/* ---- arguments ---- */

/* y[i] = a x[i] for i < n */
static const char scale_text[] =
    "tolk.uop 1\n%0 = param i32 {slot=3, name=\"n\", space=alu, min=1, max=10}\n%1 = cast index "
    "(%0)\n"
    "%2 = param f32 (%1) {slot=0, name=\"y\"}\n%3 = param f32 (%1) {slot=1, name=\"x\"}\n"
    "%4 = param f32 {slot=2, name=\"a\", space=alu}\n%5 = range index (%1) {axis=0, kind=global}\n"
    "%6 = index f32 (%3, %5)\n%7 = load f32 (%6)\n%8 = mul f32 (%4, %7)\n%9 = index f32 (%2, %5)\n"
    "%10 = store void (%9, %8)\n%11 = end void (%10, %5)\n%12 = sink void (%11) {name=\"scale\"}\n";

static void test_scalars_give_sizes_and_values(void **state) {
    (void)state;
    static const float x[3] = {1, 2, 3};
    const float want[3] = {2.5F, 5, 7.5F};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
    const int64_t vals[2] = {(int64_t)tk_kernel_f32(2.5F), 3};
    tk_kernel_run(scale_text, args, 2, vals, 2, TOLK_OK);
}

static void test_SYM_05_bad_arguments_are_named(void **state) {
    (void)state;
    kernel k;
    assert_int_equal(kernel_open(&k, scale_text, NULL), TOLK_OK);
    float y[10] = {0}, x[10] = {0};
    void *bufs[2] = {y, x}, *null[2] = {y, NULL};
    const size_t bytes[2] = {40, 40}, small[2] = {40, 39}, few[2] = {4, 4};
    const int64_t good[3] = {0, 10, 0}, low[2] = {0, 0}, high[2] = {0, 11},
                  wide[2] = {0, 1LL << 32};
    const struct {
        void *const *bufs;
        const size_t *bytes;
        size_t n_bufs;
        const int64_t *vals;
        size_t n_vals;
        tolk_status status;
        const char *says[3];
    } t[] = {
        {bufs, bytes, 2, good, 2, TOLK_OK, {NULL}},
        {bufs, bytes, 2, good, 1, TOLK_E_UNBOUND, {"\"scale\"", "\"n\" (slot 3)"}},
        {bufs, bytes, 2, NULL, 0, TOLK_E_UNBOUND, {"\"a\" (slot 2)"}},
        {bufs, bytes, 2, good, 3, TOLK_E_ARG, {"3 scalars", "expected 2"}},
        {bufs, bytes, 1, good, 2, TOLK_E_UNBOUND, {"\"x\" (slot 1)"}},
        {bufs, bytes, 3, good, 2, TOLK_E_ARG, {"3 buffers", "expected 2"}},
        {NULL, bytes, 2, good, 2, TOLK_E_ARG, {"NULL"}},
        {null, bytes, 2, good, 2, TOLK_E_ARG, {"\"x\" (slot 1) is NULL"}},
        {bufs, small, 2, good, 2, TOLK_E_LAUNCH, {"\"x\" (slot 1)", "39 bytes", "expected 40"}},
        {bufs, bytes, 2, low, 2, TOLK_E_LAUNCH, {"\"n\" (slot 3) is 0", "1..10"}},
        {bufs, bytes, 2, high, 2, TOLK_E_LAUNCH, {"\"n\" (slot 3) is 11", "1..10"}},
        {bufs, bytes, 2, wide, 2, TOLK_E_LAUNCH, {"does not fit i32"}},
        {bufs, few, 2, good, 2, TOLK_E_LAUNCH, {"4 bytes, expected 40"}},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tolk_interpret(k.root, t[i].bufs, t[i].bytes, t[i].n_bufs, t[i].vals,
                                        t[i].n_vals, &err),
                         t[i].status);
        for (int s = 0; s < 3 && t[i].says[s]; s++)
            if (!strstr(err.msg, t[i].says[s]))
                fail_msg("\"%s\" does not say %s", err.msg, t[i].says[s]);
    }
    assert_int_equal(tolk_interpret(NULL, NULL, NULL, 0, NULL, 0, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_interpret(k.root->src[0], bufs, bytes, 2, good, 2, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_interpret_with(k.root, bufs, bytes, 2, good, 2, 2, NULL), TOLK_E_ARG);
    kernel_close(&k);
}

/* ---- work-groups ---- */

/* 3 groups of 4: each reverses its part through local memory. */
static void test_barrier_lets_a_group_exchange_local_memory(void **state) {
    (void)state;
    static const int32_t x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int32_t want[12] = {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want), TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 12\n%1 = const index 3\n%2 = const index 4\n"
        "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%0) {slot=1}\n"
        "%5 = special index (%1) {name=\"gidx0\"}\n%6 = special index (%2) {name=\"lidx0\"}\n"
        "%7 = buffer i32 (%2) {slot=0, space=local}\n%8 = mul index (%5, %2)\n"
        "%9 = add index (%8, %6)\n%10 = index i32 (%4, %9)\n%11 = load i32 (%10)\n"
        "%12 = index i32 (%7, %6)\n%13 = store void (%12, %11)\n%14 = barrier void (%13)\n"
        "%15 = after i32 (%7, %14)\n%16 = const index 3\n%17 = sub index (%16, %6)\n"
        "%18 = index i32 (%15, %17)\n%19 = load i32 (%18)\n%20 = index i32 (%3, %9)\n"
        "%21 = store void (%20, %19)\n%22 = sink void (%21) {name=\"k\"}\n",
        args);
}

/* 32 times: everyone takes the neighbour's value and adds 1, with two barriers an iteration. */
static void test_barriers_in_a_loop_keep_a_group_in_step(void **state) {
    (void)state;
    enum { N = 40, STEPS = 32 };
    int32_t want[N];
    for (int i = 0; i < N; i++)
        want[i] = (i + STEPS) % N + STEPS;
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want)};
    RUN("tolk.uop 1\n%0 = const index 40\n%1 = const index 32\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = special index (%0) {name=\"lidx0\"}\n%4 = range index (%1) {axis=0}\n"
        "%5 = buffer i32 (%0) {slot=0, space=local}\n%6 = index i32 (%5, %3)\n%7 = cast i32 (%3)\n"
        "%8 = store void (%6, %7)\n%9 = barrier void (%8)\n%10 = const index 1\n"
        "%11 = add index (%3, %10)\n%12 = floormod index (%11, %0)\n%13 = after i32 (%5, %9, %4)\n"
        "%14 = index i32 (%13, %12)\n%15 = load i32 (%14)\n%16 = const i32 1\n"
        "%17 = add i32 (%15, %16)\n"
        "%30 = const index 1\n%31 = buffer i32 (%30) {slot=1, space=reg}\n%32 = const index 0\n"
        "%33 = index i32 (%31, %32)\n%34 = store void (%33, %17)\n%35 = barrier void (%34)\n"
        "%36 = after i32 (%31, %35)\n%37 = index i32 (%36, %32)\n%38 = load i32 (%37)\n"
        "%39 = store void (%6, %38)\n%40 = barrier void (%39)\n%41 = end void (%40, %4)\n"
        "%42 = after i32 (%5, %41)\n%43 = index i32 (%42, %3)\n%44 = load i32 (%43)\n"
        "%45 = index i32 (%2, %3)\n%46 = store void (%45, %44)\n%47 = sink void (%46) "
        "{name=\"k\"}\n",
        args);
}

/* A butterfly of 5 shuffles sums a warp; 40 work-items are a warp and a quarter. */
static void test_shuffle_gives_the_value_of_the_partner(void **state) {
    (void)state;
    enum { N = 40 };
    int32_t want[N], v[N], w[N];
    for (int i = 0; i < N; i++)
        v[i] = i;
    for (int lane = 16; lane; lane /= 2) {
        for (int i = 0; i < N; i++) { /* a missing partner: one's own value */
            int other = (i & ~31) | ((i & 31) ^ lane);
            w[i] = v[i] + v[other < N ? other : i];
        }
        memcpy(v, w, sizeof v);
    }
    memcpy(want, v, sizeof want);
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want)};
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index %d\n%%1 = param i32 (%%0) {slot=0}\n"
                     "%%2 = special index (%%0) {name=\"lidx0\"}\n%%10 = cast i32 (%%2)\n",
                     N);
    for (int i = 0, lane = 16; lane; i++, lane /= 2)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%%%d = const i32 %d\n%%%d = shuffle i32 (%%%d, %%%d)\n"
                      "%%%d = add i32 (%%%d, %%%d)\n",
                      11 + 10 * i, lane, 12 + 10 * i, 10 + 10 * i, 11 + 10 * i, 20 + 10 * i,
                      10 + 10 * i, 12 + 10 * i);
    snprintf(text + n, sizeof text - (size_t)n,
             "%%100 = index i32 (%%1, %%2)\n%%101 = store void (%%100, %%60)\n"
             "%%102 = sink void (%%101) {name=\"k\"}\n");
    RUN(text, args);
}

/* Only work-items below 3 reach the barrier: an error, no hang. */
static void test_barrier_that_not_all_reach_is_an_error(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 5\n%1 = param i32 (%0) {slot=0}\n"
        "%2 = special index (%0) {name=\"lidx0\"}\n%3 = const index 3\n%4 = sub index (%3, %2)\n"
        "%5 = range index (%4) {axis=0}\n%6 = index i32 (%1, %2)\n%7 = cast i32 (%5)\n"
        "%8 = store void (%6, %7)\n%9 = barrier void (%8)\n%10 = end void (%9, %5)\n"
        "%11 = sink void (%10) {name=\"k\"}\n";
    kernel k;
    assert_int_equal(kernel_open(&k, text, NULL), TOLK_OK);
    int32_t y[5];
    void *bufs[1] = {y};
    const size_t bytes[1] = {sizeof y};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_interpret(k.root, bufs, bytes, 1, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "barriers"));
    kernel_close(&k);
}

static void test_atomic_add_of_all_work_items_counts_all(void **state) {
    (void)state;
    static const int32_t before[3] = {0, 0, 100};
    const int32_t want[3] = {84, 84, 184}; /* 252 work-items by index mod 3 */
    const tk_kernel_arg args[] = {{TOLK_I32, 3, before, want, NULL}};
    RUN("tolk.uop 1\n%0 = const index 3\n%1 = param i32 (%0) {slot=0}\n%2 = const index 7\n"
        "%3 = const index 12\n%4 = special index (%2) {name=\"gidx0\"}\n"
        "%5 = special index (%3) {name=\"lidx1\"}\n%6 = special index (%0) {name=\"gidx2\"}\n"
        "%7 = add index (%4, %5)\n%8 = add index (%7, %6)\n%9 = floormod index (%8, %0)\n"
        "%10 = index i32 (%1, %9)\n%11 = const i32 1\n%12 = atomic_add void (%10, %11)\n"
        "%13 = sink void (%12) {name=\"k\"}\n",
        args);
}

/* ---- matrices ---- */

typedef struct wmma_case {
    tolk_dtype in, out;
    int m, n, k, threads;
} wmma_case;

/* Where PTX's manual puts element i of thread t, written out from its tables. */
static void fragment(const wmma_case *c, int operand, int t, int i, int *row, int *col) {
    int g = t >> 2, q = t & 3, bits = (int)tolk_dtype_bytes(c->in) * 8;
    if (c->threads == 1) {
        int width = operand == 0 ? c->k : c->n;
        *row = i / width;
        *col = i % width;
    } else if (operand == 2) {
        *row = i < 2 ? g : g + 8;
        *col = q * 2 + (i & 1);
    } else if (bits == 16 && operand == 0) {
        *row = i < 2 || (i >= 4 && i < 6) ? g : g + 8;
        *col = i < 4 ? q * 2 + (i & 1) : q * 2 + (i & 1) + 8;
    } else if (bits == 16) {
        *row = i < 2 ? q * 2 + (i & 1) : q * 2 + (i & 1) + 8;
        *col = g;
    } else if (bits == 8 && operand == 0) {
        *row = i < 4 || (i >= 8 && i < 12) ? g : g + 8;
        *col = i < 8 ? q * 4 + (i & 3) : q * 4 + (i & 3) + 16;
    } else if (bits == 8) {
        *row = i < 4 ? q * 4 + (i & 3) : q * 4 + (i & 3) + 16;
        *col = g;
    } else if (operand == 0) { /* tf32 */
        *row = i == 0 || i == 2 ? g : g + 8;
        *col = i < 2 ? q : q + 4;
    } else {
        *row = i == 0 ? q : q + 4;
        *col = g;
    }
}

static int add_loads(char *text, size_t room, int at, const wmma_case *c, int operand, int n) {
    int len = 0, width = operand == 0 ? c->k : c->n;
    tolk_dtype dt = operand == 2 ? c->out : c->in;
    const char *name = tolk_dtype_name(dt);
#define ADD(...) len += snprintf(text + len, room - (size_t)len, __VA_ARGS__)
    (void)width;
    /* The fragments lie in memory one after the other: element i of item t at t * n + i. */
    for (int i = 0; i < n; i++) {
        ADD("%%%d = const index %d\n%%%d = const index %d\n", at + 6 * i, n, at + 6 * i + 1, i);
        ADD("%%%d = mul index (%%2, %%%d)\n%%%d = add index (%%%d, %%%d)\n", at + 6 * i + 2,
            at + 6 * i, at + 6 * i + 3, at + 6 * i + 2, at + 6 * i + 1);
        ADD("%%%d = index %s (%%%d, %%%d)\n%%%d = load %s (%%%d)\n", at + 6 * i + 4, name,
            10 + operand, at + 6 * i + 3, at + 6 * i + 5, name, at + 6 * i + 4);
    }
    ADD("%%%d = stack %s (", 20 + operand, name);
    for (int i = 0; i < n; i++)
        ADD("%s%%%d", i ? ", " : "", at + 6 * i + 5);
    ADD(")\n");
#undef ADD
    return len;
}

static void run_wmma(const wmma_case *c) {
    enum { MOST = 16 * 32 };
    const int sizes[3] = {c->m * c->k, c->k * c->n, c->m * c->n};
    uint64_t rng = 7;
    double matrix[3][MOST], want[MOST];
    char memory[4][MOST * 8];
    static char text[1 << 17];
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < sizes[o]; i++)
            matrix[o][i] = /* exact in every dtype */
                (double)(tk_test_rand(&rng) % 7) - (c->in == TOLK_U8 && o < 2 ? 0 : 3);
    for (int r = 0; r < c->m; r++)
        for (int j = 0; j < c->n; j++) {
            want[r * c->n + j] = matrix[2][r * c->n + j];
            for (int k = 0; k < c->k; k++)
                want[r * c->n + j] += matrix[0][r * c->k + k] * matrix[1][k * c->n + j];
        }
    for (int o = 0; o < 4; o++) {
        int operand = o < 3 ? o : 2, n = sizes[operand] / c->threads;
        int width = operand == 0 ? c->k : c->n;
        tolk_dtype dt = operand == 2 ? c->out : c->in;
        size_t bytes = tolk_dtype_bytes(dt);
        for (int t = 0; t < c->threads; t++)
            for (int i = 0; i < n; i++) {
                int row, col;
                fragment(c, operand, t, i, &row, &col);
                double v = o == 3 ? want[row * width + col] : matrix[o][row * width + col];
                uint64_t bits = tk_scalar_cast(TOLK_F64, dt, tk_kernel_f64(v));
                memcpy(memory[o] + (size_t)(t * n + i) * bytes, &bits, bytes);
            }
    }
    size_t room = sizeof text;
    int len = snprintf(text, room, "tolk.uop 1\n%%1 = const index %d\n", c->threads);
    len += snprintf(text + len, room - (size_t)len, "%%2 = special index (%%1) {name=\"lidx0\"}\n");
    for (int o = 0; o < 4; o++) {
        int operand = o < 3 ? o : 2;
        len += snprintf(text + len, room - (size_t)len,
                        "%%%d = const index %d\n%%%d = param %s (%%%d) {slot=%d}\n", 30 + o,
                        sizes[operand], 10 + o, tolk_dtype_name(operand == 2 ? c->out : c->in),
                        30 + o, (o + 1) % 4);
    }
    for (int o = 0; o < 3; o++)
        len +=
            add_loads(text + len, room - (size_t)len, 10000 * (o + 1), c, o, sizes[o] / c->threads);
    const char *out = tolk_dtype_name(c->out);
    len += snprintf(text + len, room - (size_t)len,
                    "%%40 = wmma %s (%%20, %%21, %%22) {dims=[%d, %d, %d], threads=%d}\n", out,
                    c->m, c->n, c->k, c->threads);
    int n = sizes[2] / c->threads;
    for (int i = 0; i < n; i++)
        len += snprintf(text + len, room - (size_t)len,
                        "%%%d = index %s (%%40, %%%d)\n%%%d = index %s (%%13, %%%d)\n"
                        "%%%d = store void (%%%d, %%%d)\n",
                        40000 + 4 * i, out, 30000 + 6 * i + 1, 40001 + 4 * i, out,
                        30000 + 6 * i + 3, 40002 + 4 * i, 40001 + 4 * i, 40000 + 4 * i);
    len += snprintf(text + len, room - (size_t)len, "%%50000 = sink void (");
    for (int i = 0; i < n; i++)
        len += snprintf(text + len, room - (size_t)len, "%s%%%d", i ? ", " : "", 40002 + 4 * i);
    snprintf(text + len, room - (size_t)len, ") {name=\"mma\"}\n");
    const tk_kernel_arg args[] = {{c->out, (size_t)sizes[2], NULL, memory[3], NULL},
                                  {c->in, (size_t)sizes[0], memory[0], NULL, NULL},
                                  {c->in, (size_t)sizes[1], memory[1], NULL, NULL},
                                  {c->out, (size_t)sizes[2], memory[2], NULL, NULL}};
    RUN(text, args);
}

static void test_wmma_multiplies_matrices_and_fragments(void **state) {
    (void)state;
    static const wmma_case cases[] = {
        {TOLK_F16, TOLK_F32, 4, 4, 4, 1},        {TOLK_F32, TOLK_F32, 3, 5, 2, 1},
        {TOLK_I8, TOLK_I32, 4, 2, 8, 1},         {TOLK_F64, TOLK_F64, 2, 2, 3, 1},
        {TOLK_F16, TOLK_F32, 16, 8, 16, 32},     {TOLK_BF16, TOLK_F32, 16, 8, 8, 32},
        {TOLK_F16, TOLK_F16, 16, 8, 16, 32},     {TOLK_F32, TOLK_F32, 16, 8, 8, 32},
        {TOLK_I8, TOLK_I32, 16, 8, 32, 32},      {TOLK_U8, TOLK_I32, 16, 8, 16, 32},
        {TOLK_FP8E4M3, TOLK_F32, 16, 8, 32, 32},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        run_wmma(&cases[i]);
}

/* ---- programs ---- */

/* y = x + 1 over 11 floats: 8 lanes, then single elements. */
static void test_program_of_vectors_and_a_tail(void **state) {
    (void)state;
    float x[11], want[11];
    for (int i = 0; i < 11; i++) {
        x[i] = (float)i * 0.5F;
        want[i] = x[i] + 1;
    }
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
    RUN("tolk.uop 1\n%0 = const index 11\n%1 = param f32 (%0) {slot=0}\n"
        "%2 = param f32 (%0) {slot=1}\n%3 = const f32 1\n"
        "%4 = stack f32x8 (%3, %3, %3, %3, %3, %3, %3, %3)\n%5 = const index 0\n"
        "%6 = index f32 (%2, %5)\n%7 = load f32x8 (%6)\n%8 = add f32x8 (%7, %4)\n"
        "%9 = index f32 (%1, %5)\n%10 = store void (%9, %8)\n%11 = const index 3\n"
        "%12 = range index (%11) {axis=0, poll=true}\n%13 = const index 8\n"
        "%14 = add index (%12, %13)\n%15 = index f32 (%2, %14)\n%16 = load f32 (%15)\n"
        "%17 = add f32 (%16, %3)\n%18 = index f32 (%1, %14)\n%19 = store void (%18, %17)\n"
        "%20 = end void (%12)\n"
        "%21 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20) {name=\"p\"}\n",
        args);
}

/* y[ids[l]] = x[ids[l]] in lanes: ascending lanes, so the last of equal indices stays; lane 3 is
 * gated off and its index is out of range. */
static void test_program_gathers_and_scatters_in_lane_order(void **state) {
    (void)state;
    static const int32_t x[4] = {10, 20, 30, 40}, before[4] = {1, 2, 3, 4};
    const int32_t want[4] = {1, 2, 102, 101};
    const tk_kernel_arg args[] = {{TOLK_I32, 4, before, want, NULL}, TK_KERNEL_IN(TOLK_I32, x)};
    RUN("tolk.uop 1\n%0 = const index 4\n%1 = param i32 (%0) {slot=0}\n"
        "%2 = param i32 (%0) {slot=1}\n%3 = const index 2\n%4 = const index 3\n"
        "%5 = const index 99\n%6 = stack indexx4 (%3, %4, %3, %5)\n%7 = const i32 100\n"
        "%8 = const i32 101\n%9 = const i32 102\n%10 = stack i32x4 (%7, %8, %9, %7)\n"
        "%11 = const bool true\n%12 = const bool false\n%13 = stack boolx4 (%11, %11, %11, %12)\n"
        "%14 = index i32x4 (%2, %6)\n%15 = load i32x4 (%14, %10, %13)\n"
        "%16 = sub i32x4 (%15, %15)\n%17 = add i32x4 (%16, %10)\n%18 = index i32x4 (%1, %6)\n"
        "%19 = store void (%18, %17, %13)\n"
        "%20 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19) {name=\"p\"}\n",
        args);
}

/* for i < span: acc (2 lanes in a register) += (i, 2i) if i is odd; y = acc, and its lanes' sum */
static void test_program_registers_ifs_and_spans(void **state) {
    (void)state;
    const int64_t want[3] = {9, 18, 27}; /* 1 + 3 + 5 */
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I64, want)};
    RUN("tolk.uop 1\n%0 = const index 3\n%1 = param i64 (%0) {slot=0}\n%2 = const index 8\n"
        "%3 = special index (%2) {name=\"span_begin\"}\n%4 = special index (%2) "
        "{name=\"span_end\"}\n"
        "%5 = sub index (%4, %3)\n%6 = const index 1\n%7 = buffer i64x2 (%6) {slot=0, space=reg}\n"
        "%8 = const index 0\n%9 = index i64x2 (%7, %8)\n%10 = const i64 0\n"
        "%11 = stack i64x2 (%10, %10)\n%12 = store void (%9, %11)\n"
        "%13 = range index (%5) {axis=0}\n%14 = add index (%13, %3)\n%15 = const index 2\n"
        "%16 = floormod index (%14, %15)\n%17 = cmpeq bool (%16, %6)\n%18 = if void (%17)\n"
        "%19 = after i64x2 (%7, %18)\n%20 = index i64x2 (%19, %8)\n%21 = load i64x2 (%20)\n"
        "%22 = cast i64 (%14)\n%23 = add i64 (%22, %22)\n%24 = stack i64x2 (%22, %23)\n"
        "%25 = add i64x2 (%21, %24)\n%26 = store void (%20, %25)\n%27 = endif void (%18)\n"
        "%28 = end void (%13)\n%29 = after i64x2 (%7, %28)\n%30 = index i64x2 (%29, %8)\n"
        "%31 = load i64x2 (%30)\n%32 = index i64 (%31, %8)\n%33 = index i64 (%31, %6)\n"
        "%34 = add i64 (%32, %33)\n%35 = index i64 (%1, %8)\n%36 = store void (%35, %31)\n"
        "%37 = index i64 (%1, %15)\n%38 = store void (%37, %34)\n"
        "%39 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
        "%34, %35, %36, %37, %38) {name=\"p\"}\n",
        args);
}

static void test_program_loop_of_no_iterations_is_skipped(void **state) {
    (void)state;
    const int32_t want[1] = {5};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, want)};
    RUN("tolk.uop 1\n%0 = const index 1\n%1 = param i32 (%0) {slot=0}\n%2 = const index 0\n"
        "%3 = index i32 (%1, %2)\n%4 = const i32 5\n%5 = store void (%3, %4)\n%6 = const index -4\n"
        "%7 = range index (%6) {axis=0}\n%8 = const i32 6\n%9 = store void (%3, %8)\n"
        "%10 = end void (%7)\n"
        "%11 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10) {name=\"p\"}\n",
        args);
}

/* ---- the whole ---- */

/* A chain of 100,000 additions, on a small stack. */
static void *run_deep_chain(void *arg) {
    enum { DEPTH = 100000 };
    (void)arg;
    kernel k;
    assert_int_equal(kernel_open(&k, NULL, NULL), TOLK_OK);
    const int64_t dims[1] = {3};
    tolk_graph *g = k.graph;
    const tolk_uop *y = tolk_param(g, TOLK_I32, dims, 1, 0, "y");
    const tolk_uop *r = tolk_range(g, tk_uop_index_const(g, 3), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *v = tolk_cast(g, r, TOLK_I32), *i = v;
    for (int d = 0; d < DEPTH; d++)
        v = tk_uop2(g, d % 2 ? TK_OP_ADD : TK_OP_SUB, v, d % 3 ? i : tk_uop_const(g, TOLK_I32, 1));
    const tolk_uop *store = tolk_store(g, tolk_index(g, y, &r, 1), v);
    const tolk_uop *end = tolk_end(g, store, &r, 1), *sink = tolk_sink(g, &end, 1, "deep");
    assert_non_null(sink);
    int32_t out[3] = {0}, want[3];
    for (int32_t n = 0; n < 3; n++) {
        want[n] = n;
        for (int d = 0; d < DEPTH; d++)
            want[n] += (d % 2 ? 1 : -1) * (d % 3 ? n : 1);
    }
    void *bufs[1] = {out};
    const size_t bytes[1] = {sizeof out};
    uint32_t nodes = tolk_graph_count(g);
    assert_int_equal(tolk_interpret(sink, bufs, bytes, 1, NULL, 0, NULL), TOLK_OK);
    assert_memory_equal(out, want, sizeof want);
    assert_int_equal(tolk_graph_count(g), nodes);
    kernel_close(&k);
    return NULL;
}

static void test_deep_graph_on_a_small_stack(void **state) {
    (void)state;
    tk_test_on_stack(512 * 1024, run_deep_chain, NULL);
}

static tolk_status run_with(const tolk_allocator *al, void *user) {
    (void)user;
    kernel k;
    float y[10] = {0}, x[10] = {0};
    void *bufs[2] = {y, x};
    const size_t bytes[2] = {40, 40};
    const int64_t vals[2] = {0, 10};
    tolk_status st = kernel_open(&k, scale_text, al);
    if (st == TOLK_OK)
        st = tolk_interpret(k.root, bufs, bytes, 2, vals, 2, NULL);
    kernel_close(&k);
    return st;
}

static void test_out_of_memory_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    assert_true(tk_test_oom(run_with, NULL) > 10);
}

static void test_caller_environment_is_kept_and_has_no_part(void **state) {
    (void)state;
    kernel k;
    assert_int_equal(kernel_open(&k, scale_text, NULL), TOLK_OK);
    float y[1], x[1] = {3};
    void *bufs[2] = {y, x};
    const size_t bytes[2] = {4, 4};
    const int64_t vals[2] = {(int64_t)tk_kernel_f32(0.1F), 1};
    fesetround(FE_UPWARD);
    tolk_status st = tolk_interpret(k.root, bufs, bytes, 2, vals, 2, NULL);
    int mode = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(st, TOLK_OK);
    assert_int_equal(mode, FE_UPWARD);
    assert_true(y[0] == 3 * 0.1F);
    kernel_close(&k);
}

static void *run_many(void *arg) {
    const kernel *k = arg;
    intptr_t bad = 0;
    for (int i = 0; i < 50; i++) {
        float y[10], x[10];
        for (int j = 0; j < 10; j++)
            x[j] = (float)(i + j);
        void *bufs[2] = {y, x};
        const size_t bytes[2] = {40, 40};
        const int64_t vals[2] = {(int64_t)tk_kernel_f32(2), 10};
        bad += tolk_interpret(k->root, bufs, bytes, 2, vals, 2, NULL) != TOLK_OK;
        for (int j = 0; j < 10; j++)
            bad += y[j] != 2 * x[j];
    }
    return (void *)bad;
}

static void test_threads_share_a_graph(void **state) {
    (void)state;
    kernel k;
    assert_int_equal(kernel_open(&k, scale_text, NULL), TOLK_OK);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, run_many, &k), 0);
    for (int i = 0; i < 4; i++) {
        void *bad = NULL;
        assert_int_equal(pthread_join(t[i], &bad), 0);
        assert_null(bad);
    }
    kernel_close(&k);
}

/* What no verifier has seen is refused, not run into the ground. */
static void test_graph_that_is_no_kernel_is_refused(void **state) {
    (void)state;
    kernel k;
    assert_int_equal(kernel_open(&k, NULL, NULL), TOLK_OK);
    tolk_graph *g = k.graph;
    const int64_t dims[1] = {3};
    const tolk_uop *y = tolk_param(g, TOLK_I32, dims, 1, 0, "y");
    const tolk_uop *r = tolk_range(g, tk_uop_index_const(g, 3), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *v = tk_uop_const(g, TOLK_I32, 1);
    const tolk_uop *place = tolk_index(g, y, &r, 1), *store = tolk_store(g, place, v);
    const tolk_uop *open[1] = {store};
    const tolk_uop *wrong_place[2] = {y, v};
    const tolk_uop *bad_store = tk_uop(g, TK_OP_STORE, TOLK_VOID, wrong_place, 2, NULL);
    const tolk_uop *mixed = tk_uop2(g, TK_OP_ADD, tk_uop_const(g, TOLK_I32, 1), y);
    const tolk_uop *bad_value = tk_uop2(g, TK_OP_STORE, place, mixed);
    const tolk_uop *axes = tk_uop1(g, TK_OP_CONTIGUOUS, v);
    const tolk_uop *sinks[] = {
        tk_uop(g, TK_OP_SINK, TOLK_VOID, open, 1, NULL),
        tk_uop(g, TK_OP_SINK, TOLK_VOID, &bad_store, 1, NULL),
        tk_uop(g, TK_OP_SINK, TOLK_VOID, &bad_value, 1, NULL),
        tk_uop(g, TK_OP_SINK, TOLK_VOID, &axes, 1, NULL),
        tk_uop(g, TK_OP_LINEAR, TOLK_VOID, open, 1, NULL),
    };
    int32_t out[3] = {0};
    void *bufs[1] = {out};
    const size_t bytes[1] = {sizeof out};
    for (size_t i = 0; i < COUNT(sinks); i++) {
        assert_non_null(sinks[i]);
        bool has_buffer = i != 3;
        tolk_status st = tolk_interpret(sinks[i], bufs, bytes, has_buffer, NULL, 0, NULL);
        assert_int_equal(st, i == 3 ? TOLK_E_UNSUPPORTED : TOLK_E_VERIFY);
    }
    kernel_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_nested_is_a_left_fold_first_range_outermost),
        cmocka_unit_test(test_reduce_over_lanes_folds_halves),
        cmocka_unit_test(test_reduce_of_f16_runs_in_f32_and_rounds_once),
        cmocka_unit_test(test_range_used_in_a_reduction_inside_its_own_loop),
        cmocka_unit_test(test_inner_size_may_depend_on_the_outer_range),
        cmocka_unit_test(test_accumulator_in_a_register_starts_anew_in_each_outer_iteration),
        cmocka_unit_test(test_effect_referred_to_twice_runs_once),
        cmocka_unit_test(test_end_repeats_an_effect_for_every_iteration),
        cmocka_unit_test(test_empty_range_does_nothing_and_reduces_to_the_identity),
        cmocka_unit_test(test_load_out_of_range_gives_zero_and_says_where),
        cmocka_unit_test(test_store_out_of_range_is_dropped),
        cmocka_unit_test(test_each_dimension_is_checked),
        cmocka_unit_test(test_gates_keep_hands_off_memory),
        cmocka_unit_test(test_gated_index_keeps_hands_off_memory),
        cmocka_unit_test(test_stored_byte_of_a_bool_other_than_0_and_1_reads_as_true),
        cmocka_unit_test(test_scalars_give_sizes_and_values),
        cmocka_unit_test(test_SYM_05_bad_arguments_are_named),
        cmocka_unit_test(test_barrier_lets_a_group_exchange_local_memory),
        cmocka_unit_test(test_barriers_in_a_loop_keep_a_group_in_step),
        cmocka_unit_test(test_shuffle_gives_the_value_of_the_partner),
        cmocka_unit_test(test_barrier_that_not_all_reach_is_an_error),
        cmocka_unit_test(test_atomic_add_of_all_work_items_counts_all),
        cmocka_unit_test(test_wmma_multiplies_matrices_and_fragments),
        cmocka_unit_test(test_program_of_vectors_and_a_tail),
        cmocka_unit_test(test_program_gathers_and_scatters_in_lane_order),
        cmocka_unit_test(test_program_registers_ifs_and_spans),
        cmocka_unit_test(test_program_loop_of_no_iterations_is_skipped),
        cmocka_unit_test(test_deep_graph_on_a_small_stack),
        cmocka_unit_test(test_out_of_memory_is_an_error_and_leaks_nothing),
        cmocka_unit_test(test_caller_environment_is_kept_and_has_no_part),
        cmocka_unit_test(test_threads_share_a_graph),
        cmocka_unit_test(test_graph_that_is_no_kernel_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
