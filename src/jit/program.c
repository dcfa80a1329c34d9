/* SPDX-License-Identifier: MIT
 *
 * Compiled programs: from a kernel through the binary cache to code.
 */
#include "jit/program.h"

#include "base/deep.h"
#include "base/env.h"
#include "base/log.h"
#include "ir/dtype.h"
#include "ir/verify.h"
#include "jit/code_hash.h"
#include "jit/device.h"
#include "jit/header.h"
#include "jit/history.h"
#include "jit/launch.h"
#include "jit/module.h"
#include "jit/repro.h"
#include "jit/tier.h"

#include <stdio.h>
#include <string.h>

#define SYMBOL TK_PROGRAM_SYMBOL
#define OLDEST_GPU "sm_75"

/* ---- compiling ---- */

/* Of the thread that compiles. LLVM goes deep in large blocks; sanitizers make it deeper. */
enum { COMPILE_STACK = 16 << 20 };

static tolk_status no_stack(tolk_error *err) {
    return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE,
                          "no thread to compile on, and the caller's stack is too small");
}

typedef struct build {
    tolk_ctx *ctx;
    const tk_backend *backend; /* of the device; NULL where nothing is run */
    const tolk_uop *kernel;
    const tolk_compile_opts *opts;
    tk_target target;
    tk_phases phases;
    bool built; /* no cache answered */
} build;

static tolk_status check_opts(const tolk_compile_opts **opts, tolk_error *err) {
    static const tolk_compile_opts defaults = TOLK_COMPILE_OPTS_INIT;
    if (!*opts)
        *opts = &defaults;
    if ((*opts)->size != sizeof **opts)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_compile_opts.size is %u, this library knows %zu (use "
                              "TOLK_COMPILE_OPTS_INIT)",
                              (*opts)->size, sizeof **opts);
    if ((int)(*opts)->tier < TOLK_TIER_DEFAULT || (*opts)->tier > TOLK_TIER_AUTO)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_compile_opts.tier is %d",
                              (int)(*opts)->tier);
    if ((*opts)->bounds != TOLK_BOUNDS_CHECK && (*opts)->bounds != TOLK_BOUNDS_TRUST)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_compile_opts.bounds is %d",
                              (int)(*opts)->bounds);
    return TOLK_OK;
}

static tolk_stage stage_of(const tolk_uop *root) {
    return tk_uop_is(root, TK_OP_LINEAR) ? TOLK_STAGE_PROGRAM : TOLK_STAGE_KERNEL;
}

static const char *target_name(tolk_ctx *ctx, const tolk_compile_opts *opts) {
    return opts->target ? opts->target : tk_env_get(ctx, "TOLK_CPU");
}

/* What one compilation makes: on a thread of its own. */
typedef struct making {
    build *b;
    char **out;
    size_t *len;
    tolk_error *err;
    tolk_status st;
} making;

/* Kernel to bytes: passes, object, metadata. opts: loop options, NULL for the heuristic's. */
static void make_with(making *m, const char *opts) {
    build *b = m->b;
    tk_pipeline p;
    char *object = NULL;
    size_t object_bytes = 0;
    uint64_t frame_bytes = 0;
    tolk_status st = tk_pipeline_run(b->ctx, b->kernel, opts, &b->target, b->opts->bounds,
                                     b->opts->strict != 0, TK_PIPELINE_PROGRAM, &p, m->err);
    tk_phases_append(&b->phases, &p.phases);
    if (st == TOLK_OK)
        st = tk_module_emit(b->ctx, &b->target, p.program, SYMBOL,
                            tk_target_is_gpu(&b->target) ? TK_LLVM_ASM : TK_LLVM_OBJ, &frame_bytes,
                            &b->phases, &object, &object_bytes, m->err);
    if (st == TOLK_OK) /* text of base/strbuf.h has a NUL behind it, which PTX takes along */
        st = tk_meta_write(&p, p.pass.given, object,
                           object_bytes + (tk_target_is_gpu(&b->target) ? 1 : 0), frame_bytes,
                           m->out, m->len, m->err);
    tk_phases_mark(&b->phases, "meta");
    tk_strbuf_text_free(&b->ctx->al, object);
    tk_pipeline_fini(&p);
    m->st = st;
}

/* What only the heuristic's options make too large is compiled as it was written. */
static bool without_options(const build *b, tolk_status st) {
    return st == TOLK_E_LIMIT && !b->opts->opts;
}

