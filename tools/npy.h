/* SPDX-License-Identifier: MIT
 *
 * Reader and writer of NumPy's .npy files (format versions 1, 2 and 3): C order, little endian,
 * bool, i8-i64, u8-u64, f16, f32, f64. NumPy has no bf16 and no fp8; their bits travel as u16, u8.
 *
 * Every failure leaves one line of text in `err` (NPY_ERR_BYTES long) and returns 0.
 */
#ifndef TK_TOOLS_NPY_H
#define TK_TOOLS_NPY_H

#include <tolk/dtype.h>

enum {
    NPY_MAX_RANK = 64,
    NPY_ERR_BYTES = 256,
    NPY_MAX_HEADER_BYTES = 1 << 20 /* NumPy itself stops at 10,000 unless told otherwise */
};

typedef struct tk_npy_header {
    tolk_dtype dtype;
    int rank;
    int64_t dims[NPY_MAX_RANK];
    uint64_t elems;
    uint64_t data_bytes;
    uint64_t data_offset; /* of the first element, in the file */
} tk_npy_header;

typedef struct tk_npy_array {
    tk_npy_header head;
    void *data; /* from malloc, never NULL after a load; tk_npy_free() it */
} tk_npy_array;

/* How many bytes from the start of a file hold the whole header. `bytes` has the first n of them,
 * at least 12 or all there are. 0 and a message if these cannot begin a .npy file. */
uint64_t tk_npy_header_bytes(const void *bytes, size_t n, char *err);

/* Read a header. bytes: the first n bytes of the file, which must include the whole header.
 * The array's size is computed with care, but not compared with the file: callers do that. */
int tk_npy_parse(const void *bytes, size_t n, tk_npy_header *out, char *err);

/* Read a file. A regular file must be exactly as long as its header says; a pipe is read up to its
 * end. *out is untouched on failure. */
int tk_npy_load(const char *path, tk_npy_array *out, char *err);
void tk_npy_free(tk_npy_array *a);

/* May an array of dtype `file` be the data of a param of dtype `param`? Equal, or the carrier. */
int tk_npy_accepts(tolk_dtype file, tolk_dtype param);
/* The dtype that carries `dtype` in a file: itself, u16 for bf16, u8 for the fp8s. */
tolk_dtype tk_npy_carrier(tolk_dtype dtype);

/* Write a file through a temporary one beside it and a rename, so that a failure (a full disk, a
 * signal) leaves an older file of that name as it was. What is no regular file (a pipe, /dev/null)
 * is written in place. */
int tk_npy_save(const char *path, tolk_dtype dtype, int rank, const int64_t *dims, const void *data,
                char *err);

#endif
