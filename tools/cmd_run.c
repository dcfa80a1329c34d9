/* SPDX-License-Identifier: MIT
 *
 * tolk-jit run: compile a kernel, run it on arrays, time it.
 */
#include "compile_flags.h"
#include "tool.h"

#include <stdlib.h>
#include <string.h>

typedef struct times {
    double min_us, median_us;
} times;

/* Run `repeat` times, each on the same inputs. program NULL: the interpreter. */
static int run_kernel(const char *path, const tolk_uop *kernel, const tolk_program *program,
                      tk_binding *b, const tolk_launch_opts *opts, int64_t repeat, times *out) {
    double *us = repeat <= 1 << 24 ? malloc((size_t)repeat * sizeof *us) : NULL;
    if (!us)
        return tk_report_usage("run: --repeat: expected at most 16777216");
    int code = TOOL_DONE;
    if (!program)
        tk_interrupt_stage("the interpreter");
    for (int64_t i = 0; i < repeat && !code; i++) {
        if (i)
            tk_binding_rewind(b);
        tolk_error err = TOLK_ERROR_INIT;
        double start = tk_times_now_us();
        tolk_status st = program ? tolk_launch_with(program, b->bufs, b->bytes, b->n_bufs, b->vals,
                                                    b->n_vals, opts, &err)
                                 : tolk_interpret_launch(kernel, b->bufs, b->bytes, b->n_bufs,
                                                         b->vals, b->n_vals, 0, opts, &err);
        us[i] = tk_times_now_us() - start;
        if (st)
            code = tk_report_error(path, st, &err);
        else if (tk_interrupt_seen())
            code = tk_report_interrupted();
    }
    if (!code) {
        out->median_us = tk_times_median(us, (size_t)repeat);
        out->min_us = us[0];
    }
    free(us);
    return code;
}

static void print_outputs(tolk_ctx *ctx, const tk_binding *b) {
    enum { SHOWN = 8 };
    for (size_t i = 0; i < b->n; i++) {
        const tk_arg *a = &b->args[i];
        int kept = a->out && tk_session_is_name(a->out);
        if (a->info.is_scalar || !a->info.is_stored || (a->out && !kept))
            continue;
        printf("%s = %s[", kept ? a->out : a->name, tolk_dtype_name(a->info.dtype));
        for (int d = 0; d < a->file_rank; d++)
            printf("%s%lld", d ? ", " : "", (long long)a->file_dims[d]);
        size_t n = a->bytes / tolk_dtype_bytes(a->info.dtype);
        fputs(n ? "] " : "]", stdout);
        tk_number_print(stdout, ctx, a->info.dtype, a->data, n < SHOWN ? n : SHOWN);
        puts(n > SHOWN ? " ..." : "");
    }
}

typedef struct result {
    const char *kernel, *device, *cached, *opts;
    uint32_t lanes;
    double compile_ms;
    times run;
    double flops, bytes; /* of one launch; -1 if not known */
} result;

static void print_json(const result *r, int64_t repeat, tolk_ctx *history) {
    printf("{\"kernel\": ");
    tk_json_string(stdout, r->kernel);
    printf(", \"device\": ");
    tk_json_string(stdout, r->device);
    printf(", \"opts\": ");
    tk_json_string(stdout, r->opts);
    printf(", \"lanes\": %u, \"compile_ms\": %.6f, \"cached\": \"%s\", \"repeat\": %lld, "
           "\"run_us\": {\"min\": %.3f, \"median\": %.3f}",
           r->lanes, r->compile_ms, r->cached, (long long)repeat, r->run.min_us, r->run.median_us);
    if (r->flops >= 0)
        printf(", \"bytes\": %.0f, \"flops\": %.0f, \"gflops\": %.6g, \"gbps\": %.6g", r->bytes,
               r->flops, r->flops / r->run.min_us * 1e-3, r->bytes / r->run.min_us * 1e-3);
    else
        printf(", \"bytes\": null, \"flops\": null, \"gflops\": null, \"gbps\": null");
    if (history) {
        printf(", \"history\": ");
        tk_history_print(stdout, history, 0, 1);
    }
    puts("}");
}

