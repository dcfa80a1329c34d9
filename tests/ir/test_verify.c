/* SPDX-License-Identifier: MIT
 *
 * The rules of kernels and of graphs of tensors, and what goes for all stages: texts that a stage
 * accepts, and texts that it refuses with which words about which node.
 */
#include "ir/verify_rows.h"

#include <dirent.h>

/* y[r] over 16 elements; ends with the place %3. */
#define Y                                                                                          \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%3 = index f32 (%1, %2)\n"
#define ONE "%4 = const f32 1\n"
/* The usual end after value %v. */
#define STORE_END(store, v, end_, sink)                                                            \
    store " = store void (%3, " v ")\n" end_ " = end void (" store ", %2)\n" sink                  \
          " = sink void (" end_ ") {name=\"k\"}\n"

/* ---- kernel stage ---- */

static const row kernels[] = {
    {"store of a constant", Y ONE STORE_END("%5", "%4", "%6", "%7"), NULL},
    {"repeated effect",
     Y ONE "%5 = store void (%3, %4)\n%6 = range index (%0) {axis=1}\n%7 = end void (%5, %6, %2)\n"
           "%8 = sink void (%7) {name=\"k\"}\n",
     NULL},
    {"no end", Y ONE "%5 = store void (%3, %4)\n%6 = sink void (%5) {name=\"k\"}\n",
     "%2 range: still open at the sink, expected an end or reduce that closes it"},
    {"a range used behind its reduce",
     Y "%4 = range index (%0) {axis=1, kind=reduce}\n%5 = cast f32 (%4)\n"
       "%6 = reduce f32 (%5, %4) {op=add}\n%7 = add f32 (%6, %5)\n" STORE_END("%8", "%7", "%9",
                                                                              "%10"),
     "%4 range: used outside of the end or reduce that closes it"},
    {"a range in a reduce and in an end",
     Y "%4 = cast f32 (%2)\n%5 = range index (%0) {axis=1}\n%6 = cast f32 (%5)\n"
       "%7 = reduce f32 (%6, %5) {op=max}\n%8 = add f32 (%4, %7)\n" STORE_END("%9", "%8", "%10",
                                                                              "%11"),
     NULL},
    {"closed twice by one end",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2, %2)\n%7 = sink void (%6) "
           "{name=\"k\"}\n",
     "%6 end: closes range %2 twice"},
    {"triangle, outer range first",
     Y "%4 = range index (%2) {axis=1}\n%5 = cast f32 (%4)\n%6 = store void (%3, %5)\n"
       "%7 = end void (%6, %2, %4)\n%8 = sink void (%7) {name=\"k\"}\n",
     NULL},
    {"triangle, inner range first",
     Y "%4 = range index (%2) {axis=1}\n%5 = cast f32 (%4)\n%6 = store void (%3, %5)\n"
       "%7 = end void (%6, %4, %2)\n%8 = sink void (%7) {name=\"k\"}\n",
     "%7 end: the size of range %4 depends on range %2 further in"},
    {"triangle, outer range closed first",
     Y "%4 = range index (%2) {axis=1}\n%5 = cast f32 (%4)\n%6 = store void (%3, %5)\n"
       "%7 = end void (%6, %2)\n%8 = end void (%7, %4)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%2 range: used outside of the end or reduce that closes it"},
    {"fold without order",
     Y "%4 = range index (%0) {axis=1, kind=global}\n%5 = cast f32 (%4)\n"
       "%6 = reduce f32 (%5, %4) {op=add}\n" STORE_END("%7", "%6", "%8", "%9"),
     "%6 reduce: folds over a range of kind global, whose iterations have no order (%4)"},
    {"one identity, two parents",
     Y "%4 = range index (%0) {axis=1}\n%5 = range index (%0, %2) {axis=1}\n%6 = add index (%4, "
       "%5)\n%7 = cast f32 (%6)\n%8 = store void (%3, %7)\n%9 = end void (%8, %2, %4, %5)\n"
       "%10 = sink void (%9) {name=\"k\"}\n",
     "%5 range: the same axis, sub, kind and size as %4, but other parents"},
    {"lanes of three",
     Y "%4 = const index 3\n%5 = range index (%4) {axis=1, kind=lane}\n%6 = cast f32 (%5)\n"
       "%7 = store void (%3, %6)\n%8 = end void (%7, %2, %5)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%5 range: kind lane, expected a constant size 1, 2, 4 .. 64"},
    {"two lane ranges around a store",
     Y "%4 = const index 4\n%5 = range index (%4) {axis=1, kind=lane}\n"
       "%6 = range index (%4) {axis=2, kind=lane}\n%7 = add index (%5, %6)\n%8 = cast f32 (%7)\n"
       "%9 = store void (%3, %8)\n%10 = end void (%9, %2, %5, %6)\n"
       "%11 = sink void (%10) {name=\"k\"}\n",
     "%9 store: depends on 2 ranges of kind lane, expected at most 1"},
    {"unroll of a variable",
     Y "%4 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=9}\n%5 = cast index (%4)\n"
       "%6 = range index (%5) {axis=1, kind=unroll}\n%7 = cast f32 (%6)\n%8 = store void (%3, %7)\n"
       "%9 = end void (%8, %2, %6)\n%10 = sink void (%9) {name=\"k\"}\n",
     "%6 range: kind unroll, expected a constant size"},
    {"an accumulator",
     Y "%4 = const index 1\n%5 = buffer f32 (%4) {slot=0, space=reg}\n%6 = after f32 (%5, %2)\n"
       "%7 = const index 0\n%8 = index f32 (%6, %7)\n%9 = const f32 0\n%10 = store void (%8, %9)\n"
       "%11 = range index (%0) {axis=1}\n%12 = after f32 (%5, %10, %11)\n"
       "%13 = index f32 (%12, %7)\n%14 = load f32 (%13)\n%15 = cast f32 (%11)\n"
       "%16 = add f32 (%14, %15)\n%17 = index f32 (%5, %7)\n%18 = store void (%17, %16)\n"
       "%19 = end void (%18, %11)\n%20 = after f32 (%5, %19)\n%21 = index f32 (%20, %7)\n"
       "%22 = load f32 (%21)\n" STORE_END("%23", "%22", "%24", "%25"),
     NULL},
    {"too few indices",
     "%0 = const index 4\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
     "%3 = const index 0\n%4 = index f32 (%2, %3)\n%5 = const f32 1\n%6 = store void (%4, %5)\n"
     "%7 = sink void (%6) {name=\"k\"}\n",
     "%4 index: 1 indices into a buffer of rank 2"},
    {"rank 0",
     "%0 = param f32 {slot=0}\n%1 = index f32 (%0)\n%2 = const f32 1\n%3 = store void (%1, %2)\n"
     "%4 = sink void (%3) {name=\"k\"}\n",
     NULL},
    {"index of a value",
     Y "%4 = load f32 (%3)\n%5 = index f32 (%4, %2)\n%6 = load f32 (%5)\n" STORE_END("%7", "%6",
                                                                                     "%8", "%9"),
     "%5 index: operand 0 is load, expected a buffer"},
    {"place as a value", Y "%4 = add f32 (%3, %3)\n" STORE_END("%5", "%4", "%6", "%7"),
     "%4 add: operand 0 is a place, which feeds load, store and atomic_add only"},
    {"place as the value of a store", Y STORE_END("%4", "%3", "%5", "%6"),
     "%4 store: operand 1 is a place, which feeds load, store and atomic_add only"},
    {"buffer as a value", Y "%4 = neg f32 (%1)\n" STORE_END("%5", "%4", "%6", "%7"),
     "%4 neg: operand 0 is a buffer, which feeds index and after only"},
    {"buffer behind after as a value",
     Y ONE "%5 = after f32 (%1, %2)\n%6 = add f32 (%5, %4)\n" STORE_END("%7", "%6", "%8", "%9"),
     "%6 add: operand 0 is a buffer, which feeds index and after only"},
    {"after of a place",
     Y "%4 = after f32 (%3, %2)\n%5 = neg f32 (%4)\n" STORE_END("%6", "%5", "%7", "%8"),
     "%4 after: operand 0 is a place, which feeds load, store and atomic_add only"},
    {"after of a value", Y ONE "%5 = after f32 (%4, %0)\n" STORE_END("%6", "%5", "%7", "%8"),
     "%5 after: operand 1 is const, expected an effect (void) or a range"},
    {"gated index",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = range index (%0) {axis=0}\n"
     "%3 = const index 5\n%4 = cmplt bool (%2, %3)\n%5 = const index invalid\n"
     "%6 = where index (%4, %2, %5)\n%7 = index f32 (%1, %6)\n%8 = const f32 1\n"
     "%9 = store void (%7, %8)\n%10 = end void (%9, %2)\n%11 = sink void (%10) {name=\"k\"}\n",
     NULL},
    {"gated index within a gated index",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = range index (%0) {axis=0}\n"
     "%3 = const index 5\n%4 = cmplt bool (%2, %3)\n%5 = cmplt bool (%3, %2)\n"
     "%6 = const index invalid\n%7 = where index (%5, %2, %6)\n%8 = where index (%4, %7, %6)\n"
     "%9 = index f32 (%1, %8)\n%10 = const f32 1\n"
     "%11 = store void (%9, %10)\n%12 = end void (%11, %2)\n%13 = sink void (%12) {name=\"k\"}\n",
     NULL},
    {"invalid in arithmetic",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = const index invalid\n"
     "%3 = add index (%2, %0)\n%4 = index f32 (%1, %3)\n%5 = const f32 1\n"
     "%6 = store void (%4, %5)\n%7 = sink void (%6) {name=\"k\"}\n",
     "%3 add: operand 0 is invalid, which is the last operand of a where, or an index"},
    {"invalid as the first arm",
     Y "%4 = const f32 1\n%5 = const bool true\n%6 = const index invalid\n"
       "%7 = where index (%5, %6, %2)\n%8 = index f32 (%1, %7)\n%9 = store void (%8, %4)\n"
       "%10 = store void (%3, %4)\n%11 = group void (%9, %10)\n%12 = end void (%11, %2)\n"
       "%13 = sink void (%12) {name=\"k\"}\n",
     "%7 where: operand 1 is invalid, which is the last operand of a where, or an index"},
    {"gated index in arithmetic",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = const bool true\n"
     "%3 = const index invalid\n%4 = where index (%2, %0, %3)\n%5 = add index (%4, %0)\n"
     "%6 = index f32 (%1, %5)\n%7 = const f32 1\n%8 = store void (%6, %7)\n"
     "%9 = sink void (%8) {name=\"k\"}\n",
     "%5 add: operand 0 is a gated index, which feeds index only"},
    {"stack as a value",
     Y ONE "%5 = stack f32 (%4, %4)\n%6 = neg f32 (%5)\n" STORE_END("%7", "%6", "%8", "%9"),
     "%6 neg: operand 0 is a stack, which is a shape or the matrix of a wmma"},
    {"matrices",
     Y ONE "%5 = stack f32 (%4, %4, %4, %4)\n%6 = wmma f32 (%5, %5, %5) {dims=[2, 2, 2]}\n"
           "%7 = const index 3\n%8 = index f32 (%6, %7)\n" STORE_END("%9", "%8", "%10", "%11"),
     NULL},
    {"element of a matrix",
     Y ONE "%5 = stack f32 (%4, %4, %4, %4)\n%6 = wmma f32 (%5, %5, %5) {dims=[2, 2, 2]}\n"
           "%7 = const index 4\n%8 = index f32 (%6, %7)\n" STORE_END("%9", "%8", "%10", "%11"),
     "%8 index: the element is no constant in 0..3"},
    {"dimension from a range",
     Y "%4 = param f32 (%2) {slot=1}\n%5 = const index 0\n%6 = index f32 (%4, %5)\n"
       "%7 = load f32 (%6)\n" STORE_END("%8", "%7", "%9", "%10"),
     "%4 param: dimension 0 is range, expected constants and scalar params alone"},
    {"dimension from a variable",
     "%0 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=9}\n%1 = cast index (%0)\n"
     "%2 = param f32 (%1) {slot=0}\n%3 = range index (%1) {axis=0}\n%4 = index f32 (%2, %3)\n"
     "%5 = const f32 1\n%6 = store void (%4, %5)\n%7 = end void (%6, %3)\n"
     "%8 = sink void (%7) {name=\"k\"}\n",
     NULL},
    {"buffer in global memory",
     Y "%4 = buffer f32 (%0) {slot=0}\n%5 = index f32 (%4, %2)\n%6 = load f32 (%5)\n" STORE_END(
         "%7", "%6", "%8", "%9"),
     "%4 buffer: space is global, expected local or reg (global memory is a param)"},
    {"reduce of axes",
     Y ONE "%5 = reduce f32 (%4) {op=add, axes=1}\n" STORE_END("%6", "%5", "%7", "%8"),
     "%5 reduce: axes of a tensor, expected ranges"},
    {"tensor op", Y ONE "%5 = expand f32 (%4, %0)\n" STORE_END("%6", "%5", "%7", "%8"),
     "%5 expand: no op of the kernel stage"},
    {"shrink",
     Y "%4 = const index 0\n%5 = const index 1\n%6 = shrink f32 (%1, %4, %5)\n" STORE_END(
         "%7", "%6", "%8", "%9"),
     "%6 shrink: operand 0 is a buffer, which feeds index and after only"},
    {"vector",
     Y ONE "%5 = stack f32x2 (%4, %4)\n%6 = const index 0\n%7 = index f32 (%5, %6)\n" STORE_END(
         "%8", "%7", "%9", "%10"),
     "%5 stack: a vector, expected at the program stage only"},
    {"end of a range alone",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = range index (%0) {axis=4}\n"
           "%8 = end void (%7)\n%9 = sink void (%6, %8) {name=\"k\"}\n",
     "%8 end: operand 0 is range, expected an effect"},
    {"a value in the sink",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
           "%7 = sink void (%6, %4) {name=\"k\"}\n",
     "%7 sink: operand 1 is const, expected an effect (store, end, group ...)"},
    {"a sink in a sink",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"a\"}\n"
           "%8 = sink void (%7) {name=\"k\"}\n",
     "%7 sink: a sink inside a kernel"},
    {"work-items",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = const index 4\n"
     "%3 = special index (%2) {name=\"gidx0\"}\n%4 = mul index (%3, %2)\n"
     "%5 = special index (%2) {name=\"lidx0\"}\n%6 = add index (%4, %5)\n%7 = index f32 (%1, %6)\n"
     "%8 = buffer f32 (%2) {slot=0, space=local}\n%9 = index f32 (%8, %5)\n%10 = const f32 1\n"
     "%11 = store void (%9, %10)\n%12 = barrier void (%11)\n%13 = after f32 (%8, %12)\n"
     "%14 = index f32 (%13, %5)\n%15 = load f32 (%14)\n%16 = store void (%7, %15)\n"
     "%17 = sink void (%16) {name=\"k\"}\n",
     NULL},
    {"special with a size that is no constant",
     Y "%4 = special index (%2) {name=\"gidx0\"}\n%5 = cast f32 (%4)\n" STORE_END("%6", "%5", "%7",
                                                                                  "%8"),
     "%4 special: the size is range, expected constants and scalar params alone"},
    {"span in a kernel",
     Y "%4 = special index (%0) {name=\"span_end\"}\n%5 = cast f32 (%4)\n" STORE_END("%6", "%5",
                                                                                     "%7", "%8"),
     "%4 special: span_end, expected at the program stage only"},
    {"two sizes of one special",
     "%0 = param f32 {slot=0}\n%1 = index f32 (%0)\n%2 = const index 4\n"
     "%3 = special index (%2) {name=\"gidx0\"}\n%4 = const index 5\n"
     "%5 = special index (%4) {name=\"gidx0\"}\n%6 = add index (%3, %5)\n%7 = cast f32 (%6)\n"
     "%8 = store void (%1, %7)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%5 special: gidx0 has another size in %3"},
    {"idx with gidx",
     "%0 = param f32 {slot=0}\n%1 = index f32 (%0)\n%2 = const index 4\n"
     "%3 = special index (%2) {name=\"gidx0\"}\n%4 = special index (%2) {name=\"idx1\"}\n"
     "%5 = add index (%3, %4)\n%6 = cast f32 (%5)\n%7 = store void (%1, %6)\n"
     "%8 = sink void (%7) {name=\"k\"}\n",
     "%4 special: idx0..2 (no work-groups) together with gidx0..2 or lidx0..2"},
    {"barrier in a loop that depends on the work-item",
     "%0 = const index 4\n%1 = buffer f32 (%0) {slot=0, space=local}\n"
     "%2 = special index (%0) {name=\"lidx0\"}\n%3 = range index (%2) {axis=0}\n"
     "%4 = index f32 (%1, %3)\n%5 = const f32 1\n%6 = store void (%4, %5)\n"
     "%7 = barrier void (%6)\n%8 = end void (%7, %3)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%7 barrier: inside range %3, whose size depends on the work-item"},
    {"shuffle in a loop that depends on the work-item",
     "%0 = const index 4\n%1 = param i32 (%0) {slot=0}\n"
     "%2 = special index (%0) {name=\"lidx0\"}\n%3 = range index (%2) {axis=0}\n"
     "%4 = cast i32 (%3)\n%5 = shuffle i32 (%4, %4)\n%6 = index i32 (%1, %3)\n"
     "%7 = store void (%6, %5)\n%8 = end void (%7, %3)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%5 shuffle: inside range %3, whose size depends on the work-item"},
    {"barrier repeated by a loop that depends on the work-item",
     "%0 = const index 4\n%1 = buffer f32 (%0) {slot=0, space=local}\n"
     "%2 = special index (%0) {name=\"lidx0\"}\n%3 = index f32 (%1, %2)\n%4 = const f32 1\n"
     "%5 = store void (%3, %4)\n%6 = barrier void (%5)\n%7 = group void (%6)\n"
     "%8 = range index (%2) {axis=0}\n%9 = end void (%7, %8)\n%10 = sink void (%9) {name=\"k\"}\n",
     "%9 end: a barrier in a loop whose size depends on the work-item"},
    {"two params of one slot",
     "%0 = const index 4\n%1 = param f32 (%0) {slot=1}\n%2 = param i32 (%0) {slot=1}\n"
     "%3 = const index 0\n%4 = index f32 (%1, %3)\n%5 = index i32 (%2, %3)\n%6 = load i32 (%5)\n"
     "%7 = cast f32 (%6)\n%8 = store void (%4, %7)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%2 param: slot 1 is that of %1, too"},
    {"two params of one name",
     "%0 = const index 4\n%1 = param f32 (%0) {slot=1, name=\"x\"}\n"
     "%2 = param i32 (%0) {slot=2, name=\"x\"}\n"
     "%3 = const index 0\n%4 = index f32 (%1, %3)\n%5 = index i32 (%2, %3)\n%6 = load i32 (%5)\n"
     "%7 = cast f32 (%6)\n%8 = store void (%4, %7)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%2 param: %1 is named \"x\", too"},
    {"two dynamic buffers",
     "%0 = buffer f32 {slot=0, space=local, dynamic=true}\n%1 = const index 0\n"
     "%2 = index f32 (%0, %1)\n%3 = buffer f32 {slot=1, space=local, dynamic=true}\n"
     "%4 = index f32 (%3, %1)\n%5 = load f32 (%4)\n%6 = store void (%2, %5)\n"
     "%7 = sink void (%6) {name=\"k\"}\n",
     "%3 buffer: %0 is dynamic, too; there may be one dynamic buffer"},
    {"two kernels",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"a\"}\n"
           "%8 = sink void (%6) {name=\"b\"}\n%9 = group void (%7, %8)\n",
     NULL},
    {"two kernels, the second wrong",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"a\"}\n"
           "%8 = sink void (%5) {name=\"b\"}\n%9 = group void (%7, %8)\n",
     "%2 range: still open at the sink, expected an end or reduce that closes it"},
};

