/* SPDX-License-Identifier: MIT
 *
 * The text form: both ways for every op, what is refused and where, limits, and the locale.
 */
#include "ir/uop.h"

#include "support/tk_test.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/key.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tolk_ctx *make_ctx(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.allocator = al;
    tolk_ctx *ctx = NULL;
    return tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK ? ctx : NULL;
}

static int setup(void **state) {
    tolk_ctx *ctx = make_ctx(NULL);
    tolk_graph *g = NULL;
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

/* Parse an exact copy on the heap, so that a read past the end is seen. */
static tolk_status parse_n(tolk_graph *g, const char *text, size_t n, uint32_t flags,
                           const tolk_uop **root, tolk_error *err) {
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, text, n);
    tolk_status st = tolk_parse(g, copy, n, flags, root, err);
    free(copy);
    return st;
}

static const tolk_uop *parse(tolk_graph *g, const char *text) {
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (parse_n(g, text, strlen(text), TOLK_PARSE_TRUSTED, &root, &err) != TOLK_OK)
        fail_msg("%u:%u: %s in\n%s", err.line, err.column, err.msg, text);
    return root;
}

/* text is what the printer prints: both ways give the same, in the same graph and in another. */
static const tolk_uop *check_printed(tolk_graph *g, const char *text) {
    const tolk_uop *u = parse(g, text);
    char *out = NULL;
    size_t len = 0;
    assert_int_equal(tolk_print(u, &out, &len), TOLK_OK);
    assert_int_equal(strlen(out), len);
    assert_string_equal(out, text);
    assert_ptr_equal(parse(g, out), u);
    tk_strbuf_text_free(g->al, out);
    tolk_graph *other;
    assert_int_equal(tolk_graph_create(g->ctx, &other), TOLK_OK);
    tolk_const_int(other, TOLK_I32, 12345); /* so that ids differ */
    const tolk_uop *v = parse(other, text);
    tk_hash128 a = tk_key(u), b = tk_key(v);
    assert_true(a.lo == b.lo && a.hi == b.hi);
    tolk_graph_destroy(other);
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK);
    return u;
}

