/* SPDX-License-Identifier: MIT
 *
 * The layout of DLPack 1.x in memory, as its specification gives it (dmlc.github.io/dlpack): what
 * is exchanged with other libraries. Declared here, so that nothing else is needed to build.
 */
#ifndef TK_REALIZE_DLPACK_ABI_H
#define TK_REALIZE_DLPACK_ABI_H

#include <stddef.h>
#include <stdint.h>

/* The version that this is, and the lowest one with fp8. Another major one has another layout. */
enum { TK_DLPACK_MAJOR = 1, TK_DLPACK_MINOR = 1 };

/* Kinds of devices and of elements, of which many more exist; bits of flags. */
enum { TK_DLPACK_CPU = 1 };
enum {
    TK_DLPACK_INT = 0,
    TK_DLPACK_UINT = 1,
    TK_DLPACK_FLOAT = 2,
    TK_DLPACK_BFLOAT = 4,
    TK_DLPACK_BOOL = 6,
    TK_DLPACK_FLOAT8_E4M3FN = 10,
    TK_DLPACK_FLOAT8_E5M2 = 12
};
enum { TK_DLPACK_READ_ONLY = 1 };

typedef struct tk_dlpack_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} tk_dlpack_dtype;

typedef struct tk_dlpack_tensor {
    void *data;
    int32_t device_kind, device_id;
    int32_t rank;
    tk_dlpack_dtype dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL before 1.2: row-major */
    uint64_t byte_offset; /* of the first element, from data */
} tk_dlpack_tensor;

/* The tag is that of <tolk/device.h>, and the specification's. */
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* NULL: nothing to do */
    uint64_t flags;
    tk_dlpack_tensor tensor;
};

#endif
