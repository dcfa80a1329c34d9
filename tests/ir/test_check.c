/* SPDX-License-Identifier: MIT
 *
 * The rules of one node: for each op what is accepted, and what is refused with which words.
 */
#include "support/tk_test.h"

#include "ir/check.h"
#include "ir/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands to choose from; rows below name them. */
enum { N_OPERANDS = 48 };
typedef struct palette {
    tolk_ctx *ctx;
    tolk_graph *g;
    struct {
        const char *name;
        const tolk_uop *u;
    } at[N_OPERANDS];
    size_t n;
} palette;

static const tolk_uop *put(palette *p, const char *name, const tolk_uop *u) {
    assert_non_null(u);
    assert_true(p->n < N_OPERANDS);
    p->at[p->n].name = name;
    p->at[p->n++].u = u;
    return u;
}

static const tolk_uop *operand(const palette *p, const char *name, size_t len) {
    for (size_t i = 0; i < p->n; i++)
        if (strlen(p->at[i].name) == len && memcmp(p->at[i].name, name, len) == 0)
            return p->at[i].u;
    print_error("no operand %.*s\n", (int)len, name);
    fail();
    return NULL;
}

static size_t operands(const palette *p, const char *text, const tolk_uop **src) {
    size_t n = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        src[n++] = operand(p, text, len);
        text += len + strspn(text + len, " ");
    }
    return n;
}

/* "slot=1 name=x axes=[0,1]" in table order; keys that are not named have their default. Returns
 * false if there is a key that the op has not. */
static void attributes(tolk_graph *g, tk_op op, const char *text, tk_attr *out) {
    uint32_t first = tk_op_get(op)->attr_first;
    for (uint32_t i = 0; i < tk_op_n_attr(op); i++) {
        const tk_attr_info *info = &tk_op_attrs[first + i];
        bool blob =
            info->kind == TK_ATTR_STR || info->kind == TK_ATTR_INTS || info->kind == TK_ATTR_BYTES;
        out[i] = blob ? (tk_attr){.blob = NULL} : (tk_attr){.i = info->def};
        char key[32];
        snprintf(key, sizeof key, "%s=", info->key);
        const char *at = strstr(text, key);
        if (!at)
            continue;
        at += strlen(key);
        size_t len = strcspn(at, " ");
        if (info->kind == TK_ATTR_INTS) {
            int64_t list[64];
            size_t n = 0;
            for (at++; *at != ']'; at += *at == ',')
                list[n++] = strtoll(at, (char **)&at, 10);
            out[i].blob = tk_blob_ints(g, list, n);
        } else if (blob) {
            out[i].blob = tk_blob_str(g, at, len);
        } else if (info->kind == TK_ATTR_INT || info->kind == TK_ATTR_BOOL ||
                   (*at >= '0' && *at <= '9')) {
            out[i].i = strtoll(at, NULL, 10);
        } else {
            out[i].i = tk_op_enum_find(info->kind, at, len);
        }
    }
}

static const tolk_uop *vec(palette *p, const tolk_uop *x, uint32_t lanes) {
    return tk_uop_splat(p->g, x, lanes);
}