/* Together these hold every op but the elementwise ones, and every attribute. */
static const char *const printed[] = {
    "tolk.uop 1\n"
    "%0 = const index 1024\n"
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
    "%2 = range index (%0) {axis=0, kind=global}\n"
    "%3 = index f32 (%1, %2)\n"
    "%4 = param f32 (%0) {slot=1, name=\"x\", device=\"CPU:1\", axis=0}\n"
    "%5 = index f32 (%4, %2)\n"
    "%6 = load f32 (%5) {inbounds=true}\n"
    "%7 = const f32 0x1.8p+1\n"
    "%8 = mul f32 (%6, %7)\n"
    "%9 = store void (%3, %8) {inbounds=true}\n"
    "%10 = end void (%9, %2)\n"
    "%11 = sink void (%10) {name=\"scale\", opts=\"UPCAST:0:4\"}\n",
    /* accumulator in a register; ranges with parts, parents and poll */
    "tolk.uop 1\n"
    "%0 = const index 1\n"
    "%1 = buffer f32 (%0) {slot=0, space=reg}\n"
    "%2 = const index 0\n"
    "%3 = index f32 (%1, %2)\n"
    "%4 = const f32 0x0p+0\n"
    "%5 = store void (%3, %4)\n"
    "%6 = const index 8\n"
    "%7 = range index (%6) {axis=0, sub=[0, 1], kind=warp, poll=true}\n"
    "%8 = range index (%6, %7) {axis=-1, sub=[], kind=group_reduce}\n"
    "%9 = after f32 (%1, %5, %8)\n"
    "%10 = index f32 (%9, %2)\n"
    "%11 = load f32 (%10)\n"
    "%12 = store void (%3, %11)\n"
    "%13 = end void (%12, %8, %7)\n"
    "%14 = atomic_add void (%3, %4)\n"
    "%15 = const bool true\n"
    "%16 = atomic_add void (%3, %4, %15) {inbounds=true}\n"
    "%17 = load f32 (%3, %4, %15)\n"
    "%18 = store void (%3, %17, %15)\n"
    "%19 = barrier void (%18)\n"
    "%20 = group void (%13, %14, %16, %19)\n"
    "%21 = sink void (%20)\n",
    /* dynamic local buffer, specials, shuffle, gated index, reduce */
    "tolk.uop 1\n"
    "%0 = buffer u8 {slot=0, space=local, dynamic=true}\n"
    "%1 = const bool false\n"
    "%2 = const index 32\n"
    "%3 = special index (%2) {name=\"lidx0\"}\n"
    "%4 = const index invalid\n"
    "%5 = where index (%1, %3, %4)\n"
    "%6 = index u8 (%0, %5)\n"
    "%7 = const u8 255\n"
    "%8 = const i32 1\n"
    "%9 = shuffle u8 (%7, %8)\n"
    "%10 = range index (%2) {axis=0}\n"
    "%11 = reduce u8 (%9, %10) {op=max}\n"
    "%12 = store void (%6, %11)\n"
    "%13 = sink void (%12) {name=\"\"}\n",
    /* program: vectors, loops, branches */
    "tolk.uop 1\n"
    "%0 = const index 4\n"
    "%1 = param f32 (%0) {slot=0}\n"
    "%2 = const index 0\n"
    "%3 = index f32 (%1, %2)\n"
    "%4 = load f32x4 (%3)\n"
    "%5 = index f32 (%4, %2)\n"
    "%6 = stack f32x4 (%5, %5, %5, %5)\n"
    "%7 = add f32x4 (%4, %6)\n"
    "%8 = cmplt boolx4 (%7, %6)\n"
    "%9 = if void (%8)\n"
    "%10 = store void (%3, %7, %8)\n"
    "%11 = endif void (%9)\n"
    "%12 = range index (%0) {axis=0}\n"
    "%13 = end void (%12)\n"
    "%14 = wmma f32x4 (%4, %6, %7) {dims=[2, 2, 2]}\n"
    "%15 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14) "
    "{name=\"p\"}\n",
    /* one of 32 threads' part of a matrix product */
    "tolk.uop 1\n"
    "%0 = const f16 0x1p+0\n"
    "%1 = stack f16x4 (%0, %0, %0, %0)\n"
    "%2 = stack f16x2 (%0, %0)\n"
    "%3 = const f32 0x1p+0\n"
    "%4 = stack f32x4 (%3, %3, %3, %3)\n"
    "%5 = wmma f32x4 (%1, %2, %4) {dims=[16, 8, 8], threads=32}\n",
    /* tensor stage */
    "tolk.uop 1\n"
    "%0 = const index 4\n"
    "%1 = param i32 {slot=2, name=\"n\", space=alu, min=-5, max=2147483647}\n"
    "%2 = cast index (%1)\n"
    "%3 = stack index (%0, %2)\n"
    "%4 = buffer f32 (%3) {slot=7, device=\"CPU\"}\n"
    "%5 = stack index (%2, %0)\n"
    "%6 = reshape f32 (%4, %5)\n"
    "%7 = permute f32 (%6) {order=[1, 0]}\n"
    "%8 = const index 0\n"
    "%9 = stack index (%8, %8)\n"
    "%10 = pad f32 (%7, %9, %5)\n"
    "%11 = shrink f32 (%10, %9, %3)\n"
    "%12 = flip f32 (%11) {axes=[0]}\n"
    "%13 = expand f32 (%12, %0)\n"
    "%14 = reduce f32 (%13) {op=mul, axes=1}\n"
    "%15 = contiguous f32 (%14)\n"
    "%16 = contiguous f32 (%15) {opts=\"x\"}\n"
    "%17 = stage f32 (%16) {space=local, removable=true, device=\"CPU\"}\n"
    "%18 = copy f32 (%17) {device=\"CPU:1\"}\n"
    "%19 = multi f32 (%18) {axis=1}\n"
    "%20 = mselect f32 (%19) {index=1}\n"
    "%21 = mstack f32 (%20, %18)\n"
    "%22 = allreduce f32 (%21) {op=add, device=\"CPU\"}\n"
    "%23 = slice f32 (%22, %8) {count=16}\n"
    "%24 = sink void (%23)\n"
    "%25 = linear void\n"
    "%26 = source void {text=\"a\\n\\\"b\\\\\\u0001\\t \xc3\xa9\xf0\x9f\x98\x80\"}\n"
    "%27 = binary u8 {bytes=\"00ff7f80\"}\n"
    "%28 = program void (%24, %25, %26, %27) {name=\"p\", target=\"x86-64\", global=[1, -2, 3], "
    "local=[], outs=[0], ins=[9223372036854775807, -9223372036854775808]}\n"
    "%29 = const i32 3\n"
    "%30 = bind i32 (%1, %29)\n"
    "%31 = call void (%28, %30) {name=\"c\"}\n"
    "%32 = noop void\n"
    "%33 = custom_function void (%31, %32) {name=\"graph\"}\n"
    "%34 = sink void (%33)\n",
};
enum { PRINTED = sizeof printed / sizeof *printed };

