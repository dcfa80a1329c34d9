/* SPDX-License-Identifier: MIT
 *
 * For tests of linears: texts to linears and nodes.
 */
#ifndef TEST_LINEARS_H
#define TEST_LINEARS_H

#include "realize/kernels.h"

/* Leave out the lines of a text that its last one does not reach: in a text they are an error. */
RT_UNUSED static void prune(char *text) {
    enum { IDS = 1024, LINES = 512 };
    static _Thread_local char used[IDS];
    char *line[LINES + 1];
    bool drop[LINES] = {false};
    size_t n = 0, m = 0;
    memset(used, 0, sizeof used);
    for (char *at = text; *at; at = strchr(at, '\n') + 1) {
        assert_true(n < LINES && strchr(at, '\n'));
        line[n++] = at;
    }
    line[n] = text + strlen(text);
    for (size_t i = n; i-- > 1;) {
        drop[i] = i + 1 < n && !used[atoi(line[i] + 1)];
        for (const char *p = line[i] + 1; !drop[i] && p < line[i + 1]; p++)
            if (*p == '%') {
                assert_true(atoi(p + 1) < IDS);
                used[atoi(p + 1)] = 1;
            }
    }
    for (size_t i = 0; i < n; i++) {
        if (drop[i])
            continue;
        size_t len = (size_t)(line[i + 1] - line[i]);
        memmove(text + m, line[i], len);
        m += len;
    }
    text[m] = 0;
}

/* The root of a text in a new graph, which the caller destroys. */
RT_UNUSED static const tolk_uop *node_of(rt *r, const char *whole, tolk_graph **g) {
    static _Thread_local char text[16384];
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_true(strlen(whole) < sizeof text);
    strcpy(text, whole);
    prune(text);
    assert_int_equal(tolk_graph_create(r->ctx, g), TOLK_OK);
    if (tolk_parse(*g, text, strlen(text), 0, &root, &err))
        fail_msg("%s\n%s", err.msg, text);
    return root;
}

RT_UNUSED static tolk_status linear_try(rt *r, const char *text, tolk_linear **out,
                                        tolk_error *err) {
    tolk_graph *g;
    const tolk_uop *root = node_of(r, text, &g);
    tolk_status st = tolk_linear_create(r->ctx, root, out, err);
    tolk_graph_destroy(g);
    return st;
}

/* The linear of a text. */
RT_UNUSED static tolk_linear *linear_of(rt *r, const char *text) {
    tolk_linear *l = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (linear_try(r, text, &l, &err))
        fail_msg("%s\n%s", err.msg, text);
    return l;
}

/* y[i] = 2 x[i], f32, n elements, as nodes %a to %(a + 11), the last one the sink. */
RT_UNUSED static int put_scale(char *at, size_t size, int a, int n, const char *name,
                               const char *factor) {
    return snprintf(at, size,
                    "%%%d = const index %d\n"
                    "%%%d = param f32 (%%%d) {slot=0, name=\"y\"}\n"
                    "%%%d = param f32 (%%%d) {slot=1, name=\"x\"}\n"
                    "%%%d = range index (%%%d) {axis=0, kind=global}\n"
                    "%%%d = index f32 (%%%d, %%%d)\n"
                    "%%%d = index f32 (%%%d, %%%d)\n"
                    "%%%d = load f32 (%%%d)\n"
                    "%%%d = const f32 %s\n"
                    "%%%d = mul f32 (%%%d, %%%d)\n"
                    "%%%d = store void (%%%d, %%%d)\n"
                    "%%%d = end void (%%%d, %%%d)\n"
                    "%%%d = sink void (%%%d) {name=\"%s\"}\n",
                    a, n, a + 1, a, a + 2, a, a + 3, a, a + 4, a + 1, a + 3, a + 5, a + 2, a + 3,
                    a + 6, a + 5, a + 7, factor, a + 8, a + 6, a + 7, a + 9, a + 4, a + 8, a + 10,
                    a + 9, a + 3, a + 11, a + 10, name);
}

#endif
