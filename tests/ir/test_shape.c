/* SPDX-License-Identifier: MIT
 *
 * Shapes: of each op that has a rule of its own, and what is refused with which words.
 */
#include "support/tk_test.h"

#include "ir/shape.h"

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

/* Parse the lines that the last one needs: rows share a preamble, and a text may hold no node that
 * its root does not reach. */
static const tolk_uop *parse(world *w, const char *body) {
    enum { N_LINES = 128 };
    const char *line[N_LINES];
    bool needed[N_LINES] = {false};
    size_t n = 0, len = 0;
    for (const char *at = body; *at; at = strchr(at, '\n') + 1) {
        assert_true(n < N_LINES);
        line[n++] = at;
    }
    needed[n - 1] = true;
    char text[4096];
    len = (size_t)snprintf(text, sizeof text, "tolk.uop 1\n");
    for (size_t k = n; k-- > 0;)
        for (const char *at = strchr(line[k], '='); needed[k] && *at != '\n'; at++)
            for (size_t i = 0; *at == '%' && i < k; i++)
                if (strtoul(line[i] + 1, NULL, 10) == strtoul(at + 1, NULL, 10))
                    needed[i] = true;
    for (size_t k = 0; k < n; k++)
        if (needed[k])
            len += (size_t)snprintf(text + len, sizeof text - len, "%.*s\n",
                                    (int)strcspn(line[k], "\n"), line[k]);
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_parse(w->g, text, len, 0, &root, &err);
    if (st != TOLK_OK)
        print_error("%u:%u: %s\n%s\n", err.line, err.column, err.msg, text);
    assert_int_equal(st, TOLK_OK);
    return root;
}

typedef struct row {
    const char *text;
    const char *shape;   /* NULL: refused */
    const char *message; /* of a refusal */
} row;

static void check_rows(const row *rows, size_t n, tolk_status refusal) {
    for (size_t k = 0; k < n; k++) {
        world w = begin();
        const tolk_uop *u = parse(&w, rows[k].text);
        const tk_shape *shape = NULL, *again = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        char text[64];
        tolk_status st = tk_shape_get(u, &shape, NULL, &err);
        if (rows[k].shape) {
            if (st != TOLK_OK || strcmp(tk_shape_text(shape, text), rows[k].shape) != 0)
                print_error("row %zu: %s\n", k, st == TOLK_OK ? text : err.msg);
            assert_int_equal(st, TOLK_OK);
            assert_string_equal(tk_shape_text(shape, text), rows[k].shape);
            assert_int_equal(tk_shape_get(u, &again, NULL, &err), TOLK_OK);
            assert_ptr_equal(again, shape); /* computed once */
            assert_ptr_equal(tk_shape_of(u), shape);
            assert_int_equal(w.g->error.code, TOLK_OK);
        } else {
            if (st == TOLK_OK || strcmp(err.msg, rows[k].message) != 0)
                print_error("row %zu: %s\n", k,
                            st == TOLK_OK ? tk_shape_text(shape, text) : err.msg);
            assert_int_equal(st, refusal);
            assert_string_equal(err.msg, rows[k].message);
            /* Nothing was recorded in the graph, until a builder asks. */
            assert_int_equal(w.g->error.code, TOLK_OK);
            assert_null(tk_shape_of(u));
            assert_int_equal(w.g->error.code, refusal);
            assert_string_equal(w.g->error.msg, rows[k].message);
        }
        end(&w);
    }
}
#define CHECK_ROWS(rows, refusal) check_rows(rows, sizeof(rows) / sizeof *(rows), refusal)

/* %0..%4: 0, 1, 2, 3, 6; %5: x of [2, 3]; %7: n in 1..10 as index %8; %9: y of [n, 3] */
#define PRE                                                                                        \
    "%0 = const index 0\n%1 = const index 1\n%2 = const index 2\n%3 = const index 3\n"             \
    "%4 = const index 6\n"
