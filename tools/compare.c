/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <string.h>

static uint64_t bits_at(const void *p, size_t width, size_t i) {
    uint64_t v = 0;
    memcpy(&v, (const char *)p + i * width, width); /* little endian, as all of tolk's targets */
    return v;
}

/* Largest magnitude that is no NaN, sign bit cleared; 0 for a dtype without NaN. */
static uint64_t largest_number(tolk_dtype dtype) {
    switch (dtype) {
    case TOLK_FP8E4M3:
        return 0x7e; /* no infinity: only the last code is NaN */
    case TOLK_FP8E5M2:
        return 0x7c;
    case TOLK_F16:
        return 0x7c00;
    case TOLK_BF16:
        return 0x7f80;
    case TOLK_F32:
        return 0x7f800000;
    case TOLK_F64:
        return 0x7ff0000000000000;
    default:
        return 0;
    }
}

size_t tk_compare_first(tolk_dtype dtype, const void *a, const void *b, size_t n) {
    size_t width = tolk_dtype_bytes(dtype);
    uint64_t largest = largest_number(dtype);
    uint64_t magnitude = width == 8 ? INT64_MAX : ((uint64_t)1 << (8 * width - 1)) - 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = bits_at(a, width, i), y = bits_at(b, width, i);
        if (x == y)
            continue;
        if (dtype == TOLK_BOOL && x && y)
            continue;
        if (largest && (x & magnitude) > largest && (y & magnitude) > largest)
            continue;
        return i;
    }
    return n;
}
