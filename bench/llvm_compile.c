/* SPDX-License-Identifier: MIT
 *
 * Compile time against LLVM's C API on the same IR: 30 distinct kernels of each kind in a warm
 * process, no cache; the figure is the median of their processor times. The peer's clock starts
 * with a ready module: object emission at the same level, then ORC with its own memory manager.
 * tolk's clock covers all, from the graph to the callable function.
 *
 * Before, the first compilation of the process, which opens LLVM; in the quick tier if there is an
 * argument. Then tolk alone: the quick tier, and the first compilation of a kernel in a process
 * whose code is in the disk cache. bench/start.sh times whole processes.
 */
#include "bench.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/OrcEE.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <tolk/tolk.h>

enum { KERNELS = 30 };

static tolk_ctx *ctx;
static tolk_device *device;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* y = a * b + c, or a chain of 64 fused multiply-adds; k makes the constants distinct. */
static const tolk_uop *make(tolk_graph *g, int fmas, int k) {
    int64_t n = 4096;
    const tolk_uop *y = tolk_param(g, TOLK_F32, &n, 1, 0, "y");
    const tolk_uop *a = tolk_param(g, TOLK_F32, &n, 1, 1, "a");
    const tolk_uop *b = tolk_param(g, TOLK_F32, &n, 1, 2, "b");
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, n), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *va = tolk_load(g, tolk_index(g, a, &i, 1));
    const tolk_uop *vb = tolk_load(g, tolk_index(g, b, &i, 1)), *r;
    if (!fmas)
        r = tolk_add(g, tolk_mul(g, va, vb), tolk_const_float(g, TOLK_F32, 3 + k * 0.001));
    else
        for (r = va, k *= 64; fmas--; k++)
            r = tolk_mulacc(g, r, vb, tolk_const_float(g, TOLK_F32, k * 0.001));
    const tolk_uop *s = tolk_store(g, tolk_index(g, y, &i, 1), r);
    s = tolk_end(g, s, &i, 1);
    return tolk_sink(g, &s, 1, "k");
}

static double time_tolk(int fmas, int k, tolk_tier tier) {
    tolk_graph *g;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_program *p;
    if (tolk_graph_create(ctx, &g) != TOLK_OK)
        fail("graph", "no memory");
    const tolk_uop *sink = make(g, fmas, k);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.no_cache = 1;
    opts.tier = tier;
    double t = bench_cpu();
    if (tolk_compile(device, sink, &opts, &p, &err) != TOLK_OK)
        fail("tolk_compile", err.msg);
    t = bench_cpu() - t;
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    return t;
}

static double time_hit(int fmas, int k) {
    tolk_graph *g;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_program *p;
    if (tolk_graph_create(ctx, &g) != TOLK_OK)
        fail("graph", "no memory");
    const tolk_uop *sink = make(g, fmas, k);
    if (tolk_compile(device, sink, NULL, &p, &err) != TOLK_OK)
        fail("tolk_compile", err.msg);
    tolk_program_unref(p);
    double t = bench_cpu();
    if (tolk_compile(device, sink, NULL, &p, &err) != TOLK_OK)
        fail("tolk_compile", err.msg);
    t = bench_cpu() - t;
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    return t;
}

/* From disk: compiled by one context, looked up by another one with the same directory. */
static double time_disk(int fmas) {
    char dir[] = "/tmp/tolk-bench-XXXXXX";
    double t[KERNELS];
    tolk_ctx *both[2];
    tolk_error err = TOLK_ERROR_INIT;
    if (!mkdtemp(dir))
        fail("mkdtemp", dir);
    for (int c = 0; c < 2; c++) {
        tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
        opts.cache_dir = dir;
        tolk_device *cpu;
        if (tolk_ctx_create(&opts, &both[c], &err) || tolk_device_open(both[c], "CPU", &cpu, &err))
            fail("context", err.msg);
        for (int k = 0; k < KERNELS; k++) {
            tolk_graph *g;
            tolk_program *p;
            if (tolk_graph_create(both[c], &g) != TOLK_OK)
                fail("graph", "no memory");
            const tolk_uop *sink = make(g, fmas, k);
            double start = bench_cpu();
            if (tolk_compile(cpu, sink, NULL, &p, &err) != TOLK_OK)
                fail("tolk_compile", err.msg);
            t[k] = bench_cpu() - start;
            tolk_program_info info;
            tolk_program_get_info(p, &info);
            if (info.cached != (c ? TOLK_CACHED_DISK : TOLK_CACHED_NONE))
                fail("disk cache", "no hit");
            tolk_program_unref(p);
            tolk_graph_destroy(g);
        }
    }
    tolk_cache_clear(both[1], NULL);
    tolk_ctx_destroy(both[0]);
    tolk_ctx_destroy(both[1]);
    return bench_median(t, KERNELS);
}

