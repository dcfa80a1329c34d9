/* SPDX-License-Identifier: MIT */
#include "support/tk_code.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/interp.h"
#include "ir/scalar.h"
#include "ir/verify.h"
#include "jit/llvm_api.h"
#include "support/tk_object.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- targets ---- */

const char *const tk_code_target_names[TK_CODE_TARGETS] = {"x86-64", "x86-64-v2", "haswell",
                                                           "skylake-avx512", "x86-64-v4"};

static bool runs(uint32_t i) {
#if defined(__x86_64__)
    switch (i) {
    case 0:
        return true;
    case 1:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    case 2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");
    default:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
    }
#else
    (void)i;
    return false;
#endif
}

tk_target tk_code_any_target(const char *name) {
    static const tk_host none;
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_target_parse(&none, name, &t, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return t;
}

bool tk_code_target(uint32_t i, tk_target *out) {
    if (!runs(i))
        return false;
    *out = tk_code_any_target(tk_code_target_names[i]);
    return true;
}

/* ---- building ---- */

void tk_code_init(tk_code *c) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    assert_int_equal(tk_ctx_init(&opts, &c->ctx, NULL), TOLK_OK);
    assert_int_equal(tk_graph_create(c->ctx, &c->g), TOLK_OK);
    tk_vec_init(&c->list, &tk_alloc_malloc);
}

void tk_code_fini(tk_code *c) {
    tk_vec_fini(&c->list);
    tk_graph_destroy(c->g);
    tk_ctx_fini(c->ctx);
}

const tolk_uop *tk_code_add(tk_code *c, const tolk_uop *u) {
    if (!u)
        fail_msg("no instruction: %s", c->g->error.msg);
    assert_true(tk_vec_push(&c->list, u));
    return u;
}

const tolk_uop *tk_code_index(tk_code *c, int64_t v) {
    return tk_code_add(c, tk_uop_index_const(c->g, v));
}

const tolk_uop *tk_code_param(tk_code *c, tolk_dtype dtype, const tolk_uop *size, int64_t slot) {
    tk_attr attrs[7] = {{.i = slot},      {.blob = NULL},   {.i = TK_SPACE_GLOBAL},
                        {.i = INT64_MIN}, {.i = INT64_MAX}, {.blob = NULL},
                        {.i = -1}};
    return tk_code_add(c, tk_uop(c->g, TK_OP_PARAM, dtype, &size, 1, attrs));
}

const tolk_uop *tk_code_scalar(tk_code *c, tolk_dtype dtype, int64_t slot) {
    tk_attr attrs[7] = {{.i = slot},      {.blob = NULL},   {.i = TK_SPACE_ALU},
                        {.i = INT64_MIN}, {.i = INT64_MAX}, {.blob = NULL},
                        {.i = -1}};
    return tk_code_add(c, tk_uop(c->g, TK_OP_PARAM, dtype, NULL, 0, attrs));
}

