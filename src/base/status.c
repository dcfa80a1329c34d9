/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tolk_status_text(tolk_status status) {
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        TOLK_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *tolk_status_name(tolk_status status) {
    switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
    case name:                                                                                     \
        return #name;
        TOLK_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "TOLK_E_UNKNOWN";
}

static void fill(tolk_error *err, tolk_status code, uint32_t node, uint32_t line, uint32_t column,
                 const char *fmt, va_list ap) {
    if (!err)
        return;
    err->code = code;
    err->node = node;
    err->line = line;
    err->column = column;
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    if (n < 0)
        err->msg[0] = 0;
    if (n >= (int)sizeof err->msg) {
        size_t cut = sizeof err->msg - 1;
        while (cut > 0 && ((unsigned char)err->msg[cut - 1] & 0xc0) == 0x80)
            cut--;
        if (cut > 0 && ((unsigned char)err->msg[cut - 1] & 0x80))
            err->msg[cut - 1] = 0;
    }
}

tolk_status tk_status_fail(tolk_error *err, tolk_status code, uint32_t node, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, node, 0, 0, fmt, ap);
    va_end(ap);
    return code;
}

tolk_status tk_status_fail_at(tolk_error *err, tolk_status code, uint32_t line, uint32_t column,
                              const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fill(err, code, TK_NO_NODE, line, column, fmt, ap);
    va_end(ap);
    return code;
}

tolk_status tk_status_nomem(tolk_error *err) {
    return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE, "out of memory");
}
