/* SPDX-License-Identifier: MIT
 *
 * Loading the objects that this library makes, without LLVM: what a program from the disk cache or
 * from a file needs. They are a small part of ELF64 (.text, .rodata, relocations between them, no
 * symbol from elsewhere); anything else is refused, and nothing in an object is believed.
 */
#ifndef TK_CPU_OBJECT_H
#define TK_CPU_OBJECT_H

#include "jit/code.h"

/* Would tk_cpu_object_load load it? Only what the system may refuse then is left out. Any bytes.
 * *bytes: of code memory it would take; may be NULL.
 * Errors: TOLK_E_UNSUPPORTED: what is not as it must be. */
tolk_status tk_cpu_object_check(const void *object, size_t len, const char *symbol, size_t *bytes,
                                tolk_error *err);
/* Load an object into code memory; *entry is the address of the function `symbol`.
 * Owner: tk_code_unlink. Errors: of tk_cpu_object_check; TOLK_E_NOMEM. Threads: any. */
tolk_status tk_cpu_object_load(tolk_ctx *ctx, const void *object, size_t len, const char *symbol,
                               tk_code_linked **out, void **entry, tolk_error *err);

#endif