typedef struct bare {
    LLVMContextRef lc;
    LLVMTargetMachineRef machine;
    LLVMOrcLLJITRef jit;
} bare;

static void check(LLVMErrorRef e) {
    if (e)
        fail("LLVM", LLVMGetErrorMessage(e));
}

static void bare_init(bare *b) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    b->lc = LLVMContextCreate();
    LLVMTargetRef t;
    char *why, *triple = LLVMGetDefaultTargetTriple();
    if (LLVMGetTargetFromTriple(triple, &t, &why))
        fail("triple", why);
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    b->machine = LLVMCreateTargetMachine(t, triple, cpu, features, LLVMCodeGenLevelDefault,
                                         LLVMRelocPIC, LLVMCodeModelSmall);
    check(LLVMOrcCreateLLJIT(&b->jit, NULL));
}

static double time_bare(bare *b, int fmas, int k) {
    tolk_graph *g;
    tolk_error err = TOLK_ERROR_INIT;
    char *text, *why;
    size_t len;
    if (tolk_graph_create(ctx, &g) != TOLK_OK)
        fail("graph", "no memory");
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.symbol = "tolk_kernel";
    if (tolk_emit(ctx, make(g, fmas, k), &opts, TOLK_EMIT_LLVM, &text, &len, &err) != TOLK_OK)
        fail("tolk_emit", err.msg);
    tolk_graph_destroy(g);
    LLVMModuleRef m;
    if (LLVMParseIRInContext(b->lc, LLVMCreateMemoryBufferWithMemoryRangeCopy(text, len, "k"), &m,
                             &why))
        fail("IR", why);
    tolk_free_text(ctx, text);
    LLVMOrcResourceTrackerRef rt =
        LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(b->jit));
    LLVMOrcExecutorAddress at;
    LLVMMemoryBufferRef object;
    double t = bench_cpu();
    if (LLVMTargetMachineEmitToMemoryBuffer(b->machine, m, LLVMObjectFile, &why, &object))
        fail("emit", why);
    check(LLVMOrcLLJITAddObjectFileWithRT(b->jit, rt, object));
    check(LLVMOrcLLJITLookup(b->jit, &at, "tolk_kernel"));
    t = bench_cpu() - t;
    check(LLVMOrcResourceTrackerRemove(rt));
    LLVMOrcReleaseResourceTracker(rt);
    LLVMDisposeModule(m);
    return t;
}

int main(int argc, char **argv) {
    (void)argv;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_disk_cache = 1;
    if (tolk_ctx_create(&opts, &ctx, &err) != TOLK_OK ||
        tolk_device_open(ctx, "CPU", &device, &err) != TOLK_OK)
        fail("context", err.msg);
    double first = time_tolk(0, -1, argc > 1 ? TOLK_TIER_QUICK : TOLK_TIER_FULL);
    printf("| first compile of the process, LLVM opened: %.2f ms (bar 4 ms) |\n\n", first * 1e3);
    bare b;
    bare_init(&b);
    bench_head();
    for (int fmas = 0; fmas <= 64; fmas += 64) {
        double tolk[KERNELS], peer[KERNELS], hit[KERNELS], quick[KERNELS];
        time_tolk(fmas, 1000, TOLK_TIER_FULL);
        time_tolk(fmas, 1000, TOLK_TIER_QUICK);
        time_bare(&b, fmas, 1000);
        for (int k = 0; k < KERNELS; k++) {
            tolk[k] = time_tolk(fmas, k, TOLK_TIER_FULL);
            quick[k] = time_tolk(fmas, k, TOLK_TIER_QUICK);
            peer[k] = time_bare(&b, fmas, k);
            hit[k] = time_hit(fmas, k);
        }
        const char *work = fmas ? "compile 64 FMAs" : "compile a*b+3";
        double t = bench_median(tolk, KERNELS);
        bench_row(work, "LLVM C API, same IR", t, bench_median(peer, KERNELS), 1.3);
        printf("| %s: quick tier: %.2f ms (bar 1.5 ms) |\n", work,
               bench_median(quick, KERNELS) * 1e3);
        printf("| %s: again, from memory: %.1f us |\n", work, bench_median(hit, KERNELS) * 1e6);
        printf("| %s: from disk: %.1f us (bar 100 us) |\n", work, time_disk(fmas) * 1e6);
    }
    tolk_ctx_destroy(ctx);
    return 0;
}
