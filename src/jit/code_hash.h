/* SPDX-License-Identifier: MIT
 *
 * Which compiler this is. The build defines it (cmake/TolkCodeHash.cmake).
 */
#ifndef TK_JIT_CODE_HASH_H
#define TK_JIT_CODE_HASH_H

/* A hash, as hexadecimal digits, of all sources that shape generated code. In every cache key. */
extern const char tk_code_hash[];
/* The version of LLVM that makes it: "19.1.7". In every cache key. */
extern const char tk_code_llvm[];

#endif