static void print_text(const result *r, int64_t repeat) {
    if (!strcmp(r->device, "interp"))
        printf("kernel %s on the interpreter\n", r->kernel);
    else
        printf("kernel %s on %s, %u lane%s, loop options: %s\n"
               "compile %.3f ms, cache: %s\n",
               r->kernel, r->device, r->lanes, r->lanes == 1 ? "" : "s",
               r->opts[0] ? r->opts : "none", r->compile_ms, r->cached);
    printf("run %.3f us", r->run.min_us);
    if (repeat > 1)
        printf(" at best, %.3f us median of %lld", r->run.median_us, (long long)repeat);
    if (r->flops >= 0)
        printf(", %.4g GFLOP/s, %.4g GB/s", r->flops / r->run.min_us * 1e-3,
               r->bytes / r->run.min_us * 1e-3);
    putchar('\n');
}

typedef struct run_flags {
    tk_compile_flags compile;
    tk_binding_request request;
    const char *device, *kernel;
    int trusted;
    int64_t repeat, shared_bytes;
    int json, history;
} run_flags;

/* A linear of calls, whole. */
static int run_calls(tolk_ctx *ctx, const char *path, const tk_source *source, const run_flags *f,
                     tolk_device *device) {
    const char *wrong = !device            ? "--device interp"
                        : f->request.grid  ? "--global"
                        : f->request.block ? "--local"
                        : f->shared_bytes  ? "--shared-bytes"
                        : f->history       ? "--history"
                                           : NULL;
    tolk_compile_opts opts;
    if (wrong)
        return tk_report_usage("run: %s is of one kernel, and %s is a linear of calls: expected "
                               "--kernel NAME with it",
                               wrong, path);
    int code = tk_compile_flags_read("run", &f->compile, &opts);
    const tk_linear_request request = {.args = &f->request.args,
                                       .outs = &f->request.outs,
                                       .sets = &f->request.sets,
                                       .device = device,
                                       .compile = &opts,
                                       .repeat = f->repeat,
                                       .json = f->json};
    return code ? code : tk_run_linear(ctx, path, source, &request);
}

static int run_with(tolk_ctx *ctx, const char *path, run_flags *f) {
    static const char *const cache_names[] = {"none", "memory", "disk"};
    int interp = f->device && !strcmp(f->device, "interp");
    tk_source source = {0};
    tk_binding binding = {0};
    tolk_device *device = NULL;
    tolk_program *program = NULL;
    const tolk_uop *kernel;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st;
    tolk_compile_opts opts;
    tolk_launch_opts launch = TOLK_LAUNCH_OPTS_INIT;
    launch.shared_bytes = (size_t)f->shared_bytes;
    uint64_t seed = 1;
    result r = {.device = "interp", .cached = "none", .opts = "", .lanes = 1, .flops = -1};

    int code = TOOL_DONE;
    if (!interp && (st = tolk_device_open(ctx, f->device ? f->device : "CPU", &device, &err)))
        return tk_report_error(NULL, st, &err);
    code = tk_source_load(ctx, path, f->trusted, &source);
    if (!code && tk_source_is_calls(&source) && !f->kernel && !source.kept) {
        code = run_calls(ctx, path, &source, f, device);
        tk_source_free(&source);
        return code;
    }
    if (!code)
        code = tk_source_kernel(&source, path, f->kernel, &kernel);
    if (!code && (st = tolk_verify(kernel, TOLK_STAGE_ANY, &err)))
        code = tk_report_input(path, st, &err);
    if (!code)
        tk_session_keep_kernels(&source, path);
    if (!code && tk_source_is_repro(&source)) { /* it is about compiling: any inputs do */
        f->request.random = 1;
        f->request.seed = &seed;
    }
    if (!code && !interp)
        tk_compile_flags_replay(&source, path, &f->compile);
    if (!code)
        code = tk_compile_flags_read("run", &f->compile, &opts);
    if (!code)
        code = tk_binding_make(ctx, kernel, &f->request, &binding);
    if (code)
        goto done;
    r.kernel = tolk_kernel_name(kernel);
    tk_interrupt_watch(device);
    if (device) {
        tolk_program_info info;
        double start = tk_times_now_us();
        tk_interrupt_stage("compiling");
        st = tolk_compile(device, kernel, &opts, &program, &err);
        tk_interrupt_stage(NULL);
        r.compile_ms = (tk_times_now_us() - start) * 1e-3;
        if (!st)
            st = tolk_program_get_info(program, &info);
        if (st) {
            code = tk_report_error(path, st, &err);
            goto done;
        }
        r.device = tolk_device_name(device);
        r.opts = info.opts ? info.opts : "";
        r.lanes = info.lanes;
        r.cached = cache_names[info.cached <= TOLK_CACHED_DISK ? info.cached : 0];
        if (tolk_program_estimate(program, binding.vals, binding.n_vals, &r.flops, &r.bytes))
            r.flops = -1;
        if (tk_interrupt_seen())
            code = tk_report_interrupted();
    }
    if (!code)
        code = run_kernel(path, kernel, program, &binding, &launch, f->repeat, &r.run);
    if (!code)
        code = tk_binding_save(&binding);
    if (!code) {
        if (r.run.min_us <= 0)
            r.run.min_us = 1e-3; /* the clock's step */
        if (f->json) {
            print_json(&r, f->repeat, f->history ? ctx : NULL);
        } else {
            print_text(&r, f->repeat);
            print_outputs(ctx, &binding);
            if (f->history) {
                puts("compiled, with the milliseconds of each phase:");
                tk_history_print(stdout, ctx, 0, 0);
            }
        }
    }
done:
    tolk_program_unref(program);
    tk_binding_free(&binding);
    tk_source_free(&source);
    return code;
}

