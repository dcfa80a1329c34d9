/* SPDX-License-Identifier: MIT
 *
 * The arguments of a kernel: which --arg, --set and --out go with which param, files read, numbers
 * parsed, memory for what is only stored. Every mismatch names the param, what the kernel expects
 * and what was given.
 */
#include "npy.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- params by name ---- */

static int list_params(tk_binding *b, const tolk_uop *kernel) {
    b->n = tolk_kernel_param_count(kernel);
    b->args = calloc(b->n + 1, sizeof *b->args);
    b->bufs = calloc(b->n + 1, sizeof *b->bufs);
    b->bytes = calloc(b->n + 1, sizeof *b->bytes);
    b->vals = calloc(b->n + 1, sizeof *b->vals);
    if (!b->args || !b->bufs || !b->bytes || !b->vals)
        return tk_report_failed("out of memory");
    for (size_t i = 0; i < b->n; i++) {
        tk_arg *a = &b->args[i];
        tolk_status st = tolk_kernel_param(kernel, i, &a->info);
        if (st)
            return tk_report_error(NULL, st, NULL);
        if (a->info.name && a->info.name[0])
            snprintf(a->name, sizeof a->name, "%s", a->info.name);
        else
            snprintf(a->name, sizeof a->name, "slot%" PRId64, a->info.slot);
        if (a->info.rank > TK_MAX_RANK)
            return tk_report_usage("parameter %s has %u dimensions: expected at most %d", a->name,
                                   a->info.rank, TK_MAX_RANK);
    }
    return TOOL_DONE;
}

static int find_param(tk_binding *b, const tolk_uop *kernel, const char *flag, const char *text,
                      tk_arg **out, const char **value) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return tk_report_usage("%s %.200s: expected NAME=VALUE", flag, text);
    size_t len = (size_t)(eq - text);
    char names[512] = "";
    size_t at = 0;
    for (size_t i = 0; i < b->n; i++) {
        tk_arg *a = &b->args[i];
        if (strlen(a->name) == len && !memcmp(a->name, text, len)) {
            *out = a;
            *value = eq + 1;
            return TOOL_DONE;
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", a->name);
    }
    return tk_report_usage("%s %.200s: kernel %s has no parameter of that name: expected %s", flag,
                           text, tolk_kernel_name(kernel), b->n ? names : "none");
}

