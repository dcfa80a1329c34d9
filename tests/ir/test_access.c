/* SPDX-License-Identifier: MIT
 *
 * Which accesses are proved to be inside their buffers, and which params may be one memory.
 */
#include "support/tk_test.h"

#include "ir/access.h"
#include "ir/walk.h"

#include <tolk/ir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
    tolk_ctx *ctx;
    tolk_graph *g;
} world;

static world begin(void) {
    world w;
    assert_int_equal(tk_ctx_init(NULL, &w.ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(w.ctx, &w.g), TOLK_OK);
    return w;
}

static void end(world *w) {
    tk_graph_destroy(w->g);
    tk_ctx_fini(w->ctx);
}

/* A verified kernel. */
static const tolk_uop *parse(world *w, const char *body) {
    char text[8192];
    snprintf(text, sizeof text, "tolk.uop 1\n%s", body);
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_parse(w->g, text, strlen(text), 0, &root, &err);
    if (st == TOLK_OK)
        st = tolk_verify(root, TOLK_STAGE_KERNEL, &err);
    if (st != TOLK_OK)
        print_error("%u:%u: %s\n%s\n", err.line, err.column, err.msg, text);
    assert_int_equal(st, TOLK_OK);
    return root;
}

/* For each load and store below the root, in the order of its numbers: P proved, - not. */
static void proofs(const tolk_uop *root, char *out) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, root->graph->al);
    assert_int_equal(tk_walk(root, &nodes), TOLK_OK);
    for (size_t i = 0; i < nodes.n; i++) {
        const tolk_uop *u = nodes.at[i];
        if (tk_uop_is(u, TK_OP_LOAD) || tk_uop_is(u, TK_OP_STORE))
            *out++ = tk_access_proved(u->src[0], u->n_src == 3 ? u->src[2] : NULL) ? 'P' : '-';
    }
    *out = 0;
    tk_vec_fini(&nodes);
}

typedef struct row {
    const char *what, *text, *proofs;
} row;

#define TAIL(store, range, end_, sink)                                                             \
    end_ " = end void (" store ", " range ")\n" sink " = sink void (" end_ ") {name=\"k\"}\n"