int tk_cmd_run(int argc, char **argv) {
    static run_flags f;   /* its lists are large */
    static tk_list files; /* large */
    f = (run_flags){.repeat = 1};
    const tk_flag flags[] = {
        {"--arg", TK_FLAG_LIST, &f.request.args},
        {"--out", TK_FLAG_LIST, &f.request.outs},
        {"--set", TK_FLAG_LIST, &f.request.sets},
        {"--kernel", TK_FLAG_TEXT, &f.kernel},
        {"--trusted", TK_FLAG_BOOL, &f.trusted},
        {"--device", TK_FLAG_TEXT, &f.device},
        {"--target", TK_FLAG_TEXT, &f.compile.target},
        {"--global", TK_FLAG_TEXT, &f.request.grid},
        {"--local", TK_FLAG_TEXT, &f.request.block},
        {"--opts", TK_FLAG_TEXT, &f.compile.opts},
        {"--bounds", TK_FLAG_TEXT, &f.compile.bounds},
        {"--strict", TK_FLAG_BOOL, &f.compile.strict},
        {"--tier", TK_FLAG_TEXT, &f.compile.tier},
        {"--shared-bytes", TK_FLAG_BYTES, &f.shared_bytes},
        {"--repeat", TK_FLAG_NUMBER, &f.repeat},
        {"--history", TK_FLAG_BOOL, &f.history},
        {"--json", TK_FLAG_BOOL, &f.json},
    };
    tolk_compile_opts opts;
    int code = tk_flags_read(argc, argv, flags, sizeof flags / sizeof *flags, &files, 1);
    if (!code && !files.n)
        code = tk_report_usage("run: expected a file with a kernel");
    if (!code)
        code = tk_compile_flags_read("run", &f.compile, &opts); /* before any work */
    if (!code && f.device && !strcmp(f.device, "interp") &&
        (f.compile.opts || f.compile.target || f.compile.bounds || f.compile.strict ||
         f.compile.tier))
        code = tk_report_usage("run: --device interp runs the kernel as it stands: expected no "
                               "--opts, --target, --bounds, --strict or --tier");
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    code = run_with(ctx, files.item[0], &f);
    tk_report_context_end(ctx);
    return code;
}