/* "f32[768, 1024]", for messages */
static const char *describe_array(tolk_dtype dtype, const int64_t *dims, int rank, char *buf,
                                  size_t cap) {
    size_t n = (size_t)snprintf(buf, cap, "%s[", tolk_dtype_name(dtype));
    for (int i = 0; i < rank && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%" PRId64, i ? ", " : "", dims[i]);
    if (n < cap)
        snprintf(buf + n, cap - n, "]");
    return buf;
}

static const char *describe(const tk_arg *a, char *buf, size_t cap) {
    return describe_array(a->info.dtype, a->dims, (int)a->info.rank, buf, cap);
}

/* ---- scalars ---- */

/* also: what else than a number could have been given */
static int read_number(tolk_ctx *ctx, tolk_dtype dtype, const char *flag, const tk_arg *a,
                       const char *text, const char *also, uint64_t *bits) {
    switch (tk_number_bits(ctx, dtype, text, bits)) {
    case TK_NUMBER_OK:
        return TOOL_DONE;
    case TK_NUMBER_RANGE:
        return tk_report_usage("%s %s=%.200s: out of the range of dtype %s", flag, a->name, text,
                               tolk_dtype_name(dtype));
    case TK_NUMBER_SYNTAX:
        break;
    }
    if (dtype == TOLK_BOOL)
        return tk_report_usage("%s %s=%.200s: expected %s%s", flag, a->name, text,
                               also[0] ? "true, false" : "true or false", also);
    return tk_report_usage("%s %s=%.200s: expected a number of dtype %s%s", flag, a->name, text,
                           tolk_dtype_name(a->info.dtype), also);
}

static int set_scalar(tolk_ctx *ctx, tk_arg *a, const char *flag, const char *text) {
    if (a->has_value)
        return tk_report_usage("%s %s: the variable has a value already", flag, a->name);
    tolk_dtype dtype = a->info.dtype == TOLK_INDEX ? TOLK_I64 : a->info.dtype;
    uint64_t bits;
    int code = read_number(ctx, dtype, flag, a, text, "", &bits);
    if (code)
        return code;
    a->value = (int64_t)bits;
    if (tolk_dtype_is_int(dtype) && !tolk_dtype_is_unsigned(dtype)) {
        unsigned unused = 64 - 8 * (unsigned)tolk_dtype_bytes(dtype);
        a->value = (int64_t)(bits << unused) >> unused;
    }
    int too_large = dtype == TOLK_U64 && a->value < 0; /* above any max that can be stated */
    if (tolk_dtype_is_int(dtype) &&
        (a->value < a->info.min || a->value > a->info.max || too_large) &&
        !(too_large && a->info.max == INT64_MAX))
        return tk_report_usage("%s %s=%.200s: expected %" PRId64 " to %" PRId64, flag, a->name,
                               text, a->info.min, a->info.max);
    a->has_value = 1;
    return TOOL_DONE;
}

/* "x", "x,y" or "x,y,z" into dims; how many, or 0 if the text is something else. */
static int split_dims(const char *text, char dims[3][24]) {
    for (int d = 0; d < 3; d++) {
        size_t len = strspn(text, "0123456789");
        if (!len || len >= sizeof dims[d])
            return 0;
        memcpy(dims[d], text, len);
        dims[d][len] = 0;
        text += len;
        if (!*text)
            return d + 1;
        if (*text++ != ',')
            return 0;
    }
    return 0;
}

/* --global 4,2: the reserved variables _grid_x, _grid_y ... */
static int set_launch_dims(tolk_ctx *ctx, tk_binding *b, const tolk_uop *kernel, const char *flag,
                           const char *text, const char *prefix) {
    if (!text)
        return TOOL_DONE;
    char dims[3][24];
    int n = split_dims(text, dims);
    if (!n)
        return tk_report_usage("%s %.100s: expected one to three whole numbers as x,y,z", flag,
                               text);
    for (int d = 0; d < n; d++) {
        char name[16];
        snprintf(name, sizeof name, "%s_%c", prefix, "xyz"[d]);
        size_t i = 0;
        while (i < b->n && strcmp(b->args[i].name, name))
            i++;
        if (i == b->n || !b->args[i].info.is_scalar)
            return tk_report_usage("%s: kernel %s takes no size from the call: it has no variable "
                                   "%s",
                                   flag, tolk_kernel_name(kernel), name);
        int code = set_scalar(ctx, &b->args[i], flag, dims[d]);
        if (code)
            return code;
    }
    return TOOL_DONE;
}

uint64_t tk_binding_random(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A value of any dtype for tests: mostly small numbers, at times an edge of the dtype. */
static uint64_t random_bits(tolk_dtype dtype, uint64_t *seed) {
    uint64_t r = tk_binding_random(seed), v = tk_binding_random(seed);
    unsigned width = 8 * (unsigned)tolk_dtype_bytes(dtype);
    if (dtype == TOLK_BOOL)
        return v & 1;
    if (r % 16 == 0)
        return v; /* any bits at all: NaN, denormals, extremes */
    if (!tolk_dtype_is_float(dtype))
        return tolk_dtype_is_unsigned(dtype) ? v % 100 : v % 201 - 100;
    /* sign, an exponent near that of 1, any mantissa */
    static const struct {
        tolk_dtype dtype;
        unsigned mantissa, bias;
    } formats[] = {{TOLK_FP8E4M3, 3, 7}, {TOLK_FP8E5M2, 2, 15}, {TOLK_F16, 10, 15},
                   {TOLK_BF16, 7, 127},  {TOLK_F32, 23, 127},   {TOLK_F64, 52, 1023}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype) {
            uint64_t exponent = formats[i].bias - 3 + (r >> 8) % 5;
            uint64_t mantissa = v & (((uint64_t)1 << formats[i].mantissa) - 1);
            if (r % 16 == 1)
                exponent = mantissa = 0;
            return exponent << formats[i].mantissa | mantissa | (v >> 63) << (width - 1);
        }
    return v;
}

static void random_scalar(tk_arg *a, uint64_t *seed) {
    uint64_t r = tk_binding_random(seed);
    if (tolk_dtype_is_int(a->info.dtype)) {
        /* Sizes are often scalars: stay near the lower bound, or near 0 if there is none. */
        int64_t lo = a->info.min < -100 && a->info.max > -100 ? -100 : a->info.min;
        uint64_t span = (uint64_t)a->info.max - (uint64_t)lo;
        a->value = (int64_t)((uint64_t)lo + r % ((span < 1000 ? span : 1000) + 1));
    } else {
        a->value = (int64_t)random_bits(a->info.dtype, seed);
        unsigned bytes = (unsigned)tolk_dtype_bytes(a->info.dtype);
        if (bytes < 8)
            a->value &= (int64_t)(((uint64_t)1 << 8 * bytes) - 1);
    }
    a->has_value = 1;
}

/* ---- buffers ---- */

static void *allocate(size_t bytes) {
    size_t room = bytes / 64 * 64 + 64;
    if (room < bytes)
        return NULL;
    return aligned_alloc(64, room);
}

static void fill(tk_arg *a, uint64_t bits) {
    size_t width = tolk_dtype_bytes(a->info.dtype);
    for (size_t i = 0; i < a->bytes; i += width)
        memcpy((char *)a->data + i, &bits, width);
}

/* How many of the first n dimensions stand before those of 1 at the end. */
static int without_ones(const int64_t *dims, int n) {
    while (n > 0 && dims[n - 1] == 1)
        n--;
    return n;
}

/* Is the array's order of elements that of the param, whatever else it holds behind them? Yes if
 * one of them is flat; else all dimensions must be the same, but for those of 1 and for more of the
 * first. */
static int has_shape(const tk_npy_header *file, const tk_arg *a) {
    if (file->rank <= 1 || a->info.rank <= 1)
        return 1;
    int64_t more = 0;
    int i = without_ones(file->dims, file->rank), k = without_ones(a->dims, (int)a->info.rank);
    while (i && k && !more) {
        more = file->dims[i - 1] - a->dims[k - 1];
        i = without_ones(file->dims, i - 1);
        k = without_ones(a->dims, k - 1);
    }
    return !i && !k && more >= 0;
}

static int load_file(tk_arg *a, const char *path) {
    char shape[256], have[256];
    const char *what;
    tk_npy_array file;
    int code = tk_arrays_load(a->name, path, &file, &what);
    if (code)
        return code;
    describe(a, shape, sizeof shape);
    if (!tk_npy_accepts(file.head.dtype, a->info.dtype)) {
        tolk_dtype carrier = tk_npy_carrier(a->info.dtype);
        tk_npy_free(&file);
        return tk_report_usage("--arg %s=%.300s: expected %s%s%s, the %s has %s", a->name, path,
                               shape, carrier != a->info.dtype ? ", its bits as " : "",
                               carrier != a->info.dtype ? tolk_dtype_name(carrier) : "", what,
                               tolk_dtype_name(file.head.dtype));
    }
    if (file.head.elems < (uint64_t)a->elems) {
        tk_npy_free(&file);
        return tk_report_usage("--arg %s=%.300s: expected %s, %" PRId64
                               " elements, the %s has %" PRIu64,
                               a->name, path, shape, a->elems, what, file.head.elems);
    }
    if (!has_shape(&file.head, a)) {
        describe_array(file.head.dtype, file.head.dims, file.head.rank, have, sizeof have);
        tk_npy_free(&file);
        return tk_report_usage("--arg %s=%.300s: expected %s, or one dimension of %" PRId64
                               " elements, the %s has %s",
                               a->name, path, shape, a->elems, what, have);
    }
    a->data = file.data;
    a->bytes = file.head.data_bytes;
    a->file_rank = file.head.rank;
    memcpy(a->file_dims, file.head.dims, sizeof a->file_dims);
    return TOOL_DONE;
}

static int size_buffer(const tolk_uop *kernel, size_t i, tk_binding *b) {
    tk_arg *a = &b->args[i];
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st =
        tolk_kernel_param_dims(kernel, i, b->vals, b->n_vals, a->dims, &a->elems, &err);
    if (st)
        return tk_report_error(NULL, st, &err);
    if (a->elems < 0 ||
        __builtin_mul_overflow((size_t)a->elems, tolk_dtype_bytes(a->info.dtype), &a->bytes) ||
        a->bytes > INT64_MAX)
        return tk_report_usage("parameter %s is too large: %" PRId64 " elements of %s", a->name,
                               a->elems, tolk_dtype_name(a->info.dtype));
    a->file_rank = (int)a->info.rank;
    memcpy(a->file_dims, a->dims, sizeof a->dims);
    return TOOL_DONE;
}

static int fill_buffer(tolk_ctx *ctx, tk_arg *a, const char *value,
                       const tk_binding_request *request) {
    char shape[256];
    describe(a, shape, sizeof shape);
    uint64_t bits = 0;
    int number = value && tk_number_is(value);
    if (value && !number) {
        int code = load_file(a, value);
        if (code)
            return code;
    } else {
        if (!value && a->info.is_loaded && !request->random)
            return tk_report_usage("parameter %s (%s) is read by the kernel: expected --arg "
                                   "%s=FILE.npy or %s=NUMBER",
                                   a->name, shape, a->name, a->name);
        int code = number ? read_number(ctx, a->info.dtype, "--arg", a, value, " or a file", &bits)
                          : TOOL_DONE;
        if (code)
            return code;
        a->data = allocate(a->bytes);
        if (!a->data)
            return tk_report_failed("cannot allocate %zu bytes for %s (%s)", a->bytes, a->name,
                                    shape);
        if (!value && a->info.is_loaded) {
            size_t width = tolk_dtype_bytes(a->info.dtype);
            for (size_t at = 0; at < a->bytes; at += width) {
                bits = random_bits(a->info.dtype, request->seed);
                memcpy((char *)a->data + at, &bits, width);
            }
        } else {
            fill(a, bits);
        }
    }
    a->given = value != NULL;
    if (a->info.is_stored && (a->info.is_loaded || a->given)) {
        a->initial = allocate(a->bytes);
        if (!a->initial)
            return tk_report_failed("cannot allocate %zu bytes for %s (%s)", a->bytes, a->name,
                                    shape);
        memcpy(a->initial, a->data, a->bytes);
    }
    return TOOL_DONE;
}

/* ---- all of them ---- */

static int bind_scalars(tolk_ctx *ctx, const tolk_uop *kernel, const tk_binding_request *request,
                        tk_binding *b, const char **values) {
    tk_arg *a;
    const char *value;
    int code = TOOL_DONE;
    for (size_t i = 0; i < request->sets.n && !code; i++) {
        code = find_param(b, kernel, "--set", request->sets.item[i], &a, &value);
        if (!code && !a->info.is_scalar)
            code = tk_report_usage("--set %s: it is a buffer: expected --arg %s=FILE.npy", a->name,
                                   a->name);
        if (!code)
            code = set_scalar(ctx, a, "--set", value);
    }
    for (size_t i = 0; i < request->args.n && !code; i++) {
        code = find_param(b, kernel, "--arg", request->args.item[i], &a, &value);
        if (code)
            break;
        if (a->info.is_scalar)
            code = set_scalar(ctx, a, "--arg", value);
        else if (values[a - b->args])
            code = tk_report_usage("--arg %s is given twice", a->name);
        else
            values[a - b->args] = value;
    }
    if (!code)
        code = set_launch_dims(ctx, b, kernel, "--global", request->grid, "_grid");
    if (!code)
        code = set_launch_dims(ctx, b, kernel, "--local", request->block, "_block");
    for (size_t i = 0; i < b->n && !code; i++) {
        a = &b->args[i];
        if (!a->info.is_scalar)
            continue;
        if (!a->has_value && request->random)
            random_scalar(a, request->seed);
        if (!a->has_value && tolk_dtype_is_int(a->info.dtype))
            return tk_report_usage("variable %s of kernel %s has no value: expected --set %s=N, "
                                   "%" PRId64 " to %" PRId64,
                                   a->name, tolk_kernel_name(kernel), a->name, a->info.min,
                                   a->info.max);
        if (!a->has_value)
            return tk_report_usage("variable %s of kernel %s has no value: expected --set "
                                   "%s=%s of dtype %s",
                                   a->name, tolk_kernel_name(kernel), a->name,
                                   a->info.dtype == TOLK_BOOL ? "true or false" : "NUMBER",
                                   tolk_dtype_name(a->info.dtype));
        b->vals[b->n_vals++] = a->value;
    }
    return code;
}

int tk_binding_make(tolk_ctx *ctx, const tolk_uop *kernel, const tk_binding_request *request,
                    tk_binding *out) {
    tk_binding b = {0};
    int code = list_params(&b, kernel);
    const char **values = calloc(b.n + 1, sizeof *values);
    if (!code && !values)
        code = tk_report_failed("out of memory");
    if (!code)
        code = bind_scalars(ctx, kernel, request, &b, values);
    for (size_t i = 0; i < request->outs.n && !code; i++) {
        tk_arg *a;
        const char *path;
        code = find_param(&b, kernel, "--out", request->outs.item[i], &a, &path);
        if (!code && (a->info.is_scalar || !a->info.is_stored))
            code = tk_report_usage("--out %s: kernel %s never stores to it", a->name,
                                   tolk_kernel_name(kernel));
        if (!code && a->out)
            code = tk_report_usage("--out %s is given twice", a->name);
        for (size_t k = 0; k < b.n && !code; k++)
            if (b.args[k].out && tk_arrays_same_output(b.args[k].out, path))
                code = tk_report_usage("--out %s=%.300s: %s goes there, too: expected another %s",
                                       a->name, path, b.args[k].name,
                                       tk_session_is_name(path) ? "name" : "file");
        if (!code)
            a->out = path;
    }
    for (size_t i = 0; i < b.n && !code; i++) {
        tk_arg *a = &b.args[i];
        if (a->info.is_scalar)
            continue;
        code = size_buffer(kernel, i, &b);
        if (!code)
            code = fill_buffer(ctx, a, values[i], request);
        b.bufs[b.n_bufs] = a->data;
        b.bytes[b.n_bufs++] = a->bytes;
    }
    free(values);
    if (code)
        tk_binding_free(&b);
    else
        *out = b;
    return code;
}

void tk_binding_free(tk_binding *b) {
    for (size_t i = 0; b->args && i < b->n; i++) {
        free(b->args[i].data);
        free(b->args[i].initial);
    }
    free(b->args);
    free(b->bufs);
    free(b->bytes);
    free(b->vals);
    *b = (tk_binding){0};
}

void tk_binding_rewind(tk_binding *b) {
    for (size_t i = 0; i < b->n; i++) {
        tk_arg *a = &b->args[i];
        if (a->initial)
            memcpy(a->data, a->initial, a->bytes);
        else if (!a->info.is_scalar && a->info.is_stored)
            memset(a->data, 0, a->bytes);
    }
}

int tk_binding_save(const tk_binding *b) {
    int code = TOOL_DONE;
    for (size_t i = 0; i < b->n && !code; i++) {
        const tk_arg *a = &b->args[i];
        if (a->out)
            code = tk_arrays_save(a->name, a->out, a->info.dtype, a->file_rank, a->file_dims,
                                  a->data, a->bytes);
    }
    return code;
}
