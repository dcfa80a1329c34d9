/* SPDX-License-Identifier: MIT
 *
 * Facts about dtypes that only the library needs.
 */
#ifndef TK_IR_DTYPE_H
#define TK_IR_DTYPE_H

#include <tolk/dtype.h>

#include <stdbool.h>

static inline bool tk_dtype_valid(tolk_dtype dt) {
    return (dt & 0xff) < TOLK_DTYPE_COUNT && (dt >> 8) <= 6 && !((dt & 0xff) == 0 && dt != 0);
}
static inline tolk_dtype tk_dtype_scalar(tolk_dtype dt) {
    return dt & 0xff;
}
/* The scalar kind of dt with the lanes of like. */
static inline tolk_dtype tk_dtype_like(tolk_dtype dt, tolk_dtype like) {
    return (dt & 0xff) | (like & ~(tolk_dtype)0xff);
}
/* Bits of one element: bool counts 8. */
uint32_t tk_dtype_bits(tolk_dtype dt);
bool tk_dtype_is_signed(tolk_dtype dt); /* i8..i64, index */
/* Bits of a scalar in canonical form: sign- or zero-extended, floats masked, bool != 0 as 1. */
uint64_t tk_dtype_canon(tolk_dtype dt, uint64_t bits);
/* Least and greatest value of an integer dtype or bool; u64's greatest is given as INT64_MAX. */
int64_t tk_dtype_min(tolk_dtype dt);
int64_t tk_dtype_max(tolk_dtype dt);
/* "f32x4": at most 15 characters and a NUL. Returns buf. */
const char *tk_dtype_text(tolk_dtype dt, char buf[16]);

/* f16, bf16 or fp8: computed in a wider float and rounded. Lanes are ignored. */
static inline bool tk_dtype_is_narrow_float(tolk_dtype dtype) {
    return tolk_dtype_is_float(dtype) && tolk_dtype_bytes(tk_dtype_scalar(dtype)) < 4;
}

#endif
