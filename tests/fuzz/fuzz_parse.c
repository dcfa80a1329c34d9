/* SPDX-License-Identifier: MIT
 *
 * The text parser on arbitrary bytes: no crash, no hang; an error has a place inside the text; what
 * is accepted prints to a text that reads as the same node, in this graph and by key in another.
 */
#include "base/ctx.h"
#include "base/strbuf.h"
#include "ir/uop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "fuzz_parse: %s\n", what);
        abort(); /* how a fuzzer is told of a finding */
    }
}

static void check_round_trip(tolk_graph *g, const tolk_uop *root) {
    char *text = NULL, *again = NULL;
    size_t len = 0, len_again = 0;
    const tolk_uop *u = NULL;
    check(tolk_print(root, &text, &len) == TOLK_OK, "cannot be printed");
    check(tolk_parse(g, text, len, TOLK_PARSE_TRUSTED, &u, NULL) == TOLK_OK, "print is refused");
    check(u == root, "print is another node");
    tolk_graph *other = NULL;
    check(tolk_graph_create(g->ctx, &other) == TOLK_OK, "graph");
    check(tolk_parse(other, text, len, TOLK_PARSE_TRUSTED, &u, NULL) == TOLK_OK, "other graph");
    check(tolk_print(u, &again, &len_again) == TOLK_OK, "cannot be printed again");
    check(len == len_again && memcmp(text, again, len) == 0, "print of print differs");
    tolk_key a = tolk_uop_key(root), b = tolk_uop_key(u);
    check(a.lo == b.lo && a.hi == b.hi, "keys differ");
    tk_strbuf_text_free(g->al, text);
    tk_strbuf_text_free(g->al, again);
    tolk_graph_destroy(other);
}

static void check_place(const uint8_t *data, size_t size, const tolk_error *err) {
    uint32_t lines = 1;
    size_t longest = 0, at = 0;
    for (size_t i = 0; i < size; i++, at++)
        if (data[i] == '\n') {
            lines++;
            longest = at > longest ? at : longest;
            at = 0;
        }
    longest = at > longest ? at : longest;
    check(err->line >= 1 && err->line <= lines, "line");
    check(err->column >= 1 && err->column <= longest + 1, "column");
    check(err->msg[0] && !strchr(err->msg, '\n'), "an error is one line of text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    tolk_ctx *ctx = NULL;
    tolk_graph *g = NULL;
    check(tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK, "context");
    check(tolk_graph_create(ctx, &g) == TOLK_OK, "graph");
    /* An exact copy on the heap, so that a read past the end is seen. */
    char *copy = malloc(size ? size : 1);
    check(copy != NULL, "no memory");
    if (size)
        memcpy(copy, data, size);
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, copy, size, TOLK_PARSE_TRUSTED, &root, &err) == TOLK_OK)
        check_round_trip(g, root);
    else
        check_place(data, size, &err);
    check(tolk_graph_error(g, NULL) == TOLK_OK, "the graph keeps the text's error");
    free(copy);
    tolk_graph_destroy(g);
    tk_ctx_fini(ctx);
    return 0;
}