static const row rows[] = {
    {"a range over the dimension",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = range index (%0) {axis=0}\n"
     "%3 = index f32 (%1, %2)\n%4 = const f32 1\n%5 = store void (%3, %4)\n" TAIL("%5", "%2", "%6",
                                                                                  "%7"),
     "P"},
    {"one too many",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = const index 17\n"
     "%3 = range index (%2) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = const f32 1\n"
     "%6 = store void (%4, %5)\n" TAIL("%6", "%3", "%7", "%8"),
     "-"},
    {"one too early",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = range index (%0) {axis=0}\n"
     "%3 = const index -1\n%4 = add index (%2, %3)\n%5 = index f32 (%1, %4)\n%6 = const f32 1\n"
     "%7 = store void (%5, %6)\n" TAIL("%7", "%2", "%8", "%9"),
     "-"},
    {"a variable as the dimension",
     "%0 = param i32 {slot=1, name=\"n\", space=alu, min=0, max=4096}\n%1 = cast index (%0)\n"
     "%2 = param f32 (%1) {slot=0}\n%3 = range index (%1) {axis=0}\n%4 = index f32 (%2, %3)\n"
     "%5 = const f32 1\n%6 = store void (%4, %5)\n" TAIL("%6", "%3", "%7", "%8"),
     "P"},
    {"two dimensions, each proved",
     "%0 = const index 4\n%1 = const index 8\n%2 = stack index (%0, %1)\n"
     "%3 = param f32 (%2) {slot=0}\n%4 = range index (%0) {axis=0}\n"
     "%5 = range index (%1) {axis=1}\n%6 = index f32 (%3, %4, %5)\n%7 = const f32 1\n"
     "%8 = store void (%6, %7)\n" TAIL("%8", "%4, %5", "%9", "%10"),
     "P"},
    {"inside the memory but not inside its dimension",
     "%0 = const index 4\n%1 = const index 8\n%2 = stack index (%0, %1)\n"
     "%3 = param f32 (%2) {slot=0}\n%4 = const index 0\n%5 = const index 32\n"
     "%6 = range index (%5) {axis=0}\n%7 = index f32 (%3, %4, %6)\n%8 = const f32 1\n"
     "%9 = store void (%7, %8)\n" TAIL("%9", "%6", "%10", "%11"),
     "-"},
    {"rank 0",
     "%0 = param f32 {slot=0}\n%1 = index f32 (%0)\n%2 = const f32 1\n%3 = store void (%1, %2)\n"
     "%4 = sink void (%3) {name=\"k\"}\n",
     "P"},
    {"a padded range with a gate",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index 8\n"
     "%3 = range index (%2) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = const f32 1\n"
     "%6 = cmplt bool (%3, %0)\n%7 = store void (%4, %5, %6)\n" TAIL("%7", "%3", "%8", "%9"),
     "P"},
    {"a gate that says too little",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index 8\n"
     "%3 = range index (%2) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = const f32 1\n"
     "%6 = const index 6\n%7 = cmplt bool (%3, %6)\n%8 = store void (%4, %5, %7)\n" TAIL(
         "%8", "%3", "%9", "%10"),
     "-"},
    {"a gated index",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index 8\n"
     "%3 = range index (%2) {axis=0}\n%4 = cmplt bool (%3, %0)\n%5 = const index invalid\n"
     "%6 = where index (%4, %3, %5)\n%7 = index f32 (%1, %6)\n%8 = const f32 1\n"
     "%9 = store void (%7, %8)\n" TAIL("%9", "%3", "%10", "%11"),
     "P"},
    {"the gate of one index holds for the other, and gates nest",
     "%0 = const index 5\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
     "%3 = const index 8\n%4 = range index (%3) {axis=0}\n%5 = const index -1\n"
     "%6 = add index (%4, %5)\n%7 = const index 0\n%8 = cmplt bool (%6, %0)\n"
     "%9 = cmplt bool (%7, %4)\n%10 = const index invalid\n%11 = where index (%9, %7, %10)\n"
     "%12 = where index (%8, %11, %10)\n%13 = index f32 (%2, %6, %12)\n%14 = const f32 1\n"
     "%15 = store void (%13, %14)\n" TAIL("%15", "%4", "%16", "%17"),
     "P"},
    {"never accessed",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index invalid\n"
     "%3 = index f32 (%1, %2)\n%4 = const f32 1\n%5 = store void (%3, %4)\n"
     "%6 = sink void (%5) {name=\"k\"}\n",
     "P"},
    {"a buffer whose size the launch gives",
     "%0 = buffer f32 {slot=0, space=local, dynamic=true}\n%1 = const index 0\n"
     "%2 = index f32 (%0, %1)\n%3 = const f32 1\n%4 = store void (%2, %3)\n"
     "%5 = sink void (%4) {name=\"k\"}\n",
     "-"},
    {"a buffer behind after, an empty buffer",
     "%0 = const index 0\n%1 = param f32 (%0) {slot=0}\n%2 = const index 4\n"
     "%3 = range index (%2) {axis=0}\n%4 = buffer f32 (%2) {slot=0, space=reg}\n"
     "%5 = after f32 (%4, %3)\n%6 = index f32 (%5, %3)\n%7 = load f32 (%6)\n"
     "%8 = index f32 (%1, %3)\n%9 = store void (%8, %7)\n" TAIL("%9", "%3", "%10", "%11"),
     "P-"},
};

static void check_rows(const row *r, size_t n) {
    for (size_t k = 0; k < n; k++) {
        world w = begin();
        char have[64];
        proofs(parse(&w, r[k].text), have);
        if (strcmp(have, r[k].proofs) != 0)
            print_error("%s\n", r[k].what);
        assert_string_equal(have, r[k].proofs);
        end(&w);
    }
}

static void test_access_proved_from_bounds_and_gate(void **state) {
    (void)state;
    check_rows(rows, sizeof rows / sizeof *rows);
}

/* IDX-03: the index that a gated load gives is known only where the gate is false; the load of the
 * table at that index is not proved by the gate of the first one. */
