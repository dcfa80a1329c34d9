/* SPDX-License-Identifier: MIT
 *
 * About how long the interpreter needs: it visits each node once for each round of the loops that
 * the node depends on. Nodes and loops are taken from the printed kernel, whose lines are in the
 * order of their numbers.
 */
#include "tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOOPS = 64, MAX_SOURCES = 64, OP_BYTES = 24 }; /* what is beyond is not counted */

typedef struct line {
    double value;   /* of an integer made of constants and scalars; NAN: not known */
    uint64_t loops; /* that the node depends on: bits into `size` */
    int loop;       /* number of a range or special; -1: another op */
} line;

typedef struct counter {
    line *lines;
    size_t n;
    double size[MAX_LOOPS];
    int n_loops;
    const tk_binding *args;
} counter;

static double scalar_value(const tk_binding *b, int64_t slot) {
    for (size_t i = 0; i < b->n; i++)
        if (b->args[i].info.slot == slot && b->args[i].info.is_scalar &&
            tolk_dtype_is_int(b->args[i].info.dtype))
            return (double)b->args[i].value;
    return (double)NAN;
}

/* Sizes of loops are mostly sums, products and quotients. */
static double fold(const char *op, const line *const *src, size_t n) {
    double a = n > 0 ? src[0]->value : (double)NAN, b = n > 1 ? src[1]->value : (double)NAN;
    if (!strcmp(op, "cast"))
        return a;
    if (!strcmp(op, "add"))
        return a + b;
    if (!strcmp(op, "sub"))
        return a - b;
    if (!strcmp(op, "mul"))
        return a * b;
    if (!strcmp(op, "max"))
        return a > b ? a : b;
    if (!strcmp(op, "floordiv") || !strcmp(op, "cdiv"))
        return b != 0 ? floor(a / b) : (double)NAN;
    return (double)NAN;
}

static size_t read_sources(const counter *c, const char *text, const char *end, const line **src) {
    size_t n = 0;
    const char *open = memchr(text, '(', (size_t)(end - text));
    for (const char *p = open; p && p < end && *p != ')' && n < MAX_SOURCES; p++)
        if (*p == '%') {
            size_t number = (size_t)strtoull(p + 1, NULL, 10);
            if (number < c->n)
                src[n++] = &c->lines[number];
        }
    return n;
}

/* One line "%N = OP DTYPE ...". Returns how many steps its node takes. */
static double count(counter *c, const char *text, const char *end) {
    char op[OP_BYTES] = "", dtype[OP_BYTES] = "";
    const line *src[MAX_SOURCES];
    if (sscanf(text, "%%%*u = %23s %23s", op, dtype) != 2)
        return 0;
    size_t n = read_sources(c, text, end, src);
    line l = {.value = fold(op, src, n), .loop = -1};
    for (size_t i = 0; i < n; i++)
        l.loops |= src[i]->loops;
    const char *slot = strstr(text, "{slot=");
    if (!strcmp(op, "const")) {
        const char *literal = strstr(text, dtype) + strlen(dtype);
        l.value =
            strncmp(dtype, "f", 1) && strncmp(dtype, "bf", 2) ? strtod(literal, NULL) : (double)NAN;
    } else if (!strcmp(op, "param") && slot && slot < end) {
        l.value = scalar_value(c->args, strtoll(slot + 6, NULL, 10));
    } else if ((!strcmp(op, "range") || !strcmp(op, "special")) && n && c->n_loops < MAX_LOOPS) {
        l.loop = c->n_loops++;
        /* A size that depends on another loop: its last round is an upper bound. */
        c->size[l.loop] = src[0]->value >= 0 ? src[0]->value : 1;
        l.value = c->size[l.loop];
        l.loops |= (uint64_t)1 << l.loop;
    } else if (!strcmp(op, "end") || !strcmp(op, "reduce")) {
        for (size_t i = 1; i < n; i++)
            if (src[i]->loop >= 0)
                l.loops &= ~((uint64_t)1 << src[i]->loop);
    }
    double steps = strcmp(op, "const") && strcmp(op, "param") ? 1 : 0;
    for (int k = 0; k < c->n_loops; k++)
        if (l.loops >> k & 1)
            steps *= c->size[k];
    c->lines[c->n++] = l;
    return steps;
}

double tk_estimate_steps(tolk_ctx *ctx, const tolk_uop *kernel, const tk_binding *args) {
    char *text;
    size_t len, n = 1;
    double steps = 0;
    if (tolk_print(kernel, &text, &len))
        return 0;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    counter c = {.lines = calloc(n, sizeof *c.lines), .args = args};
    const char *p = c.lines ? strchr(text, '\n') : NULL; /* behind the header */
    while (p && p[1]) {
        const char *end = strchr(p + 1, '\n');
        steps += count(&c, p + 1, end ? end : text + len);
        p = end;
    }
    free(c.lines);
    tolk_free_text(ctx, text);
    return steps;
}
