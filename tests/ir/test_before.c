/* SPDX-License-Identifier: MIT
 *
 * Loads of registers that stand before stores of the same iteration by `after` alone: which they
 * are, and that the interpreter keeps their order.
 */
#include "ir/before.h"

#include "ir/verify.h"
#include "support/tk_kernel.h"

#include <string.h>

typedef struct view {
    tolk_ctx *ctx;
    tolk_graph *g;
    tk_walk_ranges w;
    tk_before before;
} view;

static void view_init(view *x, const char *text) {
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *root;
    assert_int_equal(tk_ctx_init(NULL, &x->ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(x->ctx, &x->g), TOLK_OK);
    if (tolk_parse(x->g, text, strlen(text), 0, &root, &err) != TOLK_OK ||
        tk_verify(root, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
        fail_msg("line %u: %s\n%s", err.line, err.msg, text);
    assert_int_equal(tk_walk_ranges_init(&x->w, root, x->g->al), TOLK_OK);
    assert_int_equal(tk_before_init(&x->before, &x->w, x->g->al), TOLK_OK);
}

static void view_fini(view *x) {
    tk_before_fini(&x->before);
    tk_walk_ranges_fini(&x->w);
    tk_graph_destroy(x->g);
    tk_ctx_fini(x->ctx);
}

/* The node that stores v, a constant or operation of a text, found by op and slot of its buffer. */
static const tolk_uop *access_of(const view *x, tk_op op, int64_t slot, size_t which) {
    for (size_t i = 0; i < x->w.nodes.n; i++) {
        const tolk_uop *u = x->w.nodes.at[i];
        if (!tk_uop_is(u, op))
            continue;
        const tolk_uop *b = u->src[0];
        while (tk_uop_is(b, TK_OP_INDEX) || tk_uop_is(b, TK_OP_AFTER))
            b = b->src[0];
        if (tk_uop_is(b, TK_OP_BUFFER) && tk_uop_int(b, TK_A_BUFFER_SLOT) == slot && which-- == 0)
            return u;
    }
    fail_msg("no such access");
    return NULL;
}

/* Registers %10 and %11 begin as %12 and %13 by the stores %14 and %15; y is %16, its place %17. */
#define REGISTERS(a, b)                                                                            \
    "tolk.uop 1\n%0 = const index 1\n%1 = const index 0\n"                                         \
    "%10 = buffer i32 (%0) {slot=0, space=reg}\n%11 = buffer i32 (%0) {slot=1, space=reg}\n"       \
    "%12 = const i32 " a "\n%13 = const i32 " b "\n%18 = index i32 (%10, %1)\n"                    \
    "%19 = index i32 (%11, %1)\n%14 = store void (%18, %12)\n%15 = store void (%19, %13)\n"        \
    "%16 = param i32 (%0) {slot=0}\n%17 = index i32 (%16, %1)\n"
/* In each iteration of %20 registers hold %21 and %22. */
#define LOOP(n)                                                                                    \
    "%29 = const index " n "\n%20 = range index (%29) {axis=0}\n%23 = after i32 (%10, %14, %20)\n" \
    "%24 = after i32 (%11, %15, %20)\n%25 = index i32 (%23, %1)\n%26 = index i32 (%24, %1)\n"      \
    "%21 = load i32 (%25)\n%22 = load i32 (%26)\n"
/* y[0] = the first register behind the loop over the effect %40 */
#define ONE "%2 = const i32 1\n"
#define RESULT                                                                                     \
    "%41 = end void (%40, %20)\n%42 = after i32 (%10, %14, %41)\n%43 = index i32 (%42, %1)\n"      \
    "%44 = load i32 (%43)\n%45 = store void (%17, %44)\n%46 = sink void (%45) {name=\"regs\"}\n"

/* (a, b) = (b, a + b), the stores in this order and in the other */
#define FIBONACCI(n, order)                                                                        \
    REGISTERS("0", "1")                                                                            \
    LOOP(n)                                                                                        \
    "%30 = add i32 (%21, %22)\n%31 = store void (%18, %22)\n%32 = store void (%19, %30)\n"         \
    "%40 = group void (" order ")\n" RESULT

static void test_each_register_is_read_before_its_step(void **state) {
    (void)state;
    view x;
    view_init(&x, FIBONACCI("10", "%31, %32"));
    assert_int_equal(x.before.pairs.n, 2);
    for (int64_t slot = 0; slot < 2; slot++) {
        uint32_t n = 9;
        /* the first store of each is its first value, outside of the loop */
        assert_null(tk_before_of(&x.before, access_of(&x, TK_OP_STORE, slot, 0), &n));
        assert_int_equal(n, 0);
        const tk_before_pair *p = tk_before_of(&x.before, access_of(&x, TK_OP_STORE, slot, 1), &n);
        assert_int_equal(n, 1);
        assert_ptr_equal(p->load, access_of(&x, TK_OP_LOAD, slot, 0));
    }
    view_fini(&x);
}

static void run(const char *text, int32_t want) {
    const tk_kernel_arg y[] = {{TOLK_I32, 1, NULL, &want, NULL}};
    tk_kernel_run(text, y, 1, NULL, 0, TOLK_OK);
}

static void test_fibonacci_of_two_registers(void **state) {
    (void)state;
    run(FIBONACCI("10", "%31, %32"), 55);
    run(FIBONACCI("10", "%32, %31"), 55);
    run(FIBONACCI("1", "%31, %32"), 1);
    run(FIBONACCI("0", "%31, %32"), 0);
    run(FIBONACCI("46", "%32, %31"), 1836311903);
}

static void test_two_registers_are_exchanged(void **state) {
    (void)state;
#define EXCHANGE(n)                                                                                \
    REGISTERS("3", "4")                                                                            \
    LOOP(n)                                                                                        \
    "%31 = store void (%18, %22)\n%32 = store void (%19, %21)\n"                                   \
    "%40 = group void (%31, %32)\n" RESULT
    run(EXCHANGE("6"), 3);
    run(EXCHANGE("7"), 4);
}

/* Loads after the first register's store in the iteration see it: b = a + 1 behind a = a + b. */
static void test_a_load_that_waits_for_the_step_is_behind_it(void **state) {
    (void)state;
    static const char text[] = REGISTERS("0", "1") LOOP("4") ONE
        "%30 = add i32 (%21, %22)\n%31 = store void (%18, %30)\n"
        "%32 = after i32 (%10, %31, %20)\n%33 = index i32 (%32, %1)\n%34 = load i32 (%33)\n"
        "%35 = add i32 (%34, %2)\n%36 = store void (%19, %35)\n"
        "%40 = group void (%31, %36)\n" RESULT;
    /* (0, 1) (1, 2) (3, 4) (7, 8) (15, 16) */
    run(text, 15);
    view x;
    view_init(&x, text);
    uint32_t n;
    const tk_before_pair *p = tk_before_of(&x.before, access_of(&x, TK_OP_STORE, 0, 1), &n);
    assert_int_equal(n, 1);
    assert_ptr_equal(p->load, access_of(&x, TK_OP_LOAD, 0, 0));
    view_fini(&x);
}

/* What is read in a loop further in is read in each of its iterations, also behind a store. */
static void test_a_load_in_a_loop_further_in_has_no_such_order(void **state) {
    (void)state;
    view x;
    view_init(
        &x, REGISTERS("0", "1") ONE
        "%29 = const index 4\n%20 = range index (%29) {axis=0}\n"
        "%24 = after i32 (%11, %15, %20)\n%26 = index i32 (%24, %1)\n%22 = load i32 (%26)\n"
        "%30 = range index (%29) {axis=1, kind=reduce}\n%31 = after i32 (%10, %14, %20, %30)\n"
        "%32 = index i32 (%31, %1)\n%33 = load i32 (%32)\n"
        "%34 = reduce i32 (%33, %30) {op=max}\n%35 = store void (%18, %2)\n"
        "%36 = add i32 (%34, %22)\n%37 = store void (%19, %36)\n"
        "%40 = group void (%35, %37)\n" RESULT);
    uint32_t n;
    assert_null(tk_before_of(&x.before, access_of(&x, TK_OP_STORE, 0, 1), &n));
    assert_non_null(tk_before_of(&x.before, access_of(&x, TK_OP_STORE, 1, 1), &n));
    assert_int_equal(n, 1);
    view_fini(&x);
}

/* Only registers, and only buffers that are after a range. */
static void test_other_loads_have_no_such_order(void **state) {
    (void)state;
    view x;
    /* y[0] += 1 in a loop, of a param */
    view_init(&x,
              "tolk.uop 1\n%0 = const index 4\n%1 = const index 0\n%2 = param i32 (%0) {slot=0}\n"
              "%3 = range index (%0) {axis=0}\n%4 = after i32 (%2, %3)\n"
              "%5 = index i32 (%4, %1)\n%6 = load i32 (%5)\n%7 = const i32 1\n"
              "%8 = add i32 (%6, %7)\n%9 = index i32 (%2, %1)\n%10 = store void (%9, %8)\n"
              "%11 = end void (%10, %3)\n%12 = sink void (%11) {name=\"param\"}\n");
    assert_int_equal(x.before.pairs.n, 0);
    view_fini(&x);
    /* the register behind the loop, and a store that no loop is around */
    view_init(&x, FIBONACCI("10", "%31, %32"));
    for (size_t i = 0; i < x.before.pairs.n; i++)
        assert_ptr_not_equal(x.before.pairs.at[i].load, access_of(&x, TK_OP_LOAD, 0, 1));
    view_fini(&x);
}

/* A store of the loop over %20 wants the load of that loop before it, which waits for the loop over
 * %30, whose store wants a load before it that waits for the loop over %20. */
static void test_a_circle_has_no_order_and_ends(void **state) {
    (void)state;
    static const char text[] = REGISTERS("0", "1") ONE
        "%29 = const index 4\n%20 = range index (%29) {axis=0}\n"
        "%30 = range index (%29) {axis=1}\n%21 = after i32 (%10, %20)\n%22 = index i32 (%21, %1)\n"
        "%23 = store void (%22, %2)\n%24 = end void (%23, %20)\n%31 = after i32 (%11, %30)\n"
        "%32 = index i32 (%31, %1)\n%33 = store void (%32, %2)\n%34 = end void (%33, %30)\n"
        "%50 = after i32 (%10, %14, %34, %20)\n%51 = index i32 (%50, %1)\n%52 = load i32 (%51)\n"
        "%53 = after i32 (%11, %15, %24, %30)\n%54 = index i32 (%53, %1)\n%55 = load i32 (%54)\n"
        "%56 = store void (%17, %52)\n%57 = end void (%56, %20)\n%58 = store void (%17, %55)\n"
        "%59 = end void (%58, %30)\n%60 = sink void (%24, %34, %57, %59) {name=\"circle\"}\n";
    view x;
    view_init(&x, text);
    assert_int_equal(x.before.pairs.n, 0);
    view_fini(&x);
}

/* y[0] = n, counted: an accumulator over a loop that may have no iteration gives its first value.
 */
static void test_an_accumulator_without_an_iteration_gives_its_first_value(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 1\n%1 = const index 0\n"
        "%2 = param i32 {slot=1, name=\"n\", space=alu, min=-5, max=100}\n%3 = cast index (%2)\n"
        "%4 = param i32 (%0) {slot=0}\n%5 = buffer i32 (%0) {slot=0, space=reg}\n"
        "%6 = index i32 (%5, %1)\n%7 = const i32 7\n%8 = store void (%6, %7)\n"
        "%9 = range index (%3) {axis=0}\n%10 = after i32 (%5, %8, %9)\n%11 = index i32 (%10, %1)\n"
        "%12 = load i32 (%11)\n%13 = const i32 1\n%14 = add i32 (%12, %13)\n"
        "%15 = store void (%6, %14)\n%16 = end void (%15, %9)\n%17 = after i32 (%5, %8, %16)\n"
        "%18 = index i32 (%17, %1)\n%19 = load i32 (%18)\n%20 = index i32 (%4, %1)\n"
        "%21 = store void (%20, %19)\n%22 = sink void (%21) {name=\"count\"}\n";
    static const int64_t n[] = {0, -5, 1, 3, 100};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        int32_t want = 7 + (n[i] < 0 ? 0 : (int32_t)n[i]);
        const tk_kernel_arg y[] = {{TOLK_I32, 1, NULL, &want, NULL}};
        tk_kernel_run(text, y, 1, &n[i], 1, TOLK_OK);
    }
}

static tolk_status init_all(const tolk_allocator *al, void *user) {
    view *x = user;
    tk_before b;
    tolk_status st = tk_before_init(&b, &x->w, al);
    if (st == TOLK_OK)
        assert_int_equal(b.pairs.n, 2);
    tk_before_fini(&b);
    return st;
}

static void test_out_of_memory_at_every_allocation(void **state) {
    (void)state;
    view x;
    view_init(&x, FIBONACCI("10", "%31, %32"));
    assert_true(tk_test_oom(init_all, &x) > 3);
    view_fini(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_register_is_read_before_its_step),
        cmocka_unit_test(test_fibonacci_of_two_registers),
        cmocka_unit_test(test_two_registers_are_exchanged),
        cmocka_unit_test(test_a_load_that_waits_for_the_step_is_behind_it),
        cmocka_unit_test(test_a_load_in_a_loop_further_in_has_no_such_order),
        cmocka_unit_test(test_other_loads_have_no_such_order),
        cmocka_unit_test(test_a_circle_has_no_order_and_ends),
        cmocka_unit_test(test_an_accumulator_without_an_iteration_gives_its_first_value),
        cmocka_unit_test(test_out_of_memory_at_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
