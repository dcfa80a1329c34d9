/* SPDX-License-Identifier: MIT
 *
 * The rules of programs: texts that the stage accepts, and texts that it refuses with which words
 * about which node.
 */
#include "ir/verify_rows.h"

/* A reg buffer of two f32x4, and the place of its first. */
#define REG                                                                                        \
    "%0 = const index 2\n"                                                                         \
    "%1 = buffer f32x4 (%0) {slot=0, space=reg}\n"                                                 \
    "%2 = const index 0\n"                                                                         \
    "%3 = index f32x4 (%1, %2)\n"                                                                  \
    "%4 = const f32 1\n"                                                                           \
    "%5 = stack f32x4 (%4, %4, %4, %4)\n"

static const row programs[] = {
    {"empty", "%0 = linear void\n", NULL},
    {"a loop",
     PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n"
        "%7 = linear void (%0, %1, %2, %3, %4, %5, %6) {name=\"p\"}\n",
     NULL},
    {"constants inside a loop are known behind it",
     PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n%7 = neg f32 (%4)\n"
        "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7)\n",
     NULL},
    {"two loops of one range",
     PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n"
        "%7 = linear void (%0, %1, %2, %3, %4, %5, %6, %2, %3, %5, %6)\n",
     NULL},
    {"use before its place",
     PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n"
        "%7 = linear void (%0, %1, %3, %2, %4, %5, %6)\n",
     "%3 index: operand 1 (range) does not stand in the list before it"},
    {"a constant that is not listed",
     PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n"
        "%7 = linear void (%0, %1, %2, %3, %5, %6)\n",
     "%5 store: operand 1 (const) does not stand in the list before it"},
    {"a value behind its loop",
     PY "%5 = load f32 (%3)\n%6 = end void (%2)\n%7 = neg f32 (%5)\n"
        "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7)\n",
     "%7 neg: operand 0 (load) was made inside a loop or if that has ended"},
    {"a value of the first of two loops in the second",
     PY "%5 = load f32 (%3)\n%6 = end void (%2)\n%7 = neg f32 (%5)\n"
        "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %2, %7, %6)\n",
     "%7 neg: operand 0 (load) was made inside a loop or if that has ended"},
    {"a loop variable behind its loop",
     PY "%5 = end void (%2)\n%6 = neg index (%2)\n%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%6 neg: operand 0 (range) was made inside a loop or if that has ended"},
    {"a value behind its if",
     "%0 = const bool true\n%1 = if void (%0)\n%2 = const f32 1\n%3 = neg f32 (%2)\n"
     "%4 = endif void (%1)\n%5 = exp f32 (%3)\n%6 = linear void (%0, %1, %2, %3, %4, %5)\n",
     "%5 exp: operand 0 (neg) was made inside a loop or if that has ended"},
    {"crossed loops",
     "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = range index (%0) {axis=1}\n"
     "%3 = end void (%1)\n%4 = end void (%2)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     "%3 end: closes %1, but %2 is the innermost open one"},
    {"crossed loop and if",
     "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = const bool true\n"
     "%3 = if void (%2)\n%4 = end void (%1)\n%5 = endif void (%3)\n"
     "%6 = linear void (%0, %1, %2, %3, %4, %5)\n",
     "%4 end: closes %1, but %3 is the innermost open one"},
    {"ended twice",
     "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = end void (%1)\n"
     "%3 = linear void (%0, %1, %2, %2)\n",
     "%2 end: operand 0 (range) was made inside a loop or if that has ended"},
    {"endif twice",
     "%0 = const bool true\n%1 = if void (%0)\n%2 = endif void (%1)\n"
     "%3 = linear void (%0, %1, %2, %2)\n",
     "%2 endif: no loop or if is open here"},
    {"not ended", "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = linear void (%0, %1)\n",
     "%1 range: still open at the end of the program"},
    {"inside itself",
     "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = end void (%1)\n"
     "%3 = linear void (%0, %1, %1, %2, %2)\n",
     "%1 range: opened again inside itself"},
    {"parents",
     "%0 = const index 4\n%1 = range index (%0) {axis=0}\n%2 = range index (%0, %1) {axis=1}\n"
     "%3 = end void (%2)\n%4 = end void (%1)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     "%2 range: 2 operands, expected the size"},
    {"end of an effect",
     PY "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
        "%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%6 end: expected a range as the only operand"},
    {"invalid", "%0 = const index invalid\n%1 = linear void (%0)\n",
     "%0 const: invalid, expected at the kernel stage only"},
    {"stack of a shape",
     "%0 = const index 4\n%1 = stack index (%0, %0)\n%2 = linear void (%0, %1)\n",
     "%1 stack: a stack without lanes, expected a vector"},
    {"linear in a linear", "%0 = const index 4\n%1 = linear void (%0)\n%2 = linear void (%0, %1)\n",
     "%1 linear: a linear inside a program"},
    {"kernel op",
     PY "%5 = load f32 (%3)\n%6 = reduce f32 (%5, %2) {op=add}\n"
        "%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%6 reduce: no op of the program stage"},
    {"buffer of rank 0", "%0 = param f32 {slot=0}\n%1 = linear void (%0)\n",
     "%0 param: no operand, expected the number of elements"},
    {"buffer in global memory",
     "%0 = const index 4\n%1 = buffer f32 (%0) {slot=0}\n%2 = linear void (%0, %1)\n",
     "%1 buffer: space is global, expected local or reg (global memory is a param)"},
    {"buffer as a value",
     "%0 = const index 4\n%1 = param f32 (%0) {slot=0}\n%2 = neg f32 (%1)\n"
     "%3 = linear void (%0, %1, %2)\n",
     "%2 neg: operand 0 is a buffer, which feeds index and after only"},
    {"place as a value",
     PY "%5 = neg f32 (%3)\n%6 = end void (%2)\n%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%5 neg: operand 0 is a place, which feeds load, store and atomic_add only"},
    {"two indices",
     "%0 = const index 4\n%1 = param f32 (%0) {slot=0}\n%2 = index f32 (%1, %0, %0)\n"
     "%3 = linear void (%0, %1, %2)\n",
     "%2 index: 2 indices, expected 1"},
    {"index of a scalar",
     "%0 = const f32 1\n%1 = const index 0\n%2 = index f32 (%0, %1)\n"
     "%3 = linear void (%0, %1, %2)\n",
     "%2 index: operand 0 is const, expected a buffer or a vector"},
    {"load of an index of a scalar",
     "%0 = const f32 1\n%1 = neg f32 (%0)\n%2 = const index 0\n%3 = index f32 (%1, %2)\n"
     "%4 = load f32 (%3)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     "%3 index: operand 0 is neg, expected a buffer or a vector"},
    {"reg",
     REG "%6 = store void (%3, %5)\n%7 = load f32x4 (%3)\n"
         "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7)\n",
     NULL},
    {"reg with a size that is no constant",
     "%0 = param i32 {slot=0, space=alu}\n%1 = cast index (%0)\n"
     "%2 = buffer f32 (%1) {slot=0, space=reg}\n%3 = linear void (%0, %1, %2)\n",
     "%2 buffer: space reg of cast elements, expected a constant"},
    {"reg out of range",
     REG "%6 = index f32x4 (%1, %0)\n%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%6 index: the index into space reg is no constant in 0..1"},
    {"reg with an index that is no constant",
     REG "%6 = range index (%0) {axis=0}\n%7 = index f32x4 (%1, %6)\n%8 = end void (%6)\n"
         "%9 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8)\n",
     "%7 index: the index into space reg is no constant in 0..1"},
    {"reg gated",
     REG "%6 = const bool true\n%7 = stack boolx4 (%6, %6, %6, %6)\n"
         "%8 = store void (%3, %5, %7)\n%9 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8)\n",
     "%8 store: a gated access to space reg"},
    {"reg atomic",
     REG "%6 = atomic_add void (%3, %5)\n%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%6 atomic_add: an atomic access to space reg"},
    {"reg of scalars, a vector",
     "%0 = const index 8\n%1 = buffer f32 (%0) {slot=0, space=reg}\n%2 = const index 0\n"
     "%3 = index f32 (%1, %2)\n%4 = load f32x4 (%3)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     "%4 load: f32x4 in a buffer of f32 in space reg"},
    {"the same place of a buffer at another time, behind its loop",
     REG "%6 = store void (%3, %5)\n%7 = load f32x4 (%3)\n%8 = range index (%0) {axis=0}\n"
         "%9 = after f32x4 (%1, %6, %8)\n%10 = index f32x4 (%9, %2)\n%11 = load f32x4 (%10)\n"
         "%12 = end void (%8)\n%13 = after f32x4 (%9, %8, %12)\n%14 = index f32x4 (%13, %2)\n"
         "%15 = load f32x4 (%14)\n"
         "%16 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
         "%15)\n",
     NULL},
    {"out of range in a buffer behind after",
     REG "%6 = store void (%3, %5)\n%7 = after f32x4 (%1, %6)\n%8 = after f32x4 (%7, %6)\n"
         "%9 = index f32x4 (%8, %0)\n%10 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9)\n",
     "%9 index: the index into space reg is no constant in 0..1"},
    {"after of a value",
     REG "%6 = store void (%3, %5)\n%7 = after f32 (%4, %6)\n"
         "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7)\n",
     "%7 after: operand 0 is const, expected a buffer"},
    {"after of what comes later",
     REG "%6 = store void (%3, %5)\n%7 = after f32x4 (%1, %6)\n"
         "%8 = linear void (%0, %1, %2, %3, %4, %5, %7, %6)\n",
     "%7 after: operand 1 (store) does not stand in the list before it"},
    {"two ifs of one condition",
     "%0 = const bool true\n%1 = if void (%0)\n%2 = endif void (%1)\n%3 = if void (%0, %2)\n"
     "%4 = endif void (%3)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     NULL},
    {"vectors",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = const index 4\n"
     "%3 = index f32 (%1, %2)\n%4 = load f32x4 (%3)\n%5 = const index 3\n%6 = index f32 (%4, %5)\n"
     "%7 = stack indexx4 (%5, %2, %5, %2)\n%8 = index f32x4 (%1, %7)\n%9 = store void (%8, %4)\n"
     "%10 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9)\n",
     NULL},
    {"store to a lane",
     "%0 = const f32 1\n%1 = stack f32x2 (%0, %0)\n%2 = const index 0\n%3 = index f32 (%1, %2)\n"
     "%4 = neg f32 (%3)\n%5 = store void (%3, %4)\n%6 = linear void (%0, %1, %2, %3, %4, %5)\n",
     "%5 store: operand 0 is no place in a buffer"},
    {"barrier in an if that depends on the work-item",
     "%0 = const index 4\n%1 = special index (%0) {name=\"lidx0\"}\n%2 = const index 2\n"
     "%3 = cmplt bool (%1, %2)\n%4 = if void (%3)\n%5 = barrier void\n%6 = endif void (%4)\n"
     "%7 = linear void (%0, %1, %2, %3, %4, %5, %6)\n",
     "%5 barrier: inside if %4, which depends on the work-item"},
    {"shuffle in an if that depends on the work-item",
     "%0 = const index 4\n%1 = special index (%0) {name=\"lidx0\"}\n%2 = const index 2\n"
     "%3 = cmplt bool (%1, %2)\n%4 = if void (%3)\n%5 = const i32 1\n"
     "%6 = shuffle i32 (%5, %5)\n%7 = endif void (%4)\n"
     "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7)\n",
     "%6 shuffle: inside if %4, which depends on the work-item"},
    {"barrier in a loop that depends on the work-item",
     "%0 = const index 4\n%1 = special index (%0) {name=\"lidx0\"}\n%2 = range index (%1) "
     "{axis=0}\n"
     "%3 = barrier void\n%4 = end void (%2)\n%5 = linear void (%0, %1, %2, %3, %4)\n",
     "%3 barrier: inside range %2, which depends on the work-item"},
    {"barriers",
     "%0 = const index 4\n%1 = special index (%0) {name=\"lidx0\"}\n%2 = range index (%0) "
     "{axis=0}\n"
     "%3 = barrier void\n%4 = end void (%2)\n%5 = linear void (%0, %1, %2, %3, %3, %4, %3)\n",
     NULL},
    {"span",
     "%0 = const index 17\n%1 = special index (%0) {name=\"span_begin\"}\n"
     "%2 = special index (%0) {name=\"span_end\"}\n%3 = sub index (%2, %1)\n"
     "%4 = range index (%3) {axis=0, poll=true}\n%5 = end void (%4)\n"
     "%6 = linear void (%0, %1, %2, %3, %4, %5)\n",
     NULL},
    {"two params of one slot",
     "%0 = const index 4\n%1 = param f32 (%0) {slot=0}\n%2 = param f64 (%0) {slot=0}\n"
     "%3 = linear void (%0, %1, %2)\n",
     "%2 param: slot 0 is that of %1, too"},
};

static void test_verify_programs_accepted_and_refused(void **state) {
    (void)state;
    CHECK_ROWS(programs, TOLK_STAGE_ANY);
}

static const row forced_programs[] = {
    {"no linear", "%0 = const index 4\n", "%0 const: the root of a program is a linear"},
};

static void test_verify_program_stage_asked_for_names_the_root(void **state) {
    (void)state;
    CHECK_ROWS(forced_programs, TOLK_STAGE_PROGRAM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_programs_accepted_and_refused),
        cmocka_unit_test(test_verify_program_stage_asked_for_names_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
