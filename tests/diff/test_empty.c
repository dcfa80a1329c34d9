/* SPDX-License-Identifier: MIT
 *
 * Loops with no iteration or one, and effects that an END repeats although they name none of its
 * ranges (docs/ir.md, "Effects"): what is not needed does not happen, and what is needed happens in
 * each iteration.
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include <stdio.h>

/* y = x; for r < n: y += x. In a register, whose start stands outside of the loop. */
static void test_accumulator_of_an_empty_loop_keeps_its_start(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 1\n%1 = const index 0\n"
        "%2 = param f32 (%0) {slot=0, name=\"y\"}\n%3 = param f32 (%0) {slot=1, name=\"x\"}\n"
        "%4 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=9}\n%5 = cast index (%4)\n"
        "%6 = index f32 (%3, %1)\n%7 = load f32 (%6)\n"
        "%8 = buffer f32 (%0) {slot=0, space=reg}\n%9 = index f32 (%8, %1)\n"
        "%10 = store void (%9, %7)\n%11 = range index (%5) {axis=0}\n"
        "%12 = after f32 (%8, %10, %11)\n%13 = index f32 (%12, %1)\n%14 = load f32 (%13)\n"
        "%15 = add f32 (%14, %7)\n%16 = store void (%9, %15)\n%17 = end void (%16, %11)\n"
        "%18 = after f32 (%8, %10, %17)\n%19 = index f32 (%18, %1)\n%20 = load f32 (%19)\n"
        "%21 = index f32 (%2, %1)\n%22 = store void (%21, %20)\n%23 = sink void (%22) "
        "{name=\"acc\"}\n";
    const float x[1] = {2.5f};
    for (int64_t n = 0; n < 4; n++) {
        const float want[1] = {2.5f * (float)(n + 1)};
        tk_kernel_arg args[2] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
        tk_kernel_run(text, args, 2, &n, 1, TOLK_OK);
    }
}

/* for i < n: y[0] = x[0], where x has n elements: with n = 0 nothing is read. */
static void test_load_in_an_empty_loop_is_not_done(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=1}\n"
        "%1 = cast index (%0)\n%2 = const index 1\n%3 = const index 0\n"
        "%4 = param f32 (%2) {slot=0, name=\"y\"}\n%5 = param f32 (%1) {slot=1, name=\"x\"}\n"
        "%6 = range index (%1) {axis=0}\n%7 = index f32 (%5, %6)\n%8 = load f32 (%7)\n"
        "%9 = index f32 (%4, %3)\n%10 = store void (%9, %8)\n%11 = end void (%10, %6)\n"
        "%12 = sink void (%11) {name=\"maybe\"}\n";
    const float x[1] = {3}, before[1] = {7}, after[1] = {3};
    for (int64_t n = 0; n < 2; n++) {
        tk_kernel_arg args[2] = {{TOLK_F32, 1, before, n ? after : before, NULL},
                                 {TOLK_F32, (size_t)n, x, NULL, NULL}};
        tk_kernel_run(text, args, 2, &n, 1, TOLK_OK);
    }
}

/* Two loops of n and m iterations need z[0], where z has n + m elements: neither, one, both. */
static void test_load_that_two_loops_need(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=3, name=\"n\", space=alu, min=0, max=3}\n"
        "%1 = param i32 {slot=4, name=\"m\", space=alu, min=0, max=3}\n%2 = cast index (%0)\n"
        "%3 = cast index (%1)\n%4 = add index (%2, %3)\n%5 = const index 0\n"
        "%6 = param i32 (%2) {slot=0, name=\"x\"}\n%7 = param i32 (%3) {slot=1, name=\"y\"}\n"
        "%8 = param i32 (%4) {slot=2, name=\"z\"}\n%9 = index i32 (%8, %5)\n%10 = load i32 (%9)\n"
        "%11 = range index (%2) {axis=0}\n%12 = index i32 (%6, %11)\n%13 = store void (%12, %10)\n"
        "%14 = end void (%13, %11)\n%15 = range index (%3) {axis=1}\n%16 = index i32 (%7, %15)\n"
        "%17 = store void (%16, %10)\n%18 = end void (%17, %15)\n"
        "%19 = sink void (%14, %18) {name=\"two\"}\n";
    const int32_t z[6] = {5}, want[3] = {5, 5, 5};
    for (int64_t n = 0; n < 3; n++)
        for (int64_t m = 0; m < 3; m++) {
            tk_kernel_arg args[3] = {{TOLK_I32, (size_t)n, NULL, want, NULL},
                                     {TOLK_I32, (size_t)m, NULL, want, NULL},
                                     {TOLK_I32, (size_t)(n + m), z, NULL, NULL}};
            tk_kernel_run(text, args, 3, (const int64_t[]){n, m}, 2, TOLK_OK);
        }
}