static void make_bytes(void *arg) {
    making *m = arg;
    tk_phases_mark(&m->b->phases, "thread");
    make_with(m, m->b->opts->opts);
    if (without_options(m->b, m->st))
        make_with(m, "");
}

static tolk_status build_bytes(void *user, char **out, size_t *len, tolk_error *err) {
    making m = {user, out, len, err, TOLK_OK};
    m.b->built = true;
    tk_phases_mark(&m.b->phases, "cache");
    return tk_deep_run(COMPILE_STACK, make_bytes, &m) ? m.st : no_stack(err);
}

static bool check_bytes(void *user, const void *bytes, size_t len) {
    const build *b = user;
    tk_meta_view view;
    return tk_meta_open(bytes, len, &view) &&
           (view.head->is_ptx || !b->backend->check ||
            b->backend->check(view.object, view.head->object_bytes, SYMBOL, NULL, NULL) == TOLK_OK);
}

/* All that shapes the code, as bytes. */
static tolk_status write_key(const build *b, tk_strbuf *sb, tolk_error *err) {
    char *text;
    size_t len;
    if (tolk_print(b->kernel, &text, &len) != TOLK_OK)
        return tk_status_nomem(err);
    tk_strbuf_fmt(sb, "tolk %d.%d.%d code %s llvm %s\nopts %s\nbounds %d strict %d\n",
                  TOLK_VERSION_MAJOR, TOLK_VERSION_MINOR, TOLK_VERSION_PATCH, tk_code_hash,
                  tk_code_llvm, b->opts->opts ? b->opts->opts : "heuristic", (int)b->opts->bounds,
                  b->opts->strict != 0);
    tk_strbuf_bytes(sb, &b->target, sizeof b->target);
    tk_strbuf_bytes(sb, text, len);
    tolk_free_text(b->ctx, text);
    return sb->failed ? tk_status_nomem(err) : TOLK_OK;
}

/* The buffers of a program with constant sizes, if these are sizes. */
static tolk_status describe_bufs(tolk_program *p, tolk_error *err) {
    const tk_meta *h = p->meta.head;
    if (!h->n_bufs)
        return TOLK_OK;
    p->buf = tk_alloc(&p->ctx->al, h->n_bufs * sizeof *p->buf);
    if (!p->buf)
        return tk_status_nomem(err);
    for (size_t i = 0, b = 0; b < h->n_bufs; i++) {
        const tk_meta_param *m = &p->meta.params[i];
        if (m->is_scalar)
            continue;
        int64_t elems = p->values[m->size];
        p->buf[b].stored = m->stored;
        if (elems < 0 ||
            !tk_mul_size((size_t)elems, tolk_dtype_bytes(m->dtype), &p->buf[b++].bytes)) {
            tk_alloc_free(&p->ctx->al, p->buf, h->n_bufs * sizeof *p->buf);
            p->buf = NULL;
            return TOLK_OK;
        }
    }
    return TOLK_OK;
}

/* Look at a binary's bytes and evaluate what does not change between launches. */
static tolk_status open_program(tolk_program *p, tolk_error *err) {
    size_t len;
    const void *bytes = tk_binary_bytes(p->binary, &len);
    if (!tk_meta_open(bytes, len, &p->meta))
        return tk_status_fail(err, TOLK_E_INTERNAL, TK_NO_NODE,
                              "a compiled kernel has damaged metadata");
    const tk_meta *h = p->meta.head;
    p->constant = tk_expr_is_constant(p->meta.steps, h->n_steps);
    p->values = tk_alloc_zero(&p->ctx->al, h->n_steps * sizeof *p->values);
    if (!p->values)
        return tk_status_nomem(err);
    if (p->constant) {
        bool wraps[TK_EXPR_MAX_STEPS];
        tk_expr_eval(p->meta.steps, h->n_steps, NULL, p->values, wraps);
        TK_TRY(tk_launch_check_span(p, wraps, err));
        TK_TRY(describe_bufs(p, err));
    }
    if (h->is_ptx) { /* for a driver to load */
        p->code_bytes = h->object_bytes - 1;
        return TOLK_OK;
    }
    size_t offset = (size_t)((const char *)p->meta.object - (const char *)bytes);
    void *entry;
    TK_TRY(tk_binary_link(p->ctx, p->binary, p->device->backend, offset, h->object_bytes, SYMBOL,
                          &entry, &p->code_bytes, err));
    tk_binary_observe(p->ctx, p->binary, offset, h->object_bytes, p->meta.strings + h->name,
                      SYMBOL);
    tk_kernel_fn fn;
    memcpy(&fn, &entry, sizeof entry); /* an object pointer to a function pointer */
    atomic_init(&p->fn, fn);
    return TOLK_OK;
}

