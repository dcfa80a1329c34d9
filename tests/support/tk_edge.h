/* SPDX-License-Identifier: MIT
 *
 * Elementwise kernels on many rows of operands at once: the interpreter against stated values, and
 * code against the interpreter, for every target that this machine runs, with the options that the
 * heuristic chooses, with none, with other numbers of lanes, and in windows of a few rows, which
 * tails compute.
 */
#ifndef TK_EDGE_H
#define TK_EDGE_H

#include "support/tk_test.h"

#include <tolk/tolk.h>

enum { TK_EDGE_VALUES = 384, TK_EDGE_OPERANDS = 3 };

/* Group setup and teardown: one context and device for a program. */
int tk_edge_setup(void **state);
int tk_edge_teardown(void **state);

/* A graph of that context. */
tolk_graph *tk_edge_graph(void);

/* The dtypes that compilers have and memory holds: bool, i8..i64, u8..u64, f32, f64. */
enum { TK_EDGE_DTYPES = 11 };
extern const tolk_dtype tk_edge_dtypes[TK_EDGE_DTYPES];

/* Values where something happens, all different, as canonical bits; bool as bytes, of which all
 * but 0 are true. Room for TK_EDGE_VALUES. Returns their number.
 *
 *   more: also those at which a conversion to another dtype rounds or leaves its range.
 */
size_t tk_edge_values(tolk_dtype dtype, bool more, uint64_t *out);

typedef struct tk_edge {
    const char *name; /* for messages */
    const char *body; /* lines of text: operands are %100, %101, %102, results %200, %201 ...; other
                       * numbers from 300 on are free */
    tolk_dtype in[TK_EDGE_OPERANDS]; /* TOLK_VOID: no such operand */
    tolk_dtype out;
    const uint64_t *bits[TK_EDGE_OPERANDS]; /* of each row */
    size_t rows, results;                   /* results 0: one */
    const uint64_t *want; /* results * rows, one result after the other; NULL: the interpreter's */
    bool all_bits;        /* NaNs are compared by their bits, too */
    bool functions;       /* has math functions: a target without FMA has a column of its own */
} tk_edge;

/* The ways to run code: with the heuristic's options; with none; with lanes of a width that differs
 * from call to call; in windows of a few rows of a symbolic size; on each target, or on one that
 * differs from call to call. */
enum {
    TK_EDGE_HEURISTIC = 1,
    TK_EDGE_NONE = 2,
    TK_EDGE_LANES = 4,
    TK_EDGE_WINDOWS = 8,
    TK_EDGE_ONE_TARGET = 16,
    TK_EDGE_EVERYTHING = 15
};
/* Fails the test at the first difference, naming the row. */
void tk_edge_run_ways(const tk_edge *e, unsigned ways);
/* Everything with the whole of the random suites (tk_test_share); else lanes on each target, and no
 * options and windows on one. */
void tk_edge_run(const tk_edge *e);

/* Operand `which` comes from a scalar param of the launch, which takes each of `values` in turn;
 * the others are e's rows. Code against the interpreter; e->want is not looked at. All targets
 * with the whole of the random suites, else one that differs from call to call. */
void tk_edge_run_scalar(const tk_edge *e, int which, const uint64_t *values, size_t n);

#endif
