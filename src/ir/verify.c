/* SPDX-License-Identifier: MIT */
#include "ir/verify.h"

#include "ir/locate.h"
#include "ir/shape.h"
#include "ir/verify_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

tk_verify_name tk_verify_name_of(const tk_verify_cx *cx, const tolk_uop *u) {
    tk_verify_name name = {""};
    if (cx->err)
        memcpy(name.text, tk_locate(cx->root, u).name, sizeof name.text);
    return name;
}

/* "%N" before the message, which begins with the op, and the place beside it. */
static tolk_status fail(const tk_verify_cx *cx, const tolk_uop *u, tolk_status code,
                        const char *msg) {
    if (!cx->err)
        return code;
    tk_location at = tk_locate(cx->root, u);
    tk_status_fail(cx->err, code, at.number, "%s %s", at.name, msg);
    tk_locate_error(&at, cx->err);
    return code;
}

tolk_status tk_verify_fail(const tk_verify_cx *cx, const tolk_uop *u, tolk_status code,
                           const char *fmt, ...) {
    char text[240];
    int n = snprintf(text, sizeof text, "%s: ", tk_op_get(tk_uop_op(u))->name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    va_end(ap);
    return fail(cx, u, code, text);
}

/* A message that begins with "op: " already. */
static tolk_status pass_on(const tk_verify_cx *cx, const tolk_uop *u, const tolk_error *why) {
    return fail(cx, u, why->code, why->msg);
}

/* The sink that makes kernels a tensor by having no name; NULL if there is none. */
static const tolk_uop *nameless_sink(const tolk_uop *root) {
    if (tk_uop_is(root, TK_OP_SINK))
        return root; /* one with a name is a kernel */
    for (uint32_t i = 0; tk_uop_is(root, TK_OP_GROUP) && i < root->n_src; i++)
        if (tk_uop_is(root->src[i], TK_OP_SINK) && !tk_uop_str(root->src[i], TK_A_SINK_NAME))
            return root->src[i];
    return NULL;
}

tolk_status tk_verify_node(const tk_verify_cx *cx, const tolk_uop *u, uint8_t stage) {
    tolk_error why = TOLK_ERROR_INIT;
    if (!(tk_op_get(tk_uop_op(u))->stages & stage)) {
        const char *name = stage == TK_STAGE_T   ? "tensor"
                           : stage == TK_STAGE_K ? "kernel"
                                                 : "program";
        const tolk_uop *sink = stage == TK_STAGE_T ? nameless_sink(cx->root) : NULL;
        if (sink)
            return tk_verify_fail(cx, sink, TOLK_E_VERIFY,
                                  "its name is missing: expected {name=\"...\"} on the sink of a "
                                  "kernel (%s %s is no op of the tensor stage)",
                                  tk_verify_name_of(cx, u).text, tk_op_get(tk_uop_op(u))->name);
        return tk_verify_fail(cx, u, TOLK_E_VERIFY, "no op of the %s stage", name);
    }
    return tk_check_uop(u, &why) == TOLK_OK ? TOLK_OK : pass_on(cx, u, &why);
}

static tolk_status after_of(const tk_verify_cx *cx, const tolk_uop *u, bool states) {
    for (uint32_t i = 1; i < u->n_src; i++)
        if (u->src[i]->dtype != TOLK_VOID && !tk_uop_is(u->src[i], TK_OP_RANGE) &&
            !(states && tk_uop_is(u->src[i], TK_OP_AFTER)))
            return tk_verify_fail(
                cx, u, TOLK_E_VERIFY, "operand %u is %s, expected an effect (void)%s or a range", i,
                tk_op_get(tk_uop_op(u->src[i]))->name, states ? ", an after" : "");
    return TOLK_OK;
}

tolk_status tk_verify_after(const tk_verify_cx *cx, const tolk_uop *u) {
    return after_of(cx, u, false);
}

/* ---- tensor stage ---- */

/* Is source i of u the body of a call, which is of another stage? */
static bool is_body(const tolk_uop *u, uint32_t i) {
    if (tk_uop_is(u, TK_OP_PROGRAM))
        return tk_uop_is(u->src[i], TK_OP_SINK) || tk_uop_is(u->src[i], TK_OP_LINEAR);
    return tk_uop_is(u, TK_OP_CALL) && i == 0 && tk_uop_is(u->src[0], TK_OP_SINK) &&
           !tk_check_is_states(u->src[0]);
}

static tolk_status tensor_node(const tk_verify_cx *cx, const tolk_uop *u) {
    TK_TRY(tk_verify_node(cx, u, TK_STAGE_T));
    if (tk_uop_lanes(u) != 1)
        return tk_verify_fail(cx, u, TOLK_E_DTYPE, "a vector, expected at the program stage only");
    if (tk_uop_is(u, TK_OP_AFTER)) /* the state of a buffer, which may wait for others */
        TK_TRY(after_of(cx, u, true));
    const tk_shape *shape;
    const tolk_uop *at = u;
    tolk_error why = TOLK_ERROR_INIT;
    if (tk_shape_get(u, &shape, &at, &why) != TOLK_OK)
        return pass_on(cx, at, &why);
    return tk_verify_call(cx, u);
}

static tolk_status body(const tk_verify_cx *cx, const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_SINK) ? tk_verify_kernel(cx, u) : tk_verify_program(cx, u);
}

