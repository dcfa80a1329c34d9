/* SPDX-License-Identifier: MIT
 *
 * tolk-jit emit: one form of a kernel on its way to machine code.
 */
#include "compile_flags.h"
#include "tool.h"

#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    tolk_emit_kind kind;
} kinds[] = {
    {"uop", TOLK_EMIT_UOP},       {"opt", TOLK_EMIT_OPT}, {"program", TOLK_EMIT_PROGRAM},
    {"llvm", TOLK_EMIT_LLVM},     {"asm", TOLK_EMIT_ASM}, {"obj", TOLK_EMIT_OBJ},
    {"header", TOLK_EMIT_HEADER}, {"ptx", TOLK_EMIT_PTX},
};

static int find_kind(const char *name, tolk_emit_kind *out) {
    static const char *const known = "uop, opt, program, llvm, asm, obj, header or ptx";
    if (!name)
        return tk_report_usage("emit: expected --emit=KIND with one of %s", known);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) {
            *out = kinds[i].kind;
            return TOOL_DONE;
        }
    return tk_report_usage("emit: --emit=%.100s: expected %s", name, known);
}

static int emit_to(tolk_ctx *ctx, const char *file, const tolk_uop *kernel,
                   const tolk_compile_opts *opts, tolk_emit_kind kind, const char *out) {
    tolk_error err = TOLK_ERROR_INIT;
    char *text;
    size_t len;
    tolk_status st = tolk_emit(ctx, kernel, opts, kind, &text, &len, &err);
    if (st)
        return tk_report_input(file, st, &err);
    int code = tk_source_write(out, text, len);
    tolk_free_text(ctx, text);
    return code;
}

/* The form, and whether the other flags go with it. name NULL: none was named. */
static int read_kind(const char *name, const char *header, const char *out, tolk_emit_kind *kind) {
    int code = find_kind(name, kind);
    if (!code && header && *kind != TOLK_EMIT_OBJ && *kind != TOLK_EMIT_ASM)
        code = tk_report_usage("emit: --header: expected --emit=obj or --emit=asm with it "
                               "(--emit=header makes the header alone)");
    if (!code && header && tk_source_same_output(header, out))
        code = tk_report_usage("emit: --header %.300s: the other output goes there, too: expected "
                               "another file%s",
                               header, out ? "" : ", or -o FILE");
    if (!code && *kind == TOLK_EMIT_OBJ && !out && isatty(STDOUT_FILENO))
        code = tk_report_usage("emit: an object is binary: expected -o FILE or a pipe");
    return code;
}

int tk_cmd_emit(int argc, char **argv) {
    static tk_list files; /* large */
    tk_compile_flags compile = {0};
    const char *kind_name = NULL, *kernel_name = NULL, *out = NULL, *header = NULL;
    const tk_flag flags[] = {
        {"--emit", TK_FLAG_TEXT, &kind_name},        {"--kernel", TK_FLAG_TEXT, &kernel_name},
        {"--target", TK_FLAG_TEXT, &compile.target}, {"--opts", TK_FLAG_TEXT, &compile.opts},
        {"--bounds", TK_FLAG_TEXT, &compile.bounds}, {"--strict", TK_FLAG_BOOL, &compile.strict},
        {"--tier", TK_FLAG_TEXT, &compile.tier},     {"--symbol", TK_FLAG_TEXT, &compile.symbol},
        {"--header", TK_FLAG_TEXT, &header},         {"-o", TK_FLAG_TEXT, &out},
    };
    tolk_compile_opts opts;
    tolk_emit_kind kind = TOLK_EMIT_UOP;
    int code = tk_flags_read(argc, argv, flags, sizeof flags / sizeof *flags, &files, 1);
    if (!code && !files.n)
        code = tk_report_usage("emit: expected a file with a kernel");
    if (!code && kind_name)
        code = read_kind(kind_name, header, out, &kind);
    if (!code)
        code = tk_compile_flags_read("emit", &compile, &opts); /* before any work */
    if (code)
        return code;

    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    tk_source source = {0};
    const tolk_uop *kernel;
    code = tk_source_load(ctx, files.item[0], &source);
    if (!code && !kind_name) /* a file that TOLK_REPRO wrote may say it */
        code = read_kind(source.emit, header, out, &kind);
    if (!code)
        code = tk_source_kernel(&source, files.item[0], kernel_name, &kernel);
    if (!code)
        tk_session_keep_kernels(&source, files.item[0]);
    if (!code && kind != TOLK_EMIT_UOP) {
        tk_compile_flags_replay(&source, files.item[0], &compile);
        code = tk_compile_flags_read("emit", &compile, &opts);
    }
    if (!code)
        code = emit_to(ctx, files.item[0], kernel, &opts, kind, out);
    if (!code && header)
        code = emit_to(ctx, files.item[0], kernel, &opts, TOLK_EMIT_HEADER, header);
    tk_source_free(&source);
    tk_report_context_end(ctx);
    return code;
}
