/* SPDX-License-Identifier: MIT
 *
 * LLVM contexts and target machines, kept between compilations. A session is used by one thread at
 * a time; as many exist as compilations ever ran at once.
 */
#ifndef TK_JIT_LLVM_POOL_H
#define TK_JIT_LLVM_POOL_H

#include "base/ctx.h"
#include "base/strbuf.h"
#include "jit/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include <stdbool.h>

enum {
    TK_LLVM_POOL_MACHINES = 4, /* of one session: targets used last */
    TK_LLVM_POOL_USES = 256,   /* of one LLVM context: types and constants pile up in it */
    TK_LLVM_SMALL_FRAME = 4096 /* LLVM tells of frames with more bytes */
};

typedef struct tk_llvm_session {
    struct tk_llvm_session *next; /* in the pool */
    LLVMContextRef lc;            /* NULL: to be made */
    uint32_t uses;                /* of lc */
    uint64_t clock;
    struct {
        tk_target target;
        LLVMTargetMachineRef machine; /* NULL: free */
        LLVMTargetDataRef layout;
        uint64_t used; /* clock when it was last used */
    } at[TK_LLVM_POOL_MACHINES];
    tk_strbuf log; /* what LLVM said */
    bool failed;   /* some of it is an error */
    /* Bytes of the largest stack frame among those it said were larger than TK_LLVM_SMALL_FRAME. */
    uint64_t frame_bytes;
} tk_llvm_session;

/* Tell LLVM of a target family; needed before anything is made for it. Once a process does it, the
 * further calls cost nothing. Threads: any. */
void tk_llvm_pool_init_arch(tk_arch arch);
/* Around everything that runs in LLVM but the freeing of its objects. When the process calls
 * exit(), LLVM's tables are destroyed under the threads that still run: exit() waits for those
 * between enter and leave, and nobody enters any more. Errors: TOLK_E_COMPILE, then. Threads: any.
 */
tolk_status tk_llvm_pool_enter(tolk_error *err);
void tk_llvm_pool_leave(void);
/* LLVM is being loaded by this thread, and is loaded: exit() waits between, too. Once each. */
void tk_llvm_pool_opening(void);
void tk_llvm_pool_opened(void);
/* A session for this thread alone, entered. Errors: of tk_llvm_pool_enter, Errors:
 * TOLK_E_NOMEM. */
tolk_status tk_llvm_pool_take(tolk_ctx *ctx, tk_llvm_session **out, tolk_error *err);
/* Give it back; what LLVM said becomes tolk_last_log. All modules of its context are gone by now.
 */
void tk_llvm_pool_give(tolk_ctx *ctx, tk_llvm_session *s);
/* Machine and data layout for a target; both stay the session's. Errors: TOLK_E_UNSUPPORTED. */
tolk_status tk_llvm_pool_machine(tk_llvm_session *s, const tk_target *target,
                                 LLVMTargetMachineRef *machine, LLVMTargetDataRef *layout,
                                 tolk_error *err);

#endif
