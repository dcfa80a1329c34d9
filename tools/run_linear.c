/* SPDX-License-Identifier: MIT
 *
 * tolk-jit run of a linear: the arrays of its buffers, the values of its variables, and the run.
 */
#include "linear_cells.h"
#include "npy.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct linear_run {
    tolk_ctx *ctx;
    const tk_source *source;
    const tk_linear_request *request;
    tk_cells cells;
    const tolk_uop **inputs;
    size_t n_inputs;
    tolk_var *vars;
    size_t n_vars;
    tolk_linear *linear;
    tolk_bindings *bindings;
    tolk_exec *exec;
} linear_run;

/* ---- memory ---- */

/* The dimensions of a node with the variables that are set; where one is not (a call binds it), one
 * dimension of all that the memory has. n: elements of that. */
static void read_dims(const linear_run *r, tk_cell *c, size_t n) {
    int first = c->n_parts > 1;
    int64_t *dims = c->dims + first;
    size_t elems = 1;
    uint32_t rank;
    c->dims[0] = (int64_t)c->n_parts;
    c->rows_are_constant = 1;
    if (tolk_node_dims(c->node, r->vars, r->n_vars, dims, &rank, NULL)) {
        rank = 1;
        dims[0] = (int64_t)n;
    }
    c->rank = first + (int)rank;
    for (uint32_t i = 0; i < rank; i++)
        elems *= (size_t)dims[i];
    c->bytes = elems * tolk_dtype_bytes(c->dtype);
    const tolk_uop *shape = rank > 1 ? tolk_uop_src(c->node, 0) : NULL;
    for (uint32_t i = 1; i < rank; i++) {
        tolk_attr a;
        c->rows_are_constant &= tolk_uop_attr(tolk_uop_src(shape, i), "value", &a);
    }
}

/* A PARAM gets a BUFFER like it, which is what it stands for. */
static int make_cell(linear_run *r, tk_cell *c) {
    tolk_error err = TOLK_ERROR_INIT;
    c->input = c->node;
    if (c->is_param) {
        const tolk_uop *shape = tolk_uop_n_src(c->node) ? tolk_uop_src(c->node, 0) : NULL;
        const char *device = tk_cells_text(c->node, "device");
        const tolk_attr attrs[] = {
            {.key = "slot", .i = -1000000 - tk_cells_number(c->node, "slot")},
            {.key = "device", .s = device}};
        c->input = tolk_uop_new(r->source->graph, tolk_op_find("buffer"), c->dtype, &shape,
                                shape ? 1 : 0, attrs, device ? 2 : 1);
        if (!c->input)
            return tk_report_error(NULL, tolk_graph_error(r->source->graph, &err), &err);
    }
    tolk_status st = tolk_resolve(r->bindings, NULL, c->input, &c->one, &c->many, &err);
    if (st)
        return tk_report_error(NULL, st, &err);
    tolk_buffer_info info;
    c->n_parts = c->many ? tolk_multi_count(c->many) : 1;
    (void)tolk_buffer_get_info(c->many ? tolk_multi_shard(c->many, 0) : c->one, &info);
    c->most_bytes = info.bytes;
    read_dims(r, c, info.n);
    return TOOL_DONE;
}

static tolk_buffer *part(const tk_cell *c, size_t i) {
    return c->many ? tolk_multi_shard(c->many, i) : c->one;
}

/* bytes: of each part. */
static int copy_parts(tk_cell *c, int in, void *data, size_t bytes) {
    tolk_error err = TOLK_ERROR_INIT;
    for (size_t i = 0; i < c->n_parts; i++) {
        char *at = (char *)data + i * bytes;
        tolk_status st = in ? tolk_buffer_copyin(part(c, i), 0, at, bytes, &err)
                            : tolk_buffer_copyout(part(c, i), 0, at, bytes, &err);
        if (st)
            return tk_report_error(NULL, st, &err);
    }
    return TOOL_DONE;
}

/* As many elements as there are with the variables that are set; or as many as there can be, where
 * those of the former are the first ones of them. text: NAME=PATH. */
