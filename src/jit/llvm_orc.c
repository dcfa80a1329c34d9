/* SPDX-License-Identifier: MIT
 *
 * Linking an object through ORC, into the pages of code.c.
 *
 * ORC is asked for one thing: to place the sections of an object and to apply its relocations.
 * As soon as the address of the function is known the object's tracker is removed, so ORC keeps
 * nothing of it and the next object may use the same names; the memory belongs to the
 * tk_code_linked. All sections of an object go into one piece, so that relative addresses always
 * reach.
 *
 * Objects are linked in a JITDylib of their own, which sees no other one: LLJIT's main one would
 * find what an object lacks in the process.
 */
#include "jit/llvm_api.h"

#include "base/log.h"
#include "jit/code.h"
#include "jit/llvm_pool.h"

#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/OrcEE.h>

#include <stdio.h>
#include <string.h>

/* The linker of a context. Linking is short and ORC's session is locked anyway: one at a time. */
typedef struct linker {
    pthread_mutex_t lock;
    tolk_ctx *ctx;
    LLVMOrcLLJITRef jit;
    LLVMOrcJITDylibRef dylib;
    /* The link that is going on: */
    tk_code_piece piece;
    size_t used;
    bool overflow;
    LLVMOrcExecutorAddress address; /* 0: not found */
    char said[160];                 /* what ORC reported of it first */
} linker;

/* ---- memory for the sections of one object ---- */

static void *create_context(void *l) {
    return l;
}
static void ignore(void *l) {
    (void)l;
}

static uint8_t *allocate(linker *l, uintptr_t bytes, unsigned align) {
    size_t at = (l->used + (align ? align : 1) - 1) & ~((size_t)(align ? align : 1) - 1);
    if (at > l->piece.bytes || bytes > l->piece.bytes - at) {
        l->overflow = true;
        return NULL;
    }
    l->used = at + bytes;
    return (uint8_t *)l->piece.at + at;
}

static uint8_t *allocate_code(void *l, uintptr_t bytes, unsigned align, unsigned id,
                              const char *name) {
    (void)id;
    (void)name;
    return allocate(l, bytes, align);
}

static uint8_t *allocate_data(void *l, uintptr_t bytes, unsigned align, unsigned id,
                              const char *name, LLVMBool read_only) {
    (void)id;
    (void)name;
    (void)read_only;
    return allocate(l, bytes, align);
}

static LLVMBool finalize(void *l, char **message) {
    (void)l;
    (void)message;
    return 0;
}

static LLVMOrcObjectLayerRef create_layer(void *l, LLVMOrcExecutionSessionRef session,
                                          const char *triple) {
    (void)triple;
    return LLVMOrcCreateRTDyldObjectLinkingLayerWithMCJITMemoryManagerLikeCallbacks(
        session, l, create_context, ignore, allocate_code, allocate_data, finalize, ignore);
}

/* ---- the linker ---- */

/* ORC would print it to stderr. What fails says only that something could not be linked; this says
 * why: which symbols are unknown. */
static void report(void *user, LLVMErrorRef e) {
    linker *l = user;
    char *text = LLVMGetErrorMessage(e);
    if (!l->said[0])
        snprintf(l->said, sizeof l->said, "%s", text);
    LLVMDisposeErrorMessage(text);
}

static tolk_status orc_failed(linker *l, const char *what, LLVMErrorRef e, tolk_error *err) {
    report(l, e);
    tk_log_keep(l->ctx, l->said, strlen(l->said));
    return tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE, "linking: %s: %s", what, l->said);
}

static void destroy(tolk_ctx *ctx, void *part) {
    linker *l = part;
    if (l->jit) {
        LLVMErrorRef e = LLVMOrcDisposeLLJIT(l->jit);
        if (e)
            LLVMConsumeError(e);
    }
    pthread_mutex_destroy(&l->lock);
    tk_alloc_free(&ctx->al, l, sizeof *l);
}

/* What ORC was doing while the process was forked is never finished: the child starts another. */
static void after_fork(tolk_ctx *ctx, void *part) {
    linker *l = part;
    if (pthread_mutex_trylock(&l->lock) == 0)
        pthread_mutex_unlock(&l->lock);
    else
        ctx->part[TK_CTX_LINK] = NULL;
}

static linker *state(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    linker *l = ctx->part[TK_CTX_LINK];
    if (!l && (l = tk_alloc_zero(&ctx->al, sizeof *l))) {
        pthread_mutex_init(&l->lock, NULL);
        l->ctx = ctx;
        ctx->part_destroy[TK_CTX_LINK] = destroy;
        ctx->part_fork[TK_CTX_LINK] = after_fork;
        ctx->part[TK_CTX_LINK] = l;
    }
    pthread_mutex_unlock(&ctx->log_lock);
    return l;
}