static int setup(void **state) {
    palette *p = calloc(1, sizeof *p);
    assert_int_equal(tk_ctx_init(NULL, &p->ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(p->ctx, &p->g), TOLK_OK);
    tolk_graph *g = p->g;
    const tolk_uop *f = put(p, "f", tk_uop_const(g, TOLK_F32, 0));
    const tolk_uop *x = put(p, "x", tk_uop_index_const(g, 4));
    const tolk_uop *b = put(p, "b", tk_uop_const(g, TOLK_BOOL, 1));
    put(p, "d", tk_uop_const(g, TOLK_F64, 0));
    put(p, "i", tk_uop_const(g, TOLK_I32, 7));
    put(p, "u", tk_uop_const(g, TOLK_U32, 7));
    put(p, "l", tk_uop_const(g, TOLK_U64, 7));
    put(p, "h", tk_uop_const(g, TOLK_I8, 7));
    put(p, "x0", tk_uop_index_const(g, 0));
    put(p, "x1", tk_uop_index_const(g, 1));
    put(p, "xm", tk_uop_index_const(g, -1));
    put(p, "huge", tk_uop_index_const(g, INT64_MAX));
    put(p, "g32", tk_uop_index_const(g, (int64_t)1 << 32));
    put(p, "inv", tk_uop_invalid(g));
    put(p, "f4", vec(p, f, 4));
    put(p, "i4", vec(p, operand(p, "i", 1), 4));
    put(p, "u4", vec(p, operand(p, "u", 1), 4));
    put(p, "b4", vec(p, b, 4));
    put(p, "x4", vec(p, x, 4));
    const tolk_uop *xx[8] = {x, x, x, x, x, x, x, x};
    put(p, "s0", tk_uop(g, TK_OP_STACK, TOLK_INDEX, NULL, 0, NULL));
    put(p, "s1", tk_uop(g, TK_OP_STACK, TOLK_INDEX, xx, 1, NULL));
    put(p, "s2", tk_uop(g, TK_OP_STACK, TOLK_INDEX, xx, 2, NULL));
    const tolk_uop *nine[9] = {x, x, x, x, x, x, x, x, x};
    put(p, "s9", tk_uop(g, TK_OP_STACK, TOLK_INDEX, nine, 9, NULL));
    const tolk_uop *pair[2] = {x, operand(p, "xm", 2)};
    put(p, "sneg", tk_uop(g, TK_OP_STACK, TOLK_INDEX, pair, 2, NULL));
    pair[0] = operand(p, "huge", 4);
    pair[1] = tk_uop_index_const(g, 2);
    put(p, "sbig", tk_uop(g, TK_OP_STACK, TOLK_INDEX, pair, 2, NULL));
    pair[0] = pair[1] = operand(p, "g32", 3);
    put(p, "sg", tk_uop(g, TK_OP_STACK, TOLK_INDEX, pair, 2, NULL));
    pair[0] = pair[1] = tk_uop_index_const(g, 65536);
    put(p, "s64k", tk_uop(g, TK_OP_STACK, TOLK_INDEX, pair, 2, NULL));
    tk_attr a[7];
    attributes(g, TK_OP_PARAM, "slot=0", a);
    const tolk_uop *buf = put(p, "buf", tk_uop(g, TK_OP_PARAM, TOLK_F32, &x, 1, a));
    attributes(g, TK_OP_PARAM, "slot=1 space=alu min=1 max=10", a);
    put(p, "n", tk_uop(g, TK_OP_PARAM, TOLK_I32, NULL, 0, a));
    attributes(g, TK_OP_BUFFER, "slot=0 space=reg", a);
    const tolk_uop *reg =
        put(p, "reg4", tk_uop(g, TK_OP_BUFFER, tolk_dtype_vec(TOLK_F32, 4), &x, 1, a));
    const tolk_uop *r = put(p, "r", tk_uop_range(g, x, 0, TK_AXIS_LOOP));
    const tolk_uop *s[3] = {buf, r};
    const tolk_uop *place = put(p, "place", tk_uop(g, TK_OP_INDEX, TOLK_F32, s, 2, NULL));
    s[1] = operand(p, "x4", 2);
    put(p, "place4", tk_uop(g, TK_OP_INDEX, tolk_dtype_vec(TOLK_F32, 4), s, 2, NULL));
    s[0] = reg;
    s[1] = operand(p, "x0", 2);
    put(p, "regplace", tk_uop(g, TK_OP_INDEX, tolk_dtype_vec(TOLK_F32, 4), s, 2, NULL));
    s[0] = operand(p, "f4", 2);
    put(p, "lane", tk_uop(g, TK_OP_INDEX, TOLK_F32, s, 2, NULL));
    s[0] = place;
    s[1] = f;
    put(p, "e", tk_uop(g, TK_OP_STORE, TOLK_VOID, s, 2, NULL));
    put(p, "if", tk_uop(g, TK_OP_IF, TOLK_VOID, &b, 1, NULL));
    attributes(g, TK_OP_SINK, "name=k", a);
    put(p, "sink", tk_uop(g, TK_OP_SINK, TOLK_VOID, NULL, 0, a));
    put(p, "linear", tk_uop(g, TK_OP_LINEAR, TOLK_VOID, NULL, 0, NULL));
    attributes(g, TK_OP_SOURCE, "text=code", a);
    put(p, "source", tk_uop(g, TK_OP_SOURCE, TOLK_VOID, NULL, 0, a));
    const tolk_uop *four[4] = {f, f, f, f};
    put(p, "m4", tk_uop(g, TK_OP_STACK, TOLK_F32, four, 4, NULL));
    *state = p;
    return 0;
}

static int teardown(void **state) {
    palette *p = *state;
    tk_graph_destroy(p->g);
    tk_ctx_fini(p->ctx);
    free(p);
    return 0;
}

/* ---- one row a rule ---- */

typedef struct row {
    const char *op, *dtype, *operands, *attrs;
    const char *message; /* NULL: accepted */
    tolk_status status;
} row;

#define V TOLK_E_VERIFY
#define D TOLK_E_DTYPE
#define S TOLK_E_SHAPE
#define L TOLK_E_LIMIT
#define R TOLK_E_RANGE

/* clang-format off */
static const row rows[] = {
    {"const", "f32", "", "", NULL, 0},
    {"const", "f32x4", "", "", "const: the dtype is f32x4, expected a scalar", D},
    {"const", "void", "", "", "const: the dtype is void, expected that of a value", D},
    {"const", "i32", "f", "", "const: 1 operands, expected 0", V},

    {"param", "f32", "x", "slot=0", NULL, 0},
    {"param", "f32", "", "slot=0", NULL, 0},
    {"param", "bf16", "s2", "slot=3 name=x", NULL, 0},
    {"param", "u8", "s64k", "slot=0", NULL, 0},
    {"param", "f64", "", "slot=0 space=alu", NULL, 0},
    {"param", "i32", "", "slot=0 space=alu min=-3 max=3", NULL, 0},
    {"param", "u8", "", "slot=0 space=alu max=255", NULL, 0},
    {"param", "f32", "x", "slot=-1", "param: attribute slot is -1, expected at least 0", V},
    {"param", "f32", "f", "slot=0", "param: operand 0 is f32, expected index", D},
    {"param", "index", "x", "slot=0", "param: the dtype is index, which never lives in memory", D},
    {"param", "f32x4", "x", "slot=0", "param: the dtype is f32x4, expected a scalar", D},
    {"param", "f32", "x", "slot=0 space=alu", "param: a scalar param (space=alu) has a shape", S},
    {"param", "f32", "x", "slot=0 space=local", "param: space is local, expected global or alu", V},
    {"param", "f32", "x", "slot=0 space=7", "param: attribute space is 7, expected 0..3", V},
    {"param", "f32", "x", "slot=0 min=3", "param: min and max of a buffer, expected space=alu", V},
    {"param", "f32", "", "slot=0 space=alu min=3", "param: min and max of a f32 param, expected an integer dtype", V},
    {"param", "i8", "", "slot=0 space=alu max=128", "param: min=-9223372036854775808, max=128 do not fit i8", R},
    {"param", "u8", "", "slot=0 space=alu min=-1", "param: min=-1, max=9223372036854775807 do not fit u8", R},
    {"param", "i32", "", "slot=0 space=alu min=4 max=3", "param: min=4 is above max=3", R},
    {"param", "f32", "s0", "slot=0", "param: operand 0 is a stack of 0, expected no operand for rank 0 and one index scalar for rank 1", S},
    {"param", "f32", "s1", "slot=0", "param: operand 0 is a stack of 1, expected no operand for rank 0 and one index scalar for rank 1", S},
    {"param", "f32", "s9", "slot=0", "param: rank 9, at most 8", L},
    {"param", "f32", "xm", "slot=0", "param: dimension 0 is -1, expected at least 0", S},
    {"param", "f32", "sneg", "slot=0", "param: dimension 1 is -1, expected at least 0", S},
    {"param", "f32", "inv", "slot=0", "param: element 0 of operand 0 is no index scalar", S},
    {"param", "u8", "sbig", "slot=0", "param: too large: more than 2^63-1 bytes", L},
    {"param", "u8", "sg", "slot=0", "param: too large: more than 2^63-1 bytes", L},
    {"param", "f32", "huge", "slot=0", "param: too large: more than 2^63-1 bytes", L},
    {"param", "u8", "huge", "slot=0", NULL, 0},

    {"buffer", "f32", "x", "slot=0", NULL, 0},
    {"buffer", "f32", "s2", "slot=0 space=local", NULL, 0},
    {"buffer", "f32x8", "x", "slot=0 space=reg", NULL, 0},
    {"buffer", "index", "x", "slot=0 space=reg", NULL, 0},
    {"buffer", "f32", "", "slot=0 space=local dynamic=1", NULL, 0},
    {"buffer", "f32", "x", "slot=0 space=alu", "buffer: space is alu, expected global, local or reg", V},
    {"buffer", "f32x8", "x", "slot=0 space=local", "buffer: the dtype is f32x8, expected a scalar", D},
    {"buffer", "index", "x", "slot=0 space=local", "buffer: the dtype is index, which lives in space reg only", D},
    {"buffer", "void", "x", "slot=0", "buffer: the dtype is void, expected that of a value", D},
    {"buffer", "f32", "", "slot=0 dynamic=1", "buffer: dynamic, expected space=local", V},
    {"buffer", "f32", "x", "slot=0 space=local dynamic=1", "buffer: a dynamic buffer has a shape: each launch gives its size", S},
    {"buffer", "f32", "x", "slot=0 space=local dynamic=2", "buffer: attribute dynamic is 2, expected 0..1", V},
    {"buffer", "f32", "x", "slot=-1 space=reg", "buffer: attribute slot is -1, expected at least 0", V},
    {"buffer", "f64", "sg", "slot=0 space=local", "buffer: too large: more than 2^63-1 bytes", L},

    {"special", "index", "x", "name=gidx0", NULL, 0},
    {"special", "index", "x", "name=lidx2", NULL, 0},
    {"special", "index", "x", "name=idx1", NULL, 0},
    {"special", "index", "x", "name=span_end", NULL, 0},
    {"special", "index", "x", "name=gidx3", "special: name is \"gidx3\", expected gidx0..2, lidx0..2, idx0..2, span_begin or span_end", V},
    {"special", "index", "x", "", "special: attribute name is missing", V},
    {"special", "index", "i", "name=gidx0", "special: operand 0 is i32, expected index", D},
    {"special", "i32", "x", "name=gidx0", "special: the dtype is i32, expected index", D},

    {"range", "index", "x", "axis=0", NULL, 0},
    {"range", "index", "x r r", "axis=-1 kind=lane sub=[1,2] poll=1", NULL, 0},
    {"range", "index", "", "axis=0", "range: 0 operands, expected at least 1", V},
    {"range", "index", "f", "axis=0", "range: operand 0 is f32, expected index", D},
    {"range", "index", "s2", "axis=0", "range: operand 0 is a stack, expected an index scalar", V},
    {"range", "index", "inv", "axis=0", "range: operand 0 is invalid, expected an index scalar", V},
    {"range", "index", "x x", "axis=0", "range: operand 1 is const, expected a range", V},
    {"range", "index", "x", "axis=0 kind=10", "range: attribute kind is 10, expected 0..9", V},
    {"range", "i64", "x", "axis=0", "range: the dtype is i64, expected index", D},

    {"bind", "i32", "n i", "", NULL, 0},
    {"bind", "i32", "i i", "", "bind: operand 0 is const, expected a scalar param", V},
    {"bind", "i32", "n x", "", "bind: operand 1 is index, expected i32 (the dtype of operand 0)", D},
    {"noop", "void", "", "", NULL, 0},
    {"noop", "void", "f f", "", "noop: 2 operands, expected 0 to 1", V},

    {"cast", "i8", "f", "", NULL, 0},
    {"cast", "bool", "x", "", NULL, 0},
    {"cast", "f64x4", "f4", "", NULL, 0},
    {"cast", "void", "f", "", "cast: from f32 to void, expected equal lanes", D},
    {"cast", "f64x8", "f4", "", "cast: from f32x4 to f64x8, expected equal lanes", D},
    {"cast", "f32", "e", "", "cast: operand 0 is void, expected a value", D},
    {"bitcast", "i32", "f", "", NULL, 0},
    {"bitcast", "f64", "x", "", NULL, 0},
    {"bitcast", "i32x4", "f4", "", NULL, 0},
    {"bitcast", "i64", "f", "", "bitcast: from f32 to i64, expected equal widths", D},

    {"add", "f32", "f f", "", NULL, 0},
    {"add", "f32x4", "f4 f4", "", NULL, 0},
    {"add", "f32", "f i", "", "add: operand 1 is i32, expected f32 (the dtype of operand 0)", D},
    {"add", "f32x4", "f4 f", "", "add: operand 1 is f32, expected f32x4 (the dtype of operand 0)", D},
    {"add", "f64", "f f", "", "add: the dtype is f64, expected f32", D},
    {"add", "f32", "f f f", "", "add: 3 operands, expected 2", V},
    {"add", "f32", "f", "", "add: 1 operands, expected 2", V},
    {"shl", "i32", "i u", "", NULL, 0},
    {"shl", "i32", "i i", "", NULL, 0},
    {"shr", "i32x4", "i4 u4", "", NULL, 0},
    {"shl", "i8", "h h", "", NULL, 0},
    {"shl", "i8", "h i", "", "shl: operand 1 is i32, expected i8 or u32", D},
    {"shr", "i32x4", "i4 u", "", "shr: operand 1 is u32, expected i32x4 or u32x4", D},
    {"threefry", "u64", "l l", "", NULL, 0},
    {"threefry", "u32", "u u", "", "threefry: operand 0 is u32, expected u64", D},
    {"cmplt", "bool", "f f", "", NULL, 0},
    {"cmplt", "boolx4", "f4 f4", "", NULL, 0},
    {"cmplt", "f32", "f f", "", "cmplt: the dtype is f32, expected bool", D},
    {"cmpne", "bool", "f4 f4", "", "cmpne: the dtype is bool, expected boolx4", D},
    {"where", "f32", "b f f", "", NULL, 0},
    {"where", "index", "b x inv", "", NULL, 0},
    {"where", "f32x4", "b4 f4 f4", "", NULL, 0},
    {"where", "f32", "i f f", "", "where: operand 0 is i32, expected bool", D},
    {"where", "f32x4", "b f4 f4", "", "where: operand 0 is bool, expected boolx4", D},
    {"where", "f32", "b f d", "", "where: operand 2 is f64, expected f32 (the dtype of operand 1)", D},
    {"where", "void", "b e e", "", "where: operand 1 is void, expected a value", D},
    {"mulacc", "f32", "f f f", "", NULL, 0},
    {"mulacc", "f32", "f f d", "", "mulacc: operand 2 is f64, expected f32 (the dtype of operand 0)", D},

    {"stack", "index", "x x", "", NULL, 0},
    {"stack", "f32x4", "f f f f", "", NULL, 0},
    {"stack", "f32", "f f f", "", NULL, 0},
    {"stack", "f32x4", "f f f", "", "stack: 3 operands, expected 4 for f32x4", V},
    {"stack", "f32x4", "f f d f", "", "stack: operand 2 is f64, expected f32", D},
    {"stack", "void", "", "", "stack: the dtype is void, expected that of a value", D},
    {"stack", "index", "x inv", "", "stack: operand 1 is invalid, expected a value", V},

    {"index", "f32", "buf r", "", NULL, 0},
    {"index", "f32", "buf inv", "", NULL, 0},
    {"index", "f32x4", "buf x4", "", NULL, 0},
    {"index", "f32x4", "reg4 x0", "", NULL, 0},
    {"index", "f32", "f4 x0", "", NULL, 0},
    {"index", "f32", "buf i", "", "index: operand 1 is i32, expected index", D},
    {"index", "f64", "buf x", "", "index: the dtype is f64, expected f32", D},
    {"index", "f32", "buf x4", "", "index: the dtype is f32, expected f32x4", D},
    {"index", "f32x4", "buf x4 x", "", "index: operand 1 is indexx4, expected a scalar index", D},
    {"index", "f32x4", "reg4 x4", "", "index: operand 1 is indexx4, expected a scalar index", D},
    {"index", "f32", "f4 x", "", "index: the lane is no constant in 0..3", V},
    {"index", "f32", "f4 xm", "", "index: the lane is no constant in 0..3", V},
    {"index", "f32", "f4 r", "", "index: the lane is no constant in 0..3", V},
    {"index", "f32", "f4", "", "index: 1 operands, expected a vector and its lane", V},
    {"index", "i32", "n", "", "index: operand 0 is a scalar param, expected a buffer", V},
    {"index", "f32", "e x", "", "index: operand 0 is void, expected a value", D},

    {"shrink", "f32", "buf x0 x1", "", NULL, 0},
    {"shrink", "f32", "buf s2 x1", "", "shrink: 2 offsets and 1 sizes, expected one each per axis", S},
    {"load", "f32", "place", "", NULL, 0},
    {"load", "f32x8", "place", "", NULL, 0},
    {"load", "f32x4", "place4", "", NULL, 0},
    {"load", "f32", "place f b", "", NULL, 0},
    {"load", "f32x4", "place f4 b4", "inbounds=1", NULL, 0},
    {"load", "f32", "place f", "", "load: 2 operands, expected a place, or a place, alt and gate", V},
    {"load", "f32", "buf", "", "load: operand 0 is param, expected a place (index of a buffer)", V},
    {"load", "f32", "lane", "", "load: operand 0 is a lane of a vector, expected a place (index of a buffer)", V},
    {"load", "f64", "place", "", "load: the dtype is f64, but the place is of f32", D},
    {"load", "f32", "place4", "", "load: the dtype is f32, but the place is of f32x4", D},
    {"load", "f32", "place d b", "", "load: operand 1 is f64, expected f32 (the dtype of the load)", D},
    {"load", "f32", "place f f", "", "load: operand 2 is f32, expected bool (the gate)", D},
    {"load", "f32x4", "place f4 b", "", "load: operand 2 is bool, expected boolx4 (the gate)", D},
    {"load", "f32", "place", "inbounds=2", "load: attribute inbounds is 2, expected 0..1", V},
    {"store", "void", "place f", "", NULL, 0},
    {"store", "void", "place f4 b4", "", NULL, 0},
    {"store", "void", "regplace f4", "", NULL, 0},
    {"store", "void", "place4 f", "", "store: operand 1 is f32, expected f32x4 (the dtype of operand 0)", D},
    {"store", "void", "place i", "", "store: operand 1 is i32, expected f32 (the dtype of operand 0)", D},
    {"store", "void", "place f i", "", "store: operand 2 is i32, expected bool (the gate)", D},
    {"store", "void", "f4 f4", "", "store: operand 0 is stack, expected a place (index of a buffer)", V},
    {"store", "f32", "place f", "", "store: the dtype is f32, expected void", D},
    {"atomic_add", "void", "place f", "", NULL, 0},
    {"atomic_add", "void", "place f", "code=f16", "atomic_add: operand 1 is f32, expected u16 (what holds codes of f16)", D},
    {"atomic_add", "void", "place f", "code=f32", "atomic_add: code is \"f32\", expected f16, bf16, fp8e4m3 or fp8e5m2", D},
    {"atomic_add", "void", "place f", "code=", "atomic_add: code is \"\", expected f16, bf16, fp8e4m3 or fp8e5m2", D},
    {"atomic_add", "void", "f f", "", "atomic_add: operand 0 is const, expected a place (index of a buffer)", V},
    {"atomic_add", "void", "place b", "", "atomic_add: operand 1 is bool, expected an integer or a float", D},
    {"shuffle", "f32", "f i", "", NULL, 0},
    {"shuffle", "f32", "f f", "", "shuffle: operand 1 is f32, expected an integer scalar", D},
    {"wmma", "f32x4", "f4 f4 f4", "dims=[2,2,2]", NULL, 0},
    {"wmma", "f32", "m4 m4 m4", "dims=[2,2,2]", NULL, 0},
    {"wmma", "f32x4", "f4 f4 f4", "", "wmma: attribute dims is missing", V},
    {"wmma", "f32x4", "f4 f4 f4", "dims=[2,2]", "wmma: 2 dims, expected [m, n, k]", V},
    {"wmma", "f32x4", "f4 f4 f4", "dims=[2,0,2]", "wmma: dims[1] is 0, expected 1..1024", V},
    {"wmma", "f32x4", "f4 f4 f4", "dims=[2,2,2] threads=3", "wmma: threads is 3, expected 1 or 32", V},
    {"wmma", "f32x4", "f4 f4 f4", "dims=[2,2,4]", "wmma: operand 0 has 4 elements, expected 8 / 1", S},
    {"wmma", "f32x4", "f4 i4 f4", "dims=[2,2,2]", "wmma: operand 1 is i32x4, expected f32x4 (the dtype of operand 0)", D},
    {"wmma", "boolx4", "f4 f4 b4", "dims=[2,2,2]", "wmma: operand 2 is boolx4, expected a matrix of integers or floats", D},

    {"reduce", "f32", "f r", "op=add", NULL, 0},
    {"reduce", "f32", "f", "op=max axes=2", NULL, 0},
    {"reduce", "bool", "b r", "op=mul", NULL, 0},
    {"reduce", "f32", "f x", "op=add", "reduce: operand 1 is const, expected a range", V},
    {"reduce", "f32", "f r", "op=add axes=1", "reduce: both axes and ranges, expected one of them", V},
    {"reduce", "f32", "f", "op=add axes=-1", "reduce: axes is -1, expected 0..32", V},
    {"reduce", "f32x4", "f4 r", "op=add", "reduce: operand 0 is f32x4, expected a scalar", D},
    {"reduce", "void", "e r", "op=add", "reduce: operand 0 is void, expected a value", D},
    {"reduce", "f32", "f r", "op=5", "reduce: attribute op is 5, expected 0..2", V},
    {"after", "f32", "buf e r", "", NULL, 0},
    {"after", "f32", "buf x", "", NULL, 0},
    {"after", "void", "e e", "", "after: operand 0 is void, expected a value", D},
    {"group", "void", "e e", "", NULL, 0},
    {"group", "void", "e f", "", "group: operand 1 is f32, expected an effect (void)", D},
    {"barrier", "void", "e", "", NULL, 0},
    {"barrier", "void", "f", "", "barrier: operand 0 is f32, expected an effect (void)", D},
    {"end", "void", "e r", "", NULL, 0},
    {"end", "void", "r", "", NULL, 0},
    {"end", "void", "f r", "", "end: operand 0 is f32, expected an effect (void)", D},
    {"end", "void", "e x", "", "end: operand 1 is const, expected a range", V},
    {"if", "void", "b", "", NULL, 0},
    {"if", "void", "b4", "", NULL, 0},
    {"if", "void", "i", "", "if: operand 0 is i32, expected bool", D},
    {"endif", "void", "if", "", NULL, 0},
    {"endif", "void", "e", "", "endif: operand 0 is store, expected an if", V},
    {"sink", "void", "e", "name=k", NULL, 0},
    {"sink", "f32", "e", "name=k", "sink: the dtype is f32, expected void", D},
    {"linear", "void", "f e", "", NULL, 0},
    {"linear", "index", "f e", "", "linear: the dtype is index, expected void", D},

    {"reshape", "f32", "buf s2", "", NULL, 0},
    {"reshape", "f32", "buf", "", NULL, 0},
    {"reshape", "f32", "buf f", "", "reshape: operand 1 is f32, expected index", D},
    {"reshape", "f32", "buf xm", "", "reshape: dimension 0 is -1, expected at least 0", S},
    {"reshape", "f32x4", "f4 x", "", "reshape: operand 0 is f32x4, expected a tensor of scalars", D},
    {"permute", "f32", "buf", "order=[1,0]", NULL, 0},
    {"permute", "f32", "buf", "order=[1,1]", "permute: attribute order names axis 1 twice", S},
    {"permute", "f32", "buf", "order=[0,2]", "permute: attribute order names axis 2, expected 0..1", S},
    {"permute", "f32", "buf", "", "permute: attribute order is missing", V},
    {"expand", "f32", "f x", "", NULL, 0},
    {"expand", "f32", "f i", "", "expand: operand 1 is i32, expected index", D},
    {"pad", "f32", "buf x1 x", "", NULL, 0},
    {"pad", "f32", "buf x1 f", "", "pad: operand 2 is f32, expected index", D},
    {"pad", "f32", "buf xm x", "", "pad: dimension 0 is -1, expected at least 0", S},
    {"flip", "f32", "buf", "axes=[0]", NULL, 0},
    {"flip", "f32", "buf", "axes=[-1]", "flip: attribute axes names axis -1, expected 0..31", S},
    {"contiguous", "f32", "buf r", "", NULL, 0},
    {"contiguous", "f32", "buf x", "", "contiguous: operand 1 is const, expected a range", V},
    {"stage", "f32", "buf r", "space=local", NULL, 0},
    {"stage", "void", "e", "", "stage: operand 0 is void, expected a value", D},
    {"copy", "f32", "buf", "device=CPU", NULL, 0},
    {"copy", "f32", "buf", "", "copy: attribute device is missing", V},
    {"slice", "u8", "buf x", "count=3", NULL, 0},
    {"slice", "u8", "buf x", "count=-3", "slice: attribute count is -3, expected at least 0", V},
    {"slice", "u8", "buf i", "count=3", "slice: operand 1 is i32, expected index", D},
    {"multi", "f32", "buf", "axis=0", NULL, 0},
    {"multi", "f32", "buf", "axis=-1", "multi: attribute axis is -1, expected at least 0", V},
    {"mselect", "f32", "buf", "index=1", NULL, 0},
    {"mselect", "f32", "buf", "index=-1", "mselect: attribute index is -1, expected at least 0", V},
    {"mstack", "f32", "buf buf", "", NULL, 0},
    {"mstack", "f32", "buf i", "", "mstack: operand 1 is i32, expected f32 (the dtype of operand 0)", D},
    {"allreduce", "f32", "buf", "op=add", NULL, 0},
    {"allreduce", "f32x4", "f4", "op=add", "allreduce: operand 0 is f32x4, expected a tensor of scalars", D},
    {"call", "void", "sink buf", "", NULL, 0},
    {"call", "void", "", "", "call: 0 operands, expected at least 1", V},
    {"program", "void", "sink linear source", "name=k", NULL, 0},
    {"program", "void", "sink source", "name=k", NULL, 0},
    {"program", "void", "sink source linear", "name=k", "program: operand 2 is linear, expected binary", V},
    {"program", "void", "linear", "name=k", "program: operand 0 is linear, expected sink", V},
    {"program", "void", "sink buf", "name=k", "program: operand 1 is param, expected linear, source or binary", V},
    {"source", "void", "", "text=abc", NULL, 0},
    {"source", "void", "", "", "source: attribute text is missing", V},
    {"binary", "u8", "", "bytes=abc", NULL, 0},
    {"binary", "f32", "", "bytes=abc", "binary: the dtype is f32, expected u8", D},
    {"custom_function", "void", "buf f", "name=graph", NULL, 0},
    {"custom_function", "void", "buf", "", "custom_function: attribute name is missing", V},
};
/* clang-format on */

#undef V
#undef D
#undef S
#undef L
#undef R

static void test_check_rows_accept_and_refuse(void **state) {
    palette *p = *state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const row *r = &rows[k];
        tk_op op;
        tolk_dtype dtype;
        const tolk_uop *src[16];
        tk_attr attrs[8];
        assert_true(tk_op_find(r->op, strlen(r->op), &op));
        assert_true(tolk_dtype_parse(r->dtype, strlen(r->dtype), &dtype));
        size_t n = operands(p, r->operands, src);
        attributes(p->g, op, r->attrs, attrs);
        if (op == TK_OP_CONST)
            attrs[0].i = 0;
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = tk_check_node(p->g, op, dtype, src, n, attrs, &err);
        if (!r->message) {
            if (st != TOLK_OK)
                print_error("row %zu (%s): %s\n", k, r->op, err.msg);
            assert_int_equal(st, TOLK_OK);
            continue;
        }
        if (st == TOLK_OK)
            print_error("row %zu: accepted, expected \"%s\"\n", k, r->message);
        assert_int_not_equal(st, TOLK_OK);
        assert_string_equal(err.msg, r->message);
        assert_int_equal(st, r->status);
        assert_int_equal(err.code, r->status);
        assert_int_equal(tk_check_node(p->g, op, dtype, src, n, attrs, NULL), r->status);
    }
}

