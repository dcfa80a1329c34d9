/* SPDX-License-Identifier: MIT
 *
 * Indexing, code generation, tails of vectors and masks.
 */
#include "cases/case.h"
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

/* ---- indexing ---- */

/* tab[(r0 * 65536 + r1) // 65536], 2.6e9 on the way: r0 and r1 from loaded i32, then from ranges.
 */
static void test_IDX_01_index_arithmetic_has_64_bits(void **state) {
    (void)state;
    enum { N = 65536 };
    static int32_t tab[N];
    for (int32_t i = 0; i < N; i++)
        tab[i] = i;
    static const int32_t r0[3] = {40000, 65535, 0}, r1[3] = {7, 65535, 65535};
    const int32_t want[3] = {40000, 65535, 0};
    const tk_kernel_arg loaded[] = {TK_KERNEL_OUT(TOLK_I32, want), TK_KERNEL_IN(TOLK_I32, tab),
                                    TK_KERNEL_IN(TOLK_I32, r0), TK_KERNEL_IN(TOLK_I32, r1)};
    tk_kernel_run("tolk.uop 1\n%0 = const index 3\n%1 = const index 65536\n"
                  "%2 = param i32 (%0) {slot=0}\n%3 = param i32 (%1) {slot=1}\n"
                  "%4 = param i32 (%0) {slot=2}\n%5 = param i32 (%0) {slot=3}\n"
                  "%6 = range index (%0) {axis=0, kind=global}\n%7 = index i32 (%4, %6)\n"
                  "%8 = load i32 (%7)\n%9 = cast index (%8)\n%10 = index i32 (%5, %6)\n"
                  "%11 = load i32 (%10)\n%12 = cast index (%11)\n%13 = mul index (%9, %1)\n"
                  "%14 = add index (%13, %12)\n%15 = floordiv index (%14, %1)\n"
                  "%16 = index i32 (%3, %15)\n%17 = load i32 (%16)\n%18 = index i32 (%2, %6)\n"
                  "%19 = store void (%18, %17)\n%20 = end void (%19, %6)\n"
                  "%21 = sink void (%20) {name=\"k\"}\n",
                  loaded, 4, NULL, 0, TOLK_OK);
    const int32_t from_ranges[16] = {39999, 39999, 39999, 39999, 39999, 39999, 39999, 39999,
                                     40000, 40000, 40000, 40000, 40000, 40000, 40000, 40000};
    const tk_kernel_arg ranges[] = {TK_KERNEL_OUT(TOLK_I32, from_ranges),
                                    TK_KERNEL_IN(TOLK_I32, tab)};
    tk_kernel_run(
        "tolk.uop 1\n%0 = const index 2\n%1 = const index 65536\n%2 = const index 8\n"
        "%3 = stack index (%0, %2)\n%4 = param i32 (%3) {slot=0}\n"
        "%5 = param i32 (%1) {slot=1}\n%6 = range index (%0) {axis=0, kind=global}\n"
        "%7 = range index (%2) {axis=1, kind=global}\n%8 = const index 39999\n"
        "%9 = add index (%6, %8)\n%10 = mul index (%9, %1)\n%11 = add index (%10, %7)\n"
        "%12 = floordiv index (%11, %1)\n%13 = index i32 (%5, %12)\n"
        "%14 = load i32 (%13)\n%15 = index i32 (%4, %6, %7)\n%16 = store void (%15, %14)\n"
        "%17 = end void (%16, %6, %7)\n%18 = sink void (%17) {name=\"k\"}\n",
        ranges, 2, NULL, 0, TOLK_OK);
}

