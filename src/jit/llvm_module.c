/* SPDX-License-Identifier: MIT */
#include "jit/llvm_module.h"

#include "jit/code_hash.h"

const tk_module tolk_llvm_module = {.size = sizeof(tk_module),
                                    .hash = tk_code_hash,
                                    .llvm = TOLK_LLVM_VERSION,
                                    .emit = tk_llvm_emit,
#if !defined(__x86_64__) /* cpu_object.c does it there, and ORC stays out of the module */
                                    .link = tk_llvm_link
#endif
};
