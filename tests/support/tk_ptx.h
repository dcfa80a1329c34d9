/* SPDX-License-Identifier: MIT
 *
 * PTX as text: what has to be in it and what must never be, and the assembler of the CUDA toolkit,
 * where that is installed.
 */
#ifndef TK_PTX_H
#define TK_PTX_H

#include "support/tk_test.h"

#include "jit/target.h"

/* What is wrong with a kernel's PTX for a target, or NULL: another .version or .target; a token
 * that must never be there (.approx, .ftz, a call, an external symbol that is not shared memory); a
 * float operation without its rounding; an instruction that docs/ptx.md does not list. The text is
 * good until the next call. */
const char *tk_ptx_wrong(const char *text, const tk_target *target);

/* What must never be in a text, of a kernel or not: NULL, or the first of it as above. */
const char *tk_ptx_forbidden(const char *text);

/* Number of times that the mnemonic (all of it: "fma.rn.f32") stands in a text. */
unsigned tk_ptx_count(const char *text, const char *mnemonic);
/* Fails the test unless it stands there so many times. */
void tk_ptx_stands(const char *text, const char *mnemonic, unsigned want);

/* Path of ptxas, or NULL if there is none: TOLK_PTXAS, the PATH, the toolkit's usual folder. */
const char *tk_ptx_assembler(void);

/* Kernels of one target, assembled by ptxas some hundred at a time. */
typedef struct tk_ptx_module {
    tk_target target;
    char *text;
    size_t len, room;
    unsigned kernels, assembled;
} tk_ptx_module;

void tk_ptx_module_init(tk_ptx_module *m, const tk_target *target);
/* Add a kernel's PTX, under a name of its own. Fails the test if a full module is not accepted. */
void tk_ptx_module_add(tk_ptx_module *m, const char *text);
/* Assemble what is left. */
void tk_ptx_module_fini(tk_ptx_module *m);
/* Fails the test if something is wrong with a kernel's PTX, or the assembler does not take it. */
void tk_ptx_check(const char *text, const tk_target *target);

#endif
