/* SPDX-License-Identifier: MIT
 *
 * The door to the files that use LLVM (llvm_*.c): no LLVM type passes through it.
 */
#ifndef TK_JIT_LLVM_API_H
#define TK_JIT_LLVM_API_H

#include "base/ctx.h"
#include "base/phases.h"
#include "ir/uop.h"
#include "jit/code.h"
#include "jit/target.h"

typedef enum tk_llvm_form { TK_LLVM_IR, TK_LLVM_ASM, TK_LLVM_OBJ } tk_llvm_form;

/* Translate a verified program (LINEAR) to one function `symbol` with the ABI of kenv.h and emit
 * it.
 *
 *   out: text or object, to be freed with tk_strbuf_text_free(&ctx->al, ...); *len its bytes.
 *   frame_bytes: bytes of the function's stack frame where they are more than a page, else 0; may
 * be NULL. Assembly and objects only. phases: gets "llvm" (the IR is built) and "object" (it is
 * translated); may be NULL. Errors:  TOLK_E_UNSUPPORTED names the op, dtype and lanes that
 * llvm_legal.def does not list; TOLK_E_COMPILE (LLVM's text through tk_log_keep); TOLK_E_NOMEM.
 * Threads: any, at the same time too (each call uses an LLVM context and target machine of its own
 *          from a pool in ctx).
 */
tolk_status tk_llvm_emit(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                         const char *symbol, tk_llvm_form form, uint64_t *frame_bytes,
                         tk_phases *phases, char **out, size_t *len, tolk_error *err);

/* Link an object through ORC into executable memory; *entry is the address of symbol.
 * Many codes may have the same symbol. Threads: any. */
tolk_status tk_llvm_link(tolk_ctx *ctx, const void *object, size_t len, const char *symbol,
                         tk_code_linked **out, void **entry, tolk_error *err);
/* Frees the pools that ctx holds; called when the context goes. */
void tk_llvm_fini(tolk_ctx *ctx, void *state);

#endif
