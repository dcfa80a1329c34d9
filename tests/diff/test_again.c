/* SPDX-License-Identifier: MIT
 *
 * Programs that list a node more than once: it is executed each time, and its users see the last
 * time, also when that was in the iteration before.
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

/* A load that is listed before a store and again behind it: y[1] is what x[0] was, y[2] what it is
 * then; y[0] = y[0] + 1. */
static void test_a_node_that_is_listed_again_is_executed_again(void **state) {
    (void)state;
    static const int32_t before[3] = {41, 0, 0}, want[3] = {42, 41, 42};
    tk_kernel_arg arg = {TOLK_I32, 3, before, want, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 3\n%1 = const index 0\n%2 = const index 1\n"
                  "%3 = const index 2\n%4 = param i32 (%0) {slot=0}\n%5 = index i32 (%4, %1)\n"
                  "%6 = load i32 (%5)\n%7 = const i32 1\n%8 = add i32 (%6, %7)\n"
                  "%9 = index i32 (%4, %2)\n%10 = store void (%9, %6)\n"
                  "%11 = store void (%5, %8)\n%12 = index i32 (%4, %3)\n"
                  "%13 = store void (%12, %6)\n"
                  "%14 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %6, %12, "
                  "%13) {name=\"again\"}\n",
                  &arg, 1, NULL, 0, TOLK_OK);
}

/* A constant vector that the program lists before a loop is also one that the exponential in the
 * loop is made of: behind the loop it is still what it was. */
