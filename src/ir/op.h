/* SPDX-License-Identifier: MIT
 *
 * Ops and their attributes: enumerators and tables made from ops.def.
 */
#ifndef TK_IR_OP_H
#define TK_IR_OP_H

#include <tolk/dtype.h>

#include <stdbool.h>

typedef enum tk_op {
#define TK_OP(NAME, ...) TK_OP_##NAME,
#include "ir/ops.def"
} tk_op;
enum {
    TK_OP_COUNT = TK_OP_CUSTOM_FUNCTION + 1,
    TK_MANY = 1 << 20 /* most sources of one node */
};

typedef enum tk_class {
    TK_CLASS_DEF,
    TK_CLASS_ALU1,
    TK_CLASS_ALU2,
    TK_CLASS_ALU3,
    TK_CLASS_MEM,
    TK_CLASS_CTRL,
    TK_CLASS_MOVE,
    TK_CLASS_GRAPH
} tk_class;

enum { TK_DOM_NONE = 0, TK_DOM_I = 1, TK_DOM_F = 2, TK_DOM_B = 4, TK_DOM_ANY = 7 };
enum { TK_FLAG_COMM = 1, TK_FLAG_ASSOC = 2 };
enum { TK_STAGE_T = 1, TK_STAGE_K = 2, TK_STAGE_P = 4 };

typedef enum tk_result {
    TK_RESULT_GIVEN,
    TK_RESULT_VOID,
    TK_RESULT_S0,
    TK_RESULT_S1,
    TK_RESULT_S2,
    TK_RESULT_BOOL,
    TK_RESULT_INDEX,
    TK_RESULT_U8
} tk_result;

typedef enum tk_space {
    TK_SPACE_GLOBAL, /* memory of the device */
    TK_SPACE_LOCAL,  /* shared by a work-group */
    TK_SPACE_REG,    /* private to one iteration: accumulators */
    TK_SPACE_ALU     /* a value, no memory: scalar params */
} tk_space;

/* Kinds of ranges. GLOBAL THREAD and LOCAL WARP iterations are unordered; the others run in order.
 * UPCAST and UNROLL are unrolled, LANE becomes the lanes of vectors. */
typedef enum tk_axis {
    TK_AXIS_LOOP,
    TK_AXIS_GLOBAL,
    TK_AXIS_THREAD,
    TK_AXIS_WARP,
    TK_AXIS_LOCAL,
    TK_AXIS_GROUP_REDUCE,
    TK_AXIS_UPCAST,
    TK_AXIS_REDUCE,
    TK_AXIS_UNROLL,
    TK_AXIS_LANE
} tk_axis;
enum { TK_AXIS_COUNT = TK_AXIS_LANE + 1 };

typedef enum tk_rop { TK_ROP_ADD, TK_ROP_MUL, TK_ROP_MAX } tk_rop;

typedef enum tk_attr_kind {
    TK_ATTR_INT,
    TK_ATTR_BOOL,
    TK_ATTR_STR,
    TK_ATTR_INTS,
    TK_ATTR_BYTES,
    TK_ATTR_SPACE,
    TK_ATTR_AXIS,
    TK_ATTR_ROP
} tk_attr_kind;

/* Ids of (op, key): TK_A_RANGE_AXIS ... */
typedef enum tk_attr_id {
#define TK_ATTR(OP, KEY, key, kind, def) TK_A_##OP##_##KEY,
#include "ir/ops.def"
} tk_attr_id;
enum { TK_A_COUNT = TK_A_CUSTOM_FUNCTION_NAME + 1 };

typedef struct tk_attr_info {
    tk_op op;
    const char *key;
    tk_attr_kind kind;
    bool required;
    int64_t def;
} tk_attr_info;

typedef struct tk_op_info {
    const char *name;
    uint32_t min_src, max_src;
    tk_class cls;
    uint8_t dom;
    uint8_t flags;
    tk_result result;
    uint8_t stages;
    uint16_t attr_first; /* ids of its attributes: [attr_first, attr_first of the next op) */
} tk_op_info;

extern const tk_attr_info tk_op_attrs[TK_A_COUNT];

const tk_op_info *tk_op_get(tk_op op);
/* Number of attributes of an op. */
uint32_t tk_op_n_attr(tk_op op);
/* Op by its text name; false if there is none. */
bool tk_op_find(const char *name, size_t len, tk_op *out);

static inline bool tk_op_is_alu(tk_op op) {
    tk_class c = tk_op_get(op)->cls;
    return c >= TK_CLASS_ALU1 && c <= TK_CLASS_ALU3;
}

/* Text of enum attributes, and back (-1: unknown). count: how many there are. */
const char *tk_op_enum_text(tk_attr_kind kind, int64_t value);
int64_t tk_op_enum_find(tk_attr_kind kind, const char *text, size_t len);

/* The reduction's elementwise op: ADD, MUL or MAX. */
tk_op tk_op_of_rop(tk_rop rop);

#endif
