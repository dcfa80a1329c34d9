/* SPDX-License-Identifier: MIT
 *
 * tolk-jit run of a linear: which --arg and --out go with which BUFFER or PARAM of its calls, the
 * arrays, and the run. A buffer is named by its slot ("3", or "buffer3" and "param3" where both
 * exist), by its own name, or by that of the kernel params it stands for where that is no other's.
 */
#include "npy.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One BUFFER or PARAM. */
typedef struct cell {
    const tolk_uop *node;
    char slot[24], full[32]; /* "3", "buffer3" */
    const char *name;        /* NULL: none, or several */
    int is_param, many_names;
    int is_loaded, is_stored, needs_input; /* needs_input: loaded before anything was stored */
    const tolk_uop *input;                 /* the node that is bound: of a param another one */
    tolk_dtype dtype;
    int rank;
    int64_t dims[TK_MAX_RANK + 1]; /* with the variables that are set */
    size_t n_parts;                /* on so many devices */
    size_t bytes, most_bytes;      /* of one of them: of these dimensions, of the largest ones */
    int rows_are_constant;         /* no dimension but the first depends on variables */
    tolk_buffer *one;
    tolk_multi *many;
    void *data;        /* of all parts; NULL: no --arg */
    size_t data_bytes; /* of one of them */
    const char *out;
} cell;

/* A variable that a kernel has and its call does not bind. */
typedef struct needed {
    tolk_param_info info;
    const char *kernel;
    int has_value;
} needed;

typedef struct linear_run {
    tolk_ctx *ctx;
    const tk_source *source;
    const tk_linear_request *request;
    cell *cells;
    size_t n, cap;
    needed *needed;
    size_t n_needed;
    const tolk_uop **inputs;
    size_t n_inputs;
    tolk_var *vars;
    size_t n_vars;
    tolk_linear *linear;
    tolk_bindings *bindings;
    tolk_exec *exec;
} linear_run;

static int is_op(const tolk_uop *u, const char *name) {
    return !strcmp(tolk_op_name(tolk_uop_op(u)), name);
}

static int64_t number_of(const tolk_uop *u, const char *key) {
    tolk_attr a;
    return tolk_uop_attr(u, key, &a) ? a.i : 0;
}

static const char *text_of(const tolk_uop *u, const char *key) {
    tolk_attr a;
    return tolk_uop_attr(u, key, &a) ? a.s : NULL;
}

static int is_scalar(const tolk_uop *u) {
    const char *space = is_op(u, "param") ? text_of(u, "space") : NULL;
    return is_op(u, "bind") || (space && !strcmp(space, "alu"));
}

/* ---- the buffers of the calls ---- */

static cell *cell_of(linear_run *r, const tolk_uop *node) {
    for (size_t i = 0; i < r->n; i++)
        if (r->cells[i].node == node)
            return &r->cells[i];
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 16;
        cell *more = realloc(r->cells, cap * sizeof *more);
        if (!more)
            return NULL;
        r->cells = more;
        r->cap = cap;
    }
    cell *c = &r->cells[r->n++];
    *c = (cell){.node = node, .is_param = is_op(node, "param"), .dtype = tolk_uop_dtype(node)};
    int64_t slot = number_of(node, "slot");
    snprintf(c->slot, sizeof c->slot, "%" PRId64, slot);
    snprintf(c->full, sizeof c->full, "%s%" PRId64, c->is_param ? "param" : "buffer", slot);
    if (c->is_param)
        c->name = text_of(node, "name");
    return c;
}

/* A name that a kernel has for it, or NULL: it has none; "": no kernel says so. */
static void add_name(cell *c, const char *name) {
    if ((name && !*name) || (c->is_param && text_of(c->node, "name")))
        return;
    if (!name || (c->name && strcmp(c->name, name)))
        c->many_names = 1;
    else
        c->name = name;
}

/* Note what a call does with each buffer that an argument is made of. whole: the argument is the
 * buffer itself. */
