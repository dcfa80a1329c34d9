/* SPDX-License-Identifier: MIT
 *
 * tolk-jit emit: one form of a kernel on its way to machine code.
 */
#include "compile_flags.h"
#include "tool.h"

#include <string.h>
#include <unistd.h>

enum { EMIT_LINEAR = -1 /* not of one kernel: a linear of calls, compiled */ };

static const struct {
    const char *name;
    int kind; /* tolk_emit_kind, or EMIT_LINEAR */
} kinds[] = {
    {"uop", TOLK_EMIT_UOP},       {"opt", TOLK_EMIT_OPT}, {"program", TOLK_EMIT_PROGRAM},
    {"llvm", TOLK_EMIT_LLVM},     {"asm", TOLK_EMIT_ASM}, {"obj", TOLK_EMIT_OBJ},
    {"header", TOLK_EMIT_HEADER}, {"ptx", TOLK_EMIT_PTX}, {"linear", EMIT_LINEAR},
};

static int find_kind(const char *name, int *out) {
    static const char *const known = "uop, opt, program, llvm, asm, obj, header, ptx or linear";
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

static int print_whole(tolk_ctx *ctx, const tk_source *source, const char *out) {
    char *text;
    size_t len;
    tolk_status st = tolk_print(source->root, &text, &len);
    if (st)
        return tk_report_error(NULL, st, NULL);
    int code = tk_source_write(out, text, len);
    tolk_free_text(ctx, text);
    return code;
}

/* A linear of calls with its kernels compiled, as a text for --trusted. */
static int emit_linear(tolk_ctx *ctx, const char *file, const tk_source *source,
                       const tolk_compile_opts *opts, const char *out) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_realize_opts realize = TOLK_REALIZE_OPTS_INIT;
    tolk_device *device;
    tolk_linear *linear = NULL, *compiled = NULL;
    char *text = NULL;
    size_t len;
    realize.compile = opts;
    if (!tk_source_is_calls(source))
        return tk_report_usage("emit: --emit=linear: the root of %.300s is %s: expected a linear "
                               "of calls",
                               file, tolk_op_name(tolk_uop_op(source->root)));
    tolk_status st = tolk_device_open(ctx, "CPU", &device, &err);
    if (!st)
        st = tolk_linear_create(ctx, source->root, &linear, &err);
    if (!st)
        st = tolk_compile_linear(device, linear, &realize, &compiled, &err);
    if (!st)
        st = tolk_print(tolk_linear_root(compiled), &text, &len);
    int code = st ? tk_report_input(file, st, &err) : tk_source_write(out, text, len);
    tolk_free_text(ctx, text);
    tolk_linear_unref(compiled);
    tolk_linear_unref(linear);
    return code;
}

/* The form, and whether the other flags go with it. name NULL: none was named. */
static int read_kind(const char *name, const char *header, const char *out, int *kind) {
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
    int trusted = 0;
    const tk_flag flags[] = {
        {"--emit", TK_FLAG_TEXT, &kind_name},        {"--kernel", TK_FLAG_TEXT, &kernel_name},
        {"--target", TK_FLAG_TEXT, &compile.target}, {"--opts", TK_FLAG_TEXT, &compile.opts},
        {"--bounds", TK_FLAG_TEXT, &compile.bounds}, {"--strict", TK_FLAG_BOOL, &compile.strict},
        {"--tier", TK_FLAG_TEXT, &compile.tier},     {"--symbol", TK_FLAG_TEXT, &compile.symbol},
        {"--header", TK_FLAG_TEXT, &header},         {"-o", TK_FLAG_TEXT, &out},
        {"--trusted", TK_FLAG_BOOL, &trusted},
    };
    tolk_compile_opts opts;
    int kind = TOLK_EMIT_UOP;
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
    code = tk_source_load(ctx, files.item[0], trusted, &source);
    if (!code && !kind_name) /* a file that TOLK_REPRO wrote may say it */
        code = read_kind(source.emit, header, out, &kind);
    if (!code && kind == EMIT_LINEAR && kernel_name)
        code = tk_report_usage("emit: --emit=linear is of all kernels: expected no --kernel");
    int whole = !code && (kind == EMIT_LINEAR ||
                          (kind == TOLK_EMIT_UOP && !kernel_name && tk_source_is_calls(&source)));
    if (!code && !whole)
        code = tk_source_kernel(&source, files.item[0], kernel_name, &kernel);
    if (!code)
        tk_session_keep_kernels(&source, files.item[0]);
    if (!code && kind != TOLK_EMIT_UOP) {
        tk_compile_flags_replay(&source, files.item[0], &compile);
        code = tk_compile_flags_read("emit", &compile, &opts);
    }
    if (!code && whole)
        code = kind == EMIT_LINEAR ? emit_linear(ctx, files.item[0], &source, &opts, out)
                                   : print_whole(ctx, &source, out);
    else if (!code)
        code = emit_to(ctx, files.item[0], kernel, &opts, (tolk_emit_kind)kind, out);
    if (!code && header)
        code = emit_to(ctx, files.item[0], kernel, &opts, TOLK_EMIT_HEADER, header);
    tk_source_free(&source);
    tk_report_context_end(ctx);
    return code;
}