#define X "%5 = stack index (%2, %3)\n%6 = param f32 (%5) {slot=0, name=\"x\"}\n"
#define N                                                                                          \
    "%7 = param index {slot=1, name=\"n\", space=alu, min=1, max=10}\n"                            \
    "%8 = stack index (%7, %3)\n%9 = param f32 (%8) {slot=2, name=\"y\"}\n"

static const row good[] = {
    {PRE "%10 = const f32 1\n", "[]", NULL},
    {PRE X, "[2, 3]", NULL},
    {PRE N, "[n, 3]", NULL},
    {PRE "%10 = param f32 (%4) {slot=0}\n", "[6]", NULL},
    {PRE "%10 = param f32 {slot=0}\n", "[]", NULL},
    {PRE "%10 = buffer f32 {slot=0, space=local, dynamic=true}\n", "[0]", NULL},
    {PRE X "%10 = exp f32 (%6)\n", "[2, 3]", NULL},
    {PRE X "%10 = mulacc f32 (%6, %6, %6)\n", "[2, 3]", NULL},
    {PRE N "%10 = add f32 (%9, %9)\n", "[n, 3]", NULL},
    {PRE X "%10 = reshape f32 (%6, %4)\n", "[6]", NULL},
    {PRE X "%10 = stack index (%3, %2, %1)\n%11 = reshape f32 (%6, %10)\n", "[3, 2, 1]", NULL},
    {PRE "%10 = param f32 (%1) {slot=0}\n%11 = reshape f32 (%10)\n", "[]", NULL},
    {PRE N "%10 = stack index (%3, %7)\n%11 = reshape f32 (%9, %10)\n", "[3, n]", NULL},
    {PRE N "%10 = mul index (%7, %3)\n%11 = reshape f32 (%9, %10)\n", "[?]", NULL},
    {PRE N
     "%10 = stack index (%3, %0)\n%11 = param f32 (%10) {slot=5}\n%12 = stack index (%0, %4)\n"
     "%13 = reshape f32 (%11, %12)\n",
     "[0, 6]", NULL},
    {PRE X "%10 = permute f32 (%6) {order=[1, 0]}\n", "[3, 2]", NULL},
    {PRE X "%10 = expand f32 (%6, %4)\n", "[6, 2, 3]", NULL},
    {PRE "%10 = const f32 1\n%11 = stack index (%2, %3)\n%12 = expand f32 (%10, %11)\n", "[2, 3]",
     NULL},
    {PRE X "%10 = stack index (%1, %0)\n%11 = stack index (%3, %4)\n%12 = pad f32 (%6, %10, %11)\n",
     "[3, 6]", NULL},
    {PRE X "%10 = stack index (%1, %2)\n%11 = stack index (%1, %1)\n"
           "%12 = shrink f32 (%6, %10, %11)\n",
     "[1, 1]", NULL},
    {PRE X "%10 = stack index (%0, %3)\n%11 = stack index (%2, %0)\n"
           "%12 = shrink f32 (%6, %10, %11)\n",
     "[2, 0]", NULL},
    /* What cannot be decided is accepted. */
    {PRE N "%10 = stack index (%3, %0)\n%11 = stack index (%2, %3)\n"
           "%12 = shrink f32 (%9, %10, %11)\n",
     "[2, 3]", NULL},
    {PRE X "%10 = flip f32 (%6) {axes=[1, 0]}\n", "[2, 3]", NULL},
    {PRE X "%10 = stack f32 (%6, %6, %6, %6)\n", "[4, 2, 3]", NULL},
    {PRE "%10 = stack f32\n", "[0]", NULL},
    {PRE "%10 = stack index (%1, %2)\n", "[2]", NULL},
    {PRE "%10 = const f32 1\n%11 = stack f32x2 (%10, %10)\n", "[]", NULL},
    {PRE "%10 = const f32 1\n%11 = stack f32x2 (%10, %10)\n%12 = index f32 (%11, %1)\n", "[]",
     NULL},
    {PRE X "%10 = reduce f32 (%6) {op=add, axes=1}\n", "[3]", NULL},
    {PRE X "%10 = reduce f32 (%6) {op=max, axes=2}\n", "[]", NULL},
    {PRE X "%10 = index f32 (%6, %1)\n", "[3]", NULL},
    {PRE X "%10 = index f32 (%6, %1, %2)\n", "[]", NULL},
    {PRE X "%10 = index f32 (%6, %1, %2)\n%11 = load f32 (%10)\n", "[]", NULL},
    {PRE X "%10 = param index {slot=7, space=alu}\n%11 = stack index (%10, %10, %10, %10)\n"
           "%12 = index f32 (%6, %11)\n",
     "[4, 3]", NULL},
    {PRE X "%10 = range index (%4) {axis=0}\n%11 = stage f32 (%6, %10)\n", "[6, 2, 3]", NULL},
    {PRE X "%10 = slice u8 (%6, %1) {count=5}\n", "[5]", NULL},
    {PRE X "%10 = mstack f32 (%6, %6)\n%11 = multi f32 (%10) {axis=1}\n", "[2, 6]", NULL},
    {PRE N "%10 = mstack f32 (%9, %9)\n%11 = multi f32 (%10) {axis=0}\n", "[?, 3]", NULL},
    {PRE X "%10 = store void (%6, %6)\n%11 = after f32 (%6, %10)\n", "[2, 3]", NULL},
    {PRE X "%10 = contiguous f32 (%6)\n%11 = copy f32 (%10) {device=\"CPU\"}\n", "[2, 3]", NULL},
};