static int note_arg(linear_run *r, const tolk_uop *arg, int loaded, int stored, const char *name) {
    tk_nodes nodes = {0};
    int is_new, code = tk_nodes_add(&nodes, arg, &is_new);
    for (size_t k = 0; k < nodes.n && !code; k++) {
        const tolk_uop *u = nodes.at[k];
        if (is_op(u, "param") || is_op(u, "buffer")) {
            cell *c = cell_of(r, u);
            if (!c) {
                code = tk_report_failed("out of memory");
                break;
            }
            c->needs_input |= loaded && !c->is_stored;
            c->is_loaded |= loaded;
            c->is_stored |= stored;
            if (u == arg)
                add_name(c, name);
            continue;
        }
        size_t from = is_op(u, "mstack") ? tolk_uop_n_src(u) : tolk_uop_n_src(u) ? 1 : 0;
        for (size_t i = from; i-- > 0 && !code;)
            code = tk_nodes_add(&nodes, tolk_uop_src(u, i), &is_new);
    }
    tk_nodes_free(&nodes);
    return code;
}

static int is_bound(const tolk_uop *call, const char *name) {
    for (size_t i = 1; i < tolk_uop_n_src(call); i++) {
        const tolk_uop *u = tolk_uop_src(call, i);
        const char *own = is_op(u, "bind") ? text_of(tolk_uop_src(u, 0), "name") : NULL;
        if (own && !strcmp(own, name))
            return 1;
    }
    return 0;
}

static int note_variables(linear_run *r, const tolk_uop *call, const tolk_uop *sink) {
    for (size_t p = 0; p < tolk_kernel_param_count(sink); p++) {
        tolk_param_info info;
        size_t k = 0;
        if (tolk_kernel_param(sink, p, &info) || !info.is_scalar || !info.name ||
            is_bound(call, info.name))
            continue;
        while (k < r->n_needed && strcmp(r->needed[k].info.name, info.name))
            k++;
        if (k < r->n_needed)
            continue;
        needed *more = realloc(r->needed, (r->n_needed + 1) * sizeof *more);
        if (!more)
            return tk_report_failed("out of memory");
        r->needed = more;
        r->needed[r->n_needed++] = (needed){info, tolk_kernel_name(sink), 0};
    }
    return TOOL_DONE;
}

static int note_launch(linear_run *r, const tolk_uop *call, const tolk_uop *sink) {
    size_t n = tolk_kernel_param_count(sink), p = 0;
    int code = note_variables(r, call, sink);
    for (size_t i = 1; i < tolk_uop_n_src(call) && !code; i++) {
        const tolk_uop *arg = tolk_uop_src(call, i);
        tolk_param_info info = {0};
        if (is_scalar(arg))
            continue;
        while (p < n && tolk_kernel_param(sink, p, &info) == TOLK_OK && info.is_scalar)
            p++;
        p++;
        code = note_arg(r, arg, info.is_loaded, info.is_stored, info.name);
    }
    return code;
}

/* A graph that is called again loads nothing that it did not load the first time. */
static int note_call(void *run, const tolk_uop *call) {
    linear_run *r = run;
    const tolk_uop *body = tolk_uop_src(call, 0);
    if (is_op(body, "copy") || is_op(body, "slice")) {
        int code = note_arg(r, tolk_uop_src(call, 2), 1, 0, "");
        return code ? code : note_arg(r, tolk_uop_src(call, 1), 0, 1, "");
    }
    return note_launch(r, call, is_op(body, "program") ? tolk_uop_src(body, 0) : body);
}

/* ---- names ---- */

static int by_slot(const void *a, const void *b) {
    const cell *x = a, *y = b;
    int64_t i = number_of(x->node, "slot"), k = number_of(y->node, "slot");
    return i != k ? (i > k) - (i < k) : x->is_param - y->is_param;
}

/* The name that is a cell's own, or NULL. */
static const char *own_name(const linear_run *r, const cell *c) {
    if (!c->name || c->many_names)
        return NULL;
    for (size_t i = 0; i < r->n; i++)
        if (&r->cells[i] != c && r->cells[i].name && !strcmp(r->cells[i].name, c->name))
            return NULL;
    return c->name;
}

/* How a cell is shown. */
static const char *shown(const linear_run *r, const cell *c) {
    const char *name = own_name(r, c);
    return name ? name : c->full;
}

