/* SPDX-License-Identifier: MIT
 *
 * tolk-jit verify: does compiled code compute what the interpreter computes?
 *
 * For each device and target, and for rounds of random inputs, two comparisons, both bit for bit:
 *   1. the kernel compiled with its loop options against the interpreter on the graph that these
 *      options made (what `emit --emit=opt` prints);
 *   2. the kernel compiled with options that keep the order of float sums (strict) against the
 *      interpreter on the kernel as written.
 * The first sees wrong code, the second wrong loop options.
 */
#include "compile_flags.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The targets that are tried when none is named, beside the machine's own. */
static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512"};

enum { N_TARGETS = sizeof targets / sizeof *targets };

static int machine_runs(size_t t) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (t == 1)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (t == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
    return t == 0;
#else
    (void)t;
    return 0;
#endif
}

typedef struct job {
    tolk_ctx *ctx;
    const char *path;
    const tolk_uop *kernel;
    tk_binding *binding;
    tk_list devices, targets, args, sets;
    tk_compile_flags flags;
    int64_t round, rounds, seed, shared_bytes;
    int json, n_checked, n_differ;
    void **want; /* results of the interpreter, one per buffer */
} job;

/* Row-major position of an element: "[3, 5]". */
static const char *place_text(const tk_arg *a, size_t element, char *buf, size_t cap) {
    int64_t at[TK_MAX_RANK] = {0};
    int rank = a->elems > (int64_t)element ? (int)a->info.rank : 0;
    for (int d = rank - 1; d >= 0; d--) {
        at[d] = (int64_t)element % a->dims[d];
        element /= (size_t)a->dims[d];
    }
    size_t n = (size_t)snprintf(buf, cap, "[");
    for (int d = 0; d < rank && n < cap; d++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%" PRId64, d ? ", " : "", at[d]);
    if (!rank && a->info.rank && n < cap)
        n += (size_t)snprintf(buf + n, cap - n, "%zu", element);
    if (n < cap)
        snprintf(buf + n, cap - n, "]");
    return buf;
}

static void print_json_head(const job *j) {
    printf("{\"kernel\": ");
    tk_json_string(stdout, tolk_kernel_name(j->kernel));
    printf(", \"device\": ");
}

static void print_difference(job *j, const char *device, const char *target, const char *mode,
                             const tk_arg *a, const void *want, size_t element) {
    char place[256];
    size_t width = tolk_dtype_bytes(a->info.dtype);
    uint64_t x = 0, y = 0;
    const char *px = (const char *)want + element * width;
    const char *py = (const char *)a->data + element * width;
    memcpy(&x, px, width);
    memcpy(&y, py, width);
    place_text(a, element, place, sizeof place);
    j->n_differ++;
    if (j->json) {
        print_json_head(j);
        tk_json_string(stdout, device);
        printf(", \"target\": ");
        tk_json_string(stdout, target);
        printf(", \"mode\": \"%s\", \"round\": %" PRId64 ", \"ok\": false, \"param\": ", mode,
               j->round);
        tk_json_string(stdout, a->name);
        printf(", \"element\": %zu, \"expected_bits\": \"0x%" PRIx64
               "\", \"got_bits\": \"0x%" PRIx64 "\"}\n",
               element, x, y);
        return;
    }
    printf("DIFFERS  %s %s (%s), round %" PRId64 ": %s%s: the interpreter has ", device, target,
           mode, j->round, a->name, place);
    tk_number_print(stdout, j->ctx, a->info.dtype, px, 1);
    printf(" (0x%" PRIx64 "), the device ", x);
    tk_number_print(stdout, j->ctx, a->info.dtype, py, 1);
    printf(" (0x%" PRIx64 ")\n", y);
}

static tolk_launch_opts launch_opts(const job *j) {
    tolk_launch_opts opts = TOLK_LAUNCH_OPTS_INIT;
    opts.shared_bytes = (size_t)j->shared_bytes;
    return opts;
}

/* Run the interpreter on `kernel` and keep its results. A range error is a result, too. The kernel
 * may be a form of the one bound that has lost params which change nothing: each takes its argument
 * by its slot. */
static int interpret(job *j, const tolk_uop *kernel, uint32_t flags, tolk_status *result) {
    tk_binding *b = j->binding;
    tolk_error err = TOLK_ERROR_INIT;
    tk_binding_rewind(b);
    tk_binding own = {.bufs = calloc(b->n + 1, sizeof *own.bufs),
                      .bytes = calloc(b->n + 1, sizeof *own.bytes),
                      .vals = calloc(b->n + 1, sizeof *own.vals)};
    int ok = own.bufs && own.bytes && own.vals;
    size_t n = ok ? tolk_kernel_param_count(kernel) : 0, buf = 0, val = 0;
    for (size_t i = 0, k = 0; i < b->n && k < n; i++) { /* both in ascending order of slots */
        const tk_arg *a = &b->args[i];
        tolk_param_info info;
        int kept = !tolk_kernel_param(kernel, k, &info) && info.slot == a->info.slot;
        if (kept && a->info.is_scalar) {
            own.vals[own.n_vals++] = b->vals[val];
        } else if (kept) {
            own.bufs[own.n_bufs] = b->bufs[buf];
            own.bytes[own.n_bufs++] = b->bytes[buf];
        }
        k += kept;
        *(a->info.is_scalar ? &val : &buf) += 1;
    }
    tolk_launch_opts opts = launch_opts(j);
    if (ok)
        *result = tolk_interpret_launch(kernel, own.bufs, own.bytes, own.n_bufs, own.vals,
                                        own.n_vals, flags, &opts, &err);
    free(own.bufs);
    free(own.bytes);
    free(own.vals);
    if (!ok)
        return tk_report_failed("out of memory");
    if (*result && *result != TOLK_E_RANGE)
        return tk_report_error(j->path, *result, &err);
    for (size_t i = 0; i < b->n_bufs; i++)
        memcpy(j->want[i], b->bufs[i], b->bytes[i]);
    return TOOL_DONE;
}

static int launch_and_compare(job *j, tolk_device *device, const char *target, const char *mode,
                              const tolk_program *program, tolk_status expected) {
    tk_binding *b = j->binding;
    tolk_error err = TOLK_ERROR_INIT;
    tk_binding_rewind(b);
    tk_interrupt_watch(device);
    tolk_launch_opts opts = launch_opts(j);
    tolk_status st =
        tolk_launch_with(program, b->bufs, b->bytes, b->n_bufs, b->vals, b->n_vals, &opts, &err);
    tk_interrupt_watch(NULL);
    if (st == TOLK_E_CANCELLED || tk_interrupt_seen())
        return tk_report_interrupted();
    if (st && st != TOLK_E_RANGE)
        return tk_report_error(j->path, st, &err);
    if (st != expected) {
        j->n_differ++;
        if (j->json)
            print_json_head(j);
        printf(j->json ? "\"%s\", \"target\": \"%s\", \"mode\": \"%s\", \"round\": "
                         "%" PRId64 ", \"ok\": false, \"expected_status\": \"%s\", "
                         "\"got_status\": \"%s\"}\n"
                       : "DIFFERS  %s %s (%s), round %" PRId64
                         ": the interpreter ends with %s, the device with %s\n",
               tolk_device_name(device), target, mode, j->round, tolk_status_name(expected),
               tolk_status_name(st));
        return TOOL_DONE;
    }
    for (size_t i = 0, k = 0; i < b->n; i++) {
        const tk_arg *a = &b->args[i];
        if (a->info.is_scalar)
            continue;
        size_t n = a->bytes / tolk_dtype_bytes(a->info.dtype);
        size_t at = tk_compare_first(a->info.dtype, j->want[k], a->data, n);
        if (at < n) {
            print_difference(j, tolk_device_name(device), target, mode, a, j->want[k], at);
            return TOOL_DONE;
        }
        k++;
    }
    return TOOL_DONE;
}

/* The graph that the loop options make, read back from its text. */
static int optimized(job *j, const tolk_compile_opts *opts, tolk_graph **graph,
                     const tolk_uop **root) {
    char *text;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_emit(j->ctx, j->kernel, opts, TOLK_EMIT_OPT, &text, &len, &err);
    if (st)
        return tk_report_error(j->path, st, &err);
    st = tolk_graph_create(j->ctx, graph);
    if (!st) {
        st = tolk_parse(*graph, text, len, 0, root, &err);
        if (st)
            tolk_graph_destroy(*graph);
    }
    tolk_free_text(j->ctx, text);
    return st ? tk_report_error("the optimized kernel", st, &err) : TOOL_DONE;
}

/* The math functions have a second form for targets without FMA (docs/numerics.md). Which one a
 * target has is in the IR that is made for it: each feature is there by name, with + or -. */
static int interpreter_flags(job *j, const tolk_compile_opts *opts, uint32_t *flags) {
    char *text;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_emit(j->ctx, j->kernel, opts, TOLK_EMIT_LLVM, &text, &len, &err);
    if (st)
        return tk_report_error(j->path, st, &err);
    *flags = strstr(text, "-fma,") || strstr(text, "-fma\"") ? TOLK_INTERPRET_NO_FMA : 0;
    tolk_free_text(j->ctx, text);
    return TOOL_DONE;
}

static int check_target(job *j, tolk_device *device, const char *target, int strict) {
    tolk_compile_opts opts;
    int code = tk_compile_flags_read("verify", &j->flags, &opts);
    if (code)
        return code;
    opts.target = target;
    opts.strict = (uint32_t)strict;
    const char *mode = strict ? "strict, kernel as written" : "optimized kernel";
    tolk_graph *graph = NULL;
    const tolk_uop *reference = j->kernel;
    if (!strict && (code = optimized(j, &opts, &graph, &reference)))
        return code;
    tolk_program *program = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status expected = TOLK_OK, st = tolk_compile(device, j->kernel, &opts, &program, &err);
    int before = j->n_differ;
    uint32_t flags = 0;
    if (st)
        code = tk_report_error(j->path, st, &err);
    if (!code)
        code = interpreter_flags(j, &opts, &flags);
    if (!code)
        code = interpret(j, reference, flags, &expected);
    if (!code)
        code = launch_and_compare(j, device, target, mode, program, expected);
    tolk_program_unref(program);
    tolk_graph_destroy(graph);
    if (code)
        return code;
    j->n_checked++;
    if (before == j->n_differ && j->json) {
        print_json_head(j);
        printf("\"%s\", \"target\": \"%s\", \"mode\": \"%s\", \"round\": %" PRId64
               ", \"ok\": true}\n",
               tolk_device_name(device), target, mode, j->round);
    } else if (before == j->n_differ && j->round == 1) {
        printf("same     %s %s (%s)%s\n", tolk_device_name(device), target, mode,
               expected == TOLK_E_RANGE ? ", accesses out of range included" : "");
    }
    return TOOL_DONE;
}

static int check_device(job *j, const char *name) {
    tolk_device *device;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_device_open(j->ctx, name, &device, &err);
    if (st)
        return tk_report_error(NULL, st, &err);
    int code = TOOL_DONE;
    size_t n = j->targets.n ? j->targets.n : N_TARGETS + 1;
    for (size_t t = 0; t < n && !code; t++) {
        const char *target = j->targets.n    ? j->targets.item[t]
                             : t < N_TARGETS ? targets[t]
                                             : "native";
        if (!j->targets.n && t < N_TARGETS && !machine_runs(t))
            continue;
        for (int strict = 0; strict <= 1 && !code; strict++)
            code = check_target(j, device, target, strict);
    }
    return code;
}

static int check_round(job *j) {
    tk_binding *b = j->binding;
    int code = TOOL_DONE;
    j->want = calloc(b->n_bufs + 1, sizeof *j->want);
    if (!j->want)
        return tk_report_failed("out of memory");
    for (size_t i = 0; i < b->n_bufs && !code; i++) {
        j->want[i] = malloc(b->bytes[i] ? b->bytes[i] : 1);
        if (!j->want[i])
            code = tk_report_failed("out of memory for %zu bytes", b->bytes[i]);
    }
    for (size_t d = 0; d < (j->devices.n ? j->devices.n : 1) && !code; d++)
        code = check_device(j, j->devices.n ? j->devices.item[d] : "CPU");
    for (size_t i = 0; i < b->n_bufs; i++)
        free(j->want[i]);
    free(j->want);
    return code;
}

/* ---- kernels ---- */

static int has_param(const tolk_uop *kernel, const char *text) {
    const char *eq = strchr(text, '=');
    char slot[32];
    for (size_t i = 0; eq && i < tolk_kernel_param_count(kernel); i++) {
        tolk_param_info info;
        if (tolk_kernel_param(kernel, i, &info))
            continue;
        snprintf(slot, sizeof slot, "slot%" PRId64, info.slot);
        const char *name = info.name && info.name[0] ? info.name : slot;
        if (strlen(name) == (size_t)(eq - text) && !memcmp(name, text, strlen(name)))
            return 1;
    }
    return 0;
}

/* Of several kernels, each takes the arguments that it has a param for. */
static void filter(const tk_list *all, const tolk_uop *kernel, tk_list *out) {
    out->n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (has_param(kernel, all->item[i]))
            out->item[out->n++] = all->item[i];
}

/* An argument that none of n kernels takes is a mistake. */
static int check_names(const job *j, const tk_source *source) {
    const tk_list *lists[] = {&j->args, &j->sets};
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            size_t k = 0;
            while (k < source->kernels.n && !has_param(source->kernels.at[k], lists[l]->item[i]))
                k++;
            if (k == source->kernels.n)
                return tk_report_usage("%s %.200s: none of the kernels has a parameter of that "
                                       "name: expected NAME=VALUE",
                                       l ? "--set" : "--arg", lists[l]->item[i]);
        }
    return TOOL_DONE;
}

