/* SPDX-License-Identifier: MIT
 *
 * Who gets the linears of a thread in place of running them. Each thread of a context has a stack
 * of such hooks of its own: what other threads run meanwhile is none of a capture's business.
 */
#ifndef TK_SCHEDULE_CAPTURE_H
#define TK_SCHEDULE_CAPTURE_H

#include "base/ctx.h"
#include "base/status.h"

#include <stdbool.h>

/* Who it is, and what it is called with. */
typedef struct tk_capture {
    /* what: what was handed over, which only the hook and who calls it know. */
    tolk_status (*hook)(const struct tk_capture *c, const void *what, tolk_error *err);
    void (*callee)(void); /* the hook's: a function, or NULL */
    void *user;
} tk_capture;

/* Made with the context. Errors: TOLK_E_NOMEM. */
tolk_status tk_capture_create(tolk_ctx *ctx, tolk_error *err);
/* From now on it is the innermost one of this thread. Errors: TOLK_E_NOMEM. Threads: any. */
tolk_status tk_capture_push(tolk_ctx *ctx, const tk_capture *capture, tolk_error *err);
/* Take the innermost one of this thread away. Errors: TOLK_E_NOT_FOUND. */
tolk_status tk_capture_pop(tolk_ctx *ctx, tolk_error *err);
/* The innermost one of this thread; false: there is none. Takes a lock only where some thread has
 * one. */
bool tk_capture_find(tolk_ctx *ctx, tk_capture *out);

#endif
