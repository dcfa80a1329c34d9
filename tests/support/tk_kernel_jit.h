/* SPDX-License-Identifier: MIT
 *
 * The compiler as engines of tk_kernel.h: code for each CPU whose instructions this machine has.
 */
#ifndef TK_KERNEL_JIT_H
#define TK_KERNEL_JIT_H

/* Add them. One context serves all until tk_kernel_close_compilers(). */
void tk_kernel_add_compilers(void);
void tk_kernel_close_compilers(void);

#endif
