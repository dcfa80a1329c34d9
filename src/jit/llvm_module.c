/* SPDX-License-Identifier: MIT */
#include "jit/llvm_module.h"

#include "jit/code_hash.h"

const tk_module tolk_llvm_module = {.size = sizeof(tk_module),
                                    .hash = tk_code_hash,
                                    .llvm = TOLK_LLVM_VERSION,
                                    .emit = tk_llvm_emit,
                                    .link = tk_llvm_link};