static size_t count_runs(const job *j) {
    size_t targets_run = j->targets.n;
    if (!targets_run) {
        targets_run = 1; /* native */
        for (size_t t = 0; t < N_TARGETS; t++)
            targets_run += (size_t)machine_runs(t);
    }
    return 2 * targets_run * (j->devices.n ? j->devices.n : 1);
}

/* Say before the first round if the whole will take long. */
static void warn_of_time(const job *j) {
    enum { STEPS_A_SECOND = 20000000, LONG_SECONDS = 30 }; /* measured on sgemm and mandelbrot */
    double steps = tk_estimate_steps(j->ctx, j->kernel, j->binding);
    double runs = (double)count_runs(j) * (double)j->rounds;
    double seconds = steps * runs / STEPS_A_SECOND;
    if (seconds < LONG_SECONDS)
        return;
    const char *unit = seconds < 120 ? "seconds" : seconds < 7200 ? "minutes" : "hours";
    double shown = seconds < 120 ? seconds : seconds < 7200 ? seconds / 60 : seconds / 3600;
    fprintf(stderr,
            "tolk-jit: kernel %s: the interpreter needs about %.0f %s (%.0f runs of %.1e steps); "
            "faster: --rounds 1, one --target, or smaller sizes by --set or --arg\n",
            tolk_kernel_name(j->kernel), shown, unit, runs, steps);
}