static void test_IDX_03_gate_of_an_index_proves_nothing_about_its_value(void **state) {
    (void)state;
    static const row r[] = {
        {"nested gather",
         "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = const index 16\n"
         "%3 = range index (%2) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = param f32 (%0) {slot=1}\n"
         "%6 = param i32 (%0) {slot=2}\n%7 = index i32 (%6, %3)\n%8 = const i32 1073741824\n"
         "%9 = cmplt bool (%3, %0)\n%10 = load i32 (%7, %8, %9)\n%11 = cast index (%10)\n"
         "%12 = index f32 (%5, %11)\n%13 = const f32 0\n%14 = load f32 (%12, %13, %9)\n"
         "%15 = store void (%4, %14, %9)\n" TAIL("%15", "%3", "%16", "%17"),
         "P-P"},
    };
    check_rows(r, sizeof r / sizeof *r);
}

/* IDX-05: the row number is data, so it is checked, unless a gate compares it with the table. */
static void test_IDX_05_gather_is_proved_by_a_gate_on_the_row_only(void **state) {
    (void)state;
    static const row r[] = {
        {"rows from data",
         "%0 = const index 512\n%1 = const index 8\n%2 = stack index (%0, %1)\n"
         "%3 = param f32 (%2) {slot=0}\n%4 = range index (%0) {axis=0}\n"
         "%5 = range index (%1) {axis=1}\n%6 = index f32 (%3, %4, %5)\n"
         "%7 = param f32 (%2) {slot=1}\n%8 = param i32 (%0) {slot=2}\n%9 = index i32 (%8, %4)\n"
         "%10 = load i32 (%9)\n%11 = cast index (%10)\n%12 = index f32 (%7, %11, %5)\n"
         "%13 = load f32 (%12)\n%14 = store void (%6, %13)\n" TAIL("%14", "%4, %5", "%15", "%16"),
         "P-P"},
        {"rows from data, gated",
         "%0 = const index 512\n%1 = const index 8\n%2 = stack index (%0, %1)\n"
         "%3 = param f32 (%2) {slot=0}\n%4 = range index (%0) {axis=0}\n"
         "%5 = range index (%1) {axis=1}\n%6 = index f32 (%3, %4, %5)\n"
         "%7 = param f32 (%2) {slot=1}\n%8 = param i32 (%0) {slot=2}\n%9 = index i32 (%8, %4)\n"
         "%10 = load i32 (%9)\n%11 = cast index (%10)\n%12 = index f32 (%7, %11, %5)\n"
         "%13 = const f32 0\n%14 = const index -1\n%15 = cmplt bool (%14, %11)\n"
         "%16 = cmplt bool (%11, %0)\n%17 = and bool (%15, %16)\n"
         "%18 = load f32 (%12, %13, %17)\n%19 = store void (%6, %18)\n" TAIL("%19", "%4, %5", "%20",
                                                                             "%21"),
         "PPP"},
    };
    check_rows(r, sizeof r / sizeof *r);
}

static void test_access_ungate_collects_conditions(void **state) {
    (void)state;
    world w = begin();
    const tolk_uop *i = tk_uop_range(w.g, tk_uop_index_const(w.g, 9), 0, TK_AXIS_LOOP);
    const tolk_uop *a = tk_uop2(w.g, TK_OP_CMPLT, i, tk_uop_index_const(w.g, 3));
    const tolk_uop *b = tk_uop2(w.g, TK_OP_CMPLT, tk_uop_index_const(w.g, 1), i);
    const tolk_uop *inv = tk_uop_invalid(w.g);
    const tolk_uop *x = tk_uop3(w.g, TK_OP_WHERE, a, tk_uop3(w.g, TK_OP_WHERE, b, i, inv), inv);
    const tolk_uop *gate = NULL;
    assert_ptr_equal(tk_access_ungate(x, &gate), i);
    assert_ptr_equal(gate, tk_uop2(w.g, TK_OP_AND, a, b));
    gate = a;
    assert_ptr_equal(tk_access_ungate(i, &gate), i);
    assert_ptr_equal(gate, a);
    gate = NULL;
    assert_ptr_equal(tk_access_ungate(inv, &gate), inv);
    assert_null(gate);
    end(&w);
}

/* ---- in place ---- */

