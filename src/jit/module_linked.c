/* SPDX-License-Identifier: MIT */
#include "jit/module.h"

#include "jit/llvm_module.h"

tolk_status tk_module_get(const tk_module **out, tolk_error *err) {
    (void)err;
    *out = &tolk_llvm_module;
    return TOLK_OK;
}
