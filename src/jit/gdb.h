/* SPDX-License-Identifier: MIT
 *
 * GDB's JIT compilation interface: an ELF file in memory for each kernel, in a list that GDB finds
 * by the names __jit_debug_descriptor and __jit_debug_register_code.
 *
 * Ref: GDB manual, "JIT Compilation Interface".
 */
#ifndef TK_JIT_GDB_H
#define TK_JIT_GDB_H

#include "jit/observe.h"

/* Called with the lock of observe.c. Without memory nothing is registered. */
void tk_gdb_add(tolk_ctx *ctx, tk_observed *o);
void tk_gdb_remove(tolk_ctx *ctx, tk_observed *o);

/* An entry of GDB's list, and the list, as GDB reads them. */
typedef struct tk_gdb_entry {
    struct tk_gdb_entry *next, *prev;
    const char *symfile;
    uint64_t symfile_bytes;
} tk_gdb_entry;
typedef struct tk_gdb_descriptor {
    uint32_t version, action; /* action: 0 none, 1 register, 2 unregister */
    tk_gdb_entry *relevant, *first;
} tk_gdb_descriptor;
const tk_gdb_descriptor *tk_gdb_list(void);

/* An ELF file that says: a function of that name is at these addresses. *out: text of
 * base/strbuf.h; NULL without memory. */
char *tk_gdb_elf(tolk_ctx *ctx, const tk_observed *o, size_t *len);

#endif