static int load_array(tk_cell *c, const char *text, const char *path) {
    char name[104];
    const char *what;
    tk_npy_array file;
    snprintf(name, sizeof name, "%.*s", (int)(path - text - 1 < 100 ? path - text - 1 : 100), text);
    int code = tk_arrays_load(name, path, &file, &what);
    if (code)
        return code;
    size_t width = tolk_dtype_bytes(c->dtype);
    uint64_t now = c->n_parts * c->bytes, most = c->n_parts * c->most_bytes;
    int takes_most = most != now && c->rows_are_constant;
    if (!tk_npy_accepts(file.head.dtype, c->dtype)) {
        code = tk_report_usage("--arg %.300s: expected %s, the %s has %s", text,
                               tolk_dtype_name(tk_npy_carrier(c->dtype)), what,
                               tolk_dtype_name(file.head.dtype));
    } else if (file.head.data_bytes == now || (takes_most && file.head.data_bytes == most)) {
        c->data = file.data; /* from malloc */
        c->data_bytes = (size_t)file.head.data_bytes / c->n_parts;
        return TOOL_DONE;
    } else {
        char larger[48] = "";
        if (takes_most)
            snprintf(larger, sizeof larger, ", or the largest %" PRIu64, most / width);
        code = tk_report_usage("--arg %.300s: expected %" PRIu64 " elements%s, the %s has %" PRIu64,
                               text, now / width, larger, what, file.head.elems);
    }
    tk_npy_free(&file);
    return code;
}

static int fill_array(linear_run *r, tk_cell *c, const char *text, const char *number) {
    uint64_t bits;
    size_t width = tolk_dtype_bytes(c->dtype), bytes = c->n_parts * c->most_bytes;
    if (tk_number_bits(r->ctx, c->dtype, number, &bits) != TK_NUMBER_OK)
        return tk_report_usage("--arg %.200s: expected a number of dtype %s or a file", text,
                               tolk_dtype_name(c->dtype));
    c->data = malloc(bytes + 1);
    c->data_bytes = c->most_bytes;
    if (!c->data)
        return tk_report_failed("cannot allocate %zu bytes for %s", bytes, c->full);
    for (size_t i = 0; i < bytes; i += width)
        memcpy((char *)c->data + i, &bits, width);
    return TOOL_DONE;
}

/* Names come before all else: what is given under a wrong one is not missing. */
static int check_names(linear_run *r) {
    const tk_list *args = r->request->args, *outs = r->request->outs;
    tk_cell *c;
    const char *value;
    int code = TOOL_DONE;
    for (size_t i = 0; i < args->n && !code; i++)
        code = tk_cells_find(&r->cells, "--arg", args->item[i], &c, &value);
    for (size_t i = 0; i < outs->n && !code; i++)
        code = tk_cells_find(&r->cells, "--out", outs->item[i], &c, &value);
    return code;
}

static int read_outs(linear_run *r) {
    int code = TOOL_DONE;
    for (size_t i = 0; i < r->request->outs->n && !code; i++) {
        const char *text = r->request->outs->item[i], *path;
        tk_cell *c;
        code = tk_cells_find(&r->cells, "--out", text, &c, &path);
        if (!code && !c->is_stored)
            code = tk_report_usage("--out %.300s: no call stores to it", text);
        if (!code && c->out)
            code = tk_report_usage("--out %.300s: %s is given twice", text,
                                   tk_cells_shown(&r->cells, c));
        for (size_t k = 0; k < r->cells.n && !code; k++)
            if (r->cells.at[k].out && tk_arrays_same_output(r->cells.at[k].out, path))
                code = tk_report_usage("--out %.300s: %s goes there, too: expected another %s",
                                       text, tk_cells_shown(&r->cells, &r->cells.at[k]),
                                       tk_session_is_name(path) ? "name" : "file");
        if (!code)
            c->out = path;
    }
    return code;
}

