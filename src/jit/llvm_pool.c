/* SPDX-License-Identifier: MIT */
#include "jit/llvm_pool.h"

#include "base/exit.h"
#include "base/gate.h"
#include "base/log.h"
#include "base/status.h"
#include "jit/llvm_api.h"

#include <llvm-c/Target.h>

#include <stdlib.h>
#include <string.h>

typedef struct pool {
    pthread_mutex_t lock;
    tk_llvm_session *free;
} pool;

/* ---- targets ---- */

/* LLVM's registry of targets belongs to the process and has no lock: these, and the gate below, are
 * the library's only variables. */
static pthread_once_t x86_once = PTHREAD_ONCE_INIT, aarch64_once = PTHREAD_ONCE_INIT,
                      ptx_once = PTHREAD_ONCE_INIT;

static void init_x86(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static void init_aarch64(void) {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static void init_ptx(void) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

void tk_llvm_pool_init_arch(tk_arch arch) {
    switch (arch) {
    case TK_ARCH_X86_64:
        pthread_once(&x86_once, init_x86);
        break;
    case TK_ARCH_AARCH64:
        pthread_once(&aarch64_once, init_aarch64);
        break;
    case TK_ARCH_PTX:
        pthread_once(&ptx_once, init_ptx);
        break;
    }
}

static tolk_status create_machine(const tk_target *target, LLVMTargetMachineRef *out,
                                  tolk_error *err) {
    tk_llvm_pool_init_arch(target->arch);
    LLVMTargetRef t;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(target->triple, &t, &why)) {
        tolk_status st = tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                        "LLVM has no target \"%s\": %.150s", target->triple, why);
        LLVMDisposeMessage(why);
        return st;
    }
    *out = LLVMCreateTargetMachine(t, target->triple, target->cpu, target->features,
                                   target->quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault,
                                   LLVMRelocPIC, LLVMCodeModelSmall);
    return *out ? TOLK_OK
                : tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                 "LLVM makes no machine for \"%s\", %s", target->triple,
                                 target->cpu);
}

static void drop_machine(tk_llvm_session *s, uint32_t i) {
    if (!s->at[i].machine)
        return;
    LLVMDisposeTargetData(s->at[i].layout);
    LLVMDisposeTargetMachine(s->at[i].machine);
    s->at[i].machine = NULL;
}

tolk_status tk_llvm_pool_machine(tk_llvm_session *s, const tk_target *target,
                                 LLVMTargetMachineRef *machine, LLVMTargetDataRef *layout,
                                 tolk_error *err) {
    uint32_t i = 0, oldest = 0;
    for (; i < TK_LLVM_POOL_MACHINES; i++) {
        if (s->at[i].machine && !memcmp(&s->at[i].target, target, sizeof *target))
            break;
        uint64_t age = s->at[i].machine ? s->at[i].used : 0;
        if (age < (s->at[oldest].machine ? s->at[oldest].used : 0))
            oldest = i;
    }
    if (i == TK_LLVM_POOL_MACHINES) {
        LLVMTargetMachineRef m;
        TK_TRY(create_machine(target, &m, err));
        i = oldest;
        drop_machine(s, i);
        s->at[i].machine = m;
        s->at[i].layout = LLVMCreateTargetDataLayout(m);
        s->at[i].target = *target;
    }
    s->at[i].used = ++s->clock;
    *machine = s->at[i].machine;
    *layout = s->at[i].layout;
    return TOLK_OK;
}

/* ---- the gate ---- */

/* Destructors of LLVM's tables are registered when LLVM is loaded, and in the first compilations,
 * when it makes more tables. Ours is registered at load, after the former, as exit() may have begun
 * by the time of the first call; and it is called before each of the latter. Where that cannot be
 * had it is registered again after compilations, more and more seldom, and exit() during the very
 * first one may find it too late. */
static tk_gate gate;
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static bool before_all;
static _Atomic uint32_t leaves;

static void close_gate(void) {
    if (tk_gate_close(&gate))
        tk_gate_wait(&gate, 60000);
}

static void forked(void) {
    tk_gate_forked(&gate);
}

__attribute__((constructor)) static void at_load(void) {
    (void)pthread_atfork(NULL, NULL, forked); /* without it the end of a child may wait in vain */
    (void)atexit(close_gate);
}

/* Inside of the gate: what is loaded must not be unloaded meanwhile. */
static void guard(void) {
    LLVMContextRef (*inside)(void) = LLVMContextCreate;
    void *address;
    memcpy(&address, &inside, sizeof address);
    before_all = tk_exit_before(address, close_gate);
}

tolk_status tk_llvm_pool_enter(tolk_error *err) {
    if (!tk_gate_enter(&gate))
        return tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE,
                              "nothing can be compiled any more: the process is ending");
    pthread_once(&guard_once, guard);
    return TOLK_OK;
}

void tk_llvm_pool_opening(void) {
    pthread_once(&guard_once, guard);
    (void)tk_gate_enter(&gate);
}

