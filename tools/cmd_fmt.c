/* SPDX-License-Identifier: MIT
 *
 * tolk-jit fmt: the canonical text of a file.
 */
#include "tool.h"

#include <string.h>

static int format_one(tolk_ctx *ctx, const char *path, int in_place, int check, int *differs) {
    tk_source source;
    int code = tk_source_load(ctx, path, &source);
    if (code)
        return code;
    char *text;
    size_t len;
    tolk_status st = tolk_print(source.root, &text, &len);
    if (st) {
        code = tk_report_error(path, st, NULL);
    } else {
        int same = len == source.len && !memcmp(text, source.text, len);
        if (check && !same) {
            printf("%s\n", path);
            *differs = 1;
        } else if (!check && !(in_place && same)) {
            code = tk_source_write(in_place ? path : NULL, text, len);
        }
        tolk_free_text(ctx, text);
    }
    tk_source_free(&source);
    return code;
}

int tk_cmd_fmt(int argc, char **argv) {
    static tk_list files;
    int in_place = 0, check = 0, differs = 0;
    const tk_flag flags[] = {
        {"-i", TK_FLAG_BOOL, &in_place},
        {"--check", TK_FLAG_BOOL, &check},
    };
    int code = tk_flags_read(argc, argv, flags, sizeof flags / sizeof *flags, &files, TK_LIST_MAX);
    if (!code && !files.n)
        code = tk_report_usage("fmt: expected a file");
    if (!code && files.n > 1 && !in_place && !check)
        code = tk_report_usage("fmt: several files: expected -i or --check");
    if (!code && in_place && check)
        code = tk_report_usage("fmt: -i and --check: expected one of them");
    for (size_t i = 0; i < files.n && !code; i++)
        if (in_place && !strcmp(files.item[i], "-"))
            code = tk_report_usage("fmt: -i with standard input: expected a file");
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    for (size_t i = 0; i < files.n; i++) {
        int one = format_one(ctx, files.item[i], in_place, check, &differs);
        if (one > code)
            code = one; /* go on with the others */
    }
    tolk_ctx_destroy(ctx);
    return code ? code : differs ? TOOL_FAILED : TOOL_DONE;
}