static int read_args(linear_run *r) {
    int code = TOOL_DONE;
    const tk_list *args = r->request->args;
    for (size_t i = 0; i < args->n && !code; i++) {
        const char *text = args->item[i], *value;
        tk_cell *c;
        code = tk_cells_find(&r->cells, "--arg", text, &c, &value);
        if (!code && c->data)
            code = tk_report_usage("--arg %.300s: %s is given twice", text,
                                   tk_cells_shown(&r->cells, c));
        if (!code)
            code = tk_number_is(value) ? fill_array(r, c, text, value) : load_array(c, text, value);
    }
    if (!code)
        code = read_outs(r);
    for (size_t i = 0; i < r->cells.n && !code; i++) {
        tk_cell *c = &r->cells.at[i];
        if (c->needs_input && !c->data)
            code = tk_report_usage("%s is read before anything is stored to it: expected --arg "
                                   "%s=FILE.npy or %s=NUMBER",
                                   tk_cells_shown(&r->cells, c), tk_cells_shown(&r->cells, c),
                                   tk_cells_shown(&r->cells, c));
    }
    return code;
}

/* ---- variables ---- */

static int set_variable(linear_run *r, const char *text) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return tk_report_usage("--set %.200s: expected NAME=VALUE", text);
    tk_needed *v = tk_cells_variable(&r->cells, text, (size_t)(eq - text));
    tk_cell *buffer;
    if (!v && tk_cells_match(&r->cells, text, (size_t)(eq - text), &buffer))
        return tk_report_usage("--set %.200s: it is a buffer: expected --arg %.200s", text, text);
    if (!v)
        return tk_report_usage("--set %.200s: no kernel has a variable of that name without value",
                               text);
    tolk_dtype dtype = v->info.dtype == TOLK_INDEX ? TOLK_I64 : v->info.dtype;
    uint64_t bits;
    if (v->has_value)
        return tk_report_usage("--set %s: the variable has a value already", v->info.name);
    if (tk_number_bits(r->ctx, dtype, eq + 1, &bits) != TK_NUMBER_OK)
        return tk_report_usage("--set %.200s: expected a number of dtype %s", text,
                               tolk_dtype_name(v->info.dtype));
    int64_t value = (int64_t)bits;
    if (tolk_dtype_is_int(dtype) && !tolk_dtype_is_unsigned(dtype)) {
        unsigned unused = 64 - 8 * (unsigned)tolk_dtype_bytes(dtype);
        value = (int64_t)(bits << unused) >> unused;
    }
    int too_large = dtype == TOLK_U64 && value < 0;
    if (tolk_dtype_is_int(dtype) && !(too_large && v->info.max == INT64_MAX) &&
        (value < v->info.min || value > v->info.max || too_large))
        return tk_report_usage("--set %.200s: expected %" PRId64 " to %" PRId64, text, v->info.min,
                               v->info.max);
    v->has_value = 1;
    r->vars[r->n_vars++] = (tolk_var){v->info.name, value};
    return TOOL_DONE;
}

static int read_vars(linear_run *r) {
    const tk_list *sets = r->request->sets;
    r->vars = calloc(sets->n + 1, sizeof *r->vars);
    if (!r->vars)
        return tk_report_failed("out of memory");
    int code = TOOL_DONE;
    for (size_t i = 0; i < sets->n && !code; i++)
        code = set_variable(r, sets->item[i]);
    for (size_t k = 0; k < r->cells.n_needed && !code; k++) {
        const tk_needed *v = &r->cells.needed[k];
        if (v->has_value || !strcmp(v->info.name, "_device_num"))
            continue;
        code =
            tolk_dtype_is_int(v->info.dtype)
                ? tk_report_usage("variable %s of kernel %s has no value: expected --set %s=N, "
                                  "%" PRId64 " to %" PRId64,
                                  v->info.name, v->kernel, v->info.name, v->info.min, v->info.max)
                : tk_report_usage("variable %s of kernel %s has no value: expected --set "
                                  "%s=NUMBER of dtype %s",
                                  v->info.name, v->kernel, v->info.name,
                                  tolk_dtype_name(v->info.dtype));
    }
    return code;
}

/* ---- running ---- */