static void check_inplace(const char *what, const char *text, int64_t a, int64_t b, bool want) {
    world w = begin();
    const tolk_uop *root = parse(&w, text);
    tk_access_pairs pairs;
    tk_vec_init(&pairs, w.g->al);
    assert_int_equal(tk_access_inplace(root, &pairs), TOLK_OK);
    if (tk_access_pairs_has(&pairs, a, b) != want)
        print_error("%s: %zu pairs\n", what, pairs.n);
    assert_int_equal(tk_access_pairs_has(&pairs, a, b), want);
    assert_int_equal(tk_access_pairs_has(&pairs, b, a), want);
    assert_false(tk_access_pairs_has(&pairs, a, a));
    tk_vec_fini(&pairs);
    end(&w);
}

/* y (slot 0) and x (slot 1) of 16, range %3, places %4 of y and %5 of x, x's element %6. */
#define XY                                                                                         \
    "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"            \
    "%3 = range index (%0) {axis=0, kind=global}\n%4 = index f32 (%1, %3)\n"                       \
    "%5 = index f32 (%2, %3)\n%6 = load f32 (%5)\n"

static const struct {
    const char *what, *text;
    bool want;
} inplace[] = {
    {"y = -x", XY "%7 = neg f32 (%6)\n%8 = store void (%4, %7)\n" TAIL("%8", "%3", "%9", "%10"),
     true},
    {"y = x + y",
     XY "%7 = load f32 (%4)\n%8 = add f32 (%6, %7)\n%9 = store void (%4, %8)\n" TAIL("%9", "%3",
                                                                                     "%10", "%11"),
     true},
    {"x with another dtype of one size",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param i32 (%0) {slot=1}\n"
     "%3 = range index (%0) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = index i32 (%2, %3)\n"
     "%6 = load i32 (%5)\n%7 = cast f32 (%6)\n%8 = store void (%4, %7)\n" TAIL("%8", "%3", "%9",
                                                                               "%10"),
     true},
    {"x with elements of another size",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param i8 (%0) {slot=1}\n"
     "%3 = range index (%0) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = index i8 (%2, %3)\n"
     "%6 = load i8 (%5)\n%7 = cast f32 (%6)\n%8 = store void (%4, %7)\n" TAIL("%8", "%3", "%9",
                                                                              "%10"),
     false},
    {"x read one element on",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = range index (%0) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = const index 1\n"
     "%6 = add index (%3, %5)\n%7 = index f32 (%2, %6)\n%8 = load f32 (%7)\n"
     "%9 = store void (%4, %8)\n" TAIL("%9", "%3", "%10", "%11"),
     false},
    {"x read at two places",
     XY "%7 = const index 0\n%8 = index f32 (%2, %7)\n%9 = load f32 (%8)\n%10 = add f32 (%6, %9)\n"
        "%11 = store void (%4, %10)\n" TAIL("%11", "%3", "%12", "%13"),
     false},
    {"several iterations have one element",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = range index (%0) {axis=0}\n%4 = const index 4\n%5 = floormod index (%3, %4)\n"
     "%6 = index f32 (%1, %5)\n%7 = index f32 (%2, %5)\n%8 = load f32 (%7)\n"
     "%9 = store void (%6, %8)\n" TAIL("%9", "%3", "%10", "%11"),
     false},
    {"the store is repeated",
     XY "%7 = neg f32 (%6)\n%8 = store void (%4, %7)\n%9 = range index (%0) {axis=1}\n" TAIL(
         "%8", "%3, %9", "%10", "%11"),
     false},
    {"a flat index of two ranges",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = const index 4\n%4 = range index (%3) {axis=0}\n%5 = mul index (%4, %3)\n"
     "%6 = range index (%3) {axis=1}\n%7 = add index (%5, %6)\n%8 = index f32 (%1, %7)\n"
     "%9 = index f32 (%2, %7)\n%10 = load f32 (%9)\n%11 = neg f32 (%10)\n"
     "%12 = store void (%8, %11)\n" TAIL("%12", "%4, %6", "%13", "%14"),
     true},
    {"a flat index of two ranges that overlap",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = const index 4\n%4 = range index (%3) {axis=0}\n%5 = const index 3\n"
     "%6 = mul index (%4, %5)\n%7 = range index (%3) {axis=1}\n%8 = add index (%6, %7)\n"
     "%9 = index f32 (%1, %8)\n%10 = index f32 (%2, %8)\n%11 = load f32 (%10)\n"
     "%12 = neg f32 (%11)\n%13 = store void (%9, %12)\n" TAIL("%13", "%4, %7", "%14", "%15"),
     false},
    {"two dimensions",
     "%0 = const index 4\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
     "%3 = param f32 (%1) {slot=1}\n%4 = range index (%0) {axis=0}\n"
     "%5 = range index (%0) {axis=1}\n%6 = index f32 (%2, %4, %5)\n%7 = index f32 (%3, %4, %5)\n"
     "%8 = load f32 (%7)\n%9 = neg f32 (%8)\n%10 = store void (%6, %9)\n" TAIL("%10", "%4, %5",
                                                                               "%11", "%12"),
     true},
    {"a transpose",
     "%0 = const index 4\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
     "%3 = param f32 (%1) {slot=1}\n%4 = range index (%0) {axis=0}\n"
     "%5 = range index (%0) {axis=1}\n%6 = index f32 (%2, %4, %5)\n%7 = index f32 (%3, %5, %4)\n"
     "%8 = load f32 (%7)\n%9 = neg f32 (%8)\n%10 = store void (%6, %9)\n" TAIL("%10", "%4, %5",
                                                                               "%11", "%12"),
     false},
    {"rows of another length",
     "%0 = const index 4\n%1 = stack index (%0, %0)\n%2 = param f32 (%1) {slot=0}\n"
     "%3 = const index 5\n%4 = stack index (%0, %3)\n%5 = param f32 (%4) {slot=1}\n"
     "%6 = range index (%0) {axis=0}\n%7 = range index (%0) {axis=1}\n"
     "%8 = index f32 (%2, %6, %7)\n%9 = index f32 (%5, %6, %7)\n%10 = load f32 (%9)\n"
     "%11 = store void (%8, %10)\n" TAIL("%11", "%6, %7", "%12", "%13"),
     false},
    /* y = x - max x: the maximum reads all of x */
    {"a reduction over x as well",
     XY "%7 = range index (%0) {axis=1, kind=reduce}\n%8 = index f32 (%2, %7)\n%9 = load f32 (%8)\n"
        "%10 = reduce f32 (%9, %7) {op=max}\n%11 = sub f32 (%6, %10)\n"
        "%12 = store void (%4, %11)\n" TAIL("%12", "%3", "%13", "%14"),
     false},
    {"a reduction over x by the same range",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = range index (%0) {axis=0}\n%4 = index f32 (%1, %3)\n%5 = index f32 (%2, %3)\n"
     "%6 = load f32 (%5)\n%7 = reduce f32 (%6, %3) {op=max}\n%8 = sub f32 (%6, %7)\n"
     "%9 = store void (%4, %8)\n" TAIL("%9", "%3", "%10", "%11"),
     false},
    {"the store does not wait for the load",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = param f32 (%0) {slot=2}\n%4 = range index (%0) {axis=0}\n%5 = index f32 (%1, %4)\n"
     "%6 = const f32 1\n%7 = store void (%5, %6)\n%8 = index f32 (%3, %4)\n"
     "%9 = index f32 (%2, %4)\n%10 = load f32 (%9)\n%11 = store void (%8, %10)\n"
     "%12 = group void (%7, %11)\n" TAIL("%12", "%4", "%13", "%14"),
     false},
    {"two loops over one range",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = param f32 (%0) {slot=2}\n%4 = range index (%0) {axis=0}\n%5 = index f32 (%1, %4)\n"
     "%6 = index f32 (%2, %4)\n%7 = load f32 (%6)\n%8 = store void (%5, %7)\n"
     "%9 = end void (%8, %4)\n%10 = index f32 (%3, %4)\n%11 = store void (%10, %7)\n"
     "%12 = end void (%11, %4)\n%13 = sink void (%9, %12) {name=\"k\"}\n",
     false},
    {"y stored twice",
     XY "%7 = store void (%4, %6)\n%8 = neg f32 (%6)\n%9 = store void (%4, %8)\n"
        "%10 = group void (%7, %9)\n" TAIL("%10", "%3", "%11", "%12"),
     false},
    {"x stored, too",
     XY "%7 = store void (%4, %6)\n%8 = const f32 0\n%9 = store void (%5, %8)\n"
        "%10 = group void (%7, %9)\n" TAIL("%10", "%3", "%11", "%12"),
     false},
    {"atomic", XY "%7 = atomic_add void (%4, %6)\n" TAIL("%7", "%3", "%8", "%9"), false},
    {"a load behind the store",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = param f32 (%0) {slot=2}\n%4 = range index (%0) {axis=0}\n%5 = index f32 (%1, %4)\n"
     "%6 = index f32 (%2, %4)\n%7 = load f32 (%6)\n%8 = store void (%5, %7)\n"
     "%9 = after f32 (%2, %8)\n%10 = index f32 (%9, %4)\n%11 = load f32 (%10)\n"
     "%12 = index f32 (%3, %4)\n%13 = store void (%12, %11)\n" TAIL("%13", "%4", "%14", "%15"),
     false},
    {"gated alike",
     "%0 = const index 5\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = const index 8\n%4 = range index (%3) {axis=0}\n%5 = cmplt bool (%4, %0)\n"
     "%6 = const index invalid\n%7 = where index (%5, %4, %6)\n%8 = index f32 (%1, %7)\n"
     "%9 = index f32 (%2, %7)\n%10 = load f32 (%9)\n%11 = neg f32 (%10)\n"
     "%12 = store void (%8, %11)\n" TAIL("%12", "%4", "%13", "%14"),
     true},
    {"work-items",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = const index 4\n%4 = special index (%3) {name=\"gidx0\"}\n%5 = mul index (%4, %3)\n"
     "%6 = special index (%3) {name=\"lidx0\"}\n%7 = add index (%5, %6)\n"
     "%8 = index f32 (%1, %7)\n%9 = index f32 (%2, %7)\n%10 = load f32 (%9)\n"
     "%11 = store void (%8, %10)\n%12 = sink void (%11) {name=\"k\"}\n",
     true},
    {"work-items that share elements",
     "%0 = const index 16\n%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"
     "%3 = const index 4\n%4 = special index (%3) {name=\"gidx0\"}\n%5 = index f32 (%1, %4)\n"
     "%6 = index f32 (%2, %4)\n%7 = load f32 (%6)\n%8 = special index (%3) {name=\"lidx0\"}\n"
     "%9 = cast f32 (%8)\n%10 = add f32 (%7, %9)\n%11 = store void (%5, %10)\n"
     "%12 = sink void (%11) {name=\"k\"}\n",
     false},
};

static void test_access_inplace_pairs(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof inplace / sizeof *inplace; k++)
        check_inplace(inplace[k].what, inplace[k].text, 0, 1, inplace[k].want);
}

