/* SPDX-License-Identifier: MIT
 *
 * WMMA: D = A B + C on matrices of M x K, K x N and M x N.
 *
 * With threads=1 each operand holds its whole matrix, row by row. With threads=32 the work-items of
 * a warp hold fragments as PTX lays them out for mma.sync (M x N = 16 x 8, K = 4R or 8R, where R is
 * 4 over the bytes of an element of A). With g = item / 4 and t = item % 4, element i is of A row g
 * + 8 ((i / R) % 2),          column R t + i % R + 4 R (i / 2R) B     row R t + i % R + 4 R (i /
 * R),    column g C, D  row g + 8 (i / 2),                column 2 t + i % 2
 */
#include "ir/dtype.h"
#include "ir/interp_plan.h"
#include "ir/narrow.h"
#include "ir/scalar.h"

#include <math.h>

typedef struct shape {
    int64_t m, n, k;
    size_t bytes; /* of an element of A and B */
    bool shared;  /* among 32 work-items */
} shape;

/* R above. */
static uint32_t run_of(const shape *s) {
    return 4 / (uint32_t)s->bytes;
}

static bool has_layout(const shape *s) {
    if (s->m != 16 || s->n != 8 || s->bytes > 4)
        return false;
    int64_t least = 4 * run_of(s);
    return s->k == least || s->k == 2 * least;
}

/* Where element i of the operand (0: A, 1: B, 2: C) of a work-item lies in its matrix. */
static size_t place(const shape *s, int operand, uint32_t item, uint32_t i) {
    uint32_t g = item / 4, t = item % 4, run = run_of(s);
    if (!s->shared)
        return i;
    switch (operand) {
    case 0: {
        uint32_t row = g + 8 * ((i / run) % 2);
        uint32_t col = run * t + i % run + 4 * run * (i / (2 * run));
        return row * (size_t)s->k + col;
    }
    case 1: {
        uint32_t row = run * t + i % run + 4 * run * (i / run);
        return row * (size_t)s->n + g;
    }
    default:
        return (g + 8 * (i / 2)) * (size_t)s->n + 2 * t + i % 2;
    }
}

/* One element of the result. Products of floats narrower than f64 are exact in f64. */
static uint64_t element(const shape *s, tolk_dtype from, tolk_dtype to, const uint64_t *a,
                        const uint64_t *b, uint64_t c) {
    if (!tolk_dtype_is_float(to)) {
        uint64_t sum = c;
        for (int64_t k = 0; k < s->k; k++)
            sum += tk_scalar_cast(from, to, a[k]) * tk_scalar_cast(from, to, b[k * s->n]);
        return tk_dtype_canon(to, sum);
    }
    double sum = tk_narrow_widen(to, c);
    for (int64_t k = 0; k < s->k; k++) {
        double x = tk_narrow_widen(TOLK_F64, tk_scalar_cast(from, TOLK_F64, a[k]));
        double y = tk_narrow_widen(TOLK_F64, tk_scalar_cast(from, TOLK_F64, b[k * s->n]));
        sum = fma(x, y, sum);
    }
    return tk_narrow_round(to, sum);
}

static tolk_status check(const tk_interp *in, const tk_interp_node *k, const shape *s, uint32_t n) {
    const int64_t want[3] = {s->m * s->k, s->k * s->n, s->m * s->n};
    if (s->shared && !has_layout(s))
        return tk_status_fail(in->err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "wmma: no fragments of 32 threads for %lld x %lld x %lld",
                              (long long)s->m, (long long)s->n, (long long)s->k);
    if (s->shared && n != 32)
        return tk_status_fail(in->err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "wmma: threads=32 in a warp of %u work-items", n);
    for (uint32_t i = 0; i < 3; i++)
        if (tk_interp_node_at(in, tk_interp_src(in, k, i))->width * (int64_t)n != want[i])
            return tk_status_fail(in->err, TOLK_E_VERIFY, TK_NO_NODE,
                                  "wmma: operand %u has %u elements, expected %lld / %u", i,
                                  tk_interp_node_at(in, tk_interp_src(in, k, i))->width,
                                  (long long)want[i], n);
    return TOLK_OK;
}

tolk_status tk_interp_wmma(tk_interp *in, tk_interp_item *items, uint32_t n, uint32_t node) {
    const tk_interp_node *k = tk_interp_node_at(in, node), *src[3];
    const tk_blob *dims = tk_uop_attr(k->u, TK_A_WMMA_DIMS).blob;
    for (uint32_t i = 0; i < 3; i++)
        src[i] = tk_interp_node_at(in, tk_interp_src(in, k, i));
    if (!dims || dims->n != 3)
        return tk_status_fail(in->err, TOLK_E_VERIFY, TK_NO_NODE, "wmma: expected 3 dims");
    shape s = {.m = dims->ints[0],
               .n = dims->ints[1],
               .k = dims->ints[2],
               .bytes = tolk_dtype_bytes(src[0]->dt),
               .shared = tk_uop_int(k->u, TK_A_WMMA_THREADS) != 1};
    for (int i = 0; i < 3; i++)
        if (dims->ints[i] < 1 || dims->ints[i] > 1024 || s.bytes == 0)
            return tk_status_fail(in->err, TOLK_E_VERIFY, TK_NO_NODE, "wmma: bad dims or dtype");
    TK_TRY(check(in, k, &s, n));
    size_t words = (size_t)(s.m * s.k + s.k * s.n + s.m * s.n);
    uint64_t *matrix[3] = {tk_alloc(in->al, words * sizeof **matrix)};
    if (!matrix[0])
        return tk_status_nomem(in->err);
    matrix[1] = matrix[0] + s.m * s.k;
    matrix[2] = matrix[1] + s.k * s.n;
    for (uint32_t w = 0; w < n; w++)
        for (int o = 0; o < 3; o++)
            for (uint32_t i = 0; i < src[o]->width; i++)
                matrix[o][place(&s, o, w, i)] = items[w].val[src[o]->val + i];
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t i = 0; i < k->width; i++) {
            size_t at = place(&s, 2, w, i);
            const uint64_t *a = matrix[0] + at / (size_t)s.n * (size_t)s.k;
            const uint64_t *b = matrix[1] + at % (size_t)s.n;
            items[w].val[k->val + i] = element(&s, src[0]->dt, k->dt, a, b, matrix[2][at]);
        }
    tk_alloc_free(in->al, matrix[0], words * sizeof **matrix);
    return TOLK_OK;
}