static int verify_kernel(job *j, const tolk_uop *kernel, int several) {
    static tk_binding_request request; /* its lists are large */
    uint64_t seed = (uint64_t)j->seed;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_verify(kernel, TOLK_STAGE_ANY, &err);
    if (st)
        return tk_report_input(j->path, st, &err);
    request.random = 1;
    request.seed = &seed;
    request.args = j->args;
    request.sets = j->sets;
    if (several) {
        filter(&j->args, kernel, &request.args);
        filter(&j->sets, kernel, &request.sets);
    }
    j->kernel = kernel;
    j->n_checked = j->n_differ = 0;
    int code = TOOL_DONE;
    for (j->round = 1; j->round <= j->rounds && !code && !j->n_differ; j->round++) {
        tk_binding binding;
        code = tk_binding_make(j->ctx, kernel, &request, &binding);
        if (code)
            break;
        j->binding = &binding;
        if (j->round == 1)
            warn_of_time(j);
        code = check_round(j);
        tk_binding_free(&binding);
    }
    if (!code && !j->json)
        printf("kernel %s: %d comparisons, %d differ (seed %" PRId64 ")\n",
               tolk_kernel_name(kernel), j->n_checked, j->n_differ, j->seed);
    return !code && j->n_differ ? TOOL_FAILED : code;
}