/* Every elementwise op of every dtype it takes, and every constant dtype. */
static void print_elementwise(tolk_graph *g, bool seen[TK_OP_COUNT]) {
    for (int op = 0; op < TK_OP_COUNT; op++) {
        const tk_op_info *info = tk_op_get((tk_op)op);
        if (!tk_op_is_alu((tk_op)op))
            continue;
        for (tolk_dtype dt = TOLK_INDEX; dt < TOLK_DTYPE_COUNT; dt++) {
            uint8_t dom = dt == TOLK_BOOL           ? TK_DOM_B
                          : tolk_dtype_is_float(dt) ? TK_DOM_F
                                                    : TK_DOM_I;
            if (!(info->dom & dom) || (op == TK_OP_THREEFRY && dt != TOLK_U64))
                continue;
            const tolk_uop *x = tk_uop_const(g, dt, 1), *y = tk_uop_const(g, dt, 0), *u;
            if (op == TK_OP_CAST || op == TK_OP_BITCAST)
                u = tk_uop(g, (tk_op)op, op == TK_OP_CAST ? TOLK_F16 : dt, &x, 1, NULL);
            else if (op == TK_OP_WHERE)
                u = tk_uop3(g, TK_OP_WHERE, tk_uop_const(g, TOLK_BOOL, 1), x, y);
            else if (info->cls == TK_CLASS_ALU1)
                u = tk_uop1(g, (tk_op)op, x);
            else if (info->cls == TK_CLASS_ALU2)
                u = tk_uop2(g, (tk_op)op, x, y);
            else
                u = tk_uop3(g, (tk_op)op, x, y, x);
            char *text = NULL;
            assert_int_equal(tolk_print(u, &text, NULL), TOLK_OK);
            assert_ptr_equal(check_printed(g, text), u);
            tk_strbuf_text_free(g->al, text);
            seen[op] = true;
        }
    }
}

static void test_round_trip_every_op_is_exact(void **state) {
    tolk_graph *g = *state;
    bool seen[TK_OP_COUNT] = {false};
    print_elementwise(g, seen);
    for (int i = 0; i < PRINTED; i++)
        check_printed(g, printed[i]);
    for (size_t i = 0; i < g->nodes.n; i++)
        seen[g->nodes.at[i]->op] = true;
    for (int op = 0; op < TK_OP_COUNT; op++)
        if (!seen[op])
            fail_msg("no text here has the op %s", tk_op_get((tk_op)op)->name);
}

/* Written by hand: any numbers, blanks, comments, CRLF, order of attributes, defaults spelled out.
 */
static void test_parse_free_form_is_the_same_graph(void **state) {
    tolk_graph *g = *state;
    const char *loose = "tolk.uop 1 stage=kernel ; a comment\r\n"
                        "\r\n"
                        "  ; the size\r\n"
                        "%1000000=const index 0x400;no blank needed\r\n"
                        "%7\t=\tparam f32(%1000000){name=\"y\",slot=0x0,space=global}\r\n"
                        "%0002 = param f32 ( %1000000 ) { device=\"CPU:1\" , axis = 0, slot = 1, "
                        "name = \"\\u0078\" }\r\n"
                        "%4 = range index (%1000000) {kind=global, axis=0, poll=false}\r\n"
                        "%5 = index f32 (%2, %4)\r\n"
                        "%18446744073709551615 = load f32 (%5) {inbounds=true}\r\n"
                        "%3 = const f32 3e0\r\n"
                        "%8 = mul f32 (%18446744073709551615, %3)\r\n"
                        "%9 = index f32 (%7, %4)\r\n"
                        "%10 = store void (%9, %8) {inbounds=true}\r\n"
                        "%11 = end void (%10, %4)\r\n"
                        "%12 = sink void (%11) {opts=\"UPCAST:0:4\", name=\"scale\"}";
    assert_ptr_equal(parse(g, loose), parse(g, printed[0]));
}

static void test_parse_stage_lets_only_its_ops_pass(void **state) {
    tolk_graph *g = *state;
    char text[4096];
    const struct {
        int printed;
        const char *stage, *refused;
    } rows[] = {{0, "kernel", NULL},
                {0, "program", "sink is not an op of the program stage"},
                {0, "tensor", "load is not an op of the tensor stage"},
                {3, "program", NULL},
                {3, "kernel", "if is not an op of the kernel stage"},
                {5, "tensor", NULL},
                {5, "kernel", "reshape is not an op of the kernel stage"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "tolk.uop 1 stage=%s%s", rows[i].stage,
                 printed[rows[i].printed] + strlen("tolk.uop 1"));
        const tolk_uop *root;
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = parse_n(g, text, strlen(text), TOLK_PARSE_TRUSTED, &root, &err);
        assert_int_equal(st, rows[i].refused ? TOLK_E_PARSE : TOLK_OK);
        if (rows[i].refused)
            assert_string_equal(err.msg, rows[i].refused);
    }
}

/* ---- what is refused ---- */

typedef struct refusal {
    const char *text;
    uint32_t line, column;
    const char *says; /* in the message */
    tolk_status code; /* 0: TOLK_E_PARSE */
} refusal;

