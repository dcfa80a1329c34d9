/* SPDX-License-Identifier: MIT
 *
 * Builders and accessors: what they make, what they refuse, and the first error that stays.
 */
#include "ir/uop.h"

#include "support/tk_test.h"

#include "base/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tolk_ctx *make_ctx(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx = NULL;
    return tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK ? ctx : NULL;
}

static int setup(void **state) {
    tolk_ctx *ctx = make_ctx(NULL);
    tolk_graph *g;
    if (!ctx || tolk_graph_create(ctx, &g) != TOLK_OK)
        return -1;
    *state = g;
    return 0;
}

static int teardown(void **state) {
    tolk_graph *g = *state;
    tolk_ctx *ctx = g->ctx;
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return 0;
}

/* The call that gave u was refused with that status and words; then forget it. */
static void check_refused(tolk_graph *g, const tolk_uop *u, tolk_status code, const char *says) {
    tolk_error err = TOLK_ERROR_INIT;
    assert_null(u);
    tolk_status st = tolk_graph_error(g, &err);
    if (st != code || err.code != code || !strstr(err.msg, says))
        fail_msg("got %s: %s\nexpected %s: %s", tolk_status_name(st), err.msg,
                 tolk_status_name(code), says);
    tolk_graph_clear_error(g);
    assert_int_equal(tolk_graph_error(g, &err), TOLK_OK);
}

/* y[i] = 3 x[i], or 0 where i >= gate: with every builder of memory and control. */
static const tolk_uop *build_kernel(tolk_graph *g) {
    const tolk_uop *n = tolk_variable(g, TOLK_I32, 2, "n", 1, 4096);
    const tolk_uop *size = tolk_cast(g, n, TOLK_INDEX);
    const tolk_uop *y = tolk_param_sym(g, TOLK_F32, &size, 1, 0, "y");
    const tolk_uop *x = tolk_param(g, TOLK_F32, (int64_t[]){64, 64}, 2, 1, "x");
    const tolk_uop *i = tolk_range(g, size, 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *width = tolk_const_int(g, TOLK_INDEX, 64);
    const tolk_uop *ij[] = {tolk_floordiv(g, i, width), tolk_floormod(g, i, width)};
    const tolk_uop *gate = tolk_cmplt(g, i, width), *zero = tolk_const_float(g, TOLK_F32, 0);
    const tolk_uop *v = tolk_load_gated(g, tolk_index(g, x, ij, 2), zero, gate);
    const tolk_uop *three = tolk_const_float(g, TOLK_F32, 3);
    const tolk_uop *store = tolk_store(g, tolk_index(g, y, &i, 1), tolk_mul(g, v, three));
    const tolk_uop *end = tolk_end(g, store, &i, 1);
    return tolk_sink(g, &end, 1, "scale");
}

static void test_kernel_by_builders_is_the_kernel_in_text(void **state) {
    tolk_graph *g = *state;
    static const char text[] = "tolk.uop 1\n"
                               "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=4096}\n"
                               "%1 = cast index (%0)\n"
                               "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                               "%3 = range index (%1) {axis=0, kind=global}\n"
                               "%4 = index f32 (%2, %3)\n"
                               "%5 = const index 64\n"
                               "%6 = stack index (%5, %5)\n"
                               "%7 = param f32 (%6) {slot=1, name=\"x\"}\n"
                               "%8 = floordiv index (%3, %5)\n"
                               "%9 = floormod index (%3, %5)\n"
                               "%10 = index f32 (%7, %8, %9)\n"
                               "%11 = const f32 0x0p+0\n"
                               "%12 = cmplt bool (%3, %5)\n"
                               "%13 = load f32 (%10, %11, %12)\n"
                               "%14 = const f32 0x1.8p+1\n"
                               "%15 = mul f32 (%13, %14)\n"
                               "%16 = store void (%4, %15)\n"
                               "%17 = end void (%16, %3)\n"
                               "%18 = sink void (%17) {name=\"scale\"}\n";
    const tolk_uop *u = build_kernel(g), *parsed = NULL;
    assert_non_null(u);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &parsed, NULL), TOLK_OK);
    assert_ptr_equal(u, parsed);
    char *out = NULL;
    assert_int_equal(tolk_print(u, &out, NULL), TOLK_OK);
    assert_string_equal(out, text);
    tk_strbuf_text_free(g->al, out);
}

