/* SPDX-License-Identifier: MIT
 *
 * Literals of the text form: numbers and strings, written and read without any locale.
 *
 * Floats are written as the shortest hex float that is the value exactly ("0x1.8p+1", "-0x0p+0"),
 * or as inf, -inf, nan, nan(0xBITS), where BITS is the whole pattern of a NaN other than the
 * default quiet one. They are read as hex or decimal of any length and rounded once, to nearest
 * even, from the exact value to the dtype; integer code only, so the caller's rounding mode has no
 * part in it.
 */
#ifndef TK_IR_LITERAL_H
#define TK_IR_LITERAL_H

#include "base/strbuf.h"

#include <tolk/dtype.h>

typedef enum tk_literal_result {
    TK_LITERAL_OK,
    TK_LITERAL_SYNTAX, /* not a literal of this dtype */
    TK_LITERAL_RANGE   /* a number that the dtype has not */
} tk_literal_result;

/* Read a literal of a scalar dtype (not void) from exactly n bytes. *bits: canonical (dtype.h).
 *
 *   bool: true, false. Integers: decimal or 0x, "-" in front. Floats: see above; a finite number
 *   that would round to infinity (fp8e4m3: to NaN) is out of range, one that rounds to 0 is not. */
tk_literal_result tk_literal_read(tolk_dtype dtype, const char *s, size_t n, uint64_t *bits);
/* Write the canonical bits of a scalar dtype. */
void tk_literal_write(tk_strbuf *sb, tolk_dtype dtype, uint64_t bits);

/* Length in bytes of the valid UTF-8 at the start of s: n if all of it is. */
size_t tk_literal_utf8(const char *s, size_t n);
/* A JSON string of n bytes of UTF-8, with its quotes. */
void tk_literal_write_string(tk_strbuf *sb, const char *s, size_t n);
/* One escape of a JSON string: s begins behind the backslash and ends no later than the text.
 * Returns the bytes read (0: no escape) and puts its UTF-8 in out[4], *out_n bytes. */
size_t tk_literal_read_escape(const char *s, size_t n, char out[4], size_t *out_n);

#endif
