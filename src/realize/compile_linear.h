/* SPDX-License-Identifier: MIT
 *
 * From kernels in a linear to programs.
 */
#ifndef TK_REALIZE_COMPILE_LINEAR_H
#define TK_REALIZE_COMPILE_LINEAR_H

#include "realize/linear.h"

/* The first call of a linear, or of one in it, whose body is a kernel; NULL: there is none. Errors:
 * TOLK_E_NOMEM. */
tolk_status tk_compile_linear_find(const tolk_linear *linear, const tolk_uop **call,
                                   tolk_error *err);
/* NULL becomes the defaults. Errors: TOLK_E_ARG. */
tolk_status tk_compile_linear_opts(const tolk_realize_opts **opts, tolk_error *err);
/* A node of op PROGRAM with the code in it; NULL: it has none. */
const tolk_uop *tk_compile_linear_binary(const tolk_uop *program);

#endif