#define UNARY_ROW(name) {#name, tolk_##name, NULL},
#define BINARY_ROW(name) {#name, NULL, tolk_##name},
static const struct {
    const char *name;
    const tolk_uop *(*unary)(tolk_graph *, const tolk_uop *);
    const tolk_uop *(*binary)(tolk_graph *, const tolk_uop *, const tolk_uop *);
} elementwise[] = {TOLK_UNARY_MAP(UNARY_ROW) TOLK_BINARY_MAP(BINARY_ROW)};

static void test_elementwise_builders_make_the_op_of_their_name(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *f = tolk_const_float(g, TOLK_F32, 2), *k = tolk_const_int(g, TOLK_U64, 3);
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++) {
        tolk_op op = tolk_op_find(elementwise[i].name);
        assert_int_not_equal(op, TOLK_OP_NONE);
        assert_string_equal(tolk_op_name(op), elementwise[i].name);
        const tolk_uop *a = tk_op_get((tk_op)op)->dom & TK_DOM_F ? f : k, *u;
        u = elementwise[i].unary ? elementwise[i].unary(g, a) : elementwise[i].binary(g, a, a);
        assert_non_null(u);
        assert_int_equal(tolk_uop_op(u), op);
        assert_int_equal(tolk_uop_n_src(u), elementwise[i].unary ? 1 : 2);
        assert_ptr_equal(tolk_uop_src(u, 0), a);
        assert_null(tolk_uop_src(u, 2));
        bool compares = strncmp(elementwise[i].name, "cmp", 3) == 0;
        assert_int_equal(tolk_uop_dtype(u), compares ? TOLK_BOOL : tolk_uop_dtype(a));
        /* and again is the same node */
        assert_ptr_equal(
            tolk_uop_new(g, op, TOLK_VOID, (const tolk_uop *[]){a, a}, tolk_uop_n_src(u), NULL, 0),
            u);
    }
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK);
    assert_int_equal(tolk_op_find("nothing"), TOLK_OP_NONE);
    assert_int_equal(tolk_op_find(""), TOLK_OP_NONE);
    assert_int_equal(tolk_op_find(NULL), TOLK_OP_NONE);
    assert_null(tolk_op_name(TOLK_OP_NONE));
    assert_null(tolk_op_name(TK_OP_COUNT));
}

static void test_constants_have_the_bits_of_their_value(void **state) {
    tolk_graph *g = *state;
    assert_int_equal(tk_uop_bits(tolk_const_int(g, TOLK_I8, -1)), UINT64_MAX);
    assert_int_equal(tk_uop_bits(tolk_const_int(g, TOLK_I64, INT64_MIN)), (uint64_t)1 << 63);
    assert_int_equal(tk_uop_bits(tolk_const_uint(g, TOLK_U64, UINT64_MAX)), UINT64_MAX);
    assert_int_equal(tk_uop_bits(tolk_const_int(g, TOLK_U8, 255)), 255);
    assert_int_equal(tk_uop_bits(tolk_const_bool(g, 17)), 1);
    assert_ptr_equal(tolk_const_bool(g, 0), tolk_const_int(g, TOLK_BOOL, 0));
    assert_int_equal(tk_uop_bits(tolk_const_float(g, TOLK_F32, 0.1)), 0x3dcccccd);
    assert_int_equal(tk_uop_bits(tolk_const_float(g, TOLK_F16, 65520)), 0x7c00);
    assert_int_equal(tk_uop_bits(tolk_const_float(g, TOLK_F64, -0.0)), (uint64_t)1 << 63);
    /* Integers become floats in one rounding: 2^24 + 1 ties to even. */
    assert_int_equal(tk_uop_bits(tolk_const_int(g, TOLK_F32, 16777217)), 0x4b800000);
    assert_int_equal(tk_uop_bits(tolk_const_uint(g, TOLK_F32, UINT64_MAX)), 0x5f800000);
    assert_true(tk_uop_is_invalid(tolk_invalid(g)));
    check_refused(g, tolk_const_int(g, TOLK_I8, 128), TOLK_E_RANGE,
                  "128 is out of the range of i8");
    check_refused(g, tolk_const_int(g, TOLK_I8, -129), TOLK_E_RANGE, "-129");
    check_refused(g, tolk_const_int(g, TOLK_U32, -1), TOLK_E_RANGE, "-1");
    check_refused(g, tolk_const_int(g, TOLK_BOOL, 2), TOLK_E_RANGE, "bool");
    check_refused(g, tolk_const_uint(g, TOLK_I64, (uint64_t)1 << 63), TOLK_E_RANGE,
                  "9223372036854775808 is out of the range of i64");
    check_refused(g, tolk_const_int(g, TOLK_VOID, 0), TOLK_E_DTYPE, "void");
    check_refused(g, tolk_const_int(g, tolk_dtype_vec(TOLK_I32, 4), 0), TOLK_E_DTYPE, "i32x4");
    check_refused(g, tolk_const_float(g, TOLK_I32, 1.5), TOLK_E_DTYPE,
                  "a float value for dtype i32");
    check_refused(g, tolk_const_float(g, 0xffff, 1.5), TOLK_E_DTYPE, "const");
}