/* In reverse post-order every user comes before its sources, so that one pass finds the nodes that
 * are reached other than through bodies. */
static tolk_status mark(const tk_walk_list *nodes, tk_walk_map *outside, tk_walk_map *bodies) {
    enum { HERE = 1 };
    if (!tk_walk_map_put(outside, tk_vec_last(nodes)->id, HERE))
        return TOLK_E_NOMEM;
    for (size_t k = nodes->n; k-- > 0;) {
        const tolk_uop *u = nodes->at[k];
        if (!tk_walk_map_get(outside, u->id))
            continue;
        for (uint32_t i = 0; i < u->n_src; i++)
            if (!tk_walk_map_put(is_body(u, i) ? bodies : outside, u->src[i]->id, HERE))
                return TOLK_E_NOMEM;
    }
    return TOLK_OK;
}

/* What the calls of one list declare: params of lists that they call are theirs alone. seen: the
 * number of the latest list that a node was met in. */
static tolk_status list_defs(const tk_verify_cx *cx, const tolk_uop *list, uint32_t number,
                             tk_walk_map *seen, tk_verify_defs *defs, tk_walk_list *todo) {
    bool ok = tk_vec_push(todo, list);
    while (ok && todo->n) {
        const tolk_uop *u = tk_vec_pop(todo);
        if (tk_walk_map_get(seen, u->id) == number)
            continue;
        ok = tk_walk_map_put(seen, u->id, number);
        if (ok)
            TK_TRY(tk_verify_defs_add(defs, u));
        for (uint32_t i = u->n_src; ok && i-- > 0;)
            if (!is_body(u, i) && !(i == 0 && tk_check_calls_list(u)))
                ok = tk_vec_push(todo, u->src[i]);
    }
    return ok ? TOLK_OK : tk_status_nomem(cx->err);
}

/* The lists: the root, and each that a call outside of kernels is of. */
static tolk_status find_lists(const tk_walk_list *nodes, const tk_walk_map *outside,
                              tk_walk_map *known, tk_walk_list *out) {
    bool ok = tk_vec_push(out, tk_vec_last(nodes));
    for (size_t i = 0; ok && i < nodes->n; i++) {
        const tolk_uop *u = nodes->at[i];
        if (tk_walk_map_get(outside, u->id) && tk_check_calls_list(u) &&
            !tk_walk_map_get(known, u->src[0]->id))
            ok = tk_walk_map_put(known, u->src[0]->id, 1) && tk_vec_push(out, u->src[0]);
    }
    return ok ? TOLK_OK : TOLK_E_NOMEM;
}

static tolk_status tensor_defs(const tk_verify_cx *cx, const tk_walk_list *nodes,
                               const tk_walk_map *outside) {
    tk_walk_map known, seen;
    tk_walk_list lists, todo;
    tk_walk_map_init(&known, cx->al);
    tk_walk_map_init(&seen, cx->al);
    tk_vec_init(&lists, cx->al);
    tk_vec_init(&todo, cx->al);
    tolk_status st =
        find_lists(nodes, outside, &known, &lists) == TOLK_OK ? TOLK_OK : tk_status_nomem(cx->err);
    for (size_t i = 0; i < lists.n && st == TOLK_OK; i++) {
        tk_verify_defs defs;
        tk_verify_defs_init(&defs, cx);
        defs.variables_by_name = true;
        st = list_defs(cx, lists.at[i], (uint32_t)i + 1, &seen, &defs, &todo);
        tk_verify_defs_fini(&defs);
    }
    tk_vec_fini(&todo);
    tk_vec_fini(&lists);
    tk_walk_map_fini(&seen);
    tk_walk_map_fini(&known);
    return st;
}