static void test_a_constant_that_a_loop_makes_again_is_at_hand_behind_it(void **state) {
    (void)state;
    static const float one[4] = {1, 1, 1, 1}, zero[4] = {0, 0, 0, 0};
    tk_kernel_arg args[3] = {TK_KERNEL_OUT(TOLK_F32, one), TK_KERNEL_OUT(TOLK_F32, one),
                             TK_KERNEL_IN(TOLK_F32, zero)};
    tk_kernel_run("tolk.uop 1\n"
                  "%0 = const index 4\n"
                  "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                  "%2 = param f32 (%0) {slot=1, name=\"z\"}\n"
                  "%3 = param f32 (%0) {slot=2, name=\"x\"}\n"
                  "%4 = const index 0\n"
                  "%5 = const f32 1\n"
                  "%6 = stack f32x4 (%5, %5, %5, %5)\n"
                  "%7 = const index 2\n"
                  "%8 = index f32 (%3, %4)\n"
                  "%9 = index f32 (%1, %4)\n"
                  "%10 = index f32 (%2, %4)\n"
                  "%11 = range index (%7) {axis=0}\n"
                  "%12 = load f32x4 (%8)\n"
                  "%13 = exp f32x4 (%12)\n"
                  "%14 = store void (%9, %13)\n"
                  "%15 = end void (%11)\n"
                  "%16 = store void (%10, %6)\n"
                  "%17 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                  "%14, %15, %16) {name=\"again\"}\n",
                  args, 3, NULL, 0, TOLK_OK);
}

/* What all programs below begin with: y and x, a loop, x[0] loaded as %8, and one more. */
#define BEGIN                                                                                      \
    "tolk.uop 1\n%0 = const index 4\n%1 = const index 0\n%2 = const i32 1\n%3 = const index 8\n"   \
    "%4 = param i32 (%3) {slot=0, name=\"y\"}\n%5 = param i32 (%0) {slot=1, name=\"x\"}\n"         \
    "%6 = index i32 (%5, %1)\n%7 = range index (%0) {axis=0}\n%8 = load i32 (%6)\n"                \
    "%9 = add i32 (%8, %2)\n"

/* And a loop of it: y[i] = the node named, x[0] = the sum. */
#define STORES(stored)                                                                             \
    BEGIN "%10 = index i32 (%4, %7)\n%11 = store void (%10, %" stored ")\n"                        \
          "%12 = store void (%6, %9)\n%13 = end void (%7)\n"
/* k = x[0] - 9, p = y + k: and *p = i + 5, x[0] = x[0] + 2. */
#define PLACES                                                                                     \
    BEGIN "%10 = cast index (%8)\n%11 = const index 9\n%12 = sub index (%10, %11)\n"               \
          "%13 = index i32 (%4, %12)\n%14 = const i32 5\n%15 = cast i32 (%7)\n"                    \
          "%16 = add i32 (%15, %14)\n%17 = store void (%13, %16)\n"                                \
          "%18 = add i32 (%9, %2)\n%19 = store void (%6, %18)\n%20 = end void (%7)\n"

static void run(const char *text, const int32_t y[8], const int32_t x[4]) {
    static const int32_t zero[8], ten[4] = {10, 0, 0, 0};
    tk_kernel_arg args[2] = {{TOLK_I32, 8, zero, y, NULL}, {TOLK_I32, 4, ten, x, NULL}};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

/* for i < 4: y[i] = v, x[0] = v + 1, v = x[0] */
static void test_a_loop_uses_what_its_iteration_before_loaded(void **state) {
    (void)state;
    run(STORES("8") "%14 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %7, %10, %11, %9, %12, %8, "
                    "%13) "
                    "{name=\"loads\"}\n",
        (const int32_t[8]){10, 11, 12, 13}, (const int32_t[4]){14});
}

/* s = v + 1; for i < 4: y[i] = s, x[0] = s, v = x[0], s = v + 1: what is made of a value that is
 * loaded again is not the same as before, though it is the same node. */
static void test_what_is_made_of_it_is_made_again(void **state) {
    (void)state;
    run(STORES("9") "%14 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %9, %7, %10, %11, %12, %8, "
                    "%9, "
                    "%13) {name=\"sums\"}\n",
        (const int32_t[8]){11, 12, 13, 14}, (const int32_t[4]){14});
}

/* s = v + 1; for i < 4: y[i] = s, x[0] = s, v = x[0]: but who does not list the sum again, uses
 * that of before. */
static void test_what_is_not_listed_again_stays(void **state) {
    (void)state;
    run(STORES("9") "%14 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %9, %7, %10, %11, %12, %8, "
                    "%13) "
                    "{name=\"stays\"}\n",
        (const int32_t[8]){11, 11, 11, 11}, (const int32_t[4]){11});
}

/* for i < 4: y[i] = v; if i == 1: x[0] = v + 1, v = x[0] */
static void test_a_branch_changes_what_later_iterations_use(void **state) {
    (void)state;
    run(STORES("8") "%14 = const index 1\n%15 = cmpeq bool (%7, %14)\n%16 = if void (%15)\n"
                    "%17 = endif void (%16)\n"
                    "%18 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %7, %10, %11, %14, %15, "
                    "%16, %9, "
                    "%12, %8, %17, %13) {name=\"branch\"}\n",
        (const int32_t[8]){10, 10, 11, 11}, (const int32_t[4]){11});
}

/* k = x[0] - 9; p = y + k; for i < 4: *p = i + 5, x[0] = x[0] + 2, k = x[0] - 9, p = y + k: a place
 * is where it was when it was listed. */
static void test_places_move_when_they_are_listed_again(void **state) {
    (void)state;
    run(PLACES "%21 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %10, %11, %12, %13, %7, "
               "%14, %15, %16, %17, %9, %18, %19, %8, %10, %12, %13, %20) {name=\"places\"}\n",
        (const int32_t[8]){0, 5, 0, 6, 0, 7, 0, 8}, (const int32_t[4]){18});
}

/* The place is listed before its index moves, in each iteration: it follows one behind. */
static void test_places_stay_when_only_their_index_is_listed_again(void **state) {
    (void)state;
    run(PLACES "%21 = linear void (%0, %1, %2, %3, %4, %5, %6, %8, %10, %11, %12, %13, %7, "
               "%14, %15, %16, %17, %13, %9, %18, %19, %8, %10, %12, %20) {name=\"places\"}\n",
        (const int32_t[8]){0, 6, 0, 7, 0, 8}, (const int32_t[4]){18});
}

int main(void) {
    tk_kernel_add_compilers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_node_that_is_listed_again_is_executed_again),
        cmocka_unit_test(test_a_constant_that_a_loop_makes_again_is_at_hand_behind_it),
        cmocka_unit_test(test_a_loop_uses_what_its_iteration_before_loaded),
        cmocka_unit_test(test_what_is_made_of_it_is_made_again),
        cmocka_unit_test(test_what_is_not_listed_again_stays),
        cmocka_unit_test(test_a_branch_changes_what_later_iterations_use),
        cmocka_unit_test(test_places_move_when_they_are_listed_again),
        cmocka_unit_test(test_places_stay_when_only_their_index_is_listed_again),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
