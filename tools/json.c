/* SPDX-License-Identifier: MIT
 *
 * A little JSON: strings out, and the objects that the library describes itself with, shown to
 * people. The reader walks the text once with a small stack and trusts nothing.
 */
#include "tool.h"

#include <string.h>

/* Bytes of the well-formed UTF-8 character (Unicode 15, table 3-7) that text begins with; 0: none.
 */
static size_t character(const unsigned char *p, size_t n) {
    static const struct {
        unsigned char first, last, low, high; /* of the first byte, of the second */
        size_t bytes;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    size_t f = 0;
    while (f < sizeof forms / sizeof *forms && (*p < forms[f].first || *p > forms[f].last))
        f++;
    if (f == sizeof forms / sizeof *forms || forms[f].bytes > n)
        return 0;
    for (size_t i = 1; i < forms[f].bytes; i++)
        if (p[i] < (i == 1 ? forms[f].low : 0x80) || p[i] > (i == 1 ? forms[f].high : 0xbf))
            return 0;
    return forms[f].bytes;
}

void tk_json_text(FILE *to, const char *text, size_t len) {
    const unsigned char *p = (const unsigned char *)text, *end = p + len;
    while (p < end) {
        size_t n = character(p, (size_t)(end - p));
        if (n)
            fwrite(p, 1, n, to);
        else
            fputs("\xef\xbf\xbd", to); /* U+FFFD */
        p += n ? n : 1;
    }
}

void tk_json_string(FILE *to, const char *text) {
    fputc('"', to);
    for (const char *p = text; *p;) {
        size_t n = 0; /* bytes that stand for themselves */
        while ((unsigned char)p[n] >= ' ' && p[n] != '"' && p[n] != '\\')
            n++;
        tk_json_text(to, p, n);
        p += n;
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p++);
        else if (*p)
            fprintf(to, "\\u%04x", (unsigned char)*p++);
    }
    fputc('"', to);
}

enum { MAX_DEPTH = 16, MAX_PATH = 128, MAX_VALUE = 1024 };

typedef struct walk {
    const char *p, *end;
    char path[MAX_PATH];      /* keys from the root, with dots */
    size_t length[MAX_DEPTH]; /* of the path at each depth */
    char in_list[MAX_DEPTH];
    int depth;
    char value[MAX_VALUE]; /* of the member just read, without quotes */
} walk;

static void skip_space(walk *w) {
    while (w->p < w->end && strchr(" \t\r\n,:", *w->p))
        w->p++;
}

/* A string with its escapes undone where they are plain ones; \uXXXX stays as it is. */
static void read_string(walk *w, char *out, size_t cap) {
    size_t n = 0;
    for (w->p++; w->p < w->end && *w->p != '"'; w->p++) {
        char c = *w->p;
        if (c == '\\' && w->p + 1 < w->end) {
            c = *++w->p;
            if (c == 'u' && n + 1 < cap)
                out[n++] = '\\';
            else if (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'f')
                c = ' ';
        }
        if (n + 1 < cap)
            out[n++] = c;
    }
    out[n] = 0;
    if (w->p < w->end)
        w->p++;
}

/* Go on to the next scalar value; its path and text are then in w. 0 at the end. */
static int next_value(walk *w) {
    for (;;) {
        skip_space(w);
        if (w->p >= w->end)
            return 0;
        char c = *w->p;
        if (c == '}' || c == ']') {
            w->p++;
            if (w->depth == 0)
                return 0;
            w->depth--;
            continue;
        }
        size_t base = w->depth ? w->length[w->depth - 1] : 0;
        if (w->depth && !w->in_list[w->depth - 1]) {
            if (c != '"')
                return 0;
            char key[MAX_PATH];
            read_string(w, key, sizeof key);
            skip_space(w);
            base += (size_t)snprintf(w->path + base, sizeof w->path - base, "%s%s", base ? "." : "",
                                     key);
            if (base >= sizeof w->path || w->p >= w->end)
                return 0;
            c = *w->p;
        } else {
            w->path[base] = 0;
        }
        if (c == '{' || c == '[') {
            if (w->depth == MAX_DEPTH)
                return 0;
            w->in_list[w->depth] = c == '[';
            w->length[w->depth++] = base;
            w->p++;
            continue;
        }
        if (c == '"') {
            read_string(w, w->value, sizeof w->value);
            return 1;
        }
        size_t n = 0;
        while (w->p < w->end && !strchr(" \t\r\n,]}", *w->p)) {
            if (n + 1 < sizeof w->value)
                w->value[n++] = *w->p;
            w->p++;
        }
        w->value[n] = 0;
        return n > 0;
    }
}

void tk_json_each(const char *text, size_t len, tk_json_fn fn, void *user) {
    walk w = {.p = text, .end = text + len};
    while (next_value(&w))
        fn(user, w.path, w.value);
}

size_t tk_json_print_flat(FILE *to, const char *text, size_t len) {
    walk w = {.p = text, .end = text + len};
    char last[MAX_PATH] = "";
    size_t problems = 0;
    while (next_value(&w)) {
        if (!strcmp(w.path, "problems")) {
            problems++;
            continue;
        }
        /* The elements of a list share one line. */
        int more = w.depth && w.in_list[w.depth - 1] && !strcmp(last, w.path);
        if (more)
            fprintf(to, " %s", w.value);
        else
            fprintf(to, "%s  %-20s %s", last[0] ? "\n" : "", w.path, w.value);
        memcpy(last, w.path, sizeof last);
    }
    if (last[0])
        fputc('\n', to);
    return problems;
}

void tk_json_print_problems(FILE *to, const char *prefix, const char *text, size_t len) {
    walk w = {.p = text, .end = text + len};
    while (next_value(&w))
        if (!strcmp(w.path, "problems"))
            fprintf(to, "%s%s\n", prefix, w.value);
}

int tk_json_find(const char *text, size_t len, const char *key, char *out, size_t cap) {
    walk w = {.p = text, .end = text + len};
    while (next_value(&w))
        if (w.depth == 1 && !strcmp(w.path, key)) {
            snprintf(out, cap, "%s", w.value);
            return 1;
        }
    return 0;
}