static tolk_status tensor_nodes(const tk_verify_cx *cx, const tk_walk_list *nodes,
                                tk_walk_map *outside, tk_walk_map *bodies) {
    if (mark(nodes, outside, bodies) != TOLK_OK)
        return tk_status_nomem(cx->err);
    for (size_t i = 0; i < nodes->n; i++)
        if (tk_walk_map_get(outside, nodes->at[i]->id))
            TK_TRY(tensor_node(cx, nodes->at[i]));
    TK_TRY(tensor_defs(cx, nodes, outside));
    for (size_t i = 0; i < nodes->n; i++)
        if (tk_walk_map_get(bodies, nodes->at[i]->id))
            TK_TRY(body(cx, nodes->at[i]));
    return TOLK_OK;
}

static tolk_status verify_tensor(const tk_verify_cx *cx) {
    tk_walk_list nodes;
    tk_walk_map outside, bodies;
    tk_vec_init(&nodes, cx->al);
    tk_walk_map_init(&outside, cx->al);
    tk_walk_map_init(&bodies, cx->al);
    tolk_status st = tk_walk(cx->root, &nodes);
    st = st == TOLK_OK ? tensor_nodes(cx, &nodes, &outside, &bodies) : tk_status_nomem(cx->err);
    tk_walk_map_fini(&bodies);
    tk_walk_map_fini(&outside);
    tk_vec_fini(&nodes);
    return st;
}

/* ---- several kernels ---- */

static tolk_status kernels(const tk_verify_cx *cx, tk_map *names) {
    const tolk_uop *root = cx->root;
    if (tk_uop_is(root, TK_OP_SINK))
        return tk_verify_kernel(cx, root);
    if (!tk_uop_is(root, TK_OP_GROUP) || root->n_src == 0)
        return tk_verify_fail(cx, root, TOLK_E_VERIFY,
                              "the root of kernels is a sink, or a group of sinks");
    TK_TRY(tk_verify_node(cx, root, TK_STAGE_K));
    for (uint32_t i = 0; i < root->n_src; i++) {
        const tolk_uop *sink = root->src[i];
        if (!tk_uop_is(sink, TK_OP_SINK))
            return tk_verify_fail(cx, root, TOLK_E_VERIFY, "operand %u is %s, expected a sink", i,
                                  tk_op_get(tk_uop_op(sink))->name);
        const tk_blob *name = tk_uop_attr(sink, TK_A_SINK_NAME).blob;
        if (!name)
            return tk_verify_fail(cx, sink, TOLK_E_VERIFY, "one of several kernels has no name");
        if (tk_map_find(names, (uintptr_t)name))
            return tk_verify_fail(cx, sink, TOLK_E_VERIFY, "two kernels are named \"%.60s\"",
                                  name->str);
        if (!tk_map_put(names, (uintptr_t)name, 1))
            return tk_status_nomem(cx->err);
        TK_TRY(tk_verify_kernel(cx, sink));
    }
    return TOLK_OK;
}

/* ---- entry ---- */

static bool is_named_sink(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_SINK) && tk_uop_str(u, TK_A_SINK_NAME);
}

tolk_stage tk_verify_stage(const tolk_uop *root) {
    if (is_named_sink(root))
        return TOLK_STAGE_KERNEL;
    if (tk_uop_is(root, TK_OP_LINEAR)) {
        for (uint32_t i = 0; i < root->n_src; i++)
            if (tk_uop_is(root->src[i], TK_OP_CALL))
                return TOLK_STAGE_TENSOR;
        return TOLK_STAGE_PROGRAM;
    }
    if (!tk_uop_is(root, TK_OP_GROUP) || root->n_src == 0)
        return TOLK_STAGE_TENSOR;
    for (uint32_t i = 0; i < root->n_src; i++)
        if (!is_named_sink(root->src[i]))
            return TOLK_STAGE_TENSOR;
    return TOLK_STAGE_KERNEL;
}

tolk_status tk_verify(const tolk_uop *root, tolk_stage stage, tolk_error *err) {
    tk_verify_cx cx = {root, root->graph->al, err};
    if (stage == TOLK_STAGE_ANY)
        stage = tk_verify_stage(root);
    switch (stage) {
    case TOLK_STAGE_TENSOR:
        return verify_tensor(&cx);
    case TOLK_STAGE_KERNEL: {
        tk_map names;
        tk_map_init(&names, cx.al);
        tolk_status st = kernels(&cx, &names);
        tk_map_fini(&names);
        return st;
    }
    case TOLK_STAGE_PROGRAM:
        return tk_verify_program(&cx, root);
    default:
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%d is the number of no stage",
                              (int)stage);
    }
}

tolk_status tolk_verify(const tolk_uop *root, tolk_stage stage, tolk_error *err) {
    if (!root)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "verify: the root is NULL");
    return tk_verify(root, stage, err);
}