static void test_shape_of_each_op(void **state) {
    (void)state;
    CHECK_ROWS(good, TOLK_OK);
}

static const row bad[] = {
    {PRE X "%10 = param f32 (%4) {slot=5}\n%11 = add f32 (%6, %10)\n", NULL,
     "add: operand 1 has shape [6], expected [2, 3] (the shape of operand 0)"},
    {PRE X N "%10 = add f32 (%9, %6)\n", NULL,
     "add: operand 1 has shape [2, 3], expected [n, 3] (the shape of operand 0)"},
    {PRE X "%10 = const f32 1\n%11 = mulacc f32 (%6, %6, %10)\n", NULL,
     "mulacc: operand 2 has shape [], expected [2, 3] (the shape of operand 0)"},
    {PRE X "%10 = const bool true\n%11 = const f32 1\n%12 = where f32 (%10, %6, %6)\n", NULL,
     "where: operand 1 has shape [2, 3], expected [] (the shape of operand 0)"},
    {PRE X "%10 = const index 7\n%11 = reshape f32 (%6, %10)\n", NULL,
     "reshape: from [2, 3] to [7], expected equal numbers of elements"},
    {PRE X "%10 = reshape f32 (%6)\n", NULL,
     "reshape: from [2, 3] to [], expected equal numbers of elements"},
    {PRE X "%10 = reshape f32 (%6, %0)\n", NULL,
     "reshape: from [2, 3] to [0], expected equal numbers of elements"},
    {PRE N "%10 = stack index (%7, %2)\n%11 = reshape f32 (%9, %10)\n", NULL,
     "reshape: from [n, 3] to [n, 2], expected equal numbers of elements"},
    {PRE N "%10 = const index 31\n%11 = reshape f32 (%9, %10)\n", NULL,
     "reshape: from [n, 3] to [31], expected equal numbers of elements"},
    {PRE X "%10 = permute f32 (%6) {order=[0]}\n", NULL, "permute: order names 1 axes, expected 2"},
    {PRE X "%10 = flip f32 (%6) {axes=[2]}\n", NULL, "flip: axis 2 of a tensor of rank 2"},
    {PRE X "%10 = pad f32 (%6, %1, %4)\n", NULL, "pad: 1 offsets and 1 sizes, expected 2 of each"},
    {PRE X "%10 = stack index (%0, %1)\n%11 = stack index (%2, %3)\n%12 = pad f32 (%6, %10, %11)\n",
     NULL, "pad: axis 1: offset 1 and size 3 do not fit the dimension 3"},
    {PRE X "%10 = stack index (%1, %0)\n%11 = stack index (%2, %3)\n"
           "%12 = shrink f32 (%6, %10, %11)\n",
     NULL, "shrink: axis 0: offset 1 and size 2 do not fit the dimension 2"},
    {PRE N "%10 = const index 9\n%11 = stack index (%10, %0)\n%12 = stack index (%2, %3)\n"
           "%13 = shrink f32 (%9, %11, %12)\n",
     NULL, "shrink: axis 0: offset 9 and size 2 do not fit the dimension 10"},
    {PRE N "%10 = stack index (%1, %0)\n%11 = shrink f32 (%9, %10, %8)\n", NULL,
     "shrink: axis 0: offset 1 and size 1 do not fit the dimension 10"},
    {PRE X "%10 = reduce f32 (%6) {op=add, axes=3}\n", NULL,
     "reduce: 3 axes of a tensor of rank 2"},
    {PRE X "%10 = index f32 (%6, %0, %0, %0)\n", NULL, "index: 3 indices into rank 2"},
    {PRE X "%10 = param f32 (%4) {slot=5}\n%11 = stack f32 (%6, %10)\n", NULL,
     "stack: operand 1 has shape [6], expected [2, 3] (the shape of operand 0)"},
    {PRE X "%10 = multi f32 (%6) {axis=0}\n", NULL,
     "multi: operand 0 is param, expected an mstack of shards"},
    {PRE X "%10 = mstack f32 (%6, %6)\n%11 = multi f32 (%10) {axis=2}\n", NULL,
     "multi: axis 2 of shards of rank 2"},
    {PRE X "%10 = param f32 (%4) {slot=5}\n%11 = store void (%6, %10)\n", NULL,
     "store: operand 1 has shape [6], expected [2, 3] (the shape of operand 0)"},
};