/* Each time on the same inputs. */
static int run_times(linear_run *r, const char *path, double *us) {
    tolk_run_args args = TOLK_RUN_INIT;
    tolk_error err = TOLK_ERROR_INIT;
    args.wait = 1;
    args.inputs = r->inputs;
    args.n_inputs = r->n_inputs;
    args.vars = r->vars;
    args.n_vars = r->n_vars;
    for (int64_t k = 0; k < r->request->repeat; k++) {
        int code = TOOL_DONE;
        for (size_t i = 0; i < r->cells.n && !code; i++)
            if (r->cells.at[i].data)
                code =
                    copy_parts(&r->cells.at[i], 1, r->cells.at[i].data, r->cells.at[i].data_bytes);
        if (code)
            return code;
        double start = tk_times_now_us();
        tolk_status st = tolk_exec_run(r->exec, &args, &err);
        us[k] = tk_times_now_us() - start;
        if (st)
            return tk_report_error(path, st, &err);
        if (tk_interrupt_seen())
            return tk_report_interrupted();
    }
    return TOOL_DONE;
}

/* What it stands for now: a slice may have made a view of it. */
static int look_again(linear_run *r, tk_cell *c) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    tolk_status st = tolk_resolve(r->bindings, NULL, c->input, &one, &many, &err);
    if (st)
        return tk_report_error(NULL, st, &err);
    tolk_buffer_unref(c->one);
    tolk_multi_unref(c->many);
    c->one = one;
    c->many = many;
    return TOOL_DONE;
}

/* Files, and what is stored and read by no call. */
static int save(linear_run *r) {
    enum { SHOWN = 8 };
    for (size_t i = 0; i < r->cells.n; i++) {
        tk_cell *c = &r->cells.at[i];
        size_t bytes = c->n_parts * c->bytes, n = bytes / tolk_dtype_bytes(c->dtype);
        int kept = c->out && tk_session_is_name(c->out);
        int print = !r->request->json && (kept || (!c->out && c->is_stored && !c->is_loaded));
        if (!c->out && !print)
            continue;
        void *data = malloc(bytes + 1);
        int code = data ? look_again(r, c) : tk_report_failed("out of memory");
        if (!code)
            code = copy_parts(c, 0, data, c->bytes);
        if (!code && c->out)
            code = tk_arrays_save(tk_cells_shown(&r->cells, c), c->out, c->dtype, c->rank, c->dims,
                                  data, bytes);
        if (!code && print) {
            printf("%s = %s[", kept ? c->out : tk_cells_shown(&r->cells, c),
                   tolk_dtype_name(c->dtype));
            for (int d = 0; d < c->rank; d++)
                printf("%s%lld", d ? ", " : "", (long long)c->dims[d]);
            fputs(n ? "] " : "]", stdout);
            tk_number_print(stdout, r->ctx, c->dtype, data, n < SHOWN ? n : SHOWN);
            puts(n > SHOWN ? " ..." : "");
        }
        free(data);
        if (code)
            return code;
    }
    return TOOL_DONE;
}

static void tell(const linear_run *r, const tolk_counters *c, double compile_ms, double *us) {
    int64_t n = r->request->repeat;
    double median = tk_times_median(us, (size_t)n);
    size_t calls = tolk_uop_n_src(tolk_linear_root(r->linear));
    if (r->request->json) {
        printf("{\"calls\": %zu, \"device\": ", calls);
        tk_json_string(stdout, tolk_device_name(r->request->device));
        printf(", \"compiles\": %" PRIu64 ", \"compile_hits\": %" PRIu64
               ", \"compile_ms\": %.6f, \"launches\": %" PRIu64 ", \"copies\": %" PRIu64
               ", \"repeat\": %lld, \"run_us\": {\"min\": %.3f, \"median\": %.3f}}\n",
               c->compiles, c->compile_hits, compile_ms, c->launches, c->copies, (long long)n,
               us[0], median);
        return;
    }
    printf("%zu call%s on %s\ncompile %.3f ms, %" PRIu64 " compiled, %" PRIu64
           " from a cache\nrun %.3f us",
           calls, calls == 1 ? "" : "s", tolk_device_name(r->request->device), compile_ms,
           c->compiles, c->compile_hits, us[0]);
    if (n > 1)
        printf(" at best, %.3f us median of %lld", median, (long long)n);
    putchar('\n');
}