/* Each op has a row that it accepts and one that it refuses, except those that test_check_every_op_
 * follows_its_domain goes through. */
static void test_check_rows_cover_every_op(void **state) {
    (void)state;
    for (int op = 0; op < TK_OP_COUNT; op++) {
        if (tk_op_is_alu((tk_op)op))
            continue;
        int good = 0, bad = 0;
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (strcmp(rows[k].op, tk_op_get((tk_op)op)->name) == 0)
                rows[k].message ? bad++ : good++;
        if (!good || !bad)
            print_error("%s: %d accepted, %d refused\n", tk_op_get((tk_op)op)->name, good, bad);
        assert_true(good && bad);
    }
}

/* Which dtypes each elementwise op takes: I integers and index, F floats, B bool. */
static const struct {
    const char *op, *domain;
} domains[] = {
    {"exp", "F"},      {"exp2", "F"},     {"log", "F"},       {"log2", "F"},    {"sin", "F"},
    {"cos", "F"},      {"tanh", "F"},     {"erf", "F"},       {"sqrt", "F"},    {"reciprocal", "F"},
    {"neg", "IF"},     {"trunc", "F"},    {"add", "IFB"},     {"mul", "IFB"},   {"max", "IFB"},
    {"sub", "IF"},     {"fdiv", "F"},     {"pow", "F"},       {"cdiv", "I"},    {"cmod", "I"},
    {"floordiv", "I"}, {"floormod", "I"}, {"shl", "I"},       {"shr", "I"},     {"and", "IB"},
    {"or", "IB"},      {"xor", "IB"},     {"cmplt", "IFB"},   {"cmpne", "IFB"}, {"cmpeq", "IFB"},
    {"mulacc", "IF"},  {"cast", "IFB"},   {"bitcast", "IFB"}, {"where", "IFB"}, {"threefry", "U"},
};

