/* SPDX-License-Identifier: MIT
 *
 * What the files verify*.c share; nobody else includes this.
 */
#ifndef TK_IR_VERIFY_PARTS_H
#define TK_IR_VERIFY_PARTS_H

#include "ir/check.h"
#include "ir/walk.h"

typedef struct tk_verify_cx {
    const tolk_uop *root; /* whole graph, for the names of nodes */
    const tolk_allocator *al;
    tolk_error *err;
} tk_verify_cx;

/* Fails with "%N op: ..." for node u, and with its place if the graph was read from a text. Walks
 * the graph to find N: only failures pay for it. */
tolk_status tk_verify_fail(const tk_verify_cx *cx, const tolk_uop *u, tolk_status code,
                           const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* "%N", for messages: N of the text if one text defined all nodes below the root, else as
 * tolk_print(root) numbers it. */
typedef struct tk_verify_name {
    char text[24];
} tk_verify_name;
tk_verify_name tk_verify_name_of(const tk_verify_cx *cx, const tolk_uop *u);
/* The node's own rules (check.h), and its op must be one of the stage (TK_STAGE_T, _K, _P). */
tolk_status tk_verify_node(const tk_verify_cx *cx, const tolk_uop *u, uint8_t stage);

/* What an AFTER of a tensor or kernel waits for: effects and ranges. */
tolk_status tk_verify_after(const tk_verify_cx *cx, const tolk_uop *u);

/* The params, buffers and specials that one kernel or program declares, and whether they agree. */
typedef struct tk_verify_defs {
    const tk_verify_cx *cx;
    tk_map slots, names; /* slot, or address of the name -> address of the PARAM */
    const tolk_uop *special[6][3];
    const tolk_uop *dynamic; /* the local buffer whose size each launch gives */
    /* At the tensor stage a variable is its name, whatever slot a kernel has it in. */
    bool variables_by_name;
} tk_verify_defs;

void tk_verify_defs_init(tk_verify_defs *d, const tk_verify_cx *cx);
void tk_verify_defs_fini(tk_verify_defs *d);
/* Take note of u, whatever it is. */
tolk_status tk_verify_defs_add(tk_verify_defs *d, const tolk_uop *u);

/* What a node stands for, where values, memory and places in memory must be told apart. */
typedef enum tk_verify_kind {
    TK_VERIFY_VALUE = 1,
    TK_VERIFY_EFFECT,
    TK_VERIFY_BUFFER,
    TK_VERIFY_PLACE,
    TK_VERIFY_INVALID, /* the constant itself */
    TK_VERIFY_GATED,   /* where(valid, i, invalid) */
    TK_VERIFY_STACK    /* several scalars: a shape, or a matrix */
} tk_verify_kind;

/* What stands between kernels: LINEAR of calls, CALL, SLICE, MSELECT; any other node is fine. */
tolk_status tk_verify_call(const tk_verify_cx *cx, const tolk_uop *u);

tolk_status tk_verify_kernel(const tk_verify_cx *cx, const tolk_uop *sink);
tolk_status tk_verify_program(const tk_verify_cx *cx, const tolk_uop *linear);

#endif