#define HEAD "tolk.uop 1\n"
#define ONE HEAD "%0 = const index 1\n"
#define PARAM ONE "%1 = param f32 (%0) "
#define RANGE ONE "%1 = range index (%0) "
static const refusal refusals[] = {
    {"", 1, 1, "found no text", 0},
    {"\n", 1, 1, "expected the header \"tolk.uop 1\", found the end of the line", 0},
    {"hello\n", 1, 1, "expected the header \"tolk.uop 1\", found \"hello\"", 0},
    {"\xef\xbb\xbftolk.uop 1\n", 1, 1, "byte order mark", 0},
    {"tolk.uop 2\n", 1, 10, "expected version 1 after \"tolk.uop\", found \"2\"", 0},
    {"tolk.uop1\n", 1, 9, "expected version 1", 0},
    {"tolk.uop\n", 1, 9, "found the end of the line", 0},
    {"tolk.uop 1 x\n", 1, 12, "expected \"stage=\" or the end of the line, found \"x\"", 0},
    {"tolk.uop 1 stage=x\n", 1, 18, "expected tensor, kernel or program, found \"x\"", 0},
    {"tolk.uop 1 stage kernel\n", 1, 18, "expected \"=\" after \"stage\"", 0},
    {"tolk.uop 1 stage=kernel x\n", 1, 25, "expected the end of the line, found \"x\"", 0},
    {HEAD, 2, 1, "expected a node, found the end of the text", 0},
    {HEAD "; only this\n\n", 4, 1, "expected a node", 0},
    {"tolk.uop 1", 1, 11, "expected a node, found the end of the text", 0},
    {HEAD ";", 2, 2, "expected a node", 0},
    {HEAD "0 = const index 1\n", 2, 1, "expected a node, as %0 = ..., found \"0\"", 0},
    {HEAD "%x = const index 1\n", 2, 1, "found \"%x\"", 0},
    {HEAD "%-1 = const index 1\n", 2, 1, "expected a node", 0},
    {HEAD "%0 const index 1\n", 2, 4, "expected \"=\" after the number of a node", 0},
    {HEAD "%0 = \n", 2, 6, "expected an op, found the end of the line", 0},
    {HEAD "%0 = cosnt index 1\n", 2, 6, "there is no op \"cosnt\" (did you mean const?)", 0},
    {HEAD "%0 = CONST index 1\n", 2, 6, "there is no op \"CONST\"", 0},
    {HEAD "%0 = const\n", 2, 11, "expected a dtype, found the end of the line", 0},
    {HEAD "%0 = const int 1\n", 2, 12, "there is no dtype \"int\"", 0},
    {HEAD "%0 = const f32x3 1\n", 2, 12, "there is no dtype \"f32x3\" (did you mean f32?)", 0},
    {HEAD "%0 = const fp16 1\n", 2, 12, "there is no dtype \"fp16\" (did you mean f16?)", 0},
    {HEAD "%0 = const f23 1\n", 2, 12, "there is no dtype \"f23\" (did you mean f32?)", 0},
    {ONE "%1 = mull f32 (%0, %0)\n", 3, 6, "there is no op \"mull\" (did you mean mul?)", 0},
    {ONE "%1 = range index (%0) {axsi=0}\n", 3, 24,
     "range has no attribute \"axsi\": expected axis, sub, kind, poll (did you mean axis?)", 0},
    {HEAD "%0 = const f32x4 1\n", 2, 18, "const: dtype f32x4, expected a scalar one", 0},
    {HEAD "%0 = const void 1\n", 2, 17, "const: dtype void, expected a scalar one", 0},
    {HEAD "%0 = const index\n", 2, 17, "expected a literal of index, found the end", 0},
    {HEAD "%0 = const i32 1.5\n", 2, 16, "const: expected a literal of i32, found \"1.5\"", 0},
    {HEAD "%0 = const i32 2147483648\n", 2, 16, "\"2147483648\" is out of the range of i32", 0},
    {HEAD "%0 = const i64 9223372036854775808\n", 2, 16, "is out of the range of i64", 0},
    {HEAD "%0 = const f64 1e400\n", 2, 16, "is out of the range of f64", 0},
    {HEAD "%0 = const f32 --5\n", 2, 16, "found \"--5\"", 0},
    {HEAD "%0 = const f32 1e\n", 2, 16, "found \"1e\"", 0},
    {HEAD "%0 = const f32 \xe2\x88\x92 5\n", 2, 16, "found \"\xe2\x88\x92\"", 0},
    {HEAD "%0 = const i32 invalid\n", 2, 16, "invalid is of dtype index, not i32", 0},
    {HEAD "%0 = const i32 1 2\n", 2, 18, "expected the end of the line, found \"2\"", 0},
    {HEAD "%0 = const i32 1 {slot=0}\n", 2, 18, "expected the end of the line", 0},
    {ONE "%0 = const index 2\n", 3, 1, "\"%0\" is defined twice, before in line 2", 0},
    {ONE "%00 = const index 2\n", 3, 1, "\"%00\" is defined twice", 0},
    {ONE "%1 = neg index (%2)\n", 3, 17, "\"%2\" is used before it is defined", 0},
    {ONE "%1 = neg index (%1)\n", 3, 17, "\"%1\" is used before it is defined", 0},
    {ONE "%1 = neg index ()\n", 3, 17, "expected a source, as %3, found \")\"", 0},
    {ONE "%1 = neg index (%0\n", 3, 19, "expected \",\" or \")\" after a source, found the end", 0},
    {ONE "%1 = neg index (%0,)\n", 3, 20, "expected a source", 0},
    {ONE "%1 = neg index (0)\n", 3, 17, "expected a source, as %3, found \"0\"", 0},
    {ONE "%1 = neg index %0\n", 3, 16, "expected \"(\", \"{\" or the end of the line", 0},
    {ONE "%1 = neg index (%0) (%0)\n", 3, 21, "expected \"{\" or the end of the line", 0},
    {ONE "%1 = neg index (%0) {}\n", 3, 22, "expected the key of an attribute, found \"}\"", 0},
    {ONE "%1 = neg index (%0) {a=1}\n", 3, 22, "neg has no attribute \"a\"", 0},
    {ONE "%1 = neg index\n", 3, 6, "neg: 0 operands, expected 1", TOLK_E_VERIFY},
    {ONE "%1 = neg f32 (%0)\n", 3, 6, "neg: ", TOLK_E_DTYPE},
    {ONE "%1 = exp index (%0)\n", 3, 6, "exp: operand 0 is index, expected a float", TOLK_E_DTYPE},
    {PARAM "\n", 3, 6, "param: attribute \"slot\" is missing", 0},
    {PARAM "{slot=0, slot=0}\n", 3, 30, "attribute \"slot\" is given twice", 0},
    {PARAM "{slot}\n", 3, 26, "expected \"=\" after the key", 0},
    {PARAM "{slot=}\n", 3, 27, "expected an integer for slot, found \"}\"", 0},
    {PARAM "{slot=a}\n", 3, 27, "expected an integer for slot, found \"a\"", 0},
    {PARAM "{slot=9223372036854775808}\n", 3, 27, "slot: \"9223372036854775808\" does not fit", 0},
    {PARAM "{slot=0\n", 3, 28, "expected \",\" or \"}\" after an attribute", 0},
    {PARAM "{slot=0 name=\"x\"}\n", 3, 29, "expected \",\" or \"}\"", 0},
    {PARAM "{slot=0,}\n", 3, 29, "expected the key of an attribute", 0},
    {PARAM "{slot=-1}\n", 3, 6, "param: attribute slot is -1", TOLK_E_VERIFY},
    {PARAM "{slot=0, space=moon}\n", 3, 36,
     "expected for space one of global, local, reg, alu, found \"moon\"", 0},
    {PARAM "{slot=0, name=y}\n", 3, 35, "expected a string for name, found \"y\"", 0},
    {PARAM "{slot=0, name=\"y}\n", 3, 35, "the string has no closing quote", 0},
    {PARAM "{slot=0, name=\"\\q\"}\n", 3, 36, "\"\\q\" is no escape", 0},
    {PARAM "{slot=0, name=\"\\ud800\"}\n", 3, 36, "is no escape", 0},
    {PARAM "{slot=0, name=\"a\\\n", 3, 37, "is no escape", 0},
    {PARAM "{slot=0, name=\"\\u0000\"}\n", 3, 36, "cannot hold NUL", 0},
    {PARAM "{slot=0, name=\"a\tb\"}\n", 3, 37, "control character 0x09", 0},
    {RANGE "{axis=0, poll=1}\n", 3, 37, "expected for poll one of true, false, found \"1\"", 0},
    {RANGE "{axis=0, kind=loops}\n", 3, 37, "group_reduce, upcast, reduce, unroll, lane", 0},
    {RANGE "{axis=0, sub=1}\n", 3, 36,
     "expected a list of integers for sub, as [1, 2], found \"1\"", 0},
    {RANGE "{axis=0, sub=[1}\n", 3, 38, "expected \",\" or \"]\"", 0},
    {RANGE "{axis=0, sub=[1,]}\n", 3, 39, "expected an integer for sub", 0},
    {RANGE "{axis=0}\n%2 = const index 1\n", 3, 1, "not used: the root, in line 4", 0},
    {ONE "%1 = const index 2\n%2 = neg index (%1)\n", 2, 1, "this node is not used", 0},
    {HEAD "%0 = binary u8 {bytes=\"00\"}\n", 2, 6, "binary: machine code is accepted from", 0},
    {ONE "%1 = neg index (%0) \xff\n", 3, 21, "byte 0xff is not UTF-8", 0},
    {ONE "%1 = neg index (%0) ; \xc3\n", 3, 23, "byte 0xc3 is not UTF-8", 0},
    {ONE "%1 = neg\rindex (%0)\n", 3, 9, "control character 0x0d", 0},
    {ONE "%1 = neg index (%0) ; \x1b[31m\n", 3, 23, "control character 0x1b", 0},
    {ONE "%1 = neg index (%0)\r", 3, 20, "control character 0x0d", 0},
    {HEAD "%18446744073709551616 = const index 1\n", 2, 1, "does not fit 64 bits", TOLK_E_LIMIT},
    /* BIG-03: the number of elements */
    {HEAD "%0 = const index 9223372036854775807\n%1 = const index 2\n"
          "%2 = stack index (%0, %1)\n%3 = param u8 (%2) {slot=0}\n",
     5, 6, "too large", TOLK_E_LIMIT},
    {HEAD "%0 = const index 4294967296\n%2 = stack index (%0, %0)\n%3 = param u8 (%2) {slot=0}\n",
     4, 6, "too large", TOLK_E_LIMIT},
};

