/* SPDX-License-Identifier: MIT
 *
 * The C header of a kernel that was emitted as an object, for programs that link it without tolk.
 */
#ifndef TK_JIT_HEADER_H
#define TK_JIT_HEADER_H

#include "jit/meta.h"

enum { TK_HEADER_SYMBOL = 128 }; /* bytes of a symbol, its NUL included */

/* The function's name: `asked`, which must be an identifier of C that has no meaning in C, C++, the
 * C library or the header (jit/cname.h); NULL: "tolk_kernel_" and the kernel's name,
 * with '_' for what is in no identifier, and one behind it where libtolk has a function of that
 * name. Errors: TOLK_E_ARG. */
tolk_status tk_header_symbol(const char *asked, const char *kernel, char out[TK_HEADER_SYMBOL],
                             tolk_error *err);
/* Write the header: the function, sizes as inline functions of the scalars, an inline caller. C11
 * and C++17, of the C library's headers alone.
 *
 *   meta: of the kernel; its object is not looked at.   target: what its code runs on.
 * *out: text of base/strbuf.h. Errors: TOLK_E_UNSUPPORTED (a size is made of what is no integer
 * arithmetic), TOLK_E_NOMEM.
 */
tolk_status tk_header_write(tolk_ctx *ctx, const tk_meta_view *meta, const tk_target *target,
                            const char *symbol, char **out, size_t *len, tolk_error *err);

#endif
