/* SPDX-License-Identifier: MIT
 *
 * Short names for the cases: rows of operands and results, and constants in text.
 */
#ifndef TK_CASE_H
#define TK_CASE_H

#include "support/tk_kernel.h"

#include "ir/dtype.h"
#include "ir/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { CASE_ROWS = 32 };

/* Operands and results as numbers. */
typedef struct case_rows {
    uint64_t a[CASE_ROWS], b[CASE_ROWS], want[CASE_ROWS];
} case_rows;

static inline uint64_t case_bits(tolk_dtype dtype, double v) {
    if (tolk_dtype_is_float(dtype))
        return tk_kernel_float(dtype, v);
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

/* body over rows of numbers, which their dtypes hold exactly or round once. b may be NULL. */
static inline void case_run(const char *body, tolk_dtype in, tolk_dtype out, const double *a,
                            const double *b, const double *want, size_t n) {
    case_rows r;
    assert_true(n <= CASE_ROWS);
    for (size_t i = 0; i < n; i++) {
        r.a[i] = case_bits(in, a[i]);
        r.b[i] = b ? case_bits(in, b[i]) : 0;
        r.want[i] = case_bits(out, want[i]);
    }
    const tk_kernel_rows rows = {in, b ? in : TOLK_VOID, out, r.a, r.b, r.want, n, NULL};
    tk_kernel_elementwise(body, &rows);
}

/* The same with the dtype's name for each %s of the body: at most 8. */
static inline void case_run_as(const char *body, tolk_dtype in, tolk_dtype out, const double *a,
                               const double *b, const double *want, size_t n) {
    char text[1024];
    const char *d = tolk_dtype_name(in);
    size_t len = 0;
    for (const char *p = body; *p; p++) {
        bool is_name = p[0] == '%' && p[1] == 's';
        int k = is_name ? snprintf(text + len, sizeof text - len, "%s", d)
                        : snprintf(text + len, sizeof text - len, "%c", *p);
        len += (size_t)k;
        p += is_name;
    }
    case_run(text, in, out, a, b, want, n);
}

#endif
