/* SPDX-License-Identifier: MIT */
#include "jit/llvm_object.h"

#include "base/status.h"
#include "base/strbuf.h"

#include <llvm-c/Analysis.h>

#include <string.h>

static tolk_status copy_out(tolk_ctx *ctx, const char *bytes, size_t n, char **out, size_t *len,
                            tolk_error *err) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, bytes, n);
    char *text = tk_strbuf_take(&sb, len);
    if (!text)
        return tk_status_nomem(err);
    *out = text;
    return TOLK_OK;
}

static tolk_status fail_with_log(tk_llvm_session *s, const char *what, tolk_error *err) {
    return tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE, "LLVM: %s: %.150s", what,
                          s->log.n ? s->log.at : "it does not say why");
}

/* In debug builds: what we built is what LLVM accepts. */
static tolk_status check_module(tk_llvm_session *s, LLVMModuleRef module, tolk_error *err) {
#ifndef NDEBUG
    char *why = NULL;
    bool bad = LLVMVerifyModule(module, LLVMReturnStatusAction, &why);
    if (bad)
        tk_strbuf_str(&s->log, why);
    LLVMDisposeMessage(why);
    if (bad)
        return fail_with_log(s, "malformed IR", err);
#else
    (void)s, (void)module, (void)err;
#endif
    return TOLK_OK;
}

tolk_status tk_llvm_object_write(tolk_ctx *ctx, tk_llvm_session *s, LLVMModuleRef module,
                                 LLVMTargetMachineRef machine, tk_llvm_form form, char **out,
                                 size_t *len, tolk_error *err) {
    TK_TRY(check_module(s, module, err));
    if (form == TK_LLVM_IR) {
        char *text = LLVMPrintModuleToString(module);
        tolk_status st = copy_out(ctx, text, strlen(text), out, len, err);
        LLVMDisposeMessage(text);
        return st;
    }
    LLVMMemoryBufferRef buffer = NULL;
    char *why = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module,
                                            form == TK_LLVM_ASM ? LLVMAssemblyFile : LLVMObjectFile,
                                            &why, &buffer)) {
        tk_strbuf_str(&s->log, why);
        LLVMDisposeMessage(why);
        return fail_with_log(s, "no code", err);
    }
    tolk_status st = s->failed ? fail_with_log(s, "no code", err)
                               : copy_out(ctx, LLVMGetBufferStart(buffer),
                                          LLVMGetBufferSize(buffer), out, len, err);
    LLVMDisposeMemoryBuffer(buffer);
    return st;
}