static int verify_file(job *j, const char *kernel_name, int trusted) {
    tk_source source = {0};
    const tolk_uop *kernel;
    int code = tk_source_load(j->ctx, j->path, trusted, &source);
    if (!code)
        tk_session_keep_kernels(&source, j->path);
    int one = kernel_name || source.kept || source.kernels.n <= 1;
    if (!code && tk_source_is_repro(&source)) {
        tk_compile_flags replay = j->flags;
        replay.target = j->targets.n ? j->targets.item[0] : NULL;
        tk_compile_flags_replay(&source, j->path, &replay);
        if (!j->targets.n)
            j->targets.item[j->targets.n++] = replay.target;
        j->flags.opts = replay.opts;
        j->flags.bounds = replay.bounds;
        j->flags.tier = replay.tier;
        j->flags.no_cache = replay.no_cache;
    }
    if (!code && one) {
        code = tk_source_kernel(&source, j->path, kernel_name, &kernel);
        if (!code)
            code = verify_kernel(j, kernel, 0);
    } else if (!code && !(code = check_names(j, &source))) {
        for (size_t i = 0; i < source.kernels.n && code != TOOL_INTERRUPTED; i++) {
            int next = verify_kernel(j, source.kernels.at[i], 1);
            code = next > code ? next : code; /* go on with the others */
        }
    }
    tk_source_free(&source);
    return code;
}