static void test_first_error_stays_and_null_passes_through(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *one = tolk_const_int(g, TOLK_I32, 1), *x = tolk_const_float(g, TOLK_F32, 1);
    uint32_t count = tolk_graph_count(g);
    assert_null(tolk_add(g, x, one));                 /* the first error */
    assert_null(tolk_mul(g, tolk_add(g, x, one), x)); /* passes through */
    assert_null(tolk_const_int(g, TOLK_I8, 1000));    /* a later one */
    assert_null(tolk_load(g, NULL));
    assert_null(tolk_index(g, NULL, &one, 1));
    assert_int_equal(tolk_graph_count(g), count);
    assert_non_null(tolk_neg(g, x)); /* right nodes are still made */
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_error(g, &err), TOLK_E_DTYPE);
    assert_int_equal(err.code, TOLK_E_DTYPE);
    assert_non_null(strstr(err.msg, "add: operand 1 is i32"));
    tolk_graph_clear_error(g);
    assert_int_equal(tolk_graph_error(g, &err), TOLK_OK);
    check_refused(g, tolk_add(g, x, NULL), TOLK_E_ARG, "add: source 1 is NULL");
}

static void test_nodes_of_another_graph_are_refused(void **state) {
    tolk_graph *g = *state, *other;
    assert_int_equal(tolk_graph_create(g->ctx, &other), TOLK_OK);
    const tolk_uop *mine = tolk_const_int(g, TOLK_I32, 1);
    const tolk_uop *theirs = tolk_const_int(other, TOLK_I32, 1);
    check_refused(g, tolk_add(g, mine, theirs), TOLK_E_ARG, "add: source 1 belongs to another");
    check_refused(g, tolk_cast(g, theirs, TOLK_I32), TOLK_E_ARG,
                  "cast: source 0 belongs to another");
    tolk_graph_destroy(other);
}

