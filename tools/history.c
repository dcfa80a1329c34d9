/* SPDX-License-Identifier: MIT
 *
 * The library's record of what was compiled, for people.
 */
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
    FILE *to;
    uint64_t first, number, n;
    char kernel[128];
    int open; /* a line is begun */
} printer;

static double ms(const char *ns) {
    return (double)strtoull(ns, NULL, 10) * 1e-6;
}

static void end_line(printer *p) {
    if (p->open)
        fputc('\n', p->to);
    p->open = 0;
}

/* Members come in the order that tolk_history states: number and kernel first, phases last. */
static void member(void *user, const char *path, const char *value) {
    static const char phases[] = "phases_ns.";
    printer *p = user;
    if (!strcmp(path, "number")) {
        end_line(p);
        p->number = strtoull(value, NULL, 10);
        p->n = p->number + 1;
    }
    if (p->number < p->first)
        return;
    if (!strcmp(path, "kernel")) {
        snprintf(p->kernel, sizeof p->kernel, "%s", value);
    } else if (!strcmp(path, "status")) {
        fprintf(p->to, "%3" PRIu64 "  %s: ", p->number, p->kernel);
        p->open = 1;
        if (strcmp(value, "TOLK_OK"))
            fprintf(p->to, "%s, ", value);
    } else if (!strcmp(path, "cached")) {
        fprintf(p->to, "cache %s, ", value);
    } else if (!strcmp(path, "code_bytes")) {
        fprintf(p->to, "%s bytes, ", value);
    } else if (!strcmp(path, "total_ns")) {
        fprintf(p->to, "%.3f ms:", ms(value));
    } else if (!strncmp(path, phases, sizeof phases - 1)) {
        fprintf(p->to, " %s %.3f", path + sizeof phases - 1, ms(value));
    }
}

uint64_t tk_history_print(FILE *to, tolk_ctx *ctx, uint64_t first, int json) {
    char *text;
    size_t len;
    if (tolk_history(ctx, &text, &len)) {
        fputs(json ? "[]" : "out of memory\n", to);
        return 0;
    }
    printer p = {.to = to, .first = first};
    if (json)
        tk_json_text(to, text, len);
    else
        tk_json_each(text, len, member, &p);
    end_line(&p);
    tolk_free_text(ctx, text);
    return p.n;
}
