/* SPDX-License-Identifier: MIT
 *
 * In libtolk-llvm.so alone. It is linked so that this runs before the initializers of LLVM do (the
 * flag DF_1_INITFIRST): exit() on another thread has to wait from the first of the destructors on
 * that those register.
 */
#include "jit/llvm_pool.h"

__attribute__((constructor)) static void opening(void) {
    tk_llvm_pool_opening();
}

TOLK_API void tolk_llvm_opened(void);
void tolk_llvm_opened(void) {
    tk_llvm_pool_opened();
}