static void check_refused(tolk_graph *g, const refusal *r, size_t n) {
    const tolk_uop *marker = (const tolk_uop *)(const void *)r, *root = marker;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = parse_n(g, r->text, n, 0, &root, &err);
    if (st != (r->code ? r->code : TOLK_E_PARSE) || err.code != st || err.line != r->line ||
        err.column != r->column || !strstr(err.msg, r->says))
        fail_msg("%.400s\ngave %s %u:%u: %s\nexpected %s %u:%u: %s", r->text, tolk_status_name(st),
                 err.line, err.column, err.msg, tolk_status_name(r->code ? r->code : TOLK_E_PARSE),
                 r->line, r->column, r->says);
    assert_ptr_equal(root, marker);                       /* untouched */
    assert_int_equal(tolk_graph_error(g, NULL), TOLK_OK); /* the text's fault, not the graph's */
    assert_int_equal(tolk_parse(g, r->text, n, 0, &root, NULL), st); /* err may be NULL */
}

static void test_parse_wrong_text_names_the_place(void **state) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        check_refused(*state, &refusals[i], strlen(refusals[i].text));
    /* PARSE-03: a NUL byte */
    refusal nul = {ONE "%1 = neg index (%0)\0\n", 3, 20, "control character 0x00", 0};
    check_refused(*state, &nul, strlen(ONE) + 21);
}