void tk_llvm_pool_opened(void) {
    tk_gate_leave(&gate);
}

void tk_llvm_pool_leave(void) {
    uint32_t n = before_all ? 0 : 1 + atomic_fetch_add_explicit(&leaves, 1, memory_order_relaxed);
    if (n && (n <= 32 || (n & (n - 1)) == 0))
        (void)atexit(close_gate);
    tk_gate_leave(&gate);
}

/* ---- sessions ---- */

/* Is it what attribute warn-stack-size asks for? */
static bool is_frame(const char *text, uint64_t *bytes) {
    static const char head[] = "stack frame size ("; /* behind the place in a source */
    const char *at = strstr(text, head);
    if (!at)
        return false;
    *bytes = 0;
    for (const char *p = at + sizeof head - 1; *p >= '0' && *p <= '9'; p++)
        *bytes = *bytes * 10 + (uint64_t)(*p - '0');
    return true;
}

static void diagnostic(LLVMDiagnosticInfoRef info, void *user) {
    tk_llvm_session *s = user;
    uint64_t frame;
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity == LLVMDSRemark || severity == LLVMDSNote)
        return; /* "42 instructions in function" */
    char *text = LLVMGetDiagInfoDescription(info);
    if (is_frame(text, &frame)) {
        s->frame_bytes = frame > s->frame_bytes ? frame : s->frame_bytes;
    } else {
        if (s->log.n)
            tk_strbuf_char(&s->log, '\n');
        tk_strbuf_str(&s->log, text);
        s->failed |= severity == LLVMDSError;
    }
    LLVMDisposeMessage(text);
}

static void destroy_session(tolk_ctx *ctx, tk_llvm_session *s) {
    for (uint32_t i = 0; i < TK_LLVM_POOL_MACHINES; i++)
        drop_machine(s, i);
    if (s->lc)
        LLVMContextDispose(s->lc);
    tk_strbuf_fini(&s->log);
    tk_alloc_free(&ctx->al, s, sizeof *s);
}

void tk_llvm_fini(tolk_ctx *ctx, void *state) {
    pool *p = state;
    for (tk_llvm_session *s = p->free, *next; s; s = next) {
        next = s->next;
        destroy_session(ctx, s);
    }
    pthread_mutex_destroy(&p->lock);
    tk_alloc_free(&ctx->al, p, sizeof *p);
}

static void after_fork(tolk_ctx *ctx, void *part) {
    (void)ctx;
    pthread_mutex_init(&((pool *)part)->lock, NULL);
}

/* The state is made on first use; the context's log lock guards that moment. */
static pool *get_pool(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    pool *p = ctx->part[TK_CTX_LLVM];
    if (!p && (p = tk_alloc_zero(&ctx->al, sizeof *p))) {
        pthread_mutex_init(&p->lock, NULL);
        ctx->part_destroy[TK_CTX_LLVM] = tk_llvm_fini;
        ctx->part_fork[TK_CTX_LLVM] = after_fork;
        ctx->part[TK_CTX_LLVM] = p;
    }
    pthread_mutex_unlock(&ctx->log_lock);
    return p;
}

static tolk_status take(tolk_ctx *ctx, tk_llvm_session **out, tolk_error *err) {
    pool *p = get_pool(ctx);
    if (!p)
        return tk_status_nomem(err);
    pthread_mutex_lock(&p->lock);
    tk_llvm_session *s = p->free;
    if (s)
        p->free = s->next;
    pthread_mutex_unlock(&p->lock);
    if (!s) {
        s = tk_alloc_zero(&ctx->al, sizeof *s);
        if (!s)
            return tk_status_nomem(err);
    }
    tk_strbuf_init(&s->log, &ctx->al);
    s->failed = false;
    s->frame_bytes = 0;
    if (!s->lc) {
        s->lc = LLVMContextCreate();
        s->uses = 0;
        LLVMContextSetDiagnosticHandler(s->lc, diagnostic, s);
    }
    s->uses++;
    *out = s;
    return TOLK_OK;
}

tolk_status tk_llvm_pool_take(tolk_ctx *ctx, tk_llvm_session **out, tolk_error *err) {
    TK_TRY(tk_llvm_pool_enter(err));
    tolk_status st = take(ctx, out, err);
    if (st != TOLK_OK)
        tk_llvm_pool_leave();
    return st;
}

void tk_llvm_pool_give(tolk_ctx *ctx, tk_llvm_session *s) {
    if (s->log.n && !s->log.failed)
        tk_log_keep(ctx, s->log.at, s->log.n);
    tk_strbuf_fini(&s->log);
    if (s->uses >= TK_LLVM_POOL_USES) {
        LLVMContextDispose(s->lc);
        s->lc = NULL;
    }
    pool *p = ctx->part[TK_CTX_LLVM];
    pthread_mutex_lock(&p->lock);
    s->next = p->free;
    p->free = s;
    pthread_mutex_unlock(&p->lock);
    tk_llvm_pool_leave();
}
