/* SPDX-License-Identifier: MIT
 *
 * Growing text. Appends never fail visibly: after the first failed allocation the buffer is
 * `failed` and ignores the rest; look once at the end.
 */
#ifndef TK_BASE_STRBUF_H
#define TK_BASE_STRBUF_H

#include "base/alloc.h"

typedef struct tk_strbuf {
    const tolk_allocator *al;
    char *at; /* NUL-terminated once anything was appended */
    size_t n, cap;
    bool failed;
} tk_strbuf;

void tk_strbuf_init(tk_strbuf *sb, const tolk_allocator *al);
void tk_strbuf_fini(tk_strbuf *sb);
void tk_strbuf_bytes(tk_strbuf *sb, const void *p, size_t n);
void tk_strbuf_str(tk_strbuf *sb, const char *s);
void tk_strbuf_char(tk_strbuf *sb, char c);
/* Decimal digits, whatever the locale. */
void tk_strbuf_i64(tk_strbuf *sb, int64_t v);
void tk_strbuf_u64(tk_strbuf *sb, uint64_t v);
/* "0x" and lower-case hex digits. */
void tk_strbuf_hex(tk_strbuf *sb, uint64_t v);
/* printf without floating-point conversions (they would follow the locale). */
void tk_strbuf_fmt(tk_strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string; control characters as \u00XX. */
void tk_strbuf_json(tk_strbuf *sb, const char *s);
/* Hand over the text, to be freed by tk_strbuf_text_free with the same allocator; NULL if failed.
 */
char *tk_strbuf_take(tk_strbuf *sb, size_t *len);
void tk_strbuf_text_free(const tolk_allocator *al, char *text);

#endif