static void test_shape_that_does_not_fit_is_refused(void **state) {
    (void)state;
    CHECK_ROWS(bad, TOLK_E_SHAPE);
}

/* BIG-03: the number of elements is refused before it wraps around; 2^32 is fine. */
static const row big_03[] = {
    {"%0 = const u8 1\n%1 = const index 9223372036854775807\n%2 = const index 2\n"
     "%3 = stack index (%1, %2)\n%4 = expand u8 (%0, %3)\n",
     NULL, "expand: too large: shape [9223372036854775807, 2] has more than 2^63-1 elements"},
    {"%0 = const u8 1\n%1 = const index 4294967296\n%2 = stack index (%1, %1)\n"
     "%3 = expand u8 (%0, %2)\n",
     NULL, "expand: too large: shape [4294967296, 4294967296] has more than 2^63-1 elements"},
    {"%0 = const index 4294967296\n%1 = param u8 (%0) {slot=0}\n%2 = expand u8 (%1, %0)\n", NULL,
     "expand: too large: shape [4294967296, 4294967296] has more than 2^63-1 elements"},
    {"%0 = const index 4\n%1 = param u8 (%0) {slot=0}\n%2 = const index 0\n"
     "%3 = const index 4611686018427387904\n%4 = pad u8 (%1, %2, %3)\n"
     "%5 = stack u8 (%4, %4)\n",
     NULL, "stack: too large: shape [2, 4611686018427387904] has more than 2^63-1 elements"},
};

