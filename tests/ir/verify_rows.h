/* SPDX-License-Identifier: MIT
 *
 * Texts that a stage accepts or refuses: what the tests of the verifier share.
 */
#ifndef TK_TESTS_IR_VERIFY_ROWS_H
#define TK_TESTS_IR_VERIFY_ROWS_H

#include "support/tk_test.h"

#include "base/strbuf.h"
#include "ir/verify.h"

#include <tolk/ir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *what;
    const char *text;
    const char *message; /* NULL: accepted */
} row;

typedef struct world {
    tolk_ctx *ctx;
    tolk_graph *g;
} world;

static world begin(void) {
    world w;
    assert_int_equal(tk_ctx_init(NULL, &w.ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(w.ctx, &w.g), TOLK_OK);
    return w;
}

static void end(world *w) {
    tk_graph_destroy(w->g);
    tk_ctx_fini(w->ctx);
}

static const tolk_uop *parse(world *w, const char *body) {
    size_t n = strlen(body) + 16;
    char *text = malloc(n);
    assert_non_null(text);
    snprintf(text, n, "tolk.uop 1\n%s", body);
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_parse(w->g, text, strlen(text), 0, &root, &err);
    if (st != TOLK_OK)
        print_error("%u:%u: %s\n%s\n", err.line, err.column, err.msg, text);
    free(text);
    assert_int_equal(st, TOLK_OK);
    return root;
}

/* Line `number` (from 1) of a text. */
static const char *line_of(const char *text, uint32_t number) {
    while (--number)
        text = strchr(text, '\n') + 1;
    return text;
}

/* The error of a graph that was read: the place of the node that its message names, and the node's
 * number in the printed graph. */
static void check_place(const char *body, const tolk_uop *root, const tolk_error *err) {
    char name[24], op[32], start[80], *text;
    size_t len;
    assert_int_equal(sscanf(err->msg, "%23s %31[a-z_0-9]", name, op), 2);
    assert_true(err->line >= 2);
    const char *line = line_of(body, err->line - 1); /* behind the header */
    snprintf(start, sizeof start, "%s = %s ", name, op);
    assert_memory_equal(line, start, strlen(start));
    assert_int_equal(err->column, strlen(name) + 4);
    assert_int_equal(tolk_print(root, &text, &len), TOLK_OK);
    snprintf(start, sizeof start, "%%%u = %s ", err->node, op);
    assert_memory_equal(line_of(text, err->node + 2), start, strlen(start));
    tk_strbuf_text_free(root->graph->al, text);
}

static void check_rows(const row *rows, size_t n, tolk_stage stage) {
    for (size_t k = 0; k < n; k++) {
        world w = begin();
        const tolk_uop *root = parse(&w, rows[k].text);
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = tolk_verify(root, stage, &err);
        const char *have = st == TOLK_OK ? NULL : err.msg;
        if ((have == NULL) != (rows[k].message == NULL) ||
            (have && strcmp(have, rows[k].message) != 0))
            print_error("%s: %s\n", rows[k].what, have ? have : "accepted");
        if (!rows[k].message) {
            assert_int_equal(st, TOLK_OK);
        } else {
            assert_int_not_equal(st, TOLK_OK);
            assert_string_equal(err.msg, rows[k].message);
            check_place(rows[k].text, root, &err);
            assert_int_equal(err.code, st);
            assert_int_equal(tolk_verify(root, stage, NULL), st);
        }
        end(&w);
    }
}
#define CHECK_ROWS(rows, stage) check_rows(rows, sizeof(rows) / sizeof *(rows), stage)

/* The beginning of a program. */
#define PY                                                                                         \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=0}\n"                                                               \
    "%2 = range index (%0) {axis=0}\n"                                                             \
    "%3 = index f32 (%1, %2)\n"                                                                    \
    "%4 = const f32 1\n"

#endif
