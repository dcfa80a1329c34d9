/* SPDX-License-Identifier: MIT
 *
 * Kernels in text, run on given arrays by every engine there is and compared bit for bit: with the
 * values that a case states, and in memory that shows every access beside an array.
 */
#ifndef TK_KERNEL_H
#define TK_KERNEL_H

#include "support/tk_test.h"

#include <tolk/tolk.h>

/* One way to run a kernel; as tolk_interpret(). */
typedef tolk_status (*tk_kernel_engine)(const tolk_uop *kernel, void *const *bufs,
                                        const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                        size_t n_vals, tolk_error *err);

/* The engines: the interpreter, and what a test's main() adds (compilers for some CPU). Names live
 * as long as the process. fma: math functions are those of a target with FMA.
 *
 * What compilers do not have (wmma) an added engine has to refuse with
 * TOLK_E_UNSUPPORTED. */
void tk_kernel_add_engine(const char *name, tk_kernel_engine fn, bool fma);

/* One buffer argument. */
typedef struct tk_kernel_arg {
    tolk_dtype dtype;
    size_t n;                /* elements */
    const void *data;        /* before the run; NULL: filled with bytes 0xee */
    const void *want;        /* after it; NULL: as before */
    const void *want_no_fma; /* after it on a target without FMA; NULL: the same */
} tk_kernel_arg;

/* An argument from a C array that the kernel only reads, and one that it writes. */
#define TK_KERNEL_IN(dtype, array) {dtype, sizeof(array) / sizeof *(array), array, NULL, NULL}
#define TK_KERNEL_OUT(dtype, array) {dtype, sizeof(array) / sizeof *(array), NULL, array, NULL}

/* Run text on every engine, with each array aligned to 64 bytes, one element off, ending at an
 * unmapped page and beginning behind one; canaries stand beside it otherwise. Fails the test if a
 * status is not `status`, an array is not as wanted, or something beside it changed.
 *
 *   args, vals: in ascending slot order.
 */
void tk_kernel_run(const char *text, const tk_kernel_arg *args, size_t n_args, const int64_t *vals,
                   size_t n_vals, tolk_status status);
/* The same on a kernel that was built. */
void tk_kernel_run_uop(const tolk_uop *kernel, const tk_kernel_arg *args, size_t n_args,
                       const int64_t *vals, size_t n_vals, tolk_status status);
/* The error of the last run, of the last engine. */
const tolk_error *tk_kernel_error(void);

/* An elementwise case: what count lines of operands give. Each operand and result is canonical bits
 * (ir/scalar.h). */
typedef struct tk_kernel_rows {
    tolk_dtype a, b, out; /* b TOLK_VOID: one operand */
    const uint64_t *a_bits, *b_bits, *want;
    size_t count;
    const uint64_t *want_no_fma; /* on a target without FMA; NULL: the same */
} tk_kernel_rows;

/* Run `body` over these rows: with operands from buffers, at every size of tk_kernel_sizes and with
 * a size that is a scalar param; with operands that are constants; with operands selected by the
 * loop's index.
 *
 *   body: lines of text. The operands are %100 and %101, the result is %200, other numbers from 300
 *         on are free.
 *
 * All compilers get the size that is a scalar. Below a share of 100 percent (tk_test_share) one of
 * them, another each time, gets the loop's index, one constant size, and that share of the other
 * constant sizes and operands: each of them is a compilation. More than 64 rows are run from
 * buffers alone, once.
 */
void tk_kernel_elementwise(const char *body, const tk_kernel_rows *rows);

/* A reduction "add", "mul" or "max" over n elements: value(i) are data, repeated if there are fewer
 * than n, and the result is *want. Also runs it for 3 rows at once. */
void tk_kernel_reduce(const char *op, tolk_dtype dtype, const uint64_t *data, size_t n_data,
                      size_t n, uint64_t want);

/* Elements that "one element off" is off, 1 unless a test sets it. */
extern size_t tk_kernel_offset;

/* For arrays that are too large for all that: the engines, and one run of text on one of them.
 * args: as tk_kernel_engine has them. */
size_t tk_kernel_engines(void);
tolk_status tk_kernel_run_on(size_t engine, const char *text, void *const *bufs,
                             const size_t *bytes, size_t n_bufs, const int64_t *vals,
                             size_t n_vals);

/* The sizes that every elementwise case is run at. */
enum { TK_KERNEL_N_SIZES = 28 };
extern const size_t tk_kernel_sizes[TK_KERNEL_N_SIZES];

/* Canonical bits of floats, and the array elements they are. */
uint64_t tk_kernel_f32(float v);
uint64_t tk_kernel_f64(double v);
/* v rounded to any float dtype. */
uint64_t tk_kernel_float(tolk_dtype dtype, double v);

#endif
