/* SPDX-License-Identifier: MIT
 *
 * Memory of CPU devices: that of the process.
 */
#ifndef TK_CPU_CPU_MEMORY_H
#define TK_CPU_CPU_MEMORY_H

#include "jit/backend.h"

extern const tk_memory_ops tk_cpu_memory;

#endif