/* "buffer0 (x), buffer1": all, by slot, with their other names; cut where there is no more room. */
static void list_cells(const linear_run *r, char *out, size_t cap) {
    size_t at = (size_t)snprintf(out, cap, "%s", r->n ? "" : "none");
    for (size_t i = 0; i < r->n; i++) {
        const char *name = own_name(r, &r->cells[i]);
        char item[160];
        size_t len =
            (size_t)snprintf(item, sizeof item, "%s%s%s%.100s%s", i ? ", " : "", r->cells[i].full,
                             name ? " (" : "", name ? name : "", name ? ")" : "");
        if (at + len + sizeof ", ..." > cap) {
            snprintf(out + at, cap - at, ", ...");
            return;
        }
        memcpy(out + at, item, len + 1);
        at += len;
    }
}

/* Cells whose names a text of `len` bytes is; *out is one of them. Full names come first. */
static size_t match_cells(const linear_run *r, const char *text, size_t len, cell **out) {
    size_t found = 0;
    for (int exact = 1; exact >= 0 && !found; exact--)
        for (size_t i = 0; i < r->n; i++) {
            cell *c = &r->cells[i];
            const char *own[] = {c->full, exact ? NULL : c->slot,
                                 exact || c->many_names ? NULL : c->name};
            int is = 0;
            for (int k = 0; k < 3; k++)
                is |= own[k] && strlen(own[k]) == len && !memcmp(own[k], text, len);
            if (is) {
                *out = c;
                found++;
            }
        }
    return found;
}

static needed *match_variable(const linear_run *r, const char *text, size_t len) {
    for (size_t k = 0; k < r->n_needed; k++)
        if (strlen(r->needed[k].info.name) == len && !memcmp(r->needed[k].info.name, text, len))
            return &r->needed[k];
    return NULL;
}

/* Which cell does NAME=VALUE mean? */
static int find_cell(linear_run *r, const char *flag, const char *text, cell **out,
                     const char **value) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return tk_report_usage("%s %.200s: expected NAME=VALUE", flag, text);
    size_t len = (size_t)(eq - text), found = match_cells(r, text, len, out);
    *value = eq + 1;
    if (found == 1)
        return TOOL_DONE;
    if (!found && match_variable(r, text, len))
        return tk_report_usage("%s %.200s: it is a variable of the calls: expected --set %.200s",
                               flag, text, text);
    char names[240];
    list_cells(r, names, sizeof names);
    return tk_report_usage("%s %.200s: %s buffer of that name: expected %s", flag, text,
                           found ? "there is more than one" : "there is no", names);
}

/* ---- memory ---- */

/* The dimensions of a node with the variables that are set; where one is not (a call binds it), one
 * dimension of all that the memory has. n: elements of that. */