static void test_check_every_op_follows_its_domain(void **state) {
    palette *p = *state;
    size_t n_alu = 0;
    for (int op = 0; op < TK_OP_COUNT; op++)
        n_alu += tk_op_is_alu((tk_op)op);
    assert_int_equal(n_alu, sizeof domains / sizeof *domains);
    for (size_t k = 0; k < sizeof domains / sizeof *domains; k++)
        for (tolk_dtype dt = TOLK_INDEX; dt < TOLK_DTYPE_COUNT; dt++)
            for (uint32_t lanes = 1; lanes <= 64; lanes *= 8) {
                tk_op op;
                assert_true(tk_op_find(domains[k].op, strlen(domains[k].op), &op));
                const tolk_uop *v = tk_uop_splat(p->g, tk_uop_const(p->g, dt, 0), lanes);
                const tolk_uop *cond = tk_uop_splat(p->g, tk_uop_const(p->g, TOLK_BOOL, 1), lanes);
                const tolk_uop *src[3] = {op == TK_OP_WHERE ? cond : v, v, v};
                uint32_t n = tk_op_get(op)->min_src;
                char kind = tolk_dtype_is_float(dt) ? 'F' : dt == TOLK_BOOL ? 'B' : 'I';
                bool want = strchr(domains[k].domain, kind) != NULL ||
                            (domains[k].domain[0] == 'U' && dt == TOLK_U64);
                tolk_dtype result = tk_uop_result_dtype(op, src, n, v->dtype);
                tolk_error err = TOLK_ERROR_INIT;
                tolk_status st = tk_check_node(p->g, op, result, src, n, NULL, &err);
                if ((st == TOLK_OK) != want)
                    print_error("%s of %s: %s\n", domains[k].op, tolk_dtype_name(dt), err.msg);
                assert_int_equal(st, want ? TOLK_OK : TOLK_E_DTYPE);
                /* The result is fixed by the operands. */
                if (want && tk_op_get(op)->result != TK_RESULT_GIVEN) {
                    tolk_dtype other = result == TOLK_F32 ? TOLK_F64 : TOLK_F32;
                    assert_int_equal(tk_check_node(p->g, op, other, src, n, NULL, NULL),
                                     TOLK_E_DTYPE);
                }
            }
}