static void test_uop_new_wrong_attributes_are_named(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tolk_const_int(g, TOLK_INDEX, 8);
    tolk_op range = tolk_op_find("range"), param = tolk_op_find("param");
    tolk_attr axis = {.key = "axis", .i = 0}, slot = {.key = "slot", .i = 0};
#define NEW(op, ...)                                                                               \
    tolk_uop_new(g, op, TOLK_VOID, &n, 1, (tolk_attr[]){__VA_ARGS__},                              \
                 sizeof((tolk_attr[]){__VA_ARGS__}) / sizeof(tolk_attr))
    const tolk_uop *u = NEW(range, axis, {.key = "kind", .s = "global"});
    assert_ptr_equal(u, tolk_range(g, n, 0, TOLK_AXIS_GLOBAL));
    assert_ptr_equal(u, NEW(range, {.key = "kind", .i = TOLK_AXIS_GLOBAL}, axis));
    check_refused(g, NEW(range, {.key = "kind", .i = 1}), TOLK_E_ARG,
                  "range: attribute \"axis\" is missing");
    check_refused(g, NEW(range, axis, axis), TOLK_E_ARG,
                  "range: attribute \"axis\" is given twice");
    check_refused(g, NEW(range, axis, {.key = "x"}), TOLK_E_ARG, "\"x\" does not exist");
    check_refused(g, NEW(range, axis, {.key = NULL}), TOLK_E_ARG, "\"(NULL)\" does not exist");
    check_refused(g, NEW(range, axis, {.key = "kind", .s = "x"}), TOLK_E_ARG, "no value \"x\"");
    check_refused(g, NEW(range, axis, {.key = "kind", .i = 99}), TOLK_E_ARG, "no value 99");
    check_refused(g, NEW(range, axis, {.key = "kind", .i = -1}), TOLK_E_ARG, "no value -1");
    check_refused(g, NEW(range, axis, {.key = "sub", .n = 3}), TOLK_E_ARG, "3 elements at NULL");
    check_refused(g, NEW(range, axis, {.key = "sub", .ints = &n->attr->i, .n = 1 << 20}),
                  TOLK_E_LIMIT, "range: sub has 1048576 elements, at most");
    check_refused(g, NEW(param, slot, {.key = "name"}), TOLK_E_ARG,
                  "param: name has NULL in s, expected a string in s");
    check_refused(g, NEW(param, slot, {.key = "name", .s = "a\xff"}), TOLK_E_ARG,
                  "param: name is not UTF-8 at byte 1");
    check_refused(g, tolk_uop_new(g, 9999, TOLK_F32, NULL, 0, NULL, 0), TOLK_E_ARG, "9999");
    check_refused(g, tolk_uop_new(g, tolk_op_find("const"), TOLK_F32, NULL, 0, NULL, 0), TOLK_E_ARG,
                  "const");
    check_refused(g, tolk_uop_new(g, tolk_op_find("add"), TOLK_F32, &n, 1, NULL, 0), TOLK_E_VERIFY,
                  "add: 1 operands, expected 2");
    check_refused(g, tolk_uop_new(g, tolk_op_find("neg"), TOLK_F32, &n, 1, NULL, 0), TOLK_E_DTYPE,
                  "neg");
    char *name = malloc((3 << 20) + 1);
    assert_non_null(name);
    memset(name, 'a', 3 << 20);
    name[3 << 20] = 0;
    check_refused(g, tolk_sink(g, NULL, 0, name), TOLK_E_LIMIT, "name has 3145728 bytes");
    free(name);
}

/* What would have meant the default, or nothing, in silence. */
static void test_uop_new_value_in_the_wrong_member_is_refused(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tolk_const_int(g, TOLK_INDEX, 8);
    tolk_op range = tolk_op_find("range"), param = tolk_op_find("param");
    tolk_attr axis = {.key = "axis", .i = 0}, slot = {.key = "slot", .i = 0};
    int64_t one[] = {1};
    check_refused(g, NEW(param, {.key = "slot", .s = "3"}), TOLK_E_ARG,
                  "param: slot has a string in s, expected an integer in i");
    check_refused(g, NEW(param, {.key = "slot", .ints = one, .n = 1}), TOLK_E_ARG,
                  "param: slot has a list in ints, expected an integer in i");
    check_refused(g, NEW(range, axis, {.key = "poll", .s = "true"}), TOLK_E_ARG,
                  "range: poll has a string in s, expected 0 or 1 in i");
    check_refused(g, NEW(param, slot, {.key = "name", .i = 3}), TOLK_E_ARG,
                  "param: name has a number in i, expected a string in s");
    check_refused(g, NEW(param, slot, {.key = "name", .ints = one, .n = 1}), TOLK_E_ARG,
                  "param: name has a list in ints, expected a string in s");
    check_refused(g, NEW(range, axis, {.key = "sub", .i = 3}), TOLK_E_ARG,
                  "range: sub has a number in i, expected a list in ints and n");
    check_refused(g, NEW(range, axis, {.key = "sub", .s = "3"}), TOLK_E_ARG,
                  "range: sub has a string in s, expected a list in ints and n");
    check_refused(g, NEW(range, axis, {.key = "kind", .ints = one, .n = 1}), TOLK_E_ARG,
                  "range: kind has a list in ints, expected a name in s or a number in i");
    check_refused(g,
                  tolk_uop_new(g, tolk_op_find("binary"), TOLK_VOID, NULL, 0,
                               &(tolk_attr){.key = "bytes", .i = 3}, 1),
                  TOLK_E_ARG, "binary: bytes has a number in i, expected bytes in s and n");
    check_refused(g, tolk_uop_new(g, tolk_op_find("linaer"), TOLK_VOID, NULL, 0, NULL, 0),
                  TOLK_E_ARG, "tolk_op_find found no op of that name");
    /* What was read from a node is right for another one, whatever members it filled in. */
    static const struct {
        const char *op, *key;
    } of[] = {{"param", "slot"}, {"param", "name"}, {"param", "space"}, {"range", "sub"},
              {"range", "kind"}, {"range", "poll"}, {"binary", "bytes"}};
    const tolk_uop *const made[] = {
        tolk_param(g, TOLK_F32, NULL, 0, 3, "x"),
        NEW(range, axis, {.key = "sub", .ints = one, .n = 1}, {.key = "kind", .s = "lane"}),
        tolk_uop_new(g, tolk_op_find("binary"), TOLK_VOID, NULL, 0,
                     &(tolk_attr){.key = "bytes", .s = "\0", .n = 1}, 1)};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        tolk_attr a[2] = {{.key = NULL}};
        const tolk_uop *u = made[i < 3 ? 0 : i < 6 ? 1 : 2];
        const char *needed = i < 3 ? "slot" : i < 6 ? "axis" : "bytes";
        assert_true(tolk_uop_attr(u, of[i].key, &a[0]));
        assert_true(tolk_uop_attr(u, needed, &a[1]));
        bool same = strcmp(needed, of[i].key) == 0;
        assert_non_null(tolk_uop_new(g, tolk_op_find(of[i].op), i < 3 ? TOLK_F32 : TOLK_VOID, &n,
                                     i >= 3 && i < 6, a, same ? 1 : 2));
    }
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK);
}

