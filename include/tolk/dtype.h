/* SPDX-License-Identifier: MIT
 *
 * Data types: a scalar kind and a number of lanes.
 */
#ifndef TOLK_DTYPE_H
#define TOLK_DTYPE_H

#include <tolk/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text, bytes of one element in memory, class.
 * `index` holds loop counters and element offsets: a 64-bit signed integer that never lives in a
 * buffer. Values are pinned. */
/* clang-format off */
#define TOLK_DTYPE_MAP(X)                 \
    X(TOLK_VOID,     0, "void",     0, V) \
    X(TOLK_INDEX,    1, "index",    8, S) \
    X(TOLK_BOOL,     2, "bool",     1, B) \
    X(TOLK_I8,       3, "i8",       1, S) \
    X(TOLK_I16,      4, "i16",      2, S) \
    X(TOLK_I32,      5, "i32",      4, S) \
    X(TOLK_I64,      6, "i64",      8, S) \
    X(TOLK_U8,       7, "u8",       1, U) \
    X(TOLK_U16,      8, "u16",      2, U) \
    X(TOLK_U32,      9, "u32",      4, U) \
    X(TOLK_U64,     10, "u64",      8, U) \
    X(TOLK_FP8E4M3, 11, "fp8e4m3",  1, F) \
    X(TOLK_FP8E5M2, 12, "fp8e5m2",  1, F) \
    X(TOLK_BF16,    13, "bf16",     2, F) \
    X(TOLK_F16,     14, "f16",      2, F) \
    X(TOLK_F32,     15, "f32",      4, F) \
    X(TOLK_F64,     16, "f64",      8, F)
/* clang-format on */

/* Scalar kind in the low byte, log2 of the lanes (0..6) in the next: TOLK_F32 is one f32,
 * tolk_dtype_vec(TOLK_F32, 8) is f32x8. Lanes exist at the program stage only. */
typedef uint32_t tolk_dtype;

enum {
#define TOLK_DTYPE_ENUM(name, value, text, bytes, cls) name = value,
    TOLK_DTYPE_MAP(TOLK_DTYPE_ENUM)
#undef TOLK_DTYPE_ENUM
        TOLK_DTYPE_COUNT = 17,
    TOLK_MAX_LANES = 64
};

/* dtype of `lanes` elements of a scalar kind; lanes: 1, 2, 4 .. 64, else TOLK_VOID is returned. */
TOLK_API tolk_dtype tolk_dtype_vec(tolk_dtype scalar, uint32_t lanes);
/* Its scalar kind. */
TOLK_API tolk_dtype tolk_dtype_scalar(tolk_dtype dtype);
/* Its number of lanes, 1 .. 64. */
TOLK_API uint32_t tolk_dtype_lanes(tolk_dtype dtype);
/* Bytes of one element in memory; 0 for void. */
TOLK_API size_t tolk_dtype_bytes(tolk_dtype dtype);
/* Scalar name ("f32"); "?" for a value that is none. */
TOLK_API const char *tolk_dtype_name(tolk_dtype dtype);
/* Read a name with its lanes ("f32x4"). Returns 1 and sets *out, or 0. */
TOLK_API int tolk_dtype_parse(const char *text, size_t len, tolk_dtype *out);

TOLK_API int tolk_dtype_is_float(tolk_dtype dtype);
TOLK_API int tolk_dtype_is_int(tolk_dtype dtype);      /* integers and index, not bool */
TOLK_API int tolk_dtype_is_unsigned(tolk_dtype dtype); /* u8 .. u64 and bool */

#ifdef __cplusplus
}
#endif
#endif
