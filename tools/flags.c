/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int unknown_flag(const char *command, const char *given, const tk_flag *flags, size_t n) {
    char known[512] = "";
    size_t len = 0;
    for (size_t i = 0; i < n && len < sizeof known; i++)
        len +=
            (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", flags[i].name);
    if (!n)
        return tk_report_usage("%s: unknown option %.100s: expected none", command, given);
    return tk_report_usage("%s: unknown option %.100s: expected %s", command, given, known);
}

static int set_value(const char *command, const tk_flag *flag, const char *value) {
    if (flag->kind == TK_FLAG_LIST) {
        tk_list *list = flag->to;
        if (list->n == TK_LIST_MAX)
            return tk_report_usage("%s: more than %d times %s", command, TK_LIST_MAX, flag->name);
        list->item[list->n++] = value;
        return TOOL_DONE;
    }
    if (flag->kind == TK_FLAG_TEXT) {
        const char **text = flag->to;
        if (*text)
            return tk_report_usage("%s: %s is given twice", command, flag->name);
        *text = value;
        return TOOL_DONE;
    }
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10), least = flag->kind == TK_FLAG_NUMBER;
    if (errno == ERANGE && v > 0)
        return tk_report_usage("%s: %s %.100s: expected a whole number up to %lld", command,
                               flag->name, value, LLONG_MAX);
    if (errno || end == value || *end || v < least)
        return tk_report_usage("%s: %s %.100s: expected a whole number from %lld up", command,
                               flag->name, value, least);
    *(int64_t *)flag->to = v;
    return TOOL_DONE;
}

int tk_flags_read(int argc, char **argv, const tk_flag *flags, size_t n_flags, tk_list *files,
                  size_t max_files) {
    const char *command = argv[1];
    int only_files = 0;
    files->n = 0; /* at the prompt it is used again */
    for (int i = 2; i < argc; i++) {
        const char *given = argv[i];
        if (!only_files && !strcmp(given, "--")) {
            only_files = 1;
            continue;
        }
        if (only_files || given[0] != '-' || !given[1]) {
            if (files->n == max_files)
                return max_files
                           ? tk_report_usage("%s: unexpected argument '%.100s' after '%.100s'",
                                             command, given, files->item[files->n - 1])
                           : tk_report_usage("%s: unexpected argument '%.100s': expected none",
                                             command, given);
            files->item[files->n++] = given;
            continue;
        }
        const char *eq = given[1] == '-' ? strchr(given, '=') : NULL;
        size_t len = eq ? (size_t)(eq - given) : strlen(given);
        size_t f = 0;
        while (f < n_flags && (strlen(flags[f].name) != len || memcmp(flags[f].name, given, len)))
            f++;
        if (f == n_flags)
            return unknown_flag(command, given, flags, n_flags);
        if (flags[f].kind == TK_FLAG_BOOL) {
            if (eq)
                return tk_report_usage("%s: %s takes no value, '%.100s' was given", command,
                                       flags[f].name, eq + 1);
            *(int *)flags[f].to = 1;
            continue;
        }
        const char *value = eq ? eq + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return tk_report_usage("%s: %s needs a value behind it", command, flags[f].name);
        int code = set_value(command, &flags[f], value);
        if (code)
            return code;
    }
    return TOOL_DONE;
}
