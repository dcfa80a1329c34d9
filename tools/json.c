/* SPDX-License-Identifier: MIT
 *
 * A little JSON: strings out, and the objects that the library describes itself with, shown to
 * people. The reader walks the text once with a small stack and trusts nothing.
 */
#include "tool.h"

#include <string.h>

void tk_json_string(FILE *to, const char *text) {
    fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < ' ')
            fprintf(to, "\\u%04x", *p);
        else
            fputc(*p, to);
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
