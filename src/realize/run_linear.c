/* SPDX-License-Identifier: MIT
 *
 * tolk_run_linear: an exec for each linear and options, kept in the bindings. The latest ones are;
 * what is dropped is made again when it is run again.
 */
#include "base/status.h"
#include "base/strbuf.h"
#include "realize/compile_linear.h"
#include "realize/exec.h"
#include "realize/realize.h"
#include "realize/resolve.h"

#include <string.h>

enum { KEPT = 32 };

typedef struct kept {
    tolk_linear *linear; /* referenced: its address is nobody else's */
    bool has_compile;
    tolk_compile_opts compile; /* its texts are copies, of base/strbuf.h */
    tolk_to_program_fn to_program;
    void *user;
    tolk_exec *exec;
    uint64_t used;    /* number of the run */
    uint32_t running; /* runs of it: a hook that one causes may run others */
} kept;

typedef struct tk_runs {
    kept at[KEPT];
    size_t n;
    uint64_t runs;
} tk_runs;

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_compile(const tolk_compile_opts *a, const tolk_compile_opts *b) {
    return same_text(a->opts, b->opts) && same_text(a->target, b->target) &&
           a->bounds == b->bounds && a->strict == b->strict && a->no_cache == b->no_cache &&
           same_text(a->symbol, b->symbol) && a->tier == b->tier;
}

static bool is_for(const kept *k, const tolk_linear *linear, const tolk_realize_opts *opts) {
    return k->linear == linear && k->to_program == opts->to_program && k->user == opts->user &&
           k->has_compile == (opts->compile != NULL) &&
           (!opts->compile || same_compile(&k->compile, opts->compile));
}

static void drop(tolk_ctx *ctx, kept *k) {
    tolk_exec_destroy(k->exec);
    tolk_linear_unref(k->linear);
    tk_strbuf_text_free(&ctx->al, (char *)(uintptr_t)k->compile.opts);
    tk_strbuf_text_free(&ctx->al, (char *)(uintptr_t)k->compile.target);
    tk_strbuf_text_free(&ctx->al, (char *)(uintptr_t)k->compile.symbol);
    memset(k, 0, sizeof *k);
}

static tolk_status copy_text(tolk_ctx *ctx, const char **text, tolk_error *err) {
    if (!*text)
        return TOLK_OK;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_str(&sb, *text);
    *text = tk_strbuf_take(&sb, NULL);
    return *text ? TOLK_OK : tk_status_nomem(err);
}

static tolk_status copy_compile(tolk_ctx *ctx, kept *k, const tolk_compile_opts *opts,
                                tolk_error *err) {
    tolk_compile_opts c = *opts;
    c.opts = c.target = c.symbol = NULL;
    k->has_compile = true;
    k->compile = c;
    const char *const from[] = {opts->opts, opts->target, opts->symbol};
    const char **const to[] = {&k->compile.opts, &k->compile.target, &k->compile.symbol};
    for (int i = 0; i < 3; i++) {
        const char *text = from[i];
        TK_TRY(copy_text(ctx, &text, err));
        *to[i] = text;
    }
    return TOLK_OK;
}

/* Room for one more: that of the one that was not used for longest; NULL: all are running. */
static kept *make_room(tolk_ctx *ctx, tk_runs *r) {
    if (r->n < KEPT)
        return &r->at[r->n++];
    kept *oldest = NULL;
    for (size_t i = 0; i < r->n; i++)
        if (!r->at[i].running && (!oldest || r->at[i].used < oldest->used))
            oldest = &r->at[i];
    if (oldest)
        drop(ctx, oldest);
    return oldest;
}

static tolk_status make(tolk_bindings *b, tolk_linear *linear, const tolk_realize_opts *opts,
                        kept *k, tolk_error *err) {
    k->to_program = opts->to_program;
    k->user = opts->user;
    if (opts->compile)
        TK_TRY(copy_compile(b->ctx, k, opts->compile, err));
    TK_TRY(tolk_exec_create(b, linear, opts, &k->exec, err));
    k->linear = tolk_linear_ref(linear);
    return TOLK_OK;
}

static tolk_status check_jit(const tolk_linear *linear, tolk_error *err) {
    const tolk_uop *call;
    TK_TRY(tk_compile_linear_find(linear, &call, err));
    if (!call)
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                          "kernel %.60s is not compiled, but jit says that all are",
                          tolk_kernel_name(call->src[0]));
}

/* The exec, made where there is none. spare: is dropped behind the run; *out may be it. */
static tolk_status find(tolk_bindings *b, tolk_linear *linear, const tolk_realize_opts *opts,
                        bool jit, kept *spare, kept **out, tolk_error *err) {
    tk_runs *r = b->runs;
    for (size_t i = 0; i < r->n; i++)
        if (is_for(&r->at[i], linear, opts)) {
            *out = &r->at[i];
            return TOLK_OK;
        }
    if (jit) /* one that is kept knows it itself */
        TK_TRY(check_jit(linear, err));
    tolk_status st = make(b, linear, opts, spare, err);
    kept *room = st == TOLK_OK ? make_room(b->ctx, r) : NULL;
    if (room) {
        *room = *spare;
        *spare = (kept){0};
    }
    *out = room ? room : spare;
    return st;
}

tolk_status tolk_run_linear(tolk_bindings *bindings, tolk_linear *linear,
                            const tolk_realize_opts *opts, const tolk_run_args *args,
                            tolk_error *err) {
    if (!bindings || !linear)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_run_linear: bindings or linear is NULL");
    TK_TRY(tk_resolve_check_args("tolk_run_linear", args, err));
    TK_TRY(tk_compile_linear_opts(&opts, err));
    tolk_ctx *ctx = bindings->ctx;
    tk_realize_here(ctx);
    if (!bindings->runs && !(bindings->runs = tk_alloc_zero(&ctx->al, sizeof *bindings->runs)))
        return tk_status_nomem(err);
    kept *k, spare = {0};
    tolk_status st = find(bindings, linear, opts, args && args->jit, &spare, &k, err);
    if (st == TOLK_OK) {
        k->used = ++bindings->runs->runs;
        k->running++;
        st = tolk_exec_run(k->exec, args, err);
        k->running--;
    }
    drop(ctx, &spare);
    return st;
}

void tk_exec_end(tolk_bindings *b) {
    for (size_t i = 0; b->runs && i < b->runs->n; i++)
        drop(b->ctx, &b->runs->at[i]);
    if (b->runs)
        tk_alloc_free(&b->ctx->al, b->runs, sizeof *b->runs);
    b->runs = NULL;
}