static void test_verify_kernels_accepted_and_refused(void **state) {
    (void)state;
    CHECK_ROWS(kernels, TOLK_STAGE_ANY);
}

/* SYM-05 (what can be seen before a launch): two variables of one name. */
static const row sym_05[] = {
    {"other range",
     "%0 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=10}\n%1 = cast index (%0)\n"
     "%2 = param f32 (%1) {slot=0}\n%3 = range index (%1) {axis=0}\n%4 = index f32 (%2, %3)\n"
     "%5 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=11}\n%6 = cast f32 (%5)\n"
     "%7 = store void (%4, %6)\n%8 = end void (%7, %3)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%5 param: variable \"n\" is declared twice, differently (%0)"},
    {"the same slot, other range",
     "%0 = param i32 {slot=1, name=\"n\", space=alu, min=1, max=10}\n%1 = cast index (%0)\n"
     "%2 = param f32 (%1) {slot=0}\n%3 = range index (%1) {axis=0}\n%4 = index f32 (%2, %3)\n"
     "%5 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=10}\n%6 = cast f32 (%5)\n"
     "%7 = store void (%4, %6)\n%8 = end void (%7, %3)\n%9 = sink void (%8) {name=\"k\"}\n",
     "%5 param: variable \"n\" is declared twice, differently (%0)"},
};

