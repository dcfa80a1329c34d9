/* SPDX-License-Identifier: MIT */
#include "jit/pipeline.h"

#include "base/env.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "ir/locate.h"
#include "jit/repeat.h"

#include <stdio.h>
#include <string.h>

/* The compiler. Each row: name, letter of TOLK_DUMP (docs/environment.md; a test compares them),
 * the pass, the stage it leaves. */
typedef struct row {
    const char *name;
    char letter;
    tolk_status (*run)(tk_pass *p, const tolk_uop **root, tolk_error *err);
    tolk_stage stage; /* TOLK_STAGE_ANY: of a list that is not complete again so far */
} row;

static const row passes[] = {
    {"prepare", 'P', tk_pass_prepare, TOLK_STAGE_KERNEL},
    {"opts", 'O', tk_pass_opts, TOLK_STAGE_KERNEL},
    {"group", 'G', tk_pass_group, TOLK_STAGE_KERNEL},
    {"peel", 'E', tk_pass_peel, TOLK_STAGE_KERNEL},
    {"prove", 'V', tk_pass_prove, TOLK_STAGE_KERNEL},
    {"narrow", 'N', tk_pass_narrow, TOLK_STAGE_KERNEL},
    {"decompose", 'D', tk_pass_decompose, TOLK_STAGE_KERNEL},
    {"flatten", 'F', tk_pass_flatten, TOLK_STAGE_KERNEL},
    {"lower", 'L', tk_pass_lower, TOLK_STAGE_PROGRAM},
    {"items", 'I', tk_pass_items, TOLK_STAGE_PROGRAM},
    {"scalar", 'S', tk_pass_scalar, TOLK_STAGE_PROGRAM},
};
enum { N_PASSES = sizeof passes / sizeof *passes, PASS_OPTS = 1 };

/* The same for what was given as a program. */
static const row program_passes[] = {
    {"given", 'P', tk_pass_given, TOLK_STAGE_PROGRAM},
    {"narrow", 'N', tk_pass_narrow, TOLK_STAGE_ANY},
    {"decompose", 'D', tk_pass_decompose, TOLK_STAGE_ANY},
    {"program", 'L', tk_pass_program, TOLK_STAGE_PROGRAM},
    {"items", 'I', tk_pass_items, TOLK_STAGE_PROGRAM},
};
enum { N_PROGRAM_PASSES = sizeof program_passes / sizeof *program_passes };

_Static_assert((int)N_PASSES < (int)TK_PIPELINE_LETTERS, "room for each letter and a NUL");

void tk_pipeline_letters(char letters[TK_PIPELINE_LETTERS]) {
    for (int i = 0; i < N_PASSES; i++)
        letters[i] = passes[i].letter;
    letters[N_PASSES] = '\0';
}

static void dump(tolk_ctx *ctx, const char *name, const tolk_uop *root) {
    char *text;
    size_t len;
    if (tolk_print(root, &text, &len) != TOLK_OK)
        return;
    pthread_mutex_lock(&ctx->log_lock);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_fmt(&sb, "after %s:\n", name);
    tk_strbuf_bytes(&sb, text, len);
    if (!sb.failed)
        ctx->log(ctx->log_user, TOLK_LOG_DEBUG, sb.at);
    pthread_mutex_unlock(&ctx->log_lock);
    tk_strbuf_fini(&sb);
    tk_strbuf_text_free(&ctx->al, text);
}

static tolk_status check(const tolk_uop *root, tolk_stage stage, const char *name,
                         tolk_error *err) {
#ifdef NDEBUG
    (void)root, (void)stage, (void)name, (void)err;
    return TOLK_OK;
#else
    if (stage == TOLK_STAGE_ANY)
        return TOLK_OK;
    tolk_error e = TOLK_ERROR_INIT;
    tolk_status st = tolk_verify(root, stage, &e);
    if (st == TOLK_OK || st == TOLK_E_NOMEM)
        return st == TOLK_OK ? st : tk_status_nomem(err);
    return tk_status_fail(err, TOLK_E_INTERNAL, e.node, "pass %s left an invalid graph: %.160s",
                          name, e.msg);
#endif
}

/* pass_prepare names a node of the kernel as given by its id: say where that stands. */
static void place_node(const tolk_uop *kernel, tolk_error *err) {
    const tk_location at = tk_locate(kernel, kernel->graph->nodes.at[err->node]);
    char msg[sizeof err->msg];
    snprintf(msg, sizeof msg, "%s", err->msg);
    snprintf(err->msg, sizeof err->msg, "%s %.*s", at.name, (int)(sizeof msg - sizeof at.name - 1),
             msg);
    tk_locate_error(&at, err);
}

tolk_status tk_pipeline_run(tolk_ctx *ctx, const tolk_uop *kernel, const char *opts,
                            const tk_target *target, tolk_bounds bounds, bool strict,
                            tk_pipeline_end end, tk_pipeline *out, tolk_error *err) {
    *out =
        (tk_pipeline){.pass = {.target = target, .bounds = bounds, .strict = strict, .opts = opts}};
    if (tk_graph_create(ctx, &out->pass.g) != TOLK_OK)
        return tk_status_nomem(err);
    const char *letters = tk_env_get(ctx, "TOLK_DUMP");
    const tolk_uop *root = kernel;
    bool is_program = tk_uop_is(kernel, TK_OP_LINEAR);
    const row *rows = is_program ? program_passes : passes;
    int n = is_program ? (int)N_PROGRAM_PASSES : (int)N_PASSES;
    int last_opt = is_program ? 0 : (int)PASS_OPTS;
    tk_phases_begin(&out->phases);
    for (int i = 0; i < n; i++) {
        tolk_status st = rows[i].run(&out->pass, &root, err);
        if (st != TOLK_OK && i == 0 && err && err->node != TK_NO_NODE)
            place_node(kernel, err);
        if (st == TOLK_OK && rows[i].stage == TOLK_STAGE_KERNEL &&
            !(root = tk_repeat_effects(out->pass.g, root)))
            st = tk_pass_failed(&out->pass, err);
        tk_phases_mark(&out->phases, rows[i].name);
        if (st == TOLK_OK)
            st = check(root, rows[i].stage, rows[i].name, err);
        if (st != TOLK_OK)
            return st;
        tk_log(ctx, TOLK_LOG_DEBUG, "pass %s: the graph has %u nodes", rows[i].name,
               tolk_graph_count(out->pass.g));
        if (letters && strchr(letters, rows[i].letter))
            dump(ctx, rows[i].name, root);
        out->phases.last_ns = tk_phases_now_ns(); /* looking at it is no part of the next one */
        if (i == 0)
            out->kernel = out->pass.kernel = root;
        if (i == last_opt) {
            out->opt = root;
            if (end == TK_PIPELINE_OPT)
                return TOLK_OK;
        }
    }
    out->program = root;
    return TOLK_OK;
}

void tk_pipeline_fini(tk_pipeline *p) {
    if (!p->pass.g)
        return;
    tk_strbuf_text_free(p->pass.g->al, p->pass.applied);
    tk_graph_destroy(p->pass.g);
    *p = (tk_pipeline){.program = NULL};
}