static void test_BIG_03_legal_sizes_pass(void **state) {
    tolk_graph *g = *state;
    const tolk_uop *u = parse(g, HEAD "%0 = const index 65536\n%1 = stack index (%0, %0)\n"
                                      "%2 = param u8 (%1) {slot=0}\n");
    assert_int_equal(tolk_uop_op(u), TK_OP_PARAM);
    parse(g, HEAD "%0 = const index 1099511627776\n%1 = range index (%0) {axis=0}\n");
    /* No elements at all, whatever the other dimensions are. */
    parse(g, HEAD "%0 = const index 9223372036854775807\n%1 = const index 0\n"
                  "%2 = stack index (%0, %0, %1)\n%3 = param f64 (%2) {slot=0}\n");
}

/* ---- limits ---- */

static void test_PARSE_03_long_tokens_are_cut_in_messages(void **state) {
    enum { N = 1 << 20 };
    char *text = malloc(N + 100);
    assert_non_null(text);
    strcpy(text, HEAD "%0 = ");
    size_t at = strlen(text);
    memset(text + at, 'a', N);
    strcpy(text + at + N, " f32\n");
    refusal r = {text, 2, 6, "there is no op \"aaaa", 0};
    check_refused(*state, &r, strlen(text));
    strcpy(text, HEAD "%0 = param f32 {slot=0, name=\"");
    at = strlen(text);
    memset(text + at, 'a', N);
    text[at + N] = 0; /* not terminated */
    r = (refusal){text, 2, 30, "the string has no closing quote", 0};
    check_refused(*state, &r, strlen(text));
    strcpy(text + at + N, "\"}\n"); /* and terminated: a long name is a name */
    assert_int_equal(strlen(tk_uop_str(parse(*state, text), TK_A_PARAM_NAME)), N);
    /* A character of several bytes at the cut stays whole. */
    strcpy(text, HEAD "%0 = const f32 ");
    at = strlen(text);
    for (int i = 0; i < 100; i++)
        memcpy(text + at + 3 * i, "\xe2\x82\xac", 4);
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *root;
    assert_int_equal(parse_n(*state, text, strlen(text), 0, &root, &err), TOLK_E_PARSE);
    const char *dots = strstr(err.msg, "...\"");
    assert_non_null(dots);
    assert_memory_equal(dots - 3, "\xe2\x82\xac", 3);
    free(text);
}

static void test_parse_past_limits_is_E_LIMIT(void **state) {
    enum { LINE = 16 << 20, STRING = 2 << 20, LINES = 1 << 20 };
    char *text = malloc(64 << 20);
    assert_non_null(text);
    strcpy(text, HEAD);
    size_t at = strlen(text);
    memset(text + at, ' ', LINE + 1);
    text[at + LINE + 1] = 0;
    refusal r = {text, 2, 1, "a line of more than 16777216 bytes", TOLK_E_LIMIT};
    check_refused(*state, &r, strlen(text));
    strcpy(text, HEAD "%0 = param f32 {slot=0, name=\"");
    at = strlen(text);
    memset(text + at, 'a', STRING + 1);
    strcpy(text + at + STRING + 1, "\"}\n");
    r = (refusal){text, 2, 30, "name: a string of more than 2097152 bytes", TOLK_E_LIMIT};
    check_refused(*state, &r, strlen(text));
    strcpy(text, HEAD);
    at = strlen(text);
    for (int i = 0; i <= LINES; i++)
        at += (size_t)sprintf(text + at, "%%%d = const index %d\n", i, i & 1);
    r = (refusal){text, LINES + 2, 1, "more than 1048576 nodes", TOLK_E_LIMIT};
    check_refused(*state, &r, at);
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *root;
    assert_int_equal(tolk_parse(*state, text, (size_t)300 << 20, 0, &root, &err), TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "a text of 314572800 bytes"));
    free(text);
}