static void free_program(tolk_program *p) {
    tolk_ctx *ctx = p->ctx;
    tk_tier_end(ctx, p->tier);
    if (p->values)
        tk_alloc_free(&ctx->al, p->values, p->meta.head->n_steps * sizeof *p->values);
    if (p->buf)
        tk_alloc_free(&ctx->al, p->buf, p->meta.head->n_bufs * sizeof *p->buf);
    if (p->binary)
        tk_binary_unref(ctx, p->binary);
    tk_alloc_free(&ctx->al, p, sizeof *p);
}

/* Where a program came from, for TOLK_DEBUG=1. */
static void tell(const tolk_program *p) {
    static const char *const from[] = {[TOLK_CACHED_NONE] = "compiled",
                                       [TOLK_CACHED_MEMORY] = "from memory",
                                       [TOLK_CACHED_DISK] = "from disk",
                                       [TOLK_CACHED_SAVED] = "loaded"};
    const tk_meta *h = p->meta.head;
    tk_log(p->ctx, TOLK_LOG_INFO,
           "kernel %.60s: %s in %llu us, %zu bytes of code, %u lanes, loop options \"%.200s\"",
           p->meta.strings + h->name, from[p->cached], (unsigned long long)(p->compile_ns / 1000),
           p->code_bytes, h->lanes, p->meta.strings + h->opts);
}

tolk_status tk_program_open(tolk_device *device, tk_binary *binary, tolk_cached cached,
                            tk_arch arch, uint64_t features, uint64_t start_ns, tolk_program **out,
                            tolk_error *err) {
    tolk_ctx *ctx = device->ctx;
    tolk_program *p = tk_alloc_zero(&ctx->al, sizeof *p);
    if (!p) {
        tk_binary_unref(ctx, binary);
        return tk_status_nomem(err);
    }
    atomic_init(&p->refs, 1);
    p->ctx = ctx;
    p->device = device;
    p->binary = binary;
    p->cached = cached;
    p->arch = arch;
    p->features = features;
    tolk_status st = open_program(p, err);
    if (st != TOLK_OK) {
        free_program(p);
        return st;
    }
    p->compile_ns = tk_phases_now_ns() - start_ns;
    tell(p);
    *out = p;
    return TOLK_OK;
}

/* Find the binary of a key, or make it; may_build false: only find it, else *binary is NULL. */
static tolk_status get_binary(build *b, bool may_build, tk_binary **binary, tolk_cached *cached,
                              tolk_error *err) {
    tk_strbuf key;
    tk_strbuf_init(&key, &b->ctx->al);
    tolk_status st = write_key(b, &key, err);
    tk_phases_mark(&b->phases, "key");
    if (st == TOLK_OK)
        st = tk_cache_get(b->ctx, key.at, key.n, b->opts->no_cache != 0, check_bytes,
                          may_build ? build_bytes : NULL, b, binary, cached, err);
    tk_strbuf_fini(&key);
    return st;
}

