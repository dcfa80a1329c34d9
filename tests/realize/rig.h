/* SPDX-License-Identifier: MIT
 *
 * Queues without devices for tests, tasks that wait to be let go, and a list of what ran.
 */
#ifndef TK_RIG_H
#define TK_RIG_H

#include "base/ctx.h"
#include "realize/queue_parts.h"
#include "support/tk_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RIG_UNUSED __attribute__((unused))

enum { RIG_QUEUES = 4 };
static const char *const rig_names[RIG_QUEUES] = {"CPU", "CPU:1", "CPU:2", "CPU:3"};

typedef struct rig {
    tolk_ctx *ctx;
    tk_queue *q[RIG_QUEUES];
    int n;
} rig;

RIG_UNUSED static void rig_open(rig *r, int n, bool inline_only, uint32_t spin_us) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    memset(r, 0, sizeof *r);
    r->n = n;
    assert_int_equal(tk_ctx_init(&opts, &r->ctx, NULL), TOLK_OK);
    for (int i = 0; i < n; i++)
        assert_int_equal(
            tk_queue_create(r->ctx, rig_names[i], inline_only, spin_us, &r->q[i], NULL), TOLK_OK);
}

/* The status of closing the first queue that was stopped, or TOLK_OK. */
RIG_UNUSED static tolk_status rig_close(rig *r) {
    tolk_status first = TOLK_OK;
    for (int i = 0; i < r->n; i++) {
        tolk_status st = tk_queue_close(r->q[i], NULL);
        first = first ? first : st;
        tk_queue_free(r->q[i]);
    }
    tk_ctx_fini(r->ctx);
    return first;
}

RIG_UNUSED static void rig_pause(unsigned microseconds) {
    struct timespec t = {microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* Wait for a flag that another thread sets, at most 20 seconds. */
RIG_UNUSED static bool rig_await(const _Atomic int *flag) {
    for (int i = 0; i < 200000; i++) {
        if (atomic_load(flag))
            return true;
        rig_pause(100);
    }
    return false;
}

/* A task that says it runs and waits until it is let go. */
typedef struct gate {
    _Atomic int runs, go;
    tolk_status result;
} gate;
RIG_UNUSED static tolk_status gate_task(void *arg, tolk_error *err) {
    gate *g = arg;
    (void)err;
    atomic_store(&g->runs, 1);
    return rig_await(&g->go) ? g->result : TOLK_E_INTERNAL;
}

/* What ran, in order. */
typedef struct track {
    _Atomic int n;
    int at[4096];
} track;
typedef struct step {
    track *ran, *released;
    int id;
    tolk_status result;
} step;
RIG_UNUSED static void track_add(track *t, int id) {
    int i = atomic_fetch_add(&t->n, 1);
    if (i < 4096)
        t->at[i] = id;
}
RIG_UNUSED static tolk_status step_task(void *arg, tolk_error *err) {
    step *s = arg;
    track_add(s->ran, s->id);
    if (s->result != TOLK_OK)
        snprintf(err->msg, sizeof err->msg, "step %d is broken", s->id);
    return s->result;
}
RIG_UNUSED static void step_release(void *arg) {
    step *s = arg;
    track_add(s->released, s->id);
}

RIG_UNUSED static tolk_status rig_add_one(void *arg, tolk_error *err) {
    (void)err;
    ++*(int *)arg; /* not atomic: the queue orders it */
    return TOLK_OK;
}

RIG_UNUSED static tolk_status rig_succeed(void *arg, tolk_error *err) {
    (void)arg;
    (void)err;
    return TOLK_OK;
}

RIG_UNUSED static tolk_status rig_fail_empty(void *arg, tolk_error *err) {
    (void)err;
    return *(tolk_status *)arg;
}

RIG_UNUSED static tolk_status rig_submit(tk_queue *q, tolk_task_fn fn, void *arg, const char *label,
                                         uint64_t *ticket) {
    tk_command c = {.run = fn, .arg = arg, .label = label};
    return tk_queue_submit(q, &c, ticket, NULL);
}

/* Tests run with and without workers. */
#define RIG_BOTH(name)                                                                             \
    static void name##_workers(void **state) {                                                     \
        (void)state;                                                                               \
        name(false);                                                                               \
    }                                                                                              \
    static void name##_inline(void **state) {                                                      \
        (void)state;                                                                               \
        name(true);                                                                                \
    }
#define RIG_TESTS(name) cmocka_unit_test(name##_workers), cmocka_unit_test(name##_inline)

#endif
