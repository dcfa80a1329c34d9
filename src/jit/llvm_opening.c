/* SPDX-License-Identifier: MIT
 *
 * In libtolk-llvm.so alone. This runs before the initializers of LLVM do: exit() on another thread
 * has to wait from the first of the destructors on that those register. Where LLVM is a shared
 * library the flag DF_1_INITFIRST sees to it, where it is in this one the priority.
 */
#include "jit/llvm_pool.h"

enum { FIRST = 101 }; /* lower ones are the compiler's */
__attribute__((constructor(FIRST))) static void opening(void) {
    tk_llvm_pool_opening();
}

TOLK_API void tolk_llvm_opened(void);
void tolk_llvm_opened(void) {
    tk_llvm_pool_opened();
}
