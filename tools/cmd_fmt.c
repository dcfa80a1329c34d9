/* SPDX-License-Identifier: MIT
 *
 * tolk-jit fmt: the canonical text of a file.
 */
#include "tool.h"

#include <string.h>

typedef struct fmt_flags {
    int in_place, check, drop_comments, trusted;
} fmt_flags;

/* Line of the first comment of a text that could be parsed, 0 if it has none. */
static unsigned comment_line(const char *text, size_t len) {
    unsigned line = 1;
    int in_string = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            line++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (text[i] == '\\' && in_string)
            i++;
        else if (text[i] == ';' && !in_string)
            return line;
    }
    return 0;
}

static int format_one(tolk_ctx *ctx, const char *path, const fmt_flags *f, int *differs) {
    tk_source source;
    int code = tk_source_load(ctx, path, f->trusted, &source);
    if (code)
        return code;
    unsigned comment = f->in_place && !f->drop_comments ? comment_line(source.text, source.len) : 0;
    if (comment) {
        tk_source_free(&source);
        return tk_report_usage(
            "%.400s:%u: fmt -i would delete the comments, which have no place in "
            "the formatted text: expected --drop-comments with it",
            path, comment);
    }
    char *text;
    size_t len;
    tolk_status st = tolk_print(source.root, &text, &len);
    if (st) {
        code = tk_report_error(path, st, NULL);
    } else {
        int same = len == source.len && !memcmp(text, source.text, len);
        if (f->check && !same) {
            printf("%s\n", path);
            *differs = 1;
        } else if (!f->check && !(f->in_place && same)) {
            code = tk_source_write(f->in_place ? path : NULL, text, len);
        }
        tolk_free_text(ctx, text);
    }
    tk_source_free(&source);
    return code;
}

int tk_cmd_fmt(int argc, char **argv) {
    static tk_list files; /* large */
    fmt_flags f = {0};
    int differs = 0;
    const tk_flag flags[] = {
        {"-i", TK_FLAG_BOOL, &f.in_place},
        {"--check", TK_FLAG_BOOL, &f.check},
        {"--drop-comments", TK_FLAG_BOOL, &f.drop_comments},
        {"--trusted", TK_FLAG_BOOL, &f.trusted},
    };
    int code = tk_flags_read(argc, argv, flags, sizeof flags / sizeof *flags, &files, TK_LIST_MAX);
    if (!code && !files.n)
        code = tk_report_usage("fmt: expected a file");
    if (!code && files.n > 1 && !f.in_place && !f.check)
        code = tk_report_usage("fmt: several files: expected -i or --check");
    if (!code && f.in_place && f.check)
        code = tk_report_usage("fmt: -i and --check: expected one of them");
    if (!code && f.drop_comments && !f.in_place)
        code = tk_report_usage("fmt: --drop-comments without -i: expected both");
    for (size_t i = 0; i < files.n && !code; i++)
        if (f.in_place && !strcmp(files.item[i], "-"))
            code = tk_report_usage("fmt: -i with standard input: expected a file");
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    for (size_t i = 0; i < files.n; i++) {
        int one = format_one(ctx, files.item[i], &f, &differs);
        if (one > code)
            code = one; /* go on with the others */
    }
    tk_report_context_end(ctx);
    return code ? code : differs ? TOOL_FAILED : TOOL_DONE;
}
