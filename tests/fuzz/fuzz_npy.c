/* SPDX-License-Identifier: MIT
 *
 * The .npy header reader on arbitrary bytes: no crash, no hang, and what it accepts is consistent
 * and within the bytes given.
 */
#include "../../tools/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "fuzz_npy: %s\n", what);
        abort(); /* how a fuzzer is told of a finding */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char err[NPY_ERR_BYTES] = "";
    tk_npy_header h;
    /* An exact copy on the heap, so that a read past the end is seen. */
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "no memory");
    if (size)
        memcpy(copy, data, size);
    if (tk_npy_parse(copy, size, &h, err)) {
        check(h.data_offset <= size, "header larger than the file");
        check(h.rank >= 0 && h.rank <= NPY_MAX_RANK, "rank");
        check(tolk_dtype_bytes(h.dtype) > 0, "dtype");
        check(h.data_bytes == h.elems * tolk_dtype_bytes(h.dtype), "bytes");
        uint64_t n = 1;
        for (int i = 0; i < h.rank; i++) {
            check(h.dims[i] >= 0, "negative dimension");
            n *= (uint64_t)h.dims[i];
        }
        check(n == h.elems, "elements");
    } else {
        check(err[0] && !strchr(err, '\n'), "an error is one line of text");
    }
    free(copy);
    return 0;
}