static int set_inputs(linear_run *r) {
    for (size_t i = 0; i < r->cells.n; i++)
        if (r->cells.at[i].is_param &&
            (size_t)tk_cells_number(r->cells.at[i].node, "slot") >= r->n_inputs)
            r->n_inputs = (size_t)tk_cells_number(r->cells.at[i].node, "slot") + 1;
    if (r->n_inputs > 65536)
        return tk_report_usage("a param has slot %zu: expected at most 65535", r->n_inputs - 1);
    r->inputs = calloc(r->n_inputs + 1, sizeof *r->inputs);
    if (!r->inputs)
        return tk_report_failed("out of memory");
    for (size_t i = 0; i < r->cells.n; i++) {
        int code = make_cell(r, &r->cells.at[i]);
        if (code)
            return code;
        if (r->cells.at[i].is_param)
            r->inputs[tk_cells_number(r->cells.at[i].node, "slot")] = r->cells.at[i].input;
    }
    /* What no call names stands for anything. */
    for (size_t i = 0; i < r->n_inputs; i++)
        for (size_t k = 0; !r->inputs[i] && k < r->cells.n; k++)
            r->inputs[i] = r->cells.at[k].input;
    return TOOL_DONE;
}

static int run_all(linear_run *r, const char *path) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_realize_opts opts = TOLK_REALIZE_OPTS_INIT;
    tolk_status st = tolk_verify(r->source->root, TOLK_STAGE_TENSOR, &err);
    if (!st)
        st = tolk_linear_create(r->ctx, r->source->root, &r->linear, &err);
    if (st)
        return tk_report_input(path, st, &err);
    tk_session_keep_kernels(r->source, path);
    if ((st = tolk_bindings_create(r->request->device, &r->bindings, &err)))
        return tk_report_error(path, st, &err);
    int code = tk_cells_init(&r->cells, r->source->root);
    if (!code)
        code = check_names(r);
    if (!code)
        code = read_vars(r);
    if (!code)
        code = set_inputs(r);
    if (!code)
        code = read_args(r);
    if (code)
        return code;
    tk_interrupt_watch(r->request->device);
    opts.compile = r->request->compile;
    double start = tk_times_now_us();
    tk_interrupt_stage("compiling");
    st = tolk_exec_create(r->bindings, r->linear, &opts, &r->exec, &err);
    tk_interrupt_stage(NULL);
    double compile_ms = (tk_times_now_us() - start) * 1e-3;
    if (st)
        return tk_report_error(path, st, &err);
    if (r->request->repeat > 1 << 24)
        return tk_report_usage("run: --repeat: expected at most 16777216");
    tolk_counters before, after;
    double *us = malloc((size_t)r->request->repeat * sizeof *us);
    (void)tolk_stats(r->ctx, &before);
    code = us ? run_times(r, path, us) : tk_report_failed("out of memory");
    (void)tolk_stats(r->ctx, &after);
    after.launches -= before.launches;
    after.copies -= before.copies;
    if (!code)
        tell(r, &after, compile_ms, us);
    free(us);
    return code ? code : save(r);
}

int tk_run_linear(tolk_ctx *ctx, const char *path, const tk_source *source,
                  const tk_linear_request *request) {
    linear_run r = {.ctx = ctx, .source = source, .request = request};
    int code = run_all(&r, path);
    tolk_exec_destroy(r.exec);
    for (size_t i = 0; i < r.cells.n; i++) {
        tolk_buffer_unref(r.cells.at[i].one);
        tolk_multi_unref(r.cells.at[i].many);
        free(r.cells.at[i].data);
    }
    tolk_bindings_destroy(r.bindings);
    tolk_linear_unref(r.linear);
    free(r.vars);
    free(r.inputs);
    tk_cells_fini(&r.cells);
    return code;
}