static void test_SYM_05_variable_declared_twice_is_named(void **state) {
    (void)state;
    CHECK_ROWS(sym_05, TOLK_STAGE_ANY);
}

static const row forced_kernels[] = {
    {"sink without a name",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
           "%7 = sink void (%6)\n",
     NULL},
    {"no sink", Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n",
     "%6 end: the root of kernels is a sink, or a group of sinks"},
    {"group of effects",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
           "%7 = group void (%6)\n",
     "%7 group: operand 0 is end, expected a sink"},
    {"nameless in a group",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n"
           "%7 = sink void (%6)\n%8 = group void (%7)\n",
     "%7 sink: one of several kernels has no name"},
    {"one name twice",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"a\"}\n"
           "%8 = sink void (%6, %6) {name=\"a\"}\n%9 = group void (%7, %8)\n",
     "%8 sink: two kernels are named \"a\""},
};

static void test_verify_kernel_stage_asked_for_names_the_root(void **state) {
    (void)state;
    CHECK_ROWS(forced_kernels, TOLK_STAGE_KERNEL);
}

static void test_verify_examples_accepted(void **state) {
    (void)state;
    static const char *dir; /* so that the leak checker still finds it at the end */
    dir = tk_test_source("examples");
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 4, ".uop") != 0)
            continue;
        char path[4096], text[65536];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t size = fread(text, 1, sizeof text, f);
        fclose(f);
        world w = begin();
        const tolk_uop *root = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = tolk_parse(w.g, text, size, 0, &root, &err);
        if (st == TOLK_OK)
            st = tolk_verify(root, TOLK_STAGE_ANY, &err);
        if (st != TOLK_OK)
            print_error("%s: %s\n", e->d_name, err.msg);
        assert_int_equal(st, TOLK_OK);
        bool calls = strcmp(e->d_name, "pipeline.uop") == 0;
        assert_int_equal(tk_verify_stage(root), calls ? TOLK_STAGE_TENSOR : TOLK_STAGE_KERNEL);
        end(&w);
        n++;
    }
    closedir(d);
    assert_true(n >= 5);
}

