/* SPDX-License-Identifier: MIT
 *
 * Devices that exist for tests only: families whose memory counts what is done with it, fails when
 * told to, and may be out of the host's sight; and tasks that wait until they are let go.
 */
#ifndef TEST_FAKE_H
#define TEST_FAKE_H

#include "base/ctx.h"
#include "base/status.h"
#include "jit/device.h"
#include "realize/copy.h"
#include "realize/realize.h"
#include "support/tk_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum fake_call {
    FAKE_ALLOC,
    FAKE_RELEASE,
    FAKE_IN,
    FAKE_OUT,
    FAKE_ZERO,
    FAKE_TRANSFER,
    FAKE_CALLS
} fake_call;

enum { FAKE_DEVICES = 4 };

/* One family. */
typedef struct fake {
    tk_backend backend;
    tk_memory_ops ops;
    uint32_t devices;
    _Atomic int calls[FAKE_CALLS];       /* so far */
    _Atomic int fail[FAKE_CALLS];        /* the call of this number fails, from 1; 0: none */
    _Atomic size_t live;                 /* bytes allocated now */
    _Atomic size_t most;                 /* moved by one call */
    size_t room;                         /* most bytes of live; 0: no limit */
    tolk_status count_fails, open_fails; /* TOLK_OK: they do not */
    tolk_limits limits[FAKE_DEVICES];
} fake;

/* What is out of sight has addresses that nobody can read. */
#define FAKE_FAR ((uintptr_t)1 << 56)

static __attribute__((unused)) fake *fake_of(const tolk_device *d) {
    return d->state;
}
static __attribute__((unused)) bool fake_fails(fake *f, fake_call c) {
    return ++f->calls[c] == f->fail[c];
}
static __attribute__((unused)) char *fake_real(const fake *f, const void *at) {
    return (char *)((uintptr_t)at - (f->ops.host_visible ? 0 : FAKE_FAR));
}
static __attribute__((unused)) void *fake_alloc(tolk_device *d, size_t bytes, size_t alignment) {
    fake *f = fake_of(d);
    assert_true(bytes > 0 && alignment >= 64 && !(alignment & (alignment - 1)));
    if (fake_fails(f, FAKE_ALLOC) || (f->room && f->live + bytes > f->room))
        return NULL;
    void *at = NULL;
    if (posix_memalign(&at, alignment, bytes) != 0)
        return NULL;
    memset(at, 0x5a, bytes);
    f->live += bytes;
    return (void *)((uintptr_t)at + (f->ops.host_visible ? 0 : FAKE_FAR));
}
static __attribute__((unused)) void fake_release(tolk_device *d, void *at, size_t bytes,
                                                 size_t alignment) {
    fake *f = fake_of(d);
    (void)fake_fails(f, FAKE_RELEASE);
    assert_true(f->live >= bytes && (uintptr_t)fake_real(f, at) % alignment == 0);
    f->live -= bytes;
    free(fake_real(f, at));
}
static __attribute__((unused)) tolk_status fake_move(fake *f, fake_call c, void *to,
                                                     const void *from, size_t bytes,
                                                     tolk_error *err) {
    assert_true(bytes > 0);
    if (f->most < bytes)
        f->most = bytes;
    if (fake_fails(f, c)) {
        *err = (tolk_error){.code = TOLK_E_IO, .node = UINT32_MAX, .msg = "the fake failed"};
        return TOLK_E_IO;
    }
    if (from)
        memmove(to, from, bytes);
    else
        memset(to, 0, bytes);
    return TOLK_OK;
}
static __attribute__((unused)) tolk_status fake_in(tolk_device *d, void *dst, const void *host,
                                                   size_t bytes, tolk_error *err) {
    return fake_move(fake_of(d), FAKE_IN, fake_real(fake_of(d), dst), host, bytes, err);
}
static __attribute__((unused)) tolk_status fake_out(tolk_device *d, void *host, const void *src,
                                                    size_t bytes, tolk_error *err) {
    return fake_move(fake_of(d), FAKE_OUT, host, fake_real(fake_of(d), src), bytes, err);
}
static __attribute__((unused)) tolk_status fake_zero(tolk_device *d, void *at, size_t bytes,
                                                     tolk_error *err) {
    return fake_move(fake_of(d), FAKE_ZERO, fake_real(fake_of(d), at), NULL, bytes, err);
}
static __attribute__((unused)) tolk_status fake_transfer(tolk_device *dst, void *to,
                                                         tolk_device *src, const void *from,
                                                         size_t bytes, tolk_error *err) {
    assert_ptr_equal(fake_of(dst), fake_of(src));
    fake *f = fake_of(dst);
    return fake_move(f, FAKE_TRANSFER, fake_real(f, to), fake_real(f, from), bytes, err);
}
static __attribute__((unused)) tolk_status fake_count(tolk_ctx *ctx, void *family, uint32_t *n,
                                                      tolk_error *err) {
    (void)ctx;
    const fake *f = family;
    if (f->count_fails)
        return tk_status_fail(err, f->count_fails, TK_NO_NODE, "the fake cannot be counted");
    *n = f->devices;
    return TOLK_OK;
}
static __attribute__((unused)) tolk_status fake_open(tolk_device *d, void *family, uint32_t ordinal,
                                                     tolk_error *err) {
    const fake *f = family;
    if (f->open_fails)
        return tk_status_fail(err, f->open_fails, TK_NO_NODE, "fake %u cannot be opened", ordinal);
    d->state = family;
    return TOLK_OK;
}
static __attribute__((unused)) void fake_limits(tolk_ctx *ctx, void *family, uint32_t ordinal,
                                                tolk_limits *out) {
    (void)ctx;
    *out = ((const fake *)family)->limits[ordinal];
}
static __attribute__((unused)) void fake_debug_info(const tolk_device *d, tk_strbuf *sb) {
    (void)d;
    tk_strbuf_str(sb, "\"fake\": true");
}
static __attribute__((unused)) void fake_destroy(tolk_device *d) {
    (void)d;
}