tolk_status tk_program_build(tolk_device *device, const char *text, size_t len,
                             const tk_target *target, const tolk_compile_opts *opts,
                             uint64_t frame_bytes, tk_binary **binary, void **entry,
                             tolk_error *err) {
    build b = {.ctx = device->ctx, .backend = device->backend, .opts = opts, .target = *target};
    tolk_graph *g;
    tolk_cached cached;
    tk_meta_view view;
    tk_phases_begin(&b.phases);
    TK_TRY(tolk_graph_create(b.ctx, &g));
    tolk_status st = tolk_parse(g, text, len, 0, &b.kernel, err);
    if (st == TOLK_OK) {
        tk_repro repro;
        tk_repro_begin(b.ctx, b.kernel, opts, target_name(b.ctx, opts), target, NULL, &repro);
        st = get_binary(&b, true, binary, &cached, err);
        tk_repro_end(b.ctx, &repro, st);
    }
    tolk_graph_destroy(g);
    TK_TRY(st);
    size_t n, code_bytes;
    const char *bytes = tk_binary_bytes(*binary, &n);
    if (!tk_meta_open(bytes, n, &view))
        st = tk_status_fail(err, TOLK_E_INTERNAL, TK_NO_NODE,
                            "a compiled kernel has damaged metadata");
    else if (view.head->frame_bytes > frame_bytes)
        st = tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE, "it needs more stack");
    size_t offset = st == TOLK_OK ? (size_t)((const char *)view.object - bytes) : 0;
    if (st == TOLK_OK)
        st = tk_binary_link(b.ctx, *binary, b.backend, offset, view.head->object_bytes, SYMBOL,
                            entry, &code_bytes, err);
    if (st == TOLK_OK) {
        tk_binary_observe(b.ctx, *binary, offset, view.head->object_bytes,
                          view.strings + view.head->name, SYMBOL);
        return TOLK_OK;
    }
    tk_binary_unref(b.ctx, *binary);
    *binary = NULL;
    return st;
}

/* The tier of a compilation: as asked, as the environment says, FULL. PTX is made once: nothing
 * here could take the place of what a driver has loaded. */
static tolk_tier tier_of(const build *b) {
    static const char *const names[] = {
        [TOLK_TIER_FULL] = "full", [TOLK_TIER_QUICK] = "quick", [TOLK_TIER_AUTO] = "auto"};
    if (tk_target_is_gpu(&b->target))
        return TOLK_TIER_FULL;
    if (b->opts->tier != TOLK_TIER_DEFAULT)
        return b->opts->tier;
    const char *v = tk_env_get(b->ctx, "TOLK_TIER");
    for (int i = TOLK_TIER_FULL; v && i <= TOLK_TIER_AUTO; i++)
        if (strcmp(v, names[i]) == 0)
            return (tolk_tier)i;
    if (v)
        tk_log(b->ctx, TOLK_LOG_WARNING,
               "TOLK_TIER=\"%.64s\" is ignored: expected full, quick or auto", v);
    return TOLK_TIER_FULL;
}

/* A program with quick code that is to get better code. */
static tolk_status begin_tier(build *b, tolk_program *p, tolk_error *err) {
    char *text;
    size_t len;
    if (tolk_print(b->kernel, &text, &len) != TOLK_OK)
        return tk_status_nomem(err);
    tolk_status st = tk_tier_begin(p, text, len, &b->target, b->opts, err);
    tolk_free_text(b->ctx, text);
    return st;
}

/* From a verified kernel to a program. */
static tolk_status compile_verified(tolk_device *device, build *b, tolk_tier tier, uint64_t start,
                                    tolk_program **out, tolk_error *err) {
    tk_binary *binary = NULL;
    tolk_cached cached;
    tolk_status st = TOLK_OK;
    if (tier == TOLK_TIER_AUTO)
        st = get_binary(b, false, &binary, &cached, err);
    if (st == TOLK_OK && !binary) {
        b->target.quick = tier != TOLK_TIER_FULL;
        st = get_binary(b, true, &binary, &cached, err);
    }
    tk_phases_mark(&b->phases, b->built ? "store" : "cache");
    TK_TRY(st);
    st = tk_program_open(device, binary, cached, b->target.arch, tk_target_features(&b->target),
                         start, out, err);
    if (st == TOLK_OK && b->target.quick) {
        (*out)->quick = true;
        if (tier == TOLK_TIER_AUTO && (st = begin_tier(b, *out, err)) != TOLK_OK) {
            tolk_program_unref(*out);
            *out = NULL;
        }
    }
    tk_phases_mark(&b->phases, "link");
    return st;
}

static void record(const build *b, const char *target, const tolk_program *p, tolk_status st,
                   const tolk_error *err, uint64_t total_ns) {
    tk_history_record r = {.kernel = tolk_kernel_name(b->kernel),
                           .target = target ? target : "native",
                           .status = st,
                           .error = st ? err->msg : NULL,
                           .total_ns = total_ns,
                           .phases = &b->phases};
    if (p) {
        r.opts = p->meta.strings + p->meta.head->opts;
        r.cached = p->cached;
        r.lanes = p->meta.head->lanes;
        r.code_bytes = p->code_bytes;
    }
    tk_history_add(b->ctx, &r);
}

