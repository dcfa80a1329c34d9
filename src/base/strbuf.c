/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A taken text is freed without its length, so its size stands in the 16 bytes before it. */
enum { PREFIX = 16 };

void tk_strbuf_init(tk_strbuf *sb, const tolk_allocator *al) {
    *sb = (tk_strbuf){.al = al};
}

void tk_strbuf_fini(tk_strbuf *sb) {
    if (sb->at)
        tk_alloc_free(sb->al, sb->at - PREFIX, sb->cap + PREFIX);
    tk_strbuf_init(sb, sb->al);
}

static bool reserve(tk_strbuf *sb, size_t more) {
    if (sb->failed)
        return false;
    size_t need;
    if (!tk_add_size(sb->n, more, &need) || need > SIZE_MAX / 4) {
        sb->failed = true;
        return false;
    }
    need += 1;
    if (sb->cap >= need)
        return true;
    size_t cap = sb->cap < 112 ? 112 : sb->cap * 2;
    if (cap < need)
        cap = need;
    char *p = sb->at ? tk_alloc_resize(sb->al, sb->at - PREFIX, sb->cap + PREFIX, cap + PREFIX)
                     : tk_alloc(sb->al, cap + PREFIX);
    if (!p) {
        sb->failed = true;
        return false;
    }
    sb->at = p + PREFIX;
    sb->cap = cap;
    return true;
}

void tk_strbuf_bytes(tk_strbuf *sb, const void *p, size_t n) {
    if (!reserve(sb, n))
        return;
    if (n)
        memcpy(sb->at + sb->n, p, n);
    sb->n += n;
    sb->at[sb->n] = 0;
}

void tk_strbuf_str(tk_strbuf *sb, const char *s) {
    tk_strbuf_bytes(sb, s, strlen(s));
}

void tk_strbuf_char(tk_strbuf *sb, char c) {
    tk_strbuf_bytes(sb, &c, 1);
}

void tk_strbuf_u64(tk_strbuf *sb, uint64_t v) {
    char digits[20];
    size_t i = sizeof digits;
    do {
        digits[--i] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    tk_strbuf_bytes(sb, digits + i, sizeof digits - i);
}

void tk_strbuf_i64(tk_strbuf *sb, int64_t v) {
    if (v < 0)
        tk_strbuf_char(sb, '-');
    tk_strbuf_u64(sb, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void tk_strbuf_hex(tk_strbuf *sb, uint64_t v) {
    char digits[18];
    size_t i = sizeof digits;
    do {
        digits[--i] = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (v);
    digits[--i] = 'x';
    digits[--i] = '0';
    tk_strbuf_bytes(sb, digits + i, sizeof digits - i);
}

void tk_strbuf_fmt(tk_strbuf *sb, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        sb->failed = true;
        return;
    }
    if (!reserve(sb, (size_t)n))
        return;
    va_start(ap, fmt);
    vsnprintf(sb->at + sb->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    sb->n += (size_t)n;
}

void tk_strbuf_json(tk_strbuf *sb, const char *s) {
    tk_strbuf_char(sb, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            tk_strbuf_char(sb, '\\');
        if (c < 0x20)
            tk_strbuf_fmt(sb, "\\u%04x", c);
        else
            tk_strbuf_char(sb, (char)c);
    }
    tk_strbuf_char(sb, '"');
}

char *tk_strbuf_take(tk_strbuf *sb, size_t *len) {
    if (!sb->failed && !sb->at)
        tk_strbuf_bytes(sb, "", 0);
    if (sb->failed) {
        tk_strbuf_fini(sb);
        return NULL;
    }
    char *text = sb->at;
    size_t total = sb->cap + PREFIX;
    memcpy(text - PREFIX, &total, sizeof total);
    if (len)
        *len = sb->n;
    tk_strbuf_init(sb, sb->al);
    return text;
}

void tk_strbuf_text_free(const tolk_allocator *al, char *text) {
    if (!text)
        return;
    size_t total;
    memcpy(&total, text - PREFIX, sizeof total);
    tk_alloc_free(al, text - PREFIX, total);
}