int tk_cmd_verify(int argc, char **argv) {
    static tk_list files; /* large */
    static job j;
    j = (job){.rounds = 2, .seed = 1};
    const char *kernel_name = NULL;
    int trusted = 0;
    const tk_flag flags[] = {
        {"--kernel", TK_FLAG_TEXT, &kernel_name},
        {"--trusted", TK_FLAG_BOOL, &trusted},
        {"--device", TK_FLAG_LIST, &j.devices},
        {"--target", TK_FLAG_LIST, &j.targets},
        {"--opts", TK_FLAG_TEXT, &j.flags.opts},
        {"--bounds", TK_FLAG_TEXT, &j.flags.bounds},
        {"--tier", TK_FLAG_TEXT, &j.flags.tier},
        {"--arg", TK_FLAG_LIST, &j.args},
        {"--set", TK_FLAG_LIST, &j.sets},
        {"--shared-bytes", TK_FLAG_BYTES, &j.shared_bytes},
        {"--rounds", TK_FLAG_NUMBER, &j.rounds},
        {"--seed", TK_FLAG_NUMBER, &j.seed},
        {"--json", TK_FLAG_BOOL, &j.json},
    };
    int code = tk_flags_read(argc, argv, flags, sizeof flags / sizeof *flags, &files, 1);
    if (!code && !files.n)
        code = tk_report_usage("verify: expected a file with a kernel");
    for (size_t i = 0; i < j.devices.n && !code; i++)
        if (!strcmp(j.devices.item[i], "interp"))
            code = tk_report_usage("verify: --device interp: expected a device to compare the "
                                   "interpreter with");
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    j.ctx = ctx;
    j.path = files.item[0];
    if (!tk_session_is_on()) /* each line as it is found: the next may take long */
        setvbuf(stdout, NULL, _IOLBF, 0);
    tk_interrupt_watch(NULL);
    code = verify_file(&j, kernel_name, trusted);
    tk_report_context_end(ctx);
    return code;
}
