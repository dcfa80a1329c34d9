/* SPDX-License-Identifier: MIT
 *
 * Making and passing on errors.
 */
#ifndef TK_BASE_STATUS_H
#define TK_BASE_STATUS_H

#include <tolk/base.h>

#include <assert.h>

#define TK_NO_NODE UINT32_MAX

/* A broken invariant, never a wrong input. */
#define TK_ASSERT(cond) assert(cond)

/* Forward a failure. */
#define TK_TRY(call)                                                                               \
    do {                                                                                           \
        tolk_status tk_try_status_ = (call);                                                       \
        if (tk_try_status_ != TOLK_OK)                                                             \
            return tk_try_status_;                                                                 \
    } while (0)

/* Make text one line of UTF-8, whatever a name, a variable or a path in it is: other bytes become
 * '?'. */
void tk_status_clean(char *text);
/* Fill *err (which may be NULL) and return code. The message is clean, and cut at a character. */
tolk_status tk_status_fail(tolk_error *err, tolk_status code, uint32_t node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same with a place in a text. */
tolk_status tk_status_fail_at(tolk_error *err, tolk_status code, uint32_t line, uint32_t column,
                              const char *fmt, ...) __attribute__((format(printf, 5, 6)));
tolk_status tk_status_nomem(tolk_error *err);

#endif