static void test_check_operands_null_or_foreign_are_refused(void **state) {
    palette *p = *state;
    tolk_graph *other;
    assert_int_equal(tk_graph_create(p->ctx, &other), TOLK_OK);
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *src[2] = {operand(p, "f", 1), NULL};
    assert_int_equal(tk_check_node(p->g, TK_OP_ADD, TOLK_F32, src, 2, NULL, &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "add: operand 1 is NULL");
    src[1] = tk_uop_const(other, TOLK_F32, 0);
    assert_int_equal(tk_check_node(p->g, TK_OP_ADD, TOLK_F32, src, 2, NULL, &err), TOLK_E_ARG);
    assert_string_equal(err.msg, "add: operand 1 belongs to another graph");
    assert_int_equal(err.node, UINT32_MAX);
    tk_graph_destroy(other);
}

static void test_check_numbers_that_are_no_op_or_dtype_are_refused(void **state) {
    palette *p = *state;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_check_node(p->g, (tk_op)TK_OP_COUNT, TOLK_F32, NULL, 0, NULL, &err),
                     TOLK_E_ARG);
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, 0x55, NULL, 0, NULL, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "const: 0x55 is no dtype");
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, 7 << 8 | TOLK_F32, NULL, 0, NULL, &err),
                     TOLK_E_DTYPE);
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, 1 << 8, NULL, 0, NULL, &err), TOLK_E_DTYPE);
}

