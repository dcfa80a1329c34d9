/* SPDX-License-Identifier: MIT
 *
 * The buffers and variables of a linear of calls, and what --arg, --out and --set call them. A
 * buffer is named by its slot ("3", or "buffer3" and "param3" where both exist), by its own name,
 * or by that of the kernel params it stands for where that is no other's.
 */
#ifndef TK_TOOLS_LINEAR_CELLS_H
#define TK_TOOLS_LINEAR_CELLS_H

#include "tool.h"

#include <string.h>

/* One BUFFER or PARAM. */
typedef struct tk_cell {
    const tolk_uop *node;
    char slot[24], full[32]; /* "3", "buffer3" */
    const char *name;        /* NULL: none, or several */
    int is_param, many_names;
    int is_loaded, is_stored, needs_input; /* needs_input: loaded before anything was stored */
    const tolk_uop *input;                 /* the node that is bound: of a param another one */
    tolk_dtype dtype;
    int rank;
    int64_t dims[TK_MAX_RANK + 1]; /* with the variables that are set */
    size_t n_parts;                /* on so many devices */
    size_t bytes, most_bytes;      /* of one of them: of these dimensions, of the largest ones */
    int rows_are_constant;         /* no dimension but the first depends on variables */
    tolk_buffer *one;
    tolk_multi *many;
    void *data;        /* of all parts; NULL: no --arg */
    size_t data_bytes; /* of one of them */
    const char *out;
} tk_cell;

/* A variable that a kernel has and its call does not bind. */
typedef struct tk_needed {
    tolk_param_info info;
    const char *kernel;
    int has_value;
} tk_needed;

typedef struct tk_cells {
    tk_cell *at; /* by slot */
    size_t n, cap;
    tk_needed *needed;
    size_t n_needed;
} tk_cells;

/* Those of all calls. TOOL_DONE or a code after a message; tk_cells_fini() it in any case. */
int tk_cells_init(tk_cells *all, const tolk_uop *linear);
void tk_cells_fini(tk_cells *all);
/* Cells whose names a text of `len` bytes is; *out is one of them. Full names come first. */
size_t tk_cells_match(const tk_cells *all, const char *text, size_t len, tk_cell **out);
/* The variable of that name, or NULL. */
tk_needed *tk_cells_variable(const tk_cells *all, const char *text, size_t len);
/* Which cell does NAME=VALUE of a flag mean? Else a message says which there are. */
int tk_cells_find(tk_cells *all, const char *flag, const char *text, tk_cell **out,
                  const char **value);
/* How a cell is shown: by its name, if that is its own. */
const char *tk_cells_shown(const tk_cells *all, const tk_cell *c);

/* An attribute of a node that is a number, or text (NULL: it has none). */
static inline int64_t tk_cells_number(const tolk_uop *u, const char *key) {
    tolk_attr a;
    return tolk_uop_attr(u, key, &a) ? a.i : 0;
}

static inline const char *tk_cells_text(const tolk_uop *u, const char *key) {
    tolk_attr a;
    return tolk_uop_attr(u, key, &a) ? a.s : NULL;
}

#endif
