/* SPDX-License-Identifier: MIT */
#include "realize/jit.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "ir/import.h"
#include "realize/resolve.h"

/* ---- what a replay runs ---- */

void tk_jit_replay_init(tk_jit_replay *p, const tolk_jit *jit) {
    const tolk_allocator *al = &jit->ctx->al;
    *p = (tk_jit_replay){0};
    tk_memory_plan_own_init(&p->own, al);
    tk_vec_init(&p->others, al);
    tk_vec_init(&p->writes, al);
    tk_vec_init(&p->names, al);
    tk_vec_init(&p->overlaps, al);
    tk_vec_init(&p->one_as, al);
    tk_vec_init(&p->captured, al);
    tk_vec_init(&p->now, al);
}

void tk_jit_replay_fini(tk_jit_replay *p, const tolk_jit *jit) {
    tolk_exec_destroy(p->exec);
    tk_bindings_remove_own(jit->bindings, &p->own); /* what is queued keeps their memory */
    tolk_linear_unref(p->linear);
    for (size_t i = 0; i < p->names.n; i++)
        tk_strbuf_text_free(&jit->ctx->al, p->names.at[i]);
    tk_vec_fini(&p->now);
    tk_vec_fini(&p->captured);
    tk_vec_fini(&p->one_as);
    tk_vec_fini(&p->overlaps);
    tk_vec_fini(&p->names);
    tk_vec_fini(&p->writes);
    tk_vec_fini(&p->others);
    tk_memory_plan_own_fini(&p->own);
}

/* ---- the runs ---- */

static tolk_status record(const tk_capture *c, const void *what, tolk_error *err) {
    return tk_jit_recording_add(c->user, what, err);
}

/* Run the function; what it hands over goes to r. */
static tolk_status call_captured(tolk_jit *jit, tk_jit_recording *r, tolk_error *err) {
    TK_TRY(tk_capture_push(jit->ctx, &(tk_capture){record, NULL, r}, err));
    tolk_status st = jit->fn(jit->user, jit->bindings, r->args, err);
    tk_capture top; /* the function may have left some of its own behind */
    while (tk_capture_find(jit->ctx, &top) && tk_capture_pop(jit->ctx, NULL) == TOLK_OK &&
           top.user != r) {
    }
    return st;
}

static tolk_status replay(tk_jit_replay *p, const tolk_run_args *args, tolk_error *err) {
    tolk_run_args run = *args;
    run.jit = 1;
    return tolk_exec_run(p->exec, &run, err);
}

/* Nothing ran while it was captured: what was captured runs for the first time. */
static tolk_status capture(tolk_jit *jit, const tolk_run_args *args, tolk_error *err) {
    tk_jit_recording r;
    tk_jit_replay p;
    tk_jit_replay_init(&p, jit);
    tolk_status st = tk_jit_recording_init(&r, jit, args, err);
    if (st == TOLK_OK)
        st = call_captured(jit, &r, err);
    if (st == TOLK_OK)
        st = tk_jit_lower(&r, &p, err);
    if (st == TOLK_OK)
        st = tk_jit_inputs_remember(jit, &p, args, err);
    if (st == TOLK_OK)
        st = replay(&p, args, err);
    if (st == TOLK_OK) {
        jit->replay = p;
        jit->next = TK_JIT_REPLAY;
    } else {
        tk_jit_replay_fini(&p, jit);
    }
    tk_jit_recording_fini(&r);
    return st;
}

/* What others look at has memory of its own before it is first written. */
static tolk_status bind_held(const tolk_jit *jit, const tolk_run_args *args, tolk_error *err) {
    for (size_t i = 0; i < jit->held.n; i++) {
        tolk_buffer *one;
        tolk_multi *many;
        TK_TRY(tolk_resolve(jit->bindings, args, jit->held.at[i], &one, &many, err));
        tolk_buffer_unref(one);
        tolk_multi_unref(many);
    }
    return TOLK_OK;
}

