/* SPDX-License-Identifier: MIT
 *
 * The order of effects: the kind of a range never changes a value (docs/ir.md, "Ranges"), registers
 * are read before the stores of their iteration, and arrays of registers are one for all of them.
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"loop", "unroll", "upcast", "lane"};

/* The text with each '@' replaced by a kind. */
static const char *of_kind(const char *text, const char *kind) {
    static char out[4096];
    size_t n = 0;
    for (; *text; text++)
        n += (size_t)(*text == '@' ? snprintf(out + n, sizeof out - n, "%s", kind)
                                   : snprintf(out + n, sizeof out - n, "%c", *text));
    return out;
}

/* for q < 8: { y[q] = q; y[q + 1] = 10 q; } */
static void test_two_stores_of_each_iteration(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 8\n%1 = range index (%0) {axis=1, kind=@}\n"
        "%2 = const index 9\n%3 = param i32 (%2) {slot=0}\n%4 = index i32 (%3, %1)\n"
        "%5 = cast i32 (%1)\n%6 = store void (%4, %5)\n%7 = const index 1\n"
        "%8 = add index (%1, %7)\n%9 = index i32 (%3, %8)\n%10 = const i32 10\n"
        "%11 = mul i32 (%5, %10)\n%12 = store void (%9, %11)\n%13 = group void (%6, %12)\n"
        "%14 = end void (%13, %1)\n%15 = sink void (%14) {name=\"k\"}\n";
    static const int32_t want[9] = {0, 1, 2, 3, 4, 5, 6, 7, 70};
    for (int k = 0; k < 4; k++) {
        tk_kernel_arg args[1] = {TK_KERNEL_OUT(TOLK_I32, want)};
        tk_kernel_run(of_kind(text, kinds[k]), args, 1, NULL, 0, TOLK_OK);
    }
}

/* for q < 8: a[q + 1] = a[q] + 1, each load within its iteration. */
static void test_recurrence_through_memory(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 8\n%1 = range index (%0) {axis=0, kind=@}\n"
        "%2 = const index 9\n%3 = param i32 (%2) {slot=0}\n%4 = after i32 (%3, %1)\n"
        "%5 = index i32 (%4, %1)\n%6 = load i32 (%5)\n%7 = const i32 1\n%8 = add i32 (%6, %7)\n"
        "%9 = const index 1\n%10 = add index (%1, %9)\n%11 = index i32 (%3, %10)\n"
        "%12 = store void (%11, %8)\n%13 = end void (%12, %1)\n%14 = sink void (%13) "
        "{name=\"k\"}\n";
    static const int32_t before[9] = {5, 0}, want[9] = {5, 6, 7, 8, 9, 10, 11, 12, 13};
    for (int k = 0; k < 4; k++) {
        tk_kernel_arg args[1] = {{TOLK_I32, 9, before, want, NULL}};
        tk_kernel_run(of_kind(text, kinds[k]), args, 1, NULL, 0, TOLK_OK);
    }
}

/* for q < 2: a[q] = 7, in registers; then a[0] = 5; y = {a[0], a[1]}. */
static void test_array_of_registers_is_one_for_all_iterations(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 2\n%1 = const index 1\n%2 = const index 0\n"
        "%3 = param i32 (%0) {slot=0}\n%4 = buffer i32 (%0) {slot=0, space=reg}\n"
        "%5 = range index (%0) {axis=0, kind=@}\n%6 = index i32 (%4, %5)\n%7 = const i32 7\n"
        "%8 = store void (%6, %7)\n%9 = end void (%8, %5)\n%10 = after i32 (%4, %9)\n"
        "%11 = index i32 (%10, %2)\n%12 = const i32 5\n%13 = store void (%11, %12)\n"
        "%14 = after i32 (%4, %9, %13)\n%15 = index i32 (%14, %1)\n%16 = load i32 (%15)\n"
        "%17 = index i32 (%14, %2)\n%18 = load i32 (%17)\n%19 = index i32 (%3, %2)\n"
        "%20 = store void (%19, %18)\n%21 = index i32 (%3, %1)\n%22 = store void (%21, %16)\n"
        "%23 = sink void (%20, %22) {name=\"k\"}\n";
    static const int32_t want[2] = {5, 7};
    for (int k = 1; k < 3; k++) { /* a loop's index is none that picks registers in code */
        tk_kernel_arg args[1] = {TK_KERNEL_OUT(TOLK_I32, want)};
        tk_kernel_run(of_kind(text, kinds[k]), args, 1, NULL, 0, TOLK_OK);
    }
}

