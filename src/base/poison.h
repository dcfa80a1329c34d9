/* SPDX-License-Identifier: MIT
 *
 * Telling AddressSanitizer which bytes nobody may touch; nothing in other builds.
 */
#ifndef TK_BASE_POISON_H
#define TK_BASE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TK_POISON_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(TK_POISON_ASAN)
#include <sanitizer/asan_interface.h>
#define TK_POISON(at, bytes) __asan_poison_memory_region(at, bytes)
#define TK_UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define TK_POISON(at, bytes) ((void)(at), (void)(bytes))
#define TK_UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif

#endif