const tolk_uop *tk_code_reg(tk_code *c, tolk_dtype dtype, int64_t size, int64_t slot) {
    tk_attr attrs[4] = {{.i = slot}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *n = tk_code_index(c, size);
    return tk_code_add(c, tk_uop(c->g, TK_OP_BUFFER, dtype, &n, 1, attrs));
}

const tolk_uop *tk_code_op(tk_code *c, tk_op op, const tolk_uop *a, const tolk_uop *b,
                           const tolk_uop *x) {
    return tk_code_add(c, x   ? tk_uop3(c->g, op, a, b, x)
                          : b ? tk_uop2(c->g, op, a, b)
                              : tk_uop1(c->g, op, a));
}

const tolk_uop *tk_code_splat(tk_code *c, const tolk_uop *x, uint32_t lanes) {
    return lanes == 1 ? x : tk_code_add(c, tk_uop_splat(c->g, x, lanes));
}

const tolk_uop *tk_code_cast(tk_code *c, const tolk_uop *x, tolk_dtype dtype) {
    if (tk_dtype_scalar(x->dtype) == tk_dtype_scalar(dtype))
        return x;
    return tk_code_add(c, tk_uop_cast(c->g, x, tk_dtype_scalar(dtype)));
}

const tolk_uop *tk_code_place(tk_code *c, const tolk_uop *buffer, const tolk_uop *i) {
    const tolk_uop *src[2] = {buffer, i};
    tolk_dtype dtype = tk_uop_lanes(i) > 1 ? tk_dtype_like(buffer->dtype, i->dtype) : buffer->dtype;
    return tk_code_add(c, tk_uop(c->g, TK_OP_INDEX, dtype, src, 2, NULL));
}

const tolk_uop *tk_code_load(tk_code *c, tolk_dtype dtype, const tolk_uop *place,
                             const tolk_uop *alt, const tolk_uop *gate, bool inbounds) {
    const tolk_uop *src[3] = {place, alt, gate};
    tk_attr attrs[4] = {{.i = inbounds}};
    return tk_code_add(c, tk_uop(c->g, TK_OP_LOAD, dtype, src, gate ? 3 : 1, attrs));
}

const tolk_uop *tk_code_store(tk_code *c, const tolk_uop *place, const tolk_uop *value,
                              const tolk_uop *gate, bool inbounds) {
    const tolk_uop *src[3] = {place, value, gate};
    tk_attr attrs[4] = {{.i = inbounds}};
    return tk_code_add(c, tk_uop(c->g, TK_OP_STORE, TOLK_VOID, src, gate ? 3 : 2, attrs));
}

const tolk_uop *tk_code_range(tk_code *c, const tolk_uop *size, int64_t axis, bool poll) {
    tk_attr attrs[4] = {{.i = axis}, {.blob = NULL}, {.i = TK_AXIS_LOOP}, {.i = poll}};
    return tk_code_add(c, tk_uop(c->g, TK_OP_RANGE, TOLK_INDEX, &size, 1, attrs));
}

void tk_code_end(tk_code *c, const tolk_uop *range) {
    tk_code_add(c, tk_uop(c->g, TK_OP_END, TOLK_VOID, &range, 1, NULL));
}

const tolk_uop *tk_code_done(tk_code *c) {
    const tolk_uop *l = tk_uop(c->g, TK_OP_LINEAR, TOLK_VOID, c->list.at, c->list.n, NULL);
    tolk_error err = TOLK_ERROR_INIT;
    if (!l || tk_verify(l, TOLK_STAGE_PROGRAM, &err) != TOLK_OK)
        fail_msg("the test's program is wrong: %s", l ? err.msg : c->g->error.msg);
    return l;
}

/* ---- memory ---- */

typedef struct block {
    char *map, *at;
    size_t map_bytes;
} block;

/* bytes that end at an unmapped page. */
static block block_create(size_t bytes, const void *data) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
    block b = {.map_bytes = body + 2 * page};
    b.map = mmap(NULL, b.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(b.map != MAP_FAILED);
    if (body)
        assert_int_equal(mprotect(b.map + page, body, PROT_READ | PROT_WRITE), 0);
    b.at = b.map + page + body - bytes;
    memset(b.map + page, 0xa5, body);
    if (bytes)
        memcpy(b.at, data, bytes);
    return b;
}

static void block_destroy(block *b) {
    munmap(b->map, b->map_bytes);
}

/* ---- running ---- */

static char *emit(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear, const char *what,
                  size_t *len) {
    char *object = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_llvm_emit(ctx, target, linear, "kernel", TK_LLVM_OBJ, NULL, NULL, &object, len, &err) !=
        TOLK_OK)
        fail_msg("%s: emit: %s", what, err.msg);
    const char *undefined = tk_object_undefined(object, *len);
    if (undefined)
        fail_msg("%s: the object needs %s", what, undefined);
    return object;
}