tolk_status tolk_compile(tolk_device *device, const tolk_uop *sink, const tolk_compile_opts *opts,
                         tolk_program **out, tolk_error *err) {
    uint64_t start = tk_phases_now_ns();
    if (!device || !sink || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_compile: device, sink or out is "
                              "NULL");
    TK_TRY(check_opts(&opts, err));
    tolk_ctx *ctx = device->ctx;
    tk_ctx_after_fork(ctx);
    const tk_host *host = device->backend->host(device);
    build b = {.ctx = ctx, .backend = device->backend, .kernel = sink, .opts = opts};
    const char *name = target_name(ctx, opts), *missing;
    TK_TRY(tk_target_parse(host, name, &b.target, err));
    if (!tk_target_is_gpu(&b.target) && !tk_target_runs_on(&b.target, host, &missing))
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "target %s: this machine does not have %s", name ? name : "native",
                              missing);
    tk_repro repro;
    tk_phases_begin(&b.phases);
    tk_phases_add(&b.phases, "parse", sink->graph->parse_ns);
    tolk_error own = TOLK_ERROR_INIT;
    if (!err)
        err = &own; /* the history keeps the message */
    tolk_program *p = NULL;
    tolk_status st = tolk_verify(sink, stage_of(sink), err);
    tk_phases_mark(&b.phases, "verify");
    if (st == TOLK_OK) {
        tolk_tier tier = tier_of(&b);
        tk_target made = b.target; /* AUTO: what fails is the quick code */
        made.quick = tier != TOLK_TIER_FULL;
        tk_repro_begin(ctx, sink, opts, name, &made, NULL, &repro);
        st = compile_verified(device, &b, tier, start, &p, err);
        tk_repro_end(ctx, &repro, st);
    }
    record(&b, name, p, st, err, tk_phases_now_ns() - start);
    TK_TRY(st);
    *out = p;
    return TOLK_OK;
}

tolk_program *tolk_program_ref(tolk_program *program) {
    if (program)
        atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

void tolk_program_unref(tolk_program *program) {
    if (program && atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) == 1) {
        tk_ctx_after_fork(program->ctx);
        free_program(program);
    }
}

tolk_status tolk_program_get_info(const tolk_program *program, tolk_program_info *out) {
    if (!program || !out)
        return TOLK_E_ARG;
    const tk_meta *h = program->meta.head;
    *out = (tolk_program_info){
        .name = program->meta.strings + h->name,
        .opts = program->meta.strings + h->opts,
        .n_bufs = h->n_bufs,
        .n_vals = h->n_vals,
        .cached = program->cached,
        .compile_ns = program->compile_ns,
        .code_bytes = program->code_bytes,
        .scratch_bytes = program->constant ? (size_t)program->values[h->scratch_bytes] : 0,
        .lanes = h->lanes,
        .tier = program->quick && !(program->tier && tk_tier_is_done(program)) ? TOLK_TIER_QUICK
                                                                               : TOLK_TIER_FULL};
    return TOLK_OK;
}

/* ---- other forms ---- */

typedef struct emission {
    build b;
    tolk_emit_kind kind;
    char symbol[TK_HEADER_SYMBOL];
    char **text;
    size_t *len;
    tolk_error *err;
    tolk_status st;
} emission;

/* The header is that of the object: made beside it, as what makes the object too large changes
 * both. */
static tolk_status emit_header(emission *e, const tk_pipeline *p) {
    const build *b = &e->b;
    char *object = NULL, *bytes = NULL;
    size_t n;
    uint64_t frame_bytes = 0;
    tk_meta_view view;
    tolk_status st = tk_module_emit(b->ctx, &b->target, p->program, e->symbol, TK_LLVM_OBJ,
                                    &frame_bytes, NULL, &object, &n, e->err);
    if (st == TOLK_OK)
        st = tk_meta_write(p, p->pass.given, "", 0, frame_bytes, &bytes, &n, e->err);
    if (st == TOLK_OK && !tk_meta_open(bytes, n, &view))
        st = tk_status_fail(e->err, TOLK_E_INTERNAL, TK_NO_NODE, "the metadata cannot be read");
    if (st == TOLK_OK)
        st = tk_header_write(b->ctx, &view, &b->target, e->symbol, e->text, e->len, e->err);
    tk_strbuf_text_free(&b->ctx->al, bytes);
    tk_strbuf_text_free(&b->ctx->al, object);
    return st;
}

