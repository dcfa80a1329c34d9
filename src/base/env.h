/* SPDX-License-Identifier: MIT
 *
 * The environment: the one place that reads it. A setuid process sees none of it.
 */
#ifndef TK_BASE_ENV_H
#define TK_BASE_ENV_H

#include "base/ctx.h"

/* Value of a variable, or NULL if unset, empty, or the context ignores the environment. */
const char *tk_env_get(const tolk_ctx *ctx, const char *name);
/* Value of a variable that another library of the process reads, whatever contexts do; NULL if
 * unset or empty. */
const char *tk_env_of_process(const char *name);
/* Integer value; fallback if unset or not a decimal number in [lo, hi] (a warning is logged). */
int64_t tk_env_int(tolk_ctx *ctx, const char *name, int64_t fallback, int64_t lo, int64_t hi);

#endif