void tk_code_emit(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                  const char *what) {
    size_t len;
    tk_strbuf_text_free(&ctx->al, emit(ctx, target, linear, what, &len));
}

static tolk_kenv run(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear, void **bufs,
                     const int64_t *vals, int64_t begin, int64_t end, uint32_t cancel,
                     const char *what) {
    size_t len;
    char *object = emit(ctx, target, linear, what, &len);
    tk_code_linked *code;
    void *entry;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_llvm_link(ctx, object, len, "kernel", &code, &entry, &err) != TOLK_OK)
        fail_msg("%s: link: %s", what, err.msg);
    tk_strbuf_text_free(&ctx->al, object);
    _Atomic uint32_t flag;
    atomic_init(&flag, cancel);
    tolk_kenv env = {.size = sizeof env, .cancel = &flag, .fault_slot = 77, .fault_index = 77};
    tk_kernel_fn fn;
    memcpy(&fn, &entry, sizeof fn);
    fn((void *const *)bufs, vals, begin, end, &env);
    tk_code_unlink(ctx, code);
    env.cancel = NULL;
    return env;
}

tolk_kenv tk_code_run(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear, void **bufs,
                      const int64_t *vals, int64_t begin, int64_t end, uint32_t cancel) {
    return run(ctx, target, linear, bufs, vals, begin, end, cancel, "run");
}

static uint64_t element(const char *at, tolk_dtype dtype, size_t i) {
    uint64_t bits = 0;
    size_t bytes = tolk_dtype_bytes(dtype);
    memcpy(&bits, at + i * bytes, bytes);
    return bits;
}

void tk_code_compare(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                     const tk_code_buf *bufs, size_t n_bufs, const int64_t *vals, size_t n_vals,
                     const char *what) {
    enum { MAX = 16 };
    block want[MAX], have[MAX];
    void *want_at[MAX], *have_at[MAX];
    size_t bytes[MAX];
    assert_true(n_bufs <= MAX);
    for (size_t i = 0; i < n_bufs; i++) {
        bytes[i] = bufs[i].n * tolk_dtype_bytes(bufs[i].dtype);
        want[i] = block_create(bytes[i], bufs[i].data);
        have[i] = block_create(bytes[i], bufs[i].data);
        want_at[i] = want[i].at;
        have_at[i] = have[i].at;
    }
    tk_interp_args args = {.bufs = want_at,
                           .bytes = bytes,
                           .n_bufs = n_bufs,
                           .vals = vals,
                           .n_vals = n_vals,
                           .no_fma = !target->fma};
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tk_interp_run(linear, &args, &err);
    if (st != TOLK_OK && st != TOLK_E_RANGE)
        fail_msg("%s: interpreter: %s", what, err.msg);
    tolk_kenv env = run(ctx, target, linear, have_at, vals, 0, 0, 0, what);
    for (size_t i = 0; i < n_bufs; i++)
        for (size_t k = 0; k < bufs[i].n; k++) {
            uint64_t w = element(want[i].at, bufs[i].dtype, k);
            uint64_t h = element(have[i].at, bufs[i].dtype, k);
            if (!tk_scalar_same(bufs[i].dtype, w, h))
                fail_msg("%s on %s: buffer %zu, element %zu: 0x%llx, expected 0x%llx", what,
                         target->cpu, i, k, (unsigned long long)h, (unsigned long long)w);
        }
    if ((env.fault != 0) != (st == TOLK_E_RANGE))
        fail_msg("%s on %s: fault %u (slot %u, index %lld), the interpreter says: %s", what,
                 target->cpu, env.fault, env.fault_slot, (long long)env.fault_index,
                 st == TOLK_OK ? "none" : err.msg);
    for (size_t i = 0; i < n_bufs; i++) {
        block_destroy(&want[i]);
        block_destroy(&have[i]);
    }
}