/* Calls with every builder of theirs: a graph of a kernel and a copy, behind a slice. */
static const tolk_uop *build_linear(tolk_graph *g) {
    static const char *const both = "CPU,CPU:1";
    int64_t n = 16, all = 64;
    const tolk_uop *v = tolk_variable(g, TOLK_I32, 5, "n", 1, 16);
    const tolk_uop *k = tolk_scalar(g, TOLK_F32, 4, "k"), *size = tolk_cast(g, v, TOLK_INDEX);
    const tolk_uop *i = tolk_range(g, size, 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *y = tolk_param(g, TOLK_F32, &n, 1, 0, "y");
    const tolk_uop *store = tolk_store(g, tolk_index(g, y, &i, 1), k);
    const tolk_uop *end = tolk_end(g, store, &i, 1), *kernel = tolk_sink(g, &end, 1, "fill");

    const tolk_uop *b[] = {tolk_buffer_node(g, TOLK_F32, &n, 1, 1, NULL),
                           tolk_buffer_node_sym(g, TOLK_F32, &size, 1, 2, "CPU:1"),
                           tolk_buffer_node(g, TOLK_U8, &all, 1, 3, both),
                           tolk_buffer_node(g, TOLK_U8, &all, 1, 4, "CPU")};
    const tolk_uop *shard = tolk_mselect(g, b[2], 1);
    const tolk_uop *part = tolk_slice(g, shard, TOLK_F32, 0, 16);
    const tolk_uop *pair[] = {shard, b[3]}, *stack = tolk_mstack(g, pair, 2);
    const tolk_uop *fill[] = {b[0], tolk_bind(g, v, tolk_const_int(g, TOLK_I32, 7))};
    const tolk_uop *inner[] = {
        tolk_call(g, kernel, fill, 2),
        tolk_call(g, tolk_copy(g, b[0], "CPU:1"), (const tolk_uop *[]){b[1], b[0]}, 2)};
    const tolk_uop *calls[] = {
        tolk_call(g, part, (const tolk_uop *[]){b[0], shard}, 2),
        tolk_call(g, tolk_graph_node(g, tolk_linear_node(g, inner, 2)), NULL, 0),
        tolk_call(g, tolk_copy(g, b[2], both), (const tolk_uop *[]){b[2], stack}, 2)};
    return tolk_linear_node(g, calls, 3);
}

static void test_linear_by_builders_is_the_linear_in_text(void **state) {
    tolk_graph *g = *state;
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index 64\n"
                               "%1 = buffer u8 (%0) {slot=3, device=\"CPU,CPU:1\"}\n"
                               "%2 = mselect u8 (%1) {index=1}\n"
                               "%3 = const index 0\n"
                               "%4 = slice f32 (%2, %3) {count=16}\n"
                               "%5 = const index 16\n"
                               "%6 = buffer f32 (%5) {slot=1}\n"
                               "%7 = call void (%4, %6, %2)\n"
                               "%8 = param f32 (%5) {slot=0, name=\"y\"}\n"
                               "%9 = param i32 {slot=5, name=\"n\", space=alu, min=1, max=16}\n"
                               "%10 = cast index (%9)\n"
                               "%11 = range index (%10) {axis=0, kind=global}\n"
                               "%12 = index f32 (%8, %11)\n"
                               "%13 = param f32 {slot=4, name=\"k\", space=alu}\n"
                               "%14 = store void (%12, %13)\n"
                               "%15 = end void (%14, %11)\n"
                               "%16 = sink void (%15) {name=\"fill\"}\n"
                               "%17 = const i32 7\n"
                               "%18 = bind i32 (%9, %17)\n"
                               "%19 = call void (%16, %6, %18)\n"
                               "%20 = copy f32 (%6) {device=\"CPU:1\"}\n"
                               "%21 = buffer f32 (%10) {slot=2, device=\"CPU:1\"}\n"
                               "%22 = call void (%20, %21, %6)\n"
                               "%23 = linear void (%19, %22)\n"
                               "%24 = custom_function void (%23) {name=\"graph\"}\n"
                               "%25 = call void (%24)\n"
                               "%26 = copy u8 (%1) {device=\"CPU,CPU:1\"}\n"
                               "%27 = buffer u8 (%0) {slot=4, device=\"CPU\"}\n"
                               "%28 = mstack u8 (%2, %27)\n"
                               "%29 = call void (%26, %1, %28)\n"
                               "%30 = linear void (%7, %25, %29)\n";
    const tolk_uop *u = build_linear(g), *parsed = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (!u || tolk_verify(u, TOLK_STAGE_TENSOR, &err)) {
        (void)tolk_graph_error(g, &err);
        fail_msg("%s", err.msg);
    }
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &parsed, NULL), TOLK_OK);
    assert_ptr_equal(u, parsed);
    char *out = NULL;
    assert_int_equal(tolk_print(u, &out, NULL), TOLK_OK);
    assert_string_equal(out, text);
    tk_strbuf_text_free(g->al, out);
}