/* ---- tensor stage ---- */

static const row tensors[] = {
    {"elementwise",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = add f32 (%1, %2)\n",
     NULL},
    {"shapes differ, deep below",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index 6\n"
     "%3 = param f32 (%2) {slot=1}\n%4 = add f32 (%1, %3)\n%5 = neg f32 (%4)\n%6 = exp f32 (%5)\n",
     "%4 add: operand 1 has shape [6], expected [5] (the shape of operand 0)"},
    {"kernel without a name",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = index f32 (%1, %0)\n"
     "%3 = load f32 (%2)\n%4 = store void (%2, %3)\n%5 = sink void (%4)\n",
     "%5 sink: its name is missing: expected {name=\"...\"} on the sink of a kernel (%3 load is no "
     "op "
     "of the tensor stage)"},
    {"two kernels without a name",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = index f32 (%1, %0)\n"
     "%3 = const f32 1\n%4 = store void (%2, %3)\n%5 = sink void (%4) {name=\"a\"}\n"
     "%6 = load f32 (%2)\n%7 = store void (%2, %6)\n%8 = sink void (%7)\n"
     "%9 = group void (%5, %8)\n",
     "%8 sink: its name is missing: expected {name=\"...\"} on the sink of a kernel (%6 load is no "
     "op "
     "of the tensor stage)"},
    {"vector", "%0 = const f32 1\n%1 = stack f32x2 (%0, %0)\n%2 = neg f32x2 (%1)\n",
     "%1 stack: a vector, expected at the program stage only"},
    {"two params of one slot",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = param f64 (%0) {slot=0}\n"
     "%3 = cast f32 (%2)\n%4 = add f32 (%1, %3)\n",
     "%2 param: slot 0 is that of %1, too"},
    {"after of a value",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = after f32 (%1, %0)\n",
     "%2 after: operand 1 is const, expected an effect (void), an after or a range"},
    {"after of another state",
     "%0 = const index 5\n%1 = buffer f32 (%0) {slot=0}\n%2 = after f32 (%1)\n"
     "%3 = buffer f32 (%0) {slot=1}\n%4 = after f32 (%3, %2)\n",
     NULL},
    {"call of a kernel",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = buffer f32 (%0) {slot=0}\n%9 = call void (%7, %8)\n%10 = after f32 (%8, %9)\n",
     NULL},
    {"call of a wrong kernel",
     Y "%4 = load f32 (%3)\n%5 = store void (%3, %4)\n%6 = sink void (%5) {name=\"k\"}\n"
       "%7 = buffer f32 (%0) {slot=0}\n%8 = call void (%6, %7)\n%9 = after f32 (%7, %8)\n",
     "%2 range: still open at the sink, expected an end or reduce that closes it"},
    {"compiled kernel with a wrong program",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = linear void (%0, %1, %3)\n%9 = program void (%7, %8) {name=\"k\"}\n"
           "%10 = buffer f32 (%0) {slot=0}\n%11 = call void (%9, %10)\n%12 = linear void (%11)\n",
     "%3 index: operand 1 (range) does not stand in the list before it"},
    {"call of a linear, whose params are its own, with a value among its arguments",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = param f32 (%0) {slot=0}\n%9 = call void (%7, %8)\n%10 = linear void (%9)\n"
           "%11 = const index 7\n%12 = param f32 (%11) {slot=0}\n"
           "%13 = param i32 {slot=0, name=\"n\", space=alu, min=0, max=9}\n%14 = const i32 3\n"
           "%15 = bind i32 (%13, %14)\n%16 = call void (%10, %12, %15)\n",
     NULL},
    {"the same among the calls of a linear",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = param f32 (%0) {slot=0}\n%9 = call void (%7, %8)\n%10 = linear void (%9)\n"
           "%11 = const index 7\n%12 = param f32 (%11) {slot=0}\n%13 = call void (%10, %12)\n"
           "%14 = linear void (%13)\n",
     NULL},
    {"call of a graph of calls, with a value in it",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = param f32 (%0) {slot=0}\n%9 = call void (%7, %8)\n%10 = after f32 (%8, %9)\n"
           "%11 = param i32 {slot=0, name=\"n\", space=alu, min=0, max=9}\n%12 = const i32 3\n"
           "%13 = bind i32 (%11, %12)\n%14 = sink void (%10, %13)\n"
           "%15 = buffer f32 (%0) {slot=0}\n%16 = call void (%14, %15, %13)\n",
     NULL},
    {"wrong kernel in a graph of calls that a call is of",
     Y "%4 = load f32 (%3)\n%5 = store void (%3, %4)\n%6 = sink void (%5) {name=\"k\"}\n"
       "%7 = param f32 (%0) {slot=0}\n%8 = call void (%6, %7)\n%9 = after f32 (%7, %8)\n"
       "%10 = sink void (%9)\n%11 = buffer f32 (%0) {slot=0}\n%12 = call void (%10, %11)\n",
     "%2 range: still open at the sink, expected an end or reduce that closes it"},
    {"two params of one slot in the list that a call is of",
     Y ONE "%5 = store void (%3, %4)\n%6 = end void (%5, %2)\n%7 = sink void (%6) {name=\"k\"}\n"
           "%8 = param f32 (%0) {slot=0}\n%9 = call void (%7, %8)\n"
           "%10 = const index 7\n%11 = param f32 (%10) {slot=0}\n%12 = call void (%7, %11)\n"
           "%13 = linear void (%9, %12)\n%14 = call void (%13, %8)\n",
     "%11 param: slot 0 is that of %8, too"},
    {"arguments that are no buffers, of a call of calls in a linear",
     "%0 = const index 5\n%1 = linear void\n%2 = call void (%1, %0)\n%3 = linear void (%2)\n",
     "%2 call: argument 0 is const, expected a buffer (param, buffer, slice, mselect, mstack), a "
     "bind or a variable"},
};

static void test_verify_tensors_accepted_and_refused(void **state) {
    (void)state;
    CHECK_ROWS(tensors, TOLK_STAGE_ANY);
}

/* VEC-09: a mask of 5 elements cannot select among 12. */
static const row vec_09[] = {
    {"mask of another size",
     "%0 = const index 5\n%1 = param bool (%0) {slot=0, name=\"mask\"}\n%2 = const index 12\n"
     "%3 = param f32 (%2) {slot=1}\n%4 = param f32 (%2) {slot=2}\n%5 = where f32 (%1, %3, %4)\n",
     "%5 where: operand 1 has shape [12], expected [5] (the shape of operand 0)"},
    {"mask of one size",
     "%0 = const index 12\n%1 = param bool (%0) {slot=0, name=\"mask\"}\n"
     "%2 = param f32 (%0) {slot=1}\n%3 = param f32 (%0) {slot=2}\n%4 = where f32 (%1, %2, %3)\n",
     NULL},
};

static void test_VEC_09_mask_of_another_size_is_a_shape_mismatch(void **state) {
    (void)state;
    CHECK_ROWS(vec_09, TOLK_STAGE_ANY);
    world w = begin();
    assert_int_equal(tolk_verify(parse(&w, vec_09[0].text), TOLK_STAGE_ANY, NULL), TOLK_E_SHAPE);
    end(&w);
}

/* IDX-01: an index of 64 bits holds the product whatever it is made of, so that both forms of the
 * expression are right as they stand. */
static void test_IDX_01_wide_index_arithmetic_is_accepted(void **state) {
    (void)state;
    static const row rows[] = {
        {"from ranges and from a loaded i32",
         "%0 = const index 65536\n%1 = param i32 (%0) {slot=0}\n%2 = range index (%0) {axis=0}\n"
         "%3 = index i32 (%1, %2)\n%4 = param i32 (%0) {slot=1}\n%5 = param i32 (%0) {slot=2}\n"
         "%6 = index i32 (%5, %2)\n%7 = load i32 (%6)\n%8 = cast index (%7)\n"
         "%9 = mul index (%8, %0)\n%10 = add index (%9, %2)\n%11 = floordiv index (%10, %0)\n"
         "%12 = index i32 (%4, %11)\n%13 = load i32 (%12)\n%14 = store void (%3, %13)\n"
         "%15 = end void (%14, %2)\n%16 = sink void (%15) {name=\"k\"}\n",
         NULL}};
    CHECK_ROWS(rows, TOLK_STAGE_KERNEL);
}

static void test_verify_null_root_or_unknown_stage_is_an_argument_error(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_verify(NULL, TOLK_STAGE_ANY, &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "verify: the root is NULL");
    world w = begin();
    const tolk_uop *u = tk_uop_index_const(w.g, 1);
    assert_int_equal(tolk_verify(u, (tolk_stage)9, &err), TOLK_E_ARG);
    end(&w);
}

/* A node that a pass made without check.h is found by the verifier. */
static void test_verify_unchecked_nodes_are_checked(void **state) {
    (void)state;
    world w = begin();
    const tolk_uop *f = tk_uop_const(w.g, TOLK_F32, 0), *i = tk_uop_const(w.g, TOLK_I32, 0);
    const tolk_uop *bad = tk_uop2(w.g, TK_OP_ADD, f, i);
    const tolk_uop *root = tk_uop1(w.g, TK_OP_NEG, bad);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_verify(root, TOLK_STAGE_ANY, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "%2 add: operand 1 is i32, expected f32 (the dtype of operand 0)");
    assert_int_equal(err.node, 2);
    end(&w);
}

/* ---- names of nodes ---- */

static const tolk_uop *parse_text(tolk_graph *g, const char *text) {
    const tolk_uop *root = NULL;
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    return root;
}

/* Numbers and lines are those of the text, whatever they are. */
static void test_verify_names_nodes_as_the_text(void **state) {
    (void)state;
    world w = begin();
    const tolk_uop *root = parse_text(w.g, "tolk.uop 1 ; one of\n; them\n"
                                           "%70 = const index 5\n"
                                           "\t%18446744073709551615 = \tparam f32 (%70) {slot=0}\n"
                                           "%3 = param f64 (%70) {slot=0}\n\n"
                                           "%9 = param f64 (%70) {slot=0}\n"
                                           "%4 = cast f32 (%9)\n%5 = cast f32 (%3)\n"
                                           "%6 = add f32 (%4, %5)\n"
                                           "%1 = add f32 (%6, %18446744073709551615)\n");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_verify(root, TOLK_STAGE_ANY, &err), TOLK_E_VERIFY);
    assert_string_equal(err.msg, "%18446744073709551615 param: slot 0 is that of %3, too");
    assert_int_equal(err.line, 4);
    assert_int_equal(err.column, 27);
    assert_int_equal(err.node, 4);
    end(&w);
}

