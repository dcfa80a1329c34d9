/* SPDX-License-Identifier: MIT
 *
 * Hashes: XXH3 (xxHash library) for bytes, a mixer for integers.
 */
#ifndef TK_BASE_HASH_H
#define TK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct tk_hash128 {
    uint64_t lo, hi;
} tk_hash128;

/* XXH3-64 and XXH3-128 of n bytes. */
uint64_t tk_hash64_bytes(const void *p, size_t n);
tk_hash128 tk_hash128_bytes(const void *p, size_t n);

/* Finalizer of MurmurHash3 (Appleby, public domain). */
static inline uint64_t tk_hash_mix(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

static inline uint64_t tk_hash_combine(uint64_t h, uint64_t x) {
    return tk_hash_mix(h * 0x9e3779b97f4a7c15ULL + x);
}

#endif
