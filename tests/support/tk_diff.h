/* SPDX-License-Identifier: MIT
 *
 * One kernel through every form it takes: interpreted as it is, after the loop options and as a
 * program, and run as code, on the same arguments; all of them must agree.
 */
#ifndef TK_DIFF_H
#define TK_DIFF_H

#include "support/tk_test.h"

#include <tolk/tolk.h>

/* CPUs whose code is run where this machine can, and behind them a GPU, whose code is made. */
enum { TK_DIFF_TARGETS = 3, TK_DIFF_GPU = TK_DIFF_TARGETS };

typedef struct tk_diff {
    tolk_ctx *ctx;
    tolk_device *device;
    bool runs[TK_DIFF_TARGETS];
    uint64_t launches;  /* of code so far */
    uint64_t refused;   /* option lists that were refused */
    uint64_t optimized; /* that were not */
    char what[1200];    /* of the last difference */
    /* Sees the PTX of each kernel for TK_DIFF_GPU; false: it is wrong, and d->what says why. */
    bool (*on_ptx)(struct tk_diff *d, const char *text);
} tk_diff;

extern const char *const tk_diff_target_names[TK_DIFF_TARGETS + 1];

void tk_diff_init(tk_diff *d);
void tk_diff_fini(tk_diff *d);

/* Compare on one target with one option list (NULL: the heuristic's). Scalars take their least,
 * their greatest and random values; buffers are filled by tk_gen_fill.
 *
 * Returns true if all agree, false with d->what set. Sets *refused if the options cannot be
 * applied.
 */
bool tk_diff_check(tk_diff *d, const tolk_uop *kernel, uint32_t target, const char *opts,
                   bool strict, uint64_t seed, bool *refused);

/* A random list of options that the kernel takes; opts: room for `bytes`. */
void tk_diff_options(tk_diff *d, const tolk_uop *kernel, uint32_t target, bool strict,
                     uint64_t *rng, char *opts, size_t bytes);

/* What a crash prints: text is kept, not copied. NULL: nothing. */
void tk_diff_note(const char *text);

#endif
