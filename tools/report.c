/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* Text of files and of the command line ends up here: it must not break the line nor drive the
 * terminal. Bytes from 0x80 up are left alone, they may be UTF-8. */
static void print_line(const char *text) {
    fputs("tolk-jit: ", stderr);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        fputc(*p < ' ' || *p == 127 ? '?' : *p, stderr);
    fputc('\n', stderr);
}

static volatile sig_atomic_t json_errors; /* a signal handler reads it */

void tk_report_json(int on) {
    json_errors = on;
}

/* The same for programs, on stdout. */
static void print_error(int code, tolk_status status, const char *file, const tolk_error *err,
                        const char *msg) {
    if (!json_errors)
        return;
    printf("{\"error\": {\"exit\": %d, \"status\": \"%s\", \"message\": ", code,
           tolk_status_name(status));
    tk_json_string(stdout, msg);
    printf(", \"file\": ");
    if (file)
        tk_json_string(stdout, file);
    else
        printf("null");
    if (err && err->line)
        printf(", \"line\": %u, \"column\": %u}}\n", err->line, err->column);
    else
        printf(", \"line\": null, \"column\": null}}\n");
}

int tk_report_usage(const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    print_line(line);
    print_error(TOOL_USAGE, TOLK_E_ARG, NULL, NULL, line);
    return TOOL_USAGE;
}

int tk_report_failed(const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    print_line(line);
    print_error(TOOL_FAILED, TOLK_E_IO, NULL, NULL, line);
    return TOOL_FAILED;
}

/* Whose fault is it: the input's, or of the work itself? */
static int code_of(tolk_status status) {
    switch (status) {
    case TOLK_OK:
        return TOOL_DONE;
    case TOLK_E_ARG:
    case TOLK_E_DTYPE:
    case TOLK_E_SHAPE:
    case TOLK_E_PARSE:
    case TOLK_E_VERIFY:
    case TOLK_E_LIMIT:
    case TOLK_E_ALIAS:
    case TOLK_E_LAUNCH:
    case TOLK_E_NO_DEVICE:
    case TOLK_E_UNBOUND:
    case TOLK_E_NOT_FOUND:
        return TOOL_USAGE;
    case TOLK_E_CANCELLED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

static int report(int code, const char *file, tolk_status status, const tolk_error *err) {
    char line[1024];
    int n = 0;
    const char *msg = err && err->msg[0] ? err->msg : tolk_status_text(status);
    if (file)
        n += snprintf(line + n, sizeof line - (size_t)n, "%.400s:", file);
    if (err && err->line)
        n += snprintf(line + n, sizeof line - (size_t)n, "%u:%u:", err->line, err->column);
    if (code == TOOL_INTERRUPTED && !tk_interrupt_tell())
        return code;
    n += snprintf(line + n, sizeof line - (size_t)n, n ? " %s" : "%s", msg);
    if (err && !err->line && err->node != UINT32_MAX && !strstr(msg, "%"))
        snprintf(line + n, sizeof line - (size_t)n, " (node %%%u as `tolk-jit fmt` numbers it)",
                 err->node);
    print_line(line);
    print_error(code, status, file, err, msg);
    if (code == TOOL_INTERRUPTED)
        tk_interrupt_told();
    return code;
}

int tk_report_error(const char *file, tolk_status status, const tolk_error *err) {
    return report(code_of(status), file, status, err);
}

int tk_report_input(const char *file, tolk_status status, const tolk_error *err) {
    return report(status == TOLK_E_RANGE ? TOOL_USAGE : code_of(status), file, status, err);
}

static void put(int fd, const char *text) {
    ssize_t n = write(fd, text, strlen(text));
    (void)n; /* a handler can do no more */
}

void tk_report_interrupted_in_handler(void) {
    put(STDERR_FILENO, "tolk-jit: interrupted\n");
    if (json_errors)
        put(STDOUT_FILENO,
            "{\"error\": {\"exit\": 130, \"status\": \"TOLK_E_CANCELLED\", \"message\": "
            "\"interrupted\", \"file\": null, \"line\": null, \"column\": null}}\n");
}

int tk_report_interrupted(void) {
    fflush(stdout); /* what was printed comes first */
    if (tk_interrupt_tell()) {
        tk_report_interrupted_in_handler();
        tk_interrupt_told();
    }
    return TOOL_INTERRUPTED;
}

tolk_ctx *tk_report_context(void) {
    tolk_ctx *ctx = tk_session_context();
    if (ctx)
        return ctx;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_ctx_create(NULL, &ctx, &err);
    if (!st)
        return ctx;
    tk_report_error(NULL, st, &err);
    return NULL;
}

void tk_report_context_end(tolk_ctx *ctx) {
    if (ctx != tk_session_context())
        tolk_ctx_destroy(ctx);
}