/* for i < n: for k < i: y[i] = z[0], where z has n + size elements, n_z of them given. The inner
 * loop runs at all from n = 2 on. */
static void triangle(const char *size, int64_t n, size_t n_z, const int32_t *want,
                     tolk_status status) {
    char text[1200];
    snprintf(
        text, sizeof text,
        "tolk.uop 1\n%%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=8}\n"
        "%%1 = cast index (%%0)\n%%2 = const index %s\n%%3 = add index (%%1, %%2)\n"
        "%%4 = const index 0\n%%5 = max index (%%3, %%4)\n"
        "%%6 = param i32 (%%1) {slot=0, name=\"y\"}\n%%7 = param i32 (%%5) {slot=1, name=\"z\"}\n"
        "%%8 = range index (%%1) {axis=0}\n%%9 = range index (%%8) {axis=1}\n"
        "%%10 = index i32 (%%7, %%4)\n%%11 = load i32 (%%10)\n%%12 = index i32 (%%6, %%8)\n"
        "%%13 = store void (%%12, %%11)\n%%14 = end void (%%13, %%8, %%9)\n"
        "%%15 = sink void (%%14) {name=\"triangle\"}\n",
        size);
    static const int32_t z[8] = {9}, before[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    tk_kernel_arg args[2] = {{TOLK_I32, (size_t)n, before, want, NULL},
                             {TOLK_I32, n_z, z, NULL, NULL}};
    tk_kernel_run(text, args, 2, &n, 1, status);
}

static void test_load_in_loops_whose_sizes_depend_on_loops(void **state) {
    (void)state;
    static const int32_t want[8] = {1, 9, 9, 9, 9, 9, 9, 9};
    for (int64_t n = 1; n < 5; n++)
        triangle("-1", n, (size_t)n - 1, want, TOLK_OK);
    static const int32_t zero[8] = {1, 0};
    triangle("-2", 1, 0, want, TOLK_OK);
    triangle("-2", 2, 0, zero, TOLK_E_RANGE); /* a load out of its buffer gives 0 */
}

/* for r < 3: { y[0] = r; y[0] = 7; } and the same with the group in an END of its own. */
static void test_every_effect_of_a_group_is_repeated(void **state) {
    (void)state;
    static const char *const ends[] = {"%10 = end void (%9, %5)\n",
                                       "%11 = range index (%0) {axis=1}\n%12 = end void (%9, %11)\n"
                                       "%10 = end void (%12, %5)\n"};
    const int32_t want[1] = {7};
    for (int i = 0; i < 2; i++) {
        char text[800];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 3\n%%1 = const index 0\n%%2 = const index 1\n"
                 "%%3 = param i32 (%%2) {slot=0}\n%%4 = const i32 7\n"
                 "%%5 = range index (%%0) {axis=0}\n%%6 = index i32 (%%3, %%1)\n"
                 "%%20 = cast i32 (%%5)\n%%7 = store void (%%6, %%20)\n"
                 "%%8 = store void (%%6, %%4)\n%%9 = group void (%%7, %%8)\n%s"
                 "%%13 = sink void (%%10) {name=\"group\"}\n",
                 ends[i]);
        tk_kernel_arg args[1] = {TK_KERNEL_OUT(TOLK_I32, want)};
        tk_kernel_run(text, args, 1, NULL, 0, TOLK_OK);
    }
}