/* Before the first device of ctx is opened: a family "NAME" of n devices. */
static __attribute__((unused)) tolk_status fake_try_add(tolk_ctx *ctx, fake *f, const char *name,
                                                        uint32_t n, bool visible, bool transfers) {
    memset(f, 0, sizeof *f);
    f->devices = n; /* more than FAKE_DEVICES have no limits to ask for */
    f->ops = (tk_memory_ops){.host_visible = visible,
                             .alloc = fake_alloc,
                             .release = fake_release,
                             .copyin = fake_in,
                             .copyout = fake_out,
                             .zero = fake_zero,
                             .transfer = transfers ? fake_transfer : NULL};
    f->backend = (tk_backend){.framework = name,
                              .priority = -1,
                              .count = fake_count,
                              .open = fake_open,
                              .limits = fake_limits,
                              .memory = &f->ops,
                              .debug_info = fake_debug_info,
                              .destroy = fake_destroy};
    return tk_family_add(ctx, &f->backend, f, NULL, NULL);
}
static __attribute__((unused)) void fake_add(tolk_ctx *ctx, fake *f, const char *name, uint32_t n,
                                             bool visible, bool transfers) {
    assert_int_equal(fake_try_add(ctx, f, name, n, visible, transfers), TOLK_OK);
}

/* ---- a task that waits ---- */

typedef struct gate {
    sem_t begun, open;
} gate;

static __attribute__((unused)) tolk_status gate_run(void *arg, tolk_error *err) {
    gate *g = arg;
    (void)err;
    sem_post(&g->begun);
    while (sem_wait(&g->open) != 0)
        ;
    return TOLK_OK;
}
/* The queue of d stands until gate_open(). */
static __attribute__((unused)) void gate_close(gate *g, tolk_device *d) {
    sem_init(&g->begun, 0, 0);
    sem_init(&g->open, 0, 0);
    assert_int_equal(tolk_queue_submit(d, gate_run, g, NULL, "gate", NULL), TOLK_OK);
    while (sem_wait(&g->begun) != 0)
        ;
}
static __attribute__((unused)) void gate_open(gate *g) {
    sem_post(&g->open);
}

/* ---- a call that may wait, on a thread of its own ---- */

typedef struct call {
    tolk_status (*fn)(void *arg, tolk_error *err);
    void *arg;
    tolk_status st;
    tolk_error err;
    _Atomic int done;
    pthread_t thread;
} call;

static __attribute__((unused)) void *call_main(void *arg) {
    call *c = arg;
    c->st = c->fn(c->arg, &c->err);
    c->done = 1;
    return NULL;
}
static __attribute__((unused)) void
call_start(call *c, tolk_status (*fn)(void *arg, tolk_error *err), void *arg) {
    memset(c, 0, sizeof *c);
    c->fn = fn;
    c->arg = arg;
    assert_int_equal(pthread_create(&c->thread, NULL, call_main, c), 0);
}
/* Is it still waiting after a while? */
static __attribute__((unused)) bool call_waits(call *c) {
    usleep(30000);
    return !c->done;
}
static __attribute__((unused)) tolk_status call_end(call *c) {
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    return c->st;
}

/* ---- shorthands ---- */

static __attribute__((unused)) tolk_status fail_task(void *arg, tolk_error *err) {
    (void)arg;
    return tk_status_fail(err, TOLK_E_IO, TK_NO_NODE, "the task failed");
}
static __attribute__((unused)) tolk_memory_stats stats_of(const tolk_device *d) {
    tolk_memory_stats s;
    assert_int_equal(tolk_device_memory_stats(d, &s), TOLK_OK);
    return s;
}
/* A context with n CPU devices that logs nowhere. */
static __attribute__((unused)) void fake_log(void *user, tolk_log_level level, const char *text) {
    (void)user, (void)level, (void)text;
}
static __attribute__((unused)) tolk_ctx *fake_ctx(const char *cpu_devices, const char *freelist) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.log = fake_log;
    tolk_ctx *ctx;
    cpu_devices ? setenv("TOLK_CPU_DEVICES", cpu_devices, 1) : unsetenv("TOLK_CPU_DEVICES");
    freelist ? setenv("TOLK_FREELIST_BYTES", freelist, 1) : unsetenv("TOLK_FREELIST_BYTES");
    assert_int_equal(tolk_ctx_create(&o, &ctx, NULL), TOLK_OK);
    return ctx;
}
static __attribute__((unused)) tolk_device *fake_device(tolk_ctx *ctx, const char *name) {
    tolk_device *d;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_device_open(ctx, name, &d, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return d;
}

#endif
