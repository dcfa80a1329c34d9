/* SPDX-License-Identifier: MIT */
#include "base/deep.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

typedef struct call {
    void (*fn)(void *);
    void *arg;
} call;

static void *enter(void *p) {
    const call *c = p;
    c->fn(c->arg);
    return NULL;
}

bool tk_deep_start(size_t bytes, void *(*fn)(void *arg), void *arg, pthread_t *thread) {
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    bool made = pthread_attr_setstacksize(&attr, bytes) == 0;
    if (made) {
        sigfillset(&all);
        /* Blocked, these end the process without the host's handler. */
        static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            sigdelset(&all, own[i]);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        made = pthread_create(thread, &attr, fn, arg) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    pthread_attr_destroy(&attr);
    return made;
}

size_t tk_deep_left(void) {
    static _Thread_local uintptr_t low, bytes; /* a thread's stack stays where it is */
    if (!bytes) {
        pthread_attr_t attr;
        void *lowest = NULL;
        size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attr) != 0)
            return 0;
        int failed = pthread_attr_getstack(&attr, &lowest, &size);
        pthread_attr_destroy(&attr);
        if (failed)
            return 0;
        low = (uintptr_t)lowest;
        bytes = size;
    }
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here < low || here - low > bytes ? 0 : here - low;
}

static bool run_on_thread(size_t bytes, call *c) {
    pthread_t thread;
    int cancel;
    if (!tk_deep_start(bytes, enter, c, &thread))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_join(thread, NULL);
    pthread_setcancelstate(cancel, NULL);
    return true;
}

bool tk_deep_run(size_t bytes, void (*fn)(void *arg), void *arg) {
    call c = {fn, arg};
    if (run_on_thread(bytes, &c))
        return true;
    if (tk_deep_left() < bytes / 4)
        return false;
    fn(arg);
    return true;
}
