/* SPDX-License-Identifier: MIT
 *
 * Hand-written loops and libraries that the kernels are measured against, at the widest vectors of
 * the CPU that this is compiled for (-march=native).
 */
#ifndef TK_BENCH_PEERS_H
#define TK_BENCH_PEERS_H

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { PEER_LANES = 16 };
typedef __m512 peer_vec;
#define PEER_STREAM(p, v) _mm512_stream_ps(p, v)
#define PEER_SLEEF(fn) Sleef_##fn##f16_u10avx512f
#define PEER_MVEC(fn) _ZGVeN16v_##fn##f
#elif defined(__AVX2__)
enum { PEER_LANES = 8 };
typedef __m256 peer_vec;
#define PEER_STREAM(p, v) _mm256_stream_ps(p, v)
#define PEER_SLEEF(fn) Sleef_##fn##f8_u10avx2
#define PEER_MVEC(fn) _ZGVdN8v_##fn##f
#elif defined(__x86_64__)
enum { PEER_LANES = 4 };
typedef __m128 peer_vec;
#define PEER_STREAM(p, v) _mm_stream_ps(p, v)
#define PEER_SLEEF(fn) Sleef_##fn##f4_u10sse2
#define PEER_MVEC(fn) _ZGVbN4v_##fn##f
#else
enum { PEER_LANES = 4 };
typedef float peer_vec __attribute__((vector_size(16)));
#define PEER_STREAM(p, v) peer_store(p, v)
#define PEER_SLEEF(fn) Sleef_##fn##f4_u10advsimd
#define PEER_MVEC(fn) _ZGVnN4v_##fn##f
#endif

static inline peer_vec peer_load(const float *p) {
    peer_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void peer_store(float *p, peer_vec v) {
    memcpy(p, &v, sizeof v);
}

/* y = x + z. stream: stores that do not read their line first (y aligned to 64 bytes). */
static void peer_add(float *restrict y, const float *restrict x, const float *restrict z, long n,
                     int stream) {
    enum { L = PEER_LANES };
    long i = 0;
    if (stream)
        for (; i + L <= n; i += L)
            PEER_STREAM(y + i, peer_load(x + i) + peer_load(z + i));
    else
        for (; i + 4 * L <= n; i += 4 * L)
            for (int u = 0; u < 4 * L; u += L)
                peer_store(y + i + u, peer_load(x + i + u) + peer_load(z + i + u));
    for (; i < n; i++)
        y[i] = x[i] + z[i];
}

/* The sum of x, in eight vectors. */
static float peer_sum(const float *x, long n) {
    enum { L = PEER_LANES };
    peer_vec a[8] = {0};
    long i = 0;
    for (; i + 8 * L <= n; i += 8 * L)
        for (int u = 0; u < 8; u++)
            a[u] += peer_load(x + i + L * u);
    for (int u = 1; u < 8; u++)
        a[0] += a[u];
    float s = 0;
    for (int j = 0; j < L; j++)
        s += a[0][j];
    for (; i < n; i++)
        s += x[i];
    return s;
}

/* void name(y, x, n): y = fn of x by a library's vector function; n a multiple of the lanes. */
#define PEER_MAP(name, fn)                                                                         \
    static void name(float *y, const float *x, long n) {                                           \
        for (long i = 0; i + PEER_LANES <= n; i += PEER_LANES)                                     \
            peer_store(y + i, fn(peer_load(x + i)));                                               \
    }

#ifdef TOLK_HAVE_SLEEF
#include <sleef.h>
PEER_MAP(sleef_exp, PEER_SLEEF(exp))
PEER_MAP(sleef_log, PEER_SLEEF(log))
PEER_MAP(sleef_sin, PEER_SLEEF(sin))
#endif
#ifdef TOLK_HAVE_MVEC
peer_vec PEER_MVEC(exp)(peer_vec);
peer_vec PEER_MVEC(log)(peer_vec);
peer_vec PEER_MVEC(sin)(peer_vec);
PEER_MAP(mvec_exp, PEER_MVEC(exp))
PEER_MAP(mvec_log, PEER_MVEC(log))
PEER_MAP(mvec_sin, PEER_MVEC(sin))
#endif

#endif
