/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <xxhash.h>

uint64_t tk_hash64_bytes(const void *p, size_t n) {
    return XXH3_64bits(p, n);
}

tk_hash128 tk_hash128_bytes(const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (tk_hash128){h.low64, h.high64};
}
