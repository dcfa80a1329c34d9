/* SPDX-License-Identifier: MIT
 *
 * One context, so that compiled kernels stay in memory; arrays and kernels by name. A kernel is
 * kept as the text of its file: the library finds the compiled code by it.
 */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

typedef struct session {
    tolk_ctx *ctx; /* NULL: there is no session */
    tk_array *arrays;
    size_t n_arrays;
    tk_kept_kernel *kernels;
    size_t n_kernels;
} session;

static session s;

int tk_session_begin(void) {
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    s = (session){.ctx = ctx};
    return TOOL_DONE;
}

static void free_kernel(tk_kept_kernel *k) {
    free(k->file);
    free(k->text);
}

void tk_session_end(void) {
    for (size_t i = 0; i < s.n_arrays; i++)
        free(s.arrays[i].data);
    for (size_t i = 0; i < s.n_kernels; i++)
        free_kernel(&s.kernels[i]);
    free(s.arrays);
    free(s.kernels);
    tolk_ctx_destroy(s.ctx);
    s = (session){0};
}

int tk_session_is_on(void) {
    return s.ctx != NULL;
}

tolk_ctx *tk_session_context(void) {
    return s.ctx;
}

int tk_session_is_name(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    size_t n = strlen(text);
    return s.ctx && n && n < sizeof s.arrays->name && strchr(letters, text[0]) &&
           strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == n &&
           !tk_number_is(text);
}

/* ---- arrays ---- */

static tk_array *find_array(const char *name) {
    for (size_t i = 0; i < s.n_arrays; i++)
        if (!strcmp(s.arrays[i].name, name))
            return &s.arrays[i];
    return NULL;
}

const tk_array *tk_session_array(const char *name) {
    return find_array(name);
}

const tk_array *tk_session_array_at(size_t i) {
    return i < s.n_arrays ? &s.arrays[i] : NULL;
}

int tk_session_keep_array(const char *name, tolk_dtype dtype, int rank, const int64_t *dims,
                          const void *data, size_t bytes) {
    void *copy = malloc(bytes ? bytes : 1);
    tk_array *a = find_array(name);
    if (copy && !a) {
        tk_array *more = realloc(s.arrays, (s.n_arrays + 1) * sizeof *more);
        if (more) {
            s.arrays = more;
            a = &more[s.n_arrays++];
            memset(a, 0, sizeof *a);
        }
    }
    if (!copy || !a) {
        free(copy);
        return tk_report_failed("out of memory for array %.60s (%zu bytes)", name, bytes);
    }
    free(a->data);
    snprintf(a->name, sizeof a->name, "%s", name);
    a->dtype = dtype;
    a->rank = rank;
    memcpy(a->dims, dims, (size_t)rank * sizeof *dims);
    memcpy(copy, data, bytes);
    a->data = copy;
    a->bytes = bytes;
    return TOOL_DONE;
}

/* ---- kernels ---- */

static tk_kept_kernel *find_kernel(const char *name) {
    for (size_t i = 0; i < s.n_kernels; i++)
        if (!strcmp(s.kernels[i].name, name))
            return &s.kernels[i];
    return NULL;
}

const tk_kept_kernel *tk_session_kernel(const char *name) {
    return find_kernel(name);
}

const tk_kept_kernel *tk_session_kernel_at(size_t i) {
    return i < s.n_kernels ? &s.kernels[i] : NULL;
}

static void keep_kernel(const char *name, const tk_source *source, const char *file) {
    tk_kept_kernel fresh = {
        .file = strdup(file), .text = malloc(source->len + 1), .len = source->len};
    tk_kept_kernel *k = find_kernel(name);
    if (fresh.file && fresh.text && !k) {
        tk_kept_kernel *more = realloc(s.kernels, (s.n_kernels + 1) * sizeof *more);
        if (more) {
            s.kernels = more;
            k = &more[s.n_kernels++];
            memset(k, 0, sizeof *k);
        }
    }
    if (!fresh.file || !fresh.text || !k) { /* then it is not kept: the file is still there */
        free_kernel(&fresh);
        return;
    }
    free_kernel(k);
    snprintf(fresh.name, sizeof fresh.name, "%s", name);
    memcpy(fresh.text, source->text, source->len);
    fresh.text[source->len] = 0;
    *k = fresh;
}

void tk_session_keep_kernels(const tk_source *source, const char *file) {
    if (!s.ctx || source->kept || !strcmp(file, "-"))
        return;
    const tolk_uop *kernel;
    for (size_t i = 0; (kernel = tk_source_at(source, i)); i++)
        keep_kernel(tolk_kernel_name(kernel), source, file);
}

int tk_session_drop(const char *name) {
    tk_array *a = find_array(name);
    tk_kept_kernel *k = find_kernel(name);
    if (a) {
        free(a->data);
        memmove(a, a + 1, (size_t)(s.arrays + s.n_arrays - a - 1) * sizeof *a);
        s.n_arrays--;
    }
    if (k) {
        free_kernel(k);
        memmove(k, k + 1, (size_t)(s.kernels + s.n_kernels - k - 1) * sizeof *k);
        s.n_kernels--;
    }
    return a || k;
}