/* j = idx[i] gated by i < 5, else 2^30; y = tab[j] gated by the same: 16 wide. */
static void test_IDX_03_gather_behind_a_gate_reads_no_garbage(void **state) {
    (void)state;
    static const int32_t idx[5] = {4, 0, 2, 4, 1};
    static const float tab[5] = {10, 11, 12, 13, 14};
    const float want[16] = {14, 10, 12, 14, 11};
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_I32, idx),
                                  TK_KERNEL_IN(TOLK_F32, tab)};
    tk_kernel_run("tolk.uop 1\n%0 = const index 16\n%1 = const index 5\n"
                  "%2 = param f32 (%0) {slot=0}\n%3 = param i32 (%1) {slot=1}\n"
                  "%4 = param f32 (%1) {slot=2}\n%5 = range index (%0) {axis=0, kind=global}\n"
                  "%6 = cmplt bool (%5, %1)\n%7 = index i32 (%3, %5)\n%8 = const i32 1073741824\n"
                  "%9 = load i32 (%7, %8, %6)\n%10 = cast index (%9)\n%11 = index f32 (%4, %10)\n"
                  "%12 = const f32 0\n%13 = load f32 (%11, %12, %6)\n%14 = index f32 (%2, %5)\n"
                  "%15 = store void (%14, %13)\n%16 = end void (%15, %5)\n"
                  "%17 = sink void (%16) {name=\"k\"}\n",
                  args, 3, NULL, 0, TOLK_OK);
}

static void test_IDX_05_rows_are_gathered_to_the_end(void **state) {
    (void)state;
    enum { ROWS = 512, COLS = 8, OUT = 3072 };
    static float table[ROWS * COLS], want[OUT * COLS];
    static int32_t ids[ROWS];
    for (int i = 0; i < ROWS * COLS; i++)
        table[i] = (float)i;
    for (int i = 0; i < ROWS; i++)
        ids[i] = ROWS - 1 - i;
    for (int k = 0; k < OUT; k++)
        memcpy(want + k * COLS, table + (ROWS - 1 - k % ROWS) * COLS, COLS * sizeof *want);
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, table),
                                  TK_KERNEL_IN(TOLK_I32, ids)};
    tk_kernel_run("tolk.uop 1\n%0 = const index 3072\n%1 = const index 8\n%2 = const index 512\n"
                  "%3 = stack index (%0, %1)\n%4 = stack index (%2, %1)\n"
                  "%5 = param f32 (%3) {slot=0}\n%6 = param f32 (%4) {slot=1}\n"
                  "%7 = param i32 (%2) {slot=2}\n%8 = range index (%0) {axis=0, kind=global}\n"
                  "%9 = range index (%1) {axis=1, kind=global}\n%10 = floormod index (%8, %2)\n"
                  "%11 = index i32 (%7, %10)\n%12 = load i32 (%11)\n%13 = cast index (%12)\n"
                  "%14 = index f32 (%6, %13, %9)\n%15 = load f32 (%14)\n"
                  "%16 = index f32 (%5, %8, %9)\n%17 = store void (%16, %15)\n"
                  "%18 = end void (%17, %8, %9)\n%19 = sink void (%18) {name=\"rows\"}\n",
                  args, 3, NULL, 0, TOLK_OK);
}