static void test_BIG_03_element_count_overflow_is_too_large(void **state) {
    (void)state;
    CHECK_ROWS(big_03, TOLK_E_LIMIT);
    static const row fine[] = {
        {"%0 = const index 65536\n%1 = stack index (%0, %0)\n%2 = param u8 (%1) {slot=0}\n",
         "[65536, 65536]", NULL},
        {"%0 = const u8 1\n%1 = const index 9223372036854775807\n%2 = const index 0\n"
         "%3 = stack index (%1, %1, %2)\n%4 = expand u8 (%0, %3)\n",
         "[9223372036854775807, 9223372036854775807, 0]", NULL},
    };
    CHECK_ROWS(fine, TOLK_OK);
    world w = begin();
    int64_t elems = 0;
    assert_true(tk_shape_elems(tk_shape_of(parse(&w, fine[0].text)), &elems));
    assert_int_equal(elems, INT64_C(4294967296));
    assert_true(tk_shape_elems(tk_shape_of(parse(&w, fine[1].text)), &elems));
    assert_int_equal(elems, 0);
    const tolk_uop *n = parse(&w, PRE N);
    assert_false(tk_shape_elems(tk_shape_of(n), &elems));
    /* A parser or builder refuses such a buffer at once. */
    static const char text[] = "tolk.uop 1\n%0 = const index 4294967296\n"
                               "%1 = stack index (%0, %0)\n%2 = param u8 (%1) {slot=0}\n";
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_parse(w.g, text, sizeof text - 1, 0, &root, &err), TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "too large"));
    end(&w);
}

/* EMPTY-03: reductions and products of empty arrays have the shapes of NumPy. Matrix products are
 * spelled out: (m, k) and (k, n) expand to (k, m, n), and the leading axis is reduced. */
static const row empty_03[] = {
    /* (0, 3).min(axis=1): the axis to the front, then reduced */
    {"%0 = const index 0\n%1 = const index 3\n%2 = stack index (%0, %1)\n"
     "%3 = param f32 (%2) {slot=0}\n%4 = permute f32 (%3) {order=[1, 0]}\n"
     "%5 = neg f32 (%4)\n%6 = reduce f32 (%5) {op=max, axes=1}\n%7 = neg f32 (%6)\n",
     "[0]", NULL},
    /* (0, 4) @ (4, 5) */
    {"%0 = const index 0\n%1 = const index 4\n%2 = const index 5\n%3 = stack index (%0, %1)\n"
     "%4 = param f32 (%3) {slot=0}\n%5 = stack index (%1, %2)\n%6 = param f32 (%5) {slot=1}\n"
     "%7 = expand f32 (%4, %2)\n%8 = permute f32 (%7) {order=[2, 1, 0]}\n"
     "%9 = expand f32 (%6, %0)\n%10 = permute f32 (%9) {order=[1, 0, 2]}\n"
     "%11 = mul f32 (%8, %10)\n%12 = reduce f32 (%11) {op=add, axes=1}\n",
     "[0, 5]", NULL},
    /* (3, 0, 0) @ (0, 0) */
    {"%0 = const index 0\n%1 = const index 3\n%2 = stack index (%1, %0, %0)\n"
     "%3 = param f32 (%2) {slot=0}\n%4 = stack index (%0, %0)\n%5 = param f32 (%4) {slot=1}\n"
     "%6 = expand f32 (%3, %0)\n%7 = permute f32 (%6) {order=[3, 1, 2, 0]}\n"
     "%8 = stack index (%1, %0)\n%9 = expand f32 (%5, %8)\n"
     "%10 = permute f32 (%9) {order=[2, 0, 1, 3]}\n%11 = mul f32 (%7, %10)\n"
     "%12 = reduce f32 (%11) {op=add, axes=1}\n",
     "[3, 0, 0]", NULL},
};

static void test_EMPTY_03_reductions_of_empty_arrays_have_shapes(void **state) {
    (void)state;
    CHECK_ROWS(empty_03, TOLK_OK);
}

