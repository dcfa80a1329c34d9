/* SPDX-License-Identifier: MIT */
#include "ir/op.h"

#include <string.h>

enum { REQ = 0, M = TK_MANY };

const tk_attr_info tk_op_attrs[TK_A_COUNT] = {
/* A default is spelled REQ exactly when the attribute is required. */
/* clang-format off */
#define TK_ATTR(OP, KEY, key, kind, def)                                                           \
    [TK_A_##OP##_##KEY] = {TK_OP_##OP, key, TK_ATTR_##kind, sizeof(#def) == 4 && #def[0] == 'R',   \
                           def},
/* clang-format on */
#include "ir/ops.def"
};

/* How many attribute ids stand before each op, counted by the order of rows: both kinds of rows
 * share one running enum, in which an op's row number minus its ordinal is that count. */
enum {
#define TK_OP(NAME, ...) ROW_OP_##NAME,
#define TK_ATTR(OP, KEY, key, kind, def) ROW_ATTR_##OP##_##KEY,
#include "ir/ops.def"
    ROW_END
};

#define F TK_DOM_F
#define I TK_DOM_I
#define B TK_DOM_B
#define ANY TK_DOM_ANY
#define NONE TK_DOM_NONE
#define COMM TK_FLAG_COMM
#define ASSOC TK_FLAG_ASSOC
#define T TK_STAGE_T
#define K TK_STAGE_K
#define P TK_STAGE_P

static const tk_op_info infos[TK_OP_COUNT + 1] = {
/* clang-format off */
#define TK_OP(NAME, text, lo, hi, cls, dom, flags, result, stages)                                 \
    [TK_OP_##NAME] = {text,  lo, hi, TK_CLASS_##cls, dom, flags, TK_RESULT_##result, stages,       \
                      ROW_OP_##NAME - TK_OP_##NAME},
/* clang-format on */
#include "ir/ops.def"
    [TK_OP_COUNT] = {NULL, 0, 0, TK_CLASS_DEF, 0, 0, TK_RESULT_VOID, 0, TK_A_COUNT}};

#undef F
#undef I
#undef B
#undef T
#undef K
#undef P
#undef M

const tk_op_info *tk_op_get(tk_op op) {
    return &infos[op];
}

uint32_t tk_op_n_attr(tk_op op) {
    return (uint32_t)(infos[op + 1].attr_first - infos[op].attr_first);
}

bool tk_op_find(const char *name, size_t len, tk_op *out) {
    for (int op = 0; op < TK_OP_COUNT; op++)
        if (strlen(infos[op].name) == len && memcmp(infos[op].name, name, len) == 0) {
            *out = (tk_op)op;
            return true;
        }
    return false;
}

static const char *const space_names[] = {"global", "local", "reg", "alu", NULL};
static const char *const axis_names[] = {"loop",   "global",       "thread", "warp",
                                         "local",  "group_reduce", "upcast", "reduce",
                                         "unroll", "lane",         NULL};
static const char *const rop_names[] = {"add", "mul", "max", NULL};

static const char *const *names_of(tk_attr_kind kind) {
    return kind == TK_ATTR_SPACE ? space_names : kind == TK_ATTR_AXIS ? axis_names : rop_names;
}

const char *tk_op_enum_text(tk_attr_kind kind, int64_t value) {
    return names_of(kind)[value];
}

int64_t tk_op_enum_find(tk_attr_kind kind, const char *text, size_t len) {
    const char *const *names = names_of(kind);
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0)
            return i;
    return -1;
}

tk_op tk_op_of_rop(tk_rop rop) {
    return rop == TK_ROP_ADD ? TK_OP_ADD : rop == TK_ROP_MUL ? TK_OP_MUL : TK_OP_MAX;
}