static tolk_status run_next(tolk_jit *jit, const tolk_run_args *args, tolk_error *err) {
    switch (jit->next) {
    case TK_JIT_RUN:
        TK_TRY(bind_held(jit, args, err));
        TK_TRY(jit->fn(jit->user, jit->bindings, args, err));
        jit->next = TK_JIT_CAPTURE;
        return TOLK_OK;
    case TK_JIT_CAPTURE:
        return capture(jit, args, err);
    case TK_JIT_REPLAY:
        break;
    }
    TK_TRY(tk_jit_inputs_check(jit, &jit->replay, args, err));
    return replay(&jit->replay, args, err);
}

tolk_status tolk_jit_call(tolk_jit *jit, const tolk_run_args *args, tolk_error *err) {
    static const tolk_run_args none = TOLK_RUN_INIT;
    tk_capture top;
    if (!jit)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_jit_call: jit is NULL");
    TK_TRY(tk_resolve_check_args("tolk_jit_call", args, err));
    args = args ? args : &none;
    for (size_t i = 0; i < args->n_vars; i++)
        if (!args->vars[i].name)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "tolk_jit_call: variable %zu has no name", i);
    if (jit->busy)
        return tk_status_fail(err, TOLK_E_BUSY, TK_NO_NODE,
                              "tolk_jit_call: the jit is called by its own function");
    if (tk_capture_find(jit->ctx, &top))
        return tk_status_fail(err, TOLK_E_BUSY, TK_NO_NODE,
                              "tolk_jit_call: inside of a capture, which would not see what it "
                              "replays");
    jit->busy = true;
    tolk_status st = run_next(jit, args, err);
    jit->busy = false;
    if (jit->reset)
        tolk_jit_reset(jit);
    return st;
}

/* ---- making and freeing ---- */

static tolk_status fill(tolk_jit *jit, const tolk_jit_opts *opts, tolk_error *err) {
    if (tk_graph_create(jit->ctx, &jit->graph) != TOLK_OK)
        return tk_status_nomem(err);
    for (size_t i = 0; i < opts->n_held; i++) {
        const tolk_uop *own;
        if (!opts->held[i])
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "node %zu of held is NULL, expected a buffer", i);
        TK_TRY(tk_import(jit->graph, opts->held[i], &own, err));
        if (!tk_vec_push(&jit->held, own))
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

tolk_status tolk_jit_create(tolk_bindings *bindings, tolk_jit_fn fn, void *user,
                            const tolk_jit_opts *opts, tolk_jit **out, tolk_error *err) {
    static const tolk_jit_opts defaults = TOLK_JIT_OPTS_INIT;
    opts = opts ? opts : &defaults;
    if (!bindings || !fn || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_jit_create: bindings, fn or out is NULL");
    if (opts->size != sizeof *opts || (opts->n_held && !opts->held))
        return tk_status_fail(
            err, TOLK_E_ARG, TK_NO_NODE,
            "tolk_jit_create: opts is not as TOLK_JIT_OPTS_INIT makes it, or held "
            "is NULL");
    tolk_ctx *ctx = bindings->ctx;
    tolk_jit *jit = tk_alloc_zero(&ctx->al, sizeof *jit);
    if (!jit)
        return tk_status_nomem(err);
    jit->ctx = ctx;
    jit->bindings = bindings;
    jit->fn = fn;
    jit->user = user;
    jit->batch = opts->batch;
    jit->no_graphs = opts->no_graphs != 0;
    jit->realize = opts->realize;
    tk_vec_init(&jit->held, &ctx->al);
    tolk_status st = fill(jit, opts, err);
    if (st != TOLK_OK) {
        tolk_jit_destroy(jit);
        return st;
    }
    *out = jit;
    return TOLK_OK;
}

void tolk_jit_reset(tolk_jit *jit) {
    if (!jit)
        return;
    jit->reset = jit->busy;
    if (jit->busy)
        return;
    if (jit->next == TK_JIT_REPLAY)
        tk_jit_replay_fini(&jit->replay, jit);
    jit->next = TK_JIT_RUN;
}

void tolk_jit_destroy(tolk_jit *jit) {
    if (!jit)
        return;
    tolk_jit_reset(jit);
    tolk_ctx *ctx = jit->ctx;
    tk_vec_fini(&jit->held);
    tk_graph_destroy(jit->graph);
    tk_alloc_free(&ctx->al, jit, sizeof *jit);
}