static void emit_with(emission *e, const char *opts) {
    const build *b = &e->b;
    tolk_emit_kind kind = e->kind;
    tk_pipeline p;
    tolk_status st =
        tk_pipeline_run(b->ctx, b->kernel, opts, &b->target, b->opts->bounds, b->opts->strict != 0,
                        kind == TOLK_EMIT_OPT ? TK_PIPELINE_OPT : TK_PIPELINE_PROGRAM, &p, e->err);
    if (st == TOLK_OK && (kind == TOLK_EMIT_OPT || kind == TOLK_EMIT_PROGRAM))
        st = tolk_print(kind == TOLK_EMIT_OPT ? p.opt : p.program, e->text, e->len);
    else if (st == TOLK_OK && kind == TOLK_EMIT_HEADER)
        st = emit_header(e, &p);
    else if (st == TOLK_OK)
        st = tk_module_emit(b->ctx, &b->target, p.program, e->symbol,
                            kind == TOLK_EMIT_LLVM  ? TK_LLVM_IR
                            : kind == TOLK_EMIT_OBJ ? TK_LLVM_OBJ
                                                    : TK_LLVM_ASM,
                            NULL, NULL, e->text, e->len, e->err);
    tk_pipeline_fini(&p);
    e->st = st;
}

static void emit(void *arg) {
    emission *e = arg;
    emit_with(e, e->b.opts->opts);
    if (without_options(&e->b, e->st))
        emit_with(e, "");
}

/* As `tolk-jit emit` names them. */
static const char *const forms[] = {
    [TOLK_EMIT_UOP] = "uop",       [TOLK_EMIT_OPT] = "opt", [TOLK_EMIT_PROGRAM] = "program",
    [TOLK_EMIT_LLVM] = "llvm",     [TOLK_EMIT_ASM] = "asm", [TOLK_EMIT_OBJ] = "obj",
    [TOLK_EMIT_HEADER] = "header", [TOLK_EMIT_PTX] = "ptx"};

tolk_status tolk_emit(tolk_ctx *ctx, const tolk_uop *sink, const tolk_compile_opts *opts,
                      tolk_emit_kind kind, char **text, size_t *len, tolk_error *err) {
    if (!ctx || !sink || !text || !len)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_emit: an argument is NULL");
    if ((int)kind < TOLK_EMIT_UOP || kind > TOLK_EMIT_PTX)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_emit: unknown kind %d", (int)kind);
    TK_TRY(check_opts(&opts, err));
    tk_ctx_after_fork(ctx);
    TK_TRY(tolk_verify(sink, stage_of(sink), err));
    if (kind == TOLK_EMIT_UOP)
        return tolk_print(sink, text, len) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
    emission e = {{.ctx = ctx, .kernel = sink, .opts = opts}, kind, {0}, text, len, err, TOLK_OK};
    TK_TRY(tk_header_symbol(opts->symbol, tolk_kernel_name(sink), e.symbol, err));
    bool is_ptx = kind == TOLK_EMIT_PTX;
    const char *target = is_ptx && !opts->target ? OLDEST_GPU : target_name(ctx, opts);
    TK_TRY(tk_target_parse(tk_family_host(ctx), target, &e.b.target, err));
    if (is_ptx && !tk_target_is_gpu(&e.b.target))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "PTX for %.60s: expected a GPU as target, sm_75 to sm_90a", target);
    bool is_gpu = tk_target_is_gpu(&e.b.target);
    if (is_gpu && (kind == TOLK_EMIT_OBJ || kind == TOLK_EMIT_HEADER))
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "an object for %s: a GPU's code is PTX, which its driver assembles",
                              e.b.target.cpu);
    if (is_gpu && !opts->symbol)
        snprintf(e.symbol, sizeof e.symbol, "%s", SYMBOL);
    if (is_gpu && tk_target_ptx_has(e.symbol))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "symbol \"%s\" is a constant of PTX: expected another identifier",
                              e.symbol);
    e.b.target.quick = tier_of(&e.b) == TOLK_TIER_QUICK;
    tk_repro repro;
    tk_repro_begin(ctx, sink, opts, target, &e.b.target, forms[kind], &repro);
    if (!tk_deep_run(COMPILE_STACK, emit, &e))
        e.st = no_stack(err);
    tk_repro_end(ctx, &repro, e.st);
    return e.st;
}
