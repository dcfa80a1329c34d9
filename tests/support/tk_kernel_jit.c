/* SPDX-License-Identifier: MIT */
#include "support/tk_kernel_jit.h"

#include "support/tk_kernel.h"

#include "jit/backend.h"
#include "jit/target.h"

static tolk_ctx *ctx;
static tolk_device *device;

static tolk_status compile_and_run(const char *target, const tolk_uop *kernel, void *const *bufs,
                                   const size_t *bytes, size_t n_bufs, const int64_t *vals,
                                   size_t n_vals, tolk_error *err) {
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.target = target;
    tolk_program *program = NULL;
    tolk_status st = tolk_compile(device, kernel, &opts, &program, err);
    if (st != TOLK_OK)
        return st;
    st = tolk_launch(program, bufs, bytes, n_bufs, vals, n_vals, err);
    tolk_program_unref(program);
    return st;
}

/* Name in code, as a target, whether it has FMA. */
#define TARGETS(X)                                                                                 \
    X(sse2, "x86-64", false) X(avx2, "haswell", true) X(avx512, "skylake-avx512", true)

#define ENGINE(id, target, fma)                                                                    \
    static tolk_status run_##id(const tolk_uop *kernel, void *const *bufs, const size_t *bytes,    \
                                size_t n_bufs, const int64_t *vals, size_t n_vals,                 \
                                tolk_error *err) {                                                 \
        return compile_and_run(target, kernel, bufs, bytes, n_bufs, vals, n_vals, err);            \
    }
TARGETS(ENGINE)
#undef ENGINE

static void add(const char *name, tk_kernel_engine fn, bool fma) {
    const tk_host *host = device->backend->host(device);
    tk_target target;
    const char *missing = NULL;
    assert_int_equal(tk_target_parse(host, name, &target, NULL), TOLK_OK);
    if (tk_target_runs_on(&target, host, &missing))
        tk_kernel_add_engine(name, fn, fma);
    else
        print_message("not run: %s (this machine has no %s)\n", name, missing);
}

void tk_kernel_add_compilers(void) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    assert_int_equal(tolk_ctx_create(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_open(ctx, "CPU", &device, NULL), TOLK_OK);
#define ADD(id, target, fma) add(target, run_##id, fma);
    TARGETS(ADD)
#undef ADD
}

void tk_kernel_close_compilers(void) {
    tolk_ctx_destroy(ctx);
    ctx = NULL;
    device = NULL;
}
