/* SPDX-License-Identifier: MIT
 *
 * What --arg NAME=WHERE takes and --out NAME=WHERE leaves: .npy files, and at the prompt arrays
 * that it keeps by name.
 */
#include "npy.h"
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* A copy of an array that the prompt keeps. 0: there is none of that name, or no memory. */
static int copy_kept(const char *name, tk_npy_array *out) {
    const tk_array *kept = tk_session_array(name);
    void *data = kept ? malloc(kept->bytes ? kept->bytes : 1) : NULL;
    if (!data)
        return 0;
    memcpy(data, kept->data, kept->bytes);
    *out = (tk_npy_array){.head = {.dtype = kept->dtype, .rank = kept->rank}, .data = data};
    memcpy(out->head.dims, kept->dims, sizeof out->head.dims);
    out->head.data_bytes = kept->bytes;
    out->head.elems = kept->bytes / tolk_dtype_bytes(kept->dtype);
    return 1;
}

int tk_arrays_load(const char *name, const char *where, struct tk_npy_array *out,
                   const char **what) {
    char err[NPY_ERR_BYTES];
    int kept = copy_kept(where, out);
    *what = kept ? "array" : "file";
    if (kept || tk_npy_load(where, out, err))
        return TOOL_DONE;
    if (tk_session_is_name(where))
        return tk_report_usage("--arg %.100s=%.300s: there is no array of that name, and no file "
                               "either: expected a name that `arrays` lists, a .npy file or a "
                               "number",
                               name, where);
    return tk_report_usage("--arg %.100s=%.300s: %s", name, where, err);
}

int tk_arrays_save(const char *name, const char *where, tolk_dtype dtype, int rank,
                   const int64_t *dims, const void *data, size_t bytes) {
    char err[NPY_ERR_BYTES];
    if (tk_session_is_name(where))
        return tk_session_keep_array(where, dtype, rank, dims, data, bytes);
    return tk_npy_save(where, dtype, rank, dims, data, err)
               ? TOOL_DONE
               : tk_report_failed("--out %.100s=%.300s: %s", name, where, err);
}

int tk_arrays_same_output(const char *a, const char *b) {
    int name_a = tk_session_is_name(a), name_b = tk_session_is_name(b);
    return name_a || name_b ? !strcmp(a, b) : tk_source_same_output(a, b);
}
