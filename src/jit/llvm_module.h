/* SPDX-License-Identifier: MIT */
#ifndef TK_JIT_LLVM_MODULE_H
#define TK_JIT_LLVM_MODULE_H

#include "jit/module.h"

extern TOLK_API const tk_module tolk_llvm_module;

#endif
