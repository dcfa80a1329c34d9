/* SPDX-License-Identifier: MIT
 *
 * For tests of linears: texts to linears and nodes.
 */
#ifndef TEST_LINEARS_H
#define TEST_LINEARS_H

#include "realize/kernels.h"

/* The root of a text in a new graph, which the caller destroys. */
RT_UNUSED static const tolk_uop *node_of(rt *r, const char *text, tolk_graph **g) {
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
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
