/* SPDX-License-Identifier: MIT
 *
 * For tests of what all ways to run a linear have in common: at once, as an exec, as an exec graph,
 * recorded and replayed with graphs, without, and without a memory plan.
 */
#ifndef TEST_WAYS_H
#define TEST_WAYS_H

#include "realize/runs.h"

typedef enum way_kind {
    WAY_RUN,
    WAY_EXEC,
    WAY_GRAPH,
    WAY_JIT,
    WAY_JIT_CALLS,
    WAY_JIT_UNPLANNED,
    WAYS
} way_kind;

typedef struct way {
    way_kind kind;
    tolk_linear *l;
    tolk_exec *e;
    tolk_jit *jit;
    const tolk_realize_opts *opts;
    int calls; /* of the function that the jit records */
} way;

static const char *const way_names[WAYS] = {"run", "exec",      "graph",
                                            "jit", "jit calls", "jit, unplanned"};

RT_UNUSED static tolk_status way_function(void *user, tolk_bindings *to, const tolk_run_args *args,
                                          tolk_error *e) {
    way *w = user;
    w->calls++;
    return tolk_realize_linear(to, w->l, NULL, 0, w->opts, args, e);
}

/* nodes: a text with the calls; list: "%40, %41", those of the linear. */
RT_UNUSED static void way_open(way *w, way_kind kind, const char *nodes, const char *list,
                               const tolk_realize_opts *opts) {
    static const char graph[] = "%901 = custom_function void (%900) {name=\"graph\"}\n"
                                "%902 = call void (%901)\n%903 = linear void (%902)\n";
    static char text[16384];
    int n = snprintf(text, sizeof text, "%s%%900 = linear void (%s)\n%s", nodes, list,
                     kind == WAY_GRAPH ? graph : "");
    assert_true(n < (int)sizeof text);
    *w = (way){.kind = kind, .opts = opts, .l = linear_of(&r, text)};
    tolk_jit_opts o = TOLK_JIT_OPTS_INIT;
    o.no_graphs = kind == WAY_JIT_CALLS;
    o.realize = opts;
    if (kind >= WAY_JIT)
        assert_int_equal(tolk_jit_create(b, way_function, w, &o, &w->jit, NULL), TOLK_OK);
}

RT_UNUSED static tolk_status way_run(way *w, const tolk_run_args *args) {
    tolk_status st = TOLK_OK;
    err = (tolk_error)TOLK_ERROR_INIT;
    if (w->kind == WAY_RUN)
        return tolk_run_linear(b, w->l, w->opts, args, &err);
    if (w->kind <= WAY_GRAPH) {
        if (!w->e)
            st = tolk_exec_create(b, w->l, w->opts, &w->e, &err);
        return st ? st : tolk_exec_run(w->e, args, &err);
    }
    if (w->kind == WAY_JIT_UNPLANNED)
        setenv("TOLK_MEMORY_PLAN", "0", 1);
    st = tolk_jit_call(w->jit, args, &err);
    unsetenv("TOLK_MEMORY_PLAN");
    return st;
}

RT_UNUSED static void way_well(way *w, const tolk_run_args *args) {
    if (way_run(w, args))
        fail_msg("%s: %s", way_names[w->kind], err.msg);
}

RT_UNUSED static void way_close(way *w) {
    tolk_jit_destroy(w->jit);
    tolk_exec_destroy(w->e);
    tolk_linear_unref(w->l);
    tolk_bindings_clear(b);
}

/* Numbers of a buffer, n of them. */
RT_UNUSED static void read_ints(tolk_buffer *buf, int32_t *v, size_t n) {
    tolk_error why = TOLK_ERROR_INIT;
    if (tolk_buffer_copyout(buf, 0, v, n * 4, &why))
        fail_msg("%s", why.msg);
}

#endif