/* ---- depth: PARSE-01 ---- */

enum { DEEP = 100000 };

static void *deep_round_trip(void *arg) {
    tolk_graph *g = arg;
    char *text = malloc(64 * DEEP), *out = NULL;
    if (!text)
        return "no memory";
    size_t n = (size_t)sprintf(text, HEAD "%%0 = const i64 1\n"), len = 0;
    for (int i = 1; i < DEEP; i++)
        n += (size_t)sprintf(text + n, "%%%d = %s i64 (%%%d%s)\n", i, i % 2 ? "neg" : "add", i - 1,
                             i % 2 ? "" : ", %0");
    const tolk_uop *root, *again;
    const char *bad = NULL;
    if (tolk_parse(g, text, n, 0, &root, NULL) != TOLK_OK)
        bad = "parse";
    else if (tolk_print(root, &out, &len) != TOLK_OK || len != n || memcmp(out, text, n) != 0)
        bad = "print";
    else if (tolk_parse(g, out, len, 0, &again, NULL) != TOLK_OK || again != root)
        bad = "parse again";
    else if (!tolk_uop_key(root).lo && !tolk_uop_key(root).hi)
        bad = "key";
    tk_strbuf_text_free(g->al, out);
    free(text);
    return (void *)(uintptr_t)bad;
}

static void test_PARSE_01_deep_graph_on_a_small_stack(void **state) {
    const char *bad = tk_test_on_stack(512 << 10, deep_round_trip, *state);
    if (bad)
        fail_msg("%s", bad);
}

static void *nested_text(void *arg) {
    tolk_graph *g = arg;
    enum { N = 1000000 };
    char *text = malloc(N + 100);
    if (!text)
        return "no memory";
    static const char *const pieces[] = {"(", "[", "{", "-", "!", "\"\\", "%0 = neg f32 ("};
    const char *bad = NULL;
    for (size_t k = 0; !bad && k < sizeof pieces / sizeof *pieces; k++) {
        size_t n = (size_t)sprintf(text, HEAD "%%0 = const f32 "), len = strlen(pieces[k]);
        for (; n + len < N; n += len)
            memcpy(text + n, pieces[k], len);
        const tolk_uop *root;
        if (tolk_parse(g, text, n, 0, &root, NULL) != TOLK_E_PARSE)
            bad = pieces[k];
    }
    free(text);
    return (void *)(uintptr_t)bad;
}

static void test_PARSE_01_nested_brackets_are_refused(void **state) {
    const char *bad = tk_test_on_stack(256 << 10, nested_text, *state);
    if (bad)
        fail_msg("%s", bad);
}

/* ---- random graphs ---- */

static const tolk_uop *random_graph(tolk_graph *g, uint64_t *seed) {
    static const tolk_dtype dtypes[] = {TOLK_I64, TOLK_F32, TOLK_BF16, TOLK_U8, TOLK_F64};
    tolk_dtype dt = dtypes[tk_test_rand(seed) % 5];
    const tolk_uop *pool[64];
    size_t n = 0, want = 2 + tk_test_rand(seed) % 62;
    for (; n < want; n++) {
        uint64_t r = tk_test_rand(seed);
        if (n < 2 || r % 8 == 0)
            pool[n] = tk_uop_const(g, dt, tk_test_rand(seed));
        else if (r % 8 < 2)
            pool[n] = tk_uop1(g, TK_OP_NEG, pool[(r >> 8) % n]);
        else
            pool[n] = tk_uop2(g, r % 8 < 5 ? TK_OP_ADD : TK_OP_MAX, pool[(r >> 8) % n],
                              pool[(r >> 16) % n]);
    }
    return tk_uop(g, TK_OP_STACK, dt, pool, n, NULL);
}

static void test_round_trip_random_graphs(void **state) {
    uint64_t seed = tk_test_seed() + 4, n = tk_test_count(20000);
    for (uint64_t i = 0; i < n; i++) {
        tolk_graph *g;
        assert_int_equal(tolk_graph_create(((tolk_graph *)*state)->ctx, &g), TOLK_OK);
        const tolk_uop *u = random_graph(g, &seed);
        char *text = NULL;
        assert_int_equal(tolk_print(u, &text, NULL), TOLK_OK);
        assert_ptr_equal(check_printed(g, text), u);
        tk_strbuf_text_free(g->al, text);
        tolk_graph_destroy(g);
    }
}

/* ---- the locale: CG-11 ---- */

/* A locale with a decimal comma, made by localedef if none is installed. */
static bool comma_locale(char dir[64]) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8", "de_DE"};
    dir[0] = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i]))
            return *localeconv()->decimal_point == ',';
    strcpy(dir, "/tmp/tolk-locale-XXXXXX");
    if (!mkdtemp(dir))
        return false;
    char command[256];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null",
             dir);
    return system(command) == 0 && setenv("LOCPATH", dir, 1) == 0 &&
           setlocale(LC_ALL, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
}