/* Of a node that builders made over those of a text, and of nodes of two texts: as printed. */
static void test_verify_names_mixed_graphs_as_printed(void **state) {
    (void)state;
    static const char one[] = "tolk.uop 1\n%9 = const index 5\n%8 = param f32 (%9) {slot=0}\n"
                              "%7 = param f32 (%9) {slot=0, name=\"x\"}\n%6 = add f32 (%8, %7)\n";
    static const char two[] = "tolk.uop 1\n%4 = const index 5\n%3 = param f32 (%4) {slot=0}\n"
                              "%2 = neg f32 (%3)\n";
    world w = begin();
    const tolk_uop *root = parse_text(w.g, one);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_verify(root, TOLK_STAGE_ANY, &err), TOLK_E_VERIFY);
    assert_string_equal(err.msg, "%7 param: slot 0 is that of %8, too");
    assert_int_equal(err.line, 4);
    err = (tolk_error)TOLK_ERROR_INIT;
    const tolk_uop *built = tk_uop1(w.g, TK_OP_NEG, root);
    assert_int_equal(tolk_verify(built, TOLK_STAGE_ANY, &err), TOLK_E_VERIFY);
    assert_string_equal(err.msg, "%2 param: slot 0 is that of %1, too");
    assert_int_equal(err.line, 0);
    assert_int_equal(err.column, 0);
    assert_int_equal(err.node, 2);
    parse_text(w.g, two);
    err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tolk_verify(root, TOLK_STAGE_ANY, &err), TOLK_E_VERIFY);
    assert_string_equal(err.msg, "%2 param: slot 0 is that of %1, too");
    assert_int_equal(err.line, 0);
    /* Read again, the nodes are its own. */
    assert_ptr_equal(parse_text(w.g, one), root);
    assert_int_equal(tolk_verify(root, TOLK_STAGE_ANY, &err), TOLK_E_VERIFY);
    assert_string_equal(err.msg, "%7 param: slot 0 is that of %8, too");
    assert_int_equal(err.line, 4);
    assert_int_equal(err.node, 2);
    end(&w);
}

