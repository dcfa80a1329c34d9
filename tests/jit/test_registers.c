/* SPDX-License-Identifier: MIT
 *
 * Kernels that carry state in registers from one iteration to the next, compiled at every vector
 * width (docs/ir.md, "Effects").
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

static int32_t fibonacci(int64_t n) {
    uint32_t a = 0, b = 1;
    for (int64_t i = 0; i < n; i++) {
        uint32_t next = a + b;
        a = b;
        b = next;
    }
    return (int32_t)a;
}

/* y[0] = fib(n), n an argument; stores in this order */
#define FIBONACCI(order)                                                                           \
    "tolk.uop 1\n%0 = const index 1\n%1 = const index 0\n%2 = const i32 0\n%3 = const i32 1\n"     \
    "%4 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=100}\n%5 = cast index (%4)\n"       \
    "%6 = param i32 (%0) {slot=0}\n%7 = buffer i32 (%0) {slot=0, space=reg}\n"                     \
    "%8 = buffer i32 (%0) {slot=1, space=reg}\n%9 = index i32 (%7, %1)\n"                          \
    "%10 = index i32 (%8, %1)\n%11 = store void (%9, %2)\n%12 = store void (%10, %3)\n"            \
    "%13 = range index (%5) {axis=0}\n%14 = after i32 (%7, %11, %13)\n"                            \
    "%15 = after i32 (%8, %12, %13)\n%16 = index i32 (%14, %1)\n%17 = index i32 (%15, %1)\n"       \
    "%18 = load i32 (%16)\n%19 = load i32 (%17)\n%20 = add i32 (%18, %19)\n"                       \
    "%21 = store void (%9, %19)\n%22 = store void (%10, %20)\n%23 = group void (" order ")\n"      \
    "%24 = end void (%23, %13)\n%25 = after i32 (%7, %11, %24)\n%26 = index i32 (%25, %1)\n"       \
    "%27 = load i32 (%26)\n%28 = index i32 (%6, %1)\n%29 = store void (%28, %27)\n"                \
    "%30 = sink void (%29) {name=\"fibonacci\"}\n"

static void test_fibonacci_of_an_argument(void **state) {
    (void)state;
    static const int64_t n[] = {0, 1, 2, 3, 10, 47, 100};
    assert_int_equal(fibonacci(10), 55);
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        int32_t want = fibonacci(n[i]);
        const tk_kernel_arg y[] = {{TOLK_I32, 1, NULL, &want, NULL}};
        tk_kernel_run(FIBONACCI("%21, %22"), y, 1, &n[i], 1, TOLK_OK);
        tk_kernel_run(FIBONACCI("%22, %21"), y, 1, &n[i], 1, TOLK_OK);
    }
}

enum { N = 45 };

/* y[i] = fib(n), n: %50 steps of (a, b) = (b, a + b) in registers of each iteration over i */
#define EACH(steps)                                                                                \
    "tolk.uop 1\n%0 = const index 45\n%1 = const index 1\n%2 = const index 0\n%3 = const i32 0\n"  \
    "%4 = const i32 1\n%5 = param i32 (%0) {slot=0}\n%6 = param i32 (%0) {slot=1}\n"               \
    "%7 = range index (%0) {axis=0, kind=global}\n%8 = index i32 (%6, %7)\n%9 = load i32 (%8)\n"   \
    "%10 = buffer i32 (%1) {slot=0, space=reg}\n%11 = buffer i32 (%1) {slot=1, space=reg}\n"       \
    "%12 = after i32 (%10, %7)\n%13 = after i32 (%11, %7)\n%14 = index i32 (%12, %2)\n"            \
    "%15 = index i32 (%13, %2)\n" steps "%19 = after i32 (%10, %16, %18)\n"                        \
    "%20 = after i32 (%11, %17, %18)\n%21 = index i32 (%19, %2)\n%22 = index i32 (%20, %2)\n"      \
    "%23 = load i32 (%21)\n%24 = load i32 (%22)\n%25 = add i32 (%23, %24)\n"                       \
    "%26 = index i32 (%10, %2)\n%27 = index i32 (%11, %2)\n%28 = store void (%26, %24)\n"          \
    "%29 = store void (%27, %25)\n%30 = group void (%28, %29)\n%31 = end void (%30, %18)\n"        \
    "%32 = after i32 (%10, %16, %31)\n%33 = index i32 (%32, %2)\n%34 = load i32 (%33)\n"           \
    "%35 = index i32 (%5, %7)\n%36 = store void (%35, %34)\n%37 = end void (%36, %7)\n"            \
    "%38 = sink void (%37) {name=\"each\"}\n"

/* Lanes with registers of their own: a begins as x[i] and b as 1, 10 steps: 34 x + 55. */
static void test_registers_of_each_lane(void **state) {
    (void)state;
    static const char text[] = EACH("%16 = store void (%14, %9)\n%17 = store void (%15, %4)\n"
                                    "%50 = add i32 (%3, %4)\n%51 = cast index (%50)\n"
                                    "%52 = const index 9\n%53 = add index (%51, %52)\n"
                                    "%18 = range index (%53) {axis=1}\n");
    int32_t x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = i * 1000 - 7;
        y[i] = 34 * x[i] + 55;
    }
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, y), TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

/* As many steps as x[i] says, none and less than none among them. */
static void test_as_many_iterations_as_data_say(void **state) {
    (void)state;
    static const char text[] = EACH("%16 = store void (%14, %3)\n%17 = store void (%15, %4)\n"
                                    "%50 = cast index (%9)\n"
                                    "%18 = range index (%50, %7) {axis=1}\n");
    int32_t x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (i * 11) % 23 - 2;
        y[i] = fibonacci(x[i]);
    }
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, y), TK_KERNEL_IN(TOLK_I32, x)};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

/* A register that a loop further in adds to and the outer loop stores: y[i] = sum over j <= i of
 * j * 3, running over all i in order. */
static void test_an_accumulator_over_two_loops(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 45\n%1 = const index 1\n%2 = const index 0\n%3 = const i32 "
        "0\n"
        "%4 = param i32 (%0) {slot=0}\n%5 = buffer i32 (%1) {slot=0, space=reg}\n"
        "%6 = index i32 (%5, %2)\n%7 = store void (%6, %3)\n%8 = range index (%0) {axis=0}\n"
        "%9 = const index 3\n%10 = range index (%9, %8) {axis=1}\n"
        "%11 = after i32 (%5, %7, %8, %10)\n%12 = index i32 (%11, %2)\n%13 = load i32 (%12)\n"
        "%14 = cast i32 (%8)\n%15 = add i32 (%13, %14)\n%16 = store void (%6, %15)\n"
        "%17 = end void (%16, %10)\n%18 = after i32 (%5, %7, %17)\n%19 = index i32 (%18, %2)\n"
        "%20 = load i32 (%19)\n%21 = index i32 (%4, %8)\n%22 = store void (%21, %20)\n"
        "%23 = end void (%22, %8)\n%24 = sink void (%23) {name=\"running\"}\n";
    int32_t y[N], sum = 0;
    for (int i = 0; i < N; i++)
        y[i] = sum += 3 * i;
    const tk_kernel_arg args[] = {TK_KERNEL_OUT(TOLK_I32, y)};
    tk_kernel_run(text, args, 1, NULL, 0, TOLK_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fibonacci_of_an_argument),
        cmocka_unit_test(test_registers_of_each_lane),
        cmocka_unit_test(test_as_many_iterations_as_data_say),
        cmocka_unit_test(test_an_accumulator_over_two_loops),
    };
    tk_kernel_add_compilers();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