/* a = 1; for i < n: { y[i] = a; a = value; }, where value names the iteration, or nothing, or only
 * seems to: the load stands before the store in each of them. */
static void test_register_is_read_before_the_store_of_its_iteration(void **state) {
    (void)state;
    static const char *const values[] = {
        "%40 = cast i32 (%8)\n%41 = const i32 0\n%30 = mul i32 (%40, %41)\n", "%30 = const i32 0\n",
        "%30 = sub i32 (%11, %11)\n"};
    static const char *const groups[] = {"%13, %19", "%19, %13"};
    for (int n = 1; n < 4; n++)
        for (int v = 0; v < 3; v++)
            for (int g = 0; g < 2; g++) {
                char text[1024];
                snprintf(text, sizeof text,
                         "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n"
                         "%%2 = const index %d\n%%3 = param i32 (%%2) {slot=0}\n"
                         "%%4 = buffer i32 (%%0) {slot=0, space=reg}\n%%5 = const i32 1\n"
                         "%%6 = index i32 (%%4, %%1)\n%%7 = store void (%%6, %%5)\n"
                         "%%8 = range index (%%2) {axis=0}\n%%9 = after i32 (%%4, %%7, %%8)\n"
                         "%%10 = index i32 (%%9, %%1)\n%%11 = load i32 (%%10)\n"
                         "%%12 = index i32 (%%3, %%8)\n%%13 = store void (%%12, %%11)\n%s"
                         "%%17 = after i32 (%%4, %%7)\n%%18 = index i32 (%%17, %%1)\n"
                         "%%19 = store void (%%18, %%30)\n%%20 = group void (%s)\n"
                         "%%21 = end void (%%20, %%8)\n%%22 = sink void (%%21) {name=\"k\"}\n",
                         n, values[v], groups[g]);
                static const int32_t want[3] = {1, 0, 0};
                tk_kernel_arg args[1] = {{TOLK_I32, (size_t)n, NULL, want, NULL}};
                tk_kernel_run(text, args, 1, NULL, 0, TOLK_OK);
            }
}

/* Seventy sums, each of x times the one before: more unrolled ranges than 64. All x are 1/4, so
 * that each sum of 8 is twice the one before. */
static void test_seventy_reductions_in_a_chain(void **state) {
    (void)state;
    static char text[16384];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "tolk.uop 1\n%%0 = const index 8\n%%1 = const index 1\n"
                                "%%2 = const index 0\n%%3 = param f32 (%%1) {slot=0}\n"
                                "%%4 = param f32 (%%0) {slot=1}\n%%5 = const f32 1\n");
    for (int k = 0; k < 70; k++) {
        int at = 10 * (k + 1), last = k ? at - 6 : 5;
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "%%%d = range index (%%0) {axis=%d, kind=reduce}\n"
            "%%%d = index f32 (%%4, %%%d)\n%%%d = load f32 (%%%d)\n"
            "%%%d = mul f32 (%%%d, %%%d)\n%%%d = reduce f32 (%%%d, %%%d) {op=add}\n",
            at, k, at + 1, at, at + 2, at + 1, at + 3, at + 2, last, at + 4, at + 3, at);
    }
    snprintf(text + n, sizeof text - n,
             "%%9000 = index f32 (%%3, %%2)\n%%9001 = store void (%%9000, %%704)\n"
             "%%9002 = sink void (%%9001) {name=\"chain\"}\n");
    static const float x[8] = {0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f};
    const float want[1] = {0x1p70f};
    tk_kernel_arg args[2] = {TK_KERNEL_OUT(TOLK_F32, want), TK_KERNEL_IN(TOLK_F32, x)};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_stores_of_each_iteration),
        cmocka_unit_test(test_recurrence_through_memory),
        cmocka_unit_test(test_array_of_registers_is_one_for_all_iterations),
        cmocka_unit_test(test_register_is_read_before_the_store_of_its_iteration),
        cmocka_unit_test(test_seventy_reductions_in_a_chain),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