/* ---- size ---- */

/* A kernel whose store has a value of `depth` additions and a buffer behind `depth` afters. */
static const tolk_uop *deep_kernel(tolk_graph *g, int depth) {
    const tolk_uop *n = tk_uop_index_const(g, 16);
    tk_attr a[7] = {{.i = 0},         {.blob = NULL}, {.i = 0}, {.i = INT64_MIN},
                    {.i = INT64_MAX}, {.blob = NULL}, {.i = -1}};
    const tolk_uop *buf = tk_uop(g, TK_OP_PARAM, TOLK_F32, &n, 1, a);
    const tolk_uop *r = tk_uop_range(g, n, 0, TK_AXIS_GLOBAL);
    const tolk_uop *src[2] = {buf, r};
    const tolk_uop *place = tk_uop(g, TK_OP_INDEX, TOLK_F32, src, 2, NULL);
    const tolk_uop *x = tk_uop(g, TK_OP_LOAD, TOLK_F32, &place, 1, NULL);
    for (int i = 0; i < depth; i++) {
        x = tk_uop2(g, TK_OP_ADD, x, tk_uop_const(g, TOLK_F32, (uint64_t)i));
        src[0] = buf;
        buf = tk_uop(g, TK_OP_AFTER, TOLK_F32, src, 2, NULL);
        src[0] = buf;
        place = tk_uop(g, TK_OP_INDEX, TOLK_F32, src, 2, NULL);
    }
    src[0] = place;
    src[1] = x;
    src[0] = tk_uop(g, TK_OP_STORE, TOLK_VOID, src, 2, NULL);
    src[1] = r;
    src[0] = tk_uop(g, TK_OP_END, TOLK_VOID, src, 2, NULL);
    tk_attr name[2] = {{.blob = tk_blob_str(g, "deep", 4)}, {.blob = NULL}};
    return tk_uop(g, TK_OP_SINK, TOLK_VOID, src, 1, name);
}