static void test_parts_of_linears_wrong_are_refused(void **state) {
    tolk_graph *g = *state;
    int64_t n = 4;
    const tolk_uop *x = tolk_buffer_node(g, TOLK_F32, &n, 1, 0, NULL);
    const tolk_uop *y = tolk_buffer_node(g, TOLK_F64, &n, 1, 1, NULL);
    const tolk_uop *v = tolk_variable(g, TOLK_I32, 0, "n", 1, 10);
    /* AFTER is of its value, and waits for what it names. */
    const tolk_uop *call = tolk_call(g, tolk_copy(g, x, "CPU"), (const tolk_uop *[]){x, x}, 2);
    const tolk_uop *after = tolk_after(g, x, &call, 1);
    assert_int_equal(tolk_uop_dtype(after), TOLK_F32);
    assert_ptr_equal(tolk_uop_src(after, 0), x);
    assert_ptr_equal(tolk_uop_src(after, 1), call);
    /* A scalar of a float dtype has no bounds; of an integer dtype it is the unbounded variable. */
    assert_int_equal(tolk_uop_dtype(tolk_scalar(g, TOLK_F64, 1, "k")), TOLK_F64);
    assert_ptr_equal(tolk_scalar(g, TOLK_I64, 1, "k"),
                     tolk_variable(g, TOLK_I64, 1, "k", INT64_MIN, INT64_MAX));
    n = -1;
    check_refused(g, tolk_buffer_node(g, TOLK_F32, &n, 1, 0, NULL), TOLK_E_SHAPE,
                  "buffer: dimension 0 is -1");
    check_refused(g, tolk_buffer_node(g, TOLK_INDEX, NULL, 0, 0, NULL), TOLK_E_DTYPE, "index");
    check_refused(g, tolk_buffer_node_sym(g, TOLK_F32, NULL, 9, 0, NULL), TOLK_E_LIMIT,
                  "buffer: 9 dimensions, at most 8");
    check_refused(g, tolk_buffer_node(g, TOLK_F32, NULL, 0, 0, "\xff"), TOLK_E_ARG,
                  "buffer: device is not UTF-8");
    check_refused(g, tolk_slice(g, x, TOLK_F32, -1, 2), TOLK_E_RANGE, "slice: offset is -1");
    check_refused(g, tolk_slice(g, x, TOLK_F32, 0, -2), TOLK_E_VERIFY, "count");
    check_refused(g, tolk_slice(g, NULL, TOLK_F32, 0, 2), TOLK_E_ARG, "slice: source 0 is NULL");
    check_refused(g, tolk_mselect(g, x, -1), TOLK_E_VERIFY, "index");
    check_refused(g, tolk_mstack(g, (const tolk_uop *[]){x, y}, 2), TOLK_E_DTYPE, "operand 1");
    check_refused(g, tolk_mstack(g, NULL, 0), TOLK_E_VERIFY, "mstack: 0 operands");
    check_refused(g, tolk_bind(g, x, tolk_const_float(g, TOLK_F32, 1)), TOLK_E_VERIFY,
                  "expected a scalar param");
    check_refused(g, tolk_bind(g, v, tolk_const_int(g, TOLK_I32, 11)), TOLK_E_RANGE,
                  "value 11 is not within 1..10");
    check_refused(g, tolk_copy(g, x, NULL), TOLK_E_ARG, "copy: device is NULL");
    check_refused(g, tolk_call(g, NULL, NULL, 0), TOLK_E_ARG, "call: source 0 is NULL");
    check_refused(g, tolk_call(g, x, (const tolk_uop *[]){x, NULL}, 2), TOLK_E_ARG,
                  "call: source 2 is NULL");
    check_refused(g, tolk_graph_node(g, NULL), TOLK_E_ARG, "custom_function: source 0 is NULL");
    check_refused(g, tolk_after(g, NULL, &call, 1), TOLK_E_ARG, "after: source 0 is NULL");
}