/* c = cumsum(x); y[i] = how many k have c[k] <= i: fused, and in two kernels. */
static void test_IDX_07_searched_cumsum_is_the_same_fused(void **state) {
    (void)state;
    enum { N = 27 };
    int32_t x[N], sums[N], found[N];
    for (int i = 0; i < N; i++) {
        x[i] = 1;
        sums[i] = i + 1;
        found[i] = i; /* c[k] = k + 1 <= i */
    }
    const char *head = "tolk.uop 1\n%0 = const index 27\n%1 = param i32 (%0) {slot=0}\n"
                       "%2 = param i32 (%0) {slot=1}\n%3 = const i32 0\n";
    const char *cumsum =
        "%12 = cmplt bool (%10, %11)\n%13 = const bool true\n"
        "%14 = xor bool (%12, %13)\n%15 = index i32 (%2, %11)\n%16 = load i32 (%15)\n"
        "%17 = where i32 (%14, %16, %3)\n%18 = reduce i32 (%17, %11) {op=add}\n";
    const char *search = "%21 = cast i32 (%20)\n%22 = cmplt bool (%21, %18)\n"
                         "%23 = const bool true\n%24 = xor bool (%22, %23)\n%25 = cast i32 (%24)\n"
                         "%26 = reduce i32 (%25, %10) {op=add}\n%27 = index i32 (%1, %20)\n"
                         "%28 = store void (%27, %26)\n%29 = end void (%28, %20)\n"
                         "%30 = sink void (%29) {name=\"search\"}\n";
    char text[2048];
    snprintf(text, sizeof text,
             "%s%%10 = range index (%%0) {axis=0, kind=global}\n"
             "%%11 = range index (%%0) {axis=1, kind=reduce}\n%s%%20 = index i32 (%%1, %%10)\n"
             "%%21 = store void (%%20, %%18)\n%%22 = end void (%%21, %%10)\n"
             "%%23 = sink void (%%22) {name=\"cumsum\"}\n",
             head, cumsum);
    const tk_kernel_arg first[] = {TK_KERNEL_OUT(TOLK_I32, sums), TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(text, first, 2, NULL, 0, TOLK_OK);
    snprintf(text, sizeof text,
             "%s%%20 = range index (%%0) {axis=2, kind=global}\n"
             "%%10 = range index (%%0) {axis=0, kind=reduce}\n%%17 = index i32 (%%2, %%10)\n"
             "%%18 = load i32 (%%17)\n%s",
             head, search);
    char *unused = strstr(text, "%3 = const i32 0\n");
    memmove(unused, unused + 17, strlen(unused + 17) + 1);
    const tk_kernel_arg second[] = {TK_KERNEL_OUT(TOLK_I32, found), TK_KERNEL_IN(TOLK_I32, sums)};
    tk_kernel_run(text, second, 2, NULL, 0, TOLK_OK);
    snprintf(text, sizeof text,
             "%s%%20 = range index (%%0) {axis=2, kind=global}\n"
             "%%10 = range index (%%0) {axis=0, kind=reduce}\n"
             "%%11 = range index (%%0) {axis=1, kind=reduce}\n%s%s",
             head, cumsum, search);
    const tk_kernel_arg fused[] = {TK_KERNEL_OUT(TOLK_I32, found), TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(text, fused, 2, NULL, 0, TOLK_OK);
}

/* ---- code generation ---- */

static void test_CG_01_select_has_no_poisoned_arm(void **state) {
    (void)state;
    static const double x[] = {1, 1, 1, 1, 1}, s[] = {0, 31, 32, 33, 255};
    static const double want[] = {1, 2147483648.0, 0, 0, 0};
    case_run("%300 = const u32 32\n%301 = cmplt bool (%101, %300)\n%302 = shl u32 (%100, %101)\n"
             "%303 = const u32 0\n%200 = where u32 (%301, %302, %303)",
             TOLK_U32, TOLK_U32, x, s, want, 5);
    const double f[] = {(double)NAN, 3.7, -(double)INFINITY}, i[] = {0, 3, -2147483648.0};
    case_run("%300 = cmpeq bool (%100, %100)\n%301 = cast i32 (%100)\n%302 = const i32 0\n"
             "%200 = where i32 (%300, %301, %302)",
             TOLK_F32, TOLK_I32, f, NULL, i, 3);
}

static void test_CG_07_bools_are_bytes(void **state) {
    (void)state;
    static const double a[] = {1, 2, 3, 4, -5}, b[] = {2, 2, 4, -4, 0}, less[] = {1, 0, 1, 0, 1};
    case_run("%200 = cmplt bool (%100, %101)", TOLK_F32, TOLK_BOOL, a, b, less, 5);
    case_run("%200 = cmplt bool (%100, %101)", TOLK_I8, TOLK_BOOL, a, b, less, 5);
    case_run("%200 = cmplt bool (%100, %101)", TOLK_F64, TOLK_BOOL, a, b, less, 5);
    for (size_t i = 0; i < TK_KERNEL_N_SIZES; i++) { /* load, cast, sum: the count */
        size_t n = tk_kernel_sizes[i];
        static uint8_t mask[4097];
        int32_t count = 0;
        for (size_t k = 0; k < n; k++)
            count += mask[k] = k % 3 == 0;
        char text[512];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 1\n%%1 = const index %zu\n"
                 "%%2 = param i32 (%%0) {slot=0}\n%%3 = param bool (%%1) {slot=1}\n"
                 "%%4 = range index (%%1) {axis=0, kind=reduce}\n%%5 = index bool (%%3, %%4)\n"
                 "%%6 = load bool (%%5)\n%%7 = cast i32 (%%6)\n"
                 "%%8 = reduce i32 (%%7, %%4) {op=add}\n%%9 = const index 0\n"
                 "%%10 = index i32 (%%2, %%9)\n%%11 = store void (%%10, %%8)\n"
                 "%%12 = sink void (%%11) {name=\"count\"}\n",
                 n);
        const tk_kernel_arg args[] = {{TOLK_I32, 1, NULL, &count, NULL},
                                      {TOLK_BOOL, n, mask, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
    static const uint8_t before[5] = {1, 0, 1, 0, 0}, after[5] = {1, 0, 1, 1, 0};
    const tk_kernel_arg one[] = {{TOLK_BOOL, 5, before, after, NULL}};
    tk_kernel_run("tolk.uop 1\n%0 = const index 5\n%1 = param bool (%0) {slot=0}\n"
                  "%2 = const index 3\n%3 = index bool (%1, %2)\n%4 = const bool true\n"
                  "%5 = store void (%3, %4)\n%6 = sink void (%5) {name=\"one\"}\n",
                  one, 1, NULL, 0, TOLK_OK);
}

static void test_CG_09_constants_keep_every_bit(void **state) {
    (void)state;
    static const double f32[] = {1e-8, 1e-18, 1e-45, 3.141592653589793, 0x1.fffffep127};
    static const double f64[] = {0.1, 16777217, 1e-320, 3.141592653589793, 0x1.fffffffffffffp1023};
    case_run("%200 = bitcast f32 (%100)", TOLK_F32, TOLK_F32, f32, NULL, f32, 5);
    case_run("%200 = bitcast f64 (%100)", TOLK_F64, TOLK_F64, f64, NULL, f64, 5);
    assert_int_equal(tk_kernel_f32((float)3.141592653589793), 0x40490fdb);
    const double decimal[] = {0}, root[] = {(double)(1.0F / sqrtf(1e-8F))};
    case_run("%300 = const f32 1e-8\n%301 = add f32 (%100, %300)\n%302 = sqrt f32 (%301)\n"
             "%200 = reciprocal f32 (%302)",
             TOLK_F32, TOLK_F32, decimal, NULL, root, 1);
    assert_true(fabs(root[0] - 1e4) < 0.01);
}

static void test_CG_15_views_at_any_element(void **state) {
    (void)state;
    static const double x[] = {1, 2, 3, -4, 5, 6, -7};
    for (tk_kernel_offset = 1; tk_kernel_offset <= 3; tk_kernel_offset++) {
        case_run("%200 = bitcast f32 (%100)", TOLK_F32, TOLK_F32, x, NULL, x, 7);
        case_run("%200 = bitcast i8 (%100)", TOLK_I8, TOLK_I8, x, NULL, x, 7);
        case_run("%200 = bitcast f64 (%100)", TOLK_F64, TOLK_F64, x, NULL, x, 7);
    }
    tk_kernel_offset = 1;
}

/* ---- tails and masks ---- */

static void test_VEC_01_scalar_update_in_a_loop_happens_once_each(void **state) {
    (void)state;
    static const uint8_t cond[1] = {1};
    static const int32_t before[1] = {0};
    const int32_t want[1] = {3};
    const tk_kernel_arg args[] = {{TOLK_I32, 1, before, want, NULL}, TK_KERNEL_IN(TOLK_BOOL, cond)};
    tk_kernel_run(
        "tolk.uop 1\n%0 = const index 1\n%1 = const index 3\n%2 = param i32 (%0) {slot=0}\n"
        "%3 = param bool (%0) {slot=1}\n%4 = range index (%1) {axis=0, kind=loop}\n"
        "%5 = const index 0\n%6 = index bool (%3, %5)\n%7 = load bool (%6)\n"
        "%8 = after i32 (%2, %4)\n%9 = index i32 (%8, %5)\n%10 = load i32 (%9)\n"
        "%11 = const i32 1\n%12 = add i32 (%10, %11)\n%13 = index i32 (%2, %5)\n"
        "%14 = store void (%13, %12, %7)\n%15 = end void (%14, %4)\n"
        "%16 = sink void (%15) {name=\"k\"}\n",
        args, 2, NULL, 0, TOLK_OK);
}

static void test_VEC_03_one_lane_remains(void **state) {
    (void)state;
    static const size_t sizes[] = {5, 9, 17, 33, 65};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t n = sizes[s];
        float x[66], want[65];
        for (size_t i = 0; i <= n; i++)
            x[i] = (float)(i * i) * 0.25F;
        for (size_t i = 0; i < n; i++)
            want[i] = i < 8 ? 0 : 2 * x[i] + 2 * x[i + 1];
        char text[1024];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index %zu\n%%1 = const index %zu\n"
                 "%%2 = param f32 (%%0) {slot=0}\n%%3 = param f32 (%%1) {slot=1}\n"
                 "%%4 = range index (%%0) {axis=0, kind=global}\n%%5 = const index 8\n"
                 "%%6 = cmplt bool (%%4, %%5)\n%%7 = index f32 (%%3, %%4)\n%%8 = load f32 (%%7)\n"
                 "%%9 = const index 1\n%%10 = add index (%%4, %%9)\n%%11 = index f32 (%%3, %%10)\n"
                 "%%12 = load f32 (%%11)\n%%13 = const f32 2\n%%14 = mul f32 (%%8, %%13)\n"
                 "%%15 = mul f32 (%%12, %%13)\n%%16 = add f32 (%%14, %%15)\n%%17 = const f32 0\n"
                 "%%18 = where f32 (%%6, %%17, %%16)\n%%19 = index f32 (%%2, %%4)\n"
                 "%%20 = store void (%%19, %%18)\n%%21 = end void (%%20, %%4)\n"
                 "%%22 = sink void (%%21) {name=\"tail\"}\n",
                 n, n + 1);
        const tk_kernel_arg args[] = {{TOLK_F32, n, NULL, want, NULL},
                                      {TOLK_F32, n + 1, x, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
}

static void test_VEC_05_tail_equals_body_in_every_dtype(void **state) {
    (void)state;
    enum { SIDE = 22, N = SIDE * SIDE };
    static const tolk_dtype dtypes[] = {TOLK_F64, TOLK_I8, TOLK_U8, TOLK_BF16, TOLK_I64, TOLK_F32};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        tolk_dtype dt = dtypes[d];
        uint64_t x[N], square[N], most = tk_scalar_identity(TK_ROP_MAX, dt);
        size_t bytes = tolk_dtype_bytes(dt);
        char in[N * 8], out[N * 8];
        for (size_t i = 0; i < N; i++) {
            x[i] = case_bits(dt, (double)(i * 7 % 101));
            square[i] = tk_scalar_alu(TK_OP_MUL, dt, x[i], x[i], 0, true);
            most = tk_scalar_alu(TK_OP_MAX, dt, most, square[i], 0, true);
            memcpy(in + i * bytes, &x[i], bytes);
            memcpy(out + i * bytes, &square[i], bytes);
        }
        const char *name = tolk_dtype_name(dt);
        char text[1024];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 22\n%%1 = stack index (%%0, %%0)\n"
                 "%%2 = param %s (%%1) {slot=0}\n%%3 = param %s (%%1) {slot=1}\n"
                 "%%4 = range index (%%0) {axis=0, kind=global}\n"
                 "%%5 = range index (%%0) {axis=1, kind=global}\n%%6 = index %s (%%3, %%4, %%5)\n"
                 "%%7 = load %s (%%6)\n%%8 = mul %s (%%7, %%7)\n%%9 = index %s (%%2, %%4, %%5)\n"
                 "%%10 = store void (%%9, %%8)\n%%11 = end void (%%10, %%4, %%5)\n"
                 "%%12 = sink void (%%11) {name=\"square\"}\n",
                 name, name, name, name, name, name);
        const tk_kernel_arg args[] = {{dt, N, NULL, out, NULL}, {dt, N, in, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
        tk_kernel_reduce("max", dt, square, N, N, most);
    }
}

/* c = q > 2 ? c + q d : c; then c = c + r, behind it: the condition holds for both updates. */
static void test_VEC_07_conditional_update_stays_conditional(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4, 17};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t n = sizes[s];
        float c[17], q[17], r[17], want[17];
        for (size_t i = 0; i < n; i++) {
            c[i] = 1;
            q[i] = n == 17 && i % 2 ? 3 : 2;
            r[i] = n == 17 ? (float)i : 0;
            want[i] = (q[i] > 2 ? c[i] + q[i] * 1 : c[i]) + r[i];
        }
        char text[1024];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index %zu\n%%1 = param f32 (%%0) {slot=0}\n"
                 "%%2 = param f32 (%%0) {slot=1}\n%%3 = param f32 (%%0) {slot=2}\n"
                 "%%4 = range index (%%0) {axis=0, kind=global}\n%%5 = index f32 (%%1, %%4)\n"
                 "%%6 = load f32 (%%5)\n%%7 = index f32 (%%2, %%4)\n%%8 = load f32 (%%7)\n"
                 "%%9 = const f32 2\n%%10 = cmplt bool (%%9, %%8)\n%%11 = const f32 1\n"
                 "%%12 = mul f32 (%%8, %%11)\n%%13 = add f32 (%%6, %%12)\n"
                 "%%14 = where f32 (%%10, %%13, %%6)\n%%15 = store void (%%5, %%14)\n"
                 "%%16 = after f32 (%%1, %%15)\n%%17 = index f32 (%%16, %%4)\n"
                 "%%18 = load f32 (%%17)\n%%19 = index f32 (%%3, %%4)\n%%20 = load f32 (%%19)\n"
                 "%%21 = add f32 (%%18, %%20)\n%%22 = store void (%%5, %%21)\n"
                 "%%23 = end void (%%22, %%4)\n%%24 = sink void (%%23) {name=\"update\"}\n",
                 n);
        const tk_kernel_arg args[] = {{TOLK_F32, n, c, want, NULL},
                                      {TOLK_F32, n, q, NULL, NULL},
                                      {TOLK_F32, n, r, NULL, NULL}};
        tk_kernel_run(text, args, 3, NULL, 0, TOLK_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_IDX_01_index_arithmetic_has_64_bits),
        cmocka_unit_test(test_IDX_03_gather_behind_a_gate_reads_no_garbage),
        cmocka_unit_test(test_IDX_05_rows_are_gathered_to_the_end),
        cmocka_unit_test(test_IDX_07_searched_cumsum_is_the_same_fused),
        cmocka_unit_test(test_CG_01_select_has_no_poisoned_arm),
        cmocka_unit_test(test_CG_07_bools_are_bytes),
        cmocka_unit_test(test_CG_09_constants_keep_every_bit),
        cmocka_unit_test(test_CG_15_views_at_any_element),
        cmocka_unit_test(test_VEC_01_scalar_update_in_a_loop_happens_once_each),
        cmocka_unit_test(test_VEC_03_one_lane_remains),
        cmocka_unit_test(test_VEC_05_tail_equals_body_in_every_dtype),
        cmocka_unit_test(test_VEC_07_conditional_update_stays_conditional),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