/* y[i * 4 + j] = 1 for j <= i, both global: the size of the inner one depends on the outer one. */
static void test_global_range_inside_of_another_ones_size(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 4\n%1 = const index 16\n%2 = const index 1\n"
        "%3 = param i32 (%1) {slot=0}\n%4 = range index (%0) {axis=0, kind=global}\n"
        "%5 = add index (%4, %2)\n%6 = range index (%5) {axis=1, kind=global}\n"
        "%7 = mul index (%4, %0)\n%8 = add index (%7, %6)\n%9 = index i32 (%3, %8)\n"
        "%10 = const i32 1\n%11 = store void (%9, %10)\n%12 = end void (%11, %4, %6)\n"
        "%13 = sink void (%12) {name=\"lower\"}\n";
    static const int32_t before[16] = {0},
                         want[16] = {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1};
    tk_kernel_arg args[1] = {{TOLK_I32, 16, before, want, NULL}};
    tk_kernel_run(text, args, 1, NULL, 0, TOLK_OK);
}

/* for i < n, n at most 1: y[i] = y[i] * 2 + 1, in place: once. Also in rows of 3. */
static void test_single_iteration_in_place_is_done_once(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=1}\n"
        "%1 = cast index (%0)\n%2 = const index 3\n%3 = stack index (%1, %2)\n"
        "%4 = param f32 (%3) {slot=0, name=\"y\"}\n%5 = range index (%1) {axis=0, kind=global}\n"
        "%6 = range index (%2) {axis=1, kind=global}\n%7 = index f32 (%4, %5, %6)\n"
        "%8 = load f32 (%7)\n%9 = const f32 0x1p+1\n%10 = mul f32 (%8, %9)\n"
        "%11 = const f32 0x1p+0\n%12 = add f32 (%10, %11)\n%13 = store void (%7, %12)\n"
        "%14 = end void (%13, %5, %6)\n%15 = sink void (%14) {name=\"once\"}\n";
    const float before[3] = {1, 2, 3}, want[3] = {3, 5, 7};
    for (int64_t n = 0; n < 2; n++) {
        tk_kernel_arg args[1] = {{TOLK_F32, (size_t)n * 3, before, want, NULL}};
        tk_kernel_run(text, args, 1, &n, 1, TOLK_OK);
    }
}

/* for r < 40: y[r] = r; then for r < 40: z[r] = y[39] + (r < 3 ? x[r] : 0), both loops over one
 * range node: taking the second one apart at 3 must leave the first one whole. */
static void test_range_that_two_loops_share(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 40\n%1 = param i32 (%0) {slot=0}\n"
        "%2 = param i32 (%0) {slot=1}\n%3 = param i32 (%0) {slot=2}\n"
        "%4 = range index (%0) {axis=0}\n%5 = index i32 (%1, %4)\n%6 = cast i32 (%4)\n"
        "%7 = store void (%5, %6)\n%8 = end void (%7, %4)\n%9 = after i32 (%1, %8)\n"
        "%10 = const index 39\n%11 = index i32 (%9, %10)\n%12 = load i32 (%11)\n"
        "%13 = const index 3\n%14 = cmplt bool (%4, %13)\n%15 = index i32 (%3, %4)\n"
        "%16 = const i32 0\n%17 = load i32 (%15, %16, %14)\n%18 = add i32 (%12, %17)\n"
        "%19 = index i32 (%2, %4)\n%20 = store void (%19, %18)\n%21 = end void (%20, %4)\n"
        "%22 = sink void (%8, %21) {name=\"shared\"}\n";
    int32_t y[40], z[40], x[40];
    for (int i = 0; i < 40; i++) {
        y[i] = i;
        x[i] = 100 * (i + 1);
        z[i] = 39 + (i < 3 ? x[i] : 0);
    }
    tk_kernel_arg args[3] = {TK_KERNEL_OUT(TOLK_I32, y), TK_KERNEL_OUT(TOLK_I32, z),
                             TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(text, args, 3, NULL, 0, TOLK_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulator_of_an_empty_loop_keeps_its_start),
        cmocka_unit_test(test_load_in_an_empty_loop_is_not_done),
        cmocka_unit_test(test_load_that_two_loops_need),
        cmocka_unit_test(test_load_in_loops_whose_sizes_depend_on_loops),
        cmocka_unit_test(test_every_effect_of_a_group_is_repeated),
        cmocka_unit_test(test_global_range_inside_of_another_ones_size),
        cmocka_unit_test(test_single_iteration_in_place_is_done_once),
        cmocka_unit_test(test_range_that_two_loops_share),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