static void test_params_and_ranges_wrong_are_refused(void **state) {
    tolk_graph *g = *state;
    int64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_non_null(tolk_param(g, TOLK_F32, dims, 8, 0, NULL));
    check_refused(g, tolk_param(g, TOLK_F32, dims, 9, 0, NULL), TOLK_E_LIMIT, "9 dimensions");
    dims[1] = -1;
    check_refused(g, tolk_param(g, TOLK_F32, dims, 2, 0, NULL), TOLK_E_SHAPE, "dimension 1 is -1");
    check_refused(g, tolk_param(g, TOLK_F32, dims, 1, -1, NULL), TOLK_E_VERIFY, "slot");
    /* BIG-03 */
    check_refused(g, tolk_param(g, TOLK_U8, (int64_t[]){INT64_MAX, 2}, 2, 0, NULL), TOLK_E_LIMIT,
                  "too large");
    check_refused(g, tolk_param(g, TOLK_U8, (int64_t[]){1LL << 32, 1LL << 32}, 2, 0, NULL),
                  TOLK_E_LIMIT, "too large");
    assert_non_null(tolk_param(g, TOLK_U8, (int64_t[]){65536, 65536}, 2, 0, NULL));
    check_refused(g, tolk_variable(g, TOLK_I8, 0, "n", 0, 128), TOLK_E_RANGE, "0 .. 128");
    check_refused(g, tolk_variable(g, TOLK_I32, 0, "n", 5, 4), TOLK_E_RANGE, "5 .. 4");
    check_refused(g, tolk_variable(g, TOLK_F32, 0, "n", 0, 1), TOLK_E_DTYPE, "f32");
    const tolk_uop *n = tolk_const_int(g, TOLK_INDEX, 8), *i32 = tolk_const_int(g, TOLK_I32, 8);
    check_refused(g, tolk_range(g, i32, 0, TOLK_AXIS_LOOP), TOLK_E_DTYPE,
                  "range: operand 0 is i32");
    check_refused(g, tolk_range(g, n, 0, (tolk_axis)10), TOLK_E_ARG, "kind has no value 10");
    check_refused(g, tolk_reduce(g, (tolk_reduce_op)3, n, NULL, 0), TOLK_E_ARG,
                  "op has no value 3");
    check_refused(g, tolk_reduce(g, TOLK_REDUCE_ADD, n, &n, 1), TOLK_E_VERIFY, "expected a range");
    check_refused(g, tolk_load(g, n), TOLK_E_VERIFY, "expected a place");
    check_refused(g, tolk_bitcast(g, n, TOLK_F32), TOLK_E_DTYPE, "equal widths");
}

