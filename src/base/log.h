/* SPDX-License-Identifier: MIT
 *
 * Messages to the context's log callback.
 */
#ifndef TK_BASE_LOG_H
#define TK_BASE_LOG_H

#include "base/ctx.h"

/* One message. Errors and warnings always, info at TOLK_DEBUG>=1, debug at TOLK_DEBUG>=2. */
void tk_log(tolk_ctx *ctx, tolk_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Keep a long text as what tolk_last_log() returns. Copies it; silently drops it without memory. */
void tk_log_keep(tolk_ctx *ctx, const char *text, size_t len);
/* The default callback. */
void tk_log_stderr(void *user, tolk_log_level level, const char *text);

#endif
