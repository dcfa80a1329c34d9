/* SPDX-License-Identifier: MIT
 *
 * Record and replay of a function: what its parts share.
 *
 *   jit.c         which run is which, and the API
 *   jit_lower.c   from linears that were captured to one that runs: inputs become PARAMs, memory
 *                 is planned, calls become graphs
 *   jit_inputs.c  whether a replay's inputs and variables are such as were captured
 */
#ifndef TK_REALIZE_JIT_H
#define TK_REALIZE_JIT_H

#include "realize/captures.h"

#include "ir/walk.h"
#include "schedule/memory_plan.h"

typedef enum tk_jit_next { TK_JIT_RUN, TK_JIT_CAPTURE, TK_JIT_REPLAY } tk_jit_next;

/* One buffer of those that a replay may not confuse. */
typedef struct tk_jit_place {
    tolk_device *device;
    tolk_dtype dtype;
    size_t elem_bytes, n;
    uintptr_t from, to; /* its memory */
    uint32_t input; /* number of the input, which has one place for each device; others: n_inputs */
    bool is_written;
} tk_jit_place;
typedef TK_VEC(tk_jit_place) tk_jit_places;

/* Places that shared memory when they were captured. */
typedef struct tk_jit_overlap {
    uint32_t a, b;     /* numbers of places, a < b */
    intptr_t distance; /* from where a begins to where b does */
    bool is_one;       /* one node was two inputs: they must be one buffer again */
} tk_jit_overlap;

/* What a replay runs, and what it needs to be what was captured. */
typedef struct tk_jit_replay {
    tolk_linear *linear;
    tolk_exec *exec;
    tk_memory_plan_own own; /* nodes of the linear's graph */
    tk_walk_list others;    /* BUFFERs that it uses and that are no inputs */
    TK_VEC(bool) writes;    /* does it write to that input, then that one of others? */
    uint32_t n_inputs;
    TK_VEC(char *) names; /* of the variables; texts of base/strbuf.h */
    TK_VEC(tk_jit_overlap) overlaps;
    TK_VEC(uint32_t) one_as; /* for each input the first one that was the same node */
    tk_jit_places captured;  /* those of inputs first, in their order */
    tk_jit_places now;       /* scratch of a check */
} tk_jit_replay;

struct tolk_jit {
    tolk_ctx *ctx;
    tolk_bindings *bindings;
    tolk_jit_fn fn;
    void *user;
    uint32_t batch;
    bool no_graphs;
    const tolk_realize_opts *realize; /* borrowed; NULL: the defaults */
    tolk_graph *graph;                /* of held */
    tk_walk_list held;
    tk_jit_next next;
    bool busy, reset;     /* reset: when the call is over */
    tk_jit_replay replay; /* set where next is REPLAY */
};

void tk_jit_replay_init(tk_jit_replay *p, const tolk_jit *jit);
void tk_jit_replay_fini(tk_jit_replay *p, const tolk_jit *jit);

/* ---- jit_lower.c ---- */

/* What was captured so far, in a graph of its own. */
typedef struct tk_jit_recording {
    const tolk_jit *jit;
    const tolk_run_args *args; /* of the call that captures */
    tolk_graph *graph;
    tk_walk_list calls; /* compiled */
    tk_walk_list held;
} tk_jit_recording;

tolk_status tk_jit_recording_init(tk_jit_recording *r, const tolk_jit *jit,
                                  const tolk_run_args *args, tolk_error *err);
void tk_jit_recording_fini(tk_jit_recording *r);
/* Compile a linear and append its calls. Errors: TOLK_E_ARG (other bindings; a variable has another
 * value than in args), TOLK_E_UNBOUND (args has no such variable: a replay would not know its
 * value), those of tolk_compile_linear(). */
tolk_status tk_jit_recording_add(tk_jit_recording *r, const tk_captured *x, tolk_error *err);
/* Make what a replay runs. Errors: TOLK_E_ARG (nothing was recorded; an input is no BUFFER),
 * TOLK_E_UNBOUND (a PARAM is left), those of tolk_exec_create(). */
tolk_status tk_jit_lower(tk_jit_recording *r, tk_jit_replay *p, tolk_error *err);

/* ---- jit_inputs.c ---- */

/* Remember what the inputs are and which memory is whose. Errors: TOLK_E_UNBOUND, TOLK_E_NOMEM. */
tolk_status tk_jit_inputs_remember(const tolk_jit *jit, tk_jit_replay *p, const tolk_run_args *args,
                                   tolk_error *err);
/* May they be replayed with? Errors: as tolk_jit_call(). */
tolk_status tk_jit_inputs_check(const tolk_jit *jit, tk_jit_replay *p, const tolk_run_args *args,
                                tolk_error *err);

#endif