/* Lists longer than what is joined on the stack. */
static void test_many_sources_are_kept_in_order(void **state) {
    tolk_graph *g = *state;
    enum { N = 300 };
    const tolk_uop *ranges[N], *n = tolk_const_int(g, TOLK_INDEX, 2);
    for (int i = 0; i < N; i++)
        ranges[i] = tolk_range(g, n, i, TOLK_AXIS_REDUCE);
    for (size_t k = 0; k < N; k += k < 20 ? 1 : 93) {
        const tolk_uop *u = tolk_reduce(g, TOLK_REDUCE_MAX, n, ranges, k);
        assert_non_null(u);
        assert_int_equal(tolk_uop_n_src(u), k + 1);
        assert_ptr_equal(tolk_uop_src(u, 0), n);
        for (size_t i = 0; i < k; i++)
            assert_ptr_equal(tolk_uop_src(u, i + 1), ranges[i]);
    }
}

static void test_attributes_are_read_back(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *n = tolk_const_int(g, TOLK_INDEX, 8);
    int64_t parts[] = {4, -5};
    const tolk_uop *u = tolk_uop_new(g, tolk_op_find("range"), TOLK_VOID, &n, 1,
                                     (tolk_attr[]){{.key = "axis", .i = 7},
                                                   {.key = "sub", .ints = parts, .n = 2},
                                                   {.key = "kind", .s = "lane"},
                                                   {.key = "poll", .i = 2}},
                                     4);
    tolk_attr a = {.key = NULL};
    assert_true(tolk_uop_attr(u, "axis", &a));
    assert_string_equal(a.key, "axis");
    assert_int_equal(a.i, 7);
    assert_true(tolk_uop_attr(u, "sub", &a));
    assert_int_equal(a.n, 2);
    assert_memory_equal(a.ints, parts, sizeof parts);
    assert_true(tolk_uop_attr(u, "kind", &a));
    assert_int_equal(a.i, TOLK_AXIS_LANE);
    assert_string_equal(a.s, "lane");
    assert_true(tolk_uop_attr(u, "poll", &a));
    assert_int_equal(a.i, 1);
    assert_false(tolk_uop_attr(u, "name", &a));
    assert_false(tolk_uop_attr(n, "axis", &a));
    u = tolk_param(g, TOLK_F32, NULL, 0, 3, "\xc3\xa9");
    assert_true(tolk_uop_attr(u, "name", &a));
    assert_string_equal(a.s, "\xc3\xa9");
    assert_true(tolk_uop_attr(u, "device", &a));
    assert_null(a.s);
    u = tolk_uop_new(g, tolk_op_find("binary"), TOLK_VOID, NULL, 0,
                     (tolk_attr[]){{.key = "bytes", .s = "\0\xff", .n = 2}}, 1);
    assert_int_equal(tolk_uop_dtype(u), TOLK_U8);
    assert_true(tolk_uop_attr(u, "bytes", &a));
    assert_int_equal(a.n, 2);
    assert_memory_equal(a.s, "\0\xff", 2);
}

static tolk_status build_without_memory(const tolk_allocator *al, void *user) {
    tolk_ctx *ctx = make_ctx(al);
    tolk_graph *g = NULL;
    (void)user;
    if (!ctx)
        return TOLK_E_NOMEM;
    tolk_status st = tolk_graph_create(ctx, &g);
    if (st == TOLK_OK) {
        const tolk_uop *u = build_kernel(g);
        const tolk_uop *many[100];
        for (int i = 0; i < 100; i++)
            many[i] = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 2), i, TOLK_AXIS_LOOP);
        u = tolk_end(g, u, many, 100);
        u = u ? build_linear(g) : NULL;
        st = tolk_graph_error(g, NULL);
        if ((u == NULL) != (st != TOLK_OK))
            st = TOLK_E_INTERNAL;
    }
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return st;
}

static void test_build_without_memory_is_E_NOMEM(void **state) {
    (void)state;
    assert_true(tk_test_oom(build_without_memory, NULL) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kernel_by_builders_is_the_kernel_in_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_elementwise_builders_make_the_op_of_their_name, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_constants_have_the_bits_of_their_value, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_first_error_stays_and_null_passes_through, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_nodes_of_another_graph_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uop_new_wrong_attributes_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uop_new_value_in_the_wrong_member_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_linear_by_builders_is_the_linear_in_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_parts_of_linears_wrong_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_params_and_ranges_wrong_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_sources_are_kept_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes_are_read_back, setup, teardown),
        cmocka_unit_test(test_build_without_memory_is_E_NOMEM),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