static void test_CG_11_comma_locale_changes_nothing(void **state) {
    tolk_graph *g = *state;
    const char *text = HEAD "%0 = const f64 0.5\n%1 = const f64 1e-8\n%2 = add f64 (%0, %1)\n";
    const tolk_uop *before = parse(g, text);
    tolk_key key = tolk_uop_key(before);
    char dir[64], command[128];
    bool have = comma_locale(dir);
    char shown[16] = "", *out = NULL;
    const tolk_uop *after = NULL, *comma = NULL;
    tolk_status st = TOLK_OK, refused = TOLK_OK;
    if (have) {
        snprintf(shown, sizeof shown, "%.1f", 0.5);
        st = tolk_parse(g, text, strlen(text), 0, &after, NULL);
        static const char wrong[] = HEAD "%0 = const f64 0,5\n";
        refused = tolk_parse(g, wrong, strlen(wrong), 0, &comma, NULL);
        if (st == TOLK_OK)
            st = tolk_print(after, &out, NULL);
    }
    setlocale(LC_ALL, "C");
    if (dir[0]) {
        snprintf(command, sizeof command, "rm -rf %s", dir);
        assert_int_equal(system(command), 0);
    }
    if (!have) {
        printf("no locale with a decimal comma, and localedef makes none\n");
        skip();
    }
    assert_string_equal(shown, "0,5"); /* the locale was in force */
    assert_int_equal(st, TOLK_OK);
    assert_ptr_equal(after, before);
    assert_int_equal(refused, TOLK_E_PARSE);
    assert_string_equal(out, HEAD "%0 = const f64 0x1p-1\n%1 = const f64 0x1.5798ee2308c3ap-27\n"
                                  "%2 = add f64 (%0, %1)\n");
    tk_strbuf_text_free(g->al, out);
    tolk_key again = tolk_uop_key(after);
    assert_true(key.lo == again.lo && key.hi == again.hi);
}

/* ---- memory ---- */

static tolk_status parse_and_print(const tolk_allocator *al, void *user) {
    tolk_ctx *ctx = make_ctx(al);
    tolk_graph *g = NULL;
    (void)user;
    if (!ctx)
        return TOLK_E_NOMEM;
    tolk_status st = tolk_graph_create(ctx, &g);
    for (int i = 0; st == TOLK_OK && i < PRINTED; i++) {
        const tolk_uop *root;
        tolk_error err = TOLK_ERROR_INIT;
        char *text = NULL;
        st = tolk_parse(g, printed[i], strlen(printed[i]), TOLK_PARSE_TRUSTED, &root, &err);
        if (st == TOLK_OK)
            st = tolk_print(root, &text, NULL);
        tk_strbuf_text_free(g->al, text);
        if (st == TOLK_OK) {
            tk_key(root);
            st = tolk_graph_error(g, NULL);
        }
    }
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return st;
}

static void test_parse_and_print_without_memory_is_E_NOMEM(void **state) {
    (void)state;
    assert_true(tk_test_oom(parse_and_print, NULL) > 20);
}

static void test_null_arguments_and_unknown_flags(void **state) {
    (void)state;
    tolk_ctx *ctx;
    tolk_graph *g;
    const tolk_uop *root;
    char *text;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_param_info info;
    assert_int_equal(tk_ctx_init(&(tolk_ctx_opts)TOLK_CTX_OPTS_INIT, &ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, "tolk.uop 1\n", 11, 0, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_parse(NULL, "", 0, 0, &root, &err), TOLK_E_ARG);
    assert_int_equal(tolk_parse(g, NULL, 1, 0, &root, &err), TOLK_E_ARG);
    assert_int_equal(tolk_parse(g, "", 0, 2, &root, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "unknown flags 0x2"));
    assert_int_equal(tolk_print(NULL, &text, &len), TOLK_E_ARG);
    assert_int_equal(tolk_kernel_param_count(NULL), 0);
    assert_int_equal(tolk_kernel_param(NULL, 0, &info), TOLK_E_ARG);
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip_every_op_is_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parse_free_form_is_the_same_graph, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parse_stage_lets_only_its_ops_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parse_wrong_text_names_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_BIG_03_legal_sizes_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_PARSE_03_long_tokens_are_cut_in_messages, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_parse_past_limits_is_E_LIMIT, setup, teardown),
        cmocka_unit_test_setup_teardown(test_PARSE_01_deep_graph_on_a_small_stack, setup, teardown),
        cmocka_unit_test_setup_teardown(test_PARSE_01_nested_brackets_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip_random_graphs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_CG_11_comma_locale_changes_nothing, setup, teardown),
        cmocka_unit_test(test_null_arguments_and_unknown_flags),
        cmocka_unit_test(test_parse_and_print_without_memory_is_E_NOMEM),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