static tolk_status start(linker *l, tolk_error *err) {
    if (l->jit)
        return TOLK_OK;
#if defined(__x86_64__)
    const char *triple = "x86_64-unknown-linux-gnu";
    tk_llvm_pool_init_arch(TK_ARCH_X86_64);
#else
    const char *triple = "aarch64-unknown-linux-gnu";
    tk_llvm_pool_init_arch(TK_ARCH_AARCH64);
#endif
    LLVMTargetRef t;
    char *why = NULL;
    if (LLVMGetTargetFromTriple(triple, &t, &why)) {
        LLVMDisposeMessage(why);
        return tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE, "LLVM has no target %s", triple);
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        t, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    LLVMOrcLLJITBuilderSetObjectLinkingLayerCreator(b, create_layer, l);
    LLVMErrorRef e = LLVMOrcCreateLLJIT(&l->jit, b);
    if (e) {
        l->jit = NULL;
        return orc_failed(l, "starting ORC", e, err);
    }
    LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(l->jit);
    LLVMOrcExecutionSessionSetErrorReporter(session, report, l);
    l->dylib = LLVMOrcExecutionSessionCreateBareJITDylib(session, "kernels");
    return TOLK_OK;
}

/* Called before the look-up returns: LLJIT without threads of its own does everything in place. */
static void found(LLVMErrorRef e, LLVMOrcCSymbolMapPairs result, size_t n, void *l) {
    if (e) /* said to report(), or the symbol is not there; l is not to be used then */
        LLVMConsumeError(e);
    else if (n == 1)
        ((linker *)l)->address = result[0].Sym.Address;
}

static void look_up(linker *l, const char *symbol) {
    LLVMOrcExecutionSessionRef session = LLVMOrcLLJITGetExecutionSession(l->jit);
    LLVMOrcCJITDylibSearchOrderElement order = {l->dylib,
                                                LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly};
    LLVMOrcCLookupSetElement wanted = {LLVMOrcExecutionSessionIntern(session, symbol),
                                       LLVMOrcSymbolLookupFlagsRequiredSymbol};
    LLVMOrcExecutionSessionLookup(session, LLVMOrcLookupKindStatic, &order, 1, &wanted, 1, found,
                                  l);
}

static tolk_status place_object(linker *l, const void *object, size_t len, const char *symbol,
                                void **entry, tolk_error *err) {
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(object, len, "tolk kernel");
    LLVMOrcResourceTrackerRef tracker = LLVMOrcJITDylibCreateResourceTracker(l->dylib);
    LLVMErrorRef e = LLVMOrcObjectLayerAddObjectFileWithRT(LLVMOrcLLJITGetObjLinkingLayer(l->jit),
                                                           tracker, buffer);
    tolk_status st = TOLK_OK;
    if (e) {
        st = orc_failed(l, "adding the object", e, err);
    } else {
        look_up(l, symbol);
        if (!l->address)
            st = tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE, "linking: %s%.60s",
                                l->said[0] ? l->said : "the object has no symbol ",
                                l->said[0] ? "" : symbol);
    }
    LLVMErrorRef gone = LLVMOrcResourceTrackerRemove(tracker);
    if (gone)
        LLVMConsumeError(gone);
    LLVMOrcReleaseResourceTracker(tracker);
    LLVMOrcSymbolStringPoolClearDeadEntries(
        LLVMOrcExecutionSessionGetSymbolStringPool(LLVMOrcLLJITGetExecutionSession(l->jit)));
    if (st == TOLK_OK && l->overflow)
        st = tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE,
                            "linking: the sections are larger than their object");
    if (st == TOLK_OK)
        *entry = (void *)(uintptr_t)l->address;
    return st;
}

/* Sections, with the stubs that RuntimeDyld keeps room for, are no larger than the object's file.
 * This bounds what their alignment costs: RuntimeDyld aborts where it gets no memory. */
static size_t alignment_bytes(const void *object, size_t len) {
    uint16_t sections = 16;
    enum { E_SHNUM = 60, MOST_ALIGN = 64 };
    if (len >= E_SHNUM + sizeof sections)
        memcpy(&sections, (const char *)object + E_SHNUM, sizeof sections);
    return 4096 + (size_t)sections * MOST_ALIGN;
}

tolk_status tk_llvm_link(tolk_ctx *ctx, const void *object, size_t len, const char *symbol,
                         tk_code_linked **out, void **entry, tolk_error *err) {
    linker *l = state(ctx);
    tk_code_linked *code = tk_alloc_zero(&ctx->al, sizeof *code);
    if (!l || !code) {
        tk_alloc_free(&ctx->al, code, sizeof *code);
        return tk_status_nomem(err);
    }
    tolk_status st = tk_llvm_pool_enter(err);
    if (st != TOLK_OK) {
        tk_alloc_free(&ctx->al, code, sizeof *code);
        return st;
    }
    pthread_mutex_lock(&l->lock);
    st = start(l, err);
    if (st == TOLK_OK)
        st = tk_code_alloc(ctx, len + alignment_bytes(object, len), &l->piece, err);
    if (st == TOLK_OK) {
        l->used = 0;
        l->overflow = false;
        l->address = 0;
        l->said[0] = 0;
        st = place_object(l, object, len, symbol, entry, err);
        code->piece = l->piece;
        code->used = l->used;
        if (st == TOLK_OK)
            st = tk_code_seal(ctx, &code->piece, code->used, err);
        if (st != TOLK_OK)
            tk_code_free(ctx, &code->piece);
    }
    pthread_mutex_unlock(&l->lock);
    tk_llvm_pool_leave();
    if (st != TOLK_OK) {
        tk_alloc_free(&ctx->al, code, sizeof *code);
        return st;
    }
    *out = code;
    return TOLK_OK;
}