static void test_shape_rank_is_limited(void **state) {
    (void)state;
    world w = begin();
    const tolk_uop *one = tk_uop_index_const(w.g, 1), *x = tk_uop_const(w.g, TOLK_F32, 0);
    const tolk_uop *src[2];
    for (int i = 0; i < 32; i++) {
        src[0] = x;
        src[1] = one;
        x = tk_uop(w.g, TK_OP_EXPAND, TOLK_F32, src, 2, NULL);
    }
    assert_int_equal(tk_shape_of(x)->rank, 32);
    src[0] = x;
    x = tk_uop(w.g, TK_OP_EXPAND, TOLK_F32, src, 2, NULL);
    tolk_error err = TOLK_ERROR_INIT;
    const tk_shape *shape = NULL;
    const tolk_uop *at = NULL;
    const tolk_uop *above = tk_uop1(w.g, TK_OP_NEG, x);
    assert_int_equal(tk_shape_get(above, &shape, &at, &err), TOLK_E_LIMIT);
    assert_string_equal(err.msg, "expand: rank 33, at most 32");
    assert_ptr_equal(at, x); /* the node at fault, not the one that was asked for */
    end(&w);
}

static void *deep(void *arg) {
    world *w = arg;
    const tolk_uop *n = tk_uop_index_const(w->g, 16);
    tk_attr a[7] = {{.i = 0},         {.blob = NULL}, {.i = 0}, {.i = INT64_MIN},
                    {.i = INT64_MAX}, {.blob = NULL}, {.i = -1}};
    const tolk_uop *x = tk_uop(w->g, TK_OP_PARAM, TOLK_F32, &n, 1, a);
    for (int i = 0; i < 100000; i++)
        x = tk_uop1(w->g, TK_OP_NEG, x);
    const tk_shape *shape = tk_shape_of(x);
    return shape && shape->rank == 1 && shape->dim[0] == n ? arg : NULL;
}

static void test_shape_depth_of_100000_on_a_small_stack(void **state) {
    (void)state;
    world w = begin();
    assert_non_null(tk_test_on_stack(512 * 1024, deep, &w));
    end(&w);
}

static void test_shape_text_is_cut(void **state) {
    (void)state;
    world w = begin();
    const tolk_uop *dim[8], *spec;
    for (int i = 0; i < 8; i++)
        dim[i] = tk_uop_index_const(w.g, 1000000007 + i);
    spec = tk_uop(w.g, TK_OP_STACK, TOLK_INDEX, dim, 8, NULL);
    tk_attr a[4] = {{.i = 0}, {.i = TK_SPACE_GLOBAL}, {.i = 0}, {.blob = NULL}};
    char text[64];
    const tk_shape *shape = tk_shape_of(tk_uop(w.g, TK_OP_BUFFER, TOLK_F32, &spec, 1, a));
    assert_null(shape); /* 8 times 1e9 is too large as well */
    assert_int_equal(w.g->error.code, TOLK_E_LIMIT);
    assert_non_null(strstr(w.g->error.msg, "[1000000007, 1000000008, 1000000009, "));
    tolk_graph_clear_error(w.g);
    for (int i = 0; i < 8; i++)
        dim[i] = tk_uop_index_const(w.g, i == 7 ? 0 : 1000000007 + i);
    spec = tk_uop(w.g, TK_OP_STACK, TOLK_INDEX, dim, 8, NULL);
    shape = tk_shape_of(tk_uop(w.g, TK_OP_BUFFER, TOLK_F32, &spec, 1, a));
    assert_non_null(shape);
    tk_shape_text(shape, text);
    assert_true(strlen(text) < 64);
    assert_string_equal(text + strlen(text) - 5, " ...]");
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_of_each_op),
        cmocka_unit_test(test_shape_that_does_not_fit_is_refused),
        cmocka_unit_test(test_BIG_03_element_count_overflow_is_too_large),
        cmocka_unit_test(test_EMPTY_03_reductions_of_empty_arrays_have_shapes),
        cmocka_unit_test(test_shape_rank_is_limited),
        cmocka_unit_test(test_shape_depth_of_100000_on_a_small_stack),
        cmocka_unit_test(test_shape_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
