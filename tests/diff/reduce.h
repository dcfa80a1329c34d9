/* SPDX-License-Identifier: MIT
 *
 * One reduction of an array to one value, under lists of loop options: what its tests share.
 */
#ifndef TK_TESTS_DIFF_REDUCE_H
#define TK_TESTS_DIFF_REDUCE_H

#include "support/tk_diff.h"
#include "support/tk_test.h"

#include <stdio.h>
#include <string.h>

/* NULL: the heuristic's. Several accumulators, lanes, pieces, all at once, sizes that divide
 * nothing. */
static const char *const reduce_options[] = {NULL,
                                             "",
                                             "LANE:0:4",
                                             "LANE:0:16",
                                             "UNROLL:0:4",
                                             "UNROLL:0:3",
                                             "LANE:0:8 UNROLL:1:4",
                                             "GROUPTOP:0:32",
                                             "GROUPTOP:0:7",
                                             "GROUPTOP:0:5 LANE:1:8 UNROLL:2:2",
                                             "PADTO:0:60"};
enum { REDUCE_OPTIONS = sizeof reduce_options / sizeof *reduce_options };

/* out = the reduction of n elements; n < 0: as many as the scalar param says. body: lines of text
 * that make %200, which is reduced, of %100, which is loaded. NULL: the elements themselves. */
static inline const tolk_uop *reduce_kernel(tolk_graph *g, const char *op, tolk_dtype dtype,
                                            int64_t n, const char *body) {
    const char *name = tolk_dtype_name(dtype);
    char text[2048], size[128];
    if (n < 0)
        snprintf(size, sizeof size,
                 "%%9 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=10000000}\n"
                 "%%1 = cast index (%%9)\n");
    else
        snprintf(size, sizeof size, "%%1 = const index %lld\n", (long long)n);
    snprintf(text, sizeof text,
             "tolk.uop 1\n%s%%2 = const index 1\n%%3 = param %s (%%2) {slot=0}\n"
             "%%4 = param %s (%%1) {slot=1}\n%%5 = range index (%%1) {axis=0, kind=reduce}\n"
             "%%6 = index %s (%%4, %%5)\n%%100 = load %s (%%6)\n%s"
             "%%300 = reduce %s (%%%d, %%5) {op=%s}\n%%301 = const index 0\n"
             "%%302 = index %s (%%3, %%301)\n%%303 = store void (%%302, %%300)\n"
             "%%304 = sink void (%%303) {name=\"reduction\"}\n",
             size, name, name, name, name, body ? body : "", name, body ? 200 : 100, op, name);
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK ||
        tolk_verify(root, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
        fail_msg("%s\n%s", err.msg, text);
    return root;
}

/* NULL: the options were refused, which only may_refuse allows. */
static inline tolk_program *reduce_compile(tk_diff *d, const tolk_uop *kernel, uint32_t target,
                                           const char *opts, bool strict, bool may_refuse) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    o.target = tk_diff_target_names[target];
    o.opts = opts;
    o.strict = strict;
    o.no_cache = 1;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_compile(d->device, kernel, &o, &p, &err);
    if (st != TOLK_OK && !(st == TOLK_E_ARG && may_refuse))
        fail_msg("options \"%s\" on %s: %s", opts ? opts : "heuristic", o.target, err.msg);
    return p;
}

/* What the program makes of n elements, as bits. symbolic: it has the param n. */
static inline uint64_t reduce_run(const tolk_program *p, tolk_dtype dtype, const void *x, size_t n,
                                  bool symbolic) {
    uint64_t out = 0;
    void *bufs[2] = {&out, (void *)(uintptr_t)x};
    const size_t bytes[2] = {tolk_dtype_bytes(dtype), n * tolk_dtype_bytes(dtype)};
    const int64_t vals[1] = {(int64_t)n};
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_launch(p, bufs, bytes, 2, vals, symbolic, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return out;
}

#endif