static void *verify_deep(void *arg) {
    world *w = arg;
    tolk_error err = TOLK_ERROR_INIT;
    static const tolk_status ok = TOLK_OK;
    const tolk_uop *root = deep_kernel(w->g, 100000);
    if (!root || tolk_verify(root, TOLK_STAGE_ANY, &err) != TOLK_OK)
        return NULL;
    /* The same nodes as a tensor graph, and with a fault at the bottom. */
    const tolk_uop *x = tk_uop_const(w->g, TOLK_F32, 0);
    for (int i = 0; i < 100000; i++)
        x = tk_uop1(w->g, TK_OP_NEG, x);
    if (tolk_verify(x, TOLK_STAGE_TENSOR, &err) != TOLK_OK)
        return NULL;
    x = tk_uop1(w->g, TK_OP_NEG, tk_uop_const(w->g, TOLK_BOOL, 0));
    for (int i = 0; i < 100000; i++)
        x = tk_uop1(w->g, TK_OP_NEG, x);
    return tolk_verify(x, TOLK_STAGE_TENSOR, &err) == TOLK_E_DTYPE && err.node == 1 ? (void *)&ok
                                                                                    : NULL;
}

static void test_verify_depth_of_100000_on_a_small_stack(void **state) {
    (void)state;
    world w = begin();
    assert_non_null(tk_test_on_stack(512 * 1024, verify_deep, &w));
    end(&w);
}

