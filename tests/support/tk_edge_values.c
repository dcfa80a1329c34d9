/* SPDX-License-Identifier: MIT */
#include "support/tk_edge.h"

#include "ir/dtype.h"

#include <math.h>
#include <string.h>

const tolk_dtype tk_edge_dtypes[TK_EDGE_DTYPES] = {
    TOLK_BOOL, TOLK_I8,  TOLK_I16, TOLK_I32, TOLK_I64, TOLK_U8,
    TOLK_U16,  TOLK_U32, TOLK_U64, TOLK_F32, TOLK_F64,
};

typedef struct list {
    tolk_dtype dtype;
    uint64_t *at;
    size_t n;
} list;

static void put(list *l, uint64_t bits) {
    if (l->dtype != TOLK_BOOL)
        bits = tk_dtype_canon(l->dtype, bits);
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == bits)
            return;
    assert_true(l->n < TK_EDGE_VALUES);
    l->at[l->n++] = bits;
}

/* ---- integers ---- */

static void put_ints(list *l, bool more) {
    const unsigned width = tk_dtype_bits(l->dtype);
    const uint64_t top = (uint64_t)1 << (width - 1);
    /* small numbers; counts of shifts at and beyond each width; the ends, and what is beside them
     */
    static const int64_t small[] = {0,  1,  -1,  2,   -2,  3,   -3,  5,   7,    -7,
                                    8,  -8, 10,  15,  16,  17,  31,  32,  33,   63,
                                    64, 65, 100, 127, 128, 129, 255, 256, -100, -128};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        put(l, (uint64_t)small[i]);
    const uint64_t ends[] = {top, top + 1, top - 1, top - 2, top / 2, 0 - top / 2, top / 2 - 1};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        put(l, ends[i]);
    put(l, 0x5555555555555555);
    put(l, 0xaaaaaaaaaaaaaaaa);
    put(l, (uint64_t)1 << width / 2);
    put(l, ((uint64_t)1 << width / 2) - 1);
    put(l, 0 - ((uint64_t)1 << width / 2));
    if (!more)
        return;
    /* every power of two, its neighbours and negatives; what floats of 24 and 53 bits round: ties
     * to even both ways, and sums that would round twice through the wider one */
    for (unsigned k = 2; k < width; k++)
        for (int64_t d = -1; d <= 1; d++)
            if (k > 20 || k < 9)
                put(l, ((uint64_t)1 << k) + (uint64_t)d);
    static const uint64_t odd[] = {0x1000001,          0x1000003,          0x2000002,
                                   0x2000006,          0x20000000000001,   0x20000000000003,
                                   0x20000020000001,   0x2000001fffffff,   0x7fffffbfffffffff,
                                   0x7fffffc000000000, 0x7fffffffffffffff, 0x7ffffffffffffc00,
                                   0x7ffffffffffffdff, 0x7ffffffffffffe00, 0xfffffffffffffbff,
                                   0xfffffffffffffc00, 0xffffff7fffffffff, 0xffffff8000000000};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put(l, odd[i]);
        put(l, 0 - odd[i]);
    }
}

/* ---- floats ---- */

static uint64_t bits_of(tolk_dtype dtype, double v) {
    float f = (float)v;
    uint32_t u32;
    uint64_t u64;
    memcpy(&u32, &f, sizeof u32);
    memcpy(&u64, &v, sizeof u64);
    return dtype == TOLK_F32 ? u32 : u64;
}

/* v, its neighbours, and their negatives. */
static void put_around(list *l, double v) {
    const uint64_t b = bits_of(l->dtype, v), sign = bits_of(l->dtype, -0.0);
    for (int d = -1; d <= 1; d++) {
        put(l, b + (uint64_t)(int64_t)d);
        put(l, (b + (uint64_t)(int64_t)d) | sign);
    }
}

static void put_floats(list *l, bool more) {
    const bool f32 = l->dtype == TOLK_F32;
    const unsigned digits = f32 ? 23 : 52;
    const uint64_t sign = bits_of(l->dtype, -0.0), inf = bits_of(l->dtype, HUGE_VAL);
    const uint64_t quiet = (uint64_t)1 << (digits - 1), step = (uint64_t)1 << digits;
    /* zero, the denormals' ends, the least normal, the largest, infinity; NaNs: quiet, signalling,
     * with a payload */
    const uint64_t raw[] = {0,        1,       2,   step / 2,    step - 1, step,
                            step + 1, inf - 1, inf, inf | quiet, inf | 1,  inf | quiet | 0x1234};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        put(l, raw[i]);
        put(l, raw[i] | sign);
    }
    static const double small[] = {1,       0.5,    1.5,  2,       2.5,     3,        1.0 / 3,
                                   10,      0.75,   0.99, 0x1p-60, 0x1p60,  1e-20,    0x1p24,
                                   0x1p-24, 100.25, 3.25, 7,       0x1p-70, 0x1.8p-75};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        put(l, bits_of(l->dtype, small[i]));
        put(l, bits_of(l->dtype, -small[i]));
    }
    put(l, bits_of(l->dtype, 1) + 1);
    put(l, bits_of(l->dtype, 1) - 1);
    /* squares and products that just overflow, are denormal, and vanish */
    static const double edge32[] = {0x1p64, 0x1.fffffep63, 0x1p-75, 0x1p-63, 0x1p127, 0x1p-126};
    static const double edge64[] = {0x1p512,  0x1.fffffffffffffp511, 0x1p-538, 0x1p-511, 0x1p1023,
                                    0x1p-1022};
    for (size_t i = 0; i < 6; i++)
        put(l, bits_of(l->dtype, f32 ? edge32[i] : edge64[i]));
    if (!more)
        return;
    /* the ends of every integer dtype, between them and beside them, and where fractions end */
    static const double ends[] = {127,    127.5,  128,     128.5,  129,    255,    255.5,
                                  256,    32767,  32767.5, 32768,  32769,  65535,  65535.5,
                                  65536,  0x1p22, 0x1p23,  0x1p31, 0x1p32, 0x1p52, 0x1p53,
                                  0x1p62, 0x1p63, 0x1p64,  0x1p65, 1e10,   1e20,   2147483647.5};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        put_around(l, ends[i]);
}

/* What f64 values round to in f32: ties to even, the overflow, denormals and what is half of the
 * least one. */
static void put_f32_ties(list *l) {
    static const double v[] = {0x1.000001p0,   0x1.000003p0,   0x1.fffffefp127, 0x1.fffffep127,
                               0x1.ffffffp127, 0x1p128,        0x1p-149,        0x1p-150,
                               0x1.8p-149,     0x1.4p-148,     0x1.fffffep-127, 0x1.fffffdp-127,
                               0x1.00001p-140, 0x1.000008p-130};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        put_around(l, v[i]);
}

size_t tk_edge_values(tolk_dtype dtype, bool more, uint64_t *out) {
    list l = {dtype, out, 0};
    if (dtype == TOLK_BOOL) {
        static const uint64_t bytes[] = {0, 1, 2, 0x7f, 0x80, 0xff};
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
            put(&l, bytes[i]);
    } else if (!tolk_dtype_is_float(dtype)) {
        put_ints(&l, more);
    } else {
        put_floats(&l, more);
        if (more && dtype == TOLK_F64)
            put_f32_ties(&l);
    }
    return l.n;
}
