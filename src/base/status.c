/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
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

void tk_status_clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p;) {
        unsigned n = *p < 0x80 ? 1 : *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2, k = 1;
        bool good = *p < 0x80 ? *p >= ' ' && *p != 127 : *p >= 0xc2 && *p <= 0xf4;
        while (good && k < n && (p[k] & 0xc0) == 0x80) /* stops at the end, too */
            k++;
        good = good && k == n;
        if (n > 2 && good) /* too long a form, a surrogate, above U+10FFFF */
            good = !((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
                     (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f));
        if (!good) {
            *p = '?';
            n = 1;
        }
        p += n;
    }
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
    /* A character that the end cut goes. */
    for (size_t cut = sizeof err->msg - 1; n >= (int)sizeof err->msg && cut > 0; cut--) {
        unsigned char c = (unsigned char)err->msg[cut - 1];
        if (c < 0x80)
            break;
        err->msg[cut - 1] = 0;
        if (c >= 0xc0)
            break;
    }
    tk_status_clean(err->msg);
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