static void test_check_const_value_must_be_canonical(void **state) {
    palette *p = *state;
    tolk_error err = TOLK_ERROR_INIT;
    tk_attr v = {.i = 300};
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, TOLK_U8, NULL, 0, &v, &err), TOLK_E_RANGE);
    assert_string_equal(err.msg, "const: value 300 does not fit u8");
    v.i = -1;
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, TOLK_I8, NULL, 0, &v, &err), TOLK_OK);
    assert_int_equal(tk_check_node(p->g, TK_OP_CONST, TOLK_U64, NULL, 0, &v, &err), TOLK_OK);
}

static void test_check_missing_attributes_without_a_list_are_refused(void **state) {
    palette *p = *state;
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *x = operand(p, "x", 1);
    assert_int_equal(tk_check_node(p->g, TK_OP_RANGE, TOLK_INDEX, &x, 1, NULL, &err),
                     TOLK_E_VERIFY);
    assert_string_equal(err.msg, "range: attribute axis is missing");
}

static void test_check_many_operands_are_a_limit(void **state) {
    palette *p = *state;
    size_t n = TK_MANY + 1;
    const tolk_uop **src = malloc(n * sizeof *src);
    assert_non_null(src);
    for (size_t i = 0; i < n; i++)
        src[i] = operand(p, "f", 1);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_check_node(p->g, TK_OP_LINEAR, TOLK_VOID, src, n, NULL, &err),
                     TOLK_E_LIMIT);
    assert_string_equal(err.msg, "linear: 1048577 operands, at most 1048576");
    assert_int_equal(tk_check_node(p->g, TK_OP_LINEAR, TOLK_VOID, src, n - 1, NULL, &err), TOLK_OK);
    free(src);
}

static void test_check_bind_value_must_be_within_bounds(void **state) {
    palette *p = *state;
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *src[2] = {operand(p, "n", 1), tk_uop_const(p->g, TOLK_I32, 11)};
    assert_int_equal(tk_check_node(p->g, TK_OP_BIND, TOLK_I32, src, 2, NULL, &err), TOLK_E_RANGE);
    assert_string_equal(err.msg, "bind: value 11 is not within 1..10");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_rows_accept_and_refuse),
        cmocka_unit_test(test_check_rows_cover_every_op),
        cmocka_unit_test(test_check_every_op_follows_its_domain),
        cmocka_unit_test(test_check_operands_null_or_foreign_are_refused),
        cmocka_unit_test(test_check_numbers_that_are_no_op_or_dtype_are_refused),
        cmocka_unit_test(test_check_const_value_must_be_canonical),
        cmocka_unit_test(test_check_missing_attributes_without_a_list_are_refused),
        cmocka_unit_test(test_check_many_operands_are_a_limit),
        cmocka_unit_test(test_check_bind_value_must_be_within_bounds),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
