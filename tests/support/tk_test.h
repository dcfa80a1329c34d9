/* SPDX-License-Identifier: MIT
 *
 * What every test includes: cmocka in the order it wants, failing allocators, seeds, and places to
 * run code that may go wrong (a small stack, a child process).
 */
#ifndef TK_TEST_H
#define TK_TEST_H

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <tolk/base.h>

#include <stdbool.h>

/* 1 in builds with that sanitizer. TSan delivers a signal when the thread next calls an
 * instrumented function that may block: a handler never interrupts a compiled kernel. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TK_TEST_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define TK_TEST_ASAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define TK_TEST_TSAN 1
#endif
#ifdef __SANITIZE_ADDRESS__
#define TK_TEST_ASAN 1
#endif
#ifndef TK_TEST_TSAN
#define TK_TEST_TSAN 0
#endif
#ifndef TK_TEST_ASAN
#define TK_TEST_ASAN 0
#endif

/* The seed of random suites: TOLK_TEST_SEED, else the commit that was configured. Printed once. */
uint64_t tk_test_seed(void);
/* How much of each random suite to run, in percent: TOLK_TEST_SHARE, else 5. */
unsigned tk_test_share(void);
/* The share of `full` cases, at least 1. Prints the seed, as everything that is random should. */
uint64_t tk_test_count(uint64_t full);
/* splitmix64: the next random number of a state, which starts from the seed plus anything. */
uint64_t tk_test_rand(uint64_t *state);

/* What is tested for running out of memory: does its work with `al` alone, frees all of it, and
 * returns what the work returned. */
typedef tolk_status (*tk_test_oom_fn)(const tolk_allocator *al, void *user);
/* Runs fn with an allocator that fails the 1st, 2nd, 3rd ... allocation (that one alone, then all
 * from it on) until fn makes fewer. Each run must return TOLK_OK or TOLK_E_NOMEM, free with the
 * sizes it asked for and leave nothing behind; the last run must be TOLK_OK. Past 1000 allocations
 * not every one is tried. Returns the number of allocations of a run that succeeds. */
size_t tk_test_oom(tk_test_oom_fn fn, void *user);

/* An allocator over malloc that counts and checks sizes; `live` is the number of blocks now. Any
 * thread may use it. */
typedef struct tk_test_heap {
    tolk_allocator al;
    _Atomic size_t calls;   /* allocations and growths so far */
    _Atomic size_t fail_at; /* call that fails, from 1; 0: none */
    bool fail_onward;       /* and all after it */
    _Atomic bool bad_size;  /* a block was freed or resized with a size it does not have */
    _Atomic size_t live;
} tk_test_heap;
void tk_test_heap_init(tk_test_heap *heap);

/* Runs fn(arg) on a thread with a stack of that many bytes, and returns what it returned. */
void *tk_test_on_stack(size_t stack_bytes, void *(*fn)(void *), void *arg);
/* Lets this process map so many bytes more than it has, for good. False: the system does not say.
 */
bool tk_test_limit_memory(size_t more);
/* Runs fn(arg) in a child process, for at most `seconds`. Returns its exit code 0..255, -N if it
 * died by signal N (14: it took too long). fn's result is the exit code. Leaks are not looked for.
 */
int tk_test_child(int (*fn)(void *), void *arg, unsigned seconds);

/* An absolute path below the source folder; the caller frees it. */
char *tk_test_source(const char *relative);

/* A kernel that takes minutes: a sum of 2^40 sines, which nothing shortens. */
#define TK_TEST_LONG_KERNEL                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 1\n"                                                                         \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = const index 0\n"                                                                         \
    "%3 = const f32 0.3\n"                                                                         \
    "%4 = const index 1099511627776\n"                                                             \
    "%5 = range index (%4) {axis=0, kind=reduce}\n"                                                \
    "%6 = cast f32 (%5)\n"                                                                         \
    "%7 = sin f32 (%6)\n"                                                                          \
    "%8 = mul f32 (%7, %3)\n"                                                                      \
    "%9 = reduce f32 (%8, %5) {op=add}\n"                                                          \
    "%10 = index f32 (%1, %2)\n"                                                                   \
    "%11 = store void (%10, %9)\n"                                                                 \
    "%12 = sink void (%11) {name=\"long\"}\n"

#endif