static void read_dims(const linear_run *r, cell *c, size_t n) {
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
static int make_cell(linear_run *r, cell *c) {
    tolk_error err = TOLK_ERROR_INIT;
    c->input = c->node;
    if (c->is_param) {
        const tolk_uop *shape = tolk_uop_n_src(c->node) ? tolk_uop_src(c->node, 0) : NULL;
        const char *device = text_of(c->node, "device");
        const tolk_attr attrs[] = {{.key = "slot", .i = -1000000 - number_of(c->node, "slot")},
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

static tolk_buffer *part(const cell *c, size_t i) {
    return c->many ? tolk_multi_shard(c->many, i) : c->one;
}

/* bytes: of each part. */
static int copy_parts(cell *c, int in, void *data, size_t bytes) {
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
static int load_array(cell *c, const char *text, const char *path) {
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

static int fill_array(linear_run *r, cell *c, const char *text, const char *number) {
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

static int read_outs(linear_run *r) {
    int code = TOOL_DONE;
    for (size_t i = 0; i < r->request->outs->n && !code; i++) {
        const char *text = r->request->outs->item[i], *path;
        cell *c;
        code = find_cell(r, "--out", text, &c, &path);
        if (!code && !c->is_stored)
            code = tk_report_usage("--out %.300s: no call stores to it", text);
        if (!code && c->out)
            code = tk_report_usage("--out %.300s: %s is given twice", text, shown(r, c));
        for (size_t k = 0; k < r->n && !code; k++)
            if (r->cells[k].out && tk_arrays_same_output(r->cells[k].out, path))
                code = tk_report_usage("--out %.300s: %s goes there, too: expected another %s",
                                       text, shown(r, &r->cells[k]),
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
        cell *c;
        code = find_cell(r, "--arg", text, &c, &value);
        if (!code && c->data)
            code = tk_report_usage("--arg %.300s: %s is given twice", text, shown(r, c));
        if (!code)
            code = tk_number_is(value) ? fill_array(r, c, text, value) : load_array(c, text, value);
    }
    if (!code)
        code = read_outs(r);
    for (size_t i = 0; i < r->n && !code; i++) {
        cell *c = &r->cells[i];
        if (c->needs_input && !c->data)
            code = tk_report_usage("%s is read before anything is stored to it: expected --arg "
                                   "%s=FILE.npy or %s=NUMBER",
                                   shown(r, c), shown(r, c), shown(r, c));
    }
    return code;
}

/* ---- variables ---- */

static int set_variable(linear_run *r, const char *text) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return tk_report_usage("--set %.200s: expected NAME=VALUE", text);
    needed *v = match_variable(r, text, (size_t)(eq - text));
    cell *buffer;
    if (!v && match_cells(r, text, (size_t)(eq - text), &buffer))
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
    for (size_t k = 0; k < r->n_needed && !code; k++) {
        const needed *v = &r->needed[k];
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

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

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
        for (size_t i = 0; i < r->n && !code; i++)
            if (r->cells[i].data)
                code = copy_parts(&r->cells[i], 1, r->cells[i].data, r->cells[i].data_bytes);
        if (code)
            return code;
        double start = now_us();
        tolk_status st = tolk_exec_run(r->exec, &args, &err);
        us[k] = now_us() - start;
        if (st)
            return tk_report_error(path, st, &err);
        if (tk_interrupt_seen())
            return tk_report_interrupted();
    }
    qsort(us, (size_t)r->request->repeat, sizeof *us, by_value);
    return TOOL_DONE;
}

/* What it stands for now: a slice may have made a view of it. */
static int look_again(linear_run *r, cell *c) {
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
    for (size_t i = 0; i < r->n; i++) {
        cell *c = &r->cells[i];
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
            code = tk_arrays_save(shown(r, c), c->out, c->dtype, c->rank, c->dims, data, bytes);
        if (!code && print) {
            printf("%s = %s[", kept ? c->out : shown(r, c), tolk_dtype_name(c->dtype));
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

static void tell(const linear_run *r, const tolk_counters *c, double compile_ms, const double *us) {
    int64_t n = r->request->repeat;
    double median = n % 2 ? us[n / 2] : (us[n / 2 - 1] + us[n / 2]) / 2;
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
    for (size_t i = 0; i < r->n; i++)
        if (r->cells[i].is_param && (size_t)number_of(r->cells[i].node, "slot") >= r->n_inputs)
            r->n_inputs = (size_t)number_of(r->cells[i].node, "slot") + 1;
    if (r->n_inputs > 65536)
        return tk_report_usage("a param has slot %zu: expected at most 65535", r->n_inputs - 1);
    r->inputs = calloc(r->n_inputs + 1, sizeof *r->inputs);
    if (!r->inputs)
        return tk_report_failed("out of memory");
    for (size_t i = 0; i < r->n; i++) {
        int code = make_cell(r, &r->cells[i]);
        if (code)
            return code;
        if (r->cells[i].is_param)
            r->inputs[number_of(r->cells[i].node, "slot")] = r->cells[i].input;
    }
    /* What no call names stands for anything. */
    for (size_t i = 0; i < r->n_inputs; i++)
        for (size_t k = 0; !r->inputs[i] && k < r->n; k++)
            r->inputs[i] = r->cells[k].input;
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
    int code = tk_nodes_each_call(r->source->root, note_call, r);
    if (r->n)
        qsort(r->cells, r->n, sizeof *r->cells, by_slot);
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
    double start = now_us();
    tk_interrupt_stage("compiling");
    st = tolk_exec_create(r->bindings, r->linear, &opts, &r->exec, &err);
    tk_interrupt_stage(NULL);
    double compile_ms = (now_us() - start) * 1e-3;
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
    for (size_t i = 0; i < r.n; i++) {
        tolk_buffer_unref(r.cells[i].one);
        tolk_multi_unref(r.cells[i].many);
        free(r.cells[i].data);
    }
    tolk_bindings_destroy(r.bindings);
    tolk_linear_unref(r.linear);
    free(r.needed);
    free(r.vars);
    free(r.inputs);
    free(r.cells);
    return code;
}