/* ---- memory ---- */

static tolk_status verify_all_stages(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    static const char *const texts[] = {
        Y ONE STORE_END("%5", "%4", "%6", "%7"),
        PY "%5 = store void (%3, %4)\n%6 = end void (%2)\n"
           "%7 = linear void (%0, %1, %2, %3, %4, %5, %6) {name=\"p\"}\n",
        ("%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = expand f32 (%1, %0)\n"
         "%3 = reduce f32 (%2) {op=add, axes=1}\n%4 = neg f32 (%3)\n"),
    };
    tolk_ctx *ctx;
    tolk_graph *g;
    tolk_status st = tk_ctx_init(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    st = tk_graph_create(ctx, &g);
    if (st == TOLK_OK) {
        for (size_t i = 0; st == TOLK_OK && i < sizeof texts / sizeof *texts; i++) {
            char text[2048];
            const tolk_uop *root = NULL;
            snprintf(text, sizeof text, "tolk.uop 1\n%s", texts[i]);
            st = tolk_parse(g, text, strlen(text), 0, &root, NULL);
            if (st == TOLK_OK)
                st = tolk_verify(root, TOLK_STAGE_ANY, NULL);
        }
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return st;
}

static void test_verify_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(verify_all_stages, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_kernels_accepted_and_refused),
        cmocka_unit_test(test_SYM_05_variable_declared_twice_is_named),
        cmocka_unit_test(test_verify_kernel_stage_asked_for_names_the_root),
        cmocka_unit_test(test_verify_examples_accepted),
        cmocka_unit_test(test_verify_tensors_accepted_and_refused),
        cmocka_unit_test(test_VEC_09_mask_of_another_size_is_a_shape_mismatch),
        cmocka_unit_test(test_IDX_01_wide_index_arithmetic_is_accepted),
        cmocka_unit_test(test_verify_null_root_or_unknown_stage_is_an_argument_error),
        cmocka_unit_test(test_verify_unchecked_nodes_are_checked),
        cmocka_unit_test(test_verify_names_nodes_as_the_text),
        cmocka_unit_test(test_verify_names_mixed_graphs_as_printed),
        cmocka_unit_test(test_verify_depth_of_100000_on_a_small_stack),
        cmocka_unit_test(test_verify_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