/* ---- memory ---- */

static tolk_status prove_all(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    tolk_ctx *ctx;
    tolk_graph *g;
    tolk_status st = tk_ctx_init(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    st = tk_graph_create(ctx, &g);
    if (st == TOLK_OK) {
        char text[2048];
        const tolk_uop *root = NULL;
        snprintf(text, sizeof text, "tolk.uop 1\n%s", inplace[0].text);
        st = tolk_parse(g, text, strlen(text), 0, &root, NULL);
        tk_access_pairs pairs;
        tk_vec_init(&pairs, al);
        if (st == TOLK_OK)
            st = tk_access_inplace(root, &pairs);
        if (st == TOLK_OK && !tk_access_pairs_has(&pairs, 0, 1))
            st = TOLK_E_INTERNAL;
        tk_vec_fini(&pairs);
        tk_graph_destroy(g);
    }
    tk_ctx_fini(ctx);
    return st;
}

static void test_access_inplace_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(prove_all, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_access_proved_from_bounds_and_gate),
        cmocka_unit_test(test_IDX_03_gate_of_an_index_proves_nothing_about_its_value),
        cmocka_unit_test(test_IDX_05_gather_is_proved_by_a_gate_on_the_row_only),
        cmocka_unit_test(test_access_ungate_collects_conditions),
        cmocka_unit_test(test_access_inplace_pairs),
        cmocka_unit_test(test_access_inplace_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
