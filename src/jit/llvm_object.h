/* SPDX-License-Identifier: MIT
 *
 * From a module of LLVM IR to text, assembly or an object.
 */
#ifndef TK_JIT_LLVM_OBJECT_H
#define TK_JIT_LLVM_OBJECT_H

#include "jit/llvm_api.h"
#include "jit/llvm_pool.h"

/* Runs the code generator on module, which is spoilt by that. out, len and errors: tk_llvm_emit. In
 * debug builds the module is verified first: what we build is what LLVM accepts. */
tolk_status tk_llvm_object_write(tolk_ctx *ctx, tk_llvm_session *s, LLVMModuleRef module,
                                 LLVMTargetMachineRef machine, tk_llvm_form form, char **out,
                                 size_t *len, tolk_error *err);

#endif
